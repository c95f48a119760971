/* fuzz_json_pull.c - the pull reader for JSON on any bytes, compared with jansson: both accept or both
 * refuse. They may differ only where jansson has limits of its own: numbers out of range and a NUL in a name,
 * which it refuses, and a raw NUL byte behind a number or a word, which it drops. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_pull.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t n);

static void require_json_pull(bool holds)
{
    if (!holds) abort();
}

/* Read everything; whether it was accepted. skip_at: the event after which one skip happens, counted from 0.
 */
static bool read_all(const uint8_t *text, size_t n, size_t skip_at, size_t *n_events)
{
    qn_json_pull p;
    qn_json_event e;
    qn_error err = {0};
    qn_status st;
    *n_events = 0;
    qn_json_pull_init(&p, text, n, QN_JSON_MAX_DEPTH);
    while (!(st = qn_json_pull_next(&p, &e, &err)) && e != QN_JSON_DONE) {
        require_json_pull(p.at < n && p.event == e && p.depth <= QN_JSON_MAX_DEPTH);
        if (e == QN_JSON_KEY || e == QN_JSON_STRING)
            require_json_pull(qn_utf8_valid(p.text, p.text_len, NULL));
        if (e == QN_JSON_NUMBER) {
            uint64_t u;
            int64_t i;
            double d;
            bool is_u = qn_json_pull_u64(&p, &u), is_i = qn_json_pull_i64(&p, &i),
                 is_d = qn_json_pull_double(&p, &d);
            if (is_u && is_i) require_json_pull(u == (uint64_t)i);
            if (is_u || is_i) require_json_pull(is_d && d == (is_u ? (double)u : (double)i));
        }
        if ((*n_events)++ == skip_at && (st = qn_json_pull_skip(&p, &err))) break;
    }
    if (st) {
        qn_error again = {0};
        require_json_pull(err.msg[0] != 0);
        require_json_pull(qn_json_pull_next(&p, &e, &again) == QN_CORRUPT); /* a failed reader stays failed */
    } else {
        require_json_pull(qn_json_pull_next(&p, &e, &err) == QN_OK && e == QN_JSON_DONE);
    }
    qn_json_pull_deinit(&p);
    return st == QN_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t n)
{
    uint8_t *text = malloc(n ? n : 1); /* of the exact size: reading past it is seen */
    if (!text) return 0;
    if (n) memcpy(text, in, n);
    size_t n_events, skipped;
    bool accepted = read_all(text, n, SIZE_MAX, &n_events);
    require_json_pull(read_all(text, n, n % 7, &skipped) == accepted && skipped <= n_events);

    json_error_t je;
    json_t *tree = json_loadb((const char *)text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &je);
    if (tree) {
        require_json_pull(accepted || memchr(text, 0, n));
    } else if (accepted) {
        enum json_error_code code = json_error_code(&je);
        require_json_pull(code == json_error_numeric_overflow || code == json_error_null_byte_in_key);
    }
    json_decref(tree);
    free(text);
    return 0;
}
