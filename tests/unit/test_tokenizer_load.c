/* test_tokenizer_load.c - tokenizer files that must be refused, each with a message that names the fault, and
 * the forms that must be accepted. Each case replaces one place in a small valid file. */
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "text/tokenizer.h"

#define PATTERN                                                                                                                   \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\p{M}]+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+" \
    "[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

static const char head[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[{\"id\":300,\"content\":\"<e>\",\"single_word\":false,"
    "\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}],\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":"
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" PATTERN
    "\"},\"behavior\":\"Isolated\","
    "\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":false,\"use_regex\":false}]},"
    "\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
    "\"continuing_subword_prefix\":\"\",\"end_of_word_suffix\":\"\",\"fuse_unk\":false,\"byte_fallback\":false,"
    "\"ignore_merges\":false,";
static const char tail[] = "\"ab\":256,\"abc\":257},\"merges\":[[\"a\",\"b\"],\"ab c\"]}}";

/* The valid file, with the first occurrence of `from` (if any) replaced by `to`. */
static void make_file(qn_buf *out, const char *from, const char *to)
{
    qn_buf b;
    qn_buf_init(&b, 0);
    qn_buf_str(&b, head);
    qn_buf_str(&b, "\"vocab\":{");
    for (unsigned byte = 0, extra = 0; byte < 256; byte++) {
        bool self = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        qn_buf_printf(&b, "\"\\u%04x\":%u,", self ? byte : 256 + extra, byte);
        extra += !self;
    }
    qn_buf_str(&b, tail);
    qn_buf_reset(out);
    char *at = from ? strstr(b.data, from) : NULL;
    if (from && !at) fail_msg("'%s' is not in the file", from);
    if (at) {
        qn_buf_add(out, b.data, (size_t)(at - b.data));
        qn_buf_str(out, to);
        qn_buf_str(out, at + strlen(from));
    } else {
        qn_buf_add(out, b.data, b.len);
    }
    qn_buf_deinit(&b);
}

/* Parse an exact copy, so that the address sanitizer sees a read past the end. */
static qn_status parse(qn_tokenizer **t, const char *json, size_t n, const char *config, qn_error *err)
{
    char *copy = malloc(n + 1);
    assert_non_null(copy);
    char *exact = realloc(copy, n ? n : 1);
    assert_non_null(exact);
    memcpy(exact, json, n);
    qn_status st = qn_tokenizer_parse(t, exact, n, config, config ? strlen(config) : 0, err);
    free(exact);
    return st;
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
        qn_status status;
        const char *message; /* must be part of it */
    } t[] = {
        {"\"ab\":256", "\"ab\":255", QN_CORRUPT, "id 255 has two tokens, '\\xff' and 'ab'"},
        {"\"abc\":257", "\"ab\":257", QN_CORRUPT, "token 'ab' has two ids, 256 and 257"},
        {"\"abc\":257", "\"abc\":258", QN_CORRUPT, "no token has the id 257"},
        {"\"abc\":257", "\"abc\":-1", QN_CORRUPT, "the id of token 'abc' must be a number in 0..1048575"},
        {"\"abc\":257", "\"abc\":1e2", QN_CORRUPT, "the id of token 'abc' must be"},
        {"\"abc\":257", "\"abc\":18446744073709551615", QN_CORRUPT, "the id of token 'abc' must be"},
        {"\"abc\":257", "\"abc\":1048576", QN_CORRUPT, "the id of token 'abc' must be"},
        {"\"abc\":257", "\"abc\":\"257\"", QN_CORRUPT, "the id of token 'abc' must be"},
        {"\"abc\":257", "\"a c\":257", QN_CORRUPT, "token 'a c' has a character outside the byte alphabet"},
        {"\"abc\":257", "\"a\\u0144\":257", QN_CORRUPT, "outside the byte alphabet"},
        {"\"abc\":257", "\"a\\u00ad\":257", QN_CORRUPT, "outside the byte alphabet"},
        {"\"abc\":257", "\"\\u4e2d\":257", QN_CORRUPT, "outside the byte alphabet"},
        {"\"abc\":257", "\"\":257", QN_CORRUPT, "the token of id 257 is empty"},
        {"\"abc\":257", "\"\\ud800\":257", QN_CORRUPT, "the second half of a surrogate pair"},
        {"\"abc\":257", "\"\xff\":257", QN_CORRUPT, "expected well-formed UTF-8"},
        {"\"\\u0041\":65", "\"de\":65", QN_CORRUPT, "the vocabulary has no token for the byte 0x41"},
        {"[\"a\",\"b\"]", "[\"a\",\"bb\"]", QN_CORRUPT,
         "merge 0: its right part 'bb' is not in the vocabulary"},
        {"[\"a\",\"b\"]", "[\"zz\",\"b\"]", QN_CORRUPT,
         "merge 0: its left part 'zz' is not in the vocabulary"},
        {"[\"a\",\"b\"]", "[\"a\",\"c\"]", QN_CORRUPT, "merge 0: its result 'ac' is not in the vocabulary"},
        {"[\"a\",\"b\"]", "[\"a\",\"b\",\"c\"]", QN_CORRUPT, "what follows the two parts of a merge"},
        {"[\"a\",\"b\"]", "[\"a\"]", QN_CORRUPT, "the right part of a merge must be a string"},
        {"[\"a\",\"b\"]", "[\"a\",7]", QN_CORRUPT,
         "the right part of a merge must be a string, found a number"},
        {"[\"a\",\"b\"]", "7", QN_CORRUPT, "merge 0 must be a string or a pair, found a number"},
        {"\"ab c\"", "\"abc\"", QN_CORRUPT, "merge 1 must be two tokens with one space"},
        {"\"ab c\"", "\"a b c\"", QN_CORRUPT, "merge 1 must be two tokens with one space"},
        {"\"ab c\"", "\"a b\"", QN_CORRUPT, "merge 1 repeats an earlier one"},
        {"\"ab c\"", "\"ab \"", QN_CORRUPT, "merge 1: its right part '' is not in the vocabulary"},
        {"\"merges\":[[\"a\",\"b\"],\"ab c\"]", "\"merges\":{}", QN_CORRUPT,
         "merges must be an array, found an object"},
        {",\"merges\":[[\"a\",\"b\"],\"ab c\"]", "", QN_CORRUPT, "model lacks its merges"},
        {"\"merges\":[", "\"merges\":[],\"merges\":[", QN_CORRUPT, "merges is given twice"},
        {"\"vocab\":{", "\"vocab\":{},\"vocab\":{", QN_CORRUPT, "vocab is given twice"},
        {"\"vocab\":{", "\"vocab\":[{", QN_CORRUPT, "vocab must be an object, found an array"},
        {"\"type\":\"BPE\"", "\"type\":\"Unigram\"", QN_UNSUPPORTED,
         "model 'Unigram' is not supported, only BPE"},
        {"\"type\":\"BPE\",", "", QN_CORRUPT, "model lacks its type"},
        {"\"byte_fallback\":false", "\"byte_fallback\":true", QN_UNSUPPORTED, "byte_fallback"},
        {"\"ignore_merges\":false", "\"ignore_merges\":true", QN_UNSUPPORTED, "ignore_merges"},
        {"\"dropout\":null", "\"dropout\":0.1", QN_UNSUPPORTED, "dropout '0.1' is not supported"},
        {"\"unk_token\":null", "\"unk_token\":\"<unk>\"", QN_UNSUPPORTED, "unk_token '<unk>'"},
        {"\"end_of_word_suffix\":\"\"", "\"end_of_word_suffix\":\"</w>\"", QN_UNSUPPORTED,
         "end_of_word_suffix '</w>'"},
        {"\"fuse_unk\"", "\"new_thing\"", QN_UNSUPPORTED, "model: 'new_thing' is not supported"},
        {"{\"type\":\"NFC\"}", "{\"type\":\"NFKC\"}", QN_UNSUPPORTED,
         "normalizer 'NFKC' is not supported, only NFC"},
        {"{\"type\":\"NFC\"}", "null", QN_UNSUPPORTED, "normalizer: null is not supported"},
        {"\"normalizer\":{\"type\":\"NFC\"},", "", QN_CORRUPT, "lacks its normalizer"},
        {"[\\\\p{L}\\\\p{M}]+", "\\\\p{L}+", QN_UNSUPPORTED,
         "pre-tokenizer pattern '(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"},
        {"{\"Regex\":", "{\"String\":", QN_UNSUPPORTED, "pre-tokenizer pattern of kind 'String'"},
        {"\"Isolated\"", "\"Removed\"", QN_UNSUPPORTED, "pre-tokenizer behaviour 'Removed'"},
        {"\"invert\":false", "\"invert\":true", QN_UNSUPPORTED, "invert"},
        {"\"use_regex\":false", "\"use_regex\":true", QN_UNSUPPORTED, "use_regex"},
        {",\"use_regex\":false", "", QN_CORRUPT, "the ByteLevel of the pre-tokenizer lacks use_regex"},
        {"\"add_prefix_space\":false", "\"add_prefix_space\":true", QN_UNSUPPORTED, "add_prefix_space"},
        {"\"type\":\"Split\"", "\"type\":\"Digits\"", QN_UNSUPPORTED, "pre-tokenizer 'Digits'"},
        {"\"post_processor\":null", "\"post_processor\":{\"type\":\"TemplateProcessing\"}", QN_UNSUPPORTED,
         "post_processor 'TemplateProcessing'"},
        {"{\"type\":\"ByteLevel\"}", "{\"type\":\"Metaspace\"}", QN_UNSUPPORTED, "decoder 'Metaspace'"},
        {"\"version\":\"1.0\"", "\"version\":\"2.0\"", QN_UNSUPPORTED, "version '2.0'"},
        {"\"padding\"", "\"stuffing\"", QN_UNSUPPORTED, "tokenizer: 'stuffing' is not supported"},
        {"\"id\":300", "\"id\":-300", QN_CORRUPT, "an added token has the id -300"},
        {"\"id\":300", "\"id\":99999999999999999999", QN_CORRUPT,
         "an added token has the id 99999999999999999999"},
        {"\"id\":300", "\"id\":97", QN_CORRUPT, "id 97 has two tokens, "},
        {"\"id\":300,", "", QN_CORRUPT, "an added token lacks its id"},
        {"\"content\":\"<e>\",", "", QN_CORRUPT, "an added token lacks its content"},
        {"\"content\":\"<e>\"", "\"content\":\"\"", QN_CORRUPT, "the token of id 300 is empty"},
        {"\"content\":\"<e>\"", "\"content\":\"ab\"", QN_CORRUPT, "token 'ab' has two ids"},
        {"\"lstrip\":false", "\"lstrip\":true", QN_UNSUPPORTED, "lstrip of an added token"},
        {"\"normalized\":false", "\"normalized\":true", QN_UNSUPPORTED,
         "added token '<e>' wants to be found in normalised"},
        {"\"special\":true", "\"special\":1", QN_CORRUPT, "must be true or false, found a number"},
        {"\"special\":true}", "\"special\":true},{\"id\":301,\"content\":\"<e>\"}", QN_CORRUPT,
         "added token '<e>' has two ids, 300 and 301"},
        {"\"special\":true}", "\"special\":true},{\"id\":300,\"content\":\"<f>\"}", QN_CORRUPT,
         "id 300 has two tokens, '<e>' and '<f>'"},
        {"\"special\":true}", "\"special\":true},{\"id\":300,\"content\":\"<e>\"}", QN_CORRUPT,
         "added token '<e>' is said to be special and not special"},
        {"\"special\":true}", "\"special\":true},[]", QN_CORRUPT,
         "an added token must be an object, found an array"},
    };
    qn_buf file;
    qn_buf_init(&file, 0);
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        qn_tokenizer *tok = NULL;
        qn_error err = {0};
        make_file(&file, t[i].from, t[i].to);
        qn_status st = parse(&tok, file.data, file.len, NULL, &err);
        if (st != t[i].status || !strstr(err.msg, t[i].message) ||
            strncmp(err.msg, "tokenizer.json: ", 16) != 0)
            fail_msg("'%s' gave status %d, '%s'", t[i].to, st, err.msg);
        assert_null(tok);
    }
    qn_buf_deinit(&file);
}

static void over_long_and_too_deep(void **state)
{
    (void)state;
    qn_buf file, big;
    qn_tokenizer *t;
    qn_error err = {0};
    qn_buf_init(&file, 0);
    qn_buf_init(&big, 0);
    for (size_t n = 1024; n <= 3000; n += n == 1024 ? 1 : 1975) {
        qn_buf_reset(&big);
        qn_buf_str(&big, "\"");
        for (size_t i = 0; i < n; i++) qn_buf_byte(&big, 'x');
        qn_buf_str(&big, "\":257");
        make_file(&file, "\"abc\":257},\"merges\":[[\"a\",\"b\"],\"ab c\"]", "@");
        char *at = strchr(file.data, '@');
        while (at[1] == '\"' || strchr(at + 1, '@')) at = strchr(at + 1, '@'); /* past the byte '@' itself */
        qn_buf whole;
        qn_buf_init(&whole, 0);
        qn_buf_add(&whole, file.data, (size_t)(at - file.data));
        qn_buf_add(&whole, big.data, big.len);
        qn_buf_str(&whole, "},\"merges\":[]");
        qn_buf_str(&whole, at + 1);
        qn_status st = parse(&t, whole.data, whole.len, NULL, &err);
        assert_int_equal(st, n == 1024 ? QN_OK : QN_TOO_LARGE);
        if (st)
            assert_non_null(
                strstr(err.msg, n == 1025 ? "has 1025 bytes, the limit is 1024" : "the limit is 2048"));
        qn_tokenizer_close(t);
        qn_buf_deinit(&whole);
    }
    qn_buf_reset(&big);
    for (size_t i = 0; i < 1000000; i++) qn_buf_byte(&big, '[');
    make_file(&file, "\"padding\":null", "\"padding\":@");
    char *at = strchr(file.data, '@');
    qn_buf whole;
    qn_buf_init(&whole, 0);
    qn_buf_add(&whole, file.data, (size_t)(at - file.data));
    qn_buf_add(&whole, big.data, big.len);
    assert_int_equal(parse(&t, whole.data, whole.len, NULL, &err), QN_TOO_LARGE);
    assert_non_null(strstr(err.msg, "nested deeper than the limit of 64 levels"));
    assert_int_equal(parse(&t, big.data, big.len, NULL, &err), QN_CORRUPT);
    assert_non_null(strstr(err.msg, "a tokenizer must be an object, found an array"));
    qn_buf_deinit(&whole);
    qn_buf_deinit(&big);
    qn_buf_deinit(&file);
}

static void truncated_anywhere(void **state)
{
    (void)state;
    qn_buf file;
    qn_tokenizer *t;
    qn_error err = {0};
    qn_buf_init(&file, 0);
    make_file(&file, NULL, NULL);
    for (size_t n = 0; n < file.len; n++) {
        assert_int_equal(parse(&t, file.data, n, NULL, &err), QN_CORRUPT);
        /* Cut inside a number, the id is another one, and usually taken. */
        if (!strstr(err.msg, "byte ") && !strstr(err.msg, "has two tokens"))
            fail_msg("cut after %zu bytes: '%s'", n, err.msg);
        assert_null(t);
    }
    qn_buf_byte(&file, 'x');
    assert_int_equal(parse(&t, file.data, file.len, NULL, &err), QN_CORRUPT);
    assert_non_null(strstr(err.msg, "expected nothing after the value"));
    qn_buf_deinit(&file);
}

/* Whatever one byte is changed to, the loader answers; the sanitizers watch. */
static void any_changed_byte(void **state)
{
    (void)state;
    qn_buf file;
    qn_tokenizer *t;
    qn_error err;
    static const char other[] = {0, '"', '\\', '{', ']', ',', '9', '-', (char)0xff};
    qn_buf_init(&file, 0);
    make_file(&file, NULL, NULL);
    for (size_t i = 0; i < file.len; i++) {
        char was = file.data[i];
        file.data[i] = other[i % sizeof other];
        qn_status st = qn_tokenizer_parse(&t, file.data, file.len, NULL, 0, &err);
        assert_true(st == QN_OK ? t != NULL : t == NULL);
        qn_tokenizer_close(t);
        file.data[i] = was;
    }
    qn_buf_deinit(&file);
}

static void accepted(void **state)
{
    (void)state;
    static const char *const t[][2] = {
        {NULL, NULL},
        {"\"abc\":257", "\"\\u0061bc\":257"},
        {"\"post_processor\":null", "\"post_processor\":{\"type\":\"ByteLevel\",\"trim_offsets\":true}"},
        {"\"truncation\":null", "\"truncation\":{\"max_length\":4}"},
        {"\"vocab\":{", "\"merges\":[\"a b\",[\"ab\",\"c\"]],\"vocab\":{"}, /* merges first; see below */
        {"\"id\":300,\"content\":\"<e>\"",
         "\"id\":256,\"content\":\"ab\""}, /* an added token that is in the vocabulary */
    };
    qn_buf file;
    qn_buf_init(&file, 0);
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        qn_tokenizer *tok;
        qn_error err = {0};
        int32_t *ids;
        size_t n;
        make_file(&file, t[i][0], t[i][1]);
        if (i == 4) file.len -= strlen(",\"merges\":[[\"a\",\"b\"],\"ab c\"]}}"), qn_buf_str(&file, "}}");
        if (parse(&tok, file.data, file.len, NULL, &err)) fail_msg("case %zu: %s", i, err.msg);
        assert_int_equal(qn_tokenizer_encode(tok, "xabcab", 6, QN_SPECIAL_NONE, NULL, &ids, &n, &err), QN_OK);
        assert_int_equal(n, 3);
        assert_true(ids[0] == 'x' && ids[1] == 257 && ids[2] == 256);
        free(ids);
        qn_tokenizer_close(tok);
    }
    qn_buf_deinit(&file);
}

static void the_config(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        qn_status status;
        const char *message;
    } t[] = {
        {"{}", QN_OK, ""},
        {"{\"eos_token\":\"<e>\",\"chat_template\":\"{{ x }}\",\"extra\":{\"a\":[1]}}", QN_OK, ""},
        {"{\"eos_token\":{\"content\":\"<e>\",\"lstrip\":false}}", QN_OK, ""},
        {"{\"added_tokens_decoder\":{\"300\":{\"content\":\"<e>\",\"special\":true},\"305\":{\"content\":\"<f>\"}},"
         "\"eos_token\":\"<f>\"}",
         QN_OK, ""},
        {"", QN_CORRUPT, "expected a value, found the end"},
        {"[]", QN_CORRUPT, "tokenizer_config must be an object"},
        {"{\"eos_token\":\"<x>\"}", QN_CORRUPT, "eos_token '<x>' is not in the vocabulary"},
        {"{\"eos_token\":\"<e>\\u0000\"}", QN_CORRUPT, "eos_token '<e>\\x00' is not in the vocabulary"},
        {"{\"eos_token\":7}", QN_CORRUPT, "a token's name must be a string, found a number"},
        {"{\"add_bos_token\":true}", QN_UNSUPPORTED, "add_bos_token"},
        {"{\"added_tokens_decoder\":{\"x\":{\"content\":\"<f>\"}}}", QN_CORRUPT, "has the id 'x'"},
        {"{\"added_tokens_decoder\":{\"-1\":{\"content\":\"<f>\"}}}", QN_CORRUPT, "has the id '-1'"},
        {"{\"added_tokens_decoder\":{\"\":{\"content\":\"<f>\"}}}", QN_CORRUPT, "has the id ''"},
        {"{\"added_tokens_decoder\":{\"4294967597\":{\"content\":\"<f>\"}}}", QN_CORRUPT,
         "has the id '4294967597'"},
        {"{\"added_tokens_decoder\":{\"97\":{\"content\":\"<f>\"}}}", QN_CORRUPT,
         "id 97 has two tokens, 'a' and '<f>'"},
        {"{\"added_tokens_decoder\":{\"301\":{\"content\":\"<e>\"}}}", QN_CORRUPT,
         "'<e>' has two ids, 300 and 301"},
        {"{\"added_tokens_decoder\":{\"300\":{\"content\":\"<e>\"}}}", QN_CORRUPT, "special and not special"},
        {"{\"added_tokens_decoder\":[]}", QN_CORRUPT, "added_tokens_decoder must be an object"},
    };
    qn_buf file;
    qn_buf_init(&file, 0);
    make_file(&file, NULL, NULL);
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        qn_tokenizer *tok;
        qn_error err = {0};
        qn_status st = parse(&tok, file.data, file.len, t[i].config, &err);
        if (st != t[i].status || !strstr(err.msg, t[i].message) ||
            (st && strncmp(err.msg, "tokenizer_config.json: ", 23) != 0))
            fail_msg("case %zu gave status %d, '%s'", i, st, err.msg);
        if (i == 1 || i == 2) assert_int_equal(qn_tokenizer_eos(tok), 300);
        if (i == 3) {
            assert_int_equal(qn_tokenizer_eos(tok), 305);
            assert_int_equal(qn_tokenizer_vocab_size(tok), 306);
            assert_false(qn_tokenizer_is_special(tok, 305));
        }
        qn_tokenizer_close(tok);
    }
    qn_buf_deinit(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused),
        cmocka_unit_test(over_long_and_too_deep),
        cmocka_unit_test(truncated_anywhere),
        cmocka_unit_test(any_changed_byte),
        cmocka_unit_test(accepted),
        cmocka_unit_test(the_config),
    };
    return TEST_MAIN(tests);
}
