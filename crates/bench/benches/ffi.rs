//! The cost of a call through the C library, beside the same call in Rust: get, put, and iteration by steps and by
//! batches of rows.
//!
//! `cargo bench -p waxseal-bench --bench ffi` measures. The library is the shared one, built by cargo in the same
//! profile and loaded as a C program would load it; the Rust side is the Rust API, in this program. Both have the same
//! records.

#![allow(unsafe_code, reason = "it calls the C library")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::hint::black_box;
use std::process::Command;
use std::ptr::{null, null_mut};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use waxseal::Db;

/// Returns the number of records in a store: few unless cargo measures (`--bench`).
fn records() -> u64 {
    if std::env::args().any(|argument| argument == "--bench") { 100_000 } else { 100 }
}

fn key(number: u64) -> String {
    // A permutation: neighbours in time are no neighbours in the store.
    format!("{:016}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 4)
}

const VALUE: &[u8] = &[b'v'; 100];

unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

type Status = i32;
type Handle = *mut c_void;

#[repr(C)]
#[derive(Clone, Copy)]
struct Slice {
    data: *const u8,
    len: usize,
}

#[repr(C)]
struct Row {
    key: Slice,
    value: Slice,
}

#[repr(C)]
struct Packed {
    data: *const u8,
    offsets: *const usize,
    count: usize,
}

/// The functions of the library that are measured.
struct Library {
    open_memory: unsafe extern "C" fn(Handle, *mut Handle, *mut Handle) -> Status,
    family_open: unsafe extern "C" fn(Handle, *const u8, usize, *mut Handle, *mut Handle) -> Status,
    put: unsafe extern "C" fn(Handle, *const u8, usize, *const u8, usize, *mut Handle) -> Status,
    flush: unsafe extern "C" fn(Handle, *mut Handle) -> Status,
    get: unsafe extern "C" fn(Handle, Handle, *const u8, usize, *mut Handle, *mut Handle) -> Status,
    get_into: unsafe extern "C" fn(Handle, Handle, *const u8, usize, *mut u8, usize, *mut usize, *mut Handle) -> Status,
    bytes_destroy: unsafe extern "C" fn(Handle) -> Status,
    iter_create: unsafe extern "C" fn(Handle, Handle, *const c_void, *mut Handle, *mut Handle) -> Status,
    iter_next: unsafe extern "C" fn(Handle, *mut Row, *mut Handle) -> Status,
    iter_next_rows: unsafe extern "C" fn(Handle, usize, usize, *mut Packed, *mut Handle) -> Status,
    iter_destroy: unsafe extern "C" fn(Handle) -> Status,
}

impl Library {
    /// Builds the shared library and loads it.
    fn load() -> Library {
        let program = std::env::current_exe().expect("this program");
        let built = program.ancestors().nth(2).expect("a target folder");
        let profile = if built.ends_with("release") { "release" } else { "test" };
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "--locked", "-p", "waxseal-ffi", "--profile", profile, "--target-dir"]);
        assert!(cargo.arg(built.parent().expect("a target folder")).status().expect("cargo").success());
        let file = CString::new(built.join("libwaxseal.so").display().to_string()).expect("a path");
        // SAFETY: a library of ours, without constructors; 2 is RTLD_NOW.
        let library = unsafe { dlopen(file.as_ptr(), 2) };
        assert!(!library.is_null(), "{file:?} cannot be loaded");
        // SAFETY: each function has the type that the header gives it.
        unsafe {
            Library {
                open_memory: symbol(library, c"waxseal_open_memory"),
                family_open: symbol(library, c"waxseal_family_open"),
                put: symbol(library, c"waxseal_put"),
                flush: symbol(library, c"waxseal_flush"),
                get: symbol(library, c"waxseal_get"),
                get_into: symbol(library, c"waxseal_get_into"),
                bytes_destroy: symbol(library, c"waxseal_bytes_destroy"),
                iter_create: symbol(library, c"waxseal_iter_create"),
                iter_next: symbol(library, c"waxseal_iter_next"),
                iter_next_rows: symbol(library, c"waxseal_iter_next_rows"),
                iter_destroy: symbol(library, c"waxseal_iter_destroy"),
            }
        }
    }

    fn iterator(&self, family: Handle) -> Handle {
        let mut iter = null_mut();
        // SAFETY: as the header asks.
        assert_eq!(unsafe { (self.iter_create)(family, null_mut(), null(), &mut iter, null_mut()) }, 0);
        iter
    }
}

/// # Safety
/// `F` is the type of the function with this name.
unsafe fn symbol<F: Copy>(library: *mut c_void, name: &CStr) -> F {
    // SAFETY: a library that was loaded, a name that ends.
    let found = unsafe { dlsym(library, name.as_ptr()) };
    assert!(!found.is_null(), "{name:?} is not in the library");
    assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
    // SAFETY: a pointer to a function of this type, as promised.
    unsafe { std::mem::transmute_copy(&found) }
}

fn calls(criterion: &mut Criterion) {
    let library = Library::load();
    let count = records();
    let keys: Vec<String> = (0..count).map(key).collect();
    let db = Db::memory().expect("a store in memory");
    let rust = db.column_family("default").expect("a family");
    let (mut store, mut c) = (null_mut(), null_mut());
    // SAFETY: as the header asks.
    unsafe {
        assert_eq!((library.open_memory)(null_mut(), &mut store, null_mut()), 0);
        assert_eq!((library.family_open)(store, b"default".as_ptr(), 7, &mut c, null_mut()), 0);
    }
    let put_c = |key: &str| {
        // SAFETY: as the header asks.
        unsafe { (library.put)(c, key.as_ptr(), key.len(), VALUE.as_ptr(), VALUE.len(), null_mut()) }
    };
    for key in &keys {
        rust.put(key, VALUE).expect("a put");
        assert_eq!(put_c(key), 0);
    }
    db.flush().expect("a flush");
    // SAFETY: as the header asks.
    assert_eq!(unsafe { (library.flush)(store, null_mut()) }, 0);

    let mut group = criterion.benchmark_group("ffi");
    let mut next = keys.iter().cycle();
    group.bench_function("get_into/rust", |bencher| {
        let mut value = Vec::with_capacity(128);
        bencher.iter(|| black_box(rust.get_into(next.next().expect("a key"), &mut value).expect("a get")));
    });
    let mut next = keys.iter().cycle();
    group.bench_function("get_into/c", |bencher| {
        let (mut value, mut length) = ([0u8; 128], 0);
        bencher.iter(|| {
            let key = next.next().expect("a key");
            // SAFETY: as the header asks.
            let status = unsafe {
                let (data, room) = (value.as_mut_ptr(), value.len());
                (library.get_into)(c, null_mut(), key.as_ptr(), key.len(), data, room, &mut length, null_mut())
            };
            assert_eq!(black_box(status), 0);
        });
    });
    let mut next = keys.iter().cycle();
    group.bench_function("get/rust", |bencher| {
        bencher.iter(|| black_box(rust.get(next.next().expect("a key")).expect("a get")));
    });
    let mut next = keys.iter().cycle();
    group.bench_function("get/c", |bencher| {
        bencher.iter(|| {
            let (key, mut value) = (next.next().expect("a key"), null_mut());
            // SAFETY: as the header asks.
            unsafe {
                assert_eq!((library.get)(c, null_mut(), key.as_ptr(), key.len(), &mut value, null_mut()), 0);
                (library.bytes_destroy)(black_box(value))
            }
        });
    });
    group.throughput(Throughput::Elements(count));
    group.bench_function("scan/rust, cursor", |bencher| {
        bencher.iter(|| {
            let mut cursor = rust.cursor();
            let mut rows = 0;
            cursor.first().expect("a scan");
            while cursor.valid() {
                rows += 1;
                black_box((cursor.key(), cursor.value()));
                cursor.next().expect("a scan");
            }
            assert_eq!(rows, count);
        });
    });
    group.bench_function("scan/c, steps", |bencher| {
        bencher.iter(|| {
            let iter = library.iterator(c);
            let empty = Slice { data: null(), len: 0 };
            let (mut row, mut rows) = (Row { key: empty, value: empty }, 0);
            // SAFETY: as the header asks.
            while unsafe { (library.iter_next)(iter, &mut row, null_mut()) } == 0 {
                rows += 1;
                black_box((&row.key, &row.value));
            }
            assert_eq!(rows, count);
            // SAFETY: as the header asks.
            unsafe { (library.iter_destroy)(iter) }
        });
    });
    group.bench_function("scan/c, packed rows", |bencher| {
        bencher.iter(|| {
            let iter = library.iterator(c);
            let (mut packed, mut rows) = (Packed { data: null(), offsets: null(), count: 0 }, 0);
            // SAFETY: as the header asks.
            while unsafe { (library.iter_next_rows)(iter, 1000, 1 << 18, &mut packed, null_mut()) } == 0 {
                rows += packed.count as u64;
                black_box((packed.data, packed.offsets));
            }
            assert_eq!(rows, count);
            // SAFETY: as the header asks.
            unsafe { (library.iter_destroy)(iter) }
        });
    });

    // Last: they leave the two stores with memtables of their own.
    group.throughput(Throughput::Elements(1));
    let mut next = keys.iter().cycle();
    group.bench_function("put/rust", |bencher| {
        bencher.iter(|| rust.put(next.next().expect("a key"), VALUE).expect("a put"));
    });
    let mut next = keys.iter().cycle();
    group.bench_function("put/c", |bencher| bencher.iter(|| assert_eq!(put_c(next.next().expect("a key")), 0)));
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);
