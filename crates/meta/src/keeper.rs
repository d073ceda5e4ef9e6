//! The keeper: what the engine's seam calls, so that every record is born with a seal and keeps it.
//!
//! ```text
//! on_write   the caller's thread, no lock: AA | B behind the operation, into the log as it is
//! bind       the seqno is known: B becomes C(seqno), without the record
//! on_build   flush and compaction: the seal goes on as it came; nothing is made anew
//! verify     the verifying pass, reads, scrubs: the record asks for a word, and this is it or not
//! term       B again, the same in log, memtable and table, so that the ledger closes over every job
//! ```
//!
//! Holds: a seal is computed for a new value only, never for one that a copy carries (else damage on the way would be sealed
//! in). A record without a seal stays without, unless its store is known to have been unprotected; then it is adopted, and
//! counted. Nothing here allocates but `out`, and no counter is shared between cores that read.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use waxseal_lsm::batch::Batch;
use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::codec::Reader;
use waxseal_lsm::error::{self, Damage, Error, Result};
use waxseal_lsm::record::{Kind, Record, Seqno, companion};
use waxseal_lsm::seam::{Build, Check, Collector, Companions, Draft, DropReason, Emitted, Protection};

use crate::correct::{Outcome, correct};
use crate::seal::Seal;
use crate::verdict::{Found, Verdict, judge};

/// The algorithm by which seals are made here. docs/format.md, section 7.
pub const ALGORITHM: u64 = 1;

/// Bytes of a seal as a companion: its kind and its word.
pub const SEAL_BYTES: usize = 9;

/// When a seal is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SealPoint {
    /// On the caller's thread, when the operation goes into its batch.
    #[default]
    Put,
    /// When a table is built, as the paper does: puts cost nothing more, log and memtable stay uncovered. For comparison; a
    /// seal that was lost is made anew in silence there.
    Flush,
}

/// What becomes of a record that reaches a table without a seal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MissingSeal {
    /// It stays without.
    #[default]
    Leave,
    /// It gets one: its store is known to hold records of a time without seals. Lost seals are found by the ledger all the
    /// same, since the sums of their tables speak of them.
    Adopt,
}

/// The keeper of seals of one store.
#[derive(Debug, Default)]
pub struct Sealer {
    point: SealPoint,
    missing: MissingSeal,
    shards: [Shard; SHARDS],
}

/// What a keeper has done since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Seals made for new operations.
    pub computed: u64,
    /// Seals that callers gave, and that were right.
    pub given: u64,
    /// Seals made for results of verified inputs.
    pub derived: u64,
    /// Seals made for records of unprotected files.
    pub adopted: u64,
    /// Records that went into a table without a seal.
    pub unsealed: u64,
    /// Records found to match their seal.
    pub verified: u64,
    /// Records found not to.
    pub corrupted: u64,
}

const SHARDS: usize = 16;

/// Counts of some threads, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    computed: AtomicU64,
    given: AtomicU64,
    derived: AtomicU64,
    adopted: AtomicU64,
    unsealed: AtomicU64,
    verified: AtomicU64,
    corrupted: AtomicU64,
}

impl Sealer {
    /// A keeper that seals every operation when it is put, and leaves what it meets without a seal as it is.
    pub fn new() -> Sealer {
        Sealer::default()
    }

    /// The same with another moment at which seals are made.
    #[must_use]
    pub fn at(self, point: SealPoint) -> Sealer {
        Sealer { point, ..self }
    }

    /// The same with another way with records that have no seal.
    #[must_use]
    pub fn on_missing(self, missing: MissingSeal) -> Sealer {
        Sealer { missing, ..self }
    }

    /// Adds an operation with a seal that the caller was given. Errors: `Invalid` if it is not the operation's, or beyond the
    /// limits of a batch; the batch is then as it was.
    pub fn push_sealed(
        &self,
        batch: &mut Batch,
        family: u32,
        kind: Kind,
        key: &[u8],
        value: &[u8],
        seal: Seal,
    ) -> Result<()> {
        if Seal::of_operation(kind, key, value) != seal {
            return Err(Error::invalid("the seal given is not that of the key and value given"));
        }
        batch.push_with(family, kind, key, value, &encode(seal.number()))?;
        add(&self.shard().given);
        Ok(())
    }

    /// The seal that stands beside a record, whether or not it matches; none if there is none. Errors: `Corruption` if what stands
    /// there cannot be decoded.
    pub fn seal_of(record: &Record<'_>) -> Result<Option<Seal>> {
        match found(record.companion) {
            Found::Word(word) => Ok(Some(Seal::from_word(word, record.seqno))),
            Found::Nothing => Ok(None),
            Found::Undecodable => Err(Error::structural("the companions of a record cannot be decoded")),
        }
    }

    /// The verdict on a record whose key's `checksum::hash` is at hand. `complete`: its file promises a seal for every record.
    #[inline]
    pub fn judge(&self, record: &Record<'_>, key_hash: u64, complete: bool) -> Verdict {
        let seal = Seal::of_hashed_key(record.kind, key_hash, record.value);
        let verdict = judge(found(record.companion), complete, seal.at(record.seqno));
        match verdict {
            Verdict::Validated => add(&self.shard().verified),
            Verdict::Unverified => {}
            _ => add(&self.shard().corrupted),
        }
        verdict
    }

    /// What was done so far; exact once the threads that did it are known to have come this far.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for shard in &self.shards {
            counts.computed += shard.computed.load(Relaxed);
            counts.given += shard.given.load(Relaxed);
            counts.derived += shard.derived.load(Relaxed);
            counts.adopted += shard.adopted.load(Relaxed);
            counts.unsealed += shard.unsealed.load(Relaxed);
            counts.verified += shard.verified.load(Relaxed);
            counts.corrupted += shard.corrupted.load(Relaxed);
        }
        counts
    }

    #[inline]
    fn shard(&self) -> &Shard {
        &self.shards[shard_of_thread()]
    }

    /// Makes the seal of a record that has none, in front of its other companions.
    fn set(record: &Record<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(&encode(Seal::of_record(record).at(record.seqno)));
        out.extend_from_slice(record.companion);
    }
}

impl Companions for Sealer {
    fn on_write(&self, draft: &Draft<'_>, out: &mut Vec<u8>) -> Result<()> {
        if self.point == SealPoint::Put {
            out.extend_from_slice(&encode(Seal::of_operation(draft.kind, draft.key, draft.value).number()));
            add(&self.shard().computed);
        }
        Ok(())
    }

    fn bind(&self, companion: &mut [u8], old: Option<Seqno>, new: Seqno) {
        if let Some(bytes) = word_mut(companion) {
            let word = u64::from_le_bytes(*bytes);
            let bound = match old {
                None => Seal::from_bytes(*bytes).at(new),
                Some(old) => Seal::rebind(word, old, new),
            };
            *bytes = bound.to_le_bytes();
        }
    }

    fn on_build(&self, record: &Record<'_>, _: Protection, out: &mut Vec<u8>) -> Build {
        if found(record.companion) != Found::Nothing {
            return Build::Keep; // what cannot be decoded is kept too, for the verifying pass to find
        }
        let count = match (self.point, self.missing) {
            (SealPoint::Flush, _) => &self.shard().computed,
            (SealPoint::Put, MissingSeal::Adopt) => &self.shard().adopted,
            (SealPoint::Put, MissingSeal::Leave) => {
                add(&self.shard().unsealed);
                return Build::Keep;
            }
        };
        add(count);
        Sealer::set(record, out);
        Build::Set
    }

    fn on_merge(&self, inputs: &[Record<'_>], result: &Record<'_>, out: &mut Vec<u8>) -> Result<()> {
        if let Some(damaged) =
            inputs.iter().find(|input| !self.verify(input, hash_key(input.key), Protection::Partial).serves())
        {
            let damage = Damage {
                verdict: error::Verdict::Seal,
                key_range: Some((damaged.key.to_vec(), damaged.key.to_vec())),
                ..Damage::default()
            };
            return Err(Error::corruption(damage, "an input of a merge does not match its seal"));
        }
        Sealer::set(&Record { companion: &[], ..*result }, out);
        add(&self.shard().derived);
        Ok(())
    }

    fn on_drop(&self, _: &Record<'_>, _: DropReason) {}

    #[inline]
    fn verify(&self, record: &Record<'_>, key_hash: u64, source: Protection) -> Check {
        if source == Protection::Foreign {
            return Check::Unverified;
        }
        match self.judge(record, key_hash, source == Protection::Complete) {
            Verdict::Validated | Verdict::CheckDamaged => Check::Validated,
            Verdict::Unverified => Check::Unverified,
            Verdict::SealDamaged => Check::CompanionDamaged,
            Verdict::Missing => Check::Missing,
            Verdict::RecordDamaged | Verdict::BothDamaged | Verdict::Structural => Check::Corrupted,
        }
    }

    fn term(&self, record: &Record<'_>) -> u64 {
        match found(record.companion) {
            Found::Word(word) => Seal::from_word(word, record.seqno).number(),
            Found::Nothing | Found::Undecodable => 0,
        }
    }

    fn collector(&self) -> Option<Box<dyn Collector>> {
        None
    }

    fn emit(&self, _: u32, _: &Record<'_>, _: &mut Vec<Emitted>) {}

    fn protection(&self) -> Protection {
        Protection::Complete
    }

    fn algorithm(&self) -> u64 {
        ALGORITHM
    }

    fn descriptors(&self) -> Vec<u8> {
        Vec::new()
    }

    fn correct(&self, block: &mut [u8], seed: u32, confirm: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        matches!(correct(block, seed, confirm), Outcome::Corrected(_))
    }
}

/// A word as a companion.
#[inline]
fn encode(word: u64) -> [u8; SEAL_BYTES] {
    let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
    [companion::WORD8, a, b, c, d, e, f, g, h]
}

/// What stands in the place of the seal among a record's companions.
#[inline]
fn found(companion: &[u8]) -> Found {
    match companion {
        [] => Found::Nothing,
        [companion::WORD8, a, b, c, d, e, f, g, h] => Found::Word(u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h])),
        several => match find(several) {
            Ok(None) => Found::Nothing,
            Ok(Some(at)) => match several[at..].first_chunk() {
                Some(bytes) => Found::Word(u64::from_le_bytes(*bytes)),
                None => Found::Undecodable,
            },
            Err(_) => Found::Undecodable,
        },
    }
}

fn word_mut(companion: &mut [u8]) -> Option<&mut [u8; 8]> {
    let at = find(companion).ok()??;
    companion[at..].first_chunk_mut()
}

/// Where the word of the seal stands among several companions. An error if they are not whole, or if there are two seals.
fn find(companions: &[u8]) -> Result<Option<usize>> {
    let mut reader = Reader::new(companions);
    let mut place = None;
    while !reader.is_empty() {
        let kind = reader.u8()?;
        let length = match kind {
            companion::WORD8 => {
                if place.replace(reader.position()).is_some() {
                    return Err(Error::structural("a record with two seals"));
                }
                8
            }
            companion::WORD4 => 4,
            kind if companion::begins(kind) => reader.varint_len()?,
            _ => return Err(Error::structural("bytes that are no companion")),
        };
        reader.bytes(length)?;
    }
    Ok(place)
}

#[inline]
fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// The shard of this thread: threads take turns, so that as many as there are shards never meet.
#[inline]
fn shard_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    // A thread that is ending has no cell any more.
    let shard = SHARD.try_with(|shard| {
        if shard.get() == usize::MAX {
            shard.set(NEXT.fetch_add(1, Relaxed));
        }
        shard.get()
    });
    shard.unwrap_or(0) % SHARDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use waxseal_lsm::batch::Operations;
    use waxseal_lsm::checksum::hash;
    use waxseal_lsm::error::ErrorKind;

    impl Sealer {
        fn check(&self, record: &Record<'_>) -> Check {
            self.verify(record, hash_key(record.key), Protection::Partial)
        }
    }

    /// A sealed record at a seqno, as log and commit make it.
    fn born(sealer: &Sealer, key: &[u8], value: &[u8], seqno: Seqno) -> Vec<u8> {
        let mut companion = Vec::new();
        let draft = Draft { family: 0, kind: Kind::Put, key, value, entries: &[] };
        sealer.on_write(&draft, &mut companion).unwrap();
        sealer.bind(&mut companion, None, seqno);
        companion
    }

    fn put<'a>(key: &'a [u8], value: &'a [u8], seqno: Seqno, companion: &'a [u8]) -> Record<'a> {
        Record { key, seqno, kind: Kind::Put, value, companion }
    }

    #[test]
    fn a_seal_is_born_bound_checked_and_moved() {
        let sealer = Sealer::new();
        let mut companion = born(&sealer, b"k", b"v", 7);
        assert_eq!(companion.len(), SEAL_BYTES);
        let record = put(b"k", b"v", 7, &companion);
        assert_eq!(sealer.check(&record), Check::Validated);
        assert_eq!(sealer.term(&record), Seal::of(b"k", b"v").number());
        assert_eq!(Sealer::seal_of(&record).unwrap(), Some(Seal::of(b"k", b"v")));
        assert_eq!(sealer.judge(&record, hash(b"k"), true), Verdict::Validated);
        assert_eq!(sealer.judge(&put(b"k", b"w", 7, &companion), hash(b"k"), true), Verdict::RecordDamaged);
        assert_eq!(sealer.judge(&put(b"k", b"v", 7, &[]), hash(b"k"), true), Verdict::Missing);
        for wrong in [put(b"j", b"v", 7, &companion), put(b"k", b"v", 8, &companion)] {
            assert_eq!(sealer.check(&wrong), Check::Corrupted);
        }
        sealer.bind(&mut companion, Some(7), 0);
        let zeroed = put(b"k", b"v", 0, &companion);
        assert_eq!((sealer.check(&zeroed), sealer.term(&zeroed)), (Check::Validated, Seal::of(b"k", b"v").number()));
        let counts = sealer.counts();
        assert_eq!((counts.computed, counts.verified, counts.corrupted), (1, 3, 4));
    }

    #[test]
    fn a_given_seal_goes_in_as_it_is_or_not_at_all() {
        let (sealer, mut batch) = (Sealer::new(), Batch::new());
        let seal = Seal::of(b"k", b"v");
        sealer.push_sealed(&mut batch, 4, Kind::Put, b"k", b"v", seal).unwrap();
        let before = batch.seal().bytes;
        let error = sealer.push_sealed(&mut batch, 4, Kind::Put, b"k", b"w", seal).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Invalid);
        assert_eq!(batch.seal().bytes, before);
        let operation = Operations::new(&before).unwrap().next().unwrap().unwrap();
        assert_eq!(operation.companion[1..], seal.to_bytes());
        assert_eq!(sealer.counts(), Counts { given: 1, ..Counts::default() });
    }

    #[test]
    fn tables_carry_seals_and_make_none_unless_told() {
        let (leave, adopt, flush) =
            (Sealer::new(), Sealer::new().on_missing(MissingSeal::Adopt), Sealer::new().at(SealPoint::Flush));
        let list = [companion::LIST, 1, 9];
        let mut out = Vec::new();
        assert_eq!(leave.on_build(&put(b"k", b"v", 7, &list), Protection::Partial, &mut out), Build::Keep);
        assert_eq!(leave.counts(), Counts { unsealed: 1, ..Counts::default() });
        for (sealer, counts) in [
            (&adopt, Counts { adopted: 1, ..Counts::default() }),
            (&flush, Counts { computed: 1, ..Counts::default() }),
        ] {
            out.clear();
            assert_eq!(sealer.on_build(&put(b"k", b"v", 7, &list), Protection::Partial, &mut out), Build::Set);
            assert_eq!(sealer.counts(), counts);
            assert_eq!(leave.check(&put(b"k", b"v", 7, &out)), Check::Validated);
            assert!(out.ends_with(&list));
            // Damaged or not, what has a seal keeps it.
            for kept in [&put(b"k", b"v", 7, &out), &put(b"k", b"w", 7, &out), &put(b"k", b"v", 7, &out[..4])] {
                assert_eq!(sealer.on_build(kept, Protection::Partial, &mut Vec::new()), Build::Keep);
            }
            assert_eq!(sealer.counts(), counts);
        }
        let mut nothing = Vec::new();
        let draft = Draft { family: 0, kind: Kind::Put, key: b"k", value: b"v", entries: &[] };
        flush.on_write(&draft, &mut nothing).unwrap();
        assert!(nothing.is_empty());
    }

    #[test]
    fn a_result_is_sealed_only_if_all_that_it_came_from_is_whole() {
        let sealer = Sealer::new();
        let (a, b) = (born(&sealer, b"k", b"1", 5), born(&sealer, b"k", b"2", 6));
        let (result, mut out) = (put(b"k", b"12", 6, &[]), Vec::new());
        sealer.on_merge(&[put(b"k", b"2", 6, &b), put(b"k", b"1", 5, &a)], &result, &mut out).unwrap();
        assert_eq!(sealer.check(&Record { companion: &out, ..result }), Check::Validated);
        assert_eq!(sealer.counts().derived, 1);
        let damaged = [put(b"k", b"2", 6, &b), put(b"k", b"3", 5, &a)];
        assert!(sealer.on_merge(&damaged, &result, &mut Vec::new()).unwrap_err().is_corruption());
        assert_eq!(sealer.counts().derived, 1);
    }

    #[test]
    fn threads_count_apart_and_together() {
        let sealer = Sealer::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|n: u32| drop(born(&sealer, &n.to_le_bytes(), b"v", 1))));
            }
        });
        assert_eq!(sealer.counts().computed, 4000);
    }

    proptest! {
        #[test]
        fn any_companions_are_read_or_refused(companion: Vec<u8>, seqno: u32, first in 0..7usize) {
            let kinds = [companion::WORD8, companion::WORD4, companion::LIST, 0x0F, 0x3C, 0x55, 0];
            let mut companion = [&[kinds[first]][..], &companion].concat();
            let sealer = Sealer::new();
            let record = put(b"k", b"v", seqno.into(), &companion);
            let (check, term) = (sealer.check(&record), sealer.term(&record));
            prop_assert_ne!(check, Check::Validated);
            if matches!(Sealer::seal_of(&record), Ok(None) | Err(_)) {
                prop_assert_eq!(term, 0);
            }
            // Bound elsewhere, it has the same term there.
            sealer.bind(&mut companion, Some(seqno.into()), 99);
            prop_assert_eq!(sealer.term(&put(b"k", b"v", 99, &companion)), term);
        }

        #[test]
        fn a_seal_is_found_among_other_companions(before in 0..3usize, behind in 0..3usize, seqno: u32) {
            let sealer = Sealer::new();
            let others: [&[u8]; 3] = [&[], &[companion::LIST, 2, companion::WORD8, 1], &[companion::WORD4, 1, 2, 3, 4, 0x55, 0]];
            let seal = born(&sealer, b"k", b"v", seqno.into());
            let companion = [others[before], &seal, others[behind]].concat();
            prop_assert_eq!(sealer.check(&put(b"k", b"v", seqno.into(), &companion)), Check::Validated);
            let twice = [&seal[..], others[before], &seal].concat();
            prop_assert_eq!(sealer.check(&put(b"k", b"v", seqno.into(), &twice)), Check::Corrupted);
        }
    }
}
