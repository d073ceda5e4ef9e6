/* What the C tests have in common: tests with names, checks that tell where they failed, and a count.
 *
 * A test is a function without arguments, run by RUN. A check that fails is told and the test goes on: every call of the library
 * has to bear what a failed one leaves. A test that leaves a handle alive has failed. */
#ifndef WAXSEAL_TESTS_HARNESS_H
#define WAXSEAL_TESTS_HARNESS_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "waxseal.h"

/* Bytes of a literal, of a C string. */
#define LIT(s) (const uint8_t *)(s), (sizeof(s) - 1)
#define STR(s) (const uint8_t *)(s), strlen(s)

#define UNUSED __attribute__((unused))

/* The error of the last call that failed; ended after each test. */
static waxseal_error_t *error;

static int checks_failed;
static int tests_passed;
static int tests_failed;

UNUSED static void failed_check(const char *file, int line, const char *format, ...) {
    va_list arguments;
    checks_failed++;
    printf("%s:%d: ", file, line);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
}

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) failed_check(__FILE__, __LINE__, "%s does not hold", #condition);                            \
    } while (0)

/* The call answers this status; a failure has an error object that says the same. */
#define CHECK_STATUS(expected, call) check_status(__FILE__, __LINE__, #call, expected, call)

UNUSED static void check_status(const char *file, int line, const char *call, int32_t expected, int32_t status) {
    if (status != expected)
        failed_check(file, line, "%s answers %" PRId32 ", not %" PRId32 ": %s", call, status, expected, waxseal_error_message(error));
}

#define CHECK_OK(call) CHECK_STATUS(WAXSEAL_OK, call)

/* The call fails with this status, and leaves an error that has it too and gives a reason. */
#define CHECK_FAILS(expected, call)                                                                                    \
    do {                                                                                                               \
        waxseal_error_destroy(error);                                                                                  \
        error = NULL;                                                                                                  \
        CHECK_STATUS(expected, call);                                                                                  \
        if (waxseal_error_code(error) != (expected) || !*waxseal_error_message(error))                                 \
            failed_check(__FILE__, __LINE__, "%s leaves the error %" PRId32 " \"%s\"", #call, waxseal_error_code(error), \
                         waxseal_error_message(error));                                                                \
    } while (0)

#define CHECK_NUMBER(expected, value)                                                                                  \
    do {                                                                                                               \
        long long expected_ = (long long)(expected), value_ = (long long)(value);                                      \
        if (expected_ != value_)                                                                                       \
            failed_check(__FILE__, __LINE__, "%s is %lld, not %lld", #value, value_, expected_);                       \
    } while (0)

/* A slice reads as this C string. */
#define CHECK_BYTES(expected, slice) check_bytes(__FILE__, __LINE__, #slice, expected, slice)

UNUSED static void check_bytes(const char *file, int line, const char *what, const char *expected, waxseal_slice_t slice) {
    if (slice.len != strlen(expected) || (slice.len && memcmp(slice.data, expected, slice.len) != 0))
        failed_check(file, line, "%s is \"%.*s\", not \"%s\"", what, (int)slice.len, slice.data ? (const char *)slice.data : "", expected);
}

/* A message contains these words. */
#define CHECK_SAYS(words, message)                                                                                     \
    do {                                                                                                               \
        const char *message_ = (message);                                                                              \
        if (!strstr(message_, words)) failed_check(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", message_, words); \
    } while (0)

#define RUN(test) run(#test, test)

static void run(const char *name, void (*test)(void)) {
    checks_failed = 0;
    test();
    waxseal_error_destroy(error);
    error = NULL;
    if (waxseal_live_handles() != 0) failed_check(name, 0, "%zu handles are left alive", waxseal_live_handles());
    if (checks_failed)
        tests_failed++;
    else
        tests_passed++;
    printf("test %s ... %s\n", name, checks_failed ? "FAILED" : "ok");
    fflush(stdout);
}

/* To be returned by main. */
static int done(void) {
    return tests_failed || !tests_passed;
}

/* A path that nothing stands at yet, below the folder that the tests were given. */
UNUSED static const char *fresh_path(void) {
    static char path[4096];
    static int count;
    const char *folder = getenv("WAXSEAL_TEST_DIR");
    snprintf(path, sizeof path, "%s/store%d", folder ? folder : ".", count++);
    return path;
}

/* A store in memory with its family `default`. */
UNUSED static waxseal_db_t *memory_store(waxseal_family_t **family) {
    waxseal_db_t *db = NULL;
    CHECK_OK(waxseal_open_memory(NULL, &db, &error));
    CHECK_OK(waxseal_family_open(db, LIT("default"), family, &error));
    return db;
}

/* Ends both. */
UNUSED static void end_store(waxseal_db_t *db, waxseal_family_t *family) {
    CHECK_OK(waxseal_family_destroy(family));
    CHECK_OK(waxseal_close(db, &error));
}

#endif
