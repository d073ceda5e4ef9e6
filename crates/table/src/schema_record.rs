//! The record of a table's schema. docs/format-tables.md, section 6.

use crate::codec::{Reader, put_bytes, put_varint};
use crate::error::{Error, Result};
use crate::index::{IndexInfo, IndexState};
use crate::key::SortOrder;
use crate::packed::{VERSION, check_version};
use crate::schema::{Column, ColumnRole, ColumnState, Group, Partitioning, Schema, TableName};
use crate::types::ColumnType;

/// Identifies a table. A dropped table's id is never used again.
pub(crate) type TableId = u32;

/// A table as the catalogue has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TableRecord {
    pub(crate) id: TableId,
    pub(crate) name: TableName,
    pub(crate) schema: Schema,
}

impl TableRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        let schema = &self.schema;
        put_varint(&mut out, u64::from(self.id));
        put_varint(&mut out, schema.version);
        put_bytes(&mut out, self.name.keyspace.as_bytes());
        put_bytes(&mut out, self.name.table.as_bytes());
        out.push(u8::from(schema.partitioning == Partitioning::Hashed));
        out.push(u8::from(schema.has_dynamic_columns));
        put_varint(&mut out, u64::from(schema.next_column));
        put_varint(&mut out, u64::from(schema.next_group));
        put_varint(&mut out, schema.columns.len() as u64);
        schema.columns.iter().for_each(|column| put_column(&mut out, column));
        put_varint(&mut out, schema.groups.len() as u64);
        for group in &schema.groups {
            put_varint(&mut out, u64::from(group.id));
            put_bytes(&mut out, group.name.as_bytes());
            out.push(u8::from(group.is_repeated));
        }
        put_varint(&mut out, u64::from(schema.next_index));
        put_varint(&mut out, schema.indexes.len() as u64);
        schema.indexes.iter().for_each(|index| put_index(&mut out, index));
        out
    }

    pub(crate) fn decode(record: &[u8]) -> Result<TableRecord> {
        let mut reader = Reader::new(record);
        check_version(reader.u8()?)?;
        let (id, version) = (reader.varint_u32()?, reader.varint()?);
        let name = TableName { keyspace: reader.text()?.to_owned(), table: reader.text()?.to_owned() };
        let partitioning = if reader.choice("partitioning")? { Partitioning::Hashed } else { Partitioning::Ordered };
        let has_dynamic_columns = reader.choice("dynamic columns of kind")?;
        let (next_column, next_group) = (reader.varint_u32()?, take_u16(&mut reader)?);
        let columns = (0..reader.count()?).map(|_| take_column(&mut reader)).collect::<Result<Vec<_>>>()?;
        let groups = (0..reader.count()?).map(|_| take_group(&mut reader)).collect::<Result<Vec<_>>>()?;
        let next_index = reader.varint_u32()?;
        let indexes = (0..reader.count()?).map(|_| take_index(&mut reader)).collect::<Result<Vec<_>>>()?;
        reader.end()?;
        let schema = Schema {
            version,
            partitioning,
            has_dynamic_columns,
            columns,
            groups,
            next_column,
            next_group,
            indexes,
            next_index,
        };
        schema.check().map_err(|error| Error::corruption(format!("a schema that is none: {error}")))?;
        let is_known = |column: &Column| schema.groups.iter().any(|group| group.id == column.group);
        if !schema.columns.iter().all(|column| is_known(column) && (1..next_column).contains(&column.id)) {
            return Err(Error::corruption("a schema with a column of an unknown group or with an unused id"));
        }
        if !schema.indexes.iter().all(|index| (1..next_index).contains(&index.id)) {
            return Err(Error::corruption("a schema with an index of an unused id"));
        }
        Ok(TableRecord { id, name, schema })
    }
}

const VALUE: u8 = 0;
const PARTITION: u8 = 1;
const CLUSTERING: u8 = 2;
const CLUSTERING_DESCENDING: u8 = 3;

const ACTIVE: u8 = 0;
const TENTATIVE: u8 = 1;
const PURGING: u8 = 2;

fn put_column(out: &mut Vec<u8>, column: &Column) {
    put_varint(out, u64::from(column.id));
    put_bytes(out, column.name.as_bytes());
    column.ty.encode(out);
    out.push(match column.role {
        ColumnRole::Value => VALUE,
        ColumnRole::Partition => PARTITION,
        ColumnRole::Clustering(SortOrder::Ascending) => CLUSTERING,
        ColumnRole::Clustering(SortOrder::Descending) => CLUSTERING_DESCENDING,
    });
    put_varint(out, u64::from(column.group));
    match column.state {
        ColumnState::Active => out.push(ACTIVE),
        ColumnState::Tentative(deadline) => {
            out.push(TENTATIVE);
            out.extend_from_slice(&deadline.to_le_bytes());
        }
        ColumnState::Purging => out.push(PURGING),
    }
}

fn take_column(reader: &mut Reader<'_>) -> Result<Column> {
    let (id, name, ty) = (reader.varint_u32()?, reader.text()?.to_owned(), ColumnType::decode(reader)?);
    let role = match reader.u8()? {
        VALUE => ColumnRole::Value,
        PARTITION => ColumnRole::Partition,
        CLUSTERING => ColumnRole::Clustering(SortOrder::Ascending),
        CLUSTERING_DESCENDING => ColumnRole::Clustering(SortOrder::Descending),
        newer => return Err(Error::too_new(format!("a column of role {newer}"))),
    };
    let group = take_u16(reader)?;
    let state = match reader.u8()? {
        ACTIVE => ColumnState::Active,
        TENTATIVE => ColumnState::Tentative(i64::from_le_bytes(reader.array()?)),
        PURGING => ColumnState::Purging,
        newer => return Err(Error::too_new(format!("a column in state {newer}"))),
    };
    Ok(Column { id, name, ty, role, group, state })
}

const UNIQUE: u8 = 1;
const HAS_MISSING: u8 = 2;

fn put_index(out: &mut Vec<u8>, index: &IndexInfo) {
    put_varint(out, u64::from(index.id));
    put_bytes(out, index.name.as_bytes());
    out.push(if index.is_unique { UNIQUE } else { 0 } | if index.has_missing { HAS_MISSING } else { 0 });
    out.push(u8::from(index.state == IndexState::Public));
    put_varint(out, index.columns.len() as u64);
    for (column, order) in &index.columns {
        put_varint(out, u64::from(*column));
        out.push(u8::from(*order == SortOrder::Descending));
    }
}

fn take_index(reader: &mut Reader<'_>) -> Result<IndexInfo> {
    let (id, name, flags) = (reader.varint_u32()?, reader.text()?.to_owned(), reader.u8()?);
    if flags > (UNIQUE | HAS_MISSING) {
        return Err(Error::too_new(format!("an index with the flags {flags}")));
    }
    let state = if reader.choice("an index in state")? { IndexState::Public } else { IndexState::Building };
    let column = |reader: &mut Reader<'_>| {
        let id = reader.varint_u32()?;
        Ok((id, if reader.choice("an index in the order")? { SortOrder::Descending } else { SortOrder::Ascending }))
    };
    let columns = (0..reader.count()?).map(|_| column(reader)).collect::<Result<_>>()?;
    let (is_unique, has_missing) = (flags & UNIQUE != 0, flags & HAS_MISSING != 0);
    Ok(IndexInfo { id, name, columns, is_unique, has_missing, state })
}

fn take_group(reader: &mut Reader<'_>) -> Result<Group> {
    Ok(Group { id: take_u16(reader)?, name: reader.text()?.to_owned(), is_repeated: reader.choice("a group of kind")? })
}

fn take_u16(reader: &mut Reader<'_>) -> Result<u16> {
    u16::try_from(reader.varint()?).map_err(|_| Error::corruption("the record holds a number beyond 16 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Index;
    use crate::values_for_tests::any_type;
    use proptest::prelude::*;

    #[test]
    fn a_schema_has_these_bytes() {
        let schema = Schema::new()
            .partition_key("author", ColumnType::Text)
            .clustering_key_descending("year", ColumnType::I32)
            .column("price", ColumnType::Decimal { precision: 9, scale: 2 })
            .column_in("text", "body", ColumnType::Bytes)
            .index(Index::on("by_price", ["price"]).descending("year").unique())
            .hashed();
        let name = TableName::parse("lib.books").unwrap();
        let mut record = TableRecord { id: 7, name, schema };
        record.schema.columns[2].state = ColumnState::Tentative(-2);
        let expected = [
            &b"\x01\x07\x01\x03lib\x05books\x01\x00\x05\x02"[..],
            b"\x04\x01\x06author\x02\x01\x00\x00\x02\x04year\x04\x03\x00\x00",
            b"\x03\x05price\x09\x09\x02\x00\x00\x01\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
            b"\x04\x04body\x01\x00\x01\x00",
            b"\x02\x00\x07default\x00\x01\x04text\x00",
            b"\x02\x01\x01\x08by_price\x01\x01\x02\x03\x00\x02\x01",
        ];
        assert_eq!(record.encode(), expected.concat());
        assert_eq!(TableRecord::decode(&record.encode()).unwrap(), record);
    }

    #[test]
    fn what_a_newer_version_has_added_to_schemas_is_no_damage() {
        let schema = Schema::new()
            .partition_key("k", ColumnType::I32)
            .column("v", ColumnType::Text)
            .index(Index::on("i", ["v"]));
        let bytes = TableRecord { id: 7, name: TableName::parse("a.b").unwrap(), schema }.encode();
        let expected = [
            &b"\x01\x07\x01\x01a\x01b\x00\x00\x03\x01\x02"[..],
            b"\x01\x01k\x04\x01\x00\x00\x02\x01v\x02\x00\x00\x00",
            b"\x01\x00\x07default\x00\x02\x01\x01\x01i\x00\x01\x01\x02\x00",
        ];
        assert_eq!(bytes, expected.concat());
        // Partitioning, dynamic columns, a type, a role, a state, a group, and an index: flags, state and order.
        for at in [7, 8, 15, 22, 23, 25, 36, 42, 43, 46] {
            let mut newer = bytes.clone();
            newer[at] = 0x80;
            let error = TableRecord::decode(&newer).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::FormatTooNew, "byte {at}: {error}");
        }
        let mut damaged = bytes.clone();
        damaged[15] = 0;
        assert!(TableRecord::decode(&damaged).unwrap_err().is_corruption());
    }

    proptest! {
        #[test]
        fn schemas_are_read_back(types in prop::collection::vec(any_type(), 0..5), hashed: bool, dynamic: bool) {
            let mut schema = Schema::new().partition_key("key", ColumnType::U64).repeated_group("pages");
            for (number, ty) in types.into_iter().enumerate() {
                let group = ["default", "other", "pages"][number % 3];
                schema = schema.column_in(group, &format!("c{number}"), ty);
            }
            schema.has_dynamic_columns = dynamic;
            let schema = if hashed { schema.hashed() } else { schema };
            let record = TableRecord { id: 1, name: TableName::parse("a.b").unwrap(), schema };
            prop_assert_eq!(TableRecord::decode(&record.encode()).unwrap(), record);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(0u8..20, 0..60)) {
            if let Ok(record) = TableRecord::decode(&[&[VERSION], &bytes[..]].concat()) {
                prop_assert_eq!(&record.encode()[1..], &bytes[..]);
            }
        }
    }
}
