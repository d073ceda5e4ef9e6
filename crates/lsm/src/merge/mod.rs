//! Many cursors as one.
