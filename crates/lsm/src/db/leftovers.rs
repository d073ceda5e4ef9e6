//! Leftovers: files that an open found and that no version names after it (I16).
//!
//! In:    the old log, and files that a crash left.
//! Out:   the flush lane removes them one by one while it is idle, and `close` removes the rest. An open thus does not
//!        wait until the file system has released the blocks of a log.
//! Crash: remaining files are leftovers of the next open. The same holds for a file that cannot be removed.

use std::path::Path;
use std::sync::Mutex;

use crate::env::Fs;
use crate::env::work::lock;
use crate::names::Name;
use crate::version;

/// Files to remove.
#[derive(Debug)]
pub(crate) struct Leftovers(Mutex<Vec<Name>>);

impl Leftovers {
    pub(super) fn of(names: Vec<Name>) -> Leftovers {
        Leftovers(Mutex::new(names))
    }

    /// Removes one file; returns false if none is left. The lock is held during the removal, so a caller that finds
    /// none knows that all removals are complete.
    pub(super) fn remove_one(&self, fs: &dyn Fs, dir: &Path) -> bool {
        let mut names = lock(&self.0);
        let Some(name) = names.pop() else { return false };
        if !version::is_a_stores(fs, dir, name) {
            return true; // a user's file with such a name
        }
        let _ = fs.remove(&dir.join(name.to_string()));
        true
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::batch::Batch;
    use crate::db::{Db, Parts};
    use crate::env::SimFs;
    use crate::options::{CfOptions, Durability, Settings};
    use crate::record::Kind;

    #[test]
    fn a_store_that_is_closed_at_once_leaves_nothing_of_the_log_before() {
        let sim = SimFs::new(1);
        let open = || {
            let families = vec![("default".to_owned(), CfOptions::default())];
            let parts = Parts { env: sim.env(1), families, ..Parts::real() };
            Db::open(Path::new("/store"), Settings::default(), parts).unwrap()
        };
        let logs = || sim.files("/store").into_iter().filter(|name| name.ends_with(".log") || name.ends_with(".ring"));
        let db = open();
        let mut batch = Batch::new();
        batch.push(0, Kind::Put, b"key", b"value", db.companions()).unwrap();
        db.commit(&mut batch, Durability::Os).unwrap();
        db.close().unwrap();
        let first: Vec<String> = logs().collect();
        let db = open();
        assert!(first.iter().all(|name| logs().any(|left| left == *name)), "whoever opens does not wait for it");
        db.close().unwrap();
        assert_eq!(first.iter().filter(|name| logs().any(|left| left == **name)).count(), 0);
        assert_eq!(logs().count(), 2, "a segment and a ring");
    }
}
