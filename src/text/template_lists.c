/* template_lists.c - filters over lists and dicts: picking, ordering, mapping, grouping. What Jinja gives as
 * a generator is a list here. */
#include <string.h>

#include "text/template_int.h"

#define FILTER(name)                                                                                         \
    static bool name(qn_tpl_render *r, const qn_tpl_value *v, const qn_tpl_args *a, qn_tpl_value *out)

static qn_tpl_value list_of(const qn_tpl_value *v, size_t n)
{
    return (qn_tpl_value){.kind = QN_TV_LIST, .list = {.n = n, .v = v}};
}

FILTER(f_list)
{
    qn_tpl_list l;
    (void)a;
    return qn_tpl_iterate(r, v, &l) && (*out = list_of(l.v, l.n), true);
}

static bool one_of(qn_tpl_render *r, const qn_tpl_value *v, bool last, qn_tpl_value *out)
{
    qn_tpl_list l;
    if (!qn_tpl_iterate(r, v, &l)) return false;
    *out = l.n ? l.v[last ? l.n - 1 : 0]
               : qn_tpl_undefined(r, "no %s item, sequence was empty", last ? "last" : "first");
    return true;
}
FILTER(f_first)
{
    (void)a;
    return one_of(r, v, false, out);
}
FILTER(f_last)
{
    (void)a;
    return one_of(r, v, true, out);
}

FILTER(f_items)
{
    (void)a;
    if (v->kind == QN_TV_UNDEFINED) return *out = list_of(NULL, 0), true;
    if (!qn_tpl_is_dict(v)) return qn_tpl_fail(r, "Can only get item pairs from a mapping.");
    qn_tpl_method m = {.self = *v, .name = "items"};
    return qn_tpl_call_method(r, &m, &(qn_tpl_args){0}, out);
}

/* x.a.b or x[0] for the attribute "a.b" or 0 of filters. */
static bool path(qn_tpl_render *r, const qn_tpl_value *v, const qn_tpl_value *attr, qn_tpl_value *out)
{
    *out = *v;
    if (attr->kind == QN_TV_INT) return qn_tpl_get_item(r, v, attr, out);
    if (attr->kind != QN_TV_STR) return qn_tpl_fail(r, "an attribute must be a string or a number");
    for (size_t from = 0; from <= attr->s.n;) {
        const char *dot = attr->s.n > from ? memchr(attr->s.p + from, '.', attr->s.n - from) : NULL;
        size_t end = dot ? (size_t)(dot - attr->s.p) : attr->s.n;
        qn_tpl_value in = *out, key = QN_TV_OF_STR(qn_tpl_sub(&attr->s, from, end));
        bool number = end > from;
        int64_t i = 0;
        for (size_t k = from; k < end && number; k++)
            number = attr->s.p[k] >= '0' && attr->s.p[k] <= '9' && i < 100000000 &&
                     (i = i * 10 + (attr->s.p[k] - '0'), true);
        if (number) key = QN_TV_OF_INT(i);
        if (!qn_tpl_get_item(r, &in, &key, out)) return false;
        from = end + 1;
    }
    return true;
}

FILTER(f_attr)
{
    if (a->n != 1 || a->v[0].kind != QN_TV_STR) return qn_tpl_fail(r, "the filter attr takes a name");
    if (!qn_tpl_is_dict(v)) return qn_tpl_get_attr(r, v, a->v[0].s.p, a->v[0].s.n, out);
    *out = qn_tpl_undefined(r, "a dict has no such attribute"); /* attr sees attributes only, not members */
    return true;
}

FILTER(f_join)
{
    const qn_tpl_value *d = qn_tpl_arg(a, 0, "d"), *attr = qn_tpl_arg(a, 1, "attribute");
    qn_tpl_list l;
    qn_tpl_text t = {0};
    qn_tpl_str sep = {.p = ""}, s;
    if ((d && !qn_tpl_to_str(r, d, &sep)) || !qn_tpl_iterate(r, v, &l)) return false;
    for (size_t i = 0; i < l.n; i++) {
        qn_tpl_value x = l.v[i];
        if (attr && attr->kind != QN_TV_NONE && !path(r, &l.v[i], attr, &x)) return false;
        if (!qn_tpl_step(r, 1) || (i && !qn_tpl_add(r, &t, &sep)) || !qn_tpl_to_str(r, &x, &s) ||
            !qn_tpl_add(r, &t, &s))
            return false;
    }
    *out = QN_TV_OF_STR(qn_tpl_done(&t));
    return true;
}

FILTER(f_reverse)
{
    qn_tpl_list l;
    (void)a;
    if (v->kind == QN_TV_STR) {
        qn_tpl_value b[3] = {QN_TV(QN_TV_NONE), QN_TV(QN_TV_NONE), QN_TV_OF_INT(-1)};
        return qn_tpl_slice(r, v, b, out);
    }
    if (!qn_tpl_iterate(r, v, &l)) return false;
    qn_tpl_value *x = qn_tpl_alloc(r, l.n, sizeof *x);
    if (!x || !qn_tpl_step(r, l.n)) return false;
    for (size_t i = 0; i < l.n; i++) x[i] = l.v[l.n - 1 - i];
    *out = list_of(x, l.n);
    return true;
}

/* The key to sort by: the attribute, in lower case unless cases count. */
static bool sort_key(qn_tpl_render *r, const qn_tpl_value *v, const qn_tpl_value *attr, bool cases,
                     qn_tpl_value *key)
{
    *key = *v;
    if (attr && attr->kind != QN_TV_NONE && !path(r, v, attr, key)) return false;
    if (cases || key->kind != QN_TV_STR) return true;
    qn_tpl_str low;
    if (!qn_tpl_case(r, &key->s, 'L', &low)) return false;
    *key = QN_TV_OF_STR(low);
    return true;
}

/* Stable merge sort of v[0..n) by keys k; both are moved together. tmp: 2n values. */
static bool merge_sort(qn_tpl_render *r, qn_tpl_value *k, qn_tpl_value *v, size_t n, bool reverse,
                       qn_tpl_value *tmp)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            size_t mid = lo + width < n ? lo + width : n, hi = mid + width < n ? mid + width : n;
            for (size_t i = lo, j = mid, o = lo; o < hi; o++) {
                bool right = i >= mid;
                if (!right && j < hi &&
                    !(reverse ? qn_tpl_less(r, &k[i], &k[j], &right) : qn_tpl_less(r, &k[j], &k[i], &right)))
                    return false;
                if (j >= hi) right = false;
                size_t from = right ? j++ : i++;
                tmp[o] = k[from];
                tmp[n + o] = v[from];
            }
        }
        memcpy(k, tmp, n * sizeof *k);
        memcpy(v, tmp + n, n * sizeof *v);
    }
    return true;
}

static bool sorted(qn_tpl_render *r, const qn_tpl_list *l, const qn_tpl_value *attr, bool cases, bool reverse,
                   qn_tpl_value **keys, qn_tpl_value **items)
{
    qn_tpl_value *k = qn_tpl_alloc(r, l->n, 4 * sizeof *k);
    if (!k || !qn_tpl_step(r, l->n)) return false;
    *keys = k;
    *items = k + l->n;
    for (size_t i = 0; i < l->n; i++) {
        if (!sort_key(r, &l->v[i], attr, cases, &k[i])) return false;
        (*items)[i] = l->v[i];
    }
    return merge_sort(r, k, *items, l->n, reverse, k + 2 * l->n);
}

static bool flag(const qn_tpl_args *a, size_t at, const char *name)
{
    const qn_tpl_value *v = qn_tpl_arg(a, at, name);
    return v && qn_tpl_truth(v);
}

FILTER(f_sort)
{
    qn_tpl_list l;
    qn_tpl_value *k, *x;
    if (!qn_tpl_iterate(r, v, &l) || !sorted(r, &l, qn_tpl_arg(a, 2, "attribute"),
                                             flag(a, 1, "case_sensitive"), flag(a, 0, "reverse"), &k, &x))
        return false;
    *out = list_of(x, l.n);
    return true;
}

FILTER(f_dictsort)
{
    const qn_tpl_value *by = qn_tpl_arg(a, 1, "by");
    qn_tpl_value items, *k, *x,
        at = QN_TV_OF_INT(by && by->kind == QN_TV_STR && qn_tpl_str_is(&by->s, "value"));
    if (v->kind == QN_TV_UNDEFINED) return qn_tpl_fail_undefined(r, v);
    if (!qn_tpl_is_dict(v)) return qn_tpl_fail(r, "'%s' object has no attribute 'items'", qn_tpl_type(v));
    if (!f_items(r, v, &(qn_tpl_args){0}, &items) ||
        !sorted(r, &items.list, &at, flag(a, 0, "case_sensitive"), flag(a, 2, "reverse"), &k, &x))
        return false;
    *out = list_of(x, items.list.n);
    return true;
}

static bool extreme(qn_tpl_render *r, const qn_tpl_value *v, const qn_tpl_args *a, bool max,
                    qn_tpl_value *out)
{
    qn_tpl_list l;
    qn_tpl_value *k, *x;
    if (!qn_tpl_iterate(r, v, &l) ||
        !sorted(r, &l, qn_tpl_arg(a, 1, "attribute"), flag(a, 0, "case_sensitive"), max, &k, &x))
        return false;
    *out = l.n ? x[0] : qn_tpl_undefined(r, "no aggregated item, sequence was empty");
    return true;
}
FILTER(f_min)
{
    return extreme(r, v, a, false, out);
}
FILTER(f_max)
{
    return extreme(r, v, a, true, out);
}

FILTER(f_sum)
{
    const qn_tpl_value *attr = qn_tpl_arg(a, 0, "attribute"), *start = qn_tpl_arg(a, 1, "start");
    qn_tpl_list l;
    *out = start ? *start : QN_TV_OF_INT(0);
    if (!qn_tpl_iterate(r, v, &l)) return false;
    for (size_t i = 0; i < l.n; i++) {
        qn_tpl_value x = l.v[i], so_far = *out;
        if (attr && attr->kind != QN_TV_NONE && !path(r, &l.v[i], attr, &x)) return false;
        if (!qn_tpl_step(r, 1) || !qn_tpl_binary(r, '+', &so_far, &x, out)) return false;
    }
    return true;
}

FILTER(f_unique)
{
    const qn_tpl_value *attr = qn_tpl_arg(a, 1, "attribute");
    qn_tpl_list l;
    size_t n = 0;
    if (!qn_tpl_iterate(r, v, &l)) return false;
    qn_tpl_value *x = qn_tpl_alloc(r, l.n, 2 * sizeof *x), *keys = x + l.n, key;
    if (!x) return false;
    for (size_t i = 0; i < l.n; i++) {
        bool seen = false;
        if (!sort_key(r, &l.v[i], attr, flag(a, 0, "case_sensitive"), &key)) return false;
        for (size_t k = 0; k < n && !seen; k++)
            if (!qn_tpl_equal(r, &keys[k], &key, &seen)) return false;
        if (!seen) keys[n] = key, x[n++] = l.v[i];
    }
    *out = list_of(x, n);
    return true;
}

FILTER(f_map)
{
    const qn_tpl_value *attr = qn_tpl_arg(a, SIZE_MAX, "attribute"),
                       *fallback = qn_tpl_arg(a, SIZE_MAX, "default");
    qn_tpl_filter_fn fn = NULL;
    qn_tpl_list l;
    if (!attr) {
        if (!a->n || a->v[0].kind != QN_TV_STR) return qn_tpl_fail(r, "map requires a filter argument");
        fn = qn_tpl_find_filter(a->v[0].s.p, a->v[0].s.n);
        if (!fn) return qn_tpl_fail(r, "map: no such filter");
    }
    if (!qn_tpl_iterate(r, v, &l)) return false;
    qn_tpl_value *x = qn_tpl_alloc(r, l.n, sizeof *x);
    qn_tpl_args rest = *a;
    if (!x) return false;
    if (fn) rest.n--, rest.v++;
    if (r->depth >= QN_TPL_MAX_DEPTH)
        return qn_tpl_fail_limit(r, QN_TOO_LARGE, "evaluation is nested deeper than the limit of %d",
                                 QN_TPL_MAX_DEPTH);
    r->depth++; /* map('map', 'map', ...) is a recursion too */
    for (size_t i = 0; i < l.n; i++) {
        if (!qn_tpl_step(r, 1) || (fn ? !fn(r, &l.v[i], &rest, &x[i]) : !path(r, &l.v[i], attr, &x[i])))
            return false;
        if (!fn && fallback && x[i].kind == QN_TV_UNDEFINED) x[i] = *fallback;
    }
    r->depth--;
    *out = list_of(x, l.n);
    return true;
}

/* select, reject, selectattr, rejectattr: items (or an attribute of them) that pass a test, by default truth.
 */
static bool pick(qn_tpl_render *r, const qn_tpl_value *v, const qn_tpl_args *a, bool by_attr, bool keep,
                 qn_tpl_value *out)
{
    qn_tpl_args rest = *a;
    qn_tpl_test_fn test = NULL;
    qn_tpl_list l;
    size_t n = 0;
    if (by_attr && !rest.n) return qn_tpl_fail(r, "an attribute is missing");
    if (by_attr) rest.n--, rest.v++;
    if (rest.n) {
        if (rest.v[0].kind != QN_TV_STR || !(test = qn_tpl_find_test(rest.v[0].s.p, rest.v[0].s.n)))
            return qn_tpl_fail(r, "no such test");
        rest.n--;
        rest.v++;
    }
    if (!qn_tpl_iterate(r, v, &l)) return false;
    qn_tpl_value *x = qn_tpl_alloc(r, l.n, sizeof *x);
    if (!x) return false;
    for (size_t i = 0; i < l.n; i++) {
        qn_tpl_value it = l.v[i];
        bool yes;
        if (!qn_tpl_step(r, 1) || (by_attr && !path(r, &l.v[i], &a->v[0], &it))) return false;
        if (test && !test(r, &it, &rest, &yes)) return false;
        if (!test) yes = qn_tpl_truth(&it);
        if (yes == keep) x[n++] = l.v[i];
    }
    *out = list_of(x, n);
    return true;
}
FILTER(f_select)
{
    return pick(r, v, a, false, true, out);
}
FILTER(f_reject)
{
    return pick(r, v, a, false, false, out);
}
FILTER(f_selectattr)
{
    return pick(r, v, a, true, true, out);
}
FILTER(f_rejectattr)
{
    return pick(r, v, a, true, false, out);
}

FILTER(f_groupby)
{
    const qn_tpl_value *attr = qn_tpl_arg(a, 0, "attribute");
    qn_tpl_list l;
    qn_tpl_value *k, *x;
    size_t n = 0;
    if (!attr) return qn_tpl_fail(r, "groupby takes an attribute");
    if (!qn_tpl_iterate(r, v, &l) || !sorted(r, &l, attr, flag(a, 2, "case_sensitive"), false, &k, &x))
        return false;
    qn_tpl_value *groups = qn_tpl_alloc(r, l.n, 3 * sizeof *groups);
    if (!groups) return false;
    for (size_t i = 0; i < l.n;) {
        size_t end = i + 1;
        bool same = true;
        for (; end < l.n; end++) {
            if (!qn_tpl_equal(r, &k[i], &k[end], &same)) return false;
            if (!same) break;
        }
        qn_tpl_value *pair = groups + l.n + 2 * n;
        if (!path(r, &x[i], attr, &pair[0])) return false;
        pair[1] = list_of(x + i, end - i);
        groups[n++] = (qn_tpl_value){.kind = QN_TV_TUPLE, .list = {.n = 2, .v = pair}};
        i = end;
    }
    *out = list_of(groups, n);
    return true;
}

FILTER(f_batch)
{
    const qn_tpl_value *size = qn_tpl_arg(a, 0, "linecount"), *fill = qn_tpl_arg(a, 1, "fill_with");
    qn_tpl_list l;
    if (!size || size->kind != QN_TV_INT || size->i < 1 || size->i > QN_TPL_MAX_RANGE)
        return qn_tpl_fail(r, "batch takes a number from 1 to %d", QN_TPL_MAX_RANGE);
    if (!qn_tpl_iterate(r, v, &l)) return false;
    size_t width = (size_t)size->i, rows = (l.n + width - 1) / width;
    qn_tpl_value *row = qn_tpl_alloc(r, rows, sizeof *row), *x = qn_tpl_alloc(r, rows * width, sizeof *x);
    if (!row || !x || !qn_tpl_step(r, rows * width)) return false;
    for (size_t i = 0; i < rows * width; i++) x[i] = i < l.n ? l.v[i] : fill ? *fill : QN_TV(QN_TV_NONE);
    for (size_t i = 0; i < rows; i++) {
        bool whole = (i + 1) * width <= l.n || (fill && fill->kind != QN_TV_NONE);
        row[i] = list_of(x + i * width, whole ? width : l.n - i * width);
    }
    *out = list_of(row, rows);
    return true;
}

qn_tpl_filter_fn qn_tpl_find_list_filter(const char *name, size_t n)
{
    static const struct {
        const char *name;
        qn_tpl_filter_fn fn;
    } table[] = {{"list", f_list},
                 {"first", f_first},
                 {"last", f_last},
                 {"items", f_items},
                 {"attr", f_attr},
                 {"join", f_join},
                 {"reverse", f_reverse},
                 {"sort", f_sort},
                 {"dictsort", f_dictsort},
                 {"min", f_min},
                 {"max", f_max},
                 {"sum", f_sum},
                 {"unique", f_unique},
                 {"map", f_map},
                 {"select", f_select},
                 {"reject", f_reject},
                 {"selectattr", f_selectattr},
                 {"rejectattr", f_rejectattr},
                 {"groupby", f_groupby},
                 {"batch", f_batch}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strlen(table[i].name) == n && !memcmp(table[i].name, name, n)) return table[i].fn;
    return NULL;
}
