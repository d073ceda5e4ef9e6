//! Reads of file stores, now or at a snapshot: attributes, whole contents, reports.

use std::fmt::Write as _;

use waxseal_files::{Problem, Snapshot};

use crate::bytes::{give, owned, waxseal_bytes_t};
use crate::declare::{destroy, mirror};
use crate::error::calls;
use crate::failure::Result;
use crate::files::{on, path_of, waxseal_file_info_t, waxseal_files_t};
use crate::handle::{HandleKind, handle, issue, with};
use crate::json::put_text;

/// A directory tree at one point in time: the last commit before it was taken. Usable from any thread. Destroyed by
/// `waxseal_file_snapshot_destroy`; until then the content that it sees takes space.
pub struct waxseal_file_snapshot_t {
    _opaque: [u8; 0],
}

handle!(waxseal_file_snapshot_t => Snapshot, HandleKind::FileSnapshot, "snapshot of files");

mirror! {
    /// The space that a tree takes.
    #[derive(Clone, Copy, Debug)]
    pub struct waxseal_file_usage_t of |usage: &waxseal_files::DiskUsage| {
        /// Regular files.
        pub files: u64,
        /// Directories, the root of the tree included.
        pub directories: u64,
        /// Symbolic links, named pipes and sockets.
        pub others: u64,
        /// The sum of the sizes of files and links.
        pub bytes: u64,
        /// The sum of the bytes that are stored as chunks, without holes.
        pub allocated: u64,
    }
}

/// Returns a snapshot, or the current state if the snapshot is null.
pub(crate) fn view(files: *const waxseal_files_t, snapshot: *const waxseal_file_snapshot_t) -> Result<Snapshot> {
    let latest = on(files, |files| Ok(files.snapshot()))?;
    match snapshot.is_null() {
        true => Ok(latest),
        false => with(snapshot, |snapshot| Ok(snapshot.clone())),
    }
}

/// Returns a report as JSON: counts by their names, and the problems.
fn report(counts: &[(&str, u64)], problems: &[Problem]) -> String {
    let mut out = String::from("{");
    for (name, count) in counts {
        let _ = write!(out, "\"{name}\":{count},");
    }
    out.push_str("\"problems\":[");
    for (index, problem) in problems.iter().enumerate() {
        out.push_str(if index == 0 { "{\"path\":" } else { ",{\"path\":" });
        put_text(&mut out, &problem.path.escape_ascii().to_string());
        out.push_str(",\"fault\":");
        put_text(&mut out, &problem.fault);
        out.push('}');
    }
    out + "]}"
}

calls! {
    /// Returns the tree as it is now, for reads. Changes of open files that were not flushed are not in it.
    ///
    /// Thread-safe. On success the caller owns `*snapshot` and frees it with `waxseal_file_snapshot_destroy`. Errors:
    /// `WAXSEAL_CLOSED`.
    fn waxseal_file_snapshot_create(files: *mut waxseal_files_t, out snapshot: *mut *mut waxseal_file_snapshot_t) {
        let snapshot = snapshot.needed("snapshot")?;
        let taken = on(files, |files| Ok(files.snapshot()))?;
        taken.stat("")?; // fails if the store is closed
        snapshot.set(issue(taken)?);
        Ok(())
    }

    /// Returns the attributes of a path. A null `snapshot` is the current state, with changes of open files that wait
    /// in memory.
    ///
    /// Thread-safe. Errors: `WAXSEAL_FILE` with `ENOENT` or `ENOTDIR`; `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`,
    /// `WAXSEAL_CLOSED`.
    fn waxseal_files_stat(
        files: *const waxseal_files_t, snapshot: *const waxseal_file_snapshot_t, bytes path,
        out info: *mut waxseal_file_info_t,
    ) {
        let (info, path) = (info.needed("attributes")?, path_of(path)?);
        let found = match snapshot.is_null() {
            true => on(files, |files| files.stat(path))?,
            false => view(files, snapshot)?.stat(path)?,
        };
        info.set(waxseal_file_info_t::of(&found));
        Ok(())
    }

    /// Returns the entity tag of a file: its digest and size as text. `WAXSEAL_NOT_FOUND` while changes of an open file
    /// wait in memory, and for an entry that is no file. A null `snapshot` is the current state.
    ///
    /// Thread-safe. On `WAXSEAL_OK` the caller owns `*etag` and frees it with `waxseal_bytes_destroy`. Errors: as of
    /// `waxseal_files_stat`.
    fn waxseal_files_etag(
        files: *const waxseal_files_t, snapshot: *const waxseal_file_snapshot_t, bytes path,
        out etag: *mut *mut waxseal_bytes_t,
    ) {
        let (etag, path) = (etag.needed("entity tag")?, path_of(path)?);
        let found = match snapshot.is_null() {
            true => on(files, |files| files.stat(path))?,
            false => view(files, snapshot)?.stat(path)?,
        };
        let Some(tag) = found.etag() else { return Ok(false) };
        give(etag, tag.to_string().as_bytes())?;
        Ok(true)
    }

    /// Returns the content of a file as it was committed last, or at a snapshot. Every byte is verified.
    ///
    /// Thread-safe. On success the caller owns `*content` and frees it with `waxseal_bytes_destroy`. Errors:
    /// `WAXSEAL_FILE` with `ENOENT`, `ENOTDIR`, `EISDIR`, `ELOOP` or `EINVAL`, and with `EFBIG` if memory does not hold
    /// it; `WAXSEAL_CORRUPTION` if a byte is damaged or missing.
    fn waxseal_files_read(
        files: *const waxseal_files_t, snapshot: *const waxseal_file_snapshot_t, bytes path,
        out content: *mut *mut waxseal_bytes_t,
    ) {
        let (content, path) = (content.needed("content")?, path_of(path)?);
        content.set(issue(owned(view(files, snapshot)?.read(path)?)?)?);
        Ok(())
    }

    /// Returns the target of a symbolic link. A null `snapshot` is the current state.
    ///
    /// Thread-safe. On success the caller owns `*target` and frees it with `waxseal_bytes_destroy`. Errors: as of
    /// `waxseal_files_stat`; `WAXSEAL_FILE` with `EINVAL` if it is no link.
    fn waxseal_files_read_link(
        files: *const waxseal_files_t, snapshot: *const waxseal_file_snapshot_t, bytes path,
        out target: *mut *mut waxseal_bytes_t,
    ) {
        let (target, path) = (target.needed("target")?, path_of(path)?);
        give(target, &view(files, snapshot)?.read_link(path)?)
    }

    /// Returns an extended attribute. A null `snapshot` is the current state.
    ///
    /// Thread-safe. On success the caller owns `*value` and frees it with `waxseal_bytes_destroy`. Errors: as of
    /// `waxseal_files_stat`; `WAXSEAL_FILE` with `ENODATA`.
    fn waxseal_files_xattr(
        files: *const waxseal_files_t, snapshot: *const waxseal_file_snapshot_t, bytes path, bytes name,
        out value: *mut *mut waxseal_bytes_t,
    ) {
        let (value, path, name) = (value.needed("value")?, path_of(path)?, name.bytes("name")?);
        give(value, &view(files, snapshot)?.xattr(path, name)?)
    }

    /// Returns the names of the extended attributes, sorted, each followed by a zero byte. A null `snapshot` is the
    /// current state.
    ///
    /// Thread-safe. On success the caller owns `*names` and frees it with `waxseal_bytes_destroy`. Errors: as of
    /// `waxseal_files_stat`.
    fn waxseal_files_xattrs(
        files: *const waxseal_files_t, snapshot: *const waxseal_file_snapshot_t, bytes path,
        out names: *mut *mut waxseal_bytes_t,
    ) {
        let (names, path) = (names.needed("names")?, path_of(path)?);
        let found = view(files, snapshot)?.xattrs(path)?;
        give(names, &found.iter().flat_map(|name| [&name[..], &[0]].concat()).collect::<Vec<u8>>())
    }

    /// Returns the space that a tree takes. Costs a walk. A null `snapshot` is the current state.
    ///
    /// Thread-safe. Errors: as of `waxseal_files_stat`.
    fn waxseal_files_usage(
        files: *const waxseal_files_t, snapshot: *const waxseal_file_snapshot_t, bytes path,
        out usage: *mut waxseal_file_usage_t,
    ) {
        let (usage, path) = (usage.needed("usage")?, path_of(path)?);
        usage.set(waxseal_file_usage_t::of(&view(files, snapshot)?.disk_usage(path)?));
        Ok(())
    }

    /// Reads every byte of a tree and compares each file with its digest. The report is JSON: `entries`, `bytes`,
    /// `faults`, and `problems` with `path` and `fault` of the first 1,000. A null `snapshot` is the current state.
    ///
    /// Thread-safe. On success, also if there are faults, the caller owns `*json` and frees it with
    /// `waxseal_bytes_destroy`. Errors: as of `waxseal_files_stat`, except damage.
    fn waxseal_files_verify(
        files: *const waxseal_files_t, snapshot: *const waxseal_file_snapshot_t, bytes path,
        out json: *mut *mut waxseal_bytes_t,
    ) {
        let (json, path) = (json.needed("report")?, path_of(path)?);
        let found = view(files, snapshot)?.verify(path)?;
        let counts = [("entries", found.entries), ("bytes", found.bytes), ("faults", found.faults)];
        give(json, report(&counts, &found.problems).as_bytes())
    }

    /// Checks that the records of the file store agree. The report is JSON: `entries`, `contents`, `reclaims`,
    /// `chunks`, `faults`, and `problems` with `path` and `fault` of the first 1,000.
    ///
    /// Thread-safe. On success, also if there are faults, the caller owns `*json` and frees it with
    /// `waxseal_bytes_destroy`. Errors: as of `waxseal_files_verify`.
    fn waxseal_files_fsck(files: *const waxseal_files_t, out json: *mut *mut waxseal_bytes_t) {
        let json = json.needed("report")?;
        let found = on(files, |files| files.fsck())?;
        let counts = [
            ("entries", found.entries),
            ("contents", found.contents),
            ("reclaims", found.reclaims),
            ("chunks", found.chunks),
            ("faults", found.faults),
        ];
        give(json, report(&counts, &found.problems).as_bytes())
    }
}

destroy! {
    /// Destroys a snapshot of files. Null is allowed; a destroyed one is `WAXSEAL_CLOSED`.
    fn waxseal_file_snapshot_destroy(snapshot: *mut waxseal_file_snapshot_t);
}
