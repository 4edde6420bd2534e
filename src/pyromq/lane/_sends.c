/* The lane for sends, in C: the same as PlainSendLane in sends.py, which says what is right.

   A broker in Python spends most of its time per message in the interpreter: some thirty calls of functions and fifty
   of built-in ones, each of them cheap. For plain messages, which nearly all are, this module does that work in one
   call for all frames of a read:

       frame:   type 1, header length 3 | {"code":310,"extFields":{"a":"group","b":"topic",...},"flag":0,...} | body
                     |
                  1. read the header; whatever looks unusual makes the message "not plain"
                  2. find its topic and queue, and ask whether they take it as it is
                  3. make the record of the log, the entry of the queue, what the index needs, and the answer
                  4. let them join the store's open group, all or none

   Rules that keep it safe:

   - It stops at the first frame that is not plain, and has changed nothing because of it. The ordinary path, in Python,
     serves that frame next, so the order of messages stays as they came. When in doubt, a message is not plain: that
     costs time, never a message.
   - It owns nothing. Positions and offsets are attributes of the store's objects; it reads them there for each message
     and writes them there after it. Between two calls it remembers only what its constructor was given.
   - It touches no file and no socket, and calls no Python code but the attributes of those objects.
   - Peers choose all bytes of a frame. Every read of them goes through a `struct text` that knows its end, and every
     length is compared before it is used. `make torture PART=lane_fuzz` runs it under AddressSanitizer.

   It is built for Python's stable ABI, so one binary serves all versions from 3.11 on. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "bytes.h"

enum {
    HEAD_SIZE = 88, /* fixed fields of a record with IPv4 hosts */
    ENTRY_SIZE = 20,
    BLANK_SIZE = 8,
    HOST_SIZE = 8,
    MAX_PROPERTIES = 32767,
    MAX_SENT_PROPERTIES = 48 * 1024, /* as written in JSON; longer ones take the ordinary path */
    TRANSACTION_MASK = 0xC,
    V6_FLAGS = 0x30,
    PIECES = 5, /* of the answer, around its numbers */
};

static const uint32_t MESSAGE_MAGIC = 0xDAA320A7;
static const char BEGIN[] = "{\"code\":310,";

/* --- bytes of others --------------------------------------------------------------------------------------------- */

static int skip_char(struct text *text, char expected)
{
    return skip(text, &expected, 1);
}

static int equals(struct text text, const char *other)
{
    return length_of(text) == strlen(other) && memcmp(text.at, other, length_of(text)) == 0;
}

/* Read a text in quotes, of ASCII only. `has_escapes` says whether it has some; NULL refuses them. */
static int read_quoted(struct text *json, struct text *found, int *has_escapes)
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
static int read_number(struct text *text, int64_t lowest, int64_t highest, int64_t *found)
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

static int hex_digit(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    return byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : -1;
}

/* Write a quoted text without its escapes, all of them ASCII; return its length, -1 if it has others. */
static Py_ssize_t unescape(struct text quoted, char *target)
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

struct request {
    struct text topic, properties, body;
    int properties_have_escapes;
    int64_t opaque, flag, queue_id, sys_flag, born_ms, message_flag, reconsume_times, ignored;
};

/* Each field at most once: the general decoder takes the last of several, so those go there. */
static int is_first(unsigned *seen, int number)
{
    unsigned bit = 1u << number;
    int is_new = !(*seen & bit);
    *seen |= bit;
    return is_new;
}

static int read_quoted_number(struct text *json, int64_t lowest, int64_t highest, int64_t *found)
{
    struct text value;
    return read_quoted(json, &value, NULL) && read_number(&value, lowest, highest, found) && value.at == value.end;
}

static int read_i32(struct text *json, int64_t *found)
{
    return read_quoted_number(json, INT32_MIN, INT32_MAX, found);
}

static int read_ext_field(struct text *json, char name, struct request *request)
{
    struct text value;
    switch (name) {
    case 'a': /* producer group */
    case 'c': /* topic whose settings a new topic gets */
    case 'n': /* broker name */
        return read_quoted(json, &value, NULL);
    case 'b':
        return read_quoted(json, &request->topic, NULL);
    case 'd': /* queues of a new topic */
    case 'l': /* most retries */
        return read_i32(json, &request->ignored);
    case 'e':
        return read_i32(json, &request->queue_id);
    case 'f':
        return read_i32(json, &request->sys_flag);
    case 'g':
        return read_quoted_number(json, INT64_MIN, INT64_MAX, &request->born_ms);
    case 'h':
        return read_i32(json, &request->message_flag);
    case 'i':
        return read_quoted(json, &request->properties, &request->properties_have_escapes);
    case 'j':
        return read_i32(json, &request->reconsume_times);
    case 'k': /* unit mode */
        return read_quoted(json, &value, NULL) && (equals(value, "true") || equals(value, "false"));
    case 'm': /* batch */
        return read_quoted(json, &value, NULL) && equals(value, "false");
    }
    return 0;
}

/* Read `{"a":"...", ...}`; all fields that a send needs must be there. */
static int read_ext_fields(struct text *json, struct request *request)
{
    const unsigned needed = (1u << ('i' - 'a' + 1)) - 1; /* a to i */
    unsigned seen = 0;
    if (!skip_char(json, '{'))
        return 0;
    do {
        struct text name;
        if (!read_quoted(json, &name, NULL) || length_of(name) != 1 || *name.at < 'a' || *name.at > 'n')
            return 0;
        if (!is_first(&seen, *name.at - 'a') || !skip_char(json, ':') || !read_ext_field(json, *name.at, request))
            return 0;
    } while (skip_char(json, ','));
    return skip_char(json, '}') && (seen & needed) == needed;
}

/* Read a whole header, without blanks and in any order behind the code; return 0 if something is unusual. */
static int read_header(struct text json, struct request *request)
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
    return skip_char(&json, '}') && json.at == json.end && (seen & 1) && request->flag == 0;
}

/* --- numbers into text ------------------------------------------------------------------------------------------- */

static char *put_decimal(char *at, int64_t value)
{
    char digits[20];
    int count = 0;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do
        digits[count++] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0)
        *at++ = '-';
    while (count)
        *at++ = digits[--count];
    return at;
}

/* --- properties -------------------------------------------------------------------------------------------------- */

/* Return the hash of the last tag: what stands behind TAGS, up to the end of that property. */
static int32_t tag_code(struct text text)
{
    static const char NAME[] = "\x02TAGS\x01";
    const size_t length = sizeof NAME - 1;
    struct text rest = text, tag = {NULL, NULL};
    for (const char *found; (found = find(rest, NAME, length)) != NULL; rest.at = found + 1)
        tag.at = found + length;
    if (tag.at == NULL) {
        if (!skip(&text, NAME + 1, length - 1))
            return 0;
        tag.at = text.at;
    }
    const char *end = memchr(tag.at, 2, (size_t)(text.end - tag.at));
    tag.end = end == NULL ? text.end : end;
    return java_hash(tag);
}

/* Take WAIT out of properties, in place; return 0 if something rare is in them. See plain_properties() in sends.py. */
static int clean_properties(char *start, size_t *length)
{
    static const char WAIT[] = "\x02WAIT\x01true";
    struct text text = {start, start + *length};
    if (find(text, "DEL", 3) || find(text, "TRAN_MSG", 8) || find(text, "CLUSTER", 7))
        return 0;
    const char *wait = find(text, WAIT, sizeof WAIT - 1);
    if (wait != NULL && (wait + sizeof WAIT - 1 == text.end || wait[sizeof WAIT - 1] == 2)) {
        size_t behind = (size_t)(text.end - wait) - (sizeof WAIT - 1);
        memmove(start + (wait - start), wait + sizeof WAIT - 1, behind);
        *length -= sizeof WAIT - 1;
    } else if (find(text, "WAIT\x01", 5)) {
        return 0;
    }
    if (*length && start[*length - 1] == 2)
        --*length;
    return 1;
}

/* --- the store's objects ----------------------------------------------------------------------------------------- */

enum name {
    POSITION, RESERVED, PARTS, GROUP, ENTRIES, FIRSTS, KEYS, LAST_TIMESTAMP_MS, NEXT_OFFSET, TOPIC_NAME, NAME,
    ACCEPTS_PLAIN_SENDS, QUEUES, SYS_FLAG, PUTS, PUT_BYTES, NAMES,
};
static const char *const NAME_TEXTS[NAMES] = {
    "position", "reserved", "parts", "group", "entries", "firsts", "keys", "last_timestamp_ms", "next_offset",
    "topic_name", "name", "accepts_plain_sends", "queues", "sys_flag", "puts", "put_bytes",
};
static PyObject *names[NAMES];

static int get_number(PyObject *object, enum name name, int64_t *found)
{
    PyObject *value = PyObject_GetAttr(object, names[name]);
    if (value == NULL)
        return -1;
    *found = PyLong_AsLongLong(value);
    Py_DECREF(value);
    return *found == -1 && PyErr_Occurred() ? -1 : 0;
}

static int set_number(PyObject *object, enum name name, int64_t value)
{
    PyObject *number = PyLong_FromLongLong(value);
    int failed = number == NULL || PyObject_SetAttr(object, names[name], number) < 0;
    Py_XDECREF(number);
    return failed ? -1 : 0;
}

/* Return an attribute that must be of this kind; NULL with an error if it is not. */
static PyObject *get_list(PyObject *object, enum name name)
{
    PyObject *value = PyObject_GetAttr(object, names[name]);
    if (value != NULL && !PyList_Check(value)) {
        Py_CLEAR(value);
        PyErr_Format(PyExc_TypeError, "%s must be a list", NAME_TEXTS[name]);
    }
    return value;
}

static PyObject *get_dict(PyObject *object, enum name name)
{
    PyObject *value = PyObject_GetAttr(object, names[name]);
    if (value != NULL && !PyDict_Check(value)) {
        Py_CLEAR(value);
        PyErr_Format(PyExc_TypeError, "%s must be a dict", NAME_TEXTS[name]);
    }
    return value;
}

static void cut_list(PyObject *list, Py_ssize_t length)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (PyList_SetSlice(list, length, PyList_Size(list), NULL) < 0)
        PyErr_Clear();
    PyErr_Restore(type, value, traceback);
}

/* --- the lane ---------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    PyObject *log, *groups, *topics, *queues, *store_host, *suffix, *pieces[PIECES];
    char id_prefix[2 * HOST_SIZE];
    long long max_header, max_body, max_record;
    int has_index, is_usable;
} SendLane;

/* What one call of take() needs again and again; the group does not change while it runs. */
struct round {
    SendLane *lane;
    const char *born_host;
    int64_t now_ms;
    PyObject *now, *parts, *group, *entries, *firsts, *keys;
    char *answers;
    size_t answers_length, answers_room;
};

/* One message on its way. */
struct message {
    struct request request;
    PyObject *topic, *queue;
    struct text name, properties;
    int64_t position, queue_offset, size, sys_flag;
    int32_t tags_code;
};

static int read_frame(struct text frame, long long max_header, struct request *request)
{
    memset(request, 0, sizeof *request);
    if (length_of(frame) < 4 || frame.at[0] != 0) /* JSON */
        return 0;
    const unsigned char *word = (const unsigned char *)frame.at;
    size_t header = (size_t)word[1] << 16 | (size_t)word[2] << 8 | word[3];
    if (header > length_of(frame) - 4 || (long long)header > max_header)
        return 0;
    struct text json = {frame.at + 4, frame.at + 4 + header};
    request->body.at = json.end;
    request->body.end = frame.end;
    return read_header(json, request);
}

/* Find topic and queue of a message; return 1 if they take it, 0 if it is not plain, -1 after an error. */
static int find_queue(SendLane *lane, struct message *message)
{
    const struct request *request = &message->request;
    int64_t queues, topic_flag;
    PyObject *name = PyUnicode_FromStringAndSize(request->topic.at, (Py_ssize_t)length_of(request->topic));
    if (name == NULL)
        return -1;
    message->topic = PyDict_GetItemWithError(lane->topics, name);
    PyObject *by_id = message->topic == NULL ? NULL : PyDict_GetItemWithError(lane->queues, name);
    Py_DECREF(name);
    if (by_id == NULL || !PyDict_Check(by_id))
        return PyErr_Occurred() ? -1 : 0;
    PyObject *accepts = PyObject_GetAttr(message->topic, names[ACCEPTS_PLAIN_SENDS]);
    if (accepts == NULL)
        return -1;
    int is_accepted = PyObject_IsTrue(accepts);
    Py_DECREF(accepts);
    if (is_accepted <= 0)
        return is_accepted;
    if (get_number(message->topic, QUEUES, &queues) < 0 || get_number(message->topic, SYS_FLAG, &topic_flag) < 0)
        return -1;
    message->sys_flag = (request->sys_flag | topic_flag) & ~V6_FLAGS;
    if (request->queue_id < 0 || request->queue_id >= queues || message->sys_flag & TRANSACTION_MASK)
        return 0;
    PyObject *id = PyLong_FromLongLong(request->queue_id);
    if (id == NULL)
        return -1;
    message->queue = PyDict_GetItemWithError(by_id, id);
    Py_DECREF(id);
    return message->queue != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
}

/* Give a message its place, if there is room; return as find_queue() does. */
static int find_place(SendLane *lane, struct message *message)
{
    int64_t log_end, queue_end;
    int64_t body = (int64_t)length_of(message->request.body);
    int64_t properties = (int64_t)length_of(message->properties) + (int64_t)length_of(text_of(lane->suffix));
    if (get_number(lane->log, POSITION, &message->position) < 0 || get_number(lane->log, RESERVED, &log_end) < 0 ||
        get_number(message->queue, NEXT_OFFSET, &message->queue_offset) < 0 ||
        get_number(message->queue, RESERVED, &queue_end) < 0)
        return -1;
    message->size = HEAD_SIZE + 3 + body + (int64_t)length_of(message->name) + properties;
    return body <= lane->max_body && message->size <= lane->max_record && properties <= MAX_PROPERTIES &&
           length_of(message->name) <= 127 && message->position <= log_end - BLANK_SIZE - message->size &&
           message->queue_offset >= 0 && message->queue_offset < queue_end / ENTRY_SIZE;
}

static PyObject *make_record(const struct round *round, const struct message *message)
{
    const struct request *request = &message->request;
    struct text suffix = text_of(round->lane->suffix), store_host = text_of(round->lane->store_host);
    PyObject *record = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)message->size);
    if (record == NULL)
        return NULL;
    char *at = PyBytes_AsString(record);
    at = put_u32(at, (uint32_t)message->size);
    at = put_u32(at, MESSAGE_MAGIC);
    at = put_u32(at, crc32_of(request->body) & 0x7FFFFFFF);
    at = put_u32(at, (uint32_t)request->queue_id);
    at = put_u32(at, (uint32_t)request->message_flag);
    at = put_u64(at, (uint64_t)message->queue_offset);
    at = put_u64(at, (uint64_t)message->position);
    at = put_u32(at, (uint32_t)message->sys_flag);
    at = put_u64(at, (uint64_t)request->born_ms);
    at = put_bytes(at, round->born_host, HOST_SIZE);
    at = put_u64(at, (uint64_t)round->now_ms);
    at = put_bytes(at, store_host.at, HOST_SIZE);
    at = put_u32(at, (uint32_t)request->reconsume_times);
    at = put_u64(at, 0); /* where the first half of a transaction is */
    at = put_u32(at, (uint32_t)length_of(request->body));
    at = put_bytes(at, request->body.at, length_of(request->body));
    *at++ = (char)length_of(message->name);
    at = put_bytes(at, message->name.at, length_of(message->name));
    size_t properties = length_of(message->properties) + length_of(suffix);
    *at++ = (char)(properties >> 8);
    *at++ = (char)properties;
    at = put_bytes(at, message->properties.at, length_of(message->properties));
    put_bytes(at, suffix.at, length_of(suffix));
    return record;
}

static PyObject *make_entry(const struct message *message)
{
    char entry[ENTRY_SIZE];
    put_u64(put_u32(put_u64(entry, (uint64_t)message->position), (uint32_t)message->size),
            (uint64_t)(int64_t)message->tags_code);
    return PyBytes_FromStringAndSize(entry, ENTRY_SIZE);
}

/* Write the answer behind those of the call. It leaves once the group is stored. */
static int add_answer(struct round *round, const struct message *message)
{
    SendLane *lane = round->lane;
    size_t most = 8 + sizeof lane->id_prefix + 16 + 3 * 20;
    for (int piece = 0; piece < PIECES; piece++)
        most += length_of(text_of(lane->pieces[piece]));
    if (round->answers_length + most > round->answers_room) {
        size_t room = 2 * (round->answers_room + most);
        char *larger = PyMem_Realloc(round->answers, room);
        if (larger == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        round->answers = larger;
        round->answers_room = room;
    }
    char *start = round->answers + round->answers_length, *at = start + 8;
    struct text pieces[PIECES];
    for (int piece = 0; piece < PIECES; piece++)
        pieces[piece] = text_of(lane->pieces[piece]);
    at = put_bytes(at, pieces[0].at, length_of(pieces[0]));
    at = put_bytes(at, lane->id_prefix, sizeof lane->id_prefix);
    at = put_hex(at, (uint64_t)message->position);
    at = put_bytes(at, pieces[1].at, length_of(pieces[1]));
    at = put_decimal(at, message->request.queue_id);
    at = put_bytes(at, pieces[2].at, length_of(pieces[2]));
    at = put_decimal(at, message->queue_offset);
    at = put_bytes(at, pieces[3].at, length_of(pieces[3]));
    at = put_decimal(at, message->request.opaque);
    at = put_bytes(at, pieces[4].at, length_of(pieces[4]));
    uint32_t header = (uint32_t)(at - start - 8);
    put_u32(put_u32(start, header + 4), header);
    round->answers_length = (size_t)(at - round->answers);
    return 0;
}

/* Return the entries of a queue in the group, a new reference; they begin with the next offset if there are none. */
static PyObject *entries_of(const struct round *round, const struct message *message)
{
    PyObject *entries = PyDict_GetItemWithError(round->entries, message->queue);
    if (entries != NULL && PyList_Check(entries))
        return Py_NewRef(entries);
    if (entries != NULL)
        PyErr_SetString(PyExc_TypeError, "entries must be lists");
    if (PyErr_Occurred())
        return NULL;
    PyObject *first = PyLong_FromLongLong(message->queue_offset);
    entries = PyList_New(0);
    if (first == NULL || entries == NULL || PyDict_SetItem(round->firsts, message->queue, first) < 0 ||
        PyDict_SetItem(round->entries, message->queue, entries) < 0)
        Py_CLEAR(entries);
    Py_XDECREF(first);
    return entries;
}

/* Append what the index needs of a message: topic, properties, place and time. */
static int add_keys(const struct round *round, const struct message *message, PyObject *record)
{
    struct text whole = text_of(record);
    size_t length = length_of(message->properties) + length_of(text_of(round->lane->suffix));
    PyObject *topic = PyObject_GetAttr(message->topic, names[NAME]);
    PyObject *properties = PyBytes_FromStringAndSize(whole.end - length, (Py_ssize_t)length);
    PyObject *position = PyLong_FromLongLong(message->position);
    int failed = topic == NULL || properties == NULL || position == NULL || PyList_Append(round->keys, topic) < 0 ||
                 PyList_Append(round->keys, properties) < 0 || PyList_Append(round->keys, position) < 0 ||
                 PyList_Append(round->keys, round->now) < 0;
    Py_XDECREF(topic);
    Py_XDECREF(properties);
    Py_XDECREF(position);
    return failed ? -1 : 0;
}

static int count_put(PyObject *topic, int64_t size)
{
    int64_t puts, bytes;
    return get_number(topic, PUTS, &puts) < 0 || get_number(topic, PUT_BYTES, &bytes) < 0 ||
           set_number(topic, PUTS, puts + 1) < 0 || set_number(topic, PUT_BYTES, bytes + size) < 0 ? -1 : 0;
}

/* Let a message join the open group, all of it or nothing. */
static int join(struct round *round, const struct message *message)
{
    PyObject *record = make_record(round, message), *entry = make_entry(message), *entries = NULL;
    PyObject *parts = round->parts, *keys = round->keys;
    Py_ssize_t parts_before = PyList_Size(parts), keys_before = PyList_Size(keys), entries_before = 0;
    size_t answers_before = round->answers_length;
    int64_t next = message->position + message->size;
    if (record == NULL || entry == NULL || (entries = entries_of(round, message)) == NULL)
        goto failed;
    entries_before = PyList_Size(entries);
    if (add_answer(round, message) < 0 || PyList_Append(parts, record) < 0 || PyList_Append(entries, entry) < 0 ||
        (round->lane->has_index && add_keys(round, message, record) < 0) ||
        set_number(round->lane->log, POSITION, next) < 0 ||
        set_number(message->queue, NEXT_OFFSET, message->queue_offset + 1) < 0)
        goto failed;
    Py_DECREF(record);
    Py_DECREF(entry);
    Py_DECREF(entries);
    return PyObject_SetAttr(round->group, names[LAST_TIMESTAMP_MS], round->now) < 0 ||
           count_put(message->topic, message->size) < 0 ? -1 : 0;
failed: /* no memory */
    if (entries != NULL) {
        PyObject *type, *value, *traceback;
        cut_list(parts, parts_before);
        cut_list(entries, entries_before);
        cut_list(keys, keys_before);
        round->answers_length = answers_before;
        PyErr_Fetch(&type, &value, &traceback);
        if (set_number(round->lane->log, POSITION, message->position) < 0 ||
            set_number(message->queue, NEXT_OFFSET, message->queue_offset) < 0)
            PyErr_Clear();
        PyErr_Restore(type, value, traceback);
    }
    Py_XDECREF(record);
    Py_XDECREF(entry);
    Py_XDECREF(entries);
    return -1;
}

/* Return 1 if a frame was taken, 0 if it is not plain, -1 after an error. */
static int take_frame(struct round *round, struct text frame)
{
    char properties[MAX_SENT_PROPERTIES];
    struct message message;
    struct request *request = &message.request;
    if (!read_frame(frame, round->lane->max_header, request))
        return 0;
    size_t length = length_of(request->properties);
    if (length == 0 || length > sizeof properties)
        return 0;
    if (request->properties_have_escapes) {
        Py_ssize_t found = unescape(request->properties, properties);
        if (found <= 0)
            return 0;
        length = (size_t)found;
    } else {
        memcpy(properties, request->properties.at, length);
    }
    if (!clean_properties(properties, &length))
        return 0;
    message.properties.at = properties;
    message.properties.end = properties + length;
    message.tags_code = tag_code(message.properties);
    int found = find_queue(round->lane, &message);
    if (found <= 0)
        return found;
    Py_INCREF(message.topic); /* both were borrowed from their tables */
    Py_INCREF(message.queue);
    PyObject *name = PyObject_GetAttr(message.queue, names[TOPIC_NAME]);
    if (name == NULL) {
        found = -1;
    } else {
        message.name = text_of(name);
        found = find_place(round->lane, &message);
        if (found > 0)
            found = join(round, &message) < 0 ? -1 : 1;
        Py_DECREF(name);
    }
    Py_DECREF(message.topic);
    Py_DECREF(message.queue);
    return found;
}

static int begin_round(struct round *round)
{
    return (round->now = PyLong_FromLongLong(round->now_ms)) != NULL &&
           (round->parts = get_list(round->lane->log, PARTS)) != NULL &&
           (round->group = PyObject_GetAttr(round->lane->groups, names[GROUP])) != NULL &&
           (round->entries = get_dict(round->group, ENTRIES)) != NULL &&
           (round->firsts = get_dict(round->group, FIRSTS)) != NULL &&
           (round->keys = get_list(round->group, KEYS)) != NULL;
}

static PyObject *take_frames(struct round *round, PyObject *frames, Py_ssize_t first, Py_ssize_t most)
{
    Py_ssize_t count = 0;
    while (count < most && first + count < PyList_Size(frames)) {
        PyObject *frame = PyList_GetItem(frames, first + count);
        if (frame == NULL || !PyBytes_CheckExact(frame))
            break;
        Py_INCREF(frame);
        int taken = take_frame(round, text_of(frame));
        Py_DECREF(frame);
        if (taken < 0)
            return NULL;
        if (!taken)
            break;
        count++;
    }
    return Py_BuildValue("ny#", count, round->answers == NULL ? "" : round->answers,
                         (Py_ssize_t)round->answers_length);
}

/* take(frames, first, most, born_host, now_ms) -> (count, answers) */
static PyObject *take(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct round round = {.lane = (SendLane *)self};
    if (count != 5 || !PyList_Check(args[0]) || !PyBytes_Check(args[3])) {
        PyErr_SetString(PyExc_TypeError, "take() needs a list of frames, two numbers, a host and a time");
        return NULL;
    }
    Py_ssize_t first = PyLong_AsSsize_t(args[1]), most = PyLong_AsSsize_t(args[2]);
    round.now_ms = PyLong_AsLongLong(args[4]);
    if (PyErr_Occurred())
        return NULL;
    struct text host = text_of(args[3]);
    round.born_host = host.at;
    if (!round.lane->is_usable || length_of(host) != HOST_SIZE || first < 0)
        most = 0;
    PyObject *result = begin_round(&round) ? take_frames(&round, args[0], first, most) : NULL;
    PyMem_Free(round.answers);
    Py_XDECREF(round.now);
    Py_XDECREF(round.parts);
    Py_XDECREF(round.group);
    Py_XDECREF(round.entries);
    Py_XDECREF(round.firsts);
    Py_XDECREF(round.keys);
    return result;
}

/* NativeSendLane(log, groups, topics, queues, store_host, suffix, pieces, max_header, max_body, max_record, has_index) */
static int lane_init(PyObject *self, PyObject *args, PyObject *keywords)
{
    SendLane *lane = (SendLane *)self;
    PyObject *pieces;
    (void)keywords;
    if (lane->log != NULL) {
        PyErr_SetString(PyExc_TypeError, "a lane is made once");
        return -1;
    }
    PyObject *log, *groups, *topics, *queues, *store_host, *suffix;
    if (!PyArg_ParseTuple(args, "OOOOSSOLLLp", &log, &groups, &topics, &queues, &store_host, &suffix, &pieces,
                          &lane->max_header, &lane->max_body, &lane->max_record, &lane->has_index))
        return -1;
    if (!PyDict_Check(topics) || !PyDict_Check(queues) || !PyTuple_Check(pieces) || PyTuple_Size(pieces) != PIECES) {
        PyErr_SetString(PyExc_TypeError, "topics and queues must be dicts, pieces five texts");
        return -1;
    }
    for (int piece = 0; piece < PIECES; piece++) {
        PyObject *text = PyTuple_GetItem(pieces, piece);
        if (text == NULL || !PyBytes_Check(text)) {
            PyErr_SetString(PyExc_TypeError, "a piece of the answer must be bytes");
            return -1;
        }
        lane->pieces[piece] = Py_NewRef(text);
    }
    lane->log = Py_NewRef(log);
    lane->groups = Py_NewRef(groups);
    lane->topics = Py_NewRef(topics);
    lane->queues = Py_NewRef(queues);
    lane->store_host = Py_NewRef(store_host);
    lane->suffix = Py_NewRef(suffix);
    struct text host = text_of(store_host);
    lane->is_usable = length_of(host) == HOST_SIZE;
    for (int byte = 0; lane->is_usable && byte < HOST_SIZE; byte++) {
        lane->id_prefix[2 * byte] = "0123456789ABCDEF"[(unsigned char)host.at[byte] >> 4];
        lane->id_prefix[2 * byte + 1] = "0123456789ABCDEF"[host.at[byte] & 15];
    }
    return 0;
}

static void lane_dealloc(PyObject *self)
{
    SendLane *lane = (SendLane *)self;
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(lane->log);
    Py_XDECREF(lane->groups);
    Py_XDECREF(lane->topics);
    Py_XDECREF(lane->queues);
    Py_XDECREF(lane->store_host);
    Py_XDECREF(lane->suffix);
    for (int piece = 0; piece < PIECES; piece++)
        Py_XDECREF(lane->pieces[piece]);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef lane_methods[] = {
    {"take", (PyCFunction)(void (*)(void))take, METH_FASTCALL, "Let plain messages join the open group."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot lane_slots[] = {
    {Py_tp_init, lane_init},
    {Py_tp_dealloc, lane_dealloc},
    {Py_tp_methods, lane_methods},
    {0, NULL},
};
static PyType_Spec lane_spec = {"pyromq.lane._sends.NativeSendLane", sizeof(SendLane), 0, Py_TPFLAGS_DEFAULT,
                                lane_slots};
static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT, "_sends", "The lane for sends, in C.", -1, NULL, NULL,
                                        NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__sends(void)
{
    make_crc_tables();
    for (int name = 0; name < NAMES; name++)
        if ((names[name] = PyUnicode_InternFromString(NAME_TEXTS[name])) == NULL)
            return NULL;
    PyObject *module = PyModule_Create(&module_def);
    PyObject *type = module == NULL ? NULL : PyType_FromSpec(&lane_spec);
    if (type == NULL || PyModule_AddObjectRef(module, "NativeSendLane", type) < 0)
        Py_CLEAR(module);
    Py_XDECREF(type);
    return module;
}
