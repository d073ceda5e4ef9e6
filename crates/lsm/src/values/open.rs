//! The value files of a store that are open, bounded: a descriptor of each for as long as it lives would leave the process none.
//!
//! In:    files that were opened, each told of once. Out: others are closed, those that nobody asked since their turn came last.
//! Holds: one that is closed is opened again by whoever asks it next; its name stays until its last holder lets go of it (I06).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

use super::shelf::ValueFile;
use crate::env::work::lock;

/// The value files of a store that are open.
#[derive(Debug)]
pub struct OpenValues {
    most: usize,
    /// In the order of their turns; some are gone.
    files: Mutex<VecDeque<Weak<ValueFile>>>,
}

impl OpenValues {
    /// At most so many, and at least one; those that threads read at this moment may come on top.
    pub fn bounded(most: usize) -> Arc<OpenValues> {
        Arc::new(OpenValues { most: most.max(1), files: Mutex::default() })
    }

    /// How many may be open.
    pub fn most(&self) -> usize {
        self.most
    }

    /// How many are open, or were when they were last looked through.
    pub fn now(&self) -> usize {
        lock(&self.files).len()
    }

    /// Counts a file that was opened, and closes others if there are too many.
    pub(super) fn opened(&self, file: &Arc<ValueFile>) {
        let (mut met, mut closed) = (Vec::new(), Vec::new()); // let go of behind the lock: it may be for the last time
        let mut files = lock(&self.files);
        if files.len() == files.capacity() {
            files.retain(|file| file.strong_count() > 0);
        }
        files.push_back(Arc::downgrade(file));
        // Who was asked gets one more turn, so that twice around is enough.
        for _ in 0..2 * files.len() {
            if files.len() <= self.most {
                break;
            }
            let Some(first) = files.pop_front() else { break };
            let Some(file) = first.upgrade() else { continue };
            if file.was_asked() {
                files.push_back(first);
            } else {
                closed.push(file.close());
            }
            met.push(file);
        }
        drop(files);
    }
}
