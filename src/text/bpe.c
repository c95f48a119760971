/* bpe.c - byte-pair merging.
 *
 * Two ways to the same result. A short pre-token, which nearly all are, keeps its symbols and the ranks of
 * their pairs in two arrays on the stack and looks for the smallest rank by scanning. A long one would take
 * quadratic time that way, and a user may send a megabyte without a space, so it uses a linked list over the
 * symbols and a heap of (rank, position). Heap entries are never removed when their pair goes away: one
 * counts only if its rank is still the rank of the pair at its position. */
#include "text/bpe.h"

#include <stdlib.h>
#include <string.h>

#define SHORT_MAX 48 /* symbols; scanning 48 ranks is cheaper than a heap */

static size_t slot_of(const qn_bpe *b, uint64_t pair)
{
    return (pair * 0x9e3779b97f4a7c15u) >> b->shift;
}

static const qn_bpe_slot *find(const qn_bpe *b, uint32_t left, uint32_t right)
{
    uint64_t pair = (uint64_t)left << 32 | right;
    for (size_t i = slot_of(b, pair);; i = (i + 1) & b->mask) {
        const qn_bpe_slot *s = &b->slots[i];
        if (s->pair == pair) return s;
        if (s->pair == UINT64_MAX) return NULL;
    }
}

void qn_bpe_deinit(qn_bpe *b)
{
    free(b->slots);
    b->slots = NULL;
}

static bool resize(qn_bpe *b, size_t n_slots)
{
    qn_bpe bigger = *b;
    bigger.slots = malloc(n_slots * sizeof *bigger.slots);
    if (!bigger.slots) return false;
    memset(bigger.slots, 0xff, n_slots * sizeof *bigger.slots);
    bigger.mask = n_slots - 1;
    bigger.shift = 64 - __builtin_ctzll(n_slots);
    for (size_t i = 0; b->slots && i <= b->mask; i++) {
        if (b->slots[i].pair == UINT64_MAX) continue;
        size_t k = slot_of(&bigger, b->slots[i].pair);
        while (bigger.slots[k].pair != UINT64_MAX) k = (k + 1) & bigger.mask;
        bigger.slots[k] = b->slots[i];
    }
    free(b->slots);
    *b = bigger;
    return true;
}

qn_bpe_added qn_bpe_add(qn_bpe *b, uint32_t left, uint32_t right, uint32_t id)
{
    size_t n_slots = b->slots ? b->mask + 1 : 0;
    if (((size_t)b->n_merges + 1) * 2 > n_slots && !resize(b, n_slots ? n_slots * 2 : 1024))
        return QN_BPE_NO_MEMORY;
    uint64_t pair = (uint64_t)left << 32 | right;
    size_t i = slot_of(b, pair);
    for (; b->slots[i].pair != UINT64_MAX; i = (i + 1) & b->mask)
        if (b->slots[i].pair == pair) return QN_BPE_REPEATED;
    b->slots[i] = (qn_bpe_slot){.pair = pair, .rank = b->n_merges++, .id = id};
    return QN_BPE_ADDED;
}

static size_t encode_short(const qn_bpe *b, const uint8_t *s, size_t n, int32_t *out)
{
    uint32_t sym[SHORT_MAX], rank[SHORT_MAX],
        merged[SHORT_MAX]; /* rank[i], merged[i]: of the pair (i, i+1) */
    for (size_t i = 0; i < n; i++) sym[i] = b->byte_id[s[i]];
    for (size_t i = 0; i + 1 < n; i++) {
        const qn_bpe_slot *m = find(b, sym[i], sym[i + 1]);
        rank[i] = m ? m->rank : QN_BPE_NONE;
        merged[i] = m ? m->id : 0;
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best]) best = i;
        if (rank[best] == QN_BPE_NONE) break;
        sym[best] = merged[best];
        n--;
        for (size_t i = best + 1; i < n; i++) sym[i] = sym[i + 1];
        for (size_t i = best + 1; i + 1 < n; i++) rank[i] = rank[i + 1], merged[i] = merged[i + 1];
        for (size_t i = best ? best - 1 : 0; i <= best && i + 1 < n; i++) {
            const qn_bpe_slot *m = find(b, sym[i], sym[i + 1]);
            rank[i] = m ? m->rank : QN_BPE_NONE;
            merged[i] = m ? m->id : 0;
        }
    }
    for (size_t i = 0; i < n; i++) out[i] = (int32_t)sym[i];
    return n;
}

struct qn_bpe_node {
    uint32_t sym, rank,
        merged;         /* rank, merged: of the pair with the next node; rank NONE at the end or when gone */
    int32_t prev, next; /* -1: none */
};

void qn_bpe_work_deinit(qn_bpe_work *w)
{
    free(w->nodes);
    free(w->heap);
    *w = (qn_bpe_work){0};
}

/* The heap is ordered by rank << 32 | position, which is exactly "lowest rank, then leftmost". */
static void heap_push(uint64_t *heap, size_t *n, uint64_t key)
{
    size_t i = (*n)++;
    for (; i > 0 && heap[(i - 1) / 2] > key; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = key;
}

static uint64_t heap_pop(uint64_t *heap, size_t *n)
{
    uint64_t top = heap[0], last = heap[--*n];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= *n) break;
        if (child + 1 < *n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= last) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

static void rank_pair(const qn_bpe *b, struct qn_bpe_node *nodes, int32_t i, uint64_t *heap, size_t *heap_n)
{
    struct qn_bpe_node *x = &nodes[i];
    const qn_bpe_slot *m = x->next < 0 ? NULL : find(b, x->sym, nodes[x->next].sym);
    x->rank = m ? m->rank : QN_BPE_NONE;
    x->merged = m ? m->id : 0;
    if (m) heap_push(heap, heap_n, (uint64_t)m->rank << 32 | (uint32_t)i);
}

static size_t encode_long(const qn_bpe *b, qn_bpe_work *w, const uint8_t *s, size_t n, int32_t *out)
{
    if (w->n_nodes < n) {
        /* Each pair is pushed once at the start, and each of at most n - 1 merges pushes two more. */
        struct qn_bpe_node *nodes = realloc(w->nodes, n * sizeof *nodes);
        if (!nodes) return SIZE_MAX;
        w->nodes = nodes;
        uint64_t *heap = realloc(w->heap, 3 * n * sizeof *heap);
        if (!heap) return SIZE_MAX;
        w->heap = heap;
        w->n_nodes = n;
    }
    struct qn_bpe_node *nodes = w->nodes;
    size_t heap_n = 0, n_out = 0;
    for (size_t i = 0; i < n; i++) {
        nodes[i].sym = b->byte_id[s[i]];
        nodes[i].prev = (int32_t)i - 1;
        nodes[i].next = i + 1 < n ? (int32_t)i + 1 : -1;
    }
    for (size_t i = 0; i < n; i++) rank_pair(b, nodes, (int32_t)i, w->heap, &heap_n);
    while (heap_n > 0) {
        uint64_t top = heap_pop(w->heap, &heap_n);
        struct qn_bpe_node *x = &nodes[(uint32_t)top];
        if (x->rank != (uint32_t)(top >> 32)) continue; /* its pair went away */
        struct qn_bpe_node *gone = &nodes[x->next];
        x->sym = x->merged;
        x->next = gone->next;
        gone->rank = QN_BPE_NONE;
        if (x->next >= 0) nodes[x->next].prev = (int32_t)(x - nodes);
        rank_pair(b, nodes, (int32_t)(x - nodes), w->heap, &heap_n);
        if (x->prev >= 0) rank_pair(b, nodes, x->prev, w->heap, &heap_n);
    }
    for (int32_t i = 0; i >= 0; i = nodes[i].next) out[n_out++] = (int32_t)nodes[i].sym;
    return n_out;
}

size_t qn_bpe_encode(const qn_bpe *b, qn_bpe_work *w, const uint8_t *s, size_t n, int32_t *out)
{
    if (n == 0) return 0;
    if (!b->slots) { /* no merges at all */
        for (size_t i = 0; i < n; i++) out[i] = (int32_t)b->byte_id[s[i]];
        return n;
    }
    return n <= SHORT_MAX ? encode_short(b, s, n, out) : encode_long(b, w, s, n, out);
}
