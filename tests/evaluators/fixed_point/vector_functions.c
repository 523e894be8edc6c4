/* The functions of evaluators/fixed_point/vectors.h and lookup.h against what they mean number by number, on random bits. Prints the
 * unit and ends with 0, or prints the first function that differs. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "vectors.h"

#define LANES 64
typedef struct {
    const int16_t *entries;
    int32_t short_arguments, short_results;
} Table;
#include "lookup.h"

#define HALF (VECTOR_LANES / 2)
#define TURNS 2000

static uint64_t state = 88172645463325252u;
static uint32_t drawn(void)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 16);
}

static const char *wrong;
static void expect(int is_right, const char *name)
{
    if (!is_right && !wrong) wrong = name;
}

static void fill(int16_t *to, int count)
{
    static const int16_t ends[] = {0, 1, -1, 127, -128, 128, 255, 256, 32767, -32768, -32767};
    for (int l = 0; l < count; l++) to[l] = drawn() % 4 ? (int16_t)drawn() : ends[drawn() % 11];
}

/* Which sample each number of two halves is of, as far as `narrow` tells. */
static void find_samples(int *of)
{
    Ints low, high;
    memset(&low, 0, sizeof low), memset(&high, 0, sizeof high);
    for (int k = 0; k < HALF; k++) low[k] = k, high[k] = HALF + k;
    const Shorts both = narrow(low, high);
    for (int l = 0; l < VECTOR_LANES; l++) of[both[l]] = l;
}

static int32_t half(Ints low, Ints high, int k) { return k < HALF ? low[k] : high[k - HALF]; }

static void check_turn(const int *of)
{
    int16_t numbers[4][VECTOR_LANES], w0 = (int16_t)drawn(), w1 = (int16_t)drawn();
    Shorts v[4];
    for (int k = 0; k < 4; k++) {
        fill(numbers[k], VECTOR_LANES);
        memcpy(&v[k], numbers[k], sizeof v[k]);
    }
    const int16_t *x = numbers[0], *y = numbers[1], *a = numbers[2], *b = numbers[3];
    Ints low, high, sums[2], fixed[2];
    multiply_shorts(v[0], v[1], &low, &high);
    for (int k = 0; k < 2; k++) sums[k] = fixed[k] = all_ints((int32_t)drawn());
    const Ints first[2] = {sums[0], sums[1]}, second[2] = {fixed[0], fixed[1]};
    multiply_add(&sums[0], &sums[1], pair_up(v[0], v[1]), pair_up(v[2], v[3]));
    multiply_add(&fixed[0], &fixed[1], pair_up(v[0], v[1]), all_pairs((int32_t)((uint32_t)(uint16_t)w1 << 16 | (uint16_t)w0)));
    const int n = 1 + (int)(drawn() % 15), wide = 1 + (int)(drawn() % 31), down = 1 + (int)(drawn() % 16);
    const Shorts bytes = low_bytes(v[0]), upper = multiply_high(v[0], v[1]), less = shorts_toward_zero(v[0], n);
    const Shorts pair = shift_pair(v[0], v[1], down);
    const Ints lower = ints_toward_zero(low, wide);
    const Shorts halves = low_halves(low, high);
    for (int k = 0; k < VECTOR_LANES; k++) {
        const int l = of[k];
        expect(half(widen(v[0], 0), widen(v[0], 1), k) == x[l], "widen");
        expect(half(low, high, k) == x[l] * y[l], "multiply_shorts");
        expect(half(sums[0], sums[1], k) == (int32_t)((uint32_t)half(first[0], first[1], k) + (uint32_t)(x[l] * a[l]) +
                                                        (uint32_t)(y[l] * b[l])), "multiply_add");
        expect(half(fixed[0], fixed[1], k) == (int32_t)((uint32_t)half(second[0], second[1], k) + (uint32_t)(x[l] * w0) +
                                                          (uint32_t)(y[l] * w1)), "all_pairs");
        expect(k >= HALF || lower[k] == (int32_t)(low[k] / ((int64_t)1 << wide)), "ints_toward_zero");
    }
    for (int l = 0; l < VECTOR_LANES; l++) {
        expect(bytes[l] == (int8_t)x[l], "low_bytes");
        expect(halves[l] == (int16_t)(x[l] * y[l]), "low_halves");
#ifdef HAS_SIGNS
        const uint16_t size = (uint16_t)(x[l] < 0 ? -x[l] : x[l]);
        expect((uint16_t)size_of(v[0])[l] == size, "size_of");
        expect(with_sign(v[1], v[0])[l] == (int16_t)(x[l] ? x[l] < 0 ? -y[l] : y[l] : 0), "with_sign");
        expect((uint16_t)multiply_high_sizes(v[0], v[1])[l] == (uint32_t)(uint16_t)x[l] * (uint16_t)y[l] >> 16, "multiply_high_sizes");
#endif
        expect(upper[l] == (int16_t)((x[l] * y[l]) >> 16), "multiply_high");
        expect(less[l] == (int16_t)(x[l] / (1 << n)), "shorts_toward_zero");
        expect(pair[l] == (int16_t)((int32_t)((uint32_t)(uint16_t)x[l] << 16 | (uint16_t)y[l]) >> down), "shift_pair");
    }
}

static void check_tables(void)
{
    int16_t arguments[LANES] __attribute__((aligned(64))), results[LANES] __attribute__((aligned(64)));
    int16_t entries[2 * ENTRIES] __attribute__((aligned(64)));
    for (int short_results = 0; short_results < 2; short_results++) {
        uint8_t *bytes = (uint8_t *)(entries + ENTRIES);
        fill(entries, ENTRIES);
        for (int k = 0; k < ENTRIES; k++) {
            if (short_results) entries[k] = (int8_t)entries[k];
            bytes[k] = (uint8_t)entries[k], bytes[ENTRIES + k] = (uint8_t)(entries[k] >> 8);
        }
        for (int l = 0; l < LANES; l++) arguments[l] = (int8_t)drawn();
        const Table table = {entries, 1, short_results};
        look_up(&table, arguments, LANES, results);
        for (int l = 0; l < LANES; l++) expect(results[l] == entries[(uint8_t)arguments[l]], "look_up");
    }
}

int main(void)
{
    int of[VECTOR_LANES];
    find_samples(of);
    for (int turn = 0; turn < TURNS; turn++) {
        check_turn(of);
        if (turn % 10 == 0) check_tables();
    }
    if (wrong) printf("%s: wrong\n", wrong);
    else puts(VECTOR_UNIT);
    return wrong != 0;
}
