/* Orders of a caller's own: kept by name, asked by everybody, and failing. */
#include <errno.h>

#include "harness.h"

/* The context of a comparator: how often it was asked and ended, how often it may be asked before it fails, and how many of its next answers
 * are wrong and taken back. */
static struct {
    long asked, ended, fails_after, takes_back;
} state;

static int32_t backwards(void *context, const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len) {
    size_t shorter = a_len < b_len ? a_len : b_len;
    int order = shorter ? memcmp(a, b, shorter) : 0;
    long asked = __atomic_add_fetch(&state.asked, 1, __ATOMIC_SEQ_CST);
    CHECK(context == &state);
    if (state.fails_after && asked > state.fails_after) return WAXSEAL_COMPARE_FAILED;
    if (state.takes_back > 0) {
        state.takes_back--;
        CHECK_OK(waxseal_compare_again());
        return 0;
    }
    if (order == 0) order = (a_len > b_len) - (a_len < b_len);
    return -order;
}

static void ended(void *context) {
    CHECK(context == &state);
    __atomic_add_fetch(&state.ended, 1, __ATOMIC_SEQ_CST);
}

static void forget(void) {
    state.asked = state.ended = state.fails_after = state.takes_back = 0;
}

/* A store whose family `back` is in the order above. */
static waxseal_db_t *opened(const char *path, waxseal_family_t **back) {
    waxseal_options_t *options = NULL;
    waxseal_family_options_t *of_family = NULL;
    waxseal_db_t *db = NULL;
    CHECK_OK(waxseal_family_options_create(&of_family, &error));
    CHECK_OK(waxseal_family_options_set_comparator(of_family, LIT("test.backwards"), backwards, true, &state, ended, &error));
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_options_add_family(options, LIT("back"), of_family, &error));
    CHECK_OK(waxseal_family_options_destroy(of_family));
    CHECK_OK(waxseal_open(STR(path), options, &db, &error));
    CHECK_OK(waxseal_options_destroy(options));
    CHECK_OK(waxseal_family_open(db, LIT("back"), back, &error));
    return db;
}

static void a_family_has_an_order_of_its_own(void) {
    const char *path = fresh_path();
    waxseal_family_t *back = NULL;
    waxseal_db_t *db;
    waxseal_iter_t *iter = NULL;
    waxseal_row_t row;
    int round;
    forget();
    db = opened(path, &back);
    CHECK_OK(waxseal_put(back, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_put(back, LIT("c"), LIT("3"), &error));
    CHECK_OK(waxseal_put(back, LIT("b"), LIT("2"), &error));
    for (round = 0; round < 3; round++) { /* in memory, in a table, after a reopen */
        CHECK_OK(waxseal_iter_create(back, NULL, NULL, &iter, &error));
        CHECK_OK(waxseal_iter_next(iter, &row, &error));
        CHECK_BYTES("c", row.key);
        CHECK_OK(waxseal_iter_seek(iter, LIT("bb"), &row, &error));
        CHECK_BYTES("b", row.key);
        CHECK_OK(waxseal_iter_destroy(iter));
        CHECK_STATUS(WAXSEAL_OK, waxseal_contains(back, NULL, LIT("a"), &error));
        CHECK_FAILS(WAXSEAL_INVALID, waxseal_iter_create_prefix(back, NULL, LIT("a"), &iter, &error));
        CHECK_OK(waxseal_flush(db, &error));
        if (round == 1) {
            end_store(db, back);
            db = opened(path, &back);
        }
    }
    end_store(db, back);
    CHECK(state.asked > 0);
    CHECK_NUMBER(2, state.ended);
}

static void a_store_keeps_the_name_of_its_order(void) {
    const char *path = fresh_path();
    waxseal_family_t *back = NULL;
    waxseal_options_t *options = NULL;
    waxseal_db_t *db;
    forget();
    db = opened(path, &back);
    end_store(db, back);
    db = NULL;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_open(STR(path), NULL, &db, &error));
    CHECK_SAYS("test.backwards", waxseal_error_message(error));
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_options_add_comparator(options, LIT("test.backwards"), backwards, true, &state, ended, &error));
    CHECK_OK(waxseal_open(STR(path), options, &db, &error));
    CHECK_OK(waxseal_options_destroy(options));
    CHECK_NUMBER(1, state.ended); /* the store still needs the second one */
    CHECK_OK(waxseal_close(db, &error));
    CHECK_NUMBER(2, state.ended);
}

static void comparators_that_cannot_be_are_refused(void) {
    waxseal_options_t *options = NULL;
    waxseal_family_options_t *of_family = NULL;
    forget();
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_family_options_create(&of_family, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_options_add_comparator(options, LIT("name"), NULL, true, &state, ended, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_options_add_comparator(options, LIT("\xff"), backwards, true, &state, ended, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_options_add_comparator(NULL, LIT("name"), backwards, true, &state, ended, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_options_set_comparator(of_family, NULL, 0, backwards, true, &state, ended, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_options_add_family(options, LIT("\xff"), of_family, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_options_add_family(options, LIT("name"), (waxseal_family_options_t *)options, &error));
    CHECK_NUMBER(4, state.ended); /* each time, since the library took the context */
    CHECK_OK(waxseal_family_options_destroy(of_family));
    CHECK_OK(waxseal_options_destroy(options));
}

/* What is told after a comparator failed: that it did, by everything that was asked of its store. */
static int told(int32_t status) {
    return status == WAXSEAL_CALLBACK;
}

/* A store in which the comparator fails at some moment of its life, `after` calls from its beginning. What was acknowledged is there when
 * it is opened again, in order, and nothing wrong is said meanwhile. */
static void fails_after(long after) {
    enum { RECORDS = 60 };
    const char *path = fresh_path();
    waxseal_family_t *back = NULL;
    waxseal_db_t *db;
    waxseal_iter_t *iter = NULL;
    waxseal_rows_t rows;
    char key[16];
    int acknowledged = 0, failed = 0, i;
    int32_t status;
    forget();
    db = opened(path, &back);
    state.asked = 0;
    state.fails_after = after;
    for (i = 0; i < RECORDS; i++) {
        sprintf(key, "key%02d", (i * 37) % RECORDS);
        status = waxseal_put(back, STR(key), LIT("value"), &error);
        if (status == WAXSEAL_OK && !failed) acknowledged++;
        else failed += told(status) ? 1 : 1000;
        if (i == RECORDS / 2) {
            status = waxseal_flush(db, &error);
            if (status != WAXSEAL_OK) failed += told(status) ? 1 : 1000;
        }
    }
    status = waxseal_iter_create(back, NULL, NULL, &iter, &error);
    if (status == WAXSEAL_OK) {
        status = waxseal_iter_next_rows(iter, 1000, 1 << 20, &rows, &error);
        if (status == WAXSEAL_OK) CHECK_NUMBER(RECORDS, rows.count);
        else CHECK(told(status));
        CHECK_OK(waxseal_iter_destroy(iter));
    } else {
        CHECK(told(status));
    }
    CHECK(failed < 1000);
    if (failed) {
        CHECK_FAILS(WAXSEAL_CALLBACK, waxseal_put(back, LIT("k"), LIT("v"), &error));
        CHECK_FAILS(WAXSEAL_CALLBACK, waxseal_settle(db, &error));
        CHECK_SAYS("test.backwards", waxseal_error_message(error));
    }
    CHECK_OK(waxseal_family_destroy(back));
    waxseal_close(db, NULL); /* it may say what it could not write; the log has it */
    state.fails_after = 0;
    db = opened(path, &back);
    CHECK_OK(waxseal_iter_create(back, NULL, NULL, &iter, &error));
    CHECK_OK(waxseal_iter_next_rows(iter, 1000, 1 << 20, &rows, &error));
    CHECK((long long)rows.count >= acknowledged);
    for (i = 1; i < (int)rows.count; i++) {
        const size_t *at = rows.offsets + 2 * i;
        CHECK(memcmp(rows.data + at[-2], rows.data + at[0], 5) > 0);
    }
    CHECK_OK(waxseal_iter_destroy(iter));
    CHECK_OK(waxseal_settle(db, &error));
    end_store(db, back);
}

static void a_comparator_that_fails_loses_nothing(void) {
    long after;
    for (after = 1; after < 600; after += after < 40 ? 1 : 29) fails_after(after);
}

/* Also while the log is read at open. */
static void a_comparator_fails_an_open(void) {
    const char *path = fresh_path();
    waxseal_options_t *options = NULL;
    waxseal_family_t *back = NULL;
    waxseal_db_t *db;
    forget();
    db = opened(path, &back);
    CHECK_OK(waxseal_put(back, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_put(back, LIT("b"), LIT("2"), &error));
    end_store(db, back);
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_options_add_comparator(options, LIT("test.backwards"), backwards, true, &state, ended, &error));
    state.asked = 0;
    state.fails_after = -1;
    db = NULL;
    CHECK_FAILS(WAXSEAL_CALLBACK, waxseal_open(STR(path), options, &db, &error));
    CHECK(db == NULL);
    state.fails_after = 0;
    CHECK_OK(waxseal_open(STR(path), options, &db, &error));
    CHECK_OK(waxseal_options_destroy(options));
    CHECK_OK(waxseal_family_open(db, LIT("back"), &back, &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(back, NULL, LIT("a"), &error));
    end_store(db, back);
}

/* A scan never ends as if all had been read, whichever of its first comparisons fails. */
static void a_comparator_that_fails_fails_streams(void) {
    enum { RECORDS = 60 };
    long after;
    for (after = 0; after < 8; after++) {
        waxseal_family_t *back = NULL;
        waxseal_db_t *db;
        waxseal_range_t range;
        struct ArrowArrayStream stream;
        struct ArrowArray batch;
        char key[16];
        int i, was_told = 0;
        forget();
        db = opened(fresh_path(), &back);
        for (i = 0; i < RECORDS; i++) {
            sprintf(key, "key%02d", i);
            CHECK_OK(waxseal_put(back, STR(key), LIT("value"), &error));
            if (i == RECORDS / 2) CHECK_OK(waxseal_flush(db, &error));
        }
        memset(&range, 0, sizeof range);
        range.lower.kind = range.upper.kind = WAXSEAL_INCLUDED; /* backwards: from the greatest bytes on */
        range.lower.key = (const uint8_t *)"key58", range.lower.key_len = 5;
        range.upper.key = (const uint8_t *)"key02", range.upper.key_len = 5;
        CHECK_OK(waxseal_scan_arrow(back, NULL, &range, 0, 10, 0, &stream, &error));
        state.asked = 1;
        state.fails_after = after + 1;
        for (i = 0; i < RECORDS; i++) {
            int status = stream.get_next(&stream, &batch);
            was_told = status == EIO;
            if (was_told) break;
            CHECK_NUMBER(0, status);
            CHECK(state.asked <= state.fails_after && batch.release != NULL); /* in order, and not the end */
            if (batch.release == NULL) break;
            batch.release(&batch);
        }
        CHECK(was_told);
        CHECK_SAYS("test.backwards", stream.get_last_error(&stream));
        CHECK_NUMBER(EIO, stream.get_next(&stream, &batch));
        CHECK_SAYS("test.backwards", stream.get_last_error(&stream));
        stream.release(&stream);
        CHECK_OK(waxseal_family_destroy(back));
        waxseal_close(db, NULL);
    }
}

/* An answer that is taken back does not count; the comparator is asked again, but not for ever. */
static void an_answer_is_taken_back(void) {
    waxseal_family_t *back = NULL;
    waxseal_db_t *db;
    waxseal_iter_t *iter = NULL;
    waxseal_row_t row;
    const char *path = fresh_path();
    forget();
    db = opened(path, &back);
    CHECK_OK(waxseal_compare_again()); /* no comparison runs */
    CHECK_OK(waxseal_put(back, LIT("a"), LIT("1"), &error));
    state.takes_back = 15;
    CHECK_OK(waxseal_put(back, LIT("b"), LIT("2"), &error));
    CHECK_NUMBER(0, state.takes_back);
    state.takes_back = 1;
    CHECK_OK(waxseal_iter_create(back, NULL, NULL, &iter, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_iter_seek(iter, LIT("0"), &row, &error));
    CHECK_NUMBER(0, state.takes_back);
    CHECK_OK(waxseal_iter_destroy(iter));
    state.takes_back = 1;
    CHECK_OK(waxseal_flush(db, &error));
    CHECK_OK(waxseal_iter_create(back, NULL, NULL, &iter, &error));
    CHECK_OK(waxseal_iter_next(iter, &row, &error));
    CHECK_BYTES("b", row.key);
    CHECK_OK(waxseal_iter_next(iter, &row, &error));
    CHECK_BYTES("a", row.key);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_iter_next(iter, &row, &error));
    CHECK_OK(waxseal_iter_destroy(iter));
    CHECK_OK(waxseal_put(back, LIT("c"), LIT("3"), &error));
    state.takes_back = 16;
    CHECK_FAILS(WAXSEAL_CALLBACK, waxseal_put(back, LIT("e"), LIT("3"), &error));
    CHECK_FAILS(WAXSEAL_CALLBACK, waxseal_put(back, LIT("d"), LIT("4"), &error));
    CHECK_OK(waxseal_family_destroy(back));
    waxseal_close(db, NULL);
    state.takes_back = 0;
    db = opened(path, &back);
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(back, NULL, LIT("a"), &error));
    end_store(db, back);
}

/* Another store, with another comparator, knows nothing of it. */
static void one_store_fails_alone(void) {
    waxseal_family_t *back = NULL, *family = NULL;
    waxseal_db_t *db, *other = memory_store(&family);
    waxseal_iter_t *iter = NULL;
    waxseal_row_t row;
    forget();
    db = opened(fresh_path(), &back);
    CHECK_OK(waxseal_put(back, LIT("a"), LIT("1"), &error));
    state.fails_after = 1;
    state.asked = 1;
    CHECK_OK(waxseal_iter_create(back, NULL, NULL, &iter, &error));
    CHECK_FAILS(WAXSEAL_CALLBACK, waxseal_iter_seek(iter, LIT("b"), &row, &error));
    CHECK_OK(waxseal_iter_destroy(iter));
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_family_destroy(back));
    waxseal_close(db, NULL);
    CHECK_NUMBER(1, state.ended);
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("1"), &error));
    end_store(other, family);
}

int main(void) {
    RUN(a_family_has_an_order_of_its_own);
    RUN(a_store_keeps_the_name_of_its_order);
    RUN(comparators_that_cannot_be_are_refused);
    RUN(a_comparator_that_fails_loses_nothing);
    RUN(a_comparator_fails_an_open);
    RUN(a_comparator_that_fails_fails_streams);
    RUN(an_answer_is_taken_back);
    RUN(one_store_fails_alone);
    return done();
}
