//! A cursor over one table, in both directions.
//!
//! It holds the block it stands in and the whole key under it; a step within cached blocks puts a key together and allocates
//! nothing. Keys share bytes with their restart's only, so any entry is reached from any other. A seek that ends within the block
//! that is held asks no index.
//!
//! A user's cursor checks records where they lie, as often as its policy says, and goes on where a block is damaged: what can be
//! believed is shown, and what is lost as a record of kind `Fence`, at the end of the span by which the cursor comes. One that
//! fills no cache serves jobs that must have every record: it answers an error there. It checks what it takes from the cache,
//! so that a bit that flipped in memory does not stop a job.

use std::sync::Arc;

use arc_swap::Guard;

use super::approach::Aimed;
use super::block::{Aim, Block};
use super::entry::Entry;
use super::guide::Part;
use super::heal::Fetched;
use super::index::Index;
use super::key::WholeKey;
use super::prove::{Checks, Side};
use super::table::Table;
use super::wreck::Wreck;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::options::{Reading, Verify};
use crate::planted::{self, Bug};
use crate::record::{Kind, MAX_SEQNO, Record, Seqno};
use crate::seam::Source;
use crate::turn::first_turn;

/// See `Table::cursor`.
pub struct TableCursor {
    pub(super) table: Arc<Table>,
    pub(super) fill_cache: bool,
    /// Gaps are shown, not answered as errors.
    pub(super) shows_gaps: bool,
    /// The block the cursor stood in last, kept for a seek that stays near.
    pub(super) block: Option<Arc<Block>>,
    /// It came from the file: where no cache keeps it, what is left of it is used again.
    pub(super) is_passing: bool,
    pub(super) number: usize,
    pub(super) at: usize,
    /// The entry under the cursor; none: not valid, or among what is left of a block.
    pub(super) entry: Option<Entry>,
    /// The key of that entry.
    pub(super) key: WholeKey,
    /// Records until the next one is checked; 0: none is.
    pub(super) left: u32,
    /// One in so many is checked; 0: none.
    pub(super) every: u32,
    /// The same as it was asked for: a table whose records have no companions has nothing to check.
    asked: u32,
    /// How a block is loaded from the file.
    pub(super) loads: Checks,
    /// The table's index was hit in memory; its spare leads the cursor.
    distrusts: bool,
    /// What is left of the block, if it is damaged.
    pub(super) wreck: Option<Wreck>,
    /// Where the seek that comes next begins, if that is known.
    pub(super) aimed: Option<Aimed>,
    /// The block that it begins in, asked for and not held yet.
    pub(super) asked_for: Option<Guard<Option<Arc<Block>>>>,
    /// The farthest block that memory was asked for on a walk.
    pub(super) asked_beyond: usize,
    /// Blocks read from the file in a row: upwards counted up from 0, downwards down.
    pub(super) streak: i32,
    /// How far the operating system was told to read in this direction.
    pub(super) advised: u64,
    /// Bytes of the file read ahead, and their offset.
    pub(super) chunk: Vec<u8>,
    pub(super) chunk_at: u64,
}

/// Where a search in a block has ended.
#[derive(Clone, Copy)]
struct Spot {
    at: usize,
    /// The entry there, if it is a version of the key.
    found: Option<Entry>,
    /// It is the one of the seqno that was sought.
    is_exact: bool,
    /// The block ends with versions of the key, which may go on in the next.
    spills: bool,
}

/// What a search anew has come to.
enum Anew {
    /// A place in the block.
    Found(Spot),
    /// The key is to be looked for in this block.
    In(usize),
}

/// How a cursor comes to where it is to stand.
#[derive(Clone, Copy)]
enum Arrival<'a> {
    First,
    Last,
    /// From the entry at this place of the block, to the one behind or before it.
    Next(usize),
    Prev(usize),
    Seek(&'a [u8], Seqno),
    SeekForPrev(&'a [u8], Seqno),
}

impl TableCursor {
    #[inline(always)]
    pub(super) fn new(table: Arc<Table>, fill_cache: bool) -> TableCursor {
        TableCursor {
            table,
            fill_cache,
            shows_gaps: false,
            block: None,
            is_passing: false,
            number: 0,
            at: 0,
            entry: None,
            key: WholeKey::new(),
            left: 0,
            every: 0,
            asked: 0,
            loads: Checks::NONE,
            distrusts: false,
            wreck: None,
            aimed: None,
            asked_for: None,
            asked_beyond: 0,
            streak: 0,
            advised: 0,
            chunk: Vec::new(),
            chunk_at: 0,
        }
    }

    /// A user's cursor, which checks what it passes and shows gaps.
    #[inline(always)]
    pub(super) fn checked(table: Arc<Table>, reading: Reading) -> TableCursor {
        let asked = match reading.verify {
            Verify::Never | Verify::OnFill => 0,
            Verify::Sampled(of) => of.max(1),
            Verify::Always => 1,
        };
        let every = if table.is_judged { asked } else { 0 };
        let loaded = matches!(reading.verify, Verify::OnFill | Verify::Sampled(_));
        let loads = Checks { loaded, passing: !reading.fill_cache, ..Checks::NONE };
        let mut cursor = TableCursor::new(table, true);
        cursor.shows_gaps = true;
        (cursor.left, cursor.every, cursor.asked, cursor.loads) = (first_turn(every), every, asked, loads);
        cursor
    }

    /// The same cursor over another table, standing nowhere. It reads and checks as it did, and keeps its room.
    pub(crate) fn moved_to(mut self: Box<Self>, table: &Arc<Table>) -> Box<TableCursor> {
        if !Arc::ptr_eq(&self.table, table) {
            let every = if table.is_judged { self.asked } else { 0 };
            self.let_go();
            self.table = table.clone();
            if every != self.every {
                (self.left, self.every) = (first_turn(every), every); // else it counts on
            }
            (self.wreck, self.entry, self.aimed) = (None, None, None);
            (self.number, self.at, self.distrusts) = (0, 0, false);
            (self.streak, self.advised, self.asked_beyond) = (0, 0, 0);
            (self.chunk, self.chunk_at) = (Vec::new(), 0);
        }
        self
    }

    /// Stands on an entry of the current block, unless it is checked and found wanting.
    #[inline]
    fn stand(&mut self, at: usize, arrival: Arrival<'_>) -> Result<()> {
        let placed = self.place(at);
        self.arrive(placed, arrival)
    }

    /// Stays where it was placed, unless that failed, or it is checked and found wanting.
    #[inline]
    fn arrive(&mut self, stood: Result<()>, arrival: Arrival<'_>) -> Result<()> {
        self.left = self.left.wrapping_sub(1);
        if stood.is_ok() && (self.left != 0 || self.is_right()) {
            return Ok(());
        }
        self.stand_anew(arrival, stood)
    }

    /// Stands on an entry of the current block.
    #[inline]
    pub(super) fn place(&mut self, at: usize) -> Result<()> {
        match self.block.as_deref().and_then(|block| Entry::short(block.bytes(), block.offset(at))) {
            Some(entry) => self.place_on(at, entry),
            None => self.place_longer(at),
        }
    }

    #[inline(never)]
    fn place_longer(&mut self, at: usize) -> Result<()> {
        self.entry = None;
        let Some(block) = self.block.as_deref() else { return Ok(()) };
        let entry = block.entry(at)?;
        self.place_on(at, entry)
    }

    #[inline(always)]
    fn place_on(&mut self, at: usize, entry: Entry) -> Result<()> {
        self.entry = None;
        let Some(block) = self.block.as_deref() else { return Ok(()) };
        self.key.put(block, at, &entry)?;
        self.at = at;
        self.entry = Some(entry);
        Ok(())
    }

    /// True if the record under the cursor is what was written.
    #[inline]
    pub(super) fn is_right(&mut self) -> bool {
        self.left = self.every;
        let (Some(block), Some(entry)) = (self.block.as_deref(), &self.entry) else { return true };
        let record = block.record(self.at, entry, self.key.get());
        self.table.judge().passes(&record) && block.ends_beside(self.at)
    }

    /// What stands in memory is not what was written: the block is taken from its file again, or what is left of it.
    #[cold]
    #[inline(never)]
    fn stand_anew(&mut self, arrival: Arrival<'_>, stood: Result<()>) -> Result<()> {
        self.entry = None;
        if self.left == 0 {
            self.left = self.every; // whose turn it was could not be looked at: it goes on behind it
        }
        let number = self.number;
        if let Err(error) = &stood
            && !error.is_corruption()
        {
            return stood;
        }
        self.table.watch.doubted();
        let old = self.block.take();
        match self.table.restore(number)? {
            Fetched::Whole(block) => {
                self.hold(block);
                let last = self.block_len() - 1;
                match arrival {
                    Arrival::First => self.place(0),
                    Arrival::Last => self.place(last),
                    Arrival::Next(from) => self.place((from + 1).min(last)),
                    Arrival::Prev(from) => self.place(from.saturating_sub(1)),
                    // What the search met may have misled it.
                    Arrival::Seek(key, seqno) => return self.seek_in(key, seqno, true),
                    Arrival::SeekForPrev(key, seqno) => return self.seek_back_in(key, seqno, true),
                }
                .map_err(|error| self.table.named(error, number))
            }
            Fetched::Broken(remains) if !self.shows_gaps => Err(self.lost(&remains, number)),
            Fetched::Broken(remains) => {
                self.wreck = Some(Wreck::new(remains));
                let from = |at: usize| {
                    let block = old.as_deref()?;
                    let mut key = Vec::new();
                    block.key_into(at, &mut key).ok()?;
                    Some((key, block.seqno(&block.entry(at).ok()?)))
                };
                match arrival {
                    Arrival::First => self.stand_among(0, true, None),
                    Arrival::Last => self.stand_among(usize::MAX, false, None),
                    Arrival::Next(at) => match from(at) {
                        Some((key, seqno)) if seqno > 0 => self.seek_among(&key, seqno - 1),
                        Some((key, _)) => self.seek_behind(&key),
                        None => self.stand_among(0, true, None),
                    },
                    Arrival::Prev(at) => match from(at) {
                        Some((key, seqno)) => self.seek_back_among(&key, (seqno + 1).min(MAX_SEQNO)),
                        None => self.stand_among(usize::MAX, false, None),
                    },
                    Arrival::Seek(key, seqno) => self.seek_among(key, seqno),
                    Arrival::SeekForPrev(key, seqno) => self.seek_back_among(key, seqno),
                }
            }
        }
    }

    /// Stands at the start of a block, or nowhere behind the last one.
    pub(super) fn stand_first(&mut self, number: usize) -> Result<()> {
        self.leave();
        if number >= self.table.blocks() {
            return Ok(());
        }
        self.enter(number)?;
        if self.wreck.is_some() {
            return self.stand_among(0, true, None);
        }
        self.ask_beyond(true);
        self.stand(0, Arrival::First)
    }

    /// Stands at the end of the block before `number`, or nowhere before the first one.
    pub(super) fn stand_last_before(&mut self, number: usize) -> Result<()> {
        self.leave();
        let Some(number) = number.checked_sub(1) else { return Ok(()) };
        self.enter(number)?;
        if self.wreck.is_some() {
            return self.stand_among(usize::MAX, false, None);
        }
        self.ask_beyond(false);
        self.stand(self.block_len().saturating_sub(1), Arrival::Last)
    }

    /// Stands nowhere; the block stays.
    pub(super) fn leave(&mut self) {
        self.entry = None;
        if !planted::active(Bug::AimOutlivesItsSeek) {
            self.aimed = None;
        }
        if let Some(wreck) = &mut self.wreck {
            wreck.standing = false;
        }
    }

    /// The index that leads the cursor to a key.
    #[inline]
    fn index_for(&self, key: &[u8]) -> Result<&Index> {
        let part = if self.distrusts { self.table.trusted_part_for(key) } else { self.table.part_for(key) };
        part.map(|part| &part.index)
    }

    /// The index that names a block.
    fn index_of(&self, number: usize) -> Result<&Index> {
        let part = if self.distrusts { self.table.trusted_part_of(number) } else { self.table.part_of(number) };
        part.map(|part| &part.index)
    }

    /// What leads the cursor to a key, if that is in memory.
    #[inline]
    pub(super) fn part_in_memory_for(&self, key: &[u8]) -> Option<&Part> {
        let guide = if self.distrusts { self.table.spare.get()? } else { &self.table.guide };
        guide.part_in_memory_for(key, &self.table.order)
    }

    /// Enters the block where (`key`, `seqno`) belongs and answers its place there, at most one behind the last entry.
    /// None: behind the last block, or the block is damaged (it is entered then).
    #[inline]
    fn locate(&mut self, key: &[u8], seqno: Seqno, proof: Option<Side>) -> Result<Option<Spot>> {
        let aimed = self.aimed;
        self.leave();
        let mut number = match aimed {
            Some(aimed) => aimed.number,
            None => {
                if proof.is_none()
                    && let Some(spot) = self.search_near(key, seqno)
                {
                    return Ok(Some(spot));
                }
                self.index_for(key)?.find(key, &self.table.order)
            }
        };
        if proof.is_some() && number >= self.table.blocks() && self.is_led_beyond(number, key)? {
            number = self.find_anew(key)?.unwrap_or(number);
        }
        let mut aim = aimed.filter(|aimed| aimed.number == number).and_then(|aimed| aimed.within);
        let mut follows = false;
        while number < self.table.blocks() {
            self.enter(number)?;
            if self.wreck.is_some() {
                if !self.goes_on_among(key, seqno, number) {
                    return Ok(None);
                }
            } else {
                match self.search(number, (key, seqno), aim.take(), proof, follows) {
                    Ok(Some(spot)) if !spot.spills => return Ok(Some(spot)),
                    Ok(Some(_)) => {}
                    _ => match self.search_anew(number, key, seqno)? {
                        Anew::Found(spot) if !spot.spills => return Ok(Some(spot)),
                        Anew::Found(_) => {}
                        Anew::In(other) => {
                            (number, follows) = (other, follows && other == number);
                            continue;
                        }
                    },
                }
            }
            (number, follows) = (number + 1, true);
        }
        self.wreck = None;
        Ok(None)
    }

    /// True if the index leads behind its last block, and does not prove that the key is there.
    #[inline]
    fn is_led_beyond(&self, number: usize, key: &[u8]) -> Result<bool> {
        let index = self.index_for(key)?;
        Ok(number == index.end() && !index.proves(number, key, false, &self.table.order))
    }

    /// Searches the block that is held, if the key is certainly between its first and its last one: the index then has nothing to say.
    #[inline]
    fn search_near(&self, key: &[u8], seqno: Seqno) -> Option<Spot> {
        let block = self.block.as_deref().filter(|block| block.surrounds(key))?;
        let spot = self.search(self.number, (key, seqno), None, None, false).ok()??;
        // At an edge what said so was hit.
        (spot.at > 0 && spot.at < block.len()).then_some(spot)
    }

    /// Searches the current block, from where its heads have led if that is known; answers also whether versions of the key may go on
    /// in the next. None: what was found does not agree with what stands around it.
    #[inline]
    fn search(
        &self,
        number: usize,
        (key, seqno): (&[u8], Seqno),
        aim: Option<Aim>,
        proof: Option<Side>,
        follows: bool,
    ) -> Result<Option<Spot>> {
        let Some(block) = self.block.as_deref() else { return Ok(None) };
        let order = &self.table.order;
        let place = match aim {
            Some(aim) => block.search_at(aim, key, seqno, order)?,
            None => block.search(key, seqno, order)?,
        };
        let spot = Spot {
            at: place.at,
            found: place.equal,
            is_exact: place.equal.is_some_and(|entry| block.seqno(&entry) == seqno),
            spills: place.at == block.len() && number + 1 < self.table.blocks() && block.ends_with(key, order)?,
        };
        let is_proved = match proof {
            None => true,
            Some(side) => {
                let side = if side == Side::Before { side } else { Side::Both(spot.found.is_some()) };
                let index = self.index_of(number)?;
                self.table.places(block, (number, spot.at), (key, seqno), (index, follows, spot.spills), side)
            }
        };
        Ok(is_proved.then_some(spot))
    }

    /// What a search met does not agree with itself: finds out what was hit, and searches again.
    #[cold]
    #[inline(never)]
    fn search_anew(&mut self, number: usize, key: &[u8], seqno: Seqno) -> Result<Anew> {
        self.table.watch.doubted();
        if let Some(other) = self.find_anew(key)? {
            return Ok(Anew::In(other));
        }
        self.let_go();
        match self.table.restore(number)? {
            Fetched::Whole(block) => {
                self.hold(block);
                let found = self.search(number, (key, seqno), None, None, false);
                match found.map_err(|error| self.table.named(error, number))? {
                    Some(spot) => Ok(Anew::Found(spot)),
                    None => Ok(Anew::In(number)),
                }
            }
            Fetched::Broken(remains) if !self.shows_gaps => Err(self.lost(&remains, number)),
            Fetched::Broken(remains) => {
                self.wreck = Some(Wreck::new(remains));
                Ok(Anew::In(number))
            }
        }
    }

    /// Where a key belongs by an index that is right, if the one that leads the cursor is not.
    #[cold]
    fn find_anew(&mut self, key: &[u8]) -> Result<Option<usize>> {
        let trusted = &self.table.trusted_part_for(key)?.index;
        if self.distrusts || std::ptr::eq(trusted, &self.table.part_for(key)?.index) {
            return Ok(None);
        }
        let number = trusted.find(key, &self.table.order);
        self.distrusts = true;
        Ok(Some(number))
    }

    /// `sound`: the block was just made whole, and nothing of it is checked again.
    #[inline]
    fn seek_in(&mut self, key: &[u8], seqno: Seqno, sound: bool) -> Result<()> {
        let proof = (self.proves() && !sound).then_some(Side::Before);
        match self.locate(key, seqno, proof)? {
            None if self.wreck.is_some() => self.seek_among(key, seqno),
            None => Ok(()),
            Some(spot) if spot.at >= self.block_len() => self.stand_first(self.number + 1),
            Some(spot) if sound => self.stand_named(spot.at),
            Some(spot) => {
                let placed = match spot.found {
                    // What stands there has the key that was sought, byte for byte.
                    Some(entry) if self.table.order.is_bytewise() => {
                        self.key.set(key);
                        (self.at, self.entry) = (spot.at, Some(entry));
                        Ok(())
                    }
                    _ => self.place(spot.at),
                };
                self.arrive(placed, Arrival::Seek(key, seqno))
            }
        }
    }

    /// The same, backwards.
    #[inline]
    fn seek_back_in(&mut self, key: &[u8], seqno: Seqno, sound: bool) -> Result<()> {
        let proof = (self.proves() && !sound).then_some(Side::Both(false));
        match self.locate(key, seqno, proof)? {
            None if self.wreck.is_some() => self.seek_back_among(key, seqno),
            None => self.last(),
            Some(spot) => {
                let at = if spot.is_exact { Some(spot.at) } else { spot.at.checked_sub(1) };
                match at {
                    None => self.stand_last_before(self.number),
                    Some(at) if sound => self.stand_named(at),
                    Some(at) => self.stand(at, Arrival::SeekForPrev(key, seqno)),
                }
            }
        }
    }

    /// Stands on an entry of a block that was just made whole.
    fn stand_named(&mut self, at: usize) -> Result<()> {
        self.place(at).map_err(|error| self.table.named(error, self.number))
    }

    #[inline]
    fn block_len(&self) -> usize {
        self.block.as_deref().map_or(0, Block::len)
    }

    /// A step out of the block, or among what is left of one.
    #[cold]
    #[inline(never)]
    pub(super) fn step_out(&mut self, forward: bool) -> Result<()> {
        match &self.wreck {
            Some(wreck) if wreck.standing => {
                let next = if forward { Some(wreck.at + 1) } else { wreck.at.checked_sub(1) };
                match next.filter(|next| *next < wreck.remains.items.len()) {
                    Some(next) => self.stand_among(next, forward, None),
                    None if forward => self.stand_first(self.number + 1),
                    None => self.stand_last_before(self.number),
                }
            }
            _ if self.entry.is_none() => Ok(()),
            _ if forward => self.stand_first(self.number + 1),
            _ => self.stand_last_before(self.number),
        }
    }
}

impl Cursor for TableCursor {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.seek_in(key, seqno, false)
    }

    fn seek_for_prev(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.seek_back_in(key, seqno, false)
    }

    fn first(&mut self) -> Result<()> {
        self.stand_first(0)
    }

    fn last(&mut self) -> Result<()> {
        self.stand_last_before(self.table.blocks())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid(), "next on a cursor that stands nowhere");
        if self.entry.is_some() && self.at + 1 < self.block_len() {
            return self.stand(self.at + 1, Arrival::Next(self.at));
        }
        self.step_out(true)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid(), "prev on a cursor that stands nowhere");
        if self.entry.is_some() && self.at > 0 {
            return self.stand(self.at - 1, Arrival::Prev(self.at));
        }
        self.step_out(false)
    }

    #[inline]
    fn valid(&self) -> bool {
        self.entry.is_some() || self.wreck.as_ref().is_some_and(|wreck| wreck.standing)
    }

    #[inline]
    fn record(&self) -> Record<'_> {
        match (self.block.as_deref(), &self.entry) {
            (Some(block), Some(entry)) => block.record(self.at, entry, self.key.get()),
            _ => {
                let record = self.wreck.as_ref().and_then(Wreck::record);
                debug_assert!(record.is_some(), "no record under a cursor that stands nowhere");
                record.unwrap_or(Record { key: &[], seqno: 0, kind: Kind::Delete, value: &[], companion: &[] })
            }
        }
    }

    fn source(&self) -> Source<'_> {
        self.table.source(self.number)
    }
}

impl Drop for TableCursor {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl std::fmt::Debug for TableCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableCursor")
            .field("table", &self.table.name)
            .field("block", &self.number)
            .finish_non_exhaustive()
    }
}
