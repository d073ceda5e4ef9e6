//! mv, rm, mkdir, newfile.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use serde_json::json;

use super::copy::{open_both, target};
use super::location::{Access, Location, Place};
use super::tree::{Tree, find};
use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::output::Output;

pub(super) fn mv(args: &Args, src: &OsStr, dest: &OsStr, output: &mut Output) -> Result<Exit, Failure> {
    if !Location::parse(src)?.is_in_tree_of(&Location::parse(dest)?) {
        return Err(Failure::usage("a rename stays within one store; use cp, then rm"));
    }
    let (from, to) = open_both(args, src, dest, Access::Change)?;
    let target = target(&*to.tree, &to.path, src)?;
    to.tree.rename(&from.path, &target)?;
    done(&*to.tree, output)
}

/// Makes the changes durable and prints that they are.
fn done(tree: &dyn Tree, output: &mut Output) -> Result<Exit, Failure> {
    tree.finish()?;
    output.changed(&json!({ "ok": true }))?;
    Ok(Exit::Ok)
}

/// Opens each path. Paths of one store share it.
fn each(
    args: &Args,
    paths: &[OsString],
    access: Access,
    act: impl Fn(&dyn Tree, &[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut open: Option<(Location, Place)> = None;
    for path in paths {
        let location = Location::parse(path)?;
        location.check_changed(args)?;
        let place = match open.take().filter(|(before, _)| before.is_in_tree_of(&location)) {
            Some((_, before)) => location.open_beside(&before)?,
            None => location.open(args, access)?,
        };
        act(&*place.tree, &place.path)?;
        place.tree.finish()?;
        open = Some((location, place));
    }
    Ok(())
}

pub(super) fn rm(args: &Args, paths: &[OsString], recursive: bool, output: &mut Output) -> Result<Exit, Failure> {
    each(args, paths, Access::Change, |tree, path| match recursive {
        true if path.is_empty() => Err(Failure::usage(format!("{} is the root, which stays", tree.show(path)))),
        true => tree.remove_tree(path),
        false => tree.remove(path),
    })?;
    output.changed(&json!({ "ok": true }))?;
    Ok(Exit::Ok)
}

pub(super) fn mkdir(args: &Args, paths: &[OsString], parents: bool, output: &mut Output) -> Result<Exit, Failure> {
    each(args, paths, Access::Fill, |tree, path| {
        if !parents {
            return tree.mkdir(path, None);
        }
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in ends.chain([path.len()]).filter(|end| *end > 0) {
            match find(tree, &path[..end])? {
                Some(node) if node.is_directory() => {}
                _ => tree.mkdir(&path[..end], None)?,
            }
        }
        Ok(())
    })?;
    output.changed(&json!({ "ok": true }))?;
    Ok(Exit::Ok)
}

pub(super) fn newfile(
    args: &Args,
    path: &OsStr,
    content: Option<&OsStr>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let location = Location::parse(path)?;
    location.check_changed(args)?;
    let Place { tree, path } = location.open(args, Access::Fill)?;
    if find(&*tree, &path)?.is_some() {
        return Err(Failure::usage(format!("{} exists", tree.show(&path))));
    }
    let mut sink = tree.write(&path, None)?;
    sink.write(content.unwrap_or_default().as_bytes())?;
    sink.finish()?;
    done(&*tree, output)
}
