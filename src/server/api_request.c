/* api_request.c - from the bytes of a body to a qn_api_request. */
#include "server/api_request.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "server/api_fields.h"
#include "server/api_messages.h"

/* An upper bound of the JSON values in a text, without parsing it: a parser spends 16 to 80 times the bytes
 * of "[[],[],..." */
static size_t count_values(const char *s, size_t n)
{
    size_t values = 1;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        if (in_string) {
            if (s[i] == '\\')
                i++;
            else if (s[i] == '"')
                in_string = false;
        } else if (s[i] == '"') {
            in_string = true;
        } else if (s[i] == ',' || s[i] == '[' || s[i] == '{') {
            values++;
        }
    }
    return values;
}

static qn_status load(json_t **root, const char *body, size_t n, qn_error *err)
{
    json_error_t e;
    if (n == 0) return qn_fail(err, QN_INVALID, "the body is empty; a JSON object is needed");
    size_t values = count_values(body, n);
    if (values > QN_API_MAX_JSON_VALUES)
        return qn_fail(err, QN_INVALID, "the body has about %zu JSON values; the limit is %zu", values,
                       QN_API_MAX_JSON_VALUES);
    *root = json_loadb(body, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (!*root) {
        char text[JSON_ERROR_TEXT_LENGTH * 2];
        qn_printable(text, sizeof text, e.text, strlen(e.text));
        return qn_fail(err, QN_INVALID, "the body is not valid JSON: line %d, column %d: %s", e.line,
                       e.column, text);
    }
    if (!json_is_object(*root))
        return qn_fail(err, QN_INVALID, "the body is %s; a JSON object is needed", qn_json_kind(*root));
    return QN_OK;
}

static qn_status parse_model(const json_t *o, const qn_api_rules *rules, qn_error *err)
{
    const json_t *v = qn_field_get(o, "model");
    if (!v) return QN_OK;
    if (!json_is_string(v)) return qn_field_fail(err, "model", "must be a string, not %s", qn_json_kind(v));
    size_t n = json_string_length(v);
    if (rules->any_model ||
        (n == strlen(rules->model_id) && memcmp(json_string_value(v), rules->model_id, n) == 0))
        return QN_OK;
    char name[96];
    qn_fail(err, QN_NOT_FOUND, "the model '%s' does not exist; this server has '%s'",
            qn_printable(name, sizeof name, json_string_value(v), n), rules->model_id);
    qn_error_field(err, "model");
    return QN_NOT_FOUND;
}

static qn_status parse_stop(qn_api_request *r, const json_t *o, qn_error *err)
{
    const json_t *v = qn_field_get(o, "stop");
    if (!v) return QN_OK;
    if (!json_is_string(v) && !json_is_array(v))
        return qn_field_fail(err, "stop", "must be a string or an array of strings, not %s", qn_json_kind(v));
    size_t n = json_is_string(v) ? 1 : json_array_size(v);
    if (n > QN_STOP_MAX)
        return qn_field_fail(err, "stop", "has %zu strings; the limit is %d", n, QN_STOP_MAX);
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_is_string(v) ? v : json_array_get(v, i);
        if (!json_is_string(s))
            return qn_field_fail(err, "stop", "has %s as entry %zu; strings are needed", qn_json_kind(s), i);
        size_t len = json_string_length(s);
        if (len < 1 || len > QN_STOP_MAX_BYTES)
            return qn_field_fail(err, "stop", "has %zu bytes in entry %zu; 1 to %d are allowed", len, i,
                                 QN_STOP_MAX_BYTES);
        r->stop[i] = json_string_value(s);
        r->stop_len[i] = len;
    }
    r->n_stop = n;
    return QN_OK;
}

static qn_status parse_sampling(qn_api_request *r, const json_t *o, qn_error *err)
{
    qn_status st = qn_field_float(o, "temperature", 0, 100, false, &r->sampling.temperature, err);
    if (!st) st = qn_field_float(o, "top_p", 0, 1, true, &r->sampling.top_p, err);
    if (!st) st = qn_field_float(o, "min_p", 0, 1, false, &r->sampling.min_p, err);
    int64_t top_k = r->sampling.top_k, seed = 0;
    if (!st) st = qn_field_int(o, "top_k", -1, INT32_MAX, &top_k, err); /* -1: all, as elsewhere */
    r->sampling.top_k = top_k < 0 ? 0 : (int32_t)top_k;
    if (!st) st = qn_field_int(o, "seed", INT64_MIN, INT64_MAX, &seed, err);
    r->seed_given = qn_field_get(o, "seed") != NULL;
    if (r->seed_given) r->sampling.seed = (uint64_t)seed;
    return st;
}

static qn_status parse_limits(qn_api_request *r, const json_t *o, qn_error *err)
{
    int64_t old = 0, max = 0;
    qn_status st = qn_field_int(o, "max_tokens", 1, INT64_MAX, &old, err);
    if (!st) st = qn_field_int(o, "max_completion_tokens", 1, INT64_MAX, &max, err);
    r->max_tokens = (uint64_t)(max ? max : old);
    return st;
}

static qn_status parse_stream(qn_api_request *r, const json_t *o, qn_error *err)
{
    qn_status st = qn_field_bool(o, "stream", &r->stream, err);
    const json_t *options = qn_field_get(o, "stream_options");
    if (st || !options) return st;
    if (!json_is_object(options))
        return qn_field_fail(err, "stream_options", "must be an object, not %s", qn_json_kind(options));
    if (!r->stream)
        return qn_field_fail(err, "stream_options", "is only allowed together with \"stream\": true");
    st = qn_field_bool(options, "include_usage", &r->include_usage, err);
    if (st) qn_error_field(err, "stream_options.include_usage");
    return st;
}

static qn_status dump(char **text, size_t *n, const json_t *v, qn_error *err)
{
    *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!*text) return qn_fail(err, QN_NOMEM, "no memory for a copy of the request");
    if (n) *n = strlen(*text); /* NULs are written as escapes */
    return QN_OK;
}

static qn_status parse_template_vars(qn_api_request *r, const json_t *o, qn_error *err)
{
    json_t *vars = (json_t *)qn_field_get(o, "chat_template_kwargs");
    if (!vars) return QN_OK;
    if (!json_is_object(vars))
        return qn_field_fail(err, "chat_template_kwargs", "must be an object, not %s", qn_json_kind(vars));
    const json_t *thinking = qn_field_get(vars, "enable_thinking");
    if (thinking && !json_is_boolean(thinking))
        return qn_field_fail(err, "chat_template_kwargs.enable_thinking", "must be true or false, not %s",
                             qn_json_kind(thinking));
    if (thinking) r->enable_thinking = json_is_true(thinking);
    json_object_del(vars, "enable_thinking");
    return json_object_size(vars) ? dump(&r->template_vars, NULL, vars, err) : QN_OK;
}

static qn_status parse_chat(qn_api_request *r, json_t *o, qn_error *err)
{
    json_t *messages = (json_t *)qn_field_get(o, "messages");
    const json_t *tools = qn_field_get(o, "tools"), *choice = qn_field_get(o, "tool_choice");
    qn_status st = qn_api_check_messages(messages, err);
    if (!st && tools) st = qn_api_check_tools(tools, err);
    if (!st) st = qn_field_bool(o, "parallel_tool_calls", &r->parallel_calls, err);
    if (st) return st;
    const char *how = json_string_value(choice);
    if (choice && (!how || (strcmp(how, "auto") != 0 && strcmp(how, "none") != 0)))
        return qn_field_fail(err, "tool_choice",
                             "may be \"auto\" or \"none\"; forced calls are not supported by quern");
    if (json_array_size(tools) && !(how && strcmp(how, "none") == 0)) st = dump(&r->tools, NULL, tools, err);
    if (!st) st = parse_template_vars(r, o, err);
    if (!st) st = dump(&r->messages, &r->n_messages, messages, err);
    return st;
}

static qn_status parse_ids(qn_api_request *r, const json_t *list, uint32_t vocab, qn_error *err)
{
    size_t n = json_array_size(list);
    r->ids = calloc(n, sizeof *r->ids);
    if (!r->ids) return qn_fail(err, QN_NOMEM, "no memory for %zu prompt ids", n);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v))
            return qn_field_fail(err, "prompt", "has %s as entry %zu; ids are integers", qn_json_kind(v), i);
        if (json_integer_value(v) < 0 || json_integer_value(v) >= vocab)
            return qn_field_fail(err, "prompt",
                                 "has the id %" JSON_INTEGER_FORMAT " as entry %zu; ids are 0 to %" PRIu32,
                                 json_integer_value(v), i, vocab - 1);
        r->ids[i] = (int32_t)json_integer_value(v);
    }
    r->n_ids = n;
    return QN_OK;
}

static qn_status parse_prompt(qn_api_request *r, const json_t *o, uint32_t vocab, qn_error *err)
{
    const json_t *v = qn_field_get(o, "prompt");
    qn_status st = qn_field_bool(o, "special_tokens", &r->special_tokens, err);
    if (st) return st;
    if (!v) return qn_field_fail(err, "prompt", "is missing");
    if (json_is_array(v) && json_array_size(v) > 0) {
        const json_t *first = json_array_get(v, 0);
        if (json_is_number(first)) return parse_ids(r, v, vocab, err);
        if (json_array_size(v) > 1)
            return qn_field_fail(err, "prompt", "has %zu prompts; one a request is supported",
                                 json_array_size(v));
        v = first;
        if (json_is_array(v) && json_array_size(v) > 0) return parse_ids(r, v, vocab, err);
    }
    if (!json_is_string(v))
        return qn_field_fail(err, "prompt", "must be a string, an array of one string or an array of ids");
    if (json_string_length(v) == 0) return qn_field_fail(err, "prompt", "must not be empty");
    r->prompt = json_string_value(v);
    r->n_prompt = json_string_length(v);
    return QN_OK;
}

qn_status qn_api_request_parse(qn_api_request *r, bool chat, const char *body, size_t n,
                               const qn_api_rules *rules, qn_error *err)
{
    *r = (qn_api_request){.chat = chat,
                          .parallel_calls = true,
                          .special_tokens = true,
                          .enable_thinking = -1,
                          .sampling = rules->sampling};
    qn_status st = load(&r->root, body, n, err);
    json_t *o = r->root;
    if (!st) st = parse_stream(r, o, err);
    if (!st) st = parse_model(o, rules, err);
    if (!st) st = qn_fields_check_all(o, chat, &r->n_unknown, err);
    if (!st) st = parse_sampling(r, o, err);
    if (!st) st = parse_limits(r, o, err);
    if (!st) st = parse_stop(r, o, err);
    if (!st) st = chat ? parse_chat(r, o, err) : parse_prompt(r, o, rules->vocab, err);
    return st;
}

void qn_api_request_deinit(qn_api_request *r)
{
    free(r->messages);
    free(r->tools);
    free(r->template_vars);
    free(r->ids);
    json_decref(r->root);
    *r = (qn_api_request){0};
}
