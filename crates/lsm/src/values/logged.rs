//! Values that frames of the log point to, for whoever reads the log: recovery, a reader beside a writer, a flush that is done again.
//!
//! In:    the body of a frame. Out: the same operations as they were put, those that are asked for: each value read and checked against V.
//! Holds: all of a frame's values are there and right before any of its operations is handed out. Where one is not, the frame was not
//!        whole on the disk: the log ends there, or is damaged, as whatever proves that it was whole decides.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::shelf::{Room, ValueFile, ValueShelf};
use crate::batch::{Batch, MAX_BATCH_BYTES, Operation, Operations};
use crate::checksum::Uid;
use crate::env::Fs;
use crate::error::{Error, Result};
use crate::planted::{self, Bug};
use crate::pointer::Pointer;
use crate::record::{Kind, Record};
use crate::seam::Companions;
use crate::wal::Stop;

/// Reads values that a log points to.
#[derive(Debug)]
pub struct LoggedValues {
    shelf: Arc<ValueShelf>,
    files: HashMap<Uid, Arc<ValueFile>>,
    room: Room,
    whole: Batch,
}

impl LoggedValues {
    /// Out of the value files in a directory.
    pub fn new(fs: Arc<dyn Fs>, dir: &Path, keeper: Arc<dyn Companions>) -> LoggedValues {
        let shelf = ValueShelf::new(fs, dir, keeper);
        LoggedValues { shelf, files: HashMap::new(), room: Room::default(), whole: Batch::new() }
    }

    /// The body of a frame with the values of the operations that are `wanted`, by their number in it; of others a pointer is left. Errors:
    /// `Stop::NotWhole` if a value is not there or not what was put, `Stop::Refused` if it cannot be read.
    pub fn expand<'a>(
        &'a mut self,
        body: &'a [u8],
        wanted: &mut dyn FnMut(&Operation<'_>, u64) -> bool,
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
            match self.read(key, value) {
                Err(_) if planted::active(Bug::FrameWithoutItsValues) => continue,
                read => read.map_err(Stop::of)?,
            }
            let value = self.room.value();
            if self.whole.encoded_bytes() + value.len() > MAX_BATCH_BYTES {
                return Err(Stop::NotWhole(Error::structural("a frame points to more than a batch can hold")));
            }
            self.whole.push_hashed(family, Kind::Put, (key, 0), value, beside)?;
        }
        Ok(self.whole.body())
    }

    /// A record that was made of an operation, as it was put; `logged` is what stands in the log in the place of its value. Errors:
    /// `Corruption` if the value is not there or not what was put, `Io`.
    pub fn whole<'a>(&'a mut self, record: &Record<'a>, logged: &[u8]) -> Result<Record<'a>> {
        match record.kind {
            Kind::BlobPointer => {
                self.read(record.key, logged)?;
                Ok(Record { kind: Kind::Put, value: self.room.value(), ..*record })
            }
            _ => Ok(*record),
        }
    }

    fn read(&mut self, key: &[u8], logged: &[u8]) -> Result<()> {
        let (pointer, number) = Pointer::decode_logged(logged)?;
        let shelf = &self.shelf;
        self.files.entry(pointer.uid).or_insert_with(|| shelf.hold_unfinished(number, pointer.uid, None));
        let value = pointer.encode();
        let record = Record { key, seqno: 0, kind: Kind::BlobPointer, value: &value, companion: &[] };
        self.shelf.read(&record, true, &mut self.room)
    }
}
