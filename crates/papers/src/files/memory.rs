//! Question: how fast are reads if the memory is three times, once or half as large as the files? (The paper's Figure 7:
//!           with everything in memory Cassandra was faster than the file system.)
//! Protocol: every layout holds the same files. For each ratio and layout a process of its own runs in a control group
//!           whose memory, page cache included, is the ratio times the contents and 96 MiB for the process itself. A
//!           store's own cache is a quarter of the ratio times the contents. The kernel's caches are dropped, 8 clients
//!           read lists of the power law of `clients` once, and then again with measurement. Layouts in turn, forwards
//!           and backwards.
//! Passes:   no wrong read. Times are only printed.

use super::clients::{lists, serve};
use super::layout::{Name, Setup};
use super::sides::Side;
use super::tree::Tree;
use super::{Run, caches, cgroup};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use waxseal_bench::gate::Gate;
use waxseal_bench::rounds::alternate_many;
use waxseal_bench::{Outcome, child};

/// Memory as a multiple of the contents.
const RATIOS: [f64; 3] = [3.0, 1.0, 0.5];

/// Memory of the process itself: its program, the buffer of contents, and the lists.
const OWN_BYTES: u64 = 96 << 20;

/// Clients that read at once.
const CLIENTS: u64 = 8;

/// The longest time of one process.
const LIMIT: Duration = Duration::from_secs(600);

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    if let Some(member) = &run.member {
        return measure(run, member);
    }
    drop(cgroup::Cgroup::limited_to(OWN_BYTES)?); // fails before the layouts are filled
    caches::drop_all()?;
    let tree = run.tree();
    let sides = Side::all(run, &tree)?;
    println!("{} files, {:.1} MB", tree.len(), tree.bytes() as f64 / 1e6);
    let (mut wrong, mut reads) = (0, 0);
    for (place, ratio) in RATIOS.into_iter().enumerate() {
        let part = run.within(1.0 / (RATIOS.len() - place) as f64);
        let [times, p99] = alternate_many(&part, sides.len(), run.rounds(&tree).min(3), |number| {
            let served = in_group(run, &tree, &sides[number], ratio)?;
            let number = |name: &str| served[name].as_f64().ok_or_else(|| format!("a process told no {name}"));
            wrong += number("wrong")? as u64;
            reads += number("reads")? as u64;
            Ok([number("nanos")?, number("p99_us")?])
        })?;
        for (number, name) in run.layouts.iter().enumerate() {
            println!(
                "memory {ratio} x: {} {:.0} reads/s, p99 {:.1} us; {} rounds",
                name.text(),
                1e9 / times.of(number),
                p99.of(number),
                times.count()
            );
        }
    }
    Ok(vec![run.none("same_bytes", "wrong_reads", wrong, reads, 1)])
}

/// A process in a control group: the layout that it reads, its cache, and the group.
#[derive(Clone, Debug)]
pub(super) struct Member {
    dir: PathBuf,
    cache_bytes: u64,
    door: PathBuf,
}

impl std::str::FromStr for Member {
    type Err = String;

    fn from_str(text: &str) -> Result<Member, String> {
        let [cache, door, dir] = text.splitn(3, ':').collect::<Vec<_>>()[..] else { return Err(usage()) };
        let cache_bytes = cache.parse().map_err(|_| usage())?;
        Ok(Member { dir: dir.into(), cache_bytes, door: door.into() })
    }
}

fn usage() -> String {
    "expected CACHE_BYTES:GROUP:DIRECTORY".into()
}

/// Measures a side in a process of its own; returns the object that it printed.
fn in_group(run: &Run, tree: &Tree, side: &Side, ratio: f64) -> Outcome<Value> {
    let bytes = (tree.bytes() as f64 * ratio) as u64;
    let group = cgroup::Cgroup::limited_to(bytes + OWN_BYTES)?;
    caches::drop_all()?; // pages that are cached already would not count in the group
    let member = format!("{}:{}:{}", (bytes / 4).max(1 << 20), group.door().display(), side.dir().display());
    let (seed, scale) = (run.seed.to_string(), run.scale.to_string());
    let arguments = ["files", "memory", "--seed", &seed, "--scale", &scale, "--layouts", side.name.text()];
    let mut command = child::command(arguments)?;
    command.args(["--member", member.as_str()]).arg("--dir").arg(&run.dir);
    let ended = child::finish(command.spawn()?, LIMIT)?;
    let line = ended.output.lines().find(|line| line.starts_with('{'));
    match line {
        Some(line) => Ok(serde_json::from_str(line)?),
        None => {
            Err(format!("{} with {ratio} x memory: {:?} {}", side.name.text(), ended.status, ended.complaint).into())
        }
    }
}

/// Reads in a control group and prints an object.
fn measure(run: &Run, member: &Member) -> Outcome<Vec<Gate>> {
    cgroup::enter(&member.door)?;
    let tree = run.tree();
    let name: Name = *run.layouts.first().ok_or("a process reads one layout")?;
    let side = Side::at(name, member.dir.clone(), Setup { cache_bytes: member.cache_bytes, durable: false });
    let layout = side.open()?;
    let lists = lists(run, &tree, CLIENTS);
    serve(layout.as_ref(), &lists)?;
    let served = serve(layout.as_ref(), &lists)?;
    println!(
        "{}",
        json!({
            "nanos": served.nanos_per_read,
            "p99_us": served.laps.quantile_us(0.99),
            "reads": served.laps.count(),
            "wrong": served.wrong,
        })
    );
    layout.close()?;
    Ok(Vec::new())
}
