/* LevelDB's C interface, version 1.23, answered by Waxseal.

   A program written for LevelDB is compiled against this header, or its own copy of LevelDB's, linked with -lwaxseal_leveldb in the
   place of -lleveldb, and runs. Its files are Waxseal's: a database that LevelDB wrote is refused, and only leveldb_destroy_db changes it.

   Objects. Every leveldb_*_t* is opaque and ends by its own close, destroy or release. One that was
   ended, NULL, or one of another kind in its place is an error where the call can tell one, and otherwise nothing happens.

   Errors. A call that can fail has char** errptr as its last argument. *errptr is NULL or a malloc()ed text when it is passed. Success
   leaves it as it is; a failure frees it and puts a malloc()ed text there, which begins with the name of a status: "Corruption: ",
   "IO error: ", "Invalid argument: ", "Not implemented: ". A failed call has changed nothing, unless its text says otherwise. errptr
   itself may be NULL: then nothing is reported.

   Results. What is returned as char* (values, properties, errors, the test directory) is malloc()ed, and the caller's: free() or
   leveldb_free(). What leveldb_iter_key and leveldb_iter_value return belongs to the iterator.

   Keys and values are a pointer and a length; NULL with length 0 is an empty one. Keys of more than 65,535 bytes and values of more than
   3 GiB less one are refused before they are read. (LevelDB takes longer keys.)

   Threads. A database, its snapshots, and objects of options may be used by any number of threads at once. An iterator and a write batch
   belong to one thread at a time.

   Closing. leveldb_close ends a database also for its iterators and snapshots: they may be destroyed and released afterwards, and until
   then answer errors. Other calls that are under way are finished first or answer an error. */

#ifndef WAXSEAL_LEVELDB_C_H
#define WAXSEAL_LEVELDB_C_H
/* The guard of LevelDB's own header, so that a program that finds both gets one. */
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

/* Opens the database in the directory `name`, or makes one there if the options say so. NULL on failure. The options may be destroyed
   afterwards; a comparator, a filter policy and a cache are kept alive by the database. Fails if another process or handle has it open
   ("IO error: lock"), if it was made with a comparator of another name, and for damage of its log or manifest that cannot be mended.
   Damage of tables is met by the reads that need them. */
LEVELDB_EXPORT leveldb_t* leveldb_open(const leveldb_options_t* options, const char* name, char** errptr);

/* Closes it. What was written is durable then. Calling it again does nothing. */
LEVELDB_EXPORT void leveldb_close(leveldb_t* db);

/* Sets a key. */
LEVELDB_EXPORT void leveldb_put(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key, size_t keylen,
                                const char* val, size_t vallen, char** errptr);

/* Removes a key; it is no error if it is not there. */
LEVELDB_EXPORT void leveldb_delete(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key, size_t keylen,
                                   char** errptr);

/* Makes all writes of a batch at once, or none. The batch stays as it is and may be written again. */
LEVELDB_EXPORT void leveldb_write(leveldb_t* db, const leveldb_writeoptions_t* options, leveldb_writebatch_t* batch,
                                  char** errptr);

/* The value of a key, malloc()ed, its length in *vallen. NULL and 0 if the key is not there, without an error. */
LEVELDB_EXPORT char* leveldb_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key, size_t keylen,
                                 size_t* vallen, char** errptr);

/* An iterator over the database as it is now, or as the snapshot in the options has it. It stands nowhere until it is moved. It is never
   NULL: what cannot be iterated over is never valid, and leveldb_iter_get_error says why. */
LEVELDB_EXPORT leveldb_iterator_t* leveldb_create_iterator(leveldb_t* db, const leveldb_readoptions_t* options);

/* The database as it is now. Give it to leveldb_readoptions_set_snapshot, and release it: what it sees is kept until then. */
LEVELDB_EXPORT const leveldb_snapshot_t* leveldb_create_snapshot(leveldb_t* db);

/* Ends a snapshot. Reads with options that still name it are errors. */
LEVELDB_EXPORT void leveldb_release_snapshot(leveldb_t* db, const leveldb_snapshot_t* snapshot);

/* What the database tells of itself, malloc()ed; NULL for an unknown name. "leveldb.num-files-at-level<N>" with N from 0 to 6,
   "leveldb.stats", "leveldb.sstables", "leveldb.approximate-memory-usage", and our own "waxseal.options" (what it was opened with, a
   line `name=value` each) and "waxseal.metrics". */
LEVELDB_EXPORT char* leveldb_property_value(leveldb_t* db, const char* propname);

/* About how many bytes of files hold the keys of each range, start included, limit not. What was written lately and is in memory is not
   counted. 0 where it cannot be told. */
LEVELDB_EXPORT void leveldb_approximate_sizes(leveldb_t* db, int num_ranges, const char* const* range_start_key,
                                              const size_t* range_start_key_len, const char* const* range_limit_key,
                                              const size_t* range_limit_key_len, uint64_t* sizes);

/* Flushes, then compacts what lies between two keys, both included: nothing deleted or overwritten takes space there. NULL: from the
   first key, to the last. */
LEVELDB_EXPORT void leveldb_compact_range(leveldb_t* db, const char* start_key, size_t start_key_len,
                                          const char* limit_key, size_t limit_key_len);

/* ---- Databases that are closed ---- */

/* Removes a database, also one that LevelDB wrote. It is no error if there is none. Other files in the directory stay, and it with them. Fails if it is open. */
LEVELDB_EXPORT void leveldb_destroy_db(const leveldb_options_t* options, const char* name, char** errptr);

/* Mends a database: what is damaged is corrected, or made anew from what else holds it. Everything that is whole stays. What is lost for
   good is reported in *errptr ("Corruption: "), and the database opens nevertheless: reads of what was lost are errors from then on, and
   nothing older stands in its place. If its manifest or its log is hit, it is read file by file into a new one; the old one stays beside it, as
   `name`.damaged-N. Give the comparator that it was made with: under one, if nobody knows between which keys something was lost, as in the
   log, the new one answers with what there is, be it older. */
LEVELDB_EXPORT void leveldb_repair_db(const leveldb_options_t* options, const char* name, char** errptr);

/* ---- Iterators ---- */

/* Ends an iterator. */
LEVELDB_EXPORT void leveldb_iter_destroy(leveldb_iterator_t*);

/* 1 if it stands on a record. */
LEVELDB_EXPORT uint8_t leveldb_iter_valid(const leveldb_iterator_t*);

/* To the first record, to the last one, or to the first at or after a key. */
LEVELDB_EXPORT void leveldb_iter_seek_to_first(leveldb_iterator_t*);
LEVELDB_EXPORT void leveldb_iter_seek_to_last(leveldb_iterator_t*);
LEVELDB_EXPORT void leveldb_iter_seek(leveldb_iterator_t*, const char* k, size_t klen);

/* One record on, or back. From the last one, from the first one, and from nowhere this leads nowhere. Where damage is met, the iterator is
   not valid and leveldb_iter_get_error says so; a further step leads on behind what is damaged. */
LEVELDB_EXPORT void leveldb_iter_next(leveldb_iterator_t*);
LEVELDB_EXPORT void leveldb_iter_prev(leveldb_iterator_t*);

/* Key and value it stands on, good until it is moved or destroyed; empty texts where it stands nowhere. */
LEVELDB_EXPORT const char* leveldb_iter_key(const leveldb_iterator_t*, size_t* klen);
LEVELDB_EXPORT const char* leveldb_iter_value(const leveldb_iterator_t*, size_t* vlen);

/* The first failure that the iterator has met, if any. Ask after a loop: one that ended early did so for a reason. */
LEVELDB_EXPORT void leveldb_iter_get_error(const leveldb_iterator_t*, char** errptr);

/* ---- Write batches ---- */

LEVELDB_EXPORT leveldb_writebatch_t* leveldb_writebatch_create(void);
LEVELDB_EXPORT void leveldb_writebatch_destroy(leveldb_writebatch_t*);

/* Forgets all writes. */
LEVELDB_EXPORT void leveldb_writebatch_clear(leveldb_writebatch_t*);

/* Adds a write; later ones to one key win. What must be refused (a key too long, NULL with a length, more than 4 GiB in all) cannot be
   reported here: leveldb_write reports it and writes nothing of the batch, until it is cleared. */
LEVELDB_EXPORT void leveldb_writebatch_put(leveldb_writebatch_t*, const char* key, size_t klen, const char* val,
                                           size_t vlen);
LEVELDB_EXPORT void leveldb_writebatch_delete(leveldb_writebatch_t*, const char* key, size_t klen);

/* Shows each write, in order. The functions may use the batch; what they add to it is not shown. */
LEVELDB_EXPORT void leveldb_writebatch_iterate(const leveldb_writebatch_t*, void* state,
                                               void (*put)(void*, const char* k, size_t klen, const char* v,
                                                           size_t vlen),
                                               void (*deleted)(void*, const char* k, size_t klen));

/* Adds the writes of `source` behind those of `destination`. They may be the same. */
LEVELDB_EXPORT void leveldb_writebatch_append(leveldb_writebatch_t* destination, const leveldb_writebatch_t* source);

/* ---- Options of databases ----

   What is not set has Waxseal's default, which is mostly larger than LevelDB's. Numbers are brought within what the engine takes. */

LEVELDB_EXPORT leveldb_options_t* leveldb_options_create(void);
LEVELDB_EXPORT void leveldb_options_destroy(leveldb_options_t*);

/* The order of keys; its name is kept. Default: bytewise. Under a comparator the bloom filter is not used, since keys that it takes for
   equal may differ in their bytes; a filter policy of your own is. */
LEVELDB_EXPORT void leveldb_options_set_comparator(leveldb_options_t*, leveldb_comparator_t*);

/* Filters of tables that are written from now on. Default: the engine's own, of 10 bits a key. */
LEVELDB_EXPORT void leveldb_options_set_filter_policy(leveldb_options_t*, leveldb_filterpolicy_t*);

/* Whether a missing database is made; default 0. Whether one that is there is an error; default 0. */
LEVELDB_EXPORT void leveldb_options_set_create_if_missing(leveldb_options_t*, uint8_t);
LEVELDB_EXPORT void leveldb_options_set_error_if_exists(leveldb_options_t*, uint8_t);

/* Whether scans hold every record against its seal, not only one in 64 and every one that is loaded from a file. Point reads always do.
   Default 0. */
LEVELDB_EXPORT void leveldb_options_set_paranoid_checks(leveldb_options_t*, uint8_t);

/* Accepted; there is one environment. */
LEVELDB_EXPORT void leveldb_options_set_env(leveldb_options_t*, leveldb_env_t*);

/* Accepted and not used: nothing is logged. What happened is told by "leveldb.stats" and by the tool `waxseal`. */
LEVELDB_EXPORT void leveldb_options_set_info_log(leveldb_options_t*, leveldb_logger_t*);

/* Size at which what is in memory is written to a table, 64 KiB to 1 GiB. Default 64 MiB. Up to three times as much is in memory. */
LEVELDB_EXPORT void leveldb_options_set_write_buffer_size(leveldb_options_t*, size_t);

/* Accepted and not used: tables that were read stay open. With the default size of 64 MiB they are few. */
LEVELDB_EXPORT void leveldb_options_set_max_open_files(leveldb_options_t*, int);

/* The block cache. Databases that are given one cache share its capacity. Default: one of its own, of 256 MiB. */
LEVELDB_EXPORT void leveldb_options_set_cache(leveldb_options_t*, leveldb_cache_t*);

/* Size of a block before it is packed, 1 KiB to 1 MiB. Default 4 KiB. */
LEVELDB_EXPORT void leveldb_options_set_block_size(leveldb_options_t*, size_t);

/* Records between two whole keys of a block, 1 to 255. Default 16. */
LEVELDB_EXPORT void leveldb_options_set_block_restart_interval(leveldb_options_t*, int);

/* Size of a table, 1 MiB to 1 GiB. Default 64 MiB. */
LEVELDB_EXPORT void leveldb_options_set_max_file_size(leveldb_options_t*, size_t);

/* leveldb_snappy_compression, the default, means LZ4 here; so does 2, which is Zstandard in later versions of LevelDB. */
enum { leveldb_no_compression = 0, leveldb_snappy_compression = 1 };
LEVELDB_EXPORT void leveldb_options_set_compression(leveldb_options_t*, int);

/* ---- Comparators ----

   The functions are called by any thread, several at a time, also by those that compact. compare answers a number below, at or above 0,
   and must be a total order that never changes. name is asked once. destructor is called with `state` when the comparator was destroyed
   and no database uses it any more. */

LEVELDB_EXPORT leveldb_comparator_t* leveldb_comparator_create(void* state, void (*destructor)(void*),
                                                               int (*compare)(void*, const char* a, size_t alen,
                                                                              const char* b, size_t blen),
                                                               const char* (*name)(void*));
LEVELDB_EXPORT void leveldb_comparator_destroy(leveldb_comparator_t*);

/* ---- Filter policies ----

   As comparators. create_filter answers a malloc()ed filter for the keys, which come in their order and are some thousands at most, and
   its length; NULL: no filter. key_may_match answers 0 only if the key is none of those; a wrong 0 hides what is stored. The name is kept
   in each table: a policy is asked only of filters that one of its name has made. */

LEVELDB_EXPORT leveldb_filterpolicy_t* leveldb_filterpolicy_create(
    void* state, void (*destructor)(void*),
    char* (*create_filter)(void*, const char* const* key_array, const size_t* key_length_array, int num_keys,
                           size_t* filter_length),
    uint8_t (*key_may_match)(void*, const char* key, size_t length, const char* filter, size_t filter_length),
    const char* (*name)(void*));
LEVELDB_EXPORT void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t*);

/* The engine's own filter, 1 to 32 bits a key. */
LEVELDB_EXPORT leveldb_filterpolicy_t* leveldb_filterpolicy_create_bloom(int bits_per_key);

/* ---- Options of reads ---- */

LEVELDB_EXPORT leveldb_readoptions_t* leveldb_readoptions_create(void);
LEVELDB_EXPORT void leveldb_readoptions_destroy(leveldb_readoptions_t*);

/* Whether every record that is read, by a scan too, is held against its seal. Default 0: as the database was opened. Sums of blocks are
   checked whenever they are loaded. */
LEVELDB_EXPORT void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t*, uint8_t);

/* Whether blocks that are loaded stay in the cache. Default 1. */
LEVELDB_EXPORT void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t*, uint8_t);

/* The snapshot that is read; NULL, the default: the database as it is. */
LEVELDB_EXPORT void leveldb_readoptions_set_snapshot(leveldb_readoptions_t*, const leveldb_snapshot_t*);

/* ---- Options of writes ---- */

LEVELDB_EXPORT leveldb_writeoptions_t* leveldb_writeoptions_create(void);
LEVELDB_EXPORT void leveldb_writeoptions_destroy(leveldb_writeoptions_t*);

/* Whether the write is on the device when the call returns. Default 0: it survives the process, and a crash of the machine may take the
   last ones. */
LEVELDB_EXPORT void leveldb_writeoptions_set_sync(leveldb_writeoptions_t*, uint8_t);

/* ---- Caches ---- */

/* A block cache of so many bytes. Databases that use it keep it alive. */
LEVELDB_EXPORT leveldb_cache_t* leveldb_cache_create_lru(size_t capacity);
LEVELDB_EXPORT void leveldb_cache_destroy(leveldb_cache_t* cache);

/* ---- Environments ---- */

LEVELDB_EXPORT leveldb_env_t* leveldb_create_default_env(void);
LEVELDB_EXPORT void leveldb_env_destroy(leveldb_env_t*);

/* A directory for tests, malloc()ed: $TEST_TMPDIR, or /tmp/leveldbtest-USER. It is made if it is not there. */
LEVELDB_EXPORT char* leveldb_env_get_test_directory(leveldb_env_t*);

/* ---- The rest ---- */

/* free(), of the C library that this one was linked with. */
LEVELDB_EXPORT void leveldb_free(void* ptr);

/* The version of LevelDB whose interface this is: 1 and 23. */
LEVELDB_EXPORT int leveldb_major_version(void);
LEVELDB_EXPORT int leveldb_minor_version(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* STORAGE_LEVELDB_INCLUDE_C_H_ */
#endif /* WAXSEAL_LEVELDB_C_H */
