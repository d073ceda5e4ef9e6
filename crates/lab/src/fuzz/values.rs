//! Fuzzing entry points: pointers, value files and sets with arbitrary contents.

use std::path::Path;
use std::sync::Arc;

use waxseal_lsm::batch::BatchOperations;
use waxseal_lsm::env::{Fs, MemoryFs, Open};
use waxseal_lsm::merge_operator::{decode_set, encode_set};
use waxseal_lsm::pointer::Pointer;
use waxseal_lsm::record::Kind;
use waxseal_lsm::seam::Plain;
use waxseal_lsm::values::{LoggedValues, LostValues, walk};

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

/// Decodes arbitrary bytes as a set of the merge operator `union`. The decoder must reject the bytes, or the elements must
/// ascend and survive their own encoding.
pub fn set(bytes: &[u8]) {
    if let Ok(elements) = decode_set(bytes) {
        assert!(elements.is_sorted_by(|a, b| a < b));
        assert_eq!(decode_set(&encode_set(&elements)).ok(), Some(elements));
    }
}

/// Reads arbitrary bytes as the body of a log frame, in a directory without value files. It must not panic, and an
/// accepted body contains no pointer.
pub fn frame(bytes: &[u8]) {
    let fs: Arc<dyn Fs> = Arc::new(MemoryFs::new());
    let mut values = LoggedValues::new(fs, Path::new("/"), Arc::new(Plain));
    if let Ok(body) = values.expand(bytes, &mut |_, _| true, &mut LostValues::default()) {
        let operations = BatchOperations::new(body).into_iter().flatten();
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

#[cfg(test)]
mod tests {
    proptest::proptest! {
        #[test]
        fn any_bytes_are_the_body_of_a_frame_or_refused(bytes: Vec<u8>) {
            super::frame(&bytes);
        }
    }
}
