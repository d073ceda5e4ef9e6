//! Write batches: writes collected without a store.
//!
//! A batch is one buffer that holds, for each write, its kind, the lengths of key and value, and both. Readers share
//! the buffer, so that the caller may change the batch during an iteration; a change then copies the buffer.

use std::sync::Arc;

use crate::failure::Failure;

/// Larger batches are refused: this is the limit of a commit.
const MOST_BYTES: usize = 4 << 30;

/// Kind, key length, value length.
const HEAD_BYTES: usize = 9;
const PUT: u8 = 1;
const DELETE: u8 = 0;

/// One write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchWrite<'a> {
    Put(&'a [u8], &'a [u8]),
    Delete(&'a [u8]),
}

/// Writes that commit atomically.
#[derive(Clone, Debug, Default)]
pub(crate) struct LevelBatch {
    bytes: Arc<Vec<u8>>,
    /// The reason why the batch cannot be written: a write was refused, and the C function could not report it.
    fault: Option<Failure>,
}

impl LevelBatch {
    /// Adds a write. A failed write makes the whole batch fail when it is written.
    pub(crate) fn add(&mut self, write: Result<BatchWrite<'_>, Failure>) {
        if self.fault.is_none() {
            self.fault = write.and_then(|write| self.push(write)).err();
        }
    }

    fn push(&mut self, write: BatchWrite<'_>) -> Result<(), Failure> {
        let (kind, key, value) = match write {
            BatchWrite::Put(key, value) => (PUT, key, value),
            BatchWrite::Delete(key) => (DELETE, key, &[][..]),
        };
        let bytes = self.room(HEAD_BYTES + key.len() + value.len())?;
        bytes.push(kind);
        bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        Ok(())
    }

    /// Appends the writes of another batch, or of a copy of this one.
    pub(crate) fn append(&mut self, other: &LevelBatch) {
        if self.fault.is_none() {
            let added = self.room(other.bytes.len()).map(|bytes| bytes.extend_from_slice(&other.bytes));
            self.fault = added.err().or_else(|| other.fault.clone());
        }
    }

    /// Removes all writes, and the error of a refused one.
    pub(crate) fn clear(&mut self) {
        *self = LevelBatch::default();
    }

    /// Returns the error that prevents the batch from being written.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    /// Returns the writes, in order.
    pub(crate) fn writes(&self) -> BatchWrites<'_> {
        BatchWrites { rest: &self.bytes }
    }

    /// Returns the buffer, with room for `more` bytes.
    fn room(&mut self, more: usize) -> Result<&mut Vec<u8>, Failure> {
        if more > MOST_BYTES - self.bytes.len() {
            return Err(Failure::invalid("a batch of more than 4 GiB"));
        }
        let refused = |_| Failure::io("no memory for the batch");
        if Arc::get_mut(&mut self.bytes).is_none() {
            let mut copy = Vec::new();
            copy.try_reserve(self.bytes.len() + more).map_err(refused)?;
            copy.extend_from_slice(&self.bytes);
            self.bytes = Arc::new(copy);
        }
        let bytes = Arc::make_mut(&mut self.bytes); // not shared here, so this copies nothing
        bytes.try_reserve(more).map_err(refused)?;
        Ok(bytes)
    }
}

/// See `LevelBatch::writes`.
pub(crate) struct BatchWrites<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for BatchWrites<'a> {
    type Item = BatchWrite<'a>;

    fn next(&mut self) -> Option<BatchWrite<'a>> {
        let (head, rest) = self.rest.split_first_chunk::<HEAD_BYTES>()?;
        let [kind, a, b, c, d, e, f, g, h] = *head;
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes([a, b, c, d]) as usize)?;
        let (value, rest) = rest.split_at_checked(u32::from_le_bytes([e, f, g, h]) as usize)?;
        self.rest = rest;
        Some(if kind == PUT { BatchWrite::Put(key, value) } else { BatchWrite::Delete(key) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(writes: &[BatchWrite<'_>]) -> LevelBatch {
        let mut batch = LevelBatch::default();
        writes.iter().for_each(|write| batch.add(Ok(*write)));
        batch
    }

    #[test]
    fn writes_come_back_in_their_order() {
        let writes = [
            BatchWrite::Put(b"a", b"1"),
            BatchWrite::Delete(b"a"),
            BatchWrite::Put(b"", b""),
            BatchWrite::Delete(&[0; 300]),
        ];
        assert_eq!(batch(&writes).writes().collect::<Vec<_>>(), writes);
    }

    #[test]
    fn a_batch_is_appended_to_another_and_to_itself() {
        let mut one = batch(&[BatchWrite::Put(b"a", b"1")]);
        one.append(&batch(&[BatchWrite::Delete(b"b")]));
        let copy = one.clone();
        one.append(&copy);
        assert_eq!(one.writes().count(), 4);
        assert_eq!(copy.writes().count(), 2, "a copy stays what it was");
    }

    #[test]
    fn a_refused_write_stays_until_the_batch_is_cleared() {
        let mut one = batch(&[BatchWrite::Put(b"a", b"1")]);
        one.add(Err(Failure::invalid("no")));
        one.add(Ok(BatchWrite::Delete(b"a")));
        assert_eq!((one.writes().count(), one.check()), (1, Err(Failure::invalid("no"))));
        let mut other = LevelBatch::default();
        other.append(&one);
        assert!(other.check().is_err());
        one.clear();
        assert_eq!((one.writes().count(), one.check()), (0, Ok(())));
    }
}
