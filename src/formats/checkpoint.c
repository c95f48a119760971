/* checkpoint.c - the checkpoint view over a folder: config.json, and model.safetensors or an index with
 * shards.
 *
 * The order of opening: the index tells the files, each file is mapped and proven, the tensors of all are
 * sorted by name into one table, and a second pass over the index compares it with that table. No entry of
 * the index is kept in memory. */
#include "formats/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mapfile.h"
#include "formats/safetensors.h"
#include "formats/shard_index.h"

#define CONFIG_FILE "config.json"
#define SINGLE_FILE "model.safetensors"
#define INDEX_FILE  "model.safetensors.index.json"

#define MAX_CONFIG_BYTES ((size_t)8 << 20)
#define MAX_INDEX_BYTES  ((size_t)256 << 20)
#define MAX_SHARDS       4096u

typedef struct shard {
    char *file; /* base name; the tensors point at it */
    qn_map map;
    qn_safetensors st;
} shard;

struct qn_ckpt {
    char *path;
    json_t *config;
    shard *shards; /* [n_shards] sorted by file name; not moved once tensors are read */
    size_t n_shards;
    const qn_ckpt_tensor **tensors; /* [n_tensors] sorted by name, into the shards' tables */
    size_t n_tensors;
};

/* ---- files of the folder ----------------------------------------------------------------------------------
 */

/* folder/file, freed with free(); NULL without memory. */
static char *join(const char *folder, const char *file)
{
    char *p = NULL;
    return asprintf(&p, "%s/%s", folder, file) < 0 ? NULL : p;
}

static qn_status no_path(const char *folder, qn_error *err)
{
    return qn_fail(err, QN_NOMEM, "%s: no memory for a file name", folder);
}

qn_status qn_ckpt_read_side_file(const char *folder, const char *file, size_t max_bytes, char **data,
                                 size_t *n, qn_error *err)
{
    *data = NULL;
    *n = 0;
    char *path = join(folder, file);
    if (!path) return no_path(folder, err);
    qn_status st = qn_file_read(path, max_bytes, data, n, err);
    free(path);
    return st;
}

static bool exists(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0 ||
           (errno != ENOENT && errno != ENOTDIR); /* unreadable: let opening it say why */
}

static qn_status read_config(qn_ckpt *ck, qn_error *err)
{
    char *text;
    size_t n;
    json_error_t je;
    qn_status st = qn_ckpt_read_side_file(ck->path, CONFIG_FILE, MAX_CONFIG_BYTES, &text, &n, err);
    if (st) return st;
    ck->config = json_loadb(text, n, JSON_REJECT_DUPLICATES, &je);
    free(text);
    if (!ck->config && (json_error_code(&je) == json_error_out_of_memory || !je.text[0]))
        return qn_fail(err, QN_NOMEM, "%s/" CONFIG_FILE ": no memory to read it", ck->path);
    if (!ck->config)
        return qn_fail(err, QN_CORRUPT, "%s/" CONFIG_FILE ": line %d: %s", ck->path, je.line, je.text);
    if (!json_is_object(ck->config))
        return qn_fail(err, QN_CORRUPT, "%s/" CONFIG_FILE ": is not an object", ck->path);
    return QN_OK;
}

/* ---- shards -----------------------------------------------------------------------------------------------
 */

/* As strcmp, for s[0..n) without a NUL. */
static int compare_text(const char *s, size_t n, const char *other)
{
    size_t m = strlen(other);
    int c = memcmp(s, other, n < m ? n : m);
    return c ? c : (n > m) - (n < m);
}

/* The place of a file among the sorted shards, or where it belongs; *found says which. */
static size_t shard_place(const qn_ckpt *ck, const char *file, size_t n, bool *found)
{
    size_t lo = 0, hi = ck->n_shards;
    *found = false;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = compare_text(file, n, ck->shards[mid].file);
        if (c == 0) return *found = true, mid;
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

static qn_status add_shard(qn_ckpt *ck, const char *file, size_t n, qn_error *err)
{
    bool found;
    size_t at = shard_place(ck, file, n, &found);
    if (found) return QN_OK;
    if (ck->n_shards == MAX_SHARDS) return qn_fail(err, QN_TOO_LARGE, "more than %u files", MAX_SHARDS);
    if (ck->n_shards % 64 == 0) {
        shard *p = realloc(ck->shards, (ck->n_shards + 64) * sizeof *p);
        if (!p) return qn_fail(err, QN_NOMEM, "no memory for the table of files");
        ck->shards = p;
    }
    char *copy = strndup(file, n);
    if (!copy) return qn_fail(err, QN_NOMEM, "no memory for a file name");
    memmove(ck->shards + at + 1, ck->shards + at, (ck->n_shards - at) * sizeof *ck->shards);
    ck->shards[at] = (shard){.file = copy};
    ck->n_shards++;
    return QN_OK;
}

static qn_status open_shard(const qn_ckpt *ck, shard *s, qn_error *err)
{
    char *path = join(ck->path, s->file);
    if (!path) return no_path(ck->path, err);
    qn_status st = qn_map_open(&s->map, path, err);
    if (!st) {
        st = qn_safetensors_parse(&s->st, s->map.base, s->map.size, s->file, err);
        if (st) qn_error_context(err, "%s", path);
    }
    free(path);
    return st;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const qn_ckpt_tensor *const *)a)->name, (*(const qn_ckpt_tensor *const *)b)->name);
}

/* One sorted table over all shards; a name in two of them is refused. */
static qn_status merge(qn_ckpt *ck, qn_error *err)
{
    char shown[160];
    size_t n = 0;
    for (size_t i = 0; i < ck->n_shards; i++) n += ck->shards[i].st.n;
    ck->tensors = calloc(n ? n : 1, sizeof *ck->tensors);
    if (!ck->tensors)
        return qn_fail(err, QN_NOMEM, "%s: no memory for the table of %zu tensors", ck->path, n);
    for (size_t i = 0; i < ck->n_shards; i++) {
        const qn_safetensors *s = &ck->shards[i].st;
        for (size_t k = 0; k < s->n; k++) ck->tensors[ck->n_tensors++] = &s->tensors[k];
    }
    if (ck->n_shards > 1) qsort(ck->tensors, n, sizeof *ck->tensors, by_name);
    for (size_t i = 1; i < n; i++) {
        const qn_ckpt_tensor *a = ck->tensors[i - 1], *b = ck->tensors[i];
        if (strcmp(a->name, b->name) == 0)
            return qn_fail(err, QN_CORRUPT, "%s: tensor '%s' is in %s and in %s", ck->path,
                           qn_printable(shown, sizeof shown, a->name, strlen(a->name)), a->file, b->file);
    }
    return QN_OK;
}

/* The place of a tensor in the table, or n_tensors. */
static size_t tensor_place(const qn_ckpt *ck, const char *name, size_t n)
{
    size_t lo = 0, hi = ck->n_tensors;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = compare_text(name, n, ck->tensors[mid]->name);
        if (c == 0) return mid;
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return ck->n_tensors;
}

/* ---- the index --------------------------------------------------------------------------------------------
 */

static qn_status collect_file(void *ctx, const char *tensor, size_t n_tensor, const char *file, size_t n_file,
                              qn_error *err)
{
    (void)tensor;
    (void)n_tensor;
    return add_shard(ctx, file, n_file, err);
}

typedef struct comparison {
    const qn_ckpt *ck;
    bool *named; /* [n_tensors] the index has it */
} comparison;

static qn_status compare_entry(void *ctx, const char *tensor, size_t n_tensor, const char *file,
                               size_t n_file, qn_error *err)
{
    comparison *c = ctx;
    char shown[160], shown_file[96];
    size_t i = tensor_place(c->ck, tensor, n_tensor);
    qn_printable(shown, sizeof shown, tensor, n_tensor);
    qn_printable(shown_file, sizeof shown_file, file, n_file);
    if (i == c->ck->n_tensors) return qn_fail(err, QN_CORRUPT, "tensor '%s' is not in %s", shown, shown_file);
    if (compare_text(file, n_file, c->ck->tensors[i]->file))
        return qn_fail(err, QN_CORRUPT, "tensor '%s' is in %s, not in %s", shown, c->ck->tensors[i]->file,
                       shown_file);
    if (c->named[i]) return qn_fail(err, QN_CORRUPT, "tensor '%s' occurs twice", shown);
    c->named[i] = true;
    return QN_OK;
}

static qn_status compare_index(const qn_ckpt *ck, const qn_map *index, qn_error *err)
{
    char shown[160];
    comparison c = {.ck = ck, .named = calloc(ck->n_tensors ? ck->n_tensors : 1, sizeof *c.named)};
    if (!c.named) return qn_fail(err, QN_NOMEM, "no memory to compare %zu tensors", ck->n_tensors);
    qn_status st = qn_shard_index_each(index->base, index->size, compare_entry, &c, err);
    for (size_t i = 0; i < ck->n_tensors && !st; i++) {
        const char *name = ck->tensors[i]->name;
        if (!c.named[i])
            st = qn_fail(err, QN_CORRUPT, "does not name tensor '%s', which is in %s",
                         qn_printable(shown, sizeof shown, name, strlen(name)), ck->tensors[i]->file);
    }
    free(c.named);
    return st;
}

/* ---- open and close ---------------------------------------------------------------------------------------
 */

/* Map and prove all shards, whose names are known. */
static qn_status open_shards(qn_ckpt *ck, qn_error *err)
{
    qn_status st = QN_OK;
    for (size_t i = 0; i < ck->n_shards && !st; i++) st = open_shard(ck, &ck->shards[i], err);
    return st ? st : merge(ck, err);
}

/* A file model.safetensors that the index does not name would be a second checkpoint in the same folder.
 * Programs disagree about which of the two is the model, so there is no quiet choice. */
static qn_status refuse_two_models(const qn_ckpt *ck, bool single_exists, qn_error *err)
{
    bool named;
    (void)shard_place(ck, SINGLE_FILE, strlen(SINGLE_FILE), &named);
    if (!single_exists || named) return QN_OK;
    return qn_fail(err, QN_INVALID,
                   "%s: holds two models, " SINGLE_FILE " and the files of " INDEX_FILE
                   ", which does not name it: remove one of the two",
                   ck->path);
}

static qn_status open_indexed(qn_ckpt *ck, const char *index_path, bool single_exists, qn_error *err)
{
    qn_map index = {0};
    qn_status st = qn_map_open(&index, index_path, err);
    if (st) goto done;
    if (index.size > MAX_INDEX_BYTES) {
        st = qn_fail(err, QN_TOO_LARGE, "%s: has %zu bytes, the limit is %zu", index_path, index.size,
                     MAX_INDEX_BYTES);
        goto done;
    }
    st = qn_shard_index_each(index.base, index.size, collect_file, ck, err);
    if (st) {
        qn_error_context(err, "%s", index_path);
        goto done;
    }
    st = refuse_two_models(ck, single_exists, err);
    if (!st) st = open_shards(ck, err);
    if (st) goto done;
    st = compare_index(ck, &index, err);
    if (st) qn_error_context(err, "%s", index_path);
done:
    qn_map_close(&index);
    return st;
}

static qn_status open_weights(qn_ckpt *ck, qn_error *err)
{
    qn_status st;
    char *index = join(ck->path, INDEX_FILE), *single = join(ck->path, SINGLE_FILE);
    if (!index || !single) {
        st = no_path(ck->path, err);
    } else if (exists(index)) {
        st = open_indexed(ck, index, exists(single), err);
    } else if (exists(single)) {
        st = add_shard(ck, SINGLE_FILE, strlen(SINGLE_FILE), err);
        if (!st) st = open_shards(ck, err);
    } else {
        st = qn_fail(err, QN_NOT_FOUND, "%s: has neither " SINGLE_FILE " nor " INDEX_FILE, ck->path);
    }
    free(index);
    free(single);
    return st;
}

qn_status qn_ckpt_open(qn_ckpt **out, const char *path, qn_error *err)
{
    struct stat sb;
    qn_status st;
    *out = NULL;
    if (stat(path, &sb) == 0 && !S_ISDIR(sb.st_mode))
        return qn_fail(err, QN_UNSUPPORTED, "%s: is not a folder with " CONFIG_FILE " and " SINGLE_FILE,
                       path);

    qn_ckpt *ck = calloc(1, sizeof *ck);
    if (ck) ck->path = strdup(path);
    if (!ck || !ck->path) {
        st = qn_fail(err, QN_NOMEM, "%s: no memory to open it", path);
        goto done;
    }
    st = read_config(ck, err);
    if (!st) st = open_weights(ck, err);
    if (st) goto done;
    *out = ck;
    ck = NULL;
done:
    qn_ckpt_close(ck);
    return st;
}

void qn_ckpt_close(qn_ckpt *ck)
{
    if (!ck) return;
    for (size_t i = 0; i < ck->n_shards; i++) {
        qn_safetensors_deinit(&ck->shards[i].st);
        qn_map_close(&ck->shards[i].map);
        free(ck->shards[i].file);
    }
    free(ck->shards);
    free(ck->tensors);
    json_decref(ck->config);
    free(ck->path);
    free(ck);
}

const char *qn_ckpt_path(const qn_ckpt *ck)
{
    return ck->path;
}
const json_t *qn_ckpt_config(const qn_ckpt *ck)
{
    return ck->config;
}
size_t qn_ckpt_n_tensors(const qn_ckpt *ck)
{
    return ck->n_tensors;
}
const qn_ckpt_tensor *qn_ckpt_at(const qn_ckpt *ck, size_t i)
{
    return ck->tensors[i];
}

const qn_ckpt_tensor *qn_ckpt_find(const qn_ckpt *ck, const char *name)
{
    size_t i = tensor_place(ck, name, strlen(name));
    return i < ck->n_tensors ? ck->tensors[i] : NULL;
}
