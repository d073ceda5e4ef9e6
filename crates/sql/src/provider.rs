//! A table at a snapshot, as DataFusion plans it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use waxseal::Snapshot;
use waxseal_table::{Column, Schema, Table};

use crate::access::Access;
use crate::comparison::Comparison;
use crate::scan::TableScan;

/// A table, and its schema at the snapshot of a query.
pub(crate) struct SnapshotTable {
    table: Table,
    snapshot: Snapshot,
    schema: Schema,
    /// The columns of the schema, without those of repeated groups.
    arrow: SchemaRef,
}

impl SnapshotTable {
    pub(crate) fn new(table: Table, snapshot: Snapshot) -> waxseal_table::Result<SnapshotTable> {
        let schema = table.schema_at(&snapshot)?;
        let is_repeated = |column: &Column| {
            schema.groups().iter().any(|group| group.is_repeated() && group.name() == schema.group_of(column))
        };
        let columns = schema.columns().filter(|column| !is_repeated(column)).map(Column::name);
        let arrow = table.select().at(&snapshot).columns(columns).scan_arrow()?.schema();
        Ok(SnapshotTable { table, snapshot, schema, arrow })
    }

    /// Returns the comparison of a filter that the scan applies.
    fn pushed(&self, filter: &Expr) -> Option<Comparison> {
        let comparison = Comparison::of(filter, &self.schema)?;
        let is_compared = |column: &Column| column.name() == comparison.column;
        let is_indexed = self
            .schema
            .indexes()
            .any(|index| self.schema.columns_of_index(index).any(|(column, _)| is_compared(column)));
        (is_indexed || self.schema.key_columns().any(is_compared)).then_some(comparison)
    }
}

#[async_trait]
impl TableProvider for SnapshotTable {
    fn schema(&self) -> SchemaRef {
        self.arrow.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// A scan applies each comparison that it takes, by its range or row by row.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match self.pushed(filter) {
            Some(_) => TableProviderFilterPushDown::Exact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let comparisons: Vec<Comparison> = filters.iter().filter_map(|filter| self.pushed(filter)).collect();
        let access = Access::choose(&self.schema, &comparisons);
        let schema = match projection {
            None => self.arrow.clone(),
            Some(columns) => Arc::new(self.arrow.project(columns)?),
        };
        let source = (self.table.clone(), self.snapshot.clone());
        Ok(Arc::new(TableScan::new(source, access, schema, limit)))
    }
}

impl fmt::Debug for SnapshotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotTable").field("table", &self.table).finish_non_exhaustive()
    }
}
