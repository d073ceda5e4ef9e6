//! Changes of the registrations, and the commit from which on they apply. docs/format.md, section 9.7.
//!
//! ```text
//! change   serializes changes: builds the next snapshot, and a batch with the row
//! turn     takes the commit gate: no registered commit is running
//! commit   commits the batch, the last one under the old epoch; the new epoch starts with its position
//! publish  publishes the snapshot, before a reader of the new epoch can use the old snapshot
//! ```
//!
//! Holds: an operation ordered after the batch is encoded with the new snapshot, one before it with the old snapshot. A
//!        writer that reads the new epoch but still finds the old snapshot waits for `change`.
//! Crash: the row is in the log of commits at the position where it took effect, and the snapshot is rebuilt from the
//!        existing rows.

use std::ops::Bound::Unbounded;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::checksum::Uid;
use waxseal_lsm::db::{At, Db, Family, Precondition};
use waxseal_lsm::env::work::lock;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::names::is_system_name;
use waxseal_lsm::options::{CfOptions, Durability};
use waxseal_lsm::planted;
use waxseal_lsm::record::Kind;

use crate::emission::{event_at, expires, retention_of};
use crate::families::{LOG_ID, REGISTRY_ID, granted};
use crate::hooks::{Hooks, epoch_of, push_event};
use crate::log::LogReader;
use crate::matching::{RawFamilies, RegistrySnapshot};
use crate::operation::Operation;
use crate::payload::{Field, Payload};
use crate::pending::Making;
use crate::registration::Registration;
use crate::sessions::Session;
use crate::target::{SYSTEM_KEYSPACE, Schema, TableName, Target};

/// Returns the id of an existing family.
fn id_of(db: &Db, name: &str) -> Option<u32> {
    db.family(name).filter(|family| !family.is_dropped()).map(|family| family.id())
}

/// Builds a snapshot of registrations for the existing families.
fn snapshot(db: &Db, version: u64, registrations: Vec<Registration>) -> RegistrySnapshot {
    RegistrySnapshot::build(version, registrations, &RawFamilies(|name: &str| id_of(db, name)))
}

/// Returns true if a table file is part of the store.
fn has_table(db: &Db, uid: Uid) -> Result<bool> {
    for family in db.families() {
        if db.tables(&family)?.iter().any(|table| table.meta().uid == uid) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Refuses a target on which no operation can be logged: a family, table or table file that does not exist, an unknown
/// engine part, or a system family. A row need not exist.
pub(crate) fn check_target(db: &Db, schema: &dyn Schema, target: &Target) -> Result<()> {
    target.check()?;
    let fault = match target {
        Target::Family(name) | Target::Key { family: name, .. } if is_system_name(name) => {
            format!("{name:?} is a family of the store's own: what happens to it is not logged")
        }
        Target::Family(name) | Target::Key { family: name, .. } if db.family(name).is_none() => {
            format!("there is no family {name:?}")
        }
        Target::Keyspace(name) | Target::Table(TableName { keyspace: name, .. }) if name == SYSTEM_KEYSPACE => {
            format!("{name:?} is the store's own: what happens to it is not logged")
        }
        Target::Engine(part) if !Operation::parts().contains(part.as_str()) => {
            let parts: Vec<_> = Operation::parts().into_iter().collect();
            format!("the engine has no part {part:?}; its parts are {}", parts.join(", "))
        }
        Target::TableFile(uid) if !has_table(db, *uid)? => {
            format!("there is no table file {uid:?}: table files are made once, and never again")
        }
        Target::Keyspace(name) if !schema.is_keyspace(name) => {
            format!("there is no keyspace {name:?} whose operations could be logged")
        }
        Target::Table(table)
        | Target::Partition { table, .. }
        | Target::Row { table, .. }
        | Target::Column { table, .. }
            if schema.shape(table).is_none() =>
        {
            format!("there is no table {:?} in keyspace {:?}", table.table, table.keyspace)
        }
        _ => return Ok(()),
    };
    Err(Error::invalid(fault))
}

impl Hooks {
    /// Loads the registrations of a store, before the first write or in a read-only store.
    pub(crate) fn begin(&self, registrations: Vec<Registration>) -> Result<()> {
        let _change = lock(&self.change);
        let any = !registrations.is_empty();
        let version = self.matching.load().version().max(u64::from(any)); // that of the epoch, if set
        let snapshot = snapshot(&self.db, version, registrations);
        if any && !self.db.is_read_only() {
            self.db.set_epoch(epoch_of(&snapshot))?;
        }
        self.matching.replace(snapshot);
        Ok(())
    }

    /// Adds a registration, or changes its options; returns true if it is new. `payload` describes the pair in the
    /// event.
    pub(crate) fn add_registration(
        &self,
        registration: Registration,
        payload: Payload,
        who: Option<&Session>,
    ) -> Result<bool> {
        let _change = lock(&self.change);
        let (key, value) = registration.encode()?;
        let mut next = self.matching.load().registrations().to_vec();
        let known = next.iter_mut().find(|other| is_pair(other, &registration.target, registration.operation));
        let is_new = known.is_none();
        match known {
            Some(known) => *known = registration.clone(),
            None => next.push(registration.clone()),
        }
        let mut batch = granted();
        batch.push(REGISTRY_ID, Kind::Put, &key, &value, &*self.sealer)?;
        let payload = payload.with(Field::Options(value));
        self.enforce(batch, next, (&registration.target, Operation::REGISTRY_ADD), payload, who)?;
        Ok(is_new)
    }

    /// Removes a registration; returns false if there was none. `payload` as above.
    pub(crate) fn delete_registration(
        &self,
        target: &Target,
        operation: Option<Operation>,
        payload: Payload,
        who: Option<&Session>,
    ) -> Result<bool> {
        let _change = lock(&self.change);
        let mut next = self.matching.load().registrations().to_vec();
        let before = next.len();
        next.retain(|other| !is_pair(other, target, operation));
        if next.len() == before {
            return Ok(false);
        }
        let mut batch = granted();
        let key = crate::key::registry_key(target, operation)?;
        batch.push(REGISTRY_ID, Kind::Delete, &key, &[], &*self.sealer)?;
        self.enforce(batch, next, (target, Operation::REGISTRY_DELETE), payload, who)?;
        Ok(true)
    }

    /// Creates a family. Registrations that name it apply from its first commit on: the new snapshot takes effect
    /// before readers can find the family.
    pub(crate) fn create_family(&self, name: &str, options: CfOptions) -> Result<Family> {
        let _change = lock(&self.change);
        let before = self.matching.load();
        let names = |target: &Target| match target {
            Target::Family(own) | Target::Key { family: own, .. } => own == name,
            _ => false,
        };
        let is_named = before.registrations().iter().any(|registration| names(&registration.target));
        if planted!(FamilyMadeAnewNotWatched, true, !is_named) {
            return self.db.create_family(name, options);
        }
        self.db.create_family_with(name, options, &mut |id| {
            let of = |other: &str| if other == name { Some(id) } else { id_of(&self.db, other) };
            let next = RegistrySnapshot::build(before.version() + 1, before.registrations().to_vec(), &RawFamilies(of));
            let low = epoch_of(&next);
            self.matching.replace(next);
            Some(low)
        })
    }

    /// Drops a family. Old values of its events that are kept as versions in the family are first copied into the
    /// events' rows. Of a layer's family that describes its operations, registrations of the whole store do not log it.
    pub(crate) fn drop_family(&self, name: &str, is_described: bool, who: Option<&Session>) -> Result<()> {
        let _change = lock(&self.change);
        let _rows = lock(&self.log_rows);
        let _pass = self.gate.take(); // no registered commit runs between copying the old values and the drop
        if self.db.family(name).is_some() && !self.db.is_read_only() && self.may_hold_old_values()? {
            planted!(DropOvertaken, Ok(()), self.db.bump_epoch())?; // earlier commits are rejected for retry, and wait
            self.write_claimed()?; // rows in the ring may refer to old values, too
            let making = Making { session: &|_| Session::ANONYMOUS, now: 0 }; // rows in memory are not read
            match self.db.family(name) {
                Some(family) if planted!(OldValueReadTooEarly, false, true) => self.db.flush_ordered(&family)?,
                _ => self.db.flush()?,
            }
            LogReader::new(&self.db, At::Latest, making)?.keep_old_values(name, &self.sealer)?;
        }
        let target = Target::family(name);
        let watching = self.matching.load().find(&target, Operation::TABLE_DROP).cloned();
        let watching = watching.filter(|found| !is_described || found.target != Target::Cluster);
        self.db.drop_family_with(name, &mut |seqno| {
            let Some(watching) = &watching else { return Vec::new() };
            let on = (&target, Operation::TABLE_DROP);
            let mut event = event_at(self.witness.clock.now(), watching, on, Payload::new(), who);
            event.key.seqno = seqno;
            let end = expires(event.key.time, retention_of(watching));
            self.witness.row(&event, end).ok().into_iter().collect()
        })
    }

    /// Returns false if no event can have an old value that is kept as a version: nothing was registered since the
    /// store was opened, and the log is empty.
    fn may_hold_old_values(&self) -> Result<bool> {
        let Some(log) = self.db.family_by_id(LOG_ID) else { return Ok(false) };
        let mut rows = self.db.cursor(&log, At::Latest, (Unbounded, Unbounded))?;
        rows.first()?;
        Ok(self.db.epoch() as u32 != 0 || rows.valid())
    }

    /// Commits a change of the registry, and its event if that is registered. The caller holds `change`.
    fn enforce(
        &self,
        mut batch: Batch,
        next: Vec<Registration>,
        (target, operation): (&Target, Operation),
        payload: Payload,
        who: Option<&Session>,
    ) -> Result<()> {
        let _pass = self.gate.take(); // until the change is applied, for commits that read old values under it
        if let Some(watching) = self.matching.load().find(target, operation) {
            self.db.bump_epoch()?; // no commit with a later time is ordered before the change
            let now = self.witness.clock.now();
            let event = event_at(now, watching, (target, operation), payload, who);
            push_event(&mut batch, &event, 1, retention_of(watching), now, &self.sealer)?;
        }
        self.commit_registrations(&mut batch, next)
    }

    fn commit_registrations(&self, batch: &mut Batch, next: Vec<Registration>) -> Result<()> {
        let version = self.matching.load().version() + 1;
        let next = snapshot(&self.db, version, next);
        let (low, mut next) = (epoch_of(&next), Some(next));
        let mut show = |_| {
            if let Some(next) = planted!(RegistrationSeenLate, None, next.take()) {
                self.matching.replace(next);
            }
        };
        // Rejected only if a family is dropped meanwhile.
        while {
            let last = Precondition::epoch(self.db.epoch()).last_of_epoch(low);
            self.db.commit_observed(batch, Durability::Sync, last, &mut show)?.is_none()
        } {}
        if let Some(next) = next {
            self.matching.replace(next);
        }
        Ok(())
    }
}

fn is_pair(registration: &Registration, target: &Target, operation: Option<Operation>) -> bool {
    registration.target == *target && registration.operation == operation
}
