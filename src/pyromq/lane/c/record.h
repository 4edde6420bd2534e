/* A record of the log and an entry of a queue, for the parts of the lane in C.

   record:  size 4 | magic 4 | CRC of the body 4 | queue id 4 | flag 4 | queue offset 8 | physical offset 8 | sys flag 4
            | born time 8, host 8 | store time 8, host 8 | times consumed 4 | prepared offset 8
            | body length 4, body | topic length 1, topic | properties length 2, properties
   entry:   physical offset 8 | record size 4 | tags code 8 */

#ifndef PYROMQ_LANE_RECORD_H
#define PYROMQ_LANE_RECORD_H

#include "bytes.h"

enum {
    MAGIC_AT = 4,
    CRC_AT = 8,
    QUEUE_ID_AT = 12,
    FLAG_AT = 16,
    QUEUE_OFFSET_AT = 20,
    PHYSICAL_OFFSET_AT = 28,
    SYS_FLAG_AT = 36,
    BORN_AT = 40,
    BORN_HOST_AT = 48,
    STORED_AT = 56,
    STORE_HOST_AT = 64,
    RECONSUME_TIMES_AT = 72,
    PREPARED_OFFSET_AT = 76,
    BODY_LENGTH_AT = 84,
    HEAD_SIZE = 88,       /* of a record with IPv4 hosts */
    HOST_SIZE = 8,
    SMALLEST_RECORD = 91, /* without body, topic and properties */
    MAX_NAME = 127,       /* of a topic */
    MAX_PROPERTIES = 32767,
    TRANSACTION_MASK = 0xC,
    TRANSACTION_PREPARED = 0x4, /* this bit, without or with the other: half messages and rollbacks */
    V6_FLAGS = 0x30,
    ENTRY_SIZE = 20,
};

static const uint32_t MESSAGE_MAGIC = 0xDAA320A7;

/* Where the parts of a record are. */
struct parts {
    const char *head;
    size_t size;
    struct text body, topic, properties;
};

/* Find the parts of the record at the beginning of a text; return 0 if it is cut, has IPv6 hosts, or lengths that do
   not agree. */
static inline int find_parts(struct text text, struct parts *parts)
{
    size_t left = length_of(text);
    if (left < SMALLEST_RECORD)
        return 0;
    const char *head = parts->head = text.at;
    size_t size = parts->size = get_u32(head), body = get_u32(head + BODY_LENGTH_AT);
    if (get_u32(head + MAGIC_AT) != MESSAGE_MAGIC || get_u32(head + SYS_FLAG_AT) & V6_FLAGS || size > left ||
        size < SMALLEST_RECORD || body > size - SMALLEST_RECORD)
        return 0;
    struct text rest = {head + HEAD_SIZE, head + size};
    parts->body.at = rest.at;
    parts->body.end = rest.at += body;
    size_t topic = (unsigned char)*rest.at++;
    if (topic + 2 > length_of(rest))
        return 0;
    parts->topic.at = rest.at;
    parts->topic.end = rest.at += topic;
    const unsigned char *length = (const unsigned char *)rest.at;
    rest.at += 2;
    parts->properties = rest;
    return length_of(rest) == ((size_t)length[0] << 8 | length[1]);
}

/* Whether a record has the checksum of its body. */
static inline int is_sound(const struct parts *parts)
{
    return (crc32_of(parts->body) & 0x7FFFFFFF) == get_u32(parts->head + CRC_AT);
}

static inline void put_entry(char *entry, int64_t position, uint32_t size, int64_t tags_code)
{
    put_u64(put_u32(put_u64(entry, (uint64_t)position), size), (uint64_t)tags_code);
}

#endif
