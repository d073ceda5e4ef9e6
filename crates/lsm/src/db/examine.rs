//! Inspection of a store piece by piece, for verification, scrubbing and repair. Changes nothing.
//!
//! Out: the tables of a family, each kept alive while it is inspected; its memtables; the part of the log that still
//!      exists; a fresh read of the manifest. Damage is an error of the damaged piece only.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::family::{Family, View};
use super::recover::facts_of;
use super::{Db, TableHandle};
use crate::batch::{Binding, Operations};
use crate::cursor::Cursor;
use crate::env::work::lock;
use crate::env::{Clock, Env, File, Open, read_into};
use crate::error::{Damage, Error, IoContext, Result, Verdict};
use crate::names::Name;
use crate::options::KIB;
use crate::record::{AsRecord, Kind, Record, Seqno};
use crate::seam::{Check, Companions};
use crate::sst::{Expected, Known, Rebuilt, Table, rebuild};
use crate::values::{LoggedValues, Room, ValueFile, ValueShelf};
use crate::version::{State, TableMeta, recover};
use crate::wal::{self, Beside, Replayed, Stop, Until};

/// How often the log is reread when a writer changes it during the read.
const ATTEMPTS: usize = 16;

/// Size of the pieces in which a file is read.
const PIECE_BYTES: usize = 256 * KIB;

/// One table of a family. Its file is not removed while this value lives.
#[derive(Clone)]
pub struct TableRef {
    family: Family,
    level: usize,
    handle: Arc<TableHandle>,
}

impl TableRef {
    /// Returns the family.
    pub fn family(&self) -> &Family {
        &self.family
    }

    /// Returns the table's level.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Returns the manifest's metadata of the table.
    pub fn meta(&self) -> &TableMeta {
        self.handle.meta()
    }

    /// Returns the blob files that it points into.
    pub fn values(&self) -> &[Arc<ValueFile>] {
        self.handle.values()
    }

    /// Returns the name of its file.
    pub fn name(&self) -> String {
        Name::Table(self.meta().number).to_string()
    }

    /// Returns the table, opened as for any reader.
    pub fn table(&self) -> Result<Arc<Table>> {
        self.handle.table().cloned()
    }

    /// Makes readers forget damage that they met in the table. Call it after the whole file was found intact.
    pub fn forget_damage(&self) {
        if let Some(table) = self.handle.opened() {
            table.forget_damage(); // for readers of an earlier view
        }
        self.family.forget_damage(self.meta().number);
    }

    /// Verifies the value that a record of the table points to, and the rest of its entry in the blob file. Returns
    /// `None` if the entry is intact. Returns an error in `Some` if the value is readable, but part of its entry is
    /// damaged. Fails if the value is unreadable.
    pub fn look_at_value(&self, record: &Record<'_>, room: &mut Room) -> Result<Option<Error>> {
        look_at_value(self.values().first().map(|file| file.shelf()), &self.family, record, room)
    }
}

impl fmt::Debug for TableRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} in level {}", self.handle, self.level)
    }
}

/// The memtables of a family as of one moment. Blob files that they point into are not removed while this value lives.
pub struct MemoryRef<'a> {
    keeper: &'a dyn Companions,
    family: Family,
    view: Arc<View>,
}

impl MemoryRef<'_> {
    /// Passes every record to `visit`, with the result of its companion's check.
    pub fn visit(&self, visit: &mut dyn FnMut(&Record<'_>, Check) -> Result<()>) -> Result<()> {
        for generation in [&self.view.active].into_iter().chain(&self.view.frozen) {
            let mut cursor = generation.memtable.cursor();
            cursor.first()?;
            while cursor.valid() {
                let record = cursor.record();
                let key_hash = crate::checksum::hash_key(record.key);
                let check = match record.kind {
                    Kind::Fence => Check::Corrupted, // its key and value are unknown
                    _ => self.keeper.verify(&record, key_hash, cursor.source().protection),
                };
                visit(&record, check)?;
                cursor.next()?;
            }
        }
        Ok(())
    }

    /// Verifies a value like `TableRef::look_at_value`, for a record of these memtables.
    pub fn look_at_value(&self, record: &Record<'_>, room: &mut Room) -> Result<Option<Error>> {
        look_at_value(self.view.values.as_deref(), &self.family, record, room)
    }
}

impl fmt::Debug for MemoryRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memtables of {:?}", self.family.name())
    }
}

fn look_at_value(
    shelf: Option<&ValueShelf>,
    family: &Family,
    record: &Record<'_>,
    room: &mut Room,
) -> Result<Option<Error>> {
    let named = |error: Error| error.in_family(family.name(), None);
    let shelf = shelf.ok_or_else(|| named(Error::structural("a pointer of what names no value file")))?;
    shelf.look_at(record, room).map(|hit| hit.map(named)).map_err(named)
}

/// A record that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRecord {
    /// The key.
    pub key: Vec<u8>,
    /// The seqno.
    pub seqno: Seqno,
    /// The kind.
    pub kind: Kind,
    /// The value.
    pub value: Vec<u8>,
    /// The companions.
    pub companion: Vec<u8>,
}

impl OwnedRecord {
    /// Copies a record.
    pub fn of(record: &Record<'_>) -> OwnedRecord {
        OwnedRecord {
            key: record.key.to_vec(),
            seqno: record.seqno,
            kind: record.kind,
            value: record.value.to_vec(),
            companion: record.companion.to_vec(),
        }
    }

    /// Borrows the record.
    pub fn borrow(&self) -> Record<'_> {
        Record { key: &self.key, seqno: self.seqno, kind: self.kind, value: &self.value, companion: &self.companion }
    }
}

impl AsRecord for OwnedRecord {
    fn as_record(&self) -> Record<'_> {
        self.borrow()
    }
}

impl Db {
    /// Returns the current tables of a family, upper levels first.
    pub fn tables(&self, family: &Family) -> Result<Vec<TableRef>> {
        self.open_inner()?;
        let view = family.open_view()?;
        let held = |level: usize, handle: &Arc<TableHandle>| TableRef {
            family: family.clone(),
            level,
            handle: handle.clone(),
        };
        let levels = view.levels.iter().enumerate();
        Ok(levels.flat_map(|(level, tables)| tables.tables().iter().map(move |table| held(level, table))).collect())
    }

    /// Returns the family's current table with this number, or `None` if no such table exists.
    pub fn table(&self, family: &Family, number: u64) -> Result<Option<TableRef>> {
        self.open_inner()?;
        let view = family.open_view()?;
        let found = view.levels.iter().enumerate().find_map(|(level, tables)| {
            let handle = tables.tables().iter().find(|handle| handle.meta().number == number)?;
            Some(TableRef { family: family.clone(), level, handle: handle.clone() })
        });
        Ok(found)
    }

    /// Opens a table afresh from its file, without using a cached index.
    pub fn open_anew(&self, table: &TableRef) -> Result<Arc<Table>> {
        let inner = self.open_inner()?;
        let meta = table.meta();
        let expected = Expected { uid: meta.uid, size: meta.size, digest: meta.digest };
        let (file, order) = (self.file_of(table)?, table.family.order().clone());
        Table::open(table.name(), file, expected, order, inner.cache.clone(), inner.companions.clone())
    }

    /// Opens the file of a table afresh. If a writer in another process has replaced the table, its file has no name
    /// any more and is read through the open descriptor. A store that writes keeps the files of held tables, so there a
    /// missing name is damage.
    fn file_of(&self, table: &TableRef) -> Result<Arc<dyn File>> {
        let inner = self.open_inner()?;
        let name = Name::Table(table.meta().number);
        match inner.env.fs.open(&inner.path(name), Open::Read) {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && self.is_read_only() && !self.is_named(table)? =>
            {
                Ok(table.handle.table()?.file().clone())
            }
            opened => opened.during(|| format!("opening {name}")),
        }
    }

    /// Reads the whole file of a table without interpreting it. Fails with `Io` if the device cannot read it.
    pub fn read_file(&self, table: &TableRef) -> Result<()> {
        let file = self.file_of(table)?;
        let reading = || format!("reading {}", table.name());
        let (size, mut piece) = (file.data_end().during(reading)?, vec![0; PIECE_BYTES]);
        for at in (0..size).step_by(PIECE_BYTES) {
            let length = PIECE_BYTES.min(usize::try_from(size - at).unwrap_or(PIECE_BYTES));
            read_into(&*file, at, &mut piece[..length]).during(reading)?;
        }
        Ok(())
    }

    /// Returns true if the manifest names a table. A manifest written by another process may have changed since this
    /// store read it.
    fn is_named(&self, table: &TableRef) -> Result<bool> {
        let state = self.state()?;
        let family = state.families.get(&table.family.id());
        let named = family.and_then(|family| family.tables.get(&table.meta().number));
        Ok(named.is_some_and(|(_, meta)| meta.uid == table.meta().uid))
    }

    /// Opens a table from its data blocks and the manifest's metadata, whatever else of it is damaged.
    pub fn rebuild_table(&self, table: &TableRef) -> Result<Rebuilt> {
        let inner = self.open_inner()?;
        let meta = table.meta();
        let known = Known {
            uid: Some(meta.uid),
            family: table.family.id(),
            keys: Some((meta.smallest.clone(), meta.largest.clone())),
            seqnos: Some((meta.least_seqno, meta.greatest_seqno)),
            ledger: Some(meta.ledger),
            size: Some(meta.size),
        };
        let (file, order) = (self.file_of(table)?, table.family.order());
        rebuild(&table.name(), file, &known, order, inner.cache.clone(), inner.companions.clone())
    }

    /// Returns the current memtables of a family.
    pub fn memory(&self, family: &Family) -> Result<MemoryRef<'_>> {
        let inner = self.open_inner()?;
        Ok(MemoryRef { keeper: &*inner.companions, family: family.clone(), view: family.open_view()? })
    }

    /// Reads the log from its oldest live segment on, and returns the `wanted` records by family, except those whose
    /// values are removed or damaged. Fails with `Corruption` if the log is damaged.
    pub fn read_log(&self, wanted: &mut dyn FnMut(u32, &Record<'_>) -> bool) -> Result<Vec<(u32, OwnedRecord)>> {
        self.read_log_into(&mut |(), family, record| wanted(family, record)).map(|((), found)| found)
    }

    /// Reads the log like `read_log`, and also returns the state that `wanted` collected from all records. The state is
    /// reset whenever the read restarts, because a read that a writer overtook is void.
    pub fn read_log_into<S: Default>(
        &self,
        wanted: &mut dyn FnMut(&mut S, u32, &Record<'_>) -> bool,
    ) -> Result<(S, Vec<(u32, OwnedRecord)>)> {
        let inner = self.open_inner()?;
        let (env, dir) = (&inner.env, &inner.dir);
        let mut before = None;
        for _ in 0..ATTEMPTS {
            let first = self.state()?;
            let Some(log) = &first.log else { return Ok(Default::default()) };
            let marks = wal::read_marks(env, dir, log)?;
            let state = self.state()?;
            if state.log != first.log {
                continue;
            }
            let (mut noted, mut found) = (S::default(), Vec::new());
            let mut binding = Binding::default();
            let families = inner.families();
            let machine = env.fs.machine(dir).during(|| "asking for the device of the store")?;
            let mut values = LoggedValues::new(env.fs.clone(), dir, inner.companions.clone());
            let visit = &mut |frame: Replayed<'_>| -> std::result::Result<(), Stop> {
                for (at, operation) in (0..).zip(Operations::new(frame.body)?) {
                    let operation = operation?;
                    let family = families.by_id.get(&operation.family);
                    let ends = family.is_some_and(|family| family.options().key_ends_in_seqno);
                    let record = binding.record(&operation, (frame.seqno, at), ends, &*inner.companions)?;
                    if wanted(&mut noted, operation.family, &record) {
                        match values.whole(&record, operation.value) {
                            Ok(whole) => found.push((operation.family, OwnedRecord::of(&whole))),
                            // Its value was collected or is damaged; other records are unaffected.
                            Err(error) if error.is_corruption() => {}
                            Err(error) => return Err(error.into()),
                        }
                    }
                }
                Ok(())
            };
            let until = if inner.log.is_some() { Until::Own(marks) } else { Until::Theirs(Some(marks)) };
            match wal::recover_beside(env, dir, log, &facts_of(&state), machine, until, visit)? {
                Beside::Read { .. } => return Ok((noted, found)),
                Beside::Gone(end) if self.state()? == state => return (*end).map(|_| (noted, found)),
                // The marks lag behind the manifest, and no writer is about to update them.
                Beside::Moved if before.as_ref() == Some(&(marks, state.clone())) => return Err(marks_lost(log)),
                Beside::Moved | Beside::Gone(_) => before = Some((marks, state)),
            }
        }
        let busy = io::Error::new(io::ErrorKind::ResourceBusy, "it keeps changing");
        Err(Error::io("reading the log", busy))
    }

    /// Reads the manifest afresh, as an open would. Fails with `Corruption` if an open would reject it.
    pub fn check_manifest(&self) -> Result<()> {
        let inner = self.open_inner()?;
        let _no_edit_meanwhile = lock(&inner.manifest);
        let missing = || Error::structural("the store has no manifest any more");
        recover(&inner.env, &inner.dir)?.map(drop).ok_or_else(missing)
    }

    /// Returns the store's clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner().env.clock
    }

    /// Returns the environment that the store was opened with.
    pub fn env(&self) -> &Env {
        &self.inner().env
    }

    /// Returns the current state of the manifest.
    fn state(&self) -> Result<State> {
        let inner = self.open_inner()?;
        if let Some(manifest) = &*lock(&inner.manifest) {
            return Ok(manifest.state().clone());
        }
        let found = recover(&inner.env, &inner.dir)?;
        found.map(|found| found.state).ok_or_else(|| Error::structural("the store has no manifest any more"))
    }
}

/// Returns the error of a ring that lost its marks, for example because the file system was shut down under an open
/// store.
fn marks_lost(log: &wal::LogStart) -> Error {
    let damage = Damage { file: Name::Ring(log.ring).to_string(), verdict: Verdict::Missing, ..Damage::default() };
    Error::corruption(
        damage,
        "the marks of the log are older than the manifest, and nobody writes the log: its newest pages are lost",
    )
}
