//! The experiments of the CassandraFS paper.
//!
//! ```text
//! figures  paper_layout  chunks  sizes       one experiment each
//!     \         |          |      /
//!      \      steps        |     /           what a client of the paper's benchmark does
//!       \       |          |    /
//!   library  network  literal  link          ways to reach a file system; a network link
//!        \      |       /
//!             face                           what a client can do
//! ```

pub(super) mod chunks;
mod face;
pub(super) mod figures;
mod library;
mod link;
mod literal;
#[cfg(feature = "http")]
mod network;
pub(super) mod paper_layout;
pub(super) mod sizes;
mod steps;
