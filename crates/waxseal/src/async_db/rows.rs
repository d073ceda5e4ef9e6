//! Ranges as streams: pages of rows, read in a lane.
//!
//! In:    a synchronous iterator over one snapshot. Out: its items one by one, from both ends.
//! Holds: at most one page per end is in memory. It is read when the previous page is used up, so a stream that is not
//!        polled reads nothing. Pages grow from a few rows, so that a short scan costs little and a long one needs few
//!        lane jobs. A poll that is abandoned loses no row: the next poll receives the page that was being read.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use waxseal_lsm::error::Result;

use super::AsyncShared;
use super::lane::JobResult;
use crate::range::{End, Range};
use crate::slice::Slice;

/// Rows of the first page, and of the largest.
const ROWS: (usize, usize) = (16, 1024);

/// A page ends with the row that brings it to this size.
const PAGE_BYTES: usize = 256 * 1024;

type RowResult = Result<(Slice, Slice)>;

/// A stream of the records of a range, as of its creation, usable from both ends: [`Range`](crate::Range), for async
/// code.
///
/// Pages are read as the stream is polled, and the stream pins its view of the store until it is dropped. Damage is an
/// error item, as with [`Range`](crate::Range), and the stream continues behind it. An error of another kind, such as
/// `Closed`, ends it. `next` is an inherent method, so that no other crate is needed.
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
/// let mut keys = rows.rev().keys(); // the remaining keys, in reverse
/// assert_eq!(keys.next().await.unwrap()?, "c");
/// assert_eq!(keys.next().await.unwrap()?, "b");
/// assert!(keys.next().await.is_none());
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
#[must_use = "a stream does nothing unless it is polled"]
pub struct RangeStream {
    /// The unread part of the range. `None` while a page is being read, and after the last page.
    rest: Option<Range>,
    reading: Option<(End, JobResult<RowPage>)>,
    /// Rows read from each end, in the order in which they will be returned.
    front: VecDeque<RowResult>,
    back: VecDeque<RowResult>,
    /// Number of rows of the next page.
    size: usize,
    keys_only: bool,
    is_turned: bool,
    shared: Arc<AsyncShared>,
}

/// The result of a lane job: rows, and the unread rest of the range.
struct RowPage {
    rest: Option<Range>,
    rows: VecDeque<RowResult>,
}

impl RangeStream {
    pub(super) fn new(range: Range, shared: &Arc<AsyncShared>) -> RangeStream {
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

    /// Returns the next row, or `None` at the end.
    pub async fn next(&mut self) -> Option<RowResult> {
        std::future::poll_fn(|context| self.poll(self.at(End::Front), context)).await
    }

    /// Returns the last remaining row, or `None` if there is none.
    pub async fn next_back(&mut self) -> Option<RowResult> {
        std::future::poll_fn(|context| self.poll(self.at(End::Back), context)).await
    }

    /// Reverses the stream: returns the remaining rows from the last to the first.
    pub fn rev(self) -> RangeStream {
        RangeStream { is_turned: !self.is_turned, ..self }
    }

    /// Streams the keys only; values are not copied.
    pub fn keys(self) -> KeyStream {
        KeyStream(RangeStream { keys_only: true, ..self })
    }

    /// Maps an end of the stream to an end of the range.
    fn at(&self, end: End) -> End {
        if self.is_turned { end.other() } else { end }
    }

    fn poll(&mut self, end: End, context: &mut Context<'_>) -> Poll<Option<RowResult>> {
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
                // The range is exhausted: the remaining rows were read from the other end.
                return Poll::Ready(self.read_from(end.other()).pop_back());
            };
            if let Err(error) = self.shared.checked() {
                return Poll::Ready(Some(Err(error)));
            }
            let (size, keys_only) = (self.size, self.keys_only);
            self.size = (2 * size).min(ROWS.1);
            self.reading = Some((end, self.shared.lanes.read.run(move || RowPage::read(range, end, size, keys_only))));
        }
    }

    fn read_from(&mut self, end: End) -> &mut VecDeque<RowResult> {
        match end {
            End::Front => &mut self.front,
            End::Back => &mut self.back,
        }
    }
}

impl RowPage {
    /// Reads up to `size` rows.
    fn read(mut range: Range, end: End, size: usize, keys_only: bool) -> RowPage {
        let (mut rows, mut bytes) = (VecDeque::with_capacity(size), 0);
        while rows.len() < size && bytes < PAGE_BYTES {
            let Some(row) = range.row_at(end, keys_only) else { return RowPage { rest: None, rows } };
            bytes += row.as_ref().map_or(0, |(key, value)| key.len() + value.len());
            rows.push_back(row);
        }
        RowPage { rest: Some(range), rows }
    }
}

impl Stream for RangeStream {
    type Item = RowResult;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<RowResult>> {
        let end = self.at(End::Front);
        self.poll(end, context)
    }
}

impl fmt::Debug for RangeStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangeStream").field("read", &(self.front.len() + self.back.len())).finish_non_exhaustive()
    }
}

/// A stream of the keys of a [`RangeStream`].
#[derive(Debug)]
#[must_use = "a stream does nothing unless it is polled"]
pub struct KeyStream(RangeStream);

impl KeyStream {
    /// Returns the next key, or `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Slice>> {
        self.0.next().await.map(key_of)
    }

    /// Returns the last remaining key, or `None` if there is none.
    pub async fn next_back(&mut self) -> Option<Result<Slice>> {
        self.0.next_back().await.map(key_of)
    }

    /// Reverses the stream: returns the remaining keys from the last to the first.
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

fn key_of(row: RowResult) -> Result<Slice> {
    row.map(|(key, _)| key)
}
