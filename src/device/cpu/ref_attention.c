/* ref_attention.c - the reference of attention: blocks of one page, online softmax, everything in f64.
 *
 * For one row and head, with (m, l, acc) = (-inf, 0, 0) and the pages in order:
 *     s[p] = scale * sum_i q[i] K[p][i]           p: the page's positions up to the row's own
 *     m'   = max(m, max_p s[p])
 *     e[p] = exp(s[p] - m')
 *     l    = l exp(m - m') + sum_p e[p]
 *     acc  = acc exp(m - m') + sum_p e[p] V[p]    p in order
 * and out = acc / l. Blocks lie on the page grid of the sequence, so a row's result depends on its position
 * and on the cache alone. A page is decoded once for up to QN_ATTENTION_ROWS rows. */
#include "device/cpu/ref.h"

#define T QN_PAGE_TOKENS

/* Scratch: keys [d/16][... as T/16 panels][d][16], values [T][d16], decoding buffer, and (acc [d16], m, l)
 * per row and head. */
static size_t padded(size_t dim)
{
    return (dim + 15) / 16 * 16;
}

size_t qn_attention_scratch(uint32_t head_dim, uint32_t heads_per_kv)
{
    size_t d16 = padded(head_dim);
    return T * (size_t)head_dim + T * d16 + d16 + head_dim +
           (size_t)QN_ATTENTION_ROWS * heads_per_kv * (d16 + 2);
}

/* Decode the first n positions of a page: keys into panels of 16 positions [T/16][dim][16], values into rows
 * of d16. */
static void decode_page(double *keys, double *values, float *tmp, const qn_kv_layer *kv, size_t page,
                        size_t head, size_t n)
{
    size_t dim = kv->head_dim, d16 = padded(dim), size = qn_dtype_get(kv->format)->bytes;
    for (size_t p = 0; p < T; p++) {
        double *k = keys + (p / 16) * dim * 16 + p % 16;
        size_t at = ((page * T + p) * kv->n_kv + head) * dim * size;
        if (p >=
            n) { /* not written yet, maybe never: neither read nor used, but the panel must hold numbers */
            for (size_t i = 0; i < dim; i++) k[i * 16] = 0;
            continue;
        }
        qn_dtype_to_f32(kv->format, tmp, (const char *)kv->k + at, dim);
        for (size_t i = 0; i < dim; i++) k[i * 16] = (double)tmp[i];
        qn_dtype_to_f32(kv->format, tmp, (const char *)kv->v + at, dim);
        for (size_t i = 0; i < dim; i++) values[p * d16 + i] = (double)tmp[i];
        for (size_t i = dim; i < d16; i++) values[p * d16 + i] = 0;
    }
}

void qn_ref_attention(const qn_attention_args *a, const qn_kv_layer *kv)
{
    size_t dim = kv->head_dim, d16 = padded(dim), group = a->n_q / kv->n_kv, n_state = a->n_rows * group;
    double *keys = a->scratch, *values = keys + T * dim, *acc = values + T * d16, *m = acc + n_state * d16,
           *l = m + n_state;
    double *q = l + n_state;
    float *tmp = (float *)(q + dim);
    size_t n_pages = ((size_t)a->position + a->n_rows - 1) / T + 1;

    memset(acc, 0, n_state * d16 * sizeof *acc);
    for (size_t i = 0; i < n_state; i++) m[i] = -INFINITY, l[i] = 0;
    for (size_t page = 0; page < n_pages; page++) {
        size_t base = page * T, end = (size_t)a->position + a->n_rows;
        decode_page(keys, values, tmp, kv, a->pages[page], a->kv_head, end - base < T ? end - base : T);
        for (size_t i = 0; i < n_state; i++) {
            size_t row = i / group, own = a->position + row;
            if (own < base) continue;
            size_t n = own + 1 - base < T ? own + 1 - base : T;
            const float *qf = a->q + (row * a->n_q + a->kv_head * group + i % group) * dim;
            for (size_t k = 0; k < dim; k++) q[k] = (double)qf[k];
            double s[T] = {0}, top = m[i], sum = 0;
            for (size_t p = 0; p < n; p += 16) qn_ref_sum16(s + p, q, keys + p * dim, 16, dim);
            for (size_t p = 0; p < n; p++) {
                s[p] *= (double)a->scale;
                top = s[p] > top ? s[p] : top;
            }
            double keep = exp(m[i] - top); /* 0 for the first block: exp(-inf) */
            for (size_t p = 0; p < n; p++) {
                s[p] = exp(s[p] - top);
                sum += s[p];
            }
            m[i] = top;
            l[i] = l[i] * keep + sum;
            for (size_t k = 0; k < d16; k++) acc[i * d16 + k] *= keep;
            qn_ref_sum_cols(acc + i * d16, s, values, d16, n, d16);
        }
    }
    for (size_t i = 0; i < n_state; i++) {
        float *out = a->out + (i / group * a->n_q + a->kv_head * group + i % group) * dim;
        for (size_t k = 0; k < dim; k++) out[k] = (float)(acc[i * d16 + k] / l[i]);
    }
}
