/* http.c - the seam to libmicrohttpd: connections, bodies in, responses out.
 *
 * A request that waits for its answer is suspended: the library then does not look at its socket at all, and
 * so never sees a client leave. The server's own epoll watch on every connection does
 * (docs/decisions/0003-http-library.md). Everything here runs on the server's thread, inside MHD_run or
 * called by exchange.c. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "server/server_int.h"

#define SWALLOW_FACTOR                                                                                       \
    4 /* so many times the limit of a refused body is read and dropped, for the sake of the answer */
#define CONNECTION_MEMORY (64u << 10) /* request line, headers and the library's buffers of one connection   \
                                       */

void qn_http_continue(qn_exchange *x)
{
    if (!x->suspended) return;
    x->suspended = false;
    MHD_resume_connection(x->http);
}

void qn_http_peer_left(qn_conn *c)
{
    c->gone = true;
    if (c->current)
        qn_exchange_leave(c->current);
    else
        MHD_set_connection_option(c->http, MHD_CONNECTION_OPTION_TIMEOUT,
                                  1u); /* half a request line would wait for the idle time-out */
}

/* ---- out
 * --------------------------------------------------------------------------------------------------- */

static ssize_t read_stream(void *ctx, uint64_t pos, char *buf, size_t max)
{
    qn_exchange *x = ctx;
    (void)pos;
    if (x->gone || x->out.failed) return MHD_CONTENT_READER_END_WITH_ERROR;
    if (x->out.len > 0) {
        size_t n = x->out.len < max ? x->out.len : max;
        memcpy(buf, x->out.data, n);
        qn_buf_drop_front(&x->out, n);
        return (ssize_t)n;
    }
    if (x->out_end) return MHD_CONTENT_READER_END_OF_STREAM;
    x->suspended = true;
    MHD_suspend_connection(x->http);
    return 0;
}

static enum MHD_Result queue(qn_exchange *x, struct MHD_Response *r, const char *type)
{
    if (!r) return MHD_NO;
    bool ok = MHD_add_response_header(r, "Content-Type", type) == MHD_YES;
    ok = ok && MHD_add_response_header(r, "X-Request-Id", x->id) == MHD_YES;
    ok = ok && MHD_add_response_header(r, "Cache-Control",
                                       x->state == QN_X_STREAMING ? "no-cache" : "no-store") == MHD_YES;
    if (x->state == QN_X_STREAMING)
        ok = ok && MHD_add_response_header(r, "X-Accel-Buffering", "no") == MHD_YES;
    if (x->allow) ok = ok && MHD_add_response_header(r, "Allow", x->allow) == MHD_YES;
    if (x->status == 429 || x->status == 503)
        ok = ok && MHD_add_response_header(r, "Retry-After", "1") == MHD_YES;
    enum MHD_Result res = ok ? MHD_queue_response(x->http, (unsigned)x->status, r) : MHD_NO;
    MHD_destroy_response(r);
    x->replied = res == MHD_YES;
    return res;
}

/* Give the library what there is, or suspend the connection until there is something. */
static enum MHD_Result respond(qn_exchange *x)
{
    if (x->gone && x->state != QN_X_REPLY) return MHD_NO;
    if (x->state == QN_X_REPLY) {
        size_t n = 0;
        char *text = qn_buf_take(&x->reply, &n);
        struct MHD_Response *r =
            text ? MHD_create_response_from_buffer(n, text, MHD_RESPMEM_MUST_FREE) : NULL;
        if (text && !r) free(text);
        return queue(x, r, "application/json");
    }
    if (x->state == QN_X_STREAMING)
        return queue(x, MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_stream, x, NULL),
                     "text/event-stream");
    x->suspended = true;
    MHD_suspend_connection(x->http);
    return MHD_YES;
}

/* ---- in
 * ---------------------------------------------------------------------------------------------------- */

static void refuse_body(qn_exchange *x, int http_status, qn_status st, const char *fmt, size_t limit)
{
    if (x->refused) return;
    x->refused = true;
    x->status = http_status;
    qn_fail(&x->error, st, "%s %zu bytes", fmt, limit);
    x->srv->bodies_bytes -= x->body.len;
    qn_buf_deinit(&x->body);
}

/* Look at the headers. True: answer now, without reading the body. */
static bool refuse_early(qn_exchange *x)
{
    const char *coding = MHD_lookup_connection_value(x->http, MHD_HEADER_KIND, "Content-Encoding");
    const char *length = MHD_lookup_connection_value(x->http, MHD_HEADER_KIND, "Content-Length");
    size_t limit = x->srv->o.max_body_bytes;
    unsigned long long n =
        length ? strtoull(length, NULL, 10) : 0; /* the library has checked that it is a number */
    if (coding && strcasecmp(coding, "identity") != 0) {
        char name[48];
        x->refused = true;
        x->status = 415;
        qn_fail(&x->error, QN_UNSUPPORTED, "the body has Content-Encoding '%s'; only identity is supported",
                qn_printable(name, sizeof name, coding, strlen(coding)));
    } else if (n > limit) {
        refuse_body(x, 413, QN_TOO_LARGE, "the body is over the limit of", limit);
    }
    return x->refused &&
           (n > limit * SWALLOW_FACTOR || MHD_lookup_connection_value(x->http, MHD_HEADER_KIND, "Expect"));
}

static enum MHD_Result take_body(qn_exchange *x, const char *data, size_t n)
{
    qn_server *s = x->srv;
    if (!x->refused && n > s->o.max_body_bytes - x->body.len)
        refuse_body(x, 413, QN_TOO_LARGE, "the body is over the limit of", s->o.max_body_bytes);
    if (!x->refused && n > s->o.max_bodies_bytes - s->bodies_bytes)
        refuse_body(x, 503, QN_UNAVAILABLE, "too many large requests at once; together they may have",
                    s->o.max_bodies_bytes);
    if (!x->refused) {
        if (qn_buf_add(&x->body, data, n))
            s->bodies_bytes += n;
        else
            refuse_body(x, 503, QN_UNAVAILABLE, "no memory for a body of", x->body.len + n);
    }
    if (!x->refused) return MHD_YES;
    x->dropped += n;
    return x->dropped > (uint64_t)s->o.max_body_bytes * SWALLOW_FACTOR ? MHD_NO : MHD_YES;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *http, const char *url, const char *method,
                                  const char *version, const char *data, size_t *n, void **con_ctx)
{
    qn_server *s = ctx;
    qn_exchange *x = *con_ctx;
    (void)version;
    if (!x) { /* headers only */
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(http, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
        qn_conn *c = info ? info->socket_context : NULL;
        if (!c) return MHD_NO;
        x = *con_ctx = c->current = qn_exchange_create(s, c, http, method, url);
        if (!x) return MHD_NO;
        if (!refuse_early(x)) return MHD_YES;
        qn_exchange_refuse(x, &x->error);
        return respond(x);
    }
    if (*n > 0) {
        size_t got = *n;
        *n = 0;
        return take_body(x, data, got);
    }
    if (x->state == QN_X_READING) {
        if (x->refused)
            qn_exchange_refuse(x, &x->error);
        else
            qn_exchange_dispatch(x, method, url);
    }
    return respond(x);
}

static void on_completed(void *ctx, struct MHD_Connection *http, void **con_ctx,
                         enum MHD_RequestTerminationCode how)
{
    qn_exchange *x = *con_ctx;
    (void)ctx;
    (void)http;
    *con_ctx = NULL;
    if (!x) return;
    x->suspended = false;
    if (how != MHD_REQUEST_TERMINATED_COMPLETED_OK) qn_exchange_leave(x);
    qn_exchange_release(x);
}

static void on_connection(void *ctx, struct MHD_Connection *http, void **socket_ctx,
                          enum MHD_ConnectionNotificationCode what)
{
    qn_server *s = ctx;
    qn_conn *c = *socket_ctx;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (c) epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
        free(c);
        *socket_ctx = NULL;
        return;
    }
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(http, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!info || !(c = calloc(1, sizeof *c))) return; /* requests without a qn_conn are dropped */
    c->srv = s;
    c->http = http;
    c->fd = info->connect_fd;
    /* A peer that vanished without FIN or RST is given up after about a minute. */
    int on = 1, idle_s = 30, every_s = 10, times = 3;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(c->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(c->fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s);
    setsockopt(c->fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
    struct epoll_event e = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = c};
    if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, c->fd, &e) != 0) {
        free(c); /* better no service than one that cannot see the client leave */
        return;
    }
    *socket_ctx = c;
}

/* ---- start and stop
 * ----------------------------------------------------------------------------------------- */

qn_status qn_http_start(qn_server *s, qn_error *err)
{
    s->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, s, MHD_OPTION_LISTEN_SOCKET,
        s->listen_fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)s->o.max_connections,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)s->o.idle_timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 1, /* refuse what the standard forbids */
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
        MHD_OPTION_END);
    if (!s->daemon) return qn_fail(err, QN_IO, "the HTTP library does not start");
    s->listen_fd = -1; /* the library's now */
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = s};
    if (!info || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, info->epoll_fd, &e) != 0)
        return qn_fail(err, QN_IO, "the HTTP library has no epoll descriptor");
    return QN_OK;
}

void qn_http_stop_listening(qn_server *s)
{
    MHD_socket fd = MHD_quiesce_daemon(s->daemon);
    if (fd != MHD_INVALID_SOCKET) close(fd);
}

void qn_http_stop(qn_server *s)
{
    if (!s->daemon) return;
    for (qn_exchange *x = s->exchanges, *next; x;
         x = next) { /* the library refuses to end with suspended connections */
        next = x->next;
        x->gone = true;
        qn_http_continue(x);
    }
    MHD_stop_daemon(s->daemon);
    s->daemon = NULL;
}
