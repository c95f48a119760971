/* bpe.h - byte-pair merging: the table of merges, and the pieces of one pre-token.
 *
 * The table maps a pair of adjacent token ids to the rank of their merge and the id they become. Built once
 * by the tokenizer's loader, read only afterwards, then shared by any number of threads. A qn_bpe_work is
 * scratch memory and belongs to one thread at a time. */
#ifndef QN_TEXT_BPE_H
#define QN_TEXT_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QN_BPE_NONE UINT32_MAX

typedef struct qn_bpe_slot {
    uint64_t pair; /* left id << 32 | right id; UINT64_MAX: empty */
    uint32_t rank;
    uint32_t id;
} qn_bpe_slot;

typedef struct qn_bpe {
    qn_bpe_slot *slots; /* a power of two of them, at most half in use */
    uint64_t mask;
    int shift; /* 64 minus the bits of the mask */
    uint32_t n_merges;
    uint32_t byte_id[256]; /* the token of each single byte */
} qn_bpe;

typedef enum qn_bpe_added { QN_BPE_ADDED, QN_BPE_REPEATED, QN_BPE_NO_MEMORY } qn_bpe_added;

void qn_bpe_deinit(qn_bpe *b); /* accepts a zeroed one */

/* Give the pair the next rank. REPEATED: the pair has one already, and nothing changes. */
qn_bpe_added qn_bpe_add(qn_bpe *b, uint32_t left, uint32_t right, uint32_t id);

typedef struct qn_bpe_work {
    struct qn_bpe_node *nodes; /* for pre-tokens too long for the stack */
    uint64_t *heap;            /* room for three entries a node */
    size_t n_nodes;
} qn_bpe_work;

void qn_bpe_work_deinit(qn_bpe_work *w); /* accepts a zeroed one */

/* Merge s[0..n), n < 2^31, and write the ids of the pieces to out, which has room for n. Lowest rank first,
 * leftmost first among equals. O(n log n). Returns the number of ids, or SIZE_MAX when memory ran out (only
 * when n > 48). */
size_t qn_bpe_encode(const qn_bpe *b, qn_bpe_work *w, const uint8_t *s, size_t n, int32_t *out);

#endif
