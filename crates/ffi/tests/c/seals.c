/* Seals: handed in, handed out, refused; and the digest that they add up to. */
#include "harness.h"

static void a_seal_is_the_same_everywhere(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_seal_t seal = {{0}}, found = {{0}};
    waxseal_bytes_t *value = NULL;
    uint64_t seqno = 0;
    CHECK_OK(waxseal_seal_of(LIT("key"), LIT("value"), &seal, &error));
    CHECK_OK(waxseal_put_sealed(family, NULL, LIT("key"), LIT("value"), seal, &error));
    CHECK_OK(waxseal_put(family, LIT("plain"), LIT("value"), &error));
    CHECK_OK(waxseal_get_sealed(family, NULL, LIT("key"), &value, &found, &seqno, &error));
    CHECK_BYTES("value", waxseal_bytes_slice(value));
    CHECK(memcmp(&seal, &found, sizeof seal) == 0);
    CHECK(seqno > 0);
    CHECK_OK(waxseal_bytes_destroy(value));
    CHECK_OK(waxseal_seal_of(LIT("plain"), LIT("value"), &seal, &error));
    CHECK_OK(waxseal_get_sealed(family, NULL, LIT("plain"), &value, &found, NULL, &error));
    CHECK(memcmp(&seal, &found, sizeof seal) == 0);
    CHECK_OK(waxseal_bytes_destroy(value));
    end_store(db, family);
}

static void a_seal_that_does_not_fit_changes_nothing(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_batch_t *batch = NULL;
    waxseal_seal_t seal = {{0}};
    waxseal_bytes_t *value = NULL;
    CHECK_OK(waxseal_seal_of(LIT("key"), LIT("value"), &seal, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_put_sealed(family, NULL, LIT("key"), LIT("valve"), seal, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_get_sealed(family, NULL, LIT("key"), &value, &seal, NULL, &error));
    CHECK_OK(waxseal_batch_create(db, &batch, &error));
    CHECK_OK(waxseal_batch_put_sealed(batch, family, LIT("key"), LIT("value"), seal, &error));
    seal.bytes[7] ^= 0x80;
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_put_sealed(batch, family, LIT("key"), LIT("value"), seal, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_batch_commit(batch, WAXSEAL_DURABILITY_DEFAULT, &error));
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_contains(family, NULL, LIT("key"), &error));
    CHECK_OK(waxseal_batch_destroy(batch));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_seal_of(NULL, 1, LIT("value"), &seal, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_seal_of(LIT("key"), (const uint8_t *)"v", (size_t)1 << 32, &seal, &error));
    end_store(db, family);
}

static void a_snapshot_keeps_what_was_sealed(void) {
    waxseal_family_t *family = NULL;
    waxseal_db_t *db = memory_store(&family);
    waxseal_snapshot_t *before = NULL;
    waxseal_bytes_t *value = NULL;
    waxseal_seal_t seal = {{0}};
    CHECK_OK(waxseal_put(family, LIT("key"), LIT("old"), &error));
    CHECK_OK(waxseal_snapshot_create(db, &before, &error));
    CHECK_OK(waxseal_put(family, LIT("key"), LIT("new"), &error));
    CHECK_OK(waxseal_get_sealed(family, before, LIT("key"), &value, &seal, NULL, &error));
    CHECK_BYTES("old", waxseal_bytes_slice(value));
    CHECK_OK(waxseal_bytes_destroy(value));
    CHECK_OK(waxseal_snapshot_destroy(before));
    end_store(db, family);
}

static void equal_stores_have_equal_digests(void) {
    waxseal_family_t *one = NULL, *other = NULL;
    waxseal_db_t *first = memory_store(&one), *second = memory_store(&other);
    waxseal_digest_t here, there;
    waxseal_snapshot_t *before = NULL;
    waxseal_range_t from_b = {{WAXSEAL_INCLUDED, (const uint8_t *)"b", 1}, {WAXSEAL_UNBOUNDED, NULL, 0}};
    CHECK_OK(waxseal_put(one, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_put(one, LIT("b"), LIT("2"), &error));
    CHECK_OK(waxseal_put(other, LIT("b"), LIT("0"), &error));
    CHECK_OK(waxseal_put(other, LIT("b"), LIT("2"), &error));
    CHECK_OK(waxseal_flush(second, &error));
    CHECK_OK(waxseal_put(other, LIT("a"), LIT("1"), &error));
    CHECK_OK(waxseal_digest(one, NULL, NULL, &here, &error));
    CHECK_OK(waxseal_digest(other, NULL, NULL, &there, &error));
    CHECK(here.count == 2 && here.count == there.count && here.sum == there.sum);
    CHECK_OK(waxseal_snapshot_create(second, &before, &error));
    CHECK_OK(waxseal_delete(other, LIT("a"), &error));
    CHECK_OK(waxseal_digest(other, NULL, NULL, &there, &error));
    CHECK(there.count == 1 && here.sum != there.sum);
    CHECK_OK(waxseal_digest(other, before, NULL, &there, &error));
    CHECK(here.sum == there.sum);
    CHECK_OK(waxseal_digest(other, before, &from_b, &there, &error));
    CHECK_NUMBER(1, there.count);
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_digest(one, before, NULL, &there, &error));
    CHECK_OK(waxseal_snapshot_destroy(before));
    end_store(first, one);
    end_store(second, other);
}

static void a_plain_store_has_no_seals(void) {
    waxseal_options_t *options = NULL;
    waxseal_db_t *db = NULL;
    waxseal_family_t *family = NULL;
    waxseal_seal_t seal = {{0}};
    waxseal_bytes_t *value = NULL;
    CHECK_OK(waxseal_options_create(&options, &error));
    CHECK_OK(waxseal_options_set_plain(options, true));
    CHECK_OK(waxseal_open_memory(options, &db, &error));
    CHECK_OK(waxseal_family_open(db, LIT("default"), &family, &error));
    CHECK_OK(waxseal_put(family, LIT("key"), LIT("value"), &error));
    CHECK_OK(waxseal_seal_of(LIT("key"), LIT("value"), &seal, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_put_sealed(family, NULL, LIT("key"), LIT("value"), seal, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_get_sealed(family, NULL, LIT("key"), &value, &seal, NULL, &error));
    CHECK(value == NULL);
    CHECK_OK(waxseal_options_destroy(options));
    end_store(db, family);
}

int main(void) {
    RUN(a_seal_is_the_same_everywhere);
    RUN(a_seal_that_does_not_fit_changes_nothing);
    RUN(a_snapshot_keeps_what_was_sealed);
    RUN(equal_stores_have_equal_digests);
    RUN(a_plain_store_has_no_seals);
    return done();
}
