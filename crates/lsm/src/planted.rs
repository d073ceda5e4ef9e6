//! Planted bugs: wrong turns that the suite must find, one at a time, chosen at run time.
//!
//! Only in builds with the feature `planted`; elsewhere `active` is the constant `false` and nothing remains of them.

/// A wrong turn somewhere in the engine. Each is asked for at one place in the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the sentences")]
pub enum Bug {
    // Found by the tests of the layer above, where stamps are kept.
    StampNotChecked = 1,
    StampDroppedInCompaction,
    RekeyForgotten,
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
    // Found by the engine's own.
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
    HealedBlockNotConfirmed,
    SealNotBoundAfterReplay,
    AdoptionUnmarked,
    AdoptionInCompleteFile,
    LossNotFencedByRepair,
    RulesNotCompared,
    KeyBoundToAnotherOperation,
    EmittedRowsShownLate,
    EventsLostWithTheirFamily,
    RulesStayWhenAFamilyGoes,
    MarkOfADropStays,
    RecoveryLooksPastItsTables,
    SystemFamilyWritable,
    RetainedVersionDropped,
    VersionBelowRetainedDropped,
    RetainingTombstoneDropped,
    HeldTombstoneDropped,
    LineInOtherEdit,
    LinesLostAtRotation,
    LinesGoneBeforeRows,
    PointerBeforeValueSync,
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
    // Found by the engine's own in builds with zstd.
    DictionaryOfAnotherTable,
    DictionaryNotChecked,
    ReplayKeepsItsMemtable,
    SourceNotSoughtAgain,
    AimOutlivesItsSeek,
    AlonePassesOthers,
    AloneMarkedBeforeStored,
    TimesNotCompared,
    LeafTailLeftUnsorted,
    SameHalvesNotCompared,
    PanickedPlanKept,
    PanickedCommitForgotten,
    PanickedOperationStays,
}

impl Bug {
    /// Every planted bug that the engine's own suite finds.
    pub const ALL: [Bug; 88] = [
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
        Bug::HealedBlockNotConfirmed,
        Bug::SealNotBoundAfterReplay,
        Bug::AdoptionUnmarked,
        Bug::AdoptionInCompleteFile,
        Bug::LossNotFencedByRepair,
        Bug::RulesNotCompared,
        Bug::KeyBoundToAnotherOperation,
        Bug::EmittedRowsShownLate,
        Bug::EventsLostWithTheirFamily,
        Bug::RulesStayWhenAFamilyGoes,
        Bug::MarkOfADropStays,
        Bug::RecoveryLooksPastItsTables,
        Bug::SystemFamilyWritable,
        Bug::RetainedVersionDropped,
        Bug::VersionBelowRetainedDropped,
        Bug::RetainingTombstoneDropped,
        Bug::HeldTombstoneDropped,
        Bug::LineInOtherEdit,
        Bug::LinesLostAtRotation,
        Bug::LinesGoneBeforeRows,
        Bug::PointerBeforeValueSync,
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
    ];

    /// Those that only the sweeps of the log find, where frames are ordered and copied apart.
    pub const OF_LOG: [Bug; 1] = [Bug::AlonePassesOthers];

    /// Those that the engine's own suite finds in builds with zstd.
    pub const OF_ZSTD: [Bug; 2] = [Bug::DictionaryOfAnotherTable, Bug::DictionaryNotChecked];

    /// Those that the tests of the layer above find, where stamps are kept.
    pub const OF_STAMPS: [Bug; 3] = [Bug::StampNotChecked, Bug::StampDroppedInCompaction, Bug::RekeyForgotten];

    /// Those that the tests of registry and log find.
    pub const OF_REGISTRY: [Bug; 21] = [
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
    ];
}

#[cfg(feature = "planted")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Plants one bug in this process, or none.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.store(bug.map_or(0, |bug| bug as u8), std::sync::atomic::Ordering::SeqCst);
}

/// True if this wrong turn is to be taken.
#[cfg(feature = "planted")]
pub fn active(bug: Bug) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::Relaxed) == bug as u8
}

/// True if this wrong turn is to be taken: never, in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn active(_bug: Bug) -> bool {
    false
}
