/* Snapshots: what reads with them see, and what they keep. */
#include "check.h"

int main(int argc, char** argv) {
  world_t w, other;
  const leveldb_snapshot_t *empty, *before;
  leveldb_iterator_t* it;
  size_t length;
  begin(argc, argv);
  w = world();
  other = world();
  open_world(&w, "a");
  open_world(&other, "b");
  empty = leveldb_create_snapshot(w.db);
  put(&w, "foo", "before");
  before = leveldb_create_snapshot(w.db);
  CHECK(empty != NULL && before != NULL && empty != before);
  put(&w, "foo", "after");
  put(&w, "new", "1");
  leveldb_compact_range(w.db, NULL, 0, NULL, 0);
  CHECK(is(&w, "foo", "after"));

  leveldb_readoptions_set_snapshot(w.read, before);
  CHECK(is(&w, "foo", "before") && is(&w, "new", NULL));
  it = leveldb_create_iterator(w.db, w.read);
  leveldb_readoptions_set_snapshot(w.read, empty);
  CHECK(is(&w, "foo", NULL));
  leveldb_readoptions_set_snapshot(w.read, NULL);
  CHECK(is(&w, "foo", "after"));

  leveldb_readoptions_set_snapshot(other.read, before); /* of another database */
  CHECK(leveldb_get(other.db, other.read, "foo", 3, &length, &other.err) == NULL);
  CHECK_FAILED(other.err, "another store");

  leveldb_readoptions_set_snapshot(w.read, before);
  leveldb_release_snapshot(w.db, before);
  CHECK(leveldb_get(w.db, w.read, "foo", 3, &length, &w.err) == NULL);
  CHECK_FAILED(w.err, "the snapshot was closed or destroyed");
  leveldb_readoptions_set_snapshot(w.read, NULL);
  leveldb_compact_range(w.db, NULL, 0, NULL, 0);

  leveldb_iter_seek_to_first(it); /* the iterator goes on without it */
  CHECK(leveldb_iter_valid(it));
  leveldb_iter_value(it, &length);
  CHECK(length == strlen("before"));
  leveldb_iter_next(it);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_destroy(it);
  leveldb_release_snapshot(NULL, empty);
  end_world(&other);
  end_world(&w);
  return finish();
}
