/* json_pull.c - the pull reader for JSON: a state machine over bytes in memory.
 *
 * States, and what each one accepts (white space is passed over in front of all of them):
 *
 *     VALUE          a value           -> after it AFTER, or DONE at the top
 *     FIRST_ITEM     a value or ]      (just after [)
 *     FIRST_KEY      a name or }       (just after {)
 *     KEY            a name            (after a comma in an object)
 *     AFTER          a comma or the end of what is open; a comma leads on to VALUE or KEY at once
 *     DONE           the end of the text
 *     FAILED         nothing
 *
 * A name is read together with its colon, so KEY leads to VALUE. */
#include "base/json_pull.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum { VALUE, FIRST_ITEM, FIRST_KEY, KEY, AFTER, DONE, FAILED };

/* Classes of bytes inside a string: 0 plain, the rest need a look. */
enum { PLAIN, QUOTE, ESCAPE, CONTROL, MULTI };
static const uint8_t string_class[256] = {
    [0 ... 0x1f] = CONTROL, ['"'] = QUOTE, ['\\'] = ESCAPE, [0x80 ... 0xff] = MULTI};

void qn_json_pull_init(qn_json_pull *p, const void *text, size_t n, uint32_t max_depth)
{
    *p = (qn_json_pull){.base = text, .size = n, .state = VALUE, .event = QN_JSON_NULL};
    p->max_depth = max_depth == 0 ? QN_JSON_DEFAULT_DEPTH
                                  : (max_depth > QN_JSON_MAX_DEPTH ? QN_JSON_MAX_DEPTH : max_depth);
    qn_buf_init(&p->unescaped, n);
}

void qn_json_pull_deinit(qn_json_pull *p)
{
    qn_buf_deinit(&p->unescaped);
    p->state = FAILED;
}

const char *qn_json_event_name(qn_json_event e)
{
    static const char *const names[] = {[QN_JSON_OBJECT_BEGIN] = "an object",
                                        [QN_JSON_OBJECT_END] = "the end of an object",
                                        [QN_JSON_ARRAY_BEGIN] = "an array",
                                        [QN_JSON_ARRAY_END] = "the end of an array",
                                        [QN_JSON_KEY] = "a name",
                                        [QN_JSON_STRING] = "a string",
                                        [QN_JSON_NUMBER] = "a number",
                                        [QN_JSON_TRUE] = "true",
                                        [QN_JSON_FALSE] = "false",
                                        [QN_JSON_NULL] = "null",
                                        [QN_JSON_DONE] = "the end of the text"};
    return (size_t)e < sizeof names / sizeof names[0] ? names[e] : "nothing known";
}

/* Fail at the byte `at`, saying what should have stood there. */
static qn_status expected(qn_json_pull *p, size_t at, const char *what, qn_error *err)
{
    p->state = FAILED;
    if (at >= p->size) return qn_fail(err, QN_CORRUPT, "byte %zu: expected %s, found the end", at, what);
    char shown[16];
    return qn_fail(err, QN_CORRUPT, "byte %zu: expected %s, found '%s'", at, what,
                   qn_printable(shown, sizeof shown, p->base + at, 1));
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* Four hexadecimal digits at p->base[at..]; false when there are not four. */
static bool hex4(const qn_json_pull *p, size_t at, uint32_t *v)
{
    if (p->size - at < 4) return false;
    *v = 0;
    for (size_t i = 0; i < 4; i++) {
        uint8_t c = p->base[at + i];
        uint32_t d;
        if (is_digit(c))
            d = c - '0';
        else if (c >= 'a' && c <= 'f')
            d = c - 'a' + 10u;
        else if (c >= 'A' && c <= 'F')
            d = c - 'A' + 10u;
        else
            return false;
        *v = *v << 4 | d;
    }
    return true;
}

/* The escape whose backslash is at *at: append what it stands for, move *at behind it. */
static qn_status read_escape(qn_json_pull *p, size_t *at, qn_error *err)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    size_t i = *at + 1;
    uint8_t c = i < p->size ? p->base[i] : 0;
    const char *hit = c ? strchr(from, c) : NULL;
    if (hit) {
        qn_buf_byte(&p->unescaped, to[hit - from]);
        *at = i + 1;
        return QN_OK;
    }
    if (c != 'u') return expected(p, i, "one of \"\\/bfnrtu after a backslash", err);
    uint32_t cp, low;
    if (!hex4(p, i + 1, &cp)) return expected(p, i + 1, "four hexadecimal digits after \\u", err);
    i += 5;
    if (cp >= 0xd800 && cp < 0xdc00) {
        bool pair = p->size - i >= 6 && p->base[i] == '\\' && p->base[i + 1] == 'u' && hex4(p, i + 2, &low) &&
                    low >= 0xdc00 && low < 0xe000;
        if (!pair) return expected(p, i, "the second half of a surrogate pair (\\uDC00 to \\uDFFF)", err);
        cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
        i += 6;
    }
    uint8_t utf8[4];
    size_t len = qn_utf8_encode(utf8, cp);
    if (len == 0) return expected(p, *at, "no second half of a surrogate pair without a first", err);
    qn_buf_add(&p->unescaped, utf8, len);
    *at = i;
    return QN_OK;
}

/* The string whose opening quote is at p->pos. */
static qn_status read_string(qn_json_pull *p, qn_error *err)
{
    const uint8_t *s = p->base;
    size_t start = p->pos + 1, i = start, size = p->size;
    bool copied = false; /* an escape was met: what lies before `start` is in p->unescaped */
    uint32_t cp;
    for (;;) {
        while (i < size && string_class[s[i]] == PLAIN) i++;
        if (i >= size) return expected(p, i, "the closing quote of a string", err);
        switch (string_class[s[i]]) {
        case MULTI: {
            size_t len = qn_utf8_decode(s + i, size - i, &cp);
            if (len == 0) return expected(p, i, "well-formed UTF-8", err);
            i += len;
            break;
        }
        case ESCAPE: {
            if (!copied) qn_buf_reset(&p->unescaped);
            copied = true;
            qn_buf_add(&p->unescaped, s + start, i - start);
            qn_status st = read_escape(p, &i, err);
            if (st) return st;
            start = i;
            break;
        }
        case CONTROL: return expected(p, i, "an escape in place of a control character", err);
        default: /* QUOTE */
            p->pos = i + 1;
            p->text = (const char *)s + start;
            p->text_len = i - start;
            if (!copied) return QN_OK;
            if (!qn_buf_add(&p->unescaped, s + start, i - start)) {
                p->state = FAILED; /* the maximum is the whole text, so only memory can be the reason */
                return qn_fail(err, QN_NOMEM, "byte %zu: no memory for a string of %zu bytes", p->at,
                               i - p->at);
            }
            p->text = p->unescaped.data;
            p->text_len = p->unescaped.len;
            return QN_OK;
        }
    }
}

static qn_status read_number(qn_json_pull *p, qn_error *err)
{
    const uint8_t *s = p->base;
    size_t i = p->pos, size = p->size;
    if (s[i] == '-') i++;
    if (i >= size || !is_digit(s[i])) return expected(p, i, "a digit", err);
    if (s[i] == '0')
        i++;
    else
        while (i < size && is_digit(s[i])) i++;
    if (i < size && s[i] == '.') {
        i++;
        if (i >= size || !is_digit(s[i])) return expected(p, i, "a digit after the point", err);
        while (i < size && is_digit(s[i])) i++;
    }
    if (i < size && (s[i] == 'e' || s[i] == 'E')) {
        i++;
        if (i < size && (s[i] == '+' || s[i] == '-')) i++;
        if (i >= size || !is_digit(s[i])) return expected(p, i, "a digit in the exponent", err);
        while (i < size && is_digit(s[i])) i++;
    }
    p->text = (const char *)s + p->pos;
    p->text_len = i - p->pos;
    p->pos = i;
    return QN_OK;
}

static qn_status read_word(qn_json_pull *p, const char *word, qn_error *err)
{
    size_t n = strlen(word);
    if (p->size - p->pos < n || memcmp(p->base + p->pos, word, n) != 0)
        return expected(p, p->pos, "a value", err);
    p->pos += n;
    return QN_OK;
}

static bool in_object(const qn_json_pull *p)
{
    uint32_t level = p->depth - 1;
    return p->is_object[level / 64] >> (level % 64) & 1;
}

static qn_status open_level(qn_json_pull *p, bool object, qn_error *err)
{
    if (p->depth >= p->max_depth) {
        p->state = FAILED;
        return qn_fail(err, QN_TOO_LARGE, "byte %zu: nested deeper than the limit of %u levels", p->pos,
                       p->max_depth);
    }
    uint64_t bit = (uint64_t)1 << (p->depth % 64);
    uint64_t *word = &p->is_object[p->depth / 64];
    *word = object ? *word | bit : *word & ~bit;
    p->depth++;
    p->pos++;
    p->state = object ? FIRST_KEY : FIRST_ITEM;
    return QN_OK;
}

static void close_level(qn_json_pull *p)
{
    p->depth--;
    p->pos++;
    p->state = p->depth ? AFTER : DONE;
}

static void skip_space(qn_json_pull *p)
{
    const uint8_t *s = p->base;
    size_t i = p->pos, size = p->size;
    while (i < size && (s[i] == ' ' || s[i] == '\n' || s[i] == '\r' || s[i] == '\t')) i++;
    p->pos = i;
}

static qn_status read_value(qn_json_pull *p, qn_json_event *e, qn_error *err)
{
    qn_status st;
    uint8_t c = p->pos < p->size ? p->base[p->pos] : 0;
    switch (c) {
    case '{': *e = QN_JSON_OBJECT_BEGIN; return open_level(p, true, err);
    case '[': *e = QN_JSON_ARRAY_BEGIN; return open_level(p, false, err);
    case '"':
        *e = QN_JSON_STRING;
        st = read_string(p, err);
        break;
    case 't':
        *e = QN_JSON_TRUE;
        st = read_word(p, "true", err);
        break;
    case 'f':
        *e = QN_JSON_FALSE;
        st = read_word(p, "false", err);
        break;
    case 'n':
        *e = QN_JSON_NULL;
        st = read_word(p, "null", err);
        break;
    default:
        if (c != '-' && !is_digit(c)) return expected(p, p->pos, "a value", err);
        *e = QN_JSON_NUMBER;
        st = read_number(p, err);
    }
    if (st) return st;
    p->state = p->depth ? AFTER : DONE;
    return QN_OK;
}

static qn_status read_key(qn_json_pull *p, qn_json_event *e, qn_error *err)
{
    if (p->pos >= p->size || p->base[p->pos] != '"') return expected(p, p->pos, "a name in quotes", err);
    qn_status st = read_string(p, err);
    if (st) return st;
    skip_space(p);
    if (p->pos >= p->size || p->base[p->pos] != ':') return expected(p, p->pos, "a colon after a name", err);
    p->pos++;
    p->state = VALUE;
    *e = QN_JSON_KEY;
    return QN_OK;
}

static qn_status advance(qn_json_pull *p, qn_json_event *e, qn_error *err)
{
    if (p->state == FAILED) return qn_fail(err, QN_CORRUPT, "byte %zu: the reader has failed before", p->pos);
    skip_space(p);
    p->text = "";
    p->text_len = 0;
    p->at = p->pos;
    uint8_t c = p->pos < p->size ? p->base[p->pos] : 0;
    if (p->state == AFTER) {
        bool object = in_object(p);
        if (c == (object ? '}' : ']')) {
            *e = object ? QN_JSON_OBJECT_END : QN_JSON_ARRAY_END;
            close_level(p);
            return QN_OK;
        }
        if (c != ',') return expected(p, p->pos, object ? "a comma or }" : "a comma or ]", err);
        p->pos++;
        p->state = object ? KEY : VALUE;
        skip_space(p);
        p->at = p->pos;
        return object ? read_key(p, e, err) : read_value(p, e, err);
    }
    switch (p->state) {
    case FIRST_KEY:
        if (c == '}') {
            *e = QN_JSON_OBJECT_END;
            close_level(p);
            return QN_OK;
        }
        return c == '"' ? read_key(p, e, err) : expected(p, p->pos, "a name in quotes or }", err);
    case FIRST_ITEM:
        if (c == ']') {
            *e = QN_JSON_ARRAY_END;
            close_level(p);
            return QN_OK;
        }
        return read_value(p, e, err);
    case DONE:
        if (p->pos < p->size) return expected(p, p->pos, "nothing after the value", err);
        *e = QN_JSON_DONE;
        return QN_OK;
    default: assert(p->state == VALUE); return read_value(p, e, err);
    }
}

qn_status qn_json_pull_next(qn_json_pull *p, qn_json_event *event, qn_error *err)
{
    qn_status st = advance(p, event, err);
    if (st == QN_OK) p->event = *event;
    return st;
}

qn_status qn_json_pull_skip(qn_json_pull *p, qn_error *err)
{
    qn_json_event e = p->event;
    if (e == QN_JSON_KEY) {
        qn_status st = qn_json_pull_next(p, &e, err);
        if (st) return st;
    }
    if (e != QN_JSON_OBJECT_BEGIN && e != QN_JSON_ARRAY_BEGIN) return QN_OK;
    for (uint32_t outside = p->depth - 1; p->depth > outside;) {
        qn_status st = qn_json_pull_next(p, &e, err);
        if (st) return st;
    }
    return QN_OK;
}

qn_status qn_json_pull_expect(qn_json_pull *p, qn_json_event want, const char *what, qn_error *err)
{
    qn_json_event e;
    qn_status st = qn_json_pull_next(p, &e, err);
    if (st) return st;
    if (e == want) return QN_OK;
    return qn_json_pull_fail(p, err, "%s must be %s, found %s", what, qn_json_event_name(want),
                             qn_json_event_name(e));
}

bool qn_json_pull_is(const qn_json_pull *p, const char *s)
{
    return strlen(s) == p->text_len && memcmp(s, p->text, p->text_len) == 0;
}

/* Digits d[0..n) as a number; false when it does not fit or something else stands there. */
static bool read_digits(const char *d, size_t n, uint64_t *v)
{
    *v = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit((uint8_t)d[i])) return false;
        if (__builtin_mul_overflow(*v, (uint64_t)10, v) ||
            __builtin_add_overflow(*v, (uint64_t)(d[i] - '0'), v))
            return false;
    }
    return n > 0;
}

bool qn_json_pull_u64(const qn_json_pull *p, uint64_t *v)
{
    return p->event == QN_JSON_NUMBER && read_digits(p->text, p->text_len, v);
}

bool qn_json_pull_i64(const qn_json_pull *p, int64_t *v)
{
    if (p->event != QN_JSON_NUMBER) return false;
    bool negative = p->text[0] == '-';
    uint64_t u;
    if (!read_digits(p->text + negative, p->text_len - negative, &u)) return false;
    if (u > (uint64_t)INT64_MAX + negative) return false;
    *v = negative ? (int64_t)(0 - u) : (int64_t)u;
    return true;
}

bool qn_json_pull_double(const qn_json_pull *p, double *v)
{
    /* strtod needs an end it can see; the text has none. 400 characters hold every sensible number. */
    char copy[400];
    if (p->event != QN_JSON_NUMBER || p->text_len >= sizeof copy) return false;
    memcpy(copy, p->text, p->text_len);
    copy[p->text_len] = 0;
    char *end;
    *v = strtod(copy, &end);
    return *end == 0 && isfinite(*v);
}

qn_status qn_json_pull_fail(const qn_json_pull *p, qn_error *err, const char *fmt, ...)
{
    char msg[sizeof((qn_error *)0)->msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    return qn_fail(err, QN_CORRUPT, "byte %zu: %.440s", p->at, msg);
}
