//! Rows beside the engine's records of the same bytes.

use std::collections::HashMap;

use waxseal::{Db, Durability};
use waxseal_table::{Index, Value};

use super::ROUNDS;
use super::rows::{Payment, create, drawn, filled, index, open, payments, schema, timed};
use crate::experiment::Run;
use crate::gate::Gate;
use crate::rounds::{Rounds, alternate, shown};
use crate::{Fault, Outcome};

/// Rows of a round at scale 1.
const ROWS: u64 = 200_000;

const FACTOR: f64 = 1.5;

/// A record of the engine.
type Record = (Vec<u8>, Vec<u8>);

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let payments = payments(run.size(ROWS, 2_000), run.seed);
    let mut gates = writes(&run.within(0.5), &payments)?;
    gates.extend(reads(run, &payments)?);
    Ok(gates)
}

#[derive(Clone, Copy, Debug)]
enum Write {
    Put,
    PutIfAbsent,
    Upsert,
    Insert,
}

const WRITES: [Write; 4] = [Write::Put, Write::PutIfAbsent, Write::Upsert, Write::Insert];

fn writes(run: &Run, payments: &[Payment]) -> Outcome<Vec<Gate>> {
    let source = Db::memory()?;
    let table = create(&source, schema())?;
    // A row is one record, whose key is that of the row.
    let record = |payment: &Payment| -> Outcome<Record> {
        table.upsert(payment.row())?;
        let key = table.encoded_key(payment.id)?;
        let value = table.rows_family().get(&key)?.ok_or("a row without its record")?.to_vec();
        Ok((key, value))
    };
    let records = payments.iter().map(record).collect::<Outcome<Vec<Record>>>()?;
    drop((table, source));
    let rounds = alternate(run, WRITES.len(), ROUNDS, |side| {
        let db = open(&run.fresh("written")?, Durability::Os)?;
        let nanos = match WRITES[side] {
            Write::Put => {
                let family = db.column_family("records")?;
                timed(&records, |record| record, |(key, value)| Ok(family.put(key, value)?))
            }
            Write::PutIfAbsent => {
                let family = db.column_family("records")?;
                timed(
                    &records,
                    |record| record,
                    |(key, value)| match family.put_if_absent(key, value)? {
                        true => Ok(()),
                        false => Err("a key that is there already".into()),
                    },
                )
            }
            Write::Upsert => {
                let table = create(&db, schema())?;
                timed(payments, Payment::row, |row| Ok(table.upsert(row)?))
            }
            Write::Insert => {
                let table = create(&db, schema())?;
                timed(payments, Payment::row, |row| Ok(table.insert(row)?))
            }
        }?;
        db.close()?;
        Ok(nanos)
    })?;
    print("writes", &WRITES, &rounds);
    let over = |row: usize, record: usize| rounds.ratio(|round| round[row] / round[record]);
    Ok(vec![
        run.at_most("upsert", "over_put", "x", over(2, 0), FACTOR),
        run.at_most("insert", "over_put", "x", over(3, 0), FACTOR),
        run.at_most("insert", "over_put_if_absent", "x", over(3, 1), FACTOR),
    ])
}

#[derive(Clone, Copy, Debug)]
enum Read {
    Record,
    Row,
    EntryAndRecord,
    Lookup,
}

const READS: [Read; 4] = [Read::Record, Read::Row, Read::EntryAndRecord, Read::Lookup];

fn reads(run: &Run, payments: &[Payment]) -> Outcome<Vec<Gate>> {
    let db = open(&run.fresh("read")?, Durability::Os)?;
    let unique = Index::on("by_at", ["at"]).unique();
    let table = filled(&db, schema().index(index()).index(unique), payments)?;
    let (rows, indexes) = (table.rows_family(), db.column_family("waxseal_tables-1-indexes")?);
    // The unique entries are those with a value: the key of their row.
    let mut entries = HashMap::new();
    for entry in indexes.iter() {
        let (key, row_key) = entry?;
        if !row_key.is_empty() {
            entries.insert(row_key.to_vec(), key.to_vec());
        }
    }
    let mut round = 0;
    let rounds = alternate(run, READS.len(), ROUNDS, |side| {
        round += 1;
        let drawn = drawn(payments, run.size(ROWS, 2_000), run.seed + (round - 1) / READS.len() as u64);
        let key = |payment: &&Payment| Ok::<_, Fault>(table.encoded_key(payment.id)?);
        let is_found = |found: bool| if found { Ok(()) } else { Err("a row is missing".into()) };
        match READS[side] {
            Read::Record => timed(&drawn, key, |key| is_found(rows.get(key?)?.is_some())),
            Read::Row => timed(&drawn, |payment| payment.id, |id| is_found(table.get(id)?.is_some())),
            Read::EntryAndRecord => timed(
                &drawn,
                |payment| entries.get(&key(payment)?).cloned().ok_or_else(|| "an entry is missing".into()),
                |entry: Outcome<Vec<u8>>| {
                    let row_key = indexes.get(entry?)?.ok_or("an entry is missing")?;
                    is_found(rows.get(row_key)?.is_some())
                },
            ),
            Read::Lookup => timed(
                &drawn,
                |payment| Value::Timestamp(payment.micros),
                |at| {
                    let mut found = table.select().index("by_at").prefix(at).rows()?;
                    is_found(found.next().transpose()?.is_some())
                },
            ),
        }
    })?;
    print("reads", &READS, &rounds);
    let over = |row: usize, record: usize| rounds.ratio(|round| round[row] / round[record]);
    Ok(vec![
        run.at_most("get", "over_get", "x", over(1, 0), FACTOR),
        run.at_most("lookup", "over_two_gets", "x", over(3, 2), 1.0),
    ])
}

fn print(what: &str, sides: &[impl std::fmt::Debug], rounds: &Rounds) {
    println!("{what}: {} rounds", rounds.count());
    for (number, side) in sides.iter().enumerate() {
        let times = shown(rounds.ratio(|round| round[number] / round[0]));
        println!("    {side:?}: {:.0} ns; {times} times the first", rounds.of(number));
    }
}
