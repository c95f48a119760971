/* vocab.h - the tokens of a tokenizer: the bytes of each id, and the id of given bytes.
 *
 * Tokens of two kinds live here: those that merging builds ("base"), found by their bytes, and added tokens,
 * which stand for themselves in the text. An id has at most one token. Bytes are real bytes; the printable
 * alphabet in which files spell them is undone by qn_vocab_unspell. Built once by the loader, read only
 * afterwards. */
#ifndef QN_TEXT_VOCAB_H
#define QN_TEXT_VOCAB_H

#include "base/status.h"

#define QN_VOCAB_MAX_IDS         ((uint32_t)1 << 20)
#define QN_VOCAB_MAX_TOKEN_BYTES ((size_t)1024)

enum { QN_TOKEN_BASE = 1, QN_TOKEN_ADDED = 2, QN_TOKEN_SPECIAL = 4 }; /* flags; 0: the id has no token */

typedef struct qn_token {
    uint32_t start; /* in the vocabulary's bytes */
    uint16_t n;
    uint16_t flags;
} qn_token;

typedef struct qn_vocab {
    qn_token *tokens; /* [n_ids] */
    uint32_t n_ids;   /* highest id + 1 */
    uint32_t n_base;
    uint32_t ids_cap;
    uint8_t *bytes;
    size_t bytes_len, bytes_cap;
    uint64_t *slots; /* base tokens by the hash of their bytes: its high half << 32 | id + 1; 0 is empty */
    size_t n_slots;  /* a power of two, at most half in use */
} qn_vocab;

void qn_vocab_deinit(qn_vocab *v); /* accepts a zeroed one */

/* Add a token. QN_CORRUPT for an id or bytes that are taken (a base token and an added one may share bytes
 * only when they share the id, and then the flags are joined), QN_TOO_LARGE past a limit. */
qn_status qn_vocab_add(qn_vocab *v, uint64_t id, const uint8_t *s, size_t n, uint16_t flags,
                       qn_error *err) QN_CHECKED;

/* The id of the base token with these bytes, or -1. */
int32_t qn_vocab_find(const qn_vocab *v, const uint8_t *s, size_t n);

/* Of s[0..n) and s[n..n+m) at once, which waits for memory once. */
void qn_vocab_find_two(const qn_vocab *v, const uint8_t *s, size_t n, size_t m, int32_t ids[2]);

/* Of one, looking at the id `guess` (any number) first. */
int32_t qn_vocab_find_near(const qn_vocab *v, uint32_t guess, const uint8_t *s, size_t n);

/* The bytes of an id with a token; valid until the next add. */
static inline const uint8_t *qn_vocab_bytes(const qn_vocab *v, uint32_t id)
{
    return v->bytes + v->tokens[id].start;
}

/* Undo the byte alphabet: s[0..n), well-formed UTF-8, into dst, which has room for n bytes. Each character
 * stands for one byte: U+0021-7E, A1-AC and AE-FF for themselves, U+0100-0143 for the other 68 in ascending
 * order. SIZE_MAX when a character is none of these. */
size_t qn_vocab_unspell(uint8_t *dst, const char *s, size_t n);

#endif
