/* What the engine does, told to a function in C, also while that function misbehaves. */
#include <pthread.h>

#include "harness.h"

/* What was heard; the store's threads tell it. */
typedef struct {
    pthread_mutex_t lock;
    waxseal_db_t *db; /* to be called from inside, if not null */
    waxseal_family_t *family;
    int32_t inside_flush, inside_put, inside_get, inside_close;
    int flushed, compacted, recovered, ended;
    size_t inputs, outputs;
} heard_t;

static void hear(void *context, const waxseal_engine_event_t *event) {
    heard_t *heard = context;
    waxseal_bytes_t *value = NULL;
    pthread_mutex_lock(&heard->lock);
    if (event->kind == WAXSEAL_EVENT_RECOVERED) heard->recovered++;
    if (event->kind == WAXSEAL_EVENT_FLUSHED && event->family.len && event->table) heard->flushed++;
    if (event->kind == WAXSEAL_EVENT_COMPACTED) {
        heard->compacted++;
        heard->inputs += event->inputs_len;
        heard->outputs += event->outputs_len;
        if (event->inputs_len && !event->inputs[0]) heard->inputs = 0;
        if (!event->message.len) heard->compacted = 0;
    }
    if (heard->db) {
        heard->inside_flush = waxseal_flush(heard->db, NULL);
        heard->inside_put = waxseal_put(heard->family, LIT("from inside"), LIT("value"), NULL);
        heard->inside_get = waxseal_get(heard->family, NULL, LIT("key"), &value, NULL);
        heard->inside_close = waxseal_close(heard->db, NULL);
        waxseal_bytes_destroy(value);
    }
    pthread_mutex_unlock(&heard->lock);
}

static void end_hearing(void *context) {
    ((heard_t *)context)->ended++;
}

static waxseal_db_t *heard_store(heard_t *heard, waxseal_family_t **family) {
    waxseal_options_t *options = NULL;
    waxseal_db_t *db = NULL;
    memset(heard, 0, sizeof *heard);
    pthread_mutex_init(&heard->lock, NULL);
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_options_set_listener(options, hear, heard, end_hearing));
    CHECK_OK(waxseal_open_memory(options, &db, &error));
    CHECK_OK(waxseal_options_destroy(options));
    CHECK_OK(waxseal_family_open(db, LIT("default"), family, &error));
    return db;
}

static void a_listener_hears_of_flushes_and_compactions(void) {
    heard_t heard;
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = heard_store(&heard, &family);
    for (int round = 0; round < 3; round++) {
        CHECK_OK(waxseal_put(family, LIT("key"), LIT("value"), &error));
        CHECK_OK(waxseal_flush(db, &error));
    }
    CHECK_OK(waxseal_compact(family, &error));
    end_store(db, family);
    CHECK(heard.flushed >= 3 && heard.compacted > 0 && heard.inputs > 0);
    CHECK_NUMBER(1, heard.ended);
}

static void a_listener_that_calls_its_store_is_refused(void) {
    heard_t heard;
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = heard_store(&heard, &family);
    heard.family = family;
    heard.db = db;
    CHECK_OK(waxseal_put(family, LIT("key"), LIT("value"), &error));
    CHECK_OK(waxseal_flush(db, &error));
    CHECK_OK(waxseal_settle(db, &error));
    pthread_mutex_lock(&heard.lock);
    CHECK_NUMBER(WAXSEAL_INVALID, heard.inside_flush);
    CHECK_NUMBER(WAXSEAL_INVALID, heard.inside_put);
    CHECK_NUMBER(WAXSEAL_INVALID, heard.inside_get);
    CHECK_NUMBER(WAXSEAL_INVALID, heard.inside_close);
    heard.db = NULL;
    pthread_mutex_unlock(&heard.lock);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("from inside"), &error));
    end_store(db, family);
}

static void a_listener_that_was_never_used_is_ended(void) {
    heard_t heard;
    waxseal_options_t *options = NULL;
    memset(&heard, 0, sizeof heard);
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_options_set_listener(NULL, hear, &heard, end_hearing));
    CHECK_NUMBER(1, heard.ended);
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_options_set_listener(options, hear, &heard, end_hearing));
    CHECK_OK(waxseal_options_set_listener(options, NULL, NULL, NULL));
    CHECK_OK(waxseal_options_destroy(options));
    CHECK_NUMBER(2, heard.ended);
}

int main(void) {
    RUN(a_listener_hears_of_flushes_and_compactions);
    RUN(a_listener_that_calls_its_store_is_refused);
    RUN(a_listener_that_was_never_used_is_ended);
    return done();
}
