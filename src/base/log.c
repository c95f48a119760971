/* log.c - the log callback and its default, one line to stderr in a single write. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static void to_stderr(void *ctx, qn_log_level level, const char *room, const char *message)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    char line[1200];
    (void)ctx;
    int n = snprintf(line, sizeof line, "%s %s: %s\n", names[level], room, message);
    if (n >= (int)sizeof line) {
        n = sizeof line - 1;
        line[n - 1] = '\n';
    }
    if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0) return; /* nobody to tell */
}

static struct {
    qn_log_fn fn;
    void *ctx;
    qn_log_level most;
} sink = {to_stderr, NULL, QN_LOG_INFO}; /* set at start-up only */

void qn_log_set(qn_log_fn fn, void *ctx, qn_log_level most)
{
    sink.fn = fn ? fn : to_stderr;
    sink.ctx = ctx;
    sink.most = most;
}

void qn_log(qn_log_level level, const char *room, const char *fmt, ...)
{
    if (level > sink.most) return;
    char message[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    sink.fn(sink.ctx, level, room, message);
}
