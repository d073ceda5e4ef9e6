//! The log under crashes and faults: every step of every script, killed process and lost power.

use super::driver::*;
use waxseal_lsm::env::{Env, Fs, RealFs};

#[test]
fn a_crash_at_any_step_leaves_a_prefix_that_holds_what_must_be_there() {
    let mut tried = 0;
    for (name, script) in scripts() {
        for mapped in [true, false] {
            tried += sweep(name, mapped, &script).unwrap_or_else(|fault| panic!("{fault}"));
        }
    }
    tried += sweep_over_segments_used_again().unwrap_or_else(|fault| panic!("{fault}"));
    failed_sync(true).and_then(|()| failed_sync(false)).unwrap_or_else(|fault| panic!("{fault}"));
    println!("{tried} crashes");
    assert!(tried > 1000);
}

#[test]
fn real_files_read_back_in_both_modes() {
    for mapped in [true, false] {
        for (name, script) in scripts() {
            let dir = tempfile::tempdir().unwrap();
            let env = Env { work: waxseal_lsm::env::work::Mode::Stepped, ..Env::real() };
            let mut driver = Driver::create(&env, dir.path(), &settings(mapped), 8192).unwrap();
            driver.run(&script).unwrap();
            let machine = RealFs.machine(dir.path()).unwrap();
            let read = read_back(&env, dir.path(), &driver.manifest, machine);
            check(&driver, &read, driver.acknowledged).unwrap_or_else(|fault| panic!("{name}: {fault}"));
            drop(driver);
        }
    }
}
