/* test_golden.c - logits of the golden checkpoints against a float64 reference, through quern.h, with an f32
 * cache.
 *
 * The error of a run is rms(difference) / rms(golden) over `probe`. f32 activations alone cost 1.3e-6 on
 * these cases (tests/data/golden/README.md), so 5e-6 leaves room for the order of sums and for nothing else.
 */
#include "tap.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quern.h"

#define MAX_ERROR    5e-6
#define CLEAR_MARGIN 1e-3

typedef struct golden {
    json_t *json;
    qn_model *model;
    int32_t *prompt;
    uint32_t n, vocab;
    float *logits; /* [n][vocab] of the last run */
    float *draft;  /* [n-1][vocab] */
    int32_t greedy[64];
} golden;

static void load(golden *g, const char *folder)
{
    char path[256];
    qn_error err = {0};
    json_error_t e;
    snprintf(path, sizeof path, "%s/golden.json", folder);
    memset(g, 0, sizeof *g);
    g->json = json_load_file(path, 0, &e);
    assert_non_null(g->json);
    if (qn_model_open(&g->model, folder, &err)) fail_msg("%s", err.msg);
    json_t *p = json_object_get(g->json, "prompt");
    g->n = (uint32_t)json_array_size(p);
    g->vocab = qn_model_vocab_size(g->model);
    g->prompt = calloc(g->n, sizeof *g->prompt);
    for (uint32_t i = 0; i < g->n; i++) g->prompt[i] = (int32_t)json_integer_value(json_array_get(p, i));
    g->logits = calloc((size_t)g->n * g->vocab, sizeof *g->logits);
    g->draft = calloc((size_t)g->n * g->vocab, sizeof *g->draft);
}

static void unload(golden *g)
{
    json_decref(g->json);
    qn_model_close(g->model);
    free(g->prompt);
    free(g->logits);
    free(g->draft);
}

static int32_t arg_max(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return (int32_t)best;
}

/* Prefill `prefill` tokens in slices of `slice`, decode the rest, then n_greedy more; fills logits, draft and
 * greedy. */
static void run(golden *g, uint32_t prefill, uint32_t slice, uint32_t n_greedy)
{
    qn_error err = {0};
    qn_engine *e;
    qn_seq *s;
    qn_engine_options o = qn_engine_options_defaults();
    o.kv = QN_KV_F32;
    o.slice = slice;
    o.context = g->n + n_greedy;
    o.draft_head = qn_model_has_draft_head(g->model);
    if (qn_engine_create(&e, g->model, &o, &err)) fail_msg("%s", err.msg);
    if (qn_seq_create(&s, e, &err)) fail_msg("%s", err.msg);
    for (uint32_t at = 0; at < g->n;) {
        uint32_t n = at >= prefill ? 1 : prefill - at < slice ? prefill - at : slice;
        qn_step_item item = {.seq = s, .tokens = g->prompt + at, .n_tokens = n, .n_logits = n};
        if (qn_step(e, at < prefill ? QN_PREFILL : QN_DECODE, &item, 1, g->logits + (size_t)at * g->vocab,
                    &err))
            fail_msg("%s", err.msg);
        uint32_t next = at + n == g->n ? n - 1 : n;
        if (o.draft_head && next &&
            qn_draft(e, s, g->prompt + at + 1, next, g->draft + (size_t)at * g->vocab, &err))
            fail_msg("%s", err.msg);
        at += n;
    }
    float *last = calloc(g->vocab, sizeof *last);
    memcpy(last, g->logits + (size_t)(g->n - 1) * g->vocab, g->vocab * sizeof *last);
    for (uint32_t i = 0; i < n_greedy; i++) {
        g->greedy[i] = arg_max(last, g->vocab);
        qn_step_item item = {.seq = s, .tokens = &g->greedy[i], .n_tokens = 1, .n_logits = 1};
        if (qn_step(e, QN_DECODE, &item, 1, last, &err)) fail_msg("%s", err.msg);
    }
    free(last);
    qn_seq_destroy(s);
    qn_engine_destroy(e);
}

static double probe_error(const golden *g)
{
    json_t *probe = json_object_get(g->json, "probe"), *ids = json_object_get(g->json, "probe_ids");
    double diff = 0, ref = 0;
    for (uint32_t i = 0; i < g->n; i++)
        for (size_t k = 0; k < json_array_size(ids); k++) {
            double want = json_number_value(json_array_get(json_array_get(probe, i), k));
            double got = g->logits[(size_t)i * g->vocab + (size_t)json_integer_value(json_array_get(ids, k))];
            diff += (got - want) * (got - want);
            ref += want * want;
        }
    return sqrt(diff / ref);
}

static double row_error(const float *row, const json_t *want)
{
    double diff = 0, ref = 0;
    for (size_t k = 0; k < json_array_size(want); k++) {
        double w = json_number_value(json_array_get(want, k));
        diff += (row[k] - w) * (row[k] - w);
        ref += w * w;
    }
    return sqrt(diff / ref);
}

static void check_top1(const golden *g)
{
    json_t *top1 = json_object_get(g->json, "top1"), *margin = json_object_get(g->json, "margin");
    for (uint32_t i = 0; i < g->n; i++)
        if (json_number_value(json_array_get(margin, i)) > CLEAR_MARGIN)
            assert_int_equal(arg_max(g->logits + (size_t)i * g->vocab, g->vocab),
                             json_integer_value(json_array_get(top1, i)));
}

static void check_run(golden *g, const char *what, uint32_t prefill, uint32_t slice)
{
    json_t *greedy = json_object_get(g->json, "greedy"), *margins = json_object_get(g->json, "greedy_margin");
    uint32_t n_greedy = (uint32_t)json_array_size(greedy);
    assert_in_range(n_greedy, 1, 64);
    run(g, prefill, slice, n_greedy);
    double error = probe_error(g), last = row_error(g->logits + (size_t)(g->n - 1) * g->vocab,
                                                    json_object_get(g->json, "logits_last"));
    printf("# %s: error %.2e, last row %.2e", what, error, last);
    assert_true(error <= MAX_ERROR);
    assert_true(last <= MAX_ERROR);
    check_top1(g);
    for (uint32_t i = 0; i < n_greedy && json_number_value(json_array_get(margins, i)) > CLEAR_MARGIN; i++)
        assert_int_equal(g->greedy[i], json_integer_value(json_array_get(greedy, i)));
    json_t *mtp = json_object_get(g->json, "mtp_top1");
    assert_int_equal(mtp != NULL, qn_model_has_draft_head(g->model));
    if (mtp) {
        double draft =
            row_error(g->draft + (size_t)(g->n - 2) * g->vocab, json_object_get(g->json, "mtp_last"));
        printf(", draft %.2e", draft);
        assert_true(draft <= MAX_ERROR);
        for (uint32_t i = 0; i + 1 < g->n; i++)
            assert_int_equal(arg_max(g->draft + (size_t)i * g->vocab, g->vocab),
                             json_integer_value(json_array_get(mtp, i)));
    }
    printf("\n");
}

static void all_modes(const char *folder)
{
    golden g;
    load(&g, folder);
    printf("# %s\n", folder);
    check_run(&g, "prefill", g.n, 512);
    check_run(&g, "prefill in slices of 64", g.n, 64);
    check_run(&g, "decode", 0, 64);
    check_run(&g, "split at 70", 70, 512);
    unload(&g);
}

static void every_split(const char *folder)
{
    golden g;
    load(&g, folder);
    double worst = 0;
    const char *stride =
        getenv("TEST_STRIDE"); /* the sanitizers' run takes every 20th split: 15 times the time */
    uint32_t step = stride && strcmp(stride, "1") != 0 ? 20 : 1, n = 0;
    for (uint32_t at = 1; at < g.n; at += step, n++) {
        run(&g, at, 64, 0);
        double error = probe_error(&g);
        if (error > worst) worst = error;
        check_top1(&g);
    }
    printf("# %s: worst error over %u splits %.2e\n", folder, n, worst);
    assert_true(worst <= MAX_ERROR);
    unload(&g);
}

#define CASE(fn, name, folder)                                                                               \
    static void name(void **state)                                                                           \
    {                                                                                                        \
        (void)state;                                                                                         \
        fn(folder);                                                                                          \
    }
CASE(all_modes, small_tied, "tests/data/golden/small-bf16-tied")
CASE(all_modes, small_nomtp, "tests/data/golden/small-bf16-nomtp")
CASE(all_modes, small_tiny_activations, "tests/data/golden/small-tiny-activations")
CASE(all_modes, real_nested_sharded, "tests/data/golden/real-bf16-nested-sharded")
CASE(all_modes, real_small_dtypes, "tests/data/golden/real-bf16-small-dtypes")
CASE(all_modes, real_two_heads, "tests/data/golden/real-two-heads")
CASE(all_modes, demonstration_model, "models/demo")
CASE(every_split, every_split_small, "tests/data/golden/small-bf16-tied")
CASE(every_split, every_split_real, "tests/data/golden/real-bf16-small-dtypes")

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_tied),
        cmocka_unit_test(small_nomtp),
        cmocka_unit_test(small_tiny_activations),
        cmocka_unit_test(real_nested_sharded),
        cmocka_unit_test(real_small_dtypes),
        cmocka_unit_test(real_two_heads),
        cmocka_unit_test(demonstration_model),
        cmocka_unit_test(every_split_small),
        cmocka_unit_test(every_split_real),
    };
    return TEST_MAIN(tests);
}
