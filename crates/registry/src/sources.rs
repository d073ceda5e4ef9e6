//! The sources of events, and their merge.
//!
//! ```text
//! stored    the log family, through an engine cursor
//! sorted    a few rows in memory: lines of the engine event log, or the versions of one key
//! pending   the memtables of families whose events are not rows yet (pending.rs)
//! merged    all of them; a row that two of them hold is returned once
//! ```
//!
//! A flush turns a pending row into a stored one. The merge opens the pending sources first: it may see an event twice,
//! which its key reveals, but never misses one.

use waxseal_lsm::error::Result;
use waxseal_lsm::read::UserCursor;

use crate::key::{Back, Latest};

/// A forward iterator over log rows in key order.
pub(crate) trait LogRows {
    /// Moves to the first row at or after a key.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// Moves to the next row; must be on a row.
    fn next(&mut self) -> Result<()>;
    /// Returns key and value of the current row; `None` at the end.
    fn row(&self) -> Option<(&[u8], &[u8])>;
}

/// Rows of the log family.
pub(crate) struct StoredRows(pub(crate) UserCursor);

impl LogRows for StoredRows {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.0.seek(key)
    }
    fn next(&mut self) -> Result<()> {
        self.0.next()
    }
    fn row(&self) -> Option<(&[u8], &[u8])> {
        self.0.valid().then(|| (self.0.key(), self.0.value()))
    }
}

impl StoredRows {
    /// Returns the row of the latest event of a `Latest` search.
    pub(crate) fn latest(&mut self, mut walk: Latest) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.0.seek_for_prev(walk.end())?;
        loop {
            match walk.step(self.0.valid().then(|| self.0.key()))? {
                Back::Prev => self.0.prev()?,
                Back::Seek(before) => self.0.seek_for_prev(&before)?,
                Back::Done => break,
            }
        }
        let Some(best) = walk.best() else { return Ok(None) };
        if !self.0.valid() || self.0.key() != best {
            self.0.seek(best)?;
        }
        Ok((self.0.key() == best).then(|| (best.to_vec(), self.0.value().to_vec())))
    }
}

/// Rows in memory.
#[derive(Default)]
pub(crate) struct Sorted {
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    at: usize,
}

impl Sorted {
    /// Creates it from rows in any order.
    pub(crate) fn of(mut rows: Vec<(Vec<u8>, Vec<u8>)>) -> Sorted {
        rows.sort();
        Sorted { rows, at: 0 }
    }

    /// Returns the row of the latest event of a `Latest` search.
    pub(crate) fn latest(&self, mut walk: Latest) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let below = |key: &[u8]| self.rows.partition_point(|(own, _)| own.as_slice() < key);
        let mut end = below(walk.end());
        loop {
            let key = end.checked_sub(1).map(|at| self.rows[at].0.as_slice());
            match walk.step(key)? {
                Back::Prev => end = end.saturating_sub(1),
                Back::Seek(before) => end = below(&before),
                Back::Done => break,
            }
        }
        let best = walk.best().map(below).and_then(|at| self.rows.get(at));
        Ok(best.cloned())
    }
}

impl LogRows for Sorted {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.at = self.rows.partition_point(|(own, _)| own.as_slice() < key);
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }
    fn row(&self) -> Option<(&[u8], &[u8])> {
        self.rows.get(self.at).map(|(key, value)| (key.as_slice(), value.as_slice()))
    }
}

/// The merge of several sources.
pub(crate) struct Merged<'a> {
    sources: Vec<Box<dyn LogRows + 'a>>,
    least: Option<usize>,
}

impl<'a> Merged<'a> {
    pub(crate) fn of(sources: Vec<Box<dyn LogRows + 'a>>) -> Merged<'a> {
        Merged { sources, least: None }
    }

    fn find(&mut self) {
        let keys = self.sources.iter().enumerate().filter_map(|(at, source)| source.row().map(|(key, _)| (key, at)));
        self.least = keys.min().map(|(_, at)| at);
    }
}

impl LogRows for Merged<'_> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.sources.iter_mut().try_for_each(|source| source.seek(key))?;
        self.find();
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        let Some(key) = self.row().map(|(key, _)| key.to_vec()) else { return Ok(()) };
        for source in &mut self.sources {
            while source.row().is_some_and(|(own, _)| own == key) {
                source.next()?;
            }
        }
        self.find();
        Ok(())
    }
    fn row(&self) -> Option<(&[u8], &[u8])> {
        self.least.and_then(|at| self.sources.get(at)).and_then(|source| source.row())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn walk(rows: &mut dyn LogRows, from: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        rows.seek(from).unwrap();
        let mut found = Vec::new();
        while let Some((key, value)) = rows.row() {
            found.push((key.to_vec(), value.to_vec()));
            rows.next().unwrap();
        }
        found
    }

    proptest! {
        #[test]
        fn many_are_as_one(parts in vec(vec((0..9u8, Just(7u8)), 0..8), 0..4), from in 0..9u8) {
            let row = |(key, value): &(u8, u8)| (vec![*key], vec![*value]);
            let all: BTreeMap<Vec<u8>, Vec<u8>> = parts.iter().flatten().map(row).collect();
            let sorted = |part: &Vec<(u8, u8)>| -> Box<dyn LogRows> { Box::new(Sorted::of(part.iter().map(row).collect())) };
            let mut merged = Merged::of(parts.iter().map(sorted).collect());
            let expected: Vec<_> = all.range(vec![from]..).map(|(key, value)| (key.clone(), value.clone())).collect();
            prop_assert_eq!(walk(&mut merged, &[from]), expected);
        }
    }
}
