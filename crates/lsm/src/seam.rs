//! The seam: what the engine asks of whoever keeps companions. The engine has never heard of a seal; it knows opaque bytes
//! that follow a record, and calls these points. A store opened without a keeper is a plain node: `Plain` below.
//!
//! Order of calls in the life of a record: `on_write` (caller's thread, no lock held) -> `bind` (its seqno is known) ->
//! flush and compaction: `verify`, `on_build` or `on_drop`, `term` into the job's ledger, `collector` per file ->
//! `emit` once per job, before its manifest edit.

use crate::error::Result;
use crate::record::{Kind, Record, Seqno};

/// What a companion says of its record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// It matches.
    Validated,
    /// There is nothing to check by.
    Unverified,
    /// The record or its companion is damaged.
    Corrupted,
}

/// What becomes of a companion while a table is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Build {
    /// The source's bytes go on unchanged.
    Keep,
    /// `out` holds new bytes for the same value (an unprotected record is adopted).
    Set,
    /// `out` holds bytes derived from verified inputs (a new value).
    Derive,
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

/// One row for another family, written by a flush or compaction in the same manifest edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// The family that receives it.
    pub family: u32,
    /// Its key.
    pub key: Vec<u8>,
    /// Its seqno, which may be old.
    pub seqno: Seqno,
    /// Its value.
    pub value: Vec<u8>,
    /// Its companions.
    pub companion: Vec<u8>,
}

/// Gathers properties of one table file.
pub trait Collector: Send {
    /// Sees every record that goes into the file, in order.
    fn add(&mut self, record: &Record<'_>);
    /// Named properties for the file: (provider id, bytes).
    fn finish(&mut self) -> Vec<(u16, Vec<u8>)>;
}

/// Keeps companions. All calls may come from any thread.
pub trait Companions: Send + Sync {
    /// Batch building: appends the companion of a record to be (no seqno yet) to `out`. An error refuses the operation.
    fn on_write(&self, family: u32, kind: Kind, key: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<()>;
    /// The record's seqno is known (or changes from `old`): adjusts the companion in place, without the record.
    fn bind(&self, companion: &mut [u8], old: Option<Seqno>, new: Seqno);
    /// A record enters a table: keep its companion, or write another to `out`.
    fn on_build(&self, record: &Record<'_>, out: &mut Vec<u8>) -> Build;
    /// A merge operator made `result` from `inputs`, all verified: its companion goes to `out`.
    fn on_merge(&self, inputs: &[Record<'_>], result: &Record<'_>, out: &mut Vec<u8>) -> Result<()>;
    /// A record is left out of a table.
    fn on_drop(&self, record: &Record<'_>, reason: DropReason);
    /// Checks a record against its companion.
    fn verify(&self, record: &Record<'_>) -> Check;
    /// The record's term in the ledger: the same wherever it lives. 0 if it has none.
    fn term(&self, record: &Record<'_>) -> u64;
    /// A collector for a new table file, if one is wanted.
    fn collector(&self) -> Option<Box<dyn Collector>>;
    /// Rows for other families that a job's records give rise to: called for each record of a flush before anything is dropped.
    fn emit(&self, family: u32, record: &Record<'_>, rows: &mut Vec<Emitted>);
    /// 0: tables hold no companions; 1: some may; 2: every record has one (a missing one is corruption).
    fn protection(&self) -> u8;
}

/// The companions of an operation as it was written, bound to its seqno, in the place of what `out` held. Without a keeper nobody
/// can bind them, and to carry them on unbound would make good records look damaged later: the record goes on without.
#[inline]
pub(crate) fn bind_written(keeper: &dyn Companions, written: &[u8], seqno: Seqno, out: &mut Vec<u8>) {
    out.clear();
    if !written.is_empty() && keeper.protection() > 0 {
        out.extend_from_slice(written);
        keeper.bind(out, None, seqno);
    }
}

/// A plain node: no companions are made. Those that stand in tables are carried by their length and dropped with their records;
/// those of a log, not bound yet, are left behind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Companions for Plain {
    fn on_write(&self, _: u32, _: Kind, _: &[u8], _: &[u8], _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
    fn bind(&self, _: &mut [u8], _: Option<Seqno>, _: Seqno) {}
    fn on_build(&self, _: &Record<'_>, _: &mut Vec<u8>) -> Build {
        Build::Keep
    }
    fn on_merge(&self, _: &[Record<'_>], _: &Record<'_>, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
    fn on_drop(&self, _: &Record<'_>, _: DropReason) {}
    fn verify(&self, _: &Record<'_>) -> Check {
        Check::Unverified
    }
    fn term(&self, _: &Record<'_>) -> u64 {
        0
    }
    fn collector(&self) -> Option<Box<dyn Collector>> {
        None
    }
    fn emit(&self, _: u32, _: &Record<'_>, _: &mut Vec<Emitted>) {}
    fn protection(&self) -> u8 {
        0
    }
}
