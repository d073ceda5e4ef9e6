//! Trash: replaced table files, kept for a while under another name, so that a repair can find records that their
//! successors have lost.
//!
//! In:    files that no version names (I06) and no reader uses.
//! Out:   `000012.trash`, the newest ones up to a budget.
//! Crash: files under either name; the next open removes those that still have a table's name, and keeps the others.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;

use crate::env::work::lock;
use crate::env::{Fs, Open};
use crate::names::Name;

/// The replaced tables that are kept.
#[derive(Debug, Default)]
pub(crate) struct Trash {
    budget: u64,
    /// Number and size, oldest first.
    held: Mutex<VecDeque<(u64, u64)>>,
}

impl Trash {
    /// Creates the trash, with the files that an earlier process left.
    pub(super) fn open(budget: u64, fs: &dyn Fs, dir: &Path) -> Trash {
        let trash = Trash { budget, held: Mutex::default() };
        if budget > 0 {
            let names = fs.list(dir).unwrap_or_default();
            let mut numbers: Vec<u64> = names
                .iter()
                .filter_map(|name| match Name::parse(name) {
                    Some(Name::Trash(number)) => Some(number),
                    _ => None,
                })
                .collect();
            numbers.sort_unstable();
            for number in numbers {
                let file = fs.open(&dir.join(Name::Trash(number).to_string()), Open::Read);
                let size = file.and_then(|file| file.len()).unwrap_or(0);
                trash.keep(fs, dir, number, size);
            }
        }
        trash
    }

    /// Takes over an obsolete table file. A file that can be neither renamed nor removed is removed by the next open.
    pub(super) fn take(&self, fs: &dyn Fs, dir: &Path, number: u64, size: u64) {
        let table = dir.join(Name::Table(number).to_string());
        if size > self.budget || fs.rename(&table, &dir.join(Name::Trash(number).to_string())).is_err() {
            let _ = fs.remove(&table);
            return;
        }
        self.keep(fs, dir, number, size);
    }

    /// Removes the oldest file, because the disk is full. Returns true if this freed space.
    pub(super) fn make_room(&self, fs: &dyn Fs, dir: &Path) -> bool {
        let oldest = || lock(&self.held).pop_front();
        let mut files = std::iter::from_fn(oldest).map(|(number, _)| Name::Trash(number).to_string());
        files.any(|name| fs.remove(&dir.join(name)).is_ok())
    }

    fn keep(&self, fs: &dyn Fs, dir: &Path, number: u64, size: u64) {
        let mut held = lock(&self.held);
        held.push_back((number, size));
        let mut bytes: u64 = held.iter().map(|(_, size)| size).sum();
        let mut over = Vec::new();
        while bytes > self.budget
            && let Some((number, size)) = held.pop_front()
        {
            bytes -= size;
            over.push(number);
        }
        drop(held);
        for number in over {
            let _ = fs.remove(&dir.join(Name::Trash(number).to_string()));
        }
    }
}
