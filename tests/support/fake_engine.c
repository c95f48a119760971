/* fake_engine.c - see fake_engine.h. */
#include "fake_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

static void die(const char *what)
{
    fprintf(stderr, "fake engine: waited 20 s for %s\n", what);
    abort();
}

/* ---- text
 * --------------------------------------------------------------------------------------------------- */

struct fake_detok {
    fake_engine *f;
};

static qn_status tokenize(void *self, const char *text, size_t n, bool special, int32_t **ids, size_t *n_ids,
                          qn_error *err)
{
    fake_engine *f = self;
    (void)err;
    f->last_special = special;
    *ids = calloc(n + 1, sizeof **ids);
    for (size_t i = 0; i < n; i++) (*ids)[i] = (unsigned char)text[i];
    *n_ids = n;
    return QN_OK;
}

static qn_status chat_tokenize(void *self, const char *messages, size_t n, const qn_chat_options *o,
                               int32_t **ids, size_t *n_ids, bool *thinking, qn_error *err)
{
    fake_engine *f = self;
    if (f->fail_template) {
        qn_fail(err, QN_INVALID, "messages[1]: the template refuses a second system message");
        qn_error_field(err, "messages[1]");
        return QN_INVALID;
    }
    snprintf(f->last_messages, sizeof f->last_messages, "%.*s", (int)n, messages);
    snprintf(f->last_tools, sizeof f->last_tools, "%s", o->tools_json ? o->tools_json : "");
    snprintf(f->last_vars, sizeof f->last_vars, "%s", o->template_vars_json ? o->template_vars_json : "");
    f->last_thinking = o->enable_thinking;
    *thinking = o->enable_thinking == 1;
    return tokenize(self, messages, n, false, ids, n_ids, err);
}

static qn_status detok_create(void *self, qn_detok **out, qn_error *err)
{
    struct fake_detok *d = calloc(1, sizeof *d);
    (void)err;
    d->f = self;
    *out = (qn_detok *)d;
    return QN_OK;
}

static void detok_destroy(qn_detok *d)
{
    free(d);
}

static qn_status detok_push(qn_detok *d, int32_t id, const char **text, size_t *n, qn_error *err)
{
    fake_engine *f = ((struct fake_detok *)d)->f;
    if (f->fail_detok || id < 0 || id >= f->n_pieces)
        return qn_fail(err, QN_INVALID, "token %d is outside the vocabulary", id);
    *text = f->pieces[id];
    *n = strlen(*text);
    return QN_OK;
}

static qn_status detok_finish(qn_detok *d, const char **text, size_t *n, qn_error *err)
{
    (void)d;
    (void)err;
    *text = "";
    *n = 0;
    return QN_OK;
}

struct fake_answer {
    enum { THOUGHT, CONTENT, NAME, ARGUMENTS } at;
    bool tools;
    uint32_t calls;
    char name[64];
    size_t n_name;
};

static qn_status answer_create(qn_answer **out, bool thinking, const char *tools, qn_error *err)
{
    struct fake_answer *a = calloc(1, sizeof *a);
    (void)err;
    a->at = thinking ? THOUGHT : CONTENT;
    a->tools = tools != NULL;
    *out = (qn_answer *)a;
    return QN_OK;
}

static void answer_destroy(qn_answer *a)
{
    free(a);
}

static qn_status answer_push(qn_answer *answer, const char *text, size_t n, qn_answer_fn fn, void *ctx,
                             qn_error *err)
{
    struct fake_answer *a = (struct fake_answer *)answer;
    (void)err;
    for (size_t i = 0; i < n;) {
        char c = text[i];
        if (c == 1 && a->at == THOUGHT) {
            a->at = CONTENT;
        } else if (c == 2 && a->tools) {
            a->at = NAME;
            a->n_name = 0;
        } else if (c == 3 && a->at == NAME) {
            fn(ctx,
               &(qn_answer_event){.kind = QN_ANSWER_CALL, .call = a->calls, .text = a->name, .n = a->n_name});
            a->at = ARGUMENTS;
        } else if (c == 4 && a->at == ARGUMENTS) {
            a->calls++;
            a->at = CONTENT;
        } else if (a->at == NAME) {
            if (a->n_name < sizeof a->name) a->name[a->n_name++] = c;
        } else {
            size_t from = i++; /* a mark that means nothing here is text */
            while (i < n && !(text[i] >= 1 && text[i] <= 4)) i++;
            fn(ctx, &(qn_answer_event){.kind = a->at == THOUGHT   ? QN_ANSWER_REASONING
                                               : a->at == CONTENT ? QN_ANSWER_CONTENT
                                                                  : QN_ANSWER_ARGUMENTS,
                                       .call = a->calls,
                                       .text = text + from,
                                       .n = i - from});
            continue;
        }
        i++;
    }
    return QN_OK;
}

static qn_status answer_finish(qn_answer *a, qn_answer_fn fn, void *ctx, qn_error *err)
{
    (void)a;
    (void)fn;
    (void)ctx;
    (void)err;
    return QN_OK;
}

/* ---- scheduler
 * ---------------------------------------------------------------------------------------------- */

static qn_status submit(void *self, const qn_job_params *p, qn_job_id *id, qn_error *err)
{
    fake_engine *f = self;
    qn_status st = QN_OK;
    uint32_t open = 0;
    pthread_mutex_lock(&f->lock);
    for (uint32_t i = 0; i < f->n_jobs; i++) open += !f->jobs[i].done;
    if (open >= f->max_open || f->n_jobs == FAKE_MAX_JOBS) {
        st = qn_fail(err, QN_BUSY, "the queue is full: %u requests wait", open);
    } else {
        fake_job *j = &f->jobs[f->n_jobs++];
        *j = (fake_job){.id = f->n_jobs, .p = *p, .first_id = p->prompt[0]};
        j->p.prompt = NULL;
        *id = j->id;
        pthread_cond_broadcast(&f->changed);
    }
    pthread_mutex_unlock(&f->lock);
    return st;
}

static void cancel(void *self, qn_job_id id)
{
    fake_engine *f = self;
    pthread_mutex_lock(&f->lock);
    if (id >= 1 && id <= f->n_jobs) f->jobs[id - 1].cancelled = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static void stats(void *self, qn_sched_stats *out)
{
    fake_engine *f = self;
    pthread_mutex_lock(&f->lock);
    *out = (qn_sched_stats){0};
    for (uint32_t i = 0; i < f->n_jobs; i++) out->n_active += !f->jobs[i].done;
    pthread_mutex_unlock(&f->lock);
}

static void wait_for(fake_engine *f, const bool *flag, uint32_t k, const char *what)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    pthread_mutex_lock(&f->lock);
    while (flag ? !*flag : f->n_jobs <= k)
        if (pthread_cond_timedwait(&f->changed, &f->lock, &until)) die(what);
    pthread_mutex_unlock(&f->lock);
}

void fake_wait_job(fake_engine *f, uint32_t k)
{
    wait_for(f, NULL, k, "a job");
}

void fake_wait_cancel(fake_engine *f, uint32_t k)
{
    fake_wait_job(f, k);
    wait_for(f, &f->jobs[k].cancelled, k, "a cancellation");
}

static void tell(fake_job *j, qn_job_event e)
{
    e.time_ns = qn_clock_ns();
    e.n_generated = j->n_generated;
    j->p.fn(j->p.ctx, &e);
}

void fake_admit(fake_engine *f, uint32_t k)
{
    (void)f;
    f->jobs[k].admitted = true;
    tell(&f->jobs[k], (qn_job_event){.kind = QN_JOB_ADMITTED});
}

void fake_token(fake_engine *f, uint32_t k, int32_t id)
{
    f->jobs[k].n_generated++;
    tell(&f->jobs[k], (qn_job_event){.kind = QN_JOB_TOKEN, .token = id});
}

void fake_done(fake_engine *f, uint32_t k, qn_job_finish how, const qn_error *err)
{
    fake_job *j = &f->jobs[k];
    if (how == QN_FINISH_STOP) j->n_generated++;
    tell(j, (qn_job_event){.kind = QN_JOB_DONE, .finish = how, .error = err});
    pthread_mutex_lock(&f->lock);
    j->done = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static bool cancelled(fake_engine *f, uint32_t k)
{
    pthread_mutex_lock(&f->lock);
    bool yes = f->jobs[k].cancelled || f->quit;
    pthread_mutex_unlock(&f->lock);
    return yes;
}

static void play_job(fake_engine *f, uint32_t k)
{
    uint32_t max = f->jobs[k].p.max_tokens;
    fake_admit(f, k);
    for (int32_t id = 0; id < f->n_pieces; id++) {
        if (cancelled(f, k)) {
            fake_done(f, k, QN_FINISH_CANCELLED, NULL);
            return;
        }
        fake_token(f, k, id);
        if (f->jobs[k].n_generated == max) {
            fake_done(f, k, QN_FINISH_LENGTH, NULL);
            return;
        }
    }
    fake_done(f, k, QN_FINISH_STOP, NULL);
}

static void *play(void *ctx)
{
    fake_engine *f = ctx;
    for (uint32_t k = 0;; k++) {
        pthread_mutex_lock(&f->lock);
        while (f->n_jobs <= k && !f->quit) pthread_cond_wait(&f->changed, &f->lock);
        bool end = f->n_jobs <= k;
        pthread_mutex_unlock(&f->lock);
        if (end) return NULL;
        play_job(f, k);
    }
}

void fake_engine_start(fake_engine *f, const char *const *pieces, int32_t n_pieces, bool automatic)
{
    *f = (fake_engine){.pieces = pieces, .n_pieces = n_pieces, .automatic = automatic, .max_open = 64};
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    f->table = (qn_server_backend){.self = f,
                                   .model_name = "fake",
                                   .vocab = FAKE_VOCAB,
                                   .context = FAKE_CONTEXT,
                                   .sampling = {.temperature = 0.6f, .top_p = 0.95f, .top_k = 20},
                                   .tokenize = tokenize,
                                   .chat_tokenize = chat_tokenize,
                                   .detok_create = detok_create,
                                   .detok_destroy = detok_destroy,
                                   .detok_push = detok_push,
                                   .detok_finish = detok_finish,
                                   .answer_create = answer_create,
                                   .answer_destroy = answer_destroy,
                                   .answer_push = answer_push,
                                   .answer_finish = answer_finish,
                                   .submit = submit,
                                   .cancel = cancel,
                                   .stats = stats};
    if (automatic && pthread_create(&f->player, NULL, play, f)) abort();
}

void fake_engine_stop(fake_engine *f)
{
    pthread_mutex_lock(&f->lock);
    f->quit = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    if (f->automatic) pthread_join(f->player, NULL);
    for (uint32_t k = 0; k < f->n_jobs; k++)
        if (!f->jobs[k].done) fake_done(f, k, QN_FINISH_CANCELLED, NULL);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
}

static void *run(void *ctx)
{
    fake_server *s = ctx;
    qn_error err = {0};
    s->status = qn_server_run(s->server, &err);
    if (s->status) fprintf(stderr, "server: %s\n", err.msg);
    return NULL;
}

void fake_server_start_loading(fake_server *s, const qn_server_options *o, const char *const *pieces,
                               int32_t n_pieces, bool automatic)
{
    qn_error err = {0};
    qn_server_options options = o ? *o : qn_server_options_defaults();
    options.port = 0;
    fake_engine_start(&s->engine, pieces, n_pieces, automatic);
    if (qn_server_create(&s->server, &options, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        abort();
    }
    s->port = qn_server_port(s->server);
    if (pthread_create(&s->thread, NULL, run, s)) abort();
}

void fake_server_start(fake_server *s, const qn_server_options *o, const char *const *pieces,
                       int32_t n_pieces, bool automatic)
{
    fake_server_start_loading(s, o, pieces, n_pieces, automatic);
    qn_server_set_backend(s->server, &s->engine.table);
}

void fake_server_stop(fake_server *s)
{
    qn_server_stop(s->server);
    pthread_join(s->thread, NULL);
    fake_engine_stop(&s->engine);
    qn_server_destroy(s->server);
}
