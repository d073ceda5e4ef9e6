/* Who changed what: a store that watches one of its families, and tells. */
#include <stdio.h>
#include <waxseal.h>

#define TEXT(s) (const uint8_t *)(s), sizeof(s) - 1

static waxseal_error_t *error;

/* Ends the program with the reason of a call that failed. */
static int failed(int32_t status) {
    if (status >= 0) return 0;
    fprintf(stderr, "%s\n", waxseal_error_message(error));
    return 1;
}

static void print(waxseal_events_t *events) {
    waxseal_event_t event;
    waxseal_field_t field;
    for (size_t at = 0; waxseal_events_get(events, at, &event) == WAXSEAL_OK; at++) {
        printf("%.*s by %.*s on %.*s", (int)event.operation.len, (const char *)event.operation.data, (int)event.client.len,
               (const char *)event.client.data, (int)event.target.len, (const char *)event.target.data);
        for (size_t of = 0; waxseal_events_field(events, at, of, &field) == WAXSEAL_OK; of++)
            if (field.kind == WAXSEAL_FIELD_VALUE)
                printf(", %.*s %.*s", (int)field.name.len, (const char *)field.name.data, (int)field.bytes.len,
                       (const char *)field.bytes.data);
        printf("\n");
    }
}

int main(void) {
    waxseal_db_t *db = NULL;
    waxseal_session_t *alice = NULL, *bob = NULL;
    waxseal_family_t *hers = NULL, *his = NULL;
    waxseal_register_options_t *keep = NULL;
    waxseal_events_t *events = NULL;

    if (failed(waxseal_open_memory(NULL, &db, &error))) return 1;
    if (failed(waxseal_session_open(db, TEXT("alice"), NULL, 0, &alice, &error))) return 1;
    if (failed(waxseal_session_open(db, TEXT("bob"), NULL, 0, &bob, &error))) return 1;
    if (failed(waxseal_session_family_open(alice, TEXT("users"), &hers, &error))) return 1;
    if (failed(waxseal_session_family_open(bob, TEXT("users"), &his, &error))) return 1;

    /* From now on, and for every key of the family: each write, with the value before it. */
    if (failed(waxseal_register_options_create(&keep, &error))) return 1;
    waxseal_register_options_set_mode(keep, WAXSEAL_MODE_SYNC);
    waxseal_register_options_set_values(keep, WAXSEAL_VALUES_OLD_NEW);
    if (failed(waxseal_register(alice, TEXT("users"), TEXT("Row.Update"), keep, NULL, &error))) return 1;

    if (failed(waxseal_put(hers, TEXT("john"), TEXT("33"), &error))) return 1;
    if (failed(waxseal_put(his, TEXT("john"), TEXT("34"), &error))) return 1;

    if (failed(waxseal_query_all(alice, TEXT("users.john"), TEXT("*"), &events, &error))) return 1;
    print(events);

    waxseal_events_destroy(events);
    waxseal_register_options_destroy(keep);
    waxseal_family_destroy(hers);
    waxseal_family_destroy(his);
    waxseal_session_destroy(alice);
    waxseal_session_destroy(bob);
    return failed(waxseal_close(db, &error));
}
