/* sched.h - the scheduler: one thread owns the engine and all its sequences; everybody else hands it
 * messages.
 *
 * A job is one prompt and its continuation. Jobs wait in a bounded queue, are admitted when a sequence slot
 * and pages for prompt + max_tokens are free, and are served in turns: one prefill slice or one decode token
 * each. Events of a job come on the scheduler's thread through its callback, which must not block and must
 * not call back into the scheduler other than qn_sched_cancel; after DONE the callback is never called again.
 *
 * qn_sched_submit, _cancel and _stats: any thread. The engine must not be touched by others while the
 * scheduler lives. */
#ifndef QN_RUNTIME_SCHED_H
#define QN_RUNTIME_SCHED_H

#include "base/status.h"
#include "runtime/commit_log.h"

typedef struct qn_sched qn_sched;

typedef struct qn_sched_options {
    uint32_t max_active; /* jobs that hold a sequence at the same time */
    uint32_t max_queued; /* jobs that wait; one more is QN_BUSY */
} qn_sched_options;
qn_sched_options qn_sched_options_defaults(void);

typedef enum qn_job_finish {
    QN_FINISH_STOP,      /* a stop token was drawn (it is not reported, but counted) */
    QN_FINISH_LENGTH,    /* max_tokens or the context is used up */
    QN_FINISH_CANCELLED, /* qn_sched_cancel, or shutdown */
    QN_FINISH_ERROR      /* event.error says why */
} qn_job_finish;

typedef enum qn_job_kind {
    QN_JOB_ADMITTED, /* holds a sequence now; prefill begins */
    QN_JOB_PROGRESS, /* n_prefilled of the prompt are done */
    QN_JOB_TOKEN,    /* one more token; never a stop token */
    QN_JOB_DONE      /* finish, n_generated; the last event */
} qn_job_kind;

typedef struct qn_job_event {
    qn_job_kind kind;
    int32_t token;                /* TOKEN */
    uint32_t n_prefilled;         /* PROGRESS, and later */
    uint32_t n_cached;            /* prompt tokens not computed again; 0 in this version */
    uint32_t n_generated;         /* tokens drawn so far, the stop token included */
    uint64_t time_ns;             /* monotonic clock of the commit */
    qn_job_finish finish;         /* DONE */
    const qn_error *error;        /* DONE with QN_FINISH_ERROR; valid during the call */
    const qn_commit_log *commits; /* DONE: one entry per drawn token; valid during the call */
} qn_job_event;

typedef void (*qn_job_fn)(void *ctx, const qn_job_event *e);

typedef struct qn_job_params {
    const int32_t *prompt; /* copied */
    uint32_t n_prompt;     /* at least 1 */
    uint32_t max_tokens;   /* at least 1; clamped to the room left in the context */
    qn_sampling sampling;
    qn_job_fn fn;
    void *ctx;
} qn_job_params;

typedef uint64_t qn_job_id; /* never 0, never used twice */

/* Starts the thread. The engine is borrowed and must outlive the scheduler. */
qn_status qn_sched_create(qn_sched **out, qn_engine *e, const qn_model *m, const qn_sched_options *o,
                          qn_error *err) QN_CHECKED;
/* Cancels what runs (each job still gets its DONE), joins the thread. */
void qn_sched_destroy(qn_sched *s);

/* Hand over a job. QN_INVALID for ids outside the vocabulary, QN_BUSY when the queue is full, QN_CONTEXT when
 * the prompt leaves no room for one token (the message has both numbers), QN_UNAVAILABLE while shutting down.
 * No event comes when this fails. */
qn_status qn_sched_submit(qn_sched *s, const qn_job_params *p, qn_job_id *id, qn_error *err) QN_CHECKED;

/* Ask a job to end; it takes effect within one step. Unknown and ended ids are ignored. */
void qn_sched_cancel(qn_sched *s, qn_job_id id);

typedef struct qn_sched_stats {
    uint32_t n_active, n_queued;
    uint64_t n_done, n_cancelled, n_failed;
    uint64_t prompt_tokens, generated_tokens;
    uint32_t slots_free; /* sequence slots of the engine */
    uint64_t pages_free; /* KV pages of the engine */
} qn_sched_stats;
void qn_sched_get_stats(qn_sched *s, qn_sched_stats *out);

#endif
