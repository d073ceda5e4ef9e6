//! Cached large values: found only by their pointer, within the budget, and freed with their last user.

use super::*;
use crate::options::KIB;
use crate::pointer::Pointer;

fn pointer(number: u64) -> Pointer {
    Pointer { uid: UID, offset: 64 + number * 1000, value_hash: mix(number), ..Pointer::default() }
}

fn kept(values: &LargeValues, number: u64, length: usize) -> Arc<LargeValue> {
    values.keep(LargeValue::new(pointer(number), vec![number as u8; length], length))
}

#[test]
fn a_value_is_found_by_the_whole_of_its_pointer() {
    let cache = Arc::new(Cache::new(1 << 20));
    let values = LargeValues::of(cache.clone());
    assert!(values.find(&pointer(1)).is_none());
    let value = values.keep(LargeValue::new(pointer(1), b"value and more".to_vec(), 5));
    assert_eq!(value.value(), b"value");
    assert!(Arc::ptr_eq(&value, &values.find(&pointer(1)).unwrap()));
    for other in [
        Pointer { uid: Uid(*b"another table..."), ..pointer(1) },
        Pointer { stored_len: 1, ..pointer(1) },
        Pointer { raw_len: 1, ..pointer(1) },
        Pointer { crc: 1, ..pointer(1) },
        Pointer { codec: 1, ..pointer(1) },
    ] {
        assert!(values.find(&other).is_none());
    }
    // Other users of the same cache find the value too.
    let beside = LargeValues::of(cache.clone());
    kept(&beside, 2, 10);
    assert!(beside.find(&pointer(1)).is_some() && values.find(&pointer(2)).is_some());
    values.remove(&value);
    assert!(values.find(&pointer(1)).is_none() && values.find(&pointer(2)).is_some());
    assert_eq!(cache.metrics().blocks, 1);
    drop((values, beside));
    assert_eq!((cache.metrics().blocks, cache.metrics().used_bytes, cache.metrics().charged_bytes), (0, 0, 0));
}

#[test]
fn values_and_blocks_share_one_budget() {
    for (budget, total) in [(200 * KIB, usize::MAX), (usize::MAX, 200 * KIB), (0, usize::MAX)] {
        let cache = Arc::new(Cache::within(budget, total));
        let values = LargeValues::of(cache.clone());
        let (mut n, mut found) = (1u64, 0);
        for _ in 0..4000 {
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (number, length) = ((n >> 33) % 100, 100 + (n >> 40) as usize % 9000);
            match values.find(&pointer(number)) {
                Some(value) => {
                    found += 1;
                    assert!(value.value().iter().all(|byte| *byte == number as u8));
                }
                None => drop(kept(&values, number, length)),
            }
            assert!(cache.metrics().used_bytes <= 200 * KIB as u64);
        }
        assert_eq!(found > 100, budget.min(total) > 0, "{found}");
    }
}

#[test]
fn a_value_too_long_for_its_budget_is_not_kept() {
    let limit = |budget: usize| {
        let values = LargeValues::of(Arc::new(Cache::new(budget)));
        (0..=27).map(|bits| 1 << bits).take_while(|length| values.keeps(*length)).last().unwrap_or(0)
    };
    assert_eq!([0, 64 * KIB, 256 * KIB, 16 * 1024 * KIB].map(limit), [0, 16 * KIB, 64 * KIB, 64 * KIB]);
    assert_eq!([256, 1024].map(|mib| limit(mib * 1024 * KIB)), [512 * KIB, 2048 * KIB]);
}

#[test]
fn where_all_slots_are_taken_one_that_was_not_read_makes_way() {
    // The minimum number of slots, and room for many more values.
    let cache = Arc::new(Cache::new(20 * KIB));
    let values = LargeValues::of(cache.clone());
    for number in 0..1000 {
        kept(&values, number, 10);
        assert!(values.find(&pointer(0)).is_some(), "{number}");
    }
    let metrics = cache.metrics();
    assert_eq!((metrics.blocks, metrics.loads, metrics.refused), (8, 1000, 0));
    assert!(values.find(&pointer(999)).is_some() && metrics.used_bytes < 2000, "{metrics:?}");
}

#[test]
fn what_is_read_once_passes() {
    let values = LargeValues::of(Arc::new(Cache::new(1 << 20)));
    let asked: Vec<Pointer> = (0..10).map(|n| Pointer { raw_len: 10_000, ..pointer(n) }).collect();
    assert!(asked.iter().all(|pointer| !values.invites(pointer)));
    assert!(asked.iter().filter(|pointer| values.invites(pointer)).count() > 5, "all but those that fell on one trace");
    let too_long = Pointer { raw_len: 1 << 20, ..pointer(1) };
    assert!((0..3).all(|_| !values.invites(&too_long)));
}

/// All users of a cache share one array of fingerprints, charged to the cache, whose length is limited for every
/// budget.
#[test]
fn who_reads_large_values_shares_what_was_read_before() {
    let cache = Arc::new(Cache::new(64 << 20));
    let readers: Vec<_> = (0..20).map(|_| LargeValues::of(cache.clone())).collect();
    assert!(!readers[0].invites(&pointer(1)));
    assert!(readers.iter().all(|reader| reader.invites(&pointer(1))));
    assert_eq!(cache.metrics().charged_bytes, (64 << 20) / 4096 * 4);
    drop(readers);
    assert_eq!(cache.metrics().charged_bytes, 0);
    let boundless = Arc::new(Cache::new(usize::MAX));
    assert!(!LargeValues::of(boundless.clone()).invites(&pointer(1)));
}
