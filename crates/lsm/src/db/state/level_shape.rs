//! The level shape of a family.

use crate::compaction::packing::HOT_LEVELS;
use crate::compaction::pick::LevelShape;
use crate::options::{CfOptions, Compression};
use crate::version::LEVELS;

/// Returns the level shape that a family requests. Tables move freely between levels if all levels are compressed
/// alike.
pub(in crate::db) fn shape(options: &CfOptions) -> LevelShape {
    LevelShape::new(options, if options.compression == Compression::None { LEVELS } else { HOT_LEVELS })
}
