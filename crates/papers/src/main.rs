//! The papers' experiments: one for each claim of MetaHive, Wasef and the papers about files and books, next to the
//! paper's own result.
//!
//! ```text
//! metahive    wasef    files, htrc    one experiment per claim: seals | registry and log | files, books
//!      \       /            |
//!     node, content         |        stores on the bare engine | records of the paper's size
//!         |                /
//!    waxseal_bench                   size, directory and result lines; alternating rounds; intervals; gates
//! ```
#![expect(
    clippy::disallowed_methods,
    reason = "a driver lives outside the engine: it has its own clock, threads and files"
)]

mod content;
mod files;
mod htrc;
mod metahive;
mod node;
mod wasef;

use clap::{Parser, Subcommand};
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
    /// Tests the claims about files in a store, one by one, next to the papers'.
    Files(files::Line),
    /// Compares the corpus store with the paper's, figure by figure.
    Htrc(htrc::Line),
}

fn main() -> ExitCode {
    let done = match Line::parse().paper {
        Paper::Metahive(line) => metahive::metahive(&line),
        Paper::Wasef(line) => wasef::wasef(&line),
        Paper::Files(line) => files::files(&line),
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
