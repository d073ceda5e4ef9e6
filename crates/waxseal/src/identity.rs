//! Which store a handle belongs to.

use std::sync::Arc;

use crate::batch::Batch;
use crate::cursor::Cursor;
use crate::db::{Db, Inner};
use crate::family::ColumnFamily;
use crate::session::Session;
use crate::snapshot::Snapshot;

/// One open store of this process: the same for all handles of one store, and as long as one of them lives for no other's. After that
/// it may stand for another store.
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
            /// The store that it belongs to.
            pub fn store(&self) -> StoreId {
                StoreId::of(&self.inner)
            }
        }
    )*};
}
of_a_store!(Db, ColumnFamily, Snapshot, Session, Batch, Cursor);
