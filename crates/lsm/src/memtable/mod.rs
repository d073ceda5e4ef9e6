//! Memtables: the newest records of a family, in order, in memory.
