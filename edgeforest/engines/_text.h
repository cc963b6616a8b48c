/* Text of tables: where its lines, its cells and its quotes are, and numbers.
 *
 * For computers alone; no Python.h, no memory of its own. What is not plain is left to Python: each
 * function says so, and Python's own way gives the result. So all of this may be left out.
 */
#ifndef EDGEFOREST_TEXT_H
#define EDGEFOREST_TEXT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden)
#endif

typedef struct {
    uint32_t at, size; /* in bytes of the text */
} ef_cell;

typedef struct {
    char separator; /* not a space, a quote or a line end */
    char quote;     /* 0 if there are no quotes */
    char comma;     /* whether 1,5 is a number */
    size_t longest; /* bytes of a line at most */
} ef_signs;

/* Split `lines` lines into `columns` cells each, without the space and the quotes around them.
 * Returns 0 if the text is not exactly that, a line is empty, or a quote is used in an unusual
 * way. */
int ef_split(const char *text, size_t size, const ef_signs *signs, size_t lines, size_t columns,
             ef_cell *cells);

/* The number that a cell holds, exactly as Python's float gives it. */
typedef enum {
    EF_NOT_A_NUMBER, /* or one that is written in an unusual way */
    EF_NUMBER,
    EF_NEAR, /* it is within two units in the last place of what was found: see ef_float */
    EF_FAR   /* it has a large exponent; nothing was found */
} ef_found;
enum { EF_LONGEST = 400 }; /* characters of a number; more are unusual */
ef_found ef_number(const char *text, size_t size, char comma, double *number);

/* Whether all numbers near this one become the same float32; *rounded gets it. */
int ef_float(double near, float *rounded);

/* Where quotes are at the end of a text that begins with a record. A quote opens a cell at the start
 * of a line or after `opens`, with `spaced` also after spaces; it is doubled within. */
typedef enum { EF_CLOSED, EF_OPEN, EF_BROKEN } ef_quoting; /* broken: a line ends within quotes */
ef_quoting ef_quotes(const char *text, size_t size, char quote, char opens, int spaced);

/* Set marks in a text that begins with a line: one every `spacing` bytes or at the next line. The
 * pairs say where the part after a mark ends, and how many lines it has. Returns how many marks
 * there are; 0 if a line is blank, begins with one of the `blank` bytes, or ends by \r alone; -1 if
 * there are more than `most`. */
ptrdiff_t ef_marks(const char *text, size_t size, size_t spacing, const char *blank, size_t blanks,
                   uint64_t *pairs, size_t most);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif
#endif
