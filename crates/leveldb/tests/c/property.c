/* What a store tells of itself; sizes; compaction. */
#include "check.h"

static void sizes(world_t* w, uint64_t found[3]) {
  const char* start[3] = {"a", "k00010000", "x"};
  const char* limit[3] = {"k00010000", "z", "z"};
  size_t start_length[3] = {1, 9, 1};
  size_t limit_length[3] = {9, 1, 1};
  found[0] = found[1] = found[2] = 77;
  leveldb_approximate_sizes(w->db, 3, start, start_length, limit, limit_length, found);
}

static void knows_its_names(world_t* w) {
  const char* unknown[] = {"nosuchprop", "", "leveldb.", "leveldb.num-files-at-level", "leveldb.num-files-at-level7",
                           "leveldb.num-files-at-level01x", "leveldb.num-files-at-level+1", "leveldb.statsx", "\xff"};
  size_t i;
  for (i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) CHECK(leveldb_property_value(w->db, unknown[i]) == NULL);
  CHECK(leveldb_property_value(w->db, NULL) == NULL);
  CHECK(tells(w, "leveldb.stats", "Level  Files Size(MB)"));
  CHECK(tells(w, "waxseal.metrics", "log: "));
  CHECK(tells(w, "leveldb.sstables", "--- level 0 ---\n"));
  CHECK(number(w, "leveldb.approximate-memory-usage") >= 0);
}

int main(int argc, char** argv) {
  world_t w;
  uint64_t before[3], after[3];
  int level, files;
  char name[64];
  begin(argc, argv);
  w = world();
  leveldb_options_set_write_buffer_size(w.options, 100000);
  leveldb_options_set_compression(w.options, leveldb_no_compression);
  open_world(&w, "a");
  sizes(&w, before);
  CHECK(before[0] == 0 && before[1] == 0 && before[2] == 0);
  CHECK(number(&w, "leveldb.num-files-at-level0") == 0);
  put(&w, "k00000000", "first");
  CHECK(number(&w, "leveldb.approximate-memory-usage") > 0);
  fill(&w, 0, 20000, 40);
  sizes(&w, before); /* without waiting for anything: what was flushed on the way counts */
  CHECK(before[0] > 0 && before[1] > 0 && before[2] == 0);
  knows_its_names(&w);

  leveldb_compact_range(w.db, NULL, 0, NULL, 0);
  CHECK(number(&w, "leveldb.num-files-at-level0") == 0);
  for (level = 0, files = 0; level < 7; level++) {
    long found;
    snprintf(name, sizeof(name), "leveldb.num-files-at-level%d", level);
    found = number(&w, name);
    CHECK(found >= 0);
    files += (int)found;
  }
  CHECK(files > 0);
  CHECK(tells(&w, "leveldb.sstables", "['k00000000' .. 'k") && tells(&w, "leveldb.sstables", " .. 'k00019999'] @ "));
  sizes(&w, before);
  CHECK(before[0] > 300000 && before[0] < 900000 && before[1] > 300000 && before[1] < 900000);

  for (level = 0; level < 10000; level++) {
    snprintf(name, sizeof(name), "k%08d", level);
    del(&w, name);
  }
  leveldb_compact_range(w.db, "k00010000", 9, "k00010001", 9);
  leveldb_compact_range(w.db, "a", 1, "k00009999", 9);
  sizes(&w, after);
  CHECK(after[0] < before[0] / 20 && after[1] > before[1] / 2);
  CHECK(is(&w, "k00009999", NULL) && !is(&w, "k00010000", NULL));

  leveldb_approximate_sizes(w.db, 0, NULL, NULL, NULL, NULL, NULL);
  end_world(&w);
  return finish();
}
