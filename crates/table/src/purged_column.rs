//! The record of a purged column. docs/format-tables.md, section 6.

use waxseal::Seqno;

use crate::codec::{Reader, put_bytes, put_varint};
use crate::error::Result;
use crate::index::IndexId;
use crate::packed::{ColumnId, VERSION, check_version};

/// A column whose values were removed from all files of its table in a store. See
/// [`Table::purged_columns`](crate::Table::purged_columns).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PurgedColumn {
    pub(crate) id: ColumnId,
    pub(crate) name: String,
    /// No record of a greater seqno has a value of the column.
    pub(crate) through: Seqno,
    /// The indexes that the column was in.
    pub(crate) indexes: Vec<IndexId>,
    /// In microseconds since 1970.
    pub(crate) purged_at: i64,
    /// When no copy was left, in microseconds since 1970.
    pub(crate) certified_at: Option<i64>,
}

impl PurgedColumn {
    /// Returns the id that the column had. No other column of the table ever gets it.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns the last name of the column.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the sequence number of the store after which no record has a value of the column: that of the purge.
    pub fn through(&self) -> Seqno {
        self.through
    }

    /// Returns when the purge ended, in microseconds since 1970.
    pub fn purged_at(&self) -> i64 {
        self.purged_at
    }

    /// Returns when its [certificate](crate::Table::certificate) was issued, in microseconds since 1970; `None` without
    /// one.
    pub fn certified_at(&self) -> Option<i64> {
        self.certified_at
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_bytes(&mut out, self.name.as_bytes());
        put_varint(&mut out, self.through);
        put_varint(&mut out, self.indexes.len() as u64);
        self.indexes.iter().for_each(|index| put_varint(&mut out, u64::from(*index)));
        out.extend_from_slice(&self.purged_at.to_le_bytes());
        out.push(u8::from(self.certified_at.is_some()));
        self.certified_at.iter().for_each(|at| out.extend_from_slice(&at.to_le_bytes()));
        out
    }

    pub(crate) fn decode(id: ColumnId, record: &[u8]) -> Result<PurgedColumn> {
        let mut reader = Reader::new(record);
        check_version(reader.u8()?)?;
        let (name, through) = (reader.text()?.to_owned(), reader.varint()?);
        let indexes = (0..reader.count()?).map(|_| reader.varint_u32()).collect::<Result<_>>()?;
        let purged_at = i64::from_le_bytes(reader.array()?);
        let certified_at = if reader.bool()? { Some(i64::from_le_bytes(reader.array()?)) } else { None };
        reader.end()?;
        Ok(PurgedColumn { id, name, through, indexes, purged_at, certified_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purged_column_has_these_bytes() {
        let open = PurgedColumn {
            id: 3,
            name: "genre".to_owned(),
            through: 300,
            indexes: vec![1, 200],
            purged_at: -2,
            certified_at: None,
        };
        let bytes = b"\x01\x05genre\xAC\x02\x02\x01\xC8\x01\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x00";
        assert_eq!(open.encode(), bytes);
        let certified = PurgedColumn { certified_at: Some(258), ..open.clone() };
        assert_eq!(certified.encode(), [&bytes[..bytes.len() - 1], b"\x01\x02\x01\0\0\0\0\0\0"].concat());
        for column in [open, certified] {
            assert_eq!(PurgedColumn::decode(3, &column.encode()).unwrap(), column);
            let mut cut = column.encode();
            cut.pop();
            assert!(PurgedColumn::decode(3, &cut).unwrap_err().is_corruption());
        }
        assert_eq!(PurgedColumn::decode(3, b"\x02").unwrap_err().kind(), crate::ErrorKind::FormatTooNew);
    }
}
