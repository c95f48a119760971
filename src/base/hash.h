/* hash.h - the 64-bit hash that proves two computations equal: XXH3 over the bytes, seed 0. Of a row of
 * logits it is taken over its f32 values in memory order (little-endian). Not for security. Any thread. */
#ifndef QN_BASE_HASH_H
#define QN_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t qn_hash64(const void *p, size_t n);

#endif
