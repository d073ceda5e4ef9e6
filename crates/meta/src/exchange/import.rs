//! Import: table files of another node become records of a family, under one new seqno.
//!
//! In:     an export with its `EXCHANGE`, or bare tables of which only their own properties speak.
//! Path:   each table opened as what it is said to be, and walked whole -> counts held against what was promised -> rows in the
//!         paper's form bound to their versions -> `Db::ingest`, which checks every record again and copies it.
//! Holds:  seals are bound to the new seqno; a record without one is adopted, as the keeper does; rows do not come in, what they
//!         said of records was checked first. Stamps do not come in: they say who wrote a record elsewhere. A user's own tombstone of a key that ends in 01 is none of them.
//!         A store that leaves companions behind takes no record that expires.
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
use waxseal_lsm::seam::{Companions, Plain, Protection, Rows, Source};
use waxseal_lsm::sst::{Cache, Expected, Table};

use super::header::{self, Manifest};
use super::{Form, has_end, has_seal, term_of};
use crate::beside::{Beside, SEAL_BYTES, put_without_stamp};
use crate::paper::{self, Fault, Pairing, Tally, Written};

/// No `EXCHANGE` is longer; it has a hundred bytes a table.
const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// What an import did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Imported {
    /// The seqno of every record that came in; 0 if there was none.
    pub seqno: Seqno,
    /// Records that came in: the newest of each key.
    pub records: u64,
    /// Older versions, which did not.
    pub superseded: u64,
    /// Records, of all versions, that carried a seal known here, and match it.
    pub sealed: u64,
    /// Records, of all versions, that carried none: adopted, if this node has a keeper.
    pub unsealed: u64,
    /// Rows in the paper's form that found their version and agree with it, those included that were hit themselves.
    pub bound: u64,
    /// Rows that found none; removed.
    pub orphans: u64,
    /// Versions, in an export in the paper's form, for which no row speaks: of an old node.
    pub without_row: u64,
    /// Users' own tombstones of keys that end in 01, which are no rows and came in as what they are.
    pub own_deletes: u64,
}

/// Imports an export.
///
/// Errors: `Corruption` with file and offset if anything is not what the export says of itself, or a record is not what its seal
/// or row says; `Invalid` for another order of keys, and for a record that expires where this store cannot keep when; `FormatTooNew`.
pub fn import(db: &Db, family: &Family, env: &Env, dir: &Path) -> Result<Imported> {
    let env = &env.clone().within(dir);
    let manifest = read_manifest(env, dir)?;
    if manifest.comparator != family.order().name() {
        let (theirs, ours) = (&manifest.comparator, family.order().name());
        return Err(Error::invalid(format!("the export is ordered by {theirs:?}, the family by {ours:?}")));
    }
    let receiver = Receiver::new(db, family, manifest.form);
    let mut tables = Vec::new();
    let mut found = Counted::default();
    for file in &manifest.files {
        let expected = Expected { uid: file.uid, size: file.size, digest: file.digest };
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
    if manifest.form == Form::Sealed && manifest.algorithm == crate::keeper::ALGORITHM && found.sum != manifest.sum {
        let error = Error::mismatch(manifest.sum, found.sum, "the sum over the seals of an export");
        return Err(error.in_file(header::NAME, 0));
    }
    receiver.take_in(&tables, found)
}

/// Imports bare tables, which nothing describes but their own properties.
///
/// Errors: as `import`.
pub fn import_tables(db: &Db, family: &Family, env: &Env, paths: &[PathBuf], form: Form) -> Result<Imported> {
    let receiver = Receiver::new(db, family, form);
    let mut tables = Vec::new();
    let mut found = Counted::default();
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

/// What a walk over a table met.
#[derive(Clone, Copy, Default)]
struct Counted {
    records: u64,
    rows: u64,
    sealed: u64,
    unsealed: u64,
    own_deletes: u64,
    /// Records that expire, and of which only what this store leaves behind says so.
    ends: u64,
    sum: u64,
}

impl Counted {
    fn merge(&mut self, other: &Counted) {
        self.records += other.records;
        self.rows += other.rows;
        self.sealed += other.sealed;
        self.unsealed += other.unsealed;
        self.own_deletes += other.own_deletes;
        self.ends += other.ends;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

/// Where the records go.
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
        Table::open(name, file, expected, order, cache, self.db.keeper().clone())
    }

    /// Walks a whole table: every sum, and every record by its seal.
    fn walk(&self, table: &Arc<Table>) -> Result<Counted> {
        let keeper = self.db.keeper();
        let _: Ledger = table.verify(&**keeper, &mut |_| Ok(()))?;
        let mut counted = Counted::default();
        let known = self.is_known(table.protection());
        let reads: &dyn Companions = if known { &**keeper } else { &Plain };
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
                let own = record.kind == Kind::Delete && record.key.last() == Some(&paper::row::MARK);
                counted.own_deletes += u64::from(own);
                counted.ends += u64::from(!known && has_end(record.companion));
                counted.sum = counted.sum.wrapping_add(term_of(reads, &record));
            }
            cursor.next()?;
        }
        Ok(counted)
    }

    /// True if companions of a table with this protection come in.
    fn is_known(&self, protection: Protection) -> bool {
        self.db.keeper().protection() != Protection::None && protection != Protection::Foreign
    }

    fn take_in(&self, tables: &[Arc<Table>], counted: Counted) -> Result<Imported> {
        if counted.ends > 0 {
            self.refuse_ends(tables)?;
        }
        let tally = match self.form.rows() {
            Some(form) => bind_rows(form, &mut *self.cursor(tables))?,
            None => Tally::default(),
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

    /// `Invalid` if the newest record of a key expires, and would stay for good.
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

    /// The records of the tables that may come in, in internal order.
    fn incoming(&self, tables: &[Arc<Table>]) -> Box<dyn Cursor> {
        let inner = Box::new(WithoutStamps { inner: self.cursor(tables), companion: None });
        match self.form.rows() {
            Some(form) => Box::new(WithoutRows { inner, form }),
            None => inner,
        }
    }

    /// All records of the tables in internal order.
    fn cursor(&self, tables: &[Arc<Table>]) -> Box<dyn Cursor> {
        let sources = tables.iter().map(|table| Box::new(table.cursor(false)) as Box<dyn Cursor>);
        merged(Order::clone(self.family.order()), sources.collect())
    }
}

/// Looks at all pairs of versions and rows. A version that is not what its row says ends it.
pub(super) fn bind_rows(form: paper::Form, cursor: &mut dyn Cursor) -> Result<Tally> {
    let on_fault = Box::new(|fault: &Fault| {
        let key_range = Some((fault.key.clone(), fault.key.clone()));
        let damage = Damage { verdict: error::Verdict::Seal, key_range, ..Damage::default() };
        Err(Error::corruption(damage, "a record is not what the row beside it says"))
    });
    let mut pairing = Pairing::new(form, Written::Nothing, on_fault);
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

/// A cursor that shows records without the stamps of the store they come from.
struct WithoutStamps {
    inner: Box<dyn Cursor>,
    /// The companions of the record under the cursor, if they are others than there.
    companion: Option<Vec<u8>>,
}

impl WithoutStamps {
    fn strip(&mut self, moved: Result<()>) -> Result<()> {
        self.companion = None;
        moved?;
        if self.inner.valid() {
            let companions = self.inner.record().companion;
            // What cannot be taken apart goes on as it is, to be refused.
            if companions.len() > SEAL_BYTES && Beside::read(companions).is_ok_and(|beside| beside.stamp.is_some()) {
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
    fn source(&self) -> Source<'_> {
        self.inner.source()
    }
}

/// A cursor that passes over rows in the paper's form.
struct WithoutRows {
    inner: Box<dyn Cursor>,
    form: paper::Form,
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
    fn source(&self) -> Source<'_> {
        self.inner.source()
    }
}
