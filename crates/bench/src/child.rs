//! The driver runs itself as a child process: a step then has its own memory and counters, and may die without ending
//! the experiment.

use crate::Outcome;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Status and output of a child.
#[derive(Debug)]
pub struct Ended {
    /// Its status; `None` if it was killed at its time limit.
    pub status: Option<ExitStatus>,
    /// Its standard output.
    pub output: String,
    /// The end of its standard error.
    pub complaint: String,
}

/// Returns a command for this program with these arguments and piped outputs.
pub fn command<I: IntoIterator<Item = S>, S: AsRef<std::ffi::OsStr>>(arguments: I) -> Outcome<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// Waits for a child, at most this long.
pub fn finish(mut child: Child, at_most: Duration) -> Outcome<Ended> {
    let started = Instant::now();
    let output = child.stdout.take().map(drain);
    let complaint = child.stderr.take().map(drain);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if started.elapsed() >= at_most {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let text = |thread: Option<std::thread::JoinHandle<String>>| {
        thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    };
    Ok(Ended { status, output: text(output), complaint: text(complaint) })
}

/// Reads a pipe to its end in another thread, so that a child with much output never blocks.
fn drain(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
