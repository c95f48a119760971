/* template_string.c - the memory of a render and its strings: views with an origin per byte, and text under
 * construction. Lengths and indices that templates see are code points; all strings are valid UTF-8. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/size.h"
#include "text/template_int.h"

#define CHUNK ((size_t)64 << 10)

struct qn_tpl_chunk {
    qn_tpl_chunk *next;
    size_t unused; /* keeps what follows aligned to 16 */
    char bytes[];
};

void *qn_tpl_arena_alloc(qn_tpl_arena *a, size_t n)
{
    uint64_t need;
    a->over = true;
    if (!qn_size_round_up(n ? n : 1, 16, &need)) return NULL;
    if (need > a->left) {
        size_t bytes = need > CHUNK / 4
                           ? need
                           : CHUNK; /* big ones get a chunk of their own and leave the rest as it is */
        if (bytes > a->max_bytes - a->used) return NULL;
        qn_tpl_chunk *c = malloc(sizeof *c + bytes);
        a->over = false;
        if (!c) return NULL;
        a->used += bytes;
        c->next = a->chunks;
        a->chunks = c;
        if (bytes != CHUNK) return c->bytes;
        a->at = c->bytes;
        a->left = bytes;
    }
    void *p = a->at;
    a->at += need;
    a->left -= need;
    return p;
}

void qn_tpl_arena_deinit(qn_tpl_arena *a)
{
    for (qn_tpl_chunk *c = a->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    *a = (qn_tpl_arena){.max_bytes = a->max_bytes};
}

void *qn_tpl_alloc(qn_tpl_render *r, size_t n, size_t size)
{
    uint64_t bytes;
    void *p =
        qn_size_mul(n, size, &bytes) ? qn_tpl_arena_alloc(&r->arena, bytes) : (r->arena.over = true, NULL);
    if (p) return p;
    if (r->arena.over)
        qn_tpl_fail_limit(r, QN_TOO_LARGE, "its values take more than the limit of %zu bytes",
                          r->arena.max_bytes);
    else
        qn_tpl_fail_limit(r, QN_NOMEM, "no memory for its values");
    return NULL;
}

size_t qn_tpl_char_at(const char *p, size_t n, uint32_t *cp)
{
    utf8proc_int32_t c;
    utf8proc_ssize_t k = utf8proc_iterate((const uint8_t *)p, (utf8proc_ssize_t)n, &c);
    if (k <= 0) return *cp = (uint8_t)*p, 1; /* only in a lexer's first look; checked text has no such byte */
    *cp = (uint32_t)c;
    return (size_t)k;
}

bool qn_tpl_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
}

size_t qn_tpl_chars(const qn_tpl_str *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) n += ((uint8_t)s->p[i] & 0xc0) != 0x80;
    return n;
}

qn_tpl_str qn_tpl_sub(const qn_tpl_str *s, size_t from, size_t to)
{
    return (qn_tpl_str){.p = s->p + from, .o = s->o ? s->o + from : NULL, .n = to - from, .all = s->all};
}

static bool in_set(const qn_tpl_str *set, const char *p, size_t n)
{
    uint32_t cp;
    if (!set) return qn_tpl_char_at(p, n, &cp), qn_tpl_is_space(cp);
    for (size_t i = 0; i < set->n;) {
        size_t k = qn_tpl_char_at(set->p + i, set->n - i, &cp);
        if (k == n && memcmp(set->p + i, p, n) == 0) return true;
        i += k;
    }
    return false;
}

qn_tpl_str qn_tpl_strip(const qn_tpl_str *s, const qn_tpl_str *set, bool left, bool right)
{
    size_t from = 0, to = s->n;
    uint32_t cp;
    while (left && from < to) {
        size_t k = qn_tpl_char_at(s->p + from, to - from, &cp);
        if (!in_set(set, s->p + from, k)) break;
        from += k;
    }
    while (right && to > from) {
        size_t k = 1;
        while (k < to - from && ((uint8_t)s->p[to - k] & 0xc0) == 0x80) k++;
        if (!in_set(set, s->p + to - k, k)) break;
        to -= k;
    }
    return qn_tpl_sub(s, from, to);
}

size_t qn_tpl_find(const qn_tpl_str *s, size_t from, const qn_tpl_str *what)
{
    if (from > s->n || what->n > s->n - from) return SIZE_MAX;
    if (what->n == 0) return from;
    const char *hit = memmem(s->p + from, s->n - from, what->p, what->n);
    return hit ? (size_t)(hit - s->p) : SIZE_MAX;
}

bool qn_tpl_str_is(const qn_tpl_str *s, const char *literal)
{
    return s->n == strlen(literal) && memcmp(s->p, literal, s->n) == 0;
}

static bool make_room(qn_tpl_render *r, qn_tpl_text *t, size_t n)
{
    if (n > QN_TPL_MAX_OUTPUT - t->n)
        return qn_tpl_fail_limit(r, QN_TOO_LARGE, "it makes more than the limit of %zu bytes of text",
                                 QN_TPL_MAX_OUTPUT);
    if (n <= t->cap - t->n) return true;
    size_t cap = t->cap ? t->cap : 240;
    while (cap - t->n < n) cap *= 2;
    char *p = qn_tpl_alloc(r, cap, 2); /* text and, behind it, origins */
    if (!p) return false;
    if (t->n) {
        memcpy(p, t->p, t->n);
        memcpy(p + cap, t->o, t->n);
    }
    t->p = p;
    t->o = (uint8_t *)p + cap;
    t->cap = cap;
    return true;
}

bool qn_tpl_add_data(qn_tpl_render *r, qn_tpl_text *t, const char *p, size_t n, uint8_t origin)
{
    if (!make_room(r, t, n)) return false;
    if (n == 0) return true;
    memcpy(t->p + t->n, p, n);
    memset(t->o + t->n, origin, n);
    t->n += n;
    return qn_tpl_step(r, n / 1024);
}

bool qn_tpl_add(qn_tpl_render *r, qn_tpl_text *t, const qn_tpl_str *s)
{
    if (!s->o) return qn_tpl_add_data(r, t, s->p, s->n, s->all);
    if (!make_room(r, t, s->n)) return false;
    if (s->n == 0) return true;
    memcpy(t->p + t->n, s->p, s->n);
    memcpy(t->o + t->n, s->o, s->n);
    t->n += s->n;
    return qn_tpl_step(r, s->n / 1024);
}

qn_tpl_str qn_tpl_done(const qn_tpl_text *t)
{
    return (qn_tpl_str){.p = t->n ? t->p : "", .o = t->n ? t->o : NULL, .n = t->n};
}

bool qn_tpl_replace(qn_tpl_render *r, const qn_tpl_str *s, const qn_tpl_str *from, const qn_tpl_str *to,
                    int64_t count, qn_tpl_str *out)
{
    qn_tpl_text t = {0};
    size_t i = 0;
    if (!qn_tpl_step(r, 1 + s->n / 64)) return false;
    if (from->n == 0) { /* between all characters, as Python does */
        while (count != 0) {
            if (!qn_tpl_add(r, &t, to)) return false;
            if (count > 0) count--;
            if (i >= s->n) break;
            uint32_t cp;
            size_t k = qn_tpl_char_at(s->p + i, s->n - i, &cp);
            qn_tpl_str c = qn_tpl_sub(s, i, i + k);
            if (!qn_tpl_add(r, &t, &c)) return false;
            i += k;
        }
    } else {
        size_t hit = qn_tpl_find(s, 0, from);
        if (hit == SIZE_MAX || count == 0) return *out = *s, true;
        for (; hit != SIZE_MAX && count != 0; count -= count > 0) {
            qn_tpl_str before = qn_tpl_sub(s, i, hit);
            if (!qn_tpl_add(r, &t, &before) || !qn_tpl_add(r, &t, to)) return false;
            i = hit + from->n;
            hit = qn_tpl_find(s, i, from);
        }
    }
    qn_tpl_str rest = qn_tpl_sub(s, i, s->n);
    if (!qn_tpl_add(r, &t, &rest)) return false;
    *out = qn_tpl_done(&t);
    return true;
}

bool qn_tpl_case(qn_tpl_render *r, const qn_tpl_str *s, char how, qn_tpl_str *out)
{
    qn_tpl_text t = {0};
    bool first = true;
    uint8_t all = s->n > 0 || s->all; /* template only where every byte is */
    for (size_t i = 0; i < s->n && all; i++) all = s->o ? s->o[i] : s->all;
    for (size_t i = 0; i < s->n;) {
        uint32_t cp;
        uint8_t d[8];
        i += qn_tpl_char_at(s->p + i, s->n - i, &cp);
        bool up = how == 'U' || ((how == 'C' || how == 'T') && first);
        utf8proc_int32_t c = (utf8proc_int32_t)cp, m = up ? utf8proc_toupper(c) : utf8proc_tolower(c);
        utf8proc_category_t cat = utf8proc_category(c);
        first = how == 'T' &&
                !(cat == UTF8PROC_CATEGORY_LU || cat == UTF8PROC_CATEGORY_LL || cat == UTF8PROC_CATEGORY_LT);
        utf8proc_ssize_t k = utf8proc_encode_char(m, d);
        if (up && cp == 0xdf)
            d[0] = 'S', d[1] = how == 'U' ? 'S' : 's', k = 2; /* the one common letter that grows */
        if (!qn_tpl_add_data(r, &t, (char *)d, (size_t)k, all)) return false;
    }
    *out = qn_tpl_done(&t);
    out->o = NULL;
    out->all = all;
    return qn_tpl_step(r, s->n / 64);
}
