/* server.c - the listener and the loop: one epoll set holds the HTTP library's descriptor, the watch on every
 * connection, and the eventfd that the scheduler's thread and qn_server_stop ring. */
#include "server/server_int.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define MAIL_BATCH    1024 /* mailboxes handled before the sockets are looked at again */
#define LAST_WORDS_MS 1000 /* for clients to take their last bytes after the answers were cancelled */

qn_server_options qn_server_options_defaults(void)
{
    return (qn_server_options){.host = "127.0.0.1",
                               .port = 8080,
                               .max_body_bytes = (size_t)32 << 20,
                               .max_bodies_bytes = (size_t)256 << 20,
                               .max_pending_bytes = (size_t)1 << 20,
                               .max_connections = 1000,
                               .idle_timeout_s = 120,
                               .keepalive_ms = 10000,
                               .drain_ms = 2000};
}

static qn_status listen_on(qn_server *s, qn_error *err)
{
    char port[8];
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM},
                    *list = NULL;
    snprintf(port, sizeof port, "%u", (unsigned)s->o.port);
    int rc = getaddrinfo(s->host, port, &hints, &list);
    if (rc) return qn_fail(err, QN_IO, "cannot listen on %s: %s", s->host, gai_strerror(rc));
    int why = 0;
    for (const struct addrinfo *a = list; a && s->listen_fd < 0; a = a->ai_next) {
        int on = 1, fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            why = errno;
            continue;
        }
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on,
                   sizeof on); /* ports of ended connections only; a live listener stays a conflict */
        if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 512) == 0) {
            s->listen_fd = fd;
        } else {
            why = errno;
            close(fd);
        }
    }
    freeaddrinfo(list);
    if (s->listen_fd < 0 && why == EADDRINUSE)
        return qn_fail(err, QN_IO, "port %u of %s is in use", (unsigned)s->o.port, s->host);
    if (s->listen_fd < 0)
        return qn_fail(err, QN_IO, "cannot listen on %s port %u: %s", s->host, (unsigned)s->o.port,
                       strerror(why));
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    if (getsockname(s->listen_fd, (struct sockaddr *)&at, &n) != 0)
        return qn_fail(err, QN_IO, "getsockname: %s", strerror(errno));
    s->port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                             : ((struct sockaddr_in *)&at)->sin_port);
    return QN_OK;
}

qn_status qn_server_create(qn_server **out, const qn_server_options *o, qn_error *err)
{
    *out = NULL;
    qn_server *s = calloc(1, sizeof *s);
    qn_status st = QN_OK;
    if (!s) return qn_fail(err, QN_NOMEM, "no memory for the server");
    s->listen_fd = s->epoll_fd = s->wake_fd = -1;
    pthread_mutex_init(&s->mail_lock, NULL);
    s->o = *o;
    s->start_time = (int64_t)time(NULL);
    s->host = strdup(o->host);
    s->model_id = o->model_id ? strdup(o->model_id) : NULL;
    s->n_requests = qn_counter_get("server.requests");
    s->n_unknown_fields = qn_counter_get("server.unknown_fields");
    s->n_refused = qn_counter_get("server.refused");
    s->n_gone = qn_counter_get("server.clients_gone");
    s->n_slow = qn_counter_get("server.slow_readers");
    if (!s->host || (o->model_id && !s->model_id)) st = qn_fail(err, QN_NOMEM, "no memory for the server");
    if (!st) st = listen_on(s, err);
    if (!st) {
        s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        s->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
        if (s->epoll_fd < 0 || s->wake_fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->wake_fd, &e) != 0)
            st = qn_fail(err, QN_IO, "the server's event loop: %s", strerror(errno));
    }
    if (!st) st = qn_http_start(s, err);
    if (!st) {
        *out = s;
        s = NULL;
    }
    qn_server_destroy(s);
    return st;
}

void qn_server_destroy(qn_server *s)
{
    if (!s) return;
    qn_http_stop(s);
    while (qn_exchange_next_mail(s)) continue; /* the DONE of jobs that were cancelled at the end */
    if (s->listen_fd >= 0) close(s->listen_fd);
    if (s->epoll_fd >= 0) close(s->epoll_fd);
    if (s->wake_fd >= 0) close(s->wake_fd);
    pthread_mutex_destroy(&s->mail_lock);
    free(s->host);
    free(s->model_id);
    free(s);
}

uint16_t qn_server_port(const qn_server *s)
{
    return s->port;
}

const char *qn_server_model_id(const qn_server *s)
{
    const qn_server_backend *b = atomic_load(&s->backend);
    return s->model_id ? s->model_id : b->model_name;
}

void qn_server_set_backend(qn_server *s, const qn_server_backend *b)
{
    atomic_store(&s->backend, b);
}

static void ring(const qn_server *s)
{
    uint64_t one = 1;
    if (write(s->wake_fd, &one, sizeof one) < 0) return; /* full: a wake-up is pending */
}

void qn_server_stop(qn_server *s)
{
    atomic_store(&s->stopping, true);
    ring(s);
}

/* ---- the loop
 * ------------------------------------------------------------------------------------------------ */

static int min_timeout(int a, int64_t b)
{
    return a < 0 || b < a ? (int)b : a;
}

/* How long to sleep: until the library's next time-out, the next look at silent streams, or the end of the
 * drain. */
static int sleep_ms(const qn_server *s, uint64_t now, uint64_t until)
{
    MHD_UNSIGNED_LONG_LONG lib;
    int t = -1;
    if (MHD_get_timeout(s->daemon, &lib) == MHD_YES)
        t = min_timeout(t, lib > 3600000 ? 3600000 : (int64_t)lib);
    for (const qn_exchange *x = s->exchanges; x; x = x->next) {
        if (x->state != QN_X_STREAMING || x->ended || x->gone) continue;
        uint64_t due = x->last_out_ns + (uint64_t)s->o.keepalive_ms * 1000000u;
        t = min_timeout(t, due > now ? (int64_t)((due - now) / 1000000 + 1) : 0);
    }
    if (until) t = min_timeout(t, until > now ? (int64_t)((until - now) / 1000000 + 1) : 0);
    return t;
}

static qn_status turn(qn_server *s, uint64_t until, qn_error *err)
{
    struct epoll_event events[64];
    int n = epoll_wait(s->epoll_fd, events, 64, sleep_ms(s, qn_clock_ns(), until));
    if (n < 0 && errno != EINTR) return qn_fail(err, QN_IO, "epoll_wait: %s", strerror(errno));
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr == NULL) {
            uint64_t count;
            if (read(s->wake_fd, &count, sizeof count) < 0) continue; /* somebody was faster */
        } else if (events[i].data.ptr != s) {
            qn_http_peer_left(
                events[i].data.ptr); /* connections end in MHD_run only, so the pointer is alive */
        }
    }
    int batch = 0;
    while (batch < MAIL_BATCH && qn_exchange_next_mail(s)) batch++;
    if (batch == MAIL_BATCH) ring(s);
    uint64_t now = qn_clock_ns();
    for (qn_exchange *x = s->exchanges; x; x = x->next) qn_exchange_tick(x, now);
    if (MHD_run(s->daemon) != MHD_YES) return qn_fail(err, QN_INTERNAL, "the HTTP library gave up");
    return QN_OK;
}

static bool any_exchange(const qn_server *s)
{
    for (const qn_exchange *x = s->exchanges; x; x = x->next)
        if (x->state != QN_X_READING) return true;
    return false;
}

qn_status qn_server_run(qn_server *s, qn_error *err)
{
    qn_status st = QN_OK;
    while (!st && !atomic_load(&s->stopping)) st = turn(s, 0, err);
    if (st) return st;
    s->draining = true;
    qn_http_stop_listening(s);
    uint64_t end = qn_clock_ns() + (uint64_t)s->o.drain_ms * 1000000u;
    while (!st && any_exchange(s) && qn_clock_ns() < end) st = turn(s, end, err);
    for (qn_exchange *x = s->exchanges; x; x = x->next) qn_exchange_cancel(x);
    ring(
        s); /* a resumed connection does not end a sleep by itself; everywhere else MHD_run follows at once */
    end = qn_clock_ns() + (uint64_t)LAST_WORDS_MS * 1000000u;
    while (!st && any_exchange(s) && qn_clock_ns() < end) st = turn(s, end, err);
    return st;
}
