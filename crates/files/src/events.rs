//! The registry's operations on files: `File.Create`, `File.Write`, `File.Rename` and `File.Remove`.
//!
//! An event's target is the path's key in the entries family; its text is the path, and what a rename or the operation
//! on a tree did. A registration of the family itself logs the events of all paths there.

use waxseal::Db;
use waxseal::registry::{Operation, Payload, Registry, Target};

use crate::error::Result;
use crate::path::FilePath;

/// An operation of the registry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verb {
    Create,
    Write,
    Rename,
    Remove,
}

const NAMES: [(Verb, &str); 4] = [
    (Verb::Create, "File.Create"),
    (Verb::Write, "File.Write"),
    (Verb::Rename, "File.Rename"),
    (Verb::Remove, "File.Remove"),
];

/// The operations of a store with a registry; empty without one.
pub(crate) struct Events {
    operations: Vec<(Verb, Operation)>,
}

impl Events {
    /// Looks up the operations, or defines them. Defining them costs one commit in the life of a store.
    pub(crate) fn define(db: &Db) -> Events {
        let registry = db.registry();
        let defined = |name| match db.is_read_only() {
            true => registry.operation(name),
            // Refused in a store that is opened without its registry, or whose registry is damaged.
            false => registry.define_operation(name),
        };
        let operations = NAMES.iter().filter_map(|(verb, name)| Some((*verb, defined(name).ok()?))).collect();
        Events { operations }
    }

    /// Logs an event if its operation is registered. Errors: those of the commit; the operation itself is done then.
    pub(crate) fn log(
        &self,
        registry: &Registry,
        family: &str,
        verb: Verb,
        path: &FilePath,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        let Some((_, operation)) = self.operations.iter().find(|(own, _)| *own == verb) else { return Ok(()) };
        let targets = [Target::key(family, path.key()), Target::family(family)];
        for target in targets {
            if registry.is_registered(&target, *operation)? {
                registry.log_add(&target, *operation, None, Payload::text(text()))?;
                return Ok(());
            }
        }
        Ok(())
    }
}
