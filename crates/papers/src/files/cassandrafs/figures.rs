//! Question: how fast are the steps of the CassandraFS paper by 1 to 6 clients, and how long does a metadata operation
//!           take? (The paper's Figures 1 and 2, and its table of metadata operations.)
//! Protocol: the steps of `steps`, with a barrier before each. The clients share one machine and one link of 12.5 MB/s
//!           (100 Mbit Ethernet), of 125 MB/s (Gigabit), or without a limit. They reach one file store through the
//!           library, which acknowledges before the disk has the data, or through HTTP on a loopback address, which
//!           acknowledges durable changes. Throughput is the bytes of all clients over the time of the slowest, as in
//!           the paper. Every copy is compared with its source.
//! Passes:   no wrong copy; nothing left behind step e; a clean `fsck`. Times are only printed.

use super::face::Face;
use super::library::Library;
use super::link::Link;
#[cfg(feature = "http")]
use super::network;
use super::steps::{LARGE_FILES, LEVELS, Local, Report, SMALL_FILES, STEPS, slowest, together};
use crate::files::Run;
use waxseal::Db;
use waxseal_bench::gate::Gate;
use waxseal_bench::{Outcome, experiment};
use waxseal_files::FileStore;

/// Clients of the paper's figures.
const CLIENTS: u64 = 6;

/// Rates of the link in bytes per second.
const RATES: [(&str, Option<f64>); 3] = [("no limit", None), ("125 MB/s", Some(125e6)), ("12.5 MB/s", Some(12.5e6))];

/// Below this scale the steps run once by one and by two clients: their times mean nothing.
const LEAST_SCALE: f64 = 0.01;

/// The clients of the paper's table, and its results in milliseconds by replicas (1, 3).
const TABLE_CLIENTS: u64 = 4;
const TABLE: &str =
    "the paper, 4 clients, 1 and 3 replicas: small file 22 and 16 ms, mkdir 4 and 3 ms, rmr 10 and 7 ms";

/// The number of `mkdir` of 4 clients by the paper's count; 24 directories of 5 levels are 480.
const PAPERS_MKDIRS: f64 = 500.0;

/// The number of removals by the paper's count, which are those of one client; 4 clients have 920.
const PAPERS_REMOVALS: f64 = 230.0;

/// The paper's Figures 1 and 2, where its text gives numbers.
const FIGURES: &str = "the paper, one server, over 12.5 MB/s: 1 client 7.5 MB/s, 4 clients 10.33 MB/s, 5 clients \
                       8.75 MB/s; over 125 MB/s: 1 client 17.8 MB/s";

pub(in crate::files) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let db = Db::open(run.fresh("store")?)?;
    let files = FileStore::open(&db, "files")?;
    let most = if run.scale < LEAST_SCALE { 2 } else { CLIENTS };
    let locals: Vec<Local> = (0..most)
        .map(|client| Local::create(&run.fresh(&format!("local{client}"))?, run.seed, client, run.scale))
        .collect::<Outcome<_>>()?;
    let library = compare(&run.within(0.4), "library", &Library { files: files.clone() }, &locals)?;
    #[cfg(feature = "http")]
    let network = network::serve(files.clone(), |network| compare(run, "http", network, &locals))??;
    #[cfg(not(feature = "http"))]
    let network = {
        println!("http: not in this build");
        (0, 0)
    };
    println!("{FIGURES}\n{TABLE}");
    let (wrong, copies) = (library.0 + network.0, library.1 + network.1);
    let mut left = 0;
    for entry in files.walk("")? {
        left += u64::from(entry?.path.contains(&b'/')); // not the directory of a client
    }
    let report = files.fsck()?;
    drop(files);
    db.close()?;
    Ok(vec![
        run.none("same_bytes", "wrong_copies", wrong, copies, 1),
        run.none("left", "entries", left, 1, 1),
        run.none("fsck", "problems", u64::from(!report.is_clean()), 1, 1),
    ])
}

/// Runs the steps through a face, for every rate and number of clients until the time is over; returns the numbers of
/// wrong copies and of all copies.
fn compare(run: &experiment::Run, name: &str, face: &dyn Face, locals: &[Local]) -> Outcome<(u64, u64)> {
    let (mut wrong, mut copies) = (0, 0);
    let rates = if run.scale < LEAST_SCALE { 1 } else { RATES.len() };
    for (place, (rate_name, rate)) in RATES.into_iter().take(rates).enumerate() {
        for clients in 1..=locals.len() as u64 {
            if run.is_over() {
                println!("{name}, {rate_name}, {clients} clients: no time left");
                continue;
            }
            let (link, root) = (Link::new(rate), format!("{name}-{place}-{clients}"));
            let reports = together(run.seed, face, &link, &locals[..clients as usize], &root)?;
            println!("{name}, {rate_name}, {clients} clients:");
            print(&reports);
            if clients == TABLE_CLIENTS {
                print_table(&reports);
            }
            for local in &locals[..clients as usize] {
                wrong += local.wrong_copies()?;
                copies += LARGE_FILES;
            }
        }
    }
    Ok((wrong, copies))
}

fn print(reports: &[[Report; 5]]) {
    for (step, name) in STEPS.iter().enumerate() {
        let bytes: u64 = reports.iter().map(|client| client[step].bytes).sum();
        let (most, least) =
            (slowest(reports, step), reports.iter().map(|client| client[step].seconds).fold(f64::MAX, f64::min));
        let clients: Vec<String> = reports
            .iter()
            .map(|client| client[step])
            .map(|report| format!("{} bytes {:.3} s {} operations", report.bytes, report.seconds, report.operations))
            .collect();
        let operations: u64 = reports.iter().map(|client| client[step].operations).sum();
        println!(
            "    {name}: {:.2} MB/s, {:.1} operations/s; slowest {most:.3} s, fastest {least:.3} s; {}",
            bytes as f64 / most / 1e6,
            operations as f64 / most,
            clients.join(", ")
        );
    }
}

/// Prints milliseconds per metadata operation, as the paper counts them.
fn print_table(reports: &[[Report; 5]]) {
    let clients = reports.len() as f64;
    let millis = |step, operations: f64| slowest(reports, step) * 1e3 / operations;
    let (levels, removals) = (clients * LEVELS as f64, clients * (LEVELS + SMALL_FILES + LARGE_FILES) as f64);
    println!(
        "    small file {:.3} ms, mkdir {:.3} ms ({levels} operations; {:.3} ms by the paper's {PAPERS_MKDIRS}), rmr \
         {:.3} ms ({removals} operations; {:.3} ms by the paper's {PAPERS_REMOVALS})",
        millis(0, clients * SMALL_FILES as f64),
        millis(1, levels),
        millis(1, PAPERS_MKDIRS),
        millis(4, removals),
        millis(4, PAPERS_REMOVALS)
    );
}
