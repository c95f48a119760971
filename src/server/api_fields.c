/* api_fields.c - typed access to fields, and the table of fields that are known but not there. */
#include "server/api_fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const json_t *qn_field_get(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    return json_is_null(v) ? NULL : v;
}

const char *qn_json_kind(const json_t *v)
{
    if (!v) return "absent";
    switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    default: return "null";
    }
}

qn_status qn_field_fail(qn_error *err, const char *field, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    qn_fail(err, QN_INVALID, "'%s' %s", field, text);
    qn_error_field(err, "%s", field);
    return QN_INVALID;
}

qn_status qn_field_bool(const json_t *o, const char *name, bool *out, qn_error *err)
{
    const json_t *v = qn_field_get(o, name);
    if (!v) return QN_OK;
    if (!json_is_boolean(v))
        return qn_field_fail(err, name, "must be true or false, not %s", qn_json_kind(v));
    *out = json_is_true(v);
    return QN_OK;
}

qn_status qn_field_float(const json_t *o, const char *name, double lo, double hi, bool open_lo, float *out,
                         qn_error *err)
{
    const json_t *v = qn_field_get(o, name);
    if (!v) return QN_OK;
    if (!json_is_number(v)) return qn_field_fail(err, name, "must be a number, not %s", qn_json_kind(v));
    double d = json_number_value(v);
    if (!(d >= lo && d <= hi) || (open_lo && d == lo))
        return qn_field_fail(err, name, "is %g; it must be %s %g and at most %g", d,
                             open_lo ? "above" : "at least", lo, hi);
    float f = (float)d;
    *out = open_lo && f <= (float)lo ? nextafterf((float)lo, INFINITY) : f; /* 1e-60 must not become 0 */
    return QN_OK;
}

qn_status qn_field_int(const json_t *o, const char *name, int64_t lo, int64_t hi, int64_t *out, qn_error *err)
{
    const json_t *v = qn_field_get(o, name);
    int64_t i;
    if (!v) return QN_OK;
    if (json_is_integer(v)) {
        i = json_integer_value(v);
    } else if (json_is_real(v) && fabs(json_real_value(v)) < 9007199254740992.0 &&
               json_real_value(v) == trunc(json_real_value(v))) {
        i = (int64_t)json_real_value(v);
    } else {
        return qn_field_fail(err, name, "must be an integer, not %s",
                             json_is_real(v) ? "a fraction" : qn_json_kind(v));
    }
    if (i < lo || i > hi)
        return qn_field_fail(err, name, "is %" PRId64 "; it must be %" PRId64 " to %" PRId64, i, lo, hi);
    *out = i;
    return QN_OK;
}

/* ---- fields that are known --------------------------------------------------------------------------------
 */

enum { CHAT = 1, TEXT = 2, BOTH = 3 };

/* Read by api_request.c, or without any influence on the text. */
static const struct {
    const char *name;
    int where;
} understood[] = {
    {"model", BOTH},
    {"stream", BOTH},
    {"stream_options", BOTH},
    {"temperature", BOTH},
    {"top_p", BOTH},
    {"top_k", BOTH},
    {"min_p", BOTH},
    {"seed", BOTH},
    {"stop", BOTH},
    {"max_tokens", BOTH},
    {"max_completion_tokens", BOTH},
    {"messages", CHAT},
    {"tools", CHAT},
    {"tool_choice", CHAT},
    {"parallel_tool_calls", CHAT},
    {"chat_template_kwargs", CHAT},
    {"prompt", TEXT},
    {"special_tokens", TEXT},
    {"user", BOTH},
    {"metadata", BOTH},
    {"store", BOTH},
    {"service_tier", BOTH},
    {"safety_identifier", BOTH},
    {"prompt_cache_key", BOTH},
    {"prompt_cache_retention", BOTH},
};

/* Not there; anything but null and the neutral value, a JSON text (several: one after the other), is refused.
 */
static const struct {
    const char *name;
    const char *neutral;
    int where;
} missing[] = {
    {"n", "1", BOTH},
    {"best_of", "1", BOTH},
    {"presence_penalty", "0", BOTH},
    {"frequency_penalty", "0", BOTH},
    {"repetition_penalty", "1", BOTH},
    {"repeat_penalty", "1", BOTH},
    {"length_penalty", "1", BOTH},
    {"min_tokens", "0", BOTH},
    {"typical_p", "1", BOTH},
    {"top_a", "0", BOTH},
    {"dry_multiplier", "0", BOTH},
    {"xtc_probability", "0", BOTH},
    {"mirostat", "0", BOTH},
    {"logit_bias", "{}", BOTH},
    {"bad_words", "[]", BOTH},
    {"allowed_token_ids", "[]", BOTH},
    {"stop_token_ids", "[]", BOTH},
    {"stop_regex", "[]", BOTH},
    {"ignore_eos", "false", BOTH},
    {"include_stop_str_in_output", "false", BOTH},
    {"skip_special_tokens", "true", BOTH},
    {"use_beam_search", "false", BOTH},
    {"logprobs", "false", CHAT},
    {"logprobs", "", TEXT},
    {"top_logprobs", "0", CHAT},
    {"prompt_logprobs", "", BOTH},
    {"echo", "false", BOTH},
    {"suffix", "\"\"", TEXT},
    {"response_format", "{\"type\":\"text\"}", BOTH},
    {"structured_outputs", "{}", BOTH},
    {"guided_json", "", BOTH},
    {"guided_regex", "", BOTH},
    {"guided_choice", "[]", BOTH},
    {"guided_grammar", "", BOTH},
    {"grammar", "\"\"", BOTH},
    {"json_schema", "{}", BOTH},
    {"regex", "", BOTH},
    {"ebnf", "", BOTH},
    {"functions", "[]", CHAT},
    {"function_call", "\"none\" \"auto\"", CHAT},
    {"modalities", "[\"text\"]", CHAT},
    {"audio", "", CHAT},
    {"prediction", "", CHAT},
    {"web_search_options", "", CHAT},
    {"documents", "[]", CHAT},
    {"reasoning_effort", "", CHAT},
    {"reasoning", "", CHAT},
    {"thinking", "", CHAT},
    {"thinking_budget", "", BOTH},
    {"thinking_token_budget", "", BOTH},
    {"enable_thinking", "", BOTH},
    {"verbosity", "\"medium\"", CHAT},
    {"chat_template", "", CHAT},
    {"add_generation_prompt", "true", CHAT},
    {"continue_final_message", "false", CHAT},
    {"truncate_prompt_tokens", "-1", BOTH},
    {"prompt_embeds", "", BOTH},
    {"previous_response_id", "", BOTH},
};

/* true == 1 as JSON numbers, whatever their spelling */
static bool same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

static bool is_neutral(const json_t *v, const char *neutral)
{
    size_t n = strlen(neutral), at = 0;
    while (at < n) {
        json_error_t e;
        json_t *want = json_loadb(neutral + at, n - at, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, &e);
        if (!want) return false;
        bool yes = same(v, want);
        json_decref(want);
        if (yes) return true;
        at += (size_t)e.position;
    }
    return false;
}

qn_status qn_fields_check_all(const json_t *o, bool chat, size_t *n_unknown, qn_error *err)
{
    int where = chat ? CHAT : TEXT;
    const char *name;
    json_t *v;
    *n_unknown = 0;
    json_object_foreach((json_t *)o, name, v)
    {
        bool known = false;
        for (size_t i = 0; i < sizeof understood / sizeof understood[0] && !known; i++)
            known = (understood[i].where & where) && strcmp(understood[i].name, name) == 0;
        for (size_t i = 0; i < sizeof missing / sizeof missing[0] && !known; i++) {
            if (!(missing[i].where & where) || strcmp(missing[i].name, name) != 0) continue;
            known = true;
            if (json_is_null(v) || is_neutral(v, missing[i].neutral)) continue;
            qn_fail(err, QN_UNSUPPORTED, "'%s' is not supported by quern; leave it out%s%s", name,
                    missing[i].neutral[0] ? ", or give one of: " : "", missing[i].neutral);
            qn_error_field(err, "%s", name);
            return QN_UNSUPPORTED;
        }
        if (!known) ++*n_unknown;
    }
    return QN_OK;
}
