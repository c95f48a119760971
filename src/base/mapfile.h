/* mapfile.h - a regular file as read-only bytes: mapped, for big ones, or read into memory, for small ones.
 *
 * Folders, pipes, sockets and devices are refused (a pipe without a writer does not hang the caller).
 * Symbolic links are followed. Errors name the path: QN_NOT_FOUND when it does not exist, QN_INVALID when it
 * is no regular file, QN_TOO_LARGE, QN_NOMEM, QN_IO with the system's reason. Any thread. */
#ifndef QN_BASE_MAPFILE_H
#define QN_BASE_MAPFILE_H

#include "base/status.h"

typedef struct qn_map {
    const uint8_t *base; /* NULL when the file is empty or nothing is mapped */
    size_t size;         /* bytes */
} qn_map;

/* Map the whole file. The bytes are valid until qn_map_close and the file need not stay in its folder, but it
 * must not shrink: touching a page that another program has cut off ends the process with SIGBUS. Nothing
 * guards against that. */
qn_status qn_map_open(qn_map *m, const char *path, qn_error *err) QN_CHECKED;
void qn_map_close(qn_map *m); /* accepts a zeroed one; leaves it zeroed */

/* Read the whole file, at most max_bytes. *data has a NUL behind the *n bytes and is freed with free(). */
qn_status qn_file_read(const char *path, size_t max_bytes, char **data, size_t *n, qn_error *err) QN_CHECKED;

#endif
