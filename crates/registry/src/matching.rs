//! Lookup of the registration that covers an operation. It runs on every write, so it takes no locks and usually ends
//! at a mask.
//!
//! ```text
//! mask       one word per family: rules out that any registration covers the operation; the only step for most writes
//! wide       per family: the registration of the family or of all families that covers the operation on all rows
//! rows       per family: the keys with own registrations, by the hash that the write has computed already;
//!            a filter of one word per lookup, then a table, then the whole key
//! paths      all other targets (tables, nodes, files, ..): by path, from the target upwards
//! ```
//!
//! A snapshot is built from all registrations, never changes, and is replaced by the next one. The write path tracks
//! the epoch under which a batch was encoded, and encodes it again if another epoch is in force when it is ordered. One
//! relaxed load of the epoch tells it that nothing is registered at all.
//!
//! An operation is logged once, however many registrations match. The options of the registration with the deepest
//! target apply. Among those of the same target, a registration of the operation itself takes precedence. `Row.Write`,
//! which covers every put, comes next, and a registration of any operation last.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use waxseal_lsm::checksum::hash_key;

use crate::emission::{EmissionPlan, plan_of};
use crate::operation::Operation;
use crate::registration::{Registration, Scope};
use crate::target::Target;

/// The operations with an own bit in a mask; all others share the last bit.
const MASKED: [Operation; 7] = [
    Operation::ROW_INSERT,
    Operation::ROW_UPDATE,
    Operation::ROW_DELETE,
    Operation::COLUMN_INSERT,
    Operation::COLUMN_UPDATE,
    Operation::COLUMN_DELETE,
    Operation::RANGE_DELETE,
];

/// Returns the bit of an operation in a mask.
#[inline]
pub const fn bit(operation: Operation) -> u32 {
    match operation {
        Operation::ROW_INSERT => 1 << 0,
        Operation::ROW_UPDATE => 1 << 1,
        Operation::ROW_DELETE => 1 << 2,
        Operation::COLUMN_INSERT => 1 << 3,
        Operation::COLUMN_UPDATE => 1 << 4,
        Operation::COLUMN_DELETE => 1 << 5,
        Operation::RANGE_DELETE => 1 << 6,
        _ => OTHERS,
    }
}

/// The bit of the operations that share one.
const OTHERS: u32 = 1 << 31;

/// Returns the bits of the operations that a registration covers.
fn watched_bits(registration: &Registration) -> u32 {
    let Some(own) = registration.operation else { return u32::MAX };
    MASKED
        .into_iter()
        .filter(|operation| own.covers(*operation))
        .fold(bit(own), |bits, operation| bits | bit(operation))
}

/// The families and keys that a target covers in the engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TargetPlace {
    /// All families.
    Everywhere,
    /// One whole family.
    Family(u32),
    /// One key of a family.
    Key(u32, Vec<u8>),
    /// No family, or one that does not exist.
    Elsewhere,
}

/// Maps targets to families and keys.
pub trait TargetPlaces {
    /// Returns the place of a target.
    fn place(&self, target: &Target) -> TargetPlace;
}

/// The places of a store of raw families, by a function from name to id.
pub struct RawFamilies<F>(pub F);

impl<F: Fn(&str) -> Option<u32>> TargetPlaces for RawFamilies<F> {
    fn place(&self, target: &Target) -> TargetPlace {
        let (family, key) = match target {
            Target::Cluster => return TargetPlace::Everywhere,
            Target::Family(family) => (family, None),
            Target::Key { family, key } => (family, Some(key)),
            _ => return TargetPlace::Elsewhere,
        };
        match ((self.0)(family), key) {
            (None, _) => TargetPlace::Elsewhere,
            (Some(id), None) => TargetPlace::Family(id),
            (Some(id), Some(key)) => TargetPlace::Key(id, key.clone()),
        }
    }
}

/// The current snapshot.
pub struct Matching(ArcSwap<RegistrySnapshot>);

impl Matching {
    /// Creates it with an initial snapshot.
    pub fn new(snapshot: RegistrySnapshot) -> Matching {
        Matching(ArcSwap::from_pointee(snapshot))
    }

    /// Returns the current snapshot.
    #[inline]
    pub fn load(&self) -> Guard<Arc<RegistrySnapshot>> {
        self.0.load()
    }

    /// Replaces the current snapshot.
    pub fn replace(&self, next: RegistrySnapshot) {
        self.0.store(Arc::new(next));
    }
}

impl fmt::Debug for Matching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load().fmt(f)
    }
}

/// Keys, each with the index of a registration.
type KeyNumbers = Vec<(Vec<u8>, u32)>;

/// All registrations at one registry version.
pub struct RegistrySnapshot {
    version: u64,
    /// The most specific ones first.
    registrations: Vec<Registration>,
    /// The effect of each registration on a write.
    plans: Vec<EmissionPlan>,
    /// The operations that each registration covers, as bits.
    masks: Vec<u32>,
    /// Family ids, ascending, for `families`.
    ids: Vec<u32>,
    families: Vec<Watched>,
    /// The lookup state of families that are not listed.
    everywhere: Watched,
    reads_before: bool,
    paths: HashMap<Vec<u8>, Vec<u32>>,
}

/// The lookup state of one family. Numbers are indexes into the list of registrations.
#[derive(Clone, Default)]
struct Watched {
    mask: u32,
    /// The registrations that cover every row, by masked operation.
    wide: [Option<u32>; MASKED.len()],
    /// All registrations that cover every row, for any operation.
    wide_all: Vec<u32>,
    rows: RegisteredKeys,
}

impl RegistrySnapshot {
    /// Builds a snapshot of these registrations. One with a malformed target is left out, because it cannot match.
    pub fn build(version: u64, mut registrations: Vec<Registration>, places: &dyn TargetPlaces) -> RegistrySnapshot {
        registrations.sort_by_key(|registration| Reverse(registration.rank()));
        let mut paths: HashMap<Vec<u8>, Vec<u32>> = HashMap::new();
        let mut everywhere = Watched::default();
        let mut by_family: BTreeMap<u32, (Watched, KeyNumbers)> = BTreeMap::new();
        for (number, registration) in (0u32..).zip(&registrations) {
            let Ok(path) = registration.target.to_path() else { continue };
            paths.entry(path).or_default().push(number);
            match places.place(&registration.target) {
                TargetPlace::Everywhere => everywhere.watch(number, registration),
                TargetPlace::Family(id) => by_family.entry(id).or_default().0.watch(number, registration),
                TargetPlace::Key(id, key) => {
                    let (watched, keys) = by_family.entry(id).or_default();
                    watched.open(registration);
                    keys.push((key, number));
                }
                TargetPlace::Elsewhere => {}
            }
        }
        everywhere.settle(&registrations);
        let (mut ids, mut families) = (Vec::new(), Vec::new());
        for (id, (mut watched, keys)) in by_family {
            watched.mask |= everywhere.mask;
            watched.wide_all.extend(&everywhere.wide_all); // less specific than those of the family, so they come last
            watched.settle(&registrations);
            watched.rows = RegisteredKeys::build(keys);
            ids.push(id);
            families.push(watched);
        }
        let plans: Vec<EmissionPlan> = registrations.iter().map(plan_of).collect();
        let reads_before = plans.iter().any(|plan| plan.reads);
        let masks = registrations.iter().map(watched_bits).collect();
        RegistrySnapshot { version, registrations, plans, masks, ids, families, everywhere, reads_before, paths }
    }

    /// Returns a snapshot without registrations.
    pub fn empty() -> RegistrySnapshot {
        RegistrySnapshot::build(0, Vec::new(), &RawFamilies(|_: &str| None))
    }

    /// Returns the version of the registry that it shows.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns all registrations, the most specific first.
    pub fn registrations(&self) -> &[Registration] {
        &self.registrations
    }

    /// Returns true if any registration requires old values to be read before they are overwritten.
    pub(crate) fn reads_before(&self) -> bool {
        self.reads_before
    }

    /// Returns the operations registered in a family, as bits.
    pub fn mask(&self, family: u32) -> u32 {
        self.watched(family).mask
    }

    /// Returns true if registrations treat all keys of a family alike: none of its keys has its own registration.
    pub(crate) fn is_alike(&self, family: u32) -> bool {
        self.watched(family).rows.filter.is_empty()
    }

    /// Returns the registration that covers an operation on a key of a family. `key_hash` is `checksum::hash_key` of
    /// the key.
    #[inline]
    pub fn row(&self, family: u32, key: &[u8], key_hash: u64, operation: Operation) -> Option<&Registration> {
        self.registrations.get(self.number(family, key, key_hash, operation)?)
    }

    /// Returns the effect of that registration on the write.
    #[inline]
    pub(crate) fn plan(&self, family: u32, key: &[u8], key_hash: u64, operation: Operation) -> Option<&EmissionPlan> {
        self.plans.get(self.number(family, key, key_hash, operation)?)
    }

    #[inline]
    fn number(&self, family: u32, key: &[u8], key_hash: u64, operation: Operation) -> Option<usize> {
        let watched = self.watched(family);
        if watched.mask & bit(operation) == 0 {
            return None;
        }
        let own = watched.rows.get(key, key_hash);
        let named = own.iter().find(|number| self.names(**number, operation)).copied();
        named.or_else(|| watched.wide(operation, self)).map(|number| number as usize)
    }

    /// Returns the registration that covers an operation on any target.
    pub fn find(&self, target: &Target, operation: Operation) -> Option<&Registration> {
        self.find_path(&target.to_path().ok()?, operation)
    }

    /// `find` by the path of a target.
    pub(crate) fn find_path(&self, path: &[u8], operation: Operation) -> Option<&Registration> {
        let ends = Target::path_ends(path).ok()?;
        let at = |end: usize| self.paths.get(&path[..end]).map_or(&[][..], Vec::as_slice);
        let all = ends.into_iter().flat_map(|end| at(end).iter().map(move |number| (end, *number)));
        let reaches =
            |end: usize, registration: &Registration| end == path.len() || registration.options.scope == Scope::Subtree;
        all.filter_map(|(end, number)| Some((end, self.registrations.get(number as usize)?)))
            .filter(|(end, registration)| reaches(*end, registration))
            .map(|(_, registration)| registration)
            .find(|registration| registration.means(operation))
    }

    /// Returns true if operations on a target, or on one below it, may be registered.
    pub(crate) fn concerns(&self, target: &Target) -> bool {
        self.registrations.iter().any(|own| own.target.covers(target) || target.covers(&own.target))
    }

    /// Returns the registration that covers the deletion of all rows of a target, besides those of the operation itself:
    /// one of `Row.Delete` above it, or one of a row below it.
    pub(crate) fn delete_of_rows(&self, target: &Target) -> Option<&Registration> {
        self.registrations.iter().find(|own| match own.operation {
            Some(Operation::ROW_DELETE) if own.target.covers(target) => own.options.scope == Scope::Subtree,
            None | Some(Operation::ROW_DELETE | Operation::RANGE_DELETE) => {
                matches!(own.target, Target::Partition { .. } | Target::Row { .. }) && target.covers(&own.target)
            }
            _ => false,
        })
    }

    /// Returns the registration that covers a range delete in the family with this name: one of the family or the
    /// cluster, or of a key that `holds`. A registration of `Row.Delete` covers it too, since it deletes rows.
    pub(crate) fn range_delete(&self, family: &str, holds: impl Fn(&[u8]) -> bool) -> Option<&Registration> {
        self.registrations.iter().find(|registration| {
            let is_subtree = registration.options.scope == Scope::Subtree;
            let operation = registration.operation;
            match &registration.target {
                Target::Key { family: own, key } if own == family => {
                    operation.is_none_or(|own| matches!(own, Operation::RANGE_DELETE | Operation::ROW_DELETE))
                        && holds(key)
                }
                Target::Family(own) if own == family => {
                    operation.is_none_or(|own| own == Operation::RANGE_DELETE)
                        || is_subtree && operation == Some(Operation::ROW_DELETE)
                }
                Target::Cluster => {
                    is_subtree
                        && operation.is_none_or(|own| matches!(own, Operation::RANGE_DELETE | Operation::ROW_DELETE))
                }
                _ => false,
            }
        })
    }

    /// Returns true if a registration covers this operation.
    #[inline]
    fn names(&self, number: u32, operation: Operation) -> bool {
        let (number, bit) = (number as usize, bit(operation));
        self.masks.get(number).is_some_and(|mask| mask & bit != 0)
            && (bit != OTHERS
                || self.registrations.get(number).is_some_and(|registration| registration.means(operation)))
    }

    #[inline]
    fn watched(&self, family: u32) -> &Watched {
        let at = self.ids.binary_search(&family).ok();
        at.and_then(|at| self.families.get(at)).unwrap_or(&self.everywhere)
    }
}

impl fmt::Debug for RegistrySnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({} registrations, version {})", self.registrations.len(), self.version)
    }
}

impl Watched {
    /// Adds the operations of a registration to the mask.
    fn open(&mut self, registration: &Registration) {
        self.mask |= watched_bits(registration);
    }

    /// Adds a registration of the family, or of everything.
    fn watch(&mut self, number: u32, registration: &Registration) {
        self.open(registration);
        if registration.options.scope == Scope::Subtree {
            self.wide_all.push(number);
        }
    }

    /// Records, for each masked operation, the registration that covers it on every row.
    fn settle(&mut self, registrations: &[Registration]) {
        let names = |number: &u32, operation: Operation| {
            let registration = registrations.get(*number as usize);
            registration.is_some_and(|registration| registration.means(operation))
        };
        for (slot, operation) in self.wide.iter_mut().zip(MASKED) {
            *slot = self.wide_all.iter().find(|number| names(number, operation)).copied();
        }
    }

    #[inline]
    fn wide(&self, operation: Operation, snapshot: &RegistrySnapshot) -> Option<u32> {
        match self.wide.get(bit(operation).trailing_zeros() as usize) {
            Some(number) => *number,
            None => self.wide_all.iter().find(|number| snapshot.names(**number, operation)).copied(),
        }
    }
}

/// The keys with own registrations: a filter, an open-addressing table, and the keys.
#[derive(Clone, Default)]
struct RegisteredKeys {
    /// One word per lookup; each key sets four of its bits. The length is a power of two.
    filter: Box<[u64]>,
    /// The high half of the hash, and the index of the row plus one; 0 if free. The length is a power of two, and at
    /// most half the slots are used.
    slots: Box<[u64]>,
    keys: Vec<u8>,
    /// The end of the key, and the end of its registrations.
    rows: Vec<(usize, usize)>,
    numbers: Vec<u32>,
}

/// Filter bits per key.
const FILTER_BITS: usize = 16;

impl RegisteredKeys {
    /// Builds the table from keys and their registrations; the most specific registration of a key comes first.
    fn build(mut keys: KeyNumbers) -> RegisteredKeys {
        if keys.is_empty() {
            return RegisteredKeys::default();
        }
        keys.sort(); // also sorts each key's registrations by specificity
        let mut rows = RegisteredKeys {
            filter: vec![0; (keys.len() * FILTER_BITS).div_ceil(64).next_power_of_two()].into(),
            slots: vec![0; (2 * keys.len()).next_power_of_two()].into(),
            ..RegisteredKeys::default()
        };
        for same in keys.chunk_by(|a, b| a.0 == b.0) {
            let key = &same[0].0;
            rows.keys.extend_from_slice(key);
            rows.numbers.extend(same.iter().map(|(_, number)| *number));
            rows.rows.push((rows.keys.len(), rows.numbers.len()));
            rows.note(hash_key(key));
        }
        rows
    }

    /// Adds the last row to filter and table.
    fn note(&mut self, hash: u64) {
        let word = self.word(hash);
        self.filter[word] |= bits(hash);
        let mut at = self.slot(hash);
        while self.slots[at] != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = hash >> 32 << 32 | self.rows.len() as u64;
    }

    #[inline]
    fn word(&self, hash: u64) -> usize {
        (hash >> 40) as usize & (self.filter.len() - 1)
    }

    #[inline]
    fn slot(&self, hash: u64) -> usize {
        (hash >> 24) as usize & (self.slots.len() - 1)
    }

    /// Returns the registrations of a key, the most specific first.
    #[inline]
    fn get(&self, key: &[u8], hash: u64) -> &[u32] {
        if self.filter.is_empty() || self.filter[self.word(hash)] & bits(hash) != bits(hash) {
            return &[];
        }
        self.search(key, hash)
    }

    fn search(&self, key: &[u8], hash: u64) -> &[u32] {
        let mut at = self.slot(hash);
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return &[];
            }
            if slot >> 32 == hash >> 32 {
                let row = (slot as u32) as usize - 1;
                let (key_start, start) = if row == 0 { (0, 0) } else { self.rows[row - 1] };
                let (key_end, end) = self.rows[row];
                if self.keys[key_start..key_end] == *key {
                    return &self.numbers[start..end];
                }
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }
}

/// Returns four bits of a filter word.
#[inline]
fn bits(hash: u64) -> u64 {
    1 << (hash & 63) | 1 << (hash >> 6 & 63) | 1 << (hash >> 12 & 63) | 1 << (hash >> 18 & 63)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registration::testing::options;
    use crate::registration::{Mode, Options};
    use crate::target::testing::target;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use waxseal_lsm::checksum::hash;

    const FAMILIES: RawFamilies<fn(&str) -> Option<u32>> = RawFamilies(|name| match name {
        "f" => Some(4),
        "g" => Some(9),
        _ => None,
    });

    fn near_target() -> impl Strategy<Value = Target> {
        prop_oneof![
            Just(Target::Cluster),
            prop::sample::select(vec!["f", "g", "h"]).prop_map(Target::family),
            ("[fg]", "[ab]{0,1}").prop_map(|(family, key)| Target::key(family, key)),
            target(),
        ]
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let defined = Operation::from_number(0x8001).unwrap();
        let all = vec![
            Operation::ROW_WRITE,
            Operation::ROW_INSERT,
            Operation::ROW_UPDATE,
            Operation::ROW_DELETE,
            Operation::RANGE_DELETE,
            Operation::TABLE_DROP,
            defined,
        ];
        prop::sample::select(all)
    }

    /// The reference implementation: the most specific of all matching registrations.
    fn naive<'a>(all: &'a [Registration], target: &Target, operation: Operation) -> Option<&'a Registration> {
        all.iter().filter(|registration| registration.matches(target, operation)).max_by_key(|found| found.rank())
    }

    fn watch(target: Target, operation: Option<Operation>) -> Registration {
        Registration::new(target, operation)
    }

    #[test]
    fn masks_follow_the_snapshot() {
        let matching = Matching::new(RegistrySnapshot::empty());
        let masks = || [4, 9, 77].map(|family| matching.load().mask(family));
        let update = bit(Operation::ROW_UPDATE);
        assert_eq!(masks(), [0; 3]);
        let one = watch(Target::key("f", *b"k"), Some(Operation::ROW_UPDATE));
        matching.replace(RegistrySnapshot::build(1, vec![one.clone()], &FAMILIES));
        assert_eq!(masks(), [update, 0, 0]);
        assert_eq!((matching.load().version(), matching.load().registrations().len()), (1, 1));
        matching.replace(RegistrySnapshot::build(
            2,
            vec![watch(Target::Cluster, Some(Operation::ROW_UPDATE))],
            &FAMILIES,
        ));
        assert_eq!(masks(), [update; 3]);
        matching.replace(RegistrySnapshot::empty());
        assert_eq!(masks(), [0; 3]);
    }

    #[test]
    fn the_registration_that_says_most_decides() {
        let all = Options { scope: Scope::Subtree, ..Options::default() };
        let registrations = vec![
            watch(Target::family("f"), None).with(all),
            watch(Target::family("f"), Some(Operation::ROW_UPDATE)).with(Options { mode: Mode::Async, ..all }),
            watch(Target::key("f", *b"k"), None).with(Options { mode: Mode::Deferred, ..all }),
        ];
        let snapshot = RegistrySnapshot::build(1, registrations, &FAMILIES);
        let mode = |key: &[u8], operation| snapshot.row(4, key, hash(key), operation).unwrap().options.mode;
        assert_eq!(mode(b"k", Operation::ROW_UPDATE), Mode::Deferred);
        assert_eq!(mode(b"l", Operation::ROW_UPDATE), Mode::Async);
        assert_eq!(mode(b"l", Operation::ROW_DELETE), Mode::Sync);
        assert!(snapshot.row(9, b"k", hash(b"k"), Operation::ROW_UPDATE).is_none());
    }

    #[test]
    fn a_key_is_found_by_itself_and_not_by_its_hash() {
        let keys = (0..1000u32).map(|n| (n.to_string().into_bytes(), n)).collect();
        let rows = RegisteredKeys::build(keys);
        for n in 0..1000u32 {
            let key = n.to_string().into_bytes();
            assert_eq!(rows.get(&key, hash(&key)), [n]);
            // Another key that happens to have this hash.
            assert!(rows.get(b"other", hash(&key)).is_empty());
        }
        let passed = (1000..101_000u32).map(|n| hash(n.to_string().as_bytes()));
        let passed = passed.filter(|hash| rows.filter[rows.word(*hash)] & bits(*hash) == bits(*hash)).count();
        assert!(passed < 3000, "{passed} of 100,000 strangers pass the filter");
    }

    proptest! {
        #[test]
        fn the_snapshot_finds_what_a_look_at_all_registrations_finds(
            registrations in vec((near_target(), prop::option::of(operation()), options()), 0..12),
            targets in vec(near_target(), 1..12),
        ) {
            // A pair occurs once in the registry.
            let pairs: BTreeMap<_, _> =
                registrations.into_iter().map(|(target, operation, options)| ((target, operation), options)).collect();
            let all: Vec<Registration> = pairs
                .into_iter()
                .map(|((target, operation), options)| Registration { target, operation, options })
                .collect();
            let snapshot = RegistrySnapshot::build(1, all.clone(), &FAMILIES);
            let (insert, update) = (Operation::ROW_INSERT, Operation::ROW_UPDATE);
            let rest = [Operation::ROW_DELETE, Operation::RANGE_DELETE, Operation::TABLE_DROP, Operation::ROW_WRITE];
            let defined = Operation::from_number(0x8001).unwrap();
            for target in &targets {
                for operation in rest.into_iter().chain([insert, update, defined]) {
                    let expected = naive(&all, target, operation);
                    prop_assert_eq!(snapshot.find(target, operation), expected);
                    if let TargetPlace::Key(family, key) = FAMILIES.place(target) {
                        prop_assert_eq!(snapshot.row(family, &key, hash(&key), operation), expected);
                        prop_assert!(expected.is_none() || snapshot.mask(family) & bit(operation) != 0);
                    }
                    if let TargetPlace::Family(family) = FAMILIES.place(target) {
                        prop_assert!(expected.is_none() || snapshot.mask(family) & bit(operation) != 0);
                    }
                }
            }
        }
    }
}
