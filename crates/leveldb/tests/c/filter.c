/* Filter policies: really asked, kept by name, ours and the caller's. */
#include "check.h"

typedef struct {
  const char* name;
  int denies; /* what is asked for is never there */
  int created, keys, asked, destroyed;
} policy_t;

static void on_destroy(void* state) { ((policy_t*)state)->destroyed++; }
static const char* on_name(void* state) { return ((policy_t*)state)->name; }

/* The filter is the last byte of each key. */
static char* on_create(void* state, const char* const* keys, const size_t* lengths, int count, size_t* filter_length) {
  policy_t* policy = (policy_t*)state;
  char* filter = (char*)malloc((size_t)count);
  int i;
  for (i = 0; i < count; i++) filter[i] = lengths[i] == 0 ? 0 : keys[i][lengths[i] - 1];
  __sync_fetch_and_add(&policy->created, 1);
  __sync_fetch_and_add(&policy->keys, count);
  *filter_length = (size_t)count;
  return filter;
}

static char* on_create_nothing(void* state, const char* const* keys, const size_t* lengths, int count, size_t* length) {
  (void)keys, (void)lengths, (void)count;
  ((policy_t*)state)->created++;
  *length = 1u << 30; /* means nothing */
  return NULL;
}

static uint8_t on_match(void* state, const char* key, size_t length, const char* filter, size_t filter_length) {
  policy_t* policy = (policy_t*)state;
  __sync_fetch_and_add(&policy->asked, 1);
  return !policy->denies && memchr(filter, length == 0 ? 0 : key[length - 1], filter_length) != NULL;
}

static void put_even(world_t* w) {
  char key[16];
  int i;
  for (i = 0; i < 20000; i += 2) {
    snprintf(key, sizeof(key), "%08d", i);
    put(w, key, key);
  }
  leveldb_compact_range(w->db, NULL, 0, NULL, 0);
}

static void is_asked(void) {
  policy_t policy = {"test.last", 0, 0, 0, 0, 0}, other = {"test.other", 1, 0, 0, 0, 0};
  leveldb_filterpolicy_t* own = leveldb_filterpolicy_create(&policy, on_destroy, on_create, on_match, on_name);
  leveldb_filterpolicy_t* another = leveldb_filterpolicy_create(&other, on_destroy, on_create, on_match, on_name);
  world_t w = world();
  leveldb_options_set_filter_policy(w.options, own);
  open_world(&w, "own");
  put_even(&w);
  CHECK(policy.created > 1 && policy.keys >= 10000); /* some thousand keys at once at most */
  CHECK(is(&w, "00000100", "00000100") && policy.asked > 0);
  CHECK(is(&w, "00000101", NULL));
  CHECK(tells(&w, "waxseal.options", "filter_policy=test.last"));

  policy.denies = 1; /* it is believed */
  CHECK(is(&w, "00000100", NULL));
  policy.denies = 0;
  CHECK(is(&w, "00000100", "00000100"));
  close_world(&w);

  open_world(&w, "own"); /* what it has made is there */
  policy.created = policy.asked = 0;
  CHECK(is(&w, "00019998", "00019998") && policy.asked > 0 && policy.created == 0);
  close_world(&w);

  leveldb_options_set_filter_policy(w.options, another); /* of another name: it is not asked of filters that it has not made */
  open_world(&w, "own");
  CHECK(is(&w, "00000100", "00000100") && other.asked == 0);
  put(&w, "new", "1");
  leveldb_compact_range(w.db, NULL, 0, NULL, 0);
  close_world(&w);

  leveldb_options_set_filter_policy(w.options, NULL);
  open_world(&w, "own"); /* without any */
  CHECK(is(&w, "00000100", "00000100") && is(&w, "new", "1"));
  leveldb_filterpolicy_destroy(own);
  leveldb_filterpolicy_destroy(another);
  CHECK(policy.destroyed == 1 && other.destroyed == 1);
  leveldb_options_set_filter_policy(w.options, own);
  CHECK(leveldb_open(w.options, path("none"), &w.err) == NULL);
  CHECK_FAILED(w.err, "the filter policy was closed or destroyed");
  end_world(&w);
}

static int on_compare(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  int order = memcmp(a, b, alen < blen ? alen : blen);
  (void)state;
  return order != 0 ? order : (alen > blen) - (alen < blen);
}

static const char* on_order_name(void* state) {
  (void)state;
  return "test.bytes";
}

/* Also under a comparator. */
static void is_asked_in_another_order(void) {
  policy_t policy = {"test.last", 0, 0, 0, 0, 0};
  leveldb_filterpolicy_t* own = leveldb_filterpolicy_create(&policy, on_destroy, on_create, on_match, on_name);
  leveldb_comparator_t* order = leveldb_comparator_create(NULL, NULL, on_compare, on_order_name);
  world_t w = world();
  leveldb_options_set_comparator(w.options, order);
  leveldb_options_set_filter_policy(w.options, own);
  open_world(&w, "order");
  put_even(&w);
  CHECK(policy.created > 1 && is(&w, "00000100", "00000100") && policy.asked > 0 && is(&w, "00000101", NULL));
  policy.denies = 1;
  CHECK(is(&w, "00000100", NULL));
  end_world(&w);
  leveldb_filterpolicy_destroy(own);
  leveldb_comparator_destroy(order);
}

static void may_make_nothing(void) {
  policy_t policy = {"test.nothing", 1, 0, 0, 0, 0}, nameless = {NULL, 0, 0, 0, 0, 0};
  leveldb_filterpolicy_t* own = leveldb_filterpolicy_create(&policy, on_destroy, on_create_nothing, on_match, on_name);
  leveldb_filterpolicy_t* none[3];
  world_t w = world();
  int i;
  leveldb_options_set_filter_policy(w.options, own);
  open_world(&w, "nothing");
  put_even(&w);
  CHECK(is(&w, "00000100", "00000100") && policy.created > 0 && policy.asked == 0);
  close_world(&w);
  leveldb_filterpolicy_destroy(own);
  none[0] = leveldb_filterpolicy_create(&nameless, on_destroy, on_create, on_match, on_name);
  none[1] = leveldb_filterpolicy_create(&policy, NULL, NULL, on_match, on_name);
  none[2] = leveldb_filterpolicy_create(&policy, NULL, on_create, NULL, on_name);
  for (i = 0; i < 3; i++) {
    leveldb_options_set_filter_policy(w.options, none[i]);
    CHECK(leveldb_open(w.options, path("none"), &w.err) == NULL);
    CHECK_FAILED(w.err, "a filter policy without ");
    leveldb_filterpolicy_destroy(none[i]);
  }
  CHECK(nameless.destroyed == 1);
  end_world(&w);
}

static void is_ours(void) {
  leveldb_filterpolicy_t* bloom = leveldb_filterpolicy_create_bloom(20);
  world_t w = world();
  CHECK(bloom != NULL);
  leveldb_options_set_filter_policy(w.options, bloom);
  open_world(&w, "bloom");
  CHECK(tells(&w, "waxseal.options", "filter_policy=bloom\nfilter_bits=20\n"));
  put_even(&w);
  CHECK(is(&w, "00000100", "00000100") && is(&w, "00000101", NULL));
  leveldb_filterpolicy_destroy(bloom);
  CHECK(is(&w, "00000102", "00000102"));
  end_world(&w);
}

int main(int argc, char** argv) {
  begin(argc, argv);
  is_asked();
  is_asked_in_another_order();
  may_make_nothing();
  is_ours();
  return finish();
}
