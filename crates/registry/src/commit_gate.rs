//! The commit gate: registered commits run concurrently, except for the few that need exclusion, which run one at a
//! time.
//!
//! A registered commit takes its time, encodes it, and is accepted only if no later time has been ordered by then
//! (`Precondition::at_time`); otherwise it retries. No lock is held while encoding, so a descheduled thread delays no
//! other.
//! Two kinds of commits need more and take the gate, and all others wait for them. The first kind reads old values,
//! because no commit may intervene between the read and the write. The second has been rejected repeatedly because
//! other threads were faster.
//!
//! Holds: the holder of the gate excludes commits that read the epoch after the gate was taken. Where earlier
//! readers matter, changing the word excludes them (`Db::bump_epoch`). Memory order: `wanted` is incremented before
//! the word changes, and checked after the word was read.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};

use waxseal_lsm::env::work::lock;
use waxseal_lsm::planted;

/// A commit that was rejected more often than this takes the gate.
const PATIENCE: u32 = 2;

/// The commit gate of a store.
#[derive(Debug, Default)]
pub(crate) struct CommitGate {
    one: Mutex<()>,
    /// Number of threads that hold the gate or wait to take it.
    wanted: AtomicUsize,
}

/// The gate itself, or a pass obtained while no thread held it; valid until dropped.
#[derive(Debug)]
pub(crate) struct GatePass<'a> {
    gate: &'a CommitGate,
    taken: bool,
    _one: MutexGuard<'a, ()>,
}

impl CommitGate {
    /// Returns true if a thread holds the gate or waits for it. Call it after reading the epoch.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed) > 0
    }

    /// Takes the gate: until it is dropped, all others wait in `give_way`.
    pub(crate) fn take(&self) -> GatePass<'_> {
        self.wanted.fetch_add(1, SeqCst);
        GatePass { gate: self, taken: true, _one: lock(&self.one) }
    }

    /// Waits while a thread holds the gate; returns `None` if none does. Call it after reading the epoch.
    pub(crate) fn give_way(&self) -> Option<GatePass<'_>> {
        self.is_wanted().then(|| GatePass { gate: self, taken: false, _one: lock(&self.one) })
    }

    /// Enters a commit that was rejected `handed_back` times. Takes the gate if the commit must be `alone` or was
    /// rejected too often; otherwise waits for its holder.
    pub(crate) fn enter(&self, alone: bool, handed_back: u32) -> Option<GatePass<'_>> {
        planted!(TurnNotHeld => return None);
        match alone || handed_back > PATIENCE {
            true => Some(self.take()),
            false => self.give_way(),
        }
    }
}

impl Drop for GatePass<'_> {
    fn drop(&mut self) {
        if self.taken {
            self.gate.wanted.fetch_sub(1, SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turn_is_taken_where_it_must_be_and_others_give_way_meanwhile() {
        let gate = CommitGate::default();
        assert!(gate.enter(false, 0).is_none() && gate.enter(false, PATIENCE).is_none());
        for (alone, handed_back) in [(true, 0), (false, PATIENCE + 1)] {
            let pass = gate.enter(alone, handed_back).unwrap();
            assert!(pass.taken && gate.is_wanted());
            let done = std::sync::atomic::AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let leave = gate.give_way();
                    assert!(done.load(SeqCst) && leave.is_none_or(|leave| !leave.taken));
                });
                done.store(true, SeqCst);
                drop(pass);
            });
            assert!(!gate.is_wanted());
        }
    }
}
