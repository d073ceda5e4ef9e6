//! The steps of the tour. Each one acts, checks, and prints its findings.
//!
//! Scans are compared step by step with the sorted list of expected records. This detects a missing record, an
//! additional one, one in the wrong position, and wrong content, in both directions.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use waxseal::env::{Random, SeededRandom};
use waxseal::{Builder, ColumnFamily, Cursor, Db, Durability, MAX_KEY_BYTES, MAX_VALUE_BYTES, MIB};

use super::events;
use super::files::{ContentDigest, Now, StoredFile};
use super::kill::{self, WriterOutcome};
use super::report::TourReport;
use super::source::Sources;
use super::{TourPaths, rate, remove, seconds};
use crate::failure::Failure;
use crate::output::Output;
use crate::progress;
use crate::text::{count, counted, size};
use crate::walk::{TreeWalk, WalkedKind, read_file};

/// The family in which the tour notes each change, in the same batch as the change.
pub(super) const NOTES: &str = "tour.changes";

/// A running tour: the store, and its expected content.
pub(super) struct RunningTour {
    dir: PathBuf,
    db: Db,
    /// In key order.
    items: Vec<StoredFile>,
}

pub(super) fn open(dir: &Path) -> Result<Db, Failure> {
    Ok(builder(dir).open()?)
}

pub(super) fn builder(dir: &Path) -> Builder {
    Db::builder(dir).memtable_bytes(16 * MIB).cache_bytes(64 * MIB)
}

impl RunningTour {
    /// Stores every file.
    pub(super) fn load(
        sources: &Sources,
        place: &TourPaths,
        report: &mut TourReport,
        output: &mut Output,
    ) -> Result<RunningTour, Failure> {
        let mut tour = RunningTour { dir: place.store.clone(), db: open(&place.store)?, items: Vec::new() };
        let cf = tour.db.column_family("default")?;
        let start = Instant::now();
        let bar = progress::bar("load", None, "files");
        let mut content = Vec::new();
        for tree in &sources.trees {
            let walk = TreeWalk::new(&tree.root).map_err(|error| Failure::io(tree.root.display(), error))?;
            let walk = walk.leave_out(&place.store).leave_out(&place.checkpoint).leave_out(&place.damaged);
            let walk = tree.left_out.iter().fold(walk, |walk, dir| walk.leave_out(dir));
            for entry in walk {
                let length = match entry.kind {
                    WalkedKind::File(metadata) => metadata.len(),
                    WalkedKind::Directory => continue,
                    WalkedKind::Link | WalkedKind::Special | WalkedKind::Unreadable => {
                        report.skipped += 1;
                        continue;
                    }
                };
                let key = [tree.prefix.as_bytes(), &entry.name].concat();
                let beyond_limit = report.bytes.saturating_add(length) > sources.limit;
                let unfit = beyond_limit || key.len() > MAX_KEY_BYTES;
                if unfit || read_file(&entry.path, length, &mut content).is_err() {
                    report.skipped += 1;
                    report.beyond_limit += u64::from(beyond_limit);
                    continue;
                }
                cf.put(&key, &content)?;
                report.files += 1;
                report.bytes += content.len() as u64;
                tour.items.push(StoredFile {
                    key,
                    path: entry.path,
                    loaded: ContentDigest::of(&content),
                    now: Now::AsLoaded,
                });
                bar.inc(1);
            }
        }
        tour.db.sync()?;
        bar.finish_and_clear();
        report.load_s = start.elapsed().as_secs_f64();
        tour.items.sort_by(|a, b| a.key.cmp(&b.key));
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
            report.note(
                format!("skipped: {} beyond the limit, {others} links and others", count(report.beyond_limit)),
                output,
            )?;
        }
        Ok(tour)
    }

    pub(super) fn db(&self) -> &Db {
        &self.db
    }

    pub(super) fn items(&self) -> &[StoredFile] {
        &self.items
    }

    pub(super) fn close(&self) -> Result<(), Failure> {
        Ok(self.db.close()?)
    }

    fn files(&self) -> Result<ColumnFamily, Failure> {
        Ok(self.db.column_family("default")?)
    }

    /// Closes and reopens the store. Nothing may be missing from its log.
    pub(super) fn reopen(&mut self, report: &mut TourReport, output: &mut Output) -> Result<(), Failure> {
        let start = Instant::now();
        self.close()?;
        let closed = seconds(start);
        let start = Instant::now();
        self.db = open(&self.dir)?;
        let text = format!("closed in {closed}, opened in {}", seconds(start));
        report.step("reopen", text, output)?;
        self.say_recovery(true, report, output)
    }

    /// Opens the store after the writer process was killed.
    pub(super) fn open_again(&mut self, report: &mut TourReport, output: &mut Output) -> Result<(), Failure> {
        let start = Instant::now();
        self.db = open(&self.dir)?;
        report.step("recover", format!("opened in {}", seconds(start)), output)?;
        self.say_recovery(false, report, output)
    }

    fn say_recovery(&self, is_clean: bool, report: &mut TourReport, output: &mut Output) -> Result<(), Failure> {
        let recovery = self.db.recovery();
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

    /// Reads every source file again and compares it with the store.
    pub(super) fn compare_with_sources(&self, report: &mut TourReport, output: &mut Output) -> Result<(), Failure> {
        let start = Instant::now();
        let bar = progress::bar("compare", Some(self.items.len() as u64), "files");
        let (cf, before) = (self.files()?, report.mismatches);
        let (mut source, mut changed) = (Vec::new(), 0u64);
        for item in &self.items {
            let readable = fs::symlink_metadata(&item.path)
                .and_then(|metadata| read_file(&item.path, metadata.size(), &mut source))
                .is_ok();
            let is_equal = cf.get_with(&item.key, |stored| {
                let as_now = readable && stored == source;
                (as_now, as_now || ContentDigest::of(stored) == item.loaded)
            })?;
            match is_equal {
                None => report.mismatch("a stored file is missing", &item.key),
                Some((_, false)) => report.mismatch("a stored file differs from its source", &item.key),
                // The source was modified meanwhile; the store has the content that was read.
                Some((false, true)) => changed += 1,
                Some((true, _)) => {}
            }
            if cf.contains([&item.key, &b"\0absent"[..]].concat())? {
                report.mismatch("a key that was never stored is there", &item.key);
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        let equal = self.items.len() as u64 - changed - (report.mismatches - before).min(self.items.len() as u64);
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
        let snapshot = self.db.snapshot();
        let start = Instant::now();
        let session = events::watch(&self.db)?;
        let (cf, notes) = (session.column_family("default")?, session.column_family(NOTES)?);
        let chosen = choose(self.items.len(), seed);
        let bar = progress::bar("change", Some(chosen.len() as u64), "files");
        let mut batch = session.batch();
        let mut content = Vec::new();
        for (at, delete) in chosen {
            let item = &mut self.items[at];
            if delete {
                batch.delete(&cf, &item.key).put(&notes, &item.key, "deleted");
                item.now = Now::Deleted;
                report.deleted += 1;
            } else {
                content.clear();
                content.extend_from_slice(format!("updated by tour {seed}\n").as_bytes());
                snapshot.get_with(&cf, &item.key, |stored| content.extend_from_slice(stored))?;
                if content.len() > MAX_VALUE_BYTES {
                    continue;
                }
                batch.put(&cf, &item.key, &content).put(&notes, &item.key, "updated");
                item.now = Now::Updated(ContentDigest::of(&content));
                report.updated += 1;
            }
            batch.commit(Durability::Os)?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        let text = format!(
            "{} updated, {} deleted by {:?}, each with a note in another family ({})",
            counted(report.updated, "file", "files"),
            count(report.deleted),
            session.name(),
            seconds(start)
        );
        report.step("change", text, output)?;
        events::check(&self.db, &self.items, report, output)?; // from memory, since they are not flushed yet
        events::say(&self.db, report, output)?;
        self.db.flush()?;

        let start = Instant::now();
        let loaded = self.items.iter().map(|item| (&item.key[..], item.loaded));
        let before = report.mismatches;
        report.snapshot_checked = check_scan(snapshot.cursor(&cf), true, loaded, "the snapshot", report)?;
        let text = format!(
            "{} through a snapshot taken before, {} ({})",
            counted(report.snapshot_checked, "record", "records"),
            if report.mismatches == before { "all as they were" } else { "not all as they were" },
            seconds(start)
        );
        report.step("snapshot", text, output)?;
        drop(snapshot);
        self.check_all(report, output)
    }

    /// Scans the store in both directions, and the notes.
    pub(super) fn check_all(&self, report: &mut TourReport, output: &mut Output) -> Result<(), Failure> {
        let start = Instant::now();
        let (cf, notes) = (self.files()?, self.db.column_family(NOTES)?);
        let before = report.mismatches;
        let checked = check_scan(cf.cursor(), true, self.expected(), "the store", report)?;
        check_scan(cf.cursor(), false, self.expected().rev(), "the store, backwards", report)?;
        let expected = self.expected_notes().filter_map(|(key, content)| Some((key, content?)));
        check_scan(notes.cursor(), true, expected, "the notes", report)?;
        let text = format!(
            "{} scanned forwards and backwards, {} ({})",
            counted(checked, "file", "files"),
            if report.mismatches == before { "all as they must be" } else { "not all as they must be" },
            seconds(start)
        );
        report.step("check", text, output)?;
        events::check(&self.db, &self.items, report, output)
    }

    /// Creates a checkpoint, checks it as an independent store, and removes it.
    pub(super) fn check_checkpoint(
        &self,
        dir: &Path,
        report: &mut TourReport,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let start = Instant::now();
        self.db.checkpoint(dir)?;
        let made = seconds(start);
        let start = Instant::now();
        let copy = open(dir)?;
        let cursor = copy.column_family("default")?.cursor();
        report.checkpoint_records = check_scan(cursor, true, self.expected(), "the checkpoint", report)?;
        copy.close()?;
        drop(copy);
        remove(dir)?;
        let text = format!(
            "made in {made}, opened as a store of its own, {} checked ({})",
            counted(report.checkpoint_records, "record", "records"),
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
        let verdict = kill::check(&self.db, outcome)?;
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

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    fn expected(&self) -> impl DoubleEndedIterator<Item = (&[u8], ContentDigest)> {
        self.expected_or_none().filter_map(|(key, content)| Some((key, content?)))
    }

    /// Returns the expected content of every file; `None` if it was deleted.
    pub(super) fn expected_or_none(&self) -> impl DoubleEndedIterator<Item = (&[u8], Option<ContentDigest>)> + Clone {
        self.items.iter().map(|item| (&item.key[..], item.expected()))
    }

    /// Returns the expected note for each file; `None` if it was not changed.
    pub(super) fn expected_notes(&self) -> impl DoubleEndedIterator<Item = (&[u8], Option<ContentDigest>)> + Clone {
        self.items.iter().map(|item| {
            let note = match item.now {
                Now::AsLoaded => None,
                Now::Updated(_) => Some(ContentDigest::of(b"updated")),
                Now::Deleted => Some(ContentDigest::of(b"deleted")),
            };
            (&item.key[..], note)
        })
    }
}

/// Compares a cursor with the expected records, and counts the matches.
fn check_scan<'a>(
    mut cursor: Cursor,
    forward: bool,
    expected: impl Iterator<Item = (&'a [u8], ContentDigest)>,
    where_: &str,
    report: &mut TourReport,
) -> Result<u64, Failure> {
    let step = |cursor: &mut Cursor| if forward { cursor.next() } else { cursor.prev() };
    let is_ahead = |key: &[u8], of: &[u8]| if forward { key < of } else { key > of };
    if forward {
        cursor.first()?
    } else {
        cursor.last()?
    }
    let mut right = 0;
    for (key, content) in expected {
        while cursor.valid() && is_ahead(cursor.key(), key) {
            report.mismatch(&format!("{where_} has a record too many"), cursor.key());
            step(&mut cursor)?;
        }
        if !cursor.valid() || cursor.key() != key {
            report.mismatch(&format!("{where_} lacks a record"), key);
            continue;
        }
        if ContentDigest::of(cursor.value()) == content {
            right += 1;
        } else {
            report.mismatch(&format!("{where_} has a wrong value"), key);
        }
        step(&mut cursor)?;
    }
    while cursor.valid() {
        report.mismatch(&format!("{where_} has a record too many"), cursor.key());
        step(&mut cursor)?;
    }
    Ok(right)
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

    #[test]
    fn a_scan_check_finds_every_kind_of_fault() -> Result<(), Failure> {
        let db = Db::memory()?;
        let cf = db.column_family("default")?;
        for key in ["a", "b", "c"] {
            cf.put(key, key)?;
        }
        let all = ["a", "b", "c"].map(|key| (key.as_bytes(), ContentDigest::of(key.as_bytes())));
        let faults = |expected: &[(&[u8], ContentDigest)]| {
            [true, false].map(|forward| {
                let mut report = TourReport::default();
                let mut expected = expected.to_vec();
                if !forward {
                    expected.reverse();
                }
                let right = check_scan(cf.cursor(), forward, expected.into_iter(), "it", &mut report).unwrap();
                (right, report.mismatches)
            })
        };
        assert_eq!(faults(&all), [(3, 0); 2]);
        assert_eq!(faults(&all[1..]), [(2, 1); 2]);
        assert_eq!(faults(&all[..2]), [(2, 1); 2]);
        assert_eq!(faults(&[all[0], all[2]]), [(2, 1); 2]);
        assert_eq!(faults(&[all[0], all[1], (b"bb", all[1].1), all[2]]), [(3, 1); 2]);
        assert_eq!(faults(&[all[0], (b"b", all[0].1), all[2]]), [(2, 1); 2]);
        assert_eq!(faults(&[]), [(0, 3); 2]);
        Ok(())
    }
}
