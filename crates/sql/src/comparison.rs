//! Comparisons of a column with a constant.

use std::fmt;

use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::scalar::ScalarValue;
use waxseal_table::{ColumnType, Decimal, Filter, Schema, Value};

/// A comparison of a column with a constant of the column's type, which is not null.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) column: String,
    pub(crate) operator: ComparisonOperator,
    pub(crate) value: Value,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ComparisonOperator {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// Returns the comparison that an expression is; `None` for other expressions, and for columns whose order in keys
    /// is not that of SQL.
    pub(crate) fn of(expression: &Expr, schema: &Schema) -> Option<Comparison> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expression else { return None };
        let (column, operator, constant) = match (&**left, &**right) {
            (Expr::Column(column), Expr::Literal(constant, _)) => (column, *op, constant),
            (Expr::Literal(constant, _), Expr::Column(column)) => (column, op.swap()?, constant),
            _ => return None,
        };
        let operator = match operator {
            Operator::Eq => ComparisonOperator::Equal,
            Operator::Lt => ComparisonOperator::Less,
            Operator::LtEq => ComparisonOperator::LessOrEqual,
            Operator::Gt => ComparisonOperator::Greater,
            Operator::GtEq => ComparisonOperator::GreaterOrEqual,
            _ => return None,
        };
        let ty = schema.columns().find(|own| own.name() == column.name)?.column_type();
        Some(Comparison { column: column.name.clone(), operator, value: value_of(constant, ty)? })
    }

    pub(crate) fn filter(&self) -> Filter {
        let (column, value) = (self.column.as_str(), self.value.clone());
        match self.operator {
            ComparisonOperator::Equal => Filter::eq(column, value),
            ComparisonOperator::Less => Filter::lt(column, value),
            ComparisonOperator::LessOrEqual => Filter::le(column, value),
            ComparisonOperator::Greater => Filter::gt(column, value),
            ComparisonOperator::GreaterOrEqual => Filter::ge(column, value),
        }
    }
}

/// Returns a constant as a value of a column's type. Floating-point numbers are left to DataFusion: it orders zeros and
/// NaNs otherwise.
fn value_of(constant: &ScalarValue, ty: &ColumnType) -> Option<Value> {
    match (constant, ty) {
        (ScalarValue::Boolean(Some(value)), ColumnType::Bool) => Some(Value::Bool(*value)),
        (ScalarValue::Int32(Some(value)), ColumnType::I32) => Some(Value::I32(*value)),
        (ScalarValue::Int64(Some(value)), ColumnType::I64) => Some(Value::I64(*value)),
        (ScalarValue::UInt64(Some(value)), ColumnType::U64) => Some(Value::U64(*value)),
        (ScalarValue::Utf8(Some(value)), ColumnType::Text) => Some(Value::Text(value.clone())),
        (ScalarValue::Binary(Some(value)), ColumnType::Bytes) => Some(Value::Bytes(value.clone())),
        (ScalarValue::FixedSizeBinary(16, Some(value)), ColumnType::Uuid) => {
            value.as_slice().try_into().ok().map(Value::Uuid)
        }
        (ScalarValue::Decimal128(Some(value), digits, places), ColumnType::Decimal { precision, scale })
            if digits == precision && *places == scale.cast_signed() =>
        {
            Decimal::new(*value, *scale).ok().map(Value::Decimal)
        }
        (ScalarValue::Date32(Some(value)), ColumnType::Date) => Some(Value::Date(*value)),
        (ScalarValue::TimestampMicrosecond(Some(value), _), ColumnType::Timestamp) => Some(Value::Timestamp(*value)),
        _ => None,
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.column, self.operator, self.value)
    }
}

impl fmt::Display for ComparisonOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ComparisonOperator::Equal => "=",
            ComparisonOperator::Less => "<",
            ComparisonOperator::LessOrEqual => "<=",
            ComparisonOperator::Greater => ">",
            ComparisonOperator::GreaterOrEqual => ">=",
        })
    }
}
