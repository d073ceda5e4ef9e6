//! What a cursor must remember of records that it has left.

use crate::order::{Lead, Order};
use crate::record::{Kind, Record, Seqno};

/// A user key that was dealt with: its other versions are to be passed over. Keys that their lead stands for are not copied.
#[derive(Debug, Default)]
pub(super) struct SeenKey {
    lead: Option<Lead>,
    bytes: Vec<u8>,
}

impl SeenKey {
    /// Remembers a key, with its lead, instead of the one before.
    #[inline]
    pub(super) fn set(&mut self, lead: Lead, key: &[u8]) {
        self.set_by(lead, || key);
    }

    /// The same, with a key that is asked for only if its lead does not stand for it.
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

    /// True if a key with this lead is the one remembered, as the order sees it.
    #[inline]
    pub(super) fn is(&self, order: &Order, lead: &Lead, key: &[u8]) -> bool {
        let Some(seen) = &self.lead else { return false };
        match seen.compare(lead) {
            Some(decided) => decided.is_eq(),
            None => order.compare(&self.bytes, key).is_eq(),
        }
    }
}

/// A record that the cursor below has left, in buffers that are used again.
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
    pub(super) fn set(&mut self, record: &Record<'_>) {
        self.bytes.clear();
        self.bytes.extend_from_slice(record.key);
        self.bytes.extend_from_slice(record.value);
        self.bytes.extend_from_slice(record.companion);
        (self.key_len, self.value_len) = (record.key.len(), record.value.len());
        (self.seqno, self.kind) = (record.seqno, record.kind);
    }

    pub(super) fn record(&self) -> Record<'_> {
        let (key, rest) = self.bytes.split_at(self.key_len);
        let (value, companion) = rest.split_at(self.value_len);
        Record { key, seqno: self.seqno, kind: self.kind, value, companion }
    }
}
