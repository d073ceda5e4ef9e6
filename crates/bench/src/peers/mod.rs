//! `peers`: every store of this build, the same steps, in alternating rounds.
//!
//! A round goes through the groups of steps; within a group the stores take turns, so that what is compared was measured within
//! seconds. Each group runs in a child process of its own. A ratio is taken within a round, net of what the `null` store costs in the
//! same round; its bounds come from the rounds (`stats`). What cannot be decided is INCONCLUSIVE and never a pass.

use crate::engine::{self, Name};
use crate::gate::{Gate, conclude};
use crate::measure::{StepReport, require_space};
use crate::run::Step;
use crate::stats::{Interval, Wanted, interval, median, ratio_interval};
use crate::{Outcome, child};
use clap::{Args, ValueEnum};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Arguments of `peers`.
#[derive(Args, Debug)]
pub struct Line {
    /// A tenth of the records; ends within 15 minutes.
    #[arg(long)]
    quick: bool,
    /// Writes the gates with their bounds to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Stores, separated by commas [default: all of this build].
    #[arg(long, value_delimiter = ',')]
    engines: Vec<Name>,
    /// The store whose gates these are.
    #[arg(long, default_value = "waxseal")]
    subject: Name,
    /// Which gates.
    #[arg(long, default_value = "all")]
    gates: Set,
    /// Rounds.
    #[arg(long, default_value_t = 5)]
    rounds: u64,
    /// Records that the fills write [default: 2,000,000, or 200,000 with --quick].
    #[arg(long)]
    num: Option<u64>,
    /// Everything random follows from it.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where the stores are made [default: a directory below the system's temporary one].
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Which thresholds are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Set {
    /// At least level with fjall.
    Level,
    /// The speeds the design asks for.
    Design,
    /// What seals may cost beside the same engine without them.
    Tax,
    /// All of them.
    All,
}

/// Records of the full size.
const FULL: u64 = 2_000_000;
const CACHE_MIB: u64 = 256;
const MEMTABLE_MIB: u64 = 64;
/// `--quick` starts nothing after this, and ends whatever runs soon after.
const QUICK: Duration = Duration::from_secs(12 * 60 + 30);
const GRACE: Duration = Duration::from_secs(60);

/// Steps that share a process and a store.
struct Group {
    /// Goes before the names of its steps where the same steps run elsewhere too.
    prefix: &'static str,
    store: &'static str,
    fresh: bool,
    warm: bool,
    steps: &'static [Step],
    threads: u64,
}

const fn group(store: &'static str, steps: &'static [Step], threads: u64) -> Group {
    Group { prefix: "", store, fresh: false, warm: true, steps, threads }
}

const fn fresh(prefix: &'static str, store: &'static str, steps: &'static [Step], threads: u64) -> Group {
    Group { prefix, store, fresh: true, warm: false, steps, threads }
}

const GROUPS: &[Group] = &[
    fresh("", "main", &[Step::FillRandom, Step::Settle], 1),
    group("main", &[Step::ReadRandom], 1),
    group("main", &[Step::ReadMissing], 1),
    group("main", &[Step::ReadSeq], 1),
    group("main", &[Step::ReadReverse], 1),
    group("main", &[Step::SeekRandom], 1),
    group("main", &[Step::YcsbC], 1),
    group("main", &[Step::ReadRandom], 2),
    group("main", &[Step::YcsbB], 1),
    group("main", &[Step::YcsbA], 1),
    group("main", &[Step::YcsbA], 2),
    Group {
        prefix: "over.",
        store: "main",
        fresh: false,
        warm: false,
        steps: &[Step::Overwrite, Step::Settle],
        threads: 1,
    },
    fresh("unsettled.", "side", &[Step::FillRandom, Step::ReadRandom, Step::ReadSeq], 1),
    fresh("", "side", &[Step::FillRandom], 2),
    fresh("", "side", &[Step::FillSync], 1),
    fresh("", "side", &[Step::FillSync], 16),
    fresh("", "side", &[Step::FillSync], 64),
];

fn label(group: &Group, step: Step) -> String {
    match group.threads {
        1 => format!("{}{}", group.prefix, step.text()),
        threads => format!("{}{}/{threads}", group.prefix, step.text()),
    }
}

/// Whom a ratio is taken to.
#[derive(Clone, Copy, Debug)]
enum Against {
    Best,
    Lsm,
    One(Name),
}

impl Against {
    fn names(self) -> Vec<Name> {
        match self {
            Against::Best => vec![Name::Fjall, Name::Redb, Name::Lmdb, Name::Rocksdb],
            Against::Lsm => vec![Name::Fjall, Name::Rocksdb],
            Against::One(name) => vec![name],
        }
    }
}

/// A ratio that is asked for: peers' time over ours.
struct Asked {
    set: Set,
    id: &'static str,
    labels: &'static [&'static str],
    against: Against,
    factor: f64,
}

const fn asked(set: Set, id: &'static str, labels: &'static [&'static str], against: Against, factor: f64) -> Asked {
    Asked { set, id, labels, against, factor }
}

const FJALL: Against = Against::One(Name::Fjall);
const LMDB: Against = Against::One(Name::Lmdb);

const ASKED: &[Asked] = &[
    asked(Set::Level, "level.fillrandom", &["fillrandom"], FJALL, 1.0),
    asked(Set::Level, "level.fillrandom_settled", &["fillrandom", "settle"], FJALL, 1.0),
    asked(Set::Level, "level.readrandom", &["readrandom"], FJALL, 1.0),
    asked(Set::Level, "level.readseq", &["readseq"], FJALL, 1.0),
    asked(Set::Level, "level.readrandom_unsettled", &["unsettled.readrandom"], FJALL, 1.0),
    asked(Set::Level, "level.readseq_unsettled", &["unsettled.readseq"], FJALL, 1.0),
    asked(Set::Design, "fillrandom", &["fillrandom"], Against::Best, 3.0),
    asked(Set::Design, "fillrandom_settled", &["fillrandom", "settle"], Against::Best, 3.0),
    asked(Set::Design, "overwrite", &["over.overwrite"], Against::Best, 3.0),
    asked(Set::Design, "overwrite_settled", &["over.overwrite", "over.settle"], Against::Best, 3.0),
    asked(Set::Design, "readrandom_lmdb", &["readrandom"], LMDB, 1.0),
    asked(Set::Design, "readrandom_lsm", &["readrandom"], Against::Lsm, 2.0),
    asked(Set::Design, "readmissing", &["readmissing"], Against::Best, 2.0),
    asked(Set::Design, "readseq_lmdb", &["readseq"], LMDB, 1.0),
    asked(Set::Design, "readseq_lsm", &["readseq"], Against::Lsm, 3.0),
    asked(Set::Design, "readreverse_lsm", &["readreverse"], Against::Lsm, 3.0),
    asked(Set::Design, "seekrandom_lmdb", &["seekrandom"], LMDB, 1.0),
    asked(Set::Design, "seekrandom_lsm", &["seekrandom"], Against::Lsm, 3.0),
    asked(Set::Design, "ycsba", &["ycsba"], Against::Best, 3.0),
    asked(Set::Design, "ycsbb", &["ycsbb"], Against::Lsm, 2.0),
    asked(Set::Design, "ycsbc", &["ycsbc"], Against::Lsm, 2.0),
    asked(Set::Design, "fillrandom_2", &["fillrandom/2"], Against::Best, 3.0),
    asked(Set::Design, "readrandom_2", &["readrandom/2"], Against::Lsm, 2.0),
    asked(Set::Design, "ycsba_2", &["ycsba/2"], Against::Lsm, 2.0),
    asked(Set::Design, "fillsync_1", &["fillsync"], Against::Best, 1.2),
    asked(Set::Design, "fillsync_16", &["fillsync/16"], Against::Best, 2.0),
    asked(Set::Design, "fillsync_64", &["fillsync/64"], Against::Best, 2.0),
];

/// What seals may cost: a share of the plain engine's time or so many nanoseconds, whichever is more.
const TAX: &[(&str, &str, f64, f64)] =
    &[("tax.put", "fillrandom", 0.02, 40.0), ("tax.get", "readrandom", 0.03, 30.0), ("tax.scan", "readseq", 0.05, 0.0)];

/// The reports of one round.
type Round = BTreeMap<(String, Name), StepReport>;

/// The experiment.
pub fn peers(line: &Line) -> Outcome<u8> {
    let mut engines = if line.engines.is_empty() { Name::built() } else { line.engines.clone() };
    engines.retain(|name| *name != Name::RocksdbStrict || !line.engines.is_empty());
    if !engines.contains(&Name::Null) {
        engines.push(Name::Null);
    }
    if let Some(missing) = engines.iter().find(|name| !name.is_built()) {
        return Err(engine::not_built(*missing));
    }
    let bench = Bench::new(line, engines)?;
    bench.announce();
    let mut rounds: Vec<Round> = Vec::new();
    for number in 0..line.rounds {
        if bench.is_over() {
            break;
        }
        rounds.push(bench.round(number)?);
    }
    std::fs::remove_dir_all(&bench.dir)?;
    print_table(&bench.engines, &rounds);
    conclude(&gates(line, &bench, &rounds), line.json.as_deref())
}

struct Bench {
    engines: Vec<Name>,
    num: u64,
    memtable_mib: u64,
    seed: u64,
    dir: PathBuf,
    until: Option<Instant>,
}

impl Bench {
    fn new(line: &Line, engines: Vec<Name>) -> Outcome<Bench> {
        let num = line.num.unwrap_or(if line.quick { FULL / 10 } else { FULL });
        let dir = line
            .dir
            .clone()
            .unwrap_or_else(|| std::env::temp_dir().join(format!("waxseal-peers-{}", std::process::id())));
        // Two stores each of up to four times the data.
        require_space(&dir, (num * 116 * 4 * 2 * engines.len() as u64).max(256 << 20))?;
        let until = line.quick.then(|| Instant::now() + QUICK);
        // A smaller store has a smaller memtable, so that it still flushes and compacts.
        let memtable_mib = (MEMTABLE_MIB * num.min(FULL)).div_ceil(FULL).max(4);
        Ok(Bench { engines, num, memtable_mib, seed: line.seed, dir, until })
    }

    fn scale(&self) -> f64 {
        self.num as f64 / FULL as f64
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn announce(&self) {
        let versions: Vec<String> =
            self.engines.iter().map(|name| format!("{} ({})", name.text(), name.version())).collect();
        println!("stores: {}", versions.join(", "));
        println!(
            "settings: num {} (scale {}), keys 16 B, values 100 B, cache {CACHE_MIB} MiB, memtable {} MiB, no compression, no fsync but in fillsync, seed {}",
            self.num,
            self.scale(),
            self.memtable_mib,
            self.seed
        );
    }

    fn round(&self, number: u64) -> Outcome<Round> {
        let mut round = Round::new();
        for (place, group) in GROUPS.iter().enumerate() {
            let mut order = self.engines.clone();
            order.rotate_left((number as usize + place) % self.engines.len());
            for name in order {
                if self.is_over() {
                    return Ok(round);
                }
                eprintln!(
                    "round {} {} {}",
                    number + 1,
                    name.text(),
                    group.steps.iter().map(|step| label(group, *step)).collect::<Vec<_>>().join(",")
                );
                for (step, report) in group.steps.iter().zip(self.run(name, group)?) {
                    round.insert((label(group, *step), name), report);
                }
            }
        }
        Ok(round)
    }

    /// One group on one store in a child. A child whose time is up gives what it had.
    fn run(&self, name: Name, group: &Group) -> Outcome<Vec<StepReport>> {
        let dir = self.dir.join(name.text()).join(group.store);
        if group.fresh && dir.exists() {
            std::fs::remove_dir_all(&dir)?;
        }
        let at_most = self
            .until
            .map_or(Duration::from_secs(3600), |until| until.saturating_duration_since(Instant::now()) + GRACE);
        let ended = child::finish(self.command(name, group, &dir)?.spawn()?, at_most)?;
        if ended.status.is_some_and(|status| !status.success()) {
            return Err(format!("{}: {}", name.text(), ended.complaint.trim()).into());
        }
        ended.output.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    fn command(&self, name: Name, group: &Group, dir: &Path) -> Outcome<std::process::Command> {
        let steps: Vec<String> = group.steps.iter().map(|step| step.text()).collect();
        let ops = match group.steps {
            // Enough groups to average over, few enough for a disk that syncs in a millisecond.
            [Step::FillSync] => (self.num * (2 + group.threads / 4) / 1000).max(100),
            _ => self.num,
        };
        let mut command = child::command(["run", "--json", "--engine", name.text(), "--bench", &steps.join(",")])?;
        for (option, value) in [
            ("--num", self.num),
            ("--ops", ops),
            ("--threads", group.threads),
            ("--cache-mib", CACHE_MIB),
            ("--memtable-mib", self.memtable_mib),
            ("--seed", self.seed),
        ] {
            command.arg(option).arg(value.to_string());
        }
        command.arg("--dir").arg(dir);
        if group.warm {
            command.arg("--warm");
        }
        Ok(command)
    }
}

/// Time an operation of the first step, over all steps named, net of the driver's own; `None` if one is missing.
fn net_micros(round: &Round, name: Name, labels: &[&str]) -> Option<f64> {
    let mut net = 0.0;
    let mut ops = 0;
    for (place, label) in labels.iter().enumerate() {
        let own = round.get(&((*label).to_owned(), name))?;
        let driver = round.get(&((*label).to_owned(), Name::Null))?;
        net += own.micros() * own.ops as f64 - driver.micros() * driver.ops as f64;
        if place == 0 {
            ops = own.ops;
        }
    }
    // Below a nanosecond the clock says nothing.
    (ops > 0).then(|| (net / ops as f64).max(0.001))
}

/// Ratios of one thing asked for, a round each.
fn ratios(rounds: &[Round], subject: Name, labels: &[&str], against: Against) -> Vec<f64> {
    rounds
        .iter()
        .filter_map(|round| {
            let peers = against.names().into_iter().filter(|name| *name != subject);
            let best = peers.filter_map(|name| net_micros(round, name, labels)).min_by(f64::total_cmp)?;
            Some(best / net_micros(round, subject, labels)?)
        })
        .collect()
}

fn gates(line: &Line, bench: &Bench, rounds: &[Round]) -> Vec<Gate> {
    let wanted = |set: Set| line.gates == Set::All || line.gates == set;
    let mut gates = Vec::new();
    for Asked { id, labels, against, factor, .. } in ASKED.iter().filter(|asked| wanted(asked.set)) {
        let among: Vec<&str> =
            against.names().into_iter().filter(|name| bench.engines.contains(name)).map(Name::text).collect();
        let metric =
            format!("times_as_fast_as_{}", if among.is_empty() { "nobody_here".into() } else { among.join("+") });
        let bounds = ratio_interval(&ratios(rounds, line.subject, labels, *against), bench.seed);
        gates.push(Gate::judged(id, &metric, "x", bounds, Wanted::AtLeast, *factor, bench.seed, bench.scale()));
    }
    if wanted(Set::Design) {
        gates.push(stall_gate(line, bench, rounds));
        gates.push(space_gate(line, bench, rounds));
    }
    if wanted(Set::Tax) {
        gates.extend(
            TAX.iter().map(|(id, label, share, nanos)| tax_gate(line, bench, rounds, (id, label, *share, *nanos))),
        );
        gates.push(tax_space_gate(line, bench, rounds));
    }
    gates
}

/// The longest wait in the fills, RocksDB's over ours.
fn stall_gate(line: &Line, bench: &Bench, rounds: &[Round]) -> Gate {
    let longest = |round: &Round, name: Name| {
        ["fillrandom", "over.overwrite"]
            .iter()
            .filter_map(|label| Some(round.get(&((*label).to_owned(), name))?.max_us))
            .reduce(f64::max)
    };
    let ratios: Vec<f64> = rounds
        .iter()
        .filter_map(|round| Some(longest(round, Name::Rocksdb)? / longest(round, line.subject)?))
        .collect();
    let bounds = ratio_interval(&ratios, bench.seed);
    Gate::judged("worst_stall", "shorter_than_rocksdb", "x", bounds, Wanted::AtLeast, 1.0, bench.seed, bench.scale())
}

/// Space after settling over the bytes of keys and values. What is preallocated weighs too much in a small store, so only the full
/// size is judged.
fn space_gate(line: &Line, bench: &Bench, rounds: &[Round]) -> Gate {
    let shares: Vec<f64> = rounds
        .iter()
        .filter_map(|round| {
            let disk = round.get(&("settle".to_owned(), line.subject))?.disk_bytes;
            let rows = round.get(&("readseq".to_owned(), line.subject))?.found;
            (rows > 0).then(|| disk as f64 / (rows * 116) as f64)
        })
        .collect();
    let mut bounds = interval(&shares, bench.seed);
    if bench.scale() < 1.0 {
        bounds = bounds.map(|found| Interval { low: f64::NEG_INFINITY, high: f64::INFINITY, ..found });
    }
    Gate::judged("space", "disk_over_data", "x", bounds, Wanted::AtMost, 160.0 / 146.0, bench.seed, bench.scale())
}

fn tax_gate(line: &Line, bench: &Bench, rounds: &[Round], (id, label, share, nanos): (&str, &str, f64, f64)) -> Gate {
    let pairs: Vec<(f64, f64)> = rounds
        .iter()
        .filter_map(|round| {
            Some((net_micros(round, line.subject, &[label])? * 1e3, net_micros(round, Name::Plain, &[label])? * 1e3))
        })
        .collect();
    let plain: Vec<f64> = pairs.iter().map(|(_, plain)| *plain).collect();
    let more: Vec<f64> = pairs.iter().map(|(sealed, plain)| sealed - plain).collect();
    let threshold = (share * median(&plain)).max(nanos);
    Gate::judged(
        id,
        "more_than_plain",
        "ns",
        interval(&more, bench.seed),
        Wanted::AtMost,
        threshold,
        bench.seed,
        bench.scale(),
    )
}

fn tax_space_gate(line: &Line, bench: &Bench, rounds: &[Round]) -> Gate {
    let more: Vec<f64> = rounds
        .iter()
        .filter_map(|round| {
            let disk = |name| Some(round.get(&("settle".to_owned(), name))?.disk_bytes as f64);
            let rows = round.get(&("readseq".to_owned(), line.subject))?.found;
            (rows > 0).then_some((disk(line.subject)? - disk(Name::Plain)?) / rows as f64)
        })
        .collect();
    Gate::judged(
        "tax.space",
        "more_than_plain",
        "bytes",
        interval(&more, bench.seed),
        Wanted::AtMost,
        9.0,
        bench.seed,
        bench.scale(),
    )
}

/// Median time an operation, the driver's own inside.
fn print_table(engines: &[Name], rounds: &[Round]) {
    println!(
        "\nus an operation (median of {} rounds, the driver's own inside); disk after settling in MB",
        rounds.len()
    );
    let column = |text: &str| format!("{text:>15}");
    println!("{:<24}{}", "", engines.iter().map(|name| column(name.text())).collect::<String>());
    let of = |label: &str, name: Name, value: fn(&StepReport) -> f64| {
        let found: Vec<f64> =
            rounds.iter().filter_map(|round| round.get(&(label.to_owned(), name)).map(value)).collect();
        column(&if found.is_empty() { "-".into() } else { format!("{:.3}", median(&found)) })
    };
    for group in GROUPS {
        for step in group.steps {
            let label = label(group, *step);
            println!(
                "{label:<24}{}",
                engines.iter().map(|name| of(&label, *name, StepReport::micros)).collect::<String>()
            );
        }
    }
    let disk: String =
        engines.iter().map(|name| of("settle", *name, |report| report.disk_bytes as f64 / 1e6)).collect();
    let stall: String = engines.iter().map(|name| of("fillrandom", *name, |report| report.max_us)).collect();
    println!("{:<24}{disk}\n{:<24}{stall}\n", "disk", "fillrandom worst us");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(ops: u64, micros: f64) -> StepReport {
        StepReport {
            engine: String::new(),
            bench: String::new(),
            threads: 1,
            ops,
            ops_per_s: 1e6 / micros,
            p50_us: 0.0,
            p99_us: 0.0,
            p999_us: 0.0,
            max_us: 0.0,
            cpu_us_per_op: 0.0,
            written_bytes: 0,
            disk_bytes: 0,
            peak_rss_bytes: 0,
            found: 0,
        }
    }

    fn round(ours: f64, fjall: f64, lmdb: f64) -> Round {
        [(Name::Null, 0.1), (Name::Waxseal, ours), (Name::Fjall, fjall), (Name::Lmdb, lmdb)]
            .into_iter()
            .map(|(name, micros)| (("fillrandom".to_owned(), name), report(1000, micros)))
            .collect()
    }

    #[test]
    fn a_ratio_is_net_of_the_driver_and_to_the_best_peer_of_the_same_round() {
        let rounds = [round(1.1, 3.1, 4.1), round(1.1, 4.1, 2.1)];
        let found = ratios(&rounds, Name::Waxseal, &["fillrandom"], Against::Best);
        assert!((found[0] - 3.0).abs() < 1e-9 && (found[1] - 2.0).abs() < 1e-9, "{found:?}");
        let lsm = ratios(&rounds, Name::Waxseal, &["fillrandom"], Against::Lsm);
        assert!((lsm[1] - 4.0).abs() < 1e-9);
        assert!(ratios(&rounds, Name::Waxseal, &["settle"], Against::Best).is_empty());
    }

    #[test]
    fn settling_is_spread_over_the_records_of_the_fill() {
        let mut one = round(1.1, 3.1, 4.1);
        for (name, micros) in [(Name::Null, 0.0001), (Name::Waxseal, 1000.0)] {
            one.insert(("settle".to_owned(), name), report(1, micros));
        }
        let net = net_micros(&one, Name::Waxseal, &["fillrandom", "settle"]).expect("both are there");
        assert!((net - 2.0).abs() < 1e-3, "{net}");
    }

    #[test]
    fn every_gate_names_steps_that_are_run() {
        let labels: Vec<String> =
            GROUPS.iter().flat_map(|group| group.steps.iter().map(move |step| label(group, *step))).collect();
        for asked in ASKED {
            for label in asked.labels {
                assert!(labels.iter().any(|known| known == label), "{label}");
            }
        }
        let mut unique = labels.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), labels.len(), "two groups share a label");
    }
}
