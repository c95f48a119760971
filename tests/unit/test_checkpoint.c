/* test_checkpoint.c - the checkpoint view: folders with one file and with shards, and folders that lie. */
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/checkpoint.h"

#define GOLDEN "tests/data/golden/"

static void opens(const char *path, size_t n_tensors)
{
    qn_error err = {0};
    qn_ckpt *ck;
    if (qn_ckpt_open(&ck, path, &err)) fail_msg("%s", err.msg);
    assert_int_equal(qn_ckpt_n_tensors(ck), n_tensors);
    assert_string_equal(qn_ckpt_path(ck), path);
    assert_true(json_is_object(qn_ckpt_config(ck)));
    unsigned long long sum = 0;
    for (size_t i = 0; i < n_tensors; i++) {
        const qn_ckpt_tensor *t = qn_ckpt_at(ck, i);
        assert_ptr_equal(qn_ckpt_find(ck, t->name), t);
        if (i) assert_true(strcmp(qn_ckpt_at(ck, i - 1)->name, t->name) < 0);
        uint64_t n = 1;
        for (size_t d = 0; d < QN_CKPT_MAX_DIMS; d++) n *= t->dims[d];
        assert_int_equal(n, t->n_elements);
        for (size_t b = 0; b < t->n_bytes; b++)
            sum += ((const uint8_t *)t->data)[b]; /* every byte can be read */
    }
    assert_true(sum > 0);
    assert_null(qn_ckpt_find(ck, "no.such.tensor"));
    qn_ckpt_close(ck);
}

static void golden_folders_open(void **state)
{
    (void)state;
    opens(GOLDEN "small-bf16-tied", 70);
    opens(GOLDEN "small-bf16-nomtp", 80);
    opens(GOLDEN "small-tiny-activations", 71);
    opens(GOLDEN "real-bf16-nested-sharded", 73);
    opens(GOLDEN "real-bf16-small-dtypes", 71);
    opens(GOLDEN "real-two-heads", 73);
    opens("models/demo", 123);
}

/* ---- folders made here
 * ------------------------------------------------------------------------------------- */

static char dir[64];

static const char *in_dir(const char *file)
{
    static char path[2][192];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, file);
    return path[turn];
}

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/quern-test-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    static const char *const files[] = {"config.json",    "model.safetensors", "model.safetensors.index.json",
                                        "s1.safetensors", "s2.safetensors",    "pipe",
                                        "empty"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (unlink(in_dir(files[i]))) rmdir(in_dir(files[i]));
    return rmdir(dir);
}

static void write_bytes(const char *file, const void *p, size_t n)
{
    FILE *f = fopen(in_dir(file), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void write_text(const char *file, const char *text)
{
    write_bytes(file, text, strlen(text));
}

/* A safetensors file of U8 tensors with one byte each; names are divided by commas. */
static void write_weights(const char *file, const char *names)
{
    char buf[4096] = {0};
    size_t n = 8, count = 0;
    n += (size_t)snprintf(buf + n, sizeof buf - n, "{");
    for (const char *s = names; *s;) {
        size_t len = strcspn(s, ",");
        n += (size_t)snprintf(buf + n, sizeof buf - n,
                              "%s\"%.*s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}",
                              count ? "," : "", (int)len, s, count, count + 1);
        count++;
        s += len + (s[len] == ',');
    }
    n += (size_t)snprintf(buf + n, sizeof buf - n, "}");
    uint64_t header = n - 8;
    memcpy(buf, &header, sizeof header);
    memset(buf + n, 'x', count);
    write_bytes(file, buf, n + count);
}

static void refused(qn_status want, const char *message)
{
    qn_error err = {0};
    qn_ckpt *ck = (qn_ckpt *)dir;
    qn_status st = qn_ckpt_open(&ck, dir, &err);
    if (st != want || !strstr(err.msg, message))
        fail_msg("got %d '%s', want %d '%s'", st, err.msg, want, message);
    assert_null(ck);
    assert_true(strncmp(err.msg, dir, strlen(dir)) == 0); /* every message begins with the path */
}

#define INDEX     "model.safetensors.index.json"
#define MAP(body) "{\"metadata\":{\"total_size\":3},\"weight_map\":{" body "}}"
#define AB_IN_TWO "\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\",\"c\":\"s1.safetensors\""

static void a_single_file(void **state)
{
    (void)state;
    qn_error err = {0};
    refused(QN_NOT_FOUND, "/config.json: cannot open: No such file or directory");
    write_text("config.json", "{\"model_type\": \"x\"}");
    refused(QN_NOT_FOUND, "has neither model.safetensors nor model.safetensors.index.json");
    write_weights("model.safetensors", "b,a");
    qn_ckpt *ck;
    assert_int_equal(qn_ckpt_open(&ck, dir, &err), QN_OK);
    assert_int_equal(err.msg[0], 0);
    assert_int_equal(qn_ckpt_n_tensors(ck), 2);
    assert_string_equal(qn_ckpt_at(ck, 0)->name, "a");
    assert_string_equal(qn_ckpt_find(ck, "b")->file, "model.safetensors");
    assert_int_equal(qn_ckpt_find(ck, "b")->dtype, QN_DTYPE_U8); /* opens, though nothing computes with it */
    assert_null(qn_ckpt_find(ck, ""));
    assert_null(qn_ckpt_find(ck, "aa"));
    assert_string_equal(json_string_value(json_object_get(qn_ckpt_config(ck), "model_type")), "x");
    qn_ckpt_close(ck);
    qn_ckpt_close(NULL);

    write_text("model.safetensors", "");
    refused(QN_CORRUPT, "/model.safetensors: the file has 0 bytes");
    unlink(in_dir("model.safetensors"));
    assert_int_equal(mkdir(in_dir("model.safetensors"), 0700), 0);
    refused(QN_INVALID, "/model.safetensors: is a folder, not a regular file");
    rmdir(in_dir("model.safetensors"));
    assert_int_equal(mkfifo(in_dir("model.safetensors"), 0600), 0);
    refused(QN_INVALID, "/model.safetensors: is a pipe, socket or device");
}

static void a_bad_config(void **state)
{
    (void)state;
    write_weights("model.safetensors", "a");
    write_text("config.json", "");
    refused(QN_CORRUPT, "/config.json: line 1: ");
    write_text("config.json", "[1]");
    refused(QN_CORRUPT, "/config.json: is not an object");
    write_text("config.json", "{\"a\":1,\n\"a\":2}");
    refused(QN_CORRUPT, "/config.json: line 2: duplicate object key");
    write_text("config.json", "{\"a\":\"\xff\"}");
    refused(QN_CORRUPT, "unable to decode byte 0xff");
    assert_int_equal(truncate(in_dir("config.json"), (8 << 20) + 1), 0);
    refused(QN_TOO_LARGE, "/config.json: has 8388609 bytes, the limit is 8388608");
}

static void not_a_folder(void **state)
{
    (void)state;
    qn_error err = {0};
    qn_ckpt *ck;
    assert_int_equal(qn_ckpt_open(&ck, GOLDEN "README.md", &err), QN_UNSUPPORTED);
    assert_string_equal(err.msg, GOLDEN "README.md: is not a folder with config.json and model.safetensors");
    assert_int_equal(qn_ckpt_open(&ck, "no/such/folder", &err), QN_NOT_FOUND);
    assert_non_null(strstr(err.msg, "no/such/folder"));
}

static void shards(void **state)
{
    (void)state;
    qn_error err = {0};
    write_text("config.json", "{}");
    write_weights("s1.safetensors", "c,a");
    write_weights("s2.safetensors", "b");
    write_text(INDEX, MAP(AB_IN_TWO));
    qn_ckpt *ck;
    if (qn_ckpt_open(&ck, dir, &err)) fail_msg("%s", err.msg);
    assert_int_equal(qn_ckpt_n_tensors(ck), 3);
    assert_string_equal(qn_ckpt_at(ck, 0)->file, "s1.safetensors");
    assert_string_equal(qn_ckpt_at(ck, 1)->file, "s2.safetensors");
    assert_string_equal(qn_ckpt_find(ck, "c")->name, "c");
    qn_ckpt_close(ck);
    write_text(INDEX, "{\"weight_map\":{" AB_IN_TWO "},\"anything\":[{}]}");
    assert_int_equal(qn_ckpt_open(&ck, dir, &err), QN_OK);
    qn_ckpt_close(ck);

    /* A model.safetensors beside an index is part of it, or there are two models. */
    write_weights("model.safetensors", "d");
    refused(QN_INVALID, "holds two models, model.safetensors and the files of model.safetensors.index.json");
    write_text(INDEX, MAP(AB_IN_TWO ",\"d\":\"model.safetensors\""));
    assert_int_equal(qn_ckpt_open(&ck, dir, &err), QN_OK);
    assert_int_equal(qn_ckpt_n_tensors(ck), 4);
    qn_ckpt_close(ck);
}

static void shards_that_disagree_with_the_index(void **state)
{
    (void)state;
    write_text("config.json", "{}");
    write_weights("s1.safetensors", "c,a");
    write_weights("s2.safetensors", "b");
    write_text(INDEX, MAP("\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\""));
    refused(QN_CORRUPT, "/" INDEX ": does not name tensor 'c', which is in s1.safetensors");
    write_text(INDEX, MAP(AB_IN_TWO ",\"d\":\"s2.safetensors\""));
    refused(QN_CORRUPT, "/" INDEX ": tensor 'd' is not in s2.safetensors");
    write_text(INDEX, MAP("\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\",\"c\":\"s2.safetensors\""));
    refused(QN_CORRUPT, "/" INDEX ": tensor 'c' is in s1.safetensors, not in s2.safetensors");
    write_text(INDEX, MAP(AB_IN_TWO ",\"a\":\"s1.safetensors\""));
    refused(QN_CORRUPT, "/" INDEX ": tensor 'a' occurs twice");
    write_text(INDEX, MAP(AB_IN_TWO));
    write_weights("s2.safetensors", "b,a");
    refused(QN_CORRUPT, "tensor 'a' is in s1.safetensors and in s2.safetensors");
    write_weights("s2.safetensors", "");
    refused(QN_CORRUPT, "/" INDEX ": tensor 'b' is not in s2.safetensors");
    write_text("s2.safetensors", "\x02\0\0\0\0\0\0\0[]");
    refused(QN_CORRUPT, "/s2.safetensors: the file has 1 bytes");
    write_bytes("s2.safetensors", "\x02\0\0\0\0\0\0\0[]", 10);
    refused(QN_CORRUPT, "/s2.safetensors: byte 0: the header is an array");
    unlink(in_dir("s2.safetensors"));
    refused(QN_NOT_FOUND, "/s2.safetensors: cannot open: No such file or directory");
}

static void bad_indexes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        qn_status status;
        const char *message;
    } t[] = {
        {"", QN_CORRUPT, "byte 0: expected a value"},
        {"[]", QN_CORRUPT, "the index must be an object, found an array"},
        {"{}", QN_CORRUPT, "has no weight_map"},
        {"{\"metadata\":{}}", QN_CORRUPT, "has no weight_map"},
        {"{\"weight_map\":[]}", QN_CORRUPT, "weight_map must be an object, found an array"},
        {"{\"weight_map\":{},\"weight_map\":{}}", QN_CORRUPT, "weight_map occurs twice"},
        {"{\"weight_map\":{}} {}", QN_CORRUPT, "expected"},
        {"{\"metadata\":{,\"weight_map\":{}}", QN_CORRUPT, "byte 13"},
        {MAP("\"a\":1"), QN_CORRUPT, "a file name in weight_map must be a string, found a number"},
        {MAP("\"a\":\"s1.safetensors\",\"b\":null"), QN_CORRUPT, "must be a string, found null"},
        {MAP("\"a\":\"\""), QN_CORRUPT, "file name '' is empty"},
        {MAP("\"a\":\"/etc/passwd\""), QN_CORRUPT, "file name '/etc/passwd' holds a path separator"},
        {MAP("\"a\":\"sub\\/s1.safetensors\""), QN_CORRUPT, "holds a path separator"},
        {MAP("\"a\":\"sub\\\\s1.safetensors\""), QN_CORRUPT, "holds a path separator"},
        {MAP("\"a\":\"..\""), QN_CORRUPT, "file name '..' holds '..'"},
        {MAP("\"a\":\"s1.safetensors\\u0000.bin\""), QN_CORRUPT, "holds a control character"},
        {MAP("\"a\":\"s1\\n\""), QN_CORRUPT, "file name 's1\\x0a' holds a control character"},
        {MAP("\"a\":\".\""), QN_INVALID, "/.: is a folder, not a regular file"},
    };
    write_text("config.json", "{}");
    write_weights("s1.safetensors", "a");
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        write_text(INDEX, t[i].text);
        refused(t[i].status, t[i].message);
    }
    char text[1200];
    snprintf(text, sizeof text, MAP("\"a\":\"%0256d\""), 0);
    write_text(INDEX, text);
    refused(QN_CORRUPT, "is longer than 255 bytes");
    snprintf(text, sizeof text, MAP("\"%0513d\":\"s1.safetensors\""), 0);
    write_text(INDEX, text);
    refused(QN_TOO_LARGE, "a tensor name of 513 bytes, the limit is 512");

    char *many = malloc(4097 * 24 + 64);
    assert_non_null(many);
    size_t n = (size_t)snprintf(many, 64, "{\"weight_map\":{");
    for (int i = 0; i < 4097; i++)
        n += (size_t)snprintf(many + n, 24, "%s\"t%d\":\"%d\"", i ? "," : "", i, i);
    snprintf(many + n, 3, "}}");
    write_text(INDEX, many);
    free(many);
    refused(QN_TOO_LARGE, "/" INDEX ": more than 4096 files");
    assert_int_equal(truncate(in_dir(INDEX), (256 << 20) + 1), 0);
    refused(QN_TOO_LARGE, "has 268435457 bytes, the limit is 268435456");
}

static void side_files(void **state)
{
    (void)state;
    qn_error err = {0};
    char *data;
    size_t n;
    write_bytes("config.json", "ab\0c", 4);
    assert_int_equal(qn_ckpt_read_side_file(dir, "config.json", 4, &data, &n, &err), QN_OK);
    assert_int_equal(n, 4);
    assert_memory_equal(data, "ab\0c", 5);
    free(data);
    assert_int_equal(qn_ckpt_read_side_file(dir, "config.json", 3, &data, &n, &err), QN_TOO_LARGE);
    assert_null(data);
    assert_int_equal(qn_ckpt_read_side_file(dir, "absent.json", 3, &data, &n, &err), QN_NOT_FOUND);
    write_text("empty", "");
    assert_int_equal(qn_ckpt_read_side_file(dir, "empty", 0, &data, &n, &err), QN_OK);
    assert_int_equal(n, 0);
    assert_string_equal(data, "");
    free(data);
    assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
    assert_int_equal(qn_ckpt_read_side_file(dir, "pipe", 3, &data, &n, &err), QN_INVALID);
    assert_int_equal(qn_ckpt_read_side_file("/", "tmp", 3, &data, &n, &err), QN_INVALID);
}

#define IN_A_FOLDER(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_folders_open),
        IN_A_FOLDER(a_single_file),
        IN_A_FOLDER(a_bad_config),
        cmocka_unit_test(not_a_folder),
        IN_A_FOLDER(shards),
        IN_A_FOLDER(shards_that_disagree_with_the_index),
        IN_A_FOLDER(bad_indexes),
        IN_A_FOLDER(side_files),
    };
    return TEST_MAIN(tests);
}
