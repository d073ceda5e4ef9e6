//! Hook for the fuzz driver of the log, which makes its files itself.

use crate::checksum::Uid;
use crate::env::Machine;
use crate::identity::StoreIdentity;

use super::ring::RingHeader;
pub use super::segment::PAGE;
use super::segment::SegmentHeader;

/// Returns the first pages of segment 2, of `length` bytes, and of ring 1, with both marks at one offset.
pub fn first_pages(machine: Machine, nonce: u64, length: u64, ring_bytes: u64, marks: u64) -> [Vec<u8>; 2] {
    let (uid, store) = (Uid::default(), StoreIdentity::default());
    let segment = SegmentHeader { number: 2, nonce, first: 0, machine, length };
    let ring = RingHeader { number: 1, capacity: ring_bytes, machine, nonce };
    [segment.encode(uid, &store).to_vec(), ring.encode(uid, &store, marks).to_vec()]
}
