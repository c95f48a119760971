/* pretok.c - the scanner that takes the same pieces as the regular expressions of the supported tokenizers.
 *
 * The alternatives of the expression, in the order in which they are tried (word = letters, and marks where
 * the row says so; other = neither white space, word nor number):
 *
 *     1  an apostrophe with s, t, m, d, re, ve or ll, in any case
 *     2  a run of word characters, with at most one character in front that is no CR, LF, letter or number
 *     3  one number character
 *     4  a run of others, with at most one U+0020 in front and all CR and LF behind
 *     5  white space up to the last CR or LF of its run
 *     6  white space but for the last character, which attaches to what follows; all of it at the end of the
 * text 7  the single white-space character that is left
 *
 * Classes come from utf8proc's general categories; ASCII has a table of its own, since most text is ASCII. */
#include "text/pretok.h"

#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

static const qn_pretok rows[] = {
    {"qwen35",
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*"
     "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     true},
};
#define N_ROWS (sizeof rows / sizeof rows[0])

const qn_pretok *qn_pretok_by_pattern(const char *pattern, size_t n)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (strlen(rows[i].pattern) == n && memcmp(rows[i].pattern, pattern, n) == 0) return &rows[i];
    return NULL;
}

const qn_pretok *qn_pretok_by_name(const char *name, size_t n)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (strlen(rows[i].name) == n && memcmp(rows[i].name, name, n) == 0) return &rows[i];
    return NULL;
}

typedef enum { OTHER, LETTER, MARK, NUMBER, SPACE, NEWLINE /* CR and LF */ } char_class;

static const uint8_t ascii_class[128] = {
    ['\t'] = SPACE, ['\n'] = NEWLINE,       ['\v'] = SPACE,         ['\f'] = SPACE,         ['\r'] = NEWLINE,
    [' '] = SPACE,  ['0' ... '9'] = NUMBER, ['A' ... 'Z'] = LETTER, ['a' ... 'z'] = LETTER,
};

/* White_Space beyond ASCII. Not U+180E, U+200B or U+FEFF, and not by category: U+0085 is a control character.
 */
static bool is_wide_space(uint32_t cp)
{
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 ||
           cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

static char_class wide_class(uint32_t cp)
{
    if (is_wide_space(cp)) return SPACE;
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return LETTER;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return MARK;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return NUMBER;
    default: return OTHER;
    }
}

/* The class of the character at `at` (< n) and, in *next, where the one after it begins. */
static char_class class_at(const uint8_t *s, size_t n, size_t at, size_t *next)
{
    if (s[at] < 0x80) {
        *next = at + 1;
        return ascii_class[s[at]];
    }
    uint32_t cp = 0;
    size_t len = qn_utf8_decode(s + at, n - at, &cp);
    *next = at + (len ? len : 1); /* len is 0 only if the caller broke its promise; still move on */
    return wide_class(cp);
}

static bool is_word(const qn_pretok *r, char_class c)
{
    return c == LETTER || (c == MARK && r->marks_in_words);
}
static bool is_other(const qn_pretok *r, char_class c)
{
    return c == OTHER || (c == MARK && !r->marks_in_words);
}

static size_t end_of_word(const qn_pretok *r, const uint8_t *s, size_t n, size_t at)
{
    size_t next;
    while (at < n && is_word(r, class_at(s, n, at, &next))) at = next;
    return at;
}

/* Rule 1 at an apostrophe: the end, or `at` when it does not apply. */
static size_t end_of_contraction(const uint8_t *s, size_t n, size_t at)
{
    if (n - at < 2) return at;
    uint8_t a = s[at + 1] | 0x20, b = n - at > 2 ? s[at + 2] | 0x20 : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return at + 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return at + 3;
    /* U+017F, the long s, folds to s, and the reference's expression engine takes it. */
    if (n - at > 2 && s[at + 1] == 0xc5 && s[at + 2] == 0xbf) return at + 3;
    return at;
}

/* Rules 5 to 7 at white space. */
static size_t end_of_space(const uint8_t *s, size_t n, size_t at)
{
    size_t end = at, last = at, after_newline = 0, next;
    while (end < n) {
        char_class c = class_at(s, n, end, &next);
        if (c != SPACE && c != NEWLINE) break;
        if (c == NEWLINE) after_newline = next;
        last = end;
        end = next;
    }
    if (after_newline) return after_newline;
    return end == n || last == at ? end : last;
}

size_t qn_pretok_next(const qn_pretok *r, const uint8_t *s, size_t n, size_t at)
{
    size_t next, after;
    if (s[at] == '\'') {
        size_t end = end_of_contraction(s, n, at);
        if (end > at) return end;
    }
    char_class c = class_at(s, n, at, &next);
    if (is_word(r, c)) return end_of_word(r, s, n, next);
    char_class c1 = next < n ? class_at(s, n, next, &after) : NEWLINE;
    if (next < n && c != NEWLINE && c != LETTER && c != NUMBER && is_word(r, c1))
        return end_of_word(r, s, n, after);
    if (c == NUMBER) return next;
    size_t end = at;
    if (is_other(r, c))
        end = next;
    else if (s[at] == ' ' && next < n && is_other(r, c1))
        end = after;
    if (end > at) {
        while (end < n && is_other(r, class_at(s, n, end, &after))) end = after;
        while (end < n && (s[end] == '\r' || s[end] == '\n')) end++;
        return end;
    }
    return end_of_space(s, n, at);
}
