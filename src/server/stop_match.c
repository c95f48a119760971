/* stop_match.c - one Knuth-Morris-Pratt automaton per stop string, all fed byte by byte.
 *
 * The state of an automaton is the length of the longest end of the text that is a prefix of its string, so
 * the largest state is exactly what has to be held back. */
#include "server/stop_match.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

typedef struct stop {
    unsigned char text[QN_STOP_MAX_BYTES];
    uint16_t fall[QN_STOP_MAX_BYTES]; /* fall[i]: state after a mismatch in state i + 1 */
    uint16_t n;
    uint16_t state; /* bytes matched */
} stop;

struct qn_stop_match {
    size_t n;
    size_t held;  /* bytes at the end of `text` that were not given out */
    qn_buf text;  /* given out by the last call, then the held ones */
    stop stops[]; /* [n] */
};

static uint16_t step(const stop *s, uint16_t state, unsigned char c)
{
    while (state > 0 && s->text[state] != c) state = s->fall[state - 1];
    return s->text[state] == c ? state + 1 : 0;
}

static void prepare(stop *s)
{
    s->fall[0] = 0;
    for (uint16_t i = 1; i < s->n; i++) s->fall[i] = step(s, s->fall[i - 1], s->text[i]);
}

qn_status qn_stop_create(qn_stop_match **out, const char *const *stops, const size_t *lens, size_t n,
                         qn_error *err)
{
    *out = NULL;
    if (n > QN_STOP_MAX) return qn_fail(err, QN_INVALID, "%zu stop strings; the limit is %d", n, QN_STOP_MAX);
    qn_stop_match *m = calloc(1, sizeof *m + n * sizeof m->stops[0]);
    if (!m) return qn_fail(err, QN_NOMEM, "no memory for %zu stop strings", n);
    m->n = n;
    qn_buf_init(&m->text, 0);
    for (size_t i = 0; i < n; i++) {
        if (lens[i] < 1 || lens[i] > QN_STOP_MAX_BYTES) {
            qn_stop_destroy(m);
            return qn_fail(err, QN_INVALID, "stop string %zu has %zu bytes; 1 to %d are allowed", i, lens[i],
                           QN_STOP_MAX_BYTES);
        }
        m->stops[i].n = (uint16_t)lens[i];
        memcpy(m->stops[i].text, stops[i], lens[i]);
        prepare(&m->stops[i]);
    }
    *out = m;
    return QN_OK;
}

void qn_stop_destroy(qn_stop_match *m)
{
    if (!m) return;
    qn_buf_deinit(&m->text);
    free(m);
}

qn_status qn_stop_push(qn_stop_match *m, const char *text, size_t n, const char **out, size_t *n_out,
                       bool *hit, qn_error *err)
{
    *out = "";
    *n_out = 0;
    *hit = false;
    qn_buf_drop_front(&m->text, m->text.len - m->held);
    size_t old = m->held;
    if (!qn_buf_add(&m->text, text, n)) return qn_buf_status(&m->text, "text before a stop string", err);
    for (size_t i = 0; i < n; i++) {
        size_t longest = 0;
        for (size_t k = 0; k < m->n; k++) {
            stop *s = &m->stops[k];
            s->state = step(s, s->state, (unsigned char)text[i]);
            if (s->state == s->n && s->n > longest) longest = s->n;
        }
        if (longest) {
            *out = m->text.data;
            *n_out = old + i + 1 -
                     longest; /* the start of a match was always held back, so this is no less than 0 */
            *hit = true;
            m->held = 0;
            return QN_OK;
        }
    }
    m->held = 0;
    for (size_t k = 0; k < m->n; k++)
        if (m->stops[k].state > m->held) m->held = m->stops[k].state;
    if (m->text.len > 0) *out = m->text.data;
    *n_out = m->text.len - m->held;
    return QN_OK;
}

void qn_stop_flush(qn_stop_match *m, const char **out, size_t *n_out)
{
    qn_buf_drop_front(&m->text, m->text.len - m->held);
    *out = m->text.len ? m->text.data : "";
    *n_out = m->text.len;
    m->held = 0;
    for (size_t k = 0; k < m->n; k++) m->stops[k].state = 0;
}
