//! Table files that are moved into a store: at every step of the ingestion, a crash leaves their records in the store or
//! the file where it was.

use std::path::{Path, PathBuf};

use waxseal_lsm::db::{At, IngestMode};
use waxseal_lsm::env::sim::{Crash, Loss};
use waxseal_lsm::options::Durability;
use waxseal_lsm::record::Kind;

use crate::oracle::Change;
use crate::world::{CONFIGS, World, rows_of};

/// The checks, for the search for planted bugs.
#[cfg(feature = "planted")]
pub const ALL: [fn(); 1] = [no_crash_loses_a_file_that_is_moved];

#[test]
fn no_crash_loses_a_file_that_is_moved() {
    for crash in [Crash::Process, Crash::Machine(Loss::DurableOnly)] {
        crash_at_every_step(crash);
    }
}

fn crash_at_every_step(crash: Crash) {
    let mut kept = [false; 2];
    for after in 0.. {
        let mut world = World::new(5, CONFIGS[5]);
        world.open().expect("a new store");
        let path = PathBuf::from("/ingest/one");
        world.env().fs.create_dir_all(Path::new("/ingest")).expect("a directory");
        world.env().fs.sync_dir(Path::new("/")).expect("a sync");
        let change = Change::Put("default".into(), b"b".to_vec(), b"old".to_vec());
        world.commit(vec![change], Durability::Sync).expect("a put");
        let family = world.db().family("default").expect("always there");
        let mut writer = world.db().table_writer(&family, &path).expect("a file");
        for key in [b"a", b"b", b"c"] {
            writer.push(Kind::Put, key, b"new", &[]).expect("a record");
        }
        writer.finish().expect("a file");
        world.sim.crash_at(world.sim.steps() + after);
        let outcome = world.db().ingest_tables(&[(&family, std::slice::from_ref(&path))], IngestMode::Move);
        drop(family);
        if !world.sim.is_crashed() {
            outcome.expect("an ingestion");
            assert_eq!(kept, [true; 2]);
            return;
        }
        world.kill(crash);
        world.open().expect("an honest store");
        let family = world.db().family("default").expect("always there");
        let rows = rows_of(world.db(), &family, At::Latest).expect("reading");
        let is_in = rows.len() == 3;
        kept[usize::from(is_in)] = true;
        if !is_in {
            assert_eq!(rows.len(), 1, "step {after}: a part of an ingestion");
            assert!(world.sim.files("/ingest").contains(&"one".to_owned()), "step {after}: the file is gone");
        }
        assert!(rows.values().all(|value| value == if is_in { &b"new"[..] } else { b"old" }), "step {after}: {rows:?}");
    }
}
