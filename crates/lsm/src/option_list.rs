//! The options of a store and of a family as names with values, to be printed.
//!
//! Each list names every field, so that an option cannot be added without it.

use std::fmt;
use std::time::Duration;

use crate::options::{CfOptions, Compression, Durability, SealLayout, Settings, Verify};

/// The value of an option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OptionValue {
    /// A number: bytes, a count, or microseconds.
    Number(u64),
    /// True or false.
    Flag(bool),
    /// A word or a name.
    Text(String),
    /// Not set.
    Unset,
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Number(number) => number.fmt(f),
            OptionValue::Flag(flag) => flag.fmt(f),
            OptionValue::Text(text) => f.write_str(text),
            OptionValue::Unset => f.write_str("none"),
        }
    }
}

/// Options with their names, in the order of their declaration.
pub type OptionList = Vec<(&'static str, OptionValue)>;

impl CfOptions {
    /// Returns the name and the value of every option. Times are in microseconds. Order, merge operator and filter policy
    /// are given by their names.
    pub fn list(&self) -> OptionList {
        let CfOptions {
            order,
            block_bytes,
            restart_interval,
            filter_bits,
            filter_policy,
            compression,
            bottom_compression,
            large_value_bytes,
            default_ttl,
            merge_operator,
            table_bytes,
            level_base_bytes,
            fanout,
            level0_tables,
            verify_reads,
            verify_scans,
            seals,
            key_ends_in_seqno,
            system,
            part_blocks: _,
        } = self;
        vec![
            ("order", text(order.name())),
            ("block_bytes", count(*block_bytes)),
            ("restart_interval", count(*restart_interval)),
            ("filter_bits", count(*filter_bits)),
            ("filter_policy", or_unset(filter_policy.as_ref().map(|policy| text(policy.name())))),
            ("compression", text(compression_word(*compression))),
            ("bottom_compression", or_unset(bottom_compression.map(|packed| text(compression_word(packed))))),
            ("large_value_bytes", count(*large_value_bytes)),
            ("default_ttl_micros", or_unset(default_ttl.map(micros))),
            ("merge_operator", or_unset(merge_operator.as_ref().map(|operator| text(operator.name())))),
            ("table_bytes", OptionValue::Number(*table_bytes)),
            ("level_base_bytes", OptionValue::Number(*level_base_bytes)),
            ("fanout", OptionValue::Number(*fanout)),
            ("level0_tables", count(*level0_tables)),
            ("verify_reads", text(verify_word(*verify_reads))),
            ("verify_scans", text(verify_word(*verify_scans))),
            ("seals", text(seals_word(*seals))),
            ("key_ends_in_seqno", OptionValue::Flag(*key_ends_in_seqno)),
            ("system", or_unset(system.map(|number| OptionValue::Number(number.into())))),
        ]
    }
}

impl Settings {
    /// Returns the name and the value of every option. Times are in microseconds.
    pub fn list(&self) -> OptionList {
        let Settings {
            memtable_bytes,
            cache_bytes,
            open_tables,
            index_bytes,
            memory_bytes,
            segment_bytes,
            ring_bytes,
            wal_mapped,
            drain_bytes,
            manifest_bytes,
            background_threads,
            subcompactions,
            background_bytes_per_second,
            durability,
            create_if_missing,
            beside_other_files,
            file_mode,
            error_if_exists,
            accept_loss,
            trash_bytes,
            chronicle_lines,
            engine_events,
            engine_event_age,
        } = self;
        vec![
            ("memtable_bytes", count(*memtable_bytes)),
            ("cache_bytes", count(*cache_bytes)),
            ("open_tables", count(*open_tables)),
            ("index_bytes", count(*index_bytes)),
            ("memory_bytes", count(*memory_bytes)),
            ("segment_bytes", OptionValue::Number(*segment_bytes)),
            ("ring_bytes", count(*ring_bytes)),
            ("wal_mapped", OptionValue::Flag(*wal_mapped)),
            ("drain_bytes", count(*drain_bytes)),
            ("manifest_bytes", OptionValue::Number(*manifest_bytes)),
            ("background_threads", count(*background_threads)),
            ("subcompactions", count(*subcompactions)),
            ("background_bytes_per_second", OptionValue::Number(*background_bytes_per_second)),
            ("durability", text(durability_word(*durability))),
            ("create_if_missing", OptionValue::Flag(*create_if_missing)),
            ("beside_other_files", OptionValue::Flag(*beside_other_files)),
            ("file_mode", or_unset(file_mode.map(|mode| text(&format!("{mode:#o}"))))),
            ("error_if_exists", OptionValue::Flag(*error_if_exists)),
            ("accept_loss", OptionValue::Flag(*accept_loss)),
            ("trash_bytes", OptionValue::Number(*trash_bytes)),
            ("chronicle_lines", count(*chronicle_lines)),
            ("engine_events", count(*engine_events)),
            ("engine_event_age_micros", micros(*engine_event_age)),
        ]
    }
}

fn count(number: usize) -> OptionValue {
    OptionValue::Number(number as u64)
}

fn micros(time: Duration) -> OptionValue {
    OptionValue::Number(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

fn text(word: impl AsRef<str>) -> OptionValue {
    OptionValue::Text(word.as_ref().to_owned())
}

fn or_unset(value: Option<OptionValue>) -> OptionValue {
    value.unwrap_or(OptionValue::Unset)
}

fn compression_word(compression: Compression) -> String {
    match compression {
        Compression::None => "none".to_owned(),
        Compression::Lz4 => "lz4".to_owned(),
        Compression::Zstd(level) => format!("zstd:{level}"),
    }
}

fn verify_word(verify: Verify) -> String {
    match verify {
        Verify::Never => "never".to_owned(),
        Verify::OnFill => "on_fill".to_owned(),
        Verify::Sampled(n) => format!("sampled:{n}"),
        Verify::Always => "always".to_owned(),
    }
}

fn seals_word(seals: SealLayout) -> &'static str {
    match seals {
        SealLayout::ByCodec => "by_codec",
        SealLayout::Following => "following",
        SealLayout::Column => "column",
    }
}

fn durability_word(durability: Durability) -> &'static str {
    match durability {
        Durability::Buffered => "buffered",
        Durability::Os => "os",
        Durability::Sync => "sync",
    }
}
