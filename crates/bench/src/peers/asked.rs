//! The required speed ratios of the subject to its peers, one per row. Pure.
//!
//! A ratio is computed within a round, minus the cost of the `null` store in the same round; its bounds come from the
//! rounds. A row without a threshold in the design must be level with the better LSM peer.

use super::Set;
use super::suites::{Row, growth_prefix};
use super::turns::{Bench, Round};
use crate::engine::Name;
use crate::gate::Gate;
use crate::stats::{Wanted, ratio_interval};

/// The peers to which a ratio is computed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Against {
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

/// A required ratio: the peers' time must be at least `factor` times ours.
pub(super) struct Asked {
    set: Set,
    id: String,
    labels: Vec<String>,
    against: Against,
    factor: f64,
}

const FJALL: Against = Against::One(Name::Fjall);
const LMDB: Against = Against::One(Name::Lmdb);

/// Suffix of the row's id, the peers, and the required ratio.
type Threshold = (&'static str, Against, f64);

/// The design's table of rows with their peers and required ratios. The first threshold of a row has no suffix.
const DESIGN: &[(&str, &[Threshold])] = &[
    ("fillrandom", &[("", Against::Best, 3.0)]),
    ("fillrandom_settled", &[("", Against::Best, 3.0)]),
    ("over.overwrite", &[("", Against::Best, 3.0)]),
    ("over.overwrite_settled", &[("", Against::Best, 3.0)]),
    ("readrandom", &[("_lmdb", LMDB, 1.0), ("_lsm", Against::Lsm, 2.0)]),
    ("readmissing", &[("", Against::Best, 2.0)]),
    ("readseq", &[("_lmdb", LMDB, 1.0), ("_lsm", Against::Lsm, 3.0)]),
    ("readreverse", &[("_lsm", Against::Lsm, 3.0)]),
    ("seekrandom", &[("_lmdb", LMDB, 1.0), ("_lsm", Against::Lsm, 3.0)]),
    ("ycsba", &[("", Against::Best, 3.0)]),
    ("ycsbb", &[("", Against::Lsm, 2.0)]),
    ("ycsbc", &[("", Against::Lsm, 2.0)]),
    ("beyond.readrandom", &[("_lmdb", LMDB, 0.65), ("_lsm", Against::Lsm, 2.5)]),
    ("beyond.seekrandom", &[("_lmdb", LMDB, 0.65), ("_lsm", Against::Lsm, 2.5)]),
    ("beyond.readseq", &[("_lsm", Against::Lsm, 4.0)]),
    ("fillrandom_2", &[("", Against::Best, 3.0)]),
    ("readrandom_2", &[("", Against::Lsm, 2.0)]),
    ("ycsba_2", &[("", Against::Lsm, 2.0)]),
    ("fillsync", &[("_1", Against::Best, 1.2)]),
    ("fillsync_16", &[("", Against::Best, 2.0)]),
    ("fillsync_64", &[("", Against::Best, 2.0)]),
];

/// Level with fjall: the requirement from before seals existed.
const LEVEL: &[(&str, &str)] = &[
    ("fillrandom", "fillrandom"),
    ("fillrandom_settled", "fillrandom_settled"),
    ("readrandom", "readrandom"),
    ("readseq", "readseq"),
    ("unsettled.readrandom", "readrandom_unsettled"),
    ("unsettled.readseq", "readseq_unsettled"),
];

/// Returns the required ratios of all rows of the run.
pub(super) fn asked(rows: &[Row], growth: &[u64]) -> Vec<Asked> {
    let grown = |row: &Row| growth.iter().any(|num| row.id.starts_with(&growth_prefix(*num)));
    let mut all = Vec::new();
    for row in rows {
        let one = |set, id: String, against, factor| Asked { set, id, labels: row.labels.clone(), against, factor };
        if let Some((_, id)) = LEVEL.iter().find(|(of, _)| *of == row.id) {
            all.push(one(Set::Level, format!("level.{id}"), FJALL, 1.0));
        }
        if let Some((id, lines)) = DESIGN.iter().find(|(id, _)| *id == row.id) {
            all.extend(
                lines
                    .iter()
                    .map(|(after, against, factor)| one(Set::Design, format!("{id}{after}"), *against, *factor)),
            );
        } else if grown(row) && row.id.ends_with(".readrandom") {
            all.push(one(Set::Design, row.id.clone(), Against::Lsm, 2.0));
        } else if grown(row) && row.id.ends_with(".seekrandom") {
            all.push(one(Set::Design, row.id.clone(), Against::Lsm, 3.0));
        } else {
            all.push(one(Set::Design, row.id.clone(), Against::Lsm, 1.0));
        }
    }
    all
}

impl Asked {
    /// Makes the gate of this row. If the subject exceeded its memory limit, the row fails regardless of speed.
    pub(super) fn judge(&self, bench: &Bench, rounds: &[Round], exceeds: impl Fn(&str) -> bool) -> Gate {
        let among: Vec<&str> =
            self.against.names().into_iter().filter(|name| bench.engines.contains(name)).map(Name::text).collect();
        let metric =
            format!("times_as_fast_as_{}", if among.is_empty() { "nobody_here".into() } else { among.join("+") });
        let bounds = ratio_interval(&ratios(rounds, bench.subject, &self.labels, self.against), bench.seed);
        let gate =
            Gate::judged(&self.id, &metric, "x", bounds, Wanted::AtLeast, self.factor, bench.seed, bench.scale());
        if self.labels.iter().any(|label| exceeds(label)) { gate.failed("over_memory") } else { gate }
    }

    pub(super) fn is_of(&self, set: Set) -> bool {
        set == Set::All || self.set == set
    }
}

/// Returns time per operation of the first step, over all named steps, minus the driver's own; `None` if a step is
/// missing.
pub(super) fn net_micros<T: AsRef<str>>(round: &Round, name: Name, labels: &[T]) -> Option<f64> {
    let mut net = 0.0;
    let mut ops = 0;
    for (place, label) in labels.iter().enumerate() {
        let own = round.get(label.as_ref(), name)?;
        let driver = round.get(label.as_ref(), Name::Null)?;
        // In a scan the driver has no rows over which its time could be spread.
        net += (own.micros() - driver.micros()) * own.ops as f64;
        if place == 0 {
            ops = own.ops;
        }
    }
    // The clock cannot resolve less than a nanosecond.
    (ops > 0).then(|| (net / ops as f64).max(0.001))
}

/// Returns the ratios of one row, one per round.
fn ratios(rounds: &[Round], subject: Name, labels: &[String], against: Against) -> Vec<f64> {
    rounds
        .iter()
        .filter_map(|round| {
            let peers = against.names().into_iter().filter(|name| *name != subject);
            let best = peers.filter_map(|name| net_micros(round, name, labels)).min_by(f64::total_cmp)?;
            Some(best / net_micros(round, subject, labels)?)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::suites::{Suite, groups};
    use super::*;
    use crate::engine::File;
    use crate::measure::StepReport;
    use clap::ValueEnum;

    fn report(ops: u64, micros: f64) -> StepReport {
        StepReport { ops, ops_per_s: 1e6 / micros, ..StepReport::default() }
    }

    fn round(ours: f64, fjall: f64, lmdb: f64) -> Round {
        let reports = [(Name::Null, 0.1), (Name::Waxseal, ours), (Name::Fjall, fjall), (Name::Lmdb, lmdb)]
            .into_iter()
            .map(|(name, micros)| (("fillrandom".to_owned(), name), report(1000, micros)))
            .collect();
        Round { reports, ..Round::default() }
    }

    fn labels(of: &[&str]) -> Vec<String> {
        of.iter().map(|label| (*label).to_owned()).collect()
    }

    #[test]
    fn a_ratio_is_net_of_the_driver_and_to_the_best_peer_of_the_same_round() {
        let rounds = [round(1.1, 3.1, 4.1), round(1.1, 4.1, 2.1)];
        let found = ratios(&rounds, Name::Waxseal, &labels(&["fillrandom"]), Against::Best);
        assert!((found[0] - 3.0).abs() < 1e-9 && (found[1] - 2.0).abs() < 1e-9, "{found:?}");
        let lsm = ratios(&rounds, Name::Waxseal, &labels(&["fillrandom"]), Against::Lsm);
        assert!((lsm[1] - 4.0).abs() < 1e-9);
        assert!(ratios(&rounds, Name::Waxseal, &labels(&["settle"]), Against::Best).is_empty());
    }

    #[test]
    fn settling_is_spread_over_the_records_of_the_fill() {
        let mut one = round(1.1, 3.1, 4.1);
        for (name, micros) in [(Name::Null, 0.0001), (Name::Waxseal, 1000.0)] {
            one.reports.insert(("settle".to_owned(), name), report(1, micros));
        }
        let net = net_micros(&one, Name::Waxseal, &["fillrandom", "settle"]).expect("both are there");
        assert!((net - 2.0).abs() < 1e-3, "{net}");
    }

    #[test]
    fn every_row_of_the_design_is_run_and_every_row_that_is_run_is_judged() {
        let file = File::read(None).expect("built in");
        let sizes = file.sizes(false);
        let rows: Vec<Row> = Suite::value_variants()
            .iter()
            .flat_map(|suite| groups(*suite, &file, sizes, sizes.records))
            .flat_map(|group| group.rows())
            .collect();
        for id in DESIGN.iter().map(|(id, _)| id).chain(LEVEL.iter().map(|(id, _)| id)) {
            assert!(rows.iter().any(|row| row.id == *id), "{id}");
        }
        let asked = asked(&rows, &sizes.growth);
        for row in &rows {
            assert!(asked.iter().any(|one| one.labels == row.labels), "{}", row.id);
        }
        let mut ids: Vec<&str> = asked.iter().map(|one| one.id.as_str()).collect();
        assert!(ids.iter().all(|id| !id.contains(' ')));
        ids.sort_unstable();
        let count = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), count, "two lines share an id");
    }
}
