//! A cursor over a memtable that owns what it stands on.
//!
//! Where it stands is told by a `Walk` over the tree's leaves, or by `Runs` of the skip list's nodes; neither allocates once it has its room.
//!
//! A user's cursor checks the record that it stands on, as often as its policy says. One that does not match its companion is
//! shown as a fence at its own place: older versions of its key do not decide.

use std::sync::Arc;

use super::runs::Runs;
use super::walk::Walk;
use super::{List, Memtable};
use crate::checksum::hash_key;
use crate::cursor::Cursor;
use crate::error::{Result, Verdict};
use crate::fence::Fence;
use crate::options::Verify;
use crate::record::{Kind, Record, Seqno};
use crate::seam::{Companions, Protection, Source};

/// A position among the records of a memtable. Its moves do not fail.
pub struct MemtableCursor {
    table: Arc<Memtable>,
    stand: Stand,
    judge: Option<Judge>,
    /// The fence that stands for a damaged record under the cursor; empty: the record is shown.
    fence: Vec<u8>,
}

/// Where it stands, in the list of its memtable.
enum Stand {
    Leaves(Walk),
    Nodes(Runs),
}

/// One move, in whichever list it is.
macro_rules! go {
    ($self:ident, $move:ident $(, $argument:expr)*) => {
        match (&mut $self.stand, &$self.table.list) {
            (Stand::Leaves(walk), List::Arena(tree)) => walk.$move(tree $(, $argument)*),
            (Stand::Nodes(runs), List::Skiplist(list)) => runs.$move(list $(, $argument)*),
            _ => {}
        }
    };
}

/// Who checks, and how often.
struct Judge {
    keeper: Arc<dyn Companions>,
    protection: Protection,
    /// Records until the next one is checked.
    left: u32,
    every: u32,
}

impl MemtableCursor {
    pub(super) fn new(table: Arc<Memtable>) -> MemtableCursor {
        let stand = match &table.list {
            List::Arena(_) => Stand::Leaves(Walk::new()),
            List::Skiplist(_) => Stand::Nodes(Runs::new()),
        };
        MemtableCursor { table, stand, judge: None, fence: Vec::new() }
    }

    pub(super) fn checked(table: Arc<Memtable>, keeper: &Arc<dyn Companions>, verify: Verify) -> MemtableCursor {
        let protection = table.protection(keeper.protection());
        let every = match verify {
            Verify::Always => 1,
            Verify::Sampled(of) => of.max(1),
            Verify::Never | Verify::OnFill => 0,
        };
        let judge = (every > 0 && protection != Protection::None).then(|| Judge {
            keeper: keeper.clone(),
            protection,
            left: every,
            every,
        });
        MemtableCursor { judge, ..MemtableCursor::new(table) }
    }

    /// Checks the record that the cursor has come to, if it is its turn.
    #[inline]
    fn arrive(&mut self) {
        if let Some(judge) = &mut self.judge {
            self.fence.clear();
            judge.left -= 1;
            if judge.left == 0 {
                judge.left = judge.every;
                self.check();
            }
        }
    }

    fn check(&mut self) {
        let (Some(judge), Some(record)) = (&self.judge, self.stored()) else { return };
        // A record that came in later may be the first without a companion.
        let protection = self.table.protection(judge.protection);
        if judge.keeper.verify(&record, hash_key(record.key), protection).serves() {
            return;
        }
        let place = (record.key.to_vec(), record.seqno);
        let bound = self.table.greatest_seqno().unwrap_or(record.seqno);
        let (file, offset) = (String::new(), 0);
        let fence = Fence { from: place.clone(), to: place, bound, file, offset, verdict: Verdict::Seal };
        fence.encode(&mut self.fence);
    }

    /// The record under the cursor, as it is stored.
    #[inline]
    fn stored(&self) -> Option<Record<'_>> {
        match (&self.stand, &self.table.list) {
            (Stand::Leaves(walk), List::Arena(tree)) => walk.record(tree),
            (Stand::Nodes(runs), _) => runs.record(),
            _ => None,
        }
    }
}

impl Cursor for MemtableCursor {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        go!(self, seek, key, seqno);
        self.arrive();
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        go!(self, seek_for_prev, key, seqno);
        self.arrive();
        Ok(())
    }

    fn first(&mut self) -> Result<()> {
        go!(self, end, false);
        self.arrive();
        Ok(())
    }

    fn last(&mut self) -> Result<()> {
        go!(self, end, true);
        self.arrive();
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid());
        go!(self, next);
        self.arrive();
        Ok(())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid());
        go!(self, prev);
        self.arrive();
        Ok(())
    }

    #[inline]
    fn valid(&self) -> bool {
        match &self.stand {
            Stand::Leaves(walk) => walk.valid(),
            Stand::Nodes(runs) => runs.valid(),
        }
    }

    #[inline]
    fn record(&self) -> Record<'_> {
        debug_assert!(self.valid());
        match self.stored() {
            Some(record) if self.fence.is_empty() => record,
            Some(record) => Record { kind: Kind::Fence, value: &self.fence, companion: &[], ..record },
            None => Record { key: &[], seqno: 0, kind: Kind::Delete, value: &[], companion: &[] },
        }
    }

    fn source(&self) -> Source<'_> {
        // As long as every record had companions when it came in, one without has lost them.
        Source { protection: self.table.protection(Protection::Complete), ..Source::default() }
    }
}

impl std::fmt::Debug for MemtableCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemtableCursor").field("valid", &self.valid()).finish_non_exhaustive()
    }
}
