/* The change feed: readers, cursors, and a follower that is applied from it. */
#include "harness.h"

/* The text of a position, kept until the next one. */
static const char *text_of(waxseal_bytes_t *bytes) {
    static char text[2][128];
    static int at;
    waxseal_slice_t slice = waxseal_bytes_slice(bytes);
    at = !at;
    snprintf(text[at], sizeof text[at], "%.*s", (int)slice.len, (const char *)slice.data);
    CHECK_OK(waxseal_bytes_destroy(bytes));
    return text[at];
}

static const char *position_of(waxseal_changes_t *changes) {
    waxseal_bytes_t *position = NULL;
    CHECK_OK(waxseal_changes_position(changes, &position, &error));
    return text_of(position);
}

static waxseal_changes_t *reader(waxseal_db_t *db, const char *position, int32_t reach) {
    waxseal_changes_t *changes = NULL;
    CHECK_OK(waxseal_changes_since(db, STR(position), reach, &changes, &error));
    return changes;
}

static const char *cursor(waxseal_db_t *db) {
    waxseal_bytes_t *position = NULL;
    CHECK_OK(waxseal_change_cursor(db, LIT("copy"), &position, &error));
    return text_of(position);
}

static void changes_are_read_in_order(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_changes_t *changes = reader(db, cursor(db), WAXSEAL_CHANGES_DURABLE);
    waxseal_batch_t *batch = NULL;
    waxseal_change_t change;
    waxseal_seal_t seal;
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_changes_next(changes, 0, &change, &error));
    CHECK_OK(waxseal_batch_create(db, &batch, &error));
    CHECK_OK(waxseal_batch_put(batch, family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_batch_delete(batch, family, LIT("b"), &error));
    CHECK_OK(waxseal_batch_delete_range(batch, family, LIT("c"), NULL, 0, &error));
    CHECK_OK(waxseal_batch_commit(batch, WAXSEAL_DURABILITY_OS, &error));
    /* One that waits makes the commit durable. */
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_changes_next(changes, 0, &change, &error));
    CHECK_OK(waxseal_changes_next(changes, UINT64_MAX, &change, &error));
    CHECK_NUMBER(WAXSEAL_CHANGE_PUT, change.operation);
    CHECK_BYTES("default", change.family);
    CHECK_BYTES("a", change.key);
    CHECK_BYTES("1", change.value);
    CHECK(change.has_seal && !change.ends_commit && change.session == 0 && change.expires_micros == 0);
    CHECK_OK(waxseal_seal_of(LIT("a"), LIT("1"), &seal, &error));
    CHECK(memcmp(&seal, &change.seal, sizeof seal) == 0);
    CHECK_OK(waxseal_changes_next(changes, 0, &change, &error));
    CHECK_NUMBER(WAXSEAL_CHANGE_DELETE, change.operation);
    CHECK(change.value.data == NULL);
    CHECK_OK(waxseal_changes_next(changes, 0, &change, &error));
    CHECK_NUMBER(WAXSEAL_CHANGE_DELETE_RANGE, change.operation);
    CHECK_BYTES("c", change.key);
    CHECK(change.value.data == NULL && change.ends_commit);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_changes_next(changes, 1000, &change, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_changes_next(changes, 0, NULL, &error));
    CHECK_OK(waxseal_batch_destroy(batch));
    CHECK_OK(waxseal_family_destroy(family));
    CHECK_OK(waxseal_close(db, &error));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_changes_next(changes, UINT64_MAX, &change, &error));
    CHECK_OK(waxseal_changes_destroy(changes));
}

/* The next change, which must be there. */
static waxseal_change_t next_of(waxseal_changes_t *changes) {
    waxseal_change_t change;
    memset(&change, 0, sizeof change);
    CHECK_OK(waxseal_changes_next(changes, 0, &change, &error));
    return change;
}

static void changes_tell_who_wrote_and_when_values_expire(void) {
    const uint64_t until = UINT64_C(4102444800000000);
    waxseal_family_t *family, *sums = NULL, *users = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_family_options_t *options = NULL;
    waxseal_write_options_t *write = NULL;
    waxseal_session_t *alice = NULL;
    waxseal_changes_t *changes;
    waxseal_change_t change;
    uint64_t before;
    uint32_t id;
    CHECK_OK(waxseal_family_options_create(&options, &error));
    CHECK_OK(waxseal_family_options_set_merge_operator(options, WAXSEAL_MERGE_APPEND, LIT(","), &error));
    CHECK_OK(waxseal_family_create(db, LIT("sums"), options, &sums, &error));
    CHECK_OK(waxseal_family_options_destroy(options));
    CHECK_OK(waxseal_session_open(db, LIT("alice"), NULL, 0, &alice, &error));
    CHECK_OK(waxseal_session_family_create(alice, LIT("users"), NULL, &users, &error));
    CHECK_OK(waxseal_register(alice, LIT("users"), LIT("Row.Update"), NULL, NULL, &error));
    changes = reader(db, cursor(db), WAXSEAL_CHANGES_VISIBLE);
    CHECK_OK(waxseal_merge(sums, LIT("k"), LIT("m"), &error));
    CHECK_OK(waxseal_write_options_create(&write, &error));
    CHECK_OK(waxseal_write_options_set_expiry(write, until));
    CHECK_OK(waxseal_put_with(family, write, LIT("e"), LIT("1"), &error));
    CHECK_OK(waxseal_write_options_destroy(write));
    CHECK_OK(waxseal_put(users, LIT("john"), LIT("33"), &error));
    CHECK_OK(waxseal_delete_range(family, LIT("a"), LIT("b"), &error));
    CHECK_OK(waxseal_family_drop(db, LIT("sums"), &error));
    change = next_of(changes);
    before = change.seqno;
    CHECK(change.seqno > 0 && change.session == 0 && change.expires_micros == 0 && change.ends_commit);
    CHECK_NUMBER(WAXSEAL_CHANGE_MERGE, change.operation);
    CHECK_BYTES("sums", change.family);
    CHECK_BYTES("wax.bytewise", change.order);
    CHECK_BYTES("k", change.key);
    CHECK_BYTES("m", change.value);
    change = next_of(changes);
    CHECK(change.seqno > before);
    CHECK_BYTES("e", change.key);
    CHECK_NUMBER(until, change.expires_micros);
    before = change.seqno;
    change = next_of(changes);
    CHECK(change.seqno > before);
    CHECK_BYTES("john", change.key);
    CHECK(change.session > 0 && change.expires_micros == 0);
    change = next_of(changes);
    CHECK_NUMBER(WAXSEAL_CHANGE_DELETE_RANGE, change.operation);
    CHECK_BYTES("a", change.key);
    CHECK_BYTES("b", change.value);
    change = next_of(changes);
    CHECK_NUMBER(WAXSEAL_CHANGE_DROP_FAMILY, change.operation);
    CHECK_BYTES("sums", change.family);
    CHECK_OK(waxseal_family_id(sums, &id, &error));
    CHECK_NUMBER(id, change.family_id);
    CHECK_OK(waxseal_family_id(users, &id, &error));
    CHECK(id != change.family_id);
    CHECK(change.key.data == NULL && change.value.data == NULL && !change.has_seal);
    CHECK_OK(waxseal_changes_destroy(changes));
    CHECK_OK(waxseal_session_destroy(alice));
    CHECK_OK(waxseal_family_destroy(users));
    CHECK_OK(waxseal_family_destroy(sums));
    end_store(db, family);
}

static void a_copy_tells_where_it_branched(void) {
    waxseal_family_t *family = NULL, *its = NULL;
    waxseal_db_t *db = NULL, *copy = NULL;
    waxseal_bytes_t *position = NULL;
    char path[4096];
    const char *at;
    CHECK_OK(waxseal_open(STR(fresh_path()), NULL, &db, &error));
    CHECK_OK(waxseal_family_open(db, LIT("default"), &family, &error));
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("1"), &error));
    at = cursor(db);
    strcpy(path, fresh_path());
    CHECK_OK(waxseal_checkpoint(db, STR(path), &error));
    CHECK_OK(waxseal_open(STR(path), NULL, &copy, &error));
    CHECK_OK(waxseal_change_branch(copy, &position, &error));
    CHECK_BYTES(at, waxseal_bytes_slice(position));
    CHECK_OK(waxseal_bytes_destroy(position));
    CHECK_OK(waxseal_family_open(copy, LIT("default"), &its, &error));
    end_store(copy, its);
    end_store(db, family);
}

/* Applies all changes that are there, each commit whole. */
static void follow(waxseal_changes_t *changes, waxseal_db_t *follower, waxseal_family_t *family) {
    waxseal_batch_t *batch = NULL;
    waxseal_change_t change;
    CHECK_OK(waxseal_batch_create(follower, &batch, &error));
    while (waxseal_changes_next(changes, 0, &change, &error) == WAXSEAL_OK) {
        CHECK_OK(waxseal_batch_apply(batch, family, changes, &error));
        if (change.ends_commit) CHECK_OK(waxseal_batch_commit(batch, WAXSEAL_DURABILITY_SYNC, &error));
    }
    CHECK_NUMBER(0, waxseal_batch_count(batch));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_apply(batch, family, changes, &error));
    CHECK_OK(waxseal_batch_destroy(batch));
}

static void a_follower_has_the_digest_of_its_source(void) {
    waxseal_family_t *family, *its;
    waxseal_db_t *db = memory_store(&family), *follower = memory_store(&its);
    waxseal_changes_t *changes = reader(db, cursor(db), WAXSEAL_CHANGES_VISIBLE);
    waxseal_digest_t own, other;
    waxseal_bytes_t *json = NULL;
    char key[16], expected[160];
    int n;
    for (n = 0; n < 100; n++) {
        snprintf(key, sizeof key, "%02d", n);
        CHECK_OK(waxseal_put(family, STR(key), LIT("a value"), &error));
    }
    CHECK_OK(waxseal_delete_range(family, LIT("20"), LIT("40"), &error));
    follow(changes, follower, its);
    CHECK_OK(waxseal_digest(family, NULL, NULL, &own, &error));
    CHECK_OK(waxseal_digest(its, NULL, NULL, &other, &error));
    CHECK_NUMBER(80, own.count);
    CHECK(memcmp(&own, &other, sizeof own) == 0);
    CHECK_OK(waxseal_change_cursor_advance(db, LIT("copy"), STR(position_of(changes)), &error));
    CHECK_OK(waxseal_change_cursors_json(db, &json, &error));
    snprintf(expected, sizeof expected, "{\"copy\":\"%s\"}", position_of(changes));
    CHECK_BYTES(expected, waxseal_bytes_slice(json));
    CHECK_OK(waxseal_bytes_destroy(json));
    CHECK_OK(waxseal_change_cursor_remove(db, LIT("copy"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_change_cursor_remove(db, LIT("copy"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_change_cursor_advance(db, LIT("copy"), STR(position_of(changes)), &error));
    CHECK_OK(waxseal_changes_destroy(changes));
    end_store(db, family);
    end_store(follower, its);
}

static void positions_that_cannot_be_read_are_refused(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_bytes_t *position = NULL;
    waxseal_changes_t *changes = NULL;
    char zero[128], ahead[128];
    const char *at;
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_oldest_change_position(db, &position, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_change_branch(db, &position, &error));
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("1"), &error));
    at = cursor(db);
    CHECK_OK(waxseal_oldest_change_position(db, &position, &error));
    CHECK_BYTES(at, waxseal_bytes_slice(position));
    CHECK_OK(waxseal_bytes_destroy(position));
    CHECK_OK(waxseal_change_position(db, &position, &error));
    CHECK_BYTES(at, waxseal_bytes_slice(position));
    CHECK_OK(waxseal_bytes_destroy(position));
    snprintf(zero, sizeof zero, "%.33s0", at);
    snprintf(ahead, sizeof ahead, "%.33s99", at);
    CHECK_FAILS(WAXSEAL_OUT_OF_REACH, waxseal_changes_since(db, STR(zero), 0, &changes, &error));
    CHECK_SAYS(at, waxseal_error_message(error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_changes_since(db, STR(ahead), 0, &changes, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_changes_since(db, LIT("now"), 0, &changes, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_changes_since(db, STR(at), 2, &changes, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_change_cursor(db, LIT(""), NULL, &error));
    CHECK_OK(waxseal_change_cursor(db, LIT("other"), NULL, &error));
    CHECK(changes == NULL);
    end_store(db, family);
}

int main(void) {
    RUN(changes_are_read_in_order);
    RUN(changes_tell_who_wrote_and_when_values_expire);
    RUN(a_copy_tells_where_it_branched);
    RUN(a_follower_has_the_digest_of_its_source);
    RUN(positions_that_cannot_be_read_are_refused);
    return done();
}
