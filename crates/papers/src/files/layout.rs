//! The ways to keep the files: the paper's two layouts, ours, and those of its readers today.

use super::tree::{Directory, Tree};
use clap::ValueEnum;
use waxseal_bench::Outcome;

/// The layouts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Name {
    /// A file store of `waxseal-files`.
    Ours,
    /// A file system: one file per file.
    Ext4,
    /// One archive, and an index of the position of every file, which is in memory while it is open.
    Tar,
    /// The paper's first layout on Waxseal: a row per file, in the order of the hashes of paths.
    FilePerRow,
    /// The paper's second layout on Waxseal: a row per directory with a column per file, in the order of the hashes of
    /// directories.
    DirectoryPerRow,
    /// LMDB with a record per file, in the order of paths.
    Lmdb,
    /// SQLite with a row per file.
    Sqlite,
}

impl Name {
    /// Returns the name in output lines.
    pub(super) fn text(self) -> &'static str {
        match self {
            Name::Ours => "ours",
            Name::Ext4 => "ext4",
            Name::Tar => "tar",
            Name::FilePerRow => "file-per-row",
            Name::DirectoryPerRow => "directory-per-row",
            Name::Lmdb => "lmdb",
            Name::Sqlite => "sqlite",
        }
    }

    /// Returns the layouts of this build.
    pub(super) fn built() -> Vec<Name> {
        let is_built = |name: &Name| cfg!(feature = "peers") || !matches!(name, Name::Lmdb | Name::Sqlite);
        Name::value_variants().iter().copied().filter(is_built).collect()
    }
}

/// The settings that all layouts share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    /// Cache of the stores. A file system, an archive and LMDB have the page cache alone.
    pub(super) cache_bytes: u64,
    /// True if a write returns when it is durable.
    pub(super) durable: bool,
}

impl Setup {
    /// Returns the settings for a tree: a cache of a quarter of its bytes, between 64 MiB and 1 GiB.
    pub(super) fn of(tree: &Tree, durable: bool) -> Setup {
        Setup { cache_bytes: (tree.bytes() / 4).clamp(64 << 20, 1 << 30), durable }
    }
}

/// A set of files in one layout.
pub(super) trait Layout: Send + Sync {
    /// Creates a directory and the directories above it.
    fn add_directory(&self, _path: &str) -> Outcome<()> {
        Ok(())
    }

    /// Adds a file. Threads may call this at once.
    fn add(&self, path: &str, content: &[u8]) -> Outcome<()>;

    /// Makes all added files durable.
    fn finish(&self) -> Outcome<()>;

    /// Waits for background work, so that it burdens no measurement.
    fn settle(&self) -> Outcome<()> {
        Ok(())
    }

    /// Returns a reader for the calling thread.
    fn reader(&self) -> Outcome<Box<dyn Reader + '_>>;

    /// Closes the layout.
    fn close(self: Box<Self>) -> Outcome<()>;
}

/// Receives path and content of a file.
pub(super) type Each<'a> = dyn FnMut(&[u8], &[u8]) + 'a;

/// One of several ranges of the files, which together are all files.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) number: u64,
    pub(super) of: u64,
    /// The directories of this part, where a layout is in the order of paths.
    pub(super) directories: &'a [Directory],
}

impl<'a> Part<'a> {
    pub(super) fn new(tree: &'a Tree, number: u64, of: u64) -> Part<'a> {
        Part { number, of, directories: tree.part(number, of) }
    }
}

/// Reads of one thread.
pub(super) trait Reader {
    /// Returns the content of a file.
    fn read(&mut self, path: &str) -> Outcome<Vec<u8>>;

    /// Reads all files of a directory. `paths` names them, for layouts that cannot list a directory.
    fn read_directory(&mut self, directory: &str, paths: &[String], each: &mut Each<'_>) -> Outcome<()>;

    /// Reads all files of a part, in the order in which the layout has them.
    fn traverse(&mut self, part: &Part<'_>, each: &mut Each<'_>) -> Outcome<()>;
}

/// Returns the error for a file that is missing.
pub(super) fn missing(path: &str) -> waxseal_bench::Fault {
    format!("{path} is missing").into()
}
