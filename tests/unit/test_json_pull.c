/* test_json_pull.c - the JSON pull reader: events in order, refused texts with the offset in the message,
 * limits, numbers, and every prefix of a valid text. */
#include "tap.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_pull.h"

/* Write the events of text into out as one line: {k"key"s"text"n12tfN} and ! for a failure. */
static qn_status trace(const char *text, size_t n, uint32_t depth, qn_buf *out, qn_error *err)
{
    qn_json_pull p;
    qn_json_event e = QN_JSON_NULL;
    qn_status st;
    /* An exact copy, so that the address sanitizer sees a read past the end. */
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, text, n);
    qn_json_pull_init(&p, copy, n, depth);
    while ((st = qn_json_pull_next(&p, &e, err)) == QN_OK && e != QN_JSON_DONE) {
        static const char mark[] = "{}[]ksntfN";
        qn_buf_byte(out, mark[e]);
        if (e == QN_JSON_KEY || e == QN_JSON_STRING) {
            qn_buf_byte(out, '"');
            qn_buf_add(out, p.text, p.text_len);
            qn_buf_byte(out, '"');
        }
        if (e == QN_JSON_NUMBER) qn_buf_add(out, p.text, p.text_len);
    }
    if (st) {
        qn_error again;
        assert_int_equal(qn_json_pull_next(&p, &e, &again), QN_CORRUPT);
    } else {
        assert_int_equal(qn_json_pull_next(&p, &e, err), QN_OK);
        assert_int_equal(e, QN_JSON_DONE);
    }
    qn_json_pull_deinit(&p);
    free(copy);
    qn_buf_byte(out, st ? '!' : '.');
    return st;
}

static void good_texts(void **state)
{
    (void)state;
    static const char *const t[][2] = {
        {"{}", "{}."},
        {" [ ] ", "[]."},
        {"0", "n0."},
        {"-0.5e+10", "n-0.5e+10."},
        {"\"\"", "s\"\"."},
        {"[true,false , null]", "[tfN]."},
        {"{\"a\":1,\"b\" : [1,2,{}], \"a\":\"x\"}", "{k\"a\"n1k\"b\"[n1n2{}]k\"a\"s\"x\"}."},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "s\"\"\\/\b\f\n\r\t\"."},
        {"\"a\\u00e9b\\uD83D\\ude0Ac\"", "s\"a\xc3\xa9"
                                         "b\xf0\x9f\x98\x8a"
                                         "c\"."},
        {"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x8a\"", "s\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x8a\"."},
        {"[\"no\",\"e\\u0041\",\"no\"]", "[s\"no\"s\"eA\"s\"no\"]."},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        qn_buf out;
        qn_error err = {0};
        qn_buf_init(&out, 0);
        assert_int_equal(trace(t[i][0], strlen(t[i][0]), 0, &out, &err), QN_OK);
        assert_string_equal(out.data, t[i][1]);
        qn_buf_deinit(&out);
    }
}

static void bad_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message; /* must be part of it */
    } t[] = {
        {"", "byte 0: expected a value, found the end"},
        {"  ", "byte 2: expected a value, found the end"},
        {"\xef\xbb\xbf{}", "byte 0: expected a value, found '\\xef'"},
        {"{", "byte 1: expected a name in quotes or }"},
        {"{a:1}", "byte 1: expected a name in quotes or }"},
        {"{\"a\" 1}", "byte 5: expected a colon"},
        {"{\"a\":1,}", "byte 7: expected a name in quotes, found '}'"},
        {"{\"a\":1]", "byte 6: expected a comma or }"},
        {"{\"a\":}", "byte 5: expected a value"},
        {"[1,]", "byte 3: expected a value"},
        {"[,1]", "byte 1: expected a value"},
        {"[1 2]", "byte 3: expected a comma or ]"},
        {"[1}", "byte 2: expected a comma or ]"},
        {"{} x", "byte 3: expected nothing after the value"},
        {"1 2", "byte 2: expected nothing after the value"},
        {"01", "byte 1: expected nothing after the value"},
        {"-", "byte 1: expected a digit"},
        {"+1", "byte 0: expected a value"},
        {"1.", "byte 2: expected a digit after the point"},
        {".5", "byte 0: expected a value"},
        {"1e", "byte 2: expected a digit in the exponent"},
        {"1e+", "byte 3: expected a digit in the exponent"},
        {"tru", "byte 0: expected a value"},
        {"nul", "byte 0: expected a value"},
        {"True", "byte 0: expected a value"},
        {"NaN", "byte 0: expected a value"},
        {"truex", "byte 4: expected nothing after the value"},
        {"\"abc", "byte 4: expected the closing quote"},
        {"\"a\nb\"", "byte 2: expected an escape in place of a control character"},
        {"\"a\\x\"", "byte 3: expected one of"},
        {"\"\\", "byte 2: expected one of"},
        {"\"\\u12g4\"", "byte 3: expected four hexadecimal digits"},
        {"\"\\u12", "byte 3: expected four hexadecimal digits"},
        {"\"\\ud800\"", "byte 7: expected the second half of a surrogate pair"},
        {"\"\\ud800\\u0041\"", "byte 7: expected the second half of a surrogate pair"},
        {"\"\\udc00\"", "byte 1: expected no second half"},
        {"\"a\xc3(\"", "byte 2: expected well-formed UTF-8, found '\\xc3'"},
        {"\"\xed\xa0\x80\"", "byte 1: expected well-formed UTF-8"},
        {"\"\xc0\x80\"", "byte 1: expected well-formed UTF-8"},
        {"[1] // no", "byte 4: expected nothing after the value"},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        qn_buf out;
        qn_error err = {0};
        qn_buf_init(&out, 0);
        if (trace(t[i].text, strlen(t[i].text), 0, &out, &err) != QN_CORRUPT ||
            !strstr(err.msg, t[i].message))
            fail_msg("'%s' gave '%s', expected '%s'", t[i].text, err.msg, t[i].message);
        qn_buf_deinit(&out);
    }
}

static void every_prefix_fails(void **state)
{
    (void)state;
    static const char text[] =
        "{\"a\\u00e9\":[1.5e3,true,null,\"\xc3\xa9\\ud83d\\ude0a\"],\"b\":{\"c\":false}}";
    for (size_t n = 0; n < sizeof text - 1; n++) {
        qn_buf out;
        qn_error err = {0};
        qn_buf_init(&out, 0);
        assert_int_not_equal(trace(text, n, 0, &out, &err), QN_OK);
        assert_non_null(strstr(err.msg, "byte "));
        qn_buf_deinit(&out);
    }
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    size_t n = 1000000;
    char *deep = malloc(n);
    assert_non_null(deep);
    qn_buf out;
    qn_error err = {0};
    qn_buf_init(&out, 0);
    memset(deep, '[', n);
    assert_int_equal(trace(deep, n, 0, &out, &err), QN_TOO_LARGE);
    assert_string_equal(err.msg, "byte 64: nested deeper than the limit of 64 levels");
    assert_int_equal(trace(deep, n, 9999, &out, &err), QN_TOO_LARGE);
    assert_string_equal(err.msg, "byte 1024: nested deeper than the limit of 1024 levels");
    memset(deep + 3, ']', 3);
    assert_int_equal(trace(deep, 6, 3, &out, &err), QN_OK);
    assert_int_equal(trace(deep, 6, 2, &out, &err), QN_TOO_LARGE);
    qn_buf_deinit(&out);
    free(deep);
}

static void numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool u, i, d;
        uint64_t u_value;
        int64_t i_value;
        double d_value;
    } t[] = {
        {"0", 1, 1, 1, 0, 0, 0.0},
        {"-0", 0, 1, 1, 0, 0, -0.0},
        {"18446744073709551615", 1, 0, 1, UINT64_MAX, 0, 18446744073709551615.0},
        {"18446744073709551616", 0, 0, 1, 0, 0, 18446744073709551616.0},
        {"-9223372036854775808", 0, 1, 1, 0, INT64_MIN, -9223372036854775808.0},
        {"-9223372036854775809", 0, 0, 1, 0, 0, -9223372036854775808.0},
        {"9223372036854775807", 1, 1, 1, INT64_MAX, INT64_MAX, 9223372036854775807.0},
        {"1.0", 0, 0, 1, 0, 0, 1.0},
        {"1e2", 0, 0, 1, 0, 0, 100.0},
        {"1e999", 0, 0, 0, 0, 0, 0},
    };
    for (size_t k = 0; k < sizeof t / sizeof t[0]; k++) {
        qn_json_pull p;
        qn_error err;
        uint64_t u = 0;
        int64_t i = 0;
        double d = 0;
        qn_json_pull_init(&p, t[k].text, strlen(t[k].text), 0);
        assert_int_equal(qn_json_pull_expect(&p, QN_JSON_NUMBER, "it", &err), QN_OK);
        assert_int_equal(qn_json_pull_u64(&p, &u), t[k].u);
        assert_int_equal(qn_json_pull_i64(&p, &i), t[k].i);
        assert_int_equal(qn_json_pull_double(&p, &d), t[k].d);
        if (t[k].u) assert_true(u == t[k].u_value);
        if (t[k].i) assert_true(i == t[k].i_value);
        if (t[k].d) assert_true(d == t[k].d_value);
        qn_json_pull_deinit(&p);
    }
}

static void skipping_and_expecting(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":{\"x\":[1,[2],{}]},\"b\":[[],3],\"c\":4}";
    qn_json_pull p;
    qn_json_event e;
    qn_error err;
    uint64_t v;
    qn_json_pull_init(&p, text, sizeof text - 1, 0);
    assert_int_equal(qn_json_pull_expect(&p, QN_JSON_OBJECT_BEGIN, "the text", &err), QN_OK);
    assert_int_equal(qn_json_pull_next(&p, &e, &err), QN_OK);
    assert_true(e == QN_JSON_KEY && qn_json_pull_is(&p, "a") && !qn_json_pull_is(&p, "ab"));
    assert_int_equal(qn_json_pull_skip(&p, &err), QN_OK);
    assert_int_equal(qn_json_pull_next(&p, &e, &err), QN_OK);
    assert_true(qn_json_pull_is(&p, "b"));
    assert_int_equal(qn_json_pull_expect(&p, QN_JSON_ARRAY_BEGIN, "b", &err), QN_OK);
    assert_int_equal(qn_json_pull_skip(&p, &err), QN_OK);
    assert_int_equal(qn_json_pull_next(&p, &e, &err), QN_OK);
    assert_true(qn_json_pull_is(&p, "c"));
    assert_int_equal(qn_json_pull_expect(&p, QN_JSON_NUMBER, "c", &err), QN_OK);
    assert_int_equal(qn_json_pull_skip(&p, &err), QN_OK);
    assert_true(qn_json_pull_u64(&p, &v) && v == 4);
    assert_int_equal(qn_json_pull_expect(&p, QN_JSON_STRING, "d", &err), QN_CORRUPT);
    assert_string_equal(err.msg, "byte 38: d must be a string, found the end of an object");
    qn_json_pull_deinit(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_texts),
        cmocka_unit_test(bad_texts),
        cmocka_unit_test(every_prefix_fails),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(numbers),
        cmocka_unit_test(skipping_and_expecting),
    };
    return TEST_MAIN(tests);
}
