/* counters.c - the counter registry: a fixed table, so that pointers stay valid and nothing is ever freed. */
#include "base/counters.h"

#include <pthread.h>
#include <string.h>

#define MAX_COUNTERS 512

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards n and the names */
static qn_counter counters[MAX_COUNTERS] = {{.name = "counters.overflow"}};
static unsigned n = 1;

qn_counter *qn_counter_get(const char *name)
{
    qn_counter *c = &counters[0];
    pthread_mutex_lock(&lock);
    unsigned i = 0;
    while (i < n && strcmp(counters[i].name, name) != 0) i++;
    if (i == n && n < MAX_COUNTERS) counters[n++].name = name;
    if (i < n) c = &counters[i];
    pthread_mutex_unlock(&lock);
    return c;
}

void qn_counters_each(void (*fn)(void *ctx, const char *name, uint64_t value), void *ctx)
{
    pthread_mutex_lock(&lock);
    unsigned count = n;
    pthread_mutex_unlock(&lock);
    for (unsigned i = 0; i < count; i++)
        fn(ctx, counters[i].name, atomic_load_explicit(&counters[i].value, memory_order_relaxed));
}
