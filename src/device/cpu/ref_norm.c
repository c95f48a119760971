/* ref_norm.c - the references of the two RMS norms. eps is inside the root, the mean is over the last
 * dimension. */
#include "device/cpu/ref.h"

void qn_ref_rmsnorm(float *y, size_t y_stride, float *x, const float *add, const float *w, size_t n_rows,
                    size_t dim, float eps, float offset)
{
    for (size_t r = 0; r < n_rows; r++) {
        float *xr = x + r * dim;
        float *yr = y + r * y_stride;
        if (add)
            for (size_t i = 0; i < dim; i++) xr[i] += add[r * dim + i];
        double scale = 1 / sqrt(qn_ref_sum_squares(xr, dim) / (double)dim + (double)eps);
        for (size_t i = 0; i < dim; i++)
            yr[i] = (float)((double)xr[i] * scale * ((double)offset + (double)w[i]));
    }
}

void qn_ref_gated_rmsnorm(float *y, const float *x, const float *z, const float *w, size_t n_rows, size_t n_v,
                          size_t dv, float eps, qn_gate_act act)
{
    for (size_t h = 0; h < n_rows * n_v; h++) {
        const float *xh = x + h * dv, *zh = z + h * dv;
        double scale = 1 / sqrt(qn_ref_sum_squares(xh, dv) / (double)dv + (double)eps);
        for (size_t i = 0; i < dv; i++) {
            double gate = act == QN_GATE_SILU ? qn_ref_silu((double)zh[i]) : qn_ref_sigmoid((double)zh[i]);
            y[h * dv + i] = (float)((double)xh[i] * scale * (double)w[i] * gate);
        }
    }
}
