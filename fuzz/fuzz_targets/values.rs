//! Any bytes as a pointer into a value file, as a value file, and as a set: decoded or refused.
//! Sums are mended after each mutation.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|data: &[u8]| {
    waxseal_lab::fuzz::pointer(data);
    waxseal_lab::fuzz::file(data);
    waxseal_lab::fuzz::frame(data);
    waxseal_lab::fuzz::set(data);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, _seed: u32| {
    let size = fuzzer_mutate(data, size, max_size);
    waxseal_fuzz::values(&mut data[..size]);
    size
});
