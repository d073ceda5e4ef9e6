//! `waxseal`: inspect a store, change it, move data in and out, and take the tour.
//!
//! A verb gets its arguments from [`args`], opens the store through [`store`], and writes its result to standard
//! output; everything else is written to standard error. It returns an [`failure::Exit`] or a [`failure::Failure`],
//! which become the exit code.

#![expect(
    clippy::disallowed_methods,
    reason = "a tool reads and writes the user's files, looks at the clock and starts threads"
)]

mod args;
mod backup;
mod backup_place;
mod care;
mod changes;
mod closed_streams;
mod damage;
mod exchange;
mod expiry;
mod failure;
mod family_options;
mod files;
mod follow;
mod format;
mod fs_verbs;
mod input;
mod levels;
mod log;
mod manual;
mod node;
mod node_verbs;
mod options;
mod output;
mod payload;
mod progress;
mod records;
mod registry;
mod rows;
mod sql;
mod stats;
mod store;
mod table;
mod table_verbs;
mod text;
mod times;
mod tour;

use std::io::{self, Write};
use std::process::ExitCode;

use args::{Args, Verb};
use failure::{Exit, Failure};
use format::Format;
use output::{Output, or_seen_enough};

fn main() -> ExitCode {
    let args = match Args::from_command_line() {
        Ok(args) => args,
        Err(error) => return print_usage(&error).into(),
    };
    let mut output = Output::new(args.json, args.hex);
    let outcome = closed_streams::check_output().and_then(|()| run(&args, &mut output));
    let outcome = outcome.and_then(|exit| or_seen_enough(output.flush()).map(|()| exit));
    match outcome {
        Ok(exit) => exit.into(),
        // The reader of the output has closed the pipe before the verb ended.
        Err(failure) if failure.is_broken_pipe() => Exit::Ok.into(),
        Err(failure) => {
            eprintln!("waxseal: {failure}");
            let _ = output.failure(&failure);
            failure.exit().into()
        }
    }
}

/// Prints a wrong usage on standard error, or the help or version that the user asked for on standard output.
fn print_usage(usage: &clap::Error) -> Exit {
    let printed = usage.print().and_then(|()| io::stdout().flush());
    if usage.use_stderr() {
        return Exit::Usage;
    }
    let printed = printed.map_err(|error| Failure::io("standard output", error));
    match closed_streams::check_output().and_then(|()| or_seen_enough(printed)) {
        Ok(()) => Exit::Ok,
        Err(failure) => {
            eprintln!("waxseal: {failure}");
            failure.exit()
        }
    }
}

fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Put { key, value, file, if_absent, expiry } => {
            records::put(args, key, (value.as_deref(), file.as_deref()), *if_absent, expiry, output)
        }
        Verb::Get { key } => records::get(args, key, output),
        Verb::Del { key } => records::del(args, key, output),
        Verb::DeleteRange(range) => records::delete_range(args, range, output),
        Verb::Clear { families } => records::clear(args, families, output),
        Verb::CompareAndSet { key, old, new } => records::compare_and_set(args, key, old, new.as_deref(), output),
        Verb::Pop { last } => records::pop(args, *last, output),
        Verb::Add { key, number } => records::add(args, key, *number, output),
        Verb::Merge { key, operands, create } => records::merge(args, key, operands, create.as_ref(), output),
        Verb::Scan(scan) => records::scan(args, scan, output),
        Verb::Load(load) => match args::load_format(&load.src, load.format)? {
            Format::Dir => files::load(args, load, output),
            format => rows::load(args, load, format, output),
        },
        Verb::Dump { dest, format } => match args::dump_format(dest, *format) {
            Format::Dir => files::dump(args, dest, output),
            format => rows::dump(args, dest, format, output),
        },
        Verb::Stats { all, rows } => stats::stats(args, *all, *rows, output),
        Verb::Families { all, rows } => stats::families(args, *all, *rows, output),
        Verb::Options { changes } => family_options::options(args, changes, output),
        Verb::Levels => levels::levels(args, output),
        Verb::Compact { files, with } => levels::compact(args, files, with, output),
        Verb::Checkpoint { dest } => levels::checkpoint(args, dest, output),
        Verb::Upgrade { level } => levels::upgrade(args, *level, output),
        Verb::Backup { dest, rate, keep } => backup::backup(args, dest, *rate, *keep, output),
        Verb::Backups { dir, verify, keep } => backup::backups(dir, *verify, *keep, output),
        Verb::Restore { backup, id, rate } => backup::restore(args, backup, *id, *rate, output),
        Verb::Changes { since, cursor, follow, limit } => {
            let from = changes::From { since: since.as_deref(), cursor: cursor.as_deref() };
            changes::changes(args, from, *follow, *limit, output)
        }
        Verb::Follow(options) => follow::follow(options, output),
        Verb::Cursor { add, advance, remove, to } => {
            let what =
                changes::CursorChange::of((add.as_deref(), advance.as_deref(), remove.as_deref()), to.as_deref());
            changes::cursor(args, what, output)
        }
        Verb::Verify => care::verify(args, output),
        Verb::Scrub(scrub) => care::scrub(args, scrub, output),
        Verb::Repair { accept_loss } => care::repair(args, *accept_loss, output),
        Verb::Salvage { dest, accept_loss, stores } => care::salvage(args, dest, *accept_loss, stores, output),
        Verb::Digest(span) => care::digest(args, span, output),
        Verb::Export(export) => exchange::export(args, export, output),
        Verb::Import { src } => exchange::import(args, src, output),
        Verb::Ingest { files, moves } => exchange::ingest(args, files, *moves, output),
        Verb::Register(register) => registry::register(args, register, output),
        Verb::Unregister(pair) => registry::unregister(args, pair, output),
        Verb::Registrations => registry::registrations(args, output),
        Verb::Log(log) => log::log(args, log, output),
        Verb::Provenance { key } => registry::provenance(args, key, output),
        Verb::Explain { key } => registry::explain(args, key, output),
        Verb::Lineage { file } => registry::lineage(args, file, output),
        Verb::Fs(verb) => files::run(args, verb, output),
        Verb::Sql { query, keyspace, memory_mib } => sql::sql(args, query, keyspace.as_deref(), *memory_mib, output),
        Verb::Table(verb) => table::run(args, verb, output),
        Verb::Node(verb) => node::run(args, verb, output),
        Verb::Mount(mount) => files::mount(args, mount, output),
        Verb::Serve(serve) => files::serve(args, serve, output),
        Verb::Tour(options) => tour::run(options, output),
        Verb::Completions { shell } => manual::completions(*shell, output),
        Verb::Man { dest } => manual::man(dest, output),
        Verb::TourWriter { seed } => tour::write_until_killed(store::dir(args)?, *seed),
    }
}
