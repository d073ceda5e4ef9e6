//! Lookups of a flush: the reads of other families that the record protector makes while it emits rows.
//!
//! In:    the families as the flush or the recovery holds them, their memtables and tables.
//! Out:   the newest value of one key, verified like any read; an error if the deciding record may be lost.
//! Holds: no lock is taken, so a flush may call it with any lock held.

use super::family::View;
use super::flush::Level0;
use crate::checksum::hash_key;
use crate::error::{Damage, Error, Result, Verdict};
use crate::fence::Fence;
use crate::record::{Kind, MAX_SEQNO, Record};
use crate::seam::{Lookup, is_over};
use crate::sst::Checks;
use crate::values::Room;

impl Lookup for Level0<'_> {
    fn get(&self, family: u32, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let Some(family) = self.families.by_id.get(&family) else { return Ok(false) };
        let (mut pointed, view) = (None, family.view());
        let mut room = Room::default();
        let found = self.get_in(&view, key, &mut |record| match record.kind {
            Kind::BlobPointer => pointed = Some(record.value.to_vec()),
            _ => visit(record.value),
        });
        let found = match (found, &pointed, &view.values) {
            (Ok(true), Some(pointer), Some(shelf)) => {
                let record = Record { key, seqno: 0, kind: Kind::BlobPointer, value: pointer, companion: &[] };
                shelf.resolve(&record, true, &mut room).map(|whole| visit(whole.value)).map(|()| true)
            }
            (found, _, _) => found,
        };
        found.map_err(|error| error.in_family(family.name(), Some((key, key))))
    }
}

impl Level0<'_> {
    fn get_in(&self, view: &View, key: &[u8], visit: &mut dyn FnMut(&Record<'_>)) -> Result<bool> {
        let order = view.levels.order();
        let key_hash = hash_key(key);
        let mut outcome = Ok(false);
        let mut decide = |record: &Record<'_>| {
            let covers = |fence: &&Fence| fence.covers_at(order, record.key, record.seqno, MAX_SEQNO);
            outcome = match (view.fences.iter().find(covers), record.kind) {
                (Some(fence), _) => Err(fence.error()),
                (None, kind) if !kind.is_value() => Ok(false),
                (None, _) if is_over(&**self.companions, record, &|| self.env.clock.wall_micros()) => Ok(false),
                (None, _) => {
                    visit(record);
                    Ok(true)
                }
            };
        };
        for generation in [&view.active].into_iter().chain(&view.frozen) {
            let memtable = &generation.memtable;
            let mut is_damaged = false;
            let found = memtable.get(key, MAX_SEQNO, &mut |stored| {
                let hash = if order.is_hashable() { key_hash } else { hash_key(stored.key) };
                let promise = memtable.protection(self.companions.protection());
                match self.companions.verify(stored, hash, promise).serves() && stored.kind != Kind::Fence {
                    true => decide(stored),
                    false => is_damaged = true,
                }
            });
            match (found, is_damaged) {
                (true, true) => {
                    let damage = Damage { verdict: Verdict::Seal, ..Damage::default() };
                    return Err(Error::corruption(damage, "a record in memory does not match its companion"));
                }
                (true, false) => return outcome,
                (false, _) => {}
            }
        }
        for table in view.levels.holding(key) {
            if table.table()?.get(key, key_hash, MAX_SEQNO, Checks::EACH, &mut decide)? {
                return outcome;
            }
        }
        let fence = view.fences.iter().find(|fence| fence.may_hide(order, key, MAX_SEQNO));
        fence.map_or(Ok(false), |fence| Err(fence.error()))
    }
}
