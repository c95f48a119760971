/* pretok.h - the pre-tokenizer: cuts text into the pieces ("pre-tokens") that byte-pair merging never
 * crosses.
 *
 * Published tokenizers describe it by a regular expression. quern knows the expressions it supports by their
 * exact spelling, one row of a table each, and runs a scanner that takes the same pieces; anything else is
 * refused by the caller, which quotes the expression. Nothing allocates, nothing fails, any thread. */
#ifndef QN_TEXT_PRETOK_H
#define QN_TEXT_PRETOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct qn_pretok {
    const char *name;    /* as GGUF's tokenizer.ggml.pre spells it */
    const char *pattern; /* as tokenizer.json spells it */
    bool marks_in_words; /* combining marks belong to words, else to punctuation */
} qn_pretok;

/* The row with that pattern or name; NULL when there is none. Rows are static. */
const qn_pretok *qn_pretok_by_pattern(const char *pattern, size_t n);
const qn_pretok *qn_pretok_by_name(const char *name, size_t n);

/* The end of the pre-token that begins at `at` in text[0..n), at < n. text is well-formed UTF-8 and `at` the
 * start of a character. "End of the text" in the rules is n. */
size_t qn_pretok_next(const qn_pretok *rules, const uint8_t *text, size_t n, size_t at);

#endif
