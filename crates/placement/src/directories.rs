//! Names of the directories of nodes, of their proofs and of the archives beside a placement.

use std::path::{Path, PathBuf, absolute};

use crate::error::{Error, Result};

/// Returns the name of a directory without slashes at its end and without `.`, so that [`beside`] has a name to extend.
/// Only `.` and paths that end in `..` are looked up. Errors: `Invalid` for the root directory, and for such a path that
/// does not exist.
pub(crate) fn plain(directory: &Path) -> Result<PathBuf> {
    let plain: PathBuf = directory.components().collect();
    if plain.file_name().is_some() {
        return Ok(plain);
    }
    let found = directory.canonicalize().ok().filter(|found| found.file_name().is_some());
    found.ok_or_else(|| Error::invalid(format!("{directory:?} is no name of a directory for a store")))
}

/// Returns the absolute name of a directory. Errors: those of [`plain`]; `Invalid` for a name that is no Unicode.
pub(crate) fn whole(directory: &Path) -> Result<String> {
    let path = absolute(directory).ok().map(|path| plain(&path)).transpose()?;
    let name = path.as_deref().and_then(Path::to_str).map(str::to_owned);
    name.ok_or_else(|| Error::invalid(format!("{directory:?} is no Unicode name of a directory")))
}

/// Returns the directory beside another one whose name has this ending: on the same file system, and not inside.
pub(crate) fn beside(directory: &Path, ending: &str) -> PathBuf {
    let mut name = directory.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    directory.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_name_a_directory_has_the_same_directory_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().canonicalize().unwrap().join("store");
        let expected = store.with_file_name("store.moves");
        for ending in ["", "/", "//", "/.", "/./"] {
            let named = plain(Path::new(&format!("{}{ending}", store.display()))).unwrap();
            assert_eq!((beside(&named, ".moves"), &named), (expected.clone(), &store), "{ending:?}");
        }
        assert_eq!(plain(Path::new("store/")).unwrap().as_os_str(), "store");
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(plain(Path::new(".")).unwrap(), here);
        assert_eq!(whole(Path::new("../")).unwrap(), here.parent().unwrap().to_str().unwrap());
        for none in ["", "/", "missing/.."] {
            assert!(whole(Path::new(none)).is_err(), "{none:?}");
        }
    }
}
