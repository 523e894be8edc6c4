/* Tables of a function of 8-bit arguments, looked up in registers where the processor has shuffles for it. */

#define ENTRIES 256

static inline void look_up_one_by_one(const Table *table, const int16_t *from, int samples, int16_t *to)
{
    const int16_t *entries = table->entries;
    if (table->short_arguments)
        for (int l = 0; l < samples; l++) to[l] = entries[(uint8_t)from[l]];
    else
        for (int l = 0; l < samples; l++) to[l] = entries[(uint16_t)from[l]];
}

#if defined(__AVX512BW__)
/* 64 entries in two registers at a time; the bits above choose among four. */
static inline Bits entries_of(const int16_t *entries, Bits arguments)
{
    const Bits *row = (const Bits *)entries;
    const __mmask32 bit6 = _mm512_test_epi16_mask(arguments, _mm512_set1_epi16(64));
    const __mmask32 bit7 = _mm512_test_epi16_mask(arguments, _mm512_set1_epi16(128));
    Bits quarter[4];
    for (int k = 0; k < 4; k++)
        quarter[k] = _mm512_permutex2var_epi16(_mm512_loadu_si512(row + 2 * k), arguments, _mm512_loadu_si512(row + 2 * k + 1));
    return _mm512_mask_blend_epi16(bit7, _mm512_mask_blend_epi16(bit6, quarter[0], quarter[1]),
                                   _mm512_mask_blend_epi16(bit6, quarter[2], quarter[3]));
}

static inline void look_up_short(const Table *table, const int16_t *from, int samples, int16_t *to)
{
    for (int v = 0; v * VECTOR_LANES < samples; v++)
        store_shorts(to + v * VECTOR_LANES, (Shorts)entries_of(table->entries, (Bits)load_shorts(from + v * VECTOR_LANES)));
}
#elif defined(__AVX2__)
/* Bytes of 256: 16 at a time by the lower half of each argument; the upper bits choose among sixteen. */
static inline Bits bytes_of(const uint8_t *bytes, Bits arguments)
{
    const Bits place = _mm256_and_si256(arguments, _mm256_set1_epi8(15));
    Bits row[16];
    _Pragma("GCC unroll 16") for (int k = 0; k < 16; k++)
        row[k] = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)bytes + k)), place);
    _Pragma("GCC unroll 4") for (int bit = 4; bit < 8; bit++)
    {
        const Bits chosen = _mm256_slli_epi16(arguments, 7 - bit); /* that bit is the highest of its byte now */
        _Pragma("GCC unroll 8") for (int k = 0; k < 128 >> bit; k++)
            row[k] = _mm256_blendv_epi8(row[2 * k], row[2 * k + 1], chosen);
    }
    return row[0];
}

static inline void look_up_short(const Table *table, const int16_t *from, int samples, int16_t *to)
{
    const uint8_t *bytes = (const uint8_t *)(table->entries + ENTRIES);
    for (int v = 0; v * VECTOR_LANES < samples; v += 2) {
        const Bits arguments = _mm256_packs_epi16((Bits)load_shorts(from + v * VECTOR_LANES),
                                                  (Bits)load_shorts(from + (v + 1) * VECTOR_LANES));
        const Bits low = bytes_of(bytes, arguments);
        const Bits high = table->short_results ? _mm256_cmpgt_epi8(_mm256_setzero_si256(), low) : bytes_of(bytes + ENTRIES, arguments);
        store_shorts(to + v * VECTOR_LANES, (Shorts)_mm256_unpacklo_epi8(low, high));
        store_shorts(to + (v + 1) * VECTOR_LANES, (Shorts)_mm256_unpackhi_epi8(low, high));
    }
}
#elif defined(NEON)
/* Bytes of 256: 64 at a time; an argument beyond them leaves what is there. */
static inline uint8x16_t bytes_of(const uint8_t *bytes, uint8x16_t arguments)
{
    uint8x16_t found = vdupq_n_u8(0);
    _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++)
        found = vqtbx4q_u8(found, vld1q_u8_x4(bytes + 64 * k), vsubq_u8(arguments, vdupq_n_u8((uint8_t)(64 * k))));
    return found;
}

static inline void look_up_short(const Table *table, const int16_t *from, int samples, int16_t *to)
{
    const uint8_t *bytes = (const uint8_t *)(table->entries + ENTRIES);
    for (int v = 0; v * VECTOR_LANES < samples; v += 2) {
        const uint8x16_t arguments = vuzp1q_u8((uint8x16_t)load_shorts(from + v * VECTOR_LANES),
                                               (uint8x16_t)load_shorts(from + (v + 1) * VECTOR_LANES));
        const uint8x16_t low = bytes_of(bytes, arguments);
        const uint8x16_t high = table->short_results ? vcltzq_s8((int8x16_t)low) : bytes_of(bytes + ENTRIES, arguments);
        store_shorts(to + v * VECTOR_LANES, (Shorts)vzip1q_u8(low, high));
        store_shorts(to + (v + 1) * VECTOR_LANES, (Shorts)vzip2q_u8(low, high));
    }
}
#else
static inline void look_up_short(const Table *table, const int16_t *from, int samples, int16_t *to) { look_up_one_by_one(table, from, samples, to); }
#endif

static inline void look_up(const Table *table, const int16_t *from, int samples, int16_t *to)
{
    if (table->short_arguments) look_up_short(table, from, samples, to);
    else look_up_one_by_one(table, from, samples, to);
}
