/* arch.c - the architecture's numbers from config.json. Every number is bounded here, so that later products
 * of shapes cannot overflow; every choice that this version does not make is refused by name. */
#include <math.h>
#include <string.h>

#include "model/model.h"

/* Where a field may stand: the text configuration first, then the top level. */
typedef struct fields {
    const json_t *text; /* text_config, or the top level itself */
    const json_t *top;
} fields;

static const json_t *field(const fields *f, const char *name)
{
    const json_t *v = json_object_get(f->text, name);
    if (!v || json_is_null(v)) v = json_object_get(f->top, name);
    return v && !json_is_null(v) ? v : NULL;
}

/* An integer within [lo, hi]; fallback < 0: the field must be there. */
static qn_status count(const fields *f, const char *name, int64_t lo, int64_t hi, int64_t fallback,
                       uint32_t *out, qn_error *err)
{
    const json_t *v = field(f, name);
    if (!v && fallback >= 0) return *out = (uint32_t)fallback, QN_OK;
    if (!v) return qn_fail(err, QN_CORRUPT, "config.json: field '%s' is missing", name);
    if (!json_is_integer(v))
        return qn_fail(err, QN_CORRUPT, "config.json: field '%s' is not an integer", name);
    json_int_t n = json_integer_value(v);
    if (n < lo || n > hi)
        return qn_fail(err, QN_CORRUPT, "config.json: field '%s' is %lld, outside %lld .. %lld", name,
                       (long long)n, (long long)lo, (long long)hi);
    *out = (uint32_t)n;
    return QN_OK;
}

static qn_status real(const json_t *v, const char *name, double lo, double hi, double fallback, double *out,
                      qn_error *err)
{
    if (!v || json_is_null(v)) return *out = fallback, QN_OK;
    if (!json_is_number(v)) return qn_fail(err, QN_CORRUPT, "config.json: field '%s' is not a number", name);
    double d = json_number_value(v);
    if (!(d >= lo && d <= hi))
        return qn_fail(err, QN_CORRUPT, "config.json: field '%s' is %g, outside %g .. %g", name, d, lo, hi);
    *out = d;
    return QN_OK;
}

/* A boolean that must have one value, the only one this family has. */
static qn_status only(const fields *f, const char *name, bool value, qn_error *err)
{
    const json_t *v = field(f, name);
    if (!v || (json_is_boolean(v) && json_is_true(v) == value)) return QN_OK;
    return qn_fail(err, QN_UNSUPPORTED, "config.json: '%s' must be %s", name, value ? "true" : "false");
}

static qn_status string(const json_t *v, const char *name, const char **out, qn_error *err)
{
    *out = NULL;
    if (!v || json_is_null(v)) return QN_OK;
    if (!json_is_string(v)) return qn_fail(err, QN_CORRUPT, "config.json: field '%s' is not a string", name);
    *out = json_string_value(v);
    return QN_OK;
}

static qn_status family(const fields *f, qn_arch *a, qn_error *err)
{
    const char *type;
    char shown[80];
    qn_status st = string(json_object_get(f->text, "model_type"), "model_type", &type, err);
    if (st) return st;
    if (!type) return qn_fail(err, QN_CORRUPT, "config.json: field 'model_type' is missing");
    if (strcmp(type, "qwen3_5_text") == 0 || strcmp(type, "qwen3_5") == 0) return a->family = "qwen35", QN_OK;
    qn_printable(shown, sizeof shown, type, strlen(type));
    if (strncmp(type, "qwen3_5_moe", 11) == 0)
        return qn_fail(err, QN_UNSUPPORTED,
                       "config.json: model_type '%s': mixture-of-experts members are not supported", shown);
    return qn_fail(err, QN_UNSUPPORTED,
                   "config.json: model_type '%s' is not known; this version has qwen3_5 and qwen3_5_text",
                   shown);
}

static qn_status rope(const fields *f, qn_arch *a, qn_error *err)
{
    const json_t *p = field(f, "rope_parameters");
    if (!p) p = field(f, "rope_scaling");
    if (p && !json_is_object(p))
        return qn_fail(err, QN_CORRUPT, "config.json: field 'rope_parameters' is not an object");
    const char *type;
    const json_t *t = json_object_get(p, "rope_type");
    qn_status st = string(t ? t : json_object_get(p, "type"), "rope_type", &type, err);
    if (st) return st;
    if (type && strcmp(type, "default") != 0 && strcmp(type, "mrope") != 0) {
        char shown[80];
        return qn_fail(err, QN_UNSUPPORTED, "config.json: rope_type '%s' is not supported; only 'default' is",
                       qn_printable(shown, sizeof shown, type, strlen(type)));
    }
    const json_t *theta = json_object_get(p, "rope_theta"),
                 *part = json_object_get(p, "partial_rotary_factor");
    double factor = 0;
    st = real(theta ? theta : field(f, "rope_theta"), "rope_theta", 1, 1e12, 1e7, &a->rope_theta, err);
    if (!st)
        st = real(part ? part : field(f, "partial_rotary_factor"), "partial_rotary_factor", 0, 1, 0.25,
                  &factor, err);
    if (st) return st;
    a->rotary_dim = (uint32_t)(a->head_dim * factor);
    if (a->rotary_dim < 2 || a->rotary_dim % 2)
        return qn_fail(
            err, QN_CORRUPT,
            "config.json: head_dim %u x partial_rotary_factor %g is not an even number of 2 or more",
            a->head_dim, factor);
    return QN_OK;
}

static qn_status layer_kinds(const fields *f, qn_arch *a, qn_error *err)
{
    const json_t *types = field(f, "layer_types");
    uint32_t interval = 4;
    qn_status st = count(f, "full_attention_interval", 1, QN_MAX_LAYERS, 4, &interval, err);
    if (st) return st;
    if (types && (!json_is_array(types) || json_array_size(types) != a->n_layers))
        return qn_fail(err, QN_CORRUPT,
                       "config.json: 'layer_types' must be a list of %u entries (num_hidden_layers)",
                       a->n_layers);
    for (uint32_t i = 0; i < a->n_layers; i++) {
        if (types) {
            const char *kind = json_string_value(json_array_get(types, i));
            if (kind && strcmp(kind, "full_attention") == 0)
                a->is_attn[i] = 1;
            else if (!kind || strcmp(kind, "linear_attention") != 0)
                return qn_fail(err, QN_UNSUPPORTED,
                               "config.json: layer_types[%u] must be 'linear_attention' or 'full_attention'",
                               i);
        } else {
            a->is_attn[i] = (i + 1) % interval == 0;
        }
        if (a->is_attn[i])
            a->n_attn++;
        else
            a->n_gdn++;
    }
    return QN_OK;
}

static qn_status activations(const fields *f, qn_arch *a, qn_error *err)
{
    const char *act, *gate;
    char shown[80];
    qn_status st = string(field(f, "hidden_act"), "hidden_act", &act, err);
    if (!st) st = string(field(f, "output_gate_type"), "output_gate_type", &gate, err);
    if (st) return st;
    if (act && strcmp(act, "silu") != 0)
        return qn_fail(err, QN_UNSUPPORTED, "config.json: hidden_act '%s' is not supported; only 'silu' is",
                       qn_printable(shown, sizeof shown, act, strlen(act)));
    if (!gate || strcmp(gate, "swish") == 0 || strcmp(gate, "silu") == 0)
        a->gdn_gate = QN_GATE_SILU;
    else if (strcmp(gate, "sigmoid") == 0)
        a->gdn_gate = QN_GATE_SIGMOID;
    else
        return qn_fail(err, QN_UNSUPPORTED, "config.json: output_gate_type '%s' is not known",
                       qn_printable(shown, sizeof shown, gate, strlen(gate)));
    return QN_OK;
}

qn_status qn_arch_from_config(qn_arch *a, const json_t *config, qn_error *err)
{
    memset(a, 0, sizeof *a);
    const json_t *text = json_object_get(config, "text_config");
    if (text && !json_is_object(text))
        return qn_fail(err, QN_CORRUPT, "config.json: 'text_config' is not an object");
    fields f = {text ? text : config, config};
    qn_status st = family(&f, a, err);
    /* the bounds are generous; their products stay far below 2^63 */
    if (!st) st = count(&f, "num_hidden_layers", 1, QN_MAX_LAYERS, -1, &a->n_layers, err);
    if (!st) st = count(&f, "hidden_size", 1, 1 << 16, -1, &a->hidden, err);
    if (!st) st = count(&f, "intermediate_size", 1, 1 << 20, -1, &a->mlp, err);
    if (!st) st = count(&f, "vocab_size", 1, 1 << 22, -1, &a->vocab, err);
    if (!st) st = count(&f, "max_position_embeddings", 1, 1 << 24, -1, &a->context, err);
    if (!st) st = count(&f, "num_attention_heads", 1, 1024, -1, &a->n_q, err);
    if (!st) st = count(&f, "num_key_value_heads", 1, 1024, -1, &a->n_kv, err);
    if (!st) st = count(&f, "head_dim", 2, 1024, 256, &a->head_dim, err);
    if (!st) st = count(&f, "linear_num_key_heads", 1, 1024, -1, &a->gdn_n_k, err);
    if (!st) st = count(&f, "linear_num_value_heads", 1, 1024, -1, &a->gdn_n_v, err);
    if (!st) st = count(&f, "linear_key_head_dim", 1, 1024, -1, &a->gdn_dk, err);
    if (!st) st = count(&f, "linear_value_head_dim", 1, 1024, -1, &a->gdn_dv, err);
    if (!st) st = count(&f, "linear_conv_kernel_dim", 2, 16, 4, &a->conv_kernel, err);
    if (!st && a->n_q % a->n_kv)
        st = qn_fail(err, QN_CORRUPT, "config.json: %u attention heads do not divide into %u key/value heads",
                     a->n_q, a->n_kv);
    if (!st && a->gdn_n_v % a->gdn_n_k)
        st = qn_fail(err, QN_CORRUPT, "config.json: %u linear value heads do not divide into %u key heads",
                     a->gdn_n_v, a->gdn_n_k);
    double eps = 0;
    if (!st) st = real(field(&f, "rms_norm_eps"), "rms_norm_eps", 1e-12, 1, 1e-6, &eps, err);
    if (!st) st = only(&f, "attn_output_gate", true, err);
    if (!st) st = only(&f, "attention_bias", false, err);
    if (!st) st = only(&f, "mtp_use_dedicated_embeddings", false, err);
    if (!st) st = activations(&f, a, err);
    if (!st) st = rope(&f, a, err);
    if (!st) st = layer_kinds(&f, a, err);
    if (st) return st;
    const json_t *tied = field(&f, "tie_word_embeddings");
    if (tied && !json_is_boolean(tied))
        return qn_fail(err, QN_CORRUPT, "config.json: 'tie_word_embeddings' is not true or false");
    a->tied = json_is_true(tied);
    a->norm_eps = (float)eps;
    a->l2_eps = 1e-6f;  /* a constant of the reference, whatever rms_norm_eps says */
    a->norm_offset = 1; /* safetensors hold the weights of zero-centred norms near 0 */
    a->head_rule = QN_HEADS_GROUPED;
    a->decay_is_log = true;
    return QN_OK;
}
