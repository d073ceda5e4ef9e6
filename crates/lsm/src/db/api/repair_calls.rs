//! The calls of a store that inspect, repair, copy and fill it. They check arguments and call the module of their
//! topic.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Db;
use crate::batch::{BatchOperations, Binding};
use crate::cursor::Cursor;
use crate::db::catalog::event_log::table_fact;
use crate::db::jobs::compact_chosen::may_have_item;
use crate::db::maintenance::bulk_load::{self, BulkLoad};
use crate::db::maintenance::checkpoint;
use crate::db::maintenance::examine::{MemoryRef, TableRef, marks_lost};
use crate::db::maintenance::ingest::{self, Ingested, Raw, meets};
use crate::db::maintenance::ingest_tables::{self, IngestMode, IngestedTables};
use crate::db::maintenance::pinned_files::PinnedFiles;
use crate::db::maintenance::replace::{HeldTables, change_lost_ranges};
use crate::db::maintenance::table_file::TableFileWriter;
use crate::db::reads::cursor::raw_cursor;
use crate::db::state::family::{Family, TableHandle};
use crate::db::state::snapshot::At;
use crate::db::state::store_log::facts_of;
use crate::env::work::lock;
use crate::env::{Clock, Env, File, Open, read_into};
use crate::error::{Error, IoContext, Result};
use crate::lost_range::LostRange;
use crate::names::StoreFileName;
use crate::options::{KIB, MIB};
use crate::range_delete::RangeDelete;
use crate::read::CursorBounds;
use crate::record::{OwnedRecord, Record};
use crate::seam::{Companions, EngineEvent, Quarantine, Withheld};
use crate::sst::{KnownTable, Rebuilt, Table, rebuild};
use crate::values::{BlobBuffer, LoggedValues};
use crate::version::{EditChange, ManifestState, recover};
use crate::wal::{self, LiveRead, ReadUntil, Replayed, Stop};

/// How often the log is reread when a writer changes it during the read.
const ATTEMPTS: usize = 16;

/// Size of the pieces in which a file is read.
const PIECE_BYTES: usize = 256 * KIB;

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

    /// Returns the tables of a family that may have this item of a property (`CfOptions::table_properties`), upper levels
    /// first. A table that points into a blob file may have the items of all the file's values, deleted ones included.
    /// A file that was written without the property may have any item, and so may a table whose properties are damaged.
    /// Records in memtables are in no table. Opens the tables that are not open.
    pub fn files_with(&self, family: &Family, property: &str, item: &[u8]) -> Result<Vec<TableRef>> {
        let mut found = Vec::new();
        for table in self.tables(family)? {
            if may_have_item(&table.handle, property, item)? {
                found.push(table);
            }
        }
        Ok(found)
    }

    /// Returns the range deletes that tables of a family may still need, in ascending order of their seqnos. Those in
    /// memtables are not among them.
    pub fn range_deletes(&self, family: &Family) -> Result<Vec<Arc<RangeDelete>>> {
        self.open_inner()?;
        Ok(family.open_view()?.range_deletes.to_vec())
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
        let (file, order) = (self.file_of(table)?, table.family.order().clone());
        Table::open(
            table.name(),
            file,
            meta.expected(),
            order,
            inner.context().cache.clone(),
            inner.context().companions.clone(),
        )
    }

    /// Opens the file of a table afresh. If a writer in another process has replaced the table, its file has no name
    /// any more and is read through the open descriptor. A store that writes keeps the files of held tables, so there a
    /// missing name is damage.
    fn file_of(&self, table: &TableRef) -> Result<Arc<dyn File>> {
        let inner = self.open_inner()?;
        let name = StoreFileName::Table(table.meta().number);
        match inner.context().env.fs.open(&inner.context().path(name), Open::Read) {
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
        let known = KnownTable {
            uid: Some(meta.uid),
            family: table.family.id(),
            keys: Some((meta.smallest.clone(), meta.largest.clone())),
            seqnos: Some((meta.least_seqno, meta.greatest_seqno)),
            ledger: Some(meta.ledger),
            ingest_seqno: meta.ingest_seqno,
            size: Some(meta.size),
        };
        let (file, order) = (self.file_of(table)?, table.family.order());
        rebuild(&table.name(), file, &known, order, inner.context().cache.clone(), inner.context().companions.clone())
    }

    /// Returns the current memtables of a family.
    pub fn memory(&self, family: &Family) -> Result<MemoryRef<'_>> {
        let inner = self.open_inner()?;
        Ok(MemoryRef { protector: &*inner.context().companions, family: family.clone(), view: family.open_view()? })
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
        let (env, dir) = (&inner.context().env, &inner.context().dir);
        let mut before = None;
        for _ in 0..ATTEMPTS {
            let first = self.state()?;
            let Some(log) = &first.log else { return Ok(Default::default()) };
            let marks = wal::read_marks(env, dir, log)?;
            let state = self.state()?;
            if state.log != first.log {
                continue;
            }
            let (mut scan_state, mut found) = (S::default(), Vec::new());
            let mut binding = Binding::default();
            let families = inner.catalog().families();
            let machine = env.fs.machine(dir).during(|| "asking for the device of the store")?;
            let mut values = LoggedValues::new(env.fs.clone(), dir, inner.context().companions.clone());
            let visit = &mut |frame: Replayed<'_>| -> std::result::Result<(), Stop> {
                for (at, operation) in (0..).zip(BatchOperations::new(frame.body)?) {
                    let operation = operation?;
                    let family = families.by_id.get(&operation.family);
                    let ends = family.is_some_and(|family| family.key_ends_in_seqno());
                    let record = binding.record(&operation, (frame.seqno, at), ends, &*inner.context().companions)?;
                    if wanted(&mut scan_state, operation.family, &record) {
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
            let until =
                if inner.store_log().log().is_some() { ReadUntil::Own(marks) } else { ReadUntil::Theirs(Some(marks)) };
            match wal::recover_live(env, dir, log, &facts_of(&state), machine, until, visit)? {
                LiveRead::Read { .. } => return Ok((scan_state, found)),
                LiveRead::Gone(end) if self.state()? == state => return (*end).map(|_| (scan_state, found)),
                // The marks lag behind the manifest, and no writer is about to update them.
                LiveRead::Moved if before.as_ref() == Some(&(marks, state.clone())) => return Err(marks_lost(log)),
                LiveRead::Moved | LiveRead::Gone(_) => before = Some((marks, state)),
            }
        }
        let busy = io::Error::new(io::ErrorKind::ResourceBusy, "it keeps changing");
        Err(Error::io("reading the log", busy))
    }

    /// Reads the manifest afresh, as an open would. Fails with `Corruption` if an open would reject it.
    pub fn check_manifest(&self) -> Result<()> {
        let inner = self.open_inner()?;
        let _no_edit_meanwhile = lock(&inner.catalog().manifest);
        let missing = || Error::structural("the store has no manifest any more");
        recover(&inner.context().env, &inner.context().dir)?.map(drop).ok_or_else(missing)
    }

    /// Returns the store's clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner().context().env.clock
    }

    /// Returns the environment that the store was opened with.
    pub fn env(&self) -> &Env {
        &self.inner().context().env
    }

    /// Returns the current state of the manifest.
    fn state(&self) -> Result<ManifestState> {
        let inner = self.open_inner()?;
        if let Some(manifest) = &*lock(&inner.catalog().manifest) {
            return Ok(manifest.state().clone());
        }
        let found = recover(&inner.context().env, &inner.context().dir)?;
        found.map(|found| found.state).ok_or_else(|| Error::structural("the store has no manifest any more"))
    }

    /// Keeps the file of a table under another name (`000012.damaged`), which only `destroy` removes; returns the name.
    pub fn keep_damaged(&self, table: &TableRef) -> Result<String> {
        let (inner, _) = self.writable()?;
        let fs = &inner.context().env.fs;
        let (from, kept) = (StoreFileName::Table(table.meta().number), StoreFileName::Damaged(table.meta().number));
        let (source, copy) = (inner.context().path(from), inner.context().path(kept));
        if !fs.exists(&copy).during(|| format!("looking for {kept}"))? && fs.link(&source, &copy).is_err() {
            let source = fs.open(&source, Open::Read).during(|| format!("opening {from}"))?;
            let length = source.len().during(|| format!("asking for the length of {from}"))?;
            let target = fs.open(&copy, Open::Create).during(|| format!("creating {kept}"))?;
            let mut buffer = vec![0; MIB];
            let mut at = 0;
            while at < length {
                let part = (length - at).min(MIB as u64) as usize;
                if read_into(&*source, at, &mut buffer[..part]).is_err() {
                    buffer[..part].fill(0); // an unreadable page
                }
                target.write_at(&buffer[..part], at).during(|| format!("writing {kept}"))?;
                at += part as u64;
            }
            target.sync_data().during(|| format!("syncing {kept}"))?;
        }
        inner.store_log().sync_dir_before_edit()?;
        Ok(kept.to_string())
    }

    /// Passes all current quarantined tables and lost ranges of all families to `see`, each as beginning with the cause
    /// `found`.
    pub fn quarantines(&self, see: &mut dyn FnMut(&Quarantine<'_>)) {
        let inner = self.inner();
        for family in inner.catalog().families().by_id.values() {
            let (view, seqno) = (family.pinned_view(), inner.store_log().visible());
            let mut show = |what| see(&Quarantine { family: family.name(), what, begins: true, how: "found", seqno });
            for (level, number) in inner.catalog().quarantined(&family.table_numbers()) {
                if let Some(table) = view.levels.get(*level, *number) {
                    show(Withheld::Table(table_fact(*level, table.meta())));
                }
            }
            view.lost_range_ids
                .iter()
                .zip(&*view.lost_ranges)
                .for_each(|(number, lost_range)| show(Withheld::Span(*number, lost_range)));
        }
    }

    /// Keeps tables of a family, quarantined ones included, out of every compaction until the returned value is
    /// dropped. Waits for running compactions of these tables. Returns `None` if a table is missing.
    pub fn hold_tables(&self, family: &Family, tables: &[u64]) -> Result<Option<HeldTables<'_>>> {
        loop {
            let (inner, _) = self.writable()?; // each time: a closing store holds no more tables
            let (mut held, seen) = (None, inner.catalog().claims.finished()); // first: a later release is a change
            let free = inner.catalog().claims.hold(tables, || {
                held = Some(HeldTables::find(inner.compactor(), family, tables));
                let span = held.as_ref().and_then(|held| held.as_ref()).and_then(|held| held.span.clone());
                span.map(|span| (family.id(), span))
            });
            match (free, held) {
                (true, Some(found)) => return Ok(found),
                _ => inner.store_log().wait_for_compactions(&|| inner.step_any(), || {
                    inner.catalog().claims.finished() != seen || !inner.catalog().claims.is_running()
                })?,
            }
        }
    }

    /// Returns the lost ranges of a family, each with its number.
    pub fn lost_ranges(&self, family: &Family) -> Vec<(u64, LostRange)> {
        let view = family.view();
        view.lost_range_ids.iter().copied().zip(view.lost_ranges.iter().cloned()).collect()
    }

    /// Removes lost ranges: reads of these keys return the remaining records again. Fails with `Invalid` if a number
    /// does not exist.
    pub fn lift_lost_ranges(&self, family: &Family, lost_ranges: &[u64]) -> Result<()> {
        let (inner, _) = self.writable()?;
        change_lost_ranges(inner.write_path(), family, lost_ranges.to_vec(), Vec::new())
    }

    /// Adds lost ranges: from now on reads of these keys fail with `Corruption`, also after reopens and compactions.
    pub fn add_lost_ranges(&self, family: &Family, lost_ranges: Vec<LostRange>) -> Result<()> {
        let (inner, _) = self.writable()?;
        change_lost_ranges(inner.write_path(), family, Vec::new(), lost_ranges)
    }

    /// Removes lost ranges and adds others, in one edit.
    pub fn replace_lost_ranges(&self, family: &Family, lifted: &[u64], fenced: Vec<LostRange>) -> Result<()> {
        let (inner, _) = self.writable()?;
        change_lost_ranges(inner.write_path(), family, lifted.to_vec(), fenced)
    }

    /// Returns the numbers of the family's quarantined tables, which compactions skip.
    pub fn quarantined_tables(&self, family: &Family) -> Vec<u64> {
        let view = family.pinned_view();
        let numbers = view.levels.iter().flat_map(|level| level.tables()).map(|table| table.meta().number);
        numbers.filter(|number| self.inner().catalog().claims.bars_any([*number].into_iter())).collect()
    }

    /// Quarantines tables: compactions skip them until they are replaced or freed, also after a reopen. Waits for
    /// running compactions of these tables. A caller that holds the tables itself uses `HeldTables::bar`.
    pub fn quarantine_tables(&self, family: &Family, tables: &[u64]) -> Result<()> {
        match self.hold_tables(family, tables)? {
            Some(held) => held.bar(), // held: a concurrent move would lift the quarantine
            None => Err(Error::invalid("a table that is to be barred is not there")),
        }
    }

    /// Ends the quarantine of tables, so that compactions can pick them again.
    pub fn free_tables(&self, family: &Family, tables: &[u64]) -> Result<()> {
        let held = self.hold_tables(family, tables)?;
        let held = held.ok_or_else(|| Error::invalid("a table that is to be freed is not there"))?;
        held.free()
    }

    /// Returns the record protector, for sharing.
    pub fn protector(&self) -> &Arc<dyn Companions> {
        &self.inner().context().companions
    }

    /// Returns every version within bounds at or below the seqno of `at` that no range delete hides, with its companions
    /// and its location. Its reads do not populate the block cache. Fails with `Corruption` if records were lost within
    /// the bounds; unreadable records are errors of the iteration.
    pub fn raw(&self, family: &Family, at: At<'_>, bounds: CursorBounds) -> Result<Raw> {
        let inner = self.open_inner()?;
        let snapshot = match at {
            At::Snapshot(snapshot) => snapshot.clone(),
            At::Latest => self.snapshot()?,
        };
        let seqno = inner.catalog().seqno(At::Snapshot(&snapshot))?;
        let view = snapshot.view_of(family)?;
        if let Some(lost_range) = view.lost_ranges.iter().find(|lost_range| meets(family.order(), lost_range, &bounds))
        {
            return Err(lost_range.error());
        }
        let cursor = raw_cursor(family, &view)?;
        let (order, room, ranges) = (family.order().clone(), BlobBuffer::default(), view.active.range_index());
        Ok(Raw { cursor, order, seqno, bounds, started: false, ranges, room, view, _snapshot: snapshot })
    }

    /// Ingests the newest record of each key that `open` supplies, tombstones included, in one commit that is durable
    /// when the call returns. `open` is called twice and must supply the same records both times. Reads continue
    /// meanwhile, and writes continue while memtables have space. No flush runs during the second pass, so the source
    /// must not wait for a write to this store.
    ///
    /// Errors: `Corruption` with file and offset for a record that does not match its companion, that lacks the
    /// companion which its file promises, or that is out of order. Then nothing was changed. `Invalid` for record kinds
    /// that this version does not write. Companions of an unknown algorithm are dropped, and so are all companions on a
    /// node without a record protector.
    pub fn ingest(&self, family: &Family, open: &mut dyn FnMut() -> Result<Box<dyn Cursor>>) -> Result<Ingested> {
        let (inner, _) = self.writable()?;
        ingest::ingest(inner.compactor(), family, open)
    }

    /// Creates a table file outside of the store, for records that `ingest_tables` adds to a family later. The file must
    /// not exist. Errors: `Invalid` for a system family or an existing file, `Io`.
    pub fn table_writer(&self, family: &Family, path: &Path) -> Result<TableFileWriter> {
        let inner = self.open_inner()?;
        TableFileWriter::create(inner.context(), family, path)
    }

    /// Adds table files to families, in one commit that is durable when the call returns. Their records are newer than
    /// every commit before it, range deletes included, and older than every commit after it. Reads and writes continue
    /// meanwhile. Costs a read of each file, a copy of it unless it is moved, a flush of the families' memtables and
    /// some syncs.
    ///
    /// Errors: `Invalid` for a file that `table_writer` did not write, that was written for another order of keys or
    /// another family of this store, or that shares keys with another file for its family; `Corruption` with file and
    /// offset for a damaged file; `Io`. After an error the store is unchanged, and the files are where they were.
    pub fn ingest_tables(&self, files: &[(&Family, &[PathBuf])], mode: IngestMode) -> Result<IngestedTables> {
        let (inner, _) = self.writable()?;
        ingest_tables::ingest_tables(inner.compactor(), files, mode)
    }

    /// Loads rows in any order, which `fill` adds, in one commit that is durable when the call returns: as if it had
    /// written one table file and ingested it. A later row replaces an earlier one of the same key. Nothing is visible
    /// before; an error of `fill` ends the load without a change. Memory: as much as two memtables, or a quarter
    /// of `memory_bytes` if that is less. Sorted rows are written once, others twice if they do not fit into that memory.
    pub fn bulk_load(
        &self,
        family: &Family,
        fill: &mut dyn FnMut(&mut BulkLoad<'_>) -> Result<()>,
    ) -> Result<IngestedTables> {
        let (inner, _) = self.writable()?;
        bulk_load::bulk_load(inner, family, fill)
    }

    /// Writes a checkpoint into `dir`, which must not exist or must be empty. The checkpoint is durable when the call
    /// returns. Writers continue meanwhile; flushes wait. Costs a flush, a link per table (a copy where links are
    /// unsupported) and about ten fsyncs. After an error the created files are removed. Errors: `Invalid` if `dir` is
    /// not empty, `Locked` while another checkpoint is written there, `Io`.
    pub fn checkpoint(&self, dir: &Path) -> Result<()> {
        let (inner, _) = self.writable()?;
        checkpoint::checkpoint(inner.flusher(), dir)
    }

    /// Flushes all memtables, and keeps the tables and blob files of the resulting state from deletion until each is
    /// dropped. Writers continue meanwhile.
    pub fn pin_files(&self) -> Result<PinnedFiles> {
        PinnedFiles::pin(self.writable()?.0.flusher())
    }

    /// Adds the event log entries of a backup to the state that it holds. `log_backup` adds them to the store.
    pub(crate) fn lines_of_backup(
        &self,
        state: &mut ManifestState,
        dir: &Path,
        started: u64,
    ) -> Result<Vec<EditChange>> {
        let event = EngineEvent::BackedUp { dir: &dir.to_string_lossy() };
        checkpoint::lines_of_copy(self.writable()?.0.flusher(), state, event, started)
    }

    /// Logs a backup in the store.
    pub(crate) fn log_backup(&self, lines: Vec<EditChange>) -> Result<()> {
        checkpoint::log_copy(self.writable()?.0.flusher(), lines)
    }
}
