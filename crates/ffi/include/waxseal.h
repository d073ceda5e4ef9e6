/* Waxseal: an embeddable storage engine that never gives a wrong answer, never hides a loss, and is fast.
 *
 * Made from crates/ffi/src by `cargo xtask header`: do not edit.
 *
 * STATUS. Every fallible function answers one: WAXSEAL_OK (0); a positive one that is an answer and no failure
 * (WAXSEAL_NOT_FOUND, WAXSEAL_TOO_SMALL); a negative one for a failure. Its last argument may be null; if it is not,
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
 * CALLBACKS are called on whatever thread needs them, and must not unwind (throw, longjmp) into the library.
 */


#ifndef WAXSEAL_H
#define WAXSEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


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
 * An open store. May be used from any thread, and is ended by `waxseal_close`.
 */
typedef struct waxseal_db_t waxseal_db_t;

/**
 * What went wrong in one call. Written by a call that failed, to be read from any thread and ended by `waxseal_error_destroy`.
 */
typedef struct waxseal_error_t waxseal_error_t;

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
 * A position in a column family as it was when the iterator was made. Used by one thread at a time, and ended by
 * `waxseal_iter_destroy`; it holds its view of the store until then.
 *
 * A new iterator stands before the first and behind the last record: `waxseal_iter_next` leads to the first, `waxseal_iter_prev` to the
 * last. Damage that it meets is one `WAXSEAL_CORRUPTION`; the next step leads on, to the first record behind what is damaged. After any
 * other error it stands nowhere, and may be moved anew.
 */
typedef struct waxseal_iter_t waxseal_iter_t;

/**
 * How a store is to be opened. Whatever is not set keeps its default; an open with a null pointer has nothing but defaults. May be
 * used for any number of opens, by one thread at a time, and is ended by `waxseal_options_destroy`, any time after.
 */
typedef struct waxseal_options_t waxseal_options_t;

/**
 * The store as it was at one moment, in all its column families. May be used from any thread, and is ended by
 * `waxseal_snapshot_destroy`; until then what it sees takes space.
 */
typedef struct waxseal_snapshot_t waxseal_snapshot_t;

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

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

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
 * New family options: defaults.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` without a place for the options.
 */
int32_t waxseal_family_options_create(waxseal_family_options_t **options, waxseal_error_t **error);

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
 * What point reads check, one of `WAXSEAL_VERIFY_..`; `one_in` counts for `WAXSEAL_VERIFY_SAMPLED` alone. Default
 * `WAXSEAL_VERIFY_ALWAYS`.
 *
 * One thread at a time. Errors: `WAXSEAL_INVALID` for a number that is no policy.
 */
int32_t waxseal_family_options_set_verify_reads(waxseal_family_options_t *options, int32_t policy, uint32_t one_in);

/**
 * What iterators check, likewise. Default `WAXSEAL_VERIFY_SAMPLED`, one in 64.
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
 * Thread-safe. Errors: `WAXSEAL_INVALID` without a place for the options.
 */
int32_t waxseal_options_create(waxseal_options_t **options, waxseal_error_t **error);

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
 * One budget for the cache and two memtables together, in bytes. Default: none.
 *
 * One thread at a time.
 */
int32_t waxseal_options_set_memory_bytes(waxseal_options_t *options, size_t bytes);

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
 * What iterators check, likewise. Default `WAXSEAL_VERIFY_SAMPLED`, one in 64.
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
 * New write options: defaults.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` without a place for the options.
 */
int32_t waxseal_write_options_create(waxseal_write_options_t **options, waxseal_error_t **error);

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
 * Says that the key was not there: the log calls the write an insert. The store does not look whether it is true.
 *
 * One thread at a time.
 */
int32_t waxseal_write_options_set_insert(waxseal_write_options_t *options);

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
 * Thread-safe: calls that run meanwhile finish or answer `WAXSEAL_CLOSED`; of two threads that close one store the second is told
 * `WAXSEAL_CLOSED`. Errors: `WAXSEAL_IO`, `WAXSEAL_HALTED` if something could not be made durable.
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
 * Flushes, then waits until no compaction is due.
 *
 * Thread-safe. Errors: as of `waxseal_flush`.
 */
int32_t waxseal_settle(waxseal_db_t *db, waxseal_error_t **error);

/**
 * A copy of the store as it is now in a new directory, which a crash leaves whole or not at all. Tables are shared by hard links
 * where the file system has them.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` if the directory is there, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_checkpoint(waxseal_db_t *db,
                           const uint8_t *path,
                           size_t path_len,
                           waxseal_error_t **error);

/**
 * Catches up with the process that writes; for stores opened by `waxseal_open_read_only`.
 *
 * Thread-safe. Errors: `WAXSEAL_INVALID` for other stores, `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_refresh(waxseal_db_t *db, waxseal_error_t **error);

/**
 * `WAXSEAL_OK` if the store was opened for reading alone, `WAXSEAL_NOT_FOUND` if it may be written.
 *
 * Thread-safe.
 */
int32_t waxseal_is_read_only(const waxseal_db_t *db, waxseal_error_t **error);

/**
 * Counters and sizes, as text for people.
 *
 * Thread-safe. On success `*text` is the caller's, to be ended by `waxseal_bytes_destroy`. Errors: `WAXSEAL_CLOSED`.
 */
int32_t waxseal_metrics_text(const waxseal_db_t *db, waxseal_bytes_t **text, waxseal_error_t **error);

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
 * Makes a column family with options of its own. `options` may be null.
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
 * Rewrites the tables of the whole family until nothing that is deleted or overwritten takes space.
 *
 * Thread-safe. Errors: `WAXSEAL_CORRUPTION`, `WAXSEAL_IO`, `WAXSEAL_HALTED`, `WAXSEAL_READ_ONLY`, `WAXSEAL_CLOSED`.
 */
int32_t waxseal_compact(waxseal_family_t *family, waxseal_error_t **error);

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
 * Adds: sets a key that was not there to a value. The log calls it an insert; the store does not look whether it is true.
 *
 * One thread at a time. Errors: as of `waxseal_batch_put`.
 */
int32_t waxseal_batch_insert(waxseal_batch_t *batch,
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
 * `WAXSEAL_NOT_FOUND` if there is no row. Damage ends a batch: it is told by the next call, and the one after that leads on behind it.
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

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WAXSEAL_H */
