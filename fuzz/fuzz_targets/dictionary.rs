//! Any bytes as a dictionary and a frame that is packed with it: a body of the length that is asked for, or what is
//! damaged.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    waxseal_lab::fuzz::fuzz_dictionary(data);
});
