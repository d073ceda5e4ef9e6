//! New contents of files, put in place by one batch.

use std::collections::BTreeSet;

use waxseal::Batch;

use crate::condition::Condition;
use crate::digest::Digest;
use crate::entry::{Content, Entry, Xattrs, not_a_file};
use crate::error::Result;
use crate::events::Verb;
use crate::families::View;
use crate::metadata::{FileKind, Metadata, SetAttributes};
use crate::namespace::{of_path, or_damaged};
use crate::path::FilePath;
use crate::records::{ContentId, reclaim_key};
use crate::store::{Files, shown};

/// A file and the content that it gets.
pub(crate) struct NewFile {
    pub(crate) path: FilePath,
    pub(crate) attributes: SetAttributes,
    pub(crate) content: Content,
    pub(crate) size: u64,
    pub(crate) digest: Digest,
    /// The content has a reclaim record, which goes with the commit.
    pub(crate) recorded: Option<ContentId>,
    /// The extended attributes that the file gets; `None` leaves it those that it has.
    pub(crate) xattrs: Option<Xattrs>,
    pub(crate) condition: Condition,
}

/// A file whose new entry is in a batch.
struct Swapped {
    path: FilePath,
    entry: Entry,
    /// The entry that is replaced; `None` if the path had no entry, or a damaged entry.
    old: Option<Entry>,
    /// What the reclaimer gets after the commit.
    released: Option<(ContentId, u32)>,
}

impl Files {
    /// Commits a batch that gives files their contents, all in one atomic step, and logs each. The paths differ. Returns
    /// the attributes, in the order of the files.
    ///
    /// Errors: as for `write`; `ConditionFailed`. Nothing is changed then.
    pub(crate) fn swap(&self, mut batch: Batch, files: Vec<NewFile>) -> Result<Vec<Metadata>> {
        let new = |mut file: NewFile| {
            let Some(parent) = file.path.parent() else { return Err(not_a_file(FileKind::Directory).at("")) };
            let mut entry = self.new_entry(FileKind::File, &file.attributes)?;
            let content = std::mem::replace(&mut file.content, Content::Inline(Vec::new()));
            entry.set_content(content, file.size, file.digest);
            Ok((parent, file, entry))
        };
        let files = files.into_iter().map(new).collect::<Result<Vec<_>>>()?;
        let swapped = {
            let _locked = self.shared.namespace.lock(files.iter().map(|(parent, ..)| parent));
            let view = self.families.latest();
            let (mut touched, mut swapped) = (BTreeSet::new(), Vec::with_capacity(files.len()));
            for (parent, file, entry) in files {
                let directory = view.directory(&parent).map_err(|error| of_path(error, &file.path))?;
                let one = self.put_file(&mut batch, view, file, entry)?;
                if one.old.is_none() && touched.insert(parent.clone()) {
                    self.touch_directory(&mut batch, &parent, directory, one.entry.metadata.ctime);
                }
                swapped.push(one);
            }
            self.families.commit(batch)?;
            swapped.iter().for_each(|one| self.unlink_old(one));
            swapped
        };
        let mut logged = Ok(());
        for Swapped { path, old, .. } in &swapped {
            let verb = if old.is_some() { Verb::Write } else { Verb::Create };
            logged = logged.and(self.log(verb, path, || shown(path)));
        }
        logged?;
        self.settle()?;
        Ok(swapped.into_iter().map(|one| one.entry.metadata).collect())
    }

    /// Adds the entry of a file to a batch. The caller holds the lock of its directory.
    fn put_file(&self, batch: &mut Batch, view: View<'_>, file: NewFile, mut entry: Entry) -> Result<Swapped> {
        let NewFile { path, attributes, recorded, xattrs, condition, .. } = file;
        let old = or_damaged(view, &path, condition, view.find(&path))?;
        let live = old.as_ref().map(|old| self.live(old.metadata));
        condition.check(live).map_err(|error| error.at(path.display()))?;
        let mut released = None;
        if let Some(old) = &old {
            old.content().map_err(|error| error.at(path.display()))?;
            (entry.metadata.mode, entry.metadata.uid, entry.metadata.gid) =
                (old.metadata.mode, old.metadata.uid, old.metadata.gid);
            attributes.apply(&mut entry.metadata);
            entry.xattrs.clone_from(&old.xattrs);
            released = self.release(batch, old);
        }
        entry.xattrs = xattrs.unwrap_or(entry.xattrs);
        self.families.put_entry(batch, &path, &entry);
        if let Some(id) = recorded {
            batch.delete(&self.families.chunks, reclaim_key(id));
        }
        Ok(Swapped { path, entry, old, released })
    }

    /// Takes the path from the handles of a file that was replaced, and gives its content to the reclaimer.
    fn unlink_old(&self, swapped: &Swapped) {
        let (open_files, now) = (&self.shared.open_files, swapped.entry.metadata.ctime);
        match &swapped.old {
            Some(old) => open_files.unlink(old.metadata.inode, now),
            None => open_files.unlink_tree(&swapped.path, swapped.path.key(), now), // of a damaged entry
        }
        self.shared.reclaimer.add(swapped.released);
    }
}
