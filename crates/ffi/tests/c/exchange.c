/* Exchange: parts of a store as table files, out and in. */
#include "harness.h"

static waxseal_range_t between(const char *from, const char *to) {
    waxseal_range_t range = {{WAXSEAL_INCLUDED, NULL, 0}, {WAXSEAL_EXCLUDED, NULL, 0}};
    range.lower.key = (const uint8_t *)from;
    range.lower.key_len = strlen(from);
    range.upper.key = (const uint8_t *)to;
    range.upper.key_len = strlen(to);
    return range;
}

static waxseal_db_t *giver_at(waxseal_family_t **family) {
    const char *path = fresh_path();
    waxseal_db_t *db = NULL;
    CHECK_OK(waxseal_open(STR(path), NULL, &db, &error));
    CHECK_OK(waxseal_family_open(db, LIT("default"), family, &error));
    CHECK_OK(waxseal_put(*family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_put(*family, LIT("b"), LIT("2"), &error));
    CHECK_OK(waxseal_put(*family, LIT("c"), LIT("3"), &error));
    return db;
}

static void what_was_exported_arrives_with_its_seals(void) {
    char parcel[4096];
    const char *path;
    waxseal_family_t *giver = NULL, *taker = NULL;
    waxseal_db_t *from = giver_at(&giver), *to = NULL;
    waxseal_export_options_t *options = NULL;
    waxseal_exported_t exported;
    waxseal_imported_t imported;
    waxseal_digest_t here, there;
    strcpy(parcel, fresh_path());
    path = fresh_path();
    CHECK_OK(waxseal_open(STR(path), NULL, &to, &error));
    CHECK_OK(waxseal_family_open(to, LIT("default"), &taker, &error));
    CHECK_OK(waxseal_export_options_create(&options, &error));
    CHECK_OK(waxseal_export_options_set_policy(options, WAXSEAL_POLICY_COMPANION));
    CHECK_OK(waxseal_export_options_allow(options, WAXSEAL_PROVIDER_LABELS));
    CHECK_OK(waxseal_export(giver, NULL, STR(parcel), options, &exported, &error));
    CHECK(exported.records == 3 && exported.files == 1 && exported.unsealed == 0 && exported.companion_bytes > 0);
    CHECK_OK(waxseal_import(taker, STR(parcel), &imported, &error));
    CHECK(imported.records == 3 && imported.sealed == 3 && imported.unsealed == 0 && imported.seqno > 0);
    CHECK_OK(waxseal_digest(giver, NULL, NULL, &here, &error));
    CHECK_OK(waxseal_digest(taker, NULL, NULL, &there, &error));
    CHECK(here.sum == there.sum && here.sum == exported.sum);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_export(giver, NULL, STR(parcel), options, NULL, &error));
    CHECK_SAYS("holds an export", waxseal_error_message(error));
    CHECK_OK(waxseal_export_options_destroy(options));
    end_store(to, taker);
    end_store(from, giver);
}

static void ranges_versions_and_snapshots_are_chosen(void) {
    char parcel[4096], table[4352];
    waxseal_family_t *giver = NULL, *taker = NULL;
    waxseal_db_t *from = giver_at(&giver), *to = memory_store(&taker);
    waxseal_snapshot_t *before = NULL;
    waxseal_export_options_t *options = NULL;
    waxseal_exported_t exported;
    waxseal_range_t first = between("a", "b"), last = between("c", "z");
    CHECK_OK(waxseal_snapshot_create(from, &before, &error));
    CHECK_OK(waxseal_put(giver, LIT("aa"), LIT("later"), &error));
    CHECK_OK(waxseal_export_options_create(&options, &error));
    CHECK_OK(waxseal_export_options_add_range(options, &first));
    CHECK_OK(waxseal_export_options_add_range(options, &last));
    CHECK_OK(waxseal_export_options_set_seqno(options, 7));
    strcpy(parcel, fresh_path());
    CHECK_OK(waxseal_export(giver, before, STR(parcel), options, &exported, &error));
    CHECK_NUMBER(2, exported.records);
    CHECK_OK(waxseal_export_options_set_all_versions(options, true));
    strcpy(table, fresh_path());
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_export(giver, before, STR(table), options, &exported, &error));
    CHECK_OK(waxseal_export_options_add_range(options, &first)); /* it meets those before */
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_export(giver, NULL, STR(table), options, &exported, &error));
    first.lower.kind = 9;
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_export_options_add_range(options, &first));
    CHECK_OK(waxseal_export_options_destroy(options));
    CHECK_OK(waxseal_snapshot_destroy(before));
    end_store(to, taker);
    end_store(from, giver);
}

static void bare_tables_come_in(void) {
    char parcel[4096], table[4352];
    const char *path;
    waxseal_family_t *giver = NULL, *taker = NULL;
    waxseal_db_t *from = giver_at(&giver), *to = NULL;
    waxseal_imported_t imported;
    waxseal_slice_t paths[1];
    strcpy(parcel, fresh_path());
    path = fresh_path();
    CHECK_OK(waxseal_open(STR(path), NULL, &to, &error));
    CHECK_OK(waxseal_family_open(to, LIT("default"), &taker, &error));
    CHECK_OK(waxseal_export(giver, NULL, STR(parcel), NULL, NULL, &error));
    snprintf(table, sizeof table, "%s/000001.tbl", parcel);
    paths[0].data = (const uint8_t *)table;
    paths[0].len = strlen(table);
    CHECK_OK(waxseal_import_tables(taker, paths, 1, WAXSEAL_FORM_PLAIN, &imported, &error));
    CHECK(imported.records == 3 && imported.sealed == 3); /* the default export has seals, whatever form the caller names */
    CHECK_OK(waxseal_contains(taker, NULL, LIT("b"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_import_tables(taker, paths, 1, 12, &imported, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_import_tables(taker, NULL, 1, WAXSEAL_FORM_PLAIN, &imported, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_import_tables(taker, paths, SIZE_MAX / 2, WAXSEAL_FORM_PLAIN, &imported, &error));
    end_store(to, taker);
    end_store(from, giver);
}

static void an_export_counts_what_it_leaves_behind(void) {
    char kept[4096], stripped[4096];
    waxseal_family_t *giver = NULL;
    waxseal_db_t *from = giver_at(&giver);
    waxseal_export_options_t *options = NULL;
    waxseal_exported_t exported;
    strcpy(kept, fresh_path());
    strcpy(stripped, fresh_path());
    CHECK_OK(waxseal_export_options_create(&options, &error));
    CHECK_OK(waxseal_export_options_allow(options, WAXSEAL_PROVIDER_ETL)); /* beside the labels of the default policy */
    CHECK_OK(waxseal_export(giver, NULL, STR(kept), options, &exported, &error));
    CHECK(exported.unsealed == 0 && exported.companion_bytes > 0 && exported.seals_left == 0 && exported.bytes_left == 0);
    CHECK_OK(waxseal_export_options_destroy(options));
    CHECK_OK(waxseal_export_options_create(&options, &error));
    CHECK_OK(waxseal_export_options_set_policy(options, WAXSEAL_POLICY_STRIP));
    CHECK_OK(waxseal_export(giver, NULL, STR(stripped), options, &exported, &error));
    CHECK_NUMBER(3, exported.seals_left);
    CHECK(exported.companion_bytes == 0 && exported.bytes_left > 0 && exported.stamps_left == 0);
    CHECK(exported.entries_left == 0 && exported.expired == 0);
    CHECK_OK(waxseal_export_options_destroy(options));
    end_store(from, giver);
}

static void a_damaged_parcel_changes_nothing(void) {
    char parcel[4096], table[4352];
    waxseal_family_t *giver = NULL, *taker = NULL;
    waxseal_db_t *from = giver_at(&giver), *to = NULL;
    const char *path;
    FILE *file;
    strcpy(parcel, fresh_path());
    path = fresh_path();
    CHECK_OK(waxseal_open(STR(path), NULL, &to, &error));
    CHECK_OK(waxseal_family_open(to, LIT("default"), &taker, &error));
    CHECK_OK(waxseal_export(giver, NULL, STR(parcel), NULL, NULL, &error));
    snprintf(table, sizeof table, "%s/000001.tbl", parcel);
    file = fopen(table, "r+b");
    CHECK(file != NULL);
    fseek(file, 80, SEEK_SET);
    fputc(0xEE, file);
    fputc(0xEE, file);
    fclose(file);
    CHECK_FAILS(WAXSEAL_CORRUPTION, waxseal_import(taker, STR(parcel), NULL, &error));
    CHECK_SAYS("000001.tbl", waxseal_error_file(error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(taker, NULL, LIT("a"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_import(taker, LIT("/nowhere"), NULL, &error));
    end_store(to, taker);
    end_store(from, giver);
}

static void policies_that_cannot_be_are_refused(void) {
    char parcel[4096];
    waxseal_family_t *giver = NULL;
    waxseal_db_t *from = giver_at(&giver);
    waxseal_export_options_t *options = NULL;
    waxseal_exported_t exported;
    strcpy(parcel, fresh_path());
    CHECK_OK(waxseal_export_options_create(&options, &error));
    CHECK_OK(waxseal_export_options_set_policy(options, 8));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_export(giver, NULL, STR(parcel), options, NULL, &error));
    CHECK_OK(waxseal_export_options_set_policy(options, WAXSEAL_POLICY_PAPER_LITERAL));
    CHECK_OK(waxseal_put(giver, LIT("a\001"), LIT("x"), &error)); /* what the paper's row of `a` would hide */
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_export(giver, NULL, STR(parcel), options, NULL, &error));
    CHECK_OK(waxseal_export_options_set_policy(options, WAXSEAL_POLICY_PAPER_SAFE));
    CHECK_OK(waxseal_delete(giver, LIT("a\001"), &error));
    CHECK_OK(waxseal_export(giver, NULL, STR(parcel), options, &exported, &error));
    CHECK_NUMBER(3, exported.rows);
    CHECK_OK(waxseal_export_options_set_policy(options, WAXSEAL_POLICY_STRIP));
    CHECK_OK(waxseal_export_options_allow(options, WAXSEAL_PROVIDER_ETL));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_export(giver, NULL, STR(parcel), options, NULL, &error));
    CHECK_OK(waxseal_export_options_destroy(options));
    end_store(from, giver);
}

int main(void) {
    RUN(what_was_exported_arrives_with_its_seals);
    RUN(ranges_versions_and_snapshots_are_chosen);
    RUN(bare_tables_come_in);
    RUN(an_export_counts_what_it_leaves_behind);
    RUN(a_damaged_parcel_changes_nothing);
    RUN(policies_that_cannot_be_are_refused);
    return done();
}
