//! The record protector: the engine calls it so that every record gets a seal when it is written, and keeps it.
//!
//! ```text
//! on_write   caller's thread, no lock: adds AA | B and the entry list to the operation, as the log stores them
//! rekey      the end of the key is known: moves B and the key-bound checks to the complete key, without the value
//! bind       the seqno is known: B becomes C(seqno), without the record
//! on_build   flush and compaction: copies the seal unchanged
//! verify     build verification, reads, scrubs: compares the seal that the record requires with the stored one
//! emit       a flush reads a watched record: makes its event row (`stamped`)
//! term       B again, the same in log, memtable and table, so that the ledger balances for every job
//! ```
//!
//! Holds:  A seal is computed only for a new value, never for a copied one, because a copy may already be damaged and a
//!         new seal would hide that. A record without a seal gets one only if its source does not guarantee seals. Such
//!         a record is adopted: marked and counted. From a source that guarantees seals, the record is copied without
//!         one and build verification reports it. If a check finds a seal word damaged and the record intact, the next
//!         flush or compaction rewrites the word from the record.
//!
//! Costs: companions that are only a seal, or a seal and a stamp, are never decoded in full. The only allocation here
//! is for `out`, a successful check writes nothing, and cores share no counter.

use waxseal_lsm::batch::Batch;
use waxseal_lsm::checksum::{hash, hash_key, hash_short_key};
use waxseal_lsm::error::{self, Damage, Error, Result};
use waxseal_lsm::planted;
use waxseal_lsm::pointer::value_hash;
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_lsm::seam::{
    Build, Check, Companions, DropReason, Emitted, Emitting, Life, PendingWrite, Protection, bind_written,
};

use crate::annotations::{
    ADOPTED_BYTES, Annotations, may_have_entries, only_word, parts, put_list, seal_bytes, usual_word,
    word_and_short_stamp, word_and_stamp, word_at,
};
use crate::builtin::Expiry;
use crate::correct::{BlockCorrection, correct};
use crate::counts::{Count, CountShards, SealCounts};
use crate::emitter::Emits;
use crate::hits::Hits;
use crate::provider::{EXPIRY, Providers, write_descriptors};
use crate::rekey::rekey;
use crate::seal::Seal;
use crate::stamp::{Stamp, has_history};
use crate::stamp_check::is_whole;
use crate::verdict::{FoundSeal, SealVerdict, judge};
use crate::write::{Rooms, merged, rebuilt, written};

pub use crate::annotations::SEAL_BYTES;

/// The algorithm of the seals made here; see docs/format.md, section 7.
pub const ALGORITHM: u64 = 1;

/// Provider ids from here on belong to applications; smaller ones belong to Waxseal.
const FIRST_FOREIGN: u16 = 16;

/// XXH3-64 hashes inputs up to this length in straight-line code, without a call.
const HASHED_WITHOUT_A_CALL: usize = 128;

/// When a seal is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SealPoint {
    /// On the caller's thread, when the operation is added to its batch.
    #[default]
    Put,
    /// When a table is built, as in the paper: puts cost nothing extra, but log and memtable are unprotected, and a
    /// lost seal is silently recomputed. For comparison only.
    Flush,
}

/// Which records without a seal get one when a table is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Adoption {
    /// Records from sources that do not guarantee seals.
    #[default]
    BySource,
    /// All records, as in the paper: a lost seal is silently recomputed. For comparison only.
    Always,
}

/// The record protector of one store: it handles the seals and the providers' entries.
#[derive(Debug, Default)]
pub struct Sealer {
    point: SealPoint,
    adoption: Adoption,
    providers: Providers,
    expires: bool,
    rooms: Rooms,
    hits: Hits,
    pub(crate) tally: CountShards,
    pub(crate) emits: Emits,
}

impl Sealer {
    /// Creates a protector without providers that seals every operation at put and adopts records from sources without
    /// seals.
    pub fn new() -> Sealer {
        Sealer::default()
    }

    /// Returns this protector with another seal point. For experiments.
    #[must_use]
    pub fn at(self, point: SealPoint) -> Sealer {
        Sealer { point, ..self }
    }

    /// Returns this protector with another adoption rule. For experiments.
    #[must_use]
    pub fn adopting(self, adoption: Adoption) -> Sealer {
        Sealer { adoption, ..self }
    }

    /// Returns this protector with metadata providers. Records expire only if `builtin::Expiry` is one of them.
    #[must_use]
    pub fn with(self, providers: Providers) -> Sealer {
        Sealer { expires: providers.find(EXPIRY).is_some(), providers, ..self }
    }

    /// Returns the metadata providers.
    pub fn providers(&self) -> &Providers {
        &self.providers
    }

    /// Sets the target block size of a family (default 4 KiB). The companions of a record are limited to a quarter of a
    /// block, and to 64 KiB.
    pub fn set_block_bytes(&self, family: u32, bytes: usize) {
        self.rooms.set(family, bytes);
    }

    /// Adds an operation with a seal and metadata entries from the caller. The seal covers the entries marked as
    /// sealed.
    ///
    /// Errors: `Invalid` if the seal does not match the operation, or if the operation exceeds the limits of a batch;
    /// those of providers that reject an entry. The batch is then unchanged.
    pub fn push_sealed(&self, batch: &mut Batch, pending: &PendingWrite<'_>, seal: Seal) -> Result<()> {
        let mut companions = Vec::new();
        self.accompany_sealed(pending, pending.hashed_key(), seal, &mut companions)?;
        batch.push_with(pending.family, pending.kind, pending.key, pending.value, &companions)
    }

    /// Binds companions other than a seal and a short stamp, or possibly damaged ones. Returns `None`: the caller must
    /// ask `term`.
    #[cold]
    #[inline(never)]
    fn bind_slowly(&self, written: &[u8], seqno: Seqno, out: &mut Vec<u8>) -> Option<u64> {
        bind_written(self, written, seqno, out);
        None
    }

    /// Appends the companions of an operation; `key_hash` is the hash of its key.
    #[inline(always)]
    pub(crate) fn accompany(&self, pending: &PendingWrite<'_>, key_hash: u64, out: &mut Vec<u8>) -> Result<()> {
        if !pending.entries.is_empty() || self.providers.wants().every_write {
            return self.accompany_listed(pending, key_hash, out);
        }
        if self.point == SealPoint::Put {
            let seal = Seal::of_hashed_key(pending.kind, key_hash, pending.value);
            out.extend_from_slice(&seal_bytes(seal.number()));
            self.tally.add(Count::Computed);
        }
        Ok(())
    }

    #[inline(never)]
    fn accompany_listed(&self, pending: &PendingWrite<'_>, key_hash: u64, out: &mut Vec<u8>) -> Result<()> {
        let list = written(&self.providers, &self.rooms, pending, key_hash)?;
        if self.point == SealPoint::Put {
            let seal = seal_of(pending.kind, key_hash, pending.value, &Annotations::of_list(&list))?;
            out.extend_from_slice(&seal_bytes(seal.number()));
            self.tally.add(Count::Computed);
        }
        put_list(&list, out);
        Ok(())
    }

    /// Appends the companions of an operation with the caller's seal. Errors: `Invalid` if the seal does not match the
    /// operation.
    pub(crate) fn accompany_sealed(
        &self,
        pending: &PendingWrite<'_>,
        key_hash: u64,
        seal: Seal,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let list = written(&self.providers, &self.rooms, pending, key_hash)?;
        if seal_of(pending.kind, key_hash, pending.value, &Annotations::of_list(&list))? != seal {
            return Err(Error::invalid("the seal given is not that of the key and value given"));
        }
        out.extend_from_slice(&seal_bytes(seal.number()));
        put_list(&list, out);
        self.tally.add(Count::Given);
        Ok(())
    }

    /// Returns the stored seal of a record, whether or not it matches, or `None` if the record has no seal. Errors:
    /// `Corruption` if the companions cannot be decoded.
    pub fn seal_of(record: &Record<'_>) -> Result<Option<Seal>> {
        if let Some(word) = usual_word(record.companion) {
            return Ok(Some(Seal::from_word(word, record.seqno)));
        }
        let annotations = Annotations::read(record.companion)?;
        Ok(annotations.seal.map(|(_, word)| Seal::from_word(word, record.seqno)))
    }

    /// Returns true if the record was adopted: its seal was made when a table was first built from it, so earlier
    /// damage is not detected.
    pub fn is_adopted(record: &Record<'_>) -> bool {
        record.companion.len() > SEAL_BYTES
            && Annotations::read(record.companion).is_ok_and(|annotations| annotations.is_adopted())
    }

    /// Returns the verdict on a record; `key_hash` is the `checksum::hash` of its key. `complete`: its file guarantees
    /// a seal for every record.
    pub fn judge(&self, record: &Record<'_>, key_hash: u64, complete: bool) -> SealVerdict {
        let verdict = verdict_on(record, key_hash, complete);
        match verdict {
            SealVerdict::Validated | SealVerdict::Unverified => {}
            SealVerdict::CheckDamaged | SealVerdict::SealDamaged => {
                self.tally.add(Count::Hit);
                if let Ok(Some(seal)) = Sealer::seal_of(record) {
                    self.hits.note(seal.at(record.seqno));
                }
            }
            SealVerdict::Missing => self.tally.add(Count::Missing),
            SealVerdict::RecordDamaged | SealVerdict::BothDamaged | SealVerdict::Structural => {
                self.tally.add(Count::Corrupted)
            }
        }
        verdict
    }

    /// Returns the counters. They are exact for threads whose work happened before this call.
    pub fn counts(&self) -> SealCounts {
        self.tally.counts()
    }

    /// Validates an intact record whose companions are a seal, or a seal and a stamp; `verify_slowly` handles all other
    /// records.
    #[inline(never)]
    fn verify_usual(&self, record: &Record<'_>, key_hash: u64, source: Protection) -> Check {
        let (word, stamp) = match word_and_stamp(record.companion) {
            Some((word, content)) => (Some(word), Some(content)),
            None => (only_word(record.companion), None),
        };
        if let Some(word) = word
            && source != Protection::Foreign
            && record.kind != Kind::BlobPointer // the seal covers the value, not the pointer
            && Seal::of_hashed_key(record.kind, key_hash, record.value).at(record.seqno) == word
            && stamp.is_none_or(|content| is_whole(content, key_hash))
        {
            return Check::Validated;
        }
        self.verify_slowly(record, key_hash, source)
    }

    /// Verifies every record that the fast paths did not validate.
    #[cold]
    #[inline(never)]
    fn verify_slowly(&self, record: &Record<'_>, key_hash: u64, source: Protection) -> Check {
        if source == Protection::Foreign {
            return Check::Unverified;
        }
        match self.judge(record, key_hash, source == Protection::Complete) {
            SealVerdict::Validated | SealVerdict::CheckDamaged if self.entries_hit(record, key_hash) => {
                self.tally.add(Count::Hit);
                Check::CompanionDamaged
            }
            SealVerdict::Validated | SealVerdict::CheckDamaged => Check::Validated,
            SealVerdict::Unverified => Check::Unverified,
            SealVerdict::SealDamaged => Check::CompanionDamaged,
            SealVerdict::Missing => Check::Missing,
            SealVerdict::RecordDamaged | SealVerdict::BothDamaged | SealVerdict::Structural => Check::Corrupted,
        }
    }

    /// Returns true if a stamp, an unsealed entry, a mark or an unknown companion is damaged, or if a provider rejects
    /// its entry.
    fn entries_hit(&self, record: &Record<'_>, key_hash: u64) -> bool {
        let Ok(annotations) = Annotations::read(record.companion) else { return true };
        if annotations.stamp.is_some_and(|content| !is_whole(content, key_hash)) {
            return planted!(StampNotChecked, false, true);
        }
        if parts(record.companion).any(|part| !part.is_whole(record.companion)) {
            return true;
        }
        // A provider checks an entry together with the value, and a blob pointer's value has not been read here.
        let has_value = record.kind != Kind::BlobPointer;
        annotations.entries().any(|entry| {
            entry.map_or(true, |entry| {
                !entry.is_whole(key_hash)
                    || self.providers.find(entry.provider).is_some_and(|(descriptor, provider)| {
                        has_value && descriptor.version == entry.version && !provider.verify(record, entry.bytes)
                    })
            })
        })
    }

    /// Builds a table's record that has more than a seal, or whose seal word may be damaged.
    fn build_slowly(&self, record: &Record<'_>, source: Protection, out: &mut Vec<u8>) -> Build {
        // build verification reports it
        let Ok(annotations) = Annotations::read(record.companion) else { return Build::Keep };
        match annotations.seal {
            None => self.build_unsealed(record, &annotations, source, out),
            Some((at, word)) if self.hits.has(word) => {
                if verdict_on(record, hash_key(record.key), true) != SealVerdict::SealDamaged {
                    return Build::Keep;
                }
                let Ok(seal) = seal_of(record.kind, hash(record.key), record.value, &annotations) else {
                    return Build::Keep;
                };
                out.extend_from_slice(record.companion);
                out[at..at + 8].copy_from_slice(&seal.at(record.seqno).to_le_bytes());
                self.tally.add(Count::Mended);
                Build::Mend
            }
            Some(_) => match rebuilt(&self.providers, record, &annotations) {
                Some(list) => {
                    annotations.with_list(record.companion, &list, out);
                    Build::Set // another list, the same seal
                }
                None => Build::Keep,
            },
        }
    }

    fn build_unsealed(
        &self,
        record: &Record<'_>,
        annotations: &Annotations<'_>,
        source: Protection,
        out: &mut Vec<u8>,
    ) -> Build {
        let (count, mark): (_, &[u8]) = match (self.point, self.adoption, source) {
            (_, _, Protection::Foreign) => {
                self.tally.add(Count::Unsealed);
                return Build::Keep;
            }
            (SealPoint::Flush, _, _) => (Count::Computed, &[]),
            (_, Adoption::BySource, Protection::Complete) if planted!(AdoptionInCompleteFile, false, true) => {
                self.tally.add(Count::Unsealed);
                return Build::Keep; // lost: build verification reports it
            }
            _ => (Count::Adopted, planted!(AdoptionUnmarked, &[], &ADOPTED_BYTES)),
        };
        let Ok(seal) = seal_of(record.kind, hash_key(record.key), record.value, annotations) else {
            return Build::Keep;
        };
        out.extend_from_slice(&seal_bytes(seal.at(record.seqno)));
        out.extend_from_slice(mark);
        out.extend_from_slice(record.companion);
        self.tally.add(count);
        Build::Set
    }

    /// Returns the expiry of a record that may have entries, if its seal covers that entry.
    fn expiry_slowly(&self, record: &Record<'_>) -> Option<u64> {
        let (expiry, _) = self.providers.find(EXPIRY)?;
        let entry = Annotations::read(record.companion).and_then(|annotations| annotations.entry(EXPIRY)).ok()??;
        if entry.sealed && entry.version == expiry.version { Expiry::read(entry.bytes) } else { None }
    }

    #[cold]
    fn life_slowly(&self, record: &Record<'_>, now: &dyn Fn() -> u64) -> Life {
        if self.expiry_slowly(record).is_none_or(|micros| micros > now()) {
            return Life::Alive;
        }
        match verdict_on(record, hash(record.key), true) {
            // If only the seal word is damaged, the record is intact, and so is its expiry.
            SealVerdict::Validated | SealVerdict::CheckDamaged | SealVerdict::SealDamaged => Life::Over,
            SealVerdict::Unverified | SealVerdict::Missing => Life::Alive, // no seal confirms the expiry
            SealVerdict::RecordDamaged | SealVerdict::BothDamaged | SealVerdict::Structural => Life::Doubtful,
        }
    }
}

impl Companions for Sealer {
    fn on_write(&self, pending: &PendingWrite<'_>, out: &mut Vec<u8>) -> Result<()> {
        self.accompany(pending, pending.hashed_key(), out)
    }

    fn bind(&self, companion: &mut [u8], old: Option<Seqno>, new: Seqno) {
        if let Some(bytes) = word_at(companion).and_then(|at| companion[at..].first_chunk_mut::<8>()) {
            let word = u64::from_le_bytes(*bytes);
            let bound = match old {
                None => Seal::from_bytes(*bytes).at(new),
                Some(old) => Seal::rebind(word, old, new),
            };
            *bytes = bound.to_le_bytes();
        }
    }

    /// If the companions are a seal, or a seal and a short stamp, the term is the written word `B`.
    #[inline]
    fn bind_new(&self, written: &[u8], seqno: Seqno, out: &mut Vec<u8>) -> Option<u64> {
        let bound = |word: u64| seal_bytes(Seal::from_bytes(word.to_le_bytes()).at(seqno));
        if !self.hits.is_empty() {
            return self.bind_slowly(written, seqno, out);
        }
        if let Some(word) = only_word(written) {
            out.clear();
            out.extend_from_slice(&bound(word));
            return Some(word);
        }
        if let Some((word, both)) = word_and_short_stamp(written) {
            let mut both = *both;
            both[..SEAL_BYTES].copy_from_slice(&bound(word));
            out.clear();
            out.extend_from_slice(&both);
            return Some(word);
        }
        self.bind_slowly(written, seqno, out)
    }

    fn rekey(&self, companion: &mut [u8], old_key: &[u8], new_key: &[u8]) {
        planted!(RekeyForgotten => return);
        rekey(companion, old_key, new_key);
    }

    #[inline]
    fn on_build(&self, record: &Record<'_>, source: Protection, out: &mut Vec<u8>) -> Build {
        planted!(SealRecomputedInCompaction => if only_word(record.companion).is_some() {
            out.extend_from_slice(&seal_bytes(Seal::of_record(record).at(record.seqno)));
            return Build::Derive;
        });
        planted!(StampDroppedInCompaction => if word_and_stamp(record.companion).is_some() {
            out.extend_from_slice(&record.companion[..SEAL_BYTES]);
            return Build::Set;
        });
        if usual_word(record.companion).is_some() && self.hits.is_empty() && !self.providers.wants().every_build {
            return Build::Keep;
        }
        self.build_slowly(record, source, out)
    }

    /// True if the record is adopted, or would be adopted now.
    fn is_unproven(&self, record: &Record<'_>) -> bool {
        if only_word(record.companion).is_some() {
            return false;
        }
        match Annotations::read(record.companion) {
            Ok(annotations) if annotations.seal.is_none() => self.point != SealPoint::Flush,
            Ok(annotations) => annotations.is_adopted(),
            Err(_) => true,
        }
    }

    fn on_merge(&self, inputs: &[Record<'_>], is_unproven: bool, result: &Record<'_>, out: &mut Vec<u8>) -> Result<()> {
        if let Some(damaged) =
            inputs.iter().find(|input| !self.verify(input, hash_key(input.key), Protection::Partial).serves())
        {
            let damage = Damage {
                verdict: error::Verdict::Seal,
                key_range: Some((damaged.key.to_vec(), damaged.key.to_vec())),
                ..Damage::default()
            };
            return Err(Error::corruption(damage, "an input of a derived record does not match its seal"));
        }
        let key_hash = hash_key(result.key);
        // A tombstone has no annotations.
        let list = match result.kind {
            Kind::Delete => Vec::new(),
            _ => merged(&self.providers, inputs, key_hash)?,
        };
        let seal = seal_of(result.kind, key_hash, result.value, &Annotations::of_list(&list))?;
        out.extend_from_slice(&seal_bytes(seal.at(result.seqno)));
        // The new seal proves no more than those of the inputs.
        if is_unproven || inputs.iter().any(|input| self.is_unproven(input)) {
            out.extend_from_slice(&ADOPTED_BYTES);
        }
        put_list(&list, out);
        // The result counts as written when its newest input was. The flush emits event rows for the inputs.
        if let Some(newest) = inputs.iter().max_by_key(|input| input.seqno)
            && let Some(stamp) = Stamp::standing(newest.companion, key_hash)?
        {
            stamp.put(key_hash, out);
        }
        self.tally.add(Count::Derived);
        Ok(())
    }

    fn on_filter(&self, record: &Record<'_>, result: &Record<'_>, out: &mut Vec<u8>) -> Result<()> {
        self.on_merge(&[*record], false, result, out)
    }

    fn on_drop(&self, record: &Record<'_>, reason: DropReason) {
        if self.providers.is_empty() || !may_have_entries(record.companion) {
            return;
        }
        let Ok(annotations) = Annotations::read(record.companion) else { return };
        for entry in annotations.entries().map_while(|entry| entry.ok()) {
            if let Some((_, provider)) = self.providers.find(entry.provider) {
                provider.on_drop(record, entry.bytes, reason);
            }
        }
    }

    /// Fast path for most records: a short value that was put with only a seal. It is checked without a call, and the
    /// kind's contribution to the seal is a constant.
    #[inline]
    fn verify(&self, record: &Record<'_>, key_hash: u64, source: Protection) -> Check {
        if record.kind == Kind::Put
            && record.value.len() <= HASHED_WITHOUT_A_CALL
            && let Some(word) = only_word(record.companion)
            && source != Protection::Foreign
            && Seal::of_hashed_key(Kind::Put, key_hash, record.value).at(record.seqno) == word
        {
            return Check::Validated;
        }
        self.verify_usual(record, key_hash, source)
    }

    /// `verify` for a short value under a short key: both hashes are inlined and no function is called.
    #[inline]
    fn serves(&self, record: &Record<'_>, source: Protection) -> bool {
        if record.kind == Kind::Put
            && record.value.len() <= HASHED_WITHOUT_A_CALL
            && let Some(word) = only_word(record.companion)
            && source != Protection::Foreign
        {
            let key_hash = hash_short_key(record.key);
            if Seal::of_hashed_key(Kind::Put, key_hash, record.value).at(record.seqno) == word {
                return true;
            }
            return self.verify_usual(record, key_hash, source).serves();
        }
        self.verify_usual(record, hash_key(record.key), source).serves()
    }

    #[inline]
    fn life(&self, record: &Record<'_>, now: &dyn Fn() -> u64) -> Life {
        match may_have_entries(record.companion) && self.expires {
            true => self.life_slowly(record, now),
            false => Life::Alive,
        }
    }

    #[inline]
    fn expiry(&self, record: &Record<'_>) -> Option<u64> {
        if may_have_entries(record.companion) && self.expires { self.expiry_slowly(record) } else { None }
    }

    /// A foreign provider may need `on_drop` for every dropped record; Waxseal's own providers do not.
    fn may_drop_unread(&self) -> bool {
        self.providers.descriptors().iter().all(|of| of.id < FIRST_FOREIGN)
    }

    fn term(&self, record: &Record<'_>) -> u64 {
        let Ok(Some(seal)) = Sealer::seal_of(record) else { return 0 };
        if self.hits.has(seal.at(record.seqno))
            && verdict_on(record, hash(record.key), true) == SealVerdict::SealDamaged
        {
            // A damaged word cannot serve as the term; the intact record yields the correct one.
            let whole = Annotations::read(record.companion)
                .and_then(|annotations| seal_of(record.kind, hash(record.key), record.value, &annotations));
            return whole.map_or(0, Seal::number);
        }
        seal.number()
    }

    #[inline]
    fn emit(&self, family: &Emitting<'_>, record: &Record<'_>, rows: &mut Vec<Emitted>) -> Result<()> {
        self.emit_of(family, record, rows)
    }

    fn may_emit(&self, _: u32, record: &Record<'_>) -> bool {
        self.may_emit_of(record)
    }

    #[inline]
    fn retains(&self, record: &Record<'_>) -> bool {
        has_history(record)
    }

    fn protection(&self) -> Protection {
        Protection::Complete
    }

    fn written(&self) -> Protection {
        match self.point {
            SealPoint::Put => Protection::Complete,
            SealPoint::Flush => Protection::Partial,
        }
    }

    fn algorithm(&self) -> u64 {
        ALGORITHM
    }

    fn descriptors(&self) -> Vec<u8> {
        write_descriptors(&[&self.providers.descriptors()])
    }

    fn correct(&self, block: &mut [u8], seed: u32, confirm: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        matches!(correct(block, seed, confirm), BlockCorrection::Corrected(_))
    }
}

/// Returns the seal that a record with these parts requires. A blob pointer requires the same seal as the value it
/// points to. Errors: `Corruption` if the entry list or the pointer cannot be decoded.
pub(crate) fn seal_of(kind: Kind, key_hash: u64, value: &[u8], annotations: &Annotations<'_>) -> Result<Seal> {
    let seal = Seal::of_hashes(kind, key_hash, value_hash(kind, value)?);
    Ok(match annotations.attributes()? {
        None => seal,
        Some(attributes) => seal.with(attributes),
    })
}

fn verdict_on(record: &Record<'_>, key_hash: u64, complete: bool) -> SealVerdict {
    let Ok(annotations) = Annotations::read(record.companion) else { return SealVerdict::Structural };
    let found = annotations.seal.map_or(FoundSeal::Nothing, |(_, word)| FoundSeal::Word(word));
    if found == FoundSeal::Nothing {
        return judge(found, complete, 0);
    }
    match seal_of(record.kind, key_hash, record.value, &annotations) {
        Ok(seal) => judge(found, complete, seal.at(record.seqno)),
        Err(_) => SealVerdict::Structural,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotations::sum_of;
    use crate::stamp::tests::drawn;
    use crate::stamp_check;
    use proptest::prelude::*;
    use waxseal_lsm::batch::BatchOperations;
    use waxseal_lsm::error::ErrorKind;
    use waxseal_lsm::record::companion;

    impl Sealer {
        fn check(&self, record: &Record<'_>) -> Check {
            self.verify(record, hash_key(record.key), Protection::Partial)
        }
    }

    /// Returns a record sealed at a seqno, as log and commit make it.
    fn born(sealer: &Sealer, key: &[u8], value: &[u8], seqno: Seqno) -> Vec<u8> {
        let mut companion = Vec::new();
        let pending = PendingWrite { family: 0, kind: Kind::Put, key, value, key_hash: None, entries: &[] };
        sealer.on_write(&pending, &mut companion).unwrap();
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
        assert_eq!(sealer.judge(&record, hash(b"k"), true), SealVerdict::Validated);
        assert_eq!(sealer.judge(&put(b"k", b"w", 7, &companion), hash(b"k"), true), SealVerdict::RecordDamaged);
        assert_eq!(sealer.judge(&put(b"k", b"v", 7, &[]), hash(b"k"), true), SealVerdict::Missing);
        for wrong in [put(b"j", b"v", 7, &companion), put(b"k", b"v", 8, &companion)] {
            assert_eq!(sealer.check(&wrong), Check::Corrupted);
        }
        sealer.bind(&mut companion, Some(7), 0);
        let zeroed = put(b"k", b"v", 0, &companion);
        assert_eq!((sealer.check(&zeroed), sealer.term(&zeroed)), (Check::Validated, Seal::of(b"k", b"v").number()));
        let counts = sealer.counts();
        assert_eq!((counts.computed, counts.missing, counts.corrupted), (1, 1, 3));
    }

    #[test]
    fn a_result_of_an_adopted_record_is_adopted() {
        let sealer = Sealer::new();
        let sealed = born(&sealer, b"k", b"1", 5);
        let mut adopted = Vec::new();
        assert_eq!(sealer.on_build(&put(b"k", b"2", 6, &[]), Protection::None, &mut adopted), Build::Set);
        let made = |sealer: &Sealer, inputs: &[Record<'_>], kind: Kind| {
            let (result, mut out) = (Record { kind, ..put(b"k", b"12", 6, &[]) }, Vec::new());
            match inputs {
                [one] => sealer.on_filter(one, &result, &mut out).unwrap(),
                all => sealer.on_merge(all, false, &result, &mut out).unwrap(),
            }
            let made = Record { companion: &out, ..result };
            assert_eq!(sealer.check(&made), Check::Validated);
            Sealer::is_adopted(&made)
        };
        let (old, new, unsealed) = (put(b"k", b"1", 5, &sealed), put(b"k", b"2", 6, &adopted), put(b"k", b"2", 6, &[]));
        for kind in [Kind::Put, Kind::Merge, Kind::Delete] {
            assert!(!made(&sealer, &[old, old], kind) && !made(&sealer, &[old], kind), "{kind:?}");
            assert!(made(&sealer, &[new, old], kind) && made(&sealer, &[old, new], kind), "{kind:?}");
            assert!(made(&sealer, &[unsealed, old], kind) && made(&sealer, &[new], kind), "{kind:?}");
            assert!(made(&sealer, &[unsealed], kind), "{kind:?}");
            // Where a flush seals every record, a record without a seal is as it was put.
            assert!(!made(&Sealer::new().at(SealPoint::Flush), &[unsealed, old], kind), "{kind:?}");
        }
    }

    #[test]
    fn a_given_seal_goes_in_as_it_is_or_not_at_all() {
        let (sealer, mut batch) = (Sealer::new(), Batch::new());
        let seal = Seal::of(b"k", b"v");
        let pending = PendingWrite { family: 4, kind: Kind::Put, key: b"k", value: b"v", key_hash: None, entries: &[] };
        sealer.push_sealed(&mut batch, &pending, seal).unwrap();
        let before = batch.seal().bytes;
        let other = PendingWrite { value: b"w", ..pending };
        let error = sealer.push_sealed(&mut batch, &other, seal).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Invalid);
        assert_eq!(batch.seal().bytes, before);
        let operation = BatchOperations::new(&before).unwrap().next().unwrap().unwrap();
        assert_eq!(operation.companion[1..], seal.to_bytes());
        assert_eq!(before, {
            let mut plain = Batch::new();
            plain.push(4, Kind::Put, b"k", b"v", &Sealer::new()).unwrap();
            plain.seal().bytes
        });
        assert_eq!(sealer.counts(), SealCounts { given: 1, ..SealCounts::default() });
    }

    #[test]
    fn what_has_no_seal_gets_one_only_where_none_was_promised() {
        use Protection::{Complete, Foreign, None, Partial};
        let list = [companion::LIST, 0];
        let record = put(b"k", b"v", 7, &list);
        let always = || Sealer::new().adopting(Adoption::Always);
        let flush = || Sealer::new().at(SealPoint::Flush);
        let (adopted, unsealed, computed) = (
            SealCounts { adopted: 1, ..SealCounts::default() },
            SealCounts { unsealed: 1, ..SealCounts::default() },
            SealCounts { computed: 1, ..SealCounts::default() },
        );
        for (sealer, source, counts) in [
            (Sealer::new(), None, adopted),
            (Sealer::new(), Partial, adopted),
            (Sealer::new(), Complete, unsealed),
            (Sealer::new(), Foreign, unsealed),
            (always(), Complete, adopted),
            (always(), Foreign, unsealed),
            (flush(), None, computed),
            (flush(), Complete, computed),
        ] {
            let mut out = Vec::new();
            let build = sealer.on_build(&record, source, &mut out);
            assert_eq!(sealer.counts(), counts, "{source:?}");
            if counts == unsealed {
                assert_eq!((build, out.len()), (Build::Keep, 0), "{source:?}");
                continue;
            }
            let built = put(b"k", b"v", 7, &out);
            assert_eq!((build, sealer.check(&built)), (Build::Set, Check::Validated), "{source:?}");
            assert_eq!(Sealer::is_adopted(&built), counts == adopted);
            assert!(out.ends_with(&list));
            // A record that has a seal keeps it, damaged or not.
            for kept in [&built, &put(b"k", b"w", 7, &out), &put(b"k", b"v", 7, &out[..4])] {
                assert_eq!(sealer.on_build(kept, None, &mut Vec::new()), Build::Keep);
            }
            assert_eq!(sealer.counts(), counts);
        }
        let mut nothing = Vec::new();
        let pending =
            PendingWrite { family: 0, kind: Kind::Put, key: b"k", value: b"v", key_hash: Option::None, entries: &[] };
        flush().on_write(&pending, &mut nothing).unwrap();
        assert!(nothing.is_empty());
        let sealer = Sealer::new();
        assert_eq!(sealer.verify(&record, hash(b"k"), Complete), Check::Missing);
        assert_eq!(sealer.counts(), SealCounts { missing: 1, ..SealCounts::default() });
    }

    #[test]
    fn a_word_that_was_found_to_be_hit_is_mended_and_nothing_else() {
        let sealer = Sealer::new();
        let whole = born(&sealer, b"k", b"v", 7);
        let mut hit = whole.clone();
        hit[4] ^= 0x81;
        let record = put(b"k", b"v", 7, &hit);
        let mut out = Vec::new();
        assert_eq!(sealer.on_build(&record, Protection::Complete, &mut out), Build::Keep); // not found yet
        assert_ne!(sealer.term(&record), Seal::of(b"k", b"v").number());
        assert_eq!(sealer.check(&record), Check::CompanionDamaged);
        assert_eq!(sealer.on_build(&record, Protection::Complete, &mut out), Build::Mend);
        assert_eq!(out, whole);
        assert_eq!(sealer.term(&record), Seal::of(b"k", b"v").number());
        assert_eq!(sealer.counts(), SealCounts { computed: 1, hit: 1, mended: 1, ..SealCounts::default() });
        // The same word beside a damaged record is not used.
        let other = put(b"k", b"w", 7, &hit);
        assert_eq!(sealer.on_build(&other, Protection::Complete, &mut Vec::new()), Build::Keep);
        assert_eq!(sealer.on_build(&put(b"k", b"v", 7, &whole), Protection::Complete, &mut Vec::new()), Build::Keep);
    }

    #[test]
    fn a_result_is_sealed_only_if_all_that_it_came_from_is_whole() {
        let sealer = Sealer::new();
        let (a, b) = (born(&sealer, b"k", b"1", 5), born(&sealer, b"k", b"2", 6));
        let (result, mut out) = (put(b"k", b"12", 6, &[]), Vec::new());
        sealer.on_merge(&[put(b"k", b"2", 6, &b), put(b"k", b"1", 5, &a)], false, &result, &mut out).unwrap();
        assert_eq!(sealer.check(&Record { companion: &out, ..result }), Check::Validated);
        assert_eq!(sealer.counts().derived, 1);
        assert!(!Sealer::is_adopted(&Record { companion: &out, ..result }));
        let damaged = [put(b"k", b"2", 6, &b), put(b"k", b"3", 5, &a)];
        assert!(sealer.on_merge(&damaged, false, &result, &mut Vec::new()).unwrap_err().is_corruption());
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
        fn a_new_record_is_bound_and_counted_in_one_call_as_in_three(key: [u8; 3], value: Vec<u8>, seqno: u32, odd: Option<Vec<u8>>, hit: bool, watched in proptest::option::of((drawn(), any::<bool>()))) {
            let (sealer, seqno) = (Sealer::new(), seqno.into());
            let pending = PendingWrite { family: 0, kind: Kind::Put, key: &key, value: &value, key_hash: None, entries: &[] };
            let mut written = Vec::new();
            sealer.on_write(&pending, &mut written).unwrap();
            if let Some((stamp, is_short)) = watched {
                let short = Stamp { session: stamp.session % 0x80, history: false, retention: None, ..stamp };
                let stamp = if is_short { short } else { stamp };
                stamp.put(pending.hashed_key(), &mut written);
            }
            let is_usual = [SEAL_BYTES, SEAL_BYTES + stamp_check::SHORT_BYTES].contains(&written.len()) && odd.is_none() && !hit;
            if hit {
                // Once any word is known to be damaged, every record is checked.
                let mut damaged = born(&sealer, b"k", b"v", 7);
                damaged[4] ^= 1;
                prop_assert_eq!(sealer.check(&put(b"k", b"v", 7, &damaged)), Check::CompanionDamaged);
            }
            let written = odd.unwrap_or(written);
            let (mut bound, mut fused) = (Vec::new(), vec![7; 3]);
            bind_written(&sealer, &written, seqno, &mut bound);
            let term = sealer.bind_new(&written, seqno, &mut fused);
            prop_assert_eq!(&fused, &bound);
            prop_assert!(term.is_some() || !is_usual);
            let known = sealer.term(&put(&key, &value, seqno, &bound));
            prop_assert_eq!(term.unwrap_or(known), known);
        }

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
            // Bound to another seqno, the record keeps its term.
            sealer.bind(&mut companion, Some(seqno.into()), 99);
            prop_assert_eq!(sealer.term(&put(b"k", b"v", 99, &companion)), term);
        }

        #[test]
        fn a_seal_is_found_among_other_companions(before in 0..3usize, behind in 0..3usize, seqno: u32) {
            let sealer = Sealer::new();
            let later = |said: &[u8]| [&[0x55, said.len() as u8 + 4], said, &sum_of(0x55, said)].concat();
            let with_word = [&[companion::WORD4, 1, 2, 3, 4][..], &later(&[])].concat();
            let others: [&[u8]; 3] = [&[], &later(&[companion::WORD8, 1]), &with_word];
            let seal = born(&sealer, b"k", b"v", seqno.into());
            let companion = [others[before], &seal, others[behind]].concat();
            prop_assert_eq!(sealer.check(&put(b"k", b"v", seqno.into(), &companion)), Check::Validated);
            let twice = [&seal[..], others[before], &seal].concat();
            prop_assert_eq!(sealer.check(&put(b"k", b"v", seqno.into(), &twice)), Check::Corrupted);
        }
    }
}
