//! Known versions: a retaining version must exist, and below it the version before.

use std::collections::BTreeMap;

use waxseal_lsm::db::Db;
use waxseal_lsm::error::Result;
use waxseal_lsm::options::Verify;
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_testing::scribe::retains;

/// One version: seqno, and value (`None` for a tombstone).
type Version = (Seqno, Option<Vec<u8>>);

/// Versions of keys whose commits are known, oldest first.
#[derive(Default)]
pub struct History(BTreeMap<(String, Vec<u8>), Vec<Version>>);

impl History {
    pub fn add(&mut self, family: &str, key: &[u8], seqno: Seqno, value: Option<&[u8]>) {
        let versions = self.0.entry((family.to_owned(), key.to_vec())).or_default();
        versions.push((seqno, value.map(<[u8]>::to_vec)));
    }

    /// Forgets all versions of a family.
    pub fn forget(&mut self, family: &str) {
        self.0.retain(|(of, _), _| of != family);
    }

    /// Checks up to `most` retaining versions, each with the predecessor below it. `is_over` returns true for
    /// values that may be missing, because they expired without being retained.
    pub fn check(&self, db: &Db, most: usize, at: &str, is_over: &dyn Fn(&[u8]) -> bool) -> Result<u64> {
        let mut checked = 0;
        for ((name, key), versions) in &self.0 {
            let Some(family) = db.family(name) else { continue };
            for (n, (seqno, value)) in versions.iter().enumerate() {
                let kind = if value.is_some() { Kind::Put } else { Kind::Delete };
                if !retains(kind, key, value.as_deref().unwrap_or_default()) || checked as usize >= most {
                    continue;
                }
                checked += 1;
                let mut found = None;
                let mut see = |record: &Record<'_>| {
                    found = Some((record.seqno, (record.kind == Kind::Put).then(|| record.value.to_vec())));
                };
                db.get_before(&family, key, seqno + 1, Verify::Always, &mut see)?;
                let version = (*seqno, value.clone());
                assert_eq!(found.take(), Some(version), "{at}: version {seqno} of {key:?} in {name}, which retains");
                let Some((before, expected)) = n.checked_sub(1).map(|n| &versions[n]) else { continue };
                let mut see = |record: &Record<'_>| {
                    found = Some((record.seqno, (record.kind == Kind::Put).then(|| record.value.to_vec())));
                };
                db.get_before(&family, key, *seqno, Verify::Always, &mut see)?;
                match (&found, expected) {
                    (None, None) => {}
                    (None, Some(value)) if is_over(value) => {}
                    _ => assert_eq!(
                        found,
                        Some((*before, expected.clone())),
                        "{at}: before {seqno} of {key:?} in {name}"
                    ),
                }
            }
        }
        Ok(checked)
    }
}
