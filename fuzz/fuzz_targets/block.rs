//! Any bytes as the body of a data block: its entries, or what is damaged.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    waxseal_lab::fuzz::fuzz_block(data);
});
