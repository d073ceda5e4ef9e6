//! Scripts of a data block: `scripts/block`.
//!
//! ```text
//! block [interval=2] [base=1] [column]   begins a block; records follow in internal order
//! put a 5 red [word=7] [note=x]          a record, with an 8-byte companion, with a skippable one
//! delete a 4
//! dump                                   where each entry stands, what it shares, what follows it
//! find a [at=5]                          the place of a search
//! flip 12                                one bit of a byte is turned over: what reading the block says
//! forge 12 ff                            a byte is changed and the checksum made anew, as a writer with a bug would
//! moved                                  the block is read at another offset of the file
//! ```

use std::fmt::Write;

use waxseal_testing::golden::{self, number, word};

use super::block::block::Block;
use super::block::entry::{BlockBuilder, BlockEntry};
use super::block::frame::{BlockHandle, StoredBlock, check_frame, put_block, word_of};
use super::block::scan::{KeyBuffer, scan_entries};
use crate::checksum::{Role, Uid};
use crate::error::Result;
use crate::options::Compression;
use crate::order::Order;
use crate::record::{Kind, MAX_SEQNO, Record, Seqno, companion};

const UID: Uid = Uid(*b"uid of a table..");

const NAME: &str = "000007.tbl";

/// Offset of the block in its file.
const AT: u64 = 64;

/// A block as stored in a file.
#[derive(Clone, Default)]
struct BlockStage {
    base: Seqno,
    stored: Vec<u8>,
    handle: BlockHandle,
}

#[test]
fn scripts_tell_how_a_block_is_built_and_read() {
    golden::run("scripts/block", BlockStage::default, |stage, input| {
        let lines: Vec<&str> = input.lines().collect();
        if lines[0].starts_with("block") {
            *stage = built(&lines);
        }
        let questions =
            lines.iter().filter(|line| !["block", "put", "delete"].iter().any(|word| line.starts_with(word)));
        questions
            .map(|line| answer(stage, line).unwrap_or_else(|error| format!("{line}: {}\n", error.in_file(NAME, AT))))
            .collect()
    });
}

fn built(lines: &[&str]) -> BlockStage {
    let base = number(lines[0], "base", 1);
    let in_column = lines[0].ends_with("column");
    let mut builder = BlockBuilder::new(number(lines[0], "interval", 2) as usize, base);
    let mut column = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let kind = match words[0] {
            "put" => Kind::Put,
            "delete" => Kind::Delete,
            _ => continue,
        };
        let value = words.get(3).filter(|word| !word.contains('=')).copied().unwrap_or_default().as_bytes();
        let companion = companions(line);
        let record =
            Record { key: words[1].as_bytes(), seqno: words[2].parse().unwrap(), kind, value, companion: &companion };
        if in_column {
            column.extend_from_slice(word_of(&companion).unwrap());
        }
        builder.add(&record, if in_column { &[] } else { &companion });
    }
    framed(base, builder.finish(), in_column.then_some(&column))
}

fn framed(base: Seqno, body: &[u8], column: Option<&[u8]>) -> BlockStage {
    let mut stored = Vec::new();
    let handle = put_block(&mut stored, body, column, Compression::None, (&UID, Role::Data), AT).unwrap();
    BlockStage { base, stored, handle }
}

fn companions(line: &str) -> Vec<u8> {
    let mut out = Vec::new();
    if word(line, "word").is_some() {
        out.push(companion::WORD8);
        out.extend_from_slice(&number(line, "word", 0).to_le_bytes());
    }
    if let Some(note) = word(line, "note") {
        out.extend_from_slice(&[companion::SKIPPABLE[0], note.len() as u8]);
        out.extend_from_slice(note.as_bytes());
    }
    out
}

fn answer(stage: &BlockStage, line: &str) -> Result<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[0] {
        "dump" => dump(stage),
        "find" => find(&loaded(stage)?, words[1].as_bytes(), number(line, "at", MAX_SEQNO)),
        "flip" => {
            let mut damaged = stage.clone();
            damaged.stored[words[1].parse::<usize>().unwrap()] ^= 1;
            loaded(&damaged).map(|_| format!("{line}: nobody noticed\n"))
        }
        "forge" => {
            let (stored, codec) = check_frame(&stage.stored, &UID, Role::Data, &stage.handle)?;
            let parts = StoredBlock::split(stored, codec)?;
            let mut body = parts.packed.to_vec();
            body[words[1].parse::<usize>().unwrap()] = u8::from_str_radix(words[2], 16).unwrap();
            loaded(&framed(stage.base, &body, parts.column)).map(|_| format!("{line}: it is a block too\n"))
        }
        "moved" => {
            let handle = BlockHandle { offset: AT + 4096, ..stage.handle };
            let read = loaded(&BlockStage { handle, ..stage.clone() });
            read.map(|_| format!("{line}: nobody noticed\n")).map_err(|error| error.in_file(NAME, handle.offset))
        }
        other => panic!("no such step: {other}"),
    }
}

/// Returns the block as a reader loads it: CRC check, then validation of every byte.
fn loaded(stage: &BlockStage) -> Result<Block> {
    let (_, codec) = check_frame(&stage.stored, &UID, Role::Data, &stage.handle)?;
    Block::load(
        (stage.stored.clone(), Vec::with_capacity),
        codec,
        &stage.handle,
        (stage.base, None),
        &Order::bytewise(),
        true,
    )
}

fn dump(stage: &BlockStage) -> Result<String> {
    let (stored, codec) = check_frame(&stage.stored, &UID, Role::Data, &stage.handle)?;
    let parts = StoredBlock::split(stored, codec)?;
    let mut scratch = Vec::new();
    let body = parts.body(stage.handle.raw_len, &mut scratch, None)?;
    let mut out = String::new();
    let shape =
        scan_entries(body, parts.column, stage.base, &Order::bytewise(), &mut KeyBuffer::default(), |at, record| {
            let entry = BlockEntry::read(body, at)?;
            let (shared, unshared) = (entry.shared, entry.value_at - entry.suffix_at);
            writeln!(out, "{at:4}: shared {shared}, unshared {unshared}, {}", described(record)).unwrap();
            Ok(())
        })?;
    let restarts = (shape.count as usize).div_ceil(shape.interval as usize);
    writeln!(
        out,
        "{:4}: {restarts} restarts, one every {}; {} entries",
        shape.entries_end, shape.interval, shape.count
    )
    .unwrap();
    if let Some(column) = parts.column {
        writeln!(out, "{:4}: {} companions in a column", body.len(), column.len() / 8).unwrap();
    }
    writeln!(out, "{:4}: codec {codec:02x} and checksum; {} bytes", stored.len(), stage.stored.len()).unwrap();
    Ok(out)
}

fn find(block: &Block, key: &[u8], seqno: Seqno) -> Result<String> {
    let place = block.search(key, seqno, &Order::bytewise())?;
    let wanted = key.escape_ascii();
    Ok(match place.equal {
        Some(entry) => format!("{wanted}: entry {}, {}\n", place.at, described(&block.record(place.at, &entry, key))),
        None if place.at == block.len() => format!("{wanted}: not here, behind the last entry\n"),
        None => {
            let mut next = Vec::new();
            block.key_into(place.at, &mut next)?;
            let seqno = block.seqno(&block.entry(place.at)?);
            format!("{wanted}: not here, before entry {} ({}@{seqno})\n", place.at, next.escape_ascii())
        }
    })
}

fn described(record: &Record<'_>) -> String {
    let mut out = format!("{}@{}", record.key.escape_ascii(), record.seqno);
    match record.kind {
        Kind::Put => write!(out, " {}", record.value.escape_ascii()).unwrap(),
        _ => out += " deleted",
    }
    if !record.companion.is_empty() {
        let hex: Vec<String> = record.companion.iter().map(|byte| format!("{byte:02x}")).collect();
        write!(out, " [{}]", hex.join(" ")).unwrap();
    }
    out
}
