"""The windows of a model in C99: samples become rows, as `edgeforest/windows.py` does it.

`to_c` adds this to the header of a forest whose features are those of windows. The steps are
the same, and so is the reason why nothing overflows 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgeforest.windows import FEATURES, SIGNED, Windows

Array = Callable[[str, Sequence[float], str], str]

SPARE = """\
/* How many samples @_add may take before @_compute is done with a window; define it before. */
#ifndef @@_SPARE
#define @@_SPARE 0
#endif
#if @@_SPARE > 254
#error "@@_SPARE must be from 0 to 254"
#endif
#define @@_ROOM (@@_SIZE + @@_SPARE)"""

STATE = """\
#if (-1 >> 1) != -1
#error "negative numbers must keep their sign when they are shifted right"
#endif

/* The last samples of a sensor. All zeros is a valid start: static @_windows windows; */
typedef struct {
    $TYPE row[@@_FEATURES]; /* the features of the last full window */
    volatile int16_t ring[$SIGNALS * @@_ROOM]; /* what an interrupt may write is volatile */
$SPECTRUM$ALL\
    uint16_t next, wait;
    volatile uint16_t first;     /* where the last full window begins */
    volatile uint8_t full, late; /* whether it is to be computed; samples since */
    uint8_t begun;
} @_windows;"""

ROOT = """\
/* The square root of a number below 2^30, rounded down. */
static inline int32_t @_root(uint32_t v)
{
    uint32_t r = 0, bit = (uint32_t)1 << 28;
    while (bit) {
        if (v >= r + bit) {
            v -= r + bit;
            r = (r >> 1) + bit;
        } else {
            r >>= 1;
        }
        bit >>= 2;
    }
    return (int32_t)r;
}

/* The root of a mean square, in the units of the samples. */
static inline int16_t @_rescaled(int32_t square, int32_t up, int down)
{
    int32_t v = (@_root((uint32_t)square) + (up >> 1)) / up * ((int32_t)1 << down);
    return (int16_t)(v < 32767 ? v : 32767);
}"""

SPECTRUM = """\
/* A fast Fourier transform of the last samples, halved in each of its stages; two samples in a row
 * are one complex number. */
static inline void @_transform(@_windows *w, const volatile int16_t *ring, uint_fast16_t first,
                              int32_t mean, int32_t up, int down)
{
    uint_fast16_t at = (first + @@_SIZE - 2 * $N) % @@_ROOM, i, j = 0, half, turn = $N, bit;
    for (i = 0; i < $N; i++) {
        w->real[j] = (int16_t)((ring[at] - mean) * up >> down);
        at = at + 1 < @@_ROOM ? at + 1 : 0;
        w->imaginary[j] = (int16_t)((ring[at] - mean) * up >> down);
        at = at + 1 < @@_ROOM ? at + 1 : 0;
        for (bit = $N / 2; j & bit; bit >>= 1) j ^= bit;
        j |= bit;
    }
    for (half = 1; half < $N; half += half) {
        for (i = 0; i < half; i++) {
            int32_t c, s, x, y, re, im;
            c = $COSINE(i * turn);
            s = $SINE(i * turn);
            for (j = i; j < $N; j = at + half) {
                at = j + half;
                x = w->real[at];
                y = w->imaginary[at];
                re = (c * x + s * y) >> 14;
                im = (c * y - s * x) >> 14;
                x = w->real[j];
                y = w->imaginary[j];
                w->real[j] = (int16_t)((x + re) >> 1);
                w->imaginary[j] = (int16_t)((y + im) >> 1);
                w->real[at] = (int16_t)((x - re) >> 1);
                w->imaginary[at] = (int16_t)((y - im) >> 1);
            }
        }
        turn >>= 1;
    }
    w->real[0] = (int16_t)(((int32_t)w->real[0] - w->imaginary[0]) >> 1); /* the highest frequency */
    w->imaginary[0] = 0;
    for (i = 1; i <= $N / 2; i++) { /* what even and odd samples are together */
        int32_t c, s, x, y, re, im, r;
        j = $N - i;
        c = $COSINE(i);
        s = $SINE(i);
        x = (int32_t)w->real[i] + w->real[j];
        y = (int32_t)w->imaginary[i] - w->imaginary[j];
        re = (int32_t)w->imaginary[i] + w->imaginary[j];
        im = (int32_t)w->real[j] - w->real[i];
        r = (c * re + s * im) >> 14;
        im = (c * im - s * re) >> 14;
        w->real[i] = (int16_t)((x + r) >> 2);
        w->imaginary[i] = (int16_t)((y + im) >> 2);
        w->real[j] = (int16_t)((x - r) >> 2);
        w->imaginary[j] = (int16_t)((y - im) >> 2);
    }
}"""

MEASURE = """\
/* The features of one signal; returns where the next ones go. */
static inline $OUT *@_measure(@_windows *w, const volatile int16_t *ring, uint_fast16_t first,
                               $OUT *out)
{
    uint_fast16_t i, at = first;
    int32_t last = ring[at], low = last, high = last, total = 0, change = 0, square = 0, mean, x;
    int32_t peak, up = 1, crossings = 0, deviation;
    int down = 0, side;
    for (i = 0; i < @@_SIZE; i++) {
        x = ring[at];
        total += x;
        if (x < low) low = x;
        if (x > high) high = x;
        change += x > last ? x - last : last - x;
        last = x;
        at = at + 1 < @@_ROOM ? at + 1 : 0;
    }
    total += @@_SIZE / 2;
    mean = total / @@_SIZE - (total % @@_SIZE < 0);
    peak = high - mean > mean - low ? high - mean : mean - low;
    if (peak) {
        for (; peak < 8192; peak += peak) up += up;
        for (; peak > 16383; peak >>= 1) down++;
    }
    at = first;
    side = ring[at] < mean;
    for (i = 0; i < @@_SIZE; i++) {
        x = ring[at] - mean;
        if ((x < 0) != side) {
            side = !side;
            crossings++;
        }
        x = x * up >> down;
        square += x * x / @@_SIZE;
        at = at + 1 < @@_ROOM ? at + 1 : 0;
    }
    deviation = @_rescaled(square, up, down);
    change /= @@_SIZE - 1;
    (void)w;
    (void)crossings;
    (void)deviation;
$VALUES$BANDS\
    return out;
}"""

VALUES = {
    "mean": "mean",
    "deviation": "deviation",
    "min": "low",
    "max": "high",
    "range": "(high - low < 32767 ? high - low : 32767)",
    "rms": "@_root((uint32_t)square)",
    "crossings": "crossings",
    "change": "(change < 32767 ? change : 32767)",
}
RMS = """\
    square = 0x3FFFFFFF - deviation * deviation;
    square = deviation * deviation + (mean * mean < square ? mean * mean : square);
"""
BANDS = """\
    @_transform(w, ring, first, mean, up, down);
    square = 0;
    at = 2; /* where the next octave begins */
    for (i = 1; i <= $N; i++) {
        uint_fast16_t j = i & ($N - 1);
        if (i == at && i < $N) {
            *out++ = @_rescaled(2 * square, up, down);
            square = 0;
            at += at;
        }
        square += (int32_t)w->real[j] * w->real[j] + (int32_t)w->imaginary[j] * w->imaginary[j];
    }
    *out++ = @_rescaled(2 * square, up, down);
"""

BYTE = """\
        x = at % $PER < $SIGNED ? (x + 32768) >> 8 : @_byte(x);
"""
PICK = f"""\
    for (i = 0; i < @@_FEATURES; i++) {{
        uint_fast16_t at = $PLACE;
        int32_t x = w->all[at];
{BYTE}\
        w->row[i] = ($TYPE)x;
    }}
"""
BYTE_OF = """\
/* A feature that is not negative as a byte: its leading five bits, and how many follow. */
static inline int32_t @_byte(int32_t v)
{
    int32_t code = 0;
    for (; v > 31; v >>= 1) code += 16;
    return code + v;
}"""

PUSH = """\
/* Stores a sample, NULL if it is missing, and does no more; returns 1 when a window is full. */
static inline int @_add(@_windows *w, const int16_t *sample)
{
    uint_fast16_t i, at = w->next, before = at ? at - 1 : @@_ROOM - 1;
    int32_t x, square = 0;
    for (i = 0; i < @@_CHANNELS; i++) {
        x = sample ? sample[i] : w->ring[i * @@_ROOM + before];
        if (x < -32767) x = -32767;
        w->ring[i * @@_ROOM + at] = (int16_t)x;
        square += x * x / @@_CHANNELS;
    }
    $MAGNITUDE
    at = at + 1 < @@_ROOM ? at + 1 : 0;
    w->next = (uint16_t)at;
    if (!w->begun) {
        w->begun = 1;
        w->wait = @@_SIZE;
    }
    if (w->late < 255) w->late++;
    if (--w->wait) return 0;
    w->wait = @@_STEP;
    w->first = (uint16_t)((at + @@_SPARE) % @@_ROOM);
    w->late = 0;
    w->full = 1;
    return 1;
}

/* Puts the features of the last full window into w->row; returns 1, or 0 if there are none: it was
 * computed before, or more than @@_SPARE samples have arrived since. */
static inline int @_compute(@_windows *w)
{
    uint_fast16_t i, first;
    $OUT *out = $TARGET;
    if (!w->full) return 0;
    do { /* again if an interrupt fills a window just now */
        w->full = 0;
        first = w->first;
    } while (w->full);
    for (i = 0; i < $SIGNALS; i++) out = @_measure(w, w->ring + i * @@_ROOM, first, out);
$PICK\
    return !w->full && w->late <= @@_SPARE;
}

/* Takes a sample, NULL if it is missing; returns 1 when a window is full and w->row is its row. */
static inline int @_push(@_windows *w, const int16_t *sample)
{
    return @_add(w, sample) && @_compute(w);
}"""


def about(windows: Windows, name: str) -> list[str]:
    """What the comment at the top of a header says about its windows."""
    return [
        f"int {name}_push({name}_windows *w, const int16_t *sample)  1 when w->row is ready",
        f"int {name}_add({name}_windows *w, const int16_t *sample)  for an interrupt: only stores it",
        f"int {name}_compute({name}_windows *w)  outside of it: 1 when w->row is ready",
        f"A sample is {', '.join(windows.channels)}; a row is of {windows.size} samples, every "
        f"{windows.step}.",
        "",
    ]


def in_c(windows: Windows, name: str, row_type: str, array: Array) -> str:
    """The functions that turn samples into rows; `array` adds one to the header."""
    n = windows.spectrum >> 1
    out, target, pick, all_of = row_type, "w->row", "", ""
    if windows.picks is not None or windows.bits == 8:
        out, target = "int16_t", "w->all"
        all_of = f"    int16_t all[{windows.signals * windows.per_signal}];\n"
        place = "i" if windows.picks is None else array("picks", windows.picks, "i")
        pick = PICK if windows.bits == 8 else PICK.replace(BYTE, "")
        pick = pick.replace("$PLACE", place).replace("$PER", str(windows.per_signal))
        signed = sum(name in FEATURES[:SIGNED] for name in windows.features)
        pick = pick.replace("$SIGNED", str(signed))
    values = "".join(
        (RMS if kind == "rms" else "") + f"    *out++ = ({out}){VALUES[kind]};\n"
        for kind in windows.features
        if kind != "bands"
    )
    magnitude = "(void)square;"
    if windows.magnitude:
        magnitude = "w->ring[@@_CHANNELS * @@_ROOM + at] = (int16_t)@_root((uint32_t)square);"
    parts = [
        f"#define @@_CHANNELS {windows.n_channels}\n#define @@_SIZE {windows.size}\n"
        f"#define @@_STEP {windows.step}",
        SPARE,
        STATE,
        ROOT,
        *([SPECTRUM] if n else []),
        MEASURE,
        *([BYTE_OF] if windows.bits == 8 else []),
        PUSH,
    ]
    text = "\n\n".join(parts)
    fill = {
        "$SPECTRUM": f"    int16_t real[{n}], imaginary[{n}];\n" if n else "",
        "$ALL": all_of,
        "$VALUES": values,
        "$BANDS": BANDS if n else "",
        "$MAGNITUDE": magnitude,
        "$TARGET": target,
        "$PICK": pick,
        "$TYPE": row_type,
        "$OUT": out,
        "$SIGNALS": str(windows.signals),
    }
    if n:
        sine = array("sine", windows.sine, "#")
        for at in ("i * turn", "i"):
            text_of = {"$COSINE": f"{at} + {n // 2}", "$SINE": at}
            fill |= {f"{mark}({at})": sine.replace("#", text_of[mark]) for mark in text_of}
        fill["$N"] = str(n)
    for mark, value in fill.items():
        text = text.replace(mark, value)
    return text.replace("@@", name.upper()).replace("@", name)
