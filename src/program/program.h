/* program.h - the op set and the program: a flat list of ops over typed buffers for one model, one shape
 * bucket and one tensor-parallel rank.
 *
 * A device compiles a program once and replays it; between replays only the step inputs change. The plain C
 * references in device/cpu/ are the definition of every op; docs/program.md lists them. A program borrows the
 * network it was lowered from. Immutable after lowering: any thread. */
#ifndef QN_PROGRAM_PROGRAM_H
#define QN_PROGRAM_PROGRAM_H

#include "model/model.h"

#define QN_PAGE_TOKENS 64 /* tokens of one KV page */
#define QN_GRID        64 /* prefill chunks lie on multiples of this */
#define QN_MAX_RANGES  16
#define QN_NO_LAYER    UINT32_MAX

typedef enum qn_op_kind {
    QN_OP_EMBED,          /* out[r] = W[token[r]] */
    QN_OP_RMSNORM,        /* (in1 given: in0 += in1;) out = in0 / rms(in0) * (offset + w) */
    QN_OP_LINEAR,         /* out[r] = W in[r] */
    QN_OP_QK_ROPE_APPEND, /* in: q|gate per head, k, v; out: q normed and rotated; k, v go into the cache */
    QN_OP_ATTENTION,      /* in: q; out: softmax(q K^T scale) V over the cached positions 0..own */
    QN_OP_SIGMOID_GATE,   /* in: attention, q|gate; out: attention * sigmoid(gate) */
    QN_OP_CONV_SILU, /* causal depthwise convolution over the state and in, then SiLU; advances the state */
    QN_OP_GDN_GATES, /* in: a, b; out: g = decay * softplus(a + dt_bias), beta = sigmoid(b) */
    QN_OP_GDN_STEP,  /* the recurrence, token by token; in: q|k|v, g, beta; advances the state */
    QN_OP_GDN_CHUNK, /* the same in chunks of 64 on the grid */
    QN_OP_GATED_RMSNORM, /* per value head: out = w * in0 / rms(in0) * act(in1) */
    QN_OP_SILU_MUL,      /* out = silu(in0) * in1 */
    QN_OP_ALL_REDUCE,    /* in0 = sum over ranks of in0, ranks added in order */
    QN_OP_ALL_GATHER,    /* out: the ranks' columns side by side */
    QN_OP_ROW_GATHER,    /* out[i] = in0[logit_rows[i]] */
    QN_OP_KEEP_HIDDEN,   /* kept[hidden_rows[r]] = in0[r]; without hidden_rows kept[r] = in0[r] */
    QN_OP_MTP_INPUT,     /* out = [norm(in0) ; norm(kept[hidden_rows[r]])] */
    QN_OP_LOGITS,        /* out[i] = W in0[i] for the gathered rows */
    QN_OP_COUNT
} qn_op_kind;
const char *qn_op_name(qn_op_kind k); /* "embed", "rmsnorm", ... */

typedef enum qn_rows { QN_ROWS_STEP, QN_ROWS_LOGITS } qn_rows; /* how many rows a buffer has in a step */

typedef struct qn_buffer {
    const char *name;
    qn_rows rows;
    uint32_t cols; /* f32 each */
} qn_buffer;

typedef struct qn_range {
    uint32_t first, count;
} qn_range;

/* A rank's part of a weight: the rows and columns of the listed ranges, in this order. */
typedef struct qn_weight_ref {
    qn_weight_id weight;
    uint32_t rows, cols; /* of the part */
    uint32_t n_row_ranges, n_col_ranges;
    qn_range row_ranges[QN_MAX_RANGES], col_ranges[QN_MAX_RANGES];
} qn_weight_ref;

#define QN_OP_MAX_IN      3
#define QN_OP_MAX_OUT     2
#define QN_OP_MAX_WEIGHTS 2

typedef struct qn_op {
    qn_op_kind kind;
    uint32_t layer; /* of the model, QN_NO_LAYER outside; the MTP layer is n_layers */
    uint32_t n_in, n_out, n_w;
    uint32_t in[QN_OP_MAX_IN], out[QN_OP_MAX_OUT]; /* buffer indices */
    uint32_t w[QN_OP_MAX_WEIGHTS];                 /* indices into qn_program.weights */
    /* attributes; unused ones are 0 */
    uint32_t state; /* index of the KV layer (attention) or of the GDN layer (conv, gdn) */
    uint32_t n_q, n_kv, head_dim, rotary_dim;
    uint32_t n_k, n_v, dk, dv; /* GDN heads of this rank */
    uint32_t kernel;           /* taps */
    float eps, offset, scale;
    qn_head_rule head_rule;
    qn_gate_act gate_act;
    bool decay_is_log;
} qn_op;

typedef enum qn_bucket_kind {
    QN_BUCKET_DECODE,
    QN_BUCKET_VERIFY,
    QN_BUCKET_PREFILL,
    QN_BUCKET_DRAFT
} qn_bucket_kind;

typedef struct qn_bucket {
    qn_bucket_kind kind;
    uint32_t rows; /* at most this many rows a step */
} qn_bucket;

/* What a rank keeps between steps: the KV cache's layers and the recurrent states' shapes. */
typedef struct qn_state_desc {
    uint32_t n_kv_layers; /* attention layers, plus the MTP layer when has_mtp (the last one) */
    uint32_t n_kv, head_dim;
    uint32_t n_gdn_layers, n_v, dk, dv; /* state: [n_v][dv][dk] f32 per layer (S transposed: rows are v) */
    uint32_t conv_dim, conv_kernel;     /* conv state: [kernel-1][conv_dim] f32 per layer, oldest first */
    uint32_t hidden;                    /* columns of the kept hidden vectors; 0: none kept */
} qn_state_desc;

/* The state of one of n_ranks ranks; the heads must divide. keep_hidden as in qn_program_lower. */
qn_state_desc qn_state_of(const qn_arch *a, uint32_t n_ranks, bool keep_hidden);

typedef struct qn_program {
    qn_bucket bucket;
    uint32_t rank, n_ranks;
    const qn_net *net;
    qn_buffer *buffers;
    uint32_t n_buffers;
    qn_weight_ref *weights;
    uint32_t n_weights;
    qn_op *ops;
    uint32_t n_ops;
    double *inv_freq; /* [rotary_dim/2] rotary frequencies, for QK_ROPE_APPEND; f32 would cost 5e-3 rad at
                         262,144 */
    uint32_t logits;  /* buffer of the logits: [logit rows][vocab] */
    qn_state_desc state;
} qn_program;

/* Lower the network for a bucket and a rank (0 <= rank < n_ranks). Draft buckets need arch.has_mtp.
 * keep_hidden: leave the final-norm vectors of every row for a draft program. QN_UNSUPPORTED when the heads
 * do not divide. */
qn_status qn_program_lower(qn_program **out, const qn_net *net, qn_bucket bucket, uint32_t rank,
                           uint32_t n_ranks, bool keep_hidden, qn_error *err) QN_CHECKED;
void qn_program_destroy(qn_program *p);

/* ---- step inputs
 * ------------------------------------------------------------------------------------------- */

/* Consecutive rows of a step that belong to one sequence. */
typedef struct qn_step_seq {
    uint32_t first_row, n_rows; /* rows first_row .. first_row+n_rows-1 are positions position .. */
    uint32_t position;          /* of the first row; a multiple of QN_GRID in a prefill bucket */
    uint32_t slot;              /* of the recurrent states */
    const uint32_t
        *pages; /* page of positions [64 i, 64 i + 63]; covers every position up to the last row's */
    uint32_t n_pages;
} qn_step_seq;

/* The only thing that changes between replays of a trace. */
typedef struct qn_step_inputs {
    uint32_t n_rows;       /* live rows, 1 .. bucket.rows */
    const int32_t *tokens; /* [n_rows], each 0 .. vocab-1 */
    uint32_t n_seqs;
    const qn_step_seq *seqs; /* in order, covering all rows */
    uint32_t n_logit_rows;
    const uint32_t *logit_rows;  /* [n_logit_rows] rows that want logits */
    const uint32_t *hidden_rows; /* [n_rows] draft only: which kept hidden vector each row reads */
} qn_step_inputs;

/* ---- costs and printing
 * ------------------------------------------------------------------------------------ */

typedef struct qn_op_cost {
    uint64_t weight_bytes; /* read once per step */
    uint64_t state_bytes;  /* recurrent state read and written, KV read and appended */
    uint64_t act_bytes;    /* activations read and written */
    uint64_t operations;   /* 2 x weights x rows for linears; each product once */
} qn_op_cost;

/* Cost of op i for n_rows live rows at depth cached positions per row; kv_bytes: bytes of one cached value.
 */
qn_op_cost qn_program_cost(const qn_program *p, uint32_t i, uint32_t n_rows, uint64_t depth,
                           uint32_t kv_bytes);

/* The program as text (one op a line) and as JSON (docs/program.md). */
struct qn_buf;
qn_status qn_program_print(const qn_program *p, struct qn_buf *out, qn_error *err) QN_CHECKED;
json_t *qn_program_json(const qn_program *p); /* new reference, NULL without memory */

#endif
