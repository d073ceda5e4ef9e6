//! The effect of options when a store is opened.
//!
//! Objects are kept by ticket and looked up at open: an object that was destroyed meanwhile is an error. Options that
//! were not set have Waxseal's defaults.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use waxseal::env::{Fs, RealFs};
use waxseal::{Builder, Cache, CfOptions, Comparator, Compression, Contents, Db, KIB, MIB, Order, Verify};

use crate::callback::Ordered;
use crate::failure::Failure;
use crate::foreign::refuse_other_engines;
use crate::held::{self, CACHES, COMPARATORS, ENVIRONMENTS, HeldPolicy, POLICIES};
use crate::options::Options;
use crate::shelf::lock;
use crate::store::{FAMILY, Store};

/// The settings of an open: all objects resolved, all numbers clamped to the engine's limits.
pub(crate) struct OpenPlan {
    given: Options,
    order: Option<Arc<Ordered>>,
    filter_policy: Option<HeldPolicy>,
    cache: Option<Arc<Cache>>,
    compression: Compression,
}

impl OpenPlan {
    pub(crate) fn of(options: &Options) -> Result<OpenPlan, Failure> {
        let wanted = |ticket: usize| (ticket != 0).then_some(ticket);
        if wanted(options.env).is_some_and(|env| ENVIRONMENTS.get(env).is_none()) {
            return Err(Failure::dead(options.env, "the env"));
        }
        let cache = |ticket| {
            let held = CACHES.get(ticket).and_then(|held| lock(held).clone());
            held.ok_or_else(|| Failure::dead(ticket, "the cache"))
        };
        Ok(OpenPlan {
            order: wanted(options.comparator).map(|it| held::made(&COMPARATORS, it, "the comparator")).transpose()?,
            filter_policy: wanted(options.filter_policy)
                .map(|it| held::made(&POLICIES, it, "the filter policy"))
                .transpose()?,
            cache: wanted(options.cache).map(cache).transpose()?,
            compression: match options.compression {
                Some(0) => Compression::None,
                None | Some(1 | 2) => Compression::default(), // LZ4: as small as Snappy, faster than Zstandard
                Some(other) => return Err(Failure::invalid(format_args!("compression {other}"))),
            },
            given: options.clone(),
        })
    }

    /// Opens the store, or creates it.
    pub(crate) fn open(&self, dir: &Path) -> Result<Store, Failure> {
        self.look(dir)?;
        Store::new(self.builder(dir).open()?, self.describe(), self.write_buffer_bytes() as u64)
    }

    /// True if the program supplied a comparator.
    pub(crate) fn has_comparator(&self) -> bool {
        self.order.is_some()
    }

    /// Size of the memtable, with LevelDB's own limits.
    fn write_buffer_bytes(&self) -> usize {
        self.given.write_buffer_bytes.map_or(64 * MIB, |bytes| bytes.clamp(64 * KIB, 1024 * MIB))
    }

    fn family(&self) -> CfOptions {
        let default = CfOptions::default();
        let within = |given: Option<i32>, default: usize, least: usize, most: usize| {
            given.map_or(default, |given| usize::try_from(given).unwrap_or(least).clamp(least, most))
        };
        let table_bytes =
            self.given.max_file_bytes.map_or(default.table_bytes, |bytes| bytes.clamp(MIB, 1024 * MIB) as u64);
        CfOptions {
            order: self.order.clone().map_or(Order::bytewise(), |order| Order::custom(order as Arc<dyn Comparator>)),
            block_bytes: self.given.block_bytes.map_or(default.block_bytes, |bytes| bytes.clamp(KIB, MIB)),
            restart_interval: within(self.given.restart_interval, default.restart_interval, 1, 255),
            filter_bits: match self.filter_policy {
                Some(HeldPolicy::Bloom(bits)) => bits,
                _ => default.filter_bits,
            },
            filter_policy: match &self.filter_policy {
                Some(HeldPolicy::Own(own)) => Some(own.clone()),
                _ => None,
            },
            compression: self.compression,
            table_bytes,
            level_base_bytes: default.level_base_bytes.max(table_bytes),
            verify_scans: if self.given.paranoid_checks { Verify::Always } else { default.verify_scans },
            ..default
        }
    }

    /// Returns the builder that opens the store.
    pub(crate) fn builder(&self, dir: &Path) -> Builder {
        let mut builder = Db::builder(dir)
            .create_if_missing(self.given.create_if_missing)
            .memtable_bytes(self.write_buffer_bytes())
            .column_family(FAMILY, self.family())
            .tune(|settings| settings.error_if_exists = self.given.error_if_exists);
        if let Some(order) = &self.order {
            builder = builder.comparator(order.clone());
        }
        if let Some(cache) = &self.cache {
            builder = builder.cache(cache.clone());
        }
        builder
    }

    /// Checks conditions that the engine would refuse, and reports them in LevelDB's form.
    fn look(&self, dir: &Path) -> Result<(), Failure> {
        refuse_other_engines(dir)?;
        let is_missing = matches!(Db::contents(dir)?, Contents::Empty | Contents::Foreign(_));
        if is_missing && !self.given.create_if_missing {
            let what = format!("{}: does not exist (create_if_missing is false)", dir.display());
            return Err(Failure::invalid(what));
        }
        // LevelDB creates the database's directory, but no parent directory.
        let above = dir.parent().filter(|above| !above.as_os_str().is_empty());
        match above {
            Some(above) if is_missing && matches!(RealFs.exists(above), Ok(false)) => {
                Err(Failure::io(format_args!("{}: No such file or directory", dir.display())))
            }
            _ => Ok(()),
        }
    }

    /// Describes the settings of the open, one line per option.
    fn describe(&self) -> String {
        let family = self.family();
        let cache = self.cache.as_ref().map(|cache| cache.metrics().budget_bytes);
        let filter = match &self.filter_policy {
            None => "built-in".to_owned(),
            Some(HeldPolicy::Bloom(_)) => "bloom".to_owned(),
            Some(HeldPolicy::Own(own)) => waxseal::FilterPolicy::name(&**own).to_owned(),
        };
        let given = |word: Option<String>| word.unwrap_or_else(|| "default".to_owned());
        let lines = [
            ("comparator", family.order.name().to_owned()),
            ("filter_policy", filter),
            ("filter_bits", family.filter_bits.to_string()),
            ("create_if_missing", (self.given.create_if_missing as u8).to_string()),
            ("error_if_exists", (self.given.error_if_exists as u8).to_string()),
            ("paranoid_checks", (self.given.paranoid_checks as u8).to_string()),
            ("env", given((self.given.env != 0).then(|| "given".to_owned()))),
            ("info_log", given(self.given.has_logger.then(|| "given, not used".to_owned()))),
            ("write_buffer_size", self.write_buffer_bytes().to_string()),
            ("max_open_files", given(self.given.max_open_files.map(|most| format!("{most}, not used")))),
            ("cache", given(cache.map(|bytes| bytes.to_string()))),
            ("block_size", family.block_bytes.to_string()),
            ("block_restart_interval", family.restart_interval.to_string()),
            ("max_file_size", family.table_bytes.to_string()),
            ("compression", format!("{:?}", family.compression)),
        ];
        lines.iter().fold(String::new(), |mut text, (name, value)| {
            let _ = writeln!(text, "{name}={value}"); // to a string: cannot fail
            text
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_brought_within_what_the_engine_takes() {
        let extremes = [0, 1, usize::MAX];
        for (bytes, count) in extremes.into_iter().flat_map(|bytes| [i32::MIN, 0, i32::MAX].map(|count| (bytes, count)))
        {
            let options = Options {
                write_buffer_bytes: Some(bytes),
                block_bytes: Some(bytes),
                max_file_bytes: Some(bytes),
                restart_interval: Some(count),
                max_open_files: Some(count),
                ..Options::default()
            };
            let plan = OpenPlan::of(&options).unwrap();
            plan.family().validate().unwrap();
            assert!((64 * KIB..=1024 * MIB).contains(&plan.write_buffer_bytes()));
        }
    }

    #[test]
    fn what_is_not_there_is_named() {
        let missing = |options: Options| OpenPlan::of(&options).err().unwrap().text().to_owned();
        assert!(missing(Options { comparator: 8, ..Options::default() }).contains("comparator"));
        assert!(missing(Options { filter_policy: 9, ..Options::default() }).contains("filter policy"));
        assert!(missing(Options { cache: 10, ..Options::default() }).contains("cache"));
        assert!(missing(Options { env: 11, ..Options::default() }).contains("env"));
        assert!(missing(Options { compression: Some(9), ..Options::default() }).contains("compression 9"));
    }

    #[test]
    fn paranoid_checks_look_at_every_record_that_a_scan_passes() {
        let scans = |paranoid_checks| {
            OpenPlan::of(&Options { paranoid_checks, ..Options::default() }).unwrap().family().verify_scans
        };
        assert_eq!((scans(true), scans(false)), (Verify::Always, CfOptions::default().verify_scans));
    }
}
