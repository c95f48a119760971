/* fuzz_safetensors.c - the safetensors parser on any bytes. The first byte says how the rest is meant: even,
 * it is a whole file; odd, the next byte is the size of the data and the rest the header, so that mutations
 * of the header need not keep a length right. What is accepted must tile the data and be sorted. */
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t n);

static void require_safetensors(bool holds)
{
    if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t n)
{
    if (n < 2) return 0;
    size_t n_data = in[1], size = n - 1;
    bool whole = in[0] % 2 == 0;
    if (!whole) size = 8 + (n - 2) + n_data;
    uint8_t *file = malloc(size); /* of the exact size: reading past it is seen */
    if (!file) return 0;
    if (whole) {
        memcpy(file, in + 1, size);
    } else {
        uint64_t header = n - 2;
        memcpy(file, &header, 8);
        memcpy(file + 8, in + 2, n - 2);
        memset(file + 8 + (n - 2), 0, n_data);
    }

    qn_safetensors s;
    qn_error err = {0};
    if (qn_safetensors_parse(&s, file, size, "x", &err) == QN_OK) {
        uint64_t sum = 0, header;
        require_safetensors(size >= 8 && err.msg[0] == 0);
        memcpy(&header, file, 8);
        const uint8_t *end = file + size;
        for (size_t i = 0; i < s.n; i++) {
            const qn_ckpt_tensor *t = &s.tensors[i];
            const uint8_t *data = t->data;
            require_safetensors(data >= file + 8 + header && data < end &&
                                t->n_bytes <= (size_t)(end - data));
            require_safetensors(t->n_bytes > 0 && t->n_elements > 0 && t->n_dims <= QN_CKPT_MAX_DIMS);
            require_safetensors(strlen(t->name) > 0 && strlen(t->name) <= QN_SAFETENSORS_MAX_NAME);
            require_safetensors(i == 0 || strcmp(s.tensors[i - 1].name, t->name) < 0);
            sum += t->n_bytes;
        }
        require_safetensors(sum == size - 8 - header);
    } else {
        require_safetensors(err.msg[0] && !s.tensors && !s.names);
    }
    qn_safetensors_deinit(&s);
    free(file);
    return 0;
}
