//! `verify` reads every byte of a tree; `fsck` compares what entries, chunks and reclaim records say of each other.

use std::fmt;

use crate::content::visit_stored;
use crate::digest::Digest;
use crate::entry::{Body, Chunks, Content, Entry, ROOT_INODE, chunk_count};
use crate::error::{Error, Result};
use crate::path::{FilePath, parent_of, path_of};
use crate::records::{ContentId, NEXT_ID_KEY, all_chunks, all_reclaims, content_key, parse_chunk_key, parse_reclaim};
use crate::snapshot::Snapshot;
use crate::store::Files;
use crate::walk::Walk;

/// Most problems that a report lists; more are counted.
const MAX_LISTED: usize = 1000;

/// A fault of a file store.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Problem {
    /// The path, or the key of a record that belongs to none.
    pub path: Vec<u8>,
    /// The fault.
    pub fault: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\": {}", self.path.escape_ascii(), self.fault)
    }
}

/// The result of `verify`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Entries read.
    pub entries: u64,
    /// Bytes of file content read, zeros in holes included.
    pub bytes: u64,
    /// Faults, of which at most 1,000 are listed.
    pub faults: u64,
    /// The first faults.
    pub problems: Vec<Problem>,
}

/// The result of `fsck`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct FsckReport {
    /// Entries.
    pub entries: u64,
    /// Contents that entries name.
    pub contents: u64,
    /// Contents that wait to be deleted.
    pub reclaims: u64,
    /// Chunks.
    pub chunks: u64,
    /// Faults, of which at most 1,000 are listed.
    pub faults: u64,
    /// The first faults.
    pub problems: Vec<Problem>,
}

/// Adds a fault to a report.
fn report(problems: &mut Vec<Problem>, faults: &mut u64, path: Vec<u8>, fault: impl fmt::Display) {
    *faults += 1;
    if problems.len() < MAX_LISTED {
        problems.push(Problem { path, fault: fault.to_string() });
    }
}

impl VerifyReport {
    /// Returns true if no fault was found.
    pub fn is_clean(&self) -> bool {
        self.faults == 0
    }
}

impl FsckReport {
    /// Returns true if no fault was found.
    pub fn is_clean(&self) -> bool {
        self.faults == 0
    }

    fn add(&mut self, path: Vec<u8>, fault: impl fmt::Display) {
        report(&mut self.problems, &mut self.faults, path, fault);
    }
}

impl Files {
    /// Reads every byte of a tree and compares each file with its digest. Errors: as for `stat` of the path; damage
    /// below it is part of the report.
    pub fn verify(&self, path: impl AsRef<[u8]>) -> Result<VerifyReport> {
        self.snapshot().verify(path)
    }

    /// Checks that the records agree: every entry decodes and is in a directory, every content has one entry or reclaim
    /// record, every chunk belongs to a content and every content has its chunks, no number is used twice, and the counter
    /// is above all of them. Costs a scan of both families, 8 bytes of memory for each entry and 8 for each file with
    /// chunks. Errors: those of the scans, apart from damage, which is part of the report.
    pub fn fsck(&self) -> Result<FsckReport> {
        self.snapshot().fsck()
    }
}

impl Snapshot {
    /// [`Files::verify`] at the time of the snapshot.
    pub fn verify(&self, path: impl AsRef<[u8]>) -> Result<VerifyReport> {
        let path = FilePath::parse(path.as_ref())?;
        self.view().metadata(&path)?;
        let mut result = VerifyReport::default();
        let mut walk = Walk::new(self.view().entries(path.subtree()));
        loop {
            match walk.visit(|key, value| (path_of(key), Entry::decode(value))) {
                Ok(Some((path, entry))) => {
                    result.entries += 1;
                    if let Err(error) = entry.and_then(|entry| self.verify_entry(&entry, &mut result.bytes)) {
                        report(&mut result.problems, &mut result.faults, path, error);
                    }
                }
                Ok(None) => return Ok(result),
                Err(error) if error.is_corruption() => {
                    report(&mut result.problems, &mut result.faults, path.display(), error);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn verify_entry(&self, entry: &Entry, bytes: &mut u64) -> Result<()> {
        let Body::File(content) = &entry.body else { return Ok(()) };
        let digest = match content {
            Content::Inline(inline) => Digest::of_chunk(0, inline),
            Content::Chunks(chunks) => self.digest_of(chunks, entry.metadata.size)?,
        };
        *bytes += entry.metadata.size;
        match digest == entry.metadata.digest {
            true => Ok(()),
            false => Err(Error::corruption(format!(
                "the content has the digest {digest}, the entry {}",
                entry.metadata.digest
            ))),
        }
    }

    fn digest_of(&self, chunks: &Chunks, size: u64) -> Result<Digest> {
        let mut digest = Digest::default();
        let content = (chunks.id, chunks.chunk_bytes);
        for (start, end) in chunks.holes.stored_runs(chunk_count(size, chunks.chunk_bytes)?) {
            for number in start..end {
                digest += visit_stored(self.view(), content, number, |bytes| Digest::of_chunk(number, bytes))?;
            }
        }
        Ok(digest)
    }

    /// [`Files::fsck`] at the time of the snapshot.
    pub fn fsck(&self) -> Result<FsckReport> {
        let mut result = FsckReport::default();
        let EntryNumbers { mut contents, inodes } = self.check_entries(&mut result)?;
        result.contents = contents.len() as u64;
        let twice = sort_and_find_twice(&mut contents);
        twice.for_each(|id| result.add(content_key(id), format!("content {id} has two entries")));
        self.check_inodes(inodes, &mut result)?;
        let recorded = self.check_reclaims(&contents, &mut result)?;
        contents.extend(recorded);
        contents.sort_unstable();
        let last = self.check_chunks(&contents, &mut result)?;
        self.check_counter(contents.last().copied().max(last), &mut result)?;
        Ok(result)
    }

    /// Checks that each inode number has one entry, and that the counter exceeds every inode number.
    fn check_inodes(&self, mut inodes: Vec<u64>, result: &mut FsckReport) -> Result<()> {
        let twice = sort_and_find_twice(&mut inodes);
        twice.for_each(|inode| result.add(Vec::new(), format!("inode {inode} has two entries")));
        self.check_counter(inodes.last().copied(), result)
    }

    /// Checks that the counter is above a number that is in use: the next file would get it a second time.
    fn check_counter(&self, used: Option<u64>, result: &mut FsckReport) -> Result<()> {
        let next = self.view().visit_chunk(NEXT_ID_KEY, |value| value.try_into().map(u64::from_le_bytes));
        match or_add(next, result, NEXT_ID_KEY)?.flatten() {
            Some(Err(_)) => result.add(NEXT_ID_KEY.to_vec(), "the counter of numbers has not 8 bytes"),
            Some(Ok(next)) if used.is_some_and(|used| used > ROOT_INODE && used >= next) => {
                result.add(
                    NEXT_ID_KEY.to_vec(),
                    format!("the counter of numbers is {next}, and a greater one is in use"),
                );
            }
            None if used.is_some_and(|used| used > ROOT_INODE) => {
                result.add(NEXT_ID_KEY.to_vec(), "the counter of numbers is missing");
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks entries, and that each content has its chunks. Returns their numbers.
    fn check_entries(&self, result: &mut FsckReport) -> Result<EntryNumbers> {
        let mut numbers = EntryNumbers::default();
        // The directories above the current key.
        let mut above: Vec<FilePath> = Vec::new();
        let mut walk = Walk::new(self.view().entries(FilePath::ROOT.subtree()));
        loop {
            let visited = walk.visit(|key, value| (key.to_vec(), Entry::decode(value)));
            let Some(visited) = or_add(visited, result, b"")? else { continue };
            let Some((key, entry)) = visited else { break };
            result.entries += 1;
            if !FilePath::is_key(&key) {
                result.add(key.clone(), "the key is no path");
            }
            let parent = parent_of(&key);
            let path = FilePath::of_key(&key);
            while above.last().is_some_and(|directory| !path.is_below(directory)) {
                above.pop();
            }
            if above.last().map(FilePath::key) != parent {
                result.add(path_of(&key), "no directory holds it");
            }
            match entry {
                Ok(entry) => {
                    if entry.metadata.is_directory() {
                        above.push(path);
                    }
                    numbers.inodes.push(entry.metadata.inode);
                    if let Body::File(Content::Chunks(chunks)) = &entry.body {
                        numbers.contents.push(chunks.id);
                        self.check_presence(&path_of(&key), chunks, entry.metadata.size, result)?;
                    }
                }
                Err(error) => result.add(path_of(&key), error),
            }
        }
        let root = self.view().visit_entry(&FilePath::ROOT, Entry::decode_metadata);
        if or_add(root, result, b"")?.is_some_and(|root| !root.is_some_and(|root| root.is_directory())) {
            result.add(Vec::new(), "the root is missing");
        }
        Ok(numbers)
    }

    /// Checks that a content has exactly the chunks that its entry names.
    fn check_presence(&self, path: &[u8], chunks: &Chunks, size: u64, result: &mut FsckReport) -> Result<()> {
        let key = content_key(chunks.id);
        let end = crate::records::chunk_key(chunks.id, u32::MAX);
        let mut named =
            chunks.holes.stored_runs(chunk_count(size, chunks.chunk_bytes)?).flat_map(|(a, b)| a..b).peekable();
        // Damage is this file's only if one of its chunks is not found: a lost range has other keys, too.
        let mut damage = None;
        for stored in self.chunk_range(key..end).keys() {
            let number = match stored {
                Err(error) if error.is_corruption() => {
                    damage.get_or_insert(error);
                    continue;
                }
                stored => parse_chunk_key(&stored?)?.1,
            };
            let missing = std::iter::from_fn(|| named.next_if(|named| *named < number));
            report_missing(missing, damage.take(), path, result);
            if named.next_if_eq(&number).is_none() {
                result.add(path.to_vec(), format!("chunk {number} is stored and not named"));
            }
        }
        report_missing(named, damage, path, result);
        Ok(())
    }

    /// Checks reclaim records against the sorted contents of entries. Returns their contents.
    fn check_reclaims(&self, contents: &[ContentId], result: &mut FsckReport) -> Result<Vec<ContentId>> {
        let mut recorded = Vec::new();
        for record in self.chunk_range(all_reclaims()) {
            let Some((key, value)) = or_add(record.map_err(Error::from), result, b"r")? else { continue };
            match parse_reclaim(&key, &value) {
                Ok((content, _)) => {
                    recorded.push(content);
                    if contents.binary_search(&content).is_ok() {
                        result.add(key.to_vec(), format!("content {content} has an entry and a reclaim record"));
                    }
                }
                Err(error) => result.add(key.to_vec(), error),
            }
        }
        result.reclaims = recorded.len() as u64;
        Ok(recorded)
    }

    /// Checks that every chunk belongs to one of the sorted contents. Returns the last content that has chunks.
    fn check_chunks(&self, contents: &[ContentId], result: &mut FsckReport) -> Result<Option<ContentId>> {
        let mut last = None;
        for key in self.chunk_range(all_chunks()).keys() {
            // Damage of a chunk that a file names was reported with the file.
            let key = match key {
                Err(error) if error.is_corruption() && result.faults > 0 => continue,
                Err(error) if error.is_corruption() => {
                    result.add(b"c".to_vec(), error);
                    continue;
                }
                key => key?,
            };
            result.chunks += 1;
            let parsed = parse_chunk_key(&key);
            last = last.max(parsed.as_ref().ok().map(|(content, _)| *content));
            match parsed {
                Ok((content, _)) if contents.binary_search(&content).is_ok() => {}
                Ok((content, number)) => {
                    result.add(key.to_vec(), format!("chunk {number} of content {content} belongs to no file"));
                }
                Err(error) => result.add(key.to_vec(), error),
            }
        }
        Ok(last)
    }
}

/// Reports chunks that were not found, or once the damage that they may be in.
fn report_missing(
    mut missing: impl Iterator<Item = u32>,
    damage: Option<waxseal::Error>,
    path: &[u8],
    result: &mut FsckReport,
) {
    match damage {
        None => missing.for_each(|number| result.add(path.to_vec(), format!("chunk {number} is missing"))),
        Some(damage) => {
            if missing.next().is_some() {
                missing.for_each(drop);
                result.add(path.to_vec(), damage);
            }
        }
    }
}

/// The numbers that entries name.
#[derive(Default)]
struct EntryNumbers {
    contents: Vec<ContentId>,
    inodes: Vec<u64>,
}

/// Sorts numbers, and returns those that come more than once.
fn sort_and_find_twice(numbers: &mut [u64]) -> impl Iterator<Item = u64> {
    numbers.sort_unstable();
    numbers.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// Adds damage to a report, at a path or key. Returns what was read; `None` if it is damaged.
fn or_add<T>(read: Result<T>, result: &mut FsckReport, at: &[u8]) -> Result<Option<T>> {
    match read {
        Err(error) if error.is_corruption() => {
            result.add(at.to_vec(), error);
            Ok(None)
        }
        read => read.map(Some),
    }
}
