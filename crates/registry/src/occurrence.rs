//! The targets on which each operation can occur, from the table in `operation`.
//!
//! A registration that can never log anything is refused with the reason. Three kinds of pairs are accepted. The first
//! are pairs that the store itself performs, at the target or, for a subtree, below it. The second are pairs without a
//! certain operation, since `Registry.Add` can happen to every registered target. The third are operations defined by
//! an embedder, since the embedder adds their events.

use crate::operation::{Operation, Site};
use crate::registration::Scope;
use crate::target::Target;

/// Returns why a registration can never log an event; `None` if it can.
pub(crate) fn why_never(target: &Target, operation: Option<Operation>, scope: Scope) -> Option<String> {
    let operation = operation.filter(|operation| operation.known_name().is_some())?;
    let sites = operation.sites();
    if sites.is_empty() {
        return Some(format!("{operation:?} is a reserved name, and this version never performs it"));
    }
    if sites.iter().any(|site| is_at(*site, target)) {
        return None;
    }
    let places = |sites: &mut dyn Iterator<Item = &Site>| sites.map(|site| place(*site)).collect::<Vec<_>>().join(", ");
    let below = places(&mut sites.iter().filter(|site| is_below(**site, target)));
    let places = places(&mut sites.iter());
    match (sites.iter().any(|site| is_below(*site, target)), scope) {
        (true, Scope::Subtree) => None,
        (true, Scope::Exact) => Some(format!(
            "{operation:?} happens to {below} below it and not to {} itself; register its subtree",
            kind(target)
        )),
        (false, _) => Some(format!("{operation:?} happens to {places} and not to {}", kind(target))),
    }
}

/// Returns true if an operation with this site can occur on the target itself.
fn is_at(site: Site, target: &Target) -> bool {
    match site {
        Site::Anything => true,
        Site::Family => matches!(target, Target::Family(_)),
        Site::Key => matches!(target, Target::Key { .. }),
        Site::Keyspace => matches!(target, Target::Keyspace(_)),
        Site::Table => matches!(target, Target::Table(_)),
        Site::Row => matches!(target, Target::Row { .. } | Target::Partition { .. }),
        Site::Column => matches!(target, Target::Column { .. }),
        Site::TableFile => matches!(target, Target::TableFile(_)),
        Site::Part(part) => matches!(target, Target::Engine(own) if own == part),
        Site::Node => matches!(target, Target::Node(_)),
    }
}

/// Returns true if an operation with this site can occur below the target.
fn is_below(site: Site, target: &Target) -> bool {
    match target {
        Target::Cluster => true,
        Target::Family(_) => site == Site::Key,
        Target::Keyspace(_) => matches!(site, Site::Table | Site::Row | Site::Column),
        Target::Table(_) | Target::Partition { .. } => matches!(site, Site::Row | Site::Column),
        Target::Row { .. } => matches!(site, Site::Row | Site::Column),
        _ => false,
    }
}

fn place(site: Site) -> String {
    match site {
        Site::Anything => "anything".to_owned(),
        Site::Family => "column families".to_owned(),
        Site::Key => "keys".to_owned(),
        Site::Keyspace => "keyspaces".to_owned(),
        Site::Table => "tables".to_owned(),
        Site::Row => "rows".to_owned(),
        Site::Column => "columns of rows".to_owned(),
        Site::TableFile => "table files".to_owned(),
        Site::Part(part) => format!("engine:{part}"),
        Site::Node => "nodes".to_owned(),
    }
}

fn kind(target: &Target) -> &'static str {
    match target {
        Target::Cluster => "the store",
        Target::Keyspace(_) => "a keyspace",
        Target::Table(_) => "a table",
        Target::Partition { .. } | Target::Row { .. } => "a row",
        Target::Column { .. } => "a column",
        Target::Family(_) => "a column family",
        Target::Key { .. } => "a key",
        Target::Node(_) => "a node",
        Target::TableFile(_) => "a table file",
        Target::Engine(_) => "this part of the engine",
    }
}
