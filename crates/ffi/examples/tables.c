/* A table of books: created, filled, and read by its key with a filter. */
#include <stdio.h>
#include <waxseal.h>
#define BYTES(s) (const uint8_t *)(s), sizeof(s) - 1
#define SLICE(s) {BYTES(s)}
#define TEXT(s) {.kind = WAXSEAL_TYPE_TEXT, .bytes = SLICE(s)}
#define YEAR(number) {.kind = WAXSEAL_TYPE_I32, .integer = (number)}
#define COLUMN(label, type, place) {.name = SLICE(label), .column_type = {.kind = (type)}, .role = (place)}
#define CELL(label, ...) {.column = SLICE(label), .value = __VA_ARGS__}

static const waxseal_table_column_t columns[] = {
    COLUMN("author", WAXSEAL_TYPE_TEXT, WAXSEAL_ROLE_PARTITION),
    COLUMN("year", WAXSEAL_TYPE_I32, WAXSEAL_ROLE_CLUSTERING),
    COLUMN("title", WAXSEAL_TYPE_TEXT, WAXSEAL_ROLE_VALUE),
    COLUMN("genre", WAXSEAL_TYPE_TEXT, WAXSEAL_ROLE_VALUE),
};
static const waxseal_table_schema_t schema = {.columns = columns, .column_count = 4};
static const waxseal_cell_t pride[] = {
    CELL("author", TEXT("Austen")), CELL("year", YEAR(1813)), CELL("title", TEXT("Pride and Prejudice"))};
static const waxseal_cell_t emma[] = {
    CELL("author", TEXT("Austen")), CELL("year", YEAR(1815)), CELL("title", TEXT("Emma")), CELL("genre", TEXT("novel"))};

int main(void) {
    const waxseal_value_t author[] = {TEXT("Austen")}, first[] = {YEAR(1800)};
    const waxseal_slice_t title = SLICE("title");
    const waxseal_condition_t no_genre = {.kind = WAXSEAL_CONDITION_IS_NULL, .column = SLICE("genre")};
    const waxseal_table_select_t select = {
        .prefix = {author, 1},
        .range = {.lower = {WAXSEAL_INCLUDED, {first, 1}}},
        .columns = &title,
        .column_count = 1,
        .filter = {&no_genre, 1},
    };
    waxseal_error_t *error = NULL;
    waxseal_db_t *db = NULL;
    waxseal_table_t *books = NULL;
    waxseal_table_rows_t *rows = NULL;
    waxseal_cells_t row;
    if (waxseal_open(BYTES("library.waxseal"), NULL, &db, &error) == WAXSEAL_OK &&
        (waxseal_table_open(db, BYTES("library.books"), &books, NULL) == WAXSEAL_OK ||
         waxseal_table_create(db, BYTES("library.books"), &schema, &books, &error) == WAXSEAL_OK) &&
        waxseal_table_upsert(books, NULL, NULL, (waxseal_cells_t){pride, 3}, &error) == WAXSEAL_OK &&
        waxseal_table_upsert(books, NULL, NULL, (waxseal_cells_t){emma, 4}, &error) == WAXSEAL_OK &&
        waxseal_table_select(books, &select, &rows, &error) == WAXSEAL_OK)
        while (waxseal_table_rows_next(rows, &row, &error) == WAXSEAL_OK)
            for (size_t at = 0; at < row.count; at++) {
                const waxseal_slice_t text = row.cells[at].value.bytes;
                printf("%.*s\n", (int)text.len, (const char *)text.data);
            }
    waxseal_table_rows_destroy(rows);
    waxseal_table_destroy(books);
    waxseal_close(db, error ? NULL : &error);
    if (error) fprintf(stderr, "%s\n", waxseal_error_message(error));
    return waxseal_error_destroy(error) == WAXSEAL_OK && error ? 1 : 0;
}
