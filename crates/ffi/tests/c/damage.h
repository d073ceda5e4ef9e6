/* Damage on the device: bytes of a closed store that are not what was written. */
#ifndef WAXSEAL_TESTS_DAMAGE_H
#define WAXSEAL_TESTS_DAMAGE_H

#include <dirent.h>

#include "harness.h"

/* Overwrites a part of this value in whatever table of the store holds it, which must not be compressed; its seal stays. */
UNUSED static void damage_value(const char *path, const char *value) {
    static char bytes[1 << 20];
    char name[4352];
    size_t needle = strlen(value);
    int damaged = 0;
    struct dirent *entry;
    DIR *folder = opendir(path);
    CHECK(folder != NULL);
    while (folder && (entry = readdir(folder))) {
        if (!strstr(entry->d_name, ".tbl")) continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        FILE *file = fopen(name, "r+b");
        size_t length = file ? fread(bytes, 1, sizeof bytes, file) : 0;
        for (size_t at = 0; at + needle <= length; at++) {
            if (memcmp(bytes + at, value, needle) != 0) continue;
            fseek(file, (long)at + 2, SEEK_SET);
            for (int byte = 0; byte < 6; byte++) fputc(0xEE, file);
            damaged++;
        }
        if (file) fclose(file);
    }
    if (folder) closedir(folder);
    CHECK_NUMBER(1, damaged);
}

#endif
