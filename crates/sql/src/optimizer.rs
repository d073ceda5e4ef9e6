//! The rules of the optimizer, without two that give wrong answers in DataFusion 54.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::{Optimizer, OptimizerConfig, OptimizerRule};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// Returns DataFusion's rules for a query.
///
/// Without `eliminate_group_by_constant`: it makes `GROUP BY 'a'` an aggregate without groups, which has a row also for
/// an input without rows.
pub(crate) fn rules() -> Vec<Rule> {
    let distinct: Rule = Arc::new(DistinctProjections::default());
    let rules = Optimizer::new().rules.into_iter().filter(|rule| rule.name() != "eliminate_group_by_constant");
    rules.map(|rule| if rule.name() == distinct.name() { distinct.clone() } else { rule }).collect()
}

/// Begins names that no query has.
const MARK: &str = "\0projection ";

/// DataFusion's rule removes a projection that has the expressions of the projection below. It loses one of the steps
/// of `SELECT x + 1 AS x FROM (SELECT x + 1 AS x FROM ..)`, which is mended in releases that need a newer Rust
/// (apache/datafusion#24686). While the rule runs, each projection has a mark, so that no two are equal.
#[derive(Debug, Default)]
struct DistinctProjections {
    merge: OptimizeProjections,
}

impl OptimizerRule for DistinctProjections {
    fn name(&self) -> &str {
        self.merge.name()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut number = 0u64;
        let marked = plan.transform_up_with_subqueries(|plan| {
            number += 1;
            mark(plan, number)
        })?;
        let mut merged = self.merge.rewrite(marked.data, config)?;
        merged.data = merged.data.transform_up_with_subqueries(without_marks)?.data;
        Ok(merged)
    }
}

/// Names the expressions of a projection below their aliases.
fn mark(plan: LogicalPlan, number: u64) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Projection(_) => plan.map_expressions(|expression| match expression {
            Expr::Alias(mut alias) => {
                alias.expr = Box::new(alias.expr.alias(format!("{MARK}{number}")));
                Ok(Transformed::yes(Expr::Alias(alias)))
            }
            other => Ok(Transformed::no(other)),
        }),
        other => Ok(Transformed::no(other)),
    }
}

fn without_marks(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.map_expressions(|expression| {
        expression.transform_up(|expression| match expression {
            Expr::Alias(alias) if alias.name.starts_with(MARK) => Ok(Transformed::yes(*alias.expr)),
            other => Ok(Transformed::no(other)),
        })
    })
}
