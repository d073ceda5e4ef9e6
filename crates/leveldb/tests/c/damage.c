/* A store that was damaged on disk: errors where it was hit, answers elsewhere, and what repair makes of it. */
#include "check.h"

#include <dirent.h>

static const int RECORDS = 4000;

/* The file of the store with this ending that was made first. */
static const char* first(const char* store, const char* ending) {
  static char found[1024];
  char least[256] = "";
  DIR* dir = opendir(path(store));
  struct dirent* entry;
  CHECK(dir != NULL);
  while ((entry = readdir(dir)) != NULL) {
    size_t length = strlen(entry->d_name);
    if (length < strlen(ending) || strcmp(entry->d_name + length - strlen(ending), ending) != 0) continue;
    if (*least == 0 || strcmp(entry->d_name, least) < 0) snprintf(least, sizeof(least), "%s", entry->d_name);
  }
  closedir(dir);
  CHECK(*least != 0);
  snprintf(found, sizeof(found), "%s/%s", path(store), least);
  return found;
}

/* The largest file of the store with this ending. */
static const char* largest(const char* store, const char* ending) {
  static char found[1024];
  char name[1024];
  long most = -1;
  DIR* dir = opendir(path(store));
  struct dirent* entry;
  CHECK(dir != NULL);
  while ((entry = readdir(dir)) != NULL) {
    size_t length = strlen(entry->d_name);
    FILE* file;
    if (length < strlen(ending) || strcmp(entry->d_name + length - strlen(ending), ending) != 0) continue;
    snprintf(name, sizeof(name), "%s/%s", path(store), entry->d_name);
    file = fopen(name, "rb");
    CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
    if (ftell(file) > most) {
      most = ftell(file);
      strcpy(found, name);
    }
    fclose(file);
  }
  closedir(dir);
  CHECK(most > 0);
  return found;
}

/* Writes over so many bytes in the middle. */
static void hit(const char* name, long bytes) {
  FILE* file = fopen(name, "r+b");
  long at;
  CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
  at = ftell(file) / 2;
  CHECK(fseek(file, at, SEEK_SET) == 0);
  while (bytes-- > 0) fputc(0xa5, file);
  CHECK(fclose(file) == 0);
}

static void make(world_t* w, const char* name) {
  leveldb_options_set_compression(w->options, leveldb_no_compression);
  open_world(w, name);
  fill(w, 0, RECORDS, 100);
  leveldb_compact_range(w->db, NULL, 0, NULL, 0);
  close_world(w);
}

/* Reads every key: how many have a value, are missing without an error, and answer an error. */
static void count(world_t* w, int* whole, int* missing, int* failed) {
  char key[16];
  int i;
  *whole = *missing = *failed = 0;
  for (i = 0; i < RECORDS; i++) {
    size_t length;
    char* value;
    snprintf(key, sizeof(key), "k%08d", i);
    value = leveldb_get(w->db, w->read, key, 9, &length, &w->err);
    if (w->err != NULL) {
      CHECK_FAILED(w->err, "Corruption: ");
      CHECK(value == NULL && length == 0);
      ++*failed;
    } else if (value == NULL) {
      ++*missing;
    } else {
      CHECK(length == 100);
      ++*whole;
    }
    free(value);
  }
}

static void answers_what_is_whole(world_t* w) {
  leveldb_iterator_t* it;
  int whole, missing, failed, rows, steps;
  make(w, "a");
  hit(largest("a", ".tbl"), 6000); /* more than a block */
  open_world(w, "a");
  count(w, &whole, &missing, &failed);
  CHECK(missing == 0 && failed > 0 && failed < 200 && whole + failed == RECORDS);

  it = leveldb_create_iterator(w->db, w->read);
  leveldb_iter_seek_to_first(it);
  for (rows = 0; leveldb_iter_valid(it) && rows < RECORDS; rows++) leveldb_iter_next(it);
  CHECK(rows > 0 && rows < RECORDS);
  leveldb_iter_get_error(it, &w->err);
  CHECK_FAILED(w->err, "Corruption: ");
  for (steps = 0; steps < 20 && !leveldb_iter_valid(it); steps++) leveldb_iter_next(it);
  CHECK(leveldb_iter_valid(it)); /* behind what is damaged it goes on, and still tells */
  for (; leveldb_iter_valid(it) && rows < RECORDS; rows++) leveldb_iter_next(it);
  leveldb_iter_seek_to_last(it);
  CHECK(leveldb_iter_valid(it) && rows >= whole - 200);
  leveldb_iter_get_error(it, &w->err);
  CHECK_FAILED(w->err, "Corruption: ");
  leveldb_iter_destroy(it);
  close_world(w);

  leveldb_repair_db(w->options, path("a"), &w->err); /* what is lost is said */
  CHECK_FAILED(w->err, "Corruption: ");
  open_world(w, "a");
  {
    int before = whole;
    count(w, &whole, &missing, &failed);
    CHECK(whole >= before && missing == 0);
  }
  put(w, "k00002000", "anew");
  CHECK(is(w, "k00002000", "anew"));
  close_world(w);
}

/* One bit is put right, whoever reads it. */
static void mends_a_bit(world_t* w) {
  int whole, missing, failed;
  FILE* file;
  const char* name;
  make(w, "b");
  name = largest("b", ".tbl");
  file = fopen(name, "r+b");
  CHECK(file != NULL && fseek(file, 100000, SEEK_SET) == 0);
  {
    int byte = fgetc(file);
    CHECK(fseek(file, 100000, SEEK_SET) == 0);
    fputc(byte ^ 4, file);
  }
  CHECK(fclose(file) == 0);
  open_world(w, "b");
  count(w, &whole, &missing, &failed);
  CHECK(whole == RECORDS);
  close_world(w);
  leveldb_repair_db(w->options, path("b"), &w->err);
  CHECK_OK(w->err);
  open_world(w, "b");
  count(w, &whole, &missing, &failed);
  CHECK(whole == RECORDS);
  close_world(w);
}

/* Without its manifest a store does not open, until it is repaired. */
static void finds_tables_without_a_manifest(world_t* w) {
  int whole, missing, failed;
  char current[1024];
  make(w, "c");
  snprintf(current, sizeof(current), "%s/CURRENT", path("c"));
  hit(current, 1);
  CHECK(leveldb_open(w->options, path("c"), &w->err) == NULL);
  CHECK_FAILED(w->err, "Corruption: ");
  leveldb_repair_db(w->options, path("c"), &w->err);
  free(w->err); /* without a manifest nobody knows whether that was all */
  w->err = NULL;
  open_world(w, "c");
  count(w, &whole, &missing, &failed);
  CHECK(missing == 0 && whole + failed == RECORDS);
  close_world(w);
  CHECK(access(path("c.damaged-1"), F_OK) == 0);
}

/* Three files of log, of which the first is hit: what stands in the others is there, and what is lost is told. Without a comparator nothing
   answers as if it had never been. */
static void reads_on_behind_damage_in_the_log(world_t* w, const char* name, int is_kept_out_of_reach) {
  enum { LONG = 3000, MANY = 14000 };
  char key[16], beside[64];
  int i, whole = 0, failed = 0, missing = 0;
  open_world(w, name);
  fill(w, 0, MANY, LONG);
  close_world(w);
  hit(first(name, ".log"), 6000);
  CHECK(leveldb_open(w->options, path(name), &w->err) == NULL);
  CHECK_FAILED(w->err, "Corruption: ");
  snprintf(beside, sizeof(beside), "%s/", name); /* a store's name may end so */
  leveldb_repair_db(w->options, path(beside), &w->err);
  CHECK_FAILED(w->err, "Corruption: ");
  open_world(w, name);
  for (i = 0; i < MANY; i++) {
    size_t length;
    char* value;
    snprintf(key, sizeof(key), "k%08d", i);
    value = leveldb_get(w->db, w->read, key, 9, &length, &w->err);
    if (w->err != NULL) {
      CHECK_FAILED(w->err, "Corruption: ");
      failed++;
    } else if (value != NULL) {
      CHECK(length == LONG);
      whole++;
    } else {
      missing++;
    }
    free(value);
  }
  CHECK(whole > MANY / 2);
  CHECK(is_kept_out_of_reach ? missing == 0 && failed > 0 : failed == 0);
  close_world(w);
  snprintf(beside, sizeof(beside), "%s.damaged-1", name);
  CHECK(access(path(beside), F_OK) == 0);
}

static int bytewise(void* state, const char* a, size_t a_length, const char* b, size_t b_length) {
  int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
  CHECK(state == NULL);
  return order != 0 ? order : (a_length > b_length) - (a_length < b_length);
}

static const char* named(void* state) {
  CHECK(state == NULL);
  return "test.damage";
}

static void forget(void* state) { CHECK(state == NULL); }

/* What a table lost lies between keys that are known, whatever their order: it is kept out of reach in the new store too. */
static void fences_what_a_table_lost(world_t* w) {
  int whole, missing, failed;
  char current[1024];
  make(w, "f");
  hit(largest("f", ".tbl"), 6000);
  snprintf(current, sizeof(current), "%s/CURRENT", path("f"));
  hit(current, 1);
  leveldb_repair_db(w->options, path("f"), &w->err);
  CHECK_FAILED(w->err, "Corruption: ");
  open_world(w, "f");
  count(w, &whole, &missing, &failed);
  CHECK(missing == 0 && failed > 0 && failed < 200 && whole + failed == RECORDS);
  close_world(w);
}

/* An order names no last key, so what the log lost cannot be kept out of reach under it. */
static void reads_on_under_a_comparator(void) {
  world_t w = world();
  leveldb_comparator_t* order = leveldb_comparator_create(NULL, forget, bytewise, named);
  leveldb_options_set_comparator(w.options, order);
  reads_on_behind_damage_in_the_log(&w, "e", 0);
  fences_what_a_table_lost(&w);
  end_world(&w);
  leveldb_comparator_destroy(order);
}

static void refuses_what_is_no_store(world_t* w) {
  FILE* file = fopen(path("file"), "w");
  CHECK(file != NULL && fclose(file) == 0);
  CHECK(leveldb_open(w->options, path("file"), &w->err) == NULL);
  CHECK_FAILED(w->err, "IO error: ");
  leveldb_repair_db(w->options, path("file"), &w->err);
  CHECK_FAILED(w->err, "IO error: ");
  leveldb_destroy_db(w->options, path("file"), &w->err);
  CHECK_FAILED(w->err, "IO error: ");
  CHECK(leveldb_open(w->options, "/proc/no/such/place", &w->err) == NULL);
  CHECK_FAILED(w->err, "IO error: ");
}

int main(int argc, char** argv) {
  world_t w;
  begin(argc, argv);
  w = world();
  answers_what_is_whole(&w);
  mends_a_bit(&w);
  finds_tables_without_a_manifest(&w);
  reads_on_behind_damage_in_the_log(&w, "d", 1);
  reads_on_under_a_comparator();
  refuses_what_is_no_store(&w);
  end_world(&w);
  return finish();
}
