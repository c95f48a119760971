/* tokenizer_int.h - what the files of the tokenizer share: the object itself, and the builder through which
 * every file format fills one (tokenizer.json now; arrays of a GGUF file go the same way). */
#ifndef QN_TEXT_TOKENIZER_INT_H
#define QN_TEXT_TOKENIZER_INT_H

#include "text/bpe.h"
#include "text/pretok.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

struct qn_tokenizer {
    const qn_pretok *pretok;
    qn_vocab vocab;
    qn_bpe bpe;
    uint32_t *added; /* [n_added] ids of added tokens, by their bytes, ascending */
    size_t n_added;
    bool starts[256]; /* the first bytes of added tokens */
    int32_t bos, eos, pad;
};

#define QN_TOKENIZER_MAX_ADDED 8192u

/* The builder: begin, then pre-tokenizer, tokens, merges and added tokens in any order but that a merge needs
 * its tokens, then finish. After a failure only destroy is allowed. */
typedef struct qn_tok_builder {
    qn_tokenizer *t;
    size_t added_cap;
    uint32_t last_joined; /* the id that the last merge led to */
} qn_tok_builder;

qn_status qn_tok_builder_begin(qn_tok_builder *b, qn_error *err) QN_CHECKED;
void qn_tok_builder_destroy(qn_tok_builder *b); /* accepts a zeroed or finished one */

/* A token that merging builds, spelled in the byte alphabet. */
qn_status qn_tok_builder_token(qn_tok_builder *b, uint64_t id, const char *spelled, size_t n,
                               qn_error *err) QN_CHECKED;

/* The next merge, both parts spelled in the byte alphabet. They and what they join to must be tokens already.
 */
qn_status qn_tok_builder_merge(qn_tok_builder *b, const char *left, size_t n_left, const char *right,
                               size_t n_right, qn_error *err) QN_CHECKED;

/* An added token, spelled as it stands in the text. The same one may be added again with the same properties.
 */
qn_status qn_tok_builder_added(qn_tok_builder *b, uint64_t id, const char *text, size_t n, bool special,
                               qn_error *err) QN_CHECKED;

/* Check the whole (every byte has a token, no id without a token below the last one that merging builds) and
 * hand it over. */
qn_status qn_tok_builder_finish(qn_tok_builder *b, qn_tokenizer **out, qn_error *err) QN_CHECKED;

#endif
