//! Keyspaces: named groups of tables with a replication map, and the record of one. docs/format-tables.md, section 6.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::codec::{Reader, put_bytes, put_varint};
use crate::error::{Error, Result};
use crate::packed::{VERSION, check_version};
use crate::schema::{MAX_NAME_BYTES, check_name};

/// Most entries of a replication map.
pub const MAX_REPLICATION: usize = 256;

/// A keyspace: a named group of tables, with a replication map.
///
/// The map has any names and values, for instance a number of copies by data center. The store keeps and logs it, and
/// does not interpret it.
///
/// ```
/// use waxseal_table::Keyspace;
///
/// let library = Keyspace::new("library").replication("east", 3).replication("west", 2);
/// assert_eq!(library.replication_map()["east"], "3");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keyspace {
    name: String,
    replication: BTreeMap<String, String>,
}

impl Keyspace {
    /// Returns a keyspace with an empty replication map.
    pub fn new(name: &str) -> Keyspace {
        Keyspace { name: name.to_owned(), replication: BTreeMap::new() }
    }

    /// Sets an entry of the replication map, and returns the keyspace.
    pub fn replication(mut self, name: &str, value: impl Display) -> Keyspace {
        self.replication.insert(name.to_owned(), value.to_string());
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the replication map.
    pub fn replication_map(&self) -> &BTreeMap<String, String> {
        &self.replication
    }

    /// Returns the keyspace under another name.
    pub(crate) fn renamed(&self, name: &str) -> Keyspace {
        Keyspace { name: name.to_owned(), replication: self.replication.clone() }
    }

    /// Fails with `Invalid` for a name that no keyspace can have, and for a replication map with too many entries, a name
    /// without bytes or with `=`, or texts that are too long or have control characters.
    pub(crate) fn check(&self) -> Result<()> {
        check_name("keyspace", &self.name)?;
        if self.replication.len() > MAX_REPLICATION {
            return Err(Error::invalid(format!("a replication map has at most {MAX_REPLICATION} entries")));
        }
        let is_text = |text: &str| text.len() <= MAX_NAME_BYTES && !text.contains(char::is_control);
        let is_entry = |(name, value): (&String, &String)| {
            !name.is_empty() && !name.contains('=') && is_text(name) && is_text(value)
        };
        match self.replication.iter().find(|entry| !is_entry(*entry)) {
            Some((name, value)) => Err(Error::invalid(format!(
                "{name:?}={value:?} is no entry of a replication map: a name without = and a value, both of at most \
                 {MAX_NAME_BYTES} bytes without control characters"
            ))),
            None => Ok(()),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_varint(&mut out, self.replication.len() as u64);
        for (name, value) in &self.replication {
            put_bytes(&mut out, name.as_bytes());
            put_bytes(&mut out, value.as_bytes());
        }
        out
    }

    pub(crate) fn decode(name: &str, record: &[u8]) -> Result<Keyspace> {
        let mut reader = Reader::new(record);
        check_version(reader.u8()?)?;
        let entries = reader.count()?;
        let mut keyspace = Keyspace::new(name);
        for _ in 0..entries {
            keyspace.replication.insert(reader.text()?.to_owned(), reader.text()?.to_owned());
        }
        reader.end()?;
        match keyspace.check() {
            Ok(()) if keyspace.replication.len() == entries => Ok(keyspace),
            _ => Err(Error::corruption("a keyspace that is none")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_record_has_these_bytes() {
        let keyspace = Keyspace::new("library").replication("dc2", 2).replication("dc1", 3);
        // The example of docs/format-tables.md, section 6.
        let record = b"\x01\x02\x03dc1\x013\x03dc2\x012";
        assert_eq!(keyspace.encode(), record);
        assert_eq!(Keyspace::decode("library", record).unwrap(), keyspace);
        for wrong in [&record[..record.len() - 1], b"\x01\x02\x03dc1\x013\x03dc1\x012", b"\x01\x01\x00\x00"] {
            assert_eq!(Keyspace::decode("library", wrong).unwrap_err().kind(), crate::ErrorKind::Corruption);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_keyspace_or_refused(record: Vec<u8>) {
            if let Ok(keyspace) = Keyspace::decode("library", &record) {
                prop_assert_eq!(Keyspace::decode("library", &keyspace.encode()).unwrap(), keyspace);
            }
        }
    }
}
