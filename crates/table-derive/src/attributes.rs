//! The attributes of a struct and of its fields.

use syn::meta::ParseNestedMeta;
use syn::{Attribute, LitStr, Result};

/// `#[row(..)]`.
#[derive(Default)]
pub(crate) struct RowAttributes {
    pub(crate) is_hashed: bool,
    pub(crate) indexes: Vec<IndexAttribute>,
}

/// An index, written `by_author=author,year:desc`.
pub(crate) struct IndexAttribute {
    pub(crate) literal: LitStr,
    pub(crate) is_unique: bool,
    pub(crate) name: String,
    /// Columns, and whether they are descending.
    pub(crate) columns: Vec<(String, bool)>,
}

/// `#[column(..)]`.
#[derive(Default)]
pub(crate) struct ColumnAttributes {
    pub(crate) is_partition_key: bool,
    pub(crate) is_clustering_key: bool,
    pub(crate) is_descending: bool,
    pub(crate) name: Option<LitStr>,
    pub(crate) group: Option<LitStr>,
    pub(crate) ty: Option<LitStr>,
}

impl RowAttributes {
    pub(crate) fn read(attributes: &[Attribute]) -> Result<RowAttributes> {
        let mut read = RowAttributes::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("row")) {
            attribute.parse_nested_meta(|meta| read.take(&meta))?;
        }
        Ok(read)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        match () {
            () if meta.path.is_ident("hashed") => self.is_hashed = true,
            () if meta.path.is_ident("index") => self.indexes.push(index(meta.value()?.parse()?, false)?),
            () if meta.path.is_ident("unique_index") => self.indexes.push(index(meta.value()?.parse()?, true)?),
            () => return Err(meta.error("one of hashed, index = \"..\", unique_index = \"..\" is expected")),
        }
        Ok(())
    }
}

fn index(literal: LitStr, is_unique: bool) -> Result<IndexAttribute> {
    let text = literal.value();
    let Some((name, columns)) = text.split_once('=') else {
        return Err(syn::Error::new(literal.span(), "an index is written \"by_author=author,year:desc\""));
    };
    let column = |column: &str| match column.trim().strip_suffix(":desc") {
        Some(column) => (column.to_owned(), true),
        None => (column.trim().to_owned(), false),
    };
    let columns = columns.split(',').map(column).collect();
    Ok(IndexAttribute { name: name.trim().to_owned(), columns, is_unique, literal })
}

impl ColumnAttributes {
    pub(crate) fn read(attributes: &[Attribute]) -> Result<ColumnAttributes> {
        let mut read = ColumnAttributes::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("column")) {
            attribute.parse_nested_meta(|meta| read.take(&meta))?;
        }
        Ok(read)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        match () {
            () if meta.path.is_ident("partition_key") => self.is_partition_key = true,
            () if meta.path.is_ident("clustering_key") => self.is_clustering_key = true,
            () if meta.path.is_ident("descending") => self.is_descending = true,
            () if meta.path.is_ident("name") => self.name = Some(meta.value()?.parse()?),
            () if meta.path.is_ident("group") => self.group = Some(meta.value()?.parse()?),
            () if meta.path.is_ident("type") => self.ty = Some(meta.value()?.parse()?),
            () => {
                return Err(meta.error(
                    "one of partition_key, clustering_key, descending, name = \"..\", group = \"..\", type = \"..\" is \
                     expected",
                ));
            }
        }
        Ok(())
    }
}
