//! The columns that a read decodes.

use std::collections::HashSet;

/// The columns that a read decodes.
pub(crate) struct Selection {
    /// By the index of the column in the schema.
    pub(crate) columns: Vec<bool>,
    pub(crate) wants_key: bool,
    /// True if columns of other records than that of group 0 are wanted.
    pub(crate) is_beyond_default: bool,
    /// The dynamic columns and repeated groups; `None` for all of them.
    pub(crate) names: Option<HashSet<String>>,
}

impl Selection {
    /// Returns true if the column at this index of the schema is wanted.
    pub(crate) fn wants(&self, index: usize) -> bool {
        self.columns[index]
    }

    /// Returns true if a dynamic column, or the entries of a repeated group, are wanted.
    pub(crate) fn wants_name(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(name))
    }
}
