//! Question: does the generated collection have the paper's counts?
//! Protocol: all volumes are added to a corpus of schema 2. Its queries count volumes and hits, and reads of 100
//!           volumes count bytes.
//! Passes:   28,896 volumes; 399 of authors named Edward, 394 of 1970 to 1979, 535 with "science" and 222 with "art" in
//!           the title; each volume that is read has 1.95 MB times the scale, give or take a byte a page.

use std::time::Instant;

use waxseal::Db;
use waxseal_bench::Outcome;
use waxseal_bench::experiment::Run;
use waxseal_bench::gate::Gate;
use waxseal_bench::workload::Random;
use waxseal_corpus::{Access, Corpus, Layout};

use super::Line;
use super::collection::{ABOUT_ART, ABOUT_SCIENCE, BY_EDWARD, Collection, OF_THE_SEVENTIES, VOLUME_BYTES, VOLUMES, id};

/// Number of volumes whose bytes are counted.
const SAMPLE: u64 = 100;

pub(super) fn run(run: &Run, _: &Line) -> Outcome<Vec<Gate>> {
    let collection = Collection::new(VOLUMES, run.scale, run.seed);
    let db = Db::open(run.fresh("generate")?)?;
    let corpus = Corpus::create(&db, "htrc", Layout::RecordPerColumn)?;
    let start = Instant::now();
    collection.add_to(&corpus)?;
    println!(
        "{VOLUMES} volumes of {} bytes and {} pages, added in {:.1} s",
        collection.volume_bytes(),
        collection.pages(),
        start.elapsed().as_secs_f64()
    );
    let all = corpus.reader(Access::All);
    let hits = [
        ("volumes", all.ids()?, VOLUMES),
        ("author_edward", all.author_has("edward")?, BY_EDWARD),
        ("published_1970_1979", all.published("1970", "1979")?, OF_THE_SEVENTIES),
        ("title_science", all.title_has("science")?, ABOUT_SCIENCE),
        ("title_art", all.title_has("art")?, ABOUT_ART),
    ];
    let mut gates = Vec::new();
    for (what, ids, wanted) in hits {
        println!("{what}: {} volumes; the paper: {wanted}", ids.len());
        gates.push(run.none(what, "hits_too_many_or_few", (ids.len() as u64).abs_diff(wanted), VOLUMES, 1));
    }
    let mut random = Random::stream(run.seed, VOLUMES);
    let mut wrong = 0;
    for _ in 0..SAMPLE {
        let id = id(random.below(VOLUMES));
        let pages = all.volume(&id)?.pages;
        let bytes = pages.iter().map(String::len).sum::<usize>() + all.archive(&id)?.unwrap_or_default().len();
        let off = bytes as f64 - VOLUME_BYTES * run.scale;
        wrong += u64::from(off.abs() > 1.0 + pages.len() as f64);
    }
    gates.push(run.none("bytes", "volumes_of_other_lengths", wrong, SAMPLE, 1));
    drop(corpus);
    db.close()?;
    Ok(gates)
}
