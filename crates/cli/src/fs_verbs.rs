//! The verbs of `waxseal fs`, as the command line has them.

use std::ffi::OsString;

use clap::{Subcommand, ValueEnum};
use waxseal_files::FileKind;

/// A path is `waxseal://STORE/path`, or local. STORE is the first directory on the way that holds a store; `put`, `cp`,
/// `sync`, `mkdir` and `newfile` create it where none is. A build with the feature `remote` takes URLs of object stores,
/// too (s3://, gs://, az://, https://). `--cf` names the family of the files; default `files`.
#[derive(Subcommand, Debug)]
pub(crate) enum FsVerb {
    /// Print the names in a directory, or a file's own.
    Ls {
        #[arg(default_value = ".")]
        path: OsString,
        /// Kind, mode, owner, group, size and time before each name.
        #[arg(short, long)]
        long: bool,
    },
    /// Print the content of files.
    Cat {
        #[arg(required = true)]
        paths: Vec<OsString>,
    },
    /// Copy a local file or directory into a store; `-` is standard input.
    ///
    /// An existing directory DEST gets the copy under its own name. A file appears whole, and replaces an existing one.
    Put { src: OsString, dest: OsString },
    /// Copy a file or directory out of a store; `-` is standard output.
    ///
    /// An existing directory DEST gets the copy under its own name. No symbolic link below DEST is followed.
    Get { src: OsString, dest: OsString },
    /// Copy a file or directory, within a store, between stores, or from and to local paths.
    Cp { src: OsString, dest: OsString },
    /// Rename a file or directory of one store, in one atomic step.
    Mv { src: OsString, dest: OsString },
    /// Remove files and empty directories.
    Rm {
        #[arg(required = true)]
        paths: Vec<OsString>,
        /// Directories with everything below them.
        #[arg(short, long)]
        recursive: bool,
    },
    /// Create directories.
    Mkdir {
        #[arg(required = true)]
        paths: Vec<OsString>,
        /// And the directories above them; no error if they exist.
        #[arg(short, long)]
        parents: bool,
    },
    /// Print the attributes of an entry.
    Stat { path: OsString },
    /// Print the paths of a tree.
    Find {
        #[arg(default_value = ".")]
        path: OsString,
        /// Only entries whose names match: `*`, `?`, `[a-z]`, `[!a-z]`.
        #[arg(long = "name", value_name = "PATTERN")]
        pattern: Option<OsString>,
        /// Only entries of this kind.
        #[arg(long)]
        kind: Option<KindArg>,
    },
    /// Print the space that a tree takes.
    Du {
        #[arg(default_value = ".")]
        path: OsString,
    },
    /// Print a tree, indented.
    Tree {
        #[arg(default_value = ".")]
        path: OsString,
    },
    /// Make DEST like SRC: copy entries whose kind, size, mode or content differs.
    ///
    /// Contents are compared by their digests. Exit code 6 if an entry could not be copied.
    Sync {
        src: OsString,
        dest: OsString,
        /// Remove what SRC does not have.
        #[arg(long)]
        delete: bool,
        /// Print what would be done.
        #[arg(long)]
        dry_run: bool,
    },
    /// Read every byte of a tree and compare each file with its digest; exit code 3 if one is damaged.
    Verify { path: OsString },
    /// Check that the records of a store's files agree; exit code 3 if not.
    Fsck { path: OsString },
    /// Create a file with this content; without, an empty one. It must not exist.
    Newfile { path: OsString, content: Option<OsString> },
    /// Read verbs from standard input, with paths relative to a directory that `cd` changes.
    ///
    /// Local paths begin with `file:` where both are possible; those of `put` and `get` need not.
    Shell { path: OsString },
    /// `get`, by the name that CassandraFS has for it.
    #[command(name = "copyToLocal")]
    CopyToLocal { src: OsString, dest: OsString },
    /// `put`, by the name that CassandraFS has for it.
    #[command(name = "copyFromLocal")]
    CopyFromLocal { src: OsString, dest: OsString },
    /// Copy from a Hadoop file system (hdfs://), in a build with the feature `hdfs`.
    #[command(name = "copyFromHDFS")]
    CopyFromHdfs { src: OsString, dest: OsString },
    /// Copy to a Hadoop file system (hdfs://), in a build with the feature `hdfs`.
    #[command(name = "copyToHDFS")]
    CopyToHdfs { src: OsString, dest: OsString },
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KindArg {
    File,
    Directory,
    Link,
    Pipe,
    Socket,
}

impl KindArg {
    pub(crate) fn kind(self) -> FileKind {
        match self {
            KindArg::File => FileKind::File,
            KindArg::Directory => FileKind::Directory,
            KindArg::Link => FileKind::Link,
            KindArg::Pipe => FileKind::Fifo,
            KindArg::Socket => FileKind::Socket,
        }
    }
}

impl FsVerb {
    /// Rewrites the paths that are in the shell's store. Those of `put` and `get` on the other side are local.
    pub(crate) fn map_stored(&mut self, map: impl Fn(&mut OsString)) {
        match self {
            FsVerb::Ls { path, .. }
            | FsVerb::Stat { path }
            | FsVerb::Find { path, .. }
            | FsVerb::Du { path }
            | FsVerb::Tree { path }
            | FsVerb::Verify { path }
            | FsVerb::Fsck { path }
            | FsVerb::Newfile { path, .. }
            | FsVerb::Shell { path } => map(path),
            FsVerb::Cat { paths } | FsVerb::Rm { paths, .. } | FsVerb::Mkdir { paths, .. } => {
                paths.iter_mut().for_each(map)
            }
            FsVerb::Put { dest, .. } | FsVerb::CopyFromLocal { dest, .. } | FsVerb::CopyFromHdfs { dest, .. } => {
                map(dest)
            }
            FsVerb::Get { src, .. } | FsVerb::CopyToLocal { src, .. } | FsVerb::CopyToHdfs { src, .. } => map(src),
            FsVerb::Cp { src, dest } | FsVerb::Mv { src, dest } | FsVerb::Sync { src, dest, .. } => {
                map(src);
                map(dest);
            }
        }
    }
}
