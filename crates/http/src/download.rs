//! Content on its way to the client, read while it is sent.

use std::io;
use std::ops::Range;

use axum::body::{Body, Bytes};
use futures_util::stream::{self, StreamExt};
use waxseal_files::SnapshotFile;

use crate::response::{Outcome, blocking};

/// The least number of bytes of one read.
const PART: u64 = 256 * 1024;

/// Content that is produced in parts.
pub(crate) trait Source: Send + 'static {
    /// Returns the next part; `None` at the end.
    fn next(&mut self) -> Outcome<Option<Bytes>>;
}

/// A range of a file.
pub(crate) struct FileRange {
    pub(crate) file: SnapshotFile,
    pub(crate) range: Range<u64>,
}

impl Source for FileRange {
    fn next(&mut self) -> Outcome<Option<Bytes>> {
        let length = part_end(&self.range, self.file.metadata().chunk_bytes) - self.range.start;
        if length == 0 {
            return Ok(None);
        }
        let mut part = vec![0; length as usize];
        let read = self.file.read_at(&mut part, self.range.start)?;
        if read < part.len() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        self.range.start += length;
        Ok(Some(part.into()))
    }
}

/// Returns the end of the part at the beginning of a range. A part ends with a chunk, since each read of a chunk verifies
/// all of it.
fn part_end(range: &Range<u64>, chunk_bytes: u32) -> u64 {
    let chunk = u64::from(chunk_bytes.max(1));
    let part = chunk * PART.div_ceil(chunk);
    range.end.min((range.start / part + 1) * part)
}

/// Returns a body with the content. A failure of the first two parts is that of the request; a later one ends the
/// connection before the end of the body.
pub(crate) async fn body(source: impl Source) -> Outcome<Body> {
    let (first, source) = step(source).await?;
    let (second, source) = match first {
        Some(_) => step(source).await?,
        None => (None, source),
    };
    if second.is_none() {
        return Ok(Body::from(first.unwrap_or_default()));
    }
    let read = stream::iter([first, second].into_iter().flatten().map(Ok));
    let rest = stream::try_unfold(source, |source| async move {
        let (part, source) = step(source).await.map_err(|failure| io::Error::other(format!("{failure:?}")))?;
        Ok::<_, io::Error>(part.map(|part| (part, source)))
    });
    Ok(Body::from_stream(read.chain(rest)))
}

async fn step<S: Source>(mut source: S) -> Outcome<(Option<Bytes>, S)> {
    blocking(move || {
        let part = source.next()?;
        Ok((part, source))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use hyper::StatusCode;

    use crate::response::Failure;

    #[test]
    fn a_part_ends_with_a_chunk() {
        assert_eq!(part_end(&(0..700_000), 0), PART, "an inline content");
        assert_eq!(part_end(&(0..700_000), 256 * 1024), PART);
        assert_eq!(part_end(&(5..700_000), 256 * 1024), PART);
        assert_eq!(part_end(&(PART..700_000), 256 * 1024), 2 * PART);
        assert_eq!(part_end(&(2 * PART..700_000), 256 * 1024), 700_000);
        assert_eq!(part_end(&(0..700_000), 100_000), 300_000);
        assert_eq!(part_end(&(1..12_000_000), 5_000_000), 5_000_000);
        assert_eq!(part_end(&(5_000_000..12_000_000), 5_000_000), 10_000_000);
        assert_eq!(part_end(&(9..9), 5_000_000), 9);
    }

    /// Parts of one byte, and then a failure.
    struct Failing(usize);

    impl Source for Failing {
        fn next(&mut self) -> Outcome<Option<Bytes>> {
            self.0 = self.0.checked_sub(1).ok_or(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "damaged"))?;
            Ok(Some(Bytes::from_static(b"x")))
        }
    }

    #[test]
    fn a_failure_is_that_of_the_request_or_of_the_transfer() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for parts in [0, 1] {
                assert!(body(Failing(parts)).await.is_err(), "{parts}");
            }
            for parts in [2, 5] {
                let mut body = body(Failing(parts)).await.unwrap();
                for _ in 0..parts {
                    assert!(body.frame().await.unwrap().is_ok());
                }
                assert!(body.frame().await.unwrap().is_err(), "the body has no end");
            }
        });
    }
}
