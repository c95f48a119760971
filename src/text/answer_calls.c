/* answer_calls.c - one tool call: its head, its parameters, its end, written out as JSON while it comes.
 *
 * Strings stream; other values wait until they are whole, because their JSON is known only then. */
#include <string.h>

#include "text/answer_int.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* White space from i: its end, or SIZE_MAX where it is over the limit. */
static size_t skip_space(const char *s, size_t n, size_t i)
{
    size_t from = i;
    while (i < n && is_space(s[i])) i++;
    return i - from > QN_ANSWER_MAX_SPACE ? SIZE_MAX : i;
}

/* White space and then the literal; YES at the end of all text too where `or_end`. */
static qn_answer_match then(const char *s, size_t n, size_t i, const char *literal, bool final, bool or_end)
{
    i = skip_space(s, n, i);
    if (i == SIZE_MAX) return QN_AM_NO;
    if (i == n && final) return or_end ? QN_AM_YES : QN_AM_NO;
    return qn_answer_starts(s + i, n - i, literal, final);
}

/* A name up to '>' at s[0..n): *len its length. */
static qn_answer_match name_at(const char *s, size_t n, size_t *len, bool final)
{
    for (size_t i = 0; i < n; i++) {
        *len = i;
        if (s[i] == '>') return i ? QN_AM_YES : QN_AM_NO;
        if ((unsigned char)s[i] < 0x20 || s[i] == '<' || i == QN_ANSWER_MAX_NAME) return QN_AM_NO;
    }
    return final ? QN_AM_NO : QN_AM_MAYBE;
}

static void arguments(qn_answer *a, const char *s, size_t n)
{
    qn_answer_emit(a, QN_ANSWER_ARGUMENTS, s, n);
}

static void begin_call(qn_answer *a, const char *name, size_t n)
{
    size_t i;
    json_t *t;
    a->state = QN_AS_PARAMS;
    a->held = 0;
    a->n_keys = 0;
    a->properties = NULL;
    qn_buf_reset(&a->keys);
    json_array_foreach(a->tools, i, t)
    {
        const json_t *f = json_object_get(t, "function"), *known = json_object_get(f, "name");
        if (json_string_length(known) == n && !memcmp(json_string_value(known), name, n))
            a->properties = json_object_get(json_object_get(f, "parameters"), "properties");
    }
    qn_answer_flush(a); /* events before this one do not belong to it */
    a->n_calls++;
    qn_answer_emit(a, QN_ANSWER_CALL, name, n);
}

qn_answer_match qn_answer_call_head(qn_answer *a, size_t at)
{
    const char *s = a->pending.data;
    size_t n = a->pending.len, i = skip_space(s, n, at), len;
    if (i == SIZE_MAX) return QN_AM_NO;
    qn_answer_match m = qn_answer_starts(s + i, n - i, "<function=", a->final);
    if (m != QN_AM_YES) return m;
    size_t name = i + 10;
    m = name_at(s + name, n - name, &len, a->final);
    if (m != QN_AM_YES) return m;
    qn_answer_match p = then(s, n, name + len + 1, "<parameter=", a->final, false),
                    f = then(s, n, name + len + 1, "</function>", a->final, false);
    if (p != QN_AM_YES && f != QN_AM_YES)
        return p == QN_AM_MAYBE || f == QN_AM_MAYBE ? QN_AM_MAYBE : QN_AM_NO;
    begin_call(a, s + name, len);
    a->pos = name + len + 1;
    return QN_AM_YES;
}

static bool seen(const qn_answer *a, const char *key, size_t n)
{
    for (size_t i = 0; i < a->keys.len; i += strlen(a->keys.data + i) + 1)
        if (strlen(a->keys.data + i) == n && !memcmp(a->keys.data + i, key, n)) return true;
    return false;
}

static void begin_value(qn_answer *a, const char *key, size_t n)
{
    a->state = QN_AS_VALUE;
    a->begun = false;
    a->nest = 0;
    qn_buf_reset(&a->value);
    if (a->n_keys == QN_ANSWER_MAX_PARAMETERS || seen(a, key, n)) {
        a->mode = QN_AV_DROPPED;
        return;
    }
    a->types = qn_answer_types(json_object_getn(a->properties, key, n));
    a->mode = a->types == 0 || a->types == QN_TYPE_STRING   ? QN_AV_STRING
              : a->types == (QN_TYPE_STRING | QN_TYPE_NULL) ? QN_AV_NULLABLE
                                                            : QN_AV_TYPED;
    arguments(a, a->n_keys ? ", \"" : "{\"", a->n_keys ? 3 : 2);
    a->n_keys++;
    a->out_kind = QN_ANSWER_ARGUMENTS;
    qn_answer_escape(key, n, &a->out);
    arguments(a, "\": ", 3);
    if (a->mode == QN_AV_STRING) arguments(a, "\"", 1);
    qn_buf_add(&a->keys, key, n);
    qn_buf_byte(&a->keys, 0);
}

/* Go on as a string with what was kept back. */
static void become_string(qn_answer *a)
{
    a->mode = QN_AV_STRING;
    arguments(a, "\"", 1);
    qn_answer_escape(a->value.data ? a->value.data : "", a->value.len, &a->out);
    qn_buf_reset(&a->value);
}

static void value_text(qn_answer *a, const char *s, size_t n)
{
    a->line_start = false;
    if (a->mode == QN_AV_DROPPED) return;
    if (a->mode != QN_AV_STRING) {
        qn_buf_add(&a->value, s, n);
        if (a->mode == QN_AV_TYPED && a->value.len <= QN_ANSWER_MAX_VALUE) return;
        if (a->mode == QN_AV_NULLABLE &&
            (!strncmp("null", a->value.data, a->value.len) || !strncmp("None", a->value.data, a->value.len)))
            return;
        become_string(a);
        return;
    }
    a->out_kind = QN_ANSWER_ARGUMENTS; /* nothing else was emitted since the key */
    qn_answer_escape(s, n, &a->out);
}

static void end_value(qn_answer *a)
{
    a->state = QN_AS_PARAMS;
    if (a->mode == QN_AV_STRING) arguments(a, "\"", 1);
    if (a->mode != QN_AV_TYPED && a->mode != QN_AV_NULLABLE) return;
    a->out_kind = QN_ANSWER_ARGUMENTS;
    qn_answer_value(a->types, a->value.data ? a->value.data : "", a->value.len, &a->out);
}

static void end_arguments(qn_answer *a)
{
    arguments(a, a->n_keys ? "}" : "{}", a->n_keys ? 1 : 2);
    a->state = QN_AS_AFTER_FUNCTION;
}

/* Between parameters. */
static bool params_step(qn_answer *a, const char *s, size_t n)
{
    size_t len;
    if (*s != '<') return a->pos++, true;
    qn_answer_match m = qn_answer_starts(s, n, "<parameter=", a->final);
    if (m == QN_AM_YES) {
        m = name_at(s + 11, n - 11, &len, a->final);
        if (m == QN_AM_YES) {
            begin_value(a, s + 11, len);
            a->pos += 11 + len + 1;
            return true;
        }
    }
    if (m == QN_AM_MAYBE) return false;
    m = qn_answer_starts(s, n, "</function>", a->final);
    if (m == QN_AM_MAYBE) return false;
    if (m == QN_AM_YES) return end_arguments(a), a->pos += 11, true;
    qn_answer_match close = qn_answer_starts(s, n, "</tool_call>", a->final),
                    open = qn_answer_starts(s, n, "<tool_call>", a->final);
    if (close == QN_AM_MAYBE || open == QN_AM_MAYBE) return false;
    if (close == QN_AM_YES || open == QN_AM_YES) return end_arguments(a), true;
    a->pos++;
    return true;
}

static bool after_function_step(qn_answer *a, const char *s, size_t n)
{
    if (is_space(*s)) return a->pos++, true;
    qn_answer_match m = qn_answer_starts(s, n, "</tool_call>", a->final);
    if (m == QN_AM_MAYBE) return false;
    if (m == QN_AM_YES) a->pos += 12;
    a->state = QN_AS_AFTER_CALL;
    return true;
}

typedef enum tag { TEXT, WAIT, END_VALUE, END_HERE, QUOTE, UNQUOTE } tag;

/* Whether <parameter=... at s names a parameter of the tool. */
static qn_answer_match known_parameter(const qn_answer *a, const char *s, size_t n)
{
    const char *key;
    json_t *unused, *properties = (json_t *)(uintptr_t)a->properties;
    qn_answer_match best = QN_AM_NO;
    json_object_foreach(properties, key, unused)
    {
        size_t len = strlen(key), k = n < len ? n : len;
        (void)unused;
        if (memcmp(s, key, k)) continue;
        if (n > len && s[len] == '>') return QN_AM_YES;
        if (n <= len && !a->final) best = QN_AM_MAYBE;
    }
    return best;
}

/* What stands at a line start inside a value. */
static tag line_tag(const qn_answer *a, const char *s, size_t n)
{
    bool final = a->final;
    qn_answer_match open = qn_answer_starts(s, n, "<tool_call>", final),
                    close = qn_answer_starts(s, n, "</tool_call>", final);
    if (open == QN_AM_YES) open = then(s, n, 11, "<function=", final, false);
    if (open == QN_AM_YES) return QUOTE;
    if (a->nest)
        return close == QN_AM_YES ? UNQUOTE : open == QN_AM_MAYBE || close == QN_AM_MAYBE ? WAIT : TEXT;
    qn_answer_match end = qn_answer_starts(s, n, "</parameter>", final);
    if (end == QN_AM_YES) return END_VALUE;
    qn_answer_match next = qn_answer_starts(s, n, "<parameter=", final),
                    function = qn_answer_starts(s, n, "</function>", final);
    if (next == QN_AM_YES) next = known_parameter(a, s + 11, n - 11);
    if (function == QN_AM_YES) function = then(s, n, 11, "</tool_call>", final, true);
    if (close == QN_AM_YES) { /* only as the very last line */
        size_t i = skip_space(s, n, 12);
        close = i != n ? QN_AM_NO : final ? QN_AM_YES : QN_AM_MAYBE;
    }
    if (next == QN_AM_YES || function == QN_AM_YES || close == QN_AM_YES) return END_HERE;
    bool wait = open == QN_AM_MAYBE || end == QN_AM_MAYBE || next == QN_AM_MAYBE || function == QN_AM_MAYBE ||
                close == QN_AM_MAYBE;
    return wait ? WAIT : TEXT;
}

/* </parameter> within a line: it ends the value if a tag of the call follows, in another line unless this is
 * the first. */
static tag inner_tag(const qn_answer *a, const char *s, size_t n)
{
    if (a->nest) return TEXT;
    qn_answer_match end = qn_answer_starts(s, n, "</parameter>", a->final);
    if (end != QN_AM_YES) return end == QN_AM_MAYBE ? WAIT : TEXT;
    size_t i = skip_space(s, n, 12);
    if (i == SIZE_MAX) return TEXT;
    bool newline = memchr(s + 12, '\n', i - 12) != NULL;
    if (i == n && !a->final) return WAIT;
    if (i < n && !newline && !a->first_line) return TEXT;
    qn_answer_match next = qn_answer_starts(s + i, n - i, "<parameter=", a->final),
                    function = qn_answer_starts(s + i, n - i, "</function>", a->final);
    if (function == QN_AM_YES) function = then(s, n, i + 11, "</tool_call>", a->final, true);
    if (next == QN_AM_YES || function == QN_AM_YES || (i == n && a->final)) return END_VALUE;
    return next == QN_AM_MAYBE || function == QN_AM_MAYBE ? WAIT : TEXT;
}

static bool value_step(qn_answer *a, const char *s, size_t n)
{
    if (!a->begun) {
        a->begun = a->line_start = true;
        a->first_line = *s != '\n';
        if (*s == '\n') a->pos++;
        return true;
    }
    size_t skip = *s == '\n'; /* one newline before a tag is not part of the value */
    if (skip == n && !a->final) return false;
    tag t = TEXT;
    if (skip || (*s == '<' && a->line_start)) t = line_tag(a, s + skip, n - skip);
    if (t == TEXT && *s == '<') t = inner_tag(a, s, n);
    switch (t) {
    case WAIT: return false;
    case END_VALUE:
        end_value(a);
        a->pos += skip + 12;
        return true;
    case END_HERE:
        end_value(a);
        a->pos += skip;
        return true;
    case QUOTE:
    case UNQUOTE:
        a->nest += t == QUOTE ? 1u : 0u;
        a->nest -= t == UNQUOTE ? 1u : 0u;
        value_text(a, s, skip + (t == QUOTE ? 11 : 12));
        a->pos += skip + (t == QUOTE ? 11 : 12);
        return true;
    default: break;
    }
    if (skip) a->first_line = false;
    size_t k = 1;
    while (k < n && s[k] != '\n' && s[k] != '<') k++;
    value_text(a, s, k);
    a->pos += k;
    return true;
}

bool qn_answer_call_step(qn_answer *a)
{
    const char *s = a->pending.data + a->pos;
    size_t n = a->pending.len - a->pos;
    if (a->state == QN_AS_PARAMS) return params_step(a, s, n);
    if (a->state == QN_AS_VALUE) return value_step(a, s, n);
    return after_function_step(a, s, n);
}

void qn_answer_call_close(qn_answer *a)
{
    if (a->state == QN_AS_VALUE) end_value(a);
    if (a->state == QN_AS_PARAMS) end_arguments(a);
    if (a->state == QN_AS_AFTER_FUNCTION) a->state = QN_AS_AFTER_CALL;
}
