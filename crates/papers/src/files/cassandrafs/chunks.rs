//! Question: how does the chunk size change the speed of large files? (The CassandraFS paper leaves this open.)
//! Protocol: files of 12 MB are written and read whole through the library, with chunks of 16 KiB to 5 MB, in our
//!           layout and in the paper's; then 4 KiB are read at random offsets, for which a chunk is read. All sizes in turn,
//!           forwards and backwards, warm. Every byte is compared.
//! Passes:   no wrong read. Times are only printed.

use super::face::Face;
use super::library::Library;
use super::literal::Literal;
use super::steps::random_bytes;
use crate::files::Run;
use std::time::{Duration, Instant};
use waxseal::Db;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::rounds::alternate_many;
use waxseal_bench::workload::Random;
use waxseal_files::FileStoreOptions;

const CHUNK_BYTES: [u32; 5] = [16 << 10, 64 << 10, 256 << 10, 1 << 20, 5_000_000];

const FILE_BYTES: u64 = 12_000_000;

/// Files of a measurement at scale 1.
const FILES: u64 = 20;

/// Random reads of a measurement at scale 1, and the bytes of each.
const READS: u64 = 2_000;
const READ_BYTES: usize = 4096;

const ROUNDS: usize = 5;

pub(in crate::files) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let files = run.size(FILES, 1);
    let content = random_bytes(&mut Random::new(run.seed), FILE_BYTES);
    let reads_each = run.size(READS, 20);
    let mut ours = Vec::new();
    let mut literals = Vec::new();
    for bytes in CHUNK_BYTES {
        let db = Db::open(run.fresh(&format!("ours{bytes}"))?)?;
        ours.push(Library { files: FileStoreOptions::new().chunk_bytes(bytes).open(&db, "files")? });
        literals.push(Literal::open(&run.fresh(&format!("paper{bytes}"))?, u64::from(bytes), 1)?);
    }
    let mut wrong = 0;
    // The times of one file mean little.
    let rounds = if files == 1 { 1 } else { ROUNDS };
    let sides = 2 * CHUNK_BYTES.len();
    let [writes, reads, points] = alternate_many(run, sides, rounds, |side| {
        let (own, paper) = (&ours[side / 2], &literals[side / 2]);
        let is_own = side % 2 == 0;
        let face: &dyn Face = if is_own { own } else { paper };
        let whole = whole(face, files, &content)?;
        let mut random = Random::new(run.seed);
        let point = if is_own {
            let snapshot = own.files.snapshot();
            let open: Vec<_> = (0..files).map(|file| snapshot.open(name(file))).collect::<Result<_, _>>()?;
            at_random(&mut random, files, reads_each, &content, |file, offset, out| {
                Ok(open[file as usize].read_at(out, offset).map(drop)?)
            })?
        } else {
            at_random(&mut random, files, reads_each, &content, |file, offset, out| {
                paper.read_at(&name(file), offset, out)
            })?
        };
        wrong += whole.wrong + point.wrong;
        own.settle()?;
        paper.settle()?;
        Ok([whole.write, whole.read, point.nanos])
    })?;
    for (place, bytes) in CHUNK_BYTES.iter().enumerate() {
        let rate = |nanos: f64| FILE_BYTES as f64 * 1e3 / nanos;
        let (own, paper) = (2 * place, 2 * place + 1);
        println!(
            "chunks of {bytes} bytes: ours writes {:.0} MB/s, reads {:.0} MB/s, 4 KiB in {:.1} us; the paper's writes \
             {:.0} MB/s, reads {:.0} MB/s, 4 KiB in {:.1} us; {} rounds",
            rate(writes.of(own)),
            rate(reads.of(own)),
            points.of(own) / 1e3,
            rate(writes.of(paper)),
            rate(reads.of(paper)),
            points.of(paper) / 1e3,
            writes.count()
        );
    }
    let count = writes.count() as u64 * sides as u64 * (files + reads_each);
    ours.into_iter().try_for_each(Library::close)?;
    literals.into_iter().try_for_each(Literal::close)?;
    Ok(vec![run.none("same_bytes", "wrong_reads", wrong, count, 1)])
}

fn name(file: u64) -> String {
    format!("file{file}")
}

/// Nanoseconds per whole file, and the number of wrong files.
struct Whole {
    write: f64,
    read: f64,
    wrong: u64,
}

/// Writes and reads whole files.
fn whole(face: &dyn Face, files: u64, content: &[u8]) -> Outcome<Whole> {
    let mut client = face.client()?;
    let start = Instant::now();
    for file in 0..files {
        client.write(&name(file), content.len() as u64, &mut &*content)?;
    }
    let write = start.elapsed();
    let mut found = Vec::with_capacity(content.len());
    let (mut wrong, mut read) = (0, Duration::ZERO);
    for file in 0..files {
        found.clear();
        let start = Instant::now();
        client.read(&name(file), &mut found)?;
        read += start.elapsed();
        wrong += u64::from(found != content);
    }
    let each = |time: Duration| time.as_nanos() as f64 / files as f64;
    Ok(Whole { write: each(write), read: each(read), wrong })
}

/// Nanoseconds per read at a random offset, and the number of wrong reads.
struct Points {
    nanos: f64,
    wrong: u64,
}

/// Reads at random offsets of random files, all of which have the same content.
fn at_random(
    random: &mut Random,
    files: u64,
    reads: u64,
    content: &[u8],
    mut read: impl FnMut(u64, u64, &mut [u8]) -> Outcome<()>,
) -> Outcome<Points> {
    let mut out = [0; READ_BYTES];
    let (mut wrong, mut time) = (0, Duration::ZERO);
    for _ in 0..reads {
        let (file, offset) = (random.below(files), random.below((content.len() - READ_BYTES) as u64));
        let start = Instant::now();
        read(file, offset, &mut out)?;
        time += start.elapsed();
        wrong += u64::from(content[offset as usize..][..READ_BYTES] != out);
    }
    Ok(Points { nanos: time.as_nanos() as f64 / reads as f64, wrong })
}
