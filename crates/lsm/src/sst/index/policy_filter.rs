//! Filters made by a user's filter policy, as stored in a table. See docs/format.md, section 4.4.
//!
//! In:    the distinct keys of a table, in order; a policy that builds opaque filters.
//! Out:   parts with a bounded number of keys, each with its first key, its last key and its filter.
//! Holds: a negative answer hides records. It counts only if the part's own checksum matches and the key is between the
//!        part's first and last keys. Memory corruption therefore always results in "maybe". The policy's own answer is
//!        trusted.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::checksum::{hash, mix};
use crate::codec::{Reader, put_bytes};
use crate::error::{Error, Result};
use crate::options::KIB;
use crate::order::Order;
use crate::policy::FilterPolicy;

/// Maximum number of keys of one part, and of their bytes. This bounds the keys passed to a policy at once, whatever
/// the table's size.
const PART_KEYS: usize = 4096;
const PART_BYTES: usize = 256 * KIB;

/// Length of a part's checksum.
const SUM_BYTES: usize = 4;

/// Returns the filter name stored in the properties of tables that use a policy. The prefix keeps it distinct from the
/// engine's own filter.
pub(in crate::sst) fn name_of(policy: &dyn FilterPolicy) -> String {
    format!("policy.{}", policy.name())
}

/// Collects keys and builds the body.
pub(in crate::sst) struct PolicyFilterBuilder {
    policy: Arc<dyn FilterPolicy>,
    /// The keys of the current part, concatenated, and the end of each.
    keys: Vec<u8>,
    ends: Vec<usize>,
    parts: u32,
    body: Vec<u8>,
}

impl PolicyFilterBuilder {
    pub(in crate::sst) fn new(policy: Arc<dyn FilterPolicy>) -> PolicyFilterBuilder {
        PolicyFilterBuilder { policy, keys: Vec::new(), ends: Vec::new(), parts: 0, body: vec![0; 4] }
    }

    /// Adds a key that is equal to the previous one or follows it.
    pub(in crate::sst) fn add(&mut self, key: &[u8], order: &Order) {
        if let Some(last) = self.last() {
            if last == key {
                return;
            }
            // Keys that the order considers equal stay in one part, so that the queried part has all of them.
            let is_full = self.ends.len() >= PART_KEYS || self.keys.len() >= PART_BYTES;
            if is_full && order.compare(last, key) == Ordering::Less {
                self.end_part();
            }
        }
        self.keys.extend_from_slice(key);
        self.ends.push(self.keys.len());
    }

    /// Returns the body; `None` if there were no keys.
    pub(in crate::sst) fn finish(mut self) -> Option<Vec<u8>> {
        self.end_part();
        self.body[..4].copy_from_slice(&self.parts.to_le_bytes());
        (self.parts > 0).then_some(self.body)
    }

    fn last(&self) -> Option<&[u8]> {
        let (end, before) = self.ends.split_last()?;
        Some(&self.keys[before.last().copied().unwrap_or(0)..*end])
    }

    fn end_part(&mut self) {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let keys: Vec<&[u8]> = starts.zip(&self.ends).map(|(start, end)| &self.keys[start..*end]).collect();
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return };
        let filter = self.policy.build(&keys);
        let start = self.body.len();
        put_bytes(&mut self.body, first);
        put_bytes(&mut self.body, last);
        self.body.push(filter.is_some() as u8);
        put_bytes(&mut self.body, &filter.unwrap_or_default());
        let sum = part_sum(&self.body[start..], self.parts as usize);
        self.body.extend_from_slice(&sum.to_le_bytes());
        self.parts += 1;
        self.keys.clear();
        self.ends.clear();
    }
}

/// The filters of a table, and the policy that made them.
#[derive(Debug)]
pub(in crate::sst) struct PolicyFilter {
    policy: Arc<dyn FilterPolicy>,
    body: Vec<u8>,
    /// Offset of each part.
    starts: Vec<usize>,
}

/// One decoded part.
struct FilterPart<'a> {
    first: &'a [u8],
    last: &'a [u8],
    /// `None` if the policy made no filter: every key may be present.
    filter: Option<&'a [u8]>,
    /// The bytes covered by the checksum, and the checksum.
    bytes: &'a [u8],
    sum: u32,
}

impl PolicyFilter {
    /// Reads a body of filters that this policy made.
    pub(in crate::sst) fn decode(body: &[u8], policy: Arc<dyn FilterPolicy>) -> Result<PolicyFilter> {
        let mut reader = Reader::new(body);
        let count = reader.u32()? as usize;
        let mut starts = Vec::new();
        while !reader.is_empty() {
            starts.push(reader.position());
            FilterPart::read(body, &mut reader)?;
        }
        if starts.len() != count {
            return Err(Error::structural("a filter has another number of parts than it says"));
        }
        Ok(PolicyFilter { policy, body: body.to_vec(), starts })
    }

    /// Returns the policy.
    pub(in crate::sst) fn policy(&self) -> &Arc<dyn FilterPolicy> {
        &self.policy
    }

    /// Returns false if the policy says that the key is not in the table.
    pub(in crate::sst) fn may_contain(&self, key: &[u8], order: &Order) -> bool {
        let begins_before =
            |number: &usize| self.part(*number).is_some_and(|part| order.compare(part.first, key).is_le());
        let (mut low, mut high) = (0, self.starts.len());
        while low < high {
            let middle = low.midpoint(high);
            if begins_before(&middle) { low = middle + 1 } else { high = middle }
        }
        let Some(number) = low.checked_sub(1) else { return true };
        let Some(part) = self.part(number) else { return true };
        let Some(filter) = part.filter else { return true };
        let is_within = order.compare(part.first, key).is_le() && order.compare(key, part.last).is_le();
        !is_within || self.policy.may_contain(filter, key) || part_sum(part.bytes, number) != part.sum
    }

    /// Its size in memory.
    pub(in crate::sst) fn memory(&self) -> usize {
        self.body.len() + self.starts.len() * size_of::<usize>()
    }

    fn part(&self, number: usize) -> Option<FilterPart<'_>> {
        let mut reader = Reader::new(&self.body);
        reader.bytes(*self.starts.get(number)?).ok()?;
        FilterPart::read(&self.body, &mut reader).ok()
    }
}

impl<'a> FilterPart<'a> {
    /// Reads the part at the position of `reader` in `body`.
    fn read(body: &'a [u8], reader: &mut Reader<'a>) -> Result<FilterPart<'a>> {
        let start = reader.position();
        let (first, last) = (reader.length_prefixed()?, reader.length_prefixed()?);
        let has_filter = reader.u8()? != 0;
        let filter = reader.length_prefixed()?;
        let bytes = &body[start..reader.position()];
        let sum = u32::from_le_bytes(reader.array::<SUM_BYTES>()?);
        Ok(FilterPart { first, last, filter: has_filter.then_some(filter), bytes, sum })
    }
}

fn part_sum(bytes: &[u8], number: usize) -> u32 {
    (hash(bytes) ^ mix(number as u64 + 1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Stores the keys themselves: a filter without false positives.
    #[derive(Debug)]
    struct Exact;

    impl FilterPolicy for Exact {
        fn name(&self) -> &str {
            "exact"
        }
        fn build(&self, keys: &[&[u8]]) -> Option<Vec<u8>> {
            let mut filter = Vec::new();
            keys.iter().for_each(|key| put_bytes(&mut filter, key));
            Some(filter)
        }
        fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
            let mut reader = Reader::new(filter);
            while !reader.is_empty() {
                match reader.length_prefixed() {
                    Ok(known) if known == key => return true,
                    Ok(_) => {}
                    Err(_) => return false,
                }
            }
            false
        }
    }

    fn body(keys: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
        let mut builder = PolicyFilterBuilder::new(Arc::new(Exact));
        keys.for_each(|key| builder.add(&key, &Order::bytewise()));
        builder.finish().unwrap()
    }

    fn key(number: u32) -> Vec<u8> {
        format!("{number:08}").into_bytes()
    }

    #[test]
    fn each_key_is_known_and_others_are_denied_between_the_bounds() {
        let body = body((0..20_000).flat_map(|number| [key(2 * number), key(2 * number)]));
        let policed = PolicyFilter::decode(&body, Arc::new(Exact)).unwrap();
        assert_eq!(policed.starts.len(), 20_000_usize.div_ceil(PART_KEYS));
        let order = Order::bytewise();
        assert!((0..20_000).all(|number| policed.may_contain(&key(2 * number), &order)));
        let passed = (0..19_999).filter(|number| policed.may_contain(&key(2 * number + 1), &order)).count();
        assert_eq!(passed, 20_000_usize.div_ceil(PART_KEYS) - 1, "only what lies between two parts");
        assert!(policed.may_contain(b"", &order) && policed.may_contain(b"z", &order));
    }

    #[test]
    fn what_was_hit_in_memory_never_says_no() {
        let body = body((0..100).map(key));
        for bit in 0..body.len() * 8 {
            let mut policed = PolicyFilter::decode(&body, Arc::new(Exact)).unwrap();
            policed.body[bit / 8] ^= 1 << (bit % 8);
            assert!((0..100).all(|number| policed.may_contain(&key(number), &Order::bytewise())), "bit {bit}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, key: Vec<u8>) {
            if let Ok(policed) = PolicyFilter::decode(&bytes, Arc::new(Exact)) {
                policed.may_contain(&key, &Order::bytewise());
            }
        }
    }
}
