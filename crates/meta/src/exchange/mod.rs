//! Exchange: exports key ranges of a family as table files, and imports those of other nodes.
//!
//! ```text
//! export   a snapshot's records -> checked -> tables in a directory, EXCHANGE last
//! import   EXCHANGE -> every table read completely -> rows matched, records checked -> copied under one new seqno
//! ```
//!
//! The default policy exports seals and the labels of users (`Policy::Companion`). `Strip` exports no metadata. Two
//! policies write checksums as rows in the paper's form. `PaperLiteral` writes them as the paper does: they delete a
//! live key that ends in 01 at the receiver, so the export rejects such a key. `PaperSafe` writes them at seqno 0 in a
//! table of their own, where they mask nothing. Every export counts the metadata that it left behind (`LeftBehind`).
//!
//! `pairing` matches rows in the paper's form (`row`) with the versions that they describe.
//!
//! Holds:  a record that does not match its seal is never exported, and an export that does not match its description
//!         is not imported. Every error names file and offset; a failed import has changed nothing. Expired records are
//!         not exported. A record with an expiry time is not exported or imported where its expiry would be lost,
//!         because it would be kept forever.

pub mod export;
pub mod header;
pub mod import;
mod left_behind;
pub mod pairing;
pub mod row;

pub use export::{ExportRequest, Exported, Policy, export};
pub use header::Manifest;
pub use import::{Imported, import, import_tables};
pub use left_behind::LeftBehind;

use waxseal_lsm::checksum::hash;
use waxseal_lsm::codec::Reader;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::record::{Record, companion};
use waxseal_lsm::seam::Companions;

use crate::annotations::{Annotations, may_have_entries};
use crate::protector::seal_of;
use crate::provider::EXPIRY;
use crate::seal::Seal;

/// The metadata that the tables of an export store with the records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Form {
    /// No metadata.
    Plain = 0,
    /// Seals and the companions that the policy exports.
    Sealed = 1,
    /// Rows of the paper, one per key, which mask nothing.
    PaperSafe = 2,
    /// Rows of the paper, one per version, as the paper writes them.
    PaperLiteral = 3,
}

impl Form {
    fn from_byte(byte: u8) -> Result<Form> {
        [Form::Plain, Form::Sealed, Form::PaperSafe, Form::PaperLiteral]
            .into_iter()
            .find(|form| *form as u8 == byte)
            .ok_or_else(|| Error::structural("an export of no known form"))
    }

    /// Returns how its rows are recognized; `None` if it has no rows.
    fn rows(self) -> Option<row::RowForm> {
        match self {
            Form::Plain | Form::Sealed => None,
            Form::PaperSafe => Some(row::RowForm::Safe),
            Form::PaperLiteral => Some(row::RowForm::Literal),
        }
    }
}

/// Which versions of a key an export contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Versions {
    /// The version that the snapshot sees, if it is a value.
    #[default]
    Newest = 0,
    /// Every existing version up to the snapshot, including tombstones. An expired version is exported as a tombstone,
    /// as it reads.
    All = 1,
}

/// Returns true if the companions contain a seal.
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

/// Returns true if a record has an expiry time, whether or not this store applies it.
fn has_end(companions: &[u8]) -> bool {
    may_have_entries(companions)
        && Annotations::read(companions)
            .and_then(|annotations| annotations.entry(EXPIRY))
            .is_ok_and(|entry| entry.is_some())
}

/// Returns a record's contribution to an export's sum of seals. A record without a seal contributes the seal it would
/// get.
fn term_of(protector: &dyn Companions, record: &Record<'_>) -> u64 {
    let own = protector.term(record);
    if own != 0 {
        return own;
    }
    let whole = Annotations::read(record.companion)
        .and_then(|annotations| seal_of(record.kind, hash(record.key), record.value, &annotations))
        .unwrap_or_else(|_| Seal::of_record(record)); // undecodable companions are not covered
    whole.number()
}
