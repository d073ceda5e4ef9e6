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
    /// Reverse: damage behind the records that come next, which may have hit their row.
    suspect: Option<Error>,
}

impl<C: Records> RowReader<C> {
    pub(crate) fn new(
        layout: Arc<Layout>,
        selection: impl Into<Arc<Selection>>,
        cursor: C,
        is_reverse: bool,
    ) -> RowReader<C> {
        let selection = selection.into();
        RowReader { layout, selection, cursor, is_reverse, next: Move::Begin, pending: None, suspect: None }
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
        self.next.make(&mut self.cursor, self.is_reverse)
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
                    return decoded.map(|()| Some((row_key, row)));
                }
                Err(error) if decoded.is_ok() && lies_behind(&error, &row_key) => {
                    self.pending = Some(error);
                    return Ok(Some((row_key, row)));
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
            match self.advance() {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) => {
                    self.suspect = Some(error.clone());
                    return Err(error);
                }
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
            if self.suspect.take().is_some_and(|error| !self.layout.is_single_record() && may_hit(&error, row_key)) {
                others.clear();
                continue; // the error was returned in place of this row
            }
            if others_key != row_key {
                others.clear();
            }
            let (row_key, mut row) = (row_key.to_vec(), Row::new());
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

/// Returns true if damage may have hit a record of a row.
fn may_hit(error: &Error, row_key: &[u8]) -> bool {
    let Some((low, high)) = damaged_keys(error) else { return true };
    high.as_slice() >= row_key && above(row_key).is_none_or(|above| *low < above)
}

fn damaged_keys(error: &Error) -> Option<&(Vec<u8>, Vec<u8>)> {
    error.store_error()?.damage()?.key_range.as_ref()
}
