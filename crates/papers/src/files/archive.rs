//! One archive in the format of `tar`, with the position of every file in memory.

use super::layout::{Each, Layout, Part, Reader, Setup, missing};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use waxseal_bench::Outcome;

/// Position and length of a content in the archive.
type Place = (u64, u64);

/// Bytes that a traversal reads at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Length of the header before each content.
const HEADER_BYTES: u64 = 512;

struct Archive {
    path: PathBuf,
    file: File,
    index: HashMap<String, Place>,
    /// `None` once the archive has its end.
    writer: Mutex<Option<tar::Builder<BufWriter<File>>>>,
    durable: bool,
}

pub(super) fn open(dir: &Path, setup: &Setup) -> Outcome<Box<dyn Layout>> {
    let path = dir.join("files.tar");
    let file = File::options().create(true).truncate(false).read(true).write(true).open(&path)?;
    let mut index = HashMap::new();
    for entry in tar::Archive::new(BufReader::new(&file)).entries_with_seek()? {
        let entry = entry?;
        let name = String::from_utf8(entry.path_bytes().into_owned())?;
        index.insert(name, (entry.raw_file_position(), entry.size()));
    }
    let writer = match file.metadata()?.len() {
        0 => Some(tar::Builder::new(BufWriter::new(file.try_clone()?))),
        _ => None,
    };
    Ok(Box::new(Archive { path, file, index, writer: Mutex::new(writer), durable: setup.durable }))
}

impl Layout for Archive {
    fn add(&self, path: &str, content: &[u8]) -> Outcome<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        let mut writer = self.writer.lock().map_err(|_| "a writer panicked")?;
        let writer = writer.as_mut().ok_or("the archive is complete")?;
        writer.append_data(&mut header, path, content)?;
        if self.durable {
            writer.get_mut().flush()?;
            self.file.sync_data()?;
        }
        Ok(())
    }

    fn finish(&self) -> Outcome<()> {
        if let Some(writer) = self.writer.lock().map_err(|_| "a writer panicked")?.take() {
            writer.into_inner()?.flush()?;
        }
        Ok(self.file.sync_all()?)
    }

    fn reader(&self) -> Outcome<Box<dyn Reader + '_>> {
        Ok(Box::new(ArchiveReader { archive: self }))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(())
    }
}

struct ArchiveReader<'a> {
    archive: &'a Archive,
}

impl Reader for ArchiveReader<'_> {
    fn read(&mut self, path: &str) -> Outcome<Vec<u8>> {
        let (position, bytes) = *self.archive.index.get(path).ok_or_else(|| missing(path))?;
        let mut content = vec![0; usize::try_from(bytes)?];
        self.archive.file.read_exact_at(&mut content, position)?;
        Ok(content)
    }

    fn read_directory(&mut self, _: &str, paths: &[String], each: &mut Each<'_>) -> Outcome<()> {
        paths.iter().try_for_each(|path| {
            each(path.as_bytes(), &self.read(path)?);
            Ok(())
        })
    }

    /// Streams the archive from the first file of the part.
    fn traverse(&mut self, part: &Part<'_>, each: &mut Each<'_>) -> Outcome<()> {
        let files = part.directories.iter().map(|directory| directory.files.len()).sum();
        let mut file = File::open(&self.archive.path)?;
        if let Some(directory) = part.directories.first()
            && part.number > 0
        {
            let first = super::tree::path(directory, directory.files.start);
            let (position, _) = *self.archive.index.get(&first).ok_or_else(|| missing(&first))?;
            file.seek(SeekFrom::Start(position - HEADER_BYTES))?;
        }
        let mut content = Vec::new();
        for entry in tar::Archive::new(BufReader::with_capacity(BUFFER_BYTES, file)).entries()?.take(files) {
            let mut entry = entry?;
            content.clear();
            entry.read_to_end(&mut content)?;
            each(&entry.path_bytes(), &content);
        }
        Ok(())
    }
}
