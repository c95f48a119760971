/* status.c - messages of errors and the table that gives each status its name, exit code and HTTP status. */
#include "base/status.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int exit_code;
    int http;
    const char *api_type;
} table[] = {
    [QN_OK] = {"ok", 0, 200, ""},
    [QN_USAGE] = {"usage", 2, 400, "invalid_request_error"},
    [QN_INVALID] = {"invalid", 1, 400, "invalid_request_error"},
    [QN_CORRUPT] = {"corrupt", 1, 500, "server_error"},
    [QN_UNSUPPORTED] = {"unsupported", 1, 400, "invalid_request_error"},
    [QN_NOT_FOUND] = {"not_found", 1, 404, "not_found_error"},
    [QN_TOO_LARGE] = {"too_large", 1, 413, "invalid_request_error"},
    [QN_CONTEXT] = {"context_length_exceeded", 1, 400, "invalid_request_error"},
    [QN_BUSY] = {"busy", 1, 429, "rate_limit_error"},
    [QN_NOMEM] = {"no_memory", 1, 500, "server_error"},
    [QN_IO] = {"io", 1, 500, "server_error"},
    [QN_CANCELLED] = {"cancelled", 1, 499, "cancelled"},
    [QN_UNAVAILABLE] = {"unavailable", 1, 503, "unavailable_error"},
    [QN_INTERNAL] = {"internal", 1, 500, "server_error"},
};

#define N_STATUS (sizeof table / sizeof table[0])

static size_t row(qn_status st)
{
    return (size_t)st < N_STATUS ? (size_t)st : (size_t)QN_INTERNAL;
}

const char *qn_status_name(qn_status st)
{
    return table[row(st)].name;
}
int qn_status_exit_code(qn_status st)
{
    return table[row(st)].exit_code;
}
int qn_status_http(qn_status st)
{
    return table[row(st)].http;
}
const char *qn_status_api_type(qn_status st)
{
    return table[row(st)].api_type;
}

qn_status qn_fail(qn_error *err, qn_status st, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(err->msg, sizeof err->msg, fmt, ap);
        va_end(ap);
        err->field[0] = 0;
        err->status = st;
    }
    return st;
}

void qn_error_context(qn_error *err, const char *fmt, ...)
{
    if (!err) return;
    char old[sizeof err->msg];
    memcpy(old, err->msg, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof err->msg) return;
    size_t left = sizeof err->msg - (size_t)n; /* > 0; the old message may be cut */
    snprintf(err->msg + n, left, ": %.*s", (int)(left > 3 ? left - 3 : 0), old);
}

void qn_error_field(qn_error *err, const char *fmt, ...)
{
    if (!err) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->field, sizeof err->field, fmt, ap);
    va_end(ap);
}

const char *qn_printable(char *dst, size_t cap, const void *s, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    const unsigned char *p = s;
    size_t o = 0;
    for (size_t i = 0; i < n; i++) {
        if (o + 4 + 4 > cap) { /* room for one escape, "..." and the end */
            memcpy(dst + o, "...", 3);
            o += 3;
            break;
        }
        if (p[i] >= 0x20 && p[i] < 0x7f) {
            dst[o++] = (char)p[i];
        } else {
            dst[o++] = '\\';
            dst[o++] = 'x';
            dst[o++] = hex[p[i] >> 4];
            dst[o++] = hex[p[i] & 15];
        }
    }
    dst[o] = 0;
    return dst;
}
