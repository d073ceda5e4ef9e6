//! Planted bugs: deliberate bugs that the test suite must find, selected one at a time at run time.
//!
//! Only in builds with the feature `planted`. In other builds `planted!` leaves the right code alone, so that
//! production code has one meaning.

/// A deliberate bug in the engine. The code tests each bug at one place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the sentences")]
pub enum Bug {
    // Found by the tests of the layer above, which stores stamps.
    StampNotChecked = 1,
    StampDroppedInCompaction,
    RekeyForgotten,
    // Found by the tests of salvage in a directory with files of several stores.
    SalvageTakesAnotherStore,
    // Found by the tests of registry and log.
    RegistrationSeenLate,
    TurnNotHeld,
    RowOfAnotherOperation,
    LatestForgetsMemory,
    DeletedEventBornAgain,
    FamilyMadeAnewNotWatched,
    SessionRowLate,
    ClockForgetsRestart,
    OldValueOfOwnBatchMissed,
    QuarantineNotTold,
    QuarantineNotMadeUp,
    SessionNumberGivenAgain,
    QuarantineTrustedWithoutItsRows,
    DamagedSessionStopsFlush,
    HiddenValueExpires,
    OldValueReadTooEarly,
    OldValueBeyondItsTime,
    WaitingRowsForgotten,
    RoomOfRefusedWriteKept,
    AnswerOutlivesItsRules,
    DropOvertaken,
    UsersEventTakenForEngines,
    LiveTablesEventsExpire,
    // Found by the tests of the log alone (`log_planted`).
    SegmentNotNamed,
    BehindLongerKept,
    SealedBeforeSync,
    RetiredBeforeDrained,
    // Found by the engine's own tests.
    AcknowledgeBeforeFsync,
    EditBeforeTableSync,
    EditBeforeDirectorySync,
    TombstoneDroppedEarly,
    RecycledFrameReplayed,
    SnapshotIgnoredByCompaction,
    CurrentBeforeManifestSync,
    LogNotSyncedBeforeEdit,
    OlderSegmentNotSynced,
    SyncBeforeDrain,
    FsyncFailureForgotten,
    SegmentRecycledEarly,
    RecoveryRecyclesBeforeEdit,
    BatchTornApart,
    FilterSaysNo,
    PrefixFilterSaysNo,
    LevelOutOfOrder,
    BlockCrcIgnored,
    FrozenMemtableSkipped,
    TornTailNotReported,
    RingOverwritten,
    MarkBeforeFrame,
    FlushedSeqnoTooHigh,
    ReverseCursorSkipsVersion,
    FenceForgottenAfterReopen,
    BarForgotten,
    MissingSealAccepted,
    LedgerIgnored,
    TombstoneDroppedUnderFence,
    FlushNotRedone,
    EmittedRowsInOtherEdit,
    SealRecomputedInCompaction,
    OlderVersionServedForDamaged,
    OlderVersionShownUnderFence,
    AbsenceNotProved,
    CachedBlockNotVerified,
    MissNeighborNotVerified,
    WarmedIntoNextSlot,
    HealedBlockNotConfirmed,
    SealNotBoundAfterReplay,
    AdoptionUnmarked,
    AdoptionInCompleteFile,
    LossNotFencedByRepair,
    RulesNotCompared,
    ConditionNotCompared,
    TransactionReadNotValidated,
    TransactionRangeNotValidated,
    KeyBoundToAnotherOperation,
    EmittedRowsShownLate,
    EventsLostWithTheirFamily,
    RulesStayWhenAFamilyGoes,
    MarkOfADropStays,
    RecoveryLooksPastItsTables,
    SystemFamilyWritable,
    RetainedVersionDropped,
    VersionBelowRetainedDropped,
    ChainBelowRetainedDropped,
    OperandsFoldedAcrossSnapshot,
    MergeSealNotVerified,
    OperandsFoldedIntoExpiring,
    RetainingTombstoneDropped,
    HeldTombstoneDropped,
    LineInOtherEdit,
    LinesLostAtRotation,
    LinesGoneBeforeRows,
    PointerBeforeValueSync,
    ZerosOverFrames,
    LogSyncedBeforeItsValues,
    FrameWithoutItsValues,
    NameOfValuesNotSynced,
    ValuesGoneUnderMemtable,
    PointerCheckIgnored,
    ValueNotChecked,
    ValueOfAnotherKey,
    ValuesGoneUnderSnapshot,
    ValueRefForgotten,
    TablePutBackForgetsItsLife,
    LevelBoundLeftOut,
    DividedLeafLosesItsMiddle,
    LeafLinkForgotten,
    MemtableFilterForgetsTombstones,
    NewestVersionInLeafPassedOver,
    DeletedLeafGrewUnseen,
    RangeDeleteForgottenByReads,
    RangeDeleteForgottenByCursors,
    RangeDeleteForgottenAtFlush,
    RangeDeleteRetiredEarly,
    RangeDeleteIgnoresSnapshots,
    IngestNotOrdered,
    IngestBelowRangeDelete,
    IngestSourceRemovedEarly,
    // Found by the crash sweeps of the change feed.
    FeedReadsUnsynced,
    FeedFramesNotCopied,
    FeedValuesForgotten,
    FeedIgnoresCursors,
    FeedMarkForgotten,
    FeedHistoryGoesOn,
    FeedSegmentRecycled,
    // Found by the crash sweeps of backups.
    BackupFileNotSynced,
    BackupDescribedEarly,
    BackupSourceNotChecked,
    PurgeForgetsSharedFiles,
    PurgeRemovesFilesFirst,
    RestoreNotChecked,
    TableDroppedWithNewerRecords,
    DeletedLeafIgnoresItsSeqno,
    DeletedLeafIgnoresItsRival,
    MarksBelievedAfterACrash,
    ScanOverrunsItsReach,
    ScanStepIgnoresItsSeqno,
    SwallowedSealTaken,
    PartTakesItsEnd,
    StreamKeepsTheColumnBefore,
    MovedValueKeepsItsPlace,
    CachedValueNotVerified,
    CachedValueOfAnotherPointer,
    PartOfItsNeighbour,
    FilterOfAnotherRange,
    DamagedPartDenies,
    FilterIgnoresSnapshots,
    FilterIgnoresLaterSnapshots,
    FilterIgnoresNewerVersions,
    FilteredUncoversOlder,
    FailedFilterDrops,
    FailedPropertyKept,
    ItemsOfValuesForgotten,
    // Found by the engine's own tests in builds with zstd.
    DictionaryOfAnotherTable,
    DictionaryNotChecked,
    ReplayKeepsItsMemtable,
    SourceNotSoughtAgain,
    AimOutlivesItsSeek,
    AlonePassesOthers,
    BlocksNotReserved,
    AloneMarkedBeforeStored,
    TimesNotCompared,
    LeafTailLeftUnsorted,
    SameHalvesNotCompared,
    PanickedPlanKept,
    PanickedCommitForgotten,
    PanickedOperationStays,
    LogTrimmedWhileNeeded,
    LogGoneBeforeEdit,
    RingNotSynced,
    // Found by the random walks over `expiring` stores.
    SnapshotReadsByTheClock,
    SnapshotTimeIgnored,
    ExpiryClockRunsBack,
    ExpiryClockForgetsRestart,
    ExpiredTableUncoversOlder,
    LiveRecordsGoWithTheirTable,
}

impl Bug {
    /// All planted bugs that the engine's own tests find.
    pub const ALL: [Bug; 126] = [
        Bug::AcknowledgeBeforeFsync,
        Bug::EditBeforeTableSync,
        Bug::EditBeforeDirectorySync,
        Bug::TombstoneDroppedEarly,
        Bug::RecycledFrameReplayed,
        Bug::SnapshotIgnoredByCompaction,
        Bug::CurrentBeforeManifestSync,
        Bug::LogNotSyncedBeforeEdit,
        Bug::OlderSegmentNotSynced,
        Bug::SyncBeforeDrain,
        Bug::FsyncFailureForgotten,
        Bug::SegmentRecycledEarly,
        Bug::RecoveryRecyclesBeforeEdit,
        Bug::BatchTornApart,
        Bug::FilterSaysNo,
        Bug::PrefixFilterSaysNo,
        Bug::LevelOutOfOrder,
        Bug::BlockCrcIgnored,
        Bug::FrozenMemtableSkipped,
        Bug::TornTailNotReported,
        Bug::RingOverwritten,
        Bug::MarkBeforeFrame,
        Bug::FlushedSeqnoTooHigh,
        Bug::ReverseCursorSkipsVersion,
        Bug::FenceForgottenAfterReopen,
        Bug::BarForgotten,
        Bug::MissingSealAccepted,
        Bug::LedgerIgnored,
        Bug::TombstoneDroppedUnderFence,
        Bug::FlushNotRedone,
        Bug::EmittedRowsInOtherEdit,
        Bug::SealRecomputedInCompaction,
        Bug::OlderVersionServedForDamaged,
        Bug::OlderVersionShownUnderFence,
        Bug::AbsenceNotProved,
        Bug::CachedBlockNotVerified,
        Bug::MissNeighborNotVerified,
        Bug::WarmedIntoNextSlot,
        Bug::HealedBlockNotConfirmed,
        Bug::SealNotBoundAfterReplay,
        Bug::AdoptionUnmarked,
        Bug::AdoptionInCompleteFile,
        Bug::LossNotFencedByRepair,
        Bug::RulesNotCompared,
        Bug::ConditionNotCompared,
        Bug::TransactionReadNotValidated,
        Bug::TransactionRangeNotValidated,
        Bug::KeyBoundToAnotherOperation,
        Bug::EmittedRowsShownLate,
        Bug::EventsLostWithTheirFamily,
        Bug::RulesStayWhenAFamilyGoes,
        Bug::MarkOfADropStays,
        Bug::RecoveryLooksPastItsTables,
        Bug::SystemFamilyWritable,
        Bug::RetainedVersionDropped,
        Bug::VersionBelowRetainedDropped,
        Bug::ChainBelowRetainedDropped,
        Bug::OperandsFoldedAcrossSnapshot,
        Bug::MergeSealNotVerified,
        Bug::OperandsFoldedIntoExpiring,
        Bug::RetainingTombstoneDropped,
        Bug::HeldTombstoneDropped,
        Bug::LineInOtherEdit,
        Bug::LinesLostAtRotation,
        Bug::LinesGoneBeforeRows,
        Bug::PointerBeforeValueSync,
        Bug::ZerosOverFrames,
        Bug::LogSyncedBeforeItsValues,
        Bug::FrameWithoutItsValues,
        Bug::NameOfValuesNotSynced,
        Bug::ValuesGoneUnderMemtable,
        Bug::PointerCheckIgnored,
        Bug::ValueNotChecked,
        Bug::ValueOfAnotherKey,
        Bug::ValuesGoneUnderSnapshot,
        Bug::ValueRefForgotten,
        Bug::TablePutBackForgetsItsLife,
        Bug::LevelBoundLeftOut,
        Bug::DividedLeafLosesItsMiddle,
        Bug::LeafLinkForgotten,
        Bug::MemtableFilterForgetsTombstones,
        Bug::NewestVersionInLeafPassedOver,
        Bug::DeletedLeafGrewUnseen,
        Bug::RangeDeleteForgottenByReads,
        Bug::RangeDeleteForgottenByCursors,
        Bug::RangeDeleteForgottenAtFlush,
        Bug::RangeDeleteRetiredEarly,
        Bug::RangeDeleteIgnoresSnapshots,
        Bug::IngestNotOrdered,
        Bug::IngestBelowRangeDelete,
        Bug::IngestSourceRemovedEarly,
        Bug::TableDroppedWithNewerRecords,
        Bug::DeletedLeafIgnoresItsSeqno,
        Bug::DeletedLeafIgnoresItsRival,
        Bug::MarksBelievedAfterACrash,
        Bug::ScanOverrunsItsReach,
        Bug::ScanStepIgnoresItsSeqno,
        Bug::SwallowedSealTaken,
        Bug::PartTakesItsEnd,
        Bug::StreamKeepsTheColumnBefore,
        Bug::MovedValueKeepsItsPlace,
        Bug::CachedValueNotVerified,
        Bug::CachedValueOfAnotherPointer,
        Bug::ReplayKeepsItsMemtable,
        Bug::SourceNotSoughtAgain,
        Bug::AimOutlivesItsSeek,
        Bug::AloneMarkedBeforeStored,
        Bug::TimesNotCompared,
        Bug::LeafTailLeftUnsorted,
        Bug::SameHalvesNotCompared,
        Bug::PanickedPlanKept,
        Bug::PanickedCommitForgotten,
        Bug::PanickedOperationStays,
        Bug::PartOfItsNeighbour,
        Bug::FilterOfAnotherRange,
        Bug::DamagedPartDenies,
        Bug::FilterIgnoresSnapshots,
        Bug::FilterIgnoresLaterSnapshots,
        Bug::FilterIgnoresNewerVersions,
        Bug::FilteredUncoversOlder,
        Bug::FailedFilterDrops,
        Bug::FailedPropertyKept,
        Bug::ItemsOfValuesForgotten,
        Bug::LogTrimmedWhileNeeded,
        Bug::LogGoneBeforeEdit,
        Bug::RingNotSynced,
    ];

    /// Bugs found by the log's exhaustive tests in which frames are ordered and copied separately, and no lane reserves
    /// blocks.
    pub const OF_LOG: [Bug; 2] = [Bug::AlonePassesOthers, Bug::BlocksNotReserved];

    /// Bugs found by the engine's own tests in builds with zstd.
    pub const OF_ZSTD: [Bug; 2] = [Bug::DictionaryOfAnotherTable, Bug::DictionaryNotChecked];

    /// Bugs found by the tests of the layer above, which stores stamps.
    pub const OF_STAMPS: [Bug; 3] = [Bug::StampNotChecked, Bug::StampDroppedInCompaction, Bug::RekeyForgotten];

    /// Bugs found by the tests of salvage in a directory with files of several stores.
    pub const OF_SALVAGE: [Bug; 1] = [Bug::SalvageTakesAnotherStore];

    /// Bugs found by the random walks over stores whose records expire.
    pub const OF_EXPIRY: [Bug; 6] = [
        Bug::SnapshotReadsByTheClock,
        Bug::SnapshotTimeIgnored,
        Bug::ExpiryClockRunsBack,
        Bug::ExpiryClockForgetsRestart,
        Bug::ExpiredTableUncoversOlder,
        Bug::LiveRecordsGoWithTheirTable,
    ];

    /// Bugs found by the crash sweeps of the change feed.
    pub const OF_FEED: [Bug; 7] = [
        Bug::FeedReadsUnsynced,
        Bug::FeedFramesNotCopied,
        Bug::FeedValuesForgotten,
        Bug::FeedIgnoresCursors,
        Bug::FeedMarkForgotten,
        Bug::FeedHistoryGoesOn,
        Bug::FeedSegmentRecycled,
    ];

    /// Bugs found by the crash sweeps of backups.
    pub const OF_BACKUP: [Bug; 6] = [
        Bug::BackupFileNotSynced,
        Bug::BackupDescribedEarly,
        Bug::BackupSourceNotChecked,
        Bug::PurgeForgetsSharedFiles,
        Bug::PurgeRemovesFilesFirst,
        Bug::RestoreNotChecked,
    ];

    /// Bugs found by the tests of registry and log.
    pub const OF_REGISTRY: [Bug; 23] = [
        Bug::RegistrationSeenLate,
        Bug::TurnNotHeld,
        Bug::RowOfAnotherOperation,
        Bug::LatestForgetsMemory,
        Bug::DeletedEventBornAgain,
        Bug::FamilyMadeAnewNotWatched,
        Bug::SessionRowLate,
        Bug::ClockForgetsRestart,
        Bug::OldValueOfOwnBatchMissed,
        Bug::QuarantineNotTold,
        Bug::QuarantineNotMadeUp,
        Bug::SessionNumberGivenAgain,
        Bug::QuarantineTrustedWithoutItsRows,
        Bug::DamagedSessionStopsFlush,
        Bug::HiddenValueExpires,
        Bug::OldValueReadTooEarly,
        Bug::OldValueBeyondItsTime,
        Bug::WaitingRowsForgotten,
        Bug::RoomOfRefusedWriteKept,
        Bug::AnswerOutlivesItsRules,
        Bug::DropOvertaken,
        Bug::UsersEventTakenForEngines,
        Bug::LiveTablesEventsExpire,
    ];
}

/// The point at which a planted bug acts. A build without the feature `planted` has only the right code: neither the
/// bug nor its condition is compiled.
///
/// ```ignore
/// planted!(ClockForgetsRestart => return);                  // wrong code in front of the right one
/// planted!(SnapshotIgnored => let snapshots = Vec::new());  // the same name with a wrong value
/// let is_over = planted!(ExpiryIgnored, false, end <= now); // wrong value, right value
/// ```
#[cfg(feature = "planted")]
#[macro_export]
macro_rules! planted {
    ($bug:ident => let $name:ident = $wrong:expr) => {
        let $name = if $crate::planted::active($crate::planted::Bug::$bug) { $wrong } else { $name };
    };
    ($bug:ident => $($wrong:tt)*) => {
        if $crate::planted::active($crate::planted::Bug::$bug) { $($wrong)* }
    };
    ($bug:ident, $wrong:expr, $right:expr) => {
        if $crate::planted::active($crate::planted::Bug::$bug) { $wrong } else { $right }
    };
}

/// The point at which a planted bug acts: in this build the right code.
#[cfg(not(feature = "planted"))]
#[macro_export]
macro_rules! planted {
    ($bug:ident => $($wrong:tt)*) => {};
    ($bug:ident, $wrong:expr, $right:expr) => {
        $right
    };
}

#[cfg(feature = "planted")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Activates one bug in this process, or none.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.store(bug.map_or(0, |bug| bug as u8), std::sync::atomic::Ordering::SeqCst);
}

/// Returns true if this bug is active.
#[cfg(feature = "planted")]
pub fn active(bug: Bug) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::Relaxed) == bug as u8
}
