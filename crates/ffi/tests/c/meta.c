/* What stands beside values: entries of Waxseal's own providers, and of providers in C. */
#include "harness.h"

/* What the functions of a provider were asked, and how they are to answer. */
typedef struct {
    waxseal_family_t *family; /* to be called from inside, if not null */
    int32_t inside;           /* what that answered */
    int writes, builds, drops, verified, ended;
    int fails, too_long;
} asked_t;

static int32_t on_write(void *context, const waxseal_record_t *record, const waxseal_slice_t *given, uint8_t *entry,
                        size_t capacity, size_t *entry_len, waxseal_error_t **reason) {
    asked_t *asked = context;
    waxseal_error_t *ignored = NULL;
    asked->writes++;
    if (asked->family) {
        asked->inside = waxseal_put(asked->family, LIT("from inside"), LIT("value"), &ignored);
        waxseal_error_destroy(ignored);
    }
    if (asked->fails) {
        *reason = waxseal_error_create(WAXSEAL_IO, LIT("the sensor is asleep"));
        return WAXSEAL_IO;
    }
    if (record->kind != WAXSEAL_KIND_PUT || !given) return WAXSEAL_NOT_FOUND;
    if (asked->too_long) {
        *entry_len = capacity + 1;
        return WAXSEAL_OK;
    }
    /* The entry: what was given, behind the length of the value. */
    entry[0] = (uint8_t)record->value.len;
    memcpy(entry + 1, given->data, given->len);
    *entry_len = given->len + 1;
    return WAXSEAL_OK;
}

static int32_t on_build(void *context, const waxseal_record_t *record, const waxseal_slice_t *entry, uint8_t *new_entry,
                        size_t capacity, size_t *new_len) {
    asked_t *asked = context;
    asked->builds++;
    if (!entry || capacity < entry->len + 1 || record->key.len == 0) return 99; /* whatever that is: keep */
    if (record->key.data[0] == 'r') return WAXSEAL_ENTRY_REMOVE;
    memcpy(new_entry, entry->data, entry->len);
    new_entry[entry->len] = '!';
    *new_len = entry->len + 1;
    return WAXSEAL_ENTRY_SET;
}

static void on_drop(void *context, const waxseal_record_t *record, const waxseal_slice_t *entry, int32_t reason) {
    asked_t *asked = context;
    if (record->key.len && entry->len && reason == WAXSEAL_DROP_SHADOWED) asked->drops++;
}

static int32_t on_verify(void *context, const waxseal_record_t *record, const waxseal_slice_t *entry) {
    asked_t *asked = context;
    asked->verified++;
    return entry->len > 0 && record->key.len > 0;
}

static void on_end(void *context) {
    ((asked_t *)context)->ended++;
}

/* A store in memory whose provider 1000 is made of the functions above. */
static waxseal_db_t *provided_store(asked_t *asked, waxseal_family_t **family) {
    waxseal_options_t *options = NULL;
    waxseal_provider_t *provider = NULL;
    waxseal_db_t *db = NULL;
    CHECK_OK(waxseal_provider_create(1000, LIT("test.origin"), asked, on_end, &provider, &error));
    CHECK_OK(waxseal_provider_set_version(provider, 3));
    CHECK_OK(waxseal_provider_set_max_len(provider, 20));
    CHECK_OK(waxseal_provider_set_local(provider, true));
    CHECK_OK(waxseal_provider_set_sealed(provider, false));
    CHECK_OK(waxseal_provider_set_dropped_if_unknown(provider, true));
    CHECK_OK(waxseal_provider_set_on_write(provider, on_write, false));
    CHECK_OK(waxseal_provider_set_on_build(provider, on_build));
    CHECK_OK(waxseal_provider_set_on_drop(provider, on_drop));
    CHECK_OK(waxseal_provider_set_on_verify(provider, on_verify));
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_options_add_provider(options, provider));
    CHECK_OK(waxseal_provider_destroy(provider));
    CHECK_OK(waxseal_open_memory(options, &db, &error));
    CHECK_OK(waxseal_options_destroy(options));
    CHECK_OK(waxseal_family_open(db, LIT("default"), family, &error));
    return db;
}

static int32_t put_given(waxseal_family_t *family, const char *key, const char *value, uint16_t provider,
                         const char *entry) {
    waxseal_write_options_t *options = NULL;
    int32_t status;
    CHECK_OK(waxseal_write_options_create(&options, &error));
    CHECK_OK(waxseal_write_options_add_entry(options, provider, STR(entry), &error));
    status = waxseal_put_with(family, options, STR(key), STR(value), &error);
    CHECK_OK(waxseal_write_options_destroy(options));
    return status;
}

static void check_entry(waxseal_family_t *family, const char *key, const char *expected) {
    waxseal_bytes_t *bytes = NULL;
    uint8_t version = 0;
    int32_t checked = -1;
    CHECK_OK(waxseal_get_meta(family, NULL, STR(key), 1000, &bytes, &version, &checked, &error));
    CHECK_BYTES(expected, waxseal_bytes_slice(bytes));
    CHECK_NUMBER(3, version);
    CHECK_NUMBER(WAXSEAL_CHECKED_ITSELF, checked);
    CHECK_OK(waxseal_bytes_destroy(bytes));
}

static void a_provider_in_c_keeps_its_entries(void) {
    asked_t asked = {0};
    waxseal_bytes_t *none = NULL;
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = provided_store(&asked, &family);
    CHECK_OK(waxseal_put(family, LIT("none"), LIT("value"), &error));
    CHECK_OK(put_given(family, "key", "value", 1000, "old"));
    CHECK_OK(put_given(family, "key", "value", 1000, "new"));
    CHECK_OK(put_given(family, "removed", "value", 1000, "x"));
    CHECK_NUMBER(3, asked.writes);
    check_entry(family, "key", "\005new");
    CHECK_OK(waxseal_flush(db, &error));
    check_entry(family, "key", "\005new!");
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_get_meta(family, NULL, LIT("removed"), 1000, &none, NULL, NULL, &error));
    CHECK(none == NULL);
    CHECK(asked.builds > 0 && asked.drops == 1);
    CHECK_NUMBER(0, asked.ended);
    end_store(db, family);
    CHECK_NUMBER(1, asked.ended);
}

static void entries_are_walked_without_values(void) {
    asked_t asked = {0};
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = provided_store(&asked, &family);
    waxseal_meta_iter_t *iter = NULL;
    waxseal_slice_t key;
    waxseal_entry_t entry;
    waxseal_range_t to_c = {{WAXSEAL_UNBOUNDED, NULL, 0}, {WAXSEAL_EXCLUDED, (const uint8_t *)"c", 1}};
    CHECK_OK(put_given(family, "a", "1", 1000, "x"));
    CHECK_OK(waxseal_put(family, LIT("aa"), LIT("1"), &error));
    CHECK_OK(put_given(family, "b", "22", 1000, "y"));
    CHECK_OK(put_given(family, "c", "333", 1000, "z"));
    CHECK_OK(waxseal_meta_iter_create(family, &to_c, 1000, &iter, &error));
    CHECK_OK(waxseal_meta_iter_next(iter, &key, &entry, &error));
    CHECK_BYTES("a", key);
    CHECK_BYTES("\001x", entry.bytes);
    CHECK_OK(waxseal_meta_iter_next(iter, &key, &entry, &error));
    CHECK_BYTES("b", key);
    CHECK_NUMBER(1000, entry.provider);
    CHECK_NUMBER(3, entry.version);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_meta_iter_next(iter, &key, &entry, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_meta_iter_next(iter, &key, &entry, &error));
    CHECK_OK(waxseal_meta_iter_destroy(iter));
    CHECK_OK(waxseal_meta_iter_create(family, NULL, 1000, &iter, &error));
    CHECK_OK(waxseal_meta_iter_next(iter, &key, &entry, &error));
    CHECK_OK(waxseal_close(db, &error));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_meta_iter_next(iter, &key, &entry, &error));
    CHECK_OK(waxseal_meta_iter_destroy(iter));
    CHECK_OK(waxseal_family_destroy(family));
}

static void a_provider_that_fails_refuses_the_write_with_its_reason(void) {
    asked_t asked = {0};
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = provided_store(&asked, &family);
    asked.fails = 1;
    CHECK_FAILS(WAXSEAL_CALLBACK, put_given(family, "key", "value", 1000, "x"));
    CHECK_SAYS("the sensor is asleep", waxseal_error_message(error));
    CHECK_SAYS("test.origin", waxseal_error_message(error));
    asked.fails = 0;
    asked.too_long = 1;
    CHECK_FAILS(WAXSEAL_CALLBACK, put_given(family, "key", "value", 1000, "x"));
    CHECK_SAYS("21 bytes; at most 20", waxseal_error_message(error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("key"), &error));
    end_store(db, family);
}

static void a_provider_that_calls_its_store_is_refused(void) {
    asked_t asked = {0};
    waxseal_family_t *family = NULL, *other = NULL;
    waxseal_db_t *db = provided_store(&asked, &family), *second = memory_store(&other);
    asked.family = family;
    CHECK_OK(put_given(family, "key", "value", 1000, "x"));
    CHECK_NUMBER(WAXSEAL_INVALID, asked.inside);
    asked.family = other; /* another store may be used */
    CHECK_OK(put_given(family, "key", "value", 1000, "x"));
    CHECK_NUMBER(WAXSEAL_OK, asked.inside);
    CHECK_OK(waxseal_contains(other, NULL, LIT("from inside"), &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("from inside"), &error));
    end_store(second, other);
    end_store(db, family);
}

static void batches_carry_entries(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_batch_t *batch = NULL;
    waxseal_bytes_t *bytes = NULL;
    uint8_t future[8] = {0, 0, 0, 0, 0, 0, 0, 0x7f};
    waxseal_entry_t entries[1] = {{WAXSEAL_PROVIDER_EXPIRY, 0, 0, {NULL, 0}}};
    int32_t checked = -1;
    entries[0].bytes.data = future;
    entries[0].bytes.len = sizeof future;
    CHECK_OK(waxseal_batch_create(db, &batch, &error));
    CHECK_OK(waxseal_batch_put_with(batch, family, LIT("key"), LIT("value"), entries, 1, &error));
    CHECK_OK(waxseal_batch_commit(batch, WAXSEAL_DURABILITY_DEFAULT, &error));
    CHECK_OK(waxseal_get_meta(family, NULL, LIT("key"), WAXSEAL_PROVIDER_EXPIRY, &bytes, NULL, &checked, &error));
    CHECK(waxseal_bytes_slice(bytes).len == 8 && memcmp(waxseal_bytes_slice(bytes).data, future, 8) == 0);
    CHECK_NUMBER(WAXSEAL_CHECKED_NOT, checked);
    CHECK_OK(waxseal_bytes_destroy(bytes));
    entries[0].provider = 1001; /* nobody keeps that */
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_put_with(batch, family, LIT("key"), LIT("value"), entries, 1, &error));
    CHECK_OK(waxseal_batch_clear(batch));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_put_with(batch, family, LIT("key"), LIT("value"), NULL, 3, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_put_with(batch, family, LIT("key"), LIT("value"), entries, SIZE_MAX, &error));
    CHECK_OK(waxseal_batch_destroy(batch));
    end_store(db, family);
}

static void a_record_expires(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_write_options_t *options = NULL;
    CHECK_OK(waxseal_write_options_create(&options, &error));
    waxseal_batch_t *batch = NULL;
    uint8_t early[8] = {1, 0, 0, 0, 0, 0, 0, 0};
    waxseal_entry_t entries[1] = {{WAXSEAL_PROVIDER_EXPIRY, 0, 0, {NULL, 0}}};
    entries[0].bytes.data = early;
    entries[0].bytes.len = sizeof early;
    CHECK_OK(waxseal_put(family, LIT("key"), LIT("kept"), &error));
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_write_options_set_expiry(options, 1)); /* before the year 2000 */
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_write_options_set_expiry(options, 1800000000)); /* seconds */
    CHECK_OK(waxseal_batch_create(db, &batch, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_put_with(batch, family, LIT("key"), LIT("value"), entries, 1, &error));
    CHECK_OK(waxseal_batch_clear(batch));
    CHECK_OK(waxseal_contains(family, NULL, LIT("key"), &error));
    CHECK_OK(waxseal_write_options_set_expiry(options, 946684800000000));
    CHECK_OK(waxseal_put_with(family, options, LIT("key"), LIT("value"), &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("key"), &error));
    CHECK_OK(waxseal_write_options_set_expires_in(options, 3600000000));
    CHECK_OK(waxseal_batch_put_with_options(batch, family, options, LIT("key"), LIT("value"), &error));
    CHECK_OK(waxseal_batch_commit(batch, WAXSEAL_DURABILITY_DEFAULT, &error));
    CHECK_OK(waxseal_contains(family, NULL, LIT("key"), &error));
    CHECK_OK(waxseal_batch_destroy(batch));
    CHECK_OK(waxseal_write_options_destroy(options));
    end_store(db, family);
}

static void providers_that_cannot_be_are_refused(void) {
    asked_t asked = {0};
    waxseal_provider_t *provider = NULL;
    waxseal_options_t *options = NULL;
    waxseal_db_t *db = NULL;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_provider_create(0, LIT("zero"), &asked, on_end, &provider, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_provider_create(77, LIT(""), &asked, on_end, &provider, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_provider_create(77, LIT("\xff"), &asked, on_end, &provider, &error));
    CHECK_NUMBER(3, asked.ended);
    CHECK_OK(waxseal_provider_create(WAXSEAL_PROVIDER_LABELS, LIT("labels too"), NULL, NULL, &provider, &error));
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_options_add_provider(options, provider));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_open_memory(options, &db, &error));
    CHECK_SAYS("the same id", waxseal_error_message(error));
    CHECK_OK(waxseal_provider_destroy(provider));
    CHECK_STATUS(WAXSEAL_CLOSED, waxseal_options_add_provider(options, provider));
    CHECK_OK(waxseal_options_destroy(options));
}

int main(void) {
    RUN(a_provider_in_c_keeps_its_entries);
    RUN(entries_are_walked_without_values);
    RUN(a_provider_that_fails_refuses_the_write_with_its_reason);
    RUN(a_provider_that_calls_its_store_is_refused);
    RUN(batches_carry_entries);
    RUN(a_record_expires);
    RUN(providers_that_cannot_be_are_refused);
    return done();
}
