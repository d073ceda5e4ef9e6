//! The oracle: the expected content of a store, as a list of commits and the content after each.
//!
//! A recovered store must equal the content after some prefix of the commits. The prefix must contain every commit that
//! was acknowledged (after a process crash) or synced (after a machine crash). Batches and family changes are one
//! commit each, so a torn batch matches no prefix.

use std::collections::BTreeMap;

use waxseal_lsm::checksum::{hash, mix};
use waxseal_lsm::merge_operator::MergeOperator;
use waxseal_lsm::order::Order;
use waxseal_testing::store::backwards;

/// Families by name, each with its keys and values.
pub type Content = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// One effect of a commit.
#[derive(Clone, Debug)]
pub enum Change {
    Put(String, Vec<u8>, Vec<u8>),
    /// Appends an operand to a value, in a family whose name begins with `tags`.
    Merge(String, Vec<u8>, Vec<u8>),
    Delete(String, Vec<u8>),
    /// From the first key up to the second one, in the order of the family; `None` is an unbounded side.
    DeleteRange(String, Option<Vec<u8>>, Option<Vec<u8>>),
    Create(String),
    Drop(String),
}

#[derive(Default)]
pub struct Oracle {
    /// Content before the first commit in `log`.
    base: Content,
    base_print: u64,
    /// Commits that may still be lost, oldest first; `base` includes all earlier ones.
    log: Vec<Vec<Change>>,
    /// Failed commits that are not visible; each may still be complete in the log.
    doubtful: Vec<Vec<Change>>,
    /// Commits in `log` that have returned.
    acknowledged: usize,
    /// Commits in `log` that are durable.
    synced: usize,
    /// Content after all of `log`.
    now: Content,
}

impl Oracle {
    pub fn new() -> Oracle {
        let mut oracle = Oracle::default();
        oracle.base.insert("default".into(), BTreeMap::new());
        oracle.base_print = print_of(&oracle.base);
        oracle.now = oracle.base.clone();
        oracle
    }

    /// Adds a family that exists from the start.
    pub fn with(mut self, family: &str) -> Oracle {
        self.base.insert(family.into(), BTreeMap::new());
        self.base_print = print_of(&self.base);
        self.now = self.base.clone();
        self
    }

    /// Returns the content that reads must return now.
    pub fn now(&self) -> &Content {
        &self.now
    }

    /// Adds a visible commit; `acknowledge` marks it as returned.
    pub fn commit(&mut self, changes: Vec<Change>) {
        for change in &changes {
            apply(&mut self.now, change);
        }
        self.log.push(changes);
        // If an earlier failed commit were complete in the log, it would have been applied before this one.
        self.doubtful.clear();
    }

    /// Adds a failed commit that is not visible now, but that a recovery may find.
    pub fn doubt(&mut self, changes: Vec<Change>) {
        self.doubtful.push(changes);
    }

    /// Marks all commits so far as returned.
    pub fn acknowledge(&mut self) {
        self.acknowledged = self.log.len();
    }

    /// Marks all commits so far as durable: `base` absorbs them, one change at a time.
    pub fn sync(&mut self) {
        for change in std::mem::take(&mut self.log).iter().flatten() {
            step(&mut self.base, &mut self.base_print, change);
        }
        self.doubtful.clear();
        (self.acknowledged, self.synced) = (0, 0);
    }

    /// Accepts a permanent loss: `found` is the expected content from now on, whatever was committed.
    pub fn adopt(&mut self, found: Content) {
        self.base = found;
        self.base_print = print_of(&self.base);
        self.now = self.base.clone();
        self.log.clear();
        self.sync();
    }

    /// Finds the prefix that equals `found`; it must contain all acknowledged commits (or, with `machine`, all synced
    /// ones). On success the oracle continues from that prefix.
    pub fn recovered(&mut self, found: Content, machine: bool) -> Result<(), String> {
        let least = if machine { self.synced } else { self.acknowledged };
        let wanted = print_of(&found);
        let mut content = self.base.clone();
        let mut print = self.base_print;
        let certain = self.log.len();
        self.log.append(&mut self.doubtful);
        for taken in 0..=self.log.len() {
            if taken >= least && print == wanted && content == found {
                (self.base, self.base_print, self.now) = (content, print, found);
                self.log.clear();
                self.sync();
                return Ok(());
            }
            for change in self.log.get(taken).into_iter().flatten() {
                step(&mut content, &mut print, change);
            }
        }
        let total = self.log.len();
        self.log.truncate(certain);
        Err(format!(
            "recovered content is no prefix of the commits in {least}..={total} (of it, {} keys found, {} expected at the end)\n{}",
            found.values().map(BTreeMap::len).sum::<usize>(),
            self.now.values().map(BTreeMap::len).sum::<usize>(),
            difference(&self.now, &found),
        ))
    }
}

/// Applies a change, and updates the fingerprint accordingly.
fn step(content: &mut Content, print: &mut u64, change: &Change) {
    *print = print.wrapping_sub(print_of_touched(content, change));
    apply(content, change);
    *print = print.wrapping_add(print_of_touched(content, change));
}

fn apply(content: &mut Content, change: &Change) {
    match change {
        Change::Put(family, key, value) => {
            if let Some(family) = content.get_mut(family) {
                family.insert(key.clone(), value.clone());
            }
        }
        Change::Merge(family, key, operand) => {
            if let Some(family) = content.get_mut(family) {
                family.entry(key.clone()).or_default().extend_from_slice(operand);
            }
        }
        Change::Delete(family, key) => {
            if let Some(family) = content.get_mut(family) {
                family.remove(key);
            }
        }
        Change::DeleteRange(name, from, to) => {
            if let Some(family) = content.get_mut(name) {
                family.retain(|key, _| !is_in_range(name, from.as_deref(), to.as_deref(), key));
            }
        }
        Change::Create(family) => {
            content.insert(family.clone(), BTreeMap::new());
        }
        Change::Drop(family) => {
            content.remove(family);
        }
    }
}

/// Returns the order of a family, which its name tells.
pub fn order_of(family: &str) -> Order {
    if family.starts_with("back") { backwards() } else { Order::bytewise() }
}

/// Returns the merge operator of a family, which its name tells.
pub fn merge_operator_of(family: &str) -> Option<MergeOperator> {
    family.starts_with("tags").then(|| MergeOperator::append(""))
}

/// Returns true if a range of a family holds a key.
pub fn is_in_range(family: &str, from: Option<&[u8]>, to: Option<&[u8]>, key: &[u8]) -> bool {
    let order = order_of(family);
    from.is_none_or(|from| order.compare(from, key).is_le()) && to.is_none_or(|to| order.compare(key, to).is_lt())
}

fn print_of(content: &Content) -> u64 {
    content.iter().fold(0, |sum, (name, family)| sum.wrapping_add(print_of_family(name, family)))
}

fn print_of_family(name: &str, family: &BTreeMap<Vec<u8>, Vec<u8>>) -> u64 {
    let own = mix(hash(name.as_bytes()) ^ 1);
    family.iter().fold(own, |sum, (key, value)| sum.wrapping_add(print_of_pair(name, key, value)))
}

fn print_of_pair(name: &str, key: &[u8], value: &[u8]) -> u64 {
    mix(mix(hash(name.as_bytes()) ^ hash(key)).wrapping_add(hash(value)))
}

/// Returns the part of the fingerprint that a change can affect.
fn print_of_touched(content: &Content, change: &Change) -> u64 {
    match change {
        Change::Put(name, key, _) | Change::Merge(name, key, _) | Change::Delete(name, key) => {
            let value = content.get(name).and_then(|family| family.get(key));
            value.map_or(0, |value| print_of_pair(name, key, value))
        }
        Change::DeleteRange(name, from, to) => content.get(name).map_or(0, |family| {
            let is_inside = |key: &[u8]| is_in_range(name, from.as_deref(), to.as_deref(), key);
            let touched = family.iter().filter(|(key, _)| is_inside(key));
            touched.fold(0, |sum, (key, value)| sum.wrapping_add(print_of_pair(name, key, value)))
        }),
        Change::Create(name) | Change::Drop(name) => {
            content.get(name).map_or(0, |family| print_of_family(name, family))
        }
    }
}

/// Returns the first few keys in which two contents differ.
pub fn difference(expected: &Content, found: &Content) -> String {
    let mut lines = Vec::new();
    let names: std::collections::BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    for name in names {
        match (expected.get(name), found.get(name)) {
            (Some(a), Some(b)) => {
                let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
                for key in keys.into_iter().filter(|key| a.get(*key) != b.get(*key)) {
                    let show = |value: Option<&Vec<u8>>| {
                        value.map_or("nothing".into(), |v| format!("{} bytes {:?}", v.len(), &v[..v.len().min(8)]))
                    };
                    lines.push(format!("  {name} {key:?}: expected {}, found {}", show(a.get(key)), show(b.get(key))));
                }
            }
            (a, b) => lines.push(format!("  family {name}: expected {}, found {}", a.is_some(), b.is_some())),
        }
    }
    lines.truncate(8);
    lines.join("\n")
}
