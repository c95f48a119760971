/* shard_index.c - one pass over the index of a sharded checkpoint. The callers go over it twice, to learn the
 * files and then to compare, rather than keep what it says: large indexes have hundreds of thousands of
 * entries. */
#include "formats/shard_index.h"

#include <string.h>

#include "base/json_pull.h"
#include "formats/safetensors.h"

/* A name from the index must stay inside the folder. */
static qn_status check_file_name(const qn_json_pull *p, qn_error *err)
{
    char shown[96];
    const char *s = p->text;
    size_t n = p->text_len;
    const char *why = NULL;
    if (n == 0)
        why = "is empty";
    else if (n > QN_SHARD_MAX_FILE_NAME)
        why = "is longer than 255 bytes";
    else if (memchr(s, '/', n) || memchr(s, '\\', n))
        why = "holds a path separator";
    else if (memmem(s, n, "..", 2))
        why = "holds '..'";
    else
        for (size_t i = 0; i < n && !why; i++)
            if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f) why = "holds a control character";
    if (!why) return QN_OK;
    return qn_json_pull_fail(p, err, "file name '%s' %s", qn_printable(shown, sizeof shown, s, n), why);
}

static qn_status read_map(qn_json_pull *p, qn_shard_index_fn fn, void *ctx, qn_error *err)
{
    qn_json_event e;
    char name[QN_SAFETENSORS_MAX_NAME]; /* the reader keeps one text at a time */
    qn_status st = qn_json_pull_expect(p, QN_JSON_OBJECT_BEGIN, "weight_map", err);
    while (!st && !(st = qn_json_pull_next(p, &e, err)) && e == QN_JSON_KEY) {
        size_t n = p->text_len;
        if (n > sizeof name)
            return qn_fail(err, QN_TOO_LARGE, "byte %zu: a tensor name of %zu bytes, the limit is %zu", p->at,
                           n, sizeof name);
        memcpy(name, p->text, n);
        st = qn_json_pull_expect(p, QN_JSON_STRING, "a file name in weight_map", err);
        if (!st) st = check_file_name(p, err);
        if (!st) st = fn(ctx, name, n, p->text, p->text_len, err);
    }
    return st;
}

static qn_status read_index(qn_json_pull *p, qn_shard_index_fn fn, void *ctx, qn_error *err)
{
    qn_json_event e;
    bool seen = false;
    qn_status st = qn_json_pull_expect(p, QN_JSON_OBJECT_BEGIN, "the index", err);
    while (!st && !(st = qn_json_pull_next(p, &e, err)) && e == QN_JSON_KEY) {
        if (!qn_json_pull_is(p, "weight_map")) {
            st = qn_json_pull_skip(p, err);
            continue;
        }
        if (seen) return qn_json_pull_fail(p, err, "weight_map occurs twice");
        seen = true;
        st = read_map(p, fn, ctx, err);
    }
    if (!st) st = qn_json_pull_expect(p, QN_JSON_DONE, "what follows the index", err);
    if (!st && !seen) st = qn_fail(err, QN_CORRUPT, "has no weight_map");
    return st;
}

qn_status qn_shard_index_each(const void *text, size_t n, qn_shard_index_fn fn, void *ctx, qn_error *err)
{
    qn_json_pull p;
    qn_json_pull_init(&p, text, n, 0);
    qn_status st = read_index(&p, fn, ctx, err);
    qn_json_pull_deinit(&p);
    return st;
}
