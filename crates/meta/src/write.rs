//! Entry lists: made when an operation is written or merged, rebuilt when a table is built.
//!
//! In:     the providers, and an operation with the caller's entries or a record with its list.
//! Out:    the bytes of the list; or an error that names the provider and the sizes.
//! Holds:  entries ascend by provider. Entries of unknown providers are copied unchanged, or dropped if they are
//!         discardable. Sealed entries never change.

use std::collections::BTreeMap;
use std::sync::Mutex;

use waxseal_lsm::env::work::lock;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::options::KIB;
use waxseal_lsm::record::{Record, companion};
use waxseal_lsm::seam::PendingWrite;

use crate::annotations::{Annotation, Annotations, SEAL_BYTES};
use crate::provider::{Descriptor, OnUnknown, Providers, Rebuild, WriteCtx};

/// The target block size of families without a setting.
const BLOCK_BYTES: usize = 4 * KIB;

/// The maximum length of a record's companions, by family.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    /// Target block sizes.
    blocks: Mutex<BTreeMap<u32, usize>>,
}

impl Rooms {
    pub(crate) fn set(&self, family: u32, block_bytes: usize) {
        lock(&self.blocks).insert(family, block_bytes);
    }

    /// Returns a quarter of a block, at most 64 KiB.
    fn of(&self, family: u32) -> usize {
        let block = lock(&self.blocks).get(&family).copied().unwrap_or(BLOCK_BYTES);
        (block / 4).min(companion::MAX_BYTES)
    }
}

/// Makes the list of an operation. Errors: `Invalid`, naming the provider, for an unregistered or repeated provider,
/// for an entry or a list beyond its limit, and for entries that a provider rejects.
pub(crate) fn written(
    providers: &Providers,
    rooms: &Rooms,
    pending: &PendingWrite<'_>,
    key_hash: u64,
) -> Result<Vec<u8>> {
    for (at, (id, _)) in pending.entries.iter().enumerate() {
        if providers.find(*id).is_none() {
            return Err(Error::invalid(format!("provider {id} is not registered: nothing is kept for it")));
        }
        if pending.entries[..at].iter().any(|(other, _)| other == id) {
            return Err(Error::invalid(format!("provider {id} is given two entries")));
        }
    }
    let (mut list, mut bytes) = (Vec::new(), Vec::new());
    let mut named = Vec::new();
    for (descriptor, provider) in providers.iter() {
        let given = pending.entries.iter().find(|(id, _)| *id == descriptor.id).map(|(_, given)| *given);
        if given.is_none() && !provider.wants().every_write {
            continue;
        }
        let PendingWrite { family, kind, key, value, .. } = *pending;
        bytes.clear();
        if !provider.on_write(&WriteCtx { family, kind, key, key_hash, value, given }, &mut bytes)? {
            continue;
        }
        if bytes.len() > descriptor.max_len {
            let what = format!(
                "provider {} ({}): an entry of {} bytes; its limit is {}",
                descriptor.id,
                descriptor.name,
                bytes.len(),
                descriptor.max_len
            );
            return Err(Error::invalid(what));
        }
        let record = Record { key, seqno: 0, kind, value, companion: &[] };
        if !provider.verify(&record, &bytes) {
            let what = format!("provider {} ({}): not an entry of its own", descriptor.id, descriptor.name);
            return Err(Error::invalid(what));
        }
        entry(descriptor, &bytes, key_hash).put(&mut list);
        named.push(format!("{} {}", descriptor.name, bytes.len()));
    }
    let (all, room) = (SEAL_BYTES + list.len(), rooms.of(pending.family));
    if !list.is_empty() && all > room {
        let what = format!(
            "{all} bytes beside a record ({}); the limit is {room}, a quarter of the family's block",
            named.join(", ")
        );
        return Err(Error::invalid(what));
    }
    Ok(list)
}

/// Makes the list of a merge result from its inputs.
pub(crate) fn merged(providers: &Providers, inputs: &[Record<'_>], key_hash: u64) -> Result<Vec<u8>> {
    let mut list = Vec::new();
    for (descriptor, provider) in providers.iter() {
        let mut with_entries = Vec::with_capacity(inputs.len());
        for input in inputs {
            let entry = Annotations::read(input.companion)?.entry(descriptor.id)?;
            with_entries.push((*input, entry.map(|entry| entry.bytes)));
        }
        let mut bytes = Vec::new();
        if provider.on_merge(&with_entries, &mut bytes)? {
            entry(descriptor, &bytes, key_hash).put(&mut list);
        }
    }
    Ok(list)
}

/// Returns the new list of a sealed record that is written to a table, or `None` if it keeps its list. A list with a
/// damaged entry is kept, so that build verification reports it.
pub(crate) fn rebuilt(providers: &Providers, record: &Record<'_>, annotations: &Annotations<'_>) -> Option<Vec<u8>> {
    if annotations.list.is_empty() && !providers.wants().every_build {
        return None;
    }
    let before: Vec<Annotation<'_>> = annotations.entries().collect::<Result<_>>().ok()?;
    let goes = |entry: &Annotation<'_>| entry.discardable && !entry.sealed && providers.find(entry.provider).is_none();
    if !providers.wants().every_build && !before.iter().any(goes) {
        return None;
    }
    let key_hash = waxseal_lsm::checksum::hash(record.key);
    if !before.iter().all(|entry| entry.is_whole(key_hash)) {
        return None;
    }
    let mut after: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
    for entry in before.iter().filter(|entry| !goes(entry)) {
        let mut bytes = Vec::new();
        entry.put(&mut bytes);
        after.insert(entry.provider, bytes);
    }
    for (descriptor, provider) in providers.iter().filter(|(_, provider)| provider.wants().every_build) {
        let own = before.iter().find(|entry| entry.provider == descriptor.id);
        let mut bytes = Vec::new();
        match provider.on_build(record, own.map(|entry| entry.bytes), &mut bytes) {
            Rebuild::Keep => {}
            Rebuild::Remove => drop(after.remove(&descriptor.id)),
            Rebuild::Set => {
                bytes.truncate(descriptor.max_len);
                let mut encoded = Vec::new();
                entry(descriptor, &bytes, key_hash).put(&mut encoded);
                after.insert(descriptor.id, encoded);
            }
        }
    }
    let list: Vec<u8> = after.into_values().flatten().collect();
    (list != annotations.list).then_some(list)
}

fn entry<'a>(descriptor: &Descriptor, bytes: &'a [u8], key_hash: u64) -> Annotation<'a> {
    let discardable = descriptor.on_unknown == OnUnknown::Drop;
    Annotation::new(descriptor.id, descriptor.version, descriptor.in_checksum, discardable, bytes, key_hash)
}
