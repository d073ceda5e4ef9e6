//! ls, stat, find, du, tree.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};
use waxseal::registry::Time;
use waxseal_files::{DiskUsage, FileKind, glob_matches};

use super::location::{Access, Location, Place};
use super::tree::{Node, Tree, below};
use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::fs_verbs::KindArg;
use crate::output::Output;
use crate::{text, times};

fn open(args: &Args, path: &OsStr) -> Result<Place, Failure> {
    Location::parse(path)?.open(args, Access::Read)
}

pub(super) fn ls(args: &Args, path: &OsStr, long: bool, output: &mut Output) -> Result<Exit, Failure> {
    let Place { tree, path } = open(args, path)?;
    let node = tree.stat(&path)?;
    if !node.is_directory() {
        print(&*tree, &node, long, output)?;
        return Ok(Exit::Ok);
    }
    let mut listed = Listed::default();
    for entry in tree.list(&path)? {
        if let Some(node) = listed.entry(entry)? {
            print(&*tree, &node, long, output)?;
        }
    }
    Ok(listed.exit())
}

/// Damaged entries are reported, and the others are listed.
#[derive(Default)]
struct Listed {
    damaged: u64,
}

impl Listed {
    fn entry(&mut self, entry: Result<Node, Failure>) -> Result<Option<Node>, Failure> {
        match entry {
            Err(failure) if failure.is_corruption() => {
                eprintln!("waxseal: {failure}");
                self.damaged += 1;
                Ok(None)
            }
            entry => entry.map(Some),
        }
    }

    fn exit(&self) -> Exit {
        if self.damaged == 0 { Exit::Ok } else { Exit::Corruption }
    }
}

fn print(tree: &dyn Tree, node: &Node, long: bool, output: &mut Output) -> Result<(), Failure> {
    if output.json {
        return output.object(&object(tree, node, output)?);
    }
    let slash = if node.is_directory() { "/" } else { "" };
    let name = output.readable(node.name());
    if !long {
        return output.line(format!("{name}{slash}"));
    }
    let link = match node.kind {
        Some(FileKind::Link) => format!(" -> {}", output.readable(&tree.read_link(&node.path)?)),
        _ => String::new(),
    };
    let Node { uid, gid, size, .. } = node;
    output.line(format!("{} {uid:>5} {gid:>5} {size:>12} {} {name}{slash}{link}", permissions(node), time(node.mtime)))
}

/// Formats kind and mode as `ls` does.
fn permissions(node: &Node) -> String {
    let kind = match node.kind {
        Some(FileKind::File) => '-',
        Some(FileKind::Directory) => 'd',
        Some(FileKind::Link) => 'l',
        Some(FileKind::Fifo) => 'p',
        Some(FileKind::Socket) => 's',
        None => '?',
    };
    let bit = |at: u32| if node.mode >> at & 1 == 1 { b"xwr"[at as usize % 3] as char } else { '-' };
    std::iter::once(kind).chain((0..9).rev().map(bit)).collect()
}

fn time(nanos: i64) -> String {
    times::text(Time::from_micros(u64::try_from(nanos / 1000).unwrap_or_default()))
}

fn object(tree: &dyn Tree, node: &Node, output: &Output) -> Result<Value, Failure> {
    let mut object = json!({
        "path": output.to_json(&node.path),
        "kind": node.kind_name(),
        "mode": format!("{:o}", node.mode),
        "uid": node.uid,
        "gid": node.gid,
        "size": node.size,
        "mtime_ns": node.mtime,
    });
    if node.kind == Some(FileKind::Link) {
        object["target"] = output.to_json(&tree.read_link(&node.path)?);
    }
    if let Some(metadata) = &node.stored {
        object["ctime_ns"] = metadata.ctime.into();
        object["inode"] = metadata.inode.into();
        object["allocated"] = metadata.allocated.into();
        object["etag"] = metadata.etag().filter(|_| metadata.is_file()).map(|tag| tag.to_string()).into();
    }
    Ok(object)
}

pub(super) fn stat(args: &Args, path: &OsStr, output: &mut Output) -> Result<Exit, Failure> {
    let Place { tree, path } = open(args, path)?;
    let node = tree.stat(&path)?;
    output.object(&object(&*tree, &node, output)?)?;
    output.line(format!("path    /{}", output.readable(&node.path)))?;
    output.line(format!("kind    {}", node.kind_name()))?;
    if node.kind == Some(FileKind::Link) {
        output.line(format!("target  {}", output.readable(&tree.read_link(&path)?)))?;
    }
    output.line(format!("size    {}", node.size))?;
    output.line(format!("mode    {:o}", node.mode))?;
    output.line(format!("owner   {}:{}", node.uid, node.gid))?;
    output.line(format!("mtime   {}", time(node.mtime)))?;
    if let Some(metadata) = &node.stored {
        output.line(format!("ctime   {}", time(metadata.ctime)))?;
        output.line(format!("inode   {}", metadata.inode))?;
        if let Some(tag) = metadata.etag().filter(|_| metadata.is_file()) {
            output.line(format!("etag    {tag}"))?;
        }
    }
    Ok(Exit::Ok)
}

pub(super) fn find(
    args: &Args,
    path: &OsStr,
    pattern: Option<&OsStr>,
    kind: Option<KindArg>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let Place { tree, path } = open(args, path)?;
    let mut listed = Listed::default();
    for entry in tree.walk(&path)? {
        let Some(node) = listed.entry(entry)? else { continue };
        let is_named = pattern.is_none_or(|pattern| glob_matches(pattern.as_bytes(), node.name()));
        if !is_named || kind.is_some_and(|kind| node.kind != Some(kind.kind())) {
            continue;
        }
        output.object(&object(&*tree, &node, output)?)?;
        output.line(format!("/{}", output.readable(&node.path)))?;
    }
    Ok(listed.exit())
}

pub(super) fn du(args: &Args, path: &OsStr, output: &mut Output) -> Result<Exit, Failure> {
    let Place { tree, path } = open(args, path)?;
    let (mut usage, mut listed) = (DiskUsage::default(), Listed::default());
    for entry in tree.walk(&path)? {
        let Some(node) = listed.entry(entry)? else { continue };
        match node.kind {
            Some(FileKind::File) => usage.files += 1,
            Some(FileKind::Directory) => usage.directories += 1,
            _ => usage.others += 1,
        }
        usage.bytes += node.size;
        usage.allocated += node.stored.map_or(node.size, |metadata| metadata.allocated);
    }
    output.line(format!(
        "{} in {}, {} and {}",
        text::size(usage.bytes),
        text::counted(usage.files, "file", "files"),
        text::counted(usage.directories, "directory", "directories"),
        text::counted(usage.others, "other", "others"),
    ))?;
    output.object(&json!({
        "bytes": usage.bytes,
        "allocated": usage.allocated,
        "files": usage.files,
        "directories": usage.directories,
        "others": usage.others,
    }))?;
    Ok(listed.exit())
}

pub(super) fn tree(args: &Args, path: &OsStr, output: &mut Output) -> Result<Exit, Failure> {
    let Place { tree, path: root } = open(args, path)?;
    let mut listed = Listed::default();
    for entry in tree.walk(&root)? {
        let Some(node) = listed.entry(entry)? else { continue };
        output.object(&object(&*tree, &node, output)?)?;
        let rest = below(&node.path, &root);
        if rest.is_empty() {
            output.line(format!("/{}", output.readable(&node.path)))?;
            continue;
        }
        let depth = rest.split(|byte| *byte == b'/').count();
        let slash = if node.is_directory() { "/" } else { "" };
        output.line(format!("{:width$}{}{slash}", "", output.readable(node.name()), width = depth * 2))?;
    }
    Ok(listed.exit())
}
