/* pool.h - one persistent pool of threads for work over rows.
 *
 * A job is fn(ctx, first, last) over the half-open range 0..n, cut into blocks of a fixed size; which thread
 * takes which block is not determined, so a result must not depend on it: reductions are split by fixed
 * blocks inside fn. The calling thread takes part. A job of one block runs on the caller alone; a job started
 * from inside a job, or while another thread's job is running, runs serially on its caller. Idle workers spin
 * for a short while, then sleep. Made by whoever opens a device and passed down; running a job allocates
 * nothing and cannot fail. */
#ifndef QN_BASE_POOL_H
#define QN_BASE_POOL_H

#include "base/status.h"

#define QN_POOL_MAX_THREADS 1024

typedef struct qn_pool qn_pool;
typedef void (*qn_pool_fn)(void *ctx, size_t first, size_t last);

/* Start n_threads - 1 workers; the caller of qn_pool_run is the last thread. n_threads 0:
 * qn_pool_default_threads(). QN_TOO_LARGE over QN_POOL_MAX_THREADS; QN_NOMEM when a thread cannot be started
 * (those that were are joined). */
qn_status qn_pool_create(qn_pool **out, uint32_t n_threads, qn_error *err) QN_CHECKED;

/* Ends and joins the workers. No job may be running. Accepts NULL. */
void qn_pool_destroy(qn_pool *p);

uint32_t qn_pool_threads(const qn_pool *p); /* workers and the caller */

/* Call fn over 0..n in blocks of `block` (at least 1; the last one may be shorter) and return when all are
 * done: everything the blocks wrote is visible to the caller. n 0: nothing is called. p NULL: serial. Any
 * thread. */
void qn_pool_run(qn_pool *p, size_t n, size_t block, qn_pool_fn fn, void *ctx);

/* Inside fn: which of the pool's threads this is, 0 (the caller) .. threads-1, so that each may have scratch
 * of its own. 0 outside a job and where a job runs serially on a thread that is not a worker. */
uint32_t qn_pool_worker(void);

/* As many threads as this process may use: the smaller of its CPU affinity and the CPU quota of its control
 * groups (version 2 or 1), rounded up; at least 1. */
uint32_t qn_pool_default_threads(void);

#endif
