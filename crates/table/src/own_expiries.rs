//! The expiries of the records that a transaction has written, which the store shows after the commit only.

use std::collections::HashMap;
use std::sync::Mutex;

use waxseal::env::lock;

use crate::schema_record::TableId;

/// The time at which a record expires, in microseconds since 1970; `None` for a record that stays.
type Expires = Option<u64>;

/// The expiries of the records that a transaction has written. A record that was deleted since keeps its entry: ask for
/// records that the transaction sees.
#[derive(Default)]
pub(crate) struct OwnExpiries(Mutex<State>);

#[derive(Default)]
struct State {
    current: HashMap<RecordKey, Expires>,
    /// The writes since the last savepoint, oldest first, each with the expiry that it has replaced.
    replaced: Vec<(RecordKey, Option<Expires>)>,
}

/// The table and the key of a record.
type RecordKey = (TableId, Vec<u8>);

impl OwnExpiries {
    /// Returns the expiry of a record that the transaction has written; `None` for any other record.
    pub(crate) fn get(&self, table: TableId, key: &[u8]) -> Option<Expires> {
        lock(&self.0).current.get(&(table, key.to_vec())).copied()
    }

    /// Notes a write.
    pub(crate) fn insert(&self, table: TableId, key: &[u8], expires: Expires) {
        let mut state = lock(&self.0);
        let record = (table, key.to_vec());
        let before = state.current.insert(record.clone(), expires);
        state.replaced.push((record, before));
    }

    /// Begins the writes that `rollback_to_savepoint` forgets.
    pub(crate) fn savepoint(&self) {
        lock(&self.0).replaced.clear();
    }

    /// Forgets the writes since the last savepoint.
    pub(crate) fn rollback_to_savepoint(&self) {
        let mut state = lock(&self.0);
        while let Some((record, before)) = state.replaced.pop() {
            match before {
                Some(expires) => state.current.insert(record, expires),
                None => state.current.remove(&record),
            };
        }
    }
}
