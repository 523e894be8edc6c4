/* Candidates whose labels differ from the expected ones more often than they may: they are out, and run no further (label_limits.py). */

/* After how many samples candidates are looked at, whatever the size of a block. */
#define LOOKED_AFTER 128

/* Whether a candidate does not run on a block. */
static int is_out(const Batch *batch, int64_t i, int32_t block)
{
    const int32_t first = block * LANES;
    if (!batch->left) return 0;
    if (batch->met[i] < first) return 1; /* since an earlier block */
    return first % LOOKED_AFTER == 0 && (batch->left[2 * i] < 0 || batch->left[2 * i + 1] < 0);
}

/* Takes what labels of a block are others than the expected ones off those that a candidate has left. */
static void count_labels(const Program *program, const Batch *batch, int64_t i, int32_t block)
{
    const int32_t first = block * LANES, samples = samples_in(program, block);
    const Value *labels = batch->outputs + i * program->sample_count + first;
    for (int32_t k = 0; k < 2; k++) {
        const Value *expected = batch->expected + (int64_t)k * program->sample_count + first;
        int32_t others = 0;
        for (int32_t l = 0; l < samples; l++) others += labels[l] != expected[l];
        batch->left[2 * i + k] -= others;
    }
    batch->met[i] = first + samples;
}

/* As if candidates had run whose outputs are known. */
void kilotune_count_labels(const Program *program, const Batch *batch)
{
    for (int32_t k = 0; k < batch->count; k++)
        for (int32_t block = 0; block < program->block_count && !is_out(batch, batch->chosen[k], block); block++)
            count_labels(program, batch, batch->chosen[k], block);
}
