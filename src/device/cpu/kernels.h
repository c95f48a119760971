/* kernels.h - the CPU's kernels: a table with one function per op, filled once when a device is opened.
 *
 * The plain C references (ref_*.c) fill every slot and are the definition of the ops; instruction sets
 * overwrite the slots they do better. Call sites see one name and no #ifdef.
 *
 * What holds for every kernel unless it says otherwise: activations and states are f32, row-major, without
 * gaps; sums are f64 in an order that depends only on the output's own row and on the length of the sum,
 * never on how many rows are computed together; each output is rounded to f32 once. A kernel cannot fail,
 * allocates nothing, writes only what it says, and may run on any thread; calls that write different things
 * may run at the same time. */
#ifndef QN_DEVICE_CPU_KERNELS_H
#define QN_DEVICE_CPU_KERNELS_H

#include "base/status.h"
#include "formats/dtype.h"
#include "program/program.h"

#define QN_LANES          16  /* output rows of one weight panel */
#define QN_MAX_HEAD_DIM   512 /* of attention and GDN heads: bounds the kernels' stack and scratch */
#define QN_MAX_TAPS       16  /* of the convolution */
#define QN_LINEAR_ROWS    64  /* activation rows that share one decoding of a weight panel */
#define QN_ATTENTION_ROWS 32  /* query rows that share one decoding of a KV block */

/* A matrix [rows][cols] in panels of QN_LANES output rows: [ceil(rows/16)][cols][16], the last panel
 * zero-padded. The elements keep the checkpoint's format (F32, F16 or BF16). data: 64-byte aligned. */
typedef struct qn_panels {
    qn_dtype format;
    uint32_t rows, cols;
    const void *data;
} qn_panels;

/* One layer of the KV cache: k and v are [page][QN_PAGE_TOKENS][n_kv][head_dim] in `format`. */
typedef struct qn_kv_layer {
    void *k, *v;
    qn_dtype format; /* F16 or F32 */
    uint32_t n_kv, head_dim;
} qn_kv_layer;

typedef struct qn_rope_args {
    float *q_out;                 /* [rows][n_q*head_dim] */
    const float *q_gate;          /* [rows][n_q][2*head_dim]: per head query, then gate */
    const float *k, *v;           /* [rows][n_kv*head_dim] */
    const float *q_norm, *k_norm; /* [head_dim] */
    const double *inv_freq;       /* [rotary_dim/2] */
    const uint32_t *pages;        /* of the sequence */
    uint32_t position;            /* of the first row */
    uint32_t n_q, rotary_dim;
    float eps, offset;
} qn_rope_args;

typedef struct qn_attention_args {
    float *out;     /* [rows][n_q*head_dim] */
    const float *q; /* [rows][n_q*head_dim], normed and rotated */
    const uint32_t *pages;
    uint32_t position; /* of the first row; row r sees positions 0 .. position + r */
    uint32_t n_rows;   /* 1 .. QN_ATTENTION_ROWS */
    uint32_t n_q;
    uint32_t kv_head; /* the n_q / n_kv query heads of this one are computed */
    float scale;
    double *scratch; /* qn_attention_scratch() doubles */
} qn_attention_args;

typedef struct qn_gdn_args {
    float *out;       /* [rows][n_v*dv] */
    const float *qkv; /* [rows][2*n_k*dk + n_v*dv]: q heads, k heads, v heads, after convolution and SiLU */
    const float *g, *beta; /* [rows][n_v] */
    float *state;          /* [n_v][dv][dk]: S transposed; advanced by n_rows tokens */
    uint32_t n_rows;
    uint32_t head; /* the value head to compute; the others' states and outputs are not touched */
    uint32_t n_k, n_v, dk, dv;
    qn_head_rule rule;
    float l2_eps, scale; /* scale: of the normalised query */
    double *scratch;     /* gdn_chunk only: qn_gdn_scratch() doubles */
} qn_gdn_args;

typedef struct qn_kernels {
    const char *level; /* "reference" */

    /* y[r][o] = sum_k x[r][k] * W[o][k], k in order, products exact in f64.
     * y: [n_rows][w->rows], x: [n_rows][w->cols]; only the outputs of panels panel .. panel+n_panels-1 are
     * written. */
    void (*linear)(float *y, const float *x, const qn_panels *w, size_t n_rows, size_t panel,
                   size_t n_panels);

    /* y[r] = table[tokens[r]], converted. table: rows of dim elements of type t, any alignment. */
    void (*embed)(float *y, const void *table, qn_dtype t, const int32_t *tokens, size_t n_rows, size_t dim);

    /* x[r] += add[r] unless add is NULL; then y[r][i] = x[r][i] / sqrt(mean_j x[r][j]^2 + eps) * (offset +
     * w[i]). y, x, add: [n_rows][dim]; y may be x. The row stride of y is y_stride >= dim. Source:
     * docs/models/qwen35.md, N1. */
    void (*rmsnorm)(float *y, size_t y_stride, float *x, const float *add, const float *w, size_t n_rows,
                    size_t dim, float eps, float offset);

    /* y[r][j][i] = w[i] * x / sqrt(mean_i x^2 + eps) * act(z), means over the dv values of one head.
     * y, x, z: [n_rows][n_v][dv]; y may be x. Source: N2. */
    void (*gated_rmsnorm)(float *y, const float *x, const float *z, const float *w, size_t n_rows, size_t n_v,
                          size_t dv, float eps, qn_gate_act act);

    /* Queries and keys: N1 over head_dim, then rotation of pairs (i, i + rotary_dim/2) by position *
     * inv_freq[i] (in f64). Queries go to q_out; keys and values are rounded to the cache's format and
     * written at their positions. */
    void (*qk_rope_append)(const qn_rope_args *a, const qn_kv_layer *kv, size_t n_rows);

    /* out = softmax(scale * q K^T) V over the cached positions up to the row's own, in blocks of
     * QN_PAGE_TOKENS merged in order; keys and values are read through the cache's format only. */
    void (*attention)(const qn_attention_args *a, const qn_kv_layer *kv);

    /* y[r][a][i] = x[r][a][i] * sigmoid(q_gate[r][a][head_dim + i]). y may be x. */
    void (*sigmoid_gate)(float *y, const float *x, const float *q_gate, size_t n_rows, size_t n_q,
                         size_t head_dim);

    /* y[t][c] = silu(sum_j w[c][j] * u[t-taps+1+j][c]), j in order in f32, for the channels first .. last-1;
     * what lies before the first row comes from state [taps-1][dim] (raw inputs, oldest first), which then
     * holds the last taps-1 raw inputs. y may be u. u, y: [n_rows][dim]. w: [dim][taps], last tap = current
     * token. Source: docs/models/qwen35.md, 5.2. */
    void (*conv_silu)(float *y, const float *u, const float *w, float *state, size_t n_rows, size_t dim,
                      size_t taps, size_t first, size_t last);

    /* g = decay * softplus(a + dt_bias), decay = -exp(A) when decay_is_log, else A; softplus(x) = x for x
     * > 20. beta = sigmoid(b). All [n_rows][n_v]; A, dt_bias [n_v]. g may be a, beta may be b. Source: 5.3.
     */
    void (*gdn_gates)(float *g, float *beta, const float *a, const float *b, const float *decay,
                      const float *dt_bias, size_t n_rows, size_t n_v, bool decay_is_log);

    /* The gated delta rule for one value head, token by token (5.5) or in chunks of QN_GRID rows that begin
     * at the first row (5.6). The state is rounded to f32 after every token, or every chunk. */
    void (*gdn_step)(const qn_gdn_args *a);
    void (*gdn_chunk)(const qn_gdn_args *a);

    /* y[i] = silu(gate[i]) * up[i]; y may be gate or up. */
    void (*silu_mul)(float *y, const float *gate, const float *up, size_t n);
} qn_kernels;

/* Doubles of scratch that one call needs. */
size_t qn_attention_scratch(uint32_t head_dim, uint32_t heads_per_kv);
size_t qn_gdn_scratch(uint32_t dk, uint32_t dv);

/* Fill the table for a level: "reference", or "best" of this machine. Levels that are known but not in this
 * build
 * ("avx2", "avx512") are QN_UNSUPPORTED by name, anything else is QN_USAGE with the list. */
qn_status qn_kernels_init(qn_kernels *k, const char *level, qn_error *err) QN_CHECKED;

void qn_kernels_init_reference(qn_kernels *k); /* every slot */

#endif
