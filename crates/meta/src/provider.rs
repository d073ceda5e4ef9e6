//! Metadata providers: each keeps its own entries with a record, next to the seal.
//!
//! In:     operations as they are written, and records as tables are built, merged and dropped.
//! Out:    typed entries in the record's list (docs/format.md, section 7).
//! Holds:  several providers work side by side, each with its own entry. A provider adds no cost to records without
//!         entries, unless it sets `Wants`. An entry that the seal covers (`in_checksum`) is part of the write: it must
//!         be portable, it never changes, and a protector that does not know its provider copies it. Every other entry
//!         has its own CRC and a flag that says whether unknown protectors copy it.

use std::fmt;
use std::sync::Arc;

use waxseal_lsm::codec::{put_bytes, put_varint};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::record::{Kind, Record, companion};
use waxseal_lsm::seam::DropReason;

/// Id of the seal itself, which is not an entry of the list.
pub const CHECKSUM: u16 = 0;
/// Id of the expiry provider.
pub const EXPIRY: u16 = 1;
/// Id of the provenance provider: session and time of the write.
pub const PROVENANCE: u16 = 2;
/// Id of the ETL provider: statistics for loading into another store.
pub const ETL: u16 = 3;
/// Id of the labels provider.
pub const LABELS: u16 = 4;
/// Reserved: the records from which a record was derived.
pub const LINEAGE: u16 = 5;

/// Default maximum entry length in bytes.
pub const DEFAULT_MAX_LEN: usize = 1024;

/// Whether an entry leaves its store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locality {
    /// Only this store has the entry; it is not exported.
    NodeLocal,
    /// The entry follows its record, also into exports.
    Portable,
}

/// How a protector that does not know the provider treats its entries when it writes a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnUnknown {
    /// It copies them unchanged.
    Preserve,
    /// It drops them.
    Drop,
}

/// Description of a provider, stored in property 10 of tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// Provider id. Ids below 16 belong to Waxseal.
    pub id: u16,
    /// Name, 1 to 64 bytes.
    pub name: String,
    /// Format version of the entries it writes.
    pub version: u8,
    /// Whether its entries are exported.
    pub locality: Locality,
    /// Maximum entry length in bytes: less than 64 KiB minus 64 bytes.
    pub max_len: usize,
    /// Whether the seal covers its entries. Sealed entries are portable and never change after the write.
    pub in_checksum: bool,
    /// How stores without this provider treat its entries.
    pub on_unknown: OnUnknown,
}

impl Descriptor {
    /// Creates a descriptor with the defaults: version 0, portable, up to 1 KiB, not sealed, preserved.
    pub fn new(id: u16, name: &str) -> Descriptor {
        Descriptor {
            id,
            name: name.to_owned(),
            version: 0,
            locality: Locality::Portable,
            max_len: DEFAULT_MAX_LEN,
            in_checksum: false,
            on_unknown: OnUnknown::Preserve,
        }
    }

    /// Checks the descriptor. Errors: `Invalid`, with every violated rule in one message.
    pub fn validate(&self) -> Result<()> {
        let checks = [
            (self.id != CHECKSUM && self.id != LINEAGE, "its id is reserved"),
            ((1..=64).contains(&self.name.len()), "its name must have 1 to 64 bytes"),
            (self.max_len < companion::MAX_BYTES - 64, "max_len must stay below 64 KiB, less 64 bytes"),
            (!self.in_checksum || self.locality == Locality::Portable, "what the seal covers must be portable"),
            (!self.in_checksum || self.on_unknown == OnUnknown::Preserve, "what the seal covers must be preserved"),
        ];
        let faults: Vec<&str> = checks.iter().filter(|(holds, _)| !holds).map(|(_, fault)| *fault).collect();
        match faults.as_slice() {
            [] => Ok(()),
            faults => Err(Error::invalid(format!("provider {} ({}): {}", self.id, self.name, faults.join("; ")))),
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.id.into());
        put_varint(out, self.version.into());
        let flags = u8::from(self.in_checksum)
            | u8::from(self.on_unknown == OnUnknown::Drop) << 1
            | u8::from(self.locality == Locality::NodeLocal) << 2;
        out.push(flags);
        put_varint(out, self.max_len as u64);
        put_bytes(out, self.name.as_bytes());
    }
}

/// Encodes descriptors for property 10. If several lists have the same id, the earliest list's descriptor is kept.
pub fn write_descriptors(lists: &[&[Descriptor]]) -> Vec<u8> {
    let mut all: Vec<&Descriptor> = lists.iter().flat_map(|list| list.iter()).collect();
    all.sort_by_key(|descriptor| descriptor.id); // stable: the earlier list's comes first
    all.dedup_by_key(|descriptor| descriptor.id);
    let mut out = Vec::new();
    all.iter().for_each(|descriptor| descriptor.put(&mut out));
    out
}

/// An operation that is being written.
#[derive(Clone, Copy, Debug)]
pub struct WriteCtx<'a> {
    /// The family's id.
    pub family: u32,
    /// The kind of the operation.
    pub kind: Kind,
    /// The user key.
    pub key: &'a [u8],
    /// `checksum::hash` of the key.
    pub key_hash: u64,
    /// The value.
    pub value: &'a [u8],
    /// The bytes that the caller passed for this provider.
    pub given: Option<&'a [u8]>,
}

/// The result of `MetadataProvider::on_build`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rebuild {
    /// The entry is copied unchanged, or stays absent.
    Keep,
    /// The entry is replaced by `out`.
    Set,
    /// The entry is removed.
    Remove,
}

/// Which calls a provider wants for every record, not only for records with an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wants {
    /// `on_write` for operations without bytes for this provider.
    pub every_write: bool,
    /// `on_build` for every record. Not allowed for entries that the seal covers.
    pub every_build: bool,
}

/// Keeps entries of one kind with records. Calls may come from any thread.
pub trait MetadataProvider: Send + Sync {
    /// Returns the provider's descriptor, the same on each call.
    fn descriptor(&self) -> Descriptor;

    /// Returns the calls that the provider wants for every record.
    fn wants(&self) -> Wants {
        Wants::default()
    }

    /// Called when an operation is written: appends the entry to `out` and returns true, or returns false for no entry.
    /// An error rejects the operation.
    fn on_write(&self, write: &WriteCtx<'_>, out: &mut Vec<u8>) -> Result<bool> {
        match write.given {
            Some(given) => {
                out.extend_from_slice(given);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Called when a record is written to a table, with its entry if it has one.
    fn on_build(&self, _record: &Record<'_>, _entry: Option<&[u8]>, _out: &mut Vec<u8>) -> Rebuild {
        Rebuild::Keep
    }

    /// Called when a merge operator combines these verified records: appends the result's entry to `out` and returns
    /// true, or returns false.
    fn on_merge(&self, _inputs: &[(Record<'_>, Option<&[u8]>)], _out: &mut Vec<u8>) -> Result<bool> {
        Ok(false)
    }

    /// Called when a record with an entry is dropped from a table. For a value in a blob file the record holds the
    /// pointer (kind `BlobPointer`): the value is not read.
    fn on_drop(&self, _record: &Record<'_>, _entry: &[u8], _reason: DropReason) {}

    /// Returns false if the entry cannot be a valid one for this record. Not called if the value has not been read
    /// (kind `BlobPointer`).
    fn verify(&self, _record: &Record<'_>, _entry: &[u8]) -> bool {
        true
    }
}

/// The providers of a store, ascending by id.
#[derive(Clone, Default)]
pub struct Providers {
    list: Arc<[(Descriptor, Arc<dyn MetadataProvider>)]>,
    wants: Wants,
}

impl Providers {
    /// Creates the set. Errors: `Invalid` if a descriptor is invalid, if two ids are equal, or if a provider would
    /// change sealed entries.
    pub fn of(providers: Vec<Arc<dyn MetadataProvider>>) -> Result<Providers> {
        let mut list: Vec<_> = providers.into_iter().map(|provider| (provider.descriptor(), provider)).collect();
        list.sort_by_key(|(descriptor, _)| descriptor.id);
        let mut wants = Wants::default();
        for (descriptor, provider) in &list {
            descriptor.validate()?;
            let its = provider.wants();
            if its.every_build && descriptor.in_checksum {
                let what = format!("provider {} would change what the seal covers", descriptor.name);
                return Err(Error::invalid(what));
            }
            wants.every_write |= its.every_write;
            wants.every_build |= its.every_build;
        }
        if let Some(pair) = list.windows(2).find(|pair| pair[0].0.id == pair[1].0.id) {
            let (one, other) = (&pair[0].0, &pair[1].0);
            let what = format!("providers {} and {} have the same id, {}", one.name, other.name, one.id);
            return Err(Error::invalid(what));
        }
        Ok(Providers { list: list.into(), wants })
    }

    /// Returns true if there are no providers.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the union of the providers' wants.
    #[inline]
    pub fn wants(&self) -> Wants {
        self.wants
    }

    /// Iterates over the providers, ascending by id.
    pub fn iter(&self) -> impl Iterator<Item = (&Descriptor, &dyn MetadataProvider)> {
        self.list.iter().map(|(descriptor, provider)| (descriptor, &**provider))
    }

    /// Returns the provider with this id.
    pub fn find(&self, id: u16) -> Option<(&Descriptor, &dyn MetadataProvider)> {
        self.iter().find(|(descriptor, _)| descriptor.id == id)
    }

    /// Returns the descriptors, ascending by id.
    pub fn descriptors(&self) -> Vec<Descriptor> {
        self.list.iter().map(|(descriptor, _)| descriptor.clone()).collect()
    }
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list.iter().map(|(descriptor, _)| descriptor)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use waxseal_lsm::codec::Reader;

    struct Plain(Descriptor, Wants);

    impl MetadataProvider for Plain {
        fn descriptor(&self) -> Descriptor {
            self.0.clone()
        }
        fn wants(&self) -> Wants {
            self.1
        }
    }

    fn plain(descriptor: Descriptor) -> Arc<dyn MetadataProvider> {
        Arc::new(Plain(descriptor, Wants::default()))
    }

    #[test]
    fn providers_that_cannot_be_are_refused() {
        let good = Descriptor::new(77, "mine");
        let wrong = [
            Descriptor { id: CHECKSUM, ..good.clone() },
            Descriptor { id: LINEAGE, ..good.clone() },
            Descriptor { name: String::new(), ..good.clone() },
            Descriptor { max_len: companion::MAX_BYTES, ..good.clone() },
            Descriptor { in_checksum: true, locality: Locality::NodeLocal, ..good.clone() },
            Descriptor { in_checksum: true, on_unknown: OnUnknown::Drop, ..good.clone() },
        ];
        for wrong in wrong {
            assert!(Providers::of(vec![plain(wrong.clone())]).is_err(), "{wrong:?}");
        }
        assert!(Providers::of(vec![plain(good.clone()), plain(good.clone())]).is_err());
        let covered = Descriptor { in_checksum: true, ..good.clone() };
        let rebuilds = Wants { every_build: true, ..Wants::default() };
        assert!(Providers::of(vec![Arc::new(Plain(covered, rebuilds))]).is_err());
        let two = Providers::of(vec![plain(good), plain(Descriptor::new(6, "first"))]).unwrap();
        assert_eq!(two.iter().map(|(descriptor, _)| descriptor.id).collect::<Vec<_>>(), [6, 77]);
        assert!(two.find(77).is_some() && two.find(7).is_none());
    }

    fn read_descriptor(reader: &mut Reader<'_>) -> Result<Descriptor> {
        let wrong = || Error::structural("a provider descriptor that cannot be");
        let id = u16::try_from(reader.varint()?).map_err(|_| wrong())?;
        let version = u8::try_from(reader.varint()?).map_err(|_| wrong())?;
        let flags = reader.u8()?;
        let max_len = usize::try_from(reader.varint()?).map_err(|_| wrong())?;
        let name = String::from_utf8(reader.length_prefixed()?.to_vec()).map_err(|_| wrong())?;
        Ok(Descriptor {
            id,
            name,
            version,
            locality: if flags & 4 != 0 { Locality::NodeLocal } else { Locality::Portable },
            max_len,
            in_checksum: flags & 1 != 0,
            on_unknown: if flags & 2 != 0 { OnUnknown::Drop } else { OnUnknown::Preserve },
        })
    }

    /// Reads the descriptors of a table (property 10), ascending by id.
    fn read_descriptors(bytes: &[u8]) -> Result<Vec<Descriptor>> {
        let mut reader = Reader::new(bytes);
        let mut descriptors: Vec<Descriptor> = Vec::new();
        while !reader.is_empty() {
            let descriptor = read_descriptor(&mut reader)?;
            if descriptors.last().is_some_and(|last| last.id >= descriptor.id) {
                return Err(Error::structural("provider descriptors that do not ascend"));
            }
            descriptors.push(descriptor);
        }
        Ok(descriptors)
    }

    proptest! {
        #[test]
        fn descriptors_come_back(ids in proptest::collection::btree_set(1u16.., 0..4), version: u8, flags in 0..8u8, max_len: u32) {
            let descriptors: Vec<Descriptor> = ids.into_iter().map(|id| Descriptor {
                version,
                locality: if flags & 4 != 0 { Locality::NodeLocal } else { Locality::Portable },
                max_len: max_len as usize,
                in_checksum: flags & 1 != 0,
                on_unknown: if flags & 2 != 0 { OnUnknown::Drop } else { OnUnknown::Preserve },
                ..Descriptor::new(id, "named")
            }).collect();
            let bytes = write_descriptors(&[&descriptors, &descriptors]);
            prop_assert_eq!(read_descriptors(&bytes).unwrap(), descriptors);
        }

        #[test]
        fn any_bytes_are_descriptors_or_refused(bytes: Vec<u8>) {
            let _ = read_descriptors(&bytes);
        }
    }
}
