/* Records of another log, for a slave, in C: the same as read_run() in copies.py, which says what is right.

   A slave gets its master's log as bytes. Each record says itself where it belongs: its place in the log, its queue,
   and its offset there. For plain records, side by side, this module does in one call what a slave has to know of them:

       bytes:   record | record | record | something else
                   |
                1. check each: magic, sizes, place, and the checksum of its body
                2. find its queue among those of this call, whose records have to follow each other
                3. make its entry, and what the index needs
                   |
       run:     where it ends, the last store time, (topic, queue id, first offset, entries) for each queue, keys

   Rules that keep it safe:

   - It stops before the first record that is not plain. The ordinary path, in Python, checks that one, and knows what is
     wrong with it, if anything is. When in doubt, a record is not plain: that costs time, never a message.
   - It is pure: no file, no socket, no object of the store, nothing kept between two calls. Whether a queue is there, and
     has the offsets that the records name, is for the store to say: it takes a run as a whole, or record by record.
   - The bytes come from a peer: no length is believed before it was compared with what is left. */

#include "record.h"
#include "tags.h"

enum {
    MOST_QUEUES = 256, /* of one run */
    SLOTS = 1024,      /* a power of two, so many that few queues share one */
};

static const char DELAYED[] = "SCHEDULE_TOPIC_XXXX"; /* its entries hold times */

/* One record. */
struct record {
    struct text topic, properties;
    int64_t position, size, queue_offset, stored_ms;
    int32_t queue_id, tags_code;
};

/* The records of one queue in this run; name and entries are owned. */
struct queue {
    struct text topic;
    int32_t queue_id;
    int64_t first, next;
    PyObject *name, *entries;
};

struct run {
    struct queue queues[MOST_QUEUES];
    short slots[SLOTS]; /* the number of a queue, plus one */
    int count;
    PyObject *keys; /* NULL if the index needs nothing */
};

/* --- one record -------------------------------------------------------------------------------------------------- */

static int is_delayed(struct text topic)
{
    return length_of(topic) == sizeof DELAYED - 1 && memcmp(topic.at, DELAYED, sizeof DELAYED - 1) == 0;
}

/* Read the record at the beginning of a text, which stands at `position` of the log; return 0 if it is not plain. */
static int read_record(struct text rest, int64_t position, struct record *record)
{
    struct parts parts;
    if (!find_parts(rest, &parts) || parts.size > INT32_MAX || length_of(parts.topic) > MAX_NAME ||
        length_of(parts.properties) > MAX_PROPERTIES)
        return 0;
    const char *head = parts.head;
    /* Half messages and rollbacks get no entry. */
    if (get_i64(head + PHYSICAL_OFFSET_AT) != position || get_u32(head + SYS_FLAG_AT) & TRANSACTION_PREPARED)
        return 0;
    record->topic = parts.topic;
    record->properties = parts.properties;
    record->position = position;
    record->size = (int64_t)parts.size;
    record->queue_id = (int32_t)get_u32(head + QUEUE_ID_AT);
    record->queue_offset = get_i64(head + QUEUE_OFFSET_AT);
    record->stored_ms = get_i64(head + STORED_AT);
    return record->queue_id >= 0 && record->queue_offset >= 0 && record->queue_offset < INT64_MAX &&
           is_ascii(record->topic) && !is_delayed(record->topic) &&
           find_tag(record->properties, &record->tags_code) && is_sound(&parts);
}

/* --- its queue --------------------------------------------------------------------------------------------------- */

static int is_of(const struct record *record, const struct queue *queue)
{
    return queue->queue_id == record->queue_id && length_of(queue->topic) == length_of(record->topic) &&
           memcmp(queue->topic.at, record->topic.at, length_of(record->topic)) == 0;
}

/* Return the slot of a record's queue: one that names it, or the empty one in which it belongs. */
static short *find_slot(struct run *run, const struct record *record)
{
    uint32_t hash = (uint32_t)java_hash(record->topic) * 31 + (uint32_t)record->queue_id;
    for (uint32_t number = hash * 0x9E3779B1u >> 16;; number++) {
        short *slot = run->slots + number % SLOTS;
        if (*slot == 0 || is_of(record, run->queues + *slot - 1))
            return slot;
    }
}

/* Find the queue of a record, a new one if need be; return 0 if the record does not follow there, -1 after an error. */
static int find_queue(struct run *run, const struct record *record, struct queue **found)
{
    short *slot = find_slot(run, record);
    if (*slot != 0) {
        *found = run->queues + *slot - 1;
        return (*found)->next == record->queue_offset;
    }
    if (run->count == MOST_QUEUES)
        return 0;
    struct queue *queue = *found = run->queues + run->count;
    queue->topic = record->topic;
    queue->queue_id = record->queue_id;
    queue->first = queue->next = record->queue_offset;
    queue->name = PyUnicode_FromStringAndSize(record->topic.at, (Py_ssize_t)length_of(record->topic));
    queue->entries = PyList_New(0);
    *slot = (short)++run->count;
    return queue->name != NULL && queue->entries != NULL ? 1 : -1;
}

/* --- what is made of it ------------------------------------------------------------------------------------------ */

/* Append a value that was made for this; it is released. */
static int append(PyObject *list, PyObject *value)
{
    int failed = value == NULL || PyList_Append(list, value) < 0;
    Py_XDECREF(value);
    return failed ? -1 : 0;
}

static int add_record(struct run *run, struct queue *queue, const struct record *record)
{
    char entry[ENTRY_SIZE];
    struct text properties = record->properties;
    put_entry(entry, record->position, (uint32_t)record->size, record->tags_code);
    queue->next++;
    if (append(queue->entries, PyBytes_FromStringAndSize(entry, ENTRY_SIZE)) < 0)
        return -1;
    if (run->keys == NULL)
        return 0;
    return PyList_Append(run->keys, queue->name) < 0 ||
           append(run->keys, PyBytes_FromStringAndSize(properties.at, (Py_ssize_t)length_of(properties))) < 0 ||
           append(run->keys, PyLong_FromLongLong(record->position)) < 0 ||
           append(run->keys, PyLong_FromLongLong(record->stored_ms)) < 0 ? -1 : 0;
}

static PyObject *queues_of(const struct run *run)
{
    PyObject *queues = PyList_New(run->count);
    for (int number = 0; queues != NULL && number < run->count; number++) {
        const struct queue *queue = run->queues + number;
        PyObject *item = Py_BuildValue("OiLO", queue->name, (int)queue->queue_id, (long long)queue->first,
                                       queue->entries);
        if (item == NULL || PyList_SetItem(queues, number, item) < 0)
            Py_CLEAR(queues);
    }
    return queues;
}

/* Read records up to the first that is not plain; the result, or NULL with an error. */
static PyObject *read_all(struct run *run, struct text data, Py_ssize_t start, int64_t position)
{
    const char *begin = data.at;
    struct record record;
    struct queue *queue;
    int64_t stored_ms = 0;
    data.at += start;
    while (read_record(data, position + (data.at - begin - start), &record)) {
        int found = find_queue(run, &record, &queue);
        if (found < 0 || (found && add_record(run, queue, &record) < 0))
            return NULL;
        if (!found)
            break;
        stored_ms = record.stored_ms;
        data.at += record.size;
    }
    if (data.at == begin + start)
        Py_RETURN_NONE;
    PyObject *queues = queues_of(run), *keys = run->keys == NULL ? PyList_New(0) : Py_NewRef(run->keys);
    PyObject *result = queues == NULL || keys == NULL ? NULL
                                                      : Py_BuildValue("nLOO", (Py_ssize_t)(data.at - begin),
                                                                      (long long)stored_ms, queues, keys);
    Py_XDECREF(queues);
    Py_XDECREF(keys);
    return result;
}

PyDoc_STRVAR(read_run_doc,
             "read_run(data, start, stop, position, with_keys, /)\n--\n\n"
             "Return what plain records, side by side from `start` on, are for a store: where the run ends in the data, "
             "the last store time, the entries of each queue, and what the index needs. None if no such record is "
             "there.");

static PyObject *read_run(PyObject *module, PyObject *args)
{
    struct run run; /* 16 KB */
    PyObject *data, *result = NULL;
    Py_ssize_t start, stop;
    long long position;
    int with_keys;
    (void)module;
    if (!PyArg_ParseTuple(args, "SnnLp", &data, &start, &stop, &position, &with_keys))
        return NULL;
    struct text text = text_of(data);
    if (start < 0 || stop < start || (size_t)stop > length_of(text) || position < 0 ||
        position > INT64_MAX - stop) {
        PyErr_SetString(PyExc_ValueError, "a run lies within its bytes");
        return NULL;
    }
    text.end = text.at + stop;
    memset(run.slots, 0, sizeof run.slots);
    run.count = 0;
    run.keys = with_keys ? PyList_New(0) : NULL;
    if (run.keys != NULL || !with_keys)
        result = read_all(&run, text, start, position);
    for (int number = 0; number < run.count; number++) {
        Py_XDECREF(run.queues[number].name);
        Py_XDECREF(run.queues[number].entries);
    }
    Py_XDECREF(run.keys);
    return result;
}

static PyMethodDef methods[] = {
    {"read_run", read_run, METH_VARARGS, read_run_doc},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT, "_copies", "Records of another log, in C.", -1, methods,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__copies(void)
{
    make_crc_tables();
    return PyModule_Create(&module_def);
}
