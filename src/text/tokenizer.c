/* tokenizer.c - encoding: cuts a text at added tokens and sends what lies between them through normalisation,
 * pre-tokenizer and merging. All scratch memory belongs to one call, so a tokenizer is shared without locks.
 */
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/nfc.h"
#include "text/tokenizer_int.h"

void qn_tokenizer_close(qn_tokenizer *t)
{
    if (!t) return;
    qn_vocab_deinit(&t->vocab);
    qn_bpe_deinit(&t->bpe);
    free(t->added);
    free(t);
}

static const qn_token *token_of(const qn_tokenizer *t, int32_t id)
{
    if (id < 0 || (uint32_t)id >= t->vocab.n_ids) return NULL;
    const qn_token *k = &t->vocab.tokens[id];
    return k->flags ? k : NULL;
}

bool qn_tokenizer_piece(const qn_tokenizer *t, int32_t id, const char **bytes, size_t *n)
{
    const qn_token *k = token_of(t, id);
    *bytes = k ? (const char *)qn_vocab_bytes(&t->vocab, (uint32_t)id) : NULL;
    *n = k ? k->n : 0;
    return k != NULL;
}

bool qn_tokenizer_is_special(const qn_tokenizer *t, int32_t id)
{
    const qn_token *k = token_of(t, id);
    return k && (k->flags & QN_TOKEN_SPECIAL);
}

bool qn_tokenizer_is_added(const qn_tokenizer *t, int32_t id)
{
    const qn_token *k = token_of(t, id);
    return k && (k->flags & QN_TOKEN_ADDED);
}

int32_t qn_tokenizer_find(const qn_tokenizer *t, const char *bytes)
{
    size_t n = strlen(bytes);
    for (size_t i = 0; i < t->n_added; i++) {
        uint32_t id = t->added[i];
        if (t->vocab.tokens[id].n == n && memcmp(qn_vocab_bytes(&t->vocab, id), bytes, n) == 0)
            return (int32_t)id;
    }
    return qn_vocab_find(&t->vocab, (const uint8_t *)bytes, n);
}

uint32_t qn_tokenizer_vocab_size(const qn_tokenizer *t)
{
    return t->vocab.n_ids;
}
int32_t qn_tokenizer_bos(const qn_tokenizer *t)
{
    return t->bos;
}
int32_t qn_tokenizer_eos(const qn_tokenizer *t)
{
    return t->eos;
}
int32_t qn_tokenizer_pad(const qn_tokenizer *t)
{
    return t->pad;
}
const char *qn_tokenizer_pretok_name(const qn_tokenizer *t)
{
    return t->pretok->name;
}

/* A pre-token seen before in this text, and its ids. Words repeat, and a hit costs one compare where merging
 * costs a dozen probes into a table of megabytes. One cache line each. */
#define CACHE_KEY 22
#define CACHE_IDS 10
typedef struct cached {
    uint8_t n, n_ids; /* n 0: empty */
    uint8_t key[CACHE_KEY];
    int32_t ids[CACHE_IDS];
} cached;

typedef struct encoder {
    const qn_tokenizer *t;
    int32_t *ids;
    size_t n_ids, cap;
    qn_nfc nfc;
    qn_bpe_work work;
    cached *cache; /* NULL for short texts */
    size_t cache_mask;
} encoder;

static qn_status reserve_ids(encoder *e, size_t extra, qn_error *err)
{
    if (extra <= e->cap - e->n_ids) return QN_OK;
    size_t cap = e->n_ids + extra + e->cap / 2 + 64;
    int32_t *ids = realloc(e->ids, cap * sizeof *ids);
    if (!ids) return qn_fail(err, QN_NOMEM, "no memory for %zu token ids", cap);
    e->ids = ids;
    e->cap = cap;
    return QN_OK;
}

static size_t cache_slot(const encoder *e, const uint8_t *s, size_t n)
{
    uint64_t h = n * 0x9e3779b97f4a7c15u, w;
    for (; n >= 8; s += 8, n -= 8) {
        memcpy(&w, s, 8);
        h = (h ^ w) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    for (w = 0; n > 0; n--) w = w << 8 | *s++;
    h = (h ^ w) * 0x9e3779b97f4a7c15u;
    return (h >> 40 ^ h >> 20) & e->cache_mask;
}

static qn_status encode_pretoken(encoder *e, const uint8_t *s, size_t n, qn_error *err)
{
    qn_status st = reserve_ids(e, n > CACHE_IDS ? n : CACHE_IDS, err);
    if (st) return st;
    int32_t *out = e->ids + e->n_ids;
    cached *c = e->cache && n <= CACHE_KEY ? &e->cache[cache_slot(e, s, n)] : NULL;
    if (c && c->n == n && memcmp(c->key, s, n) == 0) {
        memcpy(out, c->ids, sizeof c->ids);
        e->n_ids += c->n_ids;
        return QN_OK;
    }
    size_t got = qn_bpe_encode(&e->t->bpe, &e->work, s, n, out);
    if (got == SIZE_MAX) return qn_fail(err, QN_NOMEM, "no memory to merge a word of %zu bytes", n);
    e->n_ids += got;
    if (c && got <= CACHE_IDS) {
        c->n = (uint8_t)n;
        c->n_ids = (uint8_t)got;
        memcpy(c->key, s, n);
        memcpy(c->ids, out, got * sizeof *out);
    }
    return QN_OK;
}

static qn_status encode_piece(encoder *e, const uint8_t *s, size_t n, qn_error *err)
{
    if (n == 0) return QN_OK;
    qn_status st = qn_nfc_text(&e->nfc, s, n, &s, &n, err);
    for (size_t at = 0, end; !st && at < n; at = end) {
        end = qn_pretok_next(e->t->pretok, s, n, at);
        st = encode_pretoken(e, s + at, end - at, err);
    }
    return st;
}

/* The longest added token at s[0..n), all of whose bytes are marked (literal NULL: any): its id, or -1. The
 * ids are sorted by bytes, so those that share the first d bytes lie side by side, and the range narrows with
 * each byte. */
static int32_t added_at(const qn_tokenizer *t, const uint8_t *s, size_t n, const uint8_t *literal,
                        size_t *len)
{
    size_t lo = 0, hi = t->n_added;
    int32_t best = -1;
    for (size_t d = 0; lo < hi; d++) {
        /* All of [lo, hi) begin with s[0..d); one that ends here comes first. */
        const qn_token *k = &t->vocab.tokens[t->added[lo]];
        if (k->n == d) {
            best = (int32_t)t->added[lo++];
            *len = d;
        }
        if (d >= n || (literal && !literal[d])) break;
        size_t a = lo, b = hi; /* the first whose byte d is not below s[d] */
        while (a < b) {
            size_t mid = a + (b - a) / 2;
            if (qn_vocab_bytes(&t->vocab, t->added[mid])[d] < s[d])
                a = mid + 1;
            else
                b = mid;
        }
        lo = a;
        b = hi; /* the first whose byte d is above s[d] */
        while (a < b) {
            size_t mid = a + (b - a) / 2;
            if (qn_vocab_bytes(&t->vocab, t->added[mid])[d] <= s[d])
                a = mid + 1;
            else
                b = mid;
        }
        hi = a;
    }
    return best;
}

static qn_status encode_text(encoder *e, const uint8_t *s, size_t n, bool cut, const uint8_t *literal,
                             qn_error *err)
{
    qn_status st = QN_OK;
    size_t start = 0;
    for (size_t i = 0; cut && i < n;) {
        if (!e->t->starts[s[i]]) {
            i++;
            continue;
        }
        size_t len = 0;
        int32_t id = added_at(e->t, s + i, n - i, literal ? literal + i : NULL, &len);
        if (id < 0) {
            i++;
            continue;
        }
        st = encode_piece(e, s + start, i - start, err);
        if (!st) st = reserve_ids(e, 1, err);
        if (st) return st;
        e->ids[e->n_ids++] = id;
        start = i += len;
    }
    return encode_piece(e, s + start, n - start, err);
}

qn_status qn_tokenizer_encode(const qn_tokenizer *t, const char *text, size_t n, qn_special special,
                              const uint8_t *literal, int32_t **ids, size_t *n_ids, qn_error *err)
{
    size_t bad_at;
    *ids = NULL;
    *n_ids = 0;
    if (n > QN_TOKENIZER_MAX_TEXT)
        return qn_fail(err, QN_TOO_LARGE, "the text has %zu bytes, the limit is %zu", n,
                       QN_TOKENIZER_MAX_TEXT);
    if (special == QN_SPECIAL_MARKED && !literal && n > 0)
        return qn_fail(err, QN_INVALID, "the text comes without marks of which bytes are literals");
    if (!qn_utf8_valid(text, n, &bad_at))
        return qn_fail(err, QN_INVALID, "the text is not UTF-8 at byte %zu", bad_at);
    encoder e = {.t = t};
    qn_nfc_init(&e.nfc, 3 * n + 16); /* no character grows more than threefold in form C */
    size_t slots = 256;
    while (slots < n / 16 && slots < 16384) slots *= 2;
    if (n >= 2048) e.cache = calloc(slots, sizeof *e.cache); /* without memory for it, it is only slower */
    e.cache_mask = slots - 1;
    qn_status st = reserve_ids(&e, n / 4 + 16, err);
    if (!st)
        st = encode_text(&e, (const uint8_t *)text, n, special != QN_SPECIAL_NONE && t->n_added > 0,
                         special == QN_SPECIAL_MARKED ? literal : NULL, err);
    if (!st) {
        *ids = e.ids;
        *n_ids = e.n_ids;
        e.ids = NULL;
    }
    free(e.ids);
    free(e.cache);
    qn_nfc_deinit(&e.nfc);
    qn_bpe_work_deinit(&e.work);
    return st;
}
