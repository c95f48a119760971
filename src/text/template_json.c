/* template_json.c - the tojson filter, spelled as Python's json.dumps does by default except that characters
 * outside ASCII stay as they are, and numbers as Python's repr gives them. What comes out is data, all of it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/template_int.h"

size_t qn_tpl_float_repr(char dst[40], double x)
{
    char digits[32], *e;
    if (isnan(x) || isinf(x)) return (size_t)snprintf(dst, 40, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
    int prec = 0;
    do snprintf(digits, sizeof digits, "%.*e", prec, x); /* the fewest digits that read back the same */
    while (strtod(digits, NULL) != x && ++prec < 17);
    e = strchr(digits, 'e');
    long exp = strtol(e + 1, NULL, 10);
    if (exp >= -4 && exp < 16) {
        int after = prec - (int)exp;
        return (size_t)snprintf(dst, 40, "%.*f", after > 1 ? after : 1, x);
    }
    *e = 0;
    return (size_t)snprintf(dst, 40, "%se%c%02ld", digits, exp < 0 ? '-' : '+', labs(exp));
}

typedef struct writer {
    qn_tpl_render *r;
    qn_tpl_text t;
    bool ascii, sort, indented;
    qn_tpl_str indent, comma, colon;
} writer;

static bool put(writer *w, const char *p, size_t n)
{
    return qn_tpl_add_data(w->r, &w->t, p, n, 0);
}
static bool put_str(writer *w, const qn_tpl_str *s)
{
    return put(w, s->p, s->n);
}

static bool put_quoted(writer *w, const qn_tpl_str *s)
{
    size_t from = 0;
    if (!put(w, "\"", 1)) return false;
    for (size_t i = 0; i < s->n;) {
        uint8_t c = (uint8_t)s->p[i];
        char e[16];
        size_t n = 0, k = 1;
        static const char special[] = "\"\\\n\r\t\f\b", letter[] = "\"\\nrtfb";
        const char *hit = c ? strchr(special, c) : NULL;
        if (hit)
            e[0] = '\\', e[1] = letter[hit - special], n = 2;
        else if (c < 0x20)
            n = (size_t)snprintf(e, sizeof e, "\\u%04x", c);
        else if (c >= 0x80 && w->ascii) {
            uint32_t cp;
            k = qn_tpl_char_at(s->p + i, s->n - i, &cp);
            if (cp < 0x10000)
                n = (size_t)snprintf(e, sizeof e, "\\u%04x", cp);
            else
                n = (size_t)snprintf(e, sizeof e, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10),
                                     0xdc00 + ((cp - 0x10000) & 1023));
        }
        if (n && (!put(w, s->p + from, i - from) || !put(w, e, n))) return false;
        i += k;
        if (n) from = i;
    }
    return put(w, s->p + from, s->n - from) && put(w, "\"", 1);
}

static bool new_line(writer *w, uint32_t depth)
{
    if (!w->indented) return true;
    if (!put(w, "\n", 1)) return false;
    for (uint32_t i = 0; i < depth; i++)
        if (!put_str(w, &w->indent)) return false;
    return true;
}

static bool put_number(writer *w, const qn_tpl_value *v, bool key)
{
    char num[40];
    size_t n;
    if (v->kind == QN_TV_FLOAT && (isnan(v->f) || isinf(v->f)))
        n = (size_t)snprintf(num, sizeof num, isnan(v->f) ? "NaN" : v->f < 0 ? "-Infinity" : "Infinity");
    else if (v->kind == QN_TV_FLOAT)
        n = qn_tpl_float_repr(num, v->f);
    else
        n = (size_t)snprintf(num, sizeof num, "%lld", (long long)v->i);
    return (!key || put(w, "\"", 1)) && put(w, num, n) && (!key || put(w, "\"", 1));
}

static bool put_value(writer *w, const qn_tpl_value *v, uint32_t depth);

static bool put_key(writer *w, const qn_tpl_value *k)
{
    switch (k->kind) {
    case QN_TV_STR: return put_quoted(w, &k->s);
    case QN_TV_NONE: return put(w, "\"null\"", 6);
    case QN_TV_BOOL: return k->b ? put(w, "\"true\"", 6) : put(w, "\"false\"", 7);
    case QN_TV_INT:
    case QN_TV_FLOAT: return put_number(w, k, true);
    default: return qn_tpl_fail(w->r, "keys must be str, int, float, bool or None, not %s", qn_tpl_type(k));
    }
}

static bool put_dict(writer *w, const qn_tpl_value *v, uint32_t depth)
{
    qn_tpl_dict d;
    if (!qn_tpl_pairs(w->r, v, &d)) return false;
    if (d.n == 0) return put(w, "{}", 2);
    size_t *order = qn_tpl_alloc(w->r, d.n, sizeof *order);
    if (!order || !put(w, "{", 1)) return false;
    for (size_t i = 0; i < d.n; i++) {
        size_t at = i;
        bool less = true;
        for (; w->sort && at > 0; at--) { /* insertion: keys are few, and comparisons count as steps */
            if (!qn_tpl_less(w->r, &d.k[i], &d.k[order[at - 1]], &less)) return false;
            if (!less) break;
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    for (size_t i = 0; i < d.n; i++) {
        if ((i && !put_str(w, &w->comma)) || !new_line(w, depth + 1) || !put_key(w, &d.k[order[i]]) ||
            !put_str(w, &w->colon) || !put_value(w, &d.v[order[i]], depth + 1))
            return false;
    }
    return new_line(w, depth) && put(w, "}", 1);
}

static bool put_value(writer *w, const qn_tpl_value *v, uint32_t depth)
{
    qn_tpl_list l;
    if (depth > QN_TPL_MAX_NESTING)
        return qn_tpl_fail(w->r, "tojson of a value nested deeper than the limit of %d", QN_TPL_MAX_NESTING);
    if (!qn_tpl_step(w->r, 1)) return false;
    if (qn_tpl_is_dict(v)) return put_dict(w, v, depth);
    if (qn_tpl_is_list(v)) {
        if (!qn_tpl_iterate(w->r, v, &l)) return false;
        if (l.n == 0) return put(w, "[]", 2);
        if (!put(w, "[", 1)) return false;
        for (size_t i = 0; i < l.n; i++)
            if ((i && !put_str(w, &w->comma)) || !new_line(w, depth + 1) || !put_value(w, &l.v[i], depth + 1))
                return false;
        return new_line(w, depth) && put(w, "]", 1);
    }
    switch (v->kind) {
    case QN_TV_NONE: return put(w, "null", 4);
    case QN_TV_BOOL: return v->b ? put(w, "true", 4) : put(w, "false", 5);
    case QN_TV_INT:
    case QN_TV_FLOAT: return put_number(w, v, false);
    case QN_TV_STR: return put_quoted(w, &v->s);
    default: return qn_tpl_fail(w->r, "Object of type %s is not JSON serializable", qn_tpl_type(v));
    }
}

bool qn_tpl_json(qn_tpl_render *r, const qn_tpl_value *v, const qn_tpl_args *args, qn_tpl_value *out)
{
    writer w = {.r = r, .comma = {.p = ", ", .n = 2}, .colon = {.p = ": ", .n = 2}};
    const qn_tpl_value *ascii = qn_tpl_arg(args, 0, "ensure_ascii"), *indent = qn_tpl_arg(args, 1, "indent"),
                       *separators = qn_tpl_arg(args, 2, "separators"),
                       *sort = qn_tpl_arg(args, 3, "sort_keys");
    w.ascii = ascii && qn_tpl_truth(ascii);
    w.sort = sort && qn_tpl_truth(sort);
    if (indent && indent->kind != QN_TV_NONE) {
        w.indented = true;
        w.comma.n = 1;
        if (indent->kind == QN_TV_STR)
            w.indent = indent->s;
        else if (indent->kind == QN_TV_INT || indent->kind == QN_TV_BOOL) {
            int64_t n = qn_tpl_int(indent);
            if (n > 64) return qn_tpl_fail(r, "tojson: an indent over the limit of 64");
            char *p = qn_tpl_alloc(r, 64, 1);
            if (!p) return false;
            memset(p, ' ', 64);
            w.indent = (qn_tpl_str){.p = p, .n = n > 0 ? (size_t)n : 0};
        } else
            return qn_tpl_fail(r, "tojson: the indent must be a number or a string");
    }
    if (separators && separators->kind != QN_TV_NONE) {
        qn_tpl_list l;
        if (!qn_tpl_iterate(r, separators, &l)) return false;
        if (l.n != 2 || l.v[0].kind != QN_TV_STR || l.v[1].kind != QN_TV_STR)
            return qn_tpl_fail(r, "tojson: separators must be two strings");
        w.comma = l.v[0].s;
        w.colon = l.v[1].s;
    }
    if (!put_value(&w, v, 0)) return false;
    *out = QN_TV_OF_STR(qn_tpl_done(&w.t));
    out->s.o = NULL; /* separators may be literals; the result is data all the same */
    out->s.all = 0;
    return true;
}
