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

static size_t slot_of(const qn_vocab *v, const uint8_t *s, size_t n)
{
    return XXH3_64bits(s, n) & (v->n_slots - 1);
}

static bool same(const qn_vocab *v, uint32_t id, const uint8_t *s, size_t n)
{
    return v->tokens[id].n == n && memcmp(qn_vocab_bytes(v, id), s, n) == 0;
}

int32_t qn_vocab_find(const qn_vocab *v, const uint8_t *s, size_t n)
{
    if (v->n_slots == 0) return -1;
    for (size_t i = slot_of(v, s, n); v->slots[i]; i = (i + 1) & (v->n_slots - 1))
        if (same(v, v->slots[i] - 1, s, n)) return (int32_t)(v->slots[i] - 1);
    return -1;
}

static void put_slot(qn_vocab *v, uint32_t id)
{
    size_t i = slot_of(v, qn_vocab_bytes(v, id), v->tokens[id].n);
    while (v->slots[i]) i = (i + 1) & (v->n_slots - 1);
    v->slots[i] = id + 1;
}

static bool grow_slots(qn_vocab *v)
{
    if (((size_t)v->n_base + 1) * 2 <= v->n_slots) return true;
    size_t n = v->n_slots ? v->n_slots * 2 : 1024;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots) return false;
    free(v->slots);
    v->slots = slots;
    v->n_slots = n;
    for (uint32_t id = 0; id < v->n_ids; id++)
        if (v->tokens[id].flags & QN_TOKEN_BASE) put_slot(v, id);
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

qn_status qn_vocab_add(qn_vocab *v, uint64_t id, const uint8_t *s, size_t n, uint16_t flags, qn_error *err)
{
    char name[64];
    qn_printable(name, sizeof name, s, n);
    if (id >= QN_VOCAB_MAX_IDS)
        return qn_fail(err, QN_TOO_LARGE, "token '%s' has id %llu, the limit is %u", name,
                       (unsigned long long)id, QN_VOCAB_MAX_IDS - 1);
    if (n == 0) return qn_fail(err, QN_CORRUPT, "the token of id %llu is empty", (unsigned long long)id);
    if (n > QN_VOCAB_MAX_TOKEN_BYTES)
        return qn_fail(err, QN_TOO_LARGE, "token '%s' (id %llu) has %zu bytes, the limit is %zu", name,
                       (unsigned long long)id, n, QN_VOCAB_MAX_TOKEN_BYTES);
    uint32_t i = (uint32_t)id;
    if (!grow_arrays(v, i, n) || !grow_slots(v))
        return qn_fail(err, QN_NOMEM, "no memory for %u tokens", v->n_ids);
    int32_t twin = qn_vocab_find(v, s, n);
    if (twin >= 0 && twin != (int32_t)i)
        return qn_fail(err, QN_CORRUPT, "token '%s' has two ids, %d and %u", name, twin, i);
    qn_token *t = &v->tokens[i];
    if (t->flags) {
        if (same(v, i, s, n) && (t->flags & flags & QN_TOKEN_BASE) == 0) {
            t->flags |= flags;
            if (flags & QN_TOKEN_BASE) {
                v->n_base++;
                put_slot(v, i);
            }
            return QN_OK;
        }
        char other[64];
        return qn_fail(err, QN_CORRUPT, "id %u has two tokens, '%s' and '%s'", i,
                       qn_printable(other, sizeof other, qn_vocab_bytes(v, i), t->n), name);
    }
    *t = (qn_token){.start = (uint32_t)v->bytes_len, .n = (uint16_t)n, .flags = flags};
    memcpy(v->bytes + v->bytes_len, s, n);
    v->bytes_len += n;
    if (i >= v->n_ids) v->n_ids = i + 1;
    if (flags & QN_TOKEN_BASE) {
        v->n_base++;
        put_slot(v, i);
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
