/* counters.h - the one registry of named counters. Every switch that changes the arithmetic or the path bumps
 * one, so that a run can prove what engaged; refusals and ignored fields are counted here too.
 *
 * Names are dotted lower case ("device.cpu.kernels.reference"), listed in docs/counters.md. A counter is made
 * on first use and lives until the process ends. Look a counter up once and keep the pointer: look-up takes a
 * lock, bumping does not. Any thread. */
#ifndef QN_BASE_COUNTERS_H
#define QN_BASE_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct qn_counter {
    const char *name;
    _Atomic uint64_t value;
} qn_counter;

/* The counter of that name, a string that lives for ever (a literal). Never NULL: when the table is full
 * (512) a shared overflow counter, itself listed, is returned. */
qn_counter *qn_counter_get(const char *name);
static inline void qn_counter_add(qn_counter *c, uint64_t n)
{
    atomic_fetch_add_explicit(&c->value, n, memory_order_relaxed);
}

/* Call fn for every counter in the order they were made. */
void qn_counters_each(void (*fn)(void *ctx, const char *name, uint64_t value), void *ctx);

#endif
