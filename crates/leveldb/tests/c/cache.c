/* Caches: shared, and as large as they were made; reads that leave them alone. */
#include "check.h"

static const size_t CAPACITY = 1 << 20;

static void scan(world_t* w) {
  leveldb_iterator_t* it = leveldb_create_iterator(w->db, w->read);
  int rows = 0;
  for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it) && rows < 100000; rows++) leveldb_iter_next(it);
  CHECK(rows == 4000);
  leveldb_iter_destroy(it);
}

/* What is in memory of tables alone: the memtable is empty. */
static long cached(world_t* w) { return number(w, "leveldb.approximate-memory-usage"); }

int main(int argc, char** argv) {
  leveldb_cache_t* cache;
  world_t a, b;
  long empty;
  char many[32];
  begin(argc, argv);
  cache = leveldb_cache_create_lru(CAPACITY);
  CHECK(cache != NULL);
  a = world();
  b = world();
  leveldb_options_set_cache(a.options, cache);
  leveldb_options_set_cache(b.options, cache);
  open_world(&a, "a");
  open_world(&b, "b");
  snprintf(many, sizeof(many), "cache=%lu\n", (unsigned long)CAPACITY);
  CHECK(tells(&a, "waxseal.options", many));
  fill(&a, 0, 4000, 1000);
  fill(&b, 0, 4000, 1000);
  leveldb_compact_range(a.db, NULL, 0, NULL, 0);
  leveldb_compact_range(b.db, NULL, 0, NULL, 0);

  empty = cached(&a);
  leveldb_readoptions_set_fill_cache(a.read, 0);
  scan(&a);
  CHECK(!is(&a, "k00000017", NULL));
  CHECK(cached(&a) == empty); /* nothing was kept */
  leveldb_readoptions_set_fill_cache(a.read, 1);
  CHECK(!is(&a, "k00000017", NULL));
  CHECK(cached(&a) > empty);

  scan(&a); /* four megabytes each go through one */
  scan(&b);
  CHECK(cached(&a) > (long)CAPACITY / 2 && cached(&a) <= (long)CAPACITY + empty);
  CHECK(cached(&b) > (long)CAPACITY / 2 && cached(&b) <= (long)CAPACITY + empty);

  leveldb_cache_destroy(cache); /* those that use it keep it */
  scan(&a);
  close_world(&a);
  CHECK(leveldb_open(a.options, path("a"), &a.err) == NULL);
  CHECK_FAILED(a.err, "the cache was closed or destroyed");
  leveldb_options_set_cache(a.options, NULL);
  open_world(&a, "a");
  scan(&a);
  CHECK(cached(&a) > 2 * (long)CAPACITY);

  cache = leveldb_cache_create_lru(0);
  leveldb_options_set_cache(a.options, cache);
  close_world(&a);
  open_world(&a, "a");
  scan(&a);
  CHECK(cached(&a) <= empty);
  end_world(&a);
  end_world(&b);
  leveldb_cache_destroy(cache);
  return finish();
}
