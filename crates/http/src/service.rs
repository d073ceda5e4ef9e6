//! Requests as operations of a file store.

use std::ffi::OsString;
use std::hint::black_box;
use std::net::IpAddr;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::get;
use hyper::header::{
    ACCEPT_RANGES, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HOST, HeaderMap, HeaderName, LAST_MODIFIED, LOCATION, RANGE,
    TRANSFER_ENCODING, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::request::Parts;
use hyper::http::response::Builder;
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode};
use waxseal::ChangePosition;
use waxseal_files::{
    Condition, ErrorKind, FileStore, List, MAX_LINK_BYTES, Metadata, RenameMode, SetAttributes, SnapshotFile, XattrMode,
};

use crate::change_listener::ChangeListener;
use crate::download::{self, FileRange};
use crate::listing::{self, Listing};
use crate::metrics::{self, Counters};
use crate::parts::{Decoder, Part};
use crate::preconditions;
use crate::ranges::{self, Asked};
use crate::response::{Failure, Outcome, blocking};
use crate::upload::{self, Form, Pieces};
use crate::{headers, url_path};

/// Most bytes that one request appends.
const MAX_APPENDED_BYTES: usize = 8 << 20;
/// Most bytes of the attributes in a request.
const MAX_ATTRIBUTE_BYTES: usize = 1 << 20;

const NO_DIRECTORY: &str = "the path is no directory";
const NO_NAME: &str = "the path of a file ends with its name";

/// The requests that may change files.
#[derive(Clone)]
pub(crate) enum Access {
    None,
    /// Those that name this token.
    Token(String),
    /// All: the client has connected through the socket of the store.
    Owner,
}

/// The requests of one listener.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) files: FileStore,
    pub(crate) access: Access,
    /// The listener has a loopback address. Requests that name another host are refused then.
    pub(crate) is_loopback: bool,
    /// How long a client may take for the next bytes of a body; `None` is unlimited.
    pub(crate) patience: Option<Duration>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) listener: Option<Arc<dyn ChangeListener>>,
}

/// The entries that a request may change.
enum Scope {
    Entry(Vec<u8>),
    Tree(Vec<u8>),
    /// The entries at the old and the new path.
    Move(Vec<u8>, Vec<u8>),
}

/// The path of the counters.
const METRICS: &str = "/metrics";

/// Returns the routes of a service.
pub(crate) fn router(service: Service) -> Router {
    Router::new().route(METRICS, get(metrics).fallback(entry)).fallback(entry).with_state(Arc::new(service))
}

async fn metrics(State(service): State<Arc<Service>>, headers: HeaderMap) -> Response<Body> {
    if let Err(failure) = service.check_host(&headers) {
        return service.counted("GET", Err(failure));
    }
    let (counters, db) = (service.counters.clone(), service.files.db().clone());
    let text = blocking(move || Ok(metrics::text(&counters, &db))).await;
    let response = text.map(|text| {
        Response::builder().header(CONTENT_TYPE, metrics::TEXT_TYPE).body(Body::from(text)).unwrap_or_default()
    });
    service.counted("GET", response)
}

async fn entry(State(service): State<Arc<Service>>, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let method = METHODS.iter().find(|method| **method == head.method.as_str()).copied().unwrap_or("other");
    let response = match service.of_request(&head.headers) {
        Ok(own) => own.answer(method, head, body).await,
        Err(failure) => Err(failure),
    };
    service.counted(method, response)
}

const METHODS: &[&str] = &["GET", "HEAD", "PUT", "DELETE", "MKCOL", "COPY", "MOVE", "POST", "PATCH"];

impl Service {
    fn counted(&self, method: &'static str, response: Outcome<Response<Body>>) -> Response<Body> {
        let response = response.unwrap_or_else(Failure::into_response);
        self.counters.count(method, response.status().as_u16());
        response
    }

    /// Checks that a request to a loopback address names it by an address or as `localhost`. A page of another site may
    /// have given its own name this address, and its scripts could read the files.
    fn check_host(&self, headers: &HeaderMap) -> Outcome<()> {
        if headers.get_all(HOST).iter().count() > 1 {
            return Err(Failure::bad_request("the request names several hosts"));
        }
        let host = text(headers, HOST.as_str()).and_then(|host| host.parse::<Authority>().ok());
        let is_own = host.is_some_and(|host| {
            let name = host.host().trim_start_matches('[').trim_end_matches(']');
            name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
        });
        if self.is_loopback && !is_own {
            let message = "the host of the request is no address, and not localhost";
            return Err(Failure::new(StatusCode::MISDIRECTED_REQUEST, message));
        }
        Ok(())
    }

    /// Returns the service in the name of the session that a request names. Errors: the request names other files, or
    /// another host.
    fn of_request(&self, headers: &HeaderMap) -> Outcome<Service> {
        self.check_host(headers)?;
        if decoded(headers, headers::FAMILY).is_some_and(|family| family != self.files.name().as_bytes()) {
            let message =
                format!("the process that serves the store has the files of the family {:?}", self.files.name());
            return Err(Failure::new(StatusCode::MISDIRECTED_REQUEST, message));
        }
        let mut own = self.clone();
        if let (Access::Owner, Some(name)) = (&self.access, decoded(headers, headers::SESSION)) {
            let name = String::from_utf8(name).map_err(|_| "the name of a session is UTF-8")?;
            let session = self.files.db().session(name.as_str()).map_err(waxseal_files::Error::from)?;
            own.files = self.files.in_session(&session)?;
        }
        Ok(own)
    }

    async fn answer(&self, method: &str, head: Parts, body: Body) -> Outcome<Response<Body>> {
        let path = path_of(head.uri.path())?;
        if method != "other" && !head.uri.path().starts_with('/') {
            return Err(Failure::bad_request("the target of the request is no path: it begins with a slash"));
        }
        if matches!(method, "GET" | "HEAD") {
            return self.read(path, &head).await;
        }
        if method == "other" {
            return Err(Failure::new(StatusCode::NOT_IMPLEMENTED, format!("{} is no method here", head.method)));
        }
        self.authorize(&head.headers)?;
        if head.uri.path() == METRICS && !matches!(self.access, Access::Owner) {
            let message = "these are the counters: a file `metrics` in the root has the URL //metrics";
            return Err(Failure::new(StatusCode::METHOD_NOT_ALLOWED, message));
        }
        let headers = &head.headers;
        check_codings(headers)?;
        let is_link = text(headers, headers::KIND) == Some(headers::KIND_LINK);
        let may_have_condition = match method {
            "PUT" => !is_link,
            "DELETE" => depth(headers)? != Some(Depth::Infinity),
            _ => false,
        };
        if !may_have_condition && preconditions::is_conditional(headers) {
            return Err(Failure::new(StatusCode::NOT_IMPLEMENTED, "this request cannot have a condition"));
        }
        if path.ends_with(b"/") && !matches!(method, "PUT" | "MKCOL") {
            let (files, path, creates) = (self.files.clone(), path.clone(), method == "POST");
            blocking(move || check_directory(&files, &path, creates)).await?;
        }
        let pieces = Pieces::new(body, self.patience);
        match method {
            "PUT" if is_link => self.link(path, headers, pieces).await,
            "PUT" => self.put(path, headers, pieces).await,
            "DELETE" => self.delete(path, headers).await,
            "MKCOL" => self.make_directory(path, headers).await,
            "COPY" | "MOVE" => self.copy_or_move(method, path, headers).await,
            "POST" if headers.contains_key(headers::CURSOR) => self.feed_copy(headers).await,
            "POST" => self.append(path, pieces).await,
            _ => self.patch(path, headers, pieces).await,
        }
    }

    /// Runs a change on a thread of its own, then notifies the listener, also if the client has left meanwhile.
    async fn change<T: Send + 'static>(
        &self,
        scope: Scope,
        work: impl FnOnce() -> Outcome<T> + Send + 'static,
    ) -> Outcome<T> {
        let listener = self.listener.clone();
        blocking(move || {
            let outcome = work();
            match (listener, &scope) {
                (None, _) => {}
                (Some(listener), Scope::Entry(path)) => listener.entry_changed(path),
                (Some(listener), Scope::Tree(path)) => listener.tree_removed(path),
                (Some(listener), Scope::Move(from, to)) => {
                    listener.entry_changed(from);
                    listener.entry_changed(to);
                }
            }
            outcome
        })
        .await
    }

    /// Checks that a request may change files.
    fn authorize(&self, headers: &HeaderMap) -> Outcome<()> {
        let token = match &self.access {
            Access::Owner => return Ok(()),
            Access::None => {
                let message = "files cannot be changed here: the server has no token, or is read-only";
                return Err(Failure::new(StatusCode::METHOD_NOT_ALLOWED, message));
            }
            Access::Token(token) => token,
        };
        let given = headers.get(AUTHORIZATION).map_or(&b""[..], |value| value.as_bytes());
        let is_same = given.split_at_checked(7).is_some_and(|(scheme, given)| {
            scheme.eq_ignore_ascii_case(b"Bearer ") && is_equal(given, token.as_bytes())
        });
        match is_same {
            true => Ok(()),
            false => Err(Failure::new(StatusCode::UNAUTHORIZED, "the request needs the server's token")),
        }
    }

    async fn read(&self, path: Vec<u8>, head: &Parts) -> Outcome<Response<Body>> {
        let (files, wanted) = (self.files.clone(), path.clone());
        let found = blocking(move || {
            let snapshot = files.snapshot();
            match snapshot.open(&wanted) {
                Ok(file) => Ok(Found::File(Box::new(file))),
                Err(error) if error.kind() == ErrorKind::IsDirectory => {
                    Ok(Found::Directory(Box::new(snapshot.list(&wanted)?)))
                }
                Err(error) => Err(error.into()),
            }
        })
        .await?;
        let is_head = head.method == Method::HEAD;
        let has_slash = path.is_empty() || path.ends_with(b"/");
        match found {
            Found::File(_) if has_slash => Err(Failure::new(StatusCode::NOT_FOUND, NO_DIRECTORY)),
            Found::File(file) => self.send(&path, *file, head, is_head).await,
            // Links in the page are relative to a path with a slash.
            Found::Directory(_) if !has_slash => {
                let location = url_path::encode(&path) + "/";
                finish(
                    Response::builder().status(StatusCode::MOVED_PERMANENTLY).header(LOCATION, location),
                    Body::empty(),
                )
            }
            Found::Directory(list) => {
                let path: Vec<u8> = path.strip_suffix(b"/").map(<[u8]>::to_vec).unwrap_or(path);
                let page = download::body(Listing::new(path, *list)).await?; // `HEAD` has its headers
                let response = Response::builder()
                    .header(CONTENT_TYPE, "text/html; charset=utf-8")
                    .header(X_CONTENT_TYPE_OPTIONS, "nosniff")
                    .header(CONTENT_SECURITY_POLICY, listing::POLICY)
                    .header(CACHE_CONTROL, "no-cache");
                finish(response, page)
            }
        }
    }

    /// Sends a file, or the part that a request asks for.
    async fn send(&self, path: &[u8], file: SnapshotFile, head: &Parts, is_head: bool) -> Outcome<Response<Body>> {
        let metadata = file.metadata();
        let response = validators(Response::builder(), &metadata).header(CACHE_CONTROL, "no-cache");
        match preconditions::of_read(&head.headers, &metadata) {
            preconditions::Outcome::NotModified => {
                return finish(response.status(StatusCode::NOT_MODIFIED), Body::empty());
            }
            preconditions::Outcome::Failed => return Err(condition_failed()),
            preconditions::Outcome::Met => {}
        }
        let size = metadata.size;
        let mut response = response.header(ACCEPT_RANGES, "bytes").header(X_CONTENT_TYPE_OPTIONS, "nosniff");
        let header = text(&head.headers, RANGE.as_str())
            .filter(|_| !is_head && preconditions::range_applies(&head.headers, &metadata));
        let range = match ranges::asked(header, size) {
            Asked::Whole => 0..size,
            Asked::Part(range) => {
                let bounds = format!("bytes {}-{}/{size}", range.start, range.end - 1);
                response = response.status(StatusCode::PARTIAL_CONTENT).header(CONTENT_RANGE, bounds);
                range
            }
            Asked::Unsatisfiable => {
                let response = response.status(StatusCode::RANGE_NOT_SATISFIABLE);
                return finish(response.header(CONTENT_RANGE, format!("bytes */{size}")), Body::empty());
            }
        };
        let kind = mime_guess::from_path(String::from_utf8_lossy(path).as_ref()).first_raw();
        response = response
            .header(CONTENT_TYPE, kind.unwrap_or("application/octet-stream"))
            .header(CONTENT_LENGTH, range.end - range.start);
        match is_head {
            true => finish(response, Body::empty()),
            false => finish(response, download::body(FileRange { file, range }).await?),
        }
    }

    async fn put(&self, path: Vec<u8>, headers: &HeaderMap, pieces: Pieces) -> Outcome<Response<Body>> {
        if path.is_empty() || path.ends_with(b"/") {
            return Err(Failure::new(StatusCode::CONFLICT, NO_NAME));
        }
        if headers.contains_key(CONTENT_RANGE) {
            return Err(Failure::bad_request("a file is written whole, without Content-Range"));
        }
        let form = match text(headers, CONTENT_TYPE.as_str()) == Some(headers::PARTS_TYPE) {
            true => Form::Parts,
            false => Form::Plain,
        };
        let (files, attributes, headers) = (self.files.clone(), attributes(headers)?, headers.clone());
        let scope = Scope::Entry(path.clone());
        let (writer, is_new) = blocking(move || {
            let found = find(&files, &path)?;
            let condition = preconditions::of_change(&headers, found.as_ref()).ok_or_else(condition_failed)?;
            let mut writer = files.writer_with(&path, &attributes)?.only_if(condition);
            if form == Form::Parts {
                writer.clear_xattrs();
            }
            Ok((writer, found.is_none()))
        })
        .await
        .map_err(of_parent)?;
        let received = upload::receive(pieces, writer, form).await.map_err(of_parent)?;
        let (written, refused) = self.change(scope, move || received.finish()).await.map_err(of_parent)?;
        let status = if is_new { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
        let mut response = validators(Response::builder().status(status), &written);
        if let Some(refused) = refused {
            response = response.header(headers::REFUSED, url_path::encode_name(refused.as_bytes()));
        }
        finish(response, Body::empty())
    }

    async fn link(&self, path: Vec<u8>, headers: &HeaderMap, mut pieces: Pieces) -> Outcome<Response<Body>> {
        let target = pieces.whole(MAX_LINK_BYTES).await?;
        let (files, attributes, scope) = (self.files.clone(), attributes(headers)?, Scope::Entry(path.clone()));
        let replaced = self.change(scope, move || Ok(files.replace_symlink(target, path, &attributes)?)).await;
        done(replaced.map_err(of_parent))
    }

    async fn delete(&self, path: Vec<u8>, headers: &HeaderMap) -> Outcome<Response<Body>> {
        let (files, headers) = (self.files.clone(), headers.clone());
        let is_of_tree = depth(&headers)? == Some(Depth::Infinity);
        let scope = match is_of_tree {
            true => Scope::Tree(path.clone()),
            false => Scope::Entry(path.clone()),
        };
        done(
            self.change(scope, move || {
                if is_of_tree {
                    return Ok(files.remove_tree(path)?);
                }
                let found = find(&files, &path)?;
                let condition = preconditions::of_change(&headers, found.as_ref()).ok_or_else(condition_failed)?;
                let is_free = condition == Condition::Always;
                match files.remove_if(&path, condition) {
                    Err(error) if is_free && error.kind() == ErrorKind::IsDirectory => Ok(files.remove_dir(path)?),
                    removed => Ok(removed?),
                }
            })
            .await,
        )
    }

    async fn make_directory(&self, path: Vec<u8>, headers: &HeaderMap) -> Outcome<Response<Body>> {
        let (files, attributes) = (self.files.clone(), attributes(headers)?);
        let with_parents = text(headers, headers::PARENTS) == Some("true");
        let made = self
            .change(Scope::Entry(path.clone()), move || {
                match with_parents {
                    true => files.create_dir_all(path)?,
                    false => files.mkdir_with(path, &attributes)?,
                }
                Ok(())
            })
            .await;
        made.map_err(|failure| of_parent(failure.exists_already()))?;
        changed(true)
    }

    async fn copy_or_move(&self, method: &str, from: Vec<u8>, headers: &HeaderMap) -> Outcome<Response<Body>> {
        let destination = text(headers, "destination").ok_or("the header Destination is missing")?;
        let to = path_of(destination_path(destination, text(headers, HOST.as_str()))?)?;
        let (is_copy, may_replace) = (method == "COPY", text(headers, "overwrite") != Some("F"));
        let (files, is_alone) = (self.files.clone(), depth(headers)? == Some(Depth::Zero));
        let scope = match is_copy {
            true => Scope::Entry(to.clone()),
            false => Scope::Move(from.clone(), to.clone()),
        };
        let is_network = !matches!(self.access, Access::Owner);
        let copied = self
            .change(scope, move || {
                let source = files.stat(&from)?;
                let replaced = find(&files, &to)?;
                if is_network && replaced.is_some_and(|replaced| replaced.inode == source.inode) {
                    return Err(Failure::new(StatusCode::FORBIDDEN, "source and destination are the same"));
                }
                let (mode, condition) = match may_replace {
                    true => (RenameMode::Replace, Condition::Always),
                    false => (RenameMode::NoReplace, Condition::Absent),
                };
                let is_directory = source.is_directory();
                if to.ends_with(b"/") && !is_directory {
                    return Err(Failure::new(StatusCode::CONFLICT, NO_NAME));
                }
                let done = match (is_copy, is_directory) {
                    (false, true) if is_alone => return Err("a directory is moved with everything in it".into()),
                    (false, _) => files.rename_with(from, to, mode),
                    (true, true) if is_alone => files.copy_dir(from, to),
                    (true, true) => files.copy_tree(from, to),
                    (true, false) => files.copy_if(from, to, condition),
                };
                match done {
                    Err(error) if !may_replace && error.kind() == ErrorKind::Exists => Err(condition_failed()),
                    // The source was there: the directory of the destination is missing.
                    done => done.map(|()| replaced.is_none()).map_err(|error| of_parent(error.into())),
                }
            })
            .await;
        changed(copied?)
    }

    async fn append(&self, path: Vec<u8>, mut pieces: Pieces) -> Outcome<Response<Body>> {
        let bytes = pieces.whole(MAX_APPENDED_BYTES).await?;
        let files = self.files.clone();
        done(
            self.change(Scope::Entry(path.clone()), move || {
                match path.iter().all(|byte| *byte == b'/') {
                    true => files.sync()?,
                    false => files.append(path, bytes)?,
                }
                Ok(())
            })
            .await
            .map_err(of_parent),
        )
    }

    /// Moves the cursor that keeps the change feed for a copy, and writes the checkpoint that a copy begins with.
    async fn feed_copy(&self, headers: &HeaderMap) -> Outcome<Response<Body>> {
        if !matches!(self.access, Access::Owner) {
            return Err(Failure::new(StatusCode::FORBIDDEN, "cursors are moved through the socket of the store"));
        }
        let name = decoded(headers, headers::CURSOR).and_then(|name| String::from_utf8(name).ok());
        let name = name.ok_or("the name of a cursor is UTF-8")?;
        let position = text(headers, headers::POSITION).map(str::parse::<ChangePosition>).transpose();
        let position = position.map_err(waxseal_files::Error::from)?;
        let checkpoint = decoded(headers, headers::CHECKPOINT).map(OsString::from_vec);
        let db = self.files.db().clone();
        let moved = move || {
            let cursor = db.change_cursor(&name)?;
            position.map_or(Ok(()), |position| cursor.advance(position))?;
            checkpoint.map_or(Ok(()), |directory| db.checkpoint(directory).map(drop))
        };
        done(blocking(move || moved().map_err(|error: waxseal::Error| waxseal_files::Error::from(error).into())).await)
    }

    async fn patch(&self, path: Vec<u8>, headers: &HeaderMap, mut pieces: Pieces) -> Outcome<Response<Body>> {
        let body = pieces.whole(MAX_ATTRIBUTE_BYTES).await?;
        let (files, attributes) = (self.files.clone(), attributes(headers)?);
        let scope = Scope::Entry(path.clone());
        let change = move || {
            let (mut decoder, mut xattrs, mut refused) = (Decoder::default(), Vec::new(), None);
            decoder.feed(&body, |part| -> Outcome<()> {
                if let Part::Xattr(name, value) = part {
                    xattrs.push((name.to_vec(), value.to_vec()));
                }
                Ok(())
            })?;
            if !decoder.is_between_parts() {
                return Err("the body ends within a part".into());
            }
            files.stat(&path)?; // an error of the path is none of an attribute
            if attributes != SetAttributes::new() {
                files.set_attributes(&path, &attributes)?;
            }
            for (name, value) in xattrs {
                match files.set_xattr(&path, &name, value, XattrMode::Set) {
                    Err(error) if is_refusal(&error) => refused = Some(format!("{}: {error}", name.escape_ascii())),
                    set => set?,
                }
            }
            Ok(refused)
        };
        let refused = self.change(scope, change).await?;
        let mut response = Response::builder().status(StatusCode::NO_CONTENT);
        if let Some(refused) = refused {
            response = response.header(headers::REFUSED, url_path::encode_name(refused.as_bytes()));
        }
        finish(response, Body::empty())
    }
}

enum Found {
    File(Box<SnapshotFile>),
    Directory(Box<List>),
}

/// Returns the path of a URL, without the slash that it begins with.
fn path_of(url: &str) -> Outcome<Vec<u8>> {
    let path = url_path::decode(url).ok_or("the path has an escape that is none, or a slash in a name")?;
    Ok(path.strip_prefix(b"/").map(<[u8]>::to_vec).unwrap_or(path))
}

/// Returns the path of a header `Destination`: a path, or a URL of this server.
fn destination_path<'a>(destination: &'a str, host: Option<&str>) -> Outcome<&'a str> {
    if destination.contains(['?', '#']) {
        return Err("the header Destination has a query or a fragment: escape the character in a path".into());
    }
    match destination.split_once("://") {
        Some((scheme, rest)) if !destination.starts_with('/') => {
            let (own, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let is_http = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
            match is_http && host.is_some_and(|host| host.eq_ignore_ascii_case(own)) {
                true => Ok(if path.is_empty() { "/" } else { path }),
                false => Err(Failure::new(StatusCode::BAD_GATEWAY, "the header Destination names another server")),
            }
        }
        _ => Ok(destination),
    }
}

/// Returns the attributes of what a request replaces. A damaged entry counts as none, as for a write.
fn find(files: &FileStore, path: &[u8]) -> Outcome<Option<Metadata>> {
    match files.stat(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotDirectory) => Ok(None),
        Err(error) if error.is_corruption() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns true for an error that concerns the name or the value of an extended attribute.
fn is_refusal(error: &waxseal_files::Error) -> bool {
    match error.kind() {
        ErrorKind::Invalid | ErrorKind::NameTooLong => true,
        ErrorKind::NoSpace => error.store_error().is_none(), // with an error of the store the disk is full
        _ => false,
    }
}

/// Checks the path of a change that ends with a slash: it names a directory, and no file. A damaged entry may be one.
fn check_directory(files: &FileStore, path: &[u8], creates_file: bool) -> Outcome<()> {
    match find(files, path)? {
        Some(found) if !found.is_directory() => Err(Failure::new(StatusCode::NOT_FOUND, NO_DIRECTORY)),
        None if creates_file => Err(Failure::new(StatusCode::CONFLICT, NO_NAME)),
        _ => Ok(()),
    }
}

/// What a change applies to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Depth {
    /// An entry alone.
    Zero,
    /// An entry with everything below it.
    Infinity,
}

/// Returns the depth that a request names. Errors: another one than `0` and `infinity`.
fn depth(headers: &HeaderMap) -> Outcome<Option<Depth>> {
    match headers.get("depth").map(|depth| depth.as_bytes()) {
        None => Ok(None),
        Some(b"0") => Ok(Some(Depth::Zero)),
        Some(depth) if depth.eq_ignore_ascii_case(b"infinity") => Ok(Some(Depth::Infinity)),
        Some(_) => Err("the header Depth of a change is 0 or infinity".into()),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Checks that a body is sent as it is, at most in chunks. The server undoes no other coding, and would store the coded
/// bytes as the content.
fn check_codings(headers: &HeaderMap) -> Outcome<()> {
    let chunked = codings(headers, TRANSFER_ENCODING);
    if !chunked.is_empty() && (chunked.len() > 1 || !chunked[0].eq_ignore_ascii_case(b"chunked")) {
        return Err(Failure::new(StatusCode::NOT_IMPLEMENTED, "the only transfer coding of a body here is chunked"));
    }
    if !codings(headers, CONTENT_ENCODING).iter().all(|coding| coding.eq_ignore_ascii_case(b"identity")) {
        return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the content of a body has no coding here"));
    }
    Ok(())
}

/// Returns the codings that the headers of a name list.
fn codings(headers: &HeaderMap, name: HeaderName) -> Vec<&[u8]> {
    let lists = headers.get_all(name).into_iter().flat_map(|list| list.as_bytes().split(|byte| *byte == b','));
    lists.map(<[u8]>::trim_ascii).filter(|coding| !coding.is_empty()).collect()
}

/// Returns a header that is percent-encoded.
fn decoded(headers: &HeaderMap, name: &str) -> Option<Vec<u8>> {
    Some(percent_encoding::percent_decode_str(text(headers, name)?).collect())
}

/// Returns the attributes that a request gives an entry.
fn attributes(headers: &HeaderMap) -> Outcome<SetAttributes> {
    let mut attributes = SetAttributes::new();
    if let Some(mode) = text(headers, headers::MODE) {
        attributes = attributes.mode(u32::from_str_radix(mode, 8).map_err(|_| "the mode is no octal number")?);
    }
    if let Some(owner) = text(headers, headers::OWNER) {
        let ids = owner.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
        let (uid, gid) = ids.ok_or("the owner is not uid:gid")?;
        attributes = attributes.owner(uid, gid);
    }
    if let Some(mtime) = text(headers, headers::MTIME) {
        attributes = attributes.mtime(mtime.parse().map_err(|_| "the time is no number of nanoseconds")?);
    }
    Ok(attributes)
}

/// Adds the headers by which a client asks for this content again.
fn validators(response: Builder, metadata: &Metadata) -> Builder {
    let tagged = match metadata.etag() {
        Some(tag) => response.header(ETAG, format!("\"{tag}\"")),
        None => response,
    };
    match preconditions::modified(metadata) {
        Some(time) => tagged.header(LAST_MODIFIED, httpdate::fmt_http_date(time)),
        None => tagged,
    }
}

fn condition_failed() -> Failure {
    Failure::of(ErrorKind::ConditionFailed, "the content is not the one that the condition names")
}

/// A path that a change creates is not missing: the directory above is.
fn of_parent(failure: Failure) -> Failure {
    match failure.status() {
        StatusCode::NOT_FOUND => failure.with_status(StatusCode::CONFLICT),
        _ => failure,
    }
}

fn done(outcome: Outcome<()>) -> Outcome<Response<Body>> {
    outcome?;
    changed(false)
}

/// Returns the response to a change without content. `is_new`: it has created an entry.
fn changed(is_new: bool) -> Outcome<Response<Body>> {
    let status = if is_new { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    finish(Response::builder().status(status), Body::empty())
}

fn finish(response: Builder, body: Body) -> Outcome<Response<Body>> {
    response.body(body).map_err(|error| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

/// Compares two texts in a time that depends on their lengths alone.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differs, (a, b)| black_box(differs | (a ^ b))) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_compared_whole() {
        for (one, other, is_same) in
            [("", "", true), ("abc", "abc", true), ("abc", "abd", false), ("abc", "bbc", false), ("abc", "ab", false)]
        {
            assert_eq!(is_equal(one.as_bytes(), other.as_bytes()), is_same, "{one} {other}");
        }
    }
}
