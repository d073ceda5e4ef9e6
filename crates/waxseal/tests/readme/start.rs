use waxseal::{Db, Durability};

fn main() -> waxseal::Result<()> {
    let db = Db::open("start.waxseal")?; // makes it if it is not there
    let users = db.column_family("users")?;
    users.put("alice", "1815")?; // survives the process
    assert_eq!(users.get("alice")?.unwrap(), "1815");

    let mut batch = db.batch(); // all or nothing
    batch.put(&users, "bob", "1912").delete(&users, "alice");
    batch.commit(Durability::Sync)?; // survives the machine

    for row in users.range("a"..) {
        let (key, value) = row?; // checked against what was put
        println!("{} {}", key.escape_ascii(), value.escape_ascii());
    }
    let sealed = users.get_sealed("bob")?.unwrap(); // the value with its seal, to keep or to send along
    users.put_sealed("bob", &sealed.value, sealed.seal)?; // refused if anything happened to it since
    db.close()
}
