/* The linear model beside the trees that learn row by row: Linear of edgeforest/linear.py.
 *
 * Sums are added up in the order of the Python, so that both give the same answers.
 */
#include "online.h"

static const double RATE[EF_RATES] = RATES;

/* What the inputs of a row are multiplied by, and the places of their weights. */
static void read_row(const ef_grove *g, const float *row)
{
    int32_t place = 1;
    g->scaled[0] = 1.0;
    g->inputs[0] = 0;
    for (int32_t f = 0; f < g->plan.m; f++) {
        int32_t kinds = g->kinds[f];
        double x = (double)row[f], z = 1.0;
        g->inputs[f + 1] = place;
        if (kinds) {
            g->inputs[f + 1] += x >= 0 && x <= kinds ? (int32_t)x : 0;
        } else {
            z = x - x == 0 && g->squares[f] > 0 ? (x - g->means[f]) / sqrt(g->squares[f]) : 0.0;
            z = z > FAR ? FAR : z < -FAR ? -FAR : z;
        }
        g->scaled[f + 1] = z;
        place += kinds ? kinds + 1 : 1;
    }
}

/* How likely each class is, at a rate. */
EF_INLINE void share_out(const ef_grove *g, const double *weights, double *restrict sums, int32_t width)
{
    const double *restrict scaled = g->scaled;
    double most, total = 0.0;
    for (int32_t k = 0; k < width; k++)
        sums[k] = 0.0;
    for (int32_t i = 0; i <= g->plan.m; i++) {
        const double *w = weights + (size_t)g->inputs[i] * (size_t)width;
        for (int32_t k = 0; k < width; k++)
            sums[k] += w[k] * scaled[i];
    }
    most = sums[0];
    for (int32_t k = 1; k < width; k++)
        most = sums[k] > most ? sums[k] : most;
    for (int32_t k = 0; k < width; k++) {
        double part = 1.0 - (most - sums[k]) / 16.0; /* to the power of 16 that is nearly an exp */
        part = part > 0.0 ? part * part : 0.0;
        part *= part;
        part *= part;
        part *= part;
        sums[k] = part;
        total += part;
    }
    for (int32_t k = 0; k < width; k++)
        sums[k] /= total;
}

static void find_shares(const ef_grove *g, const double *weights)
{
    double two[2];
    if (g->plan.width == 2) { /* so often that it is compiled apart */
        share_out(g, weights, two, 2);
        memcpy(g->shares, two, sizeof two);
    } else {
        share_out(g, weights, g->shares, g->plan.width);
    }
}

/* Move the weights of a row's inputs by these steps. */
EF_INLINE void move(const ef_grove *g, double *weights, const double *restrict steps, int32_t width)
{
    const double *restrict scaled = g->scaled;
    for (int32_t i = 0; i <= g->plan.m; i++) {
        double *restrict w = weights + (size_t)g->inputs[i] * (size_t)width;
        for (int32_t k = 0; k < width; k++)
            w[k] -= steps[k] * scaled[i];
    }
}

static double *weights_at(const ef_grove *g, int rate)
{
    return g->weights + (size_t)rate * (size_t)g->plan.inputs * (size_t)g->plan.width;
}

/* Write the votes that the shares stand for. */
static void find_votes(const ef_grove *g, uint32_t *out)
{
    double whole = (double)(g->plan.scale * (uint32_t)g->plan.n_trees);
    for (int32_t k = 0; k < g->plan.width; k++)
        out[k] = (uint32_t)(g->shares[k] * whole + 0.5);
}

/* Count a row in means and spreads; old rows fade. */
static void scale(ef_grove *g, const float *row)
{
    for (int32_t f = 0; f < g->plan.m; f++) {
        double x = (double)row[f];
        if (g->kinds[f] || x - x != 0)
            continue;
        if (g->counted[f] < MEMORY)
            g->counted[f]++;
        double off = x - g->means[f], n = g->counted[f];
        g->means[f] += off / n;
        g->squares[f] += (off * (x - g->means[f]) - g->squares[f]) / n;
    }
}

void ef_linear_learn(ef_grove *g, const float *row, uint32_t label)
{
    size_t width = (size_t)g->plan.width;
    read_row(g, row);
    for (int r = 0; r < EF_RATES; r++) {
        double *weights = weights_at(g, r);
        find_shares(g, weights);
        find_votes(g, g->alone + (size_t)r * width);
        g->shares[label] -= 1.0; /* they are errors now, */
        for (size_t k = 0; k < width; k++)
            g->shares[k] *= RATE[r]; /* and steps */
        if (width == 2) {
            double two[2] = {g->shares[0], g->shares[1]};
            move(g, weights, two, 2);
        } else {
            move(g, weights, g->shares, g->plan.width);
        }
    }
    scale(g, row);
}

/* Change the votes of the trees into those of one who may answer: 0 the trees; odd a rate alone;
 * even with the trees. */
static inline void mix(int32_t choice, const uint32_t *alone, uint32_t *votes, size_t width)
{
    for (size_t k = 0; choice && k < width; k++)
        votes[k] = choice & 1 ? alone[k] : votes[k] + alone[k];
}

/* Whether one who may answer would have been wrong; of two classes, faster. */
static inline int is_wrong(const ef_grove *g, int32_t c, const uint32_t *votes, uint32_t label)
{
    size_t width = (size_t)g->plan.width;
    const uint32_t *alone = g->alone + (size_t)(c ? (c - 1) >> 1 : 0) * width;
    if (width == 2) {
        uint32_t two[2] = {votes[0], votes[1]};
        mix(c, alone, two, 2);
        return (two[1] > two[0]) != label;
    }
    memcpy(g->mixed, votes, width * sizeof *votes);
    mix(c, alone, g->mixed, width);
    return ef_largest(g->mixed, width) != label;
}

void ef_linear_judge(ef_grove *g, uint32_t *votes, uint32_t label)
{
    size_t width = (size_t)g->plan.width;
    int32_t before = g->choice;
    for (int32_t c = 0; c < EF_ANSWERS; c++) {
        int64_t wrong = is_wrong(g, c, votes, label);
        g->mix_losses[c] += wrong * (1 << 2 * LATELY) - (g->mix_losses[c] >> LATELY);
        if (g->mix_losses[c] < g->mix_losses[g->choice])
            g->choice = c;
    }
    mix(before, g->alone + (size_t)(before ? (before - 1) >> 1 : 0) * width, votes, width);
}

void ef_linear_vote(const ef_grove *g, const float *row, uint32_t *votes)
{
    if (!g->choice)
        return;
    read_row(g, row);
    find_shares(g, weights_at(g, (g->choice - 1) >> 1));
    find_votes(g, g->mixed);
    mix(g->choice, g->mixed, votes, (size_t)g->plan.width);
}
