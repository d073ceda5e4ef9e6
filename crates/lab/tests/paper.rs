//! The paper's store on the real engine: what it promises holds, and what it misses is shown.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use waxseal_lab::paper::{Decision, Paper, RowForm};
use waxseal_lsm::db::At;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::error::Result;
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::{Companions, PassRecord, Plain, RecordSource, RowRewriter};
use waxseal_testing::above::{Above, Over};
use waxseal_testing::harness::{DIR, Model, Store, open_table, packed};
use waxseal_testing::store::ALL;

/// Versions and rows of a node: how many of each, and whether each version has its row.
fn pairs(node: &Store) -> (usize, usize) {
    let (mut versions, mut rows) = (Vec::new(), Vec::new());
    node.each(|record| match RowForm::Literal.read(record) {
        Some((key, stored)) => rows.extend(stored.iter().map(|stored| (key.to_vec(), stored.seqno))),
        None => versions.push((record.key.to_vec(), record.seqno)),
    });
    rows.sort();
    versions.sort();
    assert_eq!(versions, rows);
    (versions.len(), rows.len())
}

/// M-8, the literal mode: hidden from iteration, one row a version through flush and compaction, and none left on a
/// plain node once that has compacted to the bottom.
#[test]
fn rows_are_hidden_and_clean_themselves_up() {
    let sim = SimFs::new(11);
    let paper = Arc::new(Paper::default());
    let node = Store::open(&sim, paper.clone(), packed());
    let mut model = Model::new();
    node.work(&mut model, 1, 900);
    // Keys that sort between a key and its rows.
    for key in [&b"7"[..], b"7\0", b"7\0\xff", b"7\x02", b""] {
        node.put(key, b"nested");
        model.insert(key.to_vec(), b"nested".to_vec());
    }
    node.db.settle().unwrap();
    node.check(&model);
    pairs(&node);
    let snapshot = node.db.snapshot().unwrap();
    let before = model.clone();
    node.work(&mut model, 2, 300);
    node.db.settle().unwrap();
    pairs(&node);
    drop((snapshot, before));
    node.db.compact(&node.family, &ALL).unwrap();
    node.check(&model);
    let (versions, _) = pairs(&node);
    assert_eq!(versions, model.len());
    let tally = paper.tally();
    assert!(tally.bound > 0 && tally.created_from_memory > 0, "{tally:?}");
    assert_eq!((tally.orphans, tally.corrupted, tally.collided), (0, 0, 0), "{tally:?}");
    assert!(tally.peak_map_bytes >= 16);

    // Rows stand in the block of their version, where both fit.
    let mut apart = 0;
    for path in node.tables() {
        let table = open_table(&sim, &path, &Order::bytewise());
        let mut cursor = table.cursor(true);
        use waxseal_lsm::cursor::Cursor;
        cursor.first().unwrap();
        let mut at = Default::default();
        while cursor.valid() {
            let offset = cursor.source().offset;
            match RowForm::Literal.read(&cursor.record()) {
                Some(_) => apart += usize::from(at != offset),
                None => at = offset,
            }
            cursor.next().unwrap();
        }
    }
    assert_eq!(apart, 0);

    let node = node.reopen_as(Arc::new(Plain));
    node.check(&model);
    assert!(node.tombstones() >= model.len());
    node.db.compact(&node.family, &ALL).unwrap();
    node.db.settle().unwrap();
    // Every table has to be merged once more for its rows to go.
    node.work(&mut model, 3, 900);
    node.db.settle().unwrap();
    node.db.compact(&node.family, &ALL).unwrap();
    node.check(&model);
    let mut rows = 0;
    node.each(|record| rows += usize::from(RowForm::Literal.read(record).is_some()));
    assert_eq!(rows, 0);
}

/// A store of an old node gets its rows as it is compacted.
#[test]
fn an_old_store_gets_its_rows_in_compaction() {
    let sim = SimFs::new(12);
    let node = Store::open(&sim, Arc::new(Plain), packed());
    let mut model = Model::new();
    node.work(&mut model, 1, 600);
    node.db.flush().unwrap();
    let paper = Arc::new(Paper::default());
    let node = node.reopen_as(paper.clone());
    node.work(&mut model, 2, 300);
    node.db.settle().unwrap();
    node.db.compact(&node.family, &ALL).unwrap();
    node.check(&model);
    assert!(paper.tally().created_from_table > 0);
}

/// The paper's keeper with a fault in the merge: what `hit` says of a record is what the pass sees.
struct Faulty {
    paper: Paper,
    hits: Arc<AtomicUsize>,
    hit: fn(&mut PassRecord),
}

struct FaultyRows {
    inner: Box<dyn RowRewriter>,
    hits: Arc<AtomicUsize>,
    hit: fn(&mut PassRecord),
}

impl RowRewriter for FaultyRows {
    fn takes(&mut self, record: &Record<'_>, source: RecordSource<'_>) -> Result<bool> {
        self.inner.takes(record, source)
    }
    fn sees(&mut self, record: &Record<'_>, stays: bool, source: RecordSource<'_>) -> Result<()> {
        let mut row = PassRecord::copy(record, source.protection);
        if record.key == b"k" && !source.file.is_empty() && self.hits.load(Ordering::Relaxed) > 0 {
            self.hits.fetch_sub(1, Ordering::Relaxed);
            (self.hit)(&mut row);
        }
        self.inner.sees(&row.record(), stays, source)
    }
    fn ends(&mut self) -> Result<()> {
        self.inner.ends()
    }
    fn next_group(&mut self) -> Option<Vec<PassRecord>> {
        self.inner.next_group()
    }
}

impl Above for Faulty {
    fn beneath(&self) -> &dyn Companions {
        &self.paper
    }
    fn rows(&self, family: u32, order: &Order) -> Result<Option<Box<dyn RowRewriter>>> {
        let inner = self.paper.rows(family, order)?;
        let wrap =
            |inner| Box::new(FaultyRows { inner, hits: self.hits.clone(), hit: self.hit }) as Box<dyn RowRewriter>;
        Ok(inner.map(wrap))
    }
}

/// A node with one record in a table, to be hit in its next compaction so many times.
fn faulty(sim: &SimFs, hits: usize, decision: Decision, hit: fn(&mut PassRecord)) -> (Store, Arc<Over<Faulty>>) {
    let paper = Paper::new(move |_| decision);
    let protector = Arc::new(Over(Faulty { paper, hits: Arc::new(AtomicUsize::new(hits)), hit }));
    let node = Store::open(sim, protector.clone(), packed());
    node.put(b"k", b"value");
    node.db.flush().unwrap();
    node.put(b"other", b"value");
    node.put(b"a", b"value");
    node.db.flush().unwrap();
    (node, protector)
}

#[test]
fn what_does_not_match_is_tried_again_and_then_handled() {
    let in_value = |row: &mut PassRecord| row.value[0] ^= 4;
    // Once: the second try is right, nobody is told.
    let sim = SimFs::new(13);
    let (node, protector) = faulty(&sim, 1, Decision::Refuse, in_value);
    node.db.compact(&node.family, &ALL).unwrap();
    assert_eq!(node.value(At::Latest, b"k"), Some(b"value".to_vec()));
    assert_eq!(protector.paper.handled().len(), 0);
    assert_eq!(protector.hits.load(Ordering::Relaxed), 0, "it was hit");
    // Twice: the handler decides.
    for (decision, left) in [(Decision::Refuse, "value"), (Decision::Carry, "ralue")] {
        let sim = SimFs::new(14);
        let (node, protector) = faulty(&sim, 2, decision, in_value);
        let _ = node.db.compact(&node.family, &ALL);
        assert_eq!(protector.paper.handled().len(), 1, "{decision:?}");
        // To the paper the read is none of its business: what was carried on is served.
        assert_eq!(node.value(At::Latest, b"k"), Some(left.as_bytes().to_vec()), "{decision:?}");
    }
}

/// Case 7 of the twenty: a key that is hit in the merge. The paper seals the damage in, and nothing is ever heard of
/// it.
#[test]
fn a_key_that_is_hit_in_the_merge_is_valid_ever_after() {
    let sim = SimFs::new(15);
    let (node, protector) = faulty(&sim, 1, Decision::Refuse, |row| row.key[0] ^= 1);
    node.db.compact(&node.family, &ALL).unwrap();
    assert_eq!(node.value(At::Latest, b"k"), None);
    assert_eq!(node.value(At::Latest, b"j"), Some(b"value".to_vec()));
    assert_eq!(protector.paper.tally().orphans, 1);
    node.put(b"j0", b"value");
    node.db.compact(&node.family, &ALL).unwrap();
    assert_eq!((protector.paper.tally().corrupted, protector.paper.handled().len()), (0, 0));
    pairs(&node);
    assert!(node.tables().iter().all(|path| path.starts_with(Path::new(DIR))));
}

/// Deletes have rows too, and go with them.
#[test]
fn tombstones_and_their_rows_go_together() {
    let sim = SimFs::new(16);
    let node = Store::open(&sim, Arc::new(Paper::default()), packed());
    node.put(b"a", b"1");
    node.put(b"b", b"1");
    node.db.flush().unwrap();
    node.apply(Kind::Delete, b"a", b"");
    node.db.flush().unwrap();
    assert_eq!(pairs(&node).0, 3);
    node.db.compact(&node.family, &ALL).unwrap();
    assert_eq!(pairs(&node).0, 1);
}
