/* Threads: everybody may use a store; one at a time an iterator; whoever ends a handle first ends it. */
#include <pthread.h>

#include "harness.h"

enum { THREADS = 4, ROUNDS = 200 };

static void together(void *(*body)(void *), void *argument) {
    pthread_t threads[THREADS];
    int i;
    for (i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, body, argument) == 0);
    for (i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

/* What threads share: handles, a gate behind which they start, and counts of what they were told. */
static struct {
    waxseal_db_t *db;
    waxseal_family_t *family;
    waxseal_iter_t *iter;
    pthread_barrier_t gate;
    pthread_mutex_t lock;
    int ok, closed, busy, found, other;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void told(int32_t status) {
    pthread_mutex_lock(&shared.lock);
    switch (status) {
    case WAXSEAL_OK: shared.ok++; break;
    case WAXSEAL_NOT_FOUND: shared.found++; break;
    case WAXSEAL_CLOSED: shared.closed++; break;
    case WAXSEAL_BUSY: shared.busy++; break;
    default: shared.other++; printf("told %d\n", (int)status);
    }
    pthread_mutex_unlock(&shared.lock);
}

static void forget(void) {
    shared.ok = shared.closed = shared.busy = shared.found = shared.other = 0;
}

static void *close_it(void *argument) {
    waxseal_error_t *mine = NULL;
    int32_t status;
    (void)argument;
    pthread_barrier_wait(&shared.gate);
    status = waxseal_close(shared.db, &mine);
    told(status);
    if (waxseal_error_code(mine) != (status == WAXSEAL_OK ? WAXSEAL_OK : WAXSEAL_CLOSED)) told(-100);
    waxseal_error_destroy(mine);
    return NULL;
}

static void one_of_many_closes_a_store(void) {
    int round;
    pthread_barrier_init(&shared.gate, NULL, THREADS);
    forget();
    for (round = 0; round < ROUNDS / 10; round++) {
        shared.db = NULL;
        CHECK_OK(waxseal_open_memory(NULL, &shared.db, &error));
        together(close_it, NULL);
    }
    CHECK_NUMBER(ROUNDS / 10 * THREADS, shared.ok);
    pthread_barrier_destroy(&shared.gate);
}

static void *end_family(void *argument) {
    (void)argument;
    pthread_barrier_wait(&shared.gate);
    told(waxseal_family_destroy(shared.family));
    return NULL;
}

static void one_of_many_ends_a_handle(void) {
    int round;
    waxseal_db_t *db = NULL;
    CHECK_OK(waxseal_open_memory(NULL, &db, &error));
    pthread_barrier_init(&shared.gate, NULL, THREADS);
    forget();
    for (round = 0; round < ROUNDS; round++) {
        CHECK_OK(waxseal_family_open(db, LIT("default"), &shared.family, &error));
        together(end_family, NULL);
    }
    CHECK_NUMBER(ROUNDS, shared.ok);
    CHECK_NUMBER(ROUNDS * (THREADS - 1), shared.closed);
    pthread_barrier_destroy(&shared.gate);
    CHECK_OK(waxseal_close(db, &error));
}

/* One thread closes while the others read and write: they go on until they are told so. */
static void *use_until_closed(void *argument) {
    int number = __atomic_fetch_add((int *)argument, 1, __ATOMIC_SEQ_CST), i;
    uint8_t buffer[8];
    size_t length;
    int32_t status = WAXSEAL_OK;
    pthread_barrier_wait(&shared.gate);
    for (i = 0; status >= 0; i++) {
        if (number == 0 && i == 100) {
            told(waxseal_close(shared.db, NULL));
            return NULL;
        }
        status = waxseal_put(shared.family, LIT("key"), (const uint8_t *)&i, sizeof i, NULL);
        if (status == WAXSEAL_OK) status = waxseal_get_into(shared.family, NULL, LIT("key"), buffer, sizeof buffer, &length, NULL);
    }
    told(status);
    return NULL;
}

static void a_store_is_closed_while_it_is_used(void) {
    int round;
    pthread_barrier_init(&shared.gate, NULL, THREADS);
    forget();
    for (round = 0; round < 10; round++) {
        int number = 0;
        shared.db = memory_store(&shared.family);
        together(use_until_closed, &number);
        CHECK_OK(waxseal_family_destroy(shared.family));
    }
    CHECK_NUMBER(10, shared.ok);
    CHECK_NUMBER(10 * (THREADS - 1), shared.closed);
    pthread_barrier_destroy(&shared.gate);
}

/* Handles are made and ended on all threads: no place is given twice. */
static void *make_and_end(void *argument) {
    int i;
    for (i = 0; i < ROUNDS * 5; i++) {
        waxseal_batch_t *batches[3] = {NULL, NULL, NULL};
        size_t n;
        for (n = 0; n < 3; n++) {
            told(waxseal_batch_create(shared.db, &batches[n], NULL));
            told(waxseal_batch_put(batches[n], shared.family, (const uint8_t *)&argument, n, LIT("v"), NULL));
        }
        for (n = 0; n < 3; n++) {
            told(waxseal_batch_count(batches[n]) == 1 ? WAXSEAL_OK : -100);
            told(waxseal_batch_destroy(batches[n]));
            told(waxseal_batch_destroy(batches[n]) == WAXSEAL_CLOSED ? WAXSEAL_OK : -101);
        }
    }
    return NULL;
}

static void threads_make_handles_at_once(void) {
    forget();
    shared.db = memory_store(&shared.family);
    together(make_and_end, NULL);
    CHECK_NUMBER(THREADS * ROUNDS * 5 * 15, shared.ok);
    CHECK_NUMBER(0, shared.other + shared.closed + shared.busy + shared.found);
    end_store(shared.db, shared.family);
}

/* An iterator that several threads use is told to them one at a time: all rows are given, none twice. */
static void *take_rows(void *argument) {
    waxseal_row_t row;
    int32_t status = WAXSEAL_OK;
    (void)argument;
    while (status == WAXSEAL_OK || status == WAXSEAL_BUSY) {
        status = waxseal_iter_next(shared.iter, &row, NULL);
        told(status);
    }
    return NULL;
}

static void an_iterator_is_used_by_one_at_a_time(void) {
    int i;
    forget();
    shared.db = memory_store(&shared.family);
    for (i = 0; i < 10000; i++) CHECK_OK(waxseal_put(shared.family, (const uint8_t *)&i, sizeof i, LIT("v"), &error));
    CHECK_OK(waxseal_iter_create(shared.family, NULL, NULL, &shared.iter, &error));
    together(take_rows, NULL);
    CHECK_NUMBER(10000, shared.ok);
    CHECK_NUMBER(THREADS, shared.found);
    CHECK_NUMBER(0, shared.other);
    CHECK_OK(waxseal_iter_destroy(shared.iter));
    end_store(shared.db, shared.family);
}

static int32_t count_one(void *context, const waxseal_slice_t *value, waxseal_bytes_t **new_value, waxseal_error_t **why) {
    uint32_t count = 0;
    (void)context;
    if (value) memcpy(&count, value->data, sizeof count);
    count++;
    return waxseal_bytes_create((const uint8_t *)&count, sizeof count, new_value, why);
}

static int32_t count_in_a_transaction(void *context, waxseal_transaction_t *transaction, waxseal_error_t **why) {
    waxseal_bytes_t *value = NULL;
    uint32_t count = 0;
    int32_t status = waxseal_transaction_get(transaction, shared.family, LIT("count"), &value, why);
    (void)context;
    if (status < 0) return status;
    if (status == WAXSEAL_OK) memcpy(&count, waxseal_bytes_slice(value).data, sizeof count);
    waxseal_bytes_destroy(value);
    count++;
    return waxseal_transaction_put(transaction, shared.family, LIT("count"), (const uint8_t *)&count, sizeof count, why);
}

static void *count_all(void *argument) {
    int round;
    (void)argument;
    for (round = 0; round < ROUNDS; round++) {
        told(waxseal_update(shared.family, NULL, LIT("count"), count_one, NULL, NULL));
        told(waxseal_transact(shared.db, WAXSEAL_ISOLATION_SERIALIZABLE, WAXSEAL_DURABILITY_DEFAULT,
                              count_in_a_transaction, NULL, NULL));
    }
    return NULL;
}

static void no_change_by_a_function_is_lost(void) {
    waxseal_bytes_t *value = NULL;
    uint32_t count = 0;
    forget();
    shared.db = memory_store(&shared.family);
    together(count_all, NULL);
    CHECK_NUMBER(2 * ROUNDS * THREADS, shared.ok);
    CHECK_OK(waxseal_get(shared.family, NULL, LIT("count"), &value, &error));
    memcpy(&count, waxseal_bytes_slice(value).data, sizeof count);
    CHECK_NUMBER(2 * ROUNDS * THREADS, count);
    CHECK_OK(waxseal_bytes_destroy(value));
    end_store(shared.db, shared.family);
}

int main(void) {
    RUN(one_of_many_closes_a_store);
    RUN(one_of_many_ends_a_handle);
    RUN(a_store_is_closed_while_it_is_used);
    RUN(threads_make_handles_at_once);
    RUN(an_iterator_is_used_by_one_at_a_time);
    RUN(no_change_by_a_function_is_lost);
    return done();
}
