//! Exchange with other stores: export and import of key ranges as table files. `waxseal_meta::exchange` implements it.

use std::ops::Bound;
use std::path::{Path, PathBuf};

use waxseal_lsm::db::{At, CursorBounds};
use waxseal_lsm::error::Result;
use waxseal_lsm::record::Seqno;
use waxseal_meta::exchange as work;
use waxseal_registry::payload::FileRef;
use waxseal_registry::{Field, Operation, Payload};

use crate::inner::ColumnFamily;
use crate::range::KeyRange;
use crate::snapshot::Snapshot;

pub use waxseal_meta::exchange::header::File;
pub use waxseal_meta::exchange::{Exported, Form, Imported, LeftBehind, Manifest, Policy, Versions};

/// The records of an export, and the metadata exported with them. Default: the newest version of every key, with its
/// seal and labels.
///
/// ```
/// use waxseal::exchange::{ExportOptions, Policy};
///
/// let options = ExportOptions::new().range("a".."m").policy(Policy::Companion { allow: vec![] }); // only seals
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    policy: Policy,
    ranges: Vec<CursorBounds>,
    versions: Versions,
    seqno: Option<Seqno>,
}

impl ExportOptions {
    /// Returns the default options.
    pub fn new() -> ExportOptions {
        ExportOptions::default()
    }

    /// Adds a key range. Ranges must be in ascending order and must not overlap or touch. Without a range, all keys are
    /// exported.
    pub fn range(mut self, range: impl KeyRange) -> ExportOptions {
        self.ranges.push(range.into_bounds());
        self
    }

    /// Sets the metadata exported with the records. Default: seals, expiry times and labels. [`Policy::Strip`] exports
    /// no metadata.
    pub fn policy(mut self, policy: Policy) -> ExportOptions {
        self.policy = policy;
        self
    }

    /// Selects the versions of each key. Default [`Versions::Newest`].
    pub fn versions(mut self, versions: Versions) -> ExportOptions {
        self.versions = versions;
        self
    }

    /// Replaces the sequence number of every record with this one. Only with [`Versions::Newest`].
    pub fn seqno(mut self, seqno: Seqno) -> ExportOptions {
        self.seqno = Some(seqno);
        self
    }
}

impl ColumnFamily {
    /// Exports records of the family as table files in a new directory, for another node: a sealed store, a plain one,
    /// or a store without support for seals. Every record is checked as it is exported.
    ///
    /// By default the records keep their seals, expiry times and labels. [`Exported::left_behind`] counts the other
    /// metadata. A key with merge operands is exported with its merged value. If the store is open for writing, an event
    /// (`Engine.Export`) records the export.
    ///
    /// Costs a scan and the files. The files are durable when the call returns. A directory without its last file,
    /// `EXCHANGE`, is not an export.
    ///
    /// Errors:
    /// - `Invalid`, before anything is written, for ranges that touch, or for a policy that cannot carry a key, which
    ///   the error names.
    /// - `Invalid` for a key with merge operands under [`Versions::All`], and if its merge operator fails. The incomplete
    ///   export is deleted.
    /// - `Invalid` for a record with an expiry time under a policy without seals, because the importing store would
    ///   never expire it. The incomplete export is deleted.
    /// - `Corruption`, with file and offset, for a record that does not match its seal.
    ///
    /// Source: the heterogeneous nodes of the MetaHive paper; docs/format.md, section 8.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let parcel = dir.path().join("parcel");
    /// use waxseal::Db;
    /// use waxseal::exchange::ExportOptions;
    ///
    /// let (from, to) = (Db::open(dir.path().join("from"))?, Db::open(dir.path().join("to"))?);
    /// let (giver, taker) = (from.column_family("default")?, to.column_family("default")?);
    /// giver.put("a", "1")?;
    /// giver.put("b", "2")?;
    /// let exported = giver.export(&parcel, ExportOptions::new())?;
    /// assert_eq!((exported.records, exported.left_behind.bytes), (2, 0));
    /// let imported = taker.import(&parcel)?;
    /// assert_eq!((imported.records, imported.sealed), (2, 2));
    /// assert_eq!(taker.get("a")?.unwrap(), "1");
    /// assert_eq!(from.digest(&giver, ..)?, to.digest(&taker, ..)?); // equal content
    /// # Ok(())
    /// # }
    /// ```
    pub fn export(&self, dir: impl AsRef<Path>, options: ExportOptions) -> Result<Exported> {
        self.export_at(dir.as_ref(), options, At::Latest)
    }

    /// Imports an export. Every record is checked first. All records get one new sequence number, above all existing
    /// versions of their keys. A failed import changes nothing.
    ///
    /// Errors: `Corruption`, with file and offset, if the files do not match the export's manifest, or if a record does
    /// not match its seal or row; `Invalid` if the directory holds no export, if the key order differs, or if a record
    /// expires and this store cannot keep expiry times; `FormatTooNew`, `ReadOnly`, `Io`.
    pub fn import(&self, dir: impl AsRef<Path>) -> Result<Imported> {
        self.inner.check_writable()?;
        self.inner.check(&self.family)?;
        work::import(&self.inner.engine, &self.family, &self.inner.env, dir.as_ref())
    }

    /// Imports bare table files, which are described only by their own properties, for instance those of an older node.
    /// Errors: as for `import`.
    pub fn import_tables(&self, tables: &[PathBuf], form: Form) -> Result<Imported> {
        self.inner.check_writable()?;
        self.inner.check(&self.family)?;
        work::import_tables(&self.inner.engine, &self.family, &self.inner.env, tables, form)
    }

    fn export_at(&self, dir: &Path, options: ExportOptions, at: At<'_>) -> Result<Exported> {
        self.inner.check(&self.family)?;
        let ExportOptions { policy, ranges, versions, seqno } = options;
        let bounds = if ranges.is_empty() { vec![(Bound::Unbounded, Bound::Unbounded)] } else { ranges };
        let request = work::ExportRequest { policy, bounds, at, versions, seqno };
        let start = self.inner.env.clock.monotonic_nanos();
        let exported = work::export(&self.inner.engine, &self.family, &self.inner.env, dir, &request)?;
        let nanos = self.inner.env.clock.monotonic_nanos().saturating_sub(start);
        self.inner.note_event(Operation::ENGINE_EXPORT, account(self.name(), dir, &exported, nanos))?;
        Ok(exported)
    }
}

/// Builds the log event of an export.
fn account(family: &str, dir: &Path, exported: &Exported, nanos: u64) -> Payload {
    let setting = |name: &str, value: String| Field::Setting((name.to_owned(), value));
    let mut payload = Payload::new()
        .with(setting("family", family.to_owned()))
        .with(setting("directory", dir.display().to_string()))
        .with(Field::Records(exported.records))
        .with(Field::Sum(exported.sum))
        .with(Field::Nanos(nanos));
    for File { uid, digest, records, .. } in &exported.manifest.files {
        payload.push(Field::Output(FileRef { uid: *uid, digest: *digest, records: *records }));
    }
    payload
}

impl Snapshot {
    /// Exports records of a family at the snapshot to a new directory: see [`ColumnFamily::export`].
    pub fn export(&self, cf: &ColumnFamily, dir: impl AsRef<Path>, options: ExportOptions) -> Result<Exported> {
        cf.export_at(dir.as_ref(), options, At::Snapshot(self.of(cf)?))
    }
}
