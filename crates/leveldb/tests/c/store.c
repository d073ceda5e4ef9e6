/* Open, put, get, delete, close; what an error leaves behind. */
#include "check.h"

static void opens(world_t* w) {
  world_t other;
  leveldb_options_set_create_if_missing(w->options, 0);
  CHECK(leveldb_open(w->options, path("a"), &w->err) == NULL);
  CHECK_FAILED(w->err, "Invalid argument: ");
  CHECK(leveldb_open(w->options, path("a"), &w->err) == NULL);
  CHECK_FAILED(w->err, "does not exist (create_if_missing is false)");
  CHECK(access(path("a"), F_OK) != 0);

  leveldb_options_set_create_if_missing(w->options, 1);
  open_world(w, "a");
  other = world();
  CHECK(leveldb_open(other.options, path("a"), &other.err) == NULL);
  CHECK_FAILED(other.err, "IO error: lock");
  close_world(w);

  leveldb_options_set_error_if_exists(w->options, 1);
  CHECK(leveldb_open(w->options, path("a"), &w->err) == NULL);
  CHECK_FAILED(w->err, "exists (error_if_exists is true)");
  leveldb_options_set_error_if_exists(w->options, 0);
  open_world(w, "a");
  end_world(&other);
}

static void reads_what_was_written(world_t* w) {
  char binary[] = {'a', 0, 'b', (char)0xff};
  size_t length;
  char* found;
  CHECK(is(w, "foo", NULL));
  put(w, "foo", "hello");
  put(w, "empty", "");
  CHECK(is(w, "foo", "hello"));
  CHECK(is(w, "empty", ""));
  put(w, "foo", "again");
  CHECK(is(w, "foo", "again"));
  del(w, "foo");
  del(w, "never there");
  CHECK(is(w, "foo", NULL));

  leveldb_put(w->db, w->write, binary, sizeof(binary), binary, sizeof(binary), &w->err);
  CHECK_OK(w->err);
  found = leveldb_get(w->db, w->read, binary, sizeof(binary), &length, &w->err);
  CHECK(found != NULL && length == sizeof(binary) && memcmp(found, binary, length) == 0);
  free(found);
  CHECK(is(w, "a", NULL));

  leveldb_put(w->db, w->write, NULL, 0, "of no key", 9, &w->err);
  CHECK_OK(w->err);
  CHECK(is(w, "", "of no key"));
}

static void keeps_what_was_written(world_t* w) {
  fill(w, 0, 3000, 100);
  close_world(w);
  open_world(w, "a");
  CHECK(is(w, "empty", ""));
  CHECK(is(w, "foo", NULL));
  CHECK(is(w, "k00003000", NULL));
  CHECK(!is(w, "k00002999", NULL));
}

/* Groups of commits that waited for the device, as the counters have it: ".. drains, N groups with M fdatasyncs, ..". */
static long groups(world_t* w) {
  char* text = leveldb_property_value(w->db, "waxseal.metrics");
  const char* at = text == NULL ? NULL : strstr(text, "drains, ");
  long count = at == NULL ? -1 : atol(at + strlen("drains, "));
  CHECK(count >= 0);
  free(text);
  return count;
}

static void syncs(world_t* w) {
  long before = groups(w);
  put(w, "lazy", "1");
  CHECK(groups(w) == before);
  leveldb_writeoptions_set_sync(w->write, 1);
  put(w, "sure", "1");
  CHECK(groups(w) == before + 1);
  leveldb_writeoptions_set_sync(w->write, 0);
  put(w, "lazy", "2");
  CHECK(groups(w) == before + 1);
}

static void errors_take_the_place_of_others(world_t* w) {
  char* err = NULL;
  char* kept;
  leveldb_put(w->db, NULL, "k", 1, "v", 1, &err);
  CHECK(has(err, "writeoptions is NULL"));
  leveldb_put(w->db, w->write, NULL, 5, "v", 1, &err); /* frees the one before */
  CHECK(has(err, "a key is NULL"));
  kept = err;
  leveldb_put(w->db, w->write, "k", 1, "v", 1, &err);
  CHECK(err == kept && has(err, "a key is NULL"));
  free(err);
  leveldb_put(w->db, NULL, "k", 1, "v", 1, NULL);
}

/* leveldb_free gives memory back: a thousand megabytes would not fit otherwise into what is left. */
static void frees(world_t* w) {
  size_t megabyte = 1 << 20, length;
  char* value = (char*)calloc(1, megabyte);
  long before, after;
  int i;
  leveldb_put(w->db, w->write, "large", 5, value, megabyte, &w->err);
  CHECK_OK(w->err);
  free(value);
  for (i = 0, before = 0, after = 0; i < 300; i++) {
    FILE* statm;
    value = leveldb_get(w->db, w->read, "large", 5, &length, &w->err);
    CHECK_OK(w->err);
    CHECK(value != NULL && length == megabyte);
    leveldb_free(value);
    statm = fopen("/proc/self/statm", "r");
    CHECK(statm != NULL && fscanf(statm, "%*d %ld", &after) == 1);
    fclose(statm);
    if (i == 20) before = after;
  }
  CHECK((after - before) * sysconf(_SC_PAGESIZE) < 100 * (1 << 20) || getenv("ASAN_OPTIONS") != NULL);
  leveldb_free(NULL);
}

int main(int argc, char** argv) {
  world_t w;
  begin(argc, argv);
  w = world();
  opens(&w);
  reads_what_was_written(&w);
  keeps_what_was_written(&w);
  syncs(&w);
  errors_take_the_place_of_others(&w);
  frees(&w);
  end_world(&w);
  return finish();
}
