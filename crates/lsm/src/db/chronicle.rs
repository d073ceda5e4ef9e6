//! The chronicle: each piece of work leaves a line in the edit that makes it true.
//!
//! In:     what was done, as facts; whoever keeps the chronicle makes a line of it, or none.
//! Out:    the lines that the manifest still holds, without its lock. Above `chronicle_lines` of them, or above two MiB, the oldest
//!         become rows of a family, in the edit of a flush that runs anyway: rows are shown before their lines go. The keeper may be
//!         done with lines before, makes no rows of what it does not keep, and adds tombstones of rows that it no longer keeps.
//! Crash:  a line is there if what it tells is.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::install::Replaced;
use super::standing::Standing;
use super::{Db, Inner};
use crate::error::{Error, Result};
use crate::options::MIB;
use crate::seam::{Chronicle, Deed, Emitted, MAX_LINE_BYTES, TableFact, Touched, Work};
use crate::version::{self, Change, Edit, Lines, State, TableMeta};

/// Who keeps the chronicle, and the lines as readers see them.
pub(crate) struct Book {
    keeper: Option<Arc<dyn Chronicle>>,
    lines: ArcSwap<Lines>,
}

/// Bytes of lines that the manifest holds before the oldest become rows: it is written anew now and then, and a line may name
/// thousands of files.
const MOST_BYTES: usize = 2 * MIB;

impl Book {
    pub(super) fn new(keeper: Option<Arc<dyn Chronicle>>, lines: Lines) -> Book {
        Book { keeper, lines: ArcSwap::from_pointee(lines) }
    }

    pub(super) fn keeper(&self) -> Option<&Arc<dyn Chronicle>> {
        self.keeper.as_ref()
    }

    /// Shows readers the lines of a state.
    pub(super) fn show(&self, lines: &Lines) {
        let shown = self.lines.load();
        if (shown.last(), shown.taken_out()) != (lines.last(), lines.taken_out()) {
            self.lines.store(Arc::new(lines.clone()));
        }
    }
}

impl Db {
    /// The lines of the chronicle that are not rows yet, each with its number, oldest first. A line may be met here and as rows, if those
    /// are read afterwards; never not at all.
    pub fn chronicle(&self) -> Vec<(u64, Arc<[u8]>)> {
        self.inner().book.lines.load().iter().cloned().collect()
    }

    /// Adds a line to the chronicle, in an edit of its own. Costs an fsync.
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
    /// Adds the line of a work to the edit that makes it true. `parts`: the tables that go and come; asked before they do.
    /// `log`: where the records came from. `started`: when the work was begun.
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

    /// The time from which a work is counted.
    pub(super) fn now_nanos(&self) -> u64 {
        self.env.clock.monotonic_nanos()
    }

    /// The lines that leave the manifest now, as rows, if it has no room for them any more or the keeper is done with them; and tombstones
    /// of rows that are no longer kept.
    pub(super) fn lines_due(&self) -> Option<Due> {
        let keeper = self.book.keeper.as_ref()?;
        let lines = self.book.lines.load();
        let (retention, now) = (self.settings.event_retention(), self.env.clock.wall_micros());
        let lengths: Vec<usize> = lines.iter().map(|(_, line)| line.len()).collect();
        let outdated = keeper.outdated(&mut lines.iter().map(|(number, line)| (*number, &**line)), &retention, now);
        let most = surplus(&lengths, self.settings.chronicle_lines).max(outdated);
        let oldest: Vec<_> = lines.iter().take(most).cloned().collect();
        let through = oldest.last()?.0;
        // Behind the lines: what they say was written is live, or was replaced since.
        let standing = Standing::new(self, retention, now);
        let (mut rows, visible) = (keeper.rows(&oldest, &standing), standing.seqno);
        rows.iter_mut().for_each(|row| row.seqno = row.seqno.min(visible)); // above it nobody would see them
        // A row that nobody would receive: the lines stay.
        let families = self.families();
        let is_received = |row: &Emitted| families.by_id.get(&row.family).is_some_and(|family| !family.is_dropped());
        rows.iter().all(is_received).then_some(Due { through, rows })
    }
}

/// How many of the oldest lines are to become rows. None while there are no more than `limit`, and of no more bytes than the manifest
/// is to hold; else so many that half of that is left.
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

/// Lines that are to become rows.
pub(super) struct Due {
    /// Up to this number.
    pub(super) through: u64,
    /// What becomes of them.
    pub(super) rows: Vec<Emitted>,
}

/// Adds the line of a work, if there is one, to the edit that makes it true; its number comes later.
pub(super) fn tell(keeper: &dyn Chronicle, edit: &mut Edit, work: &Work<'_>) {
    let line = keeper.line(work);
    debug_assert!(line.as_ref().is_none_or(|line| line.len() <= MAX_LINE_BYTES));
    if let Some(line) = line.filter(|line| line.len() <= MAX_LINE_BYTES) {
        edit.changes.push(Change::Line { number: 0, bytes: line.into() });
    }
}

/// Gives the lines of an edit the next numbers.
pub(super) fn number(edit: &mut Edit, state: &State) {
    let mut last = state.lines.last();
    for change in &mut edit.changes {
        if let Change::Line { number, .. } = change {
            last += 1;
            *number = last;
        }
    }
}

/// The lines of an edit in one of their own.
pub(super) fn set_apart(edit: &mut Edit) -> Edit {
    let is_line = |change: &Change| matches!(change, Change::Line { .. });
    let (lines, rest) = std::mem::take(&mut edit.changes).into_iter().partition(is_line);
    edit.changes = rest;
    Edit { changes: lines }
}

/// What a work says of a table in a level.
pub(super) fn fact(level: usize, meta: &TableMeta) -> TableFact {
    let TableMeta { number, uid, digest, .. } = *meta;
    TableFact { number, uid, digest, level: level as u8, records: meta.ledger.count(), bytes: meta.size }
}

/// What an edit does to a family, before it does it.
fn touched<'a>(part: &Replaced<'a>) -> Touched<'a> {
    let (family, levels) = (part.family, &part.family.view().levels);
    let gone = |(level, number): &(usize, u64)| Some(fact(*level, levels.get(*level, *number)?.meta()));
    let read = part.removes.iter().filter_map(gone).collect();
    let written = part.adds.iter().map(|(level, meta)| fact(*level, meta)).collect();
    Touched { family: family.id(), name: family.name(), read, written }
}

/// The tables of a whole state, and of each family those that `changes` add.
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
