/* template_methods.c - the methods that templates may call on strings, dicts and lists: one table. Only those
 * that change nothing; the names of the others are not known here, so asking for them gives an undefined
 * value. */
#include <string.h>
#include <utf8proc.h>

#include "text/template_int.h"

typedef bool (*method_fn)(qn_tpl_render *r, const qn_tpl_value *self, const qn_tpl_args *a,
                          qn_tpl_value *out);
#define METHOD(name)                                                                                         \
    static bool name(qn_tpl_render *r, const qn_tpl_value *self, const qn_tpl_args *a, qn_tpl_value *out)

/* The argument at `at` as a string; NULL with fine set where it is absent or None. */
static const qn_tpl_str *str_arg(qn_tpl_render *r, const qn_tpl_args *a, size_t at, const char *name,
                                 bool *fine)
{
    const qn_tpl_value *v = qn_tpl_arg(a, at, name);
    *fine = true;
    if (!v || v->kind == QN_TV_NONE) return NULL;
    if (v->kind == QN_TV_STR) return &v->s;
    *fine = v->kind == QN_TV_UNDEFINED ? qn_tpl_fail_undefined(r, v)
                                       : qn_tpl_fail(r, "a string is expected, not '%s'", qn_tpl_type(v));
    return NULL;
}

static bool int_arg(qn_tpl_render *r, const qn_tpl_args *a, size_t at, const char *name, int64_t fallback,
                    int64_t *out)
{
    const qn_tpl_value *v = qn_tpl_arg(a, at, name);
    *out = fallback;
    if (!v) return true;
    if (v->kind != QN_TV_INT && v->kind != QN_TV_BOOL)
        return qn_tpl_fail(r, "an integer is expected, not '%s'", qn_tpl_type(v));
    return *out = qn_tpl_int(v), true;
}

static bool strip(qn_tpl_render *r, const qn_tpl_value *self, const qn_tpl_args *a, bool left, bool right,
                  qn_tpl_value *out)
{
    bool fine;
    const qn_tpl_str *set = str_arg(r, a, 0, "chars", &fine);
    if (fine) *out = QN_TV_OF_STR(qn_tpl_strip(&self->s, set, left, right));
    return fine && qn_tpl_step(r, self->s.n / 1024);
}
METHOD(m_strip)
{
    return strip(r, self, a, true, true, out);
}
METHOD(m_lstrip)
{
    return strip(r, self, a, true, false, out);
}
METHOD(m_rstrip)
{
    return strip(r, self, a, false, true, out);
}

/* split at white space: runs of it separate, none at the ends. At most `max` cuts (negative: all). */
static bool split_space(qn_tpl_render *r, const qn_tpl_str *s, int64_t max, qn_tpl_value *v, size_t *n)
{
    size_t i = 0;
    uint32_t cp;
    *n = 0;
    for (;;) {
        size_t k = 0;
        while (i < s->n && (k = qn_tpl_char_at(s->p + i, s->n - i, &cp), qn_tpl_is_space(cp))) i += k;
        if (i >= s->n) return qn_tpl_step(r, *n);
        size_t from = i;
        if (max >= 0 && *n == (size_t)max) {
            qn_tpl_str rest = qn_tpl_sub(s, from, s->n);
            v[(*n)++] = QN_TV_OF_STR(qn_tpl_strip(&rest, NULL, false, true));
            return qn_tpl_step(r, *n);
        }
        while (i < s->n && (k = qn_tpl_char_at(s->p + i, s->n - i, &cp), !qn_tpl_is_space(cp))) i += k;
        v[(*n)++] = QN_TV_OF_STR(qn_tpl_sub(s, from, i));
    }
}

static size_t find_last(const qn_tpl_str *s, size_t end, const qn_tpl_str *what)
{
    if (what->n > end) return SIZE_MAX;
    for (size_t i = end - what->n + 1; i-- > 0;)
        if (memcmp(s->p + i, what->p, what->n) == 0) return i;
    return SIZE_MAX;
}

static bool split(qn_tpl_render *r, const qn_tpl_value *self, const qn_tpl_args *a, bool from_right,
                  qn_tpl_value *out)
{
    bool fine;
    int64_t max;
    const qn_tpl_str *s = &self->s, *sep = str_arg(r, a, 0, "sep", &fine);
    if (!fine || !int_arg(r, a, 1, "maxsplit", -1, &max)) return false;
    if (sep && sep->n == 0) return qn_tpl_fail(r, "empty separator");
    size_t n = 0, hits = 0;
    if (sep)
        for (size_t at = 0; (at = qn_tpl_find(s, at, sep)) != SIZE_MAX; at += sep->n) hits++;
    size_t room = sep ? hits + 1 : s->n / 2 + 2;
    qn_tpl_value *v = qn_tpl_alloc(r, room, sizeof *v);
    if (!v || !qn_tpl_step(r, hits + s->n / 256)) return false;
    if (!sep) {
        if (from_right && max >= 0)
            return qn_tpl_fail(r, "rsplit() at white space with a maximum is not supported");
        if (!split_space(r, s, max, v, &n)) return false;
    } else if (!from_right || max < 0 || (uint64_t)max >= hits) {
        size_t at = 0, hit;
        while ((max < 0 || n < (size_t)max) && (hit = qn_tpl_find(s, at, sep)) != SIZE_MAX) {
            v[n++] = QN_TV_OF_STR(qn_tpl_sub(s, at, hit));
            at = hit + sep->n;
        }
        v[n++] = QN_TV_OF_STR(qn_tpl_sub(s, at, s->n));
    } else {
        size_t end = s->n, hit;
        n = (size_t)max + 1;
        for (size_t i = n; i-- > 1;) {
            if (!qn_tpl_step(r, end / 64) || (hit = find_last(s, end, sep)) == SIZE_MAX)
                return qn_tpl_fail(r, "rsplit: overlapping separators");
            v[i] = QN_TV_OF_STR(qn_tpl_sub(s, hit + sep->n, end));
            end = hit;
        }
        v[0] = QN_TV_OF_STR(qn_tpl_sub(s, 0, end));
    }
    *out = (qn_tpl_value){.kind = QN_TV_LIST, .list = {.n = n, .v = v}};
    return true;
}
METHOD(m_split)
{
    return split(r, self, a, false, out);
}
METHOD(m_rsplit)
{
    return split(r, self, a, true, out);
}

METHOD(m_splitlines)
{
    const qn_tpl_str *s = &self->s;
    size_t n = 0, from = 0, room = 1;
    const qn_tpl_value *keep = qn_tpl_arg(a, 0, "keepends");
    for (size_t i = 0; i < s->n; i++) room += s->p[i] == '\n' || s->p[i] == '\r';
    qn_tpl_value *v = qn_tpl_alloc(r, room, sizeof *v);
    if (!v || !qn_tpl_step(r, room)) return false;
    for (size_t i = 0; i < s->n;) {
        if (s->p[i] != '\n' && s->p[i] != '\r') {
            i++;
            continue;
        }
        size_t end = i + (s->p[i] == '\r' && i + 1 < s->n && s->p[i + 1] == '\n' ? 2 : 1);
        v[n++] = QN_TV_OF_STR(qn_tpl_sub(s, from, keep && qn_tpl_truth(keep) ? end : i));
        from = i = end;
    }
    if (from < s->n) v[n++] = QN_TV_OF_STR(qn_tpl_sub(s, from, s->n));
    *out = (qn_tpl_value){.kind = QN_TV_LIST, .list = {.n = n, .v = v}};
    return true;
}

/* startswith, endswith: one string or a tuple of them. */
static bool affix(qn_tpl_render *r, const qn_tpl_value *self, const qn_tpl_args *a, bool end,
                  qn_tpl_value *out)
{
    const qn_tpl_value *x = qn_tpl_arg(a, 0, "prefix");
    qn_tpl_list l = {.n = 1, .v = x};
    bool yes = false;
    if (!x) return qn_tpl_fail(r, "an argument is missing");
    if (x->kind == QN_TV_UNDEFINED) return qn_tpl_fail_undefined(r, x);
    if (x->kind == QN_TV_TUPLE) l = x->list;
    for (size_t i = 0; i < l.n; i++) {
        if (l.v[i].kind != QN_TV_STR)
            return qn_tpl_fail(r, "a string or a tuple of strings is expected, not '%s'",
                               qn_tpl_type(&l.v[i]));
        const qn_tpl_str *s = &self->s, *w = &l.v[i].s;
        yes = yes || (w->n <= s->n && (w->n == 0 || !memcmp(s->p + (end ? s->n - w->n : 0), w->p, w->n)));
    }
    return *out = QN_TV_OF_BOOL(yes), true;
}
METHOD(m_startswith)
{
    return affix(r, self, a, false, out);
}
METHOD(m_endswith)
{
    return affix(r, self, a, true, out);
}

static bool remove_affix(qn_tpl_render *r, const qn_tpl_value *self, const qn_tpl_args *a, bool end,
                         qn_tpl_value *out)
{
    qn_tpl_value has;
    if (!affix(r, self, a, end, &has)) return false;
    *out = *self;
    if (!has.b || a->v[0].kind != QN_TV_STR) return true;
    size_t n = a->v[0].s.n;
    *out = QN_TV_OF_STR(qn_tpl_sub(&self->s, end ? 0 : n, end ? self->s.n - n : self->s.n));
    return true;
}
METHOD(m_removeprefix)
{
    return remove_affix(r, self, a, false, out);
}
METHOD(m_removesuffix)
{
    return remove_affix(r, self, a, true, out);
}

METHOD(m_replace)
{
    bool fine;
    int64_t count;
    const qn_tpl_str *from = str_arg(r, a, 0, "old", &fine),
                     *to = fine ? str_arg(r, a, 1, "new", &fine) : NULL;
    if (!fine || !int_arg(r, a, 2, "count", -1, &count)) return false;
    if (!from || !to) return qn_tpl_fail(r, "replace() takes two strings");
    *out = QN_TV(QN_TV_STR);
    return qn_tpl_replace(r, &self->s, from, to, count, &out->s);
}

static bool cased(qn_tpl_render *r, const qn_tpl_value *self, char how, qn_tpl_value *out)
{
    *out = QN_TV(QN_TV_STR);
    return qn_tpl_case(r, &self->s, how, &out->s);
}
METHOD(m_upper)
{
    (void)a;
    return cased(r, self, 'U', out);
}
METHOD(m_lower)
{
    (void)a;
    return cased(r, self, 'L', out);
}
METHOD(m_title)
{
    (void)a;
    return cased(r, self, 'T', out);
}
METHOD(m_capitalize)
{
    (void)a;
    return cased(r, self, 'C', out);
}

static bool find(qn_tpl_render *r, const qn_tpl_value *self, const qn_tpl_args *a, bool last,
                 qn_tpl_value *out)
{
    bool fine;
    const qn_tpl_str *w = str_arg(r, a, 0, "sub", &fine);
    if (!w) return fine ? qn_tpl_fail(r, "find() takes a string") : false;
    size_t at = last ? find_last(&self->s, self->s.n, w) : qn_tpl_find(&self->s, 0, w);
    qn_tpl_str before = qn_tpl_sub(&self->s, 0, at == SIZE_MAX ? 0 : at);
    *out = QN_TV_OF_INT(at == SIZE_MAX ? -1 : (int64_t)qn_tpl_chars(&before));
    return qn_tpl_step(r, 1 + self->s.n / 64);
}
METHOD(m_find)
{
    return find(r, self, a, false, out);
}
METHOD(m_rfind)
{
    return find(r, self, a, true, out);
}
METHOD(m_str_index)
{
    if (!find(r, self, a, false, out)) return false;
    return out->i >= 0 || qn_tpl_fail(r, "substring not found");
}

METHOD(m_str_count)
{
    bool fine;
    int64_t n = 0;
    const qn_tpl_str *w = str_arg(r, a, 0, "sub", &fine);
    if (!w || !w->n) return fine ? qn_tpl_fail(r, "count() takes a string that is not empty") : false;
    for (size_t at = 0; (at = qn_tpl_find(&self->s, at, w)) != SIZE_MAX; at += w->n) n++;
    *out = QN_TV_OF_INT(n);
    return qn_tpl_step(r, 1 + self->s.n / 64);
}

METHOD(m_join)
{
    qn_tpl_list l;
    qn_tpl_text t = {0};
    const qn_tpl_value *x = qn_tpl_arg(a, 0, "iterable");
    if (!x) return qn_tpl_fail(r, "an argument is missing");
    if (!qn_tpl_iterate(r, x, &l)) return false;
    for (size_t i = 0; i < l.n; i++) {
        if (l.v[i].kind != QN_TV_STR)
            return qn_tpl_fail(r, "sequence item %zu: expected str instance, %s found", i,
                               qn_tpl_type(&l.v[i]));
        if (!qn_tpl_step(r, 1) || (i && !qn_tpl_add(r, &t, &self->s)) || !qn_tpl_add(r, &t, &l.v[i].s))
            return false;
    }
    *out = QN_TV_OF_STR(qn_tpl_done(&t));
    return true;
}

METHOD(m_format)
{
    return qn_tpl_format(r, &self->s, a, out);
}

/* isdigit and its like: every character in the class, and at least one. */
static bool all_chars(const qn_tpl_value *self, char what, qn_tpl_value *out)
{
    bool yes = self->s.n > 0;
    for (size_t i = 0; i < self->s.n && yes;) {
        uint32_t cp;
        i += qn_tpl_char_at(self->s.p + i, self->s.n - i, &cp);
        utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
        bool letter = c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO,
             digit = c == UTF8PROC_CATEGORY_ND;
        yes = what == 's'   ? qn_tpl_is_space(cp)
              : what == 'd' ? digit
              : what == 'a' ? letter
                            : letter || digit;
    }
    return *out = QN_TV_OF_BOOL(yes), true;
}
METHOD(m_isdigit)
{
    (void)r;
    (void)a;
    return all_chars(self, 'd', out);
}
METHOD(m_isalpha)
{
    (void)r;
    (void)a;
    return all_chars(self, 'a', out);
}
METHOD(m_isalnum)
{
    (void)r;
    (void)a;
    return all_chars(self, 'n', out);
}
METHOD(m_isspace)
{
    (void)r;
    (void)a;
    return all_chars(self, 's', out);
}

static bool cased_test(qn_tpl_render *r, const qn_tpl_value *self, const char *test, qn_tpl_value *out)
{
    bool yes;
    qn_tpl_args none = {0};
    return qn_tpl_find_test(test, 5)(r, self, &none, &yes) && (*out = QN_TV_OF_BOOL(yes), true);
}
METHOD(m_isupper)
{
    (void)a;
    return cased_test(r, self, "upper", out);
}
METHOD(m_islower)
{
    (void)a;
    return cased_test(r, self, "lower", out);
}

METHOD(m_get)
{
    const qn_tpl_value *key = qn_tpl_arg(a, 0, "key"), *fallback = qn_tpl_arg(a, 1, "default");
    bool found;
    if (!key) return qn_tpl_fail(r, "get() takes a key");
    if (!qn_tpl_lookup(r, self, key, out, &found)) return false;
    if (!found) *out = fallback ? *fallback : QN_TV(QN_TV_NONE);
    return true;
}

METHOD(m_items)
{
    qn_tpl_dict d;
    (void)a;
    if (!qn_tpl_pairs(r, self, &d)) return false;
    qn_tpl_value *v = qn_tpl_alloc(r, d.n, 3 * sizeof *v);
    if (!v || !qn_tpl_step(r, d.n)) return false;
    for (size_t i = 0; i < d.n; i++) {
        qn_tpl_value *pair = v + d.n + 2 * i;
        pair[0] = d.k[i];
        pair[1] = d.v[i];
        v[i] = (qn_tpl_value){.kind = QN_TV_TUPLE, .list = {.n = 2, .v = pair}};
    }
    *out = (qn_tpl_value){.kind = QN_TV_LIST, .list = {.n = d.n, .v = v}};
    return true;
}

static bool side(qn_tpl_render *r, const qn_tpl_value *self, bool keys, qn_tpl_value *out)
{
    qn_tpl_dict d;
    if (!qn_tpl_pairs(r, self, &d)) return false;
    *out = (qn_tpl_value){.kind = QN_TV_LIST, .list = {.n = d.n, .v = keys ? d.k : d.v}};
    return true;
}
METHOD(m_keys)
{
    (void)a;
    return side(r, self, true, out);
}
METHOD(m_values)
{
    (void)a;
    return side(r, self, false, out);
}
METHOD(m_copy)
{
    (void)r;
    (void)a;
    *out = *self;
    return true;
}

METHOD(m_list_count)
{
    qn_tpl_list l;
    bool eq;
    int64_t n = 0;
    if (a->n != 1) return qn_tpl_fail(r, "count() takes one argument");
    if (!qn_tpl_iterate(r, self, &l)) return false;
    for (size_t i = 0; i < l.n; i++) {
        if (!qn_tpl_equal(r, &l.v[i], &a->v[0], &eq)) return false;
        n += eq;
    }
    return *out = QN_TV_OF_INT(n), true;
}

METHOD(m_list_index)
{
    qn_tpl_list l;
    bool eq;
    if (a->n != 1) return qn_tpl_fail(r, "index() takes one argument");
    if (!qn_tpl_iterate(r, self, &l)) return false;
    for (size_t i = 0; i < l.n; i++) {
        if (!qn_tpl_equal(r, &l.v[i], &a->v[0], &eq)) return false;
        if (eq) return *out = QN_TV_OF_INT((int64_t)i), true;
    }
    return qn_tpl_fail(r, "the value is not in the list");
}

METHOD(m_cycle)
{
    if (!a->n) return qn_tpl_fail(r, "no items for cycling given");
    return *out = a->v[self->loop->at % a->n], true;
}

enum { OF_STR = 1, OF_DICT = 2, OF_LIST = 4, OF_LOOP = 8 };
static const struct {
    const char *name;
    int of;
    method_fn fn;
} methods[] = {{"strip", OF_STR, m_strip},
               {"lstrip", OF_STR, m_lstrip},
               {"rstrip", OF_STR, m_rstrip},
               {"split", OF_STR, m_split},
               {"rsplit", OF_STR, m_rsplit},
               {"splitlines", OF_STR, m_splitlines},
               {"startswith", OF_STR, m_startswith},
               {"endswith", OF_STR, m_endswith},
               {"removeprefix", OF_STR, m_removeprefix},
               {"removesuffix", OF_STR, m_removesuffix},
               {"replace", OF_STR, m_replace},
               {"upper", OF_STR, m_upper},
               {"lower", OF_STR, m_lower},
               {"title", OF_STR, m_title},
               {"capitalize", OF_STR, m_capitalize},
               {"find", OF_STR, m_find},
               {"rfind", OF_STR, m_rfind},
               {"index", OF_STR, m_str_index},
               {"count", OF_STR, m_str_count},
               {"join", OF_STR, m_join},
               {"format", OF_STR, m_format},
               {"isdigit", OF_STR, m_isdigit},
               {"isalpha", OF_STR, m_isalpha},
               {"isalnum", OF_STR, m_isalnum},
               {"isspace", OF_STR, m_isspace},
               {"isupper", OF_STR, m_isupper},
               {"islower", OF_STR, m_islower},
               {"get", OF_DICT, m_get},
               {"items", OF_DICT, m_items},
               {"keys", OF_DICT, m_keys},
               {"values", OF_DICT, m_values},
               {"copy", OF_DICT | OF_LIST, m_copy},
               {"count", OF_LIST, m_list_count},
               {"index", OF_LIST, m_list_index},
               {"cycle", OF_LOOP, m_cycle}};

static int kind_mask(const qn_tpl_value *v)
{
    return v->kind == QN_TV_STR    ? OF_STR
           : qn_tpl_is_dict(v)     ? OF_DICT
           : qn_tpl_is_list(v)     ? OF_LIST
           : v->kind == QN_TV_LOOP ? OF_LOOP
                                   : 0;
}

const char *qn_tpl_method_name(const qn_tpl_value *v, const char *name, size_t n)
{
    int of = kind_mask(v);
    for (size_t i = 0; of && i < sizeof methods / sizeof methods[0]; i++)
        if ((methods[i].of & of) && strlen(methods[i].name) == n && !memcmp(methods[i].name, name, n))
            return methods[i].name;
    return NULL;
}

bool qn_tpl_call_method(qn_tpl_render *r, const qn_tpl_method *m, const qn_tpl_args *args, qn_tpl_value *out)
{
    int of = kind_mask(&m->self);
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if ((methods[i].of & of) && !strcmp(methods[i].name, m->name))
            return methods[i].fn(r, &m->self, args, out);
    return qn_tpl_fail(r, "no method '%s'", m->name);
}
