/* Whose requests come over a connection, where there is access control, for the parts of the lane in C; see callers.py.

   A caller is a tuple of Python: (access key, secret, topics, numbers, ...). All that is taken from it is borrowed. */

#ifndef PYROMQ_LANE_CALLER_H
#define PYROMQ_LANE_CALLER_H

#include "signature.h"

enum {
    MAX_CONNECTION = 64, /* characters of the id in a nonce */
    MAX_NUMBER = 18,     /* digits of the number behind it */
    MAX_SKEW_MS = 300 * 1000,
};

struct caller {
    const char *access_key; /* NULL if nobody asks */
    Py_ssize_t access_key_length;
    const char *secret;
    PyObject *topics, *numbers;
};

/* Take over whose requests come, None if access control need not know; return 0 after an error. */
static inline int know_caller(struct caller *caller, PyObject *given)
{
    if (given == Py_None)
        return 1;
    if (!PyTuple_Check(given) || PyTuple_Size(given) < 4) {
        PyErr_SetString(PyExc_TypeError, "a caller is a tuple of four or more");
        return 0;
    }
    struct text secret = {NULL, NULL};
    PyObject *block = PyTuple_GetItem(given, 1);
    if (PyBytes_Check(block))
        secret = text_of(block);
    caller->access_key = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(given, 0), &caller->access_key_length);
    caller->secret = secret.at;
    caller->topics = PyTuple_GetItem(given, 2);
    caller->numbers = PyTuple_GetItem(given, 3);
    if (caller->access_key == NULL)
        return 0;
    if (length_of(secret) != SHA1_BLOCK || !PySet_Check(caller->topics) || !PyDict_Check(caller->numbers)) {
        PyErr_SetString(PyExc_TypeError, "a caller has a key, a block of 64 bytes, a set of topics and a dict");
        return 0;
    }
    return 1;
}

/* What keeps a request from being sent twice; both owned, and NULL if it has nothing of the kind. */
struct numbered {
    PyObject *connection, *number;
};

static inline void forget_number(struct numbered *numbered)
{
    Py_CLEAR(numbered->connection);
    Py_CLEAR(numbered->number);
}

static inline int read_digits(struct text digits, int64_t *value)
{
    if (length_of(digits) < 1 || length_of(digits) > MAX_NUMBER)
        return 0;
    for (*value = 0; digits.at < digits.end; digits.at++) {
        if (*digits.at < '0' || *digits.at > '9')
            return 0;
        *value = *value * 10 + (*digits.at - '0');
    }
    return 1;
}

/* Read a nonce and its time; return 1 if the number is the next one of its connection, 0 if it needs a closer look, -1
   after an error. See next_number() in callers.py. */
static inline int find_number(const struct caller *caller, struct text nonce, struct text signed_at, int64_t now_ms,
                              struct numbered *found)
{
    int64_t signed_ms, number, last;
    const char *point = find(nonce, ".", 1);
    if (point == NULL || point - nonce.at > MAX_CONNECTION || !read_digits(signed_at, &signed_ms) ||
        signed_ms < now_ms - MAX_SKEW_MS || signed_ms > now_ms + MAX_SKEW_MS)
        return 0;
    struct text digits = {point + 1, nonce.end};
    if (!read_digits(digits, &number))
        return 0;
    found->connection = PyUnicode_FromStringAndSize(nonce.at, point - nonce.at);
    if (found->connection == NULL) { /* it is no text: the ordinary path knows */
        PyErr_Clear();
        return 0;
    }
    PyObject *before = PyDict_GetItemWithError(caller->numbers, found->connection);
    if (before == NULL)
        return PyErr_Occurred() ? -1 : 0;
    last = PyLong_AsLongLong(before);
    if (last == -1 && PyErr_Occurred()) { /* a longer one, likewise */
        PyErr_Clear();
        return 0;
    }
    if (number <= last)
        return 0;
    found->number = PyLong_FromLongLong(number);
    return found->number == NULL ? -1 : 1;
}

/* Remember the number of a request: the newest of its connection, which is the one that was heard of last. */
static inline int note_number(const struct caller *caller, const struct numbered *numbered, PyObject *move_to_end)
{
    if (numbered->number == NULL)
        return 0;
    if (PyObject_SetItem(caller->numbers, numbered->connection, numbered->number) < 0)
        return -1;
    PyObject *done = PyObject_CallMethodObjArgs(caller->numbers, move_to_end, numbered->connection, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

#endif
