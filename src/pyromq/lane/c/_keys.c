/* Keys of messages, for the index, in C: the same as store/index/key_batch.py and IndexWriter.put(), which say what is
   right.

   Every message is found by its unique key and by the keys that its sender gave it. The index knows them by the hash of
   `topic#key`, and has an entry of 20 bytes for each:

       messages:  topic, properties, place, time | topic, properties, place, time | …
                     |
       hash_keys()   the value of UNIQ_KEY, then each word of KEYS, hashed as Java does
                     |
       hashes, places, times, one of each for a key
                     |
       link()        entry: hash | place | seconds | the entry before it in its slot;   slot: the number of the entry
                     |
       entries, to be written to the file by the caller

   hash_keys() leaves all of its messages to the plain form if one of their topics or keys is not of ASCII: Java counts
   in units of UTF-16.

   link() changes the slots, which are in the caller's memory, and notes which pages of them it has changed. It believes
   no slot: a number that cannot be that of an entry counts as none. Who cannot write the entries puts the slots back, for
   which the entries have all that is needed.

   Both are pure otherwise: no file, nothing kept between two calls. */

#include "bytes.h"
#include <stdlib.h>

enum {
    COLUMNS = 4, /* of what the index needs of a message */
    SEPARATOR = 2,
    INDEX_ENTRY_SIZE = 20,
    FIRST_ROWS = 256,
};

/* --- hashes ------------------------------------------------------------------------------------------------------ */

struct row {
    int64_t place, time_ms;
    int32_t hash;
};

struct rows {
    struct row *at;
    size_t count, room;
};

/* A message, and the hash of what stands before each of its keys. */
struct message {
    uint32_t prefix;
    int64_t place, time_ms;
};

static int32_t positive(uint32_t hash)
{
    if (hash == 0x80000000u)
        return 0; /* it has no positive counterpart; RocketMQ takes 0 */
    return (int32_t)(hash & 0x80000000u ? 0u - hash : hash);
}

/* Return 1 if the key was added, 0 if it is not of ASCII, -1 without memory. */
static int add_key(struct rows *rows, const struct message *message, struct text key)
{
    uint32_t hash = message->prefix;
    unsigned char all = 0;
    for (; key.at < key.end; key.at++) {
        all |= (unsigned char)*key.at;
        hash = hash * 31 + (unsigned char)*key.at;
    }
    if (all & 0x80)
        return 0;
    if (rows->count == rows->room) {
        size_t room = rows->room ? rows->room * 2 : FIRST_ROWS;
        struct row *grown = realloc(rows->at, room * sizeof *grown);
        if (grown == NULL)
            return -1;
        rows->at = grown;
        rows->room = room;
    }
    struct row row = {message->place, message->time_ms, positive(hash)};
    rows->at[rows->count++] = row;
    return 1;
}

/* Part a text behind the next byte of a kind, or where it ends. */
static struct text next_part(struct text *rest, int separator)
{
    const char *end = memchr(rest->at, separator, length_of(*rest));
    struct text part = {rest->at, end == NULL ? rest->end : end};
    rest->at = end == NULL ? rest->end : end + 1;
    return part;
}

static int add_words(struct rows *rows, const struct message *message, struct text keys)
{
    int added = 1;
    while (keys.at < keys.end && added == 1) {
        struct text word = next_part(&keys, ' ');
        if (word.at < word.end)
            added = add_key(rows, message, word);
    }
    return added;
}

/* Add the keys of a message; of two properties with one name the last that is not empty counts. */
static int add_keys(struct rows *rows, const struct message *message, struct text properties)
{
    static const char UNIQUE[] = "UNIQ_KEY\1", OTHERS[] = "KEYS\1";
    struct text unique = {"", ""}, others = {"", ""};
    unique.end = unique.at, others.end = others.at;
    while (properties.at < properties.end) {
        struct text part = next_part(&properties, SEPARATOR);
        if (skip(&part, UNIQUE, sizeof UNIQUE - 1)) {
            if (part.at < part.end)
                unique = part;
        } else if (skip(&part, OTHERS, sizeof OTHERS - 1)) {
            if (part.at < part.end)
                others = part;
        }
    }
    int added = unique.at < unique.end ? add_key(rows, message, unique) : 1;
    return added == 1 ? add_words(rows, message, others) : added;
}

/* Find the hash of a topic and the mark behind it; return 1, 0 if it is not of ASCII, -1 after an error. */
static int hash_topic(PyObject *topic, uint32_t *prefix)
{
    Py_ssize_t length;
    const char *at = PyUnicode_AsUTF8AndSize(topic, &length);
    if (at == NULL)
        return -1;
    struct text name = {at, at + length};
    *prefix = (uint32_t)java_hash(name) * 31 + '#';
    return is_ascii(name);
}

static int read_number(PyObject *number, int64_t *value)
{
    *value = PyLong_AsLongLong(number);
    return *value == -1 && PyErr_Occurred() ? -1 : 1;
}

/* Hash the keys of all messages; return 1, 0 if they are for the plain form, -1 after an error. */
static int hash_all(PyObject *messages, struct rows *rows)
{
    PyObject *last_topic = NULL;
    struct message message = {0, 0, 0};
    for (Py_ssize_t at = 0; at + COLUMNS <= PyList_Size(messages); at += COLUMNS) {
        PyObject *topic = PyList_GetItem(messages, at), *properties = PyList_GetItem(messages, at + 1);
        if (topic != last_topic) {
            int is_plain = hash_topic(topic, &message.prefix);
            if (is_plain != 1)
                return is_plain;
            last_topic = topic;
        }
        if (!PyBytes_Check(properties)) {
            PyErr_SetString(PyExc_TypeError, "properties are bytes");
            return -1;
        }
        if (read_number(PyList_GetItem(messages, at + 2), &message.place) < 0 ||
            read_number(PyList_GetItem(messages, at + 3), &message.time_ms) < 0)
            return -1;
        int added = add_keys(rows, &message, text_of(properties));
        if (added < 0)
            PyErr_NoMemory();
        if (added != 1)
            return added;
    }
    return 1;
}

PyDoc_STRVAR(hash_keys_doc,
             "hash_keys(messages, /)\n--\n\n"
             "Return hashes, places and times of all keys, each as an array of native numbers; None for the plain form.");

static PyObject *as_columns(const struct rows *rows)
{
    Py_ssize_t count = (Py_ssize_t)rows->count;
    PyObject *hashes = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(int32_t));
    PyObject *places = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(int64_t));
    PyObject *times = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(int64_t));
    PyObject *columns = NULL;
    if (hashes != NULL && places != NULL && times != NULL) {
        char *hash = PyBytes_AsString(hashes), *place = PyBytes_AsString(places), *time = PyBytes_AsString(times);
        for (const struct row *row = rows->at; row < rows->at + count; row++) {
            hash = put_bytes(hash, &row->hash, sizeof row->hash);
            place = put_bytes(place, &row->place, sizeof row->place);
            time = put_bytes(time, &row->time_ms, sizeof row->time_ms);
        }
        columns = PyTuple_Pack(3, hashes, places, times);
    }
    Py_XDECREF(hashes);
    Py_XDECREF(places);
    Py_XDECREF(times);
    return columns;
}

static PyObject *hash_keys(PyObject *module, PyObject *messages)
{
    (void)module;
    if (!PyList_Check(messages)) {
        PyErr_SetString(PyExc_TypeError, "hash_keys() takes a list");
        return NULL;
    }
    struct rows rows = {NULL, 0, 0};
    int is_plain = hash_all(messages, &rows);
    PyObject *found = is_plain < 0 ? NULL : is_plain ? as_columns(&rows) : Py_NewRef(Py_None);
    free(rows.at);
    return found;
}

/* --- slots and entries ------------------------------------------------------------------------------------------- */

/* An index file, as far as keys are put into it; `head` is the memory of its header and slots. */
struct file {
    Py_buffer head, changed;
    Py_ssize_t slots_at, page;
    int64_t first, begin_ms, most_seconds;
    uint32_t slots;
};

struct keys {
    Py_buffer hashes, places, times;
};

static int32_t hash_at(const struct keys *keys, size_t number)
{
    return ((const int32_t *)keys->hashes.buf)[number];
}

/* Return the entry that a slot names, 0 if it is none before the next one; those from `first` on are of this call. */
static uint32_t entry_before(const struct file *file, const struct keys *keys, uint32_t slot, uint32_t named, size_t done)
{
    if (named < (uint64_t)file->first)
        return named;
    uint64_t number = named - (uint64_t)file->first;
    return number < done && (uint32_t)hash_at(keys, number) % file->slots == slot ? named : 0;
}

static uint32_t seconds_of(const struct file *file, int64_t time_ms)
{
    if (time_ms <= file->begin_ms)
        return 0;
    uint64_t seconds = ((uint64_t)time_ms - (uint64_t)file->begin_ms) / 1000;
    return (uint32_t)(seconds < (uint64_t)file->most_seconds ? seconds : (uint64_t)file->most_seconds);
}

/* Make all entries; return how many of them are the first in their slot. */
static long long link_all(struct file *file, const struct keys *keys, char *entry)
{
    size_t count = (size_t)keys->hashes.len / sizeof(int32_t);
    long long used = 0;
    for (size_t number = 0; number < count; number++) {
        uint32_t hash = (uint32_t)hash_at(keys, number), slot = hash % file->slots;
        Py_ssize_t place = file->slots_at + 4 * (Py_ssize_t)slot;
        char *at = (char *)file->head.buf + place;
        uint32_t before = entry_before(file, keys, slot, get_u32(at), number);
        used += before == 0;
        entry = put_u32(entry, hash);
        entry = put_u64(entry, (uint64_t)((const int64_t *)keys->places.buf)[number]);
        entry = put_u32(entry, seconds_of(file, ((const int64_t *)keys->times.buf)[number]));
        entry = put_u32(entry, before);
        put_u32(at, (uint32_t)(file->first + (int64_t)number));
        ((char *)file->changed.buf)[place / file->page] = 1;
    }
    return used;
}

/* Nothing is written or read outside of what the caller gave, whatever it says. */
static int is_sound(const struct file *file, const struct keys *keys)
{
    Py_ssize_t count = keys->hashes.len / (Py_ssize_t)sizeof(int32_t), width = (Py_ssize_t)sizeof(int64_t);
    if (file->slots < 1 || file->slots_at < 0 || file->page < 4 || file->slots_at % 4 || file->page % 4)
        return 0;
    if (file->first < 1 || file->first > INT32_MAX - count || file->most_seconds < 0 || file->most_seconds > INT32_MAX)
        return 0;
    if (keys->hashes.len != count * (Py_ssize_t)sizeof(int32_t) || keys->places.len != count * width ||
        keys->times.len != count * width)
        return 0;
    return file->head.len - file->slots_at >= 4 * (Py_ssize_t)file->slots &&
           file->changed.len >= (file->head.len + file->page - 1) / file->page;
}

PyDoc_STRVAR(link_doc,
             "link(head, changed, slots_at, slots, page, first, begin_ms, most_seconds, hashes, places, times, /)\n--\n\n"
             "Put keys into their slots; return their entries, and how many slots were empty before.");

static PyObject *link_keys(PyObject *module, PyObject *args)
{
    (void)module;
    struct file file;
    struct keys keys;
    long long first, begin_ms, most_seconds;
    unsigned int slots;
    if (!PyArg_ParseTuple(args, "w*w*nInLLLy*y*y*:link", &file.head, &file.changed, &file.slots_at, &slots, &file.page,
                          &first, &begin_ms, &most_seconds, &keys.hashes, &keys.places, &keys.times))
        return NULL;
    file.first = first, file.begin_ms = begin_ms, file.most_seconds = most_seconds, file.slots = slots;
    PyObject *entries = NULL, *result = NULL;
    if (!is_sound(&file, &keys))
        PyErr_SetString(PyExc_ValueError, "these are not the parts of an index file and its keys");
    else
        entries = PyBytes_FromStringAndSize(NULL, keys.hashes.len / (Py_ssize_t)sizeof(int32_t) * INDEX_ENTRY_SIZE);
    if (entries != NULL)
        result = Py_BuildValue("(NL)", entries, link_all(&file, &keys, PyBytes_AsString(entries)));
    PyBuffer_Release(&file.head);
    PyBuffer_Release(&file.changed);
    PyBuffer_Release(&keys.hashes);
    PyBuffer_Release(&keys.places);
    PyBuffer_Release(&keys.times);
    return result;
}

/* --- the module -------------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"hash_keys", hash_keys, METH_O, hash_keys_doc},
    {"link", link_keys, METH_VARARGS, link_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_keys", "Keys for the index; see the head of _keys.c.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__keys(void)
{
    return PyModuleDef_Init(&definition);
}
