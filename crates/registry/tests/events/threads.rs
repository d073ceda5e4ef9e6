//! Many threads at once, on a store in memory with its own background work.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Parts, Precondition};
use waxseal_lsm::env::{Clock, Env, Fs, MemoryFs};
use waxseal_lsm::options::{Durability, Settings};
use waxseal_lsm::record::{Kind, Seqno};
use waxseal_lsm::seam::PendingWrite;
use waxseal_meta::Sealer;
use waxseal_meta::stamp::{self, Stamp};
use waxseal_registry::{
    Field, Image, Mode, Operation, Options, Paging, Query, Registrar, Scope, Setup, StampVerb, Target, Values,
};

use crate::store::Told;

fn open(wall: Option<u64>) -> (Db, Registrar) {
    match wall {
        Some(wall) => open_by(Arc::new(Told(AtomicU64::new(wall)))),
        None => open_by(Env::real().clock),
    }
}

fn open_by(clock: Arc<dyn Clock>) -> (Db, Registrar) {
    let (db, registrar) = open_in(Arc::new(MemoryFs::default()), clock);
    db.create_family("users", Default::default()).unwrap();
    (db, registrar)
}

/// The store of a file system, as it is there.
pub(crate) fn open_in(fs: Arc<dyn Fs>, clock: Arc<dyn Clock>) -> (Db, Registrar) {
    let env = Env { fs, clock, ..Env::real() };
    let prepared = Registrar::prepare(Setup::new(&env));
    let sealer = Arc::new(Sealer::new().with(waxseal_meta::builtin::standard()).emitting(prepared.emitter.clone()));
    let parts = Parts {
        env,
        companions: sealer.clone(),
        families: prepared.families.clone(),
        engine_log: Some(prepared.engine_log.clone()),
        ..Parts::real()
    };
    let settings = Settings { memtable_bytes: 64 * 1024, ..Settings::default() };
    let db = Db::open(Path::new("/store"), settings, parts).unwrap();
    let registrar = prepared.attach(db.clone(), sealer).unwrap();
    (db, registrar)
}

fn put(db: &Db, registrar: &Registrar, key: &[u8]) -> Seqno {
    write(db, registrar, key, b"value", key.first().is_some_and(|first| first % 2 == 0))
}

/// Puts a value, alone or as a batch.
fn write(db: &Db, registrar: &Registrar, key: &[u8], value: &[u8], alone: bool) -> Seqno {
    let family = db.family("users").unwrap().id();
    if alone {
        let kind = Kind::Put;
        let mut pending = PendingWrite { family, kind, key, value, key_hash: None, entries: &[] };
        return registrar
            .commit_one(&mut Batch::new(), &mut pending, None, Durability::Os, (None, StampVerb::Update))
            .unwrap();
    }
    let mut batch = Batch::new();
    batch.push(family, Kind::Put, key, value, db.companions()).unwrap();
    registrar.commit(&mut batch, Durability::Os, None, &[]).unwrap()
}

/// Eight write while one registers and takes back: exactly what lies between is logged, and times rise with commits.
pub(crate) fn exact() {
    for mode in [Mode::Deferred, Mode::Sync] {
        let (db, registrar) = open(None);
        let target = Target::family("users");
        let options = Options { scope: Scope::Subtree, mode, values: Values::New, ..Options::default() };
        let stop = AtomicBool::new(false);
        let registry = db.family("system_metadata.registry").unwrap();
        // A compaction beside the writers would drop the row's tombstone, or the seqno of the row, before it is read
        // here.
        let kept = db.snapshot().unwrap();
        let row = waxseal_registry::key::registry_key(&target, Some(Operation::ROW_UPDATE)).unwrap();
        let (mut written, mut spans) = (Vec::new(), Vec::new());
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..8u64)
                .map(|thread| {
                    let (db, registrar, stop) = (&db, &registrar, &stop);
                    scope.spawn(move || {
                        let mut seqnos = Vec::new();
                        for n in 0..4000u64 {
                            if stop.load(SeqCst) {
                                break;
                            }
                            seqnos.push(put(db, registrar, &(thread << 32 | n).to_le_bytes()));
                        }
                        seqnos
                    })
                })
                .collect();
            let seqno_of_row = || db.locate(&registry, &row, At::Latest).unwrap().unwrap().seqno;
            for _ in 0..40 {
                registrar.register(&target, Some(Operation::ROW_UPDATE), Some(options), None).unwrap();
                let from = seqno_of_row();
                std::thread::yield_now();
                registrar.unregister(&target, Some(Operation::ROW_UPDATE), None).unwrap();
                spans.push((from, seqno_of_row()));
            }
            stop.store(true, SeqCst);
            drop(kept);
            written = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Vec<Seqno>>();
        });
        let is_watched = |seqno: Seqno| spans.iter().any(|(from, to)| (from + 1..*to).contains(&seqno));
        let query = Query { below: true, ..Query::of(target) };
        for flushed in [false, true] {
            if flushed {
                db.flush().unwrap();
            }
            let mut events = registrar.log_query(&query, &Paging::ALL, At::Latest, None).unwrap().events;
            events.sort_by_key(|event| event.key.seqno);
            let logged: Vec<Seqno> = events.iter().map(|event| event.key.seqno).collect();
            let mut expected: Vec<Seqno> = written.iter().copied().filter(|seqno| is_watched(*seqno)).collect();
            expected.sort_unstable();
            assert_eq!(logged, expected, "{mode:?}: not what was written while it was registered");
            let rise = events.is_sorted_by(|a, b| a.key.time < b.key.time);
            assert!(rise, "{mode:?}: times do not rise with commits");
        }
        registrar.close().unwrap();
    }
}

/// While the clock stands, each of very many events has a row of its own.
pub(crate) fn one_instant(threads: u64, each: u64) {
    for mode in [Mode::Deferred, Mode::Sync, Mode::Async] {
        let (db, registrar) = open(Some(77));
        let target = Target::key("users", *b"k");
        let options = Options { mode, ..Options::default() };
        registrar.register(&target, None, Some(options), None).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..each {
                        put(&db, &registrar, b"k");
                    }
                });
            }
        });
        registrar.drain().unwrap();
        let events = registrar.query_all(&target, None, None).unwrap();
        assert_eq!(events.len() as u64, threads * each, "{mode:?}");
        let mut keys: Vec<_> = events.iter().map(|event| (event.key.time, event.key.seqno)).collect();
        keys.dedup_by_key(|(time, _)| *time);
        assert_eq!(keys.len() as u64, threads * each, "{mode:?}: two events have one time");
        let latest = registrar.query_latest(&target, None, None).unwrap();
        assert_eq!(latest.as_ref(), events.last());
        registrar.close().unwrap();
    }
}

/// Of a key that many write, the old value of each event is the new one of the event before it.
pub(crate) fn chained(threads: u64, each: u64) {
    let (db, registrar) = open(None);
    let target = Target::key("users", *b"k");
    let options = Options { mode: Mode::Sync, values: Values::OldNew, ..Options::default() };
    registrar.register(&target, None, Some(options), None).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (db, registrar) = (&db, &registrar);
            scope.spawn(move || {
                for n in 0..each {
                    write(db, registrar, b"k", &(thread << 32 | n).to_le_bytes(), n % 2 == 0);
                }
            });
        }
    });
    let mut events = registrar.query_all(&target, None, None).unwrap();
    assert_eq!(events.len() as u64, threads * each);
    events.sort_by_key(|event| event.key.seqno);
    let mut before = Image::Absent;
    for event in &events {
        let (mut old, mut new) = (None, None);
        for field in event.payload.fields() {
            match field {
                Field::OldValue(image) => old = Some(image.clone()),
                Field::NewValue(image) => new = Some(image.clone()),
                _ => {}
            }
        }
        assert_eq!(old, Some(before), "at seqno {}", event.key.seqno);
        before = new.unwrap();
    }
    registrar.close().unwrap();
}

/// Deferred events of all below, with old values kept.
fn with_history() -> Options {
    Options { scope: Scope::Subtree, mode: Mode::Deferred, values: Values::OldNew, history: true, ..Options::default() }
}

/// An event says what it overwrote, though the family goes while its commit has its place and is not applied yet.
pub(crate) fn dropped_meanwhile() {
    let (db, registrar) = open(None);
    let target = Target::family("users");
    registrar.register(&target, Some(Operation::ROW_UPDATE), Some(with_history()), None).unwrap();
    put(&db, &registrar, b"k");
    let stamp =
        Stamp { values: stamp::StampValues::OldNew, history: true, ..Stamp::new(StampVerb::Update, u64::MAX >> 1, 0) };
    let family = db.family("users").unwrap().id();
    let (kind, value, entries, key_hash) = (Kind::Put, &b"last"[..], &[][..], None);
    let pending = PendingWrite { family, kind, key: b"k", value, key_hash, entries };
    let mut batch = Batch::new();
    Sealer::new().push_stamped(&mut batch, &pending, None, &stamp).unwrap();
    let ordered = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut on_ordered = |_| {
                let before = db.metrics().wal.frames;
                ordered.store(true, SeqCst);
                // Applied not before somebody else has a place behind.
                while db.metrics().wal.frames == before {
                    std::thread::yield_now();
                }
            };
            db.commit_observed(&mut batch, Durability::Os, Precondition::epoch(db.epoch()), &mut on_ordered)
                .unwrap()
                .unwrap();
        });
        while !ordered.load(SeqCst) {
            std::thread::yield_now();
        }
        registrar.drop_family("users", None).unwrap();
    });
    let events = registrar.query_all(&Target::key("users", *b"k"), None, None).unwrap();
    let old: Vec<_> = events.iter().map(|event| event.payload.fields()[0].clone()).collect();
    assert_eq!(old, [Field::OldValue(Image::Absent), Field::OldValue(Image::Value(b"value".to_vec()))]);
}

/// Whoever asks while a family goes is told what a value was put over, or that this is not kept: never that nothing was
/// there.
pub(crate) fn asked_beside_a_drop() {
    let (db, registrar) = open(None);
    registrar.register(&Target::family("users"), Some(Operation::ROW_UPDATE), Some(with_history()), None).unwrap();
    for round in 0..40u64 {
        let key = round.to_le_bytes();
        for _ in 0..100 {
            put(&db, &registrar, &key);
        }
        db.flush().unwrap();
        let (is_asked, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    is_asked.store(true, SeqCst);
                    let events = registrar.query_all(&Target::key("users", key), None, None).unwrap();
                    let nothing = Field::OldValue(Image::Absent);
                    let over_nothing = events.iter().filter(|event| event.payload.fields().contains(&nothing)).count();
                    assert!(over_nothing <= 1, "{over_nothing} of {} were over nothing", events.len());
                }
            });
            while !is_asked.load(SeqCst) {
                std::thread::yield_now();
            }
            registrar.drop_family("users", None).unwrap();
            is_over.store(true, SeqCst);
        });
        registrar.create_family("users", Default::default()).unwrap();
    }
    registrar.close().unwrap();
}

/// A wall clock with two gates. The next thread without a name that reads the time waits at `own` if that is shut; once
/// the store has a table file, the next thread that reads the time waits at `flush`.
#[derive(Default)]
struct Holding {
    fs: Arc<MemoryFs>,
    own: Gate,
    flush: Gate,
}

#[derive(Default)]
struct Gate {
    shut: AtomicBool,
    held: AtomicBool,
    open: AtomicBool,
}

impl Gate {
    fn wait_until_held(&self) {
        while !self.held.load(SeqCst) {
            std::thread::yield_now();
        }
    }
}

impl Clock for Holding {
    fn wall_micros(&self) -> u64 {
        let names = self.fs.list(Path::new("/store")).unwrap_or_default();
        let gate = match names.iter().any(|name| name.ends_with(".tbl")) {
            true => &self.flush,
            false => &self.own,
        };
        let thread = std::thread::current();
        let is_named = thread.name().is_some(); // a lane of the store, or the test itself
        // These lanes look for work whenever they are woken: one of them would take the gate in the place of the drop.
        let is_beside = ["waxseal-log", "waxseal-compact"].iter().any(|lane| thread.name() == Some(lane));
        if !is_beside && (!is_named || std::ptr::eq(gate, &self.flush)) && gate.shut.swap(false, SeqCst) {
            gate.held.store(true, SeqCst);
            while !gate.open.load(SeqCst) {
                std::thread::yield_now();
            }
        }
        77
    }
    fn monotonic_nanos(&self) -> u64 {
        0
    }
}

/// A write that was begun before its family is dropped, and is put to sleep before it has a place, does not get one
/// behind the moment at which old values were kept for events: it would have overwritten a value that nobody looked at.
pub(crate) fn overtaken() {
    for usual in [false, true] {
        let clock = Arc::new(Holding::default());
        let (db, registrar) = open_in(clock.fs.clone(), clock.clone());
        db.create_family("users", Default::default()).unwrap();
        let target = Target::family("users");
        let options = Options {
            scope: Scope::Subtree,
            mode: Mode::Deferred,
            values: Values::OldNew,
            history: true,
            ..Options::default()
        };
        registrar.register(&target, Some(Operation::ROW_UPDATE), Some(options), None).unwrap();
        put(&db, &registrar, b"key");
        let family = db.family("users").unwrap().id();
        let Holding { own, flush, .. } = &*clock;
        std::thread::scope(|scope| {
            let late = scope.spawn(|| {
                if usual {
                    write(&db, &registrar, b"key", b"first", true); // what is asked once is known then
                }
                own.shut.store(true, SeqCst);
                let mut pending =
                    PendingWrite { family, kind: Kind::Put, key: b"key", value: b"late", key_hash: None, entries: &[] };
                registrar.commit_one(&mut Batch::new(), &mut pending, None, Durability::Os, (None, StampVerb::Update))
            });
            own.wait_until_held();
            let epoch = db.epoch();
            flush.shut.store(true, SeqCst);
            let dropping = scope.spawn(|| registrar.drop_family("users", None));
            // Its memtable is frozen by now. The write goes on, and the drop when that has a place, or cannot get one.
            flush.wait_until_held();
            own.open.store(true, SeqCst);
            while db.epoch() == epoch && !late.is_finished() {
                std::thread::yield_now();
            }
            flush.open.store(true, SeqCst);
            dropping.join().unwrap().unwrap();
            assert!(late.join().unwrap().is_err(), "written behind the end of its family's history");
        });
        let events = registrar.query_all(&Target::key("users", *b"key"), None, None).unwrap();
        assert_eq!(events.len(), 1 + usize::from(usual));
        registrar.close().unwrap();
    }
}

/// A forked child has neither the thread that writes events of mode async nor anything of its own to write: it is told
/// so at once, and its parent goes on.
#[expect(unsafe_code, reason = "to fork")]
pub(crate) fn forked() {
    use std::os::unix::process::CommandExt;
    let (db, registrar) = open(None);
    let target = Target::family("users");
    let options = Options { scope: Scope::Subtree, mode: Mode::Async, ..Options::default() };
    registrar.register(&target, Some(Operation::ROW_UPDATE), Some(options), None).unwrap();
    put(&db, &registrar, b"before");
    const YES: i32 = 4001;
    let child = registrar.clone();
    let answer = move || -> std::io::Result<()> {
        let refused = child.close().is_err_and(|error| error.to_string().contains("forked"));
        Err(std::io::Error::from_raw_os_error(if refused { YES } else { YES + 1 }))
    };
    let mut command = std::process::Command::new("/nonexistent");
    // SAFETY: between fork and exec the closure calls what refuses before it takes a lock, and the allocator, which the
    // C library makes usable in a forked child.
    unsafe { command.pre_exec(answer) };
    assert_eq!(command.spawn().unwrap_err().raw_os_error(), Some(YES));
    put(&db, &registrar, b"after");
    registrar.drain().unwrap();
    let query = Query { below: true, ..Query::of(target) };
    assert_eq!(registrar.log_query(&query, &Paging::ALL, At::Latest, None).unwrap().events.len(), 2);
    registrar.close().unwrap();
}
