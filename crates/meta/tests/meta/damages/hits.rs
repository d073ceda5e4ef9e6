//! Damages: what becomes of the bytes of a file.

use waxseal_lsm::env::SeededRandom;
use waxseal_lsm::env::sim::SimFs;

use super::stores::Sample;

/// The length of the header of each file of a store.
const HEADER_BYTES: usize = 64;

/// A damage, and where it was done.
#[derive(Debug)]
pub(crate) struct Hit {
    _file: String,
    _what: String,
}

fn below(random: &SeededRandom, bound: usize) -> usize {
    random.below(bound.max(1) as u64) as usize
}

/// Does a damage to one of these files, or to two of them.
pub(crate) fn draw(disk: &SimFs, sample: &Sample, files: &[String], random: &SeededRandom) -> Hit {
    let file = &files[below(random, files.len())];
    let other = &files[below(random, files.len())];
    let path = |name: &str| sample.dir().join(name);
    let mut bytes = disk.read_all(path(file)).expect("a file of the store");
    let choice = random.below(if file == other { 20 } else { 24 });
    if choice >= 20 {
        let theirs = disk.read_all(path(other)).expect("a file of the store");
        disk.write_all(path(file), &theirs).expect("write");
        if choice < 23 {
            disk.write_all(path(other), &bytes).expect("write");
        }
        let what = if choice < 23 { "swapped with" } else { "a copy of" };
        return Hit { _file: file.clone(), _what: format!("{what} {other}") };
    }
    let used = sample.used(file).min(bytes.len());
    let what = change(&mut bytes, used, choice, random);
    disk.write_all(path(file), &bytes).expect("write");
    Hit { _file: file.clone(), _what: what }
}

/// Changes bytes of a file, of which `used` from the start on hold something.
fn change(bytes: &mut Vec<u8>, used: usize, choice: u64, random: &SeededRandom) -> String {
    let at = below(random, used);
    let length = [1, 16, 64, 300, 1024, 4096][below(random, 6)];
    let end = (at + length).min(bytes.len());
    match choice {
        0..=2 => {
            let bits = 1 + below(random, 3);
            (0..bits).for_each(|_| {
                let bit = below(random, used.max(1) * 8);
                if let Some(byte) = bytes.get_mut(bit / 8) {
                    *byte ^= 1 << (bit % 8);
                }
            });
            format!("{bits} bits")
        }
        3..=5 => {
            (0..12).for_each(|_| {
                if let Some(byte) = bytes.get_mut(at + below(random, 40)) {
                    *byte ^= 1 << random.below(8);
                }
            });
            format!("a burst at {at}")
        }
        6..=8 => {
            bytes[at..end].fill(if choice == 6 { 0xFF } else { 0 });
            format!("filled {at}..{end}")
        }
        9..=10 => {
            bytes[at..end].fill_with(|| random.below(256) as u8);
            format!("noise {at}..{end}")
        }
        11..=13 => {
            let to = [0, HEADER_BYTES, at, at, at, used.saturating_sub(1 + below(random, 300))][below(random, 6)];
            bytes.truncate(to);
            format!("cut to {to}")
        }
        14 => {
            let zeros = [HEADER_BYTES, 200, at][below(random, 3)].min(bytes.len());
            bytes[..zeros].fill(0);
            format!("zeros up to {zeros}")
        }
        15 => {
            bytes[at..].fill(0);
            format!("zeros from {at}")
        }
        16..=17 => {
            let (a, b) = (at, below(random, used));
            let length = length.min(a.abs_diff(b)).min(bytes.len() - a.max(b));
            let (low, high) = bytes.split_at_mut(a.max(b));
            let at = a.min(b);
            low[at..at + length].swap_with_slice(&mut high[..length]);
            format!("swapped {length} bytes at {a} and {b}")
        }
        18 => {
            let from = below(random, used);
            let copied = bytes[from..(from + length).min(bytes.len())].to_vec();
            bytes[at..].iter_mut().zip(copied).for_each(|(byte, other)| *byte = other);
            format!("a copy of {length} bytes from {from} to {at}")
        }
        _ if random.below(2) == 0 => {
            bytes.drain(at..end);
            format!("took out {at}..{end}")
        }
        _ => {
            bytes.extend((0..length).map(|_| random.below(256) as u8));
            format!("{length} bytes more")
        }
    }
}
