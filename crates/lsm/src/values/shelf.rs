//! The value files of a family, and reading out of them.
//!
//! Life:   a file is held by the handles of the tables that point into it, and before there are any by whoever commits and by the memtables
//!         that point into it (`intake`). Each of these counts as naming it until it is retired, which
//!         happens when an edit that removes the table is durable. The last holder of a file that nobody names puts its number on a list;
//!         whoever works in the background deletes the files on it (I06). Dropping does no I/O.
//!         A file is opened when it is read, and closed where too many are (`descriptors`).
//! Checks: a value that is asked to be checked is compared with V, which is stronger than its CRC and says what was put, not only what was
//!         stored; the CRC is taken where V is not, and to find the bits that were hit.
//! Ladder: what does not check is read once more, then corrected by its CRC, if V confirms it.
//! Cached: a point read of a user keeps what it has read for the second time, where the cache takes values of that length, and a cursor looks
//!         there too; what jobs and tools read passes by. What lies in memory is checked like what was read: where it was hit, the file is read again.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::format::Head;
use super::{ValueMeta, ValueRef, walk};
use crate::checksum::{Role, Uid, block_seed, crc, hash};
use crate::descriptors::{CachedFile, Descriptors};
use crate::env::work::lock;
use crate::env::{File, Fs, read_exact, read_into};
use crate::error::{Damage, Error, IoContext, Remedy, Result, Verdict};
use crate::names::Name;
use crate::planted::{self, Bug};
use crate::pointer::{FRAME_BYTES, HEAD_BYTES, Pointer};
use crate::record::{Kind, Record};
use crate::seam::Companions;
use crate::sst::{Cache, Large, LargeValues, Watch, unpack_block};

/// Numbers of value files that nobody can read any more and that still exist.
#[derive(Default)]
pub struct DeadValues {
    numbers: Mutex<Vec<u64>>,
    /// Hears that something died.
    heard_by: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl DeadValues {
    /// Names who hears when a file comes onto the list: whoever lets go of it last does not wait for what they do.
    pub fn heard_by(&self, hears: impl Fn() + Send + Sync + 'static) {
        let _ = self.heard_by.set(Box::new(hears));
    }

    /// Something died: here, or what these are the values of.
    pub fn tell(&self) {
        if let Some(hears) = self.heard_by.get() {
            hears();
        }
    }

    /// Takes one off the list; the caller deletes the file.
    pub fn take(&self) -> Option<u64> {
        lock(&self.numbers).pop()
    }

    fn bury(&self, number: u64) {
        lock(&self.numbers).push(number);
        self.tell();
    }
}

/// The value files that the tables of one family point into.
pub struct ValueShelf {
    keeper: Arc<dyn Companions>,
    dead: Arc<DeadValues>,
    open: Arc<Descriptors>,
    files: Mutex<HashMap<Uid, Weak<ValueFile>>>,
    /// Values in memory, if they are kept, and who hears of those that were hit.
    cached: Option<(LargeValues, Arc<dyn Watch>)>,
}

/// So many value files stay open of those that a tool or a recovery reads.
const FEW: usize = 64;

/// Room for so many bytes is made before a file is asked how long it is.
const UNASKED: usize = 64 * 1024;

/// Whether a value is in memory.
#[derive(PartialEq, Eq)]
enum Sight {
    Absent,
    There,
    /// It was, and was not what it must be.
    Hit,
}

/// What becomes of a value that a user reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// It is checked by V, else by the CRC alone, when it is read from its file.
    pub by_value: bool,
    /// It stays in memory if it may.
    pub keep: bool,
}

impl ValueShelf {
    /// An empty shelf over the files of a directory. No value of it is kept in memory, and no more than a few files stay open.
    pub fn new(fs: Arc<dyn Fs>, dir: &Path, keeper: Arc<dyn Companions>) -> Arc<ValueShelf> {
        let (dead, open) = (Arc::default(), Arc::new(Descriptors::bounded(fs, dir, FEW)));
        Arc::new(ValueShelf { keeper, dead, open, files: Mutex::default(), cached: None })
    }

    /// An empty shelf of a store; values that users read stay in this cache. Those that are hit there are told of.
    pub fn cached(
        keeper: Arc<dyn Companions>,
        (dead, open): (Arc<DeadValues>, Arc<Descriptors>),
        (cache, watch): (Arc<Cache>, Arc<dyn Watch>),
    ) -> Arc<ValueShelf> {
        let cached = Some((LargeValues::of(cache), watch));
        Arc::new(ValueShelf { keeper, dead, open, files: Mutex::default(), cached })
    }

    /// The values in memory, if any are kept.
    pub fn values(&self) -> Option<&LargeValues> {
        self.cached.as_ref().map(|(values, _)| values)
    }

    /// The files of this shelf, and of others, that nobody names any more.
    pub fn dead(&self) -> &Arc<DeadValues> {
        &self.dead
    }

    /// Holds a file for a table that names it from now on, until `ValueFile::unname`.
    pub fn hold(self: &Arc<Self>, of: &ValueRef) -> Arc<ValueFile> {
        let mut files = lock(&self.files);
        let known = files.get(&of.file.uid).and_then(Weak::upgrade);
        let file = known.unwrap_or_else(|| {
            forget_gone(&mut files);
            let file = Arc::new(ValueFile::of(self, of.file.number, OnceLock::from(of.file.clone())));
            files.insert(of.file.uid, Arc::downgrade(&file));
            file
        });
        file.named.fetch_add(1, Ordering::AcqRel);
        file
    }

    /// Holds a file that is not finished: no table can name it yet. `open`: its file, where it is open.
    pub fn hold_unfinished(self: &Arc<Self>, number: u64, uid: Uid, open: Option<&Arc<dyn File>>) -> Arc<ValueFile> {
        let mut files = lock(&self.files);
        let known = files.get(&uid).and_then(Weak::upgrade);
        let file = known.unwrap_or_else(|| {
            forget_gone(&mut files);
            let file = Arc::new(ValueFile::of(self, number, OnceLock::new()));
            files.insert(uid, Arc::downgrade(&file));
            file
        });
        drop(files);
        if let Some(open) = open {
            file.file.adopt(open.clone());
        }
        file
    }

    /// The file of this name, if a table that somebody holds points into it.
    pub fn find(&self, uid: &Uid) -> Option<Arc<ValueFile>> {
        lock(&self.files).get(uid).and_then(Weak::upgrade)
    }

    /// The record as it was put: where it is a pointer, its value is read. Whoever holds the record holds its table. `checked`: by V,
    /// else by the CRC alone. Errors: `Corruption` that names the file, the place and the key; `Io`.
    pub fn resolve<'a>(&self, record: &Record<'a>, checked: bool, room: &'a mut Room) -> Result<Record<'a>> {
        if record.kind != Kind::BlobPointer {
            return Ok(*record);
        }
        self.read(record, checked, room)?;
        Ok(Record { kind: Kind::Put, value: room.value(), ..*record })
    }

    /// Reads the value that a record points to into `room`.
    pub fn read(&self, record: &Record<'_>, checked: bool, room: &mut Room) -> Result<()> {
        room.let_go();
        let pointed = self.pointed(record);
        let read = pointed.and_then(|(file, pointer)| file.read(record.key.len(), &pointer, (checked, true), room));
        read.map_err(|error| error.in_key(record.key))
    }

    /// The same for a user: from memory, if it is there and is what it must be.
    pub fn fetch(&self, record: &Record<'_>, how: Fetch, room: &mut Room) -> Result<()> {
        let sight = self.sight(record, how.by_value, room);
        if sight == Sight::There {
            return Ok(());
        }
        let read = self.pointed(record).and_then(|(file, pointer)| {
            let from_file = |room: &mut Room| file.read(record.key.len(), &pointer, (how.by_value, true), room);
            match &self.cached {
                Some((values, watch)) => {
                    if how.keep && values.invites(&pointer) {
                        let mut own = Room::within(values, &pointer);
                        from_file(&mut own)?;
                        room.cached = Some(values.keep(own.into_value(pointer)));
                    } else {
                        from_file(room)?;
                    }
                    if sight == Sight::Hit {
                        watch.healed(&file.name().to_string(), pointer.offset, Remedy::ReadAgain);
                    }
                    Ok(())
                }
                None => from_file(room),
            }
        });
        read.map_err(|error| error.in_key(record.key))
    }

    /// True if the value that a record points to is in memory, and is what it must be: then it stands in `room`. No file is touched.
    pub fn finds(&self, record: &Record<'_>, by_value: bool, room: &mut Room) -> bool {
        self.sight(record, by_value, room) == Sight::There
    }

    fn sight(&self, record: &Record<'_>, by_value: bool, room: &mut Room) -> Sight {
        room.let_go();
        let Some((values, watch)) = &self.cached else { return Sight::Absent };
        let Ok(pointer) = Pointer::decode(record.value) else { return Sight::Absent };
        let Some(large) = values.find(&pointer) else { return Sight::Absent };
        let is_believed = !by_value || planted::active(Bug::CachedValueNotVerified);
        if !is_believed && hash(large.value()) != pointer.value_hash {
            values.remove(&large);
            watch.doubted();
            return Sight::Hit;
        }
        room.cached = Some(large);
        Sight::There
    }

    /// Looks at the value that a record points to, and at what stands around it in its file. None: all of it is as it was written. An
    /// error in `Some`: the value can be had, but something of its entry was hit. Errors: the value cannot be had.
    pub fn look_at(&self, record: &Record<'_>, room: &mut Room) -> Result<Option<Error>> {
        room.let_go();
        let mut look = || {
            let (file, pointer) = self.pointed(record)?;
            let around = file.check_head(record.key, &pointer);
            let as_it_lies = file.read(record.key.len(), &pointer, (true, false), room);
            match as_it_lies {
                Ok(()) => Ok(around.err()),
                Err(hit) => file.read(record.key.len(), &pointer, (true, true), room).map(|()| Some(hit)),
            }
        };
        let found: Result<Option<Error>> = look();
        found.map(|hit| hit.map(|error| error.in_key(record.key))).map_err(|error| error.in_key(record.key))
    }

    fn pointed(&self, record: &Record<'_>) -> Result<(Arc<ValueFile>, Pointer)> {
        let pointer = Pointer::decode(record.value)?;
        let file = self.find(&pointer.uid);
        let file = file.ok_or_else(|| Error::structural("a pointer names a value file that no table names"))?;
        Ok((file, pointer))
    }
}

impl fmt::Debug for ValueShelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueShelf").field("files", &lock(&self.files).len()).finish_non_exhaustive()
    }
}

/// Room for values that are read, used again by the next one.
#[derive(Clone, Debug, Default)]
pub struct Room {
    framed: Vec<u8>,
    unpacked: Vec<u8>,
    /// Bytes of the value read last, if it stands in `framed`.
    plain: Option<usize>,
    /// The value read last, if it is one that stays in memory.
    cached: Option<Arc<Large>>,
}

impl Room {
    /// Room for a value that is to be kept.
    fn within(values: &LargeValues, pointer: &Pointer) -> Room {
        let framed = pointer.stored_len as usize + FRAME_BYTES;
        match pointer.codec {
            0 => Room { framed: values.buffer(framed), ..Room::default() },
            _ => Room { unpacked: values.buffer(pointer.raw_len as usize), ..Room::default() },
        }
    }

    /// The value read last.
    pub fn value(&self) -> &[u8] {
        match &self.cached {
            Some(large) => large.value(),
            None => self.plain.map_or(&self.unpacked, |length| &self.framed[..length]),
        }
    }

    /// Holds no value that stays in memory any longer.
    pub fn let_go(&mut self) {
        if self.cached.take().is_some() {
            self.unpacked.clear();
            self.plain = None;
        }
    }

    /// The value read last, in its own bytes.
    fn into_value(self, pointer: Pointer) -> Large {
        match self.plain {
            Some(length) => Large::new(pointer, self.framed, length),
            None => {
                let length = self.unpacked.len();
                Large::new(pointer, self.unpacked, length)
            }
        }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.framed.capacity() + self.unpacked.capacity()
    }
}

/// One value file.
pub struct ValueFile {
    number: u64,
    /// None: it is not finished.
    meta: OnceLock<Arc<ValueMeta>>,
    shelf: Arc<ValueShelf>,
    file: CachedFile,
    /// Tables that name it, in the newest version or in one that is being made.
    named: AtomicUsize,
}

impl ValueFile {
    /// The shelf that holds it, and with it all files of a table that points into it.
    pub(crate) fn shelf(&self) -> &ValueShelf {
        &self.shelf
    }

    fn of(shelf: &Arc<ValueShelf>, number: u64, meta: OnceLock<Arc<ValueMeta>>) -> ValueFile {
        ValueFile {
            number,
            meta,
            shelf: shelf.clone(),
            file: CachedFile::new(&shelf.open, Name::Values(number)),
            named: AtomicUsize::new(0),
        }
    }

    /// What the manifest says of it; none: it is not finished, and no table names it.
    pub fn meta(&self) -> Option<&Arc<ValueMeta>> {
        self.meta.get()
    }

    /// It is finished, and durable.
    pub(super) fn finish(&self, meta: ValueMeta) {
        let _ = self.meta.set(Arc::new(meta));
    }

    /// The number in its name.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The name of the file.
    pub fn name(&self) -> Name {
        Name::Values(self.number)
    }

    /// True if a table of the newest version names it, or one that is being made.
    pub fn is_named(&self) -> bool {
        self.named.load(Ordering::Acquire) > 0
    }

    /// A table that named it does not any more; call it after the edit that says so is durable, never before.
    pub fn unname(&self) {
        if self.named.fetch_sub(1, Ordering::AcqRel) == 1 && planted::active(Bug::ValuesGoneUnderSnapshot) {
            self.shelf.dead.bury(self.number);
        }
    }

    /// The file, for reading.
    pub fn file(&self) -> &dyn File {
        &self.file
    }

    /// A descriptor of the file, open for as long as the caller holds it. Errors: as for `ensure_open`.
    pub(super) fn descriptor(&self) -> Result<Arc<dyn File>> {
        self.file.descriptor()
    }

    /// Opens the file if it is not open. Errors: `Corruption` if it is missing, `Io`; the next call tries again.
    pub fn ensure_open(&self) -> Result<()> {
        self.file.ensure_open()
    }

    /// True if header and footer are what the manifest says; nobody who has a record needs them. Errors: `Corruption`, `Io`.
    pub fn check_ends(&self) -> Result<()> {
        match self.meta() {
            Some(meta) => walk::check_ends(&self.name().to_string(), self.file(), meta),
            None => Ok(()),
        }
    }

    /// Whether the head of an entry and the key in it are those of a record.
    fn check_head(&self, key: &[u8], pointer: &Pointer) -> Result<()> {
        let length = HEAD_BYTES + key.len();
        let name = || self.name().to_string();
        let bytes = read_exact(self.file(), pointer.offset, length).during(|| format!("reading {}", name()))?;
        let (head, found) = bytes.split_at(HEAD_BYTES);
        let Pointer { stored_len, raw_len, value_hash, .. } = *pointer;
        let is_of_it = |(head, sum): (Head, u32)| {
            let right = Head { key_len: key.len() as u16, stored_len, raw_len, value_hash, term: head.term };
            head == right && found == key && right.encode(&pointer.uid, pointer.offset, key).1 == sum
        };
        match Head::decode(head).is_ok_and(is_of_it) {
            true => Ok(()),
            false => Err(Error::structural("the head of a value is damaged").in_file(&name(), pointer.offset)),
        }
    }

    /// The value that a pointer of a record with a key of this length points to, as it was put. `checked` by V, or by the CRC alone;
    /// `mends` what does not check.
    fn read(&self, key_len: usize, pointer: &Pointer, (checked, mends): (bool, bool), room: &mut Room) -> Result<()> {
        let name = || self.name().to_string();
        let end = pointer.offset.saturating_add(pointer.entry_bytes(key_len));
        if self.meta().is_some_and(|meta| end > meta.size) {
            return Err(Error::structural("a pointer points outside of its file").in_file(&name(), pointer.offset));
        }
        let at = pointer.offset + (HEAD_BYTES + key_len) as u64;
        let length = pointer.stored_len as usize + FRAME_BYTES;
        let file = self.file();
        if room.framed.len() < length {
            // Where no manifest says how long the file is, it says so itself, before much room is made for what it cannot hold (I10).
            if length > UNASKED && self.meta().is_none() {
                let size = file.len().during(|| format!("asking for the length of {}", name()))?;
                if end > size {
                    return Err(Error::structural("a value file ends too early").in_file(&name(), at));
                }
            }
            room.framed.resize(length, 0);
        }
        let Room { framed, unpacked, plain, .. } = room;
        *plain = Some(0);
        let framed = &mut framed[..length];
        let seed = block_seed(&pointer.uid, at, Role::Value);
        let mut outcome = Ok(());
        for _ in 0..2 {
            match read_into(file, at, framed) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    return Err(Error::structural("a value file ends too early").in_file(&name(), at));
                }
                Err(error) => return Err(error).during(|| format!("reading {}", name())),
            }
            outcome = check(framed, pointer, seed, checked, unpacked);
            if outcome.is_ok() {
                break;
            }
            file.advise(at, length as u64, false); // once more, past the page cache as far as that goes
        }
        if let Err(error) = outcome {
            // The CRC of the pointer stands for the one in the file: nothing hit that the record relies on.
            framed[length - 4..].copy_from_slice(&pointer.crc.to_le_bytes());
            let mut confirm = |block: &[u8]| check(block, pointer, seed, true, unpacked).is_ok();
            if !mends || !self.shelf.keeper.correct(framed, seed, &mut confirm) {
                return Err(error.in_file(&name(), at));
            }
            check(framed, pointer, seed, true, unpacked)?;
        }
        *plain = (pointer.codec == 0).then_some(pointer.stored_len as usize);
        Ok(())
    }
}

/// Forgets files that are gone, where there is no room for one more: a look at all of them for each new one would take the square of their number.
fn forget_gone(files: &mut HashMap<Uid, Weak<ValueFile>>) {
    if files.len() == files.capacity() {
        files.retain(|_, file| file.strong_count() > 0);
        files.reserve(files.len());
    }
}

/// Whether framed bytes hold the value that a pointer asks for. One that is packed is unpacked.
fn check(framed: &[u8], pointer: &Pointer, seed: u32, by_value: bool, unpacked: &mut Vec<u8>) -> Result<()> {
    let (covered, _) = framed.split_at(pointer.stored_len as usize + 1);
    let (stored, codec) = covered.split_at(pointer.stored_len as usize);
    if planted::active(Bug::ValueNotChecked) && pointer.codec == 0 {
        return Ok(());
    }
    if codec[0] != pointer.codec {
        return Err(Error::structural("a value is packed in another way than its pointer says"));
    }
    if !by_value || pointer.codec != 0 {
        let found = crc(seed, &[covered]);
        if found != pointer.crc {
            return Err(Error::mismatch(pointer.crc.into(), found.into(), "checksum of a value"));
        }
    }
    if pointer.codec == 0 && pointer.stored_len != pointer.raw_len {
        return Err(Error::structural("a value has another length than its pointer says"));
    }
    let value = match pointer.codec {
        0 => stored,
        _ => unpack_block(stored, pointer.codec, pointer.raw_len, unpacked)?,
    };
    if by_value {
        let found = hash(value);
        if found != pointer.value_hash {
            let damage = Damage {
                verdict: Verdict::Seal,
                expected: Some(pointer.value_hash),
                found: Some(found),
                ..Damage::default()
            };
            return Err(Error::corruption(damage, "a value is not the one that its record stands for"));
        }
    }
    Ok(())
}

impl Drop for ValueFile {
    fn drop(&mut self) {
        if *self.named.get_mut() == 0 {
            self.shelf.dead.bury(self.number);
        }
    }
}

impl fmt::Debug for ValueFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "values {:06}", self.number)
    }
}
