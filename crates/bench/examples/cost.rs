//! Does one operation N times on a filled store: what valgrind and strace count for docs/costs.md.
//!
//! `cost OPERATION COUNT DIR [sealed|plain] [layers]`: fills `RECORDS` random records of 16 and 100 bytes, settles (but
//! for `memory`), reads everything once, then does the operation COUNT times. The store is sealed unless `plain` is
//! given. With `layers`, a tenth of the records is written again above the settled ones and flushed, a tenth of that
//! after it, and again a tenth stays in the memtable.
//! `miss` reads through a cache that holds one block in forty, so that nearly every read misses it; `miss-nothing` fills
//! and warms the same store.
//! `nothing` only makes keys and values, `idle` not even these: the difference to them is what the store costs.
//! `engine`, `registrar` and `watched` are puts below the face, on a store with a registry: through the engine's own
//! commit and through the registrar's, with nothing registered, and with all of the family, deferred (for
//! `scripts/gate_cost.sh`); `watched-sync` and `watched-async` in those modes.

use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use waxseal::{ColumnFamily, Compression, Db, Durability};
use waxseal_bench::workload::{Keys, Random, Values};
use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{Family, Parts};
use waxseal_lsm::env::{Env, SeededRandom};
use waxseal_lsm::options::{CfOptions, Settings};
use waxseal_lsm::record::Kind;
use waxseal_lsm::seam::PendingWrite;
use waxseal_meta::Sealer;
use waxseal_registry::{Mode, Operation, Options, Registrar, Scope, Setup, StampVerb, Target};

/// Many times what the simulated caches hold, and little enough for valgrind.
const RECORDS: u64 = 20_000;

/// The cache of `miss`, for 2.6 MB of blocks.
const SMALL_CACHE_BYTES: usize = 64 << 10;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [operation, count, dir, kind @ ..] = &arguments[..] else {
        eprintln!(
            "usage: cost idle|nothing|memory-nothing|put|sync|get|slice|multi|memory|missing|miss|miss-nothing|next|prev|seek|again|near|short|cursor|engine|registrar|hooks|watched|watched-sync|watched-async COUNT DIR [sealed|plain] [layers]"
        );
        return ExitCode::from(2);
    };
    if let "engine" | "registrar" | "hooks" | "watched" | "watched-sync" | "watched-async" = operation.as_str() {
        return match count.parse().map_err(Into::into).and_then(|count| below(operation, count, Path::new(dir))) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("cost: {error}");
                ExitCode::FAILURE
            }
        };
    }
    match count.parse().map_err(Into::into).and_then(|count| run(operation, count, dir, kind)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cost: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(operation: &str, count: u64, dir: &str, kind: &[String]) -> Outcome {
    let is = |wanted: &str| kind.iter().any(|kind| kind == wanted);
    let mut builder = Db::builder(dir).compression(Compression::None);
    if let "miss" | "miss-nothing" = operation {
        builder = builder.cache_bytes(SMALL_CACHE_BYTES);
    }
    let db = if is("plain") { builder.plain() } else { builder }.open()?;
    let records = db.column_family("default")?;
    let mut keys = Keys::new(RECORDS, 16, 0).ok_or("sixteen digits are enough")?;
    let mut values = Values::new(100, 1, 1);
    for i in 0..RECORDS {
        records.put(keys.written(i), values.value())?;
    }
    if !operation.starts_with("memory") {
        db.settle()?;
    }
    if is("layers") {
        let mut random = Random::new(3);
        for share in [10, 100, 1000] {
            for _ in 0..RECORDS / share {
                records.put(keys.written(random.below(RECORDS)), values.value())?;
            }
            if share < 1000 {
                db.flush()?;
            }
        }
    }
    // Caches are warm and the background threads sleep.
    let mut at = records.cursor();
    at.first()?;
    while at.valid() {
        at.next()?;
    }
    for i in 0..RECORDS {
        read(&records, keys.written(i))?;
    }
    operate(operation, count, &records, keys, values)?;
    // The store is not closed, since the work of a close is not part of the operation.
    std::mem::forget((db, records));
    Ok(())
}

/// A store below the face, with a registry in which nothing is registered.
struct Below {
    db: waxseal_lsm::db::Db,
    family: Family,
    registrar: Registrar,
    batch: Batch,
}

fn below(operation: &str, count: u64, dir: &Path) -> Outcome {
    // Both runs get the same random numbers, so that they perform the same operations.
    let env = Env { random: Arc::new(SeededRandom::new(1)), ..Env::real() };
    let prepared = Registrar::prepare(Setup::new(&env));
    let sealer = Arc::new(Sealer::new().emitting(prepared.emitter.clone()));
    let mut families = vec![("default".to_owned(), CfOptions::default())];
    families.extend(prepared.families.clone());
    let parts = Parts {
        env,
        companions: sealer.clone(),
        families,
        engine_log: Some(prepared.engine_log.clone()),
        ..Parts::real()
    };
    let db = waxseal_lsm::db::Db::open(dir, Settings::default(), parts)?;
    let family = db.family("default").ok_or("no family")?;
    let registrar = prepared.attach(db.clone(), sealer)?;
    let mut store = Below { db, family, registrar, batch: Batch::new() };
    let mut keys = Keys::new(RECORDS, 16, 0).ok_or("sixteen digits are enough")?;
    let mut values = Values::new(100, 1, 1);
    for i in 0..RECORDS / 10 {
        store.through_the_engine(keys.written(i), values.value())?;
    }
    let mode = match operation {
        "watched" => Some(Mode::Deferred),
        "watched-sync" => Some(Mode::Sync),
        "watched-async" => Some(Mode::Async),
        _ => None,
    };
    if let Some(mode) = mode {
        let options = Options { scope: Scope::Subtree, mode, ..Options::default() };
        store.registrar.register(&Target::family("default"), Some(Operation::ROW_UPDATE), Some(options), None)?;
    }
    let mut random = Random::new(7);
    for _ in 0..count {
        let (key, value) = (keys.written(random.below(RECORDS)), values.value());
        match operation {
            "engine" => store.through_the_engine(key, value)?,
            "registrar" => store.through_the_registrar(key, value)?,
            _ => store.through_the_hooks(key, value)?,
        }
    }
    std::mem::forget(store);
    Ok(())
}

impl Below {
    #[inline(never)]
    fn through_the_engine(&mut self, key: &[u8], value: &[u8]) -> waxseal_lsm::error::Result<()> {
        self.batch.clear();
        self.batch.push(self.family.id(), Kind::Put, key, value, self.db.companions())?;
        self.db.commit(&mut self.batch, Durability::Os).map(drop)
    }

    #[inline(never)]
    fn through_the_registrar(&mut self, key: &[u8], value: &[u8]) -> waxseal_lsm::error::Result<()> {
        self.batch.clear();
        self.batch.push(self.family.id(), Kind::Put, key, value, self.db.companions())?;
        self.registrar.commit(&mut self.batch, Durability::Os, None, &[]).map(drop)
    }

    #[inline(never)]
    fn through_the_hooks(&mut self, key: &[u8], value: &[u8]) -> waxseal_lsm::error::Result<()> {
        let mut pending =
            PendingWrite { family: self.family.id(), kind: Kind::Put, key, value, key_hash: None, entries: &[] };
        self.registrar
            .commit_one(&mut self.batch, &mut pending, None, Durability::Os, (None, StampVerb::Update))
            .map(drop)
    }
}

fn operate(operation: &str, count: u64, records: &ColumnFamily, mut keys: Keys, mut values: Values) -> Outcome {
    let mut random = Random::new(7);
    let mut at = records.cursor();
    match operation {
        "idle" => {
            for n in 0..count {
                black_box(n);
            }
        }
        "nothing" | "memory-nothing" | "miss-nothing" => {
            for _ in 0..count {
                black_box((keys.written(random.below(RECORDS)), values.value()));
            }
        }
        "put" => {
            for _ in 0..count {
                records.put(keys.written(random.below(RECORDS)), values.value())?;
            }
        }
        "sync" => {
            for _ in 0..count {
                let key = keys.written(random.below(RECORDS));
                records.put_with(key, values.value(), Durability::Sync.into())?;
            }
        }
        "get" | "memory" | "miss" => {
            for _ in 0..count {
                read(records, keys.written(random.below(RECORDS)))?;
            }
        }
        "slice" => {
            for _ in 0..count {
                black_box(records.get(keys.written(random.below(RECORDS)))?);
            }
        }
        // COUNT keys, sixteen a call.
        "multi" => {
            for _ in 0..count / 16 {
                let asked: [[u8; 16]; 16] = std::array::from_fn(|_| {
                    keys.written(random.below(RECORDS)).try_into().unwrap_or_default() // sixteen digits each
                });
                black_box(records.multi_get(asked)?);
            }
        }
        "missing" => {
            for _ in 0..count {
                read(records, keys.missing(random.below(RECORDS)))?;
            }
        }
        "next" => {
            at.first()?;
            for _ in 0..count {
                black_box((at.key(), at.value()));
                at.next()?;
                if !at.valid() {
                    at.first()?;
                }
            }
        }
        "prev" => {
            at.last()?;
            for _ in 0..count {
                black_box((at.key(), at.value()));
                at.prev()?;
                if !at.valid() {
                    at.last()?;
                }
            }
        }
        "seek" => {
            for _ in 0..count {
                at.seek(keys.written(random.below(RECORDS)))?;
                black_box(at.key());
            }
        }
        "short" => {
            for _ in 0..count {
                let mut at = records.cursor();
                at.seek(keys.written(random.below(RECORDS)))?;
                for _ in 0..10 {
                    black_box((at.key(), at.value()));
                    at.next()?;
                }
            }
        }
        // The same with a cursor that is kept.
        "again" => {
            for _ in 0..count {
                at.seek(keys.written(random.below(RECORDS)))?;
                for _ in 0..10 {
                    black_box((at.key(), at.value()));
                    at.next()?;
                }
            }
        }
        // A kept cursor, and from each place ten records on: most sources stand right.
        "near" => {
            let mut wanted = Vec::new();
            at.first()?;
            for _ in 0..count {
                (0..10).try_for_each(|_| at.next())?;
                if !at.valid() {
                    at.first()?;
                }
                wanted.clear();
                wanted.extend_from_slice(at.key());
                at.seek(&wanted)?;
                black_box(at.key());
            }
        }
        // COUNT pops of a queue whose records before them are deleted, all in the memtable.
        "pop" | "pop-nothing" => {
            for n in 0..RECORDS {
                records.delete(keys.written(n))?;
            }
            let key = |n: u64| format!("~{n:015}");
            for n in 0..10 * RECORDS + count {
                records.put(key(n), values.value())?;
            }
            for n in 0..10 * RECORDS {
                records.delete(key(n))?;
            }
            read_first(records)?;
            for _ in 0..if operation == "pop" { count } else { 0 } {
                black_box(records.pop_first()?);
            }
        }
        "cursor" => {
            for _ in 0..count {
                black_box(records.cursor());
            }
        }
        other => return Err(format!("no operation {other:?}").into()),
    }
    Ok(())
}

fn read_first(records: &ColumnFamily) -> waxseal::Result<()> {
    black_box(records.first_key_value()?);
    Ok(())
}

fn read(records: &ColumnFamily, key: &[u8]) -> waxseal::Result<()> {
    black_box(records.get_with(key, |value| value.iter().fold(0u8, |sum, byte| sum ^ byte))?);
    Ok(())
}
