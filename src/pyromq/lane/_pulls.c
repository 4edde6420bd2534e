/* Plain pulls in C: the request's shape, and the whole answer in one call. pull_answers.py says what is right.

   shape(frame) looks at a request to pull. The requests of one consumer about one queue differ in three numbers only:
   where to read (queueOffset), what was consumed (commitOffset), and the number of the request (opaque). shape() cuts
   these out and returns what is left, as a key under which the broker knows a request that it has decoded properly
   before. So nothing here has to understand a header. It only has to be sure that two frames of one shape mean the same
   but for the three numbers:

     - no backslash, so a text ends at the next quote, and a name is written in one way only;
     - each of the three names stands there once, as a name (a colon follows);
     - the numbers are written as JSON writes them, without plus, leading zeros or fractions, within 18 digits.

   answer(...) makes the answer from the entries of a queue and the mapped file of the log. It trusts neither: an entry
   that points outside of the bounds it was given, or whose size lies, makes it return None, and the ordinary path looks
   closer. It reads the file within these bounds only, and writes nothing but the bytes that it returns.

   Both functions are pure. They touch no file and no socket, and keep nothing between two calls. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define ENTRY_SIZE 20
#define SMALLEST_RECORD 91   /* a record without body, topic and properties: protocol/messages/record.py */
#define LOWEST_CODE_HIGH (-1) /* below: the address of an extension unit, which every filter lets pass */
#define LONGEST_HEADER 2048
#define LONGEST_HEAD 512
#define MOST_DIGITS 18
#define MOST_CODES 16
#define PREFIX_SIZE 8

/* --- numbers in network order */

static uint32_t read_u32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | (uint32_t)at[3];
}

static int32_t read_i32(const uint8_t *at) { return (int32_t)read_u32(at); }

static int64_t read_i64(const uint8_t *at) { return (int64_t)((uint64_t)read_u32(at) << 32 | read_u32(at + 4)); }

static void write_u32(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 24);
    at[1] = (uint8_t)(value >> 16);
    at[2] = (uint8_t)(value >> 8);
    at[3] = (uint8_t)value;
}

/* --- the shape of a request */

enum { QUEUE_OFFSET, COMMIT_OFFSET, OPAQUE, NUMBERS };

static const struct {
    const char *name;
    size_t length;
    int is_quoted;
} numbers[NUMBERS] = {
    {"queueOffset", sizeof "queueOffset" - 1, 1},
    {"commitOffset", sizeof "commitOffset" - 1, 1},
    {"opaque", sizeof "opaque" - 1, 0},
};

static int number_named(const uint8_t *name, size_t length) {
    for (int which = 0; which < NUMBERS; which++)
        if (length == numbers[which].length && !memcmp(name, numbers[which].name, length)) return which;
    return -1;
}

/* Reads digits as JSON writes them; returns the position behind them, NULL if they are written in another way. */
static const uint8_t *read_number(const uint8_t *at, const uint8_t *end, int64_t *value) {
    int is_negative = at < end && *at == '-';
    const uint8_t *first = at += is_negative;
    int64_t number = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        if (at - first >= MOST_DIGITS) return NULL;
        number = number * 10 + (*at - '0');
    }
    if (at == first || (*first == '0' && (at - first > 1 || is_negative))) return NULL;
    *value = is_negative ? -number : number;
    return at;
}

/* Cuts the numbers out of a header, into `cut`; returns how long the rest is, 0 if it is not to be cut. */
static size_t cut_numbers(const uint8_t *at, const uint8_t *end, uint8_t *cut, int64_t *values) {
    const uint8_t *copied = at;
    size_t length = 0;
    int seen = 0;
    while (at < end) {
        if (*at == '\\') return 0;
        if (*at++ != '"') continue;
        const uint8_t *name = at;
        while (at < end && *at != '"' && *at != '\\') at++;
        if (at == end || *at == '\\') return 0;
        const uint8_t *name_end = at++;
        if (at == end || *at != ':') continue;
        int which = number_named(name, (size_t)(name_end - name));
        if (which < 0) continue;
        if (seen & 1 << which) return 0;
        seen |= 1 << which;
        at++;
        if (numbers[which].is_quoted && (at == end || *at++ != '"')) return 0;
        memcpy(cut + length, copied, (size_t)(at - copied));
        length += (size_t)(at - copied);
        at = copied = read_number(at, end, &values[which]);
        if (at == NULL || at == end) return 0;
        if (numbers[which].is_quoted) {
            if (*at++ != '"') return 0;
        } else if (*at != ',' && *at != '}') {
            return 0;
        }
    }
    memcpy(cut + length, copied, (size_t)(end - copied));
    return seen == (1 << NUMBERS) - 1 ? length + (size_t)(end - copied) : 0;
}

PyDoc_STRVAR(shape_doc,
             "shape(frame, /)\n--\n\n"
             "Return (shape, queue offset, commit offset, opaque) of a request, its first four bytes left out; None if "
             "it has no shape.");

static PyObject *shape(PyObject *module, PyObject *frame) {
    (void)module;
    Py_buffer view;
    if (PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)) return NULL;
    const uint8_t *data = view.buf;
    uint8_t cut[LONGEST_HEADER];
    int64_t values[NUMBERS];
    size_t length = 0;
    /* A header in JSON, and nothing behind it. */
    if (view.len > 4 && view.len <= 4 + LONGEST_HEADER && read_u32(data) == (uint32_t)(view.len - 4))
        length = cut_numbers(data + 4, data + view.len, cut, values);
    PyBuffer_Release(&view);
    if (!length || values[OPAQUE] < 0 || values[OPAQUE] > INT32_MAX) Py_RETURN_NONE;
    return Py_BuildValue("(y#LLL)", (const char *)cut, (Py_ssize_t)length, (long long)values[QUEUE_OFFSET],
                         (long long)values[COMMIT_OFFSET], (long long)values[OPAQUE]);
}

/* --- the answer */

typedef struct {
    const uint8_t *entries;
    Py_ssize_t entry_count;
    const int32_t *codes; /* NULL: all tags */
    Py_ssize_t code_count;
    int64_t low, high;     /* of the log: where records must lie */
    int64_t most, most_bytes;
} Wanted;

typedef struct {
    Py_ssize_t seen; /* entries that were looked at */
    int64_t messages, size;
    int is_full;
} Taken;

static int passes(const Wanted *wanted, const uint8_t *entry) {
    if (wanted->codes == NULL) return 1;
    int32_t code = read_i32(entry + 16);
    for (Py_ssize_t index = 0; index < wanted->code_count; index++)
        if (wanted->codes[index] == code) return 1;
    return read_i32(entry + 12) < LOWEST_CODE_HIGH;
}

/* Finds out how far the answer reaches; returns 0 if there is none, or one of its records is out of bounds. */
static int take(const Wanted *wanted, Taken *taken) {
    memset(taken, 0, sizeof *taken);
    for (Py_ssize_t index = 0; index < wanted->entry_count; index++) {
        const uint8_t *entry = wanted->entries + index * ENTRY_SIZE;
        if (!passes(wanted, entry)) continue;
        int64_t position = read_i64(entry), size = read_i32(entry + 8);
        if (position < wanted->low || position > wanted->high || size < SMALLEST_RECORD ||
            size > wanted->high - position)
            return 0;
        if (taken->messages && taken->size + size > wanted->most_bytes) {
            taken->seen = index;
            taken->is_full = 1;
            return 1;
        }
        taken->messages++;
        taken->size += size;
        if (taken->messages >= wanted->most) {
            taken->seen = index + 1;
            taken->is_full = 1;
            return 1;
        }
    }
    taken->seen = wanted->entry_count;
    return taken->messages > 0;
}

/* Copies the records that were taken; neighbours in the log by one copy. */
static void copy_records(const Wanted *wanted, const Taken *taken, const uint8_t *whole, int64_t start, uint8_t *to) {
    int64_t first = 0, last = 0, left = taken->messages;
    for (Py_ssize_t index = 0; left; index++) {
        const uint8_t *entry = wanted->entries + index * ENTRY_SIZE;
        if (!passes(wanted, entry)) continue;
        int64_t position = read_i64(entry), size = read_i32(entry + 8);
        left--;
        if (position != last) {
            if (last > first) memcpy(to, whole + (first - start), (size_t)(last - first));
            to += last - first;
            first = position;
        }
        last = position + size;
    }
    memcpy(to, whole + (first - start), (size_t)(last - first));
}

/* All texts and numbers of a head together are shorter than LONGEST_HEAD. */
static char *put_text(char *to, const char *text) {
    size_t length = strlen(text);
    memcpy(to, text, length);
    return to + length;
}

static char *put_number(char *to, long long number) {
    char digits[20], *first = digits + sizeof digits;
    unsigned long long rest = number < 0 ? 0ULL - (unsigned long long)number : (unsigned long long)number;
    do *--first = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0) *to++ = '-';
    memcpy(to, first, (size_t)(digits + sizeof digits - first));
    return to + (digits + sizeof digits - first);
}

enum { START, LOW, HIGH, MOST, MOST_BYTES, MUST_FILL, OFFSET, MIN_OFFSET, MAX_OFFSET, SUGGEST, OPAQUE_ARG, ARGUMENTS };

static PyObject *make_answer(const Wanted *wanted, const uint8_t *whole, const long long *arguments) {
    Taken taken;
    if (!take(wanted, &taken) || (arguments[MUST_FILL] && !taken.is_full)) Py_RETURN_NONE;
    /* A filter may have looked back further than the records that it found. */
    if (read_i64(wanted->entries + (taken.seen - 1) * ENTRY_SIZE) < wanted->low) Py_RETURN_NONE;
    char head[LONGEST_HEAD], *end = head;
    end = put_text(end, "{\"code\":0,\"extFields\":{\"suggestWhichBrokerId\":\"");
    end = put_number(end, arguments[SUGGEST]);
    end = put_text(end, "\",\"nextBeginOffset\":\"");
    end = put_number(end, (long long)((unsigned long long)arguments[OFFSET] + (unsigned long long)taken.seen));
    end = put_text(end, "\",\"minOffset\":\"");
    end = put_number(end, arguments[MIN_OFFSET]);
    end = put_text(end, "\",\"maxOffset\":\"");
    end = put_number(end, arguments[MAX_OFFSET]);
    end = put_text(end, "\"},\"flag\":1,\"language\":\"JAVA\",\"opaque\":");
    end = put_number(end, arguments[OPAQUE_ARG]);
    end = put_text(end, ",\"remark\":\"FOUND\",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":409}");
    Py_ssize_t length = end - head;
    if (taken.size > INT32_MAX - LONGEST_HEAD) Py_RETURN_NONE;
    PyObject *frame = PyBytes_FromStringAndSize(NULL, PREFIX_SIZE + length + (Py_ssize_t)taken.size);
    if (frame == NULL) return NULL;
    uint8_t *to = (uint8_t *)PyBytes_AsString(frame);
    write_u32(to, (uint32_t)(4 + length + taken.size));
    write_u32(to + 4, (uint32_t)length); /* JSON is type 0 */
    memcpy(to + PREFIX_SIZE, head, (size_t)length);
    copy_records(wanted, &taken, whole, arguments[START], to + PREFIX_SIZE + length);
    return Py_BuildValue("(NLL)", frame, (long long)taken.messages, (long long)taken.size);
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
    int64_t start = arguments[START];
    if (codes.len > (Py_ssize_t)sizeof wanted_codes || start < 0 || start > INT64_MAX - whole.len) {
        result = Py_NewRef(Py_None);
        goto done;
    }
    if (codes.len) memcpy(wanted_codes, codes.buf, (size_t)codes.len);
    int64_t end = start + whole.len;
    Wanted wanted = {
        .entries = entries.buf,
        .entry_count = entries.len / ENTRY_SIZE,
        .codes = given[1] == Py_None ? NULL : wanted_codes,
        .code_count = codes.len / (Py_ssize_t)sizeof *wanted_codes,
        .low = arguments[LOW] > start ? arguments[LOW] : start,
        .high = arguments[HIGH] < end ? arguments[HIGH] : end,
        .most = arguments[MOST],
        .most_bytes = arguments[MOST_BYTES],
    };
    result = make_answer(&wanted, whole.buf, arguments);
done:
    PyBuffer_Release(&whole);
    PyBuffer_Release(&codes);
    PyBuffer_Release(&entries);
    return result;
}

/* --- the module */

static PyMethodDef methods[] = {
    {"shape", shape, METH_O, shape_doc},
    {"answer", (PyCFunction)(void (*)(void))answer, METH_FASTCALL, answer_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_pulls", "Plain pulls; see the head of _pulls.c.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__pulls(void) { return PyModuleDef_Init(&definition); }
