//! The inputs of an open.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::compaction_filter::CompactionFilter;
use crate::db::notify::events::{Listener, Silent};
use crate::db::notify::notifier::Notifier;
use crate::descriptors::Descriptors;
use crate::env::Env;
use crate::error::Result;
use crate::merge_operator::MergeOperator;
use crate::options::{CfOptions, Settings};
use crate::order::Order;
use crate::seam::{Companions, EngineLog};
use crate::sst::Cache;
use crate::version::{self, FamilyState};

/// The parts that an application plugs into a store.
#[derive(Clone)]
pub struct Parts {
    /// The environment: files, time, randomness and threads.
    pub env: Env,
    /// The record protector, which makes and checks companions; `seam::Plain` for a plain node.
    pub companions: Arc<dyn Companions>,
    /// Receives the store's events.
    pub listener: Arc<dyn Listener>,
    /// Options by family name. They replace the stored ones; opening the store creates the families that are missing.
    pub families: Vec<(String, CfOptions)>,
    /// Key orders other than bytewise. A stored family's order is looked up here by its name.
    pub orders: Vec<Order>,
    /// Compaction filters. A stored family whose options name no filter gets the one of its stored name.
    pub filters: Vec<CompactionFilter>,
    /// Merge operators. A stored family whose options name no operator gets the one of its stored name.
    pub merge_operators: Vec<MergeOperator>,
    /// Writes the event log; `None` records no events.
    pub engine_log: Option<Arc<dyn EngineLog>>,
    /// The block cache, which several stores may share; `None` creates a private one of `Settings::cache_bytes`.
    pub cache: Option<Arc<Cache>>,
}

impl Parts {
    /// Returns parts for the operating system, without companions and without a listener.
    pub fn real() -> Parts {
        Parts {
            env: Env::real(),
            companions: Arc::new(crate::seam::Plain),
            listener: Arc::new(Silent),
            families: Vec::new(),
            orders: Vec::new(),
            filters: Vec::new(),
            merge_operators: Vec::new(),
            engine_log: None,
            cache: None,
        }
    }

    /// Returns the merge operator of a stored name: the caller's, a built-in one, or one without a function.
    pub fn merge_operator(&self, name: &str) -> MergeOperator {
        let known = self.merge_operators.iter().find(|operator| operator.name() == name);
        known.cloned().unwrap_or_else(|| MergeOperator::of_name(name))
    }

    /// Returns the compaction filter of a stored name: the caller's, or one without a function.
    pub fn compaction_filter(&self, name: &str) -> CompactionFilter {
        let known = self.filters.iter().find(|filter| filter.name() == name);
        known.cloned().unwrap_or_else(|| CompactionFilter::of_name(name))
    }

    /// Returns the options of a stored family, with the merge operator and the compaction filter of their stored names.
    /// Errors: `FormatTooNew` for options that this build does not know.
    pub fn stored_options(&self, stored: &FamilyState, order: &Order) -> Result<CfOptions> {
        Ok(CfOptions {
            merge_operator: stored.merge_operator.as_deref().map(|name| self.merge_operator(name)),
            compaction_filter: stored.compaction_filter.as_deref().map(|name| self.compaction_filter(name)),
            ..version::family::decode(&stored.options, order.clone())?
        })
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("env", &self.env).field("families", &self.families).finish_non_exhaustive()
    }
}

/// The inputs of an open.
pub(super) struct Opening<'a> {
    pub(in crate::db) dir: &'a Path,
    pub(in crate::db) settings: &'a Settings,
    pub(in crate::db) parts: &'a Parts,
    /// Receives the damage reports of table readers.
    pub(in crate::db) notifier: &'a Arc<Notifier>,
    /// The block cache and the open files of a store that refreshes; `None` creates fresh ones.
    pub(in crate::db) kept: Option<(Arc<Cache>, Arc<Descriptors>)>,
}

impl Opening<'_> {
    pub(in crate::db) fn env(&self) -> &Env {
        &self.parts.env
    }
}
