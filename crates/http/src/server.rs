//! The server: listens, limits connections, and ends with a signal.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio_io_timeout::TimeoutStream;
use waxseal::Durability;
use waxseal_files::FileStore;

use crate::change_listener::ChangeListener;
use crate::metrics::Counters;
use crate::service::{Access, Service, router};
use crate::socket::{self, SocketName};

/// Connections over the network at a time. Others wait until one ends.
const MAX_CONNECTIONS: usize = 512;
/// Most connections through the socket at a time. Others are refused at once, and do not wait: a client may hold uploads
/// open while it opens another one.
const MAX_OWNER_CONNECTIONS: usize = 1024;
/// The response to a connection that is refused.
const REFUSAL: &str = "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nwaxseal-error: EMFILE\r\n\r\n\
    the process that serves the store has no room for another request at this time\n";
/// How long clients may take.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// For the head of a request, and between two requests.
    head: Duration,
    /// For the next bytes of a body, in both directions; `None` is unlimited.
    body: Option<Duration>,
}

const NETWORK: Patience = Patience { head: Duration::from_secs(15), body: Some(Duration::from_secs(30)) };
const OWNER: Patience = Patience { head: Duration::from_secs(15), body: None };
/// How long requests may go on after a signal.
const GRACE: Duration = Duration::from_secs(5);
/// How often a store that another process writes is looked at again.
const REFRESH: Duration = Duration::from_secs(1);
/// Longest head of a request, in bytes: a path of the store has 32 KiB, and each byte three in a URL.
const MAX_HEAD_BYTES: usize = 128 * 1024;
/// Threads that wait for the disk.
const MAX_BLOCKING_THREADS: usize = 64;

/// The parts of a server.
#[derive(Debug)]
pub struct ServerOptions {
    /// The files that are served.
    pub files: FileStore,
    /// The address to listen at; the port 0 is a free one. `None` serves the socket alone.
    pub listen: Option<SocketAddr>,
    /// The token of requests that change files; without one, there are none from the network.
    pub token: Option<String>,
    /// The directory of the store, if other processes of its owner may change files through a socket there. The caller
    /// has the store open for writing.
    pub socket_directory: Option<PathBuf>,
    /// Learns of the changes that requests make.
    pub listener: Option<Arc<dyn ChangeListener>>,
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    files: FileStore,
    listeners: Vec<Listener>,
    address: Option<SocketAddr>,
    signals: [Signal; 3],
}

#[derive(Debug)]
struct Listener {
    source: Source,
    router: Router,
    limit: Arc<Semaphore>,
    connections: usize,
    counters: Arc<Counters>,
    patience: Patience,
}

/// Returns the most connections through the socket: at most half of the file descriptors that the process may have.
fn owner_connections() -> usize {
    let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(descriptors / 2).unwrap_or(usize::MAX).clamp(1, MAX_OWNER_CONNECTIONS)
}

#[derive(Debug)]
enum Source {
    Network(TcpListener),
    Owner(UnixListener, #[expect(dead_code, reason = "removes the socket")] SocketName),
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Server {
    /// Listens. From here on, SIGTERM, SIGINT and SIGHUP end [`run`](Server::run) alone. Errors: the address is in use,
    /// or is not permitted.
    pub fn bind(options: ServerOptions) -> io::Result<Server> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(MAX_BLOCKING_THREADS)
            .enable_all()
            .build()?;
        let entered = runtime.enter();
        let signals =
            [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?];
        let network = options.listen.map(network_source).transpose()?;
        let address = network.as_ref().map(|(_, address)| *address);
        let counters = Arc::new(Counters::default());
        let listener = |source, connections, files, access, patience: Patience| {
            let is_loopback = matches!(source, Source::Network(_))
                && address.is_some_and(|address| address.ip().to_canonical().is_loopback());
            let (counters, notified) = (counters.clone(), options.listener.clone());
            let service = Service {
                files,
                access,
                is_loopback,
                patience: patience.body,
                counters: counters.clone(),
                listener: notified,
            };
            let limit = Arc::new(Semaphore::new(connections));
            Listener { source, router: router(service), limit, connections, counters, patience }
        };
        let mut listeners = Vec::new();
        if let Some((source, _)) = network {
            // A client on the network takes a response for the end of its change.
            let durable = options.files.with_durability(Durability::Sync);
            let access = options.token.map_or(Access::None, Access::Token);
            listeners.push(listener(source, MAX_CONNECTIONS, durable, access, NETWORK));
        }
        if let Some(directory) = &options.socket_directory {
            let (socket, name) = socket::bind(directory)?;
            let source = Source::Owner(UnixListener::from_std(socket)?, name);
            listeners.push(listener(source, owner_connections(), options.files.clone(), Access::Owner, OWNER));
        }
        drop(entered);
        Ok(Server { runtime, files: options.files, listeners, address, signals })
    }

    /// Returns the address that the server listens at, if it listens at one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Serves until SIGTERM, SIGINT or SIGHUP. Requests that are on their way then have 5 seconds to end.
    pub fn run(self) {
        let runtime = self.runtime.handle().clone();
        self.run_while(|signals| {
            let [terminate, interrupt, hang_up] = signals;
            runtime.block_on(async {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                    _ = hang_up.recv() => {}
                }
            });
        });
    }

    /// Serves while `work` runs on this thread. Requests that are on their way when it returns have 5 seconds to end.
    pub fn run_beside<R>(self, work: impl FnOnce() -> R) -> R {
        self.run_while(|_| work())
    }

    fn run_while<R>(self, work: impl FnOnce(&mut [Signal; 3]) -> R) -> R {
        let Server { runtime, files, listeners, mut signals, .. } = self;
        let (stop, stopped) = watch::channel(false);
        let listeners: Vec<_> =
            listeners.into_iter().map(|listener| runtime.spawn(listener.accept_until(stopped.clone()))).collect();
        if files.db().is_read_only() {
            runtime.spawn(refresh(files));
        }
        let result = work(&mut signals);
        stop.send_replace(true);
        runtime.block_on(async {
            for listener in listeners {
                let _ = listener.await; // a listener that has failed has ended, too
            }
        });
        runtime.shutdown_timeout(GRACE);
        result
    }
}

/// Listens at an address of the network. Returns with the listener the address that it has.
fn network_source(address: SocketAddr) -> io::Result<(Source, SocketAddr)> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((Source::Network(TcpListener::from_std(listener)?), address))
}

/// Looks at a store again that another process writes.
async fn refresh(files: FileStore) {
    loop {
        tokio::time::sleep(REFRESH).await;
        let db = files.db().clone();
        // A failure leaves the state that was seen last, and is met again by the next look.
        let _ = tokio::task::spawn_blocking(move || db.refresh()).await;
    }
}

impl Listener {
    /// Accepts connections until the server ends, then waits for those that are open.
    async fn accept_until(self, mut stopped: watch::Receiver<bool>) {
        loop {
            // Clients on the network wait for a permit before they are accepted.
            let waited = match self.source {
                Source::Network(_) => tokio::select! {
                    permit = self.limit.clone().acquire_owned() => Some(permit),
                    _ = stopped.changed() => break,
                },
                Source::Owner(..) => None,
            };
            let accepted = tokio::select! {
                accepted = self.source.accept() => accepted,
                _ = stopped.changed() => break,
            };
            let Ok(stream) = accepted else {
                // The client has left again, or the process has no descriptors: others will end.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Some(permit) = waited.or_else(|| self.limit.clone().try_acquire_owned().ok().map(Ok)) else {
                tokio::spawn(refuse(stream));
                continue;
            };
            let connection = serve(stream, self.router.clone(), self.patience, stopped.clone());
            let counters = self.counters.clone();
            tokio::spawn(async move {
                counters.connections.fetch_add(1, Ordering::Relaxed);
                connection.await;
                counters.connections.fetch_sub(1, Ordering::Relaxed);
                drop(permit);
            });
        }
        let Listener { source, limit, connections, .. } = self;
        drop(source);
        // Each connection has given its permit back when it has ended, which takes no longer than the grace.
        let _ = limit.acquire_many(connections as u32).await;
    }
}

impl Source {
    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Source::Network(listener) => {
                let stream = listener.accept().await?.0;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Source::Owner(listener, _) => Box::new(listener.accept().await?.0),
        })
    }
}

/// Tells a client that there is no room for its connection.
async fn refuse(mut stream: Box<dyn Stream>) {
    // The response fits into the buffer of the socket. A client that has left needs none.
    let _ = tokio::time::timeout(GRACE, stream.write_all(REFUSAL.as_bytes())).await;
}

/// Answers the requests of one connection.
async fn serve(stream: Box<dyn Stream>, router: Router, patience: Patience, mut stopped: watch::Receiver<bool>) {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(patience.body);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.head)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    // A failure ends the connection, which is the report to the client.
    tokio::select! {
        _ = connection.as_mut() => {}
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(GRACE, connection).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use tokio::io::AsyncReadExt;

    /// Serves one connection whose client sends this and then neither sends nor reads, until the server ends it.
    /// Returns the response.
    fn silent_client(files: &FileStore, request: &str) -> String {
        client_of(files, request, false)
    }

    /// Serves a client as `silent_client` does. The listener may have a loopback address.
    fn client_of(files: &FileStore, request: &str, is_loopback: bool) -> String {
        let service = Service {
            files: files.clone(),
            access: Access::Token("token".to_owned()),
            is_loopback,
            patience: Some(BRIEF),
            counters: Arc::default(),
            listener: None,
        };
        client_at(service, request)
    }

    const BRIEF: Duration = Duration::from_millis(100);

    /// Serves a client of a service as `silent_client` does.
    fn client_at(service: Service, request: &str) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (mut client, server) = tokio::io::duplex(4096);
            client.write_all(request.as_bytes()).await.unwrap();
            let patience = Patience { head: BRIEF, body: service.patience };
            let (_stop, stopped) = watch::channel(false);
            serve(Box::new(server), router(service), patience, stopped).await;
            let mut response = Vec::new();
            client.read_to_end(&mut response).await.unwrap();
            String::from_utf8_lossy(&response).into_owned()
        })
    }

    #[test]
    fn clients_that_stop_are_left() {
        let files = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        files.write("large", vec![b'x'; 3_000_000]).unwrap();
        let response = silent_client(&files, "GET /large HTTP/1.1\r\nhost: x\r\n");
        assert!(!response.contains("200 OK"), "a head without an end: {response}");
        let response = silent_client(&files, "GET /large HTTP/1.1\r\nhost: x\r\n\r\n");
        assert!(response.contains("200 OK") && response.len() < 100_000, "{} bytes are read", response.len());
        let put = "PUT /new HTTP/1.1\r\nhost: x\r\nauthorization: Bearer token\r\ncontent-length: 9\r\n\r\nbegun";
        let response = silent_client(&files, put);
        assert!(response.starts_with("HTTP/1.1 408"), "{response}");
        assert!(!files.exists("new").unwrap());
    }

    /// Returns the status of a request with the token.
    fn status(files: &FileStore, line: &str, headers: &str, body: &[u8]) -> String {
        let length = body.len();
        let body = std::str::from_utf8(body).unwrap();
        let request = format!(
            "{line} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer token\r\nconnection: close\r\n\
             content-length: {length}\r\n{headers}\r\n{body}"
        );
        silent_client(files, &request).split(' ').nth(1).unwrap_or_default().to_owned()
    }

    #[test]
    fn conditions_are_checked_or_refused() {
        let files = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        files.write("file", "content").unwrap();
        files.create_dir_all("tree/empty").unwrap();
        for condition in
            ["if-match: *\r\n", "if-none-match: *\r\n", "if-unmodified-since: Sun, 09 Sep 2001 01:46:40 GMT\r\n"]
        {
            for (line, header) in [
                ("POST /file", ""),
                ("PATCH /file", ""),
                ("MKCOL /new", ""),
                ("COPY /file", "destination: /new\r\n"),
                ("MOVE /file", "destination: /new\r\n"),
                ("PUT /new", "waxseal-kind: link\r\n"),
                ("DELETE /tree", "depth: infinity\r\n"),
            ] {
                let headers = format!("{condition}{header}");
                assert_eq!(status(&files, line, &headers, b""), "501", "{line}: {headers}");
            }
        }
        assert_eq!(status(&files, "DELETE /tree/empty", "if-match: \"x\"\r\n", b""), "412");
        assert_eq!(status(&files, "DELETE /tree/empty", "if-none-match: \"x\"\r\n", b""), "409");
        assert!(files.exists("tree/empty").unwrap() && files.exists("file").unwrap() && !files.exists("new").unwrap());
        assert_eq!(status(&files, "DELETE /tree/empty", "", b""), "204");
        files.write("other", "").unwrap();
        for method in ["MOVE", "COPY"] {
            let headers = "destination: /other\r\noverwrite: F\r\n";
            assert_eq!(status(&files, &format!("{method} /file"), headers, b""), "412", "{method}");
        }
    }

    #[test]
    fn a_destination_is_a_path_of_this_server() {
        let files = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        files.write("file", "content").unwrap();
        let copy = |destination: &str| status(&files, "COPY /file", &format!("destination: {destination}\r\n"), b"");
        for (destination, expected) in [
            ("http://other.example/a", "502"),
            ("ftp://x/b", "502"),
            ("/c?v=1", "400"),
            ("/d#e", "400"),
            ("/f%3Fv=1", "201"),
            ("http://X/g", "201"),
            ("/g", "204"),
        ] {
            assert_eq!(copy(destination), expected, "{destination}");
        }
        let names: Vec<_> = files.list("").unwrap().map(|entry| entry.unwrap().name).collect();
        assert_eq!(names, [&b"f?v=1"[..], b"file", b"g"]);
    }

    #[derive(Debug, Default)]
    struct Changes(Mutex<Vec<String>>);

    impl ChangeListener for Changes {
        fn entry_changed(&self, path: &[u8]) {
            self.0.lock().unwrap().push(String::from_utf8_lossy(path).into_owned());
        }

        fn tree_removed(&self, path: &[u8]) {
            self.0.lock().unwrap().push(format!("{} and below", String::from_utf8_lossy(path)));
        }
    }

    #[test]
    fn a_listener_learns_of_every_change() {
        let files = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        let changes = Arc::new(Changes::default());
        for (line, headers, expected) in [
            ("GET /", "", &[][..]),
            ("MKCOL /dir", "", &["dir"]),
            ("PUT /dir/a", "", &["dir/a"]),
            ("PUT /link", "waxseal-kind: link\r\n", &["link"]),
            ("POST /dir/a", "", &["dir/a"]),
            ("PATCH /dir/a", "waxseal-mode: 600\r\n", &["dir/a"]),
            ("COPY /dir/a", "destination: /b\r\n", &["b"]),
            ("MOVE /b", "destination: /c\r\n", &["b", "c"]),
            ("DELETE /c", "", &["c"]),
            ("DELETE /dir", "depth: infinity\r\n", &["dir and below"]),
        ] {
            let listener: Arc<dyn ChangeListener> = changes.clone();
            let service = Service {
                files: files.clone(),
                access: Access::Owner,
                is_loopback: false,
                patience: Some(BRIEF),
                counters: Arc::default(),
                listener: Some(listener),
            };
            let head = format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}");
            let body = if line.starts_with('P') && !line.starts_with("PATCH") { "x" } else { "" };
            let response = client_at(service, &format!("{head}content-length: {}\r\n\r\n{body}", body.len()));
            assert!(response.starts_with("HTTP/1.1 20"), "{line}: {response}");
            assert_eq!(std::mem::take(&mut *changes.0.lock().unwrap()), expected, "{line}");
        }
    }

    #[test]
    fn a_directory_is_copied_alone_with_depth_0() {
        let files = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        files.create_dir_all("tree/sub").unwrap();
        files.write("tree/file", "content").unwrap();
        files.write("file", "content").unwrap();
        let names = |path: &str| files.list(path).unwrap().count();
        for (line, headers, expected) in [
            ("COPY /tree", "destination: /alone\r\ndepth: 0\r\n", "201"),
            ("COPY /tree/", "destination: /alone/\r\ndepth: 0\r\n", "409"),
            ("COPY /tree", "destination: /whole\r\ndepth: Infinity\r\n", "201"),
            ("COPY /tree/file", "destination: /copy\r\ndepth: 0\r\n", "201"),
            ("COPY /tree/file", "destination: /copy\r\n", "204"),
            ("MOVE /copy", "destination: /file\r\n", "204"),
            ("MKCOL /made", "", "201"),
            ("MKCOL /made", "", "405"),
            ("COPY /tree", "destination: /other\r\ndepth: 1\r\n", "400"),
            ("MOVE /tree", "destination: /other\r\ndepth: 0\r\n", "400"),
            ("MOVE /tree", "destination: /other\r\ndepth: 1\r\n", "400"),
            ("DELETE /tree", "depth: 1\r\n", "400"),
            ("DELETE /tree", "depth: 0\r\n", "409"),
        ] {
            assert_eq!(status(&files, line, headers, b""), expected, "{line}: {headers}");
        }
        assert_eq!((names("alone"), names("whole"), names("tree"), files.exists("other").unwrap()), (0, 2, 2, false));
    }

    #[test]
    fn a_path_with_a_slash_at_its_end_is_no_file() {
        let files = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        files.write("file", "content").unwrap();
        files.mkdir("empty").unwrap();
        for (line, headers, expected) in [
            ("DELETE /file/", "", "404"),
            ("DELETE /file/", "depth: infinity\r\n", "404"),
            ("MOVE /file/", "destination: /other\r\n", "404"),
            ("COPY /file/", "destination: /other\r\n", "404"),
            ("COPY /file", "destination: /other/\r\n", "409"),
            ("MOVE /file", "destination: /other/\r\n", "409"),
            ("POST /file/", "", "404"),
            ("POST /other/", "", "409"),
            ("PATCH /file/", "waxseal-mode: 600\r\n", "404"),
            ("DELETE /absent/", "", "404"),
            ("MOVE /empty/", "destination: /moved/\r\n", "201"),
            ("DELETE /moved/", "", "204"),
            ("POST /", "", "204"),
        ] {
            assert_eq!(status(&files, line, headers, b""), expected, "{line}: {headers}");
        }
        let names: Vec<_> = files.list("").unwrap().map(|entry| entry.unwrap().name).collect();
        assert_eq!((names, files.read("file").unwrap()), (vec![b"file".to_vec()], b"content".to_vec()));
        assert_ne!(files.stat("file").unwrap().mode, 0o600);
    }

    /// RFC 9112, section 6.1: with both headers the chunks decide, and the connection ends behind the response, so that
    /// no proxy takes the rest for another request.
    #[test]
    fn chunks_decide_over_a_length_and_end_the_connection() {
        let files = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        let (length, chunked) = ("content-length: 4", "transfer-encoding: chunked");
        for (path, first, second) in [("/one", length, chunked), ("/two", chunked, length)] {
            let request = format!(
                "PUT {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer token\r\n{first}\r\n{second}\r\n\r\n\
                 7\r\ncontent\r\n0\r\n\r\nDELETE {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer token\r\n\r\n"
            );
            let response = silent_client(&files, &request).to_lowercase();
            assert!(response.starts_with("http/1.1 201") && response.contains("connection: close"), "{response}");
            assert_eq!((response.matches("http/1.1").count(), files.read(path).unwrap()), (1, b"content".to_vec()));
        }
    }

    #[test]
    fn changes_have_the_statuses_of_webdav() {
        let files = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        files.write("file", "content").unwrap();
        for (line, destination, expected) in [
            ("MKCOL /dir", "", "201"),
            ("MKCOL /dir", "", "405"),
            ("MKCOL /absent/dir", "", "409"),
            ("COPY /file", "/dir/a", "201"),
            ("COPY /file", "/dir/a", "204"),
            ("COPY /file", "/file", "403"),
            ("COPY /absent", "/x", "404"),
            ("COPY /file", "/absent/x", "409"),
            ("MOVE /dir/a", "/dir/b", "201"),
            ("MOVE /dir/b", "//dir/b", "403"),
            ("MOVE /dir/b", "/absent/x", "409"),
            ("MOVE /file", "/dir/b", "204"),
            ("PUT /metrics", "", "405"),
            ("PUT //metrics", "", "201"),
            ("DELETE /metrics", "", "405"),
        ] {
            let headers =
                if destination.is_empty() { String::new() } else { format!("destination: {destination}\r\n") };
            assert_eq!(status(&files, line, &headers, b""), expected, "{line} {destination}");
        }
        let names: Vec<_> = files.walk("").unwrap().map(|entry| entry.unwrap().path).collect();
        assert_eq!(names, [&b""[..], b"dir", b"dir/b", b"metrics"]);
    }

    #[test]
    fn a_request_names_one_host_and_a_path() {
        let files = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        files.write("small", "content").unwrap();
        let get = |head: &str| silent_client(&files, &format!("{head}connection: close\r\n\r\n"));
        for head in ["GET small HTTP/1.1\r\nhost: x\r\n", "GET / HTTP/1.1\r\nhost: x\r\nhost: y\r\n"] {
            let response = get(head);
            assert!(response.starts_with("HTTP/1.1 400"), "{head}: {response}");
        }
        let length = |method: &str| {
            let response = get(&format!("{method} / HTTP/1.1\r\nhost: x\r\n")).to_lowercase();
            response.lines().find(|line| line.starts_with("content-length:")).map(str::to_owned)
        };
        assert_eq!(length("HEAD"), length("GET"));
    }

    #[test]
    fn a_loopback_listener_has_no_other_name() {
        let files = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        for path in ["/", "/metrics"] {
            for (host, is_own) in [
                ("127.0.0.1:8080", true),
                ("[::1]:8080", true),
                ("LocalHost", true),
                ("evil.example:8080", false),
                ("localhost.evil.example", false),
                ("127.0.0.1.evil.example", false),
                ("", false),
            ] {
                let request = format!("HEAD {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
                let response = client_of(&files, &request, true);
                assert_eq!(!response.starts_with("HTTP/1.1 421"), is_own, "{path} {host}: {response}");
                assert!(!client_of(&files, &request, false).starts_with("HTTP/1.1 421"), "{path} {host}");
            }
        }
    }

    #[test]
    fn attributes_that_do_not_fit_are_named_and_other_errors_fail() {
        use crate::parts;

        let files = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        files.write("file", "").unwrap();
        let large = parts::xattr(b"user.large", &[b'x'; 100]).unwrap();
        let small = parts::xattr(b"user.small", b"1").unwrap();
        assert_eq!(status(&files, "PATCH /file", "", &[&small[..], &large].concat()), "204");
        assert_eq!(files.xattr("file", "user.small").unwrap(), b"1");
        files.set_xattr("file", "user.filler", [b'x'; 1900], waxseal_files::XattrMode::Set).unwrap();
        let fits_not = parts::xattr(b"user.other", &[b'x'; 100]).unwrap();
        let text = String::from_utf8(fits_not.clone()).unwrap();
        let request = format!(
            "PATCH /file HTTP/1.1\r\nhost: x\r\nauthorization: Bearer token\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{text}",
            text.len()
        );
        let response = silent_client(&files, &request);
        assert!(response.starts_with("HTTP/1.1 204") && response.contains("waxseal-refused: user.other"), "{response}");
        assert_eq!(status(&files, "PATCH /absent", "", &small), "404");
        let more = parts::xattr(b"user.more", b"2").unwrap();
        let cut = [&more[..], &small[..small.len() - 1]].concat();
        assert_eq!(status(&files, "PATCH /file", "waxseal-mode: 600\r\n", &cut), "400");
        assert!(files.xattr("file", "user.more").is_err() && files.stat("file").unwrap().mode != 0o600);
    }

    /// Beyond the limit a client gets an error at once; its uploads that are open go on.
    #[test]
    fn a_client_may_hold_many_uploads_open() {
        use crate::client::{Attributes, Client, Error};

        let directory = tempfile::tempdir().unwrap();
        let files = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let entered = runtime.enter();
        let (socket, name) = socket::bind(directory.path()).unwrap();
        let counters = Arc::new(Counters::default());
        let (access, is_loopback) = (Access::Owner, false);
        let service = Service {
            files: files.clone(),
            access,
            is_loopback,
            patience: None,
            counters: counters.clone(),
            listener: None,
        };
        let limit = Arc::new(Semaphore::new(100));
        let listener = Listener {
            source: Source::Owner(UnixListener::from_std(socket).unwrap(), name),
            router: router(service),
            limit: Arc::clone(&limit),
            connections: 100,
            counters,
            patience: OWNER,
        };
        let (stop, stopped) = watch::channel(false);
        let listening = runtime.spawn(listener.accept_until(stopped));
        drop(entered);
        let client = Client::connect(directory.path(), "files", None).unwrap().unwrap();
        client.sync().unwrap();
        while limit.available_permits() < 100 {
            std::thread::yield_now(); // the connections until here have been accepted, and end
        }
        let begin = |number: u32| client.upload(number.to_string().as_bytes(), &Attributes::default());
        let uploads: Vec<_> = (0..100).map(|number| begin(number).unwrap()).collect();
        let refused = |error| matches!(error, Error::Refused { posix_name, .. } if posix_name == "EMFILE");
        let is_large_refused = begin(100).and_then(|mut upload| {
            upload.write(&[7; 1_000_000])?;
            upload.finish().map(drop)
        });
        assert!(is_large_refused.is_err_and(refused));
        assert!(client.sync().is_err_and(refused));
        for upload in uploads.into_iter().rev() {
            assert_eq!(upload.finish().unwrap(), None);
        }
        assert_eq!(files.list("").unwrap().count(), 100);
        stop.send_replace(true);
        runtime.block_on(listening).unwrap();
    }
}
