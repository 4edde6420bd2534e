/* The lane for sends, in C: the same as PlainSendLane in sends.py, which says what is right.

   A broker in Python spends most of its time per message in the interpreter: some thirty calls of functions and fifty
   of built-in ones, each of them cheap. For plain messages, which nearly all are, this module does that work in one
   call for all frames of a read:

       frame:   type 1, header length 3 | {"code":310,"extFields":{"a":"group","b":"topic",...},"flag":0,...} | body
                     |
                  1. read the header; whatever looks unusual makes the message "not plain"
                  2. where there is access control, compare its signature with that of the connection's account
                  3. find its topic and queue, and ask whether they take it as it is
                  4. make the record of the log, the entry of the queue, what the index needs, and the answer
                  5. let them join the store's open group, all or none

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

#include "caller.h"
#include "record.h"
#include "send_request.h"

enum {
    BLANK_SIZE = 8,
    MAX_SENT_PROPERTIES = 48 * 1024, /* as written in JSON; longer ones take the ordinary path */
    PIECES = 5, /* of the answer, around its numbers */
    MAX_SIGNED_BODY = 64 * 1024,
};

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

static const char WAIT[] = "\x02WAIT\x01true", WAIT_FIRST[] = "WAIT\x01true\x02"; /* of one length */

/* Tell whether nothing rare is in properties, and where WAIT is. See plain_properties() in sends.py. */
static int are_plain(struct text text, const char **wait)
{
    if (find(text, "DEL", 3) || find(text, "TRAN_MSG", 8) || find(text, "CLUSTER", 7))
        return 0;
    *wait = text.at;
    if (skip(&text, WAIT_FIRST, sizeof WAIT_FIRST - 1))
        return length_of(text) && *text.at != 2 && find(text, "WAIT\x01", 5) == NULL;
    *wait = find(text, WAIT, sizeof WAIT - 1);
    if (*wait != NULL && (*wait + sizeof WAIT - 1 == text.end || (*wait)[sizeof WAIT - 1] == 2))
        return 1;
    *wait = NULL;
    return find(text, "WAIT\x01", 5) == NULL;
}

/* Take WAIT out of properties, in place, and a separator at their end; return their length. */
static size_t clean_properties(char *start, size_t length, const char *wait)
{
    if (wait != NULL) {
        size_t before = (size_t)(wait - start);
        memmove(start + before, wait + sizeof WAIT - 1, length - before - (sizeof WAIT - 1));
        length -= sizeof WAIT - 1;
    }
    return length && start[length - 1] == 2 ? length - 1 : length;
}

/* --- the store's objects ----------------------------------------------------------------------------------------- */

enum name {
    POSITION, RESERVED, PARTS, GROUP, ENTRIES, FIRSTS, KEYS, LAST_TIMESTAMP_MS, NEXT_OFFSET, TOPIC_NAME, NAME,
    ACCEPTS_PLAIN_SENDS, QUEUES, SYS_FLAG, PUTS, PUT_BYTES, MOVE_TO_END, NAMES,
};
static const char *const NAME_TEXTS[NAMES] = {
    "position", "reserved", "parts", "group", "entries", "firsts", "keys", "last_timestamp_ms", "next_offset",
    "topic_name", "name", "accepts_plain_sends", "queues", "sys_flag", "puts", "put_bytes", "move_to_end",
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
    struct caller caller;
    const char *born_host;
    int64_t now_ms;
    PyObject *now, *parts, *group, *entries, *firsts, *keys;
    char *answers;
    size_t answers_length, answers_room;
};

/* One message on its way. */
struct message {
    struct request request;
    struct numbered numbered; /* its nonce, if it has one */
    PyObject *topic, *queue;
    struct text name, properties;
    int64_t position, queue_offset, size, sys_flag;
    int32_t tags_code;
};

static int read_frame(struct text frame, long long max_header, struct request *request)
{
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
static int find_queue(const struct round *round, struct message *message)
{
    const SendLane *lane = round->lane;
    const struct request *request = &message->request;
    int64_t queues, topic_flag;
    struct text sent = request->fields[TOPIC];
    PyObject *name = PyUnicode_FromStringAndSize(sent.at, (Py_ssize_t)length_of(sent));
    if (name == NULL)
        return -1;
    int is_allowed = round->caller.access_key == NULL ? 1 : PySet_Contains(round->caller.topics, name);
    if (is_allowed <= 0) {
        Py_DECREF(name);
        return is_allowed;
    }
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

/* --- access control ---------------------------------------------------------------------------------------------- */

/* Tell whether a request is the caller's and was not changed; `properties` are those that came, without escapes. */
static int is_signed(const struct caller *caller, const struct request *request, struct text properties)
{
    struct text key = request->fields[ACCESS_KEY];
    struct sha1 sum;
    const unsigned needed = 1u << ACCESS_KEY | 1u << UNIT_MODE | 1u << BATCH | 1u << SIGNATURE; /* as clients write */
    if ((request->seen & needed) != needed || length_of(request->body) > MAX_SIGNED_BODY ||
        length_of(key) != (size_t)caller->access_key_length || memcmp(key.at, caller->access_key, length_of(key)) != 0)
        return 0;
    signature_begin(&sum, caller->secret);
    for (enum field field = 0; field < SIGNED_FIELDS; field++) {
        struct text value = field == PROPERTIES ? properties : request->fields[field];
        sha1_add(&sum, value.at, length_of(value));
    }
    sha1_add(&sum, request->body.at, length_of(request->body));
    return signature_is(&sum, caller->secret, request->fields[SIGNATURE]);
}

/* Read what keeps a request from being sent twice, if it has that; return as find_queue() does. */
static int find_own_number(const struct round *round, struct message *message)
{
    const struct request *request = &message->request;
    if (!has(request, NONCE))
        return !has(request, SIGNED_CODE) && !has(request, SIGNED_AT);
    if (!has(request, SIGNED_AT) || !equals(request->fields[SIGNED_CODE], "310"))
        return 0;
    return find_number(&round->caller, request->fields[NONCE], request->fields[SIGNED_AT], round->now_ms,
                       &message->numbered);
}

/* --- the message ------------------------------------------------------------------------------------------------- */

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
    put_entry(entry, message->position, (uint32_t)message->size, message->tags_code);
    return PyBytes_FromStringAndSize(entry, ENTRY_SIZE);
}

/* Write the answer behind those of the call, if one is wanted. It leaves once the group is stored. */
static int add_answer(struct round *round, const struct message *message)
{
    SendLane *lane = round->lane;
    if (message->request.flag == ONEWAY)
        return 0;
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

/* Write the properties of a request without their escapes; return their length, 0 if they are not plain. */
static size_t copy_properties(const struct request *request, char target[MAX_SENT_PROPERTIES])
{
    struct text sent = request->fields[PROPERTIES];
    if (length_of(sent) == 0 || length_of(sent) > MAX_SENT_PROPERTIES)
        return 0;
    if (request->properties_have_escapes) {
        Py_ssize_t length = unescape(sent, target);
        return length > 0 ? (size_t)length : 0;
    }
    memcpy(target, sent.at, length_of(sent));
    return length_of(sent);
}

/* Let a message whose queue was found join the group, if there is room and it was not sent before. */
static int place_and_join(struct round *round, struct message *message)
{
    PyObject *name = PyObject_GetAttr(message->queue, names[TOPIC_NAME]);
    if (name == NULL)
        return -1;
    message->name = text_of(name);
    int found = find_place(round->lane, message);
    if (found > 0 && round->caller.access_key != NULL)
        found = find_own_number(round, message);
    if (found > 0 && (join(round, message) < 0 ||
                      note_number(&round->caller, &message->numbered, names[MOVE_TO_END]) < 0))
        found = -1;
    forget_number(&message->numbered);
    Py_DECREF(name);
    return found;
}

/* Return 1 if a frame was taken, 0 if it is not plain, -1 after an error. */
static int take_frame(struct round *round, struct text frame)
{
    char properties[MAX_SENT_PROPERTIES];
    const char *wait;
    struct message message;
    memset(&message, 0, sizeof message);
    if (!read_frame(frame, round->lane->max_header, &message.request))
        return 0;
    size_t length = copy_properties(&message.request, properties);
    struct text sent = {properties, properties + length};
    if (length == 0 || !are_plain(sent, &wait))
        return 0;
    if (round->caller.access_key != NULL && !is_signed(&round->caller, &message.request, sent))
        return 0;
    message.properties.at = properties;
    message.properties.end = properties + clean_properties(properties, length, wait);
    message.tags_code = tag_code(message.properties);
    int found = find_queue(round, &message);
    if (found <= 0)
        return found;
    Py_INCREF(message.topic); /* both were borrowed from their tables */
    Py_INCREF(message.queue);
    found = place_and_join(round, &message);
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

static PyObject *with_answers(const struct round *round, Py_ssize_t count)
{
    return Py_BuildValue("ny#", count, round->answers == NULL ? "" : round->answers,
                         (Py_ssize_t)round->answers_length);
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
    return with_answers(round, count);
}

enum { LENGTH_SIZE = 4, LONGEST_READ = (64 << 10) - 4 }; /* lane/sends.py */

/* Take the first frames of a read, `most` at most; the rest of it is not plain, or not complete. */
static PyObject *take_data(struct round *round, struct text data, Py_ssize_t most)
{
    const char *begin = data.at;
    while (most-- > 0 && length_of(data) > LENGTH_SIZE) {
        size_t length = get_u32(data.at);
        if (length > length_of(data) - LENGTH_SIZE || length > LONGEST_READ)
            break;
        struct text frame = {data.at + LENGTH_SIZE, data.at + LENGTH_SIZE + length};
        int taken = take_frame(round, frame);
        if (taken < 0)
            return NULL;
        if (!taken)
            break;
        data.at = frame.end;
    }
    return with_answers(round, data.at - begin);
}

static void end_round(struct round *round)
{
    PyMem_Free(round->answers);
    Py_XDECREF(round->now);
    Py_XDECREF(round->parts);
    Py_XDECREF(round->group);
    Py_XDECREF(round->entries);
    Py_XDECREF(round->firsts);
    Py_XDECREF(round->keys);
}

/* take_read(data, most, born_host, now_ms) -> (bytes, answers) */
static PyObject *take_read(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct round round = {.lane = (SendLane *)self};
    if (count != 4 || !PyBytes_Check(args[0]) || !PyBytes_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "take_read() needs bytes, a number, a host and a time");
        return NULL;
    }
    Py_ssize_t most = PyLong_AsSsize_t(args[1]);
    round.now_ms = PyLong_AsLongLong(args[3]);
    if (PyErr_Occurred())
        return NULL;
    struct text host = text_of(args[2]);
    round.born_host = host.at;
    if (!round.lane->is_usable || length_of(host) != HOST_SIZE)
        most = 0;
    PyObject *result = begin_round(&round) ? take_data(&round, text_of(args[0]), most) : NULL;
    end_round(&round);
    return result;
}

/* take(frames, first, most, born_host, now_ms, caller) -> (count, answers) */
static PyObject *take(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct round round = {.lane = (SendLane *)self};
    if (count != 6 || !PyList_Check(args[0]) || !PyBytes_Check(args[3])) {
        PyErr_SetString(PyExc_TypeError, "take() needs a list of frames, two numbers, a host, a time and a caller");
        return NULL;
    }
    if (!know_caller(&round.caller, args[5]))
        return NULL;
    Py_ssize_t first = PyLong_AsSsize_t(args[1]), most = PyLong_AsSsize_t(args[2]);
    round.now_ms = PyLong_AsLongLong(args[4]);
    if (PyErr_Occurred())
        return NULL;
    struct text host = text_of(args[3]);
    round.born_host = host.at;
    if (!round.lane->is_usable || length_of(host) != HOST_SIZE || first < 0)
        most = 0;
    PyObject *result = begin_round(&round) ? take_frames(&round, args[0], first, most) : NULL;
    end_round(&round);
    return result;
}

/* NativeSendLane(log, groups, topics, queues, store_host, suffix, pieces, max_header, max_body, max_record,
                  has_index) */
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
    {"take_read", (PyCFunction)(void (*)(void))take_read, METH_FASTCALL, "The same for the bytes of a read."},
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
    choose_sha1();
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
