//! Tables beside SQLite: inserts with an index, gets by key, and ranges of the index.

use std::path::Path;
use std::time::Instant;

use rusqlite::{Connection, params};
use waxseal::{Db, Durability};
use waxseal_table::{Table, Tables};

use super::ROUNDS;
use super::rows::{CACHE_BYTES, CHUNK, Payment, create, drawn, filled, index, open, payments, schema, timed};
use crate::Outcome;
use crate::experiment::Run;
use crate::gate::Gate;
use crate::rounds::{Rounds, alternate};

/// Rows at scale 1: of a store that is read, and of a round of inserts.
const ROWS: u64 = 200_000;

/// Transactions of a round at scale 1 that are durable one by one.
const SYNCED: u64 = 1_000;

/// Rows of a range, on average.
const RANGE: i64 = 100;

const TIMES: f64 = 2.0;

const OURS: usize = 0;
const SQLITE: usize = 1;

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let all = payments(run.size(ROWS, 2_000), run.seed);
    let mut gates = Vec::new();
    for (durability, synchronous) in [(Durability::Os, "NORMAL"), (Durability::Sync, "FULL")] {
        for rows in [1, CHUNK] {
            let synced = run.size(SYNCED, 50) as usize * if rows == 1 { 1 } else { CHUNK / 10 };
            let count = if synchronous == "FULL" { synced.min(all.len()) } else { all.len() };
            let kind = Inserts { durability, synchronous, rows };
            gates.push(kind.measure(&run.within(0.22), &all[..count])?);
        }
    }
    gates.extend(reads(run, &all)?);
    Ok(gates)
}

/// Inserts of one durability, with a number of rows in each transaction.
struct Inserts {
    durability: Durability,
    synchronous: &'static str,
    rows: usize,
}

impl Inserts {
    fn measure(&self, run: &Run, payments: &[Payment]) -> Outcome<Gate> {
        let rounds = alternate(run, 2, ROUNDS, |side| {
            let dir = run.fresh("inserted")?;
            if side == OURS { self.ours(&dir, payments) } else { self.sqlite(&dir, payments) }
        })?;
        let what = format!("insert_{}_{}", self.synchronous.to_lowercase(), self.rows);
        Ok(gate(run, &what, &rounds))
    }

    fn ours(&self, dir: &Path, payments: &[Payment]) -> Outcome<f64> {
        let db = open(dir, self.durability)?;
        let table = create(&db, schema().index(index()))?;
        let tables = Tables::open(&db)?;
        let nanos = match self.rows {
            1 => timed(payments, Payment::row, |row| Ok(table.insert(row)?)),
            rows => transactions(payments, rows, Payment::row, |chunk| {
                let transaction = tables.transaction();
                chunk.into_iter().try_for_each(|row| transaction.insert(&table, row))?;
                Ok(transaction.commit()?)
            }),
        }?;
        db.close()?;
        Ok(nanos)
    }

    fn sqlite(&self, dir: &Path, payments: &[Payment]) -> Outcome<f64> {
        let connection = connect(dir, self.synchronous)?;
        match self.rows {
            1 => timed(payments, Payment::clone, |payment| insert(&connection, &payment)),
            rows => transactions(payments, rows, Payment::clone, |chunk| {
                connection.execute_batch("BEGIN")?;
                chunk.iter().try_for_each(|payment| insert(&connection, payment))?;
                Ok(connection.execute_batch("COMMIT")?)
            }),
        }
    }
}

/// Returns the nanoseconds of an item. `make` prepares the items of a transaction, outside the time.
fn transactions<A>(
    payments: &[Payment],
    rows: usize,
    make: impl Fn(&Payment) -> A,
    mut each: impl FnMut(Vec<A>) -> Outcome<()>,
) -> Outcome<f64> {
    let mut nanos = 0;
    for chunk in payments.chunks(rows) {
        let items = chunk.iter().map(&make).collect();
        let start = Instant::now();
        each(items)?;
        nanos += start.elapsed().as_nanos();
    }
    Ok(nanos as f64 / payments.len().max(1) as f64)
}

fn connect(dir: &Path, synchronous: &str) -> Outcome<Connection> {
    let connection = Connection::open(dir.join("payments.sqlite"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "cache_size", -i64::try_from(CACHE_BYTES / 1024)?)?;
    connection.execute_batch(
        "CREATE TABLE payments (id INTEGER PRIMARY KEY, owner INTEGER, amount REAL, at INTEGER, note TEXT);
         CREATE INDEX by_owner ON payments (owner)",
    )?;
    Ok(connection)
}

fn insert(connection: &Connection, payment: &Payment) -> Outcome<()> {
    let mut insert = connection.prepare_cached("INSERT INTO payments VALUES (?1, ?2, ?3, ?4, ?5)")?;
    insert.execute(params![payment.id, payment.owner, payment.amount, payment.micros, payment.note])?;
    Ok(())
}

fn payment_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Payment> {
    Ok(Payment { id: row.get(0)?, owner: row.get(1)?, amount: row.get(2)?, micros: row.get(3)?, note: row.get(4)? })
}

/// The same rows in both stores.
struct Stores {
    _db: Db,
    table: Table,
    connection: Connection,
}

fn reads(run: &Run, payments: &[Payment]) -> Outcome<Vec<Gate>> {
    let db = open(&run.fresh("table")?, Durability::Os)?;
    let table = filled(&db, schema().index(index()), payments)?;
    let connection = connect(&run.fresh("sqlite")?, "NORMAL")?;
    connection.execute_batch("BEGIN")?;
    payments.iter().try_for_each(|payment| insert(&connection, payment))?;
    connection.execute_batch("COMMIT; ANALYZE")?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    let stores = Stores { _db: db, table, connection };
    let mut gates = Vec::new();
    for (what, count) in [("get", run.size(ROWS, 2_000)), ("range", run.size(ROWS / 100, 200))] {
        let mut turn = 0;
        let rounds = alternate(&run.within(0.5), 2, ROUNDS, |side| {
            turn += 1;
            let drawn = drawn(payments, count, run.seed + (turn - 1) / 2);
            match what {
                "get" => stores.get(side, &drawn),
                _ => stores.range(side, &drawn),
            }
        })?;
        gates.push(gate(run, what, &rounds));
    }
    Ok(gates)
}

impl Stores {
    fn get(&self, side: usize, drawn: &[&Payment]) -> Outcome<f64> {
        let is_found = |owner: Option<i64>| if owner.is_some() { Ok(()) } else { Err("a row is missing".into()) };
        if side == OURS {
            return timed(
                drawn,
                |payment| payment.id,
                |id| is_found(self.table.get(id)?.and_then(|row| row.get("owner")?.as_i64())),
            );
        }
        timed(
            drawn,
            |payment| payment.id,
            |id| {
                let mut select = self.connection.prepare_cached("SELECT * FROM payments WHERE id = ?1")?;
                is_found(Some(select.query_row([id], payment_of)?.owner))
            },
        )
    }

    /// Reads the rows of owners from that of a payment on.
    fn range(&self, side: usize, drawn: &[&Payment]) -> Outcome<f64> {
        // The range has the drawn payment.
        let is_read = |count: usize| if count > 0 { Ok(()) } else { Err("a range has no rows".into()) };
        if side == OURS {
            return timed(
                drawn,
                |payment| payment.owner,
                |owner| {
                    let rows = self.table.select().index("by_owner").range(owner..owner + RANGE).rows()?;
                    is_read(rows.collect::<waxseal_table::Result<Vec<_>>>()?.len())
                },
            );
        }
        timed(
            drawn,
            |payment| payment.owner,
            |owner| {
                let query = "SELECT * FROM payments WHERE owner >= ?1 AND owner < ?2 ORDER BY owner";
                let mut select = self.connection.prepare_cached(query)?;
                let rows = select.query_map([owner, owner + RANGE], payment_of)?;
                is_read(rows.collect::<rusqlite::Result<Vec<Payment>>>()?.len())
            },
        )
    }
}

fn gate(run: &Run, what: &str, rounds: &Rounds) -> Gate {
    println!("{what}: {} rounds, {:.0} ns; SQLite {:.0} ns", rounds.count(), rounds.of(OURS), rounds.of(SQLITE));
    run.at_least(&format!("sqlite.{what}"), "times_as_fast", "x", rounds.speedup(OURS, SQLITE), TIMES)
}
