//! The leaf of a plan that reads a table.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::stream;
use waxseal::Snapshot;
use waxseal_table::{ArrowScan, Table};

use crate::access::Access;

/// Reads rows of a table in one partition.
pub(crate) struct TableScan {
    table: Table,
    snapshot: Snapshot,
    access: Access,
    columns: Vec<String>,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl TableScan {
    /// `schema` is that of the columns.
    pub(crate) fn new(
        (table, snapshot): (Table, Snapshot),
        access: Access,
        schema: SchemaRef,
        limit: Option<usize>,
    ) -> TableScan {
        let columns = schema.fields().iter().map(|field| field.name().clone()).collect();
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        TableScan { table, snapshot, access, columns, limit, properties }
    }

    fn batches(&self) -> waxseal_table::Result<ArrowScan> {
        let mut select = self.access.narrow(self.table.select().at(&self.snapshot));
        if let Some(limit) = self.limit {
            select = select.limit(limit);
        }
        select.columns(self.columns.iter().cloned()).scan_arrow()
    }
}

impl ExecutionPlan for TableScan {
    fn name(&self) -> &'static str {
        "TableScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("a scan of a table has no children"),
        }
    }

    /// The scan ends with its first error: the rows behind damage would be an incomplete answer.
    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = context.session_config().batch_size();
        // A read of a dropped table fails; that the table is gone says more than the read's own error.
        let table = self.table.clone();
        let failed = move |error: waxseal_table::Error| {
            DataFusionError::External(Box::new(table.check().err().unwrap_or(error)))
        };
        let mut batches = self.batches().map_err(&failed)?.batch_rows(rows);
        let mut has_failed = false;
        let batches = std::iter::from_fn(move || {
            let batch = if has_failed { None } else { batches.next() }?;
            has_failed = batch.is_err();
            Some(batch.map_err(&failed))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream::iter(batches))))
    }
}

impl DisplayAs for TableScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableScan: {}, {}, columns=[{}]", self.table.name(), self.access, self.columns.join(", "))?;
        self.limit.map_or(Ok(()), |limit| write!(f, ", limit={limit}"))
    }
}

impl fmt::Debug for TableScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Verbose, f)
    }
}
