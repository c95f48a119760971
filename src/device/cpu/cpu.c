/* cpu.c - the CPU device as device.h sees it: opening, facts, and the table of its functions. */
#include "device/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/counters.h"
#include "device/cpu/cpu_int.h"

static qn_cpu *cpu_of(qn_device *d)
{
    return (qn_cpu *)d;
}

static void destroy(qn_device *d)
{
    qn_cpu *c = cpu_of(d);
    qn_pool_destroy(c->pool);
    qn_cpu_weights_destroy(c);
    qn_cpu_memory_deinit(&c->memory);
    free(c);
}

static void describe(const qn_device *d, qn_device_facts *out)
{
    const qn_cpu *c = (const qn_cpu *)d;
    uint32_t threads = qn_pool_threads(c->pool);
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    *out = (qn_device_facts){.name = "cpu", .n_ranks = 1};
    if (pages > 0 && page > 0) out->memory_bytes = (uint64_t)pages * (uint64_t)page;
    snprintf(out->detail, sizeof out->detail, "%u thread%s, kernels: %s", threads, threads == 1 ? "" : "s",
             c->kernels.level);
}

/* Without an op at hand the group tells how a weight is read. A tied embedding is read both ways: as rows by
 * the embedding, in panels by the head; here it answers for the embedding. */
static qn_layout layout(const qn_device *d, const qn_weight *w, const qn_weight_ref *part)
{
    (void)d;
    if (w->group == QN_GROUP_EMBED) return qn_cpu_layout_of(w, QN_OP_EMBED);
    bool conv = w->group == QN_GROUP_GDN_SMALL && part->cols <= QN_MAX_TAPS;
    return qn_cpu_layout_of(w, w->group == QN_GROUP_NORMS || w->rows == 1 || conv ? QN_OP_RMSNORM
                                                                                  : QN_OP_LINEAR);
}

static qn_status reserve(qn_device *d, const qn_reserve *r, qn_error *err)
{
    return qn_cpu_memory_reserve(&cpu_of(d)->memory, r, err);
}

static qn_status read_rows(qn_trace *t, uint32_t buffer, uint32_t first, uint32_t n, float *dst,
                           qn_error *err)
{
    const qn_program *p = t->program;
    if (buffer >= p->n_buffers)
        return qn_fail(err, QN_INVALID, "buffer %u of %u does not exist", buffer, p->n_buffers);
    uint32_t live = p->buffers[buffer].rows == QN_ROWS_STEP ? t->live_rows : t->live_logit_rows;
    if (first > live || n > live - first)
        return qn_fail(err, QN_INVALID, "rows %u..+%u of buffer %s: the last run had %u", first, n,
                       p->buffers[buffer].name, live);
    size_t cols = p->buffers[buffer].cols;
    if (n) memcpy(dst, t->buffers[buffer] + first * cols, n * cols * sizeof *dst);
    return QN_OK;
}

static void slot_clear(qn_device *d, uint32_t slot)
{
    qn_cpu_slot_clear(&cpu_of(d)->memory, slot);
}
static void slot_copy(qn_device *d, uint32_t dst, uint32_t src)
{
    qn_cpu_slot_copy(&cpu_of(d)->memory, dst, src);
}
static void page_copy(qn_device *d, uint32_t dst, uint32_t src)
{
    qn_cpu_page_copy(&cpu_of(d)->memory, dst, src);
}

static uint64_t resident_bytes(const qn_device *d)
{
    const qn_cpu *c = (const qn_cpu *)d;
    uint64_t n = c->memory.n_bytes + c->scratch_bytes;
    for (size_t i = 0; i < c->n_weights; i++) n += c->weights[i]->n_bytes;
    return n;
}

static const qn_device_ops ops = {
    .destroy = destroy,
    .describe = describe,
    .layout = layout,
    .reserve = reserve,
    .compile = qn_cpu_compile,
    .trace_destroy = qn_cpu_trace_destroy,
    .run = qn_cpu_run,
    .read = read_rows,
    .slot_clear = slot_clear,
    .slot_copy = slot_copy,
    .page_copy = page_copy,
    .resident_bytes = resident_bytes,
};

/* So that a run can prove which kernels it had. */
static void count_level(const char *level)
{
    static const char *const names[] = {"device.cpu.kernels.reference", "device.cpu.kernels.avx2",
                                        "device.cpu.kernels.avx512"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(strrchr(names[i], '.') + 1, level) == 0) qn_counter_add(qn_counter_get(names[i]), 1);
}

qn_status qn_cpu_open(qn_device **out, const qn_device_options *o, qn_error *err)
{
    *out = NULL;
    qn_cpu *c = calloc(1, sizeof *c);
    if (!c) return qn_fail(err, QN_NOMEM, "no memory for the cpu device");
    c->base.ops = &ops;
    qn_status st = qn_kernels_init(&c->kernels, o->kernels ? o->kernels : "best", err);
    if (!st) st = qn_pool_create(&c->pool, o->threads, err);
    if (st) {
        destroy(&c->base);
        return st;
    }
    count_level(c->kernels.level);
    *out = &c->base;
    return QN_OK;
}
