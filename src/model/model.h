/* model.h - from a checkpoint to named, shaped weights: the architecture's numbers and one struct field per
 * tensor.
 *
 * Binding turns names into fields once and proves every shape; no string look-up happens afterwards. A model
 * borrows the checkpoint, which must outlive it. Immutable after binding: any thread.
 * Source of names and shapes: docs/models/qwen35.md. */
#ifndef QN_MODEL_MODEL_H
#define QN_MODEL_MODEL_H

#include "formats/checkpoint.h"

#define QN_MAX_LAYERS 512

/* Fixed names of tensor groups: policies, plans and records speak of these. */
typedef enum qn_group {
    QN_GROUP_EMBED,
    QN_GROUP_HEAD,
    QN_GROUP_ATTN_QKV,
    QN_GROUP_ATTN_OUT,
    QN_GROUP_GDN_IN, /* qkv, z */
    QN_GROUP_GDN_OUT,
    QN_GROUP_GDN_SMALL, /* a, b, conv, A_log, dt_bias: never converted by group */
    QN_GROUP_MLP_GATE_UP,
    QN_GROUP_MLP_DOWN,
    QN_GROUP_MTP,
    QN_GROUP_NORMS,
    QN_GROUP_SKIPPED, /* vision tensors, an unused head, an incomplete MTP layer */
    QN_GROUP_COUNT
} qn_group;
const char *qn_group_name(qn_group g); /* "embed", "attn_qkv", ... */

/* Which key head a value head of Gated DeltaNet uses. */
typedef enum qn_head_rule {
    QN_HEADS_GROUPED, /* j / (n_v / n_k): safetensors */
    QN_HEADS_TILED    /* j mod n_k: GGUF */
} qn_head_rule;

typedef enum qn_gate_act { QN_GATE_SILU, QN_GATE_SIGMOID } qn_gate_act;

typedef struct qn_arch {
    uint32_t n_layers, hidden, mlp, vocab, context;
    uint32_t n_q, n_kv, head_dim; /* gated attention */
    uint32_t rotary_dim;          /* even, <= head_dim */
    double rope_theta;
    float norm_eps;    /* RMSNorms */
    float l2_eps;      /* normalisation of GDN queries and keys */
    float norm_offset; /* zero-centred norms multiply by (offset + w): 1 for safetensors, 0 for GGUF */
    uint32_t gdn_n_k, gdn_n_v, gdn_dk, gdn_dv, conv_kernel;
    qn_head_rule head_rule;
    bool decay_is_log;      /* A holds A_log (decay = -exp(A)); false: A is the decay already */
    qn_gate_act gdn_gate;   /* activation of z */
    bool tied;              /* the head is the embedding */
    bool has_mtp;           /* all tensors of the MTP layer are there */
    uint32_t n_attn, n_gdn; /* layers of each kind, MTP not counted */
    uint8_t is_attn[QN_MAX_LAYERS];
    const char *family; /* "qwen35" */
} qn_arch;

static inline uint32_t qn_arch_conv_dim(const qn_arch *a)
{
    return 2 * a->gdn_n_k * a->gdn_dk + a->gdn_n_v * a->gdn_dv;
}

/* One weight: a matrix [rows][cols] (a vector has rows = 1), cols contiguous, in the format it came with. */
typedef struct qn_weight {
    const char *name; /* as in the checkpoint */
    qn_group group;
    qn_dtype dtype;
    uint32_t rows, cols;
    const void *data; /* rows x cols elements, any alignment */
    uint64_t n_bytes;
} qn_weight;

typedef uint32_t qn_weight_id; /* index into qn_model_weight; QN_NO_WEIGHT: absent */
#define QN_NO_WEIGHT UINT32_MAX

typedef struct qn_attn_weights {
    qn_weight_id q;              /* [n_q*2*head_dim][hidden], per head query then gate */
    qn_weight_id k, v;           /* [n_kv*head_dim][hidden] */
    qn_weight_id o;              /* [hidden][n_q*head_dim] */
    qn_weight_id q_norm, k_norm; /* [head_dim] */
} qn_attn_weights;

typedef struct qn_gdn_weights {
    qn_weight_id qkv;            /* [conv_dim][hidden]: q, k, v rows */
    qn_weight_id z;              /* [n_v*dv][hidden] */
    qn_weight_id a, b;           /* [n_v][hidden] */
    qn_weight_id conv;           /* [conv_dim][kernel], last tap = current token */
    qn_weight_id a_log, dt_bias; /* [n_v] */
    qn_weight_id norm;           /* [dv], plain */
    qn_weight_id out;            /* [hidden][n_v*dv] */
} qn_gdn_weights;

typedef struct qn_layer_weights {
    qn_weight_id in_norm, post_norm; /* [hidden] */
    qn_attn_weights attn;            /* when is_attn */
    qn_gdn_weights gdn;              /* otherwise */
    qn_weight_id gate, up;           /* [mlp][hidden] */
    qn_weight_id down;               /* [hidden][mlp] */
} qn_layer_weights;

typedef struct qn_mtp_weights {
    qn_weight_id fc;                            /* [hidden][2*hidden]: embedding half first */
    qn_weight_id embed_norm, hidden_norm, norm; /* [hidden] */
    qn_layer_weights layer;                     /* gated attention */
} qn_mtp_weights;

typedef struct qn_net qn_net; /* the bound network */

struct qn_net {
    qn_arch arch;
    qn_weight_id embed;       /* [vocab][hidden] */
    qn_weight_id head;        /* [vocab][hidden]; equals embed when tied */
    qn_weight_id norm;        /* [hidden] */
    qn_layer_weights *layers; /* [n_layers] */
    qn_mtp_weights mtp;       /* when arch.has_mtp */
    qn_weight *weights;       /* [n_weights], skipped tensors last */
    uint32_t n_weights;       /* all, skipped included */
    uint32_t n_used;          /* those before the skipped ones */
};

/* Read the architecture from config.json's object. Unknown families, activations and rope types are refused
 * by name. */
qn_status qn_arch_from_config(qn_arch *a, const json_t *config, qn_error *err) QN_CHECKED;

/* Bind the checkpoint's tensors. Refuses missing tensors, wrong shapes and formats that quern does not
 * compute with, each by name. MTP tensors are bound when the whole group is there, else skipped. */
qn_status qn_net_bind(qn_net **out, const qn_ckpt *ck, qn_error *err) QN_CHECKED;
void qn_net_destroy(qn_net *n);

#endif
