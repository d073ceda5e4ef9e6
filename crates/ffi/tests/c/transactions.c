/* Transactions: their own writes, their snapshot, and the commits that fail. */
#include "harness.h"

static waxseal_transaction_t *begin(waxseal_db_t *db, int32_t isolation) {
    waxseal_transaction_t *transaction = NULL;
    CHECK_OK(waxseal_transaction_begin(db, isolation, &transaction, &error));
    return transaction;
}

/* The value of a key in a transaction. */
static void check_value(const char *expected, waxseal_transaction_t *transaction, waxseal_family_t *family, const char *key) {
    waxseal_bytes_t *value = NULL;
    if (!expected) {
        CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_transaction_get(transaction, family, STR(key), &value, &error));
        CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_transaction_contains(transaction, family, STR(key), &error));
        return;
    }
    CHECK_OK(waxseal_transaction_get(transaction, family, STR(key), &value, &error));
    CHECK_BYTES(expected, waxseal_bytes_slice(value));
    CHECK_OK(waxseal_bytes_destroy(value));
    CHECK_OK(waxseal_transaction_contains(transaction, family, STR(key), &error));
}

static void a_transaction_sees_its_own_writes(void) {
    waxseal_family_t *family, *users = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_transaction_t *transaction;
    waxseal_values_t *values = NULL;
    waxseal_slice_t keys[3] = {{LIT("a")}, {LIT("b")}, {LIT("c")}}, found;
    waxseal_iter_t *iter = NULL;
    waxseal_row_t row;
    waxseal_rows_t rows;
    CHECK_OK(waxseal_family_open(db, LIT("users"), &users, &error));
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_put(family, LIT("c"), LIT("3"), &error));
    transaction = begin(db, WAXSEAL_ISOLATION_SERIALIZABLE);
    CHECK_NUMBER(0, waxseal_transaction_count(transaction));
    CHECK_OK(waxseal_transaction_put(transaction, family, LIT("b"), LIT("2"), &error));
    CHECK_OK(waxseal_transaction_put_with(transaction, users, NULL, LIT("u"), LIT("ada"), &error));
    CHECK_OK(waxseal_transaction_delete(transaction, family, LIT("c"), &error));
    CHECK_NUMBER(3, waxseal_transaction_count(transaction));
    check_value("1", transaction, family, "a");
    check_value("2", transaction, family, "b");
    check_value(NULL, transaction, family, "c");
    check_value("ada", transaction, users, "u");
    CHECK_OK(waxseal_transaction_multi_get(transaction, family, keys, 3, &values, &error));
    CHECK_NUMBER(3, waxseal_values_count(values));
    CHECK_OK(waxseal_values_at(values, 0, &found));
    CHECK_BYTES("1", found);
    CHECK_OK(waxseal_values_at(values, 1, &found));
    CHECK_BYTES("2", found);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_values_at(values, 2, &found));
    CHECK_OK(waxseal_values_destroy(values));

    CHECK_OK(waxseal_transaction_iter_create(transaction, family, NULL, &iter, &error));
    CHECK_OK(waxseal_iter_next(iter, &row, &error));
    CHECK_BYTES("a", row.key);
    CHECK_OK(waxseal_transaction_put(transaction, family, LIT("aa"), LIT("own"), &error));
    CHECK_OK(waxseal_iter_next(iter, &row, &error)); /* a write behind the position is seen */
    CHECK_BYTES("own", row.value);
    CHECK_OK(waxseal_iter_seek(iter, LIT("b"), &row, &error));
    CHECK_BYTES("2", row.value);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_iter_next(iter, &row, &error));
    CHECK_OK(waxseal_iter_seek_for_prev(iter, LIT("z"), &row, &error));
    CHECK_BYTES("b", row.key);
    CHECK_OK(waxseal_iter_first(iter, NULL, &error));
    CHECK_OK(waxseal_iter_next_rows(iter, 10, 1000, &rows, &error));
    CHECK_NUMBER(2, rows.count);
    CHECK_OK(waxseal_iter_destroy(iter));
    iter = NULL;
    CHECK_OK(waxseal_transaction_iter_create_prefix(transaction, family, LIT("a"), &iter, &error));
    CHECK_OK(waxseal_iter_last(iter, &row, &error));
    CHECK_BYTES("aa", row.key);

    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("b"), &error));
    CHECK_OK(waxseal_transaction_commit(transaction, WAXSEAL_DURABILITY_SYNC, &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(family, NULL, LIT("b"), &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("c"), &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(users, NULL, LIT("u"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_iter_next(iter, &row, &error));
    CHECK_SAYS("ended", waxseal_error_message(error));
    CHECK_OK(waxseal_transaction_destroy(transaction));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_iter_first(iter, &row, &error));
    CHECK_OK(waxseal_iter_destroy(iter));
    CHECK_OK(waxseal_family_destroy(users));
    end_store(db, family);
}

static void merges_are_seen_by_the_transaction(void) {
    waxseal_family_t *family, *tags;
    waxseal_db_t *db = memory_store(&family);
    waxseal_family_options_t *options = NULL;
    waxseal_transaction_t *transaction;
    CHECK_OK(waxseal_family_options_create(&options, &error));
    CHECK_OK(waxseal_family_options_set_merge_operator(options, WAXSEAL_MERGE_APPEND, LIT(","), &error));
    CHECK_OK(waxseal_family_create(db, LIT("tags"), options, &tags, &error));
    CHECK_OK(waxseal_family_options_destroy(options));
    transaction = begin(db, WAXSEAL_ISOLATION_SERIALIZABLE);
    CHECK_OK(waxseal_transaction_merge(transaction, tags, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_transaction_merge(transaction, tags, LIT("a"), LIT("2"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_transaction_merge(transaction, family, LIT("a"), LIT("1"), &error));
    CHECK_SAYS("merge operator", waxseal_error_message(error));
    check_value("1,2", transaction, tags, "a");
    CHECK_OK(waxseal_transaction_commit(transaction, WAXSEAL_DURABILITY_DEFAULT, &error));
    CHECK_OK(waxseal_transaction_destroy(transaction));
    transaction = begin(db, WAXSEAL_ISOLATION_SERIALIZABLE);
    check_value("1,2", transaction, tags, "a");
    CHECK_OK(waxseal_transaction_destroy(transaction));
    CHECK_OK(waxseal_family_destroy(tags));
    end_store(db, family);
}

static void savepoints_undo_writes(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_transaction_t *transaction = begin(db, WAXSEAL_ISOLATION_SNAPSHOT);
    CHECK_OK(waxseal_transaction_put(transaction, family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_transaction_savepoint(transaction, &error));
    CHECK_OK(waxseal_transaction_delete_range(transaction, family, NULL, 0, NULL, 0, &error));
    check_value(NULL, transaction, family, "a");
    CHECK_OK(waxseal_transaction_rollback_to_savepoint(transaction, &error));
    check_value("1", transaction, family, "a");
    CHECK_OK(waxseal_transaction_savepoint(transaction, &error));
    CHECK_OK(waxseal_transaction_release_savepoint(transaction, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_transaction_release_savepoint(transaction, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_transaction_rollback_to_savepoint(transaction, &error));
    CHECK_SAYS("savepoint", waxseal_error_message(error));
    CHECK_OK(waxseal_transaction_rollback(transaction, &error));
    CHECK_OK(waxseal_transaction_destroy(transaction));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("a"), &error));
    transaction = begin(db, WAXSEAL_ISOLATION_SERIALIZABLE);
    CHECK_OK(waxseal_transaction_put(transaction, family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_transaction_destroy(transaction)); /* discards the write */
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("a"), &error));
    end_store(db, family);
}

/* Two transactions that each read what the other one writes. */
static int32_t skewed(waxseal_db_t *db, waxseal_family_t *family, int32_t isolation, int for_update) {
    waxseal_transaction_t *one = begin(db, isolation), *other = begin(db, isolation);
    waxseal_bytes_t *value = NULL;
    int32_t status;
    if (for_update)
        CHECK_OK(waxseal_transaction_get_for_update(one, family, LIT("x"), &value, &error));
    else
        CHECK_OK(waxseal_transaction_get(one, family, LIT("x"), &value, &error));
    CHECK_BYTES("0", waxseal_bytes_slice(value));
    CHECK_OK(waxseal_bytes_destroy(value));
    CHECK_OK(waxseal_transaction_put(one, family, LIT("y"), LIT("1"), &error));
    CHECK_OK(waxseal_transaction_put(other, family, LIT("x"), LIT("0"), &error));
    CHECK_OK(waxseal_transaction_commit(other, WAXSEAL_DURABILITY_DEFAULT, &error));
    status = waxseal_transaction_commit(one, WAXSEAL_DURABILITY_DEFAULT, &error);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_transaction_commit(one, WAXSEAL_DURABILITY_DEFAULT, &error)); /* has ended */
    CHECK_OK(waxseal_transaction_destroy(one));
    CHECK_OK(waxseal_transaction_destroy(other));
    return status;
}

static void a_conflict_is_a_status(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_transaction_t *transaction;
    CHECK_OK(waxseal_put(family, LIT("x"), LIT("0"), &error));
    CHECK_NUMBER(WAXSEAL_CONFLICT, skewed(db, family, WAXSEAL_ISOLATION_SERIALIZABLE, 0));
    CHECK_NUMBER(WAXSEAL_OK, skewed(db, family, WAXSEAL_ISOLATION_SNAPSHOT, 0));
    CHECK_NUMBER(WAXSEAL_CONFLICT, skewed(db, family, WAXSEAL_ISOLATION_SNAPSHOT, 1));
    transaction = begin(db, WAXSEAL_ISOLATION_SNAPSHOT);
    CHECK_OK(waxseal_transaction_put(transaction, family, LIT("x"), LIT("1"), &error));
    CHECK_OK(waxseal_put(family, LIT("x"), LIT("2"), &error));
    CHECK_FAILS(WAXSEAL_CONFLICT, waxseal_transaction_commit(transaction, WAXSEAL_DURABILITY_DEFAULT, &error));
    CHECK_SAYS("\"x\"", waxseal_error_message(error));
    CHECK_OK(waxseal_transaction_destroy(transaction));
    end_store(db, family);
}

static void what_is_refused_changes_nothing(void) {
    waxseal_family_t *family, *elsewhere;
    waxseal_db_t *db = memory_store(&family), *other = memory_store(&elsewhere);
    waxseal_transaction_t *transaction = NULL;
    waxseal_write_options_t *options = NULL;
    waxseal_bytes_t *value = NULL;
    waxseal_iter_t *iter = NULL;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_transaction_begin(db, 2, &transaction, &error));
    CHECK_SAYS("isolation", waxseal_error_message(error));
    CHECK(transaction == NULL);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_transaction_begin(db, 0, NULL, &error));
    transaction = begin(db, WAXSEAL_ISOLATION_SERIALIZABLE);
    CHECK_OK(waxseal_transaction_put(transaction, family, LIT("a"), LIT("1"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_transaction_put(transaction, elsewhere, LIT("b"), LIT("2"), &error));
    CHECK_SAYS("another store", waxseal_error_message(error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_transaction_get(transaction, elsewhere, LIT("b"), &value, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_transaction_iter_create(transaction, elsewhere, NULL, &iter, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_transaction_put(transaction, family, NULL, 9, LIT("2"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_transaction_delete_range(transaction, family, LIT("d"), LIT("b"), &error));
    CHECK_OK(waxseal_write_options_create(&options, &error));
    CHECK_OK(waxseal_write_options_set_durability(options, WAXSEAL_DURABILITY_SYNC));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_transaction_put_with(transaction, family, options, LIT("b"), LIT("2"), &error));
    CHECK_OK(waxseal_write_options_destroy(options));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_transaction_commit(transaction, 99, &error));
    CHECK_NUMBER(1, waxseal_transaction_count(transaction));
    CHECK_OK(waxseal_transaction_commit(transaction, WAXSEAL_DURABILITY_OS, &error));
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(family, NULL, LIT("a"), &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("b"), &error));
    CHECK_OK(waxseal_transaction_destroy(transaction));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_transaction_put(transaction, family, LIT("a"), LIT("1"), &error));
    end_store(other, elsewhere);
    end_store(db, family);
}

/* A transaction of a session commits in the session's name, and outlives its store. */
static void a_session_has_transactions(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    waxseal_session_t *alice = NULL;
    waxseal_transaction_t *transaction = NULL;
    waxseal_events_t *events = NULL;
    waxseal_event_t event;
    CHECK_OK(waxseal_session_open(db, LIT("alice"), NULL, 0, &alice, &error));
    CHECK_OK(waxseal_register(alice, LIT("default"), LIT("Row.Update"), NULL, NULL, &error));
    CHECK_OK(waxseal_session_transaction_begin(alice, WAXSEAL_ISOLATION_SERIALIZABLE, &transaction, &error));
    CHECK_OK(waxseal_transaction_put(transaction, family, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_transaction_commit(transaction, WAXSEAL_DURABILITY_DEFAULT, &error));
    CHECK_OK(waxseal_transaction_destroy(transaction));
    CHECK_OK(waxseal_query_all(alice, LIT("default.a"), LIT("Row.Update"), &events, &error));
    CHECK_NUMBER(1, waxseal_events_count(events));
    CHECK_OK(waxseal_events_get(events, 0, &event));
    CHECK_BYTES("alice", event.client);
    CHECK_OK(waxseal_events_destroy(events));
    CHECK_OK(waxseal_session_destroy(alice));
    transaction = begin(db, WAXSEAL_ISOLATION_SERIALIZABLE);
    end_store(db, family);
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_transaction_commit(transaction, WAXSEAL_DURABILITY_DEFAULT, &error));
    CHECK_OK(waxseal_transaction_destroy(transaction));
}

/* What the function of a transaction is to do, and how often it ran. */
struct run {
    waxseal_family_t *family;
    int conflicts; /* the first runs, which another commit disturbs */
    int32_t status;
    int ends; /* 1: rolls back, 2: destroys */
    int calls;
};

static int32_t run_it(void *context, waxseal_transaction_t *transaction, waxseal_error_t **why) {
    struct run *run = context;
    waxseal_bytes_t *value = NULL;
    int32_t status = waxseal_transaction_get(transaction, run->family, LIT("a"), &value, why);
    CHECK_OK(status);
    if (++run->calls <= run->conflicts) CHECK_OK(waxseal_put(run->family, LIT("a"), LIT("other"), why));
    CHECK_OK(waxseal_transaction_put(transaction, run->family, LIT("b"), LIT("1"), why));
    CHECK_OK(waxseal_bytes_destroy(value));
    if (run->status == WAXSEAL_INVALID) return waxseal_transaction_put(transaction, NULL, LIT("c"), LIT("1"), why);
    if (run->ends == 1) CHECK_OK(waxseal_transaction_rollback(transaction, why));
    if (run->ends == 2) CHECK_OK(waxseal_transaction_destroy(transaction));
    return run->status;
}

static void a_transaction_runs_until_it_commits(void) {
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    struct run run = {family, 2, WAXSEAL_OK, 0, 0};
    waxseal_session_t *alice = NULL;
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("0"), &error));
    CHECK_OK(waxseal_transact(db, WAXSEAL_ISOLATION_SERIALIZABLE, WAXSEAL_DURABILITY_SYNC, run_it, &run, &error));
    CHECK_NUMBER(3, run.calls);
    CHECK_STATUS(WAXSEAL_OK, waxseal_contains(family, NULL, LIT("b"), &error));
    run.conflicts = 9; /* not a conflict under this level */
    CHECK_OK(waxseal_transact(db, WAXSEAL_ISOLATION_SNAPSHOT, WAXSEAL_DURABILITY_DEFAULT, run_it, &run, &error));
    CHECK_NUMBER(4, run.calls);
    run.conflicts = 0;
    run.status = WAXSEAL_NOT_FOUND; /* no failure */
    CHECK_OK(waxseal_session_open(db, LIT("alice"), NULL, 0, &alice, &error));
    CHECK_OK(waxseal_session_transact(alice, WAXSEAL_ISOLATION_SERIALIZABLE, WAXSEAL_DURABILITY_DEFAULT, run_it, &run,
                                      &error));
    CHECK_OK(waxseal_session_destroy(alice));
    CHECK_NUMBER(5, run.calls);
    end_store(db, family);
}

static void a_function_that_fails_discards_the_writes(void) {
    static const int32_t fails[] = {-77, WAXSEAL_CONFLICT, WAXSEAL_INVALID};
    waxseal_family_t *family;
    waxseal_db_t *db = memory_store(&family);
    struct run run = {family, 0, 0, 0, 0};
    size_t at;
    CHECK_OK(waxseal_put(family, LIT("a"), LIT("0"), &error));
    for (at = 0; at < sizeof fails / sizeof *fails; at++) {
        run.status = fails[at];
        CHECK_FAILS(run.status, waxseal_transact(db, 0, 0, run_it, &run, &error));
        CHECK_SAYS(fails[at] == WAXSEAL_INVALID ? "null pointer" : "returned -", waxseal_error_message(error));
    }
    run.status = WAXSEAL_OK;
    run.ends = 1;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_transact(db, 0, 0, run_it, &run, &error));
    CHECK_SAYS("ended", waxseal_error_message(error));
    run.ends = 2;
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_transact(db, 0, 0, run_it, &run, &error));
    CHECK_NUMBER(5, run.calls);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_transact(db, 2, 0, run_it, &run, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_transact(db, 0, 99, run_it, &run, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_transact(db, 0, 0, NULL, NULL, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_session_transact(NULL, 0, 0, run_it, &run, &error));
    CHECK_NUMBER(5, run.calls);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("b"), &error));
    end_store(db, family);
}

int main(void) {
    RUN(a_transaction_sees_its_own_writes);
    RUN(merges_are_seen_by_the_transaction);
    RUN(savepoints_undo_writes);
    RUN(a_conflict_is_a_status);
    RUN(what_is_refused_changes_nothing);
    RUN(a_session_has_transactions);
    RUN(a_transaction_runs_until_it_commits);
    RUN(a_function_that_fails_discards_the_writes);
    return done();
}
