//! Any bytes as calls of the C library, in any order, with any arguments that C could pass: it answers, and does
//! nothing else.
//!
//! A call is a byte that chooses the function, and bytes that choose its arguments: handles alive, ended, of another
//! kind and made up; bytes with lengths, also null and far too long; numbers from the ends of their ranges. Held to: a
//! failure writes its error and nothing else, a success writes no error, everything that was given away can be ended,
//! and nothing is left then.
#![no_main]

use std::collections::BTreeMap;

// The library, for its symbols.
extern crate waxseal_abi as _;

include!(concat!(env!("OUT_DIR"), "/abi_calls.rs"));

#[repr(C)]
#[derive(Clone, Copy)]
struct Slice {
    data: usize,
    len: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Seal([u8; 8]);

#[repr(C)]
struct Bound {
    kind: i32,
    key: usize,
    key_len: usize,
}

/// An Arrow stream, as far as it must be known to be ended.
#[repr(C)]
#[derive(Default)]
struct Stream {
    get_schema: usize,
    get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> i32>,
    get_last_error: usize,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private_data: usize,
}

#[repr(C)]
#[derive(Default)]
struct Array {
    head: [usize; 8],
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private_data: usize,
}

impl Stream {
    /// Takes a few batches and ends it.
    fn read(&mut self) {
        let (Some(next), Some(release)) = (self.get_next, self.release) else { return };
        for _ in 0..3 {
            let mut array = Array::default();
            if unsafe { next(self, &mut array) } != 0 {
                break;
            }
            match array.release {
                Some(release) => unsafe { release(&mut array) },
                None => break,
            }
        }
        unsafe { release(self) }
    }
}

/// The last status of failures, and of answers.
const INTERNAL: i32 = -13;
const TOO_SMALL: i32 = 2;

/// Most handles of one kind that are kept.
const KEPT: usize = 6;
/// Bytes that are lent, and written to.
const ROOM: usize = 64;

const NAMES: &[&[u8]] = &[
    b"default",
    b"users",
    b"users.john",
    b"system_metadata.log",
    b"Row.Insert",
    b"Row.Update",
    b"*",
    b"alice",
    b"",
    b"\xff\xfe",
    b"test.op",
];

/// Draws arguments from the input, and remembers what calls gave.
struct Chooser<'a> {
    rest: std::slice::Iter<'a, u8>,
    handles: BTreeMap<&'static str, Vec<usize>>,
    error: usize,
    lent: Vec<Box<[u8]>>,
    slices: Vec<Box<[Slice]>>,
    bounds: Vec<Box<[Bound; 2]>>,
    written: Box<[u64; 64]>,
    paths: bool,
}

impl Chooser<'_> {
    fn byte(&mut self) -> u8 {
        self.rest.next().copied().unwrap_or(0)
    }

    /// A handle: mostly one that was given for this kind, alive or not.
    fn handle(&mut self, kind: &'static str) -> usize {
        let (how, which) = (self.byte(), self.byte() as usize);
        let mut any = self.handles.values().flatten().copied();
        let own = self.handles.get(kind).filter(|own| !own.is_empty());
        match (how, own) {
            (0..224, Some(own)) => own[which % own.len()],
            (224..232, _) => any.nth(which).unwrap_or(1),
            (232..240, _) => (which << 59) | (usize::from(how) << 28) | 3,
            (240..244, _) => which.wrapping_sub(1),
            _ => 0,
        }
    }

    /// Remembers a handle that was given; the oldest of too many is ended.
    fn keep(&mut self, kind: &'static str, handle: usize) {
        if handle == 0 {
            return;
        }
        let kept = self.handles.entry(kind).or_default();
        kept.push(handle);
        if kept.len() > KEPT {
            let oldest = kept.remove(0);
            end(kind, oldest);
        }
    }

    fn place_of(&mut self, place: &mut usize) -> usize {
        if self.byte() == 255 { 0 } else { std::ptr::from_mut(place).addr() }
    }

    fn error_place(&mut self) -> usize {
        self.error = 0;
        std::ptr::from_mut(&mut self.error).expose_provenance()
    }

    fn lend(&mut self, bytes: &[u8]) -> (usize, usize) {
        self.lent.push(bytes.into());
        self.lent.last().map_or((0, 0), |lent| (lent.as_ptr().expose_provenance(), lent.len()))
    }

    /// Bytes with their length, for a parameter of this name.
    fn bytes(&mut self, name: &str) -> (usize, usize) {
        let how = self.byte();
        match (how, name) {
            (255, _) => return (0, 7),
            (254, _) => return (0, 0),
            (253, "key" | "value") => return (self.lend(b"k").0, 4 << 30),
            (252, "key" | "value") => return (self.lend(b"k").0, usize::MAX),
            _ => {}
        }
        match name {
            "path" | "destination" | "directory" | "dir" | "from" | "to" | "source" => {
                self.paths = true;
                self.lend(format!("{}/{}", folder(), how % 3).as_bytes())
            }
            "key" | "value" | "bytes" | "prefix" => {
                let length = self.byte() as usize % 24;
                let drawn: Vec<u8> = (0..length).map(|_| self.byte()).collect();
                self.lend(&drawn)
            }
            _ => self.lend(NAMES[how as usize % NAMES.len()]),
        }
    }

    fn buffer(&mut self) -> (usize, usize) {
        match self.byte() {
            255 => (0, 7),
            254 => (0, 0),
            room => (self.lend(&[0; ROOM]).0, room as usize % ROOM),
        }
    }

    fn slices(&mut self) -> (usize, usize) {
        let how = self.byte();
        if how >= 254 {
            return (0, how as usize - 254);
        }
        let slices: Vec<Slice> =
            (0..how % 4).map(|_| self.bytes("bytes")).map(|(data, len)| Slice { data, len }).collect();
        self.slices.push(slices.into());
        let count = if how == 253 { usize::MAX } else { usize::from(how % 4) };
        (self.slices.last().map_or(0, |slices| slices.as_ptr().expose_provenance()), count)
    }

    fn range(&mut self) -> usize {
        let how = self.byte();
        if how & 1 == 0 {
            return 0;
        }
        let mut bound = |kind: u8| {
            let (key, key_len) = self.bytes("key");
            Bound { kind: i32::from(kind & 3) - i32::from(kind & 64 != 0), key, key_len }
        };
        let bounds = Box::new([bound(how >> 1), bound(how >> 3)]);
        self.bounds.push(bounds);
        self.bounds.last().map_or(0, |bounds| bounds.as_ptr().expose_provenance())
    }

    fn number(&mut self, name: &str) -> u64 {
        let drawn = self.byte();
        match name {
            // Slowness is asked for, and given.
            "bytes_per_second" => {
                if drawn & 1 == 0 {
                    0
                } else {
                    u64::MAX
                }
            }
            _ => match drawn {
                0..200 => u64::from(drawn % 8),
                200..220 => u64::from(drawn) << 12,
                220..230 => 1 << 32,
                230..240 => u64::MAX >> 1,
                _ => (drawn as i8) as u64,
            },
        }
    }

    /// A place for whatever a call writes.
    fn scratch(&mut self) -> usize {
        if self.byte() == 255 { 0 } else { self.written.as_mut_ptr().expose_provenance() }
    }

    /// Looks at the status of a call and the error that it left.
    fn answered<A: Answer>(&mut self, name: &str, answer: A) {
        self.lent.clear();
        self.slices.clear();
        self.bounds.clear();
        let error = std::mem::take(&mut self.error);
        let code = unsafe { waxseal_error_code(error) };
        if error != 0 {
            assert!(
                answer.status().is_none_or(|status| status == code && status < 0),
                "{name}: {:?}, {code}",
                answer.status()
            );
            assert_eq!(unsafe { waxseal_error_destroy(error) }, 0, "{name}");
        }
        let is_status = |status| (INTERNAL + 1..=TOO_SMALL).contains(&status); // nothing may panic
        assert!(is_number(name) || answer.status().is_none_or(is_status), "{name}: {:?}", answer.status());
    }
}

/// Functions whose answer is a number and no status.
fn is_number(name: &str) -> bool {
    matches!(name, "waxseal_error_code" | "waxseal_error_verdict")
}

trait Answer {
    fn status(&self) -> Option<i32> {
        None
    }
}

impl Answer for i32 {
    fn status(&self) -> Option<i32> {
        Some(*self)
    }
}
impl Answer for usize {}
impl Answer for u64 {}
impl Answer for u32 {}
impl Answer for bool {}
impl Answer for Seal {}
impl Answer for Slice {}
impl Answer for () {}

/// Where stores of this process are that are made in files.
fn folder() -> String {
    format!("{}/waxseal-abi-{}", std::env::temp_dir().display(), std::process::id())
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut chooser = Chooser {
        rest: data.iter(),
        handles: BTreeMap::new(),
        error: 0,
        lent: Vec::new(),
        slices: Vec::new(),
        bounds: Vec::new(),
        written: Box::new([0; 64]),
        paths: false,
    };
    // Most functions need a store, so open one first.
    let mut made = [0; 2];
    unsafe {
        let place = |place: &mut usize| std::ptr::from_mut(place).expose_provenance();
        assert_eq!(waxseal_open_memory(0, place(&mut made[0]), 0), 0);
        assert_eq!(waxseal_family_open(made[0], b"users".as_ptr().expose_provenance(), 5, place(&mut made[1]), 0), 0);
    }
    chooser.keep("waxseal_db_t", made[0]);
    chooser.keep("waxseal_family_t", made[1]);
    let mut calls = 0;
    while !chooser.rest.as_slice().is_empty() && calls < 200 {
        let number = chooser.byte() as usize | (chooser.byte() as usize) << 8;
        call(&mut chooser, number % FUNCTIONS);
        calls += 1;
    }
    for (kind, handles) in std::mem::take(&mut chooser.handles) {
        for handle in handles {
            end(kind, handle);
        }
    }
    assert_eq!(unsafe { waxseal_live_handles() }, 0);
    if chooser.paths {
        let _ = std::fs::remove_dir_all(folder());
    }
});
