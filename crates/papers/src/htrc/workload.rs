//! Question: what do clients, processor, memory and disk do under the paper's five workloads (Figures 7 to 11)?
//! Protocol: a corpus of schema 2, whose cache has 4 % of the bytes, as the heaps of the paper's nodes had. Workloads 1
//!           and 3: 10 readers and 5 writers, each with 20 requests for 140 random volumes; a writer reads the volumes,
//!           then replaces them with the same content. Between requests a client waits 1 s, in workload 3 0.1 s. In
//!           workloads 2 and 4 all clients ask for the same 140 volumes. Workload 5: four kinds of 5 readers each, with
//!           20 requests for 156, 54, 246 and 215 of the hits of the paper's queries. Files are evicted from the page
//!           cache before each workload. A monitor runs from 3 s before to 3 s after it, with an interval of 0.5 s.
//!           Below scale 0.01 all waits shrink with the square root of the scale.
//! Passes:   each read volume has its own text. The paper's orderings: under the same volumes (2 beside 1, 4 beside 3)
//!           writes answer faster, and the disk reads less. Shorter waits (3 beside 1) read and write more a second.
//!           Workload 5 writes less than 1 % of workload 1.

use std::thread;
use std::time::{Duration, Instant};

use waxseal::Db;
use waxseal_bench::Outcome;
use waxseal_bench::experiment::{Run, exactly};
use waxseal_bench::gate::Gate;
use waxseal_bench::measure::evict;
use waxseal_bench::stats::{median, ratio_interval};
use waxseal_bench::workload::Random;
use waxseal_corpus::{Access, Corpus, Layout, Reader};

use super::Line;
use super::collection::{self, Collection};
use super::monitor::{Monitor, Sample, over_time};
use super::plot::{Panel, Points, draw, smooth};

const READERS: usize = 10;
const WRITERS: usize = 5;
const REQUESTS: usize = 20;

/// Volumes of a request: half a percent of the full collection.
const REQUESTED: usize = 140;

/// Readers of each kind in workload 5, and how many hits each kind reads.
const OF_A_KIND: usize = 5;
const READ_HITS: [usize; 4] = [156, 54, 246, 215];

/// Share of the bytes of the collection that the cache has: 1.5 GB of heap for 37.6 GB on a node of the paper.
const CACHE_SHARE: f64 = 0.04;

/// The order of the requests of one client: the volumes of each.
struct Client {
    is_writer: bool,
    requests: Vec<Vec<u64>>,
}

/// One answered request.
#[derive(Clone, Copy)]
struct Answer {
    client: usize,
    is_writer: bool,
    at_s: f64,
    took_s: f64,
    wrong: u64,
}

/// What one workload did.
struct Trial {
    answers: Vec<Answer>,
    samples: Vec<Sample>,
}

pub(super) fn run(run: &Run, line: &Line) -> Outcome<Vec<Gate>> {
    let collection = Collection::new(collection::volumes(run.scale), run.scale, run.seed);
    let dir = run.fresh("workload")?;
    let cache = collection.bytes() as f64 * CACHE_SHARE;
    let open = || Db::builder(&dir).cache_bytes((cache as usize).max(1 << 20)).open();
    let db = open()?;
    collection.add_to(&Corpus::create(&db, "htrc", Layout::RecordPerColumn)?)?;
    db.settle()?;
    db.close()?;
    let numbers = line.number.map_or(1..=5, |number| number..=number);
    let mut trials: Vec<(u32, Trial)> = Vec::new();
    let mut gates = Vec::new();
    for number in numbers {
        evict(&dir)?;
        let db = open()?;
        let corpus = Corpus::open(&db, "htrc")?;
        let trial = play(run, &corpus, &collection, number)?;
        drop(corpus);
        db.settle()?; // the next workload does not pay for this one
        db.close()?;
        trial.print(number);
        if let Some(dir) = &line.plots {
            draw(&dir.join(format!("figure{}.svg", 6 + number)), &trial.panels(number))?;
        }
        let wrong = trial.answers.iter().map(|answer| answer.wrong).sum();
        gates.push(run.none(&number.to_string(), "volumes_with_other_text", wrong, trial.answers.len() as u64, 1));
        trials.push((number, trial));
    }
    gates.extend(compared(run, &trials));
    Ok(gates)
}

/// Returns the paper's orderings of the workloads that ran.
fn compared(run: &Run, trials: &[(u32, Trial)]) -> Vec<Gate> {
    let of = |number| trials.iter().find(|(found, _)| *found == number).map(|(_, trial)| trial);
    let mut gates = Vec::new();
    for (same, random) in [(2, 1), (4, 3)] {
        let (Some(same), Some(random), name) = (of(same), of(random), format!("{same}_over_{random}")) else {
            continue;
        };
        let times: Vec<f64> = same.write_times().iter().zip(random.write_times()).map(|(a, b)| a / b).collect();
        gates.push(run.at_most(&name, "write_time", "x", ratio_interval(&times, run.seed), 1.0));
        let read = counted(same.read_mb() / random.read_mb().max(0.1), same);
        gates.push(run.at_most(&name, "read_from_disk", "x", read, 1.0));
    }
    if let (Some(fast), Some(slow)) = (of(3), of(1)) {
        let read = fast.read_mb() / fast.seconds() / (slow.read_mb().max(0.1) / slow.seconds());
        let written = fast.written_mb() / fast.seconds() / (slow.written_mb().max(0.1) / slow.seconds());
        gates.push(run.at_least("3_over_1", "read_a_second", "x", counted(read, fast), 1.0));
        gates.push(run.at_least("3_over_1", "written_a_second", "x", counted(written, fast), 1.0));
    }
    if let (Some(light), Some(base)) = (of(5), of(1)) {
        let share = light.written_mb() * 100.0 / base.written_mb().max(0.1);
        gates.push(run.at_most("5_over_1", "written", "%", counted(share, light), 1.0));
    }
    gates
}

fn counted(value: f64, of: &Trial) -> Option<waxseal_bench::stats::Interval> {
    Some(exactly(value, of.answers.len() as u64))
}

/// Runs the clients of a workload beside a monitor.
fn play(run: &Run, corpus: &Corpus, collection: &Collection, number: u32) -> Outcome<Trial> {
    let shrink = (run.scale * 100.0).min(1.0).sqrt();
    let seconds = |at_full: f64| Duration::from_secs_f64(at_full * shrink);
    let pause = seconds(if matches!(number, 3 | 4) { 0.1 } else { 1.0 });
    let clients = clients(corpus, collection, number, &mut Random::stream(run.seed, u64::from(number)))?;
    let monitor = Monitor::start(&run.dir, seconds(0.5))?;
    thread::sleep(seconds(3.0));
    let answers = thread::scope(|scope| -> Outcome<Vec<Answer>> {
        let start = |(number, client)| {
            let monitor = &monitor;
            scope.spawn(move || answer(corpus, collection, number, client, pause, monitor))
        };
        let clients: Vec<_> = clients.iter().enumerate().map(start).collect();
        let mut answers = Vec::new();
        for client in clients {
            answers.extend(client.join().map_err(|_| "a client failed")??);
        }
        Ok(answers)
    })?;
    thread::sleep(seconds(3.0));
    Ok(Trial { answers, samples: monitor.stop()? })
}

/// Returns the clients of a workload.
fn clients(corpus: &Corpus, collection: &Collection, number: u32, random: &mut Random) -> Outcome<Vec<Client>> {
    let all: Vec<u64> = (0..collection.volumes()).collect();
    let share = |count: usize| (count as u64 * collection.volumes() / collection::VOLUMES).max(1) as usize;
    if number == 5 {
        let reader = corpus.reader(Access::All);
        let hits = [
            reader.author_has("edward")?,
            reader.published("1970", "1979")?,
            reader.title_has("science")?,
            reader.title_has("art")?,
        ];
        let kinds = hits.iter().zip(READ_HITS).map(|(ids, read)| {
            let numbers: Vec<u64> = ids.iter().filter_map(|id| collection::number(id)).collect();
            collection::draw(random, &numbers, share(read))
        });
        let client = |kind: &Vec<u64>| Client { is_writer: false, requests: vec![kind.clone(); REQUESTS] };
        return Ok(kinds.flat_map(|kind| std::iter::repeat_n(kind, OF_A_KIND)).map(|kind| client(&kind)).collect());
    }
    let same = collection::draw(random, &all, share(REQUESTED));
    let mut request = || match number {
        2 | 4 => same.clone(),
        _ => collection::draw(random, &all, share(REQUESTED)),
    };
    let client = |at| Client { is_writer: at >= READERS, requests: (0..REQUESTS).map(|_| request()).collect() };
    Ok((0..READERS + WRITERS).map(client).collect())
}

/// Runs the requests of a client in sequence.
fn answer(
    corpus: &Corpus,
    collection: &Collection,
    number: usize,
    client: &Client,
    pause: Duration,
    monitor: &Monitor,
) -> Outcome<Vec<Answer>> {
    let reader = corpus.reader(Access::All);
    let mut answers = Vec::new();
    for (at, volumes) in client.requests.iter().enumerate() {
        if at > 0 {
            thread::sleep(pause);
        }
        let start = Instant::now();
        let mut wrong = 0;
        for volume in volumes {
            wrong += u64::from(!is_read(&reader, collection, *volume)?);
            if client.is_writer {
                corpus.add(&collection.volume(*volume))?;
            }
        }
        let (took_s, at_s) = (start.elapsed().as_secs_f64(), monitor.seconds());
        answers.push(Answer { client: number, is_writer: client.is_writer, at_s, took_s, wrong });
    }
    Ok(answers)
}

/// Reads a volume. Returns false if its text is another one.
fn is_read(reader: &Reader<'_>, collection: &Collection, volume: u64) -> Outcome<bool> {
    let read = reader.volume(&collection::id(volume))?;
    Ok(read.pages.len() == collection.pages() && read.pages[0] == collection.first_page(volume))
}

impl Trial {
    fn seconds(&self) -> f64 {
        let start = self.answers.iter().map(|answer| answer.at_s - answer.took_s).fold(f64::MAX, f64::min);
        let end = self.answers.iter().map(|answer| answer.at_s).fold(0.0, f64::max);
        (end - start).max(1e-3)
    }

    fn read_mb(&self) -> f64 {
        self.total(|sample| sample.read_mb_per_s)
    }

    fn written_mb(&self) -> f64 {
        self.total(|sample| sample.written_mb_per_s)
    }

    fn total(&self, rate: fn(&Sample) -> f64) -> f64 {
        let starts = std::iter::once(0.0).chain(self.samples.iter().map(|sample| sample.at_s));
        self.samples.iter().zip(starts).map(|(sample, start)| rate(sample) * (sample.at_s - start)).sum()
    }

    /// Returns the mean response time of each writer.
    fn write_times(&self) -> Vec<f64> {
        let mean = |client| {
            let own = || self.answers.iter().filter(move |answer| answer.client == client);
            own().map(|answer| answer.took_s).sum::<f64>() / own().count().max(1) as f64
        };
        (READERS..READERS + WRITERS).map(mean).collect()
    }

    fn times(&self, is_writer: bool) -> Vec<f64> {
        let own = self.answers.iter().filter(|answer| answer.is_writer == is_writer);
        own.map(|answer| answer.took_s).collect()
    }

    fn print(&self, number: u32) {
        let mean = |of: fn(&Sample) -> f64| self.samples.iter().map(of).sum::<f64>() / self.samples.len() as f64;
        println!(
            "workload {number}: {:.1} s, {} requests; median answer of readers {:.1} ms, of writers {:.1} ms; read \
             {:.1} MB, written {:.1} MB; mean cpu {:.0} %, memory {:.1} %",
            self.seconds(),
            self.answers.len(),
            median(&self.times(false)) * 1e3,
            median(&self.times(true)) * 1e3,
            self.read_mb(),
            self.written_mb(),
            mean(|sample| sample.cpu_percent),
            mean(|sample| sample.memory_percent),
        );
    }

    /// Returns the six panels of the paper's figure, smoothed as there.
    fn panels(&self, number: u32) -> Vec<Panel> {
        let answered = |is_writer: bool| -> Points {
            let own = self.answers.iter().filter(|answer| answer.is_writer == is_writer);
            let mut points: Points = own.map(|answer| (answer.at_s, answer.took_s * 1e3)).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            smooth(&points)
        };
        let panel = |title: &str, y, lines| Panel { title: format!("workload {number} {title}"), x: "s", y, lines };
        let sampled = |title, y, value: fn(&Sample) -> Option<f64>| {
            panel(title, y, vec![("process".to_owned(), smooth(&over_time(&self.samples, value)))])
        };
        let lines = [("readers", false), ("writers", true)].map(|(name, of)| (name.to_owned(), answered(of)));
        vec![
            panel("(a) response time", "ms", lines.into()),
            sampled("(b) CPU usage", "%", |sample| Some(sample.cpu_percent)),
            sampled("(c) memory usage", "%", |sample| Some(sample.memory_percent)),
            sampled("(d) data read", "MB/s", |sample| Some(sample.read_mb_per_s)),
            sampled("(e) data written", "MB/s", |sample| Some(sample.written_mb_per_s)),
            sampled("(f) IO usage", "%", |sample| sample.io_percent),
        ]
    }
}
