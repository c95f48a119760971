/* nfc.c - normalisation form C by segments.
 *
 * An inert character has combining class 0, stays itself and never merges with what precedes it, so NFC of a
 * text is the NFC of its segments, each beginning at an inert character. Only segments that hold something
 * else go through utf8proc: first decomposition, character by character, then the canonical order, then
 * composition. The order is made here because the library's own sort takes time quadratic in the length of a
 * run of marks, which a user could send us. */
#include "text/nfc.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

/* Inclusive ranges of inert characters, ascending; everything below U+0300 is inert too. Conservative: only
 * scripts that make up much of real text and need no look at single characters. */
static const struct {
    uint32_t first, last;
} inert[] = {
    {0x0400, 0x0482},   /* Cyrillic, before its combining marks */
    {0x048a, 0x052f},   /* Cyrillic */
    {0x05d0, 0x05ea},   /* Hebrew letters */
    {0x0620, 0x064a},   /* Arabic letters */
    {0x0e01, 0x0e30},   /* Thai letters */
    {0x0e3f, 0x0e47},   /* Thai vowels without a combining class */
    {0x0e4f, 0x0e5b},   /* Thai digits */
    {0x1e00, 0x1eff},   /* Latin extended additional */
    {0x2002, 0x20cf},   /* punctuation, superscripts, currency; U+2000 and 2001 change */
    {0x2190, 0x2328},   /* arrows, mathematics, technical; U+2329 changes */
    {0x2500, 0x2adb},   /* box drawing to mathematics; U+2ADC changes */
    {0x3000, 0x3029},   /* CJK punctuation */
    {0x3030, 0x3098},   /* Hiragana, before its voicing marks */
    {0x309b, 0x312f},   /* Katakana, Bopomofo */
    {0x4e00, 0x9fff},   /* CJK unified ideographs */
    {0xac00, 0xd7a3},   /* Hangul syllables (their trailing jamo are not inert) */
    {0xff01, 0xffef},   /* full and half width forms */
    {0xfffd, 0xfffd},   /* the replacement character */
    {0x1f000, 0x1faff}, /* pictographs */
};

bool qn_nfc_is_inert(uint32_t cp)
{
    if (cp < 0x300) return true;
    for (size_t i = 0; i < sizeof inert / sizeof inert[0]; i++)
        if (cp <= inert[i].last) return cp >= inert[i].first;
    return false;
}

void qn_nfc_init(qn_nfc *w, size_t max_bytes)
{
    *w = (qn_nfc){0};
    qn_buf_init(&w->out, max_bytes);
}

void qn_nfc_deinit(qn_nfc *w)
{
    qn_buf_deinit(&w->out);
    free(w->cps);
    free(w->sorted);
    *w = (qn_nfc){0};
}

static bool grow(int32_t **p, size_t *cap, size_t need)
{
    if (need <= *cap) return true;
    size_t bigger = need + need / 2 + 64;
    int32_t *q = realloc(*p, bigger * sizeof *q);
    if (!q) return false;
    *p = q;
    *cap = bigger;
    return true;
}

static int combining_class(int32_t cp)
{
    return utf8proc_get_property(cp)->combining_class;
}

/* Stable sort of a run of marks by combining class. Short runs, which is all that languages write, by
 * insertion; long ones by counting. */
static bool sort_run(qn_nfc *w, int32_t *run, size_t n)
{
    if (n <= 32) {
        for (size_t i = 1; i < n; i++) {
            int32_t cp = run[i];
            int ccc = combining_class(cp);
            size_t k = i;
            for (; k > 0 && combining_class(run[k - 1]) > ccc; k--) run[k] = run[k - 1];
            run[k] = cp;
        }
        return true;
    }
    size_t first[257] = {0};
    if (!grow(&w->sorted, &w->sorted_cap, n)) return false;
    for (size_t i = 0; i < n; i++) first[(combining_class(run[i]) & 0xff) + 1]++;
    for (size_t c = 0; c < 256; c++) first[c + 1] += first[c];
    for (size_t i = 0; i < n; i++) w->sorted[first[combining_class(run[i]) & 0xff]++] = run[i];
    memcpy(run, w->sorted, n * sizeof *run);
    return true;
}

static bool order_canonically(qn_nfc *w, size_t n)
{
    for (size_t i = 0; i < n;) {
        if (combining_class(w->cps[i]) == 0) {
            i++;
            continue;
        }
        size_t end = i + 1;
        while (end < n && combining_class(w->cps[end]) != 0) end++;
        if (!sort_run(w, w->cps + i, end - i)) return false;
        i = end;
    }
    return true;
}

/* Append the NFC form of one segment to w->out; false when memory ran out. */
static bool add_segment(qn_nfc *w, const uint8_t *s, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len;) {
        uint32_t cp = 0;
        size_t step = qn_utf8_decode(s + i, len - i, &cp);
        if (step == 0) return false; /* not reached: the text was validated */
        i += step;
        if (!grow(&w->cps, &w->cap, n + 32)) return false; /* no character decomposes into more than 18 */
        utf8proc_ssize_t got =
            utf8proc_decompose_char((utf8proc_int32_t)cp, w->cps + n, (utf8proc_ssize_t)(w->cap - n),
                                    UTF8PROC_STABLE | UTF8PROC_COMPOSE, NULL);
        if (got < 0 || (size_t)got > w->cap - n) return false;
        n += (size_t)got;
    }
    if (!order_canonically(w, n)) return false;
    utf8proc_ssize_t kept =
        utf8proc_normalize_utf32(w->cps, (utf8proc_ssize_t)n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    for (utf8proc_ssize_t i = 0; i < kept; i++) {
        uint8_t b[4];
        qn_buf_add(&w->out, b, qn_utf8_encode(b, (uint32_t)w->cps[i]));
    }
    return kept >= 0;
}

qn_status qn_nfc_text(qn_nfc *w, const uint8_t *s, size_t len, const uint8_t **text, size_t *n, qn_error *err)
{
    size_t copied = 0; /* s[0..copied) is in w->out already */
    size_t start = 0;  /* where the segment that i is in begins: its inert character */
    bool changed = false;
    *text = s;
    *n = len;
    for (size_t i = 0; i < len;) {
        uint32_t cp = 0;
        if (s[i] < 0x80) {
            start = i++;
            continue;
        }
        size_t step = qn_utf8_decode(s + i, len - i, &cp);
        if (step == 0) return qn_fail(err, QN_INVALID, "byte %zu: not well-formed UTF-8", i);
        if (qn_nfc_is_inert(cp)) {
            start = i;
            i += step;
            continue;
        }
        size_t end = i + step;
        while (end < len && (step = qn_utf8_decode(s + end, len - end, &cp)) != 0 && !qn_nfc_is_inert(cp))
            end += step;
        if (!changed) qn_buf_reset(&w->out);
        changed = true;
        qn_buf_add(&w->out, s + copied, start - copied);
        if (!add_segment(w, s + start, end - start))
            return qn_fail(err, QN_NOMEM, "no memory to normalise %zu bytes of text", len);
        copied = i = start = end;
    }
    if (!changed) return QN_OK;
    qn_buf_add(&w->out, s + copied, len - copied);
    qn_status st = qn_buf_status(&w->out, "the normalised text", err);
    if (st) return st;
    *text = (const uint8_t *)w->out.data;
    *n = w->out.len;
    return QN_OK;
}
