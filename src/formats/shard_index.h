/* shard_index.h - reads model.safetensors.index.json, which says in which shard each tensor of a checkpoint
 * is:
 *
 *     {"metadata": {...}, "weight_map": {"model.norm.weight": "model-00001-of-00003.safetensors", ...}}
 *
 * weight_map must be there, once, an object of strings. Anything beside it is passed over: total_size is
 * written by some tools as bytes of weights, by others as bytes of files, and nothing depends on it. No I/O,
 * no tree. */
#ifndef QN_FORMATS_SHARD_INDEX_H
#define QN_FORMATS_SHARD_INDEX_H

#include "base/status.h"

#define QN_SHARD_MAX_FILE_NAME 255u /* bytes */

/* Called for every entry, in the order of the file. Neither string is NUL-terminated; both are valid during
 * the call only. file is a plain name of 1 to 255 bytes, without separators, "..", control characters. A
 * failure ends the reading and is returned. */
typedef qn_status (*qn_shard_index_fn)(void *ctx, const char *tensor, size_t n_tensor, const char *file,
                                       size_t n_file, qn_error *err);

qn_status qn_shard_index_each(const void *text, size_t n, qn_shard_index_fn fn, void *ctx,
                              qn_error *err) QN_CHECKED;

#endif
