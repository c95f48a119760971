/* cost.c - the bytes each op must read and write and the operations it does. Plans predict from these, the
 * laboratory accounts with them; each weight byte counts once per step, each product once however it is
 * split. */
#include "program/program.h"

/* Bytes of a rank's part of a weight, in the format it came with. */
static uint64_t part_bytes(const qn_program *p, uint32_t ref)
{
    const qn_weight_ref *r = &p->weights[ref];
    const qn_dtype_info *f = qn_dtype_get(p->net->weights[r->weight].dtype);
    return (uint64_t)r->rows * (r->cols / f->lanes * f->bytes);
}

static uint64_t buffer_bytes(const qn_program *p, uint32_t b, uint64_t n_rows)
{
    return 4 * n_rows * p->buffers[b].cols;
}

qn_op_cost qn_program_cost(const qn_program *p, uint32_t i, uint32_t n_rows, uint64_t depth,
                           uint32_t kv_bytes)
{
    const qn_op *op = &p->ops[i];
    uint64_t rows = n_rows;
    qn_op_cost c = {0};
    for (uint32_t k = 0; k < op->n_in; k++) c.act_bytes += buffer_bytes(p, op->in[k], rows);
    for (uint32_t k = 0; k < op->n_out; k++) c.act_bytes += buffer_bytes(p, op->out[k], rows);
    for (uint32_t k = 0; k < op->n_w; k++) c.weight_bytes += part_bytes(p, op->w[k]);
    switch (op->kind) {
    case QN_OP_EMBED: /* only the rows that are asked for */
        c.weight_bytes = rows * (part_bytes(p, op->w[0]) / p->weights[op->w[0]].rows);
        break;
    case QN_OP_LINEAR:
    case QN_OP_LOGITS: c.operations = 2 * rows * p->weights[op->w[0]].rows * p->weights[op->w[0]].cols; break;
    case QN_OP_QK_ROPE_APPEND: /* k and v go into the cache */
        c.state_bytes = 2 * rows * op->n_kv * op->head_dim * kv_bytes;
        c.operations = rows * (op->n_q + op->n_kv) * (4 * op->head_dim + 3 * op->rotary_dim);
        break;
    case QN_OP_ATTENTION: /* every row reads its own depth and itself */
        c.state_bytes = 2 * rows * (depth + 1) * op->n_kv * op->head_dim * kv_bytes;
        c.operations = 4 * rows * (depth + 1) * op->n_q * op->head_dim;
        break;
    case QN_OP_CONV_SILU: /* the window is read and written once per step and sequence; here: one sequence */
        c.state_bytes = 2 * 4 * (uint64_t)(op->kernel - 1) * p->buffers[op->in[0]].cols;
        c.operations = 2 * rows * op->kernel * p->buffers[op->in[0]].cols;
        break;
    case QN_OP_GDN_STEP:
    case QN_OP_GDN_CHUNK: /* R1 to R5 are 7 operations per element of the state */
        c.state_bytes = 2 * 4 * (uint64_t)op->n_v * op->dk * op->dv;
        c.operations = 7 * rows * op->n_v * op->dk * op->dv;
        break;
    default:
        for (uint32_t k = 0; k < op->n_out; k++) c.operations += 4 * rows * p->buffers[op->out[k]].cols;
        break;
    }
    return c;
}
