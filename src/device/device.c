/* device.c - opening a device by its string, and the check of step inputs that every device relies on. */
#include "device/device.h"

#include <string.h>

#include "device/cpu/cpu.h"

qn_status qn_device_open(qn_device **out, const qn_device_options *o, qn_error *err)
{
    const char *name = o->device ? o->device : "cpu";
    *out = NULL;
    if (strcmp(name, "cpu") == 0) return qn_cpu_open(out, o, err);
    char shown[64];
    return qn_fail(err, QN_USAGE, "unknown device '%s'; there are: cpu",
                   qn_printable(shown, sizeof shown, name, strlen(name)));
}

/* QN_INVALID with the field's name in both places. */
#define REFUSE(err, field_args, ...)                                                                         \
    (qn_fail(err, QN_INVALID, __VA_ARGS__), qn_error_field field_args, QN_INVALID)

static qn_status check_seq(const qn_program *p, const qn_reserve *r, const qn_step_seq *s, uint32_t i,
                           uint32_t row, uint32_t n_rows, qn_error *err)
{
    if (s->first_row != row)
        return REFUSE(err, (err, "seqs[%u].first_row", i),
                      "seqs[%u].first_row is %u, the sequences before it end at row %u", i, s->first_row,
                      row);
    if (s->n_rows < 1 || s->n_rows > n_rows - row)
        return REFUSE(err, (err, "seqs[%u].n_rows", i), "seqs[%u].n_rows is %u; from row %u on there are %u",
                      i, s->n_rows, row, n_rows - row);
    if (s->position > UINT32_MAX - s->n_rows)
        return REFUSE(err, (err, "seqs[%u].position", i), "seqs[%u].position %u + %u rows overflows", i,
                      s->position, s->n_rows);
    if (p->bucket.kind == QN_BUCKET_PREFILL && s->position % QN_GRID)
        return REFUSE(err, (err, "seqs[%u].position", i),
                      "seqs[%u].position %u is not a multiple of %d, as a prefill needs", i, s->position,
                      QN_GRID);
    if (r->state.n_gdn_layers && s->slot >= r->n_slots)
        return REFUSE(err, (err, "seqs[%u].slot", i), "seqs[%u].slot is %u, there are %u", i, s->slot,
                      r->n_slots);
    if (!r->state.n_kv_layers) return QN_OK;
    uint32_t need = (s->position + s->n_rows - 1) / QN_PAGE_TOKENS + 1;
    if (!s->pages || s->n_pages < need)
        return REFUSE(err, (err, "seqs[%u].n_pages", i), "seqs[%u].n_pages is %u, positions up to %u need %u",
                      i, s->pages ? s->n_pages : 0, s->position + s->n_rows - 1, need);
    for (uint32_t k = 0; k < need; k++)
        if (s->pages[k] >= r->n_pages)
            return REFUSE(err, (err, "seqs[%u].pages[%u]", i, k), "seqs[%u].pages[%u] is %u, there are %u", i,
                          k, s->pages[k], r->n_pages);
    return QN_OK;
}

/* The page that holds position k*64 of s is written in this step. */
static bool writes(const qn_step_seq *s, uint32_t page)
{
    for (uint32_t k = s->position / QN_PAGE_TOKENS; k <= (s->position + s->n_rows - 1) / QN_PAGE_TOKENS; k++)
        if (s->pages[k] == page) return true;
    return false;
}

/* Two sequences that write to one place would race. Only pages that are written are compared: a shared prefix
 * is read by many, and walking every page table against every other would cost more than a decode step of a
 * small model. */
static qn_status check_apart(const qn_reserve *r, const qn_step_seq *a, const qn_step_seq *b, uint32_t i,
                             uint32_t j, qn_error *err)
{
    if (r->state.n_gdn_layers && a->slot == b->slot)
        return REFUSE(err, (err, "seqs[%u].slot", j), "seqs[%u].slot %u is that of seqs[%u]", j, b->slot, i);
    if (!r->state.n_kv_layers) return QN_OK;
    for (uint32_t k = b->position / QN_PAGE_TOKENS; k <= (b->position + b->n_rows - 1) / QN_PAGE_TOKENS; k++)
        if (writes(a, b->pages[k]))
            return REFUSE(err, (err, "seqs[%u].pages[%u]", j, k),
                          "seqs[%u].pages[%u] is page %u, which seqs[%u] writes too", j, k, b->pages[k], i);
    return QN_OK;
}

qn_status qn_step_inputs_check(const qn_program *p, const qn_reserve *r, const qn_step_inputs *in,
                               qn_error *err)
{
    uint32_t vocab = p->net->arch.vocab, row = 0;
    if (in->n_rows < 1 || in->n_rows > p->bucket.rows)
        return REFUSE(err, (err, "n_rows"), "n_rows is %u, the program takes 1 to %u", in->n_rows,
                      p->bucket.rows);
    if (!in->tokens) return REFUSE(err, (err, "tokens"), "tokens are missing");
    for (uint32_t i = 0; i < in->n_rows; i++)
        if (in->tokens[i] < 0 || (uint32_t)in->tokens[i] >= vocab)
            return REFUSE(err, (err, "tokens[%u]", i), "tokens[%u] is %d, the vocabulary has %u", i,
                          in->tokens[i], vocab);
    if (in->n_seqs < 1 || in->n_seqs > in->n_rows || !in->seqs)
        return REFUSE(err, (err, "n_seqs"), "n_seqs is %u for %u rows", in->seqs ? in->n_seqs : 0,
                      in->n_rows);
    for (uint32_t i = 0; i < in->n_seqs; i++) {
        qn_status st = check_seq(p, r, &in->seqs[i], i, row, in->n_rows, err);
        for (uint32_t j = 0; j < i && !st; j++) st = check_apart(r, &in->seqs[j], &in->seqs[i], j, i, err);
        if (st) return st;
        row += in->seqs[i].n_rows;
    }
    if (row != in->n_rows)
        return REFUSE(err, (err, "n_rows"), "n_rows is %u, the sequences cover %u", in->n_rows, row);
    if (in->n_logit_rows > p->bucket.rows || (in->n_logit_rows && !in->logit_rows))
        return REFUSE(err, (err, "n_logit_rows"), "n_logit_rows is %u%s, the program takes up to %u",
                      in->n_logit_rows, in->logit_rows ? "" : " without logit_rows", p->bucket.rows);
    for (uint32_t i = 0; i < in->n_logit_rows; i++)
        if (in->logit_rows[i] >= in->n_rows)
            return REFUSE(err, (err, "logit_rows[%u]", i), "logit_rows[%u] is %u, there are %u rows", i,
                          in->logit_rows[i], in->n_rows);
    if (p->bucket.kind != QN_BUCKET_DRAFT) return QN_OK;
    if (!in->hidden_rows) return REFUSE(err, (err, "hidden_rows"), "hidden_rows are missing for a draft");
    for (uint32_t i = 0; i < in->n_rows; i++)
        if (in->hidden_rows[i] >= r->hidden_rows)
            return REFUSE(err, (err, "hidden_rows[%u]", i), "hidden_rows[%u] is %u, %u are kept", i,
                          in->hidden_rows[i], r->hidden_rows);
    return QN_OK;
}
