//! Turns: watched commits go side by side, and the few that must be among themselves go one after the other.
//!
//! A watched commit takes its time, encodes it, and is ordered if no later time is in front of it by then (`Db::commit_timed`); else it
//! does so again. So nobody holds a lock while he encodes, and whoever is put to sleep there holds up nobody. Two need more than that:
//! who reads old values, since nothing may come between reading and writing, and who was handed back again and again, since others are quicker.
//! They take the turn, and everybody who sees that gives way.
//!
//! Holds: who has the turn excludes those that read the word of rules after it was taken. Those that read it before are kept out by changing the
//! word (`Db::renew_rules`), where that matters. Memory orders: `wanted` is raised before the word changes, and looked at after the word was read.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};

use waxseal_lsm::env::work::lock;
use waxseal_lsm::planted::{self, Bug};

/// Who is handed back more often than this takes the turn.
const PATIENCE: u32 = 2;

/// The one turn of a store.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    one: Mutex<()>,
    /// How many have the turn, or wait to take it.
    wanted: AtomicUsize,
}

/// The turn, or the leave to go while nobody has it, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    taken: bool,
    _one: MutexGuard<'a, ()>,
}

impl Turns {
    /// True if somebody has the turn or wants it. Asked after the word of rules was read.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed) > 0
    }

    /// Takes the turn: from when it is given until it is dropped everybody else waits in `give_way`.
    pub(crate) fn take(&self) -> Turn<'_> {
        self.wanted.fetch_add(1, SeqCst);
        Turn { turns: self, taken: true, _one: lock(&self.one) }
    }

    /// Waits while somebody has the turn; none: nobody does. Asked after the word of rules was read.
    pub(crate) fn give_way(&self) -> Option<Turn<'_>> {
        self.is_wanted().then(|| Turn { turns: self, taken: false, _one: lock(&self.one) })
    }

    /// For a commit that was handed back so often: gives way, or takes the turn if it must be `alone` or has waited long enough.
    pub(crate) fn enter(&self, alone: bool, handed_back: u32) -> Option<Turn<'_>> {
        match alone || handed_back > PATIENCE {
            _ if planted::active(Bug::TurnNotHeld) => None,
            true => Some(self.take()),
            false => self.give_way(),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.taken {
            self.turns.wanted.fetch_sub(1, SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turn_is_taken_where_it_must_be_and_others_give_way_meanwhile() {
        let turns = Turns::default();
        assert!(turns.enter(false, 0).is_none() && turns.enter(false, PATIENCE).is_none());
        for (alone, handed_back) in [(true, 0), (false, PATIENCE + 1)] {
            let turn = turns.enter(alone, handed_back).unwrap();
            assert!(turn.taken && turns.is_wanted());
            let done = std::sync::atomic::AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let leave = turns.give_way();
                    assert!(done.load(SeqCst) && leave.is_none_or(|leave| !leave.taken));
                });
                done.store(true, SeqCst);
                drop(turn);
            });
            assert!(!turns.is_wanted());
        }
    }
}
