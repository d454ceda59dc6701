/* Feeds the scanner bodies that are cut and changed at random, each in a block of memory
   of its very size: the sanitizer that this is built with ends it at the first byte that
   is read or written outside. The numbers are the same in each run. */
#include "_scanner.c"

#include <stdio.h>

static const char *SEEDS[] = {
    "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"a\"},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\\u00e4\\n\"}]},"
    "{\"content\":null,\"role\":\"assistant\",\"tool_calls\":[{}]}],\"n\":1.5e-3}",
    "{\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"1\","
    "\"input\":{\"a\":[{}]}},{\"text\":\"b\",\"type\":\"text\"}]},{\"role\":\"user\",\"content\":"
    "[{\"type\":\"tool_result\",\"content\":[{}],\"cache_control\":{}},{},7]}]}",
    " { \"messages\" : [ ] , \"a\" : { \"b\" : [ true , false , null , -0.1 ] } } ",
    "{\"messages\":[\"0123456789abcdef0123456789abcdef\\ud83d\\ude00\",[],{},[[[{}]]]]}",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"0123456789abcdef\\n\\\\\\\"0123456789"
    "\xc3\xa4 123456789abcdef\\u00e4\\t 0123456789abcdef0123456789abcdef\\ud83d\\ude00\\n"
    "0123456789abcdef\xe2\x82\xac 123456789abcdef0123456789abcdef012345\\n\\n\\n\\n0123"
    "456789abcdef\\\\\\\\\\\\\\\\\\\\0123456789abcdef0123456789abcdef0123456789abcdef"
    "0123456789abcdef\"}]}",
    ",{\"role\":\"user\",\"content\":\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"}],\"b\":{}}",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
};
static const char BYTES[] = "\"\\{}[]:, \n0123456789-+.eEutfn\x80\xc3\xe2\xed\xf0\xf4\x1f";
static const char NAMES[] = "role\0content\0tool_calls\0function_call\0cache_control";
static const char ROLES[] = "system\0user\0assistant";
static const char TYPES[] = "text\0image\0tool_use\0tool_result";
static const char MARKS[] = "cache_control";

static uint64_t state = 88172645463325252u;

static size_t below(size_t most)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return most ? (size_t)(state % most) : 0;
}

/* Tell both of the same body; they are to be the same. */
static int is_alike(const Found *one, const Found *other)
{
    if (one->element_count != other->element_count
        || one->history_end != other->history_end
        || one->member_count != other->member_count)
        return 0;
    for (size_t i = 0; i < one->element_count; i++) {
        Element left = one->elements[i], right = other->elements[i];
        if (left.start != right.start || left.end != right.end
            || left.kind != right.kind || memcmp(left.digest, right.digest, DIGEST))
            return 0;
    }
    return 1;
}

/* Look for a word in a text of its very size, by all means that there are. */
static void try_words(void)
{
    static const char letters[] = "ab\"_";
    size_t size = below(300), length = 1 + below(9), at;
    uint8_t *text = malloc(size ? size : 1), *word = malloc(length);
    for (at = 0; at < size; at++)
        text[at] = (uint8_t)letters[below(2 + below(3))];
    for (at = 0; at < length; at++)
        word[at] = (uint8_t)letters[below(2)];
    int is_held = holds_plainly(text, size, (Word){word, length});
    if (holds_word(text, size, (Word){word, length}) != is_held)
        abort();
#ifdef __SSE2__
    if (holds_by_sse2(text, size, (Word){word, length}) != is_held)
        abort();
#endif
    free(word);
    free(text);
}

/* Write the starts of a body of any size, by all means that there are; they are alike. */
static void try_starts(const Hashing *hashing)
{
    size_t size = below(20000), most = size / LEAST_APART + 1;
    uint8_t *body = malloc(size ? size : 1), link[2][2 * DIGEST] = {{0}};
    uint8_t *digests[2] = {calloc(most, DIGEST), calloc(most, DIGEST)};
    for (size_t at = 0; at < size; at++)
        body[at] = (uint8_t)below(256);
    write_starts(hashing, link[0], body, size, digests[0]);
#ifdef __SSE2__
    add_stripes = add_stripes_plainly;
#endif
    write_starts(hashing, link[1], body, size, digests[1]);
    if (memcmp(digests[0], digests[1], most * DIGEST))
        abort();
    ask_processor();
    free(digests[0]);
    free(digests[1]);
    free(body);
}

int main(int count, char **arguments)
{
    ask_processor();
    long total = count > 1 ? atol(arguments[1]) : 1000, passed = 0;
    Spec spec;
    read_spec(&spec, (Word){(const uint8_t *)"messages", 8},
              (Word){(const uint8_t *)NAMES, sizeof NAMES},
              (Word){(const uint8_t *)ROLES, sizeof ROLES},
              (Word){(const uint8_t *)TYPES, sizeof TYPES},
              (Word){(const uint8_t *)MARKS, sizeof MARKS});
    spec.hashing = hashing_with(1);
    for (long i = 0; i < total; i++) {
        const char *seed = SEEDS[below(sizeof SEEDS / sizeof *SEEDS)];
        size_t size = strlen(seed), at;
        uint8_t *body;
        Found found, again;
        if (below(4) == 0)
            size = below(size + 1);
        body = malloc(size ? size : 1);
        memcpy(body, seed, size);
        for (size_t changes = below(3); size && changes; changes--)
            body[below(size)] = (uint8_t)BYTES[below(sizeof BYTES - 1)];
        int from = (int)below(3);
        if (i % 1000 == 0)
            try_starts(&spec.hashing);
        if (i % 10 == 0)
            try_words();
        at = from == WHOLE ? 0 : below(size + 1);
        if (below(2) && from != WHOLE)
            at = 0;
        Walk walk = begin_walk(&spec, body, size, at);
        int status = scan_body(&walk, &spec, from, &found);
#ifdef __SSE2__
        skip_blocks = skip_blocks_plainly;
        add_stripes = add_stripes_plainly;
#endif
        walk = begin_walk(&spec, body, size, at);
        if (scan_body(&walk, &spec, from, &again) != status
            || (status == IS_FOUND && !is_alike(&found, &again)))
            abort();
        free(again.elements);
#ifdef __SSE2__
        ask_processor();
#endif
        if (status == IS_FOUND) {
            passed++;
            for (size_t e = 0; e < found.element_count; e++) {
                Element each = found.elements[e];
                if (each.end <= each.start || each.end > size)
                    abort();
            }
        }
        free(found.elements);
        free(body);
    }
    printf("%ld %ld\n", passed, total);
    return 0;
}
