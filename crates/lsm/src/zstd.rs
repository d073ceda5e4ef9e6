//! zstd, as the library provides it: the one file that calls it. A build without the feature `zstd` has the file
//! `zstd_absent.rs` in its place, except for the engine's unit tests, which always have zstd.
//!
//! In:    bytes to compress; or frames and dictionaries, whose content is arbitrary.
//! Out:   frames; or bytes of exactly the length that the caller expects.

use std::cell::RefCell;

use ::zstd::zstd_safe::{self, CCtx, CParameter, DCtx, DDict};

use crate::error::{Error, Result};

/// True if this build reads and writes zstd.
pub(crate) const AVAILABLE: bool = true;

/// A dictionary that is ready for decompression.
pub(crate) struct LoadedDictionary(DDict<'static>);

impl LoadedDictionary {
    /// Prepares a dictionary. Returns `None` if zstd cannot load it.
    pub(crate) fn load(bytes: &[u8]) -> Option<LoadedDictionary> {
        DDict::try_create(bytes).map(LoadedDictionary)
    }

    /// Its size in memory.
    pub(crate) fn memory(&self) -> usize {
        self.0.sizeof()
    }
}

/// Compresses many inputs with one level and dictionary. The context is created at the first input.
#[derive(Default)]
pub(crate) struct Compressor(Option<CCtx<'static>>);

impl Compressor {
    /// Appends one frame to `out` and returns its length. Level and dictionary must be the same for all calls. Errors:
    /// no memory, or a level that zstd does not have.
    pub(crate) fn compress(
        &mut self,
        level: i32,
        dictionary: Option<&[u8]>,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<usize> {
        if self.0.is_none() {
            self.0 = Some(context(level, dictionary)?);
        }
        let Some(context) = &mut self.0 else { return Ok(0) };
        let start = out.len();
        out.resize(start + zstd_safe::compress_bound(body.len()), 0);
        let length = context.compress2(&mut out[start..], body).map_err(|code| refused("packing", code))?;
        out.truncate(start + length);
        Ok(length)
    }
}

/// Creates a context for a level and a dictionary. Frames do not store a dictionary id, since each table has its own
/// dictionary.
fn context(level: i32, dictionary: Option<&[u8]>) -> Result<CCtx<'static>> {
    let mut context = CCtx::try_create().ok_or_else(|| Error::invalid("no memory for packing with zstd"))?;
    let set = context
        .set_parameter(CParameter::CompressionLevel(level))
        .and_then(|_| context.set_parameter(CParameter::DictIdFlag(false)))
        .and_then(|_| dictionary.map_or(Ok(0), |dictionary| context.load_dictionary(dictionary)));
    set.map(|_| context).map_err(|code| refused("setting up", code))
}

#[cold]
fn refused(what: &str, code: usize) -> Error {
    Error::invalid(format!("{what} with zstd: {}", zstd_safe::get_error_name(code)))
}

/// Decompresses a frame to exactly the length of `out`. Errors: any other length, damage, no memory.
pub(crate) fn decompress(packed: &[u8], dictionary: Option<&LoadedDictionary>, out: &mut [u8]) -> Result<()> {
    thread_local! {
        static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
    }
    CONTEXT.with_borrow_mut(|context| {
        if context.is_none() {
            *context = DCtx::try_create();
        }
        let Some(context) = context else { return Err(Error::invalid("no memory for unpacking with zstd")) };
        let wanted = out.len();
        let length = match dictionary {
            None => context.decompress(out, packed),
            Some(dictionary) => context.decompress_using_ddict(out, packed, &dictionary.0),
        };
        match length {
            Ok(length) if length == wanted => Ok(()),
            _ => Err(Error::structural("a block does not unpack to what its handle says")),
        }
    })
}

/// Returns the decompressed length that a frame declares. It is not checked.
pub(crate) fn declared_length(packed: &[u8]) -> Option<usize> {
    let length = zstd_safe::get_frame_content_size(packed).ok()??;
    usize::try_from(length).ok()
}

/// Trains a dictionary of at most `most_bytes` from samples, one after the other. `None` if zstd finds nothing in them.
pub(crate) fn train(most_bytes: usize, samples: &[u8], lengths: &[usize]) -> Option<Vec<u8>> {
    let mut bytes = vec![0; most_bytes];
    let length = zstd_safe::train_from_buffer(&mut bytes[..], samples, lengths).ok()?;
    bytes.truncate(length);
    Some(bytes)
}
