//! Selects the codec for the tables of a level, and prevents moves between levels with different codecs.
//!
//! The first levels stay uncompressed: data leaves them soon. The bottom level, which holds most of the data and
//! receives the fewest writes, may have a codec of its own.

use super::plan::{BOTTOM, CompactionPlan, LevelShape, PlanAction};
use crate::options::{CfOptions, Compression};
use crate::version::LEVELS;

/// The levels that stay uncompressed.
const HOT_LEVELS: usize = 2;

/// Returns the compression of the tables of a level.
pub fn compression_at(options: &CfOptions, level: usize) -> Compression {
    match level {
        ..HOT_LEVELS => Compression::None,
        BOTTOM => options.bottom_compression.unwrap_or(options.compression),
        _ => options.compression,
    }
}

/// Returns the level shape that a family requests. Tables move freely between levels if all levels are compressed
/// alike.
pub fn level_shape(options: &CfOptions) -> LevelShape {
    LevelShape::new(options, if options.compression == Compression::None { LEVELS } else { HOT_LEVELS })
}

/// Returns the action of a plan. Tables are not moved to the bottom if its codec differs from that of the level above,
/// or uses a dictionary: they are rewritten instead.
pub fn action(options: &CfOptions, plan: &CompactionPlan) -> PlanAction {
    let bottom = compression_at(options, BOTTOM);
    let anew = bottom != options.compression || matches!(bottom, Compression::Zstd(_));
    if plan.output_level == BOTTOM && anew && plan.action == PlanAction::Move { PlanAction::Merge } else { plan.action }
}

#[cfg(test)]
mod tests {
    use super::super::plan::{OutputRange, Reason};
    use super::*;

    #[test]
    fn the_bottom_level_alone_has_a_codec_of_its_own() {
        let options = CfOptions {
            compression: Compression::Lz4,
            bottom_compression: Some(Compression::Zstd(3)),
            ..CfOptions::default()
        };
        let at = |level| compression_at(&options, level);
        assert_eq!([0, 1].map(at), [Compression::None; 2]);
        assert_eq!([2, BOTTOM - 1].map(at), [Compression::Lz4; 2]);
        assert_eq!(at(BOTTOM), Compression::Zstd(3));
        assert_eq!(compression_at(&CfOptions { bottom_compression: None, ..options }, BOTTOM), Compression::Lz4);
    }

    #[test]
    fn a_table_moves_to_the_bottom_only_if_it_would_be_written_the_same() {
        let moved = |compression, bottom_compression, output_level| {
            let span = OutputRange { level: output_level, smallest: Vec::new(), largest: Vec::new() };
            let plan = CompactionPlan {
                inputs: Vec::new(),
                output_level,
                action: PlanAction::Move,
                reason: Reason::Size,
                score: 0,
                span,
            };
            let options = CfOptions { compression, bottom_compression, ..CfOptions::default() };
            action(&options, &plan) == PlanAction::Move
        };
        let (none, lz4, zstd) = (Compression::None, Compression::Lz4, Compression::Zstd(3));
        assert!(moved(none, None, BOTTOM) && moved(none, Some(none), BOTTOM) && moved(lz4, None, BOTTOM));
        assert!(moved(none, Some(lz4), BOTTOM - 1) && moved(zstd, None, BOTTOM - 1));
        assert!(!moved(none, Some(lz4), BOTTOM) && !moved(zstd, None, BOTTOM) && !moved(lz4, Some(zstd), BOTTOM));
    }
}
