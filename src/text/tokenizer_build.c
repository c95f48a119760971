/* tokenizer_build.c - puts a tokenizer together, whatever file its parts come from, and proves that the parts
 * fit: after finish no encoder meets a byte without a token or a merge that leads nowhere. */
#include "text/tokenizer_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

qn_status qn_tok_builder_begin(qn_tok_builder *b, qn_error *err)
{
    *b = (qn_tok_builder){.t = calloc(1, sizeof *b->t)};
    if (!b->t) return qn_fail(err, QN_NOMEM, "no memory for a tokenizer");
    b->t->bos = b->t->eos = b->t->pad = -1;
    return QN_OK;
}

void qn_tok_builder_destroy(qn_tok_builder *b)
{
    qn_tokenizer_close(b->t);
    b->t = NULL;
}

/* Undo the alphabet of spelled[0..n) into dst, QN_VOCAB_MAX_TOKEN_BYTES long. Two bytes of text may be one of
 * ours. */
static qn_status unspell(uint8_t *dst, size_t *len, const char *what, const char *spelled, size_t n,
                         qn_error *err)
{
    char name[64];
    if (n > 2 * QN_VOCAB_MAX_TOKEN_BYTES)
        return qn_fail(err, QN_TOO_LARGE, "%s '%s' has %zu bytes in the file, the limit is %zu", what,
                       qn_printable(name, sizeof name, spelled, n), n, 2 * QN_VOCAB_MAX_TOKEN_BYTES);
    *len = qn_vocab_unspell(dst, spelled, n);
    if (*len == SIZE_MAX)
        return qn_fail(err, QN_CORRUPT, "%s '%s' has a character outside the byte alphabet", what,
                       qn_printable(name, sizeof name, spelled, n));
    return QN_OK;
}

qn_status qn_tok_builder_token(qn_tok_builder *b, uint64_t id, const char *spelled, size_t n, qn_error *err)
{
    uint8_t bytes[2 * QN_VOCAB_MAX_TOKEN_BYTES];
    size_t len;
    qn_status st = unspell(bytes, &len, "token", spelled, n, err);
    return st ? st : qn_vocab_add(&b->t->vocab, id, bytes, len, QN_TOKEN_BASE, err);
}

qn_status qn_tok_builder_merge(qn_tok_builder *b, const char *left, size_t n_left, const char *right,
                               size_t n_right, qn_error *err)
{
    uint8_t bytes[4 * QN_VOCAB_MAX_TOKEN_BYTES];
    uint32_t rank = b->t->bpe.n_merges;
    size_t l, r;
    char name[64];
    qn_status st = unspell(bytes, &l, "the left part", left, n_left, err);
    if (!st) st = unspell(bytes + l, &r, "the right part", right, n_right, err);
    if (st) {
        qn_error_context(err, "merge %u", rank);
        return st;
    }
    if (rank >= QN_VOCAB_MAX_IDS) return qn_fail(err, QN_TOO_LARGE, "more than %u merges", QN_VOCAB_MAX_IDS);
    int32_t part[2];
    qn_vocab_find_two(&b->t->vocab, bytes, l, r, part);
    /* Tokens are numbered in the order of their merges, but for a few. */
    int32_t joined = qn_vocab_find_near(&b->t->vocab, b->last_joined + 1, bytes, l + r);
    for (int k = 0; k < 2; k++)
        if (part[k] < 0)
            return qn_fail(err, QN_CORRUPT, "merge %u: its %s part '%s' is not in the vocabulary", rank,
                           k ? "right" : "left",
                           qn_printable(name, sizeof name, k ? bytes + l : bytes, k ? r : l));
    if (joined < 0)
        return qn_fail(err, QN_CORRUPT, "merge %u: its result '%s' is not in the vocabulary", rank,
                       qn_printable(name, sizeof name, bytes, l + r));
    b->last_joined = (uint32_t)joined;
    switch (qn_bpe_add(&b->t->bpe, (uint32_t)part[0], (uint32_t)part[1], (uint32_t)joined)) {
    case QN_BPE_ADDED: return QN_OK;
    case QN_BPE_REPEATED:
        return qn_fail(err, QN_CORRUPT, "merge %u repeats an earlier one, towards '%s'", rank,
                       qn_printable(name, sizeof name, bytes, l + r));
    default: return qn_fail(err, QN_NOMEM, "no memory for %u merges", rank);
    }
}

static int32_t find_added(const qn_tokenizer *t, const char *text, size_t n)
{
    for (size_t i = 0; i < t->n_added; i++) {
        const qn_token *k = &t->vocab.tokens[t->added[i]];
        if (k->n == n && memcmp(qn_vocab_bytes(&t->vocab, t->added[i]), text, n) == 0)
            return (int32_t)t->added[i];
    }
    return -1;
}

qn_status qn_tok_builder_added(qn_tok_builder *b, uint64_t id, const char *text, size_t n, bool special,
                               qn_error *err)
{
    qn_tokenizer *t = b->t;
    char name[64];
    size_t bad_at;
    qn_printable(name, sizeof name, text, n);
    if (!qn_utf8_valid(text, n, &bad_at))
        return qn_fail(err, QN_CORRUPT, "added token '%s' is not UTF-8 at its byte %zu", name, bad_at);
    int32_t twin = find_added(t, text, n);
    if (twin >= 0) {
        if ((uint64_t)twin != id)
            return qn_fail(err, QN_CORRUPT, "added token '%s' has two ids, %d and %llu", name, twin,
                           (unsigned long long)id);
        if (special != ((t->vocab.tokens[twin].flags & QN_TOKEN_SPECIAL) != 0))
            return qn_fail(err, QN_CORRUPT, "added token '%s' is said to be special and not special", name);
        return QN_OK;
    }
    if (t->n_added >= QN_TOKENIZER_MAX_ADDED)
        return qn_fail(err, QN_TOO_LARGE, "more than %u added tokens", QN_TOKENIZER_MAX_ADDED);
    if (t->n_added == b->added_cap) {
        size_t cap = b->added_cap ? 2 * b->added_cap : 64;
        uint32_t *ids = realloc(t->added, cap * sizeof *ids);
        if (!ids) return qn_fail(err, QN_NOMEM, "no memory for %zu added tokens", cap);
        t->added = ids;
        b->added_cap = cap;
    }
    uint16_t flags = (uint16_t)(QN_TOKEN_ADDED | (special ? QN_TOKEN_SPECIAL : 0));
    qn_status st = qn_vocab_add(&t->vocab, id, (const uint8_t *)text, n, flags, err);
    if (st) return st;
    t->added[t->n_added++] = (uint32_t)id;
    t->starts[(uint8_t)text[0]] = true;
    return QN_OK;
}

static int by_bytes(const void *a, const void *b, void *vocab)
{
    const qn_vocab *v = vocab;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    size_t ni = v->tokens[i].n, nk = v->tokens[k].n;
    int c = memcmp(qn_vocab_bytes(v, i), qn_vocab_bytes(v, k), ni < nk ? ni : nk);
    return c ? c : (ni > nk) - (ni < nk);
}

qn_status qn_tok_builder_finish(qn_tok_builder *b, qn_tokenizer **out, qn_error *err)
{
    qn_tokenizer *t = b->t;
    *out = NULL;
    if (!t->pretok) return qn_fail(err, QN_CORRUPT, "no pre-tokenizer is given");
    for (unsigned byte = 0; byte < 256; byte++) {
        uint8_t one = (uint8_t)byte;
        int32_t id = qn_vocab_find(&t->vocab, &one, 1);
        if (id < 0) return qn_fail(err, QN_CORRUPT, "the vocabulary has no token for the byte 0x%02x", byte);
        t->bpe.byte_id[byte] = (uint32_t)id;
    }
    /* Ids above the base vocabulary may be unused rows; a hole inside it is a damaged file. */
    uint32_t left = t->vocab.n_base;
    for (uint32_t id = 0; left > 0; id++) {
        if (t->vocab.tokens[id].flags == 0)
            return qn_fail(err, QN_CORRUPT,
                           "no token has the id %u, though %u tokens of the vocabulary lie above it", id,
                           left);
        if (t->vocab.tokens[id].flags & QN_TOKEN_BASE) left--;
    }
    /* The file may name added tokens before the vocabulary, so this could not be seen when they came. */
    for (size_t i = 0; i < t->n_added; i++) {
        uint32_t id = t->added[i];
        const uint8_t *bytes = qn_vocab_bytes(&t->vocab, id);
        int32_t base = qn_vocab_find(&t->vocab, bytes, t->vocab.tokens[id].n);
        char name[64];
        if (base >= 0 && (uint32_t)base != id)
            return qn_fail(err, QN_CORRUPT, "token '%s' has two ids, %d and %u",
                           qn_printable(name, sizeof name, bytes, t->vocab.tokens[id].n), base, id);
    }
    if (t->n_added) qsort_r(t->added, t->n_added, sizeof *t->added, by_bytes, &t->vocab);
    *out = t;
    b->t = NULL;
    return QN_OK;
}
