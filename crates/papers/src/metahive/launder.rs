//! Question: does a record that is damaged during a compaction get a valid seal?
//! Protocol: the code shared by flush and compaction reads records from a merge in which one bit of one record is
//!           flipped: of its key, value, seqno or seal. First with our record protector, which copies seals and keeps a
//!           ledger; then with one that recomputes seals, like the paper's compaction for a record without a companion,
//!           and has no ledger.
//! Passes:   ours rejects every damaged record; the other accepts every one (otherwise it is not the paper's
//!           algorithm).

use super::Run;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::workload::Random;
use waxseal_lab::faults::protectors::Launderer;
use waxseal_lsm::compaction::output::{CompactionJob, write_tables};
use waxseal_lsm::compaction::{Rules, Splitter};
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::{Env, Fs};
use waxseal_lsm::ledger::Ledger;
use waxseal_lsm::left_files::LeftFiles;
use waxseal_lsm::options::{CfOptions, Compression};
use waxseal_lsm::order::Order;
use waxseal_lsm::seam::Companions;
use waxseal_meta::Sealer;
use waxseal_testing::above::Over;
use waxseal_testing::records::{Owned, Shown};

/// Flips at scale 1.
const FULL: u64 = 100_000;

const DIR: &str = "/store";

/// Records per pass.
const RECORDS: u64 = 16;

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let trials = run.size(FULL, 400);
    let mut caught = [0u64; 2];
    for trial in 0..trials {
        let protectors: [Arc<dyn Companions>; 2] = [Arc::new(Sealer::new()), Arc::new(Over::<Launderer>::default())];
        for (caught, protector) in caught.iter_mut().zip(protectors) {
            *caught += u64::from(is_refused(run.seed ^ trial << 8, protector)?);
        }
    }
    println!("of {trials} flips in the merge buffer ours refuses {}, recomputing refuses {}", caught[0], caught[1]);
    Ok(vec![
        run.counted_share("ours", "detected", caught[0], trials, 100.0),
        run.none("recompute", "detected", caught[1], trials, trials),
    ])
}

/// Runs one pass with one flipped bit.
fn is_refused(seed: u64, protector: Arc<dyn Companions>) -> Outcome<bool> {
    let mut random = Random::new(seed);
    let records: Vec<Owned> = (0..RECORDS)
        .map(|n| Owned::born(&*protector, format!("{n:020}").as_bytes(), 100 + n, &[b'v'; 100]))
        .collect::<Result<_, _>>()?;
    let mut shown = records.clone();
    let at = random.below(RECORDS) as usize;
    loop {
        shown[at] = records[at].clone();
        shown[at].flip(|below| random.below(below));
        // A key out of order is rejected by any engine that checks the order; only keys in order are of interest.
        if shown.windows(2).all(|pair| pair[0].key < pair[1].key) {
            break;
        }
    }
    match pass(protector, &records, shown) {
        Ok(()) => Ok(false),
        Err(error) if error.is_corruption() => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// `records` are those of the inputs, `shown` those that the merge returns.
fn pass(protector: Arc<dyn Companions>, records: &[Owned], shown: Vec<Owned>) -> waxseal_lsm::error::Result<()> {
    let sim = SimFs::new(1);
    let env: Env = sim.env(1);
    let made = sim.create_dir_all(Path::new(DIR));
    made.map_err(|error| waxseal_lsm::error::Error::io("making a directory in memory", error))?;
    let mut expected = Ledger::default();
    records.iter().for_each(|record| expected.add(record.kind, protector.term(&record.record())));
    let options = CfOptions { compression: Compression::None, ..CfOptions::default() };
    let numbers = AtomicU64::new(1);
    let job = CompactionJob {
        env: &env,
        dir: Path::new(DIR),
        left: &LeftFiles::default(),
        store: None,
        companions: &protector,
        family: 0,
        options: Arc::new(options),
        compression: Compression::None,
        filter_bits: 10,
        dictionary: None,
        base_seqno: 1,
        next_file: &|| numbers.fetch_add(1, Relaxed),
        cancelled: &AtomicBool::new(false),
        expected,
        summed: expected.has_sums(),
        values: None,
        pace: None,
        unsynced: None,
    };
    let rules = Rules::new(Order::bytewise(), Vec::new(), |_: &[u8]| true);
    let splitter = Splitter::new(Order::bytewise(), u64::MAX, Vec::new());
    write_tables(&job, &mut Shown::new(shown), rules, splitter).map(|_| ())
}
