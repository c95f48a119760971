/* print.c - the program as text and as JSON: op id, op, name, shapes, formats, bytes, operations. Costs are
 * those of one sequence at depth 0 with all rows live and an f16 cache. */
#include <string.h>

#include "base/buf.h"
#include "program/program.h"

static const char *const op_names[QN_OP_COUNT] = {
    [QN_OP_EMBED] = "embed",
    [QN_OP_RMSNORM] = "rmsnorm",
    [QN_OP_LINEAR] = "linear",
    [QN_OP_QK_ROPE_APPEND] = "qk_rope_append",
    [QN_OP_ATTENTION] = "attention",
    [QN_OP_SIGMOID_GATE] = "sigmoid_gate",
    [QN_OP_CONV_SILU] = "conv_silu",
    [QN_OP_GDN_GATES] = "gdn_gates",
    [QN_OP_GDN_STEP] = "gdn_step",
    [QN_OP_GDN_CHUNK] = "gdn_chunk",
    [QN_OP_GATED_RMSNORM] = "gated_rmsnorm",
    [QN_OP_SILU_MUL] = "silu_mul",
    [QN_OP_ALL_REDUCE] = "all_reduce",
    [QN_OP_ALL_GATHER] = "all_gather",
    [QN_OP_ROW_GATHER] = "row_gather",
    [QN_OP_KEEP_HIDDEN] = "keep_hidden",
    [QN_OP_MTP_INPUT] = "mtp_input",
    [QN_OP_LOGITS] = "logits",
};

const char *qn_op_name(qn_op_kind k)
{
    return (unsigned)k < QN_OP_COUNT ? op_names[k] : "?";
}

static const char *const bucket_names[] = {"decode", "verify", "prefill", "draft"};

#define F16_BYTES 2

static json_t *buffers_json(const qn_program *p, const uint32_t *ids, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++) {
        const qn_buffer *b = &p->buffers[ids[i]];
        json_array_append_new(list, json_pack("{s:s, s:[s, I]}", "buffer", b->name, "shape",
                                              b->rows == QN_ROWS_STEP ? "rows" : "logit_rows",
                                              (json_int_t)b->cols));
    }
    return list;
}

static json_t *weights_json(const qn_program *p, const qn_op *op)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < op->n_w; i++) {
        const qn_weight_ref *r = &p->weights[op->w[i]];
        const qn_weight *w = &p->net->weights[r->weight];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:[I, I]}", "name", w->name, "group",
                                              qn_group_name(w->group), "format", qn_dtype_get(w->dtype)->name,
                                              "shape", (json_int_t)r->rows, (json_int_t)r->cols));
    }
    return list;
}

static json_t *attributes_json(const qn_op *op)
{
    json_t *a = json_object();
    const struct {
        const char *name;
        uint32_t value;
    } counts[] = {{"n_q", op->n_q},
                  {"n_kv", op->n_kv},
                  {"head_dim", op->head_dim},
                  {"rotary_dim", op->rotary_dim},
                  {"n_k", op->n_k},
                  {"n_v", op->n_v},
                  {"dk", op->dk},
                  {"dv", op->dv},
                  {"kernel", op->kernel}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i].value) json_object_set_new(a, counts[i].name, json_integer(counts[i].value));
    if (op->n_k)
        json_object_set_new(a, "head_rule",
                            json_string(op->head_rule == QN_HEADS_GROUPED ? "grouped" : "tiled"));
    return a;
}

json_t *qn_program_json(const qn_program *p)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const qn_op *op = &p->ops[i];
        qn_op_cost c = qn_program_cost(p, i, p->bucket.rows, 0, F16_BYTES);
        json_t *o = json_pack("{s:I, s:s, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I}", "id", (json_int_t)i, "op",
                              qn_op_name(op->kind), "in", buffers_json(p, op->in, op->n_in), "out",
                              buffers_json(p, op->out, op->n_out), "weights", weights_json(p, op),
                              "attributes", attributes_json(op), "weight_bytes", (json_int_t)c.weight_bytes,
                              "state_bytes", (json_int_t)c.state_bytes, "activation_bytes",
                              (json_int_t)c.act_bytes, "operations", (json_int_t)c.operations);
        if (o && op->layer != QN_NO_LAYER) json_object_set_new(o, "layer", json_integer(op->layer));
        json_array_append_new(list, o);
    }
    return json_pack("{s:i, s:s, s:I, s:I, s:I, s:o}", "program_version", 1, "bucket",
                     bucket_names[p->bucket.kind], "rows", (json_int_t)p->bucket.rows, "rank",
                     (json_int_t)p->rank, "ranks", (json_int_t)p->n_ranks, "ops", list);
}

static void print_buffers(const qn_program *p, qn_buf *out, const uint32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const qn_buffer *b = &p->buffers[ids[i]];
        qn_buf_printf(out, "%s%s[%s%u]", i ? ", " : "", b->name, b->rows == QN_ROWS_STEP ? "" : "logits ",
                      b->cols);
    }
}

qn_status qn_program_print(const qn_program *p, qn_buf *out, qn_error *err)
{
    qn_op_cost sum = {0};
    qn_buf_printf(
        out,
        "# bucket %s, %u rows, rank %u of %u; shapes are [columns] per row; bytes and operations of one step\n",
        bucket_names[p->bucket.kind], p->bucket.rows, p->rank, p->n_ranks);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const qn_op *op = &p->ops[i];
        qn_op_cost c = qn_program_cost(p, i, p->bucket.rows, 0, F16_BYTES);
        sum.weight_bytes += c.weight_bytes;
        sum.state_bytes += c.state_bytes;
        sum.operations += c.operations;
        qn_buf_printf(out, "%4u  ", i);
        if (op->layer == QN_NO_LAYER)
            qn_buf_str(out, "  -  ");
        else
            qn_buf_printf(out, "L%-3u ", op->layer);
        qn_buf_printf(out, "%-14s ", qn_op_name(op->kind));
        print_buffers(p, out, op->in, op->n_in);
        qn_buf_str(out, " -> ");
        print_buffers(p, out, op->out, op->n_out);
        for (uint32_t k = 0; k < op->n_w; k++) {
            const qn_weight_ref *r = &p->weights[op->w[k]];
            const qn_weight *w = &p->net->weights[r->weight];
            qn_buf_printf(out, "  %s %s[%u, %u]", w->name, qn_dtype_get(w->dtype)->name, r->rows, r->cols);
        }
        qn_buf_printf(out, "  weights %llu B, state %llu B, %llu ops\n", (unsigned long long)c.weight_bytes,
                      (unsigned long long)c.state_bytes, (unsigned long long)c.operations);
    }
    qn_buf_printf(out, "# %u ops, weights %llu B, state %llu B, %llu operations\n", p->n_ops,
                  (unsigned long long)sum.weight_bytes, (unsigned long long)sum.state_bytes,
                  (unsigned long long)sum.operations);
    return qn_buf_status(out, "the printed program", err);
}
