//! Point reads that use only blocks in memory and never read the file.
//!
//! In:  a key, as for `get`.
//! Out: its result; or `None` if a block or its index partition is not in memory, or a contradiction needs a repair,
//!      which reads the file.

use super::table::{Outcome, Table};
use super::verify_read::{Checks, Wanted};
use crate::record::{Record, Seqno};

impl Table {
    /// As `get`, if everything needed is in memory. Otherwise returns `None` without calling `visit`.
    pub fn get_resident(
        &self,
        key: &[u8],
        key_hash: u64,
        seqno: Seqno,
        checks: Checks,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Option<bool> {
        let part = self.guide.part_in_memory_for(key, &self.order)?;
        let (index, each) = (&part.index, checks.each && self.is_judged);
        if !part.may_contain(key_hash) {
            return (!each || index.is_whole() || index.holds(key, &self.order)).then_some(false);
        }
        let mut wanted = Wanted { key, key_hash, seqno, each, index, follows: false };
        let mut number = index.find(key, &self.order);
        while number < index.end() {
            let cached = self.slots.slot(number).load();
            let block = cached.as_ref()?;
            block.touch();
            match self.look(block, number, &wanted, visit) {
                Ok(Outcome::Found) => return Some(true),
                Ok(Outcome::Absent) => return Some(false),
                Ok(Outcome::Further) => number += 1,
                Ok(Outcome::Doubtful) | Err(_) => return None,
            }
            wanted.follows = true;
        }
        // A damaged index may place the key past the last block; `get` reads the index again to find out.
        (!wanted.each || wanted.follows).then_some(false)
    }
}
