/* Batches and snapshots: all of it or nothing, and the store as it was. */
#include "harness.h"

static void a_batch_commits_as_one(void) {
    waxseal_family_t *family, *users = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_batch_t *batch = NULL;
    int32_t durability;
    CHECK_OK(waxseal_family_open(db, LIT("users"), &users, &error));
    CHECK_OK(waxseal_put(users, LIT("old"), LIT("1"), &error));
    CHECK_OK(waxseal_batch_create(db, &batch, &error));
    for (durability = WAXSEAL_DURABILITY_DEFAULT; durability <= WAXSEAL_DURABILITY_SYNC; durability++) {
        CHECK_OK(waxseal_batch_put(batch, family, LIT("a"), LIT("1"), &error));
        CHECK_OK(waxseal_batch_put_logged_as_insert(batch, users, LIT("b"), LIT("2"), &error));
        CHECK_OK(waxseal_batch_delete(batch, users, LIT("old"), &error));
        CHECK_NUMBER(3, waxseal_batch_count(batch));
        CHECK(waxseal_batch_bytes(batch) > 0);
        CHECK_OK(waxseal_batch_commit(batch, durability, &error));
        CHECK_NUMBER(0, waxseal_batch_count(batch));
    }
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(family, NULL, LIT("a"), &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(users, NULL, LIT("b"), &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(users, NULL, LIT("old"), &error));
    CHECK_OK(waxseal_batch_commit(batch, WAXSEAL_DURABILITY_OS, &error)); /* empty */
    CHECK_OK(waxseal_batch_destroy(batch));
    CHECK_OK(waxseal_family_destroy(users));
    end_store(db, family);
}

static void a_batch_deletes_ranges(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_batch_t *batch = NULL;
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_batch_create(db, &batch, &error));
    CHECK_OK(waxseal_batch_put(batch, family, LIT("b"), LIT("1"), &error));
    CHECK_OK(waxseal_batch_delete_range(batch, family, NULL, 0, NULL, 0, &error));
    CHECK_OK(waxseal_batch_put(batch, family, LIT("c"), LIT("1"), &error));
    CHECK_OK(waxseal_batch_commit(batch, WAXSEAL_DURABILITY_OS, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("a"), &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("b"), &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(family, NULL, LIT("c"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_delete_range(batch, family, NULL, 1, NULL, 0, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_commit(batch, WAXSEAL_DURABILITY_OS, &error));
    CHECK_OK(waxseal_batch_clear(batch));
    (void)waxseal_batch_delete_range(batch, family, LIT("d"), LIT("b"), NULL);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_commit(batch, WAXSEAL_DURABILITY_OS, &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(family, NULL, LIT("c"), &error));
    CHECK_OK(waxseal_batch_destroy(batch));
    end_store(db, family);
}

static void what_is_not_committed_never_was(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_batch_t *batch = NULL;
    CHECK_OK(waxseal_batch_create(db, &batch, &error));
    CHECK_OK(waxseal_batch_put(batch, family, LIT("a"), LIT("1"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_commit(batch, 99, &error));
    CHECK_NUMBER(1, waxseal_batch_count(batch));
    CHECK_OK(waxseal_batch_clear(batch));
    CHECK_OK(waxseal_batch_put(batch, family, LIT("b"), LIT("1"), &error));
    CHECK_OK(waxseal_batch_destroy(batch));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("a"), &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("b"), &error));
    end_store(db, family);
}

static void a_refused_write_refuses_the_batch(void) {
    waxseal_family_t *family, *elsewhere;
    waxseal_db_t *db = memory_store(&family), *other = memory_store(&elsewhere);
    waxseal_batch_t *batch = NULL;
    CHECK_OK(waxseal_batch_create(db, &batch, &error));
    CHECK_OK(waxseal_batch_put(batch, family, LIT("a"), LIT("1"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_put(batch, elsewhere, LIT("b"), LIT("2"), &error));
    CHECK_SAYS("another store", waxseal_error_message(error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_commit(batch, WAXSEAL_DURABILITY_OS, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("a"), &error));
    CHECK_OK(waxseal_batch_clear(batch));
    CHECK_OK(waxseal_batch_put(batch, family, LIT("c"), LIT("3"), &error));
    CHECK_OK(waxseal_batch_commit(batch, WAXSEAL_DURABILITY_OS, &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(family, NULL, LIT("c"), &error));
    CHECK_OK(waxseal_batch_destroy(batch));
    end_store(other, elsewhere);
    end_store(db, family);
}

/* What the boundary refuses counts as refused, too: half a batch is never committed. */
static void a_wrong_length_refuses_the_batch(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_batch_t *batch = NULL;
    CHECK_OK(waxseal_batch_create(db, &batch, &error));
    CHECK_OK(waxseal_batch_put(batch, family, LIT("a"), LIT("1"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_put(batch, family, NULL, 9, LIT("2"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_commit(batch, WAXSEAL_DURABILITY_OS, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_put(batch, family, LIT("b"), LIT("1"), &error));
    CHECK_OK(waxseal_batch_clear(batch));
    CHECK_OK(waxseal_batch_put(batch, family, LIT("b"), LIT("1"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_delete(batch, NULL, LIT("b"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_commit(batch, WAXSEAL_DURABILITY_OS, &error));
    CHECK_OK(waxseal_batch_destroy(batch));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("a"), &error));
    end_store(db, family);
}

static void a_snapshot_sees_what_was(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_snapshot_t *snapshot = NULL, *durable = NULL;
    waxseal_bytes_t *value = NULL;
    waxseal_values_t *values = NULL;
    waxseal_slice_t key = {LIT("a")}, found;
    waxseal_iter_t *iter = NULL;
    waxseal_row_t row;
    uint64_t seqno = 0, later = 0;
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("before"), &error));
    CHECK_OK(waxseal_snapshot_create(db, &snapshot, &error));
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("after"), &error));
    CHECK_OK(waxseal_put(family, LIT("b"), LIT("after"), &error));
    CHECK_OK(waxseal_sync(db, &error));
    CHECK_OK(waxseal_snapshot_create_durable(db, &durable, &error));
    CHECK_OK(waxseal_get(family, snapshot, LIT("a"), &value, &error));
    CHECK_BYTES("before", waxseal_bytes_slice(value));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, snapshot, LIT("b"), &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(family, durable, LIT("b"), &error));
    CHECK_OK(waxseal_multi_get(family, snapshot, &key, 1, &values, &error));
    CHECK_OK(waxseal_values_at(values, 0, &found));
    CHECK_BYTES("before", found);
    CHECK_OK(waxseal_snapshot_seqno(snapshot, &seqno, &error));
    CHECK_OK(waxseal_snapshot_seqno(durable, &later, &error));
    CHECK(seqno < later);
    CHECK_OK(waxseal_iter_create(family, snapshot, NULL, &iter, &error));
    CHECK_OK(waxseal_snapshot_destroy(snapshot));
    CHECK_OK(waxseal_iter_next(iter, &row, &error)); /* goes on without its snapshot */
    CHECK_BYTES("before", row.value);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_iter_next(iter, &row, &error));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_contains(family, snapshot, LIT("a"), &error));
    CHECK_OK(waxseal_iter_destroy(iter));
    CHECK_OK(waxseal_values_destroy(values));
    CHECK_OK(waxseal_bytes_destroy(value));
    CHECK_OK(waxseal_snapshot_destroy(durable));
    end_store(db, family);
}

static void a_snapshot_is_of_one_store(void) {
    waxseal_family_t *family, *elsewhere;
    waxseal_db_t *db = memory_store(&family), *other = memory_store(&elsewhere);
    waxseal_snapshot_t *snapshot = NULL;
    waxseal_iter_t *iter = NULL;
    CHECK_OK(waxseal_snapshot_create(db, &snapshot, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_contains(elsewhere, snapshot, LIT("a"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_iter_create(elsewhere, snapshot, NULL, &iter, &error));
    CHECK(iter == NULL);
    CHECK_OK(waxseal_snapshot_destroy(snapshot));
    end_store(other, elsewhere);
    end_store(db, family);
}

int main(void) {
    RUN(a_batch_commits_as_one);
    RUN(a_batch_deletes_ranges);
    RUN(what_is_not_committed_never_was);
    RUN(a_refused_write_refuses_the_batch);
    RUN(a_wrong_length_refuses_the_batch);
    RUN(a_snapshot_sees_what_was);
    RUN(a_snapshot_is_of_one_store);
    return done();
}
