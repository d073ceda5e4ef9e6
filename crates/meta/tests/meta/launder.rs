//! Nothing that happens to a record inside the pass that flushes and compactions share is sealed in: every bit of every
//! part of every record, kept or dropped, flipped in the merge buffer, and records lost, doubled and exchanged.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use waxseal_lsm::compaction::output::{CompactionJob, write_tables};
use waxseal_lsm::compaction::{Rules, Splitter};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::{Env, Fs};
use waxseal_lsm::error::Result;
use waxseal_lsm::ledger::Ledger;
use waxseal_lsm::left_files::LeftFiles;
use waxseal_lsm::options::{CfOptions, Compression};
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Kind, MAX_SEQNO, Seqno};
use waxseal_lsm::seam::Companions;
use waxseal_meta::{Adoption, SealCounts, Sealer};
use waxseal_testing::records::{Owned, Shown};

const DIR: &str = "/store";

fn sealed(sealer: &Sealer, key: &str, seqno: Seqno, kind: Kind, value: &str) -> Owned {
    Owned::made(sealer, kind, key.as_bytes(), seqno, value.as_bytes()).unwrap()
}

struct Pass {
    env: Env,
    sealer: Arc<Sealer>,
    options: CfOptions,
    numbers: AtomicU64,
    /// Whether the ledger sums, or only counts.
    summed: bool,
}

impl Pass {
    fn new() -> Pass {
        let options = CfOptions { block_bytes: 128, restart_interval: 2, ..CfOptions::default() };
        let sim = SimFs::new(1);
        sim.create_dir_all(Path::new(DIR)).unwrap();
        Pass { env: sim.env(1), sealer: Arc::new(Sealer::new()), options, numbers: AtomicU64::new(1), summed: true }
    }

    fn with(sealer: Sealer) -> Pass {
        Pass { sealer: Arc::new(sealer), ..Pass::new() }
    }

    /// Two versions of one key, a tombstone at the bottom with nothing left to hide, one that hides a put, and
    /// neighbours.
    fn records(&self) -> Vec<Owned> {
        let sealed = |key, seqno, kind, value| sealed(&self.sealer, key, seqno, kind, value);
        vec![
            sealed("a", 20, Kind::Put, "first"),
            sealed("b", 25, Kind::Put, "new"),
            sealed("b", 21, Kind::Put, "old"),
            sealed("c", 22, Kind::Put, "between"),
            sealed("d", 26, Kind::Delete, ""),
            sealed("d", 23, Kind::Put, "gone"),
            sealed("e", 24, Kind::Delete, ""),
            sealed("f", 27, Kind::Put, "last"),
        ]
    }

    /// What the inputs' own records say of `records`, merged as `shown`; answers how many were written.
    fn run(&self, records: &[Owned], shown: Vec<Owned>, compression: Compression) -> Result<u64> {
        let mut expected = Ledger::default();
        records.iter().for_each(|record| expected.add(record.kind, self.sealer.term(&record.record())));
        let companions: Arc<dyn Companions> = self.sealer.clone();
        let job = CompactionJob {
            env: &self.env,
            dir: Path::new(DIR),
            left: &LeftFiles::default(),
            store: None,
            companions: &companions,
            family: 0,
            options: Arc::new(self.options.clone()),
            compression,
            filter_bits: 10,
            dictionary: None,
            base_seqno: 1,
            next_file: &|| self.numbers.fetch_add(1, Relaxed),
            cancelled: &AtomicBool::new(false),
            expected,
            summed: self.summed,
            values: None,
            pace: None,
            unsynced: None,
        };
        let rules = Rules::new(Order::bytewise(), Vec::new(), |_: &[u8]| true);
        let splitter = Splitter::new(Order::bytewise(), u64::MAX, Vec::new());
        let tables = write_tables(&job, &mut Shown::new(shown), rules, splitter)?;
        Ok(tables.iter().map(|table| table.ledger.count()).sum())
    }

    fn refuses(&self, what: &str, shown: Vec<Owned>) {
        let records = self.records();
        assert_ne!(shown, records, "{what}: nothing was changed");
        match self.run(&records, shown, Compression::None) {
            Ok(written) => panic!("{what}: passed, {written} records written"),
            Err(error) => assert!(error.is_corruption(), "{what}: {error}"),
        }
    }
}

#[test]
fn whole_records_pass() {
    let pass = Pass::new();
    for compression in [Compression::None, Compression::default()] {
        assert_eq!(pass.run(&pass.records(), pass.records(), compression).unwrap(), 4);
    }
    // What goes is checked too: none of them is made anew.
    assert_eq!(SealCounts { computed: 0, ..pass.sealer.counts() }, SealCounts::default());
}

#[test]
fn no_flipped_bit_passes() {
    let pass = Pass::new();
    let flip = |at: usize, part: fn(&mut Owned) -> &mut Vec<u8>| {
        let bits = part(&mut pass.records()[at]).len() * 8;
        for bit in 0..bits {
            let mut shown = pass.records();
            part(&mut shown[at])[bit / 8] ^= 1 << (bit % 8);
            pass.refuses(&format!("record {at}, bit {bit}"), shown);
        }
    };
    for at in 0..pass.records().len() {
        flip(at, |record| &mut record.key);
        flip(at, |record| &mut record.value);
        flip(at, |record| &mut record.companion);
        for bit in 0..56 {
            let mut shown = pass.records();
            shown[at].seqno = (shown[at].seqno ^ 1 << bit) & MAX_SEQNO;
            pass.refuses(&format!("record {at}, bit {bit} of the seqno"), shown);
        }
    }
}

/// Case 7 of the twenty, and the one door through which damage is sealed in: a keeper that makes a seal for whatever
/// has none.
#[test]
fn what_lost_its_seal_is_sealed_anew_only_as_the_paper_does_it() {
    for (adoption, summed, passes) in [
        (Adoption::BySource, true, false),
        (Adoption::Always, true, false), // the sums of the inputs speak of the seal that is gone
        (Adoption::Always, false, true), // without them damage is sealed in
    ] {
        let pass = Pass { summed, ..Pass::with(Sealer::new().adopting(adoption)) };
        let mut shown = pass.records();
        shown[3].companion.clear();
        shown[3].key = b"cc".to_vec(); // what was "c"
        let outcome = pass.run(&pass.records(), shown, Compression::None);
        assert_eq!(outcome.is_ok(), passes, "{adoption:?}, summed: {summed}: {outcome:?}");
        assert_eq!(pass.sealer.counts().adopted > 0, adoption == Adoption::Always);
    }
}

#[test]
fn no_other_kind_or_length_passes() {
    let pass = Pass::new();
    for at in 0..pass.records().len() {
        for kind in [Kind::Put, Kind::Delete, Kind::SingleDelete, Kind::Merge, Kind::RangeDelete, Kind::BlobPointer] {
            let mut shown = pass.records();
            if shown[at].kind != kind {
                shown[at].kind = kind;
                pass.refuses(&format!("record {at} as {kind:?}"), shown);
            }
        }
        let cuts: [fn(&mut Owned); 4] = [
            |record| record.companion.clear(),
            |record| record.companion.truncate(5),
            |record| record.key.push(0),
            |record| record.value.push(0),
        ];
        for cut in cuts {
            let mut shown = pass.records();
            cut(&mut shown[at]);
            pass.refuses(&format!("record {at}, cut or grown"), shown);
        }
    }
}

#[test]
fn no_record_is_lost_doubled_or_exchanged() {
    let pass = Pass::new();
    let count = pass.records().len();
    for at in 1..count {
        let mut shown = pass.records();
        shown.swap(at - 1, at);
        pass.refuses(&format!("record {at} before its time"), shown);
    }
    for at in 0..count {
        let mut shown = pass.records();
        shown.remove(at);
        pass.refuses(&format!("record {at} lost"), shown);
        let mut shown = pass.records();
        shown.insert(at, shown[at].clone());
        pass.refuses(&format!("record {at} doubled"), shown);
        for other in (0..count).filter(|other| *other != at) {
            let mut shown = pass.records();
            shown[at] = shown[other].clone();
            pass.refuses(&format!("record {other} in the place of {at}"), shown);
            let mut shown = pass.records();
            shown[at].companion = pass.records()[other].companion.clone();
            shown[other].companion = pass.records()[at].companion.clone();
            pass.refuses(&format!("seals of {at} and {other} exchanged"), shown);
            let mut shown = pass.records();
            let key = shown[other].key.clone();
            if std::mem::replace(&mut shown[at].key, key.clone()) != key {
                pass.refuses(&format!("the key of {other} on {at}"), shown);
            }
        }
    }
}
