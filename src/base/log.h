/* log.h - the one way the engine reports: a callback with level, room and message. The default writes lines
 * to stderr; results never go through here. Set the callback before other threads start. Logging itself: any
 * thread. */
#ifndef QN_BASE_LOG_H
#define QN_BASE_LOG_H

typedef enum qn_log_level { QN_LOG_ERROR, QN_LOG_WARN, QN_LOG_INFO, QN_LOG_DEBUG } qn_log_level;
typedef void (*qn_log_fn)(void *ctx, qn_log_level level, const char *room, const char *message);

void qn_log_set(qn_log_fn fn, void *ctx,
                qn_log_level most); /* fn NULL: stderr; messages above `most` are dropped */
void qn_log(qn_log_level level, const char *room, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
