//! Whose turn it is to be looked at, where one in so many is: counted by thread, from one read to the next, so that short reads have their share
//! as long ones do.

use std::cell::Cell;

use crate::checksum::mix;

/// True once in so many calls of this thread.
pub(crate) fn is_turn(of: u32) -> bool {
    thread_local! {
        static CALLS: Cell<u32> = const { Cell::new(0) };
    }
    let turn = |calls: &Cell<u32>| {
        let number = calls.get() + 1;
        calls.set(if number >= of { 0 } else { number });
        number >= of
    };
    CALLS.try_with(turn).unwrap_or(true) // a thread that is ending counts no more
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
        assert_eq!((0..1_000).filter(|_| is_turn(10)).count(), 100);
    }
}
