//! The log: a tail ring, segments, marks, group commit, recovery.
