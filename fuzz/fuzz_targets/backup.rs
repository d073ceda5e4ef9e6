//! Any bytes as the description of a backup. Its check is mended after each mutation.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| {
    waxseal_lab::fuzz::backup(data);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, _seed: u32| {
    let size = fuzzer_mutate(data, size, max_size);
    waxseal_fuzz::backup(&mut data[..size]);
    size
});
