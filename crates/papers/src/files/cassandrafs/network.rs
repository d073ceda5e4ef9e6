//! Our file store, through its HTTP server and a client with one connection.

use super::face::{Client, Face, transfer};
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use waxseal_bench::Outcome;
use waxseal_files::FileStore;
use waxseal_http::{Server, ServerOptions};

/// The token of requests that change files. The server listens on a loopback address while the experiment runs.
const TOKEN: &str = "waxseal-papers";

/// The server closes connections that are idle for longer than this and some seconds.
const IDLE: Duration = Duration::from_secs(5);

/// Longest head of a response.
const HEAD_BYTES: usize = 16 * 1024;

/// Starts a server on a free port, and runs `work` with its face until it ends.
pub(super) fn serve<R>(files: FileStore, work: impl FnOnce(&Network) -> R) -> Outcome<R> {
    let listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let options = ServerOptions { files, listen, token: Some(TOKEN.into()), socket_directory: None, listener: None };
    let server = Server::bind(options)?;
    let address = server.address().ok_or("the server listens nowhere")?;
    Ok(server.run_beside(|| work(&Network { address })))
}

/// The face of a server.
pub(super) struct Network {
    address: SocketAddr,
}

impl Face for Network {
    fn client(&self) -> Outcome<Box<dyn Client + '_>> {
        let stream = connect(self.address)?;
        Ok(Box::new(NetworkClient { address: self.address, stream, used: Instant::now() }))
    }
}

struct NetworkClient {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
    used: Instant,
}

fn connect(address: SocketAddr) -> Outcome<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

impl NetworkClient {
    /// Sends a request with a body.
    fn send(&mut self, line: &str, headers: &str, bytes: u64, source: &mut dyn Read) -> Outcome<()> {
        let head = format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\
             {headers}content-length: {bytes}\r\n\r\n"
        );
        if self.used.elapsed() > IDLE {
            self.stream = connect(self.address)?;
        }
        let stream = self.stream.get_mut();
        stream.write_all(head.as_bytes())?;
        transfer(line, bytes, source, stream)
    }

    /// Reads a response and copies its body.
    fn receive(&mut self, line: &str, sink: &mut dyn Write) -> Outcome<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            head.extend_from_slice(&byte);
            if head.len() > HEAD_BYTES {
                return Err(format!("{line}: the head of the response has no end").into());
            }
        }
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let status = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).map(|text| text.trim().parse());
        // Without a body, 204 has no length.
        let bytes: u64 = length.transpose()?.unwrap_or(0);
        if !status.starts_with('2') {
            let mut reason = String::new();
            (&mut self.stream).take(bytes).read_to_string(&mut reason)?;
            return Err(format!("{line}: {status} {}", reason.trim()).into());
        }
        transfer(line, bytes, &mut self.stream, sink)?;
        self.used = Instant::now();
        Ok(())
    }

    fn change(&mut self, line: &str, headers: &str, bytes: u64, source: &mut dyn Read) -> Outcome<()> {
        self.send(line, headers, bytes, source)?;
        self.receive(line, &mut std::io::sink())
    }
}

impl Client for NetworkClient {
    fn make_directory(&mut self, path: &str) -> Outcome<()> {
        self.change(&format!("MKCOL /{path}"), "", 0, &mut std::io::empty())
    }

    fn write(&mut self, path: &str, bytes: u64, source: &mut dyn Read) -> Outcome<()> {
        self.change(&format!("PUT /{path}"), "", bytes, source)
    }

    fn read(&mut self, path: &str, sink: &mut dyn Write) -> Outcome<()> {
        let line = format!("GET /{path}");
        self.send(&line, "", 0, &mut std::io::empty())?;
        self.receive(&line, sink)
    }

    fn remove(&mut self, path: &str) -> Outcome<()> {
        self.change(&format!("DELETE /{path}"), "", 0, &mut std::io::empty())
    }

    fn remove_tree(&mut self, path: &str) -> Outcome<()> {
        self.change(&format!("DELETE /{path}"), "depth: infinity\r\n", 0, &mut std::io::empty())
    }
}
