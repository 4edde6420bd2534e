/* The request to send one message, read from its JSON header; whatever looks unusual is left to the general decoder. */

#ifndef PYROMQ_LANE_SEND_REQUEST_H
#define PYROMQ_LANE_SEND_REQUEST_H

#include "bytes.h"

static const char BEGIN[] = "{\"code\":310,";
enum { ONEWAY = 2 }; /* the flag of a request that wants no answer */

/* --- texts and numbers of JSON ----------------------------------------------------------------------------------- */

static inline int skip_char(struct text *text, char expected)
{
    return skip(text, &expected, 1);
}

static inline int equals(struct text text, const char *other)
{
    return length_of(text) == strlen(other) && memcmp(text.at, other, length_of(text)) == 0;
}

/* Read a text in quotes, of ASCII only. `has_escapes` says whether it has some; NULL refuses them. */
static inline int read_quoted(struct text *json, struct text *found, int *has_escapes)
{
    if (!skip_char(json, '"'))
        return 0;
    found->at = json->at;
    for (; json->at < json->end; json->at++) {
        unsigned char byte = (unsigned char)*json->at;
        if (byte == '"') {
            found->end = json->at++;
            return 1;
        }
        if (byte < 0x20 || byte >= 0x80)
            return 0;
        if (byte == '\\') {
            if (has_escapes == NULL || ++json->at >= json->end)
                return 0;
            *has_escapes = 1;
        }
    }
    return 0;
}

/* Read a number as we would write it: no sign but a minus, no zeros in front, within its limits. */
static inline int read_number(struct text *text, int64_t lowest, int64_t highest, int64_t *found)
{
    int is_negative = skip_char(text, '-');
    const char *digits = text->at;
    uint64_t value = 0;
    while (text->at < text->end && *text->at >= '0' && *text->at <= '9') {
        if (text->at - digits >= 18) /* every number of 18 digits fits */
            return 0;
        value = value * 10 + (uint64_t)(*text->at++ - '0');
    }
    if (text->at == digits || (*digits == '0' && (is_negative || text->at - digits > 1)))
        return 0;
    *found = is_negative ? -(int64_t)value : (int64_t)value;
    return *found >= lowest && *found <= highest;
}

static inline int hex_digit(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    return byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : -1;
}

/* Write a quoted text without its escapes, all of them ASCII; return its length, -1 if it has others. */
static inline Py_ssize_t unescape(struct text quoted, char *target)
{
    static const char ESCAPED[] = "\"\\/bfnrt", MEANT[] = "\"\\/\b\f\n\r\t";
    char *start = target;
    while (quoted.at < quoted.end) {
        if (*quoted.at != '\\') {
            *target++ = *quoted.at++;
            continue;
        }
        if (length_of(quoted) < 2)
            return -1;
        char kind = quoted.at[1];
        const char *known = kind ? strchr(ESCAPED, kind) : NULL;
        if (known != NULL) {
            *target++ = MEANT[known - ESCAPED];
            quoted.at += 2;
        } else {
            if (!skip(&quoted, "\\u00", 4) || length_of(quoted) < 2)
                return -1;
            int high = hex_digit(quoted.at[0]), low = hex_digit(quoted.at[1]);
            if (high < 0 || high > 7 || low < 0)
                return -1;
            *target++ = (char)(high << 4 | low);
            quoted.at += 2;
        }
    }
    return target - start;
}

/* --- the header of a request ------------------------------------------------------------------------------------- */

/* The ext fields of a send in the order of their names, in which they are signed; then the one that is not. */
enum field {
    ACCESS_KEY,
    SECURITY_TOKEN,
    LETTER_A,
    TOPIC = LETTER_A + 'b' - 'a',
    PROPERTIES = LETTER_A + 'i' - 'a',
    UNIT_MODE = LETTER_A + 'k' - 'a',
    BATCH = LETTER_A + 'm' - 'a',
    LETTER_N = LETTER_A + 'n' - 'a',
    SIGNED_CODE,
    NONCE,
    SIGNED_AT,
    SIGNED_FIELDS,
    SIGNATURE = SIGNED_FIELDS,
    FIELDS,
};

struct request {
    struct text fields[FIELDS], body;
    unsigned seen; /* which of the fields are there */
    int properties_have_escapes;
    int64_t opaque, flag, queue_id, sys_flag, born_ms, message_flag, reconsume_times, ignored;
};

static inline int has(const struct request *request, enum field field)
{
    return request->seen >> field & 1;
}

/* Each field at most once: the general decoder takes the last of several, so those go there. */
static inline int is_first(unsigned *seen, int number)
{
    unsigned bit = 1u << number;
    int is_new = !(*seen & bit);
    *seen |= bit;
    return is_new;
}

/* Return which field has a name; FIELDS if none has. */
static inline enum field field_of(struct text name)
{
    static const struct {
        const char *name;
        enum field field;
    } LONG_NAMES[] = {
        {"AccessKey", ACCESS_KEY},     {"SecurityToken", SECURITY_TOKEN}, {"Signature", SIGNATURE},
        {"pyromqCode", SIGNED_CODE},   {"pyromqNonce", NONCE},            {"pyromqTime", SIGNED_AT},
    };
    if (length_of(name) == 1)
        return *name.at >= 'a' && *name.at <= 'n' ? LETTER_A + (enum field)(*name.at - 'a') : FIELDS;
    for (size_t at = 0; at < sizeof LONG_NAMES / sizeof *LONG_NAMES; at++)
        if (equals(name, LONG_NAMES[at].name))
            return LONG_NAMES[at].field;
    return FIELDS;
}

static inline int is_number(struct text value, int64_t lowest, int64_t highest, int64_t *found)
{
    return read_number(&value, lowest, highest, found) && value.at == value.end;
}

static inline int is_i32(struct text value, int64_t *found)
{
    return is_number(value, INT32_MIN, INT32_MAX, found);
}

/* Take over the value of a field; return 0 if it is not what a plain send has there. */
static inline int take_field(enum field field, struct request *request)
{
    struct text value = request->fields[field];
    if (field < LETTER_A || field > LETTER_N)
        return 1;
    switch ('a' + (int)field - LETTER_A) {
    case 'd': /* queues of a new topic */
    case 'l': /* most retries */
        return is_i32(value, &request->ignored);
    case 'e':
        return is_i32(value, &request->queue_id);
    case 'f':
        return is_i32(value, &request->sys_flag);
    case 'g':
        return is_number(value, INT64_MIN, INT64_MAX, &request->born_ms);
    case 'h':
        return is_i32(value, &request->message_flag);
    case 'j':
        return is_i32(value, &request->reconsume_times);
    case 'k': /* unit mode */
        return equals(value, "true") || equals(value, "false");
    case 'm': /* batch */
        return equals(value, "false");
    }
    return 1; /* producer group, topic, topic whose settings a new one gets, properties, broker name */
}

/* Read `{"a":"...", ...}`; all fields that a send needs must be there. */
static inline int read_ext_fields(struct text *json, struct request *request)
{
    const unsigned needed = ((1u << ('i' - 'a' + 1)) - 1) << LETTER_A; /* a to i */
    if (!skip_char(json, '{'))
        return 0;
    do {
        struct text name;
        if (!read_quoted(json, &name, NULL) || !skip_char(json, ':'))
            return 0;
        enum field field = field_of(name);
        if (field == FIELDS || !is_first(&request->seen, (int)field) ||
            !read_quoted(json, &request->fields[field],
                         field == PROPERTIES ? &request->properties_have_escapes : NULL) ||
            !take_field(field, request))
            return 0;
    } while (skip_char(json, ','));
    return skip_char(json, '}') && (request->seen & needed) == needed;
}

/* Read a whole header, without blanks and in any order behind the code; return 0 if something is unusual. */
static inline int read_header(struct text json, struct request *request)
{
    unsigned seen = 0;
    if (!skip(&json, BEGIN, sizeof BEGIN - 1))
        return 0;
    do {
        struct text name, value;
        int is_read = 0;
        if (!read_quoted(&json, &name, NULL) || !skip_char(&json, ':'))
            return 0;
        if (equals(name, "extFields"))
            is_read = is_first(&seen, 0) && read_ext_fields(&json, request);
        else if (equals(name, "flag"))
            is_read = is_first(&seen, 1) && read_number(&json, INT32_MIN, INT32_MAX, &request->flag);
        else if (equals(name, "opaque"))
            is_read = is_first(&seen, 2) && read_number(&json, INT32_MIN, INT32_MAX, &request->opaque);
        else if (equals(name, "version"))
            is_read = is_first(&seen, 3) && read_number(&json, INT32_MIN, INT32_MAX, &request->ignored);
        else if (equals(name, "language"))
            is_read = is_first(&seen, 4) && read_quoted(&json, &value, NULL);
        else if (equals(name, "serializeTypeCurrentRPC"))
            is_read = is_first(&seen, 5) && read_quoted(&json, &value, NULL);
        if (!is_read)
            return 0;
    } while (skip_char(&json, ','));
    return skip_char(&json, '}') && json.at == json.end && (seen & 1) &&
           (request->flag == 0 || request->flag == ONEWAY);
}

#endif
