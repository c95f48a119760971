/* tap.h - what every unit test includes: cmocka with its headers in the right order, and TAP output, which
 * tests/run counts. A test program is `int main(void) { return TEST_MAIN(tests); }`. */
#ifndef QN_TESTS_TAP_H
#define QN_TESTS_TAP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define TEST_MAIN(tests) (cmocka_set_message_output(CM_OUTPUT_TAP), cmocka_run_group_tests(tests, NULL, NULL))

#endif
