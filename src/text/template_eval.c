/* template_eval.c - evaluates expressions: names, operators, calls. Python's rules, within 64 bits. */
#include <math.h>
#include <string.h>

#include "text/template_int.h"

static bool type_error(qn_tpl_render *r, const char *op, const qn_tpl_value *a, const qn_tpl_value *b)
{
    if (a->kind == QN_TV_UNDEFINED) return qn_tpl_fail_undefined(r, a);
    if (b->kind == QN_TV_UNDEFINED) return qn_tpl_fail_undefined(r, b);
    if (*op == '+' && a->kind == QN_TV_STR)
        return qn_tpl_fail(r, "can only concatenate str (not \"%s\") to str", qn_tpl_type(b));
    return qn_tpl_fail(r, "unsupported operand type(s) for %s: '%s' and '%s'", op, qn_tpl_type(a),
                       qn_tpl_type(b));
}

static bool overflow(qn_tpl_render *r)
{
    return qn_tpl_fail(r, "a number of more than 64 bits");
}

static bool add_lists(qn_tpl_render *r, const qn_tpl_value *a, const qn_tpl_value *b, qn_tpl_value *out)
{
    qn_tpl_list x, y;
    if (!qn_tpl_iterate(r, a, &x) || !qn_tpl_iterate(r, b, &y)) return false;
    qn_tpl_value *v = qn_tpl_alloc(r, x.n + y.n, sizeof *v);
    if (!v || !qn_tpl_step(r, (x.n + y.n) / 16)) return false;
    if (x.n) memcpy(v, x.v, x.n * sizeof *v);
    if (y.n) memcpy(v + x.n, y.v, y.n * sizeof *v);
    *out = (qn_tpl_value){.kind = a->kind == QN_TV_TUPLE ? QN_TV_TUPLE : QN_TV_LIST,
                          .list = {.n = x.n + y.n, .v = v}};
    return true;
}

static bool add(qn_tpl_render *r, const qn_tpl_value *a, const qn_tpl_value *b, qn_tpl_value *out)
{
    if (a->kind == QN_TV_STR && b->kind == QN_TV_STR) {
        qn_tpl_text t = {0};
        if (a->s.n == 0) return *out = *b, true;
        if (b->s.n == 0) return *out = *a, true;
        if (!qn_tpl_add(r, &t, &a->s) || !qn_tpl_add(r, &t, &b->s)) return false;
        *out = QN_TV_OF_STR(qn_tpl_done(&t));
        return true;
    }
    if (qn_tpl_is_list(a) && qn_tpl_is_list(b) && (a->kind == QN_TV_TUPLE) == (b->kind == QN_TV_TUPLE))
        return add_lists(r, a, b, out);
    return type_error(r, "+", a, b);
}

static bool repeat(qn_tpl_render *r, const qn_tpl_value *s, int64_t times, qn_tpl_value *out)
{
    if (times < 0) times = 0;
    if (s->kind == QN_TV_STR) {
        qn_tpl_text t = {0};
        for (int64_t i = 0; i < times && s->s.n; i++)
            if (!qn_tpl_step(r, 1) || !qn_tpl_add(r, &t, &s->s)) return false;
        *out = QN_TV_OF_STR(qn_tpl_done(&t));
        return true;
    }
    *out = (qn_tpl_value){.kind = QN_TV_LIST};
    for (int64_t i = 0; i < times && qn_tpl_truth(s); i++)
        if (!add_lists(r, out, s, out)) return false;
    return true;
}

static bool int_op(qn_tpl_render *r, char op, int64_t a, int64_t b, qn_tpl_value *out)
{
    int64_t x;
    bool over = false;
    switch (op) {
    case '+': over = __builtin_add_overflow(a, b, &x); break;
    case '-': over = __builtin_sub_overflow(a, b, &x); break;
    case '*': over = __builtin_mul_overflow(a, b, &x); break;
    case QN_OP_FLOOR:
    case '%':
        if (b == 0) return qn_tpl_fail(r, "integer division or modulo by zero");
        if (b == -1) { /* the one division that can overflow */
            over = op != '%' && __builtin_sub_overflow((int64_t)0, a, &x);
            if (op == '%') x = 0;
            break;
        }
        x = op == '%' ? a % b : a / b;
        if (a % b != 0 && (a % b < 0) != (b < 0)) x = op == '%' ? x + b : x - 1; /* towards minus infinity */
        break;
    default: /* QN_OP_POW, b >= 0 */
        x = 1;
        if (b > 63 && (a > 1 || a < -1))
            over = true;
        else if (b > 63)
            x = a == -1 && b % 2 == 0 ? 1 : a;
        else
            for (int64_t i = 0; i < b && !over; i++) over = __builtin_mul_overflow(x, a, &x);
    }
    if (over) return overflow(r);
    *out = QN_TV_OF_INT(x);
    return true;
}

static bool float_op(qn_tpl_render *r, char op, double a, double b, qn_tpl_value *out)
{
    double x;
    if ((op == '/' || op == QN_OP_FLOOR || op == '%') && b == 0) return qn_tpl_fail(r, "division by zero");
    switch (op) {
    case '+': x = a + b; break;
    case '-': x = a - b; break;
    case '*': x = a * b; break;
    case '/': x = a / b; break;
    case QN_OP_FLOOR: x = floor(a / b); break;
    case '%':
        x = fmod(a, b);
        if (x != 0 && (x < 0) != (b < 0)) x += b;
        break;
    default: x = pow(a, b);
    }
    *out = (qn_tpl_value){.kind = QN_TV_FLOAT, .f = x};
    return true;
}

bool qn_tpl_binary(qn_tpl_render *r, char op, const qn_tpl_value *a, const qn_tpl_value *b, qn_tpl_value *out)
{
    const char name[3] = {op == QN_OP_FLOOR ? '/'
                          : op == QN_OP_POW ? '*'
                                            : op,
                          op == QN_OP_FLOOR ? '/'
                          : op == QN_OP_POW ? '*'
                                            : 0,
                          0};
    if (qn_tpl_is_number(a) && qn_tpl_is_number(b)) {
        bool real = a->kind == QN_TV_FLOAT || b->kind == QN_TV_FLOAT || op == '/' ||
                    (op == QN_OP_POW && qn_tpl_int(b) < 0);
        if (real) return float_op(r, op, qn_tpl_number(a), qn_tpl_number(b), out);
        return int_op(r, op, qn_tpl_int(a), qn_tpl_int(b), out);
    }
    if (op == '+') return add(r, a, b, out);
    if (op == '%' && a->kind == QN_TV_STR) {
        qn_tpl_args args = {.n = 1, .v = b};
        if (b->kind == QN_TV_TUPLE) args = (qn_tpl_args){.n = b->list.n, .v = b->list.v};
        return qn_tpl_percent(r, &a->s, &args, out);
    }
    if (op == '*') {
        bool sa = a->kind == QN_TV_STR || qn_tpl_is_list(a), sb = b->kind == QN_TV_STR || qn_tpl_is_list(b);
        if (sa && (b->kind == QN_TV_INT || b->kind == QN_TV_BOOL)) return repeat(r, a, qn_tpl_int(b), out);
        if (sb && (a->kind == QN_TV_INT || a->kind == QN_TV_BOOL)) return repeat(r, b, qn_tpl_int(a), out);
    }
    return type_error(r, name, a, b);
}

bool qn_tpl_compare(qn_tpl_render *r, char op, const qn_tpl_value *a, const qn_tpl_value *b, bool *out)
{
    bool ok;
    switch (op) {
    case QN_OP_EQ:
    case QN_OP_NE:
        ok = qn_tpl_equal(r, a, b, out);
        if (op == QN_OP_NE) *out = !*out;
        return ok;
    case QN_OP_IN:
    case QN_OP_NOT_IN:
        ok = qn_tpl_contains(r, b, a, out);
        if (op == QN_OP_NOT_IN) *out = !*out;
        return ok;
    case '<': return qn_tpl_less(r, a, b, out);
    case '>': return qn_tpl_less(r, b, a, out);
    case QN_OP_LE: ok = qn_tpl_less(r, b, a, out); break;
    default: ok = qn_tpl_less(r, a, b, out);
    }
    *out = !*out;
    if (ok && qn_tpl_is_number(a) && (isnan(qn_tpl_number(a)) || isnan(qn_tpl_number(b)))) *out = false;
    return ok;
}

/* Python's clamping of a bound to [lo, hi]; absent: fallback. */
static bool bound(qn_tpl_render *r, const qn_tpl_value *v, int64_t n, int64_t lo, int64_t hi,
                  int64_t fallback, int64_t *out)
{
    if (v->kind == QN_TV_NONE) return *out = fallback, true;
    if (v->kind != QN_TV_INT && v->kind != QN_TV_BOOL)
        return qn_tpl_fail(r, "slice indices must be integers or None");
    int64_t i = qn_tpl_int(v);
    if (i < 0) i = i < -n ? lo : i + n;
    *out = i < lo ? lo : i > hi ? hi : i;
    return true;
}

bool qn_tpl_slice(qn_tpl_render *r, const qn_tpl_value *v, const qn_tpl_value b[3], qn_tpl_value *out)
{
    qn_tpl_list l;
    size_t len;
    int64_t from = 0, to = 0, step = 1;
    if (v->kind == QN_TV_UNDEFINED) return qn_tpl_fail_undefined(r, v);
    if (v->kind != QN_TV_STR && !qn_tpl_is_list(v)) {
        *out = qn_tpl_undefined(r, "'%s' object cannot be sliced", qn_tpl_type(v));
        return true;
    }
    if (!qn_tpl_length(r, v, &len)) return false;
    int64_t n = (int64_t)len;
    if (b[2].kind != QN_TV_NONE) {
        if (b[2].kind != QN_TV_INT || b[2].i == 0)
            return qn_tpl_fail(r, "slice step must be an integer other than zero");
        step = b[2].i < -n - 1 ? -n - 1 : b[2].i > n + 1 ? n + 1 : b[2].i;
    }
    bool up = step > 0;
    if (!bound(r, &b[0], n, up ? 0 : -1, up ? n : n - 1, up ? 0 : n - 1, &from) ||
        !bound(r, &b[1], n, up ? 0 : -1, up ? n : n - 1, up ? n : -1, &to))
        return false;
    if (v->kind == QN_TV_STR && step == 1) { /* a view */
        size_t at = 0, start = v->s.n, end = v->s.n;
        if (to <= from)
            start = end = 0;
        else
            for (size_t i = 0; i <= v->s.n; i++) {
                if (i < v->s.n && ((uint8_t)v->s.p[i] & 0xc0) == 0x80) continue;
                if (at == (size_t)from) start = i;
                if (at++ == (size_t)to) {
                    end = i;
                    break;
                }
            }
        *out = QN_TV_OF_STR(qn_tpl_sub(&v->s, start, end));
        return qn_tpl_step(r, v->s.n / 1024);
    }
    if (!qn_tpl_iterate(r, v, &l)) return false;
    if (v->kind != QN_TV_STR && step == 1) {
        *out = (qn_tpl_value){.kind = v->kind == QN_TV_TUPLE ? QN_TV_TUPLE : QN_TV_LIST, .list = {0}};
        if (to > from) out->list = (qn_tpl_list){.n = (size_t)(to - from), .v = l.v + from};
        return true;
    }
    qn_tpl_value *items = qn_tpl_alloc(r, len, sizeof *items);
    qn_tpl_text t = {0};
    size_t k = 0;
    if (!items || !qn_tpl_step(r, len)) return false;
    for (int64_t i = from; up ? i < to : i > to; i += step) items[k++] = l.v[i];
    *out = (qn_tpl_value){.kind = v->kind == QN_TV_TUPLE ? QN_TV_TUPLE : QN_TV_LIST,
                          .list = {.n = k, .v = items}};
    if (v->kind != QN_TV_STR) return true;
    for (size_t i = 0; i < k; i++)
        if (!qn_tpl_add(r, &t, &items[i].s)) return false;
    *out = QN_TV_OF_STR(qn_tpl_done(&t));
    return true;
}

const qn_tpl_value *qn_tpl_arg(const qn_tpl_args *args, size_t at, const char *name)
{
    if (at < args->n) return &args->v[at];
    for (size_t i = 0; i < args->n_named; i++)
        if (!strcmp(args->names[i], name)) return &args->named[i];
    return NULL;
}

static bool call_range(qn_tpl_render *r, const qn_tpl_args *args, qn_tpl_value *out)
{
    int64_t p[3] = {0, 0, 1};
    if (args->n < 1 || args->n > 3 || args->n_named)
        return qn_tpl_fail(r, "range() takes one to three numbers");
    for (size_t i = 0; i < args->n; i++) {
        if (args->v[i].kind == QN_TV_UNDEFINED) return qn_tpl_fail_undefined(r, &args->v[i]);
        if (args->v[i].kind != QN_TV_INT && args->v[i].kind != QN_TV_BOOL)
            return qn_tpl_fail(r, "range() takes integers");
        p[args->n == 1 ? 1 : i] = qn_tpl_int(&args->v[i]);
    }
    if (p[2] == 0) return qn_tpl_fail(r, "range() step must not be zero");
    __int128 span = p[2] > 0 ? (__int128)p[1] - p[0] : (__int128)p[0] - p[1],
             step = p[2] > 0 ? p[2] : -(__int128)p[2];
    __int128 n = span > 0 ? (span + step - 1) / step : 0;
    if (n > QN_TPL_MAX_RANGE)
        return qn_tpl_fail(r, "range() gives more than the limit of %d items", QN_TPL_MAX_RANGE);
    qn_tpl_value *v = qn_tpl_alloc(r, (size_t)n, sizeof *v);
    if (!v || !qn_tpl_step(r, (uint64_t)n)) return false;
    for (int64_t i = 0; i < (int64_t)n; i++) v[i] = QN_TV_OF_INT(p[0] + i * p[2]);
    *out = (qn_tpl_value){.kind = QN_TV_LIST, .list = {.n = (size_t)n, .v = v}};
    return true;
}

/* namespace(a=1) and dict(a=1); either may start from a dict. */
static bool call_dict(qn_tpl_render *r, const qn_tpl_args *args, qn_tpl_kind kind, qn_tpl_value *out)
{
    qn_tpl_dict from = {0}, *d = qn_tpl_alloc(r, 1, sizeof *d);
    if (args->n > 1) return qn_tpl_fail(r, "at most one dict and named values are expected");
    if (!d || (args->n && !qn_tpl_pairs(r, &args->v[0], &from))) return false;
    size_t cap = from.n + args->n_named;
    qn_tpl_value *k = qn_tpl_alloc(r, cap, 2 * sizeof *k);
    if (!k) return false;
    *d = (qn_tpl_dict){.n = from.n, .cap = cap, .k = k, .v = k + cap};
    if (from.n) memcpy(d->k, from.k, from.n * sizeof *k), memcpy(d->v, from.v, from.n * sizeof *k);
    for (size_t i = 0; i < args->n_named; i++) {
        size_t at = 0;
        while (at < d->n && !(d->k[at].kind == QN_TV_STR && qn_tpl_str_is(&d->k[at].s, args->names[i]))) at++;
        d->k[at] = qn_tpl_of_text(args->names[i]);
        d->v[at] = args->named[i];
        if (at == d->n) d->n++;
    }
    *out = (qn_tpl_value){.kind = kind, .dict = d};
    return true;
}

static bool call_function(qn_tpl_render *r, qn_tpl_fn fn, const qn_tpl_args *args, qn_tpl_value *out)
{
    qn_tpl_str s;
    char buf[256], fmt[128];
    if (fn == QN_TF_RANGE) return call_range(r, args, out);
    if (fn == QN_TF_NAMESPACE) return call_dict(r, args, QN_TV_NAMESPACE, out);
    if (fn == QN_TF_DICT) return call_dict(r, args, QN_TV_DICT, out);
    const qn_tpl_value *v = qn_tpl_arg(args, 0, fn == QN_TF_RAISE ? "message" : "format");
    if (!v || !qn_tpl_to_str(r, v, &s)) return v ? false : qn_tpl_fail(r, "an argument is missing");
    if (fn == QN_TF_RAISE) { /* the template's own words, and nothing else */
        if (!r->st) r->st = qn_fail(r->err, QN_INVALID, "%.*s", (int)(s.n < 500 ? s.n : 500), s.p);
        return false;
    }
    if (!r->now) return qn_tpl_fail(r, "strftime_now() is called, but no time was given");
    if (s.n >= sizeof fmt || memchr(s.p, 0, s.n))
        return qn_tpl_fail(r, "a time format over the limit of %zu bytes", sizeof fmt - 1);
    memcpy(fmt, s.p, s.n);
    fmt[s.n] = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n =
        strftime(buf, sizeof buf, fmt, r->now); /* the buffer's size bounds it, whatever the format says */
#pragma GCC diagnostic pop
    char *p = qn_tpl_alloc(r, n, 1);
    if (!p) return false;
    memcpy(p, buf, n);
    *out = QN_TV_OF_STR(((qn_tpl_str){.p = p, .n = n}));
    return true;
}

bool qn_tpl_call(qn_tpl_render *r, const qn_tpl_value *f, const qn_tpl_args *args, qn_tpl_value *out)
{
    switch (f->kind) {
    case QN_TV_MACRO: return qn_tpl_call_macro(r, f->macro, args, out);
    case QN_TV_FUNCTION: return call_function(r, (qn_tpl_fn)f->i, args, out);
    case QN_TV_METHOD: return qn_tpl_call_method(r, f->method, args, out);
    case QN_TV_LOOP:
        if (args->n != 1) return qn_tpl_fail(r, "a recursive loop is called with one argument");
        return qn_tpl_call_loop(r, f->loop, &args->v[0], out);
    case QN_TV_UNDEFINED: return qn_tpl_fail_undefined(r, f);
    default: return qn_tpl_fail(r, "'%s' object is not callable", qn_tpl_type(f));
    }
}

static bool eval_args(qn_tpl_render *r, const qn_tpl_node *n, qn_tpl_args *args)
{
    *args = (qn_tpl_args){.n = n->n_args, .n_named = n->n - n->n_args, .names = n->names};
    if (n->n == 0) return true;
    qn_tpl_value *v = qn_tpl_alloc(r, n->n, sizeof *v);
    for (uint32_t i = 0; i < n->n; i++)
        if (!v || !qn_tpl_eval(r, n->list[i], &v[i])) return false;
    args->v = v;
    args->named = v + n->n_args;
    return true;
}

static bool eval_items(qn_tpl_render *r, const qn_tpl_node *n, qn_tpl_value *out)
{
    qn_tpl_value *v = qn_tpl_alloc(r, n->n, sizeof *v);
    if (!v) return false;
    for (uint32_t i = 0; i < n->n; i++)
        if (!qn_tpl_eval(r, n->list[i], &v[i])) return false;
    *out =
        (qn_tpl_value){.kind = n->kind == QN_TN_LIST ? QN_TV_LIST : QN_TV_TUPLE, .list = {.n = n->n, .v = v}};
    return true;
}

static bool eval_dict(qn_tpl_render *r, const qn_tpl_node *n, qn_tpl_value *out)
{
    size_t cap = n->n / 2;
    qn_tpl_dict *d = qn_tpl_alloc(r, 1, sizeof *d);
    qn_tpl_value *k = qn_tpl_alloc(r, cap, 2 * sizeof *k), key;
    if (!d || !k) return false;
    *d = (qn_tpl_dict){.cap = cap, .k = k, .v = k + cap};
    for (uint32_t i = 0; i < n->n; i += 2) {
        size_t at;
        bool eq = false;
        if (!qn_tpl_eval(r, n->list[i], &key)) return false;
        for (at = 0; at < d->n; at++) {
            if (!qn_tpl_equal(r, &d->k[at], &key, &eq)) return false;
            if (eq) break;
        }
        if (!qn_tpl_eval(r, n->list[i + 1], &d->v[at])) return false;
        if (at == d->n) d->k[d->n++] = key; /* of equal keys, such as 1 and true, the first stays */
    }
    *out = (qn_tpl_value){.kind = QN_TV_DICT, .dict = d};
    return true;
}

static bool eval_name(qn_tpl_render *r, const qn_tpl_node *n, qn_tpl_value *out)
{
    for (const qn_tpl_scope *s = r->scope; s; s = s->up)
        for (uint32_t i = 0; i < s->n; i++)
            if (s->slots[i].name == n->name) return *out = s->slots[i].value, true;
    *out = qn_tpl_undefined(r, "'%s' is undefined", n->name);
    return true;
}

static bool eval_concat(qn_tpl_render *r, const qn_tpl_node *n, qn_tpl_value *out)
{
    qn_tpl_text t = {0};
    qn_tpl_value v;
    qn_tpl_str s;
    for (uint32_t i = 0; i < n->n; i++)
        if (!qn_tpl_eval(r, n->list[i], &v) || !qn_tpl_to_str(r, &v, &s) || !qn_tpl_add(r, &t, &s))
            return false;
    *out = QN_TV_OF_STR(qn_tpl_done(&t));
    return true;
}

static bool eval_compare(qn_tpl_render *r, const qn_tpl_node *n, qn_tpl_value *out)
{
    qn_tpl_value a, b;
    bool yes = true;
    if (!qn_tpl_eval(r, n->a, &a)) return false;
    for (uint32_t i = 0; i < n->n && yes; i++) {
        if (!qn_tpl_eval(r, n->list[i], &b) || !qn_tpl_compare(r, n->ops[i], &a, &b, &yes)) return false;
        a = b;
    }
    *out = QN_TV_OF_BOOL(yes);
    return true;
}

static bool eval_slice(qn_tpl_render *r, const qn_tpl_node *n, qn_tpl_value *out)
{
    qn_tpl_value v, b[3] = {QN_TV(QN_TV_NONE), QN_TV(QN_TV_NONE), QN_TV(QN_TV_NONE)};
    if (!qn_tpl_eval(r, n->a, &v)) return false;
    for (uint32_t i = 0; i < 3; i++)
        if (n->list[i] && !qn_tpl_eval(r, n->list[i], &b[i])) return false;
    return qn_tpl_slice(r, &v, b, out);
}

static bool eval_sign(qn_tpl_render *r, const qn_tpl_node *n, qn_tpl_value *out)
{
    qn_tpl_value v;
    if (!qn_tpl_eval(r, n->a, &v)) return false;
    if (v.kind == QN_TV_UNDEFINED) return qn_tpl_fail_undefined(r, &v);
    if (!qn_tpl_is_number(&v)) return qn_tpl_fail(r, "bad operand type for a sign: '%s'", qn_tpl_type(&v));
    if (v.kind != QN_TV_FLOAT) return int_op(r, n->kind == QN_TN_NEG ? '-' : '+', 0, qn_tpl_int(&v), out);
    *out = (qn_tpl_value){.kind = QN_TV_FLOAT, .f = n->kind == QN_TN_NEG ? -v.f : v.f};
    return true;
}

static bool eval_filter(qn_tpl_render *r, const qn_tpl_node *n, qn_tpl_value *out)
{
    qn_tpl_value v;
    qn_tpl_args args;
    if (!n->filter) return qn_tpl_fail(r, "no filter named '%s'", n->name);
    if (!qn_tpl_eval(r, n->a, &v) || !eval_args(r, n, &args)) return false;
    r->line = n->line;
    return n->filter(r, &v, &args, out);
}

static bool eval_test(qn_tpl_render *r, const qn_tpl_node *n, qn_tpl_value *out)
{
    qn_tpl_value v;
    qn_tpl_args args;
    bool yes;
    if (!n->test) return qn_tpl_fail(r, "no test named '%s'", n->name);
    if (!qn_tpl_eval(r, n->a, &v) || !eval_args(r, n, &args)) return false;
    r->line = n->line;
    if (!n->test(r, &v, &args, &yes)) return false;
    *out = QN_TV_OF_BOOL(yes != n->flag);
    return true;
}

static bool eval_call(qn_tpl_render *r, const qn_tpl_node *n, qn_tpl_value *out)
{
    qn_tpl_value f;
    qn_tpl_args args;
    if (!qn_tpl_eval(r, n->a, &f) || !eval_args(r, n, &args)) return false;
    r->line = n->line;
    return qn_tpl_call(r, &f, &args, out);
}

static bool eval_one(qn_tpl_render *r, const qn_tpl_node *n, qn_tpl_value *out)
{
    qn_tpl_value a, b;
    switch (n->kind) {
    case QN_TN_CONST: *out = n->value; return true;
    case QN_TN_NAME: return eval_name(r, n, out);
    case QN_TN_BLOCK_VALUE: *out = r->block_value; return true;
    case QN_TN_LIST:
    case QN_TN_TUPLE: return eval_items(r, n, out);
    case QN_TN_DICT: return eval_dict(r, n, out);
    case QN_TN_ATTR: return qn_tpl_eval(r, n->a, &a) && qn_tpl_get_attr(r, &a, n->name, strlen(n->name), out);
    case QN_TN_ITEM:
        return qn_tpl_eval(r, n->a, &a) && qn_tpl_eval(r, n->b, &b) && qn_tpl_get_item(r, &a, &b, out);
    case QN_TN_SLICE: return eval_slice(r, n, out);
    case QN_TN_CALL: return eval_call(r, n, out);
    case QN_TN_FILTER: return eval_filter(r, n, out);
    case QN_TN_TEST: return eval_test(r, n, out);
    case QN_TN_NOT:
        if (!qn_tpl_eval(r, n->a, &a)) return false;
        *out = QN_TV_OF_BOOL(!qn_tpl_truth(&a));
        return true;
    case QN_TN_NEG:
    case QN_TN_POS: return eval_sign(r, n, out);
    case QN_TN_BINARY:
        return qn_tpl_eval(r, n->a, &a) && qn_tpl_eval(r, n->b, &b) && qn_tpl_binary(r, n->op, &a, &b, out);
    case QN_TN_CONCAT: return eval_concat(r, n, out);
    case QN_TN_COMPARE: return eval_compare(r, n, out);
    case QN_TN_AND:
    case QN_TN_OR:
        if (!qn_tpl_eval(r, n->a, out)) return false;
        return qn_tpl_truth(out) == (n->kind == QN_TN_OR) || qn_tpl_eval(r, n->b, out);
    case QN_TN_IF_ELSE:
        if (!qn_tpl_eval(r, n->a, &a)) return false;
        if (qn_tpl_truth(&a)) return qn_tpl_eval(r, n->b, out);
        if (n->c) return qn_tpl_eval(r, n->c, out);
        *out = qn_tpl_undefined(
            r, "the inline if-expression on line %u evaluated to false and no else section was defined",
            n->line);
        return true;
    default: return qn_tpl_fail(r, "not an expression");
    }
}

bool qn_tpl_eval(qn_tpl_render *r, const qn_tpl_node *n, qn_tpl_value *out)
{
    r->line = n->line;
    if (!qn_tpl_step(r, 1)) return false;
    if (r->depth >= QN_TPL_MAX_DEPTH)
        return qn_tpl_fail_limit(r, QN_TOO_LARGE, "evaluation is nested deeper than the limit of %d",
                                 QN_TPL_MAX_DEPTH);
    r->depth++;
    bool ok = eval_one(r, n, out);
    r->depth--;
    return ok;
}
