/* Changes that depend on what is there: by a function of a value, and by a function that runs in a transaction. The library
   calls both again if another thread changed the same keys meanwhile. */
#include <stdio.h>
#include <string.h>
#include <waxseal.h>

#define TEXT(s) (const uint8_t *)(s), sizeof(s) - 1

/* Appends an x. A status that is negative would end the update and change nothing. */
static int32_t append_x(void *context, const waxseal_slice_t *value, waxseal_bytes_t **new_value, waxseal_error_t **error) {
    uint8_t text[100];
    size_t len = value ? value->len : 0;
    (void)context;
    if (len >= sizeof text) {
        *error = waxseal_error_create(WAXSEAL_INVALID, TEXT("the text is too long"));
        return WAXSEAL_INVALID;
    }
    if (len > 0) memcpy(text, value->data, len);
    text[len] = 'x';
    return waxseal_bytes_create(text, len + 1, new_value, error);
}

/* Moves what one key has to another one; without it, nothing is left to do. */
static int32_t move(void *context, waxseal_transaction_t *transaction, waxseal_error_t **error) {
    waxseal_family_t *family = context;
    waxseal_bytes_t *value = NULL;
    waxseal_slice_t slice;
    int32_t status = waxseal_transaction_get(transaction, family, TEXT("from"), &value, error);
    if (status != WAXSEAL_OK) return status;
    slice = waxseal_bytes_slice(value);
    status = waxseal_transaction_put(transaction, family, TEXT("to"), slice.data, slice.len, error);
    waxseal_bytes_destroy(value);
    if (status != WAXSEAL_OK) return status;
    return waxseal_transaction_delete(transaction, family, TEXT("from"), error);
}

int main(void) {
    waxseal_error_t *error = NULL;
    waxseal_db_t *db = NULL;
    waxseal_family_t *family = NULL;
    waxseal_bytes_t *value = NULL;
    if (waxseal_open_memory(NULL, &db, &error) == WAXSEAL_OK &&
        waxseal_family_open(db, TEXT("default"), &family, &error) == WAXSEAL_OK &&
        waxseal_update(family, NULL, TEXT("from"), append_x, NULL, &error) == WAXSEAL_OK &&
        waxseal_update(family, NULL, TEXT("from"), append_x, NULL, &error) == WAXSEAL_OK &&
        waxseal_transact(db, WAXSEAL_ISOLATION_SERIALIZABLE, WAXSEAL_DURABILITY_DEFAULT, move, family, &error) == WAXSEAL_OK &&
        waxseal_get(family, NULL, TEXT("to"), &value, &error) == WAXSEAL_OK)
        printf("to: %s\n", (const char *)waxseal_bytes_slice(value).data);
    waxseal_bytes_destroy(value);
    waxseal_family_destroy(family);
    waxseal_close(db, error ? NULL : &error);
    if (error) fprintf(stderr, "%s\n", waxseal_error_message(error));
    return waxseal_error_destroy(error) == WAXSEAL_OK && error ? 1 : 0;
}
