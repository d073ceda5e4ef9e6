//! The directories of a salvage: source and destination lie apart, and a failed salvage leaves none that it made.

use std::path::{Path, PathBuf};

use waxseal_lsm::env::Fs;
use waxseal_lsm::error::{Error, IoContext, Result};

/// Maximum number of parent directories that are compared.
const MOST_PARENTS: usize = 256;

/// Fails with `Invalid` if the directories are equal or one contains the other.
pub(super) fn check_apart(fs: &dyn Fs, from: &Path, to: &Path) -> Result<()> {
    let what = match (is_within(fs, to, from)?, is_within(fs, from, to)?) {
        (true, _) => "in the source",
        (_, true) => "above the source",
        _ => return Ok(()),
    };
    Err(Error::invalid(format!("{} is {what} {}: a salvage needs another directory", to.display(), from.display())))
}

/// Returns true if a path, which may not exist yet, leads into a directory, whatever links are on the way.
fn is_within(fs: &dyn Fs, inner: &Path, outer: &Path) -> Result<bool> {
    let absolute = |path: &Path| std::path::absolute(path).during(|| format!("resolving {}", path.display()));
    let (inner, outer) = (absolute(inner)?, absolute(outer)?);
    if inner.starts_with(&outer) {
        return Ok(true);
    }
    let Ok(Some(dir)) = fs.hold_dir(&outer) else { return Ok(false) }; // it does not exist, or paths are all there is
    let is_it = |path: &Path| dir.is_at(path).unwrap_or(false);
    let Some(nearest) = inner.ancestors().find(|path| fs.exists(path).unwrap_or(false)) else { return Ok(false) };
    // The parents of the real directory: a link may lead into the other one.
    let parents = std::iter::successors(Some(nearest.to_owned()), |path| Some(path.join(".."))).take(MOST_PARENTS);
    Ok(inner.ancestors().any(is_it) || parents.into_iter().any(|path| is_it(&path)))
}

/// Directories that a salvage made for its destination.
pub(super) struct MadeDirs(Vec<PathBuf>);

impl MadeDirs {
    /// Makes a directory and its missing parents.
    pub(super) fn make(fs: &dyn Fs, dir: &Path) -> Result<MadeDirs> {
        let is_missing = |dir: &&Path| !dir.as_os_str().is_empty() && !fs.exists(dir).unwrap_or(true);
        let missing = dir.ancestors().take_while(is_missing).map(Path::to_owned).collect();
        fs.create_dir_all(dir).during(|| format!("creating {}", dir.display()))?;
        Ok(MadeDirs(missing))
    }

    /// Removes them again; one that is not empty stays.
    pub(super) fn remove(&self, fs: &dyn Fs) {
        let _ = self.0.iter().try_for_each(|dir| fs.remove_dir(dir));
    }
}
