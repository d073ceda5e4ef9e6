//! A little of everything: `cargo run -p waxseal --example quickstart`.

use waxseal::{Db, Durability};

fn main() -> waxseal::Result<()> {
    let db = Db::open("quickstart-store")?; // makes it if it is not there
    let users = db.column_family("users")?; // made on first use
    users.put("alice", "1815")?; // survives the process
    users.put("bob", "1912")?;
    assert_eq!(users.get("alice")?.unwrap(), "1815");

    let mut batch = db.batch(); // any families, all or nothing
    batch.put(&users, "carol", "1906").delete(&users, "bob");
    batch.commit(Durability::Sync)?; // survives the machine

    let snapshot = db.snapshot();
    users.put("dora", "1926")?;
    assert!(!snapshot.contains(&users, "dora")?);

    for row in users.range("a"..).rev() {
        let (key, value) = row?; // checked against what was put
        println!("{} {}", key.escape_ascii(), value.escape_ascii());
    }
    let sealed = users.get_sealed("alice")?.unwrap(); // the value with its seal, to keep or to send along
    users.put_sealed("alice", &sealed.value, sealed.seal)?; // checked here, and refused if anything happened since

    let alice = db.session("alice")?; // who writes
    alice.register("users", "*")?; // from now on the log knows who did what to any key
    alice.column_family("users")?.put("alice", "1816")?;
    assert_eq!(db.registry().query_latest("users.alice", "*")?.unwrap().key.client, "alice");
    db.close()?;
    Db::destroy("quickstart-store")
}
