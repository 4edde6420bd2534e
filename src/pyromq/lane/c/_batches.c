/* The lane for batches, in C: the same as the functions of these names in Python, which say what is right.

   A batch is the body of one request: messages in a row, without what they share. To store one means to write each of
   them as a record with a checksum, to make its entry of the queue, to keep its properties for the index, and to write
   its id for the answer. In Python that costs ten microseconds a message; here it costs less than one:

       batch:   size 4, magic 4, CRC 4, flag 4 | body length 4, body | properties length 2, properties | ...
                     |
       record:  the head that all share, with size, CRC, flag, offset, position and body length written into it
                | body | length of the topic 1, topic | properties length 2, properties, what all of them get

   measure() tells how many messages a batch has and how many bytes they will take in the log, or None if something
   about it is unusual: then the ordinary path looks at it, and knows what to answer. lay_out() makes the records for a
   place in the log.

   encode() and spread() are what a producer needs: messages into the body of a batch, with an id for each, and the
   answer to a batch into a result for each.

   All are pure. They touch no file, no socket and no object of the store, and keep nothing between two calls. Peers
   choose all bytes of a batch: lay_out() believes no length that it has not compared itself, whatever measure() said. */

#include "record.h"
#include "tags.h"

enum {
    ELEMENT_HEAD = 20, /* up to the body of a message in a batch */
    HEX_DIGITS = 16,
    NUMBER_DIGITS = 4, /* at the end of an id that a producer makes */
    ID_NUMBERS = 0x10000,
    LENGTH_SIZE = 4, /* at the start of a frame: of all that follows */
};

/* One message of a batch. */
struct element {
    uint32_t flag;
    struct text body, properties;
};

/* What all records of a batch have in common. */
struct shared {
    struct text head, name, suffix;
};

/* Read the next message; return 1, or 0 at the end of the batch, or -1 if it is not whole or claims another size. */
static int next_element(struct text *batch, struct element *element)
{
    size_t left = length_of(*batch);
    if (left == 0)
        return 0;
    if (left < ELEMENT_HEAD + 2)
        return -1;
    size_t size = get_u32(batch->at), body = get_u32(batch->at + 16);
    if (body > left - ELEMENT_HEAD - 2)
        return -1;
    element->flag = get_u32(batch->at + 12);
    element->body.at = batch->at + ELEMENT_HEAD;
    element->body.end = element->body.at + body;
    const unsigned char *length = (const unsigned char *)element->body.end;
    size_t properties = (size_t)length[0] << 8 | length[1];
    if (properties > MAX_PROPERTIES || properties > left - ELEMENT_HEAD - 2 - body ||
        size != ELEMENT_HEAD + body + 2 + properties)
        return -1;
    element->properties.at = element->body.end + 2;
    element->properties.end = element->properties.at + properties;
    batch->at = element->properties.end;
    return 1;
}

/* Whether a separator has to stand between the properties of a message and what all get. */
static int needs_separator(const struct element *element, struct text suffix)
{
    return length_of(element->properties) && length_of(suffix) && element->properties.end[-1] != 2;
}

static size_t stored_properties(const struct element *element, struct text suffix)
{
    return length_of(element->properties) + length_of(suffix) + (needs_separator(element, suffix) ? 1 : 0);
}

static int is_plain(const struct element *element)
{
    int32_t code;
    return find(element->properties, "DEL", 3) == NULL && find(element->properties, "TRAN_MSG", 8) == NULL &&
           find_tag(element->properties, &code);
}

/* --- how much there is ------------------------------------------------------------------------------------------- */

PyDoc_STRVAR(measure_doc,
             "measure(batch, name, suffix, max_record, most, /)\n--\n\n"
             "Return how many messages a batch has, and the bytes of their records; None if it is not plain.");

static PyObject *measure(PyObject *module, PyObject *args)
{
    struct text batch, name, suffix;
    Py_ssize_t batch_length, name_length, suffix_length;
    long long max_record, most, count = 0, total = 0;
    struct element element;
    int found;
    (void)module;
    if (!PyArg_ParseTuple(args, "y#y#y#LL", &batch.at, &batch_length, &name.at, &name_length, &suffix.at,
                          &suffix_length, &max_record, &most))
        return NULL;
    batch.end = batch.at + batch_length;
    suffix.end = suffix.at + suffix_length;
    if (name_length > MAX_NAME)
        Py_RETURN_NONE;
    while ((found = next_element(&batch, &element)) > 0) {
        size_t properties = stored_properties(&element, suffix);
        long long size = (long long)(HEAD_SIZE + length_of(element.body) + 1 + (size_t)name_length + 2 + properties);
        if (++count > most || properties > MAX_PROPERTIES || size > max_record || !is_plain(&element))
            Py_RETURN_NONE;
        total += size;
    }
    if (found < 0 || count == 0)
        Py_RETURN_NONE;
    return Py_BuildValue("LL", count, total);
}

/* --- the records ------------------------------------------------------------------------------------------------- */

/* Where the next record goes, and what is made of the batch besides. */
struct run {
    struct text batch;
    struct shared shared;
    int64_t position, queue_offset;
    PyObject *records, *entries, *keys, *topic, *now;
    char *at, *id;
    const char *id_prefix;
    size_t id_prefix_length;
};

/* Count the messages of a batch and the bytes of their records; return 0 if it is none. */
static int count_all(const struct run *run, Py_ssize_t *count, size_t *size)
{
    struct text batch = run->batch;
    struct element element;
    int found;
    *count = 0;
    *size = 0;
    while ((found = next_element(&batch, &element)) > 0) {
        size_t properties = stored_properties(&element, run->shared.suffix);
        if (properties > MAX_PROPERTIES)
            return 0;
        *size += HEAD_SIZE + length_of(element.body) + 1 + length_of(run->shared.name) + 2 + properties;
        ++*count;
    }
    return found == 0 && *count > 0;
}

/* Write the properties as they are stored; return where they begin. */
static const char *put_properties(struct run *run, const struct element *element)
{
    struct text suffix = run->shared.suffix;
    size_t length = stored_properties(element, suffix);
    *run->at++ = (char)(length >> 8);
    *run->at++ = (char)length;
    const char *start = run->at;
    run->at = put_bytes(run->at, element->properties.at, length_of(element->properties));
    if (needs_separator(element, suffix))
        *run->at++ = 2;
    run->at = put_bytes(run->at, suffix.at, length_of(suffix));
    return start;
}

static int set_item(PyObject *list, Py_ssize_t number, PyObject *item)
{
    return item == NULL || PyList_SetItem(list, number, item) < 0 ? -1 : 0;
}

static int add_keys(struct run *run, Py_ssize_t number, struct text properties)
{
    if (run->keys == NULL)
        return 0;
    PyObject *text = PyBytes_FromStringAndSize(properties.at, (Py_ssize_t)length_of(properties));
    return set_item(run->keys, 4 * number, Py_NewRef(run->topic)) < 0 ||
           set_item(run->keys, 4 * number + 1, text) < 0 ||
           set_item(run->keys, 4 * number + 2, PyLong_FromLongLong(run->position)) < 0 ||
           set_item(run->keys, 4 * number + 3, Py_NewRef(run->now)) < 0 ? -1 : 0;
}

static int add_record(struct run *run, Py_ssize_t number, const struct element *element)
{
    char *start = run->at, entry[ENTRY_SIZE];
    struct text name = run->shared.name, properties;
    int32_t code;
    put_bytes(start, run->shared.head.at, HEAD_SIZE);
    put_u32(start + CRC_AT, crc32_of(element->body) & 0x7FFFFFFF);
    put_u32(start + FLAG_AT, element->flag);
    put_u64(start + QUEUE_OFFSET_AT, (uint64_t)run->queue_offset);
    put_u64(start + PHYSICAL_OFFSET_AT, (uint64_t)run->position);
    put_u32(start + BODY_LENGTH_AT, (uint32_t)length_of(element->body));
    run->at = put_bytes(start + HEAD_SIZE, element->body.at, length_of(element->body));
    *run->at++ = (char)length_of(name);
    run->at = put_bytes(run->at, name.at, length_of(name));
    properties.at = put_properties(run, element);
    properties.end = run->at;
    uint32_t size = (uint32_t)(run->at - start);
    put_u32(start, size);
    find_tag(element->properties, &code);
    put_entry(entry, run->position, size, code);
    if (set_item(run->entries, number, PyBytes_FromStringAndSize(entry, ENTRY_SIZE)) < 0 ||
        add_keys(run, number, properties) < 0)
        return -1;
    if (number)
        *run->id++ = ',';
    run->id = put_bytes(run->id, run->id_prefix, run->id_prefix_length);
    run->id = put_hex(run->id, (uint64_t)run->position);
    run->position += size;
    run->queue_offset++;
    return 0;
}

/* Make everything; the result, or NULL with an error. */
static PyObject *make_run(struct run *run, Py_ssize_t count, size_t size)
{
    size_t ids_size = (size_t)count * (run->id_prefix_length + HEX_DIGITS + 1) - 1;
    char *ids = PyMem_Malloc(ids_size);
    PyObject *result = NULL;
    struct element element;
    if (ids == NULL)
        return PyErr_NoMemory();
    run->id = ids;
    run->records = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    run->entries = PyList_New(count);
    run->keys = run->topic == Py_None ? NULL : PyList_New(4 * count);
    if (run->records == NULL || run->entries == NULL || PyErr_Occurred())
        goto end;
    run->at = PyBytes_AsString(run->records);
    for (Py_ssize_t number = 0; number < count; number++)
        if (next_element(&run->batch, &element) <= 0 || add_record(run, number, &element) < 0)
            goto end;
    PyObject *text = PyUnicode_DecodeASCII(ids, (Py_ssize_t)ids_size, "strict");
    PyObject *keys = run->keys == NULL ? PyList_New(0) : Py_NewRef(run->keys);
    if (text != NULL && keys != NULL)
        result = PyTuple_Pack(4, run->records, run->entries, keys, text);
    Py_XDECREF(text);
    Py_XDECREF(keys);
end:
    Py_XDECREF(run->records);
    Py_XDECREF(run->entries);
    Py_XDECREF(run->keys);
    PyMem_Free(ids);
    return result;
}

PyDoc_STRVAR(lay_out_doc,
             "lay_out(batch, head, name, suffix, id_prefix, topic, position, queue_offset, now_ms, /)\n--\n\n"
             "Return the records of a batch for a place in the log, their entries, what the index needs, and their ids. "
             "Without a topic the index needs nothing.");

static PyObject *lay_out(PyObject *module, PyObject *args)
{
    struct run run;
    struct shared *shared = &run.shared;
    Py_ssize_t batch_length, head_length, name_length, suffix_length, prefix_length, count;
    long long position, queue_offset;
    size_t size;
    (void)module;
    memset(&run, 0, sizeof run);
    if (!PyArg_ParseTuple(args, "y#y#y#y#y#OLLO", &run.batch.at, &batch_length, &shared->head.at, &head_length,
                          &shared->name.at, &name_length, &shared->suffix.at, &suffix_length, &run.id_prefix,
                          &prefix_length, &run.topic, &position, &queue_offset, &run.now))
        return NULL;
    run.batch.end = run.batch.at + batch_length;
    shared->head.end = shared->head.at + head_length;
    shared->name.end = shared->name.at + name_length;
    shared->suffix.end = shared->suffix.at + suffix_length;
    run.id_prefix_length = (size_t)prefix_length;
    run.position = position;
    run.queue_offset = queue_offset;
    if (head_length != HEAD_SIZE || name_length > MAX_NAME || !count_all(&run, &count, &size)) {
        PyErr_SetString(PyExc_ValueError, "this is no batch");
        return NULL;
    }
    return make_run(&run, count, size);
}

/* --- the other way, for producers -------------------------------------------------------------------------------- */

/* Read one element that will get an id of so many bytes; return 0 with an error if it is none. */
static int read_element(PyObject *item, size_t id, struct element *element)
{
    PyObject *flag = PyTuple_Check(item) && PyTuple_Size(item) == 3 ? PyTuple_GetItem(item, 0) : NULL;
    PyObject *body = flag == NULL ? NULL : PyTuple_GetItem(item, 1);
    PyObject *properties = flag == NULL ? NULL : PyTuple_GetItem(item, 2);
    int overflow = 1;
    long long number = 0;
    if (flag != NULL && PyLong_Check(flag) && PyBytes_Check(body) && PyBytes_Check(properties))
        number = PyLong_AsLongLongAndOverflow(flag, &overflow);
    if (overflow || number < INT32_MIN || number > INT32_MAX)
        goto refused;
    element->flag = (uint32_t)number;
    element->body = text_of(body);
    element->properties = text_of(properties);
    if (length_of(element->body) <= INT32_MAX - MAX_PROPERTIES - ELEMENT_HEAD - 2 &&
        id <= MAX_PROPERTIES && length_of(element->properties) <= MAX_PROPERTIES - id)
        return 1;
refused:
    PyErr_SetString(PyExc_ValueError, "a message does not fit a batch");
    return 0;
}

/* Ids that belong together: a text, and a number of four hex digits that counts up. */
struct ids {
    struct text stem;
    unsigned long next;
};

static int read_stem(PyObject *text, struct ids *ids)
{
    Py_ssize_t length;
    ids->stem.at = PyUnicode_AsUTF8AndSize(text, &length);
    ids->stem.end = ids->stem.at + length;
    return ids->stem.at != NULL;
}

/* Check that the numbers of these ids have four digits; return 0 with an error otherwise. */
static int numbers_fit(const struct ids *ids, Py_ssize_t count)
{
    if (ids->next < ID_NUMBERS && count >= 0 && (size_t)count <= ID_NUMBERS - ids->next)
        return 1;
    PyErr_SetString(PyExc_ValueError, "these are too many ids");
    return 0;
}

static size_t id_length(const struct ids *ids)
{
    return length_of(ids->stem) + NUMBER_DIGITS;
}

static char *put_id(char *at, struct ids *ids)
{
    static const char DIGITS[] = "0123456789ABCDEF";
    at = put_bytes(at, ids->stem.at, length_of(ids->stem));
    for (int shift = 12; shift >= 0; shift -= 4)
        *at++ = DIGITS[ids->next >> shift & 15];
    ids->next++;
    return at;
}

PyDoc_STRVAR(encode_doc,
             "encode(elements, stem, first, frame=b'', /)\n--\n\n"
             "Return a list of messages, each a flag, a body and properties, as the body of a batch. At the end of its "
             "properties each gets its id: the stem and a number. With a frame that has no body, return it with this "
             "one.");

static PyObject *encode(PyObject *module, PyObject *args)
{
    PyObject *elements, *stem;
    struct element element;
    struct ids ids;
    Py_ssize_t total = 0, frame_length = 0;
    const char *frame = "";
    (void)module;
    if (!PyArg_ParseTuple(args, "OUk|y#", &elements, &stem, &ids.next, &frame, &frame_length) ||
        !read_stem(stem, &ids))
        return NULL;
    if (!PyList_Check(elements)) {
        PyErr_SetString(PyExc_TypeError, "encode() needs a list");
        return NULL;
    }
    Py_ssize_t count = PyList_Size(elements);
    if (!numbers_fit(&ids, count))
        return NULL;
    if (frame_length && frame_length < LENGTH_SIZE) {
        PyErr_SetString(PyExc_ValueError, "this is no frame");
        return NULL;
    }
    for (Py_ssize_t number = 0; number < count; number++) {
        if (!read_element(PyList_GetItem(elements, number), id_length(&ids), &element))
            return NULL;
        total += (Py_ssize_t)(ELEMENT_HEAD + length_of(element.body) + 2 + length_of(element.properties) +
                              id_length(&ids));
    }
    PyObject *batch = PyBytes_FromStringAndSize(NULL, frame_length + total);
    if (batch == NULL)
        return NULL;
    char *at = PyBytes_AsString(batch);
    if (frame_length) {
        put_bytes(at, frame, (size_t)frame_length);
        put_u32(at, get_u32(at) + (uint32_t)total);
        at += frame_length;
    }
    for (Py_ssize_t number = 0; number < count; number++) {
        if (!read_element(PyList_GetItem(elements, number), id_length(&ids), &element)) { /* nobody can change it */
            Py_DECREF(batch);
            return NULL;
        }
        size_t body = length_of(element.body), properties = length_of(element.properties) + id_length(&ids);
        at = put_u64(put_u32(at, (uint32_t)(ELEMENT_HEAD + body + 2 + properties)), 0); /* magic and CRC */
        at = put_bytes(put_u32(put_u32(at, element.flag), (uint32_t)body), element.body.at, body);
        *at++ = (char)(properties >> 8);
        *at++ = (char)properties;
        at = put_id(put_bytes(at, element.properties.at, length_of(element.properties)), &ids);
    }
    return batch;
}

/* Take the next of the texts that have commas between; an empty one if there is none. */
static PyObject *next_place(struct text *places)
{
    const char *comma = length_of(*places) ? memchr(places->at, ',', length_of(*places)) : NULL;
    struct text place = {places->at, comma == NULL ? places->end : comma};
    places->at = comma == NULL ? places->end : comma + 1;
    return PyUnicode_FromStringAndSize(place.at, (Py_ssize_t)length_of(place));
}

/* What the messages of a batch have in common. */
struct stored {
    PyObject *make, *status, *queue;
    struct text places;
    long long offset;
    struct ids ids;
    char *id;
};

static PyObject *next_result(struct stored *stored)
{
    put_id(stored->id, &stored->ids);
    PyObject *id = PyUnicode_FromStringAndSize(stored->id, (Py_ssize_t)id_length(&stored->ids));
    PyObject *place = next_place(&stored->places), *offset = PyLong_FromLongLong(stored->offset++);
    PyObject *result = NULL;
    if (id != NULL && place != NULL && offset != NULL)
        result = PyObject_CallFunctionObjArgs(stored->make, stored->status, id, place, stored->queue, offset, NULL);
    Py_XDECREF(id);
    Py_XDECREF(place);
    Py_XDECREF(offset);
    return result;
}

PyDoc_STRVAR(spread_doc,
             "spread(make, status, places, queue, queue_offset, stem, first, count, /)\n--\n\n"
             "Return a result for each message of a batch, made by `make(status, id, place, queue, offset)`.");

static PyObject *spread(PyObject *module, PyObject *args)
{
    struct stored stored;
    PyObject *stem;
    Py_ssize_t count, length;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOs#OLUkn", &stored.make, &stored.status, &stored.places.at, &length, &stored.queue,
                          &stored.offset, &stem, &stored.ids.next, &count) ||
        !read_stem(stem, &stored.ids) || !numbers_fit(&stored.ids, count))
        return NULL;
    stored.places.end = stored.places.at + length;
    stored.id = PyMem_Malloc(id_length(&stored.ids));
    PyObject *results = stored.id == NULL ? PyErr_NoMemory() : PyList_New(count);
    for (Py_ssize_t number = 0; results != NULL && number < count; number++)
        if (set_item(results, number, next_result(&stored)) < 0)
            Py_CLEAR(results);
    PyMem_Free(stored.id);
    return results;
}

static PyMethodDef methods[] = {
    {"encode", encode, METH_VARARGS, encode_doc},
    {"spread", spread, METH_VARARGS, spread_doc},
    {"measure", measure, METH_VARARGS, measure_doc},
    {"lay_out", lay_out, METH_VARARGS, lay_out_doc},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT, "_batches", "The lane for batches, in C.", -1, methods,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__batches(void)
{
    make_crc_tables();
    return PyModule_Create(&module_def);
}
