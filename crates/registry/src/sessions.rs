//! Sessions: the identities of writers. docs/format.md, section 9.8.
//!
//! An identity is a name and an optional authentication method. Each pair gets a number in the store when it first
//! makes a registered write; numbers are never reused. Records carry the number, events carry the name.
//!
//! The row that maps a number to its identity is committed before the first record that carries the number. If such a
//! record survives a crash, so does the row. If the row is lost or damaged nevertheless, the number denotes an unknown
//! session and is never assigned to another one. New numbers then start above the time, in microseconds, at which the
//! loss was known. An anonymous writer has the number 0, the name `-`, and no row.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use waxseal_lsm::codec::{Reader, put_bytes};
use waxseal_lsm::env::work::lock;
use waxseal_lsm::error::{Error, ErrorKind, Result};
use waxseal_lsm::planted;

use crate::clock::Time;
use crate::key::{ANONYMOUS, MAX_CLIENT_BYTES};
use crate::ordered::{put_u64, take_u64};

/// The name prefix of an unknown session, followed by its number. No identity may begin with it.
const UNKNOWN: &str = "unknown session ";

/// The format level of a row's value.
const LEVEL: u8 = 1;
/// The first byte of a row's key.
const ROW: u8 = 0x04;

/// The identity of a session.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    /// Its name, 1 to 255 bytes.
    pub name: String,
    /// The authentication method; `None` means unauthenticated.
    pub authenticated: Option<String>,
}

impl Identity {
    /// Creates an unauthenticated identity.
    pub fn named(name: impl Into<String>) -> Identity {
        Identity { name: name.into(), authenticated: None }
    }

    /// Adds an authentication method: `password`, `tls`, ..
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
        if self.name.starts_with(UNKNOWN) {
            return Err(Error::invalid(format!("no session can be called {:?}", self.name)));
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

    /// Decodes the value of a row. Malformed bytes are refused.
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

/// Returns the key of a session's row.
pub fn session_key(id: u64) -> Vec<u8> {
    let mut key = vec![ROW];
    put_u64(&mut key, id);
    key
}

/// Decodes the number in the key of a session's row. Malformed bytes are refused.
pub fn read_session_key(key: &[u8]) -> Result<u64> {
    let mut reader = Reader::new(key);
    let (row, id) = (reader.u8()?, take_u64(&mut reader)?);
    match row == ROW && reader.is_empty() && id > 0 {
        true => Ok(id),
        false => Err(Error::structural("a key that is no session's")),
    }
}

/// An open session, in whose name its writes are made. Clones are the same session.
#[derive(Clone, Default)]
pub struct Session(Option<Arc<Who>>);

#[derive(Debug)]
struct Who {
    identity: Identity,
    /// 0 until a number is assigned.
    id: AtomicU64,
}

impl Session {
    /// The anonymous session.
    pub const ANONYMOUS: Session = Session(None);

    /// Returns a session whose row is missing or unreadable.
    pub(crate) fn unknown(id: u64) -> Session {
        let identity = Identity::named(format!("{UNKNOWN}{id}"));
        Session(Some(Arc::new(Who { identity, id: AtomicU64::new(id) })))
    }

    /// Returns its number in this store; 0 for the anonymous session, and before its first registered write.
    pub fn id(&self) -> u64 {
        self.0.as_ref().map_or(0, |who| who.id.load(Relaxed))
    }

    /// Returns the number of a writer's session, or `None` if it is not assigned yet.
    #[inline]
    pub(crate) fn number_of(session: Option<&Session>) -> Option<u64> {
        match session.and_then(|session| session.0.as_ref()) {
            None => Some(0),
            Some(who) => Some(who.id.load(Relaxed)).filter(|id| *id != 0),
        }
    }

    /// Returns its name; `-` for the anonymous session.
    pub fn name(&self) -> &str {
        self.0.as_ref().map_or(ANONYMOUS, |who| &who.identity.name)
    }

    /// Returns true for the same session of the same store.
    #[inline]
    pub fn is(&self, other: &Session) -> bool {
        self.0.as_ref().map(Arc::as_ptr) == other.0.as_ref().map(Arc::as_ptr)
    }

    /// Returns its authentication method; `None` means unauthenticated.
    pub fn authenticated(&self) -> Option<&str> {
        self.0.as_ref().and_then(|who| who.identity.authenticated.as_deref())
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({}, {:?})", self.id(), self.name())
    }
}

/// The sessions of a store, by number and by identity.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    known: RwLock<KnownSessions>,
    /// Serializes the assignment of numbers.
    giving: Mutex<()>,
    /// The highest number that must not be assigned any more, whether or not its row exists.
    spent: AtomicU64,
}

#[derive(Debug, Default)]
struct KnownSessions {
    by_id: BTreeMap<u64, Session>,
    by_identity: BTreeMap<Identity, Session>,
}

impl Sessions {
    /// Returns the session with this number, if it is loaded.
    pub(crate) fn get(&self, id: u64) -> Option<Session> {
        match id {
            0 => Some(Session::ANONYMOUS),
            _ => self.known.read().unwrap_or_else(PoisonError::into_inner).by_id.get(&id).cloned(),
        }
    }

    /// Records that a record carries this number: it must not be assigned again, even if its row is missing.
    #[inline]
    pub(crate) fn met(&self, id: u64) {
        if id > self.spent.load(Relaxed) {
            self.spent.fetch_max(id, Relaxed);
        }
    }

    /// Handles the possible loss of rows up to this time: new numbers start above its microseconds, which exceed all
    /// numbers assigned so far.
    pub(crate) fn leap(&self, time: Time) {
        planted!(SessionNumberGivenAgain => return);
        self.met(time.micros());
    }

    /// Loads a row.
    pub(crate) fn load(&self, id: u64, identity: Identity) -> Result<Session> {
        let session = self.open(identity)?;
        self.give(&session, id);
        Ok(session)
    }

    /// Returns the session of an identity, which may not have a number yet.
    pub(crate) fn open(&self, identity: Identity) -> Result<Session> {
        identity.check()?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let new = || Session(Some(Arc::new(Who { identity: identity.clone(), id: AtomicU64::new(0) })));
        Ok(known.by_identity.entry(identity.clone()).or_insert_with(new).clone())
    }

    /// Returns the number of a session. If it has none, assigns one; `keep` commits its row before the number is used.
    #[inline]
    pub(crate) fn number(
        &self,
        session: Option<&Session>,
        keep: impl FnOnce(Vec<u8>, Vec<u8>) -> Result<()>,
    ) -> Result<u64> {
        match (Session::number_of(session), session) {
            (None, Some(session)) => self.number_new(session, keep),
            (id, _) => Ok(id.unwrap_or_default()),
        }
    }

    #[cold]
    fn number_new(&self, session: &Session, keep: impl FnOnce(Vec<u8>, Vec<u8>) -> Result<()>) -> Result<u64> {
        let _one_at_a_time = lock(&self.giving);
        if let Some(who) = &session.0
            && session.id() == 0
        {
            let last = self.known.read().unwrap_or_else(PoisonError::into_inner).by_id.keys().next_back().copied();
            let id = last.unwrap_or(0).max(self.spent.load(Relaxed)).saturating_add(1);
            keep(session_key(id), who.identity.value())?;
            self.give(session, id);
        }
        Ok(session.id())
    }

    fn give(&self, session: &Session, id: u64) {
        let Some(who) = &session.0 else { return };
        self.known.write().unwrap_or_else(PoisonError::into_inner).by_id.insert(id, session.clone());
        who.id.store(id, Relaxed);
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
        let session = sessions.open(alice.clone()).unwrap();
        assert!(sessions.number(Some(&session), |_, _| Err(Error::closed())).is_err());
        let mut rows = Vec::new();
        let first = sessions.number(Some(&session), |key, value| {
            rows.push((key, value));
            Ok(())
        });
        assert_eq!(first.unwrap(), 1);
        assert_eq!(rows, [(session_key(1), alice.value())]);
        let again = sessions.open(alice.clone()).unwrap();
        let none = |_, _| panic!("kept already");
        assert_eq!(sessions.number(Some(&again), none).unwrap(), 1);
        assert_eq!((again.id(), again.name(), again.authenticated()), (1, "alice", None));
        let other = sessions.open(alice.authenticated("tls")).unwrap();
        assert_eq!((other.id(), other.authenticated()), (0, Some("tls")));
        assert_eq!(sessions.number(Some(&other), |_, _| Ok(())).unwrap(), 2);
        assert_eq!(sessions.number(None, none).unwrap(), 0);
        assert_eq!(sessions.number(Some(&Session::ANONYMOUS), none).unwrap(), 0);
        assert_eq!(sessions.get(0).unwrap().name(), "-");
        assert!(sessions.get(3).is_none());
        sessions.met(7);
        sessions.met(5);
        let third = sessions.open(Identity::named("carol")).unwrap();
        assert_eq!(sessions.number(Some(&third), |_, _| Ok(())).unwrap(), 8);
        sessions.leap(Time::from_micros(1_000_000));
        let fourth = sessions.open(Identity::named("dave")).unwrap();
        assert_eq!(sessions.number(Some(&fourth), |_, _| Ok(())).unwrap(), 1_000_001);
        assert_eq!(Session::unknown(7).name(), "unknown session 7");
        for wrong in [String::new(), "x".repeat(256), "unknown session 7".to_owned()] {
            assert!(sessions.open(Identity::named(wrong)).is_err());
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
