//! The description of a table in the manifest.

use crate::checksum::Uid;
use crate::expiry::Expiries;
use crate::ledger::Ledger;
use crate::record::Seqno;
use crate::sst::Expected;
use crate::values::BlobRef;

/// A table's description in the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableMeta {
    /// The number in its file name.
    pub number: u64,
    /// The file's permanent unique id.
    pub uid: Uid,
    /// Length of the file in bytes.
    pub size: u64,
    /// Smallest user key.
    pub smallest: Vec<u8>,
    /// Largest user key.
    pub largest: Vec<u8>,
    /// Least seqno of a record.
    pub least_seqno: Seqno,
    /// Greatest seqno of a record.
    pub greatest_seqno: Seqno,
    /// Hash of its block checksums, so that an old copy of the file is detected.
    pub digest: u64,
    /// The common seqno of an ingested table's records; 0 for other tables.
    pub ingest_seqno: Seqno,
    /// Counts and sums of its records.
    pub ledger: Ledger,
    /// The value files that it points into, and the part of each that it uses.
    pub values: Vec<BlobRef>,
    /// Expiry times of its records; `None` if no record expires, or if expiry times were not collected.
    pub expiry: Option<Expiries>,
    /// No record of the table is hidden by a range delete up to this seqno. 0 if this is unknown.
    pub cleared_through: Seqno,
    /// True if no record of the table retains another one (`Companions::retains`); false if this is unknown.
    pub retains_nothing: bool,
}

impl TableMeta {
    /// Returns the least seqno of a record, as readers see it.
    pub fn oldest_seqno(&self) -> Seqno {
        if self.ingest_seqno != 0 { self.ingest_seqno } else { self.least_seqno }
    }

    /// Returns what the table's file must agree with.
    pub fn expected(&self) -> Expected {
        let TableMeta { uid, size, digest, ingest_seqno, .. } = *self;
        Expected { uid, size, digest, ingest_seqno }
    }

    /// Returns the length of the file plus the entries that it points to in value files.
    pub fn bytes_with_values(&self) -> u64 {
        self.values.iter().fold(self.size, |bytes, values| bytes.saturating_add(values.bytes))
    }

    /// Returns the seqno by which tables of level 0 are ordered.
    pub fn newest_seqno(&self) -> Seqno {
        if self.ingest_seqno != 0 { self.ingest_seqno } else { self.greatest_seqno }
    }
}
