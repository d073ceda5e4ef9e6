//! Whose turn it is to be looked at, where one in so many is: counted by thread, from one read to the next, so that short reads have their share
//! as long ones do.

use std::cell::Cell;

use crate::checksum::mix;

/// True for one in so many calls of this thread. Which ones those are is drawn by their number, so that readers who call in turn, each with a
/// rate of his own, take none from each other.
#[inline]
pub(crate) fn is_turn(of: u32) -> bool {
    thread_local! {
        static CALLS: Cell<u64> = const { Cell::new(0) };
    }
    let turn = |calls: &Cell<u64>| has_turn(calls.replace(calls.get().wrapping_add(1)), of);
    CALLS.try_with(turn).unwrap_or(true) // a thread that is ending counts no more
}

/// True if a call with this number is among one in so many; 0 and 1 are all.
#[inline]
fn has_turn(number: u64, of: u32) -> bool {
    ((mix(number) >> 32) * u64::from(of)) >> 32 == 0
}

/// Where a cursor that looks at one record in so many begins: that one is the first, or the second, up to the last of so many. 0 if it looks at none.
pub(crate) fn first_turn(every: u32) -> u32 {
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
        (0..6_400).for_each(|_| first[first_turn(64) as usize - 1] += 1);
        assert!(first.iter().all(|count| (50..200).contains(count)), "{first:?}");
        assert_eq!([first_turn(0), first_turn(1)], [0, 1]);
        assert!((0..1_000).all(|_| is_turn(0) && is_turn(1)));
    }

    /// Within a third of one in so many.
    fn is_share(found: u64, calls: u64, of: u32) -> bool {
        let share = calls / u64::from(of);
        (share - share / 3..=share + share / 3).contains(&found)
    }

    #[test]
    fn each_reader_has_his_share_whoever_calls_between() {
        const CALLS: u64 = 1_000_000;
        // One calls once in so many times, the other at all others.
        for (once_in, rare, often) in [(2, 64, 64), (2, 64, 1000), (2, 1000, 64), (64, 64, 64), (100, 64, 1000)] {
            let (rarely, mostly): (Vec<u64>, Vec<u64>) = (0..CALLS).partition(|number| number.is_multiple_of(once_in));
            for (numbers, of) in [(rarely, rare), (mostly, often)] {
                let found = numbers.iter().filter(|number| has_turn(**number, of)).count() as u64;
                assert!(is_share(found, numbers.len() as u64, of), "{found} of {}, one in {of}", numbers.len());
            }
        }
    }

    #[test]
    fn a_thread_counts_its_calls() {
        let mut found = [0, 0];
        for _ in 0..500_000 {
            found[0] += u64::from(is_turn(64));
            found[1] += u64::from(is_turn(1000));
        }
        assert!(is_share(found[0], 500_000, 64) && is_share(found[1], 500_000, 1000), "{found:?}");
    }
}
