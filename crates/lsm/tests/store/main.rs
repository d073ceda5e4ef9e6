//! The store from a user's point of view: opening, closing, rejected calls, full disks, threads, golden scripts, and an
//! independent reader of the file format. The simulation tests crashes at every step.

mod at_once;
mod backup;
mod changes;
mod changes_format;
mod closing;
mod damage;
mod deleted_runs;
mod directories;
mod epoch;
mod erasure;
mod file_mode;
mod footprint;
mod integrity;
mod jobs;
mod limits;
mod lost;
mod moved;
mod opening;
mod optimistic;
mod options;
mod panics;
mod pause;
mod prefixes;
mod read_only;
mod reader;
mod replace;
mod scripts;
mod settled;
mod space;
mod sync;
mod tables;
mod threads;
mod values;
mod watched;
