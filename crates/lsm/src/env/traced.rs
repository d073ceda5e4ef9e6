//! A transcript of every operation of another file system.
