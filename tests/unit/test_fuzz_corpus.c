/* test_fuzz_corpus.c - runs every fuzz target over its corpus, tests/data/fuzz/<name>/, without a fuzzer:
 * what was found once stays found. A new target is an include and a line in main. */
#include "tap.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mapfile.h"

#define LLVMFuzzerTestOneInput fuzz_safetensors
#include "fuzz/fuzz_safetensors.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_json_pull
#include "fuzz/fuzz_json_pull.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_shard_index
#include "fuzz/fuzz_shard_index.c"
#undef LLVMFuzzerTestOneInput

static void replay(const char *name, int (*target)(const uint8_t *in, size_t n))
{
    char path[600];
    size_t n_files = 0;
    snprintf(path, sizeof path, "tests/data/fuzz/%s", name);
    DIR *d = opendir(path);
    if (!d) fail_msg("%s: no corpus", path);
    for (struct dirent *e; (e = readdir(d));) {
        qn_error err = {0};
        char *data;
        size_t n;
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "tests/data/fuzz/%s/%s", name, e->d_name);
        if (qn_file_read(path, (size_t)1 << 20, &data, &n, &err)) fail_msg("%s", err.msg);
        target((const uint8_t *)data, n); /* ends the program when something is wrong */
        free(data);
        n_files++;
    }
    closedir(d);
    assert_true(n_files > 0);
}

static void safetensors(void **state)
{
    (void)state, replay("safetensors", fuzz_safetensors);
}
static void json_pull(void **state)
{
    (void)state, replay("json_pull", fuzz_json_pull);
}
static void shard_index(void **state)
{
    (void)state, replay("shard_index", fuzz_shard_index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors),
        cmocka_unit_test(json_pull),
        cmocka_unit_test(shard_index),
    };
    return TEST_MAIN(tests);
}
