//! Point reads: answered in the task if all data is in memory, otherwise in a lane.

use tokio::task::coop::consume_budget;
use waxseal_lsm::db::At;
use waxseal_lsm::error::Result;
use waxseal_lsm::record::Record;

use super::AsyncShared;
use crate::inner::ColumnFamily;
use crate::sealed::Sealed;
use crate::slice::Slice;
use crate::snapshot::Snapshot;

/// Lookups of more keys than this always run in a lane, even if all values are in memory.
const KEYS_AT_ONCE: usize = 64;

/// Returns the read position: the snapshot, or the latest state.
fn at<'a>(cf: &ColumnFamily, snapshot: Option<&'a Snapshot>) -> Result<At<'a>> {
    snapshot.map_or(Ok(At::Latest), |snapshot| snapshot.of(cf).map(At::Snapshot))
}

impl AsyncShared {
    /// Applies `take` to the record of a key and returns the result.
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

    /// Returns the value of a key with its seal.
    pub(super) async fn read_sealed(
        &self,
        cf: &ColumnFamily,
        snapshot: Option<&Snapshot>,
        key: &[u8],
    ) -> Result<Option<Sealed>> {
        consume_budget().await;
        let protector = cf.inner.protector()?;
        let take = |record: &Record<'_>| Sealed::of(record, protector);
        if let Some(answer) = cf.inner.read_resident(cf, key, at(cf, snapshot)?, take)? {
            return answer.transpose().map_err(|error| error.in_family(cf.name(), Some((key, key))));
        }
        let (cf, snapshot, key) = (cf.clone(), snapshot.cloned(), key.to_vec());
        self.lanes.read.run(move || cf.inner.read_sealed(&cf, &key, at(&cf, snapshot.as_ref())?)).await
    }

    /// Returns the values of many keys, all read at the same sequence number.
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

    /// Runs a closure in the read lane.
    pub(super) async fn look<T: Send + 'static>(&self, look: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        self.checked()?;
        self.lanes.read.run(look).await
    }
}
