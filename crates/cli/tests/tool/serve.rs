//! `waxseal serve`: with `curl`, with clients that keep to no rule, and with the verbs of `fs` beside it.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::Tool;
use crate::changes::{contents, follow_once};

const TOKEN: &str = "a token";

/// A server in a process of its own.
struct Served {
    child: Child,
    /// Without a slash at its end.
    url: String,
}

impl Served {
    fn start(tool: &Tool, options: &[&str]) -> Served {
        let store = tool.path("store");
        let mut command = Command::new(env!("CARGO_BIN_EXE_waxseal"));
        command.arg("serve").arg(store).args(["--listen", "127.0.0.1:0"]).args(options).env("WAXSEAL_TOKEN", TOKEN);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim_end().rsplit(' ').next().unwrap().trim_end_matches('/').to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "{line}");
        Served { child, url }
    }

    /// Runs `curl` on a path. Returns what it prints.
    fn curl(&self, path: &str, options: &[&str]) -> String {
        let mut command = Command::new("curl");
        command.args(["--silent", "--path-as-is", "--max-time", "60"]).args(options);
        let output = command.arg(format!("{}{path}", self.url)).output().expect("curl is installed");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the status of a request.
    fn status(&self, path: &str, options: &[&str]) -> String {
        self.curl(path, &[&["--output", "/dev/null", "--write-out", "%{http_code}"], options].concat())
    }

    /// Returns the status of a change, with the token.
    fn change(&self, path: &str, options: &[&str]) -> String {
        let bearer = format!("Authorization: Bearer {TOKEN}");
        self.status(path, &[&["--header", &bearer], options].concat())
    }

    /// Sends bytes, and returns all that comes back. The server may leave before it has read all of them. If `ends` is
    /// true, the client says that no more follow.
    fn raw(&self, request: &[u8], ends: bool) -> String {
        let mut stream = TcpStream::connect(self.url.trim_start_matches("http://")).unwrap();
        let _ = stream.write_all(request);
        if ends {
            let _ = stream.shutdown(Shutdown::Write);
        }
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        String::from_utf8_lossy(&response).into_owned()
    }

    fn signal(mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn files_are_read_written_and_removed() {
    let tool = Tool::new();
    tool.with_files(|files| {
        files.create_dir_all("a dir/sub").unwrap();
        files.write("a dir/<b>.txt", "0123456789").unwrap();
        files.write("a dir/empty", "").unwrap();
        files.symlink("empty", "a dir/link").unwrap();
    });
    let server = Served::start(&tool, &[]);
    let file = "/a%20dir/%3Cb%3E.txt";
    assert_eq!(server.curl(file, &[]), "0123456789");
    assert_eq!(server.curl("/a%20dir/empty", &["--write-out", "%{http_code}"]), "200");
    let head = server.curl(file, &["--head"]).to_lowercase();
    for line in ["http/1.1 200 ok", "content-length: 10", "accept-ranges: bytes", "content-type: text/plain"] {
        assert!(head.contains(line), "{line}: {head}");
    }
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().trim().to_owned();
    // Ranges.
    for (range, content) in [("0-0", "0"), ("7-", "789"), ("-2", "89"), ("8-99999999999999999999999", "89")] {
        assert_eq!(server.curl(file, &["--range", range, "--write-out", "%{http_code}"]), format!("{content}206"));
    }
    assert_eq!(server.status(file, &["--range", "10-"]), "416");
    let if_range = |tag: &str| format!("If-Range: {tag}");
    assert_eq!(server.curl(file, &["--range", "0-0", "--header", &if_range(&tag)]), "0");
    assert_eq!(server.curl(file, &["--range", "0-0", "--header", &if_range("\"x\"")]), "0123456789");
    // Conditions.
    assert_eq!(server.status(file, &["--header", &format!("If-None-Match: {tag}")]), "304");
    assert_eq!(server.status(file, &["--header", "If-Match: \"x\""]), "412");
    // Directories.
    assert!(server.curl("/a%20dir", &["--head"]).contains("location: /a%20dir/\r\n"));
    let page = server.curl("/a%20dir/", &[]);
    assert!(
        page.contains("<a href=\"./%3Cb%3E.txt\">&lt;b&gt;.txt</a><td>10<td>") && page.contains("./sub/"),
        "{page}"
    );
    let slashed = format!("{file}/");
    for (path, status) in [("/absent", "404"), (&*slashed, "404"), ("/a%20dir/link", "403"), ("/", "200")] {
        assert_eq!(server.status(path, &[]), status, "{path}");
    }
    // Changes need the token.
    let put: &[&str] = &["--request", "PUT", "--data-binary", "new"];
    for wrong in [&[][..], &["--header", "Authorization: Bearer a tokex"], &["--header", "Authorization: Bearer"]] {
        assert_eq!(server.status("/new", &[put, wrong].concat()), "401", "{wrong:?}");
        assert_eq!(server.status(file, &[&["--request", "DELETE"], wrong].concat()), "401", "{wrong:?}");
    }
    assert_eq!((server.change("/new", put), server.change("/new", put)), ("201".into(), "204".into()));
    assert_eq!(server.curl("/new", &[]), "new");
    assert_eq!(server.change("/new", &[put, &["--header", "If-None-Match: *"]].concat()), "412");
    assert_eq!(server.change(file, &[put, &["--header", &format!("If-Match: {tag}")]].concat()), "204");
    assert_eq!(server.change(file, &[put, &["--header", &format!("If-Match: {tag}")]].concat()), "412");
    for (path, status) in [("/absent/new", "409"), ("/a%20dir", "409"), ("/a%20dir/x/", "409"), ("/", "409")] {
        assert_eq!(server.change(path, put), status, "{path}");
    }
    let delete = |path: &str| server.change(path, &["--request", "DELETE"]);
    assert_eq!((delete("/new"), delete("/new"), delete("/a%20dir")), ("204".into(), "404".into(), "409".into()));
    assert_eq!(server.change("/a%20dir", &["--request", "DELETE", "--header", "Depth: infinity"]), "204");
    assert_eq!(server.change("/x", &["--request", "BREW"]), "501");
    let metrics = server.curl("/metrics", &[]);
    assert!(metrics.contains("\nwaxseal_http_requests_total{method=\"PUT\",status=\"401\"} 3\n"), "{metrics}");
    assert!(metrics.contains("\nwaxseal_http_connections "), "{metrics}");
    assert!(server.signal(Signal::TERM).success());
    assert_eq!(tool.text(&["fs", "ls", &tool.url("")]), "");
}

#[test]
fn clients_that_keep_to_no_rule_change_nothing() {
    let tool = Tool::new();
    tool.with_files(|files| files.write("kept", "content").unwrap());
    let server = Served::start(&tool, &[]);
    let status = |request: &[u8], ends| server.raw(request, ends).split(' ').nth(1).unwrap_or("none").to_owned();
    let get = |path: &str| {
        status(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes(), false)
    };
    assert_eq!(get("/kept"), "200");
    for path in ["/../etc/passwd", "/%2e%2e/etc/passwd", "/kept%00", "/%", "/kept%2", "/a%2fb", "/./kept", "/..%2f"] {
        assert_eq!(get(path), "400", "{path}");
    }
    assert_eq!(get("//evil.example/.."), "400");
    let long = |length| get(&format!("/{}", "n".repeat(length)));
    assert_eq!((long(255).as_str(), long(256).as_str(), long(40_000).as_str()), ("404", "414", "414"));
    assert!(["414", "431", "none"].contains(&&*long(200_000)), "{}", long(200_000));
    assert!(["400", "none"].contains(&&*status(b"nonsense\r\n\r\n", false)));
    assert_eq!(status(&[0xff; 5000], false), "400");
    let put = |headers: &str, body: &str, ends| {
        let bearer = format!("authorization: Bearer {TOKEN}");
        let request = format!(
            "PUT /kept HTTP/1.1\r\nhost: localhost\r\n{bearer}\r\nconnection: close\r\n{headers}\r\n\r\n{body}"
        );
        status(request.as_bytes(), ends)
    };
    // Uploads that are cut off, whose length is wrong or ambiguous, or whose chunks or parts are none.
    let parts = "content-type: application/x-waxseal-parts\r\ncontent-length: 8";
    for (headers, body) in [
        ("content-length: 100", "cut off"),
        ("transfer-encoding: chunked", "5\r\nfirst\r\n"),
        ("transfer-encoding: chunked", "5\r\nfi"),
        ("transfer-encoding: chunked", "zz\r\nfirst\r\n0\r\n\r\n"),
        ("transfer-encoding: chunked", "ffffffffffffffffff\r\nfirst\r\n0\r\n\r\n"),
        ("content-length: -1", "x"),
        ("content-length: 1\r\ncontent-length: 2", "xy"),
        ("content-length: 99999999999999999999999", "x"),
        ("content-range: bytes 0-0/9\r\ncontent-length: 1", "x"),
        (parts, "\0\0\0\0\0\0\0\0"),
        (parts, "\u{7f}xxxxxxx"),
    ] {
        assert!(["400", "none"].contains(&&*put(headers, body, true)), "{headers}: {body}");
        assert_eq!(server.curl("/kept", &[]), "content", "{headers}: {body}");
    }
    // A coding that the server does not undo is refused, whatever the method.
    for (header, expected) in [
        ("transfer-encoding: gzip, chunked", "501"),
        ("transfer-encoding: gzip\r\ntransfer-encoding: chunked", "501"),
        ("transfer-encoding: chunked, chunked", "501"),
        ("transfer-encoding: chunked\r\ncontent-encoding: gzip", "415"),
        ("transfer-encoding: chunked\r\ncontent-encoding: identity, br", "415"),
    ] {
        for method in ["PUT", "POST", "PATCH", "DELETE", "MKCOL", "COPY", "MOVE"] {
            let request = format!(
                "{method} /kept HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\
                 connection: close\r\ndestination: /other\r\n{header}\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
            );
            let found = status(request.as_bytes(), false);
            assert!(found == expected || found == "400" && expected == "501", "{method}, {header}: {found}");
            assert_eq!(server.curl("/kept", &[]), "content", "{method}, {header}");
        }
    }
    assert_eq!(get("/other"), "404");
    assert_eq!(put("content-encoding: Identity\r\ncontent-length: 7", "content", false), "204");
    // A body that is longer than announced is cut there, and the rest is no request.
    assert_eq!(
        (put("content-length: 3", "new and more", false), server.curl("/kept", &[])),
        ("204".into(), "new".into())
    );
    // Many that say nothing keep nobody out.
    let address = server.url.trim_start_matches("http://");
    let silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(get("/kept"), "200");
    drop(silent);
    assert!(server.signal(Signal::INT).success());
    assert!(tool.text(&["fs", "fsck", &tool.url("")]).contains("0 faults"));
}

/// Bytes that no compression shortens.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn damage_breaks_the_transfer() {
    let tool = Tool::new();
    let content = noise(3_000_000, 1);
    tool.with_files(|files| files.write("file", &content).unwrap());
    let files = fs::read_dir(tool.path("store")).unwrap().map(|entry| entry.unwrap().path());
    let values: Vec<_> = files.filter(|file| file.extension() == Some(OsStr::new("val"))).collect();
    let largest = values.iter().max_by_key(|file| fs::metadata(file).unwrap().len()).expect("a blob file");
    let length = fs::metadata(largest).unwrap().len();
    let file = fs::OpenOptions::new().read(true).write(true).open(largest).unwrap();
    let (mut broken, whole) = (0, tool.path("whole"));
    for place in [length / 3, length * 2 / 3] {
        let mut byte = [0];
        file.read_exact_at(&mut byte, place).unwrap();
        file.write_all_at(&[!byte[0]], place).unwrap();
        let server = Served::start(&tool, &["--read-only"]);
        let _ = fs::remove_file(&whole);
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--fail", "--output"]).arg(&whole).arg(format!("{}/file", server.url));
        match curl.status().unwrap().success() {
            true => assert!(fs::read(&whole).unwrap() == content, "wrong bytes"),
            false => broken += 1,
        }
        let got = fs::read(&whole).unwrap_or_default();
        assert!(content.starts_with(&got), "what came before the damage is right");
        file.write_all_at(&byte, place).unwrap();
    }
    assert!(broken > 0, "no byte of {} counted", largest.display());
}

#[test]
fn a_store_that_is_served_is_changed_through_its_socket() {
    let tool = Tool::new();
    tool.with_files(|files| files.mkdir("old").unwrap());
    let local = tool.path("tree");
    fs::create_dir_all(local.join("sub")).unwrap();
    fs::write(local.join("file"), noise(700_000, 2)).unwrap();
    fs::write(local.join("sub/small"), "small").unwrap();
    fs::set_permissions(local.join("sub/small"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::File::create(local.join("sparse")).unwrap().set_len(1 << 40).unwrap();
    symlink("sub/small", local.join("link")).unwrap();
    let set = |path: &str, value: &[u8]| {
        rustix::fs::setxattr(local.join(path), "user.of", value, rustix::fs::XattrFlags::empty()).unwrap();
    };
    set("file", b"a file");
    set("sub", b"a directory");
    let server = Served::start(&tool, &[]);
    let fs_verb = |words: &[&str]| tool.text(&[&["fs"], words].concat());
    let copied = fs_verb(&["put", &tool.local("tree"), &tool.url("")]);
    assert!(copied.starts_with("copied 3 files, 2 directories and 1 link"), "{copied}");
    fs_verb(&["mkdir", "-p", &tool.url("a/b/c"), &tool.url("a/b/d")]);
    fs_verb(&["newfile", &tool.url("a/b/c/note"), "text"]);
    fs_verb(&["mv", &tool.url("a/b"), &tool.url("moved")]);
    fs_verb(&["cp", &tool.url("tree"), &tool.url("copy")]);
    fs_verb(&["rm", &tool.url("old"), &tool.url("a")]);
    fs_verb(&["rm", "-r", &tool.url("moved/d"), &tool.url("copy/sub")]);
    fs::remove_file(local.join("sparse")).unwrap();
    fs::write(local.join("sub/small"), "other").unwrap();
    fs_verb(&["sync", "--delete", &tool.local("tree"), &tool.url("tree")]);
    assert_eq!(server.curl("/moved/c/note", &[]), "text");
    for (words, code) in [
        (&["rm", "absent"][..], 2),
        (&["rm", "tree"], 1),
        (&["mkdir", "tree"], 1),
        (&["mkdir", "absent/new"], 2),
        (&["newfile", "tree/file/x", ""], 1),
    ] {
        let url = tool.url(words[1]);
        assert_eq!(tool.code(&[&["fs", words[0], &url], &words[2..]].concat()), code, "{words:?}");
    }
    // Another family is not served, and other verbs find the store locked.
    assert_eq!(tool.code(&["--cf", "other", "fs", "mkdir", &tool.url("x")]), 2);
    assert_eq!(tool.code(&["put", "key", "value"]), 5);
    assert!(server.signal(Signal::TERM).success());
    let expected = "/\n/copy\n/copy/file\n/copy/link\n/copy/sparse\n/moved\n/moved/c\n/moved/c/note\n\
                    /tree\n/tree/file\n/tree/link\n/tree/sub\n/tree/sub/small\n";
    assert_eq!(fs_verb(&["find", &tool.url("")]), expected);
    fs_verb(&["get", &tool.url("tree"), &tool.local("back")]);
    let diff =
        Command::new("diff").args(["-r", "--no-dereference"]).arg(&local).arg(tool.path("back")).output().unwrap();
    assert!(diff.status.success(), "{diff:?}");
    tool.with_files(|files| {
        assert_eq!(files.xattr("tree/file", "user.of").unwrap(), b"a file");
        assert_eq!(files.xattr("tree/sub", "user.of").unwrap(), b"a directory");
        let sparse = files.stat("copy/sparse").unwrap();
        assert_eq!((sparse.size, sparse.allocated, files.stat("tree/sub/small").unwrap().mode), (1 << 40, 0, 0o640));
        assert!(files.fsck().unwrap().is_clean());
    });
}

#[test]
fn a_server_that_was_killed_leaves_no_store_behind_a_door() {
    let tool = Tool::new();
    tool.with_files(|_| {});
    let socket = tool.path("store/files.sock");
    let server = Served::start(&tool, &[]);
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    // A copy that ends in the middle leaves nothing of its file.
    let mut upload = UnixStream::connect(&socket).unwrap();
    upload.write_all(b"PUT /cut HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n").unwrap();
    drop(upload);
    tool.ok(&["fs", "newfile", &tool.url("one"), "1"]);
    assert!(!server.signal(Signal::KILL).success());
    assert!(socket.exists(), "nobody has removed it");
    tool.ok(&["fs", "newfile", &tool.url("two"), "2"]);
    let server = Served::start(&tool, &[]);
    tool.ok(&["fs", "newfile", &tool.url("three"), "3"]);
    assert_eq!(server.curl("/two", &[]), "2");
    assert!(server.signal(Signal::TERM).success() && !socket.exists());
    assert_eq!(tool.text(&["fs", "ls", &tool.url("")]), "one\nthree\ntwo\n");
}

#[test]
fn a_server_beside_a_writer_shows_what_is_written() {
    let tool = Tool::new();
    tool.with_files(|files| files.write("old", "1").unwrap());
    let server = Served::start(&tool, &["--read-only"]);
    assert_eq!(server.change("/old", &["--request", "DELETE"]), "405");
    assert!(!tool.path("store/files.sock").exists());
    tool.ok(&["fs", "newfile", &tool.url("new"), "2"]);
    while server.status("/new", &[]) != "200" {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(server.signal(Signal::TERM).success());
}

/// Returns the position of the cursor that `follow` makes.
fn cursor(tool: &Tool) -> String {
    let cursors = tool.json(&["cursor"])["cursors"].clone();
    assert_eq!((cursors.as_array().unwrap().len(), &cursors[0]["name"]), (1, &"follow".into()));
    cursors[0]["position"].as_str().unwrap().to_owned()
}

/// The process that serves a store makes the checkpoint that a copy begins with, and gives up the log that it has.
#[test]
fn a_served_store_is_followed() {
    let tool = Tool::new();
    tool.with_files(|files| files.write("before", "1").unwrap());
    let server = Served::start(&tool, &[]);
    let put = |name: &str| {
        fs::write(tool.path(name), vec![7; 300_000]).unwrap();
        tool.ok(&["fs", "put", &tool.local(name), &tool.url("")]);
    };
    follow_once(&tool, "copy");
    assert_eq!(contents(&tool, "copy"), contents(&tool, "store"));
    let begun = cursor(&tool);
    put("first");
    follow_once(&tool, "copy");
    assert_eq!(contents(&tool, "copy"), contents(&tool, "store"));
    let first = cursor(&tool);
    assert_ne!(begun, first, "the cursor has moved");
    // A process that follows for long moves it whenever the copy is current.
    let mut command = tool.command(&["follow", &tool.local("store"), &tool.local("copy")]);
    let mut follower = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(follower.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.starts_with("current at ")));
    put("second");
    assert!(said.any(|line| line.starts_with("current at ")));
    assert_ne!(cursor(&tool), first);
    follower.kill().unwrap();
    follower.wait().unwrap();
    follow_once(&tool, "copy");
    assert_eq!(contents(&tool, "copy"), contents(&tool, "store"));
    // Only through the socket.
    assert_eq!(server.change("/", &["--request", "POST", "--header", "Waxseal-Cursor: other"]), "403");
    let last = cursor(&tool);
    assert!(server.signal(Signal::TERM).success());
    follow_once(&tool, "copy");
    assert_eq!((contents(&tool, "copy"), cursor(&tool)), (contents(&tool, "store"), last));
}
