/* XXH3 with 128 bits, of more than 16 bytes: the digest that the package xxhash gives.

Rules:
- What is returned is the very digest of the package, for each seed: histories are known
  by it, also to those who run without this. Tests hold the two against each other.
- After the specification of XXH3 and its reference implementation, xxHash, to which this
  belongs:

  Copyright (C) 2012-2023 Yann Collet

  BSD 2-Clause License (https://www.opensource.org/licenses/bsd-license.php)

  Redistribution and use in source and binary forms, with or without modification, are
  permitted provided that the following conditions are met:

  * Redistributions of source code must retain the above copyright notice, this list of
    conditions and the following disclaimer.
  * Redistributions in binary form must reproduce the above copyright notice, this list
    of conditions and the following disclaimer in the documentation and/or other
    materials provided with the distribution.

  THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS" AND ANY
  EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE IMPLIED WARRANTIES OF
  MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE DISCLAIMED. IN NO EVENT SHALL
  THE COPYRIGHT OWNER OR CONTRIBUTORS BE LIABLE FOR ANY DIRECT, INDIRECT, INCIDENTAL,
  SPECIAL, EXEMPLARY, OR CONSEQUENTIAL DAMAGES (INCLUDING, BUT NOT LIMITED TO,
  PROCUREMENT OF SUBSTITUTE GOODS OR SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS
  INTERRUPTION) HOWEVER CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT
  LIABILITY, OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE
  OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.
*/
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "words are read as they stand: little end first"
#endif

enum {
    LEAST_HASHED = 17, /* Bytes. */
    SECRET = 192,
    STRIPE = 64,
    STRIPES = (SECRET - STRIPE) / 8, /* Of a round, behind which all is scrambled. */
    DIGEST = 16,
};

#define PRIME32_1 0x9E3779B1u
#define PRIME32_2 0x85EBCA77u
#define PRIME32_3 0xC2B2AE3Du
#define PRIME64_1 0x9E3779B185EBCA87u
#define PRIME64_2 0xC2B2AE3D27D4EB4Fu
#define PRIME64_3 0x165667B19E3779F9u
#define PRIME64_4 0x85EBCA77C2B2AE63u
#define PRIME64_5 0x27D4EB2F165667C5u

static const uint8_t PUBLIC_SECRET[SECRET] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21,
    0xad, 0x1c, 0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4,
    0xb7, 0xb3, 0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a,
    0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e,
    0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3,
    0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3, 0x71, 0x64, 0x48, 0x97,
    0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, 0xa8, 0xfa,
    0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78,
    0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff,
    0xfa, 0x13, 0x63, 0xeb, 0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16,
    0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e, 0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc,
    0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, 0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16,
    0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

/* A seed, and the secret that long texts are hashed with under it. */
typedef struct {
    uint64_t seed;
    uint8_t secret[SECRET];
} Hashing;

typedef struct {
    uint64_t low, high;
} Pair;

static uint64_t word_at(const uint8_t *text)
{
    uint64_t word;
    memcpy(&word, text, sizeof word);
    return word;
}

static Hashing hashing_with(uint64_t seed)
{
    Hashing hashing;
    hashing.seed = seed;
    for (int at = 0; at < SECRET; at += 16) {
        uint64_t words[2] = {word_at(PUBLIC_SECRET + at) + seed,
                             word_at(PUBLIC_SECRET + at + 8) - seed};
        memcpy(hashing.secret + at, words, sizeof words);
    }
    return hashing;
}

static uint64_t folded_product(uint64_t left, uint64_t right)
{
    unsigned __int128 product = (unsigned __int128)left * right;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t avalanche(uint64_t hash)
{
    hash ^= hash >> 37;
    hash *= 0x165667919E3779F9u;
    return hash ^ hash >> 32;
}

static uint64_t mixed(const uint8_t *text, const uint8_t *secret, uint64_t seed)
{
    return folded_product(word_at(text) ^ (word_at(secret) + seed),
                          word_at(text + 8) ^ (word_at(secret + 8) - seed));
}

static void mix_pair(Pair *sums, const uint8_t *first, const uint8_t *second,
                     const uint8_t *secret, uint64_t seed)
{
    sums->low += mixed(first, secret, seed);
    sums->low ^= word_at(second) + word_at(second + 8);
    sums->high += mixed(second, secret + 16, seed);
    sums->high ^= word_at(first) + word_at(first + 8);
}

static Pair hash_short(const uint8_t *text, size_t size, uint64_t seed)
{
    const uint8_t *secret = PUBLIC_SECRET;
    Pair sums = {size * PRIME64_1, 0};
    if (size <= 128) {
        /* From the middle on outwards. */
        for (size_t at = (size - 1) / 32 * 16 + 16; at >= 16; at -= 16)
            mix_pair(&sums, text + at - 16, text + size - at, secret + 2 * (at - 16), seed);
    } else {
        for (size_t at = 32; at <= 128; at += 32)
            mix_pair(&sums, text + at - 32, text + at - 16, secret + at - 32, seed);
        sums = (Pair){avalanche(sums.low), avalanche(sums.high)};
        for (size_t at = 160; at <= size; at += 32)
            mix_pair(&sums, text + at - 32, text + at - 16, secret + at - 157, seed);
        mix_pair(&sums, text + size - 16, text + size - 32, secret + 103, 0 - seed);
    }
    return (Pair){avalanche(sums.low + sums.high),
                  0
                      - avalanche(sums.low * PRIME64_1 + sums.high * PRIME64_4
                                  + (size - seed) * PRIME64_2)};
}

/* Add stripes to the sums, each with a key that begins eight bytes behind the last one's;
   behind each whole round all is scrambled. The sums stay in registers meanwhile. */
#ifdef __SSE2__
INLINE void add_16(__m128i *sum, const uint8_t *text, const uint8_t *key)
{
    __m128i words = _mm_loadu_si128((const __m128i *)text);
    __m128i keyed = _mm_xor_si128(words, _mm_loadu_si128((const __m128i *)key));
    __m128i product = _mm_mul_epu32(keyed, _mm_srli_epi64(keyed, 32));
    __m128i crossed = _mm_shuffle_epi32(words, _MM_SHUFFLE(1, 0, 3, 2));
    *sum = _mm_add_epi64(_mm_add_epi64(*sum, crossed), product);
}

INLINE void scramble_16(__m128i *sum, const uint8_t *key)
{
    __m128i prime = _mm_set1_epi32((int)PRIME32_1);
    __m128i mixed = _mm_xor_si128(*sum, _mm_srli_epi64(*sum, 47));
    mixed = _mm_xor_si128(mixed, _mm_loadu_si128((const __m128i *)key));
    __m128i high = _mm_mul_epu32(_mm_srli_epi64(mixed, 32), prime);
    *sum = _mm_add_epi64(_mm_mul_epu32(mixed, prime), _mm_slli_epi64(high, 32));
}

static void add_stripes_plainly(uint64_t *sums, const uint8_t *text, const uint8_t *secret,
                                size_t count)
{
    __m128i held[4];
    memcpy(held, sums, sizeof held);
    for (; count >= STRIPES; count -= STRIPES) {
        const uint8_t *key = secret;
        for (int stripe = 0; stripe < STRIPES; stripe++, text += STRIPE, key += 8)
            for (int at = 0; at < 4; at++)
                add_16(&held[at], text + 16 * at, key + 16 * at);
        for (int at = 0; at < 4; at++)
            scramble_16(&held[at], secret + SECRET - STRIPE + 16 * at);
    }
    for (; count; count--, text += STRIPE, secret += 8)
        for (int at = 0; at < 4; at++)
            add_16(&held[at], text + 16 * at, secret + 16 * at);
    memcpy(sums, held, sizeof held);
}

WITH_AVX2 INLINE void add_32(__m256i *sum, const uint8_t *text, const uint8_t *key)
{
    __m256i words = _mm256_loadu_si256((const __m256i *)text);
    __m256i keyed = _mm256_xor_si256(words, _mm256_loadu_si256((const __m256i *)key));
    __m256i product = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
    __m256i crossed = _mm256_shuffle_epi32(words, _MM_SHUFFLE(1, 0, 3, 2));
    *sum = _mm256_add_epi64(_mm256_add_epi64(*sum, crossed), product);
}

WITH_AVX2 INLINE void scramble_32(__m256i *sum, const uint8_t *key)
{
    __m256i prime = _mm256_set1_epi32((int)PRIME32_1);
    __m256i mixed = _mm256_xor_si256(*sum, _mm256_srli_epi64(*sum, 47));
    mixed = _mm256_xor_si256(mixed, _mm256_loadu_si256((const __m256i *)key));
    __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(mixed, 32), prime);
    *sum = _mm256_add_epi64(_mm256_mul_epu32(mixed, prime), _mm256_slli_epi64(high, 32));
}

WITH_AVX2 static void add_stripes_avx2(uint64_t *sums, const uint8_t *text,
                                       const uint8_t *secret, size_t count)
{
    __m256i held[2];
    memcpy(held, sums, sizeof held);
    for (; count >= STRIPES; count -= STRIPES) {
        const uint8_t *key = secret;
/* The clock of the loop is a fifth of it. */
#pragma GCC unroll 4
        for (int stripe = 0; stripe < STRIPES; stripe++, text += STRIPE, key += 8) {
            add_32(&held[0], text, key);
            add_32(&held[1], text + 32, key + 32);
        }
        scramble_32(&held[0], secret + SECRET - STRIPE);
        scramble_32(&held[1], secret + SECRET - STRIPE + 32);
    }
    for (; count; count--, text += STRIPE, secret += 8) {
        add_32(&held[0], text, secret);
        add_32(&held[1], text + 32, secret + 32);
    }
    memcpy(sums, held, sizeof held);
}
#else
static void add_stripes_plainly(uint64_t *sums, const uint8_t *text, const uint8_t *secret,
                                size_t count)
{
    for (size_t stripe = 0; stripe < count; stripe++, text += STRIPE) {
        const uint8_t *key = secret + stripe % STRIPES * 8;
        for (int at = 0; at < 8; at++) {
            uint64_t word = word_at(text + 8 * at), keyed = word ^ word_at(key + 8 * at);
            sums[at ^ 1] += word;
            sums[at] += (keyed & 0xFFFFFFFFu) * (keyed >> 32);
        }
        for (int at = 0; stripe % STRIPES == STRIPES - 1 && at < 8; at++) {
            sums[at] ^= sums[at] >> 47 ^ word_at(secret + SECRET - STRIPE + 8 * at);
            sums[at] *= PRIME32_1;
        }
    }
}
#endif

/* What the processor can; it is asked once. */
static void (*add_stripes)(uint64_t *, const uint8_t *, const uint8_t *, size_t) =
    add_stripes_plainly;

static uint64_t merged(const uint64_t *sums, const uint8_t *secret, uint64_t start)
{
    for (int at = 0; at < 8; at += 2)
        start += folded_product(sums[at] ^ word_at(secret + 8 * at),
                                sums[at + 1] ^ word_at(secret + 8 * at + 8));
    return avalanche(start);
}

static Pair hash_long(const Hashing *hashing, const uint8_t *text, size_t size)
{
    _Alignas(16) uint64_t sums[8] = {PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3,
                                     PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1};
    const uint8_t *secret = hashing->secret;
    /* The last stripe has a key of its own, and may overlap. */
    add_stripes(sums, text, secret, (size - 1) / STRIPE);
    add_stripes(sums, text + size - STRIPE, secret + SECRET - STRIPE - 7, 1);
    return (Pair){merged(sums, secret + 11, size * PRIME64_1),
                  merged(sums, secret + SECRET - STRIPE - 11, ~(size * PRIME64_2))};
}

/* Write the digest of the text, which has at least `LEAST_HASHED` bytes. */
static void hash_text(const Hashing *hashing, const uint8_t *text, size_t size,
                      uint8_t *digest)
{
    Pair hash = size <= 240 ? hash_short(text, size, hashing->seed)
                            : hash_long(hashing, text, size);
    uint64_t words[2] = {__builtin_bswap64(hash.high), __builtin_bswap64(hash.low)};
    memcpy(digest, words, DIGEST);
}
