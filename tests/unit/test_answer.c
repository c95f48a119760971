/* test_answer.c - recorded answers taken apart: whole, byte by byte and cut in two at every place, which must
 * all give the same; the demonstration model's answers, put together again; how finely arguments stream. */
#include "tap.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quern.h"
#include "text/answer.h"

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"s\":{\"type\":\"string\"},\"i\":{\"type\":\"integer\"},\"n\":{\"type\":\"number\"},\"b\":{\"type\":\"boolean\"},"
    "\"o\":{\"type\":\"object\"},\"a\":{\"type\":\"array\"},\"sn\":{\"type\":[\"string\",\"null\"]},\"si\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]},"
    "\"e\":{\"enum\":[\"1\",\"2\"]},\"so\":{\"type\":[\"string\",\"object\"]}}}}}]";

/* What the events of one answer join to: "R{...}" "C{...}" "0:f{...}" in their order of sections. */
typedef struct joined {
    char reasoning[8192], content[8192];
    char names[8][64], args[8][8192];
    uint32_t n_calls;
    size_t n_events;
    bool wrong;
} joined;

static void append(char *dst, size_t cap, const char *s, size_t n)
{
    size_t len = strlen(dst);
    if (n >= cap - len) fail_msg("the answer is longer than the test's buffers");
    memcpy(dst + len, s, n);
    dst[len + n] = 0;
}

static void on_event(void *ctx, const qn_answer_event *e)
{
    joined *j = ctx;
    j->n_events++;
    j->wrong |= e->n == 0 || e->call >= 8;
    if (j->wrong) return;
    switch (e->kind) {
    case QN_ANSWER_REASONING: append(j->reasoning, sizeof j->reasoning, e->text, e->n); break;
    case QN_ANSWER_CONTENT: append(j->content, sizeof j->content, e->text, e->n); break;
    case QN_ANSWER_CALL:
        j->wrong |= e->call != j->n_calls++;
        append(j->names[e->call], 64, e->text, e->n);
        break;
    case QN_ANSWER_ARGUMENTS:
        j->wrong |= e->call + 1 != j->n_calls;
        append(j->args[e->call], sizeof j->args[0], e->text, e->n);
        break;
    }
}

/* Feed text in pieces: first `cut` bytes, then pieces of `size` (0: the rest). */
static void take(joined *j, bool thinking, const char *offered, const char *text, size_t n, size_t cut,
                 size_t size)
{
    qn_answer *a;
    qn_error err;
    memset(j, 0, sizeof *j);
    if (qn_answer_create(&a, thinking, offered, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < n;) {
        size_t k = i == 0 && cut ? cut : size ? size : n - i;
        if (k > n - i) k = n - i;
        char *copy = malloc(k); /* the exact bytes, so that reading past them is caught */
        memcpy(copy, text + i, k);
        if (qn_answer_push(a, copy, k, on_event, j, &err)) fail_msg("%s", err.msg);
        free(copy);
        i += k;
    }
    if (qn_answer_finish(a, on_event, j, &err)) fail_msg("%s", err.msg);
    assert_int_equal(qn_answer_calls(a), j->n_calls);
    assert_false(j->wrong);
    qn_answer_destroy(a);
}

static void same(const joined *a, const joined *b, const char *text, size_t cut)
{
    bool eq =
        !strcmp(a->reasoning, b->reasoning) && !strcmp(a->content, b->content) && a->n_calls == b->n_calls;
    for (uint32_t i = 0; eq && i < a->n_calls; i++)
        eq = !strcmp(a->names[i], b->names[i]) && !strcmp(a->args[i], b->args[i]);
    if (!eq)
        fail_msg("cut at %zu changes the result of: %s\nR[%s] C[%s] A[%s]\nR[%s] C[%s] A[%s]", cut, text,
                 a->reasoning, a->content, a->args[0], b->reasoning, b->content, b->args[0]);
}

static void every_split(joined *whole, bool thinking, const char *offered, const char *text)
{
    size_t n = strlen(text);
    joined *part = malloc(sizeof *part);
    take(whole, thinking, offered, text, n, 0, 0);
    for (size_t cut = 1; cut < n; cut++) {
        take(part, thinking, offered, text, n, cut, 0);
        same(whole, part, text, cut);
    }
    for (size_t size = 1; size < 8; size++) {
        take(part, thinking, offered, text, n, 0, size);
        same(whole, part, text, size);
    }
    free(part);
}

#define CALL(inner)   "<tool_call>\n<function=f>\n" inner "</function>\n</tool_call>"
#define P(key, value) "<parameter=" key ">\n" value "\n</parameter>\n"

typedef struct row {
    const char *what;
    int thinking; /* -1: without tools */
    const char *text, *reasoning, *content, *args[3];
} row;

static const row rows[] = {
    {"a thought and an answer", 1, "\nI think.\n</think>\n\nHello.\n", "I think.", "Hello.\n", {0}},
    {"inner newlines stay", 1, "a\n\nb\n</think>\n\nc\n\nd\n\n", "a\n\nb", "c\n\nd\n\n", {0}},
    {"cut inside the thought", 1, "still thinking\n", "still thinking", "", {0}},
    {"cut inside the end of the thought", 1, "so </thi", "so </thi", "", {0}},
    {"a second <think> is dropped", 1, "<think>\nhm\n</think>\n\nyes", "hm", "yes", {0}},
    {"thinking off", 0, "Hello <b>you</b>", "", "Hello <b>you</b>", {0}},
    {"thinking off, a stray end", 0, "x</think>y", "", "xy", {0}},
    {"thinking off, the model thinks anyway", 0, "<think>\nx\n</think>\n\ny", "x", "y", {0}},
    {"a second end", 1, "a</think>b</think>c", "a", "bc", {0}},
    {"newlines at the start of content", 0, "\n\nHi", "", "Hi", {0}},
    {"only newlines", 0, "\n\n", "", "", {0}},
    {"nothing", 1, "", "", "", {0}},
    {"a call", 0, CALL(P("s", "Paris")), "", "", {"{\"s\": \"Paris\"}"}},
    {"text, then a call", 0, "Let me see.\n\n" CALL(P("s", "x")) "\n", "", "Let me see.", {"{\"s\": \"x\"}"}},
    {"a thought, then a call",
     1,
     "call it\n</think>\n\n" CALL(P("s", "x")),
     "call it",
     "",
     {"{\"s\": \"x\"}"}},
    {"a call ends an open thought",
     1,
     "I will call\n" CALL(P("s", "x")),
     "I will call",
     "",
     {"{\"s\": \"x\"}"}},
    {"a thought that mentions the tag",
     1,
     "use <tool_call> now\n</think>\nok",
     "use <tool_call> now",
     "ok",
     {0}},
    {"two calls", 0, CALL(P("s", "a")) "\n" CALL(P("i", "2")), "", "", {"{\"s\": \"a\"}", "{\"i\": 2}"}},
    {"three calls without space",
     0,
     CALL("") CALL(P("b", "True")) CALL(P("b", "false")),
     "",
     "",
     {"{}", "{\"b\": true}", "{\"b\": false}"}},
    {"text after a call", 0, "a\n" CALL("") "\n\nb", "", "a\n\nb", {"{}"}},
    {"text only after a call", 0, CALL("") "\n\nb\n", "", "b", {"{}"}},
    {"no tools: tags are text", -1, CALL(P("s", "x")), "", CALL(P("s", "x")), {0}},
    {"an unknown function",
     0,
     "<tool_call>\n<function=g>\n<parameter=q>\n5\n</parameter>\n</function>\n</tool_call>",
     "",
     "",
     {"{\"q\": \"5\"}"}},
    {"an unknown parameter is text", 0, CALL(P("zz", "5")), "", "", {"{\"zz\": \"5\"}"}},
    {"exactly one newline on each side", 0, CALL(P("s", "\n x \n")), "", "", {"{\"s\": \"\\n x \\n\"}"}},
    {"an empty value", 0, CALL("<parameter=s>\n</parameter>\n"), "", "", {"{\"s\": \"\"}"}},
    {"an empty line as value", 0, CALL(P("s", "")), "", "", {"{\"s\": \"\"}"}},
    {"escapes",
     0,
     CALL(P("s", "a \"b\" \\ \t\r c\nd < e \x01 \xc3\xb6")),
     "",
     "",
     {"{\"s\": \"a \\\"b\\\" \\\\ \\t\\r c\\nd < e \\u0001 \xc3\xb6\"}"}},
    {"</function> inside a value",
     0,
     CALL(P("s", "a\n</function>\nb </parameter> c")),
     "",
     "",
     {"{\"s\": \"a\\n</function>\\nb </parameter> c\"}"}},
    {"a quoted call inside a value",
     0,
     CALL(P("s", "see:\n" CALL(P("s", "y")) "\nend")),
     "",
     "",
     {"{\"s\": \"see:\\n<tool_call>\\n<function=f>\\n<parameter=s>\\ny\\n</parameter>\\n</function>\\n</tool_call>\\nend\"}"}},
    {"a value that is a quoted call",
     0,
     CALL(P("s", CALL(P("s", "y")))),
     "",
     "",
     {"{\"s\": \"<tool_call>\\n<function=f>\\n<parameter=s>\\ny\\n</parameter>\\n</function>\\n</tool_call>\"}"}},
    {"a missing </parameter>",
     0,
     CALL("<parameter=s>\nx\n<parameter=i>\n3\n</parameter>\n"),
     "",
     "",
     {"{\"s\": \"x\", \"i\": 3}"}},
    {"an unknown <parameter= in a value is text",
     0,
     CALL(P("s", "x\n<parameter=zz>\ny")),
     "",
     "",
     {"{\"s\": \"x\\n<parameter=zz>\\ny\"}"}},
    {"a missing last </parameter>", 0, CALL("<parameter=s>\nx\n"), "", "", {"{\"s\": \"x\"}"}},
    {"a missing </tool_call>",
     0,
     "<tool_call>\n<function=f>\n" P("s", "x") "</function>",
     "",
     "",
     {"{\"s\": \"x\"}"}},
    {"a missing </function>",
     0,
     "<tool_call>\n<function=f>\n" P("s", "x") "</tool_call>\n" CALL(""),
     "",
     "",
     {"{\"s\": \"x\"}", "{}"}},
    {"cut in a value", 0, "<tool_call>\n<function=f>\n<parameter=s>\nab", "", "", {"{\"s\": \"ab\"}"}},
    {"cut in a typed value",
     0,
     "<tool_call>\n<function=f>\n<parameter=o>\n{\"a\": ",
     "",
     "",
     {"{\"o\": \"{\\\"a\\\": \"}"}},
    {"cut in the head", 0, "<tool_call>\n<function=f>\n<param", "", "<tool_call>\n<function=f>\n<param", {0}},
    {"cut after the head", 0, "<tool_call>\n<function=f>\n<parameter=s", "", "", {"{}"}},
    {"no function",
     0,
     "<tool_call>\n{\"name\": \"f\"}\n</tool_call>",
     "",
     "<tool_call>\n{\"name\": \"f\"}\n</tool_call>",
     {0}},
    {"a function without a name",
     0,
     "a\n<tool_call><function=></function>",
     "",
     "a\n<tool_call><function=></function>",
     {0}},
    {"all in one line",
     0,
     "<tool_call><function=f><parameter=s>Paris</parameter><parameter=i>4</parameter></function></tool_call>",
     "",
     "",
     {"{\"s\": \"Paris\", \"i\": 4}"}},
    {"a tag at the end of the value's line",
     0,
     CALL("<parameter=s>\nParis</parameter>\n"),
     "",
     "",
     {"{\"s\": \"Paris\"}"}},
    {"the same parameter twice",
     0,
     CALL(P("s", "a") P("s", "b") P("i", "1")),
     "",
     "",
     {"{\"s\": \"a\", \"i\": 1}"}},
    {"integers",
     0,
     CALL(P("i", " 42 ")) CALL(P("i", "4.0")) CALL(P("i", "four")),
     "",
     "",
     {"{\"i\": 42}", "{\"i\": 4}", "{\"i\": \"four\"}"}},
    {"numbers",
     0,
     CALL(P("n", "-1.50")) CALL(P("n", "1e5")) CALL(P("n", "nan")),
     "",
     "",
     {"{\"n\": -1.50}", "{\"n\": 1e5}", "{\"n\": \"nan\"}"}},
    {"null",
     0,
     CALL(P("i", "None")) CALL(P("s", "null")) CALL(P("sn", "None")),
     "",
     "",
     {"{\"i\": null}", "{\"s\": \"null\"}", "{\"sn\": null}"}},
    {"a string that may be null",
     0,
     CALL(P("sn", "nullable")) CALL(P("sn", "No")) CALL(P("sn", "")),
     "",
     "",
     {"{\"sn\": \"nullable\"}", "{\"sn\": \"No\"}", "{\"sn\": \"\"}"}},
    {"objects",
     0,
     CALL(P("o", "{\"b\": [1, true]}")) CALL(P("o", "{'b': (1, True), \"c\": None,}")) CALL(P("o", "{b}")),
     "",
     "",
     {"{\"o\": {\"b\": [1, true]}}", "{\"o\": {\"b\": [1, true], \"c\": null}}", "{\"o\": \"{b}\"}"}},
    {"arrays",
     0,
     CALL(P("a", "[]")) CALL(P("a", "['it\\'s', \"x\\\"y\"]")) CALL(P("a", "[1, 2")),
     "",
     "",
     {"{\"a\": []}", "{\"a\": [\"it's\", \"x\\\"y\"]}", "{\"a\": \"[1, 2\"}"}},
    {"one of two types",
     0,
     CALL(P("si", "7")) CALL(P("si", "seven")) CALL(P("so", "5")),
     "",
     "",
     {"{\"si\": 7}", "{\"si\": \"seven\"}", "{\"so\": \"5\"}"}},
    {"an enum of strings", 0, CALL(P("e", "1")), "", "", {"{\"e\": \"1\"}"}},
    {"a key with a quote", 0, CALL(P("k\"k", "1")), "", "", {"{\"k\\\"k\": \"1\"}"}},
};

static void recorded_rows(void **state)
{
    (void)state;
    joined *j = malloc(sizeof *j);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const row *r = &rows[i];
        uint32_t n = 0;
        every_split(j, r->thinking == 1, r->thinking < 0 ? NULL : tools, r->text);
        while (n < 3 && r->args[n]) n++;
        if (strcmp(j->reasoning, r->reasoning) || strcmp(j->content, r->content) || j->n_calls != n)
            fail_msg("%s: reasoning [%s], content [%s], %u calls [%s]", r->what, j->reasoning, j->content,
                     j->n_calls, j->args[0]);
        for (uint32_t k = 0; k < n; k++) {
            json_t *parsed = json_loads(j->args[k], 0, NULL);
            if (strcmp(j->args[k], r->args[k]))
                fail_msg("%s: arguments %s, not %s", r->what, j->args[k], r->args[k]);
            if (!json_is_object(parsed)) fail_msg("%s: not a JSON object: %s", r->what, j->args[k]);
            json_decref(parsed);
        }
    }
    free(j);
}

/* The raw text of an answer of models/demo/answers.json, as its template spells it. */
static char *rebuild(const json_t *r)
{
    static char text[8192];
    json_t *calls = json_object_get(r, "calls"), *call, *v;
    const char *content = json_string_value(json_object_get(r, "content")), *key;
    size_t i, n = 0;
    text[0] = 0;
#define PUT(...) (n += (size_t)snprintf(text + n, sizeof text - n, __VA_ARGS__))
    if (json_is_true(json_object_get(r, "thinking")))
        PUT("%s\n</think>\n\n", json_string_value(json_object_get(r, "reasoning")));
    PUT("%s", content);
    json_array_foreach(calls, i, call)
    {
        PUT("%s<tool_call>\n<function=%s>\n",
            i          ? "\n"
            : *content ? "\n\n"
                       : "",
            json_string_value(json_array_get(call, 0)));
        json_object_foreach(json_array_get(call, 1), key, v)
        {
            char *s = json_is_string(v) ? strdup(json_string_value(v)) : json_dumps(v, JSON_ENCODE_ANY);
            PUT("<parameter=%s>\n%s\n</parameter>\n", key, s);
            free(s);
        }
        PUT("</function>\n</tool_call>");
    }
    return text;
}

static void demo_answers(void **state)
{
    (void)state;
    json_t *doc = json_load_file("models/demo/answers.json", 0, NULL),
           *answers = json_object_get(doc, "answers"), *r;
    joined *j = malloc(sizeof *j);
    size_t i, n = 0, n_calls = 0;
    json_array_foreach(answers, i, r)
    {
        json_t *calls = json_object_get(r, "calls"), *call;
        json_t *offered = json_object_get(r, "tools");
        char *t = offered ? json_dumps(offered, 0) : NULL;
        size_t k;
        if (strcmp(json_string_value(json_object_get(r, "finish")), "length") == 0) {
            free(t);
            continue; /* where it was cut is not recorded */
        }
        every_split(j, json_is_true(json_object_get(r, "thinking")), t, rebuild(r));
        assert_string_equal(j->reasoning, json_string_value(json_object_get(r, "reasoning")));
        assert_string_equal(j->content, json_string_value(json_object_get(r, "content")));
        assert_int_equal(j->n_calls, json_array_size(calls));
        json_array_foreach(calls, k, call)
        {
            json_t *args = json_loads(j->args[k], 0, NULL);
            assert_string_equal(j->names[k], json_string_value(json_array_get(call, 0)));
            assert_true(json_equal(args, json_array_get(call, 1)));
            json_decref(args);
            n_calls++;
        }
        n++;
        free(t);
    }
    assert_true(n > 50 && n_calls >= 10);
    free(j);
    json_decref(doc);
}

static void long_strings_stream(void **state)
{
    (void)state;
    char text[4096] = "<tool_call>\n<function=f>\n<parameter=s>\n";
    size_t n = strlen(text);
    for (size_t i = 0; i < 2048; i++) text[n++] = i % 32 == 31 ? '\n' : 'x';
    memcpy(text + n, "y\n</parameter>\n</function>\n</tool_call>", 40);
    joined *j = malloc(sizeof *j);
    take(j, false, tools, text, strlen(text), 0, 4); /* about what a token holds */
    assert_true(j->n_events > 400);
    json_t *args = json_loads(j->args[0], 0, NULL);
    assert_int_equal(json_string_length(json_object_get(args, "s")), 2049);
    json_decref(args);
    free(j);
}

/* Nothing but a true prefix of a tag, or newlines, may wait. */
static void count_bytes(void *ctx, const qn_answer_event *e)
{
    *(size_t *)ctx += e->n;
}
static void little_is_held_back(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t shown;
    } held[] = {{"Hello", 5},   {"Hello <", 6},       {"Hello <t", 6},       {"Hello <x", 8},
                {"Hello\n", 5}, {"Hello\n\nyou", 10}, {"a </thinking>", 13}, {"a <tool_call>{", 14}};
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
        qn_answer *a;
        qn_error err;
        size_t shown = 0;
        assert_int_equal(qn_answer_create(&a, false, tools, &err), QN_OK);
        assert_int_equal(qn_answer_push(a, held[i].text, strlen(held[i].text), count_bytes, &shown, &err),
                         QN_OK);
        if (shown != held[i].shown)
            fail_msg("'%s' shows %zu bytes, not %zu", held[i].text, shown, held[i].shown);
        qn_answer_destroy(a);
    }
}

static void limits(void **state)
{
    (void)state;
    qn_answer *a;
    qn_error err;
    joined *j = calloc(1, sizeof *j);
    size_t shown = 0;
    assert_int_equal(qn_answer_create(&a, false, "{}", &err), QN_INVALID);
    assert_string_equal(err.field, "tools");
    assert_null(a);
    assert_int_equal(qn_answer_create(&a, false, "[", &err), QN_INVALID);
    assert_int_equal(qn_answer_create(&a, false, tools, &err), QN_OK);
    for (int i = 0; i < QN_ANSWER_MAX_CALLS + 5; i++)
        assert_int_equal(qn_answer_push(a, CALL(""), strlen(CALL("")), count_bytes, &shown, &err), QN_OK);
    assert_int_equal(qn_answer_finish(a, NULL, NULL, &err), QN_OK);
    assert_int_equal(qn_answer_calls(a), QN_ANSWER_MAX_CALLS);
    assert_int_equal(qn_answer_push(a, "x", 1, NULL, NULL, &err), QN_INVALID);
    qn_answer_destroy(a);
    char text[1024] = "<tool_call>\n<function=";
    memset(text + strlen(text), 'f', QN_ANSWER_MAX_NAME + 1);
    strncat(text, ">\n</function>", 20);
    take(j, false, tools, text, strlen(text), 0, 1);
    assert_int_equal(j->n_calls, 0);
    assert_string_equal(j->content, text);
    /* nested values: a string rather than a deep recursion */
    qn_buf out;
    qn_buf_init(&out, 0);
    char *deep = malloc(100001);
    memset(deep, '[', 100000);
    deep[100000] = 0;
    assert_true(qn_answer_value(QN_TYPE_ARRAY, deep, 100000, &out));
    assert_int_equal(out.data[0], '"');
    qn_buf_deinit(&out);
    free(deep);
    free(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_rows),
        cmocka_unit_test(demo_answers),
        cmocka_unit_test(long_strings_stream),
        cmocka_unit_test(little_is_held_back),
        cmocka_unit_test(limits),
    };
    return TEST_MAIN(tests);
}
