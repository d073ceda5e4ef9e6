//! The options that a caller set, and nothing derived from them.

/// The options that a caller set. A ticket is 0 if its object was not set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) create_if_missing: bool,
    pub(crate) error_if_exists: bool,
    pub(crate) paranoid_checks: bool,
    pub(crate) has_logger: bool,
    pub(crate) comparator: usize,
    pub(crate) filter_policy: usize,
    pub(crate) env: usize,
    pub(crate) cache: usize,
    pub(crate) write_buffer_bytes: Option<usize>,
    pub(crate) max_open_files: Option<i32>,
    pub(crate) block_bytes: Option<usize>,
    pub(crate) restart_interval: Option<i32>,
    pub(crate) max_file_bytes: Option<usize>,
    pub(crate) compression: Option<i32>,
}
