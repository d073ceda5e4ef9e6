//! The store as its users meet it: opening, closing, what is refused, space that runs out, threads, golden scripts, and a
//! reader that shares nothing with the engine. Crashes at every step are the business of the simulation.

mod at_once;
mod closing;
mod damage;
mod directories;
mod expiring;
mod footprint;
mod gate;
mod integrity;
mod jobs;
mod keeper;
mod limits;
mod lost;
mod moved;
mod opening;
mod panics;
mod read_only;
mod reader;
mod replace;
mod rules;
#[path = "../simulation/watched.rs"]
mod scribe;
mod scripts;
mod settled;
mod space;
mod support;
mod sync;
mod tables;
mod threads;
mod values;
mod watched;
