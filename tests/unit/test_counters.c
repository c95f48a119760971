/* test_counters.c - the counter registry: one counter a name, sums over threads, what a full table does. */
#include "tap.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/counters.h"
#include "device/device.h"

static void one_a_name(void **state)
{
    (void)state;
    char spelled[] = "test.one"; /* names are compared as strings */
    qn_counter *c = qn_counter_get("test.one");
    assert_ptr_equal(qn_counter_get(spelled), c);
    assert_ptr_not_equal(qn_counter_get("test.two"), c);
    qn_counter_add(c, 2);
    qn_counter_add(c, 3);
    assert_int_equal(c->value, 5);
}

static void *bump(void *ctx)
{
    for (int i = 0; i < 10000; i++) qn_counter_add(qn_counter_get(ctx), 1);
    return NULL;
}

static void threads_add_up(void **state)
{
    (void)state;
    static char name[] = "test.threads";
    pthread_t t[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, bump, name), 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    assert_int_equal(qn_counter_get("test.threads")->value, 40000);
}

static void kernels_are_counted(void **state)
{
    (void)state;
    qn_error err = {0};
    qn_device *d;
    uint64_t before = qn_counter_get("device.cpu.kernels.reference")->value;
    qn_device_options o = {.device = "cpu", .kernels = "reference", .threads = 1};
    assert_int_equal(qn_device_open(&d, &o, &err), QN_OK);
    assert_int_equal(qn_counter_get("device.cpu.kernels.reference")->value, before + 1);
    qn_device_close(d);
}

typedef struct seen {
    size_t n;
    uint64_t one;
    char first[32];
} seen;

static void look(void *ctx, const char *name, uint64_t value)
{
    seen *s = ctx;
    if (s->n++ == 0) snprintf(s->first, sizeof s->first, "%s", name);
    if (strcmp(name, "test.one") == 0) s->one = value;
}

static void a_full_table_overflows(void **state)
{
    (void)state;
    static char names[600][16];
    qn_counter *c = NULL;
    for (int i = 0; i < 600; i++) {
        snprintf(names[i], sizeof names[i], "test.n%d", i);
        c = qn_counter_get(names[i]);
        assert_non_null(c);
    }
    assert_string_equal(c->name, "counters.overflow");
    seen s = {0};
    qn_counters_each(look, &s);
    assert_int_equal(s.n, 512);
    assert_int_equal(s.one, 5);
    assert_string_equal(s.first, "counters.overflow");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_a_name), cmocka_unit_test(threads_add_up),
                                       cmocka_unit_test(kernels_are_counted),
                                       cmocka_unit_test(a_full_table_overflows)};
    return TEST_MAIN(tests);
}
