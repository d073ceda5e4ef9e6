//! `approximate_size`: bounds past the last key of a table once left out its index and filter, and of its large values
//! as much. Of ten values of 1 MB half was missing.

use std::ops::Bound::{Excluded, Included, Unbounded};

use waxseal::{Builder, CfOptions, Result};

const COUNT: usize = 10;
const BYTES: u64 = 100_000;

fn key(n: usize) -> Vec<u8> {
    format!("key-{n:03}").into_bytes()
}

#[test]
fn sizes_of_ranges_are_those_of_their_values_and_add_up() -> Result<()> {
    let db = Builder::in_memory().open()?;
    for large_value_bytes in [4096, 0] {
        let options = CfOptions { large_value_bytes, ..CfOptions::default() };
        let cf = db.create_column_family(&format!("from {large_value_bytes}"), options)?;
        for n in 0..COUNT {
            let value: Vec<u8> = (0..BYTES).map(|at| (at * at + n as u64) as u8 ^ (at >> 7) as u8).collect();
            cf.put(key(n), &value)?;
        }
        db.flush()?;
        let all = cf.approximate_size(..)?;
        assert!(all > BYTES, "{all}");
        for to in [Excluded(b"z".to_vec()), Included(b"key-999".to_vec()), Included(key(COUNT - 1))] {
            for from in [Unbounded, Included(key(0)), Excluded(b"a".to_vec())] {
                assert_eq!(cf.approximate_size((from, to.clone()))?, all, "up to {to:?}, {large_value_bytes}");
            }
        }
        assert_eq!(cf.approximate_size((Excluded(key(COUNT - 1)), Unbounded))?, 0);
        assert_eq!(cf.approximate_size((Unbounded, Excluded(key(0))))?, 0);
        let each = all / COUNT as u64;
        let near = |bytes: u64, values: u64| {
            assert!(bytes.abs_diff(values * each) <= each / 5, "{bytes} for {values} values, {large_value_bytes}");
        };
        for middle in 1..COUNT {
            let before = cf.approximate_size((Unbounded, Excluded(key(middle))))?;
            near(before, middle as u64);
            assert_eq!(before + cf.approximate_size((Included(key(middle)), Unbounded))?, all);
            near(cf.approximate_size((Unbounded, Included(key(middle))))?, middle as u64 + 1);
            near(cf.approximate_size((Included(key(middle)), Included(key(middle))))?, 1);
        }
    }
    db.close()
}
