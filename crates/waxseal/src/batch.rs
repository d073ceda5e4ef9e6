//! Writes: one at a time, or many that commit together.
//!
//! A single put is a batch of one. Its buffer is the thread's own and used again, so that a put allocates nothing here.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use waxseal_lsm::batch::Batch as Operations;
use waxseal_lsm::db::Family;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::options::Durability;
use waxseal_lsm::record::Kind;

use crate::db::Inner;
use crate::family::ColumnFamily;

/// Largest buffer that a thread keeps between puts, in bytes.
const KEPT_BYTES: usize = 64 * 1024;

thread_local! {
    static SPARE: Cell<Option<Operations>> = const { Cell::new(None) };
}

/// How one write is done. The default is the store's durability.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    durability: Option<Durability>,
}

impl WriteOptions {
    /// The store's defaults.
    pub fn new() -> WriteOptions {
        WriteOptions::default()
    }

    /// When the write, once it has returned, can still be lost.
    pub fn durability(mut self, durability: Durability) -> WriteOptions {
        self.durability = Some(durability);
        self
    }
}

impl From<Durability> for WriteOptions {
    fn from(durability: Durability) -> WriteOptions {
        WriteOptions::new().durability(durability)
    }
}

/// Commits one operation.
pub(crate) fn write_one(
    inner: &Inner,
    family: &Family,
    kind: Kind,
    key: &[u8],
    value: &[u8],
    options: WriteOptions,
) -> Result<()> {
    inner.check(family)?;
    let durability = options.durability.unwrap_or(inner.engine.settings().durability);
    // Taken, not borrowed: a listener that writes from inside the commit finds none and makes its own.
    let mut operations = SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default();
    let outcome = operations
        .push(family.id(), kind, key, value, inner.engine.companions())
        .and_then(|()| inner.engine.commit(&mut operations, durability));
    if operations.encoded_bytes() <= KEPT_BYTES {
        operations.clear();
        let _ = SPARE.try_with(|spare| spare.set(Some(operations))); // the thread may be ending
    }
    outcome.map(|_| ())
}

/// Writes to any column families of one store that commit together: after a crash all of them are there, or none.
///
/// A write that is refused (a key too long, a family of another store) is remembered: `commit` answers its error, and nothing
/// of the batch happens. Later writes to one key win over earlier ones. Dropping a batch forgets it.
///
/// ```
/// # fn main() -> waxseal::Result<()> {
/// # let db = waxseal::Db::memory()?;
/// use waxseal::Durability;
///
/// let (names, ages) = (db.column_family("names")?, db.column_family("ages")?);
/// let mut batch = db.batch();
/// batch.put(&names, "1", "Ada");
/// batch.put(&ages, "1", "36");
/// batch.delete(&ages, "2");
/// batch.commit(Durability::Sync)?;
/// assert_eq!(names.get("1")?.unwrap(), "Ada");
/// # Ok(())
/// # }
/// ```
pub struct Batch {
    inner: Arc<Inner>,
    operations: Operations,
    /// The families it writes to.
    families: Vec<Family>,
    /// Why the batch cannot commit.
    fault: Option<Error>,
}

impl Batch {
    pub(crate) fn new(inner: &Arc<Inner>) -> Batch {
        Batch { inner: Arc::clone(inner), operations: Operations::new(), families: Vec::new(), fault: None }
    }

    /// Sets a key to a value.
    pub fn put(&mut self, cf: &ColumnFamily, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Batch {
        self.push(cf, Kind::Put, key.as_ref(), value.as_ref())
    }

    /// Removes a key.
    pub fn delete(&mut self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> &mut Batch {
        self.push(cf, Kind::Delete, key.as_ref(), &[])
    }

    /// Makes all writes of the batch visible at once and empties it for use again. On an error it keeps them, and nothing has
    /// happened unless the error says otherwise.
    pub fn commit(&mut self, durability: Durability) -> Result<()> {
        self.inner.check_writable()?;
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        self.families.iter().try_for_each(|family| self.inner.check(family))?;
        if !self.operations.is_empty() {
            self.inner.engine.commit(&mut self.operations, durability)?;
            self.clear();
        }
        Ok(())
    }

    /// Forgets all writes, and a refused one.
    pub fn clear(&mut self) {
        self.operations.clear();
        self.families.clear();
        self.fault = None;
    }

    /// Number of writes.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// True without writes.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// About how many bytes the commit will take in the log.
    pub fn bytes(&self) -> usize {
        self.operations.encoded_bytes()
    }

    fn push(&mut self, cf: &ColumnFamily, kind: Kind, key: &[u8], value: &[u8]) -> &mut Batch {
        if self.fault.is_none() {
            self.fault = self.try_push(cf, kind, key, value).err();
        }
        self
    }

    fn try_push(&mut self, cf: &ColumnFamily, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        if !Arc::ptr_eq(&self.inner, &cf.inner) {
            return Err(Error::invalid(format!(
                "column family {:?} belongs to another store than the batch",
                cf.name()
            )));
        }
        self.operations.push(cf.family.id(), kind, key, value, self.inner.engine.companions())?;
        if !self.families.contains(&cf.family) {
            self.families.push(cf.family.clone());
        }
        Ok(())
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("len", &self.len()).field("fault", &self.fault).finish_non_exhaustive()
    }
}
