//! Layouts with one record per file: the paper's two on Waxseal, and LMDB.
//!
//! Cassandra orders rows by the hash of their key, and the columns of a row by name. A row per file is therefore a
//! record under (hash of the path, path). A row per directory is a range of records under (hash of the directory, path):
//! its files are the columns of the row, and a read of one column does not read the others, as in Cassandra.

use super::layout::{Each, Layout, Name, Part, Reader, Setup, missing};
use std::path::Path;
use waxseal_bench::Outcome;
use waxseal_bench::engine::{self, Engine, Rows, Settings, Start, View};
use waxseal_bench::workload::fmix64;

/// Memtable of the stores, their default.
const MEMTABLE_BYTES: u64 = 64 << 20;

/// Hexadecimal digits of a hash in a key.
const TOKEN_DIGITS: usize = 16;

/// The part of a path that decides where its record is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// The hash of the whole path.
    FileHash,
    /// The hash of the directory.
    DirectoryHash,
    /// The path itself.
    Path,
}

struct Keyed {
    engine: Box<dyn Engine>,
    order: Order,
    durable: bool,
}

pub(super) fn open(name: Name, dir: &Path, setup: &Setup) -> Outcome<Box<dyn Layout>> {
    let (engine, order) = match name {
        Name::DirectoryPerRow => (engine::Name::Waxseal, Order::DirectoryHash),
        Name::Lmdb => (engine::Name::Lmdb, Order::Path),
        _ => (engine::Name::Waxseal, Order::FileHash),
    };
    let settings = Settings { synced: setup.durable, ..Settings::new(setup.cache_bytes, MEMTABLE_BYTES) };
    Ok(Box::new(Keyed { engine: engine::open(engine, dir, &settings)?, order, durable: setup.durable }))
}

impl Order {
    fn key(self, path: &str) -> Vec<u8> {
        let hashed = match self {
            Order::FileHash => path,
            Order::DirectoryHash => path.rsplit_once('/').map_or("", |(directory, _)| directory),
            Order::Path => return path.into(),
        };
        format!("{:0TOKEN_DIGITS$x}{path}", token(hashed)).into_bytes()
    }

    fn path(self, key: &[u8]) -> &[u8] {
        if self == Order::Path { key } else { key.get(TOKEN_DIGITS..).unwrap_or_default() }
    }

    /// Returns the first key of a directory and the first one behind it.
    fn directory(self, path: &str) -> (Vec<u8>, Vec<u8>) {
        let start = self.key(&format!("{path}/"));
        let mut end = start.clone();
        end.pop();
        end.push(b'/' + 1);
        (start, end)
    }

    /// Returns the first key of a part and the first one behind it; empty if there is none.
    fn part(self, part: &Part<'_>) -> (Vec<u8>, Vec<u8>) {
        if self == Order::Path {
            let start = part.directories.first().map(|directory| self.directory(&directory.path).0);
            let end = part.directories.last().map(|directory| self.directory(&directory.path).1);
            return (start.unwrap_or_default(), end.unwrap_or_default());
        }
        let bound = |number: u64| match number {
            number if number == 0 || number == part.of => Vec::new(),
            number => format!("{:0TOKEN_DIGITS$x}", u64::MAX / part.of * number).into_bytes(),
        };
        (bound(part.number), bound(part.number + 1))
    }
}

/// Returns the hash of a name (FNV-1a, mixed).
fn token(name: &str) -> u64 {
    fmix64(
        name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)),
    )
}

impl Layout for Keyed {
    fn add(&self, path: &str, content: &[u8]) -> Outcome<()> {
        self.engine.put(&self.order.key(path), content, self.durable)
    }

    fn finish(&self) -> Outcome<()> {
        self.engine.sync()
    }

    fn settle(&self) -> Outcome<()> {
        self.engine.settle().map(drop)
    }

    fn reader(&self) -> Outcome<Box<dyn Reader + '_>> {
        Ok(Box::new(KeyedReader { reader: self.engine.reader(View::Latest)?, order: self.order }))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.engine.close()
    }
}

struct KeyedReader<'a> {
    reader: Box<dyn engine::Reader + 'a>,
    order: Order,
}

impl KeyedReader<'_> {
    fn scan(&mut self, (start, end): (Vec<u8>, Vec<u8>), each: &mut Each<'_>) -> Outcome<()> {
        let order = self.order;
        let mut strip = |key: &[u8], content: &[u8]| each(order.path(key), content);
        self.reader.scan(Start::Seek(&start), &mut Rows::below(end, &mut strip))
    }
}

impl Reader for KeyedReader<'_> {
    fn read(&mut self, path: &str) -> Outcome<Vec<u8>> {
        self.reader.fetch(&self.order.key(path))?.ok_or_else(|| missing(path))
    }

    fn read_directory(&mut self, directory: &str, paths: &[String], each: &mut Each<'_>) -> Outcome<()> {
        if self.order != Order::FileHash {
            return self.scan(self.order.directory(directory), each);
        }
        // The files of a directory are apart, and only a list beside the store knows their names.
        paths.iter().try_for_each(|path| {
            each(path.as_bytes(), &self.read(path)?);
            Ok(())
        })
    }

    fn traverse(&mut self, part: &Part<'_>, each: &mut Each<'_>) -> Outcome<()> {
        if self.order == Order::Path && part.directories.is_empty() {
            return Ok(());
        }
        self.scan(self.order.part(part), each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_a_range_of_its_row() {
        for order in [Order::DirectoryHash, Order::Path] {
            let (start, end) = order.directory("site/a");
            let is_inside = |path: &str| (start.clone()..end.clone()).contains(&order.key(path));
            assert!(is_inside("site/a/1.jpg") && is_inside("site/a/~"));
            assert!(!is_inside("site/ab/1.jpg") && !is_inside("site/b/1.jpg"));
            assert_eq!(order.path(&order.key("site/a/1.jpg")), b"site/a/1.jpg");
        }
        assert_ne!(Order::FileHash.key("a/1")[..TOKEN_DIGITS], Order::FileHash.key("a/2")[..TOKEN_DIGITS]);
        assert_eq!(Order::DirectoryHash.key("a/1")[..TOKEN_DIGITS], Order::DirectoryHash.key("a/2")[..TOKEN_DIGITS]);
    }
}
