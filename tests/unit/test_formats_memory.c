/* test_formats_memory.c - what opening a checkpoint takes from the heap, and what it does when the heap
 * refuses. The program has allocation functions of its own in front of the C library's, which count and can
 * fail at will; a sanitizer brings its own as well, so under one these tests are skipped. */
#include "tap.h"

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint.h"
#include "formats/safetensors.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTING 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define COUNTING 0
#endif
#endif
#ifndef COUNTING
#define COUNTING 1
#endif

#if COUNTING
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t each);
extern void *__libc_realloc(void *p, size_t n);
extern void __libc_free(void *p);
#define EVERYBODYS __attribute__((visibility("default"))) /* the C library's own calls come here too */
EVERYBODYS void *malloc(size_t n);
EVERYBODYS void *calloc(size_t n, size_t each);
EVERYBODYS void *realloc(void *p, size_t n);
EVERYBODYS void free(void *p);

static size_t in_use, peak, n_calls, fail_at; /* fail_at: the call that fails, from 1; 0 for none */

static bool refuse(void)
{
    return ++n_calls == fail_at ? errno = ENOMEM, true : false;
}

static void *counted(void *p)
{
    if (p) in_use += malloc_usable_size(p);
    if (in_use > peak) peak = in_use;
    return p;
}

void *malloc(size_t n)
{
    return refuse() ? NULL : counted(__libc_malloc(n));
}
void *calloc(size_t n, size_t each)
{
    return refuse() ? NULL : counted(__libc_calloc(n, each));
}

void *realloc(void *p, size_t n)
{
    if (refuse()) return NULL;
    size_t old = p ? malloc_usable_size(p) : 0;
    void *q = __libc_realloc(p, n);
    if (!q) return NULL;
    if (in_use + malloc_usable_size(q) > peak)
        peak = in_use + malloc_usable_size(q); /* both, while it copies */
    in_use -= old;
    return counted(q);
}

void free(void *p)
{
    if (p) in_use -= malloc_usable_size(p);
    __libc_free(p);
}

/* A file of n_tensors one-byte tensors named by fmt (one %zu). */
static uint8_t *make_file(size_t n_tensors, const char *fmt, size_t *size, size_t *n_header)
{
    size_t cap = 64 + n_tensors * 200, n = 8;
    char *p = malloc(cap);
    assert_non_null(p);
    p[n++] = '{';
    for (size_t i = 0; i < n_tensors; i++) {
        n += (size_t)snprintf(p + n, cap - n, i ? ",\"" : "\"");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        n += (size_t)snprintf(p + n, cap - n, fmt, i);
#pragma GCC diagnostic pop
        n += (size_t)snprintf(p + n, cap - n, "\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[%zu,%zu]}",
                              i, i + 1);
    }
    p[n++] = '}';
    uint64_t header = n - 8;
    memcpy(p, &header, 8);
    memset(p + n, 1, n_tensors);
    *size = n + n_tensors;
    *n_header = header;
    return (uint8_t *)p;
}

static void parsing_stays_under_four_headers(void **state)
{
    (void)state;
    static const struct {
        size_t n_tensors;
        const char *fmt;
    } t[] = {{50000, "model.language_model.layers.%zu.mlp.gate_proj.weight"},
             {50000, "%zu"},
             {50000, "\\u0061%zu"},
             {1, "%zu"}};
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        size_t size, header;
        uint8_t *file = make_file(t[i].n_tensors, t[i].fmt, &size, &header);
        qn_safetensors s;
        qn_error err = {0};
        size_t before = in_use;
        peak = in_use;
        qn_status st = qn_safetensors_parse(&s, file, size, "x", &err);
        size_t took = peak - before, kept = in_use - before;
        if (st) fail_msg("%s", err.msg);
        assert_int_equal(s.n, t[i].n_tensors);
        print_message("# header %zu bytes, peak %zu (%.2f x), kept %zu\n", header, took,
                      (double)took / (double)header, kept);
        assert_true(took <= 4 * header + (1 << 20));
        qn_safetensors_deinit(&s);
        assert_int_equal(in_use, before);
        free(file);
    }
}

/* Fail the first, the second, ... allocation until opening succeeds. */
static void every_failed_allocation_is_an_error(const char *path)
{
    for (size_t n = 1;; n++) {
        qn_ckpt *ck;
        qn_error err = {0};
        size_t before = in_use;
        n_calls = 0;
        fail_at = n;
        qn_status st = qn_ckpt_open(&ck, path, &err);
        bool reached = n_calls >= n;
        fail_at = 0;
        if (st) {
            /* jansson tells some failed allocations as errors of syntax */
            bool config = st == QN_CORRUPT && strstr(err.msg, "config.json: line");
            if (!(st == QN_NOMEM || config) || !err.msg[0])
                fail_msg("allocation %zu: status %d, '%s'", n, st, err.msg);
            assert_null(ck);
        } else {
            qn_ckpt_close(ck); /* a sort does without the memory it was refused */
        }
        if (in_use != before) fail_msg("allocation %zu: %zu bytes are left over", n, in_use - before);
        if (!reached) {
            assert_int_equal(st, QN_OK);
            assert_true(n > 10);
            return;
        }
    }
}

static void failed_allocations(void **state)
{
    (void)state;
    every_failed_allocation_is_an_error("tests/data/golden/small-bf16-tied");
    every_failed_allocation_is_an_error("tests/data/golden/real-bf16-nested-sharded");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parsing_stays_under_four_headers),
                                       cmocka_unit_test(failed_allocations)};
    return TEST_MAIN(tests);
}
#else
int main(void)
{
    puts("1..1\nok 1 - memory of the formats # SKIP the sanitizer has its own heap");
    return 0;
}
#endif
