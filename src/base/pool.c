/* pool.c - the thread pool: blocks are handed out through one 64-bit word.
 *
 *   ticket = generation of the job << 32 | blocks not handed out yet
 *
 * A thread takes a block by compare-and-swap of the whole word. That makes latecomers harmless: a worker that
 * was asleep, or lost the processor between reading the job and taking a block, fails the swap as soon as the
 * job is over or has moved on, and a ticket with nothing left is never swapped. The caller therefore waits
 * only for blocks that somebody holds, never for a worker to wake up: on a busy machine a job is never slower
 * than serial by more than one block.
 *
 * Invariants:
 *   1. The job's fields change only while the ticket has 0 blocks left and done == n_blocks.
 *   2. A successful swap from (g, left > 0) proves that the fields read since the ticket was loaded belong to
 * g.
 *   3. done counts finished blocks of the current job; only holders of a block add to it.
 *   4. Sleeping: a sleeper announces itself and then looks again; a waker changes the word and then looks for
 *      sleepers. Both steps are sequentially consistent, so one of the two sees the other. */
#include "base/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct qn_pool {
    _Atomic uint64_t ticket;
    /* the job; atomics because a latecomer may read them while they change (invariant 2 discards what it
     * read) */
    _Atomic(qn_pool_fn) fn;
    _Atomic(void *) ctx;
    _Atomic size_t n, block;
    _Atomic uint32_t n_blocks;
    _Atomic uint32_t done;
    atomic_bool busy; /* a job is running: others run serially */

    pthread_mutex_t lock; /* guards the two conditions' sleeps, nothing else; held with no other lock */
    pthread_cond_t wake, finished;
    _Atomic uint32_t sleepers;
    atomic_bool caller_sleeps;
    atomic_bool stop;

    uint32_t n_threads;
    uint32_t n_started; /* workers to join */
    struct worker {
        qn_pool *pool;
        uint32_t index; /* 1 .. n_threads-1 */
        pthread_t thread;
    } * workers; /* [n_threads-1] */
};

/* About 10 to 40 microseconds: longer than the gap between two ops of a decode step, far shorter than the gap
 * between two requests. */
#define SPINS 2000

static _Thread_local bool inside;
static _Thread_local uint32_t worker_index;

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static uint32_t left_of(uint64_t ticket)
{
    return (uint32_t)ticket;
}

/* Take blocks of the open job until none is left. */
static void work(qn_pool *p)
{
    uint64_t t = atomic_load_explicit(&p->ticket, memory_order_acquire);
    while (left_of(t) > 0) {
        qn_pool_fn fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
        void *ctx = atomic_load_explicit(&p->ctx, memory_order_relaxed);
        size_t n = atomic_load_explicit(&p->n, memory_order_relaxed);
        size_t block = atomic_load_explicit(&p->block, memory_order_relaxed);
        uint32_t n_blocks = atomic_load_explicit(&p->n_blocks, memory_order_relaxed);
        if (!atomic_compare_exchange_weak_explicit(&p->ticket, &t, t - 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        size_t first = (size_t)(n_blocks - left_of(t)) * block;
        fn(ctx, first, n - first < block ? n : first + block);
        if (atomic_fetch_add(&p->done, 1) + 1 == n_blocks && atomic_load(&p->caller_sleeps)) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->finished);
            pthread_mutex_unlock(&p->lock);
        }
        t = atomic_load_explicit(&p->ticket, memory_order_acquire);
    }
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    qn_pool *p = w->pool;
    inside = true; /* whatever a block starts runs serially */
    worker_index = w->index;
    while (!atomic_load(&p->stop)) {
        work(p);
        int spins = 0;
        while (spins < SPINS && !left_of(atomic_load_explicit(&p->ticket, memory_order_relaxed)) &&
               !atomic_load_explicit(&p->stop, memory_order_relaxed)) {
            relax();
            spins++;
        }
        if (spins < SPINS) continue;
        pthread_mutex_lock(&p->lock);
        atomic_fetch_add(&p->sleepers, 1);
        while (!left_of(atomic_load(&p->ticket)) && !atomic_load(&p->stop))
            pthread_cond_wait(&p->wake, &p->lock);
        atomic_fetch_sub(&p->sleepers, 1);
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

void qn_pool_run(qn_pool *p, size_t n, size_t block, qn_pool_fn fn, void *ctx)
{
    if (n == 0) return;
    if (block == 0) block = 1;
    if (n / block >= UINT32_MAX) block = n / (UINT32_MAX / 2) + 1; /* the count must fit the ticket */
    if (!p || p->n_threads == 1 || n <= block || inside || atomic_exchange(&p->busy, true)) {
        fn(ctx, 0, n);
        return;
    }
    uint32_t n_blocks = (uint32_t)(n / block + (n % block != 0));
    atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&p->ctx, ctx, memory_order_relaxed);
    atomic_store_explicit(&p->n, n, memory_order_relaxed);
    atomic_store_explicit(&p->block, block, memory_order_relaxed);
    atomic_store_explicit(&p->n_blocks, n_blocks, memory_order_relaxed);
    atomic_store_explicit(&p->done, 0, memory_order_relaxed);
    uint64_t generation = (atomic_load_explicit(&p->ticket, memory_order_relaxed) >> 32) + 1;
    atomic_store(&p->ticket, generation << 32 | n_blocks);
    if (atomic_load(&p->sleepers) > 0) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_broadcast(&p->wake);
        pthread_mutex_unlock(&p->lock);
    }
    inside = true;
    work(p);
    inside = false;

    for (int spins = 0; spins < SPINS && atomic_load(&p->done) != n_blocks; spins++) relax();
    if (atomic_load(&p->done) != n_blocks) {
        pthread_mutex_lock(&p->lock);
        atomic_store(&p->caller_sleeps, true);
        while (atomic_load(&p->done) != n_blocks) pthread_cond_wait(&p->finished, &p->lock);
        atomic_store(&p->caller_sleeps, false);
        pthread_mutex_unlock(&p->lock);
    }
    atomic_store(&p->busy, false);
}

qn_status qn_pool_create(qn_pool **out, uint32_t n_threads, qn_error *err)
{
    *out = NULL;
    if (n_threads == 0) n_threads = qn_pool_default_threads();
    if (n_threads > QN_POOL_MAX_THREADS)
        return qn_fail(err, QN_TOO_LARGE, "%u threads asked for, the limit is %d", n_threads,
                       QN_POOL_MAX_THREADS);
    qn_pool *p = calloc(1, sizeof *p);
    if (!p) return qn_fail(err, QN_NOMEM, "no memory for the thread pool");
    p->n_threads = n_threads;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->finished, NULL);
    p->workers = calloc(n_threads, sizeof *p->workers);
    if (!p->workers) {
        qn_pool_destroy(p);
        return qn_fail(err, QN_NOMEM, "no memory for %u threads", n_threads);
    }
    for (uint32_t i = 0; i + 1 < n_threads; i++) {
        struct worker *w = &p->workers[i];
        *w = (struct worker){.pool = p, .index = i + 1};
        int e = pthread_create(&w->thread, NULL, worker_main, w);
        if (e) {
            qn_pool_destroy(p);
            return qn_fail(err, QN_NOMEM, "thread %u of %u could not be started: %s", i + 2, n_threads,
                           strerror(e));
        }
        p->n_started++;
    }
    *out = p;
    return QN_OK;
}

void qn_pool_destroy(qn_pool *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->stop, true);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->n_started; i++) pthread_join(p->workers[i].thread, NULL);
    free(p->workers);
    pthread_cond_destroy(&p->finished);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

uint32_t qn_pool_threads(const qn_pool *p)
{
    return p ? p->n_threads : 1;
}
uint32_t qn_pool_worker(void)
{
    return worker_index;
}
