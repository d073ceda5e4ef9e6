/* Registry and log: sessions, registrations, events, and who may do what. */
#include "harness.h"

#define ALL NULL, 0

static waxseal_session_t *session_of(waxseal_db_t *db, const char *name) {
    waxseal_session_t *session = NULL;
    CHECK_OK(waxseal_session_open(db, STR(name), NULL, 0, &session, &error));
    return session;
}

static waxseal_event_t event_at(waxseal_events_t *events, size_t at) {
    waxseal_event_t event;
    memset(&event, 0, sizeof event);
    CHECK_OK(waxseal_events_get(events, at, &event));
    return event;
}

/* The field of this name of the only event; kind -1 if there is none. */
static waxseal_field_t field_of(waxseal_events_t *events, const char *name) {
    waxseal_field_t field;
    for (size_t at = 0; waxseal_events_field(events, 0, at, &field) == WAXSEAL_OK; at++)
        if (field.name.len == strlen(name) && memcmp(field.name.data, name, field.name.len) == 0) return field;
    memset(&field, 0, sizeof field);
    field.kind = -1;
    return field;
}

static void writes_are_logged_in_the_name_of_their_session(void) {
    waxseal_family_t *users = NULL, *plain = NULL;
    waxseal_db_t *db = memory_store(&plain);
    waxseal_session_t *alice = session_of(db, "alice"), *nobody = session_of(db, "");
    waxseal_events_t *events = NULL;
    waxseal_batch_t *batch = NULL;
    waxseal_bytes_t *name = NULL;
    waxseal_event_t event;
    waxseal_slice_t warning;
    bool flag = false;
    CHECK_OK(waxseal_session_name(alice, &name, &error));
    CHECK_BYTES("alice", waxseal_bytes_slice(name));
    CHECK_OK(waxseal_bytes_destroy(name));
    CHECK_OK(waxseal_session_name(nobody, &name, &error));
    CHECK_BYTES("-", waxseal_bytes_slice(name));
    CHECK_OK(waxseal_bytes_destroy(name));
    CHECK_OK(waxseal_session_family_create(alice, LIT("users"), NULL, &users, &error));
    CHECK_OK(waxseal_operation_warning(alice, LIT("Row.Insert"), &warning, &error));
    CHECK(warning.len > 0 && memcmp(warning.data, "Row.Insert is logged only", 25) == 0);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_operation_warning(alice, LIT("Row.Write"), &warning, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_operation_warning(alice, LIT("*"), &warning, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_operation_warning(alice, LIT("Row.Nothing"), &warning, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_register(alice, LIT("users"), LIT("Node.Join"), NULL, &flag, &error));
    CHECK_OK(waxseal_register(alice, LIT("users"), LIT("Row.Update"), NULL, &flag, &error));
    CHECK(flag);
    CHECK_OK(waxseal_register(alice, LIT("users"), LIT("Row.Update"), NULL, &flag, &error));
    CHECK(!flag);
    CHECK_OK(waxseal_is_registered(alice, LIT("users.john"), LIT("Row.Update"), &flag, &error));
    CHECK(flag);
    CHECK_OK(waxseal_put(users, LIT("john"), LIT("33"), &error));
    CHECK_OK(waxseal_session_batch_create(nobody, &batch, &error));
    CHECK_OK(waxseal_batch_put(batch, users, LIT("john"), LIT("34"), &error)); /* takes the name of the handle */
    CHECK_OK(waxseal_batch_commit(batch, WAXSEAL_DURABILITY_DEFAULT, &error));
    CHECK_OK(waxseal_batch_destroy(batch));
    CHECK_OK(waxseal_query_all(nobody, LIT("users.john"), LIT("Row.Update"), &events, &error));
    CHECK_NUMBER(2, waxseal_events_count(events));
    event = event_at(events, 0);
    CHECK_BYTES("users.john", event.target);
    CHECK_BYTES("Row.Update", event.operation);
    CHECK_BYTES("alice", event.client);
    CHECK(event.micros > 0 && event.seqno > 0 && event.back == 0);
    CHECK(event_at(events, 1).time > event.time && event_at(events, 1).seqno > event.seqno);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_events_get(events, 2, &event));
    CHECK_OK(waxseal_events_destroy(events));
    CHECK_OK(waxseal_query_latest(nobody, LIT("users.john"), ALL, &events, &error));
    CHECK_NUMBER(1, waxseal_events_count(events));
    CHECK_OK(waxseal_events_destroy(events));
    events = NULL;
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_query_latest(nobody, LIT("users.jane"), ALL, &events, &error));
    CHECK(events == NULL);
    CHECK_OK(waxseal_unregister(alice, LIT("users"), LIT("Row.Update"), &flag, &error));
    CHECK(flag);
    CHECK_OK(waxseal_unregister(alice, LIT("users"), LIT("Row.Update"), &flag, &error));
    CHECK(!flag);
    CHECK_OK(waxseal_session_family_drop(alice, LIT("users"), &error));
    CHECK_OK(waxseal_family_destroy(users));
    CHECK_OK(waxseal_session_destroy(alice));
    CHECK_STATUS(WAXSEAL_CLOSED, waxseal_session_destroy(alice));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_query_all(alice, LIT("users"), ALL, &events, &error));
    CHECK_OK(waxseal_session_destroy(nobody));
    end_store(db, plain);
}

/* Where it is watched, it is an event that somebody came and that he went. */
static void sessions_come_and_go(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_session_t *nobody = session_of(db, ""), *alice = NULL;
    waxseal_events_t *events = NULL;
    waxseal_bytes_t *how = NULL;
    CHECK_OK(waxseal_register(nobody, LIT("engine:session"), LIT("*"), NULL, NULL, &error));
    CHECK_OK(waxseal_session_open(db, LIT("alice"), LIT("password"), &alice, &error));
    CHECK_OK(waxseal_session_authenticated(alice, &how, &error));
    CHECK_BYTES("password", waxseal_bytes_slice(how));
    CHECK_OK(waxseal_bytes_destroy(how));
    how = NULL;
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_session_authenticated(nobody, &how, &error));
    CHECK(how == NULL);
    CHECK_OK(waxseal_session_close(alice, &error));
    CHECK_OK(waxseal_session_close(nobody, &error));
    CHECK_OK(waxseal_query_all(nobody, LIT("engine:session"), ALL, &events, &error));
    CHECK_NUMBER(2, waxseal_events_count(events));
    CHECK_BYTES("Session.Open", event_at(events, 0).operation);
    CHECK_BYTES("Session.Close", event_at(events, 1).operation);
    CHECK_BYTES("alice", event_at(events, 1).client);
    CHECK_OK(waxseal_events_destroy(events));
    CHECK_OK(waxseal_session_destroy(alice));
    CHECK_OK(waxseal_session_destroy(nobody));
    end_store(db, family);
}

static void options_decide_what_is_kept(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_session_t *who = session_of(db, "auditor");
    waxseal_register_options_t *options = NULL;
    waxseal_registrations_t *list = NULL;
    waxseal_registration_t registration;
    waxseal_events_t *events = NULL;
    waxseal_field_t field;
    CHECK_OK(waxseal_register_options_create(&options, &error));
    CHECK_OK(waxseal_register_options_set_scope(options, WAXSEAL_SCOPE_SUBTREE));
    CHECK_OK(waxseal_register_options_set_mode(options, WAXSEAL_MODE_SYNC));
    CHECK_OK(waxseal_register_options_set_values(options, WAXSEAL_VALUES_OLD_NEW));
    CHECK_OK(waxseal_register_options_set_retention(options, 3600000000u));
    CHECK_OK(waxseal_register_options_set_history(options, false));
    CHECK_OK(waxseal_register(who, LIT("default"), LIT("*"), options, NULL, &error));
    CHECK_OK(waxseal_registrations(who, &list, &error));
    CHECK_NUMBER(1, waxseal_registrations_count(list));
    CHECK_OK(waxseal_registrations_get(list, 0, &registration));
    CHECK_BYTES("default", registration.target);
    CHECK_BYTES("*", registration.operation);
    CHECK(registration.scope == WAXSEAL_SCOPE_SUBTREE && registration.mode == WAXSEAL_MODE_SYNC);
    CHECK(registration.values == WAXSEAL_VALUES_OLD_NEW && !registration.history);
    CHECK_NUMBER(3600000000u, registration.retention_micros);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_registrations_get(list, 1, &registration));
    CHECK_OK(waxseal_registrations_destroy(list));
    CHECK_OK(waxseal_register(who, LIT("cluster:"), LIT("Registry.Add"), options, NULL, &error));
    CHECK_OK(waxseal_register(who, LIT("default.kate"), LIT("*"), options, NULL, &error));
    CHECK_OK(waxseal_query_latest(who, LIT("default.kate"), LIT("Registry.Add"), &events, &error));
    field = field_of(events, "options");
    CHECK_NUMBER(WAXSEAL_FIELD_OPTIONS, field.kind);
    CHECK_BYTES("subtree sync values=old-new retention=3600s", field.more);
    CHECK(field.bytes.len > 0 && field.bytes.data[0] == 1);
    CHECK(field.numbers[0] == WAXSEAL_SCOPE_SUBTREE && field.numbers[1] == WAXSEAL_MODE_SYNC);
    CHECK(field.numbers[2] == WAXSEAL_VALUES_OLD_NEW && field.numbers[3] == 0);
    CHECK_NUMBER(3600000000u, field.numbers[4]);
    CHECK_OK(waxseal_events_destroy(events));
    CHECK_OK(waxseal_register(who, LIT("default.jack"), LIT("*"), NULL, NULL, &error));
    CHECK_OK(waxseal_query_latest(who, LIT("default.jack"), LIT("Registry.Add"), &events, &error));
    CHECK_BYTES("exact deferred", field_of(events, "options").more);
    CHECK_NUMBER(WAXSEAL_FOREVER, field_of(events, "options").numbers[4]);
    CHECK_OK(waxseal_events_destroy(events));
    CHECK_OK(waxseal_put(family, LIT("john"), LIT("33"), &error));
    CHECK_OK(waxseal_put(family, LIT("john"), LIT("34"), &error));
    CHECK_OK(waxseal_query_latest(who, LIT("default.john"), ALL, &events, &error));
    CHECK_NUMBER(WAXSEAL_FIELD_VALUE, field_of(events, "old_value").kind);
    CHECK_BYTES("33", field_of(events, "old_value").bytes);
    CHECK_BYTES("34", field_of(events, "new_value").bytes);
    CHECK_OK(waxseal_events_destroy(events));
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_register_options_set_mode(options, 3));
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_register_options_set_values(options, -2));
    CHECK_OK(waxseal_register_options_set_mode(options, WAXSEAL_MODE_DEFERRED)); /* nobody would keep the old values */
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_register(who, LIT("default"), LIT("*"), options, NULL, &error));
    CHECK_OK(waxseal_register_options_destroy(options));
    CHECK_OK(waxseal_session_destroy(who));
    end_store(db, family);
}

static void what_callers_add_is_found_and_deleted_as_in_the_paper(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_session_t *who = session_of(db, "indexer");
    waxseal_events_t *events = NULL;
    uint64_t seqno = 0, deleted = 0;
    uint16_t number = 0;
    CHECK_OK(waxseal_define_operation(who, LIT("app.reindexed"), &number, &error));
    CHECK(number > 0);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_log_add(who, LIT("default"), LIT("app.reindexed"), WAXSEAL_TIME_LAST, LIT("early"), &seqno, &error));
    CHECK_OK(waxseal_register(who, LIT("default"), LIT("app.reindexed"), NULL, NULL, &error));
    CHECK_OK(waxseal_log_add(who, LIT("default"), LIT("app.reindexed"), 1000, LIT("first"), &seqno, &error));
    CHECK(seqno > 0);
    CHECK_OK(waxseal_log_add(who, LIT("default"), LIT("app.reindexed"), 2000, LIT("second"), NULL, &error));
    CHECK_OK(waxseal_log_add(who, LIT("default"), LIT("app.reindexed"), WAXSEAL_TIME_LAST, NULL, 0, NULL, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_log_add(who, LIT("default"), LIT("*"), 3000, LIT("any"), NULL, &error));
    CHECK_OK(waxseal_log_query(who, LIT("default"), LIT("app.reindexed"), 1000, 1000, &events, &error));
    CHECK_NUMBER(1, waxseal_events_count(events));
    CHECK_NUMBER(1000, event_at(events, 0).micros);
    CHECK_BYTES("first", field_of(events, "text").bytes);
    CHECK_NUMBER(WAXSEAL_FIELD_BYTES, field_of(events, "text").kind);
    CHECK_OK(waxseal_events_destroy(events));
    CHECK_OK(waxseal_log_delete(who, LIT("default"), ALL, 0, 2000, &deleted, &error));
    CHECK_NUMBER(2, deleted);
    CHECK_OK(waxseal_log_query(who, LIT("default"), ALL, WAXSEAL_TIME_FIRST, WAXSEAL_TIME_LAST, &events, &error));
    CHECK(waxseal_events_count(events) >= 1);
    CHECK(event_at(events, waxseal_events_count(events) - 1).micros > 2000);
    CHECK_OK(waxseal_events_destroy(events));
    CHECK_OK(waxseal_session_destroy(who));
    end_store(db, family);
}

static void a_query_is_answered_in_pages(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_session_t *who = session_of(db, "alice");
    waxseal_snapshot_t *before = NULL;
    waxseal_query_t *query = NULL;
    waxseal_events_t *events = NULL;
    waxseal_slice_t after;
    waxseal_range_t range = {{WAXSEAL_INCLUDED, (const uint8_t *)"b", 1}, {WAXSEAL_EXCLUDED, (const uint8_t *)"d", 1}};
    uint64_t deleted = 0;
    size_t found = 0;
    int pages = 0;
    CHECK_OK(waxseal_register(who, LIT("default"), LIT("*"), NULL, NULL, &error));
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_put(family, LIT("b"), LIT("1"), &error));
    CHECK_OK(waxseal_put(family, LIT("c"), LIT("1"), &error));
    CHECK_OK(waxseal_snapshot_create(db, &before, &error));
    CHECK_OK(waxseal_put(family, LIT("d"), LIT("1"), &error));
    CHECK_OK(waxseal_put(family, LIT("e"), LIT("1"), &error));
    CHECK_OK(waxseal_query_create(LIT("default"), LIT("Row.Update"), &query, &error));
    CHECK_OK(waxseal_query_set_below(query, true));
    CHECK_OK(waxseal_query_set_client(query, LIT("-"), &error));
    CHECK_OK(waxseal_query_set_span(query, WAXSEAL_TIME_FIRST, WAXSEAL_TIME_LAST));
    CHECK_OK(waxseal_query_set_page(query, NULL, 0, 2, &error));
    for (;;) {
        CHECK_OK(waxseal_query_run(who, NULL, query, &events, &error));
        found += waxseal_events_count(events);
        pages++;
        if (waxseal_events_next(events, &after) != WAXSEAL_OK || pages > 10) break;
        CHECK_OK(waxseal_query_set_page(query, after.data, after.len, 2, &error));
        CHECK_OK(waxseal_events_destroy(events));
    }
    CHECK_OK(waxseal_events_destroy(events));
    CHECK_NUMBER(5, found);
    CHECK_NUMBER(3, pages);
    CHECK_OK(waxseal_query_set_page(query, NULL, 0, 0, &error));
    CHECK_OK(waxseal_query_run(who, before, query, &events, &error));
    CHECK_NUMBER(3, waxseal_events_count(events));
    CHECK_OK(waxseal_events_destroy(events));
    CHECK_OK(waxseal_query_range(who, family, &range, NULL, 0, 1, &events, &error));
    CHECK_NUMBER(1, waxseal_events_count(events));
    CHECK_BYTES("default.b", event_at(events, 0).target);
    CHECK_OK(waxseal_events_next(events, &after));
    CHECK_OK(waxseal_events_destroy(events));
    CHECK_OK(waxseal_query_range(who, family, &range, NULL, 0, 0, &events, &error));
    CHECK_NUMBER(2, waxseal_events_count(events));
    CHECK_OK(waxseal_events_destroy(events));
    CHECK_OK(waxseal_query_set_page(query, LIT("no place"), 1, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_query_run(who, NULL, query, &events, &error));
    CHECK_OK(waxseal_query_delete(who, query, &deleted, &error));
    CHECK_NUMBER(5, deleted);
    CHECK_OK(waxseal_query_destroy(query));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_query_set_client(query, LIT("alice"), &error));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_query_set_page(query, NULL, 0, 1, &error));
    CHECK_OK(waxseal_snapshot_destroy(before));
    CHECK_OK(waxseal_session_destroy(who));
    end_store(db, family);
}

static void everything_that_is_known_of_a_key_is_told(void) {
    waxseal_family_t *family = NULL, *hers = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_session_t *alice = session_of(db, "alice");
    waxseal_registrations_t *watched = NULL;
    waxseal_events_t *events = NULL;
    waxseal_explanation_t *explanation = NULL;
    waxseal_explained_t explained;
    waxseal_seal_t seal;
    CHECK_OK(waxseal_register(alice, LIT("default"), LIT("*"), NULL, NULL, &error));
    CHECK_OK(waxseal_session_family_open(alice, LIT("default"), &hers, &error));
    CHECK_OK(waxseal_put(hers, LIT("john"), LIT("33"), &error));
    CHECK_OK(waxseal_explain(alice, family, LIT("john"), &explanation, &error));
    CHECK_OK(waxseal_explanation_get(explanation, &explained));
    CHECK_NUMBER(WAXSEAL_LIES_IN_MEMORY, explained.lies);
    CHECK_OK(waxseal_explanation_destroy(explanation));
    CHECK_OK(waxseal_flush(db, &error));
    CHECK_OK(waxseal_provenance(alice, family, LIT("john"), &watched, &events, &error));
    CHECK(waxseal_registrations_count(watched) == 1 && waxseal_events_count(events) == 1);
    CHECK_OK(waxseal_registrations_destroy(watched));
    CHECK_OK(waxseal_events_destroy(events));
    CHECK_OK(waxseal_provenance(alice, family, LIT("john"), NULL, NULL, &error));
    CHECK_OK(waxseal_explain(alice, family, LIT("john"), &explanation, &error));
    CHECK_OK(waxseal_explanation_get(explanation, &explained));
    CHECK_BYTES("default.john", explained.target);
    CHECK_BYTES("validated", explained.verdict);
    CHECK(explained.has_value && explained.has_version && explained.has_seal);
    CHECK_BYTES("33", explained.value);
    CHECK_BYTES("alice", explained.writer);
    CHECK(explained.written_micros > 0 && explained.seqno > 0);
    CHECK_OK(waxseal_seal_of(LIT("john"), LIT("33"), &seal, &error));
    CHECK(memcmp(&seal, &explained.seal, sizeof seal) == 0);
    CHECK_NUMBER(WAXSEAL_LIES_IN_TABLE, explained.lies);
    CHECK_OK(waxseal_explanation_events(explanation, &events));
    CHECK_NUMBER(1, waxseal_events_count(events));
    CHECK_OK(waxseal_events_destroy(events));
    CHECK_OK(waxseal_explanation_lineage(explanation, &events));
    CHECK_NUMBER(1, waxseal_events_count(events));
    CHECK_BYTES("Engine.Flush", event_at(events, 0).operation);
    CHECK_NUMBER(WAXSEAL_FIELD_FILE, field_of(events, "output").kind);
    CHECK_NUMBER(16, field_of(events, "output").bytes.len);
    CHECK_OK(waxseal_events_destroy(events));
    CHECK_OK(waxseal_lineage(alice, explained.file.data, explained.file.len, &events, &error));
    CHECK_NUMBER(1, waxseal_events_count(events));
    CHECK_OK(waxseal_events_destroy(events));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_lineage(alice, LIT("999999.tbl"), &events, &error));
    CHECK_OK(waxseal_explanation_destroy(explanation));
    CHECK_OK(waxseal_explain(alice, family, LIT("nobody"), &explanation, &error));
    CHECK_OK(waxseal_explanation_get(explanation, &explained));
    CHECK_BYTES("absent", explained.verdict);
    CHECK(!explained.has_value && !explained.has_version && explained.lies == WAXSEAL_LIES_NOWHERE);
    CHECK_OK(waxseal_explanation_destroy(explanation));
    CHECK_STATUS(WAXSEAL_CLOSED, waxseal_explanation_get(explanation, &explained));
    CHECK_OK(waxseal_family_destroy(hers));
    CHECK_OK(waxseal_session_destroy(alice));
    end_store(db, family);
}

/* Lets the auditor do everything, and nobody else anything. */
typedef struct {
    waxseal_session_t *session; /* to be asked from inside */
    int32_t inside;
    int asked[4], ended;
} rules_t;

static int32_t may(void *context, const waxseal_asking_t *asking) {
    rules_t *rules = context;
    bool flag;
    if (asking->what >= 0 && asking->what < 4) rules->asked[asking->what]++;
    if (rules->session)
        rules->inside = waxseal_is_registered(rules->session, LIT("default"), LIT("Row.Update"), &flag, NULL);
    CHECK(asking->target.len > 0);
    return asking->who.len == 7 && memcmp(asking->who.data, "auditor", 7) == 0 && asking->authenticated.len == 0;
}

static void rules_end(void *context) {
    ((rules_t *)context)->ended++;
}

static void an_authorizer_in_c_is_asked(void) {
    rules_t rules = {0};
    waxseal_options_t *options = NULL;
    waxseal_db_t *db = NULL;
    waxseal_session_t *auditor, *nobody, *claims = NULL;
    waxseal_events_t *events = NULL;
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_options_set_authorizer(options, may, &rules, rules_end));
    CHECK_OK(waxseal_open_memory(options, &db, &error));
    CHECK_OK(waxseal_options_destroy(options));
    auditor = session_of(db, "auditor");
    nobody = session_of(db, "");
    CHECK_OK(waxseal_session_open(db, LIT("auditor"), LIT("password"), &claims, &error));
    rules.session = auditor;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_register(nobody, LIT("default"), LIT("*"), NULL, NULL, &error));
    CHECK_SAYS("may not", waxseal_error_message(error));
    CHECK_NUMBER(WAXSEAL_INVALID, rules.inside);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_register(claims, LIT("default"), LIT("*"), NULL, NULL, &error));
    CHECK_OK(waxseal_register(auditor, LIT("default"), LIT("*"), NULL, NULL, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_query_all(nobody, LIT("default"), ALL, &events, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_log_delete(nobody, LIT("default"), ALL, 0, WAXSEAL_TIME_LAST, NULL, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_log_add(nobody, LIT("default"), LIT("Row.Update"), 1, LIT("x"), NULL, &error));
    CHECK(rules.asked[0] == 3 && rules.asked[1] == 1 && rules.asked[2] == 1 && rules.asked[3] == 1);
    CHECK_NUMBER(0, rules.ended);
    CHECK_OK(waxseal_session_destroy(claims));
    CHECK_OK(waxseal_session_destroy(nobody));
    CHECK_OK(waxseal_session_destroy(auditor));
    CHECK_OK(waxseal_close(db, &error));
    CHECK_NUMBER(1, rules.ended);
}

static void events_that_wait_are_drained(void) {
    waxseal_options_t *options = NULL;
    waxseal_register_options_t *later = NULL;
    waxseal_db_t *db = NULL;
    waxseal_family_t *family = NULL;
    waxseal_session_t *who;
    waxseal_events_t *events = NULL;
    waxseal_ring_t ring = {9, 9, 9, 0};
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_options_set_ring(options, 16, WAXSEAL_WHEN_FULL_SYNC));
    CHECK_STATUS(WAXSEAL_INVALID, waxseal_options_set_ring(options, 16, 3));
    CHECK_OK(waxseal_open_memory(options, &db, &error));
    CHECK_OK(waxseal_options_destroy(options));
    CHECK_OK(waxseal_family_open(db, LIT("default"), &family, &error));
    who = session_of(db, "alice");
    CHECK_OK(waxseal_register_options_create(&later, &error));
    CHECK_OK(waxseal_register_options_set_mode(later, WAXSEAL_MODE_ASYNC));
    CHECK_OK(waxseal_register(who, LIT("default"), LIT("Row.Update"), later, NULL, &error));
    CHECK_OK(waxseal_register_options_destroy(later));
    for (int write = 0; write < 50; write++) CHECK_OK(waxseal_put(family, LIT("key"), LIT("value"), &error));
    CHECK_OK(waxseal_drain_events(db, &error));
    CHECK_OK(waxseal_event_ring(db, &ring, &error));
    CHECK(ring.waiting == 0 && ring.dropped == 0 && ring.lost_at_most > 0);
    CHECK_OK(waxseal_query_all(who, LIT("default.key"), ALL, &events, &error));
    CHECK_NUMBER(50, waxseal_events_count(events));
    CHECK_OK(waxseal_events_destroy(events));
    CHECK_OK(waxseal_session_destroy(who));
    end_store(db, family);
}

static void what_cannot_be_is_refused(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family), *without = NULL;
    waxseal_session_t *who = session_of(db, "alice"), *session = NULL;
    waxseal_options_t *options = NULL;
    waxseal_events_t *events = NULL;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_register(who, LIT(""), LIT("*"), NULL, NULL, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_register(who, LIT("nowhere"), LIT("*"), NULL, NULL, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_register(who, LIT("default"), LIT("No.Such"), NULL, NULL, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_register(who, LIT("\xff\xfe"), LIT("*"), NULL, NULL, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_register(who, (const uint8_t *)"default", SIZE_MAX, LIT("*"), NULL, NULL, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_query_all(who, LIT("default"), LIT("*"), NULL, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_session_open(db, LIT("\xff"), NULL, 0, &session, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_session_open(db, (const uint8_t *)"x", 1, NULL, 3, &session, &error));
    CHECK(session == NULL);
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_options_set_registry(options, false));
    CHECK_OK(waxseal_open_memory(options, &without, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_session_open(without, LIT("alice"), NULL, 0, &session, &error));
    CHECK_OK(waxseal_options_destroy(options));
    CHECK_OK(waxseal_close(without, &error));
    end_store(db, family);
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_query_all(who, LIT("default"), ALL, &events, &error));
    CHECK_OK(waxseal_session_destroy(who));
}

int main(void) {
    RUN(writes_are_logged_in_the_name_of_their_session);
    RUN(sessions_come_and_go);
    RUN(options_decide_what_is_kept);
    RUN(what_callers_add_is_found_and_deleted_as_in_the_paper);
    RUN(a_query_is_answered_in_pages);
    RUN(everything_that_is_known_of_a_key_is_told);
    RUN(an_authorizer_in_c_is_asked);
    RUN(events_that_wait_are_drained);
    RUN(what_cannot_be_is_refused);
    return done();
}
