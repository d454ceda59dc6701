/* Add up how well words fit the rows that have them, and take the rows that fit best;
tell the runs of a question's text apart; and round what comes of it.

Rules:
- What `best_rows.py`, `words.py` and `scores.py` return in Python is returned here, to
  the last digit: numbers are added in the same order.
- Sums stand by row; where rows lie too far apart for that there is no answer.
- Python's stable interface and nothing else; what it is handed stays the caller's.
*/
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { MOST_WORDS = 64, MOST_ROWS = 1 << 18, MOST_BEST = 1 << 12, MOST_BYTES = 1 << 24 };

static const double ROUNDING = 1e-9;

typedef struct {
    const char *rows, *fits;
    Py_ssize_t count;
    double share;
} Word;

/* What a row's words fit it together, and which words they are, a bit each. */
typedef struct {
    double fit;
    uint64_t words;
} Sum;

typedef struct {
    Word words[MOST_WORDS];
    Py_ssize_t count, rarer;
    uint32_t last; /* The greatest row. */
} Asked;

static uint32_t row_at(const Word *word, Py_ssize_t i)
{
    uint32_t row;
    memcpy(&row, word->rows + i * (Py_ssize_t)sizeof row, sizeof row);
    return row;
}

static double fit_at(const Word *word, Py_ssize_t i)
{
    double fit;
    memcpy(&fit, word->fits + i * (Py_ssize_t)sizeof fit, sizeof fit);
    return fit;
}

/* Read the rows and the fits of one word; false with an exception set. */
static int read_word(PyObject *posting, PyObject *share, Asked *asked, Word *word)
{
    char *rows, *fits;
    Py_ssize_t rows_size, fits_size;
    PyObject *first = PyTuple_GetItem(posting, 0);
    PyObject *second = first ? PyTuple_GetItem(posting, 1) : NULL;
    if (second == NULL || share == NULL ||
        PyBytes_AsStringAndSize(first, &rows, &rows_size) < 0 ||
        PyBytes_AsStringAndSize(second, &fits, &fits_size) < 0)
        return 0;
    *word = (Word){rows, fits, rows_size / 4, PyFloat_AsDouble(share)};
    if (PyErr_Occurred())
        return 0;
    if (rows_size % 4 || fits_size != word->count * 8) {
        PyErr_SetString(PyExc_ValueError, "best_rows: not as many rows as fits");
        return 0;
    }
    for (Py_ssize_t i = 0; i < word->count; i++)
        if (row_at(word, i) > asked->last)
            asked->last = row_at(word, i);
    return 1;
}

static int read_words(PyObject *postings, PyObject *shares, Asked *asked)
{
    asked->count = PyList_Size(postings);
    if (asked->count < 0 || PyList_Size(shares) != asked->count ||
        asked->count > MOST_WORDS || asked->rarer < 0 || asked->rarer > asked->count) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "best_rows: not a share for each word");
        return 0;
    }
    asked->last = 0;
    for (Py_ssize_t i = 0; i < asked->count; i++)
        if (!read_word(PyList_GetItem(postings, i), PyList_GetItem(shares, i), asked,
                       asked->words + i))
            return 0;
    return 1;
}

/* Words of most rows come first. */
static void add_up(const Asked *asked, Sum *sums)
{
    for (Py_ssize_t i = 0; i < asked->count; i++) {
        Py_ssize_t number = (i + asked->rarer) % asked->count;
        const Word *word = asked->words + number;
        uint64_t bit = (uint64_t)1 << number;
        for (Py_ssize_t at = 0; at < word->count; at++) {
            Sum *sum = sums + row_at(word, at);
            sum->fit += fit_at(word, at);
            sum->words |= bit;
        }
    }
}

/* In the order of the words: so shares are added up in Python. */
static double share_of(const Asked *asked, const Sum *sum)
{
    double share = 0;
    for (Py_ssize_t i = 0; i < asked->count; i++)
        if (sum->words >> i & 1)
            share += asked->words[i].share;
    return share;
}

/* Put a number in the place of the least one of a heap. */
static void sift(double *heap, Py_ssize_t size, double number)
{
    Py_ssize_t at = 0, child;
    while ((child = 2 * at + 1) < size) {
        if (child + 1 < size && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= number)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = number;
}

/* Return what a row must fit to be among the best. */
static double least_of(const Asked *asked, const Sum *sums, double *heap, Py_ssize_t most)
{
    for (Py_ssize_t i = 0; i < most; i++)
        heap[i] = 0;
    for (uint32_t row = 0; row <= asked->last; row++)
        if (sums[row].fit > heap[0])
            sift(heap, most, sums[row].fit);
    return heap[0] - ROUNDING;
}

static PyObject *told(const Asked *asked, const Sum *sums, double least)
{
    PyObject *best = PyList_New(0);
    for (uint32_t row = 0; best != NULL && row <= asked->last; row++) {
        if (sums[row].fit <= 0 || sums[row].fit < least)
            continue;
        PyObject *one = Py_BuildValue("(kdd)", (unsigned long)row, sums[row].fit,
                                      share_of(asked, sums + row));
        if (one == NULL || PyList_Append(best, one) < 0)
            Py_CLEAR(best);
        Py_XDECREF(one);
    }
    return best;
}

static PyObject *best_of(const Asked *asked, Py_ssize_t most)
{
    Sum *sums = PyMem_Calloc((size_t)asked->last + 1, sizeof(Sum));
    double *heap = PyMem_Malloc((size_t)most * sizeof(double));
    PyObject *best = NULL;
    if (sums == NULL || heap == NULL) {
        PyErr_NoMemory();
    } else {
        add_up(asked, sums);
        best = told(asked, sums, least_of(asked, sums, heap, most));
    }
    PyMem_Free(sums);
    PyMem_Free(heap);
    return best;
}

static PyObject *best_rows(PyObject *module, PyObject *const *asked, Py_ssize_t count)
{
    Asked read;
    (void)module;
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "best_rows: postings, shares, rarer, most");
        return NULL;
    }
    read.rarer = PyLong_AsSsize_t(asked[2]);
    Py_ssize_t most = PyLong_AsSsize_t(asked[3]);
    if (PyErr_Occurred() || !read_words(asked[0], asked[1], &read))
        return NULL;
    if (read.last >= MOST_ROWS || most < 1 || most > MOST_BEST)
        Py_RETURN_NONE;
    return best_of(&read, most);
}

/* As `scores.py` has it; what is near a half, or no such number, is left to Python. */
static PyObject *nine_digits(PyObject *module, PyObject *asked)
{
    double number = PyFloat_AsDouble(asked);
    double scaled = number * 1e9;
    (void)module;
    if (number == -1.0 && PyErr_Occurred())
        return NULL;
    if (scaled >= 0 && scaled < 1e13) {
        double whole = (double)(int64_t)(scaled + 0.5);
        if (-0.4995 < scaled - whole && scaled - whole < 0.4995)
            return PyFloat_FromDouble(whole / 1e9);
    }
    return PyObject_CallMethod(asked, "__round__", "i", 9);
}

/* A run that was met: where it begins, and its length; none has 0. */
typedef struct {
    uint32_t start, length;
} Run;

/* As `words.py` has it: letters, digits, `_`, and all that is not ASCII. */
static int is_within(unsigned char byte)
{
    return byte > 127 || byte == '_' || (unsigned)(byte - '0') < 10 ||
           (unsigned)((byte | 32) - 'a') < 26;
}

/* Where the run stands in the table, or is to stand; nowhere after too many steps. */
static Run *slot_of(Run *table, size_t mask, uint32_t hash, const char *text, Run run,
                    size_t *steps)
{
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        Run *held = table + i;
        if ((*steps)-- == 0)
            return NULL;
        if (held->length == 0 ||
            (held->length == run.length &&
             memcmp(text + held->start, text + run.start, run.length) == 0))
            return held;
    }
}

/* False with an exception set, or without: then the table is too crowded. */
static int take_runs(const char *text, size_t size, Run *table, size_t mask, PyObject *runs)
{
    /* Far more than runs take that were not chosen to fall into one place. */
    size_t steps = 2 * size + 2;
    for (size_t at = 0; at < size;) {
        uint32_t hash = 2166136261u;
        size_t start = at;
        while (at < size && is_within((unsigned char)text[at]))
            hash = (hash ^ (unsigned char)text[at++]) * 16777619u;
        Run run = {(uint32_t)start, (uint32_t)(at++ - start)};
        if (run.length == 0)
            continue;
        Run *slot = slot_of(table, mask, hash ^ hash >> 15, text, run, &steps);
        if (slot == NULL)
            return 0;
        if (slot->length > 0)
            continue;
        *slot = run;
        PyObject *bytes = PyBytes_FromStringAndSize(text + start, (Py_ssize_t)run.length);
        int is_kept = bytes != NULL && PyList_Append(runs, bytes) == 0;
        Py_XDECREF(bytes);
        if (!is_kept)
            return 0;
    }
    return 1;
}

/* Do as `take_runs` by a dict: where its runs fall, nobody can foretell. */
static PyObject *runs_by_dict(const char *text, size_t size)
{
    PyObject *met = PyDict_New(), *runs = NULL;
    int is_well = met != NULL;
    for (size_t at = 0; is_well && at < size;) {
        size_t start = at;
        while (at < size && is_within((unsigned char)text[at]))
            at++;
        if (at++ == start)
            continue;
        PyObject *run = PyBytes_FromStringAndSize(text + start,
                                                  (Py_ssize_t)(at - 1 - start));
        is_well = run != NULL && PyDict_SetItem(met, run, Py_None) == 0;
        Py_XDECREF(run);
    }
    if (is_well)
        runs = PyDict_Keys(met);
    Py_XDECREF(met);
    return runs;
}

static PyObject *distinct_runs(PyObject *module, PyObject *asked)
{
    char *text;
    Py_ssize_t size;
    (void)module;
    if (PyBytes_AsStringAndSize(asked, &text, &size) < 0)
        return NULL;
    if (size > MOST_BYTES) {
        PyErr_SetString(PyExc_ValueError, "distinct_runs: too long");
        return NULL;
    }
    /* At most half of the table is taken: between two runs there is a byte. */
    size_t slots = 4;
    while (slots <= (size_t)size)
        slots *= 2;
    Run *table = PyMem_Calloc(slots, sizeof(Run));
    PyObject *runs = table ? PyList_New(0) : PyErr_NoMemory();
    if (runs != NULL && !take_runs(text, (size_t)size, table, slots - 1, runs)) {
        Py_CLEAR(runs);
        if (!PyErr_Occurred())
            runs = runs_by_dict(text, (size_t)size);
    }
    PyMem_Free(table);
    return runs;
}

static PyMethodDef methods[] = {
    {"best_rows", (PyCFunction)(void (*)(void))best_rows, METH_FASTCALL, "The best."},
    {"distinct_runs", distinct_runs, METH_O, "Each run once, in order."},
    {"nine_digits", nine_digits, METH_O, "A number rounded."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_best_rows", "", 0, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__best_rows(void)
{
    return PyModule_Create(&definition);
}
