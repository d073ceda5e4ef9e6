//! Experiments that open several stores in one process run with room for all their threads in the allocator.
//!
//! glibc gives a process eight arenas a core, 16 on two cores; threads beyond that share one and wait for its lock, also for that of the
//! thread that is measured. Five stores have more threads than that, so the last of them would look slower than the first. A
//! program cannot change it once it runs: it starts itself again with the variable set, and says so. Other allocators ignore it.

use super::Experiment;
use crate::Outcome;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What glibc reads when a process starts.
const VARIABLE: &str = "MALLOC_ARENA_MAX";

/// More than the threads of all stores of an experiment.
const ARENAS: &str = "128";

/// Starts this program again with the same arguments and room for the experiment's threads, unless somebody has already said how much
/// there is. Answers only where that is so, or is not needed, or fails.
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

/// Whether it has several stores open at once whose times are compared.
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
