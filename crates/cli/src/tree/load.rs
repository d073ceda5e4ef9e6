//! Loads a directory tree into a store, with one file in memory at a time. A repeated load replaces the entries that it
//! finds and keeps the others.
//!
//! A pipe, a socket or a device has no content to store, and is skipped. An entry that cannot be read or is larger than
//! a value may be counts as a failure: the rest of the tree is loaded, and the exit code reports the failure.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::json;
use waxseal::{Batch, ColumnFamily, Durability, MAX_KEY_BYTES, MAX_VALUE_BYTES};

use super::{Left, PathAttributes, left_json, meta_family, say_left};
use crate::args::{Args, Load};
use crate::failure::{Exit, Failure};
use crate::output::{Output, or_seen_enough};
use crate::store::{dir, open_to_fill, session};
use crate::walk::{TreeWalk, WalkedEntry, WalkedKind};
use crate::{progress, text};

/// Maximum size of a batch of small files, in bytes.
const BATCH_BYTES: usize = 1 << 20;

#[derive(Default)]
struct LoadCounts {
    files: u64,
    directories: u64,
    links: u64,
    bytes: u64,
}

/// The reason for leaving an entry out of the store.
enum Refused {
    /// The entry has no content that could be stored.
    Special(&'static str),
    /// The entry could not be read or stored.
    Failed(String),
}

pub(crate) fn load(args: &Args, load: &Load, output: &mut Output) -> Result<Exit, Failure> {
    let src = load.src.as_path();
    if load.expiry.is_given() {
        return Err(Failure::usage("--expires-in and --expires-at are for rows, not for a tree"));
    }
    if load.key.is_some() {
        return Err(Failure::usage("--key is for rows; in a tree the path is the key"));
    }
    if load.atomic || load.bulk || load.skip_bad {
        return Err(Failure::usage("--atomic, --bulk and --skip-bad are for rows; a tree is loaded file by file"));
    }
    let walk = TreeWalk::new(src).map_err(|error| Failure::io(src.display(), error))?;
    let db = open_to_fill(args)?;
    let walk = walk.leave_out(dir(args)?);
    let writer = session(args, &db)?;
    let (files, metas) = (writer.column_family(&args.cf)?, writer.column_family(&meta_family(&args.cf))?);

    let (mut counts, mut skipped, mut failed) = (LoadCounts::default(), Vec::new(), Vec::new());
    let mut batch = writer.batch();
    let mut content = Vec::new();
    let bar = progress::bar("load", None, "files");
    for entry in walk {
        match store(&entry, &files, &metas, &mut batch, &mut content, &mut counts) {
            Ok(()) => {}
            Err(Refused::Special(what)) => skipped.push(Left { path: entry.name, reason: what.to_owned() }),
            Err(Refused::Failed(reason)) => failed.push(Left { path: entry.name, reason }),
        }
        if batch.bytes() >= BATCH_BYTES {
            batch.commit(Durability::Os)?;
        }
        bar.inc(1);
    }
    batch.commit(Durability::Os)?;
    db.sync()?;
    db.close()?;
    bar.finish_and_clear();

    say_left("skipped", &skipped, output);
    say_left("not loaded", &failed, output);
    let mut line = format!(
        "loaded {}, {} and {}: {}; skipped {}",
        text::counted(counts.files, "file", "files"),
        text::counted(counts.directories, "directory", "directories"),
        text::counted(counts.links, "link", "links"),
        text::size(counts.bytes),
        text::count(skipped.len() as u64)
    );
    if !failed.is_empty() {
        line += &format!("; not loaded {}", text::count(failed.len() as u64));
    }
    let object = json!({
        "ok": failed.is_empty(),
        "files": counts.files,
        "directories": counts.directories,
        "links": counts.links,
        "bytes": counts.bytes,
        "skipped": left_json(&skipped, output),
        "failed": left_json(&failed, output),
    });
    or_seen_enough(output.line(line).and_then(|()| output.object(&object)))?;
    Ok(if failed.is_empty() { Exit::Ok } else { Exit::CheckFailed })
}

/// Adds an entry to the batch, or returns the reason for leaving it out.
fn store(
    entry: &WalkedEntry,
    files: &ColumnFamily,
    metas: &ColumnFamily,
    batch: &mut Batch,
    content: &mut Vec<u8>,
    counts: &mut LoadCounts,
) -> Result<(), Refused> {
    let failed = |error: io::Error| Refused::Failed(error.to_string());
    if entry.name.len() > MAX_KEY_BYTES {
        return Err(Refused::Failed(format!("its path is longer than {MAX_KEY_BYTES} bytes")));
    }
    let meta = match &entry.kind {
        WalkedKind::File(metadata) => {
            read_file(&entry.path, metadata.len(), content).map_err(failed)?;
            batch.put(files, &entry.name, &content);
            counts.files += 1;
            counts.bytes += content.len() as u64;
            PathAttributes::File { mode: metadata.mode() & 0o7777 }
        }
        WalkedKind::Directory(metadata) => {
            batch.delete(files, &entry.name);
            counts.directories += 1;
            PathAttributes::Directory { mode: metadata.mode() & 0o7777 }
        }
        WalkedKind::Link => {
            let target = fs::read_link(&entry.path).map_err(failed)?;
            batch.delete(files, &entry.name);
            counts.links += 1;
            PathAttributes::Link { target: target.into_os_string().into_vec() }
        }
        WalkedKind::Special(what) => return Err(Refused::Special(what)),
        WalkedKind::Unreadable(error) => return Err(Refused::Failed(error.to_string())),
    };
    batch.put(metas, &entry.name, meta.encode());
    Ok(())
}

/// Replaces `content` by the content of a file, whose last known length is `length`. A file larger than a value may be
/// is refused.
pub(crate) fn read_file(path: &Path, length: u64, content: &mut Vec<u8>) -> io::Result<()> {
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {MAX_VALUE_BYTES} bytes"));
    if length > MAX_VALUE_BYTES as u64 {
        return Err(too_large());
    }
    content.clear();
    content.shrink_to(BATCH_BYTES.max(length as usize)); // releases the memory of a previous large file
    content.reserve_exact(length as usize);
    let read = File::open(path)?.take(MAX_VALUE_BYTES as u64 + 1).read_to_end(content)?;
    if read > MAX_VALUE_BYTES { Err(too_large()) } else { Ok(()) }
}
