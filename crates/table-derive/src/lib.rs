//! The derive macro of `waxseal-table`, which documents and exports it as `waxseal_table::Row`.

mod attributes;
mod columns;
mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `waxseal_table::TypedRow` for a struct with named fields, and `From` of the struct for `Row`.
#[proc_macro_derive(Row, attributes(row, column))]
pub fn derive_row(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::row(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
