//! The version of one family's tables that readers pin. Immutable: a change creates a new version that shares all
//! unchanged levels.
//!
//! Level 0 is ordered newest first, and its tables may overlap. Levels 1 to 6 are sorted by key and disjoint, and no
//! user key is in two tables of a level (I05), so that one binary search finds the only table that may hold a key.
//!
//! In bytewise order the search compares eight bytes of each bound, taken after the common prefix of all keys of the
//! level, in two arrays; only equal heads require a comparison of whole keys. A read searches only the levels that have
//! tables.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use super::LEVELS;
use super::handle::LazyTable;
use super::table_meta::TableMeta;
use crate::error::{Damage, Error, Result, Verdict};
use crate::order::{Order, begins_with, common_prefix, head};
use crate::planted;

/// All levels of one family.
pub struct Levels<T> {
    order: Order,
    levels: [Arc<Level<T>>; LEVELS],
    /// The levels >= 1 that have tables, in ascending order, followed by zeros.
    filled: [u8; LEVELS],
    tables: usize,
}

/// One level.
pub struct Level<T> {
    tables: Vec<Arc<LazyTable<T>>>,
    /// Present in bytewise order.
    heads: Option<Arc<Heads>>,
    bytes: u64,
}

/// Bounds of a level's tables as numbers, in the order of the tables.
struct Heads {
    prefix: Vec<u8>,
    smallest: Vec<u64>,
    largest: Vec<u64>,
}

impl<T> Levels<T> {
    /// Creates a version without tables.
    pub fn empty(order: Order) -> Levels<T> {
        Levels::of(order, std::array::from_fn(|_| Arc::new(Level::empty())))
    }

    fn of(order: Order, levels: [Arc<Level<T>>; LEVELS]) -> Levels<T> {
        let mut filled = [0; LEVELS];
        let deeper = (1..LEVELS).filter(|level| !levels[*level].tables.is_empty());
        filled.iter_mut().zip(deeper).for_each(|(to, level)| *to = level as u8);
        let tables = levels.iter().map(|level| level.tables.len()).sum();
        Levels { order, levels, filled, tables }
    }

    /// Creates the version with these tables, each with its level.
    pub fn new(order: Order, tables: impl IntoIterator<Item = (usize, Arc<LazyTable<T>>)>) -> Result<Levels<T>> {
        let tables: Vec<_> = tables.into_iter().collect();
        Levels::empty(order).apply(&[], &tables)
    }

    /// Returns the version after removing some tables and adding others, each with its level. A table that moves is
    /// removed and added with the same handle. Removed tables must be present, and every level must remain disjoint
    /// (I05).
    pub fn apply(&self, removes: &[(usize, u64)], adds: &[(usize, Arc<LazyTable<T>>)]) -> Result<Levels<T>> {
        let mut levels = self.levels.clone();
        for (number, level) in levels.iter_mut().enumerate() {
            let goes = |table: u64| removes.contains(&(number, table));
            let coming = adds.iter().filter(|(to, _)| *to == number).map(|(_, handle)| Arc::clone(handle));
            let going = removes.iter().filter(|(from, _)| *from == number).count();
            let mut tables: Vec<_> =
                level.tables.iter().filter(|handle| !goes(handle.meta().number)).cloned().collect();
            if tables.len() + going != level.tables.len() {
                return Err(out_of_place(format!("level {number}: a table that goes is not there")));
            }
            tables.extend(coming);
            if going > 0 || tables.len() != level.tables.len() {
                *level = Arc::new(Level::new(&self.order, number, tables)?);
            }
        }
        let all = adds.iter().all(|(level, _)| *level < LEVELS) && removes.iter().all(|(level, _)| *level < LEVELS);
        all.then(|| Levels::of(self.order.clone(), levels)).ok_or_else(|| out_of_place("no such level".into()))
    }

    /// Checks whether `apply` would accept these changes, without creating a version. Returns `Corruption` if it would
    /// not.
    pub fn check(&self, removes: &[(usize, u64)], adds: &[(usize, Arc<TableMeta>)]) -> Result<()> {
        if let Some((level, number)) =
            removes.iter().find(|(level, number)| *level >= LEVELS || self.get(*level, *number).is_none())
        {
            return Err(out_of_place(format!("level {level}: table {number:06}, which goes, is not there")));
        }
        if let Some((level, _)) = adds.iter().find(|(level, _)| *level >= LEVELS) {
            return Err(out_of_place(format!("there is no level {level}")));
        }
        if let Some((_, meta)) = adds.iter().find(|(_, meta)| inverted(&self.order, meta)) {
            return Err(out_of_place(format!("table {:06} ends before it begins", meta.number)));
        }
        for level in 1..LEVELS {
            let mut tables: Vec<_> = adds.iter().filter(|(to, _)| *to == level).map(|(_, meta)| meta).collect();
            if tables.is_empty() {
                continue;
            }
            let there = self.levels[level].tables.iter().map(|handle| handle.meta());
            tables.extend(there.filter(|meta| !removes.contains(&(level, meta.number))));
            let tables = self.order.sorted(tables, |order, a, b| order.compare(&a.smallest, &b.smallest));
            if tables.windows(2).any(|pair| self.order.compare(&pair[0].largest, &pair[1].smallest).is_ge()) {
                return Err(out_of_place(format!("level {level}: a table that comes overlaps another (I05)")));
            }
        }
        Ok(())
    }

    /// Returns the same version with new handles for at most `most` open tables, namely those not used since the last
    /// call or, if `any`, any open ones; and the number of new handles.
    pub fn put_back(&self, most: usize, any: bool) -> (Levels<T>, usize) {
        let mut left = most;
        self.with_anew(|handle| {
            let is_due = left > 0 && handle.may_be_put_back(any);
            left -= usize::from(is_due);
            is_due
        })
    }

    /// Returns the same version with new handles for the chosen tables, which are then opened again by their next
    /// reader; and the number of new handles.
    pub fn with_anew(&self, mut is_due: impl FnMut(&LazyTable<T>) -> bool) -> (Levels<T>, usize) {
        let mut taken = 0;
        let levels = self.levels.each_ref().map(|level| {
            let before = taken;
            let handle = |handle: &Arc<LazyTable<T>>| match is_due(handle) {
                true => {
                    taken += 1;
                    handle.anew()
                }
                false => Arc::clone(handle),
            };
            let tables = level.tables.iter().map(handle).collect();
            match taken == before {
                true => Arc::clone(level),
                false => Arc::new(Level { tables, heads: level.heads.clone(), bytes: level.bytes }),
            }
        });
        (Levels { order: self.order.clone(), levels, ..*self }, taken)
    }

    /// Returns the order of keys.
    #[inline]
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// Returns one level; `level` must be below `LEVELS`.
    #[inline]
    pub fn level(&self, level: usize) -> &Level<T> {
        &self.levels[level]
    }

    /// Returns all levels from 0 on.
    pub fn iter(&self) -> impl Iterator<Item = &Level<T>> {
        self.levels.iter().map(|level| &**level)
    }

    /// Returns the level-0 tables that may hold `key`, newest first.
    #[inline]
    pub fn newest_holding<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = &'a Arc<LazyTable<T>>> {
        TablesHolding { deeper: &[], ..self.holding(key) }
    }

    /// Returns every table that may hold `key`, those with newer versions first.
    #[inline]
    pub fn holding<'a>(&'a self, key: &'a [u8]) -> TablesHolding<'a, T> {
        let level = &*self.levels[0];
        let wanted = match &level.heads {
            Some(heads) if !level.tables.is_empty() => Some((&**heads, heads.of(key))),
            _ => None,
        };
        TablesHolding { levels: self, key, wanted, at: 0, deeper: &self.filled }
    }

    /// Returns the levels >= 1 that have tables.
    #[inline]
    pub fn filled(&self) -> impl Iterator<Item = usize> {
        self.filled.iter().take_while(|level| **level > 0).map(|level| *level as usize)
    }

    /// Returns the only table of a level >= 1 that may hold `key`.
    #[inline]
    pub fn find(&self, level: usize, key: &[u8]) -> Option<&Arc<LazyTable<T>>> {
        debug_assert!(level >= 1);
        self.levels[level].find(&self.order, key)
    }

    /// Returns the index of the first table in a level >= 1 that ends at or after `key`; the number of tables if there
    /// is none.
    #[inline]
    pub fn seek(&self, level: usize, key: &[u8]) -> usize {
        self.levels[level].seek(&self.order, key)
    }

    /// Returns the tables of a level that overlap the range from `low` to `high`, both inclusive; `None` means open.
    pub fn overlapping<'a>(
        &'a self,
        level: usize,
        low: Option<&'a [u8]>,
        high: Option<&'a [u8]>,
    ) -> impl Iterator<Item = &'a Arc<LazyTable<T>>> {
        self.levels[level].tables.iter().filter(move |handle| {
            let meta = handle.meta();
            low.is_none_or(|low| self.order.compare(&meta.largest, low).is_ge())
                && high.is_none_or(|high| self.order.compare(&meta.smallest, high).is_le())
        })
    }

    /// True if no level below `level` may hold `key`: a tombstone that reaches that level hides no older version.
    pub fn is_bottom_for(&self, level: usize, key: &[u8]) -> bool {
        (level + 1..LEVELS).all(|deeper| self.find(deeper, key).is_none())
    }

    /// Returns the table with this number.
    pub fn get(&self, level: usize, number: u64) -> Option<&Arc<LazyTable<T>>> {
        self.levels.get(level)?.tables.iter().find(|handle| handle.meta().number == number)
    }

    /// Returns the largest key and the size of each table of a level, in order; empty below the bottom.
    pub fn ends(&self, level: usize) -> Vec<(Vec<u8>, u64)> {
        let tables = self.levels.get(level).map_or(&[][..], |level| level.tables());
        tables.iter().map(|handle| (handle.meta().largest.clone(), handle.meta().size)).collect()
    }

    /// Returns the number of tables.
    #[inline]
    pub fn tables(&self) -> usize {
        self.tables
    }
}

/// Iterator of `Levels::holding`.
pub struct TablesHolding<'a, T> {
    levels: &'a Levels<T>,
    key: &'a [u8],
    /// The heads of level 0, and the head of the key if the key has one there; `None` without heads.
    wanted: Option<(&'a Heads, Option<u64>)>,
    /// Index of the next table of level 0.
    at: usize,
    /// The levels to search after level 0; a 0 ends the list.
    deeper: &'a [u8],
}

impl<'a, T> Iterator for TablesHolding<'a, T> {
    type Item = &'a Arc<LazyTable<T>>;

    #[inline]
    fn next(&mut self) -> Option<&'a Arc<LazyTable<T>>> {
        let TablesHolding { levels, key, wanted, .. } = *self;
        while let Some(handle) = levels.levels[0].tables.get(self.at) {
            let by_heads = match wanted {
                Some((heads, Some(wanted))) => heads.is_within(self.at, wanted),
                Some((_, None)) => Some(false),
                None => None,
            };
            self.at += 1;
            if by_heads.unwrap_or_else(|| holds(&levels.order, handle.meta(), key)) {
                return Some(handle);
            }
        }
        while let Some((level, deeper)) = self.deeper.split_first()
            && *level > 0
        {
            self.deeper = deeper;
            if let Some(handle) = levels.levels.get(*level as usize).and_then(|level| level.find(&levels.order, key)) {
                return Some(handle);
            }
        }
        None
    }
}

impl<T> Clone for Levels<T> {
    fn clone(&self) -> Self {
        Levels { order: self.order.clone(), levels: self.levels.clone(), ..*self }
    }
}

impl<T> Level<T> {
    fn empty() -> Level<T> {
        Level { tables: Vec::new(), heads: None, bytes: 0 }
    }

    /// Sorts the tables in the order of the level and checks I05.
    fn new(order: &Order, level: usize, mut tables: Vec<Arc<LazyTable<T>>>) -> Result<Level<T>> {
        let bytes = tables.iter().map(|handle| handle.meta().size).fold(0, u64::saturating_add);
        if let Some(handle) = tables.iter().find(|handle| inverted(order, handle.meta())) {
            return Err(out_of_place(format!("{handle:?} ends before it begins")));
        }
        if level == 0 {
            let age = |handle: &Arc<LazyTable<T>>| (handle.meta().newest_seqno(), handle.meta().number);
            tables.sort_by_key(|handle| std::cmp::Reverse(age(handle)));
            planted!(LevelOutOfOrder => { tables.reverse(); });
            let heads = order.is_bytewise().then(|| Arc::new(Heads::new(&tables)));
            return Ok(Level { tables, heads, bytes });
        }
        let tables = order.sorted(tables, |order, a, b| order.compare(&a.meta().smallest, &b.meta().smallest));
        for pair in tables.windows(2) {
            if order.compare(&pair[0].meta().largest, &pair[1].meta().smallest).is_ge() {
                return Err(out_of_place(format!("level {level}: {:?} overlaps {:?} (I05)", pair[0], pair[1])));
            }
        }
        let heads = order.is_bytewise().then(|| Arc::new(Heads::new(&tables)));
        Ok(Level { tables, heads, bytes })
    }

    /// Returns its tables: level 0 newest first, other levels by key.
    #[inline]
    pub fn tables(&self) -> &[Arc<LazyTable<T>>] {
        &self.tables
    }

    /// Returns the total length of its files in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn find(&self, order: &Order, key: &[u8]) -> Option<&Arc<LazyTable<T>>> {
        if let Some(heads) = &self.heads {
            let wanted = heads.of(key)?;
            let at = heads.largest.partition_point(|largest| *largest < wanted);
            // The heads are nearly always conclusive.
            if let Some(is_within) = heads.is_within(at, wanted) {
                return if is_within { self.tables.get(at) } else { None };
            }
        }
        let handle = self.tables.get(self.seek(order, key))?;
        order.compare(&handle.meta().smallest, key).is_le().then_some(handle)
    }

    fn seek(&self, order: &Order, key: &[u8]) -> usize {
        let ends_before = |handle: &Arc<LazyTable<T>>| order.compare(&handle.meta().largest, key).is_lt();
        let Some(heads) = &self.heads else { return self.tables.partition_point(ends_before) };
        let Some(wanted) = heads.of(key) else {
            return if key < &heads.prefix[..] { 0 } else { self.tables.len() };
        };
        let first = heads.largest.partition_point(|largest| *largest < wanted);
        let equal = heads.largest[first..].iter().take_while(|largest| **largest == wanted).count();
        first + self.tables[first..first + equal].partition_point(ends_before)
    }
}

impl Heads {
    fn new<T>(tables: &[Arc<LazyTable<T>>]) -> Heads {
        // The common prefix of the smallest and the largest bound is shared by all bounds between.
        let least = tables.iter().map(|handle| &handle.meta().smallest).min();
        let greatest = tables.iter().map(|handle| &handle.meta().largest).max();
        let prefix = match (least, greatest) {
            (Some(low), Some(high)) => low[..common_prefix(low, high)].to_vec(),
            _ => Vec::new(),
        };
        let of = |bound: fn(&TableMeta) -> &[u8]| {
            tables.iter().map(|handle| head(bound(handle.meta()), prefix.len())).collect()
        };
        let (smallest, largest) = (of(|meta| &meta.smallest), of(|meta| &meta.largest));
        Heads { prefix, smallest, largest }
    }

    /// Returns the head of a key; `None` for a key outside the bounds of all tables.
    #[inline]
    fn of(&self, key: &[u8]) -> Option<u64> {
        begins_with(key, &self.prefix).then(|| head(key, self.prefix.len()))
    }

    /// Returns whether a key with this head is within the bounds of a table; false after the last table; `None` if its
    /// head equals that of a bound.
    #[inline]
    fn is_within(&self, at: usize, wanted: u64) -> Option<bool> {
        let (Some(smallest), Some(largest)) = (self.smallest.get(at), self.largest.get(at)) else { return Some(false) };
        match (smallest.cmp(&wanted), wanted.cmp(largest)) {
            (Ordering::Less, Ordering::Less) => Some(true),
            (Ordering::Greater, _) | (_, Ordering::Greater) => Some(false),
            _ if planted!(LevelBoundLeftOut, true, false) => Some(false),
            _ => None,
        }
    }
}

#[inline]
fn holds(order: &Order, meta: &TableMeta, key: &[u8]) -> bool {
    order.compare(&meta.smallest, key).is_le() && order.compare(key, &meta.largest).is_le()
}

fn inverted(order: &Order, meta: &TableMeta) -> bool {
    order.compare(&meta.smallest, &meta.largest).is_gt()
}

#[cold]
fn out_of_place(message: String) -> Error {
    Error::corruption(Damage { verdict: Verdict::Misplaced, ..Damage::default() }, message)
}

impl<T> fmt::Display for Levels<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, level) in self.levels.iter().enumerate() {
            for handle in &level.tables {
                let TableMeta { number: table, smallest, largest, size, .. } = &**handle.meta();
                let (low, high) = (smallest.escape_ascii(), largest.escape_ascii());
                writeln!(f, "L{number} {table:06} {low}..{high} seqno {} {size} B", handle.meta().newest_seqno())?;
            }
        }
        Ok(())
    }
}

impl<T> fmt::Debug for Levels<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Comparator;
    use crate::version::TableCache;
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    /// A bytewise comparator that the engine cannot recognize as such.
    struct Slow;

    impl Comparator for Slow {
        fn name(&self) -> &str {
            "slow"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            a.cmp(b)
        }
    }

    fn table(number: u64, low: &[u8], high: &[u8], seqno: u64) -> Arc<LazyTable<()>> {
        let meta = TableMeta {
            number,
            smallest: low.to_vec(),
            largest: high.to_vec(),
            greatest_seqno: seqno,
            size: 10,
            ..TableMeta::default()
        };
        LazyTable::new(Arc::new(meta), TableCache::new("f", Arc::default(), |_| Ok(())))
    }

    fn keys() -> impl Strategy<Value = Vec<u8>> {
        vec(proptest::sample::select(vec![0u8, 1, 0xff]), 0..12)
    }

    proptest! {
        #[test]
        fn a_search_finds_what_a_walk_finds(
            bounds in btree_set(keys(), 0..12), probes in vec(keys(), 20), prefix in vec(any::<u8>(), 0..10), level in 1usize..7
        ) {
            let bounds: Vec<Vec<u8>> = bounds.into_iter().map(|key| [&prefix[..], &key].concat()).collect();
            let tables = bounds.chunks_exact(2).enumerate().map(|(n, pair)| (level, table(n as u64, &pair[0], &pair[1], 1)));
            let tables: Vec<_> = tables.collect();
            let fast = Levels::new(Order::bytewise(), tables.clone()).unwrap();
            let slow = Levels::new(Order::custom(Arc::new(Slow)), tables).unwrap();
            for probe in probes.iter().map(|key| [&prefix[..], key].concat()).chain(probes.clone()).chain(bounds) {
                let number = |handle: &Arc<LazyTable<()>>| handle.meta().number;
                let walked = fast.level(level).tables().iter().find(|handle| holds(fast.order(), handle.meta(), &probe));
                let seek = fast.level(level).tables().iter().take_while(|handle| handle.meta().largest < probe).count();
                for levels in [&fast, &slow] {
                    prop_assert_eq!(levels.find(level, &probe).map(number), walked.map(number), "{:?}", probe);
                    prop_assert_eq!(levels.seek(level, &probe), seek);
                    let range = levels.overlapping(level, Some(&probe), Some(&probe)).next();
                    prop_assert_eq!(range.map(number), walked.map(number));
                    prop_assert_eq!(levels.is_bottom_for(level - 1, &probe), walked.is_none());
                    prop_assert!(levels.is_bottom_for(level, &probe));
                    prop_assert_eq!(levels.holding(&probe).map(number).next(), walked.map(number));
                }
            }
        }

        #[test]
        fn a_read_asks_the_tables_that_may_hold_its_key(
            tables in vec((0usize..7, keys(), keys()), 0..12), probes in vec(keys(), 20), prefix in vec(any::<u8>(), 0..10)
        ) {
            let whole = |key: &Vec<u8>| [&prefix[..], key].concat();
            let mut levels = Levels::empty(Order::bytewise());
            for (n, (level, a, b)) in tables.iter().enumerate() {
                let (low, high) = if a < b { (whole(a), whole(b)) } else { (whole(b), whole(a)) };
                // Tables that would overlap below level 0 are left out.
                levels = levels.apply(&[], &[(*level, table(n as u64, &low, &high, n as u64))]).unwrap_or(levels);
            }
            let ends = tables.iter().flat_map(|(_, a, b)| [whole(a), whole(b)]);
            for probe in probes.iter().map(whole).chain(probes.clone()).chain(ends) {
                let of = |level: &Level<()>| -> Vec<u64> {
                    let held = level.tables().iter().filter(|handle| holds(levels.order(), handle.meta(), &probe));
                    held.map(|handle| handle.meta().number).collect()
                };
                let walked: Vec<u64> = levels.iter().flat_map(of).collect();
                let asked: Vec<u64> = levels.holding(&probe).map(|handle| handle.meta().number).collect();
                prop_assert_eq!(asked, walked, "{:?}", probe);
            }
        }
    }

    #[test]
    fn tables_that_overlap_are_refused_below_level_0_only() {
        let pair = |level| [(level, table(1, b"a", b"m", 1)), (level, table(2, b"m", b"z", 2))];
        assert!(Levels::new(Order::bytewise(), pair(0)).is_ok());
        let error = Levels::new(Order::bytewise(), pair(3)).unwrap_err();
        assert!(error.to_string().contains("(I05)"), "{error}");
        assert!(Levels::new(Order::bytewise(), [(1, table(1, b"b", b"a", 1))]).is_err());
        assert!(Levels::new(Order::bytewise(), [(7, table(1, b"a", b"b", 1))]).is_err());
    }

    #[test]
    fn a_table_that_is_not_there_cannot_go_and_a_move_keeps_the_handle() {
        let moved = table(1, b"a", b"m", 1);
        let levels = Levels::new(Order::bytewise(), [(1, Arc::clone(&moved))]).unwrap();
        assert!(levels.apply(&[(1, 2)], &[]).is_err());
        assert!(levels.apply(&[(2, 1)], &[]).is_err());
        let after = levels.apply(&[(1, 1)], &[(2, Arc::clone(&moved))]).unwrap();
        assert!(Arc::ptr_eq(after.get(2, 1).unwrap(), &moved));
        assert_eq!((after.level(1).bytes(), after.level(2).bytes(), after.tables()), (0, 10, 1));
    }

    #[test]
    fn level_0_is_newest_first() {
        let tables = [(4, 9), (1, 3), (2, 9)].map(|(number, seqno)| (0, table(number, b"a", b"c", seqno)));
        let levels = Levels::new(Order::bytewise(), tables).unwrap();
        let numbers: Vec<u64> = levels.newest_holding(b"b").map(|handle| handle.meta().number).collect();
        assert_eq!(numbers, [4, 2, 1]);
        assert_eq!(levels.newest_holding(b"d").count(), 0);
    }
}
