//! Fuzzing entry points: pointers and value files with arbitrary contents.

use std::path::Path;
use std::sync::Arc;

use super::{LoggedValues, Losses, ValueFile, walk};
use crate::batch::Operations;
use crate::env::{Fs, MemoryFs, Open};
use crate::pointer::Pointer;
use crate::record::Kind;
use crate::seam::Plain;

/// Decodes arbitrary bytes as a pointer. The decoder must reject the bytes, or the pointer must encode to the same
/// bytes.
pub fn pointer(bytes: &[u8]) {
    if let Ok(pointer) = Pointer::decode(bytes) {
        assert_eq!(pointer.encode(), bytes);
    }
    if let Ok((pointer, number)) = Pointer::decode_logged(bytes) {
        assert_eq!(pointer.encode_logged(number), bytes);
    }
}

/// Reads arbitrary bytes as the body of a log frame, in a directory without value files. It must not panic, and an
/// accepted body contains no pointer.
pub fn frame(bytes: &[u8]) {
    let fs: Arc<dyn Fs> = Arc::new(MemoryFs::new());
    let mut values = LoggedValues::new(fs, Path::new("/"), Arc::new(Plain));
    if let Ok(body) = values.expand(bytes, &mut |_, _| true, &mut Losses::default()) {
        let operations = Operations::new(body).into_iter().flatten();
        assert!(operations.flatten().all(|operation| operation.kind != Kind::BlobPointer));
    }
}

/// Reads arbitrary bytes as a whole value file. They are decoded or rejected; reading must not panic, and no entry
/// extends beyond the file.
pub fn file(bytes: &[u8]) {
    let fs = MemoryFs::new();
    let path = Path::new("/values");
    let Ok(file) = fs.open(path, Open::Create) else { return };
    if file.write_at(bytes, 0).is_ok() {
        let _ = walk("values", &*file, None, &mut |entry| {
            let end = entry.pointer.offset + entry.pointer.entry_bytes(entry.key.len());
            assert!(end <= bytes.len() as u64);
            Ok(())
        });
    }
}

impl ValueFile {
    /// Flips bits in one byte of a value in the cache. Returns false if the value is not cached.
    #[doc(hidden)]
    pub fn hit_in_memory(&self, pointer: &Pointer, byte: usize, mask: u8) -> bool {
        self.shelf().values().is_some_and(|values| values.damage(pointer, byte, mask))
    }
}
