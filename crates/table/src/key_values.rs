//! Keys and ranges of keys, as callers write them.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use crate::decimal::Decimal;
use crate::value::Value;

/// Values for the first columns of a key: a single value, a tuple, or a list of values.
pub trait IntoKey {
    /// Returns the values in the order of the key's columns.
    fn into_key(self) -> Vec<Value>;
}

macro_rules! single_values {
    ($($source:ty),*) => {$(
        impl IntoKey for $source {
            fn into_key(self) -> Vec<Value> {
                vec![self.into()]
            }
        }
    )*};
}

single_values!(&str, String, &[u8], Vec<u8>, bool, i32, i64, u64, f32, f64, Decimal, Value);

impl<const N: usize> IntoKey for &[u8; N] {
    fn into_key(self) -> Vec<Value> {
        vec![self.into()]
    }
}

impl IntoKey for Vec<Value> {
    fn into_key(self) -> Vec<Value> {
        self
    }
}

impl IntoKey for &[Value] {
    fn into_key(self) -> Vec<Value> {
        self.to_vec()
    }
}

impl IntoKey for &Vec<Value> {
    fn into_key(self) -> Vec<Value> {
        self.clone()
    }
}

macro_rules! tuples {
    ($(($($name:ident $at:tt),+);)*) => {$(
        impl<$($name: Into<Value>),+> IntoKey for ($($name,)+) {
            fn into_key(self) -> Vec<Value> {
                vec![$(self.$at.into()),+]
            }
        }
    )*};
}

tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
}

/// A range of keys, from a start to an end.
pub trait IntoKeyRange {
    /// Returns the start and the end.
    fn into_key_range(self) -> (Bound<Vec<Value>>, Bound<Vec<Value>>);
}

impl IntoKeyRange for RangeFull {
    fn into_key_range(self) -> (Bound<Vec<Value>>, Bound<Vec<Value>>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

macro_rules! ranges {
    ($($range:ident, $self:ident => ($start:expr, $end:expr);)*) => {$(
        impl<K: IntoKey> IntoKeyRange for $range<K> {
            fn into_key_range($self) -> (Bound<Vec<Value>>, Bound<Vec<Value>>) {
                ($start, $end)
            }
        }
    )*};
}

ranges! {
    Range, self => (Bound::Included(self.start.into_key()), Bound::Excluded(self.end.into_key()));
    RangeFrom, self => (Bound::Included(self.start.into_key()), Bound::Unbounded);
    RangeTo, self => (Bound::Unbounded, Bound::Excluded(self.end.into_key()));
    RangeToInclusive, self => (Bound::Unbounded, Bound::Included(self.end.into_key()));
}

impl<K: IntoKey> IntoKeyRange for RangeInclusive<K> {
    fn into_key_range(self) -> (Bound<Vec<Value>>, Bound<Vec<Value>>) {
        let (start, end) = self.into_inner();
        (Bound::Included(start.into_key()), Bound::Included(end.into_key()))
    }
}

impl<K: IntoKey> IntoKeyRange for (Bound<K>, Bound<K>) {
    fn into_key_range(self) -> (Bound<Vec<Value>>, Bound<Vec<Value>>) {
        (self.0.map(K::into_key), self.1.map(K::into_key))
    }
}
