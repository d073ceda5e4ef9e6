//! A store on the bare engine, with or without registry and log: the engine, the record protector, and a registrar on
//! top. One process opens all stores of an experiment, each in its own directory of the same disk.

use crate::node::Shape;
use std::path::Path;
use std::sync::Arc;
use waxseal_bench::Outcome;
use waxseal_bench::workload::touch;
use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{At, Db, Family, Parts};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::options::Durability;
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_lsm::seam::PendingWrite;
use waxseal_meta::Sealer;
use waxseal_registry::{Mode, Operation, Options, Registrar, Registration, Scope, Session, Setup, StampVerb, Target};

/// The family that the experiments write to.
pub(super) const FAMILY: &str = "default";

/// The family of events.
pub(super) const LOG: &str = "system_metadata.log";

/// The family of registrations.
pub(super) const REGISTRY: &str = "system_metadata.registry";

/// An open store.
pub(super) struct Store {
    pub(super) db: Db,
    pub(super) family: Family,
    registrar: Option<Registrar>,
}

/// The write handle of one thread.
pub(super) struct Writer<'a> {
    store: &'a Store,
    batch: Batch,
    who: Option<Session>,
}

impl Store {
    /// Creates a sealed store without a registry.
    pub(super) fn without(dir: &Path, shape: &Shape) -> Outcome<Store> {
        let parts = parts(shape, Arc::new(Sealer::new()), Vec::new());
        let db = Db::open(dir, shape.settings.clone(), parts)?;
        Ok(Store { family: user_family(&db)?, db, registrar: None })
    }

    /// Opens a store with a registry.
    pub(super) fn open(dir: &Path, shape: &Shape) -> Outcome<Store> {
        Ok(Store::try_open(dir, shape, Setup::new(&shape.env))?)
    }

    /// Opens a store with this registrar setup; returns the engine's own error.
    pub(super) fn try_open(dir: &Path, shape: &Shape, setup: Setup) -> Result<Store> {
        let prepared = Registrar::prepare(setup);
        let sealer = Arc::new(Sealer::new().emitting(prepared.emitter.clone()));
        let mut parts = parts(shape, sealer.clone(), prepared.families.clone());
        parts.engine_log = Some(prepared.engine_log.clone());
        let db = Db::open(dir, shape.settings.clone(), parts)?;
        let registrar = prepared.attach(db.clone(), sealer)?;
        Ok(Store { family: user_family(&db)?, db, registrar: Some(registrar) })
    }

    /// Returns the registrar. Errors: `Invalid` if the store has none.
    pub(super) fn registrar(&self) -> Result<&Registrar> {
        self.registrar.as_ref().ok_or_else(|| Error::invalid("this store has no registry"))
    }

    pub(super) fn writer(&self) -> Writer<'_> {
        self.writer_as(None)
    }

    pub(super) fn writer_as(&self, who: Option<Session>) -> Writer<'_> {
        Writer { store: self, batch: Batch::new(), who }
    }

    /// Registers updates of all keys of the family, so that they are logged from now on.
    pub(super) fn watch_all(&self, mode: Mode) -> Result<()> {
        self.register(Target::family(FAMILY), Some(Operation::ROW_UPDATE), mode)
    }

    /// Registers a target and operation in this mode, with the scope that fits the target.
    pub(super) fn register(&self, target: Target, operation: Option<Operation>, mode: Mode) -> Result<()> {
        let scope = if matches!(target, Target::Key { .. }) { Scope::Exact } else { Scope::Subtree };
        let options = Options { scope, mode, ..Options::default() };
        self.registrar()?.register(&target, operation, Some(options), None).map(drop)
    }

    /// Returns a sum over all bytes of the value, as a reader would use them; `None` if the key has no value.
    #[inline]
    pub(super) fn touch(&self, key: &[u8]) -> Result<Option<u64>> {
        let mut sum = 0;
        let found = self.db.get(&self.family, key, At::Latest, &mut |record: &Record<'_>| sum = touch(record.value))?;
        Ok(found.then_some(sum))
    }

    /// Returns the bytes and the number of records of a family's table files.
    pub(super) fn tables(&self, name: &str) -> (u64, u64) {
        let metrics = self.db.metrics();
        let levels = metrics.families.iter().filter(|family| family.name == name).flat_map(|family| &family.levels);
        levels.fold((0, 0), |(bytes, records), level| (bytes + level.bytes, records + level.records))
    }

    /// Writes pending events and closes the store.
    pub(super) fn close(self) -> Result<()> {
        if let Some(registrar) = &self.registrar {
            registrar.close()?;
        }
        self.db.close()
    }
}

impl Writer<'_> {
    /// Writes an update in the same way as a user.
    #[inline]
    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Seqno> {
        self.write(Kind::Put, key, value, &[], Durability::Os)
    }

    #[inline]
    pub(super) fn write(
        &mut self,
        kind: Kind,
        key: &[u8],
        value: &[u8],
        verbs: &[StampVerb],
        durability: Durability,
    ) -> Result<Seqno> {
        let family = self.store.family.id();
        if let Some(registrar) = &self.store.registrar {
            let mut pending = PendingWrite { family, kind, key, value, entries: &[], key_hash: None };
            let verb = verbs.first().copied().unwrap_or(StampVerb::Update);
            return registrar.commit_one(&mut self.batch, &mut pending, None, durability, (self.who.as_ref(), verb));
        }
        self.batch.clear();
        self.batch.push(family, kind, key, value, self.store.db.companions())?;
        self.store.db.commit(&mut self.batch, durability)
    }
}

fn parts(shape: &Shape, sealer: Arc<Sealer>, system: Vec<(String, waxseal_lsm::options::CfOptions)>) -> Parts {
    let mut families = vec![(FAMILY.to_owned(), shape.options.clone())];
    families.extend(system);
    Parts {
        env: shape.env.clone(),
        companions: sealer,
        listener: shape.listener.clone(),
        families,
        filters: Vec::new(),
        orders: vec![shape.options.order.clone()],
        merge_operators: Vec::new(),
        engine_log: None,
        cache: None,
    }
}

fn user_family(db: &Db) -> Result<Family> {
    db.family(FAMILY).ok_or_else(Error::closed)
}

/// Returns the parts of a registration that experiments compare.
pub(super) fn pair(registration: &Registration) -> (Target, Option<Operation>) {
    (registration.target.clone(), registration.operation)
}
