/* template_expr.c - the expressions of a template, in the order of binding: if-else, or, and, not,
 * comparisons,
 * + -, ~, * / // %, **, signs, then calls, attributes, subscripts, filters and tests. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text/template_int.h"

static uint32_t line_of(const qn_tpl_parser *p)
{
    return p->tok[p->at].line;
}

static qn_tpl_node *two(qn_tpl_parser *p, qn_tpl_node_kind kind, char op, qn_tpl_node *a, qn_tpl_node *b)
{
    qn_tpl_node *n = a && b ? qn_tpl_new_node(p, kind, a->line) : NULL;
    if (n) n->op = op, n->a = a, n->b = b;
    return n;
}

/* Rows of operators make left-deep trees, which evaluation walks down: they count as depth too. */
static bool chain(qn_tpl_parser *p, uint32_t *length)
{
    if (++*length <= QN_TPL_MAX_CHAIN) return true;
    qn_tpl_parse_fail(p, line_of(p), "more than %d operators in a row", QN_TPL_MAX_CHAIN);
    return false;
}

static qn_tpl_node *constant(qn_tpl_parser *p, uint32_t line, qn_tpl_value v)
{
    qn_tpl_node *n = qn_tpl_new_node(p, QN_TN_CONST, line);
    if (n) n->value = v;
    return n;
}

static qn_tpl_node *parse_number(qn_tpl_parser *p, const qn_tpl_token *t)
{
    char s[64];
    size_t n = 0;
    if (t->n >= sizeof s) return qn_tpl_parse_fail(p, t->line, "a number of more than 63 characters");
    for (size_t i = 0; i < t->n; i++)
        if (t->p[i] != '_') s[n++] = t->p[i];
    s[n] = 0;
    char *end;
    errno = 0;
    if (t->kind == QN_TT_FLOAT) {
        double f = strtod(s, &end);
        if (*end) return qn_tpl_parse_fail(p, t->line, "not a number: %s", s);
        return constant(p, t->line, (qn_tpl_value){.kind = QN_TV_FLOAT, .f = f});
    }
    int base = n > 1 && s[0] == '0' ? ((s[1] | 32) == 'x'   ? 16
                                       : (s[1] | 32) == 'o' ? 8
                                       : (s[1] | 32) == 'b' ? 2
                                                            : 10)
                                    : 10;
    const char *from = base == 10 ? s : s + 2;
    long long v = strtoll(from, &end, base);
    if (*end || !*from || *from == '-' || *from == '+')
        return qn_tpl_parse_fail(p, t->line, "not a number: %s", s);
    if (errno) return qn_tpl_parse_fail(p, t->line, "a number of more than 64 bits: %s", s);
    return constant(p, t->line, QN_TV_OF_INT(v));
}

static qn_tpl_node *parse_string(qn_tpl_parser *p)
{
    const qn_tpl_token *t = &p->tok[p->at];
    qn_tpl_str s = {.p = t->p, .n = t->n, .all = 1};
    p->at++;
    while (p->tok[p->at].kind == QN_TT_STRING) { /* neighbours are one string */
        const qn_tpl_token *m = &p->tok[p->at++];
        char *d = qn_tpl_arena_alloc(&p->t->arena, s.n + m->n + 1);
        if (!d) return qn_tpl_parse_fail(p, t->line, "strings next to each other are too long together");
        memcpy(d, s.p, s.n);
        memcpy(d + s.n, m->p, m->n);
        s.p = d;
        s.n += m->n;
    }
    return constant(p, t->line, QN_TV_OF_STR(s));
}

static qn_tpl_node *parse_list(qn_tpl_parser *p, qn_tpl_node_kind kind, char end)
{
    qn_tpl_node *n = qn_tpl_new_node(p, kind, line_of(p));
    uint32_t cap = 0;
    p->at++;
    while (n && !qn_tpl_at_op(p, end)) {
        if (n->n && !qn_tpl_expect_op(p, ',')) return NULL;
        if (qn_tpl_at_op(p, end)) break;
        qn_tpl_node *e = qn_tpl_parse_expression(p, true);
        if (!e || !qn_tpl_push_node(p, n, &cap, e)) return NULL;
        if (kind != QN_TN_DICT) continue;
        if (!qn_tpl_expect_op(p, ':') || !(e = qn_tpl_parse_expression(p, true)) ||
            !qn_tpl_push_node(p, n, &cap, e))
            return NULL;
    }
    return n && qn_tpl_expect_op(p, end) ? n : NULL;
}

static qn_tpl_node *parse_name(qn_tpl_parser *p)
{
    static const struct {
        const char *name;
        qn_tpl_value v;
    } words[] = {{"true", {.kind = QN_TV_BOOL, .b = true}},
                 {"True", {.kind = QN_TV_BOOL, .b = true}},
                 {"false", {.kind = QN_TV_BOOL}},
                 {"False", {.kind = QN_TV_BOOL}},
                 {"none", {.kind = QN_TV_NONE}},
                 {"None", {.kind = QN_TV_NONE}}};
    static const char *const reserved[] = {"and", "or", "not", "if", "else", "elif", "in", "is"};
    uint32_t line = line_of(p);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (qn_tpl_at_name(p, words[i].name)) return p->at++, constant(p, line, words[i].v);
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        if (qn_tpl_at_name(p, reserved[i]))
            return qn_tpl_parse_fail(p, line, "'%s' is not expected here", reserved[i]);
    qn_tpl_node *n = qn_tpl_new_node(p, QN_TN_NAME, line);
    if (!n || !(n->name = qn_tpl_expect_name(p))) return NULL;
    if (p->macro && (!strcmp(n->name, "varargs") || !strcmp(n->name, "kwargs"))) p->macro->flag = true;
    return n;
}

static qn_tpl_node *parse_primary(qn_tpl_parser *p)
{
    const qn_tpl_token *t = &p->tok[p->at];
    switch (t->kind) {
    case QN_TT_NAME: return parse_name(p);
    case QN_TT_STRING: return parse_string(p);
    case QN_TT_INT:
    case QN_TT_FLOAT: p->at++; return parse_number(p, t);
    case QN_TT_OP:
        if (t->op == '[') return parse_list(p, QN_TN_LIST, ']');
        if (t->op == '{') return parse_list(p, QN_TN_DICT, '}');
        if (t->op == '(') {
            p->at++;
            if (qn_tpl_at_op(p, ')')) return p->at++, qn_tpl_new_node(p, QN_TN_TUPLE, t->line);
            qn_tpl_node *n = qn_tpl_parse_tuple(p, true);
            return n && qn_tpl_expect_op(p, ')') ? n : NULL;
        }
        break;
    default: break;
    }
    return qn_tpl_parse_fail(p, t->line, "expected an expression");
}

bool qn_tpl_parse_call_args(qn_tpl_parser *p, qn_tpl_node *call)
{
    uint32_t cap = 0, n_names = 0, names_cap = 0;
    if (!qn_tpl_expect_op(p, '(')) return false;
    while (!qn_tpl_at_op(p, ')')) {
        if (call->n && !qn_tpl_expect_op(p, ',')) return false;
        if (qn_tpl_at_op(p, ')')) break;
        if (qn_tpl_at_op(p, '*') || qn_tpl_at_op(p, QN_OP_POW))
            return qn_tpl_parse_fail(p, line_of(p), "* and ** in a call are not supported"), false;
        const qn_tpl_token *next = &p->tok[p->at + 1]; /* the last token is QN_TT_END, so there is one */
        bool named = p->tok[p->at].kind == QN_TT_NAME && next->kind == QN_TT_OP && next->op == '=';
        if (named) {
            const char *name = qn_tpl_expect_name(p);
            if (!name) return false;
            p->at++;
            if (n_names == names_cap) {
                names_cap = names_cap ? names_cap * 2 : 4;
                const char **list = qn_tpl_arena_alloc(&p->t->arena, names_cap * sizeof *list);
                if (!list) return qn_tpl_parse_fail(p, call->line, "too many named arguments"), false;
                if (n_names) memcpy(list, call->names, n_names * sizeof *list);
                call->names = list;
            }
            call->names[n_names++] = name;
        } else if (n_names) {
            return qn_tpl_parse_fail(p, line_of(p), "an argument without a name after a named one"), false;
        }
        qn_tpl_node *e = qn_tpl_parse_expression(p, true);
        if (!e || !qn_tpl_push_node(p, call, &cap, e)) return false;
        if (!named) call->n_args = call->n;
    }
    return qn_tpl_expect_op(p, ')');
}

/* [ ... ]: an index, a slice, or a tuple of indices. */
static qn_tpl_node *parse_subscript(qn_tpl_parser *p, qn_tpl_node *of)
{
    uint32_t cap = 0;
    qn_tpl_node *parts[3] = {NULL, NULL, NULL};
    size_t at = 0;
    bool slice = false;
    p->at++;
    if (qn_tpl_at_op(p, ']')) return qn_tpl_parse_fail(p, of->line, "an empty subscript");
    while (!qn_tpl_at_op(p, ']')) {
        if (qn_tpl_at_op(p, ':')) {
            p->at++;
            slice = true;
            if (++at == 3) return qn_tpl_parse_fail(p, of->line, "a slice has at most three parts");
            continue;
        }
        if (parts[at]) return qn_tpl_parse_fail(p, of->line, "expected ']'");
        if (!(parts[at] = qn_tpl_parse_expression(p, true))) return NULL;
    }
    p->at++;
    if (!slice) return two(p, QN_TN_ITEM, 0, of, parts[0]);
    qn_tpl_node *n = qn_tpl_new_node(p, QN_TN_SLICE, of->line);
    if (!n) return NULL;
    n->a = of;
    for (size_t i = 0; i < 3; i++)
        if (!qn_tpl_push_node(p, n, &cap, parts[i])) return NULL;
    return n;
}

static qn_tpl_node *parse_call(qn_tpl_parser *p, qn_tpl_node *of)
{
    qn_tpl_node *n = qn_tpl_new_node(p, QN_TN_CALL, line_of(p));
    if (!n) return NULL;
    n->a = of;
    return qn_tpl_parse_call_args(p, n) ? n : NULL;
}

qn_tpl_node *qn_tpl_parse_postfix(qn_tpl_parser *p, qn_tpl_node *n)
{
    uint32_t length = 0;
    while (n) {
        if (qn_tpl_at_op(p, '.')) {
            const qn_tpl_token *t = &p->tok[++p->at];
            if (t->kind == QN_TT_INT) {
                p->at++;
                n = two(p, QN_TN_ITEM, 0, n, parse_number(p, t));
            } else {
                qn_tpl_node *a = qn_tpl_new_node(p, QN_TN_ATTR, t->line);
                if (!a || !(a->name = qn_tpl_expect_name(p))) return NULL;
                a->a = n;
                n = a;
            }
        } else if (qn_tpl_at_op(p, '[')) {
            n = parse_subscript(p, n);
        } else if (qn_tpl_at_op(p, '(')) {
            n = parse_call(p, n);
        } else {
            break;
        }
        if (!n || !chain(p, &length)) return NULL;
    }
    return n;
}

static const char *dotted_name(qn_tpl_parser *p)
{
    const char *name = qn_tpl_expect_name(p);
    if (name && qn_tpl_at_op(p, '.'))
        return qn_tpl_parse_fail(p, line_of(p), "a filter or test with a dot in its name"), NULL;
    return name;
}

static qn_tpl_node *parse_filter(qn_tpl_parser *p, qn_tpl_node *in)
{
    qn_tpl_node *n = qn_tpl_new_node(p, QN_TN_FILTER, line_of(p));
    if (!n || !(n->name = dotted_name(p))) return NULL;
    n->a = in;
    n->filter = qn_tpl_find_filter(n->name, strlen(n->name));
    return !qn_tpl_at_op(p, '(') || qn_tpl_parse_call_args(p, n) ? n : NULL;
}

static qn_tpl_node *parse_test(qn_tpl_parser *p, qn_tpl_node *in)
{
    qn_tpl_node *n = qn_tpl_new_node(p, QN_TN_TEST, line_of(p));
    uint32_t cap = 0;
    if (!n) return NULL;
    if (qn_tpl_at_name(p, "not")) p->at++, n->flag = true;
    if (!(n->name = dotted_name(p))) return NULL;
    n->a = in;
    n->test = qn_tpl_find_test(n->name, strlen(n->name));
    if (qn_tpl_at_op(p, '(')) return qn_tpl_parse_call_args(p, n) ? n : NULL;
    const qn_tpl_token *t = &p->tok[p->at];
    bool more = t->kind == QN_TT_NAME || t->kind == QN_TT_STRING || t->kind == QN_TT_INT ||
                t->kind == QN_TT_FLOAT || qn_tpl_at_op(p, '[') || qn_tpl_at_op(p, '{');
    if (!more || qn_tpl_at_name(p, "else") || qn_tpl_at_name(p, "or") || qn_tpl_at_name(p, "and") ||
        qn_tpl_at_name(p, "if") || qn_tpl_at_name(p, "in") || qn_tpl_at_name(p, "not") ||
        qn_tpl_at_name(p, "recursive"))
        return n;
    if (qn_tpl_at_name(p, "is")) return qn_tpl_parse_fail(p, t->line, "tests cannot be chained with 'is'");
    qn_tpl_node *arg = parse_primary(p);
    if (arg) arg = qn_tpl_parse_postfix(p, arg);
    if (!arg || !qn_tpl_push_node(p, n, &cap, arg)) return NULL;
    n->n_args = n->n;
    return n;
}

qn_tpl_node *qn_tpl_parse_filters(qn_tpl_parser *p, qn_tpl_node *in)
{
    uint32_t length = 0;
    qn_tpl_node *n = parse_filter(p, in);
    while (n && qn_tpl_at_op(p, '|')) {
        p->at++;
        n = chain(p, &length) ? parse_filter(p, n) : NULL;
    }
    return n;
}

static qn_tpl_node *parse_unary(qn_tpl_parser *p, bool filters)
{
    qn_tpl_node *n;
    uint32_t length = 0;
    if (!qn_tpl_enter(p)) return NULL;
    if (qn_tpl_at_op(p, '-') || qn_tpl_at_op(p, '+')) {
        bool neg = qn_tpl_at_op(p, '-');
        n = qn_tpl_new_node(p, neg ? QN_TN_NEG : QN_TN_POS, line_of(p));
        p->at++;
        if (n && !(n->a = parse_unary(p, false))) n = NULL;
    } else {
        n = parse_primary(p);
    }
    if (n) n = qn_tpl_parse_postfix(p, n);
    while (n && filters) {
        if (qn_tpl_at_op(p, '|')) {
            p->at++;
            n = parse_filter(p, n);
        } else if (qn_tpl_at_name(p, "is")) {
            p->at++;
            n = parse_test(p, n);
        } else if (qn_tpl_at_op(p, '(')) {
            n = parse_call(p, n);
        } else {
            break;
        }
        if (n && !chain(p, &length)) n = NULL;
    }
    p->depth--;
    return n;
}

/* One level of left-binding operators: ops holds their codes, next parses the operands. */
static qn_tpl_node *parse_level(qn_tpl_parser *p, const char *ops, qn_tpl_node *(*next)(qn_tpl_parser *))
{
    uint32_t length = 0;
    qn_tpl_node *n = next(p);
    while (n && p->tok[p->at].kind == QN_TT_OP && strchr(ops, p->tok[p->at].op)) {
        char op = p->tok[p->at++].op;
        n = chain(p, &length) ? two(p, QN_TN_BINARY, op, n, next(p)) : NULL;
    }
    return n;
}

static qn_tpl_node *parse_operand(qn_tpl_parser *p)
{
    return parse_unary(p, true);
}
static qn_tpl_node *parse_power(qn_tpl_parser *p)
{
    return parse_level(p, "P", parse_operand);
}
static qn_tpl_node *parse_product(qn_tpl_parser *p)
{
    return parse_level(p, "*/F%", parse_power);
}

static qn_tpl_node *parse_concat(qn_tpl_parser *p)
{
    uint32_t cap = 0;
    qn_tpl_node *n = parse_product(p), *row = NULL;
    while (n && qn_tpl_at_op(p, '~')) {
        p->at++;
        if (!row &&
            (!(row = qn_tpl_new_node(p, QN_TN_CONCAT, n->line)) || !qn_tpl_push_node(p, row, &cap, n)))
            return NULL;
        n = parse_product(p);
        if (!n || !qn_tpl_push_node(p, row, &cap, n)) return NULL;
    }
    return n && row ? row : n;
}

static qn_tpl_node *parse_sum(qn_tpl_parser *p)
{
    return parse_level(p, "+-", parse_concat);
}

static qn_tpl_node *parse_compare(qn_tpl_parser *p)
{
    qn_tpl_node *n = parse_sum(p), *row = NULL;
    uint32_t cap = 0;
    char ops[QN_TPL_MAX_NESTING + 1];
    size_t n_ops = 0;
    while (n) {
        const qn_tpl_token *t = &p->tok[p->at];
        char op = 0;
        if (t->kind == QN_TT_OP && strchr("ENLG<>", t->op))
            op = t->op, p->at++;
        else if (qn_tpl_at_name(p, "in"))
            op = QN_OP_IN, p->at++;
        else if (qn_tpl_at_name(p, "not") && p->tok[p->at + 1].kind == QN_TT_NAME &&
                 p->tok[p->at + 1].n == 2 && !memcmp(p->tok[p->at + 1].p, "in", 2))
            op = QN_OP_NOT_IN, p->at += 2;
        if (!op) break;
        if (n_ops == QN_TPL_MAX_NESTING)
            return qn_tpl_parse_fail(p, t->line, "more than %d comparisons in a row", QN_TPL_MAX_NESTING);
        if (!row) {
            if (!(row = qn_tpl_new_node(p, QN_TN_COMPARE, n->line))) return NULL;
            row->a = n;
        }
        ops[n_ops++] = op;
        n = parse_sum(p);
        if (!n || !qn_tpl_push_node(p, row, &cap, n)) return NULL;
    }
    if (!n || !row) return n;
    row->ops = qn_tpl_intern(p->t, ops, n_ops);
    return row->ops ? row : qn_tpl_parse_fail(p, row->line, "no memory");
}

static qn_tpl_node *parse_not(qn_tpl_parser *p)
{
    if (!qn_tpl_at_name(p, "not")) return parse_compare(p);
    qn_tpl_node *n = qn_tpl_new_node(p, QN_TN_NOT, line_of(p));
    p->at++;
    if (!n || !qn_tpl_enter(p)) return NULL;
    n->a = parse_not(p);
    p->depth--;
    return n->a ? n : NULL;
}

static qn_tpl_node *parse_words(qn_tpl_parser *p, const char *word, qn_tpl_node_kind kind,
                                qn_tpl_node *(*next)(qn_tpl_parser *))
{
    uint32_t length = 0;
    qn_tpl_node *n = next(p);
    while (n && qn_tpl_at_name(p, word)) {
        p->at++;
        n = chain(p, &length) ? two(p, kind, 0, n, next(p)) : NULL;
    }
    return n;
}

static qn_tpl_node *parse_and(qn_tpl_parser *p)
{
    return parse_words(p, "and", QN_TN_AND, parse_not);
}
static qn_tpl_node *parse_or(qn_tpl_parser *p)
{
    return parse_words(p, "or", QN_TN_OR, parse_and);
}

qn_tpl_node *qn_tpl_parse_expression(qn_tpl_parser *p, bool with_condition)
{
    if (!qn_tpl_enter(p)) return NULL;
    uint32_t length = 0;
    qn_tpl_node *n = parse_or(p);
    while (n && with_condition && qn_tpl_at_name(p, "if")) {
        p->at++;
        qn_tpl_node *test = parse_or(p), *c = NULL;
        if (test && qn_tpl_at_name(p, "else")) {
            p->at++;
            if (!(c = qn_tpl_parse_expression(p, true))) return NULL;
        }
        n = chain(p, &length) ? two(p, QN_TN_IF_ELSE, 0, test, n) : NULL;
        if (n) n->c = c;
    }
    p->depth--;
    return n;
}

qn_tpl_node *qn_tpl_parse_tuple(qn_tpl_parser *p, bool with_condition)
{
    uint32_t cap = 0;
    qn_tpl_node *n = qn_tpl_parse_expression(p, with_condition), *tuple = NULL;
    while (n && qn_tpl_at_op(p, ',')) {
        p->at++;
        if (!tuple &&
            (!(tuple = qn_tpl_new_node(p, QN_TN_TUPLE, n->line)) || !qn_tpl_push_node(p, tuple, &cap, n)))
            return NULL;
        const qn_tpl_token *t = &p->tok[p->at];
        if (t->kind == QN_TT_VAR_END || t->kind == QN_TT_BLOCK_END || qn_tpl_at_op(p, ')')) break; /* (a,) */
        n = qn_tpl_parse_expression(p, with_condition);
        if (!n || !qn_tpl_push_node(p, tuple, &cap, n)) return NULL;
    }
    return n && tuple ? tuple : n;
}

/* What can be assigned to: a name, a.b where with_namespace, or a tuple of names, maybe in parentheses. */
static qn_tpl_node *parse_one_target(qn_tpl_parser *p, bool with_namespace)
{
    if (qn_tpl_at_op(p, '(')) {
        p->at++;
        if (!qn_tpl_enter(p)) return NULL;
        qn_tpl_node *n = qn_tpl_parse_target(p, false);
        p->depth--;
        return n && qn_tpl_expect_op(p, ')') ? n : NULL;
    }
    qn_tpl_node *n = qn_tpl_new_node(p, QN_TN_NAME, line_of(p));
    if (!n || !(n->name = qn_tpl_expect_name(p))) return NULL;
    if (!strcmp(n->name, "true") || !strcmp(n->name, "false") || !strcmp(n->name, "none") ||
        !strcmp(n->name, "True") || !strcmp(n->name, "False") || !strcmp(n->name, "None"))
        return qn_tpl_parse_fail(p, n->line, "cannot assign to '%s'", n->name);
    if (!with_namespace || !qn_tpl_at_op(p, '.')) return n;
    qn_tpl_node *a = qn_tpl_new_node(p, QN_TN_ATTR, n->line);
    p->at++;
    if (!a || !(a->name = qn_tpl_expect_name(p))) return NULL;
    a->a = n;
    return a;
}

qn_tpl_node *qn_tpl_parse_target(qn_tpl_parser *p, bool with_namespace)
{
    uint32_t cap = 0;
    qn_tpl_node *n = parse_one_target(p, with_namespace), *tuple = NULL;
    while (n && qn_tpl_at_op(p, ',')) {
        p->at++;
        if (!tuple &&
            (!(tuple = qn_tpl_new_node(p, QN_TN_TUPLE, n->line)) || !qn_tpl_push_node(p, tuple, &cap, n)))
            return NULL;
        if (p->tok[p->at].kind != QN_TT_NAME && !qn_tpl_at_op(p, '(')) break;
        n = parse_one_target(p, with_namespace);
        if (!n || !qn_tpl_push_node(p, tuple, &cap, n)) return NULL;
    }
    return n && tuple ? tuple : n;
}
