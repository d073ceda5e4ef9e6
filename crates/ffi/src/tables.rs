//! The table files of a column family, and what is kept out of reach: tables that are barred, spans of keys that are fenced.

use face::registry::{Case, Item};
use face::{ColumnFamily, TableInfo};

use crate::call::{answer, status_of, value_of};
use crate::db::waxseal_db_t;
use crate::error::{Result, verdict_number, waxseal_error_t};
use crate::events::waxseal_field_t;
use crate::family::waxseal_family_t;
use crate::fields::{Flat, flat};
use crate::handle::{Handle, Kind, end, handle, issue, with};
use crate::lent::{Out, out, waxseal_slice_t};
use crate::registry::WAXSEAL_FOREVER;

/// The object of a case is a table file, by the number in its name.
pub const WAXSEAL_CASE_TABLE: i32 = 1;
/// It is a span of keys, by the number of its fence.
pub const WAXSEAL_CASE_SPAN: i32 = 2;

/// Table files. The list depends on nothing, may be read from any thread, and is ended by `waxseal_tables_destroy`.
pub struct waxseal_tables_t {
    _opaque: [u8; 0],
}

handle!(waxseal_tables_t => Vec<TableInfo>, Kind::Tables, "list of tables");

/// One table file. Its slices are valid until its list is ended.
#[repr(C)]
pub struct waxseal_table_t {
    /// The number in its file name.
    pub number: u64,
    /// Its level; 0 is the newest.
    pub level: u32,
    /// Length of the file.
    pub bytes: u64,
    /// Records, all versions and tombstones.
    pub records: u64,
    /// Smallest key.
    pub smallest: waxseal_slice_t,
    /// Largest key.
    pub largest: waxseal_slice_t,
    /// Least place in the order of commits.
    pub least_seqno: u64,
    /// Greatest place in the order of commits.
    pub greatest_seqno: u64,
}

/// The place of what a list holds at `at`, if it holds so many.
fn listed<H, T>(list: *const H, at: usize, show: impl FnOnce(&T)) -> i32
where
    H: Handle<Object = Vec<T>>,
{
    status_of(|| with(list, |list| Ok(list.get(at).map(show).is_some())))
}

/// Gives a list to the caller.
fn give<H, T>(place: Out<'_, *mut H>, list: Vec<T>) -> Result<()>
where
    H: Handle<Object = Vec<T>>,
{
    place.set(issue(list)?);
    Ok(())
}

fn tables(
    family: *const waxseal_family_t,
    tables: *mut *mut waxseal_tables_t,
    error: *mut *mut waxseal_error_t,
    list: impl FnOnce(&ColumnFamily) -> Result<Vec<TableInfo>>,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (tables, error) = unsafe { (out(tables), out(error)) };
    answer(error, || give(tables.needed("tables")?, with(family, list)?))
}

/// The family's table files as they are now, the upper levels first. Costs no I/O.
///
/// Thread-safe. On success `*tables` is the caller's, to be ended by `waxseal_tables_destroy`. Errors: `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_tables(
    family: *const waxseal_family_t,
    tables: *mut *mut waxseal_tables_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    self::tables(family, tables, error, |family| Ok(family.tables()?))
}

/// Those of them that are damaged, and that compaction leaves alone until they are repaired.
///
/// Thread-safe. On success `*tables` is the caller's, to be ended by `waxseal_tables_destroy`. Errors: `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_barred_tables(
    family: *const waxseal_family_t,
    tables: *mut *mut waxseal_tables_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    self::tables(family, tables, error, |family| {
        let barred = family.barred_tables()?;
        Ok(family.tables()?.into_iter().filter(|table| barred.contains(&table.number)).collect())
    })
}

/// How many tables there are; 0 for null and for a list that was ended.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_tables_count(tables: *const waxseal_tables_t) -> usize {
    value_of(0, || with(tables, |tables| Ok(tables.len())))
}

/// The table at a place, counted from 0. `WAXSEAL_NOT_FOUND` behind the last.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_tables_get(
    tables: *const waxseal_tables_t,
    at: usize,
    table: *mut waxseal_table_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let table = unsafe { out(table) };
    listed(tables, at, |info: &TableInfo| {
        table.set(waxseal_table_t {
            number: info.number,
            level: u32::try_from(info.level).unwrap_or(u32::MAX),
            bytes: info.bytes,
            records: info.records,
            smallest: waxseal_slice_t::of(&info.smallest),
            largest: waxseal_slice_t::of(&info.largest),
            least_seqno: info.seqnos.0,
            greatest_seqno: info.seqnos.1,
        });
    })
}

/// Ends a list of tables. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_tables_destroy(tables: *mut waxseal_tables_t) -> i32 {
    status_of(|| end(tables.cast_const()))
}

/// Fences. The list depends on nothing, may be read from any thread, and is ended by `waxseal_fences_destroy`.
pub struct waxseal_fences_t {
    _opaque: [u8; 0],
}

handle!(waxseal_fences_t => Vec<face::care::Fence>, Kind::Fences, "list of fences");

/// A span in which records were lost, from one place to another in the order of keys and, of one key, the newest version first. Its
/// slices are valid until its list is ended.
#[repr(C)]
pub struct waxseal_fence_t {
    /// The key with which it begins, which need not be one that was ever written: of it only versions from `from_seqno` down are concerned.
    pub from: waxseal_slice_t,
    /// The newest version of that key that is concerned.
    pub from_seqno: u64,
    /// The key with which it ends, often that of the first record behind: of it only versions down to `to_seqno` are concerned.
    pub to: waxseal_slice_t,
    /// The oldest version of that key that is concerned.
    pub to_seqno: u64,
    /// No record that was lost is newer, by its place in the order of commits: one that is decides as ever.
    pub bound: u64,
    /// The file in which they stood.
    pub file: waxseal_slice_t,
    /// The place of their block in it.
    pub offset: u64,
    /// What was wrong: one of `WAXSEAL_VERDICT_..`.
    pub verdict: i32,
}

/// Where something was lost for good: reads between these keys answer `WAXSEAL_CORRUPTION`, until a repair lifts the fence.
///
/// Thread-safe. On success `*fences` is the caller's, to be ended by `waxseal_fences_destroy`. Errors: `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_fences(
    family: *const waxseal_family_t,
    fences: *mut *mut waxseal_fences_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (fences, error) = unsafe { (out(fences), out(error)) };
    answer(error, || give(fences.needed("fences")?, with(family, |family| Ok(family.fences()?))?))
}

/// How many fences there are; 0 for null and for a list that was ended.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_fences_count(fences: *const waxseal_fences_t) -> usize {
    value_of(0, || with(fences, |fences| Ok(fences.len())))
}

/// The fence at a place, counted from 0. `WAXSEAL_NOT_FOUND` behind the last.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_fences_get(
    fences: *const waxseal_fences_t,
    at: usize,
    fence: *mut waxseal_fence_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let place = unsafe { out(fence) };
    listed(fences, at, |fence: &face::care::Fence| {
        place.set(waxseal_fence_t {
            from: waxseal_slice_t::of(&fence.from.0),
            from_seqno: fence.from.1,
            to: waxseal_slice_t::of(&fence.to.0),
            to_seqno: fence.to.1,
            bound: fence.bound,
            file: waxseal_slice_t::of(fence.file.as_bytes()),
            offset: fence.offset,
            verdict: verdict_number(fence.verdict),
        });
    })
}

/// Ends a list of fences. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_fences_destroy(fences: *mut waxseal_fences_t) -> i32 {
    status_of(|| end(fences.cast_const()))
}

/// Cases of quarantine. The list depends on nothing, may be read from any thread, and is ended by `waxseal_cases_destroy`.
pub struct waxseal_cases_t {
    _opaque: [u8; 0],
}

handle!(waxseal_cases_t => Vec<Known>, Kind::Cases, "list of cases");

/// A case, with its fields as C reads them.
pub(crate) struct Known {
    case: Case,
    fields: Vec<Flat>,
}

/// Something that is kept out of reach, or was. Its slices are valid until its list is ended.
#[repr(C)]
pub struct waxseal_case_t {
    /// The family, as it was called then.
    pub family: waxseal_slice_t,
    /// What of it: one of `WAXSEAL_CASE_..`.
    pub kind: i32,
    /// The number of the table or of the fence.
    pub number: u64,
    /// Since when, in microseconds since 1970.
    pub since_micros: u64,
    /// Until when; `WAXSEAL_FOREVER`: it is so now.
    pub until_micros: u64,
    /// How it ended: `freed`, `lifted`, `replaced`, `dropped` or `gone`; empty: it has not.
    pub how: waxseal_slice_t,
    /// Number of its fields.
    pub fields: usize,
}

/// Which tables and spans of keys are kept out of reach, and which were, by family: as it stands in `system_metadata.quarantine`.
///
/// Thread-safe. On success `*cases` is the caller's, to be ended by `waxseal_cases_destroy`. Errors: `WAXSEAL_INVALID` in a store that was
/// opened without its registry; as of reads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_quarantined(
    db: *const waxseal_db_t,
    cases: *mut *mut waxseal_cases_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (cases, error) = unsafe { (out(cases), out(error)) };
    answer(error, || {
        let cases = cases.needed("cases")?;
        let found = with(db, |db| Ok(db.quarantined()?))?;
        give(cases, found.into_iter().map(|case| Known { fields: flat(&case.payload), case }).collect())
    })
}

/// How many cases there are; 0 for null and for a list that was ended.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_cases_count(cases: *const waxseal_cases_t) -> usize {
    value_of(0, || with(cases, |cases| Ok(cases.len())))
}

/// The case at a place, counted from 0. `WAXSEAL_NOT_FOUND` behind the last.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_cases_get(cases: *const waxseal_cases_t, at: usize, case: *mut waxseal_case_t) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let place = unsafe { out(case) };
    listed(cases, at, |Known { case, fields }: &Known| {
        let (kind, number) = match case.item {
            Item::Table(number) => (WAXSEAL_CASE_TABLE, number),
            Item::Span(number) => (WAXSEAL_CASE_SPAN, number),
        };
        let (until, how) = case.until.as_ref().map_or((WAXSEAL_FOREVER, ""), |(time, how)| (time.micros(), how));
        place.set(waxseal_case_t {
            family: waxseal_slice_t::of(case.family.as_bytes()),
            kind,
            number,
            since_micros: case.since.micros(),
            until_micros: until,
            how: waxseal_slice_t::of(how.as_bytes()),
            fields: fields.len(),
        });
    })
}

/// A field of the case at a place, both counted from 0: how it began, the table, or the span and its bound. `WAXSEAL_NOT_FOUND` behind
/// the last. Valid until the list is ended.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_cases_field(
    cases: *const waxseal_cases_t,
    at: usize,
    field_at: usize,
    field: *mut waxseal_field_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let field = unsafe { out(field) };
    status_of(|| {
        with(cases, |cases| {
            let Some(flat) = cases.get(at).and_then(|known| known.fields.get(field_at)) else { return Ok(false) };
            field.set(waxseal_field_t::of(flat));
            Ok(true)
        })
    })
}

/// Ends a list of cases. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_cases_destroy(cases: *mut waxseal_cases_t) -> i32 {
    status_of(|| end(cases.cast_const()))
}
