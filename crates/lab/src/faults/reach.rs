//! Finds the parts of a record in a file of the stage, and writes damaged bytes there.

use std::ops::Range;
use std::path::PathBuf;

use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::record::{Kind, companion};

use super::Target;
use super::anatomy::{Entry, spans};
use super::stage::{DIR, Stage};
use waxseal_meta::annotations::STAMP;

/// Positions of the parts of a logged operation.
#[derive(Clone, Debug)]
pub(super) struct Spans {
    pub(super) frame: Range<usize>,
    pub(super) kind: usize,
    pub(super) lengths: Range<usize>,
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
    pub(super) seal: Range<usize>,
    pub(super) payload: Option<Range<usize>>,
    pub(super) stamp: Option<Range<usize>>,
    pub(super) seqno: Option<Range<usize>>,
}

impl Spans {
    pub(super) fn of(&self, target: Target) -> Option<Range<usize>> {
        match target {
            Target::Key => Some(self.key.clone()),
            Target::Value => Some(self.value.clone()),
            Target::Kind => Some(self.kind..self.kind + 1),
            Target::Seqno => self.seqno.clone(),
            Target::Seal => Some(self.seal.clone()),
            Target::Lengths => Some(self.lengths.clone()),
            Target::Payload => self.payload.clone(),
            Target::Stamp => self.stamp.clone(),
            Target::Any | Target::Zeroed => Some(self.frame.clone()),
            _ => None,
        }
    }
}

/// Returns the parts of the single operation with this key and value: kind, family, two lengths, key, value, seal, and
/// other companions.
pub(super) fn operation(bytes: &[u8], key: &[u8], value: &[u8]) -> Option<Spans> {
    let wanted = [key, value].concat();
    let at = bytes.windows(wanted.len()).position(|window| window == wanted)?;
    let head = at.checked_sub(4)?;
    let value_at = at + key.len();
    let seal = value_at + value.len() + 1;
    let beside = spans(bytes, seal - 1..bytes.len());
    let of = |kind: u8| beside.iter().find(|(of, _)| *of == kind).map(|(_, span)| span.clone());
    let end = beside.last().map_or(seal + 8, |(_, span)| span.end);
    (bytes[head] == Kind::Put as u8 && seal + 8 <= bytes.len()).then(|| Spans {
        frame: head..end,
        kind: head,
        lengths: head + 2..at,
        key: at..value_at,
        value: value_at..value_at + value.len(),
        seal: seal..seal + 8,
        payload: of(companion::LIST),
        stamp: of(STAMP),
        seqno: None,
    })
}

/// Returns the operations of a segment or ring that the model knows. Each frame has one operation, behind a header of
/// 24 bytes and a count.
pub(super) fn logged(bytes: &[u8], stage: &Stage) -> Vec<Spans> {
    let known = stage.model.iter().filter_map(|(key, value)| operation(bytes, key, value.as_ref()?));
    known
        .filter_map(|spans| {
            let frame = spans.frame.start.checked_sub(25)?;
            Some(Spans { frame: frame..spans.frame.end, seqno: Some(frame + 8..frame + 15), ..spans })
        })
        .collect()
}

pub(super) fn span_of(entry: &Entry, target: Target) -> Option<Range<usize>> {
    match target {
        Target::Key => Some(entry.suffix.clone()),
        Target::Value => Some(entry.value.clone()),
        Target::Kind => Some(entry.kind..entry.kind + 1),
        Target::Seqno => Some(entry.seqno.clone()),
        Target::Seal => entry.seal(),
        Target::Payload => entry.beside(companion::LIST),
        Target::Stamp => entry.beside(STAMP),
        Target::Lengths => Some(entry.lengths.clone()),
        _ => None,
    }
}

pub(super) fn read(stage: &Stage, path: &PathBuf) -> Result<Vec<u8>> {
    stage.disk.read_all(path).map_err(|error| Error::io("reading a file of the stage", error))
}

/// Writes damaged bytes to a file, even while the store has it open.
pub(super) fn write(stage: &Stage, path: &PathBuf, whole: &[u8], damaged: &[u8]) -> Result<()> {
    for (at, (old, new)) in whole.iter().zip(damaged).enumerate() {
        for bit in (0..8).filter(|bit| (old ^ new) >> bit & 1 == 1) {
            let flipped = stage.disk.flip(path, at as u64 * 8 + bit);
            flipped.map_err(|error| Error::io("damaging a file of the stage", error))?;
        }
    }
    Ok(())
}

/// Damages the ring like the segment, where it holds the same bytes.
pub(super) fn both(stage: &Stage, whole: &[u8], damaged: &[u8]) -> Result<()> {
    let Some(first) = whole.iter().zip(damaged).position(|(old, new)| old != new) else { return Ok(()) };
    let start = first.saturating_sub(16);
    let sample = &whole[start..(first + 16).min(whole.len())];
    for name in stage.disk.files(DIR).into_iter().filter(|name| name.ends_with(".ring")) {
        let path = PathBuf::from(DIR).join(name);
        let ring = read(stage, &path)?;
        if let Some(at) = ring.windows(sample.len()).position(|window| window == sample) {
            let mut struck = ring.clone();
            for (offset, (old, new)) in whole[start..].iter().zip(&damaged[start..]).enumerate() {
                if old != new
                    && let Some(byte) = struck.get_mut(at + offset)
                {
                    *byte ^= old ^ new;
                }
            }
            write(stage, &path, &ring, &struck)?;
        }
    }
    Ok(())
}

pub(super) fn name_of(path: &std::path::Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
