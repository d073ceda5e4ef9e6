//! Every experiment about files as a user calls it, tiny: its lines have their shape, what is about right and wrong
//! passes, and what is about time may be undecided or, at this size, fail.
#![expect(clippy::disallowed_methods, reason = "a driver's test reads what the driver wrote")]

mod lines;

use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_waxseal-papers");

/// All lines of an experiment pass, but those that measure time.
fn passes(arguments: &[&str], others: &[&str]) {
    lines::passes(PROGRAM, "files", arguments, others);
}

#[test]
fn the_set_of_files_has_the_distribution_of_the_paper() {
    passes(&["generate", "--scale", "0.0001"], &[]);
}

#[test]
fn every_layout_returns_the_same_bytes() {
    // Space is for many files: the first segments of a store are larger than 200 of them.
    passes(&["populate", "--scale", "0.00001"], &["durable", "space"]);
}

#[test]
fn single_files_and_all_files_are_the_right_ones() {
    passes(&["random", "--scale", "0.00001", "--caches", "warm"], &["warm"]);
    passes(&["directories", "--scale", "0.00001", "--caches", "warm"], &[]);
    passes(&["traverse", "--scale", "0.00001", "--caches", "warm"], &[]);
}

#[test]
fn clients_read_the_right_files_beside_a_traversal() {
    passes(&["clients", "--scale", "0.00001"], &[]);
}

#[test]
fn readers_beside_a_paced_traversal_read_the_right_files() {
    passes(&["paced", "--scale", "0.00001"], &["p99"]);
}

#[test]
fn many_files_are_listed_and_walked_completely() {
    passes(&["many", "--scale", "0.0003", "--caches", "warm"], &["open", "page", "walk"]);
}

#[test]
fn a_large_file_has_the_same_bytes_on_each_way() {
    passes(&["large", "--scale", "0.005"], &["library", "mount"]);
}

/// Only root may limit memory, and only by control groups of version 1; the error says so.
#[test]
fn reads_with_little_memory_are_right_or_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let arguments = ["files", "memory", "--scale", "0.00001", "--layouts", "ours,ext4", "--quick", "--dir"];
    let done = Command::new(PROGRAM).args(arguments).arg(dir.path()).output().expect("the program starts");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&done.stderr).into_owned();
    match done.status.code() {
        Some(0) => assert!(text.contains("PASS memory.same_bytes wrong_reads 0"), "{text}"),
        code => assert!(code == Some(4) && complaint.contains("root"), "{code:?} {text}{complaint}"),
    }
}

#[test]
fn steps_of_cassandrafs_copy_files_unchanged() {
    passes(&["cassandrafs", "--scale", "0.001"], &[]);
    passes(&["literal", "--scale", "0.001"], &[]);
}

#[test]
fn every_size_comes_back_in_chunks_of_any_size() {
    passes(&["chunks", "--scale", "0.01"], &[]);
    passes(&["sizes", "--scale", "0.01"], &[]);
}
