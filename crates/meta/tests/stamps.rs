//! Stamps on the real engine, on a simulated disk: who wrote a record and when rides beside it, and the flush that
//! meets it tells of it once, whatever happens on the way.

#[path = "stamps/watched.rs"]
mod watched;

use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::batch::{Batch, seqno_of_before};
use waxseal_lsm::checksum::{hash, keys_hashed};
use waxseal_lsm::db::At;
use waxseal_lsm::env::sim::{Crash, SimFs};
use waxseal_lsm::error::{ErrorKind, Result};
use waxseal_lsm::options::{Durability, Verify};
use waxseal_lsm::record::{Kind, Record, companion};
use waxseal_lsm::seam::{Check, Companions, Emitting, Lookup, PendingWrite, Protection};
use waxseal_meta::builtin::{Labels, Provenance};
use waxseal_meta::exchange::{ExportRequest, Form, Policy, export, import, import_tables};
use waxseal_meta::integrity::{
    Candidate, Outcome, RepairOptions, RepairSource, SalvageOptions, ScrubOptions, VerifyOptions,
};
use waxseal_meta::integrity::{repair, salvage, scrub, verify};
use waxseal_meta::provider::{LABELS, PROVENANCE};
use waxseal_meta::reading::{Checked, get_meta, meta_of};
use waxseal_meta::stamp::{Stamp, StampValues, StampVerb};
use waxseal_meta::{Seal, Sealer};
use waxseal_testing::above::Over;
use waxseal_testing::harness::{DIR, Owned};

use watched::{Striker, Watched, high_first, sealer};

/// The stamp of the n-th write, by a session that follows from it.
fn stamp(n: u64) -> Stamp {
    Stamp { values: StampValues::New, ..Stamp::new(StampVerb::Update, (1_000_000 + n) << 12, n % 7) }
}

/// Every stamped write has its row, once, and no other row is there.
fn tells(world: &Watched, times: &[u64]) {
    let told: Vec<u64> = world.rows().iter().map(|row| row.time).collect();
    let mut expected = times.to_vec();
    expected.sort_unstable();
    assert_eq!(told, expected);
}

fn stamps_ride_and_are_told_once() {
    let sim = SimFs::new(1);
    let world = Watched::open(&sim);
    let mut times = Vec::new();
    for n in 0..200u64 {
        let stamp = stamp(n);
        times.push(stamp.time);
        world.put(&high_first(n % 20), &high_first(n), &stamp);
        if n % 60 == 59 {
            world.db.flush().unwrap();
            tells(&world, &times);
        }
    }
    world.db.sync().unwrap();
    drop(world);
    sim.reboot(Crash::Process);
    let world = Watched::open(&sim);
    world.db.flush().unwrap();
    tells(&world, &times);
    world.compact();
    tells(&world, &times);
    for n in 180..200u64 {
        let (key, expected) = (high_first(n % 20), stamp(n));
        let found = world.get(&key).unwrap();
        assert_eq!(Stamp::of(&found.companion, hash(&key)).unwrap(), Some(expected), "the stamp of a value is lost");
        assert_eq!(Sealer::seal_of(&found.record()).unwrap(), Some(Seal::of(key, high_first(n))));
        let who = get_meta(&world.db, &world.family, &key, At::Latest, PROVENANCE).unwrap().unwrap();
        assert_eq!(who.checked, Checked::Itself);
        assert_eq!(Provenance::read(&who.bytes), Some((expected.session, expected.micros())));
    }
    let report = verify(&world.db, VerifyOptions::default()).unwrap();
    assert!(report.damage.is_empty() && report.validated == report.records, "{report}");
    assert!((20..200).contains(&world.observed()), "those that the log still had");
}

fn a_stamp_that_was_hit_is_noticed_and_its_value_served() {
    let (sealer, key_hash) = (Sealer::new(), hash(b"k"));
    let mut batch = Batch::new();
    let pending = PendingWrite { family: 0, kind: Kind::Put, key: b"k", value: b"v", key_hash: None, entries: &[] };
    sealer.push_stamped(&mut batch, &pending, None, &stamp(3)).unwrap();
    let mut whole = batch.operations().next().unwrap().unwrap().companion.to_vec();
    sealer.bind(&mut whole, None, 9);
    fn record(companion: &[u8]) -> Record<'_> {
        Record { key: b"k", seqno: 9, kind: Kind::Put, value: b"v", companion }
    }
    assert_eq!(sealer.verify(&record(&whole), key_hash, Protection::Complete), Check::Validated);
    let (telling, _) = watched::telling();
    let emitting = Emitting { id: 0, name: "default", lookup: &Nobody };
    // Behind the seal, the kind and the length: every bit of what it says and of its check.
    for bit in 11 * 8..whole.len() * 8 {
        let mut hit = whole.clone();
        hit[bit / 8] ^= 1 << (bit % 8);
        let record = record(&hit);
        let check = sealer.verify(&record, key_hash, Protection::Complete);
        assert_eq!(check, Check::CompanionDamaged, "bit {bit} of a stamp");
        assert!(meta_of(&record, PROVENANCE).unwrap_err().is_corruption());
        let mut rows = Vec::new();
        assert!(telling.emit(&emitting, &record, &mut rows).unwrap_err().is_corruption() && rows.is_empty());
    }
    // Of a record that is not what was written nothing is told either, although the pass may leave it out.
    let other = Record { value: b"w", ..record(&whole) };
    assert!(telling.emit(&emitting, &other, &mut Vec::new()).unwrap_err().is_corruption());
    let mut rows = Vec::new();
    telling.emit(&emitting, &record(&whole), &mut rows).unwrap();
    assert_eq!(rows.len(), 1);
}

fn keys_are_made_whole_and_their_seals_with_them() {
    let sim = SimFs::new(1);
    let world = Watched::open(&sim);
    // Labels have a sum by the key; a stamp beside a row would have one too.
    let label = Labels::of(&[("a", "b")]).unwrap();
    let mut batch = Batch::new();
    let to = |family, key, entries| PendingWrite { family, kind: Kind::Put, key, value: b"v", key_hash: None, entries };
    world.sealer.push_stamped(&mut batch, &to(world.family.id(), b"k", &[]), None, &elsewhere(1)).unwrap();
    let key = |distance| [&b"row"[..], &seqno_of_before(distance)].concat();
    let (first, second) = (key(1), key(0));
    let entries: &[(u16, &[u8])] = &[(LABELS, &label)];
    world.sealer.push_stamped(&mut batch, &to(world.log.id(), &first, entries), None, &elsewhere(2)).unwrap();
    batch.push(world.log.id(), Kind::Put, &second, b"plain", &*world.sealer).unwrap();
    batch.grant(watched::pass());
    let last = world.db.commit(&mut batch, Durability::Os).unwrap();
    let row = |seqno: u64| [&b"row"[..], &high_first(seqno)].concat();
    let are_right = |world: &Watched| {
        let rows: Vec<Owned> = world.scan(&world.log);
        let keys: Vec<Vec<u8>> = rows.iter().map(|row| row.key.clone()).collect();
        assert_eq!(keys, [row(last - 2), row(last)], "one names the operation before it, the other itself");
        let mut count = 0;
        world.each_of(&world.log, |record| {
            let check = world.sealer.verify(record, hash(record.key), Protection::Complete);
            assert_eq!(check, Check::Validated, "{record:?}");
            count += 1;
        });
        assert_eq!(count, 2);
        let report = verify(&world.db, VerifyOptions::default()).unwrap();
        assert!(report.damage.is_empty(), "{report}");
    };
    are_right(&world);
    world.db.sync().unwrap();
    drop(world);
    sim.reboot(Crash::Process);
    are_right(&Watched::open(&sim)); // replayed
}

/// A stamp whose row is written with its record.
fn elsewhere(n: u64) -> Stamp {
    Stamp { elsewhere: true, ..stamp(n) }
}

/// Looks nothing up.
struct Nobody;

impl Lookup for Nobody {
    fn get(&self, _: u32, _: &[u8], _: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(false)
    }
}

#[test]
fn stamps_ride_from_put_to_table_and_each_is_told_once() {
    stamps_ride_and_are_told_once();
}

#[test]
fn every_bit_of_a_stamp_is_watched() {
    a_stamp_that_was_hit_is_noticed_and_its_value_served();
}

#[test]
fn keys_that_end_in_seqnos_keep_their_seals() {
    keys_are_made_whole_and_their_seals_with_them();
}

#[test]
fn rows_that_stand_elsewhere_are_not_told_and_their_times_are_seen() {
    let world = Watched::open(&SimFs::new(1));
    world.put(b"a", b"1", &elsewhere(1));
    world.put(b"b", b"2", &stamp(2));
    world.apply(Kind::Put, b"c", b"3");
    world.db.flush().unwrap();
    tells(&world, &[stamp(2).time]);
    assert_eq!(world.observed(), 2);
    // The row is sealed, and says what the record says.
    let row = &world.rows()[0];
    assert_eq!((row.value.as_slice(), row.verb), (&b"2"[..], StampVerb::Update));
    assert!(world.sealer.counts().derived >= 1);
}

#[test]
fn a_batch_is_built_again_with_stamps_and_the_same_seals() {
    let sealer = sealer();
    let label = Labels::of(&[("a", "b")]).unwrap();
    let (mut batch, mut out) = (Batch::new(), Batch::new());
    batch.push_given(0, Kind::Put, b"a", b"1", &[(LABELS, &label)], &sealer).unwrap();
    batch.push(0, Kind::Delete, b"b", b"", &sealer).unwrap();
    batch.push(7, Kind::Put, b"c", b"3", &sealer).unwrap();
    sealer
        .restamp(&batch, &mut out, &mut |operation, key_hash| {
            assert_eq!(key_hash, hash(operation.key));
            (operation.family == 0).then(|| stamp(operation.key[0].into()))
        })
        .unwrap();
    for (before, after) in batch.operations().zip(out.operations()) {
        let (before, after) = (before.unwrap(), after.unwrap());
        assert_eq!(
            (before.family, before.kind, before.key, before.value),
            (after.family, after.kind, after.key, after.value)
        );
        let expected = (before.family == 0).then(|| stamp(before.key[0].into()));
        assert_eq!(Stamp::of(after.companion, hash(after.key)).unwrap(), expected);
        assert!(after.companion.starts_with(before.companion));
    }
    // A stamp takes the place of another; no stamp leaves things as they are.
    let (mut again, mut same) = (Batch::new(), Batch::new());
    sealer.restamp(&out, &mut again, &mut |_, _| Some(stamp(99))).unwrap();
    sealer.restamp(&out, &mut same, &mut |_, _| None).unwrap();
    assert_eq!(same.seal().bytes, out.seal().bytes);
    for operation in again.operations() {
        let operation = operation.unwrap();
        assert_eq!(Stamp::of(operation.companion, hash(operation.key)).unwrap(), Some(stamp(99)));
    }
}

#[test]
fn a_stamp_costs_sixteen_bytes_and_no_second_hash_of_the_key() {
    let sealer = sealer();
    let pending = PendingWrite { family: 0, kind: Kind::Put, key: b"k", value: b"v", key_hash: None, entries: &[] };
    let (mut bare, mut stamped, mut given) = (Batch::new(), Batch::new(), Batch::new());
    bare.push(0, Kind::Put, b"k", b"v", &sealer).unwrap();
    let before = keys_hashed();
    let late = Stamp { session: 16_383, elsewhere: true, ..stamp(1) };
    sealer.push_stamped(&mut stamped, &pending, None, &late).unwrap();
    assert_eq!(keys_hashed() - before, 1);
    assert_eq!(stamped.encoded_bytes() - bare.encoded_bytes(), 16);
    sealer.push_stamped(&mut given, &pending, Some(Seal::of(b"k", b"v")), &late).unwrap();
    assert_eq!(given.seal().bytes, stamped.seal().bytes);
    let wrong = sealer.push_stamped(&mut given, &pending, Some(Seal::of(b"k", b"w")), &late).unwrap_err();
    assert_eq!((wrong.kind(), given.len()), (&ErrorKind::Invalid, 1));
    assert_eq!(sealer.counts().given, 1);
}

#[test]
fn history_keeps_the_version_below() {
    let world = Watched::open(&SimFs::new(1));
    let keeps = |n| Stamp { history: true, ..stamp(n) };
    world.put(b"k", b"1", &stamp(1));
    world.put(b"k", b"2", &stamp(2));
    let third = world.put(b"k", b"3", &keeps(3));
    world.put(b"k", b"4", &stamp(4));
    world.db.flush().unwrap();
    world.compact();
    let mut versions = Vec::new();
    world.each_of(&world.family, |record| versions.push(record.value.to_vec()));
    assert_eq!(versions, [b"4", b"3", b"2"]);
    let mut old = None;
    let found = world.db.get_before(&world.family, b"k", third, Verify::Always, &mut |record| {
        old = Some(record.value.to_vec());
    });
    assert!(found.unwrap());
    assert_eq!(old.as_deref(), Some(&b"2"[..]));
}

/// Twenty values with a stamp each, in a table.
fn fill_twenty(world: &Watched) {
    for n in 0..20u64 {
        world.put(format!("key {n}").as_bytes(), b"value", &stamp(n));
    }
    world.db.flush().unwrap();
}

/// A stamp that is hit in a table under sums that fit, as by damage in memory before they were taken.
#[test]
fn a_stamp_hit_in_a_table_is_reported_and_a_repair_leaves_out_it_alone() {
    let sim = SimFs::new(1);
    let striker = Arc::new(Over(Striker::new(b"key 7")));
    let world = Watched::open_by(&sim, striker.clone(), sealer());
    fill_twenty(&world);
    assert!(striker.has_struck());
    world.db.close().unwrap();
    let before = sim.fork();
    let world = Watched::open(&sim);
    assert_eq!(world.get(b"key 7").unwrap().value, b"value");
    let is_told = |report: &waxseal_meta::integrity::Report| {
        let [finding] = &report.damage[..] else { panic!("{report}") };
        assert!(finding.message.starts_with("the stamp of a record was hit"), "{finding}");
        assert_eq!(finding.key_range, Some((b"key 7".to_vec(), b"key 7".to_vec())));
        assert_eq!((finding.outcome, report.lost), (Outcome::Reported, 0));
        assert_eq!(report.tables.iter().map(|table| table.found).sum::<u64>(), 1);
    };
    is_told(&verify(&world.db, VerifyOptions::default()).unwrap());
    is_told(&scrub(&world.db, ScrubOptions::default()).unwrap());
    assert!(get_meta(&world.db, &world.family, b"key 7", At::Latest, PROVENANCE).unwrap_err().is_corruption());
    assert!(get_meta(&world.db, &world.family, b"key 8", At::Latest, PROVENANCE).unwrap().is_some());
    // Nobody can have it again. A repair leaves it out, says so, and the table is one like any other from then on.
    let report = repair(&world.db, RepairOptions::default()).unwrap();
    let [finding] = &report.damage[..] else { panic!("{report}") };
    assert!(finding.message.starts_with("the stamp beside a record was hit and is left out"), "{finding}");
    assert_eq!((finding.outcome, report.lost, report.lost_beside), (Outcome::LeftOut, 0, 1));
    assert!(!report.is_clean() && world.db.quarantined_tables(&world.family).is_empty());
    has_all_but_the_stamp(&world);
    world.compact();
    has_all_but_the_stamp(&world);
    let report = repair(&world.db, RepairOptions::default()).unwrap();
    assert!(report.damage.is_empty(), "{report}");
    world.db.close().unwrap();
    // Who accepts losses is told too, and need do nothing more.
    let world = Watched::open(&before);
    let report = repair(&world.db, RepairOptions { accept_loss: true, ..RepairOptions::default() }).unwrap();
    assert_eq!((report.damage[0].outcome, report.lost_beside), (Outcome::Accepted, 1), "{report}");
    has_all_but_the_stamp(&world);
}

/// Twenty values, of which one has no stamp any more; and nothing is wrong.
fn has_all_but_the_stamp(world: &Watched) {
    let report = verify(&world.db, VerifyOptions::default()).unwrap();
    assert!(report.damage.is_empty(), "{report}");
    assert_eq!(world.scan(&world.family).len(), 20);
    for found in world.scan(&world.family) {
        assert_eq!(world.sealer.verify(&found.record(), hash(&found.key), Protection::Complete), Check::Validated);
        assert_eq!(Stamp::of(&found.companion, hash(&found.key)).unwrap().is_none(), found.key == b"key 7");
    }
}

#[test]
fn a_salvage_leaves_behind_a_stamp_that_was_hit_and_nothing_else() {
    let sim = SimFs::new(1);
    let world = Watched::open_by(&sim, Arc::new(Over(Striker::new(b"key 7"))), sealer());
    fill_twenty(&world);
    world.db.close().unwrap();
    let (to, parts) = (Path::new("/salvaged"), watched::parts(&sim, Arc::new(sealer())));
    let report = salvage(DIR.as_ref(), to, watched::settings(), parts, SalvageOptions::default()).unwrap();
    assert_eq!((report.lost, report.lost_beside, report.damage[0].outcome), (0, 1, Outcome::LeftOut), "{report}");
    let world = Watched::open_at(&sim, "/salvaged");
    let other = world.get(b"key 8").unwrap();
    assert_eq!(Stamp::of(&other.companion, hash(&other.key)).unwrap(), Some(elsewhere(8)));
    has_all_but_the_stamp(&world);
}

/// Has every value, and nothing of what stands beside one.
struct Values20;

impl RepairSource for Values20 {
    fn by_seal(&self, _: &str, key: &[u8], seal: Seal) -> Result<Option<Candidate>> {
        let (key, value) = (key.to_vec(), b"value".to_vec());
        Ok((Seal::of(&key, &value) == seal).then_some(Candidate { kind: Kind::Put, key, value }))
    }
    fn by_range(&self, _: &str, _: &[u8], _: &[u8], _: &mut dyn FnMut(Candidate)) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_record_that_a_source_gives_back_without_its_stamp_is_told_of() {
    let sim = SimFs::new(1);
    let world = Watched::open(&sim);
    fill_twenty(&world);
    let found = world.get(b"key 7").unwrap();
    world.compact();
    world.db.close().unwrap();
    // The kind of its stamp is no companion's any more, and the stamp is hit as well: what stands there is the end of a
    // record with a seal.
    let table = sim.files(Path::new(DIR)).into_iter().find_map(|name| {
        let file = Path::new(DIR).join(&name);
        let bytes = sim.read_all(&file).unwrap();
        let at = bytes.windows(found.companion.len()).position(|window| window == found.companion)?;
        name.ends_with(".tbl").then_some((file, at + companion::WORD8_BYTES))
    });
    let (table, stamp_at) = table.expect("it stands in a table");
    for bit in [0, 34, 42, 51] {
        sim.flip(&table, stamp_at as u64 * 8 + bit).unwrap();
    }
    let before = sim.fork();
    let world = Watched::open(&sim);
    let report = repair(&world.db, RepairOptions { source: Some(&Values20), ..RepairOptions::default() }).unwrap();
    assert_eq!((report.lost, report.lost_beside), (0, 1), "{report}");
    assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::LeftOut), "{report}");
    assert!(!report.is_clean());
    has_all_but_the_stamp(&world);
    // So does a salvage, which asks nobody and misses the record.
    let (to, parts) = (Path::new("/salvaged"), watched::parts(&before, Arc::new(sealer())));
    let report = salvage(DIR.as_ref(), to, watched::settings(), parts, SalvageOptions::default()).unwrap();
    assert!(report.lost == 1 && !report.is_clean(), "{report}");
}

#[test]
fn stamps_do_not_leave_the_store_and_do_not_come_in() {
    let sim = SimFs::new(1);
    let world = Watched::open(&sim);
    for n in 0..30u64 {
        world.put(format!("{n:03}").as_bytes(), b"value", &stamp(n));
    }
    world.db.flush().unwrap();
    let env = sim.env(sim.steps() + 1);
    let policies =
        [Policy::Strip, Policy::Companion { allow: vec![PROVENANCE, LABELS] }, Policy::PaperSafe, Policy::PaperLiteral];
    for (at, policy) in policies.into_iter().enumerate() {
        let out = format!("/out{at}");
        let is_sealed = matches!(policy, Policy::Companion { .. });
        let request = ExportRequest { policy, ..ExportRequest::default() };
        let exported = export(&world.db, &world.family, &env, out.as_ref(), &request).unwrap();
        assert_eq!(exported.companion_bytes, if is_sealed { 30 * 9 } else { 0 });
        let to = Watched::open_at(&sim, &format!("/receiver{at}"));
        assert_eq!(import(&to.db, &to.family, &env, out.as_ref()).unwrap().records, 30);
    }
    // Not even whole tables bring them along.
    let tables = world.db.tables(&world.family).unwrap();
    let paths: Vec<_> = tables.iter().map(|table| Path::new(DIR).join(table.name())).collect();
    let to = Watched::open_at(&sim, "/receiver");
    let imported = import_tables(&to.db, &to.family, &env, &paths, Form::Sealed).unwrap();
    assert_eq!((imported.records, imported.sealed), (30, 30));
    to.compact();
    tells(&to, &[]);
    for found in to.scan(&to.family) {
        assert_eq!(Stamp::of(&found.companion, hash(&found.key)).unwrap(), None, "a stamp of another store");
        assert_eq!(to.sealer.verify(&found.record(), hash(&found.key), Protection::Complete), Check::Validated);
    }
}

#[test]
fn a_salvage_tells_what_was_not_told_and_nothing_twice() {
    let sim = SimFs::new(1);
    let world = Watched::open(&sim);
    let mut times = Vec::new();
    for n in 0..30u64 {
        world.put(&high_first(n % 11), &high_first(n), &stamp(n));
        times.push(stamp(n).time);
        if n == 13 {
            world.db.flush().unwrap();
        }
    }
    let mut batch = Batch::new();
    let key = [&b"row"[..], &seqno_of_before(0)].concat();
    batch.push(world.log.id(), Kind::Put, &key, b"plain", &*world.sealer).unwrap();
    batch.grant(watched::pass());
    let seqno = world.db.commit(&mut batch, Durability::Os).unwrap();
    world.db.sync().unwrap();
    drop(world);
    sim.reboot(Crash::Process);
    let to = Path::new("/salvaged");
    // The caller need not know of the system's families: they are in the manifest.
    let mut parts = watched::parts(&sim, Arc::new(sealer()));
    parts.families.truncate(1);
    let report = salvage(DIR.as_ref(), to, watched::settings(), parts, SalvageOptions::default()).unwrap();
    assert!(report.is_clean(), "{report}");
    let world = Watched::open_at(&sim, "/salvaged");
    tells(&world, &times);
    assert!(world.scan(&world.log).iter().any(|row| row.key == [&b"row"[..], &high_first(seqno)].concat()));
    assert_eq!(world.log.id(), waxseal_lsm::names::system_id(1));
}

#[test]
fn reports_tell_of_tables_and_time() {
    let world = Watched::open(&SimFs::new(1));
    for n in 0..50u64 {
        world.put(&high_first(n), b"value", &stamp(n));
    }
    world.db.flush().unwrap();
    let tables: Vec<_> =
        [&world.family, &world.log].map(|family| world.db.tables(family).unwrap()).into_iter().flatten().collect();
    for report in [
        verify(&world.db, VerifyOptions::default()).unwrap(),
        scrub(&world.db, ScrubOptions::default()).unwrap(),
        repair(&world.db, RepairOptions::default()).unwrap(),
    ] {
        assert_eq!(report.outcome(), "no damage");
        assert_eq!(report.tables.len(), tables.len());
        for (seen, table) in report.tables.iter().zip(&tables) {
            let meta = table.meta();
            assert_eq!((seen.number, seen.uid, seen.digest), (meta.number, meta.uid, meta.digest));
            assert_eq!((&*seen.family, seen.records, seen.found), (table.family().name(), meta.ledger.count(), 0));
        }
    }
}

/// What a pass through `Db` sees.
#[cfg(feature = "planted")]
fn is_found() -> bool {
    use std::panic::catch_unwind;
    let checks = [
        stamps_ride_and_are_told_once,
        a_stamp_that_was_hit_is_noticed_and_its_value_served,
        keys_are_made_whole_and_their_seals_with_them,
    ];
    checks.into_iter().any(|check| catch_unwind(check).is_err())
}

/// Alone in its process: `cargo test -p waxseal-meta --features planted --test stamps planted`.
#[cfg(feature = "planted")]
#[test]
fn planted_bugs_are_found() {
    use waxseal_lsm::planted::{Bug, plant};
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let clean = !is_found();
    let missed: Vec<Bug> = Bug::OF_STAMPS
        .into_iter()
        .filter(|bug| {
            plant(Some(*bug));
            !is_found()
        })
        .collect();
    plant(None);
    std::panic::set_hook(hook);
    assert!(clean, "the suite fails without a planted bug");
    assert!(missed.is_empty(), "not found: {missed:?}");
}
