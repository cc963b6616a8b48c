/* See _text.h. */
#include "_text.h"

#include <float.h>
#include <string.h>

/* ---- Cells ---- */

/* What str.strip takes off; letters beyond ASCII are left to Python. */
static int is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
}

/* Read the cell at `at` of a line that ends at `end`. Returns the end of the cell, which is a
 * separator or the end of the line; NULL if it is quoted in an unusual way. */
static const char *read_cell(const char *text, const char *at, const char *end,
                             const ef_signs *signs, ef_cell *cell)
{
    const char *last;
    while (at < end && *at == ' ')
        at++;
    if (signs->quote && at < end && *at == signs->quote) {
        at++;
        last = memchr(at, signs->quote, (size_t)(end - at));
        if (!last || (last + 1 < end && last[1] != signs->separator))
            return NULL;
        end = last + 1;
    } else {
        last = at;
        while (last < end && *last != signs->separator)
            last++;
        end = last;
    }
    while (at < last && is_space(*at))
        at++;
    while (at < last && is_space(last[-1]))
        last--;
    cell->at = (uint32_t)(at - text);
    cell->size = (uint32_t)(last - at);
    return end;
}

int ef_split(const char *text, size_t size, const ef_signs *signs, size_t lines, size_t columns,
             ef_cell *cells)
{
    const char *at = text, *stop = text + size;
    if (size > UINT32_MAX)
        return 0;
    for (size_t i = 0; i < lines; i++) {
        if (!at || at == stop)
            return 0;
        const char *found = memchr(at, '\n', (size_t)(stop - at)), *end = found ? found : stop;
        if (at == end || (size_t)(end - at) > signs->longest || memchr(at, '\r', (size_t)(end - at)))
            return 0;
        for (size_t c = 0; c < columns; c++, cells++) {
            if (c && at++ == end) /* the separator */
                return 0;
            at = read_cell(text, at, end, signs, cells);
            if (!at)
                return 0;
        }
        if (at != end)
            return 0;
        at = found ? found + 1 : NULL;
    }
    return !at; /* the last line has no line end */
}

/* ---- Numbers ---- */

static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                              1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                              1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
enum { TENS = 22, DIGITS = 19 }; /* powers of ten that are exact; digits that fit into 64 bits */

typedef struct {
    uint64_t digits;
    int32_t power; /* of ten */
    int negative, cut; /* cut: there were digits that did not fit */
} Decimal;

/* Read a decimal number; returns 0 if it is not one, or is far too long. */
static int read_decimal(const char *at, size_t size, char comma, Decimal *d)
{
    const char *end = at + size;
    uint64_t digits = 0; /* here and not in *d, which might lie in the text for all the compiler knows */
    int32_t power = 0, point = 0, seen = 0, kept = 0;
    if (size > EF_LONGEST)
        return 0;
    d->cut = 0;
    d->negative = at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+');
    for (; at < end; at++) {
        unsigned digit = (unsigned)(unsigned char)*at - '0';
        if (digit <= 9) {
            seen = 1;
            if (kept < DIGITS) {
                digits = 10 * digits + digit;
                kept += digits != 0;
                power -= point;
            } else {
                d->cut |= digit != 0;
                power += !point;
            }
        } else if (!point && (*at == '.' || (comma && *at == ',')))
            point = 1;
        else
            break;
    }
    if (!seen)
        return 0;
    if (at < end && (*at == 'e' || *at == 'E')) {
        int32_t exponent = 0, minus = 0;
        if (++at < end && (*at == '-' || *at == '+'))
            minus = *at++ == '-';
        if (at == end || end - at > 6)
            return 0;
        for (; at < end && *at >= '0' && *at <= '9'; at++)
            exponent = 10 * exponent + (*at - '0');
        power += minus ? -exponent : exponent;
    }
    d->digits = digits;
    d->power = power;
    return at == end;
}

ef_found ef_number(const char *text, size_t size, char comma, double *number)
{
    Decimal d;
    if (!read_decimal(text, size, comma, &d))
        return EF_NOT_A_NUMBER;
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0 /* operations do not round to double */
    return EF_FAR;
#endif
    if (d.digits == 0)
        d.power = 0;
    if (d.power < -TENS || d.power > TENS)
        return EF_FAR;
    double x = (double)d.digits;
    x = d.power < 0 ? x / tens[-d.power] : x * tens[d.power];
    *number = d.negative ? -x : x;
    /* Both are exact, so the one operation rounds as the number itself is rounded. */
    return d.digits <= (uint64_t)1 << 53 && !d.cut ? EF_NUMBER : EF_NEAR;
}

int ef_float(double near, float *rounded)
{
    if (!(near > -FLT_MAX / 2 && near < FLT_MAX / 2))
        return 0;
    *rounded = (float)near;
    return (float)(near * (1 - 4 * DBL_EPSILON)) == *rounded &&
           (float)(near * (1 + 4 * DBL_EPSILON)) == *rounded;
}

/* ---- Records ---- */

/* Whether a quote opens a text where it stands. */
static int opens_text(const char *text, const char *at, char opens, int spaced)
{
    const char *before = at;
    while (spaced && before > text && before[-1] == ' ')
        before--;
    return before == text || before[-1] == opens || before[-1] == '\n' || before[-1] == '\r';
}

ef_quoting ef_quotes(const char *text, size_t size, char quote, char opens, int spaced)
{
    const char *at = text, *end = text + size;
    while (at < end) {
        if (end - at > 1 && *at == opens && at[1] == quote) /* as in "a","b" */
            at++;
        else if (!(at = memchr(at, quote, (size_t)(end - at))))
            return EF_CLOSED;
        else if (!opens_text(text, at, opens, spaced)) {
            at++;
            continue;
        }
        for (at++;; at++) {
            if (at == end)
                return EF_OPEN;
            if (*at == '\n' || *at == '\r')
                return EF_BROKEN;
            if (*at == quote && (++at == end || *at != quote))
                break;
        }
    }
    return EF_CLOSED;
}

ptrdiff_t ef_marks(const char *text, size_t size, size_t spacing, const char *blank, size_t blanks,
                   uint64_t *pairs, size_t most)
{
    const char *at = text, *end = text + size, *mark = text, *sign = text;
    size_t marks = 0;
    uint64_t lines = 0;
    while ((sign = memchr(sign, '\r', (size_t)(end - sign))))
        if (++sign == end || *sign != '\n')
            return 0;
    while (at < end) {
        if (*at == '\n' || *at == '\r' || (blanks && memchr(blank, *at, blanks)))
            return 0;
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : end;
        lines++;
        if ((size_t)(at - mark) >= spacing || at == end) {
            if (marks == most)
                return -1;
            pairs[2 * marks] = (uint64_t)(at - text);
            pairs[2 * marks + 1] = lines;
            marks++;
            mark = at;
            lines = 0;
        }
    }
    return (ptrdiff_t)marks;
}
