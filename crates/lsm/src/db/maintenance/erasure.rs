//! Erasure: how far back the records reach that a store holds outside of its current tables, and the removal of old
//! log.
//!
//! In:    an open store. Out: the least seqno by kind of holder; a log whose files hold little more than its live
//!        frames.
//! Holds: a record that moves from one holder to the next is never missed, because log, kept log, memtables and
//!        obsolete files are read in this order. Records in current tables are not counted.
//! Crash: as for a flush and a trim of the log (`log_retirement.rs`). Erased bytes do not come back after a loss of
//!        power: `erase_log` syncs the ring, the cut segments and the directory.

use std::io::ErrorKind;
use std::sync::Arc;

use crate::db::jobs::job_lock::Flusher;
use crate::db::state::context::StoreContext;
use crate::db::state::family::Generation;
use crate::env::{File, Open};
use crate::error::{IoContext, Result};
use crate::record::Seqno;
use crate::version::KeptSegment;
use crate::wal::LogCursor;

/// How far back the records reach that a store holds outside of its current tables and blob files: the least seqno of a
/// record, by kind of holder. `None` if the holder has no record, 0 if its seqnos are not known.
///
/// With it a caller proves that removed data is in no file of the store. Records move from memtables into tables, and
/// from tables into obsolete files. So the caller reads `oldest_seqnos`, then the tables (`files_with`), then
/// `oldest_seqnos` again. If both results are above the seqno of the removal, and no table may have the item, then no
/// file of the store has it. The manifest's keys, which are bounds of tables and ranges, and its items of value files do
/// not count, and neither do the blocks of removed files.
///
/// After a loss of power, files that were removed since the last `erase_log` may be back until the next open for writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OldestSeqnos {
    /// Of records in memtables, in those too that cursors and snapshots hold.
    pub memtables: Option<Seqno>,
    /// Of records in the files of the log: live segments, segments kept for future writes, old bytes in a segment that
    /// is used again, and the tail ring.
    pub log: Option<Seqno>,
    /// Of records in segments that the change feed keeps.
    pub kept_log: Option<Seqno>,
    /// Of records in files that no version names: value files of memtables; files that cursors, snapshots, backups or the
    /// change feed hold, that wait for their removal, could not be removed, are kept as trash, that a recovery or a repair
    /// has set aside, or that an open has found and whose first bytes are none of the store's. An old manifest counts if
    /// it could not be removed.
    pub obsolete_files: Option<Seqno>,
    /// Of the oldest snapshot. Versions of this seqno and below may be in tables for its sake.
    pub snapshots: Option<Seqno>,
}

impl OldestSeqnos {
    /// Returns the least of all: no holder has a record of a lower seqno. `None` if there is no record outside of the
    /// tables, and no snapshot.
    pub fn oldest(&self) -> Option<Seqno> {
        let OldestSeqnos { memtables, log, kept_log, obsolete_files, snapshots } = *self;
        [memtables, log, kept_log, obsolete_files, snapshots].into_iter().flatten().min()
    }
}

/// Returns how far back memtables, log and files reach.
pub(in crate::db) fn oldest_seqnos(flusher: &Flusher) -> Result<OldestSeqnos> {
    let (context, catalog) = (flusher.context(), flusher.catalog());
    let snapshots = catalog.snapshots.boundaries().first().copied();
    let log = flusher.store_log().log().and_then(|log| log.wal().oldest_seqno());
    let kept_log = oldest_kept(flusher)?;
    let memtables = catalog.families().memtables.oldest_seqno(Generation::oldest_seqno);
    let obsolete_files = catalog.obsolete.oldest_seqno(context)?;
    flusher.store_log().check_halted()?; // files of an edit that failed may be named or not
    Ok(OldestSeqnos { memtables, log, kept_log, obsolete_files, snapshots })
}

/// Returns the seqno of the first frame that the change feed keeps; 0 if a segment has bytes behind its frames, which may
/// be older frames.
fn oldest_kept(flusher: &Flusher) -> Result<Option<Seqno>> {
    let (context, feed) = (flusher.context(), &flusher.catalog().feed);
    for kept in feed.uncut_segments() {
        if let Some(file) = open_kept(context, &kept)?
            && is_longer(&*file, &kept)?
        {
            return Ok(Some(0));
        }
    }
    let first = || feed.view().state.segments.values().next().copied();
    while let Some(kept) = first() {
        let read = || {
            let mut cursor = LogCursor::open(&context.env, &context.dir, kept.number, kept.nonce, kept.first)?;
            Ok(cursor.next(kept.end)?.map_or(kept.next_seqno, |frame| frame.seqno))
        };
        match read() {
            Err(_) if first() != Some(kept) => {} // released meanwhile
            read => return read.map(Some),
        }
    }
    Ok(None)
}

/// Opens a kept segment. `None` if the feed has released it meanwhile.
fn open_kept(context: &StoreContext, kept: &KeptSegment) -> Result<Option<Arc<dyn File>>> {
    match context.env.fs.open(&context.path(kept.name()), Open::Write) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some).during(|| format!("opening {}", kept.name())),
    }
}

/// Returns true if a kept segment has bytes behind its frames: a crash came between the edit that keeps it and the cut,
/// or undid the cut.
fn is_longer(file: &dyn File, kept: &KeptSegment) -> Result<bool> {
    let length = file.len().during(|| format!("asking for the length of {}", kept.name()))?;
    Ok(length > kept.file_bytes())
}

/// Cuts off what kept segments have behind their frames, durably. A segment that was cut when the log handed it over is
/// synced too.
fn cut_kept_segments(flusher: &Flusher) -> Result<()> {
    let (context, feed) = (flusher.context(), &flusher.catalog().feed);
    for kept in feed.uncut_segments() {
        let Some(file) = open_kept(context, &kept)? else { continue };
        if is_longer(&*file, &kept)? {
            file.set_len(kept.file_bytes()).during(|| format!("shortening {}", kept.name()))?;
        }
        // A failure loses no frame: all of them were durable before.
        file.sync_data().during(|| format!("sync {}", kept.name()))?;
        feed.note_cut(&kept);
    }
    Ok(())
}

/// Flushes all memtables and erases the log before them, durably.
pub(in crate::db) fn erase_log(flusher: &Flusher) -> Result<()> {
    let _job = flusher.job()?;
    flusher.write_path().rotate_log()?; // first, so that the segments before hold no record that is not flushed
    let through = flusher.write_path().freeze(&|_| true)?;
    flusher.flush_frozen(&|_| true, through)?;
    flusher.write_path().separation.finish_all(flusher.catalog())?;
    flusher.write_path().erase_log()?;
    cut_kept_segments(flusher)?;
    flusher.catalog().remove_obsolete_files();
    while flusher.catalog().obsolete.remove_leftover(flusher.context()) {}
    flusher.catalog().rotate_manifest()?; // the old edits have the first and last keys of old tables
    flusher.store_log().sync_names() // so that no removed file is back after a loss of power
}
