//! Any bytes as a manifest: the levels, or what is damaged.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    waxseal_lsm::version::fuzzing::manifest(data);
});
