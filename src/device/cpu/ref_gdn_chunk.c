/* ref_gdn_chunk.c - the reference of the gated delta rule in chunks of QN_GRID tokens, for prefill.
 *
 * Steps C1 to C8 of docs/models/qwen35.md, 5.6, in f64, for one value head. Every exponential is of a
 * difference that is at most 0. Row i of a chunk depends only on rows 0..i, so a short last chunk gives the
 * bits of a long one. K K^T and Q K^T belong to the key head and are computed again for each of its value
 * heads: the reference stays simple. */
#include "device/cpu/ref.h"

#define C QN_GRID

typedef struct chunk {
    double *k, *q; /* [C][dk] normalised, q scaled */
    double *kt;    /* [dk][C] */
    double *s;     /* [dk][dv] the state, not transposed */
    double *u, *w; /* [C][dv], [C][dk]; u becomes E */
    double *o;     /* [dv] one output row */
    double *a;     /* [C] one row of A, of Q K^T, or of decayed keys */
    double *cum;   /* [C] G */
} chunk;

size_t qn_gdn_scratch(uint32_t dk, uint32_t dv)
{
    size_t k = dk, v = dv;
    return 4 * C * k + k * v + C * v + v + 2 * C;
}

static chunk lay_out(double *p, size_t dk, size_t dv)
{
    chunk c;
    c.k = p, p += C * dk;
    c.q = p, p += C * dk;
    c.kt = p, p += C * dk;
    c.w = p, p += C * dk;
    c.s = p, p += dk * dv;
    c.u = p, p += C * dv;
    c.o = p, p += dv;
    c.a = p, p += C;
    c.cum = p;
    return c;
}

/* Solve (I + A) [U | W] = [diag(beta) V | diag(beta e^G) K] by forward substitution (C3 to C5). */
static void solve(chunk *c, const qn_gdn_args *a, const float *v, size_t width, const float *beta, size_t n)
{
    size_t dk = a->dk, dv = a->dv;
    for (size_t i = 0; i < n; i++) {
        double b = (double)beta[i * a->n_v];
        double *u = c->u + i * dv, *w = c->w + i * dk, *row = c->a;
        memset(row, 0, C * sizeof *row);
        qn_ref_sum_cols(row, c->k + i * dk, c->kt, C, dk, i); /* k_i . k_j for j < i */
        for (size_t j = 0; j < i; j++) row[j] *= -b * exp(c->cum[i] - c->cum[j]);
        double grown = b * exp(c->cum[i]);
        for (size_t l = 0; l < dv; l++) u[l] = b * (double)v[i * width + l];
        for (size_t l = 0; l < dk; l++) w[l] = grown * c->k[i * dk + l];
        qn_ref_sum_cols(u, row, c->u, dv, i, dv);
        qn_ref_sum_cols(w, row, c->w, dk, i, dk);
    }
}

static void one_chunk(chunk *c, const qn_gdn_args *a, size_t t0, size_t n)
{
    size_t dk = a->dk, dv = a->dv, j = a->head, kh = qn_ref_key_head(a->rule, a->head, a->n_k, a->n_v);
    size_t width = 2 * a->n_k * dk + a->n_v * dv;
    const float *qkv = a->qkv + t0 * width, *v = qkv + 2 * a->n_k * dk + j * dv;
    const float *g = a->g + t0 * a->n_v + j, *beta = a->beta + t0 * a->n_v + j;
    float *state = a->state + j * dv * dk;

    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        qn_ref_l2_norm(c->q + i * dk, qkv + i * width + kh * dk, dk, (double)a->l2_eps, (double)a->scale);
        qn_ref_l2_norm(c->k + i * dk, qkv + i * width + (a->n_k + kh) * dk, dk, (double)a->l2_eps, 1);
        for (size_t l = 0; l < dk; l++) c->kt[l * C + i] = c->k[i * dk + l];
        c->cum[i] = sum += (double)g[i * a->n_v]; /* C1 */
    }
    for (size_t l = 0; l < dk; l++) /* columns of a short chunk that no key fills */
        for (size_t i = n; i < C; i++) c->kt[l * C + i] = 0;
    for (size_t l = 0; l < dk; l++)
        for (size_t i = 0; i < dv; i++) c->s[l * dv + i] = (double)state[i * dk + l];

    solve(c, a, v, width, beta, n);
    for (size_t i = 0; i < n; i++) { /* C6: E = U - W S, in place of U */
        double *w = c->w + i * dk;
        for (size_t l = 0; l < dk; l++) w[l] = -w[l];
        qn_ref_sum_cols(c->u + i * dv, w, c->s, dv, dk, dv);
    }
    for (size_t i = 0; i < n; i++) { /* C7 */
        double *q = c->q + i * dk, *row = c->a;
        memset(row, 0, C * sizeof *row);
        qn_ref_sum_cols(row, q, c->kt, C, dk, i + 1);
        for (size_t p = 0; p <= i; p++) row[p] *= exp(c->cum[i] - c->cum[p]);
        double grown = exp(c->cum[i]);
        for (size_t l = 0; l < dk; l++) q[l] *= grown;
        memset(c->o, 0, dv * sizeof *c->o);
        qn_ref_sum_cols(c->o, q, c->s, dv, dk, dv);
        qn_ref_sum_cols(c->o, row, c->u, dv, i + 1, dv);
        float *out = a->out + ((t0 + i) * a->n_v + j) * dv;
        for (size_t l = 0; l < dv; l++) out[l] = (float)c->o[l];
    }
    double total = exp(c->cum[n - 1]); /* C8 */
    for (size_t l = 0; l < dk; l++) {
        double *s = c->s + l * dv;
        for (size_t i = 0; i < dv; i++) s[i] *= total;
        for (size_t p = 0; p < n; p++) c->a[p] = exp(c->cum[n - 1] - c->cum[p]) * c->kt[l * C + p];
        qn_ref_sum_cols(s, c->a, c->u, dv, n, dv);
        for (size_t i = 0; i < dv; i++) state[i * dk + l] = (float)s[i];
    }
}

void qn_ref_gdn_chunk(const qn_gdn_args *a)
{
    chunk c = lay_out(a->scratch, a->dk, a->dv);
    for (size_t t = 0; t < a->n_rows; t += C) one_chunk(&c, a, t, a->n_rows - t < C ? a->n_rows - t : C);
}
