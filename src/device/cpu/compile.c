/* compile.c - from a program to a trace: every op is checked against its buffers, weights and the reserved
 * memory, and everything it needs is looked up, so that a replay decides nothing and cannot step outside.
 *
 * What is refused here is a fault of the lowering, not of a user: QN_INTERNAL, naming the op. */
#include <stdlib.h>

#include "base/size.h"
#include "device/cpu/cpu_int.h"

/* Shape of one op as this device needs it: columns of inputs and outputs, rows and columns of weights. */
typedef struct shape {
    uint64_t in[QN_OP_MAX_IN], out[QN_OP_MAX_OUT];
    uint64_t w[QN_OP_MAX_WEIGHTS][2];
    uint32_t n_in, n_out, n_w;
} shape;

static uint64_t cols_in(const qn_program *p, const qn_op *o, uint32_t i)
{
    return i < o->n_in ? p->buffers[o->in[i]].cols : 0;
}
static uint64_t cols_out(const qn_program *p, const qn_op *o, uint32_t i)
{
    return i < o->n_out ? p->buffers[o->out[i]].cols : 0;
}

/* False for an op that this device does not know. */
static bool shape_of(const qn_program *p, const qn_op *o, shape *s)
{
    uint64_t q = (uint64_t)o->n_q * o->head_dim, kv = (uint64_t)o->n_kv * o->head_dim,
             v = (uint64_t)o->n_v * o->dv;
    uint64_t c = cols_in(p, o, 0), y = cols_out(p, o, 0);
    switch (o->kind) {
    case QN_OP_EMBED:
        *s = (shape){.out = {y}, .w = {{p->net->arch.vocab, y}}, .n_out = 1, .n_w = 1};
        return true;
    case QN_OP_RMSNORM:
        *s = (shape){
            .in = {c, c}, .out = {c}, .w = {{1, c}}, .n_in = o->n_in == 2 ? 2 : 1, .n_out = 1, .n_w = 1};
        return true;
    case QN_OP_LINEAR:
    case QN_OP_LOGITS:
        *s = (shape){.in = {c}, .out = {y}, .w = {{y, c}}, .n_in = 1, .n_out = 1, .n_w = 1};
        return true;
    case QN_OP_QK_ROPE_APPEND:
        *s = (shape){.in = {2 * q, kv, kv},
                     .out = {q},
                     .w = {{1, o->head_dim}, {1, o->head_dim}},
                     .n_in = 3,
                     .n_out = 1,
                     .n_w = 2};
        return true;
    case QN_OP_ATTENTION: *s = (shape){.in = {q}, .out = {q}, .n_in = 1, .n_out = 1}; return true;
    case QN_OP_SIGMOID_GATE: *s = (shape){.in = {q, 2 * q}, .out = {q}, .n_in = 2, .n_out = 1}; return true;
    case QN_OP_CONV_SILU:
        *s = (shape){.in = {c}, .out = {c}, .w = {{c, o->kernel}}, .n_in = 1, .n_out = 1, .n_w = 1};
        return true;
    case QN_OP_GDN_GATES:
        *s = (shape){.in = {o->n_v, o->n_v},
                     .out = {o->n_v, o->n_v},
                     .w = {{1, o->n_v}, {1, o->n_v}},
                     .n_in = 2,
                     .n_out = 2,
                     .n_w = 2};
        return true;
    case QN_OP_GDN_STEP:
    case QN_OP_GDN_CHUNK:
        *s = (shape){
            .in = {2 * (uint64_t)o->n_k * o->dk + v, o->n_v, o->n_v}, .out = {v}, .n_in = 3, .n_out = 1};
        return true;
    case QN_OP_GATED_RMSNORM:
        *s = (shape){.in = {v, v}, .out = {v}, .w = {{1, o->dv}}, .n_in = 2, .n_out = 1, .n_w = 1};
        return true;
    case QN_OP_SILU_MUL: *s = (shape){.in = {c, c}, .out = {c}, .n_in = 2, .n_out = 1}; return true;
    case QN_OP_ALL_REDUCE:
        *s = (shape){.in = {c}, .out = {c}, .n_in = 1, .n_out = o->n_out ? 1 : 0};
        return true;
    case QN_OP_ALL_GATHER:
    case QN_OP_ROW_GATHER: *s = (shape){.in = {c}, .out = {c}, .n_in = 1, .n_out = 1}; return true;
    case QN_OP_KEEP_HIDDEN: *s = (shape){.in = {p->state.hidden}, .n_in = 1}; return true;
    case QN_OP_MTP_INPUT:
        *s = (shape){.in = {c}, .out = {2 * c}, .w = {{1, c}, {1, c}}, .n_in = 1, .n_out = 1, .n_w = 2};
        return true;
    case QN_OP_COUNT: break;
    }
    return false;
}

static qn_status bad(qn_error *err, uint32_t i, const qn_op *o, const char *what)
{
    return qn_fail(err, QN_INTERNAL, "program: op %u (%s, layer %d): %s", i, qn_op_name(o->kind),
                   o->layer == QN_NO_LAYER ? -1 : (int)o->layer, what);
}

/* Rows an op works on: those of its first operand. */
static qn_rows rows_of(const qn_program *p, const qn_op *o)
{
    return p->buffers[o->n_in ? o->in[0] : o->out[0]].rows;
}

/* Attributes that are not columns: heads, states, limits of the kernels. */
static const char *check_attributes(const qn_program *p, const qn_op *o, const qn_cpu_memory *m)
{
    const qn_state_desc *s = &m->r.state;
    switch (o->kind) {
    case QN_OP_QK_ROPE_APPEND:
        if (o->rotary_dim > o->head_dim || o->rotary_dim % 2)
            return "the rotary dimension is odd or larger than a head";
        if (o->out[0] == o->in[1] || o->out[0] == o->in[2]) return "the output is an input";
        /* fall through */
    case QN_OP_ATTENTION:
        if (o->n_kv < 1 || o->n_q % o->n_kv) return "query heads do not divide over key/value heads";
        if (o->head_dim > QN_MAX_HEAD_DIM) return "heads of more than 512 values";
        if (o->state >= s->n_kv_layers || o->n_kv != s->n_kv || o->head_dim != s->head_dim)
            return "not the reserved KV layers";
        return NULL;
    case QN_OP_CONV_SILU:
        if (o->kernel < 1 || o->kernel > QN_MAX_TAPS) return "a convolution of 0 or more than 16 taps";
        if (o->state >= s->n_gdn_layers || o->kernel != s->conv_kernel ||
            p->buffers[o->in[0]].cols != s->conv_dim)
            return "not the reserved convolution states";
        return NULL;
    case QN_OP_GDN_STEP:
    case QN_OP_GDN_CHUNK:
        if (o->n_k < 1 || o->n_v % o->n_k) return "value heads do not divide over key heads";
        if (o->dk < 1 || o->dv < 1 || o->dk > QN_MAX_HEAD_DIM || o->dv > QN_MAX_HEAD_DIM)
            return "heads of 0 or more than 512 values";
        if (o->state >= s->n_gdn_layers || o->n_v != s->n_v || o->dk != s->dk || o->dv != s->dv)
            return "not the reserved states";
        return NULL;
    case QN_OP_KEEP_HIDDEN:
    case QN_OP_MTP_INPUT:
        if (p->buffers[o->in[0]].cols != s->hidden || m->r.hidden_rows < p->bucket.rows)
            return "not the reserved hidden vectors";
        return NULL;
    case QN_OP_LINEAR:
    case QN_OP_LOGITS:
    case QN_OP_ROW_GATHER: break;
    default: return NULL;
    }
    return o->in[0] == o->out[0] ? "the output is the input" : NULL;
}

static qn_status check_op(const qn_program *p, uint32_t i, const qn_cpu_memory *m, qn_error *err)
{
    const qn_op *o = &p->ops[i];
    shape s;
    if (o->n_in > QN_OP_MAX_IN || o->n_out > QN_OP_MAX_OUT || o->n_w > QN_OP_MAX_WEIGHTS ||
        o->n_in + o->n_out == 0)
        return bad(err, i, o, "wrong number of operands");
    for (uint32_t k = 0; k < o->n_in; k++)
        if (o->in[k] >= p->n_buffers) return bad(err, i, o, "an input buffer does not exist");
    for (uint32_t k = 0; k < o->n_out; k++)
        if (o->out[k] >= p->n_buffers) return bad(err, i, o, "an output buffer does not exist");
    if (!shape_of(p, o, &s)) return bad(err, i, o, "unknown to the cpu device");
    if (o->n_in != s.n_in || o->n_out != s.n_out || o->n_w != s.n_w)
        return bad(err, i, o, "wrong number of operands");
    for (uint32_t k = 0; k < s.n_in; k++)
        if (cols_in(p, o, k) != s.in[k] || s.in[k] == 0)
            return bad(err, i, o, "an input has the wrong number of columns");
    for (uint32_t k = 0; k < s.n_out; k++)
        if (cols_out(p, o, k) != s.out[k] || s.out[k] == 0)
            return bad(err, i, o, "an output has the wrong number of columns");
    for (uint32_t k = 0; k < s.n_w; k++) {
        if (o->w[k] >= p->n_weights) return bad(err, i, o, "a weight does not exist");
        const qn_weight_ref *w = &p->weights[o->w[k]];
        if (w->rows != s.w[k][0] || w->cols != s.w[k][1])
            return bad(err, i, o, "a weight has the wrong shape");
    }
    qn_rows rows = rows_of(p, o);
    bool state = o->kind == QN_OP_QK_ROPE_APPEND || o->kind == QN_OP_ATTENTION ||
                 o->kind == QN_OP_CONV_SILU || o->kind == QN_OP_GDN_STEP || o->kind == QN_OP_GDN_CHUNK ||
                 o->kind == QN_OP_KEEP_HIDDEN || o->kind == QN_OP_MTP_INPUT || o->kind == QN_OP_EMBED ||
                 o->kind == QN_OP_ROW_GATHER;
    if (state && rows != QN_ROWS_STEP) return bad(err, i, o, "works on the rows of a step only");
    for (uint32_t k = 0; k < s.n_in; k++)
        if (p->buffers[o->in[k]].rows != rows) return bad(err, i, o, "inputs of different rows");
    for (uint32_t k = 0; k < s.n_out; k++)
        if (p->buffers[o->out[k]].rows != (o->kind == QN_OP_ROW_GATHER ? QN_ROWS_LOGITS : rows))
            return bad(err, i, o, "an output of other rows than the inputs");
    const char *what = check_attributes(p, o, m);
    return what ? bad(err, i, o, what) : QN_OK;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Buffers of the bucket's size, in one piece; calloc, so that rows of logits that nobody asks for are never
 * touched. */
static qn_status allocate(qn_trace *t, qn_error *err)
{
    const qn_program *p = t->program;
    uint64_t rows = p->bucket.rows, total, n;
    size_t rotary = 0, threads = qn_pool_threads(t->cpu->pool);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const qn_op *o = &p->ops[i];
        if (o->kind == QN_OP_ATTENTION)
            t->scratch_size = max_size(t->scratch_size, qn_attention_scratch(o->head_dim, o->n_q / o->n_kv));
        if (o->kind == QN_OP_GDN_CHUNK)
            t->scratch_size = max_size(t->scratch_size, qn_gdn_scratch(o->dk, o->dv));
        if (o->kind == QN_OP_QK_ROPE_APPEND) rotary = max_size(rotary, o->rotary_dim);
    }
    t->scratch_size = (t->scratch_size + 7) / 8 * 8;
    t->n_bytes = threads * t->scratch_size * sizeof(double);
    t->ops = calloc(p->n_ops + 1, sizeof *t->ops);
    t->buffers = calloc(p->n_buffers + 1, sizeof *t->buffers);
    t->inv_freq = calloc(rotary / 2 + 1, sizeof *t->inv_freq);
    t->scratch = calloc(threads * t->scratch_size + 1, sizeof *t->scratch);
    t->row_seq = calloc(rows + 1, sizeof *t->row_seq);
    t->tiles = calloc(rows + 1, sizeof *t->tiles);
    if (!t->ops || !t->buffers || !t->inv_freq || !t->scratch || !t->row_seq || !t->tiles)
        return qn_fail(err, QN_NOMEM, "no memory for the scratch of %zu threads (%.1f MiB)", threads,
                       (double)t->n_bytes / 1048576);
    for (uint32_t i = 0; i < rotary / 2; i++) t->inv_freq[i] = (double)p->inv_freq[i];
    for (uint32_t i = 0; i < p->n_buffers; i++) {
        if (!qn_size_mul(rows, p->buffers[i].cols, &n) || !qn_size_mul(n, sizeof(float), &n) ||
            !qn_size_add(t->n_bytes, n, &total))
            return qn_fail(err, QN_TOO_LARGE, "buffer %s: %llu rows of %u columns overflow 64 bits of bytes",
                           p->buffers[i].name, (unsigned long long)rows, p->buffers[i].cols);
        t->buffers[i] = calloc(1, n ? n : 1);
        if (!t->buffers[i])
            return qn_fail(err, QN_NOMEM, "%.1f MiB for buffer %s (%llu rows of %u) are not to be had",
                           (double)n / 1048576, p->buffers[i].name, (unsigned long long)rows,
                           p->buffers[i].cols);
        t->n_bytes = total;
    }
    return QN_OK;
}

static qn_status resolve(qn_trace *t, uint32_t i, qn_error *err)
{
    const qn_program *p = t->program;
    const qn_op *o = &p->ops[i];
    qn_cpu_op *c = &t->ops[i];
    c->op = o;
    for (uint32_t k = 0; k < o->n_in; k++)
        c->in[k] = t->buffers[o->in[k]], c->in_cols[k] = p->buffers[o->in[k]].cols;
    for (uint32_t k = 0; k < o->n_out; k++)
        c->out[k] = t->buffers[o->out[k]], c->out_cols[k] = p->buffers[o->out[k]].cols;
    if (o->kind == QN_OP_QK_ROPE_APPEND || o->kind == QN_OP_ATTENTION)
        c->kv = qn_cpu_kv_layer(&t->cpu->memory, o->state);
    for (uint32_t k = 0; k < o->n_w; k++) {
        const qn_weight_ref *ref = &p->weights[o->w[k]];
        if (ref->weight >= p->net->n_weights) return bad(err, i, o, "a weight does not exist");
        qn_layout l = qn_cpu_layout_of(&p->net->weights[ref->weight], o->kind);
        qn_status st = qn_cpu_weight_get(t->cpu, p->net, ref, l, &c->w[k], err);
        if (st) return st;
    }
    return QN_OK;
}

qn_status qn_cpu_compile(qn_device *d, const qn_program *const *programs, qn_trace **out, qn_error *err)
{
    qn_cpu *c = (qn_cpu *)d;
    const qn_program *p = programs[0];
    *out = NULL;
    if (p->n_ranks != 1)
        return qn_fail(err, QN_UNSUPPORTED, "the cpu device has one rank; this program is for rank %u of %u",
                       p->rank, p->n_ranks);
    if (!c->memory.reserved)
        return qn_fail(err, QN_INTERNAL, "a program was compiled before memory was reserved");
    if (p->bucket.rows < 1 || p->logits >= p->n_buffers || p->buffers[p->logits].rows != QN_ROWS_LOGITS)
        return qn_fail(err, QN_INTERNAL, "program: no rows, or no buffer of logits");
    qn_status st = QN_OK;
    for (uint32_t i = 0; i < p->n_ops && !st; i++) st = check_op(p, i, &c->memory, err);
    if (st) return st;
    qn_trace *t = calloc(1, sizeof *t);
    if (!t) return qn_fail(err, QN_NOMEM, "no memory for a trace");
    t->cpu = c;
    t->program = p;
    st = allocate(t, err);
    for (uint32_t i = 0; i < p->n_ops && !st; i++) st = resolve(t, i, err);
    c->scratch_bytes += t->n_bytes;
    if (st) {
        qn_cpu_trace_destroy(t);
        return st;
    }
    *out = t;
    return QN_OK;
}

void qn_cpu_trace_destroy(qn_trace *t)
{
    if (!t) return;
    t->cpu->scratch_bytes -= t->n_bytes;
    for (uint32_t i = 0; t->buffers && i < t->program->n_buffers; i++) free(t->buffers[i]);
    free(t->buffers);
    free(t->ops);
    free(t->inv_freq);
    free(t->scratch);
    free(t->row_seq);
    free(t->tiles);
    free(t);
}
