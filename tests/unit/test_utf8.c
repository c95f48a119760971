/* test_utf8.c - strict UTF-8: tables of good and bad sequences, and every code point there and back. */
#include "tap.h"

#include <string.h>

#include "base/utf8.h"

static void every_code_point(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp < 0x110100; cp++) {
        uint8_t b[4];
        size_t n = qn_utf8_encode(b, cp), len;
        bool scalar = cp <= 0x10ffff && !(cp >= 0xd800 && cp < 0xe000);
        assert_int_equal(n != 0, scalar);
        if (!scalar) continue;
        uint32_t back = ~0u;
        assert_int_equal(qn_utf8_decode(b, n, &back), n);
        assert_int_equal(back, cp);
        assert_int_equal(qn_utf8_scan(b, n, &len), QN_UTF8_CHAR);
        assert_int_equal(len, n);
        for (size_t cut = 1; cut < n; cut++) {
            assert_int_equal(qn_utf8_decode(b, cut, &back), 0);
            assert_int_equal(qn_utf8_scan(b, cut, &len), QN_UTF8_PREFIX);
            assert_int_equal(len, cut);
        }
    }
}

static void bad_sequences(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t bad_at;
        size_t bad_len; /* the first maximal ill-formed part */
    } t[] = {
        {"\x80", 0, 1},
        {"a\xbf", 1, 1},
        {"\xc0\xaf", 0, 1},
        {"\xc1\xbf", 0, 1},
        {"\xe0\x80\xaf", 0, 1},
        {"\xe0\x9f\xbf", 0, 1},
        {"\xed\xa0\x80", 0, 1},
        {"\xed\xbf\xbf", 0, 1},
        {"\xf0\x8f\xbf\xbf", 0, 1},
        {"\xf4\x90\x80", 0, 1},
        {"\xf5\x80\x80\x80", 0, 1},
        {"\xff", 0, 1},
        {"\xc3(", 0, 1},
        {"\xe2\x82(", 0, 2},
        {"\xf0\x9f\x98(", 0, 3},
        {"12345678\xe2\x82z", 8, 2},
        {"abcdefgh\xc3\xa9ijklmnop\xc3q", 18, 1},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        size_t n = strlen(t[i].bytes), at = 99, len = 0;
        assert_false(qn_utf8_valid(t[i].bytes, n, &at));
        assert_int_equal(at, t[i].bad_at);
        assert_int_equal(qn_utf8_scan((const uint8_t *)t[i].bytes + at, n - at, &len), QN_UTF8_BAD);
        assert_int_equal(len, t[i].bad_len);
    }
    assert_true(qn_utf8_valid("", 0, NULL));
    static const char mixed[] = "plain text, \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x8a and more of it";
    assert_true(qn_utf8_valid(mixed, sizeof mixed - 1, NULL));
    assert_false(qn_utf8_valid("plain\xe2\x82", 7, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_code_point), cmocka_unit_test(bad_sequences)};
    return TEST_MAIN(tests);
}
