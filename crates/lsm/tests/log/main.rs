//! The log as a whole: crashes at every step, damage, many threads, and the order of its I/O.

mod crash;
mod damage;
mod driver;
mod threads;
