/* Scans as Arrow C streams: what is in the columns, who releases what, and what damage does. */
#include <errno.h>

#include "damage.h"

#define EVERYTHING NULL, 0, 0, 0

/* The bytes of a row of a binary column; large ones have wide offsets. */
static waxseal_slice_t cell(const struct ArrowArray *column, int64_t row, int is_large) {
    waxseal_slice_t slice;
    int64_t from, to;
    if (is_large) {
        from = ((const int64_t *)column->buffers[1])[row];
        to = ((const int64_t *)column->buffers[1])[row + 1];
    } else {
        from = ((const int32_t *)column->buffers[1])[row];
        to = ((const int32_t *)column->buffers[1])[row + 1];
    }
    slice.data = (const uint8_t *)column->buffers[2] + from;
    slice.len = (size_t)(to - from);
    return slice;
}

static uint64_t number(const struct ArrowArray *column, int64_t row) {
    return ((const uint64_t *)column->buffers[1])[row];
}

static void check_aligned(const struct ArrowArray *array) {
    for (int64_t at = 0; at < array->n_buffers; at++) CHECK((uintptr_t)array->buffers[at] % 64 == 0);
    for (int64_t at = 0; at < array->n_children; at++) check_aligned(array->children[at]);
}

static void fill(waxseal_family_t *family, int rows) {
    char key[16], value[32];
    for (int row = 0; row < rows; row++) {
        snprintf(key, sizeof key, "key%05d", row);
        snprintf(value, sizeof value, "value %d", row);
        CHECK_OK(waxseal_put(family, STR(key), STR(value), &error));
    }
}

static void columns_hold_what_was_written(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family);
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    waxseal_seal_t seal;
    uint64_t expected = 0;
    const char *names[] = {"key", "value", "seqno", "seal"}, *formats[] = {"z", "Z", "L", "L"};
    fill(family, 3);
    CHECK_OK(waxseal_scan_arrow(family, NULL, EVERYTHING, &stream, &error));
    CHECK_NUMBER(0, stream.get_schema(&stream, &schema));
    CHECK(strcmp(schema.format, "+s") == 0 && schema.n_children == 4);
    for (int at = 0; at < 4; at++) {
        CHECK(strcmp(schema.children[at]->name, names[at]) == 0 && strcmp(schema.children[at]->format, formats[at]) == 0);
        CHECK_NUMBER(at == 3 ? ARROW_FLAG_NULLABLE : 0, schema.children[at]->flags);
    }
    CHECK_NUMBER(0, stream.get_next(&stream, &batch));
    CHECK(batch.length == 3 && batch.null_count == 0 && batch.n_children == 4 && batch.n_buffers == 1);
    check_aligned(&batch);
    CHECK_BYTES("key00001", cell(batch.children[0], 1, 0));
    CHECK_BYTES("value 2", cell(batch.children[1], 2, 1));
    CHECK(number(batch.children[2], 1) > number(batch.children[2], 0));
    CHECK_OK(waxseal_seal_of(LIT("key00000"), LIT("value 0"), &seal, &error));
    for (int at = 7; at >= 0; at--) expected = expected << 8 | seal.bytes[at];
    CHECK(number(batch.children[3], 0) == expected);
    CHECK(batch.children[3]->null_count == 0 && batch.children[3]->buffers[0] == NULL);
    batch.release(&batch);
    CHECK(batch.release == NULL);
    CHECK_NUMBER(0, stream.get_next(&stream, &batch));
    CHECK(batch.release == NULL);
    CHECK_NUMBER(0, stream.get_next(&stream, &batch));
    CHECK(batch.release == NULL && stream.get_last_error(&stream) == NULL);
    stream.release(&stream);
    CHECK(stream.release == NULL);
    schema.release(&schema);
    CHECK(schema.release == NULL);
    end_store(db, family);
}

static void batches_end_where_they_are_told(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family);
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    waxseal_range_t range = {{WAXSEAL_EXCLUDED, (const uint8_t *)"key00009", 8}, {WAXSEAL_INCLUDED, (const uint8_t *)"key00034", 8}};
    int64_t sizes[] = {10, 10, 5};
    waxseal_snapshot_t *before = NULL;
    fill(family, 100);
    CHECK_OK(waxseal_snapshot_create(db, &before, &error));
    CHECK_OK(waxseal_delete(family, LIT("key00020"), &error));
    CHECK_OK(waxseal_scan_arrow(family, before, &range, WAXSEAL_COLUMN_KEY, 10, 0, &stream, &error));
    CHECK_OK(waxseal_snapshot_destroy(before)); /* the stream keeps what it sees */
    for (int at = 0; at < 3; at++) {
        CHECK_NUMBER(0, stream.get_next(&stream, &batch));
        CHECK_NUMBER(sizes[at], batch.length);
        CHECK_NUMBER(1, batch.n_children);
        if (at == 0) CHECK_BYTES("key00010", cell(batch.children[0], 0, 0));
        if (at == 2) CHECK_BYTES("key00034", cell(batch.children[0], 4, 0));
        batch.release(&batch);
    }
    CHECK_NUMBER(0, stream.get_next(&stream, &batch));
    CHECK(batch.release == NULL);
    stream.release(&stream);
    /* Each row reaches the bytes, so each has a batch of its own. */
    CHECK_OK(waxseal_scan_arrow(family, NULL, NULL, WAXSEAL_COLUMN_VALUE, 0, 1, &stream, &error));
    CHECK_NUMBER(0, stream.get_next(&stream, &batch));
    CHECK_NUMBER(1, batch.length);
    batch.release(&batch);
    stream.release(&stream); /* before its end */
    end_store(db, family);
}

static void children_outlive_everything(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family);
    struct ArrowArrayStream stream, moved;
    struct ArrowArray batch, values;
    fill(family, 10);
    CHECK_OK(waxseal_scan_arrow(family, NULL, EVERYTHING, &stream, &error));
    moved = stream;
    stream.release = NULL;
    CHECK_NUMBER(0, moved.get_next(&moved, &batch));
    values = *batch.children[1];
    batch.children[1]->release = NULL;
    batch.release(&batch);
    moved.release(&moved);
    end_store(db, family);
    CHECK_BYTES("value 7", cell(&values, 7, 1));
    values.release(&values);
}

static void records_without_a_seal_are_null(void) {
    char path[4096];
    waxseal_options_t *options = NULL;
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = NULL;
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    strcpy(path, fresh_path());
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_options_set_plain(options, true));
    CHECK_OK(waxseal_open(STR(path), options, &db, &error));
    CHECK_OK(waxseal_family_open(db, LIT("default"), &family, &error));
    fill(family, 9);
    end_store(db, family);
    CHECK_OK(waxseal_options_destroy(options));
    CHECK_OK(waxseal_open(STR(path), NULL, &db, &error));
    CHECK_OK(waxseal_family_open(db, LIT("default"), &family, &error));
    CHECK_OK(waxseal_put(family, LIT("key"), LIT("sealed"), &error));
    CHECK_OK(waxseal_scan_arrow(family, NULL, NULL, WAXSEAL_COLUMN_SEAL | WAXSEAL_COLUMN_KEY, 0, 0, &stream, &error));
    CHECK_NUMBER(0, stream.get_next(&stream, &batch));
    CHECK_NUMBER(10, batch.length);
    CHECK(batch.children[1]->null_count == 9 || batch.children[1]->null_count == 0);
    if (batch.children[1]->null_count) {
        const uint8_t *valid = batch.children[1]->buffers[0];
        CHECK(valid[0] == 1 && valid[1] == 0);
    }
    batch.release(&batch);
    stream.release(&stream);
    end_store(db, family);
}

static void an_empty_range_has_no_batch(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family);
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    CHECK_OK(waxseal_scan_arrow(family, NULL, EVERYTHING, &stream, &error));
    CHECK_NUMBER(0, stream.get_next(&stream, &batch));
    CHECK(batch.release == NULL);
    stream.release(&stream);
    CHECK_OK(waxseal_put(family, NULL, 0, NULL, 0, &error)); /* the empty key with the empty value */
    CHECK_OK(waxseal_scan_arrow(family, NULL, EVERYTHING, &stream, &error));
    CHECK_NUMBER(0, stream.get_next(&stream, &batch));
    CHECK_NUMBER(1, batch.length);
    CHECK_BYTES("", cell(batch.children[0], 0, 0));
    CHECK_BYTES("", cell(batch.children[1], 0, 1));
    check_aligned(&batch);
    batch.release(&batch);
    stream.release(&stream);
    end_store(db, family);
}

static void a_store_that_closes_ends_its_streams(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family);
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    fill(family, 10);
    CHECK_OK(waxseal_scan_arrow(family, NULL, NULL, 0, 1, 0, &stream, &error));
    CHECK_NUMBER(0, stream.get_next(&stream, &batch));
    batch.release(&batch);
    end_store(db, family);
    CHECK_NUMBER(EINVAL, stream.get_next(&stream, &batch));
    CHECK_SAYS("closed", stream.get_last_error(&stream));
    CHECK_NUMBER(EINVAL, stream.get_next(&stream, &batch));
    CHECK_NUMBER(EINVAL, stream.get_next(&stream, NULL));
    stream.release(&stream);
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_scan_arrow(family, NULL, EVERYTHING, &stream, &error));
}

static void damage_is_told_between_batches_and_passed(void) {
    char path[4096];
    waxseal_options_t *options = NULL;
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = NULL;
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    int64_t rows = 0;
    int gaps = 0, code;
    strcpy(path, fresh_path());
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_options_set_compression(options, WAXSEAL_COMPRESSION_NONE));
    CHECK_OK(waxseal_open(STR(path), options, &db, &error));
    CHECK_OK(waxseal_family_open(db, LIT("default"), &family, &error));
    fill(family, 3000);
    CHECK_OK(waxseal_flush(db, &error));
    end_store(db, family);
    damage_value(path, "value 1500");
    CHECK_OK(waxseal_open(STR(path), options, &db, &error));
    CHECK_OK(waxseal_options_destroy(options));
    CHECK_OK(waxseal_family_open(db, LIT("default"), &family, &error));
    CHECK_OK(waxseal_scan_arrow(family, NULL, EVERYTHING, &stream, &error));
    for (int call = 0; call < 10; call++) {
        code = stream.get_next(&stream, &batch);
        if (code != 0) {
            CHECK_NUMBER(EIO, code);
            CHECK_SAYS(".tbl", stream.get_last_error(&stream));
            gaps++;
            continue;
        }
        if (!batch.release) break;
        if (gaps == 0) CHECK_BYTES("key00000", cell(batch.children[0], 0, 0));
        if (gaps == 1) CHECK_BYTES("key02999", cell(batch.children[0], batch.length - 1, 0));
        rows += batch.length;
        batch.release(&batch);
    }
    CHECK_NUMBER(1, gaps);
    CHECK(rows >= 2000 && rows < 3000);
    stream.release(&stream);
    end_store(db, family);
}

static void what_cannot_be_is_refused(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family);
    struct ArrowArrayStream stream;
    waxseal_range_t range = {{7, NULL, 0}, {0, NULL, 0}};
    stream.release = NULL;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_scan_arrow(family, NULL, NULL, 16, 0, 0, &stream, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_scan_arrow(family, NULL, &range, 0, 0, 0, &stream, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_scan_arrow(family, NULL, EVERYTHING, NULL, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_scan_arrow(NULL, NULL, EVERYTHING, &stream, &error));
    CHECK(stream.release == NULL);
    CHECK_OK(waxseal_scan_arrow(family, NULL, NULL, 0, SIZE_MAX, SIZE_MAX, &stream, &error));
    CHECK_NUMBER(EINVAL, stream.get_schema(&stream, NULL));
    stream.release(&stream);
    end_store(db, family);
}

int main(void) {
    RUN(columns_hold_what_was_written);
    RUN(batches_end_where_they_are_told);
    RUN(children_outlive_everything);
    RUN(records_without_a_seal_are_null);
    RUN(an_empty_range_has_no_batch);
    RUN(a_store_that_closes_ends_its_streams);
    RUN(damage_is_told_between_batches_and_passed);
    RUN(what_cannot_be_is_refused);
    return done();
}
