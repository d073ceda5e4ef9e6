//! A table with a filter made by a user's policy.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::checksum::hash_key;
use crate::policy::FilterPolicy;
use crate::seam::Plain;
use crate::sst::table::watch::NoWatch;

/// Its filter is the number of keys; the test sets its answers.
#[derive(Debug, Default)]
struct Policy {
    name: &'static str,
    denies: Mutex<Option<Vec<u8>>>,
    asked: AtomicUsize,
}

impl FilterPolicy for Policy {
    fn name(&self) -> &str {
        self.name
    }
    fn build(&self, keys: &[&[u8]]) -> Option<Vec<u8>> {
        Some(vec![keys.len() as u8])
    }
    fn may_contain(&self, filter: &[u8], key: &[u8]) -> bool {
        assert_eq!(filter, [200]);
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.denies.lock().unwrap().as_deref() != Some(key)
    }
}

fn policy(name: &'static str) -> Arc<Policy> {
    Arc::new(Policy { name, ..Policy::default() })
}

fn reopened(file: &Arc<Memory>, finished: &Finished, policy: Arc<Policy>) -> Arc<Table> {
    let seen_by = (expected(finished), Order::bytewise(), Some(policy as Arc<dyn FilterPolicy>));
    let cache = Arc::new(Cache::new(1 << 20));
    Table::open_watched("table".into(), file.clone(), seen_by, cache, Arc::new(Plain), Arc::new(NoWatch)).unwrap()
}

#[test]
fn a_policy_is_asked_of_its_own_filters_and_believed() {
    let records: Vec<Owned> = (0..200).map(|n| Owned::put(&numbered(2 * n), 7, b"v")).collect();
    let own = policy("own");
    let settings = WriterSettings { filter_policy: Some(own.clone()), ..settings() };
    let (file, finished) = written(&records, &settings);

    let table = reopened(&file, &finished, own.clone());
    assert_eq!(table.properties().filter.as_deref(), Some("policy.own"));
    assert!(got(&table, &numbered(10), 9).unwrap().is_some());
    assert!(got(&table, &numbered(11), 9).unwrap().is_none());
    assert_eq!(own.asked.load(Ordering::Relaxed), 2);
    table.verify(&Plain, &mut |_| Ok(())).unwrap();

    *own.denies.lock().unwrap() = Some(numbered(10));
    assert!(got(&table, &numbered(10), 9).unwrap().is_none());
    assert!(got(&table, &numbered(12), 9).unwrap().is_some());
    let error = table.verify(&Plain, &mut |_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("the filter denies a key of the table"), "{error}");
    assert!(table.check_block(0, &Plain).is_err());
}

#[test]
fn filters_of_another_policy_or_of_none_are_passed_over() {
    let records: Vec<Owned> = (0..200).map(|n| Owned::put(&numbered(2 * n), 7, b"v")).collect();
    let (own, other) = (policy("own"), policy("other"));
    let with_own = WriterSettings { filter_policy: Some(own), ..settings() };
    let (file, finished) = written(&records, &with_own);
    assert!(got(&reopened(&file, &finished, other.clone()), &numbered(10), 9).unwrap().is_some());
    let cache = Arc::new(Cache::new(1 << 20));
    assert!(got(&opened(file, &finished, &Order::bytewise(), &cache), &numbered(10), 9).unwrap().is_some());

    let (file, finished) = written(&records, &settings());
    let table = reopened(&file, &finished, other.clone());
    assert!(got(&table, &numbered(10), 9).unwrap().is_some());
    assert!(!table.may_contain(hash_key(&numbered(11))) || got(&table, &numbered(11), 9).unwrap().is_none());
    assert_eq!(other.asked.load(Ordering::Relaxed), 0);
}
