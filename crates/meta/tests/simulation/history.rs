//! Known versions: a retaining version must exist, and below it the version before.

use std::collections::BTreeMap;

use waxseal_lsm::db::Db;
use waxseal_lsm::error::Result;
use waxseal_lsm::options::Verify;
use waxseal_lsm::record::{Kind, Record, Seqno};
use waxseal_testing::scribe::retains;

use crate::oracle::is_in_range;

/// One version of a key.
struct Version {
    seqno: Seqno,
    /// `None` for a tombstone.
    value: Option<Vec<u8>>,
    /// It is a range delete, which hides the versions before it and is none itself.
    is_range: bool,
}

/// Versions of keys whose commits are known, oldest first.
#[derive(Default)]
pub struct History(BTreeMap<(String, Vec<u8>), Vec<Version>>);

impl History {
    pub fn add(&mut self, family: &str, key: &[u8], seqno: Seqno, value: Option<&[u8]>) {
        let versions = self.0.entry((family.to_owned(), key.to_vec())).or_default();
        versions.push(Version { seqno, value: value.map(<[u8]>::to_vec), is_range: false });
    }

    /// Adds a range delete to the known keys in its range.
    pub fn add_range(&mut self, family: &str, from: Option<&[u8]>, to: Option<&[u8]>, seqno: Seqno) {
        let inside = self.0.iter_mut().filter(|((name, key), _)| name == family && is_in_range(name, from, to, key));
        inside.for_each(|(_, versions)| versions.push(Version { seqno, value: None, is_range: true }));
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
            for (n, Version { seqno, value, is_range }) in versions.iter().enumerate() {
                let kind = if value.is_some() { Kind::Put } else { Kind::Delete };
                if *is_range || !retains(kind, key, value.as_deref().unwrap_or_default()) || checked as usize >= most {
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
                let Some(before) = n.checked_sub(1).map(|n| &versions[n]) else { continue };
                let mut see = |record: &Record<'_>| {
                    found = Some((record.seqno, (record.kind == Kind::Put).then(|| record.value.to_vec())));
                };
                db.get_before(&family, key, *seqno, Verify::Always, &mut see)?;
                match (&found, &before.value) {
                    (None, None) => {}
                    (None, Some(value)) if is_over(value) => {}
                    _ => assert_eq!(
                        found,
                        (!before.is_range).then(|| (before.seqno, before.value.clone())),
                        "{at}: before {seqno} of {key:?} in {name}"
                    ),
                }
            }
        }
        Ok(checked)
    }
}
