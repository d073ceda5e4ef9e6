//! Identification of the store that a handle belongs to.

use std::sync::Arc;

use crate::batch::Batch;
use crate::cursor::Cursor;
use crate::db::Db;
use crate::inner::{ColumnFamily, Inner};
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::transaction::{Transaction, TransactionCursor};

/// Identifies one open store of this process: equal for all handles of one store, different for handles of different
/// stores. It is unique only while one of the store's handles exists; afterwards another store may get the same value.
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// let (one, other) = (waxseal::Db::memory()?, waxseal::Db::memory()?);
/// assert_eq!(one.store(), one.column_family("default")?.store());
/// assert_ne!(one.store(), other.store());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StoreId(usize);

impl StoreId {
    fn of(inner: &Arc<Inner>) -> StoreId {
        StoreId(Arc::as_ptr(inner).addr())
    }
}

macro_rules! of_a_store {
    ($($handle:ty),*) => {$(
        impl $handle {
            /// Returns the identifier of the store that this handle belongs to.
            pub fn store(&self) -> StoreId {
                StoreId::of(&self.inner)
            }
        }
    )*};
}
of_a_store!(Db, ColumnFamily, Snapshot, Session, Batch, Cursor);

macro_rules! of_a_transaction {
    ($($handle:ty),*) => {$(
        impl $handle {
            /// Returns the identifier of the store that this handle belongs to.
            pub fn store(&self) -> StoreId {
                StoreId::of(self.inner())
            }
        }
    )*};
}
of_a_transaction!(Transaction, TransactionCursor);
