//! The format level of a store: which kinds of records and files it may hold. docs/format.md, section 6.4.
//!
//! A new store has the newest level, unless its creator asks for an older one. Opening a store never changes its level;
//! `Db::upgrade` raises it, once and for good. Builds that do not know a level refuse the store. An operation that
//! would write what the level does not allow fails with `Invalid` and changes nothing.

use crate::error::{Error, ErrorKind, Result};

/// A format level. Levels are numbered from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FormatLevel(u32);

impl FormatLevel {
    /// Everything that the first release writes.
    pub const FIRST: FormatLevel = FormatLevel(1);
    /// Range deletes, merge operators, ingested tables and the change feed as well.
    pub const RANGES: FormatLevel = FormatLevel(2);
    /// The newest level that this version writes and reads.
    pub const NEWEST: FormatLevel = FormatLevel::RANGES;

    /// Returns the level of this number, as a caller gives it. Errors: `Invalid` for 0 and beyond the newest.
    pub fn new(number: u32) -> Result<FormatLevel> {
        if (1..=FormatLevel::NEWEST.0).contains(&number) {
            return Ok(FormatLevel(number));
        }
        Err(Error::invalid(format!("no format level {number}: there are 1 to {}", FormatLevel::NEWEST.0)))
    }

    /// Returns the level that a manifest records. Errors: `FormatTooNew` beyond the newest, `Corruption` for 0.
    pub(crate) fn recorded(number: u64) -> Result<FormatLevel> {
        match u32::try_from(number) {
            Ok(0) => Err(Error::structural("a store of format level 0")),
            Ok(number) if number <= FormatLevel::NEWEST.0 => Ok(FormatLevel(number)),
            _ => Err(Error::of(ErrorKind::FormatTooNew, format!("a store of format level {number}"))),
        }
    }

    /// Returns the level of a number that `number` returned.
    pub(crate) fn numbered(number: u32) -> FormatLevel {
        FormatLevel(number)
    }

    /// Returns the number of the level.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Checks that a store of this level may hold what needs `needed`. Errors: `Invalid`.
    pub(crate) fn check(self, needed: FormatLevel) -> Result<()> {
        if self >= needed {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the store has format level {}, without range deletes, merge operators, ingested tables and a change feed: \
             upgrade({}) adds them",
            self.0, needed.0
        )))
    }
}

impl Default for FormatLevel {
    fn default() -> Self {
        FormatLevel::FIRST
    }
}
