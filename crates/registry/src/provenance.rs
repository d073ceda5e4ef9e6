//! Provenance: where a value is watched and why it is what it is, and how the file came to be in which it lies.

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::record::Seqno;
use waxseal_meta::Seal;

use crate::clock::Time;
use crate::event::Event;
use crate::registration::Registration;
use crate::target::Target;

/// Where a key is watched, and why it is what it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Provenance {
    /// The key by its full name.
    pub target: Target,
    /// The registrations that watch it, those that say most first.
    pub watched_by: Vec<Registration>,
    /// What happened to it, oldest first.
    pub events: Vec<Event>,
}

/// Where the version lies that decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lies {
    /// In memory, and in the log.
    Memory,
    /// In a table file.
    Table {
        /// The file's uid.
        uid: Uid,
        /// Its name in the store's directory.
        file: String,
        /// Its level.
        level: u8,
        /// The offset of the block.
        offset: u64,
    },
}

/// Everything that is known of a key.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The key by its full name.
    pub target: Target,
    /// The value; none if there is none, or it cannot be given out.
    pub value: Option<Vec<u8>>,
    /// The seqno of the version that decides.
    pub seqno: Option<Seqno>,
    /// Its seal.
    pub seal: Option<Seal>,
    /// What the checks say: `validated`, or why it is not given out.
    pub verdict: String,
    /// Who wrote it, and when, if it was watched.
    pub written: Option<(String, Time)>,
    /// What happened to it, oldest first.
    pub events: Vec<Event>,
    /// Where it lies.
    pub lies: Option<Lies>,
    /// How the file came to be in which it lies.
    pub lineage: Lineage,
    /// When that file, or all of the store, was last checked.
    pub verified: Option<Time>,
}

/// One step in the life of table files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// How many steps it lies behind the file that was asked for.
    pub back: usize,
    /// What happened.
    pub event: Event,
}

/// How a table file came to be, the last step first. Empty if the log knows nothing of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lineage {
    /// The steps, nearest first.
    pub steps: Vec<Step>,
}
