/* safetensors.h - takes the header of one safetensors file apart and proves it. No I/O.
 *
 *     byte 0    u64 n, little-endian: length of the header
 *     byte 8    n bytes of JSON: name -> {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__"
 * passed over byte 8+n  the data, offsets are relative to here
 *
 * Accepted is only what leaves no question open: every byte of the data belongs to exactly one tensor, every
 * length agrees with shape and dtype, no name or field occurs twice, there is no field but those three. */
#ifndef QN_FORMATS_SAFETENSORS_H
#define QN_FORMATS_SAFETENSORS_H

#include "formats/checkpoint.h"

#define QN_SAFETENSORS_MAX_HEADER  100000000u /* bytes */
#define QN_SAFETENSORS_MAX_TENSORS 1000000u
#define QN_SAFETENSORS_MAX_NAME    512u /* bytes */

typedef struct qn_safetensors {
    qn_ckpt_tensor *tensors; /* [n] sorted by name */
    size_t n;
    char *names; /* the arena the names live in */
} qn_safetensors;

/* base[0..size) is the whole file (NULL when size is 0) and must outlive out: the tensors' data points into
 * it. file is kept as their `file`, same lifetime. Heap at any moment stays under 4 x the header. Errors do
 * not name the file: QN_CORRUPT, QN_TOO_LARGE over a limit above, QN_UNSUPPORTED for a dtype without a name
 * here, QN_NOMEM. Any thread. */
qn_status qn_safetensors_parse(qn_safetensors *out, const void *base, size_t size, const char *file,
                               qn_error *err) QN_CHECKED;
void qn_safetensors_deinit(qn_safetensors *s); /* accepts a zeroed one; leaves it zeroed */

#endif
