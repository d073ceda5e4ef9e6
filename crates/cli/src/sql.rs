//! sql: queries over tables, printed like `table select`.

use crate::args::Args;
use crate::failure::{Exit, Failure};
use crate::output::Output;

#[cfg(not(feature = "sql"))]
pub(crate) fn sql(_: &Args, _: &str, _: Option<&str>, _: usize, _: &mut Output) -> Result<Exit, Failure> {
    Err(Failure::usage("this build has no SQL").explain("cargo install builds it with --features sql"))
}

#[cfg(feature = "sql")]
pub(crate) use query::sql;

#[cfg(feature = "sql")]
mod query {
    use std::collections::HashSet;

    use waxseal_sql::{Sql, SqlRows, display_cell};
    use waxseal_table::{RecordBatch, Tables, Value};

    use super::{Args, Exit, Failure, Output};
    use crate::input::{MAX_LINE_BYTES, read_within, standard_input};
    use crate::store::open_to_read;
    use crate::table::grid::{Grid, GridColumn};
    use crate::text;

    pub(crate) fn sql(
        args: &Args,
        query: &str,
        keyspace: Option<&str>,
        memory_mib: usize,
        output: &mut Output,
    ) -> Result<Exit, Failure> {
        if args.hex {
            return Err(Failure::usage("columns have types: bytes are hexadecimal without --hex, and nothing else is"));
        }
        let query = match query {
            "-" => from_standard_input()?,
            query => query.to_owned(),
        };
        let db = open_to_read(args)?;
        let mut sql = Sql::new(&Tables::open(&db)?).memory_bytes(memory_mib.saturating_mul(1 << 20));
        if let Some(keyspace) = keyspace {
            sql = sql.keyspace(keyspace);
        }
        let batches = sql.query(&query)?;
        let schema = batches.schema();
        if !output.json && schema.fields().iter().map(|field| field.name()).eq(["plan_type", "plan"]) {
            return plan(batches, output);
        }
        let columns = schema.fields().iter().map(|field| GridColumn {
            name: text::escape(field.name().as_bytes()),
            is_number: field.data_type().is_numeric(),
        });
        let mut grid = Grid::new(columns.collect());
        if output.json {
            check_names(schema.fields().iter().map(|field| field.name().as_str()))?;
        }
        let mut count = 0u64;
        for batch in batches {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                count += 1;
                match output.json {
                    true => output.write(&[json(&batch, row)?.as_bytes(), b"\n"])?,
                    false => grid.row(cells(&batch, row)?, output)?,
                }
            }
        }
        if !output.json {
            grid.finish(output)?;
            output.line(format!("({})", text::counted(count, "row", "rows")))?;
        }
        Ok(Exit::Ok)
    }

    /// Prints what `EXPLAIN` returns: the lines of a plan are one cell.
    fn plan(batches: SqlRows, output: &mut Output) -> Result<Exit, Failure> {
        for batch in batches {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                let plan = display_cell(&batch, 1, row)?;
                for line in plan.as_str().unwrap_or_default().lines() {
                    output.line(text::escape(line.as_bytes()))?;
                }
            }
        }
        Ok(Exit::Ok)
    }

    fn from_standard_input() -> Result<String, Failure> {
        let query = read_within(standard_input()?, MAX_LINE_BYTES, "standard input")?;
        String::from_utf8(query).map_err(|error| Failure::usage(format!("standard input: {error}")))
    }

    /// Refuses a result that JSON objects cannot have.
    fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
        let mut seen = HashSet::new();
        for name in names {
            if !seen.insert(name) {
                let advice = "give one another name with AS";
                return Err(Failure::usage(format!("two columns of the result are named {name:?}: {advice}")));
            }
        }
        Ok(())
    }

    fn cells(batch: &RecordBatch, row: usize) -> Result<Vec<String>, Failure> {
        let cell = |column: usize| match display_cell(batch, column, row)? {
            Value::Null => Ok("NULL".to_owned()),
            value => Ok(text::escape(value.to_string().as_bytes())),
        };
        (0..batch.num_columns()).map(cell).collect()
    }

    /// Returns a row as a JSON object, without its nulls.
    fn json(batch: &RecordBatch, row: usize) -> Result<String, Failure> {
        let mut members = Vec::new();
        for (column, field) in batch.schema_ref().fields().iter().enumerate() {
            match display_cell(batch, column, row)? {
                Value::Null => {}
                value => {
                    members.push(format!("{}:{}", serde_json::Value::from(field.name().as_str()), value.to_json()))
                }
            }
        }
        Ok(format!("{{{}}}", members.join(",")))
    }

    impl From<waxseal_sql::Error> for Failure {
        fn from(error: waxseal_sql::Error) -> Failure {
            use waxseal_sql::Error;
            match error {
                Error::Table(error) => error.into(),
                error @ Error::Memory(_) => Failure::usage(error.to_string()).explain("--memory-mib N permits more"),
                error => Failure::usage(error.to_string()),
            }
        }
    }
}
