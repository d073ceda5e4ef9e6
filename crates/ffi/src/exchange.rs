//! Exchange with other stores: key ranges of a family as table files, out and in.

use std::path::PathBuf;
use std::sync::Mutex;

use face::exchange::{ExportOptions, Form, Imported, Policy, Versions};
use face::meta::LABELS;

use crate::call::{answer, status_of};
use crate::error::{Failure, Result, waxseal_error_t};
use crate::family::waxseal_family_t;
use crate::handle::{Kind, end, handle, issue, with, with_mut};
use crate::lent::{Out, lent, lent_slices, out, waxseal_slice_t};
use crate::range::{Bounds, bounds, waxseal_range_t};
use crate::snapshot::{read, waxseal_snapshot_t};

/// No metadata is exported. A record that expires is refused, as by every policy without seals: its receiver would keep it forever.
pub const WAXSEAL_POLICY_STRIP: i32 = 0;
/// Seals are exported with the entries that they cover, such as expiry times, and the entries of allowed providers. Export options
/// without a policy use this one, and allow labels too.
pub const WAXSEAL_POLICY_COMPANION: i32 = 1;
/// The MetaHive paper's checksums leave, in a table of their own: one tombstone a key, older than anything it could hide.
pub const WAXSEAL_POLICY_PAPER_SAFE: i32 = 2;
/// The paper's rows leave, one a version, between the records. They hide whatever older record of the key with a byte 01 behind it the
/// receiver has.
pub const WAXSEAL_POLICY_PAPER_LITERAL: i32 = 3;

/// Tables carry records alone.
pub const WAXSEAL_FORM_PLAIN: i32 = 0;
/// And seals, and what else may leave.
pub const WAXSEAL_FORM_SEALED: i32 = 1;
/// And rows of the paper, one a key, that mask nothing.
pub const WAXSEAL_FORM_PAPER_SAFE: i32 = 2;
/// And rows of the paper, one a version.
pub const WAXSEAL_FORM_PAPER_LITERAL: i32 = 3;

/// The records of an export, and the metadata that is written beside them. A null pointer stands for the defaults: the newest version of
/// every key, with its seal and labels. Used by one thread at a time, and ended by `waxseal_export_options_destroy`.
pub struct waxseal_export_options_t {
    _opaque: [u8; 0],
}

handle!(waxseal_export_options_t => Mutex<Leaving>, Kind::ExportOptions, "export options object");

/// What was set.
#[derive(Clone, Default)]
pub(crate) struct Leaving {
    /// `None` until the caller chooses one.
    policy: Option<i32>,
    allowed: Vec<u16>,
    ranges: Vec<Bounds>,
    all_versions: bool,
    seqno: Option<u64>,
}

impl Leaving {
    fn options(self) -> Result<ExportOptions> {
        let policy = match self.policy {
            None => Policy::Companion { allow: [vec![LABELS], self.allowed].concat() },
            Some(WAXSEAL_POLICY_COMPANION) => Policy::Companion { allow: self.allowed },
            _ if !self.allowed.is_empty() => {
                return Err(Failure::invalid("providers are allowed, but the policy lets none of their entries leave"));
            }
            Some(WAXSEAL_POLICY_STRIP) => Policy::Strip,
            Some(WAXSEAL_POLICY_PAPER_SAFE) => Policy::PaperSafe,
            Some(WAXSEAL_POLICY_PAPER_LITERAL) => Policy::PaperLiteral,
            Some(other) => return Err(Failure::invalid(format!("{other} is no policy of export"))),
        };
        let versions = if self.all_versions { Versions::All } else { Versions::Newest };
        let options = ExportOptions::new().policy(policy).versions(versions);
        let options = self.ranges.into_iter().fold(options, ExportOptions::range);
        Ok(self.seqno.into_iter().fold(options, ExportOptions::seqno))
    }
}

/// New export options: defaults.
///
/// Thread-safe. On success `*options` is the caller's, to be ended by `waxseal_export_options_destroy`. Errors: `WAXSEAL_INVALID` without a
/// place for the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_export_options_create(
    options: *mut *mut waxseal_export_options_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that outputs be null or writable.
    let (options, error) = unsafe { (out(options), out(error)) };
    answer(error, || {
        let options = options.needed("export options")?;
        options.set(issue(Mutex::default())?);
        Ok(())
    })
}

fn set(options: *mut waxseal_export_options_t, change: impl FnOnce(&mut Leaving)) -> i32 {
    status_of(|| {
        with_mut(options.cast_const(), |leaving: &mut Leaving| {
            change(leaving);
            Ok(())
        })
    })
}

/// Sets the metadata that is written beside the records: one of `WAXSEAL_POLICY_..`. Default `WAXSEAL_POLICY_COMPANION` with labels.
/// A call with `WAXSEAL_POLICY_COMPANION` leaves labels out unless their provider is allowed.
///
/// One thread at a time. A number that is no policy is told by the export.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_export_options_set_policy(options: *mut waxseal_export_options_t, policy: i32) -> i32 {
    set(options, |leaving| leaving.policy = Some(policy))
}

/// Allows one more provider whose entries are exported, with `WAXSEAL_POLICY_COMPANION` or the default policy.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_export_options_allow(options: *mut waxseal_export_options_t, provider: u16) -> i32 {
    set(options, |leaving| leaving.allowed.push(provider))
}

/// One range of keys more; they must ascend and not meet. Without any: all keys.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for a range that cannot be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_export_options_add_range(
    options: *mut waxseal_export_options_t,
    range: *const waxseal_range_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable.
    let range = unsafe { bounds(range) };
    status_of(|| {
        let range = range?;
        Ok(set(options, |leaving| leaving.ranges.push(range)))
    })
}

/// Whether every version is exported that still exists, tombstones too, and not the newest of each key alone. One whose time is over
/// leaves as a tombstone. Default false.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_export_options_set_all_versions(options: *mut waxseal_export_options_t, all: bool) -> i32 {
    set(options, |leaving| leaving.all_versions = all)
}

/// The place in the order of commits that every record gets instead of its own; with the newest version alone. Default: its own.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_export_options_set_seqno(options: *mut waxseal_export_options_t, seqno: u64) -> i32 {
    set(options, |leaving| leaving.seqno = Some(seqno))
}

/// Ends export options. Null is no error; options that were ended are `WAXSEAL_CLOSED`.
///
/// Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_export_options_destroy(options: *mut waxseal_export_options_t) -> i32 {
    status_of(|| end(options.cast_const()))
}

/// What an export did.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct waxseal_exported_t {
    /// Records of users.
    pub records: u64,
    /// Rows that speak for them.
    pub rows: u64,
    /// Records that had no seal.
    pub unsealed: u64,
    /// The sum of the seals of all records as numbers, modulo 2^64.
    pub sum: u64,
    /// Bytes of metadata in the tables.
    pub companion_bytes: u64,
    /// Tables.
    pub files: usize,
    /// Seals that were not exported.
    pub seals_left: u64,
    /// Stamps (session and time of a watched write) that were not exported; they never leave a store.
    pub stamps_left: u64,
    /// Entries of providers that were not exported.
    pub entries_left: u64,
    /// Bytes of all metadata that was not exported.
    pub bytes_left: u64,
    /// Values that had expired and were not exported.
    pub expired: u64,
}

/// Writes records of a family as table files into a new directory, for another node: one of this kind, a plain one, or one that has never
/// heard of seals. Every record is checked on its way out. Costs a scan and the files; they are durable when this answers, and a directory
/// without its last file, `EXCHANGE`, is no export. `snapshot`, `options` and `exported` may be null.
///
/// Thread-safe, if the options are this thread's own meanwhile. Errors: `WAXSEAL_INVALID` for ranges that meet or a policy that cannot carry
/// a key, which is named, before anything is written; `WAXSEAL_INVALID` for a record that expires under a policy that cannot say so, which is
/// named, and `WAXSEAL_CORRUPTION` with file and offset for a record that is not what its seal says: nothing stays of what was written;
/// `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_export(
    family: *const waxseal_family_t,
    snapshot: *const waxseal_snapshot_t,
    directory: *const u8,
    directory_len: usize,
    options: *const waxseal_export_options_t,
    exported: *mut waxseal_exported_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (directory, exported, error) = unsafe { (lent(directory, directory_len), out(exported), out(error)) };
    answer(error, || {
        let directory = directory.path()?;
        let leaving = match options.is_null() {
            true => Leaving::default(),
            false => with_mut(options, |leaving: &mut Leaving| Ok(leaving.clone()))?,
        };
        let options = leaving.options()?;
        let done = with(family, |family| {
            read(
                snapshot,
                || family.export(&directory, options.clone()),
                |snapshot| snapshot.export(family, &directory, options.clone()),
            )
        })?;
        exported.set(waxseal_exported_t {
            records: done.records,
            rows: done.rows,
            unsealed: done.unsealed,
            sum: done.sum,
            companion_bytes: done.companion_bytes,
            files: done.manifest.files.len(),
            seals_left: done.left_behind.seals,
            stamps_left: done.left_behind.stamps,
            entries_left: done.left_behind.entry_count(),
            bytes_left: done.left_behind.bytes,
            expired: done.left_behind.expired,
        });
        Ok(())
    })
}

/// What an import did.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct waxseal_imported_t {
    /// The place in the order of commits of every record that came in; 0 if there was none.
    pub seqno: u64,
    /// Records that came in: the newest of each key.
    pub records: u64,
    /// Older versions, which did not.
    pub superseded: u64,
    /// Records, of all versions, that carried a seal and match it.
    pub sealed: u64,
    /// Records, of all versions, that carried none.
    pub unsealed: u64,
    /// Rows in the paper's form that found their version and agree with it.
    pub bound: u64,
    /// Rows that found none; removed.
    pub orphans: u64,
    /// Versions, in an export in the paper's form, for which no row speaks.
    pub without_row: u64,
    /// Users' own tombstones of keys that end in 01.
    pub own_deletes: u64,
}

fn tell(place: Out<'_, waxseal_imported_t>, done: Imported) {
    let Imported { seqno, records, superseded, sealed, unsealed, bound, orphans, without_row, own_deletes } = done;
    let told =
        waxseal_imported_t { seqno, records, superseded, sealed, unsealed, bound, orphans, without_row, own_deletes };
    place.set(told);
}

/// Takes an export in: every record is checked first, all come under one new place in the order of commits, over what the keys held before. A
/// failed import has changed nothing. `imported` may be null.
///
/// Thread-safe. Errors: `WAXSEAL_CORRUPTION` with file and offset if anything is not what the export says of itself, or a record is not what
/// its seal or row says; `WAXSEAL_INVALID` for another order of keys, without an export there, and for a record that expires where this
/// store cannot keep when (a plain one); `WAXSEAL_FORMAT_TOO_NEW`, `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_import(
    family: *mut waxseal_family_t,
    directory: *const u8,
    directory_len: usize,
    imported: *mut waxseal_imported_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (directory, imported, error) = unsafe { (lent(directory, directory_len), out(imported), out(error)) };
    answer(error, || {
        let directory = directory.path()?;
        tell(imported, with(family.cast_const(), |family| Ok(family.import(&directory)?))?);
        Ok(())
    })
}

/// Takes in bare table files, which nothing describes but their own properties: those of an old node. `form` is one of `WAXSEAL_FORM_..`.
/// `imported` may be null.
///
/// Thread-safe. Errors: as of `waxseal_import`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn waxseal_import_tables(
    family: *mut waxseal_family_t,
    paths: *const waxseal_slice_t,
    count: usize,
    form: i32,
    imported: *mut waxseal_imported_t,
    error: *mut *mut waxseal_error_t,
) -> i32 {
    // SAFETY: the header asks that inputs be readable and outputs null or writable.
    let (paths, imported, error) = unsafe { (lent_slices(paths, count), out(imported), out(error)) };
    answer(error, || {
        let form = match form {
            WAXSEAL_FORM_PLAIN => Form::Plain,
            WAXSEAL_FORM_SEALED => Form::Sealed,
            WAXSEAL_FORM_PAPER_SAFE => Form::PaperSafe,
            WAXSEAL_FORM_PAPER_LITERAL => Form::PaperLiteral,
            other => return Err(Failure::invalid(format!("{other} is no form of tables"))),
        };
        let paths = paths?.into_iter().map(|path| path.path()).collect::<Result<Vec<PathBuf>>>()?;
        tell(imported, with(family.cast_const(), |family| Ok(family.import_tables(&paths, form)?))?);
        Ok(())
    })
}
