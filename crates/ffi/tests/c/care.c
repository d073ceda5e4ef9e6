/* Care of a store that lies on a device which forgets: verify, scrub, repair with a source and a handler, salvage. */
#include "damage.h"

#define ROWS 2000

static const char *row_key(int row) {
    static char key[16];
    snprintf(key, sizeof key, "key%06d", row);
    return key;
}

/* Not to be made again from less than all of it. */
static const char *row_value(int row) {
    static char value[64];
    snprintf(value, sizeof value, "value of row %d, %u", row, 2654435761u * (unsigned)row);
    return value;
}

/* Opened without compression, so that a test can find a row in its file. */
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

static void fill(waxseal_db_t *db, waxseal_family_t *family) {
    waxseal_batch_t *batch = NULL;
    CHECK_OK(waxseal_batch_create(db, &batch, &error));
    for (int row = 0; row < ROWS; row++)
        CHECK_OK(waxseal_batch_put(batch, family, STR(row_key(row)), STR(row_value(row)), &error));
    CHECK_OK(waxseal_batch_commit(batch, WAXSEAL_DURABILITY_SYNC, &error));
    CHECK_OK(waxseal_batch_destroy(batch));
}

/* A store with rows in a table, of which one is damaged and nothing else holds it. */
static const char *damaged_store(void) {
    static char path[4096];
    waxseal_family_t *family = NULL;
    waxseal_db_t *db;
    strcpy(path, fresh_path());
    db = open_at(path, &family);
    fill(db, family);
    CHECK_OK(waxseal_flush(db, &error));
    end_store(db, family);
    damage_value(path, row_value(ROWS / 2));
    return path;
}

static waxseal_counts_t counts_of(waxseal_report_t *report) {
    waxseal_counts_t counts;
    memset(&counts, 0, sizeof counts);
    CHECK_OK(waxseal_report_counts(report, &counts));
    return counts;
}

/* Functions of the caller, and what they were asked. */
typedef struct {
    waxseal_db_t *db;         /* to be called from inside */
    waxseal_family_t *replica; /* where a source looks */
    int32_t inside, inside_other, decision;
    int told, stop_after, looked, fails, handled, hands_nonsense;
} asked_t;

static int32_t on_progress(void *context, const waxseal_progress_t *progress) {
    asked_t *asked = context;
    asked->told++;
    if (asked->db) asked->inside = waxseal_flush(asked->db, NULL);
    return progress->done > progress->total + (1 << 20) || (asked->stop_after && asked->told >= asked->stop_after);
}

static int32_t on_source(void *context, const waxseal_wanted_t *wanted, waxseal_found_fn found, void *answer,
                         waxseal_error_t **reason) {
    asked_t *asked = context;
    waxseal_range_t range = {{WAXSEAL_INCLUDED, NULL, 0}, {WAXSEAL_INCLUDED, NULL, 0}};
    waxseal_iter_t *iter = NULL;
    waxseal_row_t row;
    asked->looked++;
    if (asked->db) asked->inside = waxseal_flush(asked->db, NULL);
    if (asked->fails) {
        *reason = waxseal_error_create(WAXSEAL_IO, LIT("the replica is away"));
        return WAXSEAL_IO;
    }
    if (asked->hands_nonsense) {
        CHECK(found(answer, 17, LIT("key"), LIT("value")) == WAXSEAL_INVALID);
        CHECK(found(answer, WAXSEAL_KIND_PUT, NULL, 4, LIT("value")) == WAXSEAL_INVALID);
        CHECK(found(NULL, WAXSEAL_KIND_PUT, LIT("key"), LIT("value")) == WAXSEAL_INVALID);
        return WAXSEAL_OK;
    }
    range.lower.key = wanted->low.data;
    range.lower.key_len = wanted->low.len;
    range.upper.key = wanted->high.data;
    range.upper.key_len = wanted->high.len;
    asked->inside_other = waxseal_iter_create(asked->replica, NULL, &range, &iter, reason);
    if (asked->inside_other < 0) return asked->inside_other;
    while (waxseal_iter_next(iter, &row, reason) == WAXSEAL_OK)
        found(answer, WAXSEAL_KIND_PUT, row.key.data, row.key.len, row.value.data, row.value.len);
    waxseal_iter_destroy(iter);
    return WAXSEAL_OK;
}

static int32_t on_loss(void *context, const waxseal_loss_t *loss) {
    asked_t *asked = context;
    asked->handled++;
    CHECK_BYTES("default", loss->family);
    CHECK(loss->file.len > 0 && loss->verdict != WAXSEAL_VERDICT_NONE);
    if (asked->db) asked->inside = waxseal_flush(asked->db, NULL);
    return asked->decision;
}

static void a_whole_store_is_clean(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_report_t *report = NULL;
    waxseal_counts_t counts;
    waxseal_damage_t found;
    waxseal_resume_t resume;
    fill(db, family);
    CHECK_OK(waxseal_flush(db, &error));
    CHECK_OK(waxseal_verify(db, NULL, &report, &error));
    counts = counts_of(report);
    CHECK(counts.is_clean && !counts.cancelled && counts.damage == 0 && counts.corrupted == 0);
    CHECK(counts.records >= ROWS && counts.validated == counts.records && counts.files > 0 && counts.bytes > 0);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_report_damage(report, 0, &found));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_report_resume(report, &resume));
    CHECK_SAYS("{\"ok\":true,", waxseal_report_json(report));
    CHECK_SAYS("no damage", waxseal_report_text(report));
    CHECK_OK(waxseal_report_destroy(report));
    CHECK_STATUS(WAXSEAL_CLOSED, waxseal_report_destroy(report));
    CHECK(*waxseal_report_json(report) == 0);
    CHECK_OK(waxseal_repair(db, NULL, &report, &error));
    CHECK(counts_of(report).is_clean);
    CHECK_OK(waxseal_report_destroy(report));
    end_store(db, family);
}

static void damage_is_found_open_and_closed(void) {
    const char *path = damaged_store();
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = NULL;
    waxseal_report_t *report = NULL;
    waxseal_damage_t found;
    waxseal_care_options_t *care = NULL;
    CHECK_OK(waxseal_verify_closed(STR(path), NULL, NULL, &report, &error));
    CHECK(counts_of(report).damage > 0 && !counts_of(report).is_clean);
    CHECK_OK(waxseal_report_destroy(report));
    db = open_at(path, &family);
    CHECK_OK(waxseal_care_options_create(&care, &error));
    CHECK_OK(waxseal_care_options_add_family(care, LIT("default"), &error));
    CHECK_OK(waxseal_verify(db, care, &report, &error));
    CHECK_OK(waxseal_report_damage(report, 0, &found));
    CHECK(found.file.len > 4 && found.offset > 0 && found.verdict != WAXSEAL_VERDICT_NONE);
    CHECK_BYTES("default", found.family);
    CHECK_NUMBER(WAXSEAL_OUTCOME_REPORTED, found.outcome);
    CHECK(found.has_keys && found.from.len > 0 && found.to.len > 0);
    CHECK_SAYS("\"outcome\":\"reported\"", waxseal_report_json(report));
    CHECK_OK(waxseal_report_destroy(report));
    CHECK_OK(waxseal_care_options_add_family(care, LIT("nowhere"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_verify(db, care, &report, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_care_options_add_family(care, LIT("\xff"), &error));
    CHECK_OK(waxseal_care_options_destroy(care));
    end_store(db, family);
}

static void a_source_brings_back_what_was_lost(void) {
    const char *path = damaged_store();
    asked_t asked = {0};
    waxseal_family_t *family = NULL;
    waxseal_db_t *db, *second = memory_store(&asked.replica);
    waxseal_report_t *report = NULL;
    waxseal_care_options_t *care = NULL;
    waxseal_damage_t found;
    waxseal_bytes_t *value = NULL;
    int32_t rung = -1;
    bool helped = false;
    fill(second, asked.replica);
    db = open_at(path, &family);
    asked.db = db;
    CHECK_OK(waxseal_care_options_create(&care, &error));
    CHECK_OK(waxseal_care_options_set_source(care, on_source, &asked));
    CHECK_OK(waxseal_care_options_set_max_retries(care, 2));
    CHECK_OK(waxseal_repair(db, care, &report, &error));
    CHECK(asked.looked > 0);
    CHECK_NUMBER(WAXSEAL_INVALID, asked.inside);
    CHECK_NUMBER(WAXSEAL_OK, asked.inside_other);
    CHECK(counts_of(report).is_clean && counts_of(report).repaired > 0 && counts_of(report).lost == 0);
    CHECK_OK(waxseal_report_damage(report, 0, &found));
    CHECK_NUMBER(WAXSEAL_OUTCOME_REPAIRED, found.outcome);
    CHECK_NUMBER(WAXSEAL_RUNG_SOURCE, found.rung);
    CHECK(found.steps > 0);
    CHECK_OK(waxseal_report_step(report, 0, found.steps - 1, &rung, &helped));
    CHECK(rung == WAXSEAL_RUNG_SOURCE && helped);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_report_step(report, 0, found.steps, &rung, &helped));
    CHECK_OK(waxseal_report_destroy(report));
    for (int row = 0; row < ROWS; row++) {
        CHECK_OK(waxseal_get(family, NULL, STR(row_key(row)), &value, &error));
        CHECK_BYTES(row_value(row), waxseal_bytes_slice(value));
        CHECK_OK(waxseal_bytes_destroy(value));
    }
    CHECK_OK(waxseal_care_options_destroy(care));
    end_store(second, asked.replica);
    end_store(db, family);
}

static void a_handler_decides_and_losses_are_told(void) {
    const char *path = damaged_store();
    asked_t asked = {0};
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = open_at(path, &family);
    waxseal_report_t *report = NULL;
    waxseal_care_options_t *care = NULL;
    waxseal_damage_t found;
    waxseal_bytes_t *value = NULL;
    int32_t status;
    int gone = 0;
    asked.db = db;
    asked.fails = 1;
    asked.decision = 99; /* no decision that there is: the table stays as it is */
    CHECK_OK(waxseal_care_options_create(&care, &error));
    CHECK_OK(waxseal_care_options_set_source(care, on_source, &asked));
    CHECK_OK(waxseal_care_options_set_max_retries(care, 2));
    CHECK_OK(waxseal_care_options_set_handler(care, on_loss, &asked));
    CHECK_OK(waxseal_repair(db, care, &report, &error));
    CHECK(asked.handled > 0 && asked.looked >= 2);
    CHECK_NUMBER(WAXSEAL_INVALID, asked.inside);
    CHECK_OK(waxseal_report_damage(report, 0, &found));
    CHECK_NUMBER(WAXSEAL_OUTCOME_BARRED, found.outcome);
    CHECK_OK(waxseal_report_destroy(report));
    asked.fails = 0;
    asked.hands_nonsense = 1;
    asked.decision = WAXSEAL_DECISION_QUARANTINE;
    CHECK_OK(waxseal_repair(db, care, &report, &error));
    CHECK_OK(waxseal_report_damage(report, 0, &found));
    CHECK_NUMBER(WAXSEAL_OUTCOME_FENCED, found.outcome);
    CHECK(counts_of(report).lost > 0);
    CHECK_OK(waxseal_report_destroy(report));
    for (int row = 0; row < ROWS; row++) {
        status = waxseal_get(family, NULL, STR(row_key(row)), &value, &error);
        if (status == WAXSEAL_OK) {
            CHECK_BYTES(row_value(row), waxseal_bytes_slice(value));
            CHECK_OK(waxseal_bytes_destroy(value));
        } else {
            CHECK_STATUS(WAXSEAL_CORRUPTION, status);
            gone++;
        }
    }
    CHECK(gone > 0 && gone < ROWS / 2);
    CHECK_OK(waxseal_care_options_set_source(care, NULL, NULL));
    CHECK_OK(waxseal_care_options_set_accept_loss(care, true));
    CHECK_OK(waxseal_repair(db, care, &report, &error));
    CHECK_OK(waxseal_report_destroy(report));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_get(family, NULL, LIT("key"), &value, &error));
    CHECK_OK(waxseal_verify(db, NULL, &report, &error));
    CHECK(counts_of(report).is_clean);
    CHECK_OK(waxseal_report_destroy(report));
    CHECK_OK(waxseal_care_options_destroy(care));
    end_store(db, family);
}

static void a_scrub_goes_on_where_it_stopped(void) {
    const char *path = fresh_path();
    asked_t asked = {0};
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = open_at(path, &family);
    waxseal_report_t *report = NULL;
    waxseal_care_options_t *care = NULL;
    waxseal_resume_t resume;
    uint64_t bytes = 0, whole;
    int passes = 0;
    fill(db, family);
    CHECK_OK(waxseal_flush(db, &error));
    asked.db = db;
    CHECK_OK(waxseal_scrub(db, NULL, &report, &error));
    whole = counts_of(report).bytes;
    CHECK_OK(waxseal_report_destroy(report));
    CHECK_OK(waxseal_care_options_create(&care, &error));
    CHECK_OK(waxseal_care_options_set_most_bytes(care, 16384));
    CHECK_OK(waxseal_care_options_set_bytes_per_second(care, (uint64_t)1 << 40));
    CHECK_OK(waxseal_care_options_set_progress(care, on_progress, &asked));
    CHECK_OK(waxseal_care_options_set_repair(care, true));
    do {
        CHECK_OK(waxseal_scrub(db, care, &report, &error));
        bytes += counts_of(report).bytes;
        passes++;
        if (waxseal_report_resume(report, &resume) != WAXSEAL_OK) break;
        CHECK_OK(waxseal_care_options_set_resume(care, &resume));
        CHECK_OK(waxseal_report_destroy(report));
    } while (passes < 1000);
    CHECK_OK(waxseal_report_destroy(report));
    CHECK(passes > 1 && bytes >= whole);
    CHECK(asked.told > 0);
    CHECK_NUMBER(WAXSEAL_INVALID, asked.inside);
    CHECK_OK(waxseal_care_options_set_resume(care, NULL));
    CHECK_OK(waxseal_care_options_set_most_bytes(care, 0));
    asked.told = 0;
    asked.stop_after = 2;
    CHECK_OK(waxseal_scrub(db, care, &report, &error));
    CHECK(counts_of(report).cancelled);
    CHECK_OK(waxseal_report_destroy(report));
    CHECK_OK(waxseal_care_options_destroy(care));
    end_store(db, family);
}

static void a_salvage_reads_what_can_be_read(void) {
    char from[4096], to[4096];
    waxseal_family_t *family = NULL;
    waxseal_db_t *db;
    waxseal_report_t *report = NULL;
    waxseal_care_options_t *care = NULL;
    strcpy(from, damaged_store());
    strcpy(to, fresh_path());
    CHECK_OK(waxseal_care_options_create(&care, &error));
    CHECK_OK(waxseal_care_options_set_accept_loss(care, true));
    CHECK_OK(waxseal_salvage(STR(from), STR(to), NULL, care, &report, &error));
    CHECK(counts_of(report).records > ROWS / 2 && counts_of(report).damage > 0);
    CHECK_OK(waxseal_report_destroy(report));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_salvage(STR(from), STR(to), NULL, care, &report, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_salvage(STR(from), LIT(""), NULL, care, &report, &error));
    CHECK_OK(waxseal_care_options_destroy(care));
    db = open_at(to, &family);
    CHECK_OK(waxseal_contains(family, NULL, STR(row_key(0)), &error));
    end_store(db, family);
}

static void a_pass_refuses_what_it_does_not_know(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_report_t *report = NULL;
    waxseal_care_options_t *care = NULL;
    CHECK_OK(waxseal_care_options_create(&care, &error));
    CHECK_OK(waxseal_care_options_set_trash(care, LIT("/nowhere"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_verify(db, care, &report, &error));
    CHECK_SAYS("a trash directory", waxseal_error_message(error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_scrub(db, care, &report, &error));
    CHECK_OK(waxseal_care_options_set_repair(care, true));
    CHECK_OK(waxseal_care_options_set_trash(care, NULL, 0, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_repair(db, care, &report, &error));
    CHECK_SAYS("whether it repairs", waxseal_error_message(error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_care_options_set_trash(care, (const uint8_t *)"a\0b", 3, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_verify(db, NULL, NULL, &error));
    CHECK(report == NULL);
    CHECK_OK(waxseal_care_options_destroy(care));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_care_options_add_family(care, LIT("default"), &error));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_care_options_set_trash(care, LIT("trash"), &error));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_verify(db, care, &report, &error));
    end_store(db, family);
}

int main(void) {
    RUN(a_whole_store_is_clean);
    RUN(damage_is_found_open_and_closed);
    RUN(a_source_brings_back_what_was_lost);
    RUN(a_handler_decides_and_losses_are_told);
    RUN(a_scrub_goes_on_where_it_stopped);
    RUN(a_salvage_reads_what_can_be_read);
    RUN(a_pass_refuses_what_it_does_not_know);
    return done();
}
