//! Every experiment about files as a user calls it, tiny: its lines have their shape, what is about right and wrong
//! passes, and what is about time may be undecided or, at this size, fail.
#![expect(clippy::disallowed_methods, reason = "a driver's test reads what the driver wrote")]

mod lines;

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
    passes(&["traverse", "--scale", "0.00001", "--caches", "warm"], &[]);
}
