//! The database: open, commit, read, background work.
