//! The requirements on the subject that are not time ratios to a peer: stalls, space, memory, bytes written, the disk's
//! own speed, the cost of seals. Pure, except for the counts of `synced`.

use super::asked::net_micros;
use super::suites::{Suite, growth_prefix};
use super::turns::{Bench, Round};
use crate::engine::Name;
use crate::experiment::exactly;
use crate::gate::Gate;
use crate::stats::{Interval, Wanted, interval, median, ratio_interval};

const MIB: f64 = (1 << 20) as f64;

/// Memory above the budget that a row may use.
const MEMORY_MIB: f64 = 64.0;

/// The fills whose waits are judged.
const FILLS: [&str; 2] = ["fillrandom", "over.overwrite"];

/// The allowed cost of seals: a share of the plain engine's time or a number of nanoseconds, whichever is more.
const TAX: &[(&str, &str, f64, f64)] = &[
    ("tax.put", "fillrandom", 0.02, 40.0),
    ("tax.get", "readrandom", 0.03, 30.0),
    ("tax.scan", "readseq", 0.05, 25.0),
];

/// The rounds and their bench.
pub(super) struct Limits<'a> {
    pub(super) bench: &'a Bench,
    pub(super) rounds: &'a [Round],
}

impl Limits<'_> {
    /// Returns all gates of these suites, except for the cost of seals.
    pub(super) fn all(&self, suites: &[Suite]) -> Vec<Gate> {
        let mut gates = vec![self.memory()];
        for suite in suites {
            match suite {
                Suite::Core => {
                    gates.extend([self.stall(), self.own_wait(), self.levels(), self.space(), self.sync_cost()])
                }
                Suite::Values => gates.extend([self.disk_rate(), self.written_once()]),
                Suite::Load => gates.extend([self.amplification(), self.load_space()]),
                Suite::Recovery => gates.push(self.recovery()),
                Suite::Growth => gates.extend(self.slopes()),
                Suite::Mixed => gates.push(self.steadiness()),
                Suite::Threads | Suite::More | Suite::Budget | Suite::Beyond | Suite::Cold | Suite::Tables => {}
            }
        }
        gates
    }

    fn judged(
        &self,
        id: &str,
        metric: &str,
        unit: &'static str,
        of: Option<Interval>,
        wanted: Wanted,
        at: f64,
    ) -> Gate {
        Gate::judged(id, metric, unit, of, wanted, at, self.bench.seed, self.bench.scale())
    }

    fn each(&self, of: impl Fn(&Round) -> Option<f64>) -> Vec<f64> {
        self.rounds.iter().filter_map(of).collect()
    }

    /// Returns the lowest value among the LSM peers.
    fn better_peer(&self, of: impl Fn(Name) -> Option<f64>) -> Option<f64> {
        let peers = [Name::Fjall, Name::Rocksdb].into_iter().filter(|name| *name != self.bench.subject);
        peers.filter_map(of).min_by(f64::total_cmp)
    }

    /// The longest wait in the fills: RocksDB's divided by ours.
    fn stall(&self) -> Gate {
        let longest = |round: &Round, name: Name| {
            FILLS.iter().filter_map(|label| Some(round.get(label, name)?.max_us)).reduce(f64::max)
        };
        let ratios = self.each(|round| Some(longest(round, Name::Rocksdb)? / longest(round, self.bench.subject)?));
        let bounds = ratio_interval(&ratios, self.bench.seed);
        self.judged("worst_stall", "shorter_than_rocksdb", "x", bounds, Wanted::AtLeast, 1.0)
    }

    /// The longest wait in the fills that the store itself caused.
    fn own_wait(&self) -> Gate {
        let longest = self.each(|round| {
            let fills = FILLS.iter().filter_map(|label| round.get(label, self.bench.subject)?.own_wait_us);
            fills.reduce(f64::max).map(|micros| micros / 1e3)
        });
        let most = longest.iter().copied().reduce(f64::max).map(|most| exactly(most, longest.len() as u64));
        self.judged("own_wait", "of_our_making", "ms", most, Wanted::AtMost, 4.0)
    }

    /// Reads measure levels only if several levels have tables.
    fn levels(&self) -> Gate {
        let levels = self.each(|round| Some(round.levels? as f64));
        let least = levels.iter().copied().reduce(f64::min).map(|least| exactly(least, levels.len() as u64));
        self.judged("levels", "filled_when_reads_begin", "levels", least, Wanted::AtLeast, 3.0)
    }

    /// Space after settling, divided by the bytes of keys and values. Preallocation dominates in a small store, so only
    /// the full size is judged.
    fn space(&self) -> Gate {
        let shares = self.each(|round| {
            let rows = round.get("readseq", self.bench.subject)?.found;
            let disk = round.get("deep.settle", self.bench.subject)?.disk_bytes;
            (rows > 0).then(|| disk as f64 / (rows * 116) as f64)
        });
        self.judged("space", "disk_over_data", "x", self.at_full_size(&shares), Wanted::AtMost, 160.0 / 146.0)
    }

    /// The same ratio after the long random load.
    fn load_space(&self) -> Gate {
        let shares = self.each(|round| {
            let settled = round.get("load.settle", self.bench.subject)?;
            let written = round.get("load.fillrandom", self.bench.subject)?.ops as f64;
            // Expected number of distinct keys among random ones.
            Some(settled.disk_bytes as f64 / (written * (1.0 - (-1f64).exp()) * 116.0))
        });
        self.judged("load.space", "disk_over_data", "x", self.at_full_size(&shares), Wanted::AtMost, 1.15)
    }

    fn at_full_size(&self, shares: &[f64]) -> Option<Interval> {
        let found = interval(shares, self.bench.seed)?;
        let undecided = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY, ..found };
        Some(if self.bench.scale() < 1.0 { undecided } else { found })
    }

    /// Memory above the budget (cache and two memtables) and the driver's own, in the row with the maximum.
    fn memory(&self) -> Gate {
        let over = |round: &Round| {
            let rows = round.reports.keys().filter(|(_, name)| *name == self.bench.subject);
            rows.filter_map(|(label, _)| self.over_memory(round, label)).reduce(f64::max)
        };
        let most = self.each(over).into_iter().reduce(f64::max).map(|most| exactly(most, self.rounds.len() as u64));
        self.judged("memory", "over_budget", "MiB", most, Wanted::AtMost, MEMORY_MIB)
    }

    /// Returns true if the subject exceeded its memory limit in this row.
    pub(super) fn exceeds_memory(&self, label: &str) -> bool {
        self.rounds.iter().filter_map(|round| self.over_memory(round, label)).any(|over| over > MEMORY_MIB)
    }

    fn over_memory(&self, round: &Round, label: &str) -> Option<f64> {
        let budget = *round.budgets_mib.get(label)?;
        let own = round.get(label, self.bench.subject)?.peak_rss_bytes as f64;
        let driver = round.get(label, Name::Null)?.peak_rss_bytes as f64;
        Some((own - driver) / MIB - budget as f64)
    }

    /// Time of one synced writer, relative to a raw page write and sync.
    fn sync_cost(&self) -> Gate {
        let ratios = self.each(|round| {
            let micros = net_micros(round, self.bench.subject, &["fillsync"])?;
            (round.probes.sync_us > 0.0).then(|| micros / round.probes.sync_us)
        });
        let bounds = ratio_interval(&ratios, self.bench.seed);
        self.judged("fillsync_cost", "over_write_and_fdatasync", "x", bounds, Wanted::AtMost, 1.1)
    }

    /// Rate of a fill of 20 kB values until the last byte is synced, relative to the raw disk rate.
    fn disk_rate(&self) -> Gate {
        let shares = self.each(|round| {
            let ops = round.get("20k.fillrandom", self.bench.subject)?.ops as f64;
            let micros = net_micros(round, self.bench.subject, &["20k.fillrandom", "20k.sync"])? * ops;
            let rate = ops * 20_016.0 / (micros / 1e6);
            (round.probes.write_bytes_s > 0.0).then(|| rate / round.probes.write_bytes_s * 100.0)
        });
        let bounds = interval(&shares, self.bench.seed);
        self.judged("20k.disk_rate", "of_the_disks_own", "%", bounds, Wanted::AtLeast, 85.0)
    }

    /// Checks that each large value is written only once.
    fn written_once(&self) -> Gate {
        let shares = self.each(|round| {
            let fill = round.get("20k.fillrandom", self.bench.subject)?;
            let sync = round.get("20k.sync", self.bench.subject)?;
            Some((fill.written_bytes + sync.written_bytes) as f64 / (fill.ops * 20_016) as f64)
        });
        self.judged("20k.written", "bytes_per_byte", "x", interval(&shares, self.bench.seed), Wanted::AtMost, 1.1)
    }

    /// Bytes written in a long random load until settled, relative to the better peer's.
    fn amplification(&self) -> Gate {
        let written = |round: &Round, name: Name| {
            let of = |label: &str| Some(round.get(label, name)?.written_bytes as f64);
            Some(of("load.fillrandom")? + of("load.settle")?)
        };
        let ratios = self
            .each(|round| Some(written(round, self.bench.subject)? / self.better_peer(|name| written(round, name))?));
        let bounds = ratio_interval(&ratios, self.bench.seed);
        self.judged("load.written", "over_the_better_peer", "x", bounds, Wanted::AtMost, 1.0)
    }

    /// Seconds to open the store of a killed process, minus the raw disk time for the bytes that recovery writes.
    fn recovery(&self) -> Gate {
        let seconds = self.each(|round| {
            let opened = round.get("recover.open", self.bench.subject)?;
            let disk =
                (round.probes.write_bytes_s > 0.0).then(|| opened.written_bytes as f64 / round.probes.write_bytes_s)?;
            Some((opened.micros() / 1e6 - disk).max(0.0))
        });
        let limit = 4.0 * self.bench.sizes.recover_mib as f64 / 512.0;
        self.judged(
            "recover.time",
            "beside_the_disks_own",
            "s",
            interval(&seconds, self.bench.seed),
            Wanted::AtMost,
            limit,
        )
    }

    /// Time ratio of the largest store to the smallest, relative to the same ratio of LMDB.
    fn slopes(&self) -> Vec<Gate> {
        let growth = &self.bench.sizes.growth;
        let slope = |round: &Round, name: Name, step: &str| {
            let of = |num: &u64| net_micros(round, name, &[format!("{}{step}", growth_prefix(*num))]);
            Some(of(growth.last()?)? / of(growth.first()?)?)
        };
        let gate = |step: &str| {
            let ratios =
                self.each(|round| Some(slope(round, self.bench.subject, step)? / slope(round, Name::Lmdb, step)?));
            let bounds = ratio_interval(&ratios, self.bench.seed);
            self.judged(&format!("growth.{step}_slope"), "over_lmdbs", "x", bounds, Wanted::AtMost, 1.0)
        };
        ["readrandom", "seekrandom"].map(gate).into()
    }

    /// Number of windows of the long mixed load whose p99.9 exceeds three times that of the median window. Each needs
    /// an explanation.
    fn steadiness(&self) -> Gate {
        let windows = self.rounds.iter().find_map(|round| round.windows.get(&self.bench.subject));
        let above = windows.filter(|windows| windows.len() > 2).map(|windows| {
            let tails: Vec<f64> = windows.iter().map(|window| window.p999_us).collect();
            let limit = 3.0 * median(&tails);
            exactly(tails.iter().filter(|tail| **tail > limit).count() as f64, tails.len() as u64)
        });
        self.judged("long.p999", "windows_above_three_medians", "count", above, Wanted::AtMost, 0.0)
    }

    /// The cost of seals, relative to the same engine without them.
    pub(super) fn tax(&self) -> Vec<Gate> {
        let mut gates: Vec<Gate> =
            TAX.iter().map(|(id, label, share, nanos)| self.tax_of(id, label, *share, *nanos)).collect();
        let more = self.each(|round| {
            let disk = |name| Some(round.get("deep.settle", name)?.disk_bytes as f64);
            let rows = round.get("readseq", self.bench.subject)?.found;
            (rows > 0).then_some((disk(self.bench.subject)? - disk(Name::Plain)?) / rows as f64)
        });
        let bounds = interval(&more, self.bench.seed);
        gates.push(self.judged("tax.space", "more_than_plain", "bytes", bounds, Wanted::AtMost, 9.0));
        gates
    }

    fn tax_of(&self, id: &str, label: &str, share: f64, nanos: f64) -> Gate {
        let pairs: Vec<(f64, f64)> = self
            .rounds
            .iter()
            .filter_map(|round| {
                let of = |name| Some(net_micros(round, name, &[label])? * 1e3);
                Some((of(self.bench.subject)?, of(Name::Plain)?))
            })
            .collect();
        let plain: Vec<f64> = pairs.iter().map(|(_, plain)| *plain).collect();
        let more: Vec<f64> = pairs.iter().map(|(sealed, plain)| sealed - plain).collect();
        let threshold = (share * median(&plain)).max(nanos);
        self.judged(id, "more_than_plain", "ns", interval(&more, self.bench.seed), Wanted::AtMost, threshold)
    }
}
