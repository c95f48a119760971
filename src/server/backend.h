/* backend.h - what the server needs of the rest of quern, as a table of functions: text functions and the
 * scheduler.
 *
 * The real one (backend_engine.c) points at quern.h and sched.h; tests put a fake in its place and so drive
 * the server into every state. The functions have the contracts of their namesakes there; self is handed to
 * each one. All but the job callback are called on the server's thread. */
#ifndef QN_SERVER_BACKEND_H
#define QN_SERVER_BACKEND_H

#include "base/status.h"
#include "runtime/sched.h"

typedef struct qn_server_backend {
    void *self;
    const char *model_name; /* the folder's name */
    uint32_t vocab;         /* prompt ids are below it */
    uint32_t context;       /* tokens of the longest sequence, prompt and answer */
    qn_sampling sampling;   /* for absent fields */

    qn_status (*tokenize)(void *self, const char *text, size_t n, bool special, int32_t **ids, size_t *n_ids,
                          qn_error *err);
    qn_status (*chat_tokenize)(void *self, const char *messages_json, size_t n, const qn_chat_options *o,
                               int32_t **ids, size_t *n_ids, bool *thinking, qn_error *err);

    qn_status (*detok_create)(void *self, qn_detok **out, qn_error *err);
    void (*detok_destroy)(qn_detok *d);
    qn_status (*detok_push)(qn_detok *d, int32_t id, const char **text, size_t *n, qn_error *err);
    qn_status (*detok_finish)(qn_detok *d, const char **text, size_t *n, qn_error *err);

    qn_status (*answer_create)(qn_answer **out, bool thinking, const char *tools_json, qn_error *err);
    void (*answer_destroy)(qn_answer *a);
    qn_status (*answer_push)(qn_answer *a, const char *text, size_t n, qn_answer_fn fn, void *ctx,
                             qn_error *err);
    qn_status (*answer_finish)(qn_answer *a, qn_answer_fn fn, void *ctx, qn_error *err);

    qn_status (*submit)(void *self, const qn_job_params *p, qn_job_id *id, qn_error *err);
    void (*cancel)(void *self, qn_job_id id);
    void (*stats)(void *self, qn_sched_stats *out);
} qn_server_backend;

/* The real one. model and sched are borrowed and must outlive the server's last request; self is kept in *b.
 * context: the engine's, in tokens. */
typedef struct qn_engine_backend {
    qn_server_backend table;
    const qn_model *model;
    qn_sched *sched;
} qn_engine_backend;
void qn_engine_backend_init(qn_engine_backend *b, const qn_model *model, qn_sched *sched, uint32_t context);

#endif
