/* vocab.c - token bytes in one arena, an open-addressed hash table from bytes to ids. */
#include "text/vocab.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void qn_vocab_deinit(qn_vocab *v)
{
    free(v->tokens);
    free(v->bytes);
    free(v->slots);
    *v = (qn_vocab){0};
}

static bool same(const qn_vocab *v, uint32_t id, const uint8_t *s, size_t n)
{
    return v->tokens[id].n == n && memcmp(qn_vocab_bytes(v, id), s, n) == 0;
}

/* Where the base token s[0..n) stands among the slots, or the empty slot where it would. The high half of the
 * hash lies beside the id, so that a probe that misses seldom touches the token's bytes. */
static size_t probe(const qn_vocab *v, uint64_t hash, const uint8_t *s, size_t n)
{
    size_t i = hash & (v->n_slots - 1);
    for (; v->slots[i]; i = (i + 1) & (v->n_slots - 1))
        if (v->slots[i] >> 32 == hash >> 32 && same(v, (uint32_t)v->slots[i] - 1, s, n)) break;
    return i;
}

static uint64_t slot_value(uint64_t hash, uint32_t id)
{
    return hash >> 32 << 32 | (id + 1);
}

int32_t qn_vocab_find(const qn_vocab *v, const uint8_t *s, size_t n)
{
    return v->n_slots ? (int32_t)(uint32_t)v->slots[probe(v, XXH3_64bits(s, n), s, n)] - 1 : -1;
}

void qn_vocab_find_two(const qn_vocab *v, const uint8_t *s, size_t n, size_t m, int32_t ids[2])
{
    ids[0] = ids[1] = -1;
    if (v->n_slots == 0) return;
    uint64_t hash[2] = {XXH3_64bits(s, n), XXH3_64bits(s + n, m)};
    __builtin_prefetch(&v->slots[hash[1] & (v->n_slots - 1)]);
    ids[0] = (int32_t)(uint32_t)v->slots[probe(v, hash[0], s, n)] - 1;
    ids[1] = (int32_t)(uint32_t)v->slots[probe(v, hash[1], s + n, m)] - 1;
}

int32_t qn_vocab_find_near(const qn_vocab *v, uint32_t guess, const uint8_t *s, size_t n)
{
    if (guess < v->n_ids && (v->tokens[guess].flags & QN_TOKEN_BASE) && same(v, guess, s, n))
        return (int32_t)guess;
    return qn_vocab_find(v, s, n);
}

static bool grow_slots(qn_vocab *v)
{
    if (((size_t)v->n_base + 1) * 2 <= v->n_slots) return true;
    size_t n = v->n_slots ? v->n_slots * 4 : 1024;
    uint64_t *slots = calloc(n, sizeof *slots);
    if (!slots) return false;
    free(v->slots);
    v->slots = slots;
    v->n_slots = n;
    for (uint32_t id = 0; id < v->n_ids; id++)
        if (v->tokens[id].flags & QN_TOKEN_BASE) {
            const uint8_t *s = qn_vocab_bytes(v, id);
            uint64_t hash = XXH3_64bits(s, v->tokens[id].n);
            v->slots[probe(v, hash, s, v->tokens[id].n)] = slot_value(hash, id);
        }
    return true;
}

static bool grow_arrays(qn_vocab *v, uint32_t id, size_t n)
{
    if (id >= v->ids_cap) {
        uint32_t cap = id + id / 2 + 256;
        qn_token *t = realloc(v->tokens, cap * sizeof *t);
        if (!t) return false;
        memset(t + v->ids_cap, 0, (cap - v->ids_cap) * sizeof *t);
        v->tokens = t;
        v->ids_cap = cap;
    }
    if (n > v->bytes_cap - v->bytes_len) {
        size_t cap = (v->bytes_len + n) * 3 / 2 + 4096;
        uint8_t *b = realloc(v->bytes, cap);
        if (!b) return false;
        v->bytes = b;
        v->bytes_cap = cap;
    }
    return true;
}

/* The token in the messages below; made only when one is needed. */
typedef struct shown {
    char text[64];
} shown;

static const char *show(shown *name, const uint8_t *s, size_t n)
{
    return qn_printable(name->text, sizeof name->text, s, n);
}

qn_status qn_vocab_add(qn_vocab *v, uint64_t id, const uint8_t *s, size_t n, uint16_t flags, qn_error *err)
{
    shown name, other;
    if (id >= QN_VOCAB_MAX_IDS)
        return qn_fail(err, QN_TOO_LARGE, "token '%s' has id %llu, the limit is %u", show(&name, s, n),
                       (unsigned long long)id, QN_VOCAB_MAX_IDS - 1);
    if (n == 0) return qn_fail(err, QN_CORRUPT, "the token of id %llu is empty", (unsigned long long)id);
    if (n > QN_VOCAB_MAX_TOKEN_BYTES)
        return qn_fail(err, QN_TOO_LARGE, "token '%s' (id %llu) has %zu bytes, the limit is %zu",
                       show(&name, s, n), (unsigned long long)id, n, QN_VOCAB_MAX_TOKEN_BYTES);
    uint32_t i = (uint32_t)id;
    if (!grow_arrays(v, i, n) || !grow_slots(v))
        return qn_fail(err, QN_NOMEM, "no memory for %u tokens", v->n_ids);
    uint64_t hash = XXH3_64bits(s, n);
    size_t slot = probe(v, hash, s, n);
    int32_t twin = (int32_t)(uint32_t)v->slots[slot] - 1;
    if (twin >= 0 && twin != (int32_t)i)
        return qn_fail(err, QN_CORRUPT, "token '%s' has two ids, %d and %u", show(&name, s, n), twin, i);
    qn_token *t = &v->tokens[i];
    if (t->flags) {
        if (!same(v, i, s, n) || (t->flags & flags & QN_TOKEN_BASE))
            return qn_fail(err, QN_CORRUPT, "id %u has two tokens, '%s' and '%s'", i,
                           show(&other, qn_vocab_bytes(v, i), t->n), show(&name, s, n));
        t->flags |= flags;
    } else {
        *t = (qn_token){.start = (uint32_t)v->bytes_len, .n = (uint16_t)n, .flags = flags};
        memcpy(v->bytes + v->bytes_len, s, n);
        v->bytes_len += n;
        if (i >= v->n_ids) v->n_ids = i + 1;
    }
    if (flags & QN_TOKEN_BASE) {
        v->n_base++;
        v->slots[slot] = slot_value(hash, i);
    }
    return QN_OK;
}

size_t qn_vocab_unspell(uint8_t *dst, const char *text, size_t n)
{
    const uint8_t *s = (const uint8_t *)text;
    size_t o = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t cp = s[i];
        if (cp >= 0x80) {
            if (cp > 0xc5 || i + 1 >= n) return SIZE_MAX; /* U+0143 is C5 83 */
            cp = (cp & 0x1f) << 6 | (s[++i] & 0x3fu);
        }
        if (cp >= 0x100) {
            uint32_t k = cp - 0x100; /* 0..32: bytes 0-32; 33..66: 127-160; 67: 173 */
            if (k > 67) return SIZE_MAX;
            dst[o++] = (uint8_t)(k <= 32 ? k : k <= 66 ? k - 33 + 127 : 173);
        } else if ((cp >= 33 && cp <= 126) || (cp >= 161 && cp <= 172) || cp >= 174) {
            dst[o++] = (uint8_t)cp;
        } else {
            return SIZE_MAX;
        }
    }
    return o;
}
