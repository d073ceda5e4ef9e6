//! The paper's store, to the letter, for comparison: metadata as tombstones of `key ‖ 01` (MetaHive, sections 4.1 to 4.4). Never
//! the default; seals do better, and docs/integrity.md says where.
//!
//! ```text
//! put        a key that ends in 01 is refused (4.1.1); nothing else: no checksum yet, log and memtable are uncovered
//! flush      every version gets its row; a cluster stays in one block where it fits (4.2.2)
//! compaction rows are matched by seqno through a map in one pass (4.4.1); orphans go (4.2.1); a version without a row gets one;
//!            one that does not match is tried again, then told to the error handler (4.4.2)
//! reads      never touch a row: it is a tombstone of a key that nobody asks for, and cursors pass over tombstones (4.3)
//! ```
//!
//! It plugs into the engine as a keeper with rows of its own (`seam::Rows`); bytewise order only. One choice that the paper leaves
//! open: a version's row has the version's seqno in its own key too.

pub mod pairing;
pub mod row;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use waxseal_lsm::env::work::lock;
use waxseal_lsm::error::{self, Damage, Error, Result};
use waxseal_lsm::order::Order;
use waxseal_lsm::record::Seqno;
use waxseal_lsm::seam::{Companions, Draft, Rows};

pub use pairing::{Fault, Pairing, Tally, Written};
pub use row::Form;

/// How often a version that does not match is looked at again, by running the pass anew, before the handler is called. The engine
/// runs a compaction twice at most, so more than one is as good as refusing.
pub const MAX_RETRIES: u32 = 1;

/// What is done with a version that does not match its row, and did not when it was tried again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Version and row go on as they are; they will be found again.
    Carry,
    /// The compaction fails, its inputs stay as they are.
    Refuse,
}

/// The paper's error handler.
pub type Handler = dyn Fn(&Fault) -> Decision + Send + Sync;

/// The keeper of the paper's store.
pub struct Paper {
    shared: Arc<Shared>,
}

struct Shared {
    tally: Mutex<Tally>,
    /// How often each version that does not match was looked at.
    tries: Mutex<HashMap<(Vec<u8>, Seqno), u32>>,
    handled: Mutex<Vec<Fault>>,
    handler: Box<Handler>,
}

impl Paper {
    /// A keeper whose faults go to this handler.
    pub fn new(handler: impl Fn(&Fault) -> Decision + Send + Sync + 'static) -> Paper {
        let (tally, tries, handled) = (Mutex::default(), Mutex::default(), Mutex::default());
        Paper { shared: Arc::new(Shared { tally, tries, handled, handler: Box::new(handler) }) }
    }

    /// What all passes so far met.
    pub fn tally(&self) -> Tally {
        *lock(&self.shared.tally)
    }

    /// What the handler was told.
    pub fn handled(&self) -> Vec<Fault> {
        lock(&self.shared.handled).clone()
    }
}

impl Default for Paper {
    fn default() -> Paper {
        Paper::new(|_| Decision::Carry)
    }
}

impl Shared {
    /// A version does not match: once more, or to the handler.
    fn fault(&self, fault: &Fault) -> Result<()> {
        let refused = || {
            let key_range = Some((fault.key.clone(), fault.key.clone()));
            let damage = Damage { verdict: error::Verdict::Seal, key_range, ..Damage::default() };
            Err(Error::corruption(damage, "a version does not match its metadata"))
        };
        let mut tries = lock(&self.tries);
        let tried = tries.entry((fault.key.clone(), fault.seqno)).or_default();
        if *tried < MAX_RETRIES {
            *tried += 1;
            return refused();
        }
        tries.remove(&(fault.key.clone(), fault.seqno));
        drop(tries);
        lock(&self.handled).push(fault.clone());
        match (self.handler)(fault) {
            Decision::Carry => Ok(()),
            Decision::Refuse => refused(),
        }
    }
}

impl Companions for Paper {
    fn on_write(&self, draft: &Draft<'_>, _: &mut Vec<u8>) -> Result<()> {
        if draft.key.last() == Some(&row::MARK) {
            return Err(Error::invalid("a key that ends in 01 is metadata in the paper's store"));
        }
        match draft.entries {
            [] => Ok(()),
            _ => Err(Error::invalid("the paper's store keeps nothing beside its values")),
        }
    }
    fn has_rows(&self) -> bool {
        true
    }
    fn rows(&self, _: u32, order: &Order) -> Result<Option<Box<dyn Rows>>> {
        if !order.is_bytewise() {
            return Err(Error::invalid(format!("the paper's store needs bytewise order, not {:?}", order.name())));
        }
        let (faults, end) = (self.shared.clone(), self.shared.clone());
        let pass = Pairing::new(Form::Faithful, Written::Both, Box::new(move |fault| faults.fault(fault)));
        Ok(Some(Box::new(pass.telling(Box::new(move |tally| lock(&end.tally).merge(tally))))))
    }
}

impl fmt::Debug for Paper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paper").field("tally", &self.tally()).finish_non_exhaustive()
    }
}
