/* The Python binding of firmware/kernel and of _text.c: buffers in, arrays out. Used by native*.py
 * alone.
 *
 * The module's table of functions; they are in _kernel_columns.c, _kernel_train.c, _kernel_predict.c,
 * _kernel_online.c and _kernel_text.c, and check what they are given by _kernel_check.c. Stable ABI
 * of Python 3.11.
 */
#include "_kernel.h"

enum { KERNEL = 6 }; /* native_reader.py compares it: change it when the two no longer fit */

/* fill(z, w, n, out): Rng.fill; returns the generator's new state. */
static PyObject *kernel_fill(PyObject *self, PyObject *args)
{
    ef_rng rng;
    long long z, w, n;
    Py_buffer out;
    PyObject *result = NULL;
    (void)self;
    if (!py_parse(args, "LLLw*", &z, &w, &n, &out))
        return NULL;
    /* States beyond these repeat themselves for ever, and no number may be low enough. */
    if (py_in_range("z", z, 1, 830275582) && py_in_range("w", w, 1, 855244798) &&
        py_in_range("n", n, 1, EF_MASK) && py_holds(&out, "out", 0, sizeof(uint32_t))) {
        rng.z = (uint32_t)z;
        rng.w = (uint32_t)w;
        ef_rng_fill(&rng, out.buf, (size_t)out.len / sizeof(uint32_t), (uint32_t)n);
        result = Py_BuildValue("II", (unsigned)rng.z, (unsigned)rng.w);
    }
    PyBuffer_Release(&out);
    return result;
}

/* constants() -> the constants that the pure engine has too, by name. */
static PyObject *kernel_constants(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return Py_BuildValue("{sisisisisisisisisisisisisisdsisisisisi}", "KERNEL", KERNEL, "EXACT_BELOW",
                         EF_EXACT_BELOW, "LARGE", EF_LARGE, "GROUP_ROWS", EF_GROUP_ROWS, "LOOK_ROWS", EF_LOOK_ROWS,
                         "ROWS_PER_BIN", EF_ROWS_PER_BIN, "MORE_BINS", EF_MORE_BINS, "REACH",
                         EF_REACH, "LOOK_CODES", EF_LOOK_CODES,
                         "PAPER_BATCH", EF_PAPER_BATCH, "RACE_ROWS", EF_RACE_ROWS, "LEAST_ROWS",
                         EF_LEAST_ROWS, "LEAST_OTHERS", EF_LEAST_OTHERS, "TOLERANCE_IMPURITY", EF_TOLERANCE_IMPURITY, "WEAK",
                         EF_WEAK, "LEAF", EF_LEAF, "MISSING_LEFT", EF_MISSING_LEFT, "EQUAL",
                         EF_EQUAL, "LEVELS", EF_LEVELS);
}

static PyMethodDef methods[] = {
    {"bounds", kernel_bounds, METH_VARARGS, "The bounds of columns of numbers."},
    {"encode", kernel_encode, METH_VARARGS, "The codes of columns of numbers."},
    {"classes", kernel_classes, METH_VARARGS, "Labels that are whole numbers."},
    {"targets", kernel_targets, METH_VARARGS, "Levels of a regression's targets."},
    {"fill", kernel_fill, METH_VARARGS, "Random integers, as Rng.fill gives them."},
    {"task", kernel_task, METH_VARARGS, "What is the same for every tree of a forest."},
    {"tree", kernel_tree, METH_O, "Memory to grow trees in."},
    {"begin", kernel_begin, METH_VARARGS, "Begin a tree."},
    {"grow", kernel_grow, METH_VARARGS, "Go on growing a tree."},
    {"spent", kernel_spent, METH_O, "What a tree has cost."},
    {"close", kernel_close, METH_VARARGS, "Finish a tree and give its arrays."},
    {"pack", kernel_pack, METH_VARARGS, "A forest in the form that prediction uses."},
    {"predict", kernel_predict, METH_VARARGS, "The summed votes of rows."},
    {"apply", kernel_apply, METH_VARARGS, "The leaves that rows reach."},
    {"values", kernel_values, METH_VARARGS, "The predictions of a regression."},
    {"grove", kernel_grove, METH_VARARGS, "Trees that learn row by row."},
    {"listed", kernel_listed, METH_VARARGS, "The numbers of rows in lists."},
    {"places", kernel_places, METH_VARARGS, "The places of labels in a list."},
    {"named", kernel_named, METH_VARARGS, "The classes of guesses, and which are wrong."},
    {"levels", kernel_levels, METH_VARARGS, "The levels of targets in a list."},
    {"valued", kernel_valued, METH_VARARGS, "The numbers of guesses, and how far they are off."},
    {"learn", kernel_learn, METH_VARARGS, "Predict and learn rows."},
    {"vote", kernel_vote, METH_VARARGS, "The summed votes for a row of trees that learn."},
    {"sapling", kernel_sapling, METH_VARARGS, "The nodes of a tree that learns."},
    {"plant", kernel_plant, METH_VARARGS, "Take over a tree."},
    {"renew", kernel_renew, METH_VARARGS, "Grow a tree anew."},
    {"choice", kernel_choice, METH_O, "Who answers: the trees, the linear model or both."},
    {"latest", kernel_latest, METH_O, "The latest rows."},
    {"cells", kernel_cells, METH_VARARGS, "The columns of a text."},
    {"quotes", kernel_quotes, METH_VARARGS, "Whether quotes of a text are closed."},
    {"marks", kernel_marks, METH_VARARGS, "Marks of an index of lines."},
    {"constants", kernel_constants, METH_NOARGS, "The kernel's constants."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "edgeforest._kernel", "The C kernel.", -1, methods, NULL, NULL, NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModule_Create(&module); }
