/* buf.c - the growing byte buffer. Doubles its capacity, never past the stated maximum. */
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void qn_buf_init(qn_buf *b, size_t max_bytes)
{
    *b = (qn_buf){.max_bytes = max_bytes ? max_bytes : QN_BUF_DEFAULT_MAX};
}

void qn_buf_deinit(qn_buf *b)
{
    free(b->data);
    *b = (qn_buf){.max_bytes = b->max_bytes};
}

void qn_buf_reset(qn_buf *b)
{
    b->len = 0;
    b->failed = b->no_memory = false;
    if (b->data) b->data[0] = 0;
}

bool qn_buf_reserve(qn_buf *b, size_t extra)
{
    if (b->failed) return false;
    if (b->max_bytes == 0) b->max_bytes = QN_BUF_DEFAULT_MAX;
    if (extra > b->max_bytes - b->len) return b->failed = true, false;
    size_t need = b->len + extra + 1;
    if (need <= b->cap) return true;
    size_t cap = b->cap < 64 ? 64 : b->cap;
    while (cap < need) cap += cap;
    if (cap > b->max_bytes + 1) cap = b->max_bytes + 1;
    char *p = realloc(b->data, cap);
    if (!p) return b->failed = b->no_memory = true, false;
    b->data = p;
    b->cap = cap;
    return true;
}

bool qn_buf_add(qn_buf *b, const void *p, size_t n)
{
    if (!qn_buf_reserve(b, n)) return false;
    if (n) memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = 0;
    return true;
}

bool qn_buf_str(qn_buf *b, const char *s)
{
    return qn_buf_add(b, s, strlen(s));
}
bool qn_buf_byte(qn_buf *b, char c)
{
    return qn_buf_add(b, &c, 1);
}

bool qn_buf_printf(qn_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    bool ok = n >= 0 && qn_buf_reserve(b, (size_t)n);
    if (ok) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    } else {
        b->failed = true;
    }
    va_end(again);
    return ok;
}

void qn_buf_drop_front(qn_buf *b, size_t n)
{
    if (n == 0) return;
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    b->data[b->len] = 0;
}

char *qn_buf_take(qn_buf *b, size_t *n)
{
    if (b->failed || !qn_buf_reserve(b, 0)) return NULL;
    char *p = b->data;
    p[b->len] = 0;
    if (n) *n = b->len;
    *b = (qn_buf){.max_bytes = b->max_bytes};
    return p;
}

qn_status qn_buf_status(const qn_buf *b, const char *what, qn_error *err)
{
    if (!b->failed) return QN_OK;
    if (b->no_memory) return qn_fail(err, QN_NOMEM, "no memory for %s past %zu bytes", what, b->len);
    return qn_fail(err, QN_TOO_LARGE, "%s is over the limit of %zu bytes", what, b->max_bytes);
}
