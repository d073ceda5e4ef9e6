//! Whole exported tables in the hands of a node of an older make, built by `cargo xtask plain-node`, and of the reader
//! in Python. Without that node the test is skipped, in one line. In CI (environment variable `CI`) it then fails,
//! unless the node is named `absent`, because the clone lacks the history that it is built from.
//!
//!     cargo xtask plain-node target/nodes
//!     WAXSEAL_PLAIN_NODE=$PWD/target/nodes/plain_node cargo test -p waxseal-meta --test meta plain_node

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use waxseal_lab::paper::Paper;
use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::{Db, Parts};
use waxseal_lsm::env::{Env, Fs, RealFs};
use waxseal_lsm::options::{Durability, Settings};
use waxseal_lsm::record::Kind;
use waxseal_meta::Sealer;
use waxseal_meta::exchange::{ExportRequest, Policy, Versions, export};

/// Runs a program to its end and gives what it said.
fn say(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn has(json: &str, name: &str, value: u64) {
    let told = json.contains(&format!("\"{name}\": {value},")) || json.contains(&format!("\"{name}\": {value}}}"));
    assert!(told, "{name} is not {value}: {json}");
}

fn tables(dir: &Path) -> Vec<PathBuf> {
    let mut names = RealFs.list(dir).unwrap();
    names.sort();
    names.iter().filter(|name| name.ends_with(".tbl")).map(|name| dir.join(name)).collect()
}

#[test]
fn an_older_node_takes_whole_tables_of_every_policy() {
    let named = std::env::var("WAXSEAL_PLAIN_NODE");
    let ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
    assert!(!ci || named.is_ok(), "CI names no plain node: run `cargo xtask plain-node`, and set WAXSEAL_PLAIN_NODE");
    let Some(program) = named.ok().filter(|program| program != "absent") else {
        // Past the test harness, which keeps the output of tests that pass.
        let _ = writeln!(std::io::stderr(), "plain_node: skipped, WAXSEAL_PLAIN_NODE names no plain node");
        return;
    };
    let base = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("plain-node-{}", std::process::id()));
    let node = |dir: &Path, verb: &str, rest: &[String]| say(Command::new(&program).arg(verb).arg(dir).args(rest));
    let put = |db: &Db, kind, key: &[u8], value: &[u8]| {
        let mut batch = Batch::new();
        batch.push(0, kind, key, value, db.companions()).unwrap();
        db.commit(&mut batch, Durability::Os).unwrap();
    };
    let parts = |companions| Parts { companions, ..Parts::real() };
    let db = Db::open(&base.join("sealed"), Settings::default(), parts(Arc::new(Sealer::new()))).unwrap();
    for n in 0..1000u64 {
        put(&db, Kind::Put, format!("{:05}", n % 800).as_bytes(), format!("value {n}").as_bytes());
    }
    put(&db, Kind::Delete, b"00007", b"");
    let family = db.family("default").unwrap();
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/reader/waxread.py");
    let has_python = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    let expected = {
        let out = base.join("all");
        export(&db, &family, &Env::real(), &out, &ExportRequest::default()).unwrap();
        let dir = base.join("node-all");
        node(&dir, "add", &tables(&out).iter().map(|path| path.display().to_string()).collect::<Vec<_>>());
        node(&dir, "list", &[])
    };
    assert_eq!(expected.lines().count(), 799);
    let policies = [Policy::Strip, Policy::Companion { allow: vec![] }, Policy::PaperSafe, Policy::PaperLiteral];
    for (at, policy) in policies.into_iter().enumerate() {
        let (out, dir) = (base.join(format!("out{at}")), base.join(format!("node{at}")));
        let request = ExportRequest { policy: policy.clone(), versions: Versions::All, ..ExportRequest::default() };
        let exported = export(&db, &family, &Env::real(), &out, &request).unwrap();
        if has_python {
            let told = say(Command::new("python3").arg("-B").arg(&reader).arg("export").arg(&out).arg("--json"));
            has(&told, "records", exported.records);
            has(&told, "rows", exported.rows);
            has(&told, "live", 799);
            has(&told, "companion_bytes", exported.companion_bytes);
            let told = say(Command::new("python3").arg("-B").arg(&reader).arg("export").arg(&out));
            assert_eq!(told, expected, "{policy:?}");
        } else {
            println!("the reader in Python is skipped: there is no python3 here");
        }
        // A key of the old node's own that the literal form would delete: 00001 and 01.
        let planted = "303030303101".to_owned();
        node(&dir, "put", &[planted.clone(), "aa".to_owned()]);
        node(&dir, "add", &tables(&out).iter().map(|path| path.display().to_string()).collect::<Vec<_>>());
        let survives = policy != Policy::PaperLiteral;
        let value = if survives { "{\"value\": \"aa\"}\n" } else { "{\"value\": null}\n" };
        assert_eq!(node(&dir, "get", std::slice::from_ref(&planted)), value, "{policy:?}");
        let count = node(&dir, "count", &[]);
        has(&count, "records", 799 + u64::from(survives));
        has(&count, "companion_bytes", exported.companion_bytes);
        assert_eq!(exported.companion_bytes > 0, matches!(policy, Policy::Companion { .. }));
        node(&dir, "compact", &[]);
        has(&node(&dir, "count", &[]), "tombstones", 0);
        assert_eq!(node(&dir, "get", &[planted]), value, "{policy:?}");
        assert_eq!(node(&dir, "list", &[]).lines().count() as u64, 799 + u64::from(survives));
    }
    // Whole tables of the paper's own store: hidden, and gone once compacted.
    let dir = base.join("paper");
    let paper = Db::open(&dir, Settings::default(), parts(Arc::new(Paper::default()))).unwrap();
    (0..500u64).for_each(|n| put(&paper, Kind::Put, format!("{n:05}").as_bytes(), b"v"));
    paper.flush().unwrap();
    let old = base.join("node-paper");
    node(&old, "add", &tables(&dir).iter().map(|path| path.display().to_string()).collect::<Vec<_>>());
    let count = node(&old, "count", &[]);
    has(&count, "records", 500);
    has(&count, "tombstones", 500);
    node(&old, "compact", &[]);
    let count = node(&old, "count", &[]);
    has(&count, "records", 500);
    has(&count, "tombstones", 0);
}
