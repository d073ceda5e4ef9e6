//! Random orders that depend on a seed alone.

/// Puts items into the order of a seed: the shuffle of Fisher and Yates with numbers of SplitMix64.
pub(crate) fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed;
    for at in (1..items.len()).rev() {
        let other = (u128::from(next(&mut state)) * (at as u128 + 1)) >> 64;
        items.swap(at, other as usize);
    }
}

/// Returns the next number of SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_depends_on_the_seed_alone() {
        let order = |seed| {
            let mut items: Vec<u32> = (0..10).collect();
            shuffle(&mut items, seed);
            items
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
        assert_eq!(order(2014), ORDER_OF_2014);
        let mut sorted = order(9);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10).collect::<Vec<_>>());
    }

    const ORDER_OF_2014: [u32; 10] = [6, 9, 4, 2, 1, 3, 8, 5, 0, 7];
}
