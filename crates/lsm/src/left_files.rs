//! Files of a store that nothing names and that could not be removed. They may hold old records, so they stay known until a
//! later attempt removes them. The next open removes what is left.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Mutex;

use crate::env::Fs;
use crate::env::work::lock;
use crate::names::StoreFileName;

/// The files of one owner whose removal failed.
#[derive(Debug, Default)]
pub struct LeftFiles(Mutex<BTreeSet<StoreFileName>>);

impl LeftFiles {
    /// Removes a file that nothing names, and notes it if that fails. Returns true if the file was removed.
    /// The lock is held meanwhile, so `is_empty` waits until the file is gone or noted.
    pub fn remove(&self, fs: &dyn Fs, dir: &Path, name: StoreFileName) -> bool {
        let mut names = lock(&self.0);
        let removed = fs.remove(&dir.join(name.to_string()));
        if removed.as_ref().is_err_and(|error| error.kind() != ErrorKind::NotFound) {
            names.insert(name);
        }
        removed.is_ok()
    }

    /// Tries again to remove the noted files. Returns true if it removed one.
    pub fn retry(&self, fs: &dyn Fs, dir: &Path) -> bool {
        let mut names = lock(&self.0); // held, as in `remove`
        let before = names.len();
        names.retain(|name| {
            let removed = fs.remove(&dir.join(name.to_string()));
            removed.is_err_and(|error| error.kind() != ErrorKind::NotFound)
        });
        names.len() < before
    }

    /// Returns true if no file is noted.
    pub fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::sim::Fault;
    use crate::env::{Open, SimFs};

    #[test]
    fn a_file_that_could_not_be_removed_is_known_until_it_is_gone() {
        let sim = SimFs::new(1);
        let (fs, dir, left) = (sim.env(1).fs, Path::new("/store"), LeftFiles::default());
        fs.create_dir_all(dir).unwrap();
        for number in [7, 8] {
            fs.open(&dir.join(StoreFileName::Table(number).to_string()), Open::Create).unwrap();
        }
        assert!(left.remove(&*fs, dir, StoreFileName::Table(7)) && left.is_empty());
        assert!(!left.remove(&*fs, dir, StoreFileName::Table(7)) && left.is_empty(), "gone already");
        sim.fail_at(sim.steps(), Fault::Error(ErrorKind::PermissionDenied));
        assert!(!left.remove(&*fs, dir, StoreFileName::Table(8)) && !left.is_empty());
        sim.fail_at(sim.steps(), Fault::Error(ErrorKind::PermissionDenied));
        assert!(!left.retry(&*fs, dir) && !left.is_empty());
        assert!(left.retry(&*fs, dir) && left.is_empty() && sim.files(dir).is_empty());
    }
}
