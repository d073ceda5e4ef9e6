//! The lock of a directory of backups: an object that its holder writes again and again.
//!
//! Holds: the object is created only if there is none, and replaced only if it is unchanged, by conditional requests. A
//!        holder that finds another one's object stops.
//! Crash: leaves the object. After `LEASE_MICROS` without a sign of life another process replaces it.

use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use object_store::{Error, PutMode, PutResult, UpdateVersion};
use waxseal::env::{Clock, Env, Lock, lock};

use crate::directory::RemoteDirectory;

/// Age at which a lock counts as left by a process that was killed.
pub(crate) const LEASE_MICROS: u64 = 120_000_000;

/// Age at which a holder writes its lock again.
const REFRESH_NANOS: u64 = 20_000_000_000;

/// Longest lock that is read.
const MOST_BYTES: u64 = 4096;

/// A lock that this process holds, until it is dropped.
pub(crate) struct Lease {
    directory: RemoteDirectory,
    name: String,
    holder: String,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    version: UpdateVersion,
    count: u64,
    refreshed: u64,
    is_lost: bool,
}

impl Lease {
    /// Takes the lock, or returns its holder.
    pub(crate) fn take(
        directory: &RemoteDirectory,
        name: &str,
        holder: &str,
        env: &Env,
    ) -> io::Result<Result<Arc<Lease>, String>> {
        let machine = rustix::system::uname();
        let machine = machine.nodename().to_string_lossy().into_owned();
        let holder = format!("{holder} on {machine}\n{:?}\n", env.random.uid());
        let made = match directory.put(name, text(&holder, 0), PutMode::Create) {
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
                match take_over(directory, name, &holder, &*env.clock)? {
                    Ok(made) => made,
                    Err(other) => return Ok(Err(other)),
                }
            }
            made => made.map_err(|error| directory.failed(name, error))?,
        };
        let refreshed = env.clock.monotonic_nanos();
        let state = State { version: made.into(), count: 0, refreshed, is_lost: false };
        Ok(Ok(Arc::new(Lease {
            directory: directory.clone(),
            name: name.to_owned(),
            holder,
            clock: Arc::clone(&env.clock),
            state: Mutex::new(state),
        })))
    }

    /// Gives a sign of life if the last one is older than 20 s, or if it `must`. Errors: another process has taken the
    /// lock, or removed it; those of the store.
    pub(crate) fn keep(&self, must: bool) -> io::Result<()> {
        let mut state = lock(&self.state);
        let now = self.clock.monotonic_nanos();
        if !state.is_lost && !must && now.saturating_sub(state.refreshed) < REFRESH_NANOS {
            return Ok(());
        }
        let mode = PutMode::Update(state.version.clone());
        match self.directory.put(&self.name, text(&self.holder, state.count + 1), mode) {
            Ok(_) if state.is_lost => Err(self.lost()),
            Ok(made) => {
                (state.version, state.refreshed) = (made.into(), now);
                state.count += 1;
                Ok(())
            }
            Err(Error::NotImplemented { .. }) if self.is_ours() => {
                state.refreshed = now;
                let again = self.directory.put(&self.name, text(&self.holder, state.count), PutMode::Overwrite);
                again.map(drop).map_err(|error| self.directory.failed(&self.name, error))
            }
            Err(Error::Precondition { .. } | Error::NotFound { .. } | Error::NotImplemented { .. }) => {
                state.is_lost = true;
                Err(self.lost())
            }
            Err(error) => Err(self.directory.failed(&self.name, error)),
        }
    }

    /// Returns true if the object is one that this holder has written.
    fn is_ours(&self) -> bool {
        let read = self.directory.read(&self.name, MOST_BYTES);
        read.is_ok_and(|(_, bytes)| bytes.starts_with(self.holder.as_bytes()))
    }

    fn lost(&self) -> io::Error {
        io::Error::other(format!("{} was taken or removed by another process", self.directory.url_of(&self.name)))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_ours() {
            let _ = self.directory.remove(&self.name); // otherwise it ends by its age
        }
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.holder)
    }
}

/// The lock as the engine holds it.
#[derive(Debug)]
pub(crate) struct HeldLease(pub(crate) Arc<Lease>);

impl Lock for HeldLease {
    fn is_in_place(&self) -> io::Result<bool> {
        self.0.keep(false).map(|()| true)
    }
}

/// Replaces a lock without a sign of life, or returns its holder.
fn take_over(
    directory: &RemoteDirectory,
    name: &str,
    holder: &str,
    clock: &dyn Clock,
) -> io::Result<Result<PutResult, String>> {
    let (meta, bytes) = match directory.read(name, MOST_BYTES) {
        Err(Error::NotFound { .. }) => return Ok(Err("a process that has just ended; try again".to_owned())),
        read => read.map_err(|error| directory.failed(name, error))?,
    };
    let written = u64::try_from(meta.last_modified.timestamp_micros()).unwrap_or_default();
    let age = clock.wall_micros().saturating_sub(written);
    if age < LEASE_MICROS {
        let text = String::from_utf8_lossy(&bytes);
        let other = text.lines().next().unwrap_or_default();
        return Ok(Err(format!(
            "{other}, whose last sign of life is {} s old; if that process was killed, wait until it is {} s old, or \
             remove {}",
            age / 1_000_000,
            LEASE_MICROS / 1_000_000,
            directory.url_of(name)
        )));
    }
    let version = UpdateVersion { e_tag: meta.e_tag, version: meta.version };
    match directory.put(name, text(holder, 0), PutMode::Update(version)) {
        Err(Error::Precondition { .. } | Error::AlreadyExists { .. }) => {
            Ok(Err("a process that was faster".to_owned()))
        }
        // A local directory cannot compare: of two processes that find an old lock at once the later one has it.
        Err(Error::NotImplemented { .. }) => {
            let made = directory.put(name, text(holder, 0), PutMode::Overwrite);
            made.map(Ok).map_err(|error| directory.failed(name, error))
        }
        made => made.map(Ok).map_err(|error| directory.failed(name, error)),
    }
}

/// Returns the content of a lock. It differs each time, so that its entity tag does.
fn text(holder: &str, count: u64) -> Bytes {
    format!("{holder}{count}\n").into()
}
