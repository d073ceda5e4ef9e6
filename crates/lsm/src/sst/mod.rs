//! Table files: sealed blocks of records in internal order, an index, a filter.
