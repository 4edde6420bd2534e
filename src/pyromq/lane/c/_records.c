/* Records into messages, in C: what consumers do with the answer to a pull. decode_messages() in
   protocol/messages/record.py says what is right.

   decode() reads the records of an answer, compares their checksums, and calls the class of messages once for each. It
   stops at anything unusual, a record with IPv6 hosts as well as one that is damaged or cut, and returns None: then
   the decoder in Python reads all of them again, and knows what to raise.

   It is pure: no file, no socket, nothing kept between two calls. The bytes come from a peer: no length is believed
   before it was compared with what is left. */

#include "record.h"

enum {
    FIELDS = 17, /* of a message that come from its record */
};

static PyObject *number_32(const char *at)
{
    return PyLong_FromLong((int32_t)get_u32(at));
}

static PyObject *number_64(const char *at)
{
    return PyLong_FromLongLong(get_i64(at));
}

static PyObject *bytes_of(struct text text)
{
    return PyBytes_FromStringAndSize(text.at, (Py_ssize_t)length_of(text));
}

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
static int next_record(struct text *rest, struct parts *record)
{
    if (!find_parts(*rest, record))
        return 0;
    rest->at = record->properties.end;
    return is_sound(record);
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

static PyObject *make_message(struct answer *answer, const struct parts *record)
{
    const char *head = record->head;
    PyObject *fields[FIELDS] = {
        shared_value(&answer->topic, record->topic, answer->find_topic),
        bytes_of(record->body),
        bytes_of(record->properties),
        Py_NewRef(answer->broker_name),
        number_32(head),
        number_32(head + CRC_AT),
        number_32(head + QUEUE_ID_AT),
        number_32(head + FLAG_AT),
        number_64(head + QUEUE_OFFSET_AT),
        number_64(head + PHYSICAL_OFFSET_AT),
        number_32(head + SYS_FLAG_AT),
        number_64(head + BORN_AT),
        shared_value(&answer->born_host, host_at(head + BORN_HOST_AT), NULL),
        number_64(head + STORED_AT),
        shared_value(&answer->store_host, host_at(head + STORE_HOST_AT), NULL),
        number_32(head + RECONSUME_TIMES_AT),
        number_64(head + PREPARED_OFFSET_AT),
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
    struct parts record;
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
