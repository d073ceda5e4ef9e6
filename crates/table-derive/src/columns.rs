//! The fields of a struct as columns, checked.

use std::collections::HashSet;

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Error, Field, Fields, Ident, LitStr, Result, Type};

use crate::attributes::{ColumnAttributes, RowAttributes};

/// A field, as a column.
pub(crate) struct ColumnField<'a> {
    pub(crate) field: &'a Ident,
    /// The type of the field, which may be an alias: only its trait tells an `Option`, a list and a decimal.
    pub(crate) declared: &'a Type,
    pub(crate) name: String,
    pub(crate) key: KeyPlace,
    pub(crate) group: Option<String>,
    /// The type of the column, if it is not that of its Rust type.
    pub(crate) column_type: Option<NamedType>,
}

/// A type of columns that an attribute names.
pub(crate) struct NamedType {
    pub(crate) column_type: TokenStream,
    /// The function that refuses fields of other Rust types.
    pub(crate) check: TokenStream,
}

/// Where a column is in the key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyPlace {
    Partition,
    Clustering { is_descending: bool },
    None,
}

/// Returns the columns of a struct. Errors name the field that is wrong.
pub(crate) fn columns_of<'a>(input: &'a DeriveInput, row: &RowAttributes) -> Result<Vec<ColumnField<'a>>> {
    let wrong = |what: &str| Err(Error::new_spanned(&input.ident, what));
    let Data::Struct(data) = &input.data else { return wrong("a row is a struct with named fields") };
    let Fields::Named(fields) = &data.fields else { return wrong("a row is a struct with named fields") };
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "a row has no type parameters and no lifetimes"));
    }
    let columns = fields.named.iter().map(column_of).collect::<Result<Vec<_>>>()?;
    let mut names = HashSet::new();
    if let Some(twice) = columns.iter().find(|column| !names.insert(column.name.as_str())) {
        return Err(Error::new_spanned(twice.field, format!("two columns have the name {:?}", twice.name)));
    }
    if !columns.iter().any(|column| column.key == KeyPlace::Partition) {
        return wrong("a row has a field with #[column(partition_key)]");
    }
    for index in &row.indexes {
        if let Some((name, _)) = index.columns.iter().find(|(name, _)| !names.contains(name.as_str())) {
            return Err(Error::new(index.literal.span(), format!("no field is the column {name:?}")));
        }
    }
    Ok(columns)
}

fn column_of(field: &Field) -> Result<ColumnField<'_>> {
    let attributes = ColumnAttributes::read(&field.attrs)?;
    let Some(ident) = &field.ident else { return Err(Error::new_spanned(field, "the field has no name")) };
    let wrong = |what: &str| Err(Error::new_spanned(ident, what));
    let key = match (attributes.is_partition_key, attributes.is_clustering_key) {
        (true, true) => return wrong("a column is of the partition key or a clustering column, not both"),
        (true, false) => KeyPlace::Partition,
        (false, true) => KeyPlace::Clustering { is_descending: attributes.is_descending },
        (false, false) => KeyPlace::None,
    };
    if attributes.is_descending && !attributes.is_clustering_key {
        return wrong("descending is for a clustering_key");
    }
    if key != KeyPlace::None && attributes.group.is_some() {
        return wrong("a column of the key is in no group");
    }
    if key != KeyPlace::None && attributes.ty.as_ref().is_some_and(|ty| ty.value().trim() == "json") {
        return wrong("a column of the key is no JSON document");
    }
    let column_type = attributes.ty.map(|ty| column_type(&ty)).transpose()?;
    let name = attributes.name.map_or_else(|| ident.unraw().to_string(), |name| name.value());
    let group = attributes.group.map(|group| group.value());
    Ok(ColumnField { field: ident, declared: &field.ty, name, key, group, column_type })
}

/// Returns the type of a column that its attribute names. Errors: for other types.
fn column_type(named: &LitStr) -> Result<NamedType> {
    let (column_type, check) = match named.value().trim() {
        "date" => (quote!(Date), quote!(check_date)),
        "timestamp" => (quote!(Timestamp), quote!(check_timestamp)),
        "json" => (quote!(Json), quote!(check_json)),
        text => {
            let (precision, scale) = decimal(text).ok_or_else(|| {
                let known = "one of \"date\", \"timestamp\", \"json\", \"decimal(PRECISION, SCALE)\" with 1 to 38 digits is \
                             expected: other types are those of the field";
                Error::new(named.span(), known)
            })?;
            (quote!(Decimal { precision: #precision, scale: #scale }), quote!(check_decimal))
        }
    };
    Ok(NamedType { column_type: quote!(::waxseal_table::ColumnType::#column_type), check })
}

/// Parses `decimal(9, 2)`. `None` for other text, and for a decimal that no column can have.
fn decimal(text: &str) -> Option<(u8, u8)> {
    let (precision, scale) = text.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
    let (precision, scale): (u8, u8) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
    ((1..=38).contains(&precision) && scale <= precision).then_some((precision, scale))
}
