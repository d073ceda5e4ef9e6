//! Training of a dictionary for the tables that a job writes. See docs/format.md, section 4.7.
//!
//! A job that writes the bottom level first trains a dictionary from blocks of its inputs.

use std::sync::Arc;

use super::table::Table;
use crate::checksum::Role;
use crate::error::Result;
use crate::options::{Compression, KIB};
use crate::sst::block::codec::{Dictionary, Packer};
use crate::sst::block::frame::{StoredBlock, check_frame, read_framed};
use crate::zstd;

/// Maximum length of a trained dictionary. Training aims at an eighth of the samples' length.
const TRAINED_BYTES: usize = 16 * KIB;

/// Maximum and minimum total length of the samples.
const SAMPLE_BYTES: usize = 1024 * KIB;
const LEAST_SAMPLE_BYTES: usize = 2 * KIB;

/// Approximate memory for training: the samples twice, and zstd's statistics over them.
pub const TRAINING_BYTES: usize = 2 * SAMPLE_BYTES + 12 * 1024 * KIB;

/// Trains a dictionary for a job that merges `tables` into tables of about `table_bytes`, each of which stores a copy.
/// Returns `None` if the job does not compress with zstd, the samples are too few, or the dictionary would not save its
/// own size. Samples blocks evenly spread over each table. A block that cannot be read is skipped here; the job itself
/// reports it.
pub fn train_for<'a>(
    compression: Compression,
    table_bytes: u64,
    tables: impl Iterator<Item = &'a Arc<Table>> + Clone,
) -> Option<Arc<Dictionary>> {
    if !matches!(compression, Compression::Zstd(_)) {
        return None;
    }
    let all: usize = tables.clone().map(|table| table.blocks()).sum();
    let (mut samples, mut lengths) = (Vec::new(), Vec::new());
    for table in tables {
        let raw = |number: usize| table.handle(number).map_or(0, |handle| handle.raw_len as usize);
        // Sample each table in proportion to its share of the blocks, evenly spaced, assuming that blocks have equal
        // size.
        let wanted = (SAMPLE_BYTES / raw(0).max(1)).clamp(1, 4096);
        for number in (0..table.blocks()).step_by((all / wanted).max(1)) {
            let before = samples.len();
            if samples.len() + raw(number) <= SAMPLE_BYTES && sample(table, number, &mut samples).is_ok() {
                lengths.push(samples.len() - before);
            } else {
                samples.truncate(before);
            }
        }
    }
    let lesson = TrainingSamples::of(&samples, &lengths);
    let dictionary = trained(&lesson.samples, &lesson.lengths).map(Arc::new)?;
    let raw = samples.len() as u64 * (all / lengths.len().max(1)).max(1) as u64;
    lesson.pays(compression, &dictionary, raw.min(table_bytes)).then_some(dictionary)
}

/// Training samples. Every eighth block is kept back to evaluate the result.
struct TrainingSamples<'a> {
    samples: Vec<u8>,
    lengths: Vec<usize>,
    kept_back: Vec<&'a [u8]>,
}

impl<'a> TrainingSamples<'a> {
    fn of(all: &'a [u8], lengths: &[usize]) -> TrainingSamples<'a> {
        let mut lesson = TrainingSamples { samples: Vec::new(), lengths: Vec::new(), kept_back: Vec::new() };
        let mut rest = all;
        for (place, length) in lengths.iter().enumerate() {
            let Some((one, behind)) = rest.split_at_checked(*length) else { break };
            rest = behind;
            if place % 8 == 7 {
                lesson.kept_back.push(one);
            } else {
                lesson.samples.extend_from_slice(one);
                lesson.lengths.push(*length);
            }
        }
        lesson
    }

    /// Returns true if the dictionary saves more than its own size in `raw` bytes of blocks like those kept back.
    fn pays(&self, compression: Compression, dictionary: &Arc<Dictionary>, raw: u64) -> bool {
        let mut without = Packer::new(compression);
        let mut with = Packer::new(compression).with(Some(dictionary.clone()));
        let mut out = Vec::new();
        let mut packed = |packer: &mut Packer, body: &[u8]| {
            out.clear();
            if matches!(packer.pack(body, &mut out), Ok(Some(_))) { out.len() } else { body.len() }
        };
        let (mut saved, mut seen) = (0, 0);
        for body in &self.kept_back {
            saved += packed(&mut without, body).saturating_sub(packed(&mut with, body));
            seen += body.len();
        }
        seen > 0 && saved as u64 * raw / seen as u64 > dictionary.bytes().len() as u64
    }
}

/// Trains a dictionary for blocks like the samples; `None` if there are too few samples.
fn trained(samples: &[u8], lengths: &[usize]) -> Option<Dictionary> {
    if samples.len() < LEAST_SAMPLE_BYTES || lengths.iter().sum::<usize>() != samples.len() {
        return None;
    }
    let bytes = zstd::train(TRAINED_BYTES.min(samples.len() / 8), samples, lengths)?;
    Dictionary::of(&bytes).ok()
}

/// Appends the body of a block.
fn sample(table: &Table, number: usize, out: &mut Vec<u8>) -> Result<()> {
    let handle = table.handle(number)?;
    let framed = read_framed(table.name(), &*table.file, &handle)?;
    let (stored, codec) = check_frame(&framed, &table.expected.uid, Role::Data, &handle)?;
    let mut scratch = Vec::new();
    let body = StoredBlock::split(stored, codec)?.body(handle.raw_len, &mut scratch, table.dictionary.as_deref())?;
    out.extend_from_slice(body);
    Ok(())
}
