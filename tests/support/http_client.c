/* http_client.c - see http_client.h. */
#include "http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"

int http_connect(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = 20};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
        perror("connect");
        abort();
    }
    return fd;
}

bool http_send(int fd, const void *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t k = send(fd, (const char *)p + at, n - at, MSG_NOSIGNAL);
        if (k <= 0) return false;
        at += (size_t)k;
    }
    return true;
}

bool http_read_until(int fd, const char *what)
{
    size_t n = strlen(what), have = 0;
    char *window = calloc(1, n + 1), c;
    while (have < n || memcmp(window, what, n) != 0) {
        if (recv(fd, &c, 1, 0) != 1) {
            free(window);
            return false;
        }
        if (have == n) memmove(window, window + 1, n - 1), have--;
        window[have++] = c;
    }
    free(window);
    return true;
}

char *http_read_all(int fd, size_t *n)
{
    qn_buf b;
    char chunk[4096];
    ssize_t k;
    qn_buf_init(&b, 0);
    while ((k = recv(fd, chunk, sizeof chunk, 0)) > 0) qn_buf_add(&b, chunk, (size_t)k);
    return qn_buf_take(&b, n);
}

void http_leave(int fd, bool reset)
{
    struct linger l = {.l_onoff = 1, .l_linger = 0};
    if (reset) setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
    close(fd);
}

char *http_request(const char *method, const char *path, const char *headers, const char *body, size_t n_body,
                   size_t *n)
{
    qn_buf b;
    qn_buf_init(&b, 0);
    qn_buf_printf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s", method, path,
                  headers ? headers : "");
    if (body) qn_buf_printf(&b, "Content-Type: application/json\r\nContent-Length: %zu\r\n", n_body);
    qn_buf_str(&b, "\r\n");
    if (body) qn_buf_add(&b, body, n_body);
    return qn_buf_take(&b, n);
}

http_reply http_parse(const char *bytes, size_t n)
{
    http_reply r = {0};
    const char *end = memmem(bytes, n, "\r\n\r\n", 4);
    if (!end || sscanf(bytes, "HTTP/1.1 %d", &r.status) != 1) {
        r.head = strdup("");
        r.body = strdup("");
        return r;
    }
    r.head = strndup(bytes, (size_t)(end - bytes));
    const char *p = end + 4, *last = bytes + n;
    qn_buf b;
    qn_buf_init(&b, 0);
    if (strcasestr(r.head, "Transfer-Encoding: chunked")) {
        while (p < last) {
            char *after;
            size_t len = strtoul(p, &after, 16);
            p = after + 2;
            if (len == 0 || len > (size_t)(last - p)) break;
            qn_buf_add(&b, p, len);
            p += len + 2;
        }
    } else {
        qn_buf_add(&b, p, (size_t)(last - p));
    }
    r.body = qn_buf_take(&b, &r.n);
    return r;
}

static http_reply ask(uint16_t port, const char *method, const char *path, const char *body)
{
    size_t n;
    char *bytes = http_request(method, path, NULL, body, body ? strlen(body) : 0, &n);
    int fd = http_connect(port);
    http_send(fd, bytes, n);
    free(bytes);
    bytes = http_read_all(fd, &n);
    close(fd);
    http_reply r = http_parse(bytes, n);
    free(bytes);
    return r;
}

http_reply http_post(uint16_t port, const char *path, const char *body)
{
    return ask(port, "POST", path, body);
}
http_reply http_get(uint16_t port, const char *path)
{
    return ask(port, "GET", path, NULL);
}

void http_free(http_reply *r)
{
    free(r->head);
    free(r->body);
    *r = (http_reply){0};
}
