/* Records into messages, in C: what consumers do with the answer to a pull. decode_messages() in
   protocol/messages/record.py says what is right.

   decode() reads the records of an answer, compares their checksums, and calls the class of messages once for each. It
   stops at anything unusual, a record with IPv6 hosts as well as one that is damaged or cut, and returns None: then
   the decoder in Python reads all of them again, and knows what to raise.

   It is pure: no file, no socket, nothing kept between two calls. The bytes come from a peer: no length is believed
   before it was compared with what is left. */

#include "bytes.h"

enum {
    HEAD_SIZE = 88, /* fixed fields of a record with IPv4 hosts */
    HOST_SIZE = 8,
    V6_FLAGS = 0x30,
    FIELDS = 17, /* of a message that come from its record */
};

static const uint32_t MESSAGE_MAGIC = 0xDAA320A7;

static PyObject *get_i32(const char *at)
{
    return PyLong_FromLong((int32_t)get_u32(at));
}

static PyObject *get_i64(const char *at)
{
    return PyLong_FromLongLong((int64_t)((uint64_t)get_u32(at) << 32 | get_u32(at + 4)));
}

static PyObject *bytes_of(struct text text)
{
    return PyBytes_FromStringAndSize(text.at, (Py_ssize_t)length_of(text));
}

/* One record. */
struct record {
    const char *head;
    struct text body, topic, properties;
};

/* Values that records side by side mostly share: they are made once as long as the bytes stay the same. */
struct shared {
    struct text bytes;
    PyObject *value;
};

struct answer {
    struct text rest;
    PyObject *broker_name, *make, *find_topic;
    struct shared topic, born_host, store_host;
};

/* Read the next record; return 0 if it is unusual in any way. */
static int next_record(struct text *rest, struct record *record)
{
    size_t left = length_of(*rest);
    if (left < HEAD_SIZE + 3)
        return 0;
    const char *head = record->head = rest->at;
    size_t size = get_u32(head), body = get_u32(head + 84);
    if (get_u32(head + 4) != MESSAGE_MAGIC || get_u32(head + 36) & V6_FLAGS || size > left || size < HEAD_SIZE + 3 ||
        body > size - HEAD_SIZE - 3)
        return 0;
    struct text text = {head + HEAD_SIZE, head + size};
    record->body.at = text.at;
    record->body.end = text.at += body;
    size_t topic = (unsigned char)*text.at++;
    if (topic + 2 > length_of(text))
        return 0;
    record->topic.at = text.at;
    record->topic.end = text.at += topic;
    const unsigned char *length = (const unsigned char *)text.at;
    text.at += 2;
    if (length_of(text) != ((size_t)length[0] << 8 | length[1]))
        return 0;
    record->properties = text;
    rest->at = text.end;
    return (crc32_of(record->body) & 0x7FFFFFFF) == get_u32(head + 8);
}

/* Return a new reference to the value of these bytes, NULL with an error; `find` makes it, without one it is bytes. */
static PyObject *shared_value(struct shared *shared, struct text bytes, PyObject *find)
{
    if (shared->value == NULL || length_of(shared->bytes) != length_of(bytes) ||
        memcmp(shared->bytes.at, bytes.at, length_of(bytes)) != 0) {
        PyObject *value = bytes_of(bytes);
        if (value != NULL && find != NULL) {
            PyObject *found = PyObject_CallFunctionObjArgs(find, value, NULL);
            Py_DECREF(value);
            value = found;
        }
        if (value == NULL)
            return NULL;
        Py_XDECREF(shared->value);
        shared->value = value;
        shared->bytes = bytes;
    }
    return Py_NewRef(shared->value);
}

static struct text host_at(const char *at)
{
    struct text host = {at, at + HOST_SIZE};
    return host;
}

static PyObject *make_message(struct answer *answer, const struct record *record)
{
    const char *head = record->head;
    PyObject *fields[FIELDS] = {
        shared_value(&answer->topic, record->topic, answer->find_topic),
        bytes_of(record->body),
        bytes_of(record->properties),
        Py_NewRef(answer->broker_name),
        get_i32(head),
        get_i32(head + 8),
        get_i32(head + 12),
        get_i32(head + 16),
        get_i64(head + 20),
        get_i64(head + 28),
        get_i32(head + 36),
        get_i64(head + 40),
        shared_value(&answer->born_host, host_at(head + 48), NULL),
        get_i64(head + 56),
        shared_value(&answer->store_host, host_at(head + 64), NULL),
        get_i32(head + 72),
        get_i64(head + 76),
    };
    PyObject *arguments = PyTuple_New(FIELDS), *message = NULL;
    int failed = arguments == NULL;
    for (int number = 0; number < FIELDS; number++) {
        failed |= fields[number] == NULL;
        if (arguments == NULL)
            Py_XDECREF(fields[number]);
        else
            PyTuple_SetItem(arguments, number, fields[number]); /* takes it over, NULL too */
    }
    if (!failed)
        message = PyObject_Call(answer->make, arguments, NULL);
    Py_XDECREF(arguments);
    return message;
}

PyDoc_STRVAR(decode_doc,
             "decode(body, broker_name, make, find_topic, /)\n--\n\n"
             "Return the messages of an answer, made by calling `make` with the fields of their records; None if one of "
             "them is unusual.");

static PyObject *decode(PyObject *module, PyObject *args)
{
    struct answer answer;
    struct record record;
    PyObject *body;
    (void)module;
    memset(&answer, 0, sizeof answer);
    if (!PyArg_ParseTuple(args, "SOOO", &body, &answer.broker_name, &answer.make, &answer.find_topic))
        return NULL;
    answer.rest = text_of(body);
    PyObject *messages = PyList_New(0);
    while (messages != NULL && length_of(answer.rest)) {
        if (!next_record(&answer.rest, &record)) {
            Py_DECREF(messages);
            messages = Py_NewRef(Py_None);
            break;
        }
        PyObject *message = make_message(&answer, &record);
        if (message == NULL || PyList_Append(messages, message) < 0)
            Py_CLEAR(messages);
        Py_XDECREF(message);
    }
    Py_XDECREF(answer.topic.value);
    Py_XDECREF(answer.born_host.value);
    Py_XDECREF(answer.store_host.value);
    return messages;
}

static PyMethodDef methods[] = {
    {"decode", decode, METH_VARARGS, decode_doc},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT, "_records", "Records into messages, in C.", -1, methods,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__records(void)
{
    make_crc_tables();
    return PyModule_Create(&module_def);
}
