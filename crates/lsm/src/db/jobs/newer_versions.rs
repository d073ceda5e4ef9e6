//! Searches for versions of a key that are newer than those in the inputs of a compaction.
//!
//! This is no read (`reads/search.rs`): it ends above the output level, and skips the plan's own inputs. `view` is not
//! older than the plan. `merge_once` asks for lost ranges (`is_fenced`).

use std::sync::Arc;

use crate::checksum::hash_key;
use crate::compaction::CompactionPlan;
use crate::db::state::family::{TableHandle, View};
use crate::record::MAX_SEQNO;
use crate::sst::Checks;

/// Returns true if a newer version of a key than the plan's inputs may exist in the memtables or upper levels. Opens no
/// table. One case is not detected: a commit that took its time before the value expired, and is delayed until this pass
/// has processed its key.
pub(super) fn may_exist(plan: &CompactionPlan, view: &View, key: &[u8]) -> bool {
    exist_in(plan, view, key, |_| true)
}

/// Returns true if a newer version of a key than the plan's inputs exists in the memtables or upper levels. Reads the
/// tables whose bounds hold the key. A table that cannot be read counts as one with the key.
pub(super) fn exist(plan: &CompactionPlan, view: &View, key: &[u8]) -> bool {
    exist_in(plan, view, key, |table| {
        let open = table.table();
        open.and_then(|open| open.get(key, hash_key(key), MAX_SEQNO, Checks::EACH, &mut |_| {})).unwrap_or(true)
    })
}

fn exist_in(plan: &CompactionPlan, view: &View, key: &[u8], holds: impl Fn(&TableHandle) -> bool) -> bool {
    let mut generations = view.memtables();
    if generations.any(|generation| generation.memtable.get(key, MAX_SEQNO, &mut |_| {})) {
        return true;
    }
    let above = (1..plan.output_level).filter_map(|level| view.levels.find(level, key));
    let is_input =
        |table: &Arc<TableHandle>| plan.inputs.iter().any(|(_, numbers)| numbers.contains(&table.meta().number));
    view.levels.newest_holding(key).chain(above).any(|table| !is_input(table) && holds(table))
}
