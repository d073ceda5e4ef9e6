//! The table files of a column family, its quarantined tables and its fenced key ranges.

use std::collections::HashSet;

use face::care::Fence;
use face::registry::{Case, Item};
use face::{ColumnFamily, TableInfo};

use crate::db::waxseal_db_t;
use crate::declare::{destroy, finders, getters, mirror};
use crate::error::{calls, verdict_number};
use crate::events::waxseal_field_t;
use crate::failure::Result;
use crate::family::waxseal_family_t;
use crate::fields::{Flat, flat};
use crate::handle::{Handle, HandleKind, handle, issue, with};
use crate::lent::{Out, waxseal_slice_t};
use crate::registry::WAXSEAL_FOREVER;

/// The case concerns a table file, identified by the number in its name.
pub const WAXSEAL_CASE_TABLE: i32 = 1;
/// The case concerns a key range, identified by the number of its fence.
pub const WAXSEAL_CASE_SPAN: i32 = 2;

/// A list of table files. It does not depend on the store, is readable from any thread, and is freed by
/// `waxseal_tables_destroy`.
pub struct waxseal_tables_t {
    _opaque: [u8; 0],
}

handle!(waxseal_tables_t => Vec<TableInfo>, HandleKind::Tables, "list of tables");

mirror! {
    /// One table file. Its slices are valid until its list is destroyed.
    pub struct waxseal_table_file_t of |table: &TableInfo| {
        /// The number in its file name.
        pub number: u64,
        /// Its level; level 0 holds the newest tables.
        pub level: u32 = u32::try_from(table.level).unwrap_or(u32::MAX),
        /// Size of the file.
        pub bytes: u64,
        /// Number of records: all versions, tombstones included.
        pub records: u64,
        /// Smallest key.
        pub smallest: waxseal_slice_t = waxseal_slice_t::of(&table.smallest),
        /// Largest key.
        pub largest: waxseal_slice_t = waxseal_slice_t::of(&table.largest),
        /// Smallest sequence number.
        pub least_seqno: u64 = table.seqnos.0,
        /// Largest sequence number.
        pub greatest_seqno: u64 = table.seqnos.1,
    }
}

/// Hands a list to the caller.
fn give<H, T>(place: Out<'_, *mut H>, list: Vec<T>) -> Result<()>
where
    H: Handle<Object = Vec<T>>,
{
    place.set(issue(list)?);
    Ok(())
}

calls! {
    /// Returns the family's current table files, upper levels first. Costs no I/O.
    ///
    /// Thread-safe. On success the caller owns `*tables` and frees it with `waxseal_tables_destroy`. Errors:
    /// `WAXSEAL_CLOSED`.
    fn waxseal_tables(family: *const waxseal_family_t, out tables: *mut *mut waxseal_tables_t) {
        give(tables.needed("tables")?, with(family, |family| Ok(family.tables()?))?)
    }

    /// Returns the tables that may have an item of a property, upper levels first. No table with the item is missing: a
    /// table may have the items of the blob files that it points into, and a file without the property may have any item.
    /// Records that are not flushed are in no table. Opens each table that is not open.
    ///
    /// Thread-safe. On success the caller owns `*tables` and frees it with `waxseal_tables_destroy`. Errors:
    /// `WAXSEAL_CLOSED`, `WAXSEAL_IO`.
    fn waxseal_tables_with(
        family: *const waxseal_family_t, bytes property, bytes item, out tables: *mut *mut waxseal_tables_t,
    ) {
        let (property, item) = (property.text("property")?, item.bytes("item")?);
        give(tables.needed("tables")?, with(family, |family| Ok(family.files_with(property, item)?))?)
    }

    /// Returns the family's damaged tables that are excluded from compaction until they are repaired.
    ///
    /// Thread-safe. On success the caller owns `*tables` and frees it with `waxseal_tables_destroy`. Errors:
    /// `WAXSEAL_CLOSED`.
    fn waxseal_barred_tables(family: *const waxseal_family_t, out tables: *mut *mut waxseal_tables_t) {
        let list = |family: &ColumnFamily| {
            let barred: HashSet<u64> = family.barred_tables()?.into_iter().collect();
            Ok(family.tables()?.into_iter().filter(|table| barred.contains(&table.number)).collect())
        };
        give(tables.needed("tables")?, with(family, list)?)
    }
}

getters! {
    with;

    /// Number of tables; 0 for null and for a destroyed list.
    fn waxseal_tables_count(tables: *const waxseal_tables_t) -> usize => |tables| tables.len(), or 0;
}

finders! {
    /// The table at a 0-based index. `WAXSEAL_NOT_FOUND` past the end.
    fn waxseal_tables_get(tables: *const waxseal_tables_t, at: usize; table: *mut waxseal_table_file_t) =>
        |tables| tables.get(at).map(waxseal_table_file_t::of);
}

destroy! {
    /// Destroys a list of tables. Null is allowed; a destroyed list is `WAXSEAL_CLOSED`.
    fn waxseal_tables_destroy(tables: *mut waxseal_tables_t);
}

/// A list of fences. It does not depend on the store, is readable from any thread, and is freed by
/// `waxseal_fences_destroy`.
pub struct waxseal_fences_t {
    _opaque: [u8; 0],
}

handle!(waxseal_fences_t => Vec<Fence>, HandleKind::Fences, "list of fences");

mirror! {
    /// A range in which records were lost. It is ordered by key and, for one key, by version, the newest first. Its
    /// slices are valid until its list is destroyed.
    pub struct waxseal_fence_t of |fence: &Fence| {
        /// The key at which the range begins; it need not have been written ever. Only its versions from `from_seqno`
        /// down are affected.
        pub from: waxseal_slice_t = waxseal_slice_t::of(&fence.from.0),
        /// The newest affected version of `from`.
        pub from_seqno: u64 = fence.from.1,
        /// The key at which the range ends, often that of the next record. Only its versions down to `to_seqno` are
        /// affected.
        pub to: waxseal_slice_t = waxseal_slice_t::of(&fence.to.0),
        /// The oldest affected version of `to`.
        pub to_seqno: u64 = fence.to.1,
        /// Upper bound of the lost records' sequence numbers. A record with a larger sequence number is newer than all
        /// of them and is returned as usual.
        pub bound: u64,
        /// The file that held the lost records.
        pub file: waxseal_slice_t = waxseal_slice_t::text(&fence.file),
        /// The offset of their block in the file.
        pub offset: u64,
        /// The kind of damage: one of `WAXSEAL_VERDICT_..`.
        pub verdict: i32 = verdict_number(fence.verdict),
    }
}

calls! {
    /// Returns the ranges of permanently lost records: reads in them return `WAXSEAL_CORRUPTION`, until a repair lifts
    /// the fence.
    ///
    /// Thread-safe. On success the caller owns `*fences` and frees it with `waxseal_fences_destroy`. Errors:
    /// `WAXSEAL_CLOSED`.
    fn waxseal_fences(family: *const waxseal_family_t, out fences: *mut *mut waxseal_fences_t) {
        give(fences.needed("fences")?, with(family, |family| Ok(family.fences()?))?)
    }
}

getters! {
    with;

    /// Number of fences; 0 for null and for a destroyed list.
    fn waxseal_fences_count(fences: *const waxseal_fences_t) -> usize => |fences| fences.len(), or 0;
}

finders! {
    /// The fence at a 0-based index. `WAXSEAL_NOT_FOUND` past the end.
    fn waxseal_fences_get(fences: *const waxseal_fences_t, at: usize; fence: *mut waxseal_fence_t) =>
        |fences| fences.get(at).map(waxseal_fence_t::of);
}

destroy! {
    /// Destroys a list of fences. Null is allowed; a destroyed list is `WAXSEAL_CLOSED`.
    fn waxseal_fences_destroy(fences: *mut waxseal_fences_t);
}

/// A list of quarantine cases. It does not depend on the store, is readable from any thread, and is freed by
/// `waxseal_cases_destroy`.
pub struct waxseal_cases_t {
    _opaque: [u8; 0],
}

handle!(waxseal_cases_t => Vec<FlatCase>, HandleKind::Cases, "list of cases");

/// A case, with its fields in the form that C reads.
pub(crate) struct FlatCase {
    case: Case,
    fields: Vec<Flat>,
}

mirror! {
    /// A table or key range that is or was in quarantine. Its slices are valid until its list is destroyed.
    pub struct waxseal_case_t of |known: &FlatCase| {
        /// The name that the family had when the case began.
        pub family: waxseal_slice_t = waxseal_slice_t::text(&known.case.family),
        /// The kind of object: one of `WAXSEAL_CASE_..`.
        pub kind: i32 =
            match known.case.item { Item::Table(_) => WAXSEAL_CASE_TABLE, Item::Span(_) => WAXSEAL_CASE_SPAN },
        /// The number of the table or of the fence.
        pub number: u64 = match known.case.item { Item::Table(number) | Item::Span(number) => number },
        /// The start of the quarantine, in microseconds since 1970.
        pub since_micros: u64 = known.case.since.micros(),
        /// The end of the quarantine; `WAXSEAL_FOREVER` if it is still open.
        pub until_micros: u64 = known.case.until.as_ref().map_or(WAXSEAL_FOREVER, |(time, _)| time.micros()),
        /// How it ended: `freed`, `lifted`, `replaced`, `dropped` or `gone`; empty if it is still open.
        pub how: waxseal_slice_t = waxseal_slice_t::text(known.case.until.as_ref().map_or("", |(_, how)| how)),
        /// Number of its fields.
        pub fields: usize = known.fields.len(),
    }
}

calls! {
    /// Returns the tables and key ranges that are or were in quarantine, ordered by family, as recorded in
    /// `system_metadata.quarantine`.
    ///
    /// Thread-safe. On success the caller owns `*cases` and frees it with `waxseal_cases_destroy`. Errors:
    /// `WAXSEAL_INVALID` in a store that was opened without its registry; otherwise as of reads.
    fn waxseal_quarantined(db: *const waxseal_db_t, out cases: *mut *mut waxseal_cases_t) {
        let cases = cases.needed("cases")?;
        let found = with(db, |db| {
            let (nobody, found) = (db.nobody(), db.registry().quarantined()?);
            let case = |case: Case| FlatCase { fields: flat(&nobody, &case.payload), case };
            Ok(found.into_iter().map(case).collect())
        })?;
        give(cases, found)
    }
}

getters! {
    with;

    /// Number of cases; 0 for null and for a destroyed list.
    fn waxseal_cases_count(cases: *const waxseal_cases_t) -> usize => |cases| cases.len(), or 0;
}

finders! {
    /// The case at a 0-based index. `WAXSEAL_NOT_FOUND` past the end.
    fn waxseal_cases_get(cases: *const waxseal_cases_t, at: usize; case: *mut waxseal_case_t) =>
        |cases| cases.get(at).map(waxseal_case_t::of);

    /// A field of a case, both by 0-based index: the cause, the table, or the range and its bound. `WAXSEAL_NOT_FOUND`
    /// past the end. Valid until the list is destroyed.
    fn waxseal_cases_field(
        cases: *const waxseal_cases_t,
        at: usize,
        field_at: usize;
        field: *mut waxseal_field_t,
    ) => |cases| cases.get(at).and_then(|known| known.fields.get(field_at)).map(waxseal_field_t::of);
}

destroy! {
    /// Destroys a list of cases. Null is allowed; a destroyed list is `WAXSEAL_CLOSED`.
    fn waxseal_cases_destroy(cases: *mut waxseal_cases_t);
}
