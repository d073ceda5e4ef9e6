//! What may go wrong at a step, and which steps it can go wrong at.

use std::io::{self, ErrorKind};

/// Something that goes wrong. It strikes the first step, at or after the one it is set for, that it fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The operation fails with this error and does nothing. Fits all but stores; at a sync it is `SyncFailed` with this error.
    Error(ErrorKind),
    /// A write lands in part and then fails; a read answers fewer bytes than there are.
    Short,
    /// A write lands at another offset, and says nothing.
    MisdirectedWrite,
    /// A read answers what stands at another offset.
    MisdirectedRead,
    /// A read answers with one bit flipped; the disk is as it was.
    FlippedRead,
    /// The operation takes this long: the manual clock moves on first. Fits every step.
    Delay(u64),
    /// A sync fails, and the pages it should have written count as clean: some were written, some are lost but still cached, some read as before.
    SyncFailed,
}

/// What kind of step an operation is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Asks without reading data.
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
    /// Stores into a mapping: cannot fail.
    Store,
}

impl Kind {
    /// True if a crash in the middle of it leaves another state than one before it.
    pub(super) fn changes(self) -> bool {
        !matches!(self, Kind::Look | Kind::Read)
    }
}

impl Fault {
    pub(super) fn fits(self, kind: Kind) -> bool {
        match self {
            Fault::Error(_) => kind != Kind::Store,
            Fault::Short => matches!(kind, Kind::Write | Kind::Read),
            Fault::MisdirectedWrite => kind == Kind::Write,
            Fault::MisdirectedRead | Fault::FlippedRead => kind == Kind::Read,
            Fault::Delay(_) => true,
            Fault::SyncFailed => kind == Kind::Sync,
        }
    }
}

/// How an operation goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum How {
    Whole,
    /// The crash comes while it runs; so many bytes of it were done, or a random part.
    Torn(Option<u64>),
    Short,
    Misdirected,
    Flipped,
    /// Of a sync only.
    Failed(ErrorKind),
}

impl How {
    /// What the caller is told after what was to happen has happened.
    pub(super) fn result(self) -> io::Result<()> {
        match self {
            How::Whole | How::Misdirected | How::Flipped => Ok(()),
            How::Torn(_) => Err(crashed()),
            How::Short => Err(io::Error::new(ErrorKind::WriteZero, "simulated short write")),
            How::Failed(kind) => Err(io::Error::new(kind, "simulated sync failure")),
        }
    }
}

/// The error of every operation from the crash on, until the reboot.
pub(super) fn crashed() -> io::Error {
    io::Error::other("simulated crash")
}
