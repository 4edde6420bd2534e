/* What the parts of the lane in C share: bytes of others, numbers into bytes, and the sums of both. */

#ifndef PYROMQ_LANE_BYTES_H
#define PYROMQ_LANE_BYTES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* --- bytes of others --------------------------------------------------------------------------------------------- */

struct text {
    const char *at, *end;
};

static inline size_t length_of(struct text text)
{
    return (size_t)(text.end - text.at);
}

static inline int is_ascii(struct text text)
{
    for (; text.at < text.end; text.at++)
        if (*text.at & 0x80)
            return 0;
    return 1;
}

/* Go past `expected` if the text begins with it. */
static inline int skip(struct text *text, const char *expected, size_t length)
{
    if (length_of(*text) < length || memcmp(text->at, expected, length) != 0)
        return 0;
    text->at += length;
    return 1;
}

/* Return where `needle` begins in a text; NULL if it is not there. */
static inline const char *find(struct text text, const char *needle, size_t length)
{
    while (length_of(text) >= length) {
        const char *found = memchr(text.at, needle[0], length_of(text) - length + 1);
        if (found == NULL)
            return NULL;
        if (memcmp(found, needle, length) == 0)
            return found;
        text.at = found + 1;
    }
    return NULL;
}

static inline struct text text_of(PyObject *bytes)
{
    char *at;
    Py_ssize_t length;
    struct text none = {"", ""};
    none.end = none.at;
    if (PyBytes_AsStringAndSize(bytes, &at, &length) < 0) {
        PyErr_Clear();
        return none;
    }
    struct text found = {at, at + length};
    return found;
}

/* --- numbers in bytes -------------------------------------------------------------------------------------------- */

static inline uint32_t get_u32(const char *at)
{
    const unsigned char *byte = (const unsigned char *)at;
    return (uint32_t)byte[0] << 24 | (uint32_t)byte[1] << 16 | (uint32_t)byte[2] << 8 | byte[3];
}

static inline int64_t get_i64(const char *at)
{
    return (int64_t)((uint64_t)get_u32(at) << 32 | get_u32(at + 4));
}

static inline char *put_u32(char *at, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        *at++ = (char)(value >> shift);
    return at;
}

static inline char *put_u64(char *at, uint64_t value)
{
    return put_u32(put_u32(at, (uint32_t)(value >> 32)), (uint32_t)value);
}

static inline char *put_bytes(char *at, const void *bytes, size_t length)
{
    memcpy(at, bytes, length);
    return at + length;
}

static inline char *put_hex(char *at, uint64_t value)
{
    for (int shift = 60; shift >= 0; shift -= 4)
        *at++ = "0123456789ABCDEF"[value >> shift & 15];
    return at;
}

/* CRC-32 as in zlib, eight bytes at a time: table k has what a byte does to the sum k bytes later. */
static uint32_t crc_tables[8][256];

static inline void make_crc_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0);
        crc_tables[0][byte] = sum;
    }
    for (int table = 1; table < 8; table++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = crc_tables[table - 1][byte];
            crc_tables[table][byte] = before >> 8 ^ crc_tables[0][before & 255];
        }
}

/* Go on with a sum, byte by byte through the tables; sums are inverted at the beginning and at the end. */
static inline uint32_t crc32_by_tables(uint32_t sum, const unsigned char *at, const unsigned char *end)
{
    for (; end - at >= 8; at += 8) {
        sum ^= at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        sum = crc_tables[7][sum & 255] ^ crc_tables[6][sum >> 8 & 255] ^ crc_tables[5][sum >> 16 & 255] ^
              crc_tables[4][sum >> 24] ^ crc_tables[3][at[4]] ^ crc_tables[2][at[5]] ^ crc_tables[1][at[6]] ^
              crc_tables[0][at[7]];
    }
    for (; at < end; at++)
        sum = sum >> 8 ^ crc_tables[0][(sum ^ *at) & 255];
    return sum;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define CAN_FOLD __builtin_cpu_supports("pclmul")
enum { LEAST_TO_FOLD = 64 };

/* One step of folding: what stands in `sum` is moved over the distance of `factors`, and joined by the next bytes. */
__attribute__((target("pclmul"))) static inline __m128i fold(__m128i sum, __m128i factors, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(sum, factors, 0x00), high = _mm_clmulepi64_si128(sum, factors, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

static inline __m128i bytes_at(const unsigned char *at, int number)
{
    return _mm_loadu_si128((const __m128i *)at + number);
}

/* The same sum by multiplication without carries, five times as fast. Bytes are the coefficients of a polynomial, whose
   remainder is wanted. Four blocks of 16 bytes are folded side by side onto the next four, multiplied by the remainders
   of x to the power of the distance; then onto one. What is left of it goes through the tables, as 16 bytes would that
   have the same remainder. */
__attribute__((target("pclmul"))) static inline uint32_t crc32_by_folding(
    uint32_t sum, const unsigned char *at, const unsigned char *end)
{
    const __m128i by_four = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4); /* x^(512-32), x^(512+32), bits mirrored */
    const __m128i by_one = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);  /* x^(128-32), x^(128+32) */
    __m128i sums[4];
    unsigned char rest[16];
    for (int block = 0; block < 4; block++)
        sums[block] = bytes_at(at, block);
    sums[0] = _mm_xor_si128(sums[0], _mm_cvtsi32_si128((int)sum));
    for (at += 64; end - at >= 64; at += 64)
        for (int block = 0; block < 4; block++)
            sums[block] = fold(sums[block], by_four, bytes_at(at, block));
    __m128i one = fold(sums[0], by_one, sums[1]);
    one = fold(fold(one, by_one, sums[2]), by_one, sums[3]);
    for (; end - at >= 16; at += 16)
        one = fold(one, by_one, bytes_at(at, 0));
    _mm_storeu_si128((__m128i *)rest, one);
    return crc32_by_tables(crc32_by_tables(0, rest, rest + 16), at, end);
}
#else
#define CAN_FOLD 0
enum { LEAST_TO_FOLD = 64 };
#define crc32_by_folding crc32_by_tables
#endif

static inline uint32_t crc32_of(struct text text)
{
    const unsigned char *at = (const unsigned char *)text.at, *end = (const unsigned char *)text.end;
    int folds = end - at >= LEAST_TO_FOLD && CAN_FOLD;
    return ~(folds ? crc32_by_folding(0xFFFFFFFFu, at, end) : crc32_by_tables(0xFFFFFFFFu, at, end));
}

/* The hash of a text in Java, for texts of ASCII. */
static inline int32_t java_hash(struct text text)
{
    uint32_t hash = 0;
    for (; text.at < text.end; text.at++)
        hash = hash * 31 + (unsigned char)*text.at;
    return (int32_t)hash;
}

#endif
