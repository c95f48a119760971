/* test_sched.c - the scheduler: jobs in turns, cancellation in every state, a full queue, shutdown, nothing
 * lost. */
#include "tap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/engine.h"
#include "runtime/sched.h"

static qn_model *model;

/* What a job's callback saw; guarded by the lock. */
typedef struct watch {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    qn_job_finish finish;
    uint32_t n_admitted, n_progress, n_tokens, n_done, n_generated, n_commits;
    int32_t tokens[256];
    char error[512];
} watch;

static void watch_init(watch *w)
{
    memset(w, 0, sizeof *w);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
}

static void on_event(void *ctx, const qn_job_event *e)
{
    watch *w = ctx;
    pthread_mutex_lock(&w->lock);
    w->n_admitted += e->kind == QN_JOB_ADMITTED;
    w->n_progress += e->kind == QN_JOB_PROGRESS;
    if (e->kind == QN_JOB_TOKEN && w->n_tokens < 256) w->tokens[w->n_tokens++] = e->token;
    if (e->kind == QN_JOB_DONE) {
        w->n_done++;
        w->finish = e->finish;
        w->n_generated = e->n_generated;
        w->n_commits = (uint32_t)e->commits->n;
        if (e->error) memcpy(w->error, e->error->msg, sizeof w->error);
    }
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

/* Wait until *counter reaches n; a guard against hanging, far above what any build needs. */
static void wait_for(watch *w, const uint32_t *counter, uint32_t n)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 600;
    pthread_mutex_lock(&w->lock);
    while (*counter < n)
        if (pthread_cond_timedwait(&w->changed, &w->lock, &end)) {
            pthread_mutex_unlock(&w->lock);
            fail_msg("nothing happened for ten minutes");
        }
    pthread_mutex_unlock(&w->lock);
}

typedef struct fixture {
    qn_engine *engine;
    qn_sched *sched;
} fixture;

static fixture start(uint32_t streams, uint32_t max_queued, uint64_t pool_tokens)
{
    qn_error err = {0};
    fixture f;
    qn_engine_options o = qn_engine_options_defaults();
    o.max_sequences = streams;
    o.context = 4096;
    o.slice = 64;
    o.pool_tokens = pool_tokens;
    if (qn_engine_create(&f.engine, model, &o, &err)) fail_msg("%s", err.msg);
    qn_sched_options so = {.max_active = streams, .max_queued = max_queued};
    if (qn_sched_create(&f.sched, f.engine, model, &so, &err)) fail_msg("%s", err.msg);
    return f;
}

static void end(fixture *f)
{
    qn_sched_destroy(f->sched);
    qn_engine_destroy(f->engine);
}

/* A prompt that the model goes on with for long: the same few ids over and over. */
static qn_status submit(fixture *f, watch *w, uint32_t n_prompt, uint32_t max_tokens, qn_job_id *id,
                        qn_error *err)
{
    int32_t *prompt = calloc(n_prompt, sizeof *prompt);
    for (uint32_t i = 0; i < n_prompt; i++) prompt[i] = (int32_t)(300 + i % 7);
    qn_job_params p = {
        .prompt = prompt, .n_prompt = n_prompt, .max_tokens = max_tokens, .fn = on_event, .ctx = w};
    qn_status st = qn_sched_submit(f->sched, &p, id, err);
    free(prompt);
    return st;
}

static void nothing_is_lost(fixture *f, uint32_t streams)
{
    qn_sched_stats s;
    qn_sched_get_stats(f->sched, &s);
    assert_int_equal(s.n_active + s.n_queued, 0);
    assert_int_equal(s.slots_free, streams);
    assert_int_equal(s.pages_free, qn_engine_pages_total(f->engine));
}

static void jobs_in_turns_give_the_same_tokens_as_alone(void **state)
{
    (void)state;
    qn_error err = {0};
    qn_job_id id;
    watch alone, many[3];
    fixture f = start(3, 8, 0);
    watch_init(&alone);
    assert_int_equal(submit(&f, &alone, 150, 24, &id, &err), QN_OK);
    wait_for(&alone, &alone.n_done, 1);
    assert_int_equal(alone.n_admitted, 1);
    assert_int_equal(alone.n_progress, 3);
    assert_int_equal(alone.n_commits, alone.n_generated);
    for (int i = 0; i < 3; i++) {
        watch_init(&many[i]);
        assert_int_equal(submit(&f, &many[i], 150, 24, &id, &err), QN_OK);
    }
    for (int i = 0; i < 3; i++) {
        wait_for(&many[i], &many[i].n_done, 1);
        assert_int_equal(many[i].n_tokens, alone.n_tokens);
        assert_memory_equal(many[i].tokens, alone.tokens, alone.n_tokens * sizeof *alone.tokens);
    }
    nothing_is_lost(&f, 3);
    end(&f);
}

static void cancel_in_queue_prefill_and_decode(void **state)
{
    (void)state;
    qn_error err = {0};
    qn_job_id first, second, third;
    watch a, b, c;
    fixture f = start(1, 8, 0);
    watch_init(&a), watch_init(&b), watch_init(&c);
    assert_int_equal(submit(&f, &a, 4000, 64, &first, &err), QN_OK);   /* 63 slices: in prefill for long */
    assert_int_equal(submit(&f, &b, 100, 4000, &second, &err), QN_OK); /* waits */
    assert_int_equal(submit(&f, &c, 100, 4, &third, &err), QN_OK);
    wait_for(&a, &a.n_progress, 1);
    qn_sched_cancel(f.sched, third);
    wait_for(&c, &c.n_done, 1);
    assert_int_equal(c.finish, QN_FINISH_CANCELLED);
    assert_int_equal(c.n_admitted, 0);
    qn_sched_cancel(f.sched, first);
    wait_for(&a, &a.n_done, 1);
    assert_int_equal(a.finish, QN_FINISH_CANCELLED);
    assert_int_equal(a.n_tokens, 0);
    wait_for(&b, &b.n_admitted, 1);
    wait_for(&b, &b.n_tokens, 1);
    qn_sched_cancel(f.sched, second);
    wait_for(&b, &b.n_done, 1);
    nothing_is_lost(&f, 1);
    qn_sched_cancel(f.sched, second); /* ended: ignored */
    qn_sched_cancel(f.sched, 12345);  /* unknown: ignored */
    end(&f);
}

static void refusals(void **state)
{
    (void)state;
    qn_error err = {0};
    qn_job_id id;
    watch a, b, c;
    int32_t bad[] = {5, -1};
    fixture f = start(1, 1, 0);
    watch_init(&a), watch_init(&b), watch_init(&c);
    assert_int_equal(submit(&f, &a, 4096, 1, &id, &err), QN_CONTEXT);
    assert_non_null(strstr(err.msg, "4096"));
    qn_job_params p = {.prompt = bad, .n_prompt = 2, .max_tokens = 1, .fn = on_event, .ctx = &a};
    assert_int_equal(qn_sched_submit(f.sched, &p, &id, &err), QN_INVALID);
    bad[1] = 1536;
    assert_int_equal(qn_sched_submit(f.sched, &p, &id, &err), QN_INVALID);
    p.n_prompt = 0;
    assert_int_equal(qn_sched_submit(f.sched, &p, &id, &err), QN_INVALID);
    assert_int_equal(submit(&f, &a, 4000, 64, &id, &err), QN_OK);
    wait_for(&a, &a.n_admitted, 1);
    assert_int_equal(submit(&f, &b, 10, 1, &id, &err), QN_OK);
    assert_int_equal(submit(&f, &c, 10, 1, &id, &err), QN_BUSY);
    end(&f); /* shutting down ends both */
    assert_int_equal(a.n_done, 1);
    assert_int_equal(b.n_done, 1);
    assert_int_equal(b.finish, QN_FINISH_CANCELLED);
    assert_int_equal(c.n_done, 0);
}

static void waits_for_pages_and_fails_what_never_fits(void **state)
{
    (void)state;
    qn_error err = {0};
    qn_job_id id;
    watch big, small, huge;
    fixture f = start(2, 8, 1024); /* 16 pages */
    watch_init(&big), watch_init(&small), watch_init(&huge);
    assert_int_equal(submit(&f, &big, 900, 20, &id, &err), QN_OK);
    assert_int_equal(submit(&f, &small, 300, 20, &id, &err), QN_OK);
    assert_int_equal(submit(&f, &huge, 2000, 20, &id, &err), QN_OK);
    wait_for(&big, &big.n_done, 1);
    wait_for(&small, &small.n_done, 1);
    wait_for(&huge, &huge.n_done, 1);
    assert_true(big.finish == QN_FINISH_LENGTH || big.finish == QN_FINISH_STOP);
    assert_true(small.finish == QN_FINISH_LENGTH || small.finish == QN_FINISH_STOP);
    assert_int_equal(huge.finish, QN_FINISH_ERROR);
    assert_non_null(strstr(huge.error, "KV pool"));
    nothing_is_lost(&f, 2);
    end(&f);
}

static void max_tokens_is_clamped_to_the_room(void **state)
{
    (void)state;
    qn_error err = {0};
    qn_job_id id;
    watch w;
    fixture f = start(1, 1, 0);
    watch_init(&w);
    assert_int_equal(submit(&f, &w, 4090, 1000000, &id, &err), QN_OK);
    wait_for(&w, &w.n_done, 1);
    assert_true(w.n_generated <= 6);
    assert_true(w.finish == QN_FINISH_STOP || w.n_generated == 6);
    end(&f);
}

static int open_model(void **state)
{
    (void)state;
    qn_error err;
    return qn_model_open(&model, "models/demo", &err) ? -1 : 0;
}

static int close_model(void **state)
{
    (void)state;
    qn_model_close(model);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_in_turns_give_the_same_tokens_as_alone),
        cmocka_unit_test(cancel_in_queue_prefill_and_decode),
        cmocka_unit_test(refusals),
        cmocka_unit_test(waits_for_pages_and_fails_what_never_fits),
        cmocka_unit_test(max_tokens_is_clamped_to_the_room),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_model, close_model);
}
