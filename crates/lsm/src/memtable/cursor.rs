//! A cursor over a memtable that owns what it stands on.
//!
//! Where it stands is told by a `Walk` over the tree's leaves, or by `Runs` of the skip list's nodes; neither allocates once it has its room.
//!
//! A user's cursor checks the record that it stands on, as often as its policy says. One that does not match its companion is
//! shown as a fence at its own place: older versions of its key do not decide.

use std::cell::Cell;
use std::sync::Arc;

use super::runs::Runs;
use super::sync::LEAF;
use super::tree::Probe;
use super::walk::Walk;
use super::{List, Memtable};
use crate::checksum::hash_key;
use crate::cursor::Cursor;
use crate::error::{Result, Verdict};
use crate::fence::Fence;
use crate::options::Verify;
use crate::record::{Kind, Record, Seqno};
use crate::seam::{Companions, Protection, Source};
use crate::turn::first_turn;

/// A position among the records of a memtable. Its moves do not fail.
pub struct MemtableCursor {
    table: Arc<Memtable>,
    stand: Stand,
    judge: Option<Judge>,
    /// Somebody would check, but not this one: what it has seen is not told to others.
    looks_away: bool,
    /// The fence that stands for a damaged record under the cursor; empty: the record is shown.
    fence: Vec<u8>,
}

/// Where it stands, in the list of its memtable.
#[expect(clippy::large_enum_variant, reason = "the usual one is the large one, and cursors are boxed")]
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
    /// So many come in which one is known to be damaged.
    closely: usize,
}

impl MemtableCursor {
    pub(super) fn new(table: Arc<Memtable>) -> MemtableCursor {
        let stand = match &table.list {
            List::Arena(_) => Stand::Leaves(Walk::new()),
            List::Skiplist(_) => Stand::Nodes(Runs::new()),
        };
        MemtableCursor { table, stand, judge: None, looks_away: false, fence: Vec::new() }
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
            left: first_turn(every),
            every,
            closely: 0,
        });
        let looks_away = every == 0 && protection != Protection::None;
        MemtableCursor { judge, looks_away, ..MemtableCursor::new(table) }
    }

    /// False if `pass_deleted` would not find anything new.
    #[inline]
    pub(crate) fn may_pass(&self) -> bool {
        matches!(&self.stand, Stand::Leaves(walk) if walk.may_pass())
    }

    /// Stands on a tombstone that hides its key from a reader at `seqno`. If he sees no key from there to some record behind, none of them behind `until`,
    /// goes to that record and answers true. It is one that he could see, of a key that is hidden.
    pub(crate) fn pass_deleted(&mut self, seqno: Seqno, until: Option<(&[u8], Seqno)>) -> bool {
        let (Stand::Leaves(walk), List::Arena(tree)) = (&mut self.stand, &self.table.list) else { return false };
        let (table, judge) = (&self.table, &self.judge);
        let met_damage = Cell::new(false);
        let is_sound = |record: &Record<'_>| {
            let is_sound = judge.as_ref().is_none_or(|judge| judge.serves(table, record));
            met_damage.set(!is_sound);
            is_sound
        };
        let until = until.map(|(key, seqno)| Probe { key, seqno });
        let has_moved = walk.pass_deleted(tree, seqno, until, (!self.looks_away).then_some(is_sound));
        if let Some(judge) = self.judge.as_mut().filter(|_| met_damage.get()) {
            judge.closely = LEAF; // so that it is told of when the walk comes to it
        }
        if has_moved {
            self.fence.clear(); // each was checked when it was found to be deleted
        }
        has_moved
    }

    /// Checks the record that the cursor has come to, if it is its turn.
    #[inline]
    fn arrive(&mut self) {
        if let Some(judge) = &mut self.judge {
            self.fence.clear();
            judge.left -= 1;
            if judge.left == 0 || judge.closely > 0 {
                judge.closely = judge.closely.saturating_sub(1);
                judge.left = judge.every;
                self.check();
            }
        }
    }

    fn check(&mut self) {
        let (Some(judge), Some(record)) = (&self.judge, self.stored()) else { return };
        if judge.serves(&self.table, &record) {
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

impl Judge {
    fn serves(&self, table: &Memtable, record: &Record<'_>) -> bool {
        // A record that came in later may be the first without a companion.
        let protection = table.protection(self.protection);
        self.keeper.verify(record, hash_key(record.key), protection).serves()
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
