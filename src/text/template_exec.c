/* template_exec.c - runs the statements of a template: scopes, loops, macros, and the render itself.
 *
 * Scopes are as Jinja has them: a for body, a macro, a `with`, a `set` block open one; `if` does not.
 * Assignments go to the innermost scope, so a loop cannot change what is outside it but through a namespace.
 */
#include <string.h>

#include "text/template_int.h"

enum { GO_ON, BREAK, CONTINUE };

bool qn_tpl_fail_limit(qn_tpl_render *r, qn_status st, const char *fmt, ...)
{
    if (r->st) return false;
    char what[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    r->st = qn_fail(r->err, st, "chat template line %u: %s", r->line, what);
    return false;
}

bool qn_tpl_fail(qn_tpl_render *r, const char *fmt, ...)
{
    char what[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return qn_tpl_fail_limit(r, QN_INVALID, "%s", what);
}

bool qn_tpl_fail_undefined(qn_tpl_render *r, const qn_tpl_value *v)
{
    return qn_tpl_fail(r, "%.*s", (int)v->s.n, v->s.p);
}

bool qn_tpl_step(qn_tpl_render *r, uint64_t n)
{
    if (n <= QN_TPL_MAX_STEPS - r->steps) return r->steps += n, true;
    return qn_tpl_fail_limit(r, QN_TOO_LARGE, "it takes more than the limit of %llu steps",
                             (unsigned long long)QN_TPL_MAX_STEPS);
}

qn_tpl_scope *qn_tpl_push_scope(qn_tpl_render *r, qn_tpl_scope *up)
{
    qn_tpl_scope *s = qn_tpl_alloc(r, 1, sizeof *s);
    if (s) *s = (qn_tpl_scope){.up = up};
    return s;
}

bool qn_tpl_set_var(qn_tpl_render *r, qn_tpl_scope *s, const char *name, const qn_tpl_value *v)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->slots[i].name == name) return s->slots[i].value = *v, true;
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 4;
        qn_tpl_slot *slots = qn_tpl_alloc(r, cap, sizeof *slots);
        if (!slots) return false;
        if (s->n) memcpy(slots, s->slots, s->n * sizeof *slots);
        s->slots = slots;
        s->cap = cap;
    }
    s->slots[s->n++] = (qn_tpl_slot){.name = name, .value = *v};
    return true;
}

static bool assign(qn_tpl_render *r, qn_tpl_scope *s, const qn_tpl_node *target, const qn_tpl_value *v)
{
    if (target->kind == QN_TN_NAME) return qn_tpl_set_var(r, s, target->name, v);
    if (target->kind == QN_TN_ATTR) {
        qn_tpl_value ns;
        if (!qn_tpl_eval(r, target->a, &ns)) return false;
        if (ns.kind != QN_TV_NAMESPACE)
            return qn_tpl_fail(r, "cannot assign attribute on non-namespace object");
        qn_tpl_dict *d = ns.dict;
        for (size_t i = 0; i < d->n; i++)
            if (qn_tpl_str_is(&d->k[i].s, target->name)) return d->v[i] = *v, true;
        if (d->n == d->cap) {
            size_t cap = d->cap ? d->cap * 2 : 4;
            qn_tpl_value *k = qn_tpl_alloc(r, cap, 2 * sizeof *k);
            if (!k) return false;
            if (d->n) memcpy(k, d->k, d->n * sizeof *k), memcpy(k + cap, d->v, d->n * sizeof *k);
            *d = (qn_tpl_dict){.n = d->n, .cap = cap, .k = k, .v = k + cap};
        }
        d->k[d->n] = qn_tpl_of_text(target->name);
        d->v[d->n++] = *v;
        return true;
    }
    qn_tpl_list l;
    if (!qn_tpl_iterate(r, v, &l)) return false;
    if (l.n < target->n)
        return qn_tpl_fail(r, "not enough values to unpack (expected %u, got %zu)", target->n, l.n);
    if (l.n > target->n) return qn_tpl_fail(r, "too many values to unpack (expected %u)", target->n);
    for (uint32_t i = 0; i < target->n; i++)
        if (!assign(r, s, target->list[i], &l.v[i])) return false;
    return true;
}

/* Run a body with its output captured, in scope s. */
static bool capture(qn_tpl_render *r, const qn_tpl_node *body, qn_tpl_scope *s, qn_tpl_value *out)
{
    qn_tpl_text t = {0}, *outer = r->out;
    qn_tpl_scope *around = r->scope;
    int flow;
    r->out = &t;
    r->scope = s;
    bool ok = s && qn_tpl_exec(r, body, &flow);
    r->out = outer;
    r->scope = around;
    if (ok) *out = QN_TV_OF_STR(qn_tpl_done(&t));
    return ok;
}

/* What the loop really runs over: the items that meet its condition. */
static bool filter_items(qn_tpl_render *r, const qn_tpl_node *n, qn_tpl_list *items)
{
    if (!n->c) return true;
    qn_tpl_scope *around = r->scope;
    qn_tpl_value *kept = qn_tpl_alloc(r, items->n, sizeof *kept), c;
    size_t k = 0;
    bool ok = kept != NULL;
    for (size_t i = 0; ok && i < items->n; i++) {
        qn_tpl_scope *s = qn_tpl_push_scope(r, around);
        r->scope = s;
        ok = s && assign(r, s, n->a, &items->v[i]) && qn_tpl_eval(r, n->c, &c);
        if (ok && qn_tpl_truth(&c)) kept[k++] = items->v[i];
    }
    r->scope = around;
    *items = (qn_tpl_list){.n = k, .v = kept};
    return ok;
}

static bool run_loop(qn_tpl_render *r, const qn_tpl_node *n, const qn_tpl_value *over, qn_tpl_scope *around,
                     uint32_t depth0, int *flow)
{
    qn_tpl_loop *loop = qn_tpl_alloc(r, 1, sizeof *loop);
    qn_tpl_list items;
    qn_tpl_scope *before = r->scope;
    const char *loop_name = qn_tpl_find_name(r->t, "loop", 4);
    *flow = GO_ON;
    if (!loop || !qn_tpl_iterate(r, over, &items) || !filter_items(r, n, &items)) return false;
    *loop = (qn_tpl_loop){.items = items, .depth0 = depth0, .node = n, .scope = around};
    qn_tpl_value lv = {.kind = QN_TV_LOOP, .loop = loop};
    bool ok = true;
    qn_tpl_scope *s = NULL;
    for (; ok && loop->at < items.n; loop->at++) {
        if (!s || s->captured)
            s = qn_tpl_push_scope(r, around);
        else
            s->n = 0; /* the next round's variables take the place of this one's, or long loops would fill the
                         arena */
        r->scope = s;
        ok = s && qn_tpl_step(r, 1) && (!loop_name || qn_tpl_set_var(r, s, loop_name, &lv)) &&
             assign(r, s, n->a, &items.v[loop->at]) && qn_tpl_exec(r, n->list[0], flow);
        int f = *flow;
        *flow = GO_ON;
        if (f == BREAK) break;
    }
    r->scope = before;
    if (!ok || items.n || !n->list[1]) return ok;
    r->scope = qn_tpl_push_scope(r, around);
    ok = r->scope && qn_tpl_exec(r, n->list[1], flow);
    r->scope = before;
    return ok;
}

bool qn_tpl_call_loop(qn_tpl_render *r, const qn_tpl_loop *loop, const qn_tpl_value *over, qn_tpl_value *out)
{
    if (!loop->node->flag) return qn_tpl_fail(r, "the loop is called, but it is not recursive");
    qn_tpl_text t = {0}, *outer = r->out;
    int flow;
    r->out = &t;
    bool ok = run_loop(r, loop->node, over, loop->scope, loop->depth0 + 1, &flow);
    r->out = outer;
    if (ok) *out = QN_TV_OF_STR(qn_tpl_done(&t));
    return ok;
}

bool qn_tpl_loop_attr(qn_tpl_render *r, const qn_tpl_loop *loop, const char *name, size_t n,
                      qn_tpl_value *out, bool *found)
{
    qn_tpl_str s = {.p = name, .n = n};
    int64_t at = (int64_t)loop->at, left = (int64_t)(loop->items.n - loop->at);
    *found = true;
    if (qn_tpl_str_is(&s, "index"))
        *out = QN_TV_OF_INT(at + 1);
    else if (qn_tpl_str_is(&s, "index0"))
        *out = QN_TV_OF_INT(at);
    else if (qn_tpl_str_is(&s, "revindex"))
        *out = QN_TV_OF_INT(left);
    else if (qn_tpl_str_is(&s, "revindex0"))
        *out = QN_TV_OF_INT(left - 1);
    else if (qn_tpl_str_is(&s, "first"))
        *out = QN_TV_OF_BOOL(at == 0);
    else if (qn_tpl_str_is(&s, "last"))
        *out = QN_TV_OF_BOOL(left <= 1);
    else if (qn_tpl_str_is(&s, "length"))
        *out = QN_TV_OF_INT((int64_t)loop->items.n);
    else if (qn_tpl_str_is(&s, "depth"))
        *out = QN_TV_OF_INT(loop->depth0 + 1);
    else if (qn_tpl_str_is(&s, "depth0"))
        *out = QN_TV_OF_INT(loop->depth0);
    else if (qn_tpl_str_is(&s, "previtem"))
        *out = at > 0 ? loop->items.v[at - 1] : qn_tpl_undefined(r, "there is no previous item");
    else if (qn_tpl_str_is(&s, "nextitem"))
        *out = left > 1 ? loop->items.v[at + 1] : qn_tpl_undefined(r, "there is no next item");
    else
        *found = false;
    return true;
}

/* Named arguments that no parameter takes, as a dict. */
static bool rest_of_named(qn_tpl_render *r, const qn_tpl_args *args, const bool *used, qn_tpl_value *out)
{
    qn_tpl_dict *d = qn_tpl_alloc(r, 1, sizeof *d);
    qn_tpl_value *k = qn_tpl_alloc(r, args->n_named, 2 * sizeof *k);
    if (!d || !k) return false;
    *d = (qn_tpl_dict){.cap = args->n_named, .k = k, .v = k + args->n_named};
    for (size_t i = 0; i < args->n_named; i++) {
        if (used[i]) continue;
        d->k[d->n] = qn_tpl_of_text(args->names[i]);
        d->v[d->n++] = args->named[i];
    }
    *out = (qn_tpl_value){.kind = QN_TV_DICT, .dict = d};
    return true;
}

bool qn_tpl_call_macro(qn_tpl_render *r, const qn_tpl_macro *m, const qn_tpl_args *args, qn_tpl_value *out)
{
    const qn_tpl_node *def = m->def;
    qn_tpl_scope *s = qn_tpl_push_scope(r, m->closure), *around = r->scope;
    size_t n_params = def->n / 2;
    bool *used = qn_tpl_alloc(r, args->n_named, sizeof *used);
    if (!s || !used) return false;
    memset(used, 0, args->n_named);
    for (size_t i = 0; i < args->n_named; i++) {
        if (strcmp(args->names[i], "caller")) continue;
        used[i] = true;
        if (!qn_tpl_set_var(r, s, args->names[i], &args->named[i])) return false;
    }
    for (size_t i = 0; i < n_params; i++) {
        const char *name = def->list[2 * i]->name;
        const qn_tpl_node *fallback = def->list[2 * i + 1];
        qn_tpl_value v;
        bool given = i < args->n;
        if (given) v = args->v[i];
        for (size_t k = 0; k < args->n_named; k++) {
            if (used[k] || strcmp(args->names[k], name)) continue;
            if (given) return qn_tpl_fail(r, "macro '%s' got two values for '%s'", def->name, name);
            used[k] = given = true;
            v = args->named[k];
        }
        if (!given && fallback) {
            r->scope = s;
            bool ok = qn_tpl_eval(r, fallback, &v);
            r->scope = around;
            if (!ok) return false;
        } else if (!given) {
            v = qn_tpl_undefined(r, "parameter '%s' was not provided", name);
        }
        if (!qn_tpl_set_var(r, s, name, &v)) return false;
    }
    size_t extra = args->n > n_params ? args->n - n_params : 0;
    if (def->flag) {
        qn_tpl_value v = {.kind = QN_TV_TUPLE, .list = {.n = extra, .v = args->v + args->n - extra}}, kw;
        const char *varargs = qn_tpl_find_name(r->t, "varargs", 7),
                   *kwargs = qn_tpl_find_name(r->t, "kwargs", 6);
        if (varargs && !qn_tpl_set_var(r, s, varargs, &v)) return false;
        if (kwargs && (!rest_of_named(r, args, used, &kw) || !qn_tpl_set_var(r, s, kwargs, &kw)))
            return false;
    } else {
        if (extra)
            return qn_tpl_fail(r, "macro '%s' takes not more than %zu argument(s)", def->name, n_params);
        for (size_t k = 0; k < args->n_named; k++)
            if (!used[k])
                return qn_tpl_fail(r, "macro '%s' takes no keyword argument '%s'", def->name, args->names[k]);
    }
    return capture(r, def->b, s, out);
}

static bool define_macro(qn_tpl_render *r, const qn_tpl_node *n, qn_tpl_value *out)
{
    qn_tpl_macro *m = qn_tpl_alloc(r, 1, sizeof *m);
    if (!m) return false;
    *m = (qn_tpl_macro){.def = n, .closure = r->scope};
    for (qn_tpl_scope *s = r->scope; s && !s->captured; s = s->up) s->captured = true;
    *out = (qn_tpl_value){.kind = QN_TV_MACRO, .macro = m};
    return true;
}

/* {% call f(x) %}body{% endcall %}: f with the body as its argument `caller`. */
static bool exec_call_block(qn_tpl_render *r, const qn_tpl_node *n)
{
    const qn_tpl_node *call = n->a;
    qn_tpl_value f, out, *v = qn_tpl_alloc(r, call->n + 1, sizeof *v);
    const char **names = qn_tpl_alloc(r, call->n + 1, sizeof *names);
    if (!v || !names || !qn_tpl_eval(r, call->a, &f)) return false;
    for (uint32_t i = 0; i < call->n; i++)
        if (!qn_tpl_eval(r, call->list[i], &v[i])) return false;
    for (uint32_t i = call->n_args; i < call->n; i++) names[i - call->n_args] = call->names[i - call->n_args];
    names[call->n - call->n_args] = n->b->name;
    if (!define_macro(r, n->b, &v[call->n])) return false;
    qn_tpl_args args = {.n = call->n_args,
                        .n_named = call->n - call->n_args + 1,
                        .v = v,
                        .names = names,
                        .named = v + call->n_args};
    qn_tpl_str s;
    return qn_tpl_call(r, &f, &args, &out) && qn_tpl_to_str(r, &out, &s) && qn_tpl_add(r, r->out, &s);
}

/* A body captured and put through filters; the result is text. */
static bool filtered_body(qn_tpl_render *r, const qn_tpl_node *body, const qn_tpl_node *filters,
                          qn_tpl_value *out)
{
    qn_tpl_value outer = r->block_value;
    if (!capture(r, body, qn_tpl_push_scope(r, r->scope), out)) return false;
    if (!filters) return true;
    r->block_value = *out;
    bool ok = qn_tpl_eval(r, filters, out);
    r->block_value = outer;
    return ok;
}

static bool exec_scoped(qn_tpl_render *r, const qn_tpl_node *n, int *flow)
{
    qn_tpl_scope *around = r->scope, *s = qn_tpl_push_scope(r, around);
    qn_tpl_value v;
    bool ok = s != NULL;
    for (uint32_t i = 0; ok && i + 1 < n->n; i += 2) /* WITH: values are those of the scope around it */
        ok = qn_tpl_eval(r, n->list[i + 1], &v) && assign(r, s, n->list[i], &v);
    r->scope = s;
    ok = ok && qn_tpl_exec(r, n->b, flow);
    r->scope = around;
    return ok;
}

static bool exec_one(qn_tpl_render *r, const qn_tpl_node *n, int *flow)
{
    qn_tpl_value v;
    qn_tpl_str s;
    switch (n->kind) {
    case QN_TN_SEQUENCE:
        for (uint32_t i = 0; i < n->n && *flow == GO_ON; i++)
            if (!qn_tpl_exec(r, n->list[i], flow)) return false;
        return true;
    case QN_TN_TEXT: return qn_tpl_add(r, r->out, &n->value.s);
    case QN_TN_PRINT:
        return qn_tpl_eval(r, n->a, &v) && qn_tpl_to_str(r, &v, &s) && qn_tpl_add(r, r->out, &s);
    case QN_TN_IF:
        for (uint32_t i = 0; i + 1 < n->n; i += 2) {
            if (n->list[i] && !qn_tpl_eval(r, n->list[i], &v)) return false;
            if (!n->list[i] || qn_tpl_truth(&v)) return qn_tpl_exec(r, n->list[i + 1], flow);
        }
        return true;
    case QN_TN_FOR: return qn_tpl_eval(r, n->b, &v) && run_loop(r, n, &v, r->scope, 0, flow);
    case QN_TN_SET: return qn_tpl_eval(r, n->b, &v) && assign(r, r->scope, n->a, &v);
    case QN_TN_SET_BLOCK: return filtered_body(r, n->b, n->c, &v) && assign(r, r->scope, n->a, &v);
    case QN_TN_FILTER_BLOCK:
        return filtered_body(r, n->b, n->a, &v) && qn_tpl_to_str(r, &v, &s) && qn_tpl_add(r, r->out, &s);
    case QN_TN_MACRO: return define_macro(r, n, &v) && qn_tpl_set_var(r, r->scope, n->name, &v);
    case QN_TN_CALL_BLOCK: return exec_call_block(r, n);
    case QN_TN_WITH:
    case QN_TN_SCOPE: return exec_scoped(r, n, flow);
    case QN_TN_BREAK: *flow = BREAK; return true;
    case QN_TN_CONTINUE: *flow = CONTINUE; return true;
    default: return qn_tpl_fail(r, "not a statement");
    }
}

bool qn_tpl_exec(qn_tpl_render *r, const qn_tpl_node *n, int *flow)
{
    if (n->kind != QN_TN_SEQUENCE)
        r->line = n->line;
    else
        *flow = GO_ON;
    if (!qn_tpl_step(r, 1)) return false;
    if (r->depth >= QN_TPL_MAX_DEPTH)
        return qn_tpl_fail_limit(r, QN_TOO_LARGE, "evaluation is nested deeper than the limit of %d",
                                 QN_TPL_MAX_DEPTH);
    r->depth++;
    bool ok = exec_one(r, n, flow);
    r->depth--;
    return ok;
}

/* The outermost scope: what every template may use, then the variables it was given. */
static bool fill_globals(qn_tpl_render *r, const json_t *vars)
{
    static const struct {
        const char *name;
        qn_tpl_fn fn;
    } functions[] = {{"raise_exception", QN_TF_RAISE},
                     {"strftime_now", QN_TF_STRFTIME},
                     {"range", QN_TF_RANGE},
                     {"namespace", QN_TF_NAMESPACE},
                     {"dict", QN_TF_DICT}};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        const char *name = qn_tpl_find_name(r->t, functions[i].name, strlen(functions[i].name));
        qn_tpl_value v = {.kind = QN_TV_FUNCTION, .i = functions[i].fn};
        if (name && !qn_tpl_set_var(r, r->scope, name, &v)) return false;
    }
    json_t *j = (json_t *)(uintptr_t)vars; /* jansson's iterators are not const, but change nothing */
    for (void *it = json_object_iter(j); it; it = json_object_iter_next(j, it)) {
        const char *name = qn_tpl_find_name(r->t, json_object_iter_key(it), json_object_iter_key_len(it));
        qn_tpl_value v = qn_tpl_of_json(json_object_iter_value(it));
        if (name && !qn_tpl_set_var(r, r->scope, name, &v)) return false;
    }
    return true;
}

qn_status qn_template_render(const qn_template *t, const json_t *vars, const struct tm *now, qn_buf *text,
                             qn_buf *origin, qn_error *err)
{
    qn_tpl_text out = {0};
    qn_tpl_render r = {
        .t = t, .now = now, .err = err, .out = &out, .line = 1, .arena = {.max_bytes = QN_TPL_MAX_VALUES}};
    int flow = GO_ON;
    qn_buf_reset(text);
    qn_buf_reset(origin);
    if (!json_is_object(vars))
        return qn_fail(err, QN_INVALID, "the variables of a chat template must be a JSON object");
    r.scope = qn_tpl_push_scope(&r, NULL);
    if (r.scope && fill_globals(&r, vars) && (r.scope = qn_tpl_push_scope(&r, r.scope)) &&
        qn_tpl_exec(&r, t->root, &flow)) {
        qn_buf_add(text, out.p, out.n);
        qn_buf_add(origin, out.o, out.n);
        r.st = qn_buf_status(text, "the rendered prompt", err);
        if (!r.st) r.st = qn_buf_status(origin, "the rendered prompt", err);
    }
    qn_tpl_arena_deinit(&r.arena);
    return r.st;
}
