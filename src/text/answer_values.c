/* answer_values.c - the untyped text of a parameter to JSON, by the types its schema admits: JSON where it is
 * JSON, else a Python literal (models of this family were trained with True, False and None), else a string.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/answer.h"

#define MAX_DEPTH 100 /* of nested values; deeper ones become strings */

static unsigned type_bit(const char *s)
{
    static const struct {
        const char *name;
        unsigned bit;
    } table[] = {{"string", QN_TYPE_STRING},   {"integer", QN_TYPE_INTEGER}, {"number", QN_TYPE_NUMBER},
                 {"boolean", QN_TYPE_BOOLEAN}, {"null", QN_TYPE_NULL},       {"object", QN_TYPE_OBJECT},
                 {"array", QN_TYPE_ARRAY}};
    for (size_t i = 0; s && i < sizeof table / sizeof table[0]; i++)
        if (!strcmp(s, table[i].name)) return table[i].bit;
    return 0;
}

static unsigned type_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_STRING: return QN_TYPE_STRING;
    case JSON_INTEGER: return QN_TYPE_INTEGER;
    case JSON_REAL: return QN_TYPE_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE: return QN_TYPE_BOOLEAN;
    case JSON_OBJECT: return QN_TYPE_OBJECT;
    case JSON_ARRAY: return QN_TYPE_ARRAY;
    default: return QN_TYPE_NULL;
    }
}

static unsigned types_at(const json_t *schema, unsigned depth)
{
    static const char *const groups[] = {"anyOf", "oneOf", "allOf"};
    json_t *type = json_object_get(schema, "type"), *e;
    unsigned bits = 0;
    size_t i;
    if (!json_is_object(schema) || depth > MAX_DEPTH) return 0;
    if (json_is_string(type)) bits = type_bit(json_string_value(type));
    json_array_foreach(type, i, e) bits |= type_bit(json_string_value(e));
    for (size_t g = 0; g < 3 && !bits; g++)
        json_array_foreach(json_object_get(schema, groups[g]), i, e) bits |= types_at(e, depth + 1);
    if (!bits) json_array_foreach(json_object_get(schema, "enum"), i, e) bits |= type_of(e);
    if (!bits && (e = json_object_get(schema, "const"))) bits = type_of(e);
    if (bits && json_is_true(json_object_get(schema, "nullable"))) bits |= QN_TYPE_NULL;
    return bits;
}

unsigned qn_answer_types(const json_t *schema)
{
    return types_at(schema, 0);
}

bool qn_answer_escape(const char *s, size_t n, qn_buf *out)
{
    static const char special[] = "\"\\\n\r\t\b\f", letter[] = "\"\\nrtbf";
    size_t from = 0;
    for (size_t i = 0; i < n; i++) {
        const char *hit = s[i] ? strchr(special, s[i]) : NULL;
        if (!hit && (unsigned char)s[i] >= 0x20) continue;
        qn_buf_add(out, s + from, i - from);
        from = i + 1;
        if (hit)
            qn_buf_printf(out, "\\%c", letter[hit - special]);
        else
            qn_buf_printf(out, "\\u%04x", (unsigned)(unsigned char)s[i]);
    }
    return qn_buf_add(out, s + from, n - from);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(const char *s, size_t n, const char *word)
{
    if (n != strlen(word)) return false;
    for (size_t i = 0; i < n; i++)
        if ((s[i] | 32) != (word[i] | 32)) return false;
    return true;
}

/* A number as JSON spells it, from s[0..n); digits are kept as they are. Answers its length in s, or 0. */
static size_t number(const char *s, size_t n, bool *whole, qn_buf *out)
{
    size_t i = 0;
    bool plus = n && s[0] == '+';
    *whole = true;
    if (n && (s[0] == '-' || plus)) i++;
    size_t first = i;
    while (i < n && is_digit(s[i])) i++;
    size_t digits = i - first;
    if (i < n && s[i] == '.') {
        *whole = false;
        size_t k = ++i;
        while (i < n && is_digit(s[i])) i++;
        if (!digits || i == k) return 0;
    }
    if (!digits || (digits > 1 && s[first] == '0')) return 0;
    if (i < n && (s[i] == 'e' || s[i] == 'E')) {
        *whole = false;
        if (++i < n && (s[i] == '+' || s[i] == '-')) i++;
        size_t k = i;
        while (i < n && is_digit(s[i])) i++;
        if (i == k) return 0;
    }
    if (i - plus >= 512 || (!*whole && i >= 400)) return 0;
    qn_buf_add(out, s + plus, i - plus);
    return i;
}

typedef struct reader {
    const char *s;
    size_t n, i;
    qn_buf *out;
} reader;

static void skip(reader *r)
{
    while (r->i < r->n && is_space(r->s[r->i])) r->i++;
}

static int hex(char c)
{
    return is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* A string in single or double quotes. */
static bool literal_string(reader *r)
{
    char q = r->s[r->i++];
    qn_buf_byte(r->out, '"');
    for (; r->i < r->n && r->s[r->i] != q; r->i++) {
        char c = r->s[r->i];
        if (c != '\\') {
            qn_answer_escape(&c, 1, r->out);
            continue;
        }
        if (++r->i >= r->n) return false;
        c = r->s[r->i];
        if (strchr("nrtbf\\\"/", c) && c) {
            qn_buf_printf(r->out, "\\%c", c);
        } else if (c == '\'') {
            qn_buf_byte(r->out, c);
        } else if (c == 'u' ||
                   c ==
                       'x') { /* a code point below 0x10000, or half of a pair: JSON takes both as they are */
            unsigned v = 0;
            for (int k = 0; k < (c == 'u' ? 4 : 2); k++) {
                int h = ++r->i < r->n ? hex(r->s[r->i]) : -1;
                if (h < 0) return false;
                v = v << 4 | (unsigned)h;
            }
            qn_buf_printf(r->out, "\\u%04x", v);
        } else {
            return false;
        }
    }
    if (r->i >= r->n) return false;
    r->i++;
    return qn_buf_byte(r->out, '"');
}

static bool literal(reader *r, unsigned depth)
{
    skip(r);
    if (r->i >= r->n || depth > MAX_DEPTH) return false;
    char c = r->s[r->i];
    if (c == '\'' || c == '"') return literal_string(r);
    if (c == '[' || c == '(' || c == '{') {
        char end = c == '[' ? ']' : c == '(' ? ')' : '}';
        qn_buf_byte(r->out, c == '{' ? '{' : '[');
        r->i++;
        for (size_t items = 0;; items++) {
            skip(r);
            if (r->i < r->n && r->s[r->i] == end) break;
            if (items && (r->i >= r->n || r->s[r->i++] != ',')) return false;
            skip(r);
            if (items && r->i < r->n && r->s[r->i] == end) break; /* a comma at the end */
            if (items) qn_buf_str(r->out, ", ");
            if (c == '{') {
                if (r->i >= r->n || (r->s[r->i] != '\'' && r->s[r->i] != '"') || !literal_string(r))
                    return false;
                skip(r);
                if (r->i >= r->n || r->s[r->i++] != ':') return false;
                qn_buf_str(r->out, ": ");
            }
            if (!literal(r, depth + 1)) return false;
        }
        r->i++;
        return qn_buf_byte(r->out, c == '{' ? '}' : ']');
    }
    static const struct {
        const char *from, *to;
    } words[] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                 {"true", "true"}, {"false", "false"}, {"null", "null"}};
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        size_t len = strlen(words[k].from);
        if (len <= r->n - r->i && !memcmp(r->s + r->i, words[k].from, len))
            return r->i += len, qn_buf_str(r->out, words[k].to);
    }
    bool whole;
    size_t len = number(r->s + r->i, r->n - r->i, &whole, r->out);
    r->i += len;
    return len > 0;
}

/* JSON as it is, else a Python literal. false: neither; out is then as before. */
static bool structured(const char *s, size_t n, qn_buf *out)
{
    json_error_t bad;
    json_t *v = json_loadb(s, n, JSON_DECODE_ANY, &bad);
    if (v) {
        json_decref(v);
        return qn_buf_add(out, s, n);
    }
    size_t before = out->len;
    reader r = {.s = s, .n = n, .out = out};
    if (literal(&r, 0) && (skip(&r), r.i == n)) return true;
    if (out->data) out->data[out->len = before] = 0;
    return false;
}

/* An integer: digits, or a float without a fraction. */
static bool integer(const char *s, size_t n, qn_buf *out)
{
    size_t before = out->len;
    bool whole = false;
    size_t used = number(s, n, &whole, out);
    if (used && used == n && whole) return true;
    if (out->data) out->data[out->len = before] = 0;
    char buf[64];
    if (!used || used != n || n >= sizeof buf) return false;
    memcpy(buf, s, n);
    buf[n] = 0;
    double x = strtod(buf, NULL);
    return fabs(x) < 9007199254740992.0 && x == floor(x) && qn_buf_printf(out, "%.0f", x);
}

static bool real(const char *s, size_t n, qn_buf *out)
{
    size_t before = out->len;
    bool whole;
    if (number(s, n, &whole, out) == n && n) {
        char buf[512];
        size_t len = out->len - before;
        memcpy(buf, out->data + before, len);
        buf[len] = 0;
        if (isfinite(strtod(buf, NULL))) return true;
    }
    if (out->data) out->data[out->len = before] = 0;
    return false;
}

bool qn_answer_value(unsigned types, const char *s, size_t n, qn_buf *out)
{
    const char *t = s;
    size_t m = n;
    while (m && is_space(*t)) t++, m--;
    while (m && is_space(t[m - 1])) m--;
    bool text = types & QN_TYPE_STRING;
    bool null = (m == 4 && (!memcmp(t, "null", 4) || !memcmp(t, "None", 4)));
    if (null && types && (!text || (types & QN_TYPE_NULL)) && (!text || m == n))
        return qn_buf_str(out, "null");
    if ((types & QN_TYPE_BOOLEAN) && is_word(t, m, "true")) return qn_buf_str(out, "true");
    if ((types & QN_TYPE_BOOLEAN) && is_word(t, m, "false")) return qn_buf_str(out, "false");
    if ((types & QN_TYPE_INTEGER) && integer(t, m, out)) return true;
    if ((types & QN_TYPE_NUMBER) && real(t, m, out)) return true;
    /* Where strings are allowed too, only what looks like an object or array is read as one. */
    bool container = m && (*t == '{' || *t == '[' || *t == '(');
    if ((types & (QN_TYPE_OBJECT | QN_TYPE_ARRAY)) && (container || !text) && structured(t, m, out))
        return true;
    return qn_buf_byte(out, '"') && qn_answer_escape(s, n, out) && qn_buf_byte(out, '"');
}
