//! Where backups are: a local directory, or the URL of an object store.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use waxseal::env::Env;

use crate::failure::Failure;

/// A directory of backups, as the command line names it.
pub(crate) struct BackupPlace {
    pub(crate) dir: PathBuf,
    pub(crate) env: Env,
}

impl BackupPlace {
    /// Errors: usage for a URL that this build does not serve.
    pub(crate) fn of(text: &Path) -> Result<BackupPlace, Failure> {
        match text.as_os_str().as_bytes().windows(3).any(|part| part == b"://") {
            true => of_url(text),
            false => Ok(BackupPlace { dir: text.to_owned(), env: Env::real() }),
        }
    }
}

#[cfg(feature = "remote")]
fn of_url(text: &Path) -> Result<BackupPlace, Failure> {
    use std::io::ErrorKind;

    let url = text.to_str().ok_or_else(|| Failure::usage(format!("{}: a URL is UTF-8", text.display())))?;
    let backups = waxseal_remote::BackupFs::open(url).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => Failure::usage(error.to_string()),
        _ => Failure::io(url, error),
    })?;
    Ok(BackupPlace { dir: backups.path().to_owned(), env: backups.env() })
}

#[cfg(not(feature = "remote"))]
fn of_url(text: &Path) -> Result<BackupPlace, Failure> {
    let message = format!("{}: this build makes no backups at URLs", text.display());
    Err(Failure::usage(message).explain("build the tool with the feature `remote`"))
}
