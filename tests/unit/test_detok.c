/* test_detok.c - the streaming decoder: every split of ill-formed bytes into tokens gives the same text, the
 * one that Python's bytes.decode("utf-8", "replace") gives. Expected texts below were made with CPython 3.11.
 */
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mapfile.h"
#include "text/detok.h"

static qn_tokenizer *demo;

#define R "\xef\xbf\xbd"
static const struct {
    const char *bytes, *text;
} cases[] = {
    {"plain", "plain"},
    {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x8a", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x8a"},
    {"\x80\xbf", R R},
    {"\xc0\xaf\xc1\xbf", R R R R},
    {"\xe0\x80\xaf", R R R},
    {"\xe0\xa0z", R "z"},
    {"\xed\xa0\x80", R R R},
    {"\xed\x9f\xed\x9f\xbf", R "\xed\x9f\xbf"},
    {"\xe2\x82\xe2\x82\xac", R "\xe2\x82\xac"},
    {"\xf0\x9f\x98\xf0\x9f\x98\x8a", R "\xf0\x9f\x98\x8a"},
    {"\xf0\x80\x80\x80", R R R R},
    {"\xf0\x90\x80z", R "z"},
    {"\xf4\x90\x80\x80", R R R R},
    {"\xf4\x8f\xbf\xbf\xf5\xff", "\xf4\x8f\xbf\xbf" R R},
    {"a\xc3", "a" R},
    {"a\xe2\x82", "a" R},
    {"a\xf0\x9f\x98", "a" R},
    {"\xe2\xf0\x9f\xc3", R R R},
    {"\xf0\x9f\xe2\x82"
     "b\xc3\xc3\xa9",
     R R "b" R "\xc3\xa9"},
};

/* bytes cut after i wherever bit i of `cuts` is set. */
static char *decode_cut(const char *bytes, size_t n, unsigned cuts)
{
    qn_text_detok *d;
    qn_error err;
    qn_buf all;
    const char *text;
    size_t len, start = 0;
    qn_buf_init(&all, 0);
    assert_int_equal(qn_text_detok_create(&d, demo, false, &err), QN_OK);
    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n && !(cuts >> i & 1)) continue;
        assert_int_equal(qn_text_detok_push_bytes(d, bytes + start, i + 1 - start, &text, &len, &err), QN_OK);
        assert_int_equal(strlen(text), len);
        qn_buf_add(&all, text, len);
        start = i + 1;
    }
    assert_int_equal(qn_text_detok_finish(d, &text, &len, &err), QN_OK);
    qn_buf_add(&all, text, len);
    assert_int_equal(qn_text_detok_finish(d, &text, &len, &err), QN_OK);
    assert_int_equal(len, 0);
    qn_text_detok_destroy(d);
    char *joined = qn_buf_take(&all, NULL);
    assert_non_null(joined);
    return joined;
}

static void every_split_as_python(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        size_t n = strlen(cases[c].bytes);
        for (unsigned cuts = 0; cuts < 1u << (n - 1); cuts++) {
            char *got = decode_cut(cases[c].bytes, n, cuts);
            if (strcmp(got, cases[c].text) != 0) fail_msg("case %zu, cuts %x: '%s'", c, cuts, got);
            free(got);
        }
    }
}

static void nothing_is_shown_too_early(void **state)
{
    (void)state;
    qn_text_detok *d;
    qn_error err;
    const char *text;
    size_t n;
    assert_int_equal(qn_text_detok_create(&d, demo, false, &err), QN_OK);
    assert_int_equal(qn_text_detok_push_bytes(d, "a\xf0\x9f", 3, &text, &n, &err), QN_OK);
    assert_string_equal(text, "a");
    assert_int_equal(qn_text_detok_push_bytes(d, "\x98", 1, &text, &n, &err), QN_OK);
    assert_string_equal(text, "");
    assert_int_equal(qn_text_detok_push_bytes(d,
                                              "\x8a"
                                              "b",
                                              2, &text, &n, &err),
                     QN_OK);
    assert_string_equal(text, "\xf0\x9f\x98\x8a"
                              "b");
    qn_text_detok_destroy(d);
}

static void special_tokens_give_no_text(void **state)
{
    (void)state;
    for (int show = 0; show < 2; show++) {
        qn_text_detok *d;
        qn_error err;
        const char *text;
        size_t n;
        assert_int_equal(qn_text_detok_create(&d, demo, show, &err), QN_OK);
        int32_t end = qn_tokenizer_find(demo, "<|im_end|>"), think = qn_tokenizer_find(demo, "<think>");
        assert_int_equal(qn_text_detok_push(d, end, &text, &n, &err), QN_OK);
        assert_string_equal(text, show ? "<|im_end|>" : "");
        assert_int_equal(qn_text_detok_push(d, think, &text, &n, &err), QN_OK);
        assert_string_equal(text, "<think>");
        if (!show) { /* a character goes on across a token without text */
            assert_int_equal(qn_text_detok_push(d, qn_tokenizer_find(demo, "\xc3"), &text, &n, &err), QN_OK);
            assert_int_equal(qn_text_detok_push(d, end, &text, &n, &err), QN_OK);
            assert_string_equal(text, "");
            assert_int_equal(qn_text_detok_push(d, qn_tokenizer_find(demo, "\xa9"), &text, &n, &err), QN_OK);
            assert_string_equal(text, "\xc3\xa9");
        }
        assert_int_equal(qn_text_detok_push(d, 1536, &text, &n, &err), QN_INVALID);
        assert_string_equal(err.msg, "id 1536 has no token (the vocabulary ends at 1536)");
        assert_int_equal(qn_text_detok_push(d, -1, &text, &n, &err), QN_INVALID);
        qn_text_detok_destroy(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split_as_python),
        cmocka_unit_test(nothing_is_shown_too_early),
        cmocka_unit_test(special_tokens_give_no_text),
    };
    qn_error err;
    if (qn_tokenizer_open_dir(&demo, "models/demo", &err)) {
        printf("# %s\n1..1\nnot ok 1 - the demonstration tokenizer opens\n", err.msg);
        return 1;
    }
    int failed = TEST_MAIN(tests);
    qn_tokenizer_close(demo);
    return failed;
}
