/* template_lex.c - cuts a template into tokens, with the white-space rules that model repositories assume:
 * one newline after a block or comment is dropped (trim_blocks), blanks between a line's start and a block or
 * comment are dropped (lstrip_blocks), `-` strips all white space on its side, `+` switches both off.
 *
 * Called once per template. Strings come out decoded; comments and raw markers are gone. */
#include <stdlib.h>
#include <string.h>

#include "text/template_int.h"

typedef struct lexer {
    qn_template *t;
    const char *s; /* the normalised source: only \n ends a line, no newline at the very end */
    size_t n, i;
    uint32_t line;
    bool line_starting; /* what was consumed last ended with a newline */
    qn_tpl_token *tok;
    size_t n_tok, cap;
    qn_status st;
    qn_error *err;
} lexer;

static bool fail(lexer *x, const char *what)
{
    if (!x->st) x->st = qn_fail(x->err, QN_CORRUPT, "chat template line %u: %s", x->line, what);
    return false;
}

static bool emit(lexer *x, qn_tpl_token_kind kind, const char *p, size_t n, char op)
{
    if (x->n_tok == x->cap) {
        size_t cap = x->cap ? x->cap * 2 : 256;
        qn_tpl_token *tok = realloc(x->tok, cap * sizeof *tok);
        if (!tok) {
            x->st = qn_fail(x->err, QN_NOMEM, "no memory for the tokens of a chat template");
            return false;
        }
        x->tok = tok;
        x->cap = cap;
    }
    x->tok[x->n_tok++] = (qn_tpl_token){.kind = kind, .line = x->line, .p = p, .n = n, .op = op};
    return true;
}

static bool at(const lexer *x, size_t i, const char *lit)
{
    size_t n = strlen(lit);
    return n <= x->n - i && memcmp(x->s + i, lit, n) == 0;
}

/* Move to `to`, counting lines. */
static void advance(lexer *x, size_t to)
{
    for (size_t i = x->i; i < to; i++) x->line += x->s[i] == '\n';
    if (to > x->i) x->line_starting = x->s[to - 1] == '\n';
    x->i = to;
}

static size_t skip_space(const lexer *x, size_t i)
{
    uint32_t cp;
    while (i < x->n) {
        size_t k = qn_tpl_char_at(x->s + i, x->n - i, &cp);
        if (!qn_tpl_is_space(cp)) break;
        i += k;
    }
    return i;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}
static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

/* The end of a tag at i, such as -%} with what it strips: position after it, or 0. newline: drop one after
 * it. */
static size_t tag_end(const lexer *x, size_t i, const char *end, bool newline, bool plus)
{
    size_t k = strlen(end);
    if (i < x->n && x->s[i] == '-' && at(x, i + 1, end)) return skip_space(x, i + 1 + k);
    if (plus && i < x->n && x->s[i] == '+' && at(x, i + 1, end)) return i + 1 + k;
    if (!at(x, i, end)) return 0;
    i += k;
    return newline && i < x->n && x->s[i] == '\n' ? i + 1 : i;
}

/* Text [x->i, tag) before a tag whose sign is '-', '+' or 0: strip, emit. */
static bool emit_data(lexer *x, size_t tag, char sign, bool variable)
{
    qn_tpl_str s = {.p = x->s + x->i, .n = tag - x->i};
    if (sign == '-') {
        s = qn_tpl_strip(&s, NULL, false, true);
    } else if (sign != '+' && !variable) {
        const char *nl = s.n ? memrchr(s.p, '\n', s.n) : NULL;
        size_t from = nl ? (size_t)(nl - s.p) + 1 : 0;
        qn_tpl_str tail = {.p = s.p + from, .n = s.n - from};
        if ((from > 0 || x->line_starting) && qn_tpl_strip(&tail, NULL, true, false).n == 0) s.n = from;
    }
    return s.n == 0 || emit(x, QN_TT_DATA, s.p, s.n, 0);
}

/* {% raw %} at tag (after its optional sign): the text up to endraw is data. false: failed; *done: it was
 * one. */
static bool lex_raw(lexer *x, size_t tag, bool *done)
{
    size_t i = tag + 2;
    char sign = i < x->n && (x->s[i] == '-' || x->s[i] == '+') ? x->s[i] : 0;
    i = skip_space(x, i + (sign != 0));
    *done = false;
    if (!at(x, i, "raw")) return true;
    i = tag_end(x, skip_space(x, i + 3), "%}", false, false);
    if (!i) return true;
    *done = true;
    if (!emit_data(x, tag, sign, false)) return false;
    advance(x, i);
    for (size_t k = i; k + 2 <= x->n; k++) {
        if (!at(x, k, "{%")) continue;
        size_t e = k + 2;
        sign = e < x->n && (x->s[e] == '-' || x->s[e] == '+') ? x->s[e] : 0;
        e = skip_space(x, e + (sign != 0));
        if (!at(x, e, "endraw")) continue;
        e = tag_end(x, skip_space(x, e + 6), "%}", true, true);
        if (!e) continue;
        if (!emit_data(x, k, sign, false)) return false;
        advance(x, e);
        return true;
    }
    return fail(x, "the raw block never ends");
}

static size_t put_utf8(char *d, uint32_t c)
{
    if (c < 0x80) return d[0] = (char)c, 1;
    if (c < 0x800) return d[0] = (char)(0xc0 | c >> 6), d[1] = (char)(0x80 | (c & 63)), 2;
    if (c < 0x10000)
        return d[0] = (char)(0xe0 | c >> 12), d[1] = (char)(0x80 | (c >> 6 & 63)),
               d[2] = (char)(0x80 | (c & 63)), 3;
    d[0] = (char)(0xf0 | c >> 18);
    d[1] = (char)(0x80 | (c >> 12 & 63));
    d[2] = (char)(0x80 | (c >> 6 & 63));
    d[3] = (char)(0x80 | (c & 63));
    return 4;
}

static int hex(char c)
{
    return is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Decode the escape at s[i] == '\\' into d; answers bytes written, moves *i behind it. SIZE_MAX: failed. */
static size_t escape(lexer *x, const char *s, size_t n, size_t *i, char *d)
{
    static const char from[] = "nrtabfv\\'\"", to[] = "\n\r\t\a\b\f\v\\'\"";
    char c = s[*i + 1];
    const char *k = memchr(from, c, sizeof from - 1);
    *i += 2;
    if (k) return d[0] = to[k - from], 1;
    if (c == '\n') return 0;
    if (c >= '0' && c <= '7') {
        uint32_t v = (uint32_t)(c - '0');
        for (int m = 0; m < 2 && *i < n && s[*i] >= '0' && s[*i] <= '7'; m++)
            v = v * 8 + (uint32_t)(s[(*i)++] - '0');
        return put_utf8(d, v);
    }
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (c == 'N') return fail(x, "characters by name (\\N{...}) are not supported"), SIZE_MAX;
    if (!digits) return d[0] = '\\', d[1] = c, 2; /* an unknown escape stays as it is */
    uint32_t v = 0;
    for (size_t m = 0; m < digits; m++) {
        int h = *i < n ? hex(s[*i]) : -1;
        if (h < 0) return fail(x, "a string holds an incomplete escape"), SIZE_MAX;
        v = v << 4 | (uint32_t)h;
        ++*i;
    }
    if (v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
        return fail(x, "a string holds an escape that is no character"), SIZE_MAX;
    return put_utf8(d, v);
}

static bool lex_string(lexer *x)
{
    char q = x->s[x->i];
    size_t e = x->i + 1;
    while (e < x->n && x->s[e] != q) e += x->s[e] == '\\' && e + 1 < x->n ? 2 : 1;
    if (e >= x->n) return fail(x, "a string never ends");
    const char *s = x->s + x->i + 1;
    size_t n = e - x->i - 1, o = 0;
    char *d =
        qn_tpl_arena_alloc(&x->t->arena, n + 4); /* an escape is never shorter than what it stands for */
    if (!d) return x->st = qn_fail(x->err, QN_NOMEM, "no memory for a chat template"), false;
    for (size_t i = 0; i < n;) {
        if (s[i] != '\\' || i + 1 >= n) {
            d[o++] = s[i++];
            continue;
        }
        size_t k = escape(x, s, n, &i, d + o);
        if (k == SIZE_MAX) return false;
        o += k;
    }
    if (!emit(x, QN_TT_STRING, d, o, 0)) return false;
    advance(x, e + 1);
    return true;
}

static bool lex_number(lexer *x)
{
    size_t i = x->i;
    bool real = false;
    if (x->s[i] == '0' && i + 1 < x->n && strchr("xXoObB", x->s[i + 1]) && x->s[i + 1]) {
        i += 2;
        while (i < x->n && is_word(x->s[i])) i++;
    } else {
        while (i < x->n && (is_digit(x->s[i]) || (x->s[i] == '_' && i + 1 < x->n && is_digit(x->s[i + 1]))))
            i++;
        if (i + 1 < x->n && x->s[i] == '.' && is_digit(x->s[i + 1])) {
            real = true;
            for (i++; i < x->n && is_digit(x->s[i]);) i++;
        }
        if (i < x->n && (x->s[i] == 'e' || x->s[i] == 'E')) {
            size_t k = i + 1;
            if (k < x->n && (x->s[k] == '+' || x->s[k] == '-')) k++;
            if (k < x->n && is_digit(x->s[k])) {
                real = true;
                for (i = k; i < x->n && is_digit(x->s[i]);) i++;
            }
        }
    }
    if (!emit(x, real ? QN_TT_FLOAT : QN_TT_INT, x->s + x->i, i - x->i, 0)) return false;
    x->i = i;
    x->line_starting = false;
    return true;
}

/* The inside of {{ }} or {% %} up to and including its end. */
static bool lex_inside(lexer *x, bool variable)
{
    static const struct {
        char text[3];
        char op;
    } two[] = {{"==", QN_OP_EQ}, {"!=", QN_OP_NE},    {"<=", QN_OP_LE},
               {">=", QN_OP_GE}, {"//", QN_OP_FLOOR}, {"**", QN_OP_POW}};
    char open[QN_TPL_MAX_NESTING];
    size_t n_open = 0;
    for (;;) {
        advance(x, skip_space(x, x->i));
        if (x->i >= x->n) return fail(x, variable ? "{{ never ends" : "{% never ends");
        if (n_open == 0) {
            size_t e = tag_end(x, x->i, variable ? "}}" : "%}", !variable, !variable);
            if (e) {
                if (!emit(x, variable ? QN_TT_VAR_END : QN_TT_BLOCK_END, NULL, 0, 0)) return false;
                advance(x, e);
                return true;
            }
        }
        char c = x->s[x->i];
        bool ok = true;
        if (c == '\'' || c == '"') {
            if (!lex_string(x)) return false;
            continue;
        }
        if (is_digit(c)) {
            if (!lex_number(x)) return false;
            continue;
        }
        if (is_word(c)) {
            size_t e = x->i;
            while (e < x->n && is_word(x->s[e])) e++;
            if (!emit(x, QN_TT_NAME, x->s + x->i, e - x->i, 0)) return false;
            x->i = e;
            x->line_starting = false;
            continue;
        }
        size_t k;
        for (k = 0; k < sizeof two / sizeof two[0]; k++)
            if (at(x, x->i, two[k].text)) break;
        if (k < sizeof two / sizeof two[0]) {
            ok = emit(x, QN_TT_OP, x->s + x->i, 2, two[k].op);
            x->i += 2;
        } else if (c && strchr("+-/*%~[](){}<>=.:|,;", c)) {
            if (strchr("([{", c)) {
                if (n_open == sizeof open) return fail(x, "brackets are nested deeper than the limit of 200");
                open[n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
            } else if (strchr(")]}", c)) {
                if (n_open == 0 || open[n_open - 1] != c)
                    return fail(x, "a bracket is closed that was not opened");
                n_open--;
            }
            ok = emit(x, QN_TT_OP, x->s + x->i, 1, c);
            x->i++;
        } else {
            return fail(x, "a character that means nothing here");
        }
        x->line_starting = false;
        if (!ok) return false;
    }
}

static bool lex_all(lexer *x)
{
    while (x->i < x->n) {
        size_t tag = x->i;
        while (tag < x->n &&
               !(x->s[tag] == '{' && tag + 1 < x->n && strchr("{%#", x->s[tag + 1]) && x->s[tag + 1]))
            tag++;
        if (tag >= x->n) return emit(x, QN_TT_DATA, x->s + x->i, x->n - x->i, 0);
        char kind = x->s[tag + 1];
        if (kind == '%') {
            bool done;
            if (!lex_raw(x, tag, &done)) return false;
            if (done) continue;
        }
        char sign = tag + 2 < x->n && (x->s[tag + 2] == '-' || x->s[tag + 2] == '+') ? x->s[tag + 2] : 0;
        if (!emit_data(x, tag, sign, kind == '{')) return false;
        advance(x, tag + 2 + (sign != 0));
        if (kind == '#') {
            size_t e = 0, i = x->i;
            while (i < x->n && !(e = tag_end(x, i, "#}", true, true))) i++;
            if (!e) return fail(x, "a comment never ends");
            advance(x, e);
            continue;
        }
        if (!emit(x, kind == '{' ? QN_TT_VAR_BEGIN : QN_TT_BLOCK_BEGIN, NULL, 0, 0) ||
            !lex_inside(x, kind == '{'))
            return false;
    }
    return true;
}

qn_status qn_tpl_lex(qn_template *t, const char *source, size_t n, qn_tpl_token **tokens, qn_error *err)
{
    lexer x = {.t = t, .line = 1, .line_starting = true, .err = err};
    *tokens = NULL;
    char *s = qn_tpl_arena_alloc(&t->arena, n + 1);
    if (!s) return qn_fail(err, QN_NOMEM, "no memory for a chat template");
    for (size_t i = 0; i < n; i++) {
        if (source[i] == '\r') {
            s[x.n++] = '\n';
            if (i + 1 < n && source[i + 1] == '\n') i++;
        } else {
            s[x.n++] = source[i];
        }
    }
    if (x.n && s[x.n - 1] == '\n') x.n--;
    x.s = s;
    if (lex_all(&x) && emit(&x, QN_TT_END, NULL, 0, 0)) {
        *tokens = x.tok;
        return QN_OK;
    }
    free(x.tok);
    return x.st;
}
