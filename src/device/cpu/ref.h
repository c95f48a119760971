/* ref.h - the reference kernels, one function per op. What each computes stands with its slot in kernels.h;
 * the sums they share stand here. Private to device/cpu/.
 *
 * f32 x f32 is exact in f64, so a fused multiply-add gives the same bits as the multiplication and addition
 * written here: an instruction set that sums in f64 in the same order matches the reference bit for bit. */
#ifndef QN_DEVICE_CPU_REF_H
#define QN_DEVICE_CPU_REF_H

#include <math.h>

#include "device/cpu/kernels.h"

void qn_ref_linear(float *y, const float *x, const qn_panels *w, size_t n_rows, size_t panel,
                   size_t n_panels);
void qn_ref_embed(float *y, const void *table, qn_dtype t, const int32_t *tokens, size_t n_rows, size_t dim);
void qn_ref_rmsnorm(float *y, size_t y_stride, float *x, const float *add, const float *w, size_t n_rows,
                    size_t dim, float eps, float offset);
void qn_ref_gated_rmsnorm(float *y, const float *x, const float *z, const float *w, size_t n_rows, size_t n_v,
                          size_t dv, float eps, qn_gate_act act);
void qn_ref_qk_rope_append(const qn_rope_args *a, const qn_kv_layer *kv, size_t n_rows);
void qn_ref_attention(const qn_attention_args *a, const qn_kv_layer *kv);
void qn_ref_sigmoid_gate(float *y, const float *x, const float *q_gate, size_t n_rows, size_t n_q,
                         size_t head_dim);
void qn_ref_conv_silu(float *y, const float *u, const float *w, float *state, size_t n_rows, size_t dim,
                      size_t taps, size_t first, size_t last);
void qn_ref_gdn_gates(float *g, float *beta, const float *a, const float *b, const float *decay,
                      const float *dt_bias, size_t n_rows, size_t n_v, bool decay_is_log);
void qn_ref_gdn_step(const qn_gdn_args *a);
void qn_ref_gdn_chunk(const qn_gdn_args *a);
void qn_ref_silu_mul(float *y, const float *gate, const float *up, size_t n);

/* acc[l] += sum_k x[k] * w[k*ldw + l] for 16 lanes, k in order: the inner loop of the linear, of attention
 * and of the chunked delta rule. Two lanes to a vector, so that the compiler keeps all sums in registers. */
typedef double qn_f64x2 __attribute__((vector_size(16), aligned(8)));
static inline void qn_ref_sum16(double *acc, const double *x, const double *w, size_t ldw, size_t n)
{
    qn_f64x2 a[8];
    memcpy(a, acc, sizeof a);
    for (size_t k = 0; k < n; k++, w += ldw) {
        qn_f64x2 xk = {x[k], x[k]};
        const qn_f64x2 *wk = (const qn_f64x2 *)w;
        a[0] += xk * wk[0];
        a[1] += xk * wk[1];
        a[2] += xk * wk[2];
        a[3] += xk * wk[3];
        a[4] += xk * wk[4];
        a[5] += xk * wk[5];
        a[6] += xk * wk[6];
        a[7] += xk * wk[7];
    }
    memcpy(acc, a, sizeof a);
}

/* The same for any number of columns: c[l] += sum_k x[k] * w[k*ldw + l], l = 0 .. cols-1. */
static inline void qn_ref_sum_cols(double *c, const double *x, const double *w, size_t ldw, size_t n,
                                   size_t cols)
{
    size_t l = 0;
    for (; l + 16 <= cols; l += 16) qn_ref_sum16(c + l, x, w + l, ldw, n);
    if (l == cols) return;
    for (size_t k = 0; k < n; k++)
        for (size_t i = l; i < cols; i++) c[i] += x[k] * w[k * ldw + i];
}

/* sum_k a[k] * b[k]: eight partial sums over k mod 8, added in a tree, so that it vectorises in a fixed
 * order. */
static inline double qn_ref_add8(const double *s)
{
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}
static inline double qn_ref_sum_squares(const float *a, size_t n)
{
    double s[8] = {0};
    size_t k = 0;
    for (; k + 8 <= n; k += 8)
        for (size_t l = 0; l < 8; l++) s[l] += (double)a[k + l] * (double)a[k + l];
    for (size_t l = 0; k < n; k++, l++) s[l] += (double)a[k] * (double)a[k];
    return qn_ref_add8(s);
}

static inline double qn_ref_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static inline double qn_ref_silu(double x)
{
    return x / (1 + exp(-x));
}

/* Key head of value head j. */
static inline uint32_t qn_ref_key_head(qn_head_rule rule, uint32_t j, uint32_t n_k, uint32_t n_v)
{
    return rule == QN_HEADS_TILED ? j % n_k : j / (n_v / n_k);
}

/* y = scale * x / sqrt(sum x^2 + eps) in f64 (N3: the sum, not the mean). */
static inline void qn_ref_l2_norm(double *y, const float *x, size_t n, double eps, double scale)
{
    double r = scale / sqrt(qn_ref_sum_squares(x, n) + eps);
    for (size_t i = 0; i < n; i++) y[i] = (double)x[i] * r;
}

#endif
