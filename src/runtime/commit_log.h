/* commit_log.h - when each generated token was committed, and how many tokens that commit carried (1 without
 * speculation).
 *
 * One log belongs to one job; its owner thread appends, readers look after the job's end. Times are
 * qn_clock_ns(). Version 1: entries {time_ns, n_tokens}. */
#ifndef QN_RUNTIME_COMMIT_LOG_H
#define QN_RUNTIME_COMMIT_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct qn_commit {
    uint64_t time_ns;
    uint32_t n_tokens;
} qn_commit;

typedef struct qn_commit_log {
    qn_commit *entries; /* [n] */
    size_t n, cap;
} qn_commit_log;

bool qn_commit_log_append(qn_commit_log *l, uint64_t time_ns, uint32_t n_tokens); /* false: no memory */
void qn_commit_log_deinit(qn_commit_log *l);                                      /* accepts a zeroed one */

#endif
