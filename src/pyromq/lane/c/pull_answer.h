/* The answer to a pull: which entries of a queue it takes, its head, and the records from the mapped log behind it.

   Nothing here trusts an entry: one that points outside of the bounds that were given, or whose size lies, makes
   prepare() say that there is no answer. */

#ifndef PYROMQ_PULL_ANSWER_H
#define PYROMQ_PULL_ANSWER_H

#include "record.h"

#define LOWEST_CODE_HIGH (-1) /* below: the address of an extension unit, which every filter lets pass */
#define LONGEST_HEAD 512
#define MOST_CODES 16
#define PREFIX_SIZE 8
#define CACHE_LINE 64
#define FETCHED_AHEAD 3   /* records */
#define MOST_FETCHED 4096 /* bytes of each */

/* --- numbers in network order */

static inline int32_t read_i32(const uint8_t *at) { return (int32_t)get_u32((const char *)at); }

static inline int64_t read_i64(const uint8_t *at) { return get_i64((const char *)at); }

static void write_u32(uint8_t *at, uint32_t value) { put_u32((char *)at, value); }

typedef struct {
    const uint8_t *entries;
    Py_ssize_t entry_count;
    const int32_t *codes; /* NULL: all tags */
    Py_ssize_t code_count;
    int64_t low, high;     /* of the log: where records must lie */
    int64_t most, most_bytes;
} Wanted;

typedef struct {
    Py_ssize_t seen; /* entries that were looked at */
    int64_t messages, size;
    int is_full;
} Taken;

static inline int passes(const Wanted *wanted, const uint8_t *entry) {
    if (wanted->codes == NULL) return 1;
    int32_t code = read_i32(entry + 16);
    for (Py_ssize_t index = 0; index < wanted->code_count; index++)
        if (wanted->codes[index] == code) return 1;
    return read_i32(entry + 12) < LOWEST_CODE_HIGH;
}

/* Finds out how far the answer reaches; returns 0 if there is none, or one of its records is out of bounds. */
static int take(const Wanted *wanted, Taken *taken) {
    memset(taken, 0, sizeof *taken);
    for (Py_ssize_t index = 0; index < wanted->entry_count; index++) {
        const uint8_t *entry = wanted->entries + index * ENTRY_SIZE;
        if (!passes(wanted, entry)) continue;
        int64_t position = read_i64(entry), size = read_i32(entry + 8);
        if (position < wanted->low || position > wanted->high || size < SMALLEST_RECORD ||
            size > wanted->high - position)
            return 0;
        if (taken->messages && taken->size + size > wanted->most_bytes) {
            taken->seen = index;
            taken->is_full = 1;
            return 1;
        }
        taken->messages++;
        taken->size += size;
        if (taken->messages >= wanted->most) {
            taken->seen = index + 1;
            taken->is_full = 1;
            return 1;
        }
    }
    taken->seen = wanted->entry_count;
    return taken->messages > 0;
}

/* Has the processor fetch bytes that are copied soon, into its second cache: the first is too small for them.
   Always inline: GCC takes a function that does nothing else for one without effect, and leaves out its calls. */
#if defined(__GNUC__)
__attribute__((always_inline)) static inline void fetch(const uint8_t *from, int64_t size) {
    for (int64_t at = 0; at < size && at < MOST_FETCHED; at += CACHE_LINE) __builtin_prefetch(from + at, 0, 2);
}
#else
static void fetch(const uint8_t *from, int64_t size) { (void)from, (void)size; }
#endif

/* Copies the records that were taken; neighbours in the log by one copy. Those of one queue lie apart, so that the
   processor cannot guess where the next one is: it is told, for else the copy waits for the memory at each of them. */
static void copy_records(const Wanted *wanted, const Taken *taken, const uint8_t *whole, int64_t start, uint8_t *to) {
    int64_t first = 0, last = 0, left = taken->messages;
    for (Py_ssize_t index = 0; left; index++) {
        const uint8_t *entry = wanted->entries + index * ENTRY_SIZE;
        if (index + FETCHED_AHEAD < taken->seen) {
            const uint8_t *ahead = entry + FETCHED_AHEAD * ENTRY_SIZE;
            if (passes(wanted, ahead)) /* then take() has looked at it */
                fetch(whole + (read_i64(ahead) - start), read_i32(ahead + 8));
        }
        if (!passes(wanted, entry)) continue;
        int64_t position = read_i64(entry), size = read_i32(entry + 8);
        left--;
        if (position != last) {
            if (last > first) memcpy(to, whole + (first - start), (size_t)(last - first));
            to += last - first;
            first = position;
        }
        last = position + size;
    }
    memcpy(to, whole + (first - start), (size_t)(last - first));
}

/* All texts and numbers of a head together are shorter than LONGEST_HEAD. */
static char *put_text(char *to, const char *text) {
    size_t length = strlen(text);
    memcpy(to, text, length);
    return to + length;
}

static char *put_number(char *to, long long number) {
    char digits[20], *first = digits + sizeof digits;
    unsigned long long rest = number < 0 ? 0ULL - (unsigned long long)number : (unsigned long long)number;
    do *--first = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0) *to++ = '-';
    memcpy(to, first, (size_t)(digits + sizeof digits - first));
    return to + (digits + sizeof digits - first);
}

/* What the head of an answer says, but for what was found. */
typedef struct {
    int64_t offset, min_offset, max_offset, suggest, opaque;
} Heading;

/* An answer that is not written yet. */
typedef struct {
    Taken taken;
    char head[LONGEST_HEAD];
    Py_ssize_t head_length, size; /* of the whole frame */
} Answer;

/* Finds out what a pull gets; returns 0 if it is not plain. With `must_fill` an answer that could hold more is none. */
static int prepare(const Wanted *wanted, const Heading *heading, int must_fill, Answer *answer) {
    Taken *taken = &answer->taken;
    if (!take(wanted, taken) || (must_fill && !taken->is_full)) return 0;
    /* A filter may have looked back further than the records that it found. */
    if (read_i64(wanted->entries + (taken->seen - 1) * ENTRY_SIZE) < wanted->low) return 0;
    if (taken->size > INT32_MAX - LONGEST_HEAD) return 0;
    char *end = answer->head;
    end = put_text(end, "{\"code\":0,\"extFields\":{\"suggestWhichBrokerId\":\"");
    end = put_number(end, heading->suggest);
    end = put_text(end, "\",\"nextBeginOffset\":\"");
    end = put_number(end, (int64_t)((uint64_t)heading->offset + (uint64_t)taken->seen));
    end = put_text(end, "\",\"minOffset\":\"");
    end = put_number(end, heading->min_offset);
    end = put_text(end, "\",\"maxOffset\":\"");
    end = put_number(end, heading->max_offset);
    end = put_text(end, "\"},\"flag\":1,\"language\":\"JAVA\",\"opaque\":");
    end = put_number(end, heading->opaque);
    end = put_text(end, ",\"remark\":\"FOUND\",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":409}");
    answer->head_length = end - answer->head;
    answer->size = PREFIX_SIZE + answer->head_length + (Py_ssize_t)taken->size;
    return 1;
}

static void write_answer(const Wanted *wanted, const Answer *answer, const uint8_t *whole, int64_t start, uint8_t *to) {
    write_u32(to, (uint32_t)(answer->size - 4));
    write_u32(to + 4, (uint32_t)answer->head_length); /* JSON is type 0 */
    memcpy(to + PREFIX_SIZE, answer->head, (size_t)answer->head_length);
    copy_records(wanted, &answer->taken, whole, start, to + PREFIX_SIZE + answer->head_length);
}

#endif
