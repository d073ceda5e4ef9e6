//! The benchmark of the CassandraFS paper: what each client does in its five steps.
//!
//! a) 100 files of 10 bytes to 10 KB, each in a directory of its own, 3 to 7 levels deep; b) 24 directories, 3 to 7
//! levels deep, which are 120 `mkdir`; c) 10 of 24 local files of 512 KB to 12 MB are stored in one directory of b
//! each; d) the 10 files are read into local files; e) the 110 files and all directories are removed.

use super::face::{Client, Face};
use super::link::Link;
use crate::files::sides::in_parallel;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::Instant;
use waxseal_bench::Outcome;
use waxseal_bench::workload::Random;

/// Small files of a client, its deep directories, the levels of these together, local files, and those it stores.
pub(super) const SMALL_FILES: u64 = 100;
pub(super) const DIRECTORIES: u64 = 24;
pub(super) const LEVELS: u64 = 120;
const LOCAL_FILES: u64 = 24;
pub(super) const LARGE_FILES: u64 = 10;

/// Sizes of the local files in bytes, at scale 1.
const LARGE_BYTES: (u64, u64) = (512_000, 12_000_000);

/// The steps.
pub(super) const STEPS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The result of one step of one client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Report {
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    pub(super) operations: u64,
}

/// The local files of one client.
pub(super) struct Local {
    dir: PathBuf,
    sizes: Vec<u64>,
}

impl Local {
    /// Creates the local files of a client.
    pub(super) fn create(dir: &Path, seed: u64, client: u64, scale: f64) -> Outcome<Local> {
        std::fs::create_dir_all(dir)?;
        let mut random = Random::stream(seed, client);
        let (least, most) = LARGE_BYTES;
        let mut sizes = Vec::new();
        for number in 0..LOCAL_FILES {
            let full = least + (most - least) * number / (LOCAL_FILES - 1);
            let size = ((full as f64 * scale) as u64).max(1);
            std::fs::write(dir.join(format!("local{number}")), random_bytes(&mut random, size))?;
            sizes.push(size);
        }
        Ok(Local { dir: dir.to_owned(), sizes })
    }

    /// Returns the local file that a client stores as its n-th, and its size.
    fn source(&self, number: u64) -> (PathBuf, u64) {
        // Every other one, small and large.
        let number = number * 2 + 1;
        (self.dir.join(format!("local{number}")), self.sizes[number as usize])
    }

    fn copy(&self, number: u64) -> PathBuf {
        self.dir.join(format!("copy{number}"))
    }

    /// Returns the number of copies that differ from their source.
    pub(super) fn wrong_copies(&self) -> Outcome<u64> {
        let mut wrong = 0;
        for number in 0..LARGE_FILES {
            wrong += u64::from(std::fs::read(self.source(number).0)? != std::fs::read(self.copy(number))?);
        }
        Ok(wrong)
    }
}

/// Returns random bytes.
pub(super) fn random_bytes(random: &mut Random, size: u64) -> Vec<u8> {
    let words = (0..size.div_ceil(8)).flat_map(|_| random.word().to_le_bytes());
    words.take(size as usize).collect()
}

/// Runs the steps by several clients at once, each below a new directory, which is empty afterwards.
pub(super) fn together(
    seed: u64,
    face: &dyn Face,
    link: &Link,
    locals: &[Local],
    name: &str,
) -> Outcome<Vec<[Report; 5]>> {
    let barrier = Barrier::new(locals.len());
    let roots: Vec<String> = (0..locals.len()).map(|client| format!("{name}-{client}")).collect();
    let mut first = face.client()?;
    roots.iter().try_for_each(|root| first.make_directory(root))?;
    in_parallel(locals.len() as u64, |number| {
        let place = number as usize;
        all(face, &roots[place], &locals[place], link, &barrier, seed + number)
    })
}

/// Returns the time of the slowest client in a step.
pub(super) fn slowest(reports: &[[Report; 5]], step: usize) -> f64 {
    reports.iter().map(|client| client[step].seconds).fold(0.0, f64::max)
}

/// Runs all steps of one client below the directory `root`, which exists. All clients begin each step together. A
/// client that fails takes part in the later steps without work, so that the others go on.
fn all(face: &dyn Face, root: &str, local: &Local, link: &Link, barrier: &Barrier, seed: u64) -> Outcome<[Report; 5]> {
    let mut reports = [Report::default(); 5];
    let mut connected = face.client();
    for (step, report) in reports.iter_mut().enumerate() {
        barrier.wait();
        let Ok(client) = connected.as_mut() else { continue };
        let client = client.as_mut();
        let start = Instant::now();
        let done = match step {
            0 => small_files(client, root, link, seed),
            1 => directories(client, root),
            2 => store(client, root, local, link),
            3 => load(client, root, local, link),
            _ => remove(client, root),
        };
        match done {
            Ok((bytes, operations)) => *report = Report { bytes, seconds: start.elapsed().as_secs_f64(), operations },
            Err(fault) => connected = Err(format!("step {} below {root}: {fault}", STEPS[step]).into()),
        }
    }
    connected.map(|_| reports)
}

/// Returns the directories on the way to the n-th one, which has 3 to 7 levels.
fn way(root: &str, kind: &str, number: u64) -> Vec<String> {
    // Of 24 directories, 20 have every depth in turn; the last four have 3, 4, 6 and 7: 120 levels.
    let depth = if number < 20 { 3 + number % 5 } else { [3, 4, 6, 7][number as usize % 4] };
    let mut path = format!("{root}/{kind}{number}");
    let mut way = vec![path.clone()];
    for level in 1..depth {
        path += &format!("/level{level}");
        way.push(path.clone());
    }
    way
}

fn last(way: &[String]) -> &str {
    way.last().map_or("", String::as_str)
}

fn small_files(client: &mut dyn Client, root: &str, link: &Link, seed: u64) -> Outcome<(u64, u64)> {
    let mut random = Random::new(seed);
    let mut bytes = 0;
    for number in 0..SMALL_FILES {
        let way = way(root, "small", number);
        way.iter().try_for_each(|path| client.make_directory(path))?;
        let content = random_bytes(&mut random, 10 + 9_990 * number / (SMALL_FILES - 1));
        let mut source = link.through(content.as_slice());
        client.write(&format!("{}/file", last(&way)), content.len() as u64, &mut source)?;
        bytes += source.bytes;
    }
    Ok((bytes, SMALL_FILES))
}

fn directories(client: &mut dyn Client, root: &str) -> Outcome<(u64, u64)> {
    let mut operations = 0;
    for number in 0..DIRECTORIES {
        for path in way(root, "large", number) {
            client.make_directory(&path)?;
            operations += 1;
        }
    }
    Ok((0, operations))
}

fn store(client: &mut dyn Client, root: &str, local: &Local, link: &Link) -> Outcome<(u64, u64)> {
    let mut bytes = 0;
    for number in 0..LARGE_FILES {
        let (path, size) = local.source(number);
        let mut source = link.through(File::open(path)?);
        client.write(&large(root, number), size, &mut source as &mut dyn Read)?;
        bytes += source.bytes;
    }
    Ok((bytes, LARGE_FILES))
}

fn load(client: &mut dyn Client, root: &str, local: &Local, link: &Link) -> Outcome<(u64, u64)> {
    let mut bytes = 0;
    for number in 0..LARGE_FILES {
        let mut sink = link.through(File::create(local.copy(number))?);
        client.read(&large(root, number), &mut sink)?;
        bytes += sink.bytes;
    }
    Ok((bytes, LARGE_FILES))
}

fn large(root: &str, number: u64) -> String {
    format!("{}/file", last(&way(root, "large", number)))
}

fn remove(client: &mut dyn Client, root: &str) -> Outcome<(u64, u64)> {
    for number in 0..SMALL_FILES {
        client.remove(&format!("{}/file", last(&way(root, "small", number))))?;
    }
    for number in 0..LARGE_FILES {
        client.remove(&large(root, number))?;
    }
    for number in 0..SMALL_FILES {
        client.remove_tree(&way(root, "small", number)[0])?;
    }
    for number in 0..DIRECTORIES {
        client.remove_tree(&way(root, "large", number)[0])?;
    }
    Ok((0, SMALL_FILES + LARGE_FILES + LEVELS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_directories_have_120_levels() {
        let ways: Vec<usize> = (0..DIRECTORIES).map(|number| way("root", "large", number).len()).collect();
        assert_eq!(ways.iter().sum::<usize>() as u64, LEVELS);
        assert!(ways.iter().all(|levels| (3..=7).contains(levels)));
    }

    #[test]
    fn local_files_have_the_sizes_of_the_paper() {
        let dir = tempfile::tempdir().expect("a directory");
        let local = Local::create(dir.path(), 1, 0, 0.001).expect("created");
        assert_eq!((local.sizes[0], local.sizes[23]), (512, 12_000));
        assert_eq!(local.source(9).1, std::fs::metadata(local.source(9).0).expect("there").len());
    }
}
