//! Lists of directories and walks over trees, entry by entry.

use std::sync::Mutex;

use waxseal_files::{DirEntry, Find, List, Metadata, Walk, WalkEntry};

use crate::declare::destroy;
use crate::error::calls;
use crate::failure::Result;
use crate::file_reads::{view, waxseal_file_snapshot_t};
use crate::files::{path_of, waxseal_file_info_t, waxseal_files_t};
use crate::handle::{HandleKind, handle, issue, with_mut};
use crate::lent::{Out, waxseal_slice_t};

/// Entries of a tree at one point in time. Used by one thread at a time. Destroyed by `waxseal_file_list_destroy`; it
/// pins its view of the store until then.
pub struct waxseal_file_list_t {
    _opaque: [u8; 0],
}

/// An entry of a list.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct waxseal_file_entry_t {
    /// The name in the directory; of a walk, the path from the root. Valid until the next call with the list.
    pub name: waxseal_slice_t,
    /// The attributes.
    pub info: waxseal_file_info_t,
}

/// The entries that remain, and the name of the last one.
pub(crate) struct Entries {
    rest: Rest,
    name: Vec<u8>,
}

enum Rest {
    List(List),
    Walk(Walk),
    Find(Find),
}

impl Entries {
    /// Moves to the next entry, and returns its attributes.
    fn step(&mut self) -> Result<Option<Metadata>> {
        let of_walk = |entry: WalkEntry| (entry.path, entry.metadata);
        let next = match &mut self.rest {
            Rest::List(list) => list.next().map(|entry| entry.map(|DirEntry { name, metadata, .. }| (name, metadata))),
            Rest::Walk(walk) => walk.next().map(|entry| entry.map(of_walk)),
            Rest::Find(find) => find.next().map(|entry| entry.map(of_walk)),
        };
        let Some((name, metadata)) = next.transpose()? else { return Ok(None) };
        self.name = name;
        Ok(Some(metadata))
    }
}

handle!(waxseal_file_list_t => Mutex<Entries>, HandleKind::FileList, "list of files");

fn give(place: Out<'_, *mut waxseal_file_list_t>, rest: impl FnOnce() -> Result<Rest>) -> Result<()> {
    let place = place.needed("list")?;
    place.set(issue(Mutex::new(Entries { rest: rest()?, name: Vec::new() }))?);
    Ok(())
}

calls! {
    /// Lists a directory in the order of names, behind the name `after`; without one (length 0) from the first. `after`
    /// need not exist. A null `snapshot` is the current state.
    ///
    /// Thread-safe. On success the caller owns `*list` and frees it with `waxseal_file_list_destroy`. Errors:
    /// `WAXSEAL_FILE` with `ENOENT` or `ENOTDIR`; `WAXSEAL_CORRUPTION`, `WAXSEAL_CLOSED`.
    fn waxseal_files_list(
        files: *const waxseal_files_t, snapshot: *const waxseal_file_snapshot_t, bytes path, bytes after,
        out list: *mut *mut waxseal_file_list_t,
    ) {
        let (path, after) = (path_of(path)?, after.bytes("name")?);
        give(list, || Ok(Rest::List(view(files, snapshot)?.list_after(path, after)?)))
    }

    /// Walks over a tree, its root first: each directory before its entries, these in the order of their names. One
    /// scan. A null `snapshot` is the current state.
    ///
    /// Thread-safe. On success the caller owns `*list` and frees it with `waxseal_file_list_destroy`. Errors: as of
    /// `waxseal_files_stat`.
    fn waxseal_files_walk(
        files: *const waxseal_files_t, snapshot: *const waxseal_file_snapshot_t, bytes path,
        out list: *mut *mut waxseal_file_list_t,
    ) {
        let path = path_of(path)?;
        give(list, || Ok(Rest::Walk(view(files, snapshot)?.walk(path)?)))
    }

    /// As `waxseal_files_walk`, over the entries whose names match a pattern: `*`, `?`, `[a-z]`, `[!a-z]`, and `\`
    /// before a byte that is meant literally.
    ///
    /// Thread-safe. On success the caller owns `*list` and frees it with `waxseal_file_list_destroy`. Errors: as of
    /// `waxseal_files_walk`.
    fn waxseal_files_find(
        files: *const waxseal_files_t, snapshot: *const waxseal_file_snapshot_t, bytes path, bytes pattern,
        out list: *mut *mut waxseal_file_list_t,
    ) {
        let (path, pattern) = (path_of(path)?, pattern.bytes("pattern")?);
        give(list, || Ok(Rest::Find(view(files, snapshot)?.find(path, pattern)?)))
    }

    /// Returns the next entry. `WAXSEAL_NOT_FOUND` at the end. A damaged entry is one `WAXSEAL_CORRUPTION`, and the
    /// next call continues behind it.
    ///
    /// One thread at a time. Errors: `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
    fn waxseal_file_list_next(list: *mut waxseal_file_list_t, out entry: *mut waxseal_file_entry_t) {
        let entry = entry.needed("entry")?;
        with_mut(list.cast_const(), |entries: &mut Entries| {
            let Some(metadata) = entries.step()? else { return Ok(false) };
            let name = waxseal_slice_t::of(&entries.name);
            entry.set(waxseal_file_entry_t { name, info: waxseal_file_info_t::of(&metadata) });
            Ok(true)
        })
    }
}

destroy! {
    /// Destroys a list of files. Null is allowed; a destroyed one is `WAXSEAL_CLOSED`.
    fn waxseal_file_list_destroy(list: *mut waxseal_file_list_t);
}
