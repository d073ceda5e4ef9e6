/* Iterators: single steps, packed rows, ranges, prefixes; lent rows. */
#include "harness.h"

/* Five records, a to e, with values 1 to 5. */
static waxseal_db_t *five(waxseal_family_t **family) {
    waxseal_db_t *db = memory_store(family);
    char key[2] = "a", value[2] = "1";
    for (; *key <= 'e'; ++*key, ++*value) CHECK_OK(waxseal_put(*family, STR(key), STR(value), &error));
    return db;
}

static waxseal_iter_t *over(waxseal_family_t *family, const waxseal_range_t *range) {
    waxseal_iter_t *iter = NULL;
    CHECK_OK(waxseal_iter_create(family, NULL, range, &iter, &error));
    return iter;
}

static waxseal_bound_t bound(int32_t kind, const char *key) {
    waxseal_bound_t bound;
    bound.kind = kind;
    bound.key = (const uint8_t *)key;
    bound.key_len = strlen(key);
    return bound;
}

/* The keys that steps give, one behind the other. */
static const char *keys_by(waxseal_iter_t *iter, int32_t (*step)(waxseal_iter_t *, waxseal_row_t *, waxseal_error_t **)) {
    static char keys[100];
    waxseal_row_t row;
    size_t count = 0;
    int32_t status;
    while ((status = step(iter, &row, &error)) == WAXSEAL_OK && count < sizeof keys - 1) {
        CHECK_NUMBER(1, row.key.len);
        CHECK_NUMBER(1, row.value.len);
        keys[count++] = (char)*row.key.data;
    }
    CHECK_STATUS(WAXSEAL_NOT_FOUND, status);
    keys[count] = 0;
    return keys;
}

static void steps_go_both_ways(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = five(&family);
    waxseal_iter_t *iter = over(family, NULL);
    waxseal_row_t row;
    CHECK(!waxseal_iter_valid(iter));
    CHECK(waxseal_iter_key(iter).len == 0 && waxseal_iter_value(iter).len == 0);
    CHECK(strcmp(keys_by(iter, waxseal_iter_next), "abcde") == 0);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_iter_next(iter, &row, &error)); /* the end stays the end */
    CHECK_OK(waxseal_iter_last(iter, &row, &error));
    CHECK_BYTES("e", row.key);
    CHECK_OK(waxseal_iter_prev(iter, &row, &error));
    CHECK_BYTES("d", row.key);
    CHECK_BYTES("4", row.value);
    CHECK_OK(waxseal_iter_next(iter, NULL, &error));
    CHECK(waxseal_iter_valid(iter));
    CHECK_BYTES("e", waxseal_iter_key(iter));
    CHECK_BYTES("5", waxseal_iter_value(iter));
    CHECK_OK(waxseal_iter_first(iter, &row, &error));
    CHECK_BYTES("a", row.key);
    CHECK_OK(waxseal_iter_destroy(iter));
    iter = over(family, NULL);
    CHECK(strcmp(keys_by(iter, waxseal_iter_prev), "edcba") == 0);
    CHECK_OK(waxseal_iter_destroy(iter));
    end_store(db, family);
}

static void seeks_find_neighbours(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = five(&family);
    waxseal_iter_t *iter = over(family, NULL);
    waxseal_row_t row = {{NULL, 77}, {NULL, 77}};
    CHECK_OK(waxseal_iter_seek(iter, LIT("bb"), &row, &error));
    CHECK_BYTES("c", row.key);
    CHECK_OK(waxseal_iter_seek_for_prev(iter, LIT("bb"), &row, &error));
    CHECK_BYTES("b", row.key);
    CHECK_OK(waxseal_iter_seek(iter, NULL, 0, &row, &error));
    CHECK_BYTES("a", row.key);
    row.key.len = 77;
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_iter_seek(iter, LIT("f"), &row, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_iter_seek_for_prev(iter, LIT("A"), &row, &error));
    CHECK_NUMBER(77, row.key.len);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_iter_seek(iter, NULL, 1, &row, &error));
    CHECK_OK(waxseal_iter_destroy(iter));
    end_store(db, family);
}

static void ranges_bound_iterators(void) {
    const struct {
        int32_t lower, upper;
        const char *from, *to, *keys;
    } cases[] = {
        {WAXSEAL_UNBOUNDED, WAXSEAL_UNBOUNDED, "c", "a", "abcde"}, {WAXSEAL_INCLUDED, WAXSEAL_EXCLUDED, "b", "d", "bc"},
        {WAXSEAL_EXCLUDED, WAXSEAL_INCLUDED, "b", "d", "cd"},      {WAXSEAL_INCLUDED, WAXSEAL_UNBOUNDED, "d", "", "de"},
        {WAXSEAL_UNBOUNDED, WAXSEAL_EXCLUDED, "", "b", "a"},       {WAXSEAL_INCLUDED, WAXSEAL_INCLUDED, "d", "b", ""},
        {WAXSEAL_INCLUDED, WAXSEAL_INCLUDED, "c", "c", "c"},       {WAXSEAL_EXCLUDED, WAXSEAL_EXCLUDED, "c", "c", ""},
    };
    waxseal_family_t *family;
    waxseal_db_t *db = five(&family);
    waxseal_row_t row;
    size_t i;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        waxseal_range_t range = {bound(cases[i].lower, cases[i].from), bound(cases[i].upper, cases[i].to)};
        waxseal_iter_t *iter = over(family, &range);
        CHECK(strcmp(keys_by(iter, waxseal_iter_next), cases[i].keys) == 0);
        /* Wherever it is moved, it stands on no other key. */
        CHECK_STATUS(*cases[i].keys ? WAXSEAL_OK : WAXSEAL_NOT_FOUND, waxseal_iter_seek(iter, LIT(""), &row, &error));
        CHECK_STATUS(*cases[i].keys ? WAXSEAL_OK : WAXSEAL_NOT_FOUND, waxseal_iter_seek_for_prev(iter, LIT("z"), &row, &error));
        if (*cases[i].keys) CHECK_NUMBER(cases[i].keys[strlen(cases[i].keys) - 1], *row.key.data);
        CHECK_OK(waxseal_iter_destroy(iter));
    }
    end_store(db, family);
}

static void ranges_that_cannot_be_are_refused(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = five(&family);
    waxseal_range_t range = {bound(3, "a"), bound(WAXSEAL_UNBOUNDED, "")};
    waxseal_iter_t *iter = NULL;
    uint64_t size = 77;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_iter_create(family, NULL, &range, &iter, &error));
    range.lower = bound(WAXSEAL_INCLUDED, "a");
    range.lower.key_len = (size_t)4 << 30;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_iter_create(family, NULL, &range, &iter, &error));
    range.lower.key = NULL;
    range.lower.key_len = 1;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_approximate_size(family, &range, &size, &error));
    CHECK_NUMBER(77, size);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_iter_create(family, NULL, NULL, NULL, &error));
    CHECK(iter == NULL);
    end_store(db, family);
}

static void a_prefix_is_a_range(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_iter_t *iter = NULL;
    waxseal_rows_t rows;
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_put(family, LIT("ab"), LIT("2"), &error));
    CHECK_OK(waxseal_put(family, LIT("ab\xff"), LIT("3"), &error));
    CHECK_OK(waxseal_put(family, LIT("ac"), LIT("4"), &error));
    CHECK_OK(waxseal_iter_create_prefix(family, NULL, LIT("ab"), &iter, &error));
    CHECK_OK(waxseal_iter_next_rows(iter, 10, 1000, &rows, &error));
    CHECK_NUMBER(2, rows.count);
    CHECK_OK(waxseal_iter_destroy(iter));
    CHECK_OK(waxseal_iter_create_prefix(family, NULL, NULL, 0, &iter, &error));
    CHECK_OK(waxseal_iter_prev_rows(iter, 10, 1000, &rows, &error));
    CHECK_NUMBER(4, rows.count);
    CHECK_OK(waxseal_iter_destroy(iter));
    end_store(db, family);
}

/* Row `index` of a batch. */
static waxseal_row_t row_of(const waxseal_rows_t *rows, size_t index) {
    const size_t *at = rows->offsets + 2 * index;
    waxseal_row_t row;
    row.key.data = rows->data + at[0];
    row.key.len = at[1] - at[0];
    row.value.data = rows->data + at[1];
    row.value.len = at[2] - at[1];
    return row;
}

static void rows_come_packed(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = five(&family);
    waxseal_iter_t *iter = over(family, NULL);
    waxseal_rows_t rows;
    CHECK_OK(waxseal_iter_next_rows(iter, 3, 1000, &rows, &error));
    CHECK_NUMBER(3, rows.count);
    CHECK_NUMBER(0, rows.offsets[0]);
    CHECK_BYTES("b", row_of(&rows, 1).key);
    CHECK_BYTES("3", row_of(&rows, 2).value);
    CHECK_BYTES("c", waxseal_iter_key(iter)); /* it stands on the last */
    CHECK_OK(waxseal_iter_next_rows(iter, 3, 1000, &rows, &error));
    CHECK_NUMBER(2, rows.count);
    CHECK_BYTES("e", row_of(&rows, 1).key);
    rows.count = 77;
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_iter_next_rows(iter, 3, 1000, &rows, &error));
    CHECK_NUMBER(77, rows.count);
    CHECK_OK(waxseal_iter_last(iter, NULL, &error));
    CHECK_OK(waxseal_iter_prev_rows(iter, 100, 1000, &rows, &error));
    CHECK_NUMBER(4, rows.count);
    CHECK_BYTES("d", row_of(&rows, 0).key);
    CHECK_BYTES("a", row_of(&rows, 3).key);
    CHECK_OK(waxseal_iter_destroy(iter));
    end_store(db, family);
}

static void a_batch_of_rows_is_as_large_as_asked_for(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = five(&family);
    waxseal_iter_t *iter = over(family, NULL);
    waxseal_rows_t rows;
    CHECK_OK(waxseal_iter_next_rows(iter, 100, 0, &rows, &error));
    CHECK_NUMBER(1, rows.count);
    CHECK_OK(waxseal_iter_next_rows(iter, 100, 3, &rows, &error));
    CHECK_NUMBER(2, rows.count);
    CHECK_OK(waxseal_iter_set_keys_only(iter, true));
    CHECK_OK(waxseal_iter_next_rows(iter, SIZE_MAX, SIZE_MAX, &rows, &error));
    CHECK_NUMBER(2, rows.count);
    CHECK_BYTES("d", row_of(&rows, 0).key);
    CHECK_BYTES("", row_of(&rows, 0).value);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_iter_next_rows(iter, 0, 1000, &rows, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_iter_prev_rows(iter, 1, 1000, NULL, &error));
    CHECK_OK(waxseal_iter_destroy(iter));
    end_store(db, family);
}

/* Writes after its making do not change what an iterator sees. */
static void an_iterator_sees_its_moment(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = five(&family);
    waxseal_iter_t *iter = over(family, NULL);
    waxseal_row_t row;
    CHECK_OK(waxseal_iter_next(iter, &row, &error));
    CHECK_OK(waxseal_put(family, LIT("aa"), LIT("6"), &error));
    CHECK_OK(waxseal_delete(family, LIT("b"), &error));
    CHECK_OK(waxseal_flush(db, &error));
    CHECK_BYTES("a", row.key);
    CHECK_OK(waxseal_iter_next(iter, &row, &error));
    CHECK_BYTES("b", row.key);
    CHECK_OK(waxseal_family_destroy(family)); /* it holds what it needs */
    CHECK_OK(waxseal_iter_next(iter, &row, &error));
    CHECK_BYTES("c", row.key);
    CHECK_OK(waxseal_iter_destroy(iter));
    CHECK_OK(waxseal_close(db, &error));
}

/* Whoever goes on while it is valid comes to an end, and no seek seems to have found what it stood on before. */
static void moves_after_close_lead_nowhere(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = five(&family);
    waxseal_iter_t *stepped = over(family, NULL), *sought = over(family, NULL);
    waxseal_row_t row = {{NULL, 77}, {NULL, 77}};
    waxseal_rows_t rows;
    CHECK_OK(waxseal_iter_first(stepped, NULL, &error));
    CHECK_OK(waxseal_iter_seek(sought, LIT("c"), NULL, &error));
    CHECK_OK(waxseal_close(db, &error));
    CHECK(waxseal_iter_valid(stepped)); /* nobody has moved it since */
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_iter_next(stepped, &row, &error));
    CHECK(!waxseal_iter_valid(stepped));
    CHECK(waxseal_iter_key(stepped).len == 0 && waxseal_iter_value(stepped).len == 0);
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_iter_prev(stepped, &row, &error));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_iter_next_rows(stepped, 9, 1000, &rows, &error));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_iter_first(stepped, &row, &error));
    CHECK(!waxseal_iter_valid(stepped));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_iter_seek(sought, LIT("c"), &row, &error));
    CHECK(!waxseal_iter_valid(sought));
    CHECK_NUMBER(77, row.key.len);
    CHECK_OK(waxseal_iter_destroy(stepped));
    CHECK_OK(waxseal_iter_destroy(sought));
    CHECK_OK(waxseal_family_destroy(family));
}

int main(void) {
    RUN(steps_go_both_ways);
    RUN(seeks_find_neighbours);
    RUN(ranges_bound_iterators);
    RUN(ranges_that_cannot_be_are_refused);
    RUN(a_prefix_is_a_range);
    RUN(rows_come_packed);
    RUN(a_batch_of_rows_is_as_large_as_asked_for);
    RUN(an_iterator_sees_its_moment);
    RUN(moves_after_close_lead_nowhere);
    return done();
}
