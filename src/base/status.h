/* status.h - what every fallible function returns, and the message that goes with it.
 *
 * A function that can fail returns a qn_status and takes a qn_error as its last argument. The message is
 * written where the facts are (names, numbers) by qn_fail(); outer functions put their facts in front with
 * qn_error_context(). On success the error is left untouched. One table maps each status to its name, the
 * exit code of the command line and the HTTP status of the server (docs/errors.md).
 *
 * Any thread; a qn_error belongs to one thread at a time. Nothing here allocates. */
#ifndef QN_BASE_STATUS_H
#define QN_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quern.h" /* qn_status, qn_error: part of the public interface */

#define QN_CHECKED __attribute__((warn_unused_result))

/* Write the message of err (NULL allowed: the message is dropped) and return st, which must not be QN_OK,
 * so that failing is one line. Control characters in arguments are written as they come; callers quote
 * names from files with QN_QUOTE_ARGS where they may hold any byte. Messages over the capacity are cut. */
qn_status qn_fail(qn_error *err, qn_status st, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Put "what: " in front of the message: outer facts first. */
void qn_error_context(qn_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Name the request field that is at fault ("messages[2].content"); the server reports it as `param`. */
void qn_error_field(qn_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Write s[0..n) into dst as printable text for a message: bytes outside 0x20..0x7e become \xNN, anything
 * past what fits (cap >= 8) is replaced by "...". Returns dst. */
const char *qn_printable(char *dst, size_t cap, const void *s, size_t n);

const char *qn_status_name(qn_status st);  /* "invalid", "corrupt", ...; never NULL */
int qn_status_exit_code(qn_status st);     /* 0, 1 or 2 */
int qn_status_http(qn_status st);          /* 200, 400, 404, ... */
const char *qn_status_api_type(qn_status); /* OpenAI's error.type: "invalid_request_error", ... */

#endif
