//! The identity of the store to which a file belongs, for salvage without a manifest. See docs/format.md, section 3.1.
//!
//! The first page of each manifest, segment and ring names its store. A table names the store that wrote it in a
//! property. A checkpoint is a separate store with tables of its parent, so its files also name the stores that it
//! descends from, and bounds for the tables that it may hold of each.
//!
//! Crash: the identity is written together with its page. A page without an identity, or with a damaged one, names no
//! store.

use std::path::Path;

use crate::checksum::{Uid, hash};
use crate::codec::Reader;
use crate::env::{Env, Open, read_into};
use crate::error::{IoContext, Result};
use crate::frame::PAGE_BYTES;
use crate::header::{FileHeader, FileKind};
use crate::names::StoreFileName;
use crate::record::Seqno;

/// Offset of the identity in the first page, behind all marks.
pub const IDENTITY_AT: usize = 2048;

/// Maximum number of ancestors that a store names, nearest first. A table of a more distant ancestor must have survived
/// that many checkpoints, each made from the previous one.
const MOST_ANCESTORS: usize = 32;

/// Bytes of an ancestor.
const ANCESTOR_BYTES: usize = 32;

const _: () = assert!(IDENTITY_AT + 16 + 4 + MOST_ANCESTORS * ANCESTOR_BYTES + 8 <= PAGE_BYTES);

/// A store, and those that it descends from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreIdentity {
    /// The store's uid.
    pub store: Uid,
    /// The chain of parent stores if this store is a checkpoint, the direct parent first.
    pub ancestors: Vec<Ancestor>,
}

/// A store from which a checkpoint was made. The checkpoint holds no table of it beyond these bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ancestor {
    /// The uid of that store.
    pub store: Uid,
    /// Linked tables have numbers below this one.
    pub below: u64,
    /// The greatest seqno in linked tables.
    pub through: Seqno,
}

impl From<Uid> for StoreIdentity {
    fn from(store: Uid) -> StoreIdentity {
        StoreIdentity { store, ancestors: Vec::new() }
    }
}

impl StoreIdentity {
    /// Returns the identity of a checkpoint of this store, with tables below number `below` and seqnos up to `through`.
    #[must_use]
    pub fn of_checkpoint(&self, store: Uid, below: u64, through: Seqno) -> StoreIdentity {
        let parent = Ancestor { store: self.store, below, through };
        let ancestors = [parent].into_iter().chain(self.ancestors.iter().copied()).take(MOST_ANCESTORS).collect();
        StoreIdentity { store, ancestors }
    }

    /// Returns true if a table that names `writer` may belong to this store: the store wrote the table, or an ancestor
    /// wrote it before the checkpoint.
    pub fn may_hold(&self, writer: Uid, number: u64, greatest: Seqno) -> bool {
        let came_along = |of: &Ancestor| of.store == writer && number < of.below && greatest <= of.through;
        self.store == writer || self.ancestors.iter().any(came_along)
    }

    /// Writes it into the first page of a file.
    pub fn put_into(&self, page: &mut [u8]) {
        let mut block = self.store.0.to_vec();
        block.extend_from_slice(&(self.ancestors.len() as u32).to_le_bytes());
        for Ancestor { store, below, through } in &self.ancestors {
            block.extend_from_slice(&store.0);
            block.extend_from_slice(&below.to_le_bytes());
            block.extend_from_slice(&through.to_le_bytes());
        }
        let check = hash(&block);
        block.extend_from_slice(&check.to_le_bytes());
        page[IDENTITY_AT..IDENTITY_AT + block.len()].copy_from_slice(&block);
    }

    /// Reads the identity from the first page of a file. Returns `None` for a file of an earlier build or a damaged
    /// page.
    pub fn in_page(page: &[u8]) -> Option<StoreIdentity> {
        let mut reader = Reader::starting_at(page, IDENTITY_AT);
        let store = Uid(reader.array().ok()?);
        let count = reader.u32().ok()? as usize;
        if count > MOST_ANCESTORS {
            return None;
        }
        let mut ancestors = Vec::with_capacity(count);
        for _ in 0..count {
            let ancestor =
                Ancestor { store: Uid(reader.array().ok()?), below: reader.u64().ok()?, through: reader.u64().ok()? };
            ancestors.push(ancestor);
        }
        let end = IDENTITY_AT + 20 + count * ANCESTOR_BYTES;
        (reader.u64().ok()? == hash(page.get(IDENTITY_AT..end)?)).then_some(StoreIdentity { store, ancestors })
    }
}

/// Returns the manifests, segments and rings of a directory that name a store, with its identity. Unreadable files are
/// skipped. Reads one page of each file.
///
/// Errors: `Io` if the directory cannot be listed.
pub fn named_in(env: &Env, dir: &Path) -> Result<Vec<(StoreFileName, StoreIdentity)>> {
    let names = env.fs.list(dir).during(|| "listing the store's directory")?;
    let kind_of = |name: StoreFileName| match name {
        StoreFileName::Manifest(_) => Some(FileKind::Manifest),
        StoreFileName::Segment(_) => Some(FileKind::Segment),
        StoreFileName::Ring(_) => Some(FileKind::Ring),
        _ => None,
    };
    let mut named = Vec::new();
    for name in names.iter().filter_map(|name| StoreFileName::parse(name)) {
        let Some(kind) = kind_of(name) else { continue };
        let Ok(file) = env.fs.open(&dir.join(name.to_string()), Open::Read) else { continue };
        let mut page = vec![0; PAGE_BYTES];
        if read_into(&*file, 0, &mut page).is_err() || !FileHeader::is_of(&page, kind) {
            continue;
        }
        // The uid of a manifest has always been that of its store.
        let of_header = || FileHeader::decode(&page, kind).ok().filter(|_| kind == FileKind::Manifest);
        let identity = StoreIdentity::in_page(&page).or_else(|| of_header().map(|header| header.uid.into()));
        named.extend(identity.map(|identity| (name, identity)));
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn uid(byte: u8) -> Uid {
        Uid([byte; 16])
    }

    #[test]
    fn a_checkpoint_may_hold_what_its_parents_had_written_by_then() {
        let first = StoreIdentity::from(uid(1));
        let second = first.of_checkpoint(uid(2), 10, 100);
        let third = second.of_checkpoint(uid(3), 20, 200);
        for (writer, number, greatest, expected) in [
            (3, 99, 999, true),
            (2, 19, 200, true),
            (2, 20, 200, false),
            (2, 19, 201, false),
            (1, 9, 100, true),
            (1, 10, 100, false),
            (1, 9, 101, false),
            (4, 1, 1, false),
        ] {
            assert_eq!(third.may_hold(uid(writer), number, greatest), expected, "{writer} {number} {greatest}");
        }
        assert!(!first.may_hold(uid(2), 1, 1), "a parent holds nothing of its checkpoint");
    }

    #[test]
    fn the_nearest_ancestors_are_named() {
        let mut identity = StoreIdentity::from(uid(0));
        for at in 1..=100 {
            identity = identity.of_checkpoint(uid(at), at.into(), 1);
        }
        assert_eq!(identity.ancestors.len(), MOST_ANCESTORS);
        assert_eq!(identity.ancestors[0], Ancestor { store: uid(99), below: 100, through: 1 });
        let mut page = vec![0; PAGE_BYTES];
        identity.put_into(&mut page);
        assert_eq!(StoreIdentity::in_page(&page), Some(identity));
    }

    #[test]
    fn a_page_names_its_store_and_no_flipped_bit_another() {
        let identity = StoreIdentity::from(uid(7)).of_checkpoint(uid(8), 3, 4);
        let mut page = vec![0; PAGE_BYTES];
        assert_eq!(StoreIdentity::in_page(&page), None, "a page of an earlier build");
        identity.put_into(&mut page);
        assert_eq!(StoreIdentity::in_page(&page).as_ref(), Some(&identity));
        for bit in IDENTITY_AT * 8..(IDENTITY_AT + 20 + ANCESTOR_BYTES + 8) * 8 {
            let mut flipped = page.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(StoreIdentity::in_page(&flipped), None, "bit {bit}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(page: Vec<u8>, at in 0..64usize) {
            let mut page = page;
            page.splice(0..0, vec![0; IDENTITY_AT.saturating_sub(at)]);
            let _ = StoreIdentity::in_page(&page);
        }
    }
}
