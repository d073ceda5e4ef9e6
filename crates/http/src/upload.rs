//! Content on its way in: a file that appears whole, or not at all.

use std::io::Write;
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::BodyExt;
use hyper::StatusCode;
use waxseal_files::{Metadata, Writer};

use crate::parts::{Decoder, Part};
use crate::response::{Failure, Outcome, blocking};

/// Bytes that are collected before they are written.
const PART: usize = 256 * 1024;

/// A body in pieces of about [`PART`] bytes.
pub(crate) struct Pieces {
    body: Body,
    /// How long the client may take for its next bytes.
    patience: Option<Duration>,
}

impl Pieces {
    pub(crate) fn new(body: Body, patience: Option<Duration>) -> Pieces {
        Pieces { body, patience }
    }

    /// Returns the next frame of the body. Errors: the client is too slow, or has left before the end.
    async fn frame(&mut self) -> Outcome<Option<Bytes>> {
        loop {
            let next = match self.patience {
                Some(patience) => tokio::time::timeout(patience, self.body.frame()).await.map_err(|_| {
                    Failure::new(StatusCode::REQUEST_TIMEOUT, "the body of the request did not come in time")
                })?,
                None => self.body.frame().await,
            };
            match next {
                None => return Ok(None),
                Some(Err(error)) => return Err(Failure::bad_request(format!("the body has no end: {error}"))),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// Returns the next piece; an empty one at the end.
    async fn next(&mut self) -> Outcome<Vec<u8>> {
        let mut piece = Vec::new();
        while piece.len() < PART {
            match self.frame().await? {
                Some(data) => piece.extend_from_slice(&data),
                None => break,
            }
        }
        Ok(piece)
    }

    /// Returns the whole body. Errors: it is longer than `limit`.
    pub(crate) async fn whole(&mut self, limit: usize) -> Outcome<Vec<u8>> {
        let mut whole = Vec::new();
        while let Some(data) = self.frame().await? {
            whole.extend_from_slice(&data);
            if whole.len() > limit {
                let message = format!("the body is longer than {limit} bytes");
                return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, message));
            }
        }
        Ok(whole)
    }
}

/// How a body stands for the content of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// It is the content.
    Plain,
    /// It is of [parts](crate::parts).
    Parts,
}

/// Writes a body as the content of a file, which is seen once the upload is finished.
pub(crate) async fn receive(mut pieces: Pieces, writer: Writer, form: Form) -> Outcome<Received> {
    let mut upload = Received { writer, decoder: Decoder::default(), form, refused: None };
    loop {
        let piece = pieces.next().await?;
        let is_last = piece.is_empty();
        if is_last {
            return Ok(upload);
        }
        upload = blocking(move || {
            upload.take(&piece)?;
            Ok(upload)
        })
        .await?;
    }
}

/// The content of a file that was received.
pub(crate) struct Received {
    writer: Writer,
    decoder: Decoder,
    form: Form,
    refused: Option<String>,
}

impl Received {
    fn take(&mut self, piece: &[u8]) -> Outcome<()> {
        let (writer, refused) = (&mut self.writer, &mut self.refused);
        match self.form {
            Form::Plain => Ok(writer.write_all(piece)?),
            Form::Parts => self.decoder.feed(piece, |part| -> Outcome<()> {
                match part {
                    Part::Data(bytes) => writer.write_all(bytes)?,
                    Part::Hole(length) => writer.skip(length)?,
                    Part::Xattr(name, value) => {
                        if let Err(error) = writer.set_xattr(name, value) {
                            *refused = Some(format!("{}: {error}", name.escape_ascii()));
                        }
                    }
                }
                Ok(())
            }),
        }
    }

    /// Replaces the file. Returns its attributes, and why it lacks extended attributes. Errors: nothing of the file is
    /// seen then.
    pub(crate) fn finish(self) -> Outcome<(Metadata, Option<String>)> {
        match self.decoder.is_between_parts() {
            true => Ok((self.writer.finish()?, self.refused)),
            false => Err("the body ends within a part".into()),
        }
    }
}
