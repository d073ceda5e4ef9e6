//! Each fault and each loss by a directed test; the whole against `MemoryFs` and the operating system's files by random operations.

use super::*;
use crate::env::{MemoryFs, RealFs};

const DURABLE: Crash = Crash::Machine(Loss::DurableOnly);
const ALL: Crash = Crash::Machine(Loss::KeepAll);

fn path(name: &str) -> &Path {
    Path::new(name)
}

/// A disk with the file `a`, durable, of these bytes.
fn with_file(seed: u64, bytes: &[u8]) -> SimFs {
    let sim = SimFs::new(seed);
    sim.write_all("a", bytes).unwrap();
    sim
}

fn create(sim: &SimFs, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = sim.open(path(name), Open::Create).unwrap();
    file.write_at(bytes, 0).unwrap();
    file
}

#[test]
fn what_was_synced_survives_and_what_was_not_is_lost() {
    let sim = SimFs::new(1);
    let file = create(&sim, "a", b"first");
    file.sync_data().unwrap();
    sim.sync_dir(path("")).unwrap();
    file.write_at(b"second", 5).unwrap();
    create(&sim, "b", b"nameless").sync_data().unwrap();
    sim.reboot(DURABLE);
    assert_eq!(sim.files(""), ["a"]);
    assert_eq!(sim.read_all("a").unwrap(), b"first");
}
