//! Measures the raw disk as a baseline for stores: a sequentially written file, and a page that is written and synced
//! repeatedly.

use crate::Outcome;
use crate::workload::Random;
use serde::Serialize;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// The results; 0 for probes that were not requested.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Probes {
    /// Bytes per second, written sequentially with a sync at the end.
    pub write_bytes_s: f64,
    /// Microseconds to write and sync a page in a file with allocated blocks.
    pub sync_us: f64,
}

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;

/// Returns bytes per second for writing `bytes` incompressible bytes, one MiB at a time, with a final sync.
pub fn write_rate(dir: &Path, bytes: u64) -> Outcome<f64> {
    in_file(dir, |file| {
        let pool = noise(4 * MIB);
        let start = Instant::now();
        let mut at = 0;
        while at < bytes {
            let from = (at as usize / MIB % 4) * MIB;
            let length = MIB.min((bytes - at) as usize);
            file.write_all_at(&pool[from..from + length], at)?;
            at += length as u64;
        }
        file.sync_data()?;
        Ok(bytes as f64 / start.elapsed().as_secs_f64().max(1e-9))
    })
}

/// Returns microseconds to write and sync one page in a file that was written before, as the mean of `count` pages. A
/// few hundred are less reliable than some thousands: the first syncs after a file was created or removed may be
/// faster.
pub fn sync_micros(dir: &Path, count: u64) -> Outcome<f64> {
    in_file(dir, |file| {
        let pool = noise(PAGE);
        let pages = count.max(1);
        (0..pages).try_for_each(|page| file.write_all_at(&pool, page * PAGE as u64))?;
        file.sync_all()?;
        let start = Instant::now();
        for page in 0..pages {
            file.write_all_at(&pool, page * PAGE as u64)?;
            file.sync_data()?;
        }
        Ok(start.elapsed().as_secs_f64() * 1e6 / pages as f64)
    })
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut random = Random::new(1);
    (0..bytes / 8).flat_map(|_| random.word().to_le_bytes()).collect()
}

fn in_file(dir: &Path, measure: impl FnOnce(&File) -> Outcome<f64>) -> Outcome<f64> {
    std::fs::create_dir_all(dir)?;
    let path = dir.join("probe");
    let measured = measure(&File::options().create(true).truncate(true).write(true).open(&path)?);
    std::fs::remove_file(&path)?;
    measured
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_measures_and_leaves_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(write_rate(dir.path(), 3 * MIB as u64 + 7).expect("written") > 0.0);
        assert!(sync_micros(dir.path(), 3).expect("synced") > 0.0);
        assert_eq!(std::fs::read_dir(dir.path()).expect("read").count(), 0);
    }
}
