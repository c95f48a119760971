/* upload.c - from weights of the checkpoint to resident forms: panels of 16 output rows in their own format,
 * tiny tensors as f32, the embedding as it lies in the mapping.
 *
 * A resident form is kept by (tensor, ranges, layout), so that all programs of a device share it. A tied
 * embedding is resident in panels for the head and also read, row by row, from the checkpoint's mapping by
 * the embedding: the pages of the mapping belong to the page cache and are not counted. */
#include <stdlib.h>

#include "base/size.h"
#include "device/cpu/cpu_int.h"

qn_layout qn_cpu_layout_of(const qn_weight *w, qn_op_kind op)
{
    switch (op) {
    case QN_OP_LINEAR:
    case QN_OP_LOGITS: return (qn_layout){QN_LAYOUT_LANES, QN_LANES, w->dtype};
    case QN_OP_EMBED: return (qn_layout){QN_LAYOUT_AS_IS, 0, w->dtype};
    default: /* norms, convolution, decay: a few thousand values that every row reads */
        return (qn_layout){QN_LAYOUT_AS_IS, 0, QN_DTYPE_F32};
    }
}

static bool same_ranges(const qn_range *a, uint32_t na, const qn_range *b, uint32_t nb)
{
    if (na != nb) return false;
    for (uint32_t i = 0; i < na; i++)
        if (a[i].first != b[i].first || a[i].count != b[i].count) return false;
    return true;
}

static bool same(const qn_cpu_weight *w, const qn_net *net, const qn_weight_ref *r, qn_layout l)
{
    return w->net == net && w->ref.weight == r->weight && w->layout.kind == l.kind &&
           w->layout.lanes == l.lanes && w->layout.format == l.format &&
           same_ranges(w->ref.row_ranges, w->ref.n_row_ranges, r->row_ranges, r->n_row_ranges) &&
           same_ranges(w->ref.col_ranges, w->ref.n_col_ranges, r->col_ranges, r->n_col_ranges);
}

static bool ranges_fit(const qn_range *r, uint32_t n, uint32_t limit, uint32_t total)
{
    uint64_t sum = 0;
    if (n < 1 || n > QN_MAX_RANGES) return false;
    for (uint32_t i = 0; i < n; i++) {
        if (r[i].count > limit || r[i].first > limit - r[i].count) return false;
        sum += r[i].count;
    }
    return sum == total && total > 0;
}

static bool is_whole(const qn_weight_ref *r, const qn_weight *w)
{
    return r->n_row_ranges == 1 && r->n_col_ranges == 1 && r->row_ranges[0].count == w->rows &&
           r->col_ranges[0].count == w->cols;
}

/* The checkpoint's row that is row i of the part. */
static uint32_t source_row(const qn_weight_ref *r, uint32_t i)
{
    uint32_t k = 0;
    while (i >= r->row_ranges[k].count) i -= r->row_ranges[k++].count;
    return r->row_ranges[k].first + i;
}

typedef struct job {
    const qn_weight *w;
    const qn_weight_ref *ref;
    char *dst;
    size_t size; /* bytes of an element */
} job;

/* Panels first .. last-1. Elements are copied as bytes: their format stays. */
static void fill_panels(void *ctx, size_t first, size_t last)
{
    const job *j = ctx;
    size_t cols = j->ref->cols, size = j->size;
    for (size_t p = first; p < last; p++) {
        char *panel = j->dst + p * cols * QN_LANES * size;
        for (uint32_t lane = 0; lane < QN_LANES; lane++) {
            uint32_t row = (uint32_t)p * QN_LANES + lane;
            char *to = panel + lane * size;
            if (row >= j->ref->rows) { /* padding: zero in every format */
                for (size_t k = 0; k < cols; k++, to += QN_LANES * size) memset(to, 0, size);
                continue;
            }
            const char *src = (const char *)j->w->data + (size_t)source_row(j->ref, row) * j->w->cols * size;
            for (uint32_t c = 0; c < j->ref->n_col_ranges; c++) {
                const char *from = src + (size_t)j->ref->col_ranges[c].first * size;
                uint32_t n = j->ref->col_ranges[c].count;
                if (size == 2) /* constant sizes, so that the copies become moves */
                    for (uint32_t k = 0; k < n; k++, from += 2, to += QN_LANES * 2) memcpy(to, from, 2);
                else
                    for (uint32_t k = 0; k < n; k++, from += 4, to += QN_LANES * 4) memcpy(to, from, 4);
            }
        }
    }
}

static void fill_f32(const job *j)
{
    float *dst = (float *)j->dst;
    for (uint32_t r = 0; r < j->ref->rows; r++) {
        const char *src = (const char *)j->w->data + (size_t)source_row(j->ref, r) * j->w->cols * j->size;
        for (uint32_t c = 0; c < j->ref->n_col_ranges; c++) {
            qn_range range = j->ref->col_ranges[c];
            qn_dtype_to_f32(j->w->dtype, dst, src + (size_t)range.first * j->size, range.count);
            dst += range.count;
        }
    }
}

static qn_status make(qn_cpu *c, qn_cpu_weight *out, const qn_weight *w, qn_error *err)
{
    const qn_weight_ref *ref = &out->ref;
    size_t size = qn_dtype_get(w->dtype)->bytes;
    uint64_t rows = ref->rows, n_bytes;
    if (out->layout.kind == QN_LAYOUT_AS_IS && out->layout.format == w->dtype && is_whole(ref, w) &&
        (w->dtype != QN_DTYPE_F32 || (uintptr_t)w->data % sizeof(float) == 0)) {
        out->data = w->data; /* borrowed: the program's network outlives the trace */
        return QN_OK;
    }
    bool lanes = out->layout.kind == QN_LAYOUT_LANES;
    if (!lanes && out->layout.format != QN_DTYPE_F32)
        return qn_fail(err, QN_UNSUPPORTED, "%s: the cpu device reads only whole embeddings", w->name);
    if (lanes) rows = qn_ceil_div(rows, QN_LANES) * QN_LANES;
    if (!qn_size_mul(rows, ref->cols, &n_bytes) ||
        !qn_size_mul(n_bytes, lanes ? size : sizeof(float), &n_bytes) ||
        !qn_size_round_up(n_bytes, 64, &n_bytes))
        return qn_fail(err, QN_TOO_LARGE, "%s: %u x %u elements overflow 64 bits of bytes", w->name,
                       ref->rows, ref->cols);
    out->owned = aligned_alloc(64, n_bytes);
    if (!out->owned)
        return qn_fail(err, QN_NOMEM, "%.1f MiB for the weight %s are not to be had",
                       (double)n_bytes / 1048576, w->name);
    out->n_bytes = n_bytes;
    out->data = out->owned;
    job j = {w, ref, out->owned, size};
    if (lanes) {
        out->panels = (qn_panels){w->dtype, ref->rows, ref->cols, out->owned};
        qn_pool_run(c->pool, qn_ceil_div(ref->rows, QN_LANES), 4, fill_panels, &j);
    } else {
        fill_f32(&j);
    }
    return QN_OK;
}

qn_status qn_cpu_weight_get(qn_cpu *c, const qn_net *net, const qn_weight_ref *ref, qn_layout layout,
                            const qn_cpu_weight **out, qn_error *err)
{
    *out = NULL;
    for (size_t i = 0; i < c->n_weights; i++)
        if (same(c->weights[i], net, ref, layout)) {
            *out = c->weights[i];
            return QN_OK;
        }
    if (ref->weight >= net->n_weights)
        return qn_fail(err, QN_INTERNAL, "weight %u of %u does not exist", ref->weight, net->n_weights);
    const qn_weight *w = &net->weights[ref->weight];
    if (w->dtype != QN_DTYPE_F32 && w->dtype != QN_DTYPE_F16 && w->dtype != QN_DTYPE_BF16)
        return qn_fail(err, QN_UNSUPPORTED, "%s: the cpu device does not compute with %s", w->name,
                       qn_dtype_get(w->dtype)->name);
    if (!ranges_fit(ref->row_ranges, ref->n_row_ranges, w->rows, ref->rows) ||
        !ranges_fit(ref->col_ranges, ref->n_col_ranges, w->cols, ref->cols))
        return qn_fail(err, QN_INTERNAL, "%s: the ranges of a part do not lie in its %u x %u elements",
                       w->name, w->rows, w->cols);

    if (c->n_weights == c->cap_weights) {
        size_t cap = c->cap_weights ? 2 * c->cap_weights : 64;
        qn_cpu_weight **p = realloc(c->weights, cap * sizeof *p);
        if (!p) return qn_fail(err, QN_NOMEM, "no memory for the list of weights");
        c->weights = p;
        c->cap_weights = cap;
    }
    qn_cpu_weight *made = calloc(1, sizeof *made);
    if (!made) return qn_fail(err, QN_NOMEM, "no memory for the weight %s", w->name);
    made->net = net;
    made->ref = *ref;
    made->layout = layout;
    qn_status st = make(c, made, w, err);
    if (st) {
        free(made);
        return st;
    }
    c->weights[c->n_weights++] = made;
    *out = made;
    return QN_OK;
}

void qn_cpu_weights_destroy(qn_cpu *c)
{
    for (size_t i = 0; i < c->n_weights; i++) {
        free(c->weights[i]->owned);
        free(c->weights[i]);
    }
    free(c->weights);
    c->weights = NULL;
    c->n_weights = c->cap_weights = 0;
}
