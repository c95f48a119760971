/* api_messages.c - shapes of messages, content parts, tool calls and tools; each refusal names the place. */
#include "server/api_messages.h"

#include <stdio.h>
#include <string.h>

#include "server/api_fields.h"
#include "server/api_request.h"

static bool one_of(const char *s, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(s, *list) == 0) return true;
    return false;
}

static qn_status check_content(const json_t *content, size_t i, qn_error *err)
{
    char field[96];
    snprintf(field, sizeof field, "messages[%zu].content", i);
    if (json_is_string(content)) return QN_OK;
    if (!json_is_array(content))
        return qn_field_fail(err, field, "must be a string or an array of parts, not %s",
                             qn_json_kind(content));
    for (size_t j = 0; j < json_array_size(content); j++) {
        const json_t *part = json_array_get(content, j), *text = json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        char name[48];
        snprintf(field, sizeof field, "messages[%zu].content[%zu]", i, j);
        if (!json_is_object(part))
            return qn_field_fail(err, field, "must be an object, not %s", qn_json_kind(part));
        if (!type) return qn_field_fail(err, field, "needs a 'type'");
        if (strcmp(type, "text") != 0)
            return qn_field_fail(err, field, "has type '%s'; quern takes text parts only",
                                 qn_printable(name, sizeof name, type, strlen(type)));
        if (!json_is_string(text))
            return qn_field_fail(err, field, "needs a string 'text', which is %s", qn_json_kind(text));
    }
    return QN_OK;
}

static qn_status check_calls(const json_t *calls, size_t i, qn_error *err)
{
    char field[96];
    snprintf(field, sizeof field, "messages[%zu].tool_calls", i);
    if (!json_is_array(calls))
        return qn_field_fail(err, field, "must be an array, not %s", qn_json_kind(calls));
    for (size_t j = 0; j < json_array_size(calls); j++) {
        const json_t *f = json_object_get(json_array_get(calls, j), "function");
        const json_t *arguments = qn_field_get(f, "arguments");
        snprintf(field, sizeof field, "messages[%zu].tool_calls[%zu].function", i, j);
        if (!json_is_object(f))
            return qn_field_fail(err, field, "must be an object, not %s", qn_json_kind(f));
        if (!json_is_string(json_object_get(f, "name")))
            return qn_field_fail(err, field, "needs a string 'name'");
        if (arguments && !json_is_string(arguments) && !json_is_object(arguments))
            return qn_field_fail(err, field,
                                 "has 'arguments' that are %s; a JSON text or an object is needed",
                                 qn_json_kind(arguments));
    }
    return QN_OK;
}

static qn_status check_message(json_t *m, size_t i, qn_error *err)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool", NULL};
    char field[96], name[48];
    snprintf(field, sizeof field, "messages[%zu]", i);
    if (!json_is_object(m)) return qn_field_fail(err, field, "must be an object, not %s", qn_json_kind(m));
    const char *role = json_string_value(json_object_get(m, "role"));
    snprintf(field, sizeof field, "messages[%zu].role", i);
    if (!role)
        return qn_field_fail(err, field, "must be a string, is %s", qn_json_kind(json_object_get(m, "role")));
    if (!one_of(role, roles))
        return qn_field_fail(err, field, "is '%s'; known are system, developer, user, assistant, tool",
                             qn_printable(name, sizeof name, role, strlen(role)));
    bool assistant = strcmp(role, "assistant") == 0;
    const json_t *calls = qn_field_get(m, "tool_calls"), *content = qn_field_get(m, "content");
    qn_status st = QN_OK;
    if (calls) {
        snprintf(field, sizeof field, "messages[%zu].tool_calls", i);
        if (!assistant) return qn_field_fail(err, field, "belongs to assistant messages only");
        st = check_calls(calls, i, err);
        if (st) return st;
    }
    if (content || !assistant)
        st = check_content(content, i, err); /* assistant: null beside tool calls or a thought */
    if (st) return st;
    for (int k = 0; k < 2; k++) {
        const char *key = k ? "reasoning_content" : "reasoning";
        const json_t *thought = qn_field_get(m, key);
        snprintf(field, sizeof field, "messages[%zu].%s", i, key);
        if (thought && !json_is_string(thought))
            return qn_field_fail(err, field, "must be a string, not %s", qn_json_kind(thought));
    }
    json_t *thought = json_object_get(m, "reasoning");
    if (thought) {
        if (json_is_string(thought) && !qn_field_get(m, "reasoning_content") &&
            json_object_set(m, "reasoning_content", thought))
            return qn_fail(err, QN_NOMEM, "no memory for messages[%zu]", i);
        json_object_del(m, "reasoning");
    }
    return QN_OK;
}

qn_status qn_api_check_messages(json_t *messages, qn_error *err)
{
    size_t n = json_array_size(messages);
    if (!messages) return qn_field_fail(err, "messages", "is missing");
    if (!json_is_array(messages))
        return qn_field_fail(err, "messages", "must be an array, not %s", qn_json_kind(messages));
    if (n == 0) return qn_field_fail(err, "messages", "must not be empty");
    if (n > QN_API_MAX_MESSAGES)
        return qn_field_fail(err, "messages", "has %zu entries; the limit is %d", n, QN_API_MAX_MESSAGES);
    for (size_t i = 0; i < n; i++) {
        qn_status st = check_message(json_array_get(messages, i), i, err);
        if (st) return st;
    }
    return QN_OK;
}

qn_status qn_api_check_tools(const json_t *tools, qn_error *err)
{
    char field[96];
    if (!json_is_array(tools))
        return qn_field_fail(err, "tools", "must be an array, not %s", qn_json_kind(tools));
    size_t n = json_array_size(tools);
    if (n > QN_API_MAX_TOOLS)
        return qn_field_fail(err, "tools", "has %zu entries; the limit is %d", n, QN_API_MAX_TOOLS);
    for (size_t i = 0; i < n; i++) {
        const json_t *t = json_array_get(tools, i), *f = json_object_get(t, "function"),
                     *p = qn_field_get(f, "parameters");
        const char *type = json_string_value(json_object_get(t, "type"));
        const char *name = json_string_value(json_object_get(f, "name"));
        snprintf(field, sizeof field, "tools[%zu]", i);
        if (!json_is_object(t))
            return qn_field_fail(err, field, "must be an object, not %s", qn_json_kind(t));
        snprintf(field, sizeof field, "tools[%zu].type", i);
        if (!type || strcmp(type, "function") != 0) return qn_field_fail(err, field, "must be 'function'");
        snprintf(field, sizeof field, "tools[%zu].function", i);
        if (!json_is_object(f))
            return qn_field_fail(err, field, "must be an object, not %s", qn_json_kind(f));
        snprintf(field, sizeof field, "tools[%zu].function.name", i);
        if (!name || !*name) return qn_field_fail(err, field, "must be a string that is not empty");
        snprintf(field, sizeof field, "tools[%zu].function.parameters", i);
        if (p && !json_is_object(p))
            return qn_field_fail(err, field, "must be an object, not %s", qn_json_kind(p));
    }
    return QN_OK;
}
