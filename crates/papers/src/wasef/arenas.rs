//! Experiments with several stores in one process get enough allocator arenas for all their threads.
//!
//! glibc gives a process eight arenas per core, 16 on two cores. Additional threads share an arena and wait for its
//! lock, including the measured thread's. Five stores have more threads than that, so the last of them would appear
//! slower than the first. A running program cannot change the limit: it restarts itself with the variable set, and
//! prints that. Other allocators ignore it.

use super::Experiment;
use std::os::unix::process::CommandExt;
use std::process::Command;
use waxseal_bench::Outcome;

/// The variable that glibc reads when a process starts.
const VARIABLE: &str = "MALLOC_ARENA_MAX";

/// More arenas than an experiment's stores have threads.
const ARENAS: &str = "128";

/// Restarts this program with the same arguments and enough arenas for the experiment's threads, unless the variable is
/// set already. Returns only if no restart is needed, or if it fails.
pub(super) fn make_room(experiment: Experiment) -> Outcome<()> {
    let given = std::env::var(VARIABLE).ok();
    if let Some(given) = &given {
        println!("{VARIABLE}={given}: what threads allocate from");
        return Ok(());
    }
    if !opens_many(experiment) {
        return Ok(());
    }
    let failed = Command::new(std::env::current_exe()?).args(std::env::args_os().skip(1)).env(VARIABLE, ARENAS).exec();
    Err(failed.into())
}

/// Returns true if the experiment compares times of several stores that are open at once.
fn opens_many(experiment: Experiment) -> bool {
    matches!(experiment, Experiment::Throughput | Experiment::Latency | Experiment::Metasize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn only_what_compares_stores_that_are_open_together_is_started_again() {
        let many = Experiment::value_variants().iter().filter(|experiment| opens_many(**experiment)).count();
        assert_eq!(many, 3);
        assert!(!opens_many(Experiment::Crash));
    }
}
