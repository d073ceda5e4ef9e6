//! Providers: who keeps what beside a record, next to its seal.
//!
//! In:     operations as they are written, records as tables are built, merged and left out.
//! Out:    typed entries in the record's list (docs/format.md, section 7).
//! Holds:  several providers at once, each entry its own; what one of them asks for never costs a record that has no entries.
//!         An entry that the seal covers (`in_checksum`) is part of what was written: it must be portable, it never changes, and a keeper
//!         that does not know it carries it. Every other entry has its own CRC, and says whether it is to be carried.

use std::fmt;
use std::sync::Arc;

use waxseal_lsm::codec::{Reader, put_bytes, put_varint};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::record::{Kind, Record, companion};
use waxseal_lsm::seam::DropReason;

/// The seal itself. It is no entry of the list.
pub const CHECKSUM: u16 = 0;
/// When a record expires.
pub const EXPIRY: u16 = 1;
/// Who wrote it, and when.
pub const PROVENANCE: u16 = 2;
/// Statistics for loading elsewhere.
pub const ETL: u16 = 3;
/// Labels.
pub const LABELS: u16 = 4;
/// Reserved: what a record was derived from.
pub const LINEAGE: u16 = 5;

/// Longest entry, if a provider does not say.
pub const DEFAULT_MAX_LEN: usize = 1024;

/// Where an entry belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locality {
    /// To this store alone: it is not exported.
    NodeLocal,
    /// To the record, wherever it goes.
    Portable,
}

/// What a keeper that does not know the provider does with its entries when it writes a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnUnknown {
    /// Carries them bit by bit.
    Preserve,
    /// Leaves them out.
    Drop,
}

/// What a provider says of itself; it stands in property 10 of tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// Its number. Below 16: Waxseal's own.
    pub id: u16,
    /// Its name, 1 to 64 bytes.
    pub name: String,
    /// The form of the entries it writes.
    pub version: u8,
    /// Where they belong.
    pub locality: Locality,
    /// Longest entry in bytes, at most 64 KiB less the seal.
    pub max_len: usize,
    /// Whether the seal covers them: then they are portable, and never change after the write.
    pub in_checksum: bool,
    /// What becomes of them where nobody knows them.
    pub on_unknown: OnUnknown,
}

impl Descriptor {
    /// A descriptor with the defaults: version 0, portable, up to 1 KiB, outside of the seal, preserved.
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

    /// Every fault of the descriptor, in one error.
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

    fn read(reader: &mut Reader<'_>) -> Result<Descriptor> {
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
}

/// Reads the descriptors of a table (property 10), ascending by id. What cannot be read is refused.
pub fn read_descriptors(bytes: &[u8]) -> Result<Vec<Descriptor>> {
    let mut reader = Reader::new(bytes);
    let mut descriptors: Vec<Descriptor> = Vec::new();
    while !reader.is_empty() {
        let descriptor = Descriptor::read(&mut reader)?;
        if descriptors.last().is_some_and(|last| last.id >= descriptor.id) {
            return Err(Error::structural("provider descriptors that do not ascend"));
        }
        descriptors.push(descriptor);
    }
    Ok(descriptors)
}

/// Descriptors as they stand in property 10; those of the same id once, the earlier list's.
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
    /// What it does.
    pub kind: Kind,
    /// The user key.
    pub key: &'a [u8],
    /// `checksum::hash` of it.
    pub key_hash: u64,
    /// The value.
    pub value: &'a [u8],
    /// What the caller gave for this provider.
    pub given: Option<&'a [u8]>,
}

/// What becomes of an entry while a table is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rebuild {
    /// It goes on as it is, or stays absent.
    Keep,
    /// `out` holds the new one.
    Set,
    /// It goes.
    Remove,
}

/// At which points a provider wants to be asked about every record, not only about those that concern it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wants {
    /// `on_write` of operations for which the caller gave nothing.
    pub every_write: bool,
    /// `on_build` of every record. Not for entries that the seal covers.
    pub every_build: bool,
}

/// Keeps entries of one kind beside records. All calls may come from any thread.
pub trait MetadataProvider: Send + Sync {
    /// What it says of itself; always the same.
    fn descriptor(&self) -> Descriptor;

    /// Where it wants to be asked.
    fn wants(&self) -> Wants {
        Wants::default()
    }

    /// An operation is written: appends its entry to `out` and answers true, or has none. An error refuses the operation.
    fn on_write(&self, write: &WriteCtx<'_>, out: &mut Vec<u8>) -> Result<bool> {
        match write.given {
            Some(given) => {
                out.extend_from_slice(given);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// A record enters a table with this entry, or without one.
    fn on_build(&self, _record: &Record<'_>, _entry: Option<&[u8]>, _out: &mut Vec<u8>) -> Rebuild {
        Rebuild::Keep
    }

    /// A merge operator made one record from these, all verified: appends the entry of the result to `out` and answers true.
    fn on_merge(&self, _inputs: &[(Record<'_>, Option<&[u8]>)], _out: &mut Vec<u8>) -> Result<bool> {
        Ok(false)
    }

    /// A record with an entry is left out of a table. Where its value stands in a value file it has a pointer in its place (kind
    /// `BlobPointer`): no value is read for this.
    fn on_drop(&self, _record: &Record<'_>, _entry: &[u8], _reason: DropReason) {}

    /// False if an entry cannot be one of this provider's, at this record. Not asked where the value is not at hand (kind `BlobPointer`).
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
    /// These providers. Errors: `Invalid` if a descriptor cannot be, or if two have the same id.
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

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// What any of them wants.
    #[inline]
    pub fn wants(&self) -> Wants {
        self.wants
    }

    /// All of them, ascending by id.
    pub fn iter(&self) -> impl Iterator<Item = (&Descriptor, &dyn MetadataProvider)> {
        self.list.iter().map(|(descriptor, provider)| (descriptor, &**provider))
    }

    /// The provider with this id.
    pub fn find(&self, id: u16) -> Option<(&Descriptor, &dyn MetadataProvider)> {
        self.iter().find(|(descriptor, _)| descriptor.id == id)
    }

    /// Their descriptors.
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
