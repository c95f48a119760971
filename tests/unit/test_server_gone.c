/* test_server_gone.c - clients that leave, read slowly or wait long, and a server that ends. The test plays
 * the scheduler, so "within a step" means: the job is cancelled although no further step is ever made. */
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "support/fake_engine.h"
#include "support/http_client.h"

static char big_piece[65536];
static const char *const pieces[] = {"one ", "two ", big_piece};

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static qn_buf log_text;

static void keep_log(void *ctx, qn_log_level level, const char *room, const char *message)
{
    (void)ctx;
    (void)level;
    (void)room;
    pthread_mutex_lock(&log_lock);
    qn_buf_printf(&log_text, "%s\n", message);
    pthread_mutex_unlock(&log_lock);
}

static bool log_has(const char *what)
{
    pthread_mutex_lock(&log_lock);
    bool yes = log_text.data && strstr(log_text.data, what);
    pthread_mutex_unlock(&log_lock);
    return yes;
}

static qn_server_options options(void)
{
    qn_server_options o = qn_server_options_defaults();
    o.drain_ms = 0;
    o.keepalive_ms = 600000; /* so that nothing is sent by the clock that an event should have sent */
    return o;
}

static int up(void **state)
{
    fake_server *s = calloc(1, sizeof *s);
    qn_server_options o = options();
    qn_buf_reset(&log_text);
    memset(big_piece, 'x', sizeof big_piece - 1);
    fake_server_start(s, &o, pieces, 3, false);
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

static int send_request(uint16_t port, bool chat, bool streamed)
{
    char body[200];
    size_t n;
    snprintf(body, sizeof body, "{\"stream\":%s,%s}", streamed ? "true" : "false",
             chat ? "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]" : "\"prompt\":\"hi\"");
    char *bytes =
        http_request("POST", chat ? "/v1/chat/completions" : "/v1/completions", NULL, body, strlen(body), &n);
    int fd = http_connect(port);
    assert_true(http_send(fd, bytes, n));
    free(bytes);
    return fd;
}

static void a_client_that_leaves_is_noticed_without_a_step(void **state)
{
    fake_server *s = *state;
    fake_engine *f = &s->engine;
    uint32_t k = 0;
    for (int mode = 0; mode < 24;
         mode++, k++) { /* {FIN, RST} x {whole, stream} x {chat, text} x {queue, prefill, decode} */
        bool reset = mode & 1, streamed = mode & 2, chat = mode & 4;
        int phase = mode / 8;
        int fd = send_request(s->port, chat, streamed);
        fake_wait_job(f, k);
        if (phase >= 1) fake_admit(f, k);
        if (phase >= 1 && streamed) assert_true(http_read_until(fd, "\r\n\r\n"));
        if (phase == 2) {
            fake_token(f, k, 0);
            if (streamed) assert_true(http_read_until(fd, "one "));
        }
        http_leave(fd, reset);
        fake_wait_cancel(f, k);
        fake_done(f, k, QN_FINISH_CANCELLED, NULL);
    }
    http_reply r = http_get(s->port, "/health");
    assert_int_equal(r.status, 200);
    http_free(&r);
    for (int tries = 0; tries < 2000 && !log_has("finish=cancelled tokens=1"); tries++) usleep(1000);
    assert_true(log_has("finish=cancelled tokens=0"));
    assert_true(log_has("finish=cancelled tokens=1"));
}

static void a_client_with_pipelined_bytes_is_noticed_too(void **state)
{
    fake_server *s = *state;
    int fd = send_request(s->port, true, false);
    fake_wait_job(&s->engine, 0);
    assert_true(http_send(fd, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n", 33));
    http_leave(fd, false);
    fake_wait_cancel(&s->engine, 0);
}

static void others_go_on_when_one_leaves(void **state)
{
    fake_server *s = *state;
    fake_engine *f = &s->engine;
    int stays = send_request(s->port, true, true), leaves;
    size_t n;
    fake_wait_job(f, 0);
    leaves = send_request(s->port, true, true);
    fake_wait_job(f, 1);
    fake_admit(f, 0);
    fake_admit(f, 1);
    http_leave(leaves, true);
    fake_wait_cancel(f, 1);
    fake_done(f, 1, QN_FINISH_CANCELLED, NULL);
    fake_token(f, 0, 0);
    fake_token(f, 0, 1);
    fake_done(f, 0, QN_FINISH_STOP, NULL);
    char *got = http_read_all(stays, &n);
    assert_non_null(strstr(got, "two "));
    assert_non_null(strstr(got, "[DONE]"));
    free(got);
    close(stays);
}

/* A reader that takes nothing is given up when its bounded buffer is full; the scheduler's side never blocks.
 */
static void a_slow_reader_is_cancelled(void **state)
{
    fake_server *s = *state;
    fake_engine *f = &s->engine;
    int fd = send_request(s->port, false, true);
    fake_wait_job(f, 0);
    fake_admit(f, 0);
    for (int i = 0; i < 400; i++) fake_token(f, 0, 2); /* 25 MB: more than sockets and buffer take */
    fake_wait_cancel(f, 0);
    fake_done(f, 0, QN_FINISH_CANCELLED, NULL);
    close(fd);
}

static void headers_wait_for_admission(void **state)
{
    fake_server *s = *state;
    fake_engine *f = &s->engine;
    qn_error err = {0};
    size_t n;
    int fd = send_request(s->port, true, true);
    fake_wait_job(f, 0);
    qn_fail(&err, QN_INTERNAL, "a logit is not finite");
    fake_done(f, 0, QN_FINISH_ERROR, &err); /* before admission: a real status */
    char *got = http_read_all(fd, &n);
    assert_int_equal(strncmp(got, "HTTP/1.1 500", 12), 0);
    assert_non_null(strstr(got, "\"message\":\"a logit is not finite\""));
    free(got);
    close(fd);

    fd = send_request(s->port, true, true);
    fake_wait_job(f, 1);
    fake_admit(f, 1);
    fake_token(f, 1, 0);
    fake_done(f, 1, QN_FINISH_ERROR, &err); /* in mid-stream: an event, then the end */
    got = http_read_all(fd, &n);
    http_reply r = http_parse(got, n);
    assert_int_equal(r.status, 200);
    const char *at =
        strstr(r.body, "data: {\"error\":{\"message\":\"a logit is not finite\",\"type\":\"server_error\"");
    assert_non_null(at);
    assert_string_equal(strstr(at, "\n\n"), "\n\ndata: [DONE]\n\n");
    http_free(&r);
    free(got);
    close(fd);
}

static void a_silent_stream_gets_comment_lines(void **state)
{
    (void)state;
    fake_server s;
    qn_server_options o = options();
    o.keepalive_ms = 20;
    fake_server_start(&s, &o, pieces, 3, false);
    int fd = send_request(s.port, true, true);
    fake_wait_job(&s.engine, 0);
    fake_admit(&s.engine, 0);
    for (int i = 0; i < 3; i++)
        assert_true(http_read_until(fd, ": keep-alive\n\n")); /* no event of the job drives them */
    fake_token(&s.engine, 0, 0);
    assert_true(http_read_until(fd, "one "));
    close(fd);
    fake_wait_cancel(&s.engine, 0);
    fake_server_stop(&s);
}

static void a_full_queue_is_429(void **state)
{
    fake_server *s = *state;
    s->engine.max_open = 1;
    int fd = send_request(s->port, true, true);
    fake_wait_job(&s->engine, 0);
    http_reply r = http_post(s->port, "/v1/completions", "{\"prompt\":\"x\",\"stream\":true}");
    assert_int_equal(r.status, 429);
    assert_non_null(strstr(r.head, "Retry-After: 1"));
    assert_non_null(strstr(r.body, "\"type\":\"rate_limit_error\""));
    http_free(&r);
    close(fd);
}

static void health_answers_while_loading_and_with_all_streams_open(void **state)
{
    (void)state;
    qn_server_options o = options();
    fake_server s;
    fake_server_start_loading(&s, &o, pieces, 3, false);
    http_reply r = http_get(s.port, "/health");
    assert_int_equal(r.status, 503);
    assert_non_null(strstr(r.body, "\"status\":\"loading\""));
    http_free(&r);
    r = http_post(s.port, "/v1/completions", "{\"prompt\":\"x\"}");
    assert_int_equal(r.status, 503);
    assert_non_null(strstr(r.head, "Retry-After"));
    http_free(&r);
    qn_server_set_backend(s.server, &s.engine.table);
    int fds[40];
    for (uint32_t i = 0; i < 40; i++) {
        fds[i] = send_request(s.port, true, true);
        fake_wait_job(&s.engine, i);
        fake_admit(&s.engine, i);
    }
    r = http_get(s.port, "/health");
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.body, "\"status\":\"ok\""));
    assert_non_null(strstr(r.body, "\"active\":40"));
    http_free(&r);
    fake_server_stop(&s); /* with 40 open streams */
    assert_int_equal(s.status, QN_OK);
    for (int i = 0; i < 40; i++) close(fds[i]);
}

static void a_server_that_ends_tells_its_clients(void **state)
{
    (void)state;
    fake_server s;
    qn_server_options o = options();
    size_t n;
    fake_server_start(&s, &o, pieces, 3, false);
    int streamed = send_request(s.port, true, true), whole = send_request(s.port, true, false);
    fake_wait_job(&s.engine, 1);
    fake_admit(&s.engine, 0);
    fake_admit(&s.engine, 1);
    assert_true(http_read_until(streamed, "assistant"));
    qn_server_stop(s.server);
    fake_wait_cancel(&s.engine, 0);
    fake_wait_cancel(&s.engine, 1);
    char *got = http_read_all(whole, &n);
    assert_int_equal(strncmp(got, "HTTP/1.1 503", 12), 0);
    free(got);
    got = http_read_all(streamed, &n);
    assert_non_null(strstr(got, "shutting down"));
    assert_non_null(strstr(got, "[DONE]"));
    free(got);
    close(whole);
    close(streamed);
    fake_server_stop(&s);
    assert_int_equal(s.status, QN_OK);
}

static void a_busy_port_is_refused(void **state)
{
    fake_server *s = *state;
    qn_server_options o = options();
    qn_server *second;
    qn_error err;
    char want[32];
    o.port = s->port;
    assert_int_equal(qn_server_create(&second, &o, &err), QN_IO);
    snprintf(want, sizeof want, "port %u of", (unsigned)s->port);
    assert_non_null(strstr(err.msg, want));
    assert_null(second);
}

int main(void)
{
    qn_log_set(keep_log, NULL, QN_LOG_INFO);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_client_that_leaves_is_noticed_without_a_step, up, down),
        cmocka_unit_test_setup_teardown(a_client_with_pipelined_bytes_is_noticed_too, up, down),
        cmocka_unit_test_setup_teardown(others_go_on_when_one_leaves, up, down),
        cmocka_unit_test_setup_teardown(a_slow_reader_is_cancelled, up, down),
        cmocka_unit_test_setup_teardown(headers_wait_for_admission, up, down),
        cmocka_unit_test(a_silent_stream_gets_comment_lines),
        cmocka_unit_test_setup_teardown(a_full_queue_is_429, up, down),
        cmocka_unit_test(health_answers_while_loading_and_with_all_streams_open),
        cmocka_unit_test(a_server_that_ends_tells_its_clients),
        cmocka_unit_test_setup_teardown(a_busy_port_is_refused, up, down),
    };
    int rc = TEST_MAIN(tests);
    qn_buf_deinit(&log_text);
    return rc;
}
