/* Tables of typed rows: schemas, writes, reads, indexes, transactions, and arguments that cannot be. */

#include <errno.h>

#include "damage.h"
#include "harness.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))
#define SLICE(s) {(const uint8_t *)(s), sizeof(s) - 1}
#define TYPE(number) {.kind = (number)}
#define KEY(text, type, place) {.name = SLICE(text), .column_type = TYPE(type), .role = (place)}
#define COLUMN(text, type) KEY(text, type, WAXSEAL_ROLE_VALUE)
#define CELLS(array) ((waxseal_cells_t){(array), LENGTH(array)})
#define VALUES(array) ((waxseal_value_list_t){(array), LENGTH(array)})
#define TEXT(s) {.kind = WAXSEAL_TYPE_TEXT, .bytes = SLICE(s)}
#define I32(number) {.kind = WAXSEAL_TYPE_I32, .integer = (number)}

static const waxseal_cells_t NO_ROW;
static const waxseal_value_list_t NO_VALUES;

/* A table with one column of each type. */
static const waxseal_table_column_t EVERY_TYPE[] = {
    KEY("key", WAXSEAL_TYPE_TEXT, WAXSEAL_ROLE_PARTITION),
    COLUMN("bytes", WAXSEAL_TYPE_BYTES),
    COLUMN("bool", WAXSEAL_TYPE_BOOL),
    COLUMN("i32", WAXSEAL_TYPE_I32),
    COLUMN("i64", WAXSEAL_TYPE_I64),
    COLUMN("u64", WAXSEAL_TYPE_U64),
    COLUMN("f32", WAXSEAL_TYPE_F32),
    COLUMN("f64", WAXSEAL_TYPE_F64),
    {.name = SLICE("decimal"), .column_type = {WAXSEAL_TYPE_DECIMAL, 0, 38, 2}},
    COLUMN("date", WAXSEAL_TYPE_DATE),
    COLUMN("timestamp", WAXSEAL_TYPE_TIMESTAMP),
    COLUMN("uuid", WAXSEAL_TYPE_UUID),
    COLUMN("json", WAXSEAL_TYPE_JSON),
    {.name = SLICE("list"), .column_type = {WAXSEAL_TYPE_LIST, WAXSEAL_TYPE_TEXT, 0, 0}},
    COLUMN("empty", WAXSEAL_TYPE_EMPTY),
};

/* Books by author and year, with an index over genres. */
static waxseal_table_t *books(waxseal_db_t *db) {
    static const waxseal_table_column_t columns[] = {
        KEY("author", WAXSEAL_TYPE_TEXT, WAXSEAL_ROLE_PARTITION),
        KEY("year", WAXSEAL_TYPE_I32, WAXSEAL_ROLE_CLUSTERING),
        COLUMN("title", WAXSEAL_TYPE_TEXT),
        COLUMN("genre", WAXSEAL_TYPE_TEXT),
    };
    static const waxseal_table_index_column_t genre[] = {{SLICE("genre"), false}};
    static const waxseal_table_index_t indexes[] = {{.name = SLICE("by_genre"), .columns = genre, .column_count = 1}};
    const waxseal_table_schema_t schema = {.columns = columns, .column_count = 4, .indexes = indexes, .index_count = 1};
    waxseal_table_t *table = NULL;
    CHECK_OK(waxseal_table_create(db, LIT("library.books"), &schema, &table, &error));
    return table;
}

static waxseal_db_t *memory(waxseal_table_t **table) {
    waxseal_db_t *db = NULL;
    CHECK_OK(waxseal_open_memory(NULL, &db, &error));
    *table = books(db);
    return db;
}

static void end(waxseal_db_t *db, waxseal_table_t *table) {
    CHECK_OK(waxseal_table_destroy(table));
    CHECK_OK(waxseal_close(db, &error));
}

static waxseal_cells_t book(waxseal_cell_t cells[4], const char *author, int year, const char *title, const char *genre) {
    const struct { const char *name, *text; } texts[] = {{"author", author}, {"title", title}, {"genre", genre}};
    size_t count = 0;
    memset(cells, 0, 4 * sizeof *cells);
    for (size_t at = 0; at < LENGTH(texts); at++) {
        if (!texts[at].text) continue;
        cells[count].column = (waxseal_slice_t){STR(texts[at].name)};
        cells[count].value.kind = WAXSEAL_TYPE_TEXT;
        cells[count++].value.bytes = (waxseal_slice_t){STR(texts[at].text)};
    }
    cells[count].column = (waxseal_slice_t)SLICE("year");
    cells[count++].value = (waxseal_value_t)I32(year);
    return (waxseal_cells_t){cells, count};
}

static void insert(waxseal_table_t *table, const char *author, int year, const char *title, const char *genre) {
    waxseal_cell_t cells[4];
    CHECK_OK(waxseal_table_insert(table, NULL, NULL, book(cells, author, year, title, genre), &error));
}

static const waxseal_cell_t *cell_of(waxseal_cells_t row, const char *name) {
    for (size_t at = 0; at < row.count; at++)
        if (row.cells[at].column.len == strlen(name) && !memcmp(row.cells[at].column.data, name, strlen(name)))
            return &row.cells[at];
    return NULL;
}

/* The titles of the rows, separated by spaces. Ends the rows. */
static void check_titles(const char *expected, waxseal_table_rows_t *rows) {
    char found[256] = "";
    waxseal_cells_t row;
    while (waxseal_table_rows_next(rows, &row, &error) == WAXSEAL_OK) {
        const waxseal_cell_t *title = cell_of(row, "title");
        if (*found) strcat(found, " ");
        strncat(found, title ? (const char *)title->value.bytes.data : "-", title ? title->value.bytes.len : 1);
    }
    if (strcmp(expected, found)) failed_check(__FILE__, __LINE__, "the titles are \"%s\", not \"%s\"", found, expected);
    CHECK_OK(waxseal_table_rows_destroy(rows));
}

#define CHECK_SELECT(expected, table, ...)                                                                             \
    do {                                                                                                               \
        const waxseal_table_select_t select_ = {__VA_ARGS__};                                                          \
        waxseal_table_rows_t *rows_ = NULL;                                                                            \
        CHECK_OK(waxseal_table_select(table, &select_, &rows_, &error));                                               \
        check_titles(expected, rows_);                                                                                 \
    } while (0)

static void every_type_returns_as_it_was_written(void) {
    static const uint8_t uuid[16] = "0123456789abcdef";
    static const waxseal_element_t items[] = {TEXT("a"), TEXT("")};
    const waxseal_cell_t cells[] = {
        {.column = SLICE("key"), .value = TEXT("")},
        {.column = SLICE("bytes"), .value = {.kind = WAXSEAL_TYPE_BYTES, .bytes = SLICE("a\0b")}},
        {.column = SLICE("bool"), .value = {.kind = WAXSEAL_TYPE_BOOL, .integer = 1}},
        {.column = SLICE("i32"), .value = I32(INT32_MIN)},
        {.column = SLICE("i64"), .value = {.kind = WAXSEAL_TYPE_I64, .integer = INT64_MIN}},
        {.column = SLICE("u64"), .value = {.kind = WAXSEAL_TYPE_U64, .integer = -1}},
        {.column = SLICE("f32"), .value = {.kind = WAXSEAL_TYPE_F32, .real = 0.1f}},
        {.column = SLICE("f64"), .value = {.kind = WAXSEAL_TYPE_F64, .real = 0.1}},
        {.column = SLICE("decimal"), .value = {.kind = WAXSEAL_TYPE_DECIMAL, .scale = 2, .high = -2, .integer = 5}},
        {.column = SLICE("date"), .value = {.kind = WAXSEAL_TYPE_DATE, .integer = -1}},
        {.column = SLICE("timestamp"), .value = {.kind = WAXSEAL_TYPE_TIMESTAMP, .integer = INT64_MAX}},
        {.column = SLICE("uuid"), .value = {.kind = WAXSEAL_TYPE_UUID, .bytes = {uuid, 16}}},
        {.column = SLICE("json"), .value = {.kind = WAXSEAL_TYPE_JSON, .bytes = SLICE("{\"a\": 1}")}},
        {.column = SLICE("list"), .value = {.kind = WAXSEAL_TYPE_LIST, .items = items, .item_count = 2}},
        {.column = SLICE("empty"), .value = {.kind = WAXSEAL_TYPE_EMPTY}},
    };
    const waxseal_table_schema_t schema = {.columns = EVERY_TYPE, .column_count = LENGTH(EVERY_TYPE)};
    const waxseal_value_t key[] = {TEXT("")};
    waxseal_db_t *db = NULL;
    waxseal_table_t *table = NULL;
    waxseal_table_rows_t *rows = NULL;
    waxseal_cells_t row;
    bool is_set = false;
    CHECK_OK(waxseal_open_memory(NULL, &db, &error));
    CHECK_OK(waxseal_table_create(db, LIT("test.types"), &schema, &table, &error));
    CHECK_OK(waxseal_table_insert(table, NULL, NULL, CELLS(cells), &error));
    CHECK_OK(waxseal_table_get(table, NULL, NULL, VALUES(key), &rows, &error));
    CHECK_OK(waxseal_table_rows_next(rows, &row, &error));
    CHECK_NUMBER(LENGTH(cells), row.count);
    for (size_t at = 0; at < LENGTH(cells); at++) {
        char name[16] = "";
        const waxseal_value_t *value = &cells[at].value;
        memcpy(name, cells[at].column.data, cells[at].column.len);
        const waxseal_cell_t *found = cell_of(row, name);
        CHECK(found != NULL);
        if (!found) continue;
        CHECK_NUMBER(value->kind, found->value.kind);
        CHECK_NUMBER(value->integer, found->value.integer);
        CHECK_NUMBER(value->high, found->value.high);
        CHECK_NUMBER(value->scale, found->value.scale);
        CHECK(value->real == found->value.real);
        CHECK_NUMBER(value->bytes.len, found->value.bytes.len);
        CHECK(!value->bytes.len || !memcmp(value->bytes.data, found->value.bytes.data, value->bytes.len));
        CHECK_NUMBER(value->item_count, found->value.item_count);
    }
    CHECK_BYTES("a", cell_of(row, "list")->value.items[0].bytes);
    /* What the library lends may be lent back. */
    CHECK_OK(waxseal_table_compare_and_set(table, VALUES(key), row, NO_ROW, &is_set, &error));
    CHECK(is_set);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_table_rows_next(rows, &row, &error));
    CHECK_OK(waxseal_table_rows_destroy(rows));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_table_get(table, NULL, NULL, VALUES(key), &rows, &error));
    end(db, table);
}

static void rows_are_selected(void) {
    waxseal_table_t *table;
    waxseal_db_t *db = memory(&table);
    const waxseal_value_t austen[] = {TEXT("Austen")}, novel[] = {TEXT("novel")}, from[] = {I32(1811)}, to[] = {I32(1815)};
    const waxseal_slice_t author[] = {SLICE("author")};
    const waxseal_condition_t filter[] = {
        {.kind = WAXSEAL_CONDITION_IS_NULL, .column = SLICE("genre")},
        {.kind = WAXSEAL_CONDITION_NOT},
        {.kind = WAXSEAL_CONDITION_GT, .column = SLICE("year"), .values = VALUES(from)},
        {.kind = WAXSEAL_CONDITION_AND},
    };
    const waxseal_value_range_t range = {{WAXSEAL_EXCLUDED, VALUES(from)}, {WAXSEAL_INCLUDED, VALUES(to)}};
    const waxseal_table_select_t page = {.limit = 2};
    waxseal_table_select_t second = {.limit = 2};
    waxseal_table_rows_t *rows = NULL;
    waxseal_snapshot_t *snapshot = NULL;
    waxseal_bytes_t *next = NULL;
    uint64_t count = 0;
    insert(table, "Austen", 1811, "Sense", "novel");
    insert(table, "Austen", 1813, "Pride", NULL);
    insert(table, "Austen", 1815, "Emma", "novel");
    insert(table, "Shelley", 1818, "Frankenstein", "horror");
    CHECK_OK(waxseal_snapshot_create(db, &snapshot, &error));
    CHECK_OK(waxseal_table_delete_partition(table, (waxseal_value_list_t){(waxseal_value_t[]){TEXT("Shelley")}, 1}, &error));
    CHECK_SELECT("Sense Pride Emma", table, .limit = 0);
    CHECK_SELECT("Sense Pride Emma Frankenstein", table, .snapshot = snapshot);
    CHECK_SELECT("Pride Emma", table, .prefix = VALUES(austen), .range = range);
    CHECK_SELECT("Emma Pride", table, .prefix = VALUES(austen), .is_reverse = true, .limit = 2);
    CHECK_SELECT("", table, .has_limit = true);
    CHECK_SELECT("Sense Emma", table, .index = SLICE("by_genre"), .prefix = VALUES(novel));
    CHECK_SELECT("Emma", table, .filter = {filter, LENGTH(filter)});
    CHECK_SELECT("- - -", table, .columns = author, .column_count = 1);
    CHECK_SELECT("- - -", table, .columns = author, .column_count = 0);
    CHECK_OK(waxseal_table_page(table, &page, &rows, &next, &error));
    check_titles("Sense Pride", rows);
    second.after = waxseal_bytes_slice(next);
    waxseal_bytes_t *last = next;
    CHECK_OK(waxseal_table_page(table, &second, &rows, &next, &error));
    check_titles("Emma", rows);
    CHECK(next == NULL);
    CHECK_OK(waxseal_bytes_destroy(last));
    CHECK_OK(waxseal_table_count(table, NULL, &count, &error));
    CHECK_NUMBER(3, count);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_page(table, NULL, &rows, &next, &error));
    CHECK_OK(waxseal_table_delete_range(table, VALUES(austen), range, &error));
    CHECK_SELECT("Sense", table, .limit = 0);
    CHECK_OK(waxseal_table_truncate(table, &error));
    CHECK_SELECT("", table, .limit = 0);
    CHECK_OK(waxseal_snapshot_destroy(snapshot));
    end(db, table);
}

static void rows_are_changed(void) {
    waxseal_table_t *table;
    waxseal_db_t *db = memory(&table);
    const waxseal_value_t emma[] = {TEXT("Austen"), I32(1815)}, other[] = {TEXT("Austen"), I32(1900)};
    const waxseal_cell_t changes[] = {{.column = SLICE("title"), .value = TEXT("Emma: A Novel")}, {.column = SLICE("genre")}};
    const waxseal_condition_t has_genre[] = {
        {.kind = WAXSEAL_CONDITION_IS_NULL, .column = SLICE("genre")}, {.kind = WAXSEAL_CONDITION_NOT}};
    const waxseal_filter_t filter = {has_genre, 2};
    const waxseal_row_options_t past = {.expires_at_micros = UINT64_C(1000000000000000)}, wrong = {.durability = 77};
    waxseal_cell_t cells[4];
    waxseal_cells_t row = book(cells, "Austen", 1815, "Emma", "novel");
    bool is_set = true;
    CHECK_OK(waxseal_table_insert(table, NULL, NULL, row, &error));
    CHECK_FAILS(WAXSEAL_EXISTS, waxseal_table_insert(table, NULL, NULL, row, &error));
    CHECK_SAYS("library.books", waxseal_error_message(error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_table_update(table, NULL, NULL, VALUES(other), CELLS(changes), &error));
    CHECK_OK(waxseal_table_update_if(table, VALUES(emma), filter, CELLS(changes), &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_table_update_if(table, VALUES(emma), filter, CELLS(changes), &error));
    CHECK_SELECT("Emma: A Novel", table, .limit = 0);
    CHECK_OK(waxseal_table_compare_and_set(table, VALUES(emma), row, NO_ROW, &is_set, &error));
    CHECK(!is_set);
    CHECK_OK(waxseal_table_upsert(table, NULL, NULL, row, &error));
    CHECK_OK(waxseal_table_compare_and_set(table, VALUES(emma), row, NO_ROW, &is_set, &error));
    CHECK(is_set);
    CHECK_OK(waxseal_table_compare_and_set(table, VALUES(emma), NO_ROW, row, &is_set, &error));
    CHECK(is_set);
    CHECK_OK(waxseal_table_update(table, NULL, NULL, VALUES(emma), CELLS(changes), &error));
    CHECK_SELECT("Emma: A Novel", table, .limit = 0);
    CHECK_OK(waxseal_table_delete(table, NULL, NULL, VALUES(emma), &error));
    CHECK_OK(waxseal_table_delete(table, NULL, NULL, VALUES(emma), &error));
    CHECK_OK(waxseal_table_insert(table, NULL, &past, row, &error)); /* expired at once */
    CHECK_SELECT("", table, .limit = 0);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_upsert(table, NULL, &wrong, row, &error));
    CHECK_FAILS(WAXSEAL_NO_SUCH_NAME, waxseal_table_upsert(table, NULL, NULL, (waxseal_cells_t){(waxseal_cell_t[]){
        cells[0], cells[3], {.column = SLICE("pages"), .value = I32(1)}}, 3}, &error));
    end(db, table);
}

static bool begins(waxseal_slice_t text, const char *words) {
    size_t length = strlen(words);
    return text.len >= length && memcmp(text.data, words, length) == 0;
}

static void schemas_are_described_and_changed(void) {
    static const waxseal_table_column_t columns[] = {
        KEY("volume", WAXSEAL_TYPE_TEXT, WAXSEAL_ROLE_PARTITION),
        KEY("part", WAXSEAL_TYPE_I32, WAXSEAL_ROLE_CLUSTERING_DESCENDING),
        COLUMN("pages_count", WAXSEAL_TYPE_I32),
        {.name = SLICE("contents"), .column_type = TYPE(WAXSEAL_TYPE_TEXT), .group = SLICE("pages")},
        {.name = SLICE("prices"), .column_type = {WAXSEAL_TYPE_LIST, WAXSEAL_TYPE_DECIMAL, 10, 2}, .group = SLICE("shop")},
    };
    static const waxseal_table_group_t groups[] = {{SLICE("pages"), true}};
    const waxseal_table_schema_t schema = {
        .columns = columns, .column_count = LENGTH(columns), .groups = groups, .group_count = 1, .is_hashed = true,
        .has_dynamic_columns = true};
    static const waxseal_table_index_column_t parts[] = {{SLICE("part"), true}, {SLICE("pages_count"), false}};
    const waxseal_table_index_t index = {
        .name = SLICE("by_part"), .columns = parts, .column_count = 2, .is_unique = true, .has_missing = true};
    const waxseal_table_step_t steps[] = {
        {.kind = WAXSEAL_ALTER_ADD_COLUMN, .name = SLICE("note"), .column_type = TYPE(WAXSEAL_TYPE_JSON)},
        {.kind = WAXSEAL_ALTER_WIDEN_COLUMN, .name = SLICE("note"), .column_type = TYPE(WAXSEAL_TYPE_TEXT)},
        {.kind = WAXSEAL_ALTER_RENAME_COLUMN, .name = SLICE("note"), .new_name = SLICE("remark")},
        {.kind = WAXSEAL_ALTER_ADD_REPEATED_GROUP, .name = SLICE("plates")},
        {.kind = WAXSEAL_ALTER_DROP_INDEX, .name = SLICE("by_part")},
    };
    const waxseal_table_step_t restore = {.kind = WAXSEAL_ALTER_UNDELETE_COLUMN, .name = SLICE("remark")};
    waxseal_db_t *db = NULL;
    waxseal_table_t *table = NULL;
    waxseal_table_description_t *description = NULL;
    const waxseal_table_schema_t *found = NULL;
    waxseal_table_index_report_t report;
    waxseal_bytes_t *bytes = NULL;
    waxseal_snapshot_t *snapshot = NULL;
    uint64_t number = 0, second = 0;
    CHECK_OK(waxseal_open_memory(NULL, &db, &error));
    CHECK_OK(waxseal_table_create(db, LIT("corpus.volumes"), &schema, &table, &error));
    CHECK_OK(waxseal_table_create_index(table, &index, &error));
    CHECK_FAILS(WAXSEAL_EXISTS, waxseal_table_create_index(table, &index, &error));
    CHECK_OK(waxseal_table_rebuild_index(table, LIT("by_part"), &error));
    CHECK_OK(waxseal_table_verify_indexes(table, &report, &error));
    CHECK_NUMBER(0, report.missing + report.stale + report.damaged);
    CHECK_OK(waxseal_table_repair_indexes(table, &number, &error));
    CHECK_NUMBER(1, number);
    CHECK_OK(waxseal_table_describe(table, 0, &description, &error));
    found = waxseal_table_description_schema(description);
    CHECK_NUMBER(LENGTH(columns), found->column_count);
    for (size_t at = 0; at < found->column_count; at++) {
        CHECK(!memcmp(found->columns[at].name.data, columns[at].name.data, columns[at].name.len));
        CHECK(!memcmp(&found->columns[at].column_type, &columns[at].column_type, sizeof columns[at].column_type));
        CHECK_NUMBER(columns[at].role, found->columns[at].role);
        CHECK_NUMBER(WAXSEAL_COLUMN_STATE_ACTIVE, found->columns[at].state);
    }
    CHECK_BYTES("default", found->columns[0].group);
    CHECK_BYTES("shop", found->columns[4].group);
    CHECK_NUMBER(3, found->group_count);
    CHECK(found->groups[1].is_repeated && !found->groups[2].is_repeated);
    CHECK_NUMBER(1, found->index_count);
    CHECK_BYTES("by_part", found->indexes[0].name);
    CHECK_BYTES("part", found->indexes[0].columns[0].name);
    CHECK(found->indexes[0].columns[0].is_descending && !found->indexes[0].columns[1].is_descending);
    CHECK(found->indexes[0].is_unique && found->indexes[0].has_missing && !found->indexes[0].is_building);
    CHECK(found->is_hashed && found->has_dynamic_columns);
    CHECK_OK(waxseal_table_description_destroy(description));
    CHECK_OK(waxseal_table_alter(table, (waxseal_table_alteration_t){steps, LENGTH(steps)}, &error));
    CHECK_OK(waxseal_table_drop_column(table, LIT("remark"), 1000000000, &error));
    CHECK_OK(waxseal_table_describe(table, 0, &description, &error));
    found = waxseal_table_description_schema(description);
    CHECK_NUMBER(0, found->index_count);
    CHECK_BYTES("remark", found->columns[5].name);
    CHECK_NUMBER(WAXSEAL_COLUMN_STATE_TENTATIVE, found->columns[5].state);
    CHECK(found->columns[5].deadline_micros > 0);
    CHECK_OK(waxseal_table_schema_version(table, NULL, &number, &error));
    CHECK_NUMBER(found->version, number);
    CHECK_OK(waxseal_snapshot_create(db, &snapshot, &error));
    CHECK_OK(waxseal_table_description_destroy(description));
    CHECK_OK(waxseal_table_alter(table, (waxseal_table_alteration_t){&restore, 1}, &error));
    CHECK_OK(waxseal_table_schema_version(table, snapshot, &second, &error));
    CHECK_NUMBER(number, second);
    CHECK_OK(waxseal_snapshot_destroy(snapshot));
    CHECK_OK(waxseal_table_schema_version(table, NULL, &second, &error));
    CHECK_NUMBER(number + 1, second);
    CHECK_OK(waxseal_table_drop_column(table, LIT("remark"), 1000000000, &error));
    CHECK_OK(waxseal_table_drop_column(table, LIT("remark"), 1000000000, &error));
    CHECK_OK(waxseal_table_purge_columns(table, &bytes, &error));
    CHECK_BYTES("{\"columns\":[\"remark\"],\"held\":[],\"files\":0}", waxseal_bytes_slice(bytes));
    CHECK_OK(waxseal_bytes_destroy(bytes));
    CHECK_OK(waxseal_snapshot_create(db, &snapshot, &error));
    CHECK_OK(waxseal_table_purge_events(table, LIT("remark"), &bytes, &error));
    CHECK(begins(waxseal_bytes_slice(bytes), "{\"changed\":0,\"removed\":0,\"ended_at\":"));
    CHECK_OK(waxseal_bytes_destroy(bytes));
    CHECK_FAILS(WAXSEAL_BUSY, waxseal_table_certificate(table, LIT("remark"), &bytes, &error));
    CHECK_OK(waxseal_snapshot_destroy(snapshot));
    CHECK_OK(waxseal_table_certificate(table, LIT("remark"), &bytes, &error));
    CHECK(begins(waxseal_bytes_slice(bytes), "{\"table\":\"corpus.volumes\",\"column\":\"remark\",\"column_id\":"));
    CHECK_OK(waxseal_bytes_destroy(bytes));
    CHECK_FAILS(WAXSEAL_NO_SUCH_NAME, waxseal_table_certificate(table, LIT("none"), &bytes, &error));
    CHECK_FAILS(WAXSEAL_NO_SUCH_NAME, waxseal_table_purge_events(table, LIT("none"), &bytes, &error));
    CHECK_OK(waxseal_table_describe(table, 1, &description, &error));
    CHECK_OK(waxseal_table_description_destroy(description));
    CHECK(waxseal_table_description_schema(description) == NULL);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_table_describe(table, 1000, &description, &error));
    CHECK_OK(waxseal_table_rename(db, LIT("corpus.volumes"), LIT("corpus.books"), &error));
    CHECK_OK(waxseal_table_name(table, &bytes, &error));
    CHECK_BYTES("corpus.books", waxseal_bytes_slice(bytes));
    CHECK_OK(waxseal_bytes_destroy(bytes));
    CHECK_OK(waxseal_table_names(db, &bytes, &error));
    CHECK_NUMBER(sizeof "corpus.books", waxseal_bytes_slice(bytes).len);
    CHECK_OK(waxseal_bytes_destroy(bytes));
    CHECK_OK(waxseal_table_drop(db, LIT("corpus.books"), &error));
    CHECK_FAILS(WAXSEAL_NO_SUCH_NAME, waxseal_table_drop(db, LIT("corpus.books"), &error));
    end(db, table);
}

static void entries_of_groups_are_cells(void) {
    static const waxseal_table_column_t columns[] = {
        KEY("volume", WAXSEAL_TYPE_TEXT, WAXSEAL_ROLE_PARTITION),
        {.name = SLICE("contents"), .column_type = TYPE(WAXSEAL_TYPE_TEXT), .group = SLICE("pages")}};
    static const waxseal_table_group_t groups[] = {{SLICE("pages"), true}};
    const waxseal_table_schema_t schema = {.columns = columns, .column_count = 2, .groups = groups, .group_count = 1};
    const waxseal_value_t key[] = {TEXT("iu.1")};
    const waxseal_cell_t row[] = {
        {.column = SLICE("volume"), .value = TEXT("iu.1")},
        {.column = SLICE("contents"), .group = SLICE("pages"), .entry = SLICE("1"), .value = TEXT("Preface")},
        {.group = SLICE("pages"), .entry = SLICE("2")},
    };
    const waxseal_cell_t changes[] = {{.group = SLICE("pages"), .entry = SLICE("1")}};
    waxseal_db_t *db = NULL;
    waxseal_table_t *table = NULL;
    waxseal_table_rows_t *rows = NULL;
    waxseal_cells_t found;
    CHECK_OK(waxseal_open_memory(NULL, &db, &error));
    CHECK_OK(waxseal_table_create(db, LIT("corpus.volumes"), &schema, &table, &error));
    CHECK_OK(waxseal_table_insert(table, NULL, NULL, CELLS(row), &error));
    CHECK_OK(waxseal_table_get(table, NULL, NULL, VALUES(key), &rows, &error));
    CHECK_OK(waxseal_table_rows_next(rows, &found, &error));
    CHECK_NUMBER(3, found.count);
    CHECK_BYTES("contents", found.cells[1].column);
    CHECK_BYTES("pages", found.cells[1].group);
    CHECK_BYTES("1", found.cells[1].entry);
    CHECK_BYTES("Preface", found.cells[1].value.bytes);
    CHECK_BYTES("", found.cells[2].column);
    CHECK_BYTES("2", found.cells[2].entry);
    CHECK_OK(waxseal_table_rows_destroy(rows));
    CHECK_OK(waxseal_table_update(table, NULL, NULL, VALUES(key), CELLS(changes), &error));
    CHECK_OK(waxseal_table_get(table, NULL, NULL, VALUES(key), &rows, &error));
    CHECK_OK(waxseal_table_rows_next(rows, &found, &error));
    CHECK_NUMBER(2, found.count);
    CHECK_BYTES("2", found.cells[1].entry);
    CHECK_OK(waxseal_table_rows_destroy(rows));
    end(db, table);
}

static void transactions_commit_rows_together(void) {
    waxseal_table_t *table, *elsewhere;
    waxseal_db_t *db = memory(&table), *other = memory(&elsewhere);
    waxseal_table_transaction_t *transaction = NULL;
    waxseal_table_rows_t *rows = NULL;
    waxseal_snapshot_t *snapshot = NULL;
    const waxseal_value_t emma[] = {TEXT("Austen"), I32(1815)};
    const waxseal_cell_t changes[] = {{.column = SLICE("title"), .value = TEXT("Emma")}};
    waxseal_cell_t cells[4];
    CHECK_OK(waxseal_table_transaction_begin(db, &transaction, &error));
    CHECK_OK(waxseal_table_insert(table, transaction, NULL, book(cells, "Austen", 1815, NULL, NULL), &error));
    CHECK_FAILS(WAXSEAL_EXISTS, waxseal_table_insert(table, transaction, NULL, book(cells, "Austen", 1815, "E", NULL), &error));
    CHECK_OK(waxseal_table_upsert(table, transaction, NULL, book(cells, "Austen", 1813, "Pride", NULL), &error));
    CHECK_OK(waxseal_table_update(table, transaction, NULL, VALUES(emma), CELLS(changes), &error));
    CHECK_OK(waxseal_table_get(table, transaction, NULL, VALUES(emma), &rows, &error));
    check_titles("Emma", rows);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_table_get(table, NULL, NULL, VALUES(emma), &rows, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_get(elsewhere, transaction, NULL, VALUES(emma), &rows, &error));
    CHECK_OK(waxseal_snapshot_create(db, &snapshot, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_get(table, transaction, snapshot, VALUES(emma), &rows, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_get(elsewhere, NULL, snapshot, VALUES(emma), &rows, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_transaction_commit(transaction, 77, &error));
    CHECK_OK(waxseal_table_transaction_commit(transaction, WAXSEAL_DURABILITY_SYNC, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_get(table, transaction, NULL, VALUES(emma), &rows, &error));
    CHECK_OK(waxseal_table_transaction_destroy(transaction));
    CHECK_SELECT("Pride Emma", table, .limit = 0);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_table_get(table, NULL, snapshot, VALUES(emma), &rows, &error));
    CHECK_OK(waxseal_snapshot_destroy(snapshot));
    CHECK_OK(waxseal_table_transaction_begin(db, &transaction, &error));
    CHECK_OK(waxseal_table_delete(table, transaction, NULL, VALUES(emma), &error));
    CHECK_OK(waxseal_table_upsert(table, NULL, NULL, book(cells, "Austen", 1815, "Other", NULL), &error));
    CHECK_FAILS(WAXSEAL_CONFLICT, waxseal_table_transaction_commit(transaction, WAXSEAL_DURABILITY_DEFAULT, &error));
    CHECK_OK(waxseal_table_transaction_destroy(transaction));
    CHECK_OK(waxseal_table_transaction_begin(db, &transaction, &error));
    CHECK_OK(waxseal_table_delete(table, transaction, NULL, VALUES(emma), &error));
    CHECK_OK(waxseal_table_transaction_rollback(transaction, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_transaction_rollback(transaction, &error));
    CHECK_OK(waxseal_table_transaction_destroy(transaction));
    CHECK_SELECT("Pride Other", table, .limit = 0);
    end(db, table);
    end(other, elsewhere);
}

/* The clients of the events of a target, separated by spaces. */
static void check_clients(const char *expected, waxseal_session_t *session, const char *target) {
    waxseal_events_t *events = NULL;
    waxseal_event_t event;
    char found[256] = "";
    CHECK_OK(waxseal_query_all(session, STR(target), NULL, 0, &events, &error));
    for (size_t at = 0; waxseal_events_get(events, at, &event) == WAXSEAL_OK; at++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%.*s", at ? " " : "", (int)event.client.len,
                 (const char *)event.client.data);
    CHECK_BYTES(expected, ((waxseal_slice_t){STR(found)}));
    CHECK_OK(waxseal_events_destroy(events));
}

/* The registration that the latest event of a row was found by, in the short form of the store's own names. */
static void check_via(const char *expected, waxseal_session_t *session, const char *target) {
    waxseal_events_t *events = NULL;
    waxseal_field_t field, via = {0};
    CHECK_OK(waxseal_query_latest(session, STR(target), NULL, 0, &events, &error));
    for (size_t at = 0; waxseal_events_field(events, 0, at, &field) == WAXSEAL_OK; at++)
        if (field.name.len == 3 && !memcmp(field.name.data, "via", 3)) via = field;
    CHECK_BYTES(expected, via.bytes);
    CHECK_OK(waxseal_events_destroy(events));
}

static void tables_of_a_session_are_changed_in_its_name(void) {
    waxseal_table_t *table, *own = NULL, *made = NULL;
    waxseal_db_t *db = memory(&table);
    waxseal_session_t *alice = NULL, *bob = NULL;
    waxseal_table_transaction_t *transaction = NULL;
    const waxseal_value_t emma[] = {TEXT("Austen"), I32(1815)};
    static const waxseal_table_column_t columns[] = {KEY("name", WAXSEAL_TYPE_TEXT, WAXSEAL_ROLE_PARTITION)};
    const waxseal_table_schema_t schema = {.columns = columns, .column_count = 1};
    waxseal_cell_t cells[4];
    CHECK_OK(waxseal_session_open(db, LIT("alice"), NULL, 0, &alice, &error));
    CHECK_OK(waxseal_session_open(db, LIT("bob"), NULL, 0, &bob, &error));
    CHECK_OK(waxseal_register(alice, LIT("cluster:"), LIT("*"), NULL, NULL, &error));
    CHECK_OK(waxseal_register(alice, LIT("library.books"), LIT("*"), NULL, NULL, &error));
    CHECK_OK(waxseal_session_table_open(alice, LIT("library.books"), &own, &error));
    insert(own, "Austen", 1815, "Emma", NULL);
    CHECK_OK(waxseal_table_delete(table, NULL, NULL, VALUES(emma), &error));
    CHECK_OK(waxseal_session_table_transaction_begin(bob, &transaction, &error));
    CHECK_OK(waxseal_table_upsert(table, transaction, NULL, book(cells, "Austen", 1815, "E", NULL), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_delete(own, transaction, NULL, VALUES(emma), &error));
    CHECK_OK(waxseal_table_transaction_commit(transaction, WAXSEAL_DURABILITY_DEFAULT, &error));
    CHECK_OK(waxseal_table_transaction_destroy(transaction));
    check_clients("alice bob -", alice, "library.books.Austen.1815");
    check_via("library.books", alice, "library.books.Austen.1815");
    CHECK_OK(waxseal_session_table_create(bob, LIT("library.authors"), &schema, &made, &error));
    CHECK_OK(waxseal_table_truncate(made, &error));
    CHECK_OK(waxseal_session_table_rename(alice, LIT("library.authors"), LIT("library.people"), &error));
    CHECK_OK(waxseal_session_table_drop(bob, LIT("library.people"), &error));
    check_clients("alice bob", alice, "library.authors");
    check_clients("bob", alice, "library.people");
    CHECK_FAILS(WAXSEAL_NO_SUCH_NAME, waxseal_session_table_open(bob, LIT("library.people"), &made, &error));
    CHECK_OK(waxseal_table_destroy(made));
    CHECK_OK(waxseal_table_destroy(own));
    CHECK_OK(waxseal_session_destroy(alice));
    CHECK_OK(waxseal_session_destroy(bob));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_session_table_drop(bob, LIT("library.books"), &error));
    end(db, table);
}

/* The keyspaces of a store as JSON. */
static void check_keyspaces(const char *expected, waxseal_session_t *session) {
    waxseal_bytes_t *found = NULL;
    CHECK_OK(waxseal_keyspaces_json(session, &found, &error));
    CHECK_BYTES(expected, waxseal_bytes_slice(found));
    CHECK_OK(waxseal_bytes_destroy(found));
}

static void keyspaces_are_changed_with_their_tables(void) {
    waxseal_table_t *table;
    waxseal_db_t *db = memory(&table);
    waxseal_session_t *alice = NULL;
    waxseal_bytes_t *name = NULL;
    CHECK_OK(waxseal_session_open(db, LIT("alice"), NULL, 0, &alice, &error));
    CHECK_OK(waxseal_register(alice, LIT("cluster:"), LIT("Schema.Alter"), NULL, NULL, &error));
    CHECK_OK(waxseal_keyspace_create(alice, LIT("empty"), NULL, 0, &error));
    CHECK_OK(waxseal_keyspace_alter(alice, LIT("library"), LIT("west=2\neast=3\n"), &error));
    check_keyspaces("{\"empty\":{},\"library\":{\"east\":\"3\",\"west\":\"2\"}}", alice);
    CHECK_OK(waxseal_keyspace_rename(alice, LIT("library"), LIT("archive"), &error));
    check_clients("alice alice", alice, "ks:library");
    CHECK_OK(waxseal_table_name(table, &name, &error));
    CHECK_BYTES("archive.books", waxseal_bytes_slice(name));
    CHECK_OK(waxseal_bytes_destroy(name));
    CHECK_FAILS(WAXSEAL_EXISTS, waxseal_keyspace_create(alice, LIT("archive"), NULL, 0, &error));
    CHECK_FAILS(WAXSEAL_EXISTS, waxseal_keyspace_rename(alice, LIT("empty"), LIT("archive"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_keyspace_create(alice, LIT("new"), LIT("east"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_keyspace_create(alice, LIT("a.b"), NULL, 0, &error));
    CHECK_FAILS(WAXSEAL_NO_SUCH_NAME, waxseal_keyspace_alter(alice, LIT("library"), NULL, 0, &error));
    CHECK_FAILS(WAXSEAL_NO_SUCH_NAME, waxseal_keyspace_drop(alice, LIT("library"), &error));
    CHECK_OK(waxseal_keyspace_drop(alice, LIT("archive"), &error));
    check_keyspaces("{\"empty\":{}}", alice);
    CHECK_OK(waxseal_session_destroy(alice));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_keyspace_drop(alice, LIT("empty"), &error));
    end(db, table);
}

/* The Arrow formats of `EVERY_TYPE`. */
static const char *const FORMATS[] = {
    "U", "Z", "b", "i", "l", "L", "f", "g", "d:38,2", "tdD", "tsu:UTC", "w:16", "U", "+L", "b"};

static void a_select_is_an_arrow_stream(void) {
    static const waxseal_element_t items[] = {TEXT("a"), TEXT("bc")};
    const waxseal_table_schema_t schema = {.columns = EVERY_TYPE, .column_count = LENGTH(EVERY_TYPE)};
    const waxseal_cell_t row[] = {
        {.column = SLICE("key"), .value = TEXT("k2")},
        {.column = SLICE("bool"), .value = {.kind = WAXSEAL_TYPE_BOOL, .integer = 1}},
        {.column = SLICE("i32"), .value = I32(-7)},
        {.column = SLICE("decimal"), .value = {.kind = WAXSEAL_TYPE_DECIMAL, .scale = 1, .high = -1, .integer = -15}},
        {.column = SLICE("list"), .value = {.kind = WAXSEAL_TYPE_LIST, .items = items, .item_count = 2}},
        {.column = SLICE("empty"), .value = {.kind = WAXSEAL_TYPE_EMPTY}},
    };
    const waxseal_slice_t names[] = {SLICE("i32"), SLICE("key"), SLICE("i32")}, unknown[] = {SLICE("none")};
    const waxseal_table_select_t wrong[] = {
        {.columns = names, .column_count = 3}, {.columns = names, .column_count = 0}, {.columns = unknown, .column_count = 1}};
    const waxseal_table_select_t two = {.columns = names, .column_count = 2, .is_reverse = true};
    waxseal_db_t *db = NULL;
    waxseal_table_t *table = NULL;
    struct ArrowArrayStream stream;
    struct ArrowSchema types;
    struct ArrowArray batch;
    CHECK_OK(waxseal_open_memory(NULL, &db, &error));
    CHECK_OK(waxseal_table_create(db, LIT("test.types"), &schema, &table, &error));
    CHECK_OK(waxseal_table_insert(table, NULL, NULL, (waxseal_cells_t){(waxseal_cell_t[]){{.column = SLICE("key"), .value = TEXT("k")}}, 1}, &error));
    CHECK_OK(waxseal_table_insert(table, NULL, NULL, CELLS(row), &error));
    CHECK_OK(waxseal_table_scan_arrow(table, NULL, 0, 0, &stream, &error));
    CHECK_NUMBER(0, stream.get_schema(&stream, &types));
    CHECK_NUMBER(LENGTH(FORMATS), types.n_children);
    for (size_t at = 0; at < LENGTH(FORMATS); at++) {
        CHECK(!strcmp(FORMATS[at], types.children[at]->format));
        CHECK(!memcmp(EVERY_TYPE[at].name.data, types.children[at]->name, EVERY_TYPE[at].name.len + 1));
    }
    CHECK(!memcmp("ARROW:extension:name", types.children[11]->metadata + 8, 20));
    CHECK(!memcmp("arrow.uuid", types.children[11]->metadata + 32, 10));
    CHECK(types.children[0]->metadata == NULL);
    CHECK(!strcmp("U", types.children[13]->children[0]->format) && !(types.children[13]->children[0]->flags & ARROW_FLAG_NULLABLE));
    types.release(&types);
    CHECK_NUMBER(0, stream.get_next(&stream, &batch));
    CHECK_OK(waxseal_table_truncate(table, &error));
    CHECK_NUMBER(2, batch.length);
    const int64_t *keys = batch.children[0]->buffers[1];
    CHECK(keys[0] == 0 && keys[1] == 1 && keys[2] == 3 && !memcmp("kk2", batch.children[0]->buffers[2], 3));
    CHECK(batch.children[0]->buffers[0] == NULL && batch.children[0]->null_count == 0);
    CHECK_NUMBER(1, batch.children[3]->null_count);
    CHECK_NUMBER(2, *(const uint8_t *)batch.children[3]->buffers[0]);
    CHECK_NUMBER(2, *(const uint8_t *)batch.children[2]->buffers[1]);
    CHECK_NUMBER(-7, ((const int32_t *)batch.children[3]->buffers[1])[1]);
    CHECK(((const int64_t *)batch.children[8]->buffers[1])[2] == -150 && ((const int64_t *)batch.children[8]->buffers[1])[3] == -1);
    CHECK(((const int64_t *)batch.children[13]->buffers[1])[1] == 0 && ((const int64_t *)batch.children[13]->buffers[1])[2] == 2);
    CHECK(!memcmp("abc", batch.children[13]->children[0]->buffers[2], 3));
    CHECK_NUMBER(2, *(const uint8_t *)batch.children[14]->buffers[1]);
    batch.release(&batch);
    CHECK_NUMBER(0, stream.get_next(&stream, &batch));
    CHECK(batch.release == NULL);
    stream.release(&stream);
    CHECK_OK(waxseal_table_insert(table, NULL, NULL, CELLS(row), &error));
    CHECK_OK(waxseal_table_insert(table, NULL, NULL, (waxseal_cells_t){(waxseal_cell_t[]){{.column = SLICE("key"), .value = TEXT("k")}}, 1}, &error));
    CHECK_OK(waxseal_table_scan_arrow(table, &two, 1, 0, &stream, &error));
    CHECK_NUMBER(0, stream.get_next(&stream, &batch));
    CHECK(batch.length == 1 && batch.n_children == 2 && *(const int32_t *)batch.children[0]->buffers[1] == -7);
    batch.release(&batch);
    for (size_t at = 0; at < LENGTH(wrong); at++) {
        struct ArrowArrayStream none;
        CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_scan_arrow(table, &wrong[at], 0, 0, &none, &error));
    }
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_scan_arrow(table, NULL, 0, 0, NULL, &error));
    end(db, table);
    CHECK(stream.get_next(&stream, &batch) != 0);
    CHECK_SAYS("closed", stream.get_last_error(&stream));
    stream.release(&stream);
}

/* An expiry without a time and without a time to live is none. */
static void columns_of_a_group_expire(void) {
    static const waxseal_table_column_t columns[] = {
        KEY("key", WAXSEAL_TYPE_I32, WAXSEAL_ROLE_PARTITION),
        {.name = SLICE("draft"), .column_type = TYPE(WAXSEAL_TYPE_TEXT), .group = SLICE("drafts")},
    };
    const waxseal_table_schema_t schema = {.columns = columns, .column_count = LENGTH(columns)};
    const waxseal_cell_t row[] = {
        {.column = SLICE("key"), .value = I32(1)}, {.column = SLICE("draft"), .value = TEXT("a")}};
    const waxseal_group_expiry_t none = {.group = SLICE("drafts")}, past = {
        .group = SLICE("drafts"), .expires_at_micros = UINT64_C(1000000000000000)};
    const waxseal_row_options_t options[] = {{.groups = &none, .group_count = 1}, {.groups = &past, .group_count = 1}};
    waxseal_db_t *db = NULL;
    waxseal_table_t *table = NULL;
    CHECK_OK(waxseal_open_memory(NULL, &db, &error));
    CHECK_OK(waxseal_table_create(db, LIT("test.notes"), &schema, &table, &error));
    for (size_t at = 0; at < LENGTH(options); at++) {
        waxseal_table_rows_t *rows = NULL;
        waxseal_cells_t found;
        CHECK_OK(waxseal_table_upsert(table, NULL, &options[at], CELLS(row), &error));
        CHECK_OK(waxseal_table_select(table, NULL, &rows, &error));
        CHECK_OK(waxseal_table_rows_next(rows, &found, &error));
        CHECK_NUMBER(at == 0 ? 2 : 1, found.count);
        CHECK_OK(waxseal_table_rows_destroy(rows));
    }
    end(db, table);
}

/* Lists of empty texts have no data, and yet their batches have bytes. */
static void a_batch_counts_the_bytes_of_lists(void) {
    static const waxseal_table_column_t columns[] = {
        KEY("key", WAXSEAL_TYPE_I32, WAXSEAL_ROLE_PARTITION),
        {.name = SLICE("list"), .column_type = {WAXSEAL_TYPE_LIST, WAXSEAL_TYPE_TEXT, 0, 0}},
    };
    const waxseal_table_schema_t schema = {.columns = columns, .column_count = LENGTH(columns)};
    waxseal_element_t items[200];
    waxseal_db_t *db = NULL;
    waxseal_table_t *table = NULL;
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    for (size_t at = 0; at < LENGTH(items); at++) items[at] = (waxseal_element_t)TEXT("");
    CHECK_OK(waxseal_open_memory(NULL, &db, &error));
    CHECK_OK(waxseal_table_create(db, LIT("test.lists"), &schema, &table, &error));
    for (int key = 0; key < 4; key++) {
        const waxseal_cell_t row[] = {
            {.column = SLICE("key"), .value = I32(key)},
            {.column = SLICE("list"),
             .value = {.kind = WAXSEAL_TYPE_LIST, .items = items, .item_count = LENGTH(items)}},
        };
        CHECK_OK(waxseal_table_insert(table, NULL, NULL, CELLS(row), &error));
    }
    CHECK_OK(waxseal_table_scan_arrow(table, NULL, 0, 2 * LENGTH(items) * sizeof(int64_t), &stream, &error));
    for (int at = 0; at < 2; at++) {
        CHECK_NUMBER(0, stream.get_next(&stream, &batch));
        CHECK_NUMBER(2, batch.length);
        if (batch.release) batch.release(&batch);
    }
    stream.release(&stream);
    end(db, table);
}

static void damage_hits_its_rows_alone(void) {
    static char path[4096];
    char title[32];
    waxseal_options_t *options = NULL;
    waxseal_db_t *db = NULL;
    waxseal_table_t *table;
    waxseal_table_rows_t *rows = NULL;
    waxseal_cells_t row;
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    int64_t found = 0, streamed = 0;
    int faults = 0, gaps = 0, code;
    strcpy(path, fresh_path());
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_options_set_compression(options, WAXSEAL_COMPRESSION_NONE));
    CHECK_OK(waxseal_open(STR(path), options, &db, &error));
    table = books(db);
    for (int year = 0; year < 3000; year++) {
        snprintf(title, sizeof title, "title %04d", year);
        insert(table, "Austen", year, title, NULL);
    }
    CHECK_OK(waxseal_flush(db, &error));
    end(db, table);
    damage_value(path, "title 1500");
    CHECK_OK(waxseal_open(STR(path), options, &db, &error));
    CHECK_OK(waxseal_options_destroy(options));
    CHECK_OK(waxseal_table_open(db, LIT("library.books"), &table, &error));
    CHECK_OK(waxseal_table_select(table, NULL, &rows, &error));
    while ((code = waxseal_table_rows_next(rows, &row, &error)) != WAXSEAL_NOT_FOUND && faults < 10) {
        if (code == WAXSEAL_OK) {
            found++;
            continue;
        }
        CHECK_NUMBER(WAXSEAL_CORRUPTION, code);
        CHECK_SAYS(".tbl", waxseal_error_file(error));
        faults++;
    }
    CHECK_NUMBER(1, faults);
    CHECK(found >= 2000 && found < 3000);
    CHECK_OK(waxseal_table_rows_destroy(rows));
    CHECK_OK(waxseal_table_scan_arrow(table, NULL, 1000, 0, &stream, &error));
    for (int call = 0; call < 10; call++) {
        if ((code = stream.get_next(&stream, &batch)) != 0) {
            CHECK_NUMBER(EIO, code);
            CHECK_SAYS(".tbl", stream.get_last_error(&stream));
            gaps++;
            continue;
        }
        if (!batch.release) break;
        streamed += batch.length;
        batch.release(&batch);
    }
    CHECK_NUMBER(1, gaps);
    CHECK_NUMBER(found, streamed);
    stream.release(&stream);
    end(db, table);
}

/* Each of these values is refused, whatever the column. */
static void values_that_cannot_be_are_refused(void) {
    static const waxseal_element_t nested[] = {{.kind = WAXSEAL_TYPE_LIST}}, null[] = {{.kind = WAXSEAL_TYPE_NULL}};
    const waxseal_value_t values[] = {
        {.kind = -1},
        {.kind = 16},
        {.kind = WAXSEAL_TYPE_BOOL, .integer = 2},
        I32(INT64_C(1) << 31),
        {.kind = WAXSEAL_TYPE_DATE, .integer = INT64_MIN},
        {.kind = WAXSEAL_TYPE_F32, .real = 0.1},
        {.kind = WAXSEAL_TYPE_F32, .real = 1e300},
        {.kind = WAXSEAL_TYPE_DECIMAL, .high = INT64_MIN},
        {.kind = WAXSEAL_TYPE_DECIMAL, .scale = UINT32_MAX},
        {.kind = WAXSEAL_TYPE_UUID, .bytes = SLICE("short")},
        {.kind = WAXSEAL_TYPE_TEXT, .bytes = SLICE("\xff")},
        {.kind = WAXSEAL_TYPE_TEXT, .bytes = {NULL, 1}},
        {.kind = WAXSEAL_TYPE_BYTES, .bytes = {(const uint8_t *)"a", SIZE_MAX}},
        {.kind = WAXSEAL_TYPE_LIST, .items = NULL, .item_count = 1},
        {.kind = WAXSEAL_TYPE_LIST, .items = nested, .item_count = SIZE_MAX},
        {.kind = WAXSEAL_TYPE_LIST, .items = nested, .item_count = 1},
        {.kind = WAXSEAL_TYPE_LIST, .items = null, .item_count = 1},
    };
    const waxseal_condition_t unconnected[] = {
        {.kind = WAXSEAL_CONDITION_IS_NULL, .column = SLICE("genre")},
        {.kind = WAXSEAL_CONDITION_IS_NULL, .column = SLICE("genre")},
        {.kind = WAXSEAL_CONDITION_AND},
        {.kind = WAXSEAL_CONDITION_OR},
        {.kind = WAXSEAL_CONDITION_EQ, .column = SLICE("genre")},
        {.kind = 12, .column = SLICE("genre")},
    };
    waxseal_table_t *table, *none = NULL;
    waxseal_db_t *db = memory(&table);
    waxseal_table_rows_t *rows = NULL;
    waxseal_table_schema_t schema = {.columns = EVERY_TYPE, .column_count = SIZE_MAX};
    waxseal_table_step_t step = {.kind = 7, .name = SLICE("genre")};
    waxseal_table_index_t index = {.name = SLICE("none"), .columns = NULL, .column_count = 2};
    for (size_t at = 0; at < LENGTH(values); at++) {
        const waxseal_cell_t row[] = {
            {.column = SLICE("author"), .value = TEXT("a")}, {.column = SLICE("year"), .value = I32(1)},
            {.column = SLICE("title"), .value = values[at]}};
        CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_insert(table, NULL, NULL, CELLS(row), &error));
        CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_get(table, NULL, NULL, (waxseal_value_list_t){&values[at], 1}, &rows, &error));
    }
    const struct { size_t first, count; } filters[] = {{0, 2}, {0, 4}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {0, SIZE_MAX}};
    for (size_t at = 0; at < LENGTH(filters); at++) {
        const waxseal_table_select_t select = {.filter = {unconnected + filters[at].first, filters[at].count}};
        CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_select(table, &select, &rows, &error));
    }
    const waxseal_table_select_t selects[] = {
        {.filter = {NULL, 1}}, {.range = {{3, NO_VALUES}, {0, NO_VALUES}}}, {.columns = NULL, .column_count = 1},
        {.after = SLICE("nowhere")}};
    for (size_t at = 0; at < LENGTH(selects); at++)
        CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_select(table, &selects[at], &rows, &error));
    CHECK_FAILS(WAXSEAL_NO_SUCH_NAME, waxseal_table_select(table, &(waxseal_table_select_t){.index = SLICE("none")}, &rows, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_select(table, NULL, NULL, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_insert(table, NULL, NULL, (waxseal_cells_t){NULL, 3}, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_insert(table, NULL, NULL, NO_ROW, &error));
    const waxseal_cell_t twice[] = {
        {.column = SLICE("author"), .value = TEXT("a")}, {.column = SLICE("year"), .value = I32(1)},
        {.column = SLICE("title"), .value = TEXT("a")}, {.column = SLICE("title")}};
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_insert(table, NULL, NULL, CELLS(twice), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_upsert(table, NULL, NULL, CELLS(twice), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_create(db, LIT("a.b"), NULL, &none, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_create(db, LIT("a.b"), &schema, &none, &error));
    schema.column_count = 0;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_create(db, LIT("a.b"), &schema, &none, &error));
    schema.column_count = 1;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_create(db, LIT("ab"), &schema, &none, &error));
    CHECK_FAILS(WAXSEAL_EXISTS, waxseal_table_create(db, LIT("library.books"), &schema, &none, &error));
    CHECK_FAILS(WAXSEAL_NO_SUCH_NAME, waxseal_table_open(db, LIT("a.b"), &none, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_alter(table, (waxseal_table_alteration_t){&step, 1}, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_alter(table, (waxseal_table_alteration_t){NULL, 1}, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_create_index(table, &index, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_table_create_index(table, NULL, &error));
    CHECK_SELECT("", table, .limit = 0);
    end(db, table);
}

static void a_table_outlives_its_store(void) {
    waxseal_table_t *table;
    waxseal_db_t *db = memory(&table);
    waxseal_table_rows_t *rows = NULL;
    waxseal_cells_t row;
    insert(table, "Austen", 1815, "Emma", NULL);
    CHECK_OK(waxseal_table_select(table, NULL, &rows, &error));
    CHECK_OK(waxseal_close(db, &error));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_table_rows_next(rows, &row, &error));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_table_truncate(table, &error));
    CHECK_OK(waxseal_table_rows_destroy(rows));
    CHECK_OK(waxseal_table_destroy(table));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_table_truncate(table, &error));
}

int main(void) {
    RUN(every_type_returns_as_it_was_written);
    RUN(rows_are_selected);
    RUN(rows_are_changed);
    RUN(schemas_are_described_and_changed);
    RUN(entries_of_groups_are_cells);
    RUN(transactions_commit_rows_together);
    RUN(tables_of_a_session_are_changed_in_its_name);
    RUN(keyspaces_are_changed_with_their_tables);
    RUN(columns_of_a_group_expire);
    RUN(a_select_is_an_arrow_stream);
    RUN(a_batch_counts_the_bytes_of_lists);
    RUN(damage_hits_its_rows_alone);
    RUN(values_that_cannot_be_are_refused);
    RUN(a_table_outlives_its_store);
    return done();
}
