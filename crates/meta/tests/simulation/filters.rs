//! Compaction filters under seals: a random walk with flushes, compactions, snapshots and crashes, and checks of what a
//! filter must not do. A value that begins with `d` is dropped, one with `c` is changed to begin with `C`, and one with
//! `f` or `p` makes the filter fail or panic. All other values are kept.
//!
//! A walk cannot know when a filter runs. A key may read as filtered or not, but never again as it was before; and a
//! snapshot returns what it returned at first, even if it was taken while the filter ran.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use waxseal_lsm::compaction_filter::{CompactionFilter, FilterDecision, Filtered};
use waxseal_lsm::db::{At, Db, Event, Family, Parts, Snapshot};
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_lsm::env::{Random, SeededRandom};
use waxseal_lsm::inject::{self, Fate, Strike};
use waxseal_lsm::merge_operator::MergeOperator;
use waxseal_lsm::options::{CfOptions, Durability, Verify};
use waxseal_lsm::record::{Kind, OwnedRecord};
use waxseal_lsm::seam::Plain;
use waxseal_lsm::table_property::TableProperty;
use waxseal_meta::Sealer;
use waxseal_meta::builtin::{Expiry, standard};
use waxseal_meta::provider::EXPIRY;
use waxseal_testing::above::Over;
use waxseal_testing::harness::{Model, Store, options, parts, settings};
use waxseal_testing::listener::Heard;
use waxseal_testing::scribe::{Retaining, retains};
use waxseal_testing::store::ALL as EVERYTHING;

/// The checks that must find the planted bugs.
pub const ALL: [fn(); 9] = [
    uncovered,
    early_snapshots,
    late_snapshots,
    newer_versions,
    failures,
    flipped,
    retained_versions,
    found_files,
    walks,
];

#[test]
fn a_filter_does_what_it_should() {
    ALL.iter().for_each(|check| check());
}

fn decide(value: &[u8]) -> Filtered {
    match value.first() {
        Some(b'd') => Ok(FilterDecision::Drop),
        Some(b'c') => Ok(FilterDecision::Change([b"C", &value[1..]].concat())),
        Some(b'f') => Err("told to".into()),
        Some(b'p') => panic!("told to"),
        _ => Ok(FilterDecision::Keep),
    }
}

fn filter() -> CompactionFilter {
    CompactionFilter::new("letters", |_, value| decide(value))
}

/// Returns a protector that seals records and retains some of them.
fn sealer() -> Arc<Over<Retaining>> {
    Arc::new(Over(Retaining(Arc::new(Sealer::new().with(standard())))))
}

fn with(filter: CompactionFilter) -> CfOptions {
    let merge_operator = Some(MergeOperator::append(""));
    CfOptions { compaction_filter: Some(filter), merge_operator, large_value_bytes: 64, ..options() }
}

fn store() -> Store {
    Store::open(&SimFs::new(5), sealer(), with(filter()))
}

/// Returns a word with this beginning that is retained as a value, or not.
fn word(beginning: &str, retained: bool) -> Vec<u8> {
    let mut words = (0u32..).map(|n| format!("{beginning}{n:08}").into_bytes());
    words.find(|word| retains(Kind::Put, word, word) == retained).expect("a word")
}

fn latest(store: &Store, key: &[u8]) -> Option<Vec<u8>> {
    store.value(At::Latest, key)
}

/// A dropped value leaves a tombstone above older versions, in the same merge or below it.
fn uncovered() {
    for snapshot_first in [false, true] {
        let store = store();
        store.put(b"k", b"older");
        store.compact();
        let snapshot = snapshot_first.then(|| store.db.snapshot().expect("a snapshot"));
        store.put(b"k", b"dropped");
        store.put(b"l", b"changed");
        store.db.flush().expect("flush");
        // Into a level above the bottom: level 0 alone.
        while store.db.step().expect("a step") {}
        store.put(b"l", b"cut");
        for _ in 0..2 {
            store.compact();
            assert_eq!(latest(&store, b"k"), None);
            assert_eq!(latest(&store, b"l").as_deref(), Some(&b"Cut"[..]));
            if let Some(snapshot) = &snapshot {
                assert_eq!(store.value(At::Snapshot(snapshot), b"k").as_deref(), Some(&b"older"[..]));
            }
        }
        drop(snapshot);
        store.put(b"m", b"kept");
        store.compact();
        assert_eq!((latest(&store, b"k"), store.tombstones()), (None, 0), "the tombstone has gone");
        let metrics = store.db.metrics();
        assert_eq!(metrics.filter_dropped, 1);
        assert!(metrics.filter_changed >= 1 && metrics.filter_failures == 0);
    }
    // A drop in a level above that of the older version.
    let store = store();
    let key = |n: u32| format!("{n:03}").into_bytes();
    for n in 0..300 {
        store.put(&key(n), &[b"kept", &[7; 50][..], &n.to_le_bytes()].concat());
    }
    store.compact();
    for _ in 0..2 {
        (0..2).for_each(|n| store.put(&key(n), b"dropped"));
        store.db.flush().expect("flush");
    }
    let mut was_above = false;
    while store.db.step().expect("a step") {
        if store.db.metrics().filter_dropped > 0 {
            was_above |= store.tombstones() > 0;
            assert_eq!((latest(&store, &key(0)), latest(&store, &key(1))), (None, None));
        }
    }
    assert!(was_above, "no drop happened above the older versions");
}

fn early_snapshots() {
    let store = store();
    store.put(b"k", b"dropped");
    store.put(b"l", b"changed");
    let snapshot = store.db.snapshot().expect("a snapshot");
    let open = store.db.transaction_snapshot().expect("a snapshot");
    for _ in 0..2 {
        store.compact();
        for at in [&snapshot, &open] {
            assert_eq!(store.value(At::Snapshot(at), b"k").as_deref(), Some(&b"dropped"[..]));
            assert_eq!(store.value(At::Snapshot(at), b"l").as_deref(), Some(&b"changed"[..]));
        }
    }
    drop((snapshot, open));
    store.compact();
    assert_eq!(latest(&store, b"k"), None);
    assert_eq!(latest(&store, b"l").as_deref(), Some(&b"Changed"[..]));
}

/// The store that a filter uses, which no filter of an application may do.
type Shared = Arc<Mutex<Option<(Db, Family)>>>;

/// A snapshot that is taken between the begin of a merge and its end keeps what it sees.
fn late_snapshots() {
    let (shared, taken) = (Shared::default(), Arc::new(Mutex::new(Vec::new())));
    let (of, to) = (shared.clone(), taken.clone());
    let filter = CompactionFilter::new("letters", move |key, value| {
        if key == b"now"
            && let Some((db, _)) = &*of.lock().unwrap()
        {
            to.lock().unwrap().push(db.snapshot().expect("a snapshot"));
        }
        decide(value)
    });
    let store = Store::open(&SimFs::new(5), sealer(), with(filter));
    *shared.lock().unwrap() = Some((store.db.clone(), store.family.clone()));
    for key in [b"k", b"now" as &[u8], b"x"] {
        store.put(key, b"dropped");
    }
    store.compact();
    store.put(b"k", b"newer");
    let taken = std::mem::take(&mut *taken.lock().unwrap());
    assert!(!taken.is_empty(), "no snapshot was taken");
    for at in &taken {
        for key in [b"k", b"now" as &[u8], b"x"] {
            assert_eq!(store.value(At::Snapshot(at), key).as_deref(), Some(&b"dropped"[..]));
        }
    }
    assert_eq!(store.keys(), [b"k"]);
    *shared.lock().unwrap() = None;
}

/// A value under operands, a range delete or a newer value that was committed later is not changed.
fn newer_versions() {
    let store = store();
    for key in [b"a", b"b", b"c"] {
        store.put(key, b"dropped ");
    }
    store.db.flush().expect("flush");
    store.apply(Kind::Merge, b"a", b"operand");
    while store.db.step().expect("a step") {}
    store.compact();
    assert_eq!(latest(&store, b"a").as_deref().unwrap_or(b"dropped operand"), b"dropped operand");
    assert_eq!((latest(&store, b"b"), latest(&store, b"c")), (None, None));
    // A filter that commits an operand while it runs: `is_hidden` finds it in the memtable.
    let shared = Shared::default();
    let of = shared.clone();
    let filter = CompactionFilter::new("letters", move |key, value| {
        if key == b"k"
            && let Some((db, family)) = of.lock().unwrap().take()
        {
            let mut batch = waxseal_lsm::batch::Batch::new();
            batch.push(family.id(), Kind::Merge, b"k", b"operand", db.companions()).expect("an operand");
            db.commit(&mut batch, Durability::Os).expect("a commit");
        }
        decide(value)
    });
    let store = Store::open(&SimFs::new(5), sealer(), with(filter));
    store.put(b"k", b"dropped ");
    store.db.flush().expect("flush");
    *shared.lock().unwrap() = Some((store.db.clone(), store.family.clone()));
    store.compact();
    assert_eq!(latest(&store, b"k").as_deref(), Some(&b"dropped operand"[..]));
}

/// A filter that fails or panics keeps its values, and is reported once for each compaction.
fn failures() {
    let heard = Heard::new(|event| match event {
        Event::FilterFailed { family, error, values } => Some(format!("{family} {values} {error}")),
        _ => None,
    });
    let given = parts(sealer(), with(filter()));
    let store = Store::try_open(&SimFs::new(5), "/store", settings(), Parts { listener: heard.clone(), ..given });
    let store = store.expect("a store");
    let rows: [(&[u8], &[u8]); 4] = [(b"a", b"fail"), (b"b", b"panic"), (b"c", b"dropped"), (b"d", b"stay")];
    rows.iter().for_each(|(key, value)| store.put(key, value));
    store.compact();
    for (key, value) in rows {
        assert_eq!(latest(&store, key).as_deref(), (key != b"c").then_some(value));
    }
    assert_eq!((store.db.metrics().filter_failures, store.db.metrics().filter_dropped), (2, 1));
    let told = heard.take();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("default 2 ") && told[0].contains("letters") && told[0].contains("told to"),
        "{told:?}"
    );
}

/// A table is found by each item of its values, in blob files, too. A function that fails leaves a file that may have any
/// item. A filter removes an item from all files.
fn found_files() {
    let letters = TableProperty::new("letters", |_, value, add| match value.first() {
        Some(b'f') => Err("told to".into()),
        _ => {
            add(value.get(..1).unwrap_or_default());
            Ok(())
        }
    });
    let store = Store::open(&SimFs::new(5), sealer(), CfOptions { table_properties: vec![letters], ..with(filter()) });
    let found = |item: &[u8]| store.db.files_with(&store.family, "letters", item).expect("the tables").len();
    store.put(b"a", b"k");
    store.put(b"b", &[b'c'; 100]);
    store.put(b"c", &[b'd'; 100]);
    store.put(b"d", &[b'k'; 100]);
    store.db.flush().expect("flush");
    assert_eq!([b"c", b"d", b"k", b"f"].map(|item| found(item)), [1, 1, 1, 0]);
    for item in [b"c", b"d"] {
        store.db.compact_with(&store.family, "letters", item).expect("a compaction");
    }
    assert_eq!([b"c", b"d", b"k", b"C"].map(|item| found(item)), [0, 0, 1, 1]);
    store.put(b"e", b"fail");
    store.db.flush().expect("flush");
    assert_eq!([b"f", b"C"].map(|item| found(item)), [1, 2]);
    store.put(b"f", &[b'f'; 100]);
    store.compact();
    // The table of the failed value, that of the value file that failed, and that of the changed value: none overlaps.
    assert_eq!([b"f", b"C"].map(|item| found(item)), [2, 3]);
}

/// Flips one bit of the n-th record of a pass, after its source was read.
struct Nth(usize);

impl Strike for Nth {
    fn record(&mut self, record: &mut OwnedRecord) -> Fate {
        if self.0 == 0 {
            record.value[1] ^= 1;
        }
        self.0 = self.0.wrapping_sub(1);
        Fate::Pass
    }
}

/// A bit of any value flips between its source and the filter: nothing is made of it, and nothing is dropped for it.
fn flipped() {
    for nth in 0..3 {
        let store = store();
        for key in [b"a", b"b", b"c"] {
            store.put(key, b"change");
        }
        store.db.flush().expect("flush");
        inject::arm(Box::new(Nth(nth)));
        let _ = store.db.compact(&store.family, &EVERYTHING);
        inject::disarm();
        for key in [b"a", b"b", b"c"] {
            let found = store.get(key).expect("a read").map(|record| record.value);
            assert!(found.is_some_and(|value| value == b"change" || value == b"Change"), "record {nth}");
        }
    }
}

/// A retained value, and the one below it, stay as they were written.
fn retained_versions() {
    let (store, below, retained) = (store(), word("d", false), word("d", true));
    store.put(b"k", &below);
    store.compact_without_filter(&below);
    let seqno = store.try_apply(Kind::Put, b"k", &retained, &[]).expect("a put");
    for _ in 0..2 {
        store.compact();
        assert_eq!(latest(&store, b"k").as_deref(), Some(&retained[..]));
        let mut before = None;
        let mut visit = |record: &waxseal_lsm::record::Record<'_>| before = Some(record.value.to_vec());
        assert!(store.db.get_before(&store.family, b"k", seqno, Verify::Always, &mut visit).expect("a read"));
        assert_eq!(before.as_deref(), Some(&below[..]));
    }
}

trait Flushed {
    fn compact_without_filter(&self, value: &[u8]);
}

impl Flushed for Store {
    /// Flushes a value, which is then still there.
    fn compact_without_filter(&self, value: &[u8]) {
        self.db.flush().expect("flush");
        assert_eq!(latest(self, b"k").as_deref(), Some(value));
    }
}

#[test]
fn an_expiry_stays_with_a_changed_value_and_an_expired_one_is_not_filtered() {
    let store = store();
    let micros = store.db.expiry_micros();
    let (late, soon) = (Expiry::at(micros + 1_000_000), Expiry::at(micros + 1));
    store.try_apply(Kind::Put, b"k", b"changed", &[(EXPIRY, &late)]).expect("a put");
    store.try_apply(Kind::Put, b"l", b"fail", &[(EXPIRY, &soon)]).expect("a put");
    store.sim.clock().advance_nanos(10_000);
    store.compact();
    assert_eq!(latest(&store, b"k").as_deref(), Some(&b"Changed"[..]));
    assert_eq!(store.db.metrics().filter_failures, 0);
    store.sim.clock().advance_nanos(2_000_000_000);
    assert_eq!(latest(&store, b"k"), None);
}

#[test]
fn a_plain_node_filters_no_values_that_it_cannot_verify() {
    let store = store();
    store.put(b"k", b"dropped");
    store.put(b"l", b"changed");
    store.db.flush().expect("flush");
    let store = store.reopen_as(Arc::new(Plain));
    store.compact();
    assert_eq!(latest(&store, b"k").as_deref(), Some(&b"dropped"[..]));
    store.put(b"m", b"dropped");
    let store = store.reopen_as(sealer());
    store.compact();
    assert_eq!(store.keys(), [b"l"]);
    assert_eq!(latest(&store, b"l").as_deref(), Some(&b"Changed"[..]));
}

#[test]
fn values_of_blob_files_are_filtered_and_their_files_collected() {
    for by_key in [false, true] {
        let filter = match by_key {
            false => filter(),
            true => CompactionFilter::by_key("letters", |key| match key[0] % 2 {
                0 => Ok(FilterDecision::Drop),
                _ => Ok(FilterDecision::Keep),
            }),
        };
        let store = Store::open(&SimFs::new(5), sealer(), with(filter));
        let large = |n: u8| [if n.is_multiple_of(2) { b"d" } else { b"k" }, &[n; 300][..]].concat();
        for n in 0..20u8 {
            store.put(&[n], &large(n));
        }
        store.db.flush().expect("flush");
        assert!(!store.db.value_files(&store.family).expect("files").is_empty());
        store.compact();
        store.db.settle().expect("settle");
        let expected: Model = (0..20u8).filter(|n| n % 2 == 1).map(|n| (vec![n], large(n))).collect();
        store.check(&expected);
        let files = store.db.value_files(&store.family).expect("files");
        let bytes: u64 = files.iter().map(|file| file.meta().unwrap().entry_bytes()).sum();
        assert!(bytes < 15 * 300, "{bytes} bytes of values");
        assert_eq!(store.db.metrics().filter_dropped, 10);
    }
}

#[test]
fn a_filter_is_stored_by_name_and_a_missing_one_keeps_everything() {
    let (sim, none) = (SimFs::new(5), CfOptions { compaction_filter: None, ..with(filter()) });
    let store = Store::open(&sim, sealer(), with(filter()));
    store.put(b"k", b"dropped");
    store.db.close().expect("close");
    let store = Store::open(&sim, sealer(), none.clone());
    let missing = store.family.options().compaction_filter.clone().expect("a name");
    assert!(missing.name() == "letters" && !missing.is_known());
    store.compact();
    assert_eq!(latest(&store, b"k").as_deref(), Some(&b"dropped"[..]));
    store.db.close().expect("close");
    // Another filter takes its place; its name is the stored one from here on.
    let other = CompactionFilter::by_key("other", |_| Ok(FilterDecision::Keep));
    let store = Store::open(&sim, sealer(), with(other));
    store.db.close().expect("close");
    let store = Store::open(&sim, sealer(), none);
    assert_eq!(store.family.options().compaction_filter.as_ref().expect("a name").name(), "other");
    store.db.close().expect("close");
    let read_only = Db::open_read_only(
        std::path::Path::new("/store"),
        settings(),
        Parts { env: sim.env(1), ..parts(sealer(), options()) },
    );
    assert!(read_only.is_ok(), "a reader needs no filter");
}

#[test]
fn chosen_tables_are_compacted_and_no_others() {
    let store = store();
    for n in 0..300u32 {
        store.put(format!("{n:03}").as_bytes(), &[7; 60]);
    }
    store.compact();
    for n in (0..300u32).step_by(50) {
        store.put(format!("{n:03}").as_bytes(), b"changed");
        store.db.flush().expect("flush");
    }
    let numbers = |level: Option<usize>| {
        let tables = store.db.tables(&store.family).expect("tables");
        let chosen = tables.iter().filter(|table| level.is_none_or(|level| table.level() == level));
        chosen.map(|table| table.meta().number).collect::<Vec<u64>>()
    };
    let before = numbers(None);
    let refused = store.db.compact_tables(&store.family, &[before[0], 99_999]).unwrap_err();
    assert!(refused.to_string().contains("no table 99999"), "{refused}");
    assert_eq!(numbers(None), before, "nothing was compacted");
    // A table of level 0, then one at the bottom.
    let newest = numbers(Some(0))[0];
    store.db.compact_tables(&store.family, &[newest]).expect("compact");
    assert!(!numbers(None).contains(&newest));
    assert_eq!(latest(&store, b"250").as_deref(), Some(&b"Changed"[..]));
    assert_eq!(latest(&store, b"000").as_deref(), Some(&b"changed"[..]), "another table");
    let bottom = numbers(Some(6));
    store.db.compact_tables(&store.family, &bottom[..1]).expect("compact");
    let after = numbers(Some(6));
    assert!(!after.contains(&bottom[0]) && bottom[1..].iter().all(|number| after.contains(number)));
    assert_eq!(store.keys().len(), 300);
    // One that needs a quarantined table is not silently left.
    let flushed = |value: &[u8]| {
        store.put(b"000", value);
        store.db.flush().expect("flush");
        numbers(Some(0)).into_iter().max().expect("a table")
    };
    let older = flushed(b"again");
    store.db.quarantine_tables(&store.family, &[older]).expect("quarantine");
    let newer = flushed(b"and again");
    let refused = store.db.compact_tables(&store.family, &[newer]).unwrap_err();
    assert!(refused.to_string().contains("quarantined"), "{refused}");
    assert!(numbers(Some(0)).contains(&newer));
}

/// The content that a reader may find: the written value, and its value after the filter.
type Written = BTreeMap<Vec<u8>, (Vec<u8>, bool)>;

struct Walk {
    sim: SimFs,
    random: SeededRandom,
    shared: Shared,
    late: Arc<Mutex<Vec<Snapshot>>>,
    store: Option<Store>,
    /// Each key's value, and whether it was read as filtered.
    written: Written,
    snapshots: Vec<(Snapshot, Model)>,
}

impl Walk {
    fn new(seed: u64) -> Walk {
        let (sim, random) = (SimFs::new(seed), SeededRandom::new(seed));
        let (shared, late, store) = (Shared::default(), Arc::default(), None);
        let mut walk = Walk { sim, random, shared, late, store, written: Written::new(), snapshots: Vec::new() };
        walk.open();
        walk
    }

    fn open(&mut self) {
        let (of, to) = (self.shared.clone(), self.late.clone());
        let filter = CompactionFilter::new("letters", move |key, value| {
            if key[0].is_multiple_of(5)
                && let Some((db, _)) = &*of.lock().unwrap()
            {
                to.lock().unwrap().push(db.snapshot().expect("a snapshot"));
            }
            decide(value)
        });
        let store = Store::open(&self.sim, Arc::new(Sealer::new().with(standard())), with(filter));
        *self.shared.lock().unwrap() = Some((store.db.clone(), store.family.clone()));
        self.store = Some(store);
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn below(&self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn content(&self, at: At<'_>) -> Model {
        self.store().scan_at(at).into_iter().map(|record| (record.key, record.value)).collect()
    }

    fn step(&mut self, number: usize) {
        let key = vec![self.below(20) as u8];
        match self.below(40) {
            0..24 => {
                let letter = char::from(b"dckfpd"[self.below(6) as usize]);
                let value = format!("{letter}{number} {}", "x".repeat(self.below(5) as usize * 30)).into_bytes();
                self.commit(Kind::Put, &key, &value);
                self.written.insert(key, (value, false));
            }
            24..27 => {
                self.commit(Kind::Delete, &key, b"");
                self.written.remove(&key);
            }
            27..29 => self.store().db.flush().unwrap(),
            29..33 => drop(self.store().db.step().unwrap()),
            33..35 => self.store().compact(),
            35..37 => self.snapshots.push((self.store().db.snapshot().unwrap(), self.content(At::Latest))),
            37 if !self.snapshots.is_empty() => drop(self.snapshots.swap_remove(number % self.snapshots.len())),
            38 => self.crash(),
            _ => self.store().db.settle().unwrap(),
        }
    }

    fn commit(&self, kind: Kind, key: &[u8], value: &[u8]) {
        let (db, mut batch) = (&self.store().db, waxseal_lsm::batch::Batch::new());
        batch.push(self.store().family.id(), kind, key, value, db.companions()).unwrap();
        db.commit(&mut batch, Durability::Sync).unwrap();
    }

    fn crash(&mut self) {
        self.snapshots.clear();
        self.late.lock().unwrap().clear();
        *self.shared.lock().unwrap() = None;
        self.sim.crash_at(self.sim.steps());
        self.store = None;
        self.sim.reboot(Crash::Machine(Loss::DurableOnly));
        self.open();
    }

    /// Compares every key with the model, and every snapshot with its first content.
    fn check(&mut self) {
        let found = self.content(At::Latest);
        assert!(found.keys().all(|key| self.written.contains_key(key)), "a deleted key is back");
        for (key, (value, is_filtered)) in &mut self.written {
            let found = found.get(key);
            let after = match decide_quietly(value) {
                FilterDecision::Keep => Some(value.clone()),
                FilterDecision::Drop => None,
                FilterDecision::Change(value) => Some(value),
            };
            let is_as_written = found == Some(value);
            assert!(found == after.as_ref() || (is_as_written && !*is_filtered), "{key:?}: {value:?} and {found:?}");
            *is_filtered |= !is_as_written;
        }
        for (snapshot, content) in &self.snapshots {
            assert_eq!(self.content(At::Snapshot(snapshot)), *content, "a snapshot");
        }
        // A snapshot that the filter took sees a key as filtered or not; from its first read on, always the same.
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        for snapshot in late.into_iter().take(2) {
            let content = self.content(At::Snapshot(&snapshot));
            for (key, (value, is_filtered)) in &self.written {
                let is_new = decide_quietly(value) != FilterDecision::Keep && !*is_filtered;
                assert!(!is_new || content.get(key) == Some(value), "{key:?} as a late snapshot sees it");
            }
            self.snapshots.push((snapshot, content));
        }
    }
}

fn decide_quietly(value: &[u8]) -> FilterDecision {
    match value.first() {
        Some(b'f' | b'p') => FilterDecision::Keep,
        _ => decide(value).unwrap(),
    }
}

fn walks() {
    let rounds = std::env::var("WAXSEAL_ROUNDS").map_or(6, |rounds| rounds.parse().unwrap());
    for seed in 0..rounds {
        let mut walk = Walk::new(seed);
        for number in 0..150 {
            walk.step(number);
            walk.check();
        }
        walk.snapshots.clear();
        walk.late.lock().unwrap().clear();
        walk.store().compact();
        walk.check();
        let left = walk.content(At::Latest);
        assert!(left.values().all(|value| !matches!(value[0], b'd' | b'c')), "seed {seed}: {left:?}");
        *walk.shared.lock().unwrap() = None;
    }
}
