//! The objects below a URL, by blocking calls.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutResult,
};

use crate::blocking::BlockingRuntime;

/// The metadata of an object that holds its label.
pub(crate) const LABEL: Attribute = Attribute::Metadata(Cow::Borrowed("waxseal"));

/// The objects below a URL. Names are relative to it, with `/` between components. Clones share the connection.
#[derive(Clone)]
pub struct RemoteDirectory {
    url: Arc<str>,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) runtime: Arc<BlockingRuntime>,
}

/// An object, or a common prefix of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteEntry {
    /// The name below the URL of the directory.
    pub name: String,
    /// Bytes; 0 for a prefix.
    pub size: u64,
    /// The time of the last change, in microseconds since 1970; 0 for a prefix.
    pub modified_micros: u64,
    /// The entity tag, which changes with the content; `None` for a prefix, or a store without tags.
    pub etag: Option<String>,
    /// True for a prefix.
    pub is_prefix: bool,
    /// The label that [`crate::Upload::label`] gave to the object; known to [`RemoteDirectory::head`] and
    /// [`crate::Download::open`] only.
    pub label: Option<String>,
}

impl RemoteEntry {
    fn of(meta: ObjectMeta) -> RemoteEntry {
        RemoteEntry {
            name: meta.location.to_string(),
            size: meta.size,
            modified_micros: u64::try_from(meta.last_modified.timestamp_micros()).unwrap_or_default(),
            etag: meta.e_tag,
            is_prefix: false,
            label: None,
        }
    }

    fn prefix(path: &Path) -> RemoteEntry {
        RemoteEntry { name: path.to_string(), size: 0, modified_micros: 0, etag: None, is_prefix: true, label: None }
    }
}

impl RemoteDirectory {
    /// Connects to the object store of a URL: `s3://`, `gs://`, `az://` (feature `cloud`), `file://`. No request is made.
    /// Credentials, regions and endpoints come from the environment (`AWS_*`, `GOOGLE_*`, `AZURE_*`).
    ///
    /// Errors: `InvalidInput` for a URL that this build does not serve, or an incomplete configuration.
    pub fn open(url: &str) -> io::Result<RemoteDirectory> {
        RemoteDirectory::of(url, crate::url::connect(url)?)
    }

    /// Connects to the bucket, container or host of a URL (also `http://` and `https://` with the feature `cloud`, and
    /// `hdfs://` with the feature `hdfs`), and returns the name of the URL's object in it. Errors: those of `open`.
    pub fn open_root(url: &str) -> io::Result<(RemoteDirectory, String)> {
        let (root, name) = crate::url::split(url)?;
        Ok((RemoteDirectory::open(root)?, name))
    }

    /// Returns the objects of a store. `url` is its name in messages.
    pub fn of(url: &str, store: Arc<dyn ObjectStore>) -> io::Result<RemoteDirectory> {
        Ok(RemoteDirectory { url: url.trim_end_matches('/').into(), store, runtime: Arc::new(BlockingRuntime::new()?) })
    }

    /// Returns the URL, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the URL of an object.
    pub fn url_of(&self, name: &str) -> String {
        if name.is_empty() { self.url.to_string() } else { format!("{}/{name}", self.url) }
    }

    /// Returns an object. Errors: `NotFound`, and those of the store.
    pub fn head(&self, name: &str) -> io::Result<RemoteEntry> {
        let path = self.path(name)?;
        let options = GetOptions { head: true, ..GetOptions::default() };
        let got = self.runtime.wait(self.store.get_opts(&path, options)).map_err(|error| self.failed(name, error))?;
        let label = got.attributes.get(&LABEL).map(|label| label.as_ref().to_owned());
        Ok(RemoteEntry { label, ..RemoteEntry::of(got.meta) })
    }

    /// Lists the objects and prefixes directly below a name, in the order of their names.
    pub fn list(&self, name: &str) -> io::Result<Vec<RemoteEntry>> {
        let path = self.path(name)?;
        let listed = self.runtime.wait(self.store.list_with_delimiter(Some(&path)));
        let listed = listed.map_err(|error| self.failed(name, error))?;
        let prefixes = listed.common_prefixes.iter().map(RemoteEntry::prefix);
        let mut entries: Vec<_> = prefixes.chain(listed.objects.into_iter().map(RemoteEntry::of)).collect();
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    /// Lists all objects below a name, in the order of their names.
    pub fn list_all(&self, name: &str) -> io::Result<Vec<RemoteEntry>> {
        let path = self.path(name)?;
        let listed = self.store.list(Some(&path)).map_ok(RemoteEntry::of).boxed();
        let mut entries: Vec<RemoteEntry> =
            self.runtime.wait(listed.try_collect()).map_err(|error| self.failed(name, error))?;
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    /// Removes an object. Succeeds if there is none.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.path(name)?;
        match self.runtime.wait(self.store.delete(&path)) {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            removed => removed.map_err(|error| self.failed(name, error)),
        }
    }

    /// Reads a small object: at most `most` bytes of it.
    pub(crate) fn read(&self, name: &str, most: u64) -> Result<(ObjectMeta, Bytes), object_store::Error> {
        let options = GetOptions::new().with_range(Some(0..most));
        self.runtime.wait(async {
            let got = self.store.get_opts(&Path::parse(name)?, options).await?;
            Ok((got.meta.clone(), got.bytes().await?))
        })
    }

    /// Writes an object in one request.
    pub(crate) fn put(&self, name: &str, bytes: Bytes, mode: PutMode) -> Result<PutResult, object_store::Error> {
        self.put_with(name, bytes, mode, Attributes::new())
    }

    /// As `put`, with metadata.
    pub(crate) fn put_with(
        &self,
        name: &str,
        bytes: Bytes,
        mode: PutMode,
        attributes: Attributes,
    ) -> Result<PutResult, object_store::Error> {
        let options = PutOptions { mode, attributes, ..PutOptions::default() };
        self.runtime.wait(async { self.store.put_opts(&Path::parse(name)?, bytes.into(), options).await })
    }

    /// Returns an error of the store as one of the system, with the URL of the object.
    pub(crate) fn failed(&self, name: &str, error: object_store::Error) -> io::Error {
        let kind = match &error {
            object_store::Error::NotFound { .. } => io::ErrorKind::NotFound,
            object_store::Error::AlreadyExists { .. } => io::ErrorKind::AlreadyExists,
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                io::ErrorKind::PermissionDenied
            }
            object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. } => {
                io::ErrorKind::Unsupported
            }
            object_store::Error::InvalidPath { .. } => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, format!("{}: {error}", self.url_of(name)))
    }

    pub(crate) fn path(&self, name: &str) -> io::Result<Path> {
        Path::parse(name).map_err(|error| self.failed(name, error.into()))
    }
}

impl fmt::Debug for RemoteDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}
