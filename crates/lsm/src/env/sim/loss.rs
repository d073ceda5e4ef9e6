//! The effects of a crash: the surviving name changes, the version of every changed sector, and the length of every
//! file.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::content::{PAGE, PageChange, SECTOR, SECTORS, SectorVersions, SimContent};
use super::dice::Dice;
use super::state::{PendingChange, SimState};
use crate::checksum::mix;
use crate::env::tree::{TreeEntry, TreePath};

/// The end of a boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// The process is killed. The page cache survives, locks are released, the boot id stays.
    Process,
    /// The machine loses power. Unsynced changes are lost according to the policy; the boot id changes.
    Machine(Loss),
}

/// The policy that decides which unsynced changes are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// All changes are lost.
    DurableOnly,
    /// No change is lost.
    KeepAll,
    /// Name changes are lost; all data is kept.
    Names,
    /// Data and lengths are lost; all name changes are kept.
    Data,
    /// Each name, length, page and sector is independently left old, new or at any version in between; the share varies
    /// between files.
    Random {
        /// The seed of the choices.
        seed: u64,
    },
    /// Changes before some step are lost and later ones kept, sector by sector.
    Reordered {
        /// The seed that chooses the step.
        seed: u64,
    },
    /// Changes before some step are kept and the rest lost: the disk as of that moment.
    Ordered {
        /// The seed that chooses the step.
        seed: u64,
    },
    /// The newest sector of every file was written in half; all other changes are kept.
    TornLastSector,
    /// Lengths and names are kept, but newly allocated data is zeros from some point on.
    ZeroTail {
        /// The seed that chooses the point.
        seed: u64,
    },
}

impl Loss {
    /// Returns every policy, with this seed for those that choose randomly.
    pub fn all(seed: u64) -> [Loss; 9] {
        [
            Loss::DurableOnly,
            Loss::KeepAll,
            Loss::Names,
            Loss::Data,
            Loss::Random { seed },
            Loss::Reordered { seed },
            Loss::Ordered { seed },
            Loss::TornLastSector,
            Loss::ZeroTail { seed },
        ]
    }
}

impl SimState {
    /// Ends the boot: handles, locks and faults become invalid; a machine crash also loses the changes selected by
    /// `loss`.
    pub(super) fn reboot(&mut self, crash: Crash) {
        let used = self.used();
        self.epoch += 1;
        self.crash = None;
        self.crashed = false;
        self.faults.clear();
        self.changing.clear();
        self.open.clear();
        self.locks.clear();
        if let Crash::Machine(loss) = crash {
            self.lose(loss);
            self.machine.boot_id = self.machine.boot_id.map(next_boot_id);
        }
        self.sweep();
        let used_now = self.used();
        self.free = self.free.map(|free| (free + used).saturating_sub(used_now));
    }

    fn lose(&mut self, loss: Loss) {
        let seed = match loss {
            Loss::Random { seed } | Loss::Reordered { seed } | Loss::Ordered { seed } | Loss::ZeroTail { seed } => seed,
            _ => 0,
        };
        let mut dice = Dice::new(seed);
        let cut = self.cut(&mut dice);
        let kept = keep_names(&self.pending, |pending| match loss {
            Loss::DurableOnly | Loss::Names => false,
            Loss::KeepAll | Loss::Data | Loss::TornLastSector | Loss::ZeroTail { .. } => true,
            Loss::Random { .. } => dice.coin(),
            Loss::Reordered { .. } => pending.step >= cut,
            Loss::Ordered { .. } => pending.step < cut,
        });
        for (pending, kept) in std::mem::take(&mut self.pending).into_iter().zip(kept) {
            if kept {
                self.durable.apply(&pending.change);
            }
        }
        self.live = self.durable.clone();
        let mut names = BTreeMap::new();
        for (_, entry) in self.live.walk() {
            *names.entry(entry).or_default() += 1;
        }
        self.files.retain(|file, _| names.contains_key(&TreeEntry::File(*file)));
        for (file, content) in &mut self.files {
            let names = names[&TreeEntry::File(*file)];
            if content.names != names || !content.is_settled() {
                let content = Arc::make_mut(content);
                lose_data(content, loss, cut, &mut dice);
                content.names = names;
            }
        }
    }

    /// Returns a step between the first and the last non-durable change.
    fn cut(&self, dice: &mut Dice) -> u64 {
        let names = self.pending.iter().map(|pending| pending.step);
        let data = self.files.values().flat_map(|content| {
            content
                .dirty
                .values()
                .flatten()
                .map(|change| change.step)
                .chain(content.lengths.iter().map(|(step, _)| *step))
        });
        let (first, last) =
            names.chain(data).fold((u64::MAX, 0), |(first, last), step| (first.min(step), last.max(step)));
        if first > last { 0 } else { first + dice.below((last - first) as usize + 2) as u64 }
    }
}

fn next_boot_id(id: [u8; 16]) -> [u8; 16] {
    let (words, _) = id.as_chunks::<8>();
    let half = mix(words.iter().fold(1, |sum, word| sum ^ mix(u64::from_le_bytes(*word)))).to_le_bytes();
    std::array::from_fn(|at| half[at % 8] ^ (at / 8) as u8)
}

/// Returns which changes are kept: the changes selected by `keep`, and their dependencies. A change depends on the one
/// that filled the place it vacates (otherwise a file renamed twice would have two names), and on the one that vacated
/// the place it fills (otherwise it would overwrite a name that was only to be moved).
pub(super) fn keep_names(pending: &[PendingChange], keep: impl FnMut(&PendingChange) -> bool) -> Vec<bool> {
    let mut kept: Vec<bool> = pending.iter().map(keep).collect();
    for later in (0..pending.len()).rev().filter(|later| kept[*later]).collect::<Vec<_>>() {
        keep_foundations(pending, &mut kept, later);
    }
    kept
}

fn keep_foundations(pending: &[PendingChange], kept: &mut [bool], later: usize) {
    let change = &pending[later].change;
    for (earlier, foundation) in pending[..later].iter().enumerate().rev() {
        let meets = |one: Option<&TreePath>, other: Option<&TreePath>| one.is_some() && one == other;
        let builds =
            meets(foundation.change.filled(), change.vacated()) || meets(foundation.change.vacated(), change.filled());
        if builds && !kept[earlier] {
            kept[earlier] = true;
            keep_foundations(pending, kept, earlier);
        }
    }
}

fn lose_data(content: &mut SimContent, loss: Loss, cut: u64, dice: &mut Dice) {
    let lengths: Vec<u64> =
        std::iter::once(content.durable.length).chain(content.lengths.iter().map(|(_, length)| *length)).collect();
    let newest = *lengths.last().unwrap_or(&0);
    match loss {
        Loss::DurableOnly | Loss::Data => content.crash(content.durable.length, |_, _| [0; SECTORS]),
        Loss::KeepAll | Loss::Names => content.crash(newest, |_, changes| [changes.len(); SECTORS]),
        Loss::Random { .. } => lose_randomly(content, &lengths, dice),
        Loss::Reordered { .. } => {
            let length = if dice.coin() { newest } else { content.durable.length };
            content.crash(length, |_, changes| {
                std::array::from_fn(|sector| {
                    let last = changes.iter().rev().find(|change| change.touches(sector));
                    if last.is_some_and(|change| change.step >= cut) { changes.len() } else { 0 }
                })
            });
        }
        Loss::Ordered { .. } => {
            let length = lengths[content.lengths.iter().take_while(|(step, _)| *step < cut).count()];
            content
                .crash(length, |_, changes| [changes.iter().take_while(|change| change.step < cut).count(); SECTORS]);
        }
        Loss::TornLastSector => tear_last_sector(content, newest),
        Loss::ZeroTail { .. } => zero_tail(content, newest, dice),
    }
}

/// Per file: all old, all new, or each part independently; per page: one version, or one per sector.
fn lose_randomly(content: &mut SimContent, lengths: &[u64], dice: &mut Dice) {
    let kind = dice.below(6);
    let version = |dice: &mut Dice, newest: usize| match (kind, dice.below(3)) {
        (0, _) | (2.., 0) => 0,
        (1, _) | (2.., 1) => newest,
        _ => dice.below(newest + 1),
    };
    let length = lengths[version(dice, lengths.len() - 1)];
    content.crash(length, |_, changes| {
        if dice.coin() {
            [version(dice, changes.len()); SECTORS]
        } else {
            std::array::from_fn(|_| version(dice, changes.len()))
        }
    });
}

fn tear_last_sector(content: &mut SimContent, length: u64) {
    let newest = content.dirty.iter().filter_map(|(page, changes)| {
        let change = changes.last()?;
        let sector = (0..SECTORS).rev().find(|sector| change.touches(*sector))?;
        Some((change.step, *page, sector))
    });
    let torn = newest.max();
    let durable = content.durable.clone();
    content.crash(length, |_, changes: &[PageChange]| [changes.len(); SECTORS]);
    if let Some((_, page, sector)) = torn {
        let from = (page * PAGE + sector * SECTOR + 256) as u64;
        let mut old = [0; 256];
        durable.read_at(&mut old, from);
        let kept = content.live.length.saturating_sub(from).min(256) as usize;
        content.write(0, from, &old[..kept]);
        let left = content.live.clone();
        content.leave(left);
    }
}

fn zero_tail(content: &mut SimContent, length: u64, dice: &mut Dice) {
    let mut fresh: Vec<(usize, usize)> = Vec::new();
    for (page, changes) in &content.dirty {
        let touched = (0..SECTORS).filter(|sector| changes.iter().any(|change| change.touches(*sector)));
        fresh.extend(touched.filter(|sector| content.is_durably_zero(*page, *sector)).map(|sector| (*page, sector)));
    }
    let from = if fresh.is_empty() { (0, 0) } else { fresh[dice.below(fresh.len())] };
    content.crash(length, |page, changes| -> SectorVersions {
        std::array::from_fn(|sector| {
            let lost = (page, sector) >= from && fresh.binary_search(&(page, sector)).is_ok();
            if lost { 0 } else { changes.len() }
        })
    });
}
