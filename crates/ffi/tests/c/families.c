/* Column families: made, opened, listed, dropped. */
#include "harness.h"

static void a_family_is_made_on_first_use(void) {
    waxseal_family_t *family, *users = NULL, *again = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_bytes_t *name = NULL;
    CHECK_OK(waxseal_family_open(db, LIT("users"), &users, &error));
    CHECK_OK(waxseal_put(users, LIT("a"), LIT("1"), &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("a"), &error));
    CHECK_OK(waxseal_family_open(db, LIT("users"), &again, &error));
    CHECK(again != users);
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(again, NULL, LIT("a"), &error));
    CHECK_OK(waxseal_family_name(again, &name, &error));
    CHECK_BYTES("users", waxseal_bytes_slice(name));
    CHECK_OK(waxseal_bytes_destroy(name));
    CHECK_OK(waxseal_family_destroy(again));
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(users, NULL, LIT("a"), &error));
    CHECK_OK(waxseal_family_destroy(users));
    end_store(db, family);
}

static void a_family_is_found_and_not_made(void) {
    waxseal_family_t *family, *users = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_session_t *alice = NULL;
    waxseal_bytes_t *names = NULL;
    CHECK_OK(waxseal_session_open(db, LIT("alice"), NULL, 0, &alice, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_family_find(db, LIT("users"), &users, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_session_family_find(alice, LIT("users"), &users, &error));
    CHECK(users == NULL);
    CHECK_OK(waxseal_family_names(db, &names, &error));
    CHECK_BYTES("default", ((waxseal_slice_t){waxseal_bytes_slice(names).data, 7}));
    CHECK_NUMBER(8, waxseal_bytes_slice(names).len);
    CHECK_OK(waxseal_bytes_destroy(names));
    CHECK_OK(waxseal_family_create(db, LIT("users"), NULL, &users, &error));
    CHECK_OK(waxseal_put(users, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_family_destroy(users));
    users = NULL;
    CHECK_OK(waxseal_family_find(db, LIT("users"), &users, &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(users, NULL, LIT("a"), &error));
    CHECK_OK(waxseal_family_destroy(users));
    users = NULL;
    CHECK_OK(waxseal_session_family_find(alice, LIT("users"), &users, &error));
    CHECK_OK(waxseal_put(users, LIT("b"), LIT("2"), &error));
    CHECK_OK(waxseal_family_destroy(users));
    users = NULL;
    CHECK_OK(waxseal_family_drop(db, LIT("users"), &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_family_find(db, LIT("users"), &users, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_find(db, LIT("\xff"), &users, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_find(db, LIT("default"), NULL, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_session_family_find(alice, LIT("default"), NULL, &error));
    CHECK(users == NULL);
    CHECK_OK(waxseal_session_destroy(alice));
    end_store(db, family);
}

static void a_family_has_options_of_its_own(void) {
    waxseal_family_t *family, *made = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_family_options_t *options = NULL;
    CHECK_OK(waxseal_family_options_create(&options, &error));
    CHECK_OK(waxseal_family_options_set_block_bytes(options, 1024));
    CHECK_OK(waxseal_family_options_set_restart_interval(options, 4));
    CHECK_OK(waxseal_family_options_set_filter_bits(options, 0));
    CHECK_OK(waxseal_family_options_set_compression(options, WAXSEAL_COMPRESSION_NONE));
    CHECK_OK(waxseal_family_options_set_table_bytes(options, 1 << 20));
    CHECK_OK(waxseal_family_options_set_level_base_bytes(options, 1 << 22));
    CHECK_OK(waxseal_family_options_set_verify_reads(options, WAXSEAL_VERIFY_NEVER, 0));
    CHECK_OK(waxseal_family_options_set_verify_scans(options, WAXSEAL_VERIFY_ALWAYS, 0));
    CHECK_OK(waxseal_family_create(db, LIT("made"), options, &made, &error));
    CHECK_OK(waxseal_put(made, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_family_destroy(made));
    made = NULL;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_create(db, LIT("made"), options, &made, &error));
    CHECK_OK(waxseal_family_options_set_block_bytes(options, 1));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_create(db, LIT("other"), options, &made, &error));
    CHECK_SAYS("block_bytes", waxseal_error_message(error));
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_family_options_set_compression(options, 9));
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_family_options_set_verify_reads(options, 9, 1));
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_family_options_set_verify_scans(options, 9, 1));
    CHECK(made == NULL);
    CHECK_OK(waxseal_family_options_destroy(options));
    end_store(db, family);
}

static void names_that_cannot_be_are_refused(void) {
    waxseal_family_t *family, *other = NULL;
    waxseal_db_t *db = memory_store(&family);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_open(db, LIT("\xff\xfe"), &other, &error));
    CHECK_SAYS("UTF-8", waxseal_error_message(error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_create(db, LIT("us\xc0""zers"), NULL, &other, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_drop(db, LIT("\x80"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_open(db, LIT("two\0names"), &other, &error)); /* a list would show two */
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_create(db, LIT("\0"), NULL, &other, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_open(db, NULL, 0, &other, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_open(db, NULL, 3, &other, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_open(db, (const uint8_t *)"x", SIZE_MAX, &other, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_create(db, LIT("system_metadata.mine"), NULL, &other, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_open(db, LIT("users"), NULL, &error));
    CHECK(other == NULL);
    end_store(db, family);
}

static void families_are_listed_and_dropped(void) {
    waxseal_family_t *family, *users = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_bytes_t *names = NULL;
    waxseal_iter_t *iter = NULL;
    CHECK_OK(waxseal_family_open(db, LIT("users"), &users, &error));
    CHECK_OK(waxseal_family_names(db, &names, &error));
    CHECK_NUMBER(14, waxseal_bytes_slice(names).len);
    CHECK(memcmp(waxseal_bytes_slice(names).data, "default\0users\0", 14) == 0);
    CHECK_OK(waxseal_bytes_destroy(names));
    CHECK_OK(waxseal_family_drop(db, LIT("users"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_put(users, LIT("a"), LIT("1"), &error));
    CHECK_SAYS("dropped", waxseal_error_message(error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_iter_create(users, NULL, NULL, &iter, &error));
    CHECK(iter == NULL);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_drop(db, LIT("users"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_drop(db, LIT("default"), &error));
    CHECK_OK(waxseal_family_destroy(users));
    end_store(db, family);
}

/* One commit removes the records of several families, and a refused one removes none. */
static void families_are_cleared_together(void) {
    waxseal_family_t *family, *elsewhere, *users = NULL, *old = NULL;
    waxseal_db_t *db = memory_store(&family), *other = memory_store(&elsewhere);
    const waxseal_family_t *cleared[2];
    CHECK_OK(waxseal_family_open(db, LIT("users"), &users, &error));
    CHECK_OK(waxseal_family_open(db, LIT("old"), &old, &error));
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_put(users, LIT("a"), LIT("1"), &error));
    cleared[0] = family;
    cleared[1] = elsewhere;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_clear(db, cleared, 2, &error));
    CHECK_SAYS("another store", waxseal_error_message(error));
    cleared[1] = NULL;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_clear(db, cleared, 2, &error));
    CHECK_OK(waxseal_family_drop(db, LIT("old"), &error));
    cleared[1] = old;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_clear(db, cleared, 2, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_clear(db, NULL, 2, &error));
    CHECK_OK(waxseal_clear(db, NULL, 0, &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(family, NULL, LIT("a"), &error));
    cleared[1] = users;
    CHECK_OK(waxseal_clear(db, cleared, 2, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("a"), &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(users, NULL, LIT("a"), &error));
    CHECK_OK(waxseal_family_destroy(old));
    CHECK_OK(waxseal_family_destroy(users));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_clear(db, cleared, 2, &error)); /* destroyed handle */
    end_store(other, elsewhere);
    end_store(db, family);
}

static void a_family_is_read_under_another_policy(void) {
    waxseal_family_t *family, *verified = NULL;
    waxseal_db_t *db = memory_store(&family);
    CHECK_OK(waxseal_family_with_verify(family, WAXSEAL_VERIFY_ALWAYS, 0, &verified, &error));
    CHECK_OK(waxseal_put(verified, LIT("a"), LIT("1"), &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(family, NULL, LIT("a"), &error));
    CHECK_OK(waxseal_family_destroy(verified));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_with_verify(family, 17, 0, &verified, &error));
    end_store(db, family);
}

/* A family `merged` with these options, which are destroyed, in a store that also has the family `default`. */
static waxseal_family_t *merged_family(waxseal_db_t *db, waxseal_family_options_t *options) {
    waxseal_family_t *merged = NULL;
    CHECK_OK(waxseal_family_create(db, LIT("merged"), options, &merged, &error));
    CHECK_OK(waxseal_family_options_destroy(options));
    return merged;
}

/* The number of tables that a scan of `ada/` skips in a new family, whose two tables have the prefixes `ada/` and `bob/`. */
static uint64_t skips_of_a_scan(
    waxseal_db_t *db, const uint8_t *name, size_t name_len, const waxseal_family_options_t *options
) {
    waxseal_family_t *notes = NULL;
    waxseal_iter_t *iter = NULL;
    waxseal_rows_t rows;
    uint64_t before, after;
    CHECK_OK(waxseal_family_create(db, name, name_len, options, &notes, &error));
    CHECK_OK(waxseal_put(notes, LIT("ada/1"), LIT("text"), &error));
    CHECK_OK(waxseal_put(notes, LIT("ada/2"), LIT("text"), &error));
    CHECK_OK(waxseal_flush(db, &error));
    CHECK_OK(waxseal_put(notes, LIT("aaa/"), LIT("text"), &error));
    CHECK_OK(waxseal_put(notes, LIT("bob/1"), LIT("text"), &error));
    CHECK_OK(waxseal_flush(db, &error));
    CHECK_OK(waxseal_metric(db, LIT("prefix_skips"), &before, &error));
    CHECK_OK(waxseal_iter_create_prefix(notes, NULL, LIT("ada/"), &iter, &error));
    CHECK_OK(waxseal_iter_next_rows(iter, 10, 1000, &rows, &error));
    CHECK_NUMBER(2, rows.count);
    CHECK_OK(waxseal_iter_destroy(iter));
    CHECK_OK(waxseal_metric(db, LIT("prefix_skips"), &after, &error));
    CHECK_OK(waxseal_family_destroy(notes));
    return after - before;
}

static void scans_skip_tables_without_their_prefix(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_family_options_t *options = NULL;
    CHECK_OK(waxseal_family_options_create(&options, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_options_set_prefix_extractor(options, LIT("fixed:0"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_options_set_prefix_extractor(options, NULL, 1, &error));
    CHECK_OK(waxseal_family_options_set_prefix_extractor(options, LIT("delimited:2f:1"), &error));
    CHECK_OK(waxseal_family_options_set_prefix_extractor(options, NULL, 0, &error));
    CHECK_NUMBER(0, skips_of_a_scan(db, LIT("none"), options));
    CHECK_OK(waxseal_family_options_set_prefix_extractor(options, LIT("fixed:4"), &error));
    CHECK_NUMBER(1, skips_of_a_scan(db, LIT("notes"), options));
    CHECK_OK(waxseal_family_options_destroy(options));
    end_store(db, family);
}

static void check_value(waxseal_family_t *family, const char *expected) {
    waxseal_bytes_t *value = NULL;
    CHECK_OK(waxseal_get(family, NULL, LIT("k"), &value, &error));
    CHECK_BYTES(expected, waxseal_bytes_slice(value));
    CHECK_OK(waxseal_bytes_destroy(value));
}

static void a_family_merges_operands(void) {
    waxseal_family_t *family, *merged;
    waxseal_db_t *db = memory_store(&family);
    waxseal_family_options_t *options = NULL;
    waxseal_write_options_t *write = NULL;
    waxseal_batch_t *batch = NULL;
    int round;
    CHECK_OK(waxseal_family_options_create(&options, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_options_set_merge_operator(options, 99, NULL, 0, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_options_set_merge_operator(options, WAXSEAL_MERGE_MAX, LIT(","), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_options_set_merge_operator(options, WAXSEAL_MERGE_APPEND, NULL, 1, &error));
    CHECK_OK(waxseal_family_options_set_merge_operator(options, WAXSEAL_MERGE_APPEND, LIT(","), &error));
    merged = merged_family(db, options);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_merge(family, LIT("k"), LIT("a"), &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("k"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_merge(merged, LIT("k"), NULL, 1, &error));
    CHECK_OK(waxseal_write_options_create(&write, &error));
    CHECK_OK(waxseal_write_options_set_durability(write, WAXSEAL_DURABILITY_SYNC));
    CHECK_OK(waxseal_merge(merged, LIT("k"), LIT("a"), &error));
    CHECK_OK(waxseal_merge_with(merged, write, LIT("k"), LIT("b"), &error));
    CHECK_OK(waxseal_write_options_add_label(write, LIT("source"), LIT("import"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_merge_with(merged, write, LIT("k"), LIT("c"), &error));
    CHECK_OK(waxseal_write_options_destroy(write));
    CHECK_OK(waxseal_batch_create(db, &batch, &error));
    CHECK_OK(waxseal_batch_merge(batch, merged, LIT("k"), LIT("c"), &error));
    CHECK_OK(waxseal_batch_merge(batch, merged, LIT("k"), LIT("d"), &error));
    CHECK_OK(waxseal_batch_commit(batch, WAXSEAL_DURABILITY_OS, &error));
    for (round = 0; round < 2; round++) {
        check_value(merged, "a,b,c,d");
        CHECK_OK(waxseal_flush(db, &error));
    }
    CHECK_OK(waxseal_batch_merge(batch, merged, LIT("k"), LIT("e"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_merge(batch, merged, LIT("k"), NULL, 1, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_commit(batch, WAXSEAL_DURABILITY_OS, &error));
    check_value(merged, "a,b,c,d");
    CHECK_OK(waxseal_batch_destroy(batch));
    CHECK_OK(waxseal_family_destroy(merged));
    end_store(db, family);
}

static void options_change_while_the_store_is_open(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_family_options_t *options = NULL, *others = NULL;
    waxseal_bytes_t *text = NULL;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_get_options(family, NULL, &error));
    CHECK_OK(waxseal_family_get_options(family, &options, &error));
    CHECK_OK(waxseal_family_options_set_level0_tables(options, 9));
    CHECK_OK(waxseal_family_set_options(family, options, &error));
    CHECK_OK(waxseal_family_options_set_fanout(options, 1));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_set_options(family, options, &error));
    CHECK_OK(waxseal_family_options_set_fanout(options, 8));
    CHECK_OK(waxseal_family_options_set_merge_operator(options, WAXSEAL_MERGE_MAX, NULL, 0, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_set_options(family, options, &error));
    CHECK_OK(waxseal_family_options_destroy(options));
    /* Of two callers that read the options at one time, neither undoes the change of the other. */
    CHECK_OK(waxseal_family_get_options(family, &options, &error));
    CHECK_OK(waxseal_family_get_options(family, &others, &error));
    CHECK_OK(waxseal_family_options_set_block_bytes(options, 8192));
    CHECK_OK(waxseal_family_options_set_restart_interval(others, 7));
    CHECK_OK(waxseal_family_options_set_filter_bits(others, 13));
    CHECK_OK(waxseal_family_set_options(family, others, &error));
    CHECK_OK(waxseal_family_set_options(family, options, &error));
    CHECK_OK(waxseal_family_options_set_filter_bits(others, 10));
    CHECK_OK(waxseal_family_set_options(family, others, &error));
    CHECK_OK(waxseal_family_options_json(family, &text, &error));
    CHECK_SAYS("\"block_bytes\":8192,", (const char *)waxseal_bytes_slice(text).data);
    CHECK_SAYS("\"restart_interval\":7,", (const char *)waxseal_bytes_slice(text).data);
    CHECK_SAYS("\"filter_bits\":10,", (const char *)waxseal_bytes_slice(text).data);
    CHECK_OK(waxseal_bytes_destroy(text));
    CHECK_OK(waxseal_family_options_destroy(others));
    CHECK_OK(waxseal_family_options_destroy(options));
    CHECK_OK(waxseal_family_options_json(family, &text, &error));
    CHECK_SAYS("{\"order\":\"wax.bytewise\",", (const char *)waxseal_bytes_slice(text).data);
    CHECK_SAYS("\"level0_tables\":9,", (const char *)waxseal_bytes_slice(text).data);
    CHECK_SAYS("\"fanout\":10,", (const char *)waxseal_bytes_slice(text).data);
    CHECK_SAYS("\"merge_operator\":null,", (const char *)waxseal_bytes_slice(text).data);
    CHECK_OK(waxseal_bytes_destroy(text));
    CHECK_OK(waxseal_set_option(db, LIT("cache_bytes"), LIT("1000000"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_set_option(db, LIT("cache_bytes"), LIT("-1"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_set_option(db, LIT("memtable_bytes"), LIT("1000000"), &error));
    CHECK_OK(waxseal_options_json(db, &text, &error));
    CHECK_SAYS("\"cache_bytes\":1000000,", (const char *)waxseal_bytes_slice(text).data);
    CHECK_OK(waxseal_bytes_destroy(text));
    end_store(db, family);
}

static int operator_ended;

static void end_operator(void *context) {
    CHECK(context == &operator_ended);
    operator_ended++;
}

/* The base in brackets, and the operands behind it. An operand "!" fails, with a reason. An operand "?" leaves no value. */
static int32_t bracketed(void *context, const uint8_t *key, size_t key_len, const waxseal_slice_t *base,
                         const waxseal_slice_t *operands, size_t count, waxseal_bytes_t **merged, waxseal_error_t **failure) {
    char text[64] = "[";
    size_t len = 1, i;
    CHECK(context == &operator_ended && key_len == 1 && *key == 'k' && count > 0);
    if (base) memcpy(text + len, base->data, base->len), len += base->len;
    text[len++] = ']';
    for (i = 0; i < count; i++) {
        if (operands[i].len == 1 && *operands[i].data == '!') {
            *failure = waxseal_error_create(-99, LIT("no exclamations"));
            return -99;
        }
        if (operands[i].len == 1 && *operands[i].data == '?') return WAXSEAL_OK;
        memcpy(text + len, operands[i].data, operands[i].len);
        len += operands[i].len;
    }
    return waxseal_bytes_create((const uint8_t *)text, len, merged, failure);
}

static void a_merge_operator_by_a_callback(void) {
    bool is_associative;
    operator_ended = 0;
    for (is_associative = false;; is_associative = true) {
        waxseal_family_t *family, *merged;
        waxseal_db_t *db = memory_store(&family);
        waxseal_family_options_t *options = NULL;
        waxseal_bytes_t *value = NULL;
        CHECK_OK(waxseal_family_options_create(&options, &error));
        CHECK_OK(waxseal_family_options_set_custom_merge_operator(options, LIT("test.bracketed"), bracketed, is_associative,
                                                                  &operator_ended, end_operator, &error));
        merged = merged_family(db, options);
        CHECK_OK(waxseal_merge(merged, LIT("k"), LIT("a"), &error));
        CHECK_OK(waxseal_merge(merged, LIT("k"), LIT("b"), &error));
        check_value(merged, is_associative ? "[a]b" : "[]ab");
        CHECK_OK(waxseal_put(merged, LIT("k"), LIT("v"), &error));
        CHECK_OK(waxseal_merge(merged, LIT("k"), LIT("c"), &error));
        check_value(merged, "[v]c");
        CHECK_OK(waxseal_merge(merged, LIT("k"), LIT("!"), &error));
        CHECK_FAILS(WAXSEAL_CALLBACK, waxseal_get(merged, NULL, LIT("k"), &value, &error));
        CHECK_SAYS("no exclamations", waxseal_error_message(error));
        CHECK_SAYS("test.bracketed", waxseal_error_message(error));
        CHECK_OK(waxseal_put(merged, LIT("k"), LIT("w"), &error));
        CHECK_OK(waxseal_merge(merged, LIT("k"), LIT("?"), &error));
        CHECK_FAILS(WAXSEAL_CALLBACK, waxseal_get(merged, NULL, LIT("k"), &value, &error));
        CHECK_SAYS("no merged value", waxseal_error_message(error));
        CHECK_OK(waxseal_family_destroy(merged));
        end_store(db, family);
        if (is_associative) break;
    }
    CHECK_NUMBER(2, operator_ended);
}

static void merge_operators_that_cannot_be_are_refused(void) {
    waxseal_family_t *family, *merged = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_family_options_t *options = NULL;
    operator_ended = 0;
    CHECK_OK(waxseal_family_options_create(&options, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_options_set_custom_merge_operator(options, LIT("name"), NULL, true, &operator_ended,
                                                                                  end_operator, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_options_set_custom_merge_operator(options, LIT("\xff"), bracketed, true,
                                                                                  &operator_ended, end_operator, &error));
    CHECK_NUMBER(2, operator_ended);
    CHECK_OK(waxseal_family_options_set_custom_merge_operator(options, LIT("wax.mine"), bracketed, true, &operator_ended, end_operator,
                                                              &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_create(db, LIT("merged"), options, &merged, &error));
    CHECK_OK(waxseal_family_options_destroy(options));
    CHECK_NUMBER(3, operator_ended);
    end_store(db, family);
}

/* Drops values "d", changes values "c", and fails for values "!" and "?". */
static int32_t by_letter(void *context, const uint8_t *key, size_t key_len, const uint8_t *value, size_t value_len,
                         waxseal_bytes_t **changed, waxseal_error_t **failure) {
    CHECK(context == &operator_ended && key && key_len >= 1);
    if (value_len == 0) return *key == 'd' ? WAXSEAL_FILTER_DROP : WAXSEAL_FILTER_KEEP;
    switch (*value) {
    case 'd': return WAXSEAL_FILTER_DROP;
    case 'c':
        if (waxseal_bytes_create((const uint8_t *)"changed", 7, changed, failure) != WAXSEAL_OK) return -99;
        return WAXSEAL_FILTER_CHANGE;
    case '!': *failure = waxseal_error_create(-99, LIT("no exclamations")); return -99;
    case '?': return WAXSEAL_FILTER_CHANGE;
    case '9': return 9;
    case '0': return 0; /* as a callback that was cut short */
    default: return WAXSEAL_FILTER_KEEP;
    }
}

static void a_family_filters_in_compactions(void) {
    bool by_key;
    operator_ended = 0;
    for (by_key = false;; by_key = true) {
        waxseal_family_t *family, *filtered = NULL;
        waxseal_db_t *db = memory_store(&family);
        waxseal_family_options_t *options = NULL;
        waxseal_bytes_t *value = NULL;
        uint64_t count = 0;
        CHECK_OK(waxseal_family_options_create(&options, &error));
        CHECK_OK(waxseal_family_options_set_compaction_filter(options, LIT("test.letters"), by_letter, by_key, &operator_ended,
                                                              end_operator, &error));
        CHECK_OK(waxseal_family_create(db, LIT("filtered"), options, &filtered, &error));
        CHECK_OK(waxseal_family_options_destroy(options));
        CHECK_OK(waxseal_put(filtered, LIT("d"), LIT("d"), &error));
        CHECK_OK(waxseal_put(filtered, LIT("k"), LIT("c"), &error));
        CHECK_OK(waxseal_put(filtered, LIT("x"), LIT("!"), &error));
        CHECK_OK(waxseal_put(filtered, LIT("y"), LIT("?"), &error));
        CHECK_OK(waxseal_put(filtered, LIT("z"), LIT("9"), &error));
        CHECK_OK(waxseal_put(filtered, LIT("zz"), LIT("0"), &error));
        CHECK_OK(waxseal_compact(filtered, &error));
        CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(filtered, NULL, LIT("d"), &error));
        check_value(filtered, by_key ? "c" : "changed");
        CHECK_OK(waxseal_get(filtered, NULL, LIT("x"), &value, &error));
        CHECK_OK(waxseal_bytes_destroy(value));
        CHECK_OK(waxseal_metric(db, LIT("filter_dropped"), &count, &error));
        CHECK_NUMBER(1, count);
        CHECK_OK(waxseal_metric(db, LIT("filter_failures"), &count, &error));
        CHECK_NUMBER(by_key ? 0 : 4, count);
        CHECK_OK(waxseal_family_destroy(filtered));
        end_store(db, family);
        if (by_key) break;
    }
    CHECK_NUMBER(2, operator_ended);
}

static void compaction_filters_that_cannot_be_are_refused(void) {
    waxseal_family_t *family, *filtered = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_family_options_t *options = NULL;
    operator_ended = 0;
    CHECK_OK(waxseal_family_options_create(&options, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_options_set_compaction_filter(options, LIT("name"), NULL, true, &operator_ended,
                                                                              end_operator, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_options_set_compaction_filter(options, LIT("\xff"), by_letter, true,
                                                                              &operator_ended, end_operator, &error));
    CHECK_NUMBER(2, operator_ended);
    CHECK_OK(waxseal_family_options_set_compaction_filter(options, NULL, 0, by_letter, true, &operator_ended, end_operator, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_family_create(db, LIT("filtered"), options, &filtered, &error));
    CHECK_OK(waxseal_family_options_destroy(options));
    CHECK_NUMBER(3, operator_ended);
    end_store(db, family);
}

static void a_merge_operator_is_found_by_its_name(void) {
    const char *path = fresh_path();
    waxseal_options_t *options = NULL;
    waxseal_family_options_t *merging = NULL;
    waxseal_family_t *merged = NULL;
    waxseal_db_t *db = NULL;
    waxseal_bytes_t *value = NULL;
    int round;
    operator_ended = 0;
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_options_add_merge_operator(options, LIT("test.bracketed"), NULL, true, &operator_ended,
                                                                    end_operator, &error));
    CHECK_NUMBER(1, operator_ended);
    CHECK_OK(waxseal_family_options_create(&merging, &error));
    CHECK_OK(waxseal_family_options_set_custom_merge_operator(merging, LIT("test.bracketed"), bracketed, true, &operator_ended,
                                                              end_operator, &error));
    for (round = 0; round < 3; round++) {
        if (round == 2) {
            CHECK_OK(waxseal_options_add_merge_operator(options, LIT("test.bracketed"), bracketed, true, &operator_ended,
                                                        end_operator, &error));
        }
        CHECK_OK(waxseal_open(STR(path), options, &db, &error));
        if (round == 0) {
            CHECK_OK(waxseal_family_create(db, LIT("merged"), merging, &merged, &error));
            CHECK_OK(waxseal_put(merged, LIT("k"), LIT("v"), &error));
            CHECK_OK(waxseal_merge(merged, LIT("k"), LIT("a"), &error));
        } else {
            CHECK_OK(waxseal_family_open(db, LIT("merged"), &merged, &error));
        }
        if (round == 1) {
            CHECK_FAILS(WAXSEAL_INVALID, waxseal_get(merged, NULL, LIT("k"), &value, &error));
        } else {
            check_value(merged, "[v]a");
        }
        CHECK_OK(waxseal_family_destroy(merged));
        CHECK_OK(waxseal_close(db, &error));
    }
    CHECK_OK(waxseal_family_options_destroy(merging));
    CHECK_OK(waxseal_options_destroy(options));
    CHECK_NUMBER(3, operator_ended);
}

int main(void) {
    RUN(a_family_is_made_on_first_use);
    RUN(a_family_is_found_and_not_made);
    RUN(a_family_has_options_of_its_own);
    RUN(names_that_cannot_be_are_refused);
    RUN(families_are_listed_and_dropped);
    RUN(families_are_cleared_together);
    RUN(a_family_is_read_under_another_policy);
    RUN(scans_skip_tables_without_their_prefix);
    RUN(a_family_merges_operands);
    RUN(options_change_while_the_store_is_open);
    RUN(a_merge_operator_by_a_callback);
    RUN(merge_operators_that_cannot_be_are_refused);
    RUN(a_family_filters_in_compactions);
    RUN(compaction_filters_that_cannot_be_are_refused);
    RUN(a_merge_operator_is_found_by_its_name);
    return done();
}
