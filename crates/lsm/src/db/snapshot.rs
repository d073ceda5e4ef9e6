//! Snapshots: a seqno, and the promise that what it sees is not dropped (I08).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use super::family::View;
use crate::env::work::lock;
use crate::record::Seqno;

/// The live snapshots of a store, counted by seqno.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    live: Mutex<BTreeMap<Seqno, usize>>,
}

impl Snapshots {
    /// Registers a snapshot at the seqno that `now` gives, asked for under the lock. A job that lists the live snapshots
    /// either sees this one, or merges only records that are not above it: tables hold nothing above the seqno that is
    /// visible and durable (I15), so the newest version it keeps is the one that this snapshot sees.
    pub(crate) fn take(self: &Arc<Self>, views: Option<Views>, now: impl FnOnce() -> Seqno) -> Snapshot {
        let mut live = lock(&self.live);
        let seqno = now();
        *live.entry(seqno).or_default() += 1;
        Snapshot { pin: Arc::new(Pin { seqno, views, snapshots: self.clone() }) }
    }

    /// The live seqnos, ascending: what a job must keep apart.
    pub(crate) fn boundaries(&self) -> Vec<Seqno> {
        lock(&self.live).keys().copied().collect()
    }

    /// How many snapshots are alive.
    pub(crate) fn count(&self) -> usize {
        lock(&self.live).values().sum()
    }
}

/// Views by family, held by the snapshots of a read-only store: the writer beside it does not know of them.
pub(crate) type Views = BTreeMap<u32, Arc<View>>;

/// A view of the whole store as it was at one commit. Clones share it; what it sees is kept until the last is dropped.
#[derive(Clone)]
pub struct Snapshot {
    pin: Arc<Pin>,
}

struct Pin {
    seqno: Seqno,
    views: Option<Views>,
    snapshots: Arc<Snapshots>,
}

impl Snapshot {
    /// The same snapshot, which holds its views itself; before it is handed out.
    pub(crate) fn holding(mut self, views: Views) -> Snapshot {
        if let Some(pin) = Arc::get_mut(&mut self.pin) {
            pin.views = Some(views);
        }
        self
    }

    /// The last commit that it sees.
    pub fn seqno(&self) -> Seqno {
        self.pin.seqno
    }

    /// The family's view that it holds, if it holds any.
    pub(crate) fn view(&self, family: u32) -> Option<&Arc<View>> {
        self.pin.views.as_ref()?.get(&family)
    }

    /// True if it was taken from the store that counts its snapshots there.
    pub(crate) fn belongs_to(&self, snapshots: &Arc<Snapshots>) -> bool {
        Arc::ptr_eq(&self.pin.snapshots, snapshots)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({})", self.seqno())
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut live = lock(&self.snapshots.live);
        if let Some(count) = live.get_mut(&self.seqno) {
            *count -= 1;
            if *count == 0 {
                live.remove(&self.seqno);
            }
        }
    }
}

/// Which commits a read sees.
#[derive(Clone, Copy, Debug)]
pub enum At<'a> {
    /// Everything committed before the read began.
    Latest,
    /// What the snapshot sees.
    Snapshot(&'a Snapshot),
}
