//! Question: how does the literal layout of the CassandraFS paper compare with ours, in speed, in the cost of a change
//!           of metadata, and in what a file name can damage?
//! Protocol: 4 clients run the steps of `steps` without a limit on three layouts in turn, forwards and backwards: ours,
//!           the paper's with one chunk of 5 MB per row, and its outlook with 100 chunks per row. Then the time of one
//!           file of 600 MB (at scale 1) is changed, and the commits that this takes are counted. Then two files are
//!           written whose names collide in the paper's layout: `x`, which needs two rows, and `x_$1`.
//! Passes:   no wrong copy; ours returns both colliding files; the control, the paper's layout, damages `x` (otherwise
//!           the collision was not tested). Times are only printed.

use super::face::{Client, Face};
use super::library::Library;
use super::link::Link;
use super::literal::{CHUNK_BYTES, CHUNKS_PER_ROW, Literal};
use super::steps::{LARGE_FILES, Local, STEPS, random_bytes, slowest, together};
use crate::files::Run;
use waxseal::Db;
use waxseal_bench::Outcome;
use waxseal_bench::experiment::exactly;
use waxseal_bench::gate::Gate;
use waxseal_bench::rounds::{alternate_many, shown};
use waxseal_bench::workload::Random;
use waxseal_files::{FileStore, SetAttributes};

const CLIENTS: u64 = 4;

const ROUNDS: usize = 5;

const NAMES: [&str; 3] = ["ours", "a chunk per row", "100 chunks per row"];

/// Length of the file whose time is changed.
const LARGE_BYTES: u64 = 600_000_000;

pub(in crate::files) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let db = Db::open(run.fresh("ours")?)?;
    let ours = Library { files: FileStore::open(&db, "files")? };
    let single = Literal::open(&run.fresh("single")?, CHUNK_BYTES, 1)?;
    let several = Literal::open(&run.fresh("several")?, CHUNK_BYTES, CHUNKS_PER_ROW)?;
    let faces: [&dyn Face; 3] = [&ours, &single, &several];

    let locals: Vec<Local> = (0..CLIENTS)
        .map(|client| Local::create(&run.fresh(&format!("local{client}"))?, run.seed, client, run.scale))
        .collect::<Outcome<_>>()?;
    let (mut wrong, mut copies) = (0, 0);
    // The times of tiny files mean nothing.
    let rounds = if run.scale < 0.01 { 1 } else { ROUNDS };
    let mut turn = 0;
    let times = alternate_many(run, faces.len(), rounds, |side| {
        turn += 1;
        let reports = together(run.seed, faces[side], &Link::new(None), &locals, &format!("turn{turn}"))?;
        for local in &locals {
            wrong += local.wrong_copies()?;
            copies += LARGE_FILES;
        }
        ours.settle()?;
        single.settle()?;
        several.settle()?;
        Ok([0, 1, 2, 3, 4].map(|step| slowest(&reports, step)))
    })?;
    for (step, times) in STEPS.iter().zip(&times) {
        let sides: Vec<String> =
            NAMES.iter().enumerate().map(|(side, name)| format!("{name} {:.4} s", times.of(side))).collect();
        println!("{step}: {}; {} rounds", sides.join(", "), times.count());
        for side in [1, 2] {
            println!("    ours is {} times as fast as {}", shown(times.speedup(0, side)), NAMES[side]);
        }
    }

    let bytes = run.size(LARGE_BYTES, 3 * CHUNK_BYTES);
    faces.iter().try_for_each(|face| face.client()?.write("large", bytes, &mut std::io::repeat(7)))?;
    let of_ours = {
        ours.files.reclaim()?; // it commits, too
        let before = db.metrics().wal.frames;
        ours.files.set_attributes("large", &SetAttributes::new().mtime(1))?;
        db.metrics().wal.frames - before
    };
    println!(
        "commits of a new time of {:.0} MB: ours {of_ours}, a chunk per row {}, 100 chunks per row {}",
        bytes as f64 / 1e6,
        single.touch("large", 1)?,
        several.touch("large", 1)?
    );

    let damaged = |face: &dyn Face| colliding(face.client()?.as_mut(), run.seed);
    let (of_ours, of_paper) = (damaged(&ours)?, damaged(&single)?);
    single.close()?;
    several.close()?;
    ours.close()?;
    Ok(vec![
        run.none("same_bytes", "wrong_copies", wrong, copies, 1),
        run.none("collision", "damaged_files", of_ours, 2, 2),
        run.at_least("control", "damaged_files", "count", Some(exactly(of_paper as f64, 2)), 1.0),
    ])
}

/// Writes `x` of two chunks, then `x_$1`, and returns how many of the two are not read as written.
fn colliding(client: &mut dyn Client, seed: u64) -> Outcome<u64> {
    let mut random = Random::new(seed);
    let files = [("x", random_bytes(&mut random, CHUNK_BYTES + 1_000)), ("x_$1", random_bytes(&mut random, 1_000))];
    for (path, content) in &files {
        client.write(path, content.len() as u64, &mut content.as_slice())?;
    }
    let mut damaged = 0;
    for (path, content) in &files {
        let mut found = Vec::new();
        client.read(path, &mut found)?;
        damaged += u64::from(found != *content);
    }
    Ok(damaged)
}
