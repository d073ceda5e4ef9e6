//! The paper's store exactly as described, for comparison: metadata is stored as tombstones of `key ‖ 01` (MetaHive,
//! sections 4.1 to 4.4). Never the default: seals detect more, as docs/integrity.md explains.
//!
//! ```text
//! put        rejects a key that ends in 01 (4.1.1); makes no checksum, so log and memtable are unprotected
//! flush      gives every version its row; keeps a cluster in one block if it fits (4.2.2)
//! compaction matches rows by seqno with a map in one pass (4.4.1), removes orphans (4.2.1), makes rows for versions
//!            without one, retries a mismatch and then calls the error handler (4.4.2)
//! reads      never read a row: it is a tombstone of an unused key, and cursors skip tombstones (4.3)
//! ```
//!
//! It is a record protector with its own rows (`seam::Rows`), for bytewise order only. The paper leaves one choice
//! open: here a row's own key has the seqno of its version.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use waxseal_lsm::env::work::lock;
use waxseal_lsm::error::{self, Damage, Error, Result};
use waxseal_lsm::order::Order;
use waxseal_lsm::record::Seqno;
use waxseal_lsm::seam::{Companions, PendingWrite, RowRewriter};

pub use waxseal_meta::exchange::pairing::{Pairing, PairingCounts, PairingFault, PairingOutput};
pub use waxseal_meta::exchange::row::{self, RowForm};

/// How often a mismatching version is retried, by repeating the pass, before the handler is called. The engine runs a
/// compaction at most twice, so a larger number would always fail the compaction.
pub const MAX_RETRIES: u32 = 1;

/// The handler's decision about a version that still mismatches its row after a retry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Copy version and row unchanged; later passes find them again.
    Carry,
    /// Fail the compaction; its inputs stay unchanged.
    Refuse,
}

/// The paper's error handler.
pub type Handler = dyn Fn(&PairingFault) -> Decision + Send + Sync;

/// The record protector of the paper's store.
pub struct Paper {
    shared: Arc<Shared>,
}

struct Shared {
    tally: Mutex<PairingCounts>,
    /// Number of retries of each mismatching version.
    tries: Mutex<HashMap<(Vec<u8>, Seqno), u32>>,
    handled: Mutex<Vec<PairingFault>>,
    handler: Box<Handler>,
}

impl Paper {
    /// Creates a protector with this error handler.
    pub fn new(handler: impl Fn(&PairingFault) -> Decision + Send + Sync + 'static) -> Paper {
        let (tally, tries, handled) = (Mutex::default(), Mutex::default(), Mutex::default());
        Paper { shared: Arc::new(Shared { tally, tries, handled, handler: Box::new(handler) }) }
    }

    /// Returns the counts of all passes so far.
    pub fn tally(&self) -> PairingCounts {
        *lock(&self.shared.tally)
    }

    /// Returns the faults that were passed to the handler.
    pub fn handled(&self) -> Vec<PairingFault> {
        lock(&self.shared.handled).clone()
    }
}

impl Default for Paper {
    fn default() -> Paper {
        Paper::new(|_| Decision::Carry)
    }
}

impl Shared {
    /// Handles a mismatching version: fails the pass for a retry, or calls the handler.
    fn fault(&self, fault: &PairingFault) -> Result<()> {
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
    fn on_write(&self, pending: &PendingWrite<'_>, _: &mut Vec<u8>) -> Result<()> {
        if pending.key.last() == Some(&row::MARK) {
            return Err(Error::invalid("a key that ends in 01 is metadata in the paper's store"));
        }
        match pending.entries {
            [] => Ok(()),
            _ => Err(Error::invalid("the paper's store keeps nothing beside its values")),
        }
    }
    fn has_rows(&self) -> bool {
        true
    }
    fn rows(&self, _: u32, order: &Order) -> Result<Option<Box<dyn RowRewriter>>> {
        if !order.is_bytewise() {
            return Err(Error::invalid(format!("the paper's store needs bytewise order, not {:?}", order.name())));
        }
        let (faults, end) = (self.shared.clone(), self.shared.clone());
        let pass = Pairing::new(RowForm::Faithful, PairingOutput::Both, Box::new(move |fault| faults.fault(fault)));
        Ok(Some(Box::new(pass.with_on_end(Box::new(move |tally| lock(&end.tally).merge(tally))))))
    }
}

impl fmt::Debug for Paper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paper").field("tally", &self.tally()).finish_non_exhaustive()
    }
}
