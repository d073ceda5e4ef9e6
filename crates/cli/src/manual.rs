//! completions, man: shell completions and manual pages of the tool.

use std::path::Path;

use clap_complete::Shell;

use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::output::Output;

pub(crate) fn completions(shell: Shell, output: &mut Output) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::grouped_command(), "waxseal", &mut script);
    output.write(&[&script])?;
    Ok(Exit::Ok)
}

pub(crate) fn man(dest: &Path, output: &mut Output) -> Result<Exit, Failure> {
    let failed = |error| Failure::io(dest.display(), error);
    std::fs::create_dir_all(dest).map_err(failed)?;
    clap_mangen::generate_to(Args::grouped_command().disable_help_subcommand(true), dest).map_err(failed)?;
    output.line(format!("wrote the manual pages to {}", dest.display()))?;
    Ok(Exit::Ok)
}
