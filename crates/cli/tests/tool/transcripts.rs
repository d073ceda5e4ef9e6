//! Golden transcripts: commands as a user types them, and everything that the tool answers.
//!
//! A file of `crates/cli/scripts` is a list of steps: shell lines, `---`, the expected output and error output in the order
//! of their arrival, and an empty line. Lines that begin with `#` are comments. A step that fails ends with `[exit N]`.
//! Each file runs in an empty directory of its own, with the tool on the path and `WAXSEAL_DIR=d`. Empty lines of the
//! output are left out. With `WAXSEAL_GOLDEN=1` the output is written instead of compared: read the diff.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Words that differ from run to run, as extended regular expressions for `sed`, and what stands for them.
const VOLATILE: &[(&str, &str)] = &[
    ("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z", "TIME"),
    ("/tmp/[A-Za-z0-9._]+", "HOME"),
    ("\\b[0-9a-f]{32}\\b", "ID"),
    ("process [0-9]+", "process N"),
];

/// Runs the shell lines of one step in `home`.
fn step(home: &Path, lines: &str) -> String {
    let tool = Path::new(env!("CARGO_BIN_EXE_waxseal"));
    let path = format!("{}:{}", tool.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("bash")
        .args(["-c", &format!("exec 2>&1\n{lines}")])
        .current_dir(home)
        .env("PATH", path)
        .env("WAXSEAL_DIR", "d")
        .env("USER", "tester")
        .env("TZ", "UTC")
        .output()
        .unwrap();
    let mut sed = Command::new("sed");
    sed.arg("-E");
    for (pattern, word) in VOLATILE {
        sed.arg("-e").arg(format!("s,{pattern},{word},g"));
    }
    let raw = home.with_extension("out");
    fs::write(&raw, &output.stdout).unwrap();
    let text = sed.arg(&raw).output().unwrap().stdout;
    fs::remove_file(&raw).unwrap();
    let mut text: String = String::from_utf8_lossy(&text)
        .lines()
        .filter(|line| !line.is_empty())
        .fold(String::new(), |text, line| text + line.trim_end() + "\n");
    match output.status.code() {
        Some(0) => {}
        Some(code) => text += &format!("[exit {code}]\n"),
        None => text += "[ended by a signal]\n",
    }
    text
}

#[test]
fn the_tool_answers_as_written_down() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut paths: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no transcripts in {}", dir.display());
    let mut different = Vec::new();
    for path in paths {
        let home = tempfile::tempdir().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let steps = text.split("\n\n").map(|step| step.trim_matches('\n')).filter(|step| !step.is_empty());
        let outcome = steps.map(|text| {
            let input = text.split("\n---").next().unwrap_or_default();
            let lines: Vec<&str> = input.lines().filter(|line| !line.starts_with('#')).collect();
            format!("{input}\n---\n{}", step(home.path(), &lines.join("\n")).trim_end())
        });
        let outcome = outcome.collect::<Vec<_>>().join("\n\n") + "\n";
        if std::env::var_os("WAXSEAL_GOLDEN").is_some() {
            fs::write(&path, outcome).unwrap();
        } else if text != outcome {
            different.push(format!("{}\nexpected:\n{text}\nanswered:\n{outcome}", path.display()));
        }
    }
    assert!(different.is_empty(), "WAXSEAL_GOLDEN=1 rewrites these:\n{}", different.join("\n"));
}
