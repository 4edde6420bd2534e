/* Numbers and tuples that Python owns. */

#ifndef PYROMQ_LANE_OBJECTS_H
#define PYROMQ_LANE_OBJECTS_H

#include "bytes.h"

static int as_number(PyObject *object, int64_t *value) {
    *value = PyLong_AsLongLong(object);
    return *value == -1 && PyErr_Occurred() ? -1 : 0;
}

static int read_field(PyObject *object, PyObject *name, int64_t *value) {
    PyObject *field = PyObject_GetAttr(object, name);
    if (field == NULL) return -1;
    int failed = as_number(field, value);
    Py_DECREF(field);
    return failed;
}

static int is_tuple_of(PyObject *object, Py_ssize_t fields) {
    if (PyTuple_Check(object) && PyTuple_Size(object) == fields) return 1;
    PyErr_SetString(PyExc_TypeError, "not a tuple of as many fields as expected");
    return 0;
}

#endif
