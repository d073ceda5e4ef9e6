//! A file system: one file per file. The name stands for the file system that the issue compares; the directory may be
//! on another one.

use super::layout::{Each, Layout, Part, Reader, Setup};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use waxseal_bench::Outcome;

struct Ext4 {
    root: PathBuf,
    durable: bool,
}

pub(super) fn open(dir: &Path, setup: &Setup) -> Outcome<Box<dyn Layout>> {
    Ok(Box::new(Ext4 { root: dir.to_owned(), durable: setup.durable }))
}

impl Layout for Ext4 {
    fn add_directory(&self, path: &str) -> Outcome<()> {
        Ok(std::fs::create_dir_all(self.root.join(path))?)
    }

    fn add(&self, path: &str, content: &[u8]) -> Outcome<()> {
        let mut file = File::create_new(self.root.join(path))?;
        file.write_all(content)?;
        if self.durable {
            // On ext4 this makes the name of a new file durable, too.
            file.sync_all()?;
        }
        Ok(())
    }

    fn finish(&self) -> Outcome<()> {
        Ok(rustix::fs::syncfs(File::open(&self.root)?)?)
    }

    fn reader(&self) -> Outcome<Box<dyn Reader + '_>> {
        Ok(Box::new(Ext4Reader { root: &self.root }))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(())
    }
}

struct Ext4Reader<'a> {
    root: &'a Path,
}

impl Reader for Ext4Reader<'_> {
    fn read(&mut self, path: &str) -> Outcome<Vec<u8>> {
        Ok(std::fs::read(self.root.join(path))?)
    }

    fn read_directory(&mut self, directory: &str, _: &[String], each: &mut Each<'_>) -> Outcome<()> {
        for entry in std::fs::read_dir(self.root.join(directory))? {
            let entry = entry?;
            let content = std::fs::read(entry.path())?;
            let name = entry.file_name();
            each(format!("{directory}/{}", name.to_string_lossy()).as_bytes(), &content);
        }
        Ok(())
    }

    fn traverse(&mut self, part: &Part<'_>, each: &mut Each<'_>) -> Outcome<()> {
        part.directories.iter().try_for_each(|directory| self.read_directory(&directory.path, &[], each))
    }
}
