//! Block repair, for one damaged block: read it again bypassing memory and page cache, correct it, or salvage its
//! readable part.
//!
//! In:    the number of a block whose CRC does not match, or with a record that does not match its companion.
//! Out:   the whole block, and the repair that succeeded; or its readable part, and the error.
//! Holds: a block is whole if its CRC matches, its format is valid, and every record may be returned. A correction is
//!        accepted only if, in addition, every record is confirmed by its seal. Index and properties are not corrected
//!        here.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::block_salvage::glean;
use super::partial_block::{Answer, Item, Remains, Site, after, nothing};
use crate::checksum::{Role, block_seed, hash_key};
use crate::env::read_into;
use crate::env::work::lock;
use crate::error::{Damage, Error, Remedy, Result, Verdict};
use crate::planted::{self, Bug};
use crate::record::{MAX_SEQNO, Record, Seqno};
use crate::seam::{Check, Companions, Protection};
use crate::sst::block::block::Block;
use crate::sst::block::frame::{Handle, LOST, check};
use crate::sst::index::index::Index;
use crate::sst::table::table::{Outcome, Table, promised};
use crate::sst::table::tail::{read_error, read_framed};
use crate::sst::table::verify_read::{Checks, Wanted};

/// Number of rereads of a block.
pub(in crate::sst) const TRIES: usize = 3;

/// Page size: the page cache drops whole pages of a block.
pub(in crate::sst) const PAGE_BYTES: u64 = 4096;

/// Maximum number, and bytes, of damaged blocks whose readable parts are kept in memory for one table.
const MOST_WOUNDS: usize = 64;
const MOST_WOUND_BYTES: usize = 4 << 20;

/// Receives notifications from readers of a table. Calls come from reader threads, outside of their fast paths, with no
/// lock held.
pub trait Watch: Send + Sync {
    /// Returns the family of the table, for error messages.
    fn family(&self) -> &str {
        ""
    }
    /// A check failed, and the cause is being examined.
    fn doubted(&self) {}
    /// A block was repaired.
    fn healed(&self, _file: &str, _offset: u64, _by: Remedy) {}
    /// A block cannot be repaired. Called once per block.
    fn damaged(&self, _error: &Error) {}
    /// A read reached a gap in such a block.
    fn gap_met(&self) {}
    /// Index and filter bytes were loaded, and stay in memory until the table is closed.
    fn grew(&self, _bytes: usize) {}
    /// Index and filter bytes were freed together with their table.
    fn shrank(&self, _bytes: usize) {}
}

/// A `Watch` that ignores all notifications.
pub(in crate::sst) struct Unwatched;

impl Watch for Unwatched {}

/// The known bad blocks of a table.
#[derive(Default)]
pub(in crate::sst) struct Wounds {
    any: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The oldest first.
    broken: Vec<(usize, Arc<Remains>)>,
    bytes: usize,
    /// Blocks that were already reported as damaged.
    told: BTreeSet<usize>,
}

impl Wounds {
    /// Returns the readable part of a block that is known to be damaged.
    pub(in crate::sst) fn find(&self, number: usize) -> Option<Arc<Remains>> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.known).broken.iter().find(|(known, _)| *known == number).map(|(_, remains)| remains.clone())
    }

    /// Adds the readable part of a block; returns true if the block was not reported before.
    fn add(&self, number: usize, remains: &Arc<Remains>) -> bool {
        let mut known = lock(&self.known);
        self.any.store(true, Ordering::Release);
        if !known.broken.iter().any(|(other, _)| *other == number) {
            known.bytes += remains.memory();
            known.broken.push((number, remains.clone()));
        }
        while known.broken.len() > MOST_WOUNDS || (known.bytes > MOST_WOUND_BYTES && known.broken.len() > 1) {
            let (_, oldest) = known.broken.remove(0);
            known.bytes -= oldest.memory();
        }
        known.told.insert(number)
    }

    /// Removes all bad blocks.
    pub(in crate::sst) fn clear(&self) {
        if self.any.load(Ordering::Acquire) {
            *lock(&self.known) = Known::default();
        }
    }

    /// Removes a block that turned out to be whole.
    pub(in crate::sst) fn remove(&self, number: usize) {
        if self.any.load(Ordering::Acquire) {
            let mut known = lock(&self.known);
            if let Some(at) = known.broken.iter().position(|(other, _)| *other == number) {
                let (_, remains) = known.broken.remove(at);
                known.bytes -= remains.memory();
            }
        }
    }
}

/// A block for a reader.
pub(in crate::sst) enum Fetched {
    /// The whole block.
    Whole(Arc<Block>),
    /// The readable part of a damaged block.
    Broken(Arc<Remains>),
}

/// The result of a block repair.
#[expect(clippy::large_enum_variant, reason = "lives for a moment")]
pub(in crate::sst) enum Recovered {
    /// The whole block; the repair that was needed, if any; the check result of its records, if they all have the same
    /// result.
    Whole(Block, Option<Remedy>, Option<Check>),
    /// The readable part of a block that cannot be repaired; the error.
    Broken(Remains, Error),
}

/// Maximum length of a rebuilt table's gap that is loaded as one block: a longer one contains nothing that can be
/// distinguished.
const MOST_GAP_BYTES: usize = 4 << 20;

/// Corrections must be confirmed by every seal of the block.
fn is_confirmed() -> bool {
    !planted::active(Bug::HealedBlockNotConfirmed)
}

/// Returns the error for a record that must not be returned.
#[cold]
pub(in crate::sst) fn mismatch(record: &Record<'_>, check: Check) -> Error {
    let damage = Damage {
        verdict: if check == Check::Missing { Verdict::Missing } else { Verdict::Seal },
        key_range: Some((record.key.to_vec(), record.key.to_vec())),
        ..Damage::default()
    };
    Error::corruption(damage, "a record does not match its companion")
}

impl Table {
    /// Performs a point read in a block that is not in memory.
    #[inline(never)]
    pub(in crate::sst) fn look_up(
        &self,
        number: usize,
        wanted: &Wanted<'_>,
        checks: Checks,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<Outcome> {
        let passing = checks.passing || !(checks.again || self.admits(number));
        let checks = Checks { passing, ..checks };
        let fetched = self.fetch(number, checks)?;
        self.look_at(fetched, number, wanted, visit)
    }

    /// Performs a point read in a block that was just loaded, and releases it afterwards.
    pub(in crate::sst) fn look_at(
        &self,
        fetched: Fetched,
        number: usize,
        wanted: &Wanted<'_>,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<Outcome> {
        match fetched {
            Fetched::Whole(block) => {
                let outcome = Outcome::in_memory(self.look(&block, number, wanted, visit));
                self.slots.passed(block);
                outcome
            }
            Fetched::Broken(remains) => self.look_among(&remains, wanted, visit),
        }
    }

    /// Repeats a point read after a contradiction in a block or its index.
    #[cold]
    #[inline(never)]
    pub(in crate::sst) fn get_healed(
        &self,
        number: usize,
        wanted: &Wanted<'_>,
        doubt: Result<Outcome>,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<bool> {
        if let Err(error) = doubt {
            return Err(self.named(error, number)); // a file error: everything possible was tried
        }
        self.watch.doubted();
        if !self.guide.is_sound(wanted.index, &self.order) {
            return self.get_anew(wanted, visit);
        }
        let (mut number, mut wanted) = (number, *wanted);
        while number < wanted.index.end() {
            let outcome = match self.restore(number)? {
                Fetched::Whole(block) => self.look(&block, number, &wanted, visit),
                Fetched::Broken(remains) => self.look_among(&remains, &wanted, visit),
            };
            match outcome.map_err(|error| self.named(error, number))? {
                Outcome::Found => return Ok(true),
                Outcome::Absent => return Ok(false),
                Outcome::Further => number += 1,
                Outcome::Doubtful => return Err(self.disagree(number)),
            }
            wanted.follows = true;
        }
        Ok(false)
    }

    /// Handles an index that places a key past the last block; mostly this means that the index is corrupted.
    #[cold]
    pub(in crate::sst) fn get_beyond(&self, wanted: &Wanted<'_>, visit: &mut dyn FnMut(&Record<'_>)) -> Result<bool> {
        if wanted.index.proves(wanted.index.end(), wanted.key, false, &self.order) {
            return Ok(false);
        }
        self.watch.doubted();
        self.get_anew(wanted, visit)
    }

    /// Handles a negative answer from the filter of another range: the search that led there was corrupted.
    #[cold]
    #[inline(never)]
    pub(in crate::sst) fn get_misled(&self, wanted: &Wanted<'_>, visit: &mut dyn FnMut(&Record<'_>)) -> Result<bool> {
        self.watch.doubted();
        self.get_anew(wanted, visit)
    }

    /// Performs a point read with an index that was read again, because the one in memory is corrupted.
    fn get_anew(&self, wanted: &Wanted<'_>, visit: &mut dyn FnMut(&Record<'_>)) -> Result<bool> {
        let index = &self.trusted_part_for(wanted.key)?.index;
        let mut wanted = Wanted { index, follows: false, ..*wanted };
        let mut number = index.find(wanted.key, &self.order);
        while number < index.end() {
            let cached = self.slots.slot(number).load_full();
            let first =
                match cached.map_or_else(|| self.fetch(number, Checks::NONE), |block| Ok(Fetched::Whole(block)))? {
                    Fetched::Whole(block) => Outcome::in_memory(self.look(&block, number, &wanted, visit)),
                    Fetched::Broken(remains) => self.look_among(&remains, &wanted, visit),
                };
            let outcome = match first {
                Ok(Outcome::Doubtful) => match self.restore(number)? {
                    Fetched::Whole(block) => self.look(&block, number, &wanted, visit),
                    Fetched::Broken(remains) => self.look_among(&remains, &wanted, visit),
                },
                outcome => outcome,
            };
            match outcome.map_err(|error| self.named(error, number))? {
                Outcome::Found => return Ok(true),
                Outcome::Absent => return Ok(false),
                Outcome::Further => number += 1,
                Outcome::Doubtful => return Err(self.disagree(number)),
            }
            wanted.follows = true;
        }
        Ok(false)
    }

    #[cold]
    pub(in crate::sst) fn disagree(&self, number: usize) -> Error {
        self.named(Error::structural("a block and its index do not agree on where a key is"), number)
    }

    /// Answers a point read from the readable part of a block.
    fn look_among(
        &self,
        remains: &Remains,
        wanted: &Wanted<'_>,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<Outcome> {
        Ok(match remains.get(&self.order, wanted.key, wanted.seqno) {
            Answer::Found(kept) => {
                visit(&kept.record());
                Outcome::Found
            }
            Answer::Lost(fence) => {
                self.watch.gap_met();
                return Err(fence.error().in_family(self.watch.family(), None));
            }
            Answer::Absent => Outcome::Absent,
            Answer::Further => Outcome::Further,
        })
    }

    /// Returns true if a block that is about to be read would be cached.
    pub(in crate::sst) fn admits(&self, number: usize) -> bool {
        let bytes = self.handle(number).map_or(0, |handle| handle.raw_len as usize);
        self.slots.admits(number, bytes + size_of::<Block>())
    }

    /// Loads a block that is not in memory, or its readable part.
    #[cold]
    pub(in crate::sst) fn fetch(&self, number: usize, checks: Checks) -> Result<Fetched> {
        if let Some(remains) = self.wounds.find(number) {
            return Ok(Fetched::Broken(remains));
        }
        match self.read_block(number, true) {
            Ok(block) if !(checks.loaded && self.is_judged) || self.serves_all(&block) => {
                Ok(Fetched::Whole(if checks.passing { self.slots.pass(block) } else { self.slots.keep(number, block) }))
            }
            Err(error) if !error.is_corruption() => Err(error),
            _ => {
                self.watch.doubted();
                self.restore(number)
            }
        }
    }

    /// Replaces an untrusted block in memory by a repaired one, or by its readable part.
    #[cold]
    pub(in crate::sst) fn restore(&self, number: usize) -> Result<Fetched> {
        if let Some(remains) = self.wounds.find(number) {
            return Ok(Fetched::Broken(remains));
        }
        let before = self.last_before(number);
        let known = before.as_ref().map(|(key, seqno)| (&key[..], *seqno));
        let offset = self.offset_of(number);
        match self.recover(number, &*self.keeper, TRIES, known)? {
            Recovered::Whole(block, remedy, _) => {
                drop(self.slots.take(number));
                let block = self.slots.keep(number, block);
                self.watch.healed(&self.name, offset, remedy.unwrap_or(Remedy::ReadAgain));
                Ok(Fetched::Whole(block))
            }
            Recovered::Broken(_, error) if !error.is_corruption() => Err(error),
            Recovered::Broken(remains, error) => {
                drop(self.slots.take(number));
                let remains = Arc::new(remains);
                if self.wounds.add(number, &remains) {
                    let keys = remains.first_gap().map(|gap| (&gap.from.0[..], &gap.to.0[..]));
                    self.watch.damaged(&error.in_family(self.watch.family(), keys));
                }
                Ok(Fetched::Broken(remains))
            }
        }
    }

    /// Returns the last record before a block, if that is more precise than the index.
    fn last_before(&self, number: usize) -> Option<(Vec<u8>, Seqno)> {
        let left = number.checked_sub(1).filter(|_| self.properties.versions != Some(0))?;
        if let Some(remains) = self.wounds.find(left) {
            return match remains.items.last() {
                Some(Item::Whole(kept)) => Some((kept.record().key.to_vec(), kept.record().seqno)),
                _ => None,
            };
        }
        self.read_block(left, false).and_then(|block| block.last()).ok()
    }

    /// Returns true if every record of a block may be returned.
    pub(in crate::sst) fn serves_all(&self, block: &Block) -> bool {
        let judge = self.judge();
        (0..block.len()).all(|at| block.is_whole(at, judge, |_, _| true))
    }

    /// Adds file, block and family to an error.
    #[cold]
    pub(in crate::sst) fn named(&self, error: Error, number: usize) -> Error {
        let error = self.at_block(error, number);
        if self.watch.family().is_empty() { error } else { error.in_family(self.watch.family(), None) }
    }

    /// Reads a block from its file. If its check fails, rereads it up to `tries` times bypassing the page cache, then
    /// tries to correct it (unless `tries` is 0). `before`: the record directly before the block, if known.
    pub(in crate::sst) fn recover(
        &self,
        number: usize,
        keeper: &dyn Companions,
        tries: usize,
        before: Option<(&[u8], Seqno)>,
    ) -> Result<Recovered> {
        let index = &self.trusted_part_of(number)?.index;
        let Some(handle) = index.handle(number) else {
            return Err(Error::structural("a block that the index does not name"));
        };
        let protection = promised(&self.properties, keeper);
        let (mut bytes, mut error) = (Vec::new(), None);
        for again in 0..=tries {
            if again > 0 {
                self.drop_pages(handle);
            }
            let read = self.read_or_probe(handle);
            match read.map(|framed| (self.whole(&framed, handle, keeper, protection), framed)) {
                Ok((Ok((block, check)), _)) => {
                    return Ok(Recovered::Whole(block, (again > 0).then_some(Remedy::ReadAgain), check));
                }
                Ok((Err(found), framed)) => (bytes, error) = (framed, Some(found)),
                // The bytes of an earlier read are more useful than a current device error.
                Err(found) => error = error.or(Some(found)),
            }
        }
        if tries > 0 && !bytes.is_empty() && self.correct(&mut bytes, handle, keeper, protection) {
            let (block, check) = match is_confirmed() {
                true => self.whole(&bytes, handle, keeper, protection)?,
                false => (self.load(bytes, handle, true)?, None),
            };
            return Ok(Recovered::Whole(block, Some(Remedy::Corrected), check));
        }
        let error = error.unwrap_or_else(|| Error::structural("a block that cannot be read"));
        let error = error.in_file(&self.name, handle.offset);
        let fits = check(&bytes, &self.expected.uid, Role::Data, handle).is_ok();
        let site = self.site(index, number, keeper, before, (&error, fits));
        let left = if bytes.is_empty() { nothing(&site) } else { glean(&bytes, handle, &site) };
        Ok(Recovered::Broken(left, error))
    }

    /// Reads a block with its trailer. A long gap of a rebuilt table is only probed piece by piece, and its bytes are
    /// discarded. Errors: device errors.
    pub(in crate::sst) fn read_or_probe(&self, handle: &Handle) -> Result<Vec<u8>> {
        if handle.crc != LOST || handle.bytes() <= MOST_GAP_BYTES {
            return read_framed(&self.name, &*self.file, handle);
        }
        let mut piece = vec![0; MOST_GAP_BYTES];
        let mut at = handle.offset;
        while at < handle.end() {
            let part = (handle.end() - at).min(MOST_GAP_BYTES as u64) as usize;
            read_into(&*self.file, at, &mut piece[..part]).map_err(|error| read_error(&self.name, at, error))?;
            at += part as u64;
        }
        Ok(Vec::new())
    }

    /// Returns the block, if its CRC matches, its format is valid and every record may be returned. Also returns the
    /// records' check result, if it is the same for all.
    fn whole(
        &self,
        framed: &[u8],
        handle: &Handle,
        keeper: &dyn Companions,
        protection: Protection,
    ) -> Result<(Block, Option<Check>)> {
        let block = self.load(framed.to_vec(), handle, true)?;
        let (mut first, mut same) = (None, true);
        block.each(&mut Vec::new(), |record| match keeper.verify(record, hash_key(record.key), protection) {
            check if check.serves() => {
                same &= *first.get_or_insert(check) == check;
                Ok(())
            }
            check => Err(mismatch(record, check)),
        })?;
        Ok((block, first.filter(|_| same)))
    }

    /// Lets the protector correct a block; every record must then be confirmed by its seal.
    fn correct(&self, framed: &mut [u8], handle: &Handle, keeper: &dyn Companions, protection: Protection) -> bool {
        let seed = block_seed(&self.expected.uid, handle.offset, Role::Data);
        let mut key = Vec::new();
        keeper.correct(framed, seed, &mut |candidate| {
            let confirmed = self.load(candidate.to_vec(), handle, false).and_then(|block| {
                block.each(&mut key, |record| match keeper.verify(record, hash_key(record.key), protection) {
                    Check::Validated => Ok(()),
                    _ if !is_confirmed() => Ok(()),
                    check => Err(mismatch(record, check)),
                })
            });
            confirmed.is_ok()
        })
    }

    /// Collects the context of a block for salvage.
    fn site<'a>(
        &'a self,
        index: &Index,
        number: usize,
        keeper: &'a dyn Companions,
        before: Option<(&[u8], Seqno)>,
        (error, fits): (&Error, bool),
    ) -> Site<'a> {
        let single = self.properties.versions == Some(0);
        let from = match (number.checked_sub(1), before) {
            (None, _) => (self.properties.smallest.clone(), MAX_SEQNO),
            (Some(_), Some((key, seqno))) => after(&self.order, key, seqno, single),
            // The separator may be the last key of the block before, with versions that continue here.
            (Some(left), None) => (index.separator(left), if single { 0 } else { MAX_SEQNO }),
        };
        let to = match number + 1 == self.blocks() {
            true => (self.properties.largest.clone(), 0),
            false => (index.separator(number), 0),
        };
        let offset = index.handle(number).map_or(0, |handle| handle.offset);
        Site {
            order: &self.order,
            base: self.base,
            keeper,
            protection: promised(&self.properties, keeper),
            span: [from, to],
            bound: self.properties.greatest_seqno,
            single,
            dictionary: self.dictionary.as_deref(),
            more_beside: self.properties.may_have_more_beside(),
            fits,
            file: &self.name,
            seed: block_seed(&self.expected.uid, offset, Role::Data),
            offset,
            verdict: error.damage().map_or(Verdict::Missing, |damage| damage.verdict),
        }
    }

    /// Drops the operating system's cached pages of a block.
    fn drop_pages(&self, handle: &Handle) {
        let from = handle.offset / PAGE_BYTES * PAGE_BYTES;
        let to = handle.end().next_multiple_of(PAGE_BYTES);
        self.file.advise(from, to - from, false);
    }
}
