//! Splits an exported record's companions into exported ones and counts of the others.

use std::collections::BTreeMap;

use waxseal_lsm::codec::{Reader, put_bytes, put_varint};
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::record::companion;

use super::Policy;
use crate::annotations::STAMP;

/// Metadata and expired records that an export left in its store.
///
/// The counts cover the records of the export. Older versions and records outside of its ranges are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftBehind {
    /// Seals that were not exported. The paper's policies leave them behind too, and write rows instead.
    pub seals: u64,
    /// Stamps: session and time of a watched write. They never leave a store.
    pub stamps: u64,
    /// Entries that were not exported, by provider id. Providers without such an entry are absent.
    pub entries: BTreeMap<u16, u64>,
    /// Bytes of all companions that were not exported.
    pub bytes: u64,
    /// Values that had expired. With all versions a tombstone is exported in place of each.
    pub expired: u64,
}

impl LeftBehind {
    /// Returns the number of entries of all providers.
    pub fn entry_count(&self) -> u64 {
        self.entries.values().sum()
    }
}

/// Splits the companions of each record by a policy.
pub(super) struct Outlet<'a> {
    /// Providers whose entries are exported with the seal; `None` exports no companion.
    allow: Option<&'a [u16]>,
    pub(super) left: LeftBehind,
}

impl<'a> Outlet<'a> {
    pub(super) fn new(policy: &'a Policy) -> Outlet<'a> {
        let allow = match policy {
            Policy::Companion { allow } => Some(&allow[..]),
            Policy::Strip | Policy::PaperSafe | Policy::PaperLiteral => None,
        };
        Outlet { allow, left: LeftBehind::default() }
    }

    /// Appends the exported companions to `out`, and counts the others. Errors: `Corruption` for companions that cannot
    /// be decoded.
    pub(super) fn pass(&mut self, companions: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let before = out.len();
        let mut reader = Reader::new(companions);
        while !reader.is_empty() {
            let kind = reader.u8()?;
            match kind {
                companion::WORD8 => {
                    let word = reader.bytes(8)?;
                    if self.allow.is_some() {
                        out.push(kind);
                        out.extend_from_slice(word);
                    } else {
                        self.left.seals += 1;
                    }
                }
                companion::WORD4 => drop(reader.bytes(4)?),
                companion::LIST => self.pass_entries(reader.length_prefixed()?, out)?,
                _ => {
                    reader.length_prefixed()?;
                    self.left.stamps += u64::from(kind == STAMP);
                }
            }
        }
        self.left.bytes += (companions.len() - (out.len() - before)) as u64;
        Ok(())
    }

    fn pass_entries(&mut self, list: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let mut entries = Reader::new(list);
        let mut kept = Vec::new();
        while !entries.is_empty() {
            let (provider, form, bytes) = (entries.varint()?, entries.varint()?, entries.length_prefixed()?);
            let id = u16::try_from(provider).map_err(|_| Error::structural("a provider id above 65,535"))?;
            // The seal covers an entry with this bit, and would fail its check at the receiver without it.
            let is_sealed = form & 1 == 1;
            if self.allow.is_some_and(|allow| is_sealed || allow.contains(&id)) {
                put_varint(&mut kept, provider);
                put_varint(&mut kept, form);
                put_bytes(&mut kept, bytes);
            } else {
                *self.left.entries.entry(id).or_default() += 1;
            }
        }
        if !kept.is_empty() {
            out.push(companion::LIST);
            put_bytes(out, &kept);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn divide(policy: &Policy, companions: &[u8]) -> (Vec<u8>, LeftBehind) {
        let (mut outlet, mut out) = (Outlet::new(policy), Vec::new());
        outlet.pass(companions, &mut out).unwrap();
        (out, outlet.left)
    }

    /// A seal, three entries (providers 1, 2 and 5; the first one sealed), a mark, a 4-byte word and a stamp.
    fn companions() -> Vec<u8> {
        let mut list = Vec::new();
        for (provider, form, bytes) in [(1u64, 1, b"ttl"), (2, 0, b"who"), (5, 0, b"lab")] {
            put_varint(&mut list, provider);
            put_varint(&mut list, form);
            put_bytes(&mut list, bytes);
        }
        let mut companions = vec![companion::WORD8, 1, 2, 3, 4, 5, 6, 7, 8, companion::LIST];
        put_bytes(&mut companions, &list);
        companions.extend_from_slice(&[0x0F, 1, 1, companion::WORD4, 9, 9, 9, 9, STAMP, 2, 7, 7]);
        companions
    }

    #[test]
    fn allowed_entries_leave_and_the_others_are_counted() {
        let companions = companions();
        let allowing = |allow: &[u16]| divide(&Policy::Companion { allow: allow.to_vec() }, &companions);
        let (out, left) = allowing(&[1, 2, 5]);
        assert_eq!(out, companions[..companions.len() - 12]);
        assert_eq!(left, LeftBehind { stamps: 1, bytes: 12, ..LeftBehind::default() });
        let (out, left) = allowing(&[]);
        assert_eq!(out, [&companions[..10], &[6, 1, 1, 3], b"ttl"].concat());
        assert_eq!(left.entries, BTreeMap::from([(2, 1), (5, 1)]));
        assert_eq!((left.seals, left.stamps, left.bytes), (0, 1, 24));
    }

    #[test]
    fn nothing_leaves_without_seals() {
        let companions = companions();
        for policy in [Policy::Strip, Policy::PaperSafe, Policy::PaperLiteral] {
            let (out, left) = divide(&policy, &companions);
            assert_eq!(out, b"");
            assert_eq!((left.seals, left.stamps, left.entry_count(), left.bytes), (1, 1, 3, companions.len() as u64));
        }
    }

    proptest! {
        #[test]
        fn any_companions_are_divided_or_refused(bytes in vec(any::<u8>(), 0..60), allow: Vec<u16>) {
            for policy in [Policy::Companion { allow }, Policy::Strip] {
                let (mut outlet, mut out) = (Outlet::new(&policy), Vec::new());
                if outlet.pass(&bytes, &mut out).is_ok() {
                    prop_assert!(outlet.left.bytes <= bytes.len() as u64);
                }
            }
        }
    }
}
