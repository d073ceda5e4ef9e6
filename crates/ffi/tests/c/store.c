/* Stores: opened, closed, copied, removed; options. */
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static waxseal_db_t *opened(const char *path, const waxseal_options_t *options) {
    waxseal_db_t *db = NULL;
    CHECK_OK(waxseal_open(STR(path), options, &db, &error));
    return db;
}

static waxseal_family_t *users(waxseal_db_t *db) {
    waxseal_family_t *family = NULL;
    CHECK_OK(waxseal_family_open(db, LIT("users"), &family, &error));
    return family;
}

static void what_was_put_is_there_after_a_reopen(void) {
    const char *path = fresh_path();
    waxseal_bytes_t *value = NULL;
    waxseal_db_t *db = opened(path, NULL);
    waxseal_family_t *family = users(db);
    CHECK_OK(waxseal_put(family, LIT("alice"), LIT("1815"), &error));
    end_store(db, family);
    db = opened(path, NULL);
    family = users(db);
    CHECK_OK(waxseal_get(family, NULL, LIT("alice"), &value, &error));
    CHECK_BYTES("1815", waxseal_bytes_slice(value));
    CHECK_OK(waxseal_bytes_destroy(value));
    end_store(db, family);
}

/* Descriptors and mappings of this process that lead to a path. */
static int held(const char *path) {
    char link[64], target[4300], *line = NULL;
    size_t room = 0;
    int fd, count = 0;
    FILE *maps;
    for (fd = 0; fd < 1024; fd++) {
        ssize_t length;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        length = readlink(link, target, sizeof target - 1);
        if (length > 0) {
            target[length] = 0;
            count += strstr(target, path) != NULL;
        }
    }
    maps = fopen("/proc/self/maps", "r");
    while (maps && getline(&line, &room, maps) > 0) count += strstr(line, path) != NULL;
    free(line);
    if (maps) fclose(maps);
    return count;
}

static void a_closed_store_holds_no_file_for_handles_that_live_on(void) {
    const char *path = fresh_path();
    waxseal_db_t *db = opened(path, NULL);
    waxseal_family_t *family = users(db);
    waxseal_snapshot_t *snapshot = NULL;
    waxseal_iter_t *iter = NULL;
    waxseal_bytes_t *value = NULL;
    waxseal_row_t row;
    CHECK_OK(waxseal_put(family, LIT("alice"), LIT("1815"), &error));
    CHECK_OK(waxseal_put(family, LIT("bob"), LIT("1912"), &error));
    CHECK_OK(waxseal_flush(db, &error));
    CHECK_OK(waxseal_snapshot_create(db, &snapshot, &error));
    CHECK_OK(waxseal_iter_create(family, NULL, NULL, &iter, &error));
    CHECK_OK(waxseal_iter_first(iter, &row, &error));
    CHECK_OK(waxseal_get(family, NULL, LIT("bob"), &value, &error));
    CHECK(held(path) > 0);
    CHECK_OK(waxseal_close(db, &error));
    CHECK_NUMBER(0, held(path));
    CHECK_BYTES("1815", row.value); /* lent until the iterator is moved */
    CHECK_BYTES("1912", waxseal_bytes_slice(value));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_iter_next(iter, &row, &error));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_contains(family, snapshot, LIT("bob"), &error));
    CHECK_OK(waxseal_bytes_destroy(value));
    CHECK_OK(waxseal_iter_destroy(iter));
    CHECK_OK(waxseal_snapshot_destroy(snapshot));
    CHECK_OK(waxseal_family_destroy(family));
    CHECK_OK(waxseal_close(db, &error));
}

static int32_t stop(void *asked) {
    ++*(int *)asked;
    return 1;
}

static void a_thread_ends_its_own_long_call(void) {
    int asked = 0;
    waxseal_digest_t digest;
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    CHECK_OK(waxseal_put(family, LIT("alice"), LIT("1815"), &error));
    CHECK_OK(waxseal_set_interrupt(stop, &asked));
    CHECK_FAILS(WAXSEAL_INTERRUPTED, waxseal_digest(family, NULL, NULL, &digest, &error));
    CHECK_NUMBER(1, asked);
    CHECK_OK(waxseal_set_interrupt(NULL, NULL));
    CHECK_OK(waxseal_digest(family, NULL, NULL, &digest, &error));
    CHECK_NUMBER(1, asked);
    end_store(db, family);
}

static void a_store_is_opened_once(void) {
    const char *path = fresh_path();
    waxseal_db_t *db = opened(path, NULL), *second = NULL;
    CHECK_FAILS(WAXSEAL_LOCKED, waxseal_open(STR(path), NULL, &second, &error));
    CHECK(second == NULL);
    CHECK_FAILS(WAXSEAL_LOCKED, waxseal_destroy_store(STR(path), &error));
    CHECK_OK(waxseal_close(db, &error));
}

static void paths_that_cannot_be_are_refused(void) {
    waxseal_db_t *db = NULL;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_open(NULL, 0, NULL, &db, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_open(NULL, 5, NULL, &db, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_open(LIT("a\0b"), NULL, &db, &error));
    CHECK_FAILS(WAXSEAL_IO, waxseal_open(LIT("/dev/null/store"), NULL, &db, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_open(LIT("somewhere"), NULL, NULL, &error));
    CHECK(db == NULL);
}

/* Paths are bytes: they need not be text. */
static void a_path_is_bytes(void) {
    char path[4200];
    waxseal_db_t *db;
    snprintf(path, sizeof path, "%s\xff\xfe", fresh_path());
    db = opened(path, NULL);
    CHECK_OK(waxseal_close(db, &error));
    CHECK_OK(waxseal_destroy_store(STR(path), &error));
}

static void a_store_is_removed(void) {
    const char *path = fresh_path();
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_destroy_store(STR(path), &error));
    CHECK_OK(waxseal_close(opened(path, NULL), &error));
    CHECK_OK(waxseal_destroy_store(STR(path), &error));
    CHECK(access(path, F_OK) != 0);
}

static void a_format_level_is_raised(void) {
    const char *path = fresh_path();
    waxseal_options_t *options = NULL;
    waxseal_db_t *db = NULL;
    uint32_t level = 0;
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_options_set_format_level(options, 3));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_open(STR(path), options, &db, &error));
    CHECK_OK(waxseal_options_set_format_level(options, 1));
    CHECK_OK(waxseal_open(STR(path), options, &db, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_upgrade(db, 3, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_format_level(db, NULL, &error));
    CHECK_OK(waxseal_format_level(db, &level, &error));
    CHECK(level == 1);
    CHECK_OK(waxseal_upgrade(db, 2, &error));
    CHECK_OK(waxseal_format_level(db, &level, &error));
    CHECK(level == 2);
    CHECK_OK(waxseal_close(db, &error));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_upgrade(db, 2, &error));
    CHECK_OK(waxseal_options_destroy(options));
}

static void options_are_heard(void) {
    const char *path = fresh_path();
    waxseal_options_t *options = NULL;
    waxseal_db_t *db = NULL;
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_options_set_create_if_missing(options, false));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_open(STR(path), options, &db, &error));
    CHECK_SAYS("no store", waxseal_error_message(error));
    CHECK_OK(waxseal_options_set_create_if_missing(options, true));
    CHECK_OK(waxseal_options_set_cache_bytes(options, 1 << 20));
    CHECK_OK(waxseal_options_set_memtable_bytes(options, 1 << 20));
    CHECK_OK(waxseal_options_set_memory_bytes(options, 4 << 20));
    CHECK_OK(waxseal_options_set_block_bytes(options, 1024));
    CHECK_OK(waxseal_options_set_compression(options, WAXSEAL_COMPRESSION_NONE));
    CHECK_OK(waxseal_options_set_durability(options, WAXSEAL_DURABILITY_SYNC));
    CHECK_OK(waxseal_options_set_background_threads(options, 2));
    CHECK_OK(waxseal_options_set_wal_mapped(options, false));
    CHECK_OK(waxseal_options_set_registry(options, true));
    CHECK_OK(waxseal_options_set_format_level(options, 1));
    CHECK_OK(waxseal_options_set_accept_loss(options, true));
    CHECK_OK(waxseal_options_set_verify_reads(options, WAXSEAL_VERIFY_ON_FILL, 0));
    CHECK_OK(waxseal_options_set_verify_scans(options, WAXSEAL_VERIFY_SAMPLED, 10));
    CHECK_OK(waxseal_options_set_error_if_exists(options, true));
    db = opened(path, options);
    CHECK_OK(waxseal_close(db, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_open(STR(path), options, &db, &error));
    CHECK_SAYS("exists", waxseal_error_message(error));
    CHECK_OK(waxseal_options_set_error_if_exists(options, false));
    CHECK_OK(waxseal_options_set_memory_bytes(options, 1 << 20));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_open(STR(path), options, &db, &error));
    CHECK_SAYS("memory_bytes", waxseal_error_message(error));
    CHECK_OK(waxseal_options_destroy(options));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_open(STR(path), options, &db, &error));
}

/* What seldom needs to be turned is turned all the same: a log in segments of 16 KiB soon has more than one. */
static void fine_settings_are_heard(void) {
    const char *path = fresh_path();
    waxseal_options_t *options = NULL;
    waxseal_db_t *db = NULL;
    waxseal_family_t *family = NULL;
    uint64_t turnovers = 0;
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_options_set_open_tables(options, 100));
    CHECK_OK(waxseal_options_set_index_bytes(options, 1 << 20));
    CHECK_OK(waxseal_options_set_subcompactions(options, 4));
    CHECK_OK(waxseal_options_set_background_bytes_per_second(options, 1 << 30));
    CHECK_OK(waxseal_options_set_trash_bytes(options, 1 << 20));
    CHECK_OK(waxseal_options_set_segment_bytes(options, 16 << 10));
    CHECK_OK(waxseal_options_set_ring_bytes(options, 16 << 10));
    CHECK_OK(waxseal_options_set_drain_bytes(options, 4 << 10));
    CHECK_OK(waxseal_options_set_manifest_bytes(options, 64 << 10));
    CHECK_OK(waxseal_options_set_chronicle_lines(options, 10));
    CHECK_OK(waxseal_options_set_engine_events(options, 100));
    CHECK_OK(waxseal_options_set_engine_event_age(options, UINT64_MAX));
    CHECK_OK(waxseal_options_set_keep_log_bytes(options, 1 << 20));
    CHECK_OK(waxseal_options_set_keep_log_age(options, 1000000));
    CHECK_OK(waxseal_options_set_cursor_log_bytes(options, 1 << 20));
    CHECK_OK(waxseal_options_set_cursor_log_age(options, UINT64_MAX));
    db = opened(path, options);
    family = users(db);
    for (int i = 0; i < 2000; i++) CHECK_OK(waxseal_put(family, LIT("key"), LIT("a value of some bytes"), &error));
    CHECK_OK(waxseal_sync(db, &error));
    CHECK_OK(waxseal_metric(db, LIT("wal.turnovers"), &turnovers, &error));
    CHECK(turnovers > 0);
    end_store(db, family);
    CHECK_OK(waxseal_options_set_subcompactions(options, 65));
    CHECK_OK(waxseal_options_set_segment_bytes(options, 4097));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_open(STR(path), options, &db, &error));
    CHECK_SAYS("subcompactions", waxseal_error_message(error));
    CHECK_SAYS("segment_bytes", waxseal_error_message(error));
    CHECK_OK(waxseal_options_destroy(options));
}

static void options_that_cannot_be_are_refused(void) {
    waxseal_options_t *options = NULL;
    waxseal_db_t *db = NULL;
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_options_set_compression(options, 77));
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_options_set_durability(options, -1));
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_options_set_verify_reads(options, 4, 0));
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_options_set_verify_scans(options, -1, 0));
    /* Numbers are looked at by the open, all of them. */
    CHECK_OK(waxseal_options_set_background_threads(options, SIZE_MAX));
    CHECK_OK(waxseal_options_set_memtable_bytes(options, SIZE_MAX));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_open_memory(options, &db, &error));
    CHECK_SAYS("background_threads", waxseal_error_message(error));
    CHECK_SAYS("memtable_bytes", waxseal_error_message(error));
    CHECK(db == NULL);
    CHECK_OK(waxseal_options_destroy(options));
}

static void a_reader_sees_and_writes_nothing(void) {
    const char *path = fresh_path();
    waxseal_db_t *db = opened(path, NULL), *reader = NULL;
    waxseal_family_t *family = users(db), *theirs = NULL;
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_open_read_only(STR(path), NULL, &reader, &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_is_read_only(reader, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_is_read_only(db, &error));
    theirs = users(reader);
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(theirs, NULL, LIT("a"), &error));
    CHECK_FAILS(WAXSEAL_READ_ONLY, waxseal_put(theirs, LIT("b"), LIT("2"), &error));
    CHECK_OK(waxseal_put(family, LIT("b"), LIT("2"), &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(theirs, NULL, LIT("b"), &error));
    CHECK_OK(waxseal_refresh(reader, &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(theirs, NULL, LIT("b"), &error));
    end_store(reader, theirs);
    end_store(db, family);
}

static void a_checkpoint_is_a_store(void) {
    const char *path;
    char copy[4096];
    waxseal_family_t *family;
    waxseal_db_t *db;
    strcpy(copy, fresh_path());
    path = fresh_path();
    db = opened(path, NULL);
    family = users(db);
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_checkpoint(db, STR(copy), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_checkpoint(db, STR(copy), &error));
    CHECK_OK(waxseal_delete(family, LIT("a"), &error));
    end_store(db, family);
    db = opened(copy, NULL);
    family = users(db);
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(family, NULL, LIT("a"), &error));
    end_store(db, family);
}

static void background_work_pauses(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_pause_t *one = NULL, *other = NULL;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_pause_background(db, NULL, &error));
    CHECK_OK(waxseal_pause_background(db, &one, &error));
    CHECK_OK(waxseal_pause_background(db, &other, &error));
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_flush(db, &error)); /* an explicit call does its work */
    CHECK_OK(waxseal_pause_destroy(one));
    CHECK_STATUS(WAXSEAL_CLOSED, waxseal_pause_destroy(one));
    CHECK_OK(waxseal_settle(db, &error));
    CHECK_OK(waxseal_family_destroy(family));
    CHECK_OK(waxseal_close(db, &error));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_pause_background(db, &one, &error));
    CHECK_OK(waxseal_pause_destroy(other));
}

static void table_files_are_ingested(void) {
    char path[4200];
    const char *dir = fresh_path();
    waxseal_db_t *db = opened(dir, NULL);
    waxseal_family_t *family = users(db);
    waxseal_table_writer_t *writer = NULL;
    waxseal_bytes_t *value = NULL;
    waxseal_slice_t paths[1];
    uint64_t records = 0;
    snprintf(path, sizeof path, "%s.table", dir);
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("0"), &error));
    CHECK_OK(waxseal_table_writer_create(family, STR(path), &writer, &error));
    CHECK_OK(waxseal_table_writer_put(writer, NULL, LIT("a"), LIT("1"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_writer_put(writer, NULL, LIT("a"), LIT("2"), &error));
    CHECK_OK(waxseal_table_writer_delete(writer, LIT("b"), &error));
    CHECK_OK(waxseal_table_writer_finish(writer, &records, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_writer_finish(writer, NULL, &error));
    CHECK(records == 2);
    CHECK_OK(waxseal_table_writer_destroy(writer));
    CHECK_STATUS(WAXSEAL_CLOSED, waxseal_table_writer_destroy(writer));
    paths[0].data = (const uint8_t *)path;
    paths[0].len = strlen(path);
    CHECK_OK(waxseal_ingest(db, family, paths, 1, true, &records, &error));
    CHECK_FAILS(WAXSEAL_IO, waxseal_ingest(db, family, paths, 1, true, NULL, &error));
    CHECK_OK(waxseal_get(family, NULL, LIT("a"), &value, &error));
    CHECK_BYTES("1", waxseal_bytes_slice(value));
    CHECK_OK(waxseal_bytes_destroy(value));
    end_store(db, family);
}

/* Writes a table file of one record. */
static void write_file(waxseal_family_t *family, const char *path, const char *key) {
    waxseal_table_writer_t *writer = NULL;
    CHECK_OK(waxseal_table_writer_create(family, STR(path), &writer, &error));
    CHECK_OK(waxseal_table_writer_put(writer, NULL, STR(key), LIT("1"), &error));
    CHECK_OK(waxseal_table_writer_finish(writer, NULL, &error));
    CHECK_OK(waxseal_table_writer_destroy(writer));
}

static void files_of_several_families_are_ingested_in_one_commit(void) {
    const char *dir = fresh_path();
    waxseal_db_t *db = opened(dir, NULL);
    waxseal_family_t *family = users(db), *other = NULL;
    waxseal_family_file_t files[3];
    char paths[3][4200];
    uint64_t records = 0;
    int i;
    CHECK_OK(waxseal_family_open(db, LIT("other"), &other, &error));
    for (i = 0; i < 3; i++) {
        snprintf(paths[i], sizeof paths[i], "%s.%d", dir, i);
        files[i].family = i == 1 ? other : family;
        files[i].path.data = (const uint8_t *)paths[i];
        files[i].path.len = strlen(paths[i]);
        write_file(files[i].family, paths[i], i == 2 ? "b" : "a");
    }
    files[2].path.len--; /* no such file: nothing changes */
    CHECK_FAILS(WAXSEAL_IO, waxseal_ingest_families(db, files, 3, false, NULL, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(other, NULL, LIT("a"), &error));
    files[2].path.len++;
    CHECK_OK(waxseal_ingest_families(db, files, 3, true, &records, &error));
    CHECK(records == 3);
    CHECK_OK(waxseal_contains(family, NULL, LIT("a"), &error));
    CHECK_OK(waxseal_contains(family, NULL, LIT("b"), &error));
    CHECK_OK(waxseal_contains(other, NULL, LIT("a"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_ingest_families(db, NULL, 1, true, NULL, &error));
    CHECK_OK(waxseal_family_destroy(other));
    end_store(db, family);
}

static void old_records_are_erased_from_the_log(void) {
    waxseal_db_t *db = opened(fresh_path(), NULL);
    waxseal_family_t *family = users(db);
    waxseal_oldest_seqnos_t oldest;
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("secret"), &error));
    CHECK_OK(waxseal_oldest_seqnos(db, &oldest, &error));
    CHECK(oldest.memtables > 0 && oldest.memtables < WAXSEAL_NO_SEQNO && oldest.log <= oldest.memtables);
    CHECK(oldest.snapshots == WAXSEAL_NO_SEQNO && oldest.obsolete_files == WAXSEAL_NO_SEQNO);
    CHECK_OK(waxseal_erase_log(db, &error));
    CHECK_OK(waxseal_oldest_seqnos(db, &oldest, &error));
    CHECK(oldest.log == WAXSEAL_NO_SEQNO && oldest.memtables == WAXSEAL_NO_SEQNO);
    CHECK(oldest.kept_log == WAXSEAL_NO_SEQNO);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_oldest_seqnos(db, NULL, &error));
    end_store(db, family);
}

/* A source of `calls` arrays of two rows; after them the end, or an error. */
typedef struct {
    waxseal_db_t *db;
    int calls;
    bool fails;
    bool is_cut_short; /* it ends without an answer */
} row_source_t;

static int32_t next_rows(void *context, const waxseal_row_t **rows, size_t *count, waxseal_error_t **failure) {
    static const waxseal_row_t two[] = {
        {{(const uint8_t *)"b", 1}, {(const uint8_t *)"2", 1}},
        {{(const uint8_t *)"a", 1}, {(const uint8_t *)"1", 1}},
    };
    row_source_t *source = context;
    CHECK(waxseal_flush(source->db, NULL) == WAXSEAL_INVALID); /* the store is busy with this call */
    if (source->calls-- == 0) {
        if (source->fails) *failure = waxseal_error_create(WAXSEAL_IO, LIT("no more tape"));
        if (!source->is_cut_short) *count = 0;
        return source->fails ? WAXSEAL_IO : WAXSEAL_OK;
    }
    *rows = two;
    *count = 2;
    return WAXSEAL_OK;
}

static int32_t null_rows(void *context, const waxseal_row_t **rows, size_t *count, waxseal_error_t **failure) {
    (void)context, (void)rows, (void)failure;
    *count = 2;
    return WAXSEAL_OK;
}

static void rows_are_loaded_in_bulk(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    row_source_t source = {db, 2, false, false}, broken = {db, 1, true, false}, cut = {db, 1, false, true};
    waxseal_bytes_t *value = NULL;
    uint64_t records = 0;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_bulk_load(db, family, NULL, NULL, NULL, &error));
    CHECK_FAILS(WAXSEAL_CALLBACK, waxseal_bulk_load(db, family, null_rows, NULL, &records, &error));
    CHECK_FAILS(WAXSEAL_CALLBACK, waxseal_bulk_load(db, family, next_rows, &broken, &records, &error));
    CHECK_FAILS(WAXSEAL_CALLBACK, waxseal_bulk_load(db, family, next_rows, &cut, &records, &error));
    CHECK(waxseal_get(family, NULL, LIT("a"), &value, &error) == WAXSEAL_NOT_FOUND);
    CHECK_OK(waxseal_bulk_load(db, family, next_rows, &source, &records, &error));
    CHECK_NUMBER(2, records);
    CHECK_OK(waxseal_get(family, NULL, LIT("a"), &value, &error));
    CHECK_BYTES("1", waxseal_bytes_slice(value));
    CHECK_OK(waxseal_bytes_destroy(value));
    end_store(db, family);
}

static int32_t stops(void *context, const waxseal_progress_t *progress) {
    CHECK(progress->done <= progress->total);
    return ++*(int *)context;
}

static void backups_are_restored(void) {
    char path[4200], to[4200];
    const char *dir = fresh_path();
    waxseal_db_t *db = opened(dir, NULL);
    waxseal_family_t *family = users(db);
    waxseal_care_options_t *options = NULL;
    waxseal_backup_created_t first, second;
    waxseal_backups_t *backups = NULL;
    waxseal_backup_info_t info;
    waxseal_bytes_t *value = NULL;
    uint64_t removed = 0;
    int calls = 0;
    snprintf(path, sizeof path, "%s.backups", dir);
    snprintf(to, sizeof to, "%s.restored", dir);
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_care_options_create(&options, &error));
    CHECK_OK(waxseal_care_options_set_progress(options, stops, &calls));
    CHECK_OK(waxseal_care_options_set_bytes_per_second(options, 1000000000));
    CHECK_FAILS(WAXSEAL_INTERRUPTED, waxseal_backup_create(db, STR(path), options, NULL, &error));
    CHECK_NUMBER(1, calls);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_backup_list(STR(path), &backups, &error));
    CHECK_OK(waxseal_backup_create(db, STR(path), NULL, &first, &error));
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("2"), &error));
    CHECK_OK(waxseal_backup_create(db, STR(path), NULL, &second, &error));
    CHECK(first.id == 1 && second.id == 2 && second.copied_files < second.files && second.is_logged);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_backup_create(db, STR(dir), NULL, NULL, &error));
    CHECK_OK(waxseal_backup_list(STR(path), &backups, &error));
    CHECK_NUMBER(2, waxseal_backups_count(backups));
    CHECK_OK(waxseal_backups_get(backups, 0, &info));
    CHECK(info.id == 1 && info.bytes == first.bytes && info.store.len == 32 && info.error.len == 0);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_backups_get(backups, 2, &info));
    CHECK_OK(waxseal_backups_destroy(backups));
    CHECK_STATUS(WAXSEAL_CLOSED, waxseal_backups_destroy(backups));
    CHECK_OK(waxseal_backup_verify(STR(path), 1, NULL, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_backup_verify(STR(path), 3, NULL, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_backup_restore(STR(path), 1, STR(dir), NULL, &error));
    CHECK_OK(waxseal_backup_restore(STR(path), 1, STR(to), NULL, &error));
    CHECK_OK(waxseal_backup_purge(STR(path), 1, &removed, &error));
    CHECK_NUMBER(1, removed);
    CHECK_OK(waxseal_care_options_destroy(options));
    end_store(db, family);
    db = opened(to, NULL);
    family = users(db);
    CHECK_OK(waxseal_get(family, NULL, LIT("a"), &value, &error));
    CHECK_BYTES("1", waxseal_bytes_slice(value));
    CHECK_OK(waxseal_bytes_destroy(value));
    end_store(db, family);
}

static void upkeep_answers(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_bytes_t *text = NULL;
    uint64_t size = 77;
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_sync(db, &error));
    CHECK_OK(waxseal_flush(db, &error));
    CHECK_OK(waxseal_settle(db, &error));
    CHECK_OK(waxseal_compact(family, &error));
    CHECK_OK(waxseal_approximate_size(family, NULL, &size, &error));
    CHECK(size > 0 && size != 77);
    CHECK_OK(waxseal_approximate_len(family, &size, &error));
    CHECK_NUMBER(1, size);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_approximate_len(family, NULL, &error));
    CHECK_OK(waxseal_metric(db, LIT("flushes"), &size, &error));
    CHECK_NUMBER(1, size);
    CHECK_OK(waxseal_metric(db, LIT("family.default.level.0.records"), &size, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_metric(db, LIT("flush"), &size, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_metric(db, LIT("\xff"), &size, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_metric(db, LIT("flushes"), NULL, &error));
    CHECK_OK(waxseal_metrics_json(db, &text, &error));
    CHECK_SAYS("\"flushes\":1,", (const char *)waxseal_bytes_slice(text).data);
    CHECK_OK(waxseal_bytes_destroy(text));
    CHECK_OK(waxseal_metrics_text(db, &text, &error));
    CHECK_SAYS("family \"default\"", (const char *)waxseal_bytes_slice(text).data);
    CHECK_OK(waxseal_bytes_destroy(text));
    end_store(db, family);
}

static void an_open_says_what_it_found(void) {
    const char *path = fresh_path();
    waxseal_recovery_t recovery;
    waxseal_bytes_t *set_aside = NULL;
    waxseal_db_t *db = opened(path, NULL);
    memset(&recovery, 7, sizeof recovery);
    CHECK_OK(waxseal_recovery(db, &recovery, &set_aside, &error));
    CHECK_NUMBER(0, recovery.cut_bytes);
    CHECK(recovery.cut_at == UINT64_MAX);
    CHECK_NUMBER(0, recovery.acknowledged_bytes_missing);
    CHECK_NUMBER(0, recovery.may_lack_unsynced);
    CHECK_NUMBER(0, recovery.lost_values);
    CHECK_BYTES("", waxseal_bytes_slice(set_aside));
    CHECK_OK(waxseal_bytes_destroy(set_aside));
    CHECK_OK(waxseal_recovery(db, &recovery, NULL, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_recovery(db, NULL, NULL, &error));
    CHECK_OK(waxseal_close(db, &error));
}

static void a_closed_store_answers_closed(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_snapshot_t *snapshot = NULL;
    waxseal_batch_t *batch = NULL;
    waxseal_iter_t *iter = NULL;
    waxseal_row_t row;
    waxseal_bytes_t *value = NULL;
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_snapshot_create(db, &snapshot, &error));
    CHECK_OK(waxseal_batch_create(db, &batch, &error));
    CHECK_OK(waxseal_batch_put(batch, family, LIT("b"), LIT("2"), &error));
    CHECK_OK(waxseal_iter_create(family, NULL, NULL, &iter, &error));
    CHECK_OK(waxseal_iter_first(iter, &row, &error));
    CHECK_OK(waxseal_close(db, &error));
    CHECK_BYTES("a", row.key); /* lent until the iterator moves or ends, whatever becomes of the store */
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_put(family, LIT("a"), LIT("1"), &error));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_get(family, NULL, LIT("a"), &value, &error));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_get(family, snapshot, LIT("a"), &value, &error));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_batch_commit(batch, WAXSEAL_DURABILITY_DEFAULT, &error));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_iter_next(iter, &row, &error));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_snapshot_create(db, &snapshot, &error));
    CHECK(value == NULL);
    CHECK_OK(waxseal_iter_destroy(iter));
    CHECK_OK(waxseal_batch_destroy(batch));
    CHECK_OK(waxseal_snapshot_destroy(snapshot));
    CHECK_OK(waxseal_family_destroy(family));
}

static void a_forked_child_is_refused(void) {
    const char *path = fresh_path();
    waxseal_db_t *db = opened(path, NULL);
    waxseal_family_t *family = users(db);
    int status = -1;
    pid_t child;
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("1"), &error));
    child = fork();
    if (child == 0) {
        int right = waxseal_put(family, LIT("a"), LIT("2"), &error) == WAXSEAL_INVALID;
        right &= strstr(waxseal_error_message(error), "fork") != NULL;
        right &= waxseal_close(db, NULL) != WAXSEAL_OK;
        _exit(right ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_NUMBER(0, status);
    CHECK_OK(waxseal_put(family, LIT("b"), LIT("2"), &error));
    end_store(db, family);
}

int main(void) {
    RUN(what_was_put_is_there_after_a_reopen);
    RUN(a_closed_store_holds_no_file_for_handles_that_live_on);
    RUN(a_thread_ends_its_own_long_call);
    RUN(a_store_is_opened_once);
    RUN(paths_that_cannot_be_are_refused);
    RUN(a_path_is_bytes);
    RUN(a_store_is_removed);
    RUN(a_format_level_is_raised);
    RUN(options_are_heard);
    RUN(fine_settings_are_heard);
    RUN(options_that_cannot_be_are_refused);
    RUN(a_reader_sees_and_writes_nothing);
    RUN(a_checkpoint_is_a_store);
    RUN(background_work_pauses);
    RUN(table_files_are_ingested);
    RUN(files_of_several_families_are_ingested_in_one_commit);
    RUN(old_records_are_erased_from_the_log);
    RUN(rows_are_loaded_in_bulk);
    RUN(backups_are_restored);
    RUN(upkeep_answers);
    RUN(an_open_says_what_it_found);
    RUN(a_closed_store_answers_closed);
    RUN(a_forked_child_is_refused);
    return done();
}
