//! Packing the blocks of a table: with LZ4, or with zstd and a dictionary that the table brings along. docs/format.md, section 4.7.
//!
//! A block of 4 KiB holds little that repeats; what it shares with the blocks beside it stands in the dictionary. A job that writes the
//! bottom level trains one from blocks of its inputs before it writes, and each of its tables keeps a copy, so that a table
//! needs no other file.
//!
//! In:    bodies of blocks; or the bytes of a dictionary that a CRC covers, which may still be anything.
//! Out:   packed bodies; unpacked ones, exactly as long as they were said to be.
//! Holds: nothing here is believed. A dictionary that does not load, or is lost, is an error of the blocks that need it; the others of
//!        the table are read as ever.
//!
//! Without the feature `zstd` the types are there and nothing can be made of them: a table that needs them is refused by the feature
//! bit in its header.

use std::sync::Arc;

use super::ends::{Parts, Tail, read_ends, read_framed};
use super::format::{Handle, Stored, check};
use super::guide::PartSource;
use super::steps::{Keys, walk};
use super::table::Table;
use crate::checksum::{Role, block_seed, hash_key};
use crate::env::File;
use crate::error::{Error, Result};
use crate::header::Header;
use crate::options::{Compression, KIB};
use crate::order::Order;
use crate::planted::{Bug, active};
use crate::seam::{Check, Companions, Protection};

/// A dictionary is at most so long: the most that is read, and the most that is trained.
pub(super) const MOST_BYTES: usize = 64 * KIB;

/// What a trained dictionary begins with.
const MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

/// Trained to an eighth of the samples, but not to more than this.
#[cfg(feature = "zstd")]
const TRAINED_BYTES: usize = 16 * KIB;

/// Samples at most, and at least.
const SAMPLE_BYTES: usize = 1024 * KIB;
const LEAST_SAMPLE_BYTES: usize = 2 * KIB;

/// What training takes in memory, about: samples twice, and zstd's counts of what is in them.
pub const TRAINING_BYTES: usize = 2 * SAMPLE_BYTES + 12 * 1024 * KIB;

/// So many blocks confirm a correction.
const CONFIRMED_BY: usize = 8;

/// A block does not unpack to more than so many bytes for each of its own, and as many again: what may be allocated for it is
/// bounded by what was read.
pub(super) fn may_unpack_to(raw_len: usize, stored_len: usize) -> bool {
    raw_len as u64 <= most_unpacked(stored_len as u64)
}

/// What so many bytes of a file unpack to at most.
pub(super) fn most_unpacked(stored_len: u64) -> u64 {
    stored_len.saturating_mul(255).saturating_add(64)
}

/// The dictionary of a table, ready for both directions.
pub struct Dictionary {
    bytes: Vec<u8>,
    #[cfg(feature = "zstd")]
    unpack: Option<zstd::zstd_safe::DDict<'static>>,
}

impl Dictionary {
    /// Makes one ready; any bytes will do, but not more than there may be.
    pub(super) fn of(bytes: &[u8]) -> Result<Dictionary> {
        if bytes.is_empty() || bytes.len() > MOST_BYTES {
            return Err(Error::structural("a dictionary has another length than one may have"));
        }
        Ok(Dictionary {
            #[cfg(feature = "zstd")]
            unpack: zstd::zstd_safe::DDict::try_create(bytes),
            bytes: bytes.to_vec(),
        })
    }

    /// That of a table whose own cannot be read: nothing unpacks with it.
    pub(super) fn lost() -> Dictionary {
        Dictionary {
            bytes: Vec::new(),
            #[cfg(feature = "zstd")]
            unpack: None,
        }
    }

    /// What was read of it, or that it is lost: its blocks are lost with it, not the table. Errors: those that are no corruption.
    pub(super) fn or_lost(read: Result<Dictionary>) -> Result<Dictionary> {
        match read {
            Err(error) if error.is_corruption() => Ok(Dictionary::lost()),
            read => read,
        }
    }

    /// True if it is one as the trainer makes them, and loads: no other bytes are likely to.
    pub(super) fn is_trained(&self) -> bool {
        #[cfg(feature = "zstd")]
        let loads = self.unpack.is_some();
        #[cfg(not(feature = "zstd"))]
        let loads = false;
        loads && self.bytes.starts_with(&MAGIC)
    }

    /// False if it cannot be read.
    pub(super) fn is_whole(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// One that fits blocks like these; none if there are too few to learn from.
    fn trained(samples: &[u8], lengths: &[usize]) -> Option<Dictionary> {
        if samples.len() < LEAST_SAMPLE_BYTES || lengths.iter().sum::<usize>() != samples.len() {
            return None;
        }
        let bytes = train(samples, lengths)?;
        Dictionary::of(&bytes).ok()
    }

    /// As it stands in the table.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What a table that is packed with it brings along.
    pub(super) fn to_bring(&self) -> &[u8] {
        if active(Bug::DictionaryOfAnotherTable) { &self.bytes[self.bytes.len() / 2..] } else { &self.bytes }
    }

    /// Bytes in memory.
    pub(super) fn memory(&self) -> usize {
        #[cfg(feature = "zstd")]
        let unpack = self.unpack.as_ref().map_or(0, |unpack| unpack.sizeof());
        #[cfg(not(feature = "zstd"))]
        let unpack = 0;
        self.bytes.len() + unpack
    }
}

/// A dictionary for a job that packs what stands in these tables into tables of about `table_bytes`, each of which brings it along; none if it
/// does not pack with zstd, there is too little to learn from, or too little to be saved. Reads some blocks of each, spread over it; one that cannot be read teaches nothing, and is met again by the job itself.
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
        // As many of its blocks as its share of all, each so far from the next; blocks are taken to be of one size.
        let wanted = (SAMPLE_BYTES / raw(0).max(1)).clamp(1, 4096);
        for number in (0..table.blocks()).step_by((all / wanted).max(1)) {
            let before = samples.len();
            if samples.len() + raw(number) <= SAMPLE_BYTES && table.sample(number, &mut samples).is_ok() {
                lengths.push(samples.len() - before);
            } else {
                samples.truncate(before);
            }
        }
    }
    let lesson = Lesson::of(&samples, &lengths);
    let dictionary = Dictionary::trained(&lesson.samples, &lesson.lengths).map(Arc::new)?;
    let raw = samples.len() as u64 * (all / lengths.len().max(1)).max(1) as u64;
    lesson.pays(compression, &dictionary, raw.min(table_bytes)).then_some(dictionary)
}

/// Blocks to learn from, and every eighth kept back to see what was learned.
struct Lesson<'a> {
    samples: Vec<u8>,
    lengths: Vec<usize>,
    kept_back: Vec<&'a [u8]>,
}

impl<'a> Lesson<'a> {
    fn of(all: &'a [u8], lengths: &[usize]) -> Lesson<'a> {
        let mut lesson = Lesson { samples: Vec::new(), lengths: Vec::new(), kept_back: Vec::new() };
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

    /// Whether a dictionary saves more than it takes in `raw` bytes of blocks like those that were kept back.
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

/// A dictionary whose bits were hit, corrected by its CRC, and where it stands; if blocks that are packed with it confirm that by every
/// seal of theirs.
#[cold]
pub(super) fn corrected(
    name: &str,
    file: &dyn File,
    parts: &Parts,
    order: &Order,
    keeper: &dyn Companions,
) -> Option<(Dictionary, u64)> {
    let size = file.len().ok()?;
    let (Header { uid, .. }, footer) = read_ends(name, file, size, &Tail::read(file, size)).ok()?;
    let mut framed = read_framed(name, file, &footer.side).ok()?;
    let source = PartSource { name, file, uid, order, filtered: false };
    let of = |framed: &[u8]| Dictionary::of(framed.get(..footer.side.stored_len as usize)?).ok();
    let judged = |handle: &Handle, dictionary: &Dictionary| {
        let framed = read_framed(name, file, handle).ok()?;
        let (stored, codec) = check(&framed, &uid, Role::Data, handle).ok()?;
        let (stored, mut scratch) = (Stored::split(stored, codec).ok().filter(Stored::is_zstd)?, Vec::new());
        let Ok(body) = stored.body(handle.raw_len, &mut scratch, Some(dictionary)) else { return Some(false) };
        let mut sound = true;
        let walked = walk(body, stored.column, parts.base, order, &mut Keys::default(), |_, record| {
            sound &= keeper.verify(record, hash_key(record.key), Protection::Complete) == Check::Validated;
            Ok(())
        });
        Some(walked.is_ok() && sound)
    };
    let mut confirm = |framed: &[u8]| {
        let Some(dictionary) = of(framed) else { return false };
        let ranges = parts.guide.spans().iter().filter_map(|span| source.read(span).0.ok());
        let handles = parts.guide.loaded().flat_map(|part| part.index.handles().to_vec());
        let handles = handles.chain(ranges.flat_map(|index| index.handles().to_vec()));
        let mut judged = handles.filter_map(|handle| judged(&handle, &dictionary)).take(CONFIRMED_BY);
        judged.next() == Some(true) && judged.all(|sound| sound)
    };
    let seed = block_seed(&uid, footer.side.offset, Role::Side);
    let is_corrected = keeper.correct(&mut framed, seed, &mut confirm);
    is_corrected.then(|| of(&framed)).flatten().map(|dictionary| (dictionary, footer.side.offset))
}

impl Table {
    /// Appends the body of a block.
    fn sample(&self, number: usize, out: &mut Vec<u8>) -> Result<()> {
        let handle = self.handle(number)?;
        let framed = read_framed(self.name(), &*self.file, &handle)?;
        let (stored, codec) = check(&framed, &self.expected.uid, Role::Data, &handle)?;
        let mut scratch = Vec::new();
        let body = Stored::split(stored, codec)?.body(handle.raw_len, &mut scratch, self.dictionary.as_deref())?;
        out.extend_from_slice(body);
        Ok(())
    }
}

/// Packs the blocks of one table, or the values of one file, one after the other.
pub(crate) struct Packer {
    compression: Compression,
    dictionary: Option<Arc<Dictionary>>,
    #[cfg(feature = "zstd")]
    context: Option<zstd::zstd_safe::CCtx<'static>>,
}

impl Packer {
    /// One without a dictionary.
    pub(crate) fn new(compression: Compression) -> Packer {
        Packer {
            compression,
            dictionary: None,
            #[cfg(feature = "zstd")]
            context: None,
        }
    }

    /// The same with one, before anything was packed. Only zstd takes it.
    pub(super) fn with(self, dictionary: Option<Arc<Dictionary>>) -> Packer {
        Packer { dictionary: dictionary.filter(|_| self.uses_zstd()), ..self }
    }

    /// What the table has to bring along.
    pub(super) fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.dictionary.as_ref()
    }

    /// Whether anything may come out shorter than it is.
    pub(crate) fn packs(&self) -> bool {
        self.compression != Compression::None
    }

    /// Whether blocks may come out as zstd frames.
    pub(crate) fn uses_zstd(&self) -> bool {
        matches!(self.compression, Compression::Zstd(_))
    }

    /// Appends `body` packed and answers its codec; or appends nothing if that does not save an eighth.
    pub(super) fn pack(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<Option<u8>> {
        match self.compression {
            Compression::None => Ok(None),
            Compression::Lz4 => super::format::pack_lz4(body, out),
            Compression::Zstd(level) => self.pack_zstd(level, body, out),
        }
    }

    #[cfg(feature = "zstd")]
    fn pack_zstd(&mut self, level: i32, body: &[u8], out: &mut Vec<u8>) -> Result<Option<u8>> {
        if self.context.is_none() {
            self.context = Some(context(level, self.dictionary.as_deref())?);
        }
        let Some(context) = &mut self.context else { return Ok(None) };
        let start = out.len();
        out.resize(start + zstd::zstd_safe::compress_bound(body.len()), 0);
        let length = context.compress2(&mut out[start..], body).map_err(|code| refused("packing", code))?;
        out.truncate(start + length);
        if length <= body.len() - body.len() / 8 && may_unpack_to(body.len(), length) {
            return Ok(Some(super::format::ZSTD));
        }
        out.truncate(start);
        // What zstd packs better than a reader may believe, LZ4 packs as far as it may.
        if length < body.len() / 8 && cfg!(feature = "lz4") { super::format::pack_lz4(body, out) } else { Ok(None) }
    }

    #[cfg(not(feature = "zstd"))]
    fn pack_zstd(&mut self, _: i32, _: &[u8], _: &mut Vec<u8>) -> Result<Option<u8>> {
        Err(Error::invalid("this build is one without the feature `zstd`"))
    }
}

/// A context for a level and a dictionary. The frames do not name the dictionary: the table does.
#[cfg(feature = "zstd")]
fn context(level: i32, dictionary: Option<&Dictionary>) -> Result<zstd::zstd_safe::CCtx<'static>> {
    use zstd::zstd_safe::{CCtx, CParameter};
    let mut context = CCtx::try_create().ok_or_else(|| Error::invalid("no memory for packing with zstd"))?;
    let set = context
        .set_parameter(CParameter::CompressionLevel(level))
        .and_then(|_| context.set_parameter(CParameter::DictIdFlag(false)))
        .and_then(|_| dictionary.map_or(Ok(0), |dictionary| context.load_dictionary(dictionary.bytes())));
    set.map(|_| context).map_err(|code| refused("setting up", code))
}

#[cfg(feature = "zstd")]
#[cold]
fn refused(what: &str, code: usize) -> Error {
    Error::invalid(format!("{what} with zstd: {}", zstd::zstd_safe::get_error_name(code)))
}

#[cfg(feature = "zstd")]
fn train(samples: &[u8], lengths: &[usize]) -> Option<Vec<u8>> {
    let mut bytes = vec![0; TRAINED_BYTES.min(samples.len() / 8)];
    let length = zstd::zstd_safe::train_from_buffer(&mut bytes[..], samples, lengths).ok()?;
    bytes.truncate(length);
    Some(bytes)
}

#[cfg(not(feature = "zstd"))]
fn train(_: &[u8], _: &[usize]) -> Option<Vec<u8>> {
    None
}

/// Unpacks a frame to exactly the length of `out`.
#[cfg(feature = "zstd")]
pub(super) fn unpack_zstd(packed: &[u8], dictionary: Option<&Dictionary>, out: &mut [u8]) -> Result<()> {
    use std::cell::RefCell;
    use zstd::zstd_safe::DCtx;
    thread_local! {
        static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
    }
    CONTEXT.with_borrow_mut(|context| {
        if context.is_none() {
            *context = DCtx::try_create();
        }
        let Some(context) = context else { return Err(Error::invalid("no memory for unpacking with zstd")) };
        let wanted = out.len();
        let length = match dictionary.map(|dictionary| &dictionary.unpack) {
            None => context.decompress(out, packed),
            Some(Some(dictionary)) => context.decompress_using_ddict(out, packed, dictionary),
            Some(None) => return Err(Error::structural("a block is packed with a dictionary that is damaged")),
        };
        match length {
            Ok(length) if length == wanted => Ok(()),
            _ => Err(Error::structural("a block does not unpack to what its handle says")),
        }
    })
}

#[cfg(not(feature = "zstd"))]
pub(super) fn unpack_zstd(_: &[u8], _: Option<&Dictionary>, _: &mut [u8]) -> Result<()> {
    Err(Error::of(
        crate::error::ErrorKind::FormatTooNew,
        "a block is packed with zstd, and this build is one without the feature `zstd`",
    ))
}

/// The length that a frame says it unpacks to, as far as it may be believed.
#[cfg(feature = "zstd")]
pub(super) fn zstd_length(packed: &[u8]) -> Option<usize> {
    let length = zstd::zstd_safe::get_frame_content_size(packed).ok()??;
    usize::try_from(length).ok().filter(|length| may_unpack_to(*length, packed.len()))
}

#[cfg(not(feature = "zstd"))]
pub(super) fn zstd_length(_: &[u8]) -> Option<usize> {
    None
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dictionary").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}
