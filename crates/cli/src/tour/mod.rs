//! The tour: the complete work of a store on real files, with every answer checked.
//!
//! It loads a tree, reopens the store, reads the sources again and compares. It takes a snapshot, registers the files,
//! updates and deletes, and checks the snapshot, the log, a checkpoint and the store. It kills a writing process and
//! checks its acknowledged writes. It flips bits in a copy, reads the copy and repairs it. Finally it prints the costs.
//! Only a part of one file is in memory at a time; of all entries the tour keeps path, size and digest.

mod check;
mod entries;
mod events;
mod flips;
mod kill;
mod report;
mod source;
mod steps;

pub(crate) use kill::write_until_killed;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use waxseal::Db;

use crate::args;
use crate::failure::{Exit, Failure};
use crate::files::location::is_within;
use crate::levels::levels_of;
use crate::output::Output;
use crate::text;
use report::TourReport;
use steps::RunningTour;

/// The family of the tour's files.
const FAMILY: &str = "files";

pub(crate) fn run(options: &args::TourArgs, output: &mut Output) -> Result<Exit, Failure> {
    let start = Instant::now();
    let sources = source::sources(options)?;
    let place = TourPaths::new(options)?;
    if let Some(tree) = sources.trees.iter().find(|tree| is_within(&tree.root, &place.store)) {
        return Err(Failure::usage(format!("{} is in {}", tree.root.display(), place.store.display())));
    }
    report::opening(&sources, &place.store, options.keep, output)?;

    let mut report = TourReport::default();
    let tour = RunningTour::load(&sources, &place, &mut report, output)?;
    let mut tour = tour.reopen(&mut report, output)?;
    tour.compare_with_sources(&mut report, output)?;
    tour.change(options.seed, &mut report, output)?;
    tour.check_checkpoint(&place.checkpoint, &mut report, output)?;
    let expected = tour.close()?;
    let outcome = kill::kill_a_writer(&place.store, options.seed, &mut report, output)?;
    let tour = expected.open_again(&mut report, output)?;
    tour.check_writes(&outcome, &mut report, output)?;
    tour.check_all(&mut report, output)?;

    tour.files().reclaim()?;
    tour.db().settle()?;
    report.levels = levels_of(tour.db(), FAMILY);
    report.store_bytes = disk_bytes(&place.store).map_err(|error| Failure::io(place.store.display(), error))?;
    report.sealed = tour.db().seals().is_some();
    let expected = tour.close()?;
    expected.flip_bits(&place.damaged, &outcome, options.seed, &mut report, output)?;
    report.peak_rss_bytes = peak_rss_bytes();
    report.print(start.elapsed(), output)?;

    let is_ok = report.is_ok();
    place.leave(options.keep || !is_ok, !is_ok, output)?;
    Ok(if is_ok { Exit::Ok } else { Exit::CheckFailed })
}

/// The tour's directories: the store, the checkpoint, and the damaged copy.
struct TourPaths {
    store: PathBuf,
    checkpoint: PathBuf,
    damaged: PathBuf,
    /// Directories that the tour created and removes again.
    made: Vec<PathBuf>,
}

impl TourPaths {
    fn new(options: &args::TourArgs) -> Result<TourPaths, Failure> {
        let store = match &options.store {
            Some(store) => store.clone(),
            None => std::env::temp_dir().join(format!("waxseal-tour-{}", std::process::id())),
        };
        let beside = |suffix: &str| {
            let mut name = store.file_name().unwrap_or_default().to_owned();
            name.push(suffix);
            store.with_file_name(name)
        };
        let (checkpoint, damaged) = (beside("-checkpoint"), beside("-damaged"));
        for dir in [&store, &checkpoint, &damaged] {
            if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
                return Err(Failure::usage(format!("{} is not empty", dir.display())));
            }
        }
        let made = if store.exists() { Vec::new() } else { vec![store.clone()] };
        Ok(TourPaths { store, checkpoint, damaged, made })
    }

    /// Removes the tour's directories, or prints where they are.
    fn leave(&self, keep: bool, is_evidence: bool, output: &mut Output) -> Result<(), Failure> {
        if !is_evidence {
            remove(&self.damaged)?;
        }
        if keep {
            return output.line(format!(
                "\n  The store is kept in {0}; look into it with `waxseal fs tree waxseal://{0}`.",
                self.store.display()
            ));
        }
        Db::destroy(&self.store)?;
        for dir in &self.made {
            let _ = fs::remove_dir(dir); // `destroy` may have removed it
        }
        Ok(())
    }
}

/// Removes a store that the tour created, with its directory.
fn remove(dir: &Path) -> Result<(), Failure> {
    if dir.exists() {
        Db::destroy(dir)?;
        let _ = fs::remove_dir(dir); // `destroy` may have removed it
    }
    Ok(())
}

/// Returns the disk space of a directory's files.
fn disk_bytes(dir: &Path) -> std::io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    fs::read_dir(dir)?.map(|entry| Ok(entry?.metadata()?.blocks() * 512)).sum()
}

/// Returns the peak resident memory of this process; 0 if the system does not report it.
fn peak_rss_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}

/// Formats the time since `since` for a report line.
fn seconds(since: Instant) -> String {
    let elapsed = since.elapsed();
    if elapsed.as_secs() < 1 {
        format!("{} ms", elapsed.as_millis())
    } else {
        format!("{:.1} s", elapsed.as_secs_f64())
    }
}

/// Formats a rate for a report line.
fn rate(bytes: u64, since: Instant) -> String {
    format!("{}/s", text::size((bytes as f64 / since.elapsed().as_secs_f64().max(1e-6)) as u64))
}
