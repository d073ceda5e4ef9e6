//! Records on their way: owned, so that they can be damaged, and a cursor that shows them as a merge would.

use waxseal_lsm::cursor::Cursor;
use waxseal_lsm::error::Result;
use waxseal_lsm::record::{Kind, MAX_SEQNO, Record, Seqno};
use waxseal_lsm::seam::{Companions, Draft, Protection, Source};

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
    /// A copy.
    pub fn of(record: &Record<'_>) -> Owned {
        let [key, value, companion] = [record.key, record.value, record.companion].map(<[u8]>::to_vec);
        Owned { key, seqno: record.seqno, kind: record.kind, value, companion }
    }

    /// A put as a keeper would have it at this seqno.
    pub fn born(keeper: &dyn Companions, key: &[u8], seqno: Seqno, value: &[u8]) -> Result<Owned> {
        let mut companion = Vec::new();
        keeper.on_write(
            &Draft { family: 0, kind: Kind::Put, key, value, key_hash: None, entries: &[] },
            &mut companion,
        )?;
        keeper.bind(&mut companion, None, seqno);
        Ok(Owned { key: key.to_vec(), seqno, kind: Kind::Put, value: value.to_vec(), companion })
    }

    /// Borrowed.
    pub fn record(&self) -> Record<'_> {
        let Owned { key, seqno, kind, value, companion } = self;
        Record { key, seqno: *seqno, kind: *kind, value, companion }
    }

    /// Flips one bit, chosen by `below`, of key, value, seqno or companion.
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

/// Records as a merge shows them, in the order given, whatever that is. It only goes forward.
#[derive(Debug)]
pub struct Shown {
    records: Vec<Owned>,
    at: usize,
    protection: Protection,
}

impl Shown {
    /// Records of a place that promises companions for each.
    pub fn new(records: Vec<Owned>) -> Shown {
        Shown { records, at: 0, protection: Protection::Complete }
    }

    /// The same of a place that promises something else.
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
    fn source(&self) -> Source<'_> {
        Source { protection: self.protection, ..Source::default() }
    }
}
