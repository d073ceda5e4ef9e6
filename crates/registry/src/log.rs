//! The log: events kept in order, asked for in pages.

use crate::event::Event;

/// Which page of an answer is wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Paging {
    /// Where the page before it ended (`Page::next`); none: the first.
    pub after: Option<Vec<u8>>,
    /// At most so many events.
    pub limit: usize,
}

impl Paging {
    /// Everything at once.
    pub const ALL: Paging = Paging { after: None, limit: usize::MAX };

    /// The first so many.
    pub fn first(limit: usize) -> Paging {
        Paging { after: None, limit }
    }
}

/// Events by target, operation and time, and where to go on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// The events.
    pub events: Vec<Event>,
    /// For `Paging::after` of the next page; none: there is none.
    pub next: Option<Vec<u8>>,
}
