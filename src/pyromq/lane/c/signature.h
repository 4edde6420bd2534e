/* RocketMQ's signature, base64(HMAC-SHA1(secret, text)), for the parts of the lane in C.

   hashlib would do as well, but its objects cost more than the sums of a message of 1 KiB. Processors with instructions
   for SHA-1 use them. The secret comes as the block that HMAC begins with (protocol/acl.py: Signer). */

#ifndef PYROMQ_LANE_SIGNATURE_H
#define PYROMQ_LANE_SIGNATURE_H

#include "bytes.h"

enum {
    SHA1_BLOCK = 64,
    SHA1_SIZE = 20,
    SIGNATURE_SIZE = 28, /* of SHA1_SIZE bytes in base64 */
};

/* --- SHA-1, FIPS 180-4 ------------------------------------------------------------------------------------------- */

static inline uint32_t rotate(uint32_t value, int bits)
{
    return value << bits | value >> (32 - bits);
}

#define CHOICE(x, y, z) ((z) ^ ((x) & ((y) ^ (z))))
#define PARITY(x, y, z) ((x) ^ (y) ^ (z))
#define MAJORITY(x, y, z) (((x) & (y)) | ((z) & ((x) | (y))))
#define WORD(at)                                                                                                       \
    ((at) < 16 ? words[(at) % 16]                                                                                      \
               : (words[(at) % 16] = rotate(words[((at) + 13) % 16] ^ words[((at) + 8) % 16] ^                         \
                                                words[((at) + 2) % 16] ^ words[(at) % 16],                             \
                                            1)))

/* A round puts the new `a` into `e` and turns `b`: the names move on by one, not the values. */
#define ROUND(a, b, c, d, e, mix, constant, at)                                                                        \
    e += rotate(a, 5) + mix(b, c, d) + (constant) + WORD(at);                                                          \
    b = rotate(b, 30)
#define FIVE_ROUNDS(mix, constant, at)                                                                                 \
    ROUND(a, b, c, d, e, mix, constant, at);                                                                           \
    ROUND(e, a, b, c, d, mix, constant, (at) + 1);                                                                     \
    ROUND(d, e, a, b, c, mix, constant, (at) + 2);                                                                     \
    ROUND(c, d, e, a, b, mix, constant, (at) + 3);                                                                     \
    ROUND(b, c, d, e, a, mix, constant, (at) + 4)
#define TWENTY_ROUNDS(mix, constant, at)                                                                               \
    FIVE_ROUNDS(mix, constant, at);                                                                                    \
    FIVE_ROUNDS(mix, constant, (at) + 5);                                                                              \
    FIVE_ROUNDS(mix, constant, (at) + 10);                                                                             \
    FIVE_ROUNDS(mix, constant, (at) + 15)

static inline void sha1_blocks_anywhere(uint32_t state[5], const unsigned char *data, size_t blocks)
{
    uint32_t words[16];
    for (; blocks; blocks--, data += SHA1_BLOCK) {
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
        for (int at = 0; at < 16; at++)
            words[at] = (uint32_t)data[4 * at] << 24 | (uint32_t)data[4 * at + 1] << 16 |
                        (uint32_t)data[4 * at + 2] << 8 | data[4 * at + 3];
        TWENTY_ROUNDS(CHOICE, 0x5A827999u, 0);
        TWENTY_ROUNDS(PARITY, 0x6ED9EBA1u, 20);
        TWENTY_ROUNDS(MAJORITY, 0x8F1BBCDCu, 40);
        TWENTY_ROUNDS(PARITY, 0xCA62C1D6u, 60);
        state[0] += a;
        state[1] += b;
        state[2] += c;
        state[3] += d;
        state[4] += e;
    }
}

static void (*sha1_blocks)(uint32_t[5], const unsigned char *, size_t) = sha1_blocks_anywhere;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(PYROMQ_PLAIN_SHA1)
#include <cpuid.h>
#include <immintrin.h>

/* Four rounds; `step` counts them from 0 to 19. The instruction for the next `e` begins with the `a` of four before. */
#define FOUR_ROUNDS(step)                                                                                              \
    if ((step) >= 4)                                                                                                   \
        words[(step) % 4] = _mm_sha1msg2_epu32(                                                                        \
            _mm_xor_si128(_mm_sha1msg1_epu32(words[(step) % 4], words[((step) + 1) % 4]), words[((step) + 2) % 4]),    \
            words[((step) + 3) % 4]);                                                                                  \
    sum = (step) ? _mm_sha1nexte_epu32(before, words[(step) % 4]) : _mm_add_epi32(e, words[0]);                        \
    before = abcd;                                                                                                     \
    abcd = _mm_sha1rnds4_epu32(abcd, sum, (step) / 5)
#define FIVE_STEPS(step)                                                                                               \
    FOUR_ROUNDS(step);                                                                                                 \
    FOUR_ROUNDS((step) + 1);                                                                                           \
    FOUR_ROUNDS((step) + 2);                                                                                           \
    FOUR_ROUNDS((step) + 3);                                                                                           \
    FOUR_ROUNDS((step) + 4)

__attribute__((target("sha,sse4.1"))) static void sha1_blocks_by_instruction(uint32_t state[5],
                                                                             const unsigned char *data, size_t blocks)
{
    const __m128i reversed = _mm_set_epi64x(0x0001020304050607LL, 0x08090A0B0C0D0E0FLL);
    __m128i abcd = _mm_set_epi32((int)state[0], (int)state[1], (int)state[2], (int)state[3]);
    __m128i e = _mm_set_epi32((int)state[4], 0, 0, 0);
    for (; blocks; blocks--, data += SHA1_BLOCK) {
        __m128i words[4], sum, before = abcd, first_abcd = abcd;
        for (int at = 0; at < 4; at++)
            words[at] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(data + 16 * at)), reversed);
        FIVE_STEPS(0);
        FIVE_STEPS(5);
        FIVE_STEPS(10);
        FIVE_STEPS(15);
        e = _mm_sha1nexte_epu32(before, e);
        abcd = _mm_add_epi32(abcd, first_abcd);
    }
    state[0] = (uint32_t)_mm_extract_epi32(abcd, 3);
    state[1] = (uint32_t)_mm_extract_epi32(abcd, 2);
    state[2] = (uint32_t)_mm_extract_epi32(abcd, 1);
    state[3] = (uint32_t)_mm_extract_epi32(abcd, 0);
    state[4] = (uint32_t)_mm_extract_epi32(e, 3);
}

static inline void choose_sha1(void)
{
    unsigned a, b, c, d;
    const unsigned SSSE3 = 1u << 9, SSE41 = 1u << 19, SHA = 1u << 29;
    if (__get_cpuid(1, &a, &b, &c, &d) && c & SSSE3 && c & SSE41 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & SHA)
        sha1_blocks = sha1_blocks_by_instruction;
}
#else
static inline void choose_sha1(void)
{
}
#endif

struct sha1 {
    uint32_t state[5];
    unsigned char waiting[SHA1_BLOCK];
    uint64_t length;
};

static inline void sha1_begin(struct sha1 *sum)
{
    static const uint32_t START[5] = {0x67452301u, 0xEFCDAB89u, 0x98BADCFEu, 0x10325476u, 0xC3D2E1F0u};
    memcpy(sum->state, START, sizeof START);
    sum->length = 0;
}

static inline void sha1_add(struct sha1 *sum, const void *data, size_t length)
{
    const unsigned char *at = data;
    size_t held = sum->length % SHA1_BLOCK;
    if (length == 0)
        return;
    sum->length += length;
    if (held) {
        size_t part = length < SHA1_BLOCK - held ? length : SHA1_BLOCK - held;
        memcpy(sum->waiting + held, at, part);
        if (held + part < SHA1_BLOCK)
            return;
        sha1_blocks(sum->state, sum->waiting, 1);
        at += part;
        length -= part;
    }
    sha1_blocks(sum->state, at, length / SHA1_BLOCK);
    memcpy(sum->waiting, at + length - length % SHA1_BLOCK, length % SHA1_BLOCK);
}

static inline void sha1_end(struct sha1 *sum, char digest[SHA1_SIZE])
{
    static const unsigned char END[SHA1_BLOCK] = {0x80};
    char bits[8];
    put_u64(bits, sum->length * 8);
    sha1_add(sum, END, 1 + (SHA1_BLOCK + 55 - sum->length % SHA1_BLOCK) % SHA1_BLOCK);
    sha1_add(sum, bits, sizeof bits);
    for (int word = 0; word < 5; word++)
        put_u32(digest + 4 * word, sum->state[word]);
}

/* --- HMAC and base64 --------------------------------------------------------------------------------------------- */

static inline void hmac_begin(struct sha1 *sum, const char secret[SHA1_BLOCK], unsigned char mask)
{
    unsigned char block[SHA1_BLOCK];
    for (int at = 0; at < SHA1_BLOCK; at++)
        block[at] = (unsigned char)secret[at] ^ mask;
    sha1_begin(sum);
    sha1_add(sum, block, sizeof block);
}

/* Begin a signature; sha1_add() whatever is signed. */
static inline void signature_begin(struct sha1 *sum, const char secret[SHA1_BLOCK])
{
    hmac_begin(sum, secret, 0x36);
}

/* Tell whether a text is the signature; in a time that does not depend on where they differ. */
static inline int signature_is(struct sha1 *sum, const char secret[SHA1_BLOCK], struct text given)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char digest[SHA1_SIZE + 1] = {0}; /* one zero behind it: base64 takes three bytes at a time */
    unsigned different = 0;
    sha1_end(sum, digest);
    hmac_begin(sum, secret, 0x5C);
    sha1_add(sum, digest, SHA1_SIZE);
    sha1_end(sum, digest);
    if (length_of(given) != SIGNATURE_SIZE || given.at[SIGNATURE_SIZE - 1] != '=')
        return 0;
    for (int at = 0; at < SIGNATURE_SIZE - 1; at++) {
        const unsigned char *three = (const unsigned char *)digest + at / 4 * 3;
        uint32_t bits = (uint32_t)three[0] << 16 | (uint32_t)three[1] << 8 | three[2];
        different |= (unsigned)(DIGITS[bits >> (18 - 6 * (at % 4)) & 63] ^ given.at[at]);
    }
    return different == 0;
}

#endif
