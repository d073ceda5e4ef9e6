//! Registrations: the rows of the registry. docs/format.md, section 9.7.
//!
//! A pair of target and operation occurs in the registry once; registering it again changes its options. Logging begins
//! with the seqno of the row.

use std::fmt;
use std::time::Duration;

use waxseal_lsm::codec::{Reader, put_bytes, put_varint};
use waxseal_lsm::error::{Error, ErrorKind, Result};

use crate::key::{read_registry_key, registry_key};
use crate::operation::{Operation, OperationGroup};
use crate::target::Target;

/// The format level of a row's value.
const LEVEL: u8 = 1;

/// The targets that a registration covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scope {
    /// Only the target itself, as in the paper. Row operations happen to keys, so a family registered with this scope
    /// logs none of its rows.
    Exact,
    /// The target and everything below it.
    #[default]
    Subtree,
}

/// When a log row is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// In the batch of the operation.
    #[default]
    Sync,
    /// A little later, by a separate thread. A crash may lose some rows; the ring's capacity is the maximum.
    Async,
    /// When the operation's records are flushed. Until then queries read the event from the memtable.
    Deferred,
}

/// The values that an event keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Values {
    /// None.
    #[default]
    None,
    /// The new value.
    New,
    /// The old and the new value.
    OldNew,
    /// Their seals.
    Hash,
}

/// How a registered operation is logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The targets covered.
    pub scope: Scope,
    /// When rows are written.
    pub mode: Mode,
    /// The values kept.
    pub values: Values,
    /// How long events are kept; `None`: until they are deleted explicitly.
    pub retention: Option<Duration>,
    /// True: the version that each registered write replaced stays in its family instead of being dropped.
    pub history: bool,
}

impl Scope {
    /// Its word: `exact` or `subtree`.
    pub fn word(self) -> &'static str {
        match self {
            Scope::Exact => "exact",
            Scope::Subtree => "subtree",
        }
    }
}

impl Mode {
    /// Its word: `sync`, `async` or `deferred`.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Sync => "sync",
            Mode::Async => "async",
            Mode::Deferred => "deferred",
        }
    }
}

impl Values {
    /// Its word: `none`, `new`, `old-new` or `hash`.
    pub fn word(self) -> &'static str {
        match self {
            Values::None => "none",
            Values::New => "new",
            Values::OldNew => "old-new",
            Values::Hash => "hash",
        }
    }
}

/// In words, without what is not chosen: `subtree deferred values=new history retention=60s`.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.scope.word(), self.mode.word())?;
        if self.values != Values::None {
            write!(f, " values={}", self.values.word())?;
        }
        if self.history {
            f.write_str(" history")?;
        }
        match self.retention {
            Some(retention) => write!(f, " retention={}s", retention.as_secs()),
            None => Ok(()),
        }
    }
}

impl Options {
    /// Returns the default options of a pair. Operations on rows and columns are logged deferred, all others in mode
    /// sync. An operation that never happens to the target itself, but only below it, gets the scope `Subtree`; the
    /// same applies if any operation is registered.
    pub fn suited(target: &Target, operation: Option<Operation>) -> Options {
        let group = operation.map(Operation::group);
        let mode = match group {
            None | Some(OperationGroup::Row | OperationGroup::Column | OperationGroup::Range) => Mode::Deferred,
            Some(_) => Mode::Sync,
        };
        let scope = if happens_below(target, group) { Scope::Subtree } else { Scope::Exact };
        Options { scope, mode, ..Options::default() }
    }

    /// Decodes the value of a row, which is also the options field of a `Registry.Add` event. Errors: as for
    /// `Registration::decode`.
    pub fn decode(value: &[u8]) -> Result<Options> {
        let mut reader = Reader::new(value);
        match reader.u8()? {
            0 => return Err(Error::structural("a registration of level 0")),
            LEVEL => {}
            level => {
                let say = format!("a registration of level {level}; this store knows {LEVEL}");
                return Err(Error::of(ErrorKind::FormatTooNew, say));
            }
        }
        // A row without a scope is exact, whatever the default for callers.
        let (mut options, mut last) = (Options { scope: Scope::Exact, ..Options::default() }, 0);
        while !reader.is_empty() {
            let (tag, mut bytes) = (reader.varint()?, Reader::new(reader.length_prefixed()?));
            if tag <= last {
                return Err(Error::structural("options of a registration out of order"));
            }
            last = tag;
            match tag {
                1 => options.scope = one_of(&[Scope::Exact, Scope::Subtree], &mut bytes)?,
                2 => options.mode = one_of(&[Mode::Sync, Mode::Async, Mode::Deferred], &mut bytes)?,
                3 => {
                    let all = [Values::None, Values::New, Values::OldNew, Values::Hash];
                    options.values = one_of(&all, &mut bytes)?;
                }
                5 => options.history = one_of(&[false, true], &mut bytes)?,
                7 => options.retention = Some(Duration::from_micros(bytes.varint()?)),
                _ if tag % 2 == 1 => continue,
                _ => return Err(Error::structural("an option of a registration that must be known and is not")),
            }
            if !bytes.is_empty() {
                return Err(Error::structural("bytes behind an option of a registration"));
            }
        }
        Ok(options)
    }
}

/// Returns true if the old value must be read before the write, because no version keeps it.
pub(crate) fn reads_before(options: &Options) -> bool {
    options.values == Values::OldNew && !options.history
}

/// Fails with `Invalid` for incompatible options.
pub fn check_options(options: &Options) -> Result<()> {
    if reads_before(options) && options.mode != Mode::Sync {
        return Err(Error::invalid("old values are kept by history, or read before they are overwritten in mode sync"));
    }
    Ok(())
}

/// Returns true if operations of this group never happen to the target itself, but only below it.
fn happens_below(target: &Target, group: Option<OperationGroup>) -> bool {
    let level = match target {
        Target::Cluster => 0,
        Target::Keyspace(_) => 1,
        Target::Table(_) | Target::Family(_) => 2,
        Target::Partition { .. } | Target::Row { .. } | Target::Key { .. } => 3,
        Target::Column { .. } | Target::Node(_) | Target::TableFile(_) | Target::Engine(_) => return false,
    };
    match group {
        Some(OperationGroup::Schema | OperationGroup::Node | OperationGroup::Engine | OperationGroup::Session) => {
            level < 1
        }
        Some(OperationGroup::Table | OperationGroup::Range) => level < 2,
        Some(OperationGroup::Row) | None => level < 3, // `None` is any operation; most of them happen to rows
        Some(OperationGroup::Column) => level < 4,
        Some(OperationGroup::Registry | OperationGroup::Defined) => false,
    }
}

/// One row of the registry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registration {
    /// The registered target.
    pub target: Target,
    /// The operation; `None`: any.
    pub operation: Option<Operation>,
    /// How it is logged.
    pub options: Options,
}

impl Registration {
    /// Creates a registration with the default options of the pair.
    pub fn new(target: Target, operation: Option<Operation>) -> Registration {
        let options = Options::suited(&target, operation);
        Registration { target, operation, options }
    }

    /// Returns the registration with other options.
    #[must_use]
    pub fn with(self, options: Options) -> Registration {
        Registration { options, ..self }
    }

    /// Returns true if this registration causes an operation on a target to be logged.
    pub fn matches(&self, target: &Target, operation: Operation) -> bool {
        self.means(operation)
            && match self.options.scope {
                Scope::Exact => self.target == *target,
                Scope::Subtree => self.target.covers(target),
            }
    }

    /// Returns true if it covers this operation.
    #[inline]
    pub(crate) fn means(&self, operation: Operation) -> bool {
        self.operation.is_none_or(|own| own.covers(operation))
    }

    /// Returns its specificity. Of several matching registrations the one with the deepest target applies. For the same
    /// target, a registration of the single operation precedes `Row.Write`, which precedes a registration of any
    /// operation.
    pub fn rank(&self) -> (usize, u8) {
        let operation = match self.operation {
            None => 0,
            Some(Operation::ROW_WRITE) => 1,
            Some(_) => 2,
        };
        (self.target.depth(), operation)
    }

    /// Encodes key and value of its row. Errors: `Invalid` for a malformed target.
    pub fn encode(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        let Options { scope, mode, values, retention, history } = self.options;
        let mut value = vec![LEVEL];
        for (tag, number) in [(1, scope as u64), (2, mode as u64), (3, values as u64), (5, u64::from(history))] {
            put_number(&mut value, tag, number);
        }
        if let Some(retention) = retention {
            put_number(&mut value, 7, u64::try_from(retention.as_micros()).unwrap_or(u64::MAX));
        }
        Ok((registry_key(&self.target, self.operation)?, value))
    }

    /// Decodes a row. Fails with `Corruption` for malformed bytes, and with `FormatTooNew` for a later level.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Registration> {
        let (target, operation) = read_registry_key(key)?;
        Ok(Registration { target, operation, options: Options::decode(value)? })
    }
}

fn put_number(out: &mut Vec<u8>, tag: u64, number: u64) {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, number);
    put_varint(out, tag);
    put_bytes(out, &bytes);
}

fn one_of<T: Copy>(all: &[T], reader: &mut Reader<'_>) -> Result<T> {
    let number = usize::try_from(reader.varint()?).ok();
    let choice = number.and_then(|number| all.get(number)).copied();
    choice.ok_or_else(|| Error::structural("a choice of a registration that is not known"))
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use proptest::prelude::*;

    /// Any options.
    pub(crate) fn options() -> impl Strategy<Value = Options> {
        let scope = prop::sample::select(vec![Scope::Exact, Scope::Subtree]);
        let mode = prop::sample::select(vec![Mode::Sync, Mode::Async, Mode::Deferred]);
        let values = prop::sample::select(vec![Values::None, Values::New, Values::OldNew, Values::Hash]);
        let retention = prop::option::of(any::<u64>().prop_map(Duration::from_micros));
        (scope, mode, values, retention, any::<bool>()).prop_map(|(scope, mode, values, retention, history)| Options {
            scope,
            mode,
            values,
            retention,
            history,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::testing::options;
    use super::*;
    use crate::target::TableName;
    use crate::target::testing::{john, target};
    use proptest::prelude::*;

    #[test]
    fn golden_registration() {
        // docs/format.md, section 9.7.
        let options = Options {
            scope: Scope::Subtree,
            mode: Mode::Deferred,
            values: Values::New,
            retention: Some(Duration::from_secs(1)),
            history: true,
        };
        let (_, value) = Registration::new(john(), None).with(options).encode().unwrap();
        assert_eq!(value, b"\x01\x01\x01\x01\x02\x01\x02\x03\x01\x01\x05\x01\x01\x07\x03\xC0\x84\x3D");
        let key = registry_key(&john(), None).unwrap();
        let exact = Options { scope: Scope::Exact, ..Options::default() };
        assert_eq!(Registration::decode(&key, b"\x01").unwrap().options, exact);
        assert!(Registration::decode(&key, b"\x01\x09\x02ab").is_ok(), "an odd tag may be unknown");
        for wrong in
            [&b""[..], b"\0", b"\x01\x08\0", b"\x01\x02\x01\x03", b"\x01\x02\x01\0\x01\x01\0", b"\x01\x01\x02\0\0"]
        {
            assert!(Registration::decode(&key, wrong).unwrap_err().is_corruption(), "{wrong:?}");
        }
        let newer = Registration::decode(&key, b"\x02").unwrap_err();
        assert_eq!(*newer.kind(), ErrorKind::FormatTooNew);
    }

    #[test]
    fn what_suits_a_pair_can_match() {
        let users = || Target::family("users");
        let update = Some(Operation::ROW_UPDATE);
        assert_eq!(Options::suited(&users(), update).scope, Scope::Subtree);
        assert_eq!(Options::suited(&users(), update).mode, Mode::Deferred);
        let exact = Options { scope: Scope::Exact, ..Options::default() };
        assert_eq!(Options::suited(&users(), Some(Operation::TABLE_DROP)), exact);
        assert_eq!(Options::suited(&users(), None).scope, Scope::Subtree);
        assert_eq!(Options::suited(&john(), None).scope, Scope::Exact);
        assert_eq!(Options::suited(&john(), update).scope, Scope::Exact);
        assert_eq!(Options::suited(&john(), Some(Operation::COLUMN_UPDATE)).scope, Scope::Subtree);
        let school = Target::Keyspace("School".to_owned());
        assert_eq!(Options::suited(&school, Some(Operation::TABLE_TRUNCATE)).scope, Scope::Subtree);
        assert_eq!(Options::suited(&school, Some(Operation::SCHEMA_ALTER)).scope, Scope::Exact);
        for operation in [Operation::ENGINE_FLUSH, Operation::SESSION_OPEN] {
            assert_eq!(Options::suited(&Target::Cluster, Some(operation)).scope, Scope::Subtree);
        }
    }

    #[test]
    fn options_of_which_nobody_chose_the_scope_watch_the_keys_of_a_family() {
        let row = Target::key("users", "john");
        for operation in [None, Some(Operation::ROW_UPDATE)] {
            let chosen = Options { mode: Mode::Async, ..Options::default() };
            let registration = Registration::new(Target::family("users"), operation).with(chosen);
            assert!(registration.matches(&row, Operation::ROW_UPDATE), "{operation:?}");
        }
        let (key, value) = Registration::new(Target::family("users"), None).with(Options::default()).encode().unwrap();
        assert!(Registration::decode(&key, &value).unwrap().matches(&row, Operation::ROW_DELETE));
    }

    #[test]
    fn old_values_need_somebody_who_keeps_them() {
        let options = Options { values: Values::OldNew, mode: Mode::Deferred, ..Options::default() };
        assert!(check_options(&options).is_err());
        assert!(check_options(&Options { history: true, ..options }).is_ok());
        assert!(check_options(&Options { mode: Mode::Sync, ..options }).is_ok());
    }

    #[test]
    fn the_exact_pair_matches_itself_alone() {
        let table = Target::Table(TableName::new("School", "Teacher"));
        let exact = Registration::new(table.clone(), Some(Operation::TABLE_TRUNCATE));
        assert!(exact.matches(&table, Operation::TABLE_TRUNCATE));
        assert!(!exact.matches(&table, Operation::TABLE_DROP) && !exact.matches(&john(), Operation::TABLE_TRUNCATE));
        let all = Registration::new(table, None).with(Options { scope: Scope::Subtree, ..Options::default() });
        assert!(all.matches(&john(), Operation::ROW_DELETE));
        assert!(exact.rank() > all.rank());
    }

    proptest! {
        #[test]
        fn registrations_come_back(target in target(), number: u16, options in options()) {
            let registration = Registration { target, operation: Operation::from_number(number), options };
            let (key, value) = registration.encode().unwrap();
            prop_assert_eq!(Registration::decode(&key, &value).unwrap(), registration);
        }

        #[test]
        fn any_row_is_a_registration_or_refused(options in options(), at: prop::sample::Index, flip: u8, any: Vec<u8>) {
            let (key, mut value) = Registration::new(john(), None).with(options).encode().unwrap();
            let at = at.index(value.len());
            value[at] ^= flip;
            let _ = (Registration::decode(&key, &value), Registration::decode(&key, &any), Registration::decode(&any, &value));
        }
    }
}
