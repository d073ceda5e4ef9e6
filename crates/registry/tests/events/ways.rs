//! Single ways through registry and log, each with an end that is known.

pub(crate) fn all() {}
