/* What the programs of this folder share: checks, a directory for each store, short ways to put and get.

   Each program is C99 and C++17 at once. Its one argument is a directory that it may fill. It ends with 0 if every check held; it counts
   them, and ends itself after a minute, so that a function that does nothing cannot keep it for ever. */

#ifndef CHECK_H
#define CHECK_H

#include <leveldb/c.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char* folder = ".";
static int checks = 0;

#define CHECK(holds)                                                             \
  do {                                                                           \
    checks++;                                                                    \
    if (!(holds)) {                                                              \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #holds); \
      exit(1);                                                                   \
    }                                                                            \
  } while (0)

/* No failure was reported. */
#define CHECK_OK(err)                                                      \
  do {                                                                     \
    if ((err) != NULL) fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, err); \
    CHECK((err) == NULL);                                                  \
  } while (0)

/* A failure was reported that says `part`; it is forgotten. */
#define CHECK_FAILED(err, part)                                                      \
  do {                                                                               \
    if ((err) != NULL && strstr(err, part) == NULL) fprintf(stderr, "said: %s\n", err); \
    CHECK((err) != NULL && strstr(err, part) != NULL);                               \
    free(err);                                                                       \
    (err) = NULL;                                                                    \
  } while (0)

static void begin(int argc, char** argv) {
  alarm(60);
  if (argc > 1) folder = argv[1];
}

static int finish(void) {
  printf("%d checks\n", checks);
  return 0;
}

/* The path of a store in the folder. */
static const char* path(const char* name) {
  static char paths[8][512];
  static int next = 0;
  char* to = paths[next++ % 8];
  snprintf(to, sizeof(paths[0]), "%s/%s", folder, name);
  return to;
}

/* Everything a store is used with. */
typedef struct {
  leveldb_options_t* options;
  leveldb_readoptions_t* read;
  leveldb_writeoptions_t* write;
  leveldb_t* db;
  char* err;
} world_t;

static world_t world(void) {
  world_t w;
  w.options = leveldb_options_create();
  w.read = leveldb_readoptions_create();
  w.write = leveldb_writeoptions_create();
  w.db = NULL;
  w.err = NULL;
  leveldb_options_set_create_if_missing(w.options, 1);
  return w;
}

static void open_world(world_t* w, const char* name) {
  w->db = leveldb_open(w->options, path(name), &w->err);
  CHECK_OK(w->err);
  CHECK(w->db != NULL);
}

static void close_world(world_t* w) {
  leveldb_close(w->db);
  w->db = NULL;
}

static void end_world(world_t* w) {
  if (w->db != NULL) leveldb_close(w->db);
  leveldb_options_destroy(w->options);
  leveldb_readoptions_destroy(w->read);
  leveldb_writeoptions_destroy(w->write);
}

static void put(world_t* w, const char* key, const char* value) {
  leveldb_put(w->db, w->write, key, strlen(key), value, strlen(value), &w->err);
  CHECK_OK(w->err);
}

static void del(world_t* w, const char* key) {
  leveldb_delete(w->db, w->write, key, strlen(key), &w->err);
  CHECK_OK(w->err);
}

/* Puts so many records k00000000 and on, with values of so many bytes that no codec makes small. */
static void fill(world_t* w, int from, int to, size_t value_bytes) {
  char key[32];
  char* value = (char*)malloc(value_bytes + 1);
  uint32_t state = 1;
  int i;
  size_t at;
  for (i = from; i < to; i++) {
    snprintf(key, sizeof(key), "k%08d", i);
    for (at = 0; at < value_bytes; at++) {
      state = state * 1664525u + 1013904223u;
      value[at] = (char)(state >> 24);
    }
    leveldb_put(w->db, w->write, key, strlen(key), value, value_bytes, &w->err);
    CHECK_OK(w->err);
  }
  free(value);
}

/* Whether a key has this value; NULL: whether it is not there. */
static int is(world_t* w, const char* key, const char* value) {
  size_t length = 77;
  char* found = leveldb_get(w->db, w->read, key, strlen(key), &length, &w->err);
  int same;
  CHECK_OK(w->err);
  if (found == NULL || value == NULL) {
    same = found == NULL && value == NULL && length == 0;
  } else {
    same = length == strlen(value) && memcmp(found, value, length) == 0;
  }
  free(found);
  return same;
}

static int has(const char* text, const char* part) { return text != NULL && strstr(text, part) != NULL; }

/* A number that the property of this name is. */
static long number(world_t* w, const char* name) {
  char* text = leveldb_property_value(w->db, name);
  long value = text == NULL ? -1 : atol(text);
  leveldb_free(text);
  return value;
}

/* Whether a property has this line or part. */
static int tells(world_t* w, const char* name, const char* part) {
  char* text = leveldb_property_value(w->db, name);
  int found = has(text, part);
  if (!found) fprintf(stderr, "%s: %s\n", name, text == NULL ? "(null)" : text);
  free(text);
  return found;
}

/* Names what a program does not use itself. */
static inline void unused(void) {
  (void)open_world, (void)close_world, (void)end_world, (void)put, (void)del, (void)fill, (void)is, (void)has, (void)number;
  (void)tells, (void)path, (void)world, (void)unused;
}

#endif
