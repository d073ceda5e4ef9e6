//! load, dump: the whole tree of a store, from a local directory and back.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use waxseal_files::FileKind;

use super::copy::{EntryCounts, copy_entry, set_modes};
use super::local::LocalTree;
use super::location::{Access, Location, is_within};
use super::tree::{Node, Tree, find};
use crate::args::{Args, Load};
use crate::failure::{Exit, Failure};
use crate::output::{Output, or_seen_enough};
use crate::progress;
use crate::store::{dir, existing_store};
use crate::text;

/// An entry without a copy, with the reason. Damage may hide the path.
struct Left {
    path: Option<Vec<u8>>,
    reason: String,
}

/// The result of a verb.
#[derive(Default)]
struct WholeCopy {
    counts: EntryCounts,
    /// Entries without content: pipes, sockets, devices.
    skipped: Vec<Left>,
    failed: Vec<Left>,
    is_damaged: bool,
}

pub(crate) fn load(args: &Args, load: &Load, output: &mut Output) -> Result<Exit, Failure> {
    if load.expiry.is_given() {
        return Err(Failure::usage("--expires-in and --expires-at are for rows, not for a tree"));
    }
    if load.key.is_some() {
        return Err(Failure::usage("--key is for rows; a tree is stored by its paths"));
    }
    if load.atomic || load.bulk || load.skip_bad {
        return Err(Failure::usage("--atomic, --bulk and --skip-bad are for rows; a tree is loaded entry by entry"));
    }
    let store = dir(args)?;
    let from = LocalTree::open(&load.src)?;
    if is_within(&load.src, store) {
        return Err(Failure::usage(format!("{} is in the store {}", load.src.display(), store.display())));
    }
    let to = Location::of_store(store).open(args, Access::Fill)?.tree;
    copy_whole(&from.without(store), &*to, "loaded", output)
}

pub(crate) fn dump(args: &Args, dest: &Path, output: &mut Output) -> Result<Exit, Failure> {
    let store = Location::of_store(existing_store(args)?);
    store.check_apart(&Location::Local(dest.to_owned()), None)?;
    let from = store.open(args, Access::Read).map_err(|failure| match failure.exit() {
        Exit::NotFound => failure.explain("rows are dumped with --format csv, tsv or jsonl, and printed by scan"),
        _ => failure,
    })?;
    prepare(dest)?;
    copy_whole(&*from.tree, &LocalTree::open(dest)?, "dumped", output)
}

/// Creates the destination, which must be new or empty.
fn prepare(dest: &Path) -> Result<(), Failure> {
    let entries = fs::create_dir_all(dest).and_then(|()| fs::read_dir(dest));
    match entries.map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::usage(format!("{} is not empty", dest.display()))),
        Err(error) => Err(Failure::io(dest.display(), error)),
    }
}

/// Copies every entry below the root. `done` is the past tense of the verb.
fn copy_whole(from: &dyn Tree, to: &dyn Tree, done: &str, output: &mut Output) -> Result<Exit, Failure> {
    let (mut copy, mut modes) = (WholeCopy::default(), Vec::new());
    let bar = progress::bar(done, None, "entries");
    let ended = from.walk(b"")?.try_for_each(|entry| {
        bar.inc(1);
        match entry {
            Ok(node) if node.path.is_empty() => Ok(()),
            Ok(node) => copy.add(from, &node, to, &mut modes),
            Err(failure) => copy.fail(None, failure),
        }
    });
    bar.finish_and_clear();
    let set = set_modes(to, &modes, |failure| copy.fail(None, failure));
    let ended = ended.and(set).and(to.finish());
    copy.report(done, ended, output)
}

impl WholeCopy {
    fn add(
        &mut self,
        from: &dyn Tree,
        node: &Node,
        to: &dyn Tree,
        modes: &mut Vec<(Vec<u8>, u32)>,
    ) -> Result<(), Failure> {
        if !matches!(node.kind, Some(FileKind::File | FileKind::Directory | FileKind::Link)) {
            self.skipped.push(Left { path: Some(node.path.clone()), reason: format!("a {}", node.kind_name()) });
            return Ok(());
        }
        match copy_entry(from, node, to, &node.path, || remove_other_kind(to, node)) {
            Ok(left) => {
                self.counts.add(node);
                if node.is_directory() {
                    modes.push((node.path.clone(), node.mode));
                }
                left.map_or(Ok(()), |failure| self.fail(Some(node), failure))
            }
            Err(failure) => self.fail(Some(node), failure),
        }
    }

    /// Records the failure of an entry, which is reported at the end. Errors: one of the device, which ends the copy.
    fn fail(&mut self, node: Option<&Node>, failure: Failure) -> Result<(), Failure> {
        if !failure.is_of_entry() {
            return Err(failure);
        }
        self.is_damaged |= failure.is_corruption();
        let path = node.map(|node| &node.path[..]).or(failure.path()).map(<[u8]>::to_vec);
        self.failed.push(Left { path, reason: failure.to_string() });
        Ok(())
    }

    /// Prints what was copied, also if a failure has ended the copy. Errors: that failure.
    fn report(&self, done: &str, ended: Result<(), Failure>, output: &mut Output) -> Result<Exit, Failure> {
        let WholeCopy { counts, skipped, failed, is_damaged } = self;
        for Left { path, reason } in skipped {
            eprintln!("skipped {}: {reason}", output.readable(path.as_deref().unwrap_or_default()));
        }
        for Left { reason, .. } in failed {
            eprintln!("not {done}: {reason}");
        }
        let mut line = format!("{done} {counts}; skipped {}", text::count(skipped.len() as u64));
        if !failed.is_empty() {
            line += &format!("; not {done} {}", text::count(failed.len() as u64));
        }
        or_seen_enough(output.line(line))?;
        ended?;
        or_seen_enough(output.object(&json!({
            "ok": failed.is_empty(),
            "files": counts.files,
            "directories": counts.directories,
            "links": counts.links,
            "bytes": counts.bytes,
            "skipped": left_json(skipped, output),
            "failed": left_json(failed, output),
        })))?;
        Ok(match (failed.is_empty(), is_damaged) {
            (true, _) => Exit::Ok,
            (false, true) => Exit::Corruption,
            (false, false) => Exit::CheckFailed,
        })
    }
}

fn left_json(left: &[Left], output: &Output) -> Value {
    let path = |entry: &Left| entry.path.as_ref().map(|path| output.to_json(path));
    left.iter().map(|entry| json!({ "path": path(entry), "reason": entry.reason })).collect()
}

/// Removes the entry that an entry of another kind replaces. Errors: usage for a directory that is not empty.
fn remove_other_kind(to: &dyn Tree, node: &Node) -> Result<(), Failure> {
    match find(to, &node.path) {
        Ok(Some(other)) if other.kind != node.kind => to.remove(&node.path),
        Err(failure) if !failure.is_corruption() => Err(failure),
        _ => Ok(()), // the copy replaces a damaged entry, too
    }
}
