/* Plain pulls in C: the request's shape, the whole answer in one call, and all pulls of a read in one call.
   pull_shapes.py, pull_answers.py and pull_serving.py say what is right.

   shape(frame) looks at a request to pull. The requests of one consumer about one queue differ in three numbers only:
   where to read (queueOffset), what was consumed (commitOffset), and the number of the request (opaque); where they are
   signed, in the signature and in what keeps a request from being sent twice (pyromqNonce, pyromqTime), too. shape()
   cuts these out and returns what is left, as a key under which the broker knows a request that it has decoded properly
   before. So nothing here has to understand a header. It only has to be sure that two frames of one shape mean the same
   but for what was cut out:

     - no backslash, so a text ends at the next quote, and a name is written in one way only;
     - each of the names stands there once, as a name (a colon follows);
     - the numbers are written as JSON writes them, without plus, leading zeros or fractions, within 18 digits.

   answer(...) makes the answer from the entries of a queue and the mapped file of the log. It trusts neither: an entry
   that points outside of the bounds it was given, or whose size lies, makes it return None, and the ordinary path looks
   closer. It reads the file within these bounds only, and writes nothing but the bytes that it returns.

   serve(...) does both for each frame of a read, as long as the shape is known. What pulls of a shape have in common
   was looked at in Python, which forgets a shape when that may have changed. The queue's bounds are read from their
   owner for each pull. Python is called once a pull, to note what was consumed and delivered, and where entries or a
   stretch of the log are not at hand. The answers go into a buffer of the caller's, one behind the other.

   Messages that were written before the broker's last start are handed out only if their records are whole and those of
   their queue, as the store does it.

   Where there is access control, a pull is served only if its signature is right. What is signed are the values of all
   fields in the order of their names. Those of a shape are known, as five texts with commitOffset, pyromqNonce,
   pyromqTime and queueOffset between them. Rights were looked at together with the rest of the shape.

   A PullPass does the same for whole reads, and notes what pulls have consumed itself (pull_note.h): so a read of
   nothing but known pulls is one call, without Python. It lasts for a pass of the loop, in which nothing else is served
   (remoting/dispatch.py).

   All of them are pure. They touch no file and no socket, and the functions keep nothing between two calls. */

#include "caller.h"
#include "pull_answer.h"
#include "pull_note.h"
#include "pull_shape.h"

#define CHUNK_ENTRIES 512 /* pull_serving.py */

/* --- the shape of a request */

PyDoc_STRVAR(shape_doc,
             "shape(frame, /)\n--\n\n"
             "Return the shape of a request, its first four bytes left out, and what was cut out: see PullShape in "
             "pull_shapes.py. None if it has no shape.");

static PyObject *as_bytes(struct text text) { return PyBytes_FromStringAndSize(text.at, (Py_ssize_t)length_of(text)); }

static PyObject *shape(PyObject *module, PyObject *frame) {
    (void)module;
    Py_buffer view;
    if (PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)) return NULL;
    struct text text = {view.buf, (const char *)view.buf + view.len};
    Cut cut;
    cut_frame(text, &cut);
    PyObject *found = NULL;
    if (!cut.length)
        found = Py_NewRef(Py_None);
    else
        found = Py_BuildValue("(y#LLLNNN)", cut.shape, (Py_ssize_t)cut.length, (long long)cut.numbers[QUEUE_OFFSET],
                              (long long)cut.numbers[COMMIT_OFFSET], (long long)cut.numbers[OPAQUE],
                              as_bytes(cut.texts[SIGNATURE]), as_bytes(cut.texts[NONCE]),
                              as_bytes(cut.texts[SIGNED_AT]));
    PyBuffer_Release(&view);
    return found;
}

/* --- the answer */

enum { START, LOW, HIGH, MOST, MOST_BYTES, MUST_FILL, OFFSET, MIN_OFFSET, MAX_OFFSET, SUGGEST, OPAQUE_ARG, ARGUMENTS };

static PyObject *make_answer(const Wanted *wanted, const uint8_t *whole, const long long *arguments) {
    Heading heading = {
        .offset = arguments[OFFSET],
        .min_offset = arguments[MIN_OFFSET],
        .max_offset = arguments[MAX_OFFSET],
        .suggest = arguments[SUGGEST],
        .opaque = arguments[OPAQUE_ARG],
    };
    Answer answer;
    if (!prepare(wanted, &heading, arguments[MUST_FILL] != 0, &answer)) Py_RETURN_NONE;
    PyObject *frame = PyBytes_FromStringAndSize(NULL, answer.size);
    if (frame == NULL) return NULL;
    write_answer(wanted, &answer, whole, arguments[START], (uint8_t *)PyBytes_AsString(frame));
    return Py_BuildValue("(NLL)", frame, (long long)answer.taken.messages, (long long)answer.taken.size);
}

/* Sets the bounds of the log within which records are read: those given, and those of the file. */
static int set_bounds(Wanted *wanted, int64_t low, int64_t high, int64_t start, Py_ssize_t length) {
    if (start < 0 || start > INT64_MAX - length) return 0;
    wanted->low = low > start ? low : start;
    wanted->high = high < start + length ? high : start + length;
    return 1;
}

PyDoc_STRVAR(answer_doc,
             "answer(entries, codes, whole, start, low, high, most, most_bytes, must_fill, offset, min_offset, "
             "max_offset, suggest, opaque, /)\n--\n\n"
             "Return (frame, messages, size) for a plain pull, or None; see AnswerPull in pull_answers.py.");

static PyObject *answer(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
    if (count != 3 + ARGUMENTS) {
        PyErr_Format(PyExc_TypeError, "answer() takes %d arguments", 3 + ARGUMENTS);
        return NULL;
    }
    long long arguments[ARGUMENTS];
    for (int index = 0; index < ARGUMENTS; index++) {
        arguments[index] = PyLong_AsLongLong(given[3 + index]);
        if (arguments[index] == -1 && PyErr_Occurred()) return NULL;
    }
    Py_buffer entries = {0}, codes = {0}, whole = {0};
    PyObject *result = NULL;
    if (PyObject_GetBuffer(given[0], &entries, PyBUF_SIMPLE) ||
        (given[1] != Py_None && PyObject_GetBuffer(given[1], &codes, PyBUF_SIMPLE)) ||
        PyObject_GetBuffer(given[2], &whole, PyBUF_SIMPLE))
        goto done;
    int32_t wanted_codes[MOST_CODES];
    Wanted wanted = {
        .entries = entries.buf,
        .entry_count = entries.len / ENTRY_SIZE,
        .codes = given[1] == Py_None ? NULL : wanted_codes,
        .code_count = codes.len / (Py_ssize_t)sizeof *wanted_codes,
        .most = arguments[MOST],
        .most_bytes = arguments[MOST_BYTES],
    };
    if (codes.len > (Py_ssize_t)sizeof wanted_codes ||
        !set_bounds(&wanted, arguments[LOW], arguments[HIGH], arguments[START], whole.len)) {
        result = Py_NewRef(Py_None);
        goto done;
    }
    if (codes.len) memcpy(wanted_codes, codes.buf, (size_t)codes.len);
    result = make_answer(&wanted, whole.buf, arguments);
done:
    PyBuffer_Release(&whole);
    PyBuffer_Release(&codes);
    PyBuffer_Release(&entries);
    return result;
}

/* --- pulls of known shapes */

enum { NOT_PLAIN, ANSWERED, NO_ROOM, FAILED = -1 };

/* What KnownPull.numbers holds. */
typedef struct {
    int64_t most, most_bytes, count, looked_at, suggest, per_file;
} Limits;

enum { KNOWN_QUEUE, KNOWN_CODES, KNOWN_NUMBERS, KNOWN_NOTE, KNOWN_SIGNED, KNOWN_QUICK_NOTE, KNOWN_FIELDS };
enum { SIGNED_CALLER, SIGNED_TEXTS, IS_NUMBERED, SIGNED_FIELDS };
enum { TEXTS = 5 }; /* around commitOffset, pyromqNonce, pyromqTime and queueOffset */
enum { PLACE_LOW, PLACE_HOT, PLACE_HIGH, PLACE_START, PLACE_WHOLE, PLACE_FIELDS };

/* A LogPlace; without `held` there is none. */
typedef struct {
    int64_t low, hot, high, start;
    Py_buffer whole;
    PyObject *held;
} Place;

/* A Chunk of a queue; likewise. */
typedef struct {
    int64_t first, end;
    const uint8_t *entries;
    PyObject *held;
    Py_buffer view;
} Chunk;

typedef struct {
    PyObject *known, *source;
    Place place;
    uint8_t *to;
    Py_ssize_t room;
    PyObject *caller; /* None if nobody has to be one */
    struct caller who;
    int64_t now_ms;
    int is_pass;  /* of a PullPass: pulls are noted here, where that is simple, and left alone else */
    double since; /* by clock_ms() */
} Serving;

static struct {
    PyObject *min_offset, *max_offset, *checked_offset, *is_removed, *chunks, *chunk, *place, *move_to_end,
        *topic_name, *queue_id;
} names;

static void leave_place(Place *place) {
    if (place->held != NULL) PyBuffer_Release(&place->whole);
    Py_CLEAR(place->held);
}

/* Takes over a reference to a LogPlace, or to None. */
static int enter_place(Place *place, PyObject *given) {
    leave_place(place);
    if (given == Py_None) {
        Py_DECREF(given);
        return 0;
    }
    if (!is_tuple_of(given, PLACE_FIELDS) || as_number(PyTuple_GetItem(given, PLACE_LOW), &place->low) ||
        as_number(PyTuple_GetItem(given, PLACE_HOT), &place->hot) ||
        as_number(PyTuple_GetItem(given, PLACE_HIGH), &place->high) ||
        as_number(PyTuple_GetItem(given, PLACE_START), &place->start) ||
        PyObject_GetBuffer(PyTuple_GetItem(given, PLACE_WHOLE), &place->whole, PyBUF_SIMPLE)) {
        Py_DECREF(given);
        return -1;
    }
    place->held = given;
    return 0;
}

static int covers(const Place *place, int64_t first, int64_t last) {
    return place->held != NULL && place->low <= first && first < last && last <= place->high;
}

/* Sees to it that bytes of the log are at hand; returns 1 if they are, 0 if not, -1 after an error. */
static int find_place(Serving *serving, int64_t first, int64_t last) {
    Place *place = &serving->place;
    if (covers(place, first, last)) return 1;
    PyObject *from = PyLong_FromLongLong(first), *to = PyLong_FromLongLong(last), *found = NULL;
    if (from != NULL && to != NULL)
        found = PyObject_CallMethodObjArgs(serving->source, names.place, from, to, NULL);
    Py_XDECREF(from);
    Py_XDECREF(to);
    if (found == NULL || enter_place(place, found)) return -1;
    return covers(place, first, last);
}

static void leave_chunk(Chunk *chunk) {
    if (chunk->held != NULL) PyBuffer_Release(&chunk->view);
    Py_CLEAR(chunk->held);
}

/* Takes over a reference to a Chunk, or to None. */
static int enter_chunk(Chunk *chunk, PyObject *given) {
    leave_chunk(chunk);
    if (given == Py_None) {
        Py_DECREF(given);
        return 0;
    }
    if (!is_tuple_of(given, 2) || as_number(PyTuple_GetItem(given, 0), &chunk->first) ||
        PyObject_GetBuffer(PyTuple_GetItem(given, 1), &chunk->view, PyBUF_SIMPLE)) {
        Py_DECREF(given);
        return -1;
    }
    chunk->held = given;
    chunk->entries = chunk->view.buf;
    chunk->end = (int64_t)((uint64_t)chunk->first + (uint64_t)(chunk->view.len / ENTRY_SIZE));
    return 0;
}

/* Finds a chunk among those of a queue. */
static int enter_known_chunk(Chunk *chunk, PyObject *queue, int64_t offset) {
    PyObject *chunks = PyObject_GetAttr(queue, names.chunks), *key, *found = NULL;
    if (chunks == NULL) return -1;
    if (chunks != Py_None) {
        key = PyLong_FromLongLong(offset / CHUNK_ENTRIES);
        if (key != NULL) found = PyDict_GetItemWithError(chunks, key);
        Py_XDECREF(key);
    }
    int failed = PyErr_Occurred() ? -1 : enter_chunk(chunk, Py_NewRef(found == NULL ? Py_None : found));
    Py_DECREF(chunks);
    return failed;
}

static int has_entries(const Chunk *chunk, int64_t offset, int64_t count, int64_t per_file) {
    return chunk->held != NULL && chunk->first <= offset && offset < chunk->end &&
           (count <= chunk->end - offset || chunk->end % per_file == 0);
}

/* Sees to it that entries are at hand, as far as their file has them; returns 1 if they are, 0 if not, -1 after an
   error. */
static int find_entries(Serving *serving, Chunk *chunk, PyObject *queue, int64_t offset, int64_t count,
                        int64_t per_file) {
    if (enter_known_chunk(chunk, queue, offset)) return -1;
    if (has_entries(chunk, offset, count, per_file)) return 1;
    PyObject *from = PyLong_FromLongLong(offset), *number = PyLong_FromLongLong(count), *found = NULL;
    if (from != NULL && number != NULL)
        found = PyObject_CallMethodObjArgs(serving->source, names.chunk, queue, from, number, NULL);
    Py_XDECREF(from);
    Py_XDECREF(number);
    if (found == NULL || enter_chunk(chunk, found)) return -1;
    return has_entries(chunk, offset, count, per_file);
}

static int read_limits(PyObject *known, Limits *limits) {
    char *numbers;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(PyTuple_GetItem(known, KNOWN_NUMBERS), &numbers, &length)) return -1;
    if (length != (Py_ssize_t)sizeof *limits || (memcpy(limits, numbers, sizeof *limits), limits->per_file < 1)) {
        PyErr_SetString(PyExc_ValueError, "not the numbers of a known pull");
        return -1;
    }
    return 0;
}

static int read_codes(PyObject *known, Wanted *wanted, int32_t *codes) {
    PyObject *given = PyTuple_GetItem(known, KNOWN_CODES);
    char *packed;
    Py_ssize_t length;
    if (given == Py_None) return 0;
    if (PyBytes_AsStringAndSize(given, &packed, &length)) return -1;
    if (length > MOST_CODES * (Py_ssize_t)sizeof *codes) {
        PyErr_SetString(PyExc_ValueError, "too many tags of a known pull");
        return -1;
    }
    memcpy(codes, packed, (size_t)length);
    wanted->codes = codes;
    wanted->code_count = length / (Py_ssize_t)sizeof *codes;
    return 0;
}

/* The end of a queue, and from where on its records were written in this life of the broker. */
typedef struct {
    int64_t low, high, checked;
} Bounds;

static int read_bounds(PyObject *queue, Bounds *bounds, int64_t offset) {
    int64_t is_removed;
    if (read_field(queue, names.min_offset, &bounds->low) || read_field(queue, names.max_offset, &bounds->high) ||
        read_field(queue, names.checked_offset, &bounds->checked) ||
        read_field(queue, names.is_removed, &is_removed))
        return -1;
    return bounds->low <= offset && offset < bounds->high && !is_removed;
}

/* --- records of an earlier life */

/* Whose record is looked for. */
typedef struct {
    struct text topic;
    int64_t queue_id, queue_offset;
} Owner;

/* See is_plain_record() in pull_answers.py; a record has SMALLEST_RECORD bytes or more. */
static int is_plain_record(const uint8_t *from, int64_t size, int64_t position, const Owner *owner) {
    struct text text = {(const char *)from, (const char *)from + size};
    struct parts parts;
    return find_parts(text, &parts) && (int64_t)parts.size == size &&
           get_i64(parts.head + PHYSICAL_OFFSET_AT) == position &&
           (int32_t)get_u32(parts.head + QUEUE_ID_AT) == owner->queue_id &&
           get_i64(parts.head + QUEUE_OFFSET_AT) == owner->queue_offset &&
           length_of(parts.topic) == length_of(owner->topic) &&
           memcmp(parts.topic.at, owner->topic.at, length_of(owner->topic)) == 0 && is_sound(&parts);
}

/* Tells whether all records that were taken are those of a queue; returns -1 after an error. */
static int are_sound(const Wanted *wanted, const Taken *taken, const Place *place, PyObject *queue, int64_t offset) {
    Owner owner;
    PyObject *topic = PyObject_GetAttr(queue, names.topic_name);
    if (topic == NULL || read_field(queue, names.queue_id, &owner.queue_id)) {
        Py_XDECREF(topic);
        return -1;
    }
    owner.topic = text_of(topic);
    int are_good = 1;
    for (Py_ssize_t index = 0; index < taken->seen && are_good; index++) {
        const uint8_t *entry = wanted->entries + index * ENTRY_SIZE;
        if (!passes(wanted, entry)) continue;
        int64_t position = read_i64(entry), size = read_i32(entry + 8);
        owner.queue_offset = offset + index;
        are_good = is_plain_record((const uint8_t *)place->whole.buf + (position - place->start), size, position, &owner);
    }
    Py_DECREF(topic);
    return are_good;
}

/* Calls KnownPull.note; returns 1 if the pull may be answered, 0 if not, -1 after an error. */
static int note(Serving *serving, PyObject *known, int64_t commit_offset, int64_t end, const Taken *taken) {
    if (serving->is_pass)
        return quick_note(PyTuple_GetItem(known, KNOWN_QUICK_NOTE), commit_offset, end, taken->messages, taken->size,
                          &serving->since);
    PyObject *commit = PyLong_FromLongLong(commit_offset), *high = PyLong_FromLongLong(end);
    PyObject *messages = PyLong_FromLongLong(taken->messages), *size = PyLong_FromLongLong(taken->size), *done = NULL;
    if (commit != NULL && high != NULL && messages != NULL && size != NULL)
        done = PyObject_CallFunctionObjArgs(PyTuple_GetItem(known, KNOWN_NOTE), commit, high, messages, size, NULL);
    Py_XDECREF(commit);
    Py_XDECREF(high);
    Py_XDECREF(messages);
    Py_XDECREF(size);
    if (done == NULL) return -1;
    int may_answer = PyObject_IsTrue(done);
    Py_DECREF(done);
    return may_answer;
}

/* Tells whether a text and its own values have a signature. */
static int is_signature(const Serving *serving, PyObject *texts, const Cut *cut) {
    static const int OWN[TEXTS - 1] = {COMMIT_OFFSET, NONCE, SIGNED_AT, QUEUE_OFFSET}; /* in the order of their names */
    struct sha1 sum;
    signature_begin(&sum, serving->who.secret);
    for (int number = 0; number < TEXTS; number++) {
        struct text text = text_of(PyTuple_GetItem(texts, number));
        sha1_add(&sum, text.at, length_of(text));
        if (number < TEXTS - 1) sha1_add(&sum, cut->texts[OWN[number]].at, length_of(cut->texts[OWN[number]]));
    }
    return signature_is(&sum, serving->who.secret, cut->texts[SIGNATURE]);
}

/* Tells whether a pull is the caller's, was not changed and not sent before; returns 1 if it is, 0 if it needs a closer
   look, -1 after an error. */
static int is_callers(const Serving *serving, PyObject *known, const Cut *cut, struct numbered *numbered) {
    PyObject *is_signed = PyTuple_GetItem(known, KNOWN_SIGNED);
    if (serving->caller == Py_None || is_signed == Py_None) return serving->caller == is_signed;
    if (!is_tuple_of(is_signed, SIGNED_FIELDS)) return -1;
    PyObject *texts = PyTuple_GetItem(is_signed, SIGNED_TEXTS);
    if (!is_tuple_of(texts, TEXTS)) return -1;
    if (PyTuple_GetItem(is_signed, SIGNED_CALLER) != serving->caller || !is_signature(serving, texts, cut)) return 0;
    int is_numbered = PyObject_IsTrue(PyTuple_GetItem(is_signed, IS_NUMBERED));
    if (is_numbered < 1) return is_numbered < 0 ? -1 : 1;
    return find_number(&serving->who, cut->texts[NONCE], cut->texts[SIGNED_AT], serving->now_ms, numbered);
}

/* Answers a pull whose entries are at hand. */
static int serve_entries(Serving *serving, PyObject *known, const Limits *limits, const Chunk *chunk, int64_t count,
                         const int64_t *values, const Bounds *bounds) {
    int64_t offset = values[QUEUE_OFFSET], left = bounds->high - offset;
    int64_t looked_at = limits->looked_at < left ? limits->looked_at : left;
    int64_t found = chunk->end - offset < count ? chunk->end - offset : count;
    int32_t codes[MOST_CODES];
    Wanted wanted = {
        .entries = chunk->entries + (offset - chunk->first) * ENTRY_SIZE,
        .entry_count = (Py_ssize_t)found,
        .most = limits->most,
        .most_bytes = limits->most_bytes,
    };
    if (read_codes(known, &wanted, codes)) return FAILED;
    const uint8_t *last = wanted.entries + (found - 1) * ENTRY_SIZE;
    int64_t last_at = read_i64(last), last_size = read_i32(last + 8);
    if (last_at < 0 || last_at > INT64_MAX - INT32_MAX) return NOT_PLAIN;
    int is_there = find_place(serving, read_i64(wanted.entries), last_at + last_size);
    if (is_there < 1) return is_there ? FAILED : NOT_PLAIN;
    const Place *place = &serving->place;
    if (!set_bounds(&wanted, place->hot, place->high, place->start, place->whole.len)) return NOT_PLAIN;
    Heading heading = {offset, bounds->low, bounds->high, limits->suggest, values[OPAQUE]};
    Answer answer;
    if (!prepare(&wanted, &heading, count < looked_at && found == count, &answer)) return NOT_PLAIN;
    if (answer.size > serving->room) return NO_ROOM;
    if (offset < bounds->checked) {
        int are_good = are_sound(&wanted, &answer.taken, place, PyTuple_GetItem(known, KNOWN_QUEUE), offset);
        if (are_good < 1) return are_good ? FAILED : NOT_PLAIN;
    }
    int may_answer = note(serving, known, values[COMMIT_OFFSET], bounds->high, &answer.taken);
    if (may_answer < 1) return may_answer ? FAILED : NOT_PLAIN;
    write_answer(&wanted, &answer, place->whole.buf, place->start, serving->to);
    serving->to += answer.size;
    serving->room -= answer.size;
    return ANSWERED;
}

static int serve_known(Serving *serving, PyObject *known, const int64_t *values) {
    Limits limits;
    Bounds bounds;
    if (read_limits(known, &limits)) return FAILED;
    PyObject *queue = PyTuple_GetItem(known, KNOWN_QUEUE);
    int is_inside = read_bounds(queue, &bounds, values[QUEUE_OFFSET]);
    if (is_inside < 1) return is_inside ? FAILED : NOT_PLAIN;
    int64_t left = bounds.high - values[QUEUE_OFFSET], count = limits.count < left ? limits.count : left;
    if (count < 1) return NOT_PLAIN;
    Chunk chunk = {0};
    int status = find_entries(serving, &chunk, queue, values[QUEUE_OFFSET], count, limits.per_file);
    if (status > 0) status = serve_entries(serving, known, &limits, &chunk, count, values, &bounds);
    leave_chunk(&chunk);
    return status;
}

/* Answers a pull of a known shape if it is the caller's. */
static int serve_callers(Serving *serving, PyObject *known, const Cut *cut) {
    struct numbered numbered = {NULL, NULL};
    if (!is_tuple_of(known, KNOWN_FIELDS)) return FAILED;
    int status = is_callers(serving, known, cut, &numbered);
    if (status > 0) status = serve_known(serving, known, cut->numbers);
    if (status == ANSWERED && note_number(&serving->who, &numbered, names.move_to_end)) status = FAILED;
    forget_number(&numbered);
    return status;
}

static int serve_text(Serving *serving, struct text frame) {
    Cut cut;
    cut_frame(frame, &cut);
    if (!cut.length) return NOT_PLAIN;
    PyObject *key = PyBytes_FromStringAndSize(cut.shape, (Py_ssize_t)cut.length);
    if (key == NULL) return FAILED;
    PyObject *known = PyDict_GetItemWithError(serving->known, key);
    Py_DECREF(key);
    if (known == NULL) return PyErr_Occurred() ? FAILED : NOT_PLAIN;
    Py_INCREF(known); /* what is called may forget it */
    int status = serve_callers(serving, known, &cut);
    Py_DECREF(known);
    return status;
}

static int serve_frame(Serving *serving, PyObject *frame) {
    Py_buffer view;
    if (PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)) return FAILED;
    struct text text = {view.buf, (const char *)view.buf + view.len};
    int status = serve_text(serving, text);
    PyBuffer_Release(&view);
    return status;
}

PyDoc_STRVAR(serve_doc,
             "serve(frames, index, most, known, place, source, scratch, caller, now_ms, /)\n--\n\n"
             "Return (answered, answers, more) for pulls of known shapes; see ServePulls in pull_serving.py.");

static PyObject *serve(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
    int64_t index, most;
    if (count != 9 || !PyList_Check(given[0]) || !PyDict_Check(given[3])) {
        PyErr_SetString(PyExc_TypeError,
                        "serve() takes a list, two numbers, a dict, a place, a source, a buffer, a caller and a time");
        return NULL;
    }
    Serving serving = {.known = given[3], .source = given[5], .caller = given[7]};
    Py_buffer scratch;
    if (as_number(given[1], &index) || as_number(given[2], &most) || as_number(given[8], &serving.now_ms) ||
        !know_caller(&serving.who, given[7]) ||
        PyObject_GetBuffer(given[6], &scratch, PyBUF_WRITABLE))
        return NULL;
    serving.to = scratch.buf;
    serving.room = scratch.len;
    int64_t answered = 0;
    int status = enter_place(&serving.place, Py_NewRef(given[4]));
    for (index = index < 0 ? 0 : index; status >= 0 && index < PyList_Size(given[0]); index++, answered++) {
        status = answered < most ? serve_frame(&serving, PyList_GetItem(given[0], (Py_ssize_t)index)) : NO_ROOM;
        if (status != ANSWERED) break;
    }
    Py_ssize_t used = scratch.len - serving.room;
    leave_place(&serving.place);
    PyBuffer_Release(&scratch);
    if (status == FAILED) return NULL;
    PyObject *answers = PySequence_GetSlice(given[6], 0, used);
    if (answers == NULL) return NULL;
    PyObject *number = PyLong_FromLongLong(answered), *result = NULL;
    if (number != NULL) result = PyTuple_Pack(3, number, answers, status == NO_ROOM ? Py_True : Py_False);
    Py_XDECREF(number);
    Py_DECREF(answers);
    return result;
}

/* --- the pulls of a pass */

/* NativePullPass(known, source, scratch, budget): see PullPass in pull_passes.py. */
typedef struct {
    PyObject_HEAD
    PyObject *known, *source, *log, *scratch;
    Py_ssize_t used;
    int64_t answered, budget;
} PullPass;

#define READ_SHARE 32          /* pulls of a read, as remoting/dispatch.py has it */
#define ANSWER_SHARE (512 << 10) /* bytes for it, as remoting/round.py has it */
#define ANSWER_WORK (16 << 10) /* what an answer counts beside its bytes, likewise */
#define LONGEST_PULL (64 << 10)

/* Returns the next frame of a read; an empty one if it is not whole, or no pull that is answered here. */
static struct text next_frame(struct text rest) {
    struct text none = {rest.at, rest.at};
    if (length_of(rest) < PREFIX_SIZE) return none;
    uint32_t length = get_u32(rest.at);
    if (length < 4 || length > LONGEST_PULL || length > length_of(rest) - 4) return none;
    return (struct text){rest.at + 4, rest.at + 4 + length};
}

/* Answers the first pulls of a read; returns where it stopped, NULL after an error. */
static const char *serve_read(PullPass *pass, Serving *serving, struct text data) {
    uint8_t *begin = serving->to;
    for (int served = 0; served < READ_SHARE && serving->to - begin <= ANSWER_SHARE && pass->budget > 0; served++) {
        struct text frame = next_frame(data);
        if (frame.at == frame.end) break;
        uint8_t *before = serving->to;
        int status = serve_text(serving, frame);
        if (status == FAILED) return NULL;
        if (status != ANSWERED) break;
        data.at = frame.end;
        pass->answered++;
        pass->budget -= serving->to - before + ANSWER_WORK;
    }
    return data.at;
}

/* Enters the stretch of the log that was read last, and the rest of the buffer; the caller leaves both. */
static int begin_read(PullPass *pass, Serving *serving, Py_buffer *scratch) {
    PyObject *place = PyObject_GetAttr(pass->log, names.place);
    if (place == NULL || enter_place(&serving->place, place)) return -1;
    if (PyObject_GetBuffer(pass->scratch, scratch, PyBUF_WRITABLE)) return -1;
    serving->to = (uint8_t *)scratch->buf + pass->used;
    serving->room = scratch->len - pass->used;
    return 0;
}

PyDoc_STRVAR(feed_doc, "feed(data, /)\n--\n\nAnswer the first pulls of a read: see PullPass in pull_passes.py.");

static PyObject *feed(PyObject *self, PyObject *given) {
    PullPass *pass = (PullPass *)self;
    if (!PyBytes_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "a read is bytes");
        return NULL;
    }
    Serving serving = {
        .known = pass->known, .source = pass->source, .caller = Py_None, .is_pass = 1, .since = clock_ms()};
    Py_buffer scratch = {0};
    struct text data = text_of(given);
    const char *stopped = begin_read(pass, &serving, &scratch) ? NULL : serve_read(pass, &serving, data);
    Py_ssize_t first = pass->used;
    if (stopped != NULL) pass->used = scratch.len - serving.room;
    leave_place(&serving.place);
    PyBuffer_Release(&scratch);
    if (stopped == NULL) return NULL;
    PyObject *answers = PySequence_GetSlice(pass->scratch, first, pass->used);
    return answers == NULL ? NULL : Py_BuildValue("(nN)", (Py_ssize_t)(stopped - data.at), answers);
}

PyDoc_STRVAR(end_doc, "end()\n--\n\nReturn how many pulls were answered, with how many bytes.");

static PyObject *end_pass(PyObject *self, PyObject *nothing) {
    (void)nothing;
    PullPass *pass = (PullPass *)self;
    pass->budget = 0;
    return Py_BuildValue("(Ln)", (long long)pass->answered, pass->used);
}

static int pass_init(PyObject *self, PyObject *args, PyObject *keywords) {
    (void)keywords;
    PullPass *pass = (PullPass *)self;
    PyObject *known, *source, *log, *scratch;
    long long budget;
    if (!PyArg_ParseTuple(args, "OOOOL", &known, &source, &log, &scratch, &budget)) return -1;
    if (pass->known != NULL || !PyDict_Check(known) || !PyMemoryView_Check(scratch)) {
        PyErr_SetString(PyExc_TypeError, "a pass is made once, of a dict, a source, a log, a memoryview and a number");
        return -1;
    }
    pass->known = Py_NewRef(known);
    pass->source = Py_NewRef(source);
    pass->log = Py_NewRef(log);
    pass->scratch = Py_NewRef(scratch);
    pass->budget = budget;
    return 0;
}

static void pass_dealloc(PyObject *self) {
    PullPass *pass = (PullPass *)self;
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(pass->known);
    Py_XDECREF(pass->source);
    Py_XDECREF(pass->log);
    Py_XDECREF(pass->scratch);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef pass_methods[] = {
    {"feed", feed, METH_O, feed_doc},
    {"end", end_pass, METH_NOARGS, end_doc},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot pass_slots[] = {
    {Py_tp_init, pass_init}, {Py_tp_dealloc, pass_dealloc}, {Py_tp_methods, pass_methods}, {0, NULL}};
static PyType_Spec pass_spec = {"pyromq.lane._pulls.NativePullPass", sizeof(PullPass), 0, Py_TPFLAGS_DEFAULT,
                                pass_slots};

/* --- the module */

static PyMethodDef methods[] = {
    {"shape", shape, METH_O, shape_doc},
    {"answer", (PyCFunction)(void (*)(void))answer, METH_FASTCALL, answer_doc},
    {"serve", (PyCFunction)(void (*)(void))serve, METH_FASTCALL, serve_doc},
    {NULL, NULL, 0, NULL},
};

static int fill_module(PyObject *module) {
    PyObject *type = PyType_FromSpec(&pass_spec);
    int failed = type == NULL || PyModule_AddObjectRef(module, "NativePullPass", type);
    Py_XDECREF(type);
    if (failed || name_note_fields()) return -1;
    names.min_offset = PyUnicode_InternFromString("min_offset");
    names.max_offset = PyUnicode_InternFromString("max_offset");
    names.checked_offset = PyUnicode_InternFromString("checked_offset");
    names.is_removed = PyUnicode_InternFromString("is_removed");
    names.chunks = PyUnicode_InternFromString("chunks");
    names.chunk = PyUnicode_InternFromString("chunk");
    names.place = PyUnicode_InternFromString("place");
    names.move_to_end = PyUnicode_InternFromString("move_to_end");
    names.topic_name = PyUnicode_InternFromString("topic_name");
    names.queue_id = PyUnicode_InternFromString("queue_id");
    choose_sha1();
    make_crc_tables();
    return PyErr_Occurred() ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)fill_module}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_pulls", "Plain pulls; see the head of _pulls.c.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__pulls(void) { return PyModuleDef_Init(&definition); }
