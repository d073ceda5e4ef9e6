//! Flush: writes frozen memtables to one level-0 table, and the rows that their records emit to tables of other
//! families.
//!
//! Before: the memtables never change again (I03); the log is durable through the records that the table makes
//!         permanent (I15).
//! After:  tables and directory are synced before one edit names them all (I04); the ledgers of data and rows match
//!         (I11).
//! Damage: if a memtable is damaged or its ledger does not match, the flush is repeated from the log (`redo`), whose
//!         segments are not retired before.
//! Crash:  before the edit, unnamed files that the next open removes; the log still holds every record. After it, data
//!         and rows.

use std::iter::Peekable;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::background::Lane;
use super::chronicle::Due;
use super::commit::Moment;
use super::family::{Family, Generation};
use super::install::Replaced;
use super::rows::{remove_tables, take_given, write_given};
use super::{Db, Event, Families, Inner};
use crate::checksum::Uid;
use crate::compaction::output::{Given, Job, Pass, Written, write_pass};
use crate::compaction::{Pace, Rules, Splitter, Turn, UnsyncedTables};
use crate::cursor::Cursor;
use crate::env::Env;
use crate::error::{IoContext, Result};
use crate::ledger::Ledger;
use crate::memtable::Memtable;
use crate::merge::MergeCursor;
use crate::options::Compression;
use crate::planted::{self, Bug};
use crate::record::Seqno;
use crate::seam::{Companions, Deed, Emitting};
use crate::version::{Change, Edit, TableMeta};
use crate::wal::Then;

impl Db {
    /// Writes all memtables to tables and waits until they are durable.
    pub fn flush(&self) -> Result<()> {
        let (inner, _) = self.writable()?;
        inner.flush_all(|_| true)?;
        inner.halt_if_lost() // if all memtables were empty, no edit has checked the lock
    }

    /// Flushes the memtables of one family, including every commit ordered before, even if its writer has not applied
    /// it yet. Uses one seqno.
    pub fn flush_ordered(&self, family: &Family) -> Result<()> {
        let (inner, _) = self.writable()?;
        let _job = inner.job()?;
        let seqno = inner.take_seqno(family, Then::Stay, |_| {})?;
        inner.flush_frozen(&|other| other == family, seqno).map(|_| ())
    }
}

impl Inner {
    /// Returns true if a frozen memtable waits.
    pub(crate) fn flush_is_due(&self) -> bool {
        self.families().by_id.values().any(|family| !family.view().frozen.is_empty())
    }

    /// Freezes the memtables of the chosen families at one commit and flushes them.
    pub(crate) fn flush_all(&self, choose: impl Fn(&Family) -> bool) -> Result<Seqno> {
        let _job = self.job()?;
        let through = self.freeze(&choose)?;
        self.flush_frozen(&choose, through)?;
        Ok(through)
    }

    /// One step of the flush lane: flushes all frozen memtables. If none is frozen, it seals full segments, and removes
    /// obsolete files and leftovers of the open.
    pub(crate) fn flush_step(&self) -> Result<bool> {
        if self.flush_is_due() {
            let job = self.job()?;
            let flushed = self.flush_frozen(&|_| true, Seqno::MAX);
            drop(job);
            // Removing obsolete files may free the space that the flush lacks.
            if self.sweep_one() && flushed.is_err() {
                while self.sweep_one() {}
            }
            return flushed;
        }
        let sealed = self.seal_log();
        if matches!(sealed, Ok(true)) || self.sweep_one() || self.leftovers.remove_one(&*self.env.fs, &self.dir) {
            return Ok(true);
        }
        sealed
    }

    /// Flushes the memtables of the chosen families that were frozen at commits up to `through`. The caller holds
    /// `jobs_lock`. Memtables that concurrent writers freeze meanwhile are excluded; otherwise a checkpoint would hold
    /// each family as of another commit.
    ///
    /// Families with little data are flushed in groups, each with one sync of the log, the directory and the manifest.
    pub(super) fn flush_frozen(&self, choose: &dyn Fn(&Family) -> bool, through: Seqno) -> Result<bool> {
        let families: Vec<Family> = self.families().by_id.values().filter(|family| choose(family)).cloned().collect();
        let (mut any, mut failed) = (false, Ok(()));
        let mut families = families.iter().peekable();
        while families.peek().is_some() {
            let group = self.next_group(&mut families, through);
            let flushed = self.flush_group(&group);
            match flushed.or_else(|error| self.halt_if_lost().and(Err(error))) {
                Ok(()) => any |= !group.is_empty(),
                Err(error) if error.is_out_of_space() || self.check_halted().is_err() => return Err(error),
                Err(error) if self.background.is_stopping() => return Err(error),
                // A failure of one family does not keep the others from being flushed.
                Err(error) => (any, failed) = (any || group.len() > 1, failed.and(Err(error))),
            }
        }
        failed.map(|()| any)
    }

    /// Takes families until those with frozen memtables form a group: several families with a small total size, or a
    /// single one.
    fn next_group<'a>(
        &self,
        families: &mut Peekable<impl Iterator<Item = &'a Family>>,
        through: Seqno,
    ) -> Vec<Frozen<'a>> {
        let most_bytes = self.settings.memtable_bytes / GROUP_PART;
        let most = (self.open_tables.files().most() / GROUP_PART).clamp(1, MOST_OF_GROUP);
        let (mut group, mut bytes) = (Vec::new(), 0);
        while let Some(family) = families.peek()
            && group.len() < most
        {
            let frozen = Frozen::of(family, through);
            bytes += frozen.iter().map(Frozen::bytes).sum::<usize>();
            if bytes > most_bytes && !group.is_empty() {
                break;
            }
            group.extend(frozen);
            families.next();
        }
        group
    }

    /// Flushes a group. If the group fails as a whole, flushes each family separately.
    fn flush_group(&self, group: &[Frozen<'_>]) -> Result<()> {
        if let [alone] = group {
            return self.flush_family(alone);
        }
        let mut rest = group;
        while !rest.is_empty() {
            match self.flush_once(rest) {
                Ok(flushed) => rest = &rest[flushed..],
                Err(error) if self.check_halted().is_err() || self.background.is_stopping() => return Err(error),
                Err(_) => break,
            }
        }
        let mut failed = Ok(());
        for frozen in rest {
            match self.flush_family(frozen) {
                Err(error) if error.is_out_of_space() || self.check_halted().is_err() => return Err(error),
                Err(error) if self.background.is_stopping() => return Err(error),
                outcome => failed = failed.and(outcome),
            }
        }
        failed
    }

    /// Flushes these memtables of a family. If the disk is full, first retries after releasing the log's spare
    /// segments, because the log needs less space after a flush. Then retries after each removal of a trash file.
    fn flush_family(&self, frozen: &Frozen<'_>) -> Result<()> {
        let alone = std::slice::from_ref(frozen);
        let (mut outcome, mut is_first) = (self.flush_once(alone), true);
        while let Err(error) = &outcome
            && error.is_out_of_space()
            && self.check_halted().is_ok()
            && (std::mem::take(&mut is_first) && self.log_makes_room()
                || error.is_disk_full() && self.trash.make_room(&*self.env.fs, &self.dir))
        {
            outcome = self.flush_once(alone);
        }
        outcome.map(drop)
    }

    /// Flushes the first families of a group by one edit, and returns their number. This is the whole group, or the
    /// families up to the first one whose records emit rows, because the rows of the next one may depend on them.
    fn flush_once(&self, group: &[Frozen<'_>]) -> Result<usize> {
        let due = self.lines_due();
        group.iter().try_for_each(|frozen| self.finish_values(frozen.family, &frozen.generations))?;
        let moment = match planted::active(Bug::LogNotSyncedBeforeEdit) {
            false => self.sync_log()?, // I15
            true => Moment { offset: 0, seqno: 0 },
        };
        self.check_halted()?; // a halted store may pass `sync_log`, but no edit could name its tables
        let (families, next_file) = (self.families(), || self.new_file_number());
        let unsynced = UnsyncedTables::default();
        let shared = (group.len() > 1).then_some(&unsynced);
        let level0 = Level0 { unsynced: shared, ..self.level0(&families, &next_file) };
        let room = self.job_room(0, 1, group.iter().map(Frozen::records).max().unwrap_or(0));
        let mut written = Vec::new();
        let tables = self.write_group(&level0, group, moment, &mut written).and_then(|()| {
            if let (Some(due), Some(first)) = (&due, written.first_mut()) {
                first.flushed.receive_lines(&level0, due)?;
            }
            unsynced.sync()
        });
        tables.inspect_err(|_| written.iter().for_each(|part| part.flushed.remove(&level0, part.of.family)))?;
        self.sync_dir_before_edit()?;
        self.install_group(&written, due.as_ref(), moment)?;
        drop(room);
        let memtables = written.iter().flat_map(|part| &part.of.generations).map(|generation| &generation.memtable);
        self.memory.let_go(memtables);
        self.revise_memory();
        self.note_stall();
        for WrittenFamily { of, flushed, .. } in &written {
            let (table, bytes) = (flushed.written.tables.first().map(|meta| meta.number), flushed.bytes());
            self.counters.flushed(bytes);
            self.note(Event::Flushed { family: of.family.name().to_owned(), table, bytes });
        }
        self.background.kick(Lane::Compact);
        Ok(written.len())
    }

    /// Writes the tables of a group up to the first family that emits rows; leaves them unsynced if the group has
    /// several families.
    fn write_group<'a, 'f>(
        &self,
        level0: &Level0<'_>,
        group: &'a [Frozen<'f>],
        moment: Moment,
        written: &mut Vec<WrittenFamily<'a, 'f>>,
    ) -> Result<()> {
        for of in group {
            let (started, memtables) = (self.now_nanos(), of.memtables());
            let flushed = match write_level0(level0, of.family, &memtables) {
                Err(error) if error.is_corruption() && !planted::active(Bug::FlushNotRedone) => {
                    self.flush_from_log(level0, of.family, &memtables, (of.through, moment), error)?
                }
                outcome => outcome?,
            };
            let is_last = !flushed.emitted.is_empty();
            written.push(WrittenFamily { of, flushed, started });
            if is_last {
                break;
            }
        }
        Ok(())
    }

    /// Names the tables of a group in one edit, and makes them visible.
    fn install_group(&self, written: &[WrittenFamily<'_, '_>], due: Option<&Due>, moment: Moment) -> Result<()> {
        let (mut edit, mut parts, mut later) = (Edit::default(), Vec::new(), Vec::new());
        for WrittenFamily { of, flushed, started } in written {
            self.counters.built(&flushed.written);
            let mut own: Vec<Replaced<'_>> = flushed.parts(of.family).collect();
            own[0].flushed = Some(of.through);
            if planted::active(Bug::EmittedRowsInOtherEdit) {
                later.extend(own.split_off(1));
            }
            edit.changes.extend(own.iter().flat_map(Replaced::changes));
            let through = if planted::active(Bug::FlushedSeqnoTooHigh) { self.visible() } else { of.through };
            edit.changes.push(Change::Flushed { family: of.family.id(), seqno: through });
            let first = of.first_offset().unwrap_or(moment.offset).min(moment.offset);
            self.tell(&mut edit, Deed::Flushed, &own, Some((first, moment.offset)), *started);
            parts.append(&mut own);
        }
        if let Some(due) = due {
            self.take_lines_out(&mut edit, due)?;
        }
        let flushed: Vec<_> = written.iter().map(|part| (part.of.family, part.of.through)).collect();
        let said = self.log_changes(&mut edit, moment, &flushed);
        self.install(edit, parts)?;
        if !later.is_empty() {
            self.install(Edit::from(later.iter().flat_map(Replaced::changes).collect::<Vec<_>>()), later)?;
        }
        self.end_log_edit(said);
        Ok(())
    }

    /// Removes event log entries from the manifest in the edit that names their rows.
    fn take_lines_out(&self, edit: &mut Edit, due: &Due) -> Result<()> {
        let gone = Change::LinesTakenOut { through: due.through };
        if planted::active(Bug::LinesGoneBeforeRows) {
            return self.install(Edit::from(vec![gone]), None);
        }
        edit.changes.push(gone);
        Ok(())
    }

    /// Returns the parameters of a flush of this store.
    pub(super) fn level0<'a>(&'a self, families: &'a Families, next_file: &'a (dyn Fn() -> u64 + Sync)) -> Level0<'a> {
        Level0 {
            env: &self.env,
            dir: &self.dir,
            store: self.store,
            companions: &self.companions,
            families,
            next_file,
            cancelled: &self.background.stopping,
            snapshots: self.snapshots.boundaries(),
            pace: Some(&self.pace),
            unsynced: None,
        }
    }

    pub(super) fn sync_dir_before_edit(&self) -> Result<()> {
        if planted::active(Bug::EditBeforeDirectorySync) {
            return Ok(());
        }
        self.sync_names()
    }

    /// Syncs the store's directory. After a failure the durability of every unsynced name is unknown, including files
    /// of other jobs whose own sync may then report success. Therefore the store halts (I09).
    pub(super) fn sync_names(&self) -> Result<()> {
        let synced = self.env.fs.sync_dir(&self.dir).during(|| "syncing the store's directory");
        synced.map_err(|error| self.halt(error))
    }
}

/// The parameters of a flush; also used by recovery, before the store exists.
pub(super) struct Level0<'a> {
    pub(super) env: &'a Env,
    pub(super) dir: &'a Path,
    pub(super) store: Option<Uid>,
    pub(super) companions: &'a Arc<dyn Companions>,
    /// The families that may receive rows.
    pub(super) families: &'a Families,
    pub(super) next_file: &'a (dyn Fn() -> u64 + Sync),
    pub(super) cancelled: &'a AtomicBool,
    pub(super) snapshots: Vec<Seqno>,
    /// Limits the write rate.
    pub(super) pace: Option<&'a Pace>,
    /// Collects unsynced tables; `None` syncs each table when it is finished.
    pub(super) unsynced: Option<&'a UnsyncedTables>,
}

/// Maximum number of families flushed by one edit.
const MOST_OF_GROUP: usize = 128;

/// A group may take this fraction (1/4) of a memtable's budget, and of the open-file bound.
const GROUP_PART: usize = 4;

/// Frozen memtables of a family that are flushed together.
struct Frozen<'f> {
    family: &'f Family,
    /// Newest first.
    generations: Vec<Arc<Generation>>,
    /// The last commit whose records they may hold.
    through: Seqno,
}

impl<'f> Frozen<'f> {
    /// Returns the memtables of a family that were frozen at commits up to `limit`; `None` if the family has none.
    fn of(family: &'f Family, limit: Seqno) -> Option<Frozen<'f>> {
        let view = family.view();
        let newer = view.frozen.iter().take_while(|generation| generation.through() > limit).count();
        let generations = view.frozen[newer..].to_vec();
        let through = generations.iter().map(|generation| generation.through()).max()?;
        Some(Frozen { family, generations, through })
    }

    fn memtables(&self) -> Vec<Arc<Memtable>> {
        self.generations.iter().map(|generation| generation.memtable.clone()).collect()
    }

    fn bytes(&self) -> usize {
        self.generations.iter().map(|generation| generation.memtable.bytes()).sum()
    }

    fn records(&self) -> u64 {
        self.generations.iter().map(|generation| generation.memtable.ledger().count()).sum()
    }

    fn first_offset(&self) -> Option<u64> {
        self.generations.iter().map(|generation| generation.first_offset()).min()
    }
}

/// The output of flushing one family of a group.
struct WrittenFamily<'a, 'f> {
    of: &'a Frozen<'f>,
    flushed: Flushed,
    started: u64,
}

/// The output of a flush, not yet named by an edit.
pub(super) struct Flushed {
    /// Tables of the family, and the counts of the pass.
    pub(super) written: Written,
    /// Tables of other families, with the rows that the flush emitted.
    pub(super) emitted: Vec<(Family, Vec<TableMeta>)>,
}

impl Flushed {
    /// Returns the view changes of each family, the flushed one first.
    pub(super) fn parts<'a>(&'a self, family: &'a Family) -> impl Iterator<Item = Replaced<'a>> {
        let own = (family, &self.written.tables);
        let emitted = self.emitted.iter().map(|(family, tables)| (family, tables));
        [own].into_iter().chain(emitted).map(|(family, tables)| Replaced::level0(family, tables))
    }

    /// Adds the rows of event log entries to those that the flush emitted.
    fn receive_lines(&mut self, level0: &Level0<'_>, due: &Due) -> Result<()> {
        let mut given = Given::default();
        take_given(&**level0.companions, &mut given, due.rows.clone())?;
        self.emitted.extend(write_given(level0, given)?);
        Ok(())
    }

    /// Removes the output's files, which no edit names.
    fn remove(&self, level0: &Level0<'_>, family: &Family) {
        let emitted = self.emitted.iter().map(|(family, tables)| (family, tables));
        emitted.chain([(family, &self.written.tables)]).for_each(|(of, tables)| remove_tables(level0, of, tables));
    }

    fn bytes(&self) -> u64 {
        let emitted = self.emitted.iter().flat_map(|(_, tables)| tables);
        self.written.tables.iter().chain(emitted).map(|meta| meta.bytes_with_values()).sum()
    }
}

impl Level0<'_> {
    /// Returns the context that the record protector gets for a flushed family.
    pub(super) fn emitting<'a>(&'a self, family: &'a Family) -> Emitting<'a> {
        Emitting { id: family.id(), name: family.name(), lookup: self }
    }

    pub(super) fn job<'a>(&'a self, family: &'a Family, base_seqno: Seqno, expected: Ledger) -> Job<'a> {
        Job {
            env: self.env,
            dir: self.dir,
            store: self.store,
            companions: self.companions,
            family: family.id(),
            options: family.options(),
            compression: Compression::None,
            filter_bits: family.options().filter_bits_above(family.view().levels.filled().count()),
            dictionary: None,
            base_seqno,
            next_file: self.next_file,
            cancelled: self.cancelled,
            expected,
            summed: true,
            values: family.shelf().values(),
            pace: self.pace.map(|pace| (pace, Turn::Flush)),
            unsynced: self.unsynced,
        }
    }
}

/// Writes the records of frozen memtables to a level-0 table, and the emitted rows to tables of their families: synced
/// but not yet named by an edit.
pub(super) fn write_level0(level0: &Level0<'_>, family: &Family, memtables: &[Arc<Memtable>]) -> Result<Flushed> {
    let mut expected = Ledger::default();
    let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
    for memtable in memtables {
        expected.merge(&memtable.ledger());
        sources.push(Box::new(memtable.cursor()));
    }
    let base_seqno = memtables.iter().filter_map(|memtable| memtable.least_seqno()).min().unwrap_or(0);
    let mut cursor = MergeCursor::new(family.order().clone(), sources);
    let job = level0.job(family, base_seqno, expected);
    let rules = Rules::new(family.order().clone(), level0.snapshots.clone(), |_: &[u8]| false);
    let splitter = Splitter::new(family.order().clone(), u64::MAX, Vec::new());
    let pass = Pass { emits: Some(level0.emitting(family)), ..Pass::default() };
    let mut written = write_pass(&job, &pass, &mut cursor, rules, splitter)?;
    let given = std::mem::take(&mut written.rows);
    match write_given(level0, given) {
        Ok(emitted) => Ok(Flushed { written, emitted }),
        Err(error) => {
            remove_tables(level0, family, &written.tables);
            Err(error)
        }
    }
}
