/* Handles that are no handles, were ended, or are of another kind; and the errors that say so. */
#include "harness.h"

static void null_handles_are_statuses(void) {
    waxseal_bytes_t *value = NULL;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_put(NULL, LIT("a"), LIT("1"), &error));
    CHECK_SAYS("null", waxseal_error_message(error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_get(NULL, NULL, LIT("a"), &value, &error));
    CHECK(value == NULL);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_sync(NULL, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_iter_next(NULL, NULL, &error));
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_options_set_cache_bytes(NULL, 1));
    CHECK(!waxseal_iter_valid(NULL));
    CHECK(waxseal_bytes_slice(NULL).data == NULL);
}

static void ending_null_is_no_error(void) {
    CHECK_OK(waxseal_close(NULL, &error));
    CHECK_OK(waxseal_family_destroy(NULL));
    CHECK_OK(waxseal_snapshot_destroy(NULL));
    CHECK_OK(waxseal_iter_destroy(NULL));
    CHECK_OK(waxseal_batch_destroy(NULL));
    CHECK_OK(waxseal_bytes_destroy(NULL));
    CHECK_OK(waxseal_values_destroy(NULL));
    CHECK_OK(waxseal_options_destroy(NULL));
    CHECK_OK(waxseal_family_options_destroy(NULL));
    CHECK_OK(waxseal_write_options_destroy(NULL));
    CHECK_OK(waxseal_error_destroy(NULL));
    CHECK(error == NULL);
}

static void ended_handles_are_closed(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_iter_t *iter = NULL;
    CHECK_OK(waxseal_iter_create(family, NULL, NULL, &iter, &error));
    CHECK_OK(waxseal_iter_destroy(iter));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_iter_first(iter, NULL, &error));
    CHECK_STATUS(WAXSEAL_CLOSED, waxseal_iter_destroy(iter));
    end_store(db, family);
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_put(family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_close(db, &error));
    CHECK_STATUS(WAXSEAL_CLOSED, waxseal_family_destroy(family));
}

/* A place that is used again has another handle: the old one does not find what is new. */
static void an_ended_handle_stays_ended(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_batch_t *first = NULL, *next = NULL;
    int i;
    CHECK_OK(waxseal_batch_create(db, &first, &error));
    CHECK_OK(waxseal_batch_destroy(first));
    for (i = 0; i < 1000; i++) {
        CHECK_OK(waxseal_batch_create(db, &next, &error));
        CHECK(next != first);
        CHECK_FAILS(WAXSEAL_CLOSED, waxseal_batch_put(first, family, LIT("a"), LIT("1"), &error));
        CHECK_NUMBER(0, waxseal_batch_count(next));
        CHECK_OK(waxseal_batch_destroy(next));
    }
    end_store(db, family);
}

static void handles_of_another_kind_are_invalid(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_put((waxseal_family_t *)db, LIT("a"), LIT("1"), &error));
    CHECK_SAYS("no column family", waxseal_error_message(error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_sync((waxseal_db_t *)family, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_sync((waxseal_db_t *)&db, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_get_into(family, (waxseal_snapshot_t *)db, LIT("a"), NULL, 0, &(size_t){0}, &error));
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_iter_destroy((waxseal_iter_t *)family));
    end_store(db, family);
}

/* Any number may come as a handle. */
static void forged_handles_are_refused(void) {
    uintptr_t kind, place, generation;
    for (kind = 0; kind < 32; kind++)
        for (place = 0; place < 3; place++)
            for (generation = 0; generation < 3; generation++) {
                uintptr_t forged = kind << 59 | generation << 28 | place << 13 | place;
                CHECK(waxseal_compact((waxseal_family_t *)forged, NULL) < 0);
                CHECK(waxseal_compact((waxseal_family_t *)~forged, NULL) < 0);
            }
}

static void many_handles_live_at_once(void) {
    enum { MANY = 5000 };
    static waxseal_write_options_t *all[MANY];
    int i;
    for (i = 0; i < MANY; i++) CHECK_OK(waxseal_write_options_create(&all[i], &error));
    CHECK_NUMBER(MANY, waxseal_live_handles());
    for (i = 0; i < MANY; i++) CHECK_OK(waxseal_write_options_destroy(all[i]));
}

static void an_error_replaces_the_one_before(void) {
    waxseal_error_t *first;
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_sync(NULL, &error));
    first = error;
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_put(NULL, LIT("a"), LIT("1"), &error));
    CHECK(error != first);
    CHECK_STATUS(WAXSEAL_CLOSED, waxseal_error_destroy(first));
    CHECK_NUMBER(1, waxseal_live_handles());
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_sync(NULL, NULL));
}

static void an_error_of_nothing_tells_nothing(void) {
    waxseal_slice_t smallest = {(const uint8_t *)"x", 1};
    uint64_t sum = 7;
    CHECK_NUMBER(WAXSEAL_OK, waxseal_error_code(NULL));
    CHECK(!*waxseal_error_message(NULL) && !*waxseal_error_file(NULL) && !*waxseal_error_family(NULL));
    CHECK_NUMBER(WAXSEAL_VERDICT_NONE, waxseal_error_verdict(NULL));
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_error_key_range(NULL, &smallest, NULL));
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_sync(NULL, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_error_key_range(error, &smallest, NULL));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_error_sums(error, &sum, NULL));
    CHECK_BYTES("x", smallest);
    CHECK_NUMBER(7, sum);
    CHECK_NUMBER(0, waxseal_error_offset(error));
    CHECK(!waxseal_error_is_out_of_space(error));
}

static void success_leaves_an_error_alone(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_error_t *before;
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_sync(NULL, &error));
    before = error;
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("1"), &error));
    CHECK(error == before);
    end_store(db, family);
}

static void the_library_says_which_it_is(void) {
    CHECK_NUMBER(WAXSEAL_ABI_VERSION, waxseal_abi_version());
    CHECK(strchr(waxseal_version(), '.') != NULL);
}

int main(void) {
    RUN(null_handles_are_statuses);
    RUN(ending_null_is_no_error);
    RUN(ended_handles_are_closed);
    RUN(an_ended_handle_stays_ended);
    RUN(handles_of_another_kind_are_invalid);
    RUN(forged_handles_are_refused);
    RUN(many_handles_live_at_once);
    RUN(an_error_replaces_the_one_before);
    RUN(an_error_of_nothing_tells_nothing);
    RUN(success_leaves_an_error_alone);
    RUN(the_library_says_which_it_is);
    return done();
}
