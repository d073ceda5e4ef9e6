//! Any bytes as a row of log and registry: read and written back as it was, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    waxseal_lab::fuzz::log_key(data);
});
