//! The set of files: sizes, directories and contents of the paper's production system, derived from a seed.
//!
//! The paper gives four numbers: 13 million files, 8 thousand directories of uneven size, 90 % of the files below 50 KB,
//! 300 GB (23 KB a file). Sizes are the quantiles of a Weibull distribution with these two properties, shuffled, so that
//! a small tree has the same distribution as a large one. Contents are slices of one random buffer: images do not
//! compress, and making them must not cost the sides under comparison anything.

use std::ops::Range;
use waxseal_bench::workload::{Random, fmix64};

/// Number of files and directories of the paper.
pub(super) const FILES: u64 = 13_000_000;
pub(super) const DIRECTORIES: u64 = 8_000;

/// Mean size of a file in bytes.
pub(super) const MEAN_BYTES: u64 = 23_000;

/// The size that 90 % of the files stay below, in bytes.
pub(super) const MOST_BELOW_BYTES: u64 = 50_000;

/// Shape and scale of the Weibull distribution with mean 23,000 and 90.1 % below 50,000.
const SHAPE: f64 = 1.16;
const SPREAD: f64 = 24_227.5;

/// Length of the buffer that contents are slices of: long beside what a compressor remembers.
const POOL_BYTES: usize = 16 << 20;

/// A directory and its files, which have successive numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Directory {
    pub(super) path: String,
    pub(super) files: Range<u32>,
}

/// The set of files. Files are numbered in the order of their paths.
pub(super) struct Tree {
    directories: Vec<Directory>,
    sizes: Vec<u32>,
    pool: Vec<u8>,
    seed: u64,
}

impl Tree {
    /// Generates the tree of a seed with at least one file per directory.
    pub(super) fn new(seed: u64, files: u64, directories: u64) -> Tree {
        let files = u32::try_from(files).unwrap_or(u32::MAX);
        let mut sizes: Vec<u32> = (0..files).map(|rank| quantile((f64::from(rank) + 0.5) / f64::from(files))).collect();
        let mut random = Random::stream(seed, 0);
        for last in (1..sizes.len()).rev() {
            sizes.swap(last, random.below(last as u64 + 1) as usize);
        }
        let mut pool = Vec::with_capacity(POOL_BYTES);
        while pool.len() < POOL_BYTES {
            pool.extend_from_slice(&random.word().to_le_bytes());
        }
        Tree { directories: divide(&mut Random::stream(seed, 1), files, directories), sizes, pool, seed }
    }

    /// Returns the number of files.
    pub(super) fn len(&self) -> u32 {
        self.sizes.len() as u32
    }

    /// Returns the bytes of all contents.
    pub(super) fn bytes(&self) -> u64 {
        self.sizes.iter().map(|size| u64::from(*size)).sum()
    }

    pub(super) fn sizes(&self) -> &[u32] {
        &self.sizes
    }

    pub(super) fn directories(&self) -> &[Directory] {
        &self.directories
    }

    /// Returns the directory of a file.
    pub(super) fn directory_of(&self, file: u32) -> &Directory {
        &self.directories[self.directories.partition_point(|directory| directory.files.end <= file)]
    }

    /// Returns the path of a file.
    pub(super) fn path(&self, file: u32) -> String {
        path(self.directory_of(file), file)
    }

    /// Returns the paths of a directory's files.
    pub(super) fn paths(&self, directory: &Directory) -> Vec<String> {
        directory.files.clone().map(|file| path(directory, file)).collect()
    }

    /// Returns the content of a file.
    pub(super) fn content(&self, file: u32) -> &[u8] {
        let size = self.sizes[file as usize] as usize;
        let start = fmix64(self.seed ^ fmix64(u64::from(file))) as usize % (self.pool.len() - size);
        &self.pool[start..start + size]
    }

    /// Returns the number of the file of this path.
    pub(super) fn file(&self, path: &[u8]) -> Option<u32> {
        let digits = path.rsplit(|byte| *byte == b'/').next().and_then(|name| name.get(..NAME_DIGITS))?;
        let file = std::str::from_utf8(digits).ok()?.parse().ok()?;
        (file < self.len() && self.path(file).as_bytes() == path).then_some(file)
    }

    /// Returns true if the tree has a file of this path and content.
    pub(super) fn has(&self, path: &[u8], content: &[u8]) -> bool {
        self.file(path).is_some_and(|file| self.content(file) == content)
    }

    /// Returns the directories of one of `of` parts with about equal bytes.
    pub(super) fn part(&self, number: u64, of: u64) -> &[Directory] {
        let total = self.bytes();
        let mut bounds = [0, 0];
        let mut seen = 0;
        for directory in &self.directories {
            for (bound, number) in bounds.iter_mut().zip([number, number + 1]) {
                *bound += usize::from(seen < total * number / of);
            }
            let sizes = &self.sizes[directory.files.start as usize..directory.files.end as usize];
            seen += sizes.iter().map(|size| u64::from(*size)).sum::<u64>();
        }
        &self.directories[bounds[0]..bounds[1]]
    }
}

/// Digits of a file's number in its name.
const NAME_DIGITS: usize = 8;

/// Returns the path of a directory's file.
pub(super) fn path(directory: &Directory, file: u32) -> String {
    format!("{}/{file:0NAME_DIGITS$}.jpg", directory.path)
}

/// Returns the size that this share of the files stay below.
fn quantile(share: f64) -> u32 {
    (SPREAD * (-(1.0 - share).ln()).powf(1.0 / SHAPE)) as u32
}

/// Divides files into directories of very uneven size, ten and more directories to a site.
fn divide(random: &mut Random, files: u32, directories: u64) -> Vec<Directory> {
    let count = directories.clamp(1, u64::from(files.max(1))) as u32;
    // A product of uniform numbers is skewed: most directories are small and a few hold most of the files.
    let weights: Vec<f64> = (0..count).map(|_| 1.0 / (0.01 + random.unit() * random.unit())).collect();
    let total: f64 = weights.iter().sum();
    let spare = f64::from(files - count);
    let (mut start, mut weight) = (0, 0.0);
    let mut directories = Vec::with_capacity(count as usize);
    for (number, own) in weights.iter().enumerate() {
        weight += own;
        let number = number as u32;
        let end = if number + 1 == count { files } else { number + 1 + (spare * weight / total) as u32 };
        directories.push(Directory { path: format!("site{:03}/{number:06}", number / 100), files: start..end });
        start = end;
    }
    directories
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_the_sizes_of_the_paper() {
        let tree = Tree::new(1, 10_000, 40);
        let below = tree.sizes().iter().filter(|size| u64::from(**size) < MOST_BELOW_BYTES).count();
        assert!((9_000..=9_030).contains(&below), "{below}");
        let mean = tree.bytes() / 10_000;
        assert!(mean.abs_diff(MEAN_BYTES) < MEAN_BYTES / 100, "{mean}");
    }

    #[test]
    fn directories_are_uneven_and_hold_every_file_once() {
        let tree = Tree::new(1, 10_000, 40);
        let mut lengths: Vec<usize> = tree.directories().iter().map(|directory| directory.files.len()).collect();
        assert_eq!((lengths.len(), lengths.iter().sum::<usize>()), (40, 10_000));
        lengths.sort_unstable();
        assert!(lengths[39] > 4 * lengths[20] && lengths[0] > 0, "{lengths:?}");
        let paths: Vec<String> = (0..tree.len()).map(|file| tree.path(file)).collect();
        assert!(paths.is_sorted());
    }

    #[test]
    fn a_seed_makes_one_tree() {
        let (one, two, other) = (Tree::new(7, 300, 5), Tree::new(7, 300, 5), Tree::new(8, 300, 5));
        assert!((0..300).all(|file| one.content(file) == two.content(file)));
        assert_eq!(one.directories(), two.directories());
        assert_ne!(one.sizes(), other.sizes());
    }

    #[test]
    fn a_tree_knows_its_files() {
        let tree = Tree::new(1, 300, 5);
        let path = tree.path(17);
        assert!(tree.has(path.as_bytes(), tree.content(17)));
        assert!(!tree.has(path.as_bytes(), tree.content(18)));
        assert!(!tree.has(tree.path(18).as_bytes(), tree.content(17)));
        assert!(!tree.has(b"x", b""));
    }

    #[test]
    fn parts_hold_every_directory_once() {
        let tree = Tree::new(1, 3_000, 50);
        for of in [1, 3, 8] {
            let parts: Vec<Directory> = (0..of).flat_map(|number| tree.part(number, of).to_vec()).collect();
            assert_eq!(parts, tree.directories());
        }
    }
}
