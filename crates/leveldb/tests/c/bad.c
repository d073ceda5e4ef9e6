/* What must not be passed: NULL, what was ended, what is of another kind, lengths that cannot be. An error or nothing, never a crash. */
#include "check.h"

static const size_t HUGE_LENGTH = (size_t)4 << 30;

static void everything_of_nothing(void) {
  world_t w = world();
  leveldb_iterator_t* it;
  const leveldb_snapshot_t* snapshot;
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  uint64_t size = 77;
  size_t length = 77;
  const char* key = "k";
  CHECK(leveldb_open(NULL, path("a"), &w.err) == NULL);
  CHECK_FAILED(w.err, "options is NULL");
  CHECK(leveldb_open(w.options, NULL, &w.err) == NULL);
  CHECK_FAILED(w.err, "the name is NULL");
  CHECK(leveldb_open(w.options, "", &w.err) == NULL);
  CHECK_FAILED(w.err, "the name is empty");
  CHECK(leveldb_open(NULL, NULL, NULL) == NULL);
  leveldb_close(NULL);
  leveldb_put(NULL, w.write, "k", 1, "v", 1, &w.err);
  CHECK_FAILED(w.err, "the database is NULL");
  leveldb_delete(NULL, w.write, "k", 1, &w.err);
  CHECK_FAILED(w.err, "the database is NULL");
  leveldb_write(NULL, w.write, batch, &w.err);
  CHECK_FAILED(w.err, "the database is NULL");
  CHECK(leveldb_get(NULL, w.read, "k", 1, &length, &w.err) == NULL && length == 0);
  CHECK_FAILED(w.err, "the database is NULL");
  it = leveldb_create_iterator(NULL, w.read);
  leveldb_iter_seek_to_first(it);
  CHECK(it != NULL && !leveldb_iter_valid(it));
  leveldb_iter_get_error(it, &w.err);
  CHECK_FAILED(w.err, "the database is NULL");
  leveldb_iter_destroy(it);
  snapshot = leveldb_create_snapshot(NULL);
  CHECK(snapshot != NULL);
  open_world(&w, "b");
  leveldb_readoptions_set_snapshot(w.read, snapshot);
  CHECK(leveldb_get(w.db, w.read, "k", 1, &length, &w.err) == NULL);
  CHECK_FAILED(w.err, "the database is NULL");
  leveldb_readoptions_set_snapshot(w.read, NULL);
  leveldb_release_snapshot(w.db, snapshot);
  leveldb_release_snapshot(NULL, NULL);
  CHECK(leveldb_property_value(NULL, "leveldb.stats") == NULL);
  leveldb_approximate_sizes(NULL, 1, &key, &length, &key, &length, &size);
  CHECK(size == 0);
  leveldb_compact_range(NULL, NULL, 0, NULL, 0);
  leveldb_destroy_db(NULL, path("b"), &w.err);
  CHECK_FAILED(w.err, "options is NULL");
  leveldb_destroy_db(w.options, NULL, &w.err);
  CHECK_FAILED(w.err, "the name is NULL");
  leveldb_repair_db(NULL, path("b"), &w.err);
  CHECK_FAILED(w.err, "options is NULL");

  leveldb_iter_destroy(NULL);
  leveldb_iter_seek_to_first(NULL);
  leveldb_iter_seek_to_last(NULL);
  leveldb_iter_seek(NULL, "k", 1);
  leveldb_iter_next(NULL);
  leveldb_iter_prev(NULL);
  length = 77;
  CHECK(*leveldb_iter_key(NULL, &length) == 0 && length == 0 && *leveldb_iter_value(NULL, NULL) == 0);
  leveldb_iter_get_error(NULL, &w.err);
  CHECK_FAILED(w.err, "the iterator is NULL");

  leveldb_writebatch_destroy(NULL);
  leveldb_writebatch_clear(NULL);
  leveldb_writebatch_put(NULL, "k", 1, "v", 1);
  leveldb_writebatch_delete(NULL, "k", 1);
  leveldb_writebatch_iterate(NULL, NULL, NULL, NULL);
  leveldb_writebatch_append(NULL, batch);
  leveldb_writebatch_append(batch, NULL);
  leveldb_write(w.db, w.write, batch, &w.err);
  CHECK_FAILED(w.err, "a batch that was appended");
  leveldb_writebatch_destroy(batch);

  leveldb_options_set_comparator(NULL, NULL);
  leveldb_options_set_max_open_files(NULL, 1);
  leveldb_readoptions_set_fill_cache(NULL, 1);
  leveldb_writeoptions_set_sync(NULL, 1);
  leveldb_options_destroy(NULL);
  leveldb_readoptions_destroy(NULL);
  leveldb_writeoptions_destroy(NULL);
  leveldb_comparator_destroy(NULL);
  leveldb_filterpolicy_destroy(NULL);
  leveldb_cache_destroy(NULL);
  leveldb_env_destroy(NULL);
  CHECK(leveldb_env_get_test_directory(NULL) == NULL);
  end_world(&w);
}

static void lengths_that_cannot_be(void) {
  world_t w = world();
  leveldb_iterator_t* it;
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  char* longest = (char*)calloc(1, 65536);
  size_t length;
  uint64_t size;
  const char* key = longest;
  open_world(&w, "c");
  leveldb_put(w.db, w.write, longest, 65536, "v", 1, &w.err);
  CHECK_FAILED(w.err, "Invalid argument: a key of 65536 bytes: 65535 at most");
  leveldb_put(w.db, w.write, longest, 65535, "v", 1, &w.err);
  CHECK_OK(w.err);
  leveldb_put(w.db, w.write, "k", HUGE_LENGTH, "v", 1, &w.err);
  CHECK_FAILED(w.err, "65535 at most");
  leveldb_put(w.db, w.write, "k", 1, "v", HUGE_LENGTH, &w.err);
  CHECK_FAILED(w.err, "a value of 4294967296 bytes");
  leveldb_put(w.db, w.write, "k", 1, "v", (size_t)-1, &w.err);
  CHECK_FAILED(w.err, "a value of ");
  leveldb_put(w.db, w.write, NULL, 3, "v", 1, &w.err);
  CHECK_FAILED(w.err, "a key is NULL, with a length of 3");
  leveldb_put(w.db, w.write, "k", 1, NULL, 3, &w.err);
  CHECK_FAILED(w.err, "a value is NULL, with a length of 3");
  leveldb_delete(w.db, w.write, "k", HUGE_LENGTH, &w.err);
  CHECK_FAILED(w.err, "65535 at most");
  CHECK(leveldb_get(w.db, w.read, "k", HUGE_LENGTH, &length, &w.err) == NULL && length == 0);
  CHECK_FAILED(w.err, "65535 at most");
  CHECK(leveldb_get(w.db, w.read, NULL, 1, NULL, &w.err) == NULL);
  CHECK_FAILED(w.err, "a key is NULL");
  CHECK(is(&w, "k", NULL));
  free(leveldb_get(w.db, w.read, longest, 65535, NULL, &w.err)); /* nobody asks how long */
  CHECK_OK(w.err);

  it = leveldb_create_iterator(w.db, w.read);
  leveldb_iter_seek(it, "k", HUGE_LENGTH);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_get_error(it, &w.err);
  CHECK_FAILED(w.err, "65535 at most");
  leveldb_iter_destroy(it);
  leveldb_writebatch_put(batch, "k", 1, "v", HUGE_LENGTH);
  leveldb_write(w.db, w.write, batch, &w.err);
  CHECK_FAILED(w.err, "a value of ");
  length = HUGE_LENGTH;
  size = 77;
  leveldb_approximate_sizes(w.db, 1, &key, &length, &key, &length, &size);
  CHECK(size == 0);
  leveldb_approximate_sizes(w.db, -1, NULL, NULL, NULL, NULL, NULL);
  leveldb_approximate_sizes(w.db, 3, NULL, NULL, NULL, NULL, NULL);
  leveldb_compact_range(w.db, "k", HUGE_LENGTH, NULL, 3);
  leveldb_writebatch_destroy(batch);
  free(longest);
  end_world(&w);
}

static void what_was_ended(void) {
  world_t w = world();
  leveldb_t* db;
  leveldb_iterator_t* it;
  const leveldb_snapshot_t* snapshot;
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  size_t length;
  open_world(&w, "d");
  put(&w, "k", "v");
  db = w.db;
  it = leveldb_create_iterator(db, w.read);
  snapshot = leveldb_create_snapshot(db);
  leveldb_close(db);
  leveldb_close(db);
  leveldb_put(db, w.write, "k", 1, "v", 1, &w.err);
  CHECK_FAILED(w.err, "the database was closed or destroyed");
  leveldb_write(db, w.write, batch, &w.err);
  CHECK_FAILED(w.err, "the database was closed");
  CHECK(leveldb_get(db, w.read, "k", 1, &length, &w.err) == NULL);
  CHECK_FAILED(w.err, "the database was closed");
  CHECK(leveldb_property_value(db, "leveldb.stats") == NULL);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_iter_seek(it, "k", 1);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_destroy(it);
  leveldb_iter_destroy(it);
  leveldb_iter_next(it);
  it = leveldb_create_iterator(db, w.read);
  leveldb_iter_get_error(it, &w.err);
  CHECK_FAILED(w.err, "the database was closed");
  leveldb_iter_destroy(it);
  leveldb_release_snapshot(db, snapshot);
  leveldb_release_snapshot(db, snapshot);
  leveldb_release_snapshot(db, leveldb_create_snapshot(db));
  leveldb_writebatch_destroy(batch);
  leveldb_writebatch_destroy(batch);
  leveldb_writebatch_put(batch, "k", 1, "v", 1);

  open_world(&w, "d"); /* another in the same place is another */
  CHECK(w.db != db && is(&w, "k", "v"));
  leveldb_close(db);
  CHECK(is(&w, "k", "v"));
  end_world(&w);
}

static void what_is_of_another_kind(void) {
  world_t w = world();
  leveldb_iterator_t* it;
  size_t length;
  void* somewhere = &w;
  open_world(&w, "e");
  it = leveldb_create_iterator(w.db, (leveldb_readoptions_t*)w.write);
  leveldb_iter_get_error(it, &w.err);
  CHECK_FAILED(w.err, "readoptions was closed or destroyed, or never was one");
  leveldb_put((leveldb_t*)it, w.write, "k", 1, "v", 1, &w.err);
  CHECK_FAILED(w.err, "never was one");
  leveldb_put((leveldb_t*)somewhere, w.write, "k", 1, "v", 1, &w.err);
  CHECK_FAILED(w.err, "never was one");
  CHECK(leveldb_get(w.db, (leveldb_readoptions_t*)(size_t)1, "k", 1, &length, &w.err) == NULL);
  CHECK_FAILED(w.err, "never was one");
  leveldb_close((leveldb_t*)w.options);
  leveldb_close((leveldb_t*)somewhere);
  leveldb_iter_destroy((leveldb_iterator_t*)w.db);
  leveldb_options_destroy((leveldb_options_t*)(size_t)-1);
  CHECK(is(&w, "k", NULL));
  leveldb_iter_destroy(it);
  end_world(&w);
}

int main(int argc, char** argv) {
  begin(argc, argv);
  everything_of_nothing();
  lengths_that_cannot_be();
  what_was_ended();
  what_is_of_another_kind();
  return finish();
}
