//! A file store over HTTP: a server for programs and browsers, and a client of the socket that the server has in the
//! directory of its store.
//!
//! | request | |
//! |---|---|
//! | `GET`, `HEAD` of a file | its content, with ranges, an entity tag and conditions; of a directory a page in HTML |
//! | `GET /metrics` | counters for Prometheus |
//! | `PUT` | writes a whole file, under a condition if the request has one |
//! | `DELETE` | removes a file or an empty directory; with `Depth: infinity` a tree |
//! | `MKCOL`, `COPY`, `MOVE` | as in WebDAV; `Destination` is a path. `COPY` with `Depth: 0` copies a directory alone |
//! | `POST` | appends to a file; to the root: makes all changes durable |
//! | `PATCH` | changes attributes |
//!
//! Requests that change files need the token, or come through the socket. Their attributes are in the headers
//! `Waxseal-Mode` (octal), `Waxseal-Owner` (`uid:gid`) and `Waxseal-Mtime` (nanoseconds since 1970). An error has the
//! name of POSIX in `Waxseal-Error`. Through the socket, a `POST` to the root with `Waxseal-Cursor` keeps the change feed
//! for a copy, and writes the checkpoint that the copy begins with.
//!
//! The crate uses the public interfaces of `waxseal` and `waxseal-files` alone. Modules import from lower lines only:
//!
//! ```text
//! server                    listens, limits connections, ends
//! service                   requests as operations of a file store
//! download, upload          content on its way out and in
//! listing, metrics          pages of directories; counters
//! change_listener           learns of changes
//! preconditions, ranges     the headers of conditional and partial requests
//! response                  responses and errors
//! client                    requests through the socket
//! socket, parts, url_path, headers  the socket in a directory; parts of uploads; paths in URLs; names of headers
//! ```

#![expect(clippy::disallowed_methods, reason = "the directory of a socket is no file of the store")]

#[cfg(feature = "server")]
mod change_listener;
mod client;
#[cfg(feature = "server")]
mod download;
mod headers;
#[cfg(feature = "server")]
mod listing;
#[cfg(feature = "server")]
mod metrics;
mod parts;
#[cfg(feature = "server")]
mod preconditions;
#[cfg(feature = "server")]
mod ranges;
#[cfg(feature = "server")]
mod response;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "server")]
mod service;
mod socket;
#[cfg(feature = "server")]
mod upload;
mod url_path;

#[cfg(feature = "server")]
pub use change_listener::ChangeListener;
pub use client::{Attributes, Client, Error, Upload};
#[cfg(feature = "server")]
pub use server::{Server, ServerOptions};
