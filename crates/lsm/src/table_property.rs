//! Properties of tables: small sets of items by name, which a function of the application collects from the records.
//!
//! Calls:  for each value and each merge operand of a table that is written, in the bytes of its finished block, and for
//!         each value that is written into a blob file; a property of keys also for the deletes of a table. A pointer into a blob file adds nothing to its table: the file
//!         has sets of its own.
//! Holds:  a set never lacks an item of its file. A set that is not known completely is left out, and a search then
//!         takes the file for one that may hold any item.
//! Errors: a function that fails or panics leaves its file without the set.
//! Disk:   property 22 of a table (docs/format.md, section 4.5), and tag 49 of the manifest for blob files (section 6).
//!         The functions are not stored: a file that is written without a function lacks its set.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::codec::{Reader, put_bytes};
use crate::error::{Error, Result};
use crate::planted;
use crate::record::{Kind, Record};

/// Maximum length of the encoded items of one property of a table, in bytes.
pub const MAX_PROPERTY_BYTES: usize = 4096;

/// Maximum number of properties of one family.
pub const MAX_PROPERTIES: usize = 16;

/// Maximum length of a property's name, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// The reason for the failure of a property's function; made of a text, or of any error by `?`.
pub type PropertyFailure = Box<dyn std::error::Error + Send + Sync>;

/// Adds the items of a record, given its key and its value, by calls of the third argument.
type Collect = dyn Fn(&[u8], &[u8], &mut dyn FnMut(&[u8])) -> std::result::Result<(), PropertyFailure> + Send + Sync;

/// A property that is collected of each table of a family. Clones are cheap.
#[derive(Clone)]
pub struct TableProperty {
    name: Arc<str>,
    collect: Arc<Collect>,
    /// It is of keys alone, those of deletes included.
    is_of_keys: bool,
}

impl TableProperty {
    /// Returns a property by a function of key and value, which passes each item of a record to its third argument.
    ///
    /// Flushes and compactions call the function from several threads, with values and with merge operands. Commits call
    /// it on their own thread, with values that they write into blob files, and other such commits wait meanwhile. It must
    /// not use the store, nor wait for a thread that writes to it. `name` must be 1
    /// to 255 bytes; families refuse other names.
    ///
    /// ```
    /// use waxseal_lsm::table_property::TableProperty;
    ///
    /// // The first byte of a value is the version of its schema.
    /// let versions = TableProperty::new("versions", |_key, value, add| {
    ///     add(value.get(..1).ok_or("an empty value")?);
    ///     Ok(())
    /// });
    /// assert_eq!(versions.name(), "versions");
    /// ```
    pub fn new(
        name: &str,
        collect: impl Fn(&[u8], &[u8], &mut dyn FnMut(&[u8])) -> std::result::Result<(), PropertyFailure>
        + Send
        + Sync
        + 'static,
    ) -> TableProperty {
        TableProperty { name: name.into(), collect: Arc::new(collect), is_of_keys: false }
    }

    /// Returns a property by a function of keys: [`new`](TableProperty::new) for a function that also gets the keys of
    /// deletes. So a search finds the tables in which a key of some kind is left in any form, apart from the bounds of
    /// range deletes.
    ///
    /// ```
    /// use waxseal_lsm::table_property::TableProperty;
    ///
    /// let tenants = TableProperty::of_keys("tenants", |key, add| {
    ///     add(key.get(..4).ok_or("a key without a tenant")?);
    ///     Ok(())
    /// });
    /// assert_eq!(tenants.name(), "tenants");
    /// ```
    pub fn of_keys(
        name: &str,
        collect: impl Fn(&[u8], &mut dyn FnMut(&[u8])) -> std::result::Result<(), PropertyFailure> + Send + Sync + 'static,
    ) -> TableProperty {
        let collect = move |key: &[u8], _: &[u8], add: &mut dyn FnMut(&[u8])| collect(key, add);
        TableProperty { is_of_keys: true, ..TableProperty::new(name, collect) }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for TableProperty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableProperty({})", self.name)
    }
}

/// Returns true if a family may have these properties: not too many, with valid names that differ.
pub(crate) fn are_valid(properties: &[TableProperty]) -> bool {
    let is_valid = |property: &TableProperty| (1..=MAX_NAME_BYTES).contains(&property.name.len());
    let names: BTreeSet<&str> = properties.iter().map(TableProperty::name).collect();
    properties.len() <= MAX_PROPERTIES && names.len() == properties.len() && properties.iter().all(is_valid)
}

/// The sets of items of one file, by ascending names of their properties, encoded. A property that is not among them may
/// have any item. Clones share the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectedSets(Arc<[(String, Vec<u8>)]>);

impl CollectedSets {
    /// Returns true if no set is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns false if the set of this property is known and lacks this item.
    pub fn may_have(&self, property: &str, item: &[u8]) -> bool {
        let found = self.0.iter().find(|(name, _)| name == property);
        found.is_none_or(|(_, items)| has_item(items, item))
    }

    /// Appends the encoded sets.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for (name, items) in self.0.iter() {
            put_bytes(out, name.as_bytes());
            put_bytes(out, items);
        }
    }

    /// Decodes sets, up to the end of the bytes. Errors: names or items that do not ascend, and names that are not UTF-8.
    pub(crate) fn decode(bytes: &[u8]) -> Result<CollectedSets> {
        let (mut reader, mut sets) = (Reader::new(bytes), Vec::<(String, Vec<u8>)>::new());
        while !reader.is_empty() {
            let (name, items) = (reader.length_prefixed()?, reader.length_prefixed()?);
            let name = std::str::from_utf8(name).map_err(|_| Error::structural("a property's name is not UTF-8"))?;
            if sets.last().is_some_and(|(last, _)| last.as_str() >= name) {
                return Err(Error::structural("names of properties do not ascend"));
            }
            check_items(items)?;
            sets.push((name.to_owned(), items.to_vec()));
        }
        Ok(CollectedSets(sets.into()))
    }
}

/// The properties of one file while it is written.
#[derive(Debug, Default)]
pub(crate) struct PropertyCollectors(Vec<CollectedSet>);

/// The items of one property so far. A set that is not known completely is dropped.
#[derive(Debug)]
struct CollectedSet {
    property: TableProperty,
    items: BTreeSet<Vec<u8>>,
    bytes: usize,
}

impl PropertyCollectors {
    /// Begins a file.
    pub(crate) fn begin(properties: &[TableProperty]) -> PropertyCollectors {
        let begin =
            |property: &TableProperty| CollectedSet { property: property.clone(), items: BTreeSet::new(), bytes: 0 };
        PropertyCollectors(properties.iter().map(begin).collect())
    }

    /// Returns true if there is nothing to collect.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a record of a finished block.
    pub(crate) fn add_record(&mut self, record: &Record<'_>) {
        match record.kind {
            Kind::Put | Kind::Merge => self.add(record.key, record.value),
            Kind::Delete => self.0.retain_mut(|set| !set.property.is_of_keys || set.add(record.key, &[])),
            _ => {} // pointers have a file of their own; bounds of ranges are no keys
        }
    }

    /// Adds a key and its value.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        self.0.retain_mut(|set| set.add(key, value));
    }

    /// Returns the sets.
    pub(crate) fn finish(self) -> CollectedSets {
        let encoded = |set: CollectedSet| {
            let mut bytes = Vec::with_capacity(set.bytes);
            set.items.iter().for_each(|item| put_bytes(&mut bytes, item));
            (set.property.name().to_owned(), bytes)
        };
        let mut finished: Vec<_> = self.0.into_iter().map(encoded).collect();
        finished.sort();
        CollectedSets(finished.into())
    }
}

impl CollectedSet {
    /// Adds the items of a record. Returns false if the set is not known any more.
    fn add(&mut self, key: &[u8], value: &[u8]) -> bool {
        let (items, bytes) = (&mut self.items, &mut self.bytes);
        let mut add = |item: &[u8]| {
            if *bytes <= MAX_PROPERTY_BYTES && !items.contains(item) {
                *bytes += encoded_bytes(item.len());
                if *bytes <= MAX_PROPERTY_BYTES {
                    items.insert(item.to_vec());
                }
            }
        };
        let called = catch_unwind(AssertUnwindSafe(|| (self.property.collect)(key, value, &mut add).is_ok()));
        let has_succeeded = called.unwrap_or_else(|panic| {
            std::mem::forget(panic); // dropping a payload would call the application's code again
            false
        });
        planted!(FailedPropertyKept => let has_succeeded = true);
        has_succeeded && self.bytes <= MAX_PROPERTY_BYTES
    }
}

/// Returns the length of an encoded item.
fn encoded_bytes(length: usize) -> usize {
    let digits = (usize::BITS - (length | 1).leading_zeros()).div_ceil(7);
    digits as usize + length
}

/// Checks encoded items: they ascend.
fn check_items(bytes: &[u8]) -> Result<()> {
    let (mut reader, mut last) = (Reader::new(bytes), None);
    while !reader.is_empty() {
        let item = reader.length_prefixed()?;
        if last.is_some_and(|last| last >= item) {
            return Err(Error::structural("items of a property do not ascend"));
        }
        last = Some(item);
    }
    Ok(())
}

/// Returns true if checked, encoded items have this one.
fn has_item(bytes: &[u8], item: &[u8]) -> bool {
    let mut reader = Reader::new(bytes);
    std::iter::from_fn(|| (!reader.is_empty()).then(|| reader.length_prefixed().ok()).flatten())
        .any(|found| found == item)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any sets of a few items.
    pub(crate) fn collected_sets() -> impl Strategy<Value = CollectedSets> {
        let encoded = |items: BTreeSet<Vec<u8>>| {
            let mut bytes = Vec::new();
            items.iter().for_each(|item| put_bytes(&mut bytes, item));
            bytes
        };
        let item = proptest::collection::vec(any::<u8>(), 0..16);
        let items = proptest::collection::btree_set(item, 0..6);
        proptest::collection::btree_map("[a-z]{1,6}", items, 0..4)
            .prop_map(move |all| CollectedSets(all.into_iter().map(|(name, items)| (name, encoded(items))).collect()))
    }

    fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
        Record { key, seqno: 7, kind: Kind::Put, value, companion: &[] }
    }

    /// Each byte of a value is an item; `!` fails, and `?` panics.
    fn bytes() -> TableProperty {
        TableProperty::new("bytes", |_, value, add| {
            for byte in value {
                match byte {
                    b'!' => return Err("no".into()),
                    b'?' => panic!("no"),
                    byte => add(&[*byte]),
                }
            }
            Ok(())
        })
    }

    fn firsts() -> TableProperty {
        TableProperty::new("a first", |key, _, add| {
            add(&key[..1]);
            Ok(())
        })
    }

    fn collected(records: &[Record<'_>]) -> CollectedSets {
        let mut collectors = PropertyCollectors::begin(&[bytes(), firsts()]);
        assert!(!collectors.is_empty() && PropertyCollectors::begin(&[]).is_empty());
        records.iter().for_each(|record| collectors.add_record(record));
        collectors.finish()
    }

    fn sets(all: &[(&str, &[u8])]) -> CollectedSets {
        CollectedSets(all.iter().map(|(name, items)| ((*name).to_owned(), items.to_vec())).collect())
    }

    #[test]
    fn items_are_sorted_each_once_and_found() {
        let tombstone = Record { kind: Kind::Delete, ..put(b"z", b"z") };
        let pointer = Record { kind: Kind::BlobPointer, ..put(b"y", b"y") };
        let operand = Record { kind: Kind::Merge, ..put(b"b", b"c") };
        let found = collected(&[put(b"a", b"ba"), operand, put(b"bb", b"b"), tombstone, pointer]);
        assert_eq!(found, sets(&[("a first", b"\x01a\x01b"), ("bytes", b"\x01a\x01b\x01c")]));
        for (item, is_there) in [(&b"a"[..], true), (b"c", true), (b"d", false), (b"", false), (b"ab", false)] {
            assert_eq!(found.may_have("bytes", item), is_there);
        }
        assert!(found.may_have("other", b"d"), "a property that is not known");
    }

    #[test]
    fn sets_come_back_and_those_that_cannot_be_are_refused() {
        let all = [sets(&[]), sets(&[("", b"")]), sets(&[("a", b"\x00\x01x"), ("b", b""), ("ba", b"\x02ab\x01x")])];
        for sets in all {
            let mut bytes = Vec::new();
            sets.encode(&mut bytes);
            assert_eq!((CollectedSets::decode(&bytes).unwrap(), sets.is_empty()), (sets, bytes.is_empty()));
        }
        for hostile in [
            &b"\x01b\x00\x01a\x00"[..],
            b"\x01a\x00\x01a\x00",
            b"\x01a\x04\x01y\x01x",
            b"\x01a\x04\x01x\x01x",
            b"\x01a\x05\x01x\x01y",
            b"\x01a\x02\x05x",
            b"\x01\xff\x00",
            b"\x01",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ] {
            assert!(CollectedSets::decode(hostile).is_err(), "{hostile:?}");
        }
    }

    #[test]
    fn a_set_that_is_not_known_is_left_out() {
        for unknown in [put(b"p", b"a!"), put(b"p", b"?")] {
            let found = collected(&[put(b"a", b"b"), unknown, put(b"q", b"c")]);
            assert_eq!(found, sets(&[("a first", b"\x01a\x01p\x01q")]));
        }
        let each = |from: usize, to: usize| {
            let all = TableProperty::new("all", move |_, _, add| {
                (from..to).for_each(|n| add(&(n as u16).to_le_bytes()));
                Ok(())
            });
            let mut collectors = PropertyCollectors::begin(&[all]);
            (0..2).for_each(|_| collectors.add(b"k", b"v"));
            collectors.finish().0.to_vec()
        };
        let most = MAX_PROPERTY_BYTES / 3;
        assert_eq!(each(0, most)[0].1.len(), most * 3);
        assert_eq!(each(0, most + 1), []);
        assert_eq!(encoded_bytes(127) + encoded_bytes(128) + encoded_bytes(0), 128 + 130 + 1);
    }

    #[test]
    fn names_are_few_short_and_different() {
        let named = |name: &str| TableProperty::new(name, |_, _, _| Ok(()));
        let many = |count: usize| (0..count).map(|n| named(&n.to_string())).collect::<Vec<_>>();
        assert!(are_valid(&[]) && are_valid(&many(MAX_PROPERTIES)) && !are_valid(&many(MAX_PROPERTIES + 1)));
        assert!(
            !are_valid(&[named("a"), named("a")]) && !are_valid(&[named("")]) && !are_valid(&[named(&"a".repeat(256))])
        );
        assert!(are_valid(&[named("a"), named(&"a".repeat(255))]));
    }
}
