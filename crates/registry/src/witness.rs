//! The witness: the callbacks of the engine into registry and log, from before the store is open until it is closed.
//!
//! ```text
//! emit         a stamped record is flushed -> the row of its event, in the same edit
//! line         a job is done -> a line of the event log, in the edit that makes its result valid
//! rows         lines leave the manifest -> rows of their kept events, and tombstones of obsolete rows (`retention`)
//! quarantined  a quarantine or lost range begins or ends -> its row, in the same edit
//! ```
//!
//! Holds: callbacks never wait, and take no lock that a commit holds. Every time that they encounter is passed to the
//! clock, so that times after a restart continue behind the last one, wherever it is stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use waxseal_lsm::env;
use waxseal_lsm::error::Result;
use waxseal_lsm::planted;
use waxseal_lsm::record::{Kind, Record};
use waxseal_lsm::seam::{
    Companions, Emitted, Emitting, EngineLog, EventRetention, EventStore, Lookup, PendingWrite, Quarantine, Work,
};
use waxseal_meta::builtin::{Expiry, standard};
use waxseal_meta::provider::EXPIRY;
use waxseal_meta::stamp::Stamp;
use waxseal_meta::{Emitter, Sealer};

use crate::clock::{EventClock, Time};
use crate::emission::{Done, expires, put_event};
use crate::engine_log::EngineLine;
use crate::event::Event;
use crate::families::{LOG_ID, QUARANTINE_ID, SESSIONS_ID};
use crate::quarantine::QuarantineRow;
use crate::retention::RetentionCache;
use crate::sessions::{Identity, Session, Sessions, session_key};

/// Initial capacity: enough for a row with a short key and without a value.
const USUAL_ROW_BYTES: usize = 128;

/// After this many consecutive failures to read a session's row, a flush treats the session as unknown. Flushes must
/// not fail forever, because writers stop when flushes do.
const PATIENCE: u32 = 64;

/// Clock and sessions of one store, and the engine's callbacks.
#[derive(Debug)]
pub(crate) struct Witness {
    pub(crate) clock: EventClock,
    pub(crate) sessions: Sessions,
    /// Seals rows that have an expiry.
    sealer: Sealer,
    /// Consecutive failures of flushes to read a session's row.
    refusals: AtomicU32,
    /// Retention of the engine's own events.
    keeping: RetentionCache,
}

impl Witness {
    pub(crate) fn new(wall: Arc<dyn env::Clock>) -> Witness {
        let sealer = Sealer::new().with(standard());
        let (clock, sessions, refusals) = (EventClock::new(wall), Sessions::default(), AtomicU32::new(0));
        Witness { clock, sessions, sealer, refusals, keeping: RetentionCache::default() }
    }

    /// Makes later times follow this one. A time that no clock produced is ignored: damage must not stop the clock.
    pub(crate) fn meet(&self, time: Time) {
        planted!(ClockForgetsRestart => return);
        let _ = self.clock.observe(time);
    }

    /// Returns the session with a number: a loaded one, or one whose row `find` reads. If the row is missing or
    /// damaged, returns an unknown session, so that nothing is blocked. Errors: those of `find` except damage.
    pub(crate) fn session(
        &self,
        id: u64,
        find: impl FnOnce(&[u8], &mut dyn FnMut(&[u8])) -> Result<bool>,
    ) -> Result<Session> {
        if let Some(session) = self.sessions.get(id) {
            return Ok(session);
        }
        let mut identity = None;
        let found = find(&session_key(id), &mut |value| identity = Some(Identity::read(value)));
        match (found, identity) {
            (Ok(_), Some(Ok(identity))) => self.sessions.load(id, identity),
            (Err(error), _) if planted!(DamagedSessionStopsFlush, true, !error.is_corruption()) => Err(error),
            _ => Ok(Session::unknown(id)),
        }
    }
}

impl Witness {
    /// Returns the session of a record that is flushed.
    fn flushed(&self, id: u64, lookup: &dyn Lookup) -> Result<Session> {
        if let Some(session) = self.sessions.get(id) {
            return Ok(session);
        }
        match self.session(id, |key, visit| lookup.get(SESSIONS_ID, key, visit)) {
            Err(error) if planted!(DamagedSessionStopsFlush, true, self.refusals.load(Relaxed) < PATIENCE) => {
                self.refusals.fetch_add(1, Relaxed);
                Err(error)
            }
            Err(_) => Ok(Session::unknown(id)),
            Ok(session) => {
                // A loaded session, or one without a row, says nothing about the device.
                if self.sessions.get(id).is_some() {
                    self.refusals.store(0, Relaxed);
                }
                Ok(session)
            }
        }
    }

    /// Returns the row of an event for a manifest edit. For a row without an expiry, the engine adds the metadata.
    pub(crate) fn row(&self, event: &Event, expires: Option<u64>) -> Result<Emitted> {
        let (key, value) = event.encode()?;
        self.ending(Emitted::new(LOG_ID, event.key.seqno, &key, &value), expires)
    }

    /// Adds the expiry, if any, to a row.
    fn ending(&self, mut row: Emitted, expires: Option<u64>) -> Result<Emitted> {
        if let Some(micros) = expires {
            let (entries, mut companion) = (Expiry::at(micros), Vec::new());
            let entries: [(u16, &[u8]); 1] = [(EXPIRY, &entries)];
            let (key, value, kind, key_hash) = (row.key(), row.value(), Kind::Put, None);
            let pending = PendingWrite { family: LOG_ID, kind, key, value, key_hash, entries: &entries };
            self.sealer.on_write(&pending, &mut companion)?;
            self.sealer.bind(&mut companion, None, row.seqno);
            row.accompany(&companion);
        }
        Ok(row)
    }
}

impl Emitter for Witness {
    fn emit(&self, family: &Emitting<'_>, record: &Record<'_>, stamp: &Stamp, rows: &mut Vec<Emitted>) -> Result<()> {
        let who = self.flushed(stamp.session, family.lookup)?;
        let mut bytes = Vec::with_capacity(USUAL_ROW_BYTES);
        let key_end = put_event(&Done::of(family.name, record), stamp, &who, None, &mut bytes)?;
        let row = Emitted::joined(LOG_ID, record.seqno, bytes, key_end);
        rows.push(self.ending(row, expires(Time(stamp.time), stamp.retention))?);
        Ok(())
    }

    fn observe(&self, stamp: &Stamp) {
        self.meet(Time(stamp.time));
        self.sessions.met(stamp.session);
    }
}

impl EngineLog for Witness {
    fn resumes(&self, lines: &mut dyn Iterator<Item = &[u8]>) {
        lines.filter_map(|line| EngineLine::decode(line).ok()).for_each(|line| self.meet(line.time));
    }

    fn line(&self, work: &Work<'_>) -> Option<Vec<u8>> {
        EngineLine::of(work, self.clock.now()).encode().ok()
    }

    fn outdated(&self, lines: &mut dyn Iterator<Item = (u64, &[u8])>, retention: &EventRetention, now: u64) -> usize {
        self.keeping.outdated(lines, retention, now)
    }

    fn rows(&self, lines: &[(u64, Arc<[u8]>)], store: &dyn EventStore) -> Vec<Emitted> {
        self.keeping.rows(lines, store)
    }

    fn quarantined(&self, quarantine: &Quarantine<'_>) -> Option<Emitted> {
        let (key, value) = QuarantineRow::of(quarantine, self.clock.now()).encode().ok()?;
        Some(Emitted::new(QUARANTINE_ID, quarantine.seqno, &key, &value))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use waxseal_lsm::env::SystemClock;
    use waxseal_lsm::error::Error;

    use super::*;

    /// A device that has only the row of session 7, and can be made to fail.
    struct Device {
        gives: AtomicBool,
    }

    impl Lookup for Device {
        fn get(&self, _: u32, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
            if key != session_key(7) {
                return Ok(false);
            }
            if !self.gives.load(Relaxed) {
                return Err(Error::io("reading a block", std::io::ErrorKind::TimedOut.into()));
            }
            visit(b"\x01\x05alice");
            Ok(true)
        }
    }

    #[test]
    fn a_session_whose_row_is_never_read_stops_flushes_for_a_while_only() {
        let witness = Witness::new(Arc::new(SystemClock::new()));
        witness.sessions.load(3, Identity::named("bob")).unwrap();
        let device = Device { gives: AtomicBool::new(false) };
        let name = |id| witness.flushed(id, &device).map(|session| session.name().to_owned());
        for _ in 0..PATIENCE {
            assert_eq!(name(3).unwrap(), "bob");
            assert_eq!(name(5).unwrap(), "unknown session 5");
            name(7).unwrap_err();
        }
        assert_eq!(name(7).unwrap(), "unknown session 7");
        device.gives.store(true, Relaxed);
        assert_eq!(name(7).unwrap(), "alice", "she was not forgotten");
        assert_eq!(witness.refusals.load(Relaxed), 0);
    }
}
