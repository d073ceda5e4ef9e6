//! Every experiment about registry and log as a user calls it, tiny: its lines have their shape, what is about right
//! and wrong passes, and what is about time may be undecided or, at this size, fail. And what deferred rows cost a put,
//! by counters.
#![expect(clippy::disallowed_methods, reason = "a driver's test reads what the driver wrote")]

mod lines;

use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Family, Parts};
use waxseal_lsm::env::{Env, MemoryFs, work};
use waxseal_lsm::options::{CfOptions, Durability, Settings};
use waxseal_lsm::record::Kind;
use waxseal_meta::Sealer;
use waxseal_registry::sessions::session_key;
use waxseal_registry::{Identity, Mode, Operation, Options, Registrar, Scope, Session, Setup, Target};

const PROGRAM: &str = env!("CARGO_BIN_EXE_waxseal-papers");

/// Runs an experiment, and holds its lines to their shape.
fn lines(arguments: &[&str]) {
    lines::lines(PROGRAM, "wasef", arguments);
}

/// All lines of an experiment pass, but those that measure time or need another program.
fn passes(arguments: &[&str], others: &[&str]) {
    lines::passes(PROGRAM, "wasef", arguments, others);
}

#[test]
fn calls_answer_as_they_should() {
    passes(&["conformance", "--scale", "0.008"], &["tool", "from_"]);
}

#[test]
fn what_survives_a_crash_is_logged() {
    passes(&["crash", "--scale", "0.003"], &[]);
}

#[test]
fn registrations_hold_from_their_seqno_on() {
    passes(&["linearize", "--scale", "0.05"], &[]);
}

#[test]
fn every_file_has_a_lineage() {
    passes(&["lineage", "--scale", "0.02"], &[]);
}

#[test]
fn keys_of_events_are_their_own() {
    // Whether two events meet in one moment, as the paper's key needs to lose one, is up to the machine.
    passes(&["ablate", "--scale", "0.002"], &["check", "writing", "keys.paper"]);
    passes(&["query", "--scale", "0.002"], &["latest", "all_operations"]);
}

#[test]
fn what_is_about_time_has_its_lines() {
    lines(&["throughput", "--scale", "0.0002"]);
    lines(&["latency", "--scale", "0.0002"]);
    lines(&["metasize", "--scale", "0.0002"]);
}

/// A store of one family, watched or not, in one thread.
struct Store {
    db: Db,
    family: Family,
    registrar: Registrar,
    who: Option<Session>,
}

impl Store {
    fn open(watched: bool) -> Store {
        let env = Env { fs: Arc::new(MemoryFs::default()), work: work::Mode::Stepped, ..Env::real() };
        let prepared = Registrar::prepare(Setup::new(&env));
        let sealer = Arc::new(Sealer::new().emitting(prepared.emitter.clone()));
        let mut families = vec![("default".to_owned(), CfOptions::default())];
        families.extend(prepared.families.clone());
        let engine_log = Some(prepared.engine_log.clone());
        let parts = Parts { env, companions: sealer.clone(), families, engine_log, ..Parts::real() };
        let db = Db::open(std::path::Path::new("/store"), Settings::default(), parts).expect("opened");
        let family = db.family("default").expect("it always exists");
        let registrar = prepared.attach(db.clone(), sealer).expect("attached");
        let mut store = Store { db, family, registrar, who: None };
        if watched {
            let options = Options { scope: Scope::Subtree, mode: Mode::Deferred, ..Options::default() };
            let target = Target::family("default");
            store.registrar.register(&target, Some(Operation::ROW_UPDATE), Some(options), None).expect("registered");
            // A session has its number from its first watched commit on; the 16,383rd is the last whose number takes
            // two bytes.
            for number in 0..16_383 {
                store.who =
                    Some(store.registrar.session(Identity::named(format!("session{number}"))).expect("a session"));
                store.put(0);
            }
            let rows = store.db.family("system_metadata.sessions").expect("a family of the system");
            let last = store.db.get(&rows, &session_key(16_383), At::Latest, &mut |_| {}).expect("read");
            assert!(last, "the last session has another number");
        }
        store
    }

    fn put(&self, number: u64) {
        let mut batch = Batch::new();
        let key = format!("key{number:06}");
        batch.push(self.family.id(), Kind::Put, key.as_bytes(), &[7; 100], self.db.companions()).expect("pushed");
        self.registrar.commit(&mut batch, Durability::Os, self.who.as_ref(), &[]).expect("committed");
    }

    fn frame_bytes(&self) -> u64 {
        self.db.metrics().wal.frame_bytes
    }

    /// Records in memtables, of all families: each commit makes so many.
    fn inserted(&self) -> u64 {
        let mut records = 0;
        for family in self.db.families() {
            let mut cursor = self.db.unflushed(&family, At::Latest).expect("a cursor");
            cursor.first().expect("moved");
            while cursor.valid() {
                records += 1;
                cursor.next().expect("moved");
            }
        }
        records
    }
}

#[test]
fn deferred_costs_sixteen_bytes_and_no_insert() {
    let cost = |watched| {
        let store = Store::open(watched);
        store.put(0);
        let (bytes, inserted) = (store.frame_bytes(), store.inserted());
        (1..=1_000).for_each(|number| store.put(number));
        let more = store.inserted() - inserted;
        (store.frame_bytes() - bytes, more)
    };
    let ((plain, plain_inserts), (watched, watched_inserts)) = (cost(false), cost(true));
    assert_eq!((plain_inserts, watched_inserts), (1_000, 1_000));
    assert!(watched > plain, "{watched} of {plain}: nothing was watched");
    assert!(watched <= plain + 16 * 1_000, "{} bytes a put", (watched - plain) as f64 / 1_000.0);
}
