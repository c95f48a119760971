/* test_safetensors.c - the header of a safetensors file: what is read from a good one, a table of bad ones
 * with the refusal each must reach, every prefix of a file, every changed byte of a header. */
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors.h"

/* Put header and n_data bytes of data together in memory of exactly that size, so that a sanitizer sees every
 * read past the end, and parse it. said_bytes: the length written in front, ~0 for the true one. */
static qn_status parse(qn_safetensors *s, const void *header, size_t n, size_t n_data, uint64_t said_bytes,
                       uint8_t **file, qn_error *err)
{
    uint64_t said = said_bytes == ~0ull ? n : said_bytes;
    uint8_t *p = malloc(8 + n + n_data);
    assert_non_null(p);
    memcpy(p, &said, 8);
    memcpy(p + 8, header, n);
    memset(p + 8 + n, 0x5a, n_data);
    qn_status st = qn_safetensors_parse(s, p, 8 + n + n_data, "x.safetensors", err);
    *file = p;
    return st;
}

static const char good[] =
    "{\"__metadata__\":{\"format\":\"pt\",\"\":\"\"},"
    "\"b.weight\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
    " \"a\\u00e9\\n\" : {\"data_offsets\":[0,4], \"shape\":[],\"dtype\":\"F32\"} ,"
    "\"z\":{\"dtype\":\"F4\",\"shape\":[1,1,1,1,1,1,3,4],\"data_offsets\":[16,22]}}   ";

static void a_good_file(void **state)
{
    (void)state;
    qn_safetensors s;
    qn_error err = {0};
    uint8_t *file;
    char header[sizeof good];
    memcpy(header, good, sizeof good);
    char *escape = strstr(header, "\\n"); /* a control character is refused: make it a quote */
    escape[1] = '"';
    size_t n = sizeof good - 1;
    if (parse(&s, header, n, 22, ~0ull, &file, &err)) fail_msg("%s", err.msg);
    assert_int_equal(s.n, 3);
    const qn_ckpt_tensor *t = s.tensors;
    assert_string_equal(t[0].name, "a\xc3\xa9\"");
    assert_int_equal(t[0].dtype, QN_DTYPE_F32);
    assert_int_equal(t[0].n_dims, 0);
    assert_int_equal(t[0].dims[0], 1);
    assert_int_equal(t[0].n_elements, 1);
    assert_int_equal(t[0].n_bytes, 4);
    assert_ptr_equal(t[0].data, file + 8 + n);
    assert_string_equal(t[0].file, "x.safetensors");
    assert_string_equal(t[1].name, "b.weight");
    assert_int_equal(t[1].dtype, QN_DTYPE_BF16);
    assert_int_equal(t[1].n_dims, 2);
    assert_int_equal(t[1].dims[0], 2);
    assert_int_equal(t[1].dims[1], 3);
    assert_int_equal(t[1].dims[2], 1);
    assert_int_equal(t[1].n_elements, 6);
    assert_ptr_equal(t[1].data, file + 8 + n + 4);
    assert_int_equal(t[2].dtype, QN_DTYPE_F4);
    assert_int_equal(t[2].n_dims, 8);
    assert_int_equal(t[2].n_elements, 12);
    assert_int_equal(t[2].n_bytes, 6);
    qn_safetensors_deinit(&s);
    qn_safetensors_deinit(&s);
    free(file);
}

static void a_file_without_tensors(void **state)
{
    (void)state;
    qn_safetensors s;
    qn_error err = {0};
    uint8_t *file;
    assert_int_equal(parse(&s, "{}", 2, 0, ~0ull, &file, &err), QN_OK);
    assert_int_equal(s.n, 0);
    qn_safetensors_deinit(&s);
    free(file);
}

/* One tensor whose fields are given; 4 bytes of data. */
#define ONE(fields)          "{\"a\":{" fields "}}"
#define DT(d)                "\"dtype\":\"" d "\""
#define SH(s)                "\"shape\":[" s "]"
#define OFF(o)               "\"data_offsets\":[" o "]"
#define FULL(d, s, o)        ONE(DT(d) "," SH(s) "," OFF(o))
#define NAMED(name, d, s, o) "\"" name "\":{" DT(d) "," SH(s) "," OFF(o) "}"
#define A4                   NAMED("a", "U8", "4", "0,4")
#define TEN                  "0123456789"
#define HUNDRED              TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

static const struct bad {
    const char *header;
    size_t n_data;
    qn_status status;
    const char *message; /* a part of it */
} bad[] = {
    /* the header as JSON */
    {"", 0, QN_CORRUPT, "byte 0: expected a value, found the end"},
    {"[]", 0, QN_CORRUPT, "the header is an array, not an object"},
    {"null", 0, QN_CORRUPT, "the header is null, not an object"},
    {"\"a\"", 0, QN_CORRUPT, "the header is a string, not an object"},
    {"{", 0, QN_CORRUPT, "found the end"},
    {"{} x", 0, QN_CORRUPT, "byte 3: expected"},
    {"{}{}", 0, QN_CORRUPT, "byte 2: expected"},
    {"\xef\xbb\xbf{}", 0, QN_CORRUPT, "byte 0: expected"},
    {"{\"a\xff\":{}}", 0, QN_CORRUPT, "byte 3"},
    {"{\"a\\ud800\":{}}", 0, QN_CORRUPT, "surrogate pair"},
    {"{\"a\":[[[[[[[[[]]]]]]]]]}", 0, QN_TOO_LARGE, "nest"},
    /* names */
    {"{\"\":{}}", 0, QN_CORRUPT, "a tensor has an empty name"},
    {"{\"a\\u0000b\":{}}", 0, QN_CORRUPT, "tensor name 'a\\x00b' holds a control character"},
    {"{\"a\\u001b[2J\":{}}", 0, QN_CORRUPT, "tensor name 'a\\x1b[2J' holds a control character"},
    {"{\"a\\u007f\":{}}", 0, QN_CORRUPT, "holds a control character"},
    {"{\"" HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED TEN "123\":{}}", 0, QN_TOO_LARGE,
     "a tensor name of 513 bytes, the limit is 512"},
    {"{" A4 "," A4 "}", 4, QN_CORRUPT, "overlap"},
    {"{" NAMED("a", "U8", "2", "0,2") "," NAMED("a", "U8", "2", "2,4") "}", 4, QN_CORRUPT,
     "tensor 'a' occurs twice"},
    {"{" NAMED("a", "U8", "2", "0,2") "," NAMED("\\u0061", "U8", "2", "2,4") "}", 4, QN_CORRUPT,
     "tensor 'a' occurs twice"},
    /* metadata */
    {"{\"__metadata__\":[]}", 0, QN_CORRUPT, "__metadata__ must be an object, found an array"},
    {"{\"__metadata__\":{\"a\":1}}", 0, QN_CORRUPT,
     "a value in __metadata__ must be a string, found a number"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, QN_CORRUPT, "__metadata__ occurs twice"},
    /* entries and fields */
    {"{\"a\":[]}", 0, QN_CORRUPT, "a tensor's entry must be an object, found an array"},
    {"{\"a\":null}", 0, QN_CORRUPT, "a tensor's entry must be an object, found null"},
    {"{\"a\":{}}", 0, QN_CORRUPT, "tensor 'a' has no 'dtype'"},
    {ONE(SH("4") "," OFF("0,4")), 4, QN_CORRUPT, "tensor 'a' has no 'dtype'"},
    {ONE(DT("U8") "," OFF("0,4")), 4, QN_CORRUPT, "tensor 'a' has no 'shape'"},
    {ONE(DT("U8") "," SH("4")), 4, QN_CORRUPT, "tensor 'a' has no 'data_offsets'"},
    {ONE(DT("U8") "," SH("4") "," OFF("0,4") ",\"strides\":[1]"), 4, QN_CORRUPT,
     "tensor 'a' has an unknown field 'strides'"},
    {ONE(DT("U8") "," SH("4") "," DT("U8") "," OFF("0,4")), 4, QN_CORRUPT,
     "tensor 'a' has two fields 'dtype'"},
    {ONE(DT("U8") "," SH("4") "," SH("4") "," OFF("0,4")), 4, QN_CORRUPT,
     "tensor 'a' has two fields 'shape'"},
    {ONE(DT("U8") "," SH("4") "," OFF("0,4") "," OFF("0,4")), 4, QN_CORRUPT,
     "tensor 'a' has two fields 'data_offsets'"},
    /* dtype */
    {FULL("Q8_0", "4", "0,4"), 4, QN_UNSUPPORTED, "tensor 'a' has the unknown dtype 'Q8_0'"},
    {FULL("bf16", "2", "0,4"), 4, QN_UNSUPPORTED, "unknown dtype 'bf16'"},
    {FULL("U8\\u0000", "4", "0,4"), 4, QN_UNSUPPORTED, "unknown dtype 'U8\\x00'"},
    {ONE("\"dtype\":8," SH("4") "," OFF("0,4")), 4, QN_CORRUPT, "dtype must be a string, found a number"},
    /* shape */
    {ONE(DT("U8") ",\"shape\":4," OFF("0,4")), 4, QN_CORRUPT, "shape must be an array, found a number"},
    {FULL("U8", "1,1,1,1,1,1,1,1,4", "0,4"), 4, QN_TOO_LARGE, "tensor 'a' has more than 8 dimensions"},
    {FULL("U8", "0", "0,0"), 0, QN_CORRUPT, "tensor 'a' has a dimension of 0"},
    {FULL("U8", "4,0", "0,4"), 4, QN_CORRUPT, "tensor 'a' has a dimension of 0"},
    {FULL("U8", "-4", "0,4"), 4, QN_CORRUPT, "a dimension is not a whole number"},
    {FULL("U8", "4.0", "0,4"), 4, QN_CORRUPT, "a dimension is not a whole number"},
    {FULL("U8", "4e0", "0,4"), 4, QN_CORRUPT, "a dimension is not a whole number"},
    {FULL("U8", "\"4\"", "0,4"), 4, QN_CORRUPT, "a dimension is not a whole number"},
    {FULL("U8", "[4]", "0,4"), 4, QN_CORRUPT, "a dimension is not a whole number"},
    {FULL("U8", "18446744073709551616", "0,4"), 4, QN_CORRUPT, "a dimension is not a whole number"},
    {FULL("U8", "4294967296,4294967296", "0,4"), 4, QN_CORRUPT, "tensor 'a' has 2^64 elements or more"},
    {FULL("U8", "4398046511105,4194304,4", "0,4"), 4, QN_CORRUPT, "tensor 'a' has 2^64 elements or more"},
    {FULL("F32", "4611686018427387905", "0,4"), 4, QN_CORRUPT, "tensor 'a' has 2^64 bytes or more"},
    {FULL("F64", "2305843009213693952", "0,0"), 0, QN_CORRUPT, "tensor 'a' has 2^64 bytes or more"},
    {FULL("F4", "2,3", "0,3"), 3, QN_CORRUPT, "tensor 'a' has rows of 3 elements, F4 comes in blocks of 2"},
    {FULL("F4", "", "0,1"), 1, QN_CORRUPT, "rows of 1 elements"},
    {FULL("U8", "5", "0,4"), 4, QN_CORRUPT, "tensor 'a' spans 4 bytes, its shape and dtype U8 need 5"},
    {FULL("BF16", "4", "0,4"), 4, QN_CORRUPT, "spans 4 bytes, its shape and dtype BF16 need 8"},
    {FULL("U8", "", "0,4"), 4, QN_CORRUPT, "spans 4 bytes, its shape and dtype U8 need 1"},
    {FULL("U8", "1", "2,2"), 4, QN_CORRUPT, "spans 0 bytes, its shape and dtype U8 need 1"},
    /* offsets */
    {ONE(DT("U8") "," SH("4") ",\"data_offsets\":{}"), 4, QN_CORRUPT,
     "data_offsets must be an array, found an object"},
    {FULL("U8", "4", ""), 4, QN_CORRUPT, "tensor 'a' has fewer than two data_offsets"},
    {FULL("U8", "4", "0"), 4, QN_CORRUPT, "tensor 'a' has fewer than two data_offsets"},
    {FULL("U8", "4", "0,4,4"), 4, QN_CORRUPT, "tensor 'a' has more than two data_offsets"},
    {FULL("U8", "4", "0,4.0"), 4, QN_CORRUPT, "an offset is not a whole number"},
    {FULL("U8", "4", "-1,3"), 4, QN_CORRUPT, "an offset is not a whole number"},
    {FULL("U8", "4", "0,true"), 4, QN_CORRUPT, "an offset is not a whole number"},
    {FULL("U8", "4", "4,0"), 4, QN_CORRUPT, "tensor 'a' begins at byte 4 and ends before, at 0"},
    {FULL("U8", "4", "1,5"), 4, QN_CORRUPT, "tensor 'a' ends at byte 5, the data has 4"},
    {FULL("U8", "4", "18446744073709551612,18446744073709551615"), 4, QN_CORRUPT,
     "ends at byte 18446744073709551615, the data has 4"},
    /* the data as a whole */
    {"{" NAMED("a", "U8", "3", "0,3") "," NAMED("b", "U8", "2", "2,4") "}", 4, QN_CORRUPT,
     "tensors 'a' and 'b' overlap at byte 2"},
    {"{" NAMED("a", "U8", "4", "0,4") "," NAMED("b", "U8", "1", "1,2") "}", 4, QN_CORRUPT,
     "overlap at byte 1"},
    {"{" NAMED("b", "U8", "1", "3,4") "," NAMED("a", "U8", "2", "0,2") "}", 4, QN_CORRUPT,
     "bytes 2 to 3 of the data, before 'b', belong to no tensor"},
    {FULL("U8", "3", "1,4"), 4, QN_CORRUPT, "bytes 0 to 1 of the data, before 'a', belong to no tensor"},
    {FULL("U8", "4", "0,4"), 5, QN_CORRUPT, "the tensors end at byte 4, the data has 5"},
    {"{}", 1, QN_CORRUPT, "the tensors end at byte 0, the data has 1"},
};

static void refused(const void *header, size_t n, size_t n_data, uint64_t said, qn_status want,
                    const char *message)
{
    qn_safetensors s;
    qn_error err = {0};
    uint8_t *file;
    qn_status st = parse(&s, header, n, n_data, said, &file, &err);
    if (st != want || !strstr(err.msg, message))
        fail_msg("%.100s: got %d '%s', want %d '%s'", (const char *)header, st, st ? err.msg : "", want,
                 message);
    assert_int_equal(err.status, want);
    assert_null(s.tensors);
    assert_int_equal(s.n, 0);
    free(file);
}

static void bad_headers_are_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(bad[i].header, strlen(bad[i].header), bad[i].n_data, ~0ull, bad[i].status, bad[i].message);
    refused("{}\0", 3, 0, ~0ull, QN_CORRUPT, "byte 2: expected"); /* padded with a NUL instead of a space */
}

static void bad_lengths_are_refused_by_name(void **state)
{
    (void)state;
    refused("{}", 2, 0, 3, QN_CORRUPT, "a header of 3 bytes in a file of 10");
    refused("{}", 2, 0, 1, QN_CORRUPT, "byte 1");
    refused("{}", 2, 0, 0, QN_CORRUPT, "byte 0: expected a value, found the end");
    refused("{}", 2, 0, 100000000, QN_CORRUPT, "a header of 100000000 bytes in a file of 10");
    refused("{}", 2, 0, 100000001, QN_TOO_LARGE, "a header of 100000001 bytes, the limit is 100000000");
    refused("{}", 2, 0, ~1ull, QN_TOO_LARGE, "a header of 18446744073709551614 bytes");
    qn_safetensors s;
    qn_error err = {0};
    assert_int_equal(qn_safetensors_parse(&s, NULL, 0, "x", &err), QN_CORRUPT);
    assert_string_equal(err.msg, "the file has 0 bytes, a safetensors file at least 8");
}

static void too_many_tensors_are_refused(void **state)
{
    (void)state;
    static const char entry[] = "\"a\":0,";
    size_t n_entries = QN_SAFETENSORS_MAX_TENSORS + 1, each = sizeof entry - 1, n = 1 + n_entries * each;
    char *header = malloc(n + 1);
    assert_non_null(header);
    header[0] = '{';
    for (size_t i = 0; i < n_entries; i++) memcpy(header + 1 + i * each, entry, each);
    header[n - 1] = '}'; /* over the last comma */
    refused(header, n, 0, ~0ull, QN_TOO_LARGE, "more than 1000000 tensors");
    free(header);
}

/* What holds for every accepted file, whatever was done to it. */
static void check_accepted(const qn_safetensors *s, const uint8_t *data, size_t n_data)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s->n; i++) {
        const qn_ckpt_tensor *t = &s->tensors[i];
        size_t at = (size_t)((const uint8_t *)t->data - data);
        assert_true(at <= n_data && t->n_bytes <= n_data - at);
        assert_true(t->name[0] && t->n_dims <= QN_CKPT_MAX_DIMS);
        if (i) assert_true(strcmp(s->tensors[i - 1].name, t->name) < 0);
        sum += t->n_bytes;
    }
    assert_int_equal(sum, n_data);
}

static const char small[] =
    "{\"__metadata__\":{\"format\":\"pt\"}," NAMED("a.b", "F16", "2,3", "0,12") "," NAMED(
        "c\\u00e9", "F32", "", "12,16") "," NAMED("d", "F4", "8", "16,20") "} ";
#define SMALL_DATA 20

static void every_prefix_is_refused(void **state)
{
    (void)state;
    size_t n = sizeof small - 1, size = 8 + n + SMALL_DATA;
    uint8_t whole[8 + sizeof small - 1 + SMALL_DATA];
    uint64_t said = n;
    memset(whole, 7, sizeof whole);
    memcpy(whole, &said, 8);
    memcpy(whole + 8, small, n);
    for (size_t cut = 0; cut <= size; cut++) {
        qn_safetensors s;
        qn_error err = {0};
        uint8_t *p = malloc(cut ? cut : 1);
        assert_non_null(p);
        memcpy(p, whole, cut);
        qn_status st = qn_safetensors_parse(&s, p, cut, "x", &err);
        assert_int_equal(st, cut == size ? QN_OK : QN_CORRUPT);
        assert_int_equal(st == QN_OK, err.msg[0] == 0);
        qn_safetensors_deinit(&s);
        free(p);
    }
}

static void no_changed_byte_breaks_it(void **state)
{
    (void)state;
    size_t n = sizeof small - 1, accepted = 0;
    for (size_t at = 0; at < n; at++) {
        for (unsigned c = 0; c < 256; c++) {
            char header[sizeof small];
            qn_safetensors s;
            qn_error err = {0};
            uint8_t *file;
            memcpy(header, small, sizeof small);
            header[at] = (char)c;
            if (parse(&s, header, n, SMALL_DATA, ~0ull, &file, &err) == QN_OK) {
                check_accepted(&s, file + 8 + n, SMALL_DATA);
                accepted++;
            } else {
                assert_true(err.msg[0]);
            }
            qn_safetensors_deinit(&s);
            free(file);
        }
    }
    assert_true(accepted >= n); /* at least every byte written over itself */
}

static void no_changed_length_breaks_it(void **state)
{
    (void)state;
    for (size_t at = 0; at < 8; at++) {
        for (unsigned c = 0; c < 256; c++) {
            uint64_t said = sizeof small - 1;
            qn_safetensors s;
            qn_error err = {0};
            uint8_t *file;
            ((uint8_t *)&said)[at] = (uint8_t)c;
            qn_status st = parse(&s, small, sizeof small - 1, SMALL_DATA, said, &file, &err);
            assert_int_equal(st == QN_OK, said == sizeof small - 1);
            qn_safetensors_deinit(&s);
            free(file);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file),
        cmocka_unit_test(a_file_without_tensors),
        cmocka_unit_test(bad_headers_are_refused_by_name),
        cmocka_unit_test(bad_lengths_are_refused_by_name),
        cmocka_unit_test(too_many_tensors_are_refused),
        cmocka_unit_test(every_prefix_is_refused),
        cmocka_unit_test(no_changed_byte_breaks_it),
        cmocka_unit_test(no_changed_length_breaks_it),
    };
    return TEST_MAIN(tests);
}
