/* lower.c - from a network to the program of one bucket and one rank.
 *
 * Tensor parallelism cuts whole heads and whole MLP columns: q, k, v, the GDN inputs, gate, up and the head
 * by output rows; o, out and down by input columns, whose partial sums an all-reduce adds. Norms and the
 * embedding are on every rank. Buffers are named by role and shared by all layers; ops run in order, so that
 * is safe. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program/program.h"

typedef struct lowering {
    qn_program *p;
    const qn_arch *a;
    uint32_t rank, n_ranks;
    uint32_t cap_ops, cap_weights, cap_buffers;
    bool failed; /* memory ran out; sticky */
    bool too_many_ranges;
    /* buffers by role */
    uint32_t x, h, delta, qg, k, v, q, attn, u, z, ga, gb, s, g, beta, o, gate, up, final, head_in;
} lowering;

static void *grow(void *items, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap) return items;
    uint32_t c = *cap ? 2 * *cap : 32;
    void *p = realloc(items, c * size);
    if (p) *cap = c;
    return p;
}

static uint32_t buffer(lowering *l, const char *name, qn_rows rows, uint32_t cols)
{
    qn_buffer *p = grow(l->p->buffers, l->p->n_buffers, &l->cap_buffers, sizeof *p);
    if (!p) return l->failed = true, 0;
    l->p->buffers = p;
    p[l->p->n_buffers] = (qn_buffer){name, rows, cols};
    return l->p->n_buffers++;
}

/* A part of a weight, whole until rows or columns are listed. */
static qn_weight_ref whole(const lowering *l, qn_weight_id id)
{
    const qn_weight *w = &l->p->net->weights[id];
    return (qn_weight_ref){.weight = id,
                           .rows = w->rows,
                           .cols = w->cols,
                           .n_row_ranges = 1,
                           .n_col_ranges = 1,
                           .row_ranges = {{0, w->rows}},
                           .col_ranges = {{0, w->cols}}};
}

typedef struct range_list {
    uint32_t n, total;
    qn_range r[QN_MAX_RANGES];
    bool full;
} range_list;

static void add_range(range_list *l, uint32_t first, uint32_t count)
{
    l->total += count;
    if (l->n && l->r[l->n - 1].first + l->r[l->n - 1].count == first) {
        l->r[l->n - 1].count += count;
        return;
    }
    if (l->n == QN_MAX_RANGES) {
        l->full = true;
        return;
    }
    l->r[l->n++] = (qn_range){first, count};
}

/* Append the rank's value heads, `unit` rows each, that start at row `base`. Value heads go with their key
 * heads: neighbours when grouped; one piece per repetition when tiled, which keeps the rule "local head mod
 * local key heads". */
static void add_value_heads(range_list *l, const lowering *lo, uint32_t base, uint32_t unit)
{
    const qn_arch *a = lo->a;
    uint32_t k = a->gdn_n_k / lo->n_ranks, v = a->gdn_n_v / lo->n_ranks;
    if (a->head_rule == QN_HEADS_GROUPED) {
        add_range(l, base + lo->rank * v * unit, v * unit);
        return;
    }
    for (uint32_t t = 0; t < a->gdn_n_v / a->gdn_n_k; t++)
        add_range(l, base + (t * a->gdn_n_k + lo->rank * k) * unit, k * unit);
}

static range_list value_heads(const lowering *lo, uint32_t unit)
{
    range_list l = {0};
    add_value_heads(&l, lo, 0, unit);
    return l;
}

static range_list conv_channels(const lowering *lo)
{
    const qn_arch *a = lo->a;
    uint32_t key = a->gdn_n_k * a->gdn_dk, mine = key / lo->n_ranks;
    range_list l = {0};
    add_range(&l, lo->rank * mine, mine);
    add_range(&l, key + lo->rank * mine, mine);
    add_value_heads(&l, lo, 2 * key, a->gdn_dv);
    return l;
}

static range_list even_share(const lowering *lo, uint32_t total)
{
    range_list l = {0};
    add_range(&l, lo->rank * (total / lo->n_ranks), total / lo->n_ranks);
    return l;
}

/* The part of a weight that has only the rows, or only the columns, of the list. */
static qn_weight_ref part(lowering *l, qn_weight_id id, range_list r, bool rows)
{
    qn_weight_ref w = whole(l, id);
    *(rows ? &w.rows : &w.cols) = r.total;
    *(rows ? &w.n_row_ranges : &w.n_col_ranges) = r.n;
    memcpy(rows ? w.row_ranges : w.col_ranges, r.r, sizeof r.r);
    if (r.full) l->too_many_ranges = true;
    return w;
}
static qn_weight_ref rows_of(lowering *l, qn_weight_id id, range_list r)
{
    return part(l, id, r, true);
}
static qn_weight_ref cols_of(lowering *l, qn_weight_id id, range_list r)
{
    return part(l, id, r, false);
}

static uint32_t weight(lowering *l, qn_weight_ref ref)
{
    qn_program *p = l->p;
    qn_weight_ref *w = grow(p->weights, p->n_weights, &l->cap_weights, sizeof *w);
    if (!w) return l->failed = true, 0;
    p->weights = w;
    w[p->n_weights] = ref;
    return p->n_weights++;
}

static void emit(lowering *l, qn_op op)
{
    qn_program *p = l->p;
    qn_op *ops = grow(p->ops, p->n_ops, &l->cap_ops, sizeof *ops);
    if (!ops) {
        l->failed = true;
        return;
    }
    p->ops = ops;
    ops[p->n_ops++] = op;
}

static void linear(lowering *l, uint32_t layer, uint32_t in, qn_weight_ref w, uint32_t out)
{
    emit(l, (qn_op){.kind = QN_OP_LINEAR,
                    .layer = layer,
                    .n_in = 1,
                    .n_out = 1,
                    .n_w = 1,
                    .in = {in},
                    .out = {out},
                    .w = {weight(l, w)}});
}

/* A linear whose input columns are cut over the ranks, and the sum of its parts. */
static void linear_reduced(lowering *l, uint32_t layer, uint32_t in, qn_weight_ref w, uint32_t out)
{
    linear(l, layer, in, w, out);
    if (l->n_ranks > 1)
        emit(l,
             (qn_op){
                 .kind = QN_OP_ALL_REDUCE, .layer = layer, .n_in = 1, .n_out = 1, .in = {out}, .out = {out}});
}

/* x += delta first, unless it is the first norm of the program. */
static void rmsnorm(lowering *l, uint32_t layer, bool add, qn_weight_id w, uint32_t out)
{
    emit(l, (qn_op){.kind = QN_OP_RMSNORM,
                    .layer = layer,
                    .n_in = add ? 2 : 1,
                    .n_out = 1,
                    .n_w = 1,
                    .in = {l->x, l->delta},
                    .out = {out},
                    .w = {weight(l, whole(l, w))},
                    .eps = l->a->norm_eps,
                    .offset = l->a->norm_offset});
}

static void lower_attention(lowering *l, uint32_t layer, uint32_t kv_layer, const qn_attn_weights *w)
{
    const qn_arch *a = l->a;
    uint32_t d = a->head_dim, nq = a->n_q / l->n_ranks, nkv = a->n_kv / l->n_ranks;
    linear(l, layer, l->h, rows_of(l, w->q, even_share(l, a->n_q * 2 * d)), l->qg);
    linear(l, layer, l->h, rows_of(l, w->k, even_share(l, a->n_kv * d)), l->k);
    linear(l, layer, l->h, rows_of(l, w->v, even_share(l, a->n_kv * d)), l->v);
    emit(l, (qn_op){.kind = QN_OP_QK_ROPE_APPEND,
                    .layer = layer,
                    .n_in = 3,
                    .n_out = 1,
                    .n_w = 2,
                    .in = {l->qg, l->k, l->v},
                    .out = {l->q},
                    .w = {weight(l, whole(l, w->q_norm)), weight(l, whole(l, w->k_norm))},
                    .state = kv_layer,
                    .n_q = nq,
                    .n_kv = nkv,
                    .head_dim = d,
                    .rotary_dim = a->rotary_dim,
                    .eps = a->norm_eps,
                    .offset = a->norm_offset});
    emit(l, (qn_op){.kind = QN_OP_ATTENTION,
                    .layer = layer,
                    .n_in = 1,
                    .n_out = 1,
                    .in = {l->q},
                    .out = {l->attn},
                    .state = kv_layer,
                    .n_q = nq,
                    .n_kv = nkv,
                    .head_dim = d,
                    .scale = (float)(1 / sqrt((double)d))});
    emit(l, (qn_op){.kind = QN_OP_SIGMOID_GATE,
                    .layer = layer,
                    .n_in = 2,
                    .n_out = 1,
                    .in = {l->attn, l->qg},
                    .out = {l->attn},
                    .n_q = nq,
                    .head_dim = d});
    linear_reduced(l, layer, l->attn, cols_of(l, w->o, even_share(l, a->n_q * d)), l->delta);
}

static void lower_gdn(lowering *l, uint32_t layer, uint32_t state, const qn_gdn_weights *w)
{
    const qn_arch *a = l->a;
    uint32_t nk = a->gdn_n_k / l->n_ranks, nv = a->gdn_n_v / l->n_ranks;
    linear(l, layer, l->h, rows_of(l, w->qkv, conv_channels(l)), l->u);
    linear(l, layer, l->h, rows_of(l, w->z, value_heads(l, a->gdn_dv)), l->z);
    linear(l, layer, l->h, rows_of(l, w->a, value_heads(l, 1)), l->ga);
    linear(l, layer, l->h, rows_of(l, w->b, value_heads(l, 1)), l->gb);
    emit(l, (qn_op){.kind = QN_OP_CONV_SILU,
                    .layer = layer,
                    .n_in = 1,
                    .n_out = 1,
                    .n_w = 1,
                    .in = {l->u},
                    .out = {l->s},
                    .w = {weight(l, rows_of(l, w->conv, conv_channels(l)))},
                    .state = state,
                    .kernel = a->conv_kernel});
    emit(l, (qn_op){.kind = QN_OP_GDN_GATES,
                    .layer = layer,
                    .n_in = 2,
                    .n_out = 2,
                    .n_w = 2,
                    .in = {l->ga, l->gb},
                    .out = {l->g, l->beta},
                    .w = {weight(l, cols_of(l, w->a_log, value_heads(l, 1))),
                          weight(l, cols_of(l, w->dt_bias, value_heads(l, 1)))},
                    .n_v = nv,
                    .decay_is_log = a->decay_is_log});
    qn_op_kind rule = l->p->bucket.kind == QN_BUCKET_PREFILL ? QN_OP_GDN_CHUNK : QN_OP_GDN_STEP;
    emit(l, (qn_op){.kind = rule,
                    .layer = layer,
                    .n_in = 3,
                    .n_out = 1,
                    .in = {l->s, l->g, l->beta},
                    .out = {l->o},
                    .state = state,
                    .n_k = nk,
                    .n_v = nv,
                    .dk = a->gdn_dk,
                    .dv = a->gdn_dv,
                    .eps = a->l2_eps,
                    .scale = (float)(1 / sqrt((double)a->gdn_dk)),
                    .head_rule = a->head_rule});
    emit(l, (qn_op){.kind = QN_OP_GATED_RMSNORM,
                    .layer = layer,
                    .n_in = 2,
                    .n_out = 1,
                    .n_w = 1,
                    .in = {l->o, l->z},
                    .out = {l->o},
                    .w = {weight(l, whole(l, w->norm))},
                    .n_v = nv,
                    .dv = a->gdn_dv,
                    .eps = a->norm_eps,
                    .gate_act = a->gdn_gate});
    linear_reduced(l, layer, l->o, cols_of(l, w->out, value_heads(l, a->gdn_dv)), l->delta);
}

static void lower_layer(lowering *l, uint32_t layer, bool is_attn, uint32_t state, bool add,
                        const qn_layer_weights *w)
{
    uint32_t mlp = l->a->mlp;
    rmsnorm(l, layer, add, w->in_norm, l->h);
    if (is_attn)
        lower_attention(l, layer, state, &w->attn);
    else
        lower_gdn(l, layer, state, &w->gdn);
    rmsnorm(l, layer, true, w->post_norm, l->h);
    linear(l, layer, l->h, rows_of(l, w->gate, even_share(l, mlp)), l->gate);
    linear(l, layer, l->h, rows_of(l, w->up, even_share(l, mlp)), l->up);
    emit(l, (qn_op){.kind = QN_OP_SILU_MUL,
                    .layer = layer,
                    .n_in = 2,
                    .n_out = 1,
                    .in = {l->gate, l->up},
                    .out = {l->gate}});
    linear_reduced(l, layer, l->gate, cols_of(l, w->down, even_share(l, mlp)), l->delta);
}

static void lower_head(lowering *l)
{
    qn_program *p = l->p;
    uint32_t vocab = l->a->vocab, none = QN_NO_LAYER;
    emit(l, (qn_op){.kind = QN_OP_ROW_GATHER,
                    .layer = none,
                    .n_in = 1,
                    .n_out = 1,
                    .in = {l->final},
                    .out = {l->head_in}});
    p->logits = buffer(l, "logits", QN_ROWS_LOGITS, vocab);
    uint32_t part = l->n_ranks > 1 ? buffer(l, "logits_part", QN_ROWS_LOGITS, vocab / l->n_ranks) : p->logits;
    emit(l, (qn_op){.kind = QN_OP_LOGITS,
                    .layer = none,
                    .n_in = 1,
                    .n_out = 1,
                    .n_w = 1,
                    .in = {l->head_in},
                    .out = {part},
                    .w = {weight(l, rows_of(l, p->net->head, even_share(l, vocab)))}});
    if (l->n_ranks > 1)
        emit(l, (qn_op){.kind = QN_OP_ALL_GATHER,
                        .layer = none,
                        .n_in = 1,
                        .n_out = 1,
                        .in = {part},
                        .out = {p->logits}});
}

static void lower_embed(lowering *l, uint32_t out)
{
    emit(l, (qn_op){.kind = QN_OP_EMBED,
                    .layer = QN_NO_LAYER,
                    .n_out = 1,
                    .n_w = 1,
                    .out = {out},
                    .w = {weight(l, whole(l, l->p->net->embed))}});
}

static void keep_hidden_op(lowering *l)
{
    emit(l, (qn_op){.kind = QN_OP_KEEP_HIDDEN, .layer = QN_NO_LAYER, .n_in = 1, .in = {l->final}});
}

static void lower_main(lowering *l, bool keep_hidden)
{
    const qn_net *n = l->p->net;
    uint32_t n_attn = 0, n_gdn = 0;
    lower_embed(l, l->x);
    for (uint32_t i = 0; i < l->a->n_layers; i++)
        lower_layer(l, i, l->a->is_attn[i], l->a->is_attn[i] ? n_attn++ : n_gdn++, i > 0, &n->layers[i]);
    rmsnorm(l, QN_NO_LAYER, true, n->norm, l->final);
    if (keep_hidden) keep_hidden_op(l);
    lower_head(l);
}

static void lower_draft(lowering *l)
{
    const qn_mtp_weights *m = &l->p->net->mtp;
    uint32_t layer = l->a->n_layers, e = buffer(l, "embedding", QN_ROWS_STEP, l->a->hidden);
    uint32_t both = buffer(l, "embedding_hidden", QN_ROWS_STEP, 2 * l->a->hidden);
    lower_embed(l, e);
    emit(l, (qn_op){.kind = QN_OP_MTP_INPUT,
                    .layer = layer,
                    .n_in = 1,
                    .n_out = 1,
                    .n_w = 2,
                    .in = {e},
                    .out = {both},
                    .w = {weight(l, whole(l, m->embed_norm)), weight(l, whole(l, m->hidden_norm))},
                    .eps = l->a->norm_eps,
                    .offset = l->a->norm_offset});
    linear(l, layer, both, whole(l, m->fc), l->x);
    lower_layer(l, layer, true, l->a->n_attn, false, &m->layer);
    rmsnorm(l, layer, true, m->norm, l->final);
    keep_hidden_op(l); /* a chained draft step reads it */
    lower_head(l);
}

static void make_buffers(lowering *l)
{
    const qn_arch *a = l->a;
    uint32_t r = l->n_ranks, q = a->n_q / r * a->head_dim, kv = a->n_kv / r * a->head_dim,
             nv = a->gdn_n_v / r;
    uint32_t conv = qn_arch_conv_dim(a) / r;
    qn_rows s = QN_ROWS_STEP;
    l->x = buffer(l, "x", s, a->hidden);
    l->h = buffer(l, "h", s, a->hidden);
    l->delta = buffer(l, "delta", s, a->hidden);
    l->final = buffer(l, "final", s, a->hidden);
    l->head_in = buffer(l, "head_in", QN_ROWS_LOGITS, a->hidden);
    l->qg = buffer(l, "q_gate", s, 2 * q);
    l->k = buffer(l, "k", s, kv);
    l->v = buffer(l, "v", s, kv);
    l->q = buffer(l, "q", s, q);
    l->attn = buffer(l, "attn", s, q);
    l->gate = buffer(l, "gate", s, a->mlp / r);
    l->up = buffer(l, "up", s, a->mlp / r);
    if (l->p->bucket.kind == QN_BUCKET_DRAFT) return;
    l->u = buffer(l, "qkv", s, conv);
    l->s = buffer(l, "conv", s, conv);
    l->z = buffer(l, "z", s, nv * a->gdn_dv);
    l->ga = buffer(l, "a", s, nv);
    l->gb = buffer(l, "b", s, nv);
    l->g = buffer(l, "g", s, nv);
    l->beta = buffer(l, "beta", s, nv);
    l->o = buffer(l, "o", s, nv * a->gdn_dv);
}

static qn_status check_ranks(const qn_arch *a, uint32_t rank, uint32_t n_ranks, qn_error *err)
{
    const struct {
        const char *what;
        uint32_t n;
    } parts[] = {{"attention heads", a->n_q},      {"key/value heads", a->n_kv},
                 {"linear key heads", a->gdn_n_k}, {"linear value heads", a->gdn_n_v},
                 {"MLP columns", a->mlp},          {"rows of the head", a->vocab}};
    if (n_ranks < 1 || rank >= n_ranks)
        return qn_fail(err, QN_INVALID, "rank %u of %u does not exist", rank, n_ranks);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i].n % n_ranks)
            return qn_fail(err, QN_UNSUPPORTED, "%u %s do not divide over %u ranks", parts[i].n,
                           parts[i].what, n_ranks);
    return QN_OK;
}

qn_state_desc qn_state_of(const qn_arch *a, uint32_t n_ranks, bool keep_hidden)
{
    return (qn_state_desc){.n_kv_layers = a->n_attn + a->has_mtp,
                           .n_kv = a->n_kv / n_ranks,
                           .head_dim = a->head_dim,
                           .n_gdn_layers = a->n_gdn,
                           .n_v = a->gdn_n_v / n_ranks,
                           .dk = a->gdn_dk,
                           .dv = a->gdn_dv,
                           .conv_dim = qn_arch_conv_dim(a) / n_ranks,
                           .conv_kernel = a->conv_kernel,
                           .hidden = keep_hidden ? a->hidden : 0};
}

qn_status qn_program_lower(qn_program **out, const qn_net *net, qn_bucket bucket, uint32_t rank,
                           uint32_t n_ranks, bool keep_hidden, qn_error *err)
{
    const qn_arch *a = &net->arch;
    *out = NULL;
    qn_status st = check_ranks(a, rank, n_ranks, err);
    if (st) return st;
    if (bucket.rows < 1) return qn_fail(err, QN_INVALID, "a bucket needs at least one row");
    if (bucket.kind == QN_BUCKET_DRAFT && !a->has_mtp)
        return qn_fail(err, QN_UNSUPPORTED, "the model has no draft head (MTP layer)");
    qn_program *p = calloc(1, sizeof *p);
    if (!p) return qn_fail(err, QN_NOMEM, "no memory for a program");
    lowering l = {.p = p, .a = a, .rank = rank, .n_ranks = n_ranks};
    *p = (qn_program){.bucket = bucket, .rank = rank, .n_ranks = n_ranks, .net = net};
    p->state = qn_state_of(a, n_ranks, keep_hidden || bucket.kind == QN_BUCKET_DRAFT);
    p->inv_freq = calloc(a->rotary_dim / 2, sizeof *p->inv_freq);
    if (!p->inv_freq)
        l.failed = true;
    else
        for (uint32_t i = 0; i < a->rotary_dim / 2; i++)
            p->inv_freq[i] = pow(a->rope_theta, -2.0 * i / a->rotary_dim);
    make_buffers(&l);
    if (bucket.kind == QN_BUCKET_DRAFT)
        lower_draft(&l);
    else
        lower_main(&l, keep_hidden);
    if (l.failed)
        st = qn_fail(err, QN_NOMEM, "no memory for a program of %u layers", a->n_layers);
    else if (l.too_many_ranges)
        st = qn_fail(err, QN_UNSUPPORTED,
                     "%u value heads on %u tiled key heads need more than %d pieces per rank", a->gdn_n_v,
                     a->gdn_n_k, QN_MAX_RANGES);
    if (st) {
        qn_program_destroy(p);
        return st;
    }
    *out = p;
    return QN_OK;
}

void qn_program_destroy(qn_program *p)
{
    if (!p) return;
    free(p->buffers);
    free(p->weights);
    free(p->ops);
    free(p->inv_freq);
    free(p);
}
