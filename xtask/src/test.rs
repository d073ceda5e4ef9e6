//! `cargo xtask test`: every test of the workspace, counted.
//!
//! In: a list of runs, each a program whose output says how many tests passed. Out: that output, then one line
//! `N passed, N failed`. The runs in Rust come first, one after the other; those in C and Python run two at a time.
//! A program that dies, or does not compile, counts as one failure even if it named none.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Which face the tests belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Face {
    Rust,
    C,
    Python,
}

/// The program of a run.
enum Program {
    Cargo,
    /// `cargo test` of the one build with planted bugs.
    Planted,
    /// The Python of the environment in which the package and those beside it are installed. It runs unittest.
    Reader,
    /// The same Python, with this backend of the package. It runs pytest.
    Package(&'static str),
}

/// One program that runs tests.
struct Run {
    face: Face,
    name: &'static str,
    program: Program,
    arguments: &'static [&'static str],
    /// A folder and a part of a file name; without a matching file the run is skipped.
    needs: Option<(&'static str, &'static str)>,
}

/// All runs, in the order in which each face starts its own. A new kind of test is a new line here.
const RUNS: &[Run] = &[
    Run {
        face: Face::Rust,
        name: "workspace",
        program: Program::Cargo,
        arguments: &[
            "test",
            "--workspace",
            "--exclude",
            "waxseal-ffi",
            "--exclude",
            "waxseal-leveldb",
            "--features",
            crate::python::WORKSPACE_FEATURES,
            "--locked",
            "--no-fail-fast",
        ],
        needs: None,
    },
    // The C library, and C programs that use it: it builds what they link with, and counts theirs. Both runs of C also
    // choose the tool, without its tests: cargo then compiles the engine once for all builds.
    Run {
        face: Face::C,
        name: "the C library",
        program: Program::Cargo,
        arguments: &[
            "test",
            "-p",
            "waxseal-ffi",
            "-p",
            "waxseal-cli",
            "--features",
            crate::python::TOOL_FEATURES,
            "--lib",
            "--test",
            "run",
            "--locked",
            "--no-fail-fast",
        ],
        needs: None,
    },
    Run {
        face: Face::C,
        name: "LevelDB's C API",
        program: Program::Cargo,
        arguments: &[
            "test",
            "-p",
            "waxseal-leveldb",
            "-p",
            "waxseal-cli",
            "--features",
            crate::python::TOOL_FEATURES,
            "--lib",
            "--test",
            "c",
            "--locked",
            "--no-fail-fast",
        ],
        needs: None,
    },
    // A planted bug affects its whole process, so that tests of these names run apart.
    Run {
        face: Face::Rust,
        name: "a store packed with zstd",
        program: Program::Planted,
        arguments: &["--test", "simulation", "--", "packed"],
        needs: Some(("crates/meta/tests/simulation", "packed")),
    },
    Run {
        face: Face::Rust,
        name: "planted bugs of the engine",
        program: Program::Planted,
        arguments: &["--test", "*planted*", "--test", "simulation", "planted"],
        needs: Some(("crates/lsm/tests", "planted")),
    },
    Run {
        face: Face::Rust,
        name: "planted bugs of stamps, registry and log",
        program: Program::Planted,
        arguments: &["--test", "stamps", "--test", "events", "planted"],
        needs: Some(("crates/registry/tests/events", "planted")),
    },
    Run {
        face: Face::Python,
        name: "format reader",
        program: Program::Reader,
        arguments: &["-B", "-m", "unittest", "discover", "--start-directory", "tests/reader"],
        needs: Some(("tests/reader", "test_")),
    },
    Run {
        face: Face::Python,
        name: "the Python package",
        program: Program::Package("native"),
        arguments: PYTEST,
        needs: None,
    },
    // The same tests by a second route to the C library.
    Run {
        face: Face::Python,
        name: "the Python package on ctypes",
        program: Program::Package("ctypes"),
        arguments: PYTEST,
        needs: None,
    },
];

/// The build for all runs with planted bugs, or with a simulated store in zstd; the engine's unit tests have zstd in every
/// build. All these runs choose the same packages and features, since cargo compiles the engine once for each set of
/// features.
const PLANTED: &[&str] = &[
    "test",
    "-p",
    "waxseal-lsm",
    "-p",
    "waxseal-meta",
    "-p",
    "waxseal-registry",
    "--locked",
    "--no-fail-fast",
    "--features",
    "waxseal-lsm/zstd,waxseal-lsm/planted,waxseal-meta/zstd,waxseal-meta/planted,waxseal-registry/planted",
];

/// Tests of the Python package, away from its sources, so that the installed one is tested.
const PYTEST: &[&str] = &["-I", "-m", "pytest", "--quiet", "--config-file", "python/pyproject.toml", "python/tests"];

/// Tests that sweep or draw many cases take fewer when this variable is set.
const QUICK: &str = "WAXSEAL_QUICK";

/// The caller's choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    face: Option<Face>,
    quick: bool,
}

impl Choice {
    /// Reads `[rust|c|python] [--quick]`, in any order.
    pub(crate) fn parse(words: &[&str]) -> Option<Choice> {
        let mut choice = Choice { face: None, quick: false };
        for word in words {
            let face = match *word {
                "rust" => Face::Rust,
                "c" => Face::C,
                "python" => Face::Python,
                "--quick" if !choice.quick => {
                    choice.quick = true;
                    continue;
                }
                _ => return None,
            };
            if choice.face.replace(face).is_some() {
                return None;
            }
        }
        Some(choice)
    }

    fn wants(self, face: Face) -> bool {
        self.face.is_none_or(|wanted| wanted == face)
    }
}

/// Tests counted so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Tally {
    passed: u64,
    failed: u64,
}

/// Number of C and Python runs at a time. Most of their programs use one processor; those of Rust use all.
const SIDE_BY_SIDE: usize = 2;

/// The outcome of a run, and the time that it took.
struct Done {
    name: &'static str,
    tally: Tally,
    time: Duration,
}

/// Runs what was chosen and prints the count as the last line.
pub(crate) fn run(root: &Path, choice: Choice) -> ExitCode {
    let chosen = RUNS.iter().filter(|run| choice.wants(run.face));
    let (rust, others): (Vec<&Run>, Vec<&Run>) = chosen.partition(|run| run.face == Face::Rust);
    let mut done: Vec<Done> =
        rust.iter().filter_map(|run| timed(root, run, choice.quick, &mut std::io::stdout().lock())).collect();
    done.extend(side_by_side(root, &others, choice.quick));
    let sum = |count: fn(&Tally) -> u64| done.iter().map(|run| count(&run.tally)).sum::<u64>();
    let (passed, failed) = (sum(|tally| tally.passed), sum(|tally| tally.failed));
    for Done { name, time, .. } in &done {
        println!("{name}: {:.1} s", time.as_secs_f64());
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Carries out runs, several at a time. The output of each is printed when it ends.
fn side_by_side(root: &Path, runs: &[&Run], quick: bool) -> Vec<Done> {
    let (waiting, done) = (Mutex::new(runs.iter()), Mutex::new(Vec::new()));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(run) = next() {
                    let mut text = Vec::new();
                    let ended = timed(root, run, quick, &mut text);
                    let _ = std::io::stdout().lock().write_all(&text);
                    done.lock().unwrap_or_else(PoisonError::into_inner).extend(ended);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Carries out a run and measures its time. `None` if there was nothing to run.
fn timed(root: &Path, run: &Run, quick: bool, out: &mut impl Write) -> Option<Done> {
    if !run.needs.is_none_or(|(folder, part)| has_file(&root.join(folder), part)) {
        say(out, &format!("{}: nothing yet", run.name));
        return None;
    }
    let start = Instant::now();
    let tally = execute(root, run, quick, out)?;
    Some(Done { name: run.name, tally, time: start.elapsed() })
}

/// Prints a line of our own. A reader who has left does not stop the tests.
fn say(out: &mut impl Write, line: &str) {
    let _ = writeln!(out, "{line}");
}

/// Runs one program to its end. Returns `None` if it was skipped, with a line that says so.
fn execute(root: &Path, run: &Run, quick: bool, out: &mut impl Write) -> Option<Tally> {
    say(out, &format!("== {}", run.name));
    let failed = Some(Tally { passed: 0, failed: 1 });
    let program = match run.program {
        Program::Cargo | Program::Planted => crate::cargo(),
        Program::Reader | Program::Package(_) => {
            let Some(python) = python(crate::python::OLDEST, "sys, venv, ensurepip") else {
                return skipped(run.name, crate::python::OLDEST, out);
            };
            match crate::python::environment(root, &python) {
                Ok(program) => program.to_string_lossy().into_owned(),
                Err(what) => {
                    say(out, &format!("{}: {what}", run.name));
                    return failed;
                }
            }
        }
    };
    let mut command = Command::new(program);
    if matches!(run.program, Program::Planted) {
        command.args(PLANTED);
    }
    command.args(run.arguments).current_dir(root);
    if quick {
        command.env(QUICK, "1");
    }
    if let Program::Package(backend) = run.program {
        command.env("WAXSEAL_BACKEND", backend);
    }
    // cargo test and pytest count on standard output, unittest on standard error; the other stream is passed through.
    match run.program {
        Program::Cargo | Program::Planted | Program::Package(_) => command.stdout(Stdio::piped()),
        Program::Reader => command.stderr(Stdio::piped()),
    };
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            say(out, &format!("{}: cannot be started: {error}", run.name));
            return failed;
        }
    };
    let mut tally = match (child.stdout.take(), child.stderr.take()) {
        (Some(stream), _) => listen(stream, out),
        (None, Some(stream)) => listen(stream, out),
        (None, None) => Tally::default(),
    };
    let succeeded = child.wait().is_ok_and(|status| status.success());
    if !succeeded && tally.failed == 0 {
        say(out, &format!("{}: ended without success, though it named no failed test", run.name));
        tally.failed = 1;
    }
    if succeeded && tally == Tally::default() {
        say(out, &format!("{}: no test was counted", run.name));
        tally.failed = 1;
    }
    Some(tally)
}

/// Passes the lines of a program on and counts.
fn listen(stream: impl Read, out: &mut impl Write) -> Tally {
    let (mut tally, mut ran) = (Tally::default(), 0);
    for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
        // Somebody who stops reading us does not stop the tests.
        let _ = out.write_all(&line).and_then(|()| out.write_all(b"\n"));
        let line = String::from_utf8_lossy(&line);
        if let Some(found) = count_cargo(&line) {
            tally.passed += found.passed;
            tally.failed += found.failed;
        } else if let Some(found) = count_pytest(&line) {
            tally.passed += found.passed;
            tally.failed += found.failed;
        } else if let Some(count) = words_after(&line, "Ran ").first().and_then(|word| word.parse().ok()) {
            ran = count;
        } else if let Some(found) = count_unittest(&line, ran) {
            tally.passed += found.passed;
            tally.failed += found.failed;
            ran = 0;
        }
    }
    tally
}

/// `test result: ok. 12 passed; 0 failed; 1 ignored; ..`
fn count_cargo(line: &str) -> Option<Tally> {
    let words = words_after(line, "test result: ");
    let before = |name: &str| {
        let at = words.iter().position(|word| word.trim_end_matches(';') == name)?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    };
    Some(Tally { passed: before("passed")?, failed: before("failed")? })
}

/// `1 failed, 12 passed, 2 skipped, 1 error in 3.45s`, perhaps with a time in brackets behind it.
fn count_pytest(line: &str) -> Option<Tally> {
    let (counts, time) = line.trim().split_once(" in ")?;
    if !time.split(' ').next()?.strip_suffix('s')?.parse::<f64>().is_ok_and(f64::is_finite) {
        return None;
    }
    let mut tally = Tally::default();
    for part in counts.split(", ") {
        let (number, name) = part.split_once(' ')?;
        let number: u64 = number.parse().ok()?;
        match name {
            "passed" | "xfailed" => tally.passed += number,
            "failed" | "xpassed" | "error" | "errors" => tally.failed += number,
            "skipped" | "deselected" | "warning" | "warnings" => {}
            _ => return None,
        }
    }
    Some(tally)
}

/// `OK`, `OK (skipped=1)` or `FAILED (failures=1, errors=2)`, after `Ran 20 tests`.
fn count_unittest(line: &str, ran: u64) -> Option<Tally> {
    let detail = match line.trim_end().split_once(' ') {
        None if line.trim_end() == "OK" => "",
        Some(("OK" | "FAILED", detail)) if detail.starts_with('(') => detail,
        _ => return None,
    };
    let number = |name: &str| -> u64 {
        let parts = detail.trim_matches(|c| c == '(' || c == ')').split(", ");
        parts
            .filter_map(|part| part.split_once('='))
            .find(|(word, _)| *word == name)
            .map_or(0, |(_, n)| n.parse().unwrap_or(0))
    };
    let failed = number("failures") + number("errors") + number("unexpected successes");
    Some(Tally { passed: ran.saturating_sub(failed + number("skipped")), failed })
}

fn words_after<'a>(line: &'a str, start: &str) -> Vec<&'a str> {
    line.strip_prefix(start).map_or_else(Vec::new, |rest| rest.split_whitespace().collect())
}

/// Says what is skipped, in one line.
fn skipped(name: &str, (major, minor): (u32, u32), out: &mut impl Write) -> Option<Tally> {
    say(out, &format!("{name}: skipped, there is no whole Python {major}.{minor} or newer here"));
    None
}

/// A Python that is new enough and has these modules, by the name it answers to.
fn python((major, minor): (u32, u32), modules: &str) -> Option<String> {
    let new_enough = format!("import {modules}; sys.exit(sys.version_info < ({major}, {minor}))");
    ["python3", "python"].into_iter().map(str::to_owned).find(|name| {
        let mut command = Command::new(name);
        command.args(["-c", &new_enough]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

fn has_file(folder: &Path, part: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts a log without printing it: our own output is counted by whoever runs these tests.
    fn count(log: &str) -> Tally {
        listen(log.as_bytes(), &mut std::io::sink())
    }

    #[test]
    fn results_of_cargo_are_counted() {
        let ok = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.10s";
        assert_eq!(count_cargo(ok), Some(Tally { passed: 12, failed: 0 }));
        let bad = "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(count_cargo(bad), Some(Tally { passed: 3, failed: 2 }));
        assert_eq!(count_cargo("test result_of_passed_and_failed ... ok"), None);
        assert_eq!(count_cargo("12 passed; 0 failed"), None);
    }

    #[test]
    fn results_of_unittest_are_counted() {
        let log = "....\nRan 20 tests in 0.9s\n\nFAILED (failures=1, errors=2, skipped=3)\n";
        assert_eq!(count(log), Tally { passed: 14, failed: 3 });
        assert_eq!(count("Ran 20 tests in 0.9s\n\nOK (skipped=1)\n"), Tally { passed: 19, failed: 0 });
        assert_eq!(count("Ran 1 test in 0.9s\n\nOK\n"), Tally { passed: 1, failed: 0 });
    }

    #[test]
    fn results_of_pytest_are_counted() {
        assert_eq!(count("134 passed, 2 skipped in 47.19s\n"), Tally { passed: 134, failed: 0 });
        assert_eq!(count("1 failed, 3 passed, 2 errors in 67.01s (0:01:07)\n"), Tally { passed: 3, failed: 3 });
        assert_eq!(count("no tests ran in 0.01s\n"), Tally::default());
        assert_eq!(count_pytest("3 passed in the end"), None);
        assert_eq!(count_pytest("seen 3 times in 2s"), None);
    }

    #[test]
    fn several_results_are_summed() {
        let log = "test result: ok. 1 passed; 0 failed;\nnoise\ntest result: FAILED. 4 passed; 5 failed;\n";
        assert_eq!(count(log), Tally { passed: 5, failed: 5 });
    }

    #[test]
    fn runs_that_go_side_by_side_are_all_counted() {
        let silent =
            |name| Run { face: Face::C, name, program: Program::Cargo, arguments: &["--version"], needs: None };
        let runs = ["a", "b", "c"].map(silent);
        let done = side_by_side(&crate::root(), &runs.iter().collect::<Vec<_>>(), false);
        let mut names: Vec<&str> = done.iter().map(|run| run.name).collect();
        names.sort_unstable();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(done.iter().all(|run| run.tally == Tally { passed: 0, failed: 1 }), "no test was counted");
    }

    #[test]
    fn choices_are_read() {
        assert_eq!(Choice::parse(&[]), Some(Choice { face: None, quick: false }));
        assert_eq!(Choice::parse(&["--quick", "c"]), Some(Choice { face: Some(Face::C), quick: true }));
        assert_eq!(Choice::parse(&["rust", "python"]), None);
        assert_eq!(Choice::parse(&["--quik"]), None);
        let rust = Choice { face: Some(Face::Rust), quick: false };
        assert!(rust.wants(Face::Rust) && !rust.wants(Face::Python));
    }
}
