//! Puts rows together from the records that a cursor finds.

use std::sync::Arc;

use waxseal::{Cursor, TransactionCursor};

use crate::error::{Error, Result};
use crate::key::above;
use crate::layout::Layout;
use crate::row::Row;
use crate::selection::Selection;

/// The cursor's next move.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Move {
    /// To the first record, or the last one in reverse.
    Begin,
    /// To the next record in the direction of the read.
    Step,
    /// None: the cursor is already on the next record.
    Stay,
    /// None: the read has ended.
    End,
}

impl Move {
    /// Makes the move. Returns true on a record. Any error but damage ends the read; after damage, the next move reads
    /// on behind it.
    pub(crate) fn make(&mut self, cursor: &mut impl Records, is_reverse: bool) -> Result<bool> {
        let moved = match (std::mem::replace(self, Move::Step), is_reverse) {
            (Move::Begin, false) => cursor.first(),
            (Move::Begin, true) => cursor.last(),
            (Move::Step, false) => cursor.next(),
            (Move::Step, true) => cursor.prev(),
            (Move::Stay, _) => Ok(()),
            (Move::End, _) => {
                *self = Move::End;
                return Ok(false);
            }
        };
        match moved {
            Ok(()) if cursor.valid() => Ok(true),
            Ok(()) => {
                *self = Move::End;
                Ok(false)
            }
            Err(error) => {
                if !error.is_corruption() {
                    *self = Move::End;
                }
                Err(error.into())
            }
        }
    }
}

/// A cursor over records.
pub(crate) trait Records {
    fn first(&mut self) -> waxseal::Result<()>;
    fn last(&mut self) -> waxseal::Result<()>;
    fn next(&mut self) -> waxseal::Result<()>;
    fn prev(&mut self) -> waxseal::Result<()>;
    fn seek(&mut self, key: &[u8]) -> waxseal::Result<()>;
    fn valid(&self) -> bool;
    fn key(&self) -> &[u8];
    fn value(&self) -> &[u8];
}

macro_rules! records {
    ($($cursor:ident),*) => {$(
        impl Records for $cursor {
            fn first(&mut self) -> waxseal::Result<()> {
                $cursor::first(self)
            }
            fn last(&mut self) -> waxseal::Result<()> {
                $cursor::last(self)
            }
            fn next(&mut self) -> waxseal::Result<()> {
                $cursor::next(self)
            }
            fn prev(&mut self) -> waxseal::Result<()> {
                $cursor::prev(self)
            }
            fn seek(&mut self, key: &[u8]) -> waxseal::Result<()> {
                $cursor::seek(self, key)
            }
            fn valid(&self) -> bool {
                $cursor::valid(self)
            }
            fn key(&self) -> &[u8] {
                $cursor::key(self)
            }
            fn value(&self) -> &[u8] {
                $cursor::value(self)
            }
        }
    )*};
}

records!(Cursor, TransactionCursor);

/// Puts rows together from records.
pub(crate) struct RowReader<C = Cursor> {
    layout: Arc<Layout>,
    selection: Arc<Selection>,
    cursor: C,
    is_reverse: bool,
    next: Move,
    /// Damage that the row before it did not need.
    pending: Option<Error>,
    /// Damage whose keys the cursor has not left: a row there may lack records of its groups.
    damage: Vec<Error>,
    /// Reverse: the cursor's last error was returned, and no row since then.
    has_failed: bool,
}

impl<C: Records> RowReader<C> {
    pub(crate) fn new(
        layout: Arc<Layout>,
        selection: impl Into<Arc<Selection>>,
        cursor: C,
        is_reverse: bool,
    ) -> RowReader<C> {
        let selection = selection.into();
        RowReader {
            layout,
            selection,
            cursor,
            is_reverse,
            next: Move::Begin,
            pending: None,
            damage: Vec::new(),
            has_failed: false,
        }
    }

    /// Returns the key and the columns of the next row. Errors: `Corruption` for damage; the next call reads on behind
    /// it.
    pub(crate) fn next_row(&mut self) -> Result<Option<(Vec<u8>, Row)>> {
        if let Some(error) = self.pending.take() {
            return Err(error);
        }
        if self.is_reverse { self.row_backward() } else { self.row_forward() }
    }

    /// Returns damage behind the last row.
    pub(crate) fn take_pending(&mut self) -> Option<Error> {
        self.pending.take()
    }

    fn advance(&mut self) -> Result<bool> {
        let moved = self.next.make(&mut self.cursor, self.is_reverse);
        if let Err(error) = &moved {
            self.note(error);
        }
        moved
    }

    /// Keeps damage for the rows that it may hit: the cursor reports it once, and then goes on with newer records among
    /// the damaged keys.
    fn note(&mut self, error: &Error) {
        self.has_failed = true;
        let is_known = |known: &Error| damaged_keys(known) == damaged_keys(error);
        if error.is_corruption() && !self.layout.is_single_record() && !self.damage.iter().any(is_known) {
            self.damage.push(error.clone());
        }
    }

    /// Returns damage that may have hit other records of a row than its group 0, and forgets what the cursor has left.
    fn damage_of(&mut self, row_key: &[u8]) -> Option<&Error> {
        if self.damage.is_empty() || !self.selection.is_beyond_default {
            return None;
        }
        let (end, is_reverse) = (above(row_key), self.is_reverse);
        let begins_below = |(low, _): &(Vec<u8>, Vec<u8>)| end.as_ref().is_none_or(|end| low < end);
        let ends_at_or_above = |(_, high): &(Vec<u8>, Vec<u8>)| high.as_slice() >= row_key;
        self.damage.retain(|error| {
            damaged_keys(error).is_none_or(|keys| if is_reverse { begins_below(keys) } else { ends_at_or_above(keys) })
        });
        let hits = |error: &&Error| damaged_keys(error).is_none_or(|keys| begins_below(keys) && ends_at_or_above(keys));
        self.damage.iter().find(hits)
    }

    /// Returns a row of which all records were read. Errors: damage that may have hit others of its records.
    fn whole(&mut self, row_key: Vec<u8>, row: Row) -> Result<Option<(Vec<u8>, Row)>> {
        match self.damage_of(&row_key) {
            Some(error) => Err(error.clone()),
            None => Ok(Some((row_key, row))),
        }
    }

    fn row_forward(&mut self) -> Result<Option<(Vec<u8>, Row)>> {
        let (row_key, mut row) = loop {
            if !self.advance()? {
                return Ok(None);
            }
            let key = self.cursor.key();
            // Other groups of a row that has no group 0 are skipped.
            if self.layout.row_key_length(key)? == key.len() {
                break (key.to_vec(), Row::new());
            }
        };
        let mut decoded = self.layout.decode_key(&row_key, &self.selection, &mut row);
        let value = self.cursor.value();
        decoded = decoded.and_then(|()| self.layout.decode_record(&[], value, &self.selection, &mut row));
        if self.layout.is_single_record() {
            return decoded.map(|()| Some((row_key, row)));
        }
        if !self.selection.is_beyond_default && self.layout.is_open_ended() {
            self.skip_to_next_row(&row_key);
            return decoded.map(|()| Some((row_key, row)));
        }
        loop {
            match self.advance() {
                Ok(true) if self.cursor.key().starts_with(&row_key) => {
                    let (suffix, value) = (&self.cursor.key()[row_key.len()..], self.cursor.value());
                    decoded =
                        decoded.and_then(|()| self.layout.decode_record(suffix, value, &self.selection, &mut row));
                }
                Ok(is_on_record) => {
                    self.next = if is_on_record { Move::Stay } else { Move::End };
                    decoded?;
                    return self.whole(row_key, row);
                }
                Err(error) if decoded.is_ok() && lies_behind(&error, &row_key) => {
                    self.pending = Some(error);
                    return self.whole(row_key, row);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Moves to the record behind a row.
    fn skip_to_next_row(&mut self, row_key: &[u8]) {
        self.next = Move::End;
        if let Some(next) = above(row_key) {
            match self.cursor.seek(&next) {
                Ok(()) if self.cursor.valid() => self.next = Move::Stay,
                Ok(()) => {}
                Err(error) => {
                    self.next = Move::Step;
                    self.pending = Some(error.into());
                }
            }
        }
    }

    fn row_backward(&mut self) -> Result<Option<(Vec<u8>, Row)>> {
        // The records behind group 0 of the row that comes next: suffixes and values, the last one first.
        let mut others: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut others_key = Vec::new();
        loop {
            if !self.advance()? {
                return Ok(None);
            }
            let key = self.cursor.key();
            let length = self.layout.row_key_length(key)?;
            let (row_key, suffix) = key.split_at(length);
            if !suffix.is_empty() {
                if others_key != row_key {
                    others.clear();
                    others_key = row_key.to_vec();
                }
                if self.selection.is_beyond_default {
                    others.push((suffix.to_vec(), self.cursor.value().to_vec()));
                }
                continue;
            }
            let (row_key, mut row) = (row_key.to_vec(), Row::new());
            let was_told = std::mem::take(&mut self.has_failed);
            if let Some(error) = self.damage_of(&row_key) {
                others.clear();
                if was_told && ends_within(error, &row_key) {
                    continue; // the error was returned in place of this row
                }
                return Err(error.clone());
            }
            if others_key != row_key {
                others.clear();
            }
            self.layout.decode_key(&row_key, &self.selection, &mut row)?;
            self.layout.decode_record(&[], self.cursor.value(), &self.selection, &mut row)?;
            for (suffix, value) in others.iter().rev() {
                self.layout.decode_record(suffix, value, &self.selection, &mut row)?;
            }
            return Ok(Some((row_key, row)));
        }
    }
}

/// Returns true if damage begins behind all records of a row.
fn lies_behind(error: &Error, row_key: &[u8]) -> bool {
    let low = damaged_keys(error).map(|(low, _)| low);
    low.is_some_and(|low| above(row_key).is_some_and(|above| *low >= above))
}

/// Returns true if damage ends among the records of a row: it hits no row behind it.
fn ends_within(error: &Error, row_key: &[u8]) -> bool {
    damaged_keys(error).is_some_and(|(_, high)| above(row_key).is_none_or(|above| *high < above))
}

fn damaged_keys(error: &Error) -> Option<&(Vec<u8>, Vec<u8>)> {
    error.store_error()?.damage()?.key_range.as_ref()
}
