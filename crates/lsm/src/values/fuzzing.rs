//! A way in for fuzzers: pointers and value files of any content.

use std::path::Path;

use super::{ValueFile, walk};
use crate::env::{Fs, MemoryFs, Open};
use crate::pointer::Pointer;

/// Reads any bytes as a pointer: decoded and the same when encoded again, or refused.
pub fn pointer(bytes: &[u8]) {
    if let Ok(pointer) = Pointer::decode(bytes) {
        assert_eq!(pointer.encode(), bytes);
    }
}

/// Reads any bytes as a whole value file. Anything is decoded or refused; nothing panics, and no entry reaches beyond the file.
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
    /// Turns over bits of a byte of a value that stays in memory. False if it does not.
    #[doc(hidden)]
    pub fn hit_in_memory(&self, pointer: &Pointer, byte: usize, mask: u8) -> bool {
        self.shelf().values().is_some_and(|values| values.damage(pointer, byte, mask))
    }
}
