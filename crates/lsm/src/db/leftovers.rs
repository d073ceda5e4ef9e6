//! Leftovers: files that an open found and that no version names once it is done (I16).
//!
//! In:    the log of before, and what a crash left. Out: removed one by one by the flush lane while it has nothing else to do, the rest
//!        at close: whoever opens a store does not wait until the file system has given back the blocks of a log.
//! Crash: what is left is left over again at the next open. So is a file that cannot be removed.

use std::path::Path;
use std::sync::Mutex;

use crate::env::Fs;
use crate::env::work::lock;
use crate::names::Name;
use crate::version;

/// Files to be removed.
#[derive(Debug)]
pub(crate) struct Leftovers(Mutex<Vec<Name>>);

impl Leftovers {
    pub(super) fn of(names: Vec<Name>) -> Leftovers {
        Leftovers(Mutex::new(names))
    }

    /// Removes one; false if there is none. Held over the removal, so that whoever finds none knows that all are gone.
    pub(super) fn remove_one(&self, fs: &dyn Fs, dir: &Path) -> bool {
        let mut names = lock(&self.0);
        let Some(name) = names.pop() else { return false };
        if !version::is_a_stores(fs, dir, name) {
            return true; // a user's, under a name of ours
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
