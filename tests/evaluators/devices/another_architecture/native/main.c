/* Runs the samples of in.bin; out.bin gets each result, and how many operations the inference took. */
#include "harness.h"

#include <stdio.h>

static FILE *trace_file;
static int64_t operations;

void kt_hook(int32_t row, const void *ram, size_t bytes)
{
    operations++;
    if (!trace_file) return;
    fwrite(&row, sizeof row, 1, trace_file);
    fwrite(ram, bytes, 1, trace_file);
}

int main(int count, char **names)
{
    static KT_INPUT_TYPE input[KT_FEATURES ? KT_FEATURES : 1];
    static KT_RESULT_TYPE output[KT_RESULTS];
    FILE *in = fopen("in.bin", "rb"), *out = fopen("out.bin", "wb");
    if (count > 1) trace_file = fopen(names[1], "wb");
    while (fread(input, sizeof input, 1, in) == 1) {
        operations = 0;
        KT_INFER(input, output);
        fwrite(output, sizeof output, 1, out);
        fwrite(&operations, sizeof operations, 1, out);
    }
    if (trace_file) fclose(trace_file);
    return fclose(out);
}
