//! Lost ranges as a source of the merge. Each is shown as a record of kind `Fence`, at the end of its range at which the
//! walk enters it.
//!
//! In:     the lost ranges in a family's manifest, or the range of a table that cannot be opened. There are few.
//! Out:    each lost range once per direction, in the order in which the walk enters them; after a search into a range,
//!         at the target of the search. A merge that turns around searches again. Forward, a lost range comes after the
//!         versions of that key that are newer than its bound: such versions survived the loss, and reads may return
//!         them.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::cursor::Cursor;
use crate::error::Result;
use crate::lost_range::LostRange;
use crate::order::Order;
use crate::record::{Kind, Record, Seqno};
use crate::seam::RecordSource;

/// A cursor over lost ranges.
pub struct LostRangeCursor {
    order: Order,
    lost_ranges: Arc<Vec<LostRange>>,
    /// The lost ranges that the walk has yet to enter, or is inside of, in walk order, and the place where it enters
    /// each.
    queue: Vec<(Entered, usize)>,
    at: usize,
    forward: bool,
    /// The current lost range, encoded.
    encoded: Vec<u8>,
}

/// The place where a walk enters a range.
type Entered = (Vec<u8>, Seqno);

impl LostRangeCursor {
    /// Creates a cursor over lost ranges in any order. It starts invalid.
    pub fn new(order: Order, lost_ranges: Arc<Vec<LostRange>>) -> LostRangeCursor {
        LostRangeCursor { order, lost_ranges, queue: Vec::new(), at: 0, forward: true, encoded: Vec::new() }
    }

    /// Queues the lost ranges that a walk from `start` encounters; `None` starts from the end. `but` is a lost range to
    /// leave out.
    fn line_up(&mut self, start: Option<(&[u8], Seqno)>, forward: bool, but: Option<usize>) {
        let (order, ahead) = (&self.order, if forward { Ordering::Less } else { Ordering::Greater });
        let is_ahead = |a: (&[u8], Seqno), b: (&[u8], Seqno)| order.compare_internal(a, b) == ahead;
        self.queue.clear();
        for (number, lost_range) in self.lost_ranges.iter().enumerate().filter(|(number, _)| Some(*number) != but) {
            let ends = [(&lost_range.from.0[..], lost_range.from.1), (&lost_range.to.0[..], lost_range.to.1)];
            let [near, far] = if forward { ends } else { [ends[1], ends[0]] };
            let entered = match start {
                // A lost range lost nothing above its bound, and an upward search begins at the newest version of a
                // key.
                Some((key, seqno)) if forward && is_ahead(far, (key, seqno.min(lost_range.bound))) => continue,
                Some(start) if !forward && is_ahead(far, start) => continue,
                // Nor does a downward walk from a newer version of the first key meet it.
                Some((key, seqno))
                    if !forward && seqno > lost_range.bound && order.compare(&lost_range.from.0, key).is_ge() =>
                {
                    continue;
                }
                Some(start) if is_ahead(near, start) => start,
                _ => near,
            };
            let entered = if forward { behind_newer(order, entered, lost_range) } else { entered };
            self.queue.push(((entered.0.to_vec(), entered.1), number));
        }
        let queue = std::mem::take(&mut self.queue);
        self.queue = order.sorted(queue, |order, ((a, a_seqno), _), ((b, b_seqno), _)| {
            let ahead = order.compare_internal((a, *a_seqno), (b, *b_seqno));
            if forward { ahead } else { ahead.reverse() }
        });
        (self.at, self.forward) = (0, forward);
        self.show();
    }

    fn show(&mut self) {
        self.encoded.clear();
        if let Some((_, number)) = self.queue.get(self.at) {
            self.lost_ranges[*number].encode(&mut self.encoded);
        }
    }

    fn step(&mut self, forward: bool) {
        if forward == self.forward {
            self.at += 1;
            self.show();
        } else if let Some(((key, seqno), number)) = self.queue.get(self.at).cloned() {
            self.line_up(Some((&key, seqno)), forward, Some(number));
        }
    }
}

/// Returns the place at which a forward walk enters a lost range, moved after the versions newer than its bound if that
/// is still inside the range.
fn behind_newer<'a>(order: &Order, (key, seqno): (&'a [u8], Seqno), lost_range: &LostRange) -> (&'a [u8], Seqno) {
    let behind = (key, seqno.min(lost_range.bound));
    if order.compare_internal(behind, (&lost_range.to.0, lost_range.to.1)).is_le() { behind } else { (key, seqno) }
}

impl Cursor for LostRangeCursor {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.line_up(Some((key, seqno)), true, None);
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.line_up(Some((key, seqno)), false, None);
        Ok(())
    }

    fn first(&mut self) -> Result<()> {
        self.line_up(None, true, None);
        Ok(())
    }

    fn last(&mut self) -> Result<()> {
        self.line_up(None, false, None);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.step(true);
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.step(false);
        Ok(())
    }

    fn valid(&self) -> bool {
        self.at < self.queue.len()
    }

    fn record(&self) -> Record<'_> {
        let (key, seqno) = self.queue.get(self.at).map_or((&[][..], 0), |((key, seqno), _)| (&key[..], *seqno));
        Record { key, seqno, kind: Kind::Fence, value: &self.encoded, companion: &[] }
    }

    fn source(&self) -> RecordSource<'_> {
        match self.queue.get(self.at) {
            Some((_, number)) => {
                let lost_range = &self.lost_ranges[*number];
                RecordSource { file: &lost_range.file, offset: lost_range.offset, ..RecordSource::default() }
            }
            None => RecordSource::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Verdict;

    fn lost_range(from: &str, to: &str) -> LostRange {
        let place = |key: &str| (key.as_bytes().to_vec(), 5);
        LostRange { from: place(from), to: place(to), bound: 9, file: "f".into(), offset: 0, verdict: Verdict::Seal }
    }

    fn met(cursor: &mut LostRangeCursor, forward: bool) -> Vec<String> {
        let mut met = Vec::new();
        while cursor.valid() {
            met.push(String::from_utf8(cursor.record().key.to_vec()).unwrap());
            if forward { cursor.next().unwrap() } else { cursor.prev().unwrap() }
        }
        met
    }

    #[test]
    fn fences_are_met_where_the_walk_comes_to_them() {
        let lost_ranges = Arc::new(vec![lost_range("m", "p"), lost_range("b", "d"), lost_range("n", "z")]);
        let mut cursor = LostRangeCursor::new(Order::bytewise(), lost_ranges);
        assert!(!cursor.valid());
        cursor.first().unwrap();
        assert_eq!(met(&mut cursor, true), ["b", "m", "n"]);
        cursor.last().unwrap();
        assert_eq!(met(&mut cursor, false), ["z", "p", "d"]);
        cursor.seek(b"c", 100).unwrap();
        assert_eq!(met(&mut cursor, true), ["c", "m", "n"]);
        cursor.seek(b"e", 100).unwrap();
        assert_eq!(met(&mut cursor, true), ["m", "n"]);
        cursor.seek_for_prev(b"o", 0).unwrap();
        assert_eq!(met(&mut cursor, false), ["o", "o", "d"]);
        cursor.seek_for_prev(b"a", 0).unwrap();
        assert!(!cursor.valid());
        // Turning around: the previous lost range, from the place of the cursor.
        cursor.seek(b"e", 0).unwrap();
        cursor.prev().unwrap();
        assert_eq!(cursor.record().key, b"d");
    }
}
