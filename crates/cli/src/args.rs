//! The command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use waxseal::MergeOperator;
use waxseal::care::StoreUid;

use crate::expiry::ExpiryArgs;
use crate::failure::Failure;
use crate::format::{Format, by_extension};
use crate::fs_verbs::FsVerb;
use crate::node_verbs::NodeVerb;
use crate::table_verbs::TableVerb;

/// Look into a Waxseal store, change it, move data in and out.
///
/// Exit codes: 0 ok, 1 usage, 2 not found, 3 corruption, 4 I/O, 5 locked, 6 a check failed, 7 inconclusive.
#[derive(Parser, Debug)]
#[command(name = "waxseal", version, about, long_about)]
pub(crate) struct Args {
    /// The store's directory.
    #[arg(short = 'd', long = "dir", global = true, value_name = "DIR", env = "WAXSEAL_DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// The command line has `-d`. Otherwise the directory may come from the environment.
    #[arg(skip)]
    pub(crate) has_dir: bool,
    /// The column family. Default: `default`, and for files `files`.
    #[arg(long, global = true, value_name = "NAME")]
    cf: Option<String>,
    /// Print JSON: one object, or one a line for rows; bytes as {"text": ..} or {"hex": ..}.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Keys and values are hexadecimal, on the command line and in the output.
    #[arg(long, global = true)]
    pub(crate) hex: bool,
    /// Session name for this command: the log records it with registered operations. Default: anonymous.
    #[arg(id = "session", long = "as", global = true, value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The verbs as `--help` lists them.
const GROUPS: &[(&str, &[&str])] = &[
    ("Records", &["put", "get", "del", "delete-range", "clear", "compare-and-set", "add", "merge", "pop", "scan"]),
    ("In and out", &["load", "dump", "export", "import", "ingest"]),
    ("Files", &["fs", "mount", "serve"]),
    ("Tables", &["table", "sql", "node"]),
    ("Change feed", &["changes", "cursor", "follow"]),
    ("The store", &["stats", "families", "options", "levels", "compact", "checkpoint", "upgrade"]),
    ("Backups", &["backup", "backups", "restore"]),
    ("Integrity", &["verify", "scrub", "repair", "salvage", "digest"]),
    ("Registry and log", &["register", "unregister", "registrations", "log", "provenance", "explain", "lineage"]),
    ("This tool", &["tour", "completions", "man", "help"]),
];

impl Args {
    /// Returns the name of the family of records.
    pub(crate) fn cf(&self) -> &str {
        self.cf.as_deref().unwrap_or("default")
    }

    /// Returns the name of the family that the files are in.
    pub(crate) fn files_family(&self) -> &str {
        self.cf.as_deref().unwrap_or("files")
    }

    /// Returns the command line with its verbs in groups.
    pub(crate) fn grouped_command() -> clap::Command {
        let mut command = Args::command();
        command.build();
        let about = |name: &str| {
            let verb = command.find_subcommand(name);
            verb.and_then(clap::Command::get_about).map(ToString::to_string).unwrap_or_default()
        };
        let mut verbs = String::new();
        for (heading, names) in GROUPS {
            verbs += &format!("{heading}:\n");
            names.iter().for_each(|name| verbs += &format!("  {name:<15} {}\n", about(name)));
            verbs.push('\n');
        }
        let template = format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{verbs}Options:\n{{options}}\n");
        Args::command().help_template(template)
    }

    /// Reads the arguments of this process.
    pub(crate) fn from_command_line() -> Result<Args, clap::Error> {
        let matches = Args::grouped_command().try_get_matches()?;
        let has_dir = matches.value_source("dir") == Some(ValueSource::CommandLine);
        Ok(Args { has_dir, ..Args::from_arg_matches(&matches)? })
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// Set a key to a value.
    Put {
        key: OsString,
        /// The value; `-` reads it from standard input.
        #[arg(required_unless_present = "file", conflicts_with = "file")]
        value: Option<OsString>,
        /// The value is this file's content.
        #[arg(long, value_name = "F")]
        file: Option<PathBuf>,
        /// Only if the key does not exist; otherwise exit code 6.
        #[arg(long)]
        if_absent: bool,
        #[command(flatten)]
        expiry: ExpiryArgs,
    },
    /// Print the raw value of a key.
    Get { key: OsString },
    /// Delete a key; no error if it does not exist.
    Del { key: OsString },
    /// Delete all records of a range of keys, in one write; no error if there are none.
    DeleteRange(DeleteRange),
    /// Delete all records of one or several families, in one write.
    Clear {
        /// The names of the families.
        #[arg(required = true)]
        families: Vec<String>,
    },
    /// Set a key to NEW if its value is OLD, atomically; without NEW, delete it.
    ///
    /// Exit code 6 if the key has another value.
    CompareAndSet { key: OsString, old: OsString, new: Option<OsString> },
    /// Add a number to a counter, atomically, and print the sum.
    ///
    /// A counter is a signed integer of 64 bits, stored as 8 bytes in little-endian order. A missing key counts as 0. If
    /// only printing the sum fails, the exit code is 4, and the message says that the change was made.
    Add {
        key: OsString,
        #[arg(default_value_t = 1, allow_negative_numbers = true)]
        number: i64,
    },
    /// Merge operands into the value of a key, in one write that reads nothing.
    ///
    /// The family's merge operator makes the value when the key is read. An operand of `add_i64` and `add_u64` is a
    /// decimal number, one of `union` an element of the set, and any other one is taken as it is.
    Merge {
        key: OsString,
        #[arg(required = true, allow_negative_numbers = true)]
        operands: Vec<OsString>,
        /// Create the family with this operator if it does not exist: add_i64, add_u64, append (or append:SEPARATOR),
        /// min, max, bit_or, union.
        #[arg(long, value_name = "OPERATOR", value_parser = merge_operator)]
        create: Option<MergeOperator>,
    },
    /// Remove the first record in key order and print it; exit code 2 if there is none.
    ///
    /// A line as `scan` prints it. The record is removed after it was printed: if printing fails, it stays.
    Pop {
        /// The last record instead.
        #[arg(long)]
        last: bool,
    },
    /// Print records in key order.
    ///
    /// A line each: key, tab, value, escaped.
    Scan(Scan),
    /// Read a directory tree, or rows, into the store.
    ///
    /// dir: the tree below SRC becomes the tree of the store's files, as by `fs put`, in the family `files` unless --cf
    /// names another one. An entry replaces the one of its path; other entries stay. Pipes, sockets and devices are
    /// skipped. Exit code 6 if an entry could not be loaded; the others are. csv, tsv, jsonl: each row is a record (key:
    /// the field COL; value: the row as JSON).
    Load(Load),
    /// Write the store's files out as a directory tree, or a family as rows.
    ///
    /// dir: the tree of the files, as by `fs get`. Exit code 3 if a file is damaged, 6 if an entry could not be written
    /// otherwise; the others are written.
    Dump {
        /// An empty or new directory, or a new file; `-` writes rows to standard output.
        dest: PathBuf,
        /// Default: by the extension of DEST, else a directory tree.
        #[arg(long)]
        format: Option<Format>,
    },
    /// Print the store's families, levels, log and damage as a table.
    Stats {
        /// Include the store's own families. Default: only those with damage.
        #[arg(long)]
        all: bool,
        /// Count the rows of each family, as `scan` does: reads every key.
        #[arg(long)]
        rows: bool,
    },
    /// Print the names of the column families, a line each.
    Families {
        /// Include the store's own families.
        #[arg(long)]
        all: bool,
        /// Count the rows of each family, as `scan` does: reads every key.
        #[arg(long)]
        rows: bool,
    },
    /// Print the options of the family as the store records them, a line each: name, tab, value.
    ///
    /// A value of the verification levels holds for one open only: they are not recorded.
    Options {
        /// Change an option and record it: `--set level0_tables=8`. May be given more than once.
        #[arg(long = "set", value_name = "NAME=VALUE")]
        changes: Vec<String>,
    },
    /// Print the levels of the family.
    Levels,
    /// Compact the family until no deleted or overwritten record takes space.
    Compact {
        /// Compact the table with this number alone, and what it overlaps in the next level. May be repeated.
        #[arg(long = "file", value_name = "NUMBER")]
        files: Vec<u64>,
        /// Compact the tables that may have this item of a property alone, as `--file` does, and move values out of
        /// such blob files. May be repeated.
        #[arg(long = "with", value_name = "NAME=ITEM", value_parser = property_item)]
        with: Vec<(String, String)>,
    },
    /// Make a copy of the store in a new directory.
    Checkpoint { dest: PathBuf },
    /// Raise the format level of the store, for good; without LEVEL, print it.
    ///
    /// Older versions of Waxseal refuse a store of a level that they do not know. Level 2 adds range deletes, merge
    /// operators and ingested table files. A new store has the newest level.
    Upgrade { level: Option<u32> },
    /// Add a backup of the store to a directory of backups.
    ///
    /// Files that an earlier backup in the directory has are not copied again. A damaged file of the store is refused
    /// with exit code 3, and the backup is not made.
    Backup {
        /// A new directory, or one with backups of this store; or a URL (s3://, gs://, az://), in a build for them.
        dest: PathBuf,
        /// Copy at most this many bytes per second.
        #[arg(long, value_name = "BYTES")]
        rate: Option<u64>,
        /// Then remove all backups except the newest N.
        #[arg(long, value_name = "N")]
        keep: Option<usize>,
    },
    /// List the backups in a directory.
    ///
    /// Exit code 3 if one is damaged.
    Backups {
        /// The directory, or a URL.
        dir: PathBuf,
        /// Read every byte of every backup, and compare it with the recorded hashes.
        #[arg(long)]
        verify: bool,
        /// First remove all backups except the newest N.
        #[arg(long, value_name = "N")]
        keep: Option<usize>,
    },
    /// Restore a backup into the directory of -d, which must be new or empty.
    Restore {
        /// A directory of backups, or a URL.
        backup: PathBuf,
        /// The backup's number, as `backups` lists it. Default: the newest.
        #[arg(long, value_name = "N")]
        id: Option<u64>,
        /// Copy at most this many bytes per second.
        #[arg(long, value_name = "BYTES")]
        rate: Option<u64>,
    },
    /// Print the changes of the store in commit order, one a line, even while another process writes.
    ///
    /// The log is kept for cursors (`cursor --add`) and by the options of the process that writes. Exit code 6 if it does
    /// not reach back to the position, or if the position lies behind commits that the store has lost.
    Changes {
        /// Print what follows this position. Default: the oldest one.
        #[arg(long, value_name = "POSITION", conflicts_with = "cursor")]
        since: Option<String>,
        /// Print what follows the position of this cursor.
        #[arg(long, value_name = "NAME")]
        cursor: Option<String>,
        /// Go on printing changes as they become durable.
        #[arg(long)]
        follow: bool,
        /// Stop after this many changes.
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
    /// Keep a copy of a store, by its change feed, until the process is ended.
    ///
    /// A copy that does not exist is made first, by a checkpoint, and a cursor keeps the log of the source from then on.
    /// If another process has the source open for writing at that moment, it must be `waxseal serve` or `waxseal mount`,
    /// which then makes the checkpoint and moves the cursor. Each commit is applied in one step with its position. The copy
    /// can be read and served meanwhile; nothing else may change it. Exit code 6 if the log does not reach back to the
    /// copy's position: remove the copy to begin again.
    Follow(FollowArgs),
    /// List the cursors of the change feed, add, move or remove one. A cursor keeps the log for its consumer.
    Cursor {
        /// Add a cursor of this name at the last commit, unless there is one.
        #[arg(long, value_name = "NAME", group = "what")]
        add: Option<String>,
        /// Move this cursor to the position of --to.
        #[arg(long, value_name = "NAME", group = "what", requires = "to")]
        advance: Option<String>,
        /// Remove this cursor.
        #[arg(long, value_name = "NAME", group = "what")]
        remove: Option<String>,
        /// The position, as `changes` prints it.
        #[arg(long, value_name = "POSITION")]
        to: Option<String>,
    },
    /// Check every byte of the store, even while another process writes. Changes nothing.
    ///
    /// Exit code 3 if anything is damaged, 4 if a file could not be read.
    Verify,
    /// Check the store at a limited rate, in portions.
    Scrub(Scrub),
    /// Repair damage in place.
    ///
    /// A range of keys that cannot be repaired is marked as lost: reads there answer corruption, all other reads
    /// succeed. Exit code 3 if a lost range is left.
    Repair {
        /// Give up records that cannot be repaired, and remove the marks of lost ranges: reads then behave as if the
        /// lost records had never been written. Damaged acknowledged commits at the end of the log are set aside.
        #[arg(long)]
        accept_loss: bool,
    },
    /// Copy every readable record of a damaged store into a new store.
    ///
    /// The source may be too damaged to open; it is not changed. A range of keys that may have lost a newer version is
    /// marked as lost in the new store: reads there answer corruption.
    Salvage {
        /// A new or empty directory.
        dest: PathBuf,
        /// Do not mark lost ranges: reads of the new store return the records found, possibly older versions.
        #[arg(long)]
        accept_loss: bool,
        /// Take the files of this store, by the id that the refusal prints; repeat it for several. For a directory
        /// without a manifest that has files of several stores.
        #[arg(long = "store", value_name = "ID", value_parser = store_id)]
        stores: Vec<StoreUid>,
    },
    /// Print count and checksum of the family's records, or of a range.
    ///
    /// Both are equal for equal content in any store.
    Digest(Span),
    /// Export the family, or a range of keys, as table files.
    Export(ExportArgs),
    /// Import an export; its records replace those with the same keys.
    ///
    /// Creates the store if it does not exist.
    Import {
        /// The directory of the export.
        src: PathBuf,
    },
    /// Add table files to the family in one commit; their records replace those with the same keys.
    ///
    /// A table file is written with the library's table writer. Each file is verified first.
    Ingest {
        /// The files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Make the files part of the store instead of copying them.
        #[arg(long = "move")]
        moves: bool,
    },
    /// Log an operation on a target from now on.
    ///
    /// A target is a family (`users`), a key of one (`users.john`), the whole store (`cluster:`), .. In names, `\`
    /// escapes `.` `,` `:` `(` `)` `#` and itself, and `\xHH` is any byte. Everything after the first dot is the key,
    /// in which only `\` needs an escape.
    Register(Register),
    /// Stop logging an operation on a target; its events stay.
    ///
    /// Exit code 2 if it was not registered.
    Unregister(Pair),
    /// Print all registrations: target, operation, options.
    Registrations,
    /// Print events of the log.
    ///
    /// One line for each event in the order of time, newest last: time, client, operation, target, seqno, payload.
    Log(LogArgs),
    /// Print the registrations that cover a key, and its events.
    ///
    /// Exit code 2 if there are none.
    Provenance { key: OsString },
    /// Print value, seal, writer, events and file history of a key.
    Explain { key: OsString },
    /// Print the history of a table file.
    Lineage {
        /// The file's name in the store's directory, or its uid, which also finds a deleted file.
        file: String,
    },
    /// Keep files in a store: list, copy, change, check.
    #[command(subcommand)]
    Fs(FsVerb),
    /// Keep typed rows in tables: create, insert, select, import, export.
    #[command(subcommand)]
    Table(TableVerb),
    /// Query tables with SQL, at one snapshot. Only in builds with the feature `sql`.
    ///
    /// Tables are KEYSPACE.TABLE: `waxseal -d d sql 'SELECT author, count(*) FROM library.books GROUP BY author'`.
    /// Names are folded to lower case unless they are in double quotes. `EXPLAIN SELECT ..` prints the ranges that are
    /// read, `SHOW TABLES` the tables. Statements that change something are refused. Damage ends the query with exit
    /// code 3. `--json` prints rows as JSON lines.
    Sql {
        /// `-` reads it from standard input.
        query: String,
        /// The keyspace of tables that are named without one.
        #[arg(long)]
        keyspace: Option<String>,
        /// The memory of sorts, joins and aggregates, in MiB. A query that needs more fails.
        #[arg(long, value_name = "N", default_value_t = 1024)]
        memory_mib: usize,
    },
    /// Spread tables over several stores: add a node, print owners, move ranges away, check it.
    #[command(subcommand)]
    Node(NodeVerb),
    /// Mount the files of a store at a directory, until SIGTERM, Ctrl-C or `umount`.
    ///
    /// Changes of a file are committed in one step when it is closed or synced. While the store is mounted, the verbs of
    /// `fs` change it through a socket in its directory. With `--read-only` the mount works beside a process that writes,
    /// and shows its commits within two seconds; files that are open keep the content that they were opened with. A mount
    /// whose process was killed is replaced. Only in builds with the feature `mount`, on Linux.
    Mount(MountArgs),
    /// Serve the files of a store over HTTP, until SIGTERM or Ctrl-C.
    ///
    /// GET and HEAD read files, with ranges and entity tags, and list directories; PUT and DELETE change files if there is
    /// a token. `/metrics` has counters for Prometheus. While the server runs, the verbs of `fs` change the store through
    /// a socket in its directory. Only in builds with the feature `serve`.
    Serve(ServeArgs),
    /// Demonstrate the store: load files, change them, kill a writer, check every answer.
    Tour(TourArgs),
    /// Print a completion script for a shell.
    ///
    /// bash: `waxseal completions bash > /etc/bash_completion.d/waxseal`; zsh: a file `_waxseal` in a folder of
    /// `$fpath`; fish: `~/.config/fish/completions/waxseal.fish`.
    Completions { shell: Shell },
    /// Write the manual pages: `waxseal.1` and one for each verb.
    Man {
        /// A directory; created if it does not exist.
        dest: PathBuf,
    },
    /// The writer that the tour kills.
    #[command(hide = true)]
    TourWriter {
        #[arg(long)]
        seed: u64,
    },
}

fn merge_operator(text: &str) -> Result<MergeOperator, String> {
    Ok(match text {
        "add_i64" => MergeOperator::add_i64(),
        "add_u64" => MergeOperator::add_u64(),
        "append" => MergeOperator::append(""),
        "min" => MergeOperator::min(),
        "max" => MergeOperator::max(),
        "bit_or" => MergeOperator::bit_or(),
        "union" => MergeOperator::union(),
        _ => match text.strip_prefix("append:") {
            Some(separator) => MergeOperator::append(separator),
            None => return Err("one of add_i64, add_u64, append, append:SEPARATOR, min, max, bit_or, union".into()),
        },
    })
}

/// The store that is mounted, and how.
#[derive(clap::Args, Debug)]
pub(crate) struct MountArgs {
    /// The store's directory, or its URL.
    pub(crate) store: OsString,
    /// The directory that shows the files.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Change nothing, also beside a process that writes.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Let other users use the mount, too. The kernel checks the permissions of the files.
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Seconds without use after which an open directory, or an open file with `--read-only`, no longer keeps content
    /// that was removed. Reading it fails with ESTALE then, unless the content is the same.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(crate) idle: u64,
}

/// The store that is served, and how.
#[derive(clap::Args, Debug)]
pub(crate) struct ServeArgs {
    /// The store's directory, or its URL.
    pub(crate) store: OsString,
    /// Change nothing, also beside a process that writes.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// The address to listen at.
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDR")]
    pub(crate) listen: String,
    /// Accept changes from the network with the header `Authorization: Bearer TOKEN`. In the environment no other user
    /// sees it.
    #[arg(long, value_name = "TOKEN", env = "WAXSEAL_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
}

/// The source of a load, and its options.
#[derive(clap::Args, Debug)]
pub(crate) struct FollowArgs {
    /// The directory of the store that is followed.
    pub(crate) source: PathBuf,
    /// The directory of the copy.
    pub(crate) dest: PathBuf,
    /// The cursor of the source that keeps its log for this copy. Each copy needs one of its own.
    #[arg(long, value_name = "NAME", default_value = "follow")]
    pub(crate) cursor: String,
    /// End when the copy is current.
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Load {
    /// A directory or file; `-` reads rows from standard input.
    pub(crate) src: PathBuf,
    /// Default: a directory is a tree, else by the file's extension.
    #[arg(long)]
    pub(crate) format: Option<Format>,
    /// The field that becomes the key. Default for csv and tsv: the first column; jsonl without it expects the lines
    /// that `scan --json` prints.
    #[arg(long, value_name = "COL")]
    pub(crate) key: Option<String>,
    /// Load all rows in one commit: a bad row cancels the load. Rows are parsed into memory first. Not for trees.
    #[arg(long)]
    pub(crate) atomic: bool,
    /// Load all rows in one commit, straight into tables: the fastest way, in bounded memory. A bad row cancels the load.
    /// Registered keys log no events. Not for trees.
    #[arg(long, conflicts_with = "atomic")]
    pub(crate) bulk: bool,
    /// Report and count rows that cannot be loaded, and load the others. Default: stop at the first one. A row above
    /// 256 MiB ends the load in any case. Not for trees.
    #[arg(long)]
    pub(crate) skip_bad: bool,
    #[command(flatten)]
    pub(crate) expiry: ExpiryArgs,
}

/// A range of keys.
#[derive(clap::Args, Debug)]
pub(crate) struct Span {
    /// The first key.
    #[arg(long, value_name = "K")]
    pub(crate) from: Option<OsString>,
    /// The end of the range, exclusive.
    #[arg(long, value_name = "K")]
    pub(crate) to: Option<OsString>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct ExportArgs {
    /// A new directory.
    pub(crate) dest: PathBuf,
    #[command(flatten)]
    pub(crate) span: Span,
    /// Metadata to export with the records.
    #[arg(long, default_value = "labels", value_name = "WHAT")]
    pub(crate) policy: Leaves,
    /// Export the entries of this provider too; may be repeated. Only with the policies `labels` and `seals`.
    #[arg(long, value_name = "ID")]
    pub(crate) provider: Vec<u16>,
    /// All versions and tombstones that still exist.
    #[arg(long)]
    pub(crate) all_versions: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leaves {
    /// Seals, expiry times and labels
    Labels,
    /// Seals and expiry times
    Seals,
    /// No metadata, as in the MetaHive paper; refused, as every policy without seals, if a record expires
    #[value(alias = "nothing")]
    Strip,
    /// The paper's checksums, in a table of their own that masks nothing
    PaperSafe,
    /// The paper's checksums as it writes them; refused if a key ends in 01
    PaperLiteral,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Scrub {
    /// Read at most this many bytes per second.
    #[arg(long, value_name = "BYTES")]
    pub(crate) rate: Option<u64>,
    /// Stop after about this many bytes, and print a token for --resume.
    #[arg(long, value_name = "BYTES")]
    pub(crate) most: Option<u64>,
    /// Continue where an earlier scrub stopped.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) resume: Option<String>,
    /// Repair the damage found, as `repair` does.
    #[arg(long)]
    pub(crate) repair: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Scan {
    #[command(flatten)]
    pub(crate) span: Span,
    /// Only keys with this prefix.
    #[arg(long, value_name = "P", conflicts_with_all = ["from", "to"])]
    pub(crate) prefix: Option<OsString>,
    /// From the last key to the first.
    #[arg(long)]
    pub(crate) reverse: bool,
    /// At most this many records.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Print only the keys.
    #[arg(long)]
    pub(crate) keys_only: bool,
}

#[derive(clap::Args, Debug)]
#[group(required = true, multiple = true)]
pub(crate) struct DeleteRange {
    /// The first key.
    #[arg(long, value_name = "K")]
    pub(crate) from: Option<OsString>,
    /// The end of the range, exclusive.
    #[arg(long, value_name = "K")]
    pub(crate) to: Option<OsString>,
    /// All keys with this prefix.
    #[arg(long, value_name = "P", conflicts_with_all = ["from", "to"])]
    pub(crate) prefix: Option<OsString>,
    /// All keys of the family.
    #[arg(long, conflicts_with_all = ["from", "to", "prefix"])]
    pub(crate) all: bool,
}

/// A target and an operation.
#[derive(clap::Args, Debug)]
pub(crate) struct Pair {
    /// The target of the operation.
    pub(crate) target: String,
    /// The operation: Row.Write (any put), Row.Delete, Table.Drop, Registry.Add, Registry.Delete, Session.Open, .. ;
    /// `*` is any.
    pub(crate) operation: String,
}

/// A pair to register, with options; unset ones get the pair's defaults.
#[derive(clap::Args, Debug)]
pub(crate) struct Register {
    #[command(flatten)]
    pub(crate) pair: Pair,
    /// Only the target itself. Default where the operation happens to the target itself.
    #[arg(long, conflicts_with = "subtree")]
    pub(crate) exact: bool,
    /// The target and everything below it. Default where the operation never happens to the target itself.
    #[arg(long)]
    pub(crate) subtree: bool,
    /// When events are written. Default: those of rows deferred, others sync.
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<ModeArg>,
    /// The values that events keep. Default: none.
    #[arg(long, value_name = "WHICH")]
    pub(crate) values: Option<ValuesArg>,
    /// Keep the version that each logged write replaces, in its family.
    #[arg(long)]
    pub(crate) history: bool,
    /// Events may be dropped after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) retention: Option<u64>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ModeArg {
    /// In the same commit
    Sync,
    /// A little later; a crash may lose some
    Async,
    /// When the operation's records are flushed; until then events are read from the memtable
    Deferred,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ValuesArg {
    /// Nothing
    None,
    /// The new one
    New,
    /// The old and the new one; with --history or --mode sync
    OldNew,
    /// Their seals
    Hash,
}

/// A selection of events.
#[derive(clap::Args, Debug)]
pub(crate) struct LogArgs {
    /// The target of the events. Default: all except the engine.
    pub(crate) target: Option<String>,
    /// The operation. Default: any.
    pub(crate) operation: Option<String>,
    /// The earliest time: 2026-01-31, 2026-01-31T12:00:00Z, or microseconds since 1970.
    #[arg(long, value_name = "T")]
    pub(crate) from: Option<String>,
    /// The latest time.
    #[arg(long, value_name = "T")]
    pub(crate) to: Option<String>,
    /// The session name; `-` is anonymous.
    #[arg(long, value_name = "C")]
    pub(crate) client: Option<String>,
    /// Only the latest event of the target itself. Exit code 2 if there is none.
    #[arg(long, conflicts_with_all = ["below", "limit", "follow", "engine"])]
    pub(crate) latest: bool,
    /// Include events of everything below the target. Default without a TARGET, and where the operation never happens
    /// to the target itself.
    #[arg(long)]
    pub(crate) below: bool,
    /// Only the newest N events.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Events of the engine (opened, flushed, compacted, repaired, ..) instead of those of users.
    #[arg(long, conflicts_with = "target")]
    pub(crate) engine: bool,
    /// Continue to print events as they happen, until interrupted.
    #[arg(long)]
    pub(crate) follow: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct TourArgs {
    /// The tree to store. Default: the cargo workspace around the current directory and Cargo's local package cache,
    /// up to 512 MB.
    pub(crate) path: Option<PathBuf>,
    /// The directory for the store, new or empty. Default: below the system's temporary directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
    /// Keep the store at the end.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Seed for the choice of changes and for the moment when the writer is killed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Store at most this many bytes of files.
    #[arg(long, value_name = "BYTES")]
    pub(crate) limit: Option<u64>,
}

/// Returns the format that `load` reads.
pub(crate) fn load_format(src: &Path, said: Option<Format>) -> Result<Format, Failure> {
    match said {
        Some(format) => Ok(format),
        None if src.is_dir() => Ok(Format::Dir),
        None => by_extension(src)
            .ok_or_else(|| Failure::usage(format!("cannot tell the format of {}; say --format", src.display()))),
    }
}

/// Returns the format that `dump` writes.
pub(crate) fn dump_format(dest: &Path, said: Option<Format>) -> Format {
    said.or_else(|| by_extension(dest)).unwrap_or(if dest == "-" { Format::Jsonl } else { Format::Dir })
}

/// A store's id, as messages print it.
fn store_id(digits: &str) -> Result<StoreUid, &'static str> {
    StoreUid::parse(digits).ok_or("a store's id has 32 hexadecimal digits")
}

/// An item of a property, as in `NAME=ITEM`.
fn property_item(text: &str) -> Result<(String, String), &'static str> {
    let (name, item) = text.split_once('=').ok_or("a property and its item are given as NAME=ITEM")?;
    Ok((name.to_owned(), item.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::grouped_command().debug_assert();
    }

    #[test]
    fn help_lists_every_verb_once() {
        let mut command = Args::command();
        command.build();
        let visible = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(clap::Command::get_name);
        let mut visible: Vec<&str> = visible.collect();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        visible.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, visible);
    }
}
