/* hash.c - the 64-bit hash, from libxxhash. */
#include "base/hash.h"

#include <xxhash.h>

uint64_t qn_hash64(const void *p, size_t n)
{
    return XXH3_64bits(p, n);
}
