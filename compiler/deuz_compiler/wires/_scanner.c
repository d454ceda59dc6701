/* Go through a request body once: its members, its turns, what each turn is at a glance,
   and the digest that it is known by.

Rules:
- What is found is strict JSON (RFC 8259) in strict UTF-8, checked to the body's last byte.
- Whatever is unusual is given up, not judged: the caller reads it in another way, which
  also knows how to name a fault.
- No byte outside the body is read; a body may be followed by anything.
- Nothing is called recursively: depth is bounded by a constant, not by the stack.

Built without Python (`-DWITHOUT_PYTHON`) it is what the fuzzer calls.
*/
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#define WITH_AVX2 __attribute__((target("avx2")))
#endif
#define INLINE static inline __attribute__((always_inline))

#include "_hashing.h"

enum {
    MOST_DEPTH = 128,   /* Brackets within one value. */
    MOST_MEMBERS = 64,  /* Of the body itself. */
    MOST_NAMES = 12,
    MOST_ROLES = 15,
    NO_ROLE = MOST_ROLES,
    MOST_TYPES = 14,
    OTHER_TYPE = MOST_TYPES,
    NO_TYPE,
    MOST_MARKS = 4,
    MOST_KINDS = 64,
    NO_KIND = 255, /* Not at a glance: it is to be read. */
    FIRST_PLACE = 512, /* Where a body's start is known by a digest. */
    LEAST_APART = 1024,
};

/* How the value of a named member looks, three bits each. */
enum { ABSENT, NIL, BLANK_TEXT, TEXT, BLANK_LIST, LIST, OBJECT, OTHER };

/* Where in a signature it says which types the blocks of a content have, a bit for each,
   and whether there is more than one block. */
enum { TYPES_AT = 4 + 3 * MOST_NAMES, MANY_AT = TYPES_AT + NO_TYPE + 1 };

#define UNCLEAR ((int64_t)-1)

typedef struct {
    const uint8_t *text;
    size_t length;
} Word;

typedef struct {
    const uint8_t *text;
    size_t size;
    size_t at;
    int has_escape; /* In the string that was passed last. */
    int has_mark;   /* One of the marks was a name. */
    const Word *marks;
    size_t mark_count;
} Walk;

typedef struct {
    size_t key_start, key_end, start, end;
} Place;

typedef struct {
    uint64_t start, end;
    uint8_t kind; /* Which of the signatures it has. */
    uint8_t digest[DIGEST];
} Element;

typedef struct {
    Word history;
    Word names[MOST_NAMES]; /* The first is the role's, the second the content's. */
    size_t name_count;
    Word roles[MOST_ROLES];
    size_t role_count;
    Word types[MOST_TYPES]; /* Of blocks; none: lists are not looked into. */
    size_t type_count;
    Word marks[MOST_MARKS];
    size_t mark_count;
    Hashing hashing;
} Spec;

typedef struct {
    Place members[MOST_MEMBERS];
    size_t member_count;
    size_t before_count; /* Members ahead of the history. */
    size_t history_start, history_end;
    int64_t signatures[MOST_KINDS];
    size_t kind_count;
    Element *elements;
    size_t element_count, element_room;
} Found;

enum { WHOLE, BEHIND_BRACKET, BEHIND_TURN };
enum { GIVEN_UP, IS_FOUND, NO_MEMORY };

static int peek(const Walk *walk)
{
    return walk->at < walk->size ? walk->text[walk->at] : -1;
}

static int take(Walk *walk, int wanted)
{
    if (peek(walk) != wanted)
        return 0;
    walk->at++;
    return 1;
}

static void skip_space(Walk *walk)
{
    for (;;) {
        int c = peek(walk);
        /* Mostly there is none: that is one question in place of four. */
        if (c > ' ' || (c != ' ' && c != '\n' && c != '\t' && c != '\r'))
            return;
        walk->at++;
    }
}

static int is_same(Word word, const uint8_t *text, size_t length)
{
    return word.length == length && memcmp(word.text, text, length) == 0;
}

/* Return the length of the UTF-8 sequence of more than one byte here; 0 if it is none. */
static size_t sequence_length(const uint8_t *text, size_t left)
{
    uint8_t first = text[0], low = 0x80, high = 0xBF;
    size_t length;
    if (first >= 0xC2 && first <= 0xDF) {
        length = 2;
    } else if (first >= 0xE0 && first <= 0xEF) {
        length = 3;
        if (first == 0xE0)
            low = 0xA0;
        if (first == 0xED)
            high = 0x9F; /* No surrogates. */
    } else if (first >= 0xF0 && first <= 0xF4) {
        length = 4;
        if (first == 0xF0)
            low = 0x90;
        if (first == 0xF4)
            high = 0x8F;
    } else {
        return 0;
    }
    if (left < length || text[1] < low || text[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if (text[i] < 0x80 || text[i] > 0xBF)
            return 0;
    return length;
}

/* Return the number of four hexadecimal digits; -1 if there are none. */
static int four_digits(const uint8_t *text, size_t left)
{
    int value = 0;
    if (left < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int c = text[i], low = c | 0x20;
        if (c >= '0' && c <= '9')
            value = value * 16 + (c - '0');
        else if (low >= 'a' && low <= 'f')
            value = value * 16 + (low - 'a' + 10);
        else
            return -1;
    }
    return value;
}

/* A table, since text that is code is full of these: a jump would often be mispredicted. */
static const uint8_t SHORT_ESCAPES[256] = {
    ['"'] = 1, ['\\'] = 1, ['/'] = 1, ['b'] = 1, ['f'] = 1, ['n'] = 1, ['r'] = 1, ['t'] = 1,
};

/* Return the length of the escape here, a pair of surrogates as one; 0 if it is none. */
static size_t escape_length(const uint8_t *text, size_t left)
{
    int code;
    if (left < 2)
        return 0;
    if (SHORT_ESCAPES[text[1]])
        return 2;
    if (text[1] != 'u')
        return 0;
    code = four_digits(text + 2, left - 2);
    if (code < 0 || (code >= 0xDC00 && code <= 0xDFFF))
        return 0;
    if (code < 0xD800 || code > 0xDBFF)
        return 6;
    if (left < 12 || text[6] != '\\' || text[7] != 'u')
        return 0;
    code = four_digits(text + 8, left - 8);
    return code >= 0xDC00 && code <= 0xDFFF ? 12 : 0;
}

/* Return the length of what is not plain text of a string here; 0 if it may not stand. */
static size_t odd_length(Walk *walk, size_t at)
{
    const uint8_t *text = walk->text + at;
    if (*text == '\\') {
        walk->has_escape = 1;
        return escape_length(text, walk->size - at);
    }
    return *text >= 0x80 ? sequence_length(text, walk->size - at) : 0;
}

#ifdef __SSE2__
enum { BLOCK = 64 };

/* What stands where among the bytes of a block: the first has the lowest bit. */
typedef struct {
    uint64_t quotes, slashes;
    uint64_t ens;  /* The letter n, which most escapes end with that are no quotes. */
    uint64_t odds; /* What is no ASCII, and what may not stand in a string. */
} Marks;

INLINE uint64_t equal_16(__m128i piece, char wanted)
{
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(piece, _mm_set1_epi8(wanted)));
}

INLINE void mark_16(Marks *marks, const uint8_t *text, int at)
{
    __m128i piece = _mm_loadu_si128((const __m128i *)(text + at));
    /* Compared as signed: what is not ASCII is below a space, too. */
    __m128i odds = _mm_cmplt_epi8(piece, _mm_set1_epi8(0x20));
    marks->odds |= (uint64_t)(unsigned)_mm_movemask_epi8(odds) << at;
    marks->quotes |= equal_16(piece, '"') << at;
    marks->slashes |= equal_16(piece, '\\') << at;
    marks->ens |= equal_16(piece, 'n') << at;
}

INLINE Marks mark_block(const uint8_t *text)
{
    Marks marks = {0, 0, 0, 0};
    mark_16(&marks, text, 0);
    mark_16(&marks, text, 16);
    mark_16(&marks, text, 32);
    mark_16(&marks, text, 48);
    return marks;
}

/* Return what of a piece may not be passed by as it is: all that is marked but the n. */
INLINE __m128i marked_16(const uint8_t *text)
{
    __m128i piece = _mm_loadu_si128((const __m128i *)text);
    __m128i quotes = _mm_cmpeq_epi8(piece, _mm_set1_epi8('"'));
    __m128i slashes = _mm_cmpeq_epi8(piece, _mm_set1_epi8('\\'));
    __m128i odds = _mm_cmplt_epi8(piece, _mm_set1_epi8(0x20));
    return _mm_or_si128(_mm_or_si128(quotes, slashes), odds);
}

INLINE int is_plain(const uint8_t *text)
{
    __m128i first = _mm_or_si128(marked_16(text), marked_16(text + 16));
    __m128i second = _mm_or_si128(marked_16(text + 32), marked_16(text + 48));
    return !_mm_movemask_epi8(_mm_or_si128(first, second));
}

/* Return which bytes of a block are below this one, of those that are no ASCII. */
INLINE uint64_t high_below(const uint8_t *text, int byte)
{
    uint64_t bits = 0;
    for (int at = 0; at < BLOCK; at += 16) {
        __m128i piece = _mm_loadu_si128((const __m128i *)(text + at));
        __m128i below = _mm_cmplt_epi8(piece, _mm_set1_epi8((char)byte));
        bits |= (uint64_t)(unsigned)_mm_movemask_epi8(below) << at;
    }
    return bits;
}

WITH_AVX2 INLINE uint64_t equal_32(__m256i piece, char wanted)
{
    __m256i equal = _mm256_cmpeq_epi8(piece, _mm256_set1_epi8(wanted));
    return (unsigned)_mm256_movemask_epi8(equal);
}

WITH_AVX2 INLINE void mark_32(Marks *marks, const uint8_t *text, int at)
{
    __m256i piece = _mm256_loadu_si256((const __m256i *)(text + at));
    __m256i odds = _mm256_cmpgt_epi8(_mm256_set1_epi8(0x20), piece);
    marks->odds |= (uint64_t)(unsigned)_mm256_movemask_epi8(odds) << at;
    marks->quotes |= equal_32(piece, '"') << at;
    marks->slashes |= equal_32(piece, '\\') << at;
    marks->ens |= equal_32(piece, 'n') << at;
}

WITH_AVX2 INLINE Marks mark_block_avx2(const uint8_t *text)
{
    Marks marks = {0, 0, 0, 0};
    mark_32(&marks, text, 0);
    mark_32(&marks, text, 32);
    return marks;
}

WITH_AVX2 INLINE __m256i marked_32(const uint8_t *text)
{
    __m256i piece = _mm256_loadu_si256((const __m256i *)text);
    __m256i quotes = _mm256_cmpeq_epi8(piece, _mm256_set1_epi8('"'));
    __m256i slashes = _mm256_cmpeq_epi8(piece, _mm256_set1_epi8('\\'));
    __m256i odds = _mm256_cmpgt_epi8(_mm256_set1_epi8(0x20), piece);
    return _mm256_or_si256(_mm256_or_si256(quotes, slashes), odds);
}

WITH_AVX2 INLINE int is_plain_avx2(const uint8_t *text)
{
    return !_mm256_movemask_epi8(_mm256_or_si256(marked_32(text), marked_32(text + 32)));
}

WITH_AVX2 INLINE uint64_t high_below_avx2(const uint8_t *text, int byte)
{
    const __m256i *pieces = (const __m256i *)text;
    __m256i bound = _mm256_set1_epi8((char)byte);
    __m256i first = _mm256_cmpgt_epi8(bound, _mm256_loadu_si256(pieces));
    __m256i second = _mm256_cmpgt_epi8(bound, _mm256_loadu_si256(pieces + 1));
    return (unsigned)_mm256_movemask_epi8(first)
           | (uint64_t)(unsigned)_mm256_movemask_epi8(second) << 32;
}

/* Return the bits below the lowest one; all of them if there is none. */
INLINE uint64_t below_lowest(uint64_t bits)
{
    return (bits & (0 - bits)) - 1;
}

/* Return what is escaped, by a subtraction that goes through each row of backslashes at
   once: from each that starts at an even place every second one is left, and so on. */
INLINE uint64_t escaped_among(uint64_t slashes, uint64_t *escapes)
{
    const uint64_t every_second = 0xAAAAAAAAAAAAAAAAu;
    uint64_t both = (((slashes << 1) | every_second) - slashes) ^ every_second;
    *escapes = both & slashes;
    return both ^ slashes;
}

enum { FAULT, ENDED, GOES_ON };

/* Pass what is left of a string in a block, one odd thing after the other. */
static int skip_odds(Walk *walk, uint64_t quotes, uint64_t odds)
{
    size_t done = 0;
    uint64_t ahead;
    while ((ahead = odds & below_lowest(quotes)) != 0) {
        size_t place = (size_t)__builtin_ctzll(ahead);
        size_t length = odd_length(walk, walk->at + place);
        if (!length)
            return FAULT;
        done = place + length;
        /* A quote that is escaped is no end. */
        odds &= done < BLOCK ? ~(uint64_t)0 << done : 0;
        quotes &= done < BLOCK ? ~(uint64_t)0 << done : 0;
    }
    if (quotes) {
        walk->at += (size_t)__builtin_ctzll(quotes) + 1;
        return ENDED;
    }
    walk->at += done > BLOCK ? done : BLOCK;
    return GOES_ON;
}

/* What is told of the characters of a block that are no ASCII. */
typedef struct {
    uint64_t high;  /* What is no ASCII. */
    uint64_t wrong; /* Where it is no UTF-8. */
    uint64_t open;  /* Where one begins that ends in the next block. */
} Sequences;

/* Look at a block, which begins with a character, as `sequence_length` does at each. */
INLINE Sequences judge_sequences(const uint8_t *text,
                                 uint64_t (*below)(const uint8_t *, int))
{
    Sequences told;
    uint64_t high = told.high = below(text, 0), follows = below(text, 0xC0);
    uint64_t from_c2 = ~below(text, 0xC2), from_e0 = ~below(text, 0xE0);
    uint64_t four = high & ~below(text, 0xF0), three = high & from_e0;
    uint64_t two = high & from_c2;
    uint64_t e0 = from_e0 & below(text, 0xE1), ed = ~below(text, 0xED) & below(text, 0xEE);
    told.wrong = (follows ^ (two << 1 | three << 2 | four << 3)) | (high & ~follows & ~two);
    told.open = (two >> 63 << 63) | (three >> 62 << 62) | (four >> 61 << 61);
    if (e0 | ed | four) {
        /* Of some only part of what may follow others: no longer spelling than is needed,
           no surrogate, nothing past the last character. */
        uint64_t from_90 = ~below(text, 0x90), from_a0 = ~below(text, 0xA0);
        uint64_t f0 = four & below(text, 0xF1), f4 = four & ~below(text, 0xF4);
        told.wrong |= (four & ~below(text, 0xF5)) | (e0 << 1 & ~from_a0)
                      | (ed << 1 & from_a0) | (f0 << 1 & ~from_90) | (f4 << 1 & from_90);
    }
    return told;
}

/* Not inlined: plain text has the registers for itself. */
__attribute__((noinline)) static Sequences judge_block(const uint8_t *text)
{
    return judge_sequences(text, high_below);
}

WITH_AVX2 __attribute__((noinline)) static Sequences judge_block_avx2(const uint8_t *text)
{
    return judge_sequences(text, high_below_avx2);
}

/* Pass blocks of a string: up to behind its quote, or where less than a block is left. */
INLINE int skip_marked(Walk *walk, int (*plain)(const uint8_t *),
                       Marks (*mark)(const uint8_t *), Sequences (*judge)(const uint8_t *))
{
    if (walk->size - walk->at < BLOCK)
        return GOES_ON;
    /* In registers: what is written to the walk would be read from it for each block. */
    const uint8_t *text = walk->text + walk->at, *last = walk->text + walk->size - BLOCK;
    uint64_t seen = 0; /* Backslashes. */
    int how = GOES_ON;
    while (text <= last) {
        /* Most are nothing but letters: what else they may be is not asked then. */
        if (plain(text)) {
            text += BLOCK;
            continue;
        }
        Marks marks = mark(text);
        uint64_t escapes, escaped = escaped_among(marks.slashes, &escapes);
        uint64_t ends = marks.quotes & ~escaped, inside = below_lowest(ends);
        uint64_t odds = escaped & ~(marks.quotes | marks.slashes | marks.ens);
        uint64_t open = 0;
        if ((odds | marks.odds) & inside) {
            Sequences told = judge(text);
            uint64_t wrong = (odds | (marks.odds & ~told.high)) & inside;
            /* So is a quote where a character is to go on. */
            if (wrong | (told.wrong & (inside << 1 | 1))) {
                walk->at = (size_t)(text - walk->text);
                how = skip_odds(walk, marks.quotes, marks.odds | marks.slashes);
                text = walk->text + walk->at;
                if (how != GOES_ON)
                    break;
                continue;
            }
            open = told.open;
        }
        seen |= marks.slashes & inside;
        if (ends) {
            text += (size_t)__builtin_ctzll(ends) + 1;
            how = ENDED;
            break;
        }
        if (open)
            text += (size_t)__builtin_ctzll(open);
        else /* What a last backslash escapes is in the next block. */
            text += BLOCK - (escapes >> 63);
    }
    walk->has_escape |= seen != 0;
    walk->at = (size_t)(text - walk->text);
    return how;
}

static int skip_blocks_plainly(Walk *walk)
{
    return skip_marked(walk, is_plain, mark_block, judge_block);
}

WITH_AVX2 static int skip_blocks_avx2(Walk *walk)
{
    return skip_marked(walk, is_plain_avx2, mark_block_avx2, judge_block_avx2);
}

/* What the processor can; it is asked once. */
static int (*skip_blocks)(Walk *) = skip_blocks_plainly;

/* Pass a string that ends within 16 bytes, as names do; 0 if it is not so plain. */
INLINE int skip_short(Walk *walk)
{
    Marks marks = {0, 0, 0, 0};
    if (walk->size - walk->at < 16)
        return 0;
    mark_16(&marks, walk->text + walk->at, 0);
    if (!marks.quotes || ((marks.odds | marks.slashes) & below_lowest(marks.quotes)))
        return 0;
    walk->at += (size_t)__builtin_ctzll(marks.quotes) + 1;
    return 1;
}
#endif

static int holds_plainly(const uint8_t *text, size_t size, Word word)
{
    const uint8_t *end = text + size;
    while ((size_t)(end - text) >= word.length) {
        text = memchr(text, word.text[0], (size_t)(end - text) - word.length + 1);
        if (!text)
            return 0;
        if (memcmp(text, word.text, word.length) == 0)
            return 1;
        text++;
    }
    return 0;
}

#ifdef __SSE2__
INLINE uint64_t equal_block(const uint8_t *text, uint8_t wanted)
{
    uint64_t bits = 0;
    for (int at = 0; at < BLOCK; at += 16) {
        __m128i piece = _mm_loadu_si128((const __m128i *)(text + at));
        bits |= equal_16(piece, (char)wanted) << at;
    }
    return bits;
}

WITH_AVX2 INLINE uint64_t equal_block_avx2(const uint8_t *text, uint8_t wanted)
{
    const __m256i *pieces = (const __m256i *)text;
    return equal_32(_mm256_loadu_si256(pieces), (char)wanted)
           | equal_32(_mm256_loadu_si256(pieces + 1), (char)wanted) << 32;
}

/* Look for the word where its first letter and another are in their places: its last, or
   a letter that texts seldom have. */
INLINE int holds_in_blocks(const uint8_t *text, size_t size, Word word,
                           uint64_t (*equal)(const uint8_t *, uint8_t))
{
    const uint8_t *rare = memchr(word.text, '_', word.length);
    size_t at = 0, behind = rare ? (size_t)(rare - word.text) : word.length - 1;
    for (; size >= at + BLOCK + word.length - 1; at += BLOCK) {
        const uint8_t *block = text + at;
        uint64_t places = equal(block, word.text[0]);
        places &= equal(block + behind, word.text[behind]);
        for (; places; places &= places - 1)
            if (!memcmp(block + __builtin_ctzll(places), word.text, word.length))
                return 1;
    }
    return holds_plainly(text + at, size - at, word);
}

static int holds_by_sse2(const uint8_t *text, size_t size, Word word)
{
    return holds_in_blocks(text, size, word, equal_block);
}

WITH_AVX2 static int holds_by_avx2(const uint8_t *text, size_t size, Word word)
{
    return holds_in_blocks(text, size, word, equal_block_avx2);
}

static int (*holds_word)(const uint8_t *, size_t, Word) = holds_by_sse2;
#else
static int (*holds_word)(const uint8_t *, size_t, Word) = holds_plainly;
#endif

/* To be called first: what is there to be used. */
static void ask_processor(void)
{
#ifdef __SSE2__
    if (__builtin_cpu_supports("avx2")) {
        skip_blocks = skip_blocks_avx2;
        add_stripes = add_stripes_avx2;
        holds_word = holds_by_avx2;
    }
#endif
}

/* Pass what is left of a string, with its quote. */
__attribute__((noinline)) static int skip_text(Walk *walk)
{
#ifdef __SSE2__
    int how = skip_blocks(walk);
    if (how != GOES_ON)
        return how == ENDED;
#endif
    while (walk->at < walk->size) {
        uint8_t c = walk->text[walk->at];
        size_t length = 1;
        if (c == '"') {
            walk->at++;
            return 1;
        }
        if (c < 0x20 || c >= 0x80 || c == '\\')
            length = odd_length(walk, walk->at);
        if (!length)
            return 0;
        walk->at += length;
    }
    return 0;
}

INLINE int skip_string(Walk *walk)
{
    if (!take(walk, '"'))
        return 0;
    walk->has_escape = 0;
#ifdef __SSE2__
    if (skip_short(walk))
        return 1;
#endif
    return skip_text(walk);
}

static int skip_digits(Walk *walk)
{
    size_t start = walk->at;
    for (;;) {
        int c = peek(walk);
        if (c < '0' || c > '9')
            return walk->at > start;
        walk->at++;
    }
}

static int skip_number(Walk *walk)
{
    take(walk, '-');
    if (!take(walk, '0') && !skip_digits(walk))
        return 0;
    if (take(walk, '.') && !skip_digits(walk))
        return 0;
    if (take(walk, 'e') || take(walk, 'E')) {
        if (!take(walk, '+'))
            take(walk, '-');
        return skip_digits(walk);
    }
    return 1;
}

static int skip_word(Walk *walk, const char *word, size_t length)
{
    if (walk->size - walk->at < length || memcmp(walk->text + walk->at, word, length))
        return 0;
    walk->at += length;
    return 1;
}

/* Pass the name of a member and its colon. */
static int skip_name(Walk *walk, Word *name)
{
    name->text = walk->text + walk->at + 1;
    if (!skip_string(walk))
        return 0;
    name->length = (size_t)(walk->text + walk->at - 1 - name->text);
    for (size_t i = 0; i < walk->mark_count; i++)
        if (is_same(walk->marks[i], name->text, name->length))
            walk->has_mark = 1;
    skip_space(walk);
    if (!take(walk, ':'))
        return 0;
    skip_space(walk);
    return 1;
}

static int skip_scalar(Walk *walk)
{
    switch (peek(walk)) {
    case '"':
        return skip_string(walk);
    case 't':
        return skip_word(walk, "true", 4);
    case 'f':
        return skip_word(walk, "false", 5);
    case 'n':
        return skip_word(walk, "null", 4);
    default:
        return skip_number(walk);
    }
}

/* Pass the value that starts here, blanks around it not among its bytes. */
static int skip_value(Walk *walk)
{
    uint8_t closers[MOST_DEPTH];
    size_t depth = 0;
    Word name;
    for (;;) {
        int opener = peek(walk);
        if (opener == '{' || opener == '[') {
            int closer = opener == '{' ? '}' : ']';
            walk->at++;
            skip_space(walk);
            if (!take(walk, closer)) {
                if (depth == MOST_DEPTH)
                    return 0;
                closers[depth++] = (uint8_t)closer;
                if (closer == '}' && !skip_name(walk, &name))
                    return 0;
                continue;
            }
        } else if (!skip_scalar(walk)) {
            return 0;
        }
        /* Behind a value: the ends of what it stands in, or the next one. */
        for (;;) {
            if (!depth)
                return 1;
            skip_space(walk);
            if (take(walk, ','))
                break;
            if (!take(walk, closers[depth - 1]))
                return 0;
            depth--;
        }
        skip_space(walk);
        if (closers[depth - 1] == '}' && !skip_name(walk, &name))
            return 0;
    }
}

static int looks_like(const uint8_t *value, size_t length)
{
    switch (value[0]) {
    case 'n':
        return NIL;
    case '"':
        return length == 2 ? BLANK_TEXT : TEXT;
    case '[':
        return length == 2 ? BLANK_LIST : LIST;
    case '{':
        return OBJECT;
    default:
        return OTHER;
    }
}

/* Return which of the words this text is; their number if it is none. */
static size_t index_of(const Word *words, size_t count, const uint8_t *text, size_t length)
{
    size_t index = 0;
    while (index < count && !is_same(words[index], text, length))
        index++;
    return index;
}

static int64_t role_in(const Spec *spec, const uint8_t *value, size_t length)
{
    size_t role = spec->role_count;
    if (value[0] == '"')
        role = index_of(spec->roles, spec->role_count, value + 1, length - 2);
    return role < spec->role_count ? (int64_t)role : NO_ROLE;
}

/* What is told of the blocks of a content. */
typedef struct {
    int64_t types;
    size_t count;
    int is_unclear;
} Blocks;

/* Pass a block and note its type. */
static int skip_block(Walk *walk, const Spec *spec, Blocks *blocks)
{
    static const Word type_word = {(const uint8_t *)"type", 4};
    size_t type = NO_TYPE;
    blocks->count++;
    if (peek(walk) != '{') {
        blocks->is_unclear = 1;
        return skip_value(walk);
    }
    walk->at++;
    skip_space(walk);
    while (!take(walk, '}')) {
        const uint8_t *value;
        Word name;
        if (!skip_name(walk, &name))
            return 0;
        /* An escape may spell the word, or the type. */
        blocks->is_unclear |= walk->has_escape;
        value = walk->text + walk->at;
        if (!skip_value(walk))
            return 0;
        if (is_same(type_word, name.text, name.length)) {
            size_t length = (size_t)(walk->text + walk->at - value);
            blocks->is_unclear |= type != NO_TYPE || *value != '"' || walk->has_escape;
            type = OTHER_TYPE;
            if (*value == '"')
                type = index_of(spec->types, spec->type_count, value + 1, length - 2);
            if (type == spec->type_count)
                type = OTHER_TYPE;
        }
        skip_space(walk);
        if (peek(walk) != '}') {
            if (!take(walk, ','))
                return 0;
            skip_space(walk);
            /* No closing bracket behind a comma. */
            if (peek(walk) != '"')
                return 0;
        }
    }
    blocks->types |= (int64_t)1 << type;
    return 1;
}

/* Pass a list of blocks. */
static int skip_content(Walk *walk, const Spec *spec, Blocks *blocks)
{
    walk->at++;
    skip_space(walk);
    if (take(walk, ']'))
        return 1;
    for (;;) {
        if (!skip_block(walk, spec, blocks))
            return 0;
        skip_space(walk);
        if (take(walk, ']'))
            return 1;
        if (!take(walk, ','))
            return 0;
        skip_space(walk);
    }
}

/* Pass a turn and note what its named members look like. */
static int skip_turn(Walk *walk, const Spec *spec, int64_t *signature)
{
    int64_t seen = 0, role = NO_ROLE;
    Blocks blocks = {0, 0, 0};
    int is_unclear = 0;
    *signature = UNCLEAR;
    walk->has_mark = 0;
    if (!spec->name_count || peek(walk) != '{')
        return skip_value(walk);
    walk->at++;
    skip_space(walk);
    if (take(walk, '}'))
        return 1;
    for (;;) {
        size_t start, name;
        Word word;
        if (!skip_name(walk, &word))
            return 0;
        /* An escape may spell any of the names. */
        is_unclear |= walk->has_escape;
        name = index_of(spec->names, spec->name_count, word.text, word.length);
        start = walk->at;
        if (name == 1 && spec->type_count && peek(walk) == '[') {
            if (!skip_content(walk, spec, &blocks))
                return 0;
        } else if (!skip_value(walk)) {
            return 0;
        }
        if (name < spec->name_count) {
            const uint8_t *value = walk->text + start;
            int shift = 4 + 3 * (int)name;
            is_unclear |= (int)(seen >> shift & 7);
            seen |= (int64_t)looks_like(value, walk->at - start) << shift;
            if (!name)
                role = role_in(spec, value, walk->at - start);
        }
        skip_space(walk);
        if (take(walk, '}'))
            break;
        if (!take(walk, ','))
            return 0;
        skip_space(walk);
    }
    /* In blocks, marks may stand that are not rendered. */
    is_unclear |= blocks.is_unclear | (blocks.count && walk->has_mark);
    if (!is_unclear && role != NO_ROLE)
        *signature = seen | role | blocks.types << TYPES_AT
                     | (int64_t)(blocks.count > 1) << MANY_AT;
    return 1;
}

static uint8_t kind_of(Found *found, int64_t signature)
{
    size_t kind = 0;
    if (signature == UNCLEAR)
        return NO_KIND;
    while (kind < found->kind_count && found->signatures[kind] != signature)
        kind++;
    if (kind == MOST_KINDS)
        return NO_KIND;
    if (kind == found->kind_count)
        found->signatures[found->kind_count++] = signature;
    return (uint8_t)kind;
}

/* Keep the turn that was passed; of one that is to be read, the digest is not made. */
static int note_element(const Walk *walk, const Spec *spec, Found *found, size_t start,
                        int64_t signature)
{
    size_t size = walk->at - start;
    Element *element;
    if (found->element_count == found->element_room) {
        size_t room = found->element_room ? found->element_room * 4 : 64;
        Element *larger = realloc(found->elements, room * sizeof *larger);
        if (!larger)
            return NO_MEMORY;
        found->elements = larger;
        found->element_room = room;
    }
    element = &found->elements[found->element_count++];
    *element = (Element){start, walk->at, NO_KIND, {0}};
    if (size >= LEAST_HASHED)
        element->kind = kind_of(found, signature);
    if (element->kind != NO_KIND)
        hash_text(&spec->hashing, walk->text + start, size, element->digest);
    return IS_FOUND;
}

/* Pass the history's turns and its closing bracket. */
static int scan_history(Walk *walk, const Spec *spec, Found *found, int is_behind_turn)
{
    skip_space(walk);
    if (!take(walk, ']')) {
        if (is_behind_turn && !take(walk, ','))
            return GIVEN_UP;
        for (;;) {
            int64_t signature;
            size_t start;
            int status;
            skip_space(walk);
            start = walk->at;
            if (!skip_turn(walk, spec, &signature))
                return GIVEN_UP;
            status = note_element(walk, spec, found, start, signature);
            if (status != IS_FOUND)
                return status;
            skip_space(walk);
            if (take(walk, ']'))
                break;
            if (!take(walk, ','))
                return GIVEN_UP;
        }
    }
    found->history_end = walk->at;
    return IS_FOUND;
}

/* Pass one member of the body; the history's turns are looked at one by one. */
static int scan_member(Walk *walk, const Spec *spec, Found *found)
{
    Place place;
    place.key_start = walk->at + 1;
    if (!skip_string(walk) || walk->has_escape)
        return GIVEN_UP;
    place.key_end = walk->at - 1;
    skip_space(walk);
    if (!take(walk, ':'))
        return GIVEN_UP;
    skip_space(walk);
    place.start = walk->at;
    if (is_same(spec->history, walk->text + place.key_start,
                place.key_end - place.key_start)) {
        if (found->history_start || !take(walk, '['))
            return GIVEN_UP;
        found->history_start = place.start;
        found->before_count = found->member_count;
        return scan_history(walk, spec, found, 0);
    }
    if (!skip_value(walk) || found->member_count == MOST_MEMBERS)
        return GIVEN_UP;
    place.end = walk->at;
    found->members[found->member_count++] = place;
    return IS_FOUND;
}

/* Scan from `walk->at` on, which `from` says to be the body's start or in its history. */
static int scan_body(Walk *walk, const Spec *spec, int from, Found *found)
{
    int status;
    memset(found, 0, sizeof *found);
    if (from == WHOLE) {
        skip_space(walk);
        if (!take(walk, '{'))
            return GIVEN_UP;
        skip_space(walk);
        status = scan_member(walk, spec, found);
    } else {
        status = scan_history(walk, spec, found, from == BEHIND_TURN);
        found->history_start = 1; /* It must not come again. */
    }
    while (status == IS_FOUND) {
        skip_space(walk);
        if (take(walk, '}'))
            break;
        if (!take(walk, ','))
            return GIVEN_UP;
        skip_space(walk);
        status = scan_member(walk, spec, found);
    }
    if (status != IS_FOUND)
        return status;
    skip_space(walk);
    return walk->at == walk->size && found->history_start ? IS_FOUND : GIVEN_UP;
}

/* Return the place behind this one: within twice the size there are eight, which are a
   kilobyte apart at least. The places are those of `starts.py`. */
static size_t place_behind(size_t place)
{
    size_t apart;
    if (place < LEAST_APART)
        return place * 2;
    /* An eighth of the largest power of two in it. */
    apart = (size_t)1 << (63 - __builtin_clzll(place)) >> 3;
    return place + (apart > LEAST_APART ? apart : LEAST_APART);
}

/* Write the digests of a body's starts; `link` holds the first one, and has room for two. */
static void write_starts(const Hashing *hashing, uint8_t *link, const uint8_t *body,
                         size_t size, uint8_t *digests)
{
    size_t start = 0;
    for (size_t place = FIRST_PLACE; place <= size; place = place_behind(place)) {
        hash_text(hashing, body + start, place - start, link + DIGEST);
        hash_text(hashing, link, 2 * DIGEST, link);
        memcpy(digests, link, DIGEST);
        digests += DIGEST;
        start = place;
    }
}

/* Read words that a NUL each ends; return how many there are, at most `most`. */
static size_t read_words(Word text, Word *words, size_t most)
{
    size_t count = 0, start = 0;
    for (size_t at = 0; at < text.length && count < most; at++) {
        if (text.text[at])
            continue;
        words[count++] = (Word){text.text + start, at - start};
        start = at + 1;
    }
    return count;
}

static void read_spec(Spec *spec, Word history, Word names, Word roles, Word types,
                      Word marks)
{
    spec->history = history;
    spec->name_count = read_words(names, spec->names, MOST_NAMES);
    spec->role_count = read_words(roles, spec->roles, MOST_ROLES);
    spec->type_count = read_words(types, spec->types, MOST_TYPES);
    spec->mark_count = read_words(marks, spec->marks, MOST_MARKS);
}

static Walk begin_walk(const Spec *spec, const uint8_t *body, size_t size, size_t at)
{
    return (Walk){body, size, at, 0, 0, spec->marks, spec->mark_count};
}

#ifndef WITHOUT_PYTHON
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

enum { SCOPE = 8 }; /* Bytes that a key begins with. */

/* Tell whether a call has so many arguments. Each is taken by itself: what takes them
   all by a format makes a tuple of them first, which is dearer than all of these. */
static int has_given(Py_ssize_t count, Py_ssize_t expected)
{
    if (count != expected)
        PyErr_Format(PyExc_TypeError, "%zd arguments, not %zd", count, expected);
    return count == expected;
}

static int take_text(PyObject *given, Word *text)
{
    char *start;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(given, &start, &size) < 0)
        return 0;
    *text = (Word){(const uint8_t *)start, (size_t)size};
    return 1;
}

static int take_number(PyObject *given, Py_ssize_t *number)
{
    *number = PyLong_AsSsize_t(given);
    return *number != -1 || !PyErr_Occurred();
}

static int is_part(Py_ssize_t start, Py_ssize_t end, Word text)
{
    return start >= 0 && start <= end && end <= (Py_ssize_t)text.length;
}

/* Put the value into the tuple; it is the tuple's from now on, or nobody's. */
static int put(PyObject *tuple, Py_ssize_t at, PyObject *value)
{
    if (!value)
        return 0;
    return PyTuple_SetItem(tuple, at, value) == 0;
}

static PyObject *as_members(const Walk *walk, const Place *places, size_t count)
{
    PyObject *members = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; members && i < count; i++) {
        const Place *place = &places[i];
        PyObject *member = Py_BuildValue(
            "(s#nn)", (const char *)walk->text + place->key_start,
            (Py_ssize_t)(place->key_end - place->key_start), (Py_ssize_t)place->start,
            (Py_ssize_t)place->end);
        if (!put(members, (Py_ssize_t)i, member))
            Py_CLEAR(members);
    }
    return members;
}

/* Return bytes for so many entries of that size, to be written now. */
static PyObject *column(size_t count, size_t size, uint8_t **text)
{
    PyObject *column = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count * size));
    *text = column ? (uint8_t *)PyBytes_AsString(column) : NULL;
    return column;
}

/* Return a turn's likely tokens from its length, as `quick_tokens` does in lifting.py. */
static uint32_t tokens_of(const Element *element)
{
    return (uint32_t)((element->end - element->start) * 10 / 37 + 1);
}

/* Return places, kinds, tokens and digests of the turns, each of these packed. */
static PyObject *as_columns(const Found *found)
{
    uint8_t *places, *kinds, *tokens, *digests;
    size_t count = found->element_count;
    PyObject *columns[4] = {column(count, sizeof(uint64_t[2]), &places),
                            column(count, 1, &kinds),
                            column(count, sizeof(uint32_t), &tokens),
                            column(count, DIGEST, &digests)};
    for (size_t i = 0; places && kinds && tokens && digests && i < count; i++) {
        const Element *element = &found->elements[i];
        uint64_t place[2] = {element->start, element->end};
        uint32_t likely = tokens_of(element);
        memcpy(places + i * sizeof place, place, sizeof place);
        kinds[i] = element->kind;
        memcpy(tokens + i * sizeof likely, &likely, sizeof likely);
        memcpy(digests + i * DIGEST, element->digest, DIGEST);
    }
    /* It takes over all four, and makes nothing of them if one is missing. */
    return Py_BuildValue("(NNNN)", columns[0], columns[1], columns[2], columns[3]);
}

static PyObject *as_signatures(const Found *found)
{
    PyObject *signatures = PyTuple_New((Py_ssize_t)found->kind_count);
    for (size_t i = 0; signatures && i < found->kind_count; i++)
        if (!put(signatures, (Py_ssize_t)i, PyLong_FromLongLong(found->signatures[i])))
            Py_CLEAR(signatures);
    return signatures;
}

static PyObject *as_result(const Walk *walk, const Found *found)
{
    return Py_BuildValue(
        "(NnnNNN)", as_members(walk, found->members, found->before_count),
        (Py_ssize_t)found->history_start, (Py_ssize_t)found->history_end,
        as_members(walk, found->members + found->before_count,
                   found->member_count - found->before_count),
        as_signatures(found), as_columns(found));
}

static PyObject *scan(PyObject *module, PyObject *const *given, Py_ssize_t given_count)
{
    Word body, words[5];
    Py_ssize_t at, from;
    int status;
    PyObject *result = NULL;
    Found found;
    Spec spec;
    (void)module;
    if (!has_given(given_count, 9) || !take_text(given[0], &body)
        || !take_number(given[1], &at) || !take_number(given[2], &from))
        return NULL;
    for (int i = 0; i < 5; i++)
        if (!take_text(given[3 + i], &words[i]))
            return NULL;
    unsigned long long seed = PyLong_AsUnsignedLongLong(given[8]);
    if (seed == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    if (at < 0 || at > (Py_ssize_t)body.length) {
        PyErr_SetString(PyExc_ValueError, "at: not a place in the body");
        return NULL;
    }
    read_spec(&spec, words[0], words[1], words[2], words[3], words[4]);
    spec.hashing = hashing_with(seed);
    Walk walk = begin_walk(&spec, body.text, body.length, (size_t)at);
    status = scan_body(&walk, &spec, (int)from, &found);
    if (status == IS_FOUND)
        result = as_result(&walk, &found);
    else if (status == NO_MEMORY)
        PyErr_NoMemory();
    else
        result = Py_NewRef(Py_None);
    free(found.elements);
    return result;
}

/* Return one key for each digest: the scope, then a hash of the last such and of it. */
static PyObject *links(PyObject *module, PyObject *const *given, Py_ssize_t given_count)
{
    Word scope, first, digests;
    uint8_t key[SCOPE + DIGEST], text[2 * DIGEST];
    Py_ssize_t count;
    PyObject *keys;
    (void)module;
    if (!has_given(given_count, 3) || !take_text(given[0], &scope)
        || !take_text(given[1], &first) || !take_text(given[2], &digests))
        return NULL;
    if (scope.length != SCOPE || first.length != DIGEST || digests.length % DIGEST) {
        PyErr_SetString(PyExc_ValueError, "links: not a scope, a link and digests");
        return NULL;
    }
    count = (Py_ssize_t)(digests.length / DIGEST);
    keys = PyTuple_New(count);
    Hashing hashing = hashing_with(0);
    memcpy(key, scope.text, SCOPE);
    memcpy(key + SCOPE, first.text, DIGEST);
    for (Py_ssize_t i = 0; keys && i < count; i++) {
        memcpy(text, key + SCOPE, DIGEST);
        memcpy(text + DIGEST, digests.text + i * DIGEST, DIGEST);
        hash_text(&hashing, text, sizeof text, key + SCOPE);
        if (!put(keys, i, PyBytes_FromStringAndSize((const char *)key, sizeof key)))
            Py_CLEAR(keys);
    }
    return keys;
}

/* Return packed digests of the body's starts at fixed places, each of the last such and
   of a digest of what stands between. */
static PyObject *starts(PyObject *module, PyObject *const *given, Py_ssize_t given_count)
{
    Word first, body;
    uint8_t text[2 * DIGEST], *digests;
    size_t count = 0;
    PyObject *packed;
    (void)module;
    if (!has_given(given_count, 2) || !take_text(given[0], &first)
        || !take_text(given[1], &body))
        return NULL;
    if (first.length != DIGEST) {
        PyErr_SetString(PyExc_ValueError, "starts: not a link");
        return NULL;
    }
    for (size_t place = FIRST_PLACE; place <= body.length; place = place_behind(place))
        count++;
    packed = column(count, DIGEST, &digests);
    if (packed) {
        Hashing hashing = hashing_with(0);
        memcpy(text, first.text, DIGEST);
        write_starts(&hashing, text, body.text, body.length, digests);
    }
    return packed;
}

/* Return the digest of the body's start that ends there: of the digest at the last place
   ahead and of one of what stands behind it. None of so little that it is hashed in other
   ways. */
static PyObject *start_digest(PyObject *module, PyObject *const *given,
                              Py_ssize_t given_count)
{
    Word root, packed, body;
    Py_ssize_t end;
    size_t start = 0, count = 0;
    uint8_t text[2 * DIGEST], link[DIGEST];
    (void)module;
    if (!has_given(given_count, 4) || !take_text(given[0], &root)
        || !take_text(given[1], &packed) || !take_text(given[2], &body)
        || !take_number(given[3], &end))
        return NULL;
    if (root.length != DIGEST || packed.length % DIGEST || !is_part(0, end, body)) {
        PyErr_SetString(PyExc_ValueError, "start_digest: not a link, starts and a body");
        return NULL;
    }
    for (size_t place = FIRST_PLACE; place <= (size_t)end; place = place_behind(place)) {
        if (count == packed.length / DIGEST)
            break;
        start = place;
        count++;
    }
    if ((size_t)end - start < LEAST_HASHED)
        Py_RETURN_NONE;
    Hashing hashing = hashing_with(0);
    memcpy(text, count ? packed.text + (count - 1) * DIGEST : root.text, DIGEST);
    hash_text(&hashing, body.text + start, (size_t)end - start, text + DIGEST);
    hash_text(&hashing, text, sizeof text, link);
    return PyBytes_FromStringAndSize((const char *)link, DIGEST);
}

/* Return the first half of each of these digests, one behind the other. */
static PyObject *halved(PyObject *module, PyObject *const *given, Py_ssize_t given_count)
{
    Word digests;
    uint8_t *out;
    (void)module;
    if (!has_given(given_count, 1) || !take_text(given[0], &digests))
        return NULL;
    if (digests.length % DIGEST) {
        PyErr_SetString(PyExc_ValueError, "halved: not digests");
        return NULL;
    }
    PyObject *halves = column(digests.length / DIGEST, DIGEST / 2, &out);
    for (size_t at = 0; halves && at < digests.length; at += DIGEST)
        memcpy(out + at / 2, digests.text + at, DIGEST / 2);
    return halves;
}

/* Return the sum of the numbers in a column, of 4 bytes each, and the largest of them. */
static PyObject *sums(PyObject *module, PyObject *const *given, Py_ssize_t given_count)
{
    Word column;
    uint64_t sum = 0;
    uint32_t largest = 0, number;
    (void)module;
    if (!has_given(given_count, 1) || !take_text(given[0], &column))
        return NULL;
    if (column.length % sizeof number) {
        PyErr_SetString(PyExc_ValueError, "sums: not a column of numbers");
        return NULL;
    }
    for (size_t at = 0; at < column.length; at += sizeof number) {
        memcpy(&number, column.text + at, sizeof number);
        sum += number;
        largest = number > largest ? number : largest;
    }
    return Py_BuildValue("(KI)", (unsigned long long)sum, (unsigned int)largest);
}

/* Return whether one of the words, which a NUL each ends, stands in this part of a text. */
static PyObject *holds(PyObject *module, PyObject *const *given, Py_ssize_t given_count)
{
    Word text, words, listed[MOST_NAMES];
    Py_ssize_t start, end;
    (void)module;
    if (!has_given(given_count, 4) || !take_text(given[0], &text)
        || !take_number(given[1], &start) || !take_number(given[2], &end)
        || !take_text(given[3], &words))
        return NULL;
    if (!is_part(start, end, text)) {
        PyErr_SetString(PyExc_ValueError, "holds: not a part of the text");
        return NULL;
    }
    size_t count = read_words(words, listed, MOST_NAMES);
    for (size_t i = 0; i < count; i++)
        if (listed[i].length
            && holds_word(text.text + start, (size_t)(end - start), listed[i]))
            Py_RETURN_TRUE;
    Py_RETURN_FALSE;
}

/* Return one of the numbers in a column. */
static uint64_t number_at(const char *column, Py_ssize_t at)
{
    uint64_t number;
    memcpy(&number, column + at * (Py_ssize_t)sizeof number, sizeof number);
    return number;
}

static uint8_t *write_bytes(uint8_t *out, const char *text, Py_ssize_t size)
{
    memcpy(out, text, (size_t)size);
    return out + size;
}

/* Return how much longer a body gets by these texts and their frames, if they are bytes
   and there is one for each place, and the places are in order; -1 with an error if not. */
static Py_ssize_t added_size(PyObject *texts, const char *places, Py_ssize_t count,
                             Py_ssize_t frame_size, Py_ssize_t body_size)
{
    Py_ssize_t added = 0, size;
    uint64_t last = 0;
    char *text;
    for (Py_ssize_t i = 0; i < count; i++) {
        uint64_t place = number_at(places, i);
        if (place < last || place > (uint64_t)body_size) {
            PyErr_SetString(PyExc_ValueError, "splice: not places of the body, in order");
            return -1;
        }
        last = place;
        if (PyBytes_AsStringAndSize(PyList_GetItem(texts, i), &text, &size) < 0)
            return -1;
        if (size + frame_size > PY_SSIZE_T_MAX - body_size - added) {
            PyErr_NoMemory();
            return -1;
        }
        added += size + frame_size;
    }
    return added;
}

/* Return the body with a text in each of the places, all in the same frame. */
static PyObject *splice(PyObject *module, PyObject *arguments)
{
    const char *body, *places, *before, *behind;
    Py_ssize_t size, places_size, before_size, behind_size, count, added, last = 0;
    PyObject *texts, *spliced;
    uint8_t *out;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y#y#y#y#O!", &body, &size, &places, &places_size,
                          &before, &before_size, &behind, &behind_size, &PyList_Type,
                          &texts))
        return NULL;
    count = PyList_Size(texts);
    if (places_size % 8 || places_size / 8 != count) {
        PyErr_SetString(PyExc_ValueError, "splice: not as many texts as places");
        return NULL;
    }
    added = added_size(texts, places, count, before_size + behind_size, size);
    if (added < 0)
        return NULL;
    spliced = column((size_t)(size + added), 1, &out);
    for (Py_ssize_t i = 0; spliced && i < count; i++) {
        Py_ssize_t place = (Py_ssize_t)number_at(places, i), text_size;
        char *text;
        PyBytes_AsStringAndSize(PyList_GetItem(texts, i), &text, &text_size);
        out = write_bytes(out, body + last, place - last);
        out = write_bytes(out, before, before_size);
        out = write_bytes(out, text, text_size);
        out = write_bytes(out, behind, behind_size);
        last = place;
    }
    if (spliced)
        write_bytes(out, body + last, size - last);
    return spliced;
}

static PyMethodDef methods[] = {
    {"holds", (PyCFunction)(void (*)(void))holds, METH_FASTCALL, "See scanner.py."},
    {"splice", splice, METH_VARARGS, "See scanner.py."},
    {"scan", (PyCFunction)(void (*)(void))scan, METH_FASTCALL, "See scanner.py."},
    {"links", (PyCFunction)(void (*)(void))links, METH_FASTCALL, "See scanner.py."},
    {"starts", (PyCFunction)(void (*)(void))starts, METH_FASTCALL, "See scanner.py."},
    {"start_digest", (PyCFunction)(void (*)(void))start_digest, METH_FASTCALL,
     "See scanner.py."},
    {"halved", (PyCFunction)(void (*)(void))halved, METH_FASTCALL, "See scanner.py."},
    {"sums", (PyCFunction)(void (*)(void))sums, METH_FASTCALL, "See scanner.py."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_scanner", "One pass over a request body.", 0, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__scanner(void)
{
    ask_processor();
    return PyModule_Create(&definition);
}
#endif
