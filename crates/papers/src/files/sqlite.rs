//! SQLite with a row per file, opened as most applications do: a write-ahead log, and a lock for its one writer.

use super::layout::{Each, Layout, Part, Reader, Setup, missing};
use rusqlite::{Connection, OptionalExtension, params};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use waxseal_bench::Outcome;

struct Sqlite {
    path: PathBuf,
    cache_kib: i64,
    durable: bool,
    writer: Mutex<Connection>,
}

pub(super) fn open(dir: &Path, setup: &Setup) -> Outcome<Box<dyn Layout>> {
    let path = dir.join("files.sqlite");
    let cache_kib = i64::try_from(setup.cache_bytes / 1024)?;
    let writer = connect(&path, cache_kib)?;
    writer.pragma_update(None, "synchronous", if setup.durable { "FULL" } else { "NORMAL" })?;
    writer.execute_batch("CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, content BLOB NOT NULL)")?;
    Ok(Box::new(Sqlite { path, cache_kib, durable: setup.durable, writer: Mutex::new(writer) }))
}

fn connect(path: &Path, cache_kib: i64) -> Outcome<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "cache_size", -cache_kib)?;
    Ok(connection)
}

impl Layout for Sqlite {
    /// A write that is not durable by itself joins one transaction until `finish`.
    fn add(&self, path: &str, content: &[u8]) -> Outcome<()> {
        let writer = self.writer.lock().map_err(|_| "a writer panicked")?;
        if !self.durable && writer.is_autocommit() {
            writer.execute_batch("BEGIN")?;
        }
        writer.prepare_cached("INSERT INTO files VALUES (?1, ?2)")?.execute(params![path, content])?;
        Ok(())
    }

    fn finish(&self) -> Outcome<()> {
        let writer = self.writer.lock().map_err(|_| "a writer panicked")?;
        if !writer.is_autocommit() {
            writer.execute_batch("COMMIT")?;
        }
        // Moves the log into the database, and syncs both.
        Ok(writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }

    fn reader(&self) -> Outcome<Box<dyn Reader + '_>> {
        Ok(Box::new(SqliteReader { connection: connect(&self.path, self.cache_kib)? }))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        let writer = self.writer.into_inner().map_err(|_| "a writer panicked")?;
        Ok(writer.close().map_err(|(_, error)| error)?)
    }
}

struct SqliteReader {
    connection: Connection,
}

impl SqliteReader {
    /// Reads the files from `start` on, and below `end`.
    fn range(&mut self, start: &str, end: &str, each: &mut Each<'_>) -> Outcome<()> {
        let mut select = self
            .connection
            .prepare_cached("SELECT path, content FROM files WHERE path >= ?1 AND path < ?2 ORDER BY path")?;
        let mut rows = select.query(params![start, end])?;
        while let Some(row) = rows.next()? {
            each(row.get_ref(0)?.as_str()?.as_bytes(), row.get_ref(1)?.as_blob()?);
        }
        Ok(())
    }
}

impl Reader for SqliteReader {
    fn read(&mut self, path: &str) -> Outcome<Vec<u8>> {
        let mut select = self.connection.prepare_cached("SELECT content FROM files WHERE path = ?1")?;
        select.query_row([path], |row| row.get(0)).optional()?.ok_or_else(|| missing(path))
    }

    fn read_directory(&mut self, directory: &str, _: &[String], each: &mut Each<'_>) -> Outcome<()> {
        // `0` is the character behind `/`.
        self.range(&format!("{directory}/"), &format!("{directory}0"), each)
    }

    fn traverse(&mut self, part: &Part<'_>, each: &mut Each<'_>) -> Outcome<()> {
        match (part.directories.first(), part.directories.last()) {
            (Some(first), Some(last)) => self.range(&first.path, &format!("{}0", last.path), each),
            _ => Ok(()),
        }
    }
}
