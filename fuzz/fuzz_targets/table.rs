//! Any bytes as a table file: its records, or what is damaged.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    waxseal_lsm::sst::fuzzing::table(data);
});
