//! Options of single writes.

use std::collections::BTreeMap;
use std::time::Duration;

use waxseal_lsm::env::{SystemTime, UNIX_EPOCH};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::options::Durability;
use waxseal_meta::builtin::{Expiry, Labels};
use waxseal_meta::provider::{EXPIRY, LABELS};

/// Options of one write: its durability, and the metadata entries of the value. By default a write has the store's
/// durability and no entries.
///
/// ```
/// use waxseal::{Durability, WriteOptions};
///
/// let options = WriteOptions::new().durability(Durability::Sync);
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    pub(crate) durability: Option<Durability>,
    /// Provider id and entry bytes.
    pub(crate) entries: Vec<(u16, Vec<u8>)>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) expires: Option<Expires>,
    pub(crate) logged_as_insert: bool,
    pub(crate) expects_unwatched: bool,
}

/// The expiry that a write asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expires {
    At(SystemTime),
    In(Duration),
    Never,
}

impl WriteOptions {
    /// Returns the default options.
    pub fn new() -> WriteOptions {
        WriteOptions::default()
    }

    /// Sets the durability: whether the write can be lost in a crash after it has returned.
    pub fn durability(mut self, durability: Durability) -> WriteOptions {
        self.durability = Some(durability);
        self
    }

    /// Stores an entry with the value, in the same record, for the provider with this id (see [`meta`](crate::meta)).
    /// The entry moves with the record and is dropped with it; reads of the value do not touch it.
    ///
    /// The write fails with `Invalid` if the provider is unknown or refuses the bytes, if two entries have the same
    /// provider, or if the store was opened plain. It also fails if all entries together exceed a quarter of the
    /// family's block size or 64 KiB.
    pub fn entry(mut self, provider: u16, bytes: impl Into<Vec<u8>>) -> WriteOptions {
        self.entries.push((provider, bytes.into()));
        self
    }

    /// Sets the time at which the record expires: from then on it counts as absent, and a later compaction drops it.
    /// The last call of `expires_at`, `expires_in` and `expires_never` wins.
    ///
    /// Only values expire, and only after the seal has confirmed the value and its expiry time: a flipped bit cannot
    /// expire a record early. A time in the past is allowed; the record is absent at once. Snapshots, cursors and
    /// iterators use the time of their creation, all other reads the current time. This clock never runs backwards: if
    /// the system clock is set back, it stops until the system clock has caught up.
    ///
    /// The write fails with `Invalid` and changes nothing in a store that was opened plain, and for a time before the
    /// year 2000, which indicates a wrong unit or epoch.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// use std::time::{Duration, SystemTime};
    /// use waxseal::WriteOptions;
    ///
    /// let now = SystemTime::now();
    /// cf.put_with("old", "1", WriteOptions::new().expires_at(now - Duration::from_secs(1)))?;
    /// cf.put_with("new", "2", WriteOptions::new().expires_at(now + Duration::from_secs(3600)))?;
    /// assert_eq!(cf.get("old")?, None);
    /// assert_eq!(cf.get("new")?.unwrap(), "2");
    /// # Ok(())
    /// # }
    /// ```
    pub fn expires_at(mut self, time: SystemTime) -> WriteOptions {
        self.expires = Some(Expires::At(time));
        self
    }

    /// Sets the record's time to live, counted from the write: see [`expires_at`](WriteOptions::expires_at).
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// use std::time::Duration;
    /// use waxseal::WriteOptions;
    ///
    /// cf.put_with("session", "1", WriteOptions::new().expires_in(Duration::from_secs(3600)))?;
    /// assert_eq!(cf.get("session")?.unwrap(), "1");
    /// # Ok(())
    /// # }
    /// ```
    pub fn expires_in(mut self, after: Duration) -> WriteOptions {
        self.expires = Some(Expires::In(after));
        self
    }

    /// Exempts the record from the family's [`default_ttl`](crate::CfOptions::default_ttl): it never expires.
    pub fn expires_never(mut self) -> WriteOptions {
        self.expires = Some(Expires::Never);
        self
    }

    /// Adds a label to the value: a name and a text. Names are unique; the last text set for a name wins.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let cf = waxseal::Db::memory()?.column_family("default")?;
    /// use waxseal::WriteOptions;
    /// use waxseal::meta::{LABELS, Labels};
    ///
    /// cf.put_with("key", "value", WriteOptions::new().label("source", "import").label("level", "raw"))?;
    /// let meta = cf.get_meta("key", LABELS)?.unwrap();
    /// assert_eq!(Labels::read(&meta.bytes).unwrap(), [("level", "raw"), ("source", "import")]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn label(mut self, name: impl Into<String>, text: impl Into<String>) -> WriteOptions {
        self.labels.insert(name.into(), text.into());
        self
    }

    /// Logs this put as `Row.Insert` instead of `Row.Update`. Only the name in the log changes: the put overwrites like
    /// any other, and the store does not check whether the key existed. A delete remains `Row.Delete`. A registration
    /// of `Row.Write` covers every put.
    ///
    /// ```
    /// # fn main() -> waxseal::Result<()> {
    /// # let db = waxseal::Db::memory()?;
    /// # let users = db.column_family("users")?;
    /// use waxseal::WriteOptions;
    ///
    /// let registry = db.registry();
    /// registry.register("users", "*")?;
    /// users.put_with("john", "33", WriteOptions::new().log_as_insert())?;
    /// users.put("john", "34")?;
    /// assert_eq!(registry.query_all("users.john", "Row.Insert")?.len(), 1);
    /// assert_eq!(registry.query_all("users.john", "Row.Update")?.len(), 1);
    /// assert_eq!(registry.query_all("users.john", "Row.Write")?.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn log_as_insert(mut self) -> WriteOptions {
        self.logged_as_insert = true;
        self
    }

    /// Lets the write fail with `Conflict` if anything is registered, for layers that describe their operations then: see
    /// [`Batch::describe`](crate::Batch::describe).
    pub fn expect_unwatched(mut self) -> WriteOptions {
        self.expects_unwatched = true;
        self
    }

    /// Returns the durability of a range delete with these options. Errors: `Invalid` if they say anything about a value.
    pub(crate) fn of_range(self, default: Durability) -> Result<Durability> {
        let has_value = !self.entries.is_empty() || !self.labels.is_empty() || self.expires.is_some();
        match has_value || self.logged_as_insert {
            true => Err(Error::invalid("a range delete has no value that entries, labels or an expiry could be of")),
            false => Ok(self.durability.unwrap_or(default)),
        }
    }

    /// Returns the durability of a merge with these options. Errors: `Invalid` if they say anything about a value.
    pub(crate) fn of_operand(self, default: Durability) -> Result<Durability> {
        let has_value = !self.entries.is_empty() || !self.labels.is_empty() || self.expires.is_some();
        match has_value || self.logged_as_insert {
            true => Err(Error::invalid("a merge operand has no entries, labels or expiry, and is logged as an update")),
            false => Ok(self.durability.unwrap_or(default)),
        }
    }

    /// Returns all entries, including those for labels and expiry. `now`: microseconds since 1970.
    pub(crate) fn into_entries(self, now: impl FnOnce() -> u64) -> Result<Vec<(u16, Vec<u8>)>> {
        let mut entries = self.entries;
        match self.expires {
            Some(Expires::At(time)) => {
                let micros = time.duration_since(UNIX_EPOCH).map_or(0, micros_of);
                entries.push((EXPIRY, Expiry::checked(micros)?.to_vec()));
            }
            Some(Expires::In(after)) => {
                entries.push((EXPIRY, Expiry::at(now().saturating_add(micros_of(after))).to_vec()));
            }
            Some(Expires::Never) | None => {}
        }
        if !self.labels.is_empty() {
            let labels: Vec<(&str, &str)> = self.labels.iter().map(|(name, text)| (&name[..], &text[..])).collect();
            entries.push((LABELS, Labels::of(&labels)?));
        }
        Ok(entries)
    }
}

/// Returns a duration in microseconds.
pub(crate) fn micros_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl From<Durability> for WriteOptions {
    fn from(durability: Durability) -> WriteOptions {
        WriteOptions::new().durability(durability)
    }
}
