//! Sampling of one in n reads, counted per thread across reads, so that short reads are sampled as often as long ones.

use std::cell::Cell;

use crate::checksum::mix;

/// Returns true for one in `of` calls of this thread. The choice is a hash of the call's number, so that alternating
/// readers with different rates do not suppress each other's samples.
#[inline]
pub(crate) fn is_sampled(of: u32) -> bool {
    thread_local! {
        static CALLS: Cell<u64> = const { Cell::new(0) };
    }
    let turn = |calls: &Cell<u64>| is_sampled_number(calls.replace(calls.get().wrapping_add(1)), of);
    CALLS.try_with(turn).unwrap_or(true) // a terminating thread no longer counts
}

/// Returns true if the call with this number is sampled at a rate of one in `of`; 0 and 1 sample all calls.
#[inline]
fn is_sampled_number(number: u64, of: u32) -> bool {
    ((mix(number) >> 32) * u64::from(of)) >> 32 == 0
}

/// Returns the number of the first record that a cursor samples, from 1 to `every`, if it samples one in `every`. 0 if
/// it samples none.
pub(crate) fn first_sample(every: u32) -> u32 {
    thread_local! {
        static CURSORS: Cell<u64> = const { Cell::new(0) };
    }
    if every < 2 {
        return every;
    }
    let number = CURSORS.try_with(|cursors| cursors.replace(cursors.get().wrapping_add(1))).unwrap_or_default();
    1 + ((mix(number) >> 32) % u64::from(every)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_its_turn_and_none_has_many() {
        let mut first = [0; 64];
        (0..6_400).for_each(|_| first[first_sample(64) as usize - 1] += 1);
        assert!(first.iter().all(|count| (50..200).contains(count)), "{first:?}");
        assert_eq!([first_sample(0), first_sample(1)], [0, 1]);
        assert!((0..1_000).all(|_| is_sampled(0) && is_sampled(1)));
    }

    /// Within a third of the expected number.
    fn is_share(found: u64, calls: u64, of: u32) -> bool {
        let share = calls / u64::from(of);
        (share - share / 3..=share + share / 3).contains(&found)
    }

    #[test]
    fn each_reader_has_his_share_whoever_calls_between() {
        const CALLS: u64 = 1_000_000;
        // One reader makes every `once_in`-th call, the other one all other calls.
        for (once_in, rare, often) in [(2, 64, 64), (2, 64, 1000), (2, 1000, 64), (64, 64, 64), (100, 64, 1000)] {
            let (rarely, mostly): (Vec<u64>, Vec<u64>) = (0..CALLS).partition(|number| number.is_multiple_of(once_in));
            for (numbers, of) in [(rarely, rare), (mostly, often)] {
                let found = numbers.iter().filter(|number| is_sampled_number(**number, of)).count() as u64;
                assert!(is_share(found, numbers.len() as u64, of), "{found} of {}, one in {of}", numbers.len());
            }
        }
    }

    #[test]
    fn a_thread_counts_its_calls() {
        let mut found = [0, 0];
        for _ in 0..500_000 {
            found[0] += u64::from(is_sampled(64));
            found[1] += u64::from(is_sampled(1000));
        }
        assert!(is_share(found[0], 500_000, 64) && is_share(found[1], 500_000, 1000), "{found:?}");
    }
}
