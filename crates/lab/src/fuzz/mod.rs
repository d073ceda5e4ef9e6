//! Drivers for fuzzers. Each takes arbitrary bytes, and panics if they show a bug.

mod companion;
mod exchange;
mod ops;
mod registry;
mod values;
mod wal;

pub use companion::fuzz_companion;
pub use exchange::{fuzz_exchange, fuzz_rows};
pub use ops::ops;
pub use registry::{log_key, target_text};
pub use values::{file, frame, pointer, set};
pub use wal::log;
pub use waxseal_lsm::backup::fuzzing::backup;
pub use waxseal_lsm::sst::fuzzing::{fuzz_block, fuzz_dictionary, fuzz_properties, fuzz_table};
pub use waxseal_lsm::version::fuzzing::manifest;
