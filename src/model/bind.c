/* bind.c - turns the tensors of a safetensors checkpoint into the fields of a network, once.
 *
 * Each expected name is looked up, its shape proven and its tensor marked as taken; what is left over at the
 * end must be something known to be skipped (vision, an unused head, an incomplete MTP layer), since a tensor
 * that is silently ignored, a bias for example, would change every answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

const char *qn_group_name(qn_group g)
{
    static const char *const names[QN_GROUP_COUNT] = {"embed",    "head",    "attn_qkv",  "attn_out",
                                                      "gdn_in",   "gdn_out", "gdn_small", "mlp_gate_up",
                                                      "mlp_down", "mtp",     "norms",     "skipped"};
    return (unsigned)g < QN_GROUP_COUNT ? names[g] : "?";
}

typedef struct binder {
    const qn_ckpt *ck;
    qn_net *net;
    uint8_t *taken;     /* [n_tensors] */
    const char *prefix; /* "model." or "model.language_model." */
    qn_error *err;
    qn_status st; /* sticky: the first failure */
} binder;

static size_t index_of(const binder *b, const qn_ckpt_tensor *t)
{
    size_t lo = 0, hi = qn_ckpt_n_tensors(b->ck); /* sorted by name */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strcmp(qn_ckpt_at(b->ck, mid)->name, t->name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void describe_shape(char *dst, size_t cap, const qn_ckpt_tensor *t)
{
    size_t o = 0;
    dst[0] = 0;
    for (uint32_t i = 0; i < t->n_dims && o < cap; i++)
        o += (size_t)snprintf(dst + o, cap - o, "%s%llu", i ? ", " : "", (unsigned long long)t->dims[i]);
}

static qn_weight_id add_weight(binder *b, const qn_ckpt_tensor *t, qn_group g, uint64_t rows, uint64_t cols)
{
    qn_net *n = b->net;
    n->weights[n->n_weights] = (qn_weight){.name = t->name,
                                           .group = g,
                                           .dtype = t->dtype,
                                           .rows = (uint32_t)rows,
                                           .cols = (uint32_t)cols,
                                           .data = t->data,
                                           .n_bytes = t->n_bytes};
    b->taken[index_of(b, t)] = 1;
    return n->n_weights++;
}

/* Bind one tensor of [rows][cols] (rows 1: a vector; a middle dimension of 1 is accepted). */
static qn_weight_id bind(binder *b, const char *name, qn_group g, uint64_t rows, uint64_t cols)
{
    if (b->st) return QN_NO_WEIGHT;
    const qn_ckpt_tensor *t = qn_ckpt_find(b->ck, name);
    if (!t) {
        b->st = qn_fail(b->err, QN_CORRUPT, "tensor '%s' is missing", name);
        return QN_NO_WEIGHT;
    }
    const qn_dtype_info *info = qn_dtype_get(t->dtype);
    if (!info->supported) {
        b->st = qn_fail(
            b->err, QN_UNSUPPORTED,
            "%s: tensor '%s' has format %s, which this version does not compute with (it has F32, F16, BF16)",
            t->file, name, info->name);
        return QN_NO_WEIGHT;
    }
    uint64_t dims[QN_CKPT_MAX_DIMS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (t->n_dims < 3 || t->dims[i] != 1) dims[n++] = t->dims[i];
    bool fits = (n == 2 && dims[0] == rows && dims[1] == cols) || (rows == 1 && n == 1 && dims[0] == cols);
    if (!fits) {
        char shape[96];
        describe_shape(shape, sizeof shape, t);
        if (rows == 1)
            b->st = qn_fail(b->err, QN_CORRUPT, "%s: tensor '%s' has shape [%s], the config asks for [%llu]",
                            t->file, name, shape, (unsigned long long)cols);
        else
            b->st = qn_fail(b->err, QN_CORRUPT,
                            "%s: tensor '%s' has shape [%s], the config asks for [%llu, %llu]", t->file, name,
                            shape, (unsigned long long)rows, (unsigned long long)cols);
        return QN_NO_WEIGHT;
    }
    return add_weight(b, t, g, rows, cols);
}

static qn_weight_id bind_in(binder *b, const char *base, const char *leaf, qn_group g, uint64_t rows,
                            uint64_t cols)
{
    char name[256];
    snprintf(name, sizeof name, "%s%s", base, leaf);
    return bind(b, name, g, rows, cols);
}

/* A layer at base ("model.layers.3."); mtp: its matrices belong to the MTP group. */
static void bind_layer(binder *b, qn_layer_weights *l, const char *base, bool is_attn, bool mtp)
{
    const qn_arch *a = &b->net->arch;
    uint64_t h = a->hidden, q = (uint64_t)a->n_q * a->head_dim, kv = (uint64_t)a->n_kv * a->head_dim;
    uint64_t value = (uint64_t)a->gdn_n_v * a->gdn_dv, conv = qn_arch_conv_dim(a);
    qn_group m = QN_GROUP_MTP;
    l->in_norm = bind_in(b, base, "input_layernorm.weight", QN_GROUP_NORMS, 1, h);
    l->post_norm = bind_in(b, base, "post_attention_layernorm.weight", QN_GROUP_NORMS, 1, h);
    if (is_attn) {
        qn_group g = mtp ? m : QN_GROUP_ATTN_QKV;
        l->attn.q = bind_in(b, base, "self_attn.q_proj.weight", g, 2 * q, h);
        l->attn.k = bind_in(b, base, "self_attn.k_proj.weight", g, kv, h);
        l->attn.v = bind_in(b, base, "self_attn.v_proj.weight", g, kv, h);
        l->attn.o = bind_in(b, base, "self_attn.o_proj.weight", mtp ? m : QN_GROUP_ATTN_OUT, h, q);
        l->attn.q_norm = bind_in(b, base, "self_attn.q_norm.weight", QN_GROUP_NORMS, 1, a->head_dim);
        l->attn.k_norm = bind_in(b, base, "self_attn.k_norm.weight", QN_GROUP_NORMS, 1, a->head_dim);
    } else {
        l->gdn.qkv = bind_in(b, base, "linear_attn.in_proj_qkv.weight", QN_GROUP_GDN_IN, conv, h);
        l->gdn.z = bind_in(b, base, "linear_attn.in_proj_z.weight", QN_GROUP_GDN_IN, value, h);
        l->gdn.a = bind_in(b, base, "linear_attn.in_proj_a.weight", QN_GROUP_GDN_SMALL, a->gdn_n_v, h);
        l->gdn.b = bind_in(b, base, "linear_attn.in_proj_b.weight", QN_GROUP_GDN_SMALL, a->gdn_n_v, h);
        l->gdn.conv = bind_in(b, base, "linear_attn.conv1d.weight", QN_GROUP_GDN_SMALL, conv, a->conv_kernel);
        l->gdn.a_log = bind_in(b, base, "linear_attn.A_log", QN_GROUP_GDN_SMALL, 1, a->gdn_n_v);
        l->gdn.dt_bias = bind_in(b, base, "linear_attn.dt_bias", QN_GROUP_GDN_SMALL, 1, a->gdn_n_v);
        l->gdn.norm = bind_in(b, base, "linear_attn.norm.weight", QN_GROUP_NORMS, 1, a->gdn_dv);
        l->gdn.out = bind_in(b, base, "linear_attn.out_proj.weight", QN_GROUP_GDN_OUT, h, value);
    }
    l->gate = bind_in(b, base, "mlp.gate_proj.weight", mtp ? m : QN_GROUP_MLP_GATE_UP, a->mlp, h);
    l->up = bind_in(b, base, "mlp.up_proj.weight", mtp ? m : QN_GROUP_MLP_GATE_UP, a->mlp, h);
    l->down = bind_in(b, base, "mlp.down_proj.weight", mtp ? m : QN_GROUP_MLP_DOWN, h, a->mlp);
}

/* The MTP layer is used as a whole or not at all: the tensors decide, not the config, since some conversions
 * drop the weights and keep the field. A present tensor of the wrong shape is an error all the same. */
static void bind_mtp(binder *b)
{
    static const char *const leaves[] = {"fc.weight",
                                         "pre_fc_norm_embedding.weight",
                                         "pre_fc_norm_hidden.weight",
                                         "norm.weight",
                                         "layers.0.input_layernorm.weight",
                                         "layers.0.post_attention_layernorm.weight",
                                         "layers.0.self_attn.q_proj.weight",
                                         "layers.0.self_attn.k_proj.weight",
                                         "layers.0.self_attn.v_proj.weight",
                                         "layers.0.self_attn.o_proj.weight",
                                         "layers.0.self_attn.q_norm.weight",
                                         "layers.0.self_attn.k_norm.weight",
                                         "layers.0.mlp.gate_proj.weight",
                                         "layers.0.mlp.up_proj.weight",
                                         "layers.0.mlp.down_proj.weight"};
    char name[256];
    const char *base = qn_ckpt_find(b->ck, "model.mtp.fc.weight") ? "model.mtp." : "mtp.";
    for (size_t i = 0; i < sizeof leaves / sizeof leaves[0]; i++) {
        snprintf(name, sizeof name, "%s%s", base, leaves[i]);
        if (!qn_ckpt_find(b->ck, name)) return;
    }
    uint64_t h = b->net->arch.hidden;
    qn_mtp_weights *m = &b->net->mtp;
    m->fc = bind_in(b, base, "fc.weight", QN_GROUP_MTP, h, 2 * h);
    m->embed_norm = bind_in(b, base, "pre_fc_norm_embedding.weight", QN_GROUP_NORMS, 1, h);
    m->hidden_norm = bind_in(b, base, "pre_fc_norm_hidden.weight", QN_GROUP_NORMS, 1, h);
    m->norm = bind_in(b, base, "norm.weight", QN_GROUP_NORMS, 1, h);
    snprintf(name, sizeof name, "%slayers.0.", base);
    bind_layer(b, &m->layer, name, true, true);
    b->net->arch.has_mtp = !b->st;
}

static bool starts_with(const char *s, const char *p)
{
    return strncmp(s, p, strlen(p)) == 0;
}

/* What is left must be known to be of no use to a text server. */
static void skip_rest(binder *b)
{
    b->net->n_used = b->net->n_weights;
    for (size_t i = 0; i < qn_ckpt_n_tensors(b->ck) && !b->st; i++) {
        if (b->taken[i]) continue;
        const qn_ckpt_tensor *t = qn_ckpt_at(b->ck, i);
        bool unused_mtp =
            !b->net->arch.has_mtp && (starts_with(t->name, "mtp.") || starts_with(t->name, "model.mtp."));
        bool unused_head = b->net->arch.tied && strcmp(t->name, "lm_head.weight") == 0;
        if (starts_with(t->name, "model.visual.") || starts_with(t->name, "visual.") || unused_mtp ||
            unused_head)
            add_weight(b, t, QN_GROUP_SKIPPED, 1, 0);
        else {
            char shown[160];
            b->st = qn_fail(b->err, QN_UNSUPPORTED, "%s: tensor '%s' has no place in this architecture",
                            t->file, qn_printable(shown, sizeof shown, t->name, strlen(t->name)));
        }
    }
}

static void bind_all(binder *b)
{
    qn_net *n = b->net;
    const qn_arch *a = &n->arch;
    char base[128];
    b->prefix =
        qn_ckpt_find(b->ck, "model.language_model.embed_tokens.weight") ? "model.language_model." : "model.";
    n->embed = bind_in(b, b->prefix, "embed_tokens.weight", QN_GROUP_EMBED, a->vocab, a->hidden);
    n->norm = bind_in(b, b->prefix, "norm.weight", QN_GROUP_NORMS, 1, a->hidden);
    if (!b->st && !a->tied && !qn_ckpt_find(b->ck, "lm_head.weight"))
        b->st = qn_fail(b->err, QN_CORRUPT,
                        "tensor 'lm_head.weight' is missing, and config.json says that the head is not tied");
    n->head = a->tied ? n->embed : bind(b, "lm_head.weight", QN_GROUP_HEAD, a->vocab, a->hidden);
    for (uint32_t i = 0; i < a->n_layers && !b->st; i++) {
        snprintf(base, sizeof base, "%slayers.%u.", b->prefix, i);
        bind_layer(b, &n->layers[i], base, a->is_attn[i], false);
    }
    if (!b->st) bind_mtp(b);
    if (!b->st) skip_rest(b);
}

qn_status qn_net_bind(qn_net **out, const qn_ckpt *ck, qn_error *err)
{
    *out = NULL;
    size_t n_tensors = qn_ckpt_n_tensors(ck);
    qn_net *n = calloc(1, sizeof *n);
    binder b = {.ck = ck, .net = n, .err = err};
    if (!n) return qn_fail(err, QN_NOMEM, "no memory for the network");
    b.st = qn_arch_from_config(&n->arch, qn_ckpt_config(ck), err);
    if (!b.st) {
        n->layers = calloc(n->arch.n_layers, sizeof *n->layers);
        n->weights = calloc(n_tensors + 1, sizeof *n->weights);
        b.taken = calloc(n_tensors + 1, 1);
        if (!n->layers || !n->weights || !b.taken)
            b.st = qn_fail(err, QN_NOMEM, "no memory for the table of %zu tensors", n_tensors);
    }
    if (!b.st) bind_all(&b);
    free(b.taken);
    if (b.st) {
        qn_net_destroy(n);
        return b.st;
    }
    *out = n;
    return QN_OK;
}

void qn_net_destroy(qn_net *n)
{
    if (!n) return;
    free(n->layers);
    free(n->weights);
    free(n);
}
