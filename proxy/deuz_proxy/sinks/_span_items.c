/* Write one span as a member of an OTLP envelope: its ids and times, what many spans say
   alike, attributes that this one alone has, and its events.

Rules:
- What `span_items.py` writes in Python is written here byte for byte.
- Sizes are summed up first: the bytes are written once, into memory of their size.
- Python's stable interface and nothing else; what it is handed stays the caller's.

Source: the wire format of Protocol Buffers; common.proto, trace.proto of OTLP 1.x.
*/
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { MOST_ATTRIBUTES = 32, MOST_PIECES = 128, TRACE_BYTES = 16, ID_BYTES = 8 };

/* Heads of members: of an envelope, a span, an event in it, an attribute. */
enum { ITEM = 0x12, EVENT_AT = 0x09, VALUE = 0x12 };
enum { TRACE_ID = 0x0a, SPAN_ID = 0x12, PARENT_ID = 0x22 };
enum { STARTED = 0x39, ENDED = 0x41, ATTRIBUTE = 0x4a };
/* Kinds of values, each with how its bytes are to be read. */
enum { TEXT = 0x0a, BOOL = 0x10, INT = 0x18, DOUBLE = 0x21 };

typedef struct {
    const char *bytes;
    Py_ssize_t size;
} Piece;

typedef struct {
    Piece key, text;
    uint64_t number; /* Of a double, its bits. */
    int kind;
} Attribute;

static Py_ssize_t varint_size(uint64_t number)
{
    Py_ssize_t size = 1;
    while (number >>= 7)
        size++;
    return size;
}

static Py_ssize_t value_size(const Attribute *said)
{
    if (said->kind == TEXT)
        return 1 + varint_size((uint64_t)said->text.size) + said->text.size;
    return 1 + (said->kind == DOUBLE ? 8 : varint_size(said->number));
}

static Py_ssize_t pair_size(const Attribute *said)
{
    Py_ssize_t size = value_size(said);
    return said->key.size + 1 + varint_size((uint64_t)size) + size;
}

static char *put_varint(char *at, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        *at++ = (char)(number | 0x80);
    *at++ = (char)number;
    return at;
}

static char *put_piece(char *at, const Piece *piece)
{
    memcpy(at, piece->bytes, (size_t)piece->size);
    return at + piece->size;
}

/* A number of eight bytes behind its head, the lowest first. */
static char *put_fixed(char *at, int head, uint64_t number)
{
    *at++ = (char)head;
    for (int shift = 0; shift < 64; shift += 8)
        *at++ = (char)(number >> shift);
    return at;
}

/* An id is text of eight bytes, the highest first. */
static char *put_id(char *at, int head, uint64_t id)
{
    *at++ = (char)head;
    *at++ = ID_BYTES;
    for (int shift = 56; shift >= 0; shift -= 8)
        *at++ = (char)(id >> shift);
    return at;
}

static char *put_attribute(char *at, const Attribute *said)
{
    *at++ = ATTRIBUTE;
    at = put_varint(at, (uint64_t)pair_size(said));
    at = put_piece(at, &said->key);
    *at++ = VALUE;
    at = put_varint(at, (uint64_t)value_size(said));
    if (said->kind == DOUBLE)
        return put_fixed(at, DOUBLE, said->number);
    *at++ = (char)said->kind;
    if (said->kind != TEXT)
        return put_varint(at, said->number);
    at = put_varint(at, (uint64_t)said->text.size);
    return put_piece(at, &said->text);
}

static int read_bytes(PyObject *value, Piece *piece)
{
    char *bytes;
    if (value == NULL || PyBytes_AsStringAndSize(value, &bytes, &piece->size) < 0)
        return 0;
    piece->bytes = bytes;
    return 1;
}

/* Read a value that is not None; false with an exception set. */
static int read_value(PyObject *value, Attribute *said)
{
    if (PyUnicode_Check(value)) {
        said->kind = TEXT;
        said->text.bytes = PyUnicode_AsUTF8AndSize(value, &said->text.size);
        return said->text.bytes != NULL;
    }
    if (PyFloat_Check(value)) {
        double seconds = PyFloat_AsDouble(value);
        said->kind = DOUBLE;
        memcpy(&said->number, &seconds, sizeof seconds);
        return 1;
    }
    if (!PyLong_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "write_item: a value of no known kind");
        return 0;
    }
    said->kind = PyBool_Check(value) ? BOOL : INT;
    said->number = PyLong_AsUnsignedLongLongMask(value);
    return 1;
}

/* Read what is known of these attributes; -1 with an exception set. */
static int read_attributes(PyObject *keys, PyObject *values, Attribute *said)
{
    Py_ssize_t count = PyTuple_Size(keys);
    int known = 0;
    if (count < 0 || PyTuple_Size(values) != count || count > MOST_ATTRIBUTES) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "write_item: not a value for each key");
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *value = PyTuple_GetItem(values, i);
        if (value == Py_None)
            continue;
        if (!read_bytes(PyTuple_GetItem(keys, i), &said[known].key) ||
            !read_value(value, said + known))
            return -1;
        known++;
    }
    return known;
}

/* Nanoseconds of Unix time; false with an exception set. */
static int read_time(double seconds, uint64_t *time)
{
    seconds *= 1e9;
    if (seconds >= 0 && seconds < 18446744073709551616.0) {
        *time = (uint64_t)seconds;
        return 1;
    }
    PyErr_SetString(PyExc_ValueError, "write_item: no time");
    return 0;
}

typedef struct {
    Piece trace, flags, alike;
    uint64_t span, parent, started, ended;
    Attribute said[MOST_ATTRIBUTES];
    Piece events[MOST_PIECES]; /* What stands ahead of each one's time, and behind. */
    int known, pieces;
} Span;

static int read_ids(PyObject *ids, Span *span)
{
    PyObject *own = PyTuple_GetItem(ids, 1);
    PyObject *above = own ? PyTuple_GetItem(ids, 2) : NULL;
    if (above == NULL || !read_bytes(PyTuple_GetItem(ids, 0), &span->trace))
        return 0;
    if (span->trace.size != TRACE_BYTES || !PyLong_Check(own) || !PyLong_Check(above)) {
        PyErr_SetString(PyExc_ValueError, "write_item: no ids");
        return 0;
    }
    span->span = PyLong_AsUnsignedLongLongMask(own);
    span->parent = PyLong_AsUnsignedLongLongMask(above);
    return read_bytes(PyTuple_GetItem(ids, 3), &span->flags);
}

static int read_times(PyObject *times, Span *span)
{
    PyObject *first = PyTuple_GetItem(times, 0);
    PyObject *more = first ? PyTuple_GetItem(times, 1) : NULL;
    double at = more ? PyFloat_AsDouble(first) : 0;
    double seconds = more ? PyFloat_AsDouble(more) : 0;
    return !PyErr_Occurred() && read_time(at, &span->started) &&
           read_time(at + seconds, &span->ended);
}

static int read_events(PyObject *events, Span *span)
{
    Py_ssize_t count = PyTuple_Size(events);
    if (count < 0 || count % 2 || count > MOST_PIECES) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "write_item: not two pieces for each event");
        return 0;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (!read_bytes(PyTuple_GetItem(events, i), span->events + i))
            return 0;
    span->pieces = (int)count;
    return 1;
}

static int read_span(PyObject *const *asked, Span *span)
{
    PyObject *keys = PyTuple_GetItem(asked[3], 0);
    PyObject *values = keys ? PyTuple_GetItem(asked[3], 1) : NULL;
    if (values == NULL || !read_ids(asked[0], span) || !read_times(asked[1], span) ||
        !read_bytes(asked[2], &span->alike))
        return 0;
    span->known = read_attributes(keys, values, span->said);
    return span->known >= 0 && read_events(asked[4], span);
}

static Py_ssize_t span_size(const Span *span)
{
    Py_ssize_t size = 2 + TRACE_BYTES + (2 + ID_BYTES) * (span->parent ? 2 : 1);
    size += span->flags.size + 2 * (1 + 8) + span->alike.size;
    for (int i = 0; i < span->known; i++) {
        Py_ssize_t pair = pair_size(span->said + i);
        size += 1 + varint_size((uint64_t)pair) + pair;
    }
    for (int i = 0; i < span->pieces; i++)
        size += span->events[i].size;
    return size + span->pieces / 2 * (1 + 8);
}

static char *put_span(char *at, const Span *span)
{
    *at++ = TRACE_ID;
    *at++ = TRACE_BYTES;
    at = put_piece(at, &span->trace);
    at = put_id(at, SPAN_ID, span->span);
    if (span->parent)
        at = put_id(at, PARENT_ID, span->parent);
    at = put_piece(at, &span->flags);
    at = put_fixed(at, STARTED, span->started);
    at = put_fixed(at, ENDED, span->ended);
    at = put_piece(at, &span->alike);
    for (int i = 0; i < span->known; i++)
        at = put_attribute(at, span->said + i);
    for (int i = 0; i < span->pieces; i += 2) {
        at = put_piece(at, span->events + i);
        at = put_fixed(at, EVENT_AT, span->ended);
        at = put_piece(at, span->events + i + 1);
    }
    return at;
}

static PyObject *write_item(PyObject *module, PyObject *const *asked, Py_ssize_t count)
{
    Span span;
    (void)module;
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "write_item: ids, times, alike, own, events");
        return NULL;
    }
    if (!read_span(asked, &span))
        return NULL;
    Py_ssize_t size = span_size(&span), whole = 1 + varint_size((uint64_t)size) + size;
    PyObject *item = PyBytes_FromStringAndSize(NULL, whole);
    if (item != NULL) {
        char *at = PyBytes_AsString(item);
        *at++ = ITEM;
        put_span(put_varint(at, (uint64_t)size), &span);
    }
    return item;
}

static PyMethodDef methods[] = {
    {"write_item", (PyCFunction)(void (*)(void))write_item, METH_FASTCALL, "A span."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_span_items", "", 0, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__span_items(void)
{
    return PyModule_Create(&definition);
}
