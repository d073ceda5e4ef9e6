//! Stores: open, maintenance, close.

use face::{Builder, Db, OldestSeqnos};

use crate::declare::mirror;
use crate::error::calls;
use crate::failure::{Result, WAXSEAL_CLOSED};
use crate::handle::{HandleKind, handle, issue, take, with, with_failed};
use crate::lent::{Lent, Out};
use crate::options::{configured, waxseal_options_t};
use crate::order_failure::check_opening;

/// An open store. Usable from any thread; closed by `waxseal_close`.
pub struct waxseal_db_t {
    _opaque: [u8; 0],
}

handle!(waxseal_db_t => Db, HandleKind::Store, "store", |db| Some(db.store()));

/// Opens the store that `builder` describes and hands it to the caller.
fn open_by(
    db: Out<'_, *mut waxseal_db_t>,
    options: *const waxseal_options_t,
    builder: impl FnOnce() -> Result<Builder>,
    open: impl FnOnce(Builder) -> face::Result<Db>,
) -> Result<()> {
    let db = db.needed("store")?;
    let (builder, caller) = configured(options, builder()?)?;
    let opened = open(builder);
    check_opening(&caller)?; // after a failed comparison the result is unreliable
    let opened = opened?;
    crate::order_failure::opened(&caller, opened.store())?;
    db.set(issue(opened)?);
    Ok(())
}

fn at(path: Lent<'_>) -> Result<Builder> {
    Ok(Db::builder(path.path()?))
}

/// A value of `waxseal_oldest_seqnos_t`: there is no record.
pub const WAXSEAL_NO_SEQNO: u64 = u64::MAX;

mirror! {
    /// The least seqno of the records that a store holds outside of its current tables and blob files, by kind of
    /// holder.
    /// `WAXSEAL_NO_SEQNO` if the holder has no record, 0 if its seqnos are not known.
    pub struct waxseal_oldest_seqnos_t of |oldest: &OldestSeqnos| {
        /// Of records in memtables, in those too that iterators and snapshots hold.
        pub memtables: u64 = oldest.memtables.unwrap_or(WAXSEAL_NO_SEQNO),
        /// Of records in the files of the log, needed or not.
        pub log: u64 = oldest.log.unwrap_or(WAXSEAL_NO_SEQNO),
        /// Of records in log segments that the change feed keeps.
        pub kept_log: u64 = oldest.kept_log.unwrap_or(WAXSEAL_NO_SEQNO),
        /// Of records in files that no version names: value files of memtables; files that are held by iterators,
        /// snapshots, backups or the change feed, wait for their removal, could not be removed, are kept as trash, or
        /// were set aside by a recovery or a repair.
        pub obsolete_files: u64 = oldest.obsolete_files.unwrap_or(WAXSEAL_NO_SEQNO),
        /// Of the oldest snapshot.
        pub snapshots: u64 = oldest.snapshots.unwrap_or(WAXSEAL_NO_SEQNO),
    }
}

calls! {
    /// Opens the store in a directory, or creates one there. `options` may be null. Only one process at a time may have
    /// a store open for writing.
    ///
    /// Thread-safe. On success the caller owns `*db` and closes it with `waxseal_close`. Errors: `WAXSEAL_LOCKED`,
    /// whose message names the holder, `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_FORMAT_TOO_NEW`; `WAXSEAL_INVALID`
    /// for invalid options.
    fn waxseal_open(bytes path, options: *const waxseal_options_t, out db: *mut *mut waxseal_db_t) {
        open_by(db, options, || at(path), Builder::open)
    }

    /// Opens a store read-only, even while another process writes it. Takes no lock and writes nothing. Reads see the
    /// state at the open until `waxseal_refresh`. `options` may be null.
    ///
    /// Thread-safe. On success the caller owns `*db` and closes it with `waxseal_close`. Errors: as of `waxseal_open`,
    /// without `WAXSEAL_LOCKED`.
    fn waxseal_open_read_only(bytes path, options: *const waxseal_options_t, out db: *mut *mut waxseal_db_t) {
        open_by(db, options, || at(path), Builder::open_read_only)
    }

    /// Opens a new store in memory, which is discarded when it is closed. `options` may be null.
    ///
    /// Thread-safe. On success the caller owns `*db` and closes it with `waxseal_close`.
    fn waxseal_open_memory(options: *const waxseal_options_t, out db: *mut *mut waxseal_db_t) {
        open_by(db, options, || Ok(Builder::in_memory()), Builder::open)
    }

    /// Closes the store and destroys its handle, whatever status the call returns. If the status is `WAXSEAL_OK`, every
    /// acknowledged commit is durable. Families, snapshots, batches and iterators of the store return `WAXSEAL_CLOSED`
    /// from then on, and still have to be destroyed. Null is allowed.
    ///
    /// Releases the store's threads, descriptors, mappings, memtables and cached blocks, even while other handles
    /// exist. A running call, a bytes object and an Arrow batch keep the memory that they use. An iterator keeps its
    /// memtables and the indexes of its tables until it is destroyed.
    ///
    /// Thread-safe: concurrent calls finish or return `WAXSEAL_CLOSED`. A second call returns `WAXSEAL_OK` and does not
    /// wait for the first. Errors: `WAXSEAL_IO`, `WAXSEAL_HALTED` if a commit could not be made durable.
    fn waxseal_close(db: *mut waxseal_db_t) {
        if db.is_null() {
            return Ok(());
        }
        // Refused inside a callback of this store.
        match with_failed(db.cast_const(), |_| Ok(())).and_then(|()| take(db.cast_const())) {
            Ok(entry) => Ok(entry.object.close()?),
            Err(failure) if failure.status() == WAXSEAL_CLOSED => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Removes a store and all its data. Refuses a directory that holds no store, and a store that is open.
    ///
    /// Thread-safe. Errors: `WAXSEAL_INVALID`, `WAXSEAL_LOCKED`, `WAXSEAL_IO`.
    fn waxseal_destroy_store(bytes path) { Ok(Db::destroy(path.path()?)?) }

    /// Makes every acknowledged commit durable: none of them can be lost once this call has returned `WAXSEAL_OK`.
    ///
    /// Thread-safe. Errors: `WAXSEAL_IO`, `WAXSEAL_HALTED`, `WAXSEAL_CLOSED`.
    fn waxseal_sync(db: *mut waxseal_db_t) { with(db.cast_const(), |db| Ok(db.sync()?)) }

    /// Writes all memtables to tables and waits until they are written.
    ///
    /// Thread-safe. Errors: `WAXSEAL_IO`, `WAXSEAL_HALTED`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
    fn waxseal_flush(db: *mut waxseal_db_t) { with(db.cast_const(), |db| Ok(db.flush()?)) }

    /// Flushes, then compacts until three conditions hold. No compaction is due. The levels above the lowest hold at
    /// most an eighth of the lowest level's bytes (1 / (`fanout` - 2) with the default fanout of 10), since all their
    /// records may be newer versions. Garbage in blob files is at most an eighth of the live data. Then removes the
    /// log's spare segments. Meant for the end of a bulk load: compactions that are not due are skipped as soon as
    /// other threads write.
    ///
    /// Thread-safe. Errors: as of `waxseal_flush`.
    fn waxseal_settle(db: *mut waxseal_db_t) { with(db.cast_const(), |db| Ok(db.settle()?)) }

    /// Returns how far back the records reach that the store holds outside of its current tables and blob files. With
    /// it a caller shows that data that it has removed from all tables is in no file of the store any more: it calls
    /// this function, looks at the tables (`waxseal_tables_with`), and calls it again.
    ///
    /// Thread-safe. Errors: `WAXSEAL_READ_ONLY`, `WAXSEAL_HALTED`, `WAXSEAL_CORRUPTION` of a log segment that the
    /// change feed keeps, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_oldest_seqnos(db: *mut waxseal_db_t, out oldest: *mut waxseal_oldest_seqnos_t) {
        let place = oldest.needed("result")?;
        place.set(waxseal_oldest_seqnos_t::of(&with(db.cast_const(), |db| Ok(db.oldest_seqnos()?))?));
        Ok(())
    }

    /// Flushes all memtables and erases old records from the files of the log: segments, the files that are kept for
    /// future writes, and the tail ring. The log that the change feed keeps stays, and so do replaced tables that
    /// `trash_bytes` keeps. All commits before the call are durable when it returns, and erased records do not come
    /// back after a loss of power.
    ///
    /// Thread-safe. Errors: as of `waxseal_flush`.
    fn waxseal_erase_log(db: *mut waxseal_db_t) { with(db.cast_const(), |db| Ok(db.erase_log()?)) }

    /// Creates a copy of the store's current state in a new directory. After a crash the copy is complete or absent.
    /// Tables are shared by hard links where the file system supports them.
    ///
    /// Thread-safe. Errors: `WAXSEAL_INVALID` if the directory is not empty, `WAXSEAL_LOCKED` while another checkpoint
    /// is written there, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_checkpoint(db: *mut waxseal_db_t, bytes path) {
        with(db.cast_const(), |db| Ok(db.checkpoint(path.path()?)?))
    }

    /// Catches up with the writing process, registrations included. Affects stores opened by `waxseal_open_read_only`;
    /// other stores are unchanged.
    ///
    /// Thread-safe. Errors: `WAXSEAL_CORRUPTION`, also if the registrations cannot be read, `WAXSEAL_IO`,
    /// `WAXSEAL_CLOSED`.
    fn waxseal_refresh(db: *mut waxseal_db_t) { with(db.cast_const(), |db| Ok(db.refresh()?)) }

    /// `WAXSEAL_OK` if the store was opened read-only, `WAXSEAL_NOT_FOUND` if it may be written.
    ///
    /// Thread-safe.
    fn waxseal_is_read_only(db: *const waxseal_db_t) { with(db, |db| Ok(db.is_read_only())) }
}
