//! The cost of one synced writer beside the disk: `lone ROUNDS DIR`.
//!
//! Turn by turn, in one process: so many puts that are synced, then as many pages written with `pwrite` into a file
//! that was written before, and synced with `fdatasync`. Whatever else the machine does meets both alike. One line:
//! medians of both, and the median of the rounds' ratios.

#![expect(clippy::disallowed_methods, reason = "a clock and a file of its own are what it compares with")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use waxseal::{Compression, Db, Durability};
use waxseal_bench::Outcome;
use waxseal_bench::rounds::main_of;
use waxseal_bench::stats::median;
use waxseal_bench::workload::{Keys, Values};

/// Commits, and pages, of one turn.
const TURN: u64 = 16;
const PAGE: u64 = 4096;

fn main() -> ExitCode {
    main_of("lone", compare)
}

fn compare(rounds: u64, dir: &Path) -> Outcome<String> {
    std::fs::create_dir_all(dir)?;
    let db = Db::builder(dir.join("store")).compression(Compression::None).open()?;
    let records = db.column_family("default")?;
    let count = rounds * TURN;
    let mut keys = Keys::new(count.max(1), 16, 0).ok_or("sixteen digits are enough")?;
    let mut values = Values::new(100, 1, 1);
    let file = File::options().create(true).truncate(true).write(true).open(dir.join("pages"))?;
    let page = [7; PAGE as usize];
    (0..count).try_for_each(|at| file.write_all_at(&page, at * PAGE))?;
    file.sync_all()?;
    let (mut ours, mut disks, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let (from, to) = (round * TURN, (round + 1) * TURN);
        let mut commits = || -> Outcome<f64> {
            let start = Instant::now();
            for at in from..to {
                records.put_with(keys.written(at), values.value(), Durability::Sync.into())?;
            }
            Ok(start.elapsed().as_secs_f64() * 1e6 / TURN as f64)
        };
        let pages = || -> Outcome<f64> {
            let start = Instant::now();
            for at in from..to {
                file.write_all_at(&page, at * PAGE)?;
                file.sync_data()?;
            }
            Ok(start.elapsed().as_secs_f64() * 1e6 / TURN as f64)
        };
        // Forwards and backwards, so that a drift of the machine hits both alike.
        let (our, disk) = if round % 2 == 0 {
            let our = commits()?;
            (our, pages()?)
        } else {
            let disk = pages()?;
            (commits()?, disk)
        };
        ours.push(our);
        disks.push(disk);
        ratios.push(our / disk);
    }
    let [ours, disks, ratio] = [ours, disks, ratios].map(|samples| median(&samples));
    Ok(format!("commit {ours:.1} us, page {disks:.1} us, ratio {ratio:.3} (median of {rounds} rounds of {TURN})"))
}
