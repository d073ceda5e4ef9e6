//! The client of the socket: one connection for each request.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::{headers, parts, socket, url_path};

/// Longest head of a response, in headers.
const MAX_HEADERS: usize = 64;
/// Most bytes of a response. Responses to changes are short.
const MAX_RESPONSE_BYTES: u64 = 1 << 20;
/// Parts of an upload are collected to this length.
const UPLOAD_BYTES: usize = 256 * 1024;

/// A failure of a request.
#[derive(Debug)]
pub enum Error {
    /// The server has refused or failed.
    Refused {
        /// The error's name in POSIX, for example `ENOENT`.
        posix_name: String,
        /// Stored bytes are damaged.
        is_corruption: bool,
        /// The server's reason, with the path.
        message: String,
    },
    /// The connection failed. The state of the change is unknown.
    Io(io::Error),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Io(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused { message, .. } => f.write_str(message),
            Error::Io(error) => write!(f, "the process that serves the store: {error}"),
        }
    }
}

impl std::error::Error for Error {}

type Result<T> = std::result::Result<T, Error>;

/// The attributes that an entry gets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Attributes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner and group.
    pub owner: Option<(u32, u32)>,
    /// The time of the last change of the content, in nanoseconds since 1970.
    pub mtime: Option<i64>,
}

impl Attributes {
    fn headers(&self) -> Vec<(&'static str, String)> {
        let mut list = Vec::new();
        list.extend(self.mode.map(|mode| (headers::MODE, format!("{mode:o}"))));
        list.extend(self.owner.map(|(uid, gid)| (headers::OWNER, format!("{uid}:{gid}"))));
        list.extend(self.mtime.map(|mtime| (headers::MTIME, mtime.to_string())));
        list
    }
}

/// A client of the process that has a store open for writing and serves its files. Changes have the durability of that
/// process's store until [`sync`](Client::sync).
#[derive(Clone, Debug)]
pub struct Client {
    store: PathBuf,
    /// Headers of every request.
    headers: Vec<(&'static str, String)>,
}

impl Client {
    /// Returns a client for the files in a family of the store in a directory; `None` if no process serves the store.
    /// `session` is the name in which changes are logged.
    pub fn connect(store: &Path, family: &str, session: Option<&str>) -> io::Result<Option<Client>> {
        let mut headers = vec![(headers::FAMILY, url_path::encode_name(family.as_bytes()))];
        headers.extend(session.map(|name| (headers::SESSION, url_path::encode_name(name.as_bytes()))));
        Ok(socket::connect(store)?.map(|_| Client { store: store.to_owned(), headers }))
    }

    /// Returns a client of the process that serves a store, whatever family its files are in; `None` if none does.
    pub fn of_store(store: &Path) -> io::Result<Option<Client>> {
        Ok(socket::connect(store)?.map(|_| Client { store: store.to_owned(), headers: Vec::new() }))
    }

    /// Creates a cursor of the change feed, if there is none of this name, and then a checkpoint of the whole store in a
    /// new directory, which is named by its absolute path.
    pub fn checkpoint(&self, cursor: &str, directory: &Path) -> Result<()> {
        let directory = url_path::encode_name(directory.as_os_str().as_bytes());
        self.move_cursor(cursor, (headers::CHECKPOINT, directory))
    }

    /// Moves a cursor of the change feed to a position, and creates it if there is none of this name.
    pub fn advance_cursor(&self, cursor: &str, position: &str) -> Result<()> {
        self.move_cursor(cursor, (headers::POSITION, position.to_owned()))
    }

    fn move_cursor(&self, cursor: &str, step: (&'static str, String)) -> Result<()> {
        let cursor = (headers::CURSOR, url_path::encode_name(cursor.as_bytes()));
        self.request("POST", b"", &[cursor, step], b"").map(drop)
    }

    /// Creates a directory.
    pub fn make_directory(&self, path: &[u8], attributes: &Attributes) -> Result<()> {
        self.request("MKCOL", path, &attributes.headers(), b"").map(drop)
    }

    /// Creates a symbolic link, or replaces another one in one step.
    pub fn replace_link(&self, target: &[u8], path: &[u8], attributes: &Attributes) -> Result<()> {
        let mut list = attributes.headers();
        list.push((headers::KIND, headers::KIND_LINK.to_owned()));
        self.request("PUT", path, &list, target).map(drop)
    }

    /// Sets attributes and extended attributes. Returns a message about those that were refused.
    pub fn set_attributes(
        &self,
        path: &[u8],
        attributes: &Attributes,
        xattrs: &[(Vec<u8>, Vec<u8>)],
    ) -> Result<Option<String>> {
        let encoded: Option<Vec<_>> = xattrs.iter().map(|(name, value)| parts::xattr(name, value)).collect();
        let body = encoded.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?.concat();
        Ok(self.request("PATCH", path, &attributes.headers(), &body)?.refused)
    }

    /// Removes a file or an empty directory.
    pub fn remove(&self, path: &[u8]) -> Result<()> {
        self.request("DELETE", path, &[], b"").map(drop)
    }

    /// Removes an entry with everything below it.
    pub fn remove_tree(&self, path: &[u8]) -> Result<()> {
        self.request("DELETE", path, &[("depth", "infinity".to_owned())], b"").map(drop)
    }

    /// Renames an entry, in one atomic step.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.request("MOVE", from, &[("destination", url_path::encode(to))], b"").map(drop)
    }

    /// Copies an entry with everything below it.
    pub fn copy(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.request("COPY", from, &[("destination", url_path::encode(to))], b"").map(drop)
    }

    /// Makes all changes durable.
    pub fn sync(&self) -> Result<()> {
        self.request("POST", b"", &[], b"").map(drop)
    }

    /// Begins a whole-file write.
    pub fn upload(&self, path: &[u8], attributes: &Attributes) -> Result<Upload> {
        let mut list = attributes.headers();
        list.push(("content-type", headers::PARTS_TYPE.to_owned()));
        list.push(("transfer-encoding", "chunked".to_owned()));
        let mut stream = self.stream()?;
        let head = self.head("PUT", path, &list);
        match stream.write_all(head.as_bytes()) {
            Ok(()) => Ok(Upload { stream, buffer: Vec::new() }),
            Err(error) => Err(refusal(stream, error)),
        }
    }

    fn stream(&self) -> io::Result<UnixStream> {
        socket::connect(&self.store)?.ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }

    fn request(&self, method: &str, path: &[u8], headers: &[(&str, String)], body: &[u8]) -> Result<Reply> {
        let mut stream = self.stream()?;
        let length = ("content-length", body.len().to_string());
        let head = self.head(method, path, &[headers, &[length]].concat());
        let sent = stream.write_all(&[head.as_bytes(), body].concat());
        reply(stream, sent)
    }

    fn head(&self, method: &str, path: &[u8], headers: &[(&str, String)]) -> String {
        let path = url_path::encode(path);
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        self.headers.iter().chain(headers).for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        head + "\r\n"
    }
}

/// A response that is no error.
struct Reply {
    refused: Option<String>,
}

/// Reads the response to a request. A server may refuse one before it has read it whole.
fn reply(stream: UnixStream, sent: io::Result<()>) -> Result<Reply> {
    let mut bytes = Vec::new();
    let read = stream.take(MAX_RESPONSE_BYTES).read_to_end(&mut bytes);
    let mut list = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut list);
    let Ok(httparse::Status::Complete(end)) = response.parse(&bytes) else {
        sent?;
        read?;
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    };
    let header = |name: &str| {
        let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| String::from_utf8_lossy(header.value).into_owned())
    };
    if response.code.is_some_and(|code| (200..300).contains(&code)) {
        sent?;
        let decoded = |text: String| percent_encoding::percent_decode_str(&text).decode_utf8_lossy().into_owned();
        return Ok(Reply { refused: header(headers::REFUSED).map(decoded) });
    }
    let posix_name = header(headers::ERROR).unwrap_or_default();
    let is_corruption = posix_name == headers::CORRUPTION;
    let posix_name = if is_corruption { "EIO".to_owned() } else { posix_name };
    let message = String::from_utf8_lossy(&bytes[end..]).trim().to_owned();
    Err(Error::Refused { posix_name, is_corruption, message })
}

/// Returns the server's reason for not taking all of a request.
fn refusal(stream: UnixStream, error: io::Error) -> Error {
    match reply(stream, Err(error)) {
        Ok(_) => io::Error::from(io::ErrorKind::BrokenPipe).into(),
        Err(refused) => refused,
    }
}

/// A whole-file write in progress. Dropped before [`finish`](Upload::finish), it leaves nothing.
#[derive(Debug)]
#[must_use = "an upload that is not finished writes nothing"]
pub struct Upload {
    stream: UnixStream,
    buffer: Vec<u8>,
}

impl Upload {
    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.add(&parts::head(parts::DATA, bytes.len() as u64))?;
        self.add(bytes)
    }

    /// Appends zeros, as a hole.
    pub fn skip(&mut self, bytes: u64) -> Result<()> {
        self.add(&parts::head(parts::HOLE, bytes))
    }

    /// Sets an extended attribute. One that does not fit is named by [`finish`](Upload::finish).
    pub fn set_xattr(&mut self, name: &[u8], value: &[u8]) -> Result<()> {
        let part = parts::xattr(name, value).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        self.add(&part)
    }

    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() < UPLOAD_BYTES {
            return Ok(());
        }
        match self.send() {
            Ok(()) => Ok(()),
            Err(error) => Err(refusal(self.stream.try_clone()?, error)),
        }
    }

    /// Sends the buffer as a chunk.
    fn send(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(()); // an empty chunk is the end of the body
        }
        self.stream.write_all(format!("{:x}\r\n", self.buffer.len()).as_bytes())?;
        self.buffer.extend_from_slice(b"\r\n");
        self.stream.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Gives the file its content. Returns a message about extended attributes that were refused.
    pub fn finish(mut self) -> Result<Option<String>> {
        let sent = self.send().and_then(|()| self.stream.write_all(b"0\r\n\r\n"));
        Ok(reply(self.stream, sent)?.refused)
    }
}
