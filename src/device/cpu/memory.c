/* memory.c - the memory that steps change: KV pages, recurrent states, kept hidden vectors. Reserved once,
 * zeroed by the kernel page by page as it is first touched, so that a large pool costs only what is used. */
#include <stdlib.h>

#include "base/size.h"
#include "device/cpu/cpu_int.h"

/* a*b*c*d*e, checked. */
static bool product(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t *out)
{
    return qn_size_mul(a, b, out) && qn_size_mul(*out, c, out) && qn_size_mul(*out, d, out) &&
           qn_size_mul(*out, e, out);
}

/* n_bytes of zeros for `what`; nothing for 0. calloc maps large blocks, which costs nothing until they are
 * touched. */
static qn_status zeros(void **out, uint64_t n_bytes, qn_cpu_memory *m, const char *what, qn_error *err)
{
    *out = NULL;
    if (n_bytes == 0) return QN_OK;
    *out = calloc(1, n_bytes);
    if (!*out)
        return qn_fail(err, QN_NOMEM,
                       "%.1f MiB for %s are not to be had (%.1f MiB are held for this model's sequences)",
                       (double)n_bytes / 1048576, what, (double)m->n_bytes / 1048576);
    m->n_bytes += n_bytes;
    return QN_OK;
}

qn_status qn_cpu_memory_reserve(qn_cpu_memory *m, const qn_reserve *r, qn_error *err)
{
    const qn_state_desc *s = &r->state;
    char what[160];
    void *p;
    uint64_t page, kv, gdn, conv, hidden;

    if (m->reserved) return qn_fail(err, QN_INVALID, "the cpu device has reserved its memory already");
    if (r->kv != QN_KV_F16 && r->kv != QN_KV_F32)
        return qn_fail(err, QN_INVALID, "unknown KV format %d", (int)r->kv);
    qn_dtype format = r->kv == QN_KV_F16 ? QN_DTYPE_F16 : QN_DTYPE_F32;
    uint64_t taps_kept = s->conv_kernel > 0 ? s->conv_kernel - 1 : 0;
    if (!product(QN_PAGE_TOKENS, s->n_kv, s->head_dim, qn_dtype_get(format)->bytes, 1, &page) ||
        !product(page, s->n_kv_layers, r->n_pages, 2, 1, &kv) ||
        !product(r->n_slots, s->n_gdn_layers, (uint64_t)s->n_v * s->dv, s->dk, sizeof(float), &gdn) ||
        !product(r->n_slots, s->n_gdn_layers, s->conv_dim, taps_kept, sizeof(float), &conv) ||
        !product(r->hidden_rows, s->hidden, sizeof(float), 1, 1, &hidden))
        return qn_fail(err, QN_TOO_LARGE, "%u KV pages and %u state slots overflow 64 bits of bytes",
                       r->n_pages, r->n_slots);

    *m = (qn_cpu_memory){.r = *r, .kv_format = format, .page_bytes = page};
    m->gdn_size = (size_t)s->n_v * s->dv * s->dk;
    m->conv_size = (size_t)s->conv_dim * taps_kept;
    snprintf(what, sizeof what, "half of %u KV pages (%llu tokens, %u layers, %s)", r->n_pages,
             (unsigned long long)r->n_pages * QN_PAGE_TOKENS, s->n_kv_layers, qn_dtype_get(format)->name);
    qn_status st = zeros(&p, kv / 2, m, what, err);
    m->keys = p;
    if (!st) st = zeros(&p, kv / 2, m, what, err), m->values = p;
    snprintf(what, sizeof what, "recurrent states of %u sequences, %u layers", r->n_slots, s->n_gdn_layers);
    if (!st) st = zeros(&p, gdn, m, what, err), m->gdn = p;
    snprintf(what, sizeof what, "convolution states of %u sequences, %u layers", r->n_slots, s->n_gdn_layers);
    if (!st) st = zeros(&p, conv, m, what, err), m->conv = p;
    snprintf(what, sizeof what, "%u kept hidden vectors", r->hidden_rows);
    if (!st) st = zeros(&p, hidden, m, what, err), m->hidden = p;
    if (st) {
        qn_cpu_memory_deinit(m);
        return st;
    }
    m->reserved = true;
    return QN_OK;
}

void qn_cpu_memory_deinit(qn_cpu_memory *m)
{
    free(m->keys);
    free(m->values);
    free(m->gdn);
    free(m->conv);
    free(m->hidden);
    *m = (qn_cpu_memory){0};
}

qn_kv_layer qn_cpu_kv_layer(const qn_cpu_memory *m, uint32_t layer)
{
    size_t at = (size_t)layer * m->r.n_pages * m->page_bytes;
    return (qn_kv_layer){m->keys + at, m->values + at, m->kv_format, m->r.state.n_kv, m->r.state.head_dim};
}

float *qn_cpu_gdn_state(const qn_cpu_memory *m, uint32_t slot, uint32_t layer)
{
    return m->gdn + ((size_t)slot * m->r.state.n_gdn_layers + layer) * m->gdn_size;
}

float *qn_cpu_conv_state(const qn_cpu_memory *m, uint32_t slot, uint32_t layer)
{
    return m->conv + ((size_t)slot * m->r.state.n_gdn_layers + layer) * m->conv_size;
}

void qn_cpu_slot_clear(qn_cpu_memory *m, uint32_t slot)
{
    size_t layers = m->r.state.n_gdn_layers;
    if (slot >= m->r.n_slots || layers == 0) return;
    memset(qn_cpu_gdn_state(m, slot, 0), 0, layers * m->gdn_size * sizeof(float));
    if (m->conv_size) memset(qn_cpu_conv_state(m, slot, 0), 0, layers * m->conv_size * sizeof(float));
}

void qn_cpu_slot_copy(qn_cpu_memory *m, uint32_t dst, uint32_t src)
{
    size_t layers = m->r.state.n_gdn_layers;
    if (dst >= m->r.n_slots || src >= m->r.n_slots || dst == src || layers == 0) return;
    memcpy(qn_cpu_gdn_state(m, dst, 0), qn_cpu_gdn_state(m, src, 0), layers * m->gdn_size * sizeof(float));
    if (m->conv_size)
        memcpy(qn_cpu_conv_state(m, dst, 0), qn_cpu_conv_state(m, src, 0),
               layers * m->conv_size * sizeof(float));
}

void qn_cpu_page_copy(qn_cpu_memory *m, uint32_t dst, uint32_t src)
{
    if (dst >= m->r.n_pages || src >= m->r.n_pages || dst == src) return;
    for (uint32_t i = 0; i < m->r.state.n_kv_layers; i++) {
        size_t base = (size_t)i * m->r.n_pages;
        memcpy(m->keys + (base + dst) * m->page_bytes, m->keys + (base + src) * m->page_bytes, m->page_bytes);
        memcpy(m->values + (base + dst) * m->page_bytes, m->values + (base + src) * m->page_bytes,
               m->page_bytes);
    }
}
