/* test_kernels_ref.c - every reference kernel against its formula, written anew and naively in f64.
 *
 * Two kinds of bound: small integers make every order of adding exact, so the bits must match; random inputs
 * may be off by the one rounding to f32 and by 1e-13 of the sum of magnitudes. Promises about bits (rows
 * alone or together, chunks in one call or two, heads in either order) are compared with memcmp. */
#include "tap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/kernels.h"

static qn_kernels k;
static uint64_t seed = 20240607;

static double uniform(void) /* (-1, 1) */
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(seed >> 11 << 11) / 9223372036854775808.0;
}

static float *randoms(size_t n, double scale)
{
    float *p = malloc((n + 1) * sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = (float)(scale * uniform());
    return p;
}

static void *copy_of(const void *p, size_t bytes)
{
    void *q = malloc(bytes + 1);
    memcpy(q, p, bytes);
    return q;
}

/* got is want rounded to f32 once, but for what f64 sums of the given magnitude lose. */
static void near(double got, double want, double magnitude, const char *what, size_t at)
{
    double bound = 6.0e-8 * fabs(want) + 1e-13 * magnitude + 1e-44;
    if (!(fabs(got - want) <= bound))
        fail_msg("%s[%zu]: %.9g, want %.9g (bound %.2g)", what, at, got, want, bound);
}

static double sigm(double x)
{
    return 1 / (1 + exp(-x));
}

/* ---- linear ---- */

static size_t size_of(qn_dtype t)
{
    return qn_dtype_get(t)->bytes;
}

/* Encode a value that the format holds exactly, or nearly; returns what the format holds. */
static float put(void *dst, qn_dtype t, size_t at, float v)
{
    uint16_t h = t == QN_DTYPE_F16 ? qn_f32_to_f16(v) : qn_f32_to_bf16(v);
    if (t == QN_DTYPE_F32) {
        memcpy((float *)dst + at, &v, sizeof v);
        return v;
    }
    memcpy((uint16_t *)dst + at, &h, sizeof h);
    return t == QN_DTYPE_F16 ? qn_f16_to_f32(h) : qn_bf16_to_f32(h);
}

typedef struct matrix {
    qn_panels panels;
    float *plain; /* [rows][cols] as decoded */
    void *data;
} matrix;

static matrix make_matrix(qn_dtype t, uint32_t rows, uint32_t cols, bool integers)
{
    size_t panels = (rows + QN_LANES - 1) / QN_LANES;
    matrix m = {.plain = malloc((size_t)rows * cols * sizeof(float)),
                .data = aligned_alloc(64, (panels * cols * QN_LANES * 4 + 63) / 64 * 64)};
    memset(m.data, 0, panels * cols * QN_LANES * size_of(t));
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < cols; c++) {
            float v = integers ? (float)(1 + (int)(fabs(uniform()) * 7)) * (uniform() < 0 ? -1.f : 1.f)
                               : (float)uniform();
            m.plain[(size_t)r * cols + c] =
                put(m.data, t, ((size_t)(r / QN_LANES) * cols + c) * QN_LANES + r % QN_LANES, v);
        }
    m.panels = (qn_panels){t, rows, cols, m.data};
    return m;
}

static void free_matrix(matrix *m)
{
    free(m->plain);
    free(m->data);
}

static void linear_case(qn_dtype t, uint32_t rows, uint32_t cols, size_t n, bool integers)
{
    matrix m = make_matrix(t, rows, cols, integers);
    float *x = randoms(n * cols, 3), *y = malloc((n * rows + 1) * sizeof *y),
          *alone = malloc(rows * sizeof *alone);
    if (integers)
        for (size_t i = 0; i < n * cols; i++)
            x[i] = (float)(1 + (int)(fabs(uniform()) * 5)) * (i % 3 ? 1.f : -1.f);
    for (size_t i = 0; i <= n * rows; i++) y[i] = 12345;
    size_t panels = (rows + QN_LANES - 1) / QN_LANES, half = panels / 2;
    k.linear(y, x, &m.panels, n, half, panels - half);
    for (size_t r = 0; r < n; r++)
        for (size_t o = 0; o < half * QN_LANES; o++)
            assert_true(y[r * rows + o] == 12345); /* not its panels */
    k.linear(y, x, &m.panels, n, 0, half);
    assert_true(y[n * rows] == 12345);
    for (size_t r = 0; r < n; r++) {
        for (size_t o = 0; o < rows; o++) {
            double sum = 0, mag = 0;
            for (size_t c = cols; c-- > 0;) {
                double p = (double)x[r * cols + c] * (double)m.plain[o * cols + c];
                sum += p, mag += fabs(p);
            }
            if (integers)
                assert_true(y[r * rows + o] == (float)sum);
            else
                near(y[r * rows + o], sum, mag, "linear", r * rows + o);
        }
        k.linear(alone, x + r * cols, &m.panels, 1, 0, panels);
        assert_memory_equal(alone, y + r * rows, rows * sizeof *y); /* one row or many: the same bits */
    }
    free(x);
    free(y);
    free(alone);
    free_matrix(&m);
}

static void linear_matches_the_sum(void **state)
{
    (void)state;
    static const qn_dtype types[] = {QN_DTYPE_F32, QN_DTYPE_F16, QN_DTYPE_BF16};
    static const uint32_t rows[] = {1, 15, 16, 17, 53}, cols[] = {1, 7, 128, 129, 300};
    static const size_t ns[] = {0, 1, 3, 64, 67};
    for (int t = 0; t < 3; t++)
        for (int r = 0; r < 5; r++)
            for (int c = 0; c < 5; c++)
                for (int n = 0; n < 5; n++)
                    for (int integers = 0; integers < 2; integers++)
                        linear_case(types[t], rows[r], cols[c], ns[n], integers);
}

/* ---- value by value, norms ---- */

static void embedding_rows_are_converted(void **state)
{
    (void)state;
    char table[1 + 5 * 7 * 4];
    static const int32_t tokens[] = {4, 0, 2, 2};
    static const qn_dtype types[] = {QN_DTYPE_F32, QN_DTYPE_F16, QN_DTYPE_BF16};
    for (int t = 0; t < 3; t++) {
        float plain[35], y[28];
        for (size_t i = 0; i < 35; i++) {
            char one[4];
            plain[i] = put(one, types[t], 0, (float)uniform());
            memcpy(table + 1 + i * size_of(types[t]), one,
                   size_of(types[t])); /* a mapping promises no alignment */
        }
        k.embed(y, table + 1, types[t], tokens, 4, 7);
        for (size_t r = 0; r < 4; r++)
            assert_memory_equal(y + r * 7, plain + tokens[r] * 7, 7 * sizeof(float));
    }
}

static void rmsnorm_adds_then_divides(void **state)
{
    (void)state;
    static const size_t dims[] = {1, 2, 8, 13, 192};
    for (int d = 0; d < 5; d++)
        for (int add = 0; add < 2; add++)
            for (int offset = 0; offset < 2; offset++) {
                size_t n = 3, dim = dims[d], stride = dim + 2;
                float *x = randoms(n * dim, 4), *a = randoms(n * dim, 1), *w = randoms(dim, 1),
                      *y = randoms(n * stride, 0);
                float *old = copy_of(x, n * dim * sizeof *x);
                k.rmsnorm(y, stride, x, add ? a : NULL, w, n, dim, 1e-3f, (float)offset);
                for (size_t r = 0; r < n; r++) {
                    double ms = 0;
                    for (size_t i = 0; i < dim; i++) {
                        float s = old[r * dim + i] + (add ? a[r * dim + i] : 0);
                        assert_true(x[r * dim + i] == s);
                        ms += (double)s * (double)s;
                    }
                    ms = ms / (double)dim + (double)1e-3f;
                    for (size_t i = 0; i < dim; i++)
                        near(y[r * stride + i], (double)x[r * dim + i] / sqrt(ms) * (offset + (double)w[i]),
                             10, "rmsnorm", i);
                    assert_true(y[r * stride + dim] == 0); /* the gap of the stride */
                }
                k.rmsnorm(x, dim, x, NULL, w, n, dim, 1e-3f, (float)offset); /* in place */
                for (size_t r = 0; r < n; r++)
                    assert_memory_equal(x + r * dim, y + r * stride, dim * sizeof *x);
                free(x), free(a), free(w), free(y), free(old);
            }
    float zero[4] = {0}, w[4] = {1, 1, 1, 1}, y[4];
    k.rmsnorm(y, 4, zero, NULL, w, 1, 4, 1e-6f, 1);
    for (int i = 0; i < 4; i++) assert_true(y[i] == 0);
}

static void gated_rmsnorm_norms_each_head_then_gates(void **state)
{
    (void)state;
    for (int act = 0; act < 2; act++) {
        size_t n = 3, nv = 2, dv = 11;
        float *x = randoms(n * nv * dv, 2), *z = randoms(n * nv * dv, 5), *w = randoms(dv, 1),
              *y = malloc(n * nv * dv * sizeof *y);
        k.gated_rmsnorm(y, x, z, w, n, nv, dv, 1e-6f, act ? QN_GATE_SIGMOID : QN_GATE_SILU);
        for (size_t h = 0; h < n * nv; h++) {
            double ms = 0;
            for (size_t i = 0; i < dv; i++) ms += pow((double)x[h * dv + i], 2);
            for (size_t i = 0; i < dv; i++) {
                double g = (double)z[h * dv + i], gate = act ? sigm(g) : g * sigm(g);
                near(y[h * dv + i],
                     (double)w[i] * (double)x[h * dv + i] / sqrt(ms / (double)dv + (double)1e-6f) * gate, 10,
                     "gated", i);
            }
        }
        k.gated_rmsnorm(x, x, z, w, n, nv, dv, 1e-6f, act ? QN_GATE_SIGMOID : QN_GATE_SILU);
        assert_memory_equal(x, y, n * nv * dv * sizeof *x);
        free(x), free(z), free(w), free(y);
    }
}

static void gates_follow_their_formulas(void **state)
{
    (void)state;
    size_t n = 4, nq = 3, d = 5;
    float *x = randoms(n * nq * d, 2), *qg = randoms(n * nq * 2 * d, 8), *y = malloc(n * nq * d * sizeof *y);
    k.sigmoid_gate(y, x, qg, n, nq, d);
    for (size_t h = 0; h < n * nq; h++)
        for (size_t i = 0; i < d; i++)
            near(y[h * d + i], (double)x[h * d + i] * sigm((double)qg[h * 2 * d + d + i]), 1, "sigmoid_gate",
                 h * d + i);
    k.silu_mul(y, x, qg, n * nq * d);
    for (size_t i = 0; i < n * nq * d; i++)
        near(y[i], (double)x[i] * sigm((double)x[i]) * (double)qg[i], 1, "silu_mul", i);
    free(x), free(qg), free(y);

    float a[4] = {19.5f, 20.5f, -30, 0.25f}, b[4] = {0, -200, 200, 1}, A[2] = {0.5f, -1.25f},
          bias[2] = {0.25f, -0.25f}, g[4], beta[4];
    for (int is_log = 0; is_log < 2; is_log++) {
        k.gdn_gates(g, beta, a, b, A, bias, 2, 2, is_log);
        for (int i = 0; i < 4; i++) {
            double s = (double)a[i] + (double)bias[i % 2],
                   rate = is_log ? -exp((double)A[i % 2]) : (double)A[i % 2];
            near(g[i], rate * (s > 20 ? s : log1p(exp(s))), 1e-3, "g", (size_t)i);
            near(beta[i], sigm((double)b[i]), 1e-3, "beta", (size_t)i);
        }
    }
    assert_true(beta[0] == 0.5f && beta[1] == 0 && beta[2] == 1);
}

/* ---- attention ---- */

enum { PAGES = 6 };
static const uint32_t page_table[] = {4, 1, 5, 0, 3};

typedef struct cache {
    qn_kv_layer l;
    size_t n; /* elements of keys, and of values */
} cache;

static cache make_cache(qn_dtype t, uint32_t n_kv, uint32_t d)
{
    cache c = {.l = {.format = t, .n_kv = n_kv, .head_dim = d},
               .n = (size_t)PAGES * QN_PAGE_TOKENS * n_kv * d};
    c.l.k = malloc(c.n * size_of(t));
    c.l.v = malloc(c.n * size_of(t));
    for (size_t i = 0; i < c.n; i++)
        put(c.l.k, t, i, NAN), put(c.l.v, t, i, NAN); /* what nobody wrote must not be read */
    return c;
}

static float get(const void *p, qn_dtype t, size_t at)
{
    float f;
    qn_dtype_to_f32(t, &f, (const char *)p + at * size_of(t), 1);
    return f;
}

static size_t at(const cache *c, size_t position, size_t head)
{
    return ((page_table[position / QN_PAGE_TOKENS] * (size_t)QN_PAGE_TOKENS + position % QN_PAGE_TOKENS) *
                c->l.n_kv +
            head) *
           c->l.head_dim;
}

static void rope_case(qn_dtype t, uint32_t position, size_t n, uint32_t d, uint32_t rotary)
{
    uint32_t nq = 4, nkv = 2;
    cache c = make_cache(t, nkv, d);
    double inv[16];
    for (uint32_t i = 0; i < rotary / 2; i++) inv[i] = pow(1e4, -2.0 * i / rotary);
    float *qg = randoms(n * nq * 2 * d, 2), *kk = randoms(n * nkv * d, 2), *v = randoms(n * nkv * d, 2),
          *qn = randoms(d, 1), *kn = randoms(d, 1);
    float *q = malloc(n * nq * d * sizeof *q);
    qn_rope_args a = {q, qg, kk, v, qn, kn, inv, page_table, position, nq, rotary, 1e-6f, 1};
    k.qk_rope_append(&a, &c.l, n);
    for (size_t r = 0; r < n; r++)
        for (size_t h = 0; h < nq + nkv; h++) {
            const float *x = h < nq ? qg + (r * nq + h) * 2 * d : kk + (r * nkv + h - nq) * d,
                        *w = h < nq ? qn : kn;
            double ms = 0, y[64], z[64];
            for (size_t i = 0; i < d; i++) ms += (double)x[i] * (double)x[i];
            for (size_t i = 0; i < d; i++)
                y[i] = z[i] = (double)x[i] / sqrt(ms / d + (double)1e-6f) * (1 + (double)w[i]);
            for (size_t i = 0; i < rotary; i++) {
                size_t half = rotary / 2, f = i % half;
                double angle = (double)(position + r) * inv[f];
                z[i] = i < half ? y[i] * cos(angle) - y[i + half] * sin(angle)
                                : y[i] * cos(angle) + y[i - half] * sin(angle);
            }
            for (size_t i = 0; i < d; i++) {
                if (h < nq) {
                    near(q[(r * nq + h) * d + i], z[i], 100, "q", i);
                    continue;
                }
                size_t e = at(&c, position + r, h - nq) + i;
                double got = get(c.l.k, t, e), ulp = t == QN_DTYPE_F16 ? 0x1p-11 : 0x1p-24;
                if (!(fabs(got - z[i]) <= ulp * fabs(z[i]) * 1.001 + 1e-7))
                    fail_msg("key %zu: %g, want %g", i, got, z[i]);
                float value = v[(r * nkv + h - nq) * d + i];
                assert_true(get(c.l.v, t, e) ==
                            (t == QN_DTYPE_F16 ? qn_f16_to_f32(qn_f32_to_f16(value)) : value));
            }
        }
    size_t written = 0;
    for (size_t i = 0; i < c.n; i++) written += !isnan(get(c.l.k, t, i)) + !isnan(get(c.l.v, t, i));
    assert_int_equal(written, 2 * n * nkv * d);
    free(qg), free(kk), free(v), free(qn), free(kn), free(q), free(c.l.k), free(c.l.v);
}

static void queries_and_keys_are_normed_rotated_and_kept(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        rope_case(t ? QN_DTYPE_F16 : QN_DTYPE_F32, 0, 1, 8, 8);
        rope_case(t ? QN_DTYPE_F16 : QN_DTYPE_F32, 61, 70, 6, 4); /* over a page's end */
        rope_case(t ? QN_DTYPE_F16 : QN_DTYPE_F32, 200, 3, 5, 0);
    }
}

static void attention_case(qn_dtype t, uint32_t position, uint32_t n, uint32_t d)
{
    uint32_t nq = 4, nkv = 2;
    cache c = make_cache(t, nkv, d);
    for (size_t p = 0; p < position + n; p++)
        for (size_t h = 0; h < nkv; h++)
            for (size_t i = 0; i < d; i++) {
                put(c.l.k, t, at(&c, p, h) + i, (float)(3 * uniform()));
                put(c.l.v, t, at(&c, p, h) + i, (float)uniform());
            }
    float *q = randoms((size_t)n * nq * d, 3), *out = randoms((size_t)n * nq * d, 0),
          *alone = randoms((size_t)n * nq * d, 0);
    double *scratch = malloc(qn_attention_scratch(d, nq / nkv) * sizeof *scratch);
    for (uint32_t h = 0; h < nkv; h++) {
        qn_attention_args a = {out, q, page_table, position, n, nq, h, 0.3f, scratch};
        k.attention(&a, &c.l);
        for (uint32_t r = 0; r < n; r++) {
            qn_attention_args one = {alone + (size_t)r * nq * d,
                                     q + (size_t)r * nq * d,
                                     page_table,
                                     position + r,
                                     1,
                                     nq,
                                     h,
                                     0.3f,
                                     scratch};
            k.attention(&one, &c.l);
        }
    }
    assert_memory_equal(out, alone,
                        (size_t)n * nq * d * sizeof *out); /* a row alone or in a tile: the same bits */
    for (size_t r = 0; r < n; r++)
        for (size_t h = 0; h < nq; h++) {
            size_t seen = position + r + 1, kvh = h / (nq / nkv);
            double *s = malloc(seen * sizeof *s), top = -INFINITY, total = 0;
            for (size_t p = 0; p < seen; p++) {
                s[p] = 0;
                for (size_t i = 0; i < d; i++)
                    s[p] += (double)q[(r * nq + h) * d + i] * (double)get(c.l.k, t, at(&c, p, kvh) + i);
                s[p] *= (double)0.3f;
                top = fmax(top, s[p]);
            }
            for (size_t p = 0; p < seen; p++) total += exp(s[p] - top);
            for (size_t i = 0; i < d; i++) {
                double want = 0;
                for (size_t p = 0; p < seen; p++)
                    want += exp(s[p] - top) / total * (double)get(c.l.v, t, at(&c, p, kvh) + i);
                near(out[(r * nq + h) * d + i], want, 100, "attention", (r * nq + h) * d + i);
            }
            free(s);
        }
    free(q), free(out), free(alone), free(scratch), free(c.l.k), free(c.l.v);
}

static void attention_is_a_softmax_over_the_pages(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        qn_dtype f = t ? QN_DTYPE_F16 : QN_DTYPE_F32;
        attention_case(f, 0, 1, 16);
        attention_case(f, 0, 32, 5);
        attention_case(f, 50, 31, 24); /* rows on both sides of a page's end */
        attention_case(f, 63, 2, 16);
        attention_case(f, 290, 29, 17);
    }
}

/* ---- convolution ---- */

static void convolution_case(size_t n, size_t dim, size_t taps)
{
    float *u = randoms(n * dim, 2), *w = randoms(dim * taps, 1), *first = randoms((taps - 1) * dim, 2),
          *y = malloc((n * dim + 1) * sizeof *y);
    float *s1 = copy_of(first, (taps - 1) * dim * 4), *s2 = copy_of(first, (taps - 1) * dim * 4),
          *y2 = copy_of(u, n * dim * 4);
    k.conv_silu(y, u, w, s1, n, dim, taps, 0, dim / 2);
    k.conv_silu(y, u, w, s1, n, dim, taps, dim / 2, dim);
    for (size_t t = 0; t < n; t++)
        for (size_t c = 0; c < dim; c++) {
            float sum = 0; /* f32, oldest first, is the definition */
            for (size_t j = 0; j < taps; j++) {
                size_t i = t + j; /* in the state followed by u */
                sum += w[c * taps + j] * (i < taps - 1 ? first[i * dim + c] : u[(i - (taps - 1)) * dim + c]);
            }
            near(y[t * dim + c], (double)sum * sigm((double)sum), 10, "conv", t * dim + c);
        }
    for (size_t j = 0; j + 1 < taps; j++)
        for (size_t c = 0; c < dim; c++) {
            size_t i = n + j;
            assert_true(s1[j * dim + c] ==
                        (i < taps - 1 ? first[i * dim + c] : u[(i - (taps - 1)) * dim + c]));
        }
    for (size_t t = 0; t < n; t++)
        k.conv_silu(y2 + t * dim, y2 + t * dim, w, s2, 1, dim, taps, 0, dim); /* one by one, in place */
    assert_memory_equal(y, y2, n * dim * 4);
    assert_memory_equal(s1, s2, (taps - 1) * dim * 4);
    free(u), free(w), free(first), free(y), free(s1), free(s2), free(y2);
}

static void convolution_walks_over_its_state(void **state)
{
    (void)state;
    static const size_t ns[] = {0, 1, 2, 3, 4, 70}, dims[] = {1, 63, 64, 130}, taps[] = {1, 2, 4, 5};
    for (int i = 0; i < 6; i++)
        for (int d = 0; d < 4; d++)
            for (int j = 0; j < 4; j++) convolution_case(ns[i], dims[d], taps[j]);
}

/* ---- the gated delta rule ---- */

typedef struct gdn {
    qn_gdn_args a;
    size_t n, width, n_state;
    float *qkv, *g, *beta, *state0;
} gdn;

static gdn make_gdn(size_t n, uint32_t nk, uint32_t nv, uint32_t dk, uint32_t dv, double decay)
{
    gdn s = {.n = n, .width = 2 * nk * dk + nv * dv, .n_state = (size_t)nv * dv * dk};
    s.qkv = randoms(n * s.width, 1);
    s.g = randoms(n * nv, decay);
    s.beta = randoms(n * nv, 1);
    for (size_t i = 0; i < n * nv; i++) s.g[i] = -fabsf(s.g[i]), s.beta[i] = fabsf(s.beta[i]);
    s.state0 = randoms(s.n_state, 0.5);
    s.a = (qn_gdn_args){.n_k = nk,
                        .n_v = nv,
                        .dk = dk,
                        .dv = dv,
                        .rule = QN_HEADS_GROUPED,
                        .l2_eps = 1e-6f,
                        .scale = (float)(1 / sqrt(dk))};
    return s;
}

static void free_gdn(gdn *s)
{
    free(s->qkv), free(s->g), free(s->beta), free(s->state0);
}

/* All heads over rows first .. first+n-1, from and to `state`. */
static void run_gdn(const gdn *s, bool chunk, float *out, float *state, size_t first, size_t n)
{
    qn_gdn_args a = s->a;
    double *scratch = malloc(qn_gdn_scratch(a.dk, a.dv) * sizeof *scratch);
    a.scratch = scratch;
    a.out = out + first * a.n_v * a.dv;
    a.qkv = s->qkv + first * s->width;
    a.g = s->g + first * a.n_v;
    a.beta = s->beta + first * a.n_v;
    a.state = state;
    a.n_rows = (uint32_t)n;
    for (a.head = 0; a.head < a.n_v; a.head++) chunk ? k.gdn_chunk(&a) : k.gdn_step(&a);
    free(scratch);
}

/* R1 to R5 as written, S as [dk][dv], all in f64. */
static void naive_gdn(const gdn *s, double *out, double *state)
{
    const qn_gdn_args *a = &s->a;
    size_t dk = a->dk, dv = a->dv;
    double *S = malloc(dk * dv * sizeof *S), q[64], kk[64], e[64];
    for (size_t j = 0; j < a->n_v; j++) {
        size_t kh = a->rule == QN_HEADS_TILED ? j % a->n_k : j / (a->n_v / a->n_k);
        for (size_t c = 0; c < dk; c++)
            for (size_t v = 0; v < dv; v++) S[c * dv + v] = (double)s->state0[(j * dv + v) * dk + c];
        for (size_t t = 0; t < s->n; t++) {
            const float *row = s->qkv + t * s->width;
            double nq = 0, nk = 0;
            for (size_t c = 0; c < dk; c++) {
                q[c] = (double)row[kh * dk + c], kk[c] = (double)row[(a->n_k + kh) * dk + c];
                nq += q[c] * q[c], nk += kk[c] * kk[c];
            }
            for (size_t c = 0; c < dk; c++)
                q[c] *= (double)a->scale / sqrt(nq + (double)a->l2_eps),
                    kk[c] /= sqrt(nk + (double)a->l2_eps);
            double g = exp((double)s->g[t * a->n_v + j]), beta = (double)s->beta[t * a->n_v + j];
            for (size_t i = 0; i < dk * dv; i++) S[i] *= g;
            for (size_t v = 0; v < dv; v++) {
                double m = 0;
                for (size_t c = 0; c < dk; c++) m += S[c * dv + v] * kk[c];
                e[v] = beta * ((double)row[2 * a->n_k * dk + j * dv + v] - m);
            }
            for (size_t c = 0; c < dk; c++)
                for (size_t v = 0; v < dv; v++) S[c * dv + v] += kk[c] * e[v];
            for (size_t v = 0; v < dv; v++) {
                double o = 0;
                for (size_t c = 0; c < dk; c++) o += S[c * dv + v] * q[c];
                out[(t * a->n_v + j) * dv + v] = o;
            }
        }
        for (size_t c = 0; c < dk; c++)
            for (size_t v = 0; v < dv; v++) state[(j * dv + v) * dk + c] = S[c * dv + v];
    }
    free(S);
}

/* The state is rounded to f32 after each token or chunk; an error that entered fades with the decay and is
 * not amplified (|I - beta k k^T| <= 1), so it stays below one rounding (2^-24) per token of the largest
 * value met. */
static void gdn_case(size_t n, uint32_t nk, uint32_t nv, uint32_t dk, uint32_t dv, double decay,
                     qn_head_rule rule)
{
    gdn s = make_gdn(n, nk, nv, dk, dv, decay);
    s.a.rule = rule;
    size_t n_out = n * nv * dv;
    double *want = malloc((n_out + 1) * sizeof *want), *end = malloc(s.n_state * sizeof *end);
    float *out[2], *state[2];
    naive_gdn(&s, want, end);
    for (int chunk = 0; chunk < 2; chunk++) {
        out[chunk] = randoms(n_out, 0);
        state[chunk] = copy_of(s.state0, s.n_state * sizeof(float));
        run_gdn(&s, chunk, out[chunk], state[chunk], 0, n);
        double steps = chunk ? (double)(n / QN_GRID + 1) : (double)n, bound = 0x1p-24 * 2 * (1 + steps) * 2;
        for (size_t i = 0; i < n_out; i++)
            if (!(fabs((double)out[chunk][i] - want[i]) <= bound))
                fail_msg("%s out %zu: %.9g, want %.9g", chunk ? "chunk" : "step", i, (double)out[chunk][i],
                         want[i]);
        for (size_t i = 0; i < s.n_state; i++)
            if (!(fabs((double)state[chunk][i] - end[i]) <= bound))
                fail_msg("%s state %zu: %.9g, want %.9g", chunk ? "chunk" : "step", i,
                         (double)state[chunk][i], end[i]);
    }
    /* In pieces: any for the steps, on the grid for the chunks. The bits are the same. */
    for (int chunk = 0; chunk < 2; chunk++) {
        float *o = randoms(n_out, 0), *st = copy_of(s.state0, s.n_state * sizeof(float));
        size_t piece = chunk ? QN_GRID : 5;
        for (size_t t = 0; t < n; t += piece) run_gdn(&s, chunk, o, st, t, n - t < piece ? n - t : piece);
        assert_memory_equal(o, out[chunk], n_out * sizeof *o);
        assert_memory_equal(st, state[chunk], s.n_state * sizeof *st);
        free(o), free(st), free(out[chunk]), free(state[chunk]);
    }
    free(want), free(end);
    free_gdn(&s);
}

static void delta_rule_by_steps_and_by_chunks(void **state)
{
    (void)state;
    gdn_case(203, 2, 4, 16, 24, 2, QN_HEADS_GROUPED);
    gdn_case(203, 2, 4, 17, 13, 0.02, QN_HEADS_GROUPED); /* weak decay, odd heads */
    gdn_case(203, 2, 4, 8, 8, 90, QN_HEADS_TILED);       /* strong decay: nothing may overflow */
    gdn_case(1, 1, 1, 1, 1, 1, QN_HEADS_GROUPED);
    gdn_case(0, 1, 2, 4, 4, 1, QN_HEADS_GROUPED);
    gdn_case(64, 1, 3, 9, 16, 0, QN_HEADS_TILED); /* no decay at all */
    gdn_case(65, 3, 3, 16, 33, 1, QN_HEADS_GROUPED);
}

/* The tail of a prompt: a chunk cut short gives the rows of the long one. */
static void a_short_chunk_has_the_bits_of_a_long_one(void **state)
{
    (void)state;
    gdn s = make_gdn(64, 2, 2, 16, 16, 1);
    float *full = randoms(64 * 32, 0), *part = randoms(64 * 32, 0);
    float *st = copy_of(s.state0, s.n_state * sizeof *st);
    run_gdn(&s, true, full, st, 0, 64);
    for (size_t n = 1; n < 64; n += 9) {
        memcpy(st, s.state0, s.n_state * sizeof *st);
        run_gdn(&s, true, part, st, 0, n);
        assert_memory_equal(part, full, n * 32 * sizeof *part);
    }
    free(full), free(part), free(st);
    free_gdn(&s);
}

/* Value heads in tiled order are the grouped ones permuted: p -> j = (p mod Hk) r + p div Hk. */
static void tiled_heads_are_grouped_heads_in_another_order(void **state)
{
    (void)state;
    enum { N = 70, NK = 3, R = 2, NV = NK * R, D = 8 };
    for (int chunk = 0; chunk < 2; chunk++) {
        gdn a = make_gdn(N, NK, NV, D, D, 1), b = make_gdn(N, NK, NV, D, D, 1);
        b.a.rule = QN_HEADS_TILED;
        for (size_t p = 0; p < NV; p++) {
            size_t j = (p % NK) * R + p / NK;
            memcpy(b.state0 + p * D * D, a.state0 + j * D * D, D * D * sizeof(float));
            for (size_t t = 0; t < N; t++) {
                memcpy(b.qkv + t * b.width, a.qkv + t * a.width, 2 * NK * D * sizeof(float));
                memcpy(b.qkv + t * b.width + (2 * NK + p) * D, a.qkv + t * a.width + (2 * NK + j) * D,
                       D * sizeof(float));
                b.g[t * NV + p] = a.g[t * NV + j], b.beta[t * NV + p] = a.beta[t * NV + j];
            }
        }
        float *oa = randoms(N * NV * D, 0), *ob = randoms(N * NV * D, 0);
        run_gdn(&a, chunk, oa, a.state0, 0, N);
        run_gdn(&b, chunk, ob, b.state0, 0, N);
        for (size_t p = 0; p < NV; p++) {
            size_t j = (p % NK) * R + p / NK;
            assert_memory_equal(b.state0 + p * D * D, a.state0 + j * D * D, D * D * sizeof(float));
            for (size_t t = 0; t < N; t++)
                assert_memory_equal(ob + (t * NV + p) * D, oa + (t * NV + j) * D, D * sizeof(float));
        }
        free(oa), free(ob);
        free_gdn(&a), free_gdn(&b);
    }
}

static void zero_queries_and_keys_stay_finite(void **state)
{
    (void)state;
    gdn s = make_gdn(66, 1, 1, 8, 8, 1);
    for (size_t i = 0; i < s.n * s.width; i++) s.qkv[i] = 0;
    for (int chunk = 0; chunk < 2; chunk++) {
        float *o = randoms(66 * 8, 1), *st = copy_of(s.state0, s.n_state * sizeof(float));
        run_gdn(&s, chunk, o, st, 0, 66);
        for (size_t i = 0; i < 66 * 8; i++) assert_true(o[i] == 0);
        free(o), free(st);
    }
    free_gdn(&s);
}

/* ---- levels ---- */

static void levels_are_chosen_by_name(void **state)
{
    (void)state;
    qn_kernels x;
    qn_error err;
    assert_int_equal(qn_kernels_init(&x, "reference", &err), QN_OK);
    assert_string_equal(x.level, "reference");
    assert_int_equal(qn_kernels_init(&x, "best", &err), QN_OK);
    void *const *slot = (void *const *)&x;
    for (size_t i = 0; i < sizeof x / sizeof *slot; i++)
        assert_non_null(slot[i]); /* the reference fills every slot */
    assert_int_equal(qn_kernels_init(&x, "avx2", &err), QN_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "avx2"));
    assert_int_equal(qn_kernels_init(&x, "avx512", &err), QN_UNSUPPORTED);
    assert_int_equal(qn_kernels_init(&x, "fastest", &err), QN_USAGE);
    assert_non_null(strstr(err.msg, "fastest"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_matches_the_sum),
        cmocka_unit_test(embedding_rows_are_converted),
        cmocka_unit_test(rmsnorm_adds_then_divides),
        cmocka_unit_test(gated_rmsnorm_norms_each_head_then_gates),
        cmocka_unit_test(gates_follow_their_formulas),
        cmocka_unit_test(queries_and_keys_are_normed_rotated_and_kept),
        cmocka_unit_test(attention_is_a_softmax_over_the_pages),
        cmocka_unit_test(convolution_walks_over_its_state),
        cmocka_unit_test(delta_rule_by_steps_and_by_chunks),
        cmocka_unit_test(a_short_chunk_has_the_bits_of_a_long_one),
        cmocka_unit_test(tiled_heads_are_grouped_heads_in_another_order),
        cmocka_unit_test(zero_queries_and_keys_stay_finite),
        cmocka_unit_test(levels_are_chosen_by_name),
    };
    qn_kernels_init_reference(&k);
    return TEST_MAIN(tests);
}
