//! Who may register, read the log and delete from it.
//!
//! The store asks before it does any of these, in the calling thread, with no lock held. What it does for itself (writing events
//! of what is registered, opening, flushing) is not asked for. Without an authorizer everybody may do everything.

use waxseal_lsm::error::{Error, Result};

use crate::operation::Operation;
use crate::sessions::Session;
use crate::target::Target;

/// Says what a session may do.
///
/// It is asked by the calls of registry and log. Whoever holds the store itself can read the rows of the system families as those of any other;
/// a program that hands reads on to clients keeps the names that begin with `system_metadata.` from them.
pub trait Authorizer: Send + Sync {
    /// May it register, or take back, an operation (none: any) on a target?
    fn can_register(&self, who: &Session, target: &Target, operation: Option<Operation>) -> bool;
    /// May it read the events of a target, and of what lies below it?
    fn can_read_log(&self, who: &Session, target: &Target) -> bool;
    /// May it delete them?
    fn can_delete_log(&self, who: &Session, target: &Target) -> bool;
    /// May it add events of its own to a target?
    fn can_add_to_log(&self, who: &Session, target: &Target, operation: Operation) -> bool {
        let _ = (who, target, operation);
        true
    }
}

/// Everybody may do everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everybody;

impl Authorizer for Everybody {
    fn can_register(&self, _: &Session, _: &Target, _: Option<Operation>) -> bool {
        true
    }
    fn can_read_log(&self, _: &Session, _: &Target) -> bool {
        true
    }
    fn can_delete_log(&self, _: &Session, _: &Target) -> bool {
        true
    }
}

/// `Invalid`, unless it is allowed: `who` may not `do`.
pub(crate) fn allowed(yes: bool, who: &Session, what: &str, target: &Target) -> Result<()> {
    if yes { Ok(()) } else { Err(refused(who, what, target)) }
}

#[cold]
fn refused(who: &Session, what: &str, target: &Target) -> Error {
    Error::invalid(format!("the session {:?} may not {what} {target:#}", who.name()))
}
