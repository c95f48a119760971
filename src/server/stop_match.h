/* stop_match.h - finds stop strings in text that arrives in pieces, and holds back no more than it must.
 *
 * The result does not depend on how the text was cut: the stop string that is complete first wins, and of
 * several that end at the same byte the longest. At any time only the longest end of the text that is a true
 * prefix of some stop string is held back. One thread at a time. */
#ifndef QN_SERVER_STOP_MATCH_H
#define QN_SERVER_STOP_MATCH_H

#include "base/status.h"

#define QN_STOP_MAX       16  /* stop strings of one request */
#define QN_STOP_MAX_BYTES 256 /* of one stop string, at least 1 */

typedef struct qn_stop_match qn_stop_match;

/* The strings are copied. QN_INVALID over the limits above. n may be 0: then text passes through. */
qn_status qn_stop_create(qn_stop_match **out, const char *const *stops, const size_t *lens, size_t n,
                         qn_error *err) QN_CHECKED;
void qn_stop_destroy(qn_stop_match *m); /* accepts NULL */

/* More text. *out, *n_out (valid until the next call) receive what may be shown now: on a match exactly the
 * rest of the text before the stop string. *hit becomes true at a match; after one, no more may be pushed. */
qn_status qn_stop_push(qn_stop_match *m, const char *text, size_t n, const char **out, size_t *n_out,
                       bool *hit, qn_error *err) QN_CHECKED;

/* No match can reach beyond here: what was held back, and matching starts anew. */
void qn_stop_flush(qn_stop_match *m, const char **out, size_t *n_out);

#endif
