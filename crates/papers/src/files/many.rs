//! Question: how fast is a store of ten million files opened, listed and walked?
//! Protocol: a file store gets files of 100 bytes, half of them in one directory and half in directories of 1,000, and is
//!           closed. In each round it is opened (the store and its files), 1,000 pages of 100 entries are listed behind
//!           random names of the large directory and of the others, and all entries are walked over. Warm, and cold:
//!           before the opening and before the pages the store is closed, the kernel's caches are dropped, and it is
//!           opened again. Names and sizes of pages and the number of all entries are checked.
//! Passes:   no wrong page or walk; warm, opening takes at most 2 s, a page 1 ms, and the walk 1 us an entry. Cold times
//!           are only printed.

use super::Run;
use super::caches::{self, Caches};
use super::sides::in_parallel;
use std::path::Path;
use std::time::Instant;
use waxseal::Db;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::rounds::{Rounds, alternate_many};
use waxseal_bench::workload::Random;
use waxseal_files::FileStore;

/// Files at scale 1, and the bytes of each.
const FILES: u64 = 10_000_000;
const FILE_BYTES: usize = 100;

/// Files of a small directory.
const DIRECTORY_FILES: u64 = 1_000;

/// Pages of a measurement, and entries of a page.
const PAGES: u64 = 1_000;
const PAGE_ENTRIES: usize = 100;

/// Threads that write the files.
const WRITERS: u64 = 2;

/// The directory that holds half of the files.
const LARGE: &str = "all";

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let is_cold = run.caches != Some(Caches::Warm);
    if is_cold {
        caches::drop_all()?; // fails before the store is filled
    }
    let set = Set { files: run.size(FILES, 2_000) };
    let dir = run.fresh("store")?;
    set.fill(&dir)?;
    println!("{} files, {:.1} MB on disk", set.files, waxseal_bench::measure::disk_bytes(&dir) as f64 / 1e6);
    let rounds = if set.files < 10_000 { 1 } else { 5 };
    let (mut wrong, mut checks, mut gates) = (0, 0, Vec::new());
    let states = [(Caches::Warm, run.caches != Some(Caches::Cold)), (Caches::Cold, is_cold)];
    for (caches, _) in states.into_iter().filter(|(_, is_asked)| *is_asked) {
        let mut round = 0;
        if caches == Caches::Warm {
            set.measure(&dir, caches, 0)?;
        }
        let part = run.within(if caches == Caches::Warm && is_cold { 0.5 } else { 1.0 });
        let times = alternate_many(&part, 1, rounds, |_| {
            round += 1;
            let (times, faults) = set.measure(&dir, caches, run.seed + round)?;
            wrong += faults;
            checks += PAGES + 1;
            Ok(times)
        })?;
        print(caches, &times);
        if caches == Caches::Warm {
            let [open, page, walk] = &times;
            let of = |times: &Rounds, unit: f64| times.ratio(|round| round[0] / unit);
            gates.push(run.at_most("open", "time", "s", of(open, 1e9), 2.0));
            gates.push(run.at_most("page", "time", "ms", of(page, 1e6), 1.0));
            gates.push(run.at_most("walk", "time_an_entry", "us", of(walk, 1e3), 1.0));
        }
    }
    gates.push(run.none("same_entries", "wrong_answers", wrong, checks, 1));
    Ok(gates)
}

fn print(caches: Caches, [open, page, walk]: &[Rounds; 3]) {
    println!(
        "{}: open {:.1} ms, a page of {PAGE_ENTRIES} {:.3} ms, walk {:.0} entries/s; {} rounds",
        if caches == Caches::Warm { "warm" } else { "cold" },
        open.of(0) / 1e6,
        page.of(0) / 1e6,
        1e9 / walk.of(0),
        open.count()
    );
}

/// The files: half of them in one directory.
struct Set {
    files: u64,
}

impl Set {
    fn large(&self) -> u64 {
        self.files / 2
    }

    fn directories(&self) -> u64 {
        (self.files - self.large()).div_ceil(DIRECTORY_FILES)
    }

    /// Entries of a walk: the root, the directories, and the files.
    fn entries(&self) -> u64 {
        2 + self.directories() + self.files
    }

    fn path(&self, file: u64) -> String {
        match file.checked_sub(self.large()) {
            None => format!("{LARGE}/{file:08}"),
            Some(file) => format!("{}/{file:08}", directory(file / DIRECTORY_FILES)),
        }
    }

    fn fill(&self, dir: &Path) -> Outcome<()> {
        let db = Db::builder(dir).create_if_missing(true).open()?;
        let files = FileStore::open(&db, "files")?;
        files.mkdir(LARGE)?;
        (0..self.directories()).try_for_each(|number| files.mkdir(directory(number)))?;
        in_parallel(WRITERS, |writer| {
            let mut random = Random::stream(7, writer);
            let mut content = [0; FILE_BYTES];
            for file in (writer..self.files).step_by(WRITERS as usize) {
                content.chunks_mut(8).for_each(|part| part.copy_from_slice(&random.word().to_le_bytes()[..part.len()]));
                files.write(self.path(file), content)?;
            }
            Ok(())
        })?;
        drop(files);
        db.settle()?;
        Ok(db.close()?)
    }

    /// Returns nanoseconds of the opening, of a page, and of an entry of the walk, and the number of wrong answers.
    fn measure(&self, dir: &Path, caches: Caches, seed: u64) -> Outcome<([f64; 3], u64)> {
        let is_cold = caches == Caches::Cold;
        let drop_caches = || if is_cold { caches::drop_all() } else { Ok(()) };
        drop_caches()?;
        let start = Instant::now();
        let mut store = open(dir)?;
        let opened = start.elapsed();
        if is_cold {
            close(store)?;
            drop_caches()?;
            store = open(dir)?;
        }
        let files = &store.1;
        let (mut random, mut wrong) = (Random::new(seed), 0);
        let start = Instant::now();
        for page in 0..PAGES {
            let (directory, first, end) = match page % 2 {
                0 => (LARGE.to_owned(), 0, self.large()),
                _ => {
                    let (number, most) = (random.below(self.directories()), self.files - self.large());
                    let first = number * DIRECTORY_FILES;
                    (directory(number), first, (first + DIRECTORY_FILES).min(most))
                }
            };
            let after = first + random.below(end - first);
            let mut next = after + 1;
            for entry in files.list_after(&directory, format!("{after:08}"))?.take(PAGE_ENTRIES) {
                let entry = entry?;
                let is_right =
                    entry.name == format!("{next:08}").as_bytes() && entry.metadata.size == FILE_BYTES as u64;
                wrong += u64::from(!is_right);
                next += 1;
            }
            wrong += u64::from(next != end.min(after + 1 + PAGE_ENTRIES as u64));
        }
        let listed = start.elapsed().as_nanos() as f64 / PAGES as f64;
        let start = Instant::now();
        let mut entries = 0u64;
        for entry in files.walk("")? {
            std::hint::black_box(entry?);
            entries += 1;
        }
        let walked = start.elapsed().as_nanos() as f64 / entries as f64;
        wrong += u64::from(entries != self.entries());
        close(store)?;
        Ok(([opened.as_nanos() as f64, listed, walked], wrong))
    }
}

fn directory(number: u64) -> String {
    format!("d{number:05}")
}

fn open(dir: &Path) -> Outcome<(Db, FileStore)> {
    let db = Db::builder(dir).create_if_missing(false).open()?;
    let files = FileStore::open(&db, "files")?;
    Ok((db, files))
}

fn close((db, files): (Db, FileStore)) -> Outcome<()> {
    drop(files);
    Ok(db.close()?)
}
