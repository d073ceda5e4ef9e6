//! Queries over tables in memory.

mod answers;
mod faults;
mod pushdown;
mod snapshot;
mod store;
