//! Question: how much longer do readers wait while a backup traverses all files at a given pace? (The paper backs up its
//!           store beside its readers, in a second data center; here one store serves both.)
//! Protocol: a file store holds the files, and clients, one fewer than there are cores but at least one, read single
//!           files by the power law of `clients`. Three times in turn, forwards and backwards, warm: alone; beside one
//!           thread that traverses all files with 100 MB/s (`ReadTree::bytes_per_second`); beside one without a limit.
//!           Each lasts 3 s (less with `--quick`), so that the traversal meets many reads. A sum over each content is
//!           compared.
//! Passes:   no wrong read; the p99 beside the paced traversal is at most 1.1 times that of the readers alone.

use super::Run;
use super::clients::{Read, lists};
use super::layout::{Name, Setup};
use super::sides::{Side, fill, in_parallel};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use waxseal::Db;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::measure::Laps;
use waxseal_bench::rounds::alternate_many;
use waxseal_bench::workload::touch;
use waxseal_files::FileStore;

/// The pace of the backup, in bytes a second.
const PACE: u64 = 100_000_000;

/// The sides: no traversal, a paced one, one without a limit.
const SIDES: [(&str, Option<u64>); 3] = [("alone", None), ("beside 100 MB/s", Some(PACE)), ("beside all", Some(0))];

/// Rounds of a full run.
const ROUNDS: usize = 9;

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let tree = run.tree();
    let side = Side::new(run, &tree, Name::Ours, false)?;
    let layout = side.open()?;
    fill(&tree, layout.as_ref(), 1)?;
    layout.settle()?;
    layout.close()?;
    let cache_bytes = usize::try_from(Setup::of(&tree, false).cache_bytes)?;
    let db = Db::builder(side.dir()).cache_bytes(cache_bytes).create_if_missing(false).open()?;
    let files = FileStore::open(&db, "files")?;
    let clients = std::thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).max(1);
    let lists = lists(run, &tree, clients as u64);
    println!("{} files, {:.1} MB, clients: {clients}", tree.len(), tree.bytes() as f64 / 1e6);
    let is_tiny = run.rounds(&tree) == 1;
    let (length, rounds) = if is_tiny { (Duration::from_millis(100), 1) } else { (Duration::from_secs(3), ROUNDS) };
    serve(&files, &lists, length)?;
    let (mut wrong, mut reads) = (0, 0);
    let [p50, p99, rate, traversed] = alternate_many(run, SIDES.len(), rounds, |number| {
        let (served, bytes) = serve_beside(&files, &lists, length, SIDES[number].1)?;
        wrong += served.wrong;
        reads += served.laps.count();
        let seconds = length.as_secs_f64();
        let [p50, p99] = [0.5, 0.99].map(|share| served.laps.quantile_us(share));
        Ok([p50, p99, served.laps.count() as f64 / seconds, bytes as f64 / 1e6 / seconds])
    })?;
    for (number, (name, _)) in SIDES.iter().enumerate() {
        println!(
            "{name}: {:.0} reads/s, p50 {:.1} us, p99 {:.1} us, traversed {:.1} MB/s; {} rounds",
            rate.of(number),
            p50.of(number),
            p99.of(number),
            traversed.of(number),
            p99.count()
        );
    }
    drop(files);
    db.close()?;
    Ok(vec![
        run.at_most("p99", "beside_paced_over_alone", "x", p99.ratio(|round| round[1] / round[0]), 1.1),
        run.none("same_bytes", "wrong_reads", wrong, reads, 1),
    ])
}

/// Reads of all clients at once.
struct Served {
    laps: Laps,
    wrong: u64,
}

/// Lets every client read its list again and again until the time is over.
fn serve(files: &FileStore, lists: &[Vec<Read>], length: Duration) -> Outcome<Served> {
    let end = Instant::now() + length;
    let clients = in_parallel(lists.len() as u64, |client| {
        let (mut laps, mut wrong) = (Laps::new(), 0);
        laps.restart();
        for read in lists[client as usize].iter().cycle() {
            wrong += u64::from(touch(&files.read(&read.path)?) != read.sum);
            laps.lap();
            if laps.read_at() >= end {
                break;
            }
        }
        Ok((laps, wrong))
    })?;
    let mut all = Served { laps: Laps::new(), wrong: 0 };
    for (laps, wrong) in &clients {
        all.laps.absorb(laps);
        all.wrong += wrong;
    }
    Ok(all)
}

/// Serves beside a thread that traverses all files with a pace; alone without one. Returns the bytes that it has read.
fn serve_beside(files: &FileStore, lists: &[Vec<Read>], length: Duration, pace: Option<u64>) -> Outcome<(Served, u64)> {
    let (is_over, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
    let served = std::thread::scope(|scope| {
        let traversal = scope.spawn(|| -> Outcome<()> {
            let Some(pace) = pace else { return Ok(()) };
            while !is_over.load(Ordering::Relaxed) {
                for file in files.read_tree("")?.bytes_per_second(pace) {
                    bytes.fetch_add(file?.1.map_or(0, |content| content.len() as u64), Ordering::Relaxed);
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            }
            Ok(())
        });
        let served = serve(files, lists, length);
        is_over.store(true, Ordering::Relaxed);
        traversal.join().map_err(|_| "the traversal panicked")??;
        served
    })?;
    Ok((served, bytes.into_inner()))
}
