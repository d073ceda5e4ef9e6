//! Files in memory, for stores without a disk.
