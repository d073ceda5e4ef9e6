//! Waxseal's own metadata providers: expiry, provenance, ETL statistics and labels.

use std::sync::Arc;

use waxseal_lsm::codec::{Reader, put_bytes, put_varint};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::record::Record;

use crate::provider::{
    Descriptor, ETL, EXPIRY, LABELS, Locality, MetadataProvider, OnUnknown, PROVENANCE, Providers, WriteCtx,
};

/// Returns all of Waxseal's providers.
pub fn standard() -> Providers {
    let own: Vec<Arc<dyn MetadataProvider>> =
        vec![Arc::new(Expiry), Arc::new(Provenance), Arc::new(Etl), Arc::new(Labels)];
    Providers::of(own).unwrap_or_default() // a test validates their descriptors
}

/// Expiry: the time from which a record counts as absent, as microseconds since 1970 in eight bytes, little-endian. The
/// seal covers it, so that no flipped bit expires a record early. Only values can expire.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expiry;

impl Expiry {
    /// The beginning of the year 2000, in microseconds since 1970; an earlier expiry is a mistake of the caller.
    pub const LEAST_MICROS: u64 = 946_684_800_000_000;

    /// Encodes an expiry time in microseconds since 1970.
    pub fn at(micros: u64) -> [u8; 8] {
        micros.to_le_bytes()
    }

    /// Encodes an expiry time from a caller. Errors: `Invalid` for a time before the year 2000, which indicates a wrong
    /// unit or epoch.
    pub fn checked(micros: u64) -> Result<[u8; 8]> {
        if micros < Expiry::LEAST_MICROS {
            let what = format!(
                "expiry {micros} is before the year 2000: it is counted in microseconds since 1970 (expires_in takes a duration from now)"
            );
            return Err(Error::invalid(what));
        }
        Ok(Expiry::at(micros))
    }

    /// Decodes an expiry time; `None` if the entry is invalid.
    pub fn read(entry: &[u8]) -> Option<u64> {
        entry.try_into().ok().map(u64::from_le_bytes)
    }
}

impl MetadataProvider for Expiry {
    fn descriptor(&self) -> Descriptor {
        Descriptor { in_checksum: true, max_len: 8, ..Descriptor::new(EXPIRY, "expiry") }
    }
    fn verify(&self, record: &Record<'_>, entry: &[u8]) -> bool {
        record.kind.is_value() && Expiry::read(entry).is_some()
    }
    /// A merged value has the expiry of its base; operands have none.
    fn on_merge(&self, inputs: &[(Record<'_>, Option<&[u8]>)], out: &mut Vec<u8>) -> Result<bool> {
        let of_base = inputs.iter().find(|(record, _)| record.kind.is_value()).and_then(|(_, entry)| *entry);
        out.extend_from_slice(of_base.unwrap_or_default());
        Ok(of_base.is_some())
    }
}

/// Provenance: the session that wrote a record, and the time: `session id varint | microseconds varint`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Provenance;

impl Provenance {
    /// Encodes the session and time of a write.
    pub fn of(session: u64, micros: u64) -> Vec<u8> {
        let mut entry = Vec::new();
        put_varint(&mut entry, session);
        put_varint(&mut entry, micros);
        entry
    }

    /// Decodes session and time; `None` if the entry is invalid.
    pub fn read(entry: &[u8]) -> Option<(u64, u64)> {
        let mut reader = Reader::new(entry);
        let read = (reader.varint().ok()?, reader.varint().ok()?);
        reader.is_empty().then_some(read)
    }
}

impl MetadataProvider for Provenance {
    fn descriptor(&self) -> Descriptor {
        Descriptor { locality: Locality::NodeLocal, max_len: 20, ..Descriptor::new(PROVENANCE, "provenance") }
    }
    fn verify(&self, _: &Record<'_>, entry: &[u8]) -> bool {
        Provenance::read(entry).is_some()
    }
}

/// ETL statistics: the distance of a value from the median, and the sketch it was computed with.
///
/// Encoding: `sketch version varint | distance varint`, with the distance in zigzag coding.
#[derive(Clone, Copy, Debug, Default)]
pub struct Etl;

impl Etl {
    /// Encodes a sketch version and a distance from the median.
    pub fn of(sketch: u64, distance: i64) -> Vec<u8> {
        let mut entry = Vec::new();
        put_varint(&mut entry, sketch);
        put_varint(&mut entry, zigzag(distance));
        entry
    }

    /// Decodes sketch version and distance; `None` if the entry is invalid.
    pub fn read(entry: &[u8]) -> Option<(u64, i64)> {
        let mut reader = Reader::new(entry);
        let read = (reader.varint().ok()?, unzigzag(reader.varint().ok()?));
        reader.is_empty().then_some(read)
    }
}

impl MetadataProvider for Etl {
    fn descriptor(&self) -> Descriptor {
        Descriptor { on_unknown: OnUnknown::Drop, max_len: 20, ..Descriptor::new(ETL, "etl") }
    }
    fn verify(&self, _: &Record<'_>, entry: &[u8]) -> bool {
        Etl::read(entry).is_some()
    }
}

/// Zigzag coding: small absolute values make short varints.
fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Labels: `name bytes | text bytes`, repeated, ascending by name without duplicates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Labels;

impl Labels {
    /// Encodes labels. Errors: `Invalid` if a name occurs twice or out of order.
    pub fn of(labels: &[(&str, &str)]) -> Result<Vec<u8>> {
        if !labels.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(Error::invalid("labels must ascend by name, each once"));
        }
        let mut entry = Vec::new();
        for (name, text) in labels {
            put_bytes(&mut entry, name.as_bytes());
            put_bytes(&mut entry, text.as_bytes());
        }
        Ok(entry)
    }

    /// Decodes labels; `None` if the entry is invalid.
    pub fn read(entry: &[u8]) -> Option<Vec<(&str, &str)>> {
        let mut reader = Reader::new(entry);
        let mut labels: Vec<(&str, &str)> = Vec::new();
        while !reader.is_empty() {
            let name = str::from_utf8(reader.length_prefixed().ok()?).ok()?;
            let text = str::from_utf8(reader.length_prefixed().ok()?).ok()?;
            if labels.last().is_some_and(|last| last.0 >= name) {
                return None;
            }
            labels.push((name, text));
        }
        Some(labels)
    }
}

impl MetadataProvider for Labels {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new(LABELS, "labels")
    }
    fn on_write(&self, write: &WriteCtx<'_>, out: &mut Vec<u8>) -> Result<bool> {
        out.extend_from_slice(write.given.unwrap_or_default());
        Ok(!out.is_empty()) // an empty label list needs no entry
    }
    fn verify(&self, _: &Record<'_>, entry: &[u8]) -> bool {
        Labels::read(entry).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_say_what_was_put_in(number: u64, other: u64, signed: i64, labels: std::collections::BTreeMap<String, String>) {
            prop_assert_eq!(Expiry::read(&Expiry::at(number)), Some(number));
            prop_assert_eq!(Provenance::read(&Provenance::of(number, other)), Some((number, other)));
            prop_assert_eq!(Etl::read(&Etl::of(number, signed)), Some((number, signed)));
            let labels: Vec<_> = labels.iter().map(|(name, text)| (&name[..], &text[..])).collect();
            let entry = Labels::of(&labels).unwrap();
            prop_assert_eq!(Labels::read(&entry), Some(labels));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = (Expiry::read(&bytes), Provenance::read(&bytes), Etl::read(&bytes), Labels::read(&bytes));
        }
    }

    #[test]
    fn none_is_refused() {
        assert_eq!(standard().descriptors().iter().map(|of| of.id).collect::<Vec<_>>(), [1, 2, 3, 4]);
    }

    #[test]
    fn labels_out_of_order_are_refused() {
        assert!(Labels::of(&[("b", ""), ("a", "")]).is_err() && Labels::of(&[("a", ""), ("a", "")]).is_err());
        assert_eq!(Labels::read(&[1, b'b', 0, 1, b'a', 0]), None);
    }
}
