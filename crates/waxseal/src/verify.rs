//! Which reads check what: the builder's word, a family's options, a handle's own, the last one said wins.
//!
//! The options of a family are not all kept in the store: what it checks is said anew at each open. A family whose options come
//! with the open, or that was made with options since, goes by them; any other by the builder.

use std::collections::BTreeSet;
use std::sync::Mutex;

use waxseal_lsm::env::work::lock;
use waxseal_lsm::options::Verify;

/// What point reads and what cursors check; none leaves it to the options of the family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) reads: Option<Verify>,
    pub(crate) scans: Option<Verify>,
    /// Blocks that reads load are not kept in the cache.
    pub(crate) passing: bool,
}

/// The builder's policy, and the families that have their own.
#[derive(Debug)]
pub(crate) struct Policies {
    builders: Policy,
    explicit: Mutex<BTreeSet<String>>,
}

impl Policies {
    pub(crate) fn new(builders: Policy, explicit: BTreeSet<String>) -> Policies {
        Policies { builders, explicit: Mutex::new(explicit) }
    }

    /// The family was made with options of its own.
    pub(crate) fn note_explicit(&self, family: &str) {
        lock(&self.explicit).insert(family.to_owned());
    }

    /// What handles to a family begin with.
    pub(crate) fn of(&self, family: &str) -> Policy {
        if self.builders == Policy::default() || lock(&self.explicit).contains(family) {
            return Policy::default();
        }
        self.builders
    }
}
