//! Responses, and failures as responses.

use axum::body::Body;
use hyper::header::{ALLOW, CONTENT_TYPE, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use waxseal_files::{Error, ErrorKind};

use crate::headers;

/// A failure of a request.
#[derive(Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    posix_name: &'static str,
    message: String,
}

pub(crate) type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Failure {
        let posix_name = if status.is_server_error() { "EIO" } else { "EINVAL" };
        Failure { status, posix_name, message: message.into() }
    }

    /// Returns the failure for an error of the store.
    pub(crate) fn of(kind: ErrorKind, message: impl Into<String>) -> Failure {
        let posix_name = if kind == ErrorKind::Corruption { headers::CORRUPTION } else { kind.posix_name() };
        Failure { status: status_of(kind), posix_name, message: message.into() }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, message)
    }

    /// The same failure with another status.
    pub(crate) fn with_status(self, status: StatusCode) -> Failure {
        Failure { status, ..self }
    }

    /// The failure of `MKCOL` at a path that exists: WebDAV takes it for a method that the entry does not have.
    pub(crate) fn exists_already(self) -> Failure {
        match self.posix_name == ErrorKind::Exists.posix_name() {
            true => self.with_status(StatusCode::METHOD_NOT_ALLOWED),
            false => self,
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::builder()
            .status(self.status)
            .header(CONTENT_TYPE, "text/plain; charset=utf-8")
            .header(headers::ERROR, self.posix_name);
        match self.status {
            StatusCode::UNAUTHORIZED => response = response.header(WWW_AUTHENTICATE, "Bearer"),
            StatusCode::METHOD_NOT_ALLOWED if self.posix_name == ErrorKind::Exists.posix_name() => {
                response = response.header(ALLOW, "GET, HEAD, PUT, DELETE, COPY, MOVE, POST, PATCH");
            }
            StatusCode::METHOD_NOT_ALLOWED => response = response.header(ALLOW, "GET, HEAD"),
            _ => {}
        }
        response.body(Body::from(self.message + "\n")).unwrap_or_default()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::of(error.kind(), error.to_string())
    }
}

fn status_of(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::NotFound | ErrorKind::NotDirectory | ErrorKind::NoAttribute => StatusCode::NOT_FOUND,
        ErrorKind::Exists | ErrorKind::IsDirectory | ErrorKind::NotEmpty | ErrorKind::Busy => StatusCode::CONFLICT,
        ErrorKind::SymbolicLink | ErrorKind::NotPermitted => StatusCode::FORBIDDEN,
        ErrorKind::Invalid | ErrorKind::BadHandle => StatusCode::BAD_REQUEST,
        ErrorKind::NameTooLong => StatusCode::URI_TOO_LONG,
        ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorKind::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
        ErrorKind::ConditionFailed => StatusCode::PRECONDITION_FAILED,
        ErrorKind::ReadOnly => StatusCode::METHOD_NOT_ALLOWED,
        ErrorKind::Interrupted | ErrorKind::Stale => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        match error.downcast::<Error>() {
            Ok(error) => error.into(),
            Err(error) => Failure::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
}

impl From<&'static str> for Failure {
    fn from(message: &'static str) -> Failure {
        Failure::bad_request(message)
    }
}

/// Runs work that waits for the disk on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Outcome<T> + Send + 'static) -> Outcome<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "the server is ending, or has failed")),
    }
}
