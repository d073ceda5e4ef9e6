//! How the rows of a table are records: the keys of records, and which columns each record has. docs/format-tables.md,
//! section 5.
//!
//! ```text
//! row key                              group 0, which marks the row
//! row key, group id                    another group
//! row key, group id, name of entry     an entry of a repeated group
//! row key, FFFF, name of column        a dynamic column
//! ```
//!
//! No row key is the beginning of another one. The records of a row therefore are neighbors, group 0 first.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::changes::{Change, Changes};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Filter;
use crate::index::{IndexEntry, IndexInfo, IndexState, entry_of, put_part};
use crate::key::{KeyPart, SortOrder};
use crate::packed::{Packer, columns, pack_single, unpack_single};
use crate::row::{GroupEntry, Row};
use crate::schema::{Column, ColumnRole, ColumnState, DEFAULT_GROUP, Group, GroupId, Partitioning};
use crate::schema_record::TableRecord;
use crate::selection::Selection;
use crate::value::Value;

/// The group id of dynamic columns.
const DYNAMIC: GroupId = GroupId::MAX;

/// Bytes of the hash in front of a hashed partition.
pub(crate) const TOKEN_BYTES: usize = 8;

/// A table's schema, prepared for encoding and decoding rows.
pub(crate) struct Layout {
    pub(crate) record: TableRecord,
    /// The parts of the row key, in order. The columns of the schema begin with them.
    pub(crate) parts: Vec<KeyPart>,
    /// The number of parts that are of the partition key.
    pub(crate) partition_parts: usize,
    /// The columns' names, in the order of the schema.
    names: Vec<Arc<str>>,
    /// Columns by name, dropped ones included: indexes into the schema's columns.
    by_name: HashMap<Arc<str>, usize>,
    /// Columns by id, invisible ones included.
    by_id: HashMap<u32, usize>,
    /// The value columns of each group, in the order of their ids: indexes into the schema's columns.
    groups: Vec<GroupLayout>,
    /// The indexes that writes maintain, those over hidden columns included.
    pub(crate) indexes: Vec<IndexLayout>,
    /// Names of columns that a change of the schema is about to add. No write makes a dynamic column of them.
    pub(crate) reserved: Vec<String>,
}

/// An index and its columns.
pub(crate) struct IndexLayout {
    pub(crate) info: IndexInfo,
    pub(crate) parts: Vec<KeyPart>,
    /// Indexes into the schema's columns.
    pub(crate) columns: Vec<usize>,
}

impl IndexLayout {
    /// Returns the entry of a row with these values, by the index of the column in the schema.
    pub(crate) fn entry(&self, values: &[Option<Value>], row_key: &[u8]) -> Result<Option<IndexEntry>> {
        let own: Vec<Option<Value>> = self.columns.iter().map(|column| values[*column].clone()).collect();
        entry_of(&self.info, &self.parts, &own, row_key)
    }

    /// Returns the beginning of the keys of the entries that have these values. A null is a missing value.
    pub(crate) fn entry_prefix(&self, values: &[Value]) -> Result<Vec<u8>> {
        let mut key = self.info.prefix().to_vec();
        for (part, value) in self.parts.iter().zip(values) {
            put_part(&mut key, part, Some(value).filter(|value| !value.is_null()))?;
        }
        Ok(key)
    }
}

/// A group and its columns.
struct GroupLayout {
    group: Group,
    name: Arc<str>,
    columns: Vec<usize>,
}

/// The records that make up a row.
pub(crate) struct EncodedRow {
    pub(crate) key: Vec<u8>,
    /// Group 0 first.
    pub(crate) records: Vec<EncodedRecord>,
    /// Groups that the row has no record of.
    pub(crate) absent: Vec<Vec<u8>>,
    /// The values by column, in the order of the schema, for the indexes.
    pub(crate) values: Vec<Option<Value>>,
}

/// A record of a row.
pub(crate) struct EncodedRecord {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// The group, for its expiry.
    pub(crate) group: GroupId,
}

/// A change of one record of a row.
pub(crate) struct RecordChange {
    /// The record's key behind the row key.
    pub(crate) suffix: Vec<u8>,
    pub(crate) group: GroupId,
    pub(crate) content: ContentChange,
}

impl RecordChange {
    /// Returns true unless the record is an entry of a repeated group or a dynamic column.
    pub(crate) fn is_of_row(&self) -> bool {
        self.suffix.len() <= 2
    }
}

/// New content of a record.
pub(crate) enum ContentChange {
    /// Columns get these values, by their index in the schema. A null removes one.
    Columns(BTreeMap<usize, Value>),
    /// The record is replaced by one of these columns.
    Replace(BTreeMap<usize, Value>),
    /// The record of a dynamic column gets this value.
    Single(Value),
    /// The record is deleted.
    Remove,
}

impl Layout {
    pub(crate) fn new(record: TableRecord) -> Layout {
        let all = &record.schema.columns;
        let key_columns = all.iter().take_while(|column| column.role.is_key());
        let part = |column: &Column| KeyPart {
            ty: column.ty.clone(),
            order: match column.role {
                ColumnRole::Clustering(order) => order,
                ColumnRole::Partition | ColumnRole::Value => SortOrder::Ascending,
            },
        };
        let parts = key_columns.map(part).collect();
        let partition_parts = all.iter().filter(|column| column.role == ColumnRole::Partition).count();
        let names: Vec<Arc<str>> = all.iter().map(|column| Arc::from(column.name.as_str())).collect();
        let by_name = names.iter().cloned().zip(0..).collect();
        let by_id = all.iter().map(|column| column.id).zip(0..).collect();
        let groups = record.schema.groups.iter().map(|group| {
            let is_here = |index: &usize| !all[*index].role.is_key() && all[*index].group == group.id;
            let mut columns: Vec<usize> = (0..all.len()).filter(is_here).collect();
            columns.sort_by_key(|index| all[*index].id);
            GroupLayout { group: group.clone(), name: Arc::from(group.name.as_str()), columns }
        });
        let groups = groups.collect();
        let index_layout = |info: &IndexInfo| {
            let columns: Vec<usize> = info.columns.iter().filter_map(|(id, _)| by_id_of(all, *id)).collect();
            let part = |(index, (_, order)): (&usize, &(u32, SortOrder))| KeyPart {
                ty: all[*index].ty.clone(),
                order: *order,
            };
            let parts = columns.iter().zip(&info.columns).map(part).collect();
            IndexLayout { info: info.clone(), parts, columns }
        };
        let indexes = record.schema.indexes.iter().map(index_layout).collect();
        Layout { parts, partition_parts, names, by_name, by_id, groups, indexes, reserved: Vec::new(), record }
    }

    /// Returns the name of a column, shared with the rows that are read.
    pub(crate) fn name(&self, index: usize) -> &Arc<str> {
        &self.names[index]
    }

    pub(crate) fn column(&self, index: usize) -> &Column {
        &self.record.schema.columns[index]
    }

    /// Returns the index of a visible column.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied().filter(|index| self.column(*index).is_active())
    }

    /// Fails with `NotFound` unless rows may have a dynamic column of this name. No visible column has it.
    fn check_undefined(&self, name: &str) -> Result<()> {
        match self.by_name.contains_key(name) {
            true => Err(Error::of(ErrorKind::NotFound, format!("column {name:?} was dropped"))),
            false if self.record.schema.has_dynamic_columns => Ok(()),
            false => Err(no_column(name)),
        }
    }

    /// Fails unless a write may make a dynamic column of this name. Errors: those of `check_undefined`; `InUse` for the name
    /// of a column that a change of the schema is adding.
    fn check_dynamic_name(&self, name: &str) -> Result<()> {
        self.check_undefined(name)?;
        match self.reserved.iter().any(|reserved| reserved == name) {
            true => Err(Error::of(ErrorKind::InUse, format!("column {name:?} is being added: write it again then"))),
            false => Ok(()),
        }
    }

    /// Returns a repeated group by its name.
    fn repeated_group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().map(|layout| &layout.group).find(|group| group.is_repeated && group.name == name)
    }

    /// Returns the id of a group, by its name. Dynamic columns are the group `dynamic`.
    pub(crate) fn group_by_name(&self, name: &str) -> Option<GroupId> {
        match self.groups.iter().map(|layout| &layout.group).find(|group| group.name == name) {
            None if name == "dynamic" && self.record.schema.has_dynamic_columns => Some(DYNAMIC),
            found => found.map(|group| group.id),
        }
    }

    /// Returns the ids of all groups but group 0 that are not repeated.
    pub(crate) fn single_groups(&self) -> impl Iterator<Item = GroupId> {
        let is_single = |group: &&Group| !group.is_repeated && group.id != DEFAULT_GROUP;
        self.groups.iter().map(|layout| &layout.group).filter(is_single).map(|group| group.id)
    }

    /// Returns the selection of all visible columns.
    pub(crate) fn select_all(&self) -> Selection {
        let columns = self.record.schema.columns.iter().map(Column::is_active).collect();
        Selection { columns, wants_key: true, is_beyond_default: !self.is_single_record(), names: None }
    }

    /// Returns the selection of the columns that are indexed, hidden ones included.
    pub(crate) fn select_indexed(&self) -> Selection {
        let mut columns = vec![false; self.names.len()];
        self.indexes.iter().flat_map(|index| &index.columns).for_each(|index| columns[*index] = true);
        let is_beyond = |(index, wanted): (usize, &bool)| *wanted && self.column(index).group != DEFAULT_GROUP;
        let is_beyond_default = columns.iter().enumerate().any(is_beyond);
        Selection { columns, wants_key: true, is_beyond_default, names: Some(HashSet::new()) }
    }

    /// Returns the values of columns of a row, by their index in the schema.
    pub(crate) fn values_of(&self, row: Row) -> Vec<Option<Value>> {
        let mut values = vec![None; self.names.len()];
        for (name, value) in row.columns {
            if let Some(index) = self.names.iter().position(|own| *own == name) {
                values[index] = Some(value);
            }
        }
        values
    }

    /// Returns the selection of columns and repeated groups by name. Errors: `NotFound` for an unknown name.
    pub(crate) fn select<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<Selection> {
        let all = &self.record.schema.columns;
        let mut columns = vec![false; all.len()];
        let (mut others, mut is_beyond_default, mut wants_key) = (HashSet::new(), false, false);
        for name in names {
            if let Some(index) = self.find(name) {
                columns[index] = true;
                wants_key |= all[index].role.is_key();
                is_beyond_default |= all[index].group != DEFAULT_GROUP;
                others.extend(self.repeated_group_of(index).map(|group| group.name.clone()));
                continue;
            }
            match self.repeated_group(name) {
                Some(group) => {
                    let of_group = all.iter().map(|column| column.group == group.id && column.is_active());
                    columns.iter_mut().zip(of_group).for_each(|(wanted, is_here)| *wanted |= is_here);
                }
                None => self.check_undefined(name)?,
            }
            others.insert(name.to_owned());
            is_beyond_default = true;
        }
        Ok(Selection { columns, wants_key, is_beyond_default, names: Some(others) })
    }

    /// Returns a condition whose values have the types of their columns. Errors: `Invalid` for a value that does not
    /// fit; `NotFound` for an unknown column.
    pub(crate) fn checked(&self, condition: Option<Filter>) -> Result<Option<Filter>> {
        let type_of = |name: &str| match self.find(name) {
            Some(index) if self.repeated_group_of(index).is_some() => {
                Err(Error::invalid(format!("column {name:?} is of a repeated group, and conditions are on rows")))
            }
            Some(index) => Ok(Some(&self.column(index).ty)),
            None => self.check_undefined(name).map(|()| None),
        };
        condition.map(|condition| condition.resolve(&type_of)).transpose()
    }

    /// Returns true if two rows have the same columns and entries, whatever their order.
    pub(crate) fn are_equal(&self, one: Option<&Row>, other: Option<&Row>) -> bool {
        let (Some(one), Some(other)) = (one, other) else { return one.is_none() && other.is_none() };
        let have_same = |one: &[(Arc<str>, Value)], other: &[(Arc<str>, Value)]| {
            let has = |(name, value): &(Arc<str>, Value)| {
                let found = other.iter().find(|(own, _)| own == name).map(|(_, value)| value);
                let fitting = self.find(name).map(|index| value.clone().into_type(&self.column(index).ty));
                match (found, fitting) {
                    (Some(found), Some(Ok(fitting))) => *found == fitting,
                    (Some(found), None) => found == value,
                    _ => false,
                }
            };
            one.len() == other.len() && one.iter().all(has)
        };
        let has_entry = |entry: &GroupEntry| {
            let mut found = one.entries.iter().filter(|own| own.group == entry.group && own.name == entry.name);
            found.next().is_some_and(|found| have_same(&entry.columns, &found.columns))
        };
        have_same(&other.columns, &one.columns)
            && one.entries.len() == other.entries.len()
            && other.entries.iter().all(has_entry)
    }

    /// Returns true if a row may have records that the schema does not number.
    pub(crate) fn is_open_ended(&self) -> bool {
        self.record.schema.has_dynamic_columns || self.groups.iter().any(|layout| layout.group.is_repeated)
    }

    /// Returns true if every row is one record.
    pub(crate) fn is_single_record(&self) -> bool {
        self.groups.len() == 1 && !self.record.schema.has_dynamic_columns
    }

    /// Returns true if a write of a whole row is a put of one record that needs no read.
    pub(crate) fn is_blind(&self) -> bool {
        self.is_single_record() && self.indexes.is_empty()
    }

    /// Returns an index over visible columns by its name. While an index is rebuilt, its old entries are read.
    pub(crate) fn index(&self, name: &str) -> Option<&IndexLayout> {
        let is_visible = |index: &&IndexLayout| index.columns.iter().all(|column| self.column(*column).is_active());
        let named = || self.indexes.iter().filter(is_visible).filter(|index| index.info.name == name);
        named().find(|index| index.info.state == IndexState::Public).or_else(|| named().next())
    }

    pub(crate) fn is_hashed(&self) -> bool {
        self.record.schema.partitioning == Partitioning::Hashed
    }

    /// Returns the bytes of the first parts of a key: of all rows that have these values. A hashed table needs the
    /// whole partition key.
    pub(crate) fn key_prefix(&self, values: &[Value]) -> Result<Vec<u8>> {
        if values.len() > self.parts.len() {
            let (found, most) = (values.len(), self.parts.len());
            return Err(Error::invalid(format!("the key has {most} columns, and {found} values were given")));
        }
        let mut key = Vec::with_capacity(32);
        if self.is_hashed() {
            key.resize(TOKEN_BYTES, 0);
        }
        for (index, (part, value)) in self.parts.iter().zip(values).enumerate() {
            part.put(&mut key, value).map_err(|error| self.in_column(index, &error))?;
            if self.is_hashed() && index + 1 == self.partition_parts {
                let token = xxh3_64(&key[TOKEN_BYTES..]).swap_bytes().to_le_bytes();
                key[..TOKEN_BYTES].copy_from_slice(&token);
            }
        }
        Ok(key)
    }

    /// Returns the key of a row. Errors: `Invalid` unless there is a value for each column of the key.
    pub(crate) fn row_key(&self, values: &[Value]) -> Result<Vec<u8>> {
        if values.len() != self.parts.len() {
            let (found, wanted) = (values.len(), self.parts.len());
            return Err(Error::invalid(format!("the key has {wanted} columns, and {found} values were given")));
        }
        self.key_prefix(values)
    }

    /// Returns the length of the row key at the front of a record's key.
    pub(crate) fn row_key_length(&self, key: &[u8]) -> Result<usize> {
        let mut length = if self.is_hashed() { TOKEN_BYTES } else { 0 };
        for part in &self.parts {
            length += part.length(key.get(length..).unwrap_or_default())?;
        }
        Ok(length)
    }

    /// Returns the values of a row key.
    pub(crate) fn key_values(&self, row_key: &[u8]) -> Result<Vec<Value>> {
        let mut rest = &row_key[if self.is_hashed() { TOKEN_BYTES.min(row_key.len()) } else { 0 }..];
        let values = self.parts.iter().map(|part| part.take(&mut rest)).collect::<Result<_>>()?;
        if rest.is_empty() { Ok(values) } else { Err(Error::corruption("a key that is too long")) }
    }

    /// Returns the values of a row key as text.
    pub(crate) fn shown(&self, row_key: &[u8]) -> String {
        let shown = |values: Vec<Value>| values.iter().map(Value::to_json).collect::<Vec<_>>().join(", ");
        self.key_values(row_key).map_or_else(|_| "-".to_owned(), |values| format!("({})", shown(values)))
    }

    /// Returns the values of a row's key columns. Errors: `Invalid` if one is missing.
    pub(crate) fn key_of(&self, row: &Row) -> Result<Vec<Value>> {
        let value = |index: usize| match row.get(&self.names[index]) {
            Some(value) => Ok(value.clone()),
            None => {
                let error = Error::invalid("a column of the key is missing or null");
                Err(self.in_column(index, &error))
            }
        };
        (0..self.parts.len()).map(value).collect()
    }

    /// Encodes a whole row. Errors: `Invalid` for an unknown column, and for a value that does not
    /// fit.
    pub(crate) fn encode(&self, row: &Row) -> Result<EncodedRow> {
        let key = self.row_key(&self.key_of(row)?)?;
        let (mut values, mut dynamic) = (vec![None; self.names.len()], Vec::new());
        for (name, value) in &row.columns {
            match self.find(name) {
                Some(index) if self.repeated_group_of(index).is_some() => {
                    return Err(Error::invalid(format!("column {name:?} is of a repeated group: set it in an entry")));
                }
                Some(index) => values[index] = Some(self.fitting(index, value)?),
                None => {
                    self.check_dynamic_name(name)?;
                    check_dynamic(name, value)?;
                    dynamic.push((name, value));
                }
            }
        }
        let (mut records, mut absent) = (Vec::new(), Vec::new());
        for layout in self.groups.iter().filter(|layout| !layout.group.is_repeated) {
            let group = layout.group.id;
            let record_key = self.group_key(&key, group);
            match self.pack(layout, &values) {
                None if group != DEFAULT_GROUP => absent.push(record_key),
                packed => {
                    let value = packed.unwrap_or_else(|| Packer::new().finish());
                    records.push(EncodedRecord { key: record_key, value, group });
                }
            }
        }
        for entry in &row.entries {
            records.push(self.encode_entry(&key, entry)?);
        }
        for (name, value) in dynamic {
            let value = pack_single(value);
            records.push(EncodedRecord { key: named_key(&key, DYNAMIC, name), value, group: DYNAMIC });
        }
        Ok(EncodedRow { key, records, absent, values })
    }

    fn encode_entry(&self, row_key: &[u8], entry: &GroupEntry) -> Result<EncodedRecord> {
        let layout = self.repeated_layout(&entry.group)?;
        let mut values = vec![None; self.names.len()];
        for (name, value) in &entry.columns {
            match self.find(name) {
                Some(index) if layout.columns.contains(&index) => values[index] = Some(self.fitting(index, value)?),
                _ => return Err(no_column(name)),
            }
        }
        let group = layout.group.id;
        let value = self.pack(layout, &values).unwrap_or_else(|| Packer::new().finish());
        Ok(EncodedRecord { key: named_key(row_key, group, &entry.name), value, group })
    }

    /// Returns the changes of records that changes of columns are. Errors: `Invalid` for a column of the key and for a
    /// value that does not fit; `NotFound` for an unknown column.
    pub(crate) fn changes(&self, changes: &Changes) -> Result<Vec<RecordChange>> {
        let mut records: BTreeMap<Vec<u8>, (GroupId, ContentChange)> = BTreeMap::new();
        for change in &changes.0 {
            match change {
                Change::Column(name, value) => self.change_column(&mut records, name, value)?,
                Change::EntryColumn { group, entry, column, value } => {
                    let layout = self.repeated_layout(group)?;
                    let index = self.find(column).filter(|index| layout.columns.contains(index));
                    let index = index.ok_or_else(|| no_column(column))?;
                    let value = self.fitting(index, value)?;
                    set_column(&mut records, named_key(&[], layout.group.id, entry), layout.group.id, index, value);
                }
                Change::RemoveEntry { group, entry } => {
                    let id = self.repeated_layout(group)?.group.id;
                    records.insert(named_key(&[], id, entry), (id, ContentChange::Remove));
                }
            }
        }
        let change = |(suffix, (group, content))| RecordChange { suffix, group, content };
        Ok(records.into_iter().map(change).collect())
    }

    fn change_column(
        &self,
        records: &mut BTreeMap<Vec<u8>, (GroupId, ContentChange)>,
        name: &str,
        value: &Value,
    ) -> Result<()> {
        match self.find(name) {
            Some(index) if self.column(index).role.is_key() => {
                return Err(Error::invalid(format!("column {name:?} is of the key, which does not change")));
            }
            Some(index) if self.repeated_group_of(index).is_some() => {
                return Err(Error::invalid(format!("column {name:?} is of a repeated group: set it in an entry")));
            }
            Some(index) => {
                let group = self.column(index).group;
                set_column(records, self.group_key(&[], group), group, index, self.fitting(index, value)?);
            }
            None => {
                match value {
                    Value::Null => self.check_undefined(name)?,
                    _ => self.check_dynamic_name(name)?,
                }
                check_dynamic(name, value)?;
                let content = match value {
                    Value::Null => ContentChange::Remove,
                    value => ContentChange::Single(value.clone()),
                };
                records.insert(named_key(&[], DYNAMIC, name), (DYNAMIC, content));
            }
        }
        Ok(())
    }

    /// Returns a record with some of its columns changed; `None` if it has no columns left. A tentatively dropped
    /// column is carried, and one that is gone is not.
    pub(crate) fn apply(&self, old: Option<&[u8]>, changed: &BTreeMap<usize, Value>) -> Result<Option<Vec<u8>>> {
        let mut kept = Vec::new();
        if let Some(old) = old {
            let mut packed = columns(old)?;
            while let Some(raw) = packed.next()? {
                let index = self.by_id.get(&raw.id).copied();
                if index.is_some_and(|index| {
                    self.column(index).state != ColumnState::Purging && !changed.contains_key(&index)
                }) {
                    kept.push(raw);
                }
            }
        }
        let mut new: Vec<(u32, &Value)> =
            changed.iter().map(|(index, value)| (self.column(*index).id, value)).collect();
        new.retain(|(_, value)| !value.is_null());
        new.sort_by_key(|(id, _)| *id);
        if kept.is_empty() && new.is_empty() {
            return Ok(None);
        }
        let (mut packer, mut kept) = (Packer::new(), kept.iter().peekable());
        for (id, value) in new {
            while let Some(raw) = kept.next_if(|raw| raw.id < id) {
                packer.push_raw(raw);
            }
            packer.push(id, value);
        }
        kept.for_each(|raw| packer.push_raw(raw));
        Ok(Some(packer.finish()))
    }

    /// Returns true if a record is an entry of a repeated group.
    pub(crate) fn is_entry(&self, suffix: &[u8]) -> bool {
        let group = split_suffix(suffix).map(|(group, _)| group);
        group.is_ok_and(|group| self.groups.iter().any(|layout| layout.group.id == group && layout.group.is_repeated))
    }

    /// Calls `visit` with the id of each column that a record has a value of, dynamic columns excepted. `suffix` is the
    /// record's key behind the row key. Errors: `Corruption`, and `FormatTooNew` for a record of a newer version.
    pub(crate) fn columns_of(&self, suffix: &[u8], record: &[u8], mut visit: impl FnMut(u32)) -> Result<()> {
        if split_suffix(suffix)?.0 == DYNAMIC {
            return Ok(());
        }
        let mut packed = columns(record)?;
        while let Some(raw) = packed.next()? {
            visit(raw.id);
        }
        Ok(())
    }

    /// Returns the names of the columns and the repeated groups that a row has values of, those of the key excepted.
    pub(crate) fn columns_of_row(&self, row: &EncodedRow) -> Vec<String> {
        let all = self.record.schema.columns.iter().zip(&row.values);
        let set = all.filter(|(column, value)| value.is_some() && !column.role.is_key());
        let mut names: Vec<String> = set.map(|(column, _)| column.name.clone()).collect();
        for record in &row.records {
            names.extend(self.record_name(&record.key[row.key.len()..]));
        }
        names.dedup();
        names
    }

    /// Returns the names of the columns that a change affects, each with true if it is removed.
    pub(crate) fn changed_columns(&self, change: &RecordChange) -> Vec<(String, bool)> {
        match &change.content {
            ContentChange::Columns(columns) if change.is_of_row() => {
                let name = |index: &usize| self.names[*index].to_string();
                columns.iter().map(|(index, value)| (name(index), value.is_null())).collect()
            }
            content => {
                let is_removed = matches!(content, ContentChange::Remove);
                self.record_name(&change.suffix).map(|name| (name, is_removed)).into_iter().collect()
            }
        }
    }

    /// Returns the name of the repeated group or the dynamic column that a record is of.
    fn record_name(&self, suffix: &[u8]) -> Option<String> {
        let (group, name) = split_suffix(suffix).ok()?;
        let repeated = || self.groups.iter().find(|layout| layout.group.id == group && layout.group.is_repeated);
        if group == DYNAMIC { Some(name.to_owned()) } else { repeated().map(|layout| layout.name.to_string()) }
    }

    fn repeated_layout(&self, name: &str) -> Result<&GroupLayout> {
        let found = self.groups.iter().find(|layout| layout.group.is_repeated && *layout.name == *name);
        found.ok_or_else(|| Error::of(ErrorKind::NotFound, format!("the table has no repeated group {name:?}")))
    }

    /// Returns the record of a group; `None` if it has no columns.
    fn pack(&self, layout: &GroupLayout, values: &[Option<Value>]) -> Option<Vec<u8>> {
        let mut packer = Packer::new();
        let mut is_empty = true;
        for index in &layout.columns {
            if let Some(value) = &values[*index] {
                packer.push(self.column(*index).id, value);
                is_empty = false;
            }
        }
        (!is_empty).then(|| packer.finish())
    }

    fn fitting(&self, index: usize, value: &Value) -> Result<Value> {
        value.clone().into_type(&self.column(index).ty).map_err(|error| self.in_column(index, &error))
    }

    /// Returns the repeated group that a column is of.
    fn repeated_group_of(&self, index: usize) -> Option<&Group> {
        let id = self.column(index).group;
        self.groups.iter().map(|layout| &layout.group).find(|group| group.id == id && group.is_repeated)
    }

    /// Returns the key of a group's record, for a group that is not repeated.
    pub(crate) fn group_key(&self, row_key: &[u8], group: GroupId) -> Vec<u8> {
        match group {
            DEFAULT_GROUP => row_key.to_vec(),
            other => named_key(row_key, other, ""),
        }
    }

    /// Returns the columns of a row that a selection wants, of which no group but group 0 has any.
    pub(crate) fn decode_default(&self, row_key: &[u8], record: &[u8], selection: &Selection) -> Result<Row> {
        let mut row = Row::new();
        self.decode_key(row_key, selection, &mut row)?;
        self.decode_record(&[], record, selection, &mut row)?;
        Ok(row)
    }

    /// Adds the key columns of a row that a selection wants.
    pub(crate) fn decode_key(&self, row_key: &[u8], selection: &Selection, row: &mut Row) -> Result<()> {
        if !selection.wants_key {
            return Ok(());
        }
        for (index, value) in self.key_values(row_key)?.into_iter().enumerate() {
            if selection.wants(index) {
                row.columns.push((self.names[index].clone(), value));
            }
        }
        Ok(())
    }

    /// Adds the columns of a record that a selection wants. `suffix` is the record's key behind the row key.
    pub(crate) fn decode_record(
        &self,
        suffix: &[u8],
        record: &[u8],
        selection: &Selection,
        row: &mut Row,
    ) -> Result<()> {
        let (group, name) = split_suffix(suffix)?;
        if group == DYNAMIC {
            // No row has both, but in stores of earlier builds. There the column of the schema hides the dynamic one.
            if selection.wants_name(name) && !self.by_name.contains_key(name) {
                row.columns.push((name.into(), unpack_single(record)?));
            }
            return Ok(());
        }
        let Some(layout) = self.groups.iter().find(|layout| layout.group.id == group) else {
            return Err(Error::corruption(format!("a record of the unknown group {group}")));
        };
        if !layout.group.is_repeated {
            if !name.is_empty() {
                return Err(Error::corruption("a record with a key that is none"));
            }
            return self.decode_columns(record, selection, &mut row.columns);
        }
        if selection.wants_name(&layout.name) {
            let (group, name) = (layout.name.clone(), name.to_owned());
            let mut entry = GroupEntry { group, name, columns: Vec::new() };
            self.decode_columns(record, selection, &mut entry.columns)?;
            row.entries.push(entry);
        }
        Ok(())
    }

    fn decode_columns(&self, record: &[u8], selection: &Selection, out: &mut Vec<(Arc<str>, Value)>) -> Result<()> {
        let mut packed = columns(record)?;
        while let Some(raw) = packed.next()? {
            // Only a selection for indexes wants columns that are hidden.
            if let Some(index) = self.by_id.get(&raw.id).copied().filter(|index| selection.wants(*index)) {
                let value = raw.value(&self.column(index).ty).map_err(|error| self.in_column(index, &error))?;
                out.push((self.names[index].clone(), value));
            }
        }
        Ok(())
    }

    /// Adds a column's name to the message of an error.
    #[cold]
    fn in_column(&self, index: usize, error: &Error) -> Error {
        Error::of(error.kind(), format!("column {:?}: {error}", self.names[index]))
    }
}

/// Returns the index of a column in a list of columns.
fn by_id_of(columns: &[Column], id: u32) -> Option<usize> {
    columns.iter().position(|column| column.id == id)
}

#[cold]
fn no_column(name: &str) -> Error {
    Error::of(ErrorKind::NotFound, format!("the table has no column {name:?}"))
}

/// Fails with `Invalid` for a dynamic column that cannot be stored, or whose JSON could not be read.
pub(crate) fn check_dynamic(name: &str, value: &Value) -> Result<()> {
    crate::schema::check_name("column", name)?;
    let is_list_of_values = |values: &[Value]| {
        let kind = values.first().map(std::mem::discriminant);
        values.iter().all(|value| {
            Some(std::mem::discriminant(value)) == kind && !matches!(value, Value::Null | Value::List(_) | Value::Empty)
        })
    };
    match value {
        Value::List(values) if !is_list_of_values(values) => {
            Err(Error::invalid(format!("column {name:?}: a list has values of one simple type")))
        }
        Value::List(_) => {
            // Decimals may have no common scale, and a document may be none.
            let fitting = value.column_type().map(|ty| value.clone().into_type(&ty));
            fitting.transpose().map(drop).map_err(|error| crate::json_rows::in_column(name, &error))
        }
        Value::Json(text) => crate::json::check(text),
        _ => Ok(()),
    }
}

/// Adds the change of a column to the change of its record.
fn set_column(
    records: &mut BTreeMap<Vec<u8>, (GroupId, ContentChange)>,
    suffix: Vec<u8>,
    group: GroupId,
    index: usize,
    value: Value,
) {
    let none = || (group, ContentChange::Columns(BTreeMap::new()));
    let (_, content) = records.entry(suffix).or_insert_with(none);
    match content {
        ContentChange::Columns(columns) | ContentChange::Replace(columns) => drop(columns.insert(index, value)),
        ContentChange::Remove | ContentChange::Single(_) => {
            *content = ContentChange::Replace(BTreeMap::from([(index, value)]));
        }
    }
}

fn named_key(row_key: &[u8], group: GroupId, name: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(row_key.len() + 2 + name.len());
    key.extend_from_slice(row_key);
    key.extend_from_slice(&group.swap_bytes().to_le_bytes());
    key.extend_from_slice(name.as_bytes());
    key
}

/// Returns the group of a record, and the name of its entry or dynamic column.
fn split_suffix(suffix: &[u8]) -> Result<(GroupId, &str)> {
    let wrong = || Error::corruption("a record with a key that is none");
    match suffix {
        [] => Ok((DEFAULT_GROUP, "")),
        [high, low, name @ ..] => {
            let group = GroupId::from(*high) << 8 | GroupId::from(*low);
            let name = std::str::from_utf8(name).map_err(|_| wrong())?;
            if group == DEFAULT_GROUP { Err(wrong()) } else { Ok((group, name)) }
        }
        _ => Err(wrong()),
    }
}
