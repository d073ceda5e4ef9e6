//! sync: make a tree like another one.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::iter::Peekable;

use waxseal_files::{Digest, Digester, FileKind};

use super::copy::{Copied, check_kind, check_parent, copy_entry, open_both};
use super::location::{Access, Location, Place};
use super::tree::{COMPARED_CHUNK_BYTES, Node, Nodes, OpenNode, below, by_component, find, join};
use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::progress;

/// Walks over both trees at once, in the order of their entries.
pub(super) fn sync(
    args: &Args,
    src: &OsStr,
    dest: &OsStr,
    (delete, dry_run): (bool, bool),
    output: &mut Output,
) -> Result<Exit, Failure> {
    Location::parse(src)?.check_apart(&Location::parse(dest)?, None)?;
    let (from, to) = open_both(args, src, dest, if dry_run { Access::Read } else { Access::Fill })?;
    let mut ours: Peekable<Nodes> = from.tree.walk(&from.path)?.peekable();
    let root = from.tree.stat(&from.path)?;
    check_parent(&*to.tree, &to.path)?;
    let mut theirs: Peekable<Nodes> = match find(&*to.tree, &to.path)? {
        Some(other) if other.is_directory() != root.is_directory() => {
            let (shown, kind) = (to.tree.show(&other.path), other.kind_name());
            return Err(Failure::usage(format!("{shown} is a {kind}, and the source is a {}", root.kind_name())));
        }
        Some(_) => to.tree.walk(&to.path)?.peekable(),
        None => (Box::new(std::iter::empty()) as Nodes).peekable(),
    };
    let mut run = Run { from: &from, to: &to, delete, dry_run, copied: Copied::default(), settled: None };
    let mut modes = Vec::new();
    let bar = progress::bar("sync", None, "entries");
    let ended = loop {
        let order = match (ours.peek(), theirs.peek()) {
            (None, None) => break Ok(()),
            // A part of the source is not known: nothing that may be it is removed.
            (Some(Err(_)), _) => {
                run.delete = false;
                Ordering::Less
            }
            (_, Some(Err(_))) => Ordering::Greater,
            (Some(Ok(_)), None) => Ordering::Less,
            (None, Some(Ok(_))) => Ordering::Greater,
            (Some(Ok(own)), Some(Ok(other))) => by_component(run.name(own, &from), run.name(other, &to)),
        };
        let own = if order.is_le() { ours.next() } else { None };
        let other = if order.is_ge() { theirs.next() } else { None };
        let step = own.transpose().and_then(|own| {
            let needs_mode = run.step(own.as_ref(), other.transpose()?.as_ref(), output)?;
            Ok(own.filter(|_| needs_mode))
        });
        match step {
            Ok(Some(own)) => modes.push((join(&to.path, below(&own.path, &from.path)), own.mode)),
            Ok(None) => {}
            Err(failure) => {
                if let Err(failure) = run.copied.fail(failure) {
                    break Err(failure);
                }
            }
        }
        bar.inc(1);
    };
    bar.finish_and_clear();
    match dry_run {
        true => ended.and_then(|()| run.copied.print(true, output)),
        false => run.copied.complete(ended, &*to.tree, &modes, output),
    }
}

struct Run<'a> {
    from: &'a Place,
    to: &'a Place,
    delete: bool,
    dry_run: bool,
    copied: Copied,
    /// The last tree that was removed, or stays as a whole because it could not be replaced.
    settled: Option<Vec<u8>>,
}

impl Run<'_> {
    fn name<'n>(&self, node: &'n Node, place: &Place) -> &'n [u8] {
        below(&node.path, &place.path)
    }

    /// Brings one entry up to date: `own` of the source, `other` of the destination. Returns true for a directory that
    /// gets its mode at the end.
    fn step(&mut self, own: Option<&Node>, other: Option<&Node>, output: &mut Output) -> Result<bool, Failure> {
        let settled = &self.settled;
        let is_settled =
            |other: &&Node| settled.as_ref().is_some_and(|path| other.path.starts_with(&[&path[..], b"/"].concat()));
        let other = other.filter(|other| !is_settled(other));
        let Some(own) = own else {
            if let Some(other) = other.filter(|_| self.delete) {
                self.remove(other, output)?;
            }
            return Ok(false);
        };
        let (from, to) = (self.from, self.to);
        let path = join(&to.path, self.name(own, from));
        let replaced = match other {
            Some(other) if own.kind != other.kind => {
                self.settled = Some(other.path.clone());
                if !self.delete {
                    let shown = to.tree.show(&other.path);
                    return Err(Failure::usage(format!("{shown} is a {}; --delete replaces it", other.kind_name())));
                }
                Some(other)
            }
            Some(other) => {
                let opened = from.tree.open(own)?;
                let is_equal = self.is_equal(own, &*opened, other)?;
                if is_equal || own.is_directory() {
                    self.copy_xattrs(&*opened, other, output)?;
                }
                if is_equal {
                    return Ok(false);
                }
                if own.is_directory() {
                    self.say("mode", &path, output)?;
                    return Ok(true);
                }
                None
            }
            None => None,
        };
        check_kind(&*from.tree, own)?;
        let dry_run = self.dry_run;
        let mut make_room = || replaced.map_or(Ok(()), |other| self.remove(other, output));
        let left = match dry_run {
            true => make_room().map(|()| None)?,
            false => copy_entry(&*from.tree, own, &*to.tree, &path, make_room)?,
        };
        self.say("copy", &path, output)?;
        self.copied.counts.add(own);
        left.map_or(Ok(()), |failure| self.copied.fail(failure))?;
        Ok(own.is_directory())
    }

    /// Copies extended attributes that the destination lacks or has with other values. Those of the destination alone
    /// stay. Errors: usage for those that it refuses.
    fn copy_xattrs(&mut self, own: &dyn OpenNode, other: &Node, output: &mut Output) -> Result<(), Failure> {
        let mut xattrs = own.xattrs()?;
        if xattrs.is_empty() {
            return Ok(());
        }
        let there = self.to.tree.open(other)?.xattrs()?;
        xattrs.retain(|pair| !there.contains(pair));
        if xattrs.is_empty() {
            return Ok(());
        }
        self.say("attributes", &other.path, output)?;
        if self.dry_run {
            return Ok(());
        }
        self.to.tree.set_xattrs(&other.path, &xattrs).or_else(|failure| self.copied.fail(failure))
    }

    fn remove(&mut self, other: &Node, output: &mut Output) -> Result<(), Failure> {
        self.say("remove", &other.path, output)?;
        if !self.dry_run {
            self.to.tree.remove_tree(&other.path)?;
        }
        self.copied.removed += 1;
        self.settled = Some(other.path.clone());
        Ok(())
    }

    fn say(&self, what: &str, path: &[u8], output: &mut Output) -> Result<(), Failure> {
        match self.dry_run {
            true => output.line(format!("{what} {}", self.to.tree.show(path))),
            false => Ok(()),
        }
    }

    /// Compares two entries of one kind, which is what a copy would make equal.
    fn is_equal(&self, own: &Node, opened: &dyn OpenNode, other: &Node) -> Result<bool, Failure> {
        let have_modes = !self.from.tree.has_names_only() && !self.to.tree.has_names_only();
        let is_mode_equal = !have_modes || own.mode & 0o777 == other.mode & 0o777;
        match own.kind {
            Some(FileKind::File) if own.size != other.size || !is_mode_equal => Ok(false),
            Some(FileKind::File) => {
                let known = own.stored.zip(other.stored).and_then(|(own, other)| own.has_content_of(&other));
                if let Some(is_equal) = known {
                    return Ok(is_equal);
                }
                let sizes = [own, other].map(|node| node.stored.map_or(0, |metadata| metadata.chunk_bytes));
                let chunk_bytes = sizes.into_iter().find(|size| *size > 0).unwrap_or(COMPARED_CHUNK_BYTES);
                let there = self.to.tree.open(other)?;
                Ok(digest(own, opened, chunk_bytes)? == digest(other, &*there, chunk_bytes)?)
            }
            Some(FileKind::Link) => Ok(self.from.tree.read_link(&own.path)? == self.to.tree.read_link(&other.path)?),
            _ => Ok(is_mode_equal),
        }
    }
}

/// Returns the digest of a file's content for a chunk size, as it is on record or by reading the bytes.
fn digest(node: &Node, opened: &dyn OpenNode, chunk_bytes: u32) -> Result<Digest, Failure> {
    let known = node.stored.filter(|metadata| {
        let is_one_chunk = metadata.chunk_bytes == 0 && metadata.size <= chunk_bytes.into();
        !metadata.has_changes && (metadata.chunk_bytes == chunk_bytes || is_one_chunk)
    });
    if let Some(metadata) = known {
        return Ok(metadata.digest);
    }
    if let Some((_, digest)) = opened.recorded_digest().filter(|(size, _)| *size == chunk_bytes) {
        return Ok(digest);
    }
    let mut digester = Digester::new(chunk_bytes);
    opened.read(&mut |part| {
        part.add_to(&mut digester);
        Ok(())
    })?;
    Ok(digester.finish())
}
