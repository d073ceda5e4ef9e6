//! Any bytes as the description of an export, and as records and rows in the paper's form.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    waxseal_lab::fuzz::fuzz_exchange(data);
});
