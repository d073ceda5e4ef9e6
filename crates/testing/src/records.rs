//! Owned records that can be damaged in transit, and a cursor that returns them like a merge.

use waxseal_lsm::cursor::Cursor;
use waxseal_lsm::error::Result;
use waxseal_lsm::record::{Kind, MAX_SEQNO, Record, Seqno};
use waxseal_lsm::seam::{Companions, PendingWrite, Protection, RecordSource};

/// A record that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the parts of a record")]
pub struct Owned {
    pub key: Vec<u8>,
    pub seqno: Seqno,
    pub kind: Kind,
    pub value: Vec<u8>,
    pub companion: Vec<u8>,
}

impl Owned {
    /// Copies a record.
    pub fn of(record: &Record<'_>) -> Owned {
        let [key, value, companion] = [record.key, record.value, record.companion].map(<[u8]>::to_vec);
        Owned { key, seqno: record.seqno, kind: record.kind, value, companion }
    }

    /// Creates a put with the protector's companions at this seqno.
    pub fn born(protector: &dyn Companions, key: &[u8], seqno: Seqno, value: &[u8]) -> Result<Owned> {
        Owned::made(protector, Kind::Put, key, seqno, value)
    }

    /// Creates a record with the protector's companions at this seqno.
    pub fn made(protector: &dyn Companions, kind: Kind, key: &[u8], seqno: Seqno, value: &[u8]) -> Result<Owned> {
        let mut companion = Vec::new();
        let pending = PendingWrite { family: 0, kind, key, value, key_hash: None, entries: &[] };
        protector.on_write(&pending, &mut companion)?;
        protector.bind(&mut companion, None, seqno);
        Ok(Owned { key: key.to_vec(), seqno, kind, value: value.to_vec(), companion })
    }

    /// Borrows the record.
    pub fn record(&self) -> Record<'_> {
        let Owned { key, seqno, kind, value, companion } = self;
        Record { key, seqno: *seqno, kind: *kind, value, companion }
    }

    /// Flips one bit of key, value, seqno or companions; `below` chooses it.
    pub fn flip(&mut self, mut below: impl FnMut(u64) -> u64) {
        let [key, value, companion] = [&self.key, &self.value, &self.companion].map(|part| part.len() as u64 * 8);
        let mut bit = below(key + value + companion + 56);
        for part in [&mut self.key, &mut self.value, &mut self.companion] {
            let bits = part.len() as u64 * 8;
            if bit < bits {
                part[(bit / 8) as usize] ^= 1 << (bit % 8);
                return;
            }
            bit -= bits;
        }
        self.seqno = (self.seqno ^ 1 << bit) & MAX_SEQNO;
    }
}

/// A forward cursor over records in the given order, even an invalid one.
#[derive(Debug)]
pub struct Shown {
    records: Vec<Owned>,
    at: usize,
    protection: Protection,
}

impl Shown {
    /// Creates a cursor whose source guarantees companions for each record.
    pub fn new(records: Vec<Owned>) -> Shown {
        Shown { records, at: 0, protection: Protection::Complete }
    }

    /// Returns the cursor with another guarantee of its source.
    #[must_use]
    pub fn from_place(self, protection: Protection) -> Shown {
        Shown { protection, ..self }
    }
}

impl Cursor for Shown {
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        let before = |record: &&Owned| (&record.key[..], u64::MAX - record.seqno) < (key, u64::MAX - seqno);
        self.at = self.records.iter().take_while(before).count();
        Ok(())
    }
    fn seek_for_prev(&mut self, _: &[u8], _: Seqno) -> Result<()> {
        self.last()
    }
    fn first(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }
    fn last(&mut self) -> Result<()> {
        self.at = self.records.len().saturating_sub(1);
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        self.at = self.at.checked_sub(1).unwrap_or(self.records.len());
        Ok(())
    }
    fn valid(&self) -> bool {
        self.at < self.records.len()
    }
    fn record(&self) -> Record<'_> {
        self.records[self.at].record()
    }
    fn source(&self) -> RecordSource<'_> {
        RecordSource { protection: self.protection, ..RecordSource::default() }
    }
}
