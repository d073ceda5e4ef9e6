/* Many threads and one database; two that close it at once. */
#include "check.h"

#include <pthread.h>

static world_t shared;
static int closed_early = 0;

static void* works(void* argument) {
  int own = *(int*)argument, i;
  char key[32];
  char* err = NULL;
  for (i = 0; i < 2000; i++) {
    size_t length;
    char* value;
    snprintf(key, sizeof(key), "t%d-%06d", own, i);
    leveldb_put(shared.db, shared.write, key, strlen(key), key, strlen(key), &err);
    value = err == NULL ? leveldb_get(shared.db, shared.read, key, strlen(key), &length, &err) : NULL;
    if (err != NULL) {
      if (!closed_early) abort();
      free(err);
      return NULL;
    }
    if (value == NULL || length != strlen(key) || memcmp(value, key, length) != 0) abort();
    free(value);
    if (i % 200 == 0) {
      const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(shared.db);
      leveldb_iterator_t* it = leveldb_create_iterator(shared.db, shared.read);
      int rows = 0;
      for (leveldb_iter_seek(it, "t", 1); leveldb_iter_valid(it) && rows < 500; rows++) leveldb_iter_next(it);
      leveldb_iter_destroy(it);
      leveldb_release_snapshot(shared.db, snapshot);
    }
  }
  return NULL;
}

static void* closes(void* argument) {
  (void)argument;
  leveldb_close(shared.db);
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[4], closers[2];
  int names[4] = {0, 1, 2, 3};
  int i, round;
  begin(argc, argv);
  shared = world();
  leveldb_options_set_write_buffer_size(shared.options, 1 << 16);
  open_world(&shared, "a");
  for (i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, works, &names[i]) == 0);
  for (i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(is(&shared, "t3-001999", "t3-001999"));

  closed_early = 1;
  for (round = 0; round < 5; round++) {
    for (i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, works, &names[i]) == 0);
    for (i = 0; i < 2; i++) CHECK(pthread_create(&closers[i], NULL, closes, NULL) == 0);
    for (i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0 && pthread_join(closers[i], NULL) == 0);
    open_world(&shared, "a");
  }
  CHECK(is(&shared, "t3-001999", "t3-001999"));
  end_world(&shared);
  return finish();
}
