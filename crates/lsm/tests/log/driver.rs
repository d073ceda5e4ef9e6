//! A log driven by scripts of small steps, and its invariants after any crash.
//!
//! `Manifest` simulates the manifest: durable at once, which is the worst case for a log that must be durable before
//! it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use waxseal_lsm::batch::{Batch, Body};
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_lsm::env::{Env, Machine};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::identity::StoreIdentity;
use waxseal_lsm::options::Settings;
use waxseal_lsm::record::Kind;
use waxseal_lsm::seam::Plain;
use waxseal_lsm::wal::{LogEnd, LogProofs, LogStart, Precondition, Ticket, Wal, Whole, recover};

/// One step of a script. Commits are identified by their order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Do {
    /// Orders, copies, takes and acknowledges a batch with a value of this many bytes.
    Commit(usize),
    /// Commits, then syncs.
    CommitSync(usize),
    /// Commits on the uncontended fast path if possible, otherwise normally.
    Alone(usize),
    /// Only orders a batch.
    Order(usize),
    /// Copies the n-th batch that is ordered but not copied.
    Copy(usize),
    /// Takes and acknowledges the complete frames.
    Take,
    Drain,
    Sync,
    SyncFull,
    Prepare,
    /// Lets 0.1 seconds pass.
    Pass,
    /// Seals the segments that are due.
    Seal,
    /// Makes all taken frames permanent, and retires the segments below.
    Retire,
    /// Retires the segments without making them durable first.
    RetireTaken,
    /// Releases the retired segments.
    Recycle,
    /// Switches to a short segment, durably.
    TurnShort,
    /// Removes the segments kept for recycling.
    GiveBack,
    Close,
}

/// The facts that the manifest would hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manifest {
    pub(crate) start: LogStart,
    pub(crate) facts: LogProofs,
    /// Number of commits below the start.
    pub(crate) retired: usize,
}

/// A log, and the record of the steps taken on it.
pub(crate) struct Driver {
    pub(crate) env: Env,
    /// The disk, if it can crash: a store into a mapping reports no error.
    pub(crate) sim: Option<SimFs>,
    pub(crate) wal: Wal<usize>,
    pub(crate) manifest: Manifest,
    /// Bodies in log order, each with the end offset of its frame.
    pub(crate) bodies: Vec<(Vec<u8>, u64)>,
    pending: Vec<(Ticket, Body)>,
    /// Segments that the manifest no longer names.
    retired: Vec<u64>,
    pub(crate) taken: usize,
    /// Number of acknowledged commits. `synced` counts the commits below a successful sync.
    pub(crate) acknowledged: usize,
    pub(crate) synced: usize,
}

pub(crate) fn settings(mapped: bool) -> Settings {
    Settings {
        segment_bytes: 32 * 1024,
        ring_bytes: 16 * 1024,
        drain_bytes: 8 * 1024,
        wal_mapped: mapped,
        ..Settings::default()
    }
}

pub(crate) fn body(number: usize, bytes: usize) -> Body {
    let mut batch = Batch::new();
    let value: Vec<u8> = (0..bytes).map(|at| (at * 7 + number * 31) as u8).collect();
    batch.push(0, Kind::Put, format!("key{number:06}").as_bytes(), &value, &Plain).unwrap();
    if number.is_multiple_of(3) {
        batch.push(1, Kind::Delete, b"other", b"", &Plain).unwrap();
    }
    batch.seal()
}

impl Driver {
    pub(crate) fn create(env: &Env, dir: &Path, settings: &Settings, start: u64) -> Result<Driver> {
        Driver::create_behind(env, dir, settings, start, 0)
    }

    /// Creates the log of a store that had this many operations before.
    pub(crate) fn create_behind(env: &Env, dir: &Path, settings: &Settings, start: u64, seqno: u64) -> Result<Driver> {
        let next = Arc::new(AtomicU64::new(1));
        let numbers = Arc::new(move || next.fetch_add(1, Ordering::Relaxed));
        let (wal, log_start) = Wal::create(env, (dir, &StoreIdentity::default()), settings, start, seqno + 1, numbers)?;
        let facts = LogProofs { permanent: start, seqno: seqno + 1, ..LogProofs::default() };
        Ok(Driver {
            env: env.clone(),
            sim: None,
            wal,
            manifest: Manifest { start: log_start, facts, retired: 0 },
            bodies: Vec::new(),
            pending: Vec::new(),
            retired: Vec::new(),
            taken: 0,
            acknowledged: 0,
            synced: 0,
        })
    }

    pub(crate) fn run(&mut self, script: &[Do]) -> Result<()> {
        script.iter().try_for_each(|step| self.step(*step))
    }

    /// Takes a step; fails after a crash, because the process is gone.
    pub(crate) fn step(&mut self, step: Do) -> Result<()> {
        let before = (self.acknowledged, self.synced, self.manifest.clone());
        let outcome = self.take_step(step);
        if self.sim.as_ref().is_some_and(SimFs::is_crashed) {
            (self.acknowledged, self.synced, self.manifest) = before;
            return Err(Error::invalid("crashed"));
        }
        outcome
    }

    fn take_step(&mut self, step: Do) -> Result<()> {
        match step {
            Do::Commit(bytes) => {
                self.step(Do::Order(bytes))?;
                self.step(Do::Copy(self.pending.len() - 1))?;
                self.step(Do::Take)
            }
            Do::CommitSync(bytes) => {
                self.step(Do::Commit(bytes))?;
                self.step(Do::Sync)
            }
            Do::Alone(bytes) => {
                let number = self.bodies.len();
                let body = body(number, bytes);
                self.bodies.push((body.bytes.to_vec(), 0));
                let Some(whole) = self.wal.try_append_fast(&body.sum(), &Precondition::default()) else {
                    self.bodies.pop();
                    return self.step(Do::Commit(bytes));
                };
                self.bodies[number].1 = whole.end;
                self.wal.acknowledge(whole.end)?;
                self.taken += 1;
                // The committing thread considers it acknowledged.
                self.acknowledged = number + 1;
                Ok(())
            }
            Do::Order(bytes) => {
                let number = self.bodies.len();
                let body = body(number, bytes);
                // Recorded first: a crash during the call may leave it in the log.
                self.bodies.push((body.bytes.to_vec(), 0));
                match self.wal.order(&body, number) {
                    Ok(ticket) => {
                        self.bodies[number].1 = ticket.end;
                        self.pending.push((ticket, body));
                        Ok(())
                    }
                    Err(error) => {
                        self.bodies.pop();
                        Err(error)
                    }
                }
            }
            Do::Copy(at) => {
                let (ticket, body) = self.pending.remove(at);
                self.wal.copy(&ticket, &body)
            }
            Do::Take => {
                let mut group: Vec<Whole<usize>> = Vec::new();
                self.wal.take_whole(&mut group);
                for whole in &group {
                    assert_eq!(whole.payload, self.taken, "taken in order");
                    assert_eq!(whole.end, self.bodies[self.taken].1);
                    self.taken += 1;
                }
                if let Some(last) = group.last() {
                    self.wal.acknowledge(last.end)?;
                    self.acknowledged = self.taken;
                }
                Ok(())
            }
            Do::Drain => self.wal.drain().map(drop),
            Do::Sync => {
                let place = self.wal.sync_all()?;
                self.synced = self.bodies.iter().take_while(|(_, end)| (1..=place.offset).contains(end)).count();
                self.manifest.facts.witness = place.offset;
                Ok(())
            }
            Do::SyncFull => self.wal.sync_full().map(drop),
            Do::Prepare => {
                if !self.wal.prepare()? && self.wal.prepare_more_due() {
                    self.wal.prepare_some()?;
                }
                Ok(())
            }
            Do::Pass => {
                self.sim.iter().for_each(|sim| sim.clock().advance_nanos(100_000_000));
                Ok(())
            }
            Do::Seal => {
                let seals = self.wal.seals_due();
                self.wal.sealed(&seals);
                self.manifest.facts.sealed.extend(seals);
                Ok(())
            }
            Do::Retire => {
                self.step(Do::Sync)?;
                self.retire(self.wal.synced().offset);
                Ok(())
            }
            Do::RetireTaken => {
                self.retire(self.wal.taken_up_to());
                Ok(())
            }
            Do::Recycle => {
                self.wal.recycle(&std::mem::take(&mut self.retired));
                Ok(())
            }
            Do::TurnShort => {
                self.wal.rotate_short()?;
                self.wal.sync_full().map(drop)
            }
            Do::GiveBack => {
                self.wal.give_back();
                Ok(())
            }
            Do::Close => {
                let seal = self.wal.close()?;
                self.synced = self.taken;
                self.manifest.facts.sealed.push(seal);
                Ok(())
            }
        }
    }

    /// Removes the segments below an offset from the manifest.
    fn retire(&mut self, below: u64) {
        self.manifest.facts.permanent = self.wal.synced().offset;
        if let Some(retirable) = self.wal.retirable(below) {
            self.manifest.start = retirable.start;
            let start = retirable.start.place.offset;
            self.manifest.retired = self.bodies.iter().take_while(|(_, end)| *end <= start).count();
            self.retired = retirable.segments;
            self.manifest.facts.sealed.retain(|seal| !self.retired.contains(&seal.segment));
        }
    }
}

/// Reads the log back.
pub(crate) fn read_back(
    env: &Env,
    dir: &Path,
    manifest: &Manifest,
    machine: Machine,
) -> Result<(Vec<Vec<u8>>, LogEnd)> {
    let mut bodies = Vec::new();
    let end = recover(env, dir, &manifest.start, &manifest.facts, machine, false, &mut |replayed| {
        bodies.push(replayed.body.to_vec());
        Ok(())
    })?;
    Ok((bodies, end))
}

/// Returns the errors of a log that was read back; it must hold at least `least` commits.
pub(crate) fn check(
    driver: &Driver,
    read: &Result<(Vec<Vec<u8>>, LogEnd)>,
    least: usize,
) -> std::result::Result<(), String> {
    let (bodies, end) = read.as_ref().map_err(|error| format!("an honest log is refused: {error}"))?;
    let retired = driver.manifest.retired;
    let expected = driver.bodies.iter().skip(retired).map(|(body, _)| body);
    // One additional commit may exist: the one being ordered at the crash.
    if bodies.len() > driver.bodies.len() - retired {
        return Err(format!("{} commits read, {} written", bodies.len(), driver.bodies.len() - retired));
    }
    if let Some(at) = bodies.iter().zip(expected).position(|(read, written)| read != written) {
        return Err(format!("commit {at} reads as another one"));
    }
    if bodies.len() + retired < least {
        return Err(format!("{} commits read, {least} must be there; cut {:?}", bodies.len() + retired, end.cut));
    }
    if end.acknowledged > end.place.offset && end.cut.is_none() {
        return Err(format!(
            "acknowledged up to {}, read up to {}, nothing reported",
            end.acknowledged, end.place.offset
        ));
    }
    if end.next_start < end.place.offset || !end.next_start.is_multiple_of(4096) {
        return Err(format!("the next log would begin at {}", end.next_start));
    }
    Ok(())
}

/// Runs a script once to count its steps, then once with a crash at each step that changes a file, and reads the log
/// back after every kind of crash. Returns the number of crashes tried.
pub(crate) fn sweep(name: &str, mapped: bool, script: &[Do]) -> std::result::Result<usize, String> {
    sweep_with(name, &settings(mapped), script)
}

/// Sweeps over segments that are recycled at once, although their last page still waits in a ring longer than the
/// segments.
pub(crate) fn sweep_over_segments_used_again() -> std::result::Result<usize, String> {
    use Do::*;
    let settings = Settings { ring_bytes: 128 * 1024, ..settings(true) };
    let turn = [Commit(100), Sync, Commit(20_000), RetireTaken, Recycle, CommitSync(20_000)];
    sweep_with("used again", &settings, &[&turn.repeat(3)[..], &[Retire, Commit(50)]].concat())
}

fn sweep_with(name: &str, settings: &Settings, script: &[Do]) -> std::result::Result<usize, String> {
    let (dir, mapped) = (Path::new("/db"), settings.wal_mapped);
    let begin = |seed: u64| {
        let sim = SimFs::new(seed);
        let env = sim.env(seed);
        env.fs.create_dir_all(dir).unwrap();
        env.fs.sync_dir(dir).unwrap();
        sim.settle();
        let mut driver = Driver::create(&env, dir, settings, 0).unwrap();
        driver.sim = Some(sim.clone());
        (sim, driver)
    };
    let (sim, mut driver) = begin(1);
    let created = sim.steps();
    driver.run(script).map_err(|error| format!("{name}: without a crash: {error}"))?;
    let mut steps: Vec<u64> = sim.changing_steps().into_iter().filter(|step| *step >= created).collect();
    steps.push(u64::MAX);
    let mut tried = 0;
    for step in steps {
        let (sim, mut driver) = begin(1);
        sim.crash_at(step);
        let outcome = driver.run(script);
        assert!(outcome.is_ok() || sim.is_crashed(), "{name}: {outcome:?}");
        let losses = Loss::all(step).map(Crash::Machine);
        for crash in [Crash::Process].into_iter().chain(losses) {
            let fork = sim.fork();
            fork.reboot(crash);
            let env = fork.env(9);
            let machine = env.fs.machine(dir).unwrap();
            let least = if crash == Crash::Process { driver.acknowledged } else { driver.synced };
            let read = read_back(&env, dir, &driver.manifest, machine);
            check(&driver, &read, least).map_err(|fault| {
                format!("{name}, mapped {mapped}, crash at step {step} of {created}.., {crash:?}: {fault}")
            })?;
            tried += 1;
        }
    }
    Ok(tried)
}

/// Returns the scripts of the sweeps.
pub(crate) fn scripts() -> Vec<(&'static str, Vec<Do>)> {
    use Do::*;
    let repeat = |step: &[Do], times: usize| step.repeat(times);
    let trimmed = vec![Prepare, TurnShort, Retire, Recycle, GiveBack];
    vec![
        ("commits", repeat(&[Commit(100), Commit(3000), Drain], 4)),
        ("synced commits", vec![CommitSync(100), Commit(50), CommitSync(900), CommitSync(10), Commit(1)]),
        (
            "frames copied in either order",
            vec![
                Commit(200),
                Order(100),
                Order(300),
                Copy(1),
                Take,
                Copy(0),
                Take,
                Order(50),
                Order(60),
                Order(70),
                Copy(2),
                Sync,
                Copy(1),
                Drain,
                Copy(0),
                Take,
                Sync,
                Order(10),
                Order(20),
                Copy(1),
            ],
        ),
        (
            "alone, and not",
            vec![
                Alone(100),
                Order(60),
                Alone(50),
                Copy(0),
                Take,
                Alone(70),
                Sync,
                Alone(10),
                Alone(3000),
                CommitSync(5000),
                Alone(900),
                Drain,
                Alone(1),
            ],
        ),
        ("alone to the next segment", [vec![Prepare], repeat(&[Alone(3000), Alone(700)], 18), vec![Sync]].concat()),
        (
            "trimmed, and written on",
            [
                repeat(&[Commit(3000), Commit(900)], 6),
                trimmed.clone(),
                vec![TurnShort, CommitSync(100), Commit(3000), Prepare, Alone(700), CommitSync(2500)],
                repeat(&[Commit(3500), SyncFull], 5),
                vec![Order(80), Order(90), Copy(1), Copy(0), Take],
                trimmed.clone(),
                vec![Alone(9), Commit(9000)],
                trimmed,
                vec![CommitSync(40000), Close],
            ]
            .concat(),
        ),
        (
            "one segment ahead",
            [
                vec![Prepare],
                repeat(&[Commit(3900)], 10),
                repeat(&[vec![Prepare, Prepare], repeat(&[Commit(3900)], 9)].concat(), 3),
                vec![CommitSync(100), Prepare, Commit(50)],
            ]
            .concat(),
        ),
        (
            "one segment ahead, and the next made longer",
            [
                vec![Prepare],
                repeat(&[Commit(3900)], 10),
                vec![Prepare, Prepare, Commit(3900), CommitSync(40000)],
                repeat(&[Commit(3900), Prepare], 9),
                vec![CommitSync(100), Commit(50)],
            ]
            .concat(),
        ),
        (
            "many segments ahead",
            [
                vec![Prepare],
                repeat(&[repeat(&[Commit(3900)], 7), vec![Prepare, Prepare]].concat(), 3),
                vec![Pass, Commit(3900), Prepare, Commit(3900)],
                repeat(&[Prepare], 7),
                repeat(&[Commit(3900)], 16),
                vec![CommitSync(100), Prepare, Commit(50), Commit(20000), CommitSync(3900), Prepare, Commit(9)],
            ]
            .concat(),
        ),
        ("ring full, drain behind", repeat(&[Commit(3500)], 12)),
        (
            "above a quarter ring",
            vec![
                Commit(100),
                Commit(5000),
                Commit(100),
                CommitSync(6000),
                Order(5000),
                Order(80),
                Copy(1),
                Copy(0),
                Take,
                Sync,
            ],
        ),
        (
            "above a quarter segment",
            vec![Commit(100), CommitSync(9000), Commit(50), Commit(40000), CommitSync(10), Commit(9000)],
        ),
        (
            "turnover",
            [
                repeat(&[Commit(3000)], 9),
                vec![Prepare, Sync],
                repeat(&[Commit(3900)], 9),
                vec![CommitSync(5), Seal, Commit(9)],
            ]
            .concat(),
        ),
        (
            "recycling",
            [
                repeat(
                    &[
                        Commit(3000),
                        Commit(3000),
                        Commit(500),
                        Prepare,
                        CommitSync(900),
                        Commit(2000),
                        Seal,
                        Retire,
                        Recycle,
                    ],
                    12,
                ),
                vec![Commit(700), Drain, Commit(70)],
            ]
            .concat(),
        ),
        (
            "older segment unsynced",
            [repeat(&[Commit(3900)], 10), vec![Drain, Seal, CommitSync(10), Commit(10), CommitSync(100)]].concat(),
        ),
        (
            "full segments sealed",
            [
                repeat(&[Commit(3900)], 10),
                vec![SyncFull, Seal],
                repeat(&[Commit(3900)], 10),
                vec![SyncFull, Seal, Commit(1)],
            ]
            .concat(),
        ),
        ("closed", vec![Commit(100), CommitSync(5000), Commit(300), Close]),
    ]
}

/// Fails each sync of a script once. The log continues as far as it can, the process is killed, and then the machine
/// crashes. Confirmed commits must exist.
pub(crate) fn failed_sync(mapped: bool) -> std::result::Result<(), String> {
    use waxseal_lsm::env::sim::Fault;
    let dir = Path::new("/db");
    let script =
        [Do::CommitSync(100), Do::Commit(4000), Do::CommitSync(50), Do::Commit(10), Do::CommitSync(3000)].repeat(4);
    for fault in [Fault::SyncFailed, Fault::Error(std::io::ErrorKind::Other)] {
        for skip in 0..40 {
            let sim = SimFs::new(skip);
            let env = sim.env(skip);
            env.fs.create_dir_all(dir).unwrap();
            env.fs.sync_dir(dir).unwrap();
            sim.settle();
            let mut driver = Driver::create(&env, dir, &settings(mapped), 0).unwrap();
            driver.sim = Some(sim.clone());
            sim.fail_at(sim.steps() + skip * 5, fault);
            let mut failed = false;
            for step in &script {
                let (acknowledged, synced) = (driver.acknowledged, driver.synced);
                let outcome = driver.step(*step);
                if failed && (driver.acknowledged > acknowledged || driver.synced > synced) {
                    return Err(format!("mapped {mapped}, {fault:?} + {skip}: confirmed after a failure"));
                }
                // A file that cannot be created fails only its commit; a failed sync ends the log.
                failed |= driver.wal.failed().is_some() || (outcome.is_err() && fault == Fault::SyncFailed);
            }
            for crash in [Crash::Process].into_iter().chain(Loss::all(skip).map(Crash::Machine)) {
                let fork = sim.fork();
                fork.reboot(Crash::Process);
                fork.reboot(crash);
                let env = fork.env(9);
                let machine = env.fs.machine(dir).unwrap();
                let least = if crash == Crash::Process { driver.acknowledged } else { driver.synced };
                let read = read_back(&env, dir, &driver.manifest, machine);
                // The kernel itself dropped pages of acknowledged commits: an error is correct, a silent loss is not.
                if crash == Crash::Process && failed && read.as_ref().is_err_and(|error| error.is_corruption()) {
                    continue;
                }
                check(&driver, &read, least)
                    .map_err(|found| format!("mapped {mapped}, {fault:?} + {skip}, {crash:?}: {found}"))?;
            }
        }
    }
    Ok(())
}
