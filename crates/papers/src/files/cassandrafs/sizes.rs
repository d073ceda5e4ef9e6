//! Question: does every size around the boundaries of the CassandraFS paper come back byte by byte?
//! Protocol: files of 0 and 1 bytes, of 5 MB less and more one byte and exactly, of 12 MB, and of 600 MB (at scale 1)
//!           are copied from a local file into a store with chunks of 5 MB, and back into another local file, through
//!           the library, through HTTP, and in the paper's layout with one and with 100 chunks per row.
//! Passes:   no wrong file.

use super::face::Face;
use super::library::Library;
use super::literal::{CHUNK_BYTES, CHUNKS_PER_ROW, Literal};
#[cfg(feature = "http")]
use super::network;
use super::steps::random_bytes;
use crate::files::Run;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::time::Instant;
use waxseal::Db;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::workload::Random;
use waxseal_files::FileStoreOptions;

const MB: u64 = 1_000_000;

/// Bytes of a local file that are made at once.
const PIECE_BYTES: u64 = MB;

pub(in crate::files) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let local = run.fresh("local")?;
    let sizes = [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 12 * MB, run.size(600 * MB, 13 * MB)];
    let mut random = Random::new(run.seed);
    for size in sizes {
        let mut file = File::create(local.join(size.to_string()))?;
        let mut left = size;
        while left > 0 {
            let bytes = left.min(PIECE_BYTES);
            file.write_all(&random_bytes(&mut random, bytes))?;
            left -= bytes;
        }
    }
    let db = Db::open(run.fresh("ours")?)?;
    let files = FileStoreOptions::new().chunk_bytes(CHUNK_BYTES as u32).open(&db, "files")?;
    let mut wrong = copies("library", &Library { files: files.clone() }, &local, &sizes)?;
    let faces = if cfg!(feature = "http") { 4 } else { 3 };
    #[cfg(feature = "http")]
    {
        wrong += network::serve(files.clone(), |network| copies("http", network, &local, &sizes))??;
    }
    drop(files);
    db.close()?;
    for (name, chunks) in [("a chunk per row", 1), ("100 chunks per row", CHUNKS_PER_ROW)] {
        let literal = Literal::open(&run.fresh("paper")?, CHUNK_BYTES, chunks)?;
        wrong += copies(name, &literal, &local, &sizes)?;
        literal.close()?;
    }
    Ok(vec![run.none("same_bytes", "wrong_files", wrong, faces * sizes.len() as u64, 1)])
}

/// Copies every local file into a store and back; returns how many differ.
fn copies(name: &str, face: &dyn Face, local: &Path, sizes: &[u64]) -> Outcome<u64> {
    let mut client = face.client()?;
    let mut wrong = 0;
    for size in sizes {
        let (source, copy) = (local.join(size.to_string()), local.join("copy"));
        let start = Instant::now();
        client.write("file", *size, &mut File::open(&source)?)?;
        let written = start.elapsed();
        client.read("file", &mut File::create(&copy)?)?;
        let read = start.elapsed() - written;
        println!("{name}: {size} bytes written in {:.1} ms, read in {:.1} ms", millis(written), millis(read));
        wrong += u64::from(!are_equal(&source, &copy)?);
        client.remove("file")?;
    }
    Ok(wrong)
}

fn millis(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Compares two local files.
fn are_equal(one: &Path, other: &Path) -> Outcome<bool> {
    if std::fs::metadata(one)?.len() != std::fs::metadata(other)?.len() {
        return Ok(false);
    }
    let mut one = BufReader::new(File::open(one)?);
    let mut other = BufReader::new(File::open(other)?);
    let (mut left, mut right) = (vec![0; PIECE_BYTES as usize], vec![0; PIECE_BYTES as usize]);
    loop {
        let bytes = one.read(&mut left)?;
        if bytes == 0 {
            return Ok(true);
        }
        other.read_exact(&mut right[..bytes])?;
        if left[..bytes] != right[..bytes] {
            return Ok(false);
        }
    }
}
