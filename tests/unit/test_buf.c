/* test_buf.c - the growing buffer: contents, the stated maximum, the sticky failure. */
#include "tap.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static void contents(void **state)
{
    (void)state;
    qn_buf b;
    qn_buf_init(&b, 0);
    assert_null(b.data);
    assert_int_equal(b.max_bytes, QN_BUF_DEFAULT_MAX);
    assert_true(qn_buf_str(&b, "ab") && qn_buf_byte(&b, 'c') && qn_buf_printf(&b, "%d", 12345) &&
                qn_buf_add(&b, "\0x", 2));
    assert_int_equal(b.len, 10);
    assert_memory_equal(b.data, "abc12345\0x", 11);
    qn_buf_drop_front(&b, 3);
    assert_string_equal(b.data, "12345");
    for (int i = 0; i < 1000; i++) assert_true(qn_buf_str(&b, "0123456789"));
    assert_int_equal(b.len, 10007);
    assert_int_equal(b.data[b.len], 0);
    qn_buf_reset(&b);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.data, "");
    size_t n = 99;
    char *taken = qn_buf_take(&b, &n);
    assert_string_equal(taken, "");
    assert_int_equal(n, 0);
    assert_null(b.data);
    free(taken);
    taken = qn_buf_take(&b, NULL); /* an empty one gives "" too */
    assert_string_equal(taken, "");
    free(taken);
    qn_buf_deinit(&b);
    qn_buf_deinit(&b);
}

static void limits(void **state)
{
    (void)state;
    qn_buf b;
    qn_error err = {0};
    qn_buf_init(&b, 5);
    assert_true(qn_buf_str(&b, "12345")); /* exactly the maximum */
    assert_int_equal(qn_buf_status(&b, "the text", &err), QN_OK);
    assert_false(qn_buf_byte(&b, '6'));
    assert_string_equal(b.data, "12345"); /* what was there stays */
    assert_false(qn_buf_str(&b, ""));     /* and the failure too */
    assert_null(qn_buf_take(&b, NULL));
    assert_int_equal(qn_buf_status(&b, "the text", &err), QN_TOO_LARGE);
    assert_string_equal(err.msg, "the text is over the limit of 5 bytes");
    qn_buf_reset(&b);
    assert_false(qn_buf_printf(&b, "%s", "123456"));
    assert_int_equal(b.len, 0);
    qn_buf_reset(&b);
    assert_false(qn_buf_reserve(&b, SIZE_MAX)); /* no sum may wrap */
    qn_buf_deinit(&b);
    qn_buf_init(&b, 100);
    for (int i = 0; i < 100; i++) assert_true(qn_buf_byte(&b, 'x'));
    assert_true(b.cap <= 101); /* doubling stops at the maximum */
    assert_false(qn_buf_byte(&b, 'x'));
    qn_buf_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(contents), cmocka_unit_test(limits)};
    return TEST_MAIN(tests);
}
