/* Each option of a database reaches it: "waxseal.options" says with what it was opened. */
#include "check.h"

int main(int argc, char** argv) {
  world_t w;
  leveldb_env_t* env;
  char logger;
  begin(argc, argv);
  w = world();
  open_world(&w, "a");
  CHECK(tells(&w, "waxseal.options", "comparator=wax.bytewise\nfilter_policy=built-in\nfilter_bits=10\n"));
  CHECK(tells(&w, "waxseal.options", "create_if_missing=1\nerror_if_exists=0\nparanoid_checks=0\n"));
  CHECK(tells(&w, "waxseal.options", "env=default\ninfo_log=default\nwrite_buffer_size=67108864\n"));
  CHECK(tells(&w, "waxseal.options", "max_open_files=default\ncache=default\nblock_size=4096\n"));
  CHECK(tells(&w, "waxseal.options", "block_restart_interval=16\nmax_file_size=67108864\ncompression=Lz4\n"));
  close_world(&w);

  env = leveldb_create_default_env();
  CHECK(env != NULL);
  leveldb_options_set_create_if_missing(w.options, 0);
  leveldb_options_set_paranoid_checks(w.options, 7);
  leveldb_options_set_env(w.options, env);
  leveldb_options_set_info_log(w.options, (leveldb_logger_t*)&logger); /* there is no way to make one */
  leveldb_options_set_write_buffer_size(w.options, 1 << 20);
  leveldb_options_set_max_open_files(w.options, 10);
  leveldb_options_set_block_size(w.options, 1 << 14);
  leveldb_options_set_block_restart_interval(w.options, 8);
  leveldb_options_set_max_file_size(w.options, 3 << 20);
  leveldb_options_set_compression(w.options, leveldb_no_compression);
  open_world(&w, "a");
  CHECK(tells(&w, "waxseal.options", "create_if_missing=0\nerror_if_exists=0\nparanoid_checks=1\n"));
  CHECK(tells(&w, "waxseal.options", "env=given\ninfo_log=given, not used\nwrite_buffer_size=1048576\n"));
  CHECK(tells(&w, "waxseal.options", "max_open_files=10, not used\ncache=default\nblock_size=16384\n"));
  CHECK(tells(&w, "waxseal.options", "block_restart_interval=8\nmax_file_size=3145728\ncompression=None\n"));
  fill(&w, 0, 20000, 400);
  leveldb_compact_range(w.db, NULL, 0, NULL, 0);
  CHECK(number(&w, "leveldb.num-files-at-level6") + number(&w, "leveldb.num-files-at-level1") >= 2); /* eight megabytes */
  close_world(&w);

  leveldb_env_destroy(env);
  CHECK(leveldb_open(w.options, path("a"), &w.err) == NULL);
  CHECK_FAILED(w.err, "the env was closed or destroyed");
  leveldb_options_set_env(w.options, NULL);
  leveldb_options_set_compression(w.options, 99);
  CHECK(leveldb_open(w.options, path("a"), &w.err) == NULL);
  CHECK_FAILED(w.err, "compression 99");
  leveldb_options_set_compression(w.options, leveldb_snappy_compression);
  open_world(&w, "a");
  CHECK(tells(&w, "waxseal.options", "compression=Lz4\n"));
  close_world(&w);

  /* what no longer is sets nothing and is no options */
  leveldb_options_destroy(w.options);
  leveldb_options_set_compression(w.options, leveldb_no_compression);
  CHECK(leveldb_open(w.options, path("a"), &w.err) == NULL);
  CHECK_FAILED(w.err, "options was closed or destroyed");
  w.options = leveldb_options_create();
  open_world(&w, "a");
  leveldb_writeoptions_destroy(w.write);
  leveldb_put(w.db, w.write, "k", 1, "v", 1, &w.err);
  CHECK_FAILED(w.err, "writeoptions was closed or destroyed");
  leveldb_readoptions_destroy(w.read);
  {
    size_t length;
    CHECK(leveldb_get(w.db, w.read, "k", 1, &length, &w.err) == NULL);
    CHECK_FAILED(w.err, "readoptions was closed or destroyed");
  }
  end_world(&w);
  return finish();
}
