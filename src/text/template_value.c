/* template_value.c - what the values of a template are and do: truth, length, iteration, look-ups, equality
 * and order, and their spelling as text, all as Python has them. JSON is read in place and never copied. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "text/template_int.h"

qn_tpl_value qn_tpl_of_json(const json_t *j)
{
    switch (json_typeof(j)) {
    case JSON_OBJECT: return (qn_tpl_value){.kind = QN_TV_JSON_DICT, .json = j};
    case JSON_ARRAY: return (qn_tpl_value){.kind = QN_TV_JSON_LIST, .json = j};
    case JSON_STRING:
        return QN_TV_OF_STR(((qn_tpl_str){.p = json_string_value(j), .n = json_string_length(j)}));
    case JSON_INTEGER: return QN_TV_OF_INT(json_integer_value(j));
    case JSON_REAL: return (qn_tpl_value){.kind = QN_TV_FLOAT, .f = json_real_value(j)};
    case JSON_TRUE: return QN_TV_OF_BOOL(true);
    case JSON_FALSE: return QN_TV_OF_BOOL(false);
    default: return QN_TV(QN_TV_NONE);
    }
}

qn_tpl_value qn_tpl_of_text(const char *s)
{
    return QN_TV_OF_STR(((qn_tpl_str){.p = s, .n = strlen(s)}));
}

qn_tpl_value qn_tpl_undefined(qn_tpl_render *r, const char *fmt, ...)
{
    char msg[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    size_t n = strlen(msg);
    char *p = qn_tpl_arena_alloc(&r->arena, n);
    qn_tpl_value v = {.kind = QN_TV_UNDEFINED, .s = {.p = "a value is undefined", .n = 20}};
    if (p) v.s.p = memcpy(p, msg, n), v.s.n = n;
    return v;
}

bool qn_tpl_is_list(const qn_tpl_value *v)
{
    return v->kind == QN_TV_LIST || v->kind == QN_TV_TUPLE || v->kind == QN_TV_JSON_LIST;
}
bool qn_tpl_is_dict(const qn_tpl_value *v)
{
    return v->kind == QN_TV_DICT || v->kind == QN_TV_JSON_DICT;
}
bool qn_tpl_is_number(const qn_tpl_value *v)
{
    return v->kind == QN_TV_INT || v->kind == QN_TV_FLOAT || v->kind == QN_TV_BOOL;
}
double qn_tpl_number(const qn_tpl_value *v)
{
    return v->kind == QN_TV_FLOAT ? v->f : (double)qn_tpl_int(v);
}
int64_t qn_tpl_int(const qn_tpl_value *v)
{
    return v->kind == QN_TV_BOOL ? v->b : v->i;
}

bool qn_tpl_truth(const qn_tpl_value *v)
{
    switch (v->kind) {
    case QN_TV_UNDEFINED:
    case QN_TV_NONE: return false;
    case QN_TV_BOOL: return v->b;
    case QN_TV_INT: return v->i != 0;
    case QN_TV_FLOAT: return v->f != 0;
    case QN_TV_STR: return v->s.n != 0;
    case QN_TV_LIST:
    case QN_TV_TUPLE: return v->list.n != 0;
    case QN_TV_JSON_LIST: return json_array_size(v->json) != 0;
    case QN_TV_DICT: return v->dict->n != 0;
    case QN_TV_JSON_DICT: return json_object_size(v->json) != 0;
    default: return true;
    }
}

const char *qn_tpl_type(const qn_tpl_value *v)
{
    static const char *const names[] = {[QN_TV_UNDEFINED] = "Undefined", [QN_TV_NONE] = "NoneType",
                                        [QN_TV_BOOL] = "bool",           [QN_TV_INT] = "int",
                                        [QN_TV_FLOAT] = "float",         [QN_TV_STR] = "str",
                                        [QN_TV_LIST] = "list",           [QN_TV_TUPLE] = "tuple",
                                        [QN_TV_JSON_LIST] = "list",      [QN_TV_DICT] = "dict",
                                        [QN_TV_JSON_DICT] = "dict",      [QN_TV_NAMESPACE] = "Namespace",
                                        [QN_TV_MACRO] = "Macro",         [QN_TV_LOOP] = "LoopContext",
                                        [QN_TV_FUNCTION] = "function",   [QN_TV_METHOD] = "method"};
    return names[v->kind];
}

bool qn_tpl_length(qn_tpl_render *r, const qn_tpl_value *v, size_t *n)
{
    switch (v->kind) {
    case QN_TV_UNDEFINED: *n = 0; return true;
    case QN_TV_STR: *n = qn_tpl_chars(&v->s); return qn_tpl_step(r, v->s.n / 1024);
    case QN_TV_LIST:
    case QN_TV_TUPLE: *n = v->list.n; return true;
    case QN_TV_JSON_LIST: *n = json_array_size(v->json); return true;
    case QN_TV_DICT: *n = v->dict->n; return true;
    case QN_TV_JSON_DICT: *n = json_object_size(v->json); return true;
    case QN_TV_LOOP: *n = v->loop->items.n; return true;
    default: return qn_tpl_fail(r, "object of type '%s' has no len()", qn_tpl_type(v));
    }
}

static qn_tpl_value key_of(const char *key, size_t n)
{
    return QN_TV_OF_STR(((qn_tpl_str){.p = key, .n = n}));
}

bool qn_tpl_pairs(qn_tpl_render *r, const qn_tpl_value *d, qn_tpl_dict *out)
{
    if (d->kind == QN_TV_DICT || d->kind == QN_TV_NAMESPACE)
        return *out = *d->dict, qn_tpl_step(r, d->dict->n / 16);
    if (d->kind != QN_TV_JSON_DICT) return qn_tpl_fail(r, "'%s' is not a mapping", qn_tpl_type(d));
    json_t *j = (json_t *)(uintptr_t)d->json; /* jansson's iterators are not const, but change nothing */
    size_t n = json_object_size(j), i = 0;
    qn_tpl_value *k = qn_tpl_alloc(r, n, 2 * sizeof *k);
    if (!k || !qn_tpl_step(r, n)) return false;
    for (void *it = json_object_iter(j); it && i < n; it = json_object_iter_next(j, it), i++) {
        k[i] = key_of(json_object_iter_key(it), json_object_iter_key_len(it));
        k[n + i] = qn_tpl_of_json(json_object_iter_value(it));
    }
    *out = (qn_tpl_dict){.n = i, .cap = n, .k = k, .v = k + n};
    return true;
}

bool qn_tpl_iterate(qn_tpl_render *r, const qn_tpl_value *v, qn_tpl_list *out)
{
    qn_tpl_dict d;
    qn_tpl_value *items;
    size_t n;
    *out = (qn_tpl_list){0};
    switch (v->kind) {
    case QN_TV_UNDEFINED: return true;
    case QN_TV_LIST:
    case QN_TV_TUPLE: *out = v->list; return true;
    case QN_TV_DICT:
    case QN_TV_JSON_DICT:
        if (!qn_tpl_pairs(r, v, &d)) return false;
        *out = (qn_tpl_list){.n = d.n, .v = d.k};
        return true;
    case QN_TV_JSON_LIST:
        n = json_array_size(v->json);
        items = qn_tpl_alloc(r, n, sizeof *items);
        if (!items || !qn_tpl_step(r, n)) return false;
        for (size_t i = 0; i < n; i++) items[i] = qn_tpl_of_json(json_array_get(v->json, i));
        *out = (qn_tpl_list){.n = n, .v = items};
        return true;
    case QN_TV_STR:
        n = qn_tpl_chars(&v->s);
        items = qn_tpl_alloc(r, n, sizeof *items);
        if (!items || !qn_tpl_step(r, n)) return false;
        for (size_t i = 0, at = 0; i < n; i++) {
            uint32_t cp;
            size_t k = qn_tpl_char_at(v->s.p + at, v->s.n - at, &cp);
            items[i] = QN_TV_OF_STR(qn_tpl_sub(&v->s, at, at + k));
            at += k;
        }
        *out = (qn_tpl_list){.n = n, .v = items};
        return true;
    case QN_TV_LOOP: *out = v->loop->items; return true;
    default: return qn_tpl_fail(r, "'%s' object is not iterable", qn_tpl_type(v));
    }
}

bool qn_tpl_lookup(qn_tpl_render *r, const qn_tpl_value *d, const qn_tpl_value *key, qn_tpl_value *out,
                   bool *found)
{
    *found = false;
    if (d->kind == QN_TV_JSON_DICT) {
        if (key->kind != QN_TV_STR) return true;
        const json_t *j = json_object_getn(d->json, key->s.p, key->s.n);
        if (j) *found = true, *out = qn_tpl_of_json(j);
        return qn_tpl_step(r, 1);
    }
    for (size_t i = 0; i < d->dict->n; i++) {
        if (!qn_tpl_equal(r, &d->dict->k[i], key, found)) return false;
        if (*found) return *out = d->dict->v[i], true;
    }
    return true;
}

static const char *object_name(const qn_tpl_value *v)
{
    return v->kind == QN_TV_NONE ? "None" : v->kind == QN_TV_UNDEFINED ? "undefined" : qn_tpl_type(v);
}

static bool no_attr(qn_tpl_render *r, const qn_tpl_value *v, const char *name, size_t n, qn_tpl_value *out)
{
    char q[64];
    *out = qn_tpl_undefined(r, "'%s%s' has no attribute '%s'", object_name(v),
                            v->kind == QN_TV_NONE ? "" : " object", qn_printable(q, sizeof q, name, n));
    return true;
}

static bool find_attr(qn_tpl_render *r, const qn_tpl_value *v, const char *name, size_t n, qn_tpl_value *out,
                      bool *found)
{
    const char *method = qn_tpl_method_name(v, name, n);
    *found = false;
    if (!method) return v->kind != QN_TV_LOOP || qn_tpl_loop_attr(r, v->loop, name, n, out, found);
    qn_tpl_method *m = qn_tpl_alloc(r, 1, sizeof *m);
    if (!m) return false;
    *m = (qn_tpl_method){.self = *v, .name = method};
    *out = (qn_tpl_value){.kind = QN_TV_METHOD, .method = m};
    return *found = true;
}

bool qn_tpl_get_attr(qn_tpl_render *r, const qn_tpl_value *v, const char *name, size_t n, qn_tpl_value *out)
{
    bool found;
    if (v->kind == QN_TV_UNDEFINED) return qn_tpl_fail_undefined(r, v);
    if (!find_attr(r, v, name, n, out, &found)) return false;
    if (found) return true;
    if (qn_tpl_is_dict(v) || v->kind == QN_TV_NAMESPACE) {
        qn_tpl_value key = key_of(name, n);
        if (!qn_tpl_lookup(r, v, &key, out, &found)) return false;
        if (found) return true;
    }
    return no_attr(r, v, name, n, out);
}

bool qn_tpl_get_item(qn_tpl_render *r, const qn_tpl_value *v, const qn_tpl_value *key, qn_tpl_value *out)
{
    bool found = false;
    if (v->kind == QN_TV_UNDEFINED) return qn_tpl_fail_undefined(r, v);
    if (qn_tpl_is_dict(v) || v->kind == QN_TV_NAMESPACE) {
        if (!qn_tpl_lookup(r, v, key, out, &found)) return false;
    } else if ((qn_tpl_is_list(v) || v->kind == QN_TV_STR) &&
               (key->kind == QN_TV_INT || key->kind == QN_TV_BOOL)) {
        size_t n;
        if (!qn_tpl_length(r, v, &n)) return false;
        int64_t i = qn_tpl_int(key);
        if (i < 0) i += (int64_t)n;
        if (i >= 0 && (uint64_t)i < n) {
            found = true;
            if (v->kind == QN_TV_JSON_LIST)
                *out = qn_tpl_of_json(json_array_get(v->json, (size_t)i));
            else if (v->kind != QN_TV_STR)
                *out = v->list.v[i];
            else {
                qn_tpl_value bounds[3] = {QN_TV_OF_INT(i), QN_TV_OF_INT(i + 1), QN_TV(QN_TV_NONE)};
                return qn_tpl_slice(r, v, bounds, out);
            }
        }
    }
    if (found) return true;
    if (key->kind == QN_TV_STR) {
        if (!find_attr(r, v, key->s.p, key->s.n, out, &found)) return false;
        return found || no_attr(r, v, key->s.p, key->s.n, out);
    }
    *out = key->kind == QN_TV_INT
               ? qn_tpl_undefined(r, "'%s object' has no element %lld", object_name(v), (long long)key->i)
               : qn_tpl_undefined(r, "'%s object' has no such element", object_name(v));
    return true;
}

static bool equal_at(qn_tpl_render *r, const qn_tpl_value *a, const qn_tpl_value *b, bool *out,
                     uint32_t depth)
{
    qn_tpl_list x, y;
    qn_tpl_dict d;
    *out = false;
    if (!qn_tpl_step(r, 1)) return false;
    if (depth > QN_TPL_MAX_NESTING)
        return qn_tpl_fail(r, "values nested deeper than the limit of %d are compared", QN_TPL_MAX_NESTING);
    if (qn_tpl_is_number(a) && qn_tpl_is_number(b)) {
        *out = a->kind == QN_TV_FLOAT || b->kind == QN_TV_FLOAT ? qn_tpl_number(a) == qn_tpl_number(b)
                                                                : qn_tpl_int(a) == qn_tpl_int(b);
        return true;
    }
    if (qn_tpl_is_list(a) && qn_tpl_is_list(b)) {
        if ((a->kind == QN_TV_TUPLE) != (b->kind == QN_TV_TUPLE)) return true;
        if (!qn_tpl_iterate(r, a, &x) || !qn_tpl_iterate(r, b, &y)) return false;
        if (x.n != y.n) return true;
        *out = true;
        for (size_t i = 0; i < x.n && *out; i++)
            if (!equal_at(r, &x.v[i], &y.v[i], out, depth + 1)) return false;
        return true;
    }
    if (qn_tpl_is_dict(a) && qn_tpl_is_dict(b)) {
        size_t n, m;
        if (!qn_tpl_length(r, a, &n) || !qn_tpl_length(r, b, &m)) return false;
        if (n != m) return true;
        if (!qn_tpl_pairs(r, a, &d)) return false;
        *out = true;
        for (size_t i = 0; i < d.n && *out; i++) {
            qn_tpl_value other;
            if (!qn_tpl_lookup(r, b, &d.k[i], &other, out)) return false;
            if (*out && !equal_at(r, &d.v[i], &other, out, depth + 1)) return false;
        }
        return true;
    }
    if (a->kind != b->kind) return true;
    switch (a->kind) {
    case QN_TV_UNDEFINED:
    case QN_TV_NONE: *out = true; break;
    case QN_TV_STR: *out = a->s.n == b->s.n && (a->s.n == 0 || memcmp(a->s.p, b->s.p, a->s.n) == 0); break;
    case QN_TV_NAMESPACE: *out = a->dict == b->dict; break;
    case QN_TV_MACRO: *out = a->macro == b->macro; break;
    case QN_TV_FUNCTION: *out = a->i == b->i; break;
    default: break;
    }
    return true;
}

bool qn_tpl_equal(qn_tpl_render *r, const qn_tpl_value *a, const qn_tpl_value *b, bool *out)
{
    return equal_at(r, a, b, out, 0);
}

static bool less_at(qn_tpl_render *r, const qn_tpl_value *a, const qn_tpl_value *b, bool *out, uint32_t depth)
{
    if (!qn_tpl_step(r, 1)) return false;
    if (qn_tpl_is_number(a) && qn_tpl_is_number(b)) {
        *out = a->kind == QN_TV_FLOAT || b->kind == QN_TV_FLOAT ? qn_tpl_number(a) < qn_tpl_number(b)
                                                                : qn_tpl_int(a) < qn_tpl_int(b);
        return true;
    }
    if (a->kind == QN_TV_STR && b->kind == QN_TV_STR) { /* order of UTF-8 bytes is order of code points */
        size_t n = a->s.n < b->s.n ? a->s.n : b->s.n;
        int c = n ? memcmp(a->s.p, b->s.p, n) : 0;
        *out = c < 0 || (c == 0 && a->s.n < b->s.n);
        return true;
    }
    if (qn_tpl_is_list(a) && qn_tpl_is_list(b) && depth < QN_TPL_MAX_NESTING) {
        qn_tpl_list x, y;
        if (!qn_tpl_iterate(r, a, &x) || !qn_tpl_iterate(r, b, &y)) return false;
        for (size_t i = 0; i < x.n && i < y.n; i++) {
            bool eq;
            if (!qn_tpl_equal(r, &x.v[i], &y.v[i], &eq)) return false;
            if (!eq) return less_at(r, &x.v[i], &y.v[i], out, depth + 1);
        }
        *out = x.n < y.n;
        return true;
    }
    if (a->kind == QN_TV_UNDEFINED) return qn_tpl_fail_undefined(r, a);
    if (b->kind == QN_TV_UNDEFINED) return qn_tpl_fail_undefined(r, b);
    return qn_tpl_fail(r, "'<' not supported between instances of '%s' and '%s'", qn_tpl_type(a),
                       qn_tpl_type(b));
}

bool qn_tpl_less(qn_tpl_render *r, const qn_tpl_value *a, const qn_tpl_value *b, bool *out)
{
    return less_at(r, a, b, out, 0);
}

bool qn_tpl_contains(qn_tpl_render *r, const qn_tpl_value *in, const qn_tpl_value *x, bool *out)
{
    qn_tpl_list l;
    qn_tpl_value v;
    *out = false;
    if (in->kind == QN_TV_STR) {
        if (x->kind != QN_TV_STR)
            return qn_tpl_fail(r, "'in <string>' requires string as left operand, not %s", qn_tpl_type(x));
        *out = qn_tpl_find(&in->s, 0, &x->s) != SIZE_MAX;
        return qn_tpl_step(r, in->s.n / 256);
    }
    if (qn_tpl_is_dict(in)) {
        if (qn_tpl_is_list(x) || qn_tpl_is_dict(x))
            return qn_tpl_fail(r, "unhashable type: '%s'", qn_tpl_type(x));
        return qn_tpl_lookup(r, in, x, &v, out);
    }
    if (in->kind == QN_TV_JSON_LIST || in->kind == QN_TV_LIST || in->kind == QN_TV_TUPLE ||
        in->kind == QN_TV_UNDEFINED) {
        if (!qn_tpl_iterate(r, in, &l)) return false;
        for (size_t i = 0; i < l.n && !*out; i++)
            if (!qn_tpl_equal(r, &l.v[i], x, out)) return false;
        return true;
    }
    return qn_tpl_fail(r, "argument of type '%s' is not iterable", qn_tpl_type(in));
}

/* Python's repr of a string: quotes chosen, what cannot be printed escaped. All of it is data. */
static bool repr_str(qn_tpl_render *r, qn_tpl_text *t, const qn_tpl_str *s)
{
    bool single = memchr(s->p, '\'', s->n) != NULL, twice = memchr(s->p, '"', s->n) != NULL;
    char q = single && !twice ? '"' : '\'';
    if (!qn_tpl_add_data(r, t, &q, 1, 0)) return false;
    for (size_t i = 0; i < s->n;) {
        uint32_t cp;
        char e[16];
        size_t k = qn_tpl_char_at(s->p + i, s->n - i, &cp), n = 0;
        utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
        if (cp == '\n' || cp == '\r' || cp == '\t')
            e[n++] = '\\', e[n++] = cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't';
        else if (cp == '\\' || cp == (uint32_t)q)
            e[n++] = '\\', e[n++] = (char)cp;
        else if (cp < 0x20 || (cp >= 0x7f && cp < 0xa1) || cp == 0xad)
            n = (size_t)snprintf(e, sizeof e, "\\x%02x", cp);
        else if (cp > 0xff && (c >= UTF8PROC_CATEGORY_ZS || c == UTF8PROC_CATEGORY_CN))
            n = (size_t)snprintf(e, sizeof e, cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
        if (!qn_tpl_add_data(r, t, n ? e : s->p + i, n ? n : k, 0)) return false;
        i += k;
    }
    return qn_tpl_add_data(r, t, &q, 1, 0);
}

static bool word(qn_tpl_render *r, qn_tpl_text *t, const char *s)
{
    return qn_tpl_add_data(r, t, s, strlen(s), 0);
}

bool qn_tpl_repr(qn_tpl_render *r, qn_tpl_text *t, const qn_tpl_value *v, uint32_t depth)
{
    char num[40];
    qn_tpl_list l;
    qn_tpl_dict d;
    if (depth > QN_TPL_MAX_NESTING)
        return qn_tpl_fail(r, "a value nested deeper than the limit of %d is written", QN_TPL_MAX_NESTING);
    if (!qn_tpl_step(r, 1)) return false;
    switch (v->kind) {
    case QN_TV_UNDEFINED: return word(r, t, "Undefined");
    case QN_TV_NONE: return word(r, t, "None");
    case QN_TV_BOOL: return word(r, t, v->b ? "True" : "False");
    case QN_TV_INT: snprintf(num, sizeof num, "%lld", (long long)v->i); return word(r, t, num);
    case QN_TV_FLOAT: qn_tpl_float_repr(num, v->f); return word(r, t, num);
    case QN_TV_STR: return repr_str(r, t, &v->s);
    case QN_TV_LIST:
    case QN_TV_TUPLE:
    case QN_TV_JSON_LIST:
        if (!qn_tpl_iterate(r, v, &l) || !word(r, t, v->kind == QN_TV_TUPLE ? "(" : "[")) return false;
        for (size_t i = 0; i < l.n; i++)
            if ((i && !word(r, t, ", ")) || !qn_tpl_repr(r, t, &l.v[i], depth + 1)) return false;
        return word(r, t, v->kind != QN_TV_TUPLE ? "]" : l.n == 1 ? ",)" : ")");
    case QN_TV_NAMESPACE:
    case QN_TV_DICT:
    case QN_TV_JSON_DICT:
        if (!qn_tpl_pairs(r, v, &d) || !word(r, t, v->kind == QN_TV_NAMESPACE ? "<Namespace {" : "{"))
            return false;
        for (size_t i = 0; i < d.n; i++)
            if ((i && !word(r, t, ", ")) || !qn_tpl_repr(r, t, &d.k[i], depth + 1) || !word(r, t, ": ") ||
                !qn_tpl_repr(r, t, &d.v[i], depth + 1))
                return false;
        return word(r, t, v->kind == QN_TV_NAMESPACE ? "}>" : "}");
    default: return word(r, t, "<") && word(r, t, qn_tpl_type(v)) && word(r, t, ">");
    }
}

bool qn_tpl_to_str(qn_tpl_render *r, const qn_tpl_value *v, qn_tpl_str *out)
{
    qn_tpl_text t = {0};
    if (v->kind == QN_TV_STR) return *out = v->s, true;
    if (v->kind == QN_TV_UNDEFINED) return *out = (qn_tpl_str){.p = ""}, true;
    if (!qn_tpl_repr(r, &t, v, 0)) return false;
    *out = qn_tpl_done(&t);
    return true;
}
