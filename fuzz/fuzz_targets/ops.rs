//! Any bytes as operations on an engine in memory, crashes among them: it agrees with its model.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    waxseal_lab::fuzz::ops(data);
});
