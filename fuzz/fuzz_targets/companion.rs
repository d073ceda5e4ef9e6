//! Any bytes beside a record: taken apart or refused, and never a wrong record taken for a right one.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    waxseal_lab::fuzz::fuzz_companion(data);
});
