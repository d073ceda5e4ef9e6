//! One archive in the format of `tar`, and a file with the position of every content, which is in memory while the
//! archive is open. An index that is made from the archive at each open would read the archive into the page cache.

use super::layout::{Each, Layout, Part, Reader, Setup, missing};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use waxseal_bench::Outcome;

/// Position and length of a content in the archive.
type Place = (u64, u64);

/// Bytes that a traversal reads at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Length of the header before each content, and of the blocks that a content fills. Paths of the tree are short, so a
/// file has one header.
const BLOCK_BYTES: u64 = 512;

struct Archive {
    path: PathBuf,
    file: File,
    index: HashMap<String, Place>,
    /// `None` once the archive has its end.
    writer: Mutex<Option<Writer>>,
    durable: bool,
}

/// An archive that is being written.
struct Writer {
    builder: tar::Builder<BufWriter<File>>,
    /// Not durable before the archive is complete: headers in the archive have the same positions.
    index: BufWriter<File>,
    /// End of the last file.
    end: u64,
}

pub(super) fn open(dir: &Path, setup: &Setup) -> Outcome<Box<dyn Layout>> {
    let path = dir.join("files.tar");
    let file = File::options().create(true).truncate(false).read(true).write(true).open(&path)?;
    let index_path = dir.join("files.index");
    let mut index = HashMap::new();
    let writer = match file.metadata()?.len() {
        0 => Some(Writer {
            builder: tar::Builder::new(BufWriter::new(file.try_clone()?)),
            index: BufWriter::new(File::create(index_path)?),
            end: 0,
        }),
        _ => {
            for line in BufReader::new(File::open(index_path)?).lines() {
                let line = line?;
                let mut fields = line.split('\t');
                let mut next = || fields.next().ok_or("the index of the archive is damaged");
                index.insert(next()?.to_owned(), (next()?.parse()?, next()?.parse()?));
            }
            None
        }
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
        writer.builder.append_data(&mut header, path, content)?;
        writeln!(writer.index, "{path}\t{}\t{}", writer.end + BLOCK_BYTES, content.len())?;
        writer.end += BLOCK_BYTES + (content.len() as u64).next_multiple_of(BLOCK_BYTES);
        if self.durable {
            writer.builder.get_mut().flush()?;
            self.file.sync_data()?;
        }
        Ok(())
    }

    fn finish(&self) -> Outcome<()> {
        if let Some(mut writer) = self.writer.lock().map_err(|_| "a writer panicked")?.take() {
            writer.builder.into_inner()?.flush()?;
            writer.index.flush()?;
            writer.index.get_ref().sync_all()?;
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
            file.seek(SeekFrom::Start(position - BLOCK_BYTES))?;
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
