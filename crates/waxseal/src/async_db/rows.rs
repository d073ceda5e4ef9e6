//! Ranges as streams: pages of rows, read in a lane.
//!
//! In:    an iterator of the synchronous face, which sees one moment. Out: its items, one by one, from both ends.
//! Holds: at most one page an end in memory, read when the one before is used up: whoever does not poll makes nobody read. Pages grow from
//!        a few rows, so that a short look costs little and a long scan few hand-overs. A poll that is given up loses no row: what is
//!        being read is there for the next.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use waxseal_lsm::error::Result;

use super::Shared;
use super::lane::Told;
use crate::range::{End, Range};
use crate::slice::Slice;

/// Rows of the first page, and of the greatest.
const ROWS: (usize, usize) = (16, 1024);

/// A page ends with the row that brings it to so many bytes.
const PAGE_BYTES: usize = 256 * 1024;

type Row = Result<(Slice, Slice)>;

/// The records of a range as a stream, as they were when it was made, from both ends: [`Range`](crate::Range), for async code.
///
/// It is read in pages as it is polled, and holds its view of the store until it is dropped. Damage is an item like any other, as with
/// [`Range`](crate::Range), and the stream goes on behind it; an error of another kind, `Closed` among them, ends it. `next` is here so
/// that no other package is needed.
///
/// ```
/// # async fn example() -> waxseal::Result<()> {
/// # let db = waxseal::AsyncDb::memory().await?;
/// let cf = db.column_family("default").await?;
/// for key in ["a", "b", "c", "d"] {
///     cf.put(key, "1").await?;
/// }
/// let mut rows = cf.iter();
/// assert_eq!(rows.next().await.unwrap()?.0, "a");
/// assert_eq!(rows.next_back().await.unwrap()?.0, "d");
///
/// let mut keys = rows.rev().keys(); // what is left, from the last to the first
/// assert_eq!(keys.next().await.unwrap()?, "c");
/// assert_eq!(keys.next().await.unwrap()?, "b");
/// assert!(keys.next().await.is_none());
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
#[must_use = "a stream does nothing unless it is polled"]
pub struct RangeStream {
    /// What is not read yet; none while a page is read, and once all is.
    rest: Option<Range>,
    reading: Option<(End, Told<Page>)>,
    /// Rows that were read from each end, the next one to be given first.
    front: VecDeque<Row>,
    back: VecDeque<Row>,
    /// Rows of the next page.
    size: usize,
    keys_only: bool,
    is_turned: bool,
    shared: Arc<Shared>,
}

/// What a lane gives back: what is left, if anything, and rows.
struct Page {
    rest: Option<Range>,
    rows: VecDeque<Row>,
}

impl RangeStream {
    pub(super) fn new(range: Range, shared: &Arc<Shared>) -> RangeStream {
        RangeStream {
            rest: Some(range),
            reading: None,
            front: VecDeque::new(),
            back: VecDeque::new(),
            size: ROWS.0,
            keys_only: false,
            is_turned: false,
            shared: shared.clone(),
        }
    }

    /// The next row, or none at the end.
    pub async fn next(&mut self) -> Option<Row> {
        std::future::poll_fn(|context| self.poll(self.at(End::Front), context)).await
    }

    /// The last row that is left, or none.
    pub async fn next_back(&mut self) -> Option<Row> {
        std::future::poll_fn(|context| self.poll(self.at(End::Back), context)).await
    }

    /// The rows that are left, from the last to the first.
    pub fn rev(self) -> RangeStream {
        RangeStream { is_turned: !self.is_turned, ..self }
    }

    /// The keys alone; values are not copied.
    pub fn keys(self) -> KeyStream {
        KeyStream(RangeStream { keys_only: true, ..self })
    }

    /// An end of the stream, as one of the range.
    fn at(&self, end: End) -> End {
        if self.is_turned { end.other() } else { end }
    }

    fn poll(&mut self, end: End, context: &mut Context<'_>) -> Poll<Option<Row>> {
        loop {
            if let Some(row) = self.read_from(end).pop_front() {
                return Poll::Ready(Some(row));
            }
            if let Some((at, page)) = &mut self.reading {
                let (at, page) = (*at, ready!(Pin::new(page).poll(context)));
                self.reading = None;
                self.rest = page.rest;
                self.read_from(at).extend(page.rows);
                continue;
            }
            let Some(range) = self.rest.take() else {
                // All is read: what is left was read from the other end.
                return Poll::Ready(self.read_from(end.other()).pop_back());
            };
            if let Err(error) = self.shared.checked() {
                return Poll::Ready(Some(Err(error)));
            }
            let (size, keys_only) = (self.size, self.keys_only);
            self.size = (2 * size).min(ROWS.1);
            self.reading = Some((end, self.shared.lanes.read.run(move || Page::read(range, end, size, keys_only))));
        }
    }

    fn read_from(&mut self, end: End) -> &mut VecDeque<Row> {
        match end {
            End::Front => &mut self.front,
            End::Back => &mut self.back,
        }
    }
}

impl Page {
    /// Reads up to so many rows.
    fn read(mut range: Range, end: End, size: usize, keys_only: bool) -> Page {
        let (mut rows, mut bytes) = (VecDeque::with_capacity(size), 0);
        while rows.len() < size && bytes < PAGE_BYTES {
            let Some(row) = range.row_at(end, keys_only) else { return Page { rest: None, rows } };
            bytes += row.as_ref().map_or(0, |(key, value)| key.len() + value.len());
            rows.push_back(row);
        }
        Page { rest: Some(range), rows }
    }
}

impl Stream for RangeStream {
    type Item = Row;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Row>> {
        let end = self.at(End::Front);
        self.poll(end, context)
    }
}

impl fmt::Debug for RangeStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangeStream").field("read", &(self.front.len() + self.back.len())).finish_non_exhaustive()
    }
}

/// The keys of a [`RangeStream`].
#[derive(Debug)]
#[must_use = "a stream does nothing unless it is polled"]
pub struct KeyStream(RangeStream);

impl KeyStream {
    /// The next key, or none at the end.
    pub async fn next(&mut self) -> Option<Result<Slice>> {
        self.0.next().await.map(key_of)
    }

    /// The last key that is left, or none.
    pub async fn next_back(&mut self) -> Option<Result<Slice>> {
        self.0.next_back().await.map(key_of)
    }

    /// The keys that are left, from the last to the first.
    pub fn rev(self) -> KeyStream {
        KeyStream(self.0.rev())
    }
}

impl Stream for KeyStream {
    type Item = Result<Slice>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.0).poll_next(context).map(|row| row.map(key_of))
    }
}

fn key_of(row: Row) -> Result<Slice> {
    row.map(|(key, _)| key)
}
