/* tokenizer_load.c - reads tokenizer.json and tokenizer_config.json into a tokenizer.
 *
 * The file is read once, front to back. Everything it may say about how text becomes ids is either what this
 * tokenizer does, or refused: a key passed over in silence would be a tokenizer that is slightly wrong. Only
 * "truncation" and "padding" are passed over, which describe batches, not the tokenizer. */
#include <stdio.h>
#include <string.h>

#include "base/json_pull.h"
#include "base/mapfile.h"
#include "text/tokenizer_int.h"

/* What was met in tokenizer.json; a second time is refused, a missing one at the end. */
enum {
    HAS_MODEL = 1,
    HAS_NORMALIZER = 2,
    HAS_PRE = 4,
    HAS_ADDED = 8,
    HAS_VOCAB = 16,
    HAS_MERGES = 32,
    HAS_TYPE = 64
};

typedef struct loader {
    qn_json_pull p;
    qn_tok_builder b;
    unsigned seen;
    size_t merges_at; /* offset of merges that came before the vocabulary; 0: none are waiting */
    qn_buf name;      /* a copy of a token's text, which must survive reading on */
    qn_buf roles[3];  /* bos, eos, pad: the token's text; data NULL: not named */
} loader;

static qn_status once(loader *l, unsigned what, const char *name, qn_error *err)
{
    if (l->seen & what) return qn_json_pull_fail(&l->p, err, "%s is given twice", name);
    l->seen |= what;
    return QN_OK;
}

static qn_status unsupported(const qn_json_pull *p, qn_error *err, const char *what, const char *only)
{
    char shown[200];
    bool text = p->event == QN_JSON_STRING || p->event == QN_JSON_NUMBER || p->event == QN_JSON_KEY;
    if (!text)
        return qn_fail(err, QN_UNSUPPORTED, "%s: %s is not supported, only %s", what,
                       qn_json_event_name(p->event), only);
    return qn_fail(err, QN_UNSUPPORTED, "%s '%s' is not supported, only %s", what,
                   qn_printable(shown, sizeof shown, p->text, p->text_len), only);
}

/* The value of the key just read must be what `want` says: 0 false, 1 true, "null", or that string. */
static qn_status must_be_bool(loader *l, bool want, const char *what, qn_error *err)
{
    qn_json_event e;
    qn_status st = qn_json_pull_next(&l->p, &e, err);
    if (st) return st;
    if (e != QN_JSON_TRUE && e != QN_JSON_FALSE)
        return qn_json_pull_fail(&l->p, err, "%s must be true or false, found %s", what,
                                 qn_json_event_name(e));
    return (e == QN_JSON_TRUE) == want ? QN_OK : unsupported(&l->p, err, what, want ? "true" : "false");
}

static qn_status must_be_string(loader *l, const char *want, const char *what, qn_error *err)
{
    qn_status st = qn_json_pull_expect(&l->p, QN_JSON_STRING, what, err);
    if (st) return st;
    return qn_json_pull_is(&l->p, want) ? QN_OK : unsupported(&l->p, err, what, want);
}

/* null, or "" where that means the same. */
static qn_status must_be_nothing(loader *l, bool or_empty, const char *what, qn_error *err)
{
    qn_json_event e;
    qn_status st = qn_json_pull_next(&l->p, &e, err);
    if (st) return st;
    if (e == QN_JSON_NULL || (or_empty && e == QN_JSON_STRING && l->p.text_len == 0)) return QN_OK;
    return unsupported(&l->p, err, what, "null");
}

static qn_status unknown_key(loader *l, const char *where, qn_error *err)
{
    char name[64];
    return qn_fail(err, QN_UNSUPPORTED, "%s: '%s' is not supported", where,
                   qn_printable(name, sizeof name, l->p.text, l->p.text_len));
}

/* The next key of the object that is open: *more false at its end. */
static qn_status next_key(loader *l, bool *more, qn_error *err)
{
    qn_json_event e;
    qn_status st = qn_json_pull_next(&l->p, &e, err);
    *more = !st && e == QN_JSON_KEY;
    return st;
}

/* ---- added tokens ----------------------------------------------------------------------------------------
 */

/* One added token; its object has just been opened. id: UINT64_MAX when it must stand inside. */
static qn_status read_added(loader *l, uint64_t id, qn_error *err)
{
    qn_json_pull *p = &l->p;
    qn_json_event e;
    qn_status st;
    bool more, inside = id == UINT64_MAX, has_text = false, special = false, normalized = false;
    char name[64];
    qn_buf_reset(&l->name);
    for (;;) {
        if ((st = next_key(l, &more, err))) return st;
        if (!more) break;
        if (inside && qn_json_pull_is(p, "id")) {
            if ((st = qn_json_pull_expect(p, QN_JSON_NUMBER, "the id of an added token", err))) return st;
            if (!qn_json_pull_u64(p, &id) || id >= QN_VOCAB_MAX_IDS)
                return qn_json_pull_fail(p, err, "an added token has the id %s, which is not in 0..%u",
                                         qn_printable(name, sizeof name, p->text, p->text_len),
                                         QN_VOCAB_MAX_IDS - 1);
        } else if (qn_json_pull_is(p, "content")) {
            if ((st = qn_json_pull_expect(p, QN_JSON_STRING, "the content of an added token", err)))
                return st;
            if (has_text) return qn_json_pull_fail(p, err, "an added token has two contents");
            if (p->text_len > QN_VOCAB_MAX_TOKEN_BYTES)
                return qn_fail(err, QN_TOO_LARGE, "byte %zu: an added token has %zu bytes, the limit is %zu",
                               p->at, p->text_len, QN_VOCAB_MAX_TOKEN_BYTES);
            has_text = true;
            qn_buf_add(&l->name, p->text, p->text_len);
        } else if (qn_json_pull_is(p, "special") || qn_json_pull_is(p, "normalized")) {
            bool *flag = qn_json_pull_is(p, "special") ? &special : &normalized;
            if ((st = qn_json_pull_next(p, &e, err))) return st;
            if (e != QN_JSON_TRUE && e != QN_JSON_FALSE)
                return qn_json_pull_fail(p, err, "a flag of an added token must be true or false, found %s",
                                         qn_json_event_name(e));
            *flag = e == QN_JSON_TRUE;
        } else if (qn_json_pull_is(p, "single_word")) {
            st = must_be_bool(l, false, "single_word of an added token", err);
        } else if (qn_json_pull_is(p, "lstrip")) {
            st = must_be_bool(l, false, "lstrip of an added token", err);
        } else if (qn_json_pull_is(p, "rstrip")) {
            st = must_be_bool(l, false, "rstrip of an added token", err);
        } else if (qn_json_pull_is(p, "__type")) {
            st = must_be_string(l, "AddedToken", "__type of an added token", err);
        } else {
            st = unknown_key(l, "an added token", err);
        }
        if (st) return st;
    }
    if ((st = qn_buf_status(&l->name, "an added token", err))) return st;
    if (!has_text || id == UINT64_MAX)
        return qn_json_pull_fail(p, err, "an added token lacks its %s", has_text ? "id" : "content");
    qn_printable(name, sizeof name, l->name.data, l->name.len);
    if (normalized)
        return qn_fail(err, QN_UNSUPPORTED,
                       "added token '%s' wants to be found in normalised text, which is not supported", name);
    return qn_tok_builder_added(&l->b, id, l->name.data, l->name.len, special, err);
}

static qn_status read_added_list(loader *l, qn_error *err)
{
    qn_json_event e;
    qn_status st = qn_json_pull_expect(&l->p, QN_JSON_ARRAY_BEGIN, "added_tokens", err);
    while (!st) {
        if ((st = qn_json_pull_next(&l->p, &e, err))) return st;
        if (e == QN_JSON_ARRAY_END) break;
        if (e != QN_JSON_OBJECT_BEGIN)
            return qn_json_pull_fail(&l->p, err, "an added token must be an object, found %s",
                                     qn_json_event_name(e));
        st = read_added(l, UINT64_MAX, err);
    }
    return st;
}

/* ---- normaliser, pre-tokenizer ---------------------------------------------------------------------------
 */

static qn_status read_normalizer(loader *l, qn_error *err)
{
    qn_json_event e;
    qn_status st = qn_json_pull_next(&l->p, &e, err);
    if (st) return st;
    if (e != QN_JSON_OBJECT_BEGIN) return unsupported(&l->p, err, "normalizer", "NFC");
    for (bool more, any = false;; any = true) {
        if ((st = next_key(l, &more, err))) return st;
        if (!more) return any ? QN_OK : qn_json_pull_fail(&l->p, err, "the normalizer has no type");
        if (!qn_json_pull_is(&l->p, "type")) return unknown_key(l, "normalizer", err);
        if ((st = must_be_string(l, "NFC", "normalizer", err))) return st;
    }
}

/* {"Regex": "..."}, the pattern of a Split. */
static qn_status read_pattern(loader *l, qn_error *err)
{
    qn_json_pull *p = &l->p;
    bool more;
    qn_status st = qn_json_pull_expect(p, QN_JSON_OBJECT_BEGIN, "the pattern of the pre-tokenizer", err);
    if (!st) st = next_key(l, &more, err);
    if (st) return st;
    if (!more || !qn_json_pull_is(p, "Regex"))
        return unsupported(p, err, "pre-tokenizer pattern of kind", "Regex");
    if ((st = qn_json_pull_expect(p, QN_JSON_STRING, "the pattern of the pre-tokenizer", err))) return st;
    l->b.t->pretok = qn_pretok_by_pattern(p->text, p->text_len);
    if (!l->b.t->pretok) return unsupported(p, err, "pre-tokenizer pattern", "that of qwen35");
    return qn_json_pull_expect(p, QN_JSON_OBJECT_END, "what follows the pattern of the pre-tokenizer", err);
}

/* One of the two steps; its object has just been opened. A Split needs its pattern, a ByteLevel its use_regex
 * off (absent means on). */
static qn_status read_step(loader *l, const char *type, qn_error *err)
{
    qn_json_pull *p = &l->p;
    qn_status st;
    bool split = strcmp(type, "Split") == 0, has_type = false, has_main = false;
    for (bool more;;) {
        if ((st = next_key(l, &more, err))) return st;
        if (!more) break;
        if (qn_json_pull_is(p, "type")) {
            st = must_be_string(l, type, "pre-tokenizer", err);
            has_type = true;
        } else if (split && qn_json_pull_is(p, "pattern")) {
            st = read_pattern(l, err);
            has_main = true;
        } else if (split && qn_json_pull_is(p, "behavior")) {
            st = must_be_string(l, "Isolated", "pre-tokenizer behaviour", err);
        } else if (split && qn_json_pull_is(p, "invert")) {
            st = must_be_bool(l, false, "invert of the pre-tokenizer", err);
        } else if (!split && qn_json_pull_is(p, "use_regex")) {
            st = must_be_bool(l, false, "use_regex of the pre-tokenizer", err);
            has_main = true;
        } else if (!split && qn_json_pull_is(p, "add_prefix_space")) {
            st = must_be_bool(l, false, "add_prefix_space of the pre-tokenizer", err);
        } else if (!split && qn_json_pull_is(p, "trim_offsets")) {
            st = qn_json_pull_skip(p, err); /* about offsets, not ids */
        } else {
            st = unknown_key(l, "pre-tokenizer", err);
        }
        if (st) return st;
    }
    if (!has_type) return qn_json_pull_fail(p, err, "a step of the pre-tokenizer has no type");
    if (!has_main)
        return qn_json_pull_fail(p, err, "the %s of the pre-tokenizer lacks %s", type,
                                 split ? "its pattern" : "use_regex");
    return QN_OK;
}

static qn_status read_pre_tokenizer(loader *l, qn_error *err)
{
    qn_json_pull *p = &l->p;
    qn_json_event e;
    bool more, has_steps = false;
    qn_status st = qn_json_pull_next(p, &e, err);
    if (st) return st;
    if (e != QN_JSON_OBJECT_BEGIN)
        return unsupported(p, err, "pre_tokenizer", "a Sequence of Split and ByteLevel");
    for (;;) {
        if ((st = next_key(l, &more, err))) return st;
        if (!more) break;
        if (qn_json_pull_is(p, "type")) {
            if ((st = must_be_string(l, "Sequence", "pre_tokenizer", err))) return st;
        } else if (qn_json_pull_is(p, "pretokenizers")) {
            if (has_steps) return qn_json_pull_fail(p, err, "pretokenizers is given twice");
            has_steps = true;
            if ((st = qn_json_pull_expect(p, QN_JSON_ARRAY_BEGIN, "pretokenizers", err))) return st;
            if ((st = qn_json_pull_expect(p, QN_JSON_OBJECT_BEGIN, "the first pre-tokenizer", err)))
                return st;
            if ((st = read_step(l, "Split", err))) return st;
            if ((st = qn_json_pull_expect(p, QN_JSON_OBJECT_BEGIN, "the second pre-tokenizer", err)))
                return st;
            if ((st = read_step(l, "ByteLevel", err))) return st;
            if ((st =
                     qn_json_pull_expect(p, QN_JSON_ARRAY_END, "what follows the second pre-tokenizer", err)))
                return st;
        } else {
            return unknown_key(l, "pre_tokenizer", err);
        }
    }
    return has_steps ? QN_OK : qn_json_pull_fail(p, err, "pre_tokenizer lacks its pretokenizers");
}

/* The post-processor and the decoder: only ByteLevel, or none, whose details do not concern ids. */
static qn_status read_byte_level(loader *l, const char *what, qn_error *err)
{
    qn_json_event e;
    qn_status st = qn_json_pull_next(&l->p, &e, err);
    if (st || e == QN_JSON_NULL) return st;
    if (e != QN_JSON_OBJECT_BEGIN) return unsupported(&l->p, err, what, "ByteLevel");
    for (bool more;;) {
        if ((st = next_key(l, &more, err)) || !more) return st;
        if (qn_json_pull_is(&l->p, "type"))
            st = must_be_string(l, "ByteLevel", what, err);
        else
            st = qn_json_pull_skip(&l->p, err);
        if (st) return st;
    }
}

/* ---- the model -------------------------------------------------------------------------------------------
 */

static qn_status read_vocab(loader *l, qn_error *err)
{
    qn_json_pull *p = &l->p;
    qn_json_event e;
    char name[64];
    qn_status st = qn_json_pull_expect(p, QN_JSON_OBJECT_BEGIN, "vocab", err);
    while (!st) {
        if ((st = qn_json_pull_next(p, &e, err)) || e == QN_JSON_OBJECT_END) return st;
        qn_buf_reset(&l->name); /* the text lives only until the next event, and the id is that */
        if (p->text_len > 2 * QN_VOCAB_MAX_TOKEN_BYTES)
            return qn_fail(err, QN_TOO_LARGE,
                           "byte %zu: token '%s' has %zu bytes in the file, the limit is %zu", p->at,
                           qn_printable(name, sizeof name, p->text, p->text_len), p->text_len,
                           2 * QN_VOCAB_MAX_TOKEN_BYTES);
        if (!qn_buf_add(&l->name, p->text, p->text_len)) return qn_buf_status(&l->name, "a token", err);
        uint64_t id;
        if ((st = qn_json_pull_next(p, &e, err))) return st;
        if (e != QN_JSON_NUMBER || !qn_json_pull_u64(p, &id) || id >= QN_VOCAB_MAX_IDS)
            return qn_json_pull_fail(p, err, "the id of token '%s' must be a number in 0..%u",
                                     qn_printable(name, sizeof name, l->name.data, l->name.len),
                                     QN_VOCAB_MAX_IDS - 1);
        st = qn_tok_builder_token(&l->b, id, l->name.data, l->name.len, err);
    }
    return st;
}

/* One merge: the string "a b" has just been read, or the array ["a", "b"] just been opened. */
static qn_status read_merge(loader *l, qn_json_pull *p, qn_json_event e, qn_error *err)
{
    qn_status st;
    if (e == QN_JSON_STRING) {
        const char *space = memchr(p->text, ' ', p->text_len);
        size_t left = space ? (size_t)(space - p->text) : 0;
        if (!space || memchr(space + 1, ' ', p->text_len - left - 1))
            return qn_json_pull_fail(p, err, "merge %u must be two tokens with one space between",
                                     l->b.t->bpe.n_merges);
        return qn_tok_builder_merge(&l->b, p->text, left, space + 1, p->text_len - left - 1, err);
    }
    if (e != QN_JSON_ARRAY_BEGIN)
        return qn_json_pull_fail(p, err, "merge %u must be a string or a pair, found %s",
                                 l->b.t->bpe.n_merges, qn_json_event_name(e));
    qn_buf_reset(&l->name);
    if ((st = qn_json_pull_expect(p, QN_JSON_STRING, "the left part of a merge", err))) return st;
    if (p->text_len > 2 * QN_VOCAB_MAX_TOKEN_BYTES)
        return qn_fail(err, QN_TOO_LARGE,
                       "byte %zu: the left part of merge %u has %zu bytes, the limit is %zu", p->at,
                       l->b.t->bpe.n_merges, p->text_len, 2 * QN_VOCAB_MAX_TOKEN_BYTES);
    if (!qn_buf_add(&l->name, p->text, p->text_len)) return qn_buf_status(&l->name, "a merge", err);
    if ((st = qn_json_pull_expect(p, QN_JSON_STRING, "the right part of a merge", err))) return st;
    if ((st = qn_tok_builder_merge(&l->b, l->name.data, l->name.len, p->text, p->text_len, err))) return st;
    return qn_json_pull_expect(p, QN_JSON_ARRAY_END, "what follows the two parts of a merge", err);
}

static qn_status read_merges(loader *l, qn_json_pull *p, qn_error *err)
{
    qn_json_event e;
    qn_status st = qn_json_pull_expect(p, QN_JSON_ARRAY_BEGIN, "merges", err);
    while (!st) {
        if ((st = qn_json_pull_next(p, &e, err)) || e == QN_JSON_ARRAY_END) return st;
        st = read_merge(l, p, e, err);
    }
    return st;
}

/* Merges that stand before the vocabulary wait until it is there: remember where they are, and read them then
 * with a reader of their own. */
static qn_status read_waiting_merges(loader *l, const char *json, size_t end, qn_error *err)
{
    qn_json_pull p;
    qn_json_pull_init(&p, json + l->merges_at, end - l->merges_at, 0);
    qn_status st = read_merges(l, &p, err);
    qn_json_pull_deinit(&p);
    return st;
}

static qn_status read_model(loader *l, const char *json, qn_error *err)
{
    qn_json_pull *p = &l->p;
    size_t merges_end = 0;
    qn_status st = qn_json_pull_expect(p, QN_JSON_OBJECT_BEGIN, "model", err);
    for (bool more; !st;) {
        if ((st = next_key(l, &more, err))) return st;
        if (!more) break;
        if (qn_json_pull_is(p, "type")) {
            l->seen |= HAS_TYPE;
            st = must_be_string(l, "BPE", "model", err);
        } else if (qn_json_pull_is(p, "vocab")) {
            if (!(st = once(l, HAS_VOCAB, "vocab", err))) st = read_vocab(l, err);
        } else if (qn_json_pull_is(p, "merges")) {
            if ((st = once(l, HAS_MERGES, "merges", err))) return st;
            if (l->seen & HAS_VOCAB) {
                st = read_merges(l, p, err);
            } else {
                l->merges_at = p->pos; /* behind the colon */
                st = qn_json_pull_skip(p, err);
                merges_end = p->pos;
            }
        } else if (qn_json_pull_is(p, "byte_fallback")) {
            st = must_be_bool(l, false, "byte_fallback", err);
        } else if (qn_json_pull_is(p, "ignore_merges")) {
            st = must_be_bool(l, false, "ignore_merges", err);
        } else if (qn_json_pull_is(p, "dropout")) {
            st = must_be_nothing(l, false, "dropout", err);
        } else if (qn_json_pull_is(p, "unk_token")) {
            st = must_be_nothing(l, true, "unk_token", err);
        } else if (qn_json_pull_is(p, "continuing_subword_prefix")) {
            st = must_be_nothing(l, true, "continuing_subword_prefix", err);
        } else if (qn_json_pull_is(p, "end_of_word_suffix")) {
            st = must_be_nothing(l, true, "end_of_word_suffix", err);
        } else if (qn_json_pull_is(p, "fuse_unk")) {
            st = qn_json_pull_skip(p, err); /* about the unknown token, of which there is none */
        } else {
            st = unknown_key(l, "model", err);
        }
    }
    if (st) return st;
    if (!(l->seen & HAS_TYPE)) return qn_json_pull_fail(p, err, "model lacks its type");
    if (!(l->seen & HAS_VOCAB)) return qn_json_pull_fail(p, err, "model lacks its vocab");
    if (!(l->seen & HAS_MERGES)) return qn_json_pull_fail(p, err, "model lacks its merges");
    return l->merges_at ? read_waiting_merges(l, json, merges_end, err) : QN_OK;
}

/* ---- the two files ---------------------------------------------------------------------------------------
 */

static qn_status read_tokenizer_json(loader *l, const char *json, qn_error *err)
{
    qn_json_pull *p = &l->p;
    qn_json_event e;
    qn_status st = qn_json_pull_expect(p, QN_JSON_OBJECT_BEGIN, "a tokenizer", err);
    for (bool more; !st;) {
        if ((st = next_key(l, &more, err))) return st;
        if (!more) break;
        if (qn_json_pull_is(p, "model")) {
            if (!(st = once(l, HAS_MODEL, "model", err))) st = read_model(l, json, err);
        } else if (qn_json_pull_is(p, "normalizer")) {
            if (!(st = once(l, HAS_NORMALIZER, "normalizer", err))) st = read_normalizer(l, err);
        } else if (qn_json_pull_is(p, "pre_tokenizer")) {
            if (!(st = once(l, HAS_PRE, "pre_tokenizer", err))) st = read_pre_tokenizer(l, err);
        } else if (qn_json_pull_is(p, "added_tokens")) {
            if (!(st = once(l, HAS_ADDED, "added_tokens", err))) st = read_added_list(l, err);
        } else if (qn_json_pull_is(p, "post_processor")) {
            st = read_byte_level(l, "post_processor", err);
        } else if (qn_json_pull_is(p, "decoder")) {
            st = read_byte_level(l, "decoder", err);
        } else if (qn_json_pull_is(p, "version")) {
            st = must_be_string(l, "1.0", "version", err);
        } else if (qn_json_pull_is(p, "truncation") || qn_json_pull_is(p, "padding")) {
            st = qn_json_pull_skip(p, err);
        } else {
            st = unknown_key(l, "tokenizer", err);
        }
    }
    if (!st) st = qn_json_pull_next(p, &e, err); /* nothing may follow */
    if (st) return st;
    if (!(l->seen & HAS_MODEL)) return qn_json_pull_fail(p, err, "the tokenizer lacks its model");
    if (!(l->seen & HAS_NORMALIZER)) return qn_json_pull_fail(p, err, "the tokenizer lacks its normalizer");
    if (!(l->seen & HAS_PRE)) return qn_json_pull_fail(p, err, "the tokenizer lacks its pre_tokenizer");
    return QN_OK;
}

/* The value of bos_token and its like: null, a string, or an added token as an object. */
static qn_status read_role(loader *l, qn_buf *role, qn_error *err)
{
    qn_json_pull *p = &l->p;
    qn_json_event e;
    qn_status st = qn_json_pull_next(p, &e, err);
    if (st || e == QN_JSON_NULL) return st;
    qn_buf_reset(role);
    if (e == QN_JSON_STRING) {
        qn_buf_add(role, p->text, p->text_len);
        return qn_buf_status(role, "a token's name", err);
    }
    if (e != QN_JSON_OBJECT_BEGIN)
        return qn_json_pull_fail(p, err, "a token's name must be a string, found %s", qn_json_event_name(e));
    for (bool more;;) {
        if ((st = next_key(l, &more, err)) || !more) return st;
        if (!qn_json_pull_is(p, "content")) {
            st = qn_json_pull_skip(p, err);
        } else if (!(st = qn_json_pull_expect(p, QN_JSON_STRING, "the content of a token", err))) {
            qn_buf_reset(role);
            qn_buf_add(role, p->text, p->text_len);
            st = qn_buf_status(role, "a token's name", err);
        }
        if (st) return st;
    }
}

static const char *const role_keys[3] = {"bos_token", "eos_token", "pad_token"};

static qn_status read_config_key(loader *l, qn_error *err)
{
    qn_json_pull *p = &l->p;
    for (size_t i = 0; i < 3; i++)
        if (qn_json_pull_is(p, role_keys[i])) return read_role(l, &l->roles[i], err);
    if (qn_json_pull_is(p, "add_bos_token")) return must_be_bool(l, false, "add_bos_token", err);
    if (qn_json_pull_is(p, "add_eos_token")) return must_be_bool(l, false, "add_eos_token", err);
    if (qn_json_pull_is(p, "add_prefix_space")) return must_be_bool(l, false, "add_prefix_space", err);
    if (!qn_json_pull_is(p, "added_tokens_decoder")) return qn_json_pull_skip(p, err);
    qn_status st = qn_json_pull_expect(p, QN_JSON_OBJECT_BEGIN, "added_tokens_decoder", err);
    for (bool more; !st;) {
        uint64_t id = 0;
        char name[64];
        if ((st = next_key(l, &more, err)) || !more) return st;
        bool number = p->text_len > 0 && p->text_len < 8; /* 2^20 has seven digits */
        for (size_t i = 0; number && i < p->text_len; i++) {
            number = p->text[i] >= '0' && p->text[i] <= '9';
            id = id * 10 + (uint64_t)(p->text[i] - '0');
        }
        if (!number || id >= QN_VOCAB_MAX_IDS)
            return qn_json_pull_fail(p, err, "added_tokens_decoder has the id '%s', which is not in 0..%u",
                                     qn_printable(name, sizeof name, p->text, p->text_len),
                                     QN_VOCAB_MAX_IDS - 1);
        if ((st = qn_json_pull_expect(p, QN_JSON_OBJECT_BEGIN, "an added token", err))) return st;
        st = read_added(l, id, err);
    }
    return st;
}

static qn_status read_config(loader *l, qn_error *err)
{
    qn_json_event e;
    qn_status st = qn_json_pull_expect(&l->p, QN_JSON_OBJECT_BEGIN, "tokenizer_config", err);
    for (bool more; !st;) {
        if ((st = next_key(l, &more, err))) return st;
        if (!more) return qn_json_pull_next(&l->p, &e, err);
        st = read_config_key(l, err);
    }
    return st;
}

static qn_status find_roles(loader *l, qn_tokenizer *t, qn_error *err)
{
    int32_t *ids[3] = {&t->bos, &t->eos, &t->pad};
    for (size_t i = 0; i < 3; i++) {
        char name[64];
        if (!l->roles[i].data) continue;
        *ids[i] = strlen(l->roles[i].data) == l->roles[i].len ? qn_tokenizer_find(t, l->roles[i].data) : -1;
        if (*ids[i] < 0)
            return qn_fail(err, QN_CORRUPT, "tokenizer_config.json: %s '%s' is not in the vocabulary",
                           role_keys[i], qn_printable(name, sizeof name, l->roles[i].data, l->roles[i].len));
    }
    return QN_OK;
}

qn_status qn_tokenizer_parse(qn_tokenizer **out, const char *json, size_t json_len, const char *config,
                             size_t config_len, qn_error *err)
{
    loader l = {0};
    qn_tokenizer *t = NULL;
    *out = NULL;
    qn_buf_init(&l.name, 2 * QN_VOCAB_MAX_TOKEN_BYTES);
    for (size_t i = 0; i < 3; i++) qn_buf_init(&l.roles[i], QN_VOCAB_MAX_TOKEN_BYTES);
    qn_status st = qn_tok_builder_begin(&l.b, err);
    if (st) goto done;
    qn_json_pull_init(&l.p, json, json_len, 0);
    st = read_tokenizer_json(&l, json, err);
    qn_json_pull_deinit(&l.p);
    if (!st && config) {
        qn_json_pull_init(&l.p, config, config_len, 0);
        st = read_config(&l, err);
        qn_json_pull_deinit(&l.p);
        if (st) {
            qn_error_context(err, "tokenizer_config.json");
            goto done;
        }
    }
    if (!st) st = qn_tok_builder_finish(&l.b, &t, err);
    if (st) {
        qn_error_context(err, "tokenizer.json");
        goto done;
    }
    st = find_roles(&l, t, err);
    if (st) goto done;
    *out = t;
    t = NULL;
done:
    qn_tokenizer_close(t);
    qn_tok_builder_destroy(&l.b);
    qn_buf_deinit(&l.name);
    for (size_t i = 0; i < 3; i++) qn_buf_deinit(&l.roles[i]);
    return st;
}

static qn_status map_file(qn_map *m, const char *dir, const char *name, qn_error *err)
{
    char path[4096];
    int len = snprintf(path, sizeof path, "%s/%s", dir, name);
    if (len < 0 || (size_t)len >= sizeof path)
        return qn_fail(err, QN_INVALID, "the path of the folder is too long");
    qn_status st = qn_map_open(m, path, err);
    if (st || m->size <= QN_TOKENIZER_MAX_FILE) return st;
    return qn_fail(err, QN_TOO_LARGE, "%s: %zu bytes, the limit is %zu", path, m->size,
                   QN_TOKENIZER_MAX_FILE);
}

qn_status qn_tokenizer_open_dir(qn_tokenizer **out, const char *dir, qn_error *err)
{
    qn_map json = {0}, config = {0};
    qn_error reason;
    *out = NULL;
    qn_status st = map_file(&json, dir, "tokenizer.json", err);
    if (st) goto done;
    st = map_file(&config, dir, "tokenizer_config.json", &reason);
    if (st && st != QN_NOT_FOUND) {
        qn_fail(err, st, "%s", reason.msg);
        goto done;
    }
    /* An empty file is mapped to nothing, yet is not the same as no file. */
    const char *config_text = st == QN_NOT_FOUND ? NULL : config.size ? (const char *)config.base : "";
    st = qn_tokenizer_parse(out, (const char *)json.base, json.size, config_text, config.size, err);
    if (st) qn_error_context(err, "%s", dir);
done:
    qn_map_close(&json);
    qn_map_close(&config);
    return st;
}
