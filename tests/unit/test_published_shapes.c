/* test_published_shapes.c - checkpoints of the published sizes, made as sparse files that hold a header and
 * no data: every name and shape of the family binds, and the counts are the published ones
 * (docs/models/qwen35.md, sections 1, 2 and 8). */
#include "tap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "program/program.h"

typedef struct size_row {
    const char *name;
    uint32_t layers, hidden, mlp, q, kv, v; /* v: value heads */
    bool tied;
    uint64_t gdn_state_bytes, conv_values,
        kv_bytes_per_token; /* of a sequence; KV without the draft head's, in bf16 */
} size_row;

static const size_row sizes[] = {
    {"0.8B", 24, 1024, 3584, 8, 2, 16, true, 18874368, 331776, 12288},
    {"2B", 24, 2048, 6144, 8, 2, 16, true, 18874368, 331776, 12288},
    {"4B", 32, 2560, 9216, 16, 4, 32, true, 50331648, 589824, 32768},
    {"9B", 32, 4096, 12288, 16, 4, 32, false, 50331648, 589824, 32768},
    {"27B", 64, 5120, 17408, 24, 4, 48, false, 150994944, 1474560, 65536},
};

typedef struct header {
    qn_buf json;
    uint64_t at; /* data bytes so far */
} header;

/* One BF16 tensor of up to 5 dims, 0 ends them. */
static void add(header *h, const char *prefix, const char *leaf, const uint64_t *dims)
{
    uint64_t n = 2;
    qn_buf_printf(&h->json, "%s\"%s%s\": {\"dtype\": \"BF16\", \"shape\": [", h->json.len > 1 ? ", " : "",
                  prefix, leaf);
    for (int i = 0; dims[i]; i++) {
        qn_buf_printf(&h->json, "%s%llu", i ? ", " : "", (unsigned long long)dims[i]);
        n *= dims[i];
    }
    qn_buf_printf(&h->json, "], \"data_offsets\": [%llu, %llu]}", (unsigned long long)h->at,
                  (unsigned long long)(h->at + n));
    h->at += n;
}
#define ADD(h, prefix, leaf, ...) add(h, prefix, leaf, (const uint64_t[]){__VA_ARGS__, 0})

static void add_layer(header *h, const char *p, const size_row *s, bool attn)
{
    uint64_t hid = s->hidden, value = (uint64_t)s->v * 128, conv = 4096 + value;
    ADD(h, p, "input_layernorm.weight", hid);
    ADD(h, p, "post_attention_layernorm.weight", hid);
    ADD(h, p, "mlp.gate_proj.weight", s->mlp, hid);
    ADD(h, p, "mlp.up_proj.weight", s->mlp, hid);
    ADD(h, p, "mlp.down_proj.weight", hid, s->mlp);
    if (attn) {
        ADD(h, p, "self_attn.q_proj.weight", s->q * 512u, hid);
        ADD(h, p, "self_attn.k_proj.weight", s->kv * 256u, hid);
        ADD(h, p, "self_attn.v_proj.weight", s->kv * 256u, hid);
        ADD(h, p, "self_attn.o_proj.weight", hid, s->q * 256u);
        ADD(h, p, "self_attn.q_norm.weight", 256);
        ADD(h, p, "self_attn.k_norm.weight", 256);
        return;
    }
    ADD(h, p, "linear_attn.in_proj_qkv.weight", conv, hid);
    ADD(h, p, "linear_attn.in_proj_z.weight", value, hid);
    ADD(h, p, "linear_attn.in_proj_a.weight", s->v, hid);
    ADD(h, p, "linear_attn.in_proj_b.weight", s->v, hid);
    ADD(h, p, "linear_attn.conv1d.weight", conv, 1, 4);
    ADD(h, p, "linear_attn.A_log", s->v);
    ADD(h, p, "linear_attn.dt_bias", s->v);
    ADD(h, p, "linear_attn.norm.weight", 128);
    ADD(h, p, "linear_attn.out_proj.weight", hid, value);
}

static void add_vision(header *h, uint64_t out_hidden)
{
    const char *v = "model.visual.";
    ADD(h, v, "patch_embed.proj.weight", 1152, 3, 2, 16, 16);
    ADD(h, v, "patch_embed.proj.bias", 1152);
    ADD(h, v, "pos_embed.weight", 2304, 1152);
    for (int i = 0; i < 27; i++) {
        static const struct {
            const char *name;
            uint64_t rows, cols;
        } parts[] = {
            {"attn.qkv", 3456, 1152},       {"attn.proj", 1152, 1152}, {"mlp.linear_fc1", 4304, 1152},
            {"mlp.linear_fc2", 1152, 4304}, {"norm1", 1152, 0},        {"norm2", 1152, 0}};
        for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
            char p[96];
            snprintf(p, sizeof p, "%sblocks.%d.%s.", v, i, parts[k].name);
            ADD(h, p, "weight", parts[k].rows, parts[k].cols);
            ADD(h, p, "bias", parts[k].rows);
        }
    }
    ADD(h, v, "merger.norm.weight", 1152);
    ADD(h, v, "merger.norm.bias", 1152);
    ADD(h, v, "merger.linear_fc1.weight", 4608, 4608);
    ADD(h, v, "merger.linear_fc1.bias", 4608);
    ADD(h, v, "merger.linear_fc2.weight", out_hidden, 4608);
    ADD(h, v, "merger.linear_fc2.bias", out_hidden);
}

static void put_file(const char *folder, const char *name, const void *bytes, size_t n, uint64_t total)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    if (total > n && ftruncate(fd, (off_t)total)) {
        close(fd);
        print_message("# this file system has no sparse files of %llu bytes\n", (unsigned long long)total);
        skip();
    }
    close(fd);
}

/* A folder as published: nested config, text and vision tensors, an MTP layer. */
static void make_folder(const char *folder, const size_row *s)
{
    header h = {.at = 0};
    char p[96], config[1024];
    qn_buf_init(&h.json, 0);
    qn_buf_str(&h.json, "{");
    ADD(&h, "model.language_model.", "embed_tokens.weight", 248320, s->hidden);
    ADD(&h, "model.language_model.", "norm.weight", s->hidden);
    if (!s->tied) ADD(&h, "", "lm_head.weight", 248320, s->hidden);
    for (uint32_t i = 0; i < s->layers; i++) {
        snprintf(p, sizeof p, "model.language_model.layers.%u.", i);
        add_layer(&h, p, s, i % 4 == 3);
    }
    ADD(&h, "mtp.", "fc.weight", s->hidden, 2 * s->hidden);
    ADD(&h, "mtp.", "pre_fc_norm_embedding.weight", s->hidden);
    ADD(&h, "mtp.", "pre_fc_norm_hidden.weight", s->hidden);
    ADD(&h, "mtp.", "norm.weight", s->hidden);
    add_layer(&h, "mtp.layers.0.", s, true);
    add_vision(&h, s->hidden);
    qn_buf_str(&h.json, "}");
    while (h.json.len % 8) qn_buf_byte(&h.json, ' ');
    assert_false(h.json.failed);
    qn_buf file;
    uint64_t n = h.json.len;
    qn_buf_init(&file, 0);
    qn_buf_add(&file, &n, 8);
    qn_buf_add(&file, h.json.data, h.json.len);
    put_file(folder, "model.safetensors", file.data, file.len, file.len + h.at);
    qn_buf_deinit(&h.json);
    qn_buf_deinit(&file);
    int len = snprintf(
        config, sizeof config,
        "{\"model_type\": \"qwen3_5\", \"tie_word_embeddings\": %s, \"text_config\": {\"model_type\": \"qwen3_5_text\", \"hidden_size\": %u,"
        "\"intermediate_size\": %u, \"num_hidden_layers\": %u, \"num_attention_heads\": %u, \"num_key_value_heads\": %u, \"head_dim\": 256,"
        "\"linear_num_key_heads\": 16, \"linear_num_value_heads\": %u, \"linear_key_head_dim\": 128, \"linear_value_head_dim\": 128,"
        "\"max_position_embeddings\": 262144, \"vocab_size\": 248320, \"output_gate_type\": \"swish\", \"hidden_act\": \"silu\","
        "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000000, \"partial_rotary_factor\": 0.25}}}",
        s->tied ? "true" : "false", s->hidden, s->mlp, s->layers, s->q, s->kv, s->v);
    put_file(folder, "config.json", config, (size_t)len, 0);
}

static void remove_folder(const char *folder)
{
    char path[300];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/config.json", folder);
    unlink(path);
    rmdir(folder);
}

static void every_size_binds(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char folder[] = "/tmp/quern-shapes-XXXXXX";
        qn_error err = {0};
        qn_ckpt *ck = NULL;
        qn_net *net = NULL;
        qn_program *p;
        assert_non_null(mkdtemp(folder));
        make_folder(folder, &sizes[i]);
        if (qn_ckpt_open(&ck, folder, &err) || qn_net_bind(&net, ck, &err))
            fail_msg("%s: %s", sizes[i].name, err.msg);
        assert_true(net->arch.has_mtp);
        assert_int_equal(net->arch.rotary_dim, 64);
        qn_state_desc d = qn_state_of(&net->arch, 1, false);
        assert_int_equal((uint64_t)d.n_gdn_layers * d.n_v * d.dk * d.dv * 4, sizes[i].gdn_state_bytes);
        assert_int_equal((uint64_t)d.n_gdn_layers * (d.conv_kernel - 1) * d.conv_dim, sizes[i].conv_values);
        assert_int_equal((uint64_t)(d.n_kv_layers - 1) * 2 * d.n_kv * d.head_dim * 2,
                         sizes[i].kv_bytes_per_token);
        for (uint32_t rank = 0; rank < 2; rank++) {
            if (qn_program_lower(&p, net, (qn_bucket){QN_BUCKET_DECODE, 1}, rank, 2, false, &err))
                fail_msg("%s: %s", sizes[i].name, err.msg);
            qn_program_destroy(p);
        }
        if (strcmp(sizes[i].name, "27B") == 0) {
            uint64_t params[3] = {0}, n[3] = {0}; /* text, MTP, vision */
            for (uint32_t k = 0; k < net->n_weights; k++) {
                const qn_weight *w = &net->weights[k];
                int part = w->group == QN_GROUP_SKIPPED ? 2 : strncmp(w->name, "mtp.", 4) == 0;
                params[part] += w->n_bytes / 2;
                n[part]++;
            }
            assert_int_equal(params[0], 26895998464);
            assert_int_equal(params[1], 424699392);
            assert_int_equal(params[2], 460730096);
            assert_int_equal(n[0], 851);
            assert_int_equal(n[1], 15);
            assert_int_equal(n[2], 333);
        }
        qn_net_destroy(net);
        qn_ckpt_close(ck);
        remove_folder(folder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_size_binds)};
    return TEST_MAIN(tests);
}
