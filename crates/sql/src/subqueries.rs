//! Refuses subqueries that DataFusion 54 answers wrongly.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

use crate::error::{Error, Result};

/// Refuses `IN (SELECT ..)` where null, which its value may be, differs from false. DataFusion takes null for false
/// there, except for a negated one that is a condition of its own and has no column of the outer query.
///
/// Refuses `ANY` and `ALL`: a column of the outer query is taken for one of the same table in the subquery.
pub(crate) fn check_subqueries(plan: &LogicalPlan) -> Result<()> {
    let mut are_sound = true;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            are_sound &= split_conjunction(expression).into_iter().all(is_sound);
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    let advice = "use EXISTS or NOT EXISTS: ANY and ALL over a subquery are not supported, and NOT IN (SELECT ..) not \
                  inside another condition or with columns of the outer query";
    if are_sound { Ok(()) } else { Err(Error::Query(advice.to_owned())) }
}

fn is_sound(condition: &Expr) -> bool {
    match condition {
        Expr::InSubquery(InSubquery { negated: true, expr, subquery }) => {
            subquery.outer_ref_columns.is_empty() && !has_subquery(expr)
        }
        Expr::Not(inner) => match &**inner {
            Expr::InSubquery(InSubquery { negated: false, expr, subquery }) => {
                subquery.outer_ref_columns.is_empty() && !has_subquery(expr)
            }
            other => !has_subquery(other),
        },
        other => is_positive(other),
    }
}

/// Whether null and false of each `IN (SELECT ..)` give the same rows.
fn is_positive(condition: &Expr) -> bool {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
            is_positive(left) && is_positive(right)
        }
        Expr::InSubquery(InSubquery { negated: false, expr, .. }) => !has_subquery(expr),
        other => !has_subquery(other),
    }
}

fn has_subquery(expression: &Expr) -> bool {
    let found = expression.exists(|expression| Ok(matches!(expression, Expr::InSubquery(_) | Expr::SetComparison(_))));
    found.unwrap_or(true)
}
