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

/* --- numbers into bytes ------------------------------------------------------------------------------------------ */

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

static inline uint32_t crc32_of(struct text text)
{
    const unsigned char *at = (const unsigned char *)text.at, *end = (const unsigned char *)text.end;
    uint32_t sum = 0xFFFFFFFFu;
    for (; end - at >= 8; at += 8) {
        sum ^= at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        sum = crc_tables[7][sum & 255] ^ crc_tables[6][sum >> 8 & 255] ^ crc_tables[5][sum >> 16 & 255] ^
              crc_tables[4][sum >> 24] ^ crc_tables[3][at[4]] ^ crc_tables[2][at[5]] ^ crc_tables[1][at[6]] ^
              crc_tables[0][at[7]];
    }
    for (; at < end; at++)
        sum = sum >> 8 ^ crc_tables[0][(sum ^ *at) & 255];
    return ~sum;
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
