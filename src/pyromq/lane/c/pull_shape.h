/* The shape of a pull, for _pulls.c, whose head says what that is. */

#ifndef PYROMQ_LANE_PULL_SHAPE_H
#define PYROMQ_LANE_PULL_SHAPE_H

#include "bytes.h"

enum {
    LONGEST_HEADER = 2048,
    MOST_DIGITS = 18,
};

/* What pulls of one shape differ in: three numbers, and where they are signed, three texts. */
enum { QUEUE_OFFSET, COMMIT_OFFSET, OPAQUE, NUMBERS, SIGNATURE = NUMBERS, NONCE, SIGNED_AT, OWN_FIELDS };

static const struct {
    const char *name;
    size_t length;
    int is_quoted;
} own_fields[OWN_FIELDS] = {
    {"queueOffset", sizeof "queueOffset" - 1, 1},
    {"commitOffset", sizeof "commitOffset" - 1, 1},
    {"opaque", sizeof "opaque" - 1, 0},
    {"Signature", sizeof "Signature" - 1, 1},
    {"pyromqNonce", sizeof "pyromqNonce" - 1, 1},
    {"pyromqTime", sizeof "pyromqTime" - 1, 1},
};

/* A request without its own fields, and these: as numbers, and all of them as they were written. */
typedef struct {
    char shape[LONGEST_HEADER];
    size_t length; /* 0 if it has no shape */
    int64_t numbers[NUMBERS];
    struct text texts[OWN_FIELDS];
} Cut;

static inline int field_named(struct text name) {
    for (int field = 0; field < OWN_FIELDS; field++)
        if (length_of(name) == own_fields[field].length && !memcmp(name.at, own_fields[field].name, length_of(name)))
            return field;
    return -1;
}

/* Goes to the end of a text in quotes, which has no escapes; returns 0 if there is none. */
static inline int skip_text(struct text *json) {
    while (json->at < json->end && *json->at != '"' && *json->at != '\\') json->at++;
    return json->at < json->end && *json->at == '"';
}

/* Goes behind digits as JSON writes them; returns 0 if they are written in another way. */
static inline int skip_number(struct text *json, int64_t *value) {
    int is_negative = json->at < json->end && *json->at == '-';
    const char *first = json->at += is_negative;
    int64_t number = 0;
    for (; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++) {
        if (json->at - first >= MOST_DIGITS) return 0;
        number = number * 10 + (*json->at - '0');
    }
    if (json->at == first || (*first == '0' && (json->at - first > 1 || is_negative))) return 0;
    *value = is_negative ? -number : number;
    return 1;
}

static inline void copy_shape(Cut *cut, const char *from, const char *to) {
    memcpy(cut->shape + cut->length, from, (size_t)(to - from));
    cut->length += (size_t)(to - from);
}

/* Cuts a field out whose name and colon were read; returns 0 if it is not to be cut. */
static inline int cut_field(Cut *cut, struct text *json, const char **copied, int field) {
    int is_quoted = own_fields[field].is_quoted;
    if (is_quoted && (json->at == json->end || *json->at++ != '"')) return 0;
    copy_shape(cut, *copied, json->at);
    cut->texts[field].at = json->at;
    if (!(field < NUMBERS ? skip_number(json, &cut->numbers[field]) : skip_text(json))) return 0;
    cut->texts[field].end = *copied = json->at;
    if (json->at == json->end) return 0;
    return is_quoted ? *json->at++ == '"' : *json->at == ',' || *json->at == '}';
}

/* Cuts all own fields out of a header, of which the numbers must be there; returns 0 if it is not to be cut. */
static inline int cut_header(struct text json, Cut *cut) {
    const char *copied = json.at;
    int seen = 0;
    while (json.at < json.end) {
        if (*json.at == '\\') return 0;
        if (*json.at++ != '"') continue;
        struct text name = {json.at, json.at};
        if (!skip_text(&json)) return 0;
        name.end = json.at++;
        if (json.at == json.end || *json.at != ':') continue;
        int field = field_named(name);
        if (field < 0) continue;
        if (seen & 1 << field) return 0;
        seen |= 1 << field;
        json.at++;
        if (!cut_field(cut, &json, &copied, field)) return 0;
    }
    copy_shape(cut, copied, json.end);
    return (seen & ((1 << NUMBERS) - 1)) == (1 << NUMBERS) - 1;
}

/* Cuts a frame; its texts are those of the frame. */
static inline void cut_frame(struct text frame, Cut *cut) {
    struct text none = {frame.at, frame.at};
    cut->length = 0;
    for (int field = 0; field < OWN_FIELDS; field++) cut->texts[field] = none;
    /* A header in JSON, and nothing behind it. */
    if (length_of(frame) <= 4 || length_of(frame) > 4 + LONGEST_HEADER || get_u32(frame.at) != length_of(frame) - 4)
        return;
    frame.at += 4;
    if (!cut_header(frame, cut) || cut->numbers[OPAQUE] < 0 || cut->numbers[OPAQUE] > INT32_MAX) cut->length = 0;
}

#endif
