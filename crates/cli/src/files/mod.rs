//! `waxseal fs`: files in a store and local files, by the same verbs.
//!
//! A verb works on a [`tree::Tree`], which [`location`] opens: that of a store ([`stored`]; [`served`] if another
//! process serves it) or a local directory ([`local`], which writes through [`temporary`]), or an object store (`remote`). [`mod@serve`] is that other
//! process, and [`mod@mount`] shows the files to the kernel. The verbs are in groups: [`list`] reads entries,
//! [`change`] changes them, [`copy`] moves content between trees, [`sync`] makes a tree like another one,
//! [`integrity`] checks a store, and [`shell`] reads verbs from standard input. [`whole`] has the verbs `load` and
//! `dump`, which copy the whole tree of a store.

mod change;
mod copy;
mod integrity;
mod list;
pub(crate) mod local;
pub(crate) mod location;
mod mount;
#[cfg(feature = "remote")]
mod remote;
mod serve;
mod served;
mod shell;
pub(crate) mod stored;
mod sync;
mod temporary;
pub(crate) mod tree;
mod whole;

pub(crate) use mount::mount;
pub(crate) use serve::serve;
pub(crate) use temporary::{Unnamed, remove_stale};
pub(crate) use whole::{dump, load};

use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::fs_verbs::FsVerb;
use crate::output::Output;

pub(crate) fn run(args: &Args, verb: &FsVerb, output: &mut Output) -> Result<Exit, Failure> {
    match verb {
        FsVerb::Ls { path, long } => list::ls(args, path, *long, output),
        FsVerb::Stat { path } => list::stat(args, path, output),
        FsVerb::Find { path, pattern, kind } => list::find(args, path, pattern.as_deref(), *kind, output),
        FsVerb::Du { path } => list::du(args, path, output),
        FsVerb::Tree { path } => list::tree(args, path, output),
        FsVerb::Cat { paths } => copy::cat(args, paths, output),
        FsVerb::Put { src, dest } | FsVerb::CopyFromLocal { src, dest } => copy::put(args, src, dest, output),
        FsVerb::Get { src, dest } | FsVerb::CopyToLocal { src, dest } => copy::get(args, src, dest, output),
        FsVerb::Cp { src, dest } => copy::cp(args, src, dest, output),
        FsVerb::CopyFromHdfs { src, dest } | FsVerb::CopyToHdfs { src, dest } => copy::cp(args, src, dest, output),
        FsVerb::Mv { src, dest } => change::mv(args, src, dest, output),
        FsVerb::Rm { paths, recursive } => change::rm(args, paths, *recursive, output),
        FsVerb::Mkdir { paths, parents } => change::mkdir(args, paths, *parents, output),
        FsVerb::Newfile { path, content } => change::newfile(args, path, content.as_deref(), output),
        FsVerb::Sync { src, dest, delete, dry_run } => sync::sync(args, src, dest, (*delete, *dry_run), output),
        FsVerb::Verify { path } => integrity::verify(args, path, output),
        FsVerb::Fsck { path } => integrity::fsck(args, path, output),
        FsVerb::Shell { path } => shell::shell(args, path, output),
    }
}
