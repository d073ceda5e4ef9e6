//! Import: the records of another node's table files enter a family under one new seqno.
//!
//! In:     an export with its `EXCHANGE`, or bare tables with only their own properties.
//! Path:   open each table by its expected identity and read it completely -> compare counts with the description ->
//!         match rows in the paper's form with versions -> `Db::ingest`, which checks every record again and copies it.
//! Holds:  seals are bound to the new seqno, and records without one are adopted. Rows are checked but not imported.
//!         Stamps are not imported, since they describe writes to another store. A user's tombstone of a key that ends
//!         in 01 is not a row. A record that expires is rejected if its companions are not imported, because
//!         the store would keep it forever.
//! Errors: name the file and the offset in it; nothing was changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use waxseal_lsm::cursor::Cursor;
use waxseal_lsm::db::{Db, Family};
use waxseal_lsm::env::{Env, File as OpenFile, Open, read_exact};
use waxseal_lsm::error::{self, Damage, Error, IoContext, Result};
use waxseal_lsm::interrupt;
use waxseal_lsm::key_text::KeyText;
use waxseal_lsm::ledger::Ledger;
use waxseal_lsm::merge::merged;
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_lsm::seam::{Companions, Plain, Protection, RecordSource, RowRewriter};
use waxseal_lsm::sst::{Cache, Expected, Table};

use super::header::{self, Manifest};
use super::pairing::{Pairing, PairingCounts, PairingFault, PairingOutput};
use super::row;
use super::{Form, has_end, has_seal, term_of};
use crate::annotations::{Annotations, SEAL_BYTES, put_without_stamp};

/// Maximum length of an `EXCHANGE` file, which needs a hundred bytes per table.
const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// The result of an import.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Imported {
    /// The seqno of every imported record; 0 if there is none.
    pub seqno: Seqno,
    /// Imported records: the newest of each key.
    pub records: u64,
    /// Older versions, which were not imported.
    pub superseded: u64,
    /// Records, of all versions, with a known seal that matches.
    pub sealed: u64,
    /// Records, of all versions, without a seal; adopted if this store has a record protector.
    pub unsealed: u64,
    /// Rows in the paper's form that match their version, including damaged rows of intact versions.
    pub bound: u64,
    /// Rows without a version, which were removed.
    pub orphans: u64,
    /// Versions without a row in an export in the paper's form: written by an old node.
    pub without_row: u64,
    /// Users' tombstones of keys that end in 01, imported as tombstones.
    pub own_deletes: u64,
}

/// Imports an export.
///
/// Errors: `Corruption` with file and offset if the export does not match its description, or a record does not match
/// its seal or row; `Invalid` for another key order, and for a record that expires in a store that cannot keep expiry
/// times; `FormatTooNew`.
pub fn import(db: &Db, family: &Family, env: &Env, dir: &Path) -> Result<Imported> {
    let env = &env.clone().within(dir);
    let manifest = read_manifest(env, dir)?;
    if manifest.comparator != family.order().name() {
        let (theirs, ours) = (&manifest.comparator, family.order().name());
        return Err(Error::invalid(format!("the export is ordered by {theirs:?}, the family by {ours:?}")));
    }
    let receiver = Receiver::new(db, family, manifest.form);
    let mut tables = Vec::new();
    let mut found = TableCounts::default();
    for file in &manifest.files {
        let expected = Expected { uid: file.uid, size: file.size, digest: file.digest, ingest_seqno: 0 };
        let table = receiver.open(env, &dir.join(&file.name), Some(expected))?;
        let counted = receiver.walk(&table)?;
        if (counted.records, counted.rows) != (file.records, file.rows) {
            return Err(lies(file.records + file.rows, counted.records + counted.rows).in_file(&file.name, 0));
        }
        if manifest.complete && counted.unsealed > 0 {
            return Err(lies(file.records, counted.records - counted.unsealed).in_file(&file.name, 0));
        }
        found.merge(&counted);
        tables.push(table);
    }
    if manifest.form == Form::Sealed && manifest.algorithm == crate::protector::ALGORITHM && found.sum != manifest.sum {
        let error = Error::mismatch(manifest.sum, found.sum, "the sum over the seals of an export");
        return Err(error.in_file(header::NAME, 0));
    }
    receiver.take_in(&tables, found)
}

/// Imports bare tables, described only by their own properties.
///
/// Errors: those of [`import`].
pub fn import_tables(db: &Db, family: &Family, env: &Env, paths: &[PathBuf], form: Form) -> Result<Imported> {
    let receiver = Receiver::new(db, family, form);
    let mut tables = Vec::new();
    let mut found = TableCounts::default();
    for path in paths {
        let table = receiver.open(env, path, None)?;
        found.merge(&receiver.walk(&table)?);
        tables.push(table);
    }
    receiver.take_in(&tables, found)
}

fn read_manifest(env: &Env, dir: &Path) -> Result<Manifest> {
    let file = match env.fs.open(&dir.join(header::NAME), Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::invalid(format!("there is no export at {}", dir.display())));
        }
        Err(error) => return Err(Error::io("opening EXCHANGE", error)),
    };
    let length = file.len().during(|| "reading EXCHANGE")?;
    if length > MAX_MANIFEST_BYTES {
        return Err(Error::structural("too long for the description of an export").in_file(header::NAME, 0));
    }
    Manifest::decode(&read_exact(&*file, 0, length as usize).during(|| "reading EXCHANGE")?)
}

#[cold]
fn lies(expected: u64, found: u64) -> Error {
    let (expected, found) = (Some(expected), Some(found));
    let damage = Damage { verdict: error::Verdict::Missing, expected, found, ..Damage::default() };
    Error::corruption(damage, "a table does not hold what is promised of it")
}

#[cold]
fn would_stay(key: &[u8]) -> Error {
    let key = KeyText(key);
    Error::invalid(format!(
        "the key {key} expires, and this store leaves behind what says so: it would keep it for ever"
    ))
}

/// The counts of a walk over a table.
#[derive(Clone, Copy, Default)]
struct TableCounts {
    records: u64,
    rows: u64,
    sealed: u64,
    unsealed: u64,
    own_deletes: u64,
    /// Records with an expiry time in companions that this store does not import.
    ends: u64,
    sum: u64,
}

impl TableCounts {
    fn merge(&mut self, other: &TableCounts) {
        self.records += other.records;
        self.rows += other.rows;
        self.sealed += other.sealed;
        self.unsealed += other.unsealed;
        self.own_deletes += other.own_deletes;
        self.ends += other.ends;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

/// The receiving store.
struct Receiver<'a> {
    db: &'a Db,
    family: &'a Family,
    form: Form,
    cache: Arc<Cache>,
}

impl Receiver<'_> {
    fn new<'a>(db: &'a Db, family: &'a Family, form: Form) -> Receiver<'a> {
        Receiver { db, family, form, cache: Arc::new(Cache::new(0)) }
    }

    fn open(&self, env: &Env, path: &Path, expected: Option<Expected>) -> Result<Arc<Table>> {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let file: Arc<dyn OpenFile> = match env.fs.open(path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let damage = Damage { file: name, verdict: error::Verdict::Missing, ..Damage::default() };
                return Err(Error::corruption(damage, "a table that the export names is missing"));
            }
            Err(error) => return Err(Error::io(format!("opening {name}"), error)),
        };
        let expected = match expected {
            Some(expected) => expected,
            None => Table::identify(&name, &*file)?,
        };
        let (order, cache) = (self.family.order().clone(), self.cache.clone());
        Table::open(name, file, expected, order, cache, self.db.protector().clone())
    }

    /// Reads a whole table, checking every checksum and every record's seal.
    fn walk(&self, table: &Arc<Table>) -> Result<TableCounts> {
        let protector = self.db.protector();
        let _: Ledger = table.verify(&**protector, &mut |_| Ok(()))?;
        let mut counted = TableCounts::default();
        let known = self.is_known(table.protection());
        let reads: &dyn Companions = if known { &**protector } else { &Plain };
        let rows = self.form.rows();
        let mut cursor = table.cursor(false);
        cursor.first()?;
        while cursor.valid() {
            interrupt::check()?;
            let record = cursor.record();
            if rows.is_some_and(|form| form.read(&record).is_some()) {
                counted.rows += 1;
            } else {
                counted.records += 1;
                let sealed = has_seal(record.companion);
                counted.sealed += u64::from(sealed && known);
                counted.unsealed += u64::from(!sealed);
                let own = record.kind == Kind::Delete && record.key.last() == Some(&row::MARK);
                counted.own_deletes += u64::from(own);
                counted.ends += u64::from(!known && has_end(record.companion));
                counted.sum = counted.sum.wrapping_add(term_of(reads, &record));
            }
            cursor.next()?;
        }
        Ok(counted)
    }

    /// Returns true if the companions of a table with this protection are imported.
    fn is_known(&self, protection: Protection) -> bool {
        self.db.protector().protection() != Protection::None && protection != Protection::Foreign
    }

    fn take_in(&self, tables: &[Arc<Table>], counted: TableCounts) -> Result<Imported> {
        if counted.ends > 0 {
            self.refuse_ends(tables)?;
        }
        let tally = match self.form.rows() {
            Some(form) => bind_rows(form, &mut *self.cursor(tables))?,
            None => PairingCounts::default(),
        };
        let ingested = self.db.ingest(self.family, &mut || Ok(self.incoming(tables)))?;
        Ok(Imported {
            seqno: ingested.seqno,
            records: ingested.records,
            superseded: ingested.superseded,
            sealed: counted.sealed,
            unsealed: counted.records - counted.sealed,
            bound: tally.bound + tally.rewritten,
            orphans: tally.orphans,
            without_row: tally.created_from_table + tally.created_from_memory,
            own_deletes: counted.own_deletes,
        })
    }

    /// Returns `Invalid` if the newest record of a key expires but would be kept forever.
    fn refuse_ends(&self, tables: &[Arc<Table>]) -> Result<()> {
        let mut cursor = self.incoming(tables);
        let mut key: Option<Vec<u8>> = None;
        cursor.first()?;
        while cursor.valid() {
            interrupt::check()?;
            let record = cursor.record();
            if key.as_ref().is_none_or(|key| self.family.order().compare(key, record.key).is_ne()) {
                if has_end(record.companion) && !self.is_known(cursor.source().protection) {
                    return Err(would_stay(record.key));
                }
                key = Some(record.key.to_vec());
            }
            cursor.next()?;
        }
        Ok(())
    }

    /// Returns the importable records of the tables, in internal order.
    fn incoming(&self, tables: &[Arc<Table>]) -> Box<dyn Cursor> {
        let inner = Box::new(WithoutStamps { inner: self.cursor(tables), companion: None });
        match self.form.rows() {
            Some(form) => Box::new(WithoutRows { inner, form }),
            None => inner,
        }
    }

    /// Returns all records of the tables, in internal order.
    fn cursor(&self, tables: &[Arc<Table>]) -> Box<dyn Cursor> {
        let sources = tables.iter().map(|table| Box::new(table.cursor(false)) as Box<dyn Cursor>);
        merged(Order::clone(self.family.order()), sources.collect())
    }
}

/// Checks all pairs of versions and rows, up to the first mismatching version.
pub(super) fn bind_rows(form: row::RowForm, cursor: &mut dyn Cursor) -> Result<PairingCounts> {
    let on_fault = Box::new(|fault: &PairingFault| {
        let key_range = Some((fault.key.clone(), fault.key.clone()));
        let damage = Damage { verdict: error::Verdict::Seal, key_range, ..Damage::default() };
        Err(Error::corruption(damage, "a record is not what the row beside it says"))
    });
    let mut pairing = Pairing::new(form, PairingOutput::Nothing, on_fault);
    cursor.first()?;
    while cursor.valid() {
        interrupt::check()?;
        let (record, source) = (cursor.record(), cursor.source());
        let outcome = pairing.takes(&record, source).and_then(|taken| match taken {
            true => Ok(()),
            false => pairing.sees(&record, true, source),
        });
        outcome.map_err(|error| error.in_file(source.file, source.offset))?;
        cursor.next()?;
    }
    pairing.ends()?;
    Ok(*pairing.tally())
}

/// A cursor that removes the stamps of the exporting store.
struct WithoutStamps {
    inner: Box<dyn Cursor>,
    /// The current record's companions, if they differ from the inner cursor's.
    companion: Option<Vec<u8>>,
}

impl WithoutStamps {
    fn strip(&mut self, moved: Result<()>) -> Result<()> {
        self.companion = None;
        moved?;
        if self.inner.valid() {
            let companions = self.inner.record().companion;
            // Companions that cannot be decoded are passed on unchanged, so that they are rejected later.
            if companions.len() > SEAL_BYTES
                && Annotations::read(companions).is_ok_and(|annotations| annotations.stamp.is_some())
            {
                let mut out = Vec::new();
                put_without_stamp(companions, &mut out)?;
                self.companion = Some(out);
            }
        }
        Ok(())
    }
}

impl Cursor for WithoutStamps {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let moved = self.inner.seek(key, seqno);
        self.strip(moved)
    }
    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let moved = self.inner.seek_for_prev(key, seqno);
        self.strip(moved)
    }
    fn first(&mut self) -> Result<()> {
        let moved = self.inner.first();
        self.strip(moved)
    }
    fn last(&mut self) -> Result<()> {
        let moved = self.inner.last();
        self.strip(moved)
    }
    fn next(&mut self) -> Result<()> {
        let moved = self.inner.next();
        self.strip(moved)
    }
    fn prev(&mut self) -> Result<()> {
        let moved = self.inner.prev();
        self.strip(moved)
    }
    fn valid(&self) -> bool {
        self.inner.valid()
    }
    fn record(&self) -> Record<'_> {
        let record = self.inner.record();
        let companion = self.companion.as_deref().unwrap_or(record.companion);
        Record { companion, ..record }
    }
    fn source(&self) -> RecordSource<'_> {
        self.inner.source()
    }
}

/// A cursor that skips rows in the paper's form.
struct WithoutRows {
    inner: Box<dyn Cursor>,
    form: row::RowForm,
}

impl WithoutRows {
    fn pass(&mut self, on: bool) -> Result<()> {
        while self.inner.valid() && self.form.read(&self.inner.record()).is_some() {
            if on { self.inner.next()? } else { self.inner.prev()? }
        }
        Ok(())
    }
}

impl Cursor for WithoutRows {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.inner.seek(key, seqno)?;
        self.pass(true)
    }
    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.inner.seek_for_prev(key, seqno)?;
        self.pass(false)
    }
    fn first(&mut self) -> Result<()> {
        self.inner.first()?;
        self.pass(true)
    }
    fn last(&mut self) -> Result<()> {
        self.inner.last()?;
        self.pass(false)
    }
    fn next(&mut self) -> Result<()> {
        self.inner.next()?;
        self.pass(true)
    }
    fn prev(&mut self) -> Result<()> {
        self.inner.prev()?;
        self.pass(false)
    }
    fn valid(&self) -> bool {
        self.inner.valid()
    }
    fn record(&self) -> Record<'_> {
        self.inner.record()
    }
    fn source(&self) -> RecordSource<'_> {
        self.inner.source()
    }
}
