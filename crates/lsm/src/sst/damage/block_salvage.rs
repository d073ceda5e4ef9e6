//! Block salvage: extracts the trustworthy entries of a damaged block from its body. Pure.
//!
//! In:    the bytes of a block, and its context: its position, the protector, and bounds on its records.
//! Out:   its trustworthy records in order, and gaps between them: ranges in which records were lost.
//! Costs: up to `MOST_WORK` of hashing; no fast path waits for this.
//! Holds: a record is trusted if its seal matches. A record without a seal is trusted only if the block's CRC matches,
//!        so that only its neighbors can be damaged. A block whose CRC differs from the one in its index is taken for
//!        another block, or an older copy, and is lost entirely. The same holds for a block whose records are all
//!        intact although its CRC does not match. Two records are adjacent only if the first one's bytes end where the
//!        second one's begin. Otherwise there is a gap between them, and reads of it report the loss. The seal does not
//!        cover the companions besides the seal. A record that is followed neither by the end of the entries nor by an
//!        apparent record may have lost some of them, and is lost.
//!
//! A compressed body is used as far as its decoder gets. In an uncompressed body, the scan continues after an
//! unreadable entry: at the entry's declared end if it has one, else byte by byte until it finds an entry whose seal
//! matches. Entries share a prefix with the restart of their group; if the restart is damaged, the prefix is guessed
//! from the keys around it.

use std::cmp::Ordering;
use std::ops::Range;

use crate::checksum::{crc, hash_key};
use crate::codec::Reader;
use crate::error::Verdict;
use crate::lost_range::LostRange;
use crate::order::Order;
use crate::record::{Kind, MAX_KEY_BYTES, MAX_SEQNO, Record, Seqno, companion};
use crate::seam::{Check, Companions, Protection};
use crate::sst::block::codec::Dictionary;
use crate::sst::block::entry::{BlockEntry, BlockTrailer, LEAST_ENTRY_BYTES, checked_seqno};
use crate::sst::block::frame::{BlockHandle, TRAILER_BYTES, companion_of, unpack_readable};
use crate::sst::block::partial_block::{PartialBlock, PartialItem, SalvagedRecord};

/// Maximum number of bytes to hash for one block.
const MOST_WORK: usize = 32 << 20;

/// Maximum size of a record for which single bit flips are tried.
const SEARCHED_BYTES: usize = 4096;

/// Maximum length of an entry header.
const HEADER_BYTES: usize = 1 + 4 * 10;

/// Length of the body's trailer after the restart offsets: count and the rest.
const TAIL_BYTES: usize = 8;

/// The context of a block: everything known besides its bytes.
pub(in crate::sst) struct SalvageContext<'a> {
    pub(in crate::sst) order: &'a Order,
    /// The base that seqnos in the block are relative to.
    pub(in crate::sst) base: Seqno,
    pub(in crate::sst) protector: &'a dyn Companions,
    pub(in crate::sst) protection: Protection,
    /// The first and last possible position of the block's records.
    pub(in crate::sst) span: [(Vec<u8>, Seqno); 2],
    /// Upper bound of the table's seqnos.
    pub(in crate::sst) bound: Seqno,
    /// No key has two versions in this table.
    pub(in crate::sst) single: bool,
    /// Companions may be longer than one word.
    pub(in crate::sst) more_beside: bool,
    /// The block's CRC matches: it was damaged before its CRC was computed, or the CRC missed the damage.
    pub(in crate::sst) fits: bool,
    /// Start value of that CRC.
    pub(in crate::sst) seed: u32,
    pub(in crate::sst) file: &'a str,
    pub(in crate::sst) offset: u64,
    pub(in crate::sst) verdict: Verdict,
    /// The dictionary that the block was compressed with.
    pub(in crate::sst) dictionary: Option<&'a Dictionary>,
}

/// Salvages a framed block.
pub(in crate::sst) fn salvage(framed: &[u8], handle: &BlockHandle, site: &SalvageContext<'_>) -> PartialBlock {
    if site.protector.protection() == Protection::None && !site.fits {
        return nothing(site); // without seals no record can be verified
    }
    let Some((stored, trailer)) = framed.split_at_checked(framed.len().saturating_sub(TRAILER_BYTES)) else {
        return nothing(site);
    };
    let codec = trailer.first().copied().unwrap_or(0);
    if !site.fits && trailer.get(1..) != Some(&handle.crc.to_le_bytes()) {
        return nothing(site); // the stored bytes may as well be another block, damaged
    }
    let (body, column) = unpack_readable(stored, codec, handle, site.dictionary);
    let plain = (body.len() + column.as_ref().map_or(0, Vec::len) <= stored.len()).then_some(stored);
    let mut walk = SalvageScan::new(site, body, column);
    walk.run();
    let explained = site.fits || walk.has_losses() || plain.is_some_and(|stored| walk.fits_now(stored, codec, handle));
    if explained { walk.finish() } else { nothing(site) }
}

/// An apparent entry of the body.
#[derive(Clone, Debug)]
struct ApparentEntry {
    kind: Kind,
    shared: usize,
    suffix: Range<usize>,
    value: Range<usize>,
    seqno: Seqno,
    /// End of its companions, if they are inline.
    end: usize,
}

/// The scan of a damaged body.
struct SalvageScan<'a> {
    site: &'a SalvageContext<'a>,
    body: Vec<u8>,
    /// The words of the column.
    column: Option<Vec<u8>>,
    /// The body's trailer, if it can be read.
    shape: Option<BlockTrailer>,
    /// Offsets of restarts, as long as they ascend.
    restarts: Vec<usize>,
    items: Vec<PartialItem>,
    /// Offsets of the salvaged entries.
    kept_at: Vec<usize>,
    /// Key and seqno of the last salvaged entry.
    last: Option<(Vec<u8>, Seqno)>,
    /// The prefix that entries of this group were found to share, if their restart is lost.
    found_start: Vec<u8>,
    /// Offset and key of the last trusted restart.
    restart: Option<(usize, Vec<u8>)>,
    /// Damage was found that cost no record.
    hit_beside: bool,
    /// Column position of the next entry.
    index: usize,
    work: usize,
}

impl<'a> SalvageScan<'a> {
    fn new(site: &'a SalvageContext<'a>, body: Vec<u8>, column: Option<Vec<u8>>) -> SalvageScan<'a> {
        let shape = BlockTrailer::read(&body).ok();
        let restarts = shape.map(|shape| restarts(&body, &shape)).unwrap_or_default();
        SalvageScan {
            site,
            body,
            column,
            shape,
            restarts,
            items: Vec::new(),
            kept_at: Vec::new(),
            last: None,
            found_start: Vec::new(),
            restart: None,
            hit_beside: false,
            index: 0,
            work: MOST_WORK,
        }
    }

    fn run(&mut self) {
        let mut at = 0;
        // `beside`: the entry at `at` begins where the last salvaged one ends. `here`: an entry must begin at `at`.
        let (mut beside, mut here) = (true, true);
        loop {
            if let Some(end) = self.take(at, beside, here) {
                // An entry that overlaps the start of a group, or whose companion list is damaged, may have swallowed a
                // missing entry.
                let is_sure = !self.reaches_over(at, end) && !self.may_have_swallowed();
                (at, beside, here) = (end, is_sure, true);
                continue;
            }
            if self.is_end(at, beside) {
                if let Some(group) = self.swallowed_before(at).filter(|_| beside) {
                    self.lose_behind(group);
                    beside = false;
                }
                break;
            }
            if beside && self.lacks_something(at) {
                self.lose_all_but(self.kept_at.len().saturating_sub(1));
            }
            beside = false;
            match self.resume(at) {
                Some((next, claimed)) => (at, here) = (next, claimed),
                None => break,
            }
        }
        if !(beside && self.is_end(at, beside)) {
            // If one entry is missing from its group, the last one was damaged in place. If more are missing, or only
            // zeros are left there, the loss may be anywhere in the group.
            let end = self.shape.map(|shape| shape.entries_end as usize).filter(|end| *end != at);
            let place = end.map(|end| self.body.get(at..end).unwrap_or_default());
            let is_blank = !self.site.fits && place.is_some_and(|place| place.iter().all(|byte| *byte == 0));
            let group = self.restarts.partition_point(|restart| *restart <= at).checked_sub(1);
            if let Some(group) = group.filter(|_| is_blank) {
                self.lose_behind(self.restarts[group]);
            }
            self.lose_up_to(self.site.span[1].clone());
        }
    }

    fn finish(self) -> PartialBlock {
        PartialBlock { items: self.items }
    }

    /// Records the loss of everything between the last salvaged entry and this position. If no record fits between
    /// them, nothing is lost.
    fn lose_up_to(&mut self, to: (Vec<u8>, Seqno)) {
        let from = self.behind_last();
        match self.site.order.compare_internal((&from.0, from.1), (&to.0, to.1)) {
            Ordering::Greater => self.hit_beside = true,
            _ => self.items.push(PartialItem::Lost(gap(self.site, from, to))),
        }
    }

    /// Returns true if an entry is lost or damaged, which explains the CRC mismatch.
    fn has_losses(&self) -> bool {
        self.hit_beside
            || self.items.iter().any(|item| match item {
                PartialItem::Lost(_) => true,
                PartialItem::Record(kept) => kept.check == Check::CompanionDamaged,
            })
    }

    /// Returns true if the CRC matches after the bit corrections made.
    fn fits_now(&self, stored: &[u8], codec: u8, handle: &BlockHandle) -> bool {
        let behind = stored.get(self.body.len()..).unwrap_or_default();
        crc(self.site.seed, &[&self.body, behind, &[codec]]) == handle.crc
    }

    fn behind_last(&self) -> (Vec<u8>, Seqno) {
        match &self.last {
            None => self.site.span[0].clone(),
            Some((key, seqno)) => after(self.site.order, key, *seqno, self.site.single),
        }
    }

    /// Salvages the entry at `at` if it can be trusted there, and returns its end.
    fn take(&mut self, at: usize, beside: bool, here: bool) -> Option<usize> {
        let seeming = self.seeming(at);
        if let Some(entry) = &seeming
            && let Some((key, check, index)) = self.believed(at, entry, here, true)
        {
            return self.keep(at, entry, key, (check, index), beside);
        }
        if !here {
            return None;
        }
        let reach = seeming.map_or(HEADER_BYTES, |entry| entry.end - at);
        if reach > SEARCHED_BYTES {
            return None;
        }
        // Reserve most of the work budget for the rest of the block.
        let spared = self.work - self.work / 4;
        self.work -= spared;
        let found = self.one_bit(at, reach);
        self.work += spared;
        let (bit, entry, key, index) = found?;
        self.body[bit / 8] ^= 1 << (bit % 8);
        self.keep(at, &entry, key, (Check::Validated, index), beside)
    }

    /// Finds the single bit flip that makes the entry at `at` match its seal, and returns that entry. Returns none if
    /// two flips match.
    fn one_bit(&mut self, at: usize, reach: usize) -> Option<(usize, ApparentEntry, Vec<u8>, usize)> {
        let mut survivor: Option<(usize, ApparentEntry, Vec<u8>, usize)> = None;
        for bit in at * 8..(at + reach).min(self.body.len()) * 8 {
            self.body[bit / 8] ^= 1 << (bit % 8);
            let found = self.seeming(at).and_then(|entry| {
                let (key, check, index) = self.believed(at, &entry, false, false)?;
                (check == Check::Validated).then_some((bit, entry, key, index))
            });
            self.body[bit / 8] ^= 1 << (bit % 8);
            if found.is_some() && survivor.is_some() {
                return None;
            }
            survivor = survivor.or(found);
        }
        survivor.filter(|_| self.work > 0) // otherwise not all flips were tried
    }

    fn keep(
        &mut self,
        at: usize,
        entry: &ApparentEntry,
        key: Vec<u8>,
        (check, index): (Check, usize),
        beside: bool,
    ) -> Option<usize> {
        let misplaced = self.misplaced(at, entry).or_else(|| self.swallowed_before(at).filter(|_| beside));
        if let Some(group) = misplaced {
            self.lose_behind(group);
        }
        if self.site.more_beside && self.reaches_over(at, entry.end) {
            self.index = index + 1;
            return Some(entry.end); // what reaches over may be what became of its own list
        }
        if misplaced.is_some() || !(beside && index == self.index) {
            self.lose_up_to(before(&key, entry.seqno, self.site.bound, self.site.single));
        }
        let mut bytes = self.body[entry.value.clone()].to_vec();
        match &self.column {
            Some(column) => bytes.extend_from_slice(&companion_of(column.get(index * 8..)?.get(..8)?)),
            None => bytes.extend_from_slice(&self.body[entry.value.end..entry.end]),
        }
        if entry.shared == 0 {
            self.restart = Some((at, key.clone()));
            self.found_start.clear();
        }
        let kept = SalvagedRecord {
            key: key.clone(),
            seqno: entry.seqno,
            kind: entry.kind,
            bytes,
            value_len: entry.value.len(),
            check,
        };
        self.last = Some((key, entry.seqno));
        self.kept_at.push(at);
        self.index = index + 1;
        self.items.push(PartialItem::Record(kept));
        Some(entry.end)
    }

    /// Returns the start of a group with an entry missing or added at an unknown position: the entry at `at` overlaps
    /// the start of the next group, or is at the start of a group without being a restart.
    fn misplaced(&self, at: usize, entry: &ApparentEntry) -> Option<usize> {
        if self.site.fits {
            return None;
        }
        let passed = self.restarts.partition_point(|restart| *restart <= at);
        let own = passed.checked_sub(1)?;
        let follows = self.restarts[own] == at && entry.shared > 0;
        let across = self.reaches_over(at, entry.end);
        let from = if follows { own.saturating_sub(1) } else { own };
        (follows || across).then(|| self.restarts[from])
    }

    /// Returns true if an entry from `at` to `end` overlaps the start of the next group.
    fn reaches_over(&self, at: usize, end: usize) -> bool {
        let passed = self.restarts.partition_point(|restart| *restart <= at);
        !self.site.fits && self.restarts.get(passed).is_some_and(|restart| *restart < end)
    }

    /// Returns the start of the group that ends at `at`, if its entries are contiguous but too few. Then a companion
    /// with a damaged length covers a record, and it is unknown which one.
    fn swallowed_before(&self, at: usize) -> Option<usize> {
        let shape = self.shape.filter(|_| !self.site.fits)?;
        let ends = if shape.entries_end as usize == at {
            self.restarts.len()
        } else {
            self.restarts.binary_search(&at).ok()?
        };
        let number = ends.checked_sub(1)?;
        let first = self.restarts[number];
        let whole = (shape.count as usize).checked_sub(number * usize::from(shape.interval))?;
        let kept = &self.kept_at[self.kept_at.partition_point(|kept| *kept < first)..];
        let side_by_side = self.items.iter().rev().take(kept.len()).all(|item| matches!(item, PartialItem::Record(_)));
        let is_short = kept.len() < whole.min(usize::from(shape.interval));
        (kept.first() == Some(&first) && side_by_side && is_short).then_some(first)
    }

    /// Drops the entries salvaged after the start of a group, and leaves a gap instead. Also drops the restart itself
    /// if its companion list may have grown over the others.
    fn lose_behind(&mut self, group: usize) {
        self.lose_all_but(self.kept_at.partition_point(|at| *at < group + usize::from(!self.site.more_beside)));
    }

    /// Drops all but the first `count` salvaged entries.
    fn lose_all_but(&mut self, count: usize) {
        while self.kept_at.len() > count {
            self.kept_at.pop();
            while matches!(self.items.pop(), Some(PartialItem::Lost(_))) {}
        }
        while matches!(self.items.last(), Some(PartialItem::Lost(_))) {
            self.items.pop();
        }
        self.last = self.items.last().and_then(|item| match item {
            PartialItem::Record(kept) => Some((kept.key.clone(), kept.seqno)),
            PartialItem::Lost(_) => None,
        });
    }

    /// Returns true if the last salvaged record's companion list is damaged, so that its end may belong to another
    /// record.
    fn may_have_swallowed(&self) -> bool {
        let hit = |kept: &SalvagedRecord| {
            kept.check == Check::CompanionDamaged && !companion::is_bare(kept.record().companion)
        };
        self.column.is_none() && matches!(self.items.last(), Some(PartialItem::Record(kept)) if hit(kept))
    }

    /// Returns true if the last salvaged record may be incomplete: the unreadable bytes at its end, `at`, may be the
    /// rest of its companions. They are not a damaged record, which would have a possible next key and end where
    /// another entry, or the entries, end. For a record without a seal, only the bytes after it show where its value
    /// ends.
    fn lacks_something(&self, at: usize) -> bool {
        let is_unsealed =
            |item: &PartialItem| matches!(item, PartialItem::Record(kept) if kept.check == Check::Unverified);
        if self.site.fits || !self.site.more_beside || self.column.is_some() {
            return self.items.last().is_some_and(is_unsealed);
        }
        let begins = |at: usize| self.body.get(at).is_some_and(|byte| Kind::from_byte(*byte).is_some());
        let is_last = |at: usize| self.shape.is_some_and(|shape| shape.entries_end as usize == at);
        let could_be_next = |entry: &ApparentEntry| {
            let key = |start: Vec<u8>| [&start, &self.body[entry.suffix.clone()]].concat();
            self.starts(at, entry.shared).into_iter().any(|start| self.is_in_place(&key(start), entry.seqno))
        };
        !self.seeming(at).is_some_and(|entry| (is_last(entry.end) || begins(entry.end)) && could_be_next(&entry))
    }

    /// Returns the apparent entry at `at`.
    fn seeming(&self, at: usize) -> Option<ApparentEntry> {
        let entry = BlockEntry::read(&self.body, at).ok()?;
        let seqno = checked_seqno(&entry, self.site.base).ok()?;
        let end = match self.column {
            Some(_) => entry.value_end,
            None => {
                let mut reader = Reader::starting_at(&self.body, entry.value_end);
                let taken = companion::take(&mut reader).ok()?;
                entry.value_end + self.own(taken)
            }
        };
        let (suffix, value) = (entry.suffix_at..entry.value_at, entry.value_at..entry.value_end);
        let within = entry.shared + suffix.len() <= MAX_KEY_BYTES && entry.kind.is_supported();
        within.then_some(ApparentEntry { kind: entry.kind, shared: entry.shared, suffix, value, seqno, end })
    }

    /// Returns how many bytes of an apparent companion list can belong to its record. Damage may have turned the next
    /// record's kind byte into a companion's.
    fn own(&self, companions: &[u8]) -> usize {
        match companions.first() {
            _ if self.site.more_beside => companion::up_to_a_second_word(companions),
            Some(&companion::WORD8) => companion::WORD8_BYTES,
            Some(&companion::WORD4) => companion::WORD4_BYTES,
            _ => 0,
        }
    }

    /// Returns the key, the check result and the column position with which an entry can be trusted. `here`: an entry
    /// must begin at this offset, so weaker evidence than a seal suffices. `guess`: the shared prefix of its key may be
    /// guessed.
    fn believed(
        &mut self,
        at: usize,
        entry: &ApparentEntry,
        here: bool,
        guess: bool,
    ) -> Option<(Vec<u8>, Check, usize)> {
        let here = here || (self.site.fits && self.restarts.binary_search(&at).is_ok());
        for start in self.starts(at, entry.shared) {
            if let Some((check, index)) = self.confirmed(&start, entry, here) {
                return Some(([&start, &self.body[entry.suffix.clone()]].concat(), check, index));
            }
        }
        let sealed = self.column.is_some() || entry.end > entry.value.end;
        if guess && sealed && entry.shared > 0 && !self.has_restart(at) {
            return self.guessed(at, entry);
        }
        None
    }

    /// Returns candidates for the shared prefix of an entry's key.
    fn starts(&self, at: usize, shared: usize) -> Vec<Vec<u8>> {
        if shared == 0 {
            return vec![Vec::new()];
        }
        let mut starts: Vec<Vec<u8>> = Vec::new();
        for key in self.keys_around(at) {
            if let Some(start) = key.get(..shared)
                && !starts.iter().any(|known| known == start)
            {
                starts.push(start.to_vec());
            }
        }
        starts
    }

    /// Returns keys that may share a prefix with the group at `at`, the likeliest first.
    fn keys_around(&self, at: usize) -> Vec<Vec<u8>> {
        let suffix = |at: usize| self.seeming(at).map(|entry| self.body[entry.suffix].to_vec());
        let passed = self.restarts.partition_point(|restart| *restart <= at);
        let mut keys = vec![self.found_start.clone()];
        keys.extend(passed.checked_sub(1).and_then(|own| suffix(self.restarts[own])));
        keys.extend(self.restart.as_ref().map(|(_, key)| key.clone()));
        keys.extend(self.last.as_ref().map(|(key, _)| key.clone()));
        keys.extend(self.restarts.get(passed).and_then(|next| suffix(*next)));
        keys.extend(self.site.span.iter().map(|(key, _)| key.clone()));
        keys
    }

    /// Returns true if the restart of the group at `at` was salvaged.
    fn has_restart(&self, at: usize) -> bool {
        let passed = self.restarts.partition_point(|restart| *restart <= at);
        let own = passed.checked_sub(1).map(|own| self.restarts[own]);
        own.is_some() && own == self.restart.as_ref().map(|(at, _)| *at)
    }

    /// Guesses the shared prefix of an entry's key by changing one byte of candidates.
    fn guessed(&mut self, at: usize, entry: &ApparentEntry) -> Option<(Vec<u8>, Check, usize)> {
        for base in self.starts(at, entry.shared) {
            for place in (0..base.len()).rev() {
                for byte in 0..=u8::MAX {
                    let mut start = base.clone();
                    start[place] = byte;
                    if let Some((Check::Validated, index)) = self.confirmed(&start, entry, false) {
                        let key = [&start, &self.body[entry.suffix.clone()]].concat();
                        self.found_start = start;
                        return Some((key, Check::Validated, index));
                    }
                }
            }
        }
        None
    }

    /// Checks an entry with this key prefix for its position and its seal. Returns the result and the column position.
    fn confirmed(&mut self, start: &[u8], entry: &ApparentEntry, here: bool) -> Option<(Check, usize)> {
        let key = [start, &self.body[entry.suffix.clone()]].concat();
        if !self.is_in_place(&key, entry.seqno) {
            return None;
        }
        let hash = hash_key(&key);
        let words = self.column.as_ref().map_or(1, |column| (column.len() / 8).saturating_sub(self.index));
        // In a column, the next word belongs to the entry, unless entries before it were lost.
        for skipped in 0..words.min(if here { 1 } else { 64 }) {
            let cost = key.len() + entry.value.len() + 64;
            self.work = self.work.saturating_sub(cost);
            if self.work == 0 {
                return None;
            }
            let index = self.index + skipped;
            let from_column;
            let companion = match &self.column {
                None => &self.body[entry.value.end..entry.end],
                Some(column) => {
                    from_column = companion_of(column.get(index * 8..)?.get(..8)?);
                    &from_column
                }
            };
            let value = &self.body[entry.value.clone()];
            let record = Record { key: &key, seqno: entry.seqno, kind: entry.kind, value, companion };
            let check = self.site.protector.verify(&record, hash, self.site.protection);
            let believed = match check {
                Check::Validated => true,
                Check::CompanionDamaged => here,
                Check::Unverified => here && self.site.fits,
                Check::Missing | Check::Corrupted => false,
            };
            if believed {
                return Some((check, index));
            }
        }
        None
    }

    /// Returns true if a record at this position may come next in order.
    fn is_in_place(&self, key: &[u8], seqno: Seqno) -> bool {
        let order = self.site.order;
        let [from, to] = &self.site.span;
        let place = (key, seqno);
        seqno <= self.site.bound
            && order.compare_internal((&from.0, from.1), place) != Ordering::Greater
            && order.compare_internal(place, (&to.0, to.1)) != Ordering::Greater
            && self.last.as_ref().is_none_or(|last| order.compare_internal((&last.0, last.1), place) == Ordering::Less)
    }

    /// Finds where to continue after a lost entry at `at`: at the next record whose seal matches. Also returns whether
    /// an entry must begin there.
    fn resume(&mut self, at: usize) -> Option<(usize, bool)> {
        let end = self.shape.map_or(self.body.len(), |shape| shape.entries_end as usize).max(at + 1);
        // In a block whose CRC matches, an entry ends where it says.
        let claimed = self.seeming(at).map(|entry| entry.end).filter(|_| self.site.fits);
        let last = self.body.len().min(end).saturating_sub(LEAST_ENTRY_BYTES);
        for next in at + 1..=last {
            let Some(entry) = self.seeming(next) else { continue };
            let here = claimed == Some(next);
            if self.believed(next, &entry, here, true).is_some() {
                return Some((next, here));
            }
            if self.work == 0 {
                return None;
            }
        }
        None
    }

    /// Returns true if the entries end at `at`.
    fn is_end(&self, at: usize, beside: bool) -> bool {
        if self.shape.is_some_and(|shape| shape.entries_end as usize == at) {
            return true;
        }
        if !beside || self.items.iter().any(|item| matches!(item, PartialItem::Lost(_))) {
            return false;
        }
        ends_here(&self.body, at, &self.kept_at)
    }
}

/// Returns the position directly after a record. `single`: the key has no other version in this table.
pub(in crate::sst) fn after(order: &Order, key: &[u8], seqno: Seqno, single: bool) -> (Vec<u8>, Seqno) {
    if (single || seqno == 0) && order.is_bytewise() && key.len() < MAX_KEY_BYTES {
        return ([key, &[0]].concat(), MAX_SEQNO);
    }
    (key.to_vec(), seqno.saturating_sub(1))
}

/// Returns the position directly before a record. If its key has no other version in this table, returns the position
/// before all versions of the key up to `bound`.
pub(in crate::sst) fn before(key: &[u8], seqno: Seqno, bound: Seqno, single: bool) -> (Vec<u8>, Seqno) {
    let newer = if single { seqno.max(bound) } else { seqno };
    (key.to_vec(), (newer + 1).min(MAX_SEQNO))
}

/// Returns a readable part without records: the whole block is one gap.
pub(in crate::sst) fn nothing(site: &SalvageContext<'_>) -> PartialBlock {
    let [from, to] = site.span.clone();
    PartialBlock { items: vec![PartialItem::Lost(gap(site, from, to))] }
}

pub(in crate::sst) fn gap(site: &SalvageContext<'_>, from: (Vec<u8>, Seqno), to: (Vec<u8>, Seqno)) -> LostRange {
    let (file, offset, verdict) = (site.file.to_owned(), site.offset, site.verdict);
    LostRange { from, to, bound: site.bound, file, offset, verdict }
}

/// Returns the offsets of a body's restarts, as long as they ascend within its entries.
fn restarts(body: &[u8], shape: &BlockTrailer) -> Vec<usize> {
    let end = shape.entries_end as usize;
    let words = body[end..body.len() - TAIL_BYTES].chunks_exact(4);
    let offsets = words.filter_map(|word| word.first_chunk().map(|word| u32::from_le_bytes(*word) as usize));
    let mut ascending: Vec<usize> = Vec::new();
    for offset in offsets.filter(|offset| *offset < end) {
        if ascending.last().is_none_or(|last| *last < offset) {
            ascending.push(offset);
        }
    }
    ascending
}

/// Returns true if the bytes after these entries are the trailer of their body, possibly damaged. The entries must be
/// all entries from the start; two of the trailer's three parts must match them.
fn ends_here(body: &[u8], at: usize, entries: &[usize]) -> bool {
    let Some(words) = body.len().checked_sub(TAIL_BYTES + at) else { return false };
    let count = words / 4;
    if words % 4 != 0 || count == 0 || count > entries.len() {
        return false;
    }
    let tail = &body[body.len() - TAIL_BYTES..];
    let claimed = tail.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize);
    let interval = tail[4] as usize;
    let fits = interval > 0 && entries.len().div_ceil(interval) == count;
    let named = body[at..body.len() - TAIL_BYTES].chunks_exact(4).enumerate().all(|(number, word)| {
        let spread = entries.len().div_ceil(count);
        let offset = word.first_chunk().map_or(usize::MAX, |word| u32::from_le_bytes(*word) as usize);
        let index = if interval > 0 { number * interval } else { number * spread };
        entries.get(index) == Some(&offset)
    });
    [claimed == entries.len(), fits, named].into_iter().filter(|says| *says).count() >= 2
}
