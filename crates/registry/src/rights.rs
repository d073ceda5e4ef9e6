//! Authorization: which sessions may register, read the log, add events and delete them.
//!
//! The calls of registry and log ask the authorizer first, in the calling thread, without holding a lock. The store's
//! own work (writing events of registered operations, opening, flushing) needs no authorization. By default every
//! session may do everything.

use waxseal_lsm::error::{Error, Result};

use crate::operation::Operation;
use crate::sessions::Session;
use crate::target::Target;

/// Decides what a session may do.
///
/// Only the calls of registry and log ask it. Code with access to the store itself can read the rows of the system
/// families like any other. A program that passes reads on to clients must therefore deny them families whose names
/// begin with `system_metadata.`.
pub trait Authorizer: Send + Sync {
    /// May the session register or unregister an operation (`None`: any) on a target?
    fn can_register(&self, who: &Session, target: &Target, operation: Option<Operation>) -> bool;
    /// May the session read the events of a target, and of targets below it?
    fn can_read_log(&self, who: &Session, target: &Target) -> bool;
    /// May the session delete these events?
    fn can_delete_log(&self, who: &Session, target: &Target) -> bool;
    /// May the session add its own events to a target?
    fn can_add_to_log(&self, who: &Session, target: &Target, operation: Operation) -> bool {
        let _ = (who, target, operation);
        true
    }
}

/// The default authorizer: every session may do everything.
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

/// Fails with `Invalid` unless `yes`: the session `who` may not do `what`.
pub(crate) fn allowed(yes: bool, who: &Session, what: &str, target: &Target) -> Result<()> {
    if yes { Ok(()) } else { Err(refused(who, what, target)) }
}

#[cold]
fn refused(who: &Session, what: &str, target: &Target) -> Error {
    Error::invalid(format!("the session {:?} may not {what} {target:#}", who.name()))
}
