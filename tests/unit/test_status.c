/* test_status.c - the status table, messages and their limits, printable names. */
#include "tap.h"

#include <string.h>

#include "base/status.h"

static void the_table(void **state)
{
    (void)state;
    static const struct {
        qn_status st;
        const char *name;
        int exit_code, http;
        const char *type;
    } t[] = {
        {QN_OK, "ok", 0, 200, ""},
        {QN_USAGE, "usage", 2, 400, "invalid_request_error"},
        {QN_INVALID, "invalid", 1, 400, "invalid_request_error"},
        {QN_CORRUPT, "corrupt", 1, 500, "server_error"},
        {QN_UNSUPPORTED, "unsupported", 1, 400, "invalid_request_error"},
        {QN_NOT_FOUND, "not_found", 1, 404, "not_found_error"},
        {QN_TOO_LARGE, "too_large", 1, 413, "invalid_request_error"},
        {QN_CONTEXT, "context_length_exceeded", 1, 400, "invalid_request_error"},
        {QN_BUSY, "busy", 1, 429, "rate_limit_error"},
        {QN_NOMEM, "no_memory", 1, 500, "server_error"},
        {QN_IO, "io", 1, 500, "server_error"},
        {QN_CANCELLED, "cancelled", 1, 499, "cancelled"},
        {QN_UNAVAILABLE, "unavailable", 1, 503, "unavailable_error"},
        {QN_INTERNAL, "internal", 1, 500, "server_error"},
        {(qn_status)99, "internal", 1, 500, "server_error"},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        assert_string_equal(qn_status_name(t[i].st), t[i].name);
        assert_int_equal(qn_status_exit_code(t[i].st), t[i].exit_code);
        assert_int_equal(qn_status_http(t[i].st), t[i].http);
        assert_string_equal(qn_status_api_type(t[i].st), t[i].type);
    }
}

static void messages(void **state)
{
    (void)state;
    qn_error err = {0};
    assert_int_equal(qn_fail(NULL, QN_IO, "dropped"), QN_IO);
    qn_error_context(NULL, "dropped");
    qn_error_field(NULL, "dropped");
    assert_int_equal(qn_fail(&err, QN_CORRUPT, "tensor '%s' ends at byte %d", "a", 9), QN_CORRUPT);
    qn_error_field(&err, "messages[%d]", 2);
    qn_error_context(&err, "reading %s", "m");
    qn_error_context(&err, "outer");
    assert_string_equal(err.msg, "outer: reading m: tensor 'a' ends at byte 9");
    assert_string_equal(err.field, "messages[2]");
    assert_int_equal(err.status, QN_CORRUPT);
    assert_int_equal(qn_fail(&err, QN_BUSY, "full"), QN_BUSY);
    assert_string_equal(err.field, ""); /* a new failure forgets the old field */
}

static void long_messages_are_cut(void **state)
{
    (void)state;
    qn_error err = {0};
    char big[2000];
    memset(big, 'x', sizeof big);
    big[sizeof big - 1] = 0;
    (void)!qn_fail(&err, QN_INVALID, "%s", big);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    qn_error_context(&err, "front"); /* the end goes, the front stays */
    assert_memory_equal(err.msg, "front: xxx", 10);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    qn_error_context(&err, "%s", big);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    qn_error_field(&err, "%s", big);
    assert_int_equal(strlen(err.field), sizeof err.field - 1);
}

static void printable(void **state)
{
    (void)state;
    static const struct {
        size_t cap;
        const char *in;
        size_t n;
        const char *out;
    } t[] = {
        {64, "plain name", 10, "plain name"},
        {64, "", 0, ""},
        {64, "a\n\x7f\0\xc3\xa9z", 7, "a\\x0a\\x7f\\x00\\xc3\\xa9z"},
        {8, "abcdefgh", 8, "a..."}, /* an escape of four must always fit before the dots */
        {16, "\1\2\3\4\5\6", 6, "\\x01\\x02\\x03..."},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        char dst[65];
        memset(dst, '#', sizeof dst);
        assert_ptr_equal(qn_printable(dst, t[i].cap, t[i].in, t[i].n), dst);
        assert_string_equal(dst, t[i].out);
        assert_int_equal(dst[t[i].cap], '#');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_table), cmocka_unit_test(messages),
                                       cmocka_unit_test(long_messages_are_cut), cmocka_unit_test(printable)};
    return TEST_MAIN(tests);
}
