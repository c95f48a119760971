/* tokenizer.h - text to token ids and ids to bytes: byte-level BPE as Hugging Face's tokenizer.json describes
 * it.
 *
 * A qn_tokenizer is immutable once made and may be shared by any number of threads. It owns copies of
 * everything; the texts it was parsed from may go away. What it does to a text, in order: cut out added
 * tokens, normalise each piece between them to NFC, cut the pieces into pre-tokens, merge the bytes of each
 * pre-token. No BOS, no EOS, no prefix space is ever added.
 *
 * Files that ask for anything else (another normaliser, another pre-tokenizer pattern, byte fallback, ...)
 * are refused with QN_UNSUPPORTED by name, faulty ones with QN_CORRUPT. */
#ifndef QN_TEXT_TOKENIZER_H
#define QN_TEXT_TOKENIZER_H

#include "base/status.h"

#define QN_TOKENIZER_MAX_FILE ((size_t)256 << 20) /* bytes of tokenizer.json or tokenizer_config.json */
#define QN_TOKENIZER_MAX_TEXT ((size_t)64 << 20)  /* bytes of one text to encode */

typedef struct qn_tokenizer qn_tokenizer;

/* Read dir/tokenizer.json and, where present, dir/tokenizer_config.json. QN_NOT_FOUND when there is no
 * tokenizer.json; errors name the file. */
qn_status qn_tokenizer_open_dir(qn_tokenizer **out, const char *dir, qn_error *err) QN_CHECKED;

/* The same from memory. config may be NULL: then only tokenizer.json's added tokens exist and no token has a
 * role. */
qn_status qn_tokenizer_parse(qn_tokenizer **out, const char *json, size_t json_len, const char *config,
                             size_t config_len, qn_error *err) QN_CHECKED;

void qn_tokenizer_close(qn_tokenizer *t); /* accepts NULL */

typedef enum qn_special {
    QN_SPECIAL_NONE,  /* added tokens in the text are plain text: for anything a user typed */
    QN_SPECIAL_ALL,   /* added tokens are recognised: for raw prompts */
    QN_SPECIAL_MARKED /* only where every byte of the added token is marked as literal: for rendered templates
                       */
} qn_special;

/* Encode text[0..n). literal: [n], nonzero where the byte comes from the template's own literals; needed for
 * QN_SPECIAL_MARKED, else ignored and may be NULL. Added tokens are cut leftmost first, the longest at a
 * place; under MARKED a longer one that is not wholly marked gives way to a shorter one that is. What lies
 * between two cuts is encoded as one text, whatever its bytes' origin. *ids: [*n_ids], freed with free(),
 * never NULL on success. Time O(n log n), whatever the text. QN_INVALID with the byte offset when text is not
 * UTF-8, QN_TOO_LARGE past QN_TOKENIZER_MAX_TEXT, QN_NOMEM. */
qn_status qn_tokenizer_encode(const qn_tokenizer *t, const char *text, size_t n, qn_special special,
                              const uint8_t *literal, int32_t **ids, size_t *n_ids, qn_error *err) QN_CHECKED;

/* The bytes of a token, which may end inside a character; not NUL-terminated, valid until close. False, with
 * *bytes NULL, for an id without a token. */
bool qn_tokenizer_piece(const qn_tokenizer *t, int32_t id, const char **bytes, size_t *n);

/* Whether the id is an added token that gives no text in an answer ("special": true, as <|im_end|>; <think>
 * is not). */
bool qn_tokenizer_is_special(const qn_tokenizer *t, int32_t id);
bool qn_tokenizer_is_added(const qn_tokenizer *t, int32_t id); /* special or not */

/* The id of the token that spells exactly these bytes (NUL-terminated), added tokens first; -1 when there is
 * none. */
int32_t qn_tokenizer_find(const qn_tokenizer *t, const char *bytes);

uint32_t qn_tokenizer_vocab_size(
    const qn_tokenizer *t); /* highest id + 1; there may be ids below it without a token */

/* Tokens with a role in tokenizer_config.json; -1 when it names none. */
int32_t qn_tokenizer_bos(const qn_tokenizer *t);
int32_t qn_tokenizer_eos(const qn_tokenizer *t);
int32_t qn_tokenizer_pad(const qn_tokenizer *t);

const char *qn_tokenizer_pretok_name(const qn_tokenizer *t); /* "qwen35"; static */

#endif
