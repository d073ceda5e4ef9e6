//! Large values, as readers meet them: a record that points to its value becomes the record that was put.
//!
//! In:    a record as a table holds it, and a view or family that keeps the table alive. Out: the record with its value, read from its
//!        value file into room that is used again; a record that holds its value passes as it is, at the cost of one comparison.
//! Holds: whoever asks for keys, seals or metadata alone reads no value (`Resolver` is asked for one, or is not).
//! Costs: a value is one `pread`, which a point read leaves in the block cache if it was read before and is no more than a part of that (`sst::LargeValues`), so that
//!        large ones do not empty it. From there it is lent; a check of it is one hash. A cursor finds those that are there and leaves none.

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

/// Room that a thread keeps for the values that it reads; what is larger is given back.
const KEPT_ROOM_BYTES: usize = 1024 * KIB;

thread_local! {
    static ROOM: RefCell<Room> = RefCell::default();
}

/// Calls `f` with this thread's room, or a fresh one where that is in use or the thread ends.
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
    /// The record as it was put, in place of one that points to its value; any other as it is. The record must come from this family,
    /// and whoever holds it hold its table too, by a cursor, a snapshot or a `TableRef`. Errors: `Corruption` that names the key.
    pub fn resolve<'a>(&self, family: &Family, record: &Record<'a>, room: &'a mut Room) -> Result<Record<'a>> {
        self.open_inner()?;
        shelf_of(&*family.open_view()?)?
            .resolve(record, true, room)
            .map_err(|error| error.in_family(family.name(), None))
    }

    /// Looks at the value that a record points to, and at what stands around it in its file. None: all of it is as it was written. An
    /// error in `Some`: the value can be had, but something of its entry was hit. Errors: the value cannot be had.
    pub fn look_at_value(&self, family: &Family, record: &Record<'_>, room: &mut Room) -> Result<Option<Error>> {
        let shelf = self.open_inner().and_then(|_| shelf_of(&*family.open_view()?))?;
        let named = |error: Error| error.in_family(family.name(), None);
        shelf.look_at(record, room).map(|hit| hit.map(named)).map_err(named)
    }

    /// The value file of this name, if anybody holds it; it is not removed while the answer is held.
    pub fn value_file(&self, family: &Family, uid: &Uid) -> Result<Option<Arc<ValueFile>>> {
        let shelf = self.open_inner().and_then(|_| shelf_of(&*family.open_view()?))?;
        Ok(shelf.find(uid))
    }

    /// The value files that the tables of a family point into, each held while the answer is.
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

/// How a read with these checks reads a value.
pub(super) fn fetch_by(checks: Checks) -> Fetch {
    Fetch { by_value: checks.asks_values(), keep: !checks.passing }
}

impl Inner {
    /// Shows a record to `visit`, its value read if it stands elsewhere.
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

/// The error of a value that cannot be had, told of once.
#[cold]
fn unread_value(integrity: &Integrity, family: &Family, record: &Record<'_>, error: Error) -> Error {
    let error = error.in_family(family.name(), Some((record.key, record.key)));
    let place = match Pointer::decode(record.value) {
        Ok(pointer) => Place::Value(pointer.uid, pointer.offset),
        Err(_) => Place::Value(Uid::default(), hash(record.key)), // it was hit itself, and says nothing
    };
    integrity.tell(place, &error);
    error
}

/// Shows a record with its value if that is in memory; false if not, and then nothing was shown.
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

/// Reads the value that a record of a view points to, into room that is used again. It stays in memory only if it was there.
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
