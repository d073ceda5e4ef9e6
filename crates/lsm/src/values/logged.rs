//! Reads the values that log frames point to, for all readers of the log: recovery, a reader beside a writer, a
//! repeated flush.
//!
//! In:     the body of a frame. Out: the requested operations as originally written, with each value read and checked
//!         against V; or, for a caller that keeps the pointers because the files stay, the files.
//! Holds:  all values of a frame are present and correct before any of its operations is returned. If a value is not,
//!         the frame was not whole on the disk and the log ends there; or a proof shows that the frame was whole, and
//!         only that value is lost (`LostValues`).

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::blob_files::{BlobBuffer, BlobFile, BlobFiles};
use crate::batch::{Batch, BatchOperation, BatchOperations, MAX_BATCH_BYTES};
use crate::checksum::Uid;
use crate::env::{File, Fs};
use crate::error::{Damage, Error, ErrorKind, Result, Verdict};
use crate::planted;
use crate::pointer::Pointer;
use crate::record::{Kind, Record};
use crate::seam::Companions;
use crate::wal::{Stop, Tolerates};

/// The lost values of a frame that counts as whole.
#[derive(Debug, Default)]
pub struct LostValues {
    tolerates: Tolerates,
    lost: Vec<(u64, Error)>,
}

impl LostValues {
    /// Creates an empty list for a frame that tolerates these losses.
    pub fn of(tolerates: Tolerates) -> LostValues {
        LostValues { tolerates, lost: Vec::new() }
    }

    /// True if no value is lost.
    pub fn is_empty(&self) -> bool {
        self.lost.is_empty()
    }

    /// Returns why the value of an operation is lost, by the operation's index in the frame.
    pub fn at(&self, at: u64) -> Option<&Error> {
        self.lost.iter().find(|(lost, _)| *lost == at).map(|(_, error)| error)
    }

    /// Records the outcome of reading a value. Returns `None` if the value is lost.
    fn take<T>(&mut self, at: u64, outcome: std::result::Result<T, Stop>) -> std::result::Result<Option<T>, Stop> {
        match outcome {
            Err(Stop::NotWhole(error)) if self.tolerates.damaged => self.lost.push((at, error)),
            Err(Stop::Unread(error)) if self.tolerates.unread => self.lost.push((at, error)),
            outcome => return outcome.map(Some),
        }
        Ok(None)
    }
}

/// Reads the values that a log points to.
#[derive(Debug)]
pub struct LoggedValues {
    blob_files: Arc<BlobFiles>,
    files: HashMap<Uid, Arc<BlobFile>>,
    /// Files by number that stay open even if their names are removed.
    kept_open: HashMap<u64, Arc<dyn File>>,
    room: BlobBuffer,
    whole: Batch,
}

impl LoggedValues {
    /// Creates a reader of the value files in a directory.
    pub fn new(fs: Arc<dyn Fs>, dir: &Path, protector: Arc<dyn Companions>) -> LoggedValues {
        let blob_files = BlobFiles::new(fs, dir, protector);
        LoggedValues {
            blob_files,
            files: HashMap::new(),
            kept_open: HashMap::new(),
            room: BlobBuffer::default(),
            whole: Batch::new(),
        }
    }

    /// Keeps files open that the log may point into, by their numbers: the store's writer may remove them from now on.
    pub fn keep_open(&mut self, files: impl IntoIterator<Item = (u64, Arc<dyn File>)>) {
        self.kept_open.extend(files);
    }

    /// Returns the body of a frame with the values of the `wanted` operations, by index. Other operations, and those
    /// with lost values, keep their pointers. Returns `Stop::NotWhole` if a value is missing or damaged, `Stop::Unread`
    /// if the device does not return it, and `Stop::Refused` if its file cannot be opened.
    pub fn expand<'a>(
        &'a mut self,
        body: &'a [u8],
        wanted: &mut dyn FnMut(&BatchOperation<'_>, u64) -> bool,
        losses: &mut LostValues,
    ) -> std::result::Result<&'a [u8], Stop> {
        let mut asked = Vec::new();
        for (at, operation) in (0..).zip(BatchOperations::new(body)?) {
            let operation = operation?;
            if operation.kind == Kind::BlobPointer && wanted(&operation, at) {
                asked.push(at);
            }
        }
        if asked.is_empty() {
            return Ok(body);
        }
        let mut asked = asked.iter().peekable();
        self.whole.clear();
        for (at, operation) in (0..).zip(BatchOperations::new(body)?) {
            let BatchOperation { family, kind, key, value, companion } = operation?;
            let beside = |out: &mut Vec<u8>| {
                out.extend_from_slice(companion);
                Ok(())
            };
            if asked.next_if_eq(&&at).is_none() {
                self.whole.push_hashed(family, kind, (key, 0), value, beside)?;
                continue;
            }
            let checked = match self.check(key, value) {
                Err(_) if planted!(FrameWithoutItsValues, true, false) => continue,
                checked => losses.take(at, checked)?,
            };
            if checked.is_none() {
                self.whole.push_hashed(family, kind, (key, 0), value, beside)?;
                continue;
            }
            let value = self.room.value();
            if self.whole.encoded_bytes() + value.len() > MAX_BATCH_BYTES {
                return Err(Stop::NotWhole(Error::structural("a frame points to more than a batch can hold")));
            }
            self.whole.push_hashed(family, Kind::Put, (key, 0), value, beside)?;
        }
        Ok(self.whole.body())
    }

    /// Returns the files that the `wanted` operations point into, for a caller that keeps the pointers. Each file is
    /// open, and held for the shelf of its family as long as the result lives. Their values are present and correct,
    /// except the lost ones. Errors are those of `expand`.
    pub fn hold_pointed(
        &mut self,
        body: &[u8],
        wanted: &mut dyn FnMut(&BatchOperation<'_>, u64) -> bool,
        blob_files_of: &dyn Fn(u32) -> Option<Arc<BlobFiles>>,
        losses: &mut LostValues,
    ) -> std::result::Result<Vec<Arc<BlobFile>>, Stop> {
        let mut held = Vec::new();
        for (at, operation) in (0..).zip(BatchOperations::new(body)?) {
            let operation = operation?;
            if operation.kind != Kind::BlobPointer || !wanted(&operation, at) {
                continue;
            }
            let checked = self.check(operation.key, operation.value);
            let Some((uid, file)) = losses.take(at, checked)? else { continue };
            if let Some(blob_files) = blob_files_of(operation.family) {
                let open = file.descriptor().map_err(Stop::of)?;
                held.push(blob_files.hold_unfinished((file.number(), 0), uid, Some(&open)));
            }
        }
        Ok(held)
    }

    /// Returns a record made from an operation with its original value; `logged` is the log's entry in place of the
    /// value. Returns `Corruption` if the value is missing or damaged, or `Io`.
    pub fn whole<'a>(&'a mut self, record: &Record<'a>, logged: &[u8]) -> Result<Record<'a>> {
        match record.kind {
            Kind::BlobPointer => {
                let (pointer, _) = self.open(logged)?;
                self.read(record.key, &pointer)?;
                Ok(Record { kind: Kind::Put, value: self.room.value(), ..*record })
            }
            _ => Ok(*record),
        }
    }

    /// Reads a value of a frame into the buffer, and returns its file.
    fn check(&mut self, key: &[u8], logged: &[u8]) -> std::result::Result<(Uid, Arc<BlobFile>), Stop> {
        let (pointer, file) = self.open(logged).map_err(Stop::of)?;
        match self.read(key, &pointer) {
            Ok(()) => Ok((pointer.uid, file)),
            // Too little memory is no fault of the device: the frame stays, and recovery ends with the error.
            Err(error) if matches!(error.kind(), ErrorKind::Io(kind) if *kind != io::ErrorKind::OutOfMemory) => {
                let key_range = Some((key.to_vec(), key.to_vec()));
                let (file, verdict) = (file.name().to_string(), Verdict::Missing);
                let damage = Damage { file, offset: pointer.offset, verdict, key_range, ..Damage::default() };
                Err(Stop::Unread(Error::corruption(damage, format!("a value that cannot be read: {error}"))))
            }
            Err(error) => Err(Stop::of(error)),
        }
    }

    fn read(&mut self, key: &[u8], pointer: &Pointer) -> Result<()> {
        let value = pointer.encode();
        let record = Record { key, seqno: 0, kind: Kind::BlobPointer, value: &value, companion: &[] };
        self.blob_files.read(&record, true, &mut self.room)
    }

    /// Decodes a logged pointer, and opens its file.
    fn open(&mut self, logged: &[u8]) -> Result<(Pointer, Arc<BlobFile>)> {
        let (pointer, number) = Pointer::decode_logged(logged)?;
        let file = self.blob_files.hold_unfinished((number, 0), pointer.uid, self.kept_open.get(&number));
        file.ensure_open()?;
        Ok((pointer, self.files.entry(pointer.uid).or_insert(file).clone()))
    }
}
