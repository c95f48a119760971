/* template_parse.c - the statements of a template, and the functions that make and destroy one.
 *
 * Recursive descent over the tokens; the depth is counted so that no template can use up the stack.
 * Expressions are in template_expr.c. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "text/template_int.h"

struct qn_tpl_name {
    qn_tpl_name *next;
    size_t n;
    char text[];
};

static size_t hash(const char *p, size_t n)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ (uint8_t)p[i]) * 16777619u;
    return (h ^ h >> 8 ^ h >> 16) & 255;
}

const char *qn_tpl_find_name(const qn_template *t, const char *p, size_t n)
{
    for (qn_tpl_name *e = t->names[hash(p, n)]; e; e = e->next)
        if (e->n == n && memcmp(e->text, p, n) == 0) return e->text;
    return NULL;
}

const char *qn_tpl_intern(qn_template *t, const char *p, size_t n)
{
    const char *known = qn_tpl_find_name(t, p, n);
    if (known) return known;
    qn_tpl_name *e = qn_tpl_arena_alloc(&t->arena, sizeof *e + n + 1);
    if (!e) return NULL;
    memcpy(e->text, p, n);
    e->text[n] = 0;
    e->n = n;
    size_t h = hash(p, n);
    e->next = t->names[h];
    t->names[h] = e;
    return e->text;
}

qn_tpl_node *qn_tpl_parse_fail(qn_tpl_parser *p, uint32_t line, const char *fmt, ...)
{
    if (p->st) return NULL;
    char what[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    p->st = qn_fail(p->err, QN_CORRUPT, "chat template line %u: %s", line, what);
    return NULL;
}

static void *no_memory(qn_tpl_parser *p)
{
    if (!p->st) p->st = qn_fail(p->err, QN_NOMEM, "no memory for a chat template");
    return NULL;
}

qn_tpl_node *qn_tpl_new_node(qn_tpl_parser *p, qn_tpl_node_kind kind, uint32_t line)
{
    qn_tpl_node *n = qn_tpl_arena_alloc(&p->t->arena, sizeof *n);
    if (!n) return no_memory(p);
    *n = (qn_tpl_node){.kind = kind, .line = line};
    return n;
}

bool qn_tpl_push_node(qn_tpl_parser *p, qn_tpl_node *owner, uint32_t *cap, qn_tpl_node *n)
{
    if (owner->n == *cap) {
        uint32_t c = *cap ? *cap * 2 : 4;
        qn_tpl_node **list = qn_tpl_arena_alloc(&p->t->arena, c * sizeof *list);
        if (!list) return no_memory(p), false;
        if (owner->n) memcpy(list, owner->list, owner->n * sizeof *list);
        owner->list = list;
        *cap = c;
    }
    owner->list[owner->n++] = n;
    return true;
}

bool qn_tpl_enter(qn_tpl_parser *p)
{
    if (++p->depth <= QN_TPL_MAX_NESTING) return true;
    qn_tpl_parse_fail(p, p->tok[p->at].line, "nested deeper than the limit of %d", QN_TPL_MAX_NESTING);
    return false;
}

bool qn_tpl_at_op(const qn_tpl_parser *p, char op)
{
    return p->tok[p->at].kind == QN_TT_OP && p->tok[p->at].op == op;
}

bool qn_tpl_at_name(const qn_tpl_parser *p, const char *name)
{
    const qn_tpl_token *t = &p->tok[p->at];
    return t->kind == QN_TT_NAME && t->n == strlen(name) && memcmp(t->p, name, t->n) == 0;
}

bool qn_tpl_expect_op(qn_tpl_parser *p, char op)
{
    if (!qn_tpl_at_op(p, op)) return qn_tpl_parse_fail(p, p->tok[p->at].line, "expected '%c'", op), false;
    p->at++;
    return true;
}

bool qn_tpl_expect_end(qn_tpl_parser *p, qn_tpl_token_kind end)
{
    if (p->tok[p->at].kind != end)
        return qn_tpl_parse_fail(p, p->tok[p->at].line, "expected %s", end == QN_TT_VAR_END ? "}}" : "%}"),
               false;
    p->at++;
    return true;
}

const char *qn_tpl_expect_name(qn_tpl_parser *p)
{
    const qn_tpl_token *t = &p->tok[p->at];
    if (t->kind != QN_TT_NAME) return qn_tpl_parse_fail(p, t->line, "expected a name"), NULL;
    p->at++;
    const char *name = qn_tpl_intern(p->t, t->p, t->n);
    return name ? name : no_memory(p);
}

static qn_tpl_node *parse_body(qn_tpl_parser *p, const char *const *ends, const char **end);

/* A body up to one tag, whose %} is consumed. */
static qn_tpl_node *body_until(qn_tpl_parser *p, const char *end)
{
    const char *ends[] = {end, NULL}, *found;
    qn_tpl_node *b = parse_body(p, ends, &found);
    return b && qn_tpl_expect_end(p, QN_TT_BLOCK_END) ? b : NULL;
}

static qn_tpl_node *parse_if(qn_tpl_parser *p, uint32_t line)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    qn_tpl_node *n = qn_tpl_new_node(p, QN_TN_IF, line);
    uint32_t cap = 0;
    const char *end = "elif";
    while (n && strcmp(end, "endif")) {
        qn_tpl_node *cond = NULL;
        if (!strcmp(end, "elif") && !(cond = qn_tpl_parse_tuple(p, false))) return NULL;
        bool was_else = !cond;
        if (!qn_tpl_expect_end(p, QN_TT_BLOCK_END)) return NULL;
        qn_tpl_node *body = parse_body(p, was_else ? ends + 2 : ends, &end);
        if (!body || !qn_tpl_push_node(p, n, &cap, cond) || !qn_tpl_push_node(p, n, &cap, body)) return NULL;
    }
    return n && qn_tpl_expect_end(p, QN_TT_BLOCK_END) ? n : NULL;
}

static qn_tpl_node *parse_for(qn_tpl_parser *p, uint32_t line)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    qn_tpl_node *n = qn_tpl_new_node(p, QN_TN_FOR, line), *other = NULL;
    const char *end;
    uint32_t cap = 0;
    if (!n || !(n->a = qn_tpl_parse_target(p, false))) return NULL;
    if (!qn_tpl_at_name(p, "in"))
        return qn_tpl_parse_fail(p, line, "expected 'in' after the names of a for block");
    p->at++;
    if (!(n->b = qn_tpl_parse_tuple(p, false))) return NULL;
    if (qn_tpl_at_name(p, "if")) {
        p->at++;
        if (!(n->c = qn_tpl_parse_expression(p, true))) return NULL;
    }
    if (qn_tpl_at_name(p, "recursive")) p->at++, n->flag = true;
    if (!qn_tpl_expect_end(p, QN_TT_BLOCK_END)) return NULL;
    p->loops++;
    qn_tpl_node *body = parse_body(p, ends, &end);
    p->loops--;
    if (!body || !qn_tpl_expect_end(p, QN_TT_BLOCK_END)) return NULL;
    if (!strcmp(end, "else") && !(other = body_until(p, "endfor"))) return NULL;
    return qn_tpl_push_node(p, n, &cap, body) && qn_tpl_push_node(p, n, &cap, other) ? n : NULL;
}

static qn_tpl_node *parse_set(qn_tpl_parser *p, uint32_t line)
{
    qn_tpl_node *n = qn_tpl_new_node(p, QN_TN_SET, line);
    if (!n || !(n->a = qn_tpl_parse_target(p, true))) return NULL;
    if (qn_tpl_at_op(p, '=')) {
        p->at++;
        n->b = qn_tpl_parse_tuple(p, true);
        return n->b && qn_tpl_expect_end(p, QN_TT_BLOCK_END) ? n : NULL;
    }
    n->kind = QN_TN_SET_BLOCK;
    if (qn_tpl_at_op(p, '|')) {
        p->at++;
        qn_tpl_node *in = qn_tpl_new_node(p, QN_TN_BLOCK_VALUE, line);
        if (!in || !(n->c = qn_tpl_parse_filters(p, in))) return NULL;
    }
    if (!qn_tpl_expect_end(p, QN_TT_BLOCK_END)) return NULL;
    n->b = body_until(p, "endset");
    return n->b ? n : NULL;
}

/* (name, name=default, ...) into m's list. */
static bool parse_parameters(qn_tpl_parser *p, qn_tpl_node *m)
{
    uint32_t cap = 0;
    if (!qn_tpl_expect_op(p, '(')) return false;
    while (!qn_tpl_at_op(p, ')')) {
        if (m->n && !qn_tpl_expect_op(p, ',')) return false;
        if (qn_tpl_at_op(p, ')')) break;
        qn_tpl_node *name = qn_tpl_new_node(p, QN_TN_NAME, p->tok[p->at].line), *value = NULL;
        if (!name || !(name->name = qn_tpl_expect_name(p))) return false;
        if (qn_tpl_at_op(p, '=')) {
            p->at++;
            if (!(value = qn_tpl_parse_expression(p, true))) return false;
        }
        if (!qn_tpl_push_node(p, m, &cap, name) || !qn_tpl_push_node(p, m, &cap, value)) return false;
    }
    return qn_tpl_expect_op(p, ')');
}

/* The rest of a macro: body up to `end`. The names varargs and kwargs inside it say that it takes more. */
static qn_tpl_node *macro_body(qn_tpl_parser *p, qn_tpl_node *m, const char *end)
{
    qn_tpl_node *outer = p->macro;
    uint32_t loops = p->loops;
    p->macro = m;
    p->loops = 0;
    m->b = body_until(p, end);
    p->macro = outer;
    p->loops = loops;
    return m->b ? m : NULL;
}

static qn_tpl_node *parse_macro(qn_tpl_parser *p, uint32_t line)
{
    qn_tpl_node *m = qn_tpl_new_node(p, QN_TN_MACRO, line);
    if (!m || !(m->name = qn_tpl_expect_name(p)) || !parse_parameters(p, m) ||
        !qn_tpl_expect_end(p, QN_TT_BLOCK_END))
        return NULL;
    return macro_body(p, m, "endmacro");
}

static qn_tpl_node *parse_call(qn_tpl_parser *p, uint32_t line)
{
    qn_tpl_node *n = qn_tpl_new_node(p, QN_TN_CALL_BLOCK, line), *m = qn_tpl_new_node(p, QN_TN_MACRO, line);
    if (!n || !m || !(m->name = qn_tpl_intern(p->t, "caller", 6))) return NULL;
    if (qn_tpl_at_op(p, '(') && !parse_parameters(p, m)) return NULL;
    if (!(n->a = qn_tpl_parse_expression(p, true))) return NULL;
    if (n->a->kind != QN_TN_CALL) return qn_tpl_parse_fail(p, line, "a call block needs a call");
    if (!qn_tpl_expect_end(p, QN_TT_BLOCK_END)) return NULL;
    n->b = macro_body(p, m, "endcall");
    return n->b ? n : NULL;
}

static qn_tpl_node *parse_filter_block(qn_tpl_parser *p, uint32_t line)
{
    qn_tpl_node *n = qn_tpl_new_node(p, QN_TN_FILTER_BLOCK, line),
                *in = qn_tpl_new_node(p, QN_TN_BLOCK_VALUE, line);
    if (!n || !in || !(n->a = qn_tpl_parse_filters(p, in)) || !qn_tpl_expect_end(p, QN_TT_BLOCK_END))
        return NULL;
    n->b = body_until(p, "endfilter");
    return n->b ? n : NULL;
}

static qn_tpl_node *parse_with(qn_tpl_parser *p, uint32_t line)
{
    qn_tpl_node *n = qn_tpl_new_node(p, QN_TN_WITH, line);
    uint32_t cap = 0;
    if (!n) return NULL;
    while (p->tok[p->at].kind != QN_TT_BLOCK_END) {
        if (n->n && !qn_tpl_expect_op(p, ',')) return NULL;
        qn_tpl_node *target = qn_tpl_parse_target(p, false), *value = NULL;
        if (!target || !qn_tpl_expect_op(p, '=') || !(value = qn_tpl_parse_expression(p, true))) return NULL;
        if (!qn_tpl_push_node(p, n, &cap, target) || !qn_tpl_push_node(p, n, &cap, value)) return NULL;
    }
    p->at++;
    n->b = body_until(p, "endwith");
    return n->b ? n : NULL;
}

/* Training marks the model's own words with this block; a prompt ignores it, but it is a scope of its own. */
static qn_tpl_node *parse_generation(qn_tpl_parser *p, uint32_t line)
{
    qn_tpl_node *n = qn_tpl_new_node(p, QN_TN_SCOPE, line);
    if (!n || !qn_tpl_expect_end(p, QN_TT_BLOCK_END)) return NULL;
    uint32_t loops = p->loops;
    p->loops = 0;
    n->b = body_until(p, "endgeneration");
    p->loops = loops;
    return n->b ? n : NULL;
}

static qn_tpl_node *parse_jump(qn_tpl_parser *p, uint32_t line, qn_tpl_node_kind kind)
{
    if (!p->loops)
        return qn_tpl_parse_fail(p, line, "%s outside of a for block",
                                 kind == QN_TN_BREAK ? "break" : "continue");
    qn_tpl_node *n = qn_tpl_new_node(p, kind, line);
    return n && qn_tpl_expect_end(p, QN_TT_BLOCK_END) ? n : NULL;
}

/* A statement whose name has just been read. */
static qn_tpl_node *parse_statement(qn_tpl_parser *p, const qn_tpl_token *t)
{
    static const struct {
        const char *name;
        qn_tpl_node *(*parse)(qn_tpl_parser *, uint32_t);
    } tags[] = {{"if", parse_if},     {"for", parse_for},
                {"set", parse_set},   {"macro", parse_macro},
                {"call", parse_call}, {"filter", parse_filter_block},
                {"with", parse_with}, {"generation", parse_generation}};
    static const char *const refused[] = {"include",    "import", "from",  "extends", "block",
                                          "autoescape", "do",     "trans", "debug"};
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
        if (t->n == strlen(tags[i].name) && !memcmp(t->p, tags[i].name, t->n))
            return tags[i].parse(p, t->line);
    if (t->n == 5 && !memcmp(t->p, "break", 5)) return parse_jump(p, t->line, QN_TN_BREAK);
    if (t->n == 8 && !memcmp(t->p, "continue", 8)) return parse_jump(p, t->line, QN_TN_CONTINUE);
    char name[40];
    qn_printable(name, sizeof name, t->p, t->n);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (!strcmp(name, refused[i]))
            return qn_tpl_parse_fail(p, t->line, "the block '%s' is not supported in a chat template", name);
    return qn_tpl_parse_fail(p, t->line, "unknown or unexpected block '%s'", name);
}

/* Statements up to one of `ends` (NULL-terminated; NULL: the end of the template). The tag's name is
 * consumed. */
static qn_tpl_node *parse_body(qn_tpl_parser *p, const char *const *ends, const char **end)
{
    qn_tpl_node *seq = qn_tpl_new_node(p, QN_TN_SEQUENCE, p->tok[p->at].line);
    uint32_t cap = 0;
    if (!seq || !qn_tpl_enter(p)) return NULL;
    for (;;) {
        const qn_tpl_token *t = &p->tok[p->at];
        qn_tpl_node *n = NULL;
        if (t->kind == QN_TT_END) {
            if (!ends) break;
            while (ends[1]) ends++; /* the last one closes the block */
            return qn_tpl_parse_fail(p, t->line, "the template ends, but '%s' is missing", ends[0]);
        }
        p->at++;
        if (t->kind == QN_TT_DATA) {
            if ((n = qn_tpl_new_node(p, QN_TN_TEXT, t->line)))
                n->value = QN_TV_OF_STR(((qn_tpl_str){.p = t->p, .n = t->n, .all = 1}));
        } else if (t->kind == QN_TT_VAR_BEGIN) {
            if ((n = qn_tpl_new_node(p, QN_TN_PRINT, t->line)) &&
                (!(n->a = qn_tpl_parse_tuple(p, true)) || !qn_tpl_expect_end(p, QN_TT_VAR_END)))
                n = NULL;
        } else { /* QN_TT_BLOCK_BEGIN: the lexer gives nothing else here */
            t = &p->tok[p->at];
            if (t->kind != QN_TT_NAME) return qn_tpl_parse_fail(p, t->line, "a block without a name");
            for (size_t i = 0; ends && ends[i]; i++) {
                if (!qn_tpl_at_name(p, ends[i])) continue;
                p->at++;
                *end = ends[i];
                p->depth--;
                return seq;
            }
            p->at++;
            n = parse_statement(p, t);
        }
        if (!n || !qn_tpl_push_node(p, seq, &cap, n)) return NULL;
    }
    p->depth--;
    return seq;
}

/* Template text must be UTF-8: every string operation relies on it. */
static qn_status check_utf8(const char *s, size_t n, qn_error *err)
{
    uint32_t line = 1;
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t cp;
        utf8proc_ssize_t k = utf8proc_iterate((const uint8_t *)s + i, (utf8proc_ssize_t)(n - i), &cp);
        if (k <= 0) return qn_fail(err, QN_CORRUPT, "chat template line %u: not UTF-8", line);
        line += cp == '\n';
        i += (size_t)k;
    }
    return QN_OK;
}

qn_status qn_template_parse(qn_template **out, const char *source, size_t n, qn_error *err)
{
    qn_tpl_token *tokens = NULL;
    const char *end;
    *out = NULL;
    if (n > QN_TPL_MAX_SOURCE)
        return qn_fail(err, QN_TOO_LARGE, "a chat template of %zu bytes is over the limit of %zu", n,
                       QN_TPL_MAX_SOURCE);
    qn_status st = check_utf8(source, n, err);
    if (st) return st;
    qn_template *t = calloc(1, sizeof *t);
    if (!t) return qn_fail(err, QN_NOMEM, "no memory for a chat template");
    t->arena.max_bytes = QN_TPL_MAX_VALUES;
    st = qn_tpl_lex(t, source, n, &tokens, err);
    if (st) goto done;
    qn_tpl_parser p = {.t = t, .tok = tokens, .err = err};
    t->root = parse_body(&p, NULL, &end);
    st = t->root ? QN_OK : p.st ? p.st : qn_fail(err, QN_NOMEM, "no memory for a chat template");
    if (st) goto done;
    *out = t;
    t = NULL;
done:
    free(tokens);
    qn_template_destroy(t);
    return st;
}

void qn_template_destroy(qn_template *t)
{
    if (!t) return;
    qn_tpl_arena_deinit(&t->arena);
    free(t);
}
