//! Name changes: immediately visible to processes, durable with the sync of a directory, and until then recorded one by
//! one.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::fault::{StepKind, StepOutcome};
use super::loss::keep_names;
use super::state::{BLOCK, PendingChange, SimState};
use crate::env::tree::{NameTree, TreeChange, TreeEntry, TreePath};

impl SimState {
    /// Plans a name change and makes it; the plan may find that no change is needed.
    pub(super) fn rename(
        &mut self,
        epoch: u64,
        plan: impl FnOnce(&NameTree) -> io::Result<Option<TreeChange>>,
    ) -> io::Result<()> {
        let (step, how) = self.begin(epoch, StepKind::Name)?;
        if let Some(change) = plan(&self.live)?
            && self.is_done(how)
        {
            self.change(step, change);
        }
        how.result()
    }

    pub(super) fn change(&mut self, step: u64, change: TreeChange) {
        self.live.apply(&change);
        match &change {
            TreeChange::Put { entry, .. } => self.count(*entry, 1),
            TreeChange::Take { entry, .. } => self.count(*entry, -1),
            TreeChange::Move { replaced: Some(replaced), .. } => self.count(*replaced, -1),
            TreeChange::Move { replaced: None, .. } => {}
        }
        self.pending.push(PendingChange { step, change });
    }

    fn count(&mut self, entry: TreeEntry, by: i32) {
        if let TreeEntry::File(file) = entry {
            let content = self.content(file);
            content.names = content.names.saturating_add_signed(by);
            self.give_back(file);
        }
    }

    /// Releases the space of a file that is no longer reachable.
    pub(super) fn give_back(&mut self, file: u64) {
        if let Some(content) = self.files.get(&file)
            && content.names == 0
            && !self.open.contains_key(&file)
        {
            let pages = content.live.reserved() as u64;
            self.free = self.free.map(|free| free + (pages + 1) * BLOCK);
        }
    }

    /// Creates an empty file; the file itself takes one block.
    pub(super) fn create(&mut self, epoch: u64, at: impl FnOnce(&NameTree) -> io::Result<TreePath>) -> io::Result<u64> {
        let (step, how) = self.begin(epoch, StepKind::Name)?;
        if !self.is_done(how) {
            how.result()?;
        }
        let at = at(&self.live)?;
        let file = self.make(step, at)?;
        how.result().map(|()| file)
    }

    pub(super) fn make(&mut self, step: u64, at: TreePath) -> io::Result<u64> {
        let file = self.number();
        let change = self.live.plan_put(at, TreeEntry::File(file))?;
        self.spend(1)?;
        self.files.insert(file, Arc::default());
        self.change(step, change);
        Ok(file)
    }

    /// Creates directories one by one; a crash leaves the outer ones.
    pub(super) fn create_dirs(&mut self, epoch: u64, path: &Path) -> io::Result<()> {
        let (step, how) = self.begin(epoch, StepKind::Name)?;
        let missing = self.live.missing_dirs(path)?;
        let done = self.done(how, missing.len(), 1);
        for path in &missing[..done] {
            let dir = self.number();
            let change = self.live.plan_put(self.live.place(path)?, TreeEntry::Dir(dir))?;
            self.live.add_dir(dir);
            self.durable.add_dir(dir);
            self.change(step, change);
        }
        how.result()
    }

    /// Makes the entries of a directory durable, together with the changes in other directories that they came from.
    pub(super) fn sync_dir(&mut self, epoch: u64, dir: impl FnOnce(&NameTree) -> io::Result<u64>) -> io::Result<()> {
        let (_, how) = self.begin(epoch, StepKind::Sync)?;
        let dir = dir(&self.live)?;
        let (concerned, others) = split(std::mem::take(&mut self.pending), dir);
        self.pending = others;
        let written = match how {
            StepOutcome::Failed(_) => keep_names(&concerned, |_| self.dice.coin()),
            _ => {
                let done = self.done(how, concerned.len(), 1);
                (0..concerned.len()).map(|at| at < done).collect()
            }
        };
        for (pending, written) in concerned.into_iter().zip(written) {
            if written {
                self.durable.apply(&pending.change);
            } else if !matches!(how, StepOutcome::Failed(_)) {
                self.pending.push(pending);
            }
            // After a failure the unwritten changes count as clean: no later sync writes them.
        }
        self.pending.sort_by_key(|pending| pending.step);
        self.sweep();
        how.result()
    }

    /// Removes files and directories that are unreachable both on disk and in the cache.
    pub(super) fn sweep(&mut self) {
        let known: BTreeSet<TreeEntry> = self
            .live
            .all_entries()
            .chain(self.durable.all_entries())
            .chain(self.pending.iter().map(|pending| pending.change.entry()))
            .chain(self.open.keys().map(|file| TreeEntry::File(*file)))
            .collect();
        self.files.retain(|file, _| known.contains(&TreeEntry::File(*file)));
        self.live.retain_dirs(|dir| known.contains(&TreeEntry::Dir(dir)));
        self.durable.retain_dirs(|dir| known.contains(&TreeEntry::Dir(dir)));
    }
}

/// Splits off the pending changes that a sync of `dir` makes durable: those of its entries, and the earlier changes in
/// other directories that those depend on.
fn split(pending: Vec<PendingChange>, dir: u64) -> (Vec<PendingChange>, Vec<PendingChange>) {
    let mut dirs = BTreeSet::from([dir]);
    let (mut concerned, mut others) = (Vec::new(), Vec::new());
    for pending in pending.into_iter().rev() {
        if pending.change.dirs().any(|dir| dirs.contains(&dir)) {
            dirs.extend(pending.change.dirs());
            concerned.push(pending);
        } else {
            others.push(pending);
        }
    }
    concerned.reverse();
    others.reverse();
    (concerned, others)
}
