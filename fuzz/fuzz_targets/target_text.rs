//! Any text as a target or as a position of the change feed, any bytes as a target's path: read and written back, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    waxseal_lab::fuzz::target_text(data);
});
