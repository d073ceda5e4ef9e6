//! The layouts under comparison, filled with one tree, and the checks of what they return.

use super::layout::{Layout, Name, Part, Setup};
#[cfg(feature = "peers")]
use super::sqlite;
use super::tree::Tree;
use super::{Run, archive, ext4, keyed, ours};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use waxseal_bench::Outcome;

/// A layout of a run.
pub(super) struct Side {
    pub(super) name: Name,
    dir: PathBuf,
    setup: Setup,
}

impl Side {
    /// Creates every layout of the run and fills it.
    pub(super) fn all(run: &Run, tree: &Tree) -> Outcome<Vec<Side>> {
        run.layouts
            .iter()
            .map(|name| {
                let side = Side::new(run, tree, *name, false)?;
                let layout = side.open()?;
                fill(tree, layout.as_ref(), 1)?;
                layout.settle()?;
                layout.close()?;
                Ok(side)
            })
            .collect()
    }

    /// Returns a side in an empty directory.
    pub(super) fn new(run: &Run, tree: &Tree, name: Name, durable: bool) -> Outcome<Side> {
        Ok(Side { name, dir: run.fresh(name.text())?, setup: Setup::of(tree, durable) })
    }

    /// Returns a side that another process has filled.
    pub(super) fn at(name: Name, dir: PathBuf, setup: Setup) -> Side {
        Side { name, dir, setup }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Opens the layout, or creates it.
    pub(super) fn open(&self) -> Outcome<Box<dyn Layout>> {
        let (dir, setup) = (&self.dir, &self.setup);
        match self.name {
            Name::Ours => ours::open(dir, setup),
            Name::Ext4 => ext4::open(dir, setup),
            Name::Tar => archive::open(dir, setup),
            Name::FilePerRow | Name::DirectoryPerRow | Name::Lmdb => keyed::open(self.name, dir, setup),
            #[cfg(feature = "peers")]
            Name::Sqlite => sqlite::open(dir, setup),
            #[cfg(not(feature = "peers"))]
            Name::Sqlite => Err("this build has no SQLite: the feature `peers` adds it".into()),
        }
    }

    /// Returns the disk space of the layout.
    pub(super) fn disk_bytes(&self) -> u64 {
        waxseal_bench::measure::disk_bytes(&self.dir)
    }

    /// Deletes the layout.
    pub(super) fn remove(self) -> Outcome<()> {
        Ok(std::fs::remove_dir_all(&self.dir)?)
    }
}

/// Writes all directories and files of a tree and makes them durable.
pub(super) fn fill(tree: &Tree, layout: &dyn Layout, writers: u64) -> Outcome<()> {
    tree.directories().iter().try_for_each(|directory| layout.add_directory(&directory.path))?;
    let next = AtomicU32::new(0);
    in_parallel(writers, |_| {
        loop {
            let file = next.fetch_add(1, Ordering::Relaxed);
            if file >= tree.len() {
                return Ok(());
            }
            layout.add(&tree.path(file), tree.content(file))?;
        }
    })?;
    layout.finish()
}

/// Runs `work` with each thread's number and returns the results.
pub(super) fn in_parallel<T: Send>(threads: u64, work: impl Fn(u64) -> Outcome<T> + Sync) -> Outcome<Vec<T>> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|number| scope.spawn(move || work(number))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread panicked")?).collect()
    })
}

/// Returns the number of files that a layout does not return by name.
pub(super) fn wrong_by_name(tree: &Tree, layout: &dyn Layout) -> Outcome<u64> {
    let mut reader = layout.reader()?;
    let mut wrong = 0;
    for file in 0..tree.len() {
        wrong += u64::from(reader.read(&tree.path(file))? != tree.content(file));
    }
    Ok(wrong)
}

/// Returns the number of files that a layout does not return exactly once by directory, and in a traversal of one and
/// of three parts.
pub(super) fn wrong_by_range(tree: &Tree, layout: &dyn Layout) -> Outcome<u64> {
    let mut reader = layout.reader()?;
    let mut wrong = 0;
    for directory in tree.directories() {
        let mut right = 0;
        let mut each = |path: &[u8], content: &[u8]| right += u64::from(tree.has(path, content));
        reader.read_directory(&directory.path, &tree.paths(directory), &mut each)?;
        wrong += right.abs_diff(directory.files.len() as u64);
    }
    for of in [1, 3] {
        let mut seen = vec![0u32; tree.len() as usize];
        let mut strange = 0;
        for number in 0..of {
            let mut each = |path: &[u8], content: &[u8]| match tree.file(path) {
                Some(file) if tree.content(file) == content => seen[file as usize] += 1,
                _ => strange += 1,
            };
            reader.traverse(&Part::new(tree, number, of), &mut each)?;
        }
        wrong += strange + seen.iter().filter(|times| **times != 1).count() as u64;
    }
    Ok(wrong)
}
