//! The kinds of faults, and the steps at which each can occur.

use std::io::{self, ErrorKind};

/// A fault. It occurs at the first applicable step at or after the step that it is set for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The operation fails with this error and has no effect. Applies to all steps but stores; at a sync it is
    /// `SyncFailed` with this error.
    Error(ErrorKind),
    /// A write is done in part and then fails; a read returns fewer bytes than exist.
    Short,
    /// A write goes to another offset, without an error.
    MisdirectedWrite,
    /// A read returns the bytes at another offset.
    MisdirectedRead,
    /// A read returns bytes with one bit flipped; the disk is unchanged.
    FlippedRead,
    /// The operation takes this long: the manual clock advances first. Applies to every step.
    Delay(u64),
    /// A sync fails, and the pages it should have written count as clean: some were written, some are lost but still
    /// cached, some revert to their old contents.
    SyncFailed,
}

/// The kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StepKind {
    /// A query that reads no data.
    Look,
    /// Reads data.
    Read,
    /// Changes names.
    Name,
    /// Writes data.
    Write,
    /// Changes a length, or reserves space.
    Length,
    /// Makes something durable.
    Sync,
    /// Stores into a mapping; cannot fail.
    Store,
}

impl StepKind {
    /// True if a crash in the middle of it leaves another state than a crash before it.
    pub(super) fn changes(self) -> bool {
        !matches!(self, StepKind::Look | StepKind::Read)
    }
}

impl Fault {
    pub(super) fn fits(self, kind: StepKind) -> bool {
        match self {
            Fault::Error(_) => kind != StepKind::Store,
            Fault::Short => matches!(kind, StepKind::Write | StepKind::Read),
            Fault::MisdirectedWrite => kind == StepKind::Write,
            Fault::MisdirectedRead | Fault::FlippedRead => kind == StepKind::Read,
            Fault::Delay(_) => true,
            Fault::SyncFailed => kind == StepKind::Sync,
        }
    }
}

/// The course of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StepOutcome {
    Whole,
    /// The crash happens during the operation; this many bytes of it were done, or a random part.
    Torn(Option<u64>),
    Short,
    Misdirected,
    Flipped,
    /// For syncs only.
    Failed(ErrorKind),
}

impl StepOutcome {
    /// Returns the caller's result, after the operation took its course.
    pub(super) fn result(self) -> io::Result<()> {
        match self {
            StepOutcome::Whole | StepOutcome::Misdirected | StepOutcome::Flipped => Ok(()),
            StepOutcome::Torn(_) => Err(crashed()),
            StepOutcome::Short => Err(io::Error::new(ErrorKind::WriteZero, "simulated short write")),
            StepOutcome::Failed(kind) => Err(io::Error::new(kind, "simulated sync failure")),
        }
    }
}

/// Returns the error of every operation between the crash and the reboot.
pub(super) fn crashed() -> io::Error {
    io::Error::other("simulated crash")
}
