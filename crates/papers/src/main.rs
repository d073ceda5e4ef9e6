//! The papers' experiments: one for each claim of MetaHive and Wasef, next to the paper's own result. `htrc`
//! compares the corpus store with that of Ruan and Plale.
//!
//! ```text
//! metahive    wasef       one experiment per claim about seals | about registry and log
//!      \       /
//!     node, content       stores on the bare engine | records of the paper's size
//!         |
//!    waxseal_bench        size, directory and result lines; alternating rounds; intervals; gates
//! ```
#![expect(
    clippy::disallowed_methods,
    reason = "a driver lives outside the engine: it has its own clock, threads and files"
)]

mod content;
mod htrc;
mod metahive;
mod node;
mod wasef;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;
use waxseal_bench::heap;

#[global_allocator]
static ALLOCATOR: heap::Watched = heap::Watched;

/// Tests the claims of the papers that Waxseal builds on, one by one.
#[derive(Parser)]
#[command(version, about)]
struct Line {
    #[command(subcommand)]
    paper: Paper,
}

#[derive(Subcommand)]
enum Paper {
    /// Tests the claims about seals, one by one, next to the paper's.
    Metahive(metahive::Line),
    /// Tests the claims about registry and log, one by one, next to the paper's.
    Wasef(wasef::Line),
    /// Compares the corpus store with the paper's, figure by figure.
    Htrc(htrc::Line),
    /// Reserved for the file store's paper; it has no experiment yet.
    #[command(hide = true)]
    Files(Absent),
}

/// Arguments of a paper without experiments.
#[derive(clap::Args)]
struct Absent {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<String>,
}

/// Ends the program with a usage error (exit code 2).
fn absent(paper: &str) -> ! {
    let text = format!("{paper} has no experiments yet; these papers have some: metahive, wasef, htrc");
    Line::command().error(ErrorKind::InvalidSubcommand, text).exit()
}

fn main() -> ExitCode {
    let done = match Line::parse().paper {
        Paper::Metahive(line) => metahive::metahive(&line),
        Paper::Wasef(line) => wasef::wasef(&line),
        Paper::Files(_) => absent("files"),
        Paper::Htrc(line) => htrc::htrc(&line),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(fault) => {
            eprintln!("waxseal-papers: {fault}");
            ExitCode::from(4)
        }
    }
}
