/* ref_gdn_step.c - the reference of the gated delta rule, one token at a time: the definition of the layer.
 *
 * With S transposed, every row belongs to one value channel and needs nothing of the others:
 *     row *= exp(g);  m = row . k;  row += beta (v - m) k;  out = row . q
 * Source: docs/models/qwen35.md, 5.5. */
#include "device/cpu/ref.h"

void qn_ref_gdn_step(const qn_gdn_args *a)
{
    size_t dk = a->dk, dv = a->dv, j = a->head, kh = qn_ref_key_head(a->rule, a->head, a->n_k, a->n_v);
    size_t width = 2 * a->n_k * dk + a->n_v * dv;
    double q[QN_MAX_HEAD_DIM], k[QN_MAX_HEAD_DIM];

    for (size_t t = 0; t < a->n_rows; t++) {
        const float *row = a->qkv + t * width;
        const float *v = row + 2 * a->n_k * dk + j * dv;
        qn_ref_l2_norm(q, row + kh * dk, dk, (double)a->l2_eps, (double)a->scale);
        qn_ref_l2_norm(k, row + (a->n_k + kh) * dk, dk, (double)a->l2_eps, 1);
        double decay = exp((double)a->g[t * a->n_v + j]), beta = (double)a->beta[t * a->n_v + j];
        for (size_t i = 0; i < dv; i++) {
            float *s = a->state + (j * dv + i) * dk;
            double part[8] = {0};
            size_t c = 0;
            for (; c + 8 <= dk; c += 8)
                for (size_t l = 0; l < 8; l++) part[l] += decay * (double)s[c + l] * k[c + l];
            for (size_t l = 0; c < dk; c++, l++) part[l] += decay * (double)s[c] * k[c];
            double e = beta * ((double)v[i] - qn_ref_add8(part));
            for (c = 0; c < dk; c++) s[c] = (float)(decay * (double)s[c] + e * k[c]);
            memset(part, 0, sizeof part);
            for (c = 0; c + 8 <= dk; c += 8)
                for (size_t l = 0; l < 8; l++) part[l] += (double)s[c + l] * q[c + l];
            for (size_t l = 0; c < dk; c++, l++) part[l] += (double)s[c] * q[c];
            a->out[(t * a->n_v + j) * dv + i] = (float)qn_ref_add8(part);
        }
    }
}
