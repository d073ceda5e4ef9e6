/* Waxseal: an embeddable storage engine that never gives a wrong answer, never hides a loss, and is fast.
 *
 * Generated from crates/ffi/src by `cargo xtask header`: do not edit.
 *
 * STATUS. Every function that can fail returns a status: WAXSEAL_OK (0), a positive result that is no failure
 * (WAXSEAL_NOT_FOUND, WAXSEAL_TOO_SMALL, WAXSEAL_NOT_RESIDENT), or a negative failure. The last argument, `error`, may
 * be null. Otherwise *error must be null or an error object. On failure, and only then, *error is set to a new error
 * object, and an error object that it held before is destroyed. Read an error object with waxseal_error_.. and destroy
 * it with waxseal_error_destroy. One variable, null at first, serves any number of calls.
 *
 * OUTPUTS are written only by a call that returns WAXSEAL_OK, unless the function's page states otherwise.
 *
 * HANDLES (pointers to opaque types) are created and destroyed by functions of the library, which never dereferences
 * them. Null or a pointer of another kind returns WAXSEAL_INVALID. A handle that was destroyed returns WAXSEAL_CLOSED,
 * from any thread, also if two threads destroy it at the same time. The caller destroys every handle, in any order.
 *
 * BYTES are a pointer and a length, as input and as output. Null with length 0 is empty; null with another length
 * returns WAXSEAL_INVALID. Inputs are read only during the call. Names and texts are UTF-8; paths are the system's bytes.
 *
 * THREADS. Stores, families, snapshots and results may be used by several threads at a time. Options, batches,
 * transactions and iterators may be used by one thread at a time; a second one gets WAXSEAL_BUSY. After a fork every
 * call in the child returns WAXSEAL_INVALID.
 *
 * CALLBACKS run on any thread that needs them and must not unwind (throw, longjmp) into the library. Inside a callback
 * every call on the store that runs it returns WAXSEAL_INVALID; other stores may be used. A callback fails by returning
 * a negative status, and states the reason with waxseal_error_create, whose object the library destroys. The call that
 * ran the callback then returns WAXSEAL_CALLBACK with that reason. The function of waxseal_transact is no such callback:
 * it calls the store, and its status and message are returned unchanged.
 */


#ifndef WAXSEAL_H
#define WAXSEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The Arrow C data interface and the Arrow C stream interface, word for word. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
    /* Array type description */
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;

    /* Release callback */
    void (*release)(struct ArrowSchema *);
    /* Opaque producer-specific data */
    void *private_data;
};

struct ArrowArray {
    /* Array data description */
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;

    /* Release callback */
    void (*release)(struct ArrowArray *);
    /* Opaque producer-specific data */
    void *private_data;
};

#endif /* ARROW_C_DATA_INTERFACE */

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
    /* Callbacks providing stream functionality */
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);

    /* Release callback */
    void (*release)(struct ArrowArrayStream *);
    /* Opaque producer-specific data */
    void *private_data;
};

#endif /* ARROW_C_STREAM_INTERFACE */


/**
 * Success.
 */
#define WAXSEAL_OK 0

/**
 * The key, entry or list element does not exist, or the iterator is not positioned. Not a failure: outputs and error
 * are untouched.
 */
#define WAXSEAL_NOT_FOUND 1

/**
 * The caller's buffer is too small. The required size was written, and nothing else. Not a failure: no error object is
 * created.
 */
#define WAXSEAL_TOO_SMALL 2

/**
 * The answer is not in memory, and the call must not read a file. Not a failure: nothing was written.
 */
#define WAXSEAL_NOT_RESIDENT 3

/**
 * Stored bytes are damaged. Repair, salvage or restore the store; undamaged data stays readable.
 */
#define WAXSEAL_CORRUPTION (-1)

/**
 * The operating system reported an error. Free space or fix the device, then retry.
 */
#define WAXSEAL_IO (-2)

/**
 * Another process, or another handle, has the store open.
 */
#define WAXSEAL_LOCKED (-3)

/**
 * The call is invalid; nothing was changed.
 */
#define WAXSEAL_INVALID (-4)

/**
 * Another commit came first; retry the transaction.
 */
#define WAXSEAL_CONFLICT (-5)

/**
 * The store was opened read-only.
 */
#define WAXSEAL_READ_ONLY (-6)

/**
 * An earlier fsync or write of the log failed. Reads still work; reopen the store to write.
 */
#define WAXSEAL_HALTED (-7)

/**
 * The store was written by a newer version.
 */
#define WAXSEAL_FORMAT_TOO_NEW (-8)

/**
 * The store was closed, or the handle was destroyed.
 */
#define WAXSEAL_CLOSED (-9)

/**
 * Another thread is using this object, which only one thread at a time may use, and nothing was changed. Or a snapshot,
 * a cursor or a file, which the message names, holds what the call would erase.
 */
#define WAXSEAL_BUSY (-10)

/**
 * Memory for the result cannot be allocated. Nothing was changed.
 */
#define WAXSEAL_OUT_OF_MEMORY (-11)

/**
 * A callback failed; the error carries the reason that it gave.
 */
#define WAXSEAL_CALLBACK (-12)

/**
 * The library detected a bug in itself: please report the message. The object that the call operated on is unusable
 * from now on.
 */
#define WAXSEAL_INTERNAL (-13)

/**
 * The thread's interrupt function stopped the call (`waxseal_set_interrupt`). Work that it had finished stays; the
 * call may be repeated.
 */
#define WAXSEAL_INTERRUPTED (-14)

/**
 * An operation on a path or an open file failed as POSIX names it: `waxseal_error_errno` returns the number.
 */
#define WAXSEAL_FILE (-15)

/**
 * The change feed cannot continue at the position: the log behind it is not kept any more, or it lies in a history that
 * was cut. The message names the oldest position. Copy the store again, and continue from there.
 */
#define WAXSEAL_OUT_OF_REACH (-16)

/**
 * No table, column, group or index has this name.
 */
#define WAXSEAL_NO_SUCH_NAME (-17)

/**
 * A table, column or index of this name exists, or a row of this key or of these unique values.
 */
#define WAXSEAL_EXISTS (-18)

/**
 * The error is not about damage.
 */
#define WAXSEAL_VERDICT_NONE 0

/**
 * The bytes cannot be decoded.
 */
#define WAXSEAL_VERDICT_STRUCTURAL 1

/**
 * A checksum does not match.
 */
#define WAXSEAL_VERDICT_CHECKSUM 2

/**
 * Required data is missing.
 */
#define WAXSEAL_VERDICT_MISSING 3

/**
 * The bytes are intact but belong elsewhere: to another file, an older copy, or another offset.
 */
#define WAXSEAL_VERDICT_MISPLACED 4

/**
 * A record does not match its seal.
 */
#define WAXSEAL_VERDICT_SEAL 5

/**
 * The engine itself lost, added or changed records.
 */
#define WAXSEAL_VERDICT_LEDGER 6

/**
 * A kind of damage that this library knows and this header does not.
 */
#define WAXSEAL_VERDICT_OTHER 7

/**
 * Version of this header. It grows with every addition; the number in the soname changes only when a declaration is
 * removed.
 */
#define WAXSEAL_ABI_VERSION 1

/**
 * The value stays.
 */
#define WAXSEAL_FILTER_KEEP 1

/**
 * The key is deleted.
 */
#define WAXSEAL_FILTER_DROP 2

/**
 * The key gets the value that the filter returns. It keeps its expiry, but no other annotation.
 */
#define WAXSEAL_FILTER_CHANGE 3

/**
 * A comparator returns this value if it cannot compare.
 */
#define WAXSEAL_COMPARE_FAILED INT32_MIN

/**
 * Seals are stored in a column if a codec compresses the block, otherwise after their records.
 */
#define WAXSEAL_SEALS_BY_CODEC 0

/**
 * Seals are always stored after their records.
 */
#define WAXSEAL_SEALS_FOLLOWING 1

/**
 * Seals are always stored in a column.
 */
#define WAXSEAL_SEALS_COLUMN 2

/**
 * Adds signed integers of 64 bits, 8 bytes in little-endian order; an absent key counts as 0, and the sum wraps around.
 */
#define WAXSEAL_MERGE_ADD_I64 0

/**
 * Adds unsigned integers of 64 bits, likewise.
 */
#define WAXSEAL_MERGE_ADD_U64 1

/**
 * Appends operands to the value, each after the separator.
 */
#define WAXSEAL_MERGE_APPEND 2

/**
 * Keeps the least of value and operands, compared as bytes.
 */
#define WAXSEAL_MERGE_MIN 3

/**
 * Keeps the greatest of value and operands, compared as bytes.
 */
#define WAXSEAL_MERGE_MAX 4

/**
 * Computes the bitwise or of value and operands; the shorter one counts as filled up with zero bytes at its end.
 */
#define WAXSEAL_MERGE_BIT_OR 5

/**
 * Computes the union of sets. A set is a list of its elements in ascending order of their bytes, without duplicates,
 * each preceded by its length as a varint (LEB128).
 */
#define WAXSEAL_MERGE_UNION 6

/**
 * The store's default: the durability set by `waxseal_options_set_durability`, or else `WAXSEAL_DURABILITY_OS`.
 */
#define WAXSEAL_DURABILITY_DEFAULT 0

/**
 * May be lost when the process dies. Never weaker than that, and today as strong as `WAXSEAL_DURABILITY_OS`.
 */
#define WAXSEAL_DURABILITY_BUFFERED 1

/**
 * Survives a crash of the process, but may be lost in a crash of the machine.
 */
#define WAXSEAL_DURABILITY_OS 2

/**
 * Never lost once the call has returned.
 */
#define WAXSEAL_DURABILITY_SYNC 3

/**
 * Blocks are stored uncompressed.
 */
#define WAXSEAL_COMPRESSION_NONE 0

/**
 * LZ4, the default.
 */
#define WAXSEAL_COMPRESSION_LZ4 1

/**
 * Zstandard at its usual level, with a dictionary at the bottom level. Only in libraries built with the feature
 * `zstd`; others refuse it.
 */
#define WAXSEAL_COMPRESSION_ZSTD 2

/**
 * Records are not checked against their seals. Block checksums are still verified when blocks are loaded.
 */
#define WAXSEAL_VERIFY_NEVER 0

/**
 * Checks all records of a block when it is loaded from its file.
 */
#define WAXSEAL_VERIFY_ON_FILL 1

/**
 * As `WAXSEAL_VERIFY_ON_FILL`, and also checks one in `one_in` of the records that are read.
 */
#define WAXSEAL_VERIFY_SAMPLED 2

/**
 * Checks every record that is read, and verifies absence when no record is found.
 */
#define WAXSEAL_VERIFY_ALWAYS 3

/**
 * A value of `waxseal_oldest_seqnos_t`: there is no record.
 */
#define WAXSEAL_NO_SEQNO UINT64_MAX

/**
 * The range has no bound at this end. The key is ignored.
 */
#define WAXSEAL_UNBOUNDED 0

/**
 * The range includes this key.
 */
#define WAXSEAL_INCLUDED 1

/**
 * The range excludes this key.
 */
#define WAXSEAL_EXCLUDED 2

/**
 * Changes that are durable: no crash takes back a change that the reader has returned.
 */
#define WAXSEAL_CHANGES_DURABLE 0

/**
 * All changes that reads of the store see. A position behind a commit that a crash of the machine takes back is refused
 * later.
 */
#define WAXSEAL_CHANGES_VISIBLE 1

/**
 * A key was set to a value.
 */
#define WAXSEAL_CHANGE_PUT 0

/**
 * A key was deleted.
 */
#define WAXSEAL_CHANGE_DELETE 1

/**
 * An operand was merged into the value of a key.
 */
#define WAXSEAL_CHANGE_MERGE 2

/**
 * All keys from `key` to `value`, which is excluded, were deleted. A null pointer is no bound.
 */
#define WAXSEAL_CHANGE_DELETE_RANGE 3

/**
 * The family was dropped.
 */
#define WAXSEAL_CHANGE_DROP_FAMILY 4

/**
 * The transaction takes effect as if it ran alone, at the moment of its commit: the commit fails if anything that it
 * read has changed since it began. Ranges count as far as they were read.
 */
#define WAXSEAL_ISOLATION_SERIALIZABLE 0

/**
 * The commit fails if a key that the transaction wrote, or read by `waxseal_transaction_get_for_update`, has changed
 * since it began. Two transactions that each read what the other one writes may both commit.
 */
#define WAXSEAL_ISOLATION_SNAPSHOT 1

/**
 * The entry was not checked: the seal covers it together with the value, and the value was not read.
 */
#define WAXSEAL_CHECKED_NOT 0

/**
 * The entry was checked by its own checksum.
 */
#define WAXSEAL_CHECKED_ITSELF 1

/**
 * The entry was checked by the seal of its record.
 */
#define WAXSEAL_CHECKED_SEALED 2

/**
 * Recovery replayed the log at open: `commits`; `bytes` were cut from its torn end.
 */
#define WAXSEAL_EVENT_RECOVERED 0

/**
 * A memtable was flushed to a table: `family`, `table` (0 if no record was left to write), `bytes`.
 */
#define WAXSEAL_EVENT_FLUSHED 1

/**
 * Tables were merged, or moved down a level without being read: `family`, `inputs`, `outputs`, `level`, `message` (the
 * reason), `flag` (true for a move).
 */
#define WAXSEAL_EVENT_COMPACTED 2

/**
 * Damage was detected: `file`, `offset`, `verdict`, `message`, and `family`, `from`, `to` if known.
 */
#define WAXSEAL_EVENT_CORRUPTION 3

/**
 * A damaged block was read correctly in the end: `file`, `offset`, `message` (the repair step that succeeded).
 */
#define WAXSEAL_EVENT_HEALED 4

/**
 * A damaged table is excluded from compaction until it is repaired: `family`, `table`.
 */
#define WAXSEAL_EVENT_BARRED 5

/**
 * Records were permanently lost, and reads in a key range return `WAXSEAL_CORRUPTION`: `family`, `from`, `to`, `file`,
 * `offset`, `verdict`.
 */
#define WAXSEAL_EVENT_FENCED 6

/**
 * Such a fence was lifted: members as of `WAXSEAL_EVENT_FENCED`.
 */
#define WAXSEAL_EVENT_LIFTED 7

/**
 * A background job failed: `message`, `flag` (true if the store refuses writes until it is reopened).
 */
#define WAXSEAL_EVENT_BACKGROUND_ERROR 8

/**
 * Writers are stalled (`flag` true), or no longer stalled.
 */
#define WAXSEAL_EVENT_STALLED 9

/**
 * A compaction filter failed or panicked: `family`, `message` (the first failure of a compaction), and `commits`, the
 * number of values for which it failed. They stay as they were.
 */
#define WAXSEAL_EVENT_FILTER_FAILED 11

/**
 * A snapshot or a cursor has been kept for more than an hour, and takes space: `message` (`snapshot` or `cursor`),
 * `nanos` (its age).
 */
#define WAXSEAL_EVENT_OLD_READER 12

/**
 * An event for which this header has no number: `message`.
 */
#define WAXSEAL_EVENT_OTHER 10

/**
 * Waxseal's own expiry provider: eight bytes, microseconds since 1970, little-endian.
 */
#define WAXSEAL_PROVIDER_EXPIRY 1

/**
 * Waxseal's own provenance provider: session and microseconds, two varints.
 */
#define WAXSEAL_PROVIDER_PROVENANCE 2

/**
 * Waxseal's own provider of statistics for extract-transform-load jobs.
 */
#define WAXSEAL_PROVIDER_ETL 3

/**
 * Waxseal's own labels provider.
 */
#define WAXSEAL_PROVIDER_LABELS 4

/**
 * A record with a value.
 */
#define WAXSEAL_KIND_PUT 1

/**
 * A tombstone.
 */
#define WAXSEAL_KIND_DELETE 2

/**
 * A merge operand; the record's value is the operand.
 */
#define WAXSEAL_KIND_MERGE 3

/**
 * A record of a kind for which this header has no number.
 */
#define WAXSEAL_KIND_OTHER 0

/**
 * Keep the entry unchanged, or keep it absent.
 */
#define WAXSEAL_ENTRY_KEEP 0

/**
 * A new entry was written.
 */
#define WAXSEAL_ENTRY_SET 1

/**
 * Remove the entry.
 */
#define WAXSEAL_ENTRY_REMOVE 2

/**
 * A newer record of the same key hides the record from every snapshot.
 */
#define WAXSEAL_DROP_SHADOWED 0

/**
 * The record is a tombstone with no older record left to hide.
 */
#define WAXSEAL_DROP_TOMBSTONE 1

/**
 * The record's key range was deleted.
 */
#define WAXSEAL_DROP_RANGE_DELETE 2

/**
 * The record has expired.
 */
#define WAXSEAL_DROP_EXPIRED 3

/**
 * The record's family or column was dropped.
 */
#define WAXSEAL_DROP_PURGED 4

/**
 * The record is a merge operand, or the value below operands, and a merged record replaces it.
 */
#define WAXSEAL_DROP_MERGED 5

/**
 * A compaction filter dropped or changed the record.
 */
#define WAXSEAL_DROP_FILTERED 6

/**
 * Fence the lost range: reads in it return `WAXSEAL_CORRUPTION`, the rest stays readable.
 */
#define WAXSEAL_DECISION_QUARANTINE 0

/**
 * Leave the table unchanged and exclude it from compaction.
 */
#define WAXSEAL_DECISION_FAIL 1

/**
 * As `WAXSEAL_DECISION_FAIL`, and the repair ends. The store refuses writes until it is reopened.
 */
#define WAXSEAL_DECISION_READ_ONLY 2

/**
 * The damage was reported; nothing was changed.
 */
#define WAXSEAL_OUTCOME_REPORTED 0

/**
 * The damage was repaired without loss.
 */
#define WAXSEAL_OUTCOME_REPAIRED 1

/**
 * The key range was fenced: reads in it return `WAXSEAL_CORRUPTION`.
 */
#define WAXSEAL_OUTCOME_FENCED 2

/**
 * The file was left unchanged and is excluded from compaction.
 */
#define WAXSEAL_OUTCOME_BARRED 3

/**
 * The loss was accepted: reads behave as if the records had never existed.
 */
#define WAXSEAL_OUTCOME_ACCEPTED 4

/**
 * An outcome for which this header has no number.
 */
#define WAXSEAL_OUTCOME_OTHER 5

/**
 * A salvage left the file alone: it is another store's.
 */
#define WAXSEAL_OUTCOME_LEFT_ALONE 6

/**
 * No repair step was tried, or none succeeded.
 */
#define WAXSEAL_RUNG_NONE 0

/**
 * The file was read again, bypassing the cache.
 */
#define WAXSEAL_RUNG_READ_AGAIN 1

/**
 * Another copy in memory was undamaged.
 */
#define WAXSEAL_RUNG_MEMORY 2

/**
 * One or two flipped bits were corrected with the block's checksum and its seals.
 */
#define WAXSEAL_RUNG_CORRECTION 3

/**
 * Index, filter and properties were rebuilt from the data.
 */
#define WAXSEAL_RUNG_REBUILD 4

/**
 * The records were recovered from the log.
 */
#define WAXSEAL_RUNG_LOG 5

/**
 * The records were recovered from tables that compaction had replaced.
 */
#define WAXSEAL_RUNG_TRASH 6

/**
 * The records were recovered from the caller's source.
 */
#define WAXSEAL_RUNG_SOURCE 7

/**
 * The caller's handler decided.
 */
#define WAXSEAL_RUNG_HANDLER 8

/**
 * A repair step for which this header has no number.
 */
#define WAXSEAL_RUNG_OTHER 9

/**
 * Exports no metadata. A record with an expiry time is refused, as by every policy without seals: the receiver would
 * keep it forever.
 */
#define WAXSEAL_POLICY_STRIP 0

/**
 * Exports seals with the annotations that they cover, such as expiry times, and the entries of allowed providers.
 * Export options without a policy use this one, and also allow labels.
 */
#define WAXSEAL_POLICY_COMPANION 1

/**
 * Exports the checksums of the MetaHive paper in a separate table: one tombstone per key, older than any record it
 * could hide.
 */
#define WAXSEAL_POLICY_PAPER_SAFE 2

/**
 * Exports the paper's rows, one per version, between the records. A row hides an older record of the receiver whose
 * key is the row's record key followed by byte 01.
 */
#define WAXSEAL_POLICY_PAPER_LITERAL 3

/**
 * The tables hold records only.
 */
#define WAXSEAL_FORM_PLAIN 0

/**
 * The tables also hold seals and other exported metadata.
 */
#define WAXSEAL_FORM_SEALED 1

/**
 * The tables also hold the paper's rows, one per key, which hide no record.
 */
#define WAXSEAL_FORM_PAPER_SAFE 2

/**
 * The tables also hold the paper's rows, one per version.
 */
#define WAXSEAL_FORM_PAPER_LITERAL 3

/**
 * May the session register an operation on a target, or unregister it?
 */
#define WAXSEAL_MAY_REGISTER 0

/**
 * May the session read the events of a target and its descendants?
 */
#define WAXSEAL_MAY_READ_LOG 1

/**
 * May the session delete these events?
 */
#define WAXSEAL_MAY_DELETE_LOG 2

/**
 * May the session add its own events?
 */
#define WAXSEAL_MAY_ADD_TO_LOG 3

/**
 * The default for the pair.
 */
#define WAXSEAL_SUITED (-1)

/**
 * The target alone.
 */
#define WAXSEAL_SCOPE_EXACT 0

/**
 * The target and all targets below it.
 */
#define WAXSEAL_SCOPE_SUBTREE 1

/**
 * The event is written in the commit of the operation itself.
 */
#define WAXSEAL_MODE_SYNC 0

/**
 * The event is written shortly after the commit, by a separate thread; a crash may lose some events.
 */
#define WAXSEAL_MODE_ASYNC 1

/**
 * The event is written when the records of the operation are flushed; until then queries read it from the memtable.
 */
#define WAXSEAL_MODE_DEFERRED 2

/**
 * Events store no values.
 */
#define WAXSEAL_VALUES_NONE 0

/**
 * Events store the new value.
 */
#define WAXSEAL_VALUES_NEW 1

/**
 * Events store the old and the new value.
 */
#define WAXSEAL_VALUES_OLD_NEW 2

/**
 * Events store the seals of the old and the new value.
 */
#define WAXSEAL_VALUES_HASH 3

/**
 * Unlimited retention.
 */
#define WAXSEAL_FOREVER UINT64_MAX

/**
 * A number: `numbers[0]`.
 */
#define WAXSEAL_FIELD_NUMBER 0

/**
 * UTF-8 text: `bytes`.
 */
#define WAXSEAL_FIELD_TEXT 1

/**
 * Any bytes: `bytes`.
 */
#define WAXSEAL_FIELD_BYTES 2

/**
 * A setting: name in `bytes`, value in `more`.
 */
#define WAXSEAL_FIELD_SETTING 3

/**
 * The value is absent.
 */
#define WAXSEAL_FIELD_ABSENT 4

/**
 * A complete value: `bytes`.
 */
#define WAXSEAL_FIELD_VALUE 5

/**
 * The seal of a value: 8 bytes in `bytes`, and as a number in `numbers[0]`.
 */
#define WAXSEAL_FIELD_SEAL 6

/**
 * A table file: uid in `bytes` (16 bytes), digest in `numbers[0]`, number of records in `numbers[1]`.
 */
#define WAXSEAL_FIELD_FILE 7

/**
 * A range of numbers: first in `numbers[0]`, last in `numbers[1]`.
 */
#define WAXSEAL_FIELD_SPAN 8

/**
 * A token range: keyspace in `bytes`, comma-separated replicas in `more`; first and last token, records, bytes and sum
 * in `numbers`.
 */
#define WAXSEAL_FIELD_TOKENS 9

/**
 * The options of a registration: as the store keeps them in `bytes`, in words in `more` (`subtree deferred values=new`); in `numbers` a
 * `WAXSEAL_SCOPE_..`, a `WAXSEAL_MODE_..`, a `WAXSEAL_VALUES_..`, 1 for history, and after how many microseconds events may be dropped,
 * or `WAXSEAL_FOREVER`. Options that this version cannot read are `WAXSEAL_FIELD_BYTES`.
 */
#define WAXSEAL_FIELD_OPTIONS 10

/**
 * The length of a field's array of numbers.
 */
#define WAXSEAL_FIELD_NUMBERS 5

/**
 * The key was not found.
 */
#define WAXSEAL_LIES_NOWHERE 0

/**
 * The key is in a memtable, and in the store's log.
 */
#define WAXSEAL_LIES_IN_MEMORY 1

/**
 * The key is in a table file.
 */
#define WAXSEAL_LIES_IN_TABLE 2

/**
 * A time before all others.
 */
#define WAXSEAL_TIME_FIRST 0

/**
 * A time after all others. As the time of an added event it means now.
 */
#define WAXSEAL_TIME_LAST UINT64_MAX

/**
 * The writer waits for room.
 */
#define WAXSEAL_WHEN_FULL_WAIT 0

/**
 * Events are written in the commit of their operation, as in mode sync.
 */
#define WAXSEAL_WHEN_FULL_SYNC 1

/**
 * Events are dropped and counted.
 */
#define WAXSEAL_WHEN_FULL_DROP 2

/**
 * The case concerns a table file, identified by the number in its name.
 */
#define WAXSEAL_CASE_TABLE 1

/**
 * The case concerns a key range, identified by the number of its fence.
 */
#define WAXSEAL_CASE_SPAN 2

/**
 * The keys of a scan, as column `key`.
 */
#define WAXSEAL_COLUMN_KEY 1

/**
 * The values, as column `value`.
 */
#define WAXSEAL_COLUMN_VALUE 2

/**
 * The sequence numbers of the records, as column `seqno`; 0 once no snapshot needs them.
 */
#define WAXSEAL_COLUMN_SEQNO 4

/**
 * The seals of the records as little-endian numbers, as column `seal`; null if a record has none.
 */
#define WAXSEAL_COLUMN_SEAL 8

/**
 * All columns.
 */
#define WAXSEAL_COLUMN_ALL 15

/**
 * A regular file.
 */
#define WAXSEAL_FILE_KIND_FILE 1

/**
 * A directory.
 */
#define WAXSEAL_FILE_KIND_DIRECTORY 2

/**
 * A symbolic link.
 */
#define WAXSEAL_FILE_KIND_LINK 3

/**
 * A named pipe.
 */
#define WAXSEAL_FILE_KIND_FIFO 4

/**
 * A socket.
 */
#define WAXSEAL_FILE_KIND_SOCKET 5

/**
 * `waxseal_file_attributes_t` has a mode.
 */
#define WAXSEAL_FILE_SET_MODE 1

/**
 * `waxseal_file_attributes_t` has an owner.
 */
#define WAXSEAL_FILE_SET_UID 2

/**
 * `waxseal_file_attributes_t` has a group.
 */
#define WAXSEAL_FILE_SET_GID 4

/**
 * `waxseal_file_attributes_t` has a time of the last change.
 */
#define WAXSEAL_FILE_SET_MTIME 8

/**
 * Replaces a file by a file, and an empty directory by a directory.
 */
#define WAXSEAL_RENAME_REPLACE 0

/**
 * Fails with `EEXIST` if the new path exists.
 */
#define WAXSEAL_RENAME_NO_REPLACE 1

/**
 * Swaps both entries, which must exist.
 */
#define WAXSEAL_RENAME_EXCHANGE 2

/**
 * Creates or replaces the extended attribute.
 */
#define WAXSEAL_XATTR_SET 0

/**
 * Fails with `EEXIST` if the extended attribute exists.
 */
#define WAXSEAL_XATTR_CREATE 1

/**
 * Fails with `ENODATA` if the extended attribute does not exist.
 */
#define WAXSEAL_XATTR_REPLACE 2

/**
 * No condition.
 */
#define WAXSEAL_IF_ALWAYS 0

/**
 * The path does not exist.
 */
#define WAXSEAL_IF_ABSENT 1

/**
 * The path exists.
 */
#define WAXSEAL_IF_EXISTS 2

/**
 * The file has the content of the entity tag.
 */
#define WAXSEAL_IF_MATCHES 3

/**
 * The file has another content, or does not exist.
 */
#define WAXSEAL_IF_DIFFERS 4

/**
 * Allows reads.
 */
#define WAXSEAL_FILE_READ 1

/**
 * Allows writes.
 */
#define WAXSEAL_FILE_WRITE 2

/**
 * Allows writes, all at the end of the file.
 */
#define WAXSEAL_FILE_APPEND 4

/**
 * Removes the content of an existing file.
 */
#define WAXSEAL_FILE_TRUNCATE 8

/**
 * Creates the file if it does not exist.
 */
#define WAXSEAL_FILE_CREATE 16

/**
 * Creates the file, and fails with `EEXIST` if it exists.
 */
#define WAXSEAL_FILE_CREATE_NEW 32

/**
 * The column is a value.
 */
#define WAXSEAL_ROLE_VALUE 0

/**
 * The column is a part of the partition key.
 */
#define WAXSEAL_ROLE_PARTITION 1

/**
 * The column is a part of the key within the partition, in ascending order.
 */
#define WAXSEAL_ROLE_CLUSTERING 2

/**
 * The column is a part of the key within the partition, in descending order.
 */
#define WAXSEAL_ROLE_CLUSTERING_DESCENDING 3

/**
 * The column is visible.
 */
#define WAXSEAL_COLUMN_STATE_ACTIVE 0

/**
 * The column was dropped and can be restored until its deadline.
 */
#define WAXSEAL_COLUMN_STATE_TENTATIVE 1

/**
 * The column's values are being removed from the store.
 */
#define WAXSEAL_COLUMN_STATE_PURGING 2

/**
 * Adds the column `name` of the type `column_type` to the group `group`; an empty group is `default`.
 */
#define WAXSEAL_ALTER_ADD_COLUMN 1

/**
 * Adds the repeated group `name`.
 */
#define WAXSEAL_ALTER_ADD_REPEATED_GROUP 2

/**
 * Renames the column `name` to `new_name`.
 */
#define WAXSEAL_ALTER_RENAME_COLUMN 3

/**
 * Widens the column `name` to `column_type`.
 */
#define WAXSEAL_ALTER_WIDEN_COLUMN 4

/**
 * Restores the dropped column `name` with its values.
 */
#define WAXSEAL_ALTER_UNDELETE_COLUMN 5

/**
 * Drops the index `name`.
 */
#define WAXSEAL_ALTER_DROP_INDEX 6

/**
 * The column equals the value.
 */
#define WAXSEAL_CONDITION_EQ 1

/**
 * The column has another value.
 */
#define WAXSEAL_CONDITION_NE 2

/**
 * The column is less than the value.
 */
#define WAXSEAL_CONDITION_LT 3

/**
 * The column is at most the value.
 */
#define WAXSEAL_CONDITION_LE 4

/**
 * The column is greater than the value.
 */
#define WAXSEAL_CONDITION_GT 5

/**
 * The column is at least the value.
 */
#define WAXSEAL_CONDITION_GE 6

/**
 * The column equals one of the values.
 */
#define WAXSEAL_CONDITION_IN 7

/**
 * The row does not have the column.
 */
#define WAXSEAL_CONDITION_IS_NULL 8

/**
 * The preceding condition is false.
 */
#define WAXSEAL_CONDITION_NOT 9

/**
 * Both preceding conditions are true.
 */
#define WAXSEAL_CONDITION_AND 10

/**
 * One of the two preceding conditions is true, or both.
 */
#define WAXSEAL_CONDITION_OR 11

/**
 * The largest number of conditions in a filter.
 */
#define WAXSEAL_MAX_CONDITIONS 1024

/**
 * No value: the column is absent.
 */
#define WAXSEAL_TYPE_NULL 0

/**
 * Any bytes, in `bytes`.
 */
#define WAXSEAL_TYPE_BYTES 1

/**
 * UTF-8 text, in `bytes`.
 */
#define WAXSEAL_TYPE_TEXT 2

/**
 * 0 or 1, in `integer`.
 */
#define WAXSEAL_TYPE_BOOL 3

/**
 * A signed integer of 32 bits, in `integer`.
 */
#define WAXSEAL_TYPE_I32 4

/**
 * A signed integer of 64 bits, in `integer`.
 */
#define WAXSEAL_TYPE_I64 5

/**
 * An unsigned integer of 64 bits; `integer` has its bits.
 */
#define WAXSEAL_TYPE_U64 6

/**
 * A floating-point number of 32 bits, in `real`.
 */
#define WAXSEAL_TYPE_F32 7

/**
 * A floating-point number of 64 bits, in `real`.
 */
#define WAXSEAL_TYPE_F64 8

/**
 * A decimal number of at most 38 digits: an integer of 128 bits, whose upper half is `high` and whose lower half are
 * the bits of `integer`, divided by 10 to the power of `scale`.
 */
#define WAXSEAL_TYPE_DECIMAL 9

/**
 * Days since 1970-01-01, a signed integer of 32 bits, in `integer`.
 */
#define WAXSEAL_TYPE_DATE 10

/**
 * Microseconds since 1970 in UTC, in `integer`.
 */
#define WAXSEAL_TYPE_TIMESTAMP 11

/**
 * A universally unique identifier: 16 bytes, in `bytes`.
 */
#define WAXSEAL_TYPE_UUID 12

/**
 * A JSON document as UTF-8 text, in `bytes`.
 */
#define WAXSEAL_TYPE_JSON 13

/**
 * A list, in `items`.
 */
#define WAXSEAL_TYPE_LIST 14

/**
 * The value of a column without values, which is present or absent.
 */
#define WAXSEAL_TYPE_EMPTY 15

/**
 * A list of backups, the oldest first. It does not depend on the directory, is readable from any thread, and is freed by
 * `waxseal_backups_destroy`.
 */
typedef struct waxseal_backups_t waxseal_backups_t;

/**
 * Writes to any column families of one store that commit atomically: a crash preserves all of them or none. A
 * later write to a key overrides an earlier one. Used by one thread at a time. Destroyed by `waxseal_batch_destroy`.
 *
 * A rejected write makes the whole batch fail: the call returns the error at once, and so does every commit until
 * `waxseal_batch_clear`.
 */
typedef struct waxseal_batch_t waxseal_batch_t;

/**
 * Bytes that the caller owns: a value that was read, a text. They do not depend on the store, are readable from any
 * thread, and are freed by `waxseal_bytes_destroy`.
 */
typedef struct waxseal_bytes_t waxseal_bytes_t;

/**
 * Options of integrity maintenance. Options that are not set keep their defaults; a null pointer means all defaults. A
 * pass fails with `WAXSEAL_INVALID` if an option is set that it does not accept. Usable for any number of passes, by
 * one thread at a time. Destroyed by `waxseal_care_options_destroy`. The contexts of callbacks must stay valid as long
 * as a pass with these options may run.
 */
typedef struct waxseal_care_options_t waxseal_care_options_t;

/**
 * A list of quarantine cases. It does not depend on the store, is readable from any thread, and is freed by
 * `waxseal_cases_destroy`.
 */
typedef struct waxseal_cases_t waxseal_cases_t;

/**
 * Reads the changes of a store in commit order. Used by one thread at a time. Destroyed by `waxseal_changes_destroy`.
 * The log that it has not read is kept as long as it exists and the store is open, within the bounds of
 * `waxseal_options_set_cursor_log_bytes`.
 */
typedef struct waxseal_changes_t waxseal_changes_t;

/**
 * An open store. Usable from any thread; closed by `waxseal_close`.
 */
typedef struct waxseal_db_t waxseal_db_t;

/**
 * Why one call failed. Written by the failed call, readable from any thread, and freed by `waxseal_error_destroy`.
 */
typedef struct waxseal_error_t waxseal_error_t;

/**
 * Events, in the order documented for the call that returned them. They do not depend on the store, are readable from
 * any thread, and are freed by `waxseal_events_destroy`.
 */
typedef struct waxseal_events_t waxseal_events_t;

/**
 * All known facts about a key. It does not depend on the store, is readable from any thread, and is freed by
 * `waxseal_explanation_destroy`.
 */
typedef struct waxseal_explanation_t waxseal_explanation_t;

/**
 * Options of an export: the records, and the metadata written with them. A null pointer means the defaults: the newest
 * version of every key, with its seal and labels. Used by one thread at a time. Destroyed by
 * `waxseal_export_options_destroy`.
 */
typedef struct waxseal_export_options_t waxseal_export_options_t;

/**
 * Settings of one column family. Settings that are not set keep their defaults; a null pointer means all defaults.
 * Usable for any number of families, by one thread at a time. Destroyed by `waxseal_family_options_destroy`, at any
 * time.
 */
typedef struct waxseal_family_options_t waxseal_family_options_t;

/**
 * A column family of an open store: one ordered map from keys to values. Usable from any thread. Destroyed by
 * `waxseal_family_destroy`, before or after its store is closed.
 */
typedef struct waxseal_family_t waxseal_family_t;

/**
 * A list of fences. It does not depend on the store, is readable from any thread, and is freed by
 * `waxseal_fences_destroy`.
 */
typedef struct waxseal_fences_t waxseal_fences_t;

/**
 * Entries of a tree at one point in time. Used by one thread at a time. Destroyed by `waxseal_file_list_destroy`; it
 * pins its view of the store until then.
 */
typedef struct waxseal_file_list_t waxseal_file_list_t;

/**
 * A directory tree at one point in time: the last commit before it was taken. Usable from any thread. Destroyed by
 * `waxseal_file_snapshot_destroy`; until then the content that it sees takes space.
 */
typedef struct waxseal_file_snapshot_t waxseal_file_snapshot_t;

/**
 * An open file. Usable from any thread; all handles of one file see one content. Destroyed by `waxseal_file_destroy`.
 *
 * Writes change the file in place. They wait in memory, 64 MiB for all files of the store, until `waxseal_file_flush`
 * or `waxseal_file_sync` commits them in one step. A handle keeps its file when the path is removed, replaced or
 * renamed.
 */
typedef struct waxseal_file_t waxseal_file_t;

/**
 * A whole-file write in progress. Used by one thread at a time. Destroyed by `waxseal_file_writer_destroy`; a file
 * that is not finished leaves nothing.
 */
typedef struct waxseal_file_writer_t waxseal_file_writer_t;

/**
 * A directory tree in a store. Usable from any thread. Destroyed by `waxseal_files_destroy`, before or after its store
 * is closed.
 *
 * A path is bytes: components separated by `/`, relative to the root, which is the empty path. `.` and `..` are
 * refused, and no call follows a symbolic link. Every change of paths is atomic. A failed call returns
 * `WAXSEAL_FILE`, and `waxseal_error_errno` the error of POSIX; damage is `WAXSEAL_CORRUPTION`.
 */
typedef struct waxseal_files_t waxseal_files_t;

/**
 * A position in a column family, in the state at the iterator's creation. Used by one thread at a time. Destroyed by
 * `waxseal_iter_destroy`; it pins its view of the store until then.
 *
 * A new iterator is not positioned: `waxseal_iter_next` moves it to the first record, `waxseal_iter_prev` to the last.
 * Damage in its way is one `WAXSEAL_CORRUPTION`; the next step continues at the first record behind the damage. Any
 * other error leaves the iterator unpositioned; the caller may move it again.
 */
typedef struct waxseal_iter_t waxseal_iter_t;

/**
 * An iterator over one provider's entries in a key range. Used by one thread at a time. Destroyed by
 * `waxseal_meta_iter_destroy`; it pins its view of the store until then.
 */
typedef struct waxseal_meta_iter_t waxseal_meta_iter_t;

/**
 * Options for opening a store. Options that are not set keep their defaults; a null pointer means all defaults. Usable
 * for any number of opens, by one thread at a time. Destroyed by `waxseal_options_destroy`, at any time after the
 * opens.
 */
typedef struct waxseal_options_t waxseal_options_t;

/**
 * A pause of a store's background work. Usable from any thread. Destroyed by `waxseal_pause_destroy`, which ends the
 * pause, before or after its store is closed.
 */
typedef struct waxseal_pause_t waxseal_pause_t;

/**
 * A metadata provider for `waxseal_options_add_provider`. Used by one thread at a time.
 */
typedef struct waxseal_provider_t waxseal_provider_t;

/**
 * A query on the log with all parameters. Used by one thread at a time. Destroyed by `waxseal_query_destroy`.
 */
typedef struct waxseal_query_t waxseal_query_t;

/**
 * Options of a registration. Used by one thread at a time.
 */
typedef struct waxseal_register_options_t waxseal_register_options_t;

/**
 * A list of registrations. It does not depend on the store, is readable from any thread, and is freed by
 * `waxseal_registrations_destroy`.
 */
typedef struct waxseal_registrations_t waxseal_registrations_t;

/**
 * The findings of a pass over a store, and the repairs that it made. It does not depend on the store, is readable from
 * any thread, and is freed by `waxseal_report_destroy`.
 */
typedef struct waxseal_report_t waxseal_report_t;

/**
 * A store together with a client's identity. Families and batches opened from a session write under that identity;
 * registry and log are used through a session. Usable from any thread. Destroyed by `waxseal_session_destroy`, before
 * or after its store is closed.
 */
typedef struct waxseal_session_t waxseal_session_t;

/**
 * The state of all column families of a store at one point in time. Usable from any thread. Destroyed by
 * `waxseal_snapshot_destroy`; until then the versions that it sees take space.
 */
typedef struct waxseal_snapshot_t waxseal_snapshot_t;

/**
 * The schema of a table at one version. It does not depend on the store, is readable from any thread, and is freed by
 * `waxseal_table_description_destroy`.
 */
typedef struct waxseal_table_description_t waxseal_table_description_t;

/**
 * Rows of a table, one after the other. Used by one thread at a time. Destroyed by `waxseal_table_rows_destroy`; the
 * rows of a select pin their view of the store until then.
 */
typedef struct waxseal_table_rows_t waxseal_table_rows_t;

/**
 * A table: typed rows in the order of their keys. Usable from any thread. Destroyed by `waxseal_table_destroy`, before
 * or after its store is closed.
 *
 * The name of a table is `keyspace.name`. Every write is one commit, with the durability of the store or of its
 * options. docs/tables.md describes keys, types, groups, indexes and changes of schemas.
 */
typedef struct waxseal_table_t waxseal_table_t;

/**
 * Reads and writes of rows of any tables of a store that take effect together, and only if no other commit came
 * between. Used by one thread at a time. Destroyed by `waxseal_table_transaction_destroy`, which discards its writes
 * unless they were committed.
 *
 * `waxseal_table_get`, `waxseal_table_insert`, `waxseal_table_upsert`, `waxseal_table_update` and
 * `waxseal_table_delete` take one. All reads see the store as it was when the transaction began, and the transaction's
 * own writes. The commit fails with `WAXSEAL_CONFLICT`, and changes nothing, if another commit changed a row that the
 * transaction has read, or the schema of a table that it has used: run a new one then. A write that is refused leaves
 * the transaction as it was.
 */
typedef struct waxseal_table_transaction_t waxseal_table_transaction_t;

/**
 * A table file that is being written, to be ingested later. Used by one thread at a time. Destroyed by
 * `waxseal_table_writer_destroy`; a file that is not finished is removed then.
 */
typedef struct waxseal_table_writer_t waxseal_table_writer_t;

/**
 * A list of table files. It does not depend on the store, is readable from any thread, and is freed by
 * `waxseal_tables_destroy`.
 */
typedef struct waxseal_tables_t waxseal_tables_t;

/**
 * Reads and writes that take effect together, and only if no other commit came between. Used by one thread at a time.
 * Destroyed by `waxseal_transaction_destroy`, which discards its writes unless they were committed.
 *
 * All reads see the store as it was when the transaction began, and the transaction's own writes. Nothing is locked: a
 * transaction never waits for another one. Its commit fails with `WAXSEAL_CONFLICT`, and changes nothing, if another
 * commit changed what the transaction depends on; destroy it then, and run a new one. The versions that it may read
 * take space until it ends. A write that is refused leaves the transaction as it was.
 */
typedef struct waxseal_transaction_t waxseal_transaction_t;

/**
 * The values of several keys at one point in time. They do not depend on the store, are readable from any thread, and
 * are freed by `waxseal_values_destroy`.
 */
typedef struct waxseal_values_t waxseal_values_t;

/**
 * Options of a write: its durability, and the annotations stored with its value. Options that are not set keep their
 * defaults; a null pointer means all defaults. Usable for any number of writes, by one thread at a time. Destroyed by
 * `waxseal_write_options_destroy`.
 */
typedef struct waxseal_write_options_t waxseal_write_options_t;

/**
 * Bytes: a pointer and a length. A null pointer with length 0 is the empty slice.
 *
 * The library reads a slice from the caller during the call only. A slice from the library is valid as long as the
 * documentation of the function that returned it states.
 */
typedef struct {
    /**
     * The first byte.
     */
    const uint8_t *data;
    /**
     * The number of bytes.
     */
    size_t len;
} waxseal_slice_t;

/**
 * Decides on a value that a compaction rewrites. Returns `WAXSEAL_FILTER_KEEP`, `WAXSEAL_FILTER_DROP`, or
 * `WAXSEAL_FILTER_CHANGE` after it has set `*changed` to a bytes object of `waxseal_bytes_create`, which the library
 * destroys. Any other status is a failure: the value stays, and the failure is counted in the metric `filter_failures`
 * and reported to the listener. A filter by key gets an empty value. All inputs are valid during the call only.
 *
 * Called on any thread, concurrently. It must not call the store whose values it filters.
 */
typedef int32_t (*waxseal_filter_fn)(void *context,
                                     const uint8_t *key,
                                     size_t key_len,
                                     const uint8_t *value,
                                     size_t value_len,
                                     waxseal_bytes_t **changed,
                                     waxseal_error_t **error);

/**
 * Destroys a context. Called once, after the last use of the context, on the thread that used it last.
 */
typedef void (*waxseal_destroy_fn)(void *context);

/**
 * Compares two keys: negative if `a` sorts before `b`, 0 if they are equal, positive if `a` sorts after `b`. Both keys
 * are valid during the call only. The order must be total and must never change: the store is laid out by it. Keys
 * with the same bytes are equal, and the comparator is not called for them. Called on any thread, concurrently. It
 * must not call the store whose keys it compares.
 *
 * `WAXSEAL_COMPARE_FAILED` means that it cannot compare. From then on every call on this store, the running one
 * included, returns `WAXSEAL_CALLBACK`. Acknowledged commits are present after the store is closed and reopened.
 */
typedef int32_t (*waxseal_compare_fn)(void *context, const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len);

/**
 * Merges operands into the value of a key. `base` is the value below them, null if the key is absent. `operands` are in
 * the order of their commits. All inputs are valid during the call only. The callback sets `*merged` to a bytes object
 * of `waxseal_bytes_create`, which the library destroys, and returns `WAXSEAL_OK`. A negative status is a failure: the
 * read that needs the value returns `WAXSEAL_CALLBACK`, and the operands stay.
 *
 * The result may depend on the arguments alone. Called on any thread, concurrently. It must not call the store whose
 * values it merges.
 */
typedef int32_t (*waxseal_merge_fn)(void *context,
                                    const uint8_t *key,
                                    size_t key_len,
                                    const waxseal_slice_t *base,
                                    const waxseal_slice_t *operands,
                                    size_t count,
                                    waxseal_bytes_t **merged,
                                    waxseal_error_t **error);

/**
 * Collects the items of one value or merge operand: calls `waxseal_property_add_item` for each, and returns
 * `WAXSEAL_OK`. Any other status, and a call of `waxseal_property_add_item` that fails, is a failure: the file is left
 * without the property. All inputs are valid during the call only.
 *
 * Called on any thread, concurrently. It must not call the store whose records it gets, nor wait for a thread that
 * writes to it.
 */
typedef int32_t (*waxseal_property_fn)(void *context,
                                       const uint8_t *key,
                                       size_t key_len,
                                       const uint8_t *value,
                                       size_t value_len,
                                       waxseal_error_t **error);

/**
 * The least seqno of the records that a store holds outside of its current tables and blob files, by kind of holder.
 * `WAXSEAL_NO_SEQNO` if the holder has no record, 0 if its seqnos are not known.
 */
typedef struct {
    /**
     * Of records in memtables, in those too that iterators and snapshots hold.
     */
    uint64_t memtables;
    /**
     * Of records in the files of the log, needed or not.
     */
    uint64_t log;
    /**
     * Of records in log segments that the change feed keeps.
     */
    uint64_t kept_log;
    /**
     * Of records in files that no version names: value files of memtables; files that are held by iterators,
     * snapshots, backups or the change feed, wait for their removal, could not be removed, are kept as trash, or were
     * set aside by a recovery or a repair.
     */
    uint64_t obsolete_files;
    /**
     * Of the oldest snapshot.
     */
    uint64_t snapshots;
} waxseal_oldest_seqnos_t;

/**
 * Interrupt function, called about every 10 ms by long calls of the thread that set it, on that thread. It returns 0
 * to continue; any other value stops the call with `WAXSEAL_INTERRUPTED`. It must not call the library with an object
 * of a store, and must not end its thread.
 */
typedef int32_t (*waxseal_interrupt_fn)(void *context);

/**
 * The recovery of the log when the store was opened.
 */
typedef struct {
    /**
     * Number of replayed commits.
     */
    uint64_t commits;
    /**
     * Bytes of the log that were cut as a torn tail, or as damage where that was accepted. 0 after a clean close.
     */
    uint64_t cut_bytes;
    /**
     * The position where the log was cut, in bytes from its beginning; `UINT64_MAX` if it was not cut.
     */
    uint64_t cut_at;
    /**
     * Bytes of acknowledged commits that are missing. 0 unless the machine failed; a lower bound if
     * `may_lack_unsynced`.
     */
    uint64_t acknowledged_bytes_missing;
    /**
     * 1 if the store had not been closed, and the machine failed or the store was moved to another device: an unknown
     * number of acknowledged but unsynced commits may be missing. Otherwise 0.
     */
    uint64_t may_lack_unsynced;
    /**
     * Number of damaged values of commits in the log: reads of their keys return `WAXSEAL_CORRUPTION` until the keys
     * are overwritten or repaired.
     */
    uint64_t lost_values;
} waxseal_recovery_t;

/**
 * One end of a range. All zeros mean no bound.
 */
typedef struct {
    /**
     * One of `WAXSEAL_UNBOUNDED`, `WAXSEAL_INCLUDED`, `WAXSEAL_EXCLUDED`.
     */
    int32_t kind;
    /**
     * The key; null with length 0 is the empty key.
     */
    const uint8_t *key;
    /**
     * Its length.
     */
    size_t key_len;
} waxseal_bound_t;

/**
 * A range of keys. All zeros mean all keys, and so does a null pointer to a range. A range whose end precedes its
 * start is empty.
 */
typedef struct {
    /**
     * The lower end.
     */
    waxseal_bound_t lower;
    /**
     * The upper end.
     */
    waxseal_bound_t upper;
} waxseal_range_t;

/**
 * Computes the new value of a key from the present one. `value` is null if the key is absent, and valid during the
 * call only. To set the key, the callback sets `*new_value` to a bytes object of `waxseal_bytes_create`, which the
 * library destroys. If it leaves `*new_value` null, the key is deleted. It returns `WAXSEAL_OK`. A negative status is a
 * failure: the call of `waxseal_update` ends, and nothing is changed.
 *
 * Called on the thread of `waxseal_update`, with no lock held, and again whenever another write changed the key
 * meanwhile. It should be short, and free of side effects or able to repeat them. It must not throw or `longjmp` out of
 * itself.
 */
typedef int32_t (*waxseal_update_fn)(void *context,
                                     const waxseal_slice_t *value,
                                     waxseal_bytes_t **new_value,
                                     waxseal_error_t **error);

/**
 * A table file and the family that it is ingested into.
 */
typedef struct {
    /**
     * The family.
     */
    waxseal_family_t *family;
    /**
     * The path of the file.
     */
    waxseal_slice_t path;
} waxseal_family_file_t;

/**
 * A row under an iterator, valid until the iterator is moved or destroyed.
 */
typedef struct {
    /**
     * The key.
     */
    waxseal_slice_t key;
    /**
     * The value.
     */
    waxseal_slice_t value;
} waxseal_row_t;

/**
 * Supplies the next rows of a bulk load: sets `*rows` to an array of `*count` rows, which stay valid until the next
 * call or the end of the load, and returns `WAXSEAL_OK`. A count of 0 ends the rows; a source that leaves
 * `*count` as it is has given no answer, and the load fails. A negative
 * status ends the load, which then has changed nothing and returns `WAXSEAL_CALLBACK`.
 *
 * Called on the thread that loads. It must not call the store that is loaded.
 */
typedef int32_t (*waxseal_rows_fn)(void *context, const waxseal_row_t **rows, size_t *count, waxseal_error_t **error);

/**
 * The result of a backup.
 */
typedef struct {
    /**
     * The backup's number in its directory.
     */
    uint64_t id;
    /**
     * The last commit in it.
     */
    uint64_t seqno;
    /**
     * Number of files in it.
     */
    uint64_t files;
    /**
     * Bytes of these files.
     */
    uint64_t bytes;
    /**
     * Number of files that were copied.
     */
    uint64_t copied_files;
    /**
     * Bytes of the copied files.
     */
    uint64_t copied_bytes;
    /**
     * False if the store could not log the event. The backup is durable and whole nevertheless.
     */
    bool is_logged;
} waxseal_backup_created_t;

/**
 * One backup. Its slices are valid until its list is destroyed.
 */
typedef struct {
    /**
     * The backup's number in its directory; a later backup has a greater one.
     */
    uint64_t id;
    /**
     * The time of the backup, in microseconds since 1970.
     */
    uint64_t created_micros;
    /**
     * The last commit in the backup.
     */
    uint64_t seqno;
    /**
     * Number of files.
     */
    uint64_t files;
    /**
     * Bytes of the files.
     */
    uint64_t bytes;
    /**
     * Bytes of the files that this backup copied.
     */
    uint64_t copied_bytes;
    /**
     * The store's id: 32 hexadecimal digits.
     */
    waxseal_slice_t store;
    /**
     * The reason why the backup's description is unusable; empty if it is usable. With a reason, only `id` is set.
     */
    waxseal_slice_t error;
} waxseal_backup_info_t;

/**
 * The checksum of a key with its value, independent of where the record is stored: the same on every replica. Eight
 * bytes to be stored or transmitted unchanged; as a number they are little-endian.
 */
typedef struct {
    /**
     * The bytes of the seal.
     */
    uint8_t bytes[8];
} waxseal_seal_t;

/**
 * One change of a commit. Its slices are valid until the next call with its reader.
 */
typedef struct {
    /**
     * Its position in the commit order. The rows of an ingestion share one.
     */
    uint64_t seqno;
    /**
     * The name of the column family.
     */
    waxseal_slice_t family;
    /**
     * The name of the family's key order.
     */
    waxseal_slice_t order;
    /**
     * One of `WAXSEAL_CHANGE_..`.
     */
    int32_t operation;
    /**
     * True for the last change of a commit.
     */
    bool ends_commit;
    /**
     * False in a plain store, and for a dropped family: then `seal` is zero.
     */
    bool has_seal;
    /**
     * The key; the start of a range delete. A null pointer if there is none.
     */
    waxseal_slice_t key;
    /**
     * The value, the operand, or the end of a range delete. A null pointer if there is none.
     */
    waxseal_slice_t value;
    /**
     * The seal that was made at the write; the change was checked against it.
     */
    waxseal_seal_t seal;
    /**
     * The session's number if the write was watched, otherwise 0.
     */
    uint64_t session;
    /**
     * The time at which the value expires, in microseconds since 1970; 0 for never.
     */
    uint64_t expires_micros;
    /**
     * The id of the family in the store that changed: see `waxseal_family_id`.
     */
    uint32_t family_id;
} waxseal_change_t;

/**
 * Rows in one buffer, valid until the iterator is moved or destroyed. The key of row `i` begins at `data[offsets[2 *
 * i]]`, its value at `data[offsets[2 * i + 1]]`, and the row ends at `data[offsets[2 * i + 2]]`: there are `2 * count
 * + 1` offsets.
 */
typedef struct {
    /**
     * Keys and values, concatenated.
     */
    const uint8_t *data;
    /**
     * The start of each key and value, and the end of the last.
     */
    const size_t *offsets;
    /**
     * Number of rows.
     */
    size_t count;
} waxseal_rows_t;

/**
 * Reads and writes by a transaction. Returns `WAXSEAL_OK`, or another status that is not negative, to commit it. A
 * negative status discards the writes; the function may pass on that of a failed call, with its error in `*error`.
 *
 * Called on the thread of `waxseal_transact`, with no lock held, and again with a new transaction after each conflict.
 * It should be free of side effects or able to repeat them. It may call the store. It must not end the transaction, and
 * must not throw or `longjmp` out of itself.
 */
typedef int32_t (*waxseal_transact_fn)(void *context, waxseal_transaction_t *transaction, waxseal_error_t **error);

/**
 * A provider's entry for a record.
 */
typedef struct {
    /**
     * The number of the provider.
     */
    uint16_t provider;
    /**
     * The version of the entry's format; ignored when an entry is written.
     */
    uint8_t version;
    /**
     * One of `WAXSEAL_CHECKED_..`; ignored when an entry is written.
     */
    int32_t checked;
    /**
     * The content of the entry.
     */
    waxseal_slice_t bytes;
} waxseal_entry_t;

/**
 * An event inside a store. Members that its kind does not name are 0 or empty. All slices and arrays are valid during
 * the call only.
 */
typedef struct {
    /**
     * One of `WAXSEAL_EVENT_..`; later versions may add values.
     */
    int32_t kind;
    /**
     * One of `WAXSEAL_VERDICT_..`.
     */
    int32_t verdict;
    /**
     * The name of a column family.
     */
    waxseal_slice_t family;
    /**
     * The name of a file in the store's directory.
     */
    waxseal_slice_t file;
    /**
     * A description, UTF-8.
     */
    waxseal_slice_t message;
    /**
     * The first affected key.
     */
    waxseal_slice_t from;
    /**
     * The last affected key.
     */
    waxseal_slice_t to;
    /**
     * Numbers of the input tables, which no longer exist.
     */
    const uint64_t *inputs;
    /**
     * Length of `inputs`.
     */
    size_t inputs_len;
    /**
     * Numbers of the output tables, which replace the inputs.
     */
    const uint64_t *outputs;
    /**
     * Length of `outputs`.
     */
    size_t outputs_len;
    /**
     * The number of a table.
     */
    uint64_t table;
    /**
     * A number of bytes.
     */
    uint64_t bytes;
    /**
     * A number of commits.
     */
    uint64_t commits;
    /**
     * The offset of a block in `file`.
     */
    uint64_t offset;
    /**
     * A level.
     */
    uint32_t level;
    /**
     * A flag, as documented for the kind.
     */
    bool flag;
    /**
     * A duration in nanoseconds.
     */
    uint64_t nanos;
} waxseal_engine_event_t;

/**
 * Listener callback, called after an event, on a thread of the store or on a thread that runs a call of the store. The
 * latter may also deliver events of other threads. Events of the store's own operations are delivered in order, by one
 * thread at a time. Damage that a read detects is delivered at once, even while another thread delivers an event. No
 * lock of the engine is held, but watched writes may wait for the callback. A lock that the callback takes must
 * therefore not be held around calls of the store. The callback must return soon. It must not call the store that
 * reports: such a call returns `WAXSEAL_INVALID`.
 */
typedef void (*waxseal_listener_fn)(void *context, const waxseal_engine_event_t *event);

/**
 * A record, valid during a call.
 */
typedef struct {
    /**
     * Its key.
     */
    waxseal_slice_t key;
    /**
     * Its value.
     */
    waxseal_slice_t value;
    /**
     * Its sequence number; 0 once no snapshot needs it, and before the commit.
     */
    uint64_t seqno;
    /**
     * One of `WAXSEAL_KIND_..`.
     */
    int32_t kind;
} waxseal_record_t;

/**
 * Makes the entry of an operation, on the writing thread. `given` is the caller's entry for this provider, null if
 * there is none. The callback writes the entry to `entry`, which has room for `capacity` bytes (the maximum length of
 * an entry), writes its length to `entry_len`, and returns `WAXSEAL_OK`. It returns `WAXSEAL_NOT_FOUND` for no entry.
 * A negative status refuses the operation.
 */
typedef int32_t (*waxseal_on_write_fn)(void *context,
                                       const waxseal_record_t *record,
                                       const waxseal_slice_t *given,
                                       uint8_t *entry,
                                       size_t capacity,
                                       size_t *entry_len,
                                       waxseal_error_t **error);

/**
 * Called for a record that is written to a table, with its `entry`, null if it has none. Returns one of
 * `WAXSEAL_ENTRY_..`; `WAXSEAL_ENTRY_SET` means that the callback wrote a new entry as in `waxseal_on_write_fn`. Any
 * other return value keeps the entry.
 */
typedef int32_t (*waxseal_on_build_fn)(void *context,
                                       const waxseal_record_t *record,
                                       const waxseal_slice_t *entry,
                                       uint8_t *new_entry,
                                       size_t capacity,
                                       size_t *new_len);

/**
 * Called for a record with an entry that is omitted from a table; `reason` is one of `WAXSEAL_DROP_..`.
 */
typedef void (*waxseal_on_drop_fn)(void *context,
                                   const waxseal_record_t *record,
                                   const waxseal_slice_t *entry,
                                   int32_t reason);

/**
 * Returns 0 if an entry is not valid for this provider and record.
 */
typedef int32_t (*waxseal_on_verify_fn)(void *context, const waxseal_record_t *record, const waxseal_slice_t *entry);

/**
 * Number and seal sum of records: equal for equal content.
 */
typedef struct {
    /**
     * Number of visible records.
     */
    uint64_t count;
    /**
     * The sum of their seals as numbers, modulo 2^64.
     */
    uint64_t sum;
} waxseal_digest_t;

/**
 * Progress of a pass over a store. Valid during the call only.
 */
typedef struct {
    /**
     * Bytes checked so far.
     */
    uint64_t done;
    /**
     * Total bytes, as estimated at the beginning.
     */
    uint64_t total;
    /**
     * Damaged places found so far.
     */
    uint64_t found;
} waxseal_progress_t;

/**
 * Progress callback, called about once per block on the thread that runs the pass. It returns 0 to continue; any other
 * value stops the pass, which the report states. It must not call the store that the pass checks.
 */
typedef int32_t (*waxseal_progress_fn)(void *context, const waxseal_progress_t *progress);

/**
 * The place where a scrub resumes; opaque to the caller. Compactions do not invalidate it.
 */
typedef struct {
    /**
     * The encoded place.
     */
    uint8_t bytes[84];
} waxseal_resume_t;

/**
 * The records that a repair requests. All slices are valid during the call only.
 */
typedef struct {
    /**
     * The name of the column family.
     */
    waxseal_slice_t family;
    /**
     * The first key.
     */
    waxseal_slice_t low;
    /**
     * The last key, inclusive. Equal to `low` if the seal is known.
     */
    waxseal_slice_t high;
    /**
     * The seal of the one requested record, if `has_seal`.
     */
    waxseal_seal_t seal;
    /**
     * False if all records from `low` to `high` are requested.
     */
    bool has_seal;
} waxseal_wanted_t;

/**
 * Takes a record that a source found: `WAXSEAL_KIND_PUT` with its value, or `WAXSEAL_KIND_DELETE`. The record is
 * copied. A status other than `WAXSEAL_OK` means that the record is invalid.
 */
typedef int32_t (*waxseal_found_fn)(void *answer,
                                    int32_t kind,
                                    const uint8_t *key,
                                    size_t key_len,
                                    const uint8_t *value,
                                    size_t value_len);

/**
 * Searches another copy of the store for records, and passes each of them to `found` together with `answer`; both are
 * valid during this call only. A record is accepted only if it matches the seal of the lost one. A negative status
 * means that the search failed; the repair then retries a few times. `WAXSEAL_CALLBACK` ends the repair at once,
 * before any record of the current table is given up, and the report is that of a cancelled pass. It must not call the
 * store that is repaired.
 */
typedef int32_t (*waxseal_source_fn)(void *context,
                                     const waxseal_wanted_t *wanted,
                                     waxseal_found_fn found,
                                     void *answer,
                                     waxseal_error_t **error);

/**
 * A loss that no repair step could undo: a readable record that no checksum or seal confirms, or a key range with
 * unknown records. All slices are valid during the call only.
 */
typedef struct {
    /**
     * The damaged file.
     */
    waxseal_slice_t file;
    /**
     * The offset of the block in the file.
     */
    uint64_t offset;
    /**
     * The name of the column family.
     */
    waxseal_slice_t family;
    /**
     * The first key that may be affected.
     */
    waxseal_slice_t from;
    /**
     * The sequence number of the first affected version of `from`.
     */
    uint64_t from_seqno;
    /**
     * The last key that may be affected, inclusive.
     */
    waxseal_slice_t to;
    /**
     * The sequence number of the last affected version of `to`.
     */
    uint64_t to_seqno;
    /**
     * The kind of damage: one of `WAXSEAL_VERDICT_..`.
     */
    int32_t verdict;
} waxseal_loss_t;

/**
 * Decides about a loss: returns one of `WAXSEAL_DECISION_..`. Any other number counts as `WAXSEAL_DECISION_FAIL`,
 * which changes nothing. If a table has several losses, the strictest decision applies. It must not call the store
 * that is repaired.
 */
typedef int32_t (*waxseal_handler_fn)(void *context, const waxseal_loss_t *loss);

/**
 * The counters of a report.
 */
typedef struct {
    /**
     * Records checked.
     */
    uint64_t records;
    /**
     * Records that match their seal.
     */
    uint64_t validated;
    /**
     * Records that do not match their seal, or that no checksum or seal confirms.
     */
    uint64_t corrupted;
    /**
     * Records without a seal in a file that promised one.
     */
    uint64_t missing;
    /**
     * Records without a seal in a file that promised none.
     */
    uint64_t unverified;
    /**
     * Places that cannot be decoded.
     */
    uint64_t structural;
    /**
     * Repaired blocks and records.
     */
    uint64_t repaired;
    /**
     * Records known to be permanently lost.
     */
    uint64_t lost;
    /**
     * Bytes checked.
     */
    uint64_t bytes;
    /**
     * Files checked.
     */
    uint64_t files;
    /**
     * Duration of the pass in nanoseconds.
     */
    uint64_t nanos;
    /**
     * Number of damaged places.
     */
    size_t damage;
    /**
     * True if the pass was complete, and all damage that it found is repaired.
     */
    bool is_clean;
    /**
     * True if the caller stopped the pass early.
     */
    bool cancelled;
} waxseal_counts_t;

/**
 * One damaged place. Its slices are valid until its report is destroyed.
 */
typedef struct {
    /**
     * The damaged file; empty for damage in memory.
     */
    waxseal_slice_t file;
    /**
     * The offset of the block or frame in the file.
     */
    uint64_t offset;
    /**
     * The name of the column family; empty for damage outside of families or in an unknown family.
     */
    waxseal_slice_t family;
    /**
     * The first key that may be affected, if `has_keys`.
     */
    waxseal_slice_t from;
    /**
     * The last key that may be affected, if `has_keys`.
     */
    waxseal_slice_t to;
    /**
     * A description, UTF-8.
     */
    waxseal_slice_t message;
    /**
     * The kind of damage: one of `WAXSEAL_VERDICT_..`.
     */
    int32_t verdict;
    /**
     * The outcome: one of `WAXSEAL_OUTCOME_..`.
     */
    int32_t outcome;
    /**
     * The repair step that succeeded: one of `WAXSEAL_RUNG_..`.
     */
    int32_t rung;
    /**
     * Number of repair steps tried, for `waxseal_report_step`.
     */
    size_t steps;
    /**
     * True if the affected keys are known.
     */
    bool has_keys;
} waxseal_damage_t;

/**
 * The result of an export.
 */
typedef struct {
    /**
     * Number of user records.
     */
    uint64_t records;
    /**
     * Number of the paper's rows that describe these records.
     */
    uint64_t rows;
    /**
     * Number of records without a seal.
     */
    uint64_t unsealed;
    /**
     * The sum of the seals of all records, as numbers, modulo 2^64.
     */
    uint64_t sum;
    /**
     * Bytes of metadata in the tables.
     */
    uint64_t companion_bytes;
    /**
     * Number of tables.
     */
    size_t files;
    /**
     * Number of seals that were not exported.
     */
    uint64_t seals_left;
    /**
     * Number of stamps (session and time of a watched write) that were not exported; stamps never leave a store.
     */
    uint64_t stamps_left;
    /**
     * Number of provider entries that were not exported.
     */
    uint64_t entries_left;
    /**
     * Bytes of all metadata that was not exported.
     */
    uint64_t bytes_left;
    /**
     * Number of expired values, which were not exported.
     */
    uint64_t expired;
} waxseal_exported_t;

/**
 * The result of an import.
 */
typedef struct {
    /**
     * The sequence number of every imported record; 0 if no record was imported.
     */
    uint64_t seqno;
    /**
     * Number of imported records: the newest version of each key.
     */
    uint64_t records;
    /**
     * Number of older versions, which were not imported.
     */
    uint64_t superseded;
    /**
     * Number of records, of all versions, that carried a seal and match it.
     */
    uint64_t sealed;
    /**
     * Number of records, of all versions, without a seal.
     */
    uint64_t unsealed;
    /**
     * Number of the paper's rows whose version was found and matches.
     */
    uint64_t bound;
    /**
     * Number of the paper's rows without their version; these rows were removed.
     */
    uint64_t orphans;
    /**
     * Number of versions without a row, in an export in the paper's form.
     */
    uint64_t without_row;
    /**
     * Number of user tombstones of keys that end in byte 01.
     */
    uint64_t own_deletes;
} waxseal_imported_t;

/**
 * The question to an authorizer. All slices are valid during the call only.
 */
typedef struct {
    /**
     * One of `WAXSEAL_MAY_..`; later versions may add values.
     */
    int32_t what;
    /**
     * The name of the session; `-` for the unnamed session.
     */
    waxseal_slice_t who;
    /**
     * The authentication method; empty for an unauthenticated session.
     */
    waxseal_slice_t authenticated;
    /**
     * The target in its long form: `cf:users.john`.
     */
    waxseal_slice_t target;
    /**
     * The name of the operation (`operation` and its number for a defined operation); empty if the question concerns
     * no operation or all of them.
     */
    waxseal_slice_t operation;
} waxseal_asking_t;

/**
 * Returns 0 to refuse. Called on the requesting thread, concurrently from several threads. It must not call the store
 * that asks.
 */
typedef int32_t (*waxseal_authorizer_fn)(void *context, const waxseal_asking_t *asking);

/**
 * One registration. Its slices are valid until its list is destroyed.
 */
typedef struct {
    /**
     * The watched target in its short form.
     */
    waxseal_slice_t target;
    /**
     * The name of the operation; `*` for any.
     */
    waxseal_slice_t operation;
    /**
     * One of `WAXSEAL_SCOPE_..`.
     */
    int32_t scope;
    /**
     * One of `WAXSEAL_MODE_..`.
     */
    int32_t mode;
    /**
     * One of `WAXSEAL_VALUES_..`.
     */
    int32_t values;
    /**
     * Whether replaced versions stay in their family.
     */
    bool history;
    /**
     * The age, in microseconds, from which events may be dropped; `WAXSEAL_FOREVER` for never.
     */
    uint64_t retention_micros;
} waxseal_registration_t;

/**
 * One event: an operation on a target. Its slices are valid until its list is destroyed.
 */
typedef struct {
    /**
     * The target in its short form: `users.john`.
     */
    waxseal_slice_t target;
    /**
     * The name of the operation: `Row.Update`.
     */
    waxseal_slice_t operation;
    /**
     * The name of the session that performed it; `-` for the unnamed session.
     */
    waxseal_slice_t client;
    /**
     * The time in microseconds since 1970.
     */
    uint64_t micros;
    /**
     * The same time as an ordered number. The events of one commit share it.
     */
    uint64_t time;
    /**
     * The sequence number of its commit.
     */
    uint64_t seqno;
    /**
     * Number of its fields.
     */
    size_t fields;
    /**
     * In a lineage: number of steps between this event and the requested file.
     */
    size_t back;
} waxseal_event_t;

/**
 * One field of an event, or of a case of quarantine. Its slices are valid until its list is destroyed.
 */
typedef struct {
    /**
     * The field's number in the log.
     */
    uint64_t number;
    /**
     * Its name: `new_value`, `records`, ..
     */
    waxseal_slice_t name;
    /**
     * One of `WAXSEAL_FIELD_..`; it determines which of the following members are used.
     */
    int32_t kind;
    /**
     * See `kind`.
     */
    waxseal_slice_t bytes;
    /**
     * See `kind`.
     */
    waxseal_slice_t more;
    /**
     * See `kind`.
     */
    uint64_t numbers[WAXSEAL_FIELD_NUMBERS];
} waxseal_field_t;

/**
 * The content of an explanation. Its slices are valid until the explanation is destroyed.
 */
typedef struct {
    /**
     * The key in its full form.
     */
    waxseal_slice_t target;
    /**
     * The result of the checks: `validated`, `absent`, or the reason why the value is withheld.
     */
    waxseal_slice_t verdict;
    /**
     * The value, if `has_value`.
     */
    waxseal_slice_t value;
    /**
     * The name of the session that wrote it; empty if the key was not watched at that time.
     */
    waxseal_slice_t writer;
    /**
     * The time of that write, in microseconds since 1970.
     */
    uint64_t written_micros;
    /**
     * The sequence number of the version that determines the result, if `has_version`.
     */
    uint64_t seqno;
    /**
     * The time of the last complete verification of the store, in microseconds since 1970; 0 if unknown.
     */
    uint64_t verified_micros;
    /**
     * The table file that holds the version, if `lies` is `WAXSEAL_LIES_IN_TABLE`.
     */
    waxseal_slice_t file;
    /**
     * The uid of that file.
     */
    uint8_t uid[16];
    /**
     * The offset of its block in the file.
     */
    uint64_t offset;
    /**
     * The level of the file.
     */
    uint32_t level;
    /**
     * The location of the version that determines the result: one of `WAXSEAL_LIES_..`.
     */
    int32_t lies;
    /**
     * Its seal, if `has_seal`.
     */
    waxseal_seal_t seal;
    /**
     * False if the key has no value, or its value is withheld.
     */
    bool has_value;
    /**
     * False if there is no such version, or it cannot be read.
     */
    bool has_version;
    /**
     * False if the record has no seal.
     */
    bool has_seal;
} waxseal_explained_t;

/**
 * Counters of the event ring.
 */
typedef struct {
    /**
     * Events in the ring, not in the log yet.
     */
    uint64_t waiting;
    /**
     * Events dropped since the open.
     */
    uint64_t dropped;
    /**
     * Events written in the commit of their operation because the ring was full.
     */
    uint64_t fallen_back;
    /**
     * Maximum number of events that a crash may lose now.
     */
    uint64_t lost_at_most;
} waxseal_ring_t;

/**
 * One table file. Its slices are valid until its list is destroyed.
 */
typedef struct {
    /**
     * The number in its file name.
     */
    uint64_t number;
    /**
     * Its level; level 0 holds the newest tables.
     */
    uint32_t level;
    /**
     * Size of the file.
     */
    uint64_t bytes;
    /**
     * Number of records: all versions, tombstones included.
     */
    uint64_t records;
    /**
     * Smallest key.
     */
    waxseal_slice_t smallest;
    /**
     * Largest key.
     */
    waxseal_slice_t largest;
    /**
     * Smallest sequence number.
     */
    uint64_t least_seqno;
    /**
     * Largest sequence number.
     */
    uint64_t greatest_seqno;
} waxseal_table_file_t;

/**
 * A range in which records were lost. It is ordered by key and, for one key, by version, the newest first. Its slices
 * are valid until its list is destroyed.
 */
typedef struct {
    /**
     * The key at which the range begins; it need not have been written ever. Only its versions from `from_seqno` down
     * are affected.
     */
    waxseal_slice_t from;
    /**
     * The newest affected version of `from`.
     */
    uint64_t from_seqno;
    /**
     * The key at which the range ends, often that of the next record. Only its versions down to `to_seqno` are
     * affected.
     */
    waxseal_slice_t to;
    /**
     * The oldest affected version of `to`.
     */
    uint64_t to_seqno;
    /**
     * Upper bound of the lost records' sequence numbers. A record with a larger sequence number is newer than all of
     * them and is returned as usual.
     */
    uint64_t bound;
    /**
     * The file that held the lost records.
     */
    waxseal_slice_t file;
    /**
     * The offset of their block in the file.
     */
    uint64_t offset;
    /**
     * The kind of damage: one of `WAXSEAL_VERDICT_..`.
     */
    int32_t verdict;
} waxseal_fence_t;

/**
 * A table or key range that is or was in quarantine. Its slices are valid until its list is destroyed.
 */
typedef struct {
    /**
     * The name that the family had when the case began.
     */
    waxseal_slice_t family;
    /**
     * The kind of object: one of `WAXSEAL_CASE_..`.
     */
    int32_t kind;
    /**
     * The number of the table or of the fence.
     */
    uint64_t number;
    /**
     * The start of the quarantine, in microseconds since 1970.
     */
    uint64_t since_micros;
    /**
     * The end of the quarantine; `WAXSEAL_FOREVER` if it is still open.
     */
    uint64_t until_micros;
    /**
     * How it ended: `freed`, `lifted`, `replaced`, `dropped` or `gone`; empty if it is still open.
     */
    waxseal_slice_t how;
    /**
     * Number of its fields.
     */
    size_t fields;
} waxseal_case_t;

/**
 * A change of attributes. Attributes that `set` does not name keep their values; in a new entry they have defaults.
 * All zero changes nothing.
 */
typedef struct {
    /**
     * The attributes that are set: `WAXSEAL_FILE_SET_..`, combined by or.
     */
    uint32_t set;
    /**
     * Permission bits: at most 07777.
     */
    uint32_t mode;
    /**
     * The owner.
     */
    uint32_t uid;
    /**
     * The group.
     */
    uint32_t gid;
    /**
     * The time of the last change of the content, in nanoseconds since 1970.
     */
    int64_t mtime_nanos;
} waxseal_file_attributes_t;

/**
 * The attributes of an entry.
 */
typedef struct {
    /**
     * The kind, one of `WAXSEAL_FILE_KIND_..`.
     */
    int32_t kind;
    /**
     * Permission bits.
     */
    uint32_t mode;
    /**
     * The owner.
     */
    uint32_t uid;
    /**
     * The group.
     */
    uint32_t gid;
    /**
     * The time of the last change of the content, in nanoseconds since 1970.
     */
    int64_t mtime_nanos;
    /**
     * The time of the last change of the entry, in nanoseconds since 1970.
     */
    int64_t ctime_nanos;
    /**
     * The inode number, which is never reused. A rename keeps it.
     */
    uint64_t inode;
    /**
     * The length of a file, or of a link's target, in bytes.
     */
    uint64_t size;
    /**
     * Bytes that are stored as chunks, without holes.
     */
    uint64_t allocated;
    /**
     * The upper half of the content's digest.
     */
    uint64_t digest_high;
    /**
     * The lower half of the content's digest.
     */
    uint64_t digest_low;
    /**
     * The chunk size of a file with chunks, in bytes; otherwise 0.
     */
    uint32_t chunk_bytes;
    /**
     * Changes of an open file wait in memory: size and times include them, the digest does not.
     */
    bool has_changes;
} waxseal_file_info_t;

/**
 * An entry of a list.
 */
typedef struct {
    /**
     * The name in the directory; of a walk, the path from the root. Valid until the next call with the list.
     */
    waxseal_slice_t name;
    /**
     * The attributes.
     */
    waxseal_file_info_t info;
} waxseal_file_entry_t;

/**
 * The space that a tree takes.
 */
typedef struct {
    /**
     * Regular files.
     */
    uint64_t files;
    /**
     * Directories, the root of the tree included.
     */
    uint64_t directories;
    /**
     * Symbolic links, named pipes and sockets.
     */
    uint64_t others;
    /**
     * The sum of the sizes of files and links.
     */
    uint64_t bytes;
    /**
     * The sum of the bytes that are stored as chunks, without holes.
     */
    uint64_t allocated;
} waxseal_file_usage_t;

/**
 * The type of a column. A simple type has its number in `kind` and zeros in the other fields.
 */
typedef struct {
    /**
     * One of `WAXSEAL_TYPE_..`, but not null.
     */
    int32_t kind;
    /**
     * The type of the elements of a list, one of `WAXSEAL_TYPE_..`; otherwise 0.
     */
    int32_t element;
    /**
     * The number of digits of a decimal, 1 to 38, also of a list of decimals; otherwise 0.
     */
    uint32_t precision;
    /**
     * The digits of a decimal behind the point, also of a list of decimals; otherwise 0.
     */
    uint32_t scale;
} waxseal_table_type_t;

/**
 * A column of a table.
 */
typedef struct {
    /**
     * The name.
     */
    waxseal_slice_t name;
    /**
     * The type.
     */
    waxseal_table_type_t column_type;
    /**
     * One of `WAXSEAL_ROLE_..`.
     */
    int32_t role;
    /**
     * The name of the group; empty is `default`.
     */
    waxseal_slice_t group;
    /**
     * One of `WAXSEAL_COLUMN_STATE_..`; 0 in the schema of a new table.
     */
    int32_t state;
    /**
     * The time until which a tentatively dropped column can be restored, in microseconds since 1970.
     */
    int64_t deadline_micros;
    /**
     * The id of the column; a dropped column's id is never used again. Ignored in the schema of a new table.
     */
    uint32_t id;
} waxseal_table_column_t;

/**
 * A group of columns.
 */
typedef struct {
    /**
     * The name.
     */
    waxseal_slice_t name;
    /**
     * True if a row has any number of named entries of the group.
     */
    bool is_repeated;
} waxseal_table_group_t;

/**
 * A column of an index.
 */
typedef struct {
    /**
     * The name of the column.
     */
    waxseal_slice_t name;
    /**
     * True for descending order.
     */
    bool is_descending;
} waxseal_table_index_column_t;

/**
 * An index of a table.
 */
typedef struct {
    /**
     * The name.
     */
    waxseal_slice_t name;
    /**
     * Its columns.
     */
    const waxseal_table_index_column_t *columns;
    /**
     * Number of columns.
     */
    size_t column_count;
    /**
     * True if each combination of values has one row.
     */
    bool is_unique;
    /**
     * True if the index has the rows that lack a column.
     */
    bool has_missing;
    /**
     * True while the index is being built and cannot be read. Ignored in the definition of a new index.
     */
    bool is_building;
} waxseal_table_index_t;

/**
 * The schema of a table: written by the caller for a new table, and by the library for one that exists.
 */
typedef struct {
    /**
     * The columns; those of the key in its order. The library puts dropped columns behind the others.
     */
    const waxseal_table_column_t *columns;
    /**
     * Number of columns.
     */
    size_t column_count;
    /**
     * The groups. A new table needs its repeated ones; the others are those of its columns.
     */
    const waxseal_table_group_t *groups;
    /**
     * Number of groups.
     */
    size_t group_count;
    /**
     * The indexes.
     */
    const waxseal_table_index_t *indexes;
    /**
     * Number of indexes.
     */
    size_t index_count;
    /**
     * True if partitions are in the order of a hash of their keys.
     */
    bool is_hashed;
    /**
     * True if rows may have columns that the schema does not name.
     */
    bool has_dynamic_columns;
    /**
     * The version, which each change increases by one. Ignored for a new table.
     */
    uint64_t version;
} waxseal_table_schema_t;

/**
 * Result of a check of a table's indexes. They are clean if the last three numbers are 0.
 */
typedef struct {
    /**
     * Rows that were read.
     */
    uint64_t rows;
    /**
     * Entries that were read, of all indexes.
     */
    uint64_t entries;
    /**
     * Missing entries of existing rows.
     */
    uint64_t missing;
    /**
     * Entries that belong to no row.
     */
    uint64_t stale;
    /**
     * Rows and entries that could not be read.
     */
    uint64_t damaged;
} waxseal_table_index_report_t;

/**
 * An element of a list: a typed value that is no list and no null. `kind` says which of the other fields hold it, as
 * in `waxseal_value_t`.
 */
typedef struct {
    /**
     * One of `WAXSEAL_TYPE_..`.
     */
    int32_t kind;
    /**
     * The digits of a decimal behind the point.
     */
    uint32_t scale;
    /**
     * A truth value, an integer, a date, a timestamp, or the lower half of a decimal.
     */
    int64_t integer;
    /**
     * The upper half of a decimal.
     */
    int64_t high;
    /**
     * A floating-point number.
     */
    double real;
    /**
     * Bytes, text, a JSON document or a UUID.
     */
    waxseal_slice_t bytes;
} waxseal_element_t;

/**
 * A typed value. `kind` says which of the other fields hold it; the library ignores the rest, and returns zeros in
 * them. All zeros are a null.
 */
typedef struct {
    /**
     * One of `WAXSEAL_TYPE_..`.
     */
    int32_t kind;
    /**
     * The digits of a decimal behind the point.
     */
    uint32_t scale;
    /**
     * A truth value, an integer, a date, a timestamp, or the lower half of a decimal.
     */
    int64_t integer;
    /**
     * The upper half of a decimal.
     */
    int64_t high;
    /**
     * A floating-point number.
     */
    double real;
    /**
     * Bytes, text, a JSON document or a UUID.
     */
    waxseal_slice_t bytes;
    /**
     * The elements of a list, which have one type.
     */
    const waxseal_element_t *items;
    /**
     * Number of elements of a list.
     */
    size_t item_count;
} waxseal_value_t;

/**
 * Values: a key or the beginning of one, a bound of a range, or the values of a condition. Null with count 0 are none.
 */
typedef struct {
    /**
     * The first value.
     */
    const waxseal_value_t *values;
    /**
     * Number of values.
     */
    size_t count;
} waxseal_value_list_t;

/**
 * One end of a range of values. All zeros mean no bound.
 */
typedef struct {
    /**
     * One of `WAXSEAL_UNBOUNDED`, `WAXSEAL_INCLUDED`, `WAXSEAL_EXCLUDED`.
     */
    int32_t kind;
    /**
     * Values of the columns; the first column is compared first.
     */
    waxseal_value_list_t values;
} waxseal_value_bound_t;

/**
 * A range of values of the columns behind a prefix, least first, also of a descending column. All zeros mean all.
 */
typedef struct {
    /**
     * The lower end.
     */
    waxseal_value_bound_t lower;
    /**
     * The upper end.
     */
    waxseal_value_bound_t upper;
} waxseal_value_range_t;

/**
 * A condition, or an operator on preceding conditions.
 */
typedef struct {
    /**
     * One of `WAXSEAL_CONDITION_..`.
     */
    int32_t kind;
    /**
     * The name of the column of a condition.
     */
    waxseal_slice_t column;
    /**
     * The value of a comparison, or the values of `WAXSEAL_CONDITION_IN`.
     */
    waxseal_value_list_t values;
} waxseal_condition_t;

/**
 * A filter, in postfix order: `a`, `b`, `WAXSEAL_CONDITION_AND`, `c`, `WAXSEAL_CONDITION_OR` is (a and b) or c. All
 * zeros mean no filter. Nulls count as in SQL: a comparison with a null is neither true nor false.
 */
typedef struct {
    /**
     * The first condition.
     */
    const waxseal_condition_t *conditions;
    /**
     * Number of conditions, at most `WAXSEAL_MAX_CONDITIONS`.
     */
    size_t count;
} waxseal_filter_t;

/**
 * Which rows and columns to read. All zeros mean all rows, and so does a null pointer to a select.
 */
typedef struct {
    /**
     * Reads the rows, and the schema, as the snapshot sees them; null is the current state.
     */
    const waxseal_snapshot_t *snapshot;
    /**
     * Reads the rows of the index of this name, in its order; `prefix` and `range` are then of its columns. Empty
     * reads the rows in the order of their keys.
     */
    waxseal_slice_t index;
    /**
     * The rows whose key begins with these values.
     */
    waxseal_value_list_t prefix;
    /**
     * The rows whose next columns of the key are in this range.
     */
    waxseal_value_range_t range;
    /**
     * The names of the columns to return, or of repeated groups; null returns all.
     */
    const waxseal_slice_t *columns;
    /**
     * Number of names.
     */
    size_t column_count;
    /**
     * The rows that match this filter.
     */
    waxseal_filter_t filter;
    /**
     * The rows behind this position, which `waxseal_table_page` has returned; empty begins with the first row.
     */
    waxseal_slice_t after;
    /**
     * The largest number of rows; 0 is no limit, unless `has_limit` is true.
     */
    uint64_t limit;
    /**
     * Reads from the greatest key to the least.
     */
    bool is_reverse;
    /**
     * Permits a range over hashed partitions, which reads every row.
     */
    bool is_full_scan;
    /**
     * Makes a `limit` of 0 a limit: the select has no rows, and reads none.
     */
    bool has_limit;
} waxseal_table_select_t;

/**
 * A column of a row with its value.
 *
 * A column of a repeated group also has the names of the group and of the entry. An entry without columns is one cell
 * with an empty name of the column and a null; among the changes of a row that cell removes the entry.
 */
typedef struct {
    /**
     * The name of the column.
     */
    waxseal_slice_t column;
    /**
     * The name of a repeated group; null for columns of the row.
     */
    waxseal_slice_t group;
    /**
     * The name of an entry of the group.
     */
    waxseal_slice_t entry;
    /**
     * The value. Among the changes of a row, a null removes the column; in a row it counts as absent.
     */
    waxseal_value_t value;
} waxseal_cell_t;

/**
 * A row, or changes of a row: cells in any order. Null with count 0 is no row. A row with two cells of one column is
 * `WAXSEAL_INVALID`.
 */
typedef struct {
    /**
     * The first cell.
     */
    const waxseal_cell_t *cells;
    /**
     * Number of cells.
     */
    size_t count;
} waxseal_cells_t;

/**
 * A step of a change of a schema. Fields that a step does not need are ignored.
 */
typedef struct {
    /**
     * One of `WAXSEAL_ALTER_..`.
     */
    int32_t kind;
    /**
     * The name of the column, group or index.
     */
    waxseal_slice_t name;
    /**
     * The new name of a column.
     */
    waxseal_slice_t new_name;
    /**
     * The group of a new column.
     */
    waxseal_slice_t group;
    /**
     * The type of a column.
     */
    waxseal_table_type_t column_type;
} waxseal_table_step_t;

/**
 * A change of a schema: steps that take effect together.
 */
typedef struct {
    /**
     * The first step.
     */
    const waxseal_table_step_t *steps;
    /**
     * Number of steps.
     */
    size_t count;
} waxseal_table_alteration_t;

/**
 * When the columns of a group expire, if that is before their row.
 */
typedef struct {
    /**
     * The name of the group; dynamic columns are the group `dynamic`.
     */
    waxseal_slice_t group;
    /**
     * The time, in microseconds since 1970; 0 for none.
     */
    uint64_t expires_at_micros;
    /**
     * The time to live in microseconds; 0 for none.
     */
    uint64_t expires_in_micros;
} waxseal_group_expiry_t;

/**
 * Options of a write of a row. All zeros are the defaults, and so is a null pointer to options.
 */
typedef struct {
    /**
     * One of `WAXSEAL_DURABILITY_..`; 0 for a write of a transaction, whose commit has a durability.
     */
    int32_t durability;
    /**
     * The time at which the row expires, in microseconds since 1970; 0 for never.
     */
    uint64_t expires_at_micros;
    /**
     * The row's time to live in microseconds; 0 for no end.
     */
    uint64_t expires_in_micros;
    /**
     * Groups that expire before their row.
     */
    const waxseal_group_expiry_t *groups;
    /**
     * Number of these groups.
     */
    size_t group_count;
} waxseal_row_options_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Creates an error for a callback that fails. The callback writes it to its error argument, and the library destroys
 * it. `message` need not be valid UTF-8. `waxseal_error_code` returns `code`. Returns null if no object can be
 * allocated.
 *
 * Thread-safe. The caller owns the error, and hands it to the library or frees it with `waxseal_error_destroy`.
 */
waxseal_error_t *waxseal_error_create(int32_t code, const uint8_t *message, size_t message_len);

/**
 * The status of the failed call; `WAXSEAL_OK` for null and for a destroyed error.
 *
 * Thread-safe.
 */
int32_t waxseal_error_code(const waxseal_error_t *error);

/**
 * The message for people; empty for null and for a destroyed error. Never null. Valid until the error is destroyed.
 *
 * Thread-safe.
 */
const char *waxseal_error_message(const waxseal_error_t *error);

/**
 * The name of the damaged file in the store's directory; empty if no file is damaged. Never null. Valid until the
 * error is destroyed.
 *
 * Thread-safe.
 */
const char *waxseal_error_file(const waxseal_error_t *error);

/**
 * The column family of the affected records; empty if it is unknown. Never null. Valid until the error is destroyed.
 *
 * Thread-safe.
 */
const char *waxseal_error_family(const waxseal_error_t *error);

/**
 * The offset of the damaged block or frame in its file; 0 if the error is not about a file.
 *
 * Thread-safe.
 */
uint64_t waxseal_error_offset(const waxseal_error_t *error);

/**
 * The kind of damage, one of `WAXSEAL_VERDICT_..`; `WAXSEAL_VERDICT_NONE` if nothing is damaged.
 *
 * Thread-safe.
 */
int32_t waxseal_error_verdict(const waxseal_error_t *error);

/**
 * The smallest and the largest key that may be affected. `WAXSEAL_NOT_FOUND` if they are unknown. Valid until the
 * error is destroyed.
 *
 * Thread-safe.
 */
int32_t waxseal_error_key_range(const waxseal_error_t *error, waxseal_slice_t *smallest, waxseal_slice_t *largest);

/**
 * The recorded checksum, and the checksum computed from the stored bytes. `WAXSEAL_NOT_FOUND` if the error is not a
 * checksum mismatch.
 *
 * Thread-safe.
 */
int32_t waxseal_error_sums(const waxseal_error_t *error, uint64_t *expected, uint64_t *found);

/**
 * True if the device is full or the quota is used up: the same call may succeed once space is free.
 *
 * Thread-safe.
 */
bool waxseal_error_is_out_of_space(const waxseal_error_t *error);

/**
 * The error number of POSIX, as on Linux, if the call was one of a file store; 0 for other errors.
 *
 * Thread-safe.
 */
int32_t waxseal_error_errno(const waxseal_error_t *error);

/**
 * Destroys an error. Null is allowed; a destroyed error is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_error_destroy(waxseal_error_t *error);

/**
 * Number of live handles, of all kinds together. A program that destroys everything it creates ends with 0.
 *
 * Thread-safe.
 */
size_t waxseal_live_handles(void);

/**
 * The `WAXSEAL_ABI_VERSION` of the library. A program compiled with a smaller version runs with this library.
 *
 * Thread-safe.
 */
uint32_t waxseal_abi_version(void);

/**
 * The version of the library, as text: `0.1.0`. Valid as long as the library is loaded.
 *
 * Thread-safe.
 */
const char *waxseal_version(void);

/**
 * Creates a bytes object with a copy of the data, for a callback that returns one.
 *
 * Thread-safe. On success the caller owns `*bytes`, and hands it to the library or frees it with
 * `waxseal_bytes_destroy`. Errors: `WAXSEAL_INVALID` for data that is null with a length or longer than a value.
 */
int32_t waxseal_bytes_create(const uint8_t *data, size_t data_len, waxseal_bytes_t **bytes, waxseal_error_t **error);

/**
 * The bytes, followed by a zero byte that the length does not count; empty for null and for a destroyed object. Valid
 * until the object is destroyed.
 *
 * Thread-safe.
 */
waxseal_slice_t waxseal_bytes_slice(const waxseal_bytes_t *bytes);

/**
 * Destroys a bytes object. Null is allowed; a destroyed object is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_bytes_destroy(waxseal_bytes_t *bytes);

/**
 * Sets the compaction filter of the family. Compactions call it for the newest value of a key, if no snapshot sees
 * this value and the key has no newer record. Flushes and moves of whole tables do not call it; `waxseal_compact`
 * calls it for all values. A dropped key stays deleted: no older value becomes visible.
 *
 * The store records the name, UTF-8, of 1 to 255 bytes; another filter may replace it at any open. A later open needs
 * the filter here, or by `waxseal_options_add_compaction_filter`: without it, compactions keep all values. If
 * `by_key`, the filter gets no values, and values of blob files are not read for it. Unless `destroy` is null, it
 * destroys `context` once the options and all stores that use them are gone, or if this call fails.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a name that is not UTF-8, and for a null function. An invalid
 * name is an error of the open.
 */
int32_t waxseal_family_options_set_compaction_filter(waxseal_family_options_t *options,
                                                     const uint8_t *name,
                                                     size_t name_len,
                                                     waxseal_filter_fn filter,
                                                     bool by_key,
                                                     void *context,
                                                     waxseal_destroy_fn destroy,
                                                     waxseal_error_t **error);

/**
 * Adds a compaction filter for families of the stores opened with these options, as of
 * `waxseal_family_options_set_compaction_filter`. Families for which the store has recorded this name apply it.
 *
 * One thread at a time. Errors: as of `waxseal_family_options_set_compaction_filter`; an unknown name is none.
 */
int32_t waxseal_options_add_compaction_filter(waxseal_options_t *options,
                                              const uint8_t *name,
                                              size_t name_len,
                                              waxseal_filter_fn filter,
                                              bool by_key,
                                              void *context,
                                              waxseal_destroy_fn destroy,
                                              waxseal_error_t **error);

/**
 * Adds a key order for families of the stores opened with these options. The store records the order's name, UTF-8,
 * and finds the comparator by it. A store with a family in a custom order cannot be opened without that order's
 * comparator. If `equal_means_same_bytes` is false, keys with different bytes may be equal, and filters are off.
 * Unless `destroy` is null, it destroys `context` once the options and all these stores are gone, or if this call
 * fails.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a name that is empty or not UTF-8, and for a null function.
 */
int32_t waxseal_options_add_comparator(waxseal_options_t *options,
                                       const uint8_t *name,
                                       size_t name_len,
                                       waxseal_compare_fn compare,
                                       bool equal_means_same_bytes,
                                       void *context,
                                       waxseal_destroy_fn destroy,
                                       waxseal_error_t **error);

/**
 * Sets the key order, as of `waxseal_options_add_comparator`, of families created with these options. The options of a
 * later open of the store need the comparator too.
 *
 * One thread at a time. Errors: as of `waxseal_options_add_comparator`.
 */
int32_t waxseal_family_options_set_comparator(waxseal_family_options_t *options,
                                              const uint8_t *name,
                                              size_t name_len,
                                              waxseal_compare_fn compare,
                                              bool equal_means_same_bytes,
                                              void *context,
                                              waxseal_destroy_fn destroy,
                                              waxseal_error_t **error);

/**
 * Takes back the answer of the comparison that runs on this thread: the store asks its comparator again about the same two keys. After 16
 * answers that were taken back the comparator has failed, as by `WAXSEAL_COMPARE_FAILED`.
 *
 * For languages in which a function may be left without an answer, as by the handler of a signal, and returns any number then.
 * Thread-safe: it is for the calling thread, that of the comparison, before it returns, and without effect elsewhere. Never fails.
 */
int32_t waxseal_compare_again(void);

/**
 * Sets the options of a family, which replace those recorded in the store. The open creates the family if it does not
 * exist. `family_options` may be null, and is copied in its current state.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a name that is not UTF-8.
 */
int32_t waxseal_options_add_family(waxseal_options_t *options,
                                   const uint8_t *name,
                                   size_t name_len,
                                   const waxseal_family_options_t *family_options,
                                   waxseal_error_t **error);

/**
 * Prefix of a key that filters know besides the whole key, so that an iterator whose bounds are within one prefix
 * skips the tables without a key of it: `fixed:8` for the first eight bytes of a key, `delimited:2f:1` for all bytes
 * through the first `/` (in hexadecimal digits), or an empty text for none. Recorded in the store. Default: none.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for another text.
 */
int32_t waxseal_family_options_set_prefix_extractor(waxseal_family_options_t *options,
                                                    const uint8_t *text,
                                                    size_t text_len,
                                                    waxseal_error_t **error);

/**
 * Creates family options with all defaults.
 *
 * Thread-safe. On success the caller owns `*options` and frees it with `waxseal_family_options_destroy`. Errors:
 * `WAXSEAL_INVALID` if `options` is null.
 */
int32_t waxseal_family_options_create(waxseal_family_options_t **options, waxseal_error_t **error);

/**
 * Target size of a data block before compression, in bytes, 64 to 1 MiB. Default 4 KiB.
 *
 * One thread at a time. Returns `WAXSEAL_OK`, or a status about the handle; so do all setters of family options. The
 * values are validated when a family is created with them.
 */
int32_t waxseal_family_options_set_block_bytes(waxseal_family_options_t *options, size_t bytes);

/**
 * Records between restart points of a block, 1 to 255. Default 16.
 *
 * One thread at a time.
 */
int32_t waxseal_family_options_set_restart_interval(waxseal_family_options_t *options, size_t records);

/**
 * Filter bits per key, 0 (no filter) to 32. Default 10.
 *
 * One thread at a time.
 */
int32_t waxseal_family_options_set_filter_bits(waxseal_family_options_t *options, size_t bits);

/**
 * Compression, one of `WAXSEAL_COMPRESSION_..`. Default LZ4.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown number.
 */
int32_t waxseal_family_options_set_compression(waxseal_family_options_t *options, int32_t number);

/**
 * Compression of the bottom level, which holds most of the data and is written least often, one of
 * `WAXSEAL_COMPRESSION_..`. Default: the compression of the other levels.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown number.
 */
int32_t waxseal_family_options_set_bottom_compression(waxseal_family_options_t *options, int32_t number);

/**
 * Target size of a table, in bytes. Default 64 MiB.
 *
 * One thread at a time.
 */
int32_t waxseal_family_options_set_table_bytes(waxseal_family_options_t *options, uint64_t bytes);

/**
 * Size of the first level below level 0 that holds data, in bytes. Default 256 MiB.
 *
 * One thread at a time.
 */
int32_t waxseal_family_options_set_level_base_bytes(waxseal_family_options_t *options, uint64_t bytes);

/**
 * Size ratio of each level to the level above. Default 10.
 *
 * One thread at a time.
 */
int32_t waxseal_family_options_set_fanout(waxseal_family_options_t *options, uint64_t times);

/**
 * Number of level-0 tables that triggers a compaction. Default 4.
 *
 * One thread at a time.
 */
int32_t waxseal_family_options_set_level0_tables(waxseal_family_options_t *options, size_t tables);

/**
 * Values of at least this many bytes are stored in blob files, where they are written once; 0 means no value is.
 * Recorded in the store. Default 4 KiB.
 *
 * One thread at a time.
 */
int32_t waxseal_family_options_set_large_value_bytes(waxseal_family_options_t *options, size_t bytes);

/**
 * Default time to live, in microseconds, of records put without an expiry time; 0 means no expiry. Records that arrive
 * with their seal, by ingestion or from another store, keep their own expiry. Recorded in the store. Default 0.
 *
 * One thread at a time.
 */
int32_t waxseal_family_options_set_default_ttl(waxseal_family_options_t *options, uint64_t micros);

/**
 * Position of the seals in a block, one of `WAXSEAL_SEALS_..`. Recorded in the store. Default
 * `WAXSEAL_SEALS_BY_CODEC`.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown layout.
 */
int32_t waxseal_family_options_set_seals(waxseal_family_options_t *options, int32_t number);

/**
 * How point reads are verified, one of `WAXSEAL_VERIFY_..`. Only `WAXSEAL_VERIFY_SAMPLED` uses `one_in`. Default
 * `WAXSEAL_VERIFY_ALWAYS`.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown policy.
 */
int32_t waxseal_family_options_set_verify_reads(waxseal_family_options_t *options, int32_t policy, uint32_t one_in);

/**
 * How iterators are verified, likewise. Default `WAXSEAL_VERIFY_ALWAYS`.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown policy.
 */
int32_t waxseal_family_options_set_verify_scans(waxseal_family_options_t *options, int32_t policy, uint32_t one_in);

/**
 * Destroys family options. Null is allowed; destroyed options are `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_family_options_destroy(waxseal_family_options_t *options);

/**
 * Sets the merge operator of the family to one of the engine's, one of `WAXSEAL_MERGE_..`. `separator` is for
 * `WAXSEAL_MERGE_APPEND`, and empty otherwise. The store records the operator's name: a later open needs no options
 * for it, and refuses another operator. Default: none, and the family refuses operands.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown number, and for a separator of another operator.
 */
int32_t waxseal_family_options_set_merge_operator(waxseal_family_options_t *options,
                                                  int32_t number,
                                                  const uint8_t *separator,
                                                  size_t separator_len,
                                                  waxseal_error_t **error);

/**
 * Sets the merge operator of the family to a callback. The store records the name, UTF-8, of at most 255 bytes and not
 * beginning with `wax.`. A later open needs the operator here, or by `waxseal_options_add_merge_operator`: without it,
 * reads of keys with operands fail. Unless `destroy` is null, it destroys `context` once the options and all stores
 * that use them are gone, or if this call fails.
 *
 * If `is_associative`, the store may combine any two neighbors before it knows the value below them: the callback then
 * gets the older value or operand as `base`, never null, and one operand. The first operand of an absent key becomes
 * its value. Otherwise it gets the true base and all operands.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a name that is not UTF-8, and for a null function. An invalid
 * name is an error of the open.
 */
int32_t waxseal_family_options_set_custom_merge_operator(waxseal_family_options_t *options,
                                                         const uint8_t *name,
                                                         size_t name_len,
                                                         waxseal_merge_fn merge,
                                                         bool is_associative,
                                                         void *context,
                                                         waxseal_destroy_fn destroy,
                                                         waxseal_error_t **error);

/**
 * Adds a merge operator for families of the stores opened with these options, as of
 * `waxseal_family_options_set_custom_merge_operator`. Families for which the store has recorded this name use it.
 *
 * One thread at a time. Errors: as of `waxseal_family_options_set_custom_merge_operator`; an unknown name is none.
 */
int32_t waxseal_options_add_merge_operator(waxseal_options_t *options,
                                           const uint8_t *name,
                                           size_t name_len,
                                           waxseal_merge_fn merge,
                                           bool is_associative,
                                           void *context,
                                           waxseal_destroy_fn destroy,
                                           waxseal_error_t **error);

/**
 * Creates options with all defaults.
 *
 * Thread-safe. On success the caller owns `*options` and frees it with `waxseal_options_destroy`. Errors:
 * `WAXSEAL_INVALID` if `options` is null.
 */
int32_t waxseal_options_create(waxseal_options_t **options, waxseal_error_t **error);

/**
 * Capacity of the block cache, in bytes. Default 256 MiB.
 *
 * One thread at a time. Returns `WAXSEAL_OK`, or a status about the handle; so do all option setters. The open
 * validates the values.
 */
int32_t waxseal_options_set_cache_bytes(waxseal_options_t *options, size_t bytes);

/**
 * Size at which a family's memtable is frozen and flushed, in bytes. Default 64 MiB.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_memtable_bytes(waxseal_options_t *options, size_t bytes);

/**
 * One memory budget for the whole store, in bytes: memtables, cached blocks, indexes and filters, the log's newest
 * bytes, and buffers of background jobs. Objects that callers hold do not count. Default 0: no budget.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_memory_bytes(waxseal_options_t *options, size_t bytes);

/**
 * Target size of a data block, in bytes, for `default` and for families created without options. Default 4 KiB.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_block_bytes(waxseal_options_t *options, size_t bytes);

/**
 * Compression for `default` and for families created without options, one of `WAXSEAL_COMPRESSION_..`. Default LZ4.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown number.
 */
int32_t waxseal_options_set_compression(waxseal_options_t *options, int32_t number);

/**
 * Durability of writes that request `WAXSEAL_DURABILITY_DEFAULT`, one of `WAXSEAL_DURABILITY_..`. Default
 * `WAXSEAL_DURABILITY_OS`.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown number.
 */
int32_t waxseal_options_set_durability(waxseal_options_t *options, int32_t number);

/**
 * Number of compaction threads, in addition to the log thread and the flush thread. Default 1.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_background_threads(waxseal_options_t *options, size_t threads);

/**
 * Whether a missing store is created. Default true.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_create_if_missing(waxseal_options_t *options, bool create);

/**
 * Whether a store may be created in a directory that holds other files. Default false. Files of another engine, and
 * files with names that a store would use, are refused either way.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_beside_other_files(waxseal_options_t *options, bool allow);

/**
 * Permission mode of the files that the store creates, less the bits of the process's umask, as in `0600`. A directory
 * that it creates can be searched by everyone whom the mode lets read. Existing files keep their mode. Default:
 * everything that the umask leaves. The open refuses a mode under which the owner cannot read and write.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_file_mode(waxseal_options_t *options, uint32_t mode);

/**
 * The format level of a store that is created, 1 or 2; `waxseal_upgrade` describes the levels. Default: the newest. An
 * existing store keeps its level.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_format_level(waxseal_options_t *options, uint32_t level);

/**
 * Whether the open fails if the store already exists. Default false.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_error_if_exists(waxseal_options_t *options, bool refuse);

/**
 * Whether the log's newest bytes are kept in a memory-mapped file, where the file system allows it. Default true.
 * False makes every commit a `write` system call.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_wal_mapped(waxseal_options_t *options, bool mapped);

/**
 * Opens the store without seals, registry and log of events. Default false.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_plain(waxseal_options_t *options, bool plain);

/**
 * Whether the store has a registry and a log of events. Default true; both cost nothing until a target is registered.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_registry(waxseal_options_t *options, bool registry);

/**
 * Opens the store even if acknowledged commits at the end of the log are damaged: these commits are set aside and
 * reported. Default false: such an open is `WAXSEAL_CORRUPTION`.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_accept_loss(waxseal_options_t *options, bool accept);

/**
 * How point reads are checked against the seals, one of `WAXSEAL_VERIFY_..`. Only `WAXSEAL_VERIFY_SAMPLED` uses
 * `one_in`. Default `WAXSEAL_VERIFY_ALWAYS`.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown policy.
 */
int32_t waxseal_options_set_verify_reads(waxseal_options_t *options, int32_t policy, uint32_t one_in);

/**
 * How iterators are checked against the seals, likewise. Default `WAXSEAL_VERIFY_ALWAYS`.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown policy.
 */
int32_t waxseal_options_set_verify_scans(waxseal_options_t *options, int32_t policy, uint32_t one_in);

/**
 * Destroys options. Null is allowed; destroyed options are `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_options_destroy(waxseal_options_t *options);

/**
 * Adds a property that is collected of each table and blob file of the family: a set of items by name, for
 * `waxseal_tables_with` and `waxseal_compact_with`. A family has at most 16 properties. `name` is UTF-8, of 1 to 255
 * bytes. Names and functions are not stored: a file that is written without the function has no such property. Unless
 * `destroy` is null, it destroys `context` once the options and all stores that use them are gone, or if this call
 * fails.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a name that is not UTF-8, and for a null function. An invalid
 * name is an error of the open, or of the family's creation.
 */
int32_t waxseal_family_options_add_table_property(waxseal_family_options_t *options,
                                                  const uint8_t *name,
                                                  size_t name_len,
                                                  waxseal_property_fn property,
                                                  void *context,
                                                  waxseal_destroy_fn destroy,
                                                  waxseal_error_t **error);

/**
 * Adds an item to the property whose function is running on this thread. Items of a file that need more than 4,096
 * bytes together leave the file without the property. So does an invalid item, a null one with a length, whatever the
 * function returns: for languages in which a function may be left without an answer, as by the handler of a signal.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` outside of such a function, and for an invalid item.
 */
int32_t waxseal_property_add_item(const uint8_t *item, size_t item_len, waxseal_error_t **error);

/**
 * Maximum number of table and blob files that are open at the same time. Above it, the least recently read file is
 * closed, and its next read reopens it. Default 0: a limit that leaves half of the process's descriptor limit to the
 * application.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_open_tables(waxseal_options_t *options, size_t tables);

/**
 * Memory for indexes and filters of open tables, in bytes. Above it, tables without recent reads drop theirs and load
 * them again when needed. Default 1 GiB.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_index_bytes(waxseal_options_t *options, size_t bytes);

/**
 * Maximum number of threads for one large compaction, 1 to 64. Default 2.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_subcompactions(waxseal_options_t *options, size_t threads);

/**
 * Limits the bytes per second that flushes and compactions write together. Default 0: no limit.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_background_bytes_per_second(waxseal_options_t *options, uint64_t bytes);

/**
 * Bytes of replaced table files, the newest ones, that are kept for repairs. Default 0: they are deleted at once.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_trash_bytes(waxseal_options_t *options, uint64_t bytes);

/**
 * Size of a log segment, in bytes, a multiple of 4096, at least 16 KiB. Default 16 MiB. If half of `memtable_bytes` is
 * smaller, segments have that size, but at least 1 MiB.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_segment_bytes(waxseal_options_t *options, uint64_t bytes);

/**
 * Size of the file that holds the newest bytes of the log, the log's tail ring; a multiple of 4096, at least 16 KiB.
 * Default 4 MiB. Not the event ring of `waxseal_options_set_ring`.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_ring_bytes(waxseal_options_t *options, size_t bytes);

/**
 * The tail ring is drained to its segment each time this many bytes have accumulated; at most half of its size.
 * Default 256 KiB.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_drain_bytes(waxseal_options_t *options, size_t bytes);

/**
 * Size at which the manifest is rewritten, in bytes. Default 4 MiB.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_manifest_bytes(waxseal_options_t *options, uint64_t bytes);

/**
 * Number of engine events in the manifest at which the oldest half moves to the log of events. Default 4,096.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_chronicle_lines(waxseal_options_t *options, size_t lines);

/**
 * Maximum number of engine events that the log keeps, the newest ones, if they are younger than
 * `waxseal_options_set_engine_event_age`. A later flush drops an event beyond either limit. Events that wrote a live
 * table or belong to an open quarantine stay. Events of users do not count and are never dropped. Default 10,000;
 * `SIZE_MAX` keeps all.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_engine_events(waxseal_options_t *options, size_t events);

/**
 * Maximum age of engine events, in microseconds, as described for `waxseal_options_set_engine_events`. Default 30
 * days; `UINT64_MAX` means no age limit.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_engine_event_age(waxseal_options_t *options, uint64_t micros);

/**
 * Bytes of the newest log that are kept for the change feed, without a cursor. Default 0: what cursors and readers
 * need.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_keep_log_bytes(waxseal_options_t *options, uint64_t bytes);

/**
 * Age up to which log is kept for the change feed, in microseconds, whatever `waxseal_options_set_keep_log_bytes`.
 * Default 0; `UINT64_MAX` keeps all.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_keep_log_age(waxseal_options_t *options, uint64_t micros);

/**
 * Maximum bytes of log that cursors and readers of the change feed keep. A cursor that needs older log has fallen
 * behind. Default 16 GiB.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_cursor_log_bytes(waxseal_options_t *options, uint64_t bytes);

/**
 * Maximum age of log that cursors and readers of the change feed keep, in microseconds. Default `UINT64_MAX`: no age
 * limit.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_cursor_log_age(waxseal_options_t *options, uint64_t micros);

/**
 * Creates write options with all defaults.
 *
 * Thread-safe. On success the caller owns `*options` and frees it with `waxseal_write_options_destroy`. Errors:
 * `WAXSEAL_INVALID` if `options` is null.
 */
int32_t waxseal_write_options_create(waxseal_write_options_t **options, waxseal_error_t **error);

/**
 * Sets the durability of the write: one of `WAXSEAL_DURABILITY_..`.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown number.
 */
int32_t waxseal_write_options_set_durability(waxseal_write_options_t *options, int32_t number);

/**
 * Adds a label to the record: a name with a text, both UTF-8. Of several labels with one name, the last wins.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for text that is not UTF-8.
 */
int32_t waxseal_write_options_add_label(waxseal_write_options_t *options,
                                        const uint8_t *name,
                                        size_t name_len,
                                        const uint8_t *text,
                                        size_t text_len,
                                        waxseal_error_t **error);

/**
 * Logs the put as `Row.Insert` instead of `Row.Update`. This affects the event only: the put overwrites like any
 * other, and the store does not check whether the key existed.
 *
 * One thread at a time.
 */
int32_t waxseal_write_options_set_log_as_insert(waxseal_write_options_t *options);

/**
 * Destroys write options. Null is allowed; destroyed options are `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_write_options_destroy(waxseal_write_options_t *options);

/**
 * Opens the store in a directory, or creates one there. `options` may be null. Only one process at a time may have a
 * store open for writing.
 *
 * Thread-safe. On success the caller owns `*db` and closes it with `waxseal_close`. Errors: `WAXSEAL_LOCKED`, whose
 * message names the holder, `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_FORMAT_TOO_NEW`; `WAXSEAL_INVALID` for
 * invalid options.
 */
int32_t waxseal_open(const uint8_t *path,
                     size_t path_len,
                     const waxseal_options_t *options,
                     waxseal_db_t **db,
                     waxseal_error_t **error);

/**
 * Opens a store read-only, even while another process writes it. Takes no lock and writes nothing. Reads see the state
 * at the open until `waxseal_refresh`. `options` may be null.
 *
 * Thread-safe. On success the caller owns `*db` and closes it with `waxseal_close`. Errors: as of `waxseal_open`,
 * without `WAXSEAL_LOCKED`.
 */
int32_t waxseal_open_read_only(const uint8_t *path,
                               size_t path_len,
                               const waxseal_options_t *options,
                               waxseal_db_t **db,
                               waxseal_error_t **error);

/**
 * Opens a new store in memory, which is discarded when it is closed. `options` may be null.
 *
 * Thread-safe. On success the caller owns `*db` and closes it with `waxseal_close`.
 */
int32_t waxseal_open_memory(const waxseal_options_t *options, waxseal_db_t **db, waxseal_error_t **error);

/**
 * Closes the store and destroys its handle, whatever status the call returns. If the status is `WAXSEAL_OK`, every
 * acknowledged commit is durable. Families, snapshots, batches and iterators of the store return `WAXSEAL_CLOSED` from
 * then on, and still have to be destroyed. Null is allowed.
 *
 * Releases the store's threads, descriptors, mappings, memtables and cached blocks, even while other handles exist. A
 * running call, a bytes object and an Arrow batch keep the memory that they use. An iterator keeps its memtables and
 * the indexes of its tables until it is destroyed.
 *
 * Thread-safe: concurrent calls finish or return `WAXSEAL_CLOSED`. A second call returns `WAXSEAL_OK` and does not
 * wait for the first. Errors: `WAXSEAL_IO`, `WAXSEAL_HALTED` if a commit could not be made durable.
 */
int32_t waxseal_close(waxseal_db_t *db, waxseal_error_t **error);

/**
 * Removes a store and all its data. Refuses a directory that holds no store, and a store that is open.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID`, `WAXSEAL_LOCKED`, `WAXSEAL_IO`.
 */
int32_t waxseal_destroy_store(const uint8_t *path, size_t path_len, waxseal_error_t **error);

/**
 * Makes every acknowledged commit durable: none of them can be lost once this call has returned `WAXSEAL_OK`.
 *
 * Thread-safe. Errors: `WAXSEAL_IO`, `WAXSEAL_HALTED`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_sync(waxseal_db_t *db, waxseal_error_t **error);

/**
 * Writes all memtables to tables and waits until they are written.
 *
 * Thread-safe. Errors: `WAXSEAL_IO`, `WAXSEAL_HALTED`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_flush(waxseal_db_t *db, waxseal_error_t **error);

/**
 * Flushes, then compacts until three conditions hold. No compaction is due. The levels above the lowest hold at most
 * an eighth of the lowest level's bytes (1 / (`fanout` - 2) with the default fanout of 10), since all their records
 * may be newer versions. Garbage in blob files is at most an eighth of the live data. Then removes the log's spare
 * segments. Meant for the end of a bulk load: compactions that are not due are skipped as soon as other threads write.
 *
 * Thread-safe. Errors: as of `waxseal_flush`.
 */
int32_t waxseal_settle(waxseal_db_t *db, waxseal_error_t **error);

/**
 * Returns how far back the records reach that the store holds outside of its current tables and blob files. With it a
 * caller shows that data that it has removed from all tables is in no file of the store any more: it calls this
 * function, looks at the tables (`waxseal_tables_with`), and calls it again.
 *
 * Thread-safe. Errors: `WAXSEAL_READ_ONLY`, `WAXSEAL_HALTED`, `WAXSEAL_CORRUPTION` of a log segment that the change
 * feed keeps, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_oldest_seqnos(waxseal_db_t *db, waxseal_oldest_seqnos_t *oldest, waxseal_error_t **error);

/**
 * Flushes all memtables and erases old records from the files of the log: segments, the files that are kept for future
 * writes, and the tail ring. The log that the change feed keeps stays, and so do replaced tables that `trash_bytes`
 * keeps. All commits before the call are durable when it returns, and erased records do not come back after a loss of
 * power.
 *
 * Thread-safe. Errors: as of `waxseal_flush`.
 */
int32_t waxseal_erase_log(waxseal_db_t *db, waxseal_error_t **error);

/**
 * Creates a copy of the store's current state in a new directory. After a crash the copy is complete or absent. Tables
 * are shared by hard links where the file system supports them.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` if the directory is not empty, `WAXSEAL_LOCKED` while another checkpoint is
 * written there, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_checkpoint(waxseal_db_t *db, const uint8_t *path, size_t path_len, waxseal_error_t **error);

/**
 * Catches up with the writing process, registrations included. Affects stores opened by `waxseal_open_read_only`;
 * other stores are unchanged.
 *
 * Thread-safe. Errors: `WAXSEAL_CORRUPTION`, also if the registrations cannot be read, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_refresh(waxseal_db_t *db, waxseal_error_t **error);

/**
 * `WAXSEAL_OK` if the store was opened read-only, `WAXSEAL_NOT_FOUND` if it may be written.
 *
 * Thread-safe.
 */
int32_t waxseal_is_read_only(const waxseal_db_t *db, waxseal_error_t **error);

/**
 * Sets the interrupt function of the calling thread's long calls; null removes it. Long calls are those that flush,
 * compact, settle, wait out a write stall, verify or repair a store, count, copy, export or import.
 * A wait for the device itself is not interrupted. The work that an interrupted call had finished stays, and the call
 * may be repeated.
 *
 * Thread-safe: each thread sets its own function. `function` and `context` must stay valid until they are replaced or
 * the thread ends. Never fails.
 */
int32_t waxseal_set_interrupt(waxseal_interrupt_fn function, void *context);

/**
 * Returns the options of a store as of now as one JSON object: their names with numbers, words, true, false or null.
 * Times are in microseconds.
 *
 * Thread-safe. On success the caller owns `*text` and frees it with `waxseal_bytes_destroy`. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_options_json(const waxseal_db_t *db, waxseal_bytes_t **text, waxseal_error_t **error);

/**
 * Changes an option of a store while it is open. Name and value are texts as of `waxseal_options_json`:
 * `background_bytes_per_second`, `cache_bytes`, `chronicle_lines`, `cursor_log_age_micros`, `cursor_log_bytes`,
 * `durability` ("buffered", "os" or "sync"), `engine_events`, `engine_event_age_micros`, `manifest_bytes`,
 * `subcompactions` or `trash_bytes`. The store does not record it.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` for another name, for an invalid value, and for `cache_bytes` of a cache that
 * others may share; `WAXSEAL_CLOSED`.
 */
int32_t waxseal_set_option(waxseal_db_t *db,
                           const uint8_t *name,
                           size_t name_len,
                           const uint8_t *value,
                           size_t value_len,
                           waxseal_error_t **error);

/**
 * Returns the format level of a store: what its files may hold. See `waxseal_upgrade`.
 *
 * Thread-safe. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_format_level(const waxseal_db_t *db, uint32_t *level, waxseal_error_t **error);

/**
 * Raises the format level of a store, for good: versions of this library that do not know the level refuse to open the
 * store from then on. Level 2 adds range deletes, merge operators, ingested table files and the change feed. Does
 * nothing if the store has the level or a higher one. Durable when the call returns; costs two fsyncs.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` for an unknown level; `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_upgrade(waxseal_db_t *db, uint32_t level, waxseal_error_t **error);

/**
 * Returns one metric of a store by its name: `flushes`, `compactions`, `cache.used_bytes`, `wal.syncs`,
 * `family.default.memtable_bytes`, `family.default.level.0.tables`, ..; `waxseal_metrics_json` lists all names.
 * `WAXSEAL_NOT_FOUND` for an unknown name.
 *
 * Thread-safe. A number of a family costs a look at the family's tables, any other one a look at all tables: ask for
 * all at once where you need many. Errors: `WAXSEAL_INVALID` for a name that is no UTF-8, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_metric(const waxseal_db_t *db,
                       const uint8_t *name,
                       size_t name_len,
                       uint64_t *number,
                       waxseal_error_t **error);

/**
 * Returns all metrics of a store as one JSON object: names as of `waxseal_metric`, values as integers. Counters start
 * at the open.
 *
 * Thread-safe. On success the caller owns `*text` and frees it with `waxseal_bytes_destroy`. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_metrics_json(const waxseal_db_t *db, waxseal_bytes_t **text, waxseal_error_t **error);

/**
 * Returns all metrics of a store as text for people.
 *
 * Thread-safe. On success the caller owns `*text` and frees it with `waxseal_bytes_destroy`. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_metrics_text(const waxseal_db_t *db, waxseal_bytes_t **text, waxseal_error_t **error);

/**
 * Returns the result of the log's recovery when this store was opened: the replayed commits, and the bytes cut from
 * its torn end. `set_aside` may be null. Otherwise it receives the name of the file in the store's directory that
 * keeps the cut bytes, empty if none were cut.
 *
 * Thread-safe. On success the caller owns `*set_aside` and frees it with `waxseal_bytes_destroy`. Errors:
 * `WAXSEAL_CLOSED`.
 */
int32_t waxseal_recovery(const waxseal_db_t *db,
                         waxseal_recovery_t *recovery,
                         waxseal_bytes_t **set_aside,
                         waxseal_error_t **error);

/**
 * Pauses background work until the pause is destroyed: no flush and no compaction starts by itself. Returns once the
 * running jobs have ended; a call from a listener, or while writers wait for jobs, returns at once.
 *
 * Writers stay bounded: while memtables or the log are so full that writers are slowed down, flushes run, and while
 * writers are stopped, compactions run too. Explicit calls such as `waxseal_flush` do their work. Pauses may overlap;
 * the last one to end resumes the work. Closing the store ends all of them.
 *
 * Thread-safe. On success the caller owns `*pause` and frees it with `waxseal_pause_destroy`. Errors:
 * `WAXSEAL_CLOSED`, `WAXSEAL_INTERRUPTED`.
 */
int32_t waxseal_pause_background(waxseal_db_t *db, waxseal_pause_t **pause, waxseal_error_t **error);

/**
 * Ends a pause. Null is allowed; a destroyed pause is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_pause_destroy(waxseal_pause_t *pause);

/**
 * Opens the column family with this name, and creates it if it does not exist; `default` always exists. In a store
 * opened read-only, an unknown name is `WAXSEAL_INVALID`.
 *
 * Thread-safe. On success the caller owns `*family` and frees it with `waxseal_family_destroy`. Errors:
 * `WAXSEAL_INVALID` for a name that is not UTF-8 or not allowed, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_family_open(waxseal_db_t *db,
                            const uint8_t *name,
                            size_t name_len,
                            waxseal_family_t **family,
                            waxseal_error_t **error);

/**
 * Returns the column family with this name; `WAXSEAL_NOT_FOUND` if it does not exist. Creates nothing, also beside a
 * thread that drops the family.
 *
 * Thread-safe. On `WAXSEAL_OK` the caller owns `*family` and frees it with `waxseal_family_destroy`. Errors:
 * `WAXSEAL_INVALID` for a name that is not UTF-8, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_family_find(const waxseal_db_t *db,
                            const uint8_t *name,
                            size_t name_len,
                            waxseal_family_t **family,
                            waxseal_error_t **error);

/**
 * Creates a column family with its own options. `options` may be null. The name has 1 to 255 bytes, none of them zero.
 *
 * Thread-safe. On success the caller owns `*family` and frees it with `waxseal_family_destroy`. Errors:
 * `WAXSEAL_INVALID` if the name exists or is not allowed, and for invalid options; `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`,
 * `WAXSEAL_CLOSED`.
 */
int32_t waxseal_family_create(waxseal_db_t *db,
                              const uint8_t *name,
                              size_t name_len,
                              const waxseal_family_options_t *options,
                              waxseal_family_t **family,
                              waxseal_error_t **error);

/**
 * Returns the id of a column family. A store gives no id twice: a family that is dropped and created again has another
 * one.
 *
 * Thread-safe.
 */
int32_t waxseal_family_id(const waxseal_family_t *family, uint32_t *id, waxseal_error_t **error);

/**
 * Returns the options of a column family as of now. Setters change the copy, and `waxseal_family_set_options` gives it
 * to a family of the same store, or of another one if it holds no callbacks of the caller.
 *
 * Thread-safe. On success the caller owns `*options` and frees it with `waxseal_family_options_destroy`.
 */
int32_t waxseal_family_get_options(const waxseal_family_t *family,
                                   waxseal_family_options_t **options,
                                   waxseal_error_t **error);

/**
 * Changes options of a column family while the store is open, and records them in the store. Of an object that
 * `waxseal_family_get_options` returned for this family, the options are taken over whose values have changed since
 * then, or since the last change by this object, so that concurrent callers do not undo each other's changes. Of other
 * objects every option is taken over, also one that was not set. Calls and background jobs that begin after the change
 * obey it; tables keep their form until they are rewritten. The verification levels are not recorded.
 *
 * Thread-safe. The change is durable when the call returns. Errors: `WAXSEAL_INVALID`, and nothing changes, if the
 * options are invalid, or if comparator or merge operator differ from those of the family; `WAXSEAL_READ_ONLY`,
 * `WAXSEAL_IO`, `WAXSEAL_HALTED`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_family_set_options(waxseal_family_t *family,
                                   const waxseal_family_options_t *options,
                                   waxseal_error_t **error);

/**
 * Returns the options of a column family as one JSON object: their names with numbers, words, true, false or null.
 * Times are in microseconds.
 *
 * Thread-safe. On success the caller owns `*text` and frees it with `waxseal_bytes_destroy`.
 */
int32_t waxseal_family_options_json(const waxseal_family_t *family, waxseal_bytes_t **text, waxseal_error_t **error);

/**
 * Drops a column family with all its records. Calls with handles to it return `WAXSEAL_INVALID` from then on.
 * `default` cannot be dropped.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` for an unknown name, `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_family_drop(waxseal_db_t *db, const uint8_t *name, size_t name_len, waxseal_error_t **error);

/**
 * Removes all keys of several column families in one commit, with the store's durability: see `waxseal_delete_range`.
 * A count of 0 is not an error.
 *
 * Thread-safe. Errors: as of `waxseal_put`; `WAXSEAL_INVALID` for a family of another store or one that was dropped.
 * Nothing is removed then.
 */
int32_t waxseal_clear(waxseal_db_t *db, const waxseal_family_t *const *families, size_t count, waxseal_error_t **error);

/**
 * Returns the names of all column families, each followed by a zero byte.
 *
 * Thread-safe. On success the caller owns `*names` and frees it with `waxseal_bytes_destroy`. Errors:
 * `WAXSEAL_CLOSED`.
 */
int32_t waxseal_family_names(const waxseal_db_t *db, waxseal_bytes_t **names, waxseal_error_t **error);

/**
 * Returns the name of a column family.
 *
 * Thread-safe. On success the caller owns `*name` and frees it with `waxseal_bytes_destroy`.
 */
int32_t waxseal_family_name(const waxseal_family_t *family, waxseal_bytes_t **name, waxseal_error_t **error);

/**
 * Returns another handle to the column family, with its own verification policy, one of `WAXSEAL_VERIFY_..`, for all
 * reads through it, iterators included. Only `WAXSEAL_VERIFY_SAMPLED` uses `one_in`.
 *
 * Thread-safe. On success the caller owns `*verified` and frees it with `waxseal_family_destroy`. Errors:
 * `WAXSEAL_INVALID` for an unknown policy.
 */
int32_t waxseal_family_with_verify(const waxseal_family_t *family,
                                   int32_t policy,
                                   uint32_t one_in,
                                   waxseal_family_t **verified,
                                   waxseal_error_t **error);

/**
 * Returns another handle to the column family, which decides whether blocks loaded by its reads are added to the block
 * cache. Set `fill` to false for one-time scans.
 *
 * Thread-safe. On success the caller owns `*filling` and frees it with `waxseal_family_destroy`.
 */
int32_t waxseal_family_with_fill_cache(const waxseal_family_t *family,
                                       bool fill,
                                       waxseal_family_t **filling,
                                       waxseal_error_t **error);

/**
 * Compacts the whole family until deleted and overwritten records take no space.
 *
 * Thread-safe. Errors: `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_HALTED`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_compact(waxseal_family_t *family, waxseal_error_t **error);

/**
 * Compacts the tables that may hold keys of a range, as `waxseal_compact` does. `range` may be null: all keys.
 *
 * Thread-safe. Errors: as of `waxseal_compact`; `WAXSEAL_INVALID` for an invalid range.
 */
int32_t waxseal_compact_range(waxseal_family_t *family, const waxseal_range_t *range, waxseal_error_t **error);

/**
 * Compacts tables by their numbers (`waxseal_tables_list`): each is merged into the next level with what it overlaps
 * there, or rewritten in place at the bottom. The family's compaction filter is applied. A table that the compaction
 * of another one took along is done.
 *
 * Thread-safe. Errors: as of `waxseal_compact`; `WAXSEAL_INVALID` for a number of no table of the family, before
 * anything is compacted, and for a quarantined table.
 */
int32_t waxseal_compact_files(waxseal_family_t *family, const uint64_t *numbers, size_t count, waxseal_error_t **error);

/**
 * Flushes the family, then compacts the tables that may have an item of a property (`waxseal_tables_with`), as
 * `waxseal_compact_files` does. Values are moved out of the blob files that may have it, so that none of these files
 * is left, unless a value cannot be read.
 *
 * Thread-safe. Errors: as of `waxseal_compact`; `WAXSEAL_INVALID` for a property that is not UTF-8, and for a
 * quarantined table.
 */
int32_t waxseal_compact_with(waxseal_family_t *family,
                             const uint8_t *property,
                             size_t property_len,
                             const uint8_t *item,
                             size_t item_len,
                             waxseal_error_t **error);

/**
 * Returns the approximate bytes of the store's files that hold records of a range. Memtables are not counted. `range`
 * may be null: all keys.
 *
 * Thread-safe. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_approximate_size(const waxseal_family_t *family,
                                 const waxseal_range_t *range,
                                 uint64_t *size,
                                 waxseal_error_t **error);

/**
 * Estimates the number of records that a scan of the column family would return; after `waxseal_settle` the error is
 * below 5 %. Reads no file if one level holds all data; otherwise costs about 1,000 look-ups, whatever the size of the
 * family, and a step for each record of the memtables.
 *
 * Thread-safe. Errors: `WAXSEAL_CLOSED`, `WAXSEAL_INVALID` for a dropped family.
 */
int32_t waxseal_approximate_len(const waxseal_family_t *family, uint64_t *len, waxseal_error_t **error);

/**
 * Destroys a handle to a column family; the family itself stays. Null is allowed; a destroyed handle is
 * `WAXSEAL_CLOSED`.
 *
 * Thread-safe: concurrent calls that use the handle finish.
 */
int32_t waxseal_family_destroy(waxseal_family_t *family);

/**
 * Creates a snapshot of the store's current state.
 *
 * Thread-safe. On success the caller owns `*snapshot` and frees it with `waxseal_snapshot_destroy`. Errors:
 * `WAXSEAL_CLOSED`.
 */
int32_t waxseal_snapshot_create(waxseal_db_t *db, waxseal_snapshot_t **snapshot, waxseal_error_t **error);

/**
 * Creates a snapshot of the last commit known to be durable: the state that a crash of the machine at this moment
 * would leave.
 *
 * Thread-safe. On success the caller owns `*snapshot` and frees it with `waxseal_snapshot_destroy`. Errors:
 * `WAXSEAL_CLOSED`.
 */
int32_t waxseal_snapshot_create_durable(waxseal_db_t *db, waxseal_snapshot_t **snapshot, waxseal_error_t **error);

/**
 * Returns the snapshot's sequence number: the snapshot sees the commits up to it.
 *
 * Thread-safe.
 */
int32_t waxseal_snapshot_seqno(const waxseal_snapshot_t *snapshot, uint64_t *seqno, waxseal_error_t **error);

/**
 * Destroys a snapshot. Iterators created from it stay valid. Null is allowed; a destroyed snapshot is
 * `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_snapshot_destroy(waxseal_snapshot_t *snapshot);

/**
 * Replaces the value of a key by the result of a function of it, atomically. The function runs once, and again each
 * time that another write changed the key between its read and its change. If it deletes an absent key, nothing is
 * written. `options` may be null; they apply to the new value.
 *
 * Guarantees and costs are those of `waxseal_compare_and_set`.
 *
 * Thread-safe, if no other thread uses the options meanwhile. Errors: as of `waxseal_compare_and_set`;
 * `WAXSEAL_CALLBACK` with the function's reason if it fails; `WAXSEAL_INVALID` for a null function.
 */
int32_t waxseal_update(waxseal_family_t *family,
                       const waxseal_write_options_t *options,
                       const uint8_t *key,
                       size_t key_len,
                       waxseal_update_fn change,
                       void *context,
                       waxseal_error_t **error);

/**
 * Sets a key to a value, with the store's durability. Keys have up to 65,535 bytes, values up to 3 GiB less one.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` for a key or value that is too long, or null with a length; `WAXSEAL_IO`,
 * `WAXSEAL_HALTED`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`. A failed call has written nothing, unless the message says
 * otherwise.
 */
int32_t waxseal_put(waxseal_family_t *family,
                    const uint8_t *key,
                    size_t key_len,
                    const uint8_t *value,
                    size_t value_len,
                    waxseal_error_t **error);

/**
 * Sets a key to a value, with options. `options` may be null.
 *
 * Thread-safe, if no other thread uses the options meanwhile. Errors: as of `waxseal_put`; `WAXSEAL_INVALID` for
 * invalid options.
 */
int32_t waxseal_put_with(waxseal_family_t *family,
                         const waxseal_write_options_t *options,
                         const uint8_t *key,
                         size_t key_len,
                         const uint8_t *value,
                         size_t value_len,
                         waxseal_error_t **error);

/**
 * Deletes a key; a missing key is not an error.
 *
 * Thread-safe. Errors: as of `waxseal_put`.
 */
int32_t waxseal_delete(waxseal_family_t *family, const uint8_t *key, size_t key_len, waxseal_error_t **error);

/**
 * Deletes a key, with options; a missing key is not an error. `options` may be null.
 *
 * Thread-safe, if no other thread uses the options meanwhile. Errors: as of `waxseal_put_with`.
 */
int32_t waxseal_delete_with(waxseal_family_t *family,
                            const waxseal_write_options_t *options,
                            const uint8_t *key,
                            size_t key_len,
                            waxseal_error_t **error);

/**
 * Deletes all keys from `start` to `end`, `end` excluded, that were written before. A null pointer with length 0 is no
 * bound, so that two of them delete every key of the family. Takes the same time and space whatever the range holds. A
 * range without keys is not an error.
 *
 * Thread-safe. Errors: as of `waxseal_put`; `WAXSEAL_INVALID` for a start behind the end.
 */
int32_t waxseal_delete_range(waxseal_family_t *family,
                             const uint8_t *start,
                             size_t start_len,
                             const uint8_t *end,
                             size_t end_len,
                             waxseal_error_t **error);

/**
 * Deletes all keys from `start` to `end`, `end` excluded, with options, of which only the durability may be set.
 * `options` may be null.
 *
 * Thread-safe, if no other thread uses the options meanwhile. Errors: as of `waxseal_delete_range`; `WAXSEAL_INVALID`
 * for options about a value.
 */
int32_t waxseal_delete_range_with(waxseal_family_t *family,
                                  const waxseal_write_options_t *options,
                                  const uint8_t *start,
                                  size_t start_len,
                                  const uint8_t *end,
                                  size_t end_len,
                                  waxseal_error_t **error);

/**
 * Merges an operand into the value of a key, without reading it: the family's merge operator, as of
 * `waxseal_family_options_set_merge_operator`, makes the value when the key is read.
 *
 * Thread-safe. Errors: as of `waxseal_put`; `WAXSEAL_INVALID` for a family without a merge operator, and for an
 * operand that the operator cannot read. An operator that fails is an error of the reads of the key.
 */
int32_t waxseal_merge(waxseal_family_t *family,
                      const uint8_t *key,
                      size_t key_len,
                      const uint8_t *operand,
                      size_t operand_len,
                      waxseal_error_t **error);

/**
 * Merges an operand into the value of a key, with options, of which only the durability may be set. `options` may be
 * null.
 *
 * Thread-safe, if no other thread uses the options meanwhile. Errors: as of `waxseal_merge`; `WAXSEAL_INVALID` for
 * options about a value.
 */
int32_t waxseal_merge_with(waxseal_family_t *family,
                           const waxseal_write_options_t *options,
                           const uint8_t *key,
                           size_t key_len,
                           const uint8_t *operand,
                           size_t operand_len,
                           waxseal_error_t **error);

/**
 * Sets a key to a new value if it has the old one, atomically. A null `old_value` requires that the key is absent; a
 * null `new_value` deletes the key. `*is_set` is false, and nothing has changed, if the key has another value. An
 * expired record counts as absent. `options` and `is_set` may be null.
 *
 * No write of the key comes between the comparison and the change. Beside fast writers of other threads the commit may
 * be attempted several times; then the writers wait for it, at most 10 ms.
 *
 * Thread-safe, if no other thread uses the options meanwhile. Errors: as of `waxseal_get` and `waxseal_put_with`.
 */
int32_t waxseal_compare_and_set(waxseal_family_t *family,
                                const waxseal_write_options_t *options,
                                const uint8_t *key,
                                size_t key_len,
                                const waxseal_slice_t *old_value,
                                const waxseal_slice_t *new_value,
                                bool *is_set,
                                waxseal_error_t **error);

/**
 * Sets a key to a value if it is absent, atomically. `*is_put` is false, and nothing has changed, if the key exists.
 * `options` and `is_put` may be null.
 *
 * Thread-safe, if no other thread uses the options meanwhile. Errors: as of `waxseal_compare_and_set`.
 */
int32_t waxseal_put_if_absent(waxseal_family_t *family,
                              const waxseal_write_options_t *options,
                              const uint8_t *key,
                              size_t key_len,
                              const uint8_t *value,
                              size_t value_len,
                              bool *is_put,
                              waxseal_error_t **error);

/**
 * Adds a number to a counter, atomically. A counter is a signed integer of 64 bits, stored as 8 bytes in little-endian
 * order; an absent key counts as 0. `*before` is the value before the addition. `options` and `before` may be null.
 *
 * Thread-safe, if no other thread uses the options meanwhile. Errors: as of `waxseal_compare_and_set`;
 * `WAXSEAL_INVALID` if the value does not have 8 bytes or the sum exceeds 64 bits.
 */
int32_t waxseal_fetch_add(waxseal_family_t *family,
                          const waxseal_write_options_t *options,
                          const uint8_t *key,
                          size_t key_len,
                          int64_t number,
                          int64_t *before,
                          waxseal_error_t **error);

/**
 * Creates a table file for a family. The file must not exist; it belongs to no store until it is ingested.
 *
 * Thread-safe. On success the caller owns `*writer` and frees it with `waxseal_table_writer_destroy`. Errors:
 * `WAXSEAL_INVALID` if the file exists, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_table_writer_create(waxseal_family_t *family,
                                    const uint8_t *path,
                                    size_t path_len,
                                    waxseal_table_writer_t **writer,
                                    waxseal_error_t **error);

/**
 * Adds a value, with the entries, labels and expiry of `options`, which may be null. Keys must ascend, each of them
 * once.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a key that is not greater than the one before, and as of
 * `waxseal_put_with`: nothing is added then; `WAXSEAL_IO`.
 */
int32_t waxseal_table_writer_put(waxseal_table_writer_t *writer,
                                 const waxseal_write_options_t *options,
                                 const uint8_t *key,
                                 size_t key_len,
                                 const uint8_t *value,
                                 size_t value_len,
                                 waxseal_error_t **error);

/**
 * Adds a delete: the ingestion removes the key.
 *
 * One thread at a time. Errors: as of `waxseal_table_writer_put`.
 */
int32_t waxseal_table_writer_delete(waxseal_table_writer_t *writer,
                                    const uint8_t *key,
                                    size_t key_len,
                                    waxseal_error_t **error);

/**
 * Writes the rest of the file and makes it durable. `*records` is the number of its records; it may be null.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` without a record, or for a second call; `WAXSEAL_IO`.
 */
int32_t waxseal_table_writer_finish(waxseal_table_writer_t *writer, uint64_t *records, waxseal_error_t **error);

/**
 * Adds table files to a family, in one commit that is durable when the call returns. Their records are newer than
 * everything written before, range deletes included, and older than everything written after. With `move_files` the
 * files become part of the store and lose their old names; otherwise they are copied. `*records` is the number of
 * records; it may be null.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` for a file that no table writer wrote, that has another key order, that was
 * written for another family of this store, or that shares keys with another file; `WAXSEAL_CORRUPTION` for a damaged
 * file; `WAXSEAL_IO`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`. Nothing is changed then.
 */
int32_t waxseal_ingest(waxseal_db_t *db,
                       waxseal_family_t *family,
                       const waxseal_slice_t *paths,
                       size_t count,
                       bool move_files,
                       uint64_t *records,
                       waxseal_error_t **error);

/**
 * Adds table files to several families in one commit: as `waxseal_ingest`, and a crash leaves all of them or none. A
 * family may occur more than once.
 *
 * Thread-safe. Errors: as of `waxseal_ingest`.
 */
int32_t waxseal_ingest_families(waxseal_db_t *db,
                                const waxseal_family_file_t *files,
                                size_t count,
                                bool move_files,
                                uint64_t *records,
                                waxseal_error_t **error);

/**
 * Loads rows in any order into a family, in one commit that is durable when the call returns. `rows` supplies them,
 * with `context`. A later row replaces an earlier one of the same key. The rows bypass log and memtables: they are
 * sorted and written as tables, which are ingested as by `waxseal_ingest`. Nothing is visible before. `*records` is
 * the number of keys; it may be null.
 *
 * Thread-safe. Errors: `WAXSEAL_CALLBACK` if the source fails, or supplies a row beyond the limits of keys and values;
 * `WAXSEAL_INVALID`, `WAXSEAL_IO`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`. Nothing is changed then.
 */
int32_t waxseal_bulk_load(waxseal_db_t *db,
                          waxseal_family_t *family,
                          waxseal_rows_fn rows,
                          void *context,
                          uint64_t *records,
                          waxseal_error_t **error);

/**
 * Destroys a table writer, and removes its file unless it is finished. Null is allowed; a destroyed writer is
 * `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_table_writer_destroy(waxseal_table_writer_t *writer);

/**
 * Adds a backup of the store to a directory, which is created if it is missing. The backup is durable when the call
 * returns; after a crash it is complete or absent. Files that an earlier backup in the directory has are not copied
 * again. Readers and writers continue meanwhile. `options` may be null; a backup accepts progress and bytes per
 * second. `*created` may be null. After an error the directory holds no new backup.
 *
 * Thread-safe, if no other thread uses the options meanwhile. Errors: `WAXSEAL_INVALID` if the directory holds other
 * files and no backup, or backups of another store; `WAXSEAL_LOCKED` while another backup or a purge runs in the
 * directory; `WAXSEAL_CORRUPTION` for a damaged file of the store; `WAXSEAL_INTERRUPTED` if the progress function ends
 * the call; `WAXSEAL_IO`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_backup_create(waxseal_db_t *db,
                              const uint8_t *path,
                              size_t path_len,
                              const waxseal_care_options_t *options,
                              waxseal_backup_created_t *created,
                              waxseal_error_t **error);

/**
 * Lists the backups in a directory.
 *
 * Thread-safe. On success the caller owns `*backups` and frees it with `waxseal_backups_destroy`. Errors:
 * `WAXSEAL_INVALID` if the directory holds no backup, `WAXSEAL_IO`.
 */
int32_t waxseal_backup_list(const uint8_t *path, size_t path_len, waxseal_backups_t **backups, waxseal_error_t **error);

/**
 * Reads every byte of a backup, and compares it with the hashes in the backup's description. `options` may be null; it
 * accepts progress and bytes per second.
 *
 * Thread-safe, if no other thread uses the options meanwhile. Errors: `WAXSEAL_CORRUPTION` with the name of the first
 * damaged or missing file; `WAXSEAL_INVALID` if there is no such backup; `WAXSEAL_INTERRUPTED`, `WAXSEAL_IO`.
 */
int32_t waxseal_backup_verify(const uint8_t *path,
                              size_t path_len,
                              uint64_t id,
                              const waxseal_care_options_t *options,
                              waxseal_error_t **error);

/**
 * Restores a backup into a directory, which must not exist or must be empty. Every byte is checked. The store is
 * durable when the call returns, and has an id of its own. After an error nothing is left in the directory. `options`
 * may be null; it accepts progress and bytes per second.
 *
 * Thread-safe, if no other thread uses the options meanwhile. Errors: as of `waxseal_backup_verify`, and
 * `WAXSEAL_INVALID` if the directory is not empty.
 */
int32_t waxseal_backup_restore(const uint8_t *path,
                               size_t path_len,
                               uint64_t id,
                               const uint8_t *to,
                               size_t to_len,
                               const waxseal_care_options_t *options,
                               waxseal_error_t **error);

/**
 * Removes all backups except the `keep` newest, and all files that none of these needs. `*removed` is the number of
 * removed backups; it may be null.
 *
 * Thread-safe. Errors: `WAXSEAL_LOCKED` while a backup or another purge runs in the directory; `WAXSEAL_CORRUPTION` if
 * the description of a backup to be kept is damaged; `WAXSEAL_INVALID`, `WAXSEAL_IO`.
 */
int32_t waxseal_backup_purge(const uint8_t *path,
                             size_t path_len,
                             size_t keep,
                             uint64_t *removed,
                             waxseal_error_t **error);

/**
 * Number of backups; 0 for null and for a destroyed list.
 *
 * Thread-safe.
 */
size_t waxseal_backups_count(const waxseal_backups_t *backups);

/**
 * The backup at a 0-based index. `WAXSEAL_NOT_FOUND` past the end.
 *
 * Thread-safe.
 */
int32_t waxseal_backups_get(const waxseal_backups_t *backups, size_t at, waxseal_backup_info_t *backup);

/**
 * Destroys a list of backups. Null is allowed; a destroyed list is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_backups_destroy(waxseal_backups_t *backups);

/**
 * Creates an empty batch of a store.
 *
 * Thread-safe. On success the caller owns `*batch` and frees it with `waxseal_batch_destroy`. Errors:
 * `WAXSEAL_CLOSED`.
 */
int32_t waxseal_batch_create(waxseal_db_t *db, waxseal_batch_t **batch, waxseal_error_t **error);

/**
 * Adds a write that sets a key to a value.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a key or value that is too long, or null with a length, and for
 * a family of another store.
 */
int32_t waxseal_batch_put(waxseal_batch_t *batch,
                          waxseal_family_t *family,
                          const uint8_t *key,
                          size_t key_len,
                          const uint8_t *value,
                          size_t value_len,
                          waxseal_error_t **error);

/**
 * Adds a write that sets a key to a value and that the log of events records as `Row.Insert` instead of `Row.Update`.
 * It overwrites like `waxseal_batch_put`; the store does not check whether the key existed.
 *
 * One thread at a time. Errors: as of `waxseal_batch_put`.
 */
int32_t waxseal_batch_put_logged_as_insert(waxseal_batch_t *batch,
                                           waxseal_family_t *family,
                                           const uint8_t *key,
                                           size_t key_len,
                                           const uint8_t *value,
                                           size_t value_len,
                                           waxseal_error_t **error);

/**
 * Adds a write that deletes a key.
 *
 * One thread at a time. Errors: as of `waxseal_batch_put`.
 */
int32_t waxseal_batch_delete(waxseal_batch_t *batch,
                             waxseal_family_t *family,
                             const uint8_t *key,
                             size_t key_len,
                             waxseal_error_t **error);

/**
 * Adds a write that deletes all keys from `start` to `end`, `end` excluded, that were written before the commit or
 * earlier in the batch. A null pointer with length 0 is no bound. A start behind the end fails the commit.
 *
 * One thread at a time. Errors: as of `waxseal_batch_put`.
 */
int32_t waxseal_batch_delete_range(waxseal_batch_t *batch,
                                   waxseal_family_t *family,
                                   const uint8_t *start,
                                   size_t start_len,
                                   const uint8_t *end,
                                   size_t end_len,
                                   waxseal_error_t **error);

/**
 * Adds a write that merges an operand into the value of a key, as of `waxseal_merge`. An operand that the family's
 * merge operator cannot read fails the commit.
 *
 * One thread at a time. Errors: as of `waxseal_batch_put`.
 */
int32_t waxseal_batch_merge(waxseal_batch_t *batch,
                            waxseal_family_t *family,
                            const uint8_t *key,
                            size_t key_len,
                            const uint8_t *operand,
                            size_t operand_len,
                            waxseal_error_t **error);

/**
 * Commits all writes of the batch atomically and empties it for reuse. On an error the batch keeps its writes, and
 * none was applied unless the message says otherwise. `durability` is one of `WAXSEAL_DURABILITY_..`.
 *
 * One thread at a time. Errors: that of the rejected write; `WAXSEAL_INVALID` for a dropped family, `WAXSEAL_IO`,
 * `WAXSEAL_HALTED`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_batch_commit(waxseal_batch_t *batch, int32_t durability, waxseal_error_t **error);

/**
 * Removes all writes, and the error of a rejected one.
 *
 * One thread at a time.
 */
int32_t waxseal_batch_clear(waxseal_batch_t *batch);

/**
 * Number of writes; 0 for null, for a destroyed batch and for one that another thread is using.
 *
 * One thread at a time.
 */
size_t waxseal_batch_count(const waxseal_batch_t *batch);

/**
 * Approximate bytes that the commit will take in the log; 0 for null, for a destroyed batch and for one that another
 * thread is using.
 *
 * One thread at a time.
 */
size_t waxseal_batch_bytes(const waxseal_batch_t *batch);

/**
 * Destroys a batch and discards its uncommitted writes. Null is allowed; a destroyed batch is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_batch_destroy(waxseal_batch_t *batch);

/**
 * Returns the position of the last durable commit, as text. A reader from there returns later changes, if the log is
 * kept: by a cursor, a reader or an option.
 *
 * Thread-safe. On success the caller owns `*position` and frees it with `waxseal_bytes_destroy`. Errors:
 * `WAXSEAL_INVALID` for a store of format level 1, `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_change_position(waxseal_db_t *db, waxseal_bytes_t **position, waxseal_error_t **error);

/**
 * Returns the oldest position from which changes can be read. `WAXSEAL_NOT_FOUND` if no log is kept.
 *
 * Thread-safe. On `WAXSEAL_OK` the caller owns `*position` and frees it with `waxseal_bytes_destroy`. Errors:
 * `WAXSEAL_CLOSED`.
 */
int32_t waxseal_oldest_change_position(const waxseal_db_t *db, waxseal_bytes_t **position, waxseal_error_t **error);

/**
 * Returns the position at which this store branched from its last history: for a checkpoint or a restored backup, the
 * position of the other store at which a follower continues. `WAXSEAL_NOT_FOUND` if it never branched.
 *
 * Thread-safe. On `WAXSEAL_OK` the caller owns `*position` and frees it with `waxseal_bytes_destroy`. Errors:
 * `WAXSEAL_CLOSED`.
 */
int32_t waxseal_change_branch(const waxseal_db_t *db, waxseal_bytes_t **position, waxseal_error_t **error);

/**
 * Opens a reader of the changes after a position. `reach` is one of `WAXSEAL_CHANGES_..`; a read-only store, which may
 * be open beside a writer, has durable changes alone.
 *
 * Thread-safe. On success the caller owns `*changes` and frees it with `waxseal_changes_destroy`. Errors:
 * `WAXSEAL_OUT_OF_REACH` if the log is not kept that far back, or if the position lies in a history that was cut
 * before it; `WAXSEAL_INVALID` for text that is no position, for a position ahead of the store (unless it is open for
 * reading only: it waits there for the writer's commits), and for an unknown reach; `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_changes_since(waxseal_db_t *db,
                              const uint8_t *position,
                              size_t position_len,
                              int32_t reach,
                              waxseal_changes_t **changes,
                              waxseal_error_t **error);

/**
 * Returns the next change, and waits for it at most `timeout_micros`; 0 does not wait, `UINT64_MAX` waits without end.
 * `WAXSEAL_NOT_FOUND` if there is none: a later call returns what was committed since. A reader of durable changes
 * that waits syncs the log if it finds commits that are visible and not durable yet.
 *
 * One thread at a time; another thread that closes the store ends the wait. The wait can be interrupted, as
 * `waxseal_set_interrupt` describes. The slices of `*change` are valid until the next call with the reader. Errors:
 * `WAXSEAL_OUT_OF_REACH` if the reader fell behind the bounds of the log; `WAXSEAL_CORRUPTION` of the log, a value or
 * a record; `WAXSEAL_INTERRUPTED`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`. After an error the next call tries again.
 */
int32_t waxseal_changes_next(waxseal_changes_t *changes,
                             uint64_t timeout_micros,
                             waxseal_change_t *change,
                             waxseal_error_t **error);

/**
 * Returns the position after the last change that the reader returned, as text. A reader that is opened there goes on
 * with the next one, also in the middle of a commit.
 *
 * One thread at a time. On success the caller owns `*position` and frees it with `waxseal_bytes_destroy`.
 */
int32_t waxseal_changes_position(waxseal_changes_t *changes, waxseal_bytes_t **position, waxseal_error_t **error);

/**
 * Adds the change that the reader returned last to a batch of another store, with its seal, its expiry and its other
 * entries. The session is not part of it. An operand needs the merge operator of its family.
 *
 * One thread at a time. Errors: as of `waxseal_batch_put`; `WAXSEAL_INVALID` if the reader has returned no change, and
 * for a dropped family, which the caller drops itself.
 */
int32_t waxseal_batch_apply(waxseal_batch_t *batch,
                            waxseal_family_t *family,
                            waxseal_changes_t *changes,
                            waxseal_error_t **error);

/**
 * Finds the named cursor of the change feed, or creates it at the last durable commit, and returns its position as
 * text. A cursor keeps the log that its consumer has not processed, also while the store is closed and after a crash,
 * within the bounds of `waxseal_options_set_cursor_log_bytes` and `waxseal_options_set_cursor_log_age`. A cursor that
 * falls behind them stays, and readers from its position fail. `position` may be null. Creating a cursor costs two
 * fsyncs.
 *
 * Thread-safe. On success the caller owns `*position` and frees it with `waxseal_bytes_destroy`. Errors:
 * `WAXSEAL_INVALID` for a name that is empty, longer than 255 bytes or has a zero byte, for more than 1,024 cursors,
 * and for a store of format level 1; `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_change_cursor(waxseal_db_t *db,
                              const uint8_t *name,
                              size_t name_len,
                              waxseal_bytes_t **position,
                              waxseal_error_t **error);

/**
 * Moves a cursor: its consumer has durably processed the changes up to a position. The log before it is released with
 * the next flush. Durable when the call returns; costs an fsync.
 *
 * Thread-safe. Errors: those of `waxseal_changes_since` for the position; `WAXSEAL_INVALID` if there is no such
 * cursor.
 */
int32_t waxseal_change_cursor_advance(waxseal_db_t *db,
                                      const uint8_t *name,
                                      size_t name_len,
                                      const uint8_t *position,
                                      size_t position_len,
                                      waxseal_error_t **error);

/**
 * Removes a cursor. The next flush releases the log that only this cursor needed.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` if there is no such cursor.
 */
int32_t waxseal_change_cursor_remove(waxseal_db_t *db, const uint8_t *name, size_t name_len, waxseal_error_t **error);

/**
 * Returns the cursors as a JSON object: the name and the position of each.
 *
 * Thread-safe. On success the caller owns `*json` and frees it with `waxseal_bytes_destroy`. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_change_cursors_json(const waxseal_db_t *db, waxseal_bytes_t **json, waxseal_error_t **error);

/**
 * Destroys a reader of changes. Null is allowed; a destroyed reader is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_changes_destroy(waxseal_changes_t *changes);

/**
 * Returns a copy of a key's value. A null `snapshot` reads the current state. `WAXSEAL_NOT_FOUND` if the key does not
 * exist.
 *
 * Thread-safe. On `WAXSEAL_OK` the caller owns `*value` and frees it with `waxseal_bytes_destroy`. Errors:
 * `WAXSEAL_CORRUPTION` if the value is damaged; the call then returns no value, not even an older one. `WAXSEAL_IO`,
 * `WAXSEAL_INVALID`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_get(const waxseal_family_t *family,
                    const waxseal_snapshot_t *snapshot,
                    const uint8_t *key,
                    size_t key_len,
                    waxseal_bytes_t **value,
                    waxseal_error_t **error);

/**
 * Copies the value of a key to a buffer, and its length to `*length`. Allocates nothing. A null `snapshot` reads the
 * current state. A null buffer with capacity 0 queries the length.
 *
 * `WAXSEAL_NOT_FOUND` if the key does not exist: nothing is written. `WAXSEAL_TOO_SMALL` if the value does not fit:
 * only its length is written. A retry with a larger buffer may again be too small, if other threads write the key
 * meanwhile.
 *
 * Thread-safe. Errors: as of `waxseal_get`.
 */
int32_t waxseal_get_into(const waxseal_family_t *family,
                         const waxseal_snapshot_t *snapshot,
                         const uint8_t *key,
                         size_t key_len,
                         uint8_t *buffer,
                         size_t capacity,
                         size_t *length,
                         waxseal_error_t **error);

/**
 * As `waxseal_get_into`, but never reads a file: returns `WAXSEAL_NOT_RESIDENT`, and writes nothing, if the answer is
 * not in memory. Meant for threads that must not block, such as an event loop or a thread that holds an interpreter's
 * lock. A resident answer costs as much as a cached `waxseal_get_into`.
 *
 * Thread-safe. Errors: as of `waxseal_get`.
 */
int32_t waxseal_get_resident(const waxseal_family_t *family,
                             const waxseal_snapshot_t *snapshot,
                             const uint8_t *key,
                             size_t key_len,
                             uint8_t *buffer,
                             size_t capacity,
                             size_t *length,
                             waxseal_error_t **error);

/**
 * `WAXSEAL_OK` if the key exists, `WAXSEAL_NOT_FOUND` if not. A null `snapshot` reads the current state.
 *
 * Thread-safe. Errors: as of `waxseal_get`.
 */
int32_t waxseal_contains(const waxseal_family_t *family,
                         const waxseal_snapshot_t *snapshot,
                         const uint8_t *key,
                         size_t key_len,
                         waxseal_error_t **error);

/**
 * Returns copies of the values of `count` keys, all read at one point in time. A null `snapshot` reads the current
 * state.
 *
 * Thread-safe. On success the caller owns `*values` and frees it with `waxseal_values_destroy`. Errors: as of
 * `waxseal_get`; if one value cannot be read, the whole call fails.
 */
int32_t waxseal_multi_get(const waxseal_family_t *family,
                          const waxseal_snapshot_t *snapshot,
                          const waxseal_slice_t *keys,
                          size_t count,
                          waxseal_values_t **values,
                          waxseal_error_t **error);

/**
 * Number of values, absent ones included: the number of requested keys. 0 for null and for a destroyed object.
 *
 * Thread-safe.
 */
size_t waxseal_values_count(const waxseal_values_t *values);

/**
 * The value of the key at `index`, valid until the values are destroyed. `WAXSEAL_NOT_FOUND` if the key does not
 * exist: nothing is written.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` for an index past the end, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_values_at(const waxseal_values_t *values, size_t index, waxseal_slice_t *value);

/**
 * Destroys values. Null is allowed; a destroyed object is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_values_destroy(waxseal_values_t *values);

/**
 * Returns copies of the first record's key and value, in key order. A null `snapshot` reads the current state.
 * `WAXSEAL_NOT_FOUND` if no record exists: nothing is written. Costs a seek, and a step for each deleted and expired
 * record before the first record.
 *
 * Thread-safe. On `WAXSEAL_OK` the caller owns `*key` and `*value` and frees them with `waxseal_bytes_destroy`.
 * Errors: `WAXSEAL_CORRUPTION` if damage or a lost range precedes the first readable record; `WAXSEAL_IO`,
 * `WAXSEAL_INVALID`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_first_key_value(const waxseal_family_t *family,
                                const waxseal_snapshot_t *snapshot,
                                waxseal_bytes_t **key,
                                waxseal_bytes_t **value,
                                waxseal_error_t **error);

/**
 * Returns copies of the last record's key and value: as `waxseal_first_key_value`, from the other end.
 *
 * Thread-safe. On `WAXSEAL_OK` the caller owns `*key` and `*value` and frees them with `waxseal_bytes_destroy`.
 * Errors: as of `waxseal_first_key_value`.
 */
int32_t waxseal_last_key_value(const waxseal_family_t *family,
                               const waxseal_snapshot_t *snapshot,
                               waxseal_bytes_t **key,
                               waxseal_bytes_t **value,
                               waxseal_error_t **error);

/**
 * Removes the first record in key order, atomically, and returns copies of its key and value. `WAXSEAL_NOT_FOUND` if
 * no record exists: nothing is written. Each record is returned to one caller. With keys in the order of their
 * arrival, the family is a queue. `options` may be null.
 *
 * Beside fast writers of other threads the commit may be attempted several times; then the writers wait for it, at
 * most 10 ms. Costs a `waxseal_first_key_value` and a `waxseal_delete`.
 *
 * Thread-safe, if no other thread uses the options meanwhile. On `WAXSEAL_OK` the caller owns `*key` and `*value` and
 * frees them with `waxseal_bytes_destroy`. Errors: as of `waxseal_first_key_value` and `waxseal_delete_with`.
 */
int32_t waxseal_pop_first(waxseal_family_t *family,
                          const waxseal_write_options_t *options,
                          waxseal_bytes_t **key,
                          waxseal_bytes_t **value,
                          waxseal_error_t **error);

/**
 * Removes the last record in key order and returns copies of its key and value: as `waxseal_pop_first`, from the other
 * end.
 *
 * Thread-safe, if no other thread uses the options meanwhile. On `WAXSEAL_OK` the caller owns `*key` and `*value` and
 * frees them with `waxseal_bytes_destroy`. Errors: as of `waxseal_pop_first`.
 */
int32_t waxseal_pop_last(waxseal_family_t *family,
                         const waxseal_write_options_t *options,
                         waxseal_bytes_t **key,
                         waxseal_bytes_t **value,
                         waxseal_error_t **error);

/**
 * Stores true to `*is_empty` if no record exists. A null `snapshot` reads the current state. Costs as
 * `waxseal_first_key_value`, and reads no large value.
 *
 * Thread-safe. Errors: as of `waxseal_first_key_value`.
 */
int32_t waxseal_is_empty(const waxseal_family_t *family,
                         const waxseal_snapshot_t *snapshot,
                         bool *is_empty,
                         waxseal_error_t **error);

/**
 * Creates an iterator over the records with keys in a range. A null `snapshot` reads the current state. A null `range`
 * means all keys.
 *
 * Thread-safe. On success the caller owns `*iter` and frees it with `waxseal_iter_destroy`. Errors: `WAXSEAL_INVALID`
 * for an invalid range, and for a snapshot of another store; `WAXSEAL_CLOSED`.
 */
int32_t waxseal_iter_create(const waxseal_family_t *family,
                            const waxseal_snapshot_t *snapshot,
                            const waxseal_range_t *range,
                            waxseal_iter_t **iter,
                            waxseal_error_t **error);

/**
 * Creates an iterator over the records whose keys begin with `prefix`. A null `snapshot` reads the current state.
 *
 * Thread-safe. On success the caller owns `*iter` and frees it with `waxseal_iter_destroy`. Errors: as of
 * `waxseal_iter_create`; `WAXSEAL_INVALID` for a family with a comparator, whose order need not keep such keys
 * together.
 */
int32_t waxseal_iter_create_prefix(const waxseal_family_t *family,
                                   const waxseal_snapshot_t *snapshot,
                                   const uint8_t *prefix,
                                   size_t prefix_len,
                                   waxseal_iter_t **iter,
                                   waxseal_error_t **error);

/**
 * Moves to the first record. `WAXSEAL_NOT_FOUND` if no such record exists; otherwise `row`, which may be null,
 * receives the row.
 *
 * One thread at a time. Errors: `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`; so do all moves.
 */
int32_t waxseal_iter_first(waxseal_iter_t *iter, waxseal_row_t *row, waxseal_error_t **error);

/**
 * Moves to the last record. `WAXSEAL_NOT_FOUND` if no such record exists; otherwise `row`, which may be null, receives
 * the row.
 *
 * One thread at a time.
 */
int32_t waxseal_iter_last(waxseal_iter_t *iter, waxseal_row_t *row, waxseal_error_t **error);

/**
 * Moves to the first record at or after `key`. `WAXSEAL_NOT_FOUND` if no such record exists; otherwise `row`, which
 * may be null, receives the row.
 *
 * One thread at a time.
 */
int32_t waxseal_iter_seek(waxseal_iter_t *iter,
                          const uint8_t *key,
                          size_t key_len,
                          waxseal_row_t *row,
                          waxseal_error_t **error);

/**
 * Moves to the last record at or before `key`. `WAXSEAL_NOT_FOUND` if no such record exists; otherwise `row`, which
 * may be null, receives the row.
 *
 * One thread at a time.
 */
int32_t waxseal_iter_seek_for_prev(waxseal_iter_t *iter,
                                   const uint8_t *key,
                                   size_t key_len,
                                   waxseal_row_t *row,
                                   waxseal_error_t **error);

/**
 * Moves to the next record, or a new iterator to the first one. `WAXSEAL_NOT_FOUND` if no such record exists;
 * otherwise `row`, which may be null, receives the row.
 *
 * One thread at a time.
 */
int32_t waxseal_iter_next(waxseal_iter_t *iter, waxseal_row_t *row, waxseal_error_t **error);

/**
 * Moves to the previous record, or a new iterator to the last one. `WAXSEAL_NOT_FOUND` if no such record exists;
 * otherwise `row`, which may be null, receives the row.
 *
 * One thread at a time.
 */
int32_t waxseal_iter_prev(waxseal_iter_t *iter, waxseal_row_t *row, waxseal_error_t **error);

/**
 * Returns the rows of up to `max_rows` calls of `waxseal_iter_next`, packed in one buffer. A batch ends once it holds
 * `max_bytes` or more, but always holds at least one row. The iterator is then positioned at the batch's last row.
 *
 * `WAXSEAL_NOT_FOUND` if there is no row. Damage ends a batch: the next call reports it, and the call after that
 * continues behind it. A row for which memory cannot be allocated ends a batch too: the next call reports that, and
 * the following step returns this row, in either direction.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` if `max_rows` is zero; `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`,
 * `WAXSEAL_CLOSED`, `WAXSEAL_OUT_OF_MEMORY`.
 */
int32_t waxseal_iter_next_rows(waxseal_iter_t *iter,
                               size_t max_rows,
                               size_t max_bytes,
                               waxseal_rows_t *rows,
                               waxseal_error_t **error);

/**
 * Whether batches of rows hold only keys, with empty values. Default false. Rows of single steps always have their
 * values.
 *
 * One thread at a time. Returns `WAXSEAL_OK`, or a status about the handle.
 */
int32_t waxseal_iter_set_keys_only(waxseal_iter_t *iter, bool keys_only);

/**
 * As `waxseal_iter_next_rows`, backwards: returns the rows of up to `max_rows` calls of `waxseal_iter_prev`, in their
 * order.
 *
 * One thread at a time. Errors: as of `waxseal_iter_next_rows`.
 */
int32_t waxseal_iter_prev_rows(waxseal_iter_t *iter,
                               size_t max_rows,
                               size_t max_bytes,
                               waxseal_rows_t *rows,
                               waxseal_error_t **error);

/**
 * True if the iterator is positioned at a record; false for null, for a destroyed iterator and for one that another
 * thread is using.
 *
 * One thread at a time.
 */
bool waxseal_iter_valid(const waxseal_iter_t *iter);

/**
 * The key at the iterator's position, valid until the iterator is moved or destroyed; empty where `waxseal_iter_valid`
 * is false.
 *
 * One thread at a time.
 */
waxseal_slice_t waxseal_iter_key(const waxseal_iter_t *iter);

/**
 * The value at the iterator's position, valid until the iterator is moved or destroyed; empty where
 * `waxseal_iter_valid` is false.
 *
 * One thread at a time.
 */
waxseal_slice_t waxseal_iter_value(const waxseal_iter_t *iter);

/**
 * Destroys an iterator. Null is allowed; a destroyed iterator is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_iter_destroy(waxseal_iter_t *iter);

/**
 * Runs a transaction: passes it to a function, commits it, and runs all of it again after a conflict, on a new
 * snapshot. No conflict makes it wait: some transaction among those in conflict always succeeds. `isolation` is one of
 * `WAXSEAL_ISOLATION_..`, `durability` one of `WAXSEAL_DURABILITY_..`.
 *
 * Thread-safe. Errors: the negative status of the function, with the message of its error; as of
 * `waxseal_transaction_begin` and `waxseal_transaction_commit` without `WAXSEAL_CONFLICT`; `WAXSEAL_INVALID` for a
 * null function; `WAXSEAL_INTERRUPTED`. Nothing was changed then, unless the commit's message says otherwise.
 */
int32_t waxseal_transact(waxseal_db_t *db,
                         int32_t isolation,
                         int32_t durability,
                         waxseal_transact_fn run,
                         void *context,
                         waxseal_error_t **error);

/**
 * As `waxseal_transact`; the transaction commits under the session's identity.
 *
 * Thread-safe. Errors: as of `waxseal_transact`.
 */
int32_t waxseal_session_transact(const waxseal_session_t *session,
                                 int32_t isolation,
                                 int32_t durability,
                                 waxseal_transact_fn run,
                                 void *context,
                                 waxseal_error_t **error);

/**
 * Begins a transaction with an isolation level, one of `WAXSEAL_ISOLATION_..`.
 *
 * Thread-safe. On success the caller owns `*transaction` and frees it with `waxseal_transaction_destroy`. Errors:
 * `WAXSEAL_INVALID` for an unknown level, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_transaction_begin(waxseal_db_t *db,
                                  int32_t isolation,
                                  waxseal_transaction_t **transaction,
                                  waxseal_error_t **error);

/**
 * As `waxseal_transaction_begin`; the transaction commits under the session's identity.
 *
 * Thread-safe. On success the caller owns `*transaction` and frees it with `waxseal_transaction_destroy`. Errors: as
 * of `waxseal_transaction_begin`.
 */
int32_t waxseal_session_transaction_begin(const waxseal_session_t *session,
                                          int32_t isolation,
                                          waxseal_transaction_t **transaction,
                                          waxseal_error_t **error);

/**
 * Returns a copy of a key's value, as the transaction sees it. `WAXSEAL_NOT_FOUND` if the key does not exist.
 *
 * One thread at a time. On `WAXSEAL_OK` the caller owns `*value` and frees it with `waxseal_bytes_destroy`. Errors: as
 * of `waxseal_get`; `WAXSEAL_INVALID` for a family of another store, and after the end of the transaction. So do all
 * calls of a transaction.
 */
int32_t waxseal_transaction_get(waxseal_transaction_t *transaction,
                                const waxseal_family_t *family,
                                const uint8_t *key,
                                size_t key_len,
                                waxseal_bytes_t **value,
                                waxseal_error_t **error);

/**
 * As `waxseal_transaction_get`; under `WAXSEAL_ISOLATION_SNAPSHOT` the commit then fails if another commit changed the
 * key, as if the transaction had written it.
 *
 * One thread at a time. On `WAXSEAL_OK` the caller owns `*value` and frees it with `waxseal_bytes_destroy`. Errors: as
 * of `waxseal_transaction_get`.
 */
int32_t waxseal_transaction_get_for_update(waxseal_transaction_t *transaction,
                                           const waxseal_family_t *family,
                                           const uint8_t *key,
                                           size_t key_len,
                                           waxseal_bytes_t **value,
                                           waxseal_error_t **error);

/**
 * `WAXSEAL_OK` if the key exists, as the transaction sees it, `WAXSEAL_NOT_FOUND` if not.
 *
 * One thread at a time. Errors: as of `waxseal_transaction_get`.
 */
int32_t waxseal_transaction_contains(waxseal_transaction_t *transaction,
                                     const waxseal_family_t *family,
                                     const uint8_t *key,
                                     size_t key_len,
                                     waxseal_error_t **error);

/**
 * Returns copies of the values of `count` keys, as the transaction sees them.
 *
 * One thread at a time. On success the caller owns `*values` and frees it with `waxseal_values_destroy`. Errors: as of
 * `waxseal_transaction_get`; if one value cannot be read, the whole call fails.
 */
int32_t waxseal_transaction_multi_get(waxseal_transaction_t *transaction,
                                      const waxseal_family_t *family,
                                      const waxseal_slice_t *keys,
                                      size_t count,
                                      waxseal_values_t **values,
                                      waxseal_error_t **error);

/**
 * Creates an iterator over the records with keys in a range, as the transaction sees them: each move sees the writes
 * that the transaction has made by then. A null `range` means all keys. Under `WAXSEAL_ISOLATION_SERIALIZABLE` the
 * range is validated by the commit as far as the iterator was moved.
 *
 * The iterator's moves fail with `WAXSEAL_INVALID` once the transaction has ended. Any error leaves it unpositioned:
 * after damage, a seek continues behind it.
 *
 * One thread at a time. On success the caller owns `*iter` and frees it with `waxseal_iter_destroy`, before or after
 * the transaction. Errors: as of `waxseal_iter_create` and `waxseal_transaction_get`.
 */
int32_t waxseal_transaction_iter_create(waxseal_transaction_t *transaction,
                                        const waxseal_family_t *family,
                                        const waxseal_range_t *range,
                                        waxseal_iter_t **iter,
                                        waxseal_error_t **error);

/**
 * As `waxseal_transaction_iter_create`, over the records whose keys begin with `prefix`.
 *
 * One thread at a time. On success the caller owns `*iter` and frees it with `waxseal_iter_destroy`. Errors: as of
 * `waxseal_transaction_iter_create` and `waxseal_iter_create_prefix`.
 */
int32_t waxseal_transaction_iter_create_prefix(waxseal_transaction_t *transaction,
                                               const waxseal_family_t *family,
                                               const uint8_t *prefix,
                                               size_t prefix_len,
                                               waxseal_iter_t **iter,
                                               waxseal_error_t **error);

/**
 * Sets a key to a value when the transaction commits.
 *
 * One thread at a time. Errors: as of `waxseal_batch_put` and `waxseal_transaction_get`.
 */
int32_t waxseal_transaction_put(waxseal_transaction_t *transaction,
                                waxseal_family_t *family,
                                const uint8_t *key,
                                size_t key_len,
                                const uint8_t *value,
                                size_t value_len,
                                waxseal_error_t **error);

/**
 * Sets a key to a value when the transaction commits, with options. `options` may be null.
 *
 * One thread at a time, for the options too. Errors: as of `waxseal_transaction_put`; `WAXSEAL_INVALID` for options
 * with a durability, which is that of the commit.
 */
int32_t waxseal_transaction_put_with(waxseal_transaction_t *transaction,
                                     waxseal_family_t *family,
                                     const waxseal_write_options_t *options,
                                     const uint8_t *key,
                                     size_t key_len,
                                     const uint8_t *value,
                                     size_t value_len,
                                     waxseal_error_t **error);

/**
 * Merges an operand into the value of a key when the transaction commits: see `waxseal_merge`. Reads of the
 * transaction see the merged value. Under `WAXSEAL_ISOLATION_SERIALIZABLE` a merge alone never conflicts.
 *
 * One thread at a time. Errors: as of `waxseal_transaction_put`; `WAXSEAL_INVALID` if the family has no merge
 * operator, or if the operator cannot read the operand.
 */
int32_t waxseal_transaction_merge(waxseal_transaction_t *transaction,
                                  waxseal_family_t *family,
                                  const uint8_t *key,
                                  size_t key_len,
                                  const uint8_t *operand,
                                  size_t operand_len,
                                  waxseal_error_t **error);

/**
 * Deletes a key when the transaction commits; a missing key is not an error.
 *
 * One thread at a time. Errors: as of `waxseal_transaction_put`.
 */
int32_t waxseal_transaction_delete(waxseal_transaction_t *transaction,
                                   waxseal_family_t *family,
                                   const uint8_t *key,
                                   size_t key_len,
                                   waxseal_error_t **error);

/**
 * Deletes all keys from `start` to `end`, `end` excluded, when the transaction commits: those of the store at that
 * moment, and those that the transaction wrote before. A null pointer with length 0 is no bound.
 *
 * One thread at a time. Errors: as of `waxseal_transaction_put`; `WAXSEAL_INVALID` for a start behind the end.
 */
int32_t waxseal_transaction_delete_range(waxseal_transaction_t *transaction,
                                         waxseal_family_t *family,
                                         const uint8_t *start,
                                         size_t start_len,
                                         const uint8_t *end,
                                         size_t end_len,
                                         waxseal_error_t **error);

/**
 * Marks the present state of the writes for `waxseal_transaction_rollback_to_savepoint`. Savepoints nest.
 *
 * One thread at a time. Errors: as of `waxseal_transaction_get`.
 */
int32_t waxseal_transaction_savepoint(waxseal_transaction_t *transaction, waxseal_error_t **error);

/**
 * Discards the writes since the last savepoint, and the savepoint. Reads stay read: the commit validates them.
 *
 * One thread at a time. Errors: as of `waxseal_transaction_get`; `WAXSEAL_INVALID` without a savepoint.
 */
int32_t waxseal_transaction_rollback_to_savepoint(waxseal_transaction_t *transaction, waxseal_error_t **error);

/**
 * Keeps the writes since the last savepoint, and forgets the savepoint.
 *
 * One thread at a time. Errors: as of `waxseal_transaction_get`; `WAXSEAL_INVALID` without a savepoint.
 */
int32_t waxseal_transaction_release_savepoint(waxseal_transaction_t *transaction, waxseal_error_t **error);

/**
 * Makes all writes visible atomically and ends the transaction, whatever the outcome. A transaction without writes
 * always commits. `durability` is one of `WAXSEAL_DURABILITY_..`.
 *
 * One thread at a time. Errors: `WAXSEAL_CONFLICT` if another commit changed what the transaction depends on: the
 * message names the key, and nothing was changed. Also those of `waxseal_batch_commit` and of `waxseal_get`. For an
 * unknown durability, `WAXSEAL_INVALID`: the transaction goes on.
 */
int32_t waxseal_transaction_commit(waxseal_transaction_t *transaction, int32_t durability, waxseal_error_t **error);

/**
 * Discards all writes and ends the transaction, as its destruction does.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` after the end of the transaction, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_transaction_rollback(waxseal_transaction_t *transaction, waxseal_error_t **error);

/**
 * Number of writes; 0 for null, for a transaction that has ended, and for one that another thread is using.
 *
 * One thread at a time.
 */
size_t waxseal_transaction_count(const waxseal_transaction_t *transaction);

/**
 * Destroys a transaction and discards its uncommitted writes. Null is allowed; a destroyed transaction is
 * `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_transaction_destroy(waxseal_transaction_t *transaction);

/**
 * Computes the seal of a key and a value. Compute it where the data originates: any later change of key or value is
 * then detected.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` for an invalid key or value.
 */
int32_t waxseal_seal_of(const uint8_t *key,
                        size_t key_len,
                        const uint8_t *value,
                        size_t value_len,
                        waxseal_seal_t *seal,
                        waxseal_error_t **error);

/**
 * Sets a key to a value with a seal that the caller received with them or computed at their origin. The seal is
 * checked now, stored unchanged, and returned by `waxseal_get_sealed`. `options` may be null.
 *
 * Thread-safe, if no other thread uses the options meanwhile. Errors: `WAXSEAL_INVALID` if the seal does not match key
 * and value, or the store was opened plain; otherwise as of `waxseal_put`. On an error nothing was changed.
 */
int32_t waxseal_put_sealed(waxseal_family_t *family,
                           const waxseal_write_options_t *options,
                           const uint8_t *key,
                           size_t key_len,
                           const uint8_t *value,
                           size_t value_len,
                           waxseal_seal_t seal,
                           waxseal_error_t **error);

/**
 * Adds a write to a batch that sets a key to a value with the caller's seal.
 *
 * One thread at a time. Errors: as of `waxseal_batch_put`; `WAXSEAL_INVALID` if the seal does not match key and value.
 */
int32_t waxseal_batch_put_sealed(waxseal_batch_t *batch,
                                 waxseal_family_t *family,
                                 const uint8_t *key,
                                 size_t key_len,
                                 const uint8_t *value,
                                 size_t value_len,
                                 waxseal_seal_t seal,
                                 waxseal_error_t **error);

/**
 * Returns a copy of a key's value, with its seal and, unless `seqno` is null, its sequence number (0 once no snapshot
 * needs it). The value is checked against the seal under every verification policy. A null `snapshot` reads the
 * current state. `WAXSEAL_NOT_FOUND` if the key does not exist.
 *
 * Thread-safe. On `WAXSEAL_OK` the caller owns `*value` and frees it with `waxseal_bytes_destroy`. Errors:
 * `WAXSEAL_CORRUPTION` if value and seal do not match. `WAXSEAL_INVALID` if the record has no seal because a plain
 * store wrote it, or if this store was opened plain. Otherwise as of `waxseal_get`.
 */
int32_t waxseal_get_sealed(const waxseal_family_t *family,
                           const waxseal_snapshot_t *snapshot,
                           const uint8_t *key,
                           size_t key_len,
                           waxseal_bytes_t **value,
                           waxseal_seal_t *seal,
                           uint64_t *seqno,
                           waxseal_error_t **error);

/**
 * Stores an entry of the provider with this number in the record, next to the value. The entry follows the record
 * everywhere and is removed with it. Reads of the value do not read it. The write reports an unknown provider, bytes
 * that the provider refuses, and two entries for one provider.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for null with a length.
 */
int32_t waxseal_write_options_add_entry(waxseal_write_options_t *options,
                                        uint16_t provider,
                                        const uint8_t *bytes,
                                        size_t bytes_len,
                                        waxseal_error_t **error);

/**
 * Sets the record's expiry time, in microseconds since 1970. From then on the record counts as absent, and a later
 * compaction drops it. A past time is allowed. Snapshots and iterators compare with the time of their creation, all
 * other reads with the current time. Of this function, `waxseal_write_options_set_expires_in` and
 * `waxseal_write_options_set_expires_never`, the last call wins.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a time before the year 2000, which indicates a wrong unit or
 * epoch; the options are then unchanged.
 */
int32_t waxseal_write_options_set_expiry(waxseal_write_options_t *options, uint64_t micros);

/**
 * Sets the record's expiry to this many microseconds after the write.
 *
 * One thread at a time.
 */
int32_t waxseal_write_options_set_expires_in(waxseal_write_options_t *options, uint64_t micros);

/**
 * The record never expires, whatever its family's default time to live is.
 *
 * One thread at a time.
 */
int32_t waxseal_write_options_set_expires_never(waxseal_write_options_t *options);

/**
 * Adds a write to a batch that sets a key to a value, with options: an expiry, labels, entries. Null options mean
 * defaults. The commit sets the durability.
 *
 * One thread at a time. Errors: as of `waxseal_batch_put`; `WAXSEAL_INVALID` for options that set a durability.
 */
int32_t waxseal_batch_put_with_options(waxseal_batch_t *batch,
                                       waxseal_family_t *family,
                                       const waxseal_write_options_t *options,
                                       const uint8_t *key,
                                       size_t key_len,
                                       const uint8_t *value,
                                       size_t value_len,
                                       waxseal_error_t **error);

/**
 * Adds a write to a batch that sets a key to a value with entries.
 *
 * One thread at a time. Errors: as of `waxseal_batch_put`; `WAXSEAL_INVALID` for invalid entries.
 */
int32_t waxseal_batch_put_with(waxseal_batch_t *batch,
                               waxseal_family_t *family,
                               const uint8_t *key,
                               size_t key_len,
                               const uint8_t *value,
                               size_t value_len,
                               const waxseal_entry_t *entries,
                               size_t count,
                               waxseal_error_t **error);

/**
 * Returns a copy of a provider's entry for a key. Does not read the value, whatever its size. `version` and `checked`
 * (one of `WAXSEAL_CHECKED_..`) may be null. A null `snapshot` reads the current state. `WAXSEAL_NOT_FOUND` if the key
 * has no value, or the value no entry.
 *
 * Thread-safe. On `WAXSEAL_OK` the caller owns `*bytes` and frees it with `waxseal_bytes_destroy`. Errors:
 * `WAXSEAL_CORRUPTION` if the record's annotations cannot be decoded or do not match their checksum; otherwise as of
 * `waxseal_get`.
 */
int32_t waxseal_get_meta(const waxseal_family_t *family,
                         const waxseal_snapshot_t *snapshot,
                         const uint8_t *key,
                         size_t key_len,
                         uint16_t provider,
                         waxseal_bytes_t **bytes,
                         uint8_t *version,
                         int32_t *checked,
                         waxseal_error_t **error);

/**
 * Creates an iterator over a provider's entries at the current state, in key order; values without an entry are
 * skipped. `range` may be null: all keys.
 *
 * Thread-safe. On success the caller owns `*iter` and frees it with `waxseal_meta_iter_destroy`. Errors:
 * `WAXSEAL_CLOSED`, `WAXSEAL_INVALID` for an invalid range.
 */
int32_t waxseal_meta_iter_create(const waxseal_family_t *family,
                                 const waxseal_range_t *range,
                                 uint16_t provider,
                                 waxseal_meta_iter_t **iter,
                                 waxseal_error_t **error);

/**
 * Moves to the next entry; the entry and its key are valid until the next call. `WAXSEAL_NOT_FOUND` past the end.
 * Damage is one `WAXSEAL_CORRUPTION`; the next call continues behind it.
 *
 * One thread at a time. Errors: `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`.
 */
int32_t waxseal_meta_iter_next(waxseal_meta_iter_t *iter,
                               waxseal_slice_t *key,
                               waxseal_entry_t *entry,
                               waxseal_error_t **error);

/**
 * Destroys an iterator over entries. Null is allowed; a destroyed iterator is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_meta_iter_destroy(waxseal_meta_iter_t *iter);

/**
 * Sets the callback that receives engine events, in every store opened with these options; null for none. Unless
 * `destroy` is null, it destroys `context` once the options and all these stores are gone, or if this call fails.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_listener(waxseal_options_t *options,
                                     waxseal_listener_fn listener,
                                     void *context,
                                     waxseal_destroy_fn destroy);

/**
 * Creates a provider with a number, from 16 on, and a name of 1 to 64 bytes. Defaults, which the setters change:
 * entries have at most 1 KiB, are exported with their record, are not covered by the seal, and are preserved by stores
 * that do not know the provider. Without callbacks, the provider stores the entries that writers supply. Unless
 * `destroy` is null, it destroys `context` once the provider and every store that was opened with it are gone, or if
 * this call fails. The callbacks may be called by any thread, concurrently, and by the store's own threads.
 *
 * Thread-safe. On success the caller owns `*provider` and frees it with `waxseal_provider_destroy`. Errors:
 * `WAXSEAL_INVALID` for a reserved number or an invalid name.
 */
int32_t waxseal_provider_create(uint16_t id,
                                const uint8_t *name,
                                size_t name_len,
                                void *context,
                                waxseal_destroy_fn destroy,
                                waxseal_provider_t **provider,
                                waxseal_error_t **error);

/**
 * The format version of the entries that it writes, any number. Default 0.
 *
 * One thread at a time.
 */
int32_t waxseal_provider_set_version(waxseal_provider_t *provider, uint8_t version);

/**
 * Whether its entries belong to this store alone, and are not exported. Default false.
 *
 * One thread at a time.
 */
int32_t waxseal_provider_set_local(waxseal_provider_t *provider, bool local);

/**
 * The maximum length of an entry, in bytes. Default 1024.
 *
 * One thread at a time.
 */
int32_t waxseal_provider_set_max_len(waxseal_provider_t *provider, size_t bytes);

/**
 * Whether the seal covers its entries. Sealed entries never change after the write. Default false.
 *
 * One thread at a time.
 */
int32_t waxseal_provider_set_sealed(waxseal_provider_t *provider, bool sealed);

/**
 * Whether a store that does not know this provider omits its entries when it writes a table, instead of preserving
 * them. Default false.
 *
 * One thread at a time.
 */
int32_t waxseal_provider_set_dropped_if_unknown(waxseal_provider_t *provider, bool dropped);

/**
 * Sets the callback that makes the entry of an operation; null means that the writer's entry is stored. With `every`
 * the store also calls it for operations without a writer's entry.
 *
 * One thread at a time.
 */
int32_t waxseal_provider_set_on_write(waxseal_provider_t *provider, waxseal_on_write_fn on_write, bool every);

/**
 * Sets the callback that is called for every record that is written to a table, with or without an entry; null keeps
 * entries unchanged. Not for entries that the seal covers.
 *
 * One thread at a time.
 */
int32_t waxseal_provider_set_on_build(waxseal_provider_t *provider, waxseal_on_build_fn on_build);

/**
 * Sets the callback that is called for records with an entry that are omitted from a table; null for none.
 *
 * One thread at a time.
 */
int32_t waxseal_provider_set_on_drop(waxseal_provider_t *provider, waxseal_on_drop_fn on_drop);

/**
 * Sets the callback that validates entries; null accepts all.
 *
 * One thread at a time.
 */
int32_t waxseal_provider_set_on_verify(waxseal_provider_t *provider, waxseal_on_verify_fn on_verify);

/**
 * Destroys a provider; stores that were opened with it keep using it. Null is allowed; a destroyed provider is
 * `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_provider_destroy(waxseal_provider_t *provider);

/**
 * Adds a metadata provider with its current settings; later changes have no effect. Waxseal's own providers are always
 * present. The open returns `WAXSEAL_INVALID` if two providers have the same number, or if a provider's settings are
 * invalid.
 *
 * One thread at a time.
 */
int32_t waxseal_options_add_provider(waxseal_options_t *options, const waxseal_provider_t *provider);

/**
 * Checks every table, block and record, the memtables, the log and the manifest, concurrently with readers and
 * writers. Changes no data. The report lists the findings; damage is not an error of this call. Costs one read of all
 * files, bypassing the cache. `options` may be null; verify accepts families and progress.
 *
 * Thread-safe, if no other thread uses the options meanwhile. On success the caller owns `*report` and frees it with
 * `waxseal_report_destroy`. Errors: `WAXSEAL_IO`, `WAXSEAL_CLOSED`; `WAXSEAL_INVALID` for a family that does not
 * exist.
 */
int32_t waxseal_verify(const waxseal_db_t *db,
                       const waxseal_care_options_t *options,
                       waxseal_report_t **report,
                       waxseal_error_t **error);

/**
 * `waxseal_verify` for a closed store. It writes nothing to the store and replays no log into it. A store that cannot
 * be opened is reported as damaged. `store_options` and `options` may be null.
 *
 * Thread-safe, if no other thread uses the options meanwhile. On success the caller owns `*report` and frees it with
 * `waxseal_report_destroy`. Errors: `WAXSEAL_INVALID` if there is no store, `WAXSEAL_LOCKED` if the store is open,
 * `WAXSEAL_IO`.
 */
int32_t waxseal_verify_closed(const uint8_t *path,
                              size_t path_len,
                              const waxseal_options_t *store_options,
                              const waxseal_care_options_t *options,
                              waxseal_report_t **report,
                              waxseal_error_t **error);

/**
 * `waxseal_verify` in the background, for cold data: at a limited rate, optionally in portions, and from the place
 * where the previous scrub stopped. It repairs damage if asked to. Its report includes every fence that is left. It
 * runs on the caller's thread: use a dedicated one. `options` may be null; scrub accepts all except families, and
 * those of repair only if it repairs.
 *
 * Thread-safe, if no other thread uses the options meanwhile. On success the caller owns `*report` and frees it with
 * `waxseal_report_destroy`. Errors: as of `waxseal_verify`; with repair, as of `waxseal_repair`.
 */
int32_t waxseal_scrub(const waxseal_db_t *db,
                      const waxseal_care_options_t *options,
                      waxseal_report_t **report,
                      waxseal_error_t **error);

/**
 * Finds damage and tries the repair steps in order: read again, correct by checksums and seals, rebuild from another
 * copy (the log, replaced tables, the source). If no step helps, the handler is asked once. By default the key range
 * is then fenced: reads in it return `WAXSEAL_CORRUPTION` until the fence is lifted, and keys outside it are served.
 * Fences that are left, also those of an earlier repair, are in the report. Repair never restores an older version and
 * never guesses. Repaired data is durable when this call returns. `options` may be null; repair accepts progress and
 * those of repair.
 *
 * Thread-safe, also with concurrent readers and writers, if no other thread uses the options meanwhile. On success the
 * caller owns `*report` and frees it with `waxseal_report_destroy`. Errors: `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`,
 * `WAXSEAL_CLOSED`, `WAXSEAL_HALTED`.
 */
int32_t waxseal_repair(waxseal_db_t *db,
                       const waxseal_care_options_t *options,
                       waxseal_report_t **report,
                       waxseal_error_t **error);

/**
 * Copies all readable records of the store in `from`, which may be too damaged to open, to a new store in `to`. The
 * source is not modified. A record that does not match its seal is omitted. The new store fences the key ranges that
 * may have held an omitted record, or a newer version of a copied one, unless losses are accepted. `store_options` and
 * `options` may be null.
 *
 * Thread-safe, if no other thread uses the options meanwhile. On success the caller owns `*report` and frees it with
 * `waxseal_report_destroy`. Errors: `WAXSEAL_INVALID` if `to` is neither new nor empty, `WAXSEAL_LOCKED`,
 * `WAXSEAL_IO`.
 */
int32_t waxseal_salvage(const uint8_t *from,
                        size_t from_len,
                        const uint8_t *to,
                        size_t to_len,
                        const waxseal_options_t *store_options,
                        const waxseal_care_options_t *options,
                        waxseal_report_t **report,
                        waxseal_error_t **error);

/**
 * Computes the number and the seal sum of the records in a range, at the current state or, unless `snapshot` is null,
 * at the snapshot. Equal content has an equal digest, whatever the levels, files and commit order, so two stores
 * compare by sixteen bytes. Every record is checked against its seal. Costs a scan. A null `range` means all keys. The
 * digest is not secure against an adversary who chooses the content.
 *
 * Thread-safe. Errors: `WAXSEAL_CORRUPTION` if a record in the range is damaged or may have been lost,
 * `WAXSEAL_INVALID` if family and snapshot belong to different stores, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_digest(const waxseal_family_t *family,
                       const waxseal_snapshot_t *snapshot,
                       const waxseal_range_t *range,
                       waxseal_digest_t *digest,
                       waxseal_error_t **error);

/**
 * Creates options of integrity maintenance with all defaults.
 *
 * Thread-safe. On success the caller owns `*options` and frees it with `waxseal_care_options_destroy`. Errors:
 * `WAXSEAL_INVALID` if `options` is null.
 */
int32_t waxseal_care_options_create(waxseal_care_options_t **options, waxseal_error_t **error);

/**
 * Adds a column family to verify. If none is added, verify checks all families.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a name that is not UTF-8. A family that does not exist is
 * reported by the pass.
 */
int32_t waxseal_care_options_add_family(waxseal_care_options_t *options,
                                        const uint8_t *name,
                                        size_t name_len,
                                        waxseal_error_t **error);

/**
 * A store whose tables and log a salvage takes where no manifest names them, by its id: 32 hexadecimal digits, as the
 * refusal of a directory with files of several stores lists them. Files of stores that are not named are left alone.
 * None named: the store that the surviving files name.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for any other text.
 */
int32_t waxseal_care_options_add_store(waxseal_care_options_t *options,
                                       const uint8_t *id,
                                       size_t id_len,
                                       waxseal_error_t **error);

/**
 * Sets the function that receives the progress of any pass and may end it; null: no function.
 *
 * One thread at a time.
 */
int32_t waxseal_care_options_set_progress(waxseal_care_options_t *options, waxseal_progress_fn progress, void *context);

/**
 * Limits a scrub, a backup, its verification or its restore to this many bytes per second; 0, the default, means no
 * limit.
 *
 * One thread at a time.
 */
int32_t waxseal_care_options_set_bytes_per_second(waxseal_care_options_t *options, uint64_t bytes);

/**
 * Stops a scrub after approximately this many bytes, with a place to resume from; 0, the default, means a scrub of the
 * whole store.
 *
 * One thread at a time.
 */
int32_t waxseal_care_options_set_most_bytes(waxseal_care_options_t *options, uint64_t bytes);

/**
 * Sets the place where a scrub resumes, as returned by `waxseal_report_resume` for the previous scrub; null, the
 * default, means the beginning.
 *
 * One thread at a time.
 */
int32_t waxseal_care_options_set_resume(waxseal_care_options_t *options, const waxseal_resume_t *place);

/**
 * Whether a scrub repairs the damage that it finds. Default false.
 *
 * One thread at a time.
 */
int32_t waxseal_care_options_set_repair(waxseal_care_options_t *options, bool repair);

/**
 * Whether a repair accepts losses: it lifts existing fences and creates none. Likewise for a salvage. Default false.
 *
 * One thread at a time.
 */
int32_t waxseal_care_options_set_accept_loss(waxseal_care_options_t *options, bool accept);

/**
 * Sets a source of records for a repair, such as a replica or a backup; null for none.
 *
 * One thread at a time.
 */
int32_t waxseal_care_options_set_source(waxseal_care_options_t *options, waxseal_source_fn source, void *context);

/**
 * Sets the callback that decides about each loss that no repair step could undo; null means
 * `WAXSEAL_DECISION_QUARANTINE` for all losses.
 *
 * One thread at a time.
 */
int32_t waxseal_care_options_set_handler(waxseal_care_options_t *options, waxseal_handler_fn handler, void *context);

/**
 * Number of times the source is asked before a repair treats it as unavailable; 0, the default, means three times.
 *
 * One thread at a time.
 */
int32_t waxseal_care_options_set_max_retries(waxseal_care_options_t *options, uint32_t retries);

/**
 * Sets a directory of tables that compaction had replaced, which a repair searches too. Length 0 means no directory.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for an invalid path.
 */
int32_t waxseal_care_options_set_trash(waxseal_care_options_t *options,
                                       const uint8_t *path,
                                       size_t path_len,
                                       waxseal_error_t **error);

/**
 * Destroys options of integrity maintenance. Null is allowed; destroyed options are `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_care_options_destroy(waxseal_care_options_t *options);

/**
 * Returns the counters of a report.
 *
 * Thread-safe.
 */
int32_t waxseal_report_counts(const waxseal_report_t *report, waxseal_counts_t *counts);

/**
 * The damaged place at a 0-based index, in the order of detection. `WAXSEAL_NOT_FOUND` past the end.
 *
 * Thread-safe.
 */
int32_t waxseal_report_damage(const waxseal_report_t *report, size_t at, waxseal_damage_t *damage);

/**
 * A repair step of a damaged place, both by 0-based index: one of `WAXSEAL_RUNG_..`, and whether it succeeded.
 * `WAXSEAL_NOT_FOUND` past the end.
 *
 * Thread-safe.
 */
int32_t waxseal_report_step(const waxseal_report_t *report, size_t at, size_t step_at, int32_t *rung, bool *helped);

/**
 * The place where a scrub that stopped early resumes, for `waxseal_care_options_set_resume`. `WAXSEAL_NOT_FOUND` if
 * the scrub is complete.
 *
 * Thread-safe.
 */
int32_t waxseal_report_resume(const waxseal_report_t *report, waxseal_resume_t *place);

/**
 * The report for programs, as one JSON object; empty for null and for a destroyed report. Never null. Valid until the
 * report is destroyed.
 *
 * Thread-safe.
 */
const char *waxseal_report_json(const waxseal_report_t *report);

/**
 * The report for people, on several lines; empty for null and for a destroyed report. Never null. Valid until the
 * report is destroyed.
 *
 * Thread-safe.
 */
const char *waxseal_report_text(const waxseal_report_t *report);

/**
 * Destroys a report. Null is allowed; a destroyed report is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_report_destroy(waxseal_report_t *report);

/**
 * Creates export options with all defaults.
 *
 * Thread-safe. On success the caller owns `*options` and frees it with `waxseal_export_options_destroy`. Errors:
 * `WAXSEAL_INVALID` if `options` is null.
 */
int32_t waxseal_export_options_create(waxseal_export_options_t **options, waxseal_error_t **error);

/**
 * Sets the policy for the metadata written with the records: one of `WAXSEAL_POLICY_..`. Default
 * `WAXSEAL_POLICY_COMPANION` with labels. A call with `WAXSEAL_POLICY_COMPANION` omits labels unless their provider is
 * allowed.
 *
 * One thread at a time. The export reports an unknown policy.
 */
int32_t waxseal_export_options_set_policy(waxseal_export_options_t *options, int32_t policy);

/**
 * Allows the entries of one more provider to be exported, with `WAXSEAL_POLICY_COMPANION` or the default policy.
 *
 * One thread at a time.
 */
int32_t waxseal_export_options_allow(waxseal_export_options_t *options, uint16_t provider);

/**
 * Adds a key range to export. Ranges must ascend without overlap. If no range is added, all keys are exported.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for an invalid range.
 */
int32_t waxseal_export_options_add_range(waxseal_export_options_t *options, const waxseal_range_t *range);

/**
 * Whether all existing versions are exported, tombstones included, instead of the newest version of each key. An
 * expired version is exported as a tombstone. Default false.
 *
 * One thread at a time.
 */
int32_t waxseal_export_options_set_all_versions(waxseal_export_options_t *options, bool all);

/**
 * Sets one sequence number for all exported records instead of their own. Allowed only for an export of the newest
 * versions. Default: their own.
 *
 * One thread at a time.
 */
int32_t waxseal_export_options_set_seqno(waxseal_export_options_t *options, uint64_t seqno);

/**
 * Destroys export options. Null is allowed; destroyed options are `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_export_options_destroy(waxseal_export_options_t *options);

/**
 * Exports records of a family as table files in a new directory, for another node, which may be a sealed store, a
 * plain store, or an engine without seals. Every record is checked before it is written. Costs a scan and the files.
 * The files are durable when this call returns; a directory without its last file, `EXCHANGE`, is not an export.
 * `snapshot`, `options` and `exported` may be null.
 *
 * Thread-safe, if no other thread uses the options meanwhile. Errors before anything is written: `WAXSEAL_INVALID` for
 * overlapping ranges, or for a key that the policy cannot carry; the message names the key. Errors after which all
 * written files are removed: `WAXSEAL_INVALID` for a record with an expiry time under a policy that cannot carry it;
 * the message names the record. `WAXSEAL_CORRUPTION`, with file and offset, for a record that does not match its seal.
 * `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_export(const waxseal_family_t *family,
                       const waxseal_snapshot_t *snapshot,
                       const uint8_t *directory,
                       size_t directory_len,
                       const waxseal_export_options_t *options,
                       waxseal_exported_t *exported,
                       waxseal_error_t **error);

/**
 * Imports an export. Every record is checked first. All imported records get one new sequence number and override the
 * previous values of their keys. A failed import changes nothing. `imported` may be null.
 *
 * Thread-safe. Errors: `WAXSEAL_CORRUPTION`, with file and offset, if a file does not match the export's manifest, or
 * a record does not match its seal or row. `WAXSEAL_INVALID` for another key order, for a directory without an export,
 * and for a record with an expiry time if this store cannot keep it (a plain store). `WAXSEAL_FORMAT_TOO_NEW`,
 * `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_import(waxseal_family_t *family,
                       const uint8_t *directory,
                       size_t directory_len,
                       waxseal_imported_t *imported,
                       waxseal_error_t **error);

/**
 * Imports bare table files, for instance of an old node, which only their own properties describe. `form` is one of
 * `WAXSEAL_FORM_..`. `imported` may be null.
 *
 * Thread-safe. Errors: as of `waxseal_import`.
 */
int32_t waxseal_import_tables(waxseal_family_t *family,
                              const waxseal_slice_t *paths,
                              size_t count,
                              int32_t form,
                              waxseal_imported_t *imported,
                              waxseal_error_t **error);

/**
 * Opens the session of an identity. `name` is UTF-8 of 1 to 255 bytes. Length 0 opens the unnamed session, to which
 * all operations without a session belong. `authenticated` is the authentication method; length 0 means
 * unauthenticated. The pair of name and method is the identity: the same pair is the same session, also after a
 * reopen, and one name with two methods is two sessions. The store does not verify names: the application must
 * authenticate clients before it opens sessions for them.
 *
 * Thread-safe. On success the caller owns `*session` and frees it with `waxseal_session_destroy`. Errors:
 * `WAXSEAL_INVALID` for an invalid name, and in a store that was opened without its registry; otherwise as of a
 * commit, for a new name.
 */
int32_t waxseal_session_open(waxseal_db_t *db,
                             const uint8_t *name,
                             size_t name_len,
                             const uint8_t *authenticated,
                             size_t authenticated_len,
                             waxseal_session_t **session,
                             waxseal_error_t **error);

/**
 * Returns the name of a session; `-` for the unnamed session.
 *
 * Thread-safe. On success the caller owns `*name` and frees it with `waxseal_bytes_destroy`. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_session_name(const waxseal_session_t *session, waxseal_bytes_t **name, waxseal_error_t **error);

/**
 * As `waxseal_family_open`, but the handle writes under the session's identity.
 *
 * Thread-safe. On success the caller owns `*family` and frees it with `waxseal_family_destroy`. Errors: as of
 * `waxseal_family_open`.
 */
int32_t waxseal_session_family_open(const waxseal_session_t *session,
                                    const uint8_t *name,
                                    size_t name_len,
                                    waxseal_family_t **family,
                                    waxseal_error_t **error);

/**
 * As `waxseal_family_find`, but the handle writes under the session's identity.
 *
 * Thread-safe. On `WAXSEAL_OK` the caller owns `*family` and frees it with `waxseal_family_destroy`. Errors: as of
 * `waxseal_family_find`.
 */
int32_t waxseal_session_family_find(const waxseal_session_t *session,
                                    const uint8_t *name,
                                    size_t name_len,
                                    waxseal_family_t **family,
                                    waxseal_error_t **error);

/**
 * As `waxseal_family_create`, but creates the family and writes through the handle under the session's identity.
 * `options` may be null.
 *
 * Thread-safe. On success the caller owns `*family` and frees it with `waxseal_family_destroy`. Errors: as of
 * `waxseal_family_create`.
 */
int32_t waxseal_session_family_create(const waxseal_session_t *session,
                                      const uint8_t *name,
                                      size_t name_len,
                                      const waxseal_family_options_t *options,
                                      waxseal_family_t **family,
                                      waxseal_error_t **error);

/**
 * As `waxseal_family_drop`, under the session's identity. The events of the family's rows and its registrations stay.
 *
 * Thread-safe. Errors: as of `waxseal_family_drop`.
 */
int32_t waxseal_session_family_drop(const waxseal_session_t *session,
                                    const uint8_t *name,
                                    size_t name_len,
                                    waxseal_error_t **error);

/**
 * Creates an empty batch that commits under the session's identity.
 *
 * Thread-safe. On success the caller owns `*batch` and frees it with `waxseal_batch_destroy`. Errors:
 * `WAXSEAL_CLOSED`.
 */
int32_t waxseal_session_batch_create(const waxseal_session_t *session,
                                     waxseal_batch_t **batch,
                                     waxseal_error_t **error);

/**
 * Returns the authentication method of a session. `WAXSEAL_NOT_FOUND` for an unauthenticated session.
 *
 * Thread-safe. On `WAXSEAL_OK` the caller owns `*how` and frees it with `waxseal_bytes_destroy`.
 */
int32_t waxseal_session_authenticated(const waxseal_session_t *session, waxseal_bytes_t **how, waxseal_error_t **error);

/**
 * Records the end of the session: writes an event if `Session.Close` of `engine:session` is registered, and has no
 * other effect. The handle must still be destroyed; families and batches opened from the session stay usable.
 *
 * Thread-safe. Errors: as of a commit for the event.
 */
int32_t waxseal_session_close(const waxseal_session_t *session, waxseal_error_t **error);

/**
 * Destroys a handle to a session. Null is allowed; a destroyed handle is `WAXSEAL_CLOSED`.
 *
 * Thread-safe: concurrent calls that use the handle finish.
 */
int32_t waxseal_session_destroy(waxseal_session_t *session);

/**
 * Sets the callback that decides which sessions may register operations, and read, extend or delete the log of events,
 * in every store opened with these options. Null allows everything. Unless `destroy` is null, it destroys `context`
 * once the options and all these stores are gone, or if this call fails.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_authorizer(waxseal_options_t *options,
                                       waxseal_authorizer_fn authorizer,
                                       void *context,
                                       waxseal_destroy_fn destroy);

/**
 * Creates options with the defaults for the pair: a family is watched with all its keys, events are written deferred.
 *
 * Thread-safe. On success the caller owns `*options` and frees it with `waxseal_register_options_destroy`. Errors:
 * `WAXSEAL_INVALID` if `options` is null.
 */
int32_t waxseal_register_options_create(waxseal_register_options_t **options, waxseal_error_t **error);

/**
 * Destroys options of a registration. Null is allowed; destroyed options are `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_register_options_destroy(waxseal_register_options_t *options);

/**
 * Sets which targets are watched: `WAXSEAL_SCOPE_..`, or `WAXSEAL_SUITED`.
 *
 * One thread at a time.
 */
int32_t waxseal_register_options_set_scope(waxseal_register_options_t *options, int32_t scope);

/**
 * Sets when events are written: `WAXSEAL_MODE_..`, or `WAXSEAL_SUITED`.
 *
 * One thread at a time.
 */
int32_t waxseal_register_options_set_mode(waxseal_register_options_t *options, int32_t mode);

/**
 * Sets which values the events store: `WAXSEAL_VALUES_..`, or `WAXSEAL_SUITED`.
 *
 * One thread at a time.
 */
int32_t waxseal_register_options_set_values(waxseal_register_options_t *options, int32_t values);

/**
 * Sets the age, in microseconds, from which events may be dropped; `WAXSEAL_FOREVER`, the default, means never.
 *
 * One thread at a time.
 */
int32_t waxseal_register_options_set_retention(waxseal_register_options_t *options, uint64_t micros);

/**
 * Whether the version that each registered write replaces stays in its family instead of being dropped. Default false.
 *
 * One thread at a time.
 */
int32_t waxseal_register_options_set_history(waxseal_register_options_t *options, bool history);

/**
 * Registers an operation on a target: every commit after this call logs it, no commit before does. A target is text
 * (`users`, `users.john`, `cluster:`; docs/guide.md). An operation is its name (`Row.Write`, `Row.Delete`, ..); `*` or
 * length 0 means any. `options` may be null. A second registration of a pair only replaces its options. `is_new`,
 * unless null, receives whether the pair is new. Costs a synced commit. `waxseal_operation_warning` returns what a
 * registration of an operation does not log.
 *
 * Thread-safe, if no other thread uses the options meanwhile. Errors: `WAXSEAL_INVALID` for an invalid target, an
 * unknown operation or family (a key need not exist), an operation that cannot occur on the target or below it (the
 * message names where it occurs), conflicting options, and if the session lacks the right; `WAXSEAL_READ_ONLY`.
 */
int32_t waxseal_register(const waxseal_session_t *session,
                         const uint8_t *target,
                         size_t target_len,
                         const uint8_t *operation,
                         size_t operation_len,
                         const waxseal_register_options_t *options,
                         bool *is_new,
                         waxseal_error_t **error);

/**
 * Unregisters the pair, which is then no longer logged; its events stay. `was_there`, unless null, receives whether
 * the pair was registered.
 *
 * Thread-safe. Errors: as of `waxseal_register`.
 */
int32_t waxseal_unregister(const waxseal_session_t *session,
                           const uint8_t *target,
                           size_t target_len,
                           const uint8_t *operation,
                           size_t operation_len,
                           bool *was_there,
                           waxseal_error_t **error);

/**
 * Sets `is_registered` to whether an operation, which must be named, on a target is logged, through any registration.
 *
 * Thread-safe. Errors: as of `waxseal_register`.
 */
int32_t waxseal_is_registered(const waxseal_session_t *session,
                              const uint8_t *target,
                              size_t target_len,
                              const uint8_t *operation,
                              size_t operation_len,
                              bool *is_registered,
                              waxseal_error_t **error);

/**
 * Sets `warning` to the reason why a registration of an operation logs less than its name suggests: `Row.Insert` is
 * logged only for puts that the writer marks as inserts. `WAXSEAL_NOT_FOUND` if there is no such reason. The text is
 * valid for the life of the process.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` for an unknown operation.
 */
int32_t waxseal_operation_warning(const waxseal_session_t *session,
                                  const uint8_t *operation,
                                  size_t operation_len,
                                  waxseal_slice_t *warning,
                                  waxseal_error_t **error);

/**
 * Defines an operation of the application, or finds it. The name has 1 to 64 letters, digits, `_`, `-` or `.`.
 * `number`, unless null, receives the operation's number, which is the same in every store.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` for a name that is invalid or already has another meaning; otherwise as of a
 * commit.
 */
int32_t waxseal_define_operation(const waxseal_session_t *session,
                                 const uint8_t *name,
                                 size_t name_len,
                                 uint16_t *number,
                                 waxseal_error_t **error);

/**
 * Returns all registrations, ordered by target and operation.
 *
 * Thread-safe. On success the caller owns `*registrations` and frees it with `waxseal_registrations_destroy`. Errors:
 * `WAXSEAL_CLOSED`, `WAXSEAL_CORRUPTION` if the registry is damaged.
 */
int32_t waxseal_registrations(const waxseal_session_t *session,
                              waxseal_registrations_t **registrations,
                              waxseal_error_t **error);

/**
 * Number of registrations; 0 for null and for a destroyed list.
 *
 * Thread-safe.
 */
size_t waxseal_registrations_count(const waxseal_registrations_t *registrations);

/**
 * The registration at a place, counted from 0. `WAXSEAL_NOT_FOUND` behind the last.
 *
 * Thread-safe.
 */
int32_t waxseal_registrations_get(const waxseal_registrations_t *registrations,
                                  size_t at,
                                  waxseal_registration_t *registration);

/**
 * Destroys a list of registrations. Null is allowed; a destroyed list is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_registrations_destroy(waxseal_registrations_t *registrations);

/**
 * Number of events; 0 for null and for a destroyed list.
 *
 * Thread-safe.
 */
size_t waxseal_events_count(const waxseal_events_t *events);

/**
 * The event at a 0-based index. `WAXSEAL_NOT_FOUND` past the end.
 *
 * Thread-safe.
 */
int32_t waxseal_events_get(const waxseal_events_t *events, size_t at, waxseal_event_t *event);

/**
 * A field of an event, both by 0-based index. `WAXSEAL_NOT_FOUND` past the end.
 *
 * Thread-safe.
 */
int32_t waxseal_events_field(const waxseal_events_t *events, size_t at, size_t field_at, waxseal_field_t *field);

/**
 * The start of the next page, for `waxseal_query_set_page`. `WAXSEAL_NOT_FOUND` if there is none. Valid until the list
 * is destroyed.
 *
 * Thread-safe.
 */
int32_t waxseal_events_next(const waxseal_events_t *events, waxseal_slice_t *after);

/**
 * Destroys a list of events. Null is allowed; a destroyed list is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_events_destroy(waxseal_events_t *events);

/**
 * Returns the registrations that watch a key, the most specific ones first, and the events of the key, oldest first.
 * Either output may be null.
 *
 * Thread-safe. On success the caller owns `*watched_by` and `*events`, and frees them with
 * `waxseal_registrations_destroy` and `waxseal_events_destroy`. Errors: as of `waxseal_query_all`.
 */
int32_t waxseal_provenance(const waxseal_session_t *session,
                           const waxseal_family_t *family,
                           const uint8_t *key,
                           size_t key_len,
                           waxseal_registrations_t **watched_by,
                           waxseal_events_t **events,
                           waxseal_error_t **error);

/**
 * Returns the lineage of a table file: the job that wrote it, the jobs that wrote that job's inputs, and so on, newest
 * step first; `waxseal_event_t.back` counts the steps. The file is named by its name in the store's directory or by
 * its uid, 32 hexadecimal digits; the uid also works for a deleted file.
 *
 * Thread-safe. On success the caller owns `*steps` and frees it with `waxseal_events_destroy`. Errors:
 * `WAXSEAL_INVALID` for an unknown file; otherwise as of `waxseal_query_all`.
 */
int32_t waxseal_lineage(const waxseal_session_t *session,
                        const uint8_t *file,
                        size_t file_len,
                        waxseal_events_t **steps,
                        waxseal_error_t **error);

/**
 * Explains a key: its value and verdict, the writer and time, its events, its file and that file's lineage. Damage is
 * part of the explanation, not an error. Costs several reads.
 *
 * Thread-safe. On success the caller owns `*explanation` and frees it with `waxseal_explanation_destroy`. Errors: as
 * of `waxseal_query_all`.
 */
int32_t waxseal_explain(const waxseal_session_t *session,
                        const waxseal_family_t *family,
                        const uint8_t *key,
                        size_t key_len,
                        waxseal_explanation_t **explanation,
                        waxseal_error_t **error);

/**
 * Returns the content of an explanation.
 *
 * Thread-safe.
 */
int32_t waxseal_explanation_get(const waxseal_explanation_t *explanation, waxseal_explained_t *explained);

/**
 * Returns the events of the key, oldest first.
 *
 * Thread-safe. On success the caller owns `*events` and frees it with `waxseal_events_destroy`.
 */
int32_t waxseal_explanation_events(const waxseal_explanation_t *explanation, waxseal_events_t **events);

/**
 * Returns the lineage of the key's table file, as of `waxseal_lineage`.
 *
 * Thread-safe. On success the caller owns `*steps` and frees it with `waxseal_events_destroy`.
 */
int32_t waxseal_explanation_lineage(const waxseal_explanation_t *explanation, waxseal_events_t **steps);

/**
 * Destroys an explanation. Null is allowed; a destroyed explanation is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_explanation_destroy(waxseal_explanation_t *explanation);

/**
 * Returns all events of a target itself, of one operation or, with `*` or length 0, of any, ordered by operation and
 * then by time. Events that are not written to the log yet are included. For the targets below it, use a query with
 * `waxseal_query_set_below`.
 *
 * Thread-safe. On success the caller owns `*events` and frees it with `waxseal_events_destroy`. Errors:
 * `WAXSEAL_INVALID` for an invalid target or operation, or if the session lacks the right; `WAXSEAL_CORRUPTION` where
 * the log is damaged.
 */
int32_t waxseal_query_all(const waxseal_session_t *session,
                          const uint8_t *target,
                          size_t target_len,
                          const uint8_t *operation,
                          size_t operation_len,
                          waxseal_events_t **events,
                          waxseal_error_t **error);

/**
 * Returns the latest event of a target itself, of one operation or any, as a list with one entry. `WAXSEAL_NOT_FOUND`
 * if there is none. Costs one seek, whatever the number of events.
 *
 * Thread-safe. On `WAXSEAL_OK` the caller owns `*events` and frees it with `waxseal_events_destroy`. Errors: as of
 * `waxseal_query_all`.
 */
int32_t waxseal_query_latest(const waxseal_session_t *session,
                             const uint8_t *target,
                             size_t target_len,
                             const uint8_t *operation,
                             size_t operation_len,
                             waxseal_events_t **events,
                             waxseal_error_t **error);

/**
 * Adds an event of the application, which the store cannot observe itself. The operation must be named, and the pair
 * registered. `time` is in microseconds since 1970, or `WAXSEAL_TIME_LAST` for now; `value` is the text of the event.
 * `seqno`, unless null, receives the event's sequence number.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` if the pair is not registered, or if the session lacks the right; otherwise
 * as of a commit.
 */
int32_t waxseal_log_add(const waxseal_session_t *session,
                        const uint8_t *target,
                        size_t target_len,
                        const uint8_t *operation,
                        size_t operation_len,
                        uint64_t time,
                        const uint8_t *value,
                        size_t value_len,
                        uint64_t *seqno,
                        waxseal_error_t **error);

/**
 * Returns all events of a target itself, of one operation or any, from `start` to `end`, both inclusive, in
 * microseconds since 1970. `WAXSEAL_TIME_FIRST` and `WAXSEAL_TIME_LAST` mean no limit.
 *
 * Thread-safe. On success the caller owns `*events` and frees it with `waxseal_events_destroy`. Errors: as of
 * `waxseal_query_all`.
 */
int32_t waxseal_log_query(const waxseal_session_t *session,
                          const uint8_t *target,
                          size_t target_len,
                          const uint8_t *operation,
                          size_t operation_len,
                          uint64_t start,
                          uint64_t end,
                          waxseal_events_t **events,
                          waxseal_error_t **error);

/**
 * Deletes the events that `waxseal_log_query` would return, except those of the engine itself. `deleted`, unless null,
 * receives their number. No other call deletes events from the log.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` if the session lacks the right; otherwise as of a commit.
 */
int32_t waxseal_log_delete(const waxseal_session_t *session,
                           const uint8_t *target,
                           size_t target_len,
                           const uint8_t *operation,
                           size_t operation_len,
                           uint64_t start,
                           uint64_t end,
                           uint64_t *deleted,
                           waxseal_error_t **error);

/**
 * Creates a query for all events of a target itself, of one operation or, with `*` or length 0, of any.
 *
 * Thread-safe. On success the caller owns `*query` and frees it with `waxseal_query_destroy`. Errors:
 * `WAXSEAL_INVALID` for text that is not UTF-8. An invalid target is reported when the query runs.
 */
int32_t waxseal_query_create(const uint8_t *target,
                             size_t target_len,
                             const uint8_t *operation,
                             size_t operation_len,
                             waxseal_query_t **query,
                             waxseal_error_t **error);

/**
 * Whether the query includes events of the targets below its target. Default false.
 *
 * One thread at a time.
 */
int32_t waxseal_query_set_below(waxseal_query_t *query, bool below);

/**
 * Limits the query to a time span, both ends inclusive, in microseconds since 1970. Default `WAXSEAL_TIME_FIRST` to
 * `WAXSEAL_TIME_LAST`.
 *
 * One thread at a time.
 */
int32_t waxseal_query_set_span(waxseal_query_t *query, uint64_t start, uint64_t end);

/**
 * Limits the query to the events of one session, by name; length 0, the default, means all sessions.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for text that is not UTF-8.
 */
int32_t waxseal_query_set_client(waxseal_query_t *query,
                                 const uint8_t *client,
                                 size_t client_len,
                                 waxseal_error_t **error);

/**
 * Sets the page: at most `limit` events (0 for all), starting after the place that `waxseal_events_next` returned.
 * Length 0 means the beginning.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for null with a length. A place that is not the end of a page is
 * reported when the query runs.
 */
int32_t waxseal_query_set_page(waxseal_query_t *query,
                               const uint8_t *after,
                               size_t after_len,
                               size_t limit,
                               waxseal_error_t **error);

/**
 * Runs a query and returns a page of its events, ordered by target, operation and time. With a snapshot, events of
 * commits after it are omitted.
 *
 * Thread-safe, if no other thread uses the query meanwhile. On success the caller owns `*events` and frees it with
 * `waxseal_events_destroy`. Errors: as of `waxseal_query_all`.
 */
int32_t waxseal_query_run(const waxseal_session_t *session,
                          const waxseal_snapshot_t *snapshot,
                          const waxseal_query_t *query,
                          waxseal_events_t **events,
                          waxseal_error_t **error);

/**
 * Deletes the events that a query selects, as `waxseal_log_delete` does. Ignores the query's page.
 *
 * Thread-safe, if no other thread uses the query meanwhile. Errors: as of `waxseal_log_delete`.
 */
int32_t waxseal_query_delete(const waxseal_session_t *session,
                             const waxseal_query_t *query,
                             uint64_t *deleted,
                             waxseal_error_t **error);

/**
 * Destroys a query. Null is allowed; a destroyed query is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_query_destroy(waxseal_query_t *query);

/**
 * Returns the events of all keys in a range of a family: at most `limit` of them (0 for all), starting after the place
 * `after`, as of `waxseal_query_set_page`. `range` may be null: all keys.
 *
 * Thread-safe. On success the caller owns `*events` and frees it with `waxseal_events_destroy`. Errors: as of
 * `waxseal_query_all`.
 */
int32_t waxseal_query_range(const waxseal_session_t *session,
                            const waxseal_family_t *family,
                            const waxseal_range_t *range,
                            const uint8_t *after,
                            size_t after_len,
                            size_t limit,
                            waxseal_events_t **events,
                            waxseal_error_t **error);

/**
 * Sets the capacity of the event ring, which is the number of async events that a crash may lose, and the behavior
 * when it is full: one of `WAXSEAL_WHEN_FULL_..`. The ring is also full when it holds 16 MiB of rows. Default 4096,
 * and the writer waits.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown behavior; the open reports an invalid capacity.
 */
int32_t waxseal_options_set_ring(waxseal_options_t *options, size_t events, int32_t when_full);

/**
 * Returns the counters of the event ring.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` in a store that was opened without its registry, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_event_ring(const waxseal_db_t *db, waxseal_ring_t *ring, waxseal_error_t **error);

/**
 * Waits until every async event accepted so far is in the log.
 *
 * Thread-safe. Errors: as of a commit; `WAXSEAL_INVALID` in a store that was opened without its registry.
 */
int32_t waxseal_drain_events(waxseal_db_t *db, waxseal_error_t **error);

/**
 * Returns the family's current table files, upper levels first. Costs no I/O.
 *
 * Thread-safe. On success the caller owns `*tables` and frees it with `waxseal_tables_destroy`. Errors:
 * `WAXSEAL_CLOSED`.
 */
int32_t waxseal_tables(const waxseal_family_t *family, waxseal_tables_t **tables, waxseal_error_t **error);

/**
 * Returns the tables that may have an item of a property, upper levels first. No table with the item is missing: a
 * table may have the items of the blob files that it points into, and a file without the property may have any item.
 * Records that are not flushed are in no table. Opens each table that is not open.
 *
 * Thread-safe. On success the caller owns `*tables` and frees it with `waxseal_tables_destroy`. Errors:
 * `WAXSEAL_CLOSED`, `WAXSEAL_IO`.
 */
int32_t waxseal_tables_with(const waxseal_family_t *family,
                            const uint8_t *property,
                            size_t property_len,
                            const uint8_t *item,
                            size_t item_len,
                            waxseal_tables_t **tables,
                            waxseal_error_t **error);

/**
 * Returns the family's damaged tables that are excluded from compaction until they are repaired.
 *
 * Thread-safe. On success the caller owns `*tables` and frees it with `waxseal_tables_destroy`. Errors:
 * `WAXSEAL_CLOSED`.
 */
int32_t waxseal_barred_tables(const waxseal_family_t *family, waxseal_tables_t **tables, waxseal_error_t **error);

/**
 * Number of tables; 0 for null and for a destroyed list.
 *
 * Thread-safe.
 */
size_t waxseal_tables_count(const waxseal_tables_t *tables);

/**
 * The table at a 0-based index. `WAXSEAL_NOT_FOUND` past the end.
 *
 * Thread-safe.
 */
int32_t waxseal_tables_get(const waxseal_tables_t *tables, size_t at, waxseal_table_file_t *table);

/**
 * Destroys a list of tables. Null is allowed; a destroyed list is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_tables_destroy(waxseal_tables_t *tables);

/**
 * Returns the ranges of permanently lost records: reads in them return `WAXSEAL_CORRUPTION`, until a repair lifts the
 * fence.
 *
 * Thread-safe. On success the caller owns `*fences` and frees it with `waxseal_fences_destroy`. Errors:
 * `WAXSEAL_CLOSED`.
 */
int32_t waxseal_fences(const waxseal_family_t *family, waxseal_fences_t **fences, waxseal_error_t **error);

/**
 * Number of fences; 0 for null and for a destroyed list.
 *
 * Thread-safe.
 */
size_t waxseal_fences_count(const waxseal_fences_t *fences);

/**
 * The fence at a 0-based index. `WAXSEAL_NOT_FOUND` past the end.
 *
 * Thread-safe.
 */
int32_t waxseal_fences_get(const waxseal_fences_t *fences, size_t at, waxseal_fence_t *fence);

/**
 * Destroys a list of fences. Null is allowed; a destroyed list is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_fences_destroy(waxseal_fences_t *fences);

/**
 * Returns the tables and key ranges that are or were in quarantine, ordered by family, as recorded in
 * `system_metadata.quarantine`.
 *
 * Thread-safe. On success the caller owns `*cases` and frees it with `waxseal_cases_destroy`. Errors:
 * `WAXSEAL_INVALID` in a store that was opened without its registry; otherwise as of reads.
 */
int32_t waxseal_quarantined(const waxseal_db_t *db, waxseal_cases_t **cases, waxseal_error_t **error);

/**
 * Number of cases; 0 for null and for a destroyed list.
 *
 * Thread-safe.
 */
size_t waxseal_cases_count(const waxseal_cases_t *cases);

/**
 * The case at a 0-based index. `WAXSEAL_NOT_FOUND` past the end.
 *
 * Thread-safe.
 */
int32_t waxseal_cases_get(const waxseal_cases_t *cases, size_t at, waxseal_case_t *case_);

/**
 * A field of a case, both by 0-based index: the cause, the table, or the range and its bound. `WAXSEAL_NOT_FOUND` past
 * the end. Valid until the list is destroyed.
 *
 * Thread-safe.
 */
int32_t waxseal_cases_field(const waxseal_cases_t *cases, size_t at, size_t field_at, waxseal_field_t *field);

/**
 * Destroys a list of cases. Null is allowed; a destroyed list is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_cases_destroy(waxseal_cases_t *cases);

/**
 * Scans a range as an Arrow C stream. The batches have the columns `key` (binary), `value` (large binary), `seqno`
 * (uint64) and `seal` (uint64, null if a record has none). `columns` selects them by `WAXSEAL_COLUMN_..`, 0 for all. A
 * batch has at most `batch_rows` rows (0 means 65,536), and ends with the row at which its keys and values reach
 * `batch_bytes` (0 means 16 MiB). A null `snapshot` reads the current state; a null `range` means all keys.
 *
 * A batch has no pointers into the store: batches stay valid until they are released, even after the store is closed.
 * The previous content of `*stream` is overwritten, not released. The stream pins its view of the store until it is
 * released. Damage does not end the stream: the rows before it come first, then one `get_next` fails with EIO and
 * `get_last_error` describes the damage, and the next call continues behind it. After any other failure, such as one
 * of the store's comparator, every call returns the same failure.
 *
 * Thread-safe; the stream is used by one thread at a time. On success the caller owns `*stream` and frees it with its
 * `release`. Errors: `WAXSEAL_INVALID` for unknown columns, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_scan_arrow(const waxseal_family_t *family,
                           const waxseal_snapshot_t *snapshot,
                           const waxseal_range_t *range,
                           uint32_t columns,
                           size_t batch_rows,
                           size_t batch_bytes,
                           struct ArrowArrayStream *stream,
                           waxseal_error_t **error);

/**
 * As `waxseal_scan_arrow`, with the columns in a chosen order: `count` of `WAXSEAL_COLUMN_..`, each at most once.
 *
 * Thread-safe; the stream is used by one thread at a time. On success the caller owns `*stream` and frees it with its
 * `release`. Errors: as of `waxseal_scan_arrow`; `WAXSEAL_INVALID` if no column is chosen, or one twice.
 */
int32_t waxseal_scan_arrow_columns(const waxseal_family_t *family,
                                   const waxseal_snapshot_t *snapshot,
                                   const waxseal_range_t *range,
                                   const uint32_t *columns,
                                   size_t count,
                                   size_t batch_rows,
                                   size_t batch_bytes,
                                   struct ArrowArrayStream *stream,
                                   waxseal_error_t **error);

/**
 * Opens the file store in the families `name` and `name-chunks`, or creates it. `chunk_bytes` is the chunk size of
 * files in a new one, 4,096 to 5,000,000; 0 is the default of 256 KiB. An existing one keeps its own.
 *
 * Thread-safe. On success the caller owns `*files` and frees it with `waxseal_files_destroy`. Errors: `WAXSEAL_FILE`
 * with `EINVAL` if a family of this name holds other records, or if there is none in a store that is open for reading
 * only; `WAXSEAL_CORRUPTION`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_files_open(waxseal_db_t *db,
                           const uint8_t *name,
                           size_t name_len,
                           uint32_t chunk_bytes,
                           waxseal_files_t **files,
                           waxseal_error_t **error);

/**
 * Returns the same file store, whose changes are made under the session's identity.
 *
 * Thread-safe. On success the caller owns `*own` and frees it with `waxseal_files_destroy`. Errors: `WAXSEAL_INVALID`
 * for a session of another store, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_files_in_session(const waxseal_files_t *files,
                                 const waxseal_session_t *session,
                                 waxseal_files_t **own,
                                 waxseal_error_t **error);

/**
 * Returns the same file store, whose changes have this durability, one of `WAXSEAL_DURABILITY_..`.
 *
 * Thread-safe. On success the caller owns `*own` and frees it with `waxseal_files_destroy`. Errors: `WAXSEAL_INVALID`
 * for an unknown durability.
 */
int32_t waxseal_files_with_durability(const waxseal_files_t *files,
                                      int32_t durability,
                                      waxseal_files_t **own,
                                      waxseal_error_t **error);

/**
 * Makes every finished change durable.
 *
 * Thread-safe. Errors: `WAXSEAL_IO`, `WAXSEAL_HALTED`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_files_sync(waxseal_files_t *files, waxseal_error_t **error);

/**
 * Deletes the content that removed and replaced files have left, except that of open files. A thread of the store does
 * this on its own. `*count` is the number of deleted contents; it may be null.
 *
 * Thread-safe. Errors: `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_files_reclaim(waxseal_files_t *files, uint64_t *count, waxseal_error_t **error);

/**
 * Creates a directory.
 *
 * Thread-safe. Errors: `WAXSEAL_FILE` with `EEXIST`, or with `ENOENT` or `ENOTDIR` for the directory above.
 */
int32_t waxseal_files_mkdir(waxseal_files_t *files,
                            const uint8_t *path,
                            size_t path_len,
                            waxseal_file_attributes_t attributes,
                            waxseal_error_t **error);

/**
 * Creates a directory and all directories above it that do not exist. Succeeds if it exists.
 *
 * Thread-safe. Errors: `WAXSEAL_FILE` with `EEXIST` or `ENOTDIR` for an entry that is no directory.
 */
int32_t waxseal_files_create_dirs(waxseal_files_t *files,
                                  const uint8_t *path,
                                  size_t path_len,
                                  waxseal_error_t **error);

/**
 * Creates a symbolic link to `target`, which need not exist. If `replace` is true, another link at the path gets the
 * target in one step.
 *
 * Thread-safe. Errors: as of `waxseal_files_mkdir`; `WAXSEAL_FILE` with `EINVAL` for a target that is empty or has a
 * zero byte, `ENAMETOOLONG`.
 */
int32_t waxseal_files_symlink(waxseal_files_t *files,
                              const uint8_t *target,
                              size_t target_len,
                              const uint8_t *path,
                              size_t path_len,
                              waxseal_file_attributes_t attributes,
                              bool replace,
                              waxseal_error_t **error);

/**
 * Creates an empty file, a named pipe or a socket: `kind` is one of `WAXSEAL_FILE_KIND_..`.
 *
 * Thread-safe. Errors: as of `waxseal_files_mkdir`; `WAXSEAL_FILE` with `EINVAL` for another kind.
 */
int32_t waxseal_files_create_node(waxseal_files_t *files,
                                  const uint8_t *path,
                                  size_t path_len,
                                  int32_t kind,
                                  waxseal_file_attributes_t attributes,
                                  waxseal_error_t **error);

/**
 * Writes a whole file: creates it, or replaces its content. Readers and crashes see the old file or the new one. An
 * existing file keeps its extended attributes, and the attributes that `attributes` does not set. `*info` receives the
 * attributes of the file; it may be null.
 *
 * Thread-safe. Errors: `WAXSEAL_FILE` with `EISDIR`, `ELOOP` or `EINVAL` if the path exists and is no file, with
 * `ENOENT` or `ENOTDIR` for the directory above; `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`.
 */
int32_t waxseal_files_write(waxseal_files_t *files,
                            const uint8_t *path,
                            size_t path_len,
                            const uint8_t *content,
                            size_t content_len,
                            waxseal_file_attributes_t attributes,
                            waxseal_file_info_t *info,
                            waxseal_error_t **error);

/**
 * Appends to a file, which is created if it does not exist, and commits.
 *
 * Thread-safe. Errors: as of `waxseal_files_write`, and `WAXSEAL_CORRUPTION` if the last chunk is damaged.
 */
int32_t waxseal_files_append(waxseal_files_t *files,
                             const uint8_t *path,
                             size_t path_len,
                             const uint8_t *content,
                             size_t content_len,
                             waxseal_error_t **error);

/**
 * Sets the length of a file, and commits. A longer file ends in zeros.
 *
 * Thread-safe. Errors: `WAXSEAL_FILE` with `ENOENT`, `EISDIR`, `ELOOP` or `EFBIG`; `WAXSEAL_CORRUPTION` if the chunk
 * that is cut is damaged.
 */
int32_t waxseal_files_truncate(waxseal_files_t *files,
                               const uint8_t *path,
                               size_t path_len,
                               uint64_t size,
                               waxseal_error_t **error);

/**
 * Sets attributes.
 *
 * Thread-safe. Errors: `WAXSEAL_FILE` with `ENOENT`, or with `EINVAL` for a mode above 07777.
 */
int32_t waxseal_files_set_attributes(waxseal_files_t *files,
                                     const uint8_t *path,
                                     size_t path_len,
                                     waxseal_file_attributes_t attributes,
                                     waxseal_error_t **error);

/**
 * Sets an extended attribute; `mode` is one of `WAXSEAL_XATTR_..`.
 *
 * Thread-safe. Errors: `WAXSEAL_FILE` with `ENOENT`, `EEXIST` or `ENODATA`, with `EINVAL` for an empty name, and with
 * `ENOSPC` if all attributes of the entry would have more than 2,048 bytes.
 */
int32_t waxseal_files_set_xattr(waxseal_files_t *files,
                                const uint8_t *path,
                                size_t path_len,
                                const uint8_t *name,
                                size_t name_len,
                                const uint8_t *value,
                                size_t value_len,
                                int32_t mode,
                                waxseal_error_t **error);

/**
 * Removes an extended attribute.
 *
 * Thread-safe. Errors: `WAXSEAL_FILE` with `ENOENT` or `ENODATA`.
 */
int32_t waxseal_files_remove_xattr(waxseal_files_t *files,
                                   const uint8_t *path,
                                   size_t path_len,
                                   const uint8_t *name,
                                   size_t name_len,
                                   waxseal_error_t **error);

/**
 * Removes a file, link, named pipe or socket under a condition, one of `WAXSEAL_IF_..`. Open files keep their content.
 * `etag` counts where the condition needs one: the text that `waxseal_files_etag` returns.
 *
 * Thread-safe. Errors: `WAXSEAL_FILE` with `ENOENT` or `EISDIR`, and with `ECANCELED` if the condition is not met.
 */
int32_t waxseal_files_remove(waxseal_files_t *files,
                             const uint8_t *path,
                             size_t path_len,
                             int32_t condition,
                             const uint8_t *etag,
                             size_t etag_len,
                             waxseal_error_t **error);

/**
 * Removes an empty directory.
 *
 * Thread-safe. Errors: `WAXSEAL_FILE` with `ENOENT`, `ENOTDIR` or `ENOTEMPTY`, and with `EBUSY` for the root.
 */
int32_t waxseal_files_remove_dir(waxseal_files_t *files, const uint8_t *path, size_t path_len, waxseal_error_t **error);

/**
 * Removes an entry with everything below it: up to a million entries in one atomic step.
 *
 * Thread-safe. Errors: `WAXSEAL_FILE` with `ENOENT`, and with `EBUSY` for the root.
 */
int32_t waxseal_files_remove_tree(waxseal_files_t *files,
                                  const uint8_t *path,
                                  size_t path_len,
                                  waxseal_error_t **error);

/**
 * Renames a file or a tree in one atomic step; `mode` is one of `WAXSEAL_RENAME_..`. Open files follow.
 *
 * Thread-safe. Errors: `WAXSEAL_FILE` with `ENOENT`, with `EISDIR`, `ENOTDIR`, `ENOTEMPTY` or `EEXIST` for the new
 * path, with `EINVAL` for a path below the old one, with `EBUSY` for the root, and with `EFBIG` for a tree of more
 * than a million entries.
 */
int32_t waxseal_files_rename(waxseal_files_t *files,
                             const uint8_t *from,
                             size_t from_len,
                             const uint8_t *to,
                             size_t to_len,
                             int32_t mode,
                             waxseal_error_t **error);

/**
 * Copies a file with its attributes, in one atomic step. Every byte is verified, and holes stay holes.
 *
 * Thread-safe. Errors: as of `waxseal_files_read` and `waxseal_files_write`.
 */
int32_t waxseal_files_copy(waxseal_files_t *files,
                           const uint8_t *from,
                           size_t from_len,
                           const uint8_t *to,
                           size_t to_len,
                           waxseal_error_t **error);

/**
 * Copies a tree as it is now, entry by entry.
 *
 * Thread-safe. Errors: as of `waxseal_files_copy`; `WAXSEAL_FILE` with `EEXIST` if the new path exists. The copy then
 * ends before the entry at fault.
 */
int32_t waxseal_files_copy_tree(waxseal_files_t *files,
                                const uint8_t *from,
                                size_t from_len,
                                const uint8_t *to,
                                size_t to_len,
                                waxseal_error_t **error);

/**
 * Destroys a file store's handle. Open files, writers and lists stay valid. Null is allowed; a destroyed one is
 * `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_files_destroy(waxseal_files_t *files);

/**
 * Opens a file; `flags` are `WAXSEAL_FILE_READ` and others, combined by or. `attributes` are those of a file that is
 * created. With a `snapshot`, the file is opened as it was then, for reading only.
 *
 * Thread-safe. On success the caller owns `*file` and frees it with `waxseal_file_destroy`. Errors: `WAXSEAL_FILE`
 * with `ENOENT`, `ENOTDIR`, `EISDIR`, `ELOOP` or `EEXIST`, and with `EINVAL` for flags that allow nothing, or that
 * create or truncate without allowing writes; `WAXSEAL_INVALID` for unknown flags, and for writes in a snapshot.
 */
int32_t waxseal_file_open(waxseal_files_t *files,
                          const waxseal_file_snapshot_t *snapshot,
                          const uint8_t *path,
                          size_t path_len,
                          uint32_t flags,
                          waxseal_file_attributes_t attributes,
                          waxseal_file_t **file,
                          waxseal_error_t **error);

/**
 * Returns the attributes, with changes that wait in memory.
 *
 * Thread-safe.
 */
int32_t waxseal_file_stat(const waxseal_file_t *file, waxseal_file_info_t *info, waxseal_error_t **error);

/**
 * Returns up to `length` bytes from a position: fewer at the end of the file only. Every byte is verified.
 *
 * Thread-safe. On success the caller owns `*content` and frees it with `waxseal_bytes_destroy`. Errors: `WAXSEAL_FILE`
 * with `EBADF` if the handle is not for reading; `WAXSEAL_CORRUPTION` if a byte is damaged or missing;
 * `WAXSEAL_OUT_OF_MEMORY`.
 */
int32_t waxseal_file_read(const waxseal_file_t *file,
                          uint64_t offset,
                          size_t length,
                          waxseal_bytes_t **content,
                          waxseal_error_t **error);

/**
 * Writes at a position, or at the end if the handle appends. Bytes between the end and the position become zeros.
 *
 * Thread-safe. Errors: `WAXSEAL_FILE` with `EBADF` if the handle is not for writing, or with `EFBIG`;
 * `WAXSEAL_CORRUPTION` if a chunk that changes is damaged.
 */
int32_t waxseal_file_write(waxseal_file_t *file,
                           const uint8_t *content,
                           size_t content_len,
                           uint64_t offset,
                           waxseal_error_t **error);

/**
 * Writes at the end. `*offset` receives the position; it may be null.
 *
 * Thread-safe. Errors: as of `waxseal_file_write`.
 */
int32_t waxseal_file_append(waxseal_file_t *file,
                            const uint8_t *content,
                            size_t content_len,
                            uint64_t *offset,
                            waxseal_error_t **error);

/**
 * Sets the length. A longer file ends in zeros.
 *
 * Thread-safe. Errors: as of `waxseal_file_write`.
 */
int32_t waxseal_file_set_len(waxseal_file_t *file, uint64_t size, waxseal_error_t **error);

/**
 * Returns the first position from `offset` on that is in a hole; the end of the file counts as one.
 * `WAXSEAL_NOT_FOUND` from the end on (`SEEK_HOLE`).
 *
 * Thread-safe.
 */
int32_t waxseal_file_next_hole(const waxseal_file_t *file, uint64_t offset, uint64_t *hole, waxseal_error_t **error);

/**
 * Returns the first position from `offset` on that is in no hole. `WAXSEAL_NOT_FOUND` if only holes follow
 * (`SEEK_DATA`).
 *
 * Thread-safe.
 */
int32_t waxseal_file_next_data(const waxseal_file_t *file, uint64_t offset, uint64_t *data, waxseal_error_t **error);

/**
 * Commits all changes of the file in one step, with size, times and digest.
 *
 * Thread-safe. Errors: `WAXSEAL_IO`, `WAXSEAL_HALTED`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_file_flush(waxseal_file_t *file, waxseal_error_t **error);

/**
 * Commits all changes and makes them durable.
 *
 * Thread-safe. Errors: as of `waxseal_file_flush`.
 */
int32_t waxseal_file_sync(waxseal_file_t *file, waxseal_error_t **error);

/**
 * Destroys an open file. Changes are flushed, and an error is lost: call `waxseal_file_flush` first. Null is allowed;
 * a destroyed file is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_file_destroy(waxseal_file_t *file);

/**
 * Lists a directory in the order of names, behind the name `after`; without one (length 0) from the first. `after`
 * need not exist. A null `snapshot` is the current state.
 *
 * Thread-safe. On success the caller owns `*list` and frees it with `waxseal_file_list_destroy`. Errors:
 * `WAXSEAL_FILE` with `ENOENT` or `ENOTDIR`; `WAXSEAL_CORRUPTION`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_files_list(const waxseal_files_t *files,
                           const waxseal_file_snapshot_t *snapshot,
                           const uint8_t *path,
                           size_t path_len,
                           const uint8_t *after,
                           size_t after_len,
                           waxseal_file_list_t **list,
                           waxseal_error_t **error);

/**
 * Walks over a tree, its root first: each directory before its entries, these in the order of their names. One scan. A
 * null `snapshot` is the current state.
 *
 * Thread-safe. On success the caller owns `*list` and frees it with `waxseal_file_list_destroy`. Errors: as of
 * `waxseal_files_stat`.
 */
int32_t waxseal_files_walk(const waxseal_files_t *files,
                           const waxseal_file_snapshot_t *snapshot,
                           const uint8_t *path,
                           size_t path_len,
                           waxseal_file_list_t **list,
                           waxseal_error_t **error);

/**
 * As `waxseal_files_walk`, over the entries whose names match a pattern: `*`, `?`, `[a-z]`, `[!a-z]`, and `\` before a
 * byte that is meant literally.
 *
 * Thread-safe. On success the caller owns `*list` and frees it with `waxseal_file_list_destroy`. Errors: as of
 * `waxseal_files_walk`.
 */
int32_t waxseal_files_find(const waxseal_files_t *files,
                           const waxseal_file_snapshot_t *snapshot,
                           const uint8_t *path,
                           size_t path_len,
                           const uint8_t *pattern,
                           size_t pattern_len,
                           waxseal_file_list_t **list,
                           waxseal_error_t **error);

/**
 * Returns the next entry. `WAXSEAL_NOT_FOUND` at the end. A damaged entry is one `WAXSEAL_CORRUPTION`, and the next
 * call continues behind it.
 *
 * One thread at a time. Errors: `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_file_list_next(waxseal_file_list_t *list, waxseal_file_entry_t *entry, waxseal_error_t **error);

/**
 * Destroys a list of files. Null is allowed; a destroyed one is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_file_list_destroy(waxseal_file_list_t *list);

/**
 * Returns the tree as it is now, for reads. Changes of open files that were not flushed are not in it.
 *
 * Thread-safe. On success the caller owns `*snapshot` and frees it with `waxseal_file_snapshot_destroy`. Errors:
 * `WAXSEAL_CLOSED`.
 */
int32_t waxseal_file_snapshot_create(waxseal_files_t *files,
                                     waxseal_file_snapshot_t **snapshot,
                                     waxseal_error_t **error);

/**
 * Returns the attributes of a path. A null `snapshot` is the current state, with changes of open files that wait in
 * memory.
 *
 * Thread-safe. Errors: `WAXSEAL_FILE` with `ENOENT` or `ENOTDIR`; `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`,
 * `WAXSEAL_CLOSED`.
 */
int32_t waxseal_files_stat(const waxseal_files_t *files,
                           const waxseal_file_snapshot_t *snapshot,
                           const uint8_t *path,
                           size_t path_len,
                           waxseal_file_info_t *info,
                           waxseal_error_t **error);

/**
 * Returns the entity tag of a file: its digest and size as text. `WAXSEAL_NOT_FOUND` while changes of an open file
 * wait in memory, and for an entry that is no file. A null `snapshot` is the current state.
 *
 * Thread-safe. On `WAXSEAL_OK` the caller owns `*etag` and frees it with `waxseal_bytes_destroy`. Errors: as of
 * `waxseal_files_stat`.
 */
int32_t waxseal_files_etag(const waxseal_files_t *files,
                           const waxseal_file_snapshot_t *snapshot,
                           const uint8_t *path,
                           size_t path_len,
                           waxseal_bytes_t **etag,
                           waxseal_error_t **error);

/**
 * Returns the content of a file as it was committed last, or at a snapshot. Every byte is verified.
 *
 * Thread-safe. On success the caller owns `*content` and frees it with `waxseal_bytes_destroy`. Errors: `WAXSEAL_FILE`
 * with `ENOENT`, `ENOTDIR`, `EISDIR`, `ELOOP` or `EINVAL`, and with `EFBIG` if memory does not hold it;
 * `WAXSEAL_CORRUPTION` if a byte is damaged or missing.
 */
int32_t waxseal_files_read(const waxseal_files_t *files,
                           const waxseal_file_snapshot_t *snapshot,
                           const uint8_t *path,
                           size_t path_len,
                           waxseal_bytes_t **content,
                           waxseal_error_t **error);

/**
 * Returns the target of a symbolic link. A null `snapshot` is the current state.
 *
 * Thread-safe. On success the caller owns `*target` and frees it with `waxseal_bytes_destroy`. Errors: as of
 * `waxseal_files_stat`; `WAXSEAL_FILE` with `EINVAL` if it is no link.
 */
int32_t waxseal_files_read_link(const waxseal_files_t *files,
                                const waxseal_file_snapshot_t *snapshot,
                                const uint8_t *path,
                                size_t path_len,
                                waxseal_bytes_t **target,
                                waxseal_error_t **error);

/**
 * Returns an extended attribute. A null `snapshot` is the current state.
 *
 * Thread-safe. On success the caller owns `*value` and frees it with `waxseal_bytes_destroy`. Errors: as of
 * `waxseal_files_stat`; `WAXSEAL_FILE` with `ENODATA`.
 */
int32_t waxseal_files_xattr(const waxseal_files_t *files,
                            const waxseal_file_snapshot_t *snapshot,
                            const uint8_t *path,
                            size_t path_len,
                            const uint8_t *name,
                            size_t name_len,
                            waxseal_bytes_t **value,
                            waxseal_error_t **error);

/**
 * Returns the names of the extended attributes, sorted, each followed by a zero byte. A null `snapshot` is the current
 * state.
 *
 * Thread-safe. On success the caller owns `*names` and frees it with `waxseal_bytes_destroy`. Errors: as of
 * `waxseal_files_stat`.
 */
int32_t waxseal_files_xattrs(const waxseal_files_t *files,
                             const waxseal_file_snapshot_t *snapshot,
                             const uint8_t *path,
                             size_t path_len,
                             waxseal_bytes_t **names,
                             waxseal_error_t **error);

/**
 * Returns the space that a tree takes. Costs a walk. A null `snapshot` is the current state.
 *
 * Thread-safe. Errors: as of `waxseal_files_stat`.
 */
int32_t waxseal_files_usage(const waxseal_files_t *files,
                            const waxseal_file_snapshot_t *snapshot,
                            const uint8_t *path,
                            size_t path_len,
                            waxseal_file_usage_t *usage,
                            waxseal_error_t **error);

/**
 * Reads every byte of a tree and compares each file with its digest. The report is JSON: `entries`, `bytes`, `faults`,
 * and `problems` with `path` and `fault` of the first 1,000. A null `snapshot` is the current state.
 *
 * Thread-safe. On success, also if there are faults, the caller owns `*json` and frees it with
 * `waxseal_bytes_destroy`. Errors: as of `waxseal_files_stat`, except damage.
 */
int32_t waxseal_files_verify(const waxseal_files_t *files,
                             const waxseal_file_snapshot_t *snapshot,
                             const uint8_t *path,
                             size_t path_len,
                             waxseal_bytes_t **json,
                             waxseal_error_t **error);

/**
 * Checks that the records of the file store agree. The report is JSON: `entries`, `contents`, `reclaims`, `chunks`,
 * `faults`, and `problems` with `path` and `fault` of the first 1,000.
 *
 * Thread-safe. On success, also if there are faults, the caller owns `*json` and frees it with
 * `waxseal_bytes_destroy`. Errors: as of `waxseal_files_verify`.
 */
int32_t waxseal_files_fsck(const waxseal_files_t *files, waxseal_bytes_t **json, waxseal_error_t **error);

/**
 * Destroys a snapshot of files. Null is allowed; a destroyed one is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_file_snapshot_destroy(waxseal_file_snapshot_t *snapshot);

/**
 * Begins to write a whole file: `waxseal_files_write` for content that is not in memory.
 *
 * Thread-safe. On success the caller owns `*writer` and frees it with `waxseal_file_writer_destroy`. Errors: as of
 * `waxseal_files_write`.
 */
int32_t waxseal_file_writer_create(waxseal_files_t *files,
                                   const uint8_t *path,
                                   size_t path_len,
                                   waxseal_file_attributes_t attributes,
                                   waxseal_file_writer_t **writer,
                                   waxseal_error_t **error);

/**
 * Sets the condition of the write, one of `WAXSEAL_IF_..`. `etag` counts where the condition needs one: the text that
 * `waxseal_files_etag` returns.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown condition and after the end; `WAXSEAL_FILE` with
 * `EINVAL` for a text that is no entity tag.
 */
int32_t waxseal_file_writer_only_if(waxseal_file_writer_t *writer,
                                    int32_t condition,
                                    const uint8_t *etag,
                                    size_t etag_len,
                                    waxseal_error_t **error);

/**
 * Appends bytes.
 *
 * One thread at a time. Errors: `WAXSEAL_FILE` with `EFBIG`, and with `EINVAL` after a call that failed;
 * `WAXSEAL_INVALID` after the end; `WAXSEAL_IO`.
 */
int32_t waxseal_file_writer_write(waxseal_file_writer_t *writer,
                                  const uint8_t *content,
                                  size_t content_len,
                                  waxseal_error_t **error);

/**
 * Appends zeros. Whole chunks of them become a hole, which takes no space.
 *
 * One thread at a time. Errors: as of `waxseal_file_writer_write`.
 */
int32_t waxseal_file_writer_skip(waxseal_file_writer_t *writer, uint64_t length, waxseal_error_t **error);

/**
 * Sets an extended attribute, which the file gets with its content. The file then has those that this call sets, and
 * none of an existing file.
 *
 * One thread at a time. Errors: `WAXSEAL_FILE` with `EINVAL`, `ENAMETOOLONG` or `ENOSPC`, as of
 * `waxseal_files_set_xattr`.
 */
int32_t waxseal_file_writer_set_xattr(waxseal_file_writer_t *writer,
                                      const uint8_t *name,
                                      size_t name_len,
                                      const uint8_t *value,
                                      size_t value_len,
                                      waxseal_error_t **error);

/**
 * Gives the file its content, in one atomic step, and ends the writer, whatever the outcome. `*info` receives the
 * attributes of the file; it may be null.
 *
 * One thread at a time. Errors: as of `waxseal_files_write`; `WAXSEAL_FILE` with `ECANCELED` if the condition is not
 * met, and with `EINVAL` if an earlier write failed: the old file stays.
 */
int32_t waxseal_file_writer_finish(waxseal_file_writer_t *writer, waxseal_file_info_t *info, waxseal_error_t **error);

/**
 * Gives several files their contents, all in one atomic step: readers, snapshots and crashes see all of them or none.
 * Ends all `writers`, whatever the outcome. Of several writers of one path the last one counts.
 *
 * Thread-safe, but each writer is used by one thread at a time. Errors: as of `waxseal_file_writer_finish`, and
 * `WAXSEAL_FILE` with `EINVAL` for a writer of another store, and with `ECANCELED` for two writers of a path of which
 * one has a condition: no file is changed. An error of a sync comes after the commit.
 */
int32_t waxseal_file_writers_finish(waxseal_files_t *files,
                                    waxseal_file_writer_t *const *writers,
                                    size_t count,
                                    waxseal_error_t **error);

/**
 * Destroys a file writer; a file that is not finished leaves nothing. Null is allowed; a destroyed one is
 * `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_file_writer_destroy(waxseal_file_writer_t *writer);

/**
 * Returns the present name of a table.
 *
 * Thread-safe. On success the caller owns `*name` and frees it with `waxseal_bytes_destroy`. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_table_name(const waxseal_table_t *table, waxseal_bytes_t **name, waxseal_error_t **error);

/**
 * Destroys a handle of a table. Null is allowed; a destroyed handle is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_table_destroy(waxseal_table_t *table);

/**
 * Creates a table, `keyspace.name`. It is durable when the call returns.
 *
 * Thread-safe. On success the caller owns `*table` and frees it with `waxseal_table_destroy`. Errors:
 * `WAXSEAL_EXISTS`; `WAXSEAL_INVALID` for a malformed name, for a schema that no table can have, and if the store has
 * format level 1; `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_table_create(waxseal_db_t *db,
                             const uint8_t *name,
                             size_t name_len,
                             const waxseal_table_schema_t *schema,
                             waxseal_table_t **table,
                             waxseal_error_t **error);

/**
 * Opens a table.
 *
 * Thread-safe. On success the caller owns `*table` and frees it with `waxseal_table_destroy`. Errors:
 * `WAXSEAL_NO_SUCH_NAME`; `WAXSEAL_INVALID` for a malformed name; `WAXSEAL_CORRUPTION` if its schema is damaged;
 * `WAXSEAL_CLOSED`.
 */
int32_t waxseal_table_open(waxseal_db_t *db,
                           const uint8_t *name,
                           size_t name_len,
                           waxseal_table_t **table,
                           waxseal_error_t **error);

/**
 * Drops a table and everything in it. Its handles fail afterwards. The drop is durable when the call returns.
 *
 * Thread-safe. Errors: `WAXSEAL_NO_SUCH_NAME`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_table_drop(waxseal_db_t *db, const uint8_t *name, size_t name_len, waxseal_error_t **error);

/**
 * Renames a table, also into another keyspace. Its handles stay valid. The new name is durable when the call returns.
 *
 * Thread-safe. Errors: `WAXSEAL_NO_SUCH_NAME`; `WAXSEAL_EXISTS`; `WAXSEAL_INVALID` for a malformed name;
 * `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_table_rename(waxseal_db_t *db,
                             const uint8_t *name,
                             size_t name_len,
                             const uint8_t *new_name,
                             size_t new_name_len,
                             waxseal_error_t **error);

/**
 * Returns the names of all tables, sorted, each followed by a zero byte.
 *
 * Thread-safe. On success the caller owns `*names` and frees it with `waxseal_bytes_destroy`. Errors:
 * `WAXSEAL_CORRUPTION`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_table_names(waxseal_db_t *db, waxseal_bytes_t **names, waxseal_error_t **error);

/**
 * As `waxseal_table_create`, but creates the table and writes through the handle under the session's identity.
 *
 * Thread-safe. On success the caller owns `*table` and frees it with `waxseal_table_destroy`. Errors: as of
 * `waxseal_table_create`.
 */
int32_t waxseal_session_table_create(const waxseal_session_t *session,
                                     const uint8_t *name,
                                     size_t name_len,
                                     const waxseal_table_schema_t *schema,
                                     waxseal_table_t **table,
                                     waxseal_error_t **error);

/**
 * As `waxseal_table_open`, but the handle writes under the session's identity.
 *
 * Thread-safe. On success the caller owns `*table` and frees it with `waxseal_table_destroy`. Errors: as of
 * `waxseal_table_open`.
 */
int32_t waxseal_session_table_open(const waxseal_session_t *session,
                                   const uint8_t *name,
                                   size_t name_len,
                                   waxseal_table_t **table,
                                   waxseal_error_t **error);

/**
 * As `waxseal_table_drop`, under the session's identity.
 *
 * Thread-safe. Errors: as of `waxseal_table_drop`.
 */
int32_t waxseal_session_table_drop(const waxseal_session_t *session,
                                   const uint8_t *name,
                                   size_t name_len,
                                   waxseal_error_t **error);

/**
 * As `waxseal_table_rename`, under the session's identity.
 *
 * Thread-safe. Errors: as of `waxseal_table_rename`.
 */
int32_t waxseal_session_table_rename(const waxseal_session_t *session,
                                     const uint8_t *name,
                                     size_t name_len,
                                     const uint8_t *new_name,
                                     size_t new_name_len,
                                     waxseal_error_t **error);

/**
 * Adds an index, and builds it while reads and writes go on. Selects can use it when the call returns. After a crash,
 * or an error of the store, call it again. `waxseal_table_alter` drops an index.
 *
 * Thread-safe. Errors: `WAXSEAL_EXISTS` for an index of the name, unless its build was interrupted, and for rows that
 * have the same values of a unique index; `WAXSEAL_INVALID` for an index that the table cannot have;
 * `WAXSEAL_CONFLICT` if another call builds or drops the index; `WAXSEAL_CORRUPTION` if a row is damaged.
 */
int32_t waxseal_table_create_index(waxseal_table_t *table, const waxseal_table_index_t *index, waxseal_error_t **error);

/**
 * Builds an index again from the rows. If that fails, the index stays as it was.
 *
 * Thread-safe. Errors: `WAXSEAL_NO_SUCH_NAME`, and as of `waxseal_table_create_index`.
 */
int32_t waxseal_table_rebuild_index(waxseal_table_t *table,
                                    const uint8_t *name,
                                    size_t name_len,
                                    waxseal_error_t **error);

/**
 * Checks at one snapshot that every row has its entries and every entry its row. Damage is counted, not an error.
 *
 * Thread-safe. Errors: `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_table_verify_indexes(const waxseal_table_t *table,
                                     waxseal_table_index_report_t *report,
                                     waxseal_error_t **error);

/**
 * Rebuilds every index. `*count` is their number; it may be null. Beside damaged rows the indexes stay as they were.
 *
 * Thread-safe. Errors: as of `waxseal_table_create_index`.
 */
int32_t waxseal_table_repair_indexes(waxseal_table_t *table, uint64_t *count, waxseal_error_t **error);

/**
 * Returns the row of a key: `waxseal_table_rows_next` lends it. `WAXSEAL_NOT_FOUND` if the table has no row of the
 * key. Reads the current state, or that of a snapshot or of a transaction: the other one is null.
 *
 * Thread-safe, if no other thread uses the transaction meanwhile. On `WAXSEAL_OK` the caller owns `*rows` and frees it
 * with `waxseal_table_rows_destroy`. Errors: `WAXSEAL_INVALID` for an incomplete key, for a snapshot and a transaction
 * at once, and for those of another store; `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_table_get(const waxseal_table_t *table,
                          waxseal_table_transaction_t *transaction,
                          const waxseal_snapshot_t *snapshot,
                          waxseal_value_list_t key,
                          waxseal_table_rows_t **rows,
                          waxseal_error_t **error);

/**
 * Reads rows. A null `select` is all rows.
 *
 * Thread-safe. On success the caller owns `*rows` and frees it with `waxseal_table_rows_destroy`. Errors:
 * `WAXSEAL_NO_SUCH_NAME` for an unknown column or index; `WAXSEAL_INVALID` for a value that does not fit, and for a
 * range over hashed partitions without `is_full_scan`; `WAXSEAL_CLOSED`.
 */
int32_t waxseal_table_select(const waxseal_table_t *table,
                             const waxseal_table_select_t *select,
                             waxseal_table_rows_t **rows,
                             waxseal_error_t **error);

/**
 * Reads one page of rows into memory: as many as the limit of the select. `*next` is the position of the next page, or
 * null if this one has fewer rows than the limit.
 *
 * Thread-safe. On success the caller owns `*rows` and `*next`, and frees them with `waxseal_table_rows_destroy` and
 * `waxseal_bytes_destroy`. Errors: as of `waxseal_table_select` and `waxseal_table_get`; `WAXSEAL_INVALID` without a
 * limit.
 */
int32_t waxseal_table_page(const waxseal_table_t *table,
                           const waxseal_table_select_t *select,
                           waxseal_table_rows_t **rows,
                           waxseal_bytes_t **next,
                           waxseal_error_t **error);

/**
 * Reads the rows of a select as an Arrow C stream, with a column for each column of the table, or for those that the
 * select names, in their order. A null `select` is all rows. Repeated groups and dynamic columns have no place in a
 * stream.
 *
 * Types: large binary, large string, bool, int32, int64, uint64, float, double, decimal128, date32, timestamp in
 * microseconds and UTC, and large list. The extension types `arrow.uuid`, `arrow.json` and `waxseal.empty` (true or
 * null) are those of uuid, json and empty. Batches end and damage is reported as by `waxseal_scan_arrow`.
 *
 * Thread-safe; the stream is used by one thread at a time. On success the caller owns `*stream` and frees it with its
 * `release`. Errors: as of `waxseal_table_select`; `WAXSEAL_INVALID` if no column is named, one twice, or one that has
 * no place in a stream.
 */
int32_t waxseal_table_scan_arrow(const waxseal_table_t *table,
                                 const waxseal_table_select_t *select,
                                 size_t batch_rows,
                                 size_t batch_bytes,
                                 struct ArrowArrayStream *stream,
                                 waxseal_error_t **error);

/**
 * Counts the rows of a select, which are all read. A null `select` is all rows.
 *
 * Thread-safe. Errors: as of `waxseal_table_select` and `waxseal_table_get`.
 */
int32_t waxseal_table_count(const waxseal_table_t *table,
                            const waxseal_table_select_t *select,
                            uint64_t *rows,
                            waxseal_error_t **error);

/**
 * Returns the next row. `WAXSEAL_NOT_FOUND` at the end. The cells are valid until the next call with `rows`. A damaged
 * row is one `WAXSEAL_CORRUPTION`, and the next call continues behind it.
 *
 * One thread at a time. Errors: `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_table_rows_next(waxseal_table_rows_t *rows, waxseal_cells_t *row, waxseal_error_t **error);

/**
 * Destroys rows. Null is allowed; destroyed rows are `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_table_rows_destroy(waxseal_table_rows_t *rows);

/**
 * Returns the version of a table's schema as a snapshot sees it; a null `snapshot` is the current state. It is cheap,
 * so that a copy of the schema can be kept until it changes.
 *
 * Thread-safe. Errors: `WAXSEAL_NO_SUCH_NAME` if the table was dropped and the store is open for reading only, and if
 * the snapshot is older than the table; `WAXSEAL_INVALID` for a snapshot of another store; `WAXSEAL_CLOSED`.
 */
int32_t waxseal_table_schema_version(const waxseal_table_t *table,
                                     const waxseal_snapshot_t *snapshot,
                                     uint64_t *version,
                                     waxseal_error_t **error);

/**
 * Returns a version of a table's schema; 0 is the present one. `WAXSEAL_NOT_FOUND` for a version that does not exist.
 *
 * Thread-safe. On success the caller owns `*description` and frees it with `waxseal_table_description_destroy`.
 * Errors: as of `waxseal_table_schema_version`, `WAXSEAL_CORRUPTION`.
 */
int32_t waxseal_table_describe(const waxseal_table_t *table,
                               uint64_t version,
                               waxseal_table_description_t **description,
                               waxseal_error_t **error);

/**
 * Changes the schema: all steps take effect together, while reads and writes go on. The change is durable when the
 * call returns. Rows are not rewritten.
 *
 * Thread-safe. Errors: `WAXSEAL_NO_SUCH_NAME` and `WAXSEAL_EXISTS` for columns and indexes; `WAXSEAL_INVALID` for a
 * change that is not possible; `WAXSEAL_READ_ONLY`. Nothing changes then.
 */
int32_t waxseal_table_alter(waxseal_table_t *table, waxseal_table_alteration_t alteration, waxseal_error_t **error);

/**
 * Drops a column: no read returns it any more. For `keep_micros` microseconds, `WAXSEAL_ALTER_UNDELETE_COLUMN`
 * restores it with its values. A second drop, or the end of the time, is final.
 *
 * Thread-safe. Errors: `WAXSEAL_NO_SUCH_NAME`; `WAXSEAL_INVALID` for a column of the key; `WAXSEAL_READ_ONLY`.
 */
int32_t waxseal_table_drop_column(waxseal_table_t *table,
                                  const uint8_t *name,
                                  size_t name_len,
                                  uint64_t keep_micros,
                                  waxseal_error_t **error);

/**
 * Removes the values of the columns whose drop is final from all files of the table, and then the columns from the
 * schema. `*report` is JSON: `columns` lists the purged columns, `held` the columns that a snapshot still reads, and
 * `files` is the number of files that may have had values.
 *
 * Thread-safe. On success the caller owns `*report` and frees it with `waxseal_bytes_destroy`. Errors:
 * `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CORRUPTION`; call it again then.
 */
int32_t waxseal_table_purge_columns(waxseal_table_t *table, waxseal_bytes_t **report, waxseal_error_t **error);

/**
 * The schema; null for null and for a destroyed description. Valid until the description is destroyed.
 *
 * Thread-safe.
 */
const waxseal_table_schema_t *waxseal_table_description_schema(const waxseal_table_description_t *description);

/**
 * Destroys a description. Null is allowed; a destroyed one is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_table_description_destroy(waxseal_table_description_t *description);

/**
 * Begins a transaction over rows.
 *
 * Thread-safe. On success the caller owns `*transaction` and frees it with `waxseal_table_transaction_destroy`.
 * Errors: `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`, and those of `waxseal_table_open`.
 */
int32_t waxseal_table_transaction_begin(waxseal_db_t *db,
                                        waxseal_table_transaction_t **transaction,
                                        waxseal_error_t **error);

/**
 * As `waxseal_table_transaction_begin`, but it commits under the session's identity, and takes only tables of that
 * session, and tables without one.
 *
 * Thread-safe. On success the caller owns `*transaction` and frees it with `waxseal_table_transaction_destroy`.
 * Errors: as of `waxseal_table_transaction_begin`.
 */
int32_t waxseal_session_table_transaction_begin(const waxseal_session_t *session,
                                                waxseal_table_transaction_t **transaction,
                                                waxseal_error_t **error);

/**
 * Makes all writes visible atomically and ends the transaction, whatever the outcome. `durability` is one of
 * `WAXSEAL_DURABILITY_..`.
 *
 * One thread at a time. Errors: `WAXSEAL_CONFLICT` if another commit came between: nothing was changed;
 * `WAXSEAL_INVALID` after the end of the transaction, and for an unknown durability, which does not end it;
 * `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_table_transaction_commit(waxseal_table_transaction_t *transaction,
                                         int32_t durability,
                                         waxseal_error_t **error);

/**
 * Discards all writes and ends the transaction, as its destruction does.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` after the end of the transaction, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_table_transaction_rollback(waxseal_table_transaction_t *transaction, waxseal_error_t **error);

/**
 * Destroys a transaction and discards its uncommitted writes. Null is allowed; a destroyed transaction is
 * `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_table_transaction_destroy(waxseal_table_transaction_t *transaction);

/**
 * Adds a row. `transaction` and `options` may be null.
 *
 * Thread-safe, if no other thread uses the transaction meanwhile. Errors: `WAXSEAL_EXISTS` if the table has a row of
 * the key, or of the values of a unique index; `WAXSEAL_INVALID` if a column of the key is missing, and for a value
 * that does not fit; `WAXSEAL_NO_SUCH_NAME` for an unknown column; `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_table_insert(waxseal_table_t *table,
                             waxseal_table_transaction_t *transaction,
                             const waxseal_row_options_t *options,
                             waxseal_cells_t row,
                             waxseal_error_t **error);

/**
 * Writes a whole row, whether or not the table has a row of the key. Columns that the row does not have are null
 * afterwards. `transaction` and `options` may be null.
 *
 * Thread-safe, if no other thread uses the transaction meanwhile. Errors: as of `waxseal_table_insert`.
 */
int32_t waxseal_table_upsert(waxseal_table_t *table,
                             waxseal_table_transaction_t *transaction,
                             const waxseal_row_options_t *options,
                             waxseal_cells_t row,
                             waxseal_error_t **error);

/**
 * Changes columns of a row; the others stay. `WAXSEAL_NOT_FOUND`, and nothing changes, if the table has no row of the
 * key. `transaction` and `options` may be null.
 *
 * Thread-safe, if no other thread uses the transaction meanwhile. Errors: as of `waxseal_table_insert`;
 * `WAXSEAL_INVALID` for a column of the key among the changes.
 */
int32_t waxseal_table_update(waxseal_table_t *table,
                             waxseal_table_transaction_t *transaction,
                             const waxseal_row_options_t *options,
                             waxseal_value_list_t key,
                             waxseal_cells_t changes,
                             waxseal_error_t **error);

/**
 * Changes columns of a row if the row matches a filter, in one step. `WAXSEAL_NOT_FOUND`, and nothing changes, if it
 * does not match or if the table has no row of the key.
 *
 * Thread-safe. Errors: as of `waxseal_table_update`; `WAXSEAL_INVALID` for a filter without conditions.
 */
int32_t waxseal_table_update_if(waxseal_table_t *table,
                                waxseal_value_list_t key,
                                waxseal_filter_t filter,
                                waxseal_cells_t changes,
                                waxseal_error_t **error);

/**
 * Replaces the row of a key if it is `old`, in one step: with `new`, or with no row. No cells stand for no row.
 * `*is_set` is false, and nothing changes, if the table has another row; it may be null.
 *
 * Thread-safe. Errors: as of `waxseal_table_insert`; `WAXSEAL_INVALID` if `new` has another key.
 */
int32_t waxseal_table_compare_and_set(waxseal_table_t *table,
                                      waxseal_value_list_t key,
                                      waxseal_cells_t old,
                                      waxseal_cells_t new_,
                                      bool *is_set,
                                      waxseal_error_t **error);

/**
 * Deletes a row. A key without a row is not an error. `transaction` and `options` may be null. Of the options only the
 * durability applies, and none in a transaction.
 *
 * Thread-safe, if no other thread uses the transaction meanwhile. Errors: `WAXSEAL_INVALID` for an incomplete key;
 * `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_table_delete(waxseal_table_t *table,
                             waxseal_table_transaction_t *transaction,
                             const waxseal_row_options_t *options,
                             waxseal_value_list_t key,
                             waxseal_error_t **error);

/**
 * Deletes all rows of a partition, in one step whatever their number.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` unless `key` is the whole partition key; `WAXSEAL_READ_ONLY`,
 * `WAXSEAL_CLOSED`.
 */
int32_t waxseal_table_delete_partition(waxseal_table_t *table, waxseal_value_list_t key, waxseal_error_t **error);

/**
 * Deletes the rows whose key begins with `prefix` and whose next columns are in a range, in one step. In a table with
 * indexes its rows are read, and kept in memory until the commit.
 *
 * Thread-safe. Errors: as of `waxseal_table_delete_partition`; `WAXSEAL_INVALID` for a prefix without the whole
 * partition key in a table with hashed partitions.
 */
int32_t waxseal_table_delete_range(waxseal_table_t *table,
                                   waxseal_value_list_t prefix,
                                   waxseal_value_range_t range,
                                   waxseal_error_t **error);

/**
 * Deletes all rows, with the entries of the indexes, in one step.
 *
 * Thread-safe. Errors: `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_table_truncate(waxseal_table_t *table, waxseal_error_t **error);

/**
 * Creates a keyspace, a named group of tables, under the session's identity. `replication` is its replication map:
 * lines `NAME=VALUE`, or length 0. The store keeps and logs the map and does not interpret it. A keyspace also exists,
 * with an empty map, while it has a table. It is durable when the call returns.
 *
 * Thread-safe. Errors: `WAXSEAL_EXISTS`, also for a keyspace that has tables; `WAXSEAL_INVALID` for a malformed name
 * or map, and for the name of a column family; `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_keyspace_create(const waxseal_session_t *session,
                                const uint8_t *name,
                                size_t name_len,
                                const uint8_t *replication,
                                size_t replication_len,
                                waxseal_error_t **error);

/**
 * Replaces the replication map of a keyspace, under the session's identity. It is durable when the call returns.
 *
 * Thread-safe. Errors: `WAXSEAL_NO_SUCH_NAME`; `WAXSEAL_INVALID` for a malformed map; `WAXSEAL_READ_ONLY`,
 * `WAXSEAL_CLOSED`.
 */
int32_t waxseal_keyspace_alter(const waxseal_session_t *session,
                               const uint8_t *name,
                               size_t name_len,
                               const uint8_t *replication,
                               size_t replication_len,
                               waxseal_error_t **error);

/**
 * Renames a keyspace with all its tables, under the session's identity. Handles of the tables stay valid. The new name
 * is durable when the call returns.
 *
 * Thread-safe. Errors: `WAXSEAL_NO_SUCH_NAME`; `WAXSEAL_EXISTS`; `WAXSEAL_INVALID` for a malformed name and for the
 * name of a column family; `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_keyspace_rename(const waxseal_session_t *session,
                                const uint8_t *name,
                                size_t name_len,
                                const uint8_t *new_name,
                                size_t new_name_len,
                                waxseal_error_t **error);

/**
 * Drops a keyspace with all its tables and everything in them, under the session's identity. Handles of the tables
 * fail afterwards. The drop is durable when the call returns.
 *
 * Thread-safe. Errors: `WAXSEAL_NO_SUCH_NAME`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_keyspace_drop(const waxseal_session_t *session,
                              const uint8_t *name,
                              size_t name_len,
                              waxseal_error_t **error);

/**
 * Returns all keyspaces as an object of JSON: the replication map of each by its name.
 *
 * Thread-safe. On success the caller owns `*keyspaces` and frees it with `waxseal_bytes_destroy`. Errors:
 * `WAXSEAL_CORRUPTION`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_keyspaces_json(const waxseal_session_t *session, waxseal_bytes_t **keyspaces, waxseal_error_t **error);

/**
 * Removes the values of a purged column from the store's log: of the last column of this name that was purged. Events
 * that show the values of records lose the column and name it as purged, and events of entries in the column's indexes
 * are removed. The log says so as `Registry.Rewrite` of the table's raw families. A certificate that is issued
 * afterwards covers the log. `*report` is JSON: `changed` and `removed` are the numbers of events, `ended_at` is in
 * microseconds since 1970.
 *
 * Thread-safe. On success the caller owns `*report` and frees it with `waxseal_bytes_destroy`. After an error or a
 * crash, call it again. Errors: `WAXSEAL_INVALID` if no column of this name is purged, and in a store without a
 * registry; `WAXSEAL_NO_SUCH_NAME` if none was dropped; `WAXSEAL_READ_ONLY`, `WAXSEAL_CORRUPTION`.
 */
int32_t waxseal_table_purge_events(waxseal_table_t *table,
                                   const uint8_t *name,
                                   size_t name_len,
                                   waxseal_bytes_t **report,
                                   waxseal_error_t **error);

/**
 * Erases what is left of a purged column outside of the table's files, and returns a certificate: of the last column
 * of this name that was purged. `*certificate` is JSON: `table`, `column`, `column_id`, `through` (no record of a
 * greater sequence number had a value), `purged_at` and `issued_at` (microseconds since 1970), `events` (the purge of
 * events that the certificate covers, as `waxseal_table_purge_events` reports it, or null), and `not_covered`, a list
 * of texts.
 *
 * Thread-safe. On success the caller owns `*certificate` and frees it with `waxseal_bytes_destroy`. Errors:
 * `WAXSEAL_BUSY` if a snapshot, a cursor, the change feed or a file that is kept may have values, which the message
 * names; `WAXSEAL_INVALID` if no column of this name is purged; `WAXSEAL_NO_SUCH_NAME` if none was dropped;
 * `WAXSEAL_READ_ONLY`.
 */
int32_t waxseal_table_certificate(waxseal_table_t *table,
                                  const uint8_t *name,
                                  size_t name_len,
                                  waxseal_bytes_t **certificate,
                                  waxseal_error_t **error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WAXSEAL_H */
