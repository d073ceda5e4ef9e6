//! `verify` reads every byte of a tree; `fsck` compares what entries, chunks and reclaim records say of each other.

use std::fmt;

use crate::content::visit_stored;
use crate::digest::Digest;
use crate::entry::{Body, Chunks, Content, Entry, chunk_count};
use crate::error::{Error, Result};
use crate::path::{FilePath, parent_of, path_of};
use crate::records::{ContentId, all_chunks, all_reclaims, content_key, parse_chunk_key, parse_reclaim};
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
    /// record, every chunk belongs to a content and every content has its chunks. Reads no content. Costs a scan of both
    /// families and 8 bytes of memory for each file with chunks. Errors: those of the scans.
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
                // The walk ends at a damaged record: what is behind it was not read.
                Err(error) if error.is_corruption() => {
                    report(&mut result.problems, &mut result.faults, path.display(), error);
                    return Ok(result);
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
        let mut contents = self.check_entries(&mut result)?;
        result.contents = contents.len() as u64;
        contents.sort_unstable();
        for twice in contents.windows(2).filter(|pair| pair[0] == pair[1]) {
            result.add(content_key(twice[0]), format!("content {} has two entries", twice[0]));
        }
        let recorded = self.check_reclaims(&contents, &mut result)?;
        contents.extend(recorded);
        contents.sort_unstable();
        self.check_chunks(&contents, &mut result)?;
        Ok(result)
    }

    /// Checks entries, and that each content has its chunks. Returns the contents.
    fn check_entries(&self, result: &mut FsckReport) -> Result<Vec<ContentId>> {
        let mut contents = Vec::new();
        // The directories above the current key.
        let mut above: Vec<FilePath> = Vec::new();
        let mut walk = Walk::new(self.view().entries(FilePath::ROOT.subtree()));
        while let Some((key, entry)) = walk.visit(|key, value| (key.to_vec(), Entry::decode(value)))? {
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
                    if let Body::File(Content::Chunks(chunks)) = &entry.body {
                        contents.push(chunks.id);
                        self.check_presence(&path_of(&key), chunks, entry.metadata.size, result)?;
                    }
                }
                Err(error) => result.add(path_of(&key), error),
            }
        }
        if !self.view().visit_entry(&FilePath::ROOT, Entry::decode_metadata)?.is_some_and(|root| root.is_directory()) {
            result.add(Vec::new(), "the root is missing");
        }
        Ok(contents)
    }

    /// Checks that a content has exactly the chunks that its entry names.
    fn check_presence(&self, path: &[u8], chunks: &Chunks, size: u64, result: &mut FsckReport) -> Result<()> {
        let key = content_key(chunks.id);
        let end = crate::records::chunk_key(chunks.id, u32::MAX);
        let mut cursor = self.chunks(key..end);
        cursor.first()?;
        for (start, end) in chunks.holes.stored_runs(chunk_count(size, chunks.chunk_bytes)?) {
            for number in start..end {
                let found = if cursor.valid() { Some(parse_chunk_key(cursor.key())?.1) } else { None };
                match found {
                    Some(found) if found == number => cursor.next()?,
                    Some(found) if found < number => {
                        result.add(path.to_vec(), format!("chunk {found} is stored and not named"));
                        cursor.seek(crate::records::chunk_key(chunks.id, number + 1))?;
                    }
                    _ => result.add(path.to_vec(), format!("chunk {number} is missing")),
                }
            }
        }
        if cursor.valid() {
            let number = parse_chunk_key(cursor.key())?.1;
            result.add(path.to_vec(), format!("chunk {number} is stored and not named"));
        }
        Ok(())
    }

    /// Checks reclaim records against the sorted contents of entries. Returns their contents.
    fn check_reclaims(&self, contents: &[ContentId], result: &mut FsckReport) -> Result<Vec<ContentId>> {
        let mut recorded = Vec::new();
        let mut cursor = self.chunks(all_reclaims());
        cursor.first()?;
        while cursor.valid() {
            match parse_reclaim(cursor.key(), cursor.value()) {
                Ok((content, _)) => {
                    recorded.push(content);
                    if contents.binary_search(&content).is_ok() {
                        result
                            .add(cursor.key().to_vec(), format!("content {content} has an entry and a reclaim record"));
                    }
                }
                Err(error) => result.add(cursor.key().to_vec(), error),
            }
            cursor.next()?;
        }
        result.reclaims = recorded.len() as u64;
        Ok(recorded)
    }

    /// Checks that every chunk belongs to one of the sorted contents.
    fn check_chunks(&self, contents: &[ContentId], result: &mut FsckReport) -> Result<()> {
        for key in self.chunk_keys() {
            let key = key?;
            result.chunks += 1;
            match parse_chunk_key(&key) {
                Ok((content, _)) if contents.binary_search(&content).is_ok() => {}
                Ok((content, number)) => {
                    result.add(key.to_vec(), format!("chunk {number} of content {content} belongs to no file"));
                }
                Err(error) => result.add(key.to_vec(), error),
            }
        }
        Ok(())
    }

    fn chunk_keys(&self) -> waxseal::Keys {
        self.chunk_range(all_chunks()).keys()
    }
}
