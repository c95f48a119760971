/* test_tokenizer.c - encoding against vectors and rules: the demonstration tokenizer's 400 texts, pre-token
 * borders, added tokens with and without marks, long words against merging done the slow way. */
#include "tap.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mapfile.h"
#include "base/utf8.h"
#include "text/nfc.h"
#include "text/pretok.h"
#include "text/tokenizer.h"

static qn_tokenizer *demo;

/* The ids of a text as "1 2 3", freed by the caller. */
static char *ids_of(const char *text, size_t n, qn_special special, const uint8_t *literal)
{
    int32_t *ids;
    size_t n_ids;
    qn_error err = {0};
    qn_buf b;
    qn_buf_init(&b, 0);
    if (qn_tokenizer_encode(demo, text, n, special, literal, &ids, &n_ids, &err)) fail_msg("%s", err.msg);
    qn_buf_str(&b, "");
    for (size_t i = 0; i < n_ids; i++) qn_buf_printf(&b, i ? " %d" : "%d", ids[i]);
    free(ids);
    return qn_buf_take(&b, NULL);
}

/* The pieces of a text, joined by '|'. */
static char *pieces_of(const char *text, qn_special special, const uint8_t *literal)
{
    int32_t *ids;
    size_t n_ids, n;
    qn_error err = {0};
    qn_buf b;
    qn_buf_init(&b, 0);
    if (qn_tokenizer_encode(demo, text, strlen(text), special, literal, &ids, &n_ids, &err))
        fail_msg("%s", err.msg);
    qn_buf_str(&b, "");
    for (size_t i = 0; i < n_ids; i++) {
        const char *bytes;
        assert_true(qn_tokenizer_piece(demo, ids[i], &bytes, &n));
        if (qn_tokenizer_is_added(demo, ids[i])) qn_buf_byte(&b, '#');
        qn_buf_add(&b, bytes, n);
        if (i + 1 < n_ids) qn_buf_byte(&b, '|');
    }
    free(ids);
    return qn_buf_take(&b, NULL);
}

static void vectors(void **state)
{
    (void)state;
    FILE *f = fopen("tests/data/tokenizer/demo.jsonl", "rb");
    assert_non_null(f);
    char *line = NULL;
    size_t cap = 0, rows = 0;
    for (ssize_t n; (n = getline(&line, &cap, f)) > 0; rows++) {
        json_t *row = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, NULL);
        assert_non_null(row);
        json_t *text = json_object_get(row, "text"), *want = json_object_get(row, "ids");
        int32_t *ids;
        size_t n_ids;
        qn_error err = {0};
        bool special = json_is_true(json_object_get(row, "special"));
        assert_int_equal(qn_tokenizer_encode(demo, json_string_value(text), json_string_length(text),
                                             special ? QN_SPECIAL_ALL : QN_SPECIAL_NONE, NULL, &ids, &n_ids,
                                             &err),
                         QN_OK);
        if (n_ids != json_array_size(want)) fail_msg("row %zu: %zu ids", rows, n_ids);
        for (size_t i = 0; i < n_ids; i++)
            if (ids[i] != json_integer_value(json_array_get(want, i))) fail_msg("row %zu: id %zu", rows, i);
        free(ids);
        json_decref(row);
    }
    assert_int_equal(rows, 400);
    free(line);
    fclose(f);
}

static void pretoken_borders(void **state)
{
    (void)state;
    static const char *const t[] = {
        /* pre-tokens joined by '|' */
        "Hello| | world|\n\n| | it|'s| |2|0|2|4|'s",
        "a|  | b",
        "foo|   ",
        "...\n\n|A",
        "'s|ound",
        "'S|'Ll|'x| ''|t",
        "we|'re|'RE|'ve|'LL|'m|'D",
        "a|'\xc5\xbf|b", /* the long s */
        " \n|x",
        "x| \n \r\n|  | y",
        "\r\n \t\n",
        "(a|((|1| (|1|-b| --|b",
        " |\xc2\xa0|1", /* a no-break space attaches to no digit */
        "\xc2\xa0"
        "a|\tb| c",
        "a|\xc2\x85|\xef\xbb\xbf"
        "b", /* U+0085 is white space, U+FEFF is not */
        "\xe2\x80\x8b"
        "a|\xe1\xa0\x8e"
        "b",
        "\xe0\xa4\xa8\xe0\xa4\xae\xe0\xa4\xb8\xe0\xa5\x8d\xe0\xa4\xa4\xe0\xa5\x87| \xe0\xa4\xa6\xe0\xa5\x81", /* Devanagari */
        "\xe0\xb8\x9b\xe0\xb8\xb5| \xe0\xb8\x94", /* Thai */
        "e\xcc\x88\xcc\x81|1|\xcc\x81|2",
        "\xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd!\r\r|a",
        "\xe2\x85\xa7|\xc2\xbd|\xd9\xa3",
        "$x| $$|y| =>\n|z",
    };
    const qn_pretok *rules = qn_pretok_by_name("qwen35", 6);
    assert_non_null(rules);
    assert_null(qn_pretok_by_name("qwen2", 5));
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        qn_buf text, cut;
        qn_buf_init(&text, 0);
        qn_buf_init(&cut, 0);
        for (const char *s = t[i]; *s; s++)
            if (*s != '|') qn_buf_byte(&text, *s);
        for (size_t at = 0; at < text.len;) {
            size_t end = qn_pretok_next(rules, (const uint8_t *)text.data, text.len, at);
            assert_true(end > at && end <= text.len);
            if (at) qn_buf_byte(&cut, '|');
            qn_buf_add(&cut, text.data + at, end - at);
            at = end;
        }
        assert_string_equal(cut.data, t[i]);
        qn_buf_deinit(&text);
        qn_buf_deinit(&cut);
    }
}

static void normalisation(void **state)
{
    (void)state;
    static const char *const t[][2] = {
        {"abc", "abc"},
        {"e\xcc\x81", "\xc3\xa9"},
        {"xe\xcc\x81y", "x\xc3\xa9y"},
        {"A\xcc\x8a\xe2\x84\xab", "\xc3\x85\xc3\x85"},
        {"\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c"},
        {"\xea\xb0\x80\xe1\x86\xab", "\xea\xb0\x84"},  /* a syllable and a trailing jamo */
        {"a\xcc\x81\xcc\xa3", "\xe1\xba\xa1\xcc\x81"}, /* marks are put in order first */
        {"\xe3\x81\x8b\xe3\x82\x99", "\xe3\x81\x8c"},
        {"\xe2\x80\x80", "\xe2\x80\x82"}, /* U+2000 becomes U+2002 */
        {">\xcc\xb8", "\xe2\x89\xaf"},
        {"\xcc\x81"
         "a",
         "\xcc\x81"
         "a"},
        {"\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc"}, /* a composition exclusion */
        {"\xf0\x9d\x85\x9e", "\xf0\x9d\x85\x97\xf0\x9d\x85\xa5"},
    };
    qn_nfc w;
    qn_error err;
    const uint8_t *out;
    size_t n;
    qn_nfc_init(&w, 0);
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        assert_int_equal(qn_nfc_text(&w, (const uint8_t *)t[i][0], strlen(t[i][0]), &out, &n, &err), QN_OK);
        assert_int_equal(n, strlen(t[i][1]));
        assert_memory_equal(out, t[i][1], n);
    }
    /* A long run of marks, the classes 230 and 220 in turn: the 220s come first, each kind in its own order.
     */
    size_t half = 50000;
    qn_buf in;
    qn_buf_init(&in, 0);
    qn_buf_str(&in, "q");
    for (size_t i = 0; i < half; i++) qn_buf_str(&in, "\xcc\x80\xcc\x96");
    assert_int_equal(qn_nfc_text(&w, (const uint8_t *)in.data, in.len, &out, &n, &err), QN_OK);
    assert_int_equal(n, in.len);
    for (size_t i = 0; i < 2 * half; i++) assert_int_equal(out[2 + 2 * i], i < half ? 0x96 : 0x80);
    /* What is called inert must stay itself between any neighbours that are plain letters. */
    for (uint32_t cp = 0x80; cp < 0x20000; cp++) {
        uint8_t b[8] = {'a'};
        if (!qn_nfc_is_inert(cp)) continue;
        size_t len = 1 + qn_utf8_encode(b + 1, cp);
        assert_int_equal(qn_nfc_text(&w, b, len, &out, &n, &err), QN_OK);
        assert_ptr_equal(out, b);
    }
    qn_buf_deinit(&in);
    qn_nfc_deinit(&w);
}

static void added_tokens(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        qn_special special;
        const char *marks; /* as long as the text; 'L' literal */
        const char *pieces;
    } t[] = {
        {"<|im_end|>", QN_SPECIAL_ALL, NULL, "#<|im_end|>"},
        {"<think><think></think>", QN_SPECIAL_ALL, NULL, "#<think>|#<think>|#</think>"},
        {"<<think>>", QN_SPECIAL_ALL, NULL, "<|#<think>|>"},
        {"<think", QN_SPECIAL_ALL, NULL, "<|th|in|k"},
        {"<think>\xcc\xb8", QN_SPECIAL_ALL, NULL, "#<think>|\xcc|\xb8"}, /* cut before normalisation */
        {"<think>", QN_SPECIAL_MARKED, "LLLLLLL", "#<think>"},
        {"<think><think>", QN_SPECIAL_MARKED, "LLLLLLL.......", "#<think>|<|th|in|k|>"},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        uint8_t literal[64] = {0};
        for (size_t k = 0; t[i].marks && t[i].marks[k]; k++) literal[k] = t[i].marks[k] == 'L';
        char *got = pieces_of(t[i].text, t[i].special, literal);
        assert_string_equal(got, t[i].pieces);
        free(got);
    }
    /* One unmarked byte anywhere makes the whole an ordinary text, and neighbours of other origin are one
     * text. */
    static const char text[] = "It's <|im_end|> now";
    char *plain = ids_of(text, sizeof text - 1, QN_SPECIAL_NONE, NULL);
    for (size_t hole = 5; hole < 15; hole++) {
        uint8_t literal[sizeof text];
        memset(literal, 1, sizeof literal);
        literal[hole] = 0;
        char *got = ids_of(text, sizeof text - 1, QN_SPECIAL_MARKED, literal);
        assert_string_equal(got, plain);
        free(got);
    }
    for (size_t border = 0; border < 5; border++) {
        uint8_t literal[sizeof text];
        memset(literal, 1, sizeof literal);
        memset(literal, 0, border);
        char *got = ids_of(text, sizeof text - 1, QN_SPECIAL_MARKED, literal);
        char *all = ids_of(text, sizeof text - 1, QN_SPECIAL_ALL, NULL);
        assert_string_equal(got, all);
        free(got);
        free(all);
    }
    free(plain);
}

/* A tokenizer of bytes alone, with the given added tokens. */
static qn_status bytes_with_added(qn_tokenizer **t, const char *added, qn_error *err)
{
    qn_buf b;
    qn_buf_init(&b, 0);
    qn_buf_str(
        &b,
        "{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
        "\"Split\",\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\"
        "p{M}]+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|"
        "\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"use_regex\":false}]},"
        "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
    for (unsigned byte = 0, extra = 0; byte < 256; byte++) {
        bool self = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        qn_buf_printf(&b, "%s\"\\u%04x\":%u", byte ? "," : "", self ? byte : 256 + extra, byte);
        extra += !self;
    }
    qn_buf_printf(&b, "}},\"added_tokens\":[%s]}", added);
    qn_status st = qn_tokenizer_parse(t, b.data, b.len, NULL, 0, err);
    qn_buf_deinit(&b);
    return st;
}

static void longest_added_token_wins(void **state)
{
    (void)state;
    qn_tokenizer *t;
    qn_error err = {0};
    int32_t *ids;
    size_t n;
    static const char added[] =
        "{\"id\":300,\"content\":\"<a\"},{\"id\":301,\"content\":\"<a>\"},{\"id\":302,\"content\":\"<a>bc\"},"
        "{\"id\":303,\"content\":\"a>\"},{\"id\":304,\"content\":\"\xe2\x82\xac\"}";
    static const struct {
        const char *text, *marks;
        int32_t ids[8];
        size_t n;
    } c[] = {
        {"<a>bc", NULL, {302}, 1},
        {"<a>b", NULL, {301, 'b'}, 2},
        {"<ab", NULL, {300, 'b'}, 2},
        {"<<a>", NULL, {'<', 301}, 2},
        {"a><a>bcc", NULL, {303, 302, 'c'}, 3},
        {"\xe2\x82\xac", NULL, {304}, 1},
        {"<a>bc", "LLLL.", {301, 'b', 'c'}, 3}, /* the longest is not wholly marked, a shorter one is */
        {"<a>bc", "LL..L", {300, '>', 'b', 'c'}, 4},
        {"<a>bc", ".LLLL", {'<', 303, 'b', 'c'}, 4}, /* a later place */
        {"<a>bc", "L.LLL", {'<', 'a', '>', 'b', 'c'}, 5},
        {"<a>bc", "LLLLL", {302}, 1},
        {"<a>bc", ".....", {'<', 'a', '>', 'b', 'c'}, 5},
    };
    if (bytes_with_added(&t, added, &err)) fail_msg("%s", err.msg);
    assert_int_equal(qn_tokenizer_vocab_size(t), 305);
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        uint8_t literal[16] = {0};
        for (size_t k = 0; c[i].marks && c[i].marks[k]; k++) literal[k] = c[i].marks[k] == 'L';
        assert_int_equal(qn_tokenizer_encode(t, c[i].text, strlen(c[i].text),
                                             c[i].marks ? QN_SPECIAL_MARKED : QN_SPECIAL_ALL, literal, &ids,
                                             &n, &err),
                         QN_OK);
        assert_int_equal(n, c[i].n);
        assert_memory_equal(ids, c[i].ids, n * sizeof *ids);
        free(ids);
    }
    const char *bytes;
    assert_false(qn_tokenizer_piece(t, 299, &bytes, &n)); /* a hole above the vocabulary */
    assert_null(bytes);
    qn_tokenizer_close(t);
}

/* Merging by its definition: the lowest rank anywhere, leftmost first. Ranks are the order of ids in this
 * file. */
static size_t merge_slowly(const char *s, size_t n, int32_t *out)
{
    size_t k = 0, len[512];
    assert_true(n <= 512);
    for (size_t i = 0; i < n; i++) len[i] = 1;
    for (k = n;;) {
        int32_t best = INT32_MAX;
        size_t at = 0, pos = 0;
        for (size_t i = 0; i + 1 < k; pos += len[i++]) {
            char word[513];
            memcpy(word, s + pos, len[i] + len[i + 1]);
            word[len[i] + len[i + 1]] = 0;
            int32_t id = qn_tokenizer_find(demo, word);
            if (id >= 256 && id < best) best = id, at = i;
        }
        if (best == INT32_MAX) break;
        len[at] += len[at + 1];
        memmove(len + at + 1, len + at + 2, (k - at - 2) * sizeof *len);
        k--;
    }
    for (size_t i = 0, pos = 0; i < k; pos += len[i++]) {
        char word[513];
        memcpy(word, s + pos, len[i]);
        word[len[i]] = 0;
        out[i] = qn_tokenizer_find(demo, word);
    }
    return k;
}

static void long_words_merge_as_short_ones(void **state)
{
    (void)state;
    uint64_t seed = 12345;
    for (size_t round = 0; round < 300; round++) {
        char word[400];
        size_t n = 1 + round % 399;
        for (size_t i = 0; i < n; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            word[i] = "etaoinshrdlu"[(seed >> 33) % 12];
        }
        int32_t want[512], *ids;
        size_t n_ids;
        qn_error err;
        size_t n_want = merge_slowly(word, n, want);
        assert_int_equal(qn_tokenizer_encode(demo, word, n, QN_SPECIAL_NONE, NULL, &ids, &n_ids, &err),
                         QN_OK);
        if (n_ids != n_want || memcmp(ids, want, n_ids * sizeof *ids) != 0) fail_msg("%.*s", (int)n, word);
        free(ids);
    }
}

static void a_megabyte_without_a_space(void **state)
{
    (void)state;
    size_t n = (size_t)1 << 20, n_ids, total = 0;
    char *text = malloc(n);
    int32_t *ids;
    qn_error err;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++) text[i] = "anotherword"[i * 7 % 11];
    assert_int_equal(qn_tokenizer_encode(demo, text, n, QN_SPECIAL_ALL, NULL, &ids, &n_ids, &err), QN_OK);
    for (size_t i = 0; i < n_ids; i++) {
        const char *bytes;
        size_t len;
        assert_true(qn_tokenizer_piece(demo, ids[i], &bytes, &len));
        assert_memory_equal(text + total, bytes, len);
        total += len;
    }
    assert_int_equal(total, n);
    free(ids);
    free(text);
}

static void refused_texts(void **state)
{
    (void)state;
    int32_t *ids = NULL;
    size_t n = 7;
    qn_error err = {0};
    assert_int_equal(qn_tokenizer_encode(demo, "ok \xc3(", 5, QN_SPECIAL_ALL, NULL, &ids, &n, &err),
                     QN_INVALID);
    assert_string_equal(err.msg, "the text is not UTF-8 at byte 3");
    assert_null(ids);
    assert_int_equal(n, 0);
    assert_int_equal(qn_tokenizer_encode(demo, "a", 1, QN_SPECIAL_MARKED, NULL, &ids, &n, &err), QN_INVALID);
    assert_int_equal(
        qn_tokenizer_encode(demo, "a", QN_TOKENIZER_MAX_TEXT + 1, QN_SPECIAL_ALL, NULL, &ids, &n, &err),
        QN_TOO_LARGE);
    assert_int_equal(qn_tokenizer_encode(demo, "", 0, QN_SPECIAL_MARKED, NULL, &ids, &n, &err), QN_OK);
    assert_non_null(ids);
    assert_int_equal(n, 0);
    free(ids);
}

static void roles_and_names(void **state)
{
    (void)state;
    assert_int_equal(qn_tokenizer_eos(demo), 1529);
    assert_int_equal(qn_tokenizer_pad(demo), 1527);
    assert_int_equal(qn_tokenizer_bos(demo), -1);
    assert_int_equal(qn_tokenizer_find(demo, "<think>"), 1534);
    assert_int_equal(qn_tokenizer_find(demo, "no such token"), -1);
    assert_int_equal(qn_tokenizer_find(demo, ""), -1);
    assert_int_equal(qn_tokenizer_vocab_size(demo), 1536);
    assert_true(qn_tokenizer_is_special(demo, 1529));
    assert_false(qn_tokenizer_is_special(demo, 1534));
    assert_true(qn_tokenizer_is_added(demo, 1534));
    assert_false(qn_tokenizer_is_special(demo, -1));
    assert_false(qn_tokenizer_is_special(demo, 99999));
    assert_string_equal(qn_tokenizer_pretok_name(demo), "qwen35");
    qn_tokenizer *t;
    qn_error err;
    assert_int_equal(qn_tokenizer_open_dir(&t, "tests/data/tokenizer", &err), QN_NOT_FOUND);
    assert_non_null(strstr(err.msg, "tests/data/tokenizer/tokenizer.json"));
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(pretoken_borders),
        cmocka_unit_test(normalisation),
        cmocka_unit_test(added_tokens),
        cmocka_unit_test(longest_added_token_wins),
        cmocka_unit_test(long_words_merge_as_short_ones),
        cmocka_unit_test(a_megabyte_without_a_space),
        cmocka_unit_test(refused_texts),
        cmocka_unit_test(roles_and_names),
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
