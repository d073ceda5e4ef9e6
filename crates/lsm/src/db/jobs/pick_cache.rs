//! Pick cache: the next compaction of each family, kept while its tables are unchanged.
//!
//! Without it each plan would examine the tables of all families, so flushing many families would take quadratic time.
//! A cached pick is reused only if all of its inputs are unchanged: the family's levels, lost ranges and options, which
//! are compared by identity, and the `Basis`, which all families share. The caller decides which picks depend on more than
//! that.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::compaction::CompactionPlan;
use crate::db::state::family::{Family, TableLevels, View};
use crate::lost_range::LostRange;
use crate::options::CfOptions;
use crate::record::Seqno;

/// Why a family is compacted; the greatest value runs first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// Tables are dense with tombstones.
    Idle,
    /// Blob files are mostly garbage.
    Values,
    /// Records have expired.
    Expired,
    /// The store is to settle, and the upper levels hold too much data.
    Space,
    /// A level is too full; ordered by its score.
    DueEvents(u64),
    /// Expired tables can be dropped without reading them.
    Drop,
}

/// The next compaction of a family.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pick {
    pub(super) urgency: Urgency,
    pub(in crate::db) plan: CompactionPlan,
}

/// The inputs that the picks of all families share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Basis {
    /// The store is to settle; the next file number when `settle` began.
    pub(super) settles: Option<u64>,
    /// The oldest seqno that a snapshot reads at.
    pub(super) oldest_snapshot: Option<Seqno>,
    /// The record protector has rows of its own.
    pub(in crate::db) has_rows: bool,
    /// A counter of changes to the set of excluded tables.
    pub(super) left_alone: u64,
}

/// The last pick of each family.
#[derive(Default)]
pub(in crate::db) struct PickCache {
    basis: Option<Basis>,
    picks: HashMap<u32, Kept>,
}

/// A pick, or its absence, and its inputs. Weak pointers keep no table open, but keep the address from being reused.
struct Kept {
    levels: Weak<TableLevels>,
    lost_ranges: Weak<Vec<LostRange>>,
    options: Weak<CfOptions>,
    pick: Option<Pick>,
}

impl Kept {
    fn is_of(&self, view: &View, options: &Arc<CfOptions>) -> bool {
        std::ptr::eq(self.levels.as_ptr(), Arc::as_ptr(&view.levels))
            && std::ptr::eq(self.lost_ranges.as_ptr(), Arc::as_ptr(&view.lost_ranges))
            && std::ptr::eq(self.options.as_ptr(), Arc::as_ptr(options))
    }
}

impl PickCache {
    /// Begins a search over `families` families. Forgets all picks if the basis has changed. A basis of `None` keeps no
    /// pick, because picks then change with time alone.
    pub(super) fn begin(&mut self, basis: Option<Basis>, families: usize) {
        let is_stale = basis.is_none() || self.basis != basis;
        if is_stale || self.picks.len() > 2 * families {
            self.picks.clear(); // of dropped families too
        }
        self.basis = basis;
    }

    /// Returns the cached pick for a family with this view and these options; an outer `None` means that the family must be examined.
    pub(super) fn known(&self, family: &Family, view: &View, options: &Arc<CfOptions>) -> Option<Option<&Pick>> {
        let kept = self.picks.get(&family.id()).filter(|kept| kept.is_of(view, options))?;
        Some(kept.pick.as_ref())
    }

    /// Keeps a pick for the rest of this search. A pick that depends only on view and basis stays until one
    /// of these changes.
    pub(super) fn keep(
        &mut self,
        family: &Family,
        (view, options): (&View, &Arc<CfOptions>),
        pick: Option<Pick>,
        depends_on_more: bool,
    ) {
        let kept = match depends_on_more || self.basis.is_none() {
            true => Kept { levels: Weak::new(), lost_ranges: Weak::new(), options: Weak::new(), pick },
            false => Kept {
                levels: Arc::downgrade(&view.levels),
                lost_ranges: Arc::downgrade(&view.lost_ranges),
                options: Arc::downgrade(options),
                pick,
            },
        };
        self.picks.insert(family.id(), kept);
    }

    /// Removes and returns the pick of a family that this search found or kept.
    pub(in crate::db) fn take(&mut self, family: &Family) -> Option<CompactionPlan> {
        self.picks.remove(&family.id())?.pick.map(|pick| pick.plan)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::batch::Batch;
    use crate::db::{Db, Parts};
    use crate::env::SimFs;
    use crate::options::{Durability, Settings};
    use crate::record::Kind;

    /// Creates a family with one table, in a store whose background work waits for `step`.
    fn store() -> (Db, Family) {
        let parts = Parts { env: SimFs::new(1).env(1), ..Parts::real() };
        let db = Db::open(Path::new("/store"), Settings::default(), parts).unwrap();
        let family = db.family("default").unwrap();
        add_table(&db, &family);
        (db, family)
    }

    fn add_table(db: &Db, family: &Family) {
        let mut batch = Batch::new();
        batch.push(family.id(), Kind::Put, b"key", b"value", db.companions()).unwrap();
        db.commit(&mut batch, Durability::Os).unwrap();
        db.flush().unwrap();
    }

    fn basis(oldest_snapshot: Option<Seqno>) -> Option<Basis> {
        Some(Basis { settles: None, oldest_snapshot, has_rows: false, left_alone: 0 })
    }

    /// Returns true if the family must be examined, and caches that it needs no compaction.
    fn looks(cache: &mut PickCache, family: &Family, depends_on_more: bool) -> bool {
        let view = family.view();
        let is_known = cache.known(family, &view, &family.options()).is_some();
        cache.keep(family, (&view, &family.options()), None, depends_on_more);
        !is_known
    }

    #[test]
    fn a_family_is_looked_at_again_when_its_tables_or_the_basis_change() {
        let (db, family) = store();
        let mut cache = PickCache::default();
        cache.begin(basis(None), 1);
        assert!(looks(&mut cache, &family, false));
        cache.begin(basis(None), 1);
        assert!(!looks(&mut cache, &family, false));
        add_table(&db, &family);
        cache.begin(basis(None), 1);
        assert!(looks(&mut cache, &family, false), "a table came");
        cache.begin(basis(Some(1)), 1);
        assert!(looks(&mut cache, &family, false), "a snapshot was taken");
        cache.begin(None, 1);
        assert!(looks(&mut cache, &family, false), "time alone changes picks");
        cache.begin(basis(None), 1);
        assert!(looks(&mut cache, &family, false), "nothing was kept of that");
    }

    #[test]
    fn a_pick_that_depends_on_more_is_made_each_time() {
        let (_db, family) = store();
        let mut cache = PickCache::default();
        for _ in 0..2 {
            cache.begin(basis(None), 1);
            assert!(looks(&mut cache, &family, true));
        }
    }

    #[test]
    fn what_is_due_goes_before_what_could_be_done_and_drops_go_first() {
        use Urgency::{Drop, DueEvents, Expired, Idle, Space, Values};
        assert!([Idle, Values, Expired, Space, DueEvents(1000), DueEvents(1001), Drop].is_sorted());
    }
}
