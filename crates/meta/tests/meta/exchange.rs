//! Exchange between nodes: what leaves, what comes in, and that nothing that is not what it says does.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waxseal_lab::paper::{self, Paper};
use waxseal_lsm::batch::Batch;
use waxseal_lsm::cursor::Cursor;
use waxseal_lsm::db::{At, CursorBounds};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::{Fs, Open, read_exact};
use waxseal_lsm::error::ErrorKind;
use waxseal_lsm::merge::merged;
use waxseal_lsm::options::{CfOptions, Durability};
use waxseal_lsm::order::Order;
use waxseal_lsm::record::Kind;
use waxseal_lsm::seam::{Companions, Plain};
use waxseal_meta::builtin::standard;
use waxseal_meta::exchange::header::{File, Manifest, NAME};
use waxseal_meta::exchange::{ExportRequest, Form, Policy, Versions, export, import, import_tables};
use waxseal_meta::provider::{Descriptor, MetadataProvider};
use waxseal_meta::{Providers, Seal, Sealer};
use waxseal_testing::harness::{Model, Store, files_in, open_table, packed};
use waxseal_testing::store::backwards;

use crate::nodes::{adopt_whole_tables, companion_bytes, open_node, put_given, put_until, write_table};

const OUT: &str = "/out";

fn policies() -> [Policy; 4] {
    [Policy::Strip, Policy::Companion { allow: vec![] }, Policy::PaperSafe, Policy::PaperLiteral]
}

fn adopting() -> Arc<Sealer> {
    Arc::new(Sealer::new())
}

/// A sealed node with two levels of work in it.
fn giver(sim: &SimFs) -> (Store, Model) {
    let node = open_node(sim, "/giver", Arc::new(Sealer::new()));
    let mut model = Model::new();
    node.work(&mut model, 1, 600);
    node.db.settle().unwrap();
    node.work(&mut model, 2, 60);
    (node, model)
}

fn bytes_of(sim: &SimFs, path: &Path) -> Vec<u8> {
    let file = sim.open(path, Open::Read).unwrap();
    read_exact(&*file, 0, file.len().unwrap() as usize).unwrap()
}

/// Puts other bytes in the place of a file.
fn put_bytes(sim: &SimFs, path: &Path, bytes: &[u8]) {
    let _ = sim.remove(path);
    sim.open(path, Open::Create).unwrap().write_at(bytes, 0).unwrap();
}

/// M-8: metadata bytes on plain nodes are none under `Strip`; what comes from them is adopted, all of it.
#[test]
fn strip_exports_no_metadata_and_every_import_of_it_is_adopted() {
    let sim = SimFs::new(3);
    let (node, model) = giver(&sim);
    let request = ExportRequest { policy: Policy::Strip, ..ExportRequest::default() };
    let exported = export(&node.db, &node.family, &sim.env(4), Path::new(OUT), &request).unwrap();
    assert_eq!((exported.records, exported.rows, exported.companion_bytes), (model.len() as u64, 0, 0));
    assert_eq!((exported.manifest.sum, exported.manifest.algorithm, exported.manifest.complete), (0, 0, false));
    assert_ne!(exported.sum, 0);
    assert_eq!((exported.left_behind.seals, exported.left_behind.bytes), (exported.records, 9 * exported.records));
    let plain = open_node(&sim, "/plain", Arc::new(Plain));
    let imported = import(&plain.db, &plain.family, &sim.env(5), Path::new(OUT)).unwrap();
    assert_eq!((imported.records, imported.sealed, imported.unsealed), (model.len() as u64, 0, model.len() as u64));
    plain.check(&model);
    assert_eq!(companion_bytes(&plain), 0);

    // On to a node that seals, by way of the plain one.
    export(&plain.db, &plain.family, &sim.env(6), Path::new("/out2"), &request).unwrap();
    let sealer = adopting();
    let sealed = open_node(&sim, "/sealed", sealer.clone());
    let imported = import(&sealed.db, &sealed.family, &sim.env(7), Path::new("/out2")).unwrap();
    assert_eq!(imported.unsealed, model.len() as u64);
    assert_eq!(sealer.counts().adopted, imported.records, "adopted is what migrated in");
    sealed.check(&model);
    sealed.each(|record| assert_eq!(Sealer::seal_of(record).unwrap(), Some(Seal::of(record.key, record.value))));
}

#[test]
fn seals_travel_and_are_bound_to_their_new_seqno() {
    let sim = SimFs::new(3);
    let (node, model) = giver(&sim);
    let request = ExportRequest { policy: Policy::Companion { allow: vec![] }, ..ExportRequest::default() };
    let exported = export(&node.db, &node.family, &sim.env(4), Path::new(OUT), &request).unwrap();
    assert!(exported.manifest.complete && exported.unsealed == 0 && exported.companion_bytes == 9 * exported.records);
    let sealer = adopting();
    let other = open_node(&sim, "/other", sealer.clone());
    other.put(b"zzz", b"here before");
    let imported = import(&other.db, &other.family, &sim.env(5), Path::new(OUT)).unwrap();
    assert_eq!((imported.sealed, imported.unsealed, sealer.counts().adopted), (model.len() as u64, 0, 0));
    let mut expected = model.clone();
    expected.insert(b"zzz".to_vec(), b"here before".to_vec());
    other.check(&expected);
    let mut sum = 0u64;
    other.each(|record| {
        assert_eq!(Sealer::seal_of(record).unwrap(), Some(Seal::of(record.key, record.value)));
        if record.key != b"zzz" {
            assert_eq!(record.seqno, imported.seqno);
            sum = sum.wrapping_add(Seal::of_record(record).number());
        }
    });
    assert_eq!(sum, exported.sum, "the same content, wherever it lies");
    // A plain node takes the records and leaves behind what it could not keep right.
    let plain = open_node(&sim, "/plain", Arc::new(Plain));
    import(&plain.db, &plain.family, &sim.env(6), Path::new(OUT)).unwrap();
    plain.check(&model);
    assert_eq!(companion_bytes(&plain), 0);
}

/// An import is one commit: older records lose, later ones win, and a snapshot never changes, not even one taken in its
/// midst.
#[test]
fn what_comes_in_stands_under_one_seqno() {
    let sim = SimFs::new(3);
    let from = open_node(&sim, "/from", Arc::new(Sealer::new()));
    for key in ["a", "b", "c"] {
        from.put(key.as_bytes(), b"theirs");
    }
    export(&from.db, &from.family, &sim.env(4), Path::new(OUT), &ExportRequest::default()).unwrap();
    for flushed in [false, true] {
        let node = open_node(&sim, &format!("/node{flushed}"), adopting());
        node.put(b"a", b"ours");
        node.put(b"x", b"ours");
        if flushed {
            node.db.settle().unwrap();
        }
        node.put(b"b", b"ours, in memory");
        let before = node.db.snapshot().unwrap();
        let first = import(&node.db, &node.family, &sim.env(5), Path::new(OUT)).unwrap();
        node.put(b"c", b"later");
        let seen = |at: At<'_>, key: &str| node.value(at, key.as_bytes());
        let text = |value: &str| Some(value.as_bytes().to_vec());
        let check = || {
            assert_eq!(seen(At::Latest, "a"), text("theirs"));
            assert_eq!(seen(At::Latest, "b"), text("theirs"));
            assert_eq!(seen(At::Latest, "c"), text("later"));
            assert_eq!(seen(At::Snapshot(&before), "a"), text("ours"));
            assert_eq!(seen(At::Snapshot(&before), "b"), text("ours, in memory"));
            assert_eq!(seen(At::Snapshot(&before), "c"), None);
        };
        check();
        node.db.flush().unwrap();
        check();
        node.db.settle().unwrap();
        node.db.compact(&node.family, &(Bound::Unbounded, Bound::Unbounded)).unwrap();
        check();
        let second = import(&node.db, &node.family, &sim.env(6), Path::new(OUT)).unwrap();
        assert!(second.seqno > first.seqno);
        assert_eq!(seen(At::Latest, "c"), text("theirs"));
        drop(before);
        let expected: Model = ["a", "b", "c"].map(|key| (key.into(), b"theirs".to_vec())).into();
        let mut expected = expected;
        expected.insert(b"x".to_vec(), b"ours".to_vec());
        let node = node.reopen();
        node.check(&expected);
    }
}

#[test]
fn a_snapshot_taken_between_seqno_and_edit_stays_as_it_was() {
    let sim = SimFs::new(3);
    let (from, _) = giver(&sim);
    from.put(b"1", b"theirs");
    from.put(b"3", b"theirs");
    export(&from.db, &from.family, &sim.env(4), Path::new(OUT), &ExportRequest::default()).unwrap();
    let tables: Vec<_> = files_in(&sim, Path::new(OUT), ".tbl");
    let tables: Vec<_> = tables.iter().map(|path| open_table(&sim, path, &Order::bytewise())).collect();
    let node = open_node(&sim, "/node", Arc::new(Plain));
    node.put(b"1", b"ours");
    node.put(b"2", b"ours");
    let (mut snapshots, mut opened) = (Vec::new(), 0);
    let ingested = node.db.ingest(&node.family, &mut || {
        opened += 1;
        snapshots.push(node.db.snapshot().unwrap());
        node.put(b"2", format!("later {opened}").as_bytes());
        let sources = tables.iter().map(|table| Box::new(table.cursor(false)) as Box<dyn Cursor>).collect();
        Ok(merged(Order::bytewise(), sources))
    });
    let ingested = ingested.unwrap();
    assert_eq!(snapshots.len(), 2);
    assert!(snapshots[1].seqno() >= ingested.seqno, "taken behind the seqno");
    for _ in 0..2 {
        for snapshot in &snapshots {
            assert_eq!(node.value(At::Snapshot(snapshot), b"1"), Some(b"ours".to_vec()));
            assert_eq!(node.value(At::Snapshot(snapshot), b"3"), None);
        }
        assert_eq!(node.value(At::Snapshot(&snapshots[1]), b"2"), Some(b"later 1".to_vec()));
        assert_eq!(node.value(At::Latest, b"2"), Some(b"later 2".to_vec()));
        assert_eq!(node.value(At::Latest, b"1"), from.value(At::Latest, b"1"));
        node.db.compact(&node.family, &(Bound::Unbounded, Bound::Unbounded)).unwrap();
    }
}

#[test]
fn ranges_at_a_snapshot() {
    let sim = SimFs::new(3);
    let (node, model) = giver(&sim);
    let snapshot = node.db.snapshot().unwrap();
    node.work(&mut Model::new(), 9, 200);
    let key = |text: &str| text.as_bytes().to_vec();
    let bounds: Vec<CursorBounds> = vec![
        (Bound::Unbounded, Bound::Excluded(key("12"))),
        (Bound::Excluded(key("12")), Bound::Included(key("200"))),
        (Bound::Included(key("9")), Bound::Unbounded),
    ];
    let inside = |at: &Vec<u8>| bounds.iter().any(|range| std::ops::RangeBounds::contains(range, at));
    let expected: Model = model.iter().filter(|(at, _)| inside(at)).map(|(k, v)| (k.clone(), v.clone())).collect();
    assert!(expected.len() < model.len());
    for (at, policy) in policies().into_iter().enumerate() {
        let dir = format!("/out{at}");
        let request = ExportRequest {
            policy,
            bounds: bounds.clone(),
            at: At::Snapshot(&snapshot),
            seqno: Some(77),
            ..ExportRequest::default()
        };
        let exported = export(&node.db, &node.family, &sim.env(4), Path::new(&dir), &request).unwrap();
        assert_eq!(exported.records, expected.len() as u64);
        assert_eq!(exported.manifest.bounds, bounds);
        let other = open_node(&sim, &format!("/other{at}"), adopting());
        import(&other.db, &other.family, &sim.env(5), Path::new(&dir)).unwrap();
        other.check(&expected);
    }
    let meeting = vec![bounds[2].clone(), bounds[0].clone()];
    let request = ExportRequest { bounds: meeting, ..ExportRequest::default() };
    let error = export(&node.db, &node.family, &sim.env(4), Path::new("/no"), &request).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Invalid);
    let request = ExportRequest { versions: Versions::All, seqno: Some(5), ..ExportRequest::default() };
    assert!(export(&node.db, &node.family, &sim.env(4), Path::new("/no"), &request).is_err());
}

/// Every policy, every version: what is live in the end is the same, and rows are counted apart.
#[test]
fn all_versions_come_to_the_same() {
    let sim = SimFs::new(3);
    let (node, model) = giver(&sim);
    for (at, policy) in policies().into_iter().enumerate() {
        let dir = format!("/out{at}");
        let request = ExportRequest { policy: policy.clone(), versions: Versions::All, ..ExportRequest::default() };
        let exported = export(&node.db, &node.family, &sim.env(4), Path::new(&dir), &request).unwrap();
        assert!(exported.records > model.len() as u64, "tombstones and older versions too");
        let other = open_node(&sim, &format!("/other{at}"), adopting());
        let imported = import(&other.db, &other.family, &sim.env(5), Path::new(&dir)).unwrap();
        assert_eq!(imported.records + imported.superseded, exported.records);
        let has_rows = matches!(policy, Policy::PaperSafe | Policy::PaperLiteral);
        let bound = if has_rows { exported.records } else { 0 };
        assert_eq!((imported.bound, imported.orphans, imported.without_row), (bound, 0, 0), "{policy:?}");
        assert_eq!(exported.warning.is_some(), has_rows);
        other.check(&model);
    }
}

/// A node whose records can expire, and the moment at which those of `giver_with_ends` do.
fn expiring(sim: &SimFs, dir: &str) -> (Store, u64) {
    let node = open_node(sim, dir, Arc::new(Sealer::new().with(standard())));
    (node, sim.env(1).clock.wall_micros() + 1_000_000)
}

/// `a` expires and hides what has no end; what expires of `b` is hidden by what does not.
fn giver_with_ends(sim: &SimFs) -> Store {
    let (node, end) = expiring(sim, "/giver");
    node.put(b"a", b"hidden for ever");
    put_until(&node, b"a", b"for a while", end);
    put_until(&node, b"b", b"for a while", end);
    node.put(b"b", b"stays");
    node
}

fn both_versions() -> [Versions; 2] {
    [Versions::Newest, Versions::All]
}

/// What has an end comes in with it, or does not leave: it never becomes a record that stays.
#[test]
fn what_expires_leaves_with_its_end_or_not_at_all() {
    let sim = SimFs::new(3);
    let node = giver_with_ends(&sim);
    node.put(b"0", b"written before the refusal");
    for versions in both_versions() {
        for policy in [Policy::Strip, Policy::PaperSafe, Policy::PaperLiteral] {
            let request = ExportRequest { policy, versions, ..ExportRequest::default() };
            let error = export(&node.db, &node.family, &sim.env(4), Path::new(OUT), &request).unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().contains("the key \"a\""), "{error}");
            assert!(sim.files(OUT).is_empty(), "nothing stays of what was written");
        }
    }
    let only_b = vec![(Bound::Included(b"b".to_vec()), Bound::Unbounded)];
    let request = ExportRequest { policy: Policy::Strip, bounds: only_b, ..ExportRequest::default() };
    let exported = export(&node.db, &node.family, &sim.env(4), Path::new("/b"), &request).unwrap();
    assert_eq!(exported.records, 1, "what is hidden refuses nothing");
    let sealed =
        |versions| ExportRequest { policy: Policy::Companion { allow: vec![] }, versions, ..ExportRequest::default() };
    let takers = both_versions().map(|versions| {
        let (out, (taker, _)) = (format!("/out{versions:?}"), expiring(&sim, &format!("/taker{versions:?}")));
        export(&node.db, &node.family, &sim.env(4), Path::new(&out), &sealed(versions)).unwrap();
        assert_eq!(import(&taker.db, &taker.family, &sim.env(5), Path::new(&out)).unwrap().records, 3);
        assert_eq!(taker.value(At::Latest, b"a"), Some(b"for a while".to_vec()));
        taker
    });
    sim.clock().advance_nanos(2_000_000_000);
    let stays =
        Model::from([(b"0".to_vec(), b"written before the refusal".to_vec()), (b"b".to_vec(), b"stays".to_vec())]);
    takers.iter().for_each(|taker| taker.check(&stays));
}

/// A record whose time is over counts as a tombstone, whatever leaves beside the others.
#[test]
fn what_is_over_does_not_leave() {
    let sim = SimFs::new(3);
    let node = giver_with_ends(&sim);
    sim.clock().advance_nanos(2_000_000_000);
    let stays = Model::from([(b"b".to_vec(), b"stays".to_vec())]);
    for flushed in [false, true] {
        if flushed {
            node.db.flush().unwrap();
        }
        for (at, (policy, versions)) in policies()
            .into_iter()
            .flat_map(|policy| both_versions().map(|versions| (policy.clone(), versions)))
            .enumerate()
        {
            let name = format!("{at}{flushed}");
            let (out, what) = (format!("/out{name}"), format!("{policy:?}, {versions:?}"));
            let request = ExportRequest { policy, versions, ..ExportRequest::default() };
            let exported = export(&node.db, &node.family, &sim.env(4), Path::new(&out), &request).unwrap();
            let records = match versions {
                Versions::Newest => 1,
                Versions::All if flushed => 2,
                Versions::All => 4,
            };
            assert_eq!((exported.records, exported.unsealed), (records, 0), "{what}");
            for path in files_in(&sim, Path::new(&out), ".tbl") {
                let mut cursor = open_table(&sim, &path, &Order::bytewise()).cursor(false);
                cursor.first().unwrap();
                while cursor.valid() {
                    assert_ne!(cursor.record().value, b"for a while", "{what}");
                    cursor.next().unwrap();
                }
            }
            for protector in [Arc::new(Plain) as Arc<dyn Companions>, adopting()] {
                let taker = open_node(&sim, &format!("/taker{name}{:?}", protector.protection()), protector);
                taker.put(b"a", b"here before");
                import(&taker.db, &taker.family, &sim.env(5), Path::new(&out)).unwrap();
                let hides = (versions == Versions::All).then(|| b"here before".to_vec());
                assert_eq!(taker.value(At::Latest, b"a").is_none(), hides.is_some(), "{what}");
                taker.apply(Kind::Delete, b"a", b"");
                taker.check(&stays);
            }
        }
    }
}

/// It is no damage that a store without a keeper cannot keep when a record expires: it says so, takes nothing, and
/// takes the others.
#[test]
fn who_cannot_keep_when_records_expire_refuses_them() {
    let sim = SimFs::new(3);
    let node = giver_with_ends(&sim);
    let request = ExportRequest { policy: Policy::Companion { allow: vec![] }, ..ExportRequest::default() };
    export(&node.db, &node.family, &sim.env(4), Path::new(OUT), &request).unwrap();
    let plain = open_node(&sim, "/plain", Arc::new(Plain));
    let tables = files_in(&sim, Path::new(OUT), ".tbl");
    for outcome in [
        import(&plain.db, &plain.family, &sim.env(5), Path::new(OUT)),
        import_tables(&plain.db, &plain.family, &sim.env(5), &tables, Form::Sealed),
    ] {
        let error = outcome.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("the key \"a\""), "{error}");
    }
    plain.check(&Model::new());
    // What is hidden by a record that stays does not come in, and refuses nothing.
    let only_b = vec![(Bound::Included(b"b".to_vec()), Bound::Unbounded)];
    let hidden = ExportRequest { versions: Versions::All, bounds: only_b, ..request };
    export(&node.db, &node.family, &sim.env(4), Path::new("/b"), &hidden).unwrap();
    let imported = import(&plain.db, &plain.family, &sim.env(5), Path::new("/b")).unwrap();
    assert_eq!((imported.records, imported.superseded), (1, 1));
    plain.check(&Model::from([(b"b".to_vec(), b"stays".to_vec())]));
    // One that keeps what it does not know keeps the end, too.
    let unknowing = open_node(&sim, "/unknowing", adopting());
    import(&unknowing.db, &unknowing.family, &sim.env(5), Path::new(OUT)).unwrap();
    let knowing = unknowing.reopen_as(Arc::new(Sealer::new().with(standard())));
    sim.clock().advance_nanos(2_000_000_000);
    knowing.check(&Model::from([(b"b".to_vec(), b"stays".to_vec())]));
}

/// Keeps what the seal covers, and is nobody's of Waxseal.
struct Covered;

impl MetadataProvider for Covered {
    fn descriptor(&self) -> Descriptor {
        Descriptor { in_checksum: true, max_len: 8, ..Descriptor::new(100, "test.covered") }
    }
}

/// The sum of an export is that of its seals, and they cover entries, also where a receiver leaves both behind.
#[test]
fn who_leaves_entries_behind_checks_the_sum_with_them() {
    let sim = SimFs::new(3);
    let node = open_node(&sim, "/giver", Arc::new(Sealer::new().with(Providers::of(vec![Arc::new(Covered)]).unwrap())));
    put_given(&node, b"a", b"value", (100, b"covered"));
    let request = ExportRequest { policy: Policy::Companion { allow: vec![] }, ..ExportRequest::default() };
    export(&node.db, &node.family, &sim.env(4), Path::new(OUT), &request).unwrap();
    let plain = open_node(&sim, "/plain", Arc::new(Plain));
    import(&plain.db, &plain.family, &sim.env(5), Path::new(OUT)).unwrap();
    plain.check(&Model::from([(b"a".to_vec(), b"value".to_vec())]));
}

/// Case 4 of the twenty and M-8: a live key that ends in 01.
#[test]
fn a_planted_key_survives_the_safe_form_is_refused_by_the_literal_and_lost_by_the_paper() {
    let planted = b"k\x01";
    let sim = SimFs::new(3);
    let out = |at: usize| PathBuf::from(format!("/out{at}"));

    // On the side that gives: refused before anything is written, and named.
    let native = open_node(&sim, "/native", Arc::new(Sealer::new()));
    native.put(b"k", b"value");
    native.put(planted, b"planted");
    let literal = ExportRequest { policy: Policy::PaperLiteral, ..ExportRequest::default() };
    let error = export(&native.db, &native.family, &sim.env(4), &out(0), &literal).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("0x6b01"), "{error}");
    assert!(sim.list(&out(0)).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound), "nothing was written");
    let safe = ExportRequest { policy: Policy::PaperSafe, ..ExportRequest::default() };
    let exported = export(&native.db, &native.family, &sim.env(4), &out(1), &safe).unwrap();
    assert_eq!((exported.records, exported.rows), (2, 2));

    // On the side that receives whole tables, as an old node does: it keeps a planted key that is older than all it is
    // given.
    let tables = |dir: &Path| files_in(&sim, dir, ".tbl");
    let giver = open_node(&sim, "/giver2", Arc::new(Sealer::new()));
    (0..9).for_each(|_| giver.put(b"other", b"later seqnos"));
    giver.put(b"k", b"value");
    export(&giver.db, &giver.family, &sim.env(4), &out(2), &safe).unwrap();
    let old = open_node(&sim, "/old", Arc::new(Plain));
    old.put(planted, b"planted");
    let old = adopt_whole_tables(old, &tables(&out(2)));
    assert_eq!(old.value(At::Latest, planted), Some(b"planted".to_vec()));
    assert_eq!(old.value(At::Latest, b"k"), Some(b"value".to_vec()));
    old.db.compact(&old.family, &(Bound::Unbounded, Bound::Unbounded)).unwrap();
    assert_eq!(old.value(At::Latest, planted), Some(b"planted".to_vec()));
    assert_eq!(old.tombstones(), 0, "and nothing is left of the rows");

    // The paper's own store refuses the key, but its tables delete it where they arrive.
    let paper = open_node(&sim, "/paper", Arc::new(Paper::default()));
    assert_eq!(*paper.try_apply(Kind::Put, planted, b"x", &[]).unwrap_err().kind(), ErrorKind::Invalid);
    (0..9).for_each(|_| paper.put(b"other", b"later seqnos"));
    paper.put(b"k", b"value");
    paper.db.flush().unwrap();
    let victim = open_node(&sim, "/victim", Arc::new(Plain));
    victim.put(planted, b"planted");
    let victim = adopt_whole_tables(victim, &tables(Path::new("/paper")));
    assert_eq!(victim.value(At::Latest, b"k"), Some(b"value".to_vec()));
    assert_eq!(victim.value(At::Latest, planted), None, "lost, as the paper is written");
}

/// Case 5 of the twenty: a user's own tombstone of a key that ends in 01 stays one; to the paper it is metadata, and
/// goes.
#[test]
fn a_users_own_delete_is_no_row() {
    let sim = SimFs::new(3);
    let plain = open_node(&sim, "/plain", Arc::new(Plain));
    plain.put(b"x", b"value");
    plain.apply(Kind::Delete, b"x\x01", b"");
    let request = ExportRequest { versions: Versions::All, ..ExportRequest::default() };
    export(&plain.db, &plain.family, &sim.env(4), Path::new(OUT), &request).unwrap();
    let table = vec![Path::new(OUT).join("000001.tbl")];
    let import_into = |name: &str, protector: Arc<dyn Companions>| {
        let node = open_node(&sim, name, protector);
        if !name.starts_with("/paper") {
            node.put(b"x\x01", b"to be deleted");
        }
        let imported = import_tables(&node.db, &node.family, &sim.env(5), &table, Form::PaperLiteral).unwrap();
        (node, imported)
    };
    let (node, imported) = import_into("/node", adopting());
    assert_eq!((imported.records, imported.own_deletes, imported.bound, imported.orphans), (2, 1, 0, 0));
    assert_eq!(imported.without_row, 2);
    assert_eq!(node.value(At::Latest, b"x\x01"), None);
    let paper = Arc::new(Paper::default());
    let (node, _) = import_into("/paper", paper.clone());
    assert_eq!(node.tombstones(), 1, "the row of x; the user's tombstone is gone");
    assert_eq!(paper.tally().orphans, 1);
}

#[test]
fn rows_without_their_version_are_removed_and_a_version_that_was_hit_is_refused() {
    use waxseal_lsm::record::Record;
    let sim = SimFs::new(3);
    let row = |key: &[u8], value: &[u8], seqno| {
        let record = Record { key, seqno, kind: Kind::Put, value, companion: &[] };
        paper::row::StoredChecksum::of(&record).encode().to_vec()
    };
    let put = |key: &[u8], seqno, value: &[u8]| (key.to_vec(), seqno, Kind::Put, value.to_vec());
    let delete = |key: &[u8], seqno, value: Vec<u8>| (key.to_vec(), seqno, Kind::Delete, value);
    let table = write_table(
        &sim,
        "/foreign",
        &[
            put(b"a", 9, b"new"),
            put(b"a", 4, b"old"),
            delete(b"a\x01", 9, row(b"a", b"new", 9)),
            delete(b"a\x01", 7, row(b"a", b"gone", 7)),
            put(b"b", 5, b"from an old node"),
        ],
    );
    let node = open_node(&sim, "/node", adopting());
    let imported = import_tables(&node.db, &node.family, &sim.env(5), &[table], Form::PaperLiteral).unwrap();
    assert_eq!((imported.records, imported.superseded), (2, 1));
    assert_eq!((imported.bound, imported.orphans, imported.without_row), (1, 1, 2));
    assert_eq!(node.value(At::Latest, b"a"), Some(b"new".to_vec()));
    let table = write_table(&sim, "/damaged", &[put(b"a", 9, b"nEw"), delete(b"a\x01", 9, row(b"a", b"new", 9))]);
    let error = import_tables(&node.db, &node.family, &sim.env(5), &[table], Form::PaperLiteral).unwrap_err();
    let damage = error.damage().unwrap();
    assert_eq!((damage.file.as_str(), damage.offset), ("000001.tbl", 64));
    assert_eq!(node.value(At::Latest, b"a"), Some(b"new".to_vec()));
}

/// Whatever bit of an export is hit: an error, and the store as it was.
#[test]
fn no_flipped_bit_comes_in() {
    let sim = SimFs::new(3);
    let node = open_node(&sim, "/giver", Arc::new(Sealer::new()));
    node.work(&mut Model::new(), 1, 40);
    for (at, policy) in policies().into_iter().enumerate() {
        let dir = PathBuf::from(format!("/out{at}"));
        let request = ExportRequest { policy, ..ExportRequest::default() };
        export(&node.db, &node.family, &sim.env(4), &dir, &request).unwrap();
        let receiver = open_node(&sim, &format!("/receiver{at}"), adopting());
        receiver.put(b"5", b"ours");
        let ours: Model = BTreeMap::from([(b"5".to_vec(), b"ours".to_vec())]);
        for name in sim.list(&dir).unwrap() {
            let path = dir.join(&name);
            let whole = bytes_of(&sim, &path);
            for byte in (0..whole.len()).step_by(7) {
                let mut damaged = whole.clone();
                damaged[byte] ^= 1 << (byte % 8);
                put_bytes(&sim, &path, &damaged);
                let error = import(&receiver.db, &receiver.family, &sim.env(5), &dir).unwrap_err();
                let damage = error.damage().unwrap_or_else(|| panic!("{name} at {byte}: {error}"));
                assert_eq!(damage.file, name, "{error}");
            }
            for length in [0, 63, 64, whole.len() / 2, whole.len() - 1] {
                put_bytes(&sim, &path, &whole[..length]);
                let error = import(&receiver.db, &receiver.family, &sim.env(5), &dir).unwrap_err();
                assert_eq!(error.damage().map(|damage| damage.file.as_str()), Some(name.as_str()), "{error}");
            }
            put_bytes(&sim, &path, &whole);
        }
        receiver.check(&ours);
        import(&receiver.db, &receiver.family, &sim.env(5), &dir).unwrap();
    }
}

/// An export that is whole and does not tell the truth about itself.
#[test]
fn lies_are_found_out() {
    let sim = SimFs::new(3);
    let (node, _) = giver(&sim);
    let dir = Path::new(OUT);
    let plain = open_node(&sim, "/plain", Arc::new(Plain));
    let mut model = Model::new();
    plain.work(&mut model, 1, 50);
    let request = ExportRequest { policy: Policy::Companion { allow: vec![] }, ..ExportRequest::default() };
    let honest = export(&plain.db, &plain.family, &sim.env(4), dir, &request).unwrap().manifest;
    assert!(!honest.complete);
    let receiver = open_node(&sim, "/receiver", adopting());
    let tell = |manifest: &Manifest| {
        put_bytes(&sim, &dir.join(NAME), &manifest.encode());
        import(&receiver.db, &receiver.family, &sim.env(5), dir)
    };
    let file = |change: &dyn Fn(&mut File)| {
        let mut lie = honest.clone();
        change(&mut lie.files[0]);
        lie.records = lie.files.iter().map(|file| file.records).sum();
        lie
    };
    let mut uid = honest.files[0].uid;
    uid.0[3] ^= 1;
    let lies = [
        (Manifest { complete: true, ..honest.clone() }, "000001.tbl"),
        (Manifest { records: honest.records + 1, ..honest.clone() }, NAME),
        (Manifest { algorithm: 1, sum: honest.sum ^ 1, ..honest.clone() }, NAME),
        (Manifest { form: Form::PaperLiteral, rows: 1, ..honest.clone() }, NAME),
        (file(&|file| file.records -= 1), "000001.tbl"),
        (file(&|file| file.uid = uid), "000001.tbl"),
        (file(&|file| file.digest ^= 1), "000001.tbl"),
        (file(&|file| file.size -= 1), "000001.tbl"),
        (file(&|file| file.name = "000009.tbl".into()), "000009.tbl"),
        (file(&|file| file.name = "../giver/000001.tbl".into()), NAME),
        (file(&|file| file.name = "/giver/000001.tbl".into()), NAME),
    ];
    for (lie, name) in lies {
        let error = tell(&lie).unwrap_err();
        assert_eq!(error.damage().map(|damage| damage.file.as_str()), Some(name), "{error}");
        let outside = lie.files.iter().find(|file| file.name.contains('/'));
        assert!(outside.is_none_or(|file| error.to_string().contains(&file.name)), "{error}");
    }
    let error = tell(&Manifest { comparator: "other".into(), ..honest.clone() }).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Invalid);
    receiver.check(&Model::new());
    tell(&honest).unwrap();
    receiver.check(&model);

    // A directory without a description, and one that holds an export already.
    let error = import(&receiver.db, &receiver.family, &sim.env(5), Path::new("/giver")).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Invalid);
    let error = export(&node.db, &node.family, &sim.env(4), dir, &request).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Invalid);
}

#[test]
fn other_orders_go_as_they_are_but_not_in_the_papers_form() {
    let sim = SimFs::new(3);
    let ordered = |dir: &str, protector: Arc<dyn Companions>| {
        Store::open_in(&sim, dir, protector, CfOptions { order: backwards(), ..packed() })
    };
    let node = ordered("/node", adopting());
    node.put(b"a", b"1");
    node.put(b"b", b"2");
    let other = ordered("/other", adopting());
    let sealed = ExportRequest { policy: Policy::Companion { allow: vec![] }, ..ExportRequest::default() };
    export(&node.db, &node.family, &sim.env(4), Path::new(OUT), &sealed).unwrap();
    import(&other.db, &other.family, &sim.env(5), Path::new(OUT)).unwrap();
    assert_eq!(other.value(At::Latest, b"b"), Some(b"2".to_vec()));
    let bytewise = open_node(&sim, "/bytewise", adopting());
    assert!(import(&bytewise.db, &bytewise.family, &sim.env(5), Path::new(OUT)).is_err());
    for policy in [Policy::PaperSafe, Policy::PaperLiteral] {
        let request = ExportRequest { policy, ..ExportRequest::default() };
        let error = export(&node.db, &node.family, &sim.env(4), Path::new("/no"), &request).unwrap_err();
        assert!(error.to_string().contains("\"b\""), "the first key is named: {error}");
    }
    let paper = ordered("/paper", Arc::new(Paper::default()));
    paper.put(b"a", b"1");
    assert_eq!(*paper.db.flush().unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn an_export_has_no_record_that_a_range_delete_hides() {
    let sim = SimFs::new(31);
    let (node, mut model) = giver(&sim);
    let snapshot = node.db.snapshot().unwrap(); // keeps what is deleted
    let (from, to) = (model.keys().nth(20).unwrap().clone(), model.keys().nth(60).unwrap().clone());
    let mut batch = Batch::new();
    batch.delete_range(node.family.id(), (Some(&from), Some(&to)), node.db.companions()).unwrap();
    node.db.commit(&mut batch, Durability::Os).unwrap();
    model.retain(|key, _| *key < from || *key >= to);
    for (n, versions) in [Versions::Newest, Versions::All].into_iter().enumerate() {
        let out = PathBuf::from(format!("{OUT}{n}"));
        let request = ExportRequest { versions, ..ExportRequest::default() };
        export(&node.db, &node.family, &sim.env(4), &out, &request).unwrap();
        let taker = open_node(&sim, &format!("/taker{n}"), Arc::new(Sealer::new()));
        import(&taker.db, &taker.family, &sim.env(5), &out).unwrap();
        taker.check(&model);
        node.db.flush().unwrap();
    }
    drop(snapshot);
}
