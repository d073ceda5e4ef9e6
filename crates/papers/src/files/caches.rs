//! The state of the caches before a measurement.

use clap::ValueEnum;
use waxseal_bench::Outcome;

/// The states.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Caches {
    /// All files were read before.
    Warm,
    /// The layout was closed, the kernel's caches were dropped, and the layout was opened again.
    Cold,
}

/// Writes dirty pages, then drops the kernel's page cache, inodes and names, of the whole machine.
pub(super) fn drop_all() -> Outcome<()> {
    const SWITCH: &str = "/proc/sys/vm/drop_caches";
    rustix::fs::sync();
    std::fs::write(SWITCH, "3").map_err(|error| {
        format!(
            "cannot drop the kernel's caches before a cold run ({SWITCH}: {error}): run as root, or with --caches warm"
        )
        .into()
    })
}
