/* Files: paths, whole contents, open files, writers, lists, and the errors of POSIX. */
#include <errno.h>

#include "harness.h"

static const waxseal_file_attributes_t NONE;

static waxseal_files_t *file_store(waxseal_db_t *db) {
    waxseal_files_t *files = NULL;
    CHECK_OK(waxseal_files_open(db, LIT("files"), 4096, &files, &error));
    return files;
}

static waxseal_db_t *memory(waxseal_files_t **files) {
    waxseal_db_t *db = NULL;
    CHECK_OK(waxseal_open_memory(NULL, &db, &error));
    *files = file_store(db);
    return db;
}

static void end(waxseal_db_t *db, waxseal_files_t *files) {
    CHECK_OK(waxseal_files_destroy(files));
    CHECK_OK(waxseal_close(db, &error));
}

/* The call fails with this error of POSIX. */
#define CHECK_ERRNO(expected, call)                                                                                    \
    do {                                                                                                               \
        CHECK_FAILS(WAXSEAL_FILE, call);                                                                               \
        CHECK_NUMBER(expected, waxseal_error_errno(error));                                                            \
    } while (0)

static void check_content(const char *expected, waxseal_files_t *files, waxseal_file_snapshot_t *snapshot, const char *path) {
    waxseal_bytes_t *content = NULL;
    CHECK_OK(waxseal_files_read(files, snapshot, STR(path), &content, &error));
    CHECK_BYTES(expected, waxseal_bytes_slice(content));
    CHECK_OK(waxseal_bytes_destroy(content));
}

static void put(waxseal_files_t *files, const char *path, const char *content) {
    CHECK_OK(waxseal_files_write(files, STR(path), STR(content), NONE, NULL, &error));
}

static void a_tree_is_made_changed_and_removed(void) {
    waxseal_files_t *files;
    waxseal_db_t *db = memory(&files);
    waxseal_file_attributes_t private = {WAXSEAL_FILE_SET_MODE | WAXSEAL_FILE_SET_MTIME, 0700, 0, 0, 1000000007};
    waxseal_file_info_t info;
    waxseal_bytes_t *bytes = NULL;
    waxseal_file_usage_t usage;
    CHECK_OK(waxseal_files_mkdir(files, LIT("a"), private, &error));
    CHECK_OK(waxseal_files_stat(files, NULL, LIT("a"), &info, &error));
    CHECK_NUMBER(WAXSEAL_FILE_KIND_DIRECTORY, info.kind);
    CHECK_NUMBER(0700, info.mode);
    CHECK_NUMBER(1000000007, info.mtime_nanos);
    CHECK_OK(waxseal_files_create_dirs(files, LIT("a/b/c"), &error));
    CHECK_OK(waxseal_files_write(files, LIT("a/file"), LIT("content"), NONE, &info, &error));
    CHECK_NUMBER(7, info.size);
    CHECK_NUMBER(WAXSEAL_FILE_KIND_FILE, info.kind);
    CHECK_OK(waxseal_files_append(files, LIT("a/file"), LIT(" and more"), &error));
    check_content("content and more", files, NULL, "a/file");
    CHECK_OK(waxseal_files_truncate(files, LIT("a/file"), 7, &error));
    CHECK_OK(waxseal_files_symlink(files, LIT("file"), LIT("a/link"), NONE, false, &error));
    CHECK_ERRNO(EEXIST, waxseal_files_symlink(files, LIT("other"), LIT("a/link"), NONE, false, &error));
    CHECK_OK(waxseal_files_symlink(files, LIT("other"), LIT("a/link"), NONE, true, &error));
    CHECK_OK(waxseal_files_read_link(files, NULL, LIT("a/link"), &bytes, &error));
    CHECK_BYTES("other", waxseal_bytes_slice(bytes));
    CHECK_OK(waxseal_bytes_destroy(bytes));
    CHECK_OK(waxseal_files_create_node(files, LIT("a/fifo"), WAXSEAL_FILE_KIND_FIFO, NONE, &error));
    CHECK_OK(waxseal_files_set_attributes(files, LIT("a/file"), private, &error));
    CHECK_OK(waxseal_files_set_xattr(files, LIT("a/file"), LIT("user.b"), LIT("2"), WAXSEAL_XATTR_SET, &error));
    CHECK_OK(waxseal_files_set_xattr(files, LIT("a/file"), LIT("user.a"), LIT("1"), WAXSEAL_XATTR_CREATE, &error));
    CHECK_ERRNO(EEXIST, waxseal_files_set_xattr(files, LIT("a/file"), LIT("user.a"), LIT("1"), WAXSEAL_XATTR_CREATE, &error));
    CHECK_OK(waxseal_files_xattr(files, NULL, LIT("a/file"), LIT("user.b"), &bytes, &error));
    CHECK_BYTES("2", waxseal_bytes_slice(bytes));
    CHECK_OK(waxseal_bytes_destroy(bytes));
    CHECK_OK(waxseal_files_xattrs(files, NULL, LIT("a/file"), &bytes, &error));
    CHECK_NUMBER(14, waxseal_bytes_slice(bytes).len);
    CHECK(memcmp(waxseal_bytes_slice(bytes).data, "user.a\0user.b\0", 14) == 0);
    CHECK_OK(waxseal_bytes_destroy(bytes));
    CHECK_OK(waxseal_files_remove_xattr(files, LIT("a/file"), LIT("user.a"), &error));
    CHECK_ERRNO(ENODATA, waxseal_files_remove_xattr(files, LIT("a/file"), LIT("user.a"), &error));
    CHECK_OK(waxseal_files_copy(files, LIT("a/file"), LIT("copy"), &error));
    CHECK_OK(waxseal_files_rename(files, LIT("a"), LIT("z"), WAXSEAL_RENAME_REPLACE, &error));
    CHECK_OK(waxseal_files_copy_tree(files, LIT("z"), LIT("y"), &error));
    CHECK_OK(waxseal_files_usage(files, NULL, LIT("y"), &usage, &error));
    CHECK_NUMBER(1, usage.files);
    CHECK_NUMBER(3, usage.directories);
    CHECK_NUMBER(2, usage.others);
    CHECK_NUMBER(12, usage.bytes);
    CHECK_OK(waxseal_files_remove(files, LIT("copy"), WAXSEAL_IF_ALWAYS, NULL, 0, &error));
    CHECK_OK(waxseal_files_remove_dir(files, LIT("z/b/c"), &error));
    CHECK_OK(waxseal_files_remove_tree(files, LIT("z"), &error));
    CHECK_OK(waxseal_files_verify(files, NULL, LIT(""), &bytes, &error));
    CHECK_BYTES("{\"entries\":7,\"bytes\":7,\"faults\":0,\"problems\":[]}", waxseal_bytes_slice(bytes));
    CHECK_OK(waxseal_bytes_destroy(bytes));
    CHECK_OK(waxseal_files_sync(files, &error));
    CHECK_OK(waxseal_files_reclaim(files, NULL, &error));
    CHECK_OK(waxseal_files_fsck(files, &bytes, &error));
    CHECK_BYTES("{\"entries\":7,\"contents\":0,\"reclaims\":0,\"chunks\":0,\"faults\":0,\"problems\":[]}", waxseal_bytes_slice(bytes));
    CHECK_OK(waxseal_bytes_destroy(bytes));
    end(db, files);
}

static void errors_have_the_numbers_of_posix(void) {
    waxseal_files_t *files;
    waxseal_db_t *db = memory(&files);
    waxseal_file_info_t info;
    waxseal_bytes_t *bytes = NULL;
    waxseal_file_list_t *list = NULL;
    waxseal_file_attributes_t wrong = {16, 0, 0, 0, 0};
    put(files, "file", "content");
    CHECK_OK(waxseal_files_mkdir(files, LIT("dir"), NONE, &error));
    put(files, "dir/file", "content");
    CHECK_ERRNO(ENOENT, waxseal_files_stat(files, NULL, LIT("absent"), &info, &error));
    CHECK_SAYS("absent", waxseal_error_message(error));
    CHECK_ERRNO(ENOTDIR, waxseal_files_stat(files, NULL, LIT("file/below"), &info, &error));
    CHECK_ERRNO(EISDIR, waxseal_files_read(files, NULL, LIT("dir"), &bytes, &error));
    CHECK_ERRNO(EISDIR, waxseal_files_remove(files, LIT("dir"), WAXSEAL_IF_ALWAYS, NULL, 0, &error));
    CHECK_ERRNO(ENOTEMPTY, waxseal_files_remove_dir(files, LIT("dir"), &error));
    CHECK_ERRNO(EBUSY, waxseal_files_remove_tree(files, LIT(""), &error));
    CHECK_ERRNO(EEXIST, waxseal_files_mkdir(files, LIT("dir"), NONE, &error));
    CHECK_ERRNO(EEXIST, waxseal_files_rename(files, LIT("file"), LIT("dir/file"), WAXSEAL_RENAME_NO_REPLACE, &error));
    CHECK_ERRNO(EINVAL, waxseal_files_rename(files, LIT("dir"), LIT("dir/below"), WAXSEAL_RENAME_REPLACE, &error));
    CHECK_ERRNO(EINVAL, waxseal_files_read_link(files, NULL, LIT("file"), &bytes, &error));
    CHECK_ERRNO(EINVAL, waxseal_files_stat(files, NULL, LIT(".."), &info, &error));
    CHECK_ERRNO(ENOTDIR, waxseal_files_list(files, NULL, LIT("file"), NULL, 0, &list, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_files_mkdir(files, LIT("x"), wrong, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_files_rename(files, LIT("file"), LIT("x"), 9, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_files_create_node(files, LIT("x"), 9, NONE, &error));
    CHECK_NUMBER(0, waxseal_error_errno(error));
    CHECK_NUMBER(0, waxseal_error_errno(NULL));
    CHECK_OK(waxseal_close(db, &error));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_files_stat(files, NULL, LIT("file"), &info, &error));
    CHECK_OK(waxseal_files_destroy(files));
    CHECK_FAILS(WAXSEAL_CLOSED, waxseal_files_sync(files, &error));
}

static void an_open_file_is_changed_in_place(void) {
    waxseal_files_t *files;
    waxseal_db_t *db = memory(&files);
    waxseal_file_t *file = NULL, *reader = NULL, *then = NULL;
    waxseal_file_snapshot_t *snapshot = NULL;
    waxseal_bytes_t *bytes = NULL;
    waxseal_file_info_t info;
    uint64_t at = 0;
    CHECK_OK(waxseal_file_open(files, NULL, LIT("file"), WAXSEAL_FILE_READ | WAXSEAL_FILE_WRITE | WAXSEAL_FILE_CREATE, NONE, &file, &error));
    CHECK_OK(waxseal_file_write(file, LIT("0123456789"), 0, &error));
    CHECK_OK(waxseal_file_flush(file, &error));
    CHECK_OK(waxseal_file_snapshot_create(files, &snapshot, &error));
    CHECK_OK(waxseal_file_write(file, LIT("ab"), 4, &error));
    CHECK_OK(waxseal_file_append(file, LIT("!"), &at, &error));
    CHECK_NUMBER(10, at);
    CHECK_OK(waxseal_file_stat(file, &info, &error));
    CHECK(info.has_changes);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_files_etag(files, NULL, LIT("file"), &bytes, &error));
    CHECK_OK(waxseal_file_read(file, 3, 100, &bytes, &error));
    CHECK_BYTES("3ab6789!", waxseal_bytes_slice(bytes));
    CHECK_OK(waxseal_bytes_destroy(bytes));
    check_content("0123456789", files, NULL, "file"); /* the last commit */
    CHECK_OK(waxseal_file_sync(file, &error));
    check_content("0123ab6789!", files, NULL, "file");
    check_content("0123456789", files, snapshot, "file");
    CHECK_OK(waxseal_file_set_len(file, 20000, &error));
    CHECK_OK(waxseal_file_next_hole(file, 0, &at, &error));
    CHECK_NUMBER(4096, at);
    CHECK_STATUS(WAXSEAL_NOT_FOUND, waxseal_file_next_data(file, 4096, &at, &error));
    CHECK_OK(waxseal_file_open(files, NULL, LIT("file"), WAXSEAL_FILE_READ, NONE, &reader, &error));
    CHECK_ERRNO(EBADF, waxseal_file_write(reader, LIT("x"), 0, &error));
    CHECK_OK(waxseal_file_open(files, snapshot, LIT("file"), WAXSEAL_FILE_READ, NONE, &then, &error));
    CHECK_OK(waxseal_file_read(then, 8, 100, &bytes, &error));
    CHECK_BYTES("89", waxseal_bytes_slice(bytes));
    CHECK_OK(waxseal_bytes_destroy(bytes));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_file_flush(then, &error));
    CHECK_OK(waxseal_file_destroy(then));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_file_open(files, snapshot, LIT("file"), WAXSEAL_FILE_WRITE, NONE, &then, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_file_open(files, NULL, LIT("file"), 64, NONE, &then, &error));
    CHECK_ERRNO(EEXIST, waxseal_file_open(files, NULL, LIT("file"), WAXSEAL_FILE_WRITE | WAXSEAL_FILE_CREATE_NEW, NONE, &then, &error));
    CHECK_OK(waxseal_file_snapshot_destroy(snapshot));
    CHECK_OK(waxseal_file_destroy(reader));
    CHECK_OK(waxseal_file_destroy(file));
    end(db, files);
}

static void a_writer_shows_its_file_at_the_end(void) {
    waxseal_files_t *files, *quick = NULL;
    waxseal_db_t *db = memory(&files);
    waxseal_file_writer_t *writer = NULL;
    waxseal_file_info_t info;
    waxseal_bytes_t *etag = NULL;
    waxseal_slice_t tag;
    put(files, "file", "old");
    CHECK_OK(waxseal_files_etag(files, NULL, LIT("file"), &etag, &error));
    tag = waxseal_bytes_slice(etag);
    CHECK_OK(waxseal_file_writer_create(files, LIT("file"), NONE, &writer, &error));
    CHECK_OK(waxseal_file_writer_only_if(writer, WAXSEAL_IF_MATCHES, tag.data, tag.len, &error));
    CHECK_OK(waxseal_file_writer_write(writer, LIT("new"), &error));
    CHECK_OK(waxseal_file_writer_skip(writer, 1 << 20, &error));
    CHECK_OK(waxseal_file_writer_set_xattr(writer, LIT("user.a"), LIT("1"), &error));
    check_content("old", files, NULL, "file");
    CHECK_OK(waxseal_file_writer_finish(writer, &info, &error));
    CHECK_NUMBER((1 << 20) + 3, info.size);
    CHECK_NUMBER(4096, info.allocated); /* the end is a hole of whole chunks, up to 3 bytes */
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_file_writer_write(writer, LIT("more"), &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_file_writer_finish(writer, NULL, &error));
    CHECK_OK(waxseal_file_writer_destroy(writer));
    CHECK_OK(waxseal_file_writer_create(files, LIT("file"), NONE, &writer, &error));
    CHECK_OK(waxseal_file_writer_only_if(writer, WAXSEAL_IF_MATCHES, tag.data, tag.len, &error));
    CHECK_ERRNO(ECANCELED, waxseal_file_writer_finish(writer, NULL, &error));
    CHECK_OK(waxseal_file_writer_destroy(writer));
    CHECK_ERRNO(ECANCELED, waxseal_files_remove(files, LIT("file"), WAXSEAL_IF_MATCHES, tag.data, tag.len, &error));
    CHECK_ERRNO(EINVAL, waxseal_files_remove(files, LIT("file"), WAXSEAL_IF_MATCHES, LIT("x"), &error));
    CHECK_OK(waxseal_bytes_destroy(etag));
    CHECK_OK(waxseal_files_with_durability(files, WAXSEAL_DURABILITY_SYNC, &quick, &error));
    CHECK_OK(waxseal_file_writer_create(quick, LIT("never"), NONE, &writer, &error));
    CHECK_OK(waxseal_file_writer_write(writer, LIT("seen"), &error));
    CHECK_OK(waxseal_file_writer_destroy(writer));
    CHECK_ERRNO(ENOENT, waxseal_files_stat(quick, NULL, LIT("never"), &info, &error));
    CHECK_OK(waxseal_files_destroy(quick));
    end(db, files);
}

static void several_files_appear_together(void) {
    waxseal_files_t *files;
    waxseal_db_t *db = memory(&files);
    waxseal_file_writer_t *writers[2];
    int round;
    for (round = 0; round < 2; round++) {
        CHECK_OK(waxseal_file_writer_create(files, LIT("one"), NONE, &writers[0], &error));
        CHECK_OK(waxseal_file_writer_create(files, LIT("two"), NONE, &writers[1], &error));
        CHECK_OK(waxseal_file_writer_write(writers[0], LIT("1"), &error));
        CHECK_OK(waxseal_file_writer_only_if(writers[1], WAXSEAL_IF_ABSENT, LIT(""), &error));
        if (round == 0) {
            CHECK_OK(waxseal_file_writers_finish(files, writers, 2, &error));
        } else {
            CHECK_OK(waxseal_file_writer_write(writers[0], LIT("never"), &error));
            CHECK_ERRNO(ECANCELED, waxseal_file_writers_finish(files, writers, 2, &error));
        }
        check_content("1", files, NULL, "one");
        check_content("", files, NULL, "two");
        CHECK_FAILS(WAXSEAL_INVALID, waxseal_file_writers_finish(files, writers, 2, &error));
        CHECK_OK(waxseal_file_writer_destroy(writers[0]));
        CHECK_OK(waxseal_file_writer_destroy(writers[1]));
    }
    CHECK_OK(waxseal_file_writers_finish(files, NULL, 0, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_file_writers_finish(files, NULL, 1, &error));
    end(db, files);
}

/* The names that remain in a list, each followed by a blank. */
static void check_names(const char *expected, waxseal_file_list_t *list) {
    waxseal_file_entry_t entry;
    char names[100] = "";
    int32_t status;
    while ((status = waxseal_file_list_next(list, &entry, &error)) == WAXSEAL_OK) {
        strncat(names, (const char *)entry.name.data, entry.name.len);
        strcat(names, entry.info.kind == WAXSEAL_FILE_KIND_DIRECTORY ? "/ " : " ");
    }
    CHECK_STATUS(WAXSEAL_NOT_FOUND, status);
    CHECK_BYTES(expected, ((waxseal_slice_t){(const uint8_t *)names, strlen(names)}));
    CHECK_OK(waxseal_file_list_destroy(list));
}

static void trees_are_listed_and_walked(void) {
    waxseal_files_t *files, *own = NULL;
    waxseal_db_t *db = memory(&files), *other = NULL;
    waxseal_file_list_t *list = NULL;
    waxseal_file_snapshot_t *snapshot = NULL;
    waxseal_session_t *session = NULL;
    CHECK_OK(waxseal_files_create_dirs(files, LIT("a/b"), &error));
    put(files, "a/one", "1");
    put(files, "a/b/two", "2");
    CHECK_OK(waxseal_file_snapshot_create(files, &snapshot, &error));
    put(files, "a/z", "3");
    CHECK_OK(waxseal_files_list(files, NULL, LIT("a"), NULL, 0, &list, &error));
    check_names("b/ one z ", list);
    CHECK_OK(waxseal_files_list(files, NULL, LIT("a"), LIT("b"), &list, &error));
    check_names("one z ", list);
    CHECK_OK(waxseal_files_walk(files, snapshot, LIT(""), &list, &error));
    check_names("/ a/ a/b/ a/b/two a/one ", list);
    CHECK_OK(waxseal_files_find(files, NULL, LIT("a"), LIT("[tz]*"), &list, &error));
    check_names("a/b/two a/z ", list);
    CHECK_OK(waxseal_file_snapshot_destroy(snapshot));
    CHECK_OK(waxseal_session_open(db, LIT("alice"), NULL, 0, &session, &error));
    CHECK_OK(waxseal_files_in_session(files, session, &own, &error));
    put(own, "a/own", "4");
    CHECK_OK(waxseal_files_destroy(own));
    CHECK_OK(waxseal_session_destroy(session));
    CHECK_OK(waxseal_open_memory(NULL, &other, &error));
    CHECK_OK(waxseal_session_open(other, LIT("alice"), NULL, 0, &session, &error));
    CHECK_FAILS(WAXSEAL_INVALID, waxseal_files_in_session(files, session, &own, &error));
    CHECK_OK(waxseal_session_destroy(session));
    CHECK_OK(waxseal_close(other, &error));
    end(db, files);
}

int main(void) {
    RUN(a_tree_is_made_changed_and_removed);
    RUN(errors_have_the_numbers_of_posix);
    RUN(an_open_file_is_changed_in_place);
    RUN(a_writer_shows_its_file_at_the_end);
    RUN(several_files_appear_together);
    RUN(trees_are_listed_and_walked);
    return done();
}
