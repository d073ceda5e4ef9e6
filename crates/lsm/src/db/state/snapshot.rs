//! Snapshots: a seqno and a time, and the guarantee that the versions visible to them are kept (I08).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use arc_swap::{ArcSwapOption, Guard};

use super::family::{Family, View};
use crate::env::work::lock;
use crate::error::{Error, Result};
use crate::expiry::ExpiryClock;
use crate::planted;
use crate::record::Seqno;

/// The live snapshots of a store, counted by seqno and time.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    live: Mutex<BTreeMap<Moment, usize>>,
    /// Snapshots that hold views, so that closing the store can take the views back.
    holding: Mutex<Holding>,
    /// The time of the last snapshot that was reported as old.
    reported: AtomicU64,
}

#[derive(Default)]
struct Holding {
    is_closed: bool,
    pins: Vec<Weak<Pin>>,
}

impl fmt::Debug for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holding").field("pins", &self.pins.len()).finish_non_exhaustive()
    }
}

/// A seqno, and a time in microseconds since 1970.
type Moment = (Seqno, u64);

/// The records that a job must keep for live and future snapshots.
pub(crate) struct Horizon {
    /// The seqnos of the live snapshots, ascending. A merge keeps the newest version in each interval between them.
    pub(crate) boundaries: Vec<Seqno>,
    /// Records that expire by this time are invisible to every live and future snapshot. Microseconds since 1970.
    pub(crate) expired: u64,
}

impl Snapshots {
    /// Registers a snapshot at the seqno that `now` returns; `now` is called under the lock. A job that lists the live
    /// snapshots either sees this one, or merges only records at or below its seqno. Tables hold no records above the
    /// visible and durable seqno (I15), so the newest version that such a job keeps is the one that this snapshot sees.
    /// The same argument holds for time: the job either keeps all records that had not expired at this snapshot's time,
    /// or the clock has already reached the time that the job uses.
    pub(crate) fn take(
        self: &Arc<Self>,
        clock: &ExpiryClock,
        views: Option<Views>,
        now: impl FnOnce() -> Seqno,
    ) -> Snapshot {
        let mut live = lock(&self.live);
        let moment = (now(), clock.settle());
        *live.entry(moment).or_default() += 1;
        let snapshot = Snapshot { pin: Arc::new(Pin { moment, views: None, snapshots: self.clone() }) };
        drop(live);
        match views {
            Some(views) => snapshot.holding(views),
            None => snapshot,
        }
    }

    /// Takes the views back from all snapshots that hold any, because the store is closed.
    pub(crate) fn close(&self) {
        let mut holding = lock(&self.holding);
        holding.is_closed = true;
        let pins = std::mem::take(&mut holding.pins);
        drop(holding);
        let views = pins.iter().filter_map(Weak::upgrade);
        views.filter_map(|pin| pin.views.as_ref()?.0.swap(None)).for_each(drop);
    }

    fn hold(&self, pin: &Arc<Pin>) {
        let mut holding = lock(&self.holding);
        if holding.is_closed
            && let Some(held) = &pin.views
        {
            held.0.store(None);
        }
        holding.pins.retain(|pin| pin.strong_count() > 0);
        holding.pins.push(Arc::downgrade(pin));
    }

    /// Returns the seqnos of the live snapshots, ascending; a merge keeps the versions between them apart.
    pub(crate) fn boundaries(&self) -> Vec<Seqno> {
        boundaries(&lock(&self.live))
    }

    /// Returns the horizon for a job that drops expired records.
    pub(crate) fn horizon(&self, clock: &ExpiryClock) -> Horizon {
        let live = lock(&self.live);
        Snapshots::horizon_of(&live, clock.settle())
    }

    /// Returns the horizon for choosing a job. The job itself calls `horizon` when it runs.
    pub(crate) fn horizon_now(&self, clock: &ExpiryClock) -> Horizon {
        Snapshots::horizon_of(&lock(&self.live), clock.now())
    }

    fn horizon_of(live: &BTreeMap<Moment, usize>, now: u64) -> Horizon {
        let earliest = live.keys().map(|(_, micros)| *micros).min();
        planted!(SnapshotTimeIgnored => let earliest = None);
        Horizon { boundaries: boundaries(live), expired: earliest.map_or(now, |earliest| earliest.min(now)) }
    }

    /// Returns the time at which the oldest live snapshot was taken, in microseconds since 1970.
    pub(crate) fn oldest(&self) -> Option<u64> {
        lock(&self.live).keys().map(|(_, micros)| *micros).min()
    }

    /// Returns the age in microseconds of the oldest snapshot, once, if it is above `most`.
    pub(crate) fn newly_old(&self, now: u64, most: u64) -> Option<u64> {
        let oldest = self.oldest()?;
        let age = now.saturating_sub(oldest);
        (age > most && self.reported.swap(oldest, Ordering::Relaxed) != oldest).then_some(age)
    }

    /// Returns the number of live snapshots.
    pub(crate) fn count(&self) -> usize {
        lock(&self.live).values().sum()
    }
}

fn boundaries(live: &BTreeMap<Moment, usize>) -> Vec<Seqno> {
    let mut seqnos: Vec<Seqno> = live.keys().map(|(seqno, _)| *seqno).collect();
    seqnos.dedup();
    seqnos
}

/// The views of a snapshot that holds any. Empty once the store is closed.
struct HeldViews(ArcSwapOption<Views>);

/// Keeps a snapshot's views while a read uses them.
pub(crate) struct ViewsGuard(Guard<Option<Arc<Views>>>);

impl ViewsGuard {
    /// Returns the view of a family, or `None` for a family younger than the snapshot. Fails with `Closed` once the
    /// store is closed.
    pub(crate) fn of(&self, family: &Family) -> Result<Option<&Arc<View>>> {
        Ok(self.0.as_ref().ok_or_else(Error::closed)?.get(&family.id()))
    }
}

/// Views by family. Snapshots of a read-only store hold them, because the writing process does not know of these
/// snapshots.
pub(crate) type Views = BTreeMap<u32, Arc<View>>;

/// A snapshot of the whole store as of one commit. Clones share it. The versions it sees are kept until the last clone
/// is dropped.
#[derive(Clone)]
pub struct Snapshot {
    pin: Arc<Pin>,
}

struct Pin {
    moment: Moment,
    views: Option<HeldViews>,
    snapshots: Arc<Snapshots>,
}

impl Snapshot {
    /// Makes the snapshot hold its views itself; called before the snapshot is returned to the caller.
    pub(crate) fn holding(mut self, views: Views) -> Snapshot {
        if let Some(pin) = Arc::get_mut(&mut self.pin) {
            pin.views = Some(HeldViews(ArcSwapOption::from_pointee(views)));
        }
        self.pin.snapshots.hold(&self.pin);
        self
    }

    /// Returns the seqno of the last commit that the snapshot sees.
    pub fn seqno(&self) -> Seqno {
        self.pin.moment.0
    }

    /// Returns the time of the snapshot in microseconds since 1970. Records expired by then are invisible; every other
    /// record stays visible.
    pub fn micros(&self) -> u64 {
        self.pin.moment.1
    }

    /// Returns the views that the snapshot holds, or `None` if it reads the families' current views.
    #[inline]
    pub(crate) fn views(&self) -> Option<ViewsGuard> {
        self.pin.views.as_ref().map(|held| ViewsGuard(held.0.load()))
    }

    /// Returns the view that a read of this family uses.
    pub(crate) fn view_of(&self, family: &Family) -> Result<Arc<View>> {
        let views = self.views();
        let held = views.as_ref().map_or(Ok(None), |views| views.of(family))?;
        held.map_or_else(|| family.readable_view(), |view| Ok(view.clone()))
    }

    /// Returns true if the snapshot was taken from the store with this snapshot list.
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
        if let Some(count) = live.get_mut(&self.moment) {
            *count -= 1;
            if *count == 0 {
                live.remove(&self.moment);
            }
        }
    }
}

/// Selects the commits that a read sees.
#[derive(Clone, Copy, Debug)]
pub enum At<'a> {
    /// Everything committed before the read began.
    Latest,
    /// The commits that the snapshot sees.
    Snapshot(&'a Snapshot),
}
