/* utf8.h - strict UTF-8 as Unicode defines it: no overlong forms, no surrogates, nothing above U+10FFFF.
 *
 * Used by the JSON reader, the tokenizer and everything that takes text from outside. Nothing allocates,
 * nothing fails but by its return value, any thread. */
#ifndef QN_BASE_UTF8_H
#define QN_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The character at the start of s[0..n): its length in bytes, 1 to 4, and *cp its code point. 0 when no
 * well-formed character starts there (or n is 0); *cp is then undefined. */
static inline size_t qn_utf8_decode(const uint8_t *s, size_t n, uint32_t *cp)
{
    if (n == 0) return 0;
    uint32_t b = s[0];
    if (b < 0x80) return *cp = b, 1;
    if (b < 0xc2 || n < 2 || (s[1] & 0xc0) != 0x80) return 0;
    if (b < 0xe0) return *cp = (b & 0x1f) << 6 | (s[1] & 0x3fu), 2;
    if (n < 3 || (s[2] & 0xc0) != 0x80) return 0;
    if (b < 0xf0) {
        uint32_t c = (b & 0x0f) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
        if (c < 0x800 || (c >= 0xd800 && c < 0xe000)) return 0;
        return *cp = c, 3;
    }
    if (b > 0xf4 || n < 4 || (s[3] & 0xc0) != 0x80) return 0;
    uint32_t c = (b & 0x07) << 18 | (s[1] & 0x3fu) << 12 | (s[2] & 0x3fu) << 6 | (s[3] & 0x3fu);
    if (c < 0x10000 || c > 0x10ffff) return 0;
    return *cp = c, 4;
}

/* Write cp to dst: its length in bytes, 1 to 4, or 0, writing nothing, for a surrogate or a number above
 * U+10FFFF. */
size_t qn_utf8_encode(uint8_t dst[4], uint32_t cp);

/* Whether s[0..n) is well-formed; if not, *bad_at (may be NULL) is the offset of the first offending byte
 * sequence. */
bool qn_utf8_valid(const void *s, size_t n, size_t *bad_at);

/* What starts at s[0..n), n >= 1, for readers that replace what is wrong: */
typedef enum qn_utf8_kind {
    QN_UTF8_CHAR,  /* *len bytes are one character */
    QN_UTF8_BAD,   /* *len bytes (1 to 3) are one maximal ill-formed part: one U+FFFD stands for them */
    QN_UTF8_PREFIX /* all n bytes (*len = n <= 3) are the start of a character whose rest is missing */
} qn_utf8_kind;
qn_utf8_kind qn_utf8_scan(const uint8_t *s, size_t n, size_t *len);

#endif
