/* server_int.h - what server.c (loop), http.c (library) and exchange.c (one request) share; private to
 * src/server.
 *
 * An exchange is one request and its answer. Two parties hold it: the HTTP library, until http_completed, and
 * the scheduler, from submit until DONE. It is freed, on the server's thread, when both have let go.
 *
 *      READING --body complete--> (answer at once) -------------------------------> REPLY
 *         \--submit--> WAITING --admitted, stream--> STREAMING --finish--> STREAMING, out_end
 *                         \--done or failed-------------------------------------> REPLY
 *      any state --client gone--> `gone` is set: the job is cancelled and nothing more is written
 *
 * All fields belong to the server's thread, but for the mailbox, which the server's mail_lock guards. */
#ifndef QN_SERVER_SERVER_INT_H
#define QN_SERVER_SERVER_INT_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/counters.h"
#include "server/api_reply.h"
#include "server/api_request.h"
#include "server/server.h"

typedef struct qn_exchange qn_exchange;

/* One TCP connection; lives from the library's start to its end of it. */
typedef struct qn_conn {
    qn_server *srv;
    struct MHD_Connection *http;
    int fd;
    bool gone;            /* the peer has closed its side or reset */
    qn_exchange *current; /* the request being answered, or NULL */
} qn_conn;

/* Events of a job on their way from the scheduler's thread to the server's; guarded by mail_lock. */
typedef struct qn_mailbox {
    int32_t *tokens;
    size_t n_tokens, cap;
    bool listed;               /* in the server's list of mail */
    bool admitted, done, lost; /* lost: no memory for a token */
    uint32_t n_cached, n_generated;
    uint64_t admitted_ns, first_token_ns;
    qn_job_finish finish;
    qn_error error;
    qn_exchange *next;
} qn_mailbox;

typedef enum qn_exchange_state { QN_X_READING, QN_X_WAITING, QN_X_STREAMING, QN_X_REPLY } qn_exchange_state;

struct qn_exchange {
    qn_server *srv;
    qn_conn *conn;               /* NULL once the library has let go */
    struct MHD_Connection *http; /* likewise */
    qn_exchange *prev, *next;    /* all exchanges of the server */
    qn_exchange_state state;
    bool suspended; /* the library leaves the connection alone */
    bool replied;   /* a response was handed to the library */
    bool gone;      /* the client left */
    char id[48];
    char method[12];
    char path[96]; /* printable, for the log */
    uint64_t start_ns;

    qn_buf body;      /* counted in srv->bodies_bytes */
    bool refused;     /* `error` is known; the rest of the body is dropped */
    uint64_t dropped; /* bytes of it */
    qn_error error;

    /* the whole answer */
    int status;
    const char *allow; /* for 405 */
    qn_buf reply;

    /* the stream */
    qn_buf out; /* not yet taken by the library */
    bool out_end;
    uint64_t last_out_ns;

    /* generation */
    qn_api_request req;
    qn_reply_head head;
    int64_t created;
    const qn_server_backend *backend; /* NULL: nothing to generate */
    qn_job_id job;
    bool submitted, job_done; /* the scheduler holds the exchange from one to the other */
    bool cancelled;           /* qn_sched_cancel was called */
    bool ended;               /* the answer is complete or has failed; later events are dropped */
    bool started;             /* admitted was seen */
    uint32_t n_prompt;
    uint32_t n_seen; /* tokens processed */
    uint32_t n_reasoning;
    uint32_t n_completion;
    uint32_t n_cached;
    bool in_thought;
    const char *finish; /* finish_reason; for the log also "cancelled", "error" */
    qn_detok *detok;
    qn_answer *answer;
    qn_stop_match *stop;
    bool stop_hit;
    qn_status sink_status; /* a failure inside the parser's callback */
    uint32_t n_calls;
    qn_buf content, reasoning, calls; /* whole answers only */
    uint64_t admitted_ns, first_token_ns;

    int32_t *taken; /* the array that is exchanged with the mailbox's */
    size_t taken_cap;
    qn_mailbox mail;
};

struct qn_server {
    qn_server_options o;
    char *host, *model_id;
    int listen_fd, epoll_fd, wake_fd;
    uint16_t port;
    struct MHD_Daemon *daemon;
    _Atomic(const qn_server_backend *) backend; /* NULL while loading */
    atomic_bool stopping;
    bool draining; /* the server's thread has seen `stopping` */
    int64_t start_time;
    qn_exchange *exchanges;
    size_t bodies_bytes;
    uint64_t ids; /* mixed with random bits into request ids */

    pthread_mutex_t
        mail_lock; /* guards `mail` and every exchange's mailbox; taken last, held for a few instructions */
    qn_exchange *mail,
        *mail_last; /* mailboxes that have something, in order of arrival; mail_last is set when mail is */

    qn_counter *n_requests, *n_unknown_fields, *n_refused, *n_gone, *n_slow;
};

/* server.c */
const char *qn_server_model_id(const qn_server *s); /* with a backend only */

/* http.c */
qn_status qn_http_start(qn_server *s, qn_error *err) QN_CHECKED;
void qn_http_stop_listening(qn_server *s);
void qn_http_stop(qn_server *s);
void qn_http_peer_left(qn_conn *c);    /* the watch reported FIN or RST */
void qn_http_continue(qn_exchange *x); /* there is something to send: let the library come back for it */

/* exchange.c */
qn_exchange *qn_exchange_create(qn_server *s, qn_conn *c, struct MHD_Connection *http, const char *method,
                                const char *url);
void qn_exchange_dispatch(qn_exchange *x, const char *method,
                          const char *url);                   /* the body is complete: answer, or submit */
void qn_exchange_refuse(qn_exchange *x, const qn_error *err); /* answer with an error */
void qn_exchange_leave(qn_exchange *x);                       /* the client is gone */
void qn_exchange_release(qn_exchange *x);                     /* the library has let go; x may be freed */
void qn_exchange_cancel(qn_exchange *x);                      /* the server shuts down */
bool qn_exchange_next_mail(qn_server *s);               /* handle one mailbox; false when there is none */
void qn_exchange_tick(qn_exchange *x, uint64_t now_ns); /* keep-alive lines */

/* answer_out.c: tokens to text to bytes */
qn_status qn_answer_out_open(qn_exchange *x, bool thinking, qn_error *err) QN_CHECKED;
void qn_answer_out_close(qn_exchange *x);
void qn_answer_out_begin(qn_exchange *x); /* the first chunk of a stream */
qn_status qn_answer_out_token(qn_exchange *x, int32_t id, qn_error *err) QN_CHECKED; /* sets stop_hit */
qn_status qn_answer_out_finish(qn_exchange *x, qn_job_finish how,
                               qn_error *err) QN_CHECKED;     /* the rest, and the end */
void qn_answer_out_fail(qn_exchange *x, const qn_error *err); /* an error inside a stream, and the end */

#endif
