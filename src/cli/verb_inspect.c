/* verb_inspect.c - `quern inspect`: architecture, geometry, tensors by group with format, shape, bytes; what
 * would be refused. Needs no tokenizer. A checkpoint that the model room refuses is still listed, with the
 * reason, and the exit status is 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/config.h"
#include "cli/verbs.h"
#include "model/model.h"

static json_t *arch_json(const qn_arch *a)
{
    json_t *kinds = json_array();
    for (uint32_t i = 0; i < a->n_layers; i++)
        json_array_append_new(kinds, json_string(a->is_attn[i] ? "full_attention" : "linear_attention"));
    json_t *o = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "family", a->family, "layers",
        (json_int_t)a->n_layers, "hidden", (json_int_t)a->hidden, "mlp", (json_int_t)a->mlp, "vocab",
        (json_int_t)a->vocab, "context", (json_int_t)a->context, "q_heads", (json_int_t)a->n_q, "kv_heads",
        (json_int_t)a->n_kv, "head_dim", (json_int_t)a->head_dim, "rotary_dim", (json_int_t)a->rotary_dim,
        "rope_theta", a->rope_theta, "norm_eps", (double)a->norm_eps);
    json_t *g = json_pack("{s:I, s:I, s:I, s:I, s:I, s:s}", "key_heads", (json_int_t)a->gdn_n_k,
                          "value_heads", (json_int_t)a->gdn_n_v, "key_dim", (json_int_t)a->gdn_dk,
                          "value_dim", (json_int_t)a->gdn_dv, "conv_kernel", (json_int_t)a->conv_kernel,
                          "head_rule", a->head_rule == QN_HEADS_GROUPED ? "grouped" : "tiled");
    json_object_set_new(o, "gdn", g);
    json_object_set_new(o, "layer_types", kinds);
    json_object_set_new(o, "tied", json_boolean(a->tied));
    json_object_set_new(o, "draft_head", json_boolean(a->has_mtp));
    return o;
}

static json_t *shape_json(const qn_ckpt_tensor *t)
{
    json_t *s = json_array();
    for (uint32_t i = 0; i < t->n_dims; i++) json_array_append_new(s, json_integer((json_int_t)t->dims[i]));
    return s;
}

static json_t *tensors_json(const qn_ckpt *ck, const qn_net *net)
{
    json_t *list = json_array();
    for (size_t i = 0; i < qn_ckpt_n_tensors(ck); i++) {
        const qn_ckpt_tensor *t = qn_ckpt_at(ck, i);
        const char *group = NULL;
        for (uint32_t k = 0; net && k < net->n_weights && !group; k++)
            if (net->weights[k].name == t->name) group = qn_group_name(net->weights[k].group);
        json_t *o = json_pack("{s:s, s:s?, s:s, s:o, s:I, s:s}", "name", t->name, "group", group, "format",
                              qn_dtype_get(t->dtype)->name, "shape", shape_json(t), "bytes",
                              (json_int_t)t->n_bytes, "file", t->file);
        json_array_append_new(list, o ? o : json_null());
    }
    return list;
}

/* The census: per group the number of tensors, the bytes and how many tensors have each format. */
static json_t *groups_json(const json_t *tensors)
{
    json_t *groups = json_object();
    for (int g = 0; g < QN_GROUP_COUNT; g++) {
        json_int_t n = 0, bytes = 0;
        json_t *formats = json_object();
        size_t i;
        json_t *t;
        json_array_foreach(tensors, i, t)
        {
            const char *group = json_string_value(json_object_get(t, "group"));
            if (!group || strcmp(group, qn_group_name((qn_group)g)) != 0) continue;
            const char *f = json_string_value(json_object_get(t, "format"));
            n++;
            bytes += json_integer_value(json_object_get(t, "bytes"));
            json_object_set_new(formats, f,
                                json_integer(json_integer_value(json_object_get(formats, f)) + 1));
        }
        if (n)
            json_object_set_new(
                groups, qn_group_name((qn_group)g),
                json_pack("{s:I, s:I, s:o}", "tensors", n, "bytes", bytes, "formats", formats));
        else
            json_decref(formats);
    }
    return groups;
}

static void print_text(const json_t *r)
{
    const char *name;
    json_t *v, *arch = json_object_get(r, "architecture");
    json_object_foreach(arch, name, v)
    {
        if (json_is_array(v)) continue;
        char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        printf("%-12s %s\n", name, text ? text : "?");
        free(text);
    }
    json_object_foreach(json_object_get(r, "groups"), name, v)
    {
        char *formats = json_dumps(json_object_get(v, "formats"), 0);
        printf("group %-12s %5lld tensors %15lld bytes  %s\n", name,
               (long long)json_integer_value(json_object_get(v, "tensors")),
               (long long)json_integer_value(json_object_get(v, "bytes")), formats ? formats : "?");
        free(formats);
    }
    size_t i;
    json_array_foreach(json_object_get(r, "tensors"), i, v)
    {
        char *shape = json_dumps(json_object_get(v, "shape"), 0);
        const char *group = json_string_value(json_object_get(v, "group"));
        printf("tensor %-64s %-12s %-8s %-20s %lld\n", json_string_value(json_object_get(v, "name")),
               group ? group : "-", json_string_value(json_object_get(v, "format")), shape ? shape : "?",
               (long long)json_integer_value(json_object_get(v, "bytes")));
        free(shape);
    }
    const char *refused = json_string_value(json_object_get(r, "refused"));
    printf("refused      %s\n", refused ? refused : "nothing");
}

int qn_verb_inspect(int argc, char **argv)
{
    bool as_json = false;
    qn_option options[] = {{"json", QN_OPT_FLAG, &as_json, 0, 0, NULL, "print JSON", NULL}};
    qn_config c;
    qn_error err;
    qn_ckpt *ck = NULL;
    qn_net *net = NULL;
    int rc = qn_cli_start(&c, options, 1, argc, argv, "quern inspect MODEL", 1, 1, &err);
    if (rc >= 0) return rc;
    qn_status st = qn_ckpt_open(&ck, c.words[0], &err);
    if (st) {
        qn_config_deinit(&c);
        return qn_cli_error(&err);
    }
    qn_status refused = qn_net_bind(&net, ck, &err);
    json_t *tensors = tensors_json(ck, net);
    json_t *r = json_pack("{s:s, s:o, s:o, s:o, s:s?}", "path", qn_ckpt_path(ck), "architecture",
                          net ? arch_json(&net->arch) : json_null(), "groups", groups_json(tensors),
                          "tensors", tensors, "refused", refused ? err.msg : NULL);
    if (as_json) {
        json_dumpf(r, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        putchar('\n');
    } else {
        print_text(r);
    }
    json_decref(r);
    qn_net_destroy(net);
    qn_ckpt_close(ck);
    qn_config_deinit(&c);
    if (refused) return qn_cli_error(&err);
    return 0;
}
