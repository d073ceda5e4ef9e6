//! The file that describes one backup: the state of the store, and the hash of every file. docs/format.md, section 11.
//!
//! Decoding checks the whole file before it uses a part of it, and checks that the hashes are those of the files that
//! the state names. Names of copied files are made of uid and digest; the file holds none.

use std::collections::BTreeMap;

use super::file_name::BackupFileName;
use crate::checksum::{Uid, hash};
use crate::codec::{Reader, put_bytes, put_varint};
use crate::error::{Error, ErrorKind, Result};
use crate::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::identity::{Ancestor, StoreIdentity};
use crate::names::StoreFileName;
use crate::record::Seqno;
use crate::version::{Edit, ManifestState};

/// A backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Description {
    /// The unique id of this backup.
    pub(super) uid: Uid,
    /// The number in the file's name.
    pub(super) id: u64,
    /// The time of the backup, in microseconds since 1970.
    pub(super) created_micros: u64,
    /// Bytes of the files that this backup copied.
    pub(super) copied_bytes: u64,
    /// The last commit in the files.
    pub(super) seqno: Seqno,
    /// The store, and those that it descends from.
    pub(super) identity: StoreIdentity,
    /// The hash of every file, by the file's name in the store.
    pub(super) hashes: BTreeMap<StoreFileName, u64>,
    /// The state of the store, without a log.
    pub(super) state: ManifestState,
}

/// A file of a backup, as its description names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DescribedFile {
    /// Its name in the store.
    pub(super) store_name: StoreFileName,
    /// Its name in the directory of backups.
    pub(super) name: BackupFileName,
    /// Its length in bytes.
    pub(super) size: u64,
    /// XXH3-64 of its bytes.
    pub(super) hash: u64,
}

const BACKUP: u64 = 2;
const STORE: u64 = 4;
const HASH: u64 = 6;
const STATE: u64 = 8;

impl Description {
    /// Returns the backup's files.
    pub(super) fn files(&self) -> Result<Vec<DescribedFile>> {
        let described = |(store_name, (name, size))| {
            let hash = self.hashes.get(&store_name).copied();
            let hash = hash.ok_or_else(|| Error::structural("a backup lacks the hash of a file"))?;
            Ok(DescribedFile { store_name, name, size, hash })
        };
        named_by(&self.state)?.into_iter().map(described).collect()
    }

    /// Encodes the whole file.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = FileHeader::new(FileKind::Backup, self.uid).encode().to_vec();
        let mut put = |tag: u64, body: &[u8]| {
            put_varint(&mut out, tag);
            put_bytes(&mut out, body);
        };
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        put(BACKUP, &words(&[self.id, self.created_micros, self.copied_bytes, self.seqno]));
        let mut store = self.identity.store.0.to_vec();
        for ancestor in &self.identity.ancestors {
            store.extend_from_slice(&ancestor.store.0);
            store.extend_from_slice(&words(&[ancestor.below, ancestor.through]));
        }
        put(STORE, &store);
        for (name, hash) in &self.hashes {
            let is_values = u64::from(matches!(name, StoreFileName::Values(_)));
            put(HASH, &words(&[is_values, name.number().unwrap_or(0), *hash]));
        }
        put(STATE, &self.state.snapshot().encode());
        let sum = hash(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes the whole file. Errors: `Corruption` at an offset in it, `FormatTooNew`.
    pub(super) fn decode(name: &str, bytes: &[u8]) -> Result<Description> {
        let at = |offset: usize| move |error: Error| error.in_file(name, offset as u64);
        let Some(end) = bytes.len().checked_sub(8).filter(|end| *end >= HEADER_BYTES) else {
            return Err(Error::structural("too short to describe a backup")).map_err(at(0));
        };
        let header = FileHeader::decode(&bytes[..HEADER_BYTES], FileKind::Backup).map_err(at(0))?;
        let (found, expected) = (hash(&bytes[..end]), Reader::starting_at(bytes, end).u64().map_err(at(end))?);
        if found != expected {
            return Err(Error::mismatch(expected, found, "the description of a backup")).map_err(at(end));
        }
        let mut reader = Reader::starting_at(&bytes[..end], HEADER_BYTES);
        let (mut about, mut identity, mut hashes, mut state) = (None, None, BTreeMap::new(), None);
        while !reader.is_empty() {
            let offset = reader.position();
            let mut field = || -> Result<()> {
                let (tag, body) = (reader.varint()?, reader.length_prefixed()?);
                let mut body = Reader::new(body);
                match tag {
                    BACKUP => about = Some([body.u64()?, body.u64()?, body.u64()?, body.u64()?]),
                    STORE => identity = Some(take_identity(&mut body)?),
                    HASH => {
                        let (is_values, number) = (body.u64()?, body.u64()?);
                        let name = match is_values {
                            0 => StoreFileName::Table(number),
                            1 => StoreFileName::Values(number),
                            _ => return Err(Error::structural("the hash of a file of an unknown kind")),
                        };
                        if hashes.insert(name, body.u64()?).is_some() {
                            return Err(Error::structural("a backup names a file twice"));
                        }
                    }
                    STATE => {
                        let mut decoded = ManifestState::default();
                        decoded.apply(&Edit::decode(body.rest())?).map_err(Error::structural)?;
                        state = Some(decoded);
                    }
                    tag if tag % 2 == 0 => {
                        let what = "the backup was written by a newer version";
                        return Err(Error::of(ErrorKind::FormatTooNew, what));
                    }
                    _ => {}
                }
                Ok(())
            };
            field().map_err(at(offset))?;
        }
        let (Some([id, created_micros, copied_bytes, seqno]), Some(identity), Some(state)) = (about, identity, state)
        else {
            return Err(Error::structural("a part of the description of a backup is missing"))
                .map_err(at(HEADER_BYTES));
        };
        let named = named_by(&state).map_err(at(HEADER_BYTES))?;
        if !named.keys().eq(hashes.keys()) || state.log.is_some() {
            return Err(Error::structural("a backup does not name the files of its store")).map_err(at(HEADER_BYTES));
        }
        Ok(Description { uid: header.uid, id, created_micros, copied_bytes, seqno, identity, hashes, state })
    }
}

fn take_identity(reader: &mut Reader<'_>) -> Result<StoreIdentity> {
    let store = Uid(reader.array()?);
    let mut ancestors = Vec::new();
    while !reader.is_empty() {
        ancestors.push(Ancestor { store: Uid(reader.array()?), below: reader.u64()?, through: reader.u64()? });
    }
    Ok(StoreIdentity { store, ancestors })
}

/// Returns the files that a state names: by their names in the store, their names in a directory of backups and their
/// lengths.
fn named_by(state: &ManifestState) -> Result<BTreeMap<StoreFileName, (BackupFileName, u64)>> {
    let mut named = BTreeMap::new();
    let mut add = |store_name: StoreFileName, file: (BackupFileName, u64)| match named.insert(store_name, file) {
        Some(other) if other != file => Err(Error::structural("two files of a backup have one number")),
        _ => Ok(()),
    };
    for (_, table) in state.families.values().flat_map(|family| family.tables.values()) {
        add(StoreFileName::Table(table.number), (BackupFileName::Table(table.uid, table.digest), table.size))?;
        for blobs in &table.values {
            let name = BackupFileName::Values(blobs.file.uid, blobs.file.digest);
            add(StoreFileName::Values(blobs.file.number), (name, blobs.file.size))?;
        }
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::fuzzing;
    use crate::version::{EditChange, TableMeta};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn uid(byte: u8) -> Uid {
        Uid([byte; 16])
    }

    fn description() -> Description {
        let mut state = ManifestState::default();
        let family = |id: u32| EditChange::FamilyCreated {
            id,
            name: format!("family {id}"),
            comparator: "wax.bytewise".to_owned(),
            options: Vec::new(),
        };
        let table = |family, number: u64| {
            let table =
                TableMeta { number, uid: uid(number as u8), size: 100 + number, digest: 7, ..Default::default() };
            EditChange::TableAdded { family, level: 1, table: Arc::new(table) }
        };
        let changes = vec![family(0), family(1), table(0, 3), table(1, 4)];
        state.apply(&Edit::from(changes)).unwrap();
        Description {
            uid: uid(1),
            id: 1,
            created_micros: 12,
            copied_bytes: 5,
            seqno: 9,
            identity: StoreIdentity::from(uid(9)).of_checkpoint(uid(8), 2, 3),
            hashes: [(StoreFileName::Table(3), 33), (StoreFileName::Table(4), 44)].into(),
            state,
        }
    }

    /// Replaces the check, as an author of a hostile file does.
    fn mended(mut bytes: Vec<u8>) -> Vec<u8> {
        let end = bytes.len() - 8;
        let sum = hash(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn a_description_comes_back_and_no_flipped_bit_passes() {
        let (description, bytes) = (description(), description().encode());
        assert_eq!(Description::decode("BACKUP-000001", &bytes).unwrap(), description);
        let file = description.files().unwrap()[0];
        assert_eq!((file.name, file.size, file.hash), (BackupFileName::Table(uid(3), 7), 103, 33));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Description::decode("BACKUP-000001", &flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn the_hashes_must_be_those_of_the_files() {
        let with = |change: fn(&mut Description)| {
            let mut description = description();
            change(&mut description);
            Description::decode("BACKUP-000001", &description.encode()).unwrap_err()
        };
        for error in [
            with(|description| {
                let _ = description.hashes.pop_first();
            }),
            with(|description| {
                let _ = description.hashes.insert(StoreFileName::Table(5), 1);
            }),
            with(|description| {
                let _ = description.hashes.insert(StoreFileName::Values(3), 1);
            }),
            with(|description| {
                let table = TableMeta { number: 3, uid: uid(6), ..TableMeta::default() };
                let twice = EditChange::TableAdded { family: 1, level: 1, table: Arc::new(table) };
                description.state.apply(&Edit::from(vec![twice])).unwrap();
            }),
        ] {
            assert!(error.is_corruption(), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, changes: Vec<(u16, u8)>, cut in 0usize..400) {
            fuzzing::backup(&bytes);
            let mut changed = description().encode();
            for (at, byte) in changes.into_iter().take(6) {
                let at = HEADER_BYTES + usize::from(at) % (changed.len() - HEADER_BYTES);
                changed[at] = byte;
            }
            changed.truncate((HEADER_BYTES + 8).max(changed.len() - cut.min(changed.len() - HEADER_BYTES - 8) / 8));
            fuzzing::backup(&mended(changed));
        }
    }
}
