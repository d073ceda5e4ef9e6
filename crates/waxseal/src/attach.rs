//! Opening a store with a registry, or without one.
//!
//! A store opened for writing without its registry logs nothing. Such an open must therefore fail if anything is
//! registered. A plain open also drops the metadata of records in the write-ahead log, so it must fail if that metadata
//! holds events, an expiry or labels.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::db::{self as engine, At, Parts};
use waxseal_lsm::error::{Error, ErrorKind, Result};
use waxseal_lsm::options::Settings;
use waxseal_lsm::record::{Record, Seqno};
use waxseal_lsm::seam::Companions;
use waxseal_meta::Sealer;
use waxseal_meta::annotations::Annotations;
use waxseal_meta::stamp::Stamp;
use waxseal_meta::stamp::has_history;
use waxseal_registry::{Prepared, Registrar};

/// The family that holds the registrations.
const REGISTRY: &str = "system_metadata.registry";

/// The observer of the store's writes.
pub(crate) enum Watching {
    /// The store has a registry and a log.
    Registrar(Registrar),
    /// The store was opened without a registry.
    Nobody,
    /// The registrations or the sessions cannot be read. Writes fail until they are repaired.
    Unknown(Error),
}

impl Watching {
    /// Returns the registrar, if the store has one.
    pub(crate) fn registrar(&self) -> Result<&Registrar> {
        match self {
            Watching::Registrar(registrar) => Ok(registrar),
            Watching::Nobody => Err(Error::invalid(WITHOUT)),
            Watching::Unknown(error) => Err(error.clone()),
        }
    }
}

/// The record protector of a store that is opened plain. It makes and checks no seals, but retains the history of
/// events that is stored with records.
pub(crate) struct PlainProtector {
    /// The registrations could not be checked. The open must then keep all seals in the log.
    pub(crate) keeps_seals: bool,
}

impl Companions for PlainProtector {
    /// A compaction keeps the seals of ingested tables, with their expiries and labels.
    fn bind(&self, companion: &mut [u8], old: Option<Seqno>, new: Seqno) {
        Sealer::new().bind(companion, old, new);
    }

    fn binds(&self, algorithm: u64) -> bool {
        Sealer::new().binds(algorithm)
    }

    #[inline]
    fn retains(&self, record: &Record<'_>) -> bool {
        has_history(record)
    }

    fn on_replay(&self, record: &Record<'_>) -> Result<()> {
        match Stamp::standing(record.companion, hash_key(record.key)) {
            Ok(None) if self.keeps_seals && !record.companion.is_empty() => Err(Error::invalid(UNSEEN)),
            Ok(None) if Annotations::read(record.companion)?.entries().next().is_some() => {
                Err(Error::invalid(LABELLED))
            }
            Ok(None) => Ok(()),
            Ok(Some(_)) | Err(_) => Err(Error::invalid(WAITING)),
        }
    }
}

/// Attaches registry and log to an opened store, if it has them. Damage to them does not prevent the open: the rest of
/// the store stays readable.
pub(crate) fn attach(
    engine: &engine::Db,
    protector: Option<&Arc<Sealer>>,
    prepared: Option<Prepared>,
) -> Result<Watching> {
    match (prepared, protector) {
        (Some(prepared), Some(protector)) => match prepared.attach(engine.clone(), protector.clone()) {
            Ok(registrar) => Ok(Watching::Registrar(registrar)),
            Err(error) if error.is_corruption() => {
                let _ = engine.set_epoch(1); // makes writes fail in the registrar; a read-only store has no writes
                Ok(Watching::Unknown(error))
            }
            Err(error) => Err(error),
        },
        _ if engine.is_read_only() => Ok(Watching::Nobody),
        _ => nothing_registered(engine).map(|()| Watching::Nobody),
    }
}

/// Checks that a store may be opened plain. `parts` are those of an ordinary open. Errors: `Invalid` if the store has
/// registrations. Returns false if they cannot be checked because the store cannot be read. If the store does not
/// exist, or the open itself will fail with `Invalid`, returns true and leaves the error to the open.
pub(crate) fn may_be_plain(path: &Path, settings: Settings, parts: Parts) -> Result<bool> {
    let parts = Parts { listener: Parts::real().listener, ..parts };
    match engine::Db::open_read_only(path, settings, parts) {
        Ok(engine) => {
            let outcome = nothing_registered(&engine);
            engine.close().and(outcome).map(|()| true)
        }
        Err(error) => Ok(*error.kind() == ErrorKind::Invalid),
    }
}

fn nothing_registered(engine: &engine::Db) -> Result<()> {
    let Some(registry) = engine.family(REGISTRY) else { return Ok(()) };
    let mut cursor = engine.cursor(&registry, At::Latest, (Bound::Unbounded, Bound::Unbounded))?;
    cursor.first()?;
    if cursor.valid() { Err(Error::invalid(UNWATCHED)) } else { Ok(()) }
}

const WITHOUT: &str = "the store was opened without its registry: there are no sessions, and nothing is logged";
const UNWATCHED: &str = "something is registered in this store: opened plain or without its registry, what is done would not be logged; open it as \
                         it was, and unregister everything first";
const UNSEEN: &str = "the log of this store is damaged or cannot be read, so that nobody can see whether something is registered, and a plain open would leave the seals of \
                      what is in it behind; open it as it was, and accept the loss there";
const LABELLED: &str = "the log of this store holds a record with labels or an expiry, which a plain open would drop; open it without `plain` and flush it first";
const WAITING: &str = "events of this store wait in its memory and would be lost if it were opened plain; open it as it was, and flush it first";
