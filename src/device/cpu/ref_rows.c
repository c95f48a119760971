/* ref_rows.c - the references of the ops that work value by value: embedding rows, gates, SiLU. */
#include "device/cpu/ref.h"

void qn_ref_embed(float *y, const void *table, qn_dtype t, const int32_t *tokens, size_t n_rows, size_t dim)
{
    size_t bytes = qn_dtype_get(t)->bytes * dim;
    for (size_t r = 0; r < n_rows; r++)
        qn_dtype_to_f32(t, y + r * dim, (const char *)table + (size_t)tokens[r] * bytes, dim);
}

void qn_ref_sigmoid_gate(float *y, const float *x, const float *q_gate, size_t n_rows, size_t n_q,
                         size_t head_dim)
{
    for (size_t h = 0; h < n_rows * n_q; h++) {
        const float *gate = q_gate + (2 * h + 1) * head_dim; /* per head: query, then gate */
        for (size_t i = 0; i < head_dim; i++)
            y[h * head_dim + i] = (float)((double)x[h * head_dim + i] * qn_ref_sigmoid((double)gate[i]));
    }
}

void qn_ref_silu_mul(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = (float)(qn_ref_silu((double)gate[i]) * (double)up[i]);
}

void qn_ref_gdn_gates(float *g, float *beta, const float *a, const float *b, const float *decay,
                      const float *dt_bias, size_t n_rows, size_t n_v, bool decay_is_log)
{
    for (size_t r = 0; r < n_rows; r++)
        for (size_t j = 0; j < n_v; j++) {
            size_t i = r * n_v + j;
            double rate = decay_is_log ? -exp((double)decay[j]) : (double)decay[j];
            double x = (double)a[i] + (double)dt_bias[j];
            double softplus =
                x > 20 ? x : log1p(exp(x)); /* the cut is the model's, not a guard: exp(20) is harmless */
            g[i] = (float)(rate * softplus);
            beta[i] = (float)qn_ref_sigmoid((double)b[i]);
        }
}
