//! A grow-only array: each item is set once, in any order, by one thread, and readers borrow it for the array's
//! lifetime.
//!
//! Its parts double in length, and each is allocated when one of its items is first set. So items never move and
//! readers never wait.

use std::sync::OnceLock;

/// Length of the first part.
const FIRST: usize = 64;
/// Enough for 2^32 items.
const PARTS: usize = 28;

type GrowingPart<T> = OnceLock<Box<[OnceLock<T>]>>;

/// Items by number, set once.
#[derive(Debug)]
pub(super) struct Growing<T> {
    parts: [GrowingPart<T>; PARTS],
}

impl<T> Growing<T> {
    pub(super) fn new() -> Growing<T> {
        Growing { parts: [const { OnceLock::new() }; PARTS] }
    }

    /// Returns the part of an item, and its index there: counted from `FIRST` on, a part begins at every power of two.
    #[inline]
    fn part_of(index: usize) -> (usize, usize) {
        let index = index.saturating_add(FIRST);
        let log2 = (index | 1).ilog2();
        ((log2 - FIRST.ilog2()) as usize, index ^ 1 << log2)
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&T> {
        if index < FIRST {
            return self.parts[0].get()?.get(index)?.get();
        }
        let (part, at) = Self::part_of(index);
        self.parts.get(part)?.get()?.get(at)?.get()
    }

    /// Sets an item. Returns false if it is set already, or if its index exceeds the maximum.
    pub(super) fn set(&self, index: usize, item: T) -> bool {
        let (part, at) = Self::part_of(index);
        let Some(items) = self.parts.get(part) else { return false };
        let items = items.get_or_init(|| (0..FIRST << part).map(|_| OnceLock::new()).collect());
        items.get(at).is_some_and(|slot| slot.set(item).is_ok())
    }
}

/// Nodes by number. A node exists, empty, from the moment its number is issued.
#[derive(Debug)]
pub(super) struct Pool<T> {
    chunks: Growing<Box<[T]>>,
    /// Binary logarithm of the number of nodes in a chunk.
    log2: u32,
    /// Mask of the bits that hold a node's index in its chunk.
    within: u32,
}

impl<T: Default> Pool<T> {
    pub(super) fn new(log2: u32) -> Pool<T> {
        Pool { chunks: Growing::new(), log2, within: (1 << log2) - 1 }
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&T> {
        self.chunks.get(id as usize >> self.log2)?.get((id & self.within) as usize)
    }

    /// Returns the node with this number; numbers are requested in ascending order.
    pub(super) fn make(&self, id: u32) -> Option<&T> {
        if self.get(id).is_none() {
            let chunk = (0..1usize << self.log2).map(|_| T::default()).collect();
            self.chunks.set(id as usize >> self.log2, chunk);
        }
        self.get(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_has_a_place_of_its_own() {
        let all = Growing::new();
        assert!((0..1000).all(|n| all.get(n).is_none() && all.set(n, n)));
        assert!((0..1000).all(|n| all.get(n) == Some(&n) && !all.set(n, 0)));
        assert!(all.get(u32::MAX as usize).is_none());
        let (part, at) = Growing::<u8>::part_of(u32::MAX as usize);
        assert!(part < PARTS && at < FIRST << part);
        assert!(Growing::<u8>::new().get(usize::MAX).is_none());
    }

    #[test]
    fn nodes_stay_where_they_are() {
        let pool: Pool<u64> = Pool::new(3);
        assert!(pool.get(0).is_none());
        let first = std::ptr::from_ref(pool.make(0).unwrap());
        assert!((1..500).all(|id| pool.make(id).is_some()));
        assert_eq!(std::ptr::from_ref(pool.get(0).unwrap()), first);
        assert!(pool.get(7).is_some() && pool.get(512).is_none());
    }
}
