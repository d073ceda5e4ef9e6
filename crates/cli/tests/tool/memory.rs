//! The tool on values that do not fit into the memory that the process may use.

use std::fs;
use std::process::Output;

use waxseal::{CfOptions, Compression, Db, Durability, WriteOptions};

use crate::{Command, Tool};

const MIB: usize = 1 << 20;
const VALUE_BYTES: usize = 32 * MIB;
/// Memory beyond the least in which the tool starts: less than a value, and enough for everything else.
const SPARE_BYTES: usize = VALUE_BYTES / 2;
/// Exit code for corruption.
const CORRUPTION: i32 = 3;
/// Exit code for an I/O error.
const IO: i32 = 4;

/// Makes a store whose families hold one long value each: in a blob file, packed in one, and in a table. The one of the
/// family `object`, which is not returned, is a JSON object.
fn store_of_long_values(tool: &Tool) -> Vec<&'static str> {
    let options = |compression, large_value_bytes| CfOptions { compression, large_value_bytes, ..CfOptions::default() };
    let families = [
        ("blob", options(Compression::None, 4096)),
        ("packed", options(Compression::Lz4, 4096)),
        ("table", options(Compression::None, 0)),
        ("packed_table", options(Compression::Lz4, 0)),
    ];
    let object = ("object", options(Compression::None, 0));
    let mut builder = Db::builder(tool.path("store"));
    for (name, options) in families.clone().into_iter().chain([object.clone()]) {
        builder = builder.column_family(name, options);
    }
    let db = builder.open().unwrap();
    db.column_family("default").unwrap().put("short", "value").unwrap();
    for (name, _) in &families {
        db.column_family(name).unwrap().put("long", vec![b'x'; VALUE_BYTES]).unwrap();
        db.flush().unwrap();
    }
    let text = [br#"{"key":"long","text":""#, &vec![b'x'; VALUE_BYTES][..], br#""}"#].concat();
    db.column_family(object.0).unwrap().put("long", text).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    families.map(|(name, _)| name).to_vec()
}

/// Runs the tool in a process with so much address space.
fn run_within(tool: &Tool, bytes: usize, args: &[&str]) -> Output {
    let command = tool.command(args);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -c 0; ulimit -v {} && exec \"$0\" \"$@\"", bytes / 1024));
    shell.arg(command.get_program()).args(command.get_args()).output().unwrap()
}

#[test]
fn a_value_without_memory_is_an_error_and_no_abort() {
    let tool = Tool::new();
    let families = store_of_long_values(&tool);
    let starts = |bytes: &usize| run_within(&tool, *bytes, &["get", "short"]).status.success();
    let least = (2..256).map(|step| step * 16 * MIB).find(starts).expect("a memory in which the tool starts");
    let mut verbs = vec![vec!["verify"]];
    for family in families {
        verbs.push(vec!["--cf", family, "get", "long"]);
        verbs.push(vec!["--cf", family, "scan"]);
        verbs.push(vec!["--cf", family, "scan", "--reverse"]);
    }
    verbs.push(vec!["--cf", "table", "--json", "scan"]);
    verbs.push(vec!["--cf", "table", "dump", "-", "--format", "csv"]);
    verbs.push(vec!["--cf", "object", "dump", "-", "--format", "jsonl"]);
    for args in &verbs {
        // Room for no copy of the value, for one, for two, and for all.
        let mut codes = Vec::new();
        for copies in [0, 1, 2, 5] {
            let output = run_within(&tool, least + SPARE_BYTES + copies * VALUE_BYTES, args);
            let code = output.status.code();
            // `verify` prints on standard output what it could not read.
            let printed =
                if code == Some(0) { &[][..] } else { &output.stdout[output.stdout.len().saturating_sub(2000)..] };
            let message = String::from_utf8_lossy(&[printed, &output.stderr].concat()).into_owned();
            match code {
                Some(0) => {}
                Some(IO) => assert!(message.contains("out of memory"), "{args:?}, {copies} copies: {message}"),
                _ => panic!("{args:?}, {copies} copies: {:?}: {message}", output.status),
            }
            codes.push(code);
        }
        assert_eq!((codes[0], codes[3]), (Some(IO), Some(0)), "{args:?}: {codes:?}");
        assert!(codes.is_sorted_by(|less, more| more <= less), "{args:?}: {codes:?}");
    }
    assert_eq!(tool.ok(&["get", "short"]), b"value");
}

/// Length of the value in a long frame of the log, which is in the same segment as the frame before it.
const FRAME_BYTES: usize = 7 * MIB;

/// Makes the copy of a store whose log was damaged at an early frame, after a long one had been synced.
fn store_of_a_damaged_log(tool: &Tool) {
    let early = b"the value of the damaged frame";
    let options = CfOptions { large_value_bytes: 0, ..CfOptions::default() };
    let db = Db::builder(tool.path("live")).column_family("default", options).open().unwrap();
    let cf = db.column_family("default").unwrap();
    let synced = || WriteOptions::new().durability(Durability::Sync);
    cf.put_with("early", early, synced()).unwrap();
    cf.put_with("long", vec![b'x'; FRAME_BYTES], synced()).unwrap();
    fs::create_dir(tool.path("store")).unwrap();
    for entry in fs::read_dir(tool.path("live")).unwrap() {
        let name = entry.unwrap().file_name();
        let mut bytes = fs::read(tool.path("live").join(&name)).unwrap();
        let first = &bytes[..bytes.len().min(64 * 1024)]; // segment and ring begin with the frame
        if let Some(at) = first.windows(early.len()).position(|window| window == early) {
            bytes[at] ^= 1;
        }
        fs::write(tool.path("store").join(&name), bytes).unwrap();
    }
    db.close().unwrap();
}

/// An open searches the log behind a damaged frame for later ones. A later one that does not fit into memory is not the
/// end of the log.
#[test]
fn a_search_of_the_log_without_memory_is_an_error_and_no_abort() {
    let tool = Tool::new();
    store_of_a_damaged_log(&tool);
    let mut codes = Vec::new();
    for bytes in (8..256).map(|step| step * 2 * MIB) {
        let output = run_within(&tool, bytes, &["put", "short", "value"]);
        let (code, printed) = (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned());
        match code {
            Some(CORRUPTION) => assert!(printed.contains("a frame is damaged or missing"), "{printed}"),
            Some(IO) => assert!(printed.contains("out of memory"), "{printed}"),
            _ if codes.is_empty() => continue, // too little memory for the tool to start
            _ => panic!("{bytes} bytes, after {codes:?}: {:?}: {printed}", output.status),
        }
        codes.push(code);
        if code == Some(CORRUPTION) {
            break;
        }
    }
    assert!(codes.len() > 1 && codes.last() == Some(&Some(CORRUPTION)), "{codes:?}");
}
