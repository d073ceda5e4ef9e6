import waxseal

with waxseal.open("start.waxseal") as db:  # makes it if it is not there
    users = db.family("users")
    users[b"alice"] = b"1815"  # survives the process
    assert users[b"alice"] == b"1815"

    with users.batch(durability="sync") as batch:  # all or nothing, and it survives the machine
        batch.put(b"bob", b"1912")
        batch.delete(b"alice")

    for key, value in users.iterator(start=b"a"):  # checked against what was put
        print(key, value)

    record = users.get_with_meta(b"bob")  # the value with its seal, to keep or to send along
    users.put_sealed(b"bob", record.value, record.seal)  # refused if anything happened to it since

    db.session("alice").register("users", "*")  # from now on the log knows who did what
    users[b"carol"] = b"1906"
    print(db.query_latest("users.carol", "*"))
