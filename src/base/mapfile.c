/* mapfile.c - open, check that it is a regular file, then map or read. The descriptor is closed before
 * returning: a mapping does not need it, and a checkpoint of hundreds of shards should not use up the
 * process's limit. */
#include "base/mapfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static qn_status fail_errno(qn_error *err, const char *path, const char *doing)
{
    int e = errno;
    char buf[128];
    return qn_fail(err, e == ENOENT || e == ENOTDIR ? QN_NOT_FOUND : QN_IO, "%s: %s: %s", path, doing,
                   strerror_r(e, buf, sizeof buf));
}

/* On success the caller closes *fd. */
static qn_status open_regular(int *fd, uint64_t *size, const char *path, qn_error *err)
{
    struct stat sb;
    *fd = open(path,
               O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* NONBLOCK: opening a pipe must not wait for a writer */
    if (*fd < 0) return fail_errno(err, path, "cannot open");
    qn_status st = QN_OK;
    if (fstat(*fd, &sb))
        st = fail_errno(err, path, "cannot look at");
    else if (!S_ISREG(sb.st_mode))
        st = qn_fail(err, QN_INVALID, "%s: is %s, not a regular file", path,
                     S_ISDIR(sb.st_mode) ? "a folder" : "a pipe, socket or device");
    if (st) {
        close(*fd);
        *fd = -1;
        return st;
    }
    *size = (uint64_t)sb.st_size;
    return QN_OK;
}

qn_status qn_map_open(qn_map *m, const char *path, qn_error *err)
{
    int fd = -1;
    uint64_t size = 0;
    *m = (qn_map){0};
    qn_status st = open_regular(&fd, &size, path, err);
    if (st) return st;
    if (size > 0) { /* mmap refuses a length of 0 */
        void *p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED)
            st = fail_errno(err, path, "cannot map");
        else
            *m = (qn_map){.base = p, .size = size};
    }
    close(fd);
    return st;
}

void qn_map_close(qn_map *m)
{
    if (m->base) munmap((void *)(uintptr_t)m->base, m->size);
    *m = (qn_map){0};
}

qn_status qn_file_read(const char *path, size_t max_bytes, char **data, size_t *n, qn_error *err)
{
    int fd = -1;
    uint64_t size = 0;
    *data = NULL;
    *n = 0;
    qn_status st = open_regular(&fd, &size, path, err);
    if (st) return st;

    char *p = NULL;
    size_t got = 0;
    if (size > max_bytes) {
        st = qn_fail(err, QN_TOO_LARGE, "%s: has %llu bytes, the limit is %zu", path,
                     (unsigned long long)size, max_bytes);
        goto done;
    }
    p = malloc(size + 1);
    if (!p) {
        st = qn_fail(err, QN_NOMEM, "%s: no memory for %llu bytes", path, (unsigned long long)size);
        goto done;
    }
    while (got < size) {
        ssize_t r = read(fd, p + got, size - got);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) {
            st = fail_errno(err, path, "cannot read");
            goto done;
        }
        if (r == 0) break; /* it shrank since it was opened: hand out what there is */
        got += (size_t)r;
    }
    p[got] = 0;
    *data = p;
    *n = got;
    p = NULL;
done:
    free(p);
    close(fd);
    return st;
}
