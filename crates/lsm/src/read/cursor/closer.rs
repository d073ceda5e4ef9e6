//! Resolves the record at which a cursor arrives, which few records need.
//!
//! In:     a record that points to its value; or one that appears expired and fails its check.
//! Out:    its value, read; or an error in its place. The next step then continues after its key: no older version is
//!         shown instead.

use super::{Place, UserCursor};
use crate::checksum::hash_key;
use crate::cursor::Cursor;
use crate::error::{Damage, Error, Result, Verdict};
use crate::record::{Kind, MAX_SEQNO, Record};
use crate::seam::{Life, Protection, Source};

impl UserCursor {
    /// Reads the value of the current record in a cursor that shows pointers (`without_values`): the cursor shows that
    /// value until its next move. For callers that decide by key whether they want a value. Errors, and the cursor's
    /// state after them, are those of a move to the record.
    pub fn read_pointed(&mut self) -> Result<()> {
        match !self.is_pointer && self.standing().kind == Kind::BlobPointer {
            true => self.read_value(),
            false => Ok(()),
        }
    }

    /// Resolves the record at which the walk has arrived.
    #[cold]
    #[inline(never)]
    pub(super) fn look_closer(&mut self) -> Result<()> {
        let standing = self.standing();
        let (is_pointer, life) = (standing.kind == Kind::BlobPointer, self.life(&standing));
        self.is_pointer = false;
        if life == Life::Doubtful
            && let Some(damage) = self.damage_of_standing()?
        {
            return Err(self.leave_with(damage));
        }
        if is_pointer && !self.shows_pointers { self.read_value() } else { Ok(()) }
    }

    /// Reads the value that the current record points to.
    fn read_value(&mut self) -> Result<()> {
        let record = match self.place {
            Place::Inner => self.inner.record(),
            Place::Saved => self.saved.record(),
            Place::Nowhere | Place::Fence | Place::Told => return Ok(()),
        };
        let Some(values) = &self.values else { return Ok(()) };
        let outcome = values.read(&record, &mut self.room);
        self.is_pointer = outcome.is_ok();
        outcome.map_err(|error| self.leave_with(error))
    }

    /// Moves off the current record, with an error in its place.
    fn leave_with(&mut self, error: Error) -> Error {
        let (record, after) = match self.place {
            Place::Saved => (self.saved.record(), Place::Told),
            _ => (self.inner.record(), Place::Fence),
        };
        // The next step must not show an older version of the key.
        self.seen.set(self.order.lead(record.key), record.key);
        (self.place, self.is_pointer) = (after, false);
        error
    }

    /// Checks the record at which the cursor is to stop, and returns its damage; `None` if it is sound. Errors are
    /// those of the sources, and leave the cursor invalid.
    fn damage_of_standing(&mut self) -> Result<Option<Error>> {
        let Some((keeper, ..)) = &self.expiry else { return Ok(None) };
        let place = std::mem::replace(&mut self.place, Place::Nowhere);
        if place == Place::Saved {
            // The inner cursor has left the record and must be at it for the check.
            self.inner.seek(self.saved.record().key, self.saved.record().seqno)?;
        }
        let is_there = self.inner.valid() && {
            let (saved, found) = (self.saved.record(), self.inner.record());
            let is_it = || found.seqno == saved.seqno && self.order.compare(found.key, saved.key).is_eq();
            place == Place::Inner || found.kind != Kind::Fence && is_it()
        };
        let record = if place == Place::Saved { self.saved.record() } else { self.inner.record() };
        let unknown = Source { protection: Protection::Complete, ..Source::default() };
        let source = if is_there { self.inner.source() } else { unknown };
        let is_right = keeper.verify(&record, hash_key(record.key), source.protection).serves();
        let damage = (!is_right).then(|| self.named(not_as_written(&record, source)));
        if let (Some(damage), Some(values)) = (&damage, &self.values)
            && is_there
            && source.file.is_empty()
        {
            values.damaged_in_memory(record.seqno, damage);
        }
        if place == Place::Saved {
            self.inner.seek_for_prev(self.saved.record().key, MAX_SEQNO)?;
        }
        self.place = place;
        Ok(damage)
    }
}

fn not_as_written(record: &Record<'_>, source: Source<'_>) -> Error {
    let key_range = Some((record.key.to_vec(), record.key.to_vec()));
    let (file, offset, verdict) = (source.file.to_owned(), source.offset, Verdict::Seal);
    let damage = Damage { file, offset, key_range, verdict, ..Damage::default() };
    Error::corruption(damage, "a record does not match its companion")
}
