//! The chunks of a file that have no record: their bytes are zeros.

use std::ops::Range;

use crate::codec::{Reader, put_varint};
use crate::error::{Error, Result};

/// Most holes of one entry. Of more, the smallest are filled with empty chunks.
pub(crate) const MAX_HOLES: usize = 1024;

/// Sorted ranges of chunk numbers, end excluded, with at least one chunk between two of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Holes(Vec<(u32, u32)>);

impl Holes {
    /// Returns true if a chunk is in a hole.
    pub(crate) fn contains(&self, chunk: u32) -> bool {
        self.0[..self.begun_by(chunk)].last().is_some_and(|(_, end)| chunk < *end)
    }

    /// Returns the first chunk from one on that is in a hole; `u32::MAX` without one.
    pub(crate) fn next_hole(&self, chunk: u32) -> u32 {
        match self.contains(chunk) {
            true => chunk,
            false => self.0.get(self.begun_by(chunk)).map_or(u32::MAX, |(start, _)| *start),
        }
    }

    /// Returns the first chunk from one on that is in no hole.
    pub(crate) fn next_stored(&self, chunk: u32) -> u32 {
        self.0[..self.begun_by(chunk)].last().map_or(chunk, |(_, end)| chunk.max(*end))
    }

    /// Returns the number of holes that begin at a chunk or before it.
    fn begun_by(&self, chunk: u32) -> usize {
        self.0.partition_point(|(start, _)| *start <= chunk)
    }

    /// Adds a range of chunks.
    pub(crate) fn insert(&mut self, start: u32, end: u32) {
        if start >= end {
            return;
        }
        let first = self.0.partition_point(|(_, other)| *other < start);
        let last = self.begun_by(end);
        let joined = &self.0[first..last.max(first)];
        let start = joined.first().map_or(start, |(other, _)| start.min(*other));
        let end = joined.last().map_or(end, |(_, other)| end.max(*other));
        self.0.splice(first..last.max(first), [(start, end)]);
    }

    /// Removes a range of chunks.
    pub(crate) fn remove(&mut self, start: u32, end: u32) {
        if start >= end {
            return;
        }
        let first = self.0.partition_point(|(_, other)| *other <= start);
        let last = self.0.partition_point(|(other, _)| *other < end).max(first);
        let rests: Vec<(u32, u32)> = self.0[first..last]
            .iter()
            .flat_map(|(left, right)| [(*left, start.min(*right)), (end.max(*left), *right)])
            .filter(|(left, right)| left < right)
            .collect();
        self.0.splice(first..last, rests);
    }

    /// Removes all chunks from one on.
    pub(crate) fn truncate(&mut self, end: u32) {
        self.remove(end, u32::MAX);
    }

    /// Returns the smallest hole if there are more than `MAX_HOLES`.
    pub(crate) fn smallest_beyond_limit(&self) -> Option<(u32, u32)> {
        if self.0.len() <= MAX_HOLES {
            return None;
        }
        self.0.iter().copied().min_by_key(|(start, end)| end - start)
    }

    /// Returns true if a few more holes would be more than `MAX_HOLES`.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.0.len() + 2 > MAX_HOLES
    }

    /// Returns the number of chunks in the smallest holes, those beyond `MAX_HOLES`.
    pub(crate) fn beyond_limit(&self) -> u64 {
        let mut lengths: Vec<u32> = self.0.iter().map(|(start, end)| end - start).collect();
        lengths.sort_unstable();
        lengths.iter().take(self.0.len().saturating_sub(MAX_HOLES)).map(|length| u64::from(*length)).sum()
    }

    /// Returns the number of chunks in holes.
    pub(crate) fn chunks(&self) -> u32 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// Returns the runs of chunks below `end` that are in no hole.
    pub(crate) fn stored_runs(&self, end: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let starts = std::iter::once(0).chain(self.0.iter().map(|(_, hole_end)| *hole_end));
        let ends = self.0.iter().map(|(hole_start, _)| *hole_start).chain(std::iter::once(end));
        starts.zip(ends).filter(|(start, end)| start < end)
    }

    /// Returns the chunks of a range that are in no hole.
    pub(crate) fn stored_in(&self, range: Range<u32>) -> impl Iterator<Item = u32> + '_ {
        let first = self.next_stored(range.start);
        let next = |chunk: &u32| Some(self.next_stored(chunk.saturating_add(1)));
        std::iter::successors(Some(first), next).take_while(move |chunk| *chunk < range.end)
    }

    /// Returns the holes in order, end excluded.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.0.iter().copied()
    }

    /// Appends the number of holes, then the distance of each hole from the end of the previous hole, and its length.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0.len() as u64);
        let mut before = 0;
        for (start, end) in &self.0 {
            put_varint(out, u64::from(start - before));
            put_varint(out, u64::from(end - start));
            before = *end;
        }
    }

    /// Reads the holes of a content of `chunks` chunks.
    pub(crate) fn decode(reader: &mut Reader<'_>, chunks: u32) -> Result<Holes> {
        let count = reader.varint()?;
        if count > MAX_HOLES as u64 {
            return Err(Error::corruption(format!("an entry with {count} holes; the limit is {MAX_HOLES}")));
        }
        let mut holes = Holes::default();
        let mut before = 0u32;
        for at in 0..count {
            let (gap, length) = (reader.varint_u32()?, reader.varint_u32()?);
            let start = before.checked_add(gap).filter(|_| gap > 0 || at == 0);
            let end = start.and_then(|start| start.checked_add(length)).filter(|end| length > 0 && *end <= chunks);
            let (Some(start), Some(end)) = (start, end) else {
                return Err(Error::corruption("an entry whose holes are not in order, or beyond its end"));
            };
            holes.0.push((start, end));
            before = end;
        }
        Ok(holes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const END: u32 = 40;

    proptest! {
        #[test]
        fn holes_are_a_set_of_chunks(steps in prop::collection::vec((0u8..3, 0..END, 0..END), 1..20)) {
            let (mut holes, mut model) = (Holes::default(), BTreeSet::new());
            for (kind, start, end) in steps {
                match kind {
                    0 => {
                        holes.insert(start, end);
                        model.extend(start..end);
                    }
                    1 => {
                        holes.remove(start, end);
                        model.retain(|chunk| !(start..end).contains(chunk));
                    }
                    _ => {
                        holes.truncate(end);
                        model.retain(|chunk| *chunk < end);
                    }
                }
                prop_assert_eq!((0..END).filter(|chunk| holes.contains(*chunk)).collect::<BTreeSet<_>>(), model.clone());
                prop_assert_eq!(holes.chunks() as usize, model.len());
                let hole = model.range(start..).next().copied();
                prop_assert_eq!(holes.next_hole(start), hole.unwrap_or(u32::MAX));
                prop_assert_eq!(holes.next_stored(start), (start..).find(|chunk| !model.contains(chunk)).unwrap());
                let stored: Vec<u32> = holes.stored_runs(END).flat_map(|(start, end)| start..end).collect();
                prop_assert_eq!(stored, (0..END).filter(|chunk| !model.contains(chunk)).collect::<Vec<_>>());
                let part: Vec<u32> = (start..end).filter(|chunk| !model.contains(chunk)).collect();
                prop_assert_eq!(holes.stored_in(start..end).collect::<Vec<_>>(), part);
                prop_assert_eq!(holes.runs().flat_map(|(start, end)| start..end).collect::<BTreeSet<_>>(), model.clone());
                let mut bytes = Vec::new();
                holes.encode(&mut bytes);
                let mut reader = Reader::new(&bytes);
                prop_assert_eq!(Holes::decode(&mut reader, END).unwrap(), holes.clone());
                reader.end().unwrap();
                let short = model.last().is_some_and(|last| Holes::decode(&mut Reader::new(&bytes), *last).is_ok());
                prop_assert!(!short, "a hole beyond the end");
            }
        }

        #[test]
        fn any_bytes_are_holes_or_refused(bytes in prop::collection::vec(0u8..6, 0..10)) {
            let mut reader = Reader::new(&bytes);
            if let Ok(holes) = Holes::decode(&mut reader, 20) {
                let mut again = Vec::new();
                holes.encode(&mut again);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - reader.rest().len()]);
            }
        }
    }

    #[test]
    fn the_smallest_hole_is_named_beyond_the_limit() {
        let mut holes = Holes::default();
        for n in 0..MAX_HOLES as u32 {
            holes.insert(n * 10, n * 10 + 5);
        }
        assert_eq!(holes.smallest_beyond_limit(), None);
        holes.insert(1_000_000, 1_000_002);
        assert_eq!(holes.smallest_beyond_limit(), Some((1_000_000, 1_000_002)));
    }
}
