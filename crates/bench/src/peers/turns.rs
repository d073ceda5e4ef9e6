//! The rounds: the groups of a suite in sequence, and for each group all stores in turn, each in its own process.
//!
//! So compared stores are measured within seconds; their order rotates. A run with a time limit gives every suite its
//! share of the remaining time and starts no group after that. At the end it stops running children, and keeps the
//! results that they have printed.

use super::suites::{FULL, Group, Suite, groups, synced_commits};
use crate::engine::{File, Name, Sizes, backups_of};
use crate::measure::StepReport;
use crate::probe::{self, Probes};
use crate::run::{Step, Window};
use crate::{Outcome, child};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// The results of one round of one suite.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) reports: BTreeMap<(String, Name), StepReport>,
    /// Labels in the order of execution.
    pub(super) order: Vec<String>,
    /// Raw disk measurements, if the suite needs them.
    pub(super) probes: Probes,
    /// The windows of the mixed load.
    pub(super) windows: BTreeMap<Name, Vec<Window>>,
    /// Number of the subject's levels with tables when reads began.
    pub(super) levels: Option<u64>,
    /// Memory budget of a store in a step: its cache and two memtables, one filling and one being flushed.
    pub(super) budgets_mib: BTreeMap<String, u64>,
}

impl Round {
    pub(super) fn insert(&mut self, label: String, name: Name, report: StepReport, budget_mib: u64) {
        if !self.order.contains(&label) {
            self.order.push(label.clone());
        }
        self.budgets_mib.insert(label.clone(), budget_mib);
        self.reports.insert((label, name), report);
    }

    /// Returns the report of a step of a store.
    pub(super) fn get(&self, label: &str, name: Name) -> Option<&StepReport> {
        self.reports.get(&(label.to_owned(), name))
    }
}

/// The compared stores, their sizes, directory and time limit.
pub(super) struct Bench {
    pub(super) engines: Vec<Name>,
    pub(super) subject: Name,
    pub(super) file: File,
    pub(super) sizes: Sizes,
    /// The children's settings file, if it is not the built-in one.
    pub(super) settings: Option<PathBuf>,
    pub(super) num: u64,
    pub(super) rounds: u64,
    pub(super) seed: u64,
    pub(super) dir: PathBuf,
    /// No group starts after this time; a running child is stopped a little later.
    pub(super) until: Option<Instant>,
}

/// The signal of a killed process.
const KILLED: i32 = 9;

/// Additional time for a running child after the time limit.
const GRACE: Duration = Duration::from_secs(45);

/// Time limit of a child in a run without a limit: more than any step takes.
const LONGEST: Duration = Duration::from_secs(6 * 3600);

impl Bench {
    /// Returns the scale; 1 is the full size.
    pub(super) fn scale(&self) -> f64 {
        self.num as f64 / FULL as f64
    }

    /// Runs suites in sequence, and passes all rounds so far to `shown` after each round.
    pub(super) fn suites(
        &self,
        suites: &[Suite],
        shown: &mut dyn FnMut(Suite, &[Round]) -> Outcome<()>,
    ) -> Outcome<Vec<Round>> {
        let mut rounds = Vec::new();
        for (place, suite) in suites.iter().enumerate() {
            let rest: f64 = suites[place..].iter().map(|suite| suite.weight()).sum();
            let until = self.until.map(|until| {
                let left = until.saturating_duration_since(Instant::now());
                Instant::now() + left.mul_f64(suite.weight() / rest)
            });
            for number in 0..suite.rounds(self.rounds) {
                if is_over(until) {
                    break;
                }
                rounds.push(self.round(*suite, number, until)?);
                shown(*suite, &rounds)?;
            }
        }
        Ok(rounds)
    }

    fn round(&self, suite: Suite, number: u64, until: Option<Instant>) -> Outcome<Round> {
        let mut round = Round::default();
        for (place, group) in groups(suite, &self.file, &self.sizes, self.num).iter().enumerate() {
            if is_over(until) {
                break;
            }
            let mut order = self.engines.clone();
            order.rotate_left((number as usize + place) % self.engines.len());
            order.retain(|name| group.needs.is_none_or(|feature| name.has(feature)));
            let steps: Vec<String> = group.steps.iter().map(|step| group.label(*step)).collect();
            for name in order {
                eprintln!("{suite:?} round {} {} {}", number + 1, name.text(), steps.join(","));
                self.turn(name, group, &mut round)?;
            }
        }
        // The raw disk is measured in the same round as the stores, and for as long, since the first hundreds of syncs
        // after a file was created or removed are faster.
        match suite {
            Suite::Core => round.probes.sync_us = probe::sync_micros(&self.dir, synced_commits(self.num, 1))?,
            Suite::Values => round.probes.write_bytes_s = probe::write_rate(&self.dir, self.sizes.large_mib << 20)?,
            Suite::Recovery => round.probes.write_bytes_s = probe::write_rate(&self.dir, self.sizes.recover_mib << 20)?,
            _ => {}
        }
        Ok(round)
    }

    /// Runs one group on one store.
    fn turn(&self, name: Name, group: &Group, round: &mut Round) -> Outcome<()> {
        let dir = self.dir.join(name.text()).join(group.store);
        if group.is_fresh {
            remove_store(&dir)?;
        }
        let windows = self.dir.join("windows.json");
        let at_most = self.until.map_or(LONGEST, |until| until.saturating_duration_since(Instant::now()) + GRACE);
        let ended = child::finish(self.command(name, group, &dir, &windows)?.spawn()?, at_most)?;
        let ends_well = |status: ExitStatus| status.success() || (group.is_killed && status.signal() == Some(KILLED));
        if !ended.status.is_none_or(ends_well) {
            return Err(format!("{}: {}", name.text(), ended.complaint.trim()).into());
        }
        for (step, line) in group.steps.iter().zip(ended.output.lines()) {
            let budget = group.shape.cache_mib + 2 * group.shape.memtable_mib;
            round.insert(group.label(*step), name, serde_json::from_str(line)?, budget);
        }
        if group.steps.contains(&Step::Mixed)
            && let Ok(points) = std::fs::read(&windows)
        {
            if name != Name::Null {
                round.windows.insert(name, serde_json::from_slice(&points)?);
            }
            std::fs::remove_file(&windows)?;
        }
        if name == self.subject && group.prefix == "deep." {
            round.levels = levels(name, &dir)?;
        }
        if group.is_last {
            remove_store(&dir)?;
        }
        Ok(())
    }

    fn command(&self, name: Name, group: &Group, dir: &Path, windows: &Path) -> Outcome<std::process::Command> {
        let steps: Vec<String> = group.steps.iter().map(|step| step.text()).collect();
        let shape = &group.shape;
        let mut command = child::command(["run", "--json", "--engine", name.text(), "--bench", &steps.join(",")])?;
        for (option, value) in [
            ("--num", Some(shape.num)),
            ("--ops", Some(group.ops.unwrap_or(shape.num))),
            ("--threads", Some(group.threads)),
            ("--key", Some(self.file.shared.key_bytes)),
            ("--value", Some(shape.value_bytes)),
            ("--cache-mib", Some(shape.cache_mib)),
            ("--memtable-mib", Some(shape.memtable_mib)),
            ("--table-kib", shape.table_kib),
            ("--level-kib", shape.level_kib),
            ("--seed", Some(self.seed)),
            // For the driver alone, one window is enough.
            ("--seconds", Some(if name == Name::Null { self.sizes.window_seconds } else { self.sizes.mixed_seconds })),
            ("--window-seconds", Some(self.sizes.window_seconds)),
        ] {
            if let Some(value) = value {
                command.arg(option).arg(value.to_string());
            }
        }
        command.arg("--dir").arg(dir).arg("--windows").arg(windows);
        if let Some(settings) = &self.settings {
            command.arg("--settings").arg(settings);
        }
        for (flag, is_set) in [("--warm", group.is_warm), ("--cold", group.is_cold), ("--kill", group.is_killed)] {
            if is_set {
                command.arg(flag);
            }
        }
        Ok(command)
    }
}

/// Removes a store and its backups, if they exist.
fn remove_store(dir: &Path) -> Outcome<()> {
    for dir in [dir, &backups_of(dir)] {
        if dir.exists() {
            std::fs::remove_dir_all(dir)?;
        }
    }
    Ok(())
}

fn is_over(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() >= until)
}

/// Returns the number of levels with tables, for our own store only.
fn levels(name: Name, dir: &Path) -> Outcome<Option<u64>> {
    if !matches!(name, Name::Waxseal | Name::Plain) || !dir.exists() {
        return Ok(None);
    }
    let db = waxseal::Db::open_read_only(dir)?;
    let metrics = db.metrics();
    let family = metrics.families.iter().find(|family| family.name == "default");
    let filled = family.map(|family| family.levels.iter().filter(|level| level.tables > 0).count() as u64);
    db.close()?;
    Ok(filled)
}
