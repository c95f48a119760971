/* test_program.c - lowering: what a bucket holds, how ranks cut weights, what is refused, costs and the JSON
 * form. */
#include "tap.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "program/program.h"

typedef struct opened {
    qn_ckpt *ck;
    qn_net *net;
} opened;

static opened open_net(const char *folder)
{
    opened o;
    qn_error err = {0};
    if (qn_ckpt_open(&o.ck, folder, &err) || qn_net_bind(&o.net, o.ck, &err)) fail_msg("%s", err.msg);
    return o;
}

static void close_net(opened *o)
{
    qn_net_destroy(o->net);
    qn_ckpt_close(o->ck);
}

static qn_program *lower(const opened *o, qn_bucket_kind kind, uint32_t rows, uint32_t rank, uint32_t ranks,
                         bool keep)
{
    qn_program *p;
    qn_error err = {0};
    if (qn_program_lower(&p, o->net, (qn_bucket){kind, rows}, rank, ranks, keep, &err))
        fail_msg("%s", err.msg);
    return p;
}

static uint32_t count(const qn_program *p, qn_op_kind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) n += p->ops[i].kind == kind;
    return n;
}

static void buckets_choose_the_recurrence_or_chunks(void **state)
{
    (void)state;
    opened o = open_net("models/demo");
    qn_program *decode = lower(&o, QN_BUCKET_DECODE, 4, 0, 1, false),
               *prefill = lower(&o, QN_BUCKET_PREFILL, 512, 0, 1, true),
               *draft = lower(&o, QN_BUCKET_DRAFT, 4, 0, 1, true);
    assert_int_equal(count(decode, QN_OP_GDN_STEP), 6);
    assert_int_equal(count(decode, QN_OP_GDN_CHUNK), 0);
    assert_int_equal(count(prefill, QN_OP_GDN_STEP), 0);
    assert_int_equal(count(prefill, QN_OP_GDN_CHUNK), 6);
    assert_int_equal(count(decode, QN_OP_ATTENTION), 2);
    assert_int_equal(count(decode, QN_OP_KEEP_HIDDEN), 0);
    assert_int_equal(count(prefill, QN_OP_KEEP_HIDDEN), 1);
    assert_int_equal(count(draft, QN_OP_MTP_INPUT), 1);
    assert_int_equal(count(draft, QN_OP_ATTENTION), 1);
    assert_int_equal(count(draft, QN_OP_GDN_STEP), 0);
    assert_int_equal(count(decode, QN_OP_ALL_REDUCE) + count(decode, QN_OP_ALL_GATHER), 0);
    assert_int_equal(decode->state.n_kv_layers, 3); /* two and the draft head's */
    assert_int_equal(decode->state.n_gdn_layers, 6);
    qn_program_destroy(decode), qn_program_destroy(prefill), qn_program_destroy(draft);
    close_net(&o);
}

/* Both ranks' parts together are the whole weight, once. */
static void two_ranks_cover_every_weight(void **state)
{
    (void)state;
    opened o = open_net("tests/data/golden/real-two-heads");
    qn_program *p[2] = {lower(&o, QN_BUCKET_DECODE, 1, 0, 2, false),
                        lower(&o, QN_BUCKET_DECODE, 1, 1, 2, false)};
    assert_int_equal(p[0]->n_weights, p[1]->n_weights);
    assert_int_equal(count(p[0], QN_OP_ALL_REDUCE), 2 * o.net->arch.n_layers);
    assert_int_equal(count(p[0], QN_OP_ALL_GATHER), 1);
    for (uint32_t i = 0; i < p[0]->n_weights; i++) {
        const qn_weight *w = &o.net->weights[p[0]->weights[i].weight];
        uint8_t *seen = calloc(w->rows, w->cols);
        bool whole = false;
        for (int rank = 0; rank < 2; rank++) {
            const qn_weight_ref *r = &p[rank]->weights[i];
            uint32_t rows = 0, cols = 0;
            for (uint32_t a = 0; a < r->n_row_ranges; a++) rows += r->row_ranges[a].count;
            for (uint32_t b = 0; b < r->n_col_ranges; b++) cols += r->col_ranges[b].count;
            assert_int_equal(rows, r->rows);
            assert_int_equal(cols, r->cols);
            whole = r->rows == w->rows && r->cols == w->cols;
            for (uint32_t a = 0; a < r->n_row_ranges; a++)
                for (uint32_t b = 0; b < r->n_col_ranges; b++)
                    for (uint32_t y = 0; y < r->row_ranges[a].count; y++)
                        for (uint32_t x = 0; x < r->col_ranges[b].count; x++)
                            seen[(size_t)(r->row_ranges[a].first + y) * w->cols + r->col_ranges[b].first +
                                 x]++;
        }
        for (size_t k = 0; k < (size_t)w->rows * w->cols; k++) assert_int_equal(seen[k], whole ? 2 : 1);
        free(seen);
    }
    qn_program_destroy(p[0]), qn_program_destroy(p[1]);
    close_net(&o);
}

/* With tiled heads (GGUF's order) a rank's value heads are those whose key heads it has: pieces, one per
 * repetition. */
static void tiled_heads_are_cut_in_pieces(void **state)
{
    (void)state;
    opened o = open_net("tests/data/golden/real-two-heads"); /* two key heads, four value heads */
    o.net->arch.head_rule = QN_HEADS_TILED;
    qn_program *p = lower(&o, QN_BUCKET_DECODE, 1, 1, 2, false);
    uint32_t dv = o.net->arch.gdn_dv;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const qn_op *op = &p->ops[i];
        if (op->kind != QN_OP_GDN_GATES) continue;
        const qn_weight_ref *r = &p->weights[op->w[0]];
        assert_int_equal(r->n_col_ranges, 2);
        assert_int_equal(r->col_ranges[0].first, 1);
        assert_int_equal(r->col_ranges[1].first, 3);
        break;
    }
    for (uint32_t i = 0; i < p->n_weights; i++) {
        const qn_weight_ref *r = &p->weights[i];
        if (!strstr(o.net->weights[r->weight].name, "in_proj_z")) continue;
        assert_int_equal(r->n_row_ranges, 2);
        assert_int_equal(r->row_ranges[0].first, dv);
        assert_int_equal(r->row_ranges[1].first, 3 * dv);
        break;
    }
    qn_program_destroy(p);
    close_net(&o);
}

static void refusals_have_reasons(void **state)
{
    (void)state;
    qn_error err = {0};
    qn_program *p;
    opened o = open_net("tests/data/golden/small-bf16-nomtp");
    assert_int_equal(qn_program_lower(&p, o.net, (qn_bucket){QN_BUCKET_DRAFT, 1}, 0, 1, true, &err),
                     QN_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "draft head"));
    assert_int_equal(qn_program_lower(&p, o.net, (qn_bucket){QN_BUCKET_DECODE, 0}, 0, 1, false, &err),
                     QN_INVALID);
    assert_int_equal(qn_program_lower(&p, o.net, (qn_bucket){QN_BUCKET_DECODE, 1}, 2, 2, false, &err),
                     QN_INVALID);
    assert_int_equal(qn_program_lower(&p, o.net, (qn_bucket){QN_BUCKET_DECODE, 1}, 0, 4, false, &err),
                     QN_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "do not divide over 4 ranks"));
    assert_null(p);
    close_net(&o);
}

static void costs_count_each_weight_once(void **state)
{
    (void)state;
    opened o = open_net("models/demo");
    qn_program *one = lower(&o, QN_BUCKET_DECODE, 1, 0, 1, false),
               *many = lower(&o, QN_BUCKET_PREFILL, 512, 0, 1, false);
    uint64_t bytes = 0, expected = 0, ops1 = 0, ops512 = 0;
    for (uint32_t i = 0; i < one->n_ops; i++)
        if (one->ops[i].kind != QN_OP_EMBED) {
            bytes += qn_program_cost(one, i, 1, 0, 2).weight_bytes;
            if (one->ops[i].kind == QN_OP_LINEAR) ops1 += qn_program_cost(one, i, 1, 0, 2).operations;
        }
    for (uint32_t i = 0; i < many->n_ops; i++)
        if (many->ops[i].kind == QN_OP_LINEAR) ops512 += qn_program_cost(many, i, 512, 0, 2).operations;
    for (uint32_t i = 0; i < o.net->n_used; i++)
        if (o.net->weights[i].group != QN_GROUP_MTP && !strstr(o.net->weights[i].name, "mtp."))
            expected += o.net->weights[i].n_bytes;
    assert_int_equal(bytes, expected); /* the tied head is read once, the embedding's rows not counted */
    assert_int_equal(ops512, 512 * ops1);
    for (uint32_t i = 0; i < one->n_ops; i++)
        if (one->ops[i].kind == QN_OP_ATTENTION)
            assert_int_equal(qn_program_cost(one, i, 1, 99, 2).state_bytes,
                             100 * 2 * o.net->arch.n_kv * o.net->arch.head_dim * 2);
    qn_program_destroy(one), qn_program_destroy(many);
    close_net(&o);
}

static void text_and_json_name_every_op(void **state)
{
    (void)state;
    qn_error err = {0};
    opened o = open_net("models/demo");
    qn_program *p = lower(&o, QN_BUCKET_DECODE, 1, 0, 1, false);
    qn_buf text;
    qn_buf_init(&text, 0);
    assert_int_equal(qn_program_print(p, &text, &err), QN_OK);
    json_t *j = qn_program_json(p), *ops = json_object_get(j, "ops");
    assert_int_equal(json_integer_value(json_object_get(j, "program_version")), 1);
    assert_int_equal(json_array_size(ops), p->n_ops);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const char *name = json_string_value(json_object_get(json_array_get(ops, i), "op"));
        assert_string_equal(name, qn_op_name(p->ops[i].kind));
        assert_non_null(strstr(text.data, name));
    }
    json_decref(j);
    qn_buf_deinit(&text);
    qn_program_destroy(p);
    close_net(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_choose_the_recurrence_or_chunks),
        cmocka_unit_test(two_ranks_cover_every_weight),
        cmocka_unit_test(tiled_heads_are_cut_in_pieces),
        cmocka_unit_test(refusals_have_reasons),
        cmocka_unit_test(costs_count_each_weight_once),
        cmocka_unit_test(text_and_json_name_every_op),
    };
    return TEST_MAIN(tests);
}
