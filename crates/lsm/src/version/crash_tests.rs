//! The manifest on a simulated disk: a crash at every step, a failure of every single step, a full disk.
//!
//! One run: creation, then edits that each add a table, with rotations in between. The confirmed tables are a prefix of
//! all tables. A later recovery finds that prefix, or one more table if the last edit was in progress.

use std::path::Path;
use std::sync::Arc;

use super::edit::{Edit, EditChange};
use super::manifest::Manifest;
use super::recover::recover;
use super::table_meta::TableMeta;
use crate::checksum::Uid;
use crate::env::Env;
use crate::env::sim::{Crash, Fault, Loss, SimFs};
use crate::error::{ErrorKind, Result};
use crate::left_files::LeftFiles;

const EDITS: u64 = 12;
const FIRST: u64 = 1000;

fn dir() -> &'static Path {
    Path::new("/store")
}

fn added(number: u64) -> Edit {
    let table = Arc::new(TableMeta { number, ..TableMeta::default() });
    vec![EditChange::TableAdded { family: 0, level: 0, table }].into()
}

fn family() -> Edit {
    let (name, comparator) = ("default".into(), "wax.bytewise".into());
    vec![EditChange::FamilyCreated { id: 0, name, comparator, options: vec![] }].into()
}

fn disk() -> (SimFs, Env) {
    let fs = SimFs::new(1);
    let env = fs.env(2);
    env.fs.create_dir_all(dir()).unwrap();
    env.fs.sync_dir(Path::new("/")).unwrap();
    (fs, env)
}

/// Runs until a step fails. `confirmed` is the number of confirmed tables; `None` before the store is confirmed.
fn live(env: &Env, confirmed: &mut Option<u64>) -> Result<()> {
    let mut manifest = match recover(env, dir())? {
        None => Manifest::create(env, dir(), 1, Uid([5; 16]), &family())?,
        Some(found) => Manifest::resume(env, dir(), &found, found.next_file, &Edit::default())?,
    };
    let begun = tables(manifest.state());
    *confirmed = Some(begun);
    for number in begun..EDITS {
        manifest.append(&added(FIRST + number))?;
        *confirmed = Some(number + 1);
        if number % 4 == 2 {
            manifest.rotate(manifest.state().next_file, &LeftFiles::default())?;
        }
    }
    manifest.close()
}

/// Returns the number of tables in a state, which must be the first ones.
fn tables(state: &super::ManifestState) -> u64 {
    let numbers: Vec<u64> = state.families[&0].tables.keys().copied().collect();
    assert!(numbers.iter().copied().eq(FIRST..FIRST + numbers.len() as u64), "{numbers:?}");
    numbers.len() as u64
}

/// Compares the recovered state with the confirmed one, and returns an error message for a difference.
fn check(env: &Env, confirmed: Option<u64>) -> std::result::Result<(), String> {
    match (recover(env, dir()).map_err(|error| error.to_string())?, confirmed) {
        (None, None) => Ok(()),
        (Some(found), _) => {
            let (found, least) = (tables(&found.state), confirmed.unwrap_or(0));
            let holds = (least..=least + 1).contains(&found);
            holds.then_some(()).ok_or_else(|| format!("confirmed {least}, found {found}"))
        }
        (None, Some(_)) => Err("the store is gone".into()),
    }
}

/// Crashes at every step of a run under every policy. Returns the number of crashes, and those that lost confirmed
/// edits.
fn sweep() -> (u64, Vec<String>) {
    let last = {
        let (fs, env) = disk();
        live(&env, &mut None).unwrap();
        fs.steps()
    };
    let (mut crashes, mut lost) = (0, Vec::new());
    for step in disk().0.steps()..=last {
        for seed in 0..3 {
            for crash in Loss::all(seed).map(Crash::Machine).into_iter().chain([Crash::Process]) {
                let (fs, env) = disk();
                fs.crash_at(step);
                let mut confirmed = None;
                let _ = live(&env, &mut confirmed);
                fs.reboot(crash);
                crashes += 1;
                match check(&env, confirmed) {
                    Err(story) => lost.push(format!("step {step}, {crash:?}: {story}")),
                    Ok(()) => {
                        // The store continues from there to the same end.
                        live(&env, &mut None).unwrap();
                        assert_eq!(tables(&recover(&env, dir()).unwrap().unwrap().state), EDITS);
                    }
                }
            }
        }
    }
    (crashes, lost)
}

#[test]
fn a_crash_at_any_step_keeps_every_confirmed_edit() {
    let (crashes, lost) = sweep();
    assert!(crashes > 1000, "{crashes}");
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn any_failing_step_keeps_every_confirmed_edit_and_a_failed_sync_ends_the_manifest() {
    let (fs, env) = disk();
    let first = fs.steps();
    live(&env, &mut None).unwrap();
    let mut halted = 0;
    for step in first..fs.steps() {
        for fault in [Fault::Error(std::io::ErrorKind::Other), Fault::SyncFailed, Fault::Short] {
            let (fs, env) = disk();
            fs.fail_at(step, fault);
            let mut confirmed = None;
            let outcome = live(&env, &mut confirmed);
            halted += u64::from(outcome.is_err());
            fs.clear_faults();
            fs.reboot(Crash::Machine(Loss::DurableOnly));
            assert_eq!(check(&env, confirmed), Ok(()), "step {step}, {fault:?}");
        }
    }
    assert!(halted > 50, "{halted}");
}

#[test]
fn after_a_failed_sync_everything_is_halted_until_reopening() {
    let (fs, env) = disk();
    let mut manifest = Manifest::create(&env, dir(), 1, Uid([5; 16]), &family()).unwrap();
    fs.fail_at(fs.steps(), Fault::SyncFailed);
    assert!(matches!(manifest.append(&added(FIRST)).unwrap_err().kind(), ErrorKind::Io(_)));
    assert!(manifest.has_ended());
    assert_eq!(*manifest.append(&added(FIRST)).unwrap_err().kind(), ErrorKind::Halted);
    assert_eq!(*manifest.rotate(9, &LeftFiles::default()).unwrap_err().kind(), ErrorKind::Halted);
    assert_eq!(*manifest.close().unwrap_err().kind(), ErrorKind::Halted);
    // The page cache may show the edit although it is not on the disk: the state found now is written again, and stays.
    fs.reboot(Crash::Process);
    let found = recover(&env, dir()).unwrap().unwrap();
    let before = tables(&found.state);
    Manifest::resume(&env, dir(), &found, found.next_file, &Edit::default()).unwrap();
    fs.reboot(Crash::Machine(Loss::DurableOnly));
    assert_eq!(tables(&recover(&env, dir()).unwrap().unwrap().state), before);
}

#[test]
fn without_room_nothing_changes_and_with_room_it_goes_on() {
    let (fs, env) = disk();
    let mut manifest = Manifest::create(&env, dir(), 1, Uid([5; 16]), &family()).unwrap();
    manifest.append(&added(FIRST)).unwrap();
    let before = manifest.state().clone();
    fs.set_free_space(Some(0));
    let mut big = added(FIRST + 1);
    big.changes.push(EditChange::Skipped { tag: 27, bytes: vec![0; 20_000] });
    assert!(manifest.append(&big).unwrap_err().is_out_of_space());
    assert!(manifest.rotate(manifest.state().next_file + 1, &LeftFiles::default()).unwrap_err().is_out_of_space());
    assert!(!manifest.has_ended());
    assert_eq!(manifest.state().families, before.families);
    let found = recover(&env, dir()).unwrap().unwrap();
    assert_eq!((found.state.families, found.torn), (before.families, None));
    fs.set_free_space(None);
    manifest.append(&big).unwrap();
    manifest.rotate(manifest.state().next_file + 2, &LeftFiles::default()).unwrap();
    manifest.append(&added(FIRST + 2)).unwrap();
    fs.reboot(Crash::Machine(Loss::DurableOnly));
    let found = recover(&env, dir()).unwrap().unwrap();
    assert_eq!((tables(&found.state), found.torn), (3, None));
}

#[test]
fn a_reader_beside_a_writer_sees_a_prefix_and_writes_nothing() {
    let (fs, env) = disk();
    let mut manifest = Manifest::create(&env, dir(), 1, Uid([5; 16]), &family()).unwrap();
    for number in 0..EDITS {
        manifest.append(&added(FIRST + number)).unwrap();
        let changed = fs.changing_steps().len();
        assert_eq!(tables(&recover(&env, dir()).unwrap().unwrap().state), number + 1);
        assert_eq!(fs.changing_steps().len(), changed);
    }
}
