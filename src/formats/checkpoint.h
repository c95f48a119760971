/* checkpoint.h - the common view of a checkpoint, whatever its container: proven names, shapes and byte
 * ranges, and the configuration as JSON.
 *
 * Opening maps the files and proves every tensor's name, dtype, shape and range once; after it nobody meets
 * an unchecked number from a file. The checkpoint owns the mappings: every pointer and string handed out is
 * valid until qn_ckpt_close. Immutable after opening: any thread. */
#ifndef QN_FORMATS_CHECKPOINT_H
#define QN_FORMATS_CHECKPOINT_H

#include <jansson.h>

#include "base/status.h"
#include "formats/dtype.h"

#define QN_CKPT_MAX_DIMS 8 /* published vision towers have 5: model.visual.patch_embed.proj.weight */

typedef struct qn_ckpt qn_ckpt;

typedef struct qn_ckpt_tensor {
    const char *name; /* as in the file, NUL-terminated */
    qn_dtype dtype;
    uint32_t n_dims;                 /* 0: a scalar */
    uint64_t dims[QN_CKPT_MAX_DIMS]; /* row-major, last contiguous, each >= 1; unused ones are 1 */
    uint64_t n_elements;
    uint64_t n_bytes;
    const void *data; /* no alignment promised */
    const char *file; /* base name of the file that holds it */
} qn_ckpt_tensor;

/* A folder with config.json and model.safetensors or model.safetensors.index.json + shards. */
qn_status qn_ckpt_open(qn_ckpt **out, const char *path, qn_error *err) QN_CHECKED;
void qn_ckpt_close(qn_ckpt *ck);

const char *qn_ckpt_path(const qn_ckpt *ck);     /* as opened */
const json_t *qn_ckpt_config(const qn_ckpt *ck); /* config.json, an object; borrowed */
size_t qn_ckpt_n_tensors(const qn_ckpt *ck);
const qn_ckpt_tensor *qn_ckpt_at(const qn_ckpt *ck, size_t i);           /* sorted by name; i < n_tensors */
const qn_ckpt_tensor *qn_ckpt_find(const qn_ckpt *ck, const char *name); /* NULL when absent */

/* Read a small file of the folder (limit max_bytes). QN_NOT_FOUND when it is absent. *data NUL-terminated,
 * free(). */
qn_status qn_ckpt_read_side_file(const char *folder, const char *file, size_t max_bytes, char **data,
                                 size_t *n, qn_error *err) QN_CHECKED;

#endif
