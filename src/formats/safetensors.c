/* safetensors.c - the header of a safetensors file, read twice: once to count tensors and bytes of names, so
 * that exactly that much memory is taken, once to fill the table. What a tensor says about itself is checked
 * where it is read; that the tensors tile the data, and that no name occurs twice, is seen by sorting at the
 * end. */
#include "formats/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_pull.h"
#include "base/size.h"

#define METADATA  "__metadata__"
#define MAX_DEPTH 8u /* the format needs 3; a little more, so that deeper ones are named as what they are */

typedef struct reader {
    const char *json;
    size_t json_size;
    const uint8_t *data;
    uint64_t data_bytes;
    const char *file;
    qn_json_pull p;
    qn_safetensors *out;
    size_t n_tensors, name_bytes; /* found by count() */
    size_t names_used;
    char shown[160]; /* the name of the current tensor, printable */
} reader;

/* ---- the first reading ------------------------------------------------------------------------------------
 */

static qn_status check_name(const qn_json_pull *p, qn_error *err)
{
    char shown[64];
    if (p->text_len == 0) return qn_json_pull_fail(p, err, "a tensor has an empty name");
    if (p->text_len > QN_SAFETENSORS_MAX_NAME)
        return qn_fail(err, QN_TOO_LARGE, "byte %zu: a tensor name of %zu bytes, the limit is %u", p->at,
                       p->text_len, QN_SAFETENSORS_MAX_NAME);
    for (size_t i = 0; i < p->text_len; i++) {
        unsigned char c = (unsigned char)p->text[i];
        if (c < 0x20 || c == 0x7f) /* NUL would cut the name short, the others act on terminals */
            return qn_json_pull_fail(p, err, "tensor name '%s' holds a control character",
                                     qn_printable(shown, sizeof shown, p->text, p->text_len));
    }
    return QN_OK;
}

static qn_status count(reader *r, qn_error *err)
{
    qn_json_event e;
    qn_status st = qn_json_pull_next(&r->p, &e, err);
    if (st) return st;
    if (e != QN_JSON_OBJECT_BEGIN)
        return qn_json_pull_fail(&r->p, err, "the header is %s, not an object", qn_json_event_name(e));
    while (!(st = qn_json_pull_next(&r->p, &e, err)) && e == QN_JSON_KEY) {
        if (!qn_json_pull_is(&r->p, METADATA)) {
            if ((st = check_name(&r->p, err))) return st;
            if (r->n_tensors == QN_SAFETENSORS_MAX_TENSORS)
                return qn_fail(err, QN_TOO_LARGE, "more than %u tensors", QN_SAFETENSORS_MAX_TENSORS);
            r->n_tensors++;
            r->name_bytes += r->p.text_len + 1; /* at most what the header holds */
        }
        if ((st = qn_json_pull_skip(&r->p, err))) return st;
    }
    if (!st) st = qn_json_pull_expect(&r->p, QN_JSON_DONE, "what follows the header's object", err);
    return st;
}

/* ---- the second reading -----------------------------------------------------------------------------------
 */

static qn_status read_metadata(reader *r, qn_error *err)
{
    qn_json_event e;
    qn_status st = qn_json_pull_expect(&r->p, QN_JSON_OBJECT_BEGIN, METADATA, err);
    while (!st && !(st = qn_json_pull_next(&r->p, &e, err)) && e == QN_JSON_KEY)
        st = qn_json_pull_expect(&r->p, QN_JSON_STRING, "a value in " METADATA, err);
    return st;
}

static qn_status read_dtype(reader *r, qn_ckpt_tensor *t, qn_error *err)
{
    char shown[48];
    qn_status st = qn_json_pull_expect(&r->p, QN_JSON_STRING, "dtype", err);
    if (st) return st;
    if (!qn_dtype_by_name(r->p.text, r->p.text_len, &t->dtype))
        return qn_fail(err, QN_UNSUPPORTED, "tensor '%s' has the unknown dtype '%s'", r->shown,
                       qn_printable(shown, sizeof shown, r->p.text, r->p.text_len));
    return QN_OK;
}

static qn_status read_shape(reader *r, qn_ckpt_tensor *t, qn_error *err)
{
    qn_json_event e;
    qn_status st = qn_json_pull_expect(&r->p, QN_JSON_ARRAY_BEGIN, "shape", err);
    if (st) return st;
    t->n_elements = 1;
    while (!(st = qn_json_pull_next(&r->p, &e, err)) && e != QN_JSON_ARRAY_END) {
        uint64_t d;
        if (e != QN_JSON_NUMBER || !qn_json_pull_u64(&r->p, &d))
            return qn_json_pull_fail(&r->p, err, "tensor '%s': a dimension is not a whole number below 2^64",
                                     r->shown);
        if (d == 0) return qn_json_pull_fail(&r->p, err, "tensor '%s' has a dimension of 0", r->shown);
        if (t->n_dims == QN_CKPT_MAX_DIMS)
            return qn_fail(err, QN_TOO_LARGE, "tensor '%s' has more than %d dimensions", r->shown,
                           QN_CKPT_MAX_DIMS);
        if (!qn_size_mul(t->n_elements, d, &t->n_elements))
            return qn_json_pull_fail(&r->p, err, "tensor '%s' has 2^64 elements or more", r->shown);
        t->dims[t->n_dims++] = d;
    }
    for (uint32_t i = t->n_dims; i < QN_CKPT_MAX_DIMS; i++) t->dims[i] = 1;
    return st;
}

static qn_status read_offsets(reader *r, qn_ckpt_tensor *t, qn_error *err)
{
    qn_json_event e;
    uint64_t at[2];
    size_t n = 0;
    qn_status st = qn_json_pull_expect(&r->p, QN_JSON_ARRAY_BEGIN, "data_offsets", err);
    if (st) return st;
    while (!(st = qn_json_pull_next(&r->p, &e, err)) && e != QN_JSON_ARRAY_END) {
        uint64_t v;
        if (e != QN_JSON_NUMBER || !qn_json_pull_u64(&r->p, &v))
            return qn_json_pull_fail(&r->p, err, "tensor '%s': an offset is not a whole number below 2^64",
                                     r->shown);
        if (n == 2)
            return qn_json_pull_fail(&r->p, err, "tensor '%s' has more than two data_offsets", r->shown);
        at[n++] = v;
    }
    if (st) return st;
    if (n != 2) return qn_json_pull_fail(&r->p, err, "tensor '%s' has fewer than two data_offsets", r->shown);
    if (at[0] > at[1])
        return qn_json_pull_fail(&r->p, err,
                                 "tensor '%s' begins at byte %" PRIu64 " and ends before, at %" PRIu64,
                                 r->shown, at[0], at[1]);
    if (at[1] > r->data_bytes)
        return qn_json_pull_fail(&r->p, err, "tensor '%s' ends at byte %" PRIu64 ", the data has %" PRIu64,
                                 r->shown, at[1], r->data_bytes);
    t->data = r->data + at[0];
    t->n_bytes = at[1] - at[0];
    return QN_OK;
}

/* Shape, dtype and range agree; rows are whole blocks. */
static qn_status check_length(const reader *r, const qn_ckpt_tensor *t, qn_error *err)
{
    const qn_dtype_info *f = qn_dtype_get(t->dtype);
    uint64_t row = t->n_dims ? t->dims[t->n_dims - 1] : 1, bytes;
    if (row % f->lanes)
        return qn_json_pull_fail(&r->p, err,
                                 "tensor '%s' has rows of %" PRIu64 " elements, %s comes in blocks of %u",
                                 r->shown, row, f->name, f->lanes);
    if (!qn_size_mul(t->n_elements / f->lanes, f->bytes, &bytes))
        return qn_json_pull_fail(&r->p, err, "tensor '%s' has 2^64 bytes or more", r->shown);
    if (bytes != t->n_bytes)
        return qn_json_pull_fail(&r->p, err,
                                 "tensor '%s' spans %" PRIu64 " bytes, its shape and dtype %s need %" PRIu64,
                                 r->shown, t->n_bytes, f->name, bytes);
    return QN_OK;
}

static qn_status read_tensor(reader *r, qn_ckpt_tensor *t, qn_error *err)
{
    static const struct {
        const char *name;
        qn_status (*read)(reader *r, qn_ckpt_tensor *t, qn_error *err);
    } fields[] = {{"dtype", read_dtype}, {"shape", read_shape}, {"data_offsets", read_offsets}};
    enum { N_FIELDS = sizeof fields / sizeof fields[0] };
    bool seen[N_FIELDS] = {false};
    qn_json_event e;

    qn_status st = qn_json_pull_expect(&r->p, QN_JSON_OBJECT_BEGIN, "a tensor's entry", err);
    if (st) return st;
    while (!(st = qn_json_pull_next(&r->p, &e, err)) && e == QN_JSON_KEY) {
        size_t i = 0;
        while (i < N_FIELDS && !qn_json_pull_is(&r->p, fields[i].name)) i++;
        if (i == N_FIELDS) {
            char shown[64];
            return qn_json_pull_fail(&r->p, err, "tensor '%s' has an unknown field '%s'", r->shown,
                                     qn_printable(shown, sizeof shown, r->p.text, r->p.text_len));
        }
        if (seen[i])
            return qn_json_pull_fail(&r->p, err, "tensor '%s' has two fields '%s'", r->shown, fields[i].name);
        seen[i] = true;
        if ((st = fields[i].read(r, t, err))) return st;
    }
    if (st) return st;
    for (size_t i = 0; i < N_FIELDS; i++)
        if (!seen[i])
            return qn_json_pull_fail(&r->p, err, "tensor '%s' has no '%s'", r->shown, fields[i].name);
    return check_length(r, t, err);
}

/* Keys were counted and checked by count(): they fit the table and the arena. */
static qn_status fill(reader *r, qn_error *err)
{
    qn_json_event e;
    bool metadata = false;
    qn_status st = qn_json_pull_expect(&r->p, QN_JSON_OBJECT_BEGIN, "the header", err);
    while (!st && !(st = qn_json_pull_next(&r->p, &e, err)) && e == QN_JSON_KEY) {
        if (qn_json_pull_is(&r->p, METADATA)) {
            if (metadata) return qn_json_pull_fail(&r->p, err, METADATA " occurs twice");
            metadata = true;
            st = read_metadata(r, err);
            continue;
        }
        qn_ckpt_tensor *t = &r->out->tensors[r->out->n++];
        char *name = r->out->names + r->names_used;
        memcpy(name, r->p.text, r->p.text_len);
        name[r->p.text_len] = 0;
        r->names_used += r->p.text_len + 1;
        *t = (qn_ckpt_tensor){.name = name, .file = r->file};
        qn_printable(r->shown, sizeof r->shown, r->p.text, r->p.text_len);
        st = read_tensor(r, t, err);
    }
    return st;
}

/* ---- what only all tensors together show ------------------------------------------------------------------
 */

static int by_data(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const qn_ckpt_tensor *)a)->data,
              y = (uintptr_t)((const qn_ckpt_tensor *)b)->data;
    return (x > y) - (x < y);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const qn_ckpt_tensor *)a)->name, ((const qn_ckpt_tensor *)b)->name);
}

/* No overlap, no hole, nothing left over. Every tensor has at least one byte, so equal starts overlap. */
static qn_status check_tiling(reader *r, qn_error *err)
{
    qn_ckpt_tensor *t = r->out->tensors;
    char other[sizeof r->shown];
    uint64_t end = 0;
    qsort(t, r->out->n, sizeof *t, by_data);
    for (size_t i = 0; i < r->out->n; i++) {
        uint64_t begin = (uint64_t)((const uint8_t *)t[i].data - r->data);
        qn_printable(r->shown, sizeof r->shown, t[i].name, strlen(t[i].name));
        if (begin < end)
            return qn_fail(err, QN_CORRUPT, "tensors '%s' and '%s' overlap at byte %" PRIu64 " of the data",
                           qn_printable(other, sizeof other, t[i - 1].name, strlen(t[i - 1].name)), r->shown,
                           begin);
        if (begin > end)
            return qn_fail(err, QN_CORRUPT,
                           "bytes %" PRIu64 " to %" PRIu64 " of the data, before '%s', belong to no tensor",
                           end, begin, r->shown);
        end = begin + t[i].n_bytes;
    }
    if (end != r->data_bytes)
        return qn_fail(err, QN_CORRUPT, "the tensors end at byte %" PRIu64 ", the data has %" PRIu64, end,
                       r->data_bytes);
    return QN_OK;
}

static qn_status check_names_differ(reader *r, qn_error *err)
{
    qn_ckpt_tensor *t = r->out->tensors;
    qsort(t, r->out->n, sizeof *t, by_name);
    for (size_t i = 1; i < r->out->n; i++) {
        if (strcmp(t[i - 1].name, t[i].name) == 0)
            return qn_fail(err, QN_CORRUPT, "tensor '%s' occurs twice",
                           qn_printable(r->shown, sizeof r->shown, t[i].name, strlen(t[i].name)));
    }
    return QN_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------
 */

/* Find header and data in the file. */
static qn_status split(reader *r, const uint8_t *base, size_t size, qn_error *err)
{
    uint64_t n;
    if (size < sizeof n)
        return qn_fail(err, QN_CORRUPT, "the file has %zu bytes, a safetensors file at least 8", size);
    memcpy(&n, base, sizeof n);
    if (n > QN_SAFETENSORS_MAX_HEADER)
        return qn_fail(err, QN_TOO_LARGE, "a header of %" PRIu64 " bytes, the limit is %u", n,
                       QN_SAFETENSORS_MAX_HEADER);
    if (n > size - sizeof n)
        return qn_fail(err, QN_CORRUPT, "a header of %" PRIu64 " bytes in a file of %zu", n, size);
    r->json = (const char *)base + sizeof n;
    r->json_size = n;
    r->data = base + sizeof n + n;
    r->data_bytes = size - sizeof n - n;
    return QN_OK;
}

qn_status qn_safetensors_parse(qn_safetensors *out, const void *base, size_t size, const char *file,
                               qn_error *err)
{
    reader r = {.file = file, .out = out};
    *out = (qn_safetensors){0};
    qn_status st = split(&r, base, size, err);
    if (st) return st;

    qn_json_pull_init(&r.p, r.json, r.json_size, MAX_DEPTH);
    st = count(&r, err);
    qn_json_pull_deinit(&r.p);
    if (!st) {
        out->tensors = calloc(r.n_tensors ? r.n_tensors : 1, sizeof *out->tensors);
        out->names = malloc(r.name_bytes ? r.name_bytes : 1);
        if (!out->tensors || !out->names)
            st = qn_fail(err, QN_NOMEM, "no memory for the table of %zu tensors", r.n_tensors);
    }
    if (!st) {
        qn_json_pull_init(&r.p, r.json, r.json_size, MAX_DEPTH);
        st = fill(&r, err);
        qn_json_pull_deinit(&r.p);
    }
    if (!st) st = check_tiling(&r, err);
    if (!st) st = check_names_differ(&r, err);
    if (st) qn_safetensors_deinit(out);
    return st;
}

void qn_safetensors_deinit(qn_safetensors *s)
{
    free(s->tensors);
    free(s->names);
    *s = (qn_safetensors){0};
}
