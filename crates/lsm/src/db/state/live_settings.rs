//! The settings of an open store. Some of them may change.
//!
//! Holds: a setting that `Settings::set` refuses stays as it was when the store was opened. Values that every write needs
//!        are copied, so that no write counts a reference.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use arc_swap::ArcSwap;

use crate::error::Result;
use crate::option_list::check_fixed;
use crate::options::{Durability, Settings};

/// The settings of an open store.
pub(in crate::db) struct LiveSettings {
    current: ArcSwap<Settings>,
    durability: AtomicU8,
    /// Never changes.
    pub(in crate::db) memtable_bytes: usize,
    /// Never changes.
    pub(in crate::db) memory_bytes: usize,
}

impl LiveSettings {
    pub(in crate::db) fn new(settings: Settings) -> LiveSettings {
        LiveSettings {
            durability: AtomicU8::new(settings.durability as u8),
            memtable_bytes: settings.memtable_bytes,
            memory_bytes: settings.memory_bytes,
            current: ArcSwap::from_pointee(settings),
        }
    }

    /// Returns the settings as of now.
    pub(in crate::db) fn current(&self) -> Arc<Settings> {
        self.current.load_full()
    }

    /// Returns the durability of commits that do not specify one.
    #[inline]
    pub(in crate::db) fn durability(&self) -> Durability {
        match self.durability.load(Ordering::Relaxed) {
            0 => Durability::Buffered,
            1 => Durability::Os,
            _ => Durability::Sync,
        }
    }

    /// Fails with `Invalid` if `new` differs from these settings in one that cannot change while the store is open.
    pub(in crate::db) fn check_change(&self, new: &Settings) -> Result<()> {
        let current = self.current();
        check_fixed(&current.list(), &new.list(), |name, value| (*current).clone().set(name, value))
    }

    /// Replaces the settings. The caller has checked them with `check_change`.
    pub(in crate::db) fn replace(&self, settings: Settings) {
        self.durability.store(settings.durability as u8, Ordering::Relaxed);
        self.current.store(Arc::new(settings));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_durability_is_copied() {
        for durability in [Durability::Buffered, Durability::Os, Durability::Sync] {
            let live = LiveSettings::new(Settings::default());
            live.replace(Settings { durability, ..Settings::default() });
            assert_eq!(live.durability(), durability);
        }
    }
}
