/* nfc.h - Unicode normalisation form C of a text, leaving alone what is in that form already.
 *
 * Called by the tokenizer for each piece of text between added tokens. Time is linear in the text, also for
 * long runs of combining marks. One qn_nfc belongs to one thread at a time. */
#ifndef QN_TEXT_NFC_H
#define QN_TEXT_NFC_H

#include "base/buf.h"
#include "base/status.h"

typedef struct qn_nfc {
    qn_buf out;      /* the normalised text, when it differs */
    int32_t *cps;    /* one segment as code points */
    size_t cap;      /* code points that fit */
    int32_t *sorted; /* room to reorder a long run of marks */
    size_t sorted_cap;
} qn_nfc;

void qn_nfc_init(qn_nfc *w, size_t max_bytes); /* max_bytes: the longest result */
void qn_nfc_deinit(qn_nfc *w);

/* *text and *n: the NFC form of s[0..len), which is well-formed UTF-8; they point at s itself when it needs
 * no change, else into w, valid until the next call. QN_NOMEM, QN_TOO_LARGE. */
qn_status qn_nfc_text(qn_nfc *w, const uint8_t *s, size_t len, const uint8_t **text, size_t *n,
                      qn_error *err) QN_CHECKED;

/* Whether cp is known to neither change nor combine with what precedes it (many more do; these are the common
 * ones). */
bool qn_nfc_is_inert(uint32_t cp);

#endif
