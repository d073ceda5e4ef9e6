//! Sessions: who writes. docs/format.md, section 9.8.
//!
//! A session is a name, and how it was authenticated if it was. Each pair has a number in the store, given when the session first
//! writes something that is watched and never given again; records carry the number, events the name. The row that says which
//! name a number stands for is committed before the first record that carries it, so wherever such a record survives a crash,
//! the row does. Who has not said who he is has number 0, the name `-`, and no row.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use waxseal_lsm::codec::{Reader, put_bytes};
use waxseal_lsm::env::work::lock;
use waxseal_lsm::error::{Error, ErrorKind, Result};

use crate::key::{ANONYMOUS, MAX_CLIENT_BYTES};
use crate::ordered::{put_u64, take_u64};

/// The level of a row's value.
const LEVEL: u8 = 1;
/// The first byte of a row's key.
const ROW: u8 = 0x04;

/// Who a session is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    /// Its name, 1 to 255 bytes.
    pub name: String,
    /// How it was authenticated; none: not at all.
    pub authenticated: Option<String>,
}

impl Identity {
    /// A name that nobody vouches for.
    pub fn named(name: impl Into<String>) -> Identity {
        Identity { name: name.into(), authenticated: None }
    }

    /// The same, authenticated in some way: `password`, `tls`, ..
    #[must_use]
    pub fn authenticated(self, how: impl Into<String>) -> Identity {
        Identity { authenticated: Some(how.into()), ..self }
    }

    fn check(&self) -> Result<()> {
        let how = self.authenticated.as_ref().map_or(1, String::len);
        if self.name.is_empty() || self.name.len() > MAX_CLIENT_BYTES || how == 0 || how > MAX_CLIENT_BYTES {
            return Err(Error::invalid(format!(
                "a session's name has 1 to {MAX_CLIENT_BYTES} bytes, as has its authentication"
            )));
        }
        Ok(())
    }

    fn value(&self) -> Vec<u8> {
        let mut value = vec![LEVEL];
        put_bytes(&mut value, self.name.as_bytes());
        if let Some(how) = &self.authenticated {
            put_bytes(&mut value, how.as_bytes());
        }
        value
    }

    /// Reads the value of a row; other bytes are refused.
    pub fn read(value: &[u8]) -> Result<Identity> {
        let mut reader = Reader::new(value);
        match reader.u8()? {
            0 => return Err(Error::structural("a session of level 0")),
            LEVEL => {}
            level => {
                let say = format!("a session of level {level}; this store knows {LEVEL}");
                return Err(Error::of(ErrorKind::FormatTooNew, say));
            }
        }
        let text = |bytes: &[u8]| {
            String::from_utf8(bytes.to_vec()).map_err(|_| Error::structural("a session whose name is no text"))
        };
        let name = text(reader.length_prefixed()?)?;
        let authenticated = if reader.is_empty() { None } else { Some(text(reader.length_prefixed()?)?) };
        let identity = Identity { name, authenticated };
        match reader.is_empty() && identity.check().is_ok() {
            true => Ok(identity),
            false => Err(Error::structural("a row that is no session's")),
        }
    }
}

impl From<&str> for Identity {
    fn from(name: &str) -> Identity {
        Identity::named(name)
    }
}

impl From<String> for Identity {
    fn from(name: String) -> Identity {
        Identity::named(name)
    }
}

/// The key of a session's row.
pub fn session_key(id: u64) -> Vec<u8> {
    let mut key = vec![ROW];
    put_u64(&mut key, id);
    key
}

/// The number in the key of a session's row; other bytes are refused.
pub fn read_session_key(key: &[u8]) -> Result<u64> {
    let mut reader = Reader::new(key);
    let (row, id) = (reader.u8()?, take_u64(&mut reader)?);
    match row == ROW && reader.is_empty() && id > 0 {
        true => Ok(id),
        false => Err(Error::structural("a key that is no session's")),
    }
}

/// An open session: what is written through it is written in its name. Clones are the same session.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    id: u64,
    identity: Option<Arc<Identity>>,
}

impl Session {
    /// Nobody in particular.
    pub const ANONYMOUS: Session = Session { id: 0, identity: None };

    /// Its number in this store; 0 if nobody said who he is.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its name; `-` if nobody said who he is.
    pub fn name(&self) -> &str {
        self.identity.as_ref().map_or(ANONYMOUS, |identity| &identity.name)
    }

    /// How it was authenticated; none: not at all.
    pub fn authenticated(&self) -> Option<&str> {
        self.identity.as_ref().and_then(|identity| identity.authenticated.as_deref())
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({}, {:?})", self.id, self.name())
    }
}

/// The sessions of a store, by number and by who they are.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    known: RwLock<Known>,
    /// One number is given at a time.
    giving: Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    by_id: BTreeMap<u64, Arc<Identity>>,
    by_identity: BTreeMap<Arc<Identity>, u64>,
}

impl Sessions {
    /// The session of this number, if it was met.
    pub(crate) fn get(&self, id: u64) -> Option<Session> {
        if id == 0 {
            return Some(Session::ANONYMOUS);
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.by_id.get(&id).map(|identity| Session { id, identity: Some(identity.clone()) })
    }

    fn of(&self, identity: &Identity) -> Option<Session> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let (identity, id) = known.by_identity.get_key_value(identity)?;
        Some(Session { id: *id, identity: Some(identity.clone()) })
    }

    /// Takes up a row.
    pub(crate) fn load(&self, id: u64, identity: Identity) -> Session {
        let identity = Arc::new(identity);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.by_id.insert(id, identity.clone());
        known.by_identity.insert(identity.clone(), id);
        Session { id, identity: Some(identity) }
    }

    /// The session of somebody; a new one gets a number, and `keep` commits its row before anybody hears of it.
    pub(crate) fn open(
        &self,
        identity: Identity,
        keep: impl FnOnce(Vec<u8>, Vec<u8>) -> Result<()>,
    ) -> Result<Session> {
        identity.check()?;
        if let Some(session) = self.of(&identity) {
            return Ok(session);
        }
        let _one_at_a_time = lock(&self.giving);
        if let Some(session) = self.of(&identity) {
            return Ok(session);
        }
        let last = self.known.read().unwrap_or_else(PoisonError::into_inner).by_id.keys().next_back().copied();
        let id = last.unwrap_or(0) + 1;
        keep(session_key(id), identity.value())?;
        Ok(self.load(id, identity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_session() {
        // docs/format.md, section 9.8.
        assert_eq!(session_key(3), b"\x04\0\0\0\0\0\0\0\x03");
        let alice = Identity::named("alice").authenticated("password");
        assert_eq!(alice.value(), b"\x01\x05alice\x08password");
        assert_eq!(Identity::named("alice").value(), b"\x01\x05alice");
        for wrong in [&b""[..], b"\0\x01a", b"\x01\0", b"\x01\x01a\0", b"\x01\x01a\x01b\0", b"\x01\x01\xFF"] {
            assert!(Identity::read(wrong).unwrap_err().is_corruption(), "{wrong:?}");
        }
        assert_eq!(*Identity::read(b"\x02").unwrap_err().kind(), ErrorKind::FormatTooNew);
        assert!(read_session_key(&session_key(0)).is_err());
    }

    #[test]
    fn a_number_is_given_once_and_only_if_its_row_was_kept() {
        let sessions = Sessions::default();
        let alice = Identity::named("alice");
        assert!(sessions.open(alice.clone(), |_, _| Err(Error::closed())).is_err());
        let mut rows = Vec::new();
        let first = sessions.open(alice.clone(), |key, value| {
            rows.push((key, value));
            Ok(())
        });
        assert_eq!(first.unwrap().id(), 1);
        assert_eq!(rows, [(session_key(1), alice.value())]);
        let again = sessions.open(alice.clone(), |_, _| panic!("kept already")).unwrap();
        assert_eq!((again.id(), again.name(), again.authenticated()), (1, "alice", None));
        let other = sessions.open(alice.authenticated("tls"), |_, _| Ok(())).unwrap();
        assert_eq!((other.id(), other.authenticated()), (2, Some("tls")));
        assert_eq!(sessions.get(0).unwrap().name(), "-");
        assert!(sessions.get(3).is_none());
        for wrong in [String::new(), "x".repeat(256)] {
            assert!(sessions.open(Identity::named(wrong), |_, _| Ok(())).is_err());
        }
    }

    proptest! {
        #[test]
        fn sessions_come_back(id in 1u64.., name in ".{1,8}", how in prop::option::of(".{1,8}")) {
            let identity = Identity { name, authenticated: how };
            prop_assert_eq!(Identity::read(&identity.value()).unwrap(), identity);
            prop_assert_eq!(read_session_key(&session_key(id)).unwrap(), id);
        }

        #[test]
        fn any_bytes_are_a_session_or_refused(bytes: Vec<u8>, key: Vec<u8>) {
            let likely = [&[LEVEL][..], &bytes].concat();
            if let Ok(identity) = Identity::read(&likely) {
                prop_assert_eq!(identity.value(), likely);
            }
            let _ = (Identity::read(&bytes), read_session_key(&key));
        }
    }
}
