/* buf.h - a growing byte buffer that knows its maximum. Used wherever text or bytes are put together.
 *
 * A failed append (no memory, or past the maximum) sets `failed` and leaves what was there; later appends do
 * nothing, so a writer may check once at the end. data is NUL-terminated after any append (the NUL is not
 * counted) and valid until the next append. One thread at a time. */
#ifndef QN_BASE_BUF_H
#define QN_BASE_BUF_H

#include "base/status.h"

typedef struct qn_buf {
    char *data;       /* NULL while nothing was ever appended */
    size_t len;       /* bytes in use */
    size_t cap;       /* bytes allocated */
    size_t max_bytes; /* len never exceeds it */
    bool failed;      /* sticky: an append did not fit or found no memory */
    bool no_memory;   /* it was memory */
} qn_buf;

#define QN_BUF_DEFAULT_MAX ((size_t)256 << 20)

void qn_buf_init(qn_buf *b, size_t max_bytes); /* max_bytes 0: QN_BUF_DEFAULT_MAX */
void qn_buf_deinit(qn_buf *b); /* accepts a zeroed one; leaves it zeroed but for the maximum */
void qn_buf_reset(qn_buf *b);  /* length 0, failed false, memory kept */
bool qn_buf_add(qn_buf *b, const void *p, size_t n);
bool qn_buf_str(qn_buf *b, const char *s);
bool qn_buf_byte(qn_buf *b, char c);
bool qn_buf_printf(qn_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool qn_buf_reserve(qn_buf *b, size_t extra); /* room for extra more bytes */
void qn_buf_drop_front(qn_buf *b, size_t n);  /* n <= len */

/* Move the bytes out (NUL-terminated, to be freed with free()); the buffer becomes empty. NULL when failed
 * or out of memory. An empty buffer gives "". */
char *qn_buf_take(qn_buf *b, size_t *n);

/* QN_OK, or the reason of a failed append, naming what ("the rendered prompt"). */
qn_status qn_buf_status(const qn_buf *b, const char *what, qn_error *err) QN_CHECKED;

#endif
