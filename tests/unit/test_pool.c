/* test_pool.c - the thread pool: every row once, nesting, foreign threads, many short jobs, failures at
 * start. */
#include "tap.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/pool.h"

typedef struct count {
    _Atomic unsigned *hits; /* [n] */
    size_t n, block;
    _Atomic unsigned calls, odd_blocks, bad_worker;
    uint32_t threads;
    qn_pool *pool;
} count;

static void count_rows(void *ctx, size_t first, size_t last)
{
    count *c = ctx;
    atomic_fetch_add(&c->calls, 1);
    if (first >= last || last > c->n || (first % c->block && c->block)) atomic_fetch_add(&c->odd_blocks, 1);
    if (qn_pool_worker() >= c->threads) atomic_fetch_add(&c->bad_worker, 1);
    for (size_t i = first; i < last; i++) atomic_fetch_add(&c->hits[i], 1);
}

static void every_row_is_done_once(void **state)
{
    (void)state;
    static const uint32_t threads[] = {1, 2, 3, 8};
    static const size_t sizes[] = {0, 1, 2, 7, 64, 1000}, blocks[] = {1, 2, 7, 64, 5000};
    for (size_t t = 0; t < 4; t++) {
        qn_pool *p;
        assert_int_equal(qn_pool_create(&p, threads[t], NULL), QN_OK);
        assert_int_equal(qn_pool_threads(p), threads[t]);
        for (size_t i = 0; i < 6; i++)
            for (size_t b = 0; b < 5; b++) {
                count c = {.hits = calloc(sizes[i] + 1, sizeof(unsigned)),
                           .n = sizes[i],
                           .block = blocks[b],
                           .threads = threads[t]};
                qn_pool_run(p, c.n, c.block, count_rows, &c);
                for (size_t k = 0; k < c.n; k++) assert_int_equal(c.hits[k], 1);
                assert_int_equal(c.odd_blocks, 0);
                assert_int_equal(c.bad_worker, 0);
                if (sizes[i] <= blocks[b]) assert_int_equal(c.calls, sizes[i] > 0);
                free((void *)c.hits);
            }
        qn_pool_destroy(p);
    }
}

static void without_a_pool_work_is_serial(void **state)
{
    (void)state;
    count c = {.hits = calloc(10, sizeof(unsigned)), .n = 10, .block = 1, .threads = 1};
    qn_pool_run(NULL, 10, 1, count_rows, &c);
    assert_int_equal(c.calls, 1);
    for (size_t k = 0; k < 10; k++) assert_int_equal(c.hits[k], 1);
    free((void *)c.hits);
    qn_pool_destroy(NULL);
}

static void start_inner(void *ctx, size_t first, size_t last)
{
    count *c = ctx;
    for (size_t i = first; i < last; i++) {
        uint32_t before = qn_pool_worker();
        count inner = {.hits = c->hits + i * 50, .n = 50, .block = 1, .threads = c->threads};
        qn_pool_run(c->pool, 50, 1, count_rows, &inner);
        if (inner.calls != 1 || qn_pool_worker() != before) atomic_fetch_add(&c->odd_blocks, 1);
    }
}

static void a_job_inside_a_job_runs_on_its_thread(void **state)
{
    (void)state;
    qn_pool *p;
    assert_int_equal(qn_pool_create(&p, 4, NULL), QN_OK);
    count c = {.hits = calloc(20 * 50, sizeof(unsigned)), .n = 20, .block = 1, .threads = 4, .pool = p};
    qn_pool_run(p, 20, 1, start_inner, &c);
    assert_int_equal(c.odd_blocks, 0);
    for (size_t k = 0; k < 20 * 50; k++) assert_int_equal(c.hits[k], 1);
    free((void *)c.hits);
    qn_pool_destroy(p);
}

typedef struct sums {
    const uint32_t *in;
    uint64_t *out;
} sums;

static void sum_block(void *ctx, size_t first,
                      size_t last) /* plain reads and writes: the pool must order them */
{
    sums *s = ctx;
    for (size_t i = first; i < last; i++) s->out[i] += s->in[i];
}

/* Jobs that follow each other at once: a worker late from one job must neither run nor miss the next. */
static void many_short_jobs_see_each_others_writes(void **state)
{
    (void)state;
    enum { N = 37, JOBS = 20000 };
    uint32_t in[N];
    uint64_t out[N] = {0};
    qn_pool *p;
    assert_int_equal(qn_pool_create(&p, 3, NULL), QN_OK);
    sums s = {in, out};
    uint64_t want[N] = {0};
    for (uint32_t j = 0; j < JOBS; j++) {
        size_t n = j % (N + 1);
        for (uint32_t i = 0; i < n; i++) in[i] = i * j, want[i] += i * j;
        qn_pool_run(p, n, 1 + j % 5, sum_block, &s);
        if (j % 1000 == 0) assert_memory_equal(out, want, sizeof want);
    }
    assert_memory_equal(out, want, sizeof want);
    qn_pool_destroy(p);
}

static pthread_barrier_t start;

static void *foreign(void *arg)
{
    count *c = arg;
    pthread_barrier_wait(&start);
    for (int i = 0; i < 4000; i++) qn_pool_run(c->pool, c->n, c->block, count_rows, c);
    return NULL;
}

static void threads_that_share_a_pool_do_not_mix(void **state)
{
    (void)state;
    qn_pool *p;
    pthread_t t[3];
    count c[3];
    assert_int_equal(qn_pool_create(&p, 2, NULL), QN_OK);
    pthread_barrier_init(&start, NULL, 3);
    for (int i = 0; i < 3; i++) {
        c[i] = (count){.hits = calloc(100, sizeof(unsigned)), .n = 100, .block = 3, .threads = 2, .pool = p};
        assert_int_equal(pthread_create(&t[i], NULL, foreign, &c[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], NULL);
        for (int k = 0; k < 100; k++) assert_int_equal(c[i].hits[k], 4000);
        free((void *)c[i].hits);
    }
    pthread_barrier_destroy(&start);
    qn_pool_destroy(p);
}

static void too_many_threads_are_refused(void **state)
{
    (void)state;
    qn_pool *p = (qn_pool *)state;
    qn_error err;
    assert_int_equal(qn_pool_create(&p, QN_POOL_MAX_THREADS + 1, &err), QN_TOO_LARGE);
    assert_null(p);
    assert_non_null(strstr(err.msg, "1025"));
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMITS 0 /* the sanitizers need the address space */
#else
#define LIMITS 1
#endif

#if LIMITS
static int threads_alive(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

/* With the address space closed, stacks of threads cannot be mapped: the first few may still come from the
 * cache. */
static void a_thread_that_does_not_start_is_an_error(void **state)
{
    (void)state;
    struct rlimit old, tight;
    qn_pool *p;
    qn_error err = {0};
    int before = threads_alive();
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    tight = old;
    tight.rlim_cur = 160u << 20; /* more than is mapped, less than 64 stacks of 8 MiB */
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    qn_status st = qn_pool_create(&p, 64, &err);
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_int_equal(st, QN_NOMEM);
    assert_null(p);
    assert_non_null(strstr(err.msg, "of 64 could not be started"));
    assert_int_equal(threads_alive(), before); /* those that did start were joined */
    assert_int_equal(qn_pool_create(&p, 2, &err), QN_OK);
    qn_pool_destroy(p);
}
#endif

static void the_default_is_between_one_and_the_machine(void **state)
{
    (void)state;
    uint32_t n = qn_pool_default_threads();
    assert_in_range(n, 1, QN_POOL_MAX_THREADS);
    qn_pool *p;
    assert_int_equal(qn_pool_create(&p, 0, NULL), QN_OK);
    assert_int_equal(qn_pool_threads(p), n);
    qn_pool_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_done_once),
        cmocka_unit_test(without_a_pool_work_is_serial),
        cmocka_unit_test(a_job_inside_a_job_runs_on_its_thread),
        cmocka_unit_test(many_short_jobs_see_each_others_writes),
        cmocka_unit_test(threads_that_share_a_pool_do_not_mix),
        cmocka_unit_test(too_many_threads_are_refused),
#if LIMITS
        cmocka_unit_test(a_thread_that_does_not_start_is_an_error),
#endif
        cmocka_unit_test(the_default_is_between_one_and_the_machine),
    };
    return TEST_MAIN(tests);
}
