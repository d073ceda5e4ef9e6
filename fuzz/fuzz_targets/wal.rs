//! Any bytes as a log: recovery gives a prefix of commits, or says what is damaged.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    waxseal_lab::fuzz::log(data);
});
