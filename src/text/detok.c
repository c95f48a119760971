/* detok.c - the streaming decoder: at most three bytes, the start of one character, wait between two calls.
 */
#include "text/detok.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"

struct qn_text_detok {
    const qn_tokenizer *t;
    bool show_special;
    uint8_t held[4]; /* the start of a character whose rest is missing */
    size_t n_held;
    qn_buf out;
};

qn_status qn_text_detok_create(qn_text_detok **out, const qn_tokenizer *t, bool show_special, qn_error *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out) return qn_fail(err, QN_NOMEM, "no memory for a decoder");
    (*out)->t = t;
    (*out)->show_special = show_special;
    qn_buf_init(&(*out)->out, 0);
    return QN_OK;
}

void qn_text_detok_destroy(qn_text_detok *d)
{
    if (!d) return;
    qn_buf_deinit(&d->out);
    free(d);
}

static qn_status hand_out(qn_text_detok *d, const char **text, size_t *n, qn_error *err)
{
    qn_buf_add(&d->out, "", 0); /* so that data is there, and ends in NUL */
    qn_status st = qn_buf_status(&d->out, "the decoded text", err);
    *text = st ? NULL : d->out.data;
    *n = st ? 0 : d->out.len;
    return st;
}

static void add_replacement(qn_text_detok *d)
{
    qn_buf_add(&d->out, "\xef\xbf\xbd", 3);
}

/* Decode s[0..n) into d->out; returns how many bytes at its end are an incomplete character (at most 3). */
static size_t decode(qn_text_detok *d, const uint8_t *s, size_t n)
{
    size_t len, done = 0; /* s[0..done) is in the output */
    for (size_t i = 0; i < n; i += len) {
        qn_utf8_kind kind = qn_utf8_scan(s + i, n - i, &len);
        if (kind == QN_UTF8_CHAR) continue;
        qn_buf_add(&d->out, s + done, i - done);
        if (kind == QN_UTF8_PREFIX) return len;
        add_replacement(d);
        done = i + len;
    }
    qn_buf_add(&d->out, s + done, n - done);
    return 0;
}

qn_status qn_text_detok_push_bytes(qn_text_detok *d, const void *bytes, size_t len, const char **text,
                                   size_t *n, qn_error *err)
{
    const uint8_t *s = bytes;
    size_t used = 0;
    qn_buf_reset(&d->out);
    /* Feed the waiting start byte by byte until it is a character or is known not to become one; the bytes
     * after a failed start stand for themselves, so they are looked at again. */
    while (d->n_held > 0 && used < len) {
        size_t part;
        d->held[d->n_held] = s[used];
        qn_utf8_kind kind = qn_utf8_scan(d->held, d->n_held + 1, &part);
        if (kind == QN_UTF8_BAD) {
            add_replacement(
                d); /* the part is what was held: with a byte more it failed, without it was a start */
            d->n_held = 0;
            break;
        }
        used++;
        d->n_held++;
        if (kind == QN_UTF8_CHAR) {
            qn_buf_add(&d->out, d->held, d->n_held);
            d->n_held = 0;
        }
    }
    if (used < len) {
        size_t waiting = decode(d, s + used, len - used);
        memcpy(d->held, s + len - waiting, waiting);
        d->n_held = waiting;
    }
    return hand_out(d, text, n, err);
}

qn_status qn_text_detok_push(qn_text_detok *d, int32_t id, const char **text, size_t *n, qn_error *err)
{
    const char *bytes;
    size_t len;
    if (!qn_tokenizer_piece(d->t, id, &bytes, &len)) {
        *text = NULL;
        *n = 0;
        return qn_fail(err, QN_INVALID, "id %d has no token (the vocabulary ends at %u)", id,
                       qn_tokenizer_vocab_size(d->t));
    }
    if (!d->show_special && qn_tokenizer_is_special(d->t, id)) len = 0;
    return qn_text_detok_push_bytes(d, bytes, len, text, n, err);
}

qn_status qn_text_detok_finish(qn_text_detok *d, const char **text, size_t *n, qn_error *err)
{
    qn_buf_reset(&d->out);
    if (d->n_held) add_replacement(d);
    d->n_held = 0;
    return hand_out(d, text, n, err);
}
