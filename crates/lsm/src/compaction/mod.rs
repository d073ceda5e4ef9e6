//! Compaction: what to merge, what to drop, where to cut.
