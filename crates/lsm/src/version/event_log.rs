//! Event log entries: actions of the engine, kept in the manifest until they become rows of a family.
//!
//! Each entry has a number, the previous one plus one, never reused. Entries are appended at the end and removed from
//! the front. States share them in runs: an edit copies a few dozen pointers, however many entries there are.
//! `EventLines` is a value, a part of each manifest state; the owner of the value that readers see is `db`'s
//! `EventLog`.

use std::sync::Arc;

/// Number of entries that states share as one run.
const RUN: usize = 64;

/// One entry, with its number.
pub type EventLine = (u64, Arc<[u8]>);

/// The entries that the manifest still holds, oldest first.
#[derive(Clone, Debug, Default)]
pub struct EventLines {
    runs: Vec<Arc<Vec<EventLine>>>,
    /// The highest number ever assigned; 0 if there was none.
    last: u64,
}

impl EventLines {
    /// Adds an entry. Returns false if its number was already assigned.
    pub fn add(&mut self, number: u64, bytes: Arc<[u8]>) -> bool {
        if number <= self.last {
            return false;
        }
        self.last = number;
        match self.runs.last_mut() {
            Some(run) if run.len() < RUN => Arc::make_mut(run).push((number, bytes)),
            _ => self.runs.push(Arc::new(vec![(number, bytes)])),
        }
        true
    }

    /// Removes the entries up to a number, and marks that number as assigned.
    pub fn take_out(&mut self, through: u64) {
        self.last = self.last.max(through);
        let gone = self.runs.partition_point(|run| run.last().is_none_or(|(number, _)| *number <= through));
        self.runs.drain(..gone);
        if let Some(first) =
            self.runs.first_mut().filter(|run| run.first().is_some_and(|(number, _)| *number <= through))
        {
            Arc::make_mut(first).retain(|(number, _)| *number > through);
        }
    }

    /// Returns the entries, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &EventLine> {
        self.runs.iter().flat_map(|run| run.iter())
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.runs.iter().map(|run| run.len()).sum()
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the highest number ever assigned; 0 if there was none.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Returns the highest number of a removed entry, as far as it can be determined; 0 if there was none.
    pub fn taken_out(&self) -> u64 {
        self.iter().next().map_or(self.last, |(number, _)| number - 1)
    }
}

impl PartialEq for EventLines {
    fn eq(&self, other: &EventLines) -> bool {
        self.last == other.last && self.iter().eq(other.iter())
    }
}

impl Eq for EventLines {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        /// Agrees with a map; and a state copied earlier is unchanged.
        #[test]
        fn lines_come_at_the_end_and_go_from_the_front(steps in vec((0u64..4, 0u64..90, any::<u8>()), 0..200)) {
            let (mut lines, mut last) = (EventLines::default(), 0u64);
            let mut model = std::collections::BTreeMap::new();
            for (what, n, byte) in steps {
                let (before, held) = (lines.clone(), model.clone());
                match what {
                    0 => {
                        let through = (last + 30).saturating_sub(n);
                        lines.take_out(through);
                        last = last.max(through);
                        model.retain(|number, _| *number > through);
                    }
                    _ => {
                        let number = last + n % 3;
                        let bytes: Arc<[u8]> = [byte].as_slice().into();
                        prop_assert_eq!(lines.add(number, bytes.clone()), number > last);
                        if number > last {
                            model.insert(number, bytes);
                            last = number;
                        }
                    }
                }
                prop_assert!(lines.iter().cloned().eq(model.clone()));
                prop_assert_eq!((lines.len(), lines.last(), lines.is_empty()), (model.len(), last, model.is_empty()));
                prop_assert!(lines.taken_out() <= last && lines.iter().all(|(number, _)| *number > lines.taken_out()));
                prop_assert!(before.iter().cloned().eq(held));
            }
        }
    }
}
