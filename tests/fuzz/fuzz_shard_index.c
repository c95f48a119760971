/* fuzz_shard_index.c - the index of a sharded checkpoint on any bytes: no file name leaves the folder. */
#include <stdlib.h>
#include <string.h>

#include "formats/shard_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t n);

static qn_status see_entry(void *ctx, const char *tensor, size_t n_tensor, const char *file, size_t n_file,
                           qn_error *err)
{
    unsigned *sum = ctx;
    (void)err;
    for (size_t i = 0; i < n_tensor; i++) *sum += (unsigned char)tensor[i];
    if (n_file == 0 || n_file > QN_SHARD_MAX_FILE_NAME || memchr(file, '/', n_file) ||
        memchr(file, 0, n_file))
        abort();
    if (n_file == 2 && memcmp(file, "..", 2) == 0) abort();
    return QN_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t n)
{
    unsigned sum = 0;
    qn_error err = {0};
    uint8_t *text = malloc(n ? n : 1); /* of the exact size: reading past it is seen */
    if (!text) return 0;
    if (n) memcpy(text, in, n);
    qn_status st = qn_shard_index_each(text, n, see_entry, &sum, &err);
    if ((st != QN_OK) != (err.msg[0] != 0)) abort();
    free(text);
    return 0;
}
