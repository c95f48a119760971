/* chat_prepare.c - brings OpenAI messages into the form that chat templates are written for, in a copy:
 *
 *   - arguments of tool calls that are JSON text become the object they spell ("" and null: no arguments)
 *   - absent or null content of an assistant becomes ""
 *   - `reasoning` is renamed to `reasoning_content`
 *   - an assistant's content that starts with <think> and holds </think> is split into reasoning and content
 *   - `developer` becomes `system`; more than one system message, or one that is not first, become one at the
 * head, in order, joined by an empty line
 *   - content parts stay parts, but only text is accepted
 *
 * Messages are copied one level deep; what is not changed is shared with the caller's. */
#include <string.h>

#include "text/chat.h"

#define MAX_ARGUMENTS_DEPTH 128 /* as deep as the template's tojson goes, with room to spare */

__attribute__((format(printf, 3, 4))) static qn_status refuse(qn_error *err, const char *field,
                                                              const char *fmt, ...)
{
    char what[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    qn_status st = qn_fail(err, QN_INVALID, "%s: %s", field, what);
    qn_error_field(err, "%s", field);
    return st;
}

static qn_status no_memory(qn_error *err)
{
    return qn_fail(err, QN_NOMEM, "no memory for the messages");
}

/* json_copy, whole or NULL: by itself it leaves out the members that there is no memory for. */
static json_t *copy_object(const json_t *o)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)o);
    if (copy && json_object_size(copy) == json_object_size(o)) return copy;
    json_decref(copy);
    return NULL;
}

static qn_status check_content(const json_t *content, size_t at, qn_error *err)
{
    char field[96];
    size_t k;
    json_t *part;
    if (json_is_string(content)) return QN_OK;
    snprintf(field, sizeof field, "messages[%zu].content", at);
    if (!json_is_array(content)) return refuse(err, field, "must be a string or a list of text parts");
    json_array_foreach((json_t *)(uintptr_t)content, k, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        snprintf(field, sizeof field, "messages[%zu].content[%zu]", at, k);
        if (!json_is_object(part)) return refuse(err, field, "must be an object");
        if (type && strcmp(type, "text")) {
            char q[40];
            return refuse(err, field, "parts of type '%s' are not supported: this model reads text only",
                          qn_printable(q, sizeof q, type, strlen(type)));
        }
        if (!json_is_string(json_object_get(part, "text")))
            return refuse(err, field, "must have a string \"text\"");
    }
    return QN_OK;
}

/* Depth of nesting, at most max + 1. */
static size_t depth_of(const json_t *v, size_t max)
{
    size_t deepest = 0, i, d;
    const char *key;
    json_t *e, *j = (json_t *)(uintptr_t)v;
    if (max == 0) return 1;
    if (json_is_array(j))
        json_array_foreach(j, i, e) deepest = (d = depth_of(e, max - 1)) > deepest ? d : deepest;
    if (json_is_object(j))
        json_object_foreach(j, key, e) deepest = (d = depth_of(e, max - 1)) > deepest ? d : deepest;
    return deepest + 1;
}

/* One tool call, copied, with its arguments as an object. */
static qn_status prepare_call(const json_t *call, size_t at, size_t k, json_t *list, qn_error *err)
{
    char field[96];
    json_error_t bad;
    const json_t *f = json_object_get(call, "function"), *arguments = json_object_get(f, "arguments");
    snprintf(field, sizeof field, "messages[%zu].tool_calls[%zu].function", at, k);
    if (!json_is_object(f)) return refuse(err, field, "must be an object");
    snprintf(field, sizeof field, "messages[%zu].tool_calls[%zu].function.name", at, k);
    if (!json_string_length(json_object_get(f, "name")))
        return refuse(err, field, "must be a string that is not empty");
    snprintf(field, sizeof field, "messages[%zu].tool_calls[%zu].function.arguments", at, k);
    json_t *parsed = NULL;
    if (json_is_string(arguments)) {
        const char *s = json_string_value(arguments);
        bool blank = strspn(s, " \t\r\n") == json_string_length(arguments);
        parsed = blank ? json_object() : json_loadb(s, json_string_length(arguments), 0, &bad);
        if (!parsed) return blank ? no_memory(err) : refuse(err, field, "not JSON: %s", bad.text);
    } else if (!arguments || json_is_null(arguments)) {
        parsed = json_object();
    } else {
        parsed = json_incref((json_t *)(uintptr_t)arguments);
    }
    json_t *copy = copy_object(call), *function = copy_object(f);
    qn_status st = QN_OK;
    if (!parsed || !copy || !function)
        st = no_memory(err);
    else if (!json_is_object(parsed))
        st = refuse(err, field, "must be a JSON object");
    else if (depth_of(parsed, MAX_ARGUMENTS_DEPTH) > MAX_ARGUMENTS_DEPTH)
        st = refuse(err, field, "nested deeper than the limit of %d", MAX_ARGUMENTS_DEPTH);
    else if (json_object_set(function, "arguments", parsed) || json_object_set(copy, "function", function) ||
             json_array_append(list, copy))
        st = no_memory(err);
    json_decref(parsed);
    json_decref(function);
    json_decref(copy);
    return st;
}

static qn_status prepare_calls(json_t *m, size_t at, qn_error *err)
{
    json_t *calls = json_object_get(m, "tool_calls"), *call;
    char field[96];
    size_t k;
    if (!calls) return QN_OK;
    if (json_is_null(calls)) return json_object_del(m, "tool_calls") ? no_memory(err) : QN_OK;
    snprintf(field, sizeof field, "messages[%zu].tool_calls", at);
    if (!json_is_array(calls)) return refuse(err, field, "must be an array");
    json_t *list = json_array();
    qn_status st = list ? QN_OK : no_memory(err);
    json_array_foreach(calls, k, call) if (!st) st = prepare_call(call, at, k, list, err);
    if (!st && json_object_set(m, "tool_calls", list)) st = no_memory(err);
    json_decref(list);
    return st;
}

static const char *skip(const char *s, const char *end)
{
    while (s < end && *s == '\n') s++;
    return s;
}

/* "<think>\nREASONING\n</think>\n\nCONTENT", as a client echoes an answer, into its two halves. */
static qn_status split_thought(json_t *m, qn_error *err)
{
    const json_t *content = json_object_get(m, "content");
    const char *s = json_string_value(content), *end = s ? s + json_string_length(content) : NULL, *from = s,
               *stop, *last, *hit;
    if (!s) return QN_OK;
    while (from < end && strchr(" \t\r\n", *from) && *from) from++;
    if (end - from < 7 || memcmp(from, "<think>", 7) ||
        !(stop = memmem(from, (size_t)(end - from), "</think>", 8)))
        return QN_OK;
    for (last = stop; (hit = memmem(last + 8, (size_t)(end - last - 8), "</think>", 8));) last = hit;
    for (from += 7; (hit = memmem(from, (size_t)(stop - from), "<think>", 7));) from = hit + 7;
    from = skip(from, stop);
    while (stop > from && stop[-1] == '\n') stop--;
    last = skip(last + 8, end);
    json_t *reasoning = json_stringn(from, (size_t)(stop - from)),
           *rest = json_stringn(last, (size_t)(end - last));
    qn_status st = QN_OK;
    if (!reasoning || !rest || json_object_set(m, "reasoning_content", reasoning) ||
        json_object_set(m, "content", rest))
        st = no_memory(err);
    json_decref(reasoning);
    json_decref(rest);
    return st;
}

static qn_status prepare_assistant(json_t *m, size_t at, qn_error *err)
{
    char field[96];
    json_t *content = json_object_get(m, "content"), *reasoning = json_object_get(m, "reasoning_content"),
           *other = json_object_get(m, "reasoning");
    if ((!content || json_is_null(content)) && json_object_set_new(m, "content", json_string("")))
        return no_memory(err);
    if (!json_is_string(reasoning) && json_is_string(other)) {
        if (json_object_set(m, "reasoning_content", other)) return no_memory(err);
        reasoning = json_object_get(m, "reasoning_content");
    }
    if (other) json_object_del(m, "reasoning");
    if (reasoning && !json_is_string(reasoning)) {
        snprintf(field, sizeof field, "messages[%zu].reasoning_content", at);
        if (!json_is_null(reasoning)) return refuse(err, field, "must be a string");
        json_object_del(m, "reasoning_content");
        reasoning = NULL;
    }
    qn_status st = prepare_calls(m, at, err);
    return st || reasoning ? st : split_thought(m, err);
}

static qn_status prepare_one(const json_t *message, size_t at, json_t *list, qn_error *err)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
    char field[96], q[40];
    snprintf(field, sizeof field, "messages[%zu]", at);
    if (!json_is_object(message)) return refuse(err, field, "must be an object");
    const char *role = json_string_value(json_object_get(message, "role"));
    snprintf(field, sizeof field, "messages[%zu].role", at);
    if (!role) return refuse(err, field, "must be a string");
    size_t k = 0;
    while (k < 5 && strcmp(role, roles[k])) k++;
    if (k == 5) return refuse(err, field, "unknown role '%s'", qn_printable(q, sizeof q, role, strlen(role)));
    json_t *m = copy_object(message);
    if (!m) return no_memory(err);
    qn_status st = QN_OK;
    if (k == 1 && json_object_set_new(m, "role", json_string("system"))) st = no_memory(err);
    if (!st && k == 3) st = prepare_assistant(m, at, err);
    if (!st) st = check_content(json_object_get(m, "content"), at, err);
    if (!st && json_array_append(list, m)) st = no_memory(err);
    json_decref(m);
    return st;
}

static bool is_system(const json_t *m)
{
    return !strcmp(json_string_value(json_object_get(m, "role")), "system");
}

/* All text of one message's content, appended. */
static bool add_content(qn_buf *b, const json_t *m)
{
    json_t *content = json_object_get(m, "content"), *part;
    size_t i;
    if (json_is_string(content))
        return qn_buf_add(b, json_string_value(content), json_string_length(content));
    json_array_foreach(content, i, part)
    {
        const json_t *text = json_object_get(part, "text");
        if (!qn_buf_add(b, json_string_value(text), json_string_length(text))) return false;
    }
    return true;
}

/* Templates of this family take one system message, and only at the head. */
static qn_status merge_system(json_t **messages, qn_error *err)
{
    size_t n_system = 0, i;
    json_t *m, *merged = NULL, *head = NULL;
    json_array_foreach(*messages, i, m) n_system += is_system(m);
    if (n_system == 0 || (n_system == 1 && is_system(json_array_get(*messages, 0)))) return QN_OK;
    qn_buf text;
    qn_buf_init(&text, QN_TPL_MAX_OUTPUT);
    qn_status st = QN_OK;
    json_array_foreach(*messages, i, m)
    {
        size_t before = text.len;
        if (!is_system(m)) continue;
        if (before) qn_buf_str(&text, "\n\n");
        size_t joint = text.len;
        add_content(&text, m);
        if (text.len == joint && !text.failed) text.len = before; /* an empty one leaves no gap */
    }
    st = qn_buf_status(&text, "the system messages together", err);
    if (!st) {
        merged = json_array();
        head = json_pack("{s:s, s:o}", "role", "system", "content",
                         json_stringn(text.data ? text.data : "", text.len));
        if (!merged || !head || json_array_append(merged, head)) st = no_memory(err);
    }
    json_array_foreach(*messages, i, m) if (!st && !is_system(m) && json_array_append(merged, m)) st =
        no_memory(err);
    json_decref(head);
    qn_buf_deinit(&text);
    if (st) return json_decref(merged), st;
    json_decref(*messages);
    *messages = merged;
    return QN_OK;
}

qn_status qn_chat_prepare(json_t **out, const json_t *messages, qn_error *err)
{
    size_t i;
    json_t *m;
    *out = NULL;
    if (!json_is_array(messages)) return refuse(err, "messages", "must be an array");
    if (json_array_size(messages) == 0) return refuse(err, "messages", "must not be empty");
    json_t *list = json_array();
    qn_status st = list ? QN_OK : no_memory(err);
    json_array_foreach((json_t *)(uintptr_t)messages, i, m) if (!st) st = prepare_one(m, i, list, err);
    if (!st) st = merge_system(&list, err);
    if (st)
        json_decref(list);
    else
        *out = list;
    return st;
}

qn_status qn_chat_check_tools(const json_t *tools, qn_error *err)
{
    char field[96];
    size_t i;
    json_t *t;
    if (!tools || json_is_null(tools)) return QN_OK;
    if (!json_is_array(tools)) return refuse(err, "tools", "must be an array");
    if (json_array_size(tools) > QN_CHAT_MAX_TOOLS) {
        qn_status st = qn_fail(err, QN_TOO_LARGE, "tools: more than the limit of %d", QN_CHAT_MAX_TOOLS);
        qn_error_field(err, "tools");
        return st;
    }
    json_array_foreach((json_t *)(uintptr_t)tools, i, t)
    {
        snprintf(field, sizeof field, "tools[%zu]", i);
        if (!json_is_object(t)) return refuse(err, field, "must be an object");
        const json_t *type = json_object_get(t, "type"), *f = json_object_get(t, "function"),
                     *p = json_object_get(f, "parameters");
        snprintf(field, sizeof field, "tools[%zu].type", i);
        if (type && (!json_is_string(type) || strcmp(json_string_value(type), "function")))
            return refuse(err, field, "only \"function\" is supported");
        snprintf(field, sizeof field, "tools[%zu].function", i);
        if (!json_is_object(f)) return refuse(err, field, "must be an object");
        snprintf(field, sizeof field, "tools[%zu].function.name", i);
        if (!json_string_length(json_object_get(f, "name")))
            return refuse(err, field, "must be a string that is not empty");
        snprintf(field, sizeof field, "tools[%zu].function.parameters", i);
        if (p && !json_is_object(p) && !json_is_null(p)) return refuse(err, field, "must be an object");
    }
    return QN_OK;
}
