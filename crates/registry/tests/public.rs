//! An embedder's way: registry and log through what the crate offers to everybody, on a store in memory.

use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Parts};
use waxseal_lsm::env::{Env, MemoryFs};
use waxseal_lsm::error::Result;
use waxseal_lsm::options::{Durability, Settings};
use waxseal_lsm::record::Kind;
use waxseal_meta::Sealer;
use waxseal_registry::{
    Field, Identity, Image, Mode, Operation, Options, Paging, Payload, Query, Registrar, Scope, Setup, StampVerb,
    Target, Values,
};

#[test]
fn an_embedder_registers_writes_and_asks() -> Result<()> {
    // A store with registry and log: what `prepare` gives goes into it, `attach` takes it up.
    let env = Env { fs: Arc::new(MemoryFs::default()), ..Env::real() };
    let prepared = Registrar::prepare(Setup::new(&env));
    let sealer = Arc::new(Sealer::new().emitting(prepared.emitter.clone()));
    let mut families = prepared.families.clone();
    families.push(("users".to_owned(), Default::default()));
    let engine_log = Some(prepared.engine_log.clone());
    let parts = Parts { env, companions: sealer.clone(), families, engine_log, ..Parts::real() };
    let db = Db::open(Path::new("/store"), Settings::default(), parts)?;
    let registrar = prepared.attach(db.clone(), sealer)?;

    // The store's own operations, by the names of the paper too.
    let users = registrar.target("users")?;
    let update = registrar.operation("Update_Row")?;
    let options =
        Options { scope: Scope::Subtree, mode: Mode::Deferred, values: Values::OldNew, history: true, retention: None };
    assert!(registrar.register(&users, Some(update), Some(options), None)?);
    assert!(!registrar.register(&users, Some(update), Some(options), None)?, "the pair stands in the registry once");
    let alice = registrar.session(Identity::named("alice").authenticated("password"))?;
    let family = db.family("users").expect("made above");
    for value in [&b"Urbana"[..], b"Champaign"] {
        let mut batch = Batch::new();
        batch.push(family.id(), Kind::Put, b"john", value, db.companions())?;
        registrar.commit(&mut batch, Durability::Os, Some(&alice), &[StampVerb::Update])?;
    }
    for flushed in [false, true] {
        if flushed {
            db.flush()?;
        }
        let john = registrar.target("users.john")?;
        let latest = registrar.query_latest(&john, Some(update), None)?.expect("it was updated");
        assert_eq!((latest.key.client.as_str(), latest.key.operation), ("alice", Operation::ROW_UPDATE));
        let fields = latest.payload.fields();
        assert!(fields.contains(&Field::OldValue(Image::Value(b"Urbana".to_vec()))), "{fields:?}");
        assert!(fields.contains(&Field::NewValue(Image::Value(b"Champaign".to_vec()))));
        assert_eq!(registrar.query_all(&john, None, None)?.len(), 2);
    }

    // Operations of the embedder's own: defined, registered, added; what is not registered is refused.
    let reindex = registrar.define("app.reindex", None)?;
    assert!(registrar.log_add(&users, reindex, None, Payload::text("all"), Some(&alice)).is_err());
    registrar.register(&users, Some(reindex), None, None)?;
    registrar.log_add(&users, reindex, None, Payload::text("all"), Some(&alice))?;
    let added = registrar.query_latest(&users, Some(reindex), None)?.expect("added");
    assert_eq!(added.payload, Payload::text("all").with(Field::Authenticated("password".to_owned())));

    // Everything below the family, in pages; then it is deleted, row by row.
    let query = Query { below: true, ..Query::of(users.clone()) };
    let first = registrar.log_query(&query, &Paging::first(2), At::Latest, None)?;
    let rest = registrar.log_query(&query, &Paging { after: first.next, limit: 9 }, At::Latest, None)?;
    assert_eq!((first.events.len(), rest.events.len(), rest.next), (2, 1, None));
    assert_eq!(registrar.log_delete(&query, None)?, 3);
    assert_eq!(registrar.log_query(&query, &Paging::ALL, At::Latest, None)?.events, []);

    // What the engine did is in the log without being asked for.
    assert!(!registrar.query_all(&Target::Engine("flush".to_owned()), None, None)?.is_empty());
    registrar.close()?;
    db.close()
}
