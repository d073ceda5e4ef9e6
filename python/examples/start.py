import waxseal

with waxseal.open("start.waxseal") as db:  # makes it if it is not there
    users = db.family("users")
    users[b"alice"] = b"1815"  # survives the process
    assert users[b"alice"] == b"1815"

    with db.batch(durability="sync") as batch:  # all or nothing; survives the machine
        batch.put(b"bob", b"1912", family=users)
        batch.delete(b"alice", family=users)

    for key, value in users.iterator(start=b"a"):  # checked against what was put
        print(key, value)
    record = users.get_with_meta(b"bob")  # the value with its seal, to keep or to send along
    users.put_sealed(b"bob", record.value, record.seal)  # refused if anything happened to it since
