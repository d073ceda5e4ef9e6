//! Values that frames of the log point to, for whoever reads the log: recovery, a reader beside a writer, a flush that is done again.
//!
//! In:    the body of a frame. Out: the same operations as they were put, those that are asked for: each value read and checked against V; or for whoever
//!        keeps the pointers, since the files stay, these.
//! Holds: all of a frame's values are there and right before any of its operations is handed out. Where one is not, the frame was not
//!        whole on the disk and the log ends there; or something proves that it was, and that value alone is lost (`Losses`).

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::shelf::{Room, ValueFile, ValueShelf};
use crate::batch::{Batch, MAX_BATCH_BYTES, Operation, Operations};
use crate::checksum::Uid;
use crate::env::{File, Fs};
use crate::error::{Damage, Error, ErrorKind, Result, Verdict};
use crate::planted::{self, Bug};
use crate::pointer::Pointer;
use crate::record::{Kind, Record};
use crate::seam::Companions;
use crate::wal::{Stop, Tolerates};

/// Values of a frame that are lost while the frame counts as whole.
#[derive(Debug, Default)]
pub struct Losses {
    tolerates: Tolerates,
    lost: Vec<(u64, Error)>,
}

impl Losses {
    /// None yet, of a frame that tolerates these.
    pub fn of(tolerates: Tolerates) -> Losses {
        Losses { tolerates, lost: Vec::new() }
    }

    /// True if no value is lost.
    pub fn is_empty(&self) -> bool {
        self.lost.is_empty()
    }

    /// Why the value of an operation is lost, by its number in the frame.
    pub fn at(&self, at: u64) -> Option<&Error> {
        self.lost.iter().find(|(lost, _)| *lost == at).map(|(_, error)| error)
    }

    /// Takes what became of a value: `None` if it is lost.
    fn take<T>(&mut self, at: u64, outcome: std::result::Result<T, Stop>) -> std::result::Result<Option<T>, Stop> {
        match outcome {
            Err(Stop::NotWhole(error)) if self.tolerates.damaged => self.lost.push((at, error)),
            Err(Stop::Unread(error)) if self.tolerates.unread => self.lost.push((at, error)),
            outcome => return outcome.map(Some),
        }
        Ok(None)
    }
}

/// Reads values that a log points to.
#[derive(Debug)]
pub struct LoggedValues {
    shelf: Arc<ValueShelf>,
    files: HashMap<Uid, Arc<ValueFile>>,
    /// By number, files that stay open whatever becomes of their names.
    kept_open: HashMap<u64, Arc<dyn File>>,
    room: Room,
    whole: Batch,
}

impl LoggedValues {
    /// Out of the value files in a directory.
    pub fn new(fs: Arc<dyn Fs>, dir: &Path, keeper: Arc<dyn Companions>) -> LoggedValues {
        let shelf = ValueShelf::new(fs, dir, keeper);
        LoggedValues {
            shelf,
            files: HashMap::new(),
            kept_open: HashMap::new(),
            room: Room::default(),
            whole: Batch::new(),
        }
    }

    /// Takes files that the log may point into, by their numbers: whoever writes the store may remove them from now on.
    pub fn keep_open(&mut self, files: impl IntoIterator<Item = (u64, Arc<dyn File>)>) {
        self.kept_open.extend(files);
    }

    /// The body of a frame with the values of the operations that are `wanted`, by their number in it; of others, and of those that are lost, a pointer
    /// is left. Errors: `Stop::NotWhole` if a value is not there or not what was put, `Stop::Unread` if the device does not return it,
    /// `Stop::Refused` if its file cannot be opened.
    pub fn expand<'a>(
        &'a mut self,
        body: &'a [u8],
        wanted: &mut dyn FnMut(&Operation<'_>, u64) -> bool,
        losses: &mut Losses,
    ) -> std::result::Result<&'a [u8], Stop> {
        let mut asked = Vec::new();
        for (at, operation) in (0..).zip(Operations::new(body)?) {
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
        for (at, operation) in (0..).zip(Operations::new(body)?) {
            let Operation { family, kind, key, value, companion } = operation?;
            let beside = |out: &mut Vec<u8>| {
                out.extend_from_slice(companion);
                Ok(())
            };
            if asked.next_if_eq(&&at).is_none() {
                self.whole.push_hashed(family, kind, (key, 0), value, beside)?;
                continue;
            }
            let checked = match self.check(key, value) {
                Err(_) if planted::active(Bug::FrameWithoutItsValues) => continue,
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

    /// For whoever keeps the pointers of the operations that are `wanted`: their files, each open and held for the shelf of its family while the answer
    /// is. Their values are there, and what was put, but those that are lost. Errors: those of `expand`.
    pub fn hold_pointed(
        &mut self,
        body: &[u8],
        wanted: &mut dyn FnMut(&Operation<'_>, u64) -> bool,
        shelf_of: &dyn Fn(u32) -> Option<Arc<ValueShelf>>,
        losses: &mut Losses,
    ) -> std::result::Result<Vec<Arc<ValueFile>>, Stop> {
        let mut held = Vec::new();
        for (at, operation) in (0..).zip(Operations::new(body)?) {
            let operation = operation?;
            if operation.kind != Kind::BlobPointer || !wanted(&operation, at) {
                continue;
            }
            let checked = self.check(operation.key, operation.value);
            let Some((uid, file)) = losses.take(at, checked)? else { continue };
            if let Some(shelf) = shelf_of(operation.family) {
                let open = file.descriptor().map_err(Stop::of)?;
                held.push(shelf.hold_unfinished(file.number(), uid, Some(&open)));
            }
        }
        Ok(held)
    }

    /// A record that was made of an operation, as it was put; `logged` is what stands in the log in the place of its value. Errors:
    /// `Corruption` if the value is not there or not what was put, `Io`.
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

    /// Reads a value of a frame into the room, and returns its file.
    fn check(&mut self, key: &[u8], logged: &[u8]) -> std::result::Result<(Uid, Arc<ValueFile>), Stop> {
        let (pointer, file) = self.open(logged).map_err(Stop::of)?;
        match self.read(key, &pointer) {
            Ok(()) => Ok((pointer.uid, file)),
            Err(error) if matches!(error.kind(), ErrorKind::Io(_)) => {
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
        self.shelf.read(&record, true, &mut self.room)
    }

    /// What the log points to, and its file, open.
    fn open(&mut self, logged: &[u8]) -> Result<(Pointer, Arc<ValueFile>)> {
        let (pointer, number) = Pointer::decode_logged(logged)?;
        let file = self.shelf.hold_unfinished(number, pointer.uid, self.kept_open.get(&number));
        file.ensure_open()?;
        Ok((pointer, self.files.entry(pointer.uid).or_insert(file).clone()))
    }
}
