//! Export: writes the records of key ranges, as a snapshot sees them, to table files in a directory.
//!
//! In:     a family, ranges, a snapshot, and the policy for companions.
//! Out:    `000001.tbl` and so on, synced; `EXCHANGE`, which describes them, last.
//! Holds:  every record is checked in its source before it is exported, and again in the finished block. A key that the
//!         form cannot carry is rejected before anything is written. Expiry of all records is decided at one time: an
//!         expired record hides older versions and is not exported. A record with an expiry time is rejected if the
//!         policy does not export expiry times.
//! Crash:  tables without `EXCHANGE` are not an export. After an error the written files are removed if possible.

use std::cmp::Ordering;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::checksum::{Uid, hash_key};
use waxseal_lsm::db::{At, CursorBounds, Db, Family, Raw, Snapshot};
use waxseal_lsm::env::{Env, Open};
use waxseal_lsm::error::{self, Damage, Error, IoContext, Result};
use waxseal_lsm::key_text::KeyText;
use waxseal_lsm::names::StoreFileName;
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Kind, MAX_KEY_BYTES, MAX_SEQNO, OwnedRecord, Record, Seqno};
use waxseal_lsm::seam::{Build, Companions, PassRecord, Plain, Protection, RecordSource, RowRewriter, is_over};
use waxseal_lsm::sst::{Writer, WriterSettings};
use waxseal_lsm::version::{self, Contents, Foreign, Marked};

use super::header::{self, File, Manifest};
use super::left_behind::{LeftBehind, Outlet};
use super::pairing::{Pairing, PairingOutput};
use super::row;
use super::{Form, Versions, has_end, has_seal, term_of};
use crate::provider::LABELS;

/// The metadata that an export writes with the records. Default: seals, and the labels that users gave their records.
///
/// A record's expiry time is covered by its seal and exported with it. The policies without seals reject a record that
/// expires, since the receiver would keep it forever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// No metadata, as in the MetaHive paper.
    Strip,
    /// Seals with the entries that they cover, and the entries of the listed providers. Stamps and marks of this store
    /// are not exported.
    Companion {
        /// Provider ids, in any order.
        allow: Vec<u16>,
    },
    /// The paper's checksums in a separate table: one tombstone per key at seqno 0, older than any record it could
    /// hide.
    PaperSafe,
    /// The paper's rows, one per version, between the records. They hide older records of `key ‖ 01` at the receiver.
    PaperLiteral,
}

impl Default for Policy {
    fn default() -> Self {
        Policy::Companion { allow: vec![LABELS] }
    }
}

impl Policy {
    /// Returns the form of the tables that this policy writes.
    pub fn form(&self) -> Form {
        match self {
            Policy::Strip => Form::Plain,
            Policy::Companion { .. } => Form::Sealed,
            Policy::PaperSafe => Form::PaperSafe,
            Policy::PaperLiteral => Form::PaperLiteral,
        }
    }
}

/// An export request.
#[derive(Clone, Debug)]
pub struct ExportRequest<'a> {
    /// The policy for companions.
    pub policy: Policy,
    /// Key ranges, ascending and disjoint.
    pub bounds: Vec<CursorBounds>,
    /// The snapshot to read.
    pub at: At<'a>,
    /// Which versions of a key are exported.
    pub versions: Versions,
    /// If set, every record gets this seqno instead of its own; only with `Versions::Newest`.
    pub seqno: Option<Seqno>,
}

impl Default for ExportRequest<'_> {
    /// The newest version of every key, with its seal and labels.
    fn default() -> Self {
        let bounds = vec![(Bound::Unbounded, Bound::Unbounded)];
        ExportRequest { policy: Policy::default(), bounds, at: At::Latest, versions: Versions::Newest, seqno: None }
    }
}

/// The result of an export. It stays in this store, also under `Strip`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The content of `EXCHANGE`.
    pub manifest: Manifest,
    /// Number of user records.
    pub records: u64,
    /// Number of rows for them.
    pub rows: u64,
    /// Number of records without a seal.
    pub unsealed: u64,
    /// Σ of the seals of all records, modulo 2^64: equal for equal content, independent of its layout.
    pub sum: u64,
    /// Bytes of companions in the tables.
    pub companion_bytes: u64,
    /// Metadata and expired records that were not exported.
    pub left_behind: LeftBehind,
    /// A warning for users who give the tables to other software.
    pub warning: Option<&'static str>,
}

/// The effects of the paper's rows on a node that does not know them.
const WARNING: &str = "rows in the paper's form are tombstones to the receiver: they double its filter's keys, count as deletions \
                       where these set off compactions, and are skipped one by one by its iterators";

/// Writes an export into `dir`, which is created and must not contain one.
///
/// Errors: `Invalid` for overlapping ranges, or naming a key that the policy cannot carry, before anything is written;
/// `Invalid` naming a record that expires under a policy without expiry times; `Corruption`, with file and offset, for
/// a record that does not match its seal. After an error the written files are removed.
pub fn export(db: &Db, family: &Family, env: &Env, dir: &Path, request: &ExportRequest<'_>) -> Result<Exported> {
    check_request(family.order(), request)?;
    let snapshot = match request.at {
        At::Snapshot(snapshot) => snapshot.clone(),
        At::Latest => db.snapshot()?,
    };
    let giver = Giver { db, family, snapshot: &snapshot, request, now: snapshot.micros() };
    if matches!(request.policy, Policy::PaperSafe | Policy::PaperLiteral) {
        giver.check_keys()?;
    }
    env.fs.create_dir_all(dir).during(|| format!("making {}", dir.display()))?;
    let env = &env.clone().within(dir);
    if env.fs.exists(&dir.join(header::NAME)).during(|| "looking for an export")? {
        return Err(Error::invalid(format!("{} holds an export", dir.display())));
    }
    match version::contents(env, dir)? {
        Contents::Empty | Contents::Foreign(Foreign::Other(_)) => {
            version::mark_unfinished(env, dir, Marked::UnfinishedExport)?
        }
        contents => return Err(Error::invalid(format!("{} holds {contents}", dir.display()))),
    }
    let mut sinks = Sinks { env, dir, names: Vec::new() };
    let outcome = giver.write(&mut sinks);
    if outcome.is_err() {
        for name in &sinks.names {
            let _ = env.fs.remove(&dir.join(name));
        }
    }
    let unmarked = version::mark_finished(env, dir);
    outcome.and_then(|exported| unmarked.map(|()| exported))
}

fn check_request(order: &Order, request: &ExportRequest<'_>) -> Result<()> {
    let end = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Included(key) => Some((key.clone(), true)),
        Bound::Excluded(key) => Some((key.clone(), false)),
        Bound::Unbounded => None,
    };
    for pair in request.bounds.windows(2) {
        let apart = match (end(&pair[0].1), end(&pair[1].0)) {
            (Some((high, has_high)), Some((low, has_low))) => match order.compare(&high, &low) {
                Ordering::Less => true,
                Ordering::Equal => !(has_high && has_low),
                Ordering::Greater => false,
            },
            _ => false,
        };
        if !apart {
            return Err(Error::invalid("the ranges of an export must ascend and not meet"));
        }
    }
    if let Some(seqno) = request.seqno
        && (request.versions == Versions::All || seqno == 0 || seqno > MAX_SEQNO)
    {
        return Err(Error::invalid("one seqno for all needs one version of each key, and cannot be 0"));
    }
    Ok(())
}

/// An export in progress.
struct Giver<'a> {
    db: &'a Db,
    family: &'a Family,
    snapshot: &'a Snapshot,
    request: &'a ExportRequest<'a>,
    /// The time that decides which records have expired.
    now: u64,
}

impl Giver<'_> {
    /// Visits every record of the export after its check, with its source. Returns the number of expired values.
    fn each(&self, visit: &mut dyn FnMut(&Record<'_>, RecordSource<'_>) -> Result<()>) -> Result<u64> {
        let protector = self.db.protector();
        let order = self.family.order();
        let has_rows = protector.has_rows();
        let says_ends = matches!(self.request.policy, Policy::Companion { .. });
        let mut last: Option<Vec<u8>> = None;
        let mut expired = 0;
        for bounds in &self.request.bounds {
            let mut raw: Raw = self.db.raw(self.family, At::Snapshot(self.snapshot), bounds.clone())?;
            while let Some((record, source)) = raw.next()? {
                if has_rows && row::RowForm::Faithful.read(&record).is_some() {
                    continue;
                }
                check(&**protector, &record, source)?;
                if self.request.versions == Versions::Newest {
                    if last.as_ref().is_some_and(|last| order.compare(last, record.key).is_eq()) {
                        continue;
                    }
                    let key = last.get_or_insert_default();
                    key.clear();
                    key.extend_from_slice(record.key);
                }
                let merged = if record.kind == Kind::Merge { Some(self.merged(record.key)?) } else { None };
                let record = merged.as_ref().map_or(record, OwnedRecord::borrow);
                let is_gone = record.kind.is_value() && is_over(&**protector, &record, &|| self.now);
                expired += u64::from(is_gone);
                if self.request.versions == Versions::Newest && (record.kind == Kind::Delete || is_gone) {
                    continue;
                }
                if is_gone {
                    let tombstone = Record { kind: Kind::Delete, value: b"", companion: b"", ..record };
                    // its seal is made later
                    visit(&tombstone, RecordSource { protection: Protection::None, ..source })?;
                } else if has_end(record.companion) && !says_ends {
                    return Err(would_stay(record.key));
                } else {
                    visit(&record, source)?;
                }
            }
        }
        Ok(expired)
    }

    /// Returns the value of a key whose newest version is a merge operand, sealed after all its inputs were checked.
    /// Errors: `Invalid` for an export of all versions, and if the operator fails; damage of any input.
    fn merged(&self, key: &[u8]) -> Result<OwnedRecord> {
        if self.request.versions == Versions::All {
            let key = KeyText(key);
            return Err(Error::invalid(format!(
                "key {key} has merge operands, which an export of all versions cannot hold: compact its family first"
            )));
        }
        let (at, mut merged) = (At::Snapshot(self.snapshot), None);
        self.db.get(self.family, key, at, &mut |record| merged = Some(OwnedRecord::of(record)))?;
        merged.ok_or_else(|| Error::structural("an operand that is not found again"))
    }

    /// Checks that the paper's form can carry every key.
    fn check_keys(&self) -> Result<()> {
        let literal = self.request.policy == Policy::PaperLiteral;
        let bytewise = self.family.order().is_bytewise();
        self.each(&mut |record, _| {
            let why = match record.key {
                _ if !bytewise => "the family is not in bytewise order",
                [.., row::MARK] if literal => "it ends in 01",
                key if key.len() == MAX_KEY_BYTES => "it is as long as a key can be",
                _ => return Ok(()),
            };
            Err(Error::invalid(format!("the paper's form cannot carry the key {}: {why}", KeyText(record.key))))
        })
        .map(drop)
    }

    fn write(&self, sinks: &mut Sinks<'_>) -> Result<Exported> {
        let (protector, request) = (self.db.protector(), self.request);
        let sealed = matches!(request.policy, Policy::Companion { .. });
        let writer_protector: Arc<dyn Companions> = if sealed { protector.clone() } else { Arc::new(Plain) };
        let mut tables = ExportTables::new(self.family, writer_protector, request.seqno.unwrap_or(0));
        let mut beside = ExportTables::new(self.family, Arc::new(Plain), 0);
        let written = if request.policy == Policy::PaperSafe { PairingOutput::SafeRows } else { PairingOutput::Both };
        let mut pairing = Pairing::new(row::RowForm::Literal, written, Box::new(|_| Ok(())));
        let mut outlet = Outlet::new(&request.policy);
        let (mut built, mut portable) = (Vec::new(), Vec::new());
        let (mut records, mut unsealed, mut sum, mut companion_bytes) = (0, 0, 0u64, 0);
        let made_here = RecordSource::default(); // no row is expected of it
        let expired = self.each(&mut |record, source| {
            records += 1;
            sum = sum.wrapping_add(term_of(&**protector, record));
            portable.clear();
            built.clear();
            let build = if sealed { protector.on_build(record, source.protection, &mut built) } else { Build::Keep };
            let companion = if build == Build::Keep { record.companion } else { &built };
            outlet.pass(companion, &mut portable)?;
            if sealed {
                if let Some(seqno) = request.seqno {
                    protector.bind(&mut portable, Some(record.seqno), seqno);
                }
                companion_bytes += portable.len() as u64;
            }
            unsealed += u64::from(sealed && !has_seal(&portable));
            let seqno = request.seqno.unwrap_or(record.seqno);
            let record = Record { seqno, companion: &portable, ..*record };
            match request.policy {
                Policy::Strip | Policy::Companion { .. } => tables.add(sinks, &record),
                Policy::PaperSafe => {
                    tables.add(sinks, &record)?;
                    pairing.sees(&record, true, made_here)?;
                    beside.add_groups(sinks, &mut pairing)
                }
                Policy::PaperLiteral => {
                    pairing.sees(&record, true, made_here)?;
                    tables.add_groups(sinks, &mut pairing)
                }
            }
        })?;
        pairing.ends()?;
        let rows_to = if request.policy == Policy::PaperSafe { &mut beside } else { &mut tables };
        rows_to.add_groups(sinks, &mut pairing)?;
        let mut files = tables.finish(sinks)?;
        files.append(&mut beside.finish(sinks)?);
        let manifest = Manifest {
            uid: sinks.env.random.uid(),
            form: request.policy.form(),
            comparator: self.family.order().name().to_owned(),
            bounds: request.bounds.clone(),
            versions: request.versions,
            records,
            rows: files.iter().map(|file| file.rows).sum(),
            sum: if sealed { sum } else { 0 },
            algorithm: if sealed { protector.algorithm() } else { 0 },
            complete: sealed && records > 0 && unsealed == 0 && protector.protection() == Protection::Complete,
            files,
        };
        sinks.describe(&manifest)?;
        let rows = manifest.rows;
        let warning = (rows > 0).then_some(WARNING);
        let left_behind = LeftBehind { expired, ..outlet.left };
        Ok(Exported { manifest, records, rows, unsealed, sum, companion_bytes, left_behind, warning })
    }
}

#[cold]
fn would_stay(key: &[u8]) -> Error {
    let key = KeyText(key);
    Error::invalid(format!(
        "the key {key} expires, which only an export with seals can say: its receiver would keep it for ever"
    ))
}

/// Rejects a record that does not match its companions.
fn check(protector: &dyn Companions, record: &Record<'_>, source: RecordSource<'_>) -> Result<()> {
    if protector.verify(record, hash_key(record.key), source.protection).serves() {
        return Ok(());
    }
    let key_range = Some((record.key.to_vec(), record.key.to_vec()));
    let damage = Damage { verdict: error::Verdict::Seal, key_range, ..Damage::default() };
    let error = Error::corruption(damage, "a record to be exported does not match its companion");
    Err(error.in_file(source.file, source.offset))
}

/// The target directory.
struct Sinks<'a> {
    env: &'a Env,
    dir: &'a Path,
    /// Names of the files created so far.
    names: Vec<String>,
}

impl Sinks<'_> {
    fn create(&mut self, name: &str) -> Result<Arc<dyn waxseal_lsm::env::File>> {
        let file = self.env.fs.open(&self.dir.join(name), Open::Create).during(|| format!("creating {name}"))?;
        self.names.push(name.to_owned());
        Ok(file)
    }

    fn describe(&mut self, manifest: &Manifest) -> Result<()> {
        let file = self.create(header::NAME)?;
        file.write_at(&manifest.encode(), 0).during(|| "writing EXCHANGE")?;
        file.sync_data().during(|| "syncing EXCHANGE")?;
        self.env.fs.sync_dir(self.dir).during(|| "syncing the directory of an export")
    }
}

/// A sequence of tables with ascending keys.
struct ExportTables {
    settings: WriterSettings,
    table_bytes: u64,
    protector: Arc<dyn Companions>,
    open: Option<OpenTable>,
    files: Vec<File>,
    key: Vec<u8>,
}

struct OpenTable {
    name: String,
    uid: Uid,
    file: Arc<dyn waxseal_lsm::env::File>,
    writer: Writer,
    rows: u64,
}

impl ExportTables {
    fn new(family: &Family, protector: Arc<dyn Companions>, base_seqno: Seqno) -> ExportTables {
        let options = family.options();
        // No store: the importing store copies the records.
        let settings = WriterSettings { filter_policy: None, ..WriterSettings::of(&options, family.id(), base_seqno) };
        let table_bytes = options.table_bytes;
        ExportTables { settings, table_bytes, protector, open: None, files: Vec::new(), key: Vec::new() }
    }

    /// Returns the table for a record. A new table begins only before another key.
    fn open(&mut self, sinks: &mut Sinks<'_>) -> Result<&mut OpenTable> {
        if self.open.is_none() {
            let name = StoreFileName::Table(sinks.names.len() as u64 + 1).to_string();
            let file = sinks.create(&name)?;
            let uid = sinks.env.random.uid();
            let settings = WriterSettings { created_micros: sinks.env.clock.wall_micros(), ..self.settings.clone() };
            let writer = Writer::new(file.clone(), uid, settings, self.protector.clone());
            self.open = Some(OpenTable { name, uid, file, writer, rows: 0 });
        }
        self.open.as_mut().ok_or_else(|| Error::invalid("no table is open"))
    }

    fn is_full(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.writer.file_bytes() >= self.table_bytes)
    }

    fn add(&mut self, sinks: &mut Sinks<'_>, record: &Record<'_>) -> Result<()> {
        if self.is_full() && self.settings.order.compare(&self.key, record.key).is_lt() {
            self.finish_table()?;
        }
        self.key.clear();
        self.key.extend_from_slice(record.key);
        self.open(sinks)?.writer.add(record)
    }

    /// Writes the groups of the pairing; a table ends only between groups.
    fn add_groups(&mut self, sinks: &mut Sinks<'_>, pairing: &mut Pairing) -> Result<()> {
        while let Some(group) = pairing.next_group() {
            let follows =
                group.first().is_some_and(|row: &PassRecord| self.settings.order.compare(&self.key, &row.key).is_lt());
            if self.is_full() && follows {
                self.finish_table()?;
            }
            let open = self.open(sinks)?;
            open.writer.keep_together(group.iter().map(PassRecord::record))?;
            for row in &group {
                open.rows += u64::from(row.made);
                open.writer.add(&row.record())?;
            }
            if let Some(last) = group.last() {
                self.key.clone_from(&last.key);
            }
        }
        Ok(())
    }

    fn finish_table(&mut self) -> Result<()> {
        let Some(OpenTable { name, uid, file, writer, rows }) = self.open.take() else { return Ok(()) };
        let finished = writer.finish()?;
        file.sync_data().during(|| format!("syncing {name}"))?;
        let records = finished.ledger.count() - rows;
        self.files.push(File { name, uid, size: finished.size, digest: finished.digest, records, rows });
        Ok(())
    }

    fn finish(mut self, _: &mut Sinks<'_>) -> Result<Vec<File>> {
        self.finish_table()?;
        Ok(self.files)
    }
}
