//! The properties block of a table. See docs/format.md, section 4.5.

use crate::checksum::Uid;
use crate::codec::{Reader, put_bytes, put_varint};
use crate::error::{Error, Result};
use crate::ledger::{Ledger, LedgerEntry};
use crate::prefix_extractor::PrefixExtractor;
use crate::record::{Kind, MAX_SEQNO, Seqno};
use crate::seam::{Companions, Protection};
use crate::table_property::CollectedSets;

/// Properties of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// The family's id.
    pub family: u32,
    /// Name of the order of its keys.
    pub comparator: String,
    /// Name of its filter, if it has one.
    pub filter: Option<String>,
    /// Counts and sums of its records, computed from its finished blocks.
    pub ledger: Ledger,
    /// Smallest user key.
    pub smallest: Vec<u8>,
    /// Largest user key.
    pub largest: Vec<u8>,
    /// Least seqno.
    pub least_seqno: Seqno,
    /// Greatest seqno.
    pub greatest_seqno: Seqno,
    /// Total length of all keys, uncompressed.
    pub key_bytes: u64,
    /// Total length of all values, uncompressed.
    pub value_bytes: u64,
    /// Number of data blocks.
    pub data_blocks: u64,
    /// 0: no record has a companion; 1: some have; 2: every one has.
    pub protection: u8,
    /// Provider descriptors, opaque.
    pub providers: Vec<u8>,
    /// Column-id bitmap, opaque.
    pub columns: Vec<u8>,
    /// Creation time in microseconds since 1970.
    pub created_micros: u64,
    /// The program that wrote it.
    pub creator: String,
    /// Seal algorithm id; 0 if none, or `CompanionSummary::SEVERAL`.
    pub seal_algorithm: u64,
    /// Number of records that received their companions from a flush or compaction.
    pub adopted: u64,
    /// Number of records whose key has a newer version in the table; `None` if the file does not say.
    pub versions: Option<u64>,
    /// Number of records whose companion is more than one word; `None` if the file does not say.
    pub beside: Option<u64>,
    /// Blob files that its records point into: uid, number of pointers, bytes of the entries they point to.
    pub values: Vec<(Uid, u64, u64)>,
    /// The store that wrote it; none: an earlier build, or nobody's store.
    pub store: Option<Uid>,
    /// The prefixes that its filter knows besides whole keys; `None` if there are none, or their rule is not known.
    pub prefix_extractor: Option<PrefixExtractor>,
    /// The items of the properties that the application collected.
    pub collected: CollectedSets,
}

impl Properties {
    /// The body on disk.
    pub(in crate::sst) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |tag: u64, bytes: &[u8]| {
            put_varint(&mut out, tag);
            put_bytes(&mut out, bytes);
        };
        put(1, &varints(&[self.family.into()]));
        put(2, self.comparator.as_bytes());
        if let Some(filter) = &self.filter {
            put(3, filter.as_bytes());
        }
        put(4, &encode_ledger(&self.ledger));
        put(5, &self.smallest);
        put(6, &self.largest);
        put(7, &varints(&[self.least_seqno, self.greatest_seqno]));
        put(8, &varints(&[self.key_bytes, self.value_bytes, self.data_blocks]));
        put(9, &[self.protection]);
        for (tag, bytes) in [(10, &self.providers), (11, &self.columns)] {
            if !bytes.is_empty() {
                put(tag, bytes);
            }
        }
        put(12, &varints(&[self.created_micros]));
        put(13, self.creator.as_bytes());
        put(14, &varints(&[self.seal_algorithm]));
        if self.adopted > 0 {
            put(16, &varints(&[self.adopted]));
        }
        if let Some(versions) = self.versions {
            put(17, &varints(&[versions]));
        }
        if let Some(beside) = self.beside {
            put(18, &varints(&[beside]));
        }
        if !self.values.is_empty() {
            let mut bytes = Vec::new();
            for (uid, count, length) in &self.values {
                bytes.extend_from_slice(&uid.0);
                bytes.extend_from_slice(&varints(&[*count, *length]));
            }
            put(19, &bytes);
        }
        if let Some(store) = &self.store {
            put(20, &store.0);
        }
        if let Some(extractor) = &self.prefix_extractor {
            put(21, extractor.to_string().as_bytes());
        }
        if !self.collected.is_empty() {
            let mut bytes = Vec::new();
            self.collected.encode(&mut bytes);
            put(22, &bytes);
        }
        out
    }

    /// Reads a body. Tags must ascend, unknown tags are skipped, and the tags that every table has are required.
    pub(in crate::sst) fn decode(body: &[u8]) -> Result<Properties> {
        let mut properties = Properties::default();
        let mut reader = Reader::new(body);
        let mut seen = 0u32;
        let mut before = 0;
        while !reader.is_empty() {
            let tag = reader.varint()?;
            let bytes = reader.length_prefixed()?;
            if tag <= before {
                return Err(Error::structural("property tags do not ascend"));
            }
            before = tag;
            if tag < 32 {
                seen |= 1 << tag;
            }
            properties.set(tag, bytes)?;
        }
        const NEEDED: u32 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 9;
        if seen & NEEDED != NEEDED {
            return Err(Error::structural("a property that every table has is missing"));
        }
        Ok(properties)
    }

    fn set(&mut self, tag: u64, bytes: &[u8]) -> Result<()> {
        let mut reader = Reader::new(bytes);
        match tag {
            1 => {
                let family = reader.varint()?;
                self.family = family.try_into().map_err(|_| Error::structural("family id above 32 bits"))?;
            }
            2 => self.comparator = text(bytes)?,
            3 => self.filter = Some(text(bytes)?),
            4 => self.ledger = decode_ledger(&mut reader)?,
            5 => self.smallest = bytes.to_vec(),
            6 => self.largest = bytes.to_vec(),
            7 => {
                (self.least_seqno, self.greatest_seqno) = (reader.varint()?, reader.varint()?);
                if self.least_seqno > self.greatest_seqno || self.greatest_seqno > MAX_SEQNO {
                    return Err(Error::structural("seqno bounds that cannot be"));
                }
            }
            8 => {
                (self.key_bytes, self.value_bytes) = (reader.varint()?, reader.varint()?);
                self.data_blocks = reader.varint()?;
            }
            9 => self.protection = reader.u8()?,
            10 => self.providers = bytes.to_vec(),
            11 => self.columns = bytes.to_vec(),
            12 => self.created_micros = reader.varint()?,
            13 => self.creator = text(bytes)?,
            14 => self.seal_algorithm = reader.varint()?,
            16 => self.adopted = reader.varint()?,
            17 => self.versions = Some(reader.varint()?),
            18 => self.beside = Some(reader.varint()?),
            19 => {
                while !reader.is_empty() {
                    self.values.push((Uid(reader.array()?), reader.varint()?, reader.varint()?));
                }
            }
            20 => self.store = Some(Uid(reader.array()?)),
            21 => self.prefix_extractor = text(bytes)?.parse().ok(),
            22 => self.collected = CollectedSets::decode(reader.rest())?,
            _ => {}
        }
        Ok(())
    }

    /// Returns true if some record may have a companion of more than one word.
    pub(in crate::sst) fn may_have_more_beside(&self) -> bool {
        self.beside.map_or(!self.providers.is_empty(), |records| records > 0)
    }
}

/// A description of the companions in a table, as far as its writer knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompanionSummary {
    /// Their algorithm; 0 if none.
    pub algorithm: u64,
    /// Descriptions of the annotations that they may hold, opaque.
    pub descriptors: Vec<u8>,
    /// True if all inputs promised a companion for every record. Used only if no available protector can check the
    /// companions.
    pub complete: bool,
}

impl CompanionSummary {
    /// In place of an algorithm: the table mixes several, so that no protector can check its companions.
    pub const SEVERAL: u64 = u64::MAX;

    /// Describes the companions that a protector makes.
    pub fn of_protector(protector: &dyn Companions) -> CompanionSummary {
        CompanionSummary { algorithm: protector.algorithm(), descriptors: protector.descriptors(), complete: true }
    }

    /// Describes the companions of a table that a protector makes from these inputs, oldest first: its own; or, if it
    /// does not know the algorithm of some inputs, theirs, copied unchanged.
    pub fn joined<'a>(protector: &dyn Companions, inputs: impl Iterator<Item = &'a Properties>) -> CompanionSummary {
        let own = CompanionSummary::of_protector(protector);
        let mut strange: Option<CompanionSummary> = None;
        let mut described = Vec::new();
        let mut has_own = false;
        let mut complete = true;
        for properties in inputs {
            complete &= properties.protection == Protection::Complete as u8;
            if properties.protection == 0 {
                continue;
            }
            if properties.seal_algorithm == 0 || properties.seal_algorithm == own.algorithm {
                has_own = true;
                continue;
            }
            let algorithm = properties.seal_algorithm;
            let algorithm = strange.map_or(algorithm, |seen| {
                if seen.algorithm == algorithm { algorithm } else { CompanionSummary::SEVERAL }
            });
            if !properties.providers.is_empty() {
                described.clone_from(&properties.providers);
            }
            strange = Some(CompanionSummary { algorithm, descriptors: described.clone(), complete: false });
        }
        match strange {
            None => CompanionSummary { complete: own.complete && complete, ..own },
            Some(seen) if has_own => CompanionSummary { algorithm: CompanionSummary::SEVERAL, ..seen },
            Some(seen) => CompanionSummary { complete, ..seen },
        }
    }

    /// Returns true if this protector cannot check them.
    pub fn is_strange_to(&self, protector: &dyn Companions) -> bool {
        self.algorithm != protector.algorithm()
    }
}

fn text(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Error::structural("a name that is not text"))
}

fn varints(values: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    values.iter().for_each(|value| put_varint(&mut out, *value));
    out
}

/// The kind byte that stands for all kinds except puts and tombstones.
const OTHERS: u8 = 0;

fn encode_ledger(ledger: &Ledger) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, entry) in [(Kind::Put as u8, ledger.puts), (Kind::Delete as u8, ledger.deletes), (OTHERS, ledger.others)]
    {
        out.push(kind);
        put_varint(&mut out, entry.count);
        out.extend_from_slice(&entry.sum.to_le_bytes());
    }
    out
}

fn decode_ledger(reader: &mut Reader<'_>) -> Result<Ledger> {
    let mut ledger = Ledger::default();
    while !reader.is_empty() {
        let kind = reader.u8()?;
        let entry = LedgerEntry { count: reader.varint()?, sum: reader.u64()? };
        let slot = match kind {
            OTHERS => &mut ledger.others,
            kind if kind == Kind::Put as u8 => &mut ledger.puts,
            kind if kind == Kind::Delete as u8 => &mut ledger.deletes,
            _ => return Err(Error::structural("a ledger of an unknown kind")),
        };
        *slot = entry;
    }
    Ok(ledger)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table_property::tests::collected_sets;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn properties_come_back(
            family: u32,
            names: (String, Option<String>, String),
            keys: (Vec<u8>, Vec<u8>),
            seqnos in (0..=MAX_SEQNO, 0..=MAX_SEQNO),
            numbers: [u64; 6],
            opaque: (Vec<u8>, Vec<u8>),
            protection: u8,
            (versions, beside) in any::<(Option<u64>, Option<u64>)>(),
            values: Vec<([u8; 16], u64, u64)>,
            store: Option<[u8; 16]>,
            prefix: Option<u16>,
            collected in collected_sets(),
        ) {
            let entry = |n: usize| LedgerEntry { count: numbers[n], sum: numbers[4 - n] };
            let properties = Properties {
                family,
                comparator: names.0,
                filter: names.1,
                ledger: Ledger { puts: entry(0), deletes: entry(1), others: entry(3) },
                smallest: keys.0,
                largest: keys.1,
                least_seqno: seqnos.0.min(seqnos.1),
                greatest_seqno: seqnos.0.max(seqnos.1),
                key_bytes: numbers[0],
                value_bytes: numbers[1],
                data_blocks: numbers[2],
                protection,
                providers: opaque.0,
                columns: opaque.1,
                created_micros: numbers[3],
                creator: names.2,
                seal_algorithm: numbers[4],
                adopted: numbers[5],
                versions,
                beside,
                values: values.into_iter().map(|(uid, count, bytes)| (Uid(uid), count, bytes)).collect(),
                store: store.map(Uid),
                prefix_extractor: prefix.map(|bytes| PrefixExtractor::Fixed(usize::from(bytes).max(1))),
                collected,
            };
            let mut bytes = properties.encode();
            prop_assert_eq!(&Properties::decode(&bytes).unwrap(), &properties);
            // Properties added by a later version are skipped.
            put_varint(&mut bytes, 77);
            put_bytes(&mut bytes, b"later");
            prop_assert_eq!(Properties::decode(&bytes).unwrap(), properties);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = Properties::decode(&bytes);
        }
    }

    #[test]
    fn a_synopsis_of_an_earlier_build_is_skipped() {
        let properties = Properties { seal_algorithm: 1, adopted: 5, ..Properties::default() };
        let (with, without) = (properties.encode(), Properties { adopted: 0, ..properties.clone() }.encode());
        let mut bytes = without.clone();
        put_varint(&mut bytes, 15);
        // Provider 3: two numbers from -48 to 49.
        put_bytes(&mut bytes, &[&[3, 19, 2, 95, 98][..], &1i128.to_le_bytes()].concat());
        bytes.extend_from_slice(&with[without.len()..]);
        assert_eq!(Properties::decode(&bytes).unwrap(), properties);
        assert_eq!(Properties::decode(&bytes).unwrap().encode(), with, "it is not written again");
    }

    #[test]
    fn a_body_that_lacks_a_property_is_refused() {
        assert!(Properties::decode(&[]).is_err());
        let bytes = Properties::default().encode();
        assert!(Properties::decode(&bytes).is_ok());
        assert!(Properties::decode(&bytes[3..]).is_err()); // without the family
    }
}
