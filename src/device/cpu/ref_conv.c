/* ref_conv.c - the reference of the causal depthwise convolution with SiLU. Walks time with a window of raw
 * inputs, a block of channels at a time, so that the output may overwrite the input.
 *
 * The sum of the few taps is f32, oldest tap first: as exact as its inputs need, and the one place of the
 * reference where the order of two additions shows in every run (f64 sums rounded to f32 hide it almost
 * always), so that the tests of equal bits can be seen to fail. */
#include "device/cpu/ref.h"

#define CHANNELS 64

void qn_ref_conv_silu(float *y, const float *u, const float *w, float *state, size_t n_rows, size_t dim,
                      size_t taps, size_t first, size_t last)
{
    float window[QN_MAX_TAPS][CHANNELS]; /* [taps], oldest first; the last one is the current token */
    float sum[CHANNELS];
    for (size_t c0 = first; c0 < last; c0 += CHANNELS) {
        size_t n = last - c0 < CHANNELS ? last - c0 : CHANNELS;
        for (size_t j = 0; j + 1 < taps; j++) memcpy(window[j], state + j * dim + c0, n * sizeof(float));
        for (size_t t = 0; t < n_rows; t++) {
            memcpy(window[taps - 1], u + t * dim + c0, n * sizeof(float));
            memset(sum, 0, sizeof sum);
            for (size_t j = 0; j < taps; j++)
                for (size_t c = 0; c < n; c++) sum[c] += w[(c0 + c) * taps + j] * window[j][c];
            for (size_t c = 0; c < n; c++) y[t * dim + c0 + c] = (float)qn_ref_silu((double)sum[c]);
            memmove(window[0], window[1], (taps - 1) * sizeof window[0]);
        }
        for (size_t j = 0; j + 1 < taps; j++) memcpy(state + j * dim + c0, window[j], n * sizeof(float));
    }
}
