//! Backups: incremental copies of a store in one directory, and their list, verification, restore and purge.

use std::ops::ControlFlow;

use face::care::Progress;
use face::{Backup, BackupInfo, BackupOptions, BackupProgress, CreatedBackup};

use crate::care_options::{Care, Pass, care_settings, waxseal_care_options_t};
use crate::db::waxseal_db_t;
use crate::declare::{destroy, finders, getters, mirror};
use crate::error::calls;
use crate::failure::Result;
use crate::handle::{HandleKind, handle, issue, with};
use crate::lent::{Out, waxseal_slice_t};
use crate::reentry::Caller;

/// A list of backups, the oldest first. It does not depend on the directory, is readable from any thread, and is freed by
/// `waxseal_backups_destroy`.
pub struct waxseal_backups_t {
    _opaque: [u8; 0],
}

/// A backup of a list, with its texts.
pub(crate) struct ListedBackup {
    info: BackupInfo,
    store: String,
    error: String,
}

handle!(waxseal_backups_t => Vec<ListedBackup>, HandleKind::Backups, "list of backups");

mirror! {
    /// One backup. Its slices are valid until its list is destroyed.
    pub struct waxseal_backup_info_t of |listed: &ListedBackup| {
        /// The backup's number in its directory; a later backup has a greater one.
        pub id: u64 = listed.info.id,
        /// The time of the backup, in microseconds since 1970.
        pub created_micros: u64 = listed.info.created_micros,
        /// The last commit in the backup.
        pub seqno: u64 = listed.info.seqno,
        /// Number of files.
        pub files: u64 = listed.info.files as u64,
        /// Bytes of the files.
        pub bytes: u64 = listed.info.bytes,
        /// Bytes of the files that this backup copied.
        pub copied_bytes: u64 = listed.info.copied_bytes,
        /// The store's id: 32 hexadecimal digits.
        pub store: waxseal_slice_t = waxseal_slice_t::of(listed.store.as_bytes()),
        /// The reason why the backup's description is unusable; empty if it is usable. With a reason, only `id` is set.
        pub error: waxseal_slice_t = waxseal_slice_t::of(listed.error.as_bytes()),
    }
}

/// The result of a backup.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct waxseal_backup_created_t {
    /// The backup's number in its directory.
    pub id: u64,
    /// The last commit in it.
    pub seqno: u64,
    /// Number of files in it.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Number of files that were copied.
    pub copied_files: u64,
    /// Bytes of the copied files.
    pub copied_bytes: u64,
    /// False if the store could not log the event. The backup is durable and whole nevertheless.
    pub is_logged: bool,
}

/// Runs a call with the rate limit and the progress function of the options.
fn paced<T>(
    options: *const waxseal_care_options_t,
    caller: &Caller,
    run: impl FnOnce(BackupOptions<'_>) -> face::Result<T>,
) -> Result<T> {
    let care: Care = care_settings(options, Pass::Backup)?;
    let mut progress = |BackupProgress { done, total }: BackupProgress| -> ControlFlow<()> {
        care.notify(caller, Progress { done, total, found: 0 })
    };
    let options = BackupOptions { bytes_per_second: care.bytes_per_second, progress: Some(&mut progress) };
    let outcome = run(options);
    care.unless_interrupted(outcome)
}

calls! {
    /// Adds a backup of the store to a directory, which is created if it is missing. The backup is durable when the call
    /// returns; after a crash it is complete or absent. Files that an earlier backup in the directory has are not copied
    /// again. Readers and writers continue meanwhile. `options` may be null; a backup accepts progress and bytes per
    /// second. `*created` may be null. After an error the directory holds no new backup.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. Errors: `WAXSEAL_INVALID` if the directory holds
    /// other files and no backup, or backups of another store; `WAXSEAL_LOCKED` while another backup or a purge runs in
    /// the directory; `WAXSEAL_CORRUPTION` for a damaged file of the store; `WAXSEAL_INTERRUPTED` if the progress
    /// function ends the call; `WAXSEAL_IO`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
    fn waxseal_backup_create(
        db: *mut waxseal_db_t, bytes path, options: *const waxseal_care_options_t,
        out created: *mut waxseal_backup_created_t,
    ) {
        let path = path.path()?;
        let CreatedBackup { id, seqno, files, bytes, copied_files, copied_bytes, unlogged } =
            with(db.cast_const(), |db| paced(options, &Caller::of(db.store()), |options| db.backup_with(path, options)))?;
        let (files, copied_files, is_logged) = (files as u64, copied_files as u64, unlogged.is_none());
        created.set(waxseal_backup_created_t { id, seqno, files, bytes, copied_files, copied_bytes, is_logged });
        Ok(())
    }

    /// Lists the backups in a directory.
    ///
    /// Thread-safe. On success the caller owns `*backups` and frees it with `waxseal_backups_destroy`. Errors:
    /// `WAXSEAL_INVALID` if the directory holds no backup, `WAXSEAL_IO`.
    fn waxseal_backup_list(bytes path, out backups: *mut *mut waxseal_backups_t) {
        let backups = backups.needed("backups")?;
        let listed = |info: BackupInfo| ListedBackup {
            store: format!("{:?}", info.store),
            error: info.error.as_ref().map(ToString::to_string).unwrap_or_default(),
            info,
        };
        let list: Vec<_> = Backup::open(path.path()?)?.list()?.into_iter().map(listed).collect();
        give(backups, list)
    }

    /// Reads every byte of a backup, and compares it with the hashes in the backup's description. `options` may be null;
    /// it accepts progress and bytes per second.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. Errors: `WAXSEAL_CORRUPTION` with the name of the
    /// first damaged or missing file; `WAXSEAL_INVALID` if there is no such backup; `WAXSEAL_INTERRUPTED`, `WAXSEAL_IO`.
    fn waxseal_backup_verify(bytes path, id: u64, options: *const waxseal_care_options_t,) {
        let backup = Backup::open(path.path()?)?;
        let verified = paced(options, &Caller::default(), |options| backup.verify_with(id, options))?;
        match verified.damage.into_iter().next() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Restores a backup into a directory, which must not exist or must be empty. Every byte is checked. The store is
    /// durable when the call returns, and has an id of its own. After an error nothing is left in the directory.
    /// `options` may be null; it accepts progress and bytes per second.
    ///
    /// Thread-safe, if no other thread uses the options meanwhile. Errors: as of `waxseal_backup_verify`, and
    /// `WAXSEAL_INVALID` if the directory is not empty.
    fn waxseal_backup_restore(bytes path, id: u64, bytes to, options: *const waxseal_care_options_t,) {
        let (backup, to) = (Backup::open(path.path()?)?, to.path()?);
        paced(options, &Caller::default(), |options| backup.restore_with(id, to, options))
    }

    /// Removes all backups except the `keep` newest, and all files that none of these needs. `*removed` is the number of
    /// removed backups; it may be null.
    ///
    /// Thread-safe. Errors: `WAXSEAL_LOCKED` while a backup or another purge runs in the directory; `WAXSEAL_CORRUPTION`
    /// if the description of a backup to be kept is damaged; `WAXSEAL_INVALID`, `WAXSEAL_IO`.
    fn waxseal_backup_purge(bytes path, keep: usize, out removed: *mut u64) {
        removed.set(Backup::open(path.path()?)?.purge(keep)?.backups as u64);
        Ok(())
    }
}

/// Hands a list to the caller.
fn give(place: Out<'_, *mut waxseal_backups_t>, list: Vec<ListedBackup>) -> Result<()> {
    place.set(issue(list)?);
    Ok(())
}

getters! {
    with;

    /// Number of backups; 0 for null and for a destroyed list.
    fn waxseal_backups_count(backups: *const waxseal_backups_t) -> usize => |backups| backups.len(), or 0;
}

finders! {
    /// The backup at a 0-based index. `WAXSEAL_NOT_FOUND` past the end.
    fn waxseal_backups_get(backups: *const waxseal_backups_t, at: usize; backup: *mut waxseal_backup_info_t) =>
        |backups| backups.get(at).map(waxseal_backup_info_t::of);
}

destroy! {
    /// Destroys a list of backups. Null is allowed; a destroyed list is `WAXSEAL_CLOSED`.
    fn waxseal_backups_destroy(backups: *mut waxseal_backups_t);
}
