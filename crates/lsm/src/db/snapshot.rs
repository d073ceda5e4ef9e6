//! Snapshots: a seqno and a time, and the promise that what they see is not dropped (I08).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use arc_swap::{ArcSwapOption, Guard};

use super::family::{Family, View};
use crate::env::work::lock;
use crate::error::{Error, Result};
use crate::expiry::ExpiryClock;
use crate::planted::{Bug, active};
use crate::record::Seqno;

/// The live snapshots of a store, counted by seqno and time.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    live: Mutex<BTreeMap<Moment, usize>>,
    /// Those that hold views, so that closing the store takes the views back.
    holding: Mutex<Holding>,
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

/// What a job must keep for the live snapshots, and for those to come.
pub(crate) struct Horizon {
    /// The live seqnos, ascending: what must be kept apart.
    pub(crate) boundaries: Vec<Seqno>,
    /// No snapshot, live or to come, sees a record that expires by this time. Microseconds since 1970.
    pub(crate) expired: u64,
}

impl Snapshots {
    /// Registers a snapshot at the seqno that `now` gives, asked for under the lock. A job that lists the live snapshots
    /// either sees this one, or merges only records that are not above it: tables hold nothing above the seqno that is
    /// visible and durable (I15), so the newest version it keeps is the one that this snapshot sees. The same holds for its time:
    /// such a job keeps what had not expired by then, or the clock is not behind the time by which the job judges.
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

    /// Takes the views back from all snapshots that hold any: the store is closed.
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

    /// The live seqnos, ascending: what a job must keep apart.
    pub(crate) fn boundaries(&self) -> Vec<Seqno> {
        boundaries(&lock(&self.live))
    }

    /// What a job that drops expired records must keep.
    pub(crate) fn horizon(&self, clock: &ExpiryClock) -> Horizon {
        let live = lock(&self.live);
        Snapshots::horizon_of(&live, clock.settle())
    }

    /// The same for a choice: a job that follows asks for its own.
    pub(crate) fn horizon_now(&self, clock: &ExpiryClock) -> Horizon {
        Snapshots::horizon_of(&lock(&self.live), clock.now())
    }

    fn horizon_of(live: &BTreeMap<Moment, usize>, now: u64) -> Horizon {
        let earliest = live.keys().map(|(_, micros)| *micros).min();
        let earliest = earliest.filter(|_| !active(Bug::SnapshotTimeIgnored));
        Horizon { boundaries: boundaries(live), expired: earliest.map_or(now, |earliest| earliest.min(now)) }
    }

    /// How many snapshots are alive.
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
    /// The view of a family; `None` for one that is younger than the snapshot. Errors: `Closed` once the store is closed.
    pub(crate) fn of(&self, family: &Family) -> Result<Option<&Arc<View>>> {
        Ok(self.0.as_ref().ok_or_else(Error::closed)?.get(&family.id()))
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
    moment: Moment,
    views: Option<HeldViews>,
    snapshots: Arc<Snapshots>,
}

impl Snapshot {
    /// The same snapshot, which holds its views itself; before it is handed out.
    pub(crate) fn holding(mut self, views: Views) -> Snapshot {
        if let Some(pin) = Arc::get_mut(&mut self.pin) {
            pin.views = Some(HeldViews(ArcSwapOption::from_pointee(views)));
        }
        self.pin.snapshots.hold(&self.pin);
        self
    }

    /// The last commit that it sees.
    pub fn seqno(&self) -> Seqno {
        self.pin.moment.0
    }

    /// When it was taken, in microseconds since 1970: it sees no record that had expired by then, and sees every other for good.
    pub fn micros(&self) -> u64 {
        self.pin.moment.1
    }

    /// The views that it holds; `None` if it reads the families' current ones.
    #[inline]
    pub(crate) fn views(&self) -> Option<ViewsGuard> {
        self.pin.views.as_ref().map(|held| ViewsGuard(held.0.load()))
    }

    /// The view in which it reads a family.
    pub(crate) fn view_of(&self, family: &Family) -> Result<Arc<View>> {
        let views = self.views();
        let held = views.as_ref().map_or(Ok(None), |views| views.of(family))?;
        held.map_or_else(|| family.open_view(), |view| Ok(view.clone()))
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
        if let Some(count) = live.get_mut(&self.moment) {
            *count -= 1;
            if *count == 0 {
                live.remove(&self.moment);
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
