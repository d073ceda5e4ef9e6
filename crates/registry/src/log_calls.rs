//! Calls of the registrar on events: queries, additions, changes and deletion, provenance and lineage.

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::db::{At, Family};
use waxseal_lsm::env::work::lock;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::read::CursorBounds;
use waxseal_lsm::record::Seqno;

use crate::clock::Time;
use crate::emission::{event_at, retention_of};
use crate::event::Event;
use crate::event_versions::{self, EventChange, EventCounts, EventVersion};
use crate::key::Query;
use crate::log::{LogReader, Page, Paging};
use crate::operation::Operation;
use crate::payload::Payload;
use crate::pending::Making;
use crate::provenance::{self, Explanation, Lineage, Provenance};
use crate::registrar::Registrar;
use crate::rights::allowed;
use crate::sessions::Session;
use crate::target::Target;

impl Registrar {
    /// Returns all events of a target itself, ordered by operation and then by time.
    pub fn query_all(
        &self,
        target: &Target,
        operation: Option<Operation>,
        who: Option<&Session>,
    ) -> Result<Vec<Event>> {
        let query = Query { operation, ..Query::of(target.clone()) };
        self.log_query(&query, &Paging::ALL, At::Latest, who).map(|page| page.events)
    }

    /// Returns the latest event of a target itself, for one operation or any.
    pub fn query_latest(
        &self,
        target: &Target,
        operation: Option<Operation>,
        who: Option<&Session>,
    ) -> Result<Option<Event>> {
        self.log_latest(&Query { operation, ..Query::of(target.clone()) }, At::Latest, who)
    }

    /// Returns the events of a query, one page at a time. Events of mode async are included once they are written
    /// (`drain`). Errors: `Invalid` for a malformed target, a page position of another query, or a session without
    /// authorization.
    pub fn log_query(&self, query: &Query, paging: &Paging, at: At<'_>, who: Option<&Session>) -> Result<Page> {
        self.may_read(who, &query.target)?;
        self.reading(at, |reading| reading.page_of_query(query, paging))
    }

    /// Returns the latest event of a query. Targets below the query's own are not searched.
    pub fn log_latest(&self, query: &Query, at: At<'_>, who: Option<&Session>) -> Result<Option<Event>> {
        self.may_read(who, &query.target)?;
        self.reading(at, |reading| reading.latest(query))
    }

    /// Adds an event in its own commit, whatever the mode. `time`: `None` means now. Returns the seqno of that commit.
    /// Errors: `Invalid` if the pair is not registered, or if the session is not authorized.
    pub fn log_add(
        &self,
        target: &Target,
        operation: Operation,
        time: Option<Time>,
        payload: Payload,
        who: Option<&Session>,
    ) -> Result<Seqno> {
        let (hooks, who) = (&self.shared.hooks, who.unwrap_or(&Session::ANONYMOUS));
        target.check()?;
        let snapshot = hooks.matching.load();
        let Some(watching) = snapshot.find(target, operation) else {
            let named = self.operations().name(operation);
            return Err(Error::invalid(format!("{named} of {} is not registered", self.text(target))));
        };
        allowed(self.shared.authorizer.can_add_to_log(who, target, operation), who, "add events to", target)?;
        let make = |now: Time| event_at(time.unwrap_or(now), watching, (target, operation), payload.clone(), Some(who));
        make(Time::FIRST).encode()?;
        let retention = retention_of(watching);
        hooks.add(hooks.db.durability(), retention, make)
    }

    /// Deletes the current events of a query and returns their number. Engine events that are not rows yet stay.
    /// Memtables with matching events are flushed first. Errors: `Invalid` for a session without authorization.
    pub fn log_delete(&self, query: &Query, who: Option<&Session>) -> Result<u64> {
        self.may_delete(who, &query.target)?;
        self.drain()?;
        let _rows = lock(&self.shared.hooks.log_rows);
        let durability = self.shared.hooks.db.durability();
        self.reading(At::Latest, |reading| reading.delete(query, durability))
    }

    /// Passes all versions of the events of a target and below it to `visit`, until that returns false: also older
    /// versions that a snapshot sees or that no compaction has removed yet, and expired events. Events that are not rows
    /// yet are left out. Errors: `Invalid` for a session without authorization; `Corruption`; those of `visit`.
    pub fn event_versions(
        &self,
        target: &Target,
        who: Option<&Session>,
        visit: &mut dyn FnMut(EventVersion) -> Result<bool>,
    ) -> Result<()> {
        self.may_read(who, target)?;
        event_versions::each_version(&self.shared.hooks.db, target, visit)
    }

    /// Changes and removes events of a target and below it, as `judge` decides. Waits for events of mode async, and
    /// flushes. An event keeps its key and its expiry. Each commit adds an event `Registry.Rewrite` to the target, which
    /// is never changed itself. Errors: `Invalid` for a session that may not delete these events; `Corruption`; those of
    /// `judge`. Events that were changed before an error stay changed.
    pub fn rewrite_events(
        &self,
        target: &Target,
        who: Option<&Session>,
        judge: &dyn Fn(&Event) -> Result<EventChange>,
    ) -> Result<EventCounts> {
        self.may_delete(who, target)?;
        self.drain()?;
        let hooks = &self.shared.hooks;
        hooks.db.flush()?;
        event_versions::rewrite(hooks, target, judge, who)
    }

    /// Compacts the part of the log that has the events of a target and below it: older versions go, and so do removed
    /// events, unless a snapshot sees them. Errors: `Invalid` for a session that may not delete these events.
    pub fn compact_events(&self, target: &Target, who: Option<&Session>) -> Result<()> {
        self.may_delete(who, target)?;
        event_versions::compact(&self.shared.hooks.db, target)
    }

    /// Returns the provenance of a key: the registrations that cover it, and all its events, oldest first.
    pub fn provenance(&self, family: &Family, key: &[u8], who: Option<&Session>) -> Result<Provenance> {
        let target = Target::key(family.name(), key);
        self.may_read(who, &target)?;
        let snapshot = self.shared.hooks.matching.load();
        self.reading(At::Latest, |reading| provenance::provenance(reading, &snapshot, target))
    }

    /// Returns the events of a family's keys within bounds of its order, one page at a time, in log order.
    pub fn query_range(
        &self,
        family: &Family,
        bounds: &CursorBounds,
        paging: &Paging,
        at: At<'_>,
        who: Option<&Session>,
    ) -> Result<Page> {
        self.may_read(who, &Target::family(family.name()))?;
        self.reading(at, |reading| reading.page_of_range(family, bounds, paging))
    }

    /// Explains a key: value, verdict, writer and time, events, location and lineage.
    pub fn explain(&self, family: &Family, key: &[u8], who: Option<&Session>) -> Result<Explanation> {
        self.may_read(who, &Target::key(family.name(), key))?;
        let db = &self.shared.hooks.db;
        let session = |id| self.shared.session(id);
        self.reading(At::Latest, |reading| provenance::explain(db, reading, (family, key), &session))
    }

    /// Returns the lineage of a table file: the job that wrote the file, that job's input files, their jobs, and so on.
    pub fn lineage(&self, file: Uid, who: Option<&Session>) -> Result<Lineage> {
        self.may_read(who, &Target::TableFile(file))?;
        self.reading(At::Latest, |reading| provenance::lineage(reading, file))
    }

    fn may_delete(&self, who: Option<&Session>, target: &Target) -> Result<()> {
        let who = who.unwrap_or(&Session::ANONYMOUS);
        target.check()?;
        allowed(self.shared.authorizer.can_delete_log(who, target), who, "delete events of", target)
    }

    fn may_read(&self, who: Option<&Session>, target: &Target) -> Result<()> {
        let who = who.unwrap_or(&Session::ANONYMOUS);
        target.check()?;
        allowed(self.shared.authorizer.can_read_log(who, target), who, "read the events of", target)
    }

    fn reading<T>(&self, at: At<'_>, read: impl FnOnce(&LogReader<'_>) -> Result<T>) -> Result<T> {
        let session = |id| self.shared.session(id);
        let making = Making { session: &session, now: self.shared.clock.wall_micros() };
        read(&LogReader::new(&self.shared.hooks.db, at, making)?)
    }
}
