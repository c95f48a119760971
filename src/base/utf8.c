/* utf8.c - strict UTF-8: validation with a fast path for ASCII, encoding, and the split of ill-formed text
 * into maximal parts (Unicode 15, section 3.9, "U+FFFD substitution of maximal subparts"). */
#include "base/utf8.h"

#include <string.h>

size_t qn_utf8_encode(uint8_t dst[4], uint32_t cp)
{
    if (cp < 0x80) {
        dst[0] = (uint8_t)cp;
        return 1;
    }
    if (cp < 0x800) {
        dst[0] = (uint8_t)(0xc0 | cp >> 6);
        dst[1] = (uint8_t)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp >= 0xd800 && cp < 0xe000) return 0;
    if (cp < 0x10000) {
        dst[0] = (uint8_t)(0xe0 | cp >> 12);
        dst[1] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
        dst[2] = (uint8_t)(0x80 | (cp & 0x3f));
        return 3;
    }
    if (cp > 0x10ffff) return 0;
    dst[0] = (uint8_t)(0xf0 | cp >> 18);
    dst[1] = (uint8_t)(0x80 | (cp >> 12 & 0x3f));
    dst[2] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
    dst[3] = (uint8_t)(0x80 | (cp & 0x3f));
    return 4;
}

bool qn_utf8_valid(const void *text, size_t n, size_t *bad_at)
{
    const uint8_t *s = text;
    size_t i = 0;
    while (i < n) {
        uint64_t eight;
        while (n - i >= 8) {
            memcpy(&eight, s + i, 8);
            if (eight & 0x8080808080808080u) break;
            i += 8;
        }
        if (i == n) break;
        uint32_t cp;
        size_t len = qn_utf8_decode(s + i, n - i, &cp);
        if (len == 0) {
            if (bad_at) *bad_at = i;
            return false;
        }
        i += len;
    }
    return true;
}

qn_utf8_kind qn_utf8_scan(const uint8_t *s, size_t n, size_t *len)
{
    uint32_t cp;
    *len = qn_utf8_decode(s, n, &cp);
    if (*len) return QN_UTF8_CHAR;
    *len = 1;
    uint8_t b = s[0];
    if (b < 0xc2 || b > 0xf4) return QN_UTF8_BAD;
    size_t want = b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
    /* The second byte's range depends on the first: it is what keeps overlong forms and surrogates out. */
    uint8_t lo = b == 0xe0 ? 0xa0 : b == 0xf0 ? 0x90 : 0x80;
    uint8_t hi = b == 0xed ? 0x9f : b == 0xf4 ? 0x8f : 0xbf;
    size_t i = 1;
    while (i < n && i < want && s[i] >= lo && s[i] <= hi) {
        i++;
        lo = 0x80;
        hi = 0xbf;
    }
    *len = i;
    return i == n ? QN_UTF8_PREFIX : QN_UTF8_BAD;
}
