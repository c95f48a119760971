/* executor.c - replaying a trace: the ops in order, each spread over the pool.
 *
 * How an op is cut into blocks for the threads changes only who computes what: every output value comes from
 * one call of a kernel whose result does not depend on the cut. Nothing is allocated here. */
#include "base/size.h"
#include "device/cpu/cpu_int.h"

/* What the blocks of one op read. */
typedef struct work {
    qn_trace *t;
    const qn_cpu_op *c;
    const qn_step_inputs *in;
    size_t n_rows;  /* live rows of the op */
    size_t per_seq; /* blocks of one sequence, tile or row group; which depends on the op */
    size_t n_tiles;
} work;

/* Values that make a block worth handing to another thread: a few microseconds of the cheap ops. */
#define GRAIN 8192

static size_t rows_per_block(size_t cols)
{
    return cols >= GRAIN ? 1 : GRAIN / cols;
}

static void run_embed(void *ctx, size_t first, size_t last)
{
    const work *w = ctx;
    const qn_cpu_weight *table = w->c->w[0];
    size_t dim = w->c->out_cols[0];
    w->t->cpu->kernels.embed(w->c->out[0] + first * dim, table->data, table->layout.format,
                             w->in->tokens + first, last - first, dim);
}

static void run_rmsnorm(void *ctx, size_t first, size_t last)
{
    const work *w = ctx;
    const qn_op *o = w->c->op;
    size_t dim = w->c->in_cols[0];
    w->t->cpu->kernels.rmsnorm(w->c->out[0] + first * dim, dim, w->c->in[0] + first * dim,
                               o->n_in == 2 ? w->c->in[1] + first * dim : NULL, w->c->w[0]->data,
                               last - first, dim, o->eps, o->offset);
}

/* Item = row group * panels + panel: one panel times up to QN_LINEAR_ROWS rows. */
static void run_linear(void *ctx, size_t first, size_t last)
{
    const work *w = ctx;
    const qn_panels *m = &w->c->w[0]->panels;
    size_t n_panels = w->per_seq;
    while (first < last) { /* neighbouring panels of one row group in one call */
        size_t row = first / n_panels * QN_LINEAR_ROWS, panel = first % n_panels;
        size_t n = last - first < n_panels - panel ? last - first : n_panels - panel;
        size_t rows = w->n_rows - row < QN_LINEAR_ROWS ? w->n_rows - row : QN_LINEAR_ROWS;
        w->t->cpu->kernels.linear(w->c->out[0] + row * m->rows, w->c->in[0] + row * m->cols, m, rows, panel,
                                  n);
        first += n;
    }
}

static void run_rope(void *ctx, size_t first, size_t last)
{
    const work *w = ctx;
    const qn_cpu_op *c = w->c;
    while (first < last) {
        const qn_step_seq *s = &w->in->seqs[w->t->row_seq[first]];
        size_t end = s->first_row + s->n_rows < last ? s->first_row + s->n_rows : last;
        qn_rope_args a = {.q_out = c->out[0] + first * c->out_cols[0],
                          .q_gate = c->in[0] + first * c->in_cols[0],
                          .k = c->in[1] + first * c->in_cols[1],
                          .v = c->in[2] + first * c->in_cols[2],
                          .q_norm = c->w[0]->data,
                          .k_norm = c->w[1]->data,
                          .inv_freq = w->t->inv_freq,
                          .pages = s->pages,
                          .position = s->position + (uint32_t)(first - s->first_row),
                          .n_q = c->op->n_q,
                          .rotary_dim = c->op->rotary_dim,
                          .eps = c->op->eps,
                          .offset = c->op->offset};
        w->t->cpu->kernels.qk_rope_append(&a, &c->kv, end - first);
        first = end;
    }
}

static double *scratch_of(const qn_trace *t)
{
    return t->scratch + qn_pool_worker() * t->scratch_size;
}

/* Item = tile * n_kv + kv head. */
static void run_attention(void *ctx, size_t first, size_t last)
{
    const work *w = ctx;
    const qn_cpu_op *c = w->c;
    for (size_t i = first; i < last; i++) {
        size_t tile = i / c->op->n_kv, row = w->t->tiles[tile];
        const qn_step_seq *s = &w->in->seqs[w->t->row_seq[row]];
        qn_attention_args a = {.out = c->out[0] + row * c->out_cols[0],
                               .q = c->in[0] + row * c->in_cols[0],
                               .pages = s->pages,
                               .position = s->position + (uint32_t)(row - s->first_row),
                               .n_rows = w->t->tiles[tile + 1] - (uint32_t)row,
                               .n_q = c->op->n_q,
                               .kv_head = (uint32_t)(i % c->op->n_kv),
                               .scale = c->op->scale,
                               .scratch = scratch_of(w->t)};
        w->t->cpu->kernels.attention(&a, &c->kv);
    }
}

static void run_sigmoid_gate(void *ctx, size_t first, size_t last)
{
    const work *w = ctx;
    const qn_cpu_op *c = w->c;
    w->t->cpu->kernels.sigmoid_gate(c->out[0] + first * c->out_cols[0], c->in[0] + first * c->in_cols[0],
                                    c->in[1] + first * c->in_cols[1], last - first, c->op->n_q,
                                    c->op->head_dim);
}

#define CONV_CHANNELS 64

/* Item = sequence * channel groups + channel group. */
static void run_conv(void *ctx, size_t first, size_t last)
{
    const work *w = ctx;
    const qn_cpu_op *c = w->c;
    size_t dim = c->in_cols[0];
    for (size_t i = first; i < last; i++) {
        const qn_step_seq *s = &w->in->seqs[i / w->per_seq];
        size_t channel = i % w->per_seq * CONV_CHANNELS,
               end = channel + CONV_CHANNELS < dim ? channel + CONV_CHANNELS : dim;
        w->t->cpu->kernels.conv_silu(c->out[0] + s->first_row * dim, c->in[0] + s->first_row * dim,
                                     c->w[0]->data,
                                     qn_cpu_conv_state(&w->t->cpu->memory, s->slot, c->op->state), s->n_rows,
                                     dim, c->op->kernel, channel, end);
    }
}

static void run_gdn_gates(void *ctx, size_t first, size_t last)
{
    const work *w = ctx;
    const qn_cpu_op *c = w->c;
    size_t n = c->op->n_v;
    w->t->cpu->kernels.gdn_gates(c->out[0] + first * n, c->out[1] + first * n, c->in[0] + first * n,
                                 c->in[1] + first * n, c->w[0]->data, c->w[1]->data, last - first, n,
                                 c->op->decay_is_log);
}

/* Item = sequence * n_v + value head. */
static void run_gdn(void *ctx, size_t first, size_t last)
{
    const work *w = ctx;
    const qn_cpu_op *c = w->c;
    const qn_op *o = c->op;
    for (size_t i = first; i < last; i++) {
        const qn_step_seq *s = &w->in->seqs[i / o->n_v];
        size_t row = s->first_row;
        qn_gdn_args a = {.out = c->out[0] + row * c->out_cols[0],
                         .qkv = c->in[0] + row * c->in_cols[0],
                         .g = c->in[1] + row * o->n_v,
                         .beta = c->in[2] + row * o->n_v,
                         .state = qn_cpu_gdn_state(&w->t->cpu->memory, s->slot, o->state),
                         .n_rows = s->n_rows,
                         .head = (uint32_t)(i % o->n_v),
                         .n_k = o->n_k,
                         .n_v = o->n_v,
                         .dk = o->dk,
                         .dv = o->dv,
                         .rule = o->head_rule,
                         .l2_eps = o->eps,
                         .scale = o->scale,
                         .scratch = scratch_of(w->t)};
        if (o->kind == QN_OP_GDN_CHUNK)
            w->t->cpu->kernels.gdn_chunk(&a);
        else
            w->t->cpu->kernels.gdn_step(&a);
    }
}

static void run_gated_rmsnorm(void *ctx, size_t first, size_t last)
{
    const work *w = ctx;
    const qn_cpu_op *c = w->c;
    size_t cols = c->in_cols[0];
    w->t->cpu->kernels.gated_rmsnorm(c->out[0] + first * cols, c->in[0] + first * cols,
                                     c->in[1] + first * cols, c->w[0]->data, last - first, c->op->n_v,
                                     c->op->dv, c->op->eps, c->op->gate_act);
}

static void run_silu_mul(void *ctx, size_t first, size_t last)
{
    const work *w = ctx;
    size_t cols = w->c->in_cols[0];
    w->t->cpu->kernels.silu_mul(w->c->out[0] + first * cols, w->c->in[0] + first * cols,
                                w->c->in[1] + first * cols, (last - first) * cols);
}

/* A draft puts its vectors where it read those of the step before, so that other sequences' ones stay. */
static void keep_hidden(const work *w, size_t n, size_t cols)
{
    float *kept = w->t->cpu->memory.hidden;
    for (size_t r = 0; r < n; r++)
        memcpy(kept + (w->in->hidden_rows ? w->in->hidden_rows[r] : r) * cols, w->c->in[0] + r * cols,
               cols * sizeof *kept);
}

static void run_mtp_input(void *ctx, size_t first, size_t last)
{
    const work *w = ctx;
    const qn_cpu_op *c = w->c;
    const qn_kernels *k = &w->t->cpu->kernels;
    size_t dim = c->in_cols[0];
    for (size_t r = first; r < last; r++) {
        float *out = c->out[0] + r * 2 * dim;
        float *kept = w->t->cpu->memory.hidden + w->in->hidden_rows[r] * dim;
        k->rmsnorm(out, 2 * dim, c->in[0] + r * dim, NULL, c->w[0]->data, 1, dim, c->op->eps, c->op->offset);
        k->rmsnorm(out + dim, 2 * dim, kept, NULL, c->w[1]->data, 1, dim, c->op->eps, c->op->offset);
    }
}

static void spread(work *w, size_t n, size_t block, qn_pool_fn fn)
{
    qn_pool_run(w->t->cpu->pool, n, block, fn, w);
}

static void run_op(work *w)
{
    const qn_cpu_op *c = w->c;
    const qn_op *o = c->op;
    const qn_step_inputs *in = w->in;
    bool step = w->t->program->buffers[o->n_in ? o->in[0] : o->out[0]].rows == QN_ROWS_STEP;
    size_t n = w->n_rows = step ? in->n_rows : in->n_logit_rows, cols = c->in_cols[0];

    if (n == 0) return;
    switch (o->kind) {
    case QN_OP_EMBED: spread(w, n, rows_per_block(c->out_cols[0]), run_embed); break;
    case QN_OP_RMSNORM: spread(w, n, rows_per_block(cols), run_rmsnorm); break;
    case QN_OP_LINEAR:
    case QN_OP_LOGITS: {
        const qn_panels *m = &c->w[0]->panels;
        w->per_seq = qn_ceil_div(m->rows, QN_LANES);
        /* About 32,768 products to a block: some ten microseconds. */
        size_t item = (n < QN_LINEAR_ROWS ? n : QN_LINEAR_ROWS) * m->cols * QN_LANES;
        spread(w, w->per_seq * qn_ceil_div(n, QN_LINEAR_ROWS), item >= 32768 ? 1 : 32768 / item, run_linear);
        break;
    }
    case QN_OP_QK_ROPE_APPEND: spread(w, n, rows_per_block(4 * cols), run_rope); break;
    case QN_OP_ATTENTION: spread(w, w->n_tiles * o->n_kv, 1, run_attention); break;
    case QN_OP_SIGMOID_GATE: spread(w, n, rows_per_block(4 * cols), run_sigmoid_gate); break;
    case QN_OP_CONV_SILU:
        w->per_seq = qn_ceil_div(cols, CONV_CHANNELS);
        spread(w, in->n_seqs * w->per_seq, rows_per_block(4 * CONV_CHANNELS * qn_ceil_div(n, in->n_seqs)),
               run_conv);
        break;
    case QN_OP_GDN_GATES: spread(w, n, rows_per_block(8 * cols), run_gdn_gates); break;
    case QN_OP_GDN_STEP:
    case QN_OP_GDN_CHUNK: spread(w, (size_t)in->n_seqs * o->n_v, 1, run_gdn); break;
    case QN_OP_GATED_RMSNORM: spread(w, n, rows_per_block(4 * cols), run_gated_rmsnorm); break;
    case QN_OP_SILU_MUL: spread(w, n, rows_per_block(4 * cols), run_silu_mul); break;
    case QN_OP_MTP_INPUT: spread(w, n, rows_per_block(2 * cols), run_mtp_input); break;
    case QN_OP_ALL_REDUCE: /* one rank: the sum is there already */
    case QN_OP_ALL_GATHER:
        if (o->n_out && c->out[0] != c->in[0]) memcpy(c->out[0], c->in[0], n * cols * sizeof(float));
        break;
    case QN_OP_ROW_GATHER:
        for (uint32_t i = 0; i < in->n_logit_rows; i++)
            memcpy(c->out[0] + i * cols, c->in[0] + in->logit_rows[i] * cols, cols * sizeof(float));
        break;
    case QN_OP_KEEP_HIDDEN: keep_hidden(w, n, cols); break;
    case QN_OP_COUNT: break; /* refused by compile */
    }
}

qn_status qn_cpu_run(qn_trace *t, const qn_step_inputs *in, qn_step_result *out, qn_error *err)
{
    const qn_program *p = t->program;
    work w = {.t = t, .in = in};
    if (in->n_rows < 1 || in->n_rows > p->bucket.rows || in->n_logit_rows > p->bucket.rows)
        return qn_fail(err, QN_INTERNAL, "%u rows, %u of logits: the program holds %u", in->n_rows,
                       in->n_logit_rows, p->bucket.rows);
    for (uint32_t i = 0; i < in->n_seqs; i++) {
        const qn_step_seq *s = &in->seqs[i];
        for (uint32_t r = 0; r < s->n_rows; r++) {
            t->row_seq[s->first_row + r] = i;
            if (r % QN_ATTENTION_ROWS == 0) t->tiles[w.n_tiles++] = s->first_row + r;
        }
    }
    t->tiles[w.n_tiles] = in->n_rows;
    t->live_rows = in->n_rows;
    t->live_logit_rows = in->n_logit_rows;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        w.c = &t->ops[i];
        run_op(&w);
    }
    out->logits = t->buffers[p->logits];
    return QN_OK;
}
