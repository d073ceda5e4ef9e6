//! The options of a store and of a family as names with values, to be printed.
//!
//! Each list names every field, so that an option cannot be added without it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::options::{CfOptions, Compression, Durability, SealLayout, Settings, Verify};
use crate::prefix_extractor::PrefixExtractor;
use crate::table_property::TableProperty;

/// The text of an option that is not set.
const UNSET: &str = "unset";

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
            OptionValue::Unset => f.write_str(UNSET),
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
            prefix_extractor,
            filter_policy,
            compression,
            bottom_compression,
            large_value_bytes,
            default_ttl,
            merge_operator,
            compaction_filter,
            table_properties,
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
            ("prefix_extractor", or_unset(prefix_extractor.map(|extractor| text(extractor.to_string())))),
            ("filter_policy", or_unset(filter_policy.as_ref().map(|policy| text(policy.name())))),
            ("compression", text(compression_word(*compression))),
            ("bottom_compression", or_unset(bottom_compression.map(|packed| text(compression_word(packed))))),
            ("large_value_bytes", count(*large_value_bytes)),
            ("default_ttl_micros", or_unset(default_ttl.map(micros))),
            ("merge_operator", or_unset(merge_operator.as_ref().map(|operator| text(operator.name())))),
            ("compaction_filter", or_unset(compaction_filter.as_ref().map(|filter| text(filter.name())))),
            ("table_properties", names(table_properties)),
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

/// Sets options by name, as `list` prints them.
impl CfOptions {
    /// Sets the option of this name to the value that `list` prints so. Order, merge operator, compaction filter, filter
    /// policy and system number are no texts: they stay. Fails with `Invalid` for another name or a value of another kind.
    /// `validate` checks what the values allow.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "block_bytes" => self.block_bytes = number(name, value)?,
            "restart_interval" => self.restart_interval = number(name, value)?,
            "filter_bits" => self.filter_bits = number(name, value)?,
            "prefix_extractor" => self.prefix_extractor = unless_unset(value, || extractor_of(name, value))?,
            "compression" => self.compression = compression_of(name, value)?,
            "bottom_compression" => self.bottom_compression = unless_unset(value, || compression_of(name, value))?,
            "large_value_bytes" => self.large_value_bytes = number(name, value)?,
            "default_ttl_micros" => {
                self.default_ttl = unless_unset(value, || Ok(Duration::from_micros(number(name, value)?)))?;
            }
            "table_bytes" => self.table_bytes = number(name, value)?,
            "level_base_bytes" => self.level_base_bytes = number(name, value)?,
            "fanout" => self.fanout = number(name, value)?,
            "level0_tables" => self.level0_tables = number(name, value)?,
            "verify_reads" => self.verify_reads = verify_of(name, value)?,
            "verify_scans" => self.verify_scans = verify_of(name, value)?,
            "seals" => self.seals = seals_of(name, value)?,
            _ => return Err(Error::invalid(format!("there is no option {name:?} of a family that can be set"))),
        }
        Ok(())
    }
}

impl CfOptions {
    /// Sets the options in which `new` differs from `old`. Errors: `Invalid` for one that cannot change while a store is
    /// open.
    pub fn apply_changes(&mut self, old: &CfOptions, new: &CfOptions) -> Result<()> {
        let (old, new) = (old.list(), new.list());
        check_fixed(&old, &new, |name, value| self.clone().set(name, value))?;
        let changed = old.iter().zip(&new).filter(|(old, new)| old != new).map(|(_, new)| new);
        changed.into_iter().try_for_each(|(name, value)| self.set(name, &value.to_string()))
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
            format_level,
            error_if_exists,
            accept_loss,
            trash_bytes,
            chronicle_lines,
            engine_events,
            engine_event_age,
            keep_log_bytes,
            keep_log_age,
            cursor_log_bytes,
            cursor_log_age,
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
            ("file_mode", or_unset(file_mode.map(|mode| text(format!("{mode:#o}"))))),
            ("format_level", OptionValue::Number(u64::from(*format_level))),
            ("error_if_exists", OptionValue::Flag(*error_if_exists)),
            ("accept_loss", OptionValue::Flag(*accept_loss)),
            ("trash_bytes", OptionValue::Number(*trash_bytes)),
            ("chronicle_lines", count(*chronicle_lines)),
            ("engine_events", count(*engine_events)),
            ("engine_event_age_micros", micros(*engine_event_age)),
            ("keep_log_bytes", OptionValue::Number(*keep_log_bytes)),
            ("keep_log_age_micros", micros(*keep_log_age)),
            ("cursor_log_bytes", OptionValue::Number(*cursor_log_bytes)),
            ("cursor_log_age_micros", micros(*cursor_log_age)),
        ]
    }

    /// Sets the option of this name to the value that `list` prints so, if it may change while a store is open. Fails
    /// with `Invalid` for another name or a value of another kind. `validate` checks what the values allow.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "cache_bytes" => self.cache_bytes = number(name, value)?,
            "manifest_bytes" => self.manifest_bytes = number(name, value)?,
            "subcompactions" => self.subcompactions = number(name, value)?,
            "background_bytes_per_second" => self.background_bytes_per_second = number(name, value)?,
            "durability" => self.durability = durability_of(name, value)?,
            "trash_bytes" => self.trash_bytes = number(name, value)?,
            "chronicle_lines" => self.chronicle_lines = number(name, value)?,
            "engine_events" => self.engine_events = number(name, value)?,
            "engine_event_age_micros" => self.engine_event_age = Duration::from_micros(number(name, value)?),
            "cursor_log_bytes" => self.cursor_log_bytes = number(name, value)?,
            "cursor_log_age_micros" => self.cursor_log_age = Duration::from_micros(number(name, value)?),
            _ => {
                return Err(Error::invalid(format!(
                    "there is no option {name:?} that may change while a store is open"
                )));
            }
        }
        Ok(())
    }
}

/// Fails with `Invalid` if the options differ in one that cannot change while the store is open, which is one that `set`
/// refuses. Only names and values that are listed are compared.
pub(crate) fn check_fixed(
    old: &OptionList,
    new: &OptionList,
    mut set: impl FnMut(&str, &str) -> Result<()>,
) -> Result<()> {
    let changed = old.iter().zip(new).filter(|(old, new)| old != new).map(|(old, _)| old);
    let fixed: Vec<&str> =
        changed.filter(|(name, value)| set(name, &value.to_string()).is_err()).map(|(name, _)| *name).collect();
    match fixed.is_empty() {
        true => Ok(()),
        false => Err(Error::invalid(format!("{} cannot be changed while the store is open", fixed.join(", ")))),
    }
}

fn count(number: usize) -> OptionValue {
    OptionValue::Number(number as u64)
}

fn micros(time: Duration) -> OptionValue {
    OptionValue::Number(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

fn names(properties: &[TableProperty]) -> OptionValue {
    let names: Vec<&str> = properties.iter().map(TableProperty::name).collect();
    or_unset((!names.is_empty()).then(|| text(names.join(","))))
}

fn text(word: impl AsRef<str>) -> OptionValue {
    OptionValue::Text(word.as_ref().to_owned())
}

fn or_unset(value: Option<OptionValue>) -> OptionValue {
    value.unwrap_or(OptionValue::Unset)
}

fn refused<T>(name: &str, value: &str) -> Result<T> {
    Err(Error::invalid(format!("{name} cannot be {value:?}")))
}

fn number<N: FromStr>(name: &str, value: &str) -> Result<N> {
    value.parse().or_else(|_| refused(name, value))
}

/// Returns `None` for the word that stands for an option that is not set.
fn unless_unset<T>(value: &str, parse: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
    if value == UNSET { Ok(None) } else { parse().map(Some) }
}

fn compression_of(name: &str, value: &str) -> Result<Compression> {
    match value {
        "none" => Ok(Compression::None),
        "lz4" => Ok(Compression::Lz4),
        _ => match value.strip_prefix("zstd:") {
            Some(level) => Ok(Compression::Zstd(number(name, level)?)),
            None => refused(name, value),
        },
    }
}

fn extractor_of(name: &str, value: &str) -> Result<PrefixExtractor> {
    value.parse().map_err(|error| Error::invalid(format!("{name}: {error}")))
}

fn verify_of(name: &str, value: &str) -> Result<Verify> {
    match value {
        "never" => Ok(Verify::Never),
        "on_fill" => Ok(Verify::OnFill),
        "always" => Ok(Verify::Always),
        _ => match value.strip_prefix("sampled:") {
            Some(n) => Ok(Verify::Sampled(number(name, n)?)),
            None => refused(name, value),
        },
    }
}

fn seals_of(name: &str, value: &str) -> Result<SealLayout> {
    let all = [SealLayout::ByCodec, SealLayout::Following, SealLayout::Column];
    all.into_iter().find(|layout| seals_word(*layout) == value).map_or_else(|| refused(name, value), Ok)
}

fn durability_of(name: &str, value: &str) -> Result<Durability> {
    let all = [Durability::Buffered, Durability::Os, Durability::Sync];
    all.into_iter().find(|one| durability_word(*one) == value).map_or_else(|| refused(name, value), Ok)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::KIB;

    fn unusual() -> CfOptions {
        CfOptions {
            block_bytes: 8 * KIB,
            restart_interval: 7,
            filter_bits: 3,
            prefix_extractor: Some(PrefixExtractor::Delimited { byte: b'/', count: 2 }),
            compression: Compression::None,
            bottom_compression: Some(Compression::Zstd(5)),
            large_value_bytes: 77,
            default_ttl: Some(Duration::from_micros(12)),
            table_bytes: 5000,
            level_base_bytes: 6000,
            fanout: 9,
            level0_tables: 11,
            verify_reads: Verify::Sampled(3),
            verify_scans: Verify::OnFill,
            seals: SealLayout::Column,
            ..CfOptions::default()
        }
    }

    #[test]
    fn options_can_be_set_by_the_texts_of_their_list() {
        let (from, mut to, mut fixed) = (unusual(), CfOptions::default(), Vec::new());
        for (name, value) in from.list() {
            match to.set(name, &value.to_string()) {
                Ok(()) => assert_ne!(CfOptions::default().list(), to.list(), "{name}"),
                Err(_) => fixed.push(name),
            }
        }
        assert_eq!(to.list(), from.list());
        assert_eq!(
            fixed,
            [
                "order",
                "filter_policy",
                "merge_operator",
                "compaction_filter",
                "table_properties",
                "key_ends_in_seqno",
                "system"
            ]
        );
        for (name, value) in CfOptions::default().list().iter().filter(|(name, _)| !fixed.contains(name)) {
            to.set(name, &value.to_string()).unwrap();
        }
        assert_eq!(to.list(), CfOptions::default().list());
    }

    #[test]
    fn settings_can_be_set_by_the_texts_of_their_list() {
        let from = Settings {
            cache_bytes: 1,
            manifest_bytes: 2,
            subcompactions: 3,
            background_bytes_per_second: 4,
            durability: Durability::Sync,
            trash_bytes: 5,
            chronicle_lines: 6,
            engine_events: 7,
            engine_event_age: Duration::from_micros(8),
            cursor_log_bytes: 9,
            cursor_log_age: Duration::from_micros(10),
            ..Settings::default()
        };
        let mut to = Settings::default();
        let mut can = |(name, value): &(&str, OptionValue)| to.set(name, &value.to_string()).is_ok();
        assert_eq!(from.list().iter().filter(|option| can(option)).count(), 11);
        assert_eq!(to.list(), from.list());
        for (name, value) in [("durability", "Sync"), ("trash_bytes", "-1"), ("cache_bytes", ""), ("ring_bytes", "1")] {
            let error = to.set(name, value).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn a_value_of_another_kind_is_refused() {
        let mut options = unusual();
        for (name, value) in [
            ("fanout", ""),
            ("fanout", "-1"),
            ("fanout", "unset"),
            ("block_bytes", "18446744073709551616"),
            ("prefix_extractor", "fixed"),
            ("compression", "unset"),
            ("compression", "zstd"),
            ("bottom_compression", "zstd:"),
            ("default_ttl_micros", "1s"),
            ("verify_reads", "sampled:"),
            ("verify_reads", "Always"),
            ("seals", "by codec"),
            ("part_blocks", "3"),
        ] {
            let error = options.set(name, value).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        assert_eq!(options.list(), unusual().list());
    }
}
