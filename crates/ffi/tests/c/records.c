/* Keys and values: put, got in four ways, deleted; what is too long or no text. */
#include "harness.h"

static void a_value_comes_back(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_bytes_t *value = NULL;
    CHECK_OK(waxseal_put(family, LIT("key"), LIT("a \0 value"), &error));
    CHECK_OK(waxseal_get(family, NULL, LIT("key"), &value, &error));
    CHECK_NUMBER(9, waxseal_bytes_slice(value).len);
    CHECK(memcmp(waxseal_bytes_slice(value).data, "a \0 value", 10) == 0); /* with the zero byte behind it */
    CHECK_OK(waxseal_delete(family, LIT("key"), &error));
    CHECK_OK(waxseal_delete(family, LIT("never there"), &error));
    CHECK_BYTES("a ", ((waxseal_slice_t){waxseal_bytes_slice(value).data, 2})); /* it depends on nothing */
    CHECK_OK(waxseal_bytes_destroy(value));
    value = NULL;
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_get(family, NULL, LIT("key"), &value, &error));
    CHECK(value == NULL && error == NULL);
    end_store(db, family);
}

static void empty_keys_and_values_are_keys_and_values(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_bytes_t *value = NULL;
    size_t length = 77;
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, NULL, 0, &error));
    CHECK_OK(waxseal_put(family, NULL, 0, NULL, 0, &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(family, NULL, LIT(""), &error));
    CHECK_OK(waxseal_get(family, NULL, NULL, 0, &value, &error));
    CHECK_BYTES("", waxseal_bytes_slice(value));
    CHECK(waxseal_bytes_slice(value).data != NULL);
    CHECK_OK(waxseal_get_into(family, NULL, NULL, 0, NULL, 0, &length, &error));
    CHECK_NUMBER(0, length);
    CHECK_OK(waxseal_bytes_destroy(value));
    end_store(db, family);
}

static void a_change_depends_on_the_value(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_slice_t one = {(const uint8_t *)"one", 3}, two = {(const uint8_t *)"two", 3}, empty = {NULL, 0};
    waxseal_slice_t wrong = {NULL, 7};
    waxseal_bytes_t *value = NULL;
    waxseal_write_options_t *options = NULL;
    bool done = true;
    int64_t before = 77;
    CHECK_OK(waxseal_compare_and_set(family, NULL, LIT("key"), &one, &two, &done, &error));
    CHECK(!done);
    CHECK_OK(waxseal_compare_and_set(family, NULL, LIT("key"), &empty, &two, &done, &error)); /* empty is not absent */
    CHECK(!done);
    CHECK_OK(waxseal_put_if_absent(family, NULL, LIT("key"), LIT("one"), &done, &error));
    CHECK(done);
    CHECK_OK(waxseal_put_if_absent(family, NULL, LIT("key"), LIT("two"), &done, &error));
    CHECK(!done);
    CHECK_OK(waxseal_compare_and_set(family, NULL, LIT("key"), &one, &two, &done, &error));
    CHECK(done);
    CHECK_OK(waxseal_get(family, NULL, LIT("key"), &value, &error));
    CHECK_BYTES("two", waxseal_bytes_slice(value));
    CHECK_OK(waxseal_bytes_destroy(value));
    CHECK_OK(waxseal_compare_and_set(family, NULL, LIT("key"), NULL, &one, &done, &error));
    CHECK(!done);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_compare_and_set(family, NULL, LIT("key"), &wrong, &one, &done, &error));
    CHECK_OK(waxseal_compare_and_set(family, NULL, LIT("key"), &two, NULL, NULL, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("key"), &error));

    CHECK_OK(waxseal_write_options_create(&options, &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_write_options_set_durability(options, WAXSEAL_DURABILITY_SYNC));
    CHECK_OK(waxseal_fetch_add(family, options, LIT("count"), 5, &before, &error));
    CHECK(before == 0);
    CHECK_OK(waxseal_fetch_add(family, NULL, LIT("count"), -7, &before, &error));
    CHECK(before == 5);
    CHECK_OK(waxseal_fetch_add(family, NULL, LIT("count"), 0, &before, &error));
    CHECK(before == -2);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_fetch_add(family, NULL, LIT("count"), INT64_MIN, &before, &error));
    CHECK(before == -2);
    CHECK_OK(waxseal_put(family, LIT("text"), LIT("seven"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_fetch_add(family, NULL, LIT("text"), 1, NULL, &error));
    CHECK_OK(waxseal_write_options_destroy(options));
    end_store(db, family);
}

/* What the function of an update is to do, and how often it ran. */
struct change {
    waxseal_family_t *family;
    const char *expected; /* the present value; null for an absent key */
    const char *made;     /* the new value; null to delete the key */
    int32_t status;
    int calls;
};

static int32_t change_it(void *context, const waxseal_slice_t *value, waxseal_bytes_t **new_value, waxseal_error_t **why) {
    struct change *change = context;
    change->calls++;
    if (change->expected)
        CHECK_BYTES(change->expected, *value);
    else
        CHECK(value == NULL);
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_put(change->family, LIT("key"), LIT("x"), NULL)); /* the store is busy */
    if (change->made) CHECK_OK(waxseal_bytes_create(STR(change->made), new_value, why));
    if (change->status < 0) *why = waxseal_error_create(change->status, LIT("not today"));
    return change->status;
}

static void a_function_changes_a_value(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    struct change change = {family, NULL, NULL, WAXSEAL_OK, 0};
    waxseal_write_options_t *options = NULL;
    waxseal_bytes_t *value = NULL;
    CHECK_OK(waxseal_update(family, NULL, LIT("key"), change_it, &change, &error)); /* deletes an absent key */
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("key"), &error));
    change.made = "one";
    CHECK_OK(waxseal_write_options_create(&options, &error));
    CHECK_OK(waxseal_write_options_set_durability(options, WAXSEAL_DURABILITY_SYNC));
    CHECK_OK(waxseal_update(family, options, LIT("key"), change_it, &change, &error));
    CHECK_OK(waxseal_write_options_destroy(options));
    change.expected = "one";
    change.made = ""; /* an empty value is a value */
    CHECK_OK(waxseal_update(family, NULL, LIT("key"), change_it, &change, &error));
    change.expected = "";
    change.made = "two";
    change.status = -77;
    CHECK_FAILS(WAXSEAL_CALLBACK, waxseal_update(family, NULL, LIT("key"), change_it, &change, &error));
    CHECK_SAYS("not today", waxseal_error_message(error));
    CHECK_OK(waxseal_get(family, NULL, LIT("key"), &value, &error));
    CHECK_BYTES("", waxseal_bytes_slice(value));
    CHECK_OK(waxseal_bytes_destroy(value));
    change.made = NULL;
    change.status = WAXSEAL_OK;
    CHECK_OK(waxseal_update(family, NULL, LIT("key"), change_it, &change, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("key"), &error));
    CHECK_NUMBER(5, change.calls);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_update(family, NULL, LIT("key"), NULL, NULL, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_update(family, NULL, NULL, 9, change_it, &change, &error));
    CHECK_NUMBER(5, change.calls);
    end_store(db, family);
}

static void a_buffer_takes_what_fits(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    uint8_t buffer[8];
    size_t length = 77;
    memset(buffer, '.', sizeof buffer);
    CHECK_OK(waxseal_put(family, LIT("key"), LIT("value"), &error));
    CHECK_STATUS(WAXSEAL_TOO_SMALL, waxseal_get_into(family, NULL, LIT("key"), buffer, 4, &length, &error));
    CHECK_NUMBER(5, length);
    CHECK(buffer[0] == '.');
    CHECK_OK(waxseal_get_into(family, NULL, LIT("key"), buffer, 5, &length, &error));
    CHECK_NUMBER(5, length);
    CHECK(memcmp(buffer, "value...", 8) == 0);
    length = 77;
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_get_into(family, NULL, LIT("other"), buffer, 8, &length, &error));
    CHECK_NUMBER(77, length);
    CHECK_STATUS(WAXSEAL_TOO_SMALL, waxseal_get_into(family, NULL, LIT("key"), NULL, 0, &length, &error));
    CHECK_NUMBER(5, length);
    CHECK(error == NULL);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_get_into(family, NULL, LIT("key"), NULL, 5, &length, &error));
    memset(buffer, '.', sizeof buffer);
    length = 77;
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_get_resident(family, NULL, LIT("other"), buffer, 8, &length, &error));
    CHECK_NUMBER(77, length);
    CHECK_STATUS(WAXSEAL_TOO_SMALL, waxseal_get_resident(family, NULL, LIT("key"), buffer, 4, &length, &error));
    CHECK_NUMBER(5, length);
    CHECK_OK(waxseal_get_resident(family, NULL, LIT("key"), buffer, 8, &length, &error));
    CHECK(memcmp(buffer, "value...", 8) == 0);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_get_into(family, NULL, LIT("key"), buffer, 5, NULL, &error));
    end_store(db, family);
}

static void the_ends_are_the_outermost_records(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_snapshot_t *before = NULL;
    waxseal_bytes_t *key = NULL, *value = NULL;
    bool empty = false;
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_first_key_value(family, NULL, &key, &value, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_last_key_value(family, NULL, &key, &value, &error));
    CHECK(key == NULL && value == NULL);
    CHECK_OK(waxseal_is_empty(family, NULL, &empty, &error));
    CHECK(empty);
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_put(family, LIT("b"), LIT("2"), &error));
    CHECK_OK(waxseal_put(family, LIT("c"), LIT("3"), &error));
    CHECK_OK(waxseal_snapshot_create(db, &before, &error));
    CHECK_OK(waxseal_delete(family, LIT("a"), &error));
    CHECK_OK(waxseal_first_key_value(family, NULL, &key, &value, &error));
    CHECK_BYTES("b", waxseal_bytes_slice(key));
    CHECK_BYTES("2", waxseal_bytes_slice(value));
    CHECK_OK(waxseal_bytes_destroy(key));
    CHECK_OK(waxseal_bytes_destroy(value));
    CHECK_OK(waxseal_last_key_value(family, NULL, &key, &value, &error));
    CHECK_BYTES("c", waxseal_bytes_slice(key));
    CHECK_BYTES("3", waxseal_bytes_slice(value));
    CHECK_OK(waxseal_bytes_destroy(key));
    CHECK_OK(waxseal_bytes_destroy(value));
    CHECK_OK(waxseal_delete(family, LIT("b"), &error));
    CHECK_OK(waxseal_delete(family, LIT("c"), &error));
    CHECK_OK(waxseal_is_empty(family, NULL, &empty, &error));
    CHECK(empty);
    CHECK_OK(waxseal_is_empty(family, before, &empty, &error));
    CHECK(!empty);
    CHECK_OK(waxseal_first_key_value(family, before, &key, &value, &error));
    CHECK_BYTES("a", waxseal_bytes_slice(key));
    CHECK_OK(waxseal_bytes_destroy(key));
    CHECK_OK(waxseal_bytes_destroy(value));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_first_key_value(family, NULL, NULL, &value, &error));
    CHECK_OK(waxseal_put(family, LIT("x"), LIT("8"), &error));
    CHECK_OK(waxseal_put(family, LIT("y"), LIT("9"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_pop_first(family, NULL, NULL, &value, &error));
    CHECK_OK(waxseal_pop_last(family, NULL, &key, &value, &error));
    CHECK_BYTES("y", waxseal_bytes_slice(key));
    CHECK_BYTES("9", waxseal_bytes_slice(value));
    CHECK_OK(waxseal_bytes_destroy(key));
    CHECK_OK(waxseal_bytes_destroy(value));
    CHECK_OK(waxseal_pop_first(family, NULL, &key, &value, &error));
    CHECK_BYTES("x", waxseal_bytes_slice(key));
    CHECK_OK(waxseal_bytes_destroy(key));
    CHECK_OK(waxseal_bytes_destroy(value));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_pop_first(family, NULL, &key, &value, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_pop_last(family, NULL, &key, &value, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_is_empty(family, NULL, NULL, &error));
    CHECK_OK(waxseal_snapshot_destroy(before));
    end_store(db, family);
}

static void many_values_come_at_once(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_values_t *values = NULL;
    waxseal_slice_t keys[] = {{LIT("a")}, {LIT("b")}, {LIT("c")}, {NULL, 0}}, value = {NULL, 77};
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_put(family, LIT("c"), LIT(""), &error));
    CHECK_OK(waxseal_multi_get(family, NULL, keys, 4, &values, &error));
    CHECK_NUMBER(4, waxseal_values_count(values));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_values_at(values, 1, &value));
    CHECK_NUMBER(77, value.len);
    CHECK_OK(waxseal_values_at(values, 0, &value));
    CHECK_BYTES("1", value);
    CHECK_OK(waxseal_values_at(values, 2, &value));
    CHECK_BYTES("", value);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_values_at(values, 3, &value));
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_values_at(values, 4, &value));
    CHECK_OK(waxseal_values_destroy(values));
    values = NULL;
    CHECK_OK(waxseal_multi_get(family, NULL, NULL, 0, &values, &error));
    CHECK_NUMBER(0, waxseal_values_count(values));
    CHECK_OK(waxseal_values_destroy(values));
    values = NULL;
    keys[1].data = NULL;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_multi_get(family, NULL, keys, 4, &values, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_multi_get(family, NULL, NULL, 4, &values, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_multi_get(family, NULL, keys, SIZE_MAX, &values, &error));
    CHECK(values == NULL);
    end_store(db, family);
}

/* A length is looked at before what it is the length of. */
static void lengths_that_cannot_be_are_refused(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    const size_t four_gib = (size_t)4 << 30;
    const size_t lengths[] = {65536, four_gib, (size_t)1 << 62, SIZE_MAX};
    waxseal_bytes_t *value = NULL;
    waxseal_iter_t *iter = NULL;
    waxseal_batch_t *batch = NULL;
    size_t i, length;
    CHECK_OK(waxseal_iter_create(family, NULL, NULL, &iter, &error));
    CHECK_OK(waxseal_batch_create(db, &batch, &error));
    for (i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        CHECK_FAILS(WAXSEAL_INVALID, waxseal_put(family, (const uint8_t *)"k", lengths[i], LIT("v"), &error));
        CHECK_FAILS(WAXSEAL_INVALID, waxseal_delete(family, (const uint8_t *)"k", lengths[i], &error));
        CHECK_FAILS(WAXSEAL_INVALID, waxseal_get(family, NULL, (const uint8_t *)"k", lengths[i], &value, &error));
        CHECK_FAILS(WAXSEAL_INVALID, waxseal_get_into(family, NULL, (const uint8_t *)"k", lengths[i], NULL, 0, &length, &error));
        CHECK_FAILS(WAXSEAL_INVALID, waxseal_contains(family, NULL, (const uint8_t *)"k", lengths[i], &error));
        CHECK_FAILS(WAXSEAL_INVALID, waxseal_iter_seek(iter, (const uint8_t *)"k", lengths[i], NULL, &error));
        CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_put(batch, family, (const uint8_t *)"k", lengths[i], LIT("v"), &error));
    }
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_put(family, LIT("k"), (const uint8_t *)"v", four_gib, &error));
    CHECK_SAYS("4294967296", waxseal_error_message(error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_put(family, LIT("k"), (const uint8_t *)"v", ((size_t)3 << 30), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_put(batch, family, LIT("k"), (const uint8_t *)"v", SIZE_MAX, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_put(family, NULL, 1, LIT("v"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_put(family, LIT("k"), NULL, 1, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("k"), &error));
    CHECK_OK(waxseal_batch_destroy(batch));
    CHECK_OK(waxseal_iter_destroy(iter));
    end_store(db, family);
}

static void the_longest_key_is_a_key(void) {
    static uint8_t key[65535];
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    memset(key, 'k', sizeof key);
    CHECK_OK(waxseal_put(family, key, sizeof key, LIT("v"), &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(family, NULL, key, sizeof key, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, key, sizeof key - 1, &error));
    end_store(db, family);
}

static void writes_have_options(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_write_options_t *options = NULL;
    CHECK_OK(waxseal_write_options_create(&options, &error));
    CHECK_OK(waxseal_write_options_set_durability(options, WAXSEAL_DURABILITY_SYNC));
    CHECK_OK(waxseal_write_options_add_label(options, LIT("source"), LIT("import"), &error));
    CHECK_OK(waxseal_write_options_set_log_as_insert(options));
    CHECK_OK(waxseal_put_with(family, options, LIT("a"), LIT("1"), &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(family, NULL, LIT("a"), &error));
    CHECK_OK(waxseal_put_with(family, NULL, LIT("b"), LIT("1"), &error));
    CHECK_OK(waxseal_delete_with(family, NULL, LIT("a"), &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("a"), &error));
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_write_options_set_durability(options, 4));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_write_options_add_label(options, LIT("\xff"), LIT(""), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_write_options_add_label(options, LIT("name"), LIT("\xc3("), &error));
    CHECK_SAYS("UTF-8", waxseal_error_message(error));
    CHECK_OK(waxseal_write_options_destroy(options));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_put_with(family, options, LIT("a"), LIT("1"), &error));
    end_store(db, family);
}

static const char *const letters[] = {"a", "b", "c", "d", "e"};

static void put_letters(waxseal_family_t *family) {
    size_t i;
    for (i = 0; i < 5; i++)
        CHECK_OK(waxseal_put(family, (const uint8_t *)letters[i], 1, LIT("v"), &error));
}

/* Checks which of the letters are there: a word like "ade". */
static void check_letters(waxseal_family_t *family, const char *expected) {
    char found[6] = "";
    size_t i, length = 0;
    for (i = 0; i < 5; i++)
        if (waxseal_contains(family, NULL, (const uint8_t *)letters[i], 1, &error) == WAXSEAL_OK)
            found[length++] = *letters[i];
    CHECK(strcmp(found, expected) == 0);
}

static void a_range_is_deleted(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_write_options_t *options = NULL;
    put_letters(family);
    CHECK_OK(waxseal_delete_range(family, LIT("b"), LIT("d"), &error));
    check_letters(family, "ade");
    CHECK_OK(waxseal_delete_range(family, LIT("e"), NULL, 0, &error));
    check_letters(family, "ad");
    CHECK_OK(waxseal_delete_range(family, NULL, 0, LIT("b"), &error));
    check_letters(family, "d");
    put_letters(family);
    CHECK_OK(waxseal_delete_range(family, NULL, 0, LIT(""), &error)); /* nothing is before the empty key */
    CHECK_OK(waxseal_delete_range(family, LIT("c"), LIT("c"), &error));
    check_letters(family, "abcde");
    CHECK_OK(waxseal_write_options_create(&options, &error));
    CHECK_OK(waxseal_write_options_set_durability(options, WAXSEAL_DURABILITY_SYNC));
    CHECK_OK(waxseal_delete_range_with(family, options, LIT(""), LIT("b"), &error));
    CHECK_OK(waxseal_delete_range_with(family, NULL, LIT("d"), NULL, 0, &error));
    check_letters(family, "bc");
    CHECK_OK(waxseal_write_options_add_label(options, LIT("source"), LIT("import"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_delete_range_with(family, options, NULL, 0, NULL, 0, &error));
    check_letters(family, "bc");
    CHECK_OK(waxseal_delete_range(family, NULL, 0, NULL, 0, &error));
    check_letters(family, "");
    CHECK_OK(waxseal_write_options_destroy(options));
    end_store(db, family);
}

static void bounds_that_cannot_be_are_refused(void) {
    static uint8_t key[65536];
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    memset(key, 'k', sizeof key);
    put_letters(family);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_delete_range(family, LIT("d"), LIT("b"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_delete_range(family, NULL, 1, LIT("b"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_delete_range(family, LIT("a"), NULL, 1, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_delete_range(family, key, sizeof key, NULL, 0, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_delete_range(family, NULL, 0, key, sizeof key, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_delete_range(family, NULL, 0, key, SIZE_MAX, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_delete_range(NULL, NULL, 0, NULL, 0, &error));
    check_letters(family, "abcde");
    CHECK_OK(waxseal_delete_range(family, key, sizeof key - 1, NULL, 0, NULL));
    check_letters(family, "abcde");
    end_store(db, family);
}

int main(void) {
    RUN(a_value_comes_back);
    RUN(empty_keys_and_values_are_keys_and_values);
    RUN(a_change_depends_on_the_value);
    RUN(a_function_changes_a_value);
    RUN(a_buffer_takes_what_fits);
    RUN(the_ends_are_the_outermost_records);
    RUN(many_values_come_at_once);
    RUN(lengths_that_cannot_be_are_refused);
    RUN(the_longest_key_is_a_key);
    RUN(writes_have_options);
    RUN(a_range_is_deleted);
    RUN(bounds_that_cannot_be_are_refused);
    return done();
}
