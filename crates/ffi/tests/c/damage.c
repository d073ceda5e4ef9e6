/* A store damaged on disk: errors with their place, and everything that is whole. */
#include <dirent.h>

#include "harness.h"

enum { RECORDS = 2000 };

static void key_of(int number, char *key) {
    sprintf(key, "key%06d", number);
}

/* A store with its records in one table, closed. */
static const char *written(void) {
    const char *path = fresh_path();
    waxseal_options_t *options = NULL;
    waxseal_db_t *db = NULL;
    waxseal_family_t *family = NULL;
    char key[16];
    int i;
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_options_set_compression(options, WAXSEAL_COMPRESSION_NONE));
    CHECK_OK(waxseal_open(STR(path), options, &db, &error));
    CHECK_OK(waxseal_family_open(db, LIT("default"), &family, &error));
    for (i = 0; i < RECORDS; i++) {
        key_of(i, key);
        CHECK_OK(waxseal_put(family, STR(key), LIT("some value of a record"), &error));
    }
    CHECK_OK(waxseal_flush(db, &error));
    end_store(db, family);
    CHECK_OK(waxseal_options_destroy(options));
    return path;
}

/* Overwrites bytes of every file whose name ends so. */
static int overwrite(const char *path, const char *end, long at, size_t count) {
    DIR *folder = opendir(path);
    struct dirent *entry;
    int hit = 0;
    while (folder && (entry = readdir(folder))) {
        size_t len = strlen(entry->d_name);
        char file[4500];
        FILE *stream;
        if (len < strlen(end) || strcmp(entry->d_name + len - strlen(end), end) != 0) continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        stream = fopen(file, "r+b");
        CHECK(stream && fseek(stream, at, SEEK_SET) == 0);
        while (stream && count--) CHECK(fputc(0xa5, stream) != EOF);
        CHECK(stream && fclose(stream) == 0);
        hit++;
    }
    if (folder) closedir(folder);
    return hit;
}

static void a_damaged_record_is_an_error_with_its_place(void) {
    const char *path = written();
    waxseal_db_t *db = NULL;
    waxseal_family_t *family = NULL;
    waxseal_slice_t smallest = {NULL, 0}, largest = {NULL, 0};
    uint8_t buffer[64];
    char key[16];
    size_t length;
    int i, whole = 0, damaged = 0;
    CHECK_NUMBER(1, overwrite(path, ".tbl", 20000, 300));
    CHECK_OK(waxseal_open(STR(path), NULL, &db, &error));
    CHECK_OK(waxseal_family_open(db, LIT("default"), &family, &error));
    for (i = 0; i < RECORDS; i++) {
        int32_t status;
        key_of(i, key);
        length = 77;
        status = waxseal_get_into(family, NULL, STR(key), buffer, sizeof buffer, &length, &error);
        if (status == WAXSEAL_OK) {
            whole++;
            CHECK(length == 22 && memcmp(buffer, "some value of a record", 22) == 0);
        } else {
            damaged++;
            CHECK_STATUS(WAXSEAL_CORRUPTION, status);
            CHECK_NUMBER(77, length);
        }
    }
    CHECK(damaged > 0 && whole > RECORDS / 2);
    CHECK_NUMBER(WAXSEAL_CORRUPTION, waxseal_error_code(error));
    CHECK_SAYS(".tbl", waxseal_error_file(error));
    CHECK_SAYS("default", waxseal_error_family(error));
    CHECK(waxseal_error_offset(error) > 10000 && waxseal_error_offset(error) < 20300);
    CHECK(waxseal_error_verdict(error) != WAXSEAL_VERDICT_NONE);
    CHECK_OK(waxseal_error_key_range(error, &smallest, &largest));
    CHECK(smallest.len >= 3 && memcmp(smallest.data, "key", 3) == 0);
    CHECK_SAYS(", family \"default\", key", waxseal_error_message(error));
    CHECK_SAYS(" \"key", waxseal_error_message(error));
    CHECK(largest.len >= 3 && memcmp(smallest.data, largest.data, smallest.len < largest.len ? smallest.len : largest.len) <= 0);
    end_store(db, family);
}

/* A scan tells of the gap once, by steps as by batches, and gives every record that is whole. */
static void a_scan_leads_on_behind_damage(void) {
    const char *path = written();
    waxseal_db_t *db = NULL;
    waxseal_family_t *family = NULL;
    waxseal_iter_t *iter = NULL;
    waxseal_row_t row;
    waxseal_rows_t rows;
    int32_t status;
    size_t stepped = 0, packed = 0;
    int gaps = 0;
    CHECK_NUMBER(1, overwrite(path, ".tbl", 20000, 300));
    CHECK_OK(waxseal_open(STR(path), NULL, &db, &error));
    CHECK_OK(waxseal_family_open(db, LIT("default"), &family, &error));
    CHECK_OK(waxseal_iter_create(family, NULL, NULL, &iter, &error));
    while ((status = waxseal_iter_next(iter, &row, &error)) != WAXSEAL_NOT_FOUND) {
        if (status == WAXSEAL_OK) stepped++;
        else if (status == WAXSEAL_CORRUPTION) gaps++;
        else break;
    }
    CHECK_STATUS(WAXSEAL_NOT_FOUND, status);
    CHECK_NUMBER(1, gaps);
    CHECK_OK(waxseal_iter_destroy(iter));
    CHECK_OK(waxseal_iter_create(family, NULL, NULL, &iter, &error));
    while ((status = waxseal_iter_next_rows(iter, 70, 1 << 20, &rows, &error)) != WAXSEAL_NOT_FOUND) {
        if (status == WAXSEAL_OK) packed += rows.count;
        else if (status == WAXSEAL_CORRUPTION) gaps++;
        else break;
    }
    CHECK_STATUS(WAXSEAL_NOT_FOUND, status);
    CHECK_NUMBER(2, gaps);
    CHECK_NUMBER(stepped, packed);
    CHECK(stepped > RECORDS / 2 && stepped < RECORDS);
    CHECK_OK(waxseal_iter_destroy(iter));
    end_store(db, family);
}

static void a_damaged_manifest_is_no_store(void) {
    const char *path = written();
    waxseal_db_t *db = NULL;
    CHECK_NUMBER(1, overwrite(path, "CURRENT", 0, 4));
    CHECK_FAILS(WAXSEAL_CORRUPTION, waxseal_open(STR(path), NULL, &db, &error));
    CHECK(db == NULL);
}

int main(void) {
    RUN(a_damaged_record_is_an_error_with_its_place);
    RUN(a_scan_leads_on_behind_damage);
    RUN(a_damaged_manifest_is_no_store);
    return done();
}
