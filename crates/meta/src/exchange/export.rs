//! Export: the records of key ranges, as a snapshot sees them, as table files in a directory.
//!
//! In:     a family, ranges, a snapshot, and what may leave beside the records.
//! Out:    `000001.tbl` and so on, synced; `EXCHANGE`, which describes them, last.
//! Holds:  every record is checked where it lies before it is handed on, and again in the finished block. A key that cannot be
//!         carried is refused before anything is written. One moment decides for all whose time is over: such a record hides what is
//!         older and does not leave. Nor does one that will be over, under a policy that cannot say so.
//! Crash:  tables without `EXCHANGE`: no export. After an error what was written is removed, as far as possible.

use std::cmp::Ordering;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::checksum::{Uid, hash_key};
use waxseal_lsm::db::{At, Bounds, Db, Family, Raw, Snapshot};
use waxseal_lsm::env::{Env, Open};
use waxseal_lsm::error::{self, Damage, Error, IoContext, Result};
use waxseal_lsm::key_text::KeyText;
use waxseal_lsm::names::Name;
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Kind, MAX_KEY_BYTES, MAX_SEQNO, Record, Seqno};
use waxseal_lsm::seam::{Build, Companions, Plain, Protection, Row, Rows, Source, is_over};
use waxseal_lsm::sst::{Writer, WriterSettings};
use waxseal_lsm::version::{self, Contents, Foreign, Marked};

use super::header::{self, File, Manifest};
use super::left_behind::{LeftBehind, Outlet};
use super::{Form, Versions, has_end, has_seal, term_of};
use crate::paper::{self, Pairing, Written};
use crate::provider::LABELS;

/// The metadata that an export writes beside the records. Default: seals, and the labels that users gave their records.
///
/// A record's expiry time is covered by its seal and exported with it. The policies without seals refuse a record that expires, since
/// the receiver would keep it forever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// No metadata, as in the MetaHive paper.
    Strip,
    /// Seals with the entries that they cover, and the entries of the listed providers. Stamps and marks of this store are not exported.
    Companion {
        /// Provider ids, in any order.
        allow: Vec<u16>,
    },
    /// The paper's checksums in a table of their own: one tombstone a key at seqno 0, older than anything it could hide.
    PaperSafe,
    /// The paper's rows, one a version, between the records. They hide whatever older record of `key ‖ 01` the receiver has.
    PaperLiteral,
}

impl Default for Policy {
    fn default() -> Self {
        Policy::Companion { allow: vec![LABELS] }
    }
}

impl Policy {
    /// The form of what it writes.
    pub fn form(&self) -> Form {
        match self {
            Policy::Strip => Form::Plain,
            Policy::Companion { .. } => Form::Sealed,
            Policy::PaperSafe => Form::PaperSafe,
            Policy::PaperLiteral => Form::PaperLiteral,
        }
    }
}

/// What is to be exported.
#[derive(Clone, Debug)]
pub struct Export<'a> {
    /// What may leave beside the records.
    pub policy: Policy,
    /// Key ranges, ascending, which do not meet.
    pub bounds: Vec<Bounds>,
    /// What is seen.
    pub at: At<'a>,
    /// Which versions of a key.
    pub versions: Versions,
    /// The seqno that every record gets, in the place of this store's; only with `Versions::Newest`.
    pub seqno: Option<Seqno>,
}

impl Default for Export<'_> {
    /// The newest version of every key, with its seal and labels.
    fn default() -> Self {
        let bounds = vec![(Bound::Unbounded, Bound::Unbounded)];
        Export { policy: Policy::default(), bounds, at: At::Latest, versions: Versions::Newest, seqno: None }
    }
}

/// What an export did. It stays with the giver, also under `Strip`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// What `EXCHANGE` says.
    pub manifest: Manifest,
    /// Records of users.
    pub records: u64,
    /// Rows that speak for them.
    pub rows: u64,
    /// Records that had no seal.
    pub unsealed: u64,
    /// Σ of the seals of all records, modulo 2^64: the same for the same content wherever it lies.
    pub sum: u64,
    /// Bytes of companions in the tables.
    pub companion_bytes: u64,
    /// Metadata and expired records that were not exported.
    pub left_behind: LeftBehind,
    /// What whoever gives the tables to a store of another make should know.
    pub warning: Option<&'static str>,
}

/// What rows in the paper's form do to a node that does not know them.
const WARNING: &str = "rows in the paper's form are tombstones to the receiver: they double its filter's keys, count as deletions \
                       where these set off compactions, and are skipped one by one by its iterators";

/// Writes an export into `dir`, which is made and must hold none yet.
///
/// Errors: `Invalid` for ranges that meet or a policy that cannot carry a key, which is named, before anything is written; `Invalid` for
/// a record that expires under a policy that cannot say so, which is named, and `Corruption`, with file and offset, for a record that
/// is not what its seal says: nothing stays of what was written.
pub fn export(db: &Db, family: &Family, env: &Env, dir: &Path, request: &Export<'_>) -> Result<Exported> {
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

fn check_request(order: &Order, request: &Export<'_>) -> Result<()> {
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

/// One export.
struct Giver<'a> {
    db: &'a Db,
    family: &'a Family,
    snapshot: &'a Snapshot,
    request: &'a Export<'a>,
    /// The moment that decides whose time is over.
    now: u64,
}

impl Giver<'_> {
    /// Visits every record of the export after its check, with its source. Returns the number of expired values.
    fn each(&self, visit: &mut dyn FnMut(&Record<'_>, Source<'_>) -> Result<()>) -> Result<u64> {
        let keeper = self.db.keeper();
        let order = self.family.order();
        let has_rows = keeper.has_rows();
        let says_ends = matches!(self.request.policy, Policy::Companion { .. });
        let mut last: Option<Vec<u8>> = None;
        let mut expired = 0;
        for bounds in &self.request.bounds {
            let mut raw: Raw = self.db.raw(self.family, At::Snapshot(self.snapshot), bounds.clone())?;
            while let Some((record, source)) = raw.next()? {
                if has_rows && paper::Form::Faithful.read(&record).is_some() {
                    continue;
                }
                check(&**keeper, &record, source)?;
                let is_gone = record.kind.is_value() && is_over(&**keeper, &record, &|| self.now);
                if self.request.versions == Versions::Newest {
                    if last.as_ref().is_some_and(|last| order.compare(last, record.key).is_eq()) {
                        continue;
                    }
                    let key = last.get_or_insert_default();
                    key.clear();
                    key.extend_from_slice(record.key);
                    expired += u64::from(is_gone);
                    if record.kind == Kind::Delete || is_gone {
                        continue;
                    }
                } else {
                    expired += u64::from(is_gone);
                }
                if is_gone {
                    let tombstone = Record { kind: Kind::Delete, value: b"", companion: b"", ..record };
                    visit(&tombstone, Source { protection: Protection::None, ..source })?; // its seal is yet to be made
                } else if has_end(record.companion) && !says_ends {
                    return Err(would_stay(record.key));
                } else {
                    visit(&record, source)?;
                }
            }
        }
        Ok(expired)
    }

    /// Whether every key can be carried in the paper's form.
    fn check_keys(&self) -> Result<()> {
        let literal = self.request.policy == Policy::PaperLiteral;
        let bytewise = self.family.order().is_bytewise();
        self.each(&mut |record, _| {
            let why = match record.key {
                _ if !bytewise => "the family is not in bytewise order",
                [.., paper::row::MARK] if literal => "it ends in 01",
                key if key.len() == MAX_KEY_BYTES => "it is as long as a key can be",
                _ => return Ok(()),
            };
            Err(Error::invalid(format!("the paper's form cannot carry the key {}: {why}", KeyText(record.key))))
        })
        .map(drop)
    }

    fn write(&self, sinks: &mut Sinks<'_>) -> Result<Exported> {
        let (keeper, request) = (self.db.keeper(), self.request);
        let sealed = matches!(request.policy, Policy::Companion { .. });
        let writer_keeper: Arc<dyn Companions> = if sealed { keeper.clone() } else { Arc::new(Plain) };
        let mut tables = Tables::new(self.family, writer_keeper, request.seqno.unwrap_or(0));
        let mut beside = Tables::new(self.family, Arc::new(Plain), 0);
        let written = if request.policy == Policy::PaperSafe { Written::SafeRows } else { Written::Both };
        let mut pairing = Pairing::new(paper::Form::Literal, written, Box::new(|_| Ok(())));
        let mut outlet = Outlet::new(&request.policy);
        let (mut built, mut portable) = (Vec::new(), Vec::new());
        let (mut records, mut unsealed, mut sum, mut companion_bytes) = (0, 0, 0u64, 0);
        let made_here = Source::default(); // no row is expected of it
        let expired = self.each(&mut |record, source| {
            records += 1;
            sum = sum.wrapping_add(term_of(&**keeper, record));
            portable.clear();
            built.clear();
            let build = if sealed { keeper.on_build(record, source.protection, &mut built) } else { Build::Keep };
            let companion = if build == Build::Keep { record.companion } else { &built };
            outlet.pass(companion, &mut portable)?;
            if sealed {
                if let Some(seqno) = request.seqno {
                    keeper.bind(&mut portable, Some(record.seqno), seqno);
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
            algorithm: if sealed { keeper.algorithm() } else { 0 },
            complete: sealed && records > 0 && unsealed == 0 && keeper.protection() == Protection::Complete,
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

/// A record that is not what its companion says is not handed on.
fn check(keeper: &dyn Companions, record: &Record<'_>, source: Source<'_>) -> Result<()> {
    if keeper.verify(record, hash_key(record.key), source.protection).serves() {
        return Ok(());
    }
    let key_range = Some((record.key.to_vec(), record.key.to_vec()));
    let damage = Damage { verdict: error::Verdict::Seal, key_range, ..Damage::default() };
    let error = Error::corruption(damage, "a record to be exported does not match its companion");
    Err(error.in_file(source.file, source.offset))
}

/// The directory that is written to.
struct Sinks<'a> {
    env: &'a Env,
    dir: &'a Path,
    /// Files made so far.
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

/// Tables that follow each other by key.
struct Tables {
    settings: WriterSettings,
    table_bytes: u64,
    keeper: Arc<dyn Companions>,
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

impl Tables {
    fn new(family: &Family, keeper: Arc<dyn Companions>, base_seqno: Seqno) -> Tables {
        let options = family.options();
        let settings = WriterSettings {
            order: family.order().clone(),
            family: family.id(),
            block_bytes: options.block_bytes,
            restart_interval: options.restart_interval,
            filter_bits: options.filter_bits,
            filter_policy: None,
            compression: options.compression,
            base_seqno,
            seal_column: options.seals.is_column(options.compression),
            created_micros: 0,
        };
        let table_bytes = options.table_bytes;
        Tables { settings, table_bytes, keeper, open: None, files: Vec::new(), key: Vec::new() }
    }

    /// The table for a record, after which another one may begin only in front of another key.
    fn open(&mut self, sinks: &mut Sinks<'_>) -> Result<&mut OpenTable> {
        if self.open.is_none() {
            let name = Name::Table(sinks.names.len() as u64 + 1).to_string();
            let file = sinks.create(&name)?;
            let uid = sinks.env.random.uid();
            let settings = WriterSettings { created_micros: sinks.env.clock.wall_micros(), ..self.settings.clone() };
            let writer = Writer::new(file.clone(), uid, settings, self.keeper.clone());
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

    /// Writes what the pairing gives out; a table ends between groups only.
    fn add_groups(&mut self, sinks: &mut Sinks<'_>, pairing: &mut Pairing) -> Result<()> {
        while let Some(group) = pairing.next_group() {
            let follows =
                group.first().is_some_and(|row: &Row| self.settings.order.compare(&self.key, &row.key).is_lt());
            if self.is_full() && follows {
                self.finish_table()?;
            }
            let open = self.open(sinks)?;
            open.writer.keep_together(group.iter().map(Row::record))?;
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
