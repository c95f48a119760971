/* test_probes.c - 24 questions to the demonstration model whose answer's decisive word is known: the question
 * is rendered with thinking off, the start of the answer appended, and the arg max must be the first token of
 * the word as it is tokenized in place. Written with quern.h alone. */
#include "tap.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quern.h"

static bool right(const qn_model *m, qn_engine *e, const char *question, const char *start, const char *word)
{
    qn_error err = {0};
    int32_t *prompt, *head, *whole;
    size_t n_prompt, n_head, n_whole;
    char text[512];
    qn_chat_options o = qn_chat_options_defaults();
    o.enable_thinking = 0;
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", question);
    char *dump = json_dumps(messages, 0);
    if (qn_chat_tokenize(m, dump, strlen(dump), &o, &prompt, &n_prompt, NULL, &err)) fail_msg("%s", err.msg);
    int len = snprintf(text, sizeof text, "%s%s", start, word);
    if (qn_tokenize(m, start, strlen(start), false, &head, &n_head, &err)) fail_msg("%s", err.msg);
    if (qn_tokenize(m, text, (size_t)len, false, &whole, &n_whole, &err)) fail_msg("%s", err.msg);
    assert_true(n_whole > n_head && memcmp(head, whole, n_head * sizeof *head) == 0);

    qn_seq *s;
    float *logits = calloc(qn_model_vocab_size(m), sizeof *logits);
    int32_t *ids = malloc((n_prompt + n_head) * sizeof *ids), best;
    memcpy(ids, prompt, n_prompt * sizeof *ids);
    memcpy(ids + n_prompt, head, n_head * sizeof *ids);
    if (qn_seq_create(&s, e, &err)) fail_msg("%s", err.msg);
    qn_step_item item = {.seq = s, .tokens = ids, .n_tokens = (uint32_t)(n_prompt + n_head), .n_logits = 1};
    if (qn_step(e, QN_PREFILL, &item, 1, logits, &err)) fail_msg("%s", err.msg);
    qn_sampling greedy = {.temperature = 0};
    if (qn_sample(m, logits, &greedy, n_prompt + n_head, &best, &err)) fail_msg("%s", err.msg);
    bool ok = best == whole[n_head];
    if (!ok) printf("# '%s' '%s': %d instead of %d\n", start, word, best, whole[n_head]);
    qn_seq_destroy(s);
    free(logits), free(ids), free(prompt), free(head), free(whole), free(dump);
    json_decref(messages);
    return ok;
}

static void all_probes(void **state)
{
    (void)state;
    qn_error err = {0};
    json_error_t je;
    qn_model *m;
    qn_engine *e;
    qn_engine_options o = qn_engine_options_defaults();
    json_t *file = json_load_file("models/demo/answers.json", 0, &je),
           *probes = json_object_get(file, "probes"), *p;
    size_t i, n_right = 0;
    if (qn_model_open(&m, "models/demo", &err)) fail_msg("%s", err.msg);
    o.context = 512;
    if (qn_engine_create(&e, m, &o, &err)) fail_msg("%s", err.msg);
    json_array_foreach(probes, i, p) n_right +=
        right(m, e, json_string_value(json_object_get(p, "question")),
              json_string_value(json_object_get(p, "start")), json_string_value(json_object_get(p, "word")));
    printf("# %zu of %zu probes\n", n_right, json_array_size(probes));
    assert_int_equal(json_array_size(probes), 24);
    assert_int_equal(n_right, 24);
    qn_engine_destroy(e);
    qn_model_close(m);
    json_decref(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_probes)};
    return TEST_MAIN(tests);
}
