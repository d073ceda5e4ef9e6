//! The implementation that the macro writes.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
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
    let (values, reads, checks) = (columns.iter().map(value), columns.iter().map(read), columns.iter().map(check));
    Ok(quote! {
        #(#checks)*

        #[automatically_derived]
        impl ::waxseal_table::TypedRow for #own {
            fn schema() -> ::waxseal_table::Schema {
                ::waxseal_table::Schema::new() #hashed #(#declared)* #(#indexes)*
            }

            fn into_row(self) -> ::waxseal_table::Row {
                ::waxseal_table::derive_support::row([#(#values),*])
            }

            fn from_row(row: &::waxseal_table::Row) -> ::waxseal_table::Result<Self> {
                let mut fields = ::waxseal_table::derive_support::Fields::of(row);
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
    let (name, declared) = (&column.name, column.declared);
    let ty = match &column.column_type {
        Some(named) => named.column_type.clone(),
        None => quote!(<#declared as ::waxseal_table::ColumnValue>::column_type()),
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

/// Returns the checks of the type of a field, which fail when they are compiled.
fn check(column: &ColumnField<'_>) -> TokenStream {
    let declared = column.declared;
    let of_type = match &column.column_type {
        Some(named) => named.check.clone(),
        None => quote!(check_plain),
    };
    let of_place = match column.key {
        KeyPlace::None => quote!(check_column),
        KeyPlace::Partition | KeyPlace::Clustering { .. } => quote!(check_key),
    };
    quote_spanned! { declared.span() =>
        const _: () = ::waxseal_table::derive_support::#of_place::<#declared>();
        const _: () = ::waxseal_table::derive_support::#of_type::<#declared>();
    }
}

/// Returns the expression of a column of the row: name and value.
fn value(column: &ColumnField<'_>) -> TokenStream {
    let (name, field, declared) = (&column.name, column.field, column.declared);
    let value = quote!(<#declared as ::waxseal_table::ColumnValue>::into_value(self.#field));
    match &column.column_type {
        Some(named) => {
            let ty = &named.column_type;
            quote!((#name, ::waxseal_table::derive_support::of_type(#value, &#ty)))
        }
        None => quote!((#name, #value)),
    }
}

/// Returns the expression that reads a field.
fn read(column: &ColumnField<'_>) -> TokenStream {
    let (name, field, declared) = (&column.name, column.field, column.declared);
    quote!(#field: fields.next::<#declared>(#name)?)
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
                "struct A { #[column(partition_key, type = \"json\")] a: String }",
                "a column of the key is no JSON document",
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
