/* Destroy, repair, the test directory, versions. */
#include "check.h"

#include <sys/stat.h>
#include <unistd.h>

static void destroys(world_t* w) {
  char name[512];
  FILE* own;
  leveldb_destroy_db(w->options, path("never there"), &w->err);
  CHECK_OK(w->err);
  open_world(w, "a");
  put(w, "foo", "bar");
  leveldb_destroy_db(w->options, path("a"), &w->err);
  CHECK_FAILED(w->err, "IO error: lock");
  CHECK(is(w, "foo", "bar"));
  close_world(w);
  leveldb_destroy_db(w->options, path("a"), &w->err);
  CHECK_OK(w->err);
  CHECK(access(path("a"), F_OK) != 0);
  leveldb_options_set_create_if_missing(w->options, 0);
  CHECK(leveldb_open(w->options, path("a"), &w->err) == NULL);
  CHECK_FAILED(w->err, "does not exist");
  leveldb_options_set_create_if_missing(w->options, 1);

  open_world(w, "b"); /* what is not the database's stays */
  close_world(w);
  snprintf(name, sizeof(name), "%s/letters", path("b"));
  own = fopen(name, "w");
  CHECK(own != NULL && fclose(own) == 0);
  leveldb_destroy_db(w->options, path("b"), &w->err);
  CHECK_OK(w->err);
  CHECK(access(name, F_OK) == 0);
  CHECK(leveldb_open(w->options, path("b"), &w->err) == NULL); /* nothing is made beside somebody's files */
  CHECK_FAILED(w->err, "letters");
  leveldb_destroy_db(w->options, path("b"), &w->err);
  CHECK_OK(w->err);
  CHECK(access(name, F_OK) == 0 && unlink(name) == 0);
  open_world(w, "b");
  CHECK(is(w, "foo", NULL));
  close_world(w);

  leveldb_open(w->options, path("no/parents"), &w->err); /* the directories above are not made */
  CHECK_FAILED(w->err, "No such file or directory");
  CHECK(access(path("no"), F_OK) != 0);
}

static void repairs(world_t* w) {
  leveldb_repair_db(w->options, path("not there"), &w->err);
  CHECK_FAILED(w->err, "repair found no files");
  open_world(w, "c");
  fill(w, 0, 2000, 100);
  leveldb_compact_range(w->db, NULL, 0, NULL, 0);
  put(w, "foo", "lately");
  leveldb_repair_db(w->options, path("c"), &w->err);
  CHECK_FAILED(w->err, "IO error: lock");
  close_world(w);
  leveldb_options_set_error_if_exists(w->options, 1); /* means nothing here */
  leveldb_repair_db(w->options, path("c"), &w->err);
  CHECK_OK(w->err);
  leveldb_options_set_error_if_exists(w->options, 0);
  open_world(w, "c");
  CHECK(is(w, "foo", "lately") && !is(w, "k00000000", NULL) && !is(w, "k00001999", NULL));
  close_world(w);
}

static void touch(const char* folder_of, const char* name) {
  char file[512];
  FILE* made;
  snprintf(file, sizeof(file), "%s/%s", folder_of, name);
  made = fopen(file, "w");
  CHECK(made != NULL && fclose(made) == 0);
}

/* What LevelDB wrote is not opened, not repaired and not destroyed. */
static void knows_leveldbs_files(world_t* w) {
  const char* old = path("old");
  const char* names[] = {"CURRENT", "LOCK", "LOG", "MANIFEST-000002", "000003.log", "000005.ldb", "letters"};
  char file[512];
  size_t i, round;
  CHECK(mkdir(old, 0755) == 0);
  for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) touch(old, names[i]);
  for (round = 0; round < 2; round++) {
    leveldb_options_set_create_if_missing(w->options, (unsigned char)round);
    CHECK(leveldb_open(w->options, old, &w->err) == NULL);
    CHECK_FAILED(w->err, "a LevelDB database");
  }
  leveldb_repair_db(w->options, old, &w->err);
  CHECK_FAILED(w->err, "a LevelDB database");
  leveldb_destroy_db(w->options, old, &w->err);
  CHECK_FAILED(w->err, "a LevelDB database");
  for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    snprintf(file, sizeof(file), "%s/%s", old, names[i]);
    CHECK(access(file, F_OK) == 0);
  }
}

static void names_a_directory_for_tests(void) {
  leveldb_env_t* env = leveldb_create_default_env();
  char* found;
  char wanted[64];
  unsetenv("TEST_TMPDIR");
  found = leveldb_env_get_test_directory(env);
  snprintf(wanted, sizeof(wanted), "/tmp/leveldbtest-%d", (int)geteuid());
  CHECK(found != NULL && strcmp(found, wanted) == 0 && access(found, F_OK) == 0);
  leveldb_free(found);
  setenv("TEST_TMPDIR", path("of tests"), 1);
  found = leveldb_env_get_test_directory(env);
  CHECK(found != NULL && strcmp(found, path("of tests")) == 0 && access(found, F_OK) == 0);
  free(found);
  leveldb_env_destroy(env);
  CHECK(leveldb_env_get_test_directory(env) == NULL);
}

int main(int argc, char** argv) {
  world_t w;
  begin(argc, argv);
  CHECK(leveldb_major_version() == 1 && leveldb_minor_version() == 23);
  w = world();
  destroys(&w);
  repairs(&w);
  knows_leveldbs_files(&w);
  names_a_directory_for_tests();
  end_world(&w);
  return finish();
}
