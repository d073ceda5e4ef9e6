//! The event log: each job adds an entry to the edit that makes its change durable.
//!
//! In:    the facts of a job, from which the `Chronicle` implementation makes an entry, or none.
//! Out:   the entries that the manifest still holds, readable without its lock. If there are more than
//!        `chronicle_lines` of them, or more than 2 MiB, a flush that runs anyway converts the oldest to rows of a
//!        family. The rows become visible before their entries are removed. The implementation may release entries
//!        earlier, discard entries outside its retention, and add tombstones for expired rows.
//! Crash: an entry exists if and only if its change is durable.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::install::Replaced;
use super::standing::Standing;
use super::{Db, Inner};
use crate::error::{Error, Result};
use crate::options::MIB;
use crate::seam::{Chronicle, Deed, Emitted, MAX_LINE_BYTES, TableFact, Touched, Work};
use crate::version::{self, Change, Edit, Lines, State, TableMeta};

/// The event log implementation, and the entries as readers see them.
pub(crate) struct Book {
    keeper: Option<Arc<dyn Chronicle>>,
    lines: ArcSwap<Lines>,
}

/// Maximum bytes of entries in the manifest before the oldest become rows. The manifest is rewritten now and then, and
/// an entry may name thousands of files.
const MOST_BYTES: usize = 2 * MIB;

impl Book {
    pub(super) fn new(keeper: Option<Arc<dyn Chronicle>>, lines: Lines) -> Book {
        Book { keeper, lines: ArcSwap::from_pointee(lines) }
    }

    pub(super) fn keeper(&self) -> Option<&Arc<dyn Chronicle>> {
        self.keeper.as_ref()
    }

    /// Makes the entries of a state visible to readers.
    pub(super) fn show(&self, lines: &Lines) {
        let shown = self.lines.load();
        if (shown.last(), shown.taken_out()) != (lines.last(), lines.taken_out()) {
            self.lines.store(Arc::new(lines.clone()));
        }
    }
}

impl Db {
    /// Returns the event log entries that are not rows yet, each with its number, oldest first. An entry may appear
    /// both here and in rows read afterwards, but it is never missing from both.
    pub fn chronicle(&self) -> Vec<(u64, Arc<[u8]>)> {
        self.inner().book.lines.load().iter().cloned().collect()
    }

    /// Adds an entry to the event log, in an edit of its own. Costs an fsync.
    pub fn note(&self, line: Vec<u8>) -> Result<()> {
        let (inner, _) = self.writable()?;
        if line.len() > MAX_LINE_BYTES {
            return Err(Error::invalid(format!("a line of {} bytes", line.len())));
        }
        let changes = vec![Change::Line { number: 0, bytes: line.into() }];
        inner.install(Edit { changes }, None)
    }
}

impl Inner {
    /// Adds the entry of a job to its edit. `parts`: the tables that are removed and added; read before the change.
    /// `log`: the log range of the records. `started`: when the job began.
    pub(super) fn tell(
        &self,
        edit: &mut Edit,
        deed: Deed<'_>,
        parts: &[Replaced<'_>],
        log: Option<(u64, u64)>,
        started: u64,
    ) {
        let Some(keeper) = &self.book.keeper else { return };
        let touched = parts.iter().map(touched).collect();
        let nanos = self.now_nanos().saturating_sub(started);
        tell(&**keeper, edit, &Work { deed, touched, log, seqno: self.visible(), nanos });
    }

    /// Returns the current time for measuring jobs.
    pub(super) fn now_nanos(&self) -> u64 {
        self.env.clock.monotonic_nanos()
    }

    /// Returns the entries that leave the manifest now, as rows, because they exceed its limits or the implementation
    /// has released them; also tombstones for rows outside the retention.
    pub(super) fn lines_due(&self) -> Option<Due> {
        let keeper = self.book.keeper.as_ref()?;
        let lines = self.book.lines.load();
        let (retention, now) = (self.settings.event_retention(), self.env.clock.wall_micros());
        let lengths: Vec<usize> = lines.iter().map(|(_, line)| line.len()).collect();
        let outdated = keeper.outdated(&mut lines.iter().map(|(number, line)| (*number, &**line)), &retention, now);
        let most = surplus(&lengths, self.settings.chronicle_lines).max(outdated);
        let oldest: Vec<_> = lines.iter().take(most).cloned().collect();
        let through = oldest.last()?.0;
        // Taken after the entries: a table that they report as written is live, or was replaced since.
        let standing = Standing::new(self, retention, now);
        let (mut rows, visible) = (keeper.rows(&oldest, &standing), standing.seqno);
        rows.iter_mut().for_each(|row| row.seqno = row.seqno.min(visible)); // reads see no row above it
        // If a row's family does not exist, the entries stay.
        let families = self.families();
        let is_received = |row: &Emitted| families.by_id.get(&row.family).is_some_and(|family| !family.is_dropped());
        rows.iter().all(is_received).then_some(Due { through, rows })
    }
}

/// Returns how many of the oldest entries become rows: 0 within `limit` entries and the byte limit, otherwise as many
/// as leave at most half of each limit.
fn surplus(lengths: &[usize], limit: usize) -> usize {
    if lengths.len() <= limit && lengths.iter().sum::<usize>() <= MOST_BYTES {
        return 0;
    }
    let (mut left, mut bytes) = (0, 0);
    for length in lengths.iter().rev() {
        bytes += length;
        if left == limit - limit / 2 || bytes > MOST_BYTES / 2 {
            break;
        }
        left += 1;
    }
    lengths.len() - left
}

/// Entries to convert to rows.
pub(super) struct Due {
    /// The last entry's number.
    pub(super) through: u64,
    /// The rows made from the entries.
    pub(super) rows: Vec<Emitted>,
}

/// Adds the entry of a job, if the implementation makes one, to the job's edit; its number is assigned later.
pub(super) fn tell(keeper: &dyn Chronicle, edit: &mut Edit, work: &Work<'_>) {
    let line = keeper.line(work);
    debug_assert!(line.as_ref().is_none_or(|line| line.len() <= MAX_LINE_BYTES));
    if let Some(line) = line.filter(|line| line.len() <= MAX_LINE_BYTES) {
        edit.changes.push(Change::Line { number: 0, bytes: line.into() });
    }
}

/// Assigns the next numbers to the entries of an edit.
pub(super) fn number(edit: &mut Edit, state: &State) {
    let mut last = state.lines.last();
    for change in &mut edit.changes {
        if let Change::Line { number, .. } = change {
            last += 1;
            *number = last;
        }
    }
}

/// Moves the entries of an edit to an edit of their own.
pub(super) fn set_apart(edit: &mut Edit) -> Edit {
    let is_line = |change: &Change| matches!(change, Change::Line { .. });
    let (lines, rest) = std::mem::take(&mut edit.changes).into_iter().partition(is_line);
    edit.changes = rest;
    Edit { changes: lines }
}

/// Returns the facts about a table in a level.
pub(super) fn fact(level: usize, meta: &TableMeta) -> TableFact {
    let TableMeta { number, uid, digest, .. } = *meta;
    TableFact { number, uid, digest, level: level as u8, records: meta.ledger.count(), bytes: meta.size }
}

/// Returns the tables that an edit changes in a family; called before the change.
fn touched<'a>(part: &Replaced<'a>) -> Touched<'a> {
    let (family, levels) = (part.family, &part.family.view().levels);
    let gone = |(level, number): &(usize, u64)| Some(fact(*level, levels.get(*level, *number)?.meta()));
    let read = part.removes.iter().filter_map(gone).collect();
    let written = part.adds.iter().map(|(level, meta)| fact(*level, meta)).collect();
    Touched { family: family.id(), name: family.name(), read, written }
}

/// Returns the tables of a whole state, or for each family the tables that `changes` add.
pub(super) fn touched_in<'a>(state: &'a State, changes: &[Change], all: bool) -> Vec<Touched<'a>> {
    let of = |family: &'a version::Family| {
        let added = changes.iter().filter_map(|change| match change {
            Change::TableAdded { family: id, level, table } if *id == family.id => Some(fact(*level as usize, table)),
            _ => None,
        });
        let stay = family.tables.values().filter(|_| all).map(|(level, meta)| fact(*level as usize, meta));
        Touched { family: family.id, name: &family.name, read: stay.collect(), written: added.collect() }
    };
    let touched = state.families.values().map(|family| of(family));
    touched.filter(|touched| !(touched.read.is_empty() && touched.written.is_empty())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_rows_above_their_number_and_above_their_bytes() {
        assert_eq!([0, 5, 6, 20].map(|count| surplus(&vec![100; count], 5)), [0, 0, 3, 17]);
        assert_eq!((surplus(&[100; 3], 0), surplus(&[], 0)), (3, 0));
        let long = MOST_BYTES / 8;
        assert_eq!([8, 9, 12].map(|count| surplus(&vec![long; count], 4096)), [0, 5, 8]);
        assert_eq!(surplus(&[100, MOST_BYTES], 4096), 2, "one that is too long for the rest goes too");
    }
}
