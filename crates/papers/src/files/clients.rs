//! Question: how do latency and throughput of reads change with the number of clients, and how much does a running
//!           traversal cost them? (The paper's Figure 5: the latency of its file system almost doubled.)
//! Protocol: every layout holds the same files. 1, 2, 4 .. 64 clients read single files at once, each from a list of its
//!           own, whose frequencies follow a power law (zipfian with 0.99, as in YCSB; the frequent files are spread
//!           over the tree). A second measurement has a thread beside them that traverses all files. All layouts
//!           in turn, forwards and backwards, warm; a sum over each content is compared.
//! Passes:   no wrong read. Throughput and latencies are only printed.

use super::Run;
use super::layout::{Layout, Part};
use super::sides::{Side, in_parallel};
use super::tree::Tree;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::measure::Laps;
use waxseal_bench::rounds::{Rounds, alternate_many};
use waxseal_bench::workload::{Random, Zipf, fmix64, touch};

/// Numbers of clients.
const CLIENTS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Most reads of one measurement, over all clients.
const READS: u32 = 20_000;

/// A file to read, and the sum of its content.
pub(super) struct Read {
    pub(super) path: String,
    pub(super) sum: u64,
}

/// The reads of one client.
fn power_law(tree: &Tree, zipf: &Zipf, random: &mut Random, count: u64) -> Vec<Read> {
    let mut draw = |_| {
        let file = (fmix64(zipf.rank(random)) % u64::from(tree.len())) as u32;
        Read { path: tree.path(file), sum: touch(tree.content(file)) }
    };
    (0..count).map(&mut draw).collect()
}

/// Returns the reads of every client.
pub(super) fn lists(run: &Run, tree: &Tree, clients: u64) -> Vec<Vec<Read>> {
    let zipf = Zipf::new(u64::from(tree.len()));
    let each = (u64::from(tree.len().min(READS)) / clients).max(1);
    (0..clients).map(|client| power_law(tree, &zipf, &mut Random::stream(run.seed, 3 + client), each)).collect()
}

/// Reads of all clients at once.
pub(super) struct Served {
    pub(super) nanos_per_read: f64,
    pub(super) laps: Laps,
    pub(super) wrong: u64,
}

/// Lets every client read its list, all at once.
pub(super) fn serve(layout: &dyn Layout, lists: &[Vec<Read>]) -> Outcome<Served> {
    let start = Instant::now();
    let clients = in_parallel(lists.len() as u64, |client| {
        let mut reader = layout.reader()?;
        let (mut laps, mut wrong) = (Laps::new(), 0);
        laps.restart();
        for read in &lists[client as usize] {
            wrong += u64::from(touch(&reader.read(&read.path)?) != read.sum);
            laps.lap();
        }
        Ok((laps, wrong))
    })?;
    let reads: usize = lists.iter().map(Vec::len).sum();
    let nanos_per_read = start.elapsed().as_nanos() as f64 / reads as f64;
    let mut all = Served { nanos_per_read, laps: Laps::new(), wrong: 0 };
    for (laps, wrong) in &clients {
        all.laps.absorb(laps);
        all.wrong += wrong;
    }
    Ok(all)
}

/// Serves beside a thread that traverses all files until the last client has ended.
fn serve_beside_traversal(tree: &Tree, layout: &dyn Layout, lists: &[Vec<Read>]) -> Outcome<Served> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let traversal = scope.spawn(|| -> Outcome<()> {
            // Parts, so that the thread ends soon after the last read.
            let parts = tree.directories().len().min(64) as u64;
            let mut reader = layout.reader()?;
            let mut sum = 0u64;
            for number in (0..parts).cycle() {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                reader.traverse(&Part::new(tree, number, parts), &mut |_, content| {
                    sum = sum.wrapping_add(touch(content));
                })?;
            }
            std::hint::black_box(sum);
            Ok(())
        });
        let served = serve(layout, lists);
        is_over.store(true, Ordering::Relaxed);
        traversal.join().map_err(|_| "the traversal panicked")??;
        served
    })
}

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let tree = run.tree();
    let sides = Side::all(run, &tree)?;
    let layouts: Vec<_> = sides.iter().map(Side::open).collect::<Outcome<_>>()?;
    let (mut wrong, mut reads) = (0, 0);
    for (place, clients) in CLIENTS.into_iter().enumerate() {
        let lists = lists(run, &tree, clients);
        if place == 0 {
            layouts.iter().try_for_each(|layout| serve(layout.as_ref(), &lists).map(drop))?;
        }
        let part = run.within(1.0 / (CLIENTS.len() - place) as f64);
        let rounds = run.rounds(&tree).min(3);
        let alone_and_beside = alternate_many(&part, sides.len(), rounds, |number| {
            let layout = layouts[number].as_ref();
            let alone = serve(layout, &lists)?;
            let beside = serve_beside_traversal(&tree, layout, &lists)?;
            wrong += alone.wrong + beside.wrong;
            reads += alone.laps.count() + beside.laps.count();
            let [alone, beside] = [alone, beside]
                .map(|served| [served.nanos_per_read, served.laps.quantile_us(0.5), served.laps.quantile_us(0.99)]);
            Ok([alone[0], alone[1], alone[2], beside[0], beside[1], beside[2]])
        })?;
        print(run, clients, &alone_and_beside);
    }
    layouts.into_iter().try_for_each(|layout| layout.close())?;
    Ok(vec![run.none("same_bytes", "wrong_reads", wrong, reads, 1)])
}

fn print(run: &Run, clients: u64, [alone, p50, p99, beside, beside_p50, beside_p99]: &[Rounds; 6]) {
    for (number, name) in run.layouts.iter().enumerate() {
        println!(
            "{clients} clients: {} {:.0}/s, p50 {:.1} us, p99 {:.1} us; beside a traversal {:.0}/s, p50 {:.1} us, \
             p99 {:.1} us; {} rounds",
            name.text(),
            1e9 / alone.of(number),
            p50.of(number),
            p99.of(number),
            1e9 / beside.of(number),
            beside_p50.of(number),
            beside_p99.of(number),
            alone.count()
        );
    }
}
