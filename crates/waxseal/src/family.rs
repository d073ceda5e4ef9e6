//! Reads, writes and scans of one column family.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use waxseal_lsm::compaction_filter::CompactionFilter;
use waxseal_lsm::db::At;
use waxseal_lsm::env::try_extend;
use waxseal_lsm::error::{IoContext, Result};
use waxseal_lsm::options::{CfOptions, Verify};
use waxseal_lsm::table_property::TableProperty;
use waxseal_meta::Seal;
use waxseal_meta::reading::Meta;

use crate::batch::{Batch, Write, write_one, write_plainly};
use crate::cursor::Cursor;
use crate::entries::MetaIter;
use crate::inner::ColumnFamily;
use crate::range::{KeyRange, Range};
use crate::sealed::Sealed;
use crate::slice::Slice;
use crate::verify::VerifyPolicy;
use crate::write_options::WriteOptions;

impl ColumnFamily {
    /// Returns the options of the family as of now. [`CfOptions::list`] gives names and values for a report.
    pub fn options(&self) -> Arc<CfOptions> {
        self.family.options()
    }

    /// Changes options of the family while the store is open, and records them in the store: later opens that pass no
    /// options for the family use them.
    ///
    /// Calls and background jobs that begin after the change obey it. Tables keep their form until they are rewritten. A
    /// change of `default_ttl` applies to later puts. The verification levels are not recorded. The change is durable
    /// when the call returns; it costs two fsyncs.
    ///
    /// Errors: `Invalid` if the options are not valid, if they differ in `order`, `merge_operator`, `filter_policy`,
    /// `key_ends_in_seqno` or `system`, or for one of the store's own families. Nothing changes then.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let users = waxseal::Db::memory()?.column_family("users")?;
    /// use waxseal::CfOptions;
    ///
    /// users.set_options(CfOptions { level0_tables: 8, ..(*users.options()).clone() })?;
    /// assert_eq!(users.options().level0_tables, 8);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_options(&self, options: CfOptions) -> Result<()> {
        self.update_options(|now| {
            now.clone_from(&options);
            Ok(())
        })
    }

    /// Changes options as [`set_options`](ColumnFamily::set_options) does, from the present ones, which no other call
    /// changes in between. `change` must not call the store.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let users = waxseal::Db::memory()?.column_family("users")?;
    /// users.update_options(|options| {
    ///     options.level0_tables *= 2;
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn update_options(&self, mut change: impl FnMut(&mut CfOptions) -> Result<()>) -> Result<()> {
        self.inner.update_family_options(&self.family, &mut change)
    }

    /// Gives the family other [properties of tables](crate::TableProperty) while the store is open, and another
    /// [compaction filter](crate::CompactionFilter) unless `filter` is `None`. Flushes, compactions and commits that begin
    /// after the call use them. Tables that exist stay as they are: [`files_with`](ColumnFamily::files_with) finds all of those that
    /// were written without a property.
    ///
    /// The store records the name of the filter, which costs two fsyncs if the name is new. Another fsync ends the blob file
    /// that commits write into, if there is one. Give the functions again at the next open.
    ///
    /// Errors: `Invalid` for names that options refuse, and for one of the store's own families. Nothing changes then.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// use waxseal::{CompactionFilter, FilterDecision, TableProperty};
    ///
    /// # let users = waxseal::Db::memory()?.column_family("users")?;
    /// let firsts = TableProperty::new("firsts", |_key, value, add| {
    ///     add(&value[..1]);
    ///     Ok(())
    /// });
    /// let drop_x = CompactionFilter::new("drop x", |_key, value| {
    ///     Ok(if value[0] == b'x' { FilterDecision::Drop } else { FilterDecision::Keep })
    /// });
    /// users.set_functions(Some(drop_x), vec![firsts])?;
    /// users.put("a", "x")?;
    /// users.compact_with("firsts", "x")?;
    /// assert_eq!(users.get("a")?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_functions(&self, filter: Option<CompactionFilter>, properties: Vec<TableProperty>) -> Result<()> {
        self.inner.set_family_functions(&self.family, filter, properties)
    }

    /// Sets a key to a value, with the store's durability.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        write_plainly(self, Write::put(key.as_ref(), value.as_ref()))
    }

    /// Sets a key to a value.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// use waxseal::{Durability, WriteOptions};
    ///
    /// cf.put_with("key", "value", WriteOptions::new().durability(Durability::Sync))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_with(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        write_one(self, Write::put(key.as_ref(), value.as_ref()), options)
    }

    /// Sets a key to a value that already has a seal: one that the caller received with the value, or computed with
    /// [`Seal::of`] at the source. Damage on the way from the source is therefore detected. The seal is checked now,
    /// stored unchanged, and returned by `get_sealed`.
    ///
    /// Errors: `Invalid` if the seal does not match key and value, or if the store was opened plain. The call changes
    /// nothing then.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// use waxseal::{ErrorKind, Seal};
    ///
    /// let seal = Seal::of("key", "value");
    /// cf.put_sealed("key", "value", seal)?;
    /// assert_eq!(cf.put_sealed("key", "valve", seal).unwrap_err().kind(), &ErrorKind::Invalid);
    /// assert_eq!(cf.get_sealed("key")?.unwrap().seal, seal);
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_sealed(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, seal: Seal) -> Result<()> {
        self.put_sealed_with(key, value, seal, WriteOptions::default())
    }

    /// `put_sealed` with options.
    pub fn put_sealed_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        seal: Seal,
        options: WriteOptions,
    ) -> Result<()> {
        let write = Write { seal: Some(seal), ..Write::put(key.as_ref(), value.as_ref()) };
        write_one(self, write, options)
    }

    /// Merges an operand into the value of a key, with the store's durability and without reading the value.
    ///
    /// The family's [`merge_operator`](crate::CfOptions::merge_operator) says what an operand does, for example add a
    /// number. The operand is one sealed record; a read computes the value of the key's last value and the operands
    /// after it, and verifies all of them first. Many operands make reads of their key slower, one search each. A put
    /// or delete of the key hides its operands.
    ///
    /// Operands never expire. The value of a read has the expiry of the value below the operands. Once that has
    /// expired, the operands count as merged into an absent key.
    ///
    /// A registration of `Row.Update` or `Row.Write` logs an event without values. Exports and ingestions refuse keys
    /// with operands.
    ///
    /// Errors: `Invalid` if the family has no merge operator, or if the operator cannot read the operand; nothing is
    /// written then. An operator that fails, panics, or was not given when the store was opened is an error (`Invalid`)
    /// of the reads of the key.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// use waxseal::{CfOptions, MergeOperator};
    ///
    /// let options = CfOptions { merge_operator: Some(MergeOperator::add_i64()), ..CfOptions::default() };
    /// let visits = db.create_column_family("visits", options)?;
    /// for _ in 0..3 {
    ///     visits.merge("page", 1i64.to_le_bytes())?;
    /// }
    /// assert_eq!(visits.get("page")?.unwrap(), 3i64.to_le_bytes());
    /// # Ok(())
    /// # }
    /// ```
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        write_plainly(self, Write::merge(key.as_ref(), operand.as_ref()))
    }

    /// Merges an operand like [`merge`](ColumnFamily::merge), with options. Only their durability applies; entries,
    /// labels and an expiry are refused (`Invalid`).
    pub fn merge_with(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        let durability = options.of_operand(self.inner.engine.durability())?;
        write_one(self, Write::merge(key.as_ref(), operand.as_ref()), durability.into())
    }

    /// Removes a key. Removing an absent key is not an error.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        write_plainly(self, Write::delete(key.as_ref()))
    }

    /// Removes a key, with options. Removing an absent key is not an error.
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        write_one(self, Write::delete(key.as_ref()), options)
    }

    /// Removes all keys in a range, with the store's durability.
    ///
    /// Only keys and values written before are removed; snapshots and cursors keep what they see. The range is one
    /// record of the log, so that the call takes the same time and space whatever the range holds. Reads skip what it
    /// removed, and compactions free the space: a table whose records are all removed is deleted unread. A range
    /// without keys is not an error.
    ///
    /// If `Range.Delete` or `Row.Delete` is registered on the family, or on a key in the range, one event
    /// `Range.Delete` of the family is logged, with the range and without old values.
    ///
    /// The first range delete of a store writes its manifest, and versions of Waxseal without range deletes then refuse
    /// the store.
    ///
    /// Errors: `Invalid` for a start behind the end, and in a custom key order for a bound that includes the end or
    /// excludes the start, because such an order knows no next key. Nothing is removed then.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// for day in ["2026-01-30", "2026-01-31", "2026-02-01"] {
    ///     cf.put(day, "measured")?;
    /// }
    /// cf.delete_range("2026-01"..="2026-01-31")?;
    /// assert_eq!(cf.get("2026-01-31")?, None);
    /// assert_eq!(cf.get("2026-02-01")?.unwrap(), "measured");
    /// cf.delete_range("2026-02"..)?;
    /// assert_eq!(cf.iter().count(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.delete_range_with(range, WriteOptions::default())
    }

    /// Removes all keys in a range like [`delete_range`](ColumnFamily::delete_range), with options. Only their
    /// durability applies; entries, labels and an expiry are refused (`Invalid`).
    pub fn delete_range_with(&self, range: impl KeyRange, options: WriteOptions) -> Result<()> {
        let (mut batch, durability) = Batch::one_range(self, range, options)?;
        batch.commit(durability)
    }

    /// Removes all keys of the family: `delete_range(..)`. [`Db::clear`](crate::Db::clear) empties several families at
    /// once.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// cf.put("key", "value")?;
    /// cf.clear()?;
    /// assert_eq!(cf.iter().count(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn clear(&self) -> Result<()> {
        self.delete_range(..)
    }

    /// Returns a copy of the value of a key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.get_with(key, Slice::copied)?.transpose()
    }

    /// Passes the value of a key to `visit` and returns the result of `visit`. Allocates nothing; `visit` is not called
    /// if the key is absent. Keep `visit` short: the value may be borrowed from memory that the store keeps pinned
    /// meanwhile.
    #[inline]
    pub fn get_with<R>(&self, key: impl AsRef<[u8]>, visit: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.inner.read(self, key.as_ref(), At::Latest, |record| visit(record.value))
    }

    /// `get_with` without file access: returns `None`, without calling `visit`, if the lookup would have to read a
    /// file.
    ///
    /// For callers that must not block: an event loop, or a thread that holds an interpreter's lock. A result costs as
    /// much as a cached `get_with`; `None` costs the part of the lookup that ran in memory. Errors: as for `get_with`.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// let db = waxseal::Db::memory()?;
    /// let users = db.column_family("users")?;
    /// users.put("1", "Ada")?;
    /// let value = match users.get_resident("1", |value| value.to_vec())? {
    ///     Some(answer) => answer,
    ///     None => users.get_with("1", |value| value.to_vec())?, // on a thread that may block
    /// };
    /// assert_eq!(value.unwrap(), b"Ada");
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn get_resident<R>(&self, key: impl AsRef<[u8]>, visit: impl FnOnce(&[u8]) -> R) -> Result<Option<Option<R>>> {
        self.inner.read_resident(self, key.as_ref(), At::Latest, |record| visit(record.value))
    }

    /// Returns a copy of the value of a key, with its seal. The seal is verified under every policy. Costs a `get` and
    /// one more hash of key and value.
    ///
    /// Errors: `Corruption` if value and seal do not match; `Invalid` if the record has no seal because a plain store
    /// wrote it, or if this store was opened plain.
    pub fn get_sealed(&self, key: impl AsRef<[u8]>) -> Result<Option<Sealed>> {
        self.inner.read_sealed(self, key.as_ref(), At::Latest)
    }

    /// Fails as every call on this handle would: with `Closed` once the store was closed, with `Invalid` once the
    /// family was dropped.
    pub fn check(&self) -> Result<()> {
        self.inner.check(&self.family)
    }

    /// Returns a handle to the same family with another verification policy; cheap to create. Reads through it verify
    /// according to `verify`. This includes its cursors and iterators, and reads of a [`Snapshot`](crate::Snapshot)
    /// with this handle.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// # cf.put("key", "value")?;
    /// use waxseal::Verify;
    ///
    /// let every = cf.with_verify(Verify::Always); // scans verify every record as well
    /// assert_eq!(every.iter().count(), 1);
    /// assert_eq!(cf.with_verify(Verify::Never).get("key")?.unwrap(), "value");
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_verify(&self, verify: Verify) -> ColumnFamily {
        ColumnFamily {
            policy: VerifyPolicy { reads: Some(verify), scans: Some(verify), ..self.policy },
            ..self.clone()
        }
    }

    /// Returns a handle to the same family for one-off reads. With `fill` false, blocks that its reads load from files
    /// are not inserted into the cache, and cached blocks stay. Default true.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// # let cf = db.column_family("default")?;
    /// # cf.put("key", "value")?;
    /// # db.flush()?;
    /// assert_eq!(cf.with_fill_cache(false).iter().count(), 1);
    /// assert_eq!(db.metrics().cache.used_bytes, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_fill_cache(&self, fill: bool) -> ColumnFamily {
        ColumnFamily { policy: VerifyPolicy { passing: !fill, ..self.policy }, ..self.clone() }
    }

    /// Replaces the content of `value` with the value of a key. If the key is absent, returns false and leaves `value`
    /// empty.
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let copied = self.get_with(key, |found| try_extend(value, found))?;
        Ok(copied.transpose().during(|| "copying a value")?.is_some())
    }

    /// Returns true if the key exists. A value in a blob file is not read.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.inner.holds(self, key.as_ref(), At::Latest)
    }

    /// Returns the entry that a provider stored with the value of a key: see [`meta`](crate::meta). The value is
    /// neither copied nor hashed, whatever its size; [`Meta::checked`](crate::meta::Meta) tells how far the entry was
    /// verified.
    ///
    /// Errors: `Corruption` if the record's metadata cannot be decoded or does not match its checksum.
    pub fn get_meta(&self, key: impl AsRef<[u8]>, provider: u16) -> Result<Option<Meta>> {
        self.inner.check(&self.family)?;
        waxseal_meta::get_meta(&self.inner.engine, &self.family, key.as_ref(), At::Latest, provider)
    }

    /// Iterates over the entries that a provider stored with the values of a range, in key order. Values without an
    /// entry are skipped.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// use waxseal::WriteOptions;
    /// use waxseal::meta::{LABELS, Labels};
    ///
    /// cf.put("a", "1")?;
    /// cf.put_with("b", "2", WriteOptions::new().label("source", "import"))?;
    /// for entry in cf.iter_meta(.., LABELS)? {
    ///     let (key, meta) = entry?;
    ///     assert_eq!((&key[..], Labels::read(&meta.bytes).unwrap()), (&b"b"[..], vec![("source", "import")]));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn iter_meta(&self, range: impl KeyRange, provider: u16) -> Result<MetaIter> {
        self.inner.check(&self.family)?;
        let bounds = range.into_bounds();
        let below = waxseal_meta::iter_meta(&self.inner.engine, &self.family, At::Latest, bounds, provider)?;
        Ok(MetaIter::new(self, below))
    }

    /// Returns the values of many keys, in the order of `keys`, all read at the same sequence number.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// cf.put("a", "1")?;
    /// let values = cf.multi_get(["a", "b"])?;
    /// assert_eq!(values[0].as_deref(), Some(&b"1"[..]));
    /// assert_eq!(values[1], None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Slice>>> {
        self.inner.read_many(self, At::Latest, keys)
    }

    /// Creates a cursor over the family's current state. It borrows keys and values, moves in both directions, and
    /// allocates nothing per step.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// # cf.put("a", "1")?; cf.put("c", "3")?;
    /// let mut cursor = cf.cursor();
    /// cursor.seek("b")?;
    /// assert!(cursor.valid());
    /// assert_eq!(cursor.key(), b"c");
    /// cursor.prev()?;
    /// assert_eq!((cursor.key(), cursor.value()), (&b"a"[..], &b"1"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn cursor(&self) -> Cursor {
        self.cursor_in(..)
    }

    /// Creates a cursor over the records with keys in a range. No move leaves the range.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// # for key in ["a", "b", "c"] { cf.put(key, key)?; }
    /// let mut cursor = cf.cursor_in("b"..);
    /// cursor.seek("a")?;
    /// assert_eq!(cursor.key(), b"b");
    /// cursor.prev()?;
    /// assert!(!cursor.valid());
    /// # Ok(())
    /// # }
    /// ```
    pub fn cursor_in(&self, range: impl KeyRange) -> Cursor {
        Cursor::new(self, At::Latest, range.into_bounds())
    }

    /// Iterates over the records with keys in a range, in the family's current state. A range whose end precedes its
    /// start is empty.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// # for key in ["a", "b", "c"] { cf.put(key, key)?; }
    /// assert_eq!(cf.range("a".."c").count(), 2);
    /// assert_eq!(cf.range("b"..).rev().count(), 2);
    /// let (last, _) = cf.range(.."c").next_back().unwrap()?;
    /// assert_eq!(last, "b");
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, range: impl KeyRange) -> Range {
        Range::new(self, self.view(), range.into_bounds())
    }

    /// Iterates over the records whose keys begin with `prefix`, in the family's current state. With a custom key order
    /// this scans the whole family, because such keys need not be adjacent.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        Range::with_prefix(self, self.view(), prefix.as_ref())
    }

    /// Iterates over all records in the family's current state.
    pub fn iter(&self) -> Range {
        self.range(..)
    }

    /// Compacts all tables of the family until they hold no deleted or overwritten records, except versions that
    /// snapshots see. Blob files may keep garbage, up to about half of their bytes; [`Db::settle`](crate::Db::settle)
    /// reduces it to an eighth.
    pub fn compact(&self) -> Result<()> {
        self.inner.check(&self.family)?;
        self.inner.engine.compact(&self.family, &(Bound::Unbounded, Bound::Unbounded))
    }

    /// Flushes, then compacts the tables that hold keys of a range until they hold no deleted or overwritten records in
    /// it, as [`compact`](ColumnFamily::compact) does.
    pub fn compact_range(&self, range: impl KeyRange) -> Result<()> {
        self.inner.check(&self.family)?;
        self.inner.engine.compact(&self.family, &range.into_bounds())
    }

    /// Compacts tables that the caller has chosen, by their numbers ([`tables`](ColumnFamily::tables)). Each is merged
    /// into the next level with what it overlaps there, or rewritten in place at the bottom. A
    /// [compaction filter](crate::CompactionFilter) is applied to all values that are rewritten. A table that the
    /// compaction of another one took along is done. The memtables are not flushed.
    ///
    /// Errors: `Invalid` for a number of no table of the family, before anything is compacted, and for a quarantined
    /// table.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// # let cf = db.column_family("default")?;
    /// # cf.put("key", "value")?;
    /// # db.flush()?;
    /// let largest = cf.tables()?.into_iter().max_by_key(|table| table.bytes).unwrap();
    /// cf.compact_files([largest.number])?;
    /// # assert_eq!(cf.get("key")?.unwrap(), "value");
    /// # Ok(())
    /// # }
    /// ```
    pub fn compact_files(&self, numbers: impl IntoIterator<Item = u64>) -> Result<()> {
        self.inner.check(&self.family)?;
        let numbers: Vec<u64> = numbers.into_iter().collect();
        self.inner.engine.compact_tables(&self.family, &numbers)
    }

    /// Estimates how many bytes of the store's files hold records of a range. Memtables are not counted.
    pub fn approximate_size(&self, range: impl KeyRange) -> Result<u64> {
        self.inner.check(&self.family)?;
        self.inner.engine.approximate_size(&self.family, &range.into_bounds())
    }

    /// Estimates the number of records that a scan of the family would return: deleted, overwritten and expired records
    /// do not count, records in memtables do. After [`Db::settle`](crate::Db::settle) the error is below 5 %, unless a
    /// snapshot keeps records that a range delete hides. [`iter`](ColumnFamily::iter)`().keys().count()` is the exact
    /// number.
    ///
    /// Costs no file access if one level holds all data, as after a compaction of the whole family. Otherwise the newer
    /// levels and the memtables are sampled: about 1,000 look-ups, whatever the size of the family, and a step for each
    /// record of the memtables. Returns 0 for a family that was dropped or whose store was closed.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// for n in 0..1000u32 {
    ///     cf.put(n.to_be_bytes(), "value")?;
    /// }
    /// assert!((950..=1050).contains(&cf.approximate_len()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn approximate_len(&self) -> u64 {
        let checked = self.inner.check(&self.family);
        checked.and_then(|()| self.inner.engine.approximate_len(&self.family)).unwrap_or(0)
    }

    fn view(&self) -> Result<waxseal_lsm::db::Snapshot> {
        self.inner.check(&self.family).and_then(|()| self.inner.engine.snapshot())
    }
}

impl fmt::Debug for ColumnFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnFamily({:?})", self.name())
    }
}
