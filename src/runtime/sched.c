/* sched.c - the scheduler's thread: admits jobs, serves them in turns, draws their tokens.
 *
 *   submitted --admit()--> active --turn()--> ... --finish()--> gone
 *       \--- cancelled, shutting down: finish() ---/
 *
 * Locks: `lock` guards the queue, the ids and cancel marks, the stop flag and the published numbers. It is
 * never held while a step runs or a callback is called. Everything else belongs to the scheduler's thread. */
#include "runtime/sched.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/counters.h"
#include "runtime/engine.h"

typedef struct job {
    struct job *next;
    qn_job_id id;
    int32_t *prompt;
    uint32_t n_prompt, max_tokens;
    qn_sampling sampling;
    qn_job_fn fn;
    void *ctx;
    bool cancelled; /* under the lock */
    /* of the scheduler's thread, once active */
    qn_seq *seq;
    uint32_t n_prefilled, n_generated;
    int32_t last;
    qn_commit_log commits;
} job;

struct qn_sched {
    qn_engine *engine;
    const qn_model *model;
    qn_sched_options o;
    float *logits; /* [vocab], of the turn */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* a job came, was cancelled, or stop was set */
    job *queue;          /* oldest first */
    job *active;         /* changed by the thread under the lock, so that cancel may walk it */
    uint32_t n_queued, n_active;
    qn_job_id last_id;
    bool stop;
    qn_sched_stats stats;
};

qn_sched_options qn_sched_options_defaults(void)
{
    return (qn_sched_options){.max_active = 1, .max_queued = 64};
}

static void job_free(job *j)
{
    qn_commit_log_deinit(&j->commits);
    free(j->prompt);
    free(j);
}

static qn_job_event event(const job *j, qn_job_kind kind)
{
    return (qn_job_event){.kind = kind,
                          .n_prefilled = j->n_prefilled,
                          .n_generated = j->n_generated,
                          .time_ns = qn_clock_ns(),
                          .commits = &j->commits};
}

static void emit(const job *j, qn_job_event e)
{
    j->fn(j->ctx, &e);
}

/* Unlink, return what the job holds, publish, tell its owner, free. */
static void finish(qn_sched *s, job *j, qn_job_finish why, const qn_error *error)
{
    bool was_active = j->seq != NULL;
    qn_seq_destroy(j->seq);
    pthread_mutex_lock(&s->lock);
    job **list = was_active ? &s->active : &s->queue;
    while (*list != j) list = &(*list)->next;
    *list = j->next;
    if (was_active)
        s->n_active--;
    else
        s->n_queued--;
    s->stats.n_done++;
    s->stats.n_cancelled += why == QN_FINISH_CANCELLED;
    s->stats.n_failed += why == QN_FINISH_ERROR;
    if (why == QN_FINISH_CANCELLED) qn_counter_add(qn_counter_get("runtime.jobs.cancelled"), 1);
    if (why == QN_FINISH_ERROR) qn_counter_add(qn_counter_get("runtime.jobs.failed"), 1);
    s->stats.slots_free = qn_engine_slots_free(s->engine);
    s->stats.pages_free = qn_engine_pages_free(s->engine);
    pthread_mutex_unlock(&s->lock);
    qn_job_event e = event(j, QN_JOB_DONE);
    e.finish = why;
    e.error = error;
    emit(j, e);
    job_free(j);
}

/* Give the oldest job a sequence and all the pages it can need. False when it must wait. */
static bool admit(qn_sched *s, job *j)
{
    qn_error err;
    qn_seq *seq = NULL;
    qn_status st = qn_seq_create(&seq, s->engine, &err);
    if (!st) st = qn_seq_reserve(seq, j->n_prompt + j->max_tokens, &err);
    if (st) {
        qn_seq_destroy(seq);
        if (st == QN_BUSY && s->n_active) return false; /* what runs will make room */
        finish(s, j, QN_FINISH_ERROR, &err);
        return true;
    }
    pthread_mutex_lock(&s->lock);
    s->queue = j->next;
    s->n_queued--;
    j->next = NULL;
    j->seq = seq;
    job **end = &s->active;
    while (*end) end = &(*end)->next;
    *end = j;
    s->n_active++;
    s->stats.slots_free = qn_engine_slots_free(s->engine);
    s->stats.pages_free = qn_engine_pages_free(s->engine);
    pthread_mutex_unlock(&s->lock);
    emit(j, event(j, QN_JOB_ADMITTED));
    return true;
}

/* One turn: a prefill slice or one decode token. Returns false when the job has ended. */
static bool turn(qn_sched *s, job *j)
{
    qn_error err;
    qn_step_item item = {.seq = j->seq, .tokens = &j->last, .n_tokens = 1, .n_logits = 1};
    bool prefill = j->n_prefilled < j->n_prompt;
    if (prefill) {
        uint32_t left = j->n_prompt - j->n_prefilled, slice = qn_engine_slice(s->engine);
        item.tokens = j->prompt + j->n_prefilled;
        item.n_tokens = left < slice ? left : slice;
        item.n_logits = item.n_tokens == left;
    }
    qn_status st = qn_step(s->engine, prefill ? QN_PREFILL : QN_DECODE, &item, 1, s->logits, &err);
    if (st) return finish(s, j, QN_FINISH_ERROR, &err), false;
    if (prefill) {
        j->n_prefilled += item.n_tokens;
        pthread_mutex_lock(&s->lock);
        s->stats.prompt_tokens += item.n_tokens;
        pthread_mutex_unlock(&s->lock);
        emit(j, event(j, QN_JOB_PROGRESS));
        if (j->n_prefilled < j->n_prompt) return true;
    }
    st = qn_sample(s->model, s->logits, &j->sampling, (uint64_t)j->n_prompt + j->n_generated, &j->last, &err);
    if (st) return finish(s, j, QN_FINISH_ERROR, &err), false;
    qn_job_event e = event(j, QN_JOB_TOKEN);
    if (!qn_commit_log_append(&j->commits, e.time_ns, 1)) {
        st = qn_fail(&err, QN_NOMEM, "no memory for the commit log");
        return finish(s, j, QN_FINISH_ERROR, &err), false;
    }
    e.n_generated = ++j->n_generated;
    e.token = j->last;
    pthread_mutex_lock(&s->lock);
    s->stats.generated_tokens++;
    pthread_mutex_unlock(&s->lock);
    if (qn_model_is_stop(s->model, j->last)) return finish(s, j, QN_FINISH_STOP, NULL), false;
    emit(j, e);
    if (j->n_generated >= j->max_tokens) return finish(s, j, QN_FINISH_LENGTH, NULL), false;
    return true;
}

static bool is_cancelled(qn_sched *s, const job *j)
{
    pthread_mutex_lock(&s->lock);
    bool c = j->cancelled || s->stop;
    pthread_mutex_unlock(&s->lock);
    return c;
}

/* End the jobs of a list that were cancelled; the thread is the only one to unlink. */
static void sweep(qn_sched *s, job *const *list)
{
    pthread_mutex_lock(&s->lock);
    job *j = *list;
    pthread_mutex_unlock(&s->lock);
    while (j) {
        pthread_mutex_lock(&s->lock);
        job *next = j->next; /* submit may append behind the last one meanwhile */
        pthread_mutex_unlock(&s->lock);
        if (is_cancelled(s, j)) finish(s, j, QN_FINISH_CANCELLED, NULL);
        j = next;
    }
}

static job *oldest(qn_sched *s)
{
    pthread_mutex_lock(&s->lock);
    job *j = s->n_active < s->o.max_active ? s->queue : NULL;
    pthread_mutex_unlock(&s->lock);
    return j;
}

static void *run(void *arg)
{
    qn_sched *s = arg;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        while (!s->stop && !s->queue && !s->active) pthread_cond_wait(&s->wake, &s->lock);
        bool done = s->stop && !s->queue && !s->active;
        pthread_mutex_unlock(&s->lock);
        if (done) return NULL;
        sweep(s, &s->queue);
        sweep(s, &s->active);
        for (job *j; (j = oldest(s)) && admit(s, j);) continue;
        for (job *j = s->active, *next; j; j = next) {
            next = j->next; /* a turn may end the job */
            if (is_cancelled(s, j))
                finish(s, j, QN_FINISH_CANCELLED, NULL);
            else
                turn(s, j);
        }
    }
}

qn_status qn_sched_create(qn_sched **out, qn_engine *e, const qn_model *m, const qn_sched_options *o,
                          qn_error *err)
{
    *out = NULL;
    if (o->max_active < 1) return qn_fail(err, QN_INVALID, "max_active must be at least 1");
    qn_sched *s = calloc(1, sizeof *s);
    if (s) s->logits = calloc(qn_model_vocab_size(m), sizeof *s->logits);
    if (!s || !s->logits) {
        free(s);
        return qn_fail(err, QN_NOMEM, "no memory for a scheduler");
    }
    s->engine = e;
    s->model = m;
    s->o = *o;
    s->stats.slots_free = qn_engine_slots_free(e);
    s->stats.pages_free = qn_engine_pages_free(e);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wake, NULL);
    if (pthread_create(&s->thread, NULL, run, s)) {
        pthread_mutex_destroy(&s->lock);
        pthread_cond_destroy(&s->wake);
        free(s->logits);
        free(s);
        return qn_fail(err, QN_NOMEM, "the scheduler's thread could not be started");
    }
    *out = s;
    return QN_OK;
}

void qn_sched_destroy(qn_sched *s)
{
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->wake);
    free(s->logits);
    free(s);
}

/* Copy the parameters into a job, checked and clamped. */
static qn_status job_make(const qn_sched *s, const qn_job_params *p, job **out, qn_error *err)
{
    uint32_t context = qn_engine_context(s->engine), vocab = qn_model_vocab_size(s->model);
    *out = NULL;
    if (p->n_prompt < 1) return qn_fail(err, QN_INVALID, "the prompt has no tokens");
    if (p->n_prompt >= context)
        return qn_fail(err, QN_CONTEXT,
                       "the prompt has %u tokens, and the context of %u must hold at least one more",
                       p->n_prompt, context);
    if (p->max_tokens < 1) return qn_fail(err, QN_INVALID, "max_tokens must be at least 1");
    for (uint32_t i = 0; i < p->n_prompt; i++)
        if (p->prompt[i] < 0 || (uint32_t)p->prompt[i] >= vocab)
            return qn_fail(err, QN_INVALID, "token %u of the prompt is %d, outside 0 .. %u", i, p->prompt[i],
                           vocab - 1);
    job *j = calloc(1, sizeof *j);
    if (j) j->prompt = malloc(p->n_prompt * sizeof *j->prompt);
    if (!j || !j->prompt) {
        free(j);
        return qn_fail(err, QN_NOMEM, "no memory for a prompt of %u tokens", p->n_prompt);
    }
    memcpy(j->prompt, p->prompt, p->n_prompt * sizeof *j->prompt);
    j->n_prompt = p->n_prompt;
    j->max_tokens = p->max_tokens < context - p->n_prompt ? p->max_tokens : context - p->n_prompt;
    j->sampling = p->sampling;
    j->fn = p->fn;
    j->ctx = p->ctx;
    *out = j;
    return QN_OK;
}

qn_status qn_sched_submit(qn_sched *s, const qn_job_params *p, qn_job_id *id, qn_error *err)
{
    job *j;
    qn_status st = job_make(s, p, &j, err);
    if (st) return st;
    pthread_mutex_lock(&s->lock);
    if (s->stop)
        st = qn_fail(err, QN_UNAVAILABLE, "shutting down");
    else if (s->n_queued >=
             s->o.max_queued + (s->o.max_active - s->n_active)) /* free places are not a queue */
        st =
            qn_fail(err, QN_BUSY, "%u requests run and %u wait; no more are taken", s->n_active, s->n_queued);
    if (!st) {
        j->id = *id = ++s->last_id;
        job **end = &s->queue;
        while (*end) end = &(*end)->next;
        *end = j;
        s->n_queued++;
        pthread_cond_signal(&s->wake);
    }
    pthread_mutex_unlock(&s->lock);
    if (st) job_free(j);
    return st;
}

void qn_sched_cancel(qn_sched *s, qn_job_id id)
{
    pthread_mutex_lock(&s->lock);
    for (job *j = s->queue; j; j = j->next) j->cancelled |= j->id == id;
    for (job *j = s->active; j; j = j->next) j->cancelled |= j->id == id;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
}

void qn_sched_get_stats(qn_sched *s, qn_sched_stats *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->stats;
    out->n_active = s->n_active;
    out->n_queued = s->n_queued;
    pthread_mutex_unlock(&s->lock);
}
