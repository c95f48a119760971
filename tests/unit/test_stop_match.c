/* test_stop_match.c - stop strings: every way to cut the text into three pieces gives the same result, and no
 * more than a true prefix is ever held back. */
#include "tap.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "server/stop_match.h"

static const struct {
    const char *stops[4];
    const char *text;
    const char *shown; /* NULL: all of it */
} cases[] = {
    {{"beta gamma"}, "alpha beta gamma delta", "alpha "},
    {{"abab"}, "xabaababy", "xaba"},
    {{"aab"}, "aaaab", "aa"},
    {{"ab", "abcd", "bc"}, "xxabcd", "xx"}, /* the first that is complete wins */
    {{"cd", "abcd", "d"}, "xxabcd", "xx"},  /* of those that end together the longest */
    {{"nothing", "else"}, "the text", NULL},
    {{"text"}, "the tex", NULL}, /* a prefix at the end is not a match */
    {{"t"}, "t", ""},
    {{"\xe6\xb1\x89"}, "\xe6\xb1\x88\xe6\xb1\x89", "\xe6\xb1\x88"},
    {{"\n\n"}, "a\nb\n\nc", "a\nb"},
    {{NULL}, "free", NULL},
};

static void push(qn_stop_match *m, const char *p, size_t n, qn_buf *out, bool *hit)
{
    const char *shown;
    size_t n_shown;
    if (*hit) return;
    assert_int_equal(qn_stop_push(m, p, n, &shown, &n_shown, hit, NULL), QN_OK);
    qn_buf_add(out, shown, n_shown);
}

static size_t count(const char *const *stops, size_t *lens)
{
    size_t n = 0;
    for (; n < 4 && stops[n]; n++) lens[n] = strlen(stops[n]);
    return n;
}

static void every_split_gives_the_same(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const char *text = cases[c].text;
        size_t n = strlen(text), lens[4], n_stops = count(cases[c].stops, lens);
        for (size_t i = 0; i <= n; i++)
            for (size_t j = i; j <= n; j++) {
                qn_stop_match *m;
                qn_buf out = {0};
                bool hit = false;
                assert_int_equal(qn_stop_create(&m, cases[c].stops, lens, n_stops, NULL), QN_OK);
                push(m, text, i, &out, &hit);
                push(m, text + i, j - i, &out, &hit);
                push(m, text + j, n - j, &out, &hit);
                assert_int_equal(hit, cases[c].shown != NULL);
                if (!hit) {
                    const char *rest;
                    size_t n_rest;
                    qn_stop_flush(m, &rest, &n_rest);
                    qn_buf_add(&out, rest, n_rest);
                }
                qn_buf_str(&out, "");
                assert_string_equal(out.data, cases[c].shown ? cases[c].shown : text);
                qn_buf_deinit(&out);
                qn_stop_destroy(m);
            }
    }
}

static void only_a_true_prefix_is_held_back(void **state)
{
    (void)state;
    static const char *const stops[] = {"</think>", "beta gamma"};
    static const struct {
        const char *piece, *shown;
    } steps[] = {{"x</", "x"},  {"thin", ""},      {"g be", "</thing "}, {"t", ""},
                 {"t", "bett"}, {"beta gamm", ""}, {"!", "beta gamm!"}};
    size_t lens[] = {8, 10};
    qn_stop_match *m;
    assert_int_equal(qn_stop_create(&m, stops, lens, 2, NULL), QN_OK);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const char *shown;
        size_t n;
        bool hit;
        assert_int_equal(qn_stop_push(m, steps[i].piece, strlen(steps[i].piece), &shown, &n, &hit, NULL),
                         QN_OK);
        assert_false(hit);
        assert_int_equal(n, strlen(steps[i].shown));
        assert_memory_equal(shown, steps[i].shown, n);
    }
    qn_stop_destroy(m);
}

static void no_match_reaches_across_a_flush(void **state)
{
    (void)state;
    static const char *const stops[] = {"ab"};
    size_t lens[] = {2}, n;
    const char *shown;
    bool hit;
    qn_stop_match *m;
    assert_int_equal(qn_stop_create(&m, stops, lens, 1, NULL), QN_OK);
    assert_int_equal(qn_stop_push(m, "a", 1, &shown, &n, &hit, NULL), QN_OK);
    assert_int_equal(n, 0);
    qn_stop_flush(m, &shown, &n);
    assert_int_equal(n, 1);
    assert_int_equal(qn_stop_push(m, "b", 1, &shown, &n, &hit, NULL), QN_OK);
    assert_false(hit);
    assert_int_equal(n, 1);
    qn_stop_destroy(m);
}

static void limits_are_refused(void **state)
{
    (void)state;
    static char text[QN_STOP_MAX_BYTES + 1];
    const char *many[QN_STOP_MAX + 1];
    size_t lens[QN_STOP_MAX + 1];
    qn_stop_match *m;
    qn_error err;
    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < QN_STOP_MAX + 1; i++) many[i] = text, lens[i] = QN_STOP_MAX_BYTES;
    assert_int_equal(qn_stop_create(&m, many, lens, QN_STOP_MAX + 1, &err), QN_INVALID);
    assert_null(m);
    assert_int_equal(qn_stop_create(&m, many, lens, QN_STOP_MAX, &err), QN_OK);
    qn_stop_destroy(m);
    lens[3] = 0;
    assert_int_equal(qn_stop_create(&m, many, lens, 4, &err), QN_INVALID);
    lens[3] = QN_STOP_MAX_BYTES + 1;
    assert_int_equal(qn_stop_create(&m, many, lens, 4, &err), QN_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split_gives_the_same),
        cmocka_unit_test(only_a_true_prefix_is_held_back),
        cmocka_unit_test(no_match_reaches_across_a_flush),
        cmocka_unit_test(limits_are_refused),
    };
    return TEST_MAIN(tests);
}
