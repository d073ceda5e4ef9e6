/* Iterators: where they start, turn and end, and what they see. */
#include "check.h"

static int stands(leveldb_iterator_t* it, const char* key, const char* value) {
  size_t klen, vlen;
  const char* k = leveldb_iter_key(it, &klen);
  const char* v = leveldb_iter_value(it, &vlen);
  return leveldb_iter_valid(it) == 1 && klen == strlen(key) && memcmp(k, key, klen) == 0 && vlen == strlen(value) &&
         memcmp(v, value, vlen) == 0;
}

static void check_no_error(leveldb_iterator_t* it) {
  char* err = NULL;
  leveldb_iter_get_error(it, &err);
  CHECK_OK(err);
}

static void walks(world_t* w) {
  leveldb_iterator_t* it = leveldb_create_iterator(w->db, w->read);
  size_t length = 7;
  CHECK(it != NULL);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_seek_to_first(it);
  CHECK(stands(it, "a", "1"));
  leveldb_iter_next(it);
  CHECK(stands(it, "b", "2"));
  leveldb_iter_next(it);
  CHECK(stands(it, "d", "4"));
  leveldb_iter_prev(it);
  CHECK(stands(it, "b", "2"));
  leveldb_iter_prev(it);
  leveldb_iter_prev(it); /* back from the first */
  CHECK(!leveldb_iter_valid(it));
  CHECK(*leveldb_iter_key(it, &length) == 0 && length == 0);
  length = 7;
  CHECK(*leveldb_iter_value(it, &length) == 0 && length == 0);
  leveldb_iter_seek_to_last(it);
  CHECK(stands(it, "d", "4"));
  leveldb_iter_next(it); /* on from the last */
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_seek(it, "b", 1);
  CHECK(stands(it, "b", "2"));
  leveldb_iter_seek(it, "c", 1);
  CHECK(stands(it, "d", "4"));
  leveldb_iter_prev(it);
  CHECK(stands(it, "b", "2"));
  leveldb_iter_seek(it, "dd", 2);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_seek(it, NULL, 0);
  CHECK(stands(it, "a", "1"));
  check_no_error(it);
  leveldb_iter_destroy(it);
}

/* What comes later is not seen; what goes stays. */
static void sees_the_moment_it_was_made(world_t* w) {
  leveldb_iterator_t* it = leveldb_create_iterator(w->db, w->read);
  int round;
  put(w, "c", "3");
  put(w, "b", "other");
  del(w, "d");
  for (round = 0; round < 2; round++) {
    leveldb_iter_seek_to_first(it);
    CHECK(stands(it, "a", "1"));
    leveldb_iter_next(it);
    CHECK(stands(it, "b", "2"));
    leveldb_iter_next(it);
    CHECK(stands(it, "d", "4"));
    leveldb_iter_next(it);
    CHECK(!leveldb_iter_valid(it));
    leveldb_compact_range(w->db, NULL, 0, NULL, 0);
  }
  leveldb_iter_destroy(it);
  CHECK(!leveldb_iter_valid(it)); /* destroyed: it stands nowhere any more */
  it = leveldb_create_iterator(w->db, w->read);
  leveldb_iter_seek_to_last(it);
  CHECK(stands(it, "c", "3"));
  leveldb_iter_prev(it);
  CHECK(stands(it, "b", "other"));
  leveldb_iter_destroy(it);
}

static void walks_far(world_t* w) {
  leveldb_iterator_t* it;
  char key[32];
  int i;
  fill(w, 0, 5000, 60);
  leveldb_compact_range(w->db, NULL, 0, NULL, 0);
  fill(w, 5000, 6000, 60);
  it = leveldb_create_iterator(w->db, w->read);
  leveldb_iter_seek(it, "k", 1);
  for (i = 0; leveldb_iter_valid(it) && i < 7000; i++) {
    size_t length;
    const char* k = leveldb_iter_key(it, &length);
    snprintf(key, sizeof(key), "k%08d", i);
    CHECK(length == 9 && memcmp(k, key, 9) == 0);
    leveldb_iter_next(it);
  }
  CHECK(i == 6000);
  leveldb_iter_seek_to_last(it);
  for (i = 6000; i > 0 && leveldb_iter_valid(it); i--) {
    size_t length;
    const char* k = leveldb_iter_key(it, &length);
    snprintf(key, sizeof(key), "k%08d", i - 1);
    CHECK(length == 9 && memcmp(k, key, 9) == 0);
    leveldb_iter_prev(it);
  }
  CHECK(i == 0 && stands(it, "c", "3"));
  check_no_error(it);
  leveldb_iter_destroy(it);
}

/* A loop that goes on while the iterator is valid ends, and no seek seems to have found what it stood on before. */
static void outlives_the_database(world_t* w) {
  leveldb_iterator_t* it = leveldb_create_iterator(w->db, w->read);
  leveldb_iterator_t* sought = leveldb_create_iterator(w->db, w->read);
  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(w->db);
  leveldb_t* db = w->db;
  size_t length = 7;
  int i;
  leveldb_iter_seek_to_first(it);
  leveldb_iter_seek(sought, "a", 1);
  CHECK(leveldb_iter_valid(it) && leveldb_iter_valid(sought));
  close_world(w);
  for (i = 0; leveldb_iter_valid(it) && i < 10; i++) leveldb_iter_next(it);
  CHECK(i == 1);
  CHECK(*leveldb_iter_key(it, &length) == 0 && length == 0);
  leveldb_iter_prev(it);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_seek(sought, "a", 1);
  CHECK(!leveldb_iter_valid(sought));
  leveldb_iter_seek_to_first(sought);
  CHECK(!leveldb_iter_valid(sought));
  leveldb_iter_get_error(it, &w->err);
  CHECK_FAILED(w->err, "closed");
  leveldb_iter_get_error(sought, &w->err);
  CHECK_FAILED(w->err, "closed");
  leveldb_iter_destroy(it);
  leveldb_iter_destroy(sought);
  leveldb_release_snapshot(db, snapshot);
  open_world(w, "a");
  CHECK(is(w, "a", "1"));
}

int main(int argc, char** argv) {
  world_t w;
  leveldb_iterator_t* it;
  begin(argc, argv);
  w = world();
  open_world(&w, "a");
  it = leveldb_create_iterator(w.db, w.read);
  leveldb_iter_seek_to_first(it);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_seek_to_last(it);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_destroy(it);
  put(&w, "a", "1");
  put(&w, "d", "4");
  put(&w, "b", "2");
  walks(&w);
  leveldb_compact_range(w.db, NULL, 0, NULL, 0);
  walks(&w);
  sees_the_moment_it_was_made(&w);
  walks_far(&w);
  outlives_the_database(&w);
  end_world(&w);
  return finish();
}
