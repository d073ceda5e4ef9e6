//! The value files (blob files) of a family, and reads from them.
//!
//! Life:   a file is held by the handles of the tables that point into it; before such tables exist, by the committing
//!         thread and by the memtables that point into it (`commit_blobs`). Each table counts as naming the file until
//!         it is retired, when an edit that removes the table is durable. The last holder of a file that no table names
//!         puts its number on a list, and a background thread deletes the files on that list (I06). Dropping a handle
//!         does no I/O. A file is opened on first read, and closed when too many are open (`descriptors`).
//! Checks: a checked read compares the value with V, which is stronger than the value's CRC and covers the original
//!         value, not only the stored bytes. The CRC is used in reads without V, and to locate flipped bits.
//! Ladder: a value that fails its check is read once more, then corrected with its CRC if V confirms the result.
//! Cached: a user's point read caches a value when it reads it for the second time, if the cache accepts values of that
//!         length; a cursor also looks in the cache. Jobs and tools bypass it. A cached value is checked like one that
//!         was read; if it fails, the file is read again.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::format::BlobHeader;
use super::{BlobMeta, BlobRef, walk};
use crate::checksum::{Role, Uid, block_seed, crc, hash};
use crate::descriptors::{CachedFile, Descriptors};
use crate::env::work::lock;
use crate::env::{File, Fs, check_room, read_exact, read_into, try_resize};
use crate::error::{Damage, Error, IoContext, Remedy, Result, Verdict};
use crate::names::StoreFileName;
use crate::planted;
use crate::pointer::{FRAME_BYTES, HEAD_BYTES, Pointer};
use crate::record::{Kind, Record, Seqno};
use crate::seam::Companions;
use crate::sst::{Cache, LargeValue, LargeValues, TableListener, unpack_block};

/// Numbers of obsolete value files that still exist.
#[derive(Default)]
pub struct ObsoleteBlobs {
    numbers: Mutex<Vec<u64>>,
    /// The files that no table names: number, and a seqno that no value in them is older than. They stay here until
    /// readers can find a table that names them, or until they are removed.
    unnamed: Mutex<BTreeMap<u64, Seqno>>,
    /// Called when a file becomes obsolete.
    on_new: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl ObsoleteBlobs {
    /// Registers the callback for a file that becomes obsolete. Its last holder does not wait for the deletion.
    pub fn on_new(&self, hears: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_new.set(Box::new(hears));
    }

    /// Notifies the callback of a new obsolete file, on this list or on the list of tables.
    pub fn notify(&self) {
        if let Some(hears) = self.on_new.get() {
            hears();
        }
    }

    /// Removes a number from the list; the caller deletes the file.
    pub fn take(&self) -> Option<u64> {
        lock(&self.numbers).pop()
    }

    /// Notes that a file does not exist any more.
    pub fn removed(&self, number: u64) {
        lock(&self.unnamed).remove(&number);
    }

    /// Returns the least seqno of a value in the files that no table names; 0 if it is not known.
    pub fn oldest_seqno(&self) -> Option<Seqno> {
        lock(&self.unnamed).values().min().copied()
    }

    fn bury(&self, (number, oldest): (u64, Seqno)) {
        lock(&self.unnamed).insert(number, oldest);
        lock(&self.numbers).push(number);
        self.notify();
    }
}

/// The value files that the tables of one family point into.
pub struct BlobFiles {
    protector: Arc<dyn Companions>,
    dead: Arc<ObsoleteBlobs>,
    open: Arc<Descriptors>,
    files: Mutex<HashMap<Uid, Weak<BlobFile>>>,
    /// The cache of values, if there is one, and the listener for damaged cached values.
    cached: Option<(LargeValues, Arc<dyn TableListener>)>,
}

/// Maximum number of value files kept open by a tool or a recovery.
const FEW: usize = 64;

/// Buffers up to this size are allocated without first asking for the file's length.
const UNASKED: usize = 64 * 1024;

/// The result of a cache lookup.
#[derive(PartialEq, Eq)]
enum Sight {
    Absent,
    There,
    /// Cached, but failed its check.
    Hit,
}

/// How a user's read of a value is checked and cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// True to check a value read from its file by V; false to check its CRC alone.
    pub by_value: bool,
    /// True to cache the value if possible.
    pub keep: bool,
}

impl BlobFiles {
    /// Creates an empty shelf over the files of a directory, without a value cache and with few open files.
    pub fn new(fs: Arc<dyn Fs>, dir: &Path, protector: Arc<dyn Companions>) -> Arc<BlobFiles> {
        let (dead, open) = (Arc::default(), Arc::new(Descriptors::bounded(fs, dir, FEW)));
        Arc::new(BlobFiles { protector, dead, open, files: Mutex::default(), cached: None })
    }

    /// Creates an empty shelf of a store. Values that users read are cached in `cache`; `watch` is notified of damaged
    /// cached values.
    pub fn cached(
        protector: Arc<dyn Companions>,
        (dead, open): (Arc<ObsoleteBlobs>, Arc<Descriptors>),
        (cache, watch): (Arc<Cache>, Arc<dyn TableListener>),
    ) -> Arc<BlobFiles> {
        let cached = Some((LargeValues::of(cache), watch));
        Arc::new(BlobFiles { protector, dead, open, files: Mutex::default(), cached })
    }

    /// Returns the cached values; `None` without a cache.
    pub fn values(&self) -> Option<&LargeValues> {
        self.cached.as_ref().map(|(values, _)| values)
    }

    /// Returns the obsolete files of this shelf and of others.
    pub fn dead(&self) -> &Arc<ObsoleteBlobs> {
        &self.dead
    }

    /// Holds a file for a table that names it, until `BlobFile::unname`.
    pub fn hold(self: &Arc<Self>, of: &BlobRef) -> Arc<BlobFile> {
        let mut files = lock(&self.files);
        let known = files.get(&of.file.uid).and_then(Weak::upgrade);
        let file = known.unwrap_or_else(|| {
            forget_gone(&mut files);
            let file = Arc::new(BlobFile::of(self, (of.file.number, 0), OnceLock::from(of.file.clone())));
            files.insert(of.file.uid, Arc::downgrade(&file));
            file
        });
        file.named.fetch_add(1, Ordering::AcqRel);
        file
    }

    /// Holds an unfinished file, which no table can name yet. `oldest`: no value in it will have a lower seqno; 0 if that
    /// is not known. `open` is its file, if it is open.
    pub fn hold_unfinished(
        self: &Arc<Self>,
        (number, oldest): (u64, Seqno),
        uid: Uid,
        open: Option<&Arc<dyn File>>,
    ) -> Arc<BlobFile> {
        let mut files = lock(&self.files);
        let known = files.get(&uid).and_then(Weak::upgrade);
        let file = known.unwrap_or_else(|| {
            forget_gone(&mut files);
            let file = Arc::new(BlobFile::of(self, (number, oldest), OnceLock::new()));
            lock(&self.dead.unnamed).insert(number, oldest);
            files.insert(uid, Arc::downgrade(&file));
            file
        });
        drop(files);
        if let Some(open) = open {
            file.file.adopt(open.clone());
        }
        file
    }

    /// Returns the file with this id, if it is held by a table that points into it.
    pub fn find(&self, uid: &Uid) -> Option<Arc<BlobFile>> {
        lock(&self.files).get(uid).and_then(Weak::upgrade)
    }

    /// Returns the record with its original value: the value of a pointer is read from its file. The caller holds the
    /// record's table. `checked`: by V, otherwise by the CRC alone. Returns `Corruption` with file, position and key,
    /// or `Io`.
    pub fn resolve<'a>(&self, record: &Record<'a>, checked: bool, room: &'a mut BlobBuffer) -> Result<Record<'a>> {
        if record.kind != Kind::BlobPointer {
            return Ok(*record);
        }
        self.read(record, checked, room)?;
        Ok(Record { kind: Kind::Put, value: room.value(), ..*record })
    }

    /// Reads the value that a record points to into `room`.
    pub fn read(&self, record: &Record<'_>, checked: bool, room: &mut BlobBuffer) -> Result<()> {
        room.let_go();
        let pointed = self.pointed(record);
        let read = pointed.and_then(|(file, pointer)| file.read(record.key.len(), &pointer, (checked, true), room));
        read.map_err(|error| error.in_key(record.key))
    }

    /// Reads the value for a user: from the cache if it is there and passes its check, otherwise from the file.
    pub fn fetch(&self, record: &Record<'_>, how: Fetch, room: &mut BlobBuffer) -> Result<()> {
        let sight = self.sight(record, how.by_value, room);
        if sight == Sight::There {
            return Ok(());
        }
        let read = self.pointed(record).and_then(|(file, pointer)| {
            let from_file = |room: &mut BlobBuffer| file.read(record.key.len(), &pointer, (how.by_value, true), room);
            match &self.cached {
                Some((values, watch)) => {
                    if how.keep && values.invites(&pointer) {
                        let mut own = BlobBuffer::within(values, &pointer)?;
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

    /// Returns true if the value that a record points to is cached and passes its check; it is then in `room`. No file
    /// is touched.
    pub fn finds(&self, record: &Record<'_>, by_value: bool, room: &mut BlobBuffer) -> bool {
        self.sight(record, by_value, room) == Sight::There
    }

    fn sight(&self, record: &Record<'_>, by_value: bool, room: &mut BlobBuffer) -> Sight {
        room.let_go();
        let Some((values, watch)) = &self.cached else { return Sight::Absent };
        let Ok(pointer) = Pointer::decode(record.value) else { return Sight::Absent };
        let Some(large) = values.find(&pointer) else { return Sight::Absent };
        let is_believed = planted!(CachedValueNotVerified, true, !by_value);
        if !is_believed && hash(large.value()) != pointer.value_hash {
            values.remove(&large);
            watch.doubted();
            return Sight::Hit;
        }
        room.cached = Some(large);
        Sight::There
    }

    /// Checks the value that a record points to, and the rest of its entry in the file. `None`: all of it is undamaged.
    /// `Some`: the value can be read, but its entry is damaged. An error means that the value cannot be read.
    pub fn look_at(&self, record: &Record<'_>, room: &mut BlobBuffer) -> Result<Option<Error>> {
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

    fn pointed(&self, record: &Record<'_>) -> Result<(Arc<BlobFile>, Pointer)> {
        let pointer = Pointer::decode(record.value)?;
        let file = self.find(&pointer.uid);
        let file = file.ok_or_else(|| Error::structural("a pointer names a value file that no table names"))?;
        Ok((file, pointer))
    }
}

impl fmt::Debug for BlobFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobFiles").field("files", &lock(&self.files).len()).finish_non_exhaustive()
    }
}

/// A reusable buffer for values.
#[derive(Clone, Debug, Default)]
pub struct BlobBuffer {
    framed: Vec<u8>,
    unpacked: Vec<u8>,
    /// Length of the last value, if it is in `framed`.
    plain: Option<usize>,
    /// The last value, if it is a cached one.
    cached: Option<Arc<LargeValue>>,
}

impl BlobBuffer {
    /// Creates a buffer for a value that will be cached. Returns `OutOfMemory` if the memory is not available.
    fn within(values: &LargeValues, pointer: &Pointer) -> Result<BlobBuffer> {
        let framed = pointer.stored_len as usize + FRAME_BYTES;
        check_room(framed.max(pointer.raw_len as usize)).during(|| "reading a value into the cache")?;
        Ok(match pointer.codec {
            0 => BlobBuffer { framed: values.buffer(framed), ..BlobBuffer::default() },
            _ => BlobBuffer { unpacked: values.buffer(pointer.raw_len as usize), ..BlobBuffer::default() },
        })
    }

    /// Returns the last value.
    pub fn value(&self) -> &[u8] {
        match &self.cached {
            Some(large) => large.value(),
            None => self.plain.map_or(&self.unpacked, |length| &self.framed[..length]),
        }
    }

    /// Releases the cached value, if one is held.
    pub fn let_go(&mut self) {
        if self.cached.take().is_some() {
            self.unpacked.clear();
            self.plain = None;
        }
    }

    /// Converts the buffer into an owned, cacheable value.
    fn into_value(self, pointer: Pointer) -> LargeValue {
        match self.plain {
            Some(length) => LargeValue::new(pointer, self.framed, length),
            None => {
                let length = self.unpacked.len();
                LargeValue::new(pointer, self.unpacked, length)
            }
        }
    }

    /// Returns the memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        self.framed.capacity() + self.unpacked.capacity()
    }
}

/// One value file.
pub struct BlobFile {
    number: u64,
    /// No value in it has a lower seqno; 0 if that is not known, as for the files that an open finds.
    oldest: Seqno,
    /// Empty until the file is finished.
    meta: OnceLock<Arc<BlobMeta>>,
    blob_files: Arc<BlobFiles>,
    file: CachedFile,
    /// Number of tables that name it, in the newest version or in one being built. Decreases under the lock of
    /// `ObsoleteBlobs::unnamed`, so that both agree.
    named: AtomicUsize,
}

impl BlobFile {
    /// Returns the shelf that holds this file, and all other files of a table that points into it.
    pub(crate) fn blob_files(&self) -> &BlobFiles {
        &self.blob_files
    }

    /// Flips bits in one byte of a value in the cache, for fault injection. Returns false if the value is not cached.
    #[doc(hidden)]
    pub fn hit_in_memory(&self, pointer: &Pointer, byte: usize, mask: u8) -> bool {
        self.blob_files().values().is_some_and(|values| values.damage(pointer, byte, mask))
    }

    fn of(blob_files: &Arc<BlobFiles>, (number, oldest): (u64, Seqno), meta: OnceLock<Arc<BlobMeta>>) -> BlobFile {
        BlobFile {
            number,
            oldest,
            meta,
            blob_files: blob_files.clone(),
            file: CachedFile::new(&blob_files.open, StoreFileName::Values(number)),
            named: AtomicUsize::new(0),
        }
    }

    /// Returns its description in the manifest; `None` if the file is not finished, so that no table names it.
    pub fn meta(&self) -> Option<&Arc<BlobMeta>> {
        self.meta.get()
    }

    /// Marks the file as finished and durable.
    pub(super) fn finish(&self, meta: BlobMeta) {
        let _ = self.meta.set(Arc::new(meta));
    }

    /// Returns the number in its name.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the name of the file.
    pub fn name(&self) -> StoreFileName {
        StoreFileName::Values(self.number)
    }

    /// Returns true if a table names it, in the newest version or in one being built.
    pub fn is_named(&self) -> bool {
        self.named.load(Ordering::Acquire) > 0
    }

    /// Notes that a view shows a table that names it, so that the file leaves the list of unnamed ones. Call it after
    /// the view is changed: at any time the file is on the list or in the newest view.
    pub fn shown(&self) {
        let mut unnamed = lock(&self.blob_files.dead.unnamed);
        if self.is_named() {
            unnamed.remove(&self.number);
        }
    }

    /// Removes one table's reference. Call it only after the edit that removes the table is durable.
    pub fn unname(&self) {
        let mut unnamed = lock(&self.blob_files.dead.unnamed);
        if self.named.fetch_sub(1, Ordering::AcqRel) == 1 {
            unnamed.insert(self.number, self.oldest);
            drop(unnamed);
            planted!(ValuesGoneUnderSnapshot => self.blob_files.dead.bury((self.number, self.oldest)));
        }
    }

    /// Returns the file, for reading.
    pub fn file(&self) -> &dyn File {
        &self.file
    }

    /// Returns a descriptor of the file, open for as long as the caller holds it. Errors as for `ensure_open`.
    pub(super) fn descriptor(&self) -> Result<Arc<dyn File>> {
        self.file.descriptor()
    }

    /// Opens the file if necessary. Returns `Corruption` if it is missing, or `Io`; the next call tries again.
    pub fn ensure_open(&self) -> Result<()> {
        self.file.ensure_open()
    }

    /// Checks header and footer against the manifest; reads through a record do not need them. Returns `Corruption` or
    /// `Io`.
    pub fn check_ends(&self) -> Result<()> {
        match self.meta() {
            Some(meta) => walk::check_ends(&self.name().to_string(), self.file(), meta),
            None => Ok(()),
        }
    }

    /// Checks that the head of an entry and its key belong to a record.
    fn check_head(&self, key: &[u8], pointer: &Pointer) -> Result<()> {
        let length = HEAD_BYTES + key.len();
        let name = || self.name().to_string();
        let bytes = read_exact(self.file(), pointer.offset, length).during(|| format!("reading {}", name()))?;
        let (head, found) = bytes.split_at(HEAD_BYTES);
        let Pointer { stored_len, raw_len, value_hash, .. } = *pointer;
        let is_of_it = |(head, sum): (BlobHeader, u32)| {
            let right = BlobHeader { key_len: key.len() as u16, stored_len, raw_len, value_hash, term: head.term };
            head == right && found == key && right.encode(&pointer.uid, pointer.offset, key).1 == sum
        };
        match BlobHeader::decode(head).is_ok_and(is_of_it) {
            true => Ok(()),
            false => Err(Error::structural("the head of a value is damaged").in_file(&name(), pointer.offset)),
        }
    }

    /// Reads the original value for a pointer of a record with a key of this length. `checked`: by V, otherwise by the
    /// CRC alone. `mends`: try to correct a value that fails its check.
    fn read(
        &self,
        key_len: usize,
        pointer: &Pointer,
        (checked, mends): (bool, bool),
        room: &mut BlobBuffer,
    ) -> Result<()> {
        let name = || self.name().to_string();
        let end = pointer.offset.saturating_add(pointer.entry_bytes(key_len));
        if self.meta().is_some_and(|meta| end > meta.size) {
            return Err(Error::structural("a pointer points outside of its file").in_file(&name(), pointer.offset));
        }
        let at = pointer.offset + (HEAD_BYTES + key_len) as u64;
        let length = pointer.stored_len as usize + FRAME_BYTES;
        let file = self.file();
        if room.framed.len() < length {
            // Without a manifest entry, ask for the file's length before allocating a large buffer for a value that the
            // file cannot hold (I10).
            if length > UNASKED && self.meta().is_none() {
                let size = file.len().during(|| format!("asking for the length of {}", name()))?;
                if end > size {
                    return Err(Error::structural("a value file ends too early").in_file(&name(), at));
                }
            }
            try_resize(&mut room.framed, length).during(|| format!("reading {}", name()))?;
        }
        let BlobBuffer { framed, unpacked, plain, .. } = room;
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
            file.advise(at, length as u64, false); // read once more, bypassing the page cache where possible
        }
        if let Err(error) = outcome {
            // The CRC of the pointer replaces the one in the file: in that case nothing that the record relies on was
            // damaged.
            framed[length - 4..].copy_from_slice(&pointer.crc.to_le_bytes());
            let mut confirm = |block: &[u8]| check(block, pointer, seed, true, unpacked).is_ok();
            if !mends || !self.blob_files.protector.correct(framed, seed, &mut confirm) {
                return Err(error.in_file(&name(), at));
            }
            check(framed, pointer, seed, true, unpacked)?;
        }
        *plain = (pointer.codec == 0).then_some(pointer.stored_len as usize);
        Ok(())
    }
}

/// Removes entries of files that are gone, when the map is full: scanning it forevery new file would take quadratic
/// time.
fn forget_gone(files: &mut HashMap<Uid, Weak<BlobFile>>) {
    if files.len() == files.capacity() {
        files.retain(|_, file| file.strong_count() > 0);
        files.reserve(files.len());
    }
}

/// Checks that framed bytes hold the value that a pointer refers to. A compressed value is decompressed.
fn check(framed: &[u8], pointer: &Pointer, seed: u32, by_value: bool, unpacked: &mut Vec<u8>) -> Result<()> {
    let (covered, _) = framed.split_at(pointer.stored_len as usize + 1);
    let (stored, codec) = covered.split_at(pointer.stored_len as usize);
    planted!(ValueNotChecked => if pointer.codec == 0 { return Ok(()); });
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

impl Drop for BlobFile {
    fn drop(&mut self) {
        if *self.named.get_mut() == 0 {
            self.blob_files.dead.bury((self.number, self.oldest));
        }
    }
}

impl fmt::Debug for BlobFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "values {:06}", self.number)
    }
}
