//! The fields of a struct as columns, checked.

use std::collections::HashSet;

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Error, Field, Fields, GenericArgument, Ident, LitStr, PathArguments, Result, Type};

use crate::attributes::{ColumnAttributes, RowAttributes};

/// A field, as a column.
pub(crate) struct ColumnField<'a> {
    pub(crate) field: &'a Ident,
    /// The type of the field.
    pub(crate) declared: &'a Type,
    /// The type of the value: without its `Option`, if the column may be null.
    pub(crate) value: &'a Type,
    pub(crate) name: String,
    pub(crate) key: KeyPlace,
    pub(crate) group: Option<String>,
    /// The type of the column, if it is not that of its Rust type.
    pub(crate) column_type: Option<TokenStream>,
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
    let inner = inside_option(&field.ty);
    if key != KeyPlace::None && inner.is_some() {
        return wrong("a column of the key is never null: it is no Option");
    }
    if key != KeyPlace::None && attributes.group.is_some() {
        return wrong("a column of the key is in no group");
    }
    let value = inner.unwrap_or(&field.ty);
    if attributes.ty.is_none() && is_named(value, "Decimal") {
        return wrong("a decimal has its digits in an attribute: #[column(type = \"decimal(9, 2)\")]");
    }
    let column_type = attributes.ty.map(|ty| column_type(&ty, value)).transpose()?;
    let name = attributes.name.map_or_else(|| ident.unraw().to_string(), |name| name.value());
    let group = attributes.group.map(|group| group.value());
    Ok(ColumnField { field: ident, declared: &field.ty, value, name, key, group, column_type })
}

/// Returns the type inside an `Option`.
fn inside_option(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    }
}

/// Returns true for a type of this name, whatever its path.
fn is_named(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == name))
}

/// Returns the type of a column that its attribute names. Errors: for other types, and for a field that does not hold the
/// values of the type.
fn column_type(named: &LitStr, value: &Type) -> Result<TokenStream> {
    let wrong = |what: &str| Err(Error::new(named.span(), what));
    let is_rust = |name: &str| is_named(value, name);
    match named.value().trim() {
        "date" if is_rust("i32") => Ok(quote!(::waxseal_table::ColumnType::Date)),
        "date" => wrong("a date is an i32: days since 1970"),
        "timestamp" if is_rust("i64") => Ok(quote!(::waxseal_table::ColumnType::Timestamp)),
        "timestamp" => wrong("a timestamp is an i64: microseconds since 1970"),
        "json" if is_rust("String") => Ok(quote!(::waxseal_table::ColumnType::Json)),
        "json" => wrong("a JSON document is a String"),
        text => match decimal(text) {
            Some((precision, scale)) if is_rust("Decimal") => {
                Ok(quote!(::waxseal_table::ColumnType::Decimal { precision: #precision, scale: #scale }))
            }
            Some(_) => wrong("a decimal is a waxseal_table::Decimal"),
            None => wrong(
                "one of \"date\", \"timestamp\", \"json\", \"decimal(PRECISION, SCALE)\" with 1 to 38 digits is expected: \
                 other types are those of the field",
            ),
        },
    }
}

/// Parses `decimal(9, 2)`. `None` for other text, and for a decimal that no column can have.
fn decimal(text: &str) -> Option<(u8, u8)> {
    let (precision, scale) = text.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
    let (precision, scale): (u8, u8) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
    ((1..=38).contains(&precision) && scale <= precision).then_some((precision, scale))
}
