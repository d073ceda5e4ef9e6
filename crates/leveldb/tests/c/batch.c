/* Write batches: written at once, again and again, shown, appended. */
#include "check.h"

typedef struct {
  char text[512];
  leveldb_writebatch_t* batch;
} seen_t;

static void on_put(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
  seen_t* seen = (seen_t*)state;
  size_t at = strlen(seen->text);
  snprintf(seen->text + at, sizeof(seen->text) - at, "+%.*s=%.*s ", (int)klen, k, (int)vlen, v);
  if (seen->batch != NULL) leveldb_writebatch_put(seen->batch, "more", 4, "", 0);
}

static void on_delete(void* state, const char* k, size_t klen) {
  seen_t* seen = (seen_t*)state;
  size_t at = strlen(seen->text);
  snprintf(seen->text + at, sizeof(seen->text) - at, "-%.*s ", (int)klen, k);
}

static int shows(const leveldb_writebatch_t* batch, const char* expected) {
  seen_t seen;
  memset(&seen, 0, sizeof(seen));
  leveldb_writebatch_iterate(batch, &seen, on_put, on_delete);
  if (strcmp(seen.text, expected) != 0) fprintf(stderr, "shown: %s\n", seen.text);
  return strcmp(seen.text, expected) == 0;
}

static void writes(world_t* w) {
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  CHECK(batch != NULL && shows(batch, ""));
  leveldb_writebatch_put(batch, "foo", 3, "a", 1);
  leveldb_writebatch_clear(batch);
  CHECK(shows(batch, ""));
  leveldb_writebatch_put(batch, "bar", 3, "b", 1);
  leveldb_writebatch_put(batch, "box", 3, "c", 1);
  leveldb_writebatch_delete(batch, "bar", 3);
  leveldb_writebatch_put(batch, NULL, 0, NULL, 0);
  CHECK(is(w, "box", NULL));
  leveldb_write(w->db, w->write, batch, &w->err);
  CHECK_OK(w->err);
  CHECK(is(w, "foo", NULL) && is(w, "bar", NULL) && is(w, "box", "c") && is(w, "", ""));
  CHECK(shows(batch, "+bar=b +box=c -bar += "));

  del(w, "box"); /* a batch may be written again */
  leveldb_write(w->db, w->write, batch, &w->err);
  CHECK_OK(w->err);
  CHECK(is(w, "box", "c"));
  leveldb_writebatch_destroy(batch);
  leveldb_write(w->db, w->write, batch, &w->err);
  CHECK_FAILED(w->err, "the write batch was closed or destroyed");
}

static void appends(void) {
  leveldb_writebatch_t* one = leveldb_writebatch_create();
  leveldb_writebatch_t* other = leveldb_writebatch_create();
  leveldb_writebatch_put(one, "a", 1, "1", 1);
  leveldb_writebatch_delete(other, "b", 1);
  leveldb_writebatch_append(one, other);
  CHECK(shows(one, "+a=1 -b "));
  CHECK(shows(other, "-b "));
  leveldb_writebatch_append(one, one);
  CHECK(shows(one, "+a=1 -b +a=1 -b "));
  leveldb_writebatch_destroy(one);
  leveldb_writebatch_destroy(other);
}

static void is_changed_while_it_is_shown(void) {
  seen_t seen;
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  memset(&seen, 0, sizeof(seen));
  seen.batch = batch;
  leveldb_writebatch_put(batch, "a", 1, "1", 1);
  leveldb_writebatch_put(batch, "b", 1, "2", 1);
  leveldb_writebatch_iterate(batch, &seen, on_put, on_delete);
  CHECK(strcmp(seen.text, "+a=1 +b=2 ") == 0);
  CHECK(shows(batch, "+a=1 +b=2 +more= +more= "));
  leveldb_writebatch_iterate(batch, NULL, NULL, NULL);
  leveldb_writebatch_destroy(batch);
}

/* What cannot be written is said when it is to be, and nothing of the batch is done. */
static void refuses(world_t* w) {
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_writebatch_t* other = leveldb_writebatch_create();
  char* longest = (char*)calloc(1, 65536);
  leveldb_writebatch_put(batch, "good", 4, "1", 1);
  leveldb_writebatch_put(batch, longest, 65536, "1", 1);
  leveldb_writebatch_put(batch, "late", 4, "1", 1);
  leveldb_write(w->db, w->write, batch, &w->err);
  CHECK_FAILED(w->err, "a key of 65536 bytes: 65535 at most");
  CHECK(is(w, "good", NULL) && is(w, "late", NULL));
  leveldb_writebatch_append(other, batch);
  leveldb_write(w->db, w->write, other, &w->err);
  CHECK_FAILED(w->err, "65535 at most");
  leveldb_writebatch_clear(batch);
  leveldb_writebatch_put(batch, longest, 65535, "1", 1);
  leveldb_write(w->db, w->write, batch, &w->err);
  CHECK_OK(w->err);
  leveldb_writebatch_delete(batch, NULL, 3);
  leveldb_write(w->db, w->write, batch, &w->err);
  CHECK_FAILED(w->err, "a key is NULL");
  free(longest);
  leveldb_writebatch_destroy(batch);
  leveldb_writebatch_destroy(other);
}

/* All of a large batch, or nothing. */
static void is_whole_after_reopening(world_t* w) {
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  char key[32];
  int i;
  for (i = 0; i < 20000; i++) {
    snprintf(key, sizeof(key), "n%08d", i);
    leveldb_writebatch_put(batch, key, 9, key, 9);
  }
  leveldb_writeoptions_set_sync(w->write, 1);
  leveldb_write(w->db, w->write, batch, &w->err);
  CHECK_OK(w->err);
  leveldb_writebatch_clear(batch);
  leveldb_write(w->db, w->write, batch, &w->err); /* nothing, synced */
  CHECK_OK(w->err);
  leveldb_writebatch_destroy(batch);
  close_world(w);
  open_world(w, "a");
  CHECK(is(w, "n00000000", "n00000000") && is(w, "n00019999", "n00019999"));
}

int main(int argc, char** argv) {
  world_t w;
  begin(argc, argv);
  w = world();
  open_world(&w, "a");
  writes(&w);
  appends();
  is_changed_while_it_is_shown();
  refuses(&w);
  is_whole_after_reopening(&w);
  end_world(&w);
  return finish();
}
