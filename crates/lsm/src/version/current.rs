//! `CURRENT`: one line that names the manifest and the store. docs/format.md, section 6.
//!
//! The file is never written in place: a new file is written beside it, synced, renamed over it, and the directory
//! synced.
//! Crash:  leaves the old line or the new one.

use std::io::ErrorKind as IoKind;
use std::path::Path;

use crate::checksum::{Uid, hash};
use crate::env::{Env, Open, read_exact};
use crate::error::{Damage, Error, IoContext, Result, Verdict};
use crate::names::StoreFileName;

/// The contents of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Current {
    /// The manifest's number.
    pub(super) manifest: u64,
    /// The store's uid.
    pub(super) store: Uid,
}

/// Maximum length of the line: a manifest's number has at most twenty digits.
pub(super) const MAX_BYTES: usize = 128;

impl Current {
    pub(super) fn encode(&self) -> String {
        let name = StoreFileName::Manifest(self.manifest).to_string();
        let sum = hash(&[name.as_bytes(), &self.store.0].concat());
        format!("{name} {sum:016x} {:?}\n", self.store)
    }

    /// Decodes the line. Accepts only the exact output of `encode`, so that a flipped bit is always detected.
    pub(super) fn decode(bytes: &[u8]) -> Result<Current> {
        let read = || {
            let line = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
            let mut words = line.split(' ');
            let (name, _sum, uid) = (words.next()?, words.next()?, words.next()?);
            let Some(StoreFileName::Manifest(manifest)) = StoreFileName::parse(name) else { return None };
            let current = Current { manifest, store: Uid::parse(uid)? };
            (current.encode().as_bytes() == bytes).then_some(current)
        };
        read().ok_or_else(|| Error::structural("does not name a manifest"))
    }

    /// Reads the line in `dir`; `None` if the file does not exist.
    pub(super) fn read(env: &Env, dir: &Path) -> Result<Option<Current>> {
        let name = StoreFileName::Current.to_string();
        let file = match env.fs.open(&dir.join(&name), Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == IoKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(format!("open {name}"), error)),
        };
        let length = file.len().during(|| format!("length of {name}"))?;
        if length > MAX_BYTES as u64 {
            return Err(Error::structural("is longer than one line").in_file(&name, 0));
        }
        let bytes = read_exact(&*file, 0, length as usize).during(|| format!("read {name}"))?;
        Current::decode(&bytes).map(Some).map_err(|error| error.in_file(&name, 0))
    }

    /// Returns the error for a store without this file.
    pub(super) fn missing() -> Error {
        let damage =
            Damage { file: StoreFileName::Current.to_string(), verdict: Verdict::Missing, ..Damage::default() };
        Error::corruption(
            damage,
            "the directory holds files of a store, but not the one that names its manifest: salvage reads what can still be read",
        )
    }
}

/// The store that `CURRENT` names; none where it cannot be read.
pub fn store_named(env: &Env, dir: &Path) -> Option<Uid> {
    Current::read(env, dir).ok().flatten().map(|current| current.store)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lines_come_back(manifest: u64, uid: [u8; 16]) {
            let current = Current { manifest, store: Uid(uid) };
            prop_assert_eq!(Current::decode(current.encode().as_bytes()).unwrap(), current);
            prop_assert!(current.encode().len() <= MAX_BYTES);
        }

        #[test]
        fn any_bytes_are_a_line_or_refused(bytes: Vec<u8>) {
            prop_assert!(Current::decode(&bytes).is_err());
        }
    }

    #[test]
    fn no_flipped_bit_passes() {
        let bytes = Current { manifest: 5, store: Uid([0xab; 16]) }.encode().into_bytes();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Current::decode(&flipped).is_err(), "bit {bit}");
        }
    }
}
