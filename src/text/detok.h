/* detok.h - ids to text, one token at a time.
 *
 * Tokens are bytes and may end inside a character: an incomplete character is held back until its rest
 * arrives. Bytes that are no UTF-8 become U+FFFD, one for each maximal ill-formed part, exactly as Python's
 * bytes.decode("utf-8", "replace") does; what is incomplete at the end becomes one U+FFFD. The joined text
 * does not depend on where the bytes were cut into tokens. One thread at a time; the tokenizer is borrowed
 * and must outlive it. */
#ifndef QN_TEXT_DETOK_H
#define QN_TEXT_DETOK_H

#include "text/tokenizer.h"

typedef struct qn_text_detok qn_text_detok;

/* show_special: special tokens (<|im_end|>) give their text; else they give none, and a character may
 * continue across them. Added tokens that are not special (<think>) always give their text. */
qn_status qn_text_detok_create(qn_text_detok **out, const qn_tokenizer *t, bool show_special,
                               qn_error *err) QN_CHECKED;
void qn_text_detok_destroy(qn_text_detok *d); /* accepts NULL */

/* *text, valid until the next call and NUL-terminated, receives the *n bytes that became complete, maybe
 * none. QN_INVALID for an id without a token, after which the decoder is as before. QN_NOMEM. */
qn_status qn_text_detok_push(qn_text_detok *d, int32_t id, const char **text, size_t *n,
                             qn_error *err) QN_CHECKED;

/* The same for bytes that are not a token. */
qn_status qn_text_detok_push_bytes(qn_text_detok *d, const void *bytes, size_t len, const char **text,
                                   size_t *n, qn_error *err) QN_CHECKED;

/* What was held back, as U+FFFD. The decoder is then as new. */
qn_status qn_text_detok_finish(qn_text_detok *d, const char **text, size_t *n, qn_error *err) QN_CHECKED;

#endif
