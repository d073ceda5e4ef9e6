//! The writes of a transaction as its own reads see them: by family, the newest write of each key, above the ranges
//! that the transaction deleted.
//!
//! Holds:  a write of a key is newer than every deleted range that holds it, because `delete_range` removes the writes
//!         in its range. A key is therefore decided by its write, else by the deleted ranges, else by the snapshot.
//! Merge:  operands are kept apart from their base until a read needs the value, because the operator may fail, and may
//!         use the transaction.
//! Order:  `BTreeMap::range` panics for a start behind the end, and a comparator that contradicts itself may find one in
//!         any two keys. Ranges of the map therefore have one bound, and the other one is compared key by key.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use waxseal_lsm::batch::BatchOperation;
use waxseal_lsm::db::Family;
use waxseal_lsm::error::Result;
use waxseal_lsm::order::Order;
use waxseal_lsm::range_delete::{RangeBounds, bounds_of, is_within};
use waxseal_lsm::record::Kind;

use crate::range::{Bounds, HalfOpen};

/// A key in the order of its family.
#[derive(Clone)]
struct OrderedKey {
    order: Order,
    bytes: Vec<u8>,
}

impl PartialEq for OrderedKey {
    fn eq(&self, other: &OrderedKey) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OrderedKey {}

impl PartialOrd for OrderedKey {
    fn partial_cmp(&self, other: &OrderedKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedKey {
    fn cmp(&self, other: &OrderedKey) -> Ordering {
        self.order.compare(&self.bytes, &other.bytes)
    }
}

/// The state of a key that a transaction wrote.
#[derive(Clone, Debug)]
pub(super) struct OwnValue {
    base: Base,
    /// The operands merged into the base, oldest first.
    operands: Vec<Vec<u8>>,
}

#[derive(Clone, Debug)]
enum Base {
    /// The transaction set the key to a value.
    Value(Vec<u8>),
    /// The transaction removed the key, or its value has expired.
    Absent,
    /// The snapshot has the base.
    Stored,
}

impl OwnValue {
    fn set(value: Option<Vec<u8>>) -> OwnValue {
        OwnValue { base: value.map_or(Base::Absent, Base::Value), operands: Vec::new() }
    }

    fn is_absent(&self) -> bool {
        matches!(self.base, Base::Absent) && self.operands.is_empty()
    }

    /// Returns true if the value depends on that in the snapshot.
    pub(super) fn needs_stored(&self) -> bool {
        matches!(self.base, Base::Stored)
    }

    /// Returns the value of the key. `stored` reads it in the snapshot. Errors: those of `stored`, and `Invalid` if the
    /// family's merge operator fails. Calls code of the application, so the transaction must not be locked.
    pub(super) fn resolve(
        self,
        family: &Family,
        key: &[u8],
        stored: impl FnOnce() -> Result<Option<Vec<u8>>>,
    ) -> Result<Option<Vec<u8>>> {
        let base = match self.base {
            Base::Value(value) => Some(value),
            Base::Absent => None,
            Base::Stored => stored()?,
        };
        if self.operands.is_empty() {
            return Ok(base);
        }
        let operands: Vec<&[u8]> = self.operands.iter().map(Vec::as_slice).collect();
        family.merge_operands(key, base.as_deref(), &operands).map(Some)
    }
}

/// The writes of one transaction in one family.
pub(super) struct FamilyWrites {
    order: Order,
    keys: BTreeMap<OrderedKey, OwnValue>,
    /// The deleted ranges: disjoint, not adjacent, in ascending order.
    deleted: Vec<HalfOpen>,
}

impl FamilyWrites {
    fn new(order: &Order) -> FamilyWrites {
        FamilyWrites { order: order.clone(), keys: BTreeMap::new(), deleted: Vec::new() }
    }

    fn key(&self, key: &[u8]) -> OrderedKey {
        OrderedKey { order: self.order.clone(), bytes: key.to_vec() }
    }

    /// Returns what the transaction's writes make of a key; `None` if the snapshot alone decides.
    pub(super) fn get(&self, key: &[u8]) -> Option<OwnValue> {
        match self.keys.get(&self.key(key)) {
            Some(value) => Some(value.clone()),
            None => self.deleted_range(key).map(|_| OwnValue::set(None)),
        }
    }

    /// Returns true if the transaction wrote or removed a key.
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        self.keys.contains_key(&self.key(key)) || self.deleted_range(key).is_some()
    }

    /// Returns the deleted range that holds a key.
    pub(super) fn deleted_range(&self, key: &[u8]) -> Option<RangeBounds<'_>> {
        // The only candidate is the first range that ends after the key.
        let ends_before = |end: &Option<Vec<u8>>| end.as_ref().is_some_and(|end| self.order.compare(end, key).is_le());
        let at = self.deleted.partition_point(|(_, end)| ends_before(end));
        let (start, end) = self.deleted.get(at)?;
        let range = (start.as_deref(), end.as_deref());
        is_within(&self.order, range, key).then_some(range)
    }

    /// Returns the number of deleted ranges.
    pub(super) fn deleted_ranges(&self) -> usize {
        self.deleted.len()
    }

    /// Returns the first key within bounds that has a value, and the value.
    pub(super) fn first_in(&self, bounds: &Bounds) -> Option<(&[u8], &OwnValue)> {
        let keys = self.keys.range((self.ordered(&bounds.0), Bound::Unbounded));
        let mut within = keys.take_while(|(key, _)| is_at_most(&self.order, &key.bytes, &bounds.1));
        within.find(|(_, value)| !value.is_absent()).map(|(key, value)| (&key.bytes[..], value))
    }

    /// Returns the last key within bounds that has a value, and the value.
    pub(super) fn last_in(&self, bounds: &Bounds) -> Option<(&[u8], &OwnValue)> {
        let keys = self.keys.range((Bound::Unbounded, self.ordered(&bounds.1))).rev();
        let mut within = keys.take_while(|(key, _)| is_at_least(&self.order, &key.bytes, &bounds.0));
        within.find(|(_, value)| !value.is_absent()).map(|(key, value)| (&key.bytes[..], value))
    }

    fn ordered(&self, bound: &Bound<Vec<u8>>) -> Bound<OrderedKey> {
        bound.as_ref().map(|key| self.key(key))
    }

    fn set(&mut self, key: &[u8], value: Option<Vec<u8>>) {
        self.write(key, OwnValue::set(value));
    }

    fn merge(&mut self, key: &[u8], operand: &[u8]) {
        let base = if self.deleted_range(key).is_some() { Base::Absent } else { Base::Stored };
        let earlier = self.keys.get_mut(&self.key(key)).map(|own| std::mem::replace(own, OwnValue::set(None)));
        let mut own = earlier.unwrap_or(OwnValue { base, operands: Vec::new() });
        own.operands.push(operand.to_vec());
        self.write(key, own);
    }

    /// Sets the value of a key. Of keys that are equal in the family's order, reads return the bytes of the last one.
    fn write(&mut self, key: &[u8], value: OwnValue) {
        let key = self.key(key);
        if !self.order.is_hashable() {
            self.keys.remove(&key);
        }
        self.keys.insert(key, value);
    }

    fn delete_range(&mut self, (start, end): RangeBounds<'_>) {
        let order = self.order.clone();
        if start.zip(end).is_some_and(|(start, end)| order.compare(start, end).is_ge()) {
            return;
        }
        let low = start.map_or(Bound::Unbounded, |start| Bound::Included(self.key(start)));
        let from_start = self.keys.range((low, Bound::Unbounded)).map(|(key, _)| key);
        let is_covered = |key: &&OrderedKey| is_within(&order, (start, end), &key.bytes);
        let covered: Vec<OrderedKey> = from_start.take_while(is_covered).cloned().collect();
        for key in covered {
            self.keys.remove(&key);
        }
        // The ranges that the new one touches become one with it.
        let is_before = |range: &(_, Option<Vec<u8>>)| {
            range.1.as_ref().zip(start).is_some_and(|(end, start)| order.compare(end, start).is_lt())
        };
        let is_touched = |range: &(Option<Vec<u8>>, _)| {
            range.0.as_ref().zip(end).is_none_or(|(start, end)| order.compare(start, end).is_le())
        };
        let from = self.deleted.partition_point(is_before);
        let to = from + self.deleted[from..].partition_point(is_touched);
        let mut joined = (start.map(<[u8]>::to_vec), end.map(<[u8]>::to_vec));
        for (start, end) in self.deleted.drain(from..to) {
            joined.0 =
                joined.0.zip(start).map(|(one, other)| if order.compare(&one, &other).is_le() { one } else { other });
            joined.1 =
                joined.1.zip(end).map(|(one, other)| if order.compare(&one, &other).is_ge() { one } else { other });
        }
        self.deleted.insert(from, joined);
    }
}

/// Returns true if a key is not below a lower bound.
fn is_at_least(order: &Order, key: &[u8], low: &Bound<Vec<u8>>) -> bool {
    match low {
        Bound::Unbounded => true,
        Bound::Included(low) => order.compare(key, low).is_ge(),
        Bound::Excluded(low) => order.compare(key, low).is_gt(),
    }
}

/// Returns true if a key is not above an upper bound.
fn is_at_most(order: &Order, key: &[u8], high: &Bound<Vec<u8>>) -> bool {
    match high {
        Bound::Unbounded => true,
        Bound::Included(high) => order.compare(key, high).is_le(),
        Bound::Excluded(high) => order.compare(key, high).is_lt(),
    }
}

/// The writes of one transaction, by family.
#[derive(Default)]
pub(super) struct OwnWrites {
    families: HashMap<u32, FamilyWrites>,
}

impl OwnWrites {
    /// Returns the writes in a family; `None` if there are none.
    pub(super) fn of(&self, family: u32) -> Option<&FamilyWrites> {
        self.families.get(&family)
    }

    /// Adds an operation after all others. `is_expired`: the value counts as absent. Errors: `Corruption` for bytes that
    /// are no range delete.
    pub(super) fn add(&mut self, order: &Order, operation: &BatchOperation<'_>, is_expired: bool) -> Result<()> {
        let writes = self.families.entry(operation.family).or_insert_with(|| FamilyWrites::new(order));
        match operation.kind {
            Kind::RangeDelete => writes.delete_range(bounds_of(operation.key, operation.value)?),
            Kind::Merge => writes.merge(operation.key, operation.value),
            Kind::Put if !is_expired => writes.set(operation.key, Some(operation.value.to_vec())),
            _ => writes.set(operation.key, None),
        }
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.families.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering as Atomic};

    use proptest::collection::vec;
    use proptest::prelude::*;
    use waxseal_lsm::order::Comparator;

    use super::*;

    /// Returns results from a pseudorandom sequence, whatever the keys.
    struct Contradicting(AtomicU64);

    impl Comparator for Contradicting {
        fn name(&self) -> &str {
            "contradicting"
        }
        fn compare(&self, _: &[u8], _: &[u8]) -> Ordering {
            let turn = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Atomic::Relaxed);
            [Ordering::Less, Ordering::Greater, Ordering::Equal][(turn >> 32) as usize % 3]
        }
    }

    proptest! {
        #[test]
        fn an_order_that_contradicts_itself_is_endured(
            steps in vec((any::<bool>(), any::<bool>(), any::<[u8; 2]>()), 0..100), seed: u64
        ) {
            let mut writes = FamilyWrites::new(&Order::custom(Arc::new(Contradicting(seed.into()))));
            for (is_range, is_open, keys) in steps {
                let (start, end) = (&keys[..1], &keys[1..]);
                match is_range {
                    true => writes.delete_range((Some(start), (!is_open).then_some(end))),
                    false => writes.set(start, (!is_open).then(|| end.to_vec())),
                }
                let bounds = (Bound::Included(start.to_vec()), Bound::Excluded(end.to_vec()));
                for found in [writes.first_in(&bounds), writes.last_in(&bounds)] {
                    prop_assert!(found.is_none_or(|(key, _)| key.len() == 1));
                }
                writes.get(start);
            }
        }
    }
}
