/* size.h - checked arithmetic on sizes: every product, sum and round-up of numbers that came from outside
 * goes through here and is refused on overflow before anything is allocated. Header only, any thread. */
#ifndef QN_BASE_SIZE_H
#define QN_BASE_SIZE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static_assert(sizeof(size_t) == 8, "quern assumes that size_t has 64 bits");

static inline bool qn_size_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool qn_size_add(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* Round a up to a multiple of m (m > 0). */
static inline bool qn_size_round_up(uint64_t a, uint64_t m, uint64_t *out)
{
    uint64_t r = a % m;
    return r == 0 ? (*out = a, true) : qn_size_add(a, m - r, out);
}

/* ceil(a / b), b > 0; cannot overflow. */
static inline uint64_t qn_ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

#endif
