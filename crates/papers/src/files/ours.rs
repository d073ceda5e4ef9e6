//! A file store of `waxseal-files`.

use super::layout::{Each, Layout, Part, Reader, Setup};
use std::path::Path;
use waxseal::{Db, Durability};
use waxseal_bench::Outcome;
use waxseal_files::FileStore;

struct Ours {
    db: Db,
    files: FileStore,
}

pub(super) fn open(dir: &Path, setup: &Setup) -> Outcome<Box<dyn Layout>> {
    let db = Db::builder(dir).cache_bytes(usize::try_from(setup.cache_bytes)?).create_if_missing(true).open()?;
    let durability = if setup.durable { Durability::Sync } else { Durability::Os };
    let files = FileStore::open(&db, "files")?.with_durability(durability);
    Ok(Box::new(Ours { db, files }))
}

impl Layout for Ours {
    fn add_directory(&self, path: &str) -> Outcome<()> {
        Ok(self.files.create_dir_all(path)?)
    }

    fn add(&self, path: &str, content: &[u8]) -> Outcome<()> {
        Ok(self.files.write(path, content)?)
    }

    fn finish(&self) -> Outcome<()> {
        Ok(self.files.sync()?)
    }

    fn settle(&self) -> Outcome<()> {
        Ok(self.db.settle()?)
    }

    fn reader(&self) -> Outcome<Box<dyn Reader + '_>> {
        Ok(Box::new(OursReader { files: &self.files }))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        let Ours { db, files } = *self;
        drop(files);
        Ok(db.close()?)
    }
}

struct OursReader<'a> {
    files: &'a FileStore,
}

impl Reader for OursReader<'_> {
    fn read(&mut self, path: &str) -> Outcome<Vec<u8>> {
        Ok(self.files.read(path)?)
    }

    fn read_directory(&mut self, directory: &str, _: &[String], each: &mut Each<'_>) -> Outcome<()> {
        let mut path = format!("{directory}/").into_bytes();
        let root = path.len();
        for file in self.files.read_dir(directory)? {
            let (entry, content) = file?;
            if let Some(content) = content {
                path.truncate(root);
                path.extend_from_slice(&entry.name);
                each(&path, &content);
            }
        }
        Ok(())
    }

    fn traverse(&mut self, part: &Part<'_>, each: &mut Each<'_>) -> Outcome<()> {
        if part.of > 1 {
            return part.directories.iter().try_for_each(|directory| self.read_directory(&directory.path, &[], each));
        }
        for file in self.files.read_tree("")? {
            let (entry, content) = file?;
            if let Some(content) = content {
                each(&entry.path, &content);
            }
        }
        Ok(())
    }
}
