//! Opening with a registry, or without one.
//!
//! A store that is opened for writing without its registry logs nothing of what is done then. So it must not happen where something is
//! registered; and a plain open, which leaves behind what stands beside records of the log, must not happen where events wait there.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::checksum::hash_key;
use waxseal_lsm::db::{self as engine, At, Parts};
use waxseal_lsm::error::{Error, ErrorKind, Result};
use waxseal_lsm::options::Settings;
use waxseal_lsm::record::Record;
use waxseal_lsm::seam::Companions;
use waxseal_meta::Sealer;
use waxseal_meta::stamp::Stamp;
use waxseal_meta::stamped::has_history;
use waxseal_registry::{Prepared, Registrar};

/// The family that says what is registered.
const REGISTRY: &str = "system_metadata.registry";

/// Who is told of writes.
pub(crate) enum Watching {
    /// Registry and log.
    Registrar(Registrar),
    /// Nobody: the store was opened without them.
    Nobody,
    /// Nobody knows who: what is registered, or who is who, cannot be read. Nothing is written until that is repaired.
    Unknown(Error),
}

impl Watching {
    /// Registry and log, if the store has them.
    pub(crate) fn registrar(&self) -> Result<&Registrar> {
        match self {
            Watching::Registrar(registrar) => Ok(registrar),
            Watching::Nobody => Err(Error::invalid(WITHOUT)),
            Watching::Unknown(error) => Err(error.clone()),
        }
    }
}

/// The keeper of a store that is opened plain: it makes and checks nothing, but what events say is kept with records stays.
pub(crate) struct PlainKeeper {
    /// Nobody could see whether anything is registered: until somebody can, no seal of the log is left behind.
    pub(crate) keeps_seals: bool,
}

impl Companions for PlainKeeper {
    #[inline]
    fn retains(&self, record: &Record<'_>) -> bool {
        has_history(record)
    }

    fn on_replay(&self, record: &Record<'_>) -> Result<()> {
        match Stamp::standing(record.companion, hash_key(record.key)) {
            Ok(None) if self.keeps_seals && !record.companion.is_empty() => Err(Error::invalid(UNSEEN)),
            Ok(None) => Ok(()),
            Ok(Some(_)) | Err(_) => Err(Error::invalid(WAITING)),
        }
    }
}

/// Registry and log of a store that was opened, if it has them. Damage of theirs is no reason not to open it: everything else is read.
pub(crate) fn attach(
    engine: &engine::Db,
    keeper: Option<&Arc<Sealer>>,
    prepared: Option<Prepared>,
) -> Result<Watching> {
    match (prepared, keeper) {
        (Some(prepared), Some(keeper)) => match prepared.attach(engine.clone(), keeper.clone()) {
            Ok(registrar) => Ok(Watching::Registrar(registrar)),
            Err(error) if error.is_corruption() => {
                let _ = engine.set_rules(1); // writes ask who is told of them; a store that is only read has none
                Ok(Watching::Unknown(error))
            }
            Err(error) => Err(error),
        },
        _ if engine.is_read_only() => Ok(Watching::Nobody),
        _ => nothing_registered(engine).map(|()| Watching::Nobody),
    }
}

/// `Invalid` for a store with registrations, which must not be opened plain. `parts` are those of an ordinary open. False if nobody can see
/// whether there are any, since the store cannot be read. One that is not there yet, and whatever else the open itself refuses, is left to that.
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
const WAITING: &str = "events of this store wait in its memory and would be lost if it were opened plain; open it as it was, and flush it first";
