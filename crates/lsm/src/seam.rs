//! The seam: the trait through which the engine calls a record protector (a keeper of companions, see [`Companions`]).
//! The engine itself knows nothing of seals: a companion is an opaque byte string that follows its record. A store
//! opened without a protector is a plain node and uses [`Plain`].
//!
//! Order of calls in the life of a record: `on_write` (on the caller's thread, no lock held) -> `rekey` (if its key
//! ends in a seqno) and `bind` (once its seqno is known) -> flush: `emit` -> flush and compaction: `on_build` or
//! `on_drop`; `verify` and `term` feed the job's ledger. Reads call `verify` on the records they return, and `correct`
//! on a block whose CRC does not match.

use std::sync::Arc;
use std::time::Duration;

use crate::checksum::{Uid, hash_key};
use crate::error::{Error, Result};
use crate::lost_range::LostRange;
use crate::order::Order;
use crate::record::{AsRecord, Kind, Record, Seqno, companion};

/// The protection that a table, memtable or batch promises for its records.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum Protection {
    /// No record has a companion.
    #[default]
    None = 0,
    /// Some records may have a companion.
    Partial = 1,
    /// Every record has a companion: a missing one is corruption.
    Complete = 2,
    /// The companions use an algorithm that this protector does not know: they are copied, never checked. Not stored on
    /// disk.
    Foreign = 3,
}

impl Protection {
    /// Decodes the byte in a table's properties. An unknown byte promises nothing.
    pub fn from_byte(byte: u8) -> Protection {
        match byte {
            1 => Protection::Partial,
            2 => Protection::Complete,
            _ => Protection::None,
        }
    }
}

/// The location a record was read from, borrowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecordSource<'a> {
    /// The protection promised there.
    pub protection: Protection,
    /// The file's name; empty for a record in memory.
    pub file: &'a str,
    /// The offset of its block in the file.
    pub offset: u64,
}

/// The result of checking a record against its companion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// The record matches its companion.
    Validated,
    /// The record has no companion, and none was promised.
    Unverified,
    /// The record is right but its companion is damaged: the record may be returned, and its companion should be
    /// repaired.
    CompanionDamaged,
    /// The record has no companion although one was promised.
    Missing,
    /// The record is damaged, or no companion vouches for it.
    Corrupted,
}

impl Check {
    /// Returns true if the record may be returned to a reader.
    #[inline]
    pub fn serves(self) -> bool {
        matches!(self, Check::Validated | Check::Unverified | Check::CompanionDamaged)
    }
}

/// Whether a record has expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// The record has no expiry, or its expiry is in the future.
    Alive,
    /// The record has expired: it counts as absent from now on.
    Over,
    /// The record claims to have expired but fails its check. A caller that has not verified the record must neither
    /// return it nor treat it as absent. A record that verification lets through nevertheless is `Alive`.
    Doubtful,
}

/// The protector's decision about a companion while a table is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Build {
    /// The source's companion is copied unchanged.
    Keep,
    /// `out` holds a new companion for the same value: an unprotected record is adopted.
    Set,
    /// `out` holds the undamaged original companion; the record's ledger term is unchanged.
    Mend,
    /// `out` holds a companion derived from verified inputs (for a new value).
    Derive,
}

/// A pending write as a protector sees it: it has no seqno yet.
#[derive(Clone, Copy, Debug)]
pub struct PendingWrite<'a> {
    /// The family's id.
    pub family: u32,
    /// The kind of operation.
    pub kind: Kind,
    /// The user key.
    pub key: &'a [u8],
    /// `checksum::hash_key` of the key, if the caller has already computed it.
    pub key_hash: Option<u64>,
    /// The value.
    pub value: &'a [u8],
    /// Annotations that the caller stores with the value: provider id and bytes.
    pub entries: &'a [(u16, &'a [u8])],
}

impl PendingWrite<'_> {
    /// Returns `checksum::hash_key` of the key.
    #[inline]
    pub fn hashed_key(&self) -> u64 {
        self.key_hash.unwrap_or_else(|| hash_key(self.key))
    }
}

/// Why a flush or compaction drops a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum DropReason {
    /// A newer record of the same key hides it from every snapshot.
    Shadowed,
    /// The record is a tombstone at the bottom level and hides nothing.
    Tombstone,
    /// A range delete covers it.
    RangeDelete,
    /// The record has expired.
    Expired,
    /// Its column family or column was dropped.
    Purged,
    /// It is a merge operand, or the value below operands, and a merged record replaces it.
    Merged,
    /// A compaction filter dropped or changed it.
    Filtered,
}

/// A row for another family, written by a flush in the same manifest edit. Nothing else ever writes its key, and no two
/// rows share a key: readers see the row as soon as the edit is applied, whatever its seqno. The tombstone of such a
/// row has the row's key and a greater seqno.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// The family that receives it.
    pub family: u32,
    /// Its seqno, which may be older than the family's newest.
    pub seqno: Seqno,
    kind: Kind,
    /// Key, value and companions, concatenated: a flush makes one row per record, so a row has one allocation.
    bytes: Vec<u8>,
    key_end: usize,
    value_end: usize,
}

impl Emitted {
    /// Creates a row without companions.
    pub fn new(family: u32, seqno: Seqno, key: &[u8], value: &[u8]) -> Emitted {
        let mut bytes = Vec::with_capacity(key.len() + value.len() + companion::WORD8_BYTES);
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        Emitted::joined(family, seqno, bytes, key.len())
    }

    /// Creates a row from a key and a value that are already concatenated. The key is the first `key_end` bytes, or all
    /// of them.
    pub fn joined(family: u32, seqno: Seqno, bytes: Vec<u8>, key_end: usize) -> Emitted {
        let value_end = bytes.len();
        Emitted { family, seqno, kind: Kind::Put, bytes, key_end: key_end.min(value_end), value_end }
    }

    /// Creates the tombstone of a row.
    pub fn tombstone(family: u32, seqno: Seqno, key: &[u8]) -> Emitted {
        Emitted { kind: Kind::Delete, ..Emitted::new(family, seqno, key, &[]) }
    }

    /// Returns `Put`, or `Delete` for the tombstone of a row.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the same row with other companions.
    #[must_use]
    pub fn with_companion(mut self, companion: &[u8]) -> Emitted {
        self.accompany(companion);
        self
    }

    /// Replaces the row's companions.
    pub fn accompany(&mut self, companion: &[u8]) {
        self.bytes.truncate(self.value_end);
        self.bytes.extend_from_slice(companion);
    }

    /// Its key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.key_end]
    }

    /// Its value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        &self.bytes[self.key_end..self.value_end]
    }

    /// Its companions.
    #[inline]
    pub fn companion(&self) -> &[u8] {
        &self.bytes[self.value_end..]
    }

    /// Returns the row as a record.
    #[inline]
    pub fn record(&self) -> Record<'_> {
        let (key, value, companion) = (self.key(), self.value(), self.companion());
        Record { key, seqno: self.seqno, kind: self.kind, value, companion }
    }
}

impl AsRecord for Emitted {
    fn as_record(&self) -> Record<'_> {
        self.record()
    }
}

/// Reads the newest values of other families while rows are emitted, as the flush or the recovery sees them.
pub trait Lookup: Sync {
    /// Calls `visit` with the value of a key. Returns false if the key or the family does not exist. Errors:
    /// `Corruption` if damage makes the answer uncertain.
    fn get(&self, family: u32, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool>;
}

/// The family that is being flushed.
#[derive(Clone, Copy)]
pub struct Emitting<'a> {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: &'a str,
    /// Access to other families.
    pub lookup: &'a dyn Lookup,
}

impl std::fmt::Debug for Emitting<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emitting").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

/// A record that a flush or compaction holds in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassRecord {
    /// Its key.
    pub key: Vec<u8>,
    /// Its seqno.
    pub seqno: Seqno,
    /// Its kind.
    pub kind: Kind,
    /// Its value.
    pub value: Vec<u8>,
    /// Its companions.
    pub companion: Vec<u8>,
    /// The protection promised where it was read.
    pub protection: Protection,
    /// True if the record is not a copy of an input record: the ledger then counts it as created by this job.
    pub made: bool,
}

impl PassRecord {
    /// Copies a record of the inputs.
    pub fn copy(record: &Record<'_>, protection: Protection) -> PassRecord {
        let (key, value, companion) = (record.key.to_vec(), record.value.to_vec(), record.companion.to_vec());
        PassRecord { key, seqno: record.seqno, kind: record.kind, value, companion, protection, made: false }
    }

    /// Overwrites the row with a copy of another input record.
    pub fn set(&mut self, record: &Record<'_>, protection: Protection) {
        for (to, from) in
            [(&mut self.key, record.key), (&mut self.value, record.value), (&mut self.companion, record.companion)]
        {
            to.clear();
            to.extend_from_slice(from);
        }
        (self.seqno, self.kind, self.protection, self.made) = (record.seqno, record.kind, protection, false);
    }

    /// Returns the row as a record.
    pub fn record(&self) -> Record<'_> {
        let PassRecord { key, seqno, kind, value, companion, .. } = self;
        Record { key, seqno: *seqno, kind: *kind, value, companion }
    }
}

/// Rewrites the records of one flush or compaction, for a protector that stores its knowledge of records in rows of its
/// own. The implementation removes its rows from the inputs before the merge decides anything, and inserts rows between
/// the records that stay.
pub trait RowRewriter: Send {
    /// Receives each input record. Returns true if it is one of the protector's own rows, which nothing else may see.
    /// An error ends the job.
    fn takes(&mut self, record: &Record<'_>, source: RecordSource<'_>) -> Result<bool>;
    /// Receives each record that `takes` refused, and whether the job keeps it.
    fn sees(&mut self, record: &Record<'_>, stays: bool, source: RecordSource<'_>) -> Result<()>;
    /// Called at the end of the inputs.
    fn ends(&mut self) -> Result<()>;
    /// Returns the rows to write next, in internal order and, if they fit, into one block. `None` means that none are
    /// ready yet.
    fn next_group(&mut self) -> Option<Vec<PassRecord>>;
}

/// A record protector: makes and checks companions. All calls may come from any thread.
///
/// A record in a table may hold a blob pointer instead of a large value (kind `BlobPointer`). `verify`, `term`,
/// `on_build`, `on_drop` and `retains` receive such a record unresolved. It stands for a put whose value hash is in the
/// pointer (`pointer::value_hash`), and must get the same results as that put.
///
/// The default methods are those of a plain node: no companions are made and none are checked.
pub trait Companions: Send + Sync {
    /// Appends the companions of an operation to `out` while a batch is built. An error rejects the operation.
    fn on_write(&self, pending: &PendingWrite<'_>, _out: &mut Vec<u8>) -> Result<()> {
        match pending.entries {
            [] => Ok(()),
            _ => Err(Error::invalid("this store keeps nothing beside its values")),
        }
    }
    /// Binds the companion to the record's seqno, now known (or changed from `old`). Works in place, without the
    /// record.
    fn bind(&self, _companion: &mut [u8], _old: Option<Seqno>, _new: Seqno) {}
    /// Returns true if `bind` knows the companions of tables with this check algorithm (property 14; 0 names none).
    fn binds(&self, algorithm: u64) -> bool {
        self.protection() != Protection::None && (algorithm == self.algorithm() || algorithm == 0)
    }
    /// Returns the companion of a record to the form in which a batch held it. The default binds it once more, which undoes
    /// the binding where that is an XOR.
    fn unbind(&self, companion: &mut [u8], seqno: Seqno) {
        self.bind(companion, None, seqno);
    }
    /// Does the work of `bind_written`, and returns the record's ledger term if it is known without reading the record;
    /// on `None` the engine calls `term`. Every written record passes here, so this is one dynamic call instead of
    /// three.
    #[inline]
    fn bind_new(&self, written: &[u8], seqno: Seqno, out: &mut Vec<u8>) -> Option<u64> {
        bind_written(self, written, seqno, out);
        None
    }
    /// Adjusts a companion that is not bound yet to a key whose last part became known with the seqno. Does not need
    /// the value. A record that was damaged before still fails its check afterwards.
    fn rekey(&self, _companion: &mut [u8], _old_key: &[u8], _new_key: &[u8]) {}
    /// Recovery found a record in the log and is about to move it to a table. The record has its companions as written,
    /// not yet bound. An error ends the recovery and leaves the store unchanged.
    fn on_replay(&self, _record: &Record<'_>) -> Result<()> {
        Ok(())
    }
    /// A record enters a table: keeps its companion, or writes another to `out`.
    fn on_build(&self, _record: &Record<'_>, _source: Protection, _out: &mut Vec<u8>) -> Build {
        Build::Keep
    }
    /// True if no companion of a verified record proves what was put: a result that was derived from it proves no more.
    fn is_unproven(&self, _record: &Record<'_>) -> bool {
        false
    }
    /// A merge operator made `result` of operands and their base, all verified: writes its companion to `out`. `inputs`:
    /// the base, if there is one, and the newest operand. `is_unproven`: another operand has no proof of what was put.
    fn on_merge(
        &self,
        _inputs: &[Record<'_>],
        _is_unproven: bool,
        _result: &Record<'_>,
        _out: &mut Vec<u8>,
    ) -> Result<()> {
        Ok(())
    }
    /// A compaction filter replaced `record`, which is verified, by `result`, a put or a tombstone: writes its companion
    /// to `out`.
    fn on_filter(&self, _record: &Record<'_>, _result: &Record<'_>, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
    /// A flush or compaction drops a record.
    fn on_drop(&self, _record: &Record<'_>, _reason: DropReason) {}
    /// Checks a record against its companion. `key_hash` is `checksum::hash_key` of the record's key.
    #[inline]
    fn verify(&self, _record: &Record<'_>, _key_hash: u64, _source: Protection) -> Check {
        Check::Unverified
    }
    /// Returns true if a scan may return a record, that is, if the result of `verify` `serves`. Scans call this once
    /// for every record, so a protector hashes key and value here, in one dynamic call.
    #[inline]
    fn serves(&self, record: &Record<'_>, source: Protection) -> bool {
        self.verify(record, hash_key(record.key), source).serves()
    }
    /// Returns whether a record has expired; the protector itself checks that the record is intact. Called for values
    /// that would be returned or kept and whose companion is more than one word. `now` returns microseconds since 1970
    /// and is called only if the record has an expiry.
    #[inline]
    fn life(&self, _record: &Record<'_>, _now: &dyn Fn() -> u64) -> Life {
        Life::Alive
    }
    /// Returns the record's expiry in microseconds since 1970; `None` for a record without expiry. Does not verify the
    /// record.
    fn expiry(&self, _record: &Record<'_>) -> Option<u64> {
        None
    }
    /// Returns true if a table that holds only expired records may be deleted without being read. Otherwise a
    /// compaction reads it, and `on_drop` is called for each record.
    fn may_drop_unread(&self) -> bool {
        true
    }
    /// Returns true if the record has expired and counts as absent.
    #[inline]
    fn expired(&self, record: &Record<'_>, now: &dyn Fn() -> u64) -> bool {
        self.life(record, now) == Life::Over
    }
    /// Returns the record's term in the ledger, which is the same in every table. 0 if it has none.
    fn term(&self, _record: &Record<'_>) -> u64 {
        0
    }
    /// Appends the rows for other families that a record causes. Called for each record of a flush, including a
    /// recovery's flush, before any record is dropped; called again if a flush is repeated. An error fails the flush,
    /// which is retried. A protector that overrides this method must override `may_emit` too: if `may_emit` returned
    /// false, the record may hold a blob pointer instead of its value.
    fn emit(&self, _family: &Emitting<'_>, _record: &Record<'_>, _rows: &mut Vec<Emitted>) -> Result<()> {
        Ok(())
    }
    /// Returns true if `emit` may make a row for such a record, whose seqno is not known yet. The value then stays in
    /// the log, so that the flush can read it. Called for large values only.
    fn may_emit(&self, _family: u32, _record: &Record<'_>) -> bool {
        false
    }
    /// Returns true if the record and the version directly below it must be kept even if newer versions hide them. Such
    /// a record is never dropped from a table, and neither is the version below it while both take part in one merge (a
    /// tombstone there may be dropped if nothing older remains). Called for every record of a flush or compaction. A
    /// protector with rows of its own retains nothing.
    #[inline]
    fn retains(&self, _record: &Record<'_>) -> bool {
        false
    }
    /// Returns the protection of records written through this protector.
    fn protection(&self) -> Protection {
        Protection::None
    }
    /// Returns the protection of operations in a batch: weaker than `protection` if this protector makes their
    /// companions later.
    fn written(&self) -> Protection {
        self.protection()
    }
    /// Returns the id of the check algorithm, for property 14 of tables; 0 means none.
    fn algorithm(&self) -> u64 {
        0
    }
    /// Returns descriptions of the annotations that companions may hold, for property 10 of tables.
    fn descriptors(&self) -> Vec<u8> {
        Vec::new()
    }
    /// Returns true if `rows` may return a rewriter.
    fn has_rows(&self) -> bool {
        false
    }
    /// Returns a rewriter for a flush or compaction of a family, if this protector has rows of its own there.
    fn rows(&self, _family: u32, _order: &Order) -> Result<Option<Box<dyn RowRewriter>>> {
        Ok(None)
    }
    /// Tries to correct a framed block (stored bytes, codec, CRC) whose CRC, from start value `seed`, does not match.
    /// Returns true if `block` is corrected, `confirm` accepted it, and no other correction is accepted. Returns false
    /// with `block` unchanged otherwise.
    fn correct(&self, _block: &mut [u8], _seed: u32, _confirm: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        false
    }
}

/// Returns whether a record has expired. A companion of one word holds no expiry under any protector, so such a record
/// is alive.
#[inline]
pub fn life_of(protector: &dyn Companions, record: &Record<'_>, now: &dyn Fn() -> u64) -> Life {
    if companion::is_bare(record.companion) { Life::Alive } else { protector.life(record, now) }
}

/// Returns true if a record that the caller has verified has expired.
#[inline]
pub fn is_over(protector: &dyn Companions, record: &Record<'_>, now: &dyn Fn() -> u64) -> bool {
    life_of(protector, record, now) == Life::Over
}

/// The facts that an event records about one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableFact {
    /// The number in its file name.
    pub number: u64,
    /// The table's unique id, which never changes.
    pub uid: Uid,
    /// Hash of its block checksums.
    pub digest: u64,
    /// The level that it is in.
    pub level: u8,
    /// Its number of records, including tombstones.
    pub records: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The effect of an event on one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched<'a> {
    /// The family's id.
    pub family: u32,
    /// Its name.
    pub name: &'a str,
    /// Tables that were read and are now removed. For `Barred`, `Checkpointed` and `BackedUp`: the tables concerned, which stay.
    pub read: Vec<TableFact>,
    /// Tables that were added.
    pub written: Vec<TableFact>,
}

/// An event of the engine: background work, or work that a caller requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineEvent<'a> {
    /// A store was opened and its log was not empty.
    Recovered {
        /// Commits replayed.
        commits: u64,
        /// Bytes of the log that were set aside.
        cut_bytes: u64,
    },
    /// Memtables were flushed to tables.
    Flushed,
    /// Tables were merged into others, or moved to another level.
    Compacted {
        /// The output level.
        level: u8,
        /// True for a trivial move: the tables were not read.
        moved: bool,
        /// The reason for the compaction.
        reason: &'static str,
        /// Number of values that the compaction filter dropped, and of those that it changed.
        filtered: (u64, u64),
    },
    /// Records were ingested from other files.
    Ingested {
        /// The smallest and the largest key in each of the touched families.
        spans: &'a [(&'a [u8], &'a [u8])],
    },
    /// A repair replaced tables with others.
    Replaced,
    /// Tables were quarantined: compactions no longer use them.
    Barred,
    /// Tables left quarantine: compactions may use them again.
    Freed,
    /// A lost range was recorded.
    Fenced(&'a LostRange),
    /// A lost range was removed.
    Lifted(&'a LostRange),
    /// A checkpoint of the store was made.
    Checkpointed {
        /// The checkpoint's directory.
        dir: &'a str,
    },
    /// A backup of the store was made.
    BackedUp {
        /// The directory of the backups.
        dir: &'a str,
    },
    /// A family was dropped.
    Dropped,
}

/// One event with its details, as known to the manifest edit that commits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work<'a> {
    /// The event.
    pub engine_event: EngineEvent<'a>,
    /// The affected families; empty for an event that concerns the whole store.
    pub touched: Vec<Touched<'a>>,
    /// Logical log offsets of the records: the start, and the exclusive end.
    pub log: Option<(u64, u64)>,
    /// The last seqno visible to readers when the work completed.
    pub seqno: Seqno,
    /// How long it took, in nanoseconds.
    pub nanos: u64,
}

/// A table or key range that is quarantined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld<'a> {
    /// A table: no compaction uses it while it is quarantined. When a repair replaces a table, an end is reported even
    /// if it was not quarantined.
    Table(TableFact),
    /// A lost range, by its number: reads within it fail.
    Span(u64, &'a LostRange),
}

/// The begin or end of a quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quarantine<'a> {
    /// The family's name.
    pub family: &'a str,
    /// The table or lost range concerned.
    pub what: Withheld<'a>,
    /// True if the quarantine begins, false if it ends.
    pub begins: bool,
    /// The cause: `barred`, `fenced`, `freed`, `lifted`, `replaced`, `dropped`; `found` in a listing of current
    /// quarantines.
    pub how: &'static str,
    /// The last seqno visible to readers at that moment.
    pub seqno: Seqno,
}

/// How long engine events are kept. The event log applies it: an event is removed once it exceeds either bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRetention {
    /// The number of newest events that are kept; `usize::MAX` keeps all.
    pub events: usize,
    /// The age up to which events are kept; `Duration::MAX` keeps all.
    pub age: Duration,
}

/// Access to the store for an event log that turns lines into rows.
pub trait EventStore {
    /// Returns how long events are kept.
    fn retention(&self) -> EventRetention;
    /// Returns the wall clock, in microseconds since 1970.
    fn now(&self) -> u64;
    /// Returns the last seqno visible to readers, which tombstones use.
    fn seqno(&self) -> Seqno;
    /// Returns true if a table with this uid is part of the store.
    fn is_live(&self, uid: Uid) -> bool;
    /// Returns true if the table with this uid is quarantined from compactions.
    fn is_quarantined(&self, uid: Uid) -> bool;
    /// Returns the lost ranges of the store.
    fn lost_ranges(&self) -> &[LostRange];
    /// Visits the newest versions of a family's records from `from` up to, but not including, `to`, until `visit`
    /// returns false. Damaged records are skipped. Errors: `Io`.
    fn scan(&self, family: u32, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&Record<'_>) -> bool) -> Result<()>;
}

/// The event log: records each piece of engine work as one line. Lines are stored in the manifest; later the oldest
/// become rows of a family. All calls may come from any thread, and none may wait for a commit.
pub trait EngineLog: Send + Sync {
    /// Called when a store that holds these lines is recovered, so that an implementation continues its clock after
    /// them.
    fn resumes(&self, _lines: &mut dyn Iterator<Item = &[u8]>) {}
    /// Returns the line for a piece of work, or `None` to record nothing; at most `MAX_LINE_BYTES`. The line is
    /// committed together with the work. If the work fails at the last moment, the line is discarded.
    fn line(&self, work: &Work<'_>) -> Option<Vec<u8>>;
    /// Returns how many of the oldest lines leave the manifest at the next flush although it has room for them. Called
    /// by every flush, so its cost must not grow with the number of lines that an earlier call has seen.
    fn outdated(
        &self,
        _lines: &mut dyn Iterator<Item = (u64, &[u8])>,
        _retention: &EventRetention,
        _now: u64,
    ) -> usize {
        0
    }
    /// Returns the rows that replace lines (each with its number) once the manifest has no room for them, and
    /// tombstones of rows that are no longer kept. Rows have no companions; the protector makes those. No row has a
    /// greater seqno than its work. A tombstone has the seqno of `store`, which must be greater than the row's. A line
    /// may yield no row. Called again for the same lines if the flush fails.
    fn rows(&self, lines: &[(u64, Arc<[u8]>)], store: &dyn EventStore) -> Vec<Emitted>;
    /// Returns a row that records a quarantine, without companions and with its seqno, for the manifest edit that
    /// commits the quarantine. If rows cannot be written, the edit is committed without it: a failed row must not leave
    /// damaged data readable.
    fn quarantined(&self, _quarantine: &Quarantine<'_>) -> Option<Emitted> {
        None
    }
}

/// Maximum length of an event log line; longer lines are discarded.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// Replaces `out` with the companions of a written operation, bound to its seqno. Without a protector nothing can bind
/// them, and unbound companions would later make good records look damaged: they are dropped, and `out` stays empty.
#[inline]
pub fn bind_written<K: Companions + ?Sized>(protector: &K, written: &[u8], seqno: Seqno, out: &mut Vec<u8>) {
    out.clear();
    if !written.is_empty() && protector.protection() != Protection::None {
        out.extend_from_slice(written);
        protector.bind(out, None, seqno);
    }
}

/// A plain node: makes no companions. Those in tables are copied as opaque bytes and dropped with their records; those
/// in a log, not bound yet, are dropped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Companions for Plain {}
