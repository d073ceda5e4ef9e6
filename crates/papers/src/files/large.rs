//! Question: how fast is a file of 1 GB, and a read of 4 KiB, through the library and through a mount?
//! Protocol: one file (1 GB at scale 1) of random bytes is on the file system and in a file store with its default
//!           chunks and a cache of 256 MiB. It is opened and read whole in pieces of 1 MiB: from the file system, through
//!           the library, and (feature `mount`) through a mount of the store, in turn, forwards and backwards, each after
//!           one read that is not counted. Then 4 KiB are read at random places of the open file, through the library
//!           and through the mount, whose pages were dropped before: without read-ahead, so that a read is one request of
//!           FUSE. The process that mounts is the one that reads. Every content is compared.
//! Passes:   no wrong read; the whole file at least 0.5 times as fast as the file system through the library, and 0.9
//!           times through the mount; 4 KiB through the mount at most 30 us more than through the library.

use super::Run;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Instant;
use waxseal::Db;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::rounds::alternate;
use waxseal_bench::workload::{Random, touch};
use waxseal_files::{FileStore, OpenOptions};

/// Bytes of the file at scale 1.
const FILE_BYTES: u64 = 1_000_000_000;

/// Cache of the store.
const CACHE_BYTES: usize = 256 << 20;

/// Bytes of a piece of a whole read, and of a read at a random place.
const PIECE_BYTES: usize = 1 << 20;
const PLACE_BYTES: usize = 4096;

/// Reads at random places in a round, and rounds: the bounds of a difference need more of them than those of a ratio.
const PLACES: u64 = 2_000;
const PLACE_ROUNDS: usize = 15;

/// The name of the file, everywhere.
const NAME: &str = "file";

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let content = Content::new(run.seed, run.size(FILE_BYTES, 4 << 20));
    let (disk, store) = (run.fresh("disk")?, run.fresh("store")?);
    content.write(&mut File::create(disk.join(NAME))?)?;
    let db = Db::builder(&store).cache_bytes(CACHE_BYTES).create_if_missing(true).open()?;
    let files = FileStore::open(&db, "files")?;
    let mut writer = files.writer(NAME)?;
    content.write(&mut writer)?;
    writer.finish()?;
    db.settle()?;
    println!("{:.1} MB", content.bytes as f64 / 1e6);
    let outcome = with_mount(run, &store, &files, |mount| compare(run, &content, &disk, &files, mount));
    drop(files);
    db.close()?;
    outcome
}

/// Calls `work` with the directory of a mount; with `None` in a build without mounts.
#[cfg(feature = "mount")]
fn with_mount<T>(
    run: &Run,
    store: &Path,
    files: &FileStore,
    work: impl FnOnce(Option<&Path>) -> Outcome<T>,
) -> Outcome<T> {
    use std::time::Duration;
    use waxseal_mount::{MountOptions, Mounted};

    let directory = run.fresh("mount")?;
    let idle = Duration::from_secs(600);
    let options = MountOptions {
        files: files.clone(),
        store: store.to_owned(),
        directory: directory.clone(),
        allow_other: false,
        idle,
    };
    let mounted = Mounted::mount(options)?;
    let outcome = work(Some(&directory));
    mounted.unmount()?;
    outcome
}

#[cfg(not(feature = "mount"))]
fn with_mount<T>(_: &Run, _: &Path, _: &FileStore, work: impl FnOnce(Option<&Path>) -> Outcome<T>) -> Outcome<T> {
    println!("this build has no mount: the feature `mount` adds it");
    work(None)
}

fn compare(run: &Run, content: &Content, disk: &Path, files: &FileStore, mount: Option<&Path>) -> Outcome<Vec<Gate>> {
    let is_tiny = content.bytes < 100_000_000;
    let (mut wrong, mut reads) = (0, 0);
    let mut sides = vec![("ext4", Way::System(disk)), ("library", Way::Library(files))];
    sides.extend(mount.map(|mount| ("mount", Way::System(mount))));
    let mut whole = |number: usize| {
        let (nanos, sum) = sides[number].1.read_whole(content)?;
        (wrong, reads) = (wrong + u64::from(sum != content.sum), reads + 1);
        Ok(nanos)
    };
    (0..sides.len()).try_for_each(|number| whole(number).map(drop))?;
    let part = run.within(if mount.is_some() { 0.6 } else { 1.0 });
    let times = alternate(&part, sides.len(), if is_tiny { 1 } else { 5 }, whole)?;
    let mut gates = Vec::new();
    for (number, (name, _)) in sides.iter().enumerate() {
        println!("{name}: {:.1} MB/s; {} rounds", content.bytes as f64 * 1e3 / times.of(number), times.count());
        if let Some(threshold) = [None, Some(0.5), Some(0.9)][number] {
            gates.push(run.at_least(name, "speed_of_ext4", "x", times.speedup(number, 0), threshold));
        }
    }
    if let Some(mount) = mount {
        let mut round = 0;
        let rounds = if is_tiny { 1 } else { PLACE_ROUNDS };
        let times = alternate(run, 2, rounds, |number| {
            // Both sides of a round read the same places: two calls each.
            let mut random = Random::stream(run.seed, 8 + round / 2);
            round += 1;
            let places: Vec<u64> = (0..PLACES).map(|_| random.below(content.bytes / PLACE_BYTES as u64)).collect();
            let way = if number == 0 { Way::Library(files) } else { Way::System(mount) };
            let (nanos, faults) = way.read_places(content, &places)?;
            (wrong, reads) = (wrong + faults, reads + PLACES);
            Ok(nanos)
        })?;
        for (number, name) in ["library", "mount"].into_iter().enumerate() {
            println!("4 KiB, {name}: {:.1} us; {} rounds", times.of(number) / 1e3, times.count());
        }
        let more = times.more(1, 0).map(|more| waxseal_bench::stats::Interval {
            mean: more.mean / 1e3,
            low: more.low / 1e3,
            high: more.high / 1e3,
            n: more.n,
        });
        gates.push(run.at_most("mount_4k", "more_than_library", "us", more, 30.0));
    }
    gates.push(run.none("same_bytes", "wrong_reads", wrong, reads, 1));
    Ok(gates)
}

/// The content of the file: a random piece, repeated with another first word each time.
struct Content {
    piece: Vec<u8>,
    bytes: u64,
    sum: u64,
}

impl Content {
    fn new(seed: u64, bytes: u64) -> Content {
        let mut random = Random::new(seed);
        let words = std::iter::repeat_with(|| random.word().to_le_bytes()).flatten();
        let piece: Vec<u8> = words.take(PIECE_BYTES).collect();
        let mut content = Content { piece, bytes: bytes - bytes % PIECE_BYTES as u64, sum: 0 };
        content.sum = (0..content.pieces()).fold(0u64, |sum, number| sum.wrapping_add(touch(&content.piece(number))));
        content
    }

    fn pieces(&self) -> u64 {
        self.bytes / PIECE_BYTES as u64
    }

    fn piece(&self, number: u64) -> Vec<u8> {
        let mut piece = self.piece.clone();
        piece[..8].copy_from_slice(&number.to_le_bytes());
        piece
    }

    fn write(&self, out: &mut impl Write) -> Outcome<()> {
        Ok((0..self.pieces()).try_for_each(|number| out.write_all(&self.piece(number)))?)
    }

    /// Returns true if the bytes are those of a place, which is a multiple of [`PLACE_BYTES`].
    fn is_at(&self, place: u64, bytes: &[u8]) -> bool {
        let (number, start) = (place / PIECE_BYTES as u64, place as usize % PIECE_BYTES);
        let expected = &self.piece[start..start + PLACE_BYTES];
        match start {
            _ if bytes.len() != PLACE_BYTES => false,
            0 => bytes[..8] == number.to_le_bytes() && bytes[8..] == expected[8..],
            _ => bytes == expected,
        }
    }
}

/// A way to the file.
enum Way<'a> {
    /// Below this directory.
    System(&'a Path),
    Library(&'a FileStore),
}

impl Way<'_> {
    /// Opens and reads the whole file. Returns the nanoseconds and a sum over the content.
    fn read_whole(&self, content: &Content) -> Outcome<(f64, u64)> {
        let mut piece = vec![0; PIECE_BYTES];
        let mut sum = 0u64;
        let start = Instant::now();
        match self {
            Way::System(directory) => {
                let mut file = File::open(directory.join(NAME))?;
                for _ in 0..content.pieces() {
                    file.read_exact(&mut piece)?;
                    sum = sum.wrapping_add(touch(&piece));
                }
            }
            Way::Library(files) => {
                let file = files.open_with(NAME, &OpenOptions::new().read(true))?;
                for number in 0..content.pieces() {
                    let length = file.read_at(&mut piece, number * PIECE_BYTES as u64)?;
                    sum = sum.wrapping_add(touch(&piece[..length]));
                }
            }
        }
        Ok((start.elapsed().as_nanos() as f64, sum))
    }

    /// Reads at places of the open file. Returns nanoseconds of a read, and the number of wrong ones.
    fn read_places(&self, content: &Content, places: &[u64]) -> Outcome<(f64, u64)> {
        let mut bytes = [0; PLACE_BYTES];
        let mut wrong = 0;
        let mut check = |place: u64, bytes: &[u8]| wrong += u64::from(!content.is_at(place, bytes));
        let places = places.iter().map(|number| number * PLACE_BYTES as u64);
        let count = places.len() as f64;
        let nanos = match self {
            Way::System(directory) => {
                use rustix::fs::{Advice, fadvise};
                use std::os::unix::fs::FileExt;

                let file = File::open(directory.join(NAME))?;
                fadvise(&file, 0, None, Advice::DontNeed)?;
                fadvise(&file, 0, None, Advice::Random)?;
                let start = Instant::now();
                for place in places {
                    file.read_exact_at(&mut bytes, place)?;
                    check(place, &bytes);
                }
                start.elapsed().as_nanos()
            }
            Way::Library(files) => {
                let file = files.open_with(NAME, &OpenOptions::new().read(true))?;
                let start = Instant::now();
                for place in places {
                    let length = file.read_at(&mut bytes, place)?;
                    check(place, &bytes[..length]);
                }
                start.elapsed().as_nanos()
            }
        };
        Ok((nanos as f64 / count, wrong))
    }
}
