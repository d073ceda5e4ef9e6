//! Any bytes as a table file: its records, or what is damaged.
//! Sums are mended after each mutation.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| {
    waxseal_lab::fuzz::fuzz_table(data);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, _seed: u32| {
    let size = fuzzer_mutate(data, size, max_size);
    waxseal_fuzz::table(&mut data[..size]);
    size
});
