#include <stdio.h>
#include <waxseal.h>
#define TEXT(s) (const uint8_t *)(s), sizeof(s) - 1

int main(void) {
    waxseal_error_t *error = NULL;
    waxseal_db_t *db = NULL;
    waxseal_family_t *users = NULL;
    waxseal_bytes_t *value = NULL;
    if (waxseal_open(TEXT("start.waxseal"), NULL, &db, &error) == WAXSEAL_OK &&
        waxseal_family_open(db, TEXT("users"), &users, &error) == WAXSEAL_OK &&
        waxseal_put(users, TEXT("alice"), TEXT("1815"), &error) == WAXSEAL_OK &&
        waxseal_get(users, NULL, TEXT("alice"), &value, &error) == WAXSEAL_OK)
        printf("alice: %s\n", (const char *)waxseal_bytes_slice(value).data);
    waxseal_bytes_destroy(value);
    waxseal_family_destroy(users);
    waxseal_close(db, error ? NULL : &error);
    if (error) fprintf(stderr, "%s\n", waxseal_error_message(error));
    return waxseal_error_destroy(error) == WAXSEAL_OK && error ? 1 : 0;
}
