/* pool_threads.c - how many threads this process may use: CPU affinity and the quota of its control groups.
 */
#include "base/pool.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

/* The first line of a small file; false when it cannot be read. */
static bool first_line(const char *path, char *dst, size_t cap)
{
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool ok = fgets(dst, (int)cap, f) != NULL;
    fclose(f);
    return ok;
}

static uint32_t whole_cpus(long long quota, long long period, uint32_t most)
{
    if (quota <= 0 || period <= 0) return most;
    long long n = quota / period + (quota % period != 0);
    if (n < 1) n = 1;
    return n < (long long)most ? (uint32_t)n : most;
}

/* Quota of one group: version 2 keeps both numbers in cpu.max, version 1 in two files. "max" and -1: no
 * quota. */
static uint32_t group_limit(const char *folder, uint32_t most)
{
    char path[1200], line[64], line2[64];
    long long quota, period;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (first_line(path, line, sizeof line) && sscanf(line, "%lld %lld", &quota, &period) == 2)
        return whole_cpus(quota, period, most);
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!first_line(path, line, sizeof line)) return most;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!first_line(path, line2, sizeof line2)) return most;
    if (sscanf(line, "%lld", &quota) == 1 && sscanf(line2, "%lld", &period) == 1)
        return whole_cpus(quota, period, most);
    return most;
}

/* A group is bound by every group above it as well. `group` is cut down to "" on the way. */
static uint32_t chain_limit(const char *root, char *group, uint32_t most)
{
    char folder[1100];
    for (;;) {
        snprintf(folder, sizeof folder, "%s%s", root, group);
        most = group_limit(folder, most);
        char *slash = strrchr(group, '/');
        if (!slash) return most;
        *slash = 0;
    }
}

/* Whether a comma-separated list of controllers holds "cpu" itself (and not only "cpuset" or "cpuacct"). */
static bool lists_cpu(const char *s)
{
    for (const char *p = s; p; p = strchr(p, ',')) {
        if (*p == ',') p++;
        if (strncmp(p, "cpu", 3) == 0 && (p[3] == ',' || p[3] == 0)) return true;
    }
    return false;
}

uint32_t qn_pool_default_threads(void)
{
    cpu_set_t set;
    uint32_t n = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0) n = (uint32_t)CPU_COUNT(&set);

    FILE *f = fopen("/proc/self/cgroup", "re"); /* lines: hierarchy:controllers:path */
    char line[1024];
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *controllers++ = 0;
        *group++ = 0;
        char again[1024];
        memcpy(again, group, strlen(group) + 1);
        if (*controllers == 0) {
            n = chain_limit("/sys/fs/cgroup", group, n);
            n = chain_limit("/sys/fs/cgroup/unified", again, n);
        } else if (lists_cpu(controllers)) {
            n = chain_limit("/sys/fs/cgroup/cpu", group, n);
            n = chain_limit("/sys/fs/cgroup/cpu,cpuacct", again, n);
        }
    }
    if (f) fclose(f);
    if (n < 1) n = 1;
    return n < QN_POOL_MAX_THREADS ? n : QN_POOL_MAX_THREADS;
}
