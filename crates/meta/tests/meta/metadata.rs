//! What providers keep beside values, on the real engine on a simulated disk: written, carried, read back, expired,
//! left out.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use waxseal_lsm::checksum::hash;
use waxseal_lsm::db::At;
use waxseal_lsm::env::sim::{Crash, SimFs};
use waxseal_lsm::env::{Fs, Open};
use waxseal_lsm::error::{ErrorKind, Result};
use waxseal_lsm::options::{CfOptions, Compression, SealLayout, Verify};
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::{Check, Companions, DropReason, Life, Protection};
use waxseal_lsm::sst::{Cache, Table};
use waxseal_meta::annotations::Annotations;
use waxseal_meta::builtin::{Etl, Expiry, Labels, Provenance, standard};
use waxseal_meta::provider::{
    Descriptor, ETL, EXPIRY, LABELS, MetadataProvider, OnUnknown, PROVENANCE, Rebuild, Wants, WriteCtx,
};
use waxseal_meta::reading::{Checked, meta_of, verified_meta_of};
use waxseal_meta::{Providers, Sealer, get_meta, iter_meta};
use waxseal_testing::harness::{Store, options};
use waxseal_testing::store::ALL;

use crate::support::{holds, sealed_store};

fn sealer() -> Arc<Sealer> {
    Arc::new(Sealer::new().with(standard()))
}

fn counted(sealer: &Sealer, keys: usize) {
    let counts = sealer.counts();
    assert_eq!((counts.computed, counts.corrupted + counts.missing + counts.adopted), (keys as u64, 0));
}

#[test]
fn several_at_once_come_back_through_every_place() {
    let (sim, protector) = (SimFs::new(1), sealer());
    let store = sealed_store(&sim, &protector);
    let labels = Labels::of(&[("class", "secret")]).unwrap();
    for n in 0..100u8 {
        let (expiry, etl) = (Expiry::at(1 << 60), Etl::of(1, i64::from(n) - 50));
        let given: [(u16, &[u8]); 4] =
            [(LABELS, &labels), (EXPIRY, &expiry), (ETL, &etl), (PROVENANCE, &Provenance::of(7, n.into()))];
        store.try_apply(Kind::Put, &[n], b"value", &given[..1 + usize::from(n) % 4]).unwrap();
    }
    let all_hold = |store: &Store| {
        holds(store);
        for n in 0..100u8 {
            let meta = |provider| get_meta(&store.db, &store.family, &[n], At::Latest, provider).unwrap();
            let label = meta(LABELS).unwrap();
            assert_eq!((&label.bytes, label.checked), (&labels, Checked::Itself));
            let expiry = meta(EXPIRY);
            assert_eq!(expiry.is_some(), n % 4 > 0);
            assert!(expiry.is_none_or(|expiry| expiry.checked == Checked::Not && expiry.bytes == Expiry::at(1 << 60)));
            let distance = meta(ETL).map(|etl| Etl::read(&etl.bytes).unwrap());
            assert_eq!(distance, (n % 4 > 1).then_some((1, i64::from(n) - 50)));
            assert_eq!(meta(77), None);
        }
        let found: Vec<_> =
            iter_meta(&store.db, &store.family, At::Latest, ALL, PROVENANCE).unwrap().collect::<Result<_>>().unwrap();
        assert_eq!(found.len(), 25);
        for (key, meta) in found {
            assert_eq!(Provenance::read(&meta.bytes), Some((7, key[0].into())));
        }
    };
    all_hold(&store);
    store.db.sync().unwrap();
    drop(store);
    sim.reboot(Crash::Process); // the log
    let store = sealed_store(&sim, &protector);
    all_hold(&store);
    store.db.flush().unwrap();
    all_hold(&store);
    store.compact();
    all_hold(&store);
    counted(&protector, 100);
}

fn open_table(sim: &SimFs, path: &Path) -> Arc<Table> {
    let file = sim.open(path, Open::Read).unwrap();
    let expected = Table::identify("table", &*file).unwrap();
    let cache = Arc::new(Cache::new(1 << 20));
    Table::open("table".into(), file, expected, Order::bytewise(), cache, Arc::new(Sealer::new())).unwrap()
}

#[test]
fn what_nobody_keeps_or_a_provider_refuses_is_invalid() {
    let (sim, protector) = (SimFs::new(1), sealer());
    let store = sealed_store(&sim, &protector);
    let expiry = Expiry::at(9);
    for (kind, given, word) in [
        (Kind::Put, &[(77, &b"x"[..])][..], "77"),
        (Kind::Put, &[(EXPIRY, b"short")], "expiry"),
        (Kind::Delete, &[(EXPIRY, &expiry)], "expiry"),
        (Kind::Put, &[(LABELS, b"\x09")], "labels"),
        (Kind::Put, &[(EXPIRY, &expiry), (EXPIRY, &expiry)], "two"),
        (Kind::Put, &[(EXPIRY, &[0; 9])], "limit is 8"),
    ] {
        let error = store.try_apply(kind, b"k", b"v", given).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(word), "{error}");
    }
    assert_eq!(store.get(b"k").unwrap(), None);
    counted(&protector, 0);
}

/// Keeps what it is given, and counts what it hears.
struct Counting {
    descriptor: Descriptor,
    every: bool,
    dropped: AtomicUsize,
}

impl Counting {
    fn new(descriptor: Descriptor) -> Arc<Counting> {
        Arc::new(Counting { descriptor, every: false, dropped: AtomicUsize::new(0) })
    }
}

impl MetadataProvider for Counting {
    fn descriptor(&self) -> Descriptor {
        self.descriptor.clone()
    }
    fn wants(&self) -> Wants {
        Wants { every_write: self.every, every_build: self.every }
    }
    fn on_write(&self, write: &WriteCtx<'_>, out: &mut Vec<u8>) -> Result<bool> {
        out.extend_from_slice(write.given.unwrap_or(&[0]));
        Ok(true)
    }
    fn on_build(&self, _: &Record<'_>, entry: Option<&[u8]>, out: &mut Vec<u8>) -> Rebuild {
        match entry {
            None => Rebuild::Keep,
            Some([2]) => Rebuild::Remove,
            Some([times, ..]) => {
                out.push(times + 1);
                Rebuild::Set
            }
            Some([]) => Rebuild::Remove,
        }
    }
    fn on_drop(&self, _: &Record<'_>, _: &[u8], reason: DropReason) {
        assert_eq!(reason, DropReason::Shadowed);
        self.dropped.fetch_add(1, Relaxed);
    }
}

#[test]
fn unknown_entries_are_carried_bit_by_bit_or_left_out_as_they_say() {
    let sim = SimFs::new(1);
    let own = |id, in_checksum, on_unknown| {
        Counting::new(Descriptor { in_checksum, on_unknown, ..Descriptor::new(id, "own") })
    };
    let kept = own(100, false, OnUnknown::Preserve);
    let providers: Vec<Arc<dyn MetadataProvider>> =
        vec![kept.clone(), own(200, false, OnUnknown::Drop), own(300, true, OnUnknown::Preserve)];
    let protector = Arc::new(Sealer::new().with(Providers::of(providers).unwrap()));
    let store = sealed_store(&sim, &protector);
    let given: [(u16, &[u8]); 3] = [(100, b"kept"), (200, b"left out"), (300, b"sealed")];
    for n in 0..50u8 {
        store.try_apply(Kind::Put, &[n], b"old", &given).unwrap();
    }
    store.compact();
    let before = store.scan();
    store.db.close().unwrap();
    drop(store);

    // A keeper that has never heard of them: three passes.
    let stranger = sealer();
    let store = sealed_store(&sim, &stranger);
    for n in 0..3u8 {
        store.put(&[100 + n], b"more");
        store.put(&[0, 0], &[n]);
        store.compact();
        holds(&store);
    }
    for owned in &before {
        let found = store.get(&owned.key).unwrap().unwrap();
        let (was, is) = (Annotations::read(&owned.companion).unwrap(), Annotations::read(&found.companion).unwrap());
        assert_eq!(was.seal, is.seal);
        let was: Vec<_> = was.entries().map(|entry| entry.unwrap()).filter(|entry| entry.provider != 200).collect();
        assert_eq!(was, is.entries().collect::<Result<Vec<_>>>().unwrap());
    }
    let counts = stranger.counts();
    assert_eq!((counts.computed, counts.adopted, counts.corrupted), (6, 0, 0));
    store.db.close().unwrap();
    drop(store);

    // The one that knows them goes on, and hears of those that go.
    let store = sealed_store(&sim, &protector);
    for n in 0..50u8 {
        store.try_apply(Kind::Put, &[n], b"new", &given).unwrap();
    }
    store.compact();
    holds(&store);
    assert_eq!(kept.dropped.load(Relaxed), 50);
}

#[test]
fn a_provider_may_write_unasked_and_change_its_entry_in_passes() {
    let sim = SimFs::new(1);
    let counting = Counting { every: true, descriptor: Descriptor::new(100, "passes"), dropped: AtomicUsize::new(0) };
    let providers = Providers::of(vec![Arc::new(counting)]).unwrap();
    let protector = Arc::new(Sealer::new().with(providers));
    let store = sealed_store(&sim, &protector);
    store.put(b"k", b"v");
    let passes = || get_meta(&store.db, &store.family, b"k", At::Latest, 100).unwrap().map(|meta| meta.bytes);
    assert_eq!(passes(), Some(vec![0]));
    store.db.flush().unwrap();
    assert_eq!(passes(), Some(vec![1]));
    for (round, expected) in [Some(vec![2]), None, None].into_iter().enumerate() {
        store.put(&[round as u8], b"so that tables are merged");
        store.put(b"z", b"so that tables are merged");
        store.compact();
        assert_eq!(passes(), expected);
        holds(&store);
    }
    counted(&protector, 7);
}

#[test]
fn a_record_whose_time_is_over_is_absent_and_goes() {
    let (sim, protector) = (SimFs::new(1), sealer());
    let store = sealed_store(&sim, &protector);
    let now = sim.env(1).clock.wall_micros();
    let expires = |key: &[u8], at: u64| {
        store.try_apply(Kind::Put, key, b"for a while", &[(EXPIRY, &Expiry::at(at))]).unwrap();
    };
    store.put(b"b", b"older, and hidden for ever");
    store.put(b"d", b"stays");
    store.db.flush().unwrap();
    for key in [b"a", b"b", b"c"] {
        expires(key, now + 1_000_000_000);
    }
    expires(b"e", now + 9_000_000_000);
    let keys = |names: &[u8]| names.iter().map(|name| vec![*name]).collect::<Vec<_>>();
    let snapshot = store.db.snapshot().unwrap();
    for flush in [false, true] {
        if flush {
            store.db.flush().unwrap();
        }
        assert_eq!(store.keys(), keys(b"abcde"));
    }
    sim.clock().advance_nanos(2_000_000_000_000);
    let are_gone = || {
        assert_eq!(store.keys(), keys(b"de"));
        for name in b"abc" {
            assert_eq!(store.get(&[*name]).unwrap(), None);
        }
        assert_eq!(iter_meta(&store.db, &store.family, At::Latest, ALL, EXPIRY).unwrap().count(), 1);
    };
    are_gone();
    store.compact();
    are_gone();
    // A snapshot sees what it saw when it was taken, compacted or not, and by every kind of read.
    for name in b"abcde" {
        let found = |at| get_meta(&store.db, &store.family, &[*name], at, EXPIRY).unwrap().is_some();
        assert!(store.get_at(&[*name], At::Snapshot(&snapshot)).unwrap().is_some());
        assert_eq!((found(At::Snapshot(&snapshot)), found(At::Latest)), (*name != b'd', *name == b'e'));
    }
    assert_eq!(iter_meta(&store.db, &store.family, At::Snapshot(&snapshot), ALL, EXPIRY).unwrap().count(), 4);
    drop(snapshot);
    store.compact();
    are_gone();
    // Nothing of them is left, nor of what they hid.
    let records: u64 = store.tables().iter().map(|path| open_table(&sim, path).properties().ledger.count()).sum();
    assert_eq!(records, 2);
    counted(&protector, 6);
}

#[test]
fn a_flipped_expiry_ends_nothing() {
    let protector = sealer();
    let mut companion = Vec::new();
    let expiry = Expiry::at(1000);
    let pending = waxseal_lsm::seam::PendingWrite {
        family: 0,
        kind: Kind::Put,
        key: b"k",
        value: b"v",
        key_hash: None,
        entries: &[(EXPIRY, &expiry)],
    };
    protector.on_write(&pending, &mut companion).unwrap();
    protector.bind(&mut companion, None, 5);
    let record = |companion| Record { key: b"k", seqno: 5, kind: Kind::Put, value: b"v", companion };
    assert!(protector.expired(&record(&companion), &|| 1000) && !protector.expired(&record(&companion), &|| 999));
    assert!(!Sealer::new().expired(&record(&companion), &|| 1000)); // without the provider
    let hits = |bits: std::ops::Range<usize>| -> Vec<Vec<u8>> {
        let flipped = |bit: usize| {
            let mut hit = companion.clone();
            hit[bit / 8] ^= 1 << (bit % 8);
            hit
        };
        bits.map(flipped).collect()
    };
    let (word, list) = (hits(8..9 * 8), hits(9 * 8..companion.len() * 8));
    for hit in &list {
        assert!(!protector.expired(&record(hit), &|| u64::MAX));
        assert_eq!(protector.verify(&record(hit), hash(b"k"), Protection::Complete), Check::Corrupted);
    }
    // Its word alone: the record is right, and its time as over as it was.
    for hit in &word {
        assert!(protector.expired(&record(hit), &|| 1000) && !protector.expired(&record(hit), &|| 999));
        assert_eq!(protector.verify(&record(hit), hash(b"k"), Protection::Complete), Check::CompanionDamaged);
    }
    // Its value: what it says of its time is nobody's to believe.
    let other = Record { value: b"w", ..record(&companion) };
    assert_eq!([1000, 999].map(|now| protector.life(&other, &|| now)), [Life::Doubtful, Life::Alive]);
}

/// A policy says what is looked for. What is met all the same is not given out, and not taken for something else.
#[test]
fn a_record_whose_time_is_over_does_not_come_back_when_it_is_hit() {
    let (sim, protector) = (SimFs::new(1), sealer());
    let store = sealed_store(&sim, &protector);
    let end = sim.env(1).clock.wall_micros() + 1_000_000_000;
    store.put(b"a", b"stays");
    store.try_apply(Kind::Put, b"b", b"for a while", &[(EXPIRY, &Expiry::at(end))]).unwrap();
    store.put(b"c", b"stays");
    store.db.flush().unwrap();
    let whole = store.get(b"b").unwrap().unwrap();
    sim.clock().advance_nanos(2_000_000_000_000);
    let path = &store.tables()[0];
    let (bytes, name) = (sim.read_all(path).unwrap(), path.file_name().unwrap().to_str().unwrap());
    let place_of = |part: &[u8]| bytes.windows(part.len()).position(|window| window == part).unwrap() - 64;
    let hit =
        |byte: usize, mask: u8| assert!(waxseal_testing::memory::damage_cache(&store.db, name, 0, byte, mask).unwrap());
    let read = |verify: Verify| {
        let mut found = None;
        let mut see = |record: &Record<'_>| found = Some(record.value.to_vec());
        store.db.get_checked(&store.family, b"b", At::Latest, verify, &mut see).unwrap();
        found
    };
    let walk = |verify: Verify, forward: bool| {
        let mut cursor = store.db.cursor_checked(&store.family, At::Latest, ALL, verify).unwrap();
        let (mut keys, mut errors) = (Vec::new(), Vec::new());
        let mut moved = if forward { cursor.first() } else { cursor.last() };
        loop {
            match moved {
                Ok(()) if !cursor.valid() => break,
                Ok(()) => keys.push(cursor.key().to_vec()),
                Err(error) => errors.push(error),
            }
            moved = if forward { cursor.next() } else { cursor.prev() };
        }
        keys.sort();
        assert_eq!(keys, [b"a", b"c"]);
        errors
    };
    // Its word alone, which no read is told of.
    hit(place_of(&whole.companion) + 1, 0x10);
    for verify in [Verify::Never, Verify::OnFill, Verify::Always] {
        assert_eq!(read(verify), None, "{verify:?}");
        assert!(walk(verify, true).is_empty() && walk(verify, false).is_empty(), "{verify:?}");
    }
    hit(place_of(&whole.companion) + 1, 0x10); // as it was
    // Its value. A cursor goes on behind it; a read looks again, and the file has what was written.
    for verify in [Verify::Never, Verify::OnFill] {
        hit(place_of(b"for a while"), 1);
        for forward in [true, false] {
            let errors = walk(verify, forward);
            assert_eq!(errors.len(), 1, "{verify:?}, forward: {forward}");
            let damage = errors[0].damage().unwrap();
            assert_eq!((damage.file.as_str(), damage.cf.as_deref()), (name, Some("default")));
            assert_eq!(damage.key_range, Some((b"b".to_vec(), b"b".to_vec())));
        }
        assert_eq!(read(verify), None, "{verify:?}");
        assert!(walk(verify, true).is_empty() && walk(verify, false).is_empty(), "{verify:?}");
    }
}

#[test]
fn an_entry_that_was_hit_is_told_and_the_value_served() {
    let protector = sealer();
    let mut companion = Vec::new();
    let labels = Labels::of(&[("name", "text")]).unwrap();
    let pending = waxseal_lsm::seam::PendingWrite {
        family: 0,
        kind: Kind::Put,
        key: b"k",
        value: b"v",
        key_hash: None,
        entries: &[(LABELS, &labels)],
    };
    protector.on_write(&pending, &mut companion).unwrap();
    protector.bind(&mut companion, None, 5);
    let record = |companion| Record { key: b"k", seqno: 5, kind: Kind::Put, value: b"v", companion };
    let verified = verified_meta_of(&protector, &record(&companion), LABELS).unwrap().unwrap();
    assert_eq!(verified.checked, Checked::Sealed);
    let mut hit = companion.clone();
    *hit.last_mut().unwrap() ^= 4;
    assert_eq!(protector.verify(&record(&hit), hash(b"k"), Protection::Complete), Check::CompanionDamaged);
    assert!(meta_of(&record(&hit), LABELS).unwrap_err().is_corruption());
    let other_value = Record { value: b"w", ..record(&companion) };
    assert!(verified_meta_of(&protector, &other_value, LABELS).unwrap_err().is_corruption());
    assert!(meta_of(&other_value, LABELS).unwrap().is_some()); // the value was not looked at
}

/// Law 1: seals inline or as a column, with other companions present or not, through every place a record lives in.
#[test]
fn both_layouts_through_every_place() {
    let compressions = [Compression::None, Compression::default()];
    for (seal_column, compression, every) in [false, true]
        .into_iter()
        .flat_map(|column| compressions.map(|compression| (column, compression)))
        .flat_map(|(column, compression)| [0usize, 1, 7].map(|every| (column, compression, every)))
    {
        let (sim, protector) = (SimFs::new(1), sealer());
        let options = CfOptions { seals: SealLayout::always(seal_column), compression, ..options() };
        let store = Store::open(&sim, protector.clone(), options.clone());
        let labels = Labels::of(&[("a", "b")]).unwrap();
        let mut written = 0;
        for n in 0..300usize {
            let key = (n * 7 % 150).to_string();
            let given: &[(u16, &[u8])] = if every > 0 && n % every == 0 { &[(LABELS, &labels)] } else { &[] };
            store.try_apply(Kind::Put, key.as_bytes(), n.to_string().repeat(3).as_bytes(), given).unwrap();
            written += 1;
            if n == 150 {
                holds(&store);
                store.db.flush().unwrap();
            }
        }
        let content = store.scan();
        holds(&store);
        store.compact();
        let compacted = store.scan();
        assert_eq!(compacted, content);
        holds(&store);
        store.db.checkpoint(Path::new("/copy")).unwrap();
        let copied = sim.files("/copy").into_iter().filter(|name| name.ends_with(".tbl"));
        let copied =
            copied.map(|name| open_table(&sim, &Path::new("/copy").join(name)).verify(&*protector, &mut |_| Ok(())));
        assert_eq!(copied.map(|ledger| ledger.unwrap().count()).sum::<u64>(), 150);
        counted(&protector, written);
        let columns = store.tables().iter().filter(|path| has_column(&sim.read_all(path).unwrap())).count();
        assert_eq!(columns > 0, seal_column && every != 1, "column {seal_column}, a list every {every}");
        for path in store.tables() {
            assert_eq!(open_table(&sim, &path).properties().protection, 2);
        }
    }
}

/// True if the first block of a table keeps its seals as a column: the codec byte behind its stored bytes says so. The
/// length of the first block stands in the index, whose handle is the footer's first.
fn has_column(table: &[u8]) -> bool {
    let word = |at: usize| u32::from_le_bytes(table[at..at + 4].try_into().unwrap()) as usize;
    let mut at = word(table.len() - 136) + 4; // the number of blocks is passed over
    let mut varint = || {
        let (mut value, mut shift) = (0usize, 0);
        loop {
            let byte = table[at];
            at += 1;
            value |= usize::from(byte & 0x7F) << shift;
            shift += 7;
            if byte < 0x80 {
                return (value, at);
            }
        }
    };
    let (_, _) = varint();
    let (unshared, behind) = varint();
    let mut rest = behind + unshared;
    let mut stored = 0;
    for shift in (0..28).step_by(7) {
        stored |= usize::from(table[rest] & 0x7F) << shift;
        rest += 1;
        if table[rest - 1] < 0x80 {
            break;
        }
    }
    table[64 + stored] & 0x80 != 0
}
