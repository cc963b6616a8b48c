/* What a native module brings along: functions of C's library that compilers call by themselves, and
 * arithmetic that some processors lack. A firmware has all of them. */
#include "binding.h"

void *memcpy(void *to, const void *from, size_t n) { return mp_fun_table.memmove_(to, from, n); }

void *memset(void *to, int byte, size_t n) { return mp_fun_table.memset_(to, byte, n); }

void *memchr(const void *from, int byte, size_t n)
{
    const unsigned char *p = from;
    for (; n; n--, p++)
        if (*p == (unsigned char)byte)
            return (void *)p;
    return NULL;
}

/* The square root, rounded to the nearest as IEEE 754 wants it, so that every board has the same: two
 * bits of the number give one of the root. Processors that can do it themselves never call this. */
float sqrtf(float x)
{
    union { float f; uint32_t u; } v = {x};
    int32_t exponent = (int32_t)(v.u >> 23);
    if (!(x > 0.0f) || exponent == 255)
        return x; /* variances are never negative */
    uint32_t mantissa = v.u & 0x7FFFFF, root = 0, rest = 0;
    if (exponent == 0) { /* below the smallest normal number */
        for (exponent = 1; !(mantissa & 0x800000); exponent--)
            mantissa <<= 1;
    }
    mantissa |= 0x800000;
    exponent -= 127;
    if (exponent & 1)
        mantissa <<= 1;
    mantissa <<= 7; /* 24 or 25 bits become 31 or 32 */
    for (int i = 0; i < 25; i++) {
        rest = rest << 2 | mantissa >> 30;
        mantissa <<= 2;
        uint32_t next = root << 2 | 1;
        root <<= 1;
        if (rest >= next) {
            rest -= next;
            root |= 1;
        }
    }
    root += root & 1; /* a root is never midway between two floats */
    v.u = ((uint32_t)((exponent >> 1) + 126) << 23) + (root >> 1);
    return v.f;
}

#ifdef __ARM_ARCH_6M__
/* Division, rounded to the nearest: the one of the compiler's library cannot be linked here, because
 * it has a table of absolute addresses. */
float __aeabi_fdiv(float a, float b)
{
    union { float f; uint32_t u; } x = {a}, y = {b}, z;
    uint32_t sign = (x.u ^ y.u) & 0x80000000u, quotient = 0;
    int32_t exponent = 0;
    x.u &= 0x7FFFFFFF;
    y.u &= 0x7FFFFFFF;
    if (x.u > 0x7F800000 || y.u > 0x7F800000 || (x.u == y.u && (!x.u || x.u == 0x7F800000))) {
        z.u = 0x7FC00000; /* not a number */
        return z.f;
    }
    if (!x.u || y.u == 0x7F800000 || !y.u || x.u == 0x7F800000) {
        z.u = sign | (!x.u || y.u == 0x7F800000 ? 0 : 0x7F800000);
        return z.f;
    }
    for (; x.u < 0x800000; exponent--) /* numbers below the smallest normal one */
        x.u <<= 1;
    for (; y.u < 0x800000; exponent++)
        y.u <<= 1;
    exponent += (int32_t)(x.u >> 23) - (int32_t)(y.u >> 23) + 127;
    uint32_t rest = (x.u & 0x7FFFFF) | 0x800000, by = (y.u & 0x7FFFFF) | 0x800000;
    if (rest < by) {
        rest <<= 1;
        exponent--;
    }
    for (int i = 0; i < 25; i++) { /* 24 bits, and one to round by */
        quotient <<= 1;
        if (rest >= by) {
            rest -= by;
            quotient |= 1;
        }
        rest <<= 1;
    }
    quotient = quotient << 1 | (rest != 0);
    if (exponent >= 255) {
        z.u = sign | 0x7F800000;
        return z.f;
    }
    for (; exponent <= 0; exponent++) /* below the smallest normal one: fewer bits, none if zero */
        quotient = quotient >> 1 | (quotient & 1);
    uint32_t low = quotient & 3, whole = quotient >> 2;
    whole += low == 3 || (low == 2 && whole & 1);
    /* A carry goes on into the exponent. Of a normal number the highest bit adds one to it. */
    z.u = sign | (((uint32_t)(exponent - 1) << 23) + whole);
    return z.f;
}
#endif

#ifdef __i386__
/* Division of 64-bit numbers: a compiler for 64 bits has no library for 32. */
uint64_t __udivdi3(uint64_t a, uint64_t b)
{
    uint64_t quotient = 0, rest = 0;
    for (int i = 63; i >= 0; i--) {
        rest = rest << 1 | (a >> i & 1);
        quotient <<= 1;
        if (rest >= b) {
            rest -= b;
            quotient |= 1;
        }
    }
    return quotient;
}

int64_t __divdi3(int64_t a, int64_t b)
{
    uint64_t quotient = __udivdi3(a < 0 ? -(uint64_t)a : (uint64_t)a, b < 0 ? -(uint64_t)b : (uint64_t)b);
    return (a < 0) == (b < 0) ? (int64_t)quotient : -(int64_t)quotient;
}
#endif
