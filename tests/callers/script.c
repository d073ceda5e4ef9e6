/* Carries out a script of calls through waxseal.h and prints what they answer. See callers.rs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "waxseal.h"

#define TEXT(s) (const uint8_t *)(s), strlen(s)

static const char *const SCOPES[] = {"exact", "subtree"};
static const char *const MODES[] = {"sync", "async", "deferred"};
static const char *const VALUES[] = {"none", "new", "old_new", "hash"};
static const char *const PLACES[] = {"nowhere", "memory", "table"};

static const char *path;
static waxseal_db_t *db;
static waxseal_session_t *who;
static waxseal_family_t *family;
static char name[64] = "-", how[64] = "-", family_name[64] = "default";

static const char *text_of(const char *word) {
    return strcmp(word, "-") == 0 ? "" : word;
}

static uint64_t number_of(const char *word, uint64_t otherwise) {
    return strcmp(word, "-") == 0 ? otherwise : strtoull(word, NULL, 10);
}

/* The number of a word; WAXSEAL_SUITED for none. */
static int32_t one_of(const char *word, const char *const *words, int32_t count) {
    for (int32_t at = 0; at < count; at++)
        if (strcmp(word, words[at]) == 0) return at;
    return WAXSEAL_SUITED;
}

static void print_slice(waxseal_slice_t slice) {
    printf("%.*s", (int)slice.len, (const char *)slice.data);
}

static void print_hex(waxseal_slice_t slice) {
    for (size_t at = 0; at < slice.len; at++) printf("%02x", slice.data[at]);
}

static void answer(int32_t status) {
    if (status < 0) printf("status %" PRId32 "\n", status);
    else puts(status == WAXSEAL_OK ? "ok" : "none");
}

static void say(int32_t status, bool yes) {
    if (status < 0) answer(status);
    else puts(yes ? "yes" : "no");
}

static void print_field(const waxseal_field_t *field) {
    printf(" ");
    print_slice(field->name);
    printf("=");
    if (field->kind == WAXSEAL_FIELD_NUMBER) printf("%" PRIu64, field->numbers[0]);
    else if (field->kind == WAXSEAL_FIELD_ABSENT) printf("absent");
    else print_hex(field->bytes);
    if (field->kind == WAXSEAL_FIELD_SETTING) {
        printf(":");
        print_hex(field->more);
    }
}

static void print_event(waxseal_events_t *events, size_t at) {
    waxseal_event_t event;
    waxseal_field_t field;
    if (waxseal_events_get(events, at, &event) != WAXSEAL_OK) return;
    printf("event ");
    print_slice(event.target);
    printf(" ");
    print_slice(event.operation);
    printf(" ");
    print_slice(event.client);
    if (event.micros < 1000000000) printf(" at %" PRIu64, event.micros);
    printf(" seqno %" PRIu64, event.seqno);
    for (size_t of = 0; of < event.fields; of++)
        if (waxseal_events_field(events, at, of, &field) == WAXSEAL_OK) print_field(&field);
    printf("\n");
}

static void print_events(waxseal_events_t *events) {
    for (size_t at = 0; at < waxseal_events_count(events); at++) print_event(events, at);
    waxseal_events_destroy(events);
}

static void give_events(int32_t status, waxseal_events_t *events) {
    if (status == WAXSEAL_OK) print_events(events);
    answer(status);
}

static void print_registrations(waxseal_registrations_t *list) {
    waxseal_registration_t one;
    for (size_t at = 0; waxseal_registrations_get(list, at, &one) == WAXSEAL_OK; at++) {
        printf("registration ");
        print_slice(one.target);
        printf(" ");
        print_slice(one.operation);
        printf(" %s %s %s %s ", SCOPES[one.scope], MODES[one.mode], VALUES[one.values], one.history ? "yes" : "no");
        if (one.retention_micros == WAXSEAL_FOREVER) puts("forever");
        else printf("%" PRIu64 "\n", one.retention_micros);
    }
    waxseal_registrations_destroy(list);
}

/* Family and session anew, as they were named last. */
static void take(void) {
    waxseal_family_destroy(family);
    waxseal_session_destroy(who);
    family = NULL;
    who = NULL;
    answer(waxseal_session_open(db, TEXT(text_of(name)), TEXT(text_of(how)), &who, NULL));
    if (who != NULL) waxseal_session_family_open(who, TEXT(family_name), &family, NULL);
}

static void do_register(char **w) {
    waxseal_register_options_t *options = NULL;
    bool is_new = false;
    int32_t status;
    waxseal_register_options_create(&options, NULL);
    waxseal_register_options_set_scope(options, one_of(w[3], SCOPES, 2));
    waxseal_register_options_set_mode(options, one_of(w[4], MODES, 3));
    waxseal_register_options_set_values(options, one_of(w[5], VALUES, 4));
    if (strcmp(w[6], "-") != 0) waxseal_register_options_set_history(options, strcmp(w[6], "yes") == 0);
    if (strcmp(w[7], "-") != 0) waxseal_register_options_set_retention(options, number_of(w[7], 0));
    status = waxseal_register(who, TEXT(w[1]), TEXT(w[2]), options, &is_new, NULL);
    waxseal_register_options_destroy(options);
    say(status, is_new);
}

static void do_pages(char **w) {
    waxseal_query_t *query = NULL;
    waxseal_slice_t after = {NULL, 0};
    waxseal_events_t *events = NULL, *before = NULL;
    int32_t status = waxseal_query_create(TEXT(w[1]), TEXT(w[2]), &query, NULL);
    waxseal_query_set_below(query, true);
    waxseal_query_set_client(query, TEXT(text_of(w[3])), NULL);
    while (status == WAXSEAL_OK) {
        waxseal_query_set_page(query, after.data, after.len, (size_t)number_of(w[4], 0), NULL);
        waxseal_events_destroy(before);
        before = NULL;
        status = waxseal_query_run(who, NULL, query, &events, NULL);
        if (status != WAXSEAL_OK) break;
        for (size_t at = 0; at < waxseal_events_count(events); at++) print_event(events, at);
        before = events;
        if (waxseal_events_next(events, &after) != WAXSEAL_OK) break;
    }
    waxseal_events_destroy(before);
    waxseal_query_destroy(query);
    answer(status);
}

static void do_provenance(char **w) {
    waxseal_registrations_t *watched_by = NULL;
    waxseal_events_t *events = NULL;
    int32_t status = waxseal_provenance(who, family, TEXT(w[1]), &watched_by, &events, NULL);
    if (status == WAXSEAL_OK) {
        print_registrations(watched_by);
        print_events(events);
    }
    answer(status);
}

static void do_explain(char **w) {
    waxseal_explanation_t *explanation = NULL;
    waxseal_explained_t known;
    waxseal_events_t *events = NULL;
    int32_t status = waxseal_explain(who, family, TEXT(w[1]), &explanation, NULL);
    if (status == WAXSEAL_OK && waxseal_explanation_get(explanation, &known) == WAXSEAL_OK) {
        waxseal_slice_t seal = {known.seal.bytes, sizeof known.seal.bytes};
        printf("explained ");
        print_slice(known.target);
        printf(" ");
        print_slice(known.verdict);
        printf(" value=");
        if (known.has_value) print_hex(known.value);
        else printf("none");
        printf(" writer=");
        print_slice(known.writer);
        printf(" lies=%s seal=", PLACES[known.lies]);
        if (known.has_seal) print_hex(seal);
        else printf("none");
        if (known.has_version) printf(" seqno %" PRIu64, known.seqno);
        printf("\n");
        if (waxseal_explanation_events(explanation, &events) == WAXSEAL_OK) print_events(events);
    }
    waxseal_explanation_destroy(explanation);
    answer(status);
}

static void carry_out(char **w) {
    const char *verb = w[0];
    waxseal_events_t *events = NULL;
    waxseal_registrations_t *list = NULL;
    uint64_t number = 0;
    uint16_t of = 0;
    bool flag = false;
    int32_t status;
    if (!strcmp(verb, "session")) {
        snprintf(name, sizeof name, "%s", w[1]);
        snprintf(how, sizeof how, "%s", w[2]);
        take();
    } else if (!strcmp(verb, "family")) {
        snprintf(family_name, sizeof family_name, "%s", w[1]);
        take();
    } else if (!strcmp(verb, "put")) {
        answer(waxseal_put(family, TEXT(w[1]), TEXT(w[2]), NULL));
    } else if (!strcmp(verb, "delete")) {
        answer(waxseal_delete(family, TEXT(w[1]), NULL));
    } else if (!strcmp(verb, "drop")) {
        answer(waxseal_session_family_drop(who, TEXT(w[1]), NULL));
    } else if (!strcmp(verb, "flush")) {
        answer(waxseal_flush(db, NULL));
    } else if (!strcmp(verb, "leave")) {
        answer(waxseal_session_close(who, NULL));
    } else if (!strcmp(verb, "define")) {
        status = waxseal_define_operation(who, TEXT(w[1]), &of, NULL);
        if (status == WAXSEAL_OK) printf("number %u\n", (unsigned)of);
        answer(status);
    } else if (!strcmp(verb, "register")) {
        do_register(w);
    } else if (!strcmp(verb, "unregister")) {
        status = waxseal_unregister(who, TEXT(w[1]), TEXT(w[2]), &flag, NULL);
        say(status, flag);
    } else if (!strcmp(verb, "registered")) {
        status = waxseal_is_registered(who, TEXT(w[1]), TEXT(w[2]), &flag, NULL);
        say(status, flag);
    } else if (!strcmp(verb, "registrations")) {
        status = waxseal_registrations(who, &list, NULL);
        if (status == WAXSEAL_OK) print_registrations(list);
        answer(status);
    } else if (!strcmp(verb, "add")) {
        status = waxseal_log_add(who, TEXT(w[1]), TEXT(w[2]), number_of(w[3], WAXSEAL_TIME_LAST), TEXT(w[4]), &number, NULL);
        if (status == WAXSEAL_OK) printf("seqno %" PRIu64 "\n", number);
        answer(status);
    } else if (!strcmp(verb, "all")) {
        status = waxseal_query_all(who, TEXT(w[1]), TEXT(w[2]), &events, NULL);
        give_events(status, events);
    } else if (!strcmp(verb, "latest")) {
        status = waxseal_query_latest(who, TEXT(w[1]), TEXT(w[2]), &events, NULL);
        give_events(status, events);
    } else if (!strcmp(verb, "span")) {
        status = waxseal_log_query(who, TEXT(w[1]), TEXT(w[2]), number_of(w[3], WAXSEAL_TIME_FIRST), number_of(w[4], WAXSEAL_TIME_LAST), &events, NULL);
        give_events(status, events);
    } else if (!strcmp(verb, "forget")) {
        status = waxseal_log_delete(who, TEXT(w[1]), TEXT(w[2]), number_of(w[3], WAXSEAL_TIME_FIRST), number_of(w[4], WAXSEAL_TIME_LAST), &number, NULL);
        if (status == WAXSEAL_OK) printf("deleted %" PRIu64 "\n", number);
        answer(status);
    } else if (!strcmp(verb, "pages")) {
        do_pages(w);
    } else if (!strcmp(verb, "provenance")) {
        do_provenance(w);
    } else if (!strcmp(verb, "explain")) {
        do_explain(w);
    } else if (!strcmp(verb, "reopen")) {
        answer(waxseal_close(db, NULL));
        db = NULL;
        answer(waxseal_open(TEXT(path), NULL, &db, NULL));
        take();
    } else if (!strcmp(verb, "close")) {
        answer(waxseal_close(db, NULL));
    } else {
        printf("what is %s?\n", verb);
    }
}

int main(int argc, char **argv) {
    char line[512];
    if (argc != 2) return 1;
    path = argv[1];
    if (waxseal_open(TEXT(path), NULL, &db, NULL) != WAXSEAL_OK) return 1;
    take();
    while (fgets(line, sizeof line, stdin)) {
        char *words[8];
        int count = 0;
        line[strcspn(line, "\n")] = 0;
        printf("> %s\n", line);
        for (char *word = strtok(line, " "); word && count < 8; word = strtok(NULL, " ")) words[count++] = word;
        while (count < 8) words[count++] = (char *)"-";
        carry_out(words);
    }
    waxseal_family_destroy(family);
    waxseal_session_destroy(who);
    return waxseal_live_handles() > 1; /* that of the store, which a script closes */
}
