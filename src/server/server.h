/* server.h - the HTTP server: OpenAI's chat and completions over one backend (backend.h), on one thread.
 *
 * qn_server_create opens the listener, so that health can be asked while the model is still loading;
 * qn_server_set_backend opens the other doors. All HTTP, JSON and text work happens on the thread that calls
 * qn_server_run; the scheduler's thread only drops events into mailboxes. The server never opens a connection
 * of its own. docs/api.md has the doors, docs/life-of-a-request.md the way of one request. */
#ifndef QN_SERVER_SERVER_H
#define QN_SERVER_SERVER_H

#include "server/backend.h"

typedef struct qn_server qn_server;

typedef struct qn_server_options {
    const char *host;         /* name or address to listen on; "127.0.0.1" */
    uint16_t port;            /* 0: a free one */
    const char *model_id;     /* NULL: the backend's model_name */
    bool any_model;           /* accept every model name in requests */
    size_t max_body_bytes;    /* of a request; more is 413 */
    size_t max_bodies_bytes;  /* of all requests being received; more is 503 */
    size_t max_pending_bytes; /* of a stream that its reader does not take; more cancels the request */
    uint32_t max_connections;
    uint32_t idle_timeout_s; /* of a connection that neither sends nor receives; waiting for an answer does
                                not count */
    uint32_t keepalive_ms;   /* a silent stream gets a comment line that often */
    uint32_t drain_ms;       /* at the end running answers have so long before they are cancelled */
} qn_server_options;
qn_server_options qn_server_options_defaults(void);

/* Listen. Strings are copied. QN_IO names host and port ("port 8080 is in use"). */
qn_status qn_server_create(qn_server **out, const qn_server_options *o, qn_error *err) QN_CHECKED;

/* After qn_server_run has returned and the scheduler was destroyed (or never runs a job of this server
 * again). */
void qn_server_destroy(qn_server *s); /* accepts NULL */

uint16_t qn_server_port(const qn_server *s);

/* The model is there: *b is borrowed until destroy. Once, any thread. */
void qn_server_set_backend(qn_server *s, const qn_server_backend *b);

/* Serve until qn_server_stop, then stop accepting, let answers drain for drain_ms, cancel the rest, and
 * return. */
qn_status qn_server_run(qn_server *s, qn_error *err) QN_CHECKED;

/* Ask qn_server_run to end. Any thread, and from a signal handler. */
void qn_server_stop(qn_server *s);

#endif
