//! The steps of the tour. Each one acts, checks, and prints its findings.

use std::path::{Path, PathBuf};
use std::time::Instant;

use waxseal::env::{Random, SeededRandom};
use waxseal::{Builder, Db, MIB};
use waxseal_files::{FileKind, FileStore, Snapshot};

use super::entries::{EntryState, Now, StateReader, TourEntry};
use super::kill::{self, WriterOutcome};
use super::report::TourReport;
use super::source::{SourceTree, Sources};
use super::{FAMILY, TourPaths, check, events, rate, remove, seconds};
use crate::failure::Failure;
use crate::files::local::LocalTree;
use crate::files::stored::{self, StoredTree};
use crate::files::tree::{Node, Part, Tree, below, by_component, join};
use crate::output::Output;
use crate::progress;
use crate::text::{count, counted, size};

/// A name that no source has.
const ABSENT: &[u8] = b"\xffabsent";

/// What the store must hold.
pub(super) struct ExpectedTree {
    dir: PathBuf,
    sources: Vec<(LocalTree, &'static str)>,
    /// In the order of walks.
    entries: Vec<TourEntry>,
    chunk_bytes: u32,
}

/// A running tour: the open store, and what it must hold.
pub(super) struct RunningTour {
    files: FileStore,
    expected: ExpectedTree,
}

pub(super) fn builder(dir: &Path) -> Builder {
    Db::builder(dir).memtable_bytes(16 * MIB).cache_bytes(64 * MIB)
}

pub(super) fn open(dir: &Path) -> Result<FileStore, Failure> {
    Ok(FileStore::open(&builder(dir).open()?, FAMILY)?)
}

impl ExpectedTree {
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn entries(&self) -> &[TourEntry] {
        &self.entries
    }

    pub(super) fn chunk_bytes(&self) -> u32 {
        self.chunk_bytes
    }

    /// Returns the expected state of every entry; `None` if it was deleted.
    pub(super) fn states(&self) -> impl Iterator<Item = (&[u8], Option<EntryState>)> + Clone {
        self.entries.iter().map(|entry| (&entry.path[..], entry.expected()))
    }

    /// Opens the store after the writer process was killed.
    pub(super) fn open_again(self, report: &mut TourReport, output: &mut Output) -> Result<RunningTour, Failure> {
        let start = Instant::now();
        let tour = RunningTour { files: open(&self.dir)?, expected: self };
        report.step("recover", format!("opened in {}", seconds(start)), output)?;
        tour.say_recovery(false, report, output)?;
        Ok(tour)
    }

    /// Stores one entry of a source. Returns its state; `None` if its source cannot be read, or has no content.
    fn store(
        &mut self,
        source: usize,
        node: &Node,
        path: Vec<u8>,
        to: &StoredTree,
    ) -> Result<Option<EntryState>, Failure> {
        let from = &self.sources[source].0;
        let mut reader = StateReader::new(self.chunk_bytes);
        let kind = match node.kind {
            Some(FileKind::File) => {
                let (mut sink, mut stored) = (to.write(&path, Some(node))?, Ok(()));
                let mut store = |part: Part<'_>| {
                    reader.add(part);
                    sink.put(part).map_err(|failure| {
                        stored = Err(failure);
                        Failure::usage("the part was not stored")
                    })
                };
                let read = from.open(node).and_then(|opened| opened.read(&mut store));
                stored?;
                if readable(read)?.is_none() {
                    return Ok(None);
                }
                sink.finish()?;
                FileKind::File
            }
            Some(FileKind::Directory) => {
                to.mkdir(&path, Some(node))?;
                FileKind::Directory
            }
            Some(FileKind::Link) => {
                let Some(target) = readable(from.read_link(&node.path))? else { return Ok(None) };
                to.symlink(&target, &path, node)?;
                reader.add(Part::Bytes(&target));
                FileKind::Link
            }
            _ => return Ok(None),
        };
        let state = reader.finish(kind);
        self.entries.push(TourEntry { path, source, loaded: state, now: Now::AsLoaded });
        Ok(Some(state))
    }

    /// Reads the state that the source of an entry has now; `None` if it cannot be read.
    fn source_state(&self, entry: &TourEntry) -> Result<Option<EntryState>, Failure> {
        let (source, place) = &self.sources[entry.source];
        let node = source.stat(below(&entry.path, place.as_bytes()));
        Ok(readable(node.and_then(|node| EntryState::read(source, &node, self.chunk_bytes)))?.flatten())
    }
}

impl RunningTour {
    /// Stores every entry of the sources.
    pub(super) fn load(
        sources: &Sources,
        place: &TourPaths,
        report: &mut TourReport,
        output: &mut Output,
    ) -> Result<RunningTour, Failure> {
        let opened = |tree: &SourceTree| {
            let mut source = LocalTree::open(&tree.root)?;
            for dir in [&place.store, &place.checkpoint, &place.damaged].into_iter().chain(&tree.left_out) {
                source = source.without(dir);
            }
            Ok((source, tree.place))
        };
        let files = open(&place.store)?;
        let expected = ExpectedTree {
            dir: place.store.clone(),
            sources: sources.trees.iter().map(opened).collect::<Result<_, Failure>>()?,
            entries: Vec::new(),
            chunk_bytes: files.chunk_bytes(),
        };
        let mut tour = RunningTour { files, expected };
        let start = Instant::now();
        let bar = progress::bar("load", None, "entries");
        let to = tour.tree();
        for source in 0..tour.expected.sources.len() {
            let (from, place) = &tour.expected.sources[source];
            let place = place.as_bytes();
            for node in from.walk(b"")? {
                bar.inc(1);
                match readable(node)? {
                    Some(node) => {
                        tour.load_entry(source, &node, join(place, &node.path), &to, sources.limit, report)?;
                    }
                    None => report.skipped += 1,
                }
            }
        }
        to.finish()?;
        drop(to);
        bar.finish_and_clear();
        report.load_s = start.elapsed().as_secs_f64();
        tour.expected.entries.sort_by(|a, b| by_component(&a.path, &b.path));
        let text = format!(
            "{}, {} in {} ({}), all durable",
            counted(report.files, "file", "files"),
            size(report.bytes),
            seconds(start),
            rate(report.bytes, start),
        );
        report.step("load", text, output)?;
        if report.skipped > 0 {
            let others = count(report.skipped - report.beyond_limit);
            let text = format!("skipped: {} beyond the limit, {others} special and others", count(report.beyond_limit));
            report.note(text, output)?;
        }
        Ok(tour)
    }

    /// Stores an entry, and counts it.
    fn load_entry(
        &mut self,
        source: usize,
        node: &Node,
        path: Vec<u8>,
        to: &StoredTree,
        limit: u64,
        report: &mut TourReport,
    ) -> Result<(), Failure> {
        let is_file = node.kind == Some(FileKind::File);
        if path.is_empty() {
            return Ok(()); // the root exists
        }
        if is_file && report.bytes.saturating_add(node.size) > limit {
            report.skipped += 1;
            report.beyond_limit += 1;
            return Ok(());
        }
        match self.expected.store(source, node, path, to)? {
            None => report.skipped += 1,
            Some(state) if is_file => {
                report.files += 1;
                report.bytes += state.size();
            }
            Some(_) => {}
        }
        Ok(())
    }

    pub(super) fn db(&self) -> &Db {
        self.files.db()
    }

    pub(super) fn files(&self) -> &FileStore {
        &self.files
    }

    /// Returns the files as a tree to write to.
    fn tree(&self) -> StoredTree {
        stored_tree(self.files.clone(), &self.expected.dir)
    }

    pub(super) fn close(self) -> Result<ExpectedTree, Failure> {
        close(self.files)?;
        Ok(self.expected)
    }

    /// Closes and reopens the store. Nothing may be missing from its log.
    pub(super) fn reopen(self, report: &mut TourReport, output: &mut Output) -> Result<RunningTour, Failure> {
        let start = Instant::now();
        let expected = self.close()?;
        let closed = seconds(start);
        let start = Instant::now();
        let tour = RunningTour { files: open(&expected.dir)?, expected };
        let text = format!("closed in {closed}, opened in {}", seconds(start));
        report.step("reopen", text, output)?;
        tour.say_recovery(true, report, output)?;
        Ok(tour)
    }

    fn say_recovery(&self, is_clean: bool, report: &mut TourReport, output: &mut Output) -> Result<(), Failure> {
        let recovery = self.db().recovery();
        if recovery.acknowledged_bytes_missing > 0 || (is_clean && recovery.cut_bytes > 0) {
            report.mismatch("the log has lost its end", b"");
        }
        if recovery.commits > 0 || recovery.cut_bytes > 0 {
            let text = format!(
                "{} replayed from the log, {} of an unfinished write cut",
                counted(recovery.commits, "commit", "commits"),
                counted(recovery.cut_bytes, "byte", "bytes")
            );
            report.note(text, output)?;
        }
        Ok(())
    }

    /// Reads every source again and compares it with the store.
    pub(super) fn compare_with_sources(&self, report: &mut TourReport, output: &mut Output) -> Result<(), Failure> {
        let start = Instant::now();
        let bar = progress::bar("compare", Some(self.expected.entries.len() as u64), "entries");
        let (snapshot, chunk_bytes) = (self.files.snapshot(), self.expected.chunk_bytes);
        let (mut equal, mut changed) = (0u64, 0u64);
        for entry in &self.expected.entries {
            match EntryState::stored(&snapshot, &entry.path, chunk_bytes)? {
                None => report.mismatch("a stored entry is missing", &entry.path),
                Some(state) if state != entry.loaded => {
                    report.mismatch("a stored entry differs from its source", &entry.path)
                }
                state if self.expected.source_state(entry)? == state => equal += u64::from(entry.is_file()),
                // The source was modified meanwhile; the store has the content that was read.
                _ => changed += 1,
            }
            if snapshot.exists(join(&entry.path, ABSENT))? {
                report.mismatch("an entry that was never stored is there", &entry.path);
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        let text =
            format!("{} read again from their sources and equal ({})", counted(equal, "file", "files"), seconds(start));
        report.step("compare", text, output)?;
        if changed > 0 {
            let text = format!("{} changed by somebody meanwhile; the store has what was read first", count(changed));
            report.note(text, output)?;
        }
        Ok(())
    }

    /// Updates a fifth of the files and deletes a tenth. Then checks that an earlier snapshot sees no change, and that
    /// the store has all changes.
    pub(super) fn change(&mut self, seed: u64, report: &mut TourReport, output: &mut Output) -> Result<(), Failure> {
        let (snapshot, start) = (self.files.snapshot(), Instant::now());
        let session = events::watch(self.db())?;
        let to = stored_tree(self.files.in_session(&session)?, &self.expected.dir);
        let entries = &mut self.expected.entries;
        let files: Vec<usize> = (0..entries.len()).filter(|at| entries[*at].is_file()).collect();
        let chosen = choose(files.len(), seed);
        let bar = progress::bar("change", Some(chosen.len() as u64), "files");
        for (at, delete) in chosen {
            let entry = &mut entries[files[at]];
            if delete {
                to.remove(&entry.path)?;
                entry.now = Now::Deleted;
                report.deleted += 1;
            } else {
                let mut reader = StateReader::new(self.expected.chunk_bytes);
                let mut sink = to.write(&entry.path, None)?;
                let mut put = |part: Part<'_>| {
                    reader.add(part);
                    sink.put(part)
                };
                put(Part::Bytes(format!("updated by tour {seed}\n").as_bytes()))?;
                stored::read(&snapshot, &entry.path, &mut put)?;
                sink.finish()?;
                entry.now = Now::Updated(reader.finish(FileKind::File));
                report.updated += 1;
            }
            bar.inc(1);
        }
        to.finish()?;
        bar.finish_and_clear();
        let text = format!(
            "{} updated, {} deleted by {:?} ({})",
            counted(report.updated, "file", "files"),
            count(report.deleted),
            session.name(),
            seconds(start)
        );
        report.step("change", text, output)?;
        events::check(self.db(), &self.expected.entries, report, output)?; // from memory: they are not flushed yet
        events::say(self.db(), report, output)?;
        self.db().flush()?;

        let start = Instant::now();
        let loaded = self.expected.entries.iter().map(|entry| (&entry.path[..], Some(entry.loaded)));
        let before = report.mismatches;
        report.snapshot_checked = compare(&snapshot, loaded, self.expected.chunk_bytes, "the snapshot", report)?;
        let text = format!(
            "{} through a snapshot taken before, {} ({})",
            counted(report.snapshot_checked, "file", "files"),
            if report.mismatches == before { "all as they were" } else { "not all as they were" },
            seconds(start)
        );
        report.step("snapshot", text, output)?;
        drop(snapshot);
        self.check_all(report, output)
    }

    /// Compares the store with the expected entries, and has it verify itself.
    pub(super) fn check_all(&self, report: &mut TourReport, output: &mut Output) -> Result<(), Failure> {
        let (start, before, snapshot) = (Instant::now(), report.mismatches, self.files.snapshot());
        let checked = compare(&snapshot, self.expected.states(), self.expected.chunk_bytes, "the store", report)?;
        let text = format!(
            "{} read and listed, {} ({})",
            counted(checked, "file", "files"),
            if report.mismatches == before { "all as they must be" } else { "not all as they must be" },
            seconds(start)
        );
        report.step("check", text, output)?;
        let (start, verified, records) = (Instant::now(), snapshot.verify("")?, snapshot.fsck()?);
        for problem in verified.problems.iter().chain(&records.problems) {
            report.mismatch(&problem.fault, &problem.path);
        }
        let text = format!(
            "{} with their digests, {} and {} with their records: {} ({})",
            counted(verified.entries, "entry", "entries"),
            counted(records.contents, "content", "contents"),
            counted(records.chunks, "chunk", "chunks"),
            counted(verified.faults + records.faults, "fault", "faults"),
            seconds(start)
        );
        report.step("verify", text, output)?;
        events::check(self.db(), &self.expected.entries, report, output)
    }

    /// Creates a checkpoint, checks it as an independent store, and removes it.
    pub(super) fn check_checkpoint(
        &self,
        dir: &Path,
        report: &mut TourReport,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let start = Instant::now();
        self.db().checkpoint(dir)?;
        let made = seconds(start);
        let start = Instant::now();
        let copy = open(dir)?;
        let (states, chunk_bytes) = (self.expected.states(), self.expected.chunk_bytes);
        report.checkpoint_records = compare(&copy.snapshot(), states, chunk_bytes, "the checkpoint", report)?;
        close(copy)?;
        remove(dir)?;
        let text = format!(
            "made in {made}, opened as a store of its own, {} checked ({})",
            counted(report.checkpoint_records, "file", "files"),
            seconds(start)
        );
        report.step("checkpoint", text, output)
    }

    /// Checks the acknowledged writes of the killed writer.
    pub(super) fn check_writes(
        &self,
        outcome: &WriterOutcome,
        report: &mut TourReport,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let verdict = kill::check(self.db(), outcome)?;
        (report.lost, report.wrong) = (verdict.lost, verdict.wrong);
        let text = format!(
            "{} acknowledged writes: {} lost, {} wrong; {} found, each as it was written",
            count(report.acknowledged),
            count(report.lost),
            count(report.wrong),
            counted(verdict.keys, "key", "keys")
        );
        report.step("writes", text, output)
    }
}

/// Returns what was read of a source; `None` if the entry cannot be read. Errors: those of the device.
fn readable<T>(read: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match read {
        Err(failure) if failure.is_of_entry() => Ok(None),
        read => read.map(Some),
    }
}

fn stored_tree(files: FileStore, dir: &Path) -> StoredTree {
    StoredTree::new(files, format!("waxseal://{}", dir.display()))
}

/// Closes a store. The caller has no other handle of its files.
pub(super) fn close(files: FileStore) -> Result<(), Failure> {
    let db = files.db().clone();
    drop(files);
    Ok(db.close()?)
}

/// Compares a tree of an intact store with the expected entries. Returns the number of matching files.
fn compare<'a>(
    snapshot: &Snapshot,
    expected: impl Iterator<Item = (&'a [u8], Option<EntryState>)> + Clone,
    chunk_bytes: u32,
    name: &str,
    report: &mut TourReport,
) -> Result<u64, Failure> {
    let mut fault = |what: &str, path: &[u8]| report.mismatch(&format!("{name} {what}"), path);
    let answers = check::tree(snapshot, expected, chunk_bytes, &mut fault)?;
    (0..answers.errors).for_each(|_| report.mismatch(&format!("{name} is damaged"), b""));
    Ok(answers.files)
}

/// Chooses a fifth of the items to update and a tenth to delete (true), at random; both kinds occur if the store has
/// two files or more.
fn choose(items: usize, seed: u64) -> Vec<(usize, bool)> {
    let random = SeededRandom::new(seed);
    let (updates, deletes) = (items.div_ceil(5), if items < 2 { 0 } else { items.div_ceil(10) });
    let mut order: Vec<usize> = (0..items).collect();
    for at in 0..updates + deletes {
        let other = at + random.below((items - at) as u64) as usize;
        order.swap(at, other);
    }
    let mut chosen: Vec<(usize, bool)> =
        order.into_iter().take(updates + deletes).enumerate().map(|(turn, at)| (at, turn >= updates)).collect();
    // Shuffles updates and deletes together.
    chosen.sort_by_cached_key(|_| random.next_u64());
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_choice_is_disjoint_and_has_both() {
        for items in [0, 1, 2, 3, 10, 1001] {
            let chosen = choose(items, 7);
            let distinct: HashSet<usize> = chosen.iter().map(|(at, _)| *at).collect();
            assert_eq!(distinct.len(), chosen.len());
            assert!(distinct.iter().all(|at| *at < items));
            assert_eq!(chosen.iter().any(|(_, delete)| !delete), items > 0);
            assert_eq!(chosen.iter().any(|(_, delete)| *delete), items > 1);
        }
        assert_eq!(choose(100, 1), choose(100, 1));
        assert_ne!(choose(100, 1), choose(100, 2));
    }
}
