/* What is noted of a pull before it is answered: how far its group has come, and what it gets.

   quick_note() does what PullNotes.note() in broker/pulls/plain_pulls.py does, where the commit is a mere step forward
   or none: nothing is logged then, and nobody has to be told. In all other cases it changes nothing and says so. The
   table of offsets, its changes since the last save, and the counts belong to the broker. They are read and written
   where they are, for each pull. */

#ifndef PYROMQ_PULL_NOTE_H
#define PYROMQ_PULL_NOTE_H

#include <time.h>

#include "objects.h"

/* QuickNote in lane/pull_passes.py. */
enum {
    NOTE_OFFSETS, NOTE_SAVER, NOTE_CHANGED, NOTE_FRESH, NOTE_KEY, NOTE_QUEUE_ID, NOTE_COMMITS, NOTE_IS_FORWARD,
    NOTE_STATS, NOTE_GETS, NOTE_FIELDS
};

static struct {
    PyObject *table, *changes, *rows, *note, *messages, *bytes, *calls, *read_ms, *longest_get_ms;
} note_names;

static int name_note_fields(void) {
    note_names.table = PyUnicode_InternFromString("table");
    note_names.changes = PyUnicode_InternFromString("changes");
    note_names.rows = PyUnicode_InternFromString("rows");
    note_names.note = PyUnicode_InternFromString("note");
    note_names.messages = PyUnicode_InternFromString("messages");
    note_names.bytes = PyUnicode_InternFromString("bytes");
    note_names.calls = PyUnicode_InternFromString("calls");
    note_names.read_ms = PyUnicode_InternFromString("read_ms");
    note_names.longest_get_ms = PyUnicode_InternFromString("longest_get_ms");
    return PyErr_Occurred() ? -1 : 0;
}

/* Milliseconds, of a clock that never goes back. */
static double clock_ms(void) {
    struct timespec now;
#ifdef CLOCK_MONOTONIC
    clock_gettime(CLOCK_MONOTONIC, &now);
#else
    timespec_get(&now, TIME_UTC);
#endif
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Adds what changed to the changes of a row since the last save. */
static int note_change(PyObject *note, PyObject *key, PyObject *queue_id, PyObject *offset) {
    PyObject *changes = PyObject_GetAttr(PyTuple_GetItem(note, NOTE_SAVER), note_names.changes);
    PyObject *rows = changes == NULL ? NULL : PyObject_GetAttr(changes, note_names.rows);
    PyObject *row = NULL;
    int failed = -1;
    if (rows != NULL && PyDict_Check(rows)) {
        row = Py_XNewRef(PyDict_GetItemWithError(rows, key));
        if (row == NULL && !PyErr_Occurred()) {
            row = PyDict_New();
            if (row != NULL && PyDict_SetItem(rows, key, row)) Py_CLEAR(row);
        }
        failed = row == NULL ? -1 : PyDict_SetItem(row, queue_id, offset);
    } else if (rows != NULL)
        PyErr_SetString(PyExc_TypeError, "the changed rows are not a dict");
    Py_XDECREF(row);
    Py_XDECREF(rows);
    Py_XDECREF(changes);
    return failed;
}

/* Tells slaves that a row has changed, unless they have not looked since they were told last. */
static int tell_of_change(PyObject *note, PyObject *key) {
    int is_fresh = PySet_Contains(PyTuple_GetItem(note, NOTE_FRESH), key);
    if (is_fresh) return is_fresh < 0 ? -1 : 0;
    PyObject *done = PyObject_CallMethodObjArgs(PyTuple_GetItem(note, NOTE_CHANGED), note_names.note, key, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int commit_step(PyObject *note, PyObject *row, int64_t commit_offset) {
    PyObject *key = PyTuple_GetItem(note, NOTE_KEY), *queue_id = PyTuple_GetItem(note, NOTE_QUEUE_ID);
    PyObject *known = PyDict_GetItemWithError(row, queue_id);
    int64_t before;
    if (known == NULL) return PyErr_Occurred() ? -1 : 0;
    if (as_number(known, &before)) return -1;
    if (commit_offset <= before) return commit_offset == before;
    PyObject *offset = PyLong_FromLongLong(commit_offset);
    int failed = offset == NULL || PyDict_SetItem(row, queue_id, offset) ||
                 note_change(note, key, queue_id, offset) || tell_of_change(note, key);
    Py_XDECREF(offset);
    return failed ? -1 : 1;
}

/* Commits an offset; returns 0, with nothing done, unless that is a mere step forward; -1 after an error. */
static int advance(PyObject *note, int64_t commit_offset, int64_t end) {
    int commits = PyTuple_GetItem(note, NOTE_COMMITS) == Py_True;
    int is_forward = PyTuple_GetItem(note, NOTE_IS_FORWARD) == Py_True;
    if (!commits || (is_forward && commit_offset > end)) return 1;
    PyObject *table = PyObject_GetAttr(PyTuple_GetItem(note, NOTE_OFFSETS), note_names.table);
    if (table == NULL) return -1;
    int status = -1;
    PyObject *row = PyDict_Check(table) ? PyDict_GetItemWithError(table, PyTuple_GetItem(note, NOTE_KEY)) : NULL;
    if (row != NULL && PyDict_Check(row))
        status = commit_step(note, row, commit_offset);
    else if (row != NULL || !PyDict_Check(table))
        PyErr_SetString(PyExc_TypeError, "offsets are not kept in dicts");
    else if (!PyErr_Occurred())
        status = 0;
    Py_DECREF(table);
    return status;
}

static int add_number(PyObject *count, PyObject *name, int64_t number) {
    int64_t before;
    if (read_field(count, name, &before)) return -1;
    PyObject *sum = PyLong_FromLongLong(before + number);
    int failed = sum == NULL ? -1 : PyObject_SetAttr(count, name, sum);
    Py_XDECREF(sum);
    return failed;
}

static int read_float(PyObject *object, PyObject *name, double *value) {
    PyObject *field = PyObject_GetAttr(object, name);
    *value = field == NULL ? -1.0 : PyFloat_AsDouble(field);
    Py_XDECREF(field);
    return *value == -1.0 && PyErr_Occurred() ? -1 : 0;
}

static int write_float(PyObject *object, PyObject *name, double value) {
    PyObject *field = PyFloat_FromDouble(value);
    int failed = field == NULL ? -1 : PyObject_SetAttr(object, name, field);
    Py_XDECREF(field);
    return failed;
}

static int count_get(PyObject *note, int64_t messages, int64_t size, double took_ms) {
    PyObject *count = PyTuple_GetItem(note, NOTE_GETS), *stats = PyTuple_GetItem(note, NOTE_STATS);
    double before, longest;
    if (add_number(count, note_names.messages, messages) || add_number(count, note_names.bytes, size) ||
        add_number(count, note_names.calls, 1) || read_float(count, note_names.read_ms, &before) ||
        write_float(count, note_names.read_ms, before + took_ms) ||
        read_float(stats, note_names.longest_get_ms, &longest))
        return -1;
    return took_ms > longest ? write_float(stats, note_names.longest_get_ms, took_ms) : 0;
}

/* Notes a pull that began to be read at `since`, by clock_ms(), which is set to now. Returns 1 if it may be answered,
   0, with nothing noted, if it must be served as usual, and -1 after an error. */
static int quick_note(PyObject *note, int64_t commit_offset, int64_t end, int64_t messages, int64_t size,
                      double *since) {
    if (note == Py_None) return 0;
    if (!is_tuple_of(note, NOTE_FIELDS)) return -1;
    int status = advance(note, commit_offset, end);
    if (status < 1) return status;
    double now = clock_ms(), took_ms = now - *since;
    *since = now;
    return count_get(note, messages, size, took_ms) ? -1 : 1;
}

#endif
