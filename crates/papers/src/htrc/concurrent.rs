//! Question: which schema do concurrent readers and writers prefer (Figure 4), and does the time of schema 2 grow
//!           faster than the collection (Figure 5)?
//! Protocol: a corpus of each schema. Each client reads or replaces 3 % of the volumes, drawn from a common subset of
//!           5 %, so that two clients overlap; readers alone, writers alone, and as many of both. Each schema is
//!           measured in turn, in five rounds with other draws. A replaced volume keeps its content. For Figure 5,
//!           schema 2 with 28,896 and with 256,451 volumes in turn, at a tenth of the bytes a volume.
//! Passes:   the paper's orderings. Reads: schema 1 is fastest, schema 3 slowest. Writes: schema 2 is fastest, schema 3
//!           slowest. 8.9 times the volumes take at most 8.9 times the time.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use waxseal::Db;
use waxseal_bench::Outcome;
use waxseal_bench::experiment::Run;
use waxseal_bench::gate::Gate;
use waxseal_bench::stats::{median, ratio_interval};
use waxseal_bench::workload::Random;
use waxseal_corpus::{Access, Corpus, Layout};

use super::Line;
use super::collection::{self, Collection};
use super::plot::{Panel, draw};

/// Number of readers, of writers, or of each. The paper does not name its own.
const CLIENTS: [usize; 4] = [1, 2, 4, 8];

const ROUNDS: usize = 5;

/// Volumes of the paper's larger collection.
const LARGER: u64 = 256_451;

/// The paper's cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Case {
    Readers,
    Writers,
    Both,
}

/// Seconds that a client of each kind takes, by mean.
#[derive(Clone, Copy, Default)]
struct Times {
    read: f64,
    write: f64,
}

/// The seconds of the readers or of the writers.
type Seconds = fn(&Times) -> f64;

/// A corpus on disk and its volumes.
struct Store {
    db: Db,
    corpus: Corpus,
    collection: Collection,
}

impl Store {
    fn create(run: &Run, name: &str, layout: Layout, collection: Collection) -> Outcome<Store> {
        let db = Db::open(run.fresh(name)?)?;
        let corpus = Corpus::create(&db, "htrc", layout)?;
        collection.add_to(&corpus)?;
        db.settle()?;
        Ok(Store { db, corpus, collection })
    }

    /// Runs the clients of a case at once. The same draw reads and writes the same volumes of each store.
    fn measure(&self, case: Case, clients: usize, seed: u64) -> Outcome<Times> {
        let (readers, writers) = match case {
            Case::Readers => (clients, 0),
            Case::Writers => (0, clients),
            Case::Both => (clients, clients),
        };
        let total = self.collection.volumes();
        let mut random = Random::stream(seed, clients as u64);
        let subset = collection::draw(&mut random, &(0..total).collect::<Vec<_>>(), (total / 20) as usize);
        let start = Barrier::new(readers + writers);
        let times = thread::scope(|scope| -> Outcome<Vec<f64>> {
            let clients = (0..readers + writers).map(|client| {
                let own = collection::draw(&mut random, &subset, subset.len() * 3 / 5);
                let start = &start;
                scope.spawn(move || -> Outcome<f64> {
                    start.wait();
                    let started = Instant::now();
                    if client < readers {
                        self.read(&own)?
                    } else {
                        self.replace(&own)?
                    }
                    Ok(started.elapsed().as_secs_f64())
                })
            });
            let clients: Vec<thread::ScopedJoinHandle<'_, Outcome<f64>>> = clients.collect();
            clients.into_iter().map(|client| client.join().map_err(|_| "a client failed")?).collect()
        })?;
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len().max(1) as f64;
        Ok(Times { read: mean(&times[..readers]), write: mean(&times[readers..]) })
    }

    fn read(&self, volumes: &[u64]) -> Outcome<()> {
        let reader = self.corpus.reader(Access::All);
        for number in volumes {
            let volume = reader.volume(&collection::id(*number))?;
            if volume.pages.len() != self.collection.pages() {
                return Err(format!("volume {} has {} pages", volume.metadata.id, volume.pages.len()).into());
            }
        }
        Ok(())
    }

    fn replace(&self, volumes: &[u64]) -> Outcome<()> {
        volumes.iter().try_for_each(|number| Ok(self.corpus.add(&self.collection.volume(*number))?))
    }
}

/// Figure 4.
pub(super) fn run(run: &Run, line: &Line) -> Outcome<Vec<Gate>> {
    let mut stores = Vec::new();
    for (at, layout) in [Layout::GroupPerPage, Layout::RecordPerColumn, Layout::RowPerPage].into_iter().enumerate() {
        let collection = Collection::new(collection::volumes(run.scale), run.scale, run.seed);
        stores.push(Store::create(run, &format!("schema{}", at + 1), layout, collection)?);
    }
    let mut measured: Vec<(Case, usize, [Times; 3])> = Vec::new();
    for round in 0..ROUNDS {
        if round >= 3 && run.is_over() {
            break;
        }
        stores.iter().try_for_each(|store| store.db.settle())?;
        for case in [Case::Readers, Case::Writers, Case::Both] {
            for clients in CLIENTS {
                let mut times = [Times::default(); 3];
                for turn in 0..3 {
                    let at = if round % 2 == 0 { turn } else { 2 - turn };
                    times[at] = stores[at].measure(case, clients, run.seed + round as u64)?;
                }
                measured.push((case, clients, times));
            }
        }
    }
    print(&measured);
    if let Some(dir) = &line.plots {
        draw(&dir.join("figure4.svg"), &panels(&measured))?;
    }
    let ratio = |case, slower: usize, faster: usize, of: Seconds| {
        let rounds = measured.iter().filter(|row| row.0 == case);
        let ratios: Vec<f64> = rounds.map(|row| of(&row.2[slower - 1]) / of(&row.2[faster - 1])).collect();
        ratio_interval(&ratios, run.seed)
    };
    let (read, write): (Seconds, Seconds) = (|times| times.read, |times| times.write);
    let gate = |what: &str, metric, interval| run.at_least(what, metric, "x", interval, 1.0);
    let gates = vec![
        gate("readers", "schema_2_over_1", ratio(Case::Readers, 2, 1, read)),
        gate("readers", "schema_3_over_2", ratio(Case::Readers, 3, 2, read)),
        gate("writers", "schema_1_over_2", ratio(Case::Writers, 1, 2, write)),
        gate("writers", "schema_3_over_1", ratio(Case::Writers, 3, 1, write)),
        gate("both_read", "schema_3_over_2", ratio(Case::Both, 3, 2, read)),
        gate("both_write", "schema_1_over_2", ratio(Case::Both, 1, 2, write)),
        gate("both_write", "schema_3_over_2", ratio(Case::Both, 3, 2, write)),
    ];
    close(stores)?;
    Ok(gates)
}

/// Figure 5.
pub(super) fn larger(run: &Run, _: &Line) -> Outcome<Vec<Gate>> {
    let scale = run.scale / 10.0;
    let small = collection::volumes(run.scale);
    let sizes = [small, small * LARGER / collection::VOLUMES];
    let mut stores = Vec::new();
    for size in sizes {
        let collection = Collection::new(size, scale, run.seed);
        stores.push(Store::create(run, &format!("volumes{size}"), Layout::RecordPerColumn, collection)?);
    }
    let mut gates = Vec::new();
    let volumes = sizes[1] as f64 / sizes[0] as f64;
    for (case, what) in [(Case::Readers, "readers"), (Case::Writers, "writers"), (Case::Both, "both")] {
        let mut ratios = Vec::new();
        for round in 0..ROUNDS {
            let mut total = [0.0; 2];
            for turn in 0..2 {
                let at = if round % 2 == 0 { turn } else { 1 - turn };
                let times = stores[at].measure(case, 2, run.seed + round as u64)?;
                total[at] = times.read + times.write;
            }
            println!("{what}, {} and {} volumes: {:.3} s and {:.3} s", sizes[0], sizes[1], total[0], total[1]);
            ratios.push(total[1] / total[0]);
        }
        gates.push(run.at_most(what, "time_of_the_larger", "x", ratio_interval(&ratios, run.seed), volumes));
    }
    close(stores)?;
    Ok(gates)
}

fn close(stores: Vec<Store>) -> Outcome<()> {
    for Store { db, corpus, .. } in stores {
        drop(corpus);
        db.close()?;
    }
    Ok(())
}

/// Returns the median over rounds, of each schema.
fn medians(measured: &[(Case, usize, [Times; 3])], case: Case, clients: usize, of: Seconds) -> [f64; 3] {
    let rounds = || measured.iter().filter(|row| (row.0, row.1) == (case, clients));
    [0, 1, 2].map(|schema| median(&rounds().map(|row| of(&row.2[schema])).collect::<Vec<_>>()))
}

/// The lines of Figure 4: a case, the clients whose time counts, and their name.
type Kind = (Case, Seconds, &'static str);

const KINDS: [Kind; 4] = [
    (Case::Readers, |times| times.read, "(a) readers only"),
    (Case::Writers, |times| times.write, "(b) writers only"),
    (Case::Both, |times| times.read, "(c) both, readers"),
    (Case::Both, |times| times.write, "(c) both, writers"),
];

fn print(measured: &[(Case, usize, [Times; 3])]) {
    println!("seconds a client: schemas 1, 2 and 3; {} rounds", measured.len() / (3 * CLIENTS.len()));
    for (case, of, name) in KINDS {
        for clients in CLIENTS {
            let [first, second, third] = medians(measured, case, clients, of);
            println!("{name:<18} {clients} clients: {first:8.3} {second:8.3} {third:8.3}");
        }
    }
}

fn panels(measured: &[(Case, usize, [Times; 3])]) -> Vec<Panel> {
    let panel = |(case, of, name): Kind| {
        let line = |schema: usize| {
            let points = CLIENTS.map(|clients| (clients as f64, medians(measured, case, clients, of)[schema]));
            (format!("schema {}", schema + 1), points.to_vec())
        };
        Panel { title: name.to_owned(), x: "clients of each kind", y: "s", lines: (0..3).map(line).collect() }
    };
    KINDS.map(panel).into()
}
