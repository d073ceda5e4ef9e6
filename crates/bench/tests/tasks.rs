//! The experiment about async code as a user calls it, tiny: its lines have their shape. How many writes share an
//! fdatasync depends on the disk; that they do is held by a gate in the tests of the face.
#![expect(clippy::disallowed_methods, reason = "a driver's test reads what the driver wrote")]

#[path = "../../papers/tests/lines/mod.rs"]
mod lines;

#[test]
fn tasks_that_write_durably_have_their_lines() {
    let program = env!("CARGO_BIN_EXE_waxseal-bench");
    lines::passes(program, "async", &["--scale", "0.01"], &["async.shared", "async.rate", "async.cached_read"]);
}
