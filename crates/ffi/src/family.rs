//! Column families: open by name, create, drop, list.

use face::ColumnFamily;

use crate::bytes::{give, waxseal_bytes_t};
use crate::db::waxseal_db_t;
use crate::declare::destroy;
use crate::error::calls;
use crate::failure::Result;
use crate::family_options::{change_family, family_settings, options_of, waxseal_family_options_t};
use crate::handle::{HandleKind, handle, issue, with};
use crate::json::options_json;
use crate::options::verify;
use crate::range::waxseal_range_t;

/// A column family of an open store: one ordered map from keys to values. Usable from any thread. Destroyed by
/// `waxseal_family_destroy`, before or after its store is closed.
pub struct waxseal_family_t {
    _opaque: [u8; 0],
}

handle!(waxseal_family_t => ColumnFamily, HandleKind::Family, "column family", |family| Some(family.store()));

calls! {
    /// Opens the column family with this name, and creates it if it does not exist; `default` always exists. In a store
    /// opened read-only, an unknown name is `WAXSEAL_INVALID`.
    ///
    /// Thread-safe. On success the caller owns `*family` and frees it with `waxseal_family_destroy`. Errors:
    /// `WAXSEAL_INVALID` for a name that is not UTF-8 or not allowed, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_family_open(db: *mut waxseal_db_t, bytes name, out family: *mut *mut waxseal_family_t) {
        let family = family.needed("column family")?;
        let opened = with(db.cast_const(), |db| Ok(db.column_family(name.text("name")?)?))?;
        family.set(issue(opened)?);
        Ok(())
    }

    /// Returns the column family with this name; `WAXSEAL_NOT_FOUND` if it does not exist. Creates nothing, also beside a
    /// thread that drops the family.
    ///
    /// Thread-safe. On `WAXSEAL_OK` the caller owns `*family` and frees it with `waxseal_family_destroy`. Errors:
    /// `WAXSEAL_INVALID` for a name that is not UTF-8, `WAXSEAL_CLOSED`.
    fn waxseal_family_find(db: *const waxseal_db_t, bytes name, out family: *mut *mut waxseal_family_t) {
        let family = family.needed("column family")?;
        let Some(found) = with(db, |db| Ok(db.find_column_family(name.text("name")?)?))? else { return Ok(false) };
        family.set(issue(found)?);
        Ok(true)
    }

    /// Creates a column family with its own options. `options` may be null. The name has 1 to 255 bytes, none of them
    /// zero.
    ///
    /// Thread-safe. On success the caller owns `*family` and frees it with `waxseal_family_destroy`. Errors:
    /// `WAXSEAL_INVALID` if the name exists or is not allowed, and for invalid options; `WAXSEAL_READ_ONLY`,
    /// `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_family_create(
        db: *mut waxseal_db_t, bytes name, options: *const waxseal_family_options_t,
        out family: *mut *mut waxseal_family_t,
    ) {
        let family = family.needed("column family")?;
        let made = with(db.cast_const(), |db| {
            let settings = family_settings(options, db.store())?;
            Ok(db.create_column_family(name.text("name")?, settings)?)
        })?;
        family.set(issue(made)?);
        Ok(())
    }

    /// Returns the id of a column family. A store gives no id twice: a family that is dropped and created again has
    /// another one.
    ///
    /// Thread-safe.
    fn waxseal_family_id(family: *const waxseal_family_t, out id: *mut u32) {
        let id = id.needed("id")?;
        id.set(with(family, |family| Ok(family.id()))?);
        Ok(())
    }

    /// Returns the options of a column family as of now. Setters change the copy, and `waxseal_family_set_options` gives
    /// it to a family of the same store, or of another one if it holds no callbacks of the caller.
    ///
    /// Thread-safe. On success the caller owns `*options` and frees it with `waxseal_family_options_destroy`.
    fn waxseal_family_get_options(
        family: *const waxseal_family_t, out options: *mut *mut waxseal_family_options_t,
    ) {
        let options = options.needed("family options")?;
        options.set(with(family, options_of)?);
        Ok(())
    }

    /// Changes options of a column family while the store is open, and records them in the store. Of an object that
    /// `waxseal_family_get_options` returned for this family, the options are taken over whose values have changed since
    /// then, or since the last change by this object, so that concurrent callers do not undo each other's changes. Of
    /// other objects every option is taken over, also one that was not set. Calls and background jobs that begin after
    /// the change obey it; tables keep their form until they are rewritten. The verification levels are not recorded.
    ///
    /// Thread-safe. The change is durable when the call returns. Errors: `WAXSEAL_INVALID`, and nothing changes, if the
    /// options are invalid, or if comparator or merge operator differ from those of the family; `WAXSEAL_READ_ONLY`,
    /// `WAXSEAL_IO`, `WAXSEAL_HALTED`, `WAXSEAL_CLOSED`.
    fn waxseal_family_set_options(family: *mut waxseal_family_t, options: *const waxseal_family_options_t) {
        with(family.cast_const(), |family| change_family(family, options))
    }

    /// Returns the options of a column family as one JSON object: their names with numbers, words, true, false or null.
    /// Times are in microseconds.
    ///
    /// Thread-safe. On success the caller owns `*text` and frees it with `waxseal_bytes_destroy`.
    fn waxseal_family_options_json(family: *const waxseal_family_t, out text: *mut *mut waxseal_bytes_t) {
        let text = text.needed("text")?;
        give(text, options_json(&with(family, |family| Ok(family.options().list()))?).as_bytes())
    }

    /// Drops a column family with all its records. Calls with handles to it return `WAXSEAL_INVALID` from then on.
    /// `default` cannot be dropped.
    ///
    /// Thread-safe. Errors: `WAXSEAL_INVALID` for an unknown name, `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_family_drop(db: *mut waxseal_db_t, bytes name) {
        with(db.cast_const(), |db| Ok(db.drop_column_family(name.text("name")?)?))
    }

    /// Removes all keys of several column families in one commit, with the store's durability: see
    /// `waxseal_delete_range`. A count of 0 is not an error.
    ///
    /// Thread-safe. Errors: as of `waxseal_put`; `WAXSEAL_INVALID` for a family of another store or one that was dropped.
    /// Nothing is removed then.
    fn waxseal_clear(db: *mut waxseal_db_t, array families: *const *const waxseal_family_t) {
        let cleared = families?.iter().map(|family| with(*family, |family: &ColumnFamily| Ok(family.clone())));
        let cleared = cleared.collect::<Result<Vec<ColumnFamily>>>()?;
        with(db.cast_const(), |db| Ok(db.clear(&cleared)?))
    }

    /// Returns the names of all column families, each followed by a zero byte.
    ///
    /// Thread-safe. On success the caller owns `*names` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_CLOSED`.
    fn waxseal_family_names(db: *const waxseal_db_t, out names: *mut *mut waxseal_bytes_t) {
        with(db, |db| {
            let names = names.needed("names")?;
            let mut all = Vec::new();
            for family in db.column_families() {
                all.extend_from_slice(family.name().as_bytes());
                all.push(0);
            }
            give(names, &all)
        })
    }

    /// Returns the name of a column family.
    ///
    /// Thread-safe. On success the caller owns `*name` and frees it with `waxseal_bytes_destroy`.
    fn waxseal_family_name(family: *const waxseal_family_t, out name: *mut *mut waxseal_bytes_t) {
        with(family, |family| give(name.needed("name")?, family.name().as_bytes()))
    }

    /// Returns another handle to the column family, with its own verification policy, one of `WAXSEAL_VERIFY_..`, for
    /// all reads through it, iterators included. Only `WAXSEAL_VERIFY_SAMPLED` uses `one_in`.
    ///
    /// Thread-safe. On success the caller owns `*verified` and frees it with `waxseal_family_destroy`. Errors:
    /// `WAXSEAL_INVALID` for an unknown policy.
    fn waxseal_family_with_verify(
        family: *const waxseal_family_t, policy: i32, one_in: u32, out verified: *mut *mut waxseal_family_t,
    ) {
        let verified = verified.needed("column family")?;
        let policy = verify(policy, one_in)?;
        verified.set(issue(with(family, |family| Ok(family.with_verify(policy)))?)?);
        Ok(())
    }

    /// Returns another handle to the column family, which decides whether blocks loaded by its reads are added to the
    /// block cache. Set `fill` to false for one-time scans.
    ///
    /// Thread-safe. On success the caller owns `*filling` and frees it with `waxseal_family_destroy`.
    fn waxseal_family_with_fill_cache(
        family: *const waxseal_family_t, fill: bool, out filling: *mut *mut waxseal_family_t,
    ) {
        let filling = filling.needed("column family")?;
        filling.set(issue(with(family, |family| Ok(family.with_fill_cache(fill)))?)?);
        Ok(())
    }

    /// Compacts the whole family until deleted and overwritten records take no space.
    ///
    /// Thread-safe. Errors: `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_HALTED`, `WAXSEAL_READ_ONLY`,
    /// `WAXSEAL_CLOSED`.
    fn waxseal_compact(family: *mut waxseal_family_t) { with(family.cast_const(), |family| Ok(family.compact()?)) }

    /// Compacts the tables that may hold keys of a range, as `waxseal_compact` does. `range` may be null: all keys.
    ///
    /// Thread-safe. Errors: as of `waxseal_compact`; `WAXSEAL_INVALID` for an invalid range.
    fn waxseal_compact_range(family: *mut waxseal_family_t, bounds range: *const waxseal_range_t) {
        with(family.cast_const(), |family| Ok(family.compact_range(range?)?))
    }

    /// Compacts tables by their numbers (`waxseal_tables_list`): each is merged into the next level with what it overlaps
    /// there, or rewritten in place at the bottom. The family's compaction filter is applied. A table that the
    /// compaction of another one took along is done.
    ///
    /// Thread-safe. Errors: as of `waxseal_compact`; `WAXSEAL_INVALID` for a number of no table of the family, before
    /// anything is compacted, and for a quarantined table.
    fn waxseal_compact_files(family: *mut waxseal_family_t, array numbers: *const u64) {
        let numbers = numbers?.iter().copied();
        with(family.cast_const(), |family| Ok(family.compact_files(numbers)?))
    }

    /// Flushes the family, then compacts the tables that may have an item of a property (`waxseal_tables_with`), as
    /// `waxseal_compact_files` does. Values are moved out of the blob files that may have it, so that none of these files
    /// is left, unless a value cannot be read.
    ///
    /// Thread-safe. Errors: as of `waxseal_compact`; `WAXSEAL_INVALID` for a property that is not UTF-8, and for a
    /// quarantined table.
    fn waxseal_compact_with(family: *mut waxseal_family_t, bytes property, bytes item) {
        let (property, item) = (property.text("property")?, item.bytes("item")?);
        with(family.cast_const(), |family| Ok(family.compact_with(property, item)?))
    }

    /// Returns the approximate bytes of the store's files that hold records of a range. Memtables are not counted.
    /// `range` may be null: all keys.
    ///
    /// Thread-safe. Errors: `WAXSEAL_CLOSED`.
    fn waxseal_approximate_size(
        family: *const waxseal_family_t, bounds range: *const waxseal_range_t, out size: *mut u64,
    ) {
        let size = size.needed("size")?;
        size.set(with(family, |family| Ok(family.approximate_size(range?)?))?);
        Ok(())
    }

    /// Estimates the number of records that a scan of the column family would return; after `waxseal_settle` the error
    /// is below 5 %. Reads no file if one level holds all data; otherwise costs about 1,000 look-ups, whatever the size
    /// of the family, and a step for each record of the memtables.
    ///
    /// Thread-safe. Errors: `WAXSEAL_CLOSED`, `WAXSEAL_INVALID` for a dropped family.
    fn waxseal_approximate_len(family: *const waxseal_family_t, out len: *mut u64) {
        let len = len.needed("length")?;
        len.set(with(family, |family| Ok(family.check().map(|()| family.approximate_len())?))?);
        Ok(())
    }
}

destroy! {
    /// Destroys a handle to a column family; the family itself stays. Null is allowed; a destroyed handle is
    /// `WAXSEAL_CLOSED`.
    ///
    /// Thread-safe: concurrent calls that use the handle finish.
    fn waxseal_family_destroy(family: *mut waxseal_family_t);
}
