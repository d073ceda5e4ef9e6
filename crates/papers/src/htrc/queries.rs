//! Question: which schema answers the three queries fastest, and is the first answer the slowest (Figure 6)?
//! Protocol: a corpus of each schema. In each of five rounds it is opened with an empty cache and its files are evicted
//!           from the page cache; then each query runs twenty times: volumes of 2009, volumes of the genre "Science &
//!           Technology", and one whole volume.
//! Passes:   the paper's orderings: the first of the twenty takes longer than the median of the others, and by that
//!           median schema 2 is fastest.

use std::hint::black_box;
use std::time::Instant;

use waxseal::Db;
use waxseal_bench::Outcome;
use waxseal_bench::experiment::Run;
use waxseal_bench::gate::Gate;
use waxseal_bench::measure::evict;
use waxseal_bench::stats::{median, ratio_interval};
use waxseal_corpus::{Access, Corpus, Layout};

use super::Line;
use super::collection::{self, Collection, SCIENCE_AND_TECHNOLOGY};
use super::plot::{Panel, Points, draw};

const ROUNDS: usize = 5;
const REPEATS: usize = 20;

/// Name of each query in the lines, and in the figure.
const QUERIES: [(&str, &str); 3] =
    [("date", "(a) publish date"), ("genre", "(b) genre"), ("volume", "(c) whole volume")];

/// Milliseconds of each repeat, by schema and query.
type Series = [[Vec<f64>; 3]; 3];

pub(super) fn run(run: &Run, line: &Line) -> Outcome<Vec<Gate>> {
    let volumes = collection::volumes(run.scale);
    let mut dirs = Vec::new();
    for (at, layout) in [Layout::GroupPerPage, Layout::RecordPerColumn, Layout::RowPerPage].into_iter().enumerate() {
        let dir = run.fresh(&format!("schema{}", at + 1))?;
        let db = Db::open(&dir)?;
        Collection::new(volumes, run.scale, run.seed).add_to(&Corpus::create(&db, "htrc", layout)?)?;
        db.settle()?;
        db.close()?;
        dirs.push(dir);
    }
    let mut rounds: Vec<Series> = Vec::new();
    for round in 0..ROUNDS {
        let mut series = Series::default();
        for turn in 0..3 {
            let at = if round % 2 == 0 { turn } else { 2 - turn };
            evict(&dirs[at])?;
            let db = Db::open(&dirs[at])?;
            let corpus = Corpus::open(&db, "htrc")?;
            for (query, times) in series[at].iter_mut().enumerate() {
                for _ in 0..REPEATS {
                    let start = Instant::now();
                    ask(&corpus, query, volumes)?;
                    times.push(start.elapsed().as_secs_f64() * 1e3);
                }
            }
            drop(corpus);
            db.close()?;
        }
        rounds.push(series);
    }
    if let Some(dir) = &line.plots {
        draw(&dir.join("figure6.svg"), &panels(&rounds))?;
    }
    let ratio = |of: &dyn Fn(&Series) -> f64| ratio_interval(&rounds.iter().map(of).collect::<Vec<_>>(), run.seed);
    let mut gates = Vec::new();
    for (query, (what, name)) in QUERIES.into_iter().enumerate() {
        for schema in 0..3 {
            let first: Vec<f64> = rounds.iter().map(|series| series[schema][query][0]).collect();
            let later: Vec<f64> = rounds.iter().map(|series| later(&series[schema][query])).collect();
            println!("{name}, schema {}: first {:.3} ms, later {:.3} ms", schema + 1, median(&first), median(&later));
        }
        let first = ratio(&|series| series[1][query][0] / later(&series[1][query]));
        gates.push(run.at_least(what, "first_over_later", "x", first, 1.0));
        for other in [0, 2] {
            let slower = ratio(&|series| later(&series[other][query]) / later(&series[1][query]));
            gates.push(run.at_least(what, &format!("schema_{}_over_2", other + 1), "x", slower, 1.0));
        }
    }
    Ok(gates)
}

fn ask(corpus: &Corpus, query: usize, volumes: u64) -> Outcome<()> {
    let all = corpus.reader(Access::All);
    let found = match query {
        0 => all.published("2009", "2009")?.len(),
        1 => all.genre(SCIENCE_AND_TECHNOLOGY)?.len(),
        _ => black_box(all.volume(&collection::id(volumes / 2))?).pages.len(),
    };
    if found == 0 { Err(format!("query {} finds nothing", QUERIES[query].0).into()) } else { Ok(()) }
}

fn later(times: &[f64]) -> f64 {
    median(&times[1..])
}

fn panels(rounds: &[Series]) -> Vec<Panel> {
    let panel = |query: usize| {
        let line = |schema: usize| -> (String, Points) {
            let at = |repeat| median(&rounds.iter().map(|series| series[schema][query][repeat]).collect::<Vec<_>>());
            let points = (0..REPEATS).map(|repeat| ((repeat + 1) as f64, at(repeat)));
            (format!("schema {}", schema + 1), points.collect())
        };
        let title = QUERIES[query].1.to_owned();
        Panel { title, x: "run", y: "ms", lines: (0..3).map(line).collect() }
    };
    (0..3).map(panel).collect()
}
