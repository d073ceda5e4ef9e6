//! Exchange: key ranges of a family as table files for other nodes, and theirs for us.
//!
//! ```text
//! export   a snapshot's records -> checked -> tables in a directory, EXCHANGE last
//! import   EXCHANGE -> every table walked whole -> rows bound, records checked -> copied under one new seqno
//! ```
//!
//! By default no metadata leaves (`Policy::Strip`). Whoever shall have it gets seals (`Companion`), or rows in the paper's form:
//! `PaperLiteral`, as the paper writes them, which delete a live key that ends in 01 wherever they arrive, and so are refused
//! where such a key is seen; or `PaperSafe`, in a table of their own and at seqno 0, so that they mask nothing.
//!
//! Holds: a record that is not what its seal says is never handed on, and nothing of an export that is not what it says of
//! itself comes in. Every error names file and offset; an import that fails has changed nothing.

pub mod export;
#[doc(hidden)]
pub mod fuzzing;
pub mod header;
pub mod import;

pub use export::{Export, Exported, Policy, export};
pub use header::Manifest;
pub use import::{Imported, import, import_tables};

use waxseal_lsm::codec::Reader;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::record::companion;

use crate::paper;

/// What the tables of an export carry beside records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Form {
    /// Nothing.
    Plain = 0,
    /// Seals, and what else may leave.
    Sealed = 1,
    /// Rows of the paper, one a key, that mask nothing.
    PaperSafe = 2,
    /// Rows of the paper, one a version, as it writes them.
    PaperLiteral = 3,
}

impl Form {
    fn from_byte(byte: u8) -> Result<Form> {
        [Form::Plain, Form::Sealed, Form::PaperSafe, Form::PaperLiteral]
            .into_iter()
            .find(|form| *form as u8 == byte)
            .ok_or_else(|| Error::structural("an export of no known form"))
    }

    /// How its rows are told from users' records; none if it has none.
    fn rows(self) -> Option<paper::Form> {
        match self {
            Form::Plain | Form::Sealed => None,
            Form::PaperSafe => Some(paper::Form::Safe),
            Form::PaperLiteral => Some(paper::Form::Literal),
        }
    }
}

/// Which versions of a key an export holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Versions {
    /// The one that the snapshot sees, if it is a value.
    #[default]
    Newest = 0,
    /// Every one up to the snapshot, tombstones too, as far as they still exist.
    All = 1,
}

/// True if there is a seal among companions.
fn has_seal(companions: &[u8]) -> bool {
    let mut reader = Reader::new(companions);
    while let Some(kind) = reader.peek() {
        let passed = match kind {
            companion::WORD8 => return true,
            companion::WORD4 => reader.bytes(5).map(drop),
            _ => reader.u8().and_then(|_| reader.length_prefixed()).map(drop),
        };
        if passed.is_err() {
            return false;
        }
    }
    false
}
