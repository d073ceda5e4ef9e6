//! Sessions, what is watched, and what the log says of it: `cargo run -p waxseal --example who_did_what`.

use waxseal::registry::{RegisterOptions, Scope, Values};
use waxseal::{Db, WriteOptions};

fn main() -> waxseal::Result<()> {
    let db = Db::memory()?;
    let alice = db.session("alice")?;
    let accounts = alice.column_family("accounts")?;
    let options = RegisterOptions { scope: Scope::Subtree, values: Values::OldNew, ..Default::default() };
    alice.register_with("accounts", "*", options)?;

    accounts.put_with("4711", "100", WriteOptions::new().log_as_insert())?;
    accounts.put("4711", "250")?;
    db.session("bob")?.column_family("accounts")?.put("4711", "0")?;

    let registry = db.registry();
    let known = registry.provenance(&accounts, "4711")?;
    for event in &known.events {
        let operation = registry.operation_name(event.key.operation)?;
        println!("{} by {}: {:?}", operation, event.key.client, event.payload.fields());
    }
    assert_eq!(known.events.last().map(|event| event.key.client.as_str()), Some("bob"));
    db.close()
}
