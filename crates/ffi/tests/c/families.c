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

int main(void) {
    RUN(a_family_is_made_on_first_use);
    RUN(a_family_has_options_of_its_own);
    RUN(names_that_cannot_be_are_refused);
    RUN(families_are_listed_and_dropped);
    RUN(a_family_is_read_under_another_policy);
    return done();
}
