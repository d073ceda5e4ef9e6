//! The layout of the CassandraFS paper, to the letter: two column families, `File` and `Folder`.
//!
//! A row of `File` has the columns Content, Length, Last Modified, Owner, Group and Attribute Type. Its key is the path
//! of the file; the further chunks of a large file are rows `path_$1`, `path_$2` and so on, with the same metadata. A
//! row of `Folder` has the metadata of everything in a directory once more. The paper's outlook, several chunks in one
//! row (`Content`, `Content_$1`, ..), is `chunks_per_row`. A column is a record, and a change of one row is a batch.

use super::face::{Client, Face};
use std::io::{Read, Write};
use std::path::Path;
use waxseal::{ColumnFamily, Db, Slice};
use waxseal_bench::Outcome;

/// Length of a chunk in the paper.
pub(super) const CHUNK_BYTES: u64 = 5_000_000;

/// Chunks in a row in the paper's outlook.
pub(super) const CHUNKS_PER_ROW: u64 = 100;

/// Columns of a row beside its contents.
const LENGTH: &str = "Length";
const LAST_MODIFIED: &str = "Last Modified";
const OWNER: &str = "Owner";
const GROUP: &str = "Group";
const TYPE: &str = "Attribute Type";
const METADATA: [&str; 5] = [LENGTH, LAST_MODIFIED, OWNER, GROUP, TYPE];

/// The face of the layout.
pub(super) struct Literal {
    db: Db,
    files: ColumnFamily,
    folders: ColumnFamily,
    chunk_bytes: u64,
    chunks_per_row: u64,
}

impl Literal {
    /// Opens the layout in a directory, or creates it there.
    pub(super) fn open(dir: &Path, chunk_bytes: u64, chunks_per_row: u64) -> Outcome<Literal> {
        let db = Db::builder(dir).create_if_missing(true).open()?;
        let (files, folders) = (db.column_family("File")?, db.column_family("Folder")?);
        Ok(Literal { db, files, folders, chunk_bytes, chunks_per_row })
    }

    /// Waits for background work.
    pub(super) fn settle(&self) -> Outcome<()> {
        Ok(self.db.settle()?)
    }

    pub(super) fn close(self) -> Outcome<()> {
        Ok(self.db.close()?)
    }

    /// Returns row and column of a chunk.
    fn place(&self, path: &str, chunk: u64) -> (String, String) {
        let (row, column) = (chunk / self.chunks_per_row, chunk % self.chunks_per_row);
        let row = if row == 0 { path.to_owned() } else { format!("{path}_${row}") };
        let column = if column == 0 { "Content".to_owned() } else { format!("Content_${column}") };
        (row, column)
    }

    /// Returns the number of chunks of a file; an empty file has one.
    fn chunks(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.chunk_bytes).max(1)
    }

    /// Reads from a position of a file, as much as `out` holds.
    pub(super) fn read_at(&self, path: &str, offset: u64, out: &mut [u8]) -> Outcome<()> {
        let (mut chunk, mut start) = (offset / self.chunk_bytes, (offset % self.chunk_bytes) as usize);
        let mut rest = out;
        while !rest.is_empty() {
            let content = self.content(path, chunk)?;
            let piece = content.get(start..).filter(|piece| !piece.is_empty()).ok_or("a read behind the end")?;
            let bytes = piece.len().min(rest.len());
            rest[..bytes].copy_from_slice(&piece[..bytes]);
            rest = &mut rest[bytes..];
            (chunk, start) = (chunk + 1, 0);
        }
        Ok(())
    }

    /// Returns the content of a chunk.
    fn content(&self, path: &str, chunk: u64) -> Outcome<Slice> {
        let (row, column) = self.place(path, chunk);
        self.files.get(cell(&row, &column))?.ok_or_else(|| format!("{row} is missing").into())
    }

    /// Writes the metadata of a file to each of its rows and to its folder, as after a change of its time. Returns the
    /// number of commits.
    pub(super) fn touch(&self, path: &str, time: u64) -> Outcome<u64> {
        let bytes = self.length(path)?;
        let rows = self.chunks(bytes).div_ceil(self.chunks_per_row);
        let mut commits = 0;
        for row in 0..rows {
            let (row, _) = self.place(path, row * self.chunks_per_row);
            let mut batch = self.db.batch();
            batch.put(&self.files, cell(&row, LAST_MODIFIED), time.to_string());
            batch.commit(waxseal::Durability::Os)?;
            commits += 1;
        }
        self.folders.put(entry(path, LAST_MODIFIED), time.to_string())?;
        Ok(commits + 1)
    }

    fn length(&self, path: &str) -> Outcome<u64> {
        let text = self.files.get(cell(path, LENGTH))?.ok_or_else(|| format!("{path} is missing"))?;
        Ok(std::str::from_utf8(&text)?.parse()?)
    }

    /// Writes the entry of a folder.
    fn enter(&self, path: &str, bytes: u64, kind: &str) -> Outcome<()> {
        let mut batch = self.db.batch();
        for (column, value) in metadata(bytes, kind) {
            batch.put(&self.folders, entry(path, column), value);
        }
        batch.commit(waxseal::Durability::Os)?;
        Ok(())
    }

    fn forget(&self, path: &str) -> Outcome<()> {
        let mut batch = self.db.batch();
        for column in METADATA {
            batch.delete(&self.folders, entry(path, column));
        }
        batch.commit(waxseal::Durability::Os)?;
        Ok(())
    }
}

/// Returns the metadata columns of a row.
fn metadata(bytes: u64, kind: &str) -> [(&'static str, String); 5] {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
    [
        (LENGTH, bytes.to_string()),
        (LAST_MODIFIED, time.to_string()),
        (OWNER, "owner".to_owned()),
        (GROUP, "group".to_owned()),
        (TYPE, kind.to_owned()),
    ]
}

/// Returns the key of a column in a row.
fn cell(row: &str, column: &str) -> Vec<u8> {
    format!("{row}\0{column}").into_bytes()
}

/// Returns the key of a column of an entry in the row of its folder.
fn entry(path: &str, column: &str) -> Vec<u8> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    format!("{folder}\0{name}\0{column}").into_bytes()
}

impl Face for Literal {
    fn client(&self) -> Outcome<Box<dyn Client + '_>> {
        Ok(Box::new(self))
    }
}

impl Client for &Literal {
    fn make_directory(&mut self, path: &str) -> Outcome<()> {
        self.enter(path, 0, "Folder")
    }

    fn write(&mut self, path: &str, bytes: u64, source: &mut dyn Read) -> Outcome<()> {
        let mut content = Vec::new();
        for chunk in 0..self.chunks(bytes) {
            content.clear();
            let wanted = (bytes - chunk * self.chunk_bytes).min(self.chunk_bytes);
            if (&mut *source).take(wanted).read_to_end(&mut content)? as u64 != wanted {
                return Err(format!("{path}: the source has less than {bytes} bytes").into());
            }
            let (row, column) = self.place(path, chunk);
            let mut batch = self.db.batch();
            batch.put(&self.files, cell(&row, &column), &content);
            for (column, value) in metadata(bytes, "File") {
                batch.put(&self.files, cell(&row, column), value);
            }
            batch.commit(waxseal::Durability::Os)?;
        }
        self.enter(path, bytes, "File")
    }

    fn read(&mut self, path: &str, sink: &mut dyn Write) -> Outcome<()> {
        for chunk in 0..self.chunks(self.length(path)?) {
            sink.write_all(&self.content(path, chunk)?)?;
        }
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Outcome<()> {
        for chunk in 0..self.chunks(self.length(path)?) {
            let (row, column) = self.place(path, chunk);
            let mut batch = self.db.batch();
            batch.delete(&self.files, cell(&row, &column));
            for column in METADATA {
                batch.delete(&self.files, cell(&row, column));
            }
            batch.commit(waxseal::Durability::Os)?;
        }
        self.forget(path)
    }

    fn remove_tree(&mut self, path: &str) -> Outcome<()> {
        let mut below = Vec::new();
        for row in self.folders.prefix(cell(path, "")) {
            let (key, value) = row?;
            let text = std::str::from_utf8(&key)?;
            let mut parts = text.split('\0').skip(1);
            if let (Some(name), Some(TYPE)) = (parts.next(), parts.next()) {
                below.push((format!("{path}/{name}"), &*value == b"Folder"));
            }
        }
        for (path, is_folder) in below {
            if is_folder { self.remove_tree(&path)? } else { self.remove(&path)? }
        }
        self.forget(path)
    }
}
