/* commit_log.c - appending to the commit log. Grows by doubling: a handful of allocations per job. */
#include "runtime/commit_log.h"

#include <stdlib.h>

bool qn_commit_log_append(qn_commit_log *l, uint64_t time_ns, uint32_t n_tokens)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 256;
        qn_commit *p = realloc(l->entries, cap * sizeof *p);
        if (!p) return false;
        l->entries = p;
        l->cap = cap;
    }
    l->entries[l->n++] = (qn_commit){time_ns, n_tokens};
    return true;
}

void qn_commit_log_deinit(qn_commit_log *l)
{
    free(l->entries);
    *l = (qn_commit_log){0};
}
