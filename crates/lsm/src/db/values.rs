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

use super::family::{Family, View};
use super::watch::{Integrity, Place};
use super::{Db, Inner};
use crate::checksum::{Uid, hash};
use crate::error::{Error, Result};
use crate::options::KIB;
use crate::pointer::Pointer;
use crate::record::{Kind, Record};
use crate::sst::Checks;
use crate::values::{Fetch, Room, ValueFile, ValueShelf};

/// Size up to which a thread keeps its value buffer; a larger buffer is freed.
const KEPT_ROOM_BYTES: usize = 1024 * KIB;

thread_local! {
    static ROOM: RefCell<Room> = RefCell::default();
}

/// Calls `f` with this thread's buffer, or with a fresh one if that is in use or the thread is ending.
fn with_room<R>(f: impl FnOnce(&mut Room) -> R) -> R {
    let mut room = ROOM.try_with(RefCell::take).unwrap_or_default();
    let out = f(&mut room);
    room.let_go();
    if room.bytes() <= KEPT_ROOM_BYTES {
        let _ = ROOM.try_with(|kept| kept.replace(room));
    }
    out
}

impl Db {
    /// Returns the record with its value if it is a pointer; returns any other record unchanged. The record must come
    /// from this family, and the caller must keep its table alive by a cursor, a snapshot or a `TableRef`. Fails with
    /// `Corruption` that names the key.
    pub fn resolve<'a>(&self, family: &Family, record: &Record<'a>, room: &'a mut Room) -> Result<Record<'a>> {
        self.open_inner()?;
        shelf_of(&*family.open_view()?)?
            .resolve(record, true, room)
            .map_err(|error| error.in_family(family.name(), None))
    }

    /// Verifies the value that a record points to, and the rest of its entry in the blob file. Returns `None` if the
    /// entry is intact. Returns an error in `Some` if the value is readable, but part of its entry is damaged. Fails if
    /// the value is unreadable.
    pub fn look_at_value(&self, family: &Family, record: &Record<'_>, room: &mut Room) -> Result<Option<Error>> {
        let shelf = self.open_inner().and_then(|_| shelf_of(&*family.open_view()?))?;
        let named = |error: Error| error.in_family(family.name(), None);
        shelf.look_at(record, room).map(|hit| hit.map(named)).map_err(named)
    }

    /// Returns the blob file with this unique id if it is still held; the returned reference keeps it from being
    /// removed.
    pub fn value_file(&self, family: &Family, uid: &Uid) -> Result<Option<Arc<ValueFile>>> {
        let shelf = self.open_inner().and_then(|_| shelf_of(&*family.open_view()?))?;
        Ok(shelf.find(uid))
    }

    /// Returns the blob files that the tables of a family point into; each reference keeps its file from being removed.
    pub fn value_files(&self, family: &Family) -> Result<Vec<Arc<ValueFile>>> {
        self.open_inner()?;
        let view = family.open_view()?;
        let mut files: Vec<Arc<ValueFile>> = Vec::new();
        for file in view.levels.iter().flat_map(|level| level.tables()).flat_map(|table| table.values()) {
            if !files.iter().any(|known| Arc::ptr_eq(known, file)) {
                files.push(file.clone());
            }
        }
        Ok(files)
    }
}

fn shelf_of(view: &View) -> Result<Arc<ValueShelf>> {
    view.values.clone().ok_or_else(|| Error::structural("a family without value files"))
}

/// Returns how a read with these checks reads a value.
pub(super) fn fetch_by(checks: Checks) -> Fetch {
    Fetch { by_value: checks.asks_values(), keep: !checks.passing }
}

impl Inner {
    /// Passes a record to `visit`, after reading its value if that is in a blob file.
    #[inline]
    pub(super) fn show_whole(
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
        let shelf = shelf_of(view)?;
        with_room(|room| {
            let read = shelf.fetch(record, how, room);
            read.map_err(|error| unread_value(&self.integrity, family, record, error))?;
            visit(&Record { kind: Kind::Put, value: room.value(), ..*record });
            Ok(())
        })
    }
}

/// Returns the error of an unreadable value, which is reported once.
#[cold]
fn unread_value(integrity: &Integrity, family: &Family, record: &Record<'_>, error: Error) -> Error {
    let error = error.in_family(family.name(), Some((record.key, record.key)));
    let place = match Pointer::decode(record.value) {
        Ok(pointer) => Place::Value(pointer.uid, pointer.offset),
        Err(_) => Place::Value(Uid::default(), hash(record.key)), // the pointer itself is damaged
    };
    integrity.tell(place, &error);
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
    let Some(shelf) = &view.values else { return false };
    with_room(|room| {
        let is_there = shelf.finds(record, by_value, room);
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
    integrity: &Integrity,
    record: &Record<'_>,
    by_value: bool,
    room: &mut Room,
) -> Result<()> {
    let read = shelf_of(view)?.fetch(record, Fetch { by_value, keep: false }, room);
    read.map_err(|error| unread_value(integrity, family, record, error))
}
