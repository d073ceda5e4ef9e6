//! Exchange with other stores: exports and imports key ranges of a family as table files.

use std::path::PathBuf;
use std::sync::Mutex;

use face::exchange::{ExportOptions, Exported, Form, Imported, Policy, Versions};
use face::meta::LABELS;

use crate::call::status_of;
use crate::declare::{destroy, field, mirror, setters};
use crate::error::{calls, create};
use crate::failure::{Failure, Result};
use crate::family::waxseal_family_t;
use crate::handle::{HandleKind, handle, with, with_mut};
use crate::range::{CallerBounds, bounds, waxseal_range_t};
use crate::snapshot::{read, waxseal_snapshot_t};

/// Exports no metadata. A record with an expiry time is refused, as by every policy without seals: the receiver would
/// keep it forever.
pub const WAXSEAL_POLICY_STRIP: i32 = 0;
/// Exports seals with the annotations that they cover, such as expiry times, and the entries of allowed providers.
/// Export options without a policy use this one, and also allow labels.
pub const WAXSEAL_POLICY_COMPANION: i32 = 1;
/// Exports the checksums of the MetaHive paper in a separate table: one tombstone per key, older than any record it
/// could hide.
pub const WAXSEAL_POLICY_PAPER_SAFE: i32 = 2;
/// Exports the paper's rows, one per version, between the records. A row hides an older record of the receiver whose
/// key is the row's record key followed by byte 01.
pub const WAXSEAL_POLICY_PAPER_LITERAL: i32 = 3;

/// The tables hold records only.
pub const WAXSEAL_FORM_PLAIN: i32 = 0;
/// The tables also hold seals and other exported metadata.
pub const WAXSEAL_FORM_SEALED: i32 = 1;
/// The tables also hold the paper's rows, one per key, which hide no record.
pub const WAXSEAL_FORM_PAPER_SAFE: i32 = 2;
/// The tables also hold the paper's rows, one per version.
pub const WAXSEAL_FORM_PAPER_LITERAL: i32 = 3;

/// Options of an export: the records, and the metadata written with them. A null pointer means the defaults: the newest
/// version of every key, with its seal and labels. Used by one thread at a time. Destroyed by
/// `waxseal_export_options_destroy`.
pub struct waxseal_export_options_t {
    _opaque: [u8; 0],
}

handle!(waxseal_export_options_t => Mutex<Leaving>, HandleKind::ExportOptions, "export options object");

/// All options that were set.
#[derive(Clone, Default)]
pub(crate) struct Leaving {
    /// `None` until the caller chooses one.
    policy: Option<i32>,
    allowed: Vec<u16>,
    ranges: Vec<CallerBounds>,
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

create! {
    /// Creates export options with all defaults.
    fn waxseal_export_options_create(options: *mut *mut waxseal_export_options_t) => "export options";
}

fn set(options: *mut waxseal_export_options_t, change: impl FnOnce(&mut Leaving)) -> i32 {
    status_of(|| {
        with_mut(options.cast_const(), |leaving: &mut Leaving| {
            change(leaving);
            Ok(())
        })
    })
}

setters! {
    field;

    /// Sets the policy for the metadata written with the records: one of `WAXSEAL_POLICY_..`. Default
    /// `WAXSEAL_POLICY_COMPANION` with labels. A call with `WAXSEAL_POLICY_COMPANION` omits labels unless their
    /// provider is allowed.
    ///
    /// One thread at a time. The export reports an unknown policy.
    fn waxseal_export_options_set_policy(options: *mut waxseal_export_options_t, policy: i32) => policy = Some(policy);
}

/// Allows the entries of one more provider to be exported, with `WAXSEAL_POLICY_COMPANION` or the default policy.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_export_options_allow(options: *mut waxseal_export_options_t, provider: u16) -> i32 {
    set(options, |leaving| leaving.allowed.push(provider))
}

/// Adds a key range to export. Ranges must ascend without overlap. If no range is added, all keys are exported.
///
/// One thread at a time. Errors: `WAXSEAL_INVALID` for an invalid range.
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

setters! {
    field;

    /// Whether all existing versions are exported, tombstones included, instead of the newest version of each key. An
    /// expired version is exported as a tombstone. Default false.
    fn waxseal_export_options_set_all_versions(options: *mut waxseal_export_options_t, all: bool) => all_versions = all;

    /// Sets one sequence number for all exported records instead of their own. Allowed only for an export of the newest
    /// versions. Default: their own.
    fn waxseal_export_options_set_seqno(options: *mut waxseal_export_options_t, seqno: u64) => seqno = Some(seqno);
}

destroy! {
    /// Destroys export options. Null is allowed; destroyed options are `WAXSEAL_CLOSED`.
    fn waxseal_export_options_destroy(options: *mut waxseal_export_options_t);
}

mirror! {
    /// The result of an export.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct waxseal_exported_t of |done: &Exported| {
        /// Number of user records.
        pub records: u64,
        /// Number of the paper's rows that describe these records.
        pub rows: u64,
        /// Number of records without a seal.
        pub unsealed: u64,
        /// The sum of the seals of all records, as numbers, modulo 2^64.
        pub sum: u64,
        /// Bytes of metadata in the tables.
        pub companion_bytes: u64,
        /// Number of tables.
        pub files: usize = done.manifest.files.len(),
        /// Number of seals that were not exported.
        pub seals_left: u64 = done.left_behind.seals,
        /// Number of stamps (session and time of a watched write) that were not exported; stamps never leave a store.
        pub stamps_left: u64 = done.left_behind.stamps,
        /// Number of provider entries that were not exported.
        pub entries_left: u64 = done.left_behind.entry_count(),
        /// Bytes of all metadata that was not exported.
        pub bytes_left: u64 = done.left_behind.bytes,
        /// Number of expired values, which were not exported.
        pub expired: u64 = done.left_behind.expired,
    }
}

calls! {
    /// Exports records of a family as table files in a new directory, for another node, which may be a sealed store, a
    /// plain store, or an engine without seals. Every record is checked before it is written. Costs a scan and the
    /// files. The files are durable when this call returns; a directory without its last file, `EXCHANGE`, is not an
    /// export. `snapshot`, `options` and `exported` may be null.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. Errors before anything is written: `WAXSEAL_INVALID`
    /// for overlapping ranges, or for a key that the policy cannot carry; the message names the key. Errors after which
    /// all written files are removed: `WAXSEAL_INVALID` for a record with an expiry time under a policy that cannot
    /// carry it; the message names the record. `WAXSEAL_CORRUPTION`, with file and offset, for a record that does not
    /// match its seal. `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_export(
        family: *const waxseal_family_t, snapshot: *const waxseal_snapshot_t, bytes directory,
        options: *const waxseal_export_options_t, out exported: *mut waxseal_exported_t,
    ) {
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
        exported.set(waxseal_exported_t::of(&done));
        Ok(())
    }
}

mirror! {
    /// The result of an import.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct waxseal_imported_t of |done: Imported| {
        /// The sequence number of every imported record; 0 if no record was imported.
        pub seqno: u64,
        /// Number of imported records: the newest version of each key.
        pub records: u64,
        /// Number of older versions, which were not imported.
        pub superseded: u64,
        /// Number of records, of all versions, that carried a seal and match it.
        pub sealed: u64,
        /// Number of records, of all versions, without a seal.
        pub unsealed: u64,
        /// Number of the paper's rows whose version was found and matches.
        pub bound: u64,
        /// Number of the paper's rows without their version; these rows were removed.
        pub orphans: u64,
        /// Number of versions without a row, in an export in the paper's form.
        pub without_row: u64,
        /// Number of user tombstones of keys that end in byte 01.
        pub own_deletes: u64,
    }
}

calls! {
    /// Imports an export. Every record is checked first. All imported records get one new sequence number and override
    /// the previous values of their keys. A failed import changes nothing. `imported` may be null.
    ///
    /// Thread-safe. Errors: `WAXSEAL_CORRUPTION`, with file and offset, if a file does not match the export's manifest,
    /// or a record does not match its seal or row. `WAXSEAL_INVALID` for another key order, for a directory without an
    /// export, and for a record with an expiry time if this store cannot keep it (a plain store).
    /// `WAXSEAL_FORMAT_TOO_NEW`, `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_import(family: *mut waxseal_family_t, bytes directory, out imported: *mut waxseal_imported_t) {
        let directory = directory.path()?;
        imported.set(waxseal_imported_t::of(with(family.cast_const(), |family| Ok(family.import(&directory)?))?));
        Ok(())
    }

    /// Imports bare table files, for instance of an old node, which only their own properties describe. `form` is one
    /// of `WAXSEAL_FORM_..`. `imported` may be null.
    ///
    /// Thread-safe. Errors: as of `waxseal_import`.
    fn waxseal_import_tables(
        family: *mut waxseal_family_t, slices paths, form: i32, out imported: *mut waxseal_imported_t,
    ) {
        let form = match form {
            WAXSEAL_FORM_PLAIN => Form::Plain,
            WAXSEAL_FORM_SEALED => Form::Sealed,
            WAXSEAL_FORM_PAPER_SAFE => Form::PaperSafe,
            WAXSEAL_FORM_PAPER_LITERAL => Form::PaperLiteral,
            other => return Err(Failure::invalid(format!("{other} is no form of tables"))),
        };
        let paths = paths?.into_iter().map(|path| path.path()).collect::<Result<Vec<PathBuf>>>()?;
        imported
            .set(waxseal_imported_t::of(with(family.cast_const(), |family| Ok(family.import_tables(&paths, form)?))?));
        Ok(())
    }
}
