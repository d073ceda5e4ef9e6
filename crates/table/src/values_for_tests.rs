//! Random types and values.

use proptest::prelude::*;

use crate::decimal::Decimal;
use crate::key::{KeyPart, SortOrder};
use crate::types::ColumnType;
use crate::value::Value;

/// Any type that a key may have.
pub(crate) fn ordered_type() -> impl Strategy<Value = ColumnType> {
    prop_oneof![
        prop::sample::select(vec![
            ColumnType::Bytes,
            ColumnType::Text,
            ColumnType::Bool,
            ColumnType::I32,
            ColumnType::I64,
            ColumnType::U64,
            ColumnType::F32,
            ColumnType::F64,
            ColumnType::Date,
            ColumnType::Timestamp,
            ColumnType::Uuid,
        ]),
        (1u8..=38).prop_flat_map(|precision| {
            (0..=precision).prop_map(move |scale| ColumnType::Decimal { precision, scale })
        }),
    ]
}

/// Any type.
pub(crate) fn any_type() -> impl Strategy<Value = ColumnType> {
    prop_oneof![
        4 => ordered_type(),
        1 => Just(ColumnType::Json),
        1 => Just(ColumnType::Empty),
        2 => ordered_type().prop_map(ColumnType::list),
    ]
}

pub(crate) fn part() -> impl Strategy<Value = KeyPart> {
    let order = prop::sample::select(vec![SortOrder::Ascending, SortOrder::Descending]);
    (ordered_type(), order).prop_map(|(ty, order)| KeyPart { ty, order })
}

/// Bytes that often are equal, escaped, or a beginning of each other.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![prop::sample::select(vec![0u8, 1, 0xFE, 0xFF]), any::<u8>()], 0..5)
}

/// A value of a type.
pub(crate) fn value_of(ty: ColumnType) -> BoxedStrategy<Value> {
    match ty {
        ColumnType::Bytes => bytes().prop_map(Value::Bytes).boxed(),
        ColumnType::Text => "[\\x00\\x01a\u{10FFFF}]{0,4}".prop_map(Value::Text).boxed(),
        ColumnType::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        ColumnType::I32 => prop_oneof![-2..3i32, any::<i32>()].prop_map(Value::I32).boxed(),
        ColumnType::I64 => prop_oneof![-2..3i64, any::<i64>()].prop_map(Value::I64).boxed(),
        ColumnType::U64 => prop_oneof![0..3u64, any::<u64>()].prop_map(Value::U64).boxed(),
        ColumnType::F32 => prop_oneof![prop::num::f32::ANY, prop::sample::select(vec![0.0f32, -0.0, f32::INFINITY])]
            .prop_map(Value::F32)
            .boxed(),
        ColumnType::F64 => prop_oneof![prop::num::f64::ANY, prop::sample::select(vec![0.0, -0.0, f64::INFINITY])]
            .prop_map(Value::F64)
            .boxed(),
        ColumnType::Decimal { precision, scale } => {
            let limit = 10i128.pow(u32::from(precision));
            let number = move |unscaled: i128| Value::Decimal(Decimal::new(unscaled, scale).unwrap());
            prop_oneof![(-2i128).max(1 - limit)..3i128.min(limit), 1 - limit..limit].prop_map(number).boxed()
        }
        ColumnType::Date => any::<i32>().prop_map(Value::Date).boxed(),
        ColumnType::Timestamp => any::<i64>().prop_map(Value::Timestamp).boxed(),
        ColumnType::Uuid => any::<[u8; 16]>().prop_map(Value::Uuid).boxed(),
        ColumnType::Json => prop::sample::select(vec!["null", "{\"a\": [1, 2]}"])
            .prop_map(|text: &str| Value::Json(text.to_owned()))
            .boxed(),
        ColumnType::List(element) => prop::collection::vec(value_of(*element), 0..4).prop_map(Value::List).boxed(),
        ColumnType::Empty => Just(Value::Empty).boxed(),
    }
}
