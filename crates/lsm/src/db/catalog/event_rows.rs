//! Event log entries that become rows, because the manifest holds too many of them.
//!
//! In:    the views of all families at one moment, and the last commit then visible: the queries that the event log's
//!        implementation may make to find rows outside its retention.
//! Out:   the entries to convert, and their rows.
//! Order: the seqno is at least that of every record in a table, because a memtable is frozen only after its commits
//!        are visible. A table with a tombstone of that seqno therefore precedes the table with the row in level 0
//!        (ordered by newest seqno, then number).
//! Costs: one step for each table of the store; a scan holds its view, does not populate the cache and takes no lock
//!        that a flush holds.

use std::collections::HashSet;
use std::ops::Bound::{Excluded, Included};

use super::Catalog;
use crate::checksum::Uid;
use crate::db::reads::ReadPoint;
use crate::error::Result;
use crate::expiry::AsOf;
use crate::lost_range::LostRange;
use crate::options::{MIB, ReadSettings, Verify};
use crate::record::{Record, Seqno};
use crate::seam::{Emitted, EventRetention, EventStore};

/// Maximum bytes of entries in the manifest before the oldest become rows. The manifest is rewritten now and then, and
/// an entry may name thousands of files.
const MOST_BYTES: usize = 2 * MIB;

/// Entries to convert to rows.
pub(in crate::db) struct DueEvents {
    /// The last entry's number.
    pub(in crate::db) through: u64,
    /// The rows made from the entries.
    pub(in crate::db) rows: Vec<Emitted>,
}

/// Returns the entries that leave the manifest now, as rows, because they exceed its limits or the implementation
/// has released them; also tombstones for rows outside the retention.
pub(in crate::db) fn event_rows_due(catalog: &Catalog) -> Option<DueEvents> {
    let engine_log = catalog.events.engine_log()?;
    let lines = catalog.events.lines();
    let (retention, now) =
        (catalog.context().settings.current().event_retention(), catalog.context().env.clock.wall_micros());
    let lengths: Vec<usize> = lines.iter().map(|(_, line)| line.len()).collect();
    let outdated = engine_log.outdated(&mut lines.iter().map(|(number, line)| (*number, &**line)), &retention, now);
    let most = surplus(&lengths, catalog.context().settings.current().chronicle_lines).max(outdated);
    let oldest: Vec<_> = lines.iter().take(most).cloned().collect();
    let through = oldest.last()?.0;
    // Taken after the entries: a table that they report as written is live, or was replaced since.
    let standing = RetentionView::new(catalog, retention, now);
    let (mut rows, visible) = (engine_log.rows(&oldest, &standing), standing.seqno);
    rows.iter_mut().for_each(|row| row.seqno = row.seqno.min(visible)); // reads see no row above it
    // If a row's family does not exist, the entries stay.
    let families = catalog.families();
    let is_received = |row: &Emitted| families.by_id.get(&row.family).is_some_and(|family| !family.is_dropped());
    rows.iter().all(is_received).then_some(DueEvents { through, rows })
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

/// The state of the store while entries become rows.
struct RetentionView<'a> {
    catalog: &'a Catalog,
    retention: EventRetention,
    now: u64,
    seqno: Seqno,
    live: HashSet<Uid>,
    quarantined: HashSet<Uid>,
    lost_ranges: Vec<LostRange>,
}

impl<'a> RetentionView<'a> {
    fn new(catalog: &'a Catalog, retention: EventRetention, now: u64) -> RetentionView<'a> {
        let (mut live, mut quarantined, mut lost_ranges) = (HashSet::new(), HashSet::new(), Vec::new());
        for family in catalog.families().by_id.values() {
            let view = family.pinned_view();
            for table in view.levels.iter().flat_map(|level| level.tables()) {
                let meta = table.meta();
                live.insert(meta.uid);
                if catalog.claims.bars_any([meta.number].into_iter()) {
                    quarantined.insert(meta.uid);
                }
            }
            lost_ranges.extend(view.lost_ranges.iter().cloned());
        }
        RetentionView { catalog, retention, now, seqno: catalog.store_log().visible(), live, quarantined, lost_ranges }
    }
}

impl EventStore for RetentionView<'_> {
    fn retention(&self) -> EventRetention {
        self.retention
    }

    fn now(&self) -> u64 {
        self.now
    }

    fn seqno(&self) -> Seqno {
        self.seqno
    }

    fn is_live(&self, uid: Uid) -> bool {
        self.live.contains(&uid)
    }

    fn is_quarantined(&self, uid: Uid) -> bool {
        self.quarantined.contains(&uid)
    }

    fn lost_ranges(&self) -> &[LostRange] {
        &self.lost_ranges
    }

    fn scan(&self, family: u32, from: &[u8], to: &[u8], visit: &mut dyn FnMut(&Record<'_>) -> bool) -> Result<()> {
        let families = self.catalog.families();
        let Some(family) = families.by_id.get(&family) else { return Ok(()) };
        let reading = ReadSettings { verify: Verify::Always, fill_cache: false };
        let bounds = (Included(from.to_vec()), Excluded(to.to_vec()));
        let moment = ReadPoint { seqno: self.seqno, as_of: AsOf::micros(self.now) };
        let mut cursor = self.catalog.reads.cursor_in(family, family.pinned_view(), moment, bounds, reading);
        let mut moved = cursor.first();
        loop {
            let met = match moved {
                Ok(()) => false,
                Err(error) if error.is_corruption() => true,
                Err(error) => return Err(error),
            };
            match (cursor.valid(), met) {
                (true, _) if !visit(&cursor.record()) => return Ok(()),
                (true, _) | (false, true) => moved = cursor.next(),
                (false, false) => return Ok(()),
            }
        }
    }
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
