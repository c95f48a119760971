/* engine.c - a model on a device: sequences, their pages and slots, and one step for several of them.
 *
 * Invariants:
 *   E1 a page is in the free list or belongs to exactly one sequence; a slot likewise.
 *   E2 a sequence's pages cover at least its length; they are taken before a step runs, so a refused step
 * changes nothing. E3 length advances only after the device has run the step; a step that failed in the
 * device leaves the sequence broken. E4 kept hidden vectors belong to the last step (hidden_epoch); a
 * sequence remembers which of its positions they are. */
#include "runtime/engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/counters.h"
#include "base/size.h"
#include "device/device.h"
#include "runtime/model_int.h"

struct qn_engine {
    qn_model *model;
    qn_engine_options o;
    qn_device *device;
    qn_program *programs[3]; /* decode, prefill, draft */
    qn_trace *traces[3];
    qn_reserve reserve;
    uint32_t *free_pages, n_free_pages;
    uint32_t *free_slots, n_free_slots;
    uint64_t hidden_epoch; /* number of steps so far */
    /* scratch of one step, made once */
    qn_step_seq *seqs;     /* [max_batch] */
    int32_t *tokens;       /* [max_rows] */
    uint32_t *logit_rows;  /* [max_rows] */
    uint32_t *hidden_rows; /* [max_rows] */
};

enum { DECODE, PREFILL, DRAFT };

struct qn_seq {
    qn_engine *e;
    uint32_t slot, length;
    uint32_t *pages, n_pages; /* room for the whole context's pages */
    bool broken;
    uint64_t hidden_epoch;                       /* kept vectors are mine when it equals the engine's */
    uint32_t hidden_first, hidden_row, hidden_n; /* positions hidden_first.. are in kept rows hidden_row.. */
    uint32_t draft_length;                       /* entries of the draft head's cache */
};

qn_engine_options qn_engine_options_defaults(void)
{
    return (qn_engine_options){.device = "cpu",
                               .kernels = "best",
                               .max_sequences = 1,
                               .slice = 512,
                               .max_batch = 1,
                               .kv = QN_KV_F16};
}

static qn_status check_options(const qn_engine_options *o, qn_error *err)
{
    if (o->max_sequences < 1 || o->max_sequences > 4096)
        return qn_fail(err, QN_INVALID, "max_sequences must be 1 .. 4096, not %u", o->max_sequences);
    if (o->max_batch < 1 || o->max_batch > 4096)
        return qn_fail(err, QN_INVALID, "max_batch must be 1 .. 4096, not %u", o->max_batch);
    if (o->slice < QN_GRID || o->slice > 65536 || o->slice % QN_GRID)
        return qn_fail(err, QN_INVALID, "the prefill slice must be a multiple of %d from %d to 65536, not %u",
                       QN_GRID, QN_GRID, o->slice);
    return QN_OK;
}

static qn_status compile(qn_engine *e, int which, qn_bucket bucket, qn_error *err)
{
    qn_status st = qn_program_lower(&e->programs[which], e->model->net, bucket, 0, 1, e->o.draft_head, err);
    if (!st && !e->reserve.n_pages) {
        /* the first program says what has to be kept */
        uint32_t per_seq = (uint32_t)qn_ceil_div(e->o.context, QN_PAGE_TOKENS);
        uint64_t pages = e->o.pool_tokens ? qn_ceil_div(e->o.pool_tokens, QN_PAGE_TOKENS)
                                          : (uint64_t)per_seq * e->o.max_sequences;
        if (pages > UINT32_MAX / 2)
            return qn_fail(err, QN_INVALID, "a pool of %llu pages is too large", (unsigned long long)pages);
        e->reserve = (qn_reserve){
            .state = e->programs[which]->state,
            .kv = e->o.kv,
            .n_pages = (uint32_t)pages,
            .n_slots = e->o.max_sequences,
            .hidden_rows = e->o.draft_head ? (e->o.slice > e->o.max_batch ? e->o.slice : e->o.max_batch) : 0};
        st = e->device->ops->reserve(e->device, &e->reserve, err);
    }
    const qn_program *programs[] = {e->programs[which]};
    if (!st) st = e->device->ops->compile(e->device, programs, &e->traces[which], err);
    return st;
}

static qn_status make_tables(qn_engine *e, qn_error *err)
{
    uint32_t rows = e->o.slice > e->o.max_batch ? e->o.slice : e->o.max_batch;
    e->free_pages = calloc(e->reserve.n_pages, sizeof *e->free_pages);
    e->free_slots = calloc(e->reserve.n_slots, sizeof *e->free_slots);
    e->seqs = calloc(e->o.max_batch, sizeof *e->seqs);
    e->tokens = calloc(rows, sizeof *e->tokens);
    e->logit_rows = calloc(rows, sizeof *e->logit_rows);
    e->hidden_rows = calloc(rows, sizeof *e->hidden_rows);
    if (!e->free_pages || !e->free_slots || !e->seqs || !e->tokens || !e->logit_rows || !e->hidden_rows)
        return qn_fail(err, QN_NOMEM, "no memory for the tables of %u pages and %u rows", e->reserve.n_pages,
                       rows);
    /* taken from the end, so that the lowest come first */
    for (uint32_t i = 0; i < e->reserve.n_pages; i++) e->free_pages[i] = e->reserve.n_pages - 1 - i;
    for (uint32_t i = 0; i < e->reserve.n_slots; i++) e->free_slots[i] = e->reserve.n_slots - 1 - i;
    e->n_free_pages = e->reserve.n_pages;
    e->n_free_slots = e->reserve.n_slots;
    return QN_OK;
}

qn_status qn_engine_create(qn_engine **out, qn_model *m, const qn_engine_options *o, qn_error *err)
{
    *out = NULL;
    qn_status st = check_options(o, err);
    if (st) return st;
    qn_engine *e = calloc(1, sizeof *e);
    if (!e) return qn_fail(err, QN_NOMEM, "no memory for an engine");
    e->model = m;
    e->o = *o;
    uint32_t most = m->net->arch.context;
    if (e->o.context == 0) e->o.context = most;
    if (e->o.context > most)
        st = qn_fail(err, QN_INVALID, "a context of %u tokens is over the model's %u", e->o.context, most);
    if (!st && o->draft_head && !m->net->arch.has_mtp)
        st = qn_fail(err, QN_UNSUPPORTED, "the model has no draft head (MTP layer)");
    qn_device_options d = {.device = o->device, .kernels = o->kernels, .threads = o->threads};
    if (!st) st = qn_device_open(&e->device, &d, err);
    if (!st) st = compile(e, DECODE, (qn_bucket){QN_BUCKET_DECODE, o->max_batch}, err);
    if (!st) st = compile(e, PREFILL, (qn_bucket){QN_BUCKET_PREFILL, o->slice}, err);
    if (!st && o->draft_head)
        st = compile(e, DRAFT, (qn_bucket){QN_BUCKET_DRAFT, e->reserve.hidden_rows}, err);
    if (!st) st = make_tables(e, err);
    if (st) {
        qn_engine_destroy(e);
        return st;
    }
    qn_counter_add(qn_counter_get(o->kv == QN_KV_F16 ? "runtime.kv.f16" : "runtime.kv.f32"), 1);
    *out = e;
    return QN_OK;
}

void qn_engine_destroy(qn_engine *e)
{
    if (!e) return;
    for (int i = 0; i < 3; i++)
        if (e->traces[i]) e->device->ops->trace_destroy(e->traces[i]);
    for (int i = 0; i < 3; i++) qn_program_destroy(e->programs[i]);
    qn_device_close(e->device);
    free(e->free_pages);
    free(e->free_slots);
    free(e->seqs);
    free(e->tokens);
    free(e->logit_rows);
    free(e->hidden_rows);
    free(e);
}

uint32_t qn_engine_context(const qn_engine *e)
{
    return e->o.context;
}
uint32_t qn_engine_slice(const qn_engine *e)
{
    return e->o.slice;
}
uint32_t qn_engine_slots_free(const qn_engine *e)
{
    return e->n_free_slots;
}
uint32_t qn_engine_pages_free(const qn_engine *e)
{
    return e->n_free_pages;
}
uint32_t qn_engine_pages_total(const qn_engine *e)
{
    return e->reserve.n_pages;
}

/* ---- sequences ---- */

qn_status qn_seq_create(qn_seq **out, qn_engine *e, qn_error *err)
{
    *out = NULL;
    if (!e->n_free_slots)
        return qn_fail(err, QN_BUSY, "all %u sequence slots are in use", e->reserve.n_slots);
    qn_seq *s = calloc(1, sizeof *s);
    if (s) s->pages = calloc(qn_ceil_div(e->o.context, QN_PAGE_TOKENS), sizeof *s->pages);
    if (!s || !s->pages) {
        free(s);
        return qn_fail(err, QN_NOMEM, "no memory for a sequence");
    }
    s->e = e;
    s->slot = e->free_slots[--e->n_free_slots];
    e->device->ops->slot_clear(e->device, s->slot);
    *out = s;
    return QN_OK;
}

void qn_seq_destroy(qn_seq *s)
{
    if (!s) return;
    qn_engine *e = s->e;
    while (s->n_pages) e->free_pages[e->n_free_pages++] = s->pages[--s->n_pages];
    e->free_slots[e->n_free_slots++] = s->slot;
    free(s->pages);
    free(s);
}

uint32_t qn_seq_length(const qn_seq *s)
{
    return s->length;
}

qn_status qn_seq_reserve(qn_seq *s, uint32_t n_tokens, qn_error *err)
{
    qn_engine *e = s->e;
    if (n_tokens > e->o.context)
        return qn_fail(err, QN_CONTEXT, "%u tokens are over the context of %u", n_tokens, e->o.context);
    uint32_t need = (uint32_t)qn_ceil_div(n_tokens, QN_PAGE_TOKENS);
    if (need > s->n_pages && need - s->n_pages > e->n_free_pages)
        return qn_fail(err, QN_BUSY,
                       "the KV pool is full: %u pages of %d tokens are needed, %u of %u are free",
                       need - s->n_pages, QN_PAGE_TOKENS, e->n_free_pages, e->reserve.n_pages);
    while (s->n_pages < need) s->pages[s->n_pages++] = e->free_pages[--e->n_free_pages];
    return QN_OK;
}

qn_status qn_seq_save(qn_seq *s, void **bytes, size_t *n, qn_error *err)
{
    (void)s;
    *bytes = NULL;
    *n = 0;
    return qn_fail(err, QN_UNSUPPORTED, "saving a sequence's state is not in this version");
}

qn_status qn_seq_restore(qn_seq *s, const void *bytes, size_t n, qn_error *err)
{
    (void)s, (void)bytes, (void)n;
    return qn_fail(err, QN_UNSUPPORTED, "restoring a sequence's state is not in this version");
}

/* ---- steps ---- */

/* Check the items and fill the step's inputs; takes pages, changes nothing else. */
static qn_status gather(qn_engine *e, qn_phase phase, const qn_step_item *items, size_t n_items,
                        qn_step_inputs *in, qn_error *err)
{
    uint32_t rows = 0, n_logits = 0, most = phase == QN_DECODE ? e->o.max_batch : e->o.slice;
    if (n_items < 1 || n_items > e->o.max_batch)
        return qn_fail(err, QN_INVALID, "a step has 1 .. %u sequences, not %zu", e->o.max_batch, n_items);
    for (size_t i = 0; i < n_items; i++) {
        const qn_step_item *it = &items[i];
        qn_seq *s = it->seq;
        if (s->e != e) return qn_fail(err, QN_INVALID, "item %zu: the sequence belongs to another engine", i);
        for (size_t j = 0; j < i; j++)
            if (items[j].seq == s)
                return qn_fail(err, QN_INVALID, "items %zu and %zu are the same sequence", j, i);
        if (s->broken)
            return qn_fail(err, QN_INTERNAL, "item %zu: the sequence failed before and must be made anew", i);
        if (it->n_tokens < 1 || it->n_tokens > most - rows || (phase == QN_DECODE && it->n_tokens != 1))
            return qn_fail(err, QN_INVALID, "item %zu: %u tokens do not fit a %s step of at most %u", i,
                           it->n_tokens, phase == QN_DECODE ? "decode" : "prefill", most);
        if (it->n_logits > it->n_tokens)
            return qn_fail(err, QN_INVALID, "item %zu: logits of %u tokens, but only %u are given", i,
                           it->n_logits, it->n_tokens);
        if (phase == QN_PREFILL && s->length % QN_GRID)
            return qn_fail(err, QN_INVALID, "item %zu: prefill must start at a multiple of %d, not at %u", i,
                           QN_GRID, s->length);
        uint64_t end = (uint64_t)s->length + it->n_tokens;
        if (end > e->o.context)
            return qn_fail(err, QN_CONTEXT, "%llu tokens are over the context of %u", (unsigned long long)end,
                           e->o.context);
        qn_status st = qn_seq_reserve(s, (uint32_t)end, err);
        if (st) return st;
        e->seqs[i] = (qn_step_seq){.first_row = rows,
                                   .n_rows = it->n_tokens,
                                   .position = s->length,
                                   .slot = s->slot,
                                   .pages = s->pages,
                                   .n_pages = s->n_pages};
        memcpy(e->tokens + rows, it->tokens, it->n_tokens * sizeof *e->tokens);
        for (uint32_t k = 0; k < it->n_logits; k++)
            e->logit_rows[n_logits++] = rows + it->n_tokens - it->n_logits + k;
        rows += it->n_tokens;
    }
    *in = (qn_step_inputs){.n_rows = rows,
                           .tokens = e->tokens,
                           .n_seqs = (uint32_t)n_items,
                           .seqs = e->seqs,
                           .n_logit_rows = n_logits,
                           .logit_rows = e->logit_rows};
    return QN_OK;
}

static qn_status replay(qn_engine *e, int which, const qn_step_inputs *in, float *logits, qn_error *err)
{
    qn_step_result result;
    qn_status st = e->device->ops->run(e->traces[which], in, &result, err);
    if (!st && in->n_logit_rows)
        memcpy(logits, result.logits, (size_t)in->n_logit_rows * e->model->net->arch.vocab * sizeof *logits);
    return st;
}

qn_status qn_step(qn_engine *e, qn_phase phase, const qn_step_item *items, size_t n_items, float *logits,
                  qn_error *err)
{
    qn_step_inputs in;
    int which = phase == QN_DECODE ? DECODE : PREFILL;
    qn_status st = gather(e, phase, items, n_items, &in, err);
    if (!st && in.n_logit_rows && !logits)
        st = qn_fail(err, QN_INVALID, "logits were asked for, but there is nowhere to put them");
    if (!st) st = qn_step_inputs_check(e->programs[which], &e->reserve, &in, err);
    if (st) return st;
    st = replay(e, which, &in, logits, err);
    e->hidden_epoch++;
    for (size_t i = 0; i < n_items; i++) {
        qn_seq *s = items[i].seq;
        if (st) {
            s->broken = true;
            continue;
        }
        s->hidden_epoch = e->hidden_epoch;
        s->hidden_first = s->length;
        s->hidden_row = e->seqs[i].first_row;
        s->hidden_n = items[i].n_tokens;
        s->length += items[i].n_tokens;
    }
    return st;
}

qn_status qn_draft(qn_engine *e, qn_seq *s, const int32_t *next_tokens, uint32_t n, float *logits,
                   qn_error *err)
{
    if (!e->traces[DRAFT]) return qn_fail(err, QN_INVALID, "the engine was made without the draft head");
    if (s->e != e || s->broken) return qn_fail(err, QN_INVALID, "the sequence cannot be drafted from");
    uint32_t first = s->draft_length;
    if (n < 1 || n > e->reserve.hidden_rows)
        return qn_fail(err, QN_INVALID, "a draft step has 1 .. %u tokens, not %u", e->reserve.hidden_rows, n);
    if (s->hidden_epoch != e->hidden_epoch || first < s->hidden_first ||
        first + n > s->hidden_first + s->hidden_n)
        return qn_fail(err, QN_INVALID,
                       "the hidden vectors of positions %u .. %u are not those of the last step", first,
                       first + n - 1);
    for (uint32_t i = 0; i < n; i++) {
        e->tokens[i] = next_tokens[i];
        e->hidden_rows[i] = s->hidden_row + (first - s->hidden_first) + i;
        e->logit_rows[i] = i;
    }
    e->seqs[0] = (qn_step_seq){
        .n_rows = n, .position = first, .slot = s->slot, .pages = s->pages, .n_pages = s->n_pages};
    qn_step_inputs in = {.n_rows = n,
                         .tokens = e->tokens,
                         .n_seqs = 1,
                         .seqs = e->seqs,
                         .n_logit_rows = logits ? n : 0,
                         .logit_rows = e->logit_rows,
                         .hidden_rows = e->hidden_rows};
    qn_status st = qn_step_inputs_check(e->programs[DRAFT], &e->reserve, &in, err);
    if (st) return st;
    st = replay(e, DRAFT, &in, logits, err);
    if (st)
        s->broken = true;
    else
        s->draft_length += n;
    return st;
}
