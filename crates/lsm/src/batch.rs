//! Batches: operations in order, encoded once on the caller's thread in their log format. See docs/format.md, section
//! 5.2.

mod operations;

use std::sync::Arc;

pub use self::operations::{BatchOperation, BatchOperations};
use crate::checksum::hash;
use crate::codec::{Reader, put_varint, varint_bytes};
use crate::error::{Error, Result};
use crate::planted;
use crate::pointer::{LOGGED_BYTES, unlogged};
use crate::range_delete::{RangeBounds, encode_bounds};
use crate::record::{Kind, MAX_KEY_BYTES, MAX_SEQNO, MAX_VALUE_BYTES, Record, Seqno, companion};
use crate::seam::{Companions, PendingWrite, Protection};

/// Maximum length of a batch body, in bytes: 4 GiB minus two pages, which leave room for the frame around it.
pub const MAX_BATCH_BYTES: usize = u32::MAX as usize - 2 * 4096;

/// Bytes reserved before the operations for the count.
const COUNT_BYTES: usize = 10;

/// Operations that commit atomically. Building a batch takes no lock. A rejected operation leaves the batch unchanged.
#[derive(Debug)]
pub struct Batch {
    /// The encoded operations, unless they are lent.
    encoded: EncodedOperations,
    /// The encoded operations while they are lent. The thread that applies a sealed batch also holds them for a moment;
    /// a change then copies them instead of modifying them. While not lent, a spare buffer.
    lent: Option<Arc<EncodedOperations>>,
    is_lent: bool,
    count: u64,
    /// Length of its largest value.
    largest: usize,
    /// The distinct families of its operations.
    families: Vec<u32>,
    /// The batch was held in memory between building and commit.
    held: bool,
    /// The batch may write system families.
    granted: bool,
    /// The batch has a range delete.
    has_ranges: bool,
    /// The batch has a merge operand.
    has_operands: bool,
}

/// A position in a batch: between the operations before it and those added later.
/// The default is the position before all operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchPosition {
    bytes: usize,
    count: u64,
    largest: usize,
    /// Number of distinct families.
    families: usize,
    has_ranges: bool,
}

/// Permission for a batch to write system families. Reserved for the layers above the engine; never given to users.
#[derive(Clone, Copy, Debug)]
pub struct SystemPass(());

impl SystemPass {
    /// Creates the permission, for the layers above the engine only.
    #[doc(hidden)]
    pub fn for_layers_above() -> SystemPass {
        SystemPass(())
    }
}

impl Default for Batch {
    fn default() -> Self {
        Batch::new()
    }
}

impl Batch {
    /// Creates an empty batch.
    pub fn new() -> Batch {
        let (encoded, families) = (EncodedOperations::default(), Vec::new());
        Batch {
            encoded,
            lent: None,
            is_lent: false,
            count: 0,
            largest: 0,
            families,
            granted: false,
            held: false,
            has_ranges: false,
            has_operands: false,
        }
    }

    /// Empties the batch and keeps its memory. Revokes its permission to write system families.
    pub fn clear(&mut self) {
        if self.is_lent {
            self.take_back();
        }
        self.encoded.clear();
        (self.count, self.largest) = (0, 0);
        self.families.clear();
        (self.granted, self.held) = (false, false);
        (self.has_ranges, self.has_operands) = (false, false);
    }

    /// Returns the position after the operations added so far, for `truncate`.
    pub fn position(&self) -> BatchPosition {
        let Batch { count, largest, has_ranges, .. } = *self;
        BatchPosition { bytes: self.encoded().bytes.len(), count, largest, families: self.families.len(), has_ranges }
    }

    /// Removes the operations added after a position of this batch. A position that the batch no longer has, because
    /// it was cleared or truncated before it, changes nothing.
    pub fn truncate(&mut self, position: &BatchPosition) {
        if position.count >= self.count {
            return;
        }
        let encoded = self.encoded_mut();
        encoded.bytes.truncate(position.bytes.max(COUNT_BYTES));
        encoded.key_hashes.truncate(position.count as usize);
        encoded.set_count(position.count);
        (self.count, self.largest, self.has_ranges) = (position.count, position.largest, position.has_ranges);
        self.families.truncate(position.families);
    }

    /// Marks the batch as held between building and commit. The commit then checks its operations against their
    /// companions again before it orders them, so that a bit flip in the meantime does not reach the log. A batch that
    /// is built and committed in one call needs no second check.
    #[inline]
    pub fn hold(&mut self) {
        self.held = true;
    }

    /// Returns true if the batch is marked as held.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Allows the batch to write system families.
    pub fn grant(&mut self, _pass: SystemPass) {
        self.granted = true;
    }

    /// Returns true if the batch may write system families.
    pub fn is_granted(&self) -> bool {
        self.granted
    }

    /// Returns the operations added so far, in order.
    pub fn operations(&self) -> BatchOperations<'_> {
        BatchOperations::behind_count(&self.encoded().bytes[COUNT_BYTES..], self.count)
    }

    /// Returns the operations after a position of this batch.
    pub fn operations_after(&self, position: &BatchPosition) -> BatchOperations<'_> {
        let bytes = self.encoded().bytes.get(position.bytes.max(COUNT_BYTES)..).unwrap_or_default();
        BatchOperations::behind_count(bytes, self.count.saturating_sub(position.count))
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns true if the batch has no operations.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns true if the batch has a range delete.
    #[inline]
    pub fn has_ranges(&self) -> bool {
        self.has_ranges
    }

    /// Returns true if the batch has a merge operand.
    #[inline]
    pub fn has_operands(&self) -> bool {
        self.has_operands
    }

    /// Length of its largest value.
    #[inline]
    pub fn largest_value(&self) -> usize {
        self.largest
    }

    /// Returns the same operations with pointers instead of some values. `place` is called once per operation and
    /// returns `None` to keep the value; companions are kept. Returns `None` if all values are kept. Errors: those of
    /// `place`, and `Invalid` beyond the limits.
    pub(crate) fn with_pointers(
        &self,
        place: &mut dyn FnMut(&BatchOperation<'_>) -> Result<Option<[u8; LOGGED_BYTES]>>,
    ) -> Result<Option<Batch>> {
        let mut pointers = Vec::new();
        for (at, operation) in self.operations().enumerate() {
            pointers.extend(place(&operation?)?.map(|pointer| (at, pointer)));
        }
        if pointers.is_empty() {
            return Ok(None);
        }
        let mut other = Batch { granted: self.granted, ..Batch::new() };
        let mut pointers = pointers.iter().peekable();
        for ((at, operation), key_hash) in self.operations().enumerate().zip(self.key_hashes()) {
            let BatchOperation { family, kind, key, value, companion } = operation?;
            let pointer = pointers.next_if(|(place, _)| *place == at);
            let (kind, value) = pointer.map_or((kind, value), |(_, pointer)| (Kind::BlobPointer, &pointer[..]));
            other.push_hashed(family, kind, (key, *key_hash), value, |out| {
                out.extend_from_slice(companion);
                Ok(())
            })?;
        }
        Ok(Some(other))
    }

    /// Length of the encoded operations.
    pub fn encoded_bytes(&self) -> usize {
        self.encoded().bytes.len() - COUNT_BYTES
    }

    /// Returns the encoded operations for fault injection.
    #[doc(hidden)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.held = true; // damage is possible only while a batch is held
        &mut self.encoded_mut().bytes[COUNT_BYTES..]
    }

    /// Adds an operation; the protector adds its companions. Errors: `Invalid` beyond the limits, and errors of the
    /// protector.
    pub fn push(
        &mut self,
        family: u32,
        kind: Kind,
        key: &[u8],
        value: &[u8],
        protector: &dyn Companions,
    ) -> Result<()> {
        self.push_given(family, kind, key, value, &[], protector)
    }

    /// Adds a range delete: it deletes all records before it whose key is at or after `start` and before `end`; `None`
    /// is an unbounded side. The commit refuses a start behind its end. Errors: those of `push`.
    pub fn delete_range(
        &mut self,
        family: u32,
        (start, end): RangeBounds<'_>,
        protector: &dyn Companions,
    ) -> Result<()> {
        let value = encode_bounds(start, end);
        self.push(family, Kind::RangeDelete, start.unwrap_or_default(), &value, protector)
    }

    /// As `push`, with annotations for the value: provider id and bytes. Errors: also if the protector rejects an
    /// annotation.
    pub fn push_given(
        &mut self,
        family: u32,
        kind: Kind,
        key: &[u8],
        value: &[u8],
        entries: &[(u16, &[u8])],
        protector: &dyn Companions,
    ) -> Result<()> {
        self.push_pending(&mut PendingWrite { family, kind, key, value, key_hash: None, entries }, protector)
    }

    /// As `push_given`, from a draft. Stores the hash of the key in the draft if it was missing.
    #[inline]
    pub fn push_pending(&mut self, pending: &mut PendingWrite<'_>, protector: &dyn Companions) -> Result<()> {
        let key_hash = pending.hashed_key();
        pending.key_hash = Some(key_hash);
        let PendingWrite { family, kind, key, value, .. } = *pending;
        self.push_hashed(family, kind, (key, key_hash), value, |out| protector.on_write(pending, out))
    }

    /// Adds an operation with existing companions, which are not bound to a seqno yet. No protector checks them: the
    /// caller must have done so. Errors: `Invalid` beyond the limits, or if the bytes are not complete companions.
    pub fn push_with(&mut self, family: u32, kind: Kind, key: &[u8], value: &[u8], companion: &[u8]) -> Result<()> {
        self.push_by(family, kind, key, value, |out| {
            let mut reader = Reader::new(companion);
            match companion::take(&mut reader) {
                Ok(_) if reader.is_empty() => {
                    out.extend_from_slice(companion);
                    Ok(())
                }
                _ => Err(Error::invalid("the bytes given with an operation are not companions")),
            }
        })
    }

    /// Adds an operation with the companions that `accompany` appends, which are not bound to a seqno yet. They must be
    /// complete; nothing checks that. Errors: `Invalid` beyond the limits, and errors of `accompany`.
    pub fn push_by(
        &mut self,
        family: u32,
        kind: Kind,
        key: &[u8],
        value: &[u8],
        accompany: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        self.push_hashed(family, kind, (key, 0), value, accompany)
    }

    /// As `push_by`, with `checksum::hash_key` of the key, or 0 if unknown.
    #[inline]
    pub fn push_hashed(
        &mut self,
        family: u32,
        kind: Kind,
        (key, key_hash): (&[u8], u64),
        value: &[u8],
        accompany: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        if key.len() > MAX_KEY_BYTES {
            return Err(Error::invalid(format!("a key of {} bytes; the limit is {MAX_KEY_BYTES}", key.len())));
        }
        if value.len() > MAX_VALUE_BYTES {
            return Err(Error::invalid(format!("a value of {} bytes; the limit is {MAX_VALUE_BYTES}", value.len())));
        }
        let grown = key.len() + value.len() + companion::MAX_BYTES + 64;
        if self.encoded_bytes() + grown > MAX_BATCH_BYTES {
            return Err(Error::invalid(format!("the batch would exceed {MAX_BATCH_BYTES} bytes")));
        }
        let count = self.count + 1;
        let encoded = self.encoded_mut();
        let part = UnfinishedOperation::begin(&mut encoded.bytes);
        put_head(part.bytes, family, kind, key.len(), value.len());
        part.bytes.extend_from_slice(key);
        part.bytes.extend_from_slice(value);
        let before = part.bytes.len();
        accompany(part.bytes)?;
        if part.bytes.len() - before > companion::MAX_BYTES {
            return Err(Error::invalid("companions of one record are limited to 64 KiB"));
        }
        part.end();
        encoded.key_hashes.push(key_hash);
        encoded.set_count(count);
        self.count = count;
        self.largest = self.largest.max(value.len());
        self.has_ranges |= kind == Kind::RangeDelete;
        self.has_operands |= kind == Kind::Merge;
        if !self.families.contains(&family) {
            self.families.push(family);
        }
        Ok(())
    }

    /// Returns the hash of each operation's key, in order; 0 if unknown.
    pub(crate) fn key_hashes(&self) -> &[u64] {
        &self.encoded().key_hashes
    }

    /// Returns the ids of the operations' families.
    pub fn families(&self) -> &[u32] {
        &self.families
    }

    /// Returns the body of the frame in place (count and operations), with its hash. Takes one pass over the bytes,
    /// outside of every lock. The bytes that are logged and applied are the ones hashed here, even if the batch is held
    /// in between.
    #[inline]
    pub fn sum(&self) -> Sum<'_> {
        let bytes: &[u8] = self.encoded();
        self.summed(hash(bytes))
    }

    /// As `sum`, for a hash that is already known.
    #[inline]
    pub(crate) fn summed(&self, hash: u64) -> Sum<'_> {
        Sum { bytes: self.encoded(), hash, count: self.count }
    }

    /// Returns count and operations, as stored in a frame.
    pub(crate) fn body(&self) -> &[u8] {
        self.encoded()
    }

    /// Returns the body as shared ownership, without a copy. A copy is made later only if the batch changes while the
    /// body is still shared.
    pub fn seal(&mut self) -> Body {
        let hash = self.sum().hash;
        self.share(hash)
    }

    /// Returns the shared body for a hash that is already known. Only this makes the buffer reference-counted: an
    /// uncontended writer's batch keeps sole ownership.
    pub(crate) fn share(&mut self, hash: u64) -> Body {
        let lent = self.lent.get_or_insert_default();
        if !std::mem::replace(&mut self.is_lent, true) {
            std::mem::swap(Arc::make_mut(lent), &mut self.encoded);
        }
        Body { bytes: lent.clone(), hash, count: self.count }
    }

    /// Returns the encoded operations, with the key hashes for the thread that applies them.
    #[inline]
    pub(crate) fn encoded(&self) -> &EncodedOperations {
        match &self.lent {
            Some(lent) if self.is_lent => lent,
            _ => &self.encoded,
        }
    }

    /// Returns the encoded operations for modification.
    #[inline]
    fn encoded_mut(&mut self) -> &mut EncodedOperations {
        if self.is_lent
            && let Some(held) = self.take_back()
        {
            self.encoded = (*held).clone();
        }
        &mut self.encoded
    }

    /// Takes back the lent buffer. If it is still shared, returns it, and the batch continues with a new buffer.
    #[cold]
    fn take_back(&mut self) -> Option<Arc<EncodedOperations>> {
        self.is_lent = false;
        match Arc::get_mut(self.lent.as_mut()?) {
            Some(encoded) => {
                std::mem::swap(encoded, &mut self.encoded);
                None
            }
            None => self.lent.take(),
        }
    }
}

/// An operation being appended; removed again if it is dropped unfinished. The protector may reject the operation, and
/// an annotation provider may panic.
struct UnfinishedOperation<'a> {
    bytes: &'a mut Vec<u8>,
    whole: usize,
}

impl<'a> UnfinishedOperation<'a> {
    #[inline]
    fn begin(bytes: &'a mut Vec<u8>) -> UnfinishedOperation<'a> {
        let whole = bytes.len();
        UnfinishedOperation { bytes, whole }
    }

    #[inline]
    fn end(mut self) {
        self.whole = self.bytes.len();
    }
}

impl Drop for UnfinishedOperation<'_> {
    #[inline]
    fn drop(&mut self) {
        planted!(PanickedOperationStays => return);
        self.bytes.truncate(self.whole);
    }
}

/// Writes the header of an operation, before its key.
#[inline(always)]
fn put_head(out: &mut Vec<u8>, family: u32, kind: Kind, key: usize, value: usize) {
    match family < 0x80 && key < 0x80 && value < 0x80 {
        true => out.extend_from_slice(&[kind as u8, family as u8, key as u8, value as u8]),
        false => put_long_head(out, family, kind, key, value),
    }
}

#[inline(never)]
fn put_long_head(out: &mut Vec<u8>, family: u32, kind: Kind, key: usize, value: usize) {
    out.push(kind as u8);
    put_varint(out, u64::from(family));
    put_varint(out, key as u64);
    put_varint(out, value as u64);
}

/// The body of a log frame, borrowed from its batch, with its hash and number of seqnos.
#[derive(Clone, Copy, Debug)]
pub struct Sum<'a> {
    /// Count and operations, encoded.
    pub bytes: &'a [u8],
    /// XXH3 of `bytes`.
    pub hash: u64,
    /// Number of operations; each takes one seqno.
    pub count: u64,
}

/// A sealed batch: the body of a log frame, with its hash and number of seqnos.
#[derive(Clone, Debug)]
pub struct Body {
    /// Count and operations, encoded.
    pub bytes: Arc<EncodedOperations>,
    /// XXH3 of `bytes`.
    pub hash: u64,
    /// Number of operations; each takes one seqno.
    pub count: u64,
}

impl Body {
    /// Returns the body, borrowed.
    pub fn sum(&self) -> Sum<'_> {
        Sum { bytes: &self.bytes, hash: self.hash, count: self.count }
    }
}

/// A body as stored in its frame, with the hashes of its keys. The hashes are in memory only; they save hashing the
/// keys again.
#[derive(Clone)]
pub struct EncodedOperations {
    /// `COUNT_BYTES` reserved bytes that end with the number of operations, then the operations. Complete after every
    /// change.
    bytes: Vec<u8>,
    /// Offset of the count.
    start: usize,
    /// The hash of each operation's key; 0 if unknown.
    key_hashes: Vec<u64>,
}

impl Default for EncodedOperations {
    fn default() -> EncodedOperations {
        EncodedOperations { bytes: vec![0; COUNT_BYTES], start: COUNT_BYTES - 1, key_hashes: Vec::new() }
    }
}

impl EncodedOperations {
    /// Returns `checksum::hash_key` of the key of an operation, by its index, if known.
    #[inline]
    pub(crate) fn key_hash(&self, operation: u64) -> Option<u64> {
        self.key_hashes.get(operation as usize).copied().filter(|hash| *hash != 0)
    }

    fn clear(&mut self) {
        self.bytes.truncate(COUNT_BYTES);
        self.key_hashes.clear();
        self.set_count(0);
    }

    /// Writes the count directly before the operations.
    #[inline]
    fn set_count(&mut self, count: u64) {
        if count < 0x80 {
            self.start = COUNT_BYTES - 1;
            self.bytes[COUNT_BYTES - 1] = count as u8;
            return;
        }
        self.start = COUNT_BYTES - varint_bytes(count);
        let mut rest = count;
        for at in self.start..COUNT_BYTES - 1 {
            self.bytes[at] = rest as u8 | 0x80;
            rest >>= 7;
        }
        self.bytes[COUNT_BYTES - 1] = rest as u8;
    }
}

impl std::ops::Deref for EncodedOperations {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl PartialEq for EncodedOperations {
    fn eq(&self, other: &EncodedOperations) -> bool {
        **self == **other
    }
}

impl Eq for EncodedOperations {}

impl std::fmt::Debug for EncodedOperations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

/// Buffers for the parts of an operation that change once its seqno is known.
#[derive(Debug, Default)]
pub struct Binding {
    key: Vec<u8>,
    companion: Vec<u8>,
}

impl Binding {
    /// Returns the record of an operation whose seqno is `first + at`, with `first` the batch's first seqno: binds its
    /// companions, and replaces a placeholder at the end of its key if the family's keys end in seqnos. All code that
    /// reads operations from a log uses this function. Errors: `Corruption` if the key refers to an operation before
    /// its batch.
    #[inline]
    pub fn record<'a>(
        &'a mut self,
        operation: &BatchOperation<'a>,
        place: (Seqno, u64),
        key_ends_in_seqno: bool,
        protector: &dyn Companions,
    ) -> Result<Record<'a>> {
        self.record_and_term(operation, place, key_ends_in_seqno, protector).map(|(record, _)| record)
    }

    /// As `record`, with the record's ledger term if the protector returned it.
    #[inline]
    pub(crate) fn record_and_term<'a>(
        &'a mut self,
        operation: &BatchOperation<'a>,
        (first, at): (Seqno, u64),
        key_ends_in_seqno: bool,
        protector: &dyn Companions,
    ) -> Result<(Record<'a>, Option<u64>)> {
        let BatchOperation { kind, value, .. } = *operation;
        let seqno = first + at;
        let back = if key_ends_in_seqno { distance(operation.key) } else { None };
        if let Some(back) = back {
            return self.keyed(*operation, (seqno, at), back, protector).map(|record| (record, None));
        }
        let (value, term) =
            (unlogged(kind, value), protector.bind_new(operation.companion, seqno, &mut self.companion));
        Ok((Record { key: operation.key, seqno, kind, value, companion: &self.companion }, term))
    }

    #[inline(never)]
    fn keyed<'a>(
        &'a mut self,
        operation: BatchOperation<'a>,
        (seqno, at): (Seqno, u64),
        back: u64,
        protector: &dyn Companions,
    ) -> Result<Record<'a>> {
        planted!(KeyBoundToAnotherOperation => let back = 0);
        if back > at {
            return Err(Error::structural("a key ends in the seqno of an operation in front of its batch"));
        }
        let BatchOperation { key, kind, value, companion, .. } = operation;
        self.key.clear();
        self.key.extend_from_slice(&key[..key.len() - 8]);
        self.key.extend_from_slice(&highest_first(seqno - back));
        self.companion.clear();
        if !companion.is_empty() && protector.protection() != Protection::None {
            self.companion.extend_from_slice(companion);
            protector.rekey(&mut self.companion, key, &self.key);
            protector.bind(&mut self.companion, None, seqno);
        }
        Ok(Record { key: &self.key, seqno, kind, value, companion: &self.companion })
    }
}

/// Returns the placeholder for the last eight bytes of a key: the commit replaces it with the seqno of the operation
/// that is `distance` operations earlier in the batch; 0 means the key's own operation.
pub fn seqno_of_before(distance: u64) -> [u8; 8] {
    highest_first(OPEN << 56 | distance & MAX_SEQNO)
}

/// Encodes a number for a key: big-endian, so that it sorts.
fn highest_first(number: u64) -> [u8; 8] {
    number.swap_bytes().to_le_bytes()
}

/// The top byte of a placeholder. No seqno has it, since seqnos have 56 bits.
const OPEN: u64 = 0xFF;

/// Returns how many operations earlier the operation is whose seqno the key ends in; `None` if the key has no
/// placeholder.
#[inline]
pub(crate) fn distance(key: &[u8]) -> Option<u64> {
    let word = u64::from_le_bytes(*key.last_chunk()?).swap_bytes();
    (word >> 56 == OPEN).then_some(word & MAX_SEQNO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::Plain;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn operations_come_back(ops: Vec<(u32, bool, Vec<u8>, Vec<u8>)>) {
            let mut batch = Batch::new();
            for (family, delete, key, value) in &ops {
                batch.push(*family, if *delete { Kind::Delete } else { Kind::Put }, key, value, &Plain).unwrap();
            }
            let body = batch.seal();
            let back: Vec<_> = BatchOperations::new(&body.bytes).unwrap().collect::<Result<_>>().unwrap();
            prop_assert_eq!(back.len(), ops.len());
            for (op, (family, delete, key, value)) in back.iter().zip(&ops) {
                let kind = if *delete { Kind::Delete } else { Kind::Put };
                prop_assert_eq!(*op, BatchOperation { family: *family, kind, key, value, companion: &[] });
            }
        }

        #[test]
        fn a_key_ends_in_the_seqno_that_it_names_or_is_as_it_was(
            start: Vec<u8>, end: [u8; 8], is_open: bool, ends: bool, back in 0..6u64, at in 0..6u64, first in 1u64..1 << 50,
        ) {
            let end = if is_open { seqno_of_before(back) } else { end };
            let key = [&start[..], &end].concat();
            let operation = BatchOperation { family: 1, kind: Kind::Put, key: &key, value: b"v", companion: &[] };
            let mut binding = Binding::default();
            let found = binding.record(&operation, (first, at), ends, &Plain);
            let named = if ends { distance(&key) } else { None };
            match named {
                Some(back) if back > at => prop_assert!(found.unwrap_err().is_corruption()),
                Some(back) => {
                    let expected = [&start[..], &highest_first(first + at - back)].concat();
                    let record = found.unwrap();
                    prop_assert_eq!((record.key, record.seqno, record.value), (&expected[..], first + at, &b"v"[..]));
                    prop_assert_eq!(distance(record.key), None);
                }
                None => prop_assert_eq!(found.unwrap().key, &key[..]),
            }
            prop_assert!(!is_open || distance(&key) == Some(back));
        }

        #[test]
        fn any_bytes_are_walked_or_refused(bytes: Vec<u8>) {
            if let Ok(operations) = BatchOperations::new(&bytes) {
                let _ = operations.count();
            }
        }
    }

    #[test]
    fn a_batch_shows_what_was_put_into_it_and_forgets_its_grant() {
        let mut batch = Batch::new();
        batch.grant(SystemPass::for_layers_above());
        batch.push(7, Kind::Put, b"a", b"1", &Plain).unwrap();
        batch.push_with(8, Kind::Delete, b"b", b"", &[companion::WORD8, 1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let shown: Vec<BatchOperation<'_>> = batch.operations().collect::<Result<_>>().unwrap();
        assert_eq!(
            shown.iter().map(|op| (op.family, op.key, op.companion.len())).collect::<Vec<_>>(),
            [(7, &b"a"[..], 0), (8, b"b", 9)]
        );
        assert!(batch.is_granted());
        batch.clear();
        assert!(!batch.is_granted() && batch.operations().next().is_none());
    }

    #[test]
    fn what_was_sealed_stays_and_its_memory_is_used_again_once_it_is_let_go() {
        let mut batch = Batch::new();
        let key = |body: &Body| BatchOperations::new(&body.bytes).unwrap().next().unwrap().unwrap().key.to_vec();
        batch.push(0, Kind::Put, b"a", b"1", &Plain).unwrap();
        let first = batch.seal();
        assert_eq!(first.bytes.as_ptr(), batch.encoded()[..].as_ptr(), "no copy");
        batch.push(0, Kind::Put, b"a", b"2", &Plain).unwrap();
        let longer = batch.seal();
        assert_eq!([&first, &longer].map(|body| BatchOperations::new(&body.bytes).unwrap().count()), [1, 2]);
        batch.clear();
        batch.push(0, Kind::Put, b"b", b"2", &Plain).unwrap();
        let second = batch.seal();
        assert_eq!((key(&first), key(&longer), key(&second)), (b"a".to_vec(), b"a".to_vec(), b"b".to_vec()));
        assert_eq!((second.bytes.key_hash(0), second.bytes.key_hash(1)), (Some(hash(b"b")), None));
        let place = second.bytes.as_ptr();
        drop(second);
        batch.clear();
        batch.push(0, Kind::Put, b"c", b"2", &Plain).unwrap();
        assert_eq!(batch.seal().bytes.as_ptr(), place);
    }

    #[test]
    fn a_refused_operation_leaves_the_batch_as_it_was() {
        let mut batch = Batch::new();
        batch.push(0, Kind::Put, b"a", b"1", &Plain).unwrap();
        let before = batch.seal().bytes;
        assert!(batch.push(0, Kind::Put, &vec![0; MAX_KEY_BYTES + 1], b"", &Plain).is_err());
        assert_eq!(batch.seal().bytes, before);
    }

    #[test]
    fn given_companions_stand_behind_their_operation_and_anything_else_is_refused() {
        let mut batch = Batch::new();
        let given = [&[companion::WORD8][..], &[7; 8], &[companion::LIST, 1, 9]].concat();
        batch.push_with(3, Kind::Put, b"a", b"1", &given).unwrap();
        let before = batch.seal();
        let back = BatchOperations::new(&before.bytes).unwrap().next().unwrap().unwrap();
        assert_eq!((back.family, back.key, back.value, back.companion), (3, &b"a"[..], &b"1"[..], &given[..]));
        let large = [&[companion::LIST, 0xFF, 0xFF, 0x03][..], &vec![0; 0xFFFF]].concat();
        for bad in [&given[..5], &[0x33, 1], &[given.clone(), vec![0]].concat(), &large] {
            let error = batch.push_with(3, Kind::Put, b"b", b"2", bad).unwrap_err();
            assert_eq!(*error.kind(), crate::error::ErrorKind::Invalid);
        }
        assert_eq!(batch.seal().bytes, before.bytes);
        assert_eq!(batch.families(), [3]);
    }
}
