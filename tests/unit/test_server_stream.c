/* test_server_stream.c - event streams and whole answers, with a fake engine behind the real server and real
 * sockets. */
#include "tap.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "support/fake_engine.h"
#include "support/http_client.h"

#define CHAT  "/v1/chat/completions"
#define USER  "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define THINK "\"chat_template_kwargs\":{\"enable_thinking\":true}"

/* a thought, text with characters of 1 to 4 bytes, two calls */
static const char *const pieces[] = {"Let me",
                                     " think.",
                                     "\1",
                                     "al",
                                     "pha be",
                                     "ta ga",
                                     "mma \xc3\xa9",
                                     "\xe6\xb1\x89",
                                     "\xf0\x9f\x98\x80\"\\\n",
                                     "\2get_",
                                     "w\3",
                                     "{\"city\":",
                                     " \"Rome\"}",
                                     "\4",
                                     "\2sum\3",
                                     "{}",
                                     "\4"};
#define N_PIECES ((int32_t)(sizeof pieces / sizeof pieces[0]))

static int up(void **state)
{
    fake_server *s = calloc(1, sizeof *s);
    qn_server_options o = qn_server_options_defaults();
    o.drain_ms = 0;
    fake_server_start(s, &o, pieces, N_PIECES, true);
    *state = s;
    return 0;
}

static int down(void **state)
{
    fake_server *s = *state;
    fake_server_stop(s);
    assert_int_equal(s->status, QN_OK);
    free(s);
    return 0;
}

/* Everything a stream said, joined. */
typedef struct stream {
    qn_buf content, reasoning, same, calls;
    int n_chunks, n_finish, n_usage, n_done, n_role, n_errors, n_comments;
    char finish[16], order[256]; /* r role, t thought, c content, C call, a arguments, f finish, u usage, E
                                    error, D done */
    json_int_t prompt, completion, reasoning_tokens;
    char id[64];
    bool seed;
} stream;

static void note(stream *s, char what)
{
    size_t n = strlen(s->order);
    if (n + 1 < sizeof s->order && (n == 0 || s->order[n - 1] != what || what == 'C')) s->order[n] = what;
}

static void take_chunk(stream *s, const char *line, size_t n, bool chat)
{
    json_error_t e;
    json_t *o = json_loadb(line, n, JSON_REJECT_DUPLICATES, &e); /* refuses bytes that are not UTF-8 */
    assert_non_null(o);
    s->n_chunks++;
    if (json_object_get(o, "error")) {
        s->n_errors++;
        note(s, 'E');
        json_decref(o);
        return;
    }
    const char *id = json_string_value(json_object_get(o, "id"));
    assert_non_null(id);
    if (!s->id[0]) snprintf(s->id, sizeof s->id, "%s", id);
    assert_string_equal(s->id, id);
    assert_string_equal(json_string_value(json_object_get(o, "object")),
                        chat ? "chat.completion.chunk" : "text_completion");
    json_t *choices = json_object_get(o, "choices"), *usage = json_object_get(o, "usage");
    if (json_array_size(choices) == 0) {
        s->n_usage++;
        note(s, 'u');
        s->prompt = json_integer_value(json_object_get(usage, "prompt_tokens"));
        s->completion = json_integer_value(json_object_get(usage, "completion_tokens"));
        s->reasoning_tokens = json_integer_value(
            json_object_get(json_object_get(usage, "completion_tokens_details"), "reasoning_tokens"));
        json_decref(o);
        return;
    }
    assert_true(usage == NULL || json_is_null(usage));
    json_t *choice = json_array_get(choices, 0), *reason = json_object_get(choice, "finish_reason"),
           *delta = json_object_get(choice, "delta");
    if (json_is_string(reason)) {
        s->n_finish++;
        snprintf(s->finish, sizeof s->finish, "%s", json_string_value(reason));
        assert_int_equal(json_object_size(delta), 0);
        s->seed = json_is_integer(json_object_get(json_object_get(o, "quern"), "seed"));
        note(s, 'f');
    } else {
        assert_true(json_is_null(reason));
    }
    if (!chat) {
        qn_buf_str(&s->content, json_string_value(json_object_get(choice, "text")));
        if (json_string_length(json_object_get(choice, "text"))) note(s, 'c');
        json_decref(o);
        return;
    }
    json_t *text = json_object_get(delta, "content"), *thought = json_object_get(delta, "reasoning_content");
    json_t *same = json_object_get(delta, "reasoning"),
           *call = json_array_get(json_object_get(delta, "tool_calls"), 0);
    if (json_object_get(delta, "role"))
        s->n_role++, note(s, 'r');
    else if (text)
        note(s, 'c');
    if (text) qn_buf_str(&s->content, json_string_value(text));
    if (thought) qn_buf_str(&s->reasoning, json_string_value(thought)), note(s, 't');
    if (same) qn_buf_str(&s->same, json_string_value(same));
    if (call) {
        json_t *f = json_object_get(call, "function");
        if (json_object_get(call, "id")) {
            assert_string_equal(json_string_value(json_object_get(call, "type")), "function");
            assert_string_equal(json_string_value(json_object_get(f, "arguments")), "");
            qn_buf_printf(&s->calls, "[%d %s]", (int)json_integer_value(json_object_get(call, "index")),
                          json_string_value(json_object_get(f, "name")));
            note(s, 'C');
        } else {
            assert_null(json_object_get(f, "name"));
            qn_buf_str(&s->calls, json_string_value(json_object_get(f, "arguments")));
            note(s, 'a');
        }
    }
    json_decref(o);
}

static stream take_stream(const http_reply *r, bool chat)
{
    stream s = {0};
    for (const char *p = r->body; *p;) {
        const char *end = strstr(p, "\n\n");
        assert_non_null(end); /* every event is closed */
        assert_int_equal(s.n_done, 0);
        if (*p == ':') {
            s.n_comments++;
        } else {
            assert_int_equal(strncmp(p, "data: ", 6), 0);
            if (strncmp(p, "data: [DONE]", 12) == 0)
                s.n_done++, note(&s, 'D');
            else
                take_chunk(&s, p + 6, (size_t)(end - p - 6), chat);
        }
        p = end + 2;
    }
    qn_buf_str(&s.content, "");
    qn_buf_str(&s.reasoning, "");
    qn_buf_str(&s.same, "");
    qn_buf_str(&s.calls, "");
    return s;
}

static void free_stream(stream *s)
{
    qn_buf_deinit(&s->content);
    qn_buf_deinit(&s->reasoning);
    qn_buf_deinit(&s->same);
    qn_buf_deinit(&s->calls);
}

static void a_chat_stream_has_its_parts_in_order(void **state)
{
    fake_server *f = *state;
    http_reply r =
        http_post(f->port, CHAT,
                  "{\"model\":\"fake\",\"stream\":true,\"stream_options\":{\"include_usage\":true}," THINK ","
                  "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"get_w\"}}]," USER "}");
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head, "Content-Type: text/event-stream"));
    assert_non_null(strstr(r.head, "Cache-Control: no-cache"));
    assert_non_null(strstr(r.head, "X-Accel-Buffering: no"));
    stream s = take_stream(&r, true);
    assert_string_equal(s.order, "rtcCaCafuD");
    assert_string_equal(s.reasoning.data, "Let me think.");
    assert_string_equal(s.same.data, "Let me think.");
    assert_string_equal(s.content.data, "alpha beta gamma \xc3\xa9\xe6\xb1\x89\xf0\x9f\x98\x80\"\\\n");
    assert_string_equal(s.calls.data, "[0 get_w]{\"city\": \"Rome\"}[1 sum]{}");
    assert_string_equal(s.finish, "tool_calls");
    assert_int_equal(s.n_finish, 1);
    assert_int_equal(s.n_usage, 1);
    assert_int_equal(s.completion, N_PIECES + 1); /* the stop token counts */
    assert_int_equal(s.reasoning_tokens, 3);
    assert_int_equal(s.prompt, strlen(f->engine.last_messages));
    assert_true(s.seed);
    free_stream(&s);
    http_free(&r);
}

static void a_whole_answer_says_the_same_as_the_stream(void **state)
{
    fake_server *f = *state;
    http_reply r =
        http_post(f->port, CHAT,
                  "{\"seed\":7," THINK
                  ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"get_w\"}}]," USER "}");
    assert_int_equal(r.status, 200);
    json_t *o = json_loads(r.body, 0, NULL), *choice = json_array_get(json_object_get(o, "choices"), 0),
           *m = json_object_get(choice, "message");
    assert_non_null(o);
    assert_string_equal(json_string_value(json_object_get(o, "object")), "chat.completion");
    assert_string_equal(json_string_value(json_object_get(o, "model")), "fake");
    assert_string_equal(json_string_value(json_object_get(m, "content")),
                        "alpha beta gamma \xc3\xa9\xe6\xb1\x89\xf0\x9f\x98\x80\"\\\n");
    assert_string_equal(json_string_value(json_object_get(m, "reasoning")), "Let me think.");
    assert_string_equal(json_string_value(json_object_get(m, "reasoning_content")), "Let me think.");
    json_t *calls = json_object_get(m, "tool_calls");
    assert_int_equal(json_array_size(calls), 2);
    assert_string_equal(json_string_value(json_object_get(
                            json_object_get(json_array_get(calls, 0), "function"), "arguments")),
                        "{\"city\": \"Rome\"}");
    assert_string_not_equal(json_string_value(json_object_get(json_array_get(calls, 0), "id")),
                            json_string_value(json_object_get(json_array_get(calls, 1), "id")));
    assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")), "tool_calls");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "quern"), "seed")), 7);
    assert_int_equal(f->engine.jobs[0].p.sampling.seed, 7);
    json_decref(o);
    http_free(&r);
}

static void the_cut_thought_stays_a_thought(void **state)
{
    fake_server *f = *state;
    for (int streamed = 0; streamed < 2; streamed++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{\"max_completion_tokens\":2,\"max_tokens\":9,\"stream\":%s," THINK "," USER "}",
                 streamed ? "true" : "false");
        http_reply r = http_post(f->port, CHAT, body);
        assert_non_null(strstr(r.body, "\"finish_reason\":\"length\""));
        if (streamed) {
            stream s = take_stream(&r, true);
            assert_string_equal(s.reasoning.data, "Let me think.");
            assert_string_equal(s.content.data, "");
            free_stream(&s);
        } else {
            assert_non_null(strstr(r.body, "\"content\":\"\""));
            assert_non_null(strstr(r.body, "\"reasoning\":\"Let me think.\""));
            assert_non_null(strstr(r.body, "\"completion_tokens\":2"));
        }
        http_free(&r);
    }
}

static void one_call_when_parallel_calls_are_off(void **state)
{
    fake_server *f = *state;
    http_reply r = http_post(f->port, CHAT,
                             "{\"parallel_tool_calls\":false,\"stream\":true," THINK
                             ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"x\"}}]," USER "}");
    stream s = take_stream(&r, true);
    assert_string_equal(s.calls.data, "[0 get_w]{\"city\": \"Rome\"}");
    assert_string_equal(s.finish, "tool_calls");
    free_stream(&s);
    http_free(&r);
}

static void tool_choice_none_offers_no_tools(void **state)
{
    fake_server *f = *state;
    http_reply r = http_post(
        f->port, CHAT,
        "{\"tool_choice\":\"none\",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"x\"}}]," USER
        "}");
    assert_int_equal(r.status, 200);
    assert_string_equal(f->engine.last_tools, "");
    assert_null(strstr(r.body, "tool_calls"));
    http_free(&r);
}

static void a_stop_string_ends_the_text_exactly_before_it(void **state)
{
    fake_server *f = *state;
    static const struct {
        const char *stop, *text, *reason;
    } cases[] = {
        {"\"beta gamma\"", "alpha ", "stop"},
        {"[\"zzz\",\"a gam\"]", "alpha bet", "stop"},
        {"[\"ta ga\",\"beta\"]", "alpha ", "stop"},
        {"\"\xe6\xb1\x89\"", "alpha beta gamma \xc3\xa9", "stop"},
        {"\"alpha beta gammb\"", NULL, "stop"},
        {"\"Let me\"", NULL, "stop"}, /* thoughts are not searched */
        {"null", NULL, "stop"},
        {"[]", NULL, "stop"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int mode = 0; mode < 4; mode++) {
            bool streamed = mode & 1, chat = mode & 2;
            char body[300];
            snprintf(body, sizeof body, "{\"stop\":%s,\"stream\":%s,%s}", cases[i].stop,
                     streamed ? "true" : "false", chat ? THINK "," USER : "\"prompt\":\"x\"");
            if (!chat && i == 5) continue; /* a completion has no thoughts */
            http_reply r = http_post(f->port, chat ? CHAT : "/v1/completions", body);
            assert_int_equal(r.status, 200);
            qn_buf want = {0};
            if (!chat) qn_buf_str(&want, "Let me think.\1");
            qn_buf_str(&want, cases[i].text ? cases[i].text
                                            : "alpha beta gamma \xc3\xa9\xe6\xb1\x89\xf0\x9f\x98\x80\"\\\n");
            if (!cases[i].text)
                qn_buf_str(&want, chat ? "get_w{\"city\": \"Rome\"}sum{}"
                                       : "\2get_w\3{\"city\": \"Rome\"}\4\2sum\3{}\4");
            if (streamed) {
                stream s = take_stream(&r, chat);
                if (chat && !cases[i].text)
                    assert_int_equal(strncmp(s.content.data, "alpha beta gamma ", 17), 0);
                else
                    assert_string_equal(s.content.data, want.data);
                assert_string_equal(s.finish, cases[i].reason);
                free_stream(&s);
            } else {
                json_t *o = json_loads(r.body, 0, NULL),
                       *c = json_array_get(json_object_get(o, "choices"), 0);
                const char *got =
                    json_string_value(chat ? json_object_get(json_object_get(c, "message"), "content")
                                           : json_object_get(c, "text"));
                if (chat && !cases[i].text)
                    assert_int_equal(strncmp(got, "alpha beta gamma ", 17), 0);
                else
                    assert_string_equal(got, want.data);
                assert_string_equal(json_string_value(json_object_get(c, "finish_reason")), cases[i].reason);
                json_decref(o);
            }
            qn_buf_deinit(&want);
            http_free(&r);
        }
}

/* One request whole, byte by byte, and cut off after every byte: the first two agree, the third never brings
 * the server down. */
static void requests_in_pieces(void **state)
{
    fake_server *f = *state;
    const char *body = "{\"stream\":true,\"max_tokens\":4," USER "}";
    size_t n, n_reply;
    char *bytes = http_request("POST", CHAT, NULL, body, strlen(body), &n);
    for (int whole = 0; whole < 2; whole++) {
        int fd = http_connect(f->port);
        for (size_t i = 0; i < n; i += whole ? n : 1) assert_true(http_send(fd, bytes + i, whole ? n : 1));
        char *got = http_read_all(fd, &n_reply);
        http_reply r = http_parse(got, n_reply);
        assert_int_equal(r.status, 200);
        stream s = take_stream(&r, true);
        assert_string_equal(s.order, "rcfD");
        free_stream(&s);
        http_free(&r);
        free(got);
        close(fd);
    }
    for (size_t cut = 0; cut < n; cut++) {
        int fd = http_connect(f->port);
        http_send(fd, bytes, cut);
        http_leave(fd, cut & 1);
    }
    http_reply r = http_get(f->port, "/health");
    assert_int_equal(r.status, 200);
    http_free(&r);
    free(bytes);
}

static void chunked_bodies_and_pipelined_requests(void **state)
{
    fake_server *f = *state;
    static const char two[] =
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        "b\r\n{\"prompt\":\"\r\n1e\r\nhello\",\"max_tokens\":3,\"seed\":1\r\n1\r\n}\r\n0\r\n\r\n"
        "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
        "GET /v1/models/fake HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    size_t n;
    int fd = http_connect(f->port);
    assert_true(http_send(fd, two, sizeof two - 1));
    char *got = http_read_all(fd, &n), *first = strstr(got, "HTTP/1.1 200"),
         *second = first ? strstr(first + 1, "HTTP/1.1 200") : NULL;
    assert_non_null(first);
    assert_non_null(strstr(first, "\"text\":\"Let me think.\\u0001\""));
    assert_non_null(second);
    assert_non_null(strstr(second, "\"object\":\"list\""));
    assert_non_null(strstr(second + 1, "HTTP/1.1 200"));
    free(got);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_chat_stream_has_its_parts_in_order, up, down),
        cmocka_unit_test_setup_teardown(a_whole_answer_says_the_same_as_the_stream, up, down),
        cmocka_unit_test_setup_teardown(the_cut_thought_stays_a_thought, up, down),
        cmocka_unit_test_setup_teardown(one_call_when_parallel_calls_are_off, up, down),
        cmocka_unit_test_setup_teardown(tool_choice_none_offers_no_tools, up, down),
        cmocka_unit_test_setup_teardown(a_stop_string_ends_the_text_exactly_before_it, up, down),
        cmocka_unit_test_setup_teardown(requests_in_pieces, up, down),
        cmocka_unit_test_setup_teardown(chunked_bodies_and_pipelined_requests, up, down),
    };
    return TEST_MAIN(tests);
}
