/* Table files, what is fenced and barred, and options of families that show in them. */
#include "damage.h"

#define ROWS 3000

static const char *row_key(int row) {
    static char key[16];
    snprintf(key, sizeof key, "key%06d", row);
    return key;
}

static const char *row_value(int row) {
    static char value[64];
    snprintf(value, sizeof value, "value of row %d, %u", row, 2654435761u * (unsigned)row);
    return value;
}

static waxseal_db_t *open_at(const char *path, waxseal_family_t **family) {
    waxseal_options_t *options = NULL;
    waxseal_db_t *db = NULL;
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_options_set_compression(options, WAXSEAL_COMPRESSION_NONE));
    CHECK_OK(waxseal_open(STR(path), options, &db, &error));
    CHECK_OK(waxseal_options_destroy(options));
    CHECK_OK(waxseal_family_open(db, LIT("default"), family, &error));
    return db;
}

static void fill(waxseal_family_t *family) {
    for (int row = 0; row < ROWS; row++)
        CHECK_OK(waxseal_put(family, STR(row_key(row)), STR(row_value(row)), &error));
}

/* A store with rows in one table, of which one is damaged and nothing else holds it. */
static const char *damaged_store(void) {
    static char path[4096];
    waxseal_family_t *family = NULL;
    waxseal_db_t *db;
    strcpy(path, fresh_path());
    db = open_at(path, &family);
    fill(family);
    CHECK_OK(waxseal_flush(db, &error));
    end_store(db, family);
    damage_value(path, row_value(ROWS / 2));
    return path;
}

static int32_t leaves_it(void *context, const waxseal_loss_t *loss) {
    (void)context;
    (void)loss;
    return WAXSEAL_DECISION_FAIL;
}

static void repair(waxseal_db_t *db, bool leave) {
    waxseal_care_options_t *options = NULL;
    waxseal_report_t *report = NULL;
    CHECK_OK(waxseal_care_options_create(&options, &error));
    if (leave) CHECK_OK(waxseal_care_options_set_handler(options, leaves_it, NULL));
    CHECK_OK(waxseal_repair(db, options, &report, &error));
    CHECK_OK(waxseal_report_destroy(report));
    CHECK_OK(waxseal_care_options_destroy(options));
}

/* The cases of a store, and the first of them. */
static size_t cases_of(waxseal_db_t *db, waxseal_cases_t **cases, waxseal_case_t *first) {
    CHECK_OK(waxseal_quarantined(db, cases, &error));
    if (waxseal_cases_count(*cases) > 0) CHECK_OK(waxseal_cases_get(*cases, 0, first));
    return waxseal_cases_count(*cases);
}

static void tables_are_listed(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_tables_t *tables = NULL;
    waxseal_table_file_t table;
    CHECK_OK(waxseal_tables(family, &tables, &error));
    CHECK_NUMBER(0, waxseal_tables_count(tables));
    CHECK_OK(waxseal_tables_destroy(tables));
    fill(family);
    CHECK_OK(waxseal_flush(db, &error));
    CHECK_OK(waxseal_tables(family, &tables, &error));
    CHECK_NUMBER(1, waxseal_tables_count(tables));
    CHECK_OK(waxseal_tables_get(tables, 0, &table));
    CHECK_NUMBER(ROWS, table.records);
    CHECK_NUMBER(0, table.level);
    CHECK(table.number > 0 && table.bytes > ROWS * 10 && table.least_seqno < table.greatest_seqno);
    CHECK_BYTES("key000000", table.smallest);
    CHECK_BYTES("key002999", table.largest);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_tables_get(tables, 1, &table));
    CHECK_OK(waxseal_tables_destroy(tables));
    CHECK_STATUS(WAXSEAL_CLOSED, waxseal_tables_destroy(tables));
    CHECK_NUMBER(0, waxseal_tables_count(tables));
    CHECK_OK(waxseal_barred_tables(family, &tables, &error));
    CHECK_NUMBER(0, waxseal_tables_count(tables));
    CHECK_OK(waxseal_tables_destroy(tables));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_tables(family, NULL, &error));
    end_store(db, family);
}

static uint64_t only_table(waxseal_family_t *family, uint32_t *level) {
    waxseal_tables_t *tables = NULL;
    waxseal_table_file_t table;
    CHECK_OK(waxseal_tables(family, &tables, &error));
    CHECK_NUMBER(1, waxseal_tables_count(tables));
    CHECK_OK(waxseal_tables_get(tables, 0, &table));
    CHECK_OK(waxseal_tables_destroy(tables));
    *level = table.level;
    return table.number;
}

static void chosen_tables_are_compacted(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_bytes_t *value = NULL;
    uint64_t numbers[2];
    uint32_t level, after;
    fill(family);
    CHECK_OK(waxseal_flush(db, &error));
    numbers[0] = only_table(family, &level);
    numbers[1] = numbers[0] + 1000;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_compact_files(family, numbers, 2, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_compact_files(family, NULL, 1, &error));
    CHECK_OK(waxseal_compact_files(family, numbers, 0, &error));
    CHECK(only_table(family, &after) == numbers[0] && after == level);
    CHECK_OK(waxseal_compact_files(family, numbers, 1, &error));
    CHECK(only_table(family, &after) != numbers[0] && after > level);
    CHECK_OK(waxseal_get(family, NULL, STR(row_key(7)), &value, &error));
    CHECK_BYTES(row_value(7), waxseal_bytes_slice(value));
    CHECK_OK(waxseal_bytes_destroy(value));
    end_store(db, family);
}

/* The first byte of a value is its item. The value `?` fails. */
static int32_t first_byte(
    void *context, const uint8_t *key, size_t key_len, const uint8_t *value, size_t value_len, waxseal_error_t **failure
) {
    (void)key, (void)key_len;
    ++*(int *)context;
    if (value_len == 1 && *value == '?') {
        *failure = waxseal_error_create(WAXSEAL_INVALID, LIT("no item"));
        return WAXSEAL_INVALID;
    }
    if (value_len == 1 && *value == '!') {
        waxseal_property_add_item(NULL, 1, NULL);
        return WAXSEAL_OK;
    }
    return waxseal_property_add_item(value, value_len > 0 ? 1 : 0, failure);
}

static void property_ends(void *context) {
    *(int *)context = -1;
}

static size_t tables_with(waxseal_family_t *family, const char *item) {
    waxseal_tables_t *tables = NULL;
    size_t count;
    CHECK_OK(waxseal_tables_with(family, LIT("first"), STR(item), &tables, &error));
    count = waxseal_tables_count(tables);
    CHECK_OK(waxseal_tables_destroy(tables));
    return count;
}

static size_t tables_in_level_0(waxseal_family_t *family) {
    waxseal_tables_t *tables = NULL;
    waxseal_table_file_t table;
    size_t count = 0;
    CHECK_OK(waxseal_tables(family, &tables, &error));
    for (size_t at = 0; waxseal_tables_get(tables, at, &table) == WAXSEAL_OK; at++) count += table.level == 0;
    CHECK_OK(waxseal_tables_destroy(tables));
    return count;
}

static void tables_are_found_by_their_properties(void) {
    waxseal_family_t *family = NULL, *other = NULL;
    waxseal_db_t *db = memory_store(&other);
    waxseal_family_options_t *options = NULL;
    waxseal_tables_t *tables = NULL;
    int calls = 0, unused = 0;
    CHECK_OK(waxseal_family_options_create(&options, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_options_add_table_property(options, LIT("first"), NULL, &unused, property_ends,
                                                                          &error));
    CHECK_NUMBER(-1, unused);
    CHECK_OK(waxseal_family_options_set_level0_tables(options, 64)); /* only calls compact */
    CHECK_OK(waxseal_family_options_add_table_property(options, LIT("first"), first_byte, &calls, property_ends, &error));
    CHECK_OK(waxseal_family_create(db, LIT("with properties"), options, &family, &error));
    CHECK_OK(waxseal_family_options_destroy(options));
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("x"), &error));
    CHECK_OK(waxseal_flush(db, &error));
    CHECK_OK(waxseal_put(family, LIT("b"), LIT("y"), &error));
    CHECK_OK(waxseal_flush(db, &error));
    CHECK_NUMBER(2, calls);
    CHECK(tables_with(family, "x") == 1 && tables_with(family, "y") == 1 && tables_with(family, "z") == 0);
    CHECK_OK(waxseal_put(family, LIT("c"), LIT("?"), &error));
    CHECK_OK(waxseal_flush(db, &error));
    CHECK(tables_with(family, "x") == 2 && tables_with(family, "z") == 1);
    CHECK_OK(waxseal_put(family, LIT("d"), LIT("!"), &error));
    CHECK_OK(waxseal_flush(db, &error));
    CHECK(tables_with(family, "x") == 3 && tables_with(family, "z") == 2);
    CHECK_OK(waxseal_compact_with(family, LIT("first"), LIT("q"), &error));
    CHECK_NUMBER(2, tables_in_level_0(family)); /* those without the property */
    CHECK_OK(waxseal_compact_with(family, LIT("first"), LIT("x"), &error));
    CHECK_NUMBER(1, tables_in_level_0(family)); /* of `y` */
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_compact_with(family, LIT("\xff"), LIT("x"), &error));
    CHECK(tables_with(family, "x") >= 1 && tables_with(family, "y") >= 1);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_property_add_item((const uint8_t *)"x", 1, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_tables_with(family, LIT("first"), LIT("x"), NULL, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_tables_with(family, LIT("\xff"), LIT("x"), &tables, &error));
    CHECK_OK(waxseal_family_destroy(family));
    end_store(db, other);
    CHECK_NUMBER(-1, calls);
}

static void a_fence_is_told_where_it_stands(void) {
    const char *path = damaged_store();
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = open_at(path, &family);
    waxseal_fences_t *fences = NULL;
    waxseal_fence_t fence;
    waxseal_cases_t *cases = NULL;
    waxseal_case_t first;
    waxseal_field_t field;
    size_t at = 0;
    CHECK_OK(waxseal_fences(family, &fences, &error));
    CHECK_NUMBER(0, waxseal_fences_count(fences));
    CHECK_OK(waxseal_fences_destroy(fences));
    CHECK_NUMBER(0, cases_of(db, &cases, &first));
    CHECK_OK(waxseal_cases_destroy(cases));
    repair(db, false);
    CHECK_OK(waxseal_fences(family, &fences, &error));
    CHECK_NUMBER(1, waxseal_fences_count(fences));
    CHECK_OK(waxseal_fences_get(fences, 0, &fence));
    CHECK(fence.from.len >= 9 && memcmp(fence.from.data, "key001499", 9) == 0); /* behind its only version .. */
    CHECK_BYTES("key001501", fence.to);                                         /* .. up to before that of the next */
    CHECK(fence.from_seqno > 0 && fence.to_seqno > 1501);
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(family, NULL, LIT("key001499"), &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(family, NULL, LIT("key001501"), &error));
    CHECK_STATUS(WAXSEAL_CORRUPTION, waxseal_contains(family, NULL, LIT("key001500"), &error));
    CHECK(fence.bound > 0 && fence.verdict != WAXSEAL_VERDICT_NONE && fence.file.len > 4);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_fences_get(fences, 1, &fence));
    CHECK_OK(waxseal_fences_destroy(fences));
    CHECK(cases_of(db, &cases, &first) >= 1);
    while (first.kind != WAXSEAL_CASE_SPAN && waxseal_cases_get(cases, ++at, &first) == WAXSEAL_OK) {
    }
    CHECK_NUMBER(WAXSEAL_CASE_SPAN, first.kind);
    CHECK_BYTES("default", first.family);
    CHECK(first.until_micros == WAXSEAL_FOREVER && first.how.len == 0 && first.since_micros > 0 && first.fields > 3);
    CHECK_OK(waxseal_cases_field(cases, at, 0, &field));
    CHECK(field.name.len > 0);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_cases_field(cases, at, first.fields, &field));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_cases_get(cases, 100, &first));
    CHECK_OK(waxseal_cases_destroy(cases));
    CHECK_OK(waxseal_compact_range(family, NULL, &error));
    CHECK_STATUS(WAXSEAL_CORRUPTION, waxseal_contains(family, NULL, LIT("key001500"), &error));
    end_store(db, family);
}

static void a_table_that_is_left_alone_is_told(void) {
    const char *path = damaged_store();
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = open_at(path, &family);
    waxseal_tables_t *tables = NULL;
    waxseal_table_file_t table;
    waxseal_cases_t *cases = NULL;
    waxseal_case_t first;
    memset(&table, 0, sizeof table);
    memset(&first, 0, sizeof first);
    repair(db, true);
    CHECK_OK(waxseal_barred_tables(family, &tables, &error));
    CHECK_NUMBER(1, waxseal_tables_count(tables));
    CHECK_OK(waxseal_tables_get(tables, 0, &table));
    CHECK_NUMBER(1, cases_of(db, &cases, &first));
    CHECK_NUMBER(WAXSEAL_CASE_TABLE, first.kind);
    CHECK_NUMBER(table.number, first.number);
    CHECK(first.until_micros == WAXSEAL_FOREVER);
    CHECK_OK(waxseal_cases_destroy(cases));
    CHECK_OK(waxseal_tables_destroy(tables));
    end_store(db, family);
}

static void options_of_a_family_are_heard(void) {
    waxseal_family_t *family = NULL, *large = NULL, *uncached = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_family_options_t *options = NULL;
    waxseal_range_t range = {{WAXSEAL_INCLUDED, (const uint8_t *)"a", 1}, {WAXSEAL_EXCLUDED, (const uint8_t *)"b", 1}};
    uint8_t value[2000] = {7};
    uint64_t files = 0;
    CHECK_OK(waxseal_family_options_create(&options, &error));
    CHECK_OK(waxseal_family_options_set_large_value_bytes(options, 1000));
    CHECK_OK(waxseal_family_options_set_fanout(options, 5));
    CHECK_OK(waxseal_family_options_set_level0_tables(options, 2));
    CHECK_OK(waxseal_family_options_set_seals(options, WAXSEAL_SEALS_COLUMN));
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_family_options_set_seals(options, 3));
    CHECK_OK(waxseal_family_create(db, LIT("large"), options, &large, &error));
    CHECK_OK(waxseal_put(large, LIT("a"), value, sizeof value, &error));
    CHECK_OK(waxseal_flush(db, &error));
    CHECK_OK(waxseal_metric(db, LIT("family.large.values.files"), &files, &error));
    CHECK_NUMBER(1, files);
    CHECK_OK(waxseal_family_with_fill_cache(large, false, &uncached, &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(uncached, NULL, LIT("a"), &error));
    CHECK_OK(waxseal_compact_range(uncached, &range, &error));
    range.lower.kind = 9;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_compact_range(uncached, &range, &error));
    CHECK_OK(waxseal_family_destroy(uncached));
    CHECK_OK(waxseal_family_destroy(large));
    CHECK_OK(waxseal_family_options_set_fanout(options, 0));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_create(db, LIT("other"), options, &large, &error));
    CHECK_OK(waxseal_family_options_destroy(options));
    end_store(db, family);
}

int main(void) {
    RUN(tables_are_listed);
    RUN(chosen_tables_are_compacted);
    RUN(tables_are_found_by_their_properties);
    RUN(a_fence_is_told_where_it_stands);
    RUN(a_table_that_is_left_alone_is_told);
    RUN(options_of_a_family_are_heard);
    return done();
}
