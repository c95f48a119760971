/* template_filters.c - filters that make text or one value out of one value; those over lists are in
 * template_lists.c. One table each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/template_int.h"

#define FILTER(name)                                                                                         \
    static bool name(qn_tpl_render *r, const qn_tpl_value *v, const qn_tpl_args *a, qn_tpl_value *out)

static bool text_of(qn_tpl_render *r, const qn_tpl_value *v, qn_tpl_value *out)
{
    *out = QN_TV(QN_TV_STR);
    return qn_tpl_to_str(r, v, &out->s);
}

static bool through_method(qn_tpl_render *r, const qn_tpl_value *v, const char *name, const qn_tpl_args *a,
                           qn_tpl_value *out)
{
    qn_tpl_method m = {.name = name};
    return text_of(r, v, &m.self) && qn_tpl_call_method(r, &m, a, out);
}

FILTER(f_string)
{
    (void)a;
    return text_of(r, v, out);
}
FILTER(f_trim)
{
    return through_method(r, v, "strip", a, out);
}
FILTER(f_upper)
{
    return through_method(r, v, "upper", a, out);
}
FILTER(f_lower)
{
    return through_method(r, v, "lower", a, out);
}
FILTER(f_capitalize)
{
    return through_method(r, v, "capitalize", a, out);
}
FILTER(f_title)
{
    return through_method(r, v, "title", a, out);
}
FILTER(f_safe)
{
    (void)a;
    return v->kind == QN_TV_UNDEFINED ? text_of(r, v, out) : (*out = *v, true);
}

FILTER(f_replace)
{
    qn_tpl_args args = *a;
    qn_tpl_value t[3];
    if (a->n < 2 || a->n > 3 || a->n_named)
        return qn_tpl_fail(r, "the filter replace takes two strings and a count");
    for (size_t i = 0; i < 2; i++)
        if (!text_of(r, &a->v[i], &t[i])) return false;
    if (a->n == 3) t[2] = a->v[2];
    if (a->n == 3 && t[2].kind == QN_TV_NONE) args.n = 2;
    args.v = t;
    return through_method(r, v, "replace", &args, out);
}

FILTER(f_default)
{
    (void)r;
    const qn_tpl_value *d = qn_tpl_arg(a, 0, "default_value"), *falsy = qn_tpl_arg(a, 1, "boolean");
    bool use = v->kind == QN_TV_UNDEFINED || (falsy && qn_tpl_truth(falsy) && !qn_tpl_truth(v));
    *out = !use ? *v : d ? *d : qn_tpl_of_text("");
    return true;
}

FILTER(f_length)
{
    size_t n;
    (void)a;
    if (!qn_tpl_length(r, v, &n)) return false;
    *out = QN_TV_OF_INT((int64_t)n);
    return true;
}

FILTER(f_escape)
{
    static const struct {
        char c;
        const char *text;
    } entities[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    qn_tpl_text t = {0};
    qn_tpl_str s;
    (void)a;
    if (!qn_tpl_to_str(r, v, &s)) return false;
    for (size_t i = 0; i < s.n; i++) {
        const char *e = NULL;
        for (size_t k = 0; k < sizeof entities / sizeof entities[0]; k++)
            if (entities[k].c == s.p[i]) e = entities[k].text;
        qn_tpl_str one = qn_tpl_sub(&s, i, i + 1);
        if (e ? !qn_tpl_add_data(r, &t, e, strlen(e), 0) : !qn_tpl_add(r, &t, &one)) return false;
    }
    *out = QN_TV_OF_STR(qn_tpl_done(&t));
    return true;
}

FILTER(f_format)
{
    qn_tpl_str s;
    return qn_tpl_to_str(r, v, &s) && qn_tpl_percent(r, &s, a, out);
}

static bool spaces(qn_tpl_render *r, qn_tpl_text *t, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!qn_tpl_add_data(r, t, " ", 1, 0)) return false;
    return true;
}

FILTER(f_indent)
{
    const qn_tpl_value *width = qn_tpl_arg(a, 0, "width"), *first = qn_tpl_arg(a, 1, "first"),
                       *blank = qn_tpl_arg(a, 2, "blank");
    qn_tpl_text t = {0}, w = {0};
    qn_tpl_str s, ind;
    bool at_start = first && qn_tpl_truth(first), empty_too = blank && qn_tpl_truth(blank);
    if (!qn_tpl_to_str(r, v, &s)) return false;
    if (width && width->kind == QN_TV_STR)
        ind = width->s;
    else {
        int64_t n = width && width->kind == QN_TV_INT ? width->i : 4;
        if (n > 1000) return qn_tpl_fail(r, "an indent over the limit of 1000");
        if (!spaces(r, &w, n)) return false;
        ind = qn_tpl_done(&w);
    }
    for (size_t i = 0, line = 0; i < s.n || line == 0; line++) {
        const char *nl = i < s.n ? memchr(s.p + i, '\n', s.n - i) : NULL;
        size_t end = nl ? (size_t)(nl - s.p) : s.n;
        if ((line ? empty_too || end > i : at_start) && !qn_tpl_add(r, &t, &ind)) return false;
        qn_tpl_str row = qn_tpl_sub(&s, i, nl ? end + 1 : end);
        if (!qn_tpl_add(r, &t, &row)) return false;
        i = nl ? end + 1 : s.n;
    }
    *out = QN_TV_OF_STR(qn_tpl_done(&t));
    return true;
}

FILTER(f_center)
{
    const qn_tpl_value *width = qn_tpl_arg(a, 0, "width");
    qn_tpl_text t = {0};
    qn_tpl_str s;
    int64_t n = width && width->kind == QN_TV_INT ? width->i : 80;
    if (n > 10000) return qn_tpl_fail(r, "a width over the limit of 10000");
    if (!qn_tpl_to_str(r, v, &s)) return false;
    int64_t gap = n - (int64_t)qn_tpl_chars(&s), left = gap > 0 ? gap / 2 + (gap & n & 1) : 0;
    if (!spaces(r, &t, left) || !qn_tpl_add(r, &t, &s) || !spaces(r, &t, gap - left)) return false;
    *out = QN_TV_OF_STR(qn_tpl_done(&t));
    return true;
}

FILTER(f_truncate)
{
    const qn_tpl_value *length = qn_tpl_arg(a, 0, "length"), *kill = qn_tpl_arg(a, 1, "killwords"),
                       *end = qn_tpl_arg(a, 2, "end"), *leeway = qn_tpl_arg(a, 3, "leeway");
    int64_t n = length && length->kind == QN_TV_INT ? length->i : 255,
            slack = leeway && leeway->kind == QN_TV_INT ? leeway->i : 5;
    qn_tpl_value s, tail = qn_tpl_of_text("..."), cut;
    if (!text_of(r, v, &s) || (end && !text_of(r, end, &tail))) return false;
    int64_t tail_n = (int64_t)qn_tpl_chars(&tail.s);
    if (n < tail_n || n > INT32_MAX || slack < 0 || slack > INT32_MAX)
        return qn_tpl_fail(r, "truncate: expected length >= %lld and leeway >= 0", (long long)tail_n);
    if ((int64_t)qn_tpl_chars(&s.s) <= n + slack) return *out = s, true;
    qn_tpl_value b[3] = {QN_TV_OF_INT(0), QN_TV_OF_INT(n - tail_n), QN_TV(QN_TV_NONE)};
    if (!qn_tpl_slice(r, &s, b, &cut)) return false;
    if (!kill || !qn_tpl_truth(kill)) {
        const char *space = cut.s.n ? memrchr(cut.s.p, ' ', cut.s.n) : NULL;
        if (space) cut.s.n = (size_t)(space - cut.s.p);
    }
    return qn_tpl_binary(r, '+', &cut, &tail, out);
}

FILTER(f_wordcount)
{
    qn_tpl_args none = {0};
    qn_tpl_value words;
    (void)a;
    if (!through_method(r, v, "split", &none, &words)) return false;
    *out = QN_TV_OF_INT((int64_t)words.list.n);
    return true;
}

/* int and float read strings as Python does: white space around, and the default where that fails. */
static bool read_number(const qn_tpl_value *v, double *f)
{
    char buf[64], *end;
    qn_tpl_str s = qn_tpl_strip(&v->s, NULL, true, true);
    if (s.n == 0 || s.n >= sizeof buf) return false;
    memcpy(buf, s.p, s.n);
    buf[s.n] = 0;
    *f = strtod(buf, &end);
    return *end == 0 && !strpbrk(buf, "xXpP");
}

FILTER(f_int)
{
    const qn_tpl_value *d = qn_tpl_arg(a, 0, "default");
    double f = 0;
    *out = d ? *d : QN_TV_OF_INT(0);
    if (v->kind == QN_TV_INT || v->kind == QN_TV_BOOL) return *out = QN_TV_OF_INT(qn_tpl_int(v)), true;
    if (v->kind == QN_TV_STR) {
        char buf[32], *end;
        qn_tpl_str s = qn_tpl_strip(&v->s, NULL, true, true);
        if (s.n && s.n < 20) { /* whole numbers keep all their digits */
            memcpy(buf, s.p, s.n);
            buf[s.n] = 0;
            long long i = strtoll(buf, &end, 10);
            if (*end == 0) return *out = QN_TV_OF_INT(i), true;
        }
    }
    if (v->kind == QN_TV_UNDEFINED) return d ? true : qn_tpl_fail_undefined(r, v);
    if (v->kind == QN_TV_FLOAT ? (f = v->f, true) : v->kind == QN_TV_STR && read_number(v, &f))
        if (f > -9e18 && f < 9e18) *out = QN_TV_OF_INT((int64_t)f);
    return true;
}

FILTER(f_float)
{
    const qn_tpl_value *d = qn_tpl_arg(a, 0, "default");
    double f;
    *out = d ? *d : (qn_tpl_value){.kind = QN_TV_FLOAT};
    if (v->kind == QN_TV_UNDEFINED) return d ? true : qn_tpl_fail_undefined(r, v);
    if (qn_tpl_is_number(v))
        *out = (qn_tpl_value){.kind = QN_TV_FLOAT, .f = qn_tpl_number(v)};
    else if (v->kind == QN_TV_STR && read_number(v, &f))
        *out = (qn_tpl_value){.kind = QN_TV_FLOAT, .f = f};
    return true;
}

FILTER(f_abs)
{
    (void)a;
    if (v->kind == QN_TV_FLOAT) return *out = (qn_tpl_value){.kind = QN_TV_FLOAT, .f = fabs(v->f)}, true;
    if (!qn_tpl_is_number(v))
        return v->kind == QN_TV_UNDEFINED
                   ? qn_tpl_fail_undefined(r, v)
                   : qn_tpl_fail(r, "bad operand type for abs(): '%s'", qn_tpl_type(v));
    qn_tpl_value zero = QN_TV_OF_INT(0);
    if (qn_tpl_int(v) < 0) return qn_tpl_binary(r, '-', &zero, v, out);
    return *out = QN_TV_OF_INT(qn_tpl_int(v)), true;
}

FILTER(f_round)
{
    const qn_tpl_value *p = qn_tpl_arg(a, 0, "precision"), *m = qn_tpl_arg(a, 1, "method");
    int64_t digits = p && p->kind == QN_TV_INT ? p->i : 0;
    if (!qn_tpl_is_number(v))
        return v->kind == QN_TV_UNDEFINED
                   ? qn_tpl_fail_undefined(r, v)
                   : qn_tpl_fail(r, "round: a number is required, not %s", qn_tpl_type(v));
    if (digits < -15 || digits > 15) return qn_tpl_fail(r, "round: a precision over the limit of 15");
    double scale = pow(10, (double)digits), x = qn_tpl_number(v);
    char buf[400];
    if (m && m->kind == QN_TV_STR && qn_tpl_str_is(&m->s, "ceil"))
        x = ceil(x * scale) / scale;
    else if (m && m->kind == QN_TV_STR && qn_tpl_str_is(&m->s, "floor"))
        x = floor(x * scale) / scale;
    else if (digits >= 0 &&
             isfinite(x)) { /* correctly rounded in decimal, ties to even, as Python's round() */
        snprintf(buf, sizeof buf, "%.*f", (int)digits, x);
        x = strtod(buf, NULL);
    } else
        x = nearbyint(x * scale) / scale;
    *out = (qn_tpl_value){.kind = QN_TV_FLOAT, .f = x};
    return true;
}

qn_tpl_filter_fn qn_tpl_find_filter(const char *name, size_t n)
{
    static const struct {
        const char *name;
        qn_tpl_filter_fn fn;
    } table[] = {{"string", f_string},
                 {"trim", f_trim},
                 {"upper", f_upper},
                 {"lower", f_lower},
                 {"capitalize", f_capitalize},
                 {"title", f_title},
                 {"safe", f_safe},
                 {"replace", f_replace},
                 {"default", f_default},
                 {"d", f_default},
                 {"length", f_length},
                 {"count", f_length},
                 {"escape", f_escape},
                 {"e", f_escape},
                 {"forceescape", f_escape},
                 {"format", f_format},
                 {"indent", f_indent},
                 {"center", f_center},
                 {"truncate", f_truncate},
                 {"wordcount", f_wordcount},
                 {"int", f_int},
                 {"float", f_float},
                 {"abs", f_abs},
                 {"round", f_round},
                 {"tojson", qn_tpl_json}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strlen(table[i].name) == n && !memcmp(table[i].name, name, n)) return table[i].fn;
    return qn_tpl_find_list_filter(name, n);
}
