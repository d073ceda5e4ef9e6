//! Copies of keys and records that a cursor has left.

use std::io;

use crate::error::{IoContext, Result};
use crate::order::{Lead, Order};
use crate::record::{Kind, Record, Seqno};

/// A user key that is decided: its other versions are skipped. A key fully represented by its lead is not copied.
#[derive(Debug, Default)]
pub(super) struct SeenKey {
    lead: Option<Lead>,
    bytes: Vec<u8>,
}

impl SeenKey {
    /// Replaces the remembered key by another, given with its lead.
    #[inline]
    pub(super) fn set(&mut self, lead: Lead, key: &[u8]) {
        self.set_by(lead, || key);
    }

    /// Replaces the remembered key; `key` is called only if the lead does not represent the whole key.
    #[inline]
    pub(super) fn set_by<'a>(&mut self, lead: Lead, key: impl FnOnce() -> &'a [u8]) {
        if !lead.is_whole() {
            self.bytes.clear();
            self.bytes.extend_from_slice(key());
        }
        self.lead = Some(lead);
    }

    /// Forgets the key.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.lead = None;
    }

    /// True if a key with this lead equals the remembered one in the order.
    #[inline]
    pub(super) fn is(&self, order: &Order, lead: &Lead, key: &[u8]) -> bool {
        let Some(seen) = &self.lead else { return false };
        match seen.compare(lead) {
            Some(decided) => decided.is_eq(),
            None => order.compare(&self.bytes, key).is_eq(),
        }
    }
}

/// A record that the inner cursor has left, in reusable buffers.
#[derive(Debug)]
pub(super) struct SavedRecord {
    /// Key, value and companions, back to back.
    bytes: Vec<u8>,
    key_len: usize,
    value_len: usize,
    seqno: Seqno,
    kind: Kind,
}

impl Default for SavedRecord {
    fn default() -> SavedRecord {
        SavedRecord { bytes: Vec::new(), key_len: 0, value_len: 0, seqno: 0, kind: Kind::Delete }
    }
}

impl SavedRecord {
    /// Replaces the record by a copy of another. Returns `Io` if the memory is not available.
    pub(super) fn set(&mut self, record: &Record<'_>) -> Result<()> {
        self.bytes.clear();
        let length = record.key.len() + record.value.len() + record.companion.len();
        self.bytes.try_reserve(length).map_err(|_| io::ErrorKind::OutOfMemory.into()).during(|| "copying a record")?;
        self.bytes.extend_from_slice(record.key);
        self.bytes.extend_from_slice(record.value);
        self.bytes.extend_from_slice(record.companion);
        (self.key_len, self.value_len) = (record.key.len(), record.value.len());
        (self.seqno, self.kind) = (record.seqno, record.kind);
        Ok(())
    }

    pub(super) fn record(&self) -> Record<'_> {
        let (key, rest) = self.bytes.split_at(self.key_len);
        let (value, companion) = rest.split_at(self.value_len);
        Record { key, seqno: self.seqno, kind: self.kind, value, companion }
    }
}
