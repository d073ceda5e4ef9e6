//! Which tables are being compacted, and which must not be: two plans never share a table.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::family::Family;
use crate::compaction::pick::Plan;
use crate::env::work::lock;

#[derive(Default)]
pub(crate) struct Running {
    tables: Mutex<Tables>,
    finished: AtomicU64,
}

#[derive(Default)]
struct Tables {
    busy: HashSet<u64>,
    /// Damaged, or with a ledger that does not close: left alone until somebody repairs them.
    barred: HashSet<u64>,
    plans: usize,
}

impl Running {
    /// Lets `choose` make a plan from the tables that are free, and takes them.
    pub(crate) fn pick(
        &self,
        choose: impl FnOnce(&dyn Fn(u64) -> bool) -> Option<(Family, Plan)>,
    ) -> Option<(Family, Plan)> {
        let mut tables = lock(&self.tables);
        let (family, plan) = choose(&|number| tables.busy.contains(&number) || tables.barred.contains(&number))?;
        tables.busy.extend(plan.inputs.iter().flat_map(|(_, numbers)| numbers));
        tables.plans += 1;
        Some((family, plan))
    }

    /// Gives the tables of a plan back.
    pub(crate) fn done(&self, plan: &Plan) {
        let mut tables = lock(&self.tables);
        for number in plan.inputs.iter().flat_map(|(_, numbers)| numbers) {
            tables.busy.remove(number);
        }
        tables.plans -= 1;
        self.finished.fetch_add(1, Ordering::Release);
    }

    /// Keeps tables out of every plan to come.
    pub(crate) fn bar(&self, numbers: impl Iterator<Item = u64>) {
        lock(&self.tables).barred.extend(numbers);
    }

    /// True while a plan is carried out.
    pub(crate) fn is_running(&self) -> bool {
        lock(&self.tables).plans > 0
    }

    /// Plans carried out so far.
    pub(crate) fn finished(&self) -> u64 {
        self.finished.load(Ordering::Acquire)
    }
}
