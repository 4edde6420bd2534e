/* How answers look on the wire: one function for each protocol. They read what is there and keep nothing. */

#define _GNU_SOURCE
#include "load.h"

#include <stdlib.h>
#include <string.h>

static uint32_t u16(const char *at) { return (uint32_t)(uint8_t)at[0] << 8 | (uint8_t)at[1]; }
static uint32_t u32(const char *at) { return u16(at) << 16 | u16(at + 2); }
static uint64_t u64(const char *at) { return (uint64_t)u32(at) << 32 | u32(at + 4); }

/* The number after `name` in some text; `otherwise` if the name is not there. */
static long number_after(const char *name, const char *text, size_t length, long otherwise)
{
    const char *found = memmem(text, length, name, strlen(name));
    return found ? strtol(found + strlen(name), NULL, 10) : otherwise;
}

static void fail(struct answer *found, const char *text, size_t length)
{
    found->error = text;
    found->error_length = length;
}

/* RocketMQ: i32 length of the rest | i8 type, u24 header length | JSON header | body. The opaque is the slot. */

static int count_records(const char *body, size_t length)
{
    int count = 0;
    while (length >= 4) {
        uint32_t size = u32(body);
        if (size < 4 || size > length)
            return -1;
        body += size, length -= size, count++;
    }
    return length ? -1 : count;
}

static long read_rocketmq(const char *data, size_t length, struct answer *found)
{
    if (length < 8 || length < 4 + (size_t)u32(data))
        return 0;
    size_t whole = 4 + u32(data), header = u32(data + 4) & 0xFFFFFF;
    if (header + 8 > whole)
        return -1;
    const char *text = data + 8, *body = text + header;
    if (!(number_after("\"flag\":", text, header, 0) & 1)) { /* a request of the broker to its client */
        found->slot = NOBODY;
        return (long)whole;
    }
    found->slot = (int)number_after("\"opaque\":", text, header, -1);
    found->messages = body == data + whole ? 1 : count_records(body, whole - 8 - header);
    if (number_after("\"code\":", text, header, -1) != 0 || found->messages < 0 || found->slot < 0)
        fail(found, text, header);
    return (long)whole;
}

/* Redis: "+OK", "-error", ":1", "$5 bytes", "*2 members", each line ended by CRLF. Answers come in order. */

static long skip_value(const char *data, size_t length, int depth, struct answer *found)
{
    const char *end = memmem(data, length, "\r\n", 2);
    if (!end)
        return 0;
    long used = end + 2 - data, many = strtol(data + 1, NULL, 10);
    if (*data == '-')
        fail(found, data, (size_t)(end - data));
    if (*data == '$' && many >= 0)
        used += many + 2;
    for (; *data == '*' && many > 0; many--) {
        long member = (size_t)used < length ? skip_value(data + used, length - (size_t)used, depth + 1, found) : 0;
        if (member <= 0)
            return member;
        used += member;
        found->messages += depth == 0; /* XRANGE answers with a list of entries */
    }
    return (size_t)used <= length ? used : 0;
}

static long read_redis(const char *data, size_t length, struct answer *found)
{
    found->slot = OLDEST;
    found->messages = 0;
    long used = length ? skip_value(data, length, 0, found) : 0;
    if (*data != '*')
        found->messages = 1;
    return used;
}

/* NATS: "MSG subject sid size", payload; the subject ends with the slot. "+OK", "PING" and the like stand alone. */

static long read_nats(const char *data, size_t length, struct answer *found)
{
    const char *end = memmem(data, length, "\r\n", 2);
    if (!end)
        return 0;
    size_t line = (size_t)(end - data);
    found->slot = NOBODY;
    if (line < 4 || memcmp(data, "MSG ", 4) != 0) {
        if (*data == '-') {
            found->slot = OLDEST;
            fail(found, data, line);
        }
        return (long)line + 2;
    }
    const char *space = memchr(data + 4, ' ', line - 4), *dot = memrchr(data + 4, '.', (size_t)(space - data - 4));
    size_t size = strtoul((const char *)memrchr(data, ' ', line) + 1, NULL, 10);
    if (length < line + 2 + size + 2)
        return 0;
    found->slot = (int)strtol(dot + 1, NULL, 10);
    found->messages = 1;
    if (memmem(end, size + 2, "\"error\"", 7) || !memmem(end, size + 2, "\"seq\"", 5))
        fail(found, end + 2, size);
    return (long)(line + 2 + size + 2);
}

/* Kafka: i32 length of the rest | i32 correlation id, which is the slot | the answer to the one topic asked for. */

static size_t after_topic(const char *at) { return 4 + 2 + u16(at + 4) + 4; } /* one topic, its name, one partition */

static long read_kafka_produce(const char *data, size_t length, struct answer *found) /* version 7 */
{
    if (length < 8 || length < 4 + (size_t)u32(data))
        return 0;
    const char *partition = data + 8 + after_topic(data + 8); /* i32 number, i16 error, … */
    found->slot = (int)u32(data + 4);
    found->messages = 1;
    if (u16(partition + 4))
        fail(found, "produce refused", 15);
    return 4 + (long)u32(data);
}

static long read_kafka_fetch(const char *data, size_t length, struct answer *found) /* version 4 */
{
    if (length < 8 || length < 4 + (size_t)u32(data))
        return 0;
    const char *partition = data + 12 + after_topic(data + 12); /* i32 number, i16 error, 2 × i64, aborted, records */
    const char *records = partition + 22 + 4 + (u32(partition + 22) == UINT32_MAX ? 0 : 16 * u32(partition + 22));
    found->slot = (int)u32(data + 4);
    found->messages = 0;
    size_t left = u32(records);
    for (const char *batch = records + 4; left >= 61 && left >= 12 + u32(batch + 8);) {
        size_t size = 12 + u32(batch + 8); /* the last one may be cut off: Kafka answers by bytes */
        found->messages += (int)u32(batch + 57);
        batch += size, left -= size;
    }
    if (u16(partition + 4) || !found->messages)
        fail(found, "fetch refused, or empty", 23);
    return 4 + (long)u32(data);
}

/* RabbitMQ (AMQP 0-9-1): u8 kind, u16 channel, u32 size, payload, 0xCE. Acknowledged by Basic.Ack (60, 80). */

static long read_amqp(const char *data, size_t length, struct answer *found)
{
    if (length < 8 || length < 8 + (size_t)u32(data + 3))
        return 0;
    const char *payload = data + 7;
    found->slot = NOBODY;
    if (*data == 1 && u16(payload) == 60 && (u16(payload + 2) == 80 || u16(payload + 2) == 120)) {
        found->slot = (int)((u64(payload + 4) - 1) & 0x3FFFFFFF); /* the delivery's number; the engine knows its slot */
        found->through = payload[12] & 1;
        found->messages = 1;
        if (u16(payload + 2) == 120)
            fail(found, "negative acknowledgement", 24);
    } else if (*data == 1) { /* closed by the server, most likely */
        found->slot = OLDEST;
        fail(found, payload, u32(data + 3));
    }
    return 8 + (long)u32(data + 3);
}

static const struct {
    const char *name;
    reader *read;
} readers[] = {
    {"rocketmq", read_rocketmq}, {"redis", read_redis}, {"nats", read_nats}, {"amqp", read_amqp},
    {"kafka-produce", read_kafka_produce}, {"kafka-fetch", read_kafka_fetch},
};

reader *find_reader(const char *protocol)
{
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (strcmp(readers[i].name, protocol) == 0)
            return readers[i].read;
    return NULL;
}
