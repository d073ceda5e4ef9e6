/* Waxseal: an embeddable storage engine that never gives a wrong answer, never hides a loss, and is fast.
 *
 * Made from crates/ffi/src by `cargo xtask header`: do not edit.
 *
 * STATUS. Every fallible function answers one: WAXSEAL_OK (0); a positive one that is an answer and no failure
 * (WAXSEAL_NOT_FOUND, WAXSEAL_TOO_SMALL, WAXSEAL_NOT_RESIDENT); a negative one for a failure. Its last argument may be null; if it is not,
 * *error must be null or an error object: on failure, and only then, *error becomes a new error object, to be read with
 * waxseal_error_.. and ended with waxseal_error_destroy; an object that stood there is ended. So one variable, null at
 * first, serves any number of calls.
 *
 * OUTPUTS are written by a call that answers WAXSEAL_OK, and by no other, unless its page says so.
 *
 * HANDLES (pointers to types that only the library knows) are made and ended by the library. The library never trusts
 * one: null or a pointer of another kind is WAXSEAL_INVALID, a handle that was ended is WAXSEAL_CLOSED, from any thread,
 * also when two threads end one at once. Every handle is ended by its caller, in any order.
 *
 * BYTES are a pointer and a length, in and out; null with length 0 is no bytes, null with a length is WAXSEAL_INVALID.
 * They are read during the call alone. Names and texts are UTF-8, paths are bytes as the system has them.
 *
 * THREADS. Stores, families, snapshots and what was read may be used from any thread at a time; options, batches and
 * iterators by one thread at a time: a second one is told WAXSEAL_BUSY. After fork every call in the child is
 * WAXSEAL_INVALID.
 *
 * CALLBACKS are called on whatever thread needs them, and must not unwind (throw, longjmp) into the library. Inside one
 * every call on the store that calls it is WAXSEAL_INVALID; other stores may be used. One that can fail does so by a
 * negative status, and says why by an error of waxseal_error_create, which the library ends: the call in which it ran
 * answers WAXSEAL_CALLBACK with that reason.
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
 * The call did what it says.
 */
#define WAXSEAL_OK 0

/**
 * What was asked for is not there; an iterator stands nowhere. No failure: outputs and error are untouched.
 */
#define WAXSEAL_NOT_FOUND 1

/**
 * The caller's buffer is too small; how many bytes are needed was written, nothing else. No failure: no error is made.
 */
#define WAXSEAL_TOO_SMALL 2

/**
 * The answer is not in memory, and the call must not wait for a file. No failure: nothing was written.
 */
#define WAXSEAL_NOT_RESIDENT 3

/**
 * Bytes are not what was written. Repair, salvage or restore; the rest of the store goes on.
 */
#define WAXSEAL_CORRUPTION (-1)

/**
 * The operating system refused. Free space or mend the device, then repeat.
 */
#define WAXSEAL_IO (-2)

/**
 * Another process, or handle, has the store open.
 */
#define WAXSEAL_LOCKED (-3)

/**
 * The call is wrong; nothing was changed.
 */
#define WAXSEAL_INVALID (-4)

/**
 * Another commit came first; run the transaction again.
 */
#define WAXSEAL_CONFLICT (-5)

/**
 * The store was opened without the right to write.
 */
#define WAXSEAL_READ_ONLY (-6)

/**
 * An earlier fsync or write of the log failed; reads go on, reopen to write.
 */
#define WAXSEAL_HALTED (-7)

/**
 * The store was written by a newer version.
 */
#define WAXSEAL_FORMAT_TOO_NEW (-8)

/**
 * The store was closed, or the handle was ended.
 */
#define WAXSEAL_CLOSED (-9)

/**
 * Another thread is using this object, which one thread at a time may use. Nothing was changed.
 */
#define WAXSEAL_BUSY (-10)

/**
 * Memory for the answer cannot be had. Nothing was changed.
 */
#define WAXSEAL_OUT_OF_MEMORY (-11)

/**
 * A callback of the caller's failed, with the reason that it gave.
 */
#define WAXSEAL_CALLBACK (-12)

/**
 * A bug of the library was caught: please report the message. The object that the call was about cannot be used any more.
 */
#define WAXSEAL_INTERNAL (-13)

/**
 * The thread's interrupt function ended the call (`waxseal_set_interrupt`). What it had finished stays; it may be repeated.
 */
#define WAXSEAL_INTERRUPTED (-14)

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
 * Something that must be there is not.
 */
#define WAXSEAL_VERDICT_MISSING 3

/**
 * The bytes are whole but do not belong here: another file, an older copy, another place.
 */
#define WAXSEAL_VERDICT_MISPLACED 4

/**
 * A record does not match its seal.
 */
#define WAXSEAL_VERDICT_SEAL 5

/**
 * Records were lost, added or changed by the engine itself.
 */
#define WAXSEAL_VERDICT_LEDGER 6

/**
 * Damage of a kind that this library knows and this header does not.
 */
#define WAXSEAL_VERDICT_OTHER 7

/**
 * Version of this header. It grows with every addition; the number in the soname changes only when something is taken away.
 */
#define WAXSEAL_ABI_VERSION 1

/**
 * What a comparator answers if it cannot compare.
 */
#define WAXSEAL_COMPARE_FAILED INT32_MIN

/**
 * Seals stand in a column where a codec packs the block, else behind their records.
 */
#define WAXSEAL_SEALS_BY_CODEC 0

/**
 * Always behind their records.
 */
#define WAXSEAL_SEALS_FOLLOWING 1

/**
 * Always in a column.
 */
#define WAXSEAL_SEALS_COLUMN 2

/**
 * The store's default: what `waxseal_options_set_durability` said, else as `WAXSEAL_DURABILITY_OS`.
 */
#define WAXSEAL_DURABILITY_DEFAULT 0

/**
 * Lost with the process at the latest. Never weaker than that, and today as strong as `WAXSEAL_DURABILITY_OS`.
 */
#define WAXSEAL_DURABILITY_BUFFERED 1

/**
 * Survives the process, may be lost with the machine.
 */
#define WAXSEAL_DURABILITY_OS 2

/**
 * Never lost once the call has returned.
 */
#define WAXSEAL_DURABILITY_SYNC 3

/**
 * Blocks are stored as they are.
 */
#define WAXSEAL_COMPRESSION_NONE 0

/**
 * LZ4, the default.
 */
#define WAXSEAL_COMPRESSION_LZ4 1

/**
 * Zstandard at its usual level, with a dictionary at the bottom level. Only in libraries built with the feature `zstd`; others refuse it.
 */
#define WAXSEAL_COMPRESSION_ZSTD 2

/**
 * Nothing is checked against seals, besides the sums of blocks when they are loaded.
 */
#define WAXSEAL_VERIFY_NEVER 0

/**
 * All records of a block when it is loaded from its file.
 */
#define WAXSEAL_VERIFY_ON_FILL 1

/**
 * As `WAXSEAL_VERIFY_ON_FILL`, and one record in so many of those read.
 */
#define WAXSEAL_VERIFY_SAMPLED 2

/**
 * Every record that is read, and that there is none where none is found.
 */
#define WAXSEAL_VERIFY_ALWAYS 3

/**
 * A tree of leaves in an arena, the default.
 */
#define WAXSEAL_MEMTABLE_ARENA 0

/**
 * A skip list with a node a record.
 */
#define WAXSEAL_MEMTABLE_SKIPLIST 1

/**
 * The range has no bound at this end. The key is not looked at.
 */
#define WAXSEAL_UNBOUNDED 0

/**
 * The range ends with this key.
 */
#define WAXSEAL_INCLUDED 1

/**
 * The range ends next to this key, without it.
 */
#define WAXSEAL_EXCLUDED 2

/**
 * The entry was not checked: the seal covers it, and speaks for it only together with the value, which was not read.
 */
#define WAXSEAL_CHECKED_NOT 0

/**
 * It was checked by its own sum.
 */
#define WAXSEAL_CHECKED_ITSELF 1

/**
 * It was checked by the seal of its record.
 */
#define WAXSEAL_CHECKED_SEALED 2

/**
 * The log was read at open: `commits`; `bytes` were cut from its torn end.
 */
#define WAXSEAL_EVENT_RECOVERED 0

/**
 * A memtable became a table: `family`, `table` (0: nothing was left to write), `bytes`.
 */
#define WAXSEAL_EVENT_FLUSHED 1

/**
 * Tables were merged, or moved down unread: `family`, `inputs`, `outputs`, `level`, `message` (why), `flag` (they were only moved).
 */
#define WAXSEAL_EVENT_COMPACTED 2

/**
 * Damage was met: `file`, `offset`, `verdict`, `message`, and `family`, `from`, `to` as far as known.
 */
#define WAXSEAL_EVENT_CORRUPTION 3

/**
 * A block was read right after all: `file`, `offset`, `message` (what helped).
 */
#define WAXSEAL_EVENT_HEALED 4

/**
 * A damaged table is left alone by compaction until it is repaired: `family`, `table`.
 */
#define WAXSEAL_EVENT_BARRED 5

/**
 * Records were lost for good, and reads between two keys answer `WAXSEAL_CORRUPTION`: `family`, `from`, `to`, `file`, `offset`, `verdict`.
 */
#define WAXSEAL_EVENT_FENCED 6

/**
 * Such a fence was lifted: as `WAXSEAL_EVENT_FENCED`.
 */
#define WAXSEAL_EVENT_LIFTED 7

/**
 * Work in the background failed: `message`, `flag` (nothing is written any more until the store is opened anew).
 */
#define WAXSEAL_EVENT_BACKGROUND_ERROR 8

/**
 * Writers are held back (`flag` true), or free again.
 */
#define WAXSEAL_EVENT_STALLED 9

/**
 * Something that this header has no number for: `message`.
 */
#define WAXSEAL_EVENT_OTHER 10

/**
 * Waxseal's own provider of expiry: eight bytes, microseconds since 1970, low first.
 */
#define WAXSEAL_PROVIDER_EXPIRY 1

/**
 * Waxseal's own provider of provenance: session and microseconds, two varints.
 */
#define WAXSEAL_PROVIDER_PROVENANCE 2

/**
 * Waxseal's own provider of statistics for loading elsewhere.
 */
#define WAXSEAL_PROVIDER_ETL 3

/**
 * Waxseal's own provider of labels.
 */
#define WAXSEAL_PROVIDER_LABELS 4

/**
 * A record that is a value.
 */
#define WAXSEAL_KIND_PUT 1

/**
 * A record that says that its key is gone.
 */
#define WAXSEAL_KIND_DELETE 2

/**
 * A record of a kind that this header has no number for.
 */
#define WAXSEAL_KIND_OTHER 0

/**
 * The entry goes on as it is, or stays absent.
 */
#define WAXSEAL_ENTRY_KEEP 0

/**
 * A new entry was written.
 */
#define WAXSEAL_ENTRY_SET 1

/**
 * The entry goes.
 */
#define WAXSEAL_ENTRY_REMOVE 2

/**
 * A newer record of the same key hides it from every snapshot.
 */
#define WAXSEAL_DROP_SHADOWED 0

/**
 * A tombstone with nothing left to hide.
 */
#define WAXSEAL_DROP_TOMBSTONE 1

/**
 * A range of keys was deleted.
 */
#define WAXSEAL_DROP_RANGE_DELETE 2

/**
 * Its time is over.
 */
#define WAXSEAL_DROP_EXPIRED 3

/**
 * Its family or column is gone.
 */
#define WAXSEAL_DROP_PURGED 4

/**
 * A fence takes the place of the loss: reads there answer `WAXSEAL_CORRUPTION`, the rest goes on.
 */
#define WAXSEAL_DECISION_QUARANTINE 0

/**
 * The table stays as it is, left alone by compaction.
 */
#define WAXSEAL_DECISION_FAIL 1

/**
 * The same, and repair ends; the store refuses writes until it is opened anew.
 */
#define WAXSEAL_DECISION_READ_ONLY 2

/**
 * It was reported, and nothing was changed.
 */
#define WAXSEAL_OUTCOME_REPORTED 0

/**
 * Nothing was lost: it was repaired.
 */
#define WAXSEAL_OUTCOME_REPAIRED 1

/**
 * A fence stands in its place: reads there answer `WAXSEAL_CORRUPTION`.
 */
#define WAXSEAL_OUTCOME_FENCED 2

/**
 * The file stays as it is, left alone by compaction.
 */
#define WAXSEAL_OUTCOME_BARRED 3

/**
 * The loss was accepted: reads go on as if the records had never been.
 */
#define WAXSEAL_OUTCOME_ACCEPTED 4

/**
 * Something that this header has no number for.
 */
#define WAXSEAL_OUTCOME_OTHER 5

/**
 * Nothing was tried, or nothing helped.
 */
#define WAXSEAL_RUNG_NONE 0

/**
 * The file was read again, past what memory held of it.
 */
#define WAXSEAL_RUNG_READ_AGAIN 1

/**
 * Another copy in memory was whole.
 */
#define WAXSEAL_RUNG_MEMORY 2

/**
 * One or two flipped bits were found by the block's sum and its seals.
 */
#define WAXSEAL_RUNG_CORRECTION 3

/**
 * Index, filter and properties were made anew from the data.
 */
#define WAXSEAL_RUNG_REBUILD 4

/**
 * The log still held the records.
 */
#define WAXSEAL_RUNG_LOG 5

/**
 * Tables that compaction had replaced still held them.
 */
#define WAXSEAL_RUNG_TRASH 6

/**
 * The caller's source had them.
 */
#define WAXSEAL_RUNG_SOURCE 7

/**
 * The caller's handler decided.
 */
#define WAXSEAL_RUNG_HANDLER 8

/**
 * Something that this header has no number for.
 */
#define WAXSEAL_RUNG_OTHER 9

/**
 * No metadata is exported. A record that expires is refused, as by every policy without seals: its receiver would keep it forever.
 */
#define WAXSEAL_POLICY_STRIP 0

/**
 * Seals are exported with the entries that they cover, such as expiry times, and the entries of allowed providers. Export options
 * without a policy use this one, and allow labels too.
 */
#define WAXSEAL_POLICY_COMPANION 1

/**
 * The MetaHive paper's checksums leave, in a table of their own: one tombstone a key, older than anything it could hide.
 */
#define WAXSEAL_POLICY_PAPER_SAFE 2

/**
 * The paper's rows leave, one a version, between the records. They hide whatever older record of the key with a byte 01 behind it the
 * receiver has.
 */
#define WAXSEAL_POLICY_PAPER_LITERAL 3

/**
 * Tables carry records alone.
 */
#define WAXSEAL_FORM_PLAIN 0

/**
 * And seals, and what else may leave.
 */
#define WAXSEAL_FORM_SEALED 1

/**
 * And rows of the paper, one a key, that mask nothing.
 */
#define WAXSEAL_FORM_PAPER_SAFE 2

/**
 * And rows of the paper, one a version.
 */
#define WAXSEAL_FORM_PAPER_LITERAL 3

/**
 * May this session register an operation on a target, or take it back?
 */
#define WAXSEAL_MAY_REGISTER 0

/**
 * May it read the events of a target, and of what lies below it?
 */
#define WAXSEAL_MAY_READ_LOG 1

/**
 * May it delete them?
 */
#define WAXSEAL_MAY_DELETE_LOG 2

/**
 * May it add events of its own?
 */
#define WAXSEAL_MAY_ADD_TO_LOG 3

/**
 * Whatever suits the pair.
 */
#define WAXSEAL_SUITED (-1)

/**
 * The target alone.
 */
#define WAXSEAL_SCOPE_EXACT 0

/**
 * The target and everything below it.
 */
#define WAXSEAL_SCOPE_SUBTREE 1

/**
 * The log row is written in the commit of the operation itself.
 */
#define WAXSEAL_MODE_SYNC 0

/**
 * A little later, by a thread of its own; a crash may lose some.
 */
#define WAXSEAL_MODE_ASYNC 1

/**
 * When the records of the operation leave memory; until then it is read from there.
 */
#define WAXSEAL_MODE_DEFERRED 2

/**
 * Nothing is kept of values.
 */
#define WAXSEAL_VALUES_NONE 0

/**
 * The new value is.
 */
#define WAXSEAL_VALUES_NEW 1

/**
 * The old value and the new one are.
 */
#define WAXSEAL_VALUES_OLD_NEW 2

/**
 * Their seals are.
 */
#define WAXSEAL_VALUES_HASH 3

/**
 * A retention that never ends.
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
 * A setting: its name in `bytes`, its value in `more`.
 */
#define WAXSEAL_FIELD_SETTING 3

/**
 * There was no value.
 */
#define WAXSEAL_FIELD_ABSENT 4

/**
 * A value, whole: `bytes`.
 */
#define WAXSEAL_FIELD_VALUE 5

/**
 * The seal of a value: 8 bytes in `bytes`, and as a number in `numbers[0]`.
 */
#define WAXSEAL_FIELD_SEAL 6

/**
 * A table file: its uid in `bytes` (16), its digest in `numbers[0]`, its records in `numbers[1]`.
 */
#define WAXSEAL_FIELD_FILE 7

/**
 * A span: its first number in `numbers[0]`, its last in `numbers[1]`.
 */
#define WAXSEAL_FIELD_SPAN 8

/**
 * A span of tokens: the keyspace in `bytes`, the replicas in `more`, separated by commas; first and last token, records, bytes and
 * sum in `numbers`.
 */
#define WAXSEAL_FIELD_TOKENS 9

/**
 * How many numbers a field has room for.
 */
#define WAXSEAL_FIELD_NUMBERS 5

/**
 * The key is nowhere.
 */
#define WAXSEAL_LIES_NOWHERE 0

/**
 * It is in memory, and in the log of the store.
 */
#define WAXSEAL_LIES_IN_MEMORY 1

/**
 * It is in a table file.
 */
#define WAXSEAL_LIES_IN_TABLE 2

/**
 * A time before all others.
 */
#define WAXSEAL_TIME_FIRST 0

/**
 * A time behind all others; as the time of an event that is added: now.
 */
#define WAXSEAL_TIME_LAST UINT64_MAX

/**
 * The writer waits until there is room.
 */
#define WAXSEAL_WHEN_FULL_WAIT 0

/**
 * Events are written with their operation, as of mode sync.
 */
#define WAXSEAL_WHEN_FULL_SYNC 1

/**
 * Events are dropped, and counted.
 */
#define WAXSEAL_WHEN_FULL_DROP 2

/**
 * The object of a case is a table file, by the number in its name.
 */
#define WAXSEAL_CASE_TABLE 1

/**
 * It is a span of keys, by the number of its fence.
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
 * Their places in the order of commits, as column `seqno`; 0 once no snapshot can tell.
 */
#define WAXSEAL_COLUMN_SEQNO 4

/**
 * The seals of the records as numbers, their bytes low first, as column `seal`; null where a record has none.
 */
#define WAXSEAL_COLUMN_SEAL 8

/**
 * All columns.
 */
#define WAXSEAL_COLUMN_ALL 15

/**
 * Writes to any column families of one store that commit together: after a crash all of them are there, or none. Later writes to
 * one key win over earlier ones. Used by one thread at a time, and ended by `waxseal_batch_destroy`.
 *
 * A write that is refused refuses the batch: its error is answered at once, and by every commit until `waxseal_batch_clear`.
 */
typedef struct waxseal_batch_t waxseal_batch_t;

/**
 * Bytes that belong to the caller: a value that was read, a text. They depend on nothing, may be read from any thread, and are ended
 * by `waxseal_bytes_destroy`.
 */
typedef struct waxseal_bytes_t waxseal_bytes_t;

/**
 * How a store is looked after. Whatever is not set keeps its default; a null pointer has nothing but defaults. What a pass does not know
 * what to do with is `WAXSEAL_INVALID`. May be used for any number of passes, by one thread at a time, and is ended by
 * `waxseal_care_options_destroy`. Contexts of functions must be good for as long as a pass with these options may run.
 */
typedef struct waxseal_care_options_t waxseal_care_options_t;

/**
 * Cases of quarantine. The list depends on nothing, may be read from any thread, and is ended by `waxseal_cases_destroy`.
 */
typedef struct waxseal_cases_t waxseal_cases_t;

/**
 * An open store. May be used from any thread, and is ended by `waxseal_close`.
 */
typedef struct waxseal_db_t waxseal_db_t;

/**
 * What went wrong in one call. Written by a call that failed, to be read from any thread and ended by `waxseal_error_destroy`.
 */
typedef struct waxseal_error_t waxseal_error_t;

/**
 * Events, in the order that the call which made them says. They depend on nothing, may be read from any thread, and are ended by
 * `waxseal_events_destroy`.
 */
typedef struct waxseal_events_t waxseal_events_t;

/**
 * Everything that is known of a key. It depends on nothing, may be read from any thread, and is ended by
 * `waxseal_explanation_destroy`.
 */
typedef struct waxseal_explanation_t waxseal_explanation_t;

/**
 * The records of an export, and the metadata that is written beside them. A null pointer stands for the defaults: the newest version of
 * every key, with its seal and labels. Used by one thread at a time, and ended by `waxseal_export_options_destroy`.
 */
typedef struct waxseal_export_options_t waxseal_export_options_t;

/**
 * Settings of one column family. Whatever is not set keeps its default; a null pointer stands for nothing but defaults. May be used
 * for any number of families, by one thread at a time, and is ended by `waxseal_family_options_destroy`, any time after.
 */
typedef struct waxseal_family_options_t waxseal_family_options_t;

/**
 * A column family of an open store: one ordered map from keys to values. May be used from any thread, and is ended by
 * `waxseal_family_destroy`, before or after its store is closed.
 */
typedef struct waxseal_family_t waxseal_family_t;

/**
 * Fences. The list depends on nothing, may be read from any thread, and is ended by `waxseal_fences_destroy`.
 */
typedef struct waxseal_fences_t waxseal_fences_t;

/**
 * A position in a column family as it was when the iterator was made. Used by one thread at a time, and ended by
 * `waxseal_iter_destroy`; it holds its view of the store until then.
 *
 * A new iterator stands before the first and behind the last record: `waxseal_iter_next` leads to the first, `waxseal_iter_prev` to the
 * last. Damage that it meets is one `WAXSEAL_CORRUPTION`; the next step leads on, to the first record behind what is damaged. After any
 * other error it stands nowhere, and may be moved anew.
 */
typedef struct waxseal_iter_t waxseal_iter_t;

/**
 * The entries of one provider beside the values of a range. Used by one thread at a time, and ended by `waxseal_meta_iter_destroy`; it
 * holds its view of the store until then.
 */
typedef struct waxseal_meta_iter_t waxseal_meta_iter_t;

/**
 * How a store is to be opened. Whatever is not set keeps its default; an open with a null pointer has nothing but defaults. May be
 * used for any number of opens, by one thread at a time, and is ended by `waxseal_options_destroy`, any time after.
 */
typedef struct waxseal_options_t waxseal_options_t;

/**
 * Somebody who keeps something beside values, as `waxseal_options_add_provider` wants it. One thread at a time may use it.
 */
typedef struct waxseal_provider_t waxseal_provider_t;

/**
 * A question to the log with everything that can be asked. Used by one thread at a time, and ended by `waxseal_query_destroy`.
 */
typedef struct waxseal_query_t waxseal_query_t;

/**
 * How a pair is logged. One thread at a time may use it.
 */
typedef struct waxseal_register_options_t waxseal_register_options_t;

/**
 * Registrations. They depend on nothing, may be read from any thread, and are ended by `waxseal_registrations_destroy`.
 */
typedef struct waxseal_registrations_t waxseal_registrations_t;

/**
 * What a look at a store found, and what was done about it. It depends on nothing, may be read from any thread, and is ended by
 * `waxseal_report_destroy`.
 */
typedef struct waxseal_report_t waxseal_report_t;

/**
 * A store, and who uses it. Families and batches that are taken from it write in its name, and registry and log are asked through it.
 * May be used from any thread, and is ended by `waxseal_session_destroy`, before or after its store is closed.
 */
typedef struct waxseal_session_t waxseal_session_t;

/**
 * The store as it was at one moment, in all its column families. May be used from any thread, and is ended by
 * `waxseal_snapshot_destroy`; until then what it sees takes space.
 */
typedef struct waxseal_snapshot_t waxseal_snapshot_t;

/**
 * Table files. The list depends on nothing, may be read from any thread, and is ended by `waxseal_tables_destroy`.
 */
typedef struct waxseal_tables_t waxseal_tables_t;

/**
 * The values of many keys at one moment. They depend on nothing, may be read from any thread, and are ended by
 * `waxseal_values_destroy`.
 */
typedef struct waxseal_values_t waxseal_values_t;

/**
 * How a write is done, and what is kept beside its value. Whatever is not set keeps its default; a null pointer stands for nothing
 * but defaults. May be used for any number of writes, by one thread at a time, and is ended by `waxseal_write_options_destroy`.
 */
typedef struct waxseal_write_options_t waxseal_write_options_t;

/**
 * Bytes: where, and how many. A null pointer with length 0 is the empty slice.
 *
 * Lent to the library it is read during the call only. Lent by the library it is valid as long as the function that gave it says.
 */
typedef struct {
    /**
     * The first byte.
     */
    const uint8_t *data;
    /**
     * Their number.
     */
    size_t len;
} waxseal_slice_t;

/**
 * Compares two keys: negative if `a` comes before `b`, 0 if they are equal, positive if `a` comes behind `b`. Both are lent for the call.
 * The order must be total and the same for all time: the store is laid out by it. It is not asked about keys of the same bytes, which are
 * equal. Called on any thread, and by several at once; it must not call the store whose keys it compares.
 *
 * `WAXSEAL_COMPARE_FAILED`: it cannot compare. Every call to this store, the one that is going on among them, answers
 * `WAXSEAL_CALLBACK` from then on; what was acknowledged is there when it is closed and opened again.
 */
typedef int32_t (*waxseal_compare_fn)(void *context, const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len);

/**
 * Ends a context; called once, after its last use, on whatever thread that was.
 */
typedef void (*waxseal_destroy_fn)(void *context);

/**
 * Is asked about every 10 ms by long calls of the thread that set it, on that thread. Answers 0 to go on; anything else ends the call with
 * `WAXSEAL_INTERRUPTED`. It must not call the library with an object of a store, and must not end its thread.
 */
typedef int32_t (*waxseal_interrupt_fn)(void *context);

/**
 * What the open of a store found in its log.
 */
typedef struct {
    /**
     * Commits that were replayed.
     */
    uint64_t commits;
    /**
     * Bytes of the log that were cut as a torn tail, or as damage where that was accepted. 0 after a clean close.
     */
    uint64_t cut_bytes;
    /**
     * Where the log was cut, in bytes from its beginning; `UINT64_MAX` if it was not.
     */
    uint64_t cut_at;
    /**
     * Bytes of commits that had returned and are missing. 0 unless the machine failed; a lower bound if `may_lack_unsynced`.
     */
    uint64_t acknowledged_bytes_missing;
    /**
     * 1: the machine failed, or the store is on another device, and it had not been closed: commits that had returned and were not synced may be
     * missing, and nothing tells how many. Else 0.
     */
    uint64_t may_lack_unsynced;
    /**
     * Damaged values of commits that are in the log: reads of their keys answer `WAXSEAL_CORRUPTION` until the keys are written again, or repaired.
     */
    uint64_t lost_values;
} waxseal_recovery_t;

/**
 * One end of a range. All zeros: no bound.
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
 * A range of keys. All zeros, and a null pointer to a range: every key. A range whose end precedes its start is empty.
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
 * A row under an iterator, lent until the iterator is moved or ended.
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
 * Rows in one buffer, lent until the iterator is moved or ended. The key of row `i` begins at `data[offsets[2 * i]]`, its value at
 * `data[offsets[2 * i + 1]]`, and the row ends at `data[offsets[2 * i + 2]]`: there are `2 * count + 1` offsets.
 */
typedef struct {
    /**
     * Keys and values, one behind the other.
     */
    const uint8_t *data;
    /**
     * Where they begin.
     */
    const size_t *offsets;
    /**
     * How many rows there are.
     */
    size_t count;
} waxseal_rows_t;

/**
 * The checksum of a key with its value, wherever the record lives: the same on every replica. Eight bytes, to be kept or sent along as they
 * are; as a number they are low first.
 */
typedef struct {
    /**
     * The seal.
     */
    uint8_t bytes[8];
} waxseal_seal_t;

/**
 * An entry of a provider.
 */
typedef struct {
    /**
     * The number of the provider.
     */
    uint16_t provider;
    /**
     * The form of the bytes; not looked at where an entry is written.
     */
    uint8_t version;
    /**
     * One of `WAXSEAL_CHECKED_..`; not looked at where an entry is written.
     */
    int32_t checked;
    /**
     * What it keeps.
     */
    waxseal_slice_t bytes;
} waxseal_entry_t;

/**
 * Something that happened inside a store. What its kind does not name is 0 or empty. Everything is lent for the call.
 */
typedef struct {
    /**
     * One of `WAXSEAL_EVENT_..`; later versions may add some.
     */
    int32_t kind;
    /**
     * One of `WAXSEAL_VERDICT_..`.
     */
    int32_t verdict;
    /**
     * A column family, by name.
     */
    waxseal_slice_t family;
    /**
     * A file in the store's directory, by name.
     */
    waxseal_slice_t file;
    /**
     * In words, UTF-8.
     */
    waxseal_slice_t message;
    /**
     * The first key concerned.
     */
    waxseal_slice_t from;
    /**
     * The last key concerned.
     */
    waxseal_slice_t to;
    /**
     * Numbers of the tables that are gone.
     */
    const uint64_t *inputs;
    /**
     * How many.
     */
    size_t inputs_len;
    /**
     * Numbers of the tables in their place.
     */
    const uint64_t *outputs;
    /**
     * How many.
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
     * The place of a block in `file`.
     */
    uint64_t offset;
    /**
     * A level.
     */
    uint32_t level;
    /**
     * Yes or no.
     */
    bool flag;
} waxseal_engine_event_t;

/**
 * Hears of an event after it has happened: on a thread of the store, or on one that is in a call of the store, which may be told what others
 * did, too. What was done is told in its order, by one thread at a time; what a read meets is told at once, whoever else is telling. No lock
 * of the engine is held, but writes that are watched may wait for it; so what the function locks may not be locked around calls of the store.
 * It must return soon, and must not call the store that it hears of: that would answer `WAXSEAL_INVALID`.
 */
typedef void (*waxseal_listener_fn)(void *context, const waxseal_engine_event_t *event);

/**
 * A record, lent for a call.
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
     * Its place in the order of commits; 0 once no snapshot can tell, and before it is committed.
     */
    uint64_t seqno;
    /**
     * `WAXSEAL_KIND_PUT`, `WAXSEAL_KIND_DELETE` or `WAXSEAL_KIND_OTHER`.
     */
    int32_t kind;
} waxseal_record_t;

/**
 * An operation is written, on the thread that writes. `given` is what the caller gave for this provider, null if nothing. Writes the
 * entry to `entry`, where `capacity` (the longest entry) bytes have room, and its length to `entry_len`, and answers `WAXSEAL_OK`; or
 * answers `WAXSEAL_NOT_FOUND`: there is none. A negative status refuses the operation.
 */
typedef int32_t (*waxseal_on_write_fn)(void *context,
                                       const waxseal_record_t *record,
                                       const waxseal_slice_t *given,
                                       uint8_t *entry,
                                       size_t capacity,
                                       size_t *entry_len,
                                       waxseal_error_t **error);

/**
 * A record enters a table with `entry`, null if it has none. Answers one of `WAXSEAL_ENTRY_..`, where `WAXSEAL_ENTRY_SET` means that a
 * new one was written as by `waxseal_on_write_fn`. Whatever else it answers keeps the entry.
 */
typedef int32_t (*waxseal_on_build_fn)(void *context,
                                       const waxseal_record_t *record,
                                       const waxseal_slice_t *entry,
                                       uint8_t *new_entry,
                                       size_t capacity,
                                       size_t *new_len);

/**
 * A record with an entry is left out of a table; `reason` is one of `WAXSEAL_DROP_..`.
 */
typedef void (*waxseal_on_drop_fn)(void *context,
                                   const waxseal_record_t *record,
                                   const waxseal_slice_t *entry,
                                   int32_t reason);

/**
 * Answers 0 if an entry cannot be one of this provider's, at this record.
 */
typedef int32_t (*waxseal_on_verify_fn)(void *context, const waxseal_record_t *record, const waxseal_slice_t *entry);

/**
 * A count and a sum of records: equal for equal content.
 */
typedef struct {
    /**
     * Records that are seen.
     */
    uint64_t count;
    /**
     * The sum of their seals as numbers, modulo 2^64.
     */
    uint64_t sum;
} waxseal_digest_t;

/**
 * How far a pass over a store has come. Lent for the call.
 */
typedef struct {
    /**
     * Bytes looked at.
     */
    uint64_t done;
    /**
     * Bytes there are, as far as known when it began.
     */
    uint64_t total;
    /**
     * Places of damage found so far.
     */
    uint64_t found;
} waxseal_progress_t;

/**
 * Hears of progress about once a block, on the thread that asked for the pass, and answers 0 to go on; anything else ends the pass, and
 * the report says so. It must not call the store that is looked at.
 */
typedef int32_t (*waxseal_progress_fn)(void *context, const waxseal_progress_t *progress);

/**
 * Where a scrub goes on; to be kept as it is. It survives compactions.
 */
typedef struct {
    /**
     * The place.
     */
    uint8_t bytes[84];
} waxseal_resume_t;

/**
 * What a repair is looking for. Everything is lent for the call.
 */
typedef struct {
    /**
     * The column family, by name.
     */
    waxseal_slice_t family;
    /**
     * The first key.
     */
    waxseal_slice_t low;
    /**
     * The last key, included. If the seal is known it is the first one too.
     */
    waxseal_slice_t high;
    /**
     * The seal of the one record that is wanted, if `has_seal`.
     */
    waxseal_seal_t seal;
    /**
     * False: all records that there are from `low` to `high` are wanted.
     */
    bool has_seal;
} waxseal_wanted_t;

/**
 * Takes a record that a source found: `WAXSEAL_KIND_PUT` with its value, or `WAXSEAL_KIND_DELETE`. It is copied. A status other than
 * `WAXSEAL_OK` says that it is none that can be.
 */
typedef int32_t (*waxseal_found_fn)(void *answer,
                                    int32_t kind,
                                    const uint8_t *key,
                                    size_t key_len,
                                    const uint8_t *value,
                                    size_t value_len);

/**
 * Looks for records in another copy of the store, and hands each of them to `found` together with `answer`, both good for this call alone.
 * What it hands over is believed only if the seal of what was lost says so. A negative status says that it could not look; it is asked
 * again then, a few times, but `WAXSEAL_CALLBACK` ends the repair there, before anything of the table at hand is given up, and its report is
 * one of a cancelled pass. It must not call the store that is repaired.
 */
typedef int32_t (*waxseal_source_fn)(void *context,
                                     const waxseal_wanted_t *wanted,
                                     waxseal_found_fn found,
                                     void *answer,
                                     waxseal_error_t **error);

/**
 * A loss that nothing helped: a record that can be read though nothing speaks for it, or a span in which nobody knows what there was.
 * Everything is lent for the call.
 */
typedef struct {
    /**
     * The file.
     */
    waxseal_slice_t file;
    /**
     * The place of the block in it.
     */
    uint64_t offset;
    /**
     * The column family, by name.
     */
    waxseal_slice_t family;
    /**
     * The first key at which something may have been lost.
     */
    waxseal_slice_t from;
    /**
     * Its place in the order of commits.
     */
    uint64_t from_seqno;
    /**
     * The last key at which something may have been lost, included.
     */
    waxseal_slice_t to;
    /**
     * Its place in the order of commits.
     */
    uint64_t to_seqno;
    /**
     * What is wrong: one of `WAXSEAL_VERDICT_..`.
     */
    int32_t verdict;
} waxseal_loss_t;

/**
 * Decides what becomes of a loss: one of `WAXSEAL_DECISION_..`; any other number is `WAXSEAL_DECISION_FAIL`, which changes nothing. The strictest
 * answer about a table counts. It must not call the store that is repaired.
 */
typedef int32_t (*waxseal_handler_fn)(void *context, const waxseal_loss_t *loss);

/**
 * The numbers of a report.
 */
typedef struct {
    /**
     * Records looked at.
     */
    uint64_t records;
    /**
     * Those that match their seal.
     */
    uint64_t validated;
    /**
     * Those that do not, or that nothing speaks for.
     */
    uint64_t corrupted;
    /**
     * Those whose seal is gone although their file promised one.
     */
    uint64_t missing;
    /**
     * Those that have no seal and were promised none.
     */
    uint64_t unverified;
    /**
     * Places that cannot be decoded.
     */
    uint64_t structural;
    /**
     * Blocks and records that were made right again.
     */
    uint64_t repaired;
    /**
     * Records that cannot be had any more, as far as known.
     */
    uint64_t lost;
    /**
     * Bytes looked at.
     */
    uint64_t bytes;
    /**
     * Files looked at.
     */
    uint64_t files;
    /**
     * How long it took, in nanoseconds.
     */
    uint64_t nanos;
    /**
     * Places of damage.
     */
    size_t damage;
    /**
     * Whether it was not ended early, and nothing was found that is not right now.
     */
    bool is_clean;
    /**
     * Whether the caller ended it before it was through.
     */
    bool cancelled;
} waxseal_counts_t;

/**
 * One place of damage. Its slices are valid until its report is ended.
 */
typedef struct {
    /**
     * The file; empty: in memory.
     */
    waxseal_slice_t file;
    /**
     * The place of the block or frame in it.
     */
    uint64_t offset;
    /**
     * The column family, by name; empty: none, or not known.
     */
    waxseal_slice_t family;
    /**
     * The first key that may be concerned, if `has_keys`.
     */
    waxseal_slice_t from;
    /**
     * The last key that may be concerned, if `has_keys`.
     */
    waxseal_slice_t to;
    /**
     * In words, UTF-8.
     */
    waxseal_slice_t message;
    /**
     * What is wrong: one of `WAXSEAL_VERDICT_..`.
     */
    int32_t verdict;
    /**
     * What became of it: one of `WAXSEAL_OUTCOME_..`.
     */
    int32_t outcome;
    /**
     * What helped: one of `WAXSEAL_RUNG_..`.
     */
    int32_t rung;
    /**
     * How many things were tried: `waxseal_report_step`.
     */
    size_t steps;
    /**
     * Whether keys are known.
     */
    bool has_keys;
} waxseal_damage_t;

/**
 * What an export did.
 */
typedef struct {
    /**
     * Records of users.
     */
    uint64_t records;
    /**
     * Rows that speak for them.
     */
    uint64_t rows;
    /**
     * Records that had no seal.
     */
    uint64_t unsealed;
    /**
     * The sum of the seals of all records as numbers, modulo 2^64.
     */
    uint64_t sum;
    /**
     * Bytes of metadata in the tables.
     */
    uint64_t companion_bytes;
    /**
     * Tables.
     */
    size_t files;
    /**
     * Seals that were not exported.
     */
    uint64_t seals_left;
    /**
     * Stamps (session and time of a watched write) that were not exported; they never leave a store.
     */
    uint64_t stamps_left;
    /**
     * Entries of providers that were not exported.
     */
    uint64_t entries_left;
    /**
     * Bytes of all metadata that was not exported.
     */
    uint64_t bytes_left;
    /**
     * Values that had expired and were not exported.
     */
    uint64_t expired;
} waxseal_exported_t;

/**
 * What an import did.
 */
typedef struct {
    /**
     * The place in the order of commits of every record that came in; 0 if there was none.
     */
    uint64_t seqno;
    /**
     * Records that came in: the newest of each key.
     */
    uint64_t records;
    /**
     * Older versions, which did not.
     */
    uint64_t superseded;
    /**
     * Records, of all versions, that carried a seal and match it.
     */
    uint64_t sealed;
    /**
     * Records, of all versions, that carried none.
     */
    uint64_t unsealed;
    /**
     * Rows in the paper's form that found their version and agree with it.
     */
    uint64_t bound;
    /**
     * Rows that found none; removed.
     */
    uint64_t orphans;
    /**
     * Versions, in an export in the paper's form, for which no row speaks.
     */
    uint64_t without_row;
    /**
     * Users' own tombstones of keys that end in 01.
     */
    uint64_t own_deletes;
} waxseal_imported_t;

/**
 * What is asked of an authorizer. Everything is lent for the call.
 */
typedef struct {
    /**
     * One of `WAXSEAL_MAY_..`; later versions may add some.
     */
    int32_t what;
    /**
     * The name of the session; `-` for nobody in particular.
     */
    waxseal_slice_t who;
    /**
     * How it was authenticated; empty: not at all.
     */
    waxseal_slice_t authenticated;
    /**
     * The target in its long form: `cf:users.john`.
     */
    waxseal_slice_t target;
    /**
     * The name of the operation, `operation` and its number for one that was defined; empty: any, or not asked.
     */
    waxseal_slice_t operation;
} waxseal_asking_t;

/**
 * Answers 0 if it may not. Called on the thread that asks, and by several at once; it must not call the store that asks.
 */
typedef int32_t (*waxseal_authorizer_fn)(void *context, const waxseal_asking_t *asking);

/**
 * One registration. Its slices are valid until its list is ended.
 */
typedef struct {
    /**
     * What is watched, as people write it.
     */
    waxseal_slice_t target;
    /**
     * The operation, by name; `*`: any.
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
     * Whether old versions move into the log.
     */
    bool history;
    /**
     * After how many microseconds events may be dropped; `WAXSEAL_FOREVER`: never.
     */
    uint64_t retention_micros;
} waxseal_registration_t;

/**
 * Something that happened to something. Its slices are valid until its list is ended.
 */
typedef struct {
    /**
     * To what, as people write it: `users.john`.
     */
    waxseal_slice_t target;
    /**
     * What, by name: `Row.Update`.
     */
    waxseal_slice_t operation;
    /**
     * The name of the session in which it was done; `-` for nobody in particular.
     */
    waxseal_slice_t client;
    /**
     * When: microseconds since 1970.
     */
    uint64_t micros;
    /**
     * The same moment as a number, in the order in which things happened; the events of one commit share it.
     */
    uint64_t time;
    /**
     * Its commit's place in the order of commits.
     */
    uint64_t seqno;
    /**
     * Number of its fields.
     */
    size_t fields;
    /**
     * In a lineage: how many steps it lies behind the file that was asked for.
     */
    size_t back;
} waxseal_event_t;

/**
 * One field of an event, or of a case of quarantine. Its slices are valid until its list is ended.
 */
typedef struct {
    /**
     * The number under which it stands in the log.
     */
    uint64_t number;
    /**
     * Its name: `new_value`, `records`, ..
     */
    waxseal_slice_t name;
    /**
     * One of `WAXSEAL_FIELD_..`: what of the following says something.
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
 * What an explanation says. Its slices are valid until the explanation is ended.
 */
typedef struct {
    /**
     * The key by its full name.
     */
    waxseal_slice_t target;
    /**
     * What the checks say: `validated`, `absent`, or why the value is not given out.
     */
    waxseal_slice_t verdict;
    /**
     * The value, if `has_value`.
     */
    waxseal_slice_t value;
    /**
     * Who wrote it, by the name of the session; empty if it was not watched then.
     */
    waxseal_slice_t writer;
    /**
     * When that was, in microseconds since 1970.
     */
    uint64_t written_micros;
    /**
     * The place in the order of commits of the version that decides, if `has_version`.
     */
    uint64_t seqno;
    /**
     * When all of the store was last checked, in microseconds since 1970; 0: nothing is known of that.
     */
    uint64_t verified_micros;
    /**
     * The table file in which it lies, if `lies` says so.
     */
    waxseal_slice_t file;
    /**
     * The uid of that file.
     */
    uint8_t uid[16];
    /**
     * The place of the block in it.
     */
    uint64_t offset;
    /**
     * The level of the file.
     */
    uint32_t level;
    /**
     * Where the version lies that decides: one of `WAXSEAL_LIES_..`.
     */
    int32_t lies;
    /**
     * Its seal, if `has_seal`.
     */
    waxseal_seal_t seal;
    /**
     * False: there is no value, or none that can be given out.
     */
    bool has_value;
    /**
     * False: nothing decides, or it cannot be read.
     */
    bool has_version;
    /**
     * False: the record has no seal.
     */
    bool has_seal;
} waxseal_explained_t;

/**
 * How things stand with events of mode async.
 */
typedef struct {
    /**
     * Taken, and not in the log yet.
     */
    uint64_t waiting;
    /**
     * Dropped since the store was opened.
     */
    uint64_t dropped;
    /**
     * Written with their operation since the ring was full.
     */
    uint64_t fallen_back;
    /**
     * As many may be lost in a crash.
     */
    uint64_t lost_at_most;
} waxseal_ring_t;

/**
 * One table file. Its slices are valid until its list is ended.
 */
typedef struct {
    /**
     * The number in its file name.
     */
    uint64_t number;
    /**
     * Its level; 0 is the newest.
     */
    uint32_t level;
    /**
     * Length of the file.
     */
    uint64_t bytes;
    /**
     * Records, all versions and tombstones.
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
     * Least place in the order of commits.
     */
    uint64_t least_seqno;
    /**
     * Greatest place in the order of commits.
     */
    uint64_t greatest_seqno;
} waxseal_table_t;

/**
 * A span in which records were lost, from one place to another in the order of keys and, of one key, the newest version first. Its
 * slices are valid until its list is ended.
 */
typedef struct {
    /**
     * The key with which it begins, which need not be one that was ever written: of it only versions from `from_seqno` down are concerned.
     */
    waxseal_slice_t from;
    /**
     * The newest version of that key that is concerned.
     */
    uint64_t from_seqno;
    /**
     * The key with which it ends, often that of the first record behind: of it only versions down to `to_seqno` are concerned.
     */
    waxseal_slice_t to;
    /**
     * The oldest version of that key that is concerned.
     */
    uint64_t to_seqno;
    /**
     * No record that was lost is newer, by its place in the order of commits: one that is decides as ever.
     */
    uint64_t bound;
    /**
     * The file in which they stood.
     */
    waxseal_slice_t file;
    /**
     * The place of their block in it.
     */
    uint64_t offset;
    /**
     * What was wrong: one of `WAXSEAL_VERDICT_..`.
     */
    int32_t verdict;
} waxseal_fence_t;

/**
 * Something that is kept out of reach, or was. Its slices are valid until its list is ended.
 */
typedef struct {
    /**
     * The family, as it was called then.
     */
    waxseal_slice_t family;
    /**
     * What of it: one of `WAXSEAL_CASE_..`.
     */
    int32_t kind;
    /**
     * The number of the table or of the fence.
     */
    uint64_t number;
    /**
     * Since when, in microseconds since 1970.
     */
    uint64_t since_micros;
    /**
     * Until when; `WAXSEAL_FOREVER`: it is so now.
     */
    uint64_t until_micros;
    /**
     * How it ended: `freed`, `lifted`, `replaced`, `dropped` or `gone`; empty: it has not.
     */
    waxseal_slice_t how;
    /**
     * Number of its fields.
     */
    size_t fields;
} waxseal_case_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * An error of the caller's own, UTF-8 or not, for a callback that fails: it is put where the callback was told to, and the library ends it.
 * `code` is what `waxseal_error_code` answers. Null if there is no room for it.
 *
 * Thread-safe. The error is the caller's, to be handed on or ended by `waxseal_error_destroy`.
 */
waxseal_error_t *waxseal_error_create(int32_t code,
                                      const uint8_t *message,
                                      size_t message_len);

/**
 * The status that the call answered; `WAXSEAL_OK` for null and for an error that was ended.
 *
 * Thread-safe.
 */
int32_t waxseal_error_code(const waxseal_error_t *error);

/**
 * What happened, for people; empty for null and for an error that was ended. Never null. Valid until the error is ended.
 *
 * Thread-safe.
 */
const char *waxseal_error_message(const waxseal_error_t *error);

/**
 * The damaged file, by its name in the store's directory; empty if the error is not about one. Never null. Valid until the error
 * is ended.
 *
 * Thread-safe.
 */
const char *waxseal_error_file(const waxseal_error_t *error);

/**
 * The column family whose records are concerned; empty if none is known to be. Never null. Valid until the error is ended.
 *
 * Thread-safe.
 */
const char *waxseal_error_family(const waxseal_error_t *error);

/**
 * The place in the file of the block or frame that is damaged; 0 if the error is not about a file.
 *
 * Thread-safe.
 */
uint64_t waxseal_error_offset(const waxseal_error_t *error);

/**
 * What is wrong with the damaged bytes, one of `WAXSEAL_VERDICT_..`; `WAXSEAL_VERDICT_NONE` if nothing is damaged.
 *
 * Thread-safe.
 */
int32_t waxseal_error_verdict(const waxseal_error_t *error);

/**
 * The smallest and the largest key that may be concerned. `WAXSEAL_NOT_FOUND` if none are known. Valid until the error is ended.
 *
 * Thread-safe.
 */
int32_t waxseal_error_key_range(const waxseal_error_t *error,
                                waxseal_slice_t *smallest,
                                waxseal_slice_t *largest);

/**
 * The sum that was recorded and that of what is there. `WAXSEAL_NOT_FOUND` if the error is not about sums.
 *
 * Thread-safe.
 */
int32_t waxseal_error_sums(const waxseal_error_t *error, uint64_t *expected, uint64_t *found);

/**
 * True if the device is full or the quota is used up: the same call may succeed once there is space.
 *
 * Thread-safe.
 */
bool waxseal_error_is_out_of_space(const waxseal_error_t *error);

/**
 * Ends an error. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_error_destroy(waxseal_error_t *error);

/**
 * How many handles were made and not ended yet, of all kinds together. A program that ends everything it makes finds 0 at its end.
 *
 * Thread-safe.
 */
size_t waxseal_live_handles(void);

/**
 * The `WAXSEAL_ABI_VERSION` that the library was built with: a program compiled against a smaller one runs with it.
 *
 * Thread-safe.
 */
uint32_t waxseal_abi_version(void);

/**
 * The version of the library, as text: `0.1.0`. It lives as long as the library.
 *
 * Thread-safe.
 */
const char *waxseal_version(void);

/**
 * The bytes, with a zero byte behind the last that is not counted; empty for null and for bytes that were ended. Valid until they
 * are ended.
 *
 * Thread-safe.
 */
waxseal_slice_t waxseal_bytes_slice(const waxseal_bytes_t *bytes);

/**
 * Ends bytes. Null is no error; bytes that were ended are `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_bytes_destroy(waxseal_bytes_t *bytes);

/**
 * An order that families of the stores have that are opened with these options, looked up by its name, UTF-8, which the store keeps. A store
 * with a family in another order than bytewise cannot be opened without it. `equal_means_same_bytes` false: keys of other bytes may be equal,
 * and filters are off. `destroy`, unless null, ends `context` once the options and all these stores are gone, or if this call fails.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a name that is empty or no UTF-8, and for a null function.
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
 * The order of a family, as of `waxseal_options_add_comparator`, for families that are made with these options. When the store is opened
 * again, its options need it too.
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
 * The options of a family, in the place of those that the store keeps; one of this name is made if there is none. `family_options` may be
 * null, and is copied as it is now.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a name that is no UTF-8.
 */
int32_t waxseal_options_add_family(waxseal_options_t *options,
                                   const uint8_t *name,
                                   size_t name_len,
                                   const waxseal_family_options_t *family_options,
                                   waxseal_error_t **error);

/**
 * New family options: defaults.
 *
 * Thread-safe. On success `*options` is the caller's, to be ended by `waxseal_family_options_destroy`. Errors: `WAXSEAL_INVALID` without a place
 * for the options.
 */
int32_t waxseal_family_options_create(waxseal_family_options_t **options,
                                      waxseal_error_t **error);

/**
 * Target size of a data block before compression, in bytes, 64 to 1 MiB. Default 4 KiB.
 *
 * One thread at a time. Answers `WAXSEAL_OK`, or what is wrong with the handle; so do all setters of family options. What was set is
 * checked when a family is made with it.
 */
int32_t waxseal_family_options_set_block_bytes(waxseal_family_options_t *options,
                                               size_t bytes);

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
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no compression.
 */
int32_t waxseal_family_options_set_compression(waxseal_family_options_t *options, int32_t number);

/**
 * Compression of the bottom level, where most of the data stands and least of it is written, one of `WAXSEAL_COMPRESSION_..`. Default: as
 * that of the other levels.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no compression.
 */
int32_t waxseal_family_options_set_bottom_compression(waxseal_family_options_t *options,
                                                      int32_t number);

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
 * How much larger each level is than the one above. Default 10.
 *
 * One thread at a time.
 */
int32_t waxseal_family_options_set_fanout(waxseal_family_options_t *options, uint64_t times);

/**
 * Tables in level 0 at which they are compacted. Default 4.
 *
 * One thread at a time.
 */
int32_t waxseal_family_options_set_level0_tables(waxseal_family_options_t *options, size_t tables);

/**
 * Values of at least so many bytes stand in files of their own, where they are written once; 0: none does. Kept in the store. Default
 * 4 KiB.
 *
 * One thread at a time.
 */
int32_t waxseal_family_options_set_large_value_bytes(waxseal_family_options_t *options,
                                                     size_t bytes);

/**
 * How many microseconds a record of the family lives that is put without an expiry of its own; 0: for ever. Records that come with their
 * seal, by ingestion or from another store keep what they came with. Kept in the store. Default 0.
 *
 * One thread at a time.
 */
int32_t waxseal_family_options_set_default_ttl(waxseal_family_options_t *options,
                                               uint64_t micros);

/**
 * Where the seals of a block stand, one of `WAXSEAL_SEALS_..`. Kept in the store. Default `WAXSEAL_SEALS_BY_CODEC`.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no layout.
 */
int32_t waxseal_family_options_set_seals(waxseal_family_options_t *options, int32_t number);

/**
 * What point reads check, one of `WAXSEAL_VERIFY_..`; `one_in` counts for `WAXSEAL_VERIFY_SAMPLED` alone. Default
 * `WAXSEAL_VERIFY_ALWAYS`.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no policy.
 */
int32_t waxseal_family_options_set_verify_reads(waxseal_family_options_t *options, int32_t policy, uint32_t one_in);

/**
 * What iterators check, likewise. Default `WAXSEAL_VERIFY_ALWAYS`.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no policy.
 */
int32_t waxseal_family_options_set_verify_scans(waxseal_family_options_t *options, int32_t policy, uint32_t one_in);

/**
 * Ends family options. Null is no error; options that were ended are `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_family_options_destroy(waxseal_family_options_t *options);

/**
 * New options: defaults.
 *
 * Thread-safe. On success `*options` is the caller's, to be ended by `waxseal_options_destroy`. Errors: `WAXSEAL_INVALID` without a place
 * for the options.
 */
int32_t waxseal_options_create(waxseal_options_t **options,
                               waxseal_error_t **error);

/**
 * Blocks of tables kept in memory, in bytes. Default 256 MiB.
 *
 * One thread at a time. Answers `WAXSEAL_OK`, or what is wrong with the handle; so do all setters of options. What was set is checked
 * by the open.
 */
int32_t waxseal_options_set_cache_bytes(waxseal_options_t *options,
                                        size_t bytes);

/**
 * Size at which a family's memtable is frozen and flushed, in bytes. Default 64 MiB.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_memtable_bytes(waxseal_options_t *options, size_t bytes);

/**
 * One budget for everything the store keeps in memory, in bytes: memtables, blocks, indexes and filters, the log's newest bytes, the room
 * of jobs. What callers hold is not in it. Default 0: none.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_memory_bytes(waxseal_options_t *options,
                                         size_t bytes);

/**
 * Target size of a data block, in bytes, in `default` and in families made by name alone. Default 4 KiB.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_block_bytes(waxseal_options_t *options, size_t bytes);

/**
 * Compression in `default` and in families made by name alone, one of `WAXSEAL_COMPRESSION_..`. Default LZ4.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no compression.
 */
int32_t waxseal_options_set_compression(waxseal_options_t *options, int32_t number);

/**
 * Durability of writes that do not say, one of `WAXSEAL_DURABILITY_..`. Default `WAXSEAL_DURABILITY_OS`.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no durability.
 */
int32_t waxseal_options_set_durability(waxseal_options_t *options, int32_t number);

/**
 * Threads that compact, beside the one that keeps the log and the one that flushes. Default 1.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_background_threads(waxseal_options_t *options, size_t threads);

/**
 * Whether a store is made where there is none. Default true.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_create_if_missing(waxseal_options_t *options, bool create);

/**
 * Whether a store may be created in a directory that holds other files. Default false.
 * Files of another engine, and of names that a store would use, are refused either way.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_beside_other_files(waxseal_options_t *options, bool allow);

/**
 * Whether an open is refused where a store is. Default false.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_error_if_exists(waxseal_options_t *options, bool refuse);

/**
 * Whether the newest log bytes live in a mapped file where the file system allows it. Default true. False makes every commit a
 * `write`.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_wal_mapped(waxseal_options_t *options,
                                       bool mapped);

/**
 * Opens without seals, registry and log. Default false.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_plain(waxseal_options_t *options, bool plain);

/**
 * Whether the store has a registry and a log. Default true; they cost nothing until something is registered.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_registry(waxseal_options_t *options, bool registry);

/**
 * Opens although acknowledged commits at the end of the log are damaged: they are set aside and reported. Default false: such an open
 * is `WAXSEAL_CORRUPTION`.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_accept_loss(waxseal_options_t *options,
                                        bool accept);

/**
 * What point reads check against the seals, one of `WAXSEAL_VERIFY_..`; `one_in` counts for `WAXSEAL_VERIFY_SAMPLED` alone. Default
 * `WAXSEAL_VERIFY_ALWAYS`.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no policy.
 */
int32_t waxseal_options_set_verify_reads(waxseal_options_t *options,
                                         int32_t policy,
                                         uint32_t one_in);

/**
 * What iterators check, likewise. Default `WAXSEAL_VERIFY_ALWAYS`.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no policy.
 */
int32_t waxseal_options_set_verify_scans(waxseal_options_t *options, int32_t policy, uint32_t one_in);

/**
 * Ends options. Null is no error; options that were ended are `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_options_destroy(waxseal_options_t *options);

/**
 * In what the newest records stand until they are flushed, one of `WAXSEAL_MEMTABLE_..`. Nothing of it is on disk: it may be another
 * one at each open.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no kind of memtable.
 */
int32_t waxseal_options_set_memtable(waxseal_options_t *options,
                                     int32_t number);

/**
 * Files of tables and of large values that are open at the same time. Beyond that number the file that was not read for longest is closed, and
 * opened again by its next read. Default 0: what leaves the host half of the files that the process may have open.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_open_tables(waxseal_options_t *options,
                                        size_t tables);

/**
 * Memory that indexes and filters of open tables take, in bytes. Beyond it, tables that nobody asked of late drop theirs and read them again.
 * Default 1 GiB.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_index_bytes(waxseal_options_t *options,
                                        size_t bytes);

/**
 * Threads that one large compaction may be divided among, 1 to 64. Default 2.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_subcompactions(waxseal_options_t *options, size_t threads);

/**
 * Bytes that flushes and compactions together may write in a second. Default 0: as many as they can.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_background_bytes_per_second(waxseal_options_t *options, uint64_t bytes);

/**
 * Bytes of replaced table files that are kept, the newest, for a repair to look into. Default 0: they are removed at once.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_trash_bytes(waxseal_options_t *options,
                                        uint64_t bytes);

/**
 * Length of one segment of the log, in bytes, a multiple of 4096, at least 16 KiB. Default 16 MiB. Where half of `memtable_bytes` is less, segments
 * are that long, but at least 1 MiB.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_segment_bytes(waxseal_options_t *options,
                                          uint64_t bytes);

/**
 * Length of the file in which the newest bytes of the log live, a multiple of 4096, at least 16 KiB. Default 4 MiB. Not the ring
 * of `waxseal_options_set_ring`, in which events wait.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_ring_bytes(waxseal_options_t *options,
                                       size_t bytes);

/**
 * That file is drained to its segment each time so many bytes have gathered; at most half of its length. Default 256 KiB.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_drain_bytes(waxseal_options_t *options,
                                        size_t bytes);

/**
 * Size at which the manifest is written anew, in bytes. Default 4 MiB.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_manifest_bytes(waxseal_options_t *options, uint64_t bytes);

/**
 * Lines on what the engine did that the manifest holds before the oldest half become rows of the log. Default 4,096.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_chronicle_lines(waxseal_options_t *options, size_t lines);

/**
 * Events of the engine's own work that the log keeps: the newest so many, if they are younger than
 * `waxseal_options_set_engine_event_age` says. An event that is beyond either bound goes with a later flush. One that wrote a table
 * of the store, or tells of an open quarantine, stays. Events of users are not counted and never go. Default 10,000; `SIZE_MAX`: all.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_engine_events(waxseal_options_t *options,
                                          size_t events);

/**
 * The age beyond which events of the engine's own work go, in microseconds, as `waxseal_options_set_engine_events` says. Default 30 days;
 * `UINT64_MAX`: none goes for its age.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_engine_event_age(waxseal_options_t *options,
                                             uint64_t micros);

/**
 * New write options: defaults.
 *
 * Thread-safe. On success `*options` is the caller's, to be ended by `waxseal_write_options_destroy`. Errors: `WAXSEAL_INVALID` without a place
 * for the options.
 */
int32_t waxseal_write_options_create(waxseal_write_options_t **options,
                                     waxseal_error_t **error);

/**
 * When the write, once it has returned, can still be lost: one of `WAXSEAL_DURABILITY_..`.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no durability.
 */
int32_t waxseal_write_options_set_durability(waxseal_write_options_t *options, int32_t number);

/**
 * Puts a label beside the value: a name with a text, both UTF-8. Each name once, the last text wins.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for what is no UTF-8.
 */
int32_t waxseal_write_options_add_label(waxseal_write_options_t *options,
                                        const uint8_t *name,
                                        size_t name_len,
                                        const uint8_t *text,
                                        size_t text_len,
                                        waxseal_error_t **error);

/**
 * Lets the log call the put `Row.Insert` instead of `Row.Update`. That is a word in the log alone: the put overwrites like any other, and
 * the store does not look whether the key was there.
 *
 * One thread at a time.
 */
int32_t waxseal_write_options_set_log_as_insert(waxseal_write_options_t *options);

/**
 * Ends write options. Null is no error; options that were ended are `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_write_options_destroy(waxseal_write_options_t *options);

/**
 * Opens the store in a directory, or makes one there. `options` may be null. One process at a time may write.
 *
 * Thread-safe. On success `*db` is the caller's, to be ended by `waxseal_close`. Errors: `WAXSEAL_LOCKED` names the holder,
 * `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_FORMAT_TOO_NEW`; `WAXSEAL_INVALID` for options that cannot be.
 */
int32_t waxseal_open(const uint8_t *path,
                     size_t path_len,
                     const waxseal_options_t *options,
                     waxseal_db_t **db,
                     waxseal_error_t **error);

/**
 * Opens a store for reading, also beside a process that writes: takes no lock and writes nothing. It shows the store as it was then,
 * until `waxseal_refresh`. `options` may be null.
 *
 * Thread-safe. On success `*db` is the caller's, to be ended by `waxseal_close`. Errors: as of `waxseal_open`, without
 * `WAXSEAL_LOCKED`.
 */
int32_t waxseal_open_read_only(const uint8_t *path,
                               size_t path_len,
                               const waxseal_options_t *options,
                               waxseal_db_t **db,
                               waxseal_error_t **error);

/**
 * A new store in memory, gone when it is closed. `options` may be null.
 *
 * Thread-safe. On success `*db` is the caller's, to be ended by `waxseal_close`.
 */
int32_t waxseal_open_memory(const waxseal_options_t *options, waxseal_db_t **db, waxseal_error_t **error);

/**
 * Closes the store for everything that came from it, and ends its handle, whatever the answer. What was acknowledged is durable if
 * the answer is `WAXSEAL_OK`. Families, snapshots, batches and iterators answer `WAXSEAL_CLOSED` from then on, and still have to be
 * ended. Null is no error.
 *
 * Releases the store's threads, descriptors, mappings, memtables and cached blocks, whoever still has a handle. A running call, a bytes object
 * and an Arrow batch keep the memory that they use; an iterator keeps its memtables and the indexes of its tables until it is ended.
 *
 * Thread-safe: calls that run meanwhile finish or answer `WAXSEAL_CLOSED`. A second call answers `WAXSEAL_OK`, and does not wait for the
 * first. Errors: `WAXSEAL_IO`, `WAXSEAL_HALTED` if something could not be made durable.
 */
int32_t waxseal_close(waxseal_db_t *db,
                      waxseal_error_t **error);

/**
 * Removes a store and everything in it. Refuses a directory that holds no store, and one that is open.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID`, `WAXSEAL_LOCKED`, `WAXSEAL_IO`.
 */
int32_t waxseal_destroy_store(const uint8_t *path, size_t path_len, waxseal_error_t **error);

/**
 * Makes every acknowledged commit durable: none of them can be lost once this has answered `WAXSEAL_OK`.
 *
 * Thread-safe. Errors: `WAXSEAL_IO`, `WAXSEAL_HALTED`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_sync(waxseal_db_t *db, waxseal_error_t **error);

/**
 * Writes all memtables to tables and waits for it.
 *
 * Thread-safe. Errors: `WAXSEAL_IO`, `WAXSEAL_HALTED`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_flush(waxseal_db_t *db, waxseal_error_t **error);

/**
 * Flushes, then compacts until no compaction is due, the levels above the lowest hold an eighth of it at most (one of `fanout - 2`), since
 * all that stands there may be newer versions, and garbage in value files is an eighth of what is alive; then removes the log's spare
 * segments. For the end of a load: what it does beyond a compaction that is due it leaves out as soon as others write on.
 *
 * Thread-safe. Errors: as of `waxseal_flush`.
 */
int32_t waxseal_settle(waxseal_db_t *db,
                       waxseal_error_t **error);

/**
 * A copy of the store as it is now in a new directory, which a crash leaves whole or not at all. Tables are shared by hard links
 * where the file system has them.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` if something is in the directory, `WAXSEAL_LOCKED` while another is written there, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_checkpoint(waxseal_db_t *db,
                           const uint8_t *path,
                           size_t path_len,
                           waxseal_error_t **error);

/**
 * Catches up with the process that writes, what is registered included; for stores opened by `waxseal_open_read_only`, others stay as they
 * are.
 *
 * Thread-safe. Errors: `WAXSEAL_CORRUPTION`, also if what is registered cannot be read, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_refresh(waxseal_db_t *db,
                        waxseal_error_t **error);

/**
 * `WAXSEAL_OK` if the store was opened for reading alone, `WAXSEAL_NOT_FOUND` if it may be written.
 *
 * Thread-safe.
 */
int32_t waxseal_is_read_only(const waxseal_db_t *db, waxseal_error_t **error);

/**
 * From now on the calling thread's long calls ask `function` whether they are to end; null: they ask nobody. These are calls that flush,
 * compact, settle, wait for room, look at a store, count, copy, export or import; waiting for the device itself is not interrupted. What an
 * interrupted call had finished stays, and the call may be repeated.
 *
 * Thread-safe: each thread sets its own. `function` and `context` must be good until they are replaced or the thread ends. Never fails.
 */
int32_t waxseal_set_interrupt(waxseal_interrupt_fn function,
                              void *context);

/**
 * One number of a store, by its name: `flushes`, `compactions`, `cache.used_bytes`, `wal.syncs`, `family.default.memtable_bytes`,
 * `family.default.level.0.tables`, ..; `waxseal_metrics_json` names them all. `WAXSEAL_NOT_FOUND` for a name that stands for none.
 *
 * Thread-safe. Costs as much as all of them. Errors: `WAXSEAL_INVALID` for a name that is no UTF-8, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_metric(const waxseal_db_t *db,
                       const uint8_t *name,
                       size_t name_len,
                       uint64_t *number,
                       waxseal_error_t **error);

/**
 * All numbers of a store, as one JSON object: names as of `waxseal_metric`, numbers that are whole. Counters start at the open.
 *
 * Thread-safe. On success `*text` is the caller's, to be ended by `waxseal_bytes_destroy`. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_metrics_json(const waxseal_db_t *db,
                             waxseal_bytes_t **text,
                             waxseal_error_t **error);

/**
 * The same as text for people.
 *
 * Thread-safe. On success `*text` is the caller's, to be ended by `waxseal_bytes_destroy`. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_metrics_text(const waxseal_db_t *db, waxseal_bytes_t **text, waxseal_error_t **error);

/**
 * What the open of this store found in its log: what came back, and what was cut from its torn end. `set_aside` may be null; else it is
 * the name of the file in the store's directory that keeps what was cut, empty if nothing was.
 *
 * Thread-safe. On success `*set_aside` is the caller's, to be ended by `waxseal_bytes_destroy`. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_recovery(const waxseal_db_t *db,
                         waxseal_recovery_t *recovery,
                         waxseal_bytes_t **set_aside,
                         waxseal_error_t **error);

/**
 * The column family of this name, made if there is none; `default` always exists. In a store opened for reading an unknown name is
 * `WAXSEAL_INVALID`.
 *
 * Thread-safe. On success `*family` is the caller's, to be ended by `waxseal_family_destroy`. Errors: `WAXSEAL_INVALID` for a name
 * that is no UTF-8 or cannot be, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_family_open(waxseal_db_t *db,
                            const uint8_t *name,
                            size_t name_len,
                            waxseal_family_t **family,
                            waxseal_error_t **error);

/**
 * Makes a column family with options of its own. `options` may be null. Its name has 1 to 255 bytes, none of them zero.
 *
 * Thread-safe. On success `*family` is the caller's, to be ended by `waxseal_family_destroy`. Errors: `WAXSEAL_INVALID` if the name
 * exists or cannot be, and for options that cannot be; `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_family_create(waxseal_db_t *db,
                              const uint8_t *name,
                              size_t name_len,
                              const waxseal_family_options_t *options,
                              waxseal_family_t **family,
                              waxseal_error_t **error);

/**
 * Drops a column family with all its records. Handles to it answer `WAXSEAL_INVALID` from then on. `default` cannot be dropped.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` for an unknown name, `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_family_drop(waxseal_db_t *db,
                            const uint8_t *name,
                            size_t name_len,
                            waxseal_error_t **error);

/**
 * The names of all column families, each with a zero byte behind it.
 *
 * Thread-safe. On success `*names` is the caller's, to be ended by `waxseal_bytes_destroy`. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_family_names(const waxseal_db_t *db, waxseal_bytes_t **names, waxseal_error_t **error);

/**
 * The name of a column family.
 *
 * Thread-safe. On success `*name` is the caller's, to be ended by `waxseal_bytes_destroy`.
 */
int32_t waxseal_family_name(const waxseal_family_t *family, waxseal_bytes_t **name, waxseal_error_t **error);

/**
 * The same column family, to be read under another policy, one of `WAXSEAL_VERIFY_..`: reads through it, by iterator too, check what it
 * says. `one_in` counts for `WAXSEAL_VERIFY_SAMPLED` alone.
 *
 * Thread-safe. On success `*verified` is the caller's, to be ended by `waxseal_family_destroy`. Errors: `WAXSEAL_INVALID` for a
 * number that is no policy.
 */
int32_t waxseal_family_with_verify(const waxseal_family_t *family,
                                   int32_t policy,
                                   uint32_t one_in,
                                   waxseal_family_t **verified,
                                   waxseal_error_t **error);

/**
 * The same column family, to be read so that blocks which its reads load stay in the cache, or, for reads that come by once, do not.
 *
 * Thread-safe. On success `*filling` is the caller's, to be ended by `waxseal_family_destroy`.
 */
int32_t waxseal_family_with_fill_cache(const waxseal_family_t *family,
                                       bool fill,
                                       waxseal_family_t **filling,
                                       waxseal_error_t **error);

/**
 * Rewrites the tables of the whole family until nothing that is deleted or overwritten takes space.
 *
 * Thread-safe. Errors: `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_HALTED`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_compact(waxseal_family_t *family, waxseal_error_t **error);

/**
 * The same of the tables that may hold keys of a range. `range` may be null: all of them.
 *
 * Thread-safe. Errors: as of `waxseal_compact`; `WAXSEAL_INVALID` for a range that cannot be.
 */
int32_t waxseal_compact_range(waxseal_family_t *family, const waxseal_range_t *range, waxseal_error_t **error);

/**
 * About how many bytes of the store's files hold records of a range. Memtables are not counted. `range` may be null: everything.
 *
 * Thread-safe. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_approximate_size(const waxseal_family_t *family,
                                 const waxseal_range_t *range,
                                 uint64_t *size,
                                 waxseal_error_t **error);

/**
 * Ends a handle to a column family; the family itself stays. Null is no error; a handle that was ended is `WAXSEAL_CLOSED`.
 *
 * Thread-safe: calls that use it meanwhile finish.
 */
int32_t waxseal_family_destroy(waxseal_family_t *family);

/**
 * The store as it is now, for as long as the snapshot is kept.
 *
 * Thread-safe. On success `*snapshot` is the caller's, to be ended by `waxseal_snapshot_destroy`. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_snapshot_create(waxseal_db_t *db,
                                waxseal_snapshot_t **snapshot,
                                waxseal_error_t **error);

/**
 * The store as a crash of the machine would leave it at this moment: at the last commit known to be durable.
 *
 * Thread-safe. On success `*snapshot` is the caller's, to be ended by `waxseal_snapshot_destroy`. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_snapshot_create_durable(waxseal_db_t *db,
                                        waxseal_snapshot_t **snapshot,
                                        waxseal_error_t **error);

/**
 * The snapshot's place in the order of commits: commits up to this number are seen.
 *
 * Thread-safe.
 */
int32_t waxseal_snapshot_seqno(const waxseal_snapshot_t *snapshot, uint64_t *seqno, waxseal_error_t **error);

/**
 * Ends a snapshot. Iterators made from it go on. Null is no error; a snapshot that was ended is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_snapshot_destroy(waxseal_snapshot_t *snapshot);

/**
 * Sets a key to a value, with the store's durability. Keys have up to 65,535 bytes, values up to 3 GiB less one.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` for a key or value that is too long or null with a length, `WAXSEAL_IO`, `WAXSEAL_HALTED`,
 * `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`. A call that failed has written nothing, unless the message says otherwise.
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
 * Thread-safe, if the options are this thread's own meanwhile. Errors: as of `waxseal_put`; `WAXSEAL_INVALID` for options that cannot be.
 */
int32_t waxseal_put_with(waxseal_family_t *family,
                         const waxseal_write_options_t *options,
                         const uint8_t *key,
                         size_t key_len,
                         const uint8_t *value,
                         size_t value_len,
                         waxseal_error_t **error);

/**
 * Removes a key; no error if it is not there.
 *
 * Thread-safe. Errors: as of `waxseal_put`.
 */
int32_t waxseal_delete(waxseal_family_t *family, const uint8_t *key, size_t key_len, waxseal_error_t **error);

/**
 * Removes a key, with options; no error if it is not there. `options` may be null.
 *
 * Thread-safe, if the options are this thread's own meanwhile. Errors: as of `waxseal_put_with`.
 */
int32_t waxseal_delete_with(waxseal_family_t *family,
                            const waxseal_write_options_t *options,
                            const uint8_t *key,
                            size_t key_len,
                            waxseal_error_t **error);

/**
 * An empty batch of a store.
 *
 * Thread-safe. On success `*batch` is the caller's, to be ended by `waxseal_batch_destroy`. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_batch_create(waxseal_db_t *db, waxseal_batch_t **batch, waxseal_error_t **error);

/**
 * Adds: sets a key to a value.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a key or value that is too long or null with a length, and for a family of
 * another store.
 */
int32_t waxseal_batch_put(waxseal_batch_t *batch,
                          waxseal_family_t *family,
                          const uint8_t *key,
                          size_t key_len,
                          const uint8_t *value,
                          size_t value_len,
                          waxseal_error_t **error);

/**
 * Adds: sets a key to a value, which the log calls `Row.Insert` instead of `Row.Update`. It overwrites like `waxseal_batch_put`; the store
 * does not look whether the key was there.
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
 * Adds: removes a key.
 *
 * One thread at a time. Errors: as of `waxseal_batch_put`.
 */
int32_t waxseal_batch_delete(waxseal_batch_t *batch,
                             waxseal_family_t *family,
                             const uint8_t *key,
                             size_t key_len,
                             waxseal_error_t **error);

/**
 * Makes all writes of the batch visible at once and empties it for use again. On an error it keeps them, and nothing has happened
 * unless the message says otherwise. `durability` is one of `WAXSEAL_DURABILITY_..`.
 *
 * One thread at a time. Errors: of the write that was refused; `WAXSEAL_INVALID` for a family that was dropped, `WAXSEAL_IO`,
 * `WAXSEAL_HALTED`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_batch_commit(waxseal_batch_t *batch,
                             int32_t durability,
                             waxseal_error_t **error);

/**
 * Forgets all writes, and a refused one.
 *
 * One thread at a time.
 */
int32_t waxseal_batch_clear(waxseal_batch_t *batch);

/**
 * How many writes there are; 0 for null, for a batch that was ended and for one that another thread is using.
 *
 * One thread at a time.
 */
size_t waxseal_batch_count(const waxseal_batch_t *batch);

/**
 * About how many bytes the commit will take in the log; 0 where `waxseal_batch_count` is 0 for want of a batch.
 *
 * One thread at a time.
 */
size_t waxseal_batch_bytes(const waxseal_batch_t *batch);

/**
 * Ends a batch and forgets what was not committed. Null is no error; a batch that was ended is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_batch_destroy(waxseal_batch_t *batch);

/**
 * The value of a key, copied. `snapshot` null: as it is now. `WAXSEAL_NOT_FOUND` if the key is not there.
 *
 * Thread-safe. On `WAXSEAL_OK` `*value` is the caller's, to be ended by `waxseal_bytes_destroy`. Errors: `WAXSEAL_CORRUPTION` if the
 * value is damaged: then none is given, and no older one in its place; `WAXSEAL_IO`, `WAXSEAL_INVALID`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_get(const waxseal_family_t *family,
                    const waxseal_snapshot_t *snapshot,
                    const uint8_t *key,
                    size_t key_len,
                    waxseal_bytes_t **value,
                    waxseal_error_t **error);

/**
 * Copies the value of a key into a buffer, and its length to `*length`. Nothing is allocated. `snapshot` null: as it is now. A null
 * buffer with capacity 0 asks for the length.
 *
 * `WAXSEAL_NOT_FOUND` if the key is not there: nothing is written. `WAXSEAL_TOO_SMALL` if the value does not fit: its length is
 * written, the buffer is untouched; a larger one may come too late, if others write the key meanwhile.
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
 * `waxseal_get_into`, if its answer is in memory: `WAXSEAL_NOT_RESIDENT` if a file would have to be read, and then nothing is written.
 * For those who must not wait: an event loop, a thread that holds an interpreter's lock. An answer costs what a cached
 * `waxseal_get_into` does.
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
 * `WAXSEAL_OK` if the key is there, `WAXSEAL_NOT_FOUND` if not. `snapshot` null: as it is now.
 *
 * Thread-safe. Errors: as of `waxseal_get`.
 */
int32_t waxseal_contains(const waxseal_family_t *family,
                         const waxseal_snapshot_t *snapshot,
                         const uint8_t *key,
                         size_t key_len,
                         waxseal_error_t **error);

/**
 * The values of `count` keys, all as they were at one moment, copied. `snapshot` null: now.
 *
 * Thread-safe. On success `*values` is the caller's, to be ended by `waxseal_values_destroy`. Errors: as of `waxseal_get`; one value
 * that cannot be given fails the call.
 */
int32_t waxseal_multi_get(const waxseal_family_t *family,
                          const waxseal_snapshot_t *snapshot,
                          const waxseal_slice_t *keys,
                          size_t count,
                          waxseal_values_t **values,
                          waxseal_error_t **error);

/**
 * How many values there are, absent ones counted: as many as keys were asked for. 0 for null and for values that were ended.
 *
 * Thread-safe.
 */
size_t waxseal_values_count(const waxseal_values_t *values);

/**
 * The value of the key at `index`, lent until the values are ended. `WAXSEAL_NOT_FOUND` if the key was not there: nothing is written.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` for an index past the end, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_values_at(const waxseal_values_t *values,
                          size_t index,
                          waxseal_slice_t *value);

/**
 * Ends values. Null is no error; values that were ended are `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_values_destroy(waxseal_values_t *values);

/**
 * An iterator over the records with keys in a range. `snapshot` null: as they are now. `range` null: all.
 *
 * Thread-safe. On success `*iter` is the caller's, to be ended by `waxseal_iter_destroy`. Errors: `WAXSEAL_INVALID` for a range that
 * cannot be, and for a snapshot of another store; `WAXSEAL_CLOSED`.
 */
int32_t waxseal_iter_create(const waxseal_family_t *family,
                            const waxseal_snapshot_t *snapshot,
                            const waxseal_range_t *range,
                            waxseal_iter_t **iter,
                            waxseal_error_t **error);

/**
 * An iterator over the records whose keys begin with `prefix`. `snapshot` null: as they are now.
 *
 * Thread-safe. On success `*iter` is the caller's, to be ended by `waxseal_iter_destroy`. Errors: as of `waxseal_iter_create`;
 * `WAXSEAL_INVALID` for a family with a comparator, in whose order such keys need not stand together.
 */
int32_t waxseal_iter_create_prefix(const waxseal_family_t *family,
                                   const waxseal_snapshot_t *snapshot,
                                   const uint8_t *prefix,
                                   size_t prefix_len,
                                   waxseal_iter_t **iter,
                                   waxseal_error_t **error);

/**
 * To the first record. `WAXSEAL_NOT_FOUND` if there is none; else the row is lent through `row`, which may be null.
 *
 * One thread at a time. Errors: `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`; so do all moves.
 */
int32_t waxseal_iter_first(waxseal_iter_t *iter, waxseal_row_t *row, waxseal_error_t **error);

/**
 * To the last record. `WAXSEAL_NOT_FOUND` if there is none; else the row is lent through `row`, which may be null.
 *
 * One thread at a time.
 */
int32_t waxseal_iter_last(waxseal_iter_t *iter, waxseal_row_t *row, waxseal_error_t **error);

/**
 * To the first record at or after `key`. `WAXSEAL_NOT_FOUND` if there is none; else the row is lent through `row`, which may be null.
 *
 * One thread at a time.
 */
int32_t waxseal_iter_seek(waxseal_iter_t *iter,
                          const uint8_t *key,
                          size_t key_len,
                          waxseal_row_t *row,
                          waxseal_error_t **error);

/**
 * To the last record at or before `key`. `WAXSEAL_NOT_FOUND` if there is none; else the row is lent through `row`, which may be null.
 *
 * One thread at a time.
 */
int32_t waxseal_iter_seek_for_prev(waxseal_iter_t *iter,
                                   const uint8_t *key,
                                   size_t key_len,
                                   waxseal_row_t *row,
                                   waxseal_error_t **error);

/**
 * One record on; a new iterator goes to the first one. `WAXSEAL_NOT_FOUND` if there is none; else the row is lent through `row`, which
 * may be null.
 *
 * One thread at a time.
 */
int32_t waxseal_iter_next(waxseal_iter_t *iter,
                          waxseal_row_t *row,
                          waxseal_error_t **error);

/**
 * One record back; a new iterator goes to the last one. `WAXSEAL_NOT_FOUND` if there is none; else the row is lent through `row`, which
 * may be null.
 *
 * One thread at a time.
 */
int32_t waxseal_iter_prev(waxseal_iter_t *iter,
                          waxseal_row_t *row,
                          waxseal_error_t **error);

/**
 * As many calls of `waxseal_iter_next` as there are rows up to `max_rows`, in one: their rows are lent together, packed. A batch is
 * full once it holds `max_bytes` or more; one row it always holds. The iterator stands on its last row then.
 *
 * `WAXSEAL_NOT_FOUND` if there is no row. Damage ends a batch: it is told by the next call, and the one after that leads on behind it. A row
 * for which there is no memory ends it, too, and once that was told it is the next one, whichever way that step goes.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` if `max_rows` is 0; `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`,
 * `WAXSEAL_OUT_OF_MEMORY`.
 */
int32_t waxseal_iter_next_rows(waxseal_iter_t *iter,
                               size_t max_rows,
                               size_t max_bytes,
                               waxseal_rows_t *rows,
                               waxseal_error_t **error);

/**
 * Whether batches of rows hold keys alone, with empty values. Default false. Rows of single steps have their values in any case.
 *
 * One thread at a time. Answers `WAXSEAL_OK`, or what is wrong with the handle.
 */
int32_t waxseal_iter_set_keys_only(waxseal_iter_t *iter,
                                   bool keys_only);

/**
 * As `waxseal_iter_next_rows`, backwards: the rows that as many calls of `waxseal_iter_prev` would give, in their order.
 *
 * One thread at a time. Errors: as of `waxseal_iter_next_rows`.
 */
int32_t waxseal_iter_prev_rows(waxseal_iter_t *iter,
                               size_t max_rows,
                               size_t max_bytes,
                               waxseal_rows_t *rows,
                               waxseal_error_t **error);

/**
 * True if the iterator stands on a record; false for null, for an iterator that was ended and for one that another thread is using.
 *
 * One thread at a time.
 */
bool waxseal_iter_valid(const waxseal_iter_t *iter);

/**
 * The key that the iterator stands on, lent until it is moved or ended; empty where `waxseal_iter_valid` is false.
 *
 * One thread at a time.
 */
waxseal_slice_t waxseal_iter_key(const waxseal_iter_t *iter);

/**
 * The value that the iterator stands on, lent until it is moved or ended; empty where `waxseal_iter_valid` is false.
 *
 * One thread at a time.
 */
waxseal_slice_t waxseal_iter_value(const waxseal_iter_t *iter);

/**
 * Ends an iterator. Null is no error; an iterator that was ended is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_iter_destroy(waxseal_iter_t *iter);

/**
 * The seal of a value under a key, made where they are, so that nothing that happens to them from here on can pass.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` for a key or value that cannot be.
 */
int32_t waxseal_seal_of(const uint8_t *key,
                        size_t key_len,
                        const uint8_t *value,
                        size_t value_len,
                        waxseal_seal_t *seal,
                        waxseal_error_t **error);

/**
 * Sets a key to a value with the seal that the caller was given with them, or made where they came from. It is checked now, kept as it is,
 * and handed back by `waxseal_get_sealed`. `options` may be null.
 *
 * Thread-safe, if the options are this thread's own meanwhile. Errors: `WAXSEAL_INVALID` if the seal is not that of key and value, or the
 * store was opened plain; else as of `waxseal_put`. Nothing was changed then.
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
 * Adds to a batch: sets a key to a value whose seal the caller was given.
 *
 * One thread at a time. Errors: as of `waxseal_batch_put`; `WAXSEAL_INVALID` if the seal is not that of key and value.
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
 * The value of a key, copied, with its seal and, unless `seqno` is null, its place in the order of commits (0 once no snapshot can tell).
 * Value and seal are checked against each other whatever the policy. `snapshot` null: as it is now. `WAXSEAL_NOT_FOUND` if the key is not
 * there.
 *
 * Thread-safe. On `WAXSEAL_OK` `*value` is the caller's, to be ended by `waxseal_bytes_destroy`. Errors: `WAXSEAL_CORRUPTION` if the two
 * do not agree; `WAXSEAL_INVALID` if the record has no seal, since a plain store wrote it, or if this store was opened plain; else as
 * of `waxseal_get`.
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
 * Keeps bytes beside the value, in the same record, for the provider with this number. They go wherever the record goes, and away with
 * it; no read of the value touches them. An unknown provider, bytes that it refuses and two entries for one provider are told by the
 * write.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for null with a length.
 */
int32_t waxseal_write_options_add_entry(waxseal_write_options_t *options,
                                        uint16_t provider,
                                        const uint8_t *bytes,
                                        size_t bytes_len,
                                        waxseal_error_t **error);

/**
 * The record expires at this time, in microseconds since 1970: from then on it counts as absent, and a later compaction drops it. A time
 * that has passed is allowed. A snapshot and an iterator judge by the time at which they were made, every other read by the time now.
 * This, `waxseal_write_options_set_expires_in` and `waxseal_write_options_set_expires_never`: the last one wins.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a time before the year 2000, which is a mistake in its unit or its epoch; the options
 * are then as they were.
 */
int32_t waxseal_write_options_set_expiry(waxseal_write_options_t *options,
                                         uint64_t micros);

/**
 * The record expires so many microseconds after it is written.
 *
 * One thread at a time.
 */
int32_t waxseal_write_options_set_expires_in(waxseal_write_options_t *options, uint64_t micros);

/**
 * The record never expires, whatever the default time to live of its family is.
 *
 * One thread at a time.
 */
int32_t waxseal_write_options_set_expires_never(waxseal_write_options_t *options);

/**
 * Adds to a batch: sets a key to a value, with options: an expiry, labels, entries. Null options are defaults. The commit says the
 * durability.
 *
 * One thread at a time. Errors: as of `waxseal_batch_put`; `WAXSEAL_INVALID` for options with a durability of their own.
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
 * Adds to a batch: sets a key to a value and keeps entries beside it.
 *
 * One thread at a time. Errors: as of `waxseal_batch_put`; `WAXSEAL_INVALID` for entries that cannot be.
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
 * What a provider keeps beside the value of a key, copied. The value is not looked at, whatever its size. `version` and `checked` (one of
 * `WAXSEAL_CHECKED_..`) may be null. `snapshot` null: as it is now. `WAXSEAL_NOT_FOUND` if there is no value, or no entry.
 *
 * Thread-safe. On `WAXSEAL_OK` `*bytes` is the caller's, to be ended by `waxseal_bytes_destroy`. Errors: `WAXSEAL_CORRUPTION` if what stands
 * beside the value cannot be decoded or does not fit its sum; else as of `waxseal_get`.
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
 * Entries of a provider as they are now, in the order of their keys; values without one are passed over. `range` may be null: all keys.
 *
 * Thread-safe. On success `*iter` is the caller's, to be ended by `waxseal_meta_iter_destroy`. Errors: `WAXSEAL_CLOSED`,
 * `WAXSEAL_INVALID` for a range that cannot be.
 */
int32_t waxseal_meta_iter_create(const waxseal_family_t *family,
                                 const waxseal_range_t *range,
                                 uint16_t provider,
                                 waxseal_meta_iter_t **iter,
                                 waxseal_error_t **error);

/**
 * To the next entry, lent with its key until the next call. `WAXSEAL_NOT_FOUND` behind the last. Damage is one `WAXSEAL_CORRUPTION`; the
 * next call leads on behind it.
 *
 * One thread at a time. Errors: `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`.
 */
int32_t waxseal_meta_iter_next(waxseal_meta_iter_t *iter,
                               waxseal_slice_t *key,
                               waxseal_entry_t *entry,
                               waxseal_error_t **error);

/**
 * Ends an iterator of entries. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_meta_iter_destroy(waxseal_meta_iter_t *iter);

/**
 * Who hears of what the engine does, in every store that is opened with these options; null: nobody. `destroy`, unless null, ends
 * `context` once the options and all these stores are gone, or if this call fails.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_listener(waxseal_options_t *options,
                                     waxseal_listener_fn listener,
                                     void *context,
                                     waxseal_destroy_fn destroy);

/**
 * A provider with a number, from 16 on, and a name of 1 to 64 bytes: its entries have at most 1 KiB, belong to the record wherever it
 * goes, stand outside of the seal and are carried by whoever does not know them, unless the setters say otherwise. Without functions
 * it keeps what writers give it. `destroy`, unless null, ends `context` once the provider and every store that was opened with it
 * are gone, or if this call fails. The functions may be called by any thread, by several at once, and by the store's own threads.
 *
 * Thread-safe. On success `*provider` is the caller's, to be ended by `waxseal_provider_destroy`. Errors: `WAXSEAL_INVALID` for a number
 * that is reserved, or a name that cannot be.
 */
int32_t waxseal_provider_create(uint16_t id,
                                const uint8_t *name,
                                size_t name_len,
                                void *context,
                                waxseal_destroy_fn destroy,
                                waxseal_provider_t **provider,
                                waxseal_error_t **error);

/**
 * The form of the entries that it writes, any number. Default 0.
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
 * The longest entry, in bytes. Default 1024.
 *
 * One thread at a time.
 */
int32_t waxseal_provider_set_max_len(waxseal_provider_t *provider, size_t bytes);

/**
 * Whether the seal covers its entries: then they never change after the write. Default false.
 *
 * One thread at a time.
 */
int32_t waxseal_provider_set_sealed(waxseal_provider_t *provider, bool sealed);

/**
 * Whether a store that does not know this provider leaves its entries out when it writes a table, instead of carrying them. Default
 * false.
 *
 * One thread at a time.
 */
int32_t waxseal_provider_set_dropped_if_unknown(waxseal_provider_t *provider,
                                                bool dropped);

/**
 * The function that makes the entry of an operation; null: what the writer gives is the entry. With `every` it is also asked about
 * operations for which nothing was given.
 *
 * One thread at a time.
 */
int32_t waxseal_provider_set_on_write(waxseal_provider_t *provider,
                                      waxseal_on_write_fn on_write,
                                      bool every);

/**
 * The function that is asked about every record that enters a table, with an entry or without; null: entries go on as they are. Not for
 * entries that the seal covers.
 *
 * One thread at a time.
 */
int32_t waxseal_provider_set_on_build(waxseal_provider_t *provider,
                                      waxseal_on_build_fn on_build);

/**
 * The function that hears of records with an entry that are left out of a table; null: none.
 *
 * One thread at a time.
 */
int32_t waxseal_provider_set_on_drop(waxseal_provider_t *provider, waxseal_on_drop_fn on_drop);

/**
 * The function that knows which entries can be; null: any can.
 *
 * One thread at a time.
 */
int32_t waxseal_provider_set_on_verify(waxseal_provider_t *provider, waxseal_on_verify_fn on_verify);

/**
 * Ends a provider; stores that were opened with it go on with it. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_provider_destroy(waxseal_provider_t *provider);

/**
 * Somebody who keeps something of their own beside values, as the provider is now: what is set later does not count. Waxseal's own are
 * always there. The open answers `WAXSEAL_INVALID` if two providers have the same number, or if one cannot be.
 *
 * One thread at a time.
 */
int32_t waxseal_options_add_provider(waxseal_options_t *options,
                                     const waxseal_provider_t *provider);

/**
 * Looks at every table, block and record, at the memtables, and at what log and manifest say, beside readers and writers. Changes no data.
 * What it finds is in the report; damage is no error of this call. Costs one read of all files past the cache. `options` may be null; of
 * them it knows families and progress.
 *
 * Thread-safe, if the options are this thread's own meanwhile. On success `*report` is the caller's, to be ended by
 * `waxseal_report_destroy`. Errors: `WAXSEAL_IO`, `WAXSEAL_CLOSED`; `WAXSEAL_INVALID` for a family that is not there.
 */
int32_t waxseal_verify(const waxseal_db_t *db,
                       const waxseal_care_options_t *options,
                       waxseal_report_t **report,
                       waxseal_error_t **error);

/**
 * `waxseal_verify` for a store that nobody has open: nothing of it is written, no log is replayed into it. One that does not open is
 * reported as damaged. `store_options` and `options` may be null.
 *
 * Thread-safe, if the options are this thread's own meanwhile. On success `*report` is the caller's, to be ended by
 * `waxseal_report_destroy`. Errors: `WAXSEAL_INVALID` if there is no store, `WAXSEAL_LOCKED` if somebody has it open, `WAXSEAL_IO`.
 */
int32_t waxseal_verify_closed(const uint8_t *path,
                              size_t path_len,
                              const waxseal_options_t *store_options,
                              const waxseal_care_options_t *options,
                              waxseal_report_t **report,
                              waxseal_error_t **error);

/**
 * `waxseal_verify`, slowly, for data that nobody reads: at a pace, in portions if asked, and from where the last one stopped. If asked it
 * mends what it finds. It runs on the caller's thread: give it one of its own. `options` may be null; of them it knows all but families,
 * those of repair only if it repairs.
 *
 * Thread-safe, if the options are this thread's own meanwhile. On success `*report` is the caller's, to be ended by
 * `waxseal_report_destroy`. Errors: as of `waxseal_verify`; with repair, as of `waxseal_repair`.
 */
int32_t waxseal_scrub(const waxseal_db_t *db,
                      const waxseal_care_options_t *options,
                      waxseal_report_t **report,
                      waxseal_error_t **error);

/**
 * Finds what is damaged and sends it up the ladder: read again, corrected by its sums and seals, made anew from what else holds it (the
 * log, replaced tables, the source). What nothing helps is told to the handler, once, and by default a fence takes its place: reads there
 * answer `WAXSEAL_CORRUPTION` for good, everything around it is served. Nothing is repaired to an older version, and nothing is guessed.
 * What was mended is durable when this answers. `options` may be null; of them it knows progress and those of repair.
 *
 * Thread-safe, if the options are this thread's own meanwhile; safe beside readers and writers. On success `*report` is the caller's,
 * to be ended by `waxseal_report_destroy`. Errors: `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`, `WAXSEAL_HALTED`.
 */
int32_t waxseal_repair(waxseal_db_t *db,
                       const waxseal_care_options_t *options,
                       waxseal_report_t **report,
                       waxseal_error_t **error);

/**
 * Reads what can still be read of the store in `from`, which may not even open, and writes it into a new store in `to`. The source is not
 * written to. A record that does not match its seal is left out; where it, or anything newer than what was found, may have stood the new
 * store is fenced, unless losses are accepted. `store_options` and `options` may be null.
 *
 * Thread-safe, if the options are this thread's own meanwhile. On success `*report` is the caller's, to be ended by
 * `waxseal_report_destroy`. Errors: `WAXSEAL_INVALID` if `to` is not new or empty, `WAXSEAL_LOCKED`, `WAXSEAL_IO`.
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
 * A count and a sum of the records of a range, as they are now or, unless `snapshot` is null, as it sees them: equal for equal content,
 * whatever the levels, files and order of commits, so that two stores compare by sixteen bytes. Every record is checked against its seal on
 * the way. Costs a scan. `range` may be null: all keys. It is no proof against somebody who chooses the content.
 *
 * Thread-safe. Errors: `WAXSEAL_CORRUPTION` where anything in the range is damaged or may have been lost, `WAXSEAL_INVALID` for a family
 * of another store than the snapshot, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_digest(const waxseal_family_t *family,
                       const waxseal_snapshot_t *snapshot,
                       const waxseal_range_t *range,
                       waxseal_digest_t *digest,
                       waxseal_error_t **error);

/**
 * New care options: defaults.
 *
 * Thread-safe. On success `*options` is the caller's, to be ended by `waxseal_care_options_destroy`. Errors: `WAXSEAL_INVALID` without a
 * place for the options.
 */
int32_t waxseal_care_options_create(waxseal_care_options_t **options,
                                    waxseal_error_t **error);

/**
 * One column family more that verify looks at; without any it looks at all.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a name that is no UTF-8; one that is not there is told by the pass.
 */
int32_t waxseal_care_options_add_family(waxseal_care_options_t *options,
                                        const uint8_t *name,
                                        size_t name_len,
                                        waxseal_error_t **error);

/**
 * Who hears of the progress of any pass, and may end it; null: nobody.
 *
 * One thread at a time.
 */
int32_t waxseal_care_options_set_progress(waxseal_care_options_t *options, waxseal_progress_fn progress, void *context);

/**
 * The pace of a scrub in bytes a second; 0: as fast as it goes, the default.
 *
 * One thread at a time.
 */
int32_t waxseal_care_options_set_bytes_per_second(waxseal_care_options_t *options, uint64_t bytes);

/**
 * After about how many bytes a scrub stops, with a place to go on from; 0: at the end, the default.
 *
 * One thread at a time.
 */
int32_t waxseal_care_options_set_most_bytes(waxseal_care_options_t *options, uint64_t bytes);

/**
 * Where a scrub goes on: what `waxseal_report_resume` said of the one before; null: from the beginning, the default.
 *
 * One thread at a time.
 */
int32_t waxseal_care_options_set_resume(waxseal_care_options_t *options, const waxseal_resume_t *place);

/**
 * Whether a scrub mends what it finds. Default false.
 *
 * One thread at a time.
 */
int32_t waxseal_care_options_set_repair(waxseal_care_options_t *options, bool repair);

/**
 * Whether a repair gives up what was lost: it lifts the fences that are there and leaves none; likewise a salvage. Default false.
 *
 * One thread at a time.
 */
int32_t waxseal_care_options_set_accept_loss(waxseal_care_options_t *options,
                                             bool accept);

/**
 * Somebody who has the records too, for a repair: a replica, a backup. Null: nobody.
 *
 * One thread at a time.
 */
int32_t waxseal_care_options_set_source(waxseal_care_options_t *options, waxseal_source_fn source, void *context);

/**
 * Who is asked by a repair about each loss that nothing helped; null: `WAXSEAL_DECISION_QUARANTINE` for all of them.
 *
 * One thread at a time.
 */
int32_t waxseal_care_options_set_handler(waxseal_care_options_t *options, waxseal_handler_fn handler, void *context);

/**
 * How often the source is asked before it counts as without an answer; 0: three times, the default.
 *
 * One thread at a time.
 */
int32_t waxseal_care_options_set_max_retries(waxseal_care_options_t *options, uint32_t retries);

/**
 * A directory of tables that compaction had replaced, where a repair looks too. Length 0: none.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a path that cannot be.
 */
int32_t waxseal_care_options_set_trash(waxseal_care_options_t *options,
                                       const uint8_t *path,
                                       size_t path_len,
                                       waxseal_error_t **error);

/**
 * Ends care options. Null is no error; options that were ended are `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_care_options_destroy(waxseal_care_options_t *options);

/**
 * The numbers of a report.
 *
 * Thread-safe.
 */
int32_t waxseal_report_counts(const waxseal_report_t *report, waxseal_counts_t *counts);

/**
 * The place of damage that was met as the one of this number, counted from 0. `WAXSEAL_NOT_FOUND` behind the last.
 *
 * Thread-safe.
 */
int32_t waxseal_report_damage(const waxseal_report_t *report, size_t at, waxseal_damage_t *damage);

/**
 * What was tried as the step of this number at a place of damage, both counted from 0: one of `WAXSEAL_RUNG_..`, and whether it helped.
 * `WAXSEAL_NOT_FOUND` behind the last.
 *
 * Thread-safe.
 */
int32_t waxseal_report_step(const waxseal_report_t *report,
                            size_t at,
                            size_t step_at,
                            int32_t *rung,
                            bool *helped);

/**
 * Where a scrub that stopped early goes on: for `waxseal_care_options_set_resume`. `WAXSEAL_NOT_FOUND` if it came to the end.
 *
 * Thread-safe.
 */
int32_t waxseal_report_resume(const waxseal_report_t *report,
                              waxseal_resume_t *place);

/**
 * The report for programs, one JSON object; empty for null and for one that was ended. Never null. Valid until the report is ended.
 *
 * Thread-safe.
 */
const char *waxseal_report_json(const waxseal_report_t *report);

/**
 * The report for people, on several lines; empty for null and for one that was ended. Never null. Valid until the report is ended.
 *
 * Thread-safe.
 */
const char *waxseal_report_text(const waxseal_report_t *report);

/**
 * Ends a report. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_report_destroy(waxseal_report_t *report);

/**
 * New export options: defaults.
 *
 * Thread-safe. On success `*options` is the caller's, to be ended by `waxseal_export_options_destroy`. Errors: `WAXSEAL_INVALID` without a
 * place for the options.
 */
int32_t waxseal_export_options_create(waxseal_export_options_t **options,
                                      waxseal_error_t **error);

/**
 * Sets the metadata that is written beside the records: one of `WAXSEAL_POLICY_..`. Default `WAXSEAL_POLICY_COMPANION` with labels.
 * A call with `WAXSEAL_POLICY_COMPANION` leaves labels out unless their provider is allowed.
 *
 * One thread at a time. A number that is no policy is told by the export.
 */
int32_t waxseal_export_options_set_policy(waxseal_export_options_t *options,
                                          int32_t policy);

/**
 * Allows one more provider whose entries are exported, with `WAXSEAL_POLICY_COMPANION` or the default policy.
 *
 * One thread at a time.
 */
int32_t waxseal_export_options_allow(waxseal_export_options_t *options, uint16_t provider);

/**
 * One range of keys more; they must ascend and not meet. Without any: all keys.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a range that cannot be.
 */
int32_t waxseal_export_options_add_range(waxseal_export_options_t *options, const waxseal_range_t *range);

/**
 * Whether every version is exported that still exists, tombstones too, and not the newest of each key alone. One whose time is over
 * leaves as a tombstone. Default false.
 *
 * One thread at a time.
 */
int32_t waxseal_export_options_set_all_versions(waxseal_export_options_t *options,
                                                bool all);

/**
 * The place in the order of commits that every record gets instead of its own; with the newest version alone. Default: its own.
 *
 * One thread at a time.
 */
int32_t waxseal_export_options_set_seqno(waxseal_export_options_t *options,
                                         uint64_t seqno);

/**
 * Ends export options. Null is no error; options that were ended are `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_export_options_destroy(waxseal_export_options_t *options);

/**
 * Writes records of a family as table files into a new directory, for another node: one of this kind, a plain one, or one that has never
 * heard of seals. Every record is checked on its way out. Costs a scan and the files; they are durable when this answers, and a directory
 * without its last file, `EXCHANGE`, is no export. `snapshot`, `options` and `exported` may be null.
 *
 * Thread-safe, if the options are this thread's own meanwhile. Errors: `WAXSEAL_INVALID` for ranges that meet or a policy that cannot carry
 * a key, which is named, before anything is written; `WAXSEAL_INVALID` for a record that expires under a policy that cannot say so, which is
 * named, and `WAXSEAL_CORRUPTION` with file and offset for a record that is not what its seal says: nothing stays of what was written;
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
 * Takes an export in: every record is checked first, all come under one new place in the order of commits, over what the keys held before. A
 * failed import has changed nothing. `imported` may be null.
 *
 * Thread-safe. Errors: `WAXSEAL_CORRUPTION` with file and offset if anything is not what the export says of itself, or a record is not what
 * its seal or row says; `WAXSEAL_INVALID` for another order of keys, without an export there, and for a record that expires where this
 * store cannot keep when (a plain one); `WAXSEAL_FORMAT_TOO_NEW`, `WAXSEAL_READ_ONLY`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_import(waxseal_family_t *family,
                       const uint8_t *directory,
                       size_t directory_len,
                       waxseal_imported_t *imported,
                       waxseal_error_t **error);

/**
 * Takes in bare table files, which nothing describes but their own properties: those of an old node. `form` is one of `WAXSEAL_FORM_..`.
 * `imported` may be null.
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
 * A session of this name, UTF-8 of 1 to 255 bytes; without a name (length 0) that of nobody in particular, in whose name everything is
 * done that is done without a session. `authenticated` says how it was found out who that is; length 0: not at all, which is somebody
 * else than the one of the same name who was. The same identity is the same session, also after a reopen. A name is taken as it is
 * given: open sessions for those only whom you know.
 *
 * Thread-safe. On success `*session` is the caller's, to be ended by `waxseal_session_destroy`. Errors: `WAXSEAL_INVALID` for a name
 * that cannot be, and in a store that was opened without its registry; as of a commit for a name that is new.
 */
int32_t waxseal_session_open(waxseal_db_t *db,
                             const uint8_t *name,
                             size_t name_len,
                             const uint8_t *authenticated,
                             size_t authenticated_len,
                             waxseal_session_t **session,
                             waxseal_error_t **error);

/**
 * The name of a session; `-` for nobody in particular.
 *
 * Thread-safe. On success `*name` is the caller's, to be ended by `waxseal_bytes_destroy`. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_session_name(const waxseal_session_t *session, waxseal_bytes_t **name, waxseal_error_t **error);

/**
 * `waxseal_family_open`, as a handle that writes in this name.
 *
 * Thread-safe. On success `*family` is the caller's, to be ended by `waxseal_family_destroy`. Errors: as of `waxseal_family_open`.
 */
int32_t waxseal_session_family_open(const waxseal_session_t *session,
                                    const uint8_t *name,
                                    size_t name_len,
                                    waxseal_family_t **family,
                                    waxseal_error_t **error);

/**
 * `waxseal_family_create`, in this name and as a handle that writes in it. `options` may be null.
 *
 * Thread-safe. On success `*family` is the caller's, to be ended by `waxseal_family_destroy`. Errors: as of `waxseal_family_create`.
 */
int32_t waxseal_session_family_create(const waxseal_session_t *session,
                                      const uint8_t *name,
                                      size_t name_len,
                                      const waxseal_family_options_t *options,
                                      waxseal_family_t **family,
                                      waxseal_error_t **error);

/**
 * `waxseal_family_drop`, in this name. The events of its rows stay, and so do registrations.
 *
 * Thread-safe. Errors: as of `waxseal_family_drop`.
 */
int32_t waxseal_session_family_drop(const waxseal_session_t *session,
                                    const uint8_t *name,
                                    size_t name_len,
                                    waxseal_error_t **error);

/**
 * An empty batch that commits in this name.
 *
 * Thread-safe. On success `*batch` is the caller's, to be ended by `waxseal_batch_destroy`. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_session_batch_create(const waxseal_session_t *session,
                                     waxseal_batch_t **batch,
                                     waxseal_error_t **error);

/**
 * How it was found out who that is. `WAXSEAL_NOT_FOUND`: not at all.
 *
 * Thread-safe. On `WAXSEAL_OK` `*how` is the caller's, to be ended by `waxseal_bytes_destroy`.
 */
int32_t waxseal_session_authenticated(const waxseal_session_t *session, waxseal_bytes_t **how, waxseal_error_t **error);

/**
 * Says that the session has ended: an event, where `Session.Close` of `engine:session` is registered, and nothing else. The handle is
 * still to be ended; what was taken from the session goes on.
 *
 * Thread-safe. Errors: as of a commit for the event.
 */
int32_t waxseal_session_close(const waxseal_session_t *session,
                              waxseal_error_t **error);

/**
 * Ends a handle to a session. Null is no error; a handle that was ended is `WAXSEAL_CLOSED`.
 *
 * Thread-safe: calls that use it meanwhile finish.
 */
int32_t waxseal_session_destroy(waxseal_session_t *session);

/**
 * Who may register, read the log, add to it and delete from it, in every store that is opened with these options; null: everybody.
 * `destroy`, unless null, ends `context` once the options and all these stores are gone, or if this call fails.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_authorizer(waxseal_options_t *options,
                                       waxseal_authorizer_fn authorizer,
                                       void *context,
                                       waxseal_destroy_fn destroy);

/**
 * Options with which everything is as it suits the pair: a family is watched with all its keys, rows are logged deferred.
 *
 * Thread-safe. On success `*options` is the caller's, to be ended by `waxseal_register_options_destroy`. Errors: `WAXSEAL_INVALID` without a
 * place for the options.
 */
int32_t waxseal_register_options_create(waxseal_register_options_t **options,
                                        waxseal_error_t **error);

/**
 * Ends options. Null is no error; those that were ended are `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_register_options_destroy(waxseal_register_options_t *options);

/**
 * Which targets are meant: `WAXSEAL_SCOPE_..`, or `WAXSEAL_SUITED`.
 *
 * One thread at a time.
 */
int32_t waxseal_register_options_set_scope(waxseal_register_options_t *options, int32_t scope);

/**
 * When log rows are written: `WAXSEAL_MODE_..`, or `WAXSEAL_SUITED`.
 *
 * One thread at a time.
 */
int32_t waxseal_register_options_set_mode(waxseal_register_options_t *options, int32_t mode);

/**
 * What they keep of values: `WAXSEAL_VALUES_..`, or `WAXSEAL_SUITED`.
 *
 * One thread at a time.
 */
int32_t waxseal_register_options_set_values(waxseal_register_options_t *options, int32_t values);

/**
 * After how many microseconds they may be dropped; `WAXSEAL_FOREVER`: never, which is the default.
 *
 * One thread at a time.
 */
int32_t waxseal_register_options_set_retention(waxseal_register_options_t *options, uint64_t micros);

/**
 * Whether old versions of what is registered move into the log instead of being dropped. Default false.
 *
 * One thread at a time.
 */
int32_t waxseal_register_options_set_history(waxseal_register_options_t *options, bool history);

/**
 * From now on an operation on a target is logged: by every commit after this call, by none before. A target is text (`users`,
 * `users.john`, `cluster:`; docs/guide.md), an operation its name (`Row.Write`, `Row.Delete`, ..), where `*` or length 0 stands for any.
 * `options` may be null. To register a pair again changes nothing but its options. Says in `is_new`, unless null, whether it is new.
 * Costs a synced commit. `waxseal_operation_warning` tells what a registration of an operation leaves out.
 *
 * Thread-safe, if the options are this thread's own meanwhile. Errors: `WAXSEAL_INVALID` for what is no target, an operation or a family
 * that is not there (a key need not be), an operation that cannot occur on the target or below it (the message says where it occurs),
 * options that do not go together, and if the session may not; `WAXSEAL_READ_ONLY`.
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
 * The pair is not logged any more; its events stay. Says in `was_there`, unless null, whether it was registered.
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
 * Says in `is_registered` whether an operation, which must be named, on a target is logged, by whatever registration.
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
 * Writes to `warning` why a registration of an operation logs less than its name promises: `Row.Insert` is logged only for puts whose
 * writer marks them. `WAXSEAL_NOT_FOUND` if it does not. The text lasts as long as the process.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` for what is no operation.
 */
int32_t waxseal_operation_warning(const waxseal_session_t *session,
                                  const uint8_t *operation,
                                  size_t operation_len,
                                  waxseal_slice_t *warning,
                                  waxseal_error_t **error);

/**
 * Defines an operation of your own, or finds it: 1 to 64 letters, digits, `_`, `-` or `.`. Its number, the same in every store, is
 * written to `number`, unless that is null.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` for a name that cannot be or means something else; as of a commit.
 */
int32_t waxseal_define_operation(const waxseal_session_t *session,
                                 const uint8_t *name,
                                 size_t name_len,
                                 uint16_t *number,
                                 waxseal_error_t **error);

/**
 * Everything that is registered, by target and operation.
 *
 * Thread-safe. On success `*registrations` is the caller's, to be ended by `waxseal_registrations_destroy`. Errors: `WAXSEAL_CLOSED`,
 * `WAXSEAL_CORRUPTION` if the registry is damaged.
 */
int32_t waxseal_registrations(const waxseal_session_t *session,
                              waxseal_registrations_t **registrations,
                              waxseal_error_t **error);

/**
 * How many registrations there are; 0 for null and for a list that was ended.
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
 * Ends a list of registrations. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_registrations_destroy(waxseal_registrations_t *registrations);

/**
 * How many events there are; 0 for null and for a list that was ended.
 *
 * Thread-safe.
 */
size_t waxseal_events_count(const waxseal_events_t *events);

/**
 * The event at a place, counted from 0. `WAXSEAL_NOT_FOUND` behind the last.
 *
 * Thread-safe.
 */
int32_t waxseal_events_get(const waxseal_events_t *events, size_t at, waxseal_event_t *event);

/**
 * A field of the event at a place, both counted from 0. `WAXSEAL_NOT_FOUND` behind the last.
 *
 * Thread-safe.
 */
int32_t waxseal_events_field(const waxseal_events_t *events, size_t at, size_t field_at, waxseal_field_t *field);

/**
 * Where the next page begins, for `waxseal_query_set_page`. `WAXSEAL_NOT_FOUND` if there is none. Valid until the list is ended.
 *
 * Thread-safe.
 */
int32_t waxseal_events_next(const waxseal_events_t *events,
                            waxseal_slice_t *after);

/**
 * Ends a list of events. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_events_destroy(waxseal_events_t *events);

/**
 * The registrations that watch a key, those that say most first, and what happened to it, oldest first. Either place may be null.
 *
 * Thread-safe. On success `*watched_by` and `*events` are the caller's, to be ended by `waxseal_registrations_destroy` and
 * `waxseal_events_destroy`. Errors: as of `waxseal_query_all`.
 */
int32_t waxseal_provenance(const waxseal_session_t *session,
                           const waxseal_family_t *family,
                           const uint8_t *key,
                           size_t key_len,
                           waxseal_registrations_t **watched_by,
                           waxseal_events_t **events,
                           waxseal_error_t **error);

/**
 * How a table file came to be: what wrote it, what that had read, and so on back, the last step first; `waxseal_event_t.back` counts the
 * steps. The file is said by its name in the store's directory or, also if it is gone, by its uid: 32 hexadecimal digits.
 *
 * Thread-safe. On success `*steps` is the caller's, to be ended by `waxseal_events_destroy`. Errors: `WAXSEAL_INVALID` for a file that is
 * not there; else as of `waxseal_query_all`.
 */
int32_t waxseal_lineage(const waxseal_session_t *session,
                        const uint8_t *file,
                        size_t file_len,
                        waxseal_events_t **steps,
                        waxseal_error_t **error);

/**
 * Everything that is known of a key: value and verdict, who wrote it and when, what happened to it, in which file it lies and how that
 * came to be. Damage is told, not an error. Costs several reads.
 *
 * Thread-safe. On success `*explanation` is the caller's, to be ended by `waxseal_explanation_destroy`. Errors: as of
 * `waxseal_query_all`.
 */
int32_t waxseal_explain(const waxseal_session_t *session,
                        const waxseal_family_t *family,
                        const uint8_t *key,
                        size_t key_len,
                        waxseal_explanation_t **explanation,
                        waxseal_error_t **error);

/**
 * What an explanation says.
 *
 * Thread-safe.
 */
int32_t waxseal_explanation_get(const waxseal_explanation_t *explanation, waxseal_explained_t *explained);

/**
 * What happened to the key, oldest first.
 *
 * Thread-safe. On success `*events` is the caller's, to be ended by `waxseal_events_destroy`.
 */
int32_t waxseal_explanation_events(const waxseal_explanation_t *explanation, waxseal_events_t **events);

/**
 * How the file came to be in which it lies, as of `waxseal_lineage`.
 *
 * Thread-safe. On success `*steps` is the caller's, to be ended by `waxseal_events_destroy`.
 */
int32_t waxseal_explanation_lineage(const waxseal_explanation_t *explanation, waxseal_events_t **steps);

/**
 * Ends an explanation. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_explanation_destroy(waxseal_explanation_t *explanation);

/**
 * All events of a target itself, of one operation or, with `*` or length 0, any, by operation and then by time. Those of what lies below
 * it are asked for by a query with `waxseal_query_set_below`. Events that were not written to the log yet are among them.
 *
 * Thread-safe. On success `*events` is the caller's, to be ended by `waxseal_events_destroy`. Errors: `WAXSEAL_INVALID` for what is no
 * target or operation, or if the session may not; `WAXSEAL_CORRUPTION` where the log is damaged.
 */
int32_t waxseal_query_all(const waxseal_session_t *session,
                          const uint8_t *target,
                          size_t target_len,
                          const uint8_t *operation,
                          size_t operation_len,
                          waxseal_events_t **events,
                          waxseal_error_t **error);

/**
 * The latest event of a target itself, of one operation or any, as a list of one. `WAXSEAL_NOT_FOUND` if there is none. Costs one seek,
 * however many events there are.
 *
 * Thread-safe. On `WAXSEAL_OK` `*events` is the caller's, to be ended by `waxseal_events_destroy`. Errors: as of `waxseal_query_all`.
 */
int32_t waxseal_query_latest(const waxseal_session_t *session,
                             const uint8_t *target,
                             size_t target_len,
                             const uint8_t *operation,
                             size_t operation_len,
                             waxseal_events_t **events,
                             waxseal_error_t **error);

/**
 * Adds an event: something happened that the store cannot know of. The operation must be named, and the pair registered. `time` is in
 * microseconds since 1970, `WAXSEAL_TIME_LAST` for now; `value` is what is to be said of it. The event's place in the order of commits is
 * written to `seqno`, unless that is null.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` if the pair is not registered, or the session may not; as of a commit.
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
 * All events of a target itself, of one operation or any, that happened from `start` to `end`, both included, in microseconds since
 * 1970; `WAXSEAL_TIME_FIRST` and `WAXSEAL_TIME_LAST` leave them open.
 *
 * Thread-safe. On success `*events` is the caller's, to be ended by `waxseal_events_destroy`. Errors: as of `waxseal_query_all`.
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
 * Deletes the events that `waxseal_log_query` would answer, and writes how many there were to `deleted`, unless that is null. Those of
 * the engine itself stay. Nothing else is ever deleted from the log.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` if the session may not; as of a commit.
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
 * A question for all events of a target itself, of one operation or, with `*` or length 0, any.
 *
 * Thread-safe. On success `*query` is the caller's, to be ended by `waxseal_query_destroy`. Errors: `WAXSEAL_INVALID` for what is no
 * UTF-8; what is no target is told when it is asked.
 */
int32_t waxseal_query_create(const uint8_t *target,
                             size_t target_len,
                             const uint8_t *operation,
                             size_t operation_len,
                             waxseal_query_t **query,
                             waxseal_error_t **error);

/**
 * Whether events of what lies below the target are asked for too. Default false.
 *
 * One thread at a time.
 */
int32_t waxseal_query_set_below(waxseal_query_t *query, bool below);

/**
 * From when to when, both included, in microseconds since 1970. Default `WAXSEAL_TIME_FIRST` to `WAXSEAL_TIME_LAST`.
 *
 * One thread at a time.
 */
int32_t waxseal_query_set_span(waxseal_query_t *query, uint64_t start, uint64_t end);

/**
 * Whose events: the name of a session; length 0, the default: everybody's.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for what is no UTF-8.
 */
int32_t waxseal_query_set_client(waxseal_query_t *query,
                                 const uint8_t *client,
                                 size_t client_len,
                                 waxseal_error_t **error);

/**
 * Which page: at most `limit` events (0: all) behind the place that `waxseal_events_next` said, of which length 0 is the beginning.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for null with a length; a place where no page ended is told when it is asked.
 */
int32_t waxseal_query_set_page(waxseal_query_t *query,
                               const uint8_t *after,
                               size_t after_len,
                               size_t limit,
                               waxseal_error_t **error);

/**
 * Asks: a page of the events, by target, operation and time. With a snapshot, events of commits that it does not see are left out.
 *
 * Thread-safe, if the query is this thread's own meanwhile. On success `*events` is the caller's, to be ended by
 * `waxseal_events_destroy`. Errors: as of `waxseal_query_all`.
 */
int32_t waxseal_query_run(const waxseal_session_t *session,
                          const waxseal_snapshot_t *snapshot,
                          const waxseal_query_t *query,
                          waxseal_events_t **events,
                          waxseal_error_t **error);

/**
 * Deletes the events that a query asks for, its page left aside: as `waxseal_log_delete`.
 *
 * Thread-safe, if the query is this thread's own meanwhile. Errors: as of `waxseal_log_delete`.
 */
int32_t waxseal_query_delete(const waxseal_session_t *session,
                             const waxseal_query_t *query,
                             uint64_t *deleted,
                             waxseal_error_t **error);

/**
 * Ends a query. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_query_destroy(waxseal_query_t *query);

/**
 * The events of all keys of a range of a family, at most `limit` of them (0: all) behind the place `after`, as of
 * `waxseal_query_set_page`. `range` may be null: all keys.
 *
 * Thread-safe. On success `*events` is the caller's, to be ended by `waxseal_events_destroy`. Errors: as of `waxseal_query_all`.
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
 * How many events of mode async may wait until they are in the log, as many as a crash may lose, and what happens to more: one of
 * `WAXSEAL_WHEN_FULL_..`. With 16 MiB of rows the ring is full as well. Default 4096, and the writer waits.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no choice; what cannot be is told by the open.
 */
int32_t waxseal_options_set_ring(waxseal_options_t *options,
                                 size_t events,
                                 int32_t when_full);

/**
 * How things stand with events of mode async.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` in a store that was opened without its registry, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_event_ring(const waxseal_db_t *db, waxseal_ring_t *ring, waxseal_error_t **error);

/**
 * Waits until every event of mode async that was taken so far is in the log.
 *
 * Thread-safe. Errors: as of a commit; `WAXSEAL_INVALID` in a store that was opened without its registry.
 */
int32_t waxseal_drain_events(waxseal_db_t *db, waxseal_error_t **error);

/**
 * The family's table files as they are now, the upper levels first. Costs no I/O.
 *
 * Thread-safe. On success `*tables` is the caller's, to be ended by `waxseal_tables_destroy`. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_tables(const waxseal_family_t *family, waxseal_tables_t **tables, waxseal_error_t **error);

/**
 * Those of them that are damaged, and that compaction leaves alone until they are repaired.
 *
 * Thread-safe. On success `*tables` is the caller's, to be ended by `waxseal_tables_destroy`. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_barred_tables(const waxseal_family_t *family, waxseal_tables_t **tables, waxseal_error_t **error);

/**
 * How many tables there are; 0 for null and for a list that was ended.
 *
 * Thread-safe.
 */
size_t waxseal_tables_count(const waxseal_tables_t *tables);

/**
 * The table at a place, counted from 0. `WAXSEAL_NOT_FOUND` behind the last.
 *
 * Thread-safe.
 */
int32_t waxseal_tables_get(const waxseal_tables_t *tables, size_t at, waxseal_table_t *table);

/**
 * Ends a list of tables. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_tables_destroy(waxseal_tables_t *tables);

/**
 * Where something was lost for good: reads between these keys answer `WAXSEAL_CORRUPTION`, until a repair lifts the fence.
 *
 * Thread-safe. On success `*fences` is the caller's, to be ended by `waxseal_fences_destroy`. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_fences(const waxseal_family_t *family,
                       waxseal_fences_t **fences,
                       waxseal_error_t **error);

/**
 * How many fences there are; 0 for null and for a list that was ended.
 *
 * Thread-safe.
 */
size_t waxseal_fences_count(const waxseal_fences_t *fences);

/**
 * The fence at a place, counted from 0. `WAXSEAL_NOT_FOUND` behind the last.
 *
 * Thread-safe.
 */
int32_t waxseal_fences_get(const waxseal_fences_t *fences, size_t at, waxseal_fence_t *fence);

/**
 * Ends a list of fences. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_fences_destroy(waxseal_fences_t *fences);

/**
 * Which tables and spans of keys are kept out of reach, and which were, by family: as it stands in `system_metadata.quarantine`.
 *
 * Thread-safe. On success `*cases` is the caller's, to be ended by `waxseal_cases_destroy`. Errors: `WAXSEAL_INVALID` in a store that was
 * opened without its registry; as of reads.
 */
int32_t waxseal_quarantined(const waxseal_db_t *db,
                            waxseal_cases_t **cases,
                            waxseal_error_t **error);

/**
 * How many cases there are; 0 for null and for a list that was ended.
 *
 * Thread-safe.
 */
size_t waxseal_cases_count(const waxseal_cases_t *cases);

/**
 * The case at a place, counted from 0. `WAXSEAL_NOT_FOUND` behind the last.
 *
 * Thread-safe.
 */
int32_t waxseal_cases_get(const waxseal_cases_t *cases, size_t at, waxseal_case_t *case_);

/**
 * A field of the case at a place, both counted from 0: how it began, the table, or the span and its bound. `WAXSEAL_NOT_FOUND` behind
 * the last. Valid until the list is ended.
 *
 * Thread-safe.
 */
int32_t waxseal_cases_field(const waxseal_cases_t *cases,
                            size_t at,
                            size_t field_at,
                            waxseal_field_t *field);

/**
 * Ends a list of cases. Null is no error; one that was ended is `WAXSEAL_CLOSED`.
 *
 * Thread-safe.
 */
int32_t waxseal_cases_destroy(waxseal_cases_t *cases);

/**
 * A scan as an Arrow C stream: batches with the columns `key` (binary), `value` (large binary), `seqno` (uint64) and `seal` (uint64, null where
 * a record has none), of which `columns` chooses by `WAXSEAL_COLUMN_..`, 0 for all. A batch has at most `batch_rows` rows (0: 65,536) and
 * ends with the row by which its keys and values reach `batch_bytes` (0: 16 MiB). `snapshot` null: as it is now; `range` null: all keys.
 *
 * Nothing of a batch points into the store: batches live until they are released, also after the store is closed. What stands in
 * `*stream` is overwritten, not released. The stream holds its view of the store until it is released. Damage is told and passed: the rows
 * before it come first, then one `get_next` fails with EIO and `get_last_error` says why, the next one goes on behind it. After any other
 * failure, that of the store's comparator among them, the stream says the same for ever.
 *
 * Thread-safe; the stream is used by one thread at a time. On success `*stream` is the caller's, to be ended by its `release`. Errors:
 * `WAXSEAL_INVALID` for columns that there are not, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
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
 * `waxseal_scan_arrow` with the columns in a chosen order: `count` of `WAXSEAL_COLUMN_..`, each at most once.
 *
 * Thread-safe; the stream is used by one thread at a time. On success `*stream` is the caller's, to be ended by its `release`. Errors: as of
 * `waxseal_scan_arrow`; `WAXSEAL_INVALID` without columns, and for one that is named twice.
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

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WAXSEAL_H */
