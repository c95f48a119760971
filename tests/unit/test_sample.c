/* test_sample.c - drawing tokens: arg max and its ties, each filter against counts, independence of
 * everything but (seed, position). */
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quern.h"

static qn_model *model;
static float *logits; /* [vocab] */
static uint32_t vocab;

static void flat(float value)
{
    for (uint32_t i = 0; i < vocab; i++) logits[i] = value;
}

static int32_t draw(qn_sampling s, uint64_t seed, uint64_t position)
{
    qn_error err = {0};
    int32_t id;
    s.seed = seed;
    if (qn_sample(model, logits, &s, position, &id, &err)) fail_msg("%s", err.msg);
    return id;
}

/* How often each of the first n ids is drawn at positions 0 .. draws-1; everything else must not be drawn. */
static void tally(qn_sampling s, uint32_t draws, uint32_t *counts, uint32_t n)
{
    memset(counts, 0, n * sizeof *counts);
    for (uint32_t i = 0; i < draws; i++) {
        int32_t id = draw(s, 7, i);
        assert_in_range(id, 0, n - 1);
        counts[id]++;
    }
}

static void greedy_takes_the_lower_of_equals(void **state)
{
    (void)state;
    qn_sampling greedy = {.temperature = 0, .top_p = 1};
    flat(-1);
    logits[900] = logits[40] = logits[41] = 3;
    assert_int_equal(draw(greedy, 1, 1), 40);
    assert_int_equal(draw((qn_sampling){.temperature = 1, .top_p = 1, .top_k = 1}, 1, 1), 40);
    flat(0);
    assert_int_equal(draw(greedy, 1, 1), 0);
}

static void filters_keep_what_they_should(void **state)
{
    (void)state;
    uint32_t counts[4];
    flat(-60);
    /* probabilities 0.5, 0.25, 0.15, 0.1 */
    const double p[4] = {0.5, 0.25, 0.15, 0.1};
    for (int i = 0; i < 4; i++) logits[i] = (float)log(p[i]);
    tally((qn_sampling){.temperature = 1, .top_p = 1}, 20000, counts, 4);
    for (int i = 0; i < 4; i++) { /* within five standard deviations */
        double sigma = sqrt(20000 * p[i] * (1 - p[i]));
        assert_true(fabs(counts[i] - 20000 * p[i]) < 5 * sigma);
    }
    tally((qn_sampling){.temperature = 1, .top_p = 1, .top_k = 2}, 3000, counts, 2);
    assert_true(fabs(counts[0] - 2000.0) < 5 * sqrt(3000 * 2.0 / 9));
    tally((qn_sampling){.temperature = 1, .top_p = 0.74f}, 3000, counts, 2); /* 0.5 is not enough, 0.75 is */
    assert_true(counts[1] > 0);
    tally((qn_sampling){.temperature = 1, .top_p = 0.49f}, 500, counts, 1);
    tally((qn_sampling){.temperature = 1, .top_p = 1, .min_p = 0.29f}, 3000, counts, 3); /* 0.145 of 0.5 */
    assert_true(counts[2] > 0);
    tally((qn_sampling){.temperature = 1, .top_p = 1, .min_p = 0.31f}, 3000, counts, 2);
    tally((qn_sampling){.temperature = 0.05f, .top_p = 1}, 500, counts,
          1); /* cold: 2^-20 is left for the second */
}

static void only_seed_and_position_decide(void **state)
{
    (void)state;
    qn_sampling s = {.temperature = 1, .top_p = 1};
    uint32_t same_seed = 0, same_position = 0;
    flat(0);
    for (uint64_t i = 0; i < 200; i++) {
        int32_t id = draw(s, 5, i);
        assert_int_equal(id, draw(s, 5, i));
        same_seed += id == draw(s, 5, i + 1);
        same_position += id == draw(s, 6, i);
    }
    assert_true(same_seed < 5);
    assert_true(same_position < 5);
}

static void nan_is_an_error_and_stops_are_known(void **state)
{
    (void)state;
    qn_error err = {0};
    int32_t id;
    qn_sampling s = {.temperature = 1, .top_p = 1};
    flat(0);
    logits[17] = NAN;
    assert_int_equal(qn_sample(model, logits, &s, 3, &id, &err), QN_INTERNAL);
    assert_non_null(strstr(err.msg, "17"));
    logits[17] = INFINITY;
    assert_int_equal(qn_sample(model, logits, &s, 3, &id, &err), QN_INTERNAL);
    assert_true(qn_model_is_stop(model, 1527) && qn_model_is_stop(model, 1528) &&
                qn_model_is_stop(model, 1529));
    assert_false(qn_model_is_stop(model, 1530));
}

static void the_models_recommendation_is_read(void **state)
{
    (void)state;
    qn_sampling s = qn_model_sampling(model);
    assert_true(s.temperature == 0.6f && s.top_p == 0.95f && s.top_k == 20 && s.min_p == 0);
}

static int setup(void **state)
{
    (void)state;
    qn_error err;
    if (qn_model_open(&model, "models/demo", &err)) return -1;
    vocab = qn_model_vocab_size(model);
    return (logits = calloc(vocab, sizeof *logits)) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    free(logits);
    qn_model_close(model);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_lower_of_equals),
        cmocka_unit_test(filters_keep_what_they_should),
        cmocka_unit_test(only_seed_and_position_decide),
        cmocka_unit_test(nan_is_an_error_and_stops_are_known),
        cmocka_unit_test(the_models_recommendation_is_read),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
