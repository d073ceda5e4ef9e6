//! The options of an open family. Some of them may change.
//!
//! Holds: order, merge operator, filter policy, system number and `key_ends_in_seqno` stay as they were when the family was
//!        opened. Compaction filter and table properties change by `Db::set_functions` alone. The other options are
//!        replaced as a whole. Values that every read or write needs are copied into atomics, so that neither takes a
//!        lock or counts a reference.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::compaction_filter::CompactionFilter;
use crate::error::Result;
use crate::merge_operator::MergeOperator;
use crate::option_list::check_fixed;
use crate::options::{CfOptions, Verify};
use crate::order::Order;
use crate::prefix_extractor::PrefixExtractor;

/// The options of an open family.
pub(super) struct LiveOptions {
    /// Those of the open. Only what cannot change is read here.
    fixed: CfOptions,
    current: ArcSwap<CfOptions>,
    verify_reads: AtomicU64,
    verify_scans: AtomicU64,
    /// 0: records live forever.
    default_ttl_micros: AtomicU64,
    /// Size from which values go into blob files; `usize::MAX` if none does.
    separates_from: AtomicUsize,
    has_prefix_extractor: AtomicBool,
}

impl LiveOptions {
    pub(super) fn new(options: CfOptions) -> LiveOptions {
        let live = LiveOptions {
            fixed: options.clone(),
            current: ArcSwap::from_pointee(options.clone()),
            verify_reads: AtomicU64::default(),
            verify_scans: AtomicU64::default(),
            default_ttl_micros: AtomicU64::default(),
            separates_from: AtomicUsize::default(),
            has_prefix_extractor: AtomicBool::default(),
        };
        live.copy_hot(&options);
        live
    }

    /// Returns the options as of now.
    pub(super) fn current(&self) -> Arc<CfOptions> {
        self.current.load_full()
    }

    /// Replaces the options. The caller has checked them with `check_change`.
    pub(super) fn replace(&self, options: CfOptions) {
        self.copy_hot(&options);
        self.current.store(Arc::new(options));
    }

    fn copy_hot(&self, options: &CfOptions) {
        let ttl = options.default_ttl.map_or(0, |ttl| u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX));
        let separates_from = options.separates_from().filter(|_| !options.key_ends_in_seqno);
        self.verify_reads.store(encode(options.verify_reads), Ordering::Relaxed);
        self.verify_scans.store(encode(options.verify_scans), Ordering::Relaxed);
        self.default_ttl_micros.store(ttl, Ordering::Relaxed);
        self.separates_from.store(separates_from.unwrap_or(usize::MAX), Ordering::Relaxed);
        self.has_prefix_extractor.store(options.prefix_extractor.is_some(), Ordering::Relaxed);
    }

    /// Fails with `Invalid` if `new` differs from these options in one that cannot change while the family is open.
    pub(super) fn check_change(&self, new: &CfOptions) -> Result<()> {
        let current = self.current();
        check_fixed(&current.list(), &new.list(), |name, value| (*current).clone().set(name, value))
    }

    /// Returns `new` with those parts of these options that stay: what has only a name to compare is kept as it is.
    pub(super) fn with_fixed(&self, new: CfOptions) -> CfOptions {
        let CfOptions { order, merge_operator, filter_policy, part_blocks, .. } = self.fixed.clone();
        let CfOptions { compaction_filter, table_properties, .. } = (*self.current()).clone();
        CfOptions { order, merge_operator, compaction_filter, table_properties, filter_policy, part_blocks, ..new }
    }

    #[inline]
    pub(super) fn order(&self) -> &Order {
        &self.fixed.order
    }

    #[inline]
    pub(super) fn merge_operator(&self) -> Option<&MergeOperator> {
        self.fixed.merge_operator.as_ref()
    }

    pub(super) fn compaction_filter(&self) -> Option<CompactionFilter> {
        self.current.load().compaction_filter.clone()
    }

    #[inline]
    pub(super) fn key_ends_in_seqno(&self) -> bool {
        self.fixed.key_ends_in_seqno
    }

    #[inline]
    pub(super) fn system(&self) -> Option<u8> {
        self.fixed.system
    }

    #[inline]
    pub(super) fn verify_reads(&self) -> Verify {
        decode(self.verify_reads.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn verify_scans(&self) -> Verify {
        decode(self.verify_scans.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn default_ttl(&self) -> Option<Duration> {
        match self.default_ttl_micros.load(Ordering::Relaxed) {
            0 => None,
            micros => Some(Duration::from_micros(micros)),
        }
    }

    #[inline]
    pub(super) fn prefix_extractor(&self) -> Option<PrefixExtractor> {
        match self.has_prefix_extractor.load(Ordering::Relaxed) {
            true => self.current.load().prefix_extractor,
            false => None,
        }
    }

    #[inline]
    pub(super) fn separates_from(&self) -> usize {
        self.separates_from.load(Ordering::Relaxed)
    }
}

const NEVER: u64 = 0;
const ON_FILL: u64 = 1;
const ALWAYS: u64 = 2;
/// `Sampled(n)` is this plus n.
const SAMPLED: u64 = 3;

fn encode(verify: Verify) -> u64 {
    match verify {
        Verify::Never => NEVER,
        Verify::OnFill => ON_FILL,
        Verify::Always => ALWAYS,
        Verify::Sampled(n) => SAMPLED + u64::from(n),
    }
}

#[inline]
fn decode(word: u64) -> Verify {
    match word {
        ALWAYS => Verify::Always,
        NEVER => Verify::Never,
        ON_FILL => Verify::OnFill,
        sampled => Verify::Sampled(u32::try_from(sampled - SAMPLED).unwrap_or(u32::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verification_levels_are_copied_whole() {
        for verify in [
            Verify::Never,
            Verify::OnFill,
            Verify::Always,
            Verify::Sampled(0),
            Verify::Sampled(1),
            Verify::Sampled(u32::MAX),
        ] {
            let live = LiveOptions::new(CfOptions::default());
            live.replace(CfOptions { verify_reads: verify, ..CfOptions::default() });
            assert_eq!((live.verify_reads(), live.verify_scans()), (verify, Verify::Always));
        }
    }
}
