//! The verification policy of reads. A handle's own policy overrides its family's options, which override the builder's
//! policy.
//!
//! A family's options are only partly recorded in the store: its verification policy is set again at each open. A
//! family uses its own options if they were passed to the open, or if it was created since the open with options. All
//! other families use the builder's policy.

use std::collections::BTreeSet;
use std::sync::Mutex;

use waxseal_lsm::env::work::lock;
use waxseal_lsm::options::Verify;

/// The verification policy of point reads and of cursors. `None` means that the family's options decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VerifyPolicy {
    pub(crate) reads: Option<Verify>,
    pub(crate) scans: Option<Verify>,
    /// Blocks that reads load are not inserted into the cache.
    pub(crate) passing: bool,
}

/// The builder's policy, and the families with explicit options.
#[derive(Debug)]
pub(crate) struct Policies {
    builders: VerifyPolicy,
    explicit: Mutex<BTreeSet<String>>,
}

impl Policies {
    pub(crate) fn new(builders: VerifyPolicy, explicit: BTreeSet<String>) -> Policies {
        Policies { builders, explicit: Mutex::new(explicit) }
    }

    /// Records that a family was created with explicit options.
    pub(crate) fn note_explicit(&self, family: &str) {
        lock(&self.explicit).insert(family.to_owned());
    }

    /// Returns the initial policy of handles to a family.
    pub(crate) fn of(&self, family: &str) -> VerifyPolicy {
        if self.builders == VerifyPolicy::default() || lock(&self.explicit).contains(family) {
            return VerifyPolicy::default();
        }
        self.builders
    }
}
