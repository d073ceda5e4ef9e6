//! The record of a purge of events. docs/format-tables.md, section 6.

use waxseal::Seqno;

use crate::codec::{Reader, put_varint};
use crate::error::Result;
use crate::packed::{VERSION, check_version};

/// A purge of the events that showed values of a purged column. See [`Table::purge_events`](crate::Table::purge_events).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PurgedEvents {
    pub(crate) changed: u64,
    pub(crate) removed: u64,
    /// `None` until the purge has ended.
    pub(crate) end: Option<EventPurgeEnd>,
}

/// The end of a purge of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EventPurgeEnd {
    /// No event of a greater seqno shows a value of the column.
    pub(crate) through: Seqno,
    /// In microseconds since 1970.
    pub(crate) at: i64,
}

impl PurgedEvents {
    /// Returns the number of events whose values lost the column.
    pub fn changed(&self) -> u64 {
        self.changed
    }

    /// Returns the number of removed events: those of entries of the column's indexes.
    pub fn removed(&self) -> u64 {
        self.removed
    }

    /// Returns when the purge ended, in microseconds since 1970; `None` if an error or a crash came before its end.
    pub fn ended_at(&self) -> Option<i64> {
        self.end.map(|end| end.at)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_varint(&mut out, self.changed);
        put_varint(&mut out, self.removed);
        out.push(u8::from(self.end.is_some()));
        if let Some(end) = &self.end {
            put_varint(&mut out, end.through);
            out.extend_from_slice(&end.at.to_le_bytes());
        }
        out
    }

    pub(crate) fn decode(record: &[u8]) -> Result<PurgedEvents> {
        let mut reader = Reader::new(record);
        check_version(reader.u8()?)?;
        let (changed, removed) = (reader.varint()?, reader.varint()?);
        let end = match reader.bool()? {
            true => Some(EventPurgeEnd { through: reader.varint()?, at: i64::from_le_bytes(reader.array()?) }),
            false => None,
        };
        reader.end()?;
        Ok(PurgedEvents { changed, removed, end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_of_events_has_these_bytes() {
        let open = PurgedEvents { changed: 300, removed: 2, end: None };
        assert_eq!(open.encode(), b"\x01\xAC\x02\x02\x00");
        let ended = PurgedEvents { end: Some(EventPurgeEnd { through: 301, at: 258 }), ..open };
        assert_eq!(ended.encode(), b"\x01\xAC\x02\x02\x01\xAD\x02\x02\x01\0\0\0\0\0\0");
        for events in [open, ended] {
            assert_eq!(PurgedEvents::decode(&events.encode()).unwrap(), events);
            let mut cut = events.encode();
            cut.pop();
            assert!(PurgedEvents::decode(&cut).unwrap_err().is_corruption());
        }
        assert_eq!(PurgedEvents::decode(b"\x02").unwrap_err().kind(), crate::ErrorKind::FormatTooNew);
    }
}
