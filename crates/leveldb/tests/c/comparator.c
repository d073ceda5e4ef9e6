/* Comparators: the order of everything, kept by name, whoever calls. */
#include "check.h"

#include <ctype.h>

typedef struct {
  const char* name;
  int sign; /* -1: the other way round */
  int folds; /* letters count the same, large or small */
  int destroyed;
  int compared;
} order_t;

static void on_destroy(void* state) { ((order_t*)state)->destroyed++; }

static int on_compare(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  order_t* order = (order_t*)state;
  size_t n = alen < blen ? alen : blen, i;
  __sync_fetch_and_add(&order->compared, 1);
  for (i = 0; i < n; i++) {
    int x = (unsigned char)a[i], y = (unsigned char)b[i];
    if (order->folds) {
      x = tolower(x);
      y = tolower(y);
    }
    if (x != y) return x < y ? -order->sign : order->sign;
  }
  return alen == blen ? 0 : alen < blen ? -order->sign : order->sign;
}

static const char* on_name(void* state) { return ((order_t*)state)->name; }

static leveldb_comparator_t* comparator(order_t* order) {
  leveldb_comparator_t* made = leveldb_comparator_create(order, on_destroy, on_compare, on_name);
  CHECK(made != NULL);
  return made;
}

static int is_at(leveldb_iterator_t* it, const char* key) {
  size_t length;
  const char* k = leveldb_iter_key(it, &length);
  return leveldb_iter_valid(it) && length == strlen(key) && memcmp(k, key, length) == 0;
}

static void goes_the_other_way(void) {
  order_t back = {"test.back", -1, 0, 0, 0};
  order_t other = {"test.other", -1, 0, 0, 0};
  leveldb_comparator_t *of_back = comparator(&back), *of_other = comparator(&other);
  leveldb_iterator_t* it;
  world_t w = world();
  int i;
  char key[16];
  leveldb_options_set_comparator(w.options, of_back);
  open_world(&w, "back");
  fill(&w, 0, 2000, 50);
  leveldb_compact_range(w.db, "k00001000", 9, NULL, 0);
  leveldb_compact_range(w.db, NULL, 0, NULL, 0);
  fill(&w, 2000, 2500, 50);
  CHECK(back.compared > 2500);
  it = leveldb_create_iterator(w.db, w.read);
  leveldb_iter_seek_to_first(it);
  for (i = 2499; i >= 0; i--) {
    snprintf(key, sizeof(key), "k%08d", i);
    CHECK(is_at(it, key));
    leveldb_iter_next(it);
  }
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_seek(it, "k000012345", 10); /* behind k00001235 in this order */
  CHECK(is_at(it, "k00001234"));
  leveldb_iter_prev(it);
  CHECK(is_at(it, "k00001235"));
  leveldb_iter_destroy(it);
  CHECK(!is(&w, "k00000777", NULL) && is(&w, "k00002500", NULL));
  CHECK(tells(&w, "waxseal.options", "comparator=test.back"));
  close_world(&w);

  /* by its name it is known */
  leveldb_options_set_comparator(w.options, of_other);
  CHECK(leveldb_open(w.options, path("back"), &w.err) == NULL);
  CHECK_FAILED(w.err, "Invalid argument: test.back does not match existing comparator : test.other");
  leveldb_options_set_comparator(w.options, NULL);
  CHECK(leveldb_open(w.options, path("back"), &w.err) == NULL);
  CHECK_FAILED(w.err, "test.back does not match existing comparator : leveldb.BytewiseComparator");
  leveldb_options_set_comparator(w.options, of_back);
  leveldb_repair_db(w.options, path("back"), &w.err);
  CHECK_OK(w.err);
  open_world(&w, "back");
  CHECK(!is(&w, "k00002499", NULL));
  close_world(&w);

  /* a database uses it until it is closed */
  open_world(&w, "back");
  leveldb_comparator_destroy(of_back);
  CHECK(back.destroyed == 0);
  CHECK(!is(&w, "k00000001", NULL));
  close_world(&w);
  CHECK(back.destroyed == 1);
  CHECK(leveldb_open(w.options, path("back"), &w.err) == NULL);
  CHECK_FAILED(w.err, "the comparator was closed or destroyed");
  leveldb_comparator_destroy(of_back);
  CHECK(back.destroyed == 1);
  leveldb_comparator_destroy(of_other);
  CHECK(other.destroyed == 1);
  end_world(&w);
}

/* Keys with other bytes may be the same key: no filter may deny one of them. */
static void takes_two_keys_for_one(void) {
  order_t folds = {"test.folds", 1, 1, 0, 0};
  leveldb_comparator_t* of_folds = comparator(&folds);
  leveldb_filterpolicy_t* bloom = leveldb_filterpolicy_create_bloom(10);
  world_t w = world();
  leveldb_options_set_comparator(w.options, of_folds);
  leveldb_options_set_filter_policy(w.options, bloom);
  open_world(&w, "folds");
  put(&w, "Hello", "1");
  put(&w, "other", "2");
  leveldb_compact_range(w.db, NULL, 0, NULL, 0);
  CHECK(is(&w, "hello", "1") && is(&w, "HELLO", "1") && is(&w, "hell", NULL));
  put(&w, "hELLO", "3");
  CHECK(is(&w, "Hello", "3"));
  leveldb_compact_range(w.db, NULL, 0, NULL, 0);
  CHECK(is(&w, "Hello", "3"));
  del(&w, "HELLO");
  CHECK(is(&w, "Hello", NULL) && is(&w, "OTHER", "2"));
  end_world(&w);
  leveldb_comparator_destroy(of_folds);
  leveldb_filterpolicy_destroy(bloom);
}

/* An order that is none gives wrong answers, and nothing worse. */
static int on_chaos(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  static unsigned turn = 1;
  (void)state, (void)a, (void)alen, (void)b, (void)blen;
  turn = turn * 1664525u + 1013904223u;
  return (int)(turn >> 16) % 3 - 1;
}

static void survives_chaos(void) {
  order_t chaos = {"test.chaos", 1, 0, 0, 0};
  leveldb_comparator_t* of_chaos = leveldb_comparator_create(&chaos, NULL, on_chaos, on_name);
  world_t w = world();
  char key[16];
  int i;
  leveldb_options_set_comparator(w.options, of_chaos);
  w.db = leveldb_open(w.options, path("chaos"), &w.err);
  for (i = 0; i < 500 && w.db != NULL; i++) {
    leveldb_iterator_t* it;
    size_t length;
    int steps = 0;
    snprintf(key, sizeof(key), "%d", i * 7919 % 500);
    leveldb_put(w.db, w.write, key, strlen(key), "v", 1, &w.err);
    free(leveldb_get(w.db, w.read, key, strlen(key), &length, &w.err));
    if (i % 100 != 0) continue;
    it = leveldb_create_iterator(w.db, w.read);
    for (leveldb_iter_seek(it, key, strlen(key)); leveldb_iter_valid(it) && steps < 1000; steps++) leveldb_iter_next(it);
    leveldb_iter_destroy(it);
  }
  free(w.err);
  end_world(&w);
  leveldb_comparator_destroy(of_chaos);
  CHECK(chaos.destroyed == 0);
}

static void needs_its_functions(void) {
  order_t order = {NULL, 1, 0, 0, 0};
  leveldb_comparator_t* made[3];
  world_t w = world();
  int i;
  made[0] = leveldb_comparator_create(&order, on_destroy, NULL, on_name);
  made[1] = leveldb_comparator_create(&order, on_destroy, on_compare, NULL);
  made[2] = leveldb_comparator_create(&order, on_destroy, on_compare, on_name); /* whose name is NULL */
  CHECK(order.destroyed == 3);
  for (i = 0; i < 3; i++) {
    leveldb_options_set_comparator(w.options, made[i]);
    CHECK(leveldb_open(w.options, path("none"), &w.err) == NULL);
    CHECK_FAILED(w.err, "a comparator without ");
    leveldb_comparator_destroy(made[i]);
  }
  CHECK(order.destroyed == 3);
  end_world(&w);
}

int main(int argc, char** argv) {
  begin(argc, argv);
  goes_the_other_way();
  takes_two_keys_for_one();
  survives_chaos();
  needs_its_functions();
  return finish();
}
