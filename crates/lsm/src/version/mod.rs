//! Pictures of the levels, the edits between them, and the manifest that keeps them.
