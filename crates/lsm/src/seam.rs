//! The seam: what the engine asks of whoever keeps companions. The engine has never heard of a seal; it knows opaque bytes
//! that follow a record, and calls these points. A store opened without a keeper is a plain node: `Plain` below.
//!
//! Order of calls in the life of a record: `on_write` (caller's thread, no lock held) -> `rekey` (its key ends in a seqno) and `bind`
//! (its seqno is known) -> flush: `emit` -> flush and compaction: `on_build` or `on_drop`, `verify` and `term` into the job's
//! ledger. Reads call `verify` on what they give out, and `correct` where a block does not fit its CRC.

use std::sync::Arc;
use std::time::Duration;

use crate::checksum::{Uid, hash_key};
use crate::error::{Error, Result};
use crate::fence::Fence;
use crate::order::Order;
use crate::record::{Kind, Record, Seqno, companion};

/// What the place a record came from promises of its companions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum Protection {
    /// No record has any.
    #[default]
    None = 0,
    /// Some may have one.
    Partial = 1,
    /// Every record has one: a missing one is corruption.
    Complete = 2,
    /// They are of an algorithm that this keeper does not know: carried, never judged. Not on disk.
    Foreign = 3,
}

impl Protection {
    /// The byte in the properties of a table; anything unknown promises nothing.
    pub fn from_byte(byte: u8) -> Protection {
        match byte {
            1 => Protection::Partial,
            2 => Protection::Complete,
            _ => Protection::None,
        }
    }
}

/// Where a record stands, borrowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Source<'a> {
    /// What its place promises.
    pub protection: Protection,
    /// The file's name; empty in memory.
    pub file: &'a str,
    /// The offset of its block in the file.
    pub offset: u64,
}

/// What a companion says of its record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// It matches.
    Validated,
    /// There is nothing to check by, and nothing was promised.
    Unverified,
    /// The record is right, its companion was hit: it may be served, and is to be mended.
    CompanionDamaged,
    /// There is nothing to check by, and it was promised.
    Missing,
    /// The record is damaged, or nothing speaks for it.
    Corrupted,
}

impl Check {
    /// True if the record may be given out.
    #[inline]
    pub fn serves(self) -> bool {
        matches!(self, Check::Validated | Check::Unverified | Check::CompanionDamaged)
    }
}

/// Whether the time of a record is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// It has none, or it is yet to come.
    Alive,
    /// It is: the record counts as absent from now on.
    Over,
    /// The record says so, and is not what was written: it is neither to be shown nor passed over by whoever has not checked it. Where a
    /// check serves it all the same it is alive.
    Doubtful,
}

/// What becomes of a companion while a table is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Build {
    /// The source's bytes go on unchanged.
    Keep,
    /// `out` holds new bytes for the same value: an unprotected record is adopted.
    Set,
    /// `out` holds the bytes as they were before they were hit; the record's term is what it always was.
    Mend,
    /// `out` holds bytes derived from verified inputs (a new value).
    Derive,
}

/// An operation to be, as a keeper sees it: no seqno yet.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'a> {
    /// The family's id.
    pub family: u32,
    /// What it does.
    pub kind: Kind,
    /// The user key.
    pub key: &'a [u8],
    /// `checksum::hash_key` of it, where it is at hand.
    pub key_hash: Option<u64>,
    /// The value.
    pub value: &'a [u8],
    /// What the caller gives to be kept beside the value: provider id and bytes.
    pub entries: &'a [(u16, &'a [u8])],
}

impl Draft<'_> {
    /// `checksum::hash_key` of the key.
    #[inline]
    pub fn hashed_key(&self) -> u64 {
        self.key_hash.unwrap_or_else(|| hash_key(self.key))
    }
}

/// Why a flush or compaction leaves a record out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum DropReason {
    /// A newer record of the same key hides it from every snapshot.
    Shadowed,
    /// A tombstone at the bottom, with nothing left to hide.
    Tombstone,
    /// Covered by a range delete.
    RangeDelete,
    /// Its time is over.
    Expired,
    /// Its family or column is gone.
    Purged,
}

/// One row for another family, written by a flush in the same manifest edit. Its key is one that nothing else ever writes, and no two
/// rows have the same: it is shown as soon as the edit is, whatever its seqno. The tombstone of such a row has the row's key and a
/// greater seqno.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// The family that receives it.
    pub family: u32,
    /// Its seqno, which may be old.
    pub seqno: Seqno,
    kind: Kind,
    /// Key, value and companions, back to back: a flush makes as many rows as it has records.
    bytes: Vec<u8>,
    key_end: usize,
    value_end: usize,
}

impl Emitted {
    /// A row without companions.
    pub fn new(family: u32, seqno: Seqno, key: &[u8], value: &[u8]) -> Emitted {
        let mut bytes = Vec::with_capacity(key.len() + value.len() + companion::WORD8_BYTES);
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        Emitted::joined(family, seqno, bytes, key.len())
    }

    /// The same of a key and a value that stand back to back; the key takes `key_end` bytes, or all of them.
    pub fn joined(family: u32, seqno: Seqno, bytes: Vec<u8>, key_end: usize) -> Emitted {
        let value_end = bytes.len();
        Emitted { family, seqno, kind: Kind::Put, bytes, key_end: key_end.min(value_end), value_end }
    }

    /// The tombstone of a row.
    pub fn tombstone(family: u32, seqno: Seqno, key: &[u8]) -> Emitted {
        Emitted { kind: Kind::Delete, ..Emitted::new(family, seqno, key, &[]) }
    }

    /// `Put`, or `Delete` for the tombstone of a row.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The same row with other companions.
    #[must_use]
    pub fn with_companion(mut self, companion: &[u8]) -> Emitted {
        self.accompany(companion);
        self
    }

    /// Sets its companions, in the place of those that it had.
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

    /// The row as a record.
    #[inline]
    pub fn record(&self) -> Record<'_> {
        let (key, value, companion) = (self.key(), self.value(), self.companion());
        Record { key, seqno: self.seqno, kind: self.kind, value, companion }
    }
}

/// Reads the newest values of other families while rows are emitted, as the flush or the recovery sees them.
pub trait Lookup: Sync {
    /// Shows the value of a key; false if there is none, or no such family. Errors: `Corruption` if what would decide cannot be
    /// trusted.
    fn get(&self, family: u32, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool>;
}

/// The family whose records are flushed.
#[derive(Clone, Copy)]
pub struct Emitting<'a> {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: &'a str,
    /// Other families.
    pub lookup: &'a dyn Lookup,
}

impl std::fmt::Debug for Emitting<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emitting").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

/// A record that a pass holds in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its key.
    pub key: Vec<u8>,
    /// Its seqno.
    pub seqno: Seqno,
    /// What it is.
    pub kind: Kind,
    /// Its value.
    pub value: Vec<u8>,
    /// Its companions.
    pub companion: Vec<u8>,
    /// What the place it came from promises.
    pub protection: Protection,
    /// True if it is none of the inputs' records: the ledger counts it as made here.
    pub made: bool,
}

impl Row {
    /// A copy of a record of the inputs.
    pub fn copy(record: &Record<'_>, protection: Protection) -> Row {
        let (key, value, companion) = (record.key.to_vec(), record.value.to_vec(), record.companion.to_vec());
        Row { key, seqno: record.seqno, kind: record.kind, value, companion, protection, made: false }
    }

    /// Makes it a copy of another record of the inputs.
    pub fn set(&mut self, record: &Record<'_>, protection: Protection) {
        for (to, from) in
            [(&mut self.key, record.key), (&mut self.value, record.value), (&mut self.companion, record.companion)]
        {
            to.clear();
            to.extend_from_slice(from);
        }
        (self.seqno, self.kind, self.protection, self.made) = (record.seqno, record.kind, protection, false);
    }

    /// The row as a record.
    pub fn record(&self) -> Record<'_> {
        let Row { key, seqno, kind, value, companion, .. } = self;
        Record { key, seqno: *seqno, kind: *kind, value, companion }
    }
}

/// Rewrites the records of one flush or compaction, for a keeper that keeps what it knows of records in rows of their own.
/// It takes its rows out of the inputs before anything is decided, and writes rows again between the records that stay.
pub trait Rows: Send {
    /// A record of the inputs: true if it is a row of the keeper's own, which nobody else shall see. An error ends the pass.
    fn takes(&mut self, record: &Record<'_>, source: Source<'_>) -> Result<bool>;
    /// A record that it did not take, and whether it stays.
    fn sees(&mut self, record: &Record<'_>, stays: bool, source: Source<'_>) -> Result<()>;
    /// The inputs are at their end.
    fn ends(&mut self) -> Result<()>;
    /// Rows that are to be written next, in internal order and, where they fit, into one block; none: not yet.
    fn next_group(&mut self) -> Option<Vec<Row>>;
}

/// Keeps companions. All calls may come from any thread.
///
/// A record of a table may have a pointer in the place of a large value (kind `BlobPointer`): `verify`, `term`, `on_build`, `on_drop` and
/// `retains` see it as it lies. It stands for a put with the value hash of the pointer (`pointer::value_hash`), and must get the same answers.
///
/// What a keeper does not answer, the one `beneath` it does, and where there is none the answer is a plain node's: nothing is made, nothing
/// is judged.
pub trait Companions: Send + Sync {
    /// The keeper that answers what this one does not; none: nobody does.
    #[inline]
    fn beneath(&self) -> Option<&dyn Companions> {
        None
    }
    /// Batch building: appends the companions of an operation to `out`. An error refuses the operation.
    fn on_write(&self, draft: &Draft<'_>, out: &mut Vec<u8>) -> Result<()> {
        match self.beneath() {
            Some(beneath) => beneath.on_write(draft, out),
            None if draft.entries.is_empty() => Ok(()),
            None => Err(Error::invalid("this store keeps nothing beside its values")),
        }
    }
    /// The record's seqno is known (or changes from `old`): adjusts the companion in place, without the record.
    fn bind(&self, companion: &mut [u8], old: Option<Seqno>, new: Seqno) {
        if let Some(beneath) = self.beneath() {
            beneath.bind(companion, old, new);
        }
    }
    /// What `bind_written` does, and with it the record's term in the ledger where that is known without a look at the record; none: `term` tells.
    /// Each record that is written comes by here, and this is one call in the place of three.
    #[inline]
    fn bind_new(&self, written: &[u8], seqno: Seqno, out: &mut Vec<u8>) -> Option<u64> {
        bind_written(self, written, seqno, out);
        None
    }
    /// A part of the key becomes known with the seqno: adjusts a companion that is not bound yet, without the value. What was
    /// damaged before stays damaged.
    fn rekey(&self, companion: &mut [u8], old_key: &[u8], new_key: &[u8]) {
        if let Some(beneath) = self.beneath() {
            beneath.rekey(companion, old_key, new_key);
        }
    }
    /// Recovery found a record in the log, here with its companions as they were written, not bound, and is about to move it to a table.
    /// An error ends the recovery, and the store stays as it was.
    fn on_replay(&self, record: &Record<'_>) -> Result<()> {
        self.beneath().map_or(Ok(()), |beneath| beneath.on_replay(record))
    }
    /// A record enters a table: keep its companion, or write another to `out`.
    fn on_build(&self, record: &Record<'_>, source: Protection, out: &mut Vec<u8>) -> Build {
        self.beneath().map_or(Build::Keep, |beneath| beneath.on_build(record, source, out))
    }
    /// A merge operator made `result` from `inputs`, all verified: its companion goes to `out`.
    fn on_merge(&self, inputs: &[Record<'_>], result: &Record<'_>, out: &mut Vec<u8>) -> Result<()> {
        self.beneath().map_or(Ok(()), |beneath| beneath.on_merge(inputs, result, out))
    }
    /// A record is left out of a table.
    fn on_drop(&self, record: &Record<'_>, reason: DropReason) {
        if let Some(beneath) = self.beneath() {
            beneath.on_drop(record, reason);
        }
    }
    /// Checks a record against its companion. `key_hash` is `checksum::hash_key` of the record's key.
    #[inline]
    fn verify(&self, record: &Record<'_>, key_hash: u64, source: Protection) -> Check {
        self.beneath().map_or(Check::Unverified, |beneath| beneath.verify(record, key_hash, source))
    }
    /// Returns true if a scan may give out a record: `verify` of it `serves`. Scans call this once for every record that they step on, so a
    /// keeper hashes key and value here, in one dynamic call.
    #[inline]
    fn serves(&self, record: &Record<'_>, source: Protection) -> bool {
        self.verify(record, hash_key(record.key), source).serves()
    }
    /// Whether the time of a record is over; the keeper sees to it itself that it is what was written. Asked of values that would be given
    /// out or kept and have more beside them than one word; `now` is microseconds since 1970, read only if the record has a time.
    #[inline]
    fn life(&self, record: &Record<'_>, now: &dyn Fn() -> u64) -> Life {
        self.beneath().map_or(Life::Alive, |beneath| beneath.life(record, now))
    }
    /// When the record expires, in microseconds since 1970; none if it never does. What the record itself says: nobody has checked it.
    fn expiry(&self, record: &Record<'_>) -> Option<u64> {
        self.beneath().and_then(|beneath| beneath.expiry(record))
    }
    /// True if a table of expired records may go unread. If not, a compaction reads it, and `on_drop` is called for each record.
    fn may_drop_unread(&self) -> bool {
        self.beneath().is_none_or(|beneath| beneath.may_drop_unread())
    }
    /// True if the record counts as absent from now on.
    #[inline]
    fn expired(&self, record: &Record<'_>, now: &dyn Fn() -> u64) -> bool {
        self.life(record, now) == Life::Over
    }
    /// The record's term in the ledger: the same wherever it lives. 0 if it has none.
    fn term(&self, record: &Record<'_>) -> u64 {
        self.beneath().map_or(0, |beneath| beneath.term(record))
    }
    /// Rows for other families that a family's records give rise to: called for each record of a flush, a recovery's among them,
    /// before anything is dropped; and once more where a flush is done again. An error fails the flush, which is tried again. A keeper that
    /// answers it answers `may_emit` too: a record that that denies may have a pointer in the place of its value.
    fn emit(&self, family: &Emitting<'_>, record: &Record<'_>, rows: &mut Vec<Emitted>) -> Result<()> {
        self.beneath().map_or(Ok(()), |beneath| beneath.emit(family, record, rows))
    }
    /// True if `emit` may give a row for such a record, whose seqno is not known yet: then its value goes with the log, so that the flush has it
    /// at hand. Asked of large values alone.
    fn may_emit(&self, family: u32, record: &Record<'_>) -> bool {
        self.beneath().is_some_and(|beneath| beneath.may_emit(family, record))
    }
    /// True if the record and the version right below it stay whatever hides them: a record that retains is never left out of a table,
    /// nor is the version below it while they are merged together (a tombstone there may go where nothing older is left). Asked of every
    /// record of a flush or compaction. A keeper with rows of its own retains nothing.
    #[inline]
    fn retains(&self, record: &Record<'_>) -> bool {
        self.beneath().is_some_and(|beneath| beneath.retains(record))
    }
    /// What this keeper promises of the records that are written through it.
    fn protection(&self) -> Protection {
        self.beneath().map_or(Protection::None, |beneath| beneath.protection())
    }
    /// What it promises of operations that stand in a batch: less than of records, where it makes their companions later.
    fn written(&self) -> Protection {
        self.beneath().map_or_else(|| self.protection(), |beneath| beneath.written())
    }
    /// The algorithm by which it checks, for property 14 of tables; 0: none.
    fn algorithm(&self) -> u64 {
        self.beneath().map_or(0, |beneath| beneath.algorithm())
    }
    /// Descriptions of what may stand in companions, for property 10 of tables.
    fn descriptors(&self) -> Vec<u8> {
        self.beneath().map_or_else(Vec::new, |beneath| beneath.descriptors())
    }
    /// True if `rows` gives anything.
    fn has_rows(&self) -> bool {
        self.beneath().is_some_and(|beneath| beneath.has_rows())
    }
    /// What rewrites the records of a flush or compaction of a family, if this keeper keeps rows of its own there.
    fn rows(&self, family: u32, order: &Order) -> Result<Option<Box<dyn Rows>>> {
        self.beneath().map_or(Ok(None), |beneath| beneath.rows(family, order))
    }
    /// Tries to correct a framed block (stored bytes, codec, CRC) whose CRC, from start value `seed`, does not fit. True: `block`
    /// is corrected, `confirm` has passed it, and no other correction passes. False: it is as it came.
    fn correct(&self, block: &mut [u8], seed: u32, confirm: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        self.beneath().is_some_and(|beneath| beneath.correct(block, seed, confirm))
    }
}

/// Whether the time of a record is over. One that has a word beside it and nothing else has none, whoever keeps it.
#[inline]
pub fn life_of(keeper: &dyn Companions, record: &Record<'_>, now: &dyn Fn() -> u64) -> Life {
    if companion::is_bare(record.companion) { Life::Alive } else { keeper.life(record, now) }
}

/// True if the time of a record is over, for whoever has checked it.
#[inline]
pub fn is_over(keeper: &dyn Companions, record: &Record<'_>, now: &dyn Fn() -> u64) -> bool {
    life_of(keeper, record, now) == Life::Over
}

/// What a work says of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableFact {
    /// The number in its file name.
    pub number: u64,
    /// The file's own name, for ever.
    pub uid: Uid,
    /// Hash of its block sums.
    pub digest: u64,
    /// The level that it is in.
    pub level: u8,
    /// Its records, tombstones among them.
    pub records: u64,
    /// Its length.
    pub bytes: u64,
}

/// What a work does to one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched<'a> {
    /// The family's id.
    pub family: u32,
    /// Its name.
    pub name: &'a str,
    /// Tables that were read and go; for `Barred` and `Checkpointed` those concerned, which stay.
    pub read: Vec<TableFact>,
    /// Tables that come.
    pub written: Vec<TableFact>,
}

/// What the engine does of its own accord, or for somebody who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed<'a> {
    /// A store was opened, and there was something in its log.
    Recovered {
        /// Commits replayed.
        commits: u64,
        /// Bytes of the log that were set aside.
        cut_bytes: u64,
    },
    /// Memtables became tables.
    Flushed,
    /// Tables became others, or moved to another level.
    Compacted {
        /// Where they went.
        level: u8,
        /// They moved without being read.
        moved: bool,
        /// Why.
        reason: &'static str,
    },
    /// Records of other files came in.
    Ingested,
    /// A repair put tables in the place of others.
    Replaced,
    /// Compactions leave tables alone from now on.
    Barred,
    /// Compactions may have tables again.
    Freed,
    /// A loss was fenced off.
    Fenced(&'a Fence),
    /// A fence ended.
    Lifted(&'a Fence),
    /// A copy of the store was made.
    Checkpointed {
        /// Where it stands.
        dir: &'a str,
    },
    /// A family ended.
    Dropped,
}

/// One piece of work, as the edit that makes it true knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work<'a> {
    /// What was done.
    pub deed: Deed<'a>,
    /// To which families; none for what concerns the store.
    pub touched: Vec<Touched<'a>>,
    /// Logical offsets of the log from which the records came: the first, and the one behind the last.
    pub log: Option<(u64, u64)>,
    /// The last seqno that readers saw when the work was done.
    pub seqno: Seqno,
    /// How long it took.
    pub nanos: u64,
}

/// What is kept out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld<'a> {
    /// A barred table: no compaction works on it. One that a repair replaces ends whether or not it was barred.
    Table(TableFact),
    /// A fence, by its number: what lies in its span is not read.
    Span(u64, &'a Fence),
}

/// Something comes to be kept out of reach, or is so no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quarantine<'a> {
    /// The family's name.
    pub family: &'a str,
    /// Which table or span of it.
    pub what: Withheld<'a>,
    /// From now on; else no longer.
    pub begins: bool,
    /// What was done: `barred`, `fenced`, `freed`, `lifted`, `replaced`, `dropped`.
    pub how: &'static str,
    /// The last seqno that readers saw when it was.
    pub seqno: Seqno,
}

/// How long the events of the engine's own work are kept. The chronicle applies it; an event goes once it is beyond either bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRetention {
    /// The newest events that are kept; `usize::MAX`: all.
    pub events: usize,
    /// The age up to which events are kept; `Duration::MAX`: any.
    pub age: Duration,
}

/// What a chronicle may ask of the store while lines become rows.
pub trait EventStore {
    /// How long events are kept.
    fn retention(&self) -> EventRetention;
    /// The wall clock, in microseconds since 1970.
    fn now(&self) -> u64;
    /// The last commit that readers see: the seqno of tombstones.
    fn seqno(&self) -> Seqno;
    /// True if a table of this uid is part of the store.
    fn is_live(&self, uid: Uid) -> bool;
    /// True if compactions leave the table of this uid alone.
    fn is_barred(&self, uid: Uid) -> bool;
    /// The lost ranges of the store.
    fn fences(&self) -> &[Fence];
    /// Shows the newest versions of a family's records from one key up to another, the second excluded, until `visit` returns false.
    /// Damaged records are skipped. Errors: `Io`.
    fn scan(&self, family: u32, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&Record<'_>) -> bool) -> Result<()>;
}

/// Writes down what the engine does, one line a work. The lines stand in the manifest; the oldest become rows of a family in time.
/// All calls may come from any thread, and none may wait for a commit.
pub trait Chronicle: Send + Sync {
    /// A store that holds these lines is being recovered: whoever keeps the time goes on behind them.
    fn resumes(&self, _lines: &mut dyn Iterator<Item = &[u8]>) {}
    /// The line of a work, if it is to have one; at most `MAX_LINE_BYTES`. It holds if the work does. A work that fails at the last
    /// moment leaves no line, though this was asked.
    fn line(&self, work: &Work<'_>) -> Option<Vec<u8>>;
    /// Returns how many of the oldest lines leave the manifest at the next flush although it has room for them. Called by every flush,
    /// so its cost must not grow with the number of lines that an earlier call has seen.
    fn outdated(
        &self,
        _lines: &mut dyn Iterator<Item = (u64, &[u8])>,
        _retention: &EventRetention,
        _now: u64,
    ) -> usize {
        0
    }
    /// Returns the rows in whose shape lines, each with its number, are kept when the manifest has no room for them any more, and
    /// tombstones of rows that are no longer kept. Without companions; the keeper makes those. Seqnos of rows are not above that of
    /// the work; a tombstone has the seqno of `store`, which must be above the row's. A line may give none. Called again for the same
    /// lines if the flush fails.
    fn rows(&self, lines: &[(u64, Arc<[u8]>)], store: &dyn EventStore) -> Vec<Emitted>;
    /// A row that tells of a quarantine, for the edit that makes it true; without companions, and with its seqno. If rows cannot be
    /// written the edit goes without: nothing that is damaged stays in reach for that.
    fn quarantined(&self, _quarantine: &Quarantine<'_>) -> Option<Emitted> {
        None
    }
}

/// A longer line is not kept.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// The companions of an operation as it was written, bound to its seqno, in the place of what `out` held. Without a keeper nobody
/// can bind them, and to carry them on unbound would make good records look damaged later: the record goes on without.
#[inline]
pub fn bind_written<K: Companions + ?Sized>(keeper: &K, written: &[u8], seqno: Seqno, out: &mut Vec<u8>) {
    out.clear();
    if !written.is_empty() && keeper.protection() != Protection::None {
        out.extend_from_slice(written);
        keeper.bind(out, None, seqno);
    }
}

/// A plain node: no companions are made. Those that stand in tables are carried by their length and dropped with their records;
/// those of a log, not bound yet, are left behind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Companions for Plain {}
