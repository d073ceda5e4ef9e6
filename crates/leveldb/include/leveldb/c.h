/* LevelDB's C interface, version 1.23, implemented by Waxseal.

   A program written for LevelDB is compiled with this header, or with its own copy of LevelDB's, and linked with
   -lwaxseal_leveldb instead of -lleveldb. Files have Waxseal's format: a database that LevelDB wrote is refused and
   never changed.

   Objects. Every leveldb_*_t* is opaque and has its own close, destroy or release function. NULL, a destroyed object,
   or an object of another kind is an error if the call can report one. Otherwise the call does nothing.

   Errors. A call that can fail has char** errptr as its last argument. The caller passes *errptr as NULL or as a
   malloc()ed text. Success leaves *errptr unchanged. A failure frees the text and replaces it by a malloc()ed text that
   begins with the name of a status: "Corruption: ", "IO error: ", "Invalid argument: ", "Not implemented: ". A failed
   call has changed nothing, unless its text says otherwise. If errptr itself is NULL, errors are not reported.

   Results. Every returned char* (values, properties, errors, the test directory) is malloc()ed and owned by the caller,
   who frees it with free() or leveldb_free(). The results of leveldb_iter_key and leveldb_iter_value belong to the
   iterator.

   Keys and values are a pointer and a length; NULL with length 0 is empty. Keys of more than 65,535 bytes and values of
   more than 3 GiB less one are refused before they are read. (LevelDB accepts longer keys.)

   Threads. Any number of threads may use a database, its snapshots, and option objects at once. An iterator and a write
   batch belong to one thread at a time.

   Closing. leveldb_close also closes a database for its iterators and snapshots. They may be destroyed and released
   afterwards; until then, calls with them fail. Other running calls finish or fail. */

#ifndef WAXSEAL_LEVELDB_C_H
#define WAXSEAL_LEVELDB_C_H
/* LevelDB's own include guard, so that a program that includes both headers gets one. */
#ifndef STORAGE_LEVELDB_INCLUDE_C_H_
#define STORAGE_LEVELDB_INCLUDE_C_H_

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifndef LEVELDB_EXPORT
#if defined(__GNUC__)
#define LEVELDB_EXPORT __attribute__((visibility("default")))
#else
#define LEVELDB_EXPORT
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leveldb_t leveldb_t;
typedef struct leveldb_cache_t leveldb_cache_t;
typedef struct leveldb_comparator_t leveldb_comparator_t;
typedef struct leveldb_env_t leveldb_env_t;
typedef struct leveldb_filelock_t leveldb_filelock_t;
typedef struct leveldb_filterpolicy_t leveldb_filterpolicy_t;
typedef struct leveldb_iterator_t leveldb_iterator_t;
typedef struct leveldb_logger_t leveldb_logger_t;
typedef struct leveldb_options_t leveldb_options_t;
typedef struct leveldb_randomfile_t leveldb_randomfile_t;
typedef struct leveldb_readoptions_t leveldb_readoptions_t;
typedef struct leveldb_seqfile_t leveldb_seqfile_t;
typedef struct leveldb_snapshot_t leveldb_snapshot_t;
typedef struct leveldb_writablefile_t leveldb_writablefile_t;
typedef struct leveldb_writebatch_t leveldb_writebatch_t;
typedef struct leveldb_writeoptions_t leveldb_writeoptions_t;

/* ---- Databases ---- */

/* Opens the database in the directory `name`, or creates one if the options allow it. Returns NULL on failure. The
   options may be destroyed afterwards; the database keeps its comparator, filter policy and cache alive. Fails if
   another process or handle has the database open ("IO error: lock"), if it was created with a comparator of another
   name, and for unrepairable damage of its log or manifest. Damage of tables is reported by the reads that need
   them. */
LEVELDB_EXPORT leveldb_t* leveldb_open(const leveldb_options_t* options, const char* name, char** errptr);

/* Closes a database. All its writes are then durable. A second call does nothing. */
LEVELDB_EXPORT void leveldb_close(leveldb_t* db);

/* Sets a key to a value. */
LEVELDB_EXPORT void leveldb_put(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key, size_t keylen,
                                const char* val, size_t vallen, char** errptr);

/* Deletes a key; a missing key is not an error. */
LEVELDB_EXPORT void leveldb_delete(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key, size_t keylen,
                                   char** errptr);

/* Commits all writes of a batch atomically. The batch is unchanged and may be written again. */
LEVELDB_EXPORT void leveldb_write(leveldb_t* db, const leveldb_writeoptions_t* options, leveldb_writebatch_t* batch,
                                  char** errptr);

/* Returns the value of a key, malloc()ed, and its length in *vallen. Returns NULL and 0, without an error, if the
   key does not exist. */
LEVELDB_EXPORT char* leveldb_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key, size_t keylen,
                                 size_t* vallen, char** errptr);

/* Creates an iterator over the database's current state, or over the snapshot in the options. It has no position
   until the first move. The result is never NULL: if the iterator cannot be created, the result is never valid, and
   leveldb_iter_get_error returns the reason. */
LEVELDB_EXPORT leveldb_iterator_t* leveldb_create_iterator(leveldb_t* db, const leveldb_readoptions_t* options);

/* Creates a snapshot of the current state, for leveldb_readoptions_set_snapshot. The versions that it sees take
   space until it is released. */
LEVELDB_EXPORT const leveldb_snapshot_t* leveldb_create_snapshot(leveldb_t* db);

/* Releases a snapshot. Later reads with options that name it fail. */
LEVELDB_EXPORT void leveldb_release_snapshot(leveldb_t* db, const leveldb_snapshot_t* snapshot);

/* Returns a property of the database, malloc()ed; NULL for an unknown name. Properties:
   "leveldb.num-files-at-level<N>" with N from 0 to 6, "leveldb.stats", "leveldb.sstables",
   "leveldb.approximate-memory-usage", and Waxseal's own "waxseal.options" (the options of the open, a line
   `name=value` each) and "waxseal.metrics". */
LEVELDB_EXPORT char* leveldb_property_value(leveldb_t* db, const char* propname);

/* Returns the approximate bytes of files that hold the keys of each range, start inclusive, limit exclusive.
   Memtables are not counted. The size is 0 if it cannot be computed. */
LEVELDB_EXPORT void leveldb_approximate_sizes(leveldb_t* db, int num_ranges, const char* const* range_start_key,
                                              const size_t* range_start_key_len, const char* const* range_limit_key,
                                              const size_t* range_limit_key_len, uint64_t* sizes);

/* Flushes, then compacts the keys between two keys, both inclusive, until deleted and overwritten records take no
   space there. NULL means the first or the last key. */
LEVELDB_EXPORT void leveldb_compact_range(leveldb_t* db, const char* start_key, size_t start_key_len,
                                          const char* limit_key, size_t limit_key_len);

/* ---- Databases that are closed ---- */

/* Removes a database. A missing database is not an error. Other files in the directory stay, and so does the
   directory then. Fails if the database is open, or if LevelDB or RocksDB wrote it. */
LEVELDB_EXPORT void leveldb_destroy_db(const leveldb_options_t* options, const char* name, char** errptr);

/* Repairs a database: damaged data is corrected, or rebuilt from another copy, and undamaged data is kept. *errptr
   ("Corruption: ") reports permanently lost records, but the database can be opened: reads of lost records fail and
   never return an older value. If the manifest or the log is damaged, the database is copied, file by file, to a new
   one; the old one is kept next to it, as `name`.damaged-N. Pass the comparator that the database was created with.
   With a comparator, losses at unknown keys, as in the log, cannot be marked: the new database may then return older
   values. */
LEVELDB_EXPORT void leveldb_repair_db(const leveldb_options_t* options, const char* name, char** errptr);

/* ---- Iterators ---- */

/* Destroys an iterator. */
LEVELDB_EXPORT void leveldb_iter_destroy(leveldb_iterator_t*);

/* Returns 1 if the iterator is positioned at a record. */
LEVELDB_EXPORT uint8_t leveldb_iter_valid(const leveldb_iterator_t*);

/* Moves to the first record, to the last record, or to the first record at or after a key. */
LEVELDB_EXPORT void leveldb_iter_seek_to_first(leveldb_iterator_t*);
LEVELDB_EXPORT void leveldb_iter_seek_to_last(leveldb_iterator_t*);
LEVELDB_EXPORT void leveldb_iter_seek(leveldb_iterator_t*, const char* k, size_t klen);

/* Moves to the next or the previous record. After the last record, before the first, and without a position, the
   iterator is not valid. At damaged data the iterator is not valid and leveldb_iter_get_error returns the error; the
   next move continues behind the damage. */
LEVELDB_EXPORT void leveldb_iter_next(leveldb_iterator_t*);
LEVELDB_EXPORT void leveldb_iter_prev(leveldb_iterator_t*);

/* Returns the current key or value, valid until the iterator is moved or destroyed; an empty text if the iterator is
   not valid. */
LEVELDB_EXPORT const char* leveldb_iter_key(const leveldb_iterator_t*, size_t* klen);
LEVELDB_EXPORT const char* leveldb_iter_value(const leveldb_iterator_t*, size_t* vlen);

/* Returns the iterator's first error, if any. Check it after a loop, which an error may have ended early. */
LEVELDB_EXPORT void leveldb_iter_get_error(const leveldb_iterator_t*, char** errptr);

/* ---- Write batches ---- */

LEVELDB_EXPORT leveldb_writebatch_t* leveldb_writebatch_create(void);
LEVELDB_EXPORT void leveldb_writebatch_destroy(leveldb_writebatch_t*);

/* Removes all writes. */
LEVELDB_EXPORT void leveldb_writebatch_clear(leveldb_writebatch_t*);

/* Adds a write; later writes to a key override earlier ones. A refused write (too long a key, NULL with a length,
   more than 4 GiB in total) cannot be reported here. leveldb_write then reports it and writes nothing of the batch,
   until the batch is cleared. */
LEVELDB_EXPORT void leveldb_writebatch_put(leveldb_writebatch_t*, const char* key, size_t klen, const char* val,
                                           size_t vlen);
LEVELDB_EXPORT void leveldb_writebatch_delete(leveldb_writebatch_t*, const char* key, size_t klen);

/* Calls a function for each write, in order. The functions may change the batch; writes that they add are not
   visited. */
LEVELDB_EXPORT void leveldb_writebatch_iterate(const leveldb_writebatch_t*, void* state,
                                               void (*put)(void*, const char* k, size_t klen, const char* v,
                                                           size_t vlen),
                                               void (*deleted)(void*, const char* k, size_t klen));

/* Appends the writes of `source` to `destination`. Both may be the same batch. */
LEVELDB_EXPORT void leveldb_writebatch_append(leveldb_writebatch_t* destination, const leveldb_writebatch_t* source);

/* ---- Options of databases ----

   Options that are not set have Waxseal's defaults, most of which are larger than LevelDB's. Numbers are clamped to
   the engine's limits. */

LEVELDB_EXPORT leveldb_options_t* leveldb_options_create(void);
LEVELDB_EXPORT void leveldb_options_destroy(leveldb_options_t*);

/* Sets the key order; the database records its name. Default: bytewise. With a comparator, the built-in bloom filter
   is off, since keys that compare equal may differ in their bytes. A filter policy of the application is used. */
LEVELDB_EXPORT void leveldb_options_set_comparator(leveldb_options_t*, leveldb_comparator_t*);

/* Sets the filter policy of new tables. Default: the engine's own filter with 10 bits per key. */
LEVELDB_EXPORT void leveldb_options_set_filter_policy(leveldb_options_t*, leveldb_filterpolicy_t*);

/* Whether a missing database is created; default 0. Whether an existing database is an error; default 0. */
LEVELDB_EXPORT void leveldb_options_set_create_if_missing(leveldb_options_t*, uint8_t);
LEVELDB_EXPORT void leveldb_options_set_error_if_exists(leveldb_options_t*, uint8_t);

/* Whether scans check every record against its seal. Default 0: scans check one record in 64 and all records loaded
   from a file. Point reads always check. */
LEVELDB_EXPORT void leveldb_options_set_paranoid_checks(leveldb_options_t*, uint8_t);

/* Accepted; there is only one environment. */
LEVELDB_EXPORT void leveldb_options_set_env(leveldb_options_t*, leveldb_env_t*);

/* Accepted and ignored: nothing is logged. See "leveldb.stats" and the tool `waxseal` instead. */
LEVELDB_EXPORT void leveldb_options_set_info_log(leveldb_options_t*, leveldb_logger_t*);

/* Size at which the memtable is flushed to a table, 64 KiB to 1 GiB. Default 64 MiB. Memtables take up to three
   times this size. */
LEVELDB_EXPORT void leveldb_options_set_write_buffer_size(leveldb_options_t*, size_t);

/* Accepted and ignored: tables stay open once they were read. With the default table size of 64 MiB they are few. */
LEVELDB_EXPORT void leveldb_options_set_max_open_files(leveldb_options_t*, int);

/* Sets the block cache. Databases with the same cache share its capacity. Default: a cache of its own, of 256 MiB. */
LEVELDB_EXPORT void leveldb_options_set_cache(leveldb_options_t*, leveldb_cache_t*);

/* Size of a block before compression, 1 KiB to 1 MiB. Default 4 KiB. */
LEVELDB_EXPORT void leveldb_options_set_block_size(leveldb_options_t*, size_t);

/* Records between restart points of a block, 1 to 255. Default 16. */
LEVELDB_EXPORT void leveldb_options_set_block_restart_interval(leveldb_options_t*, int);

/* Size of a table, 1 MiB to 1 GiB. Default 64 MiB. */
LEVELDB_EXPORT void leveldb_options_set_max_file_size(leveldb_options_t*, size_t);

/* leveldb_snappy_compression, the default, selects LZ4 here; so does 2, which is Zstandard in later versions of
   LevelDB. */
enum { leveldb_no_compression = 0, leveldb_snappy_compression = 1 };
LEVELDB_EXPORT void leveldb_options_set_compression(leveldb_options_t*, int);

/* ---- Comparators ----

   Any thread may call the functions, concurrently, including compaction threads. compare returns a negative number,
   0 or a positive number, and must be a total order that never changes. name is called once. destructor is called
   with `state` once the comparator is destroyed and no database uses it. */

LEVELDB_EXPORT leveldb_comparator_t* leveldb_comparator_create(void* state, void (*destructor)(void*),
                                                               int (*compare)(void*, const char* a, size_t alen,
                                                                              const char* b, size_t blen),
                                                               const char* (*name)(void*));
LEVELDB_EXPORT void leveldb_comparator_destroy(leveldb_comparator_t*);

/* ---- Filter policies ----

   Called like comparators. create_filter returns a malloc()ed filter for the keys, and its length; NULL means no
   filter. The keys are in order, and at most a few thousand. key_may_match returns 0 only if the key is not among
   them; a wrong 0 hides stored records. The name is recorded in each table: a policy is used only with filters of a
   policy with the same name. */

LEVELDB_EXPORT leveldb_filterpolicy_t* leveldb_filterpolicy_create(
    void* state, void (*destructor)(void*),
    char* (*create_filter)(void*, const char* const* key_array, const size_t* key_length_array, int num_keys,
                           size_t* filter_length),
    uint8_t (*key_may_match)(void*, const char* key, size_t length, const char* filter, size_t filter_length),
    const char* (*name)(void*));
LEVELDB_EXPORT void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t*);

/* The engine's own filter, 1 to 32 bits per key. */
LEVELDB_EXPORT leveldb_filterpolicy_t* leveldb_filterpolicy_create_bloom(int bits_per_key);

/* ---- Options of reads ---- */

LEVELDB_EXPORT leveldb_readoptions_t* leveldb_readoptions_create(void);
LEVELDB_EXPORT void leveldb_readoptions_destroy(leveldb_readoptions_t*);

/* Whether every record that is read, in scans too, is checked against its seal. Default 0: as the database was
   opened. Block checksums are always checked when blocks are loaded. */
LEVELDB_EXPORT void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t*, uint8_t);

/* Whether loaded blocks are added to the cache. Default 1. */
LEVELDB_EXPORT void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t*, uint8_t);

/* Sets the snapshot to read; NULL, the default, reads the current state. */
LEVELDB_EXPORT void leveldb_readoptions_set_snapshot(leveldb_readoptions_t*, const leveldb_snapshot_t*);

/* ---- Options of writes ---- */

LEVELDB_EXPORT leveldb_writeoptions_t* leveldb_writeoptions_create(void);
LEVELDB_EXPORT void leveldb_writeoptions_destroy(leveldb_writeoptions_t*);

/* Whether the write is on the device when the call returns. Default 0: it survives a crash of the process, but a
   crash of the machine may lose the last writes. */
LEVELDB_EXPORT void leveldb_writeoptions_set_sync(leveldb_writeoptions_t*, uint8_t);

/* ---- Caches ---- */

/* Creates a block cache with this capacity in bytes. Databases that use it keep it alive. */
LEVELDB_EXPORT leveldb_cache_t* leveldb_cache_create_lru(size_t capacity);
LEVELDB_EXPORT void leveldb_cache_destroy(leveldb_cache_t* cache);

/* ---- Environments ---- */

LEVELDB_EXPORT leveldb_env_t* leveldb_create_default_env(void);
LEVELDB_EXPORT void leveldb_env_destroy(leveldb_env_t*);

/* Returns a directory for tests, malloc()ed: $TEST_TMPDIR, or /tmp/leveldbtest-USER. It is created if missing. */
LEVELDB_EXPORT char* leveldb_env_get_test_directory(leveldb_env_t*);

/* ---- The rest ---- */

/* free() of the C library that this library is linked with. */
LEVELDB_EXPORT void leveldb_free(void* ptr);

/* The version of LevelDB whose interface this is: 1 and 23. */
LEVELDB_EXPORT int leveldb_major_version(void);
LEVELDB_EXPORT int leveldb_minor_version(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* STORAGE_LEVELDB_INCLUDE_C_H_ */
#endif /* WAXSEAL_LEVELDB_C_H */
