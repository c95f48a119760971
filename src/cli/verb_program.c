/* verb_program.c - `quern program`: the op list of one shape bucket as text or JSON. Needs no tokenizer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/config.h"
#include "cli/verbs.h"
#include "program/program.h"

/* "decode:8": a kind and its rows. */
static qn_status parse_bucket(const char *text, qn_bucket *b, qn_error *err)
{
    static const char *const kinds[] = {"decode", "verify", "prefill", "draft"};
    const char *colon = strchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : strlen(text);
    char *end = NULL;
    unsigned long rows = colon ? strtoul(colon + 1, &end, 10) : 1;
    for (int k = 0; k < 4; k++)
        if (strlen(kinds[k]) == n && memcmp(kinds[k], text, n) == 0 && rows >= 1 && rows <= 65536 &&
            (!end || (end != colon + 1 && !*end)))
            return *b = (qn_bucket){(qn_bucket_kind)k, (uint32_t)rows}, QN_OK;
    return qn_fail(
        err, QN_USAGE,
        "program: --bucket must be decode:B, verify:R, prefill:T or draft:R with 1 .. 65536 rows, not '%s'",
        text);
}

int qn_verb_program(int argc, char **argv)
{
    bool as_json = false, keep = false;
    const char *bucket_text = "decode:1";
    uint32_t rank = 0, ranks = 1;
    qn_option options[] = {
        {"bucket", QN_OPT_STRING, &bucket_text, 0, 0, "KIND:ROWS",
         "decode:B, verify:R, prefill:T or draft:R (default decode:1)", NULL},
        {"rank", QN_OPT_U32, &rank, 0, 1023, "R", "the tensor-parallel rank to lower for (default 0)", NULL},
        {"ranks", QN_OPT_U32, &ranks, 1, 1024, "N", "of how many ranks (default 1)", NULL},
        {"keep-hidden", QN_OPT_FLAG, &keep, 0, 0, NULL, "keep the final hidden vectors for a draft program",
         NULL},
        {"json", QN_OPT_FLAG, &as_json, 0, 0, NULL, "print JSON", NULL},
    };
    qn_config c;
    qn_error err;
    qn_bucket bucket;
    qn_ckpt *ck = NULL;
    qn_net *net = NULL;
    qn_program *p = NULL;
    int rc = qn_cli_start(&c, options, sizeof options / sizeof options[0], argc, argv, "quern program MODEL",
                          1, 1, &err);
    if (rc >= 0) return rc;
    qn_status st = parse_bucket(bucket_text, &bucket, &err);
    if (!st) st = qn_ckpt_open(&ck, c.words[0], &err);
    if (!st) st = qn_net_bind(&net, ck, &err);
    if (!st) st = qn_program_lower(&p, net, bucket, rank, ranks, keep, &err);
    if (!st && as_json) {
        json_t *j = qn_program_json(p);
        json_dumpf(j, stdout, JSON_INDENT(1));
        putchar('\n');
        json_decref(j);
    } else if (!st) {
        qn_buf out;
        qn_buf_init(&out, 0);
        st = qn_program_print(p, &out, &err);
        if (!st) fwrite(out.data, 1, out.len, stdout);
        qn_buf_deinit(&out);
    }
    qn_program_destroy(p);
    qn_net_destroy(net);
    qn_ckpt_close(ck);
    qn_config_deinit(&c);
    return st ? qn_cli_error(&err) : 0;
}
