//! Reads of large values: turns a record that points to its value into the record that was put.
//!
//! In:    a record as a table holds it, and a view or family that keeps the table alive.
//! Out:   the record with its value, read from its blob file into a reusable buffer. A record with an inline value
//!        passes unchanged, at the cost of one comparison.
//! Holds: callers that need only keys, seals or metadata read no value (they do not call the `Resolver`).
//! Costs: one `pread` per value. A point read caches the value if it was read before and takes at most a fixed part of
//!        the block cache (`sst::LargeValues`), so that large values do not empty the cache. Cached values are
//!        borrowed; verifying one costs one hash. A cursor uses cached values, but does not cache new ones.

use std::cell::RefCell;
use std::sync::Arc;

use super::Reads;
use crate::checksum::{Uid, hash};
use crate::db::notify::notifier::{DamagedPlace, Notifier};
use crate::db::state::family::{Family, View};
use crate::error::{Error, Result};
use crate::options::KIB;
use crate::pointer::Pointer;
use crate::record::{Kind, Record};
use crate::sst::Checks;
use crate::values::{BlobBuffer, BlobFiles, Fetch};

/// Size up to which a thread keeps its value buffer; a larger buffer is freed.
const KEPT_ROOM_BYTES: usize = 1024 * KIB;

thread_local! {
    static ROOM: RefCell<BlobBuffer> = RefCell::default();
}

/// Calls `f` with this thread's buffer, or with a fresh one if that is in use or the thread is ending.
fn with_room<R>(f: impl FnOnce(&mut BlobBuffer) -> R) -> R {
    let mut room = ROOM.try_with(RefCell::take).unwrap_or_default();
    let out = f(&mut room);
    room.let_go();
    if room.bytes() <= KEPT_ROOM_BYTES {
        let _ = ROOM.try_with(|kept| kept.replace(room));
    }
    out
}

pub(in crate::db) fn blob_files_of(view: &View) -> Result<Arc<BlobFiles>> {
    view.values.clone().ok_or_else(|| Error::structural("a family without value files"))
}

/// Returns how a read with these checks reads a value.
pub(in crate::db) fn fetch_by(checks: Checks) -> Fetch {
    Fetch { by_value: checks.asks_values(), keep: !checks.passing }
}

impl Reads {
    /// Passes a record to `visit`, after reading its value if that is in a blob file.
    #[inline]
    pub(in crate::db) fn show_whole(
        &self,
        of: (&Family, &View),
        record: &Record<'_>,
        how: Fetch,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<()> {
        match record.kind {
            Kind::BlobPointer => self.show_pointed(of, record, how, visit),
            _ => {
                visit(record);
                Ok(())
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn show_pointed(
        &self,
        (family, view): (&Family, &View),
        record: &Record<'_>,
        how: Fetch,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<()> {
        let blob_files = blob_files_of(view)?;
        with_room(|room| {
            let read = blob_files.fetch(record, how, room);
            read.map_err(|error| unread_value(&self.notifier, family, record, error))?;
            visit(&Record { kind: Kind::Put, value: room.value(), ..*record });
            Ok(())
        })
    }
}

/// Returns the error of an unreadable value, which is reported once.
#[cold]
fn unread_value(notifier: &Notifier, family: &Family, record: &Record<'_>, error: Error) -> Error {
    let error = error.in_family(family.name(), Some((record.key, record.key)));
    let place = match Pointer::decode(record.value) {
        Ok(pointer) => DamagedPlace::Value(pointer.uid, pointer.offset),
        Err(_) => DamagedPlace::Value(Uid::default(), hash(record.key)), // the pointer itself is damaged
    };
    notifier.report_damage(place, &error);
    error
}

/// Passes a record with its value to `visit` if the value is in memory; otherwise returns false without calling
/// `visit`.
pub(super) fn show_cached(
    view: &View,
    record: &Record<'_>,
    by_value: bool,
    visit: &mut dyn FnMut(&Record<'_>),
) -> bool {
    let Some(blob_files) = &view.values else { return false };
    with_room(|room| {
        let is_there = blob_files.finds(record, by_value, room);
        if is_there {
            visit(&Record { kind: Kind::Put, value: room.value(), ..*record });
        }
        is_there
    })
}

/// Reads the value that a record of a view points to, into a reusable buffer. The value stays cached only if it already
/// was.
pub(super) fn read_value(
    (family, view): (&Family, &View),
    notifier: &Notifier,
    record: &Record<'_>,
    by_value: bool,
    room: &mut BlobBuffer,
) -> Result<()> {
    let read = blob_files_of(view)?.fetch(record, Fetch { by_value, keep: false }, room);
    read.map_err(|error| unread_value(notifier, family, record, error))
}
