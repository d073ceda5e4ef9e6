//! Runs queries.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use tokio::runtime::{Builder, Runtime};
use waxseal_table::Tables;

use crate::catalog::StoreCatalog;
use crate::error::{Error, Result};
use crate::guard::{check_length, guarded};
use crate::optimizer;
use crate::subqueries::check_subqueries;

/// The name of the catalog that has the keyspaces.
const CATALOG: &str = "waxseal";

/// Memory of a query, unless set.
const MEMORY_BYTES: usize = 1 << 30;

/// SQL queries over the tables of a store.
///
/// Tables are named `keyspace.table`. SQL folds names to lower case unless they are in double quotes. Each query reads
/// one snapshot of the store, in the calling thread.
///
/// ```
/// use waxseal_sql::Sql;
/// use waxseal_table::{ColumnType, Row, Schema, Tables};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tables = Tables::open(&waxseal::Db::memory()?)?;
/// let schema = Schema::new().partition_key("isbn", ColumnType::Text).column("year", ColumnType::I32);
/// let books = tables.create("library.books", schema)?;
/// books.insert(Row::new().with("isbn", "0141439580").with("year", 1815))?;
/// let mut rows = Sql::new(&tables).query("SELECT isbn FROM library.books WHERE year < 1900")?;
/// assert_eq!(rows.next().unwrap()?.num_rows(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Sql {
    tables: Tables,
    keyspace: Option<String>,
    memory_bytes: usize,
}

impl Sql {
    /// Returns queries over tables.
    pub fn new(tables: &Tables) -> Sql {
        Sql { tables: tables.clone(), keyspace: None, memory_bytes: MEMORY_BYTES }
    }

    /// Sets the keyspace of tables that are named without one. By default, each name has a keyspace.
    #[must_use]
    pub fn keyspace(mut self, keyspace: &str) -> Sql {
        self.keyspace = Some(keyspace.to_owned());
        self
    }

    /// Sets the bytes that sorts, joins and aggregates of one query may take together; 1 GiB by default. A query that
    /// needs more fails. Batches on the way between operators are not counted.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: usize) -> Sql {
        self.memory_bytes = bytes;
        self
    }

    /// Begins a query, which is one statement that changes nothing: `SELECT`, `EXPLAIN`, `DESCRIBE` or `SHOW TABLES`.
    ///
    /// Columns that were dropped, dynamic columns and repeated groups are not visible. The call must not come from a
    /// task of an async runtime.
    ///
    /// Errors: `Query` for a malformed query, an unknown name, a statement that changes something, a query of more than
    /// 8,192 words and operators, and `NOT IN` with a subquery where DataFusion forgets that null is possible; `Table`
    /// if a schema cannot be read.
    pub fn query(&self, text: &str) -> Result<SqlRows> {
        let runtime = Builder::new_current_thread().build();
        let runtime = runtime.map_err(|error| Error::Query(format!("the runtime does not start: {error}")))?;
        check_length(text)?;
        let stream = guarded(|| runtime.block_on(self.stream(text)))?;
        Ok(SqlRows { schema: stream.schema(), stream: Some(stream), runtime })
    }

    async fn stream(&self, text: &str) -> Result<SendableRecordBatchStream> {
        let context = self.context()?;
        let plan = context.state().create_logical_plan(text).await?;
        let reads = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        reads.verify_plan(&plan).map_err(|error| {
            let what = error.strip_backtrace();
            Error::Query(format!("SQL only reads: write through the tables' own interface ({what})"))
        })?;
        check_subqueries(&plan)?;
        Ok(context.execute_logical_plan(plan).await?.execute_stream().await?)
    }

    /// Returns the context of one query.
    fn context(&self) -> Result<SessionContext> {
        let snapshot = self.tables.db().snapshot();
        let no_files = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(GreedyMemoryPool::new(self.memory_bytes)))
            .with_disk_manager_builder(no_files)
            .build_arc()?;
        let mut config = SessionConfig::new()
            .with_target_partitions(1)
            .with_information_schema(true)
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema(CATALOG, self.keyspace.as_deref().unwrap_or("public"));
        config.options_mut().explain.physical_plan_only = true;
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(runtime)
            .with_default_features()
            .with_optimizer_rules(optimizer::rules())
            .build();
        let context = SessionContext::new_with_state(state);
        context.register_catalog(CATALOG, Arc::new(StoreCatalog::new(&self.tables, snapshot)?));
        Ok(context)
    }
}

/// The result of a query: an iterator over record batches, which ends with the first error.
///
/// Dropping it ends the query.
pub struct SqlRows {
    schema: SchemaRef,
    /// `None` after the end.
    stream: Option<SendableRecordBatchStream>,
    /// Behind the stream, whose tasks it runs.
    runtime: Runtime,
}

impl SqlRows {
    /// Returns the schema of the batches.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Drops the plan, which recurses, too.
    fn end(&mut self) {
        let _ = guarded(|| {
            self.stream = None;
            Ok(())
        });
    }
}

impl Iterator for SqlRows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let stream = self.stream.as_mut()?;
        let batch = guarded(|| Ok(self.runtime.block_on(stream.next()).transpose()?)).transpose();
        if !matches!(batch, Some(Ok(_))) {
            self.end();
        }
        batch
    }
}

impl Drop for SqlRows {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for SqlRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlRows").field("schema", &self.schema()).finish_non_exhaustive()
    }
}
