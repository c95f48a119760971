/* fail_malloc.c - a library for LD_PRELOAD: the QUERN_FAIL_AT-th allocation of the process (from 1) and all
 * after it return NULL, or only that one with QUERN_FAIL_ONCE=1. With QUERN_COUNT_TO=FILE the number of
 * allocations is written there at the end. Allocations before main (the loader's, the constructors') are
 * counted too, and served. For tests/full/faults.sh. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

static atomic_long seen;
static long fail_at; /* 0: never */
static int once, armed;

__attribute__((constructor)) static void arm(void)
{
    const char *at = getenv("QUERN_FAIL_AT");
    fail_at = at ? strtol(at, NULL, 10) : 0;
    once = getenv("QUERN_FAIL_ONCE") != NULL;
    armed = 1;
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("QUERN_COUNT_TO");
    char text[32];
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
    if (fd < 0) return;
    int n = snprintf(text, sizeof text, "%ld\n", atomic_load(&seen));
    if (write(fd, text, (size_t)n) != n) _exit(3);
    close(fd);
}

static int fails(void)
{
    if (!armed) return 0;
    long i = atomic_fetch_add(&seen, 1) + 1;
    if (!fail_at || i < fail_at || (once && i > fail_at)) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t n)
{
    return fails() ? NULL : __libc_malloc(n);
}
void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}
void *realloc(void *p, size_t n)
{
    return fails() ? NULL : __libc_realloc(p, n);
}
