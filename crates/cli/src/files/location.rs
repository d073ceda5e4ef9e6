//! The paths of the command line: `waxseal://STORE/path` or a local path.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use waxseal::{Contents, Db};
use waxseal_files::FileStore;
use waxseal_http::Client;

use super::local::LocalTree;
use super::served::ServedTree;
use super::stored::StoredTree;
use super::tree::Tree;
use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::store::{check_not_followed, report_cut};

const SCHEME: &[u8] = b"waxseal://";
/// The scheme of local paths, which the shell needs to tell them from those of its store.
const LOCAL_SCHEME: &[u8] = b"file:";

/// Where a path is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Location {
    Local(PathBuf),
    Stored {
        store: PathBuf,
        path: Vec<u8>,
        /// The directory holds a store.
        exists: bool,
    },
    /// A URL of an object store, in a build with the feature `remote`.
    #[cfg(feature = "remote")]
    Remote(String),
}

/// The purpose for which a store is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    Read,
    /// Change an existing store.
    Change,
    /// Add files; the store is created if it does not exist.
    Fill,
}

/// A path in an open tree.
pub(super) struct Place {
    pub(super) tree: Box<dyn Tree>,
    pub(super) path: Vec<u8>,
}

impl Location {
    /// Parses a path. The store of a URL is the first directory on the way that holds a store. A URL without a store names
    /// a new one: the first directory that does not exist, or the last directory if it is empty.
    pub(super) fn parse(text: &OsStr) -> Result<Location, Failure> {
        let bytes = text.as_bytes();
        let Some(url) = bytes.strip_prefix(SCHEME) else {
            if bytes.windows(3).any(|part| part == b"://") && !bytes.starts_with(LOCAL_SCHEME) {
                return remote(text);
            }
            let path = bytes.strip_prefix(LOCAL_SCHEME).unwrap_or(bytes);
            return Ok(Location::Local(PathBuf::from(OsStr::from_bytes(path))));
        };
        let ends = url.iter().enumerate().filter(|(at, byte)| **byte == b'/' && *at > 0).map(|(at, _)| at);
        let mut new = None;
        for end in ends.chain([url.len()]) {
            let store = Path::new(OsStr::from_bytes(&url[..end]));
            if store.as_os_str().is_empty() {
                continue;
            }
            let stored = |exists| Location::Stored { store: store.to_owned(), path: url[end..].to_vec(), exists };
            if !store.is_dir() {
                if !store.exists() {
                    new = Some(stored(false));
                }
                break;
            }
            match Db::contents(store) {
                Ok(Contents::Store | Contents::Damaged) => return Ok(stored(true)),
                Ok(Contents::Empty) if end == url.len() || url[end..] == b"/"[..] => new = Some(stored(false)),
                _ => {}
            }
        }
        new.ok_or_else(|| Failure::not_found(format!("no store in {}", text.display())))
    }

    /// Returns the root of the files of an existing store.
    pub(super) fn of_store(store: &Path) -> Location {
        Location::Stored { store: store.to_owned(), path: Vec::new(), exists: true }
    }

    /// Opens a path of a store that another place has open.
    pub(super) fn open_beside(&self, other: &Place) -> Result<Place, Failure> {
        match (self, other.tree.beside()) {
            (Location::Stored { path, .. }, Some(tree)) => Ok(Place { tree, path: trimmed(path) }),
            _ => Err(Failure::usage("both paths must be in one store")),
        }
    }

    /// Returns true if both paths are in one store.
    pub(super) fn is_in_tree_of(&self, other: &Location) -> bool {
        match (self, other) {
            (Location::Stored { store, .. }, Location::Stored { store: other, .. }) => store == other,
            _ => false,
        }
    }

    /// Checks that a local tree and the store that it is copied to or from are apart. A copy to a local directory that
    /// exists is `name` in it, if there is one. Errors: usage if they overlap.
    pub(super) fn check_apart(&self, into: &Location, name: Option<&[u8]>) -> Result<(), Failure> {
        let (local, store) = match (self, into) {
            (Location::Local(local), Location::Stored { store, .. }) => (local.clone(), store),
            (Location::Stored { store, .. }, Location::Local(local)) => match name {
                Some(name) if local.is_dir() => (local.join(OsStr::from_bytes(name)), store),
                _ => (local.clone(), store),
            },
            _ => return Ok(()),
        };
        match is_within(&local, store) || is_within(store, &local) {
            true => {
                let message = format!("{} and the store {} overlap", local.display(), store.display());
                Err(Failure::usage(message).explain("copy from or to a directory beside the store"))
            }
            false => Ok(()),
        }
    }

    /// Checks a path that a verb changes. With `-d` the user may take a local path for one of that store.
    pub(super) fn check_changed(&self, args: &Args) -> Result<(), Failure> {
        match self {
            Location::Local(path) if args.has_dir => {
                let message = format!("-d names no store for the verbs of fs, and {} is a local path", path.display());
                Err(Failure::usage(message).explain("name waxseal://STORE/path, or leave out -d"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn is_local(&self) -> bool {
        matches!(self, Location::Local(_))
    }

    /// Fails for a path with directories in a store that does not exist. Errors: not found.
    pub(super) fn check_new(&self) -> Result<(), Failure> {
        match self {
            Location::Stored { store, path, exists: false } if trimmed(path).contains(&b'/') => {
                let (store, path) = (store.display(), crate::text::escape(path));
                Err(Failure::not_found(format!("no store in waxseal://{store}, and no directory for {path}")))
            }
            _ => Ok(()),
        }
    }

    /// Opens the tree of the path.
    pub(super) fn open(&self, args: &Args, access: Access) -> Result<Place, Failure> {
        match self {
            Location::Local(path) => open_local(path, access),
            #[cfg(feature = "remote")]
            Location::Remote(url) => open_remote(url),
            Location::Stored { store, path, exists } => {
                let url = format!("waxseal://{}", store.display());
                if !exists && access != Access::Fill {
                    return Err(Failure::not_found(format!("no store in {url}")));
                }
                let tree: Box<dyn Tree> = match open_files(args, store, access) {
                    Ok(files) => Box::new(StoredTree::new(files, url)),
                    Err(failure) if failure.exit() == Exit::Locked => match served(args, store)? {
                        Some(client) => Box::new(ServedTree::new(open_files(args, store, Access::Read)?, url, client)),
                        None => return Err(failure),
                    },
                    Err(failure) => return Err(failure),
                };
                Ok(Place { tree, path: trimmed(path) })
            }
        }
    }
}

#[cfg(feature = "remote")]
fn remote(text: &OsStr) -> Result<Location, Failure> {
    let url = text.to_str().ok_or_else(|| Failure::usage(format!("{}: a URL is UTF-8", text.display())))?;
    Ok(Location::Remote(url.to_owned()))
}

#[cfg(not(feature = "remote"))]
fn remote(text: &OsStr) -> Result<Location, Failure> {
    let scheme = text.as_bytes().split(|byte| *byte == b':').next().unwrap_or_default();
    let message = format!("{}:// is no scheme that this build copies from or to", scheme.escape_ascii());
    Err(Failure::usage(message).explain("use waxseal://STORE/path or a local path"))
}

/// Connects to the object store of a URL. Errors: usage for a URL that this build cannot open.
#[cfg(feature = "remote")]
fn open_remote(url: &str) -> Result<Place, Failure> {
    let opened = waxseal_remote::RemoteDirectory::open_root(url);
    let (directory, name) = opened.map_err(|error| Failure::usage(error.to_string()))?;
    Ok(Place { tree: Box::new(super::remote::RemoteTree::new(directory)), path: name.into_bytes() })
}

/// Opens the files of a store. Errors: locked if another process writes.
pub(super) fn open_files(args: &Args, store: &Path, access: Access) -> Result<FileStore, Failure> {
    let db = match access {
        Access::Read => Db::open_read_only(store)?,
        Access::Change => report_cut(Db::builder(store).create_if_missing(false).open()?)?,
        Access::Fill => report_cut(Db::open(store)?)?,
    };
    if access != Access::Read {
        check_not_followed(&db, store)?;
    }
    let family = args.files_family();
    let has_files = db.column_families().iter().any(|own| own.name() == family);
    if !has_files && access != Access::Fill {
        let store = store.display();
        return Err(Failure::not_found(format!("the store waxseal://{store} has no files in the family {family:?}")));
    }
    let files = FileStore::open(&db, family)?;
    match &args.name {
        Some(name) => Ok(files.in_session(&db.session(name.as_str())?)?),
        None => Ok(files),
    }
}

/// Returns a client of the process that serves a store; `None` if the process that has locked it serves no files.
fn served(args: &Args, store: &Path) -> Result<Option<Client>, Failure> {
    let client = Client::connect(store, args.files_family(), args.name.as_deref());
    client.map_err(|error| Failure::io(store.display(), error))
}

/// Returns the directory of a store that is named by it, or by its URL.
#[cfg(any(feature = "serve", feature = "mount"))]
pub(super) fn store_of_url(text: &OsStr) -> PathBuf {
    let bytes = text.as_bytes();
    PathBuf::from(OsStr::from_bytes(bytes.strip_prefix(SCHEME).unwrap_or(bytes)))
}

/// Returns true if a path equals a directory or is below it.
pub(crate) fn is_within(path: &Path, directory: &Path) -> bool {
    canonical(path).zip(canonical(directory)).is_some_and(|(path, directory)| path.starts_with(directory))
}

/// Returns a path without links. The last name need not exist. `None` for a path that cannot be opened either.
fn canonical(path: &Path) -> Option<PathBuf> {
    let whole = path.canonicalize();
    whole.ok().or_else(|| Some(directory_of(path).canonicalize().ok()?.join(path.file_name()?)))
}

/// Returns the directory that holds a path: `.` for a path of one name.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns a path without slashes at its ends and double ones between.
fn trimmed(path: &[u8]) -> Vec<u8> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect::<Vec<_>>().join(&b'/')
}

/// Opens the directory of a local path, or the one that holds it: always that for a path that is changed itself.
fn open_local(path: &Path, access: Access) -> Result<Place, Failure> {
    let (directory, name) = match (path.is_dir() && access != Access::Change, path.file_name()) {
        (false, Some(name)) => (directory_of(path), name.as_bytes().to_vec()),
        _ => (path, Vec::new()),
    };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    Ok(Place { tree: Box::new(LocalTree::open(directory)?), path: name })
}

/// Returns the last name of a path as the command line has it, for a copy into a directory.
pub(super) fn last_name(text: &OsStr) -> Vec<u8> {
    let name = match Location::parse(text) {
        Ok(Location::Stored { path, .. }) => {
            path.rsplit(|byte| *byte == b'/').find(|name| !name.is_empty()).map(<[u8]>::to_vec)
        }
        Ok(Location::Local(path)) => path.file_name().map(|name| name.as_bytes().to_vec()),
        #[cfg(feature = "remote")]
        Ok(Location::Remote(url)) => url.rsplit('/').find(|name| !name.is_empty()).map(|name| name.as_bytes().to_vec()),
        Err(_) => None,
    };
    name.unwrap_or_default()
}

/// Joins a path of the shell to its directory, and resolves `.` and `..`.
pub(super) fn resolve(directory: &[u8], path: &[u8]) -> Vec<u8> {
    let start = if path.starts_with(b"/") { &b""[..] } else { directory };
    let mut names: Vec<&[u8]> = Vec::new();
    for name in start.split(|byte| *byte == b'/').chain(path.split(|byte| *byte == b'/')) {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.join(&b'/')
}

/// Returns the URL of a path in a store.
pub(super) fn url(store: &Path, path: &[u8]) -> OsString {
    OsString::from_vec([SCHEME, store.as_os_str().as_bytes(), b"/", path].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Location {
        Location::parse(OsStr::new(text)).unwrap()
    }

    fn stored(store: &Path, path: &str, exists: bool) -> Location {
        Location::Stored { store: store.to_owned(), path: path.as_bytes().to_vec(), exists }
    }

    #[test]
    fn a_url_names_its_store_by_the_first_one_on_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("deep/store");
        std::fs::create_dir_all(dir.path().join("deep/empty")).unwrap();
        Db::open(&store).unwrap().close().unwrap();
        let base = dir.path().display();
        assert_eq!(parse(&format!("waxseal://{base}/deep/store")), stored(&store, "", true));
        assert_eq!(parse(&format!("waxseal://{base}/deep/store/a//b/")), stored(&store, "/a//b/", true));
        let new = dir.path().join("deep/new");
        assert_eq!(parse(&format!("waxseal://{base}/deep/new/a/b")), stored(&new, "/a/b", false));
        let empty = dir.path().join("deep/empty");
        assert_eq!(parse(&format!("waxseal://{base}/deep/empty")), stored(&empty, "", false));
        assert!(Location::parse(OsStr::new(&format!("waxseal://{base}/deep"))).is_err(), "it holds other things");
        assert_eq!(parse("a/b"), Location::Local("a/b".into()));
        assert_eq!(parse("file:a/b"), Location::Local("a/b".into()));
        assert!(Location::parse(OsStr::new("hdfs://host/path")).is_err());
    }

    #[test]
    fn paths_of_the_shell_are_relative_to_its_directory() {
        let resolved = |directory: &str, path: &str| resolve(directory.as_bytes(), path.as_bytes());
        for (directory, path, expected) in
            [("a/b", "c", "a/b/c"), ("a/b", "..", "a"), ("a", "../../x", "x"), ("a", "/x/./y/", "x/y"), ("", "", "")]
        {
            assert_eq!(resolved(directory, path), expected.as_bytes(), "{directory} {path}");
        }
    }
}
