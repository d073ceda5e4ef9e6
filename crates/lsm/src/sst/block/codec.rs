//! Compression of a table's blocks: with LZ4, or with zstd and a dictionary stored in the table. See docs/format.md,
//! section 4.7.
//!
//! A block of 4 KiB contains little repetition; a dictionary holds the content that it shares with neighboring blocks.
//! A job that writes the bottom level first trains a dictionary from blocks of its inputs. Each of its output tables
//! stores a copy, so that a table depends on no other file.
//!
//! In:    bodies of blocks; or the bytes of a dictionary, whose CRC matches but whose content is arbitrary.
//! Out:   compressed bodies; or decompressed bodies of exactly the declared length.
//! Holds: no input is trusted. If a dictionary is invalid or lost, blocks compressed with it return an error; the
//!        table's other blocks stay readable.
//!
//! Without the feature `zstd` the types exist but cannot be constructed: a table that needs zstd is refused by the
//! feature bit in its header.

use std::sync::Arc;

use super::frame::{Handle, Stored, check};
use super::scan::{Keys, walk};
use crate::checksum::{Role, block_seed, hash_key};
use crate::env::File;
use crate::error::{Error, Result};
use crate::header::Header;
use crate::options::{Compression, KIB};
use crate::order::Order;
use crate::planted::{Bug, active};
use crate::seam::{Check, Companions, Protection};
use crate::sst::table::partitions::PartSource;
use crate::sst::table::table::Table;
use crate::sst::table::tail::{Parts, Tail, read_ends, read_framed};

/// Maximum length of a dictionary, both for reading and for training.
pub(in crate::sst) const MOST_BYTES: usize = 64 * KIB;

/// The first bytes of a trained dictionary.
const MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

/// Maximum length of a trained dictionary. Training aims at an eighth of the samples' length.
#[cfg(feature = "zstd")]
const TRAINED_BYTES: usize = 16 * KIB;

/// Maximum and minimum total length of the samples.
const SAMPLE_BYTES: usize = 1024 * KIB;
const LEAST_SAMPLE_BYTES: usize = 2 * KIB;

/// Approximate memory for training: the samples twice, and zstd's statistics over them.
pub const TRAINING_BYTES: usize = 2 * SAMPLE_BYTES + 12 * 1024 * KIB;

/// Number of blocks that must confirm a correction.
const CONFIRMED_BY: usize = 8;

/// Returns true if a block of `stored_len` bytes may decompress to `raw_len`: at most 255 bytes per stored byte, plus a
/// constant. Thus the bytes read bound the allocation.
pub(in crate::sst) fn may_unpack_to(raw_len: usize, stored_len: usize) -> bool {
    raw_len as u64 <= most_unpacked(stored_len as u64)
}

/// Returns the maximum decompressed length of so many stored bytes.
pub(in crate::sst) fn most_unpacked(stored_len: u64) -> u64 {
    stored_len.saturating_mul(255).saturating_add(64)
}

/// The dictionary of a table, ready for compression and decompression.
pub struct Dictionary {
    bytes: Vec<u8>,
    #[cfg(feature = "zstd")]
    unpack: Option<zstd::zstd_safe::DDict<'static>>,
}

impl Dictionary {
    /// Prepares a dictionary of any content, up to the maximum length.
    pub(in crate::sst) fn of(bytes: &[u8]) -> Result<Dictionary> {
        if bytes.is_empty() || bytes.len() > MOST_BYTES {
            return Err(Error::structural("a dictionary has another length than one may have"));
        }
        Ok(Dictionary {
            #[cfg(feature = "zstd")]
            unpack: zstd::zstd_safe::DDict::try_create(bytes),
            bytes: bytes.to_vec(),
        })
    }

    /// Returns the dictionary of a table whose own cannot be read: every decompression with it fails.
    pub(in crate::sst) fn lost() -> Dictionary {
        Dictionary {
            bytes: Vec::new(),
            #[cfg(feature = "zstd")]
            unpack: None,
        }
    }

    /// Replaces a corrupt dictionary by a lost one: this loses the blocks that need it, but not the table. Errors: any
    /// error other than corruption.
    pub(in crate::sst) fn or_lost(read: Result<Dictionary>) -> Result<Dictionary> {
        match read {
            Err(error) if error.is_corruption() => Ok(Dictionary::lost()),
            read => read,
        }
    }

    /// Returns true if this is a valid dictionary in the trainer's format. Arbitrary bytes are unlikely to pass.
    pub(in crate::sst) fn is_trained(&self) -> bool {
        #[cfg(feature = "zstd")]
        let loads = self.unpack.is_some();
        #[cfg(not(feature = "zstd"))]
        let loads = false;
        loads && self.bytes.starts_with(&MAGIC)
    }

    /// Returns false for a lost dictionary.
    pub(in crate::sst) fn is_whole(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Trains a dictionary for blocks like the samples; `None` if there are too few samples.
    fn trained(samples: &[u8], lengths: &[usize]) -> Option<Dictionary> {
        if samples.len() < LEAST_SAMPLE_BYTES || lengths.iter().sum::<usize>() != samples.len() {
            return None;
        }
        let bytes = train(samples, lengths)?;
        Dictionary::of(&bytes).ok()
    }

    /// Returns the bytes as stored in the table.
    pub(in crate::sst) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes to store in a table that is compressed with this dictionary.
    pub(in crate::sst) fn to_bring(&self) -> &[u8] {
        if active(Bug::DictionaryOfAnotherTable) { &self.bytes[self.bytes.len() / 2..] } else { &self.bytes }
    }

    /// Its size in memory.
    pub(in crate::sst) fn memory(&self) -> usize {
        #[cfg(feature = "zstd")]
        let unpack = self.unpack.as_ref().map_or(0, |unpack| unpack.sizeof());
        #[cfg(not(feature = "zstd"))]
        let unpack = 0;
        self.bytes.len() + unpack
    }
}

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

/// Training samples. Every eighth block is kept back to evaluate the result.
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

/// Corrects bit flips in a dictionary by its CRC. Returns the dictionary and its offset if blocks compressed with it
/// confirm the correction by all their seals.
#[cold]
pub(in crate::sst) fn corrected(
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

/// Compresses the blocks of one table, or the values of one blob file, in sequence.
pub(crate) struct Packer {
    compression: Compression,
    dictionary: Option<Arc<Dictionary>>,
    #[cfg(feature = "zstd")]
    context: Option<zstd::zstd_safe::CCtx<'static>>,
}

impl Packer {
    /// Creates a packer without a dictionary.
    pub(crate) fn new(compression: Compression) -> Packer {
        Packer {
            compression,
            dictionary: None,
            #[cfg(feature = "zstd")]
            context: None,
        }
    }

    /// Sets the dictionary, before any block is compressed. Only zstd uses it.
    pub(in crate::sst) fn with(self, dictionary: Option<Arc<Dictionary>>) -> Packer {
        Packer { dictionary: dictionary.filter(|_| self.uses_zstd()), ..self }
    }

    /// Returns the dictionary that the table must store.
    pub(in crate::sst) fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.dictionary.as_ref()
    }

    /// Returns true if blocks may be compressed at all.
    pub(crate) fn packs(&self) -> bool {
        self.compression != Compression::None
    }

    /// Returns true if blocks may be compressed with zstd.
    pub(crate) fn uses_zstd(&self) -> bool {
        matches!(self.compression, Compression::Zstd(_))
    }

    /// Appends `body` compressed and returns its codec. If compression saves less than an eighth, appends nothing.
    pub(in crate::sst) fn pack(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<Option<u8>> {
        match self.compression {
            Compression::None => Ok(None),
            Compression::Lz4 => super::frame::pack_lz4(body, out),
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
            return Ok(Some(super::frame::ZSTD));
        }
        out.truncate(start);
        // If zstd exceeds the compression ratio that readers accept, use LZ4, whose ratio is within that limit.
        if length < body.len() / 8 && cfg!(feature = "lz4") { super::frame::pack_lz4(body, out) } else { Ok(None) }
    }

    #[cfg(not(feature = "zstd"))]
    fn pack_zstd(&mut self, _: i32, _: &[u8], _: &mut Vec<u8>) -> Result<Option<u8>> {
        Err(Error::invalid("this build is one without the feature `zstd`"))
    }
}

/// Creates a context for a level and a dictionary. Frames do not store a dictionary id, since each table has its own
/// dictionary.
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

/// Decompresses a frame to exactly the length of `out`.
#[cfg(feature = "zstd")]
pub(in crate::sst) fn unpack_zstd(packed: &[u8], dictionary: Option<&Dictionary>, out: &mut [u8]) -> Result<()> {
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
pub(in crate::sst) fn unpack_zstd(_: &[u8], _: Option<&Dictionary>, _: &mut [u8]) -> Result<()> {
    Err(Error::of(
        crate::error::ErrorKind::FormatTooNew,
        "a block is packed with zstd, and this build is one without the feature `zstd`",
    ))
}

/// Returns the decompressed length that a frame declares, if it is within the accepted ratio.
#[cfg(feature = "zstd")]
pub(in crate::sst) fn zstd_length(packed: &[u8]) -> Option<usize> {
    let length = zstd::zstd_safe::get_frame_content_size(packed).ok()??;
    usize::try_from(length).ok().filter(|length| may_unpack_to(*length, packed.len()))
}

#[cfg(not(feature = "zstd"))]
pub(in crate::sst) fn zstd_length(_: &[u8]) -> Option<usize> {
    None
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dictionary").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}
