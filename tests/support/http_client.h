/* http_client.h - a blocking client for tests: raw bytes out, raw bytes in, and a reader for replies.
 * Failures abort. */
#ifndef QN_TESTS_HTTP_CLIENT_H
#define QN_TESTS_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct http_reply {
    int status;
    char *head; /* status line and headers */
    char *body; /* with chunks joined; NUL-terminated */
    size_t n;
} http_reply;

int http_connect(uint16_t port);
bool http_send(int fd, const void *p, size_t n);
bool http_read_until(int fd,
                     const char *what); /* reads byte by byte until `what` was seen; false at the end */
char *http_read_all(int fd, size_t *n); /* until the server closes; malloc'ed, NUL-terminated */
void http_leave(int fd, bool reset);    /* close with FIN or RST */

/* A request with a body and Connection: close. headers: extra lines, each with CRLF. malloc'ed. */
char *http_request(const char *method, const char *path, const char *headers, const char *body, size_t n_body,
                   size_t *n);

http_reply http_parse(const char *bytes, size_t n); /* copies */
http_reply http_post(uint16_t port, const char *path, const char *body);
http_reply http_get(uint16_t port, const char *path);
void http_free(http_reply *r);

#endif
