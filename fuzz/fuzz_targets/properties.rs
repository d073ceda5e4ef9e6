//! Any bytes as the properties of a table: they come back, or what is damaged.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    waxseal_lab::fuzz::fuzz_properties(data);
});
