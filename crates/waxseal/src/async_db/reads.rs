//! Point reads: from memory in the task itself, else in a lane.

use tokio::task::coop::consume_budget;
use waxseal_lsm::db::At;
use waxseal_lsm::error::Result;
use waxseal_lsm::record::Record;

use super::Shared;
use crate::family::ColumnFamily;
use crate::sealed::Sealed;
use crate::slice::Slice;
use crate::snapshot::Snapshot;

/// More keys than this are not looked up in the task itself, wherever their values are.
const KEYS_AT_ONCE: usize = 64;

/// The moment that a read sees: a snapshot's, or now.
fn at<'a>(cf: &ColumnFamily, snapshot: Option<&'a Snapshot>) -> Result<At<'a>> {
    snapshot.map_or(Ok(At::Latest), |snapshot| snapshot.of(cf).map(At::Snapshot))
}

impl Shared {
    /// What `take` makes of the record of a key.
    pub(super) async fn read<R: Send + 'static>(
        &self,
        cf: &ColumnFamily,
        snapshot: Option<&Snapshot>,
        key: &[u8],
        take: fn(&Record<'_>) -> R,
    ) -> Result<Option<R>> {
        consume_budget().await;
        if let Some(answer) = cf.inner.read_resident(cf, key, at(cf, snapshot)?, take)? {
            return Ok(answer);
        }
        let (cf, snapshot, key) = (cf.clone(), snapshot.cloned(), key.to_vec());
        self.lanes.read.run(move || cf.inner.read(&cf, &key, at(&cf, snapshot.as_ref())?, take)).await
    }

    /// The value of a key with its seal.
    pub(super) async fn read_sealed(
        &self,
        cf: &ColumnFamily,
        snapshot: Option<&Snapshot>,
        key: &[u8],
    ) -> Result<Option<Sealed>> {
        consume_budget().await;
        let keeper = cf.inner.keeper()?;
        let take = |record: &Record<'_>| Sealed::of(record, keeper);
        if let Some(answer) = cf.inner.read_resident(cf, key, at(cf, snapshot)?, take)? {
            return answer.transpose().map_err(|error| error.in_family(cf.name(), Some((key, key))));
        }
        let (cf, snapshot, key) = (cf.clone(), snapshot.cloned(), key.to_vec());
        self.lanes.read.run(move || cf.inner.read_sealed(&cf, &key, at(&cf, snapshot.as_ref())?)).await
    }

    /// The values of many keys at one moment.
    pub(super) async fn read_many<K: AsRef<[u8]>>(
        &self,
        cf: &ColumnFamily,
        snapshot: Option<&Snapshot>,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Slice>>> {
        let keys: Vec<Vec<u8>> = keys.into_iter().map(|key| key.as_ref().to_vec()).collect();
        consume_budget().await;
        if keys.len() <= KEYS_AT_ONCE {
            let lent: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            if let Some(values) = cf.inner.read_many_resident(cf, at(cf, snapshot)?, &lent)? {
                return Ok(values);
            }
        }
        self.checked()?;
        let (cf, snapshot) = (cf.clone(), snapshot.cloned());
        self.lanes.read.run(move || cf.inner.read_many(&cf, at(&cf, snapshot.as_ref())?, keys)).await
    }

    /// Does something in a lane that reads.
    pub(super) async fn look<T: Send + 'static>(&self, look: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        self.checked()?;
        self.lanes.read.run(look).await
    }
}
