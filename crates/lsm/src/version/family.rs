//! The options of a family, as stored in the manifest. docs/format.md, section 6.1.
//!
//! An option that is not written has its default; an option added by a later version is skipped. The order is not
//! included: the edit has a separate field for the order's name.

use std::time::Duration;

use crate::codec::{Reader, put_bytes, put_varint, varint_bytes};
use crate::error::{Error, Result};
use crate::options::{CfOptions, Compression, SealLayout};
use crate::order::Order;

use super::edit::EditChange;

const BLOCK_BYTES: u64 = 1;
const RESTART_INTERVAL: u64 = 2;
const FILTER_BITS: u64 = 3;
const COMPRESSION: u64 = 4;
const TABLE_BYTES: u64 = 5;
const LEVEL_BASE_BYTES: u64 = 6;
const FANOUT: u64 = 7;
const LEVEL0_TABLES: u64 = 8;
const SEALS: u64 = 9;
const KEY_ENDS_IN_SEQNO: u64 = 10;
const LARGE_VALUE_BYTES: u64 = 11;
const ZSTD_LEVELS: u64 = 16;
const BOTTOM_COMPRESSION: u64 = 17;
const DEFAULT_TTL: u64 = 18;
const PREFIX_EXTRACTOR: u64 = 19;

/// The zstd level if only "zstd" is written.
const ZSTD_LEVEL: i32 = 3;

/// Returns the changes that create a family: the family itself, its merge operator and its compaction filter.
pub fn creation(id: u32, name: String, options: &CfOptions) -> impl Iterator<Item = EditChange> {
    let comparator = options.order.name().to_owned();
    let operator = options.merge_operator.as_ref();
    let named =
        operator.map(|operator| EditChange::MergeOperatorNamed { family: id, name: operator.name().to_owned() });
    let filter = options.compaction_filter.as_ref();
    let filter = filter.map(|filter| EditChange::CompactionFilterNamed { family: id, name: filter.name().to_owned() });
    [EditChange::FamilyCreated { id, name, comparator, options: encode(options) }]
        .into_iter()
        .chain(named)
        .chain(filter)
}

/// Encodes `options` for the manifest.
pub fn encode(options: &CfOptions) -> Vec<u8> {
    let mut out = Vec::new();
    for (tag, value) in [
        (BLOCK_BYTES, options.block_bytes as u64),
        (RESTART_INTERVAL, options.restart_interval as u64),
        (FILTER_BITS, options.filter_bits as u64),
    ] {
        put_number(&mut out, tag, value);
    }
    put_varint(&mut out, COMPRESSION);
    put_bytes(&mut out, &[number(options.compression)]);
    for (tag, value) in [
        (TABLE_BYTES, options.table_bytes),
        (LEVEL_BASE_BYTES, options.level_base_bytes),
        (FANOUT, options.fanout),
        (LEVEL0_TABLES, options.level0_tables as u64),
    ] {
        put_number(&mut out, tag, value);
    }
    match options.seals {
        SealLayout::ByCodec => {}
        SealLayout::Column => put_number(&mut out, SEALS, 1),
        SealLayout::Following => put_number(&mut out, SEALS, 2),
    }
    if options.key_ends_in_seqno {
        put_number(&mut out, KEY_ENDS_IN_SEQNO, 1);
    }
    put_number(&mut out, LARGE_VALUE_BYTES, options.large_value_bytes as u64);
    let bottom = options.bottom_compression;
    let levels = [Some(options.compression), bottom].map(|one| match one {
        Some(Compression::Zstd(level)) => u8::try_from(level).unwrap_or(0),
        _ => 0,
    });
    if levels != [0; 2] {
        put_varint(&mut out, ZSTD_LEVELS);
        put_bytes(&mut out, &levels);
    }
    if let Some(bottom) = bottom {
        put_varint(&mut out, BOTTOM_COMPRESSION);
        put_bytes(&mut out, &[number(bottom)]);
    }
    if let Some(ttl) = options.default_ttl {
        put_number(&mut out, DEFAULT_TTL, u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX));
    }
    if let Some(extractor) = &options.prefix_extractor {
        put_varint(&mut out, PREFIX_EXTRACTOR);
        put_bytes(&mut out, extractor.to_string().as_bytes());
    }
    out
}

/// True if the version that wrote these options supported value files. Otherwise opening the family does not enable
/// them.
pub fn knows_value_files(bytes: &[u8]) -> Result<bool> {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let tag = reader.varint()?;
        reader.length_prefixed()?;
        if tag == LARGE_VALUE_BYTES {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Decodes options; the caller supplies the order. They may still be unusable here: see `CfOptions::validate`.
pub fn decode(bytes: &[u8], order: Order) -> Result<CfOptions> {
    // A version that wrote no such tag did not support value files: opening a store does not enable them.
    let mut options = CfOptions { order, large_value_bytes: 0, ..CfOptions::default() };
    let mut levels = [0; 2];
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let tag = reader.varint()?;
        let bytes = reader.length_prefixed()?;
        let mut value = Reader::new(bytes);
        match tag {
            BLOCK_BYTES => options.block_bytes = size(&mut value)?,
            RESTART_INTERVAL => options.restart_interval = size(&mut value)?,
            FILTER_BITS => options.filter_bits = size(&mut value)?,
            COMPRESSION => {
                options.compression = compression(value.u8()?)?;
            }
            TABLE_BYTES => options.table_bytes = value.varint()?,
            LEVEL_BASE_BYTES => options.level_base_bytes = value.varint()?,
            FANOUT => options.fanout = value.varint()?,
            LEVEL0_TABLES => options.level0_tables = size(&mut value)?,
            SEALS => {
                options.seals = match value.varint()? {
                    1 => SealLayout::Column,
                    2 => SealLayout::Following,
                    _ => SealLayout::ByCodec,
                }
            }
            ZSTD_LEVELS => levels = [value.u8()?, value.u8()?],
            BOTTOM_COMPRESSION => options.bottom_compression = Some(compression(value.u8()?)?),
            KEY_ENDS_IN_SEQNO => options.key_ends_in_seqno = value.varint()? != 0,
            DEFAULT_TTL => options.default_ttl = Some(Duration::from_micros(value.varint()?)),
            LARGE_VALUE_BYTES => options.large_value_bytes = size(&mut value)?,
            // The rule of a later version is not applied.
            PREFIX_EXTRACTOR => {
                options.prefix_extractor = str::from_utf8(bytes).ok().and_then(|text| text.parse().ok())
            }
            _ => {}
        }
    }
    // A level of zero was not written, and means the default zstd level.
    let packed = [Some(&mut options.compression), options.bottom_compression.as_mut()];
    for (packed, level) in packed.into_iter().zip(levels).filter(|(_, level)| *level > 0) {
        if let Some(Compression::Zstd(usual)) = packed {
            *usual = level.into();
        }
    }
    Ok(options)
}

fn number(compression: Compression) -> u8 {
    match compression {
        Compression::None => 0,
        Compression::Lz4 => 1,
        Compression::Zstd(_) => 2,
    }
}

fn compression(number: u8) -> Result<Compression> {
    match number {
        0 => Ok(Compression::None),
        1 => Ok(Compression::Lz4),
        2 => Ok(Compression::Zstd(ZSTD_LEVEL)),
        _ => Err(Error::structural("unknown compression")),
    }
}

fn put_number(out: &mut Vec<u8>, tag: u64, value: u64) {
    put_varint(out, tag);
    put_varint(out, varint_bytes(value) as u64);
    put_varint(out, value);
}

fn size(reader: &mut Reader<'_>) -> Result<usize> {
    usize::try_from(reader.varint()?).map_err(|_| Error::structural("option is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefix_extractor::PrefixExtractor;
    use proptest::prelude::*;

    type Kept = ([u64; 8], [Option<Compression>; 2], SealLayout, bool, Option<Duration>, Option<PrefixExtractor>);

    fn numbers(options: &CfOptions) -> Kept {
        let CfOptions { block_bytes, restart_interval, filter_bits, table_bytes, .. } = options;
        let sizes = [*block_bytes, *restart_interval, *filter_bits, options.level0_tables].map(|n| n as u64);
        let [a, b, c, d] = sizes;
        let large = options.large_value_bytes as u64;
        let words = [a, b, c, d, *table_bytes, options.level_base_bytes, options.fanout, large];
        let packed = [Some(options.compression), options.bottom_compression];
        (words, packed, options.seals, options.key_ends_in_seqno, options.default_ttl, options.prefix_extractor)
    }

    proptest! {
        #[test]
        fn options_come_back(sizes: [usize; 5], words: [u64; 3], packed in [0..4usize, 0..5usize], level in 1..20, seals in 0..3usize, ends: bool, ttl: Option<u64>, prefix: Option<u8>) {
            let codecs = [Compression::None, Compression::Lz4, Compression::Zstd(3), Compression::Zstd(level)];
            let options = CfOptions {
                block_bytes: sizes[0],
                restart_interval: sizes[1],
                filter_bits: sizes[2],
                level0_tables: sizes[3],
                large_value_bytes: sizes[4],
                table_bytes: words[0],
                level_base_bytes: words[1],
                fanout: words[2],
                compression: codecs[packed[0]],
                bottom_compression: codecs.get(packed[1]).copied(),
                order: Order::bytewise(),
                seals: [SealLayout::ByCodec, SealLayout::Following, SealLayout::Column][seals],
                key_ends_in_seqno: ends,
                default_ttl: ttl.map(Duration::from_micros),
                prefix_extractor: prefix.map(|byte| PrefixExtractor::Delimited { byte, count: 3 }),
                ..CfOptions::default()
            };
            let back = decode(&encode(&options), Order::bytewise()).unwrap();
            prop_assert_eq!(numbers(&back), numbers(&options));
        }

        #[test]
        fn any_bytes_are_options_or_refused(bytes: Vec<u8>) {
            let _ = decode(&bytes, Order::bytewise());
        }
    }

    #[test]
    fn options_of_an_earlier_version_know_no_value_files() {
        let none = CfOptions { large_value_bytes: 0, ..CfOptions::default() };
        assert!(knows_value_files(&encode(&none)).unwrap());
        assert!(!knows_value_files(&[7, 1, 12]).unwrap());
        assert_eq!(decode(&[7, 1, 12], Order::bytewise()).unwrap().large_value_bytes, 0);
    }

    #[test]
    fn what_is_not_written_has_its_default_and_what_is_not_known_is_skipped() {
        let options = decode(&[99, 2, 1, 2, 7, 1, 12], Order::bytewise()).unwrap();
        assert_eq!(numbers(&options), numbers(&CfOptions { fanout: 12, large_value_bytes: 0, ..CfOptions::default() }));
    }
}
