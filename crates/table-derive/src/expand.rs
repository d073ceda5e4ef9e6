//! The implementation that the macro writes.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Result};

use crate::attributes::{IndexAttribute, RowAttributes};
use crate::columns::{ColumnField, KeyPlace, columns_of};

/// Returns the implementation for a struct.
pub(crate) fn row(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = RowAttributes::read(&input.attrs)?;
    let columns = columns_of(input, &attributes)?;
    let own = &input.ident;
    let (declared, indexes) = (columns.iter().map(declaration), attributes.indexes.iter().map(index));
    let hashed = attributes.is_hashed.then(|| quote!(.hashed()));
    let (sets, reads) = (columns.iter().map(set), columns.iter().map(read));
    Ok(quote! {
        #[automatically_derived]
        impl ::waxseal_table::TypedRow for #own {
            fn schema() -> ::waxseal_table::Schema {
                ::waxseal_table::Schema::new() #hashed #(#declared)* #(#indexes)*
            }

            fn into_row(self) -> ::waxseal_table::Row {
                let mut row = ::waxseal_table::Row::new();
                #(#sets)*
                row
            }

            fn from_row(row: &::waxseal_table::Row) -> ::waxseal_table::Result<Self> {
                ::core::result::Result::Ok(Self { #(#reads),* })
            }
        }

        #[automatically_derived]
        impl ::core::convert::From<#own> for ::waxseal_table::Row {
            fn from(typed: #own) -> ::waxseal_table::Row {
                ::waxseal_table::TypedRow::into_row(typed)
            }
        }
    })
}

/// Returns the call that adds a column to the schema.
fn declaration(column: &ColumnField<'_>) -> TokenStream {
    let (name, value) = (&column.name, column.value);
    let ty = match &column.column_type {
        Some(ty) => quote!(#ty),
        None => quote!(<#value as ::waxseal_table::ColumnValue>::column_type()),
    };
    match (column.key, &column.group) {
        (KeyPlace::Partition, _) => quote!(.partition_key(#name, #ty)),
        (KeyPlace::Clustering { is_descending: false }, _) => quote!(.clustering_key(#name, #ty)),
        (KeyPlace::Clustering { is_descending: true }, _) => quote!(.clustering_key_descending(#name, #ty)),
        (KeyPlace::None, Some(group)) => quote!(.column_in(#group, #name, #ty)),
        (KeyPlace::None, None) => quote!(.column(#name, #ty)),
    }
}

fn index(index: &IndexAttribute) -> TokenStream {
    let name = &index.name;
    let columns = index.columns.iter().map(|(column, is_descending)| match is_descending {
        true => quote!(.descending(#column)),
        false => quote!(.ascending(#column)),
    });
    let unique = index.is_unique.then(|| quote!(.unique()));
    quote!(.index(::waxseal_table::Index::on(#name, [""; 0]) #(#columns)* #unique))
}

/// Returns the statement that sets a column of the row.
fn set(column: &ColumnField<'_>) -> TokenStream {
    let (name, field, declared) = (&column.name, column.field, column.declared);
    let value = quote!(<#declared as ::waxseal_table::ColumnValue>::into_value(self.#field));
    match &column.column_type {
        Some(ty) => quote!(row.set(#name, ::waxseal_table::derive_support::of_type(#value, &#ty));),
        None => quote!(row.set(#name, #value);),
    }
}

/// Returns the expression that reads a field.
fn read(column: &ColumnField<'_>) -> TokenStream {
    let (name, field, declared) = (&column.name, column.field, column.declared);
    quote!(#field: ::waxseal_table::derive_support::field::<#declared>(row, #name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        let input = syn::parse_str(text).unwrap();
        row(&input).map_or_else(|error| error.to_string(), |tokens| tokens.to_string())
    }

    #[test]
    fn errors_tell_what_is_wrong() {
        for (item, message) in [
            ("enum A { B }", "a row is a struct with named fields"),
            ("struct A(i32);", "a row is a struct with named fields"),
            ("struct A<T> { #[column(partition_key)] a: T }", "a row has no type parameters and no lifetimes"),
            ("struct A { a: i32 }", "a row has a field with #[column(partition_key)]"),
            (
                "struct A { #[column(partition_key)] a: Option<i32> }",
                "a column of the key is never null: it is no Option",
            ),
            (
                "struct A { #[column(partition_key, clustering_key)] a: i32 }",
                "a column is of the partition key or a clustering column, not both",
            ),
            ("struct A { #[column(partition_key, descending)] a: i32 }", "descending is for a clustering_key"),
            ("struct A { #[column(partition_key, group = \"g\")] a: i32 }", "a column of the key is in no group"),
            (
                "struct A { #[column(partition_key)] a: i32, #[column(name = \"a\")] b: i32 }",
                "two columns have the name \"a\"",
            ),
            ("struct A { #[column(type = \"date\")] a: i64 }", "a date is an i32: days since 1970"),
            ("struct A { #[column(type = \"timestamp\")] a: i32 }", "a timestamp is an i64: microseconds since 1970"),
            ("struct A { #[column(type = \"json\")] a: i32 }", "a JSON document is a String"),
            ("struct A { #[column(type = \"decimal(9, 2)\")] a: f64 }", "a decimal is a waxseal_table::Decimal"),
            (
                "struct A { #[column(partition_key)] a: Option<Decimal> }",
                "a column of the key is never null: it is no Option",
            ),
            (
                "struct A { a: Option<waxseal_table::Decimal> }",
                "a decimal has its digits in an attribute: #[column(type = \"decimal(9, 2)\")]",
            ),
            ("#[row(index = \"by_b=b\")] struct A { #[column(partition_key)] a: i32 }", "no field is the column \"b\""),
            ("#[row(index = \"a\")] struct A { a: i32 }", "an index is written \"by_author=author,year:desc\""),
        ] {
            assert_eq!(fault(item), message, "{item}");
        }
        for (item, beginning) in [
            ("struct A { #[column(key)] a: i32 }", "one of partition_key, clustering_key, "),
            ("#[row(sorted)] struct A { a: i32 }", "one of hashed, index"),
            ("struct A { #[column(type = \"decimal(2, 3)\")] a: Decimal }", "one of \"date\", \"timestamp\""),
        ] {
            assert!(fault(item).starts_with(beginning), "{}", fault(item));
        }
    }
}
