//! Damage to the log: changed bytes are reported or repaired, never taken for the end of the log.

use std::path::Path;

use super::driver::*;
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_lsm::env::{Fs, Machine};
use waxseal_lsm::error::{Error, ErrorKind, Verdict};
use waxseal_lsm::wal::{LiveRead, ReadUntil, Replayed, Stop, read_marks, recover, recover_live, set_aside};

const DIR: &str = "/db";

fn dir() -> &'static Path {
    Path::new(DIR)
}

fn run(mapped: bool, script: &[Do]) -> (SimFs, Driver) {
    let sim = SimFs::new(5);
    let env = sim.env(5);
    env.fs.create_dir_all(dir()).unwrap();
    sim.settle();
    let mut driver = Driver::create(&env, dir(), &settings(mapped), 0).unwrap();
    driver.run(script).unwrap();
    (sim, driver)
}

fn busy() -> Vec<Do> {
    use Do::*;
    let mut script = [Commit(3000), Commit(2500), Commit(20), CommitSync(900)].repeat(6);
    script.extend([Commit(5000), CommitSync(10), Commit(9000), Commit(300), CommitSync(100)]);
    script
}

#[test]
fn a_flipped_bit_is_harmless_or_named() {
    for (mapped, closed) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut script = busy();
        if closed {
            script.push(Do::Close);
        }
        let (sim, driver) = run(mapped, &script);
        let machine = sim.machine(dir()).unwrap();
        let mut bit = 1;
        let (mut harmless, mut named) = (0, 0);
        for name in sim.files(DIR) {
            let path = dir().join(&name);
            let bits = sim.read_all(&path).unwrap().len() as u64 * 8;
            bit %= 8191;
            while bit < bits {
                let copy = sim.copy(machine);
                copy.flip(&path, bit).unwrap();
                let env = copy.env(1);
                let read = read_back(&env, dir(), &driver.manifest, machine);
                match &read {
                    Err(error) => {
                        let damage = error.damage().unwrap_or_else(|| panic!("{error}"));
                        assert_eq!(damage.file, name, "mapped {mapped}, closed {closed}, bit {bit}: {error}");
                        assert!(damage.offset <= bit / 8, "{error}, bit {bit}");
                        named += 1;
                    }
                    Ok((bodies, end)) => {
                        let whole: Vec<_> = driver.bodies.iter().map(|(body, _)| body.clone()).collect();
                        assert!(*bodies == whole, "mapped {mapped}, bit {bit} of {name}: {} read", bodies.len());
                        assert!(end.cut.is_none(), "{:?}", end.cut);
                        harmless += 1;
                    }
                }
                bit += 8191;
            }
        }
        assert!(harmless > 10 && named > 10, "{harmless} harmless, {named} named");
    }
}

#[test]
fn a_page_that_cannot_be_read_is_damage_and_never_an_end() {
    use waxseal_lsm::env::sim::Fault;
    for mapped in [true, false] {
        let (sim, driver) = run(mapped, &[Do::CommitSync(2000), Do::CommitSync(3000), Do::CommitSync(100)]);
        let machine = sim.machine(dir()).unwrap();
        let mut damaged = 0;
        for step in 0..40 {
            let copy = sim.copy(machine);
            copy.fail_from(copy.steps() + step, Fault::Error(std::io::ErrorKind::Other));
            match read_back(&copy.env(1), dir(), &driver.manifest, machine) {
                Ok((bodies, end)) => {
                    assert_eq!(bodies.len(), 3);
                    assert!(end.cut.is_none());
                }
                Err(error) => damaged += error.is_corruption() as usize,
            }
        }
        assert!(damaged > 0);
    }
}

#[test]
fn a_missing_file_is_named_and_only_a_closed_log_does_without_its_ring() {
    for closed in [false, true] {
        let mut script = busy();
        if closed {
            script.push(Do::Close);
        }
        let (sim, driver) = run(true, &script);
        let machine = sim.machine(dir()).unwrap();
        for name in sim.files(DIR) {
            let copy = sim.copy(machine);
            copy.delete(dir().join(&name)).unwrap();
            let read = read_back(&copy.env(1), dir(), &driver.manifest, machine);
            match read {
                Ok((bodies, _)) => {
                    // The last segment is prepared and empty, or it is the ring of a closed log.
                    assert_eq!(bodies.len(), driver.bodies.len());
                    assert!(closed && name.ends_with(".ring"), "{name}");
                }
                Err(error) => {
                    let damage = error.damage().unwrap();
                    assert_eq!((damage.file.as_str(), damage.verdict), (name.as_str(), Verdict::Missing));
                }
            }
        }
    }
}

/// If the very first frame is damaged and no mark records the synced offset, the following frames prove its existence,
/// whatever the number of earlier commits.
#[test]
fn frames_of_an_old_store_prove_that_the_first_one_was_there() {
    for seqno in [0, 50_000_000] {
        let sim = SimFs::new(5);
        let env = sim.env(5);
        env.fs.create_dir_all(dir()).unwrap();
        let mut driver = Driver::create_behind(&env, dir(), &settings(false), 0, seqno).unwrap();
        let ring = sim.files(DIR).into_iter().find(|name| name.ends_with(".ring")).unwrap();
        let marks = sim.read_all(dir().join(&ring)).unwrap();
        driver.run(&[Do::CommitSync(100), Do::CommitSync(200), Do::CommitSync(300)]).unwrap();
        driver.manifest.facts.witness = 0;
        let machine = Machine { boot_id: Some([9; 16]), ..sim.machine(dir()).unwrap() };
        let copy = sim.copy(machine);
        copy.write_all(dir().join(&ring), &marks).unwrap();
        let whole = read_back(&copy.env(1), dir(), &driver.manifest, machine).unwrap();
        assert_eq!((whole.0.len(), whole.1.cut.is_none()), (3, true));
        copy.flip(dir().join("000002.log"), (4096 + 60) * 8).unwrap();
        let hit = read_back(&copy.env(1), dir(), &driver.manifest, machine).unwrap_err();
        assert!(hit.is_corruption(), "{hit}");
    }
}

/// A copy of an open store without its last pages: reported as damage or as a torn tail, depending on what the machine
/// can prove.
#[test]
fn the_kernel_that_wrote_decides_what_a_lost_page_means() {
    for mapped in [true, false] {
        let (sim, driver) = run(mapped, &[Do::CommitSync(100), Do::Commit(200), Do::Commit(300)]);
        let written = sim.machine(dir()).unwrap();
        let others = [
            Machine { boot_id: Some([9; 16]), ..written },
            Machine { boot_id: None, ..written },
            Machine { device: written.device + 1, ..written },
        ];
        for machine in [written].into_iter().chain(others) {
            let copy = sim.copy(machine);
            let (bodies, end) = read_back(&copy.env(1), dir(), &driver.manifest, machine).unwrap();
            assert_eq!((bodies.len(), end.cut.is_none()), (3, true), "nothing is lost, whoever looks");

            // The unsynced tail is lost wherever it was.
            for name in copy.files(DIR) {
                let path = dir().join(&name);
                let mut bytes = copy.read_all(&path).unwrap();
                bytes.iter_mut().skip(2 * 4096).for_each(|byte| *byte = 0);
                copy.write_all(&path, &bytes).unwrap();
            }
            match read_back(&copy.env(1), dir(), &driver.manifest, machine) {
                Err(error) => assert!(machine == written && error.is_corruption(), "{error}"),
                Ok((bodies, end)) => {
                    assert_ne!(machine, written);
                    assert_eq!(bodies.len(), 1);
                    let cut = end.cut.expect("a cut is reported");
                    assert!(cut.acknowledged > cut.offset && cut.bytes > 500, "{cut:?}");
                }
            }
        }
    }
}

#[test]
fn an_accepted_loss_is_cut_set_aside_and_told() {
    let (sim, driver) = run(false, &[Do::CommitSync(100), Do::CommitSync(200), Do::CommitSync(300)]);
    let env = sim.env(1);
    let machine = sim.machine(dir()).unwrap();
    let path = dir().join("000002.log");
    sim.flip(&path, (2 * 4096 + 60) * 8).unwrap();
    let accept = |accept_loss| {
        let mut read = 0;
        let Driver { manifest, .. } = &driver;
        recover(&env, dir(), &manifest.start, &manifest.facts, machine, accept_loss, &mut |_| {
            read += 1;
            Ok(())
        })
        .map(|end| (read, end))
    };
    assert!(accept(false).unwrap_err().is_corruption());
    let (read, end) = accept(true).unwrap();
    assert_eq!(read, 1);
    let cut = end.cut.unwrap();
    assert!(cut.accepted.as_ref().is_some_and(|error| error.is_corruption()));
    assert!(end.next_start >= driver.manifest.facts.witness, "no offset is used again");
    let mut kept = Vec::new();
    set_aside(&env, dir(), &cut, &mut |bytes| {
        kept.extend_from_slice(bytes);
        Ok(())
    })
    .unwrap();
    assert_eq!(kept, sim.read_all(&path).unwrap()[2 * 4096..][..kept.len()]);
    assert!(kept.len() >= 2 * 4096, "{}", kept.len());
}

#[test]
fn what_cannot_be_made_for_want_of_space_fails_its_commit_alone() {
    for mapped in [true, false] {
        let (sim, mut driver) = run(mapped, &[Do::Commit(3000)].repeat(8));
        sim.set_free_space(Some(0));
        let mut refused = 0;
        for _ in 0..4 {
            if let Err(error) = driver.step(Do::CommitSync(3000)) {
                assert!(error.is_out_of_space(), "{error}");
                refused += 1;
            }
        }
        assert!(refused > 1);
        sim.set_free_space(None);
        driver.run(&[Do::CommitSync(3000), Do::CommitSync(50_000)]).unwrap();
        let read = read_back(&driver.env, dir(), &driver.manifest, sim.machine(dir()).unwrap());
        check(&driver, &read, driver.bodies.len()).unwrap();
    }
}

#[test]
fn a_failed_drain_halts_the_log() {
    use waxseal_lsm::env::sim::Fault;
    let (sim, mut driver) = run(true, &[Do::Commit(3000), Do::CommitSync(10), Do::Commit(2000)]);
    sim.fail_at(sim.steps(), Fault::Short);
    assert!(matches!(driver.step(Do::Drain).unwrap_err().kind(), ErrorKind::Io(_)));
    for step in [Do::Commit(1), Do::Sync, Do::Drain, Do::Prepare, Do::Close] {
        let error = driver.step(step).unwrap_err();
        assert!(*error.kind() == ErrorKind::Halted || *error.kind() == ErrorKind::Closed, "{step:?}: {error}");
    }
    assert!(driver.wal.seals_due().is_empty());
    let acknowledged = driver.acknowledged;
    for crash in [Crash::Process, Crash::Machine(Loss::DurableOnly)] {
        let fork = sim.fork();
        fork.reboot(crash);
        let least = if crash == Crash::Process { acknowledged } else { driver.synced };
        let read = read_back(&fork.env(2), dir(), &driver.manifest, fork.machine(dir()).unwrap());
        check(&driver, &read, least).unwrap();
    }
}

/// A reader beside a writer that continues during the read.
#[test]
fn reading_beside_a_writer_gives_what_was_acknowledged_before() {
    use Do::*;
    let round = [Commit(3000), Commit(2500), Prepare, CommitSync(900), Commit(5000), Drain, Seal];
    for mapped in [true, false] {
        let (mut read, mut moved) = (0, 0);
        for start in 0..40 {
            let (sim, mut writer) = run(mapped, &[]);
            for step in round.iter().cycle().take(start) {
                writer.step(*step).unwrap();
            }
            let env = sim.env(77);
            let machine = sim.machine(dir()).unwrap();
            let until = ReadUntil::Theirs(Some(read_marks(&env, dir(), &writer.manifest.start).unwrap()));
            let before = writer.acknowledged;
            let manifest = writer.manifest.clone();
            let first: Vec<_> = writer.bodies.iter().map(|(body, _)| body.clone()).collect();
            let mut bodies: Vec<Vec<u8>> = Vec::new();
            let mut steps = round.iter().cycle().skip(start);
            let found = recover_live(&env, dir(), &manifest.start, &manifest.facts, machine, until, &mut |replayed| {
                bodies.push(replayed.body.to_vec());
                for _ in 0..3 {
                    writer.step(*steps.next().unwrap()).unwrap();
                }
                if bodies.len() % 8 == 7 {
                    writer.step(Retire).unwrap();
                    writer.step(Recycle).unwrap();
                }
                Ok(())
            })
            .unwrap();
            match found {
                LiveRead::Read { end, .. } => {
                    assert!(end.cut.is_none());
                    assert!(bodies[..] == first[manifest.retired..before], "{} of {before}", bodies.len());
                    read += 1;
                }
                LiveRead::Moved | LiveRead::Gone(_) => moved += 1,
            }
        }
        assert!(read > 5 && moved > 5, "mapped {mapped}: {read} read, {moved} moved");
    }
}

/// A recovery that fails while it processes a frame does not blame the log: the error of its own work is returned as
/// such.
#[test]
fn who_fails_at_his_own_work_blames_no_file_of_the_log() {
    let (sim, writer) = run(true, &busy());
    let (env, machine, manifest) = (sim.env(77), sim.machine(dir()).unwrap(), &writer.manifest);
    for of_the_frame in [true, false] {
        let visit = &mut |_: Replayed<'_>| {
            let error = Error::structural("a record is missing");
            Err(if of_the_frame { Stop::Refused(error) } else { Stop::Failed(error) })
        };
        let failed = recover(&env, dir(), &manifest.start, &manifest.facts, machine, false, visit).unwrap_err();
        assert_eq!(failed.damage().unwrap().file.is_empty(), !of_the_frame);
    }
}
