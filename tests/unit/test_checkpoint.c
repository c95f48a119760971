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
        for (size_t b = 0; b < t->n_bytes; b++) sum += ((const uint8_t *)t->data)[b]; /* every byte can be read */
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden_folders_open)};
    return TEST_MAIN(tests);
}
